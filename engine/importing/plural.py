"""Job and trial folders of Plural: episodes in environments, with every state and reward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from ...events.kinds import (
    ActionTaken,
    AgentFailed,
    AgentFinished,
    AgentMessage,
    AgentStarted,
    EnvironmentReset,
    EpisodeEnded,
    HindsightCredited,
    ModelCalled,
    StepRewarded,
    VerifierFailed,
    VerifierScored,
)
from ...events.kinds.parts import AppState, StateChange, Target, Usage
from .fields import Fields, RecordsError, parse_object, seconds_between
from .graded import ERROR, UNSCORED
from .records import JobRead, Records, Story, TrialRead, objects

RESULT = "result.json"
_TRIALS = "trials/"
Ending = Literal[
    "done", "answer", "agent_timeout", "max_turns", "max_seconds", "max_cost", "terminated",
    "truncated",
]  # fmt: skip
_ENDINGS: dict[str, Ending] = {
    "environment_terminated": "terminated", "environment_truncated": "truncated",
    "agent_finished": "done", "agent_response": "answer", "max_turns": "max_turns",
    "max_seconds": "max_seconds", "max_cost": "max_cost", "harness_timeout": "agent_timeout",
}  # fmt: skip
_KINDS: dict[str, Literal["deterministic", "agent", "human"]] = {
    "deterministic": "deterministic", "agent": "agent", "human": "human",
}  # fmt: skip
_CONTROLS: dict[str, Literal["owned", "sandboxed", "live", "replayed"]] = {
    "owned": "owned", "sandboxed": "sandboxed", "live": "live", "replayed": "replayed",
}  # fmt: skip


class PluralReader:
    """A job's folder, or that of one of its trials."""

    system = "plural"

    def __init__(self, records: Records) -> None:
        self._records = records
        self._alone = not any(name.startswith(_TRIALS) for name in records.refs)

    def job(self) -> JobRead:
        """The job; of a trial alone, the job that it says it is of."""
        if self._alone:
            receipt = parse_object(self._records.read(RESULT), RESULT).table("receipt")
            return JobRead(name=receipt.needed("trial_id"))
        result, run = self._object(RESULT), self._object("run.json")
        first = next(iter(self.trials()), "")
        job = result.text("job_id")
        if job is None and f"{first}/{RESULT}" in self._records.refs:
            job = self._object(f"{first}/{RESULT}").table("receipt").text("job_id")
        result.raw("trials")
        found = {"run.json": dict(run.values), RESULT: result.rest() or {}}
        data = {name: values for name, values in found.items() if values}
        return JobRead(name=job or "job", data=data or None)

    def trials(self) -> list[str]:
        """The folders in `trials/`; empty for the folder itself."""
        if self._alone:
            return [""]
        found = {
            "/".join(name.split("/")[:2])
            for name in self._records.names
            if name.startswith(_TRIALS) and name.count("/") > 1
        }
        return sorted(found)

    def files(self, key: str) -> list[str]:
        """All that lies in its folder."""
        return self._records.below(key) if key else self._records.names

    def trial(self, key: str, seed: str) -> TrialRead:
        """One trial's execution that counts. Raises RecordsError."""
        file = f"{key}/{RESULT}" if key else RESULT
        if file not in self._records.refs:
            raise RecordsError(
                "is not there: the trial has not ended, or its engine died; import the job again "
                "when it has",
                file=file,
            )
        result = parse_object(self._records.read(file), file)
        return _Trial(self._records, key, result, seed, self._agent).read()

    @cached_property
    def _agent(self) -> str | None:
        return self._object("run.json").text("agent")

    def _object(self, name: str) -> Fields:
        if name not in self._records.refs:
            return Fields(name, "", {})
        return parse_object(self._records.read(name), name)


class _Trial:
    def __init__(
        self, records: Records, key: str, result: Fields, seed: str, agent: str | None
    ) -> None:
        self._records = records
        self._result = result
        self._receipt = result.table("receipt")
        self._key = key
        self._agent = agent
        execution = self._receipt.whole("execution_id")
        if execution is None:
            raise self._receipt.error("execution_id", "expected a whole number, found none")
        base = f"{key}/" if key else ""
        self._artifacts = next(
            (
                folder
                for where in ("executions", "attempts")
                if records.below(folder := f"{base}{where}/{execution}/artifacts")
            ),
            f"{base}executions/{execution}/artifacts",
        )
        self.story = Story(seed, self._receipt.time("started_at"))
        self._events: dict[str, str] = {}
        """Events by the ids that the harness gave them."""
        self._messages: list[Any] = []
        """The dialogue so far; each call is recorded with what is new in it."""

    def read(self) -> TrialRead:
        """All of it."""
        result, receipt, story = self._result, self._receipt, self.story
        name = receipt.needed("trial_id")
        task = receipt.table("task_pin").needed("name")
        model = receipt.table("model").text("catalog_model_id")
        agent = self._object("atif-trajectory.json").table("agent").text("name") or self._agent
        agent = agent or "unknown"
        phase = next(
            (p for p in receipt.tables("phases") if p.text("name") == "agent_execution"),
            Fields(receipt.file, "", {}),
        )
        began, ended = phase.time("started_at"), phase.time("completed_at")
        self._reset()
        story.tell(AgentStarted(name=agent, model=model), began)
        self._steps()
        self._end(ended, seconds_between(began, ended))
        self._rewards()
        self._verdicts()
        error = _error(result)
        story.conclude(
            error, ERROR, receipt.time("completed_at"),
            cancelled=result.text("status") == "cancelled",
        )  # fmt: skip
        return TrialRead(
            name=name,
            path=self._key or ".",
            task=task,
            agent=agent,
            model=model,
            attempt=receipt.whole("attempt"),
            seed=result.whole("seed"),
            started_at=receipt.time("started_at"),
            events=story.events,
            data=result.rest(),
        )

    def _reset(self) -> None:
        apps = self._object("apps.json")
        first = next((e for e in self._episode if e.text("kind") == "environment.reset"), None)
        if not apps.values and first is None:
            return
        self.story.tell(
            EnvironmentReset(
                apps={
                    name: AppState(
                        state=apps.table(name).raw("initial"), control=_control(apps.table(name))
                    )
                    for name in apps.values
                },
                seed=self._result.whole("seed"),
                observation=None if first is None else first.raw("observation"),
            ),
            None if first is None else first.time("ended_at"),
        )

    def _steps(self) -> None:
        """The harness's record in its order; actions with what the apps' own host recorded, where
        it did. Without that, the agent alone saw them."""
        hosted = iter(self._lines("steps.jsonl"))
        states = {
            line.whole("step"): line.table("state").values for line in self._lines("states.jsonl")
        }
        number = 0
        for event in self._episode:
            kind = event.text("kind")
            if kind == "environment.step":
                number += 1
                self._action(event, next(hosted, None), states.get(number, {}))
            elif kind is not None and kind.startswith("model"):
                self._call(event)
        for host in hosted:  # steps that the harness did not tell of
            number += 1
            self._action(None, host, states.get(number, {}))

    def _action(self, told: Fields | None, host: Fields | None, changed: Mapping[str, Any]) -> None:
        event = host or told
        assert event is not None
        at = None if told is None else told.time("started_at")
        milliseconds = None if told is None else told.number("duration_ms")
        ident = self.story.tell(
            ActionTaken(
                turn=event.whole("turn") or (told.whole("turn") if told else None) or 1,
                app=event.needed("app"),
                action=event.needed("action"),
                arguments=event.raw("arguments"),
                observation=event.raw("observation"),
                error=event.table("info").text("error") or (told.text("error") if told else None),
                states={name: StateChange(full=[state]) for name, state in changed.items()},
                started_at=at or "",
                duration=(milliseconds or 0.0) / 1000,
                observed_by="agent" if host is None else "host",
                untimed=milliseconds is None,
            ),
            at or (None if host is None else host.time("at")),
        )
        if told is not None:
            self._events[told.text("event_id") or ""] = ident

    def _call(self, event: Fields) -> None:
        at = event.time("started_at")
        usage = event.table("usage")
        milliseconds = event.number("duration_ms")
        text, calls = event.text("text"), objects(event.raw("tool_calls"))
        new = event.items("messages")
        self._messages = [*self._messages[: event.whole("messages_offset") or 0], *new]
        for message in objects(new):
            if (role := message.get("role")) == "system" or role == "user":
                content = message.get("content")
                said = content if isinstance(content, str) else ""
                self.story.tell(AgentMessage(role=role, text=said), at)
        tools = event.items("tools")
        ident = self.story.tell(
            ModelCalled(
                model=event.text("model") or "unknown",
                request={"messages": self._messages} | ({"tools": tools} if tools else {}),
                response={"text": text, "tool_calls": calls} if text or calls else None,
                error=event.text("error"),
                usage=Usage(
                    model_calls=1,
                    input_tokens=usage.whole("input_tokens"),
                    output_tokens=usage.whole("output_tokens"),
                    cached_tokens=usage.whole("cached_input_tokens"),
                    cost_usd=usage.number("cost_usd"),
                ),
                started_at=at or "",
                latency=(milliseconds or 0.0) / 1000,
                retries=0,
                turn=event.whole("turn"),
                untimed=milliseconds is None,
            ),
            at,
        )
        self._events[event.text("event_id") or ""] = ident
        if text:
            self.story.tell(
                AgentMessage(
                    role="assistant", text=text, turn=event.whole("turn"), model_call=ident
                )
            )

    def _end(self, at: str | None, took: float | None) -> None:
        output = self._object(RESULT)
        reason = self._result.text("stop_reason") or None
        response = output.raw("response")
        apps = self._object("apps.json")
        if apps.values:
            self.story.tell(
                EpisodeEnded(
                    apps={name: apps.table(name).raw("final") for name in apps.values},
                    terminated=output.truth("terminated") or False,
                    truncated=output.truth("truncated") or False,
                    reason=reason,
                    answer=None if response is None else [response],
                ),
                at,
            )
        error = _error(self._result)
        if error is not None:
            self.story.tell(
                AgentFailed(
                    error=error, category=ERROR, duration=took or 0.0, untimed=took is None
                ),
                at,
            )
            return
        self.story.tell(
            AgentFinished(
                ended_by=_ENDINGS.get(reason or "", "done"),
                answer=None if response is None else [response],
                duration=took or 0.0,
                untimed=took is None,
            ),
            at,
        )

    def _rewards(self) -> None:
        """Rewards of steps and credit in hindsight; those of verdicts follow from the verdicts."""
        for line in self._lines("rewards.jsonl"):
            source = line.text("source")
            target = line.table("target")
            ident = self._events.get(target.text("event_id") or "")
            value = line.number("value")
            if source not in ("step", "hindsight") or ident is None or value is None:
                continue  # it is in the file
            whole: dict[str, Any] = {
                "verifier": line.needed("verifier"),
                "version": line.text("version") or "",
                "digest": "",
                "target": Target(
                    target="step" if target.text("kind") == "step" else "event",
                    event_id=ident,
                    field=target.text("field"),
                    start=target.whole("start"),
                    end=target.whole("end"),
                    token_start=target.whole("token_start"),
                    token_end=target.whole("token_end"),
                ),
                "app": line.text("app"),
                "value": value,
                "weight": 1.0 if (weight := line.number("weight")) is None else weight,
                "space": "output",
                "metadata": dict(line.table("metadata").values),
            }
            kind = StepRewarded if source == "step" else HindsightCredited
            self.story.tell(kind(**whole), line.time("created_at"))

    def _verdicts(self) -> None:
        for found in self._result.tables("verifier_results"):
            name, score = found.needed("verifier_name"), found.number("score")
            kind = _KINDS.get(found.text("kind") or "", "deterministic")
            began, ended = found.time("started_at"), found.time("completed_at")
            took = seconds_between(began, ended)
            feedback = found.text("feedback") or None
            if found.text("status") == "awaiting_review":
                continue  # nobody has reviewed it there, and nobody can here
            if score is None:
                self.story.tell(
                    VerifierFailed(
                        verifier=name, verifier_kind=kind, digest="", weight=1.0,
                        error=feedback or f"{name} failed, and the records don't say why",
                        category=UNSCORED, infrastructure=False, duration=took or 0.0,
                        untimed=took is None,
                    ),
                    ended,
                )  # fmt: skip
                continue
            scores = found.table("scores")
            self.story.tell(
                VerifierScored(
                    verifier=name, verifier_kind=kind, digest="", weight=1.0, score=score,
                    scores={n: v for n in scores.values if (v := scores.number(n)) is not None},
                    evidence=[str(text) for text in found.items("evidence")],
                    feedback=feedback,
                    details=found.rest() or {},
                    source="verifier", duration=took or 0.0, untimed=took is None,
                ),
                ended,
            )  # fmt: skip

    @cached_property
    def _episode(self) -> list[Fields]:
        return list(self._lines("episode.jsonl"))

    def _object(self, name: str) -> Fields:
        file = f"{self._artifacts}/{name}"
        if file not in self._records.refs:
            return Fields(file, "", {})
        return parse_object(self._records.read(file), file)

    def _lines(self, name: str) -> Iterator[Fields]:
        file = f"{self._artifacts}/{name}"
        if file in self._records.refs:
            for number, line in enumerate(self._records.read(file).splitlines(), 1):
                if line.strip():
                    yield parse_object(line, f"{file}:{number}")


def _error(result: Fields) -> str | None:
    if result.text("status") != "failed":
        return None
    code, message = result.text("error_code"), result.text("error_message")
    return ": ".join(part for part in (code, message) if part) or "the trial failed"


def _control(app: Fields) -> Literal["owned", "sandboxed", "live", "replayed"]:
    said = app.needed("control")
    if said not in _CONTROLS:
        raise app.error("control", f"expected one of {', '.join(_CONTROLS)}, found {said!r}")
    return _CONTROLS[said]


def looks_like_plural(names: Sequence[str], read: Callable[[str], bytes]) -> bool:
    """Whether a folder's `result.json` is a trial's with its receipt; the folder's own, or one in
    `trials/`."""
    for name in names:
        one = name.startswith(_TRIALS) and name.count("/") == 2
        if name == RESULT or (one and name.endswith(f"/{RESULT}")):
            try:
                found = parse_object(read(name), name).values
            except RecordsError:
                continue
            if "receipt" in found:
                return True
    return False
