"""Job folders of Harbor: a folder a trial, with `result.json` in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...events.kinds import AgentStarted
from ...events.kinds.parts import Usage
from .atif import tell_trajectory
from .fields import Fields, RecordsError, parse_object, seconds_between
from .graded import (
    ERROR,
    RESULT,
    Phase,
    ended_result,
    tell_artifacts,
    tell_failed,
    tell_finished,
    tell_or_warn,
    tell_verdict,
)
from .records import JobRead, Records, Story, TrialRead

CONFIG = "config.json"
TRAJECTORY = "agent/trajectory.json"
_AGENT_DEADLINE = "AgentTimeoutError"
_CANCELLED = "CancelledError"


class HarborReader:
    """One job's folder."""

    system = "harbor"

    def __init__(self, records: Records) -> None:
        self._records = records

    def job(self) -> JobRead:
        """The job, from its own `result.json` and `config.json` where they are."""
        result = self._object(RESULT)
        config = self._object(CONFIG)
        version = self._object("lock.json").table("harbor").text("version")
        data = {
            name: values for name, found in ((RESULT, result), (CONFIG, config))
            if (values := dict(found.values))
        }  # fmt: skip
        return JobRead(
            name=config.text("job_name") or result.text("id") or "job",
            version=version,
            started_at=result.time("started_at"),
            finished_at=result.time("finished_at"),
            data=data or None,
        )

    def trials(self) -> list[str]:
        """Folders that have a trial's `config.json` or `result.json`."""
        found = {
            name.split("/")[0]
            for name in self._records.names
            if name.count("/") == 1 and name.split("/")[1] in (RESULT, CONFIG)
        }
        return sorted(found)

    def files(self, key: str) -> list[str]:
        """All that lies in its folder."""
        return self._records.below(key)

    def trial(self, key: str, seed: str) -> TrialRead:
        """One trial. Raises RecordsError for a folder without a usable `result.json`."""
        result = ended_result(self._records, key, "trial")
        if (schema := result.whole("schema_version")) not in (None, 1):
            raise result.error("schema_version", f"expected 1, found {schema}")
        return _Trial(self._records, key, result, seed).read()

    def _object(self, name: str) -> Fields:
        """An object of the job's own; an empty one where it is not there, or unreadable."""
        if name not in self._records.refs:
            return Fields(name, "", {})
        return parse_object(self._records.read(name), name)


class _Trial:
    def __init__(self, records: Records, key: str, result: Fields, seed: str) -> None:
        self._records = records
        self._key = key
        self._result = result
        self.story = Story(seed, result.time("started_at"))

    def read(self) -> TrialRead:
        """All of it."""
        result, story = self._result, self.story
        task, name = result.needed("task_name"), result.needed("trial_name")
        info = result.table("agent_info")
        agent = info.needed("name")
        model = _model(info.table("model_info")) or (
            result.table("config").table("agent").text("model_name")
        )
        running = result.table("agent_execution")
        began, ended = running.time("started_at"), running.time("finished_at")
        story.tell(AgentStarted(name=agent, version=info.text("version"), model=model), began)
        self._trajectory()
        exception = result.table("exception_info")
        error = _error(exception)
        rewards = result.table("verifier_result").raw("rewards")
        took = seconds_between(began, ended)
        if error is not None and rewards is None:
            tell_failed(story, error, took, ended)
        else:
            late = exception.text("exception_type") == _AGENT_DEADLINE
            usage = _usage(result.table("agent_result"))
            tell_finished(story, error, "agent_timeout" if late else None, took, usage, ended)
        tell_artifacts(self._records, self._key, story)
        self._verdict(rewards)
        cancelled = exception.text("exception_type") == _CANCELLED and rewards is None
        story.conclude(error, ERROR, result.time("finished_at"), cancelled=cancelled)
        return TrialRead(
            name=name,
            path=self._key,
            task=task,
            agent=agent,
            model=model,
            started_at=result.time("started_at"),
            events=story.events,
            data=result.rest(),
        )

    def _trajectory(self) -> None:
        file = f"{self._key}/{TRAJECTORY}"
        if file in self._records.refs:
            tell_or_warn(
                self.story,
                TRAJECTORY,
                lambda story: tell_trajectory(parse_object(self._records.read(file), file), story),
            )

    def _verdict(self, rewards: Any) -> None:
        phase = self._result.table("verifier")
        began, ended = phase.time("started_at"), phase.time("finished_at")
        if rewards is None and began is None:
            return
        tell_verdict(
            self._records, self._key, self.story, rewards,
            Phase(began, ended, seconds_between(began, ended)),
            mode=self._result.text("verifier_environment_mode"),
            error=_error(self._result.table("exception_info")),
        )  # fmt: skip


def _error(exception: Fields) -> str | None:
    kind, message = exception.text("exception_type"), exception.text("exception_message")
    return None if kind is None else f"{kind}: {message}" if message else kind


def _model(info: Fields) -> str | None:
    name, provider = info.text("name"), info.text("provider")
    return f"{provider}/{name}" if name and provider else name


def _usage(context: Fields) -> Usage | None:
    usage = Usage(
        input_tokens=context.whole("n_input_tokens"),
        output_tokens=context.whole("n_output_tokens"),
        cached_tokens=context.whole("n_cache_tokens"),
        cost_usd=context.number("cost_usd"),
    )
    return None if usage == Usage() else usage


def looks_like_harbor(names: Sequence[str], read: Callable[[str], bytes]) -> bool:
    """Whether a folder's files are those of a job: a `config.json` or `result.json` of a trial
    that has a trial's keys, one folder deep."""
    for name in names:
        file = name.partition("/")[2]
        if file in (RESULT, CONFIG):
            try:
                found = parse_object(read(name), name).values
            except RecordsError:
                continue
            if "trials_dir" in found or {"trial_uri", "agent_info"} <= found.keys():
                return True
    return False
