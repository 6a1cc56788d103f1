"""What a client's request asks for, read with care: it may be anything. Pure but for the thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from anyio import to_thread

from ...levels import levels
from .http import BadRequest
from .loose import as_object
from .reach import reaching_out
from .routes import Form

CONTAINERS = 500_000
"""Lists and objects of a request; each costs far more memory than the two letters that it takes."""

VALUES = 1_000_000
"""Of a request, lists and objects among them."""

DEPTH = 128

LARGE = 64 * 1024
"""Bytes that are worked on in a thread."""

_A = TypeVar("_A")
_T = TypeVar("_T")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a client wants of a model."""

    size: int
    """Bytes of the request."""
    model: str
    request: dict[str, Any]
    stream: bool = False
    reaches_out: str | None = None
    """The part of the request that would have the endpoint reach out."""
    wants_usage: bool = True
    """A stream says at its end what was used; else that was asked for by the gateway alone."""


async def read_wanted(body: bytes, form: Form) -> Wanted:
    """What a request's body asks for. Raises BadRequest."""
    if body.count(b"[") + body.count(b"{") > CONTAINERS:
        raise BadRequest(413, "the request has too many lists and objects", "request_too_large")
    request, reaches_out = await apart(len(body), _read, body)
    asked = as_object(request)
    model: Any = asked.get("model")
    if not isinstance(model, str):
        raise BadRequest(400, "expected a JSON object that names a model", "bad_request")
    stream = asked.get("stream") is True
    given = as_object(asked.get("stream_options"))
    wants_usage = given.get("include_usage") is True
    if stream and form in ("chat", "completions") and not wants_usage:
        asked = {**asked, "stream_options": {**given, "include_usage": True}}
    return Wanted(
        size=len(body), model=model, request=asked, stream=stream, wants_usage=wants_usage,
        reaches_out=reaches_out,
    )  # fmt: skip


def _read(body: bytes) -> tuple[Any, str | None]:
    value = decoded(body, VALUES)
    return value, reaching_out(as_object(value))


def decoded(body: bytes, most: int | None = None) -> Any:
    """A body's JSON, of so many values at most. Raises BadRequest."""
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise BadRequest(400, f"the body is not JSON: {str(error)[:200]}", "bad_request") from None
    count = 0
    for depth, level in enumerate(levels(value), 1):
        count += len(level)
        if most is not None and count > most:
            raise BadRequest(413, f"the body has over {most} values", "request_too_large")
        if depth == DEPTH:
            raise BadRequest(400, "the body is nested too deeply", "bad_request")
    return value


async def apart(size: int, work: Callable[[_A], _T], given: _A) -> _T:
    """Do something with data of a size: in a thread, where it would take long."""
    return work(given) if size < LARGE else await to_thread.run_sync(work, given)
