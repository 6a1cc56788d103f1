"""What the engine and an app host say to each other: frames of a length and a message.

Messages are JSON, not msgpack, since what apps give is JSON data, whose whole numbers may be of
any size. One request is answered before the next one is sent; ids tell a late answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from ...events.values import json_bytes
from ..authoring.task import TaskView
from ..projects.model import AppManifest

VERSION = 1
"""Of this protocol. Both sides must have the same."""

LIMIT = 32 * 1024 * 1024
"""Bytes of a message."""

HEADER = 4


class WireError(Exception):
    """What came is no message of this protocol."""


class Unsendable(Exception):
    """A message can't be sent: it is too large, or not all of it is JSON data."""


class Request(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something to do."""

    id: int
    deadline: float
    """Seconds that apps' code may take for it."""


class Open(Request, frozen=True, kw_only=True):
    """Import the apps and have a world ready. The answer: null."""

    environment: str
    folder: str
    root: str
    """Of a WorldSource, as the host sees them."""
    apps: list[AppManifest]
    task: TaskView
    seed: int


class Reset(Request, frozen=True, kw_only=True):
    """Make the world. The answer: WorldReset."""


class Actions(Request, frozen=True, kw_only=True):
    """What an agent may do. The answer: a list of ActionSent."""


class Act(Request, frozen=True, kw_only=True):
    """Take an action. The answer: Acted."""

    name: str
    arguments: dict[str, Any]
    app: str | None


class Query(Request, frozen=True, kw_only=True):
    """Ask a read-only action. The answer is the app's."""

    app: str
    name: str
    arguments: dict[str, Any]


class Final(Request, frozen=True, kw_only=True):
    """Each app's state now. The answer: a mapping."""


class Close(Request, frozen=True, kw_only=True):
    """End the world. The answer is `Ended`."""


AnyRequest: TypeAlias = Open | Reset | Actions | Act | Query | Final | Close


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The host is there. Its first message, in every version."""

    version: int
    python: str
    trialog: str


class Done(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The answer to a request."""

    id: int
    value: msgspec.Raw


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A query that the app does not answer."""

    id: int
    message: str


class Faulted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An app's own code failed; the world is of no more use."""

    id: int
    app: str
    hook: str
    message: str


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The world's process has ended; the host is ready for another one."""

    clean: bool
    """It was asked to."""
    timed_out: bool
    app: str
    """What ran last: an app and its hook or action; empty before any."""
    hook: str
    how: str
    """``exit code 3``"""
    place: str | None
    """``env.py:14``, where that could be told."""
    output: str
    """The end of what its code printed."""


Answer: TypeAlias = Done | Refused | Faulted | Ended
AnyAnswer: TypeAlias = Hello | Answer


class ActionSent(msgspec.Struct, frozen=True, kw_only=True):
    """An action without its types, which are the app's own; their JSON schemas go instead."""

    app: str
    name: str
    description: str
    readonly: bool
    parameters: list[tuple[str, bool]]
    """Names, and whether they are required."""
    schema: dict[str, Any]


def frame(message: AnyRequest | AnyAnswer) -> bytes:
    """A message as it goes over the wire, with U+FFFD for lone surrogates. Raises Unsendable."""
    try:
        body = json_bytes(message)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unsendable(str(error)) from error
    if len(body) > LIMIT:
        raise Unsendable(_over(len(body)))
    return len(body).to_bytes(HEADER, "big") + body


def body_size(header: bytes) -> int:
    """The length that a frame's header tells. Raises WireError."""
    size = int.from_bytes(header, "big")
    if size > LIMIT:
        raise WireError(_over(size))
    return size


def _over(size: int) -> str:
    return f"a message of {size} bytes; at most {LIMIT} are allowed"


_requests: msgspec.json.Decoder[AnyRequest] = msgspec.json.Decoder(AnyRequest)
_answers: msgspec.json.Decoder[AnyAnswer] = msgspec.json.Decoder(AnyAnswer)


def decode_request(body: bytes) -> AnyRequest:
    """A request. Raises WireError."""
    try:
        return _requests.decode(body)
    except msgspec.DecodeError as error:
        raise WireError(f"what came is no request: {error}") from error


def decode_answer(body: bytes) -> AnyAnswer:
    """An answer. Raises WireError."""
    try:
        return _answers.decode(body)
    except msgspec.DecodeError as error:
        raise WireError(f"what came is no answer: {error}") from error


class Frames:
    """Frames out of bytes that come in pieces."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> None:
        """Add bytes."""
        self._held += data

    def take(self) -> Iterator[bytes]:
        """The bodies that are whole by now. Raises WireError."""
        while len(self._held) >= HEADER:
            end = HEADER + body_size(bytes(self._held[:HEADER]))
            if len(self._held) < end:
                return
            body = bytes(self._held[HEADER:end])
            del self._held[:end]
            yield body
