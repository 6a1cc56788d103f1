"""What an event keeps of a request: of a conversation that grows, only what is new. Pure.

As for `chat`: the event of the call before is named under ``continues``, and the messages of both,
one after the other, are what was sent. Fields of INHERITED that are left out are as they were.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from .loose import as_list

REMEMBERED = 32
"""Calls that another may continue."""

MOST_MESSAGES = 10_000
"""Of a call that is remembered; one with more is told whole, and none continues it."""

INHERITED = ("tools", "system", "instructions")
_LISTS = ("messages", "input")


class _Call(NamedTuple):
    event: str
    field: str
    messages: list[bytes]
    inherited: dict[str, bytes]


class Conversations:
    """The conversations of one trial, as digests."""

    def __init__(self) -> None:
        self._calls: deque[_Call] = deque(maxlen=REMEMBERED)

    def new_in(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """What an event has of a request."""
        described = _described("", request)
        before = None if described is None else self._longest(described)
        if described is None or before is None:
            return dict(request)
        kept = {
            name: value
            for name, value in request.items()
            if name not in INHERITED or described.inherited[name] != before.inherited.get(name)
        }
        new = as_list(request[described.field])[len(before.messages) :]
        return {**kept, described.field: new, "continues": before.event}

    def recorded(self, event: str, request: Mapping[str, Any]) -> None:
        """A call is in the log, so that another may continue it."""
        described = _described(event, request)
        if described is not None:
            self._calls.append(described)

    def _longest(self, call: _Call) -> _Call | None:
        found: _Call | None = None
        for before in self._calls:
            begins = call.field == before.field and (
                call.messages[: len(before.messages)] == before.messages
            )
            # What it left out can't be told by leaving it out.
            if begins and before.inherited.keys() <= call.inherited.keys():
                if found is None or len(before.messages) >= len(found.messages):
                    found = before
        return found


def _described(event: str, request: Mapping[str, Any]) -> _Call | None:
    field = next((name for name in _LISTS if isinstance(request.get(name), list)), None)
    if field is None:
        return None
    given = as_list(request[field])
    if len(given) > MOST_MESSAGES:
        return None
    messages = [_digest(message) for message in given]
    inherited = {name: _digest(request[name]) for name in INHERITED if name in request}
    return _Call(event, field, messages, inherited)


def _digest(value: Any) -> bytes:
    return hashlib.sha256(msgspec.json.encode(value)).digest()
