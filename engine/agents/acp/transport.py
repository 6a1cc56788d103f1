"""Messages to and from the agent: one JSON-RPC message a line, each looked at before it counts.

The agent may write anything. What is no message of the protocol's form is told of and passed over;
a line without an end, and nothing but rubbish, end the conversation.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio
from anyio import to_thread

from ...levels import levels
from .pipes import Pipe

LINE_CAP = 32 * 1024 * 1024
"""Bytes of one message."""

MOST_OPEN = 64
"""Requests of the agent's that are answered at the same time."""

MOST_MALFORMED = 1000
"""Lines that are no messages."""

OPEN_CAP = 64 * 1024 * 1024
"""Bytes of all of them together, where it is more than one."""

DEPTH = 128
"""Levels of a message."""

_LARGE = 128 * 1024
"""Bytes of a line that is read off the event loop."""

_BUSY = {"code": -32603, "message": "too many requests are open at once"}

Message = dict[str, Any]


class Transport:
    """What the package's Connection reads and writes. See `acp.Transport`."""

    def __init__(
        self,
        incoming: Pipe,
        outgoing: Pipe,
        *,
        heard: Callable[[], None],
        notified: Callable[[str, Any, int], Awaitable[None]],
        malformed: Callable[[str, bytes], Awaitable[None]],
    ) -> None:
        """`heard` is told of each message, `notified` is given notifications one by one, with
        their sizes, and `malformed` what is no message, with the reason."""
        self._incoming, self._outgoing = incoming, outgoing
        self._heard, self._notified, self._malformed = heard, notified, malformed
        self._lines = _Lines()
        self._sending = anyio.Lock()
        self._open: dict[int | str | None, int] = {}
        """Sizes of requests that are not answered."""
        self._rubbish = 0
        self.fault: str | None = None
        """What the agent did that ended the conversation; null: nothing of that kind."""
        self.crash: Exception | None = None
        """What the engine could not do; the conversation was ended for it."""

    async def receive(self) -> Message | None:
        """The next request or response; None at the end."""
        try:
            return await self._receive()
        except Exception as error:  # raised where it can be heard
            self.crash = error
            return None

    async def _receive(self) -> Message | None:
        while self.fault is None:
            line = self._lines.next()
            if line is None:
                if self._lines.held > LINE_CAP:
                    self.fault = f"it sent a line of over {LINE_CAP // 2**20} MiB"
                    break
                data = await self._incoming.read()
                if not data:
                    break
                self._lines.feed(data)
                continue
            await anyio.lowlevel.checkpoint()
            if line.strip() and (message := await self._taken(line)) is not None:
                return message
        return None

    async def send(self, message: Message) -> None:
        """Send a message; to an agent that is gone, into nothing."""
        if "method" not in message:
            self._open.pop(message.get("id"), None)
        await self._write(message)

    async def _write(self, message: Message) -> None:
        line = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        async with self._sending:
            await self._outgoing.write(line.encode("utf-8", "replace") + b"\n")

    async def close(self) -> None:
        """Nothing more is said. The pipes are the caller's."""

    async def _taken(self, line: bytes) -> Message | None:
        """A message that is the connection's to handle; None for one that is handled here."""
        message = await to_thread.run_sync(read, line) if len(line) > _LARGE else read(line)
        if isinstance(message, str):
            self._rubbish += 1
            if self._rubbish > MOST_MALFORMED:
                self.fault = f"it sent over {MOST_MALFORMED} lines that are no messages"
            else:
                await self._malformed(message, line)
            return None
        self._heard()
        if "method" not in message:
            return message
        if "id" not in message:
            await self._notified(message["method"], message.get("params"), len(line))
            return None
        ident = message["id"]
        held = sum(self._open.values())
        if (
            ident in self._open
            or len(self._open) >= MOST_OPEN
            or (self._open and held + len(line) > OPEN_CAP)
        ):
            await self._write({"jsonrpc": "2.0", "id": ident, "error": _BUSY})
            return None
        self._open[ident] = len(line)
        return message


class _Lines:
    """Lines out of pieces."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._ready: list[bytes] = []
        self.held = 0
        """Bytes of the line that is not at its end."""

    def feed(self, data: bytes) -> None:
        """Take a piece, when there is no line left."""
        first, *rest = data.split(b"\n")
        self._pieces.append(first)
        self.held += len(first)
        if rest:
            *whole, last = rest
            self._ready = [b"".join(self._pieces), *whole][::-1]
            self._pieces, self.held = [last], len(last)

    def next(self) -> bytes | None:
        """The next line that is whole."""
        return self._ready.pop() if self._ready else None


def read(line: bytes) -> Message | str:
    """A message, or what is wrong with a line."""
    try:
        value: Any = json.loads(
            line.decode("utf-8", "replace"), parse_int=_number, parse_constant=_no_constant
        )
    except RecursionError:
        return "nested too deeply"
    except json.JSONDecodeError as error:
        return f"not JSON: {error.msg}"
    except ValueError as error:
        return f"not JSON: {error}"
    if not isinstance(value, dict):
        return "not a JSON object"
    message = cast("Message", value)
    if any(depth == DEPTH for depth, _ in enumerate(levels(message), 1)):
        return "nested too deeply"
    if "method" in message:
        right = isinstance(message["method"], str) and _is_id(message.get("id"))
        return message if right else "neither a request nor a notification"
    return message if _is_response(message) else "neither a request nor a response"


def _is_id(value: Any) -> bool:
    return value is None or (isinstance(value, int | str) and not isinstance(value, bool))


def _is_response(message: Message) -> bool:
    if not isinstance(message.get("id"), int):
        return False
    if "result" in message:
        return True
    error = message.get("error")
    return (
        isinstance(error, dict)
        and isinstance(cast("Message", error).get("code"), int)
        and isinstance(cast("Message", error).get("message"), str)
    )


def _number(digits: str) -> int | float:
    """Integers that no event can hold become floats, as other languages read them."""
    if len(digits) > 300:
        return math.inf if digits[0] != "-" else -math.inf
    number = int(digits)
    return number if -(2**63) <= number < 2**64 else float(number)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")
