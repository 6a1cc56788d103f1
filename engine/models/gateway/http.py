"""One connection of a client that may be anybody: requests in bounds, answers as they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import anyio
import h11
from anyio.abc import SocketStream

HEAD_CAP = 64 * 1024
"""Bytes of a request's line and headers."""

IDLE_SEC = 120.0
"""Until the next request begins."""

HEAD_SEC = 10.0
"""For the head, once it has begun."""

BODY_SEC = 60.0

STALL_SEC = 30.0
"""For the client to take what was sent to it."""

DRAIN_SEC = 2.0

PIECE = 64 * 1024
DRAIN_PIECES = 64


class Head(NamedTuple):
    """A request without its body."""

    method: str
    target: str
    headers: Mapping[str, str]
    """By their names in small letters."""


class BadRequest(Exception):
    """What came is no request that is answered."""

    def __init__(self, status: int, message: str, code: str) -> None:
        self.status = status
        self.code = code
        super().__init__(message)


class ClientGone(Exception):
    """The client hung up, or does not take what it is sent."""


class ClientConnection:
    """Reads one request after the other; each is answered before the next."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._state = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_CAP)
        self._early = 0
        """Bytes that came before they were asked for."""

    async def head(self) -> Head | None:
        """The next request's head; null where none comes. Raises BadRequest, ClientGone."""
        with anyio.move_on_after(IDLE_SEC):
            if self._state.trailing_data[0] == b"":
                await self._receive()
            with anyio.move_on_after(HEAD_SEC) as patience:
                event = await self._next()
                if isinstance(event, h11.Request):
                    return _head(event)
                return None
            if patience.cancelled_caught:
                raise BadRequest(408, "the request's head took too long", "timeout")
        return None

    async def body(self, room: Callable[[int], bool]) -> bytes:
        """The request's body, as far as there is `room` for its bytes. Raises as `head`."""
        if self._state.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
            await self._write(self._state.send(go_on))
        body = bytearray()
        with anyio.move_on_after(BODY_SEC):
            while True:
                event = await self._next()
                if isinstance(event, h11.EndOfMessage):
                    return bytes(body)
                if not isinstance(event, h11.Data):
                    raise ClientGone("the client hung up in its request")
                if not room(len(event.data)):
                    raise BadRequest(413, "the request is too large", "request_too_large")
                body += event.data
        raise BadRequest(408, "the request's body took too long", "timeout")

    async def respond(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        """Answer a request in one piece. Raises ClientGone."""
        more = {"content-length": str(len(body)), **headers}
        if not self.read_whole:
            more["connection"] = "close"  # the rest of the request is not read
        data = self._state.send(_response(status, more))
        assert data is not None
        data += self._state.send(h11.Data(data=body)) or b""
        data += self._state.send(h11.EndOfMessage()) or b""
        await self._write(data)

    async def drain(self) -> None:
        """Say that there is no more, and read some of what nobody asked for: a connection that is
        closed on it would lose the answer."""
        with anyio.move_on_after(DRAIN_SEC):
            try:
                await self._stream.send_eof()
                for _ in range(DRAIN_PIECES):
                    await self._stream.receive(PIECE)
            except (anyio.EndOfStream, anyio.BrokenResourceError, OSError):
                return

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Begin an answer that comes in pieces. Raises ClientGone."""
        await self._write(self._state.send(_response(status, headers)))

    async def send(self, data: bytes) -> None:
        """A piece. Raises ClientGone."""
        await self._write(self._state.send(h11.Data(data=data)))

    async def end(self) -> None:
        """It was the last. Raises ClientGone."""
        await self._write(self._state.send(h11.EndOfMessage()))

    @property
    def read_whole(self) -> bool:
        """Nothing of the request is left to be read."""
        return self._state.their_state is h11.DONE

    def again(self) -> bool:
        """Make ready for another request; False where the connection is done with."""
        if self._state.our_state is not h11.DONE or self._state.their_state is not h11.DONE:
            return False
        self._state.start_next_cycle()
        self._early = 0
        return True

    async def hung_up(self) -> None:
        """Wait until the client hangs up, after a request was read."""
        while self._early <= HEAD_CAP:
            try:
                data = await self._stream.receive(PIECE)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return
            self._early += len(data)
            self._state.receive_data(data)
        await anyio.sleep_forever()  # it sends what it has no answer to; it will be cut off

    async def _receive(self) -> None:
        try:
            data = await self._stream.receive(PIECE)
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            data = b""
        self._state.receive_data(data)

    async def _next(self) -> h11.Event | type[h11.PAUSED] | type[h11.NEED_DATA]:
        while True:
            try:
                event = self._state.next_event()
            except h11.RemoteProtocolError as error:
                raise BadRequest(
                    error.error_status_hint, f"this is no request: {error}", "bad_request"
                ) from None
            if event is not h11.NEED_DATA:
                return event
            await self._receive()

    async def _write(self, data: bytes | None) -> None:
        if not data:
            return
        try:
            with anyio.fail_after(STALL_SEC):
                await self._stream.send(data)
        except TimeoutError:
            raise ClientGone("the client does not take its answer") from None
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise ClientGone("the client hung up") from None


def _head(request: h11.Request) -> Head:
    return Head(
        request.method.decode("ascii", "replace"),
        request.target.decode("ascii", "replace"),
        {name.decode(): value.decode("latin-1") for name, value in request.headers},
    )


def _response(status: int, headers: Mapping[str, str]) -> h11.Response:
    return h11.Response(status_code=status, headers=list(headers.items()))
