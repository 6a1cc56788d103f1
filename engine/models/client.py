"""Calling an endpoint that speaks OpenAI's chat completions.

The `openai` package's client does the calls and tries again where that may help (429, 5xx, cut
connections), with back-off and jitter, or when the endpoint's Retry-After says. Its package is an
extra (``trialog[models]``) and is imported when the first model is called.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import anyio
import msgspec
from anyio import to_thread

from ...events.errors import TrialogError
from ..redact import Redactor
from .endpoint import API_KEY, OPENAI, Endpoint, ModelUnavailable

if TYPE_CHECKING:
    from openai import AsyncOpenAI

RETRIES = 5
"""Times that a call is made again where that may help."""

CLOSING = 5.0
"""Seconds that closing the connections may take."""

SHOWN = 500
"""Characters of an endpoint's own message that an error repeats."""

Failure: TypeAlias = Literal["unreachable", "unavailable", "rejected", "cost_limit"]
"""Why there is no reply: no answer from the endpoint in time, or only failing ones; it does not
know the key or the model; it won't take the request; the cost limit is reached."""


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
    ) -> None:
        self.failure: Failure = failure
        self.status = status
        self.code = code
        """The endpoint's own word for it."""
        self.retries = retries
        super().__init__(message)


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What an endpoint answered with status 200; it may be anything."""

    body: str
    retries: int = 0


class ModelClient(Protocol):
    """Calls models of one endpoint."""

    @property
    def endpoint(self) -> str:
        """Its address, as events show it."""
        ...

    async def complete(self, request: Mapping[str, Any]) -> Answered:
        """Send a request for a chat completion, as it is. Raises CallFailed."""
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
            "install it with `pip install 'trialog[models]'`"
        ) from None
    # The address is given in any case, so that no other variable of the package's decides it.
    return openai.AsyncOpenAI(
        api_key=endpoint.key,
        base_url=endpoint.base_url or OPENAI,
        max_retries=RETRIES,
        timeout=None,  # each caller's own deadline holds
    )


class OpenAIClient:
    """A ModelClient over the `openai` package. Its key is in nothing that it gives or raises."""

    def __init__(self, client: AsyncOpenAI, endpoint: Endpoint) -> None:
        self._client = client
        self.endpoint = endpoint.shown
        self._redactor = Redactor({API_KEY: endpoint.key})

    async def complete(self, request: Mapping[str, Any]) -> Answered:
        """See ModelClient."""
        import openai

        own = {name: request[name] for name in ("model", "messages")}
        more = {name: value for name, value in request.items() if name not in own}
        try:
            # Raw, since the answer may be anything; the caller reads it.
            completions: Any = self._client.chat.completions.with_raw_response
            raw = await completions.create(**own, extra_body=more or None)
            return Answered(body=self._redactor.text(raw.text), retries=raw.retries_taken)
        except openai.APIStatusError as error:
            raise self._failed(error, error.status_code, _code(error)) from None
        except openai.OpenAIError as error:
            raise self._failed(error, None, None) from None

    def _failed(self, error: Exception, status: int | None, code: str | None) -> CallFailed:
        cause = f" ({error.__cause__})" if status is None and error.__cause__ else ""
        said = self._redactor.text(f"{error}{cause}")[:SHOWN]
        failure: Failure = "unreachable"
        if status is None:
            what = "the endpoint can't be reached"
        elif status in (401, 403):
            what, failure = "the endpoint refuses the key", "unavailable"
        elif status == 404:
            what, failure = "the endpoint does not know the model", "unavailable"
        elif status in (408, 409, 429) or status >= 500:
            what = f"the endpoint answered {status}"
        else:
            what, failure = "the endpoint won't take the request", "rejected"
        return CallFailed(
            f"{what}: {said}", failure, status=status, code=code, retries=_retries(error)
        )


def _code(error: Any) -> str | None:
    code = getattr(error, "code", None)
    return code if isinstance(code, str) else None


def _retries(error: Any) -> int:
    """How often the package had tried again, which it tells the endpoint, too."""
    headers = getattr(getattr(error, "request", None), "headers", {})
    told = headers.get("x-stainless-retry-count", "0")
    return int(told) if told.isdecimal() else 0
