"""What the engine and a hook process say to each other: frames of msgpack over two pipes.

An episode travels as JSON, as it is in the log, since msgpack has no integers beyond 64 bits.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from ..authoring.views import QueryRefused
from .protocol import HookFault, HookSource

Hook: TypeAlias = Literal["reward", "check", "hindsight"]

FRAME = 4
"""Bytes of the length that each frame begins with, little-endian."""


class Source(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A verifier's code, as the process needs it."""

    name: str
    version: str
    digest: str
    weight: float
    folder: str
    root: str
    check: str | list[str] | None
    reward: str | None
    hindsight: str | None

    @property
    def key(self) -> tuple[str, str, str]:
        """What its modules are kept by."""
        return self.digest, self.folder, self.root


class Call(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One call of a hook: of which source, and of which step for a reward."""

    source: int
    hook: Hook
    step: int = -1


class Outcome(msgspec.Struct, array_like=True, gc=False):
    """What came of a call."""

    value: float | None = None
    """A reward, or a check's score."""
    body: bytes = b""
    """JSON: a CheckGiven, or the list of a hindsight's credits."""
    fault: HookFault | None = None
    taken: int = 0
    """Nanoseconds that it took."""
    unrewarded: bool = False
    """A check that read the rewards of a work without them; nothing came of it."""


class Work(msgspec.Struct, array_like=True, tag=True, gc=False):
    """Calls on one episode, to be made in order.

    A hindsight is given `score` or, if not `scored`, what the checks among the calls come to; if
    one of them has failed, it isn't called. `done` are outcomes of an earlier try, not made again.
    """

    seq: int
    sources: list[Source]
    calls: list[Call]
    episode: bytes
    score: float | None = None
    scored: bool = False
    verdicts: dict[str, str] = {}
    """Ids that the events of the scores will have, by verifier."""
    done: list[Outcome] = []
    broken: dict[int, HookFault] = {}
    """Sources whose files can't be loaded, by index."""
    live: bool = False
    """Queries are answered by the engine; else by the record."""
    unrewarded: bool = False
    """Its checks are made without the rewards, as long as none reads them."""


class Answer(msgspec.Struct, array_like=True, tag=True, gc=False):
    """The answer to a question."""

    answer: bytes = b"null"
    refused: str | None = None

    def given(self) -> Any:
        """The answer itself. Raises QueryRefused."""
        if self.refused is not None:
            raise QueryRefused(self.refused)
        return msgspec.json.decode(self.answer)


class Ready(msgspec.Struct, array_like=True, tag=True, gc=False):
    """The process can be given work."""


class Given(msgspec.Struct, array_like=True, tag=True, gc=False):
    """One call's outcome."""

    seq: int
    index: int
    outcome: Outcome


class Finished(msgspec.Struct, array_like=True, tag=True, gc=False):
    """A work is done; it took this many nanoseconds."""

    seq: int
    busy: int


class Question(msgspec.Struct, array_like=True, tag=True, gc=False):
    """A hook asks an app; the process waits for the Answer."""

    seq: int
    app: str
    action: str
    arguments: bytes


class Leaving(msgspec.Struct, array_like=True, tag=True, gc=False):
    """The process can't be trusted with another call, because of what a hook left behind."""

    reason: str


ToProcess: TypeAlias = Work | Answer
ToEngine: TypeAlias = Ready | Given | Finished | Question | Leaving

encoder = msgspec.msgpack.Encoder()
to_process = msgspec.msgpack.Decoder(ToProcess)
to_engine = msgspec.msgpack.Decoder(ToEngine)


def frame(message: ToProcess | ToEngine) -> bytes:
    """A message with its length in front."""
    buffer = bytearray(FRAME)
    encoder.encode_into(message, buffer, FRAME)
    buffer[:FRAME] = (len(buffer) - FRAME).to_bytes(FRAME, "little")
    return bytes(buffer)


def frames(buffer: bytearray) -> list[bytes]:
    """The whole frames of a buffer, which are taken out of it."""
    found: list[bytes] = []
    at = 0
    while len(buffer) - at >= FRAME:
        end = at + FRAME + int.from_bytes(buffer[at : at + FRAME], "little")
        if len(buffer) < end:
            break
        found.append(bytes(buffer[at + FRAME : end]))
        at = end
    del buffer[:at]
    return found


def source_of(source: HookSource) -> Source:
    """A source as it travels."""
    return Source(
        source.name, source.version, source.digest, source.weight, str(source.folder),
        str(source.root), source.check, source.reward, source.hindsight,
    )  # fmt: skip
