"""One trial's conversation with a model: what to do next, until it is done or a limit is reached.

The model decides by tool calls alone. What tools give back goes into tool messages, as text of a
bounded length, and nowhere else: so nothing in it can become a turn, a call or an instruction of
the system's.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import anyio
import msgspec

from ....events.clock import Clock
from ....events.errors import TrialogError
from ....events.kinds import AgentMessage, ModelCalled, TrialEvent
from ....events.kinds.parts import Usage
from ....events.values import Json, Text, without_surrogates
from ...models.client import Answered, CallFailed
from ...models.models import ModelLimits, Models
from ...models.prices import with_cost
from .reply import EXCERPT, ModelReply, ToolCall, read_reply

GARBLED_TRIES = 3
"""Times that a call is made whose answer is no chat completion."""

CONTEXT_CAP = 8 * 1024 * 1024
"""Bytes of a conversation, whatever a model might still take."""

RESERVED = frozenset({"model", "messages", "tools", "tool_choice", "stream", "stream_options", "n"})
"""Fields of a request that are the agent's own, so no parameter may have their names."""

Limit: TypeAlias = Literal["max_turns", "max_seconds", "max_cost", "truncated"]


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as a model is told of it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON schema."""

    def told(self) -> dict[str, Any]:
        """As a request has it."""
        function = {
            "name": self.name, "description": self.description, "parameters": self.parameters
        }  # fmt: skip
        return {"type": "function", "function": function}


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The model wants a tool called; it waits for `Talk.answer`."""

    call: str
    """The tool call's id."""
    name: str
    arguments: dict[str, Any]
    model_call: str
    """The id of the ModelCalled event."""
    turn: int


class Said(msgspec.Struct, frozen=True):
    """The model called no tool: it is done, with this as its last word."""

    text: str


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


class Talk:
    """A conversation. Every method may be cancelled; a call under way is recorded all the same."""

    def __init__(
        self,
        model: str,
        models: Models,
        tools: Sequence[Tool],
        notes: Notes,
        clock: Clock,
        parameters: Mapping[str, Any] | None = None,
        limits: ModelLimits | None = None,
    ) -> None:
        self._model = model
        self._models = models
        self._limits = limits or models.limits
        self._tools = {tool.name: tool for tool in tools}
        self._notes = notes
        self._clock = clock
        self._parameters = dict(parameters or {})
        self._messages: list[dict[str, Any]] = []
        self._size = 0
        self._open: deque[ToolCall] = deque()
        """Calls of the last reply that were not looked at yet."""
        self._model_call = ""
        self._recorded = 0
        """Messages that the events of earlier calls have."""
        self._before: str | None = None
        """The event of the call before."""
        self.turn = 0
        """Calls that were made."""
        self._tokens = 0
        self._dollars = 0.0
        self._no_tokens = False
        """The endpoint did not say how many a call took."""
        self._no_cost = False

    async def begin(self, system: str, prompt: str) -> None:
        """Say what the work is; once."""
        for role, text in (("system", system), ("user", prompt)):
            clean = without_surrogates(text)[0]
            self._add({"role": role, "content": clean})
            stored = await self._notes.text(clean)
            self._notes.emit(msgspec.convert({"role": role, "text": stored}, AgentMessage))

    async def next(self) -> Wanted | Said:
        """What the model wants now. Raises Stopped, ModelFailed."""
        while True:
            while self._open:
                call = self._open.popleft()
                if (problem := self._problem(call)) is None:
                    return Wanted(
                        call=call.id, name=call.name, arguments=call.arguments or {},
                        model_call=self._model_call, turn=self.turn,
                    )  # fmt: skip
                await self._refuse(call, problem)
            reply = await self._ask()
            if not reply.calls:
                if reply.finish == "length":
                    raise Stopped(
                        "the model's reply was cut off at its output limit", "truncated",
                        "reply_cut",
                    )  # fmt: skip
                return Said(reply.text)
            self._open.extend(reply.calls)

    def answer(self, call: str, text: str) -> None:
        """What a tool gave back."""
        self._add({"role": "tool", "tool_call_id": call, "content": text})

    def _add(self, message: dict[str, Any]) -> None:
        self._messages.append(message)
        self._size += len(msgspec.json.encode(message))

    def _problem(self, call: ToolCall) -> str | None:
        """Why a call can't be done; null for a proper one."""
        if call.name not in self._tools:
            known = ", ".join(sorted(self._tools)) or "none"
            return f"error: there is no tool {call.name[:EXCERPT]!r}; the tools are: {known}"
        if call.arguments is None:
            return f"error: the arguments are no JSON object: {call.given[:EXCERPT]}"
        return None

    async def _refuse(self, call: ToolCall, problem: str) -> None:
        self.answer(call.id, problem)
        self._notes.emit(
            AgentMessage(
                role="tool", text=await self._notes.text(problem), turn=self.turn,
                model_call=self._model_call,
            )
        )  # fmt: skip

    # Calling the model

    async def _ask(self) -> ModelReply:
        for _ in range(GARBLED_TRIES):
            self._check_limits()
            reply = await self._call()
            if reply is not None:
                self._add(reply.message())
                return reply
        raise ModelFailed(
            f"the endpoint answered {GARBLED_TRIES} times with what is no chat completion",
            "model_failed",
        )

    async def _call(self) -> ModelReply | None:
        """One call and its events; null where the answer is no chat completion."""
        self.turn += 1
        request: dict[str, Any] = {
            **self._parameters, "model": self._model, "messages": list(self._messages),
        }  # fmt: skip
        if self._tools:
            request["tools"] = [tool.told() for tool in self._tools.values()]
        kept = await self._notes.json(self._new_in(request))
        client = self._models.client()
        async with self._models.slots(self._model):
            called = _Called(self._model, client.endpoint, kept, self._clock, self.turn, self._told)
            try:
                with anyio.fail_after(self._models.call_timeout):
                    answered = await client.complete(request)
            except TimeoutError:
                seconds = self._models.call_timeout
                called.failed(f"the endpoint did not answer within {seconds:g} s")
                raise ModelFailed(called.error, "model_failed") from None
            except CallFailed as error:
                called.failed(str(error), retries=error.retries)
                raise _what_failed(error) from None
            except anyio.get_cancelled_exc_class():
                called.failed("the call was cut off")
                raise
        return await self._take(answered, called)

    def _new_in(self, request: dict[str, Any]) -> dict[str, Any]:
        """What an event has of a request: a conversation only grows, so what came since the call
        before, and that call's event. With all of it each time, a log would grow as its square."""
        if self._before is None:
            return request
        told = {name: value for name, value in request.items() if name != "tools"}
        new = self._messages[self._recorded :]
        return {**told, "messages": new, "continues": self._before}

    def _told(self, event: TrialEvent) -> str:
        """Emit a call's event, which has all messages that there are now; its id."""
        self._before = self._notes.emit(event)
        self._recorded = len(self._messages)
        return self._before

    async def _take(self, answered: Answered, called: _Called) -> ModelReply | None:
        reply = read_reply(answered.body, turn=self.turn)
        with anyio.CancelScope(shield=True):  # what was paid for is recorded
            if reply is None:
                self._count(Usage(model_calls=1))
                called.failed(
                    "the endpoint's answer is no chat completion",
                    retries=answered.retries, response=await self._notes.json(answered.body),
                )  # fmt: skip
                return None
            usage = with_cost(reply.usage, self._models.price(self._model))
            self._count(usage)
            body = msgspec.json.decode(answered.body)
            self._model_call = called.done(
                await self._notes.json(body), reply.model, usage, answered.retries
            )
            if reply.text or reply.reasoning:
                thought = reply.reasoning
                self._notes.emit(
                    AgentMessage(
                        role="assistant", text=await self._notes.text(reply.text),
                        reasoning=None if thought is None else await self._notes.text(thought),
                        turn=self.turn, model_call=self._model_call,
                    )
                )  # fmt: skip
        return reply

    def _count(self, usage: Usage) -> None:
        if usage.input_tokens is None or usage.output_tokens is None:
            self._no_tokens = True
        else:
            self._tokens += usage.input_tokens + usage.output_tokens
        if usage.cost_usd is None:
            self._no_cost = True
        else:
            self._dollars = math.fsum((self._dollars, usage.cost_usd))

    def _check_limits(self) -> None:
        limits = self._limits
        if limits.turns is not None and self.turn >= limits.turns:
            raise Stopped(
                f"the agent was stopped after {self.turn} turns", "max_turns", "max_turns"
            )
        if limits.cost is not None and (self._no_cost or self._dollars >= limits.cost):
            why = (
                "the endpoint does not say what a call used, so the cost limit can't be held"
                if self._no_cost
                else f"the agent was stopped at a cost of ${self._dollars:.4f} (the limit is "
                f"${limits.cost:g})"
            )
            raise Stopped(why, "max_cost", "max_cost")
        if limits.tokens is not None and (self._no_tokens or self._tokens >= limits.tokens):
            why = (
                "the endpoint does not say what a call used, so the token limit can't be held"
                if self._no_tokens
                else f"the agent was stopped after {self._tokens} tokens (the limit is "
                f"{limits.tokens})"
            )
            raise Stopped(why, "truncated", "max_tokens")
        if self._size > CONTEXT_CAP:
            raise _full(f"the conversation is over {CONTEXT_CAP // 2**20} MiB")


class _Called:
    """A call under way, and the one event that tells of it."""

    def __init__(
        self,
        model: str,
        endpoint: str,
        request: Json,
        clock: Clock,
        turn: int,
        emit: Callable[[TrialEvent], str],
    ) -> None:
        self._model, self._endpoint, self._request = model, endpoint, request
        self._clock, self._turn, self._tell = clock, turn, emit
        self._started_at, self._begun = clock.now(), clock.monotonic()
        self.error = ""

    def done(self, response: Json, reported: str | None, usage: Usage, retries: int) -> str:
        """It brought a reply; the event's id."""
        return self._emit(response, reported, usage, retries, None)

    def failed(self, error: str, *, retries: int = 0, response: Json | None = None) -> None:
        """It brought none."""
        self.error = error
        self._emit(response, None, Usage(model_calls=1), retries, error)

    def _emit(
        self, response: Json, reported: str | None, usage: Usage, retries: int, error: str | None
    ) -> str:
        return self._tell(
            ModelCalled(
                model=self._model, model_reported=reported, endpoint=self._endpoint,
                request=self._request, response=response, error=error, usage=usage,
                started_at=self._started_at, retries=retries, turn=self._turn,
                latency=round(self._clock.monotonic() - self._begun, 6), purpose="agent",
            )
        )  # fmt: skip


_FULL = (
    "context length", "context window", "context_length", "maximum context", "context size",
    "prompt is too long", "too many tokens", "input is too long",
)  # fmt: skip
"""What endpoints say of a conversation that a model can't take."""


def _what_failed(error: CallFailed) -> Stopped | ModelFailed:
    if error.failure == "rejected":
        words = f"{error.code or ''} {error}".lower()
        if error.status == 413 or any(word in words for word in _FULL):
            return _full(str(error))
        return ModelFailed(str(error), "model_rejected")
    if error.failure == "unavailable":
        return ModelFailed(str(error), "model_unavailable")
    return ModelFailed(str(error), "model_failed")


def _full(why: str) -> Stopped:
    return Stopped(f"the model's context is full: {why}", "truncated", "context_full")
