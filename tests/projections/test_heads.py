"""Heads that a job recorded, whatever is among them."""

from __future__ import annotations

import json

import pytest

from trialog.events.envelope import RecordedEvent
from trialog.events.errors import LogCorrupt
from trialog.projections.heads import RecordedHeads
from trialog.projections.names import Names


def event(version: int, hash: int) -> RecordedEvent:
    """An event of the execution `a`."""
    return RecordedEvent(
        position=version,
        stream="trial/a",
        version=version,
        kind="X",
        schema=1,
        id="",
        at="",
        causation=None,
        ignorable=False,
        data="{}",
        hash=bytes([hash]) * 32,
    )


def test_a_head_is_known_whatever_lies_beside_it() -> None:
    """What is no head is passed over, the last head stands, and one that is cut is none's hash."""
    heads = RecordedHeads(Names(["a", "b", "c"]))
    listed = [
        {"trial": "a", "version": 2, "hash": "02" * 32},
        {"trial": "a", "version": 1, "hash": "01" * 32},
        {"trial": "a", "version": 2**70, "hash": "01" * 32},
        {"trial": "elsewhere", "version": 1, "hash": "01" * 32},
        {"trial": "a", "version": 3, "hash": "no hex"},
        {"trial": "a"},
        7,
        {"trial": "b", "version": 1, "hash": "01"},
        {"trial": "c", "version": 1, "hash": "01" * 32},
    ]
    heads.listed(json.dumps(listed).encode())
    heads.listed(b"[{")
    heads.check("a", [event(1, 1), event(2, 2), event(3, 3)])
    heads.check("elsewhere", [])
    for trial, events, what in [
        ("a", [event(1, 1)], "ends before"),
        ("a", [event(1, 1), event(2, 1)], "has another event than"),
        ("b", [], "ends before"),
        ("c", [event(1, 1)], "ends before"),
    ]:
        with pytest.raises(LogCorrupt, match=f"it {what} what JobFinished recorded"):
            heads.check(trial, events)


def test_no_head_says_nothing() -> None:
    """An execution that was scheduled after its job had finished is in order."""
    names = Names(["a"])
    heads = RecordedHeads(names)
    heads.listed(b"[]")
    names.add("later")
    heads.check("a", [])
    heads.check("later", [])
