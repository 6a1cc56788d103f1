"""Values of others on their way into an event: escaped, and as a blob where they are large."""

from __future__ import annotations

from ..events.log import BlobStore
from ..events.values import INLINE_LIMIT, Json, Text, as_json, escape, without_surrogates


async def store_json(value: Json, blobs: BlobStore, *, room: int = INLINE_LIMIT) -> Json:
    """A JSON value as an event holds it. A blob holds what the event would: the escaped JSON."""
    escaped, encoded = as_json(escape(value))
    return escaped if len(encoded) <= room else await blobs.put(encoded)


async def store_text(text: str, blobs: BlobStore) -> Text:
    """Text as an event holds it. A blob holds it as UTF-8."""
    text = without_surrogates(text)[0]
    encoded = text.encode()
    return text if len(encoded) <= INLINE_LIMIT else await blobs.put(encoded)
