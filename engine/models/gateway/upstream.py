"""Calling the configured endpoints: their own hosts and no other, with the keys that stay here."""

from __future__ import annotations

import io
import random
import re
import time
import urllib.request
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

import anyio
import msgspec
from anyio import to_thread
from yarl import URL

from ....events.version import __version__
from ...redact import Redactor
from ..client import CallFailed, CallWatch
from ..endpoint import ANTHROPIC, ANTHROPIC_API_KEY, API_KEY, OPENAI, Api, Endpoint
from ..retrying import RETRIES, may_help, pause
from .routes import PASSED_BACK, VERSION, Target

if TYPE_CHECKING:
    import aiohttp  # slow to import, and most jobs have no gateway

ANSWER_CAP = 64 * 1024 * 1024
"""Bytes of one answer."""

CONNECT_SEC = 30.0

USER_AGENT = f"trialog/{__version__}"

_NOT_PLAIN = re.compile(r"[^ -~]")

ANTHROPIC_VERSION = "2023-06-01"
"""Where a client names none."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent to an endpoint."""

    target: Target
    headers: Mapping[str, str] = {}
    """Those of the client's that are passed on."""
    body: bytes | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """How an endpoint answered."""

    status: int
    headers: Mapping[str, str]
    """Those that are passed back."""
    body: bytes | None
    """Without keys; null for a stream, which was passed on as it came."""
    retries: int
    replayed: str | None = None
    """The recorded call that answered; null for an endpoint."""


class Downstream(msgspec.Struct, frozen=True):
    """Who takes a stream."""

    begin: Callable[[int, Mapping[str, str]], Awaitable[None]]
    piece: Callable[[bytes], Awaitable[bool]]
    """Says whether more is wanted."""


class _Missed(Exception):
    """One try brought no answer."""

    def __init__(
        self, message: str, status: int | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status = status
        self.headers = headers or {}
        super().__init__(message)


class Upstream:
    """The endpoints of a job, for all its gateways."""

    def __init__(self, session: aiohttp.ClientSession, endpoints: Mapping[Api, Endpoint]) -> None:
        self._session = session
        self._endpoints = endpoints
        keys = {"openai": API_KEY, "anthropic": ANTHROPIC_API_KEY}
        self.redactor = Redactor({keys[api]: e.key for api, e in endpoints.items()})
        """Takes the keys out of what endpoints say."""

    @property
    def apis(self) -> list[Api]:
        """Those that there is an endpoint for."""
        return list(self._endpoints)

    def shown(self, api: Api) -> str:
        """An endpoint's address, as events show it."""
        return self._endpoints[api].shown

    async def ask(self, ask: Ask, down: Downstream, watch: CallWatch) -> Answer:
        """Ask, and ask again where that may help and nothing was passed on. Raises CallFailed."""
        retries = 0
        while True:
            try:
                return await self._try(ask, down, retries)
            except _Missed as missed:
                if retries == RETRIES or not may_help(missed.status, missed.headers):
                    raise CallFailed(
                        str(missed), "unreachable", status=missed.status, retries=retries
                    ) from None
                await _wait(retries, missed, watch)
                retries += 1

    async def _try(self, ask: Ask, down: Downstream, retries: int) -> Answer:
        import aiohttp

        begun = False
        try:
            async with self._session.request(
                ask.target.route.method, self._url(ask.target), headers=self._headers(ask),
                data=None if ask.body is None else io.BytesIO(ask.body),
                allow_redirects=False, proxy=_proxy(self._url(ask.target)),
            ) as response:  # fmt: skip
                last = retries == RETRIES or not may_help(response.status, response.headers)
                back = {k.lower(): v for k, v in response.headers.items()}
                told = {name: _plain(back[name]) for name in PASSED_BACK if name in back}
                if response.status == 200 and _is_stream(back):
                    begun = True
                    await down.begin(200, told)
                    async for piece in response.content.iter_any():
                        if not await down.piece(piece):
                            break
                    return Answer(status=200, headers=told, body=None, retries=retries)
                body = await _whole(response)
                if response.status >= 400 and not last:
                    raise _Missed(f"status {response.status}", response.status, back)
                return Answer(
                    status=response.status, headers=told, body=self.redactor.redact(body),
                    retries=retries,
                )  # fmt: skip
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            said = self.redactor.text(str(error) or type(error).__name__)
            if begun:
                raise CallFailed(
                    f"the endpoint's stream broke off: {said}", "unreachable", retries=retries
                ) from None
            raise _Missed(f"the endpoint can't be reached: {said}") from None

    def _url(self, target: Target) -> URL:
        endpoint = self._endpoints[target.route.api]
        if target.route.api == "openai":
            base = URL(endpoint.base_url or OPENAI, encoded=True)
            path = base.raw_path.rstrip("/") + target.path
        else:
            base = URL(endpoint.base_url or ANTHROPIC, encoded=True)
            path = base.raw_path.rstrip("/") + VERSION + target.path
        query = "&".join(filter(None, [base.raw_query_string, target.query]))
        return URL.build(
            scheme=base.scheme, authority=base.raw_authority, path=path, query_string=query,
            encoded=True,
        )  # fmt: skip

    def _headers(self, ask: Ask) -> dict[str, str]:
        api = ask.target.route.api
        endpoint = self._endpoints[api]
        headers = {
            **ask.headers,
            "accept-encoding": "identity",
            "user-agent": USER_AGENT,
        }
        if ask.body is not None:
            headers["content-type"] = "application/json"
        if api == "anthropic":
            headers.setdefault("anthropic-version", ANTHROPIC_VERSION)
            return {**headers, "x-api-key": endpoint.key}
        if URL(endpoint.base_url or OPENAI, encoded=True).raw_user is None:
            headers["authorization"] = f"Bearer {endpoint.key}"
        return headers


@asynccontextmanager
async def open_upstream(endpoints: Mapping[Api, Endpoint]) -> AsyncGenerator[Upstream]:
    """The endpoints, as long as a job runs."""
    await to_thread.run_sync(import_module, "aiohttp")
    import aiohttp

    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),  # callers are held back before they come here
        timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_SEC),
        cookie_jar=aiohttp.DummyCookieJar(),
    )
    async with session:
        yield Upstream(session, endpoints)


async def _wait(retries: int, missed: _Missed, watch: CallWatch) -> None:
    seconds = pause(retries, missed.headers, now=time.time(), chance=random.random())  # noqa: S311
    left = anyio.current_effective_deadline() - anyio.current_time()
    if seconds > left:
        raise CallFailed(
            f"{missed}; it asks to wait {seconds:.0f} s, and the call has {max(left, 0):.0f} s",
            "unreachable", status=missed.status, retries=retries,
        )  # fmt: skip
    with watch.pausing():
        await anyio.sleep(seconds)


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > ANSWER_CAP:
            raise CallFailed(f"the endpoint's answer is over {ANSWER_CAP // 2**20} MiB", "rejected")
    return bytes(body)


def _plain(header: str) -> str:
    """A header's value as any client can read it; an endpoint may send any bytes."""
    return _NOT_PLAIN.sub("?", header).strip()


def _is_stream(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").lower().startswith("text/event-stream")


def _proxy(url: URL) -> str | None:
    """The proxy that this machine's environment names for an address."""
    proxy = urllib.request.getproxies().get(url.scheme)
    return None if urllib.request.proxy_bypass(url.host or "") else proxy
