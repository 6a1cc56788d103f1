"""Calling one trial's model: each call is an event, whatever comes of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import anyio
import msgspec
from msgspec.structs import replace

from ....events.clock import Clock
from ....events.errors import TrialogError
from ....events.kinds import AgentMessage, ModelCalled, TrialEvent
from ....events.kinds.parts import Usage
from ....events.values import Json, Text
from ...models.client import Answered, CallFailed, CallWatch
from ...models.meter import Meter
from ...models.models import Models
from ...models.prices import with_cost
from .reply import ModelReply, read_reply

Limit: TypeAlias = Literal[
    "max_turns", "max_seconds", "max_cost", "truncated", "agent_timeout", "idle_timeout"
]


class Stopped(TrialogError):
    """A limit ends the agent; what it did so far is graded."""

    def __init__(self, message: str, ended_by: Limit, category: str) -> None:
        self.ended_by: Limit = ended_by
        self.category = category
        super().__init__(message)


class ModelFailed(TrialogError):
    """The model can't be had: there is no agent any more."""

    def __init__(self, message: str, category: str) -> None:
        self.category = category
        super().__init__(message)


class Notes(Protocol):
    """Where a conversation is recorded."""

    async def json(self, value: Json) -> Json:
        """A value as an event holds it."""
        ...

    async def text(self, text: str) -> Text:
        """A text as an event holds it."""
        ...

    def emit(self, event: TrialEvent) -> str:
        """Put an event into the log; its id."""
        ...


class Calls:
    """The calls of one conversation. One that is cancelled under way is recorded all the same."""

    def __init__(
        self, model: str, models: Models, notes: Notes, clock: Clock, meter: Meter,
        watch: CallWatch | None,
    ) -> None:  # fmt: skip
        self._model = model
        self._models = models
        self._notes = notes
        self._clock = clock
        self._meter = meter
        self._watch = watch
        self._recorded = 0
        """Messages that the events of earlier calls have."""
        self.last: str | None = None
        """The event of the newest call."""

    async def make(self, request: Mapping[str, Any]) -> ModelReply | None:
        """One call; null where the answer is no chat completion. Raises Stopped, ModelFailed.

        From call to call the request's messages may only grow.
        """
        turn = self._meter.begin()
        kept = await self._notes.json(self._new_in(request))
        client = self._models.client()
        async with self._slot():
            called = _Called(
                ModelCalled(
                    model=self._model, endpoint=client.endpoint, request=kept,
                    usage=Usage(model_calls=1), started_at=self._clock.now(), latency=0.0,
                    retries=0, turn=turn, purpose="agent",
                ),
                self._clock.monotonic(),
                len(request["messages"]),
            )  # fmt: skip
            try:
                with anyio.fail_after(self._models.call_timeout):
                    answered = await client.complete(request, self._watch)
            except TimeoutError:
                silence = f"the endpoint did not answer within {self._models.call_timeout:g} s"
                error = CallFailed(silence, "unreachable")
                self._failed(called, error)
                raise what_failed(error) from None
            except CallFailed as error:
                self._failed(called, error)
                raise what_failed(error) from None
            except anyio.get_cancelled_exc_class():
                self._failed(called, CallFailed("the call was cut off", "cut_off"))
                raise
        if self._watch is not None:
            self._watch.heard()
        return await self._take(answered, called)

    @asynccontextmanager
    async def _slot(self) -> AsyncGenerator[None]:
        slots = self._models.slots(self._model)
        with nullcontext() if self._watch is None else self._watch.pausing():
            await slots.acquire()
        try:
            yield
        finally:
            slots.release()

    def _new_in(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """What an event has of a request: a conversation only grows, so what came since the call
        before, and that call's event. With all of it each time, a log would grow as its square."""
        if self.last is None:
            return dict(request)
        told = {name: value for name, value in request.items() if name != "tools"}
        return {**told, "messages": request["messages"][self._recorded :], "continues": self.last}

    async def _take(self, answered: Answered, called: _Called) -> ModelReply | None:
        turn = called.event.turn or 0
        reply = read_reply(answered.body, turn=turn)
        with anyio.CancelScope(shield=True):  # what was paid for is recorded
            if reply is None:
                self._meter.count(Usage(model_calls=1))
                self._tell(
                    called, answered.replayed, Usage(model_calls=1), retries=answered.retries,
                    error="the endpoint's answer is no chat completion",
                    response=await self._notes.json(answered.body),
                )  # fmt: skip
                return None
            usage = with_cost(reply.usage, self._models.price(self._model))
            self._meter.count(usage)
            self._tell(
                called, answered.replayed, usage, retries=answered.retries,
                response=await self._notes.json(msgspec.json.decode(answered.body)),
                model_reported=reply.model,
            )  # fmt: skip
            if reply.text or reply.reasoning:
                thought = reply.reasoning
                self._notes.emit(
                    AgentMessage(
                        role="assistant", text=await self._notes.text(reply.text),
                        reasoning=None if thought is None else await self._notes.text(thought),
                        turn=turn, model_call=self.last,
                    )
                )  # fmt: skip
        return reply

    def _failed(self, called: _Called, error: CallFailed) -> None:
        made = 0 if error.failure == "differs" else 1
        self._tell(
            called, error.replayed, Usage(model_calls=made), retries=error.retries,
            error=str(error), failure=error.failure, status=error.status, code=error.code,
            difference=error.difference,
        )  # fmt: skip

    def _tell(self, called: _Called, replayed: str | None, usage: Usage, **more: Any) -> None:
        """Emit a call's one event."""
        if replayed is not None:  # nothing was paid
            usage = replace(usage, cost_usd=0.0)
        latency = round(self._clock.monotonic() - called.begun, 6)
        self.last = self._notes.emit(
            replace(called.event, usage=usage, latency=latency, replayed=replayed, **more)
        )
        self._recorded = called.messages


class _Called(NamedTuple):
    """A call under way."""

    event: ModelCalled
    """What is known of it when it begins."""
    begun: float
    messages: int
    """How many its event has, with those of the calls before it."""


_FULL = (
    "context length", "context window", "context_length", "maximum context", "context size",
    "prompt is too long", "too many tokens", "input is too long",
)  # fmt: skip
"""What endpoints say of a conversation that a model can't take."""


def what_failed(error: CallFailed) -> Stopped | ModelFailed:
    """What a failed call means for the agent."""
    match error.failure:
        case "rejected":
            words = f"{error.code or ''} {error}".lower()
            if error.status == 413 or any(word in words for word in _FULL):
                return full(str(error))
            return ModelFailed(str(error), "model_rejected")
        case "unavailable":
            return ModelFailed(str(error), "model_unavailable")
        case "differs":
            return ModelFailed(str(error), "replay_differs")
        case "cut_off" if error.ended is not None:
            ended = error.ended
            return Stopped(str(error), ended.ended_by, ended.category)
        case _:
            return ModelFailed(str(error), "model_failed")


def full(why: str) -> Stopped:
    """The conversation can't go on."""
    return Stopped(f"the model's context is full: {why}", "truncated", "context_full")
