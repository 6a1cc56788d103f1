"""Values inside payloads: blob references, escaped user data, text that may not be Unicode.

A blob reference is the JSON object ``{"$blob": "sha256:…", "size": n}``. So that data of a user's
own can't forge one, each key of his that begins with ``$`` is stored with one ``$`` more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import msgspec

Json: TypeAlias = Any
"""A JSON value of a user's, escaped; or a blob reference in its place."""

INLINE_LIMIT = 16 * 1024
"""Bytes of encoded JSON or text that an event holds itself; larger values become blobs."""


class BlobRef(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The name of a blob: its SHA-256 and its length in bytes."""

    blob: str = msgspec.field(name="$blob")
    size: int


Text: TypeAlias = str | BlobRef
"""Text, or the blob that holds it (UTF-8) when it is over INLINE_LIMIT."""


def blob_ref(data: bytes) -> BlobRef:
    """The reference that names these bytes."""
    return BlobRef(blob=f"sha256:{hashlib.sha256(data).hexdigest()}", size=len(data))


def escape(value: Json) -> Json:
    """A user's JSON value with every ``$…`` key of his escaped, at any depth."""
    match value:
        case dict():
            items = cast("dict[str, Json]", value)
            return {f"${k}" if k.startswith("$") else k: escape(v) for k, v in items.items()}
        case list() | tuple():
            return [escape(item) for item in cast("Sequence[Json]", value)]
        case _:
            return value


def unescape(value: Json) -> Json:
    """The inverse of `escape`; blob references stay as they are."""
    match value:
        case dict():
            items = cast("dict[str, Json]", value)
            return {k[1:] if k.startswith("$$") else k: unescape(v) for k, v in items.items()}
        case list():
            return [unescape(item) for item in cast("Sequence[Json]", value)]
        case _:
            return value


def as_blob_ref(value: Json) -> BlobRef | None:
    """The reference that a stored value is, or None when it is a user's own value."""
    if isinstance(value, BlobRef):
        return value
    if isinstance(value, dict):
        items = cast("dict[str, Json]", value)
        if items.keys() == {"$blob", "size"}:
            return msgspec.convert(items, BlobRef)
    return None


def valid_text(data: bytes) -> tuple[str, bool]:
    """Bytes as text, with U+FFFD for what is not UTF-8; and whether anything was replaced."""
    try:
        return data.decode("utf-8"), False
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), True


def without_surrogates(text: str) -> tuple[str, bytes | None]:
    """Text that UTF-8 can hold; and the raw bytes beside it when it could not as it was."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raw = text.encode("utf-8", "surrogatepass")
        try:  # names of files carry undecodable bytes as lone low surrogates
            raw = text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            pass
        clean = "".join("\ufffd" if 0xD800 <= ord(c) <= 0xDFFF else c for c in text)
        return clean, raw
    return text, None
