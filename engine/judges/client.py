"""Calling a judge's model: an endpoint that speaks OpenAI's chat completions.

The `openai` package's client does the calls and tries again where that may help (429, 5xx, cut
connections), with back-off and jitter, or when the endpoint's Retry-After says. Its package is an
extra (``trialog[models]``) and is imported when the first judge is needed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast
from urllib.parse import urlsplit

import anyio
import msgspec
from anyio import to_thread

from ...events.errors import TrialogError
from ...events.kinds.parts import Usage
from ..errors import ConfigError
from ..redact import Redactor

if TYPE_CHECKING:
    from openai import AsyncOpenAI

BASE_URL = "OPENAI_BASE_URL"
API_KEY = "OPENAI_API_KEY"
JUDGE_BASE_URL = "TRIALOG_JUDGE_BASE_URL"
JUDGE_API_KEY = "TRIALOG_JUDGE_API_KEY"
"""For judges alone; they go before the other two."""

RETRIES = 5
"""Times that a call is made again where that may help."""

CLOSING = 5.0
"""Seconds that closing the connections may take."""

SHOWN = 500
"""Characters of an endpoint's own message that an error repeats."""

_MOST = 2**53
"""Tokens or dollars from which on a figure is nonsense."""

Failure: TypeAlias = Literal["unreachable", "unavailable", "rejected", "cost_limit"]
"""Why there is no reply: no answer from the endpoint in time, or only failing ones; it does not
know the key or the model; it won't take the request; the cost limit is reached."""


class JudgeUnavailable(ConfigError):
    """No judge can be called from here: the package, the key or a proper address is missing."""

    category = "judge_unavailable"


class CallFailed(TrialogError):
    """A call brought no reply."""

    def __init__(self, message: str, failure: Failure, *, status: int | None = None) -> None:
        self.failure: Failure = failure
        self.status = status
        super().__init__(message)


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What an endpoint answered with status 200."""

    text: str
    """What the model said; or all of the answer, where it is no chat completion."""
    finish: str | None = None
    """Why the model stopped, in the endpoint's words; `refusal`; `error` for what is no reply."""
    model: str | None = None
    """The model's own name for itself."""
    usage: Usage = Usage(model_calls=1)


class JudgeClient(Protocol):
    """Calls a model."""

    async def ask(
        self, model: str, messages: list[dict[str, str]], schema: Mapping[str, Any] | None
    ) -> Reply:
        """One reply, of this JSON schema if there is one. Raises CallFailed."""
        ...


@asynccontextmanager
async def open_client(environ: Mapping[str, str]) -> AsyncGenerator[JudgeClient]:
    """A client for the endpoint that the environment names. Raises JudgeUnavailable.

    One client serves many judges at once.
    """
    base_url, key = endpoint(environ)
    client = await to_thread.run_sync(_make, base_url, key)
    try:
        yield OpenAIClient(client, key)
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSING):
            await client.close()


def endpoint(environ: Mapping[str, str]) -> tuple[str | None, str]:
    """Base URL (None: OpenAI's own) and key. Raises JudgeUnavailable."""
    own = bool(environ.get(JUDGE_BASE_URL))  # another's key is never sent there
    url_name = JUDGE_BASE_URL if own else BASE_URL
    key_name = JUDGE_API_KEY if own or environ.get(JUDGE_API_KEY) else API_KEY
    base_url = environ.get(url_name) or None
    key = environ.get(key_name, "").strip()
    if not key:
        raise JudgeUnavailable(
            f"{key_name} is not set, and a judge's model needs a key; set it (to any word for an "
            "endpoint that asks for none)"
        )
    if not key.isascii() or not key.isprintable():
        raise JudgeUnavailable(f"{key_name} has characters that no key has")
    if base_url is not None and not _is_address(base_url):
        raise JudgeUnavailable(
            f"{url_name} is {base_url!r}, which is no address; it should be like "
            "http://127.0.0.1:8000/v1"
        )
    return base_url, key


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and host is not None and port != 0


def _make(base_url: str | None, key: str) -> AsyncOpenAI:
    try:
        import openai
    except ImportError:
        raise JudgeUnavailable(
            "a judge's model is called through the `openai` package, which is not installed; "
            "install it with `pip install 'trialog[models]'`"
        ) from None
    # The address is given in any case, so that no other variable of the package's decides it.
    return openai.AsyncOpenAI(
        api_key=key,
        base_url=base_url or "https://api.openai.com/v1",
        max_retries=RETRIES,
        timeout=None,  # the judge's own deadline holds
    )


class OpenAIClient:
    """A JudgeClient over the `openai` package. Its key is in nothing that it gives or raises."""

    def __init__(self, client: AsyncOpenAI, key: str) -> None:
        self._client = client
        self._redactor = Redactor({API_KEY: key})
        self._plain: set[str] = set()
        """Models that answer only where no schema is asked for."""

    async def ask(
        self, model: str, messages: list[dict[str, str]], schema: Mapping[str, Any] | None
    ) -> Reply:
        """One reply. An endpoint that won't take a schema is asked without one."""
        if schema is None or model in self._plain:
            return await self._ask(model, messages, None)
        try:
            return await self._ask(model, messages, schema)
        except CallFailed as error:
            if error.status not in (400, 404, 415, 422, 501):
                raise
        reply = await self._ask(model, messages, None)
        self._plain.add(model)
        return reply

    async def _ask(
        self, model: str, messages: list[dict[str, str]], schema: Mapping[str, Any] | None
    ) -> Reply:
        import openai

        request: dict[str, Any] = {"model": model, "messages": messages}
        if schema is not None:
            request["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "verdict", "strict": True, "schema": schema},
            }
        try:
            # Raw, since the answer may be anything; it is read below.
            completions: Any = self._client.chat.completions.with_raw_response
            raw = await completions.create(**request)
            return read_completion(self._redactor.text(raw.text))
        except openai.APIStatusError as error:
            raise self._failed(error, error.status_code) from None
        except openai.OpenAIError as error:
            raise self._failed(error, None) from None

    def _failed(self, error: Exception, status: int | None) -> CallFailed:
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
        return CallFailed(f"{what}: {said}", failure, status=status)


def read_completion(body: str) -> Reply:
    """The reply in an endpoint's answer, whatever is missing from it."""
    try:
        answer = msgspec.json.decode(body)
        choice = answer["choices"][0]
        message = choice["message"]
        content = message.get("content")
        refusal = message.get("refusal")
        if not isinstance(content, str | None):
            raise TypeError  # noqa: TRY301
    except (msgspec.DecodeError, LookupError, TypeError, AttributeError, RecursionError):
        return Reply(text=body, finish="error")
    refused = isinstance(refusal, str) and bool(refusal) and not content
    return Reply(
        text=refusal if refused else content or "",
        finish="refusal" if refused else _text(choice.get("finish_reason")),
        model=_text(answer.get("model")),
        usage=_usage(answer.get("usage")),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _usage(given: Any) -> Usage:
    """Tokens and cost as the endpoint counts them; null for what it does not say."""
    if not isinstance(given, dict):
        return Usage(model_calls=1)
    said = cast("dict[str, Any]", given)
    details = said.get("prompt_tokens_details")
    cached = cast("dict[str, Any]", details).get("cached_tokens") if _is_dict(details) else None
    return Usage(
        model_calls=1,
        input_tokens=_count(said.get("prompt_tokens")),
        output_tokens=_count(said.get("completion_tokens")),
        cached_tokens=_count(cached),
        cost_usd=_dollars(said.get("cost")),
    )


def _dollars(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _MOST else None


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < _MOST else None
