"""Blob references inside values, and users' values as they were before they were stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from ..events.values import BlobRef, Json, Text, as_blob_ref, unescape, valid_text


def reference(value: Json | Text | None) -> BlobRef | None:
    """The blob that a stored value is in, or None where the value itself is there."""
    try:
        return as_blob_ref(value)
    except msgspec.ValidationError:
        return None  # no writer of ours stores such a thing; it names no blob


def full_text(text: Text, blobs: Mapping[str, bytes]) -> str:
    """A text, out of its blob where it is in one."""
    return text if isinstance(text, str) else valid_text(blobs[text.blob])[0]


def full_value(value: Json, blobs: Mapping[str, bytes]) -> Json:
    """A user's value as it was before it was stored. A blob holds JSON, else plain text."""
    if (ref := reference(value)) is not None:
        data = blobs[ref.blob]
        try:
            value = msgspec.json.decode(data)
        except msgspec.DecodeError:
            return valid_text(data)[0]
    return unescape(value)


def score_names(scores: dict[str, float]) -> dict[str, float]:
    """Scores by the names that they were given. None of those can be taken for a blob's."""
    return cast("dict[str, float]", unescape(scores))
