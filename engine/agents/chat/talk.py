"""One trial's conversation with a model: what to do next, until it is done or a limit is reached.

The model decides by tool calls alone. What tools give back goes into tool messages, as text of a
bounded length, and nowhere else: so nothing in it can become a turn, a call or an instruction of
the system's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ....events.clock import Clock
from ....events.kinds import AgentMessage
from ....events.values import without_surrogates
from ...models.client import CallWatch
from ...models.meter import Meter
from ...models.models import ModelLimits, Models
from .calls import Calls, ModelFailed, Notes, Stopped, full
from .reply import EXCERPT, MOST_CALLS, ModelReply, ToolCall

GARBLED_TRIES = 3
"""Times that a call is made whose answer is no chat completion."""

CONTEXT_CAP = 8 * 1024 * 1024
"""Bytes of a conversation, whatever a model might still take."""

RESERVED = frozenset({"model", "messages", "tools", "tool_choice", "n", "continues"})
"""Fields of a request, or of its record, that are the agent's own: no parameter has their names."""


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
        watch: CallWatch | None = None,
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._notes = notes
        self._settings = {**_settings(parameters or {}), "model": model}
        self._meter = Meter(limits or models.limits, models.cost_limit)
        self._calls = Calls(model, models, notes, clock, self._meter, watch)
        self._messages: list[dict[str, Any]] = []
        self._size = 0
        self._open: deque[ToolCall] = deque()
        """Calls of the last reply that were not looked at yet."""
        self._left_out = 0
        """Calls of the last reply that are not made, since there are too many."""

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
                        model_call=self._calls.last or "", turn=self._meter.calls,
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
            self._left_out = reply.calls_left_out

    def answer(self, call: str, text: str) -> None:
        """What a tool gave back; the calls of a reply are answered in their order."""
        if self._left_out and not self._open:
            text += f"\n[{self._left_out} more calls were not made: at most {MOST_CALLS} a reply]"
        self._add({"role": "tool", "tool_call_id": call, "content": without_surrogates(text)[0]})

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
                role="tool", text=await self._notes.text(problem), turn=self._meter.calls,
                model_call=self._calls.last,
            )
        )  # fmt: skip

    async def _ask(self) -> ModelReply:
        for _ in range(GARBLED_TRIES):
            self._check_limits()
            reply = await self._calls.make(self._request())
            if reply is not None:
                self._add(reply.message())
                return reply
        raise ModelFailed(
            f"the endpoint answered {GARBLED_TRIES} times with what is no chat completion",
            "model_failed",
        )

    def _request(self) -> dict[str, Any]:
        request = {**self._settings, "messages": list(self._messages)}
        if self._tools:
            request["tools"] = [tool.told() for tool in self._tools.values()]
        return request

    def _check_limits(self) -> None:
        if (reached := self._meter.reached()) is not None:
            raise Stopped(reached.why, reached.ended_by, reached.category)
        if self._size > CONTEXT_CAP:
            raise full(f"the conversation is over {CONTEXT_CAP // 2**20} MiB")


def _settings(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that the job's parameters give a request. A stream says what it used only where it
    is asked; a `stream_options` of null is for endpoints that won't be asked."""
    given = dict(parameters)
    if given.get("stream"):
        given.setdefault("stream_options", {"include_usage": True})
    if given.get("stream_options", ...) is None:
        del given["stream_options"]
    return given
