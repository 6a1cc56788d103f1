"""A trial's model gateway that serves on this machine, and a client of it."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import anyio

from trialog.engine.models.gateway.gateway import Gateway
from trialog.engine.models.gateway.trial import TrialCalls
from trialog.events.kinds import ModelCalled


class Served:
    """One trial's gateway, and a client of it."""

    def __init__(self, gateway: Gateway, trial: TrialCalls, variables: dict[str, str]) -> None:
        self.gateway = gateway
        self.trial = trial
        self.variables = variables
        self.events: list[Any] = []

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.variables["OPENAI_BASE_URL"].rsplit(":")[-1].split("/")[0])

    @property
    def key(self) -> str:
        """The trial's own."""
        return self.variables["OPENAI_API_KEY"]

    @property
    def calls(self) -> list[ModelCalled]:
        """The calls that were told."""
        return [event for event in self.events if isinstance(event, ModelCalled)]

    @asynccontextmanager
    async def asking(
        self, body: Any = None, *, path: str = "/v1/chat/completions", key: str | None = None,
        method: str | None = None, **headers: str,
    ) -> AsyncGenerator[aiohttp.ClientResponse]:  # fmt: skip
        """A request under way."""
        shown = {"authorization": f"Bearer {self.key if key is None else key}", **headers}
        data = body if isinstance(body, bytes | type(None)) else json.dumps(body).encode()
        sent = None if data is None else io.BytesIO(data)
        async with (
            aiohttp.ClientSession(headers=shown) as session,
            session.request(
                method or ("GET" if body is None else "POST"),
                f"http://127.0.0.1:{self.port}{path}", data=sent,
            ) as response,
        ):  # fmt: skip
            yield response

    async def ask(self, body: Any = None, **more: Any) -> tuple[int, Any]:
        """Status and answer; the error's type where the answer is cut."""
        async with self.asking(body, **more) as response:
            try:
                text = await response.text()
            except aiohttp.ClientError as error:
                return response.status, type(error).__name__
            try:
                return response.status, json.loads(text)
            except json.JSONDecodeError:
                return response.status, text

    async def raw(self, *pieces: bytes) -> bytes:
        """What comes back for these bytes."""
        async with await anyio.connect_tcp("127.0.0.1", self.port) as stream:
            answer = b""
            try:
                for piece in pieces:
                    await stream.send(piece)
                while True:
                    answer += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return answer

    def head(self, path: str = "/v1/chat/completions", **headers: object) -> bytes:
        """A request's head."""
        lines = {"host": "x", "authorization": f"Bearer {self.key}", **headers}
        text = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
        return f"POST {path} HTTP/1.1\r\n{text}\r\n".encode()


def said(text: str = "hi", **more: Any) -> dict[str, Any]:
    """A request for a chat completion."""
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}


Serve = Callable[..., Awaitable[Served]]
