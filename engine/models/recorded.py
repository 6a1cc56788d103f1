"""Model calls as a log has them: whole requests, and what came of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from ...events.kinds import ModelCalled
from ...events.log import BlobStore
from ...events.values import BlobRef, Json, as_blob_ref, unescape
from .client import Failure

INHERITED = ("tools", "system", "instructions")
"""Fields that a request has from the one that it goes on from, where its event leaves them out."""

GROWING = ("messages", "input")
"""Fields of which an event has what is new."""

CUT_OFF = "the call was cut off"
"""The error of a call that was under way when its agent was ended."""


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call, and its answer or why there was none."""

    event: str
    """The event's id."""
    request: Mapping[str, Any]
    """All of it."""
    body: str | None
    """The endpoint's answer, as JSON; or as it came, where it was no chat completion."""
    error: str | None
    """Null where there is an answer."""
    failure: Failure = "unreachable"
    status: int | None = None
    code: str | None = None
    retries: int = 0
    form: str | None = None
    """As in ModelCalled."""


def call_blobs(call: ModelCalled) -> Iterable[BlobRef]:
    """The blobs that a call's request, answer and error are in."""
    for value in (call.request, call.response, call.error):
        if (ref := as_blob_ref(value)) is not None:
            yield ref


async def recorded_calls(
    events: Iterable[tuple[str, ModelCalled]], blobs: BlobStore
) -> list[RecordedCall]:
    """The calls of one trial, from its events with their ids, in order.

    An event has only what is new in a request, under `continues` the call that it goes on from.
    Calls that the gateway refused were made of no model, and are left out. Raises BlobMissing.
    """
    whole: dict[str, dict[str, Any]] = {}
    calls: list[RecordedCall] = []
    for event_id, call in events:
        if call.failure == "refused":
            continue
        given = cast("dict[str, Any]", await _full(call.request, blobs))
        request = whole[event_id] = _whole(whole, given)
        answer = None if call.response is None else await _full(call.response, blobs)
        body = None
        if answer is not None:
            body = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
        error = None if call.error is None else await _full(call.error, blobs, text=True)
        calls.append(
            RecordedCall(
                event=event_id, request=request, body=body, error=error,
                failure=_failure(call.failure, error or ""), status=call.status, code=call.code,
                retries=call.retries, form=call.form,
            )
        )  # fmt: skip
    return calls


def _whole(known: Mapping[str, Mapping[str, Any]], new: dict[str, Any]) -> dict[str, Any]:
    """A request out of the one that it goes on from, if any, and of what is new in it."""
    before = known.get(str(new.get("continues")))
    if before is None:
        return new
    own = {name: value for name, value in new.items() if name != "continues"}
    inherited = {name: before[name] for name in INHERITED if name in before}
    grown = {name: [*before[name], *own[name]] for name in GROWING if name in own}
    return {**inherited, **own, **grown}


async def _full(value: Json, blobs: BlobStore, *, text: bool = False) -> Any:
    ref = as_blob_ref(value)
    if ref is None:
        return unescape(value)
    data = await blobs.get(ref)
    return data.decode("utf-8", "replace") if text else unescape(msgspec.json.decode(data))


def _failure(failure: str | None, error: str) -> Failure:
    """How a call failed; the first logs have it in the error's words alone."""
    match failure:
        case "unreachable" | "unavailable" | "rejected" | "cut_off":
            return failure
        case _ if error == CUT_OFF:
            return "cut_off"
        case _ if "refuses the key" in error or "does not know the model" in error:
            return "unavailable"
        case _ if "won't take the request" in error:
            return "rejected"
        case _:
            return "unreachable"
