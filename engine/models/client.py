"""Calling an endpoint that speaks OpenAI's chat completions.

The `openai` package's client does the calls. Where that may help (429, 5xx, cut connections) they
are made again, with back-off and jitter, or when the endpoint's Retry-After says. The package is an
extra (``models``) and is imported when the first model is called.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import anyio
import msgspec
from anyio import to_thread

from ...events.errors import TrialogError
from ...events.kinds.parts import RequestDifference
from ..redact import Redactor
from .endpoint import API_KEY, OPENAI, Endpoint, ModelUnavailable
from .retrying import RETRIES as RETRIES
from .retrying import may_help, pause
from .streamed import StreamBroken, assembled, has_ended, is_stream

if TYPE_CHECKING:
    from openai import AsyncOpenAI

CLOSING = 5.0
"""Seconds that closing the connections may take."""

ANSWER_CAP = 64 * 1024 * 1024
"""Bytes of one answer; an endpoint that sends more is broken."""

SHOWN = 500
"""Characters of an endpoint's own message that an error repeats."""

Failure: TypeAlias = Literal[
    "unreachable", "unavailable", "rejected", "cost_limit", "cut_off", "differs"
]
"""Why there is no reply: no answer from the endpoint in time, or only failing ones; it does not
know the key or the model; it won't take the request; the cost limit is reached; the caller was
ended first; a replay's call is not the recorded one."""


class CutOff(NamedTuple):
    """What had ended the recorded agent whose call was under way."""

    ended_by: Literal["max_seconds", "agent_timeout", "idle_timeout"]
    category: str


class CallFailed(TrialogError):
    """A call brought no reply."""

    def __init__(
        self,
        message: str,
        failure: Failure,
        *,
        status: int | None = None,
        code: str | None = None,
        retries: int = 0,
        replayed: str | None = None,
        difference: RequestDifference | None = None,
        ended: CutOff | None = None,
    ) -> None:
        self.failure: Failure = failure
        self.status = status
        self.code = code
        """The endpoint's own word for it."""
        self.retries = retries
        self.replayed = replayed
        """The recorded call that failed like this; null for one that was made."""
        self.difference = difference
        self.ended = ended
        super().__init__(message)


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What an endpoint answered with status 200; it may be anything."""

    body: str
    retries: int = 0
    replayed: str | None = None
    """The event of the recorded call that answered; null for a call that was made."""


class CallWatch(Protocol):
    """Is told of a call under way."""

    def heard(self) -> None:
        """A piece of an answer came."""
        ...

    def pausing(self) -> AbstractContextManager[None]:
        """Around a wait of the client's own, as before another try."""
        ...


class ModelClient(Protocol):
    """Calls models of one endpoint."""

    @property
    def endpoint(self) -> str:
        """Its address, as events show it."""
        ...

    async def complete(
        self, request: Mapping[str, Any], watch: CallWatch | None = None
    ) -> Answered:
        """Send a request for a chat completion, as it is. Raises CallFailed.

        What is streamed comes back as the completion that it adds up to.
        """
        ...


@asynccontextmanager
async def open_model_client(
    endpoint: Endpoint, *, error: type[ModelUnavailable] = ModelUnavailable
) -> AsyncGenerator[ModelClient]:
    """A client that serves many callers at once. Raises `error` without the package."""
    client = await to_thread.run_sync(_make, endpoint, error)
    try:
        yield OpenAIClient(client, endpoint)
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSING):
            await client.close()


def _make(endpoint: Endpoint, error: type[ModelUnavailable]) -> AsyncOpenAI:
    try:
        import openai
    except ImportError:
        raise error(
            "a model is called through the `openai` package, which is not installed; "
            "install it with `pip install 'openai>=1.60'`"
        ) from None
    # The address is given in any case, so that no other variable of the package's decides it.
    return openai.AsyncOpenAI(
        api_key=endpoint.key,
        base_url=endpoint.base_url or OPENAI,
        max_retries=0,  # releases of the package differ in what they try again, and when
        timeout=None,  # each caller's own deadline holds
    )


class _Missed(Exception):
    """One try brought no reply."""

    def __init__(self, failed: CallFailed, headers: Mapping[str, str]) -> None:
        self.failed = failed
        self.headers = headers
        super().__init__(str(failed))


class OpenAIClient:
    """A ModelClient over the `openai` package. Its key is in nothing that it gives or raises."""

    def __init__(self, client: AsyncOpenAI, endpoint: Endpoint) -> None:
        self._client = client
        self.endpoint = endpoint.shown
        self._redactor = Redactor({API_KEY: endpoint.key})

    async def complete(
        self, request: Mapping[str, Any], watch: CallWatch | None = None
    ) -> Answered:
        """See ModelClient."""
        retries = 0
        while True:
            try:
                body = await self._try(request, watch)
            except _Missed as missed:
                failed = missed.failed
                failed.retries = retries
                if retries == RETRIES or not may_help(failed.status, missed.headers):
                    raise failed from None
                await self._wait(retries, missed, watch)
                retries += 1
            else:
                return Answered(body=self._redactor.text(body), retries=retries)

    async def _wait(self, retries: int, missed: _Missed, watch: CallWatch | None) -> None:
        seconds = pause(retries, missed.headers, now=time.time(), chance=random.random())  # noqa: S311
        left = anyio.current_effective_deadline() - anyio.current_time()
        if seconds > left:
            raise CallFailed(
                f"{missed.failed}; it asks to wait {seconds:.0f} s, and the call has {left:.0f} s",
                missed.failed.failure, status=missed.failed.status, code=missed.failed.code,
                retries=retries,
            )  # fmt: skip
        with nullcontext() if watch is None else watch.pausing():
            await anyio.sleep(seconds)

    async def _try(self, request: Mapping[str, Any], watch: CallWatch | None) -> str:
        """One try. Raises _Missed."""
        import openai

        own = {name: request[name] for name in ("model", "messages")}
        more = {name: value for name, value in request.items() if name not in own}
        try:
            # Raw, since the answer may be anything; the caller reads it.
            completions: Any = self._client.chat.completions.with_streaming_response
            async with completions.create(**own, extra_body=more or None) as response:
                kind: str = response.headers.get("content-type", "")
                body = await _read(response, watch)
            return assembled(body) if is_stream(kind, body) else body.decode("utf-8", "replace")
        except openai.APIStatusError as error:
            failed = self._failed(error, error.status_code, _code(error))
            raise _Missed(failed, error.response.headers) from None
        except StreamBroken as error:
            raise _Missed(self._failed(error, None, None), {}) from None
        except Exception as error:
            if not isinstance(error, openai.OpenAIError) and not _of_the_connection(error):
                raise
            raise _Missed(self._failed(error, None, None), {}) from None

    def _failed(self, error: Exception, status: int | None, code: str | None) -> CallFailed:
        cause = f" ({error.__cause__})" if status is None and error.__cause__ else ""
        said = self._redactor.text(f"{error}{cause}")[:SHOWN]
        failure: Failure = "unreachable"
        if isinstance(error, StreamBroken):
            what = "the endpoint broke off"
        elif status is None:
            what = "the endpoint can't be reached"
        else:
            failure, what = failure_of(status)
        return CallFailed(f"{what}: {said}", failure, status=status, code=code)


def failure_of(status: int) -> tuple[Failure, str]:
    """What an error's status means, and how it is told."""
    if status in (401, 403):
        return "unavailable", "the endpoint refuses the key"
    if status == 404:
        return "unavailable", "the endpoint does not know the model"
    if status in (408, 409, 429) or status >= 500:
        return "unreachable", f"the endpoint answered {status}"
    return "rejected", "the endpoint won't take the request"


async def _read(response: Any, watch: CallWatch | None) -> bytes:
    """The whole body of an answer. Raises StreamBroken for one that has no end."""
    body = bytearray()
    async for piece in response.iter_bytes():
        body += piece
        if watch is not None:
            watch.heard()
        if has_ended(bytes(body[-64:])):
            break
        if len(body) > ANSWER_CAP:
            raise StreamBroken(f"its answer is over {ANSWER_CAP // 2**20} MiB")
    return bytes(body)


def _of_the_connection(error: Exception) -> bool:
    """Whether an error is the network's; the package's transport raises its own while reading."""
    return isinstance(error, OSError) or type(error).__module__.startswith(("httpx", "httpcore"))


def _code(error: Any) -> str | None:
    code = getattr(error, "code", None)
    return code if isinstance(code, str) else None
