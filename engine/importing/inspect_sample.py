"""One sample of Inspect AI's as a trial: its transcript, or its messages where it has none."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias, cast

import msgspec

from ...events.kinds import (
    ActionTaken,
    AgentFailed,
    AgentFinished,
    AgentMessage,
    AgentStarted,
    ModelCalled,
    VerifierFailed,
    VerifierScored,
)
from ...events.kinds.parts import Usage
from .fields import Fields, finite, seconds_between
from .records import Story, TrialRead, objects

TOOLS = "tools"
"""The app that tools are actions of."""
ERROR = "imported_error"
UNSCORED = "imported_unscored"
_ATTACHED = "attachment://"
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_IN_FILE = ("events", "events_data", "attachments", "messages", "timelines")
"""What is large, and whole in the sample's own file."""

Ending: TypeAlias = Literal["done", "max_turns", "max_seconds", "max_cost", "truncated"]

_LIMITS: dict[str, Ending] = {
    "message": "max_turns", "turn": "max_turns", "time": "max_seconds", "working": "max_seconds",
    "cost": "max_cost",
}  # fmt: skip


def read_sample(
    sample: Fields, key: str, seed: str, *, task: str, agent: str, model: str
) -> TrialRead:
    """The trial that a sample's epoch is. Raises RecordsError."""
    ident = sample.raw("id")
    if not isinstance(ident, str | int):
        raise sample.error("id", "expected text or a number")
    epoch = sample.whole("epoch")
    if epoch is None:
        raise sample.error("epoch", "expected a whole number, found none")
    started, finished = sample.time("started_at"), sample.time("completed_at")
    told = _Sample(sample, seed, started)
    told.story.tell(AgentStarted(name=agent, model=model), started)
    told.transcript() if sample.items("events") else told.dialogue()
    told.end()
    told.scores()
    error = sample.table("error").text("message")
    told.story.conclude(error, ERROR, finished)
    for name in _IN_FILE:
        sample.raw(name)
    return TrialRead(
        name=f"{ident} epoch {epoch}",
        path=key,
        task=f"{task}/{ident}",
        agent=agent,
        model=model,
        attempt=epoch,
        started_at=started or told.story.events[0].at or None,
        events=told.story.events,
        data=sample.rest(),
    )


class _Sample:
    def __init__(self, sample: Fields, seed: str, at: str | None) -> None:
        self._sample = sample
        self._attached = sample.table("attachments").values
        pools = sample.table("events_data")
        self._messages, self._calls = pools.items("messages"), pools.items("calls")
        events = sample.tables("events")
        self._events = events
        self._spans = {str(e.raw("id")): e for e in events if e.raw("event") == "span_begin"}
        self._acted = {str(e.raw("id")) for e in events if e.raw("event") == "tool"}
        self._said: set[str] = set()
        self._asked: dict[str, str] = {}
        """Which model call asked for a tool call."""
        self._turn = 0
        self.story = Story(seed, at)

    def transcript(self) -> None:
        """Model calls and tool calls as they were recorded."""
        for event in self._events:
            match event.raw("event"):
                case "model":
                    self._model(event)
                case "tool":
                    self._tool(event)
                case _:
                    pass

    def dialogue(self) -> None:
        """Messages alone: nothing is known of times, nor of the calls behind them."""
        results = {
            str(m.get("tool_call_id")): m
            for m in objects(self._sample.raw("messages"))
            if m.get("role") == "tool"
        }
        for message in objects(self._sample.raw("messages")):
            if message.get("role") == "assistant":
                self._turn += 1
            self._say(message, None)
            for call in objects(message.get("tool_calls")):
                came = results.get(str(call.get("id")), {})
                error = came.get("error")
                self.story.tell(
                    ActionTaken(
                        turn=self._turn,
                        tool_call=_name(call.get("id")),
                        app=TOOLS,
                        action=str(call.get("function")),
                        arguments=self._whole(call.get("arguments")),
                        observation=self._whole(came.get("content")),
                        error=_error_of(error),
                        started_at="",
                        duration=0.0,
                        observed_by="host",
                        untimed=True,
                    )
                )

    def _model(self, event: Fields) -> None:
        at = event.time("timestamp")
        given = self._refs(event.raw("input"), event.raw("input_refs"), self._messages)
        scoring = self._scores(event)
        for message in () if scoring else given:
            self._say(message, None, at)
        output = event.table("output")
        usage, choices = output.table("usage"), output.tables("choices")
        took = output.number("time")
        if took is None:
            took = seconds_between(at, event.time("completed"))
        call = self.story.tell(
            ModelCalled(
                model=event.text("model") or "unknown",
                model_reported=output.text("model"),
                request=self._request(event, given),
                response=self._response(event, output),
                error=_text(event.raw("error")) or output.text("error"),
                usage=_usage(usage),
                started_at=at or self.story.at,
                latency=took or 0.0,
                retries=event.whole("retries") or 0,
                turn=None if scoring else self._turn + 1,
                purpose="scorer" if scoring else None,
                untimed=took is None,
            ),
            at,
        )
        if scoring:
            return
        self._turn += 1
        for choice in choices[:1]:
            said = choice.table("message")
            self._say(dict(said.values), call, event.time("completed"))
            for asked in objects(said.raw("tool_calls")):
                self._asked[str(asked.get("id"))] = call

    def _tool(self, event: Fields) -> None:
        at = event.time("timestamp")
        ident = event.text("id")
        took = event.number("working_time")
        if took is None:
            took = seconds_between(at, event.time("completed"))
        self.story.tell(
            ActionTaken(
                turn=max(self._turn, 1),
                tool_call=ident,
                model_call=self._asked.get(ident or ""),
                app=TOOLS,
                action=event.needed("function"),
                arguments=self._whole(event.raw("arguments")),
                observation=self._whole(event.raw("result")),
                error=_error_of(event.raw("error")),
                started_at=at or "",
                duration=took or 0.0,
                observed_by="host",
                untimed=took is None,
            ),
            at,
        )

    def _say(self, message: dict[str, Any], call: str | None, at: str | None = None) -> None:
        """A message, the first time that it is seen; a tool's is its action's observation."""
        ident = message.get("id") or hashlib.sha256(msgspec.json.encode(message)).hexdigest()
        if str(ident) in self._said:
            return
        self._said.add(str(ident))
        role = message.get("role")
        if role not in ("system", "user", "assistant", "tool"):
            return
        if role == "tool" and (not self._events or str(message.get("tool_call_id")) in self._acted):
            return
        content = self._whole(message.get("content"))
        text, reasoning = _texts(content)
        self.story.tell(
            AgentMessage(
                role=role,
                text=text,
                reasoning=reasoning,
                turn=self._turn or None,
                model_call=call,
            ),
            at,
        )

    def end(self) -> None:
        """The agent's end: done, at a limit, or with an error."""
        sample = self._sample
        output, limit = sample.table("output"), sample.table("limit")
        error = sample.table("error").text("message")
        ended, took = self._solving()
        completion = output.text("completion")
        reached = limit.text("type")
        if error is not None and not sample.raw("scores"):
            self.story.tell(
                AgentFailed(
                    error=error, category=ERROR, duration=took or 0.0, untimed=took is None
                ),
                ended,
            )
            return
        ended_by: Ending = _LIMITS.get(reached, "truncated") if reached else "done"
        why = error
        if reached and why is None:
            why = limit.text("reason") or f"the {reached} limit of {limit.raw('limit')} was reached"
        self.story.tell(
            AgentFinished(
                ended_by=ended_by,
                answer=[completion] if completion else None,
                error=why,
                error_category=None if error is None else ERROR,
                duration=took or 0.0,
                untimed=took is None,
            ),
            ended,
        )

    def _solving(self) -> tuple[str | None, float | None]:
        """When the solvers ended, and how long they took, as far as spans say it."""
        begun = ended = ident = None
        for event in self._events:
            if event.raw("event") == "span_begin" and event.raw("type") == "solvers":
                begun, ident = event.time("timestamp"), event.raw("id")
            elif event.raw("event") == "span_end" and ident and event.raw("id") == ident:
                ended = event.time("timestamp")
        return ended, seconds_between(begun, ended)

    def scores(self) -> None:
        """What each scorer gave, in the order of the log."""
        times = {
            e.text("scorer"): e.time("timestamp") for e in self._events if e.raw("event") == "score"
        }
        given = self._sample.table("scores")
        for name in given.values:
            score = given.table(name)
            kind: Literal["agent", "deterministic"] = (
                "agent" if name.startswith("model_graded") else "deterministic"
            )
            value = score.raw("value")
            number = as_score(value)
            explanation = score.text("explanation")
            if number is None:
                self.story.tell(
                    VerifierFailed(
                        verifier=name,
                        verifier_kind=kind,
                        digest="",
                        weight=1.0,
                        error=f"{name} gave no single number: {msgspec.json.encode(value).decode()}"
                        + (f"\n{explanation}" if explanation else ""),
                        category=UNSCORED,
                        infrastructure=False,
                        duration=0.0,
                        untimed=True,
                    ),
                    times.get(name),
                )
                continue
            self.story.tell(
                VerifierScored(
                    verifier=name,
                    verifier_kind=kind,
                    digest="",
                    weight=1.0,
                    score=number,
                    feedback=explanation,
                    details={"value": value, **(score.rest() or {})},
                    source="verifier",
                    duration=0.0,
                    untimed=True,
                ),
                times.get(name),
            )

    def _scores(self, event: Fields) -> bool:
        """Whether an event belongs to a scorer's work."""
        ident, seen = event.raw("span_id"), 0
        while (span := self._spans.get(str(ident))) is not None and seen < len(self._spans):
            if span.raw("type") in ("scorers", "scorer"):
                return True
            ident, seen = span.raw("parent_id"), seen + 1
        return False

    def _refs(self, given: Any, refs: Any, pool: list[Any]) -> list[dict[str, Any]]:
        """Messages as they stand, or out of the pool that a log keeps each of them in once."""
        if not refs:
            return objects(given)
        return objects([pool[place] for place in _places(refs, len(pool))])

    def _request(self, event: Fields, given: list[dict[str, Any]]) -> dict[str, Any]:
        """What the endpoint was sent; in Inspect's own words where that was not recorded."""
        call = event.table("call")
        sent = call.raw("request")
        if isinstance(sent, dict):
            request = dict(cast("dict[str, Any]", sent))
            if refs := call.raw("call_refs"):
                key = call.text("call_key") or "messages"
                request[key] = self._refs(None, refs, self._calls)
            return cast("dict[str, Any]", self._whole(request))
        request = {"messages": given}
        for name in ("tools", "tool_choice", "config"):
            if value := event.raw(name):
                request[name] = value
        return cast("dict[str, Any]", self._whole(request))

    def _response(self, event: Fields, output: Fields) -> Any:
        answered = event.table("call").raw("response")
        return self._whole(answered if answered is not None else dict(output.values) or None)

    def _whole(self, value: Any) -> Any:
        """A value with what was attached put back in its place."""
        match value:
            case str() if value.startswith(_ATTACHED):
                return self._attached.get(value.removeprefix(_ATTACHED), value)
            case dict():
                return {k: self._whole(v) for k, v in cast("dict[str, Any]", value).items()}
            case list():
                return [self._whole(item) for item in cast("Sequence[Any]", value)]
            case _:
                return value


def as_score(value: Any) -> float | None:
    """A score as Inspect's own metrics count it; None for what is no single number."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        if value in _LETTERS:
            return _LETTERS[value]
        if value.lower() in _WORDS:
            return _WORDS[value.lower()]
        try:
            return finite(float(value))
        except ValueError:
            return None
    return finite(value)


def _usage(given: Fields) -> Usage:
    """Tokens of the input are all of them; Inspect counts those of a cache apart."""
    fresh = given.whole("input_tokens")
    read, written = given.whole("input_tokens_cache_read"), given.whole("input_tokens_cache_write")
    return Usage(
        model_calls=1,
        input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        output_tokens=given.whole("output_tokens"),
        cached_tokens=read,
        cost_usd=given.number("total_cost"),
    )


def _places(refs: Any, size: int) -> Iterator[int]:
    """Ranges of places, half-open; those beyond the pool are passed over."""
    for pair in cast("Sequence[Any]", refs) if isinstance(refs, list) else ():
        match pair:
            case [int() as start, int() as end]:
                yield from range(max(start, 0), min(end, size))
            case _:
                pass


def _texts(content: Any) -> tuple[str, str | None]:
    """A message's text, and its reasoning; other parts are in the log's own file."""
    if isinstance(content, str):
        return content, None
    parts = objects(content)
    text = "\n".join(str(p["text"]) for p in parts if isinstance(p.get("text"), str))
    thought = [str(p["reasoning"]) for p in parts if isinstance(p.get("reasoning"), str)]
    return text, "\n".join(thought) if thought else None


def _error_of(error: Any) -> str | None:
    if isinstance(error, dict):
        found = cast("dict[str, Any]", error)
        return f"{found.get('type', 'error')}: {found.get('message', '')}"
    return _text(error)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _name(value: Any) -> str | None:
    return None if value is None else str(value)
