"""The tree hash agrees with the definition in RFC 9162."""

from __future__ import annotations

from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from trialog.events.merkle import tree_root


def by_definition(leaves: list[bytes]) -> bytes:
    """MTH as section 2.1.1 writes it, split at the largest power of two below n."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return sha256(b"\x00" + leaves[0]).digest()
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return sha256(b"\x01" + by_definition(leaves[:k]) + by_definition(leaves[k:])).digest()


@given(st.lists(st.binary(max_size=40), max_size=40))
def test_root_is_the_definition_s(leaves: list[bytes]) -> None:
    """Any list of leaves has the root that the definition gives."""
    assert tree_root(leaves) == by_definition(leaves)


def test_known_roots() -> None:
    """The empty tree, and one empty leaf, have their published hashes."""
    assert tree_root([]).hex() == (
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    )
    assert tree_root([b""]).hex() == (
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    )
