"""What an agent tells while it works, as events: messages, thoughts, plans, tool calls.

An agent streams a message in pieces; it becomes one event when something else comes. A tool call
becomes a step when it has ended. All of it is the agent's own word: nobody else saw it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import msgspec

from ....events.clock import Clock
from ....events.kinds import ActionTaken, AgentMessage, WarningRaised
from ....events.kinds.parts import Usage
from ....events.values import Json, without_surrogates
from ...stored import store_json, store_text
from ..protocol import AgentContext
from .forms import ValidationError, schema

APP = "agent"
"""What the agent's own tools are listed under."""

MOST_EVENTS = 10_000
"""Messages, steps and the like of one agent that are kept."""

KEPT_CAP = 1024 * 1024 * 1024
"""Bytes of all these."""

MOST_WARNINGS = 20
"""Malformed messages that are named one by one."""

OPEN_CAP = 64 * 1024 * 1024
"""Bytes that are held of tool calls which have not ended; past it the oldest counts as ended."""

MESSAGE_CAP = 256 * 1024
"""Characters of a message; what is longer becomes several."""

_EXCERPT = 500
_DONE = ("completed", "failed")


class _Call:
    """A tool call that has not ended."""

    def __init__(self, turn: int, at: str, begun: float) -> None:
        self.turn, self.at, self.begun = turn, at, begun
        self.known: dict[str, Any] = {}
        self._sizes: dict[str, int] = {}

    @property
    def size(self) -> int:
        """Bytes that are held of it, at the most."""
        return sum(self._sizes.values())

    def take(self, update: schema.ToolCallStart | schema.ToolCallProgress, size: int) -> None:
        """What is given replaces what was."""
        for name in ("title", "kind", "status", "content", "locations", "raw_input", "raw_output"):
            value = getattr(update, name)
            if value is not None:
                self.known[name], self._sizes[name] = value, size


class Chronicle:
    """Puts into the log what the agent tells, in its order."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self._clock: Clock = context.clock
        self.turn = 0
        """The agent's messages so far; what it does goes with the last."""
        self.heard_at = context.clock.monotonic()
        """When it last gave a sign of life."""
        self.cost: float | None = None
        """US dollars, by its own word."""
        self._text: list[str] = []
        self._thought: list[str] = []
        self._length = 0
        self._calls: dict[str, _Call] = {}
        self._ended: set[str] = set()
        self._plan: str | None = None
        self._open_size = 0
        """Bytes that are held of calls which have not ended."""
        self._told = 0
        self._kept = 0
        """Bytes of what was told."""
        self._malformed = 0

    def heard(self) -> None:
        """It gave a sign of life."""
        self.heard_at = self._clock.monotonic()

    async def quiet_for(self) -> float:
        """Seconds since then."""
        return self._clock.monotonic() - self.heard_at

    def title(self, call: str) -> str:
        """What a tool call that has not ended is called; empty where it has no title."""
        known = self._calls.get(call)
        return "" if known is None else known.known.get("title") or ""

    # What comes

    async def notified(self, method: str, params: Any, size: int) -> None:
        """Take a notification of so many bytes. Those that are not known are passed over."""
        if method != "session/update":
            return
        try:
            update = schema.SessionNotification.model_validate(params).update
        except (ValidationError, RecursionError) as error:
            if (kind := _kind(params)) is None or kind in _KINDS:
                await self.malformed(f"session/update: {problem(error)}", _shown(params))
            return
        try:
            await self._take(update, size)
        except (ValueError, TypeError, RecursionError) as error:
            await self.malformed(f"session/update can't be kept: {error}", _shown(params))

    async def _take(self, update: Any, size: int) -> None:
        match update:
            case schema.AgentMessageChunk():
                await self._say(self._text, _text(update.content))
            case schema.AgentThoughtChunk():
                if self._text:
                    await self.flush()
                await self._say(self._thought, _text(update.content))
            case schema.ToolCallStart() | schema.ToolCallProgress():
                await self._call(update, size)
            case schema.AgentPlanUpdate():
                await self._planned(update.entries)
            case schema.UsageUpdate(cost=schema.Cost(amount=amount, currency=currency)):
                self.cost = amount if currency == "USD" else None
            case _:  # its own words again, commands that it offers, modes, titles
                return

    async def _say(self, pieces: list[str], text: str) -> None:
        if self._length + len(text) > MESSAGE_CAP:
            await self.flush()
        pieces.append(text)
        self._length += len(text)

    async def flush(self) -> None:
        """The message that was being said is over."""
        text, thought = "".join(self._text), "".join(self._thought)
        self._text.clear()
        self._thought.clear()
        self._length = 0
        if text or thought:
            await self._message(text, thought or None)

    async def _message(self, text: str, thought: str | None) -> None:
        self.turn += 1
        if self._full(len(text) + len(thought or "")):
            return
        blobs = self._context.blobs
        clean, raw = without_surrogates(text)
        self._context.emit(
            AgentMessage(
                role="assistant",
                text=await store_text(clean, blobs),
                raw=None if raw is None else await blobs.put(raw),
                reasoning=None if thought is None else await store_text(thought, blobs),
                turn=self.turn,
            )
        )

    async def _planned(self, entries: Sequence[schema.PlanEntry]) -> None:
        """A plan is a thought; the same plan again is none."""
        marks = {"completed": "x", "in_progress": ">", "pending": " "}
        plan = "\n".join(f"[{marks[entry.status]}] {entry.content}" for entry in entries)
        if plan != self._plan:
            self._plan = plan
            await self.flush()
            await self._message("", f"Plan:\n{plan}")

    async def _call(
        self, update: schema.ToolCallStart | schema.ToolCallProgress, size: int
    ) -> None:
        await self.flush()
        ident = without_surrogates(update.tool_call_id)[0][:200]
        if ident in self._ended:
            return
        call = self._calls.get(ident)
        if call is None:
            if len(self._calls) + len(self._ended) >= MOST_EVENTS:
                self._told = MOST_EVENTS + 1
                return
            self.turn = max(self.turn, 1)
            call = _Call(self.turn, self._clock.now(), self._clock.monotonic())
            self._calls[ident] = call
        self._open_size -= call.size
        call.take(update, size)
        self._open_size += call.size
        if call.known.get("status") in _DONE:
            await self._acted(ident)
        while self._open_size > OPEN_CAP:
            await self._acted(next(iter(self._calls)))

    async def _acted(self, ident: str) -> None:
        call = self._calls.pop(ident)
        self._open_size -= call.size
        self._ended.add(ident)
        known, blobs = call.known, self._context.blobs
        arguments = _arguments(known)
        observation = _observation(known.get("content"), known.get("raw_output"))
        if self._full(_length(arguments) + _length(observation)):
            return
        error: str | None = None
        if known.get("status") == "failed":
            error = observation if isinstance(observation, str) else "the tool call failed"
        elif known.get("status") != "completed":
            error = "the tool call's end was not told"
        self._context.emit(
            ActionTaken(
                turn=call.turn,
                tool_call=ident,
                app=APP,
                action=known.get("kind") or "other",
                arguments=await store_json(arguments, blobs),
                observation=None if observation is None else await store_json(observation, blobs),
                error=None if error is None else await store_text(error, blobs),
                started_at=call.at,
                duration=round(self._clock.monotonic() - call.begun, 6),
                observed_by="agent",
            )
        )

    # What the engine does for it

    async def did(
        self, app: Literal["shell", "files", "session"], action: str, arguments: Json, *,
        since: tuple[str, float], observation: Json | None = None, error: str | None = None,
        raw: bytes | None = None,
    ) -> None:  # fmt: skip
        """A request of the agent's was answered. It is no call of a tool: that is told by it."""
        await self.flush()
        if self._full(_length([arguments, observation, error])):
            return
        blobs = self._context.blobs
        self._context.emit(
            ActionTaken(
                turn=max(self.turn, 1),
                app=app,
                action=action,
                arguments=await store_json(arguments, blobs),
                observation=None if observation is None else await store_json(observation, blobs),
                error=None if error is None else await store_text(error, blobs),
                raw=None if raw is None else await blobs.put(raw),
                started_at=since[0],
                duration=round(self._clock.monotonic() - since[1], 6),
                observed_by="host",
            )
        )

    def now(self) -> tuple[str, float]:
        """When something begins, for `did`."""
        return self._clock.now(), self._clock.monotonic()

    # What is wrong, and the end

    async def malformed(self, why: str, line: bytes) -> None:
        """Something that it sent is none of the protocol's messages."""
        self._malformed += 1
        if self._malformed <= MOST_WARNINGS:
            more = f"… ({len(line)} bytes)" if len(line) > _EXCERPT else ""
            excerpt = line[:_EXCERPT].decode("utf-8", "replace")
            self._warn("agent_report_malformed", f"the agent sent {excerpt}{more}: {why}")

    async def finish(self) -> None:
        """Tell the rest: what was being said, and calls that never ended."""
        await self.flush()
        for ident in list(self._calls):
            await self._acted(ident)
        if self._malformed > MOST_WARNINGS:
            total = f"{self._malformed} messages of the agent's are none of the protocol's"
            self._warn("agent_report_malformed", total)
        if self._told > MOST_EVENTS or self._kept > KEPT_CAP:
            most = f"{KEPT_CAP // 2**20} MiB" if self._kept > KEPT_CAP else str(MOST_EVENTS)
            self._warn("agent_report_cut", f"only the first {most} of what it told are kept")

    def usage(self, used: schema.Usage | None) -> Usage | None:
        """What it says that it used."""
        if used is None and self.cost is None:
            return None
        return Usage(
            input_tokens=used.input_tokens if used else None,
            output_tokens=used.output_tokens if used else None,
            cached_tokens=used.cached_read_tokens if used else None,
            cost_usd=self.cost,
        )

    def _full(self, size: int) -> bool:
        self._told += 1
        self._kept += size
        return self._told > MOST_EVENTS or self._kept > KEPT_CAP

    def _warn(self, code: str, message: str) -> None:
        self._context.emit(WarningRaised(code=code, message=without_surrogates(message)[0]))


def problem(error: ValidationError | RecursionError) -> str:
    """What is wrong with a message, in a line."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else first["msg"]


_KINDS = {
    "user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call",
    "tool_call_update", "plan", "usage_update",
}  # fmt: skip
"""Updates that are looked at; others may be of a later protocol."""


def _length(value: Any) -> int:
    """About the bytes that a value takes in the log."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        value = list(cast("dict[str, Any]", value).values())
    if isinstance(value, list):
        return sum(_length(item) for item in cast("list[object]", value))
    return 8


def _kind(params: Any) -> str | None:
    """The kind of an update; null where there is none."""
    for key in ("update", "sessionUpdate"):
        if not isinstance(params, dict):
            return None
        params = cast("dict[str, Any]", params).get(key)
    return params if isinstance(params, str) else None


def _shown(params: Any) -> bytes:
    try:
        return msgspec.json.encode(params)
    except (ValueError, TypeError, RecursionError):
        return b"session/update"


def _text(block: Any) -> str:
    """A block of content as text."""
    match block:
        case schema.TextContentBlock(text=text):
            return str(text)
        case schema.ResourceContentBlock(uri=uri):
            return f"[link: {uri}]"
        case schema.EmbeddedResourceContentBlock(resource=schema.TextResourceContents(text=text)):
            return str(text)
        case schema.EmbeddedResourceContentBlock(resource=resource):
            return f"[resource: {resource.uri}]"
        case _:
            return f"[{block.type}: {block.mime_type}, {len(block.data)} characters of base64]"


def _arguments(known: Mapping[str, Any]) -> dict[str, Json]:
    found: dict[str, Json] = {"title": known.get("title") or ""}
    if "raw_input" in known:
        found["input"] = known["raw_input"]
    if known.get("locations"):
        found["locations"] = [
            place.path if place.line is None else f"{place.path}:{place.line}"
            for place in known["locations"]
        ]
    return found


def _observation(content: Sequence[Any] | None, output: Any) -> Json | None:
    parts = [_part(item) for item in content or ()]
    if not parts:
        return cast("Json | None", output)
    if all(isinstance(part, str) for part in parts):
        shown: Json = "\n".join(cast("list[str]", parts))
    else:
        shown = parts
    return shown if output is None else {"content": shown, "output": output}


def _part(item: Any) -> Json:
    match item:
        case schema.ContentToolCallContent(content=block):
            return _text(block)
        case schema.FileEditToolCallContent(path=path, old_text=old, new_text=new):
            return {"path": path, "old_text": old, "new_text": new}
        case _:
            return {"terminal": item.terminal_id}
