"""Calling a judge's model: an endpoint that speaks OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec

from ...events.kinds.parts import Usage
from ..models.client import RETRIES as RETRIES
from ..models.client import CallFailed as CallFailed
from ..models.client import ModelClient, open_model_client
from ..models.endpoint import (
    API_KEY,
    BASE_URL,
    JUDGE_API_KEY,
    JUDGE_BASE_URL,
    Endpoint,
    ModelUnavailable,
    read_endpoint,
)
from ..models.usage import read_usage


class JudgeUnavailable(ModelUnavailable):
    """No judge can be called from here: the package, the key or a proper address is missing."""

    category = "judge_unavailable"


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
    async with open_model_client(endpoint(environ), error=JudgeUnavailable) as client:
        yield SchemaClient(client)


def endpoint(environ: Mapping[str, str]) -> Endpoint:
    """The judges' endpoint. Raises JudgeUnavailable."""
    own = bool(environ.get(JUDGE_BASE_URL))  # another's key is never sent there
    return read_endpoint(
        environ,
        url_name=JUDGE_BASE_URL if own else BASE_URL,
        key_name=JUDGE_API_KEY if own or environ.get(JUDGE_API_KEY) else API_KEY,
        or_key_name=None if own else JUDGE_API_KEY,
        caller="a judge's model",
        error=JudgeUnavailable,
    )


class SchemaClient:
    """A JudgeClient that asks for JSON of a schema."""

    def __init__(self, client: ModelClient) -> None:
        self._client = client
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
        request: dict[str, Any] = {"model": model, "messages": messages}
        if schema is not None:
            request["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "verdict", "strict": True, "schema": schema},
            }
        return read_completion((await self._client.complete(request)).body)


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
        usage=read_usage(answer.get("usage")),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
