"""What the gateway passes on: paths, headers, errors in each API's own form. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from ..endpoint import Api
from .loose import as_object, as_text

Form: TypeAlias = Literal[
    "chat", "completions", "responses", "embeddings", "messages", "count_tokens", "models"
]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be asked."""

    api: Api
    form: Form
    method: Literal["GET", "POST"] = "POST"
    purpose: str = "agent"
    """As in ModelCalled; a turn of the agent's only for `agent`."""


ROUTES: Mapping[str, Route] = {
    "/chat/completions": Route(api="openai", form="chat"),
    "/completions": Route(api="openai", form="completions"),
    "/responses": Route(api="openai", form="responses"),
    "/embeddings": Route(api="openai", form="embeddings", purpose="embeddings"),
    "/messages": Route(api="anthropic", form="messages"),
    "/messages/count_tokens": Route(
        api="anthropic", form="count_tokens", purpose="count_tokens"
    ),
}  # fmt: skip
"""By the path behind `/v1`."""

VERSION = "/v1"
"""Of both APIs; the base address of OpenAI's ends with it, and Anthropic's does not."""

PASSED_ON = frozenset({"anthropic-beta", "anthropic-version", "openai-beta"})
"""Headers of a request that reach the endpoint."""

PASSED_BACK = frozenset({"content-type", "request-id", "x-request-id"})
"""Headers of an answer that reach the sandbox."""

_MODELS = re.compile(r"/models(/[A-Za-z0-9._:@+-]{1,200}){0,3}")
_QUERY = re.compile(r"[A-Za-z0-9._~%=&+-]{0,500}")


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request goes."""

    route: Route
    path: str
    """Behind `/v1`."""
    query: str


def find(method: str, target: str, headers: Mapping[str, str]) -> Target | None:
    """Where a request goes by its method and target; null for what is not passed on."""
    place, _, query = target.partition("?")
    path = place.removeprefix(VERSION)
    if not place.startswith(f"{VERSION}/") or not _QUERY.fullmatch(query):
        return None
    route = ROUTES.get(path)
    if route is None and _MODELS.fullmatch(path) and "/.." not in path and "/./" not in path:
        route = Route(api=api_of(path, headers), form="models", method="GET", purpose="models")
    if route is None or route.method != method:
        return None
    return Target(route=route, path=path, query=query)


def api_of(path: str, headers: Mapping[str, str]) -> Api:
    """Whose client it is that asks."""
    if path.removeprefix(VERSION).startswith("/messages"):
        return "anthropic"
    return "anthropic" if {"anthropic-version", "x-api-key"} & headers.keys() else "openai"


def key_in(headers: Mapping[str, str]) -> str:
    """The key that a client shows."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    return headers.get("x-api-key", "")


_ANTHROPIC_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


def error_body(api: Api, status: int, message: str, code: str) -> bytes:
    """An error as the API tells it."""
    if api == "anthropic":
        kind = _ANTHROPIC_KINDS.get(status, "api_error")
        return msgspec.json.encode(
            {"type": "error", "error": {"type": kind, "message": message, "code": code}}
        )
    kind = "invalid_request_error" if status < 500 else "api_error"
    return msgspec.json.encode(
        {"error": {"message": message, "type": kind, "param": None, "code": code}}
    )


def error_event(api: Api, message: str) -> bytes:
    """The same within a stream that has begun."""
    data = error_body(api, 502, message, "model_failed")
    return (b"event: error\n" if api == "anthropic" else b"") + b"data: " + data + b"\n\n"


def error_in(body: Any) -> tuple[str, str | None] | None:
    """Message and code of an error in an answer of either API; null where there is none."""
    error = as_object(body).get("error")
    if isinstance(error, str):
        return error, None
    if not isinstance(error, dict):
        return None
    told = as_object(error)
    message = as_text(told.get("message")) or msgspec.json.encode(told).decode()
    return message, as_text(told.get("code")) or as_text(told.get("type")) or None
