"""Whether what a regrade would read is there and unaltered, for a plan of it."""

from __future__ import annotations

from collections.abc import Iterable

from ...events.errors import BlobAltered, BlobMissing
from ...events.log import BlobStore
from ...events.values import BlobRef
from .plan import Refusal, unreadable


async def lost_blob(blobs: BlobStore, refs: Iterable[BlobRef]) -> Refusal | None:
    """The refusal for the first of these whose bytes are missing or altered."""
    for ref in refs:
        try:
            await blobs.check(ref)
        except (BlobMissing, BlobAltered) as error:
            return unreadable(error)
    return None
