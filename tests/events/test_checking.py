"""A stream's hash chain, and the blobs that payloads name."""

from __future__ import annotations

import msgspec
import pytest

from helpers.given import recorded, trial
from trialog.events.checking import ChainCheck, check_chain, named_blobs
from trialog.events.errors import LogCorrupt, said
from trialog.events.values import blob_ref

REF = blob_ref(b"x")
NAMED = f'{{"$blob":"{REF.blob}","size":1}}'


def test_a_chain_is_followed_in_pieces() -> None:
    """Piece by piece or at once; an event left out between the pieces is missed."""
    events = recorded("trial/t", trial())
    check_chain(events)
    check_chain([])
    whole = ChainCheck("trial/t")
    for event in events:
        whole.follow([event])
    assert len(events) == whole.version

    cut = ChainCheck("trial/t")
    cut.follow(events[:3])
    with pytest.raises(LogCorrupt, match=r"'trial/t' version 4: this event is missing.* is 5"):
        cut.follow(events[4:])
    assert 3 == cut.version


def test_a_chain_is_its_streams() -> None:
    """A stream under another one's name does not fit from its first event on."""
    with pytest.raises(LogCorrupt, match="version 1"):
        ChainCheck("trial/u").follow(recorded("trial/t", trial()))


def test_positions_rise() -> None:
    """They are no part of the hash, and begin at 1 and rise with the versions all the same."""
    first, second, third = recorded("trial/t", trial())[:3]
    check_chain([first, msgspec.structs.replace(second, position=7)])
    for found, changed in (
        (1, [msgspec.structs.replace(one, position=-one.position) for one in (first, second)]),
        (1, [msgspec.structs.replace(first, position=0)]),
        (2, [first, msgspec.structs.replace(second, position=1)]),
        (3, [first, msgspec.structs.replace(second, position=3), third]),
    ):
        with pytest.raises(LogCorrupt, match=rf"'trial/t' version {found}: .* begin at 1 and rise"):
            check_chain(changed)


@pytest.mark.parametrize(("data", "found"), [
    (f'{{"kind":"x","a":[1,{{"b":{NAMED}}}],"c":{NAMED}}}', 2),
    ('{"kind":"x","text":"\\"$blob\\""}', 0),
    (f'{{"files":{{"$blob":"{REF.blob}","size":"1"}}}}', 0),
    (f'{{"a":{{"$blob":"{REF.blob}","size":1,"more":1}}}}', 0),
    ('{"a":{"$$blob":"x","size":1}}', 0),
    ('{"$blob"', 0),
    ('{"a":1}', 0),
])  # fmt: skip
def test_blobs_are_found_in_a_payload(data: str, found: int) -> None:
    """At any depth; what only looks like a reference is none."""
    assert [REF] * found == list(named_blobs(data))


def test_an_error_of_the_systems_in_words() -> None:
    """With its paths and without its number."""
    assert "/a: No such file" == said(OSError(2, "No such file", "/a"))
    assert "/a → b: No such file" == said(OSError(2, "No such file", "/a", None, b"b"))
    assert "No such file" == said(OSError(2, "No such file", 7))
    assert "odd" == said(OSError("odd"))
    assert "bad" == said(ValueError("bad"))
