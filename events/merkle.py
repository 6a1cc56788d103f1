"""The Merkle tree hash of RFC 9162, section 2.1.1, over a list of byte strings."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256


def tree_root(leaves: Sequence[bytes]) -> bytes:
    """The tree's root, 32 bytes. That of no leaves is the SHA-256 of nothing."""
    if not leaves:
        return sha256(b"").digest()
    # Joining neighbours level by level, with an odd last one carried up, builds the same tree as
    # the definition's split at the largest power of two.
    level = [sha256(b"\x00" + leaf).digest() for leaf in leaves]
    while len(level) > 1:
        joined = [
            sha256(b"\x01" + level[i] + level[i + 1]).digest() for i in range(0, len(level) - 1, 2)
        ]
        if len(level) % 2:
            joined.append(level[-1])
        level = joined
    return level[0]
