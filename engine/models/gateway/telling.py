"""The events that tell of one call through the gateway."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
from msgspec.structs import replace

from ....events.kinds import AgentMessage, ModelCalled
from ....events.kinds.parts import RequestDifference, Usage
from ....events.log import BlobStore
from ....events.values import INLINE_LIMIT, Json, as_json, escape
from ...stored import store_text
from ..client import Failure
from ..prices import with_cost
from ..usage import read_usage
from .loose import as_object, as_text
from .routes import Target
from .said import said_in
from .trial import OUT_OF_TIME, TrialCalls
from .wanted import Wanted, apart

ENDPOINTS = {"unreachable": "model_failed", "unavailable": "model_unavailable"}
"""Failures that the endpoint is to blame for, or its key, and the category of each."""


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no answer, or only a part of one; as in ModelCalled."""

    error: str
    failure: Failure = "unreachable"
    status: int | None = None
    code: str | None = None
    difference: RequestDifference | None = None


class CallRecord:
    """Made when a call is let through; it is told once."""

    def __init__(self, trial: TrialCalls, target: Target, wanted: Wanted | None) -> None:
        """`wanted` is null for what names no model."""
        self._trial = trial
        self._target = target
        self._wanted = wanted
        self._turn = trial.meter.begin() if target.route.purpose == "agent" else None
        self._started_at = trial.clock.now()
        self._begun = trial.clock.monotonic()
        self._told = False
        self.complete = False
        """It is told as a whole answer."""
        self.retries = 0
        self.replayed: str | None = None

    async def tell(
        self, response: Any, failed: Failed | None, *, size: int, accepted: bool = True
    ) -> None:
        """Tell of the call, unless that was done. `size` is about that of the response, in bytes.

        One that the endpoint accepted counts towards limits, whatever came of it.
        """
        if self._told:
            return
        self._told = True
        trial = self._trial
        self._count(failed)
        differs = failed is not None and failed.failure == "differs"
        usage = Usage(model_calls=0) if differs else self._usage(response)
        if accepted and usage.model_calls:
            trial.meter.count(usage)
        if self.replayed is not None:  # nothing was paid
            usage = replace(usage, cost_usd=0.0)
        with anyio.CancelScope(shield=True):  # what was paid for is recorded
            event = await self._emit(response, failed, usage, size)
            if failed is None and self._turn is not None:
                await self._say(response, event)
        self.complete = failed is None
        if differs:
            trial.stop()  # it is told, and nothing can follow

    def _count(self, failed: Failed | None) -> None:
        """For what the trial says in the end of calls that the endpoint failed."""
        trial = self._trial
        if self._target.route.purpose not in ("agent", "embeddings"):
            return
        trial.asked += 1
        if failed is not None and failed.failure in ENDPOINTS and failed.code != OUT_OF_TIME:
            trial.failed += 1
            trial.why = failed.error
            trial.category = ENDPOINTS[failed.failure]

    async def _emit(self, response: Any, failed: Failed | None, usage: Usage, size: int) -> str:
        trial, wanted, route = self._trial, self._wanted, self._target.route
        request = {"path": self._target.path} if wanted is None else wanted.request
        kept = request if wanted is None else trial.conversations.new_in(request)
        blobs = trial.blobs
        event = trial.emit(
            ModelCalled(
                model=trial.model if wanted is None else wanted.model,
                model_reported=as_text(as_object(response).get("model")) or None,
                endpoint=trial.upstream.shown(route.api),
                request=await stored(kept, blobs, 0 if wanted is None else wanted.size),
                response=None if response is None else await stored(response, blobs, size),
                error=None if failed is None else await store_text(failed.error, blobs),
                usage=usage,
                started_at=self._started_at,
                latency=round(trial.clock.monotonic() - self._begun, 6),
                retries=self.retries,
                turn=self._turn,
                purpose=route.purpose,
                failure=None if failed is None else failed.failure,
                status=None if failed is None else failed.status,
                code=None if failed is None else failed.code,
                form=route.form,
                replayed=self.replayed,
                difference=None if failed is None else failed.difference,
            )
        )
        if wanted is not None:
            trial.conversations.recorded(event, request)
        return event

    async def _say(self, response: Any, event: str) -> None:
        text, thought = said_in(self._target.route.form, response)
        if not text and not thought:
            return
        blobs = self._trial.blobs
        self._trial.emit(
            AgentMessage(
                role="assistant", text=await store_text(text, blobs),
                reasoning=await store_text(thought, blobs) if thought else None,
                turn=self._turn, model_call=event,
            )
        )  # fmt: skip

    def _usage(self, response: Any) -> Usage:
        if self._wanted is None or self._target.route.form == "count_tokens":
            return Usage(model_calls=0)
        said = read_usage(as_object(response).get("usage"))
        return with_cost(said, self._trial.models.price(self._wanted.model))


async def stored(value: Any, blobs: BlobStore, size: int) -> Json:
    """As `store_json`; `size` is about that of the value, in bytes."""
    escaped, encoded = await apart(size, _escaped, value)
    return escaped if len(encoded) <= INLINE_LIMIT else await blobs.put(encoded)


def _escaped(value: Any) -> tuple[Any, bytes]:
    return as_json(escape(value))
