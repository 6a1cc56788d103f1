"""Job folders of BenchFlow: a folder a rollout, with `result.json` and `rollout_name` in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...events.kinds import ActionTaken, AgentMessage, AgentStarted
from ...events.kinds.parts import Usage
from .fields import Fields, RecordsError, parse_object
from .graded import (
    ERROR,
    RESULT,
    Limit,
    Phase,
    ended_result,
    tell_artifacts,
    tell_failed,
    tell_finished,
    tell_or_warn,
    tell_verdict,
)
from .records import JobRead, Records, Story, TrialRead, objects

CONFIG = "config.json"
SUMMARY = "summary.json"
TRAJECTORY = "trajectory/acp_trajectory.jsonl"
TOOLS = "tools"
_TIMEOUTS: tuple[tuple[str, Limit], ...] = (
    ("agent_timeout_info", "agent_timeout"), ("idle_timeout_info", "idle_timeout"),
)  # fmt: skip
_UNSEEN = "unavailable"
"""Of usage that nobody measured: the zeros beside it are none."""


class BenchflowReader:
    """One job's folder."""

    system = "benchflow"

    def __init__(self, records: Records) -> None:
        self._records = records

    def job(self) -> JobRead:
        """The job, from its `summary.json` where that is there."""
        summary = Fields(SUMMARY, "", {})
        if SUMMARY in self._records.refs:
            summary = parse_object(self._records.read(SUMMARY), SUMMARY)
        data = dict(summary.values)
        return JobRead(name=summary.text("job_name") or "job", data=data or None)

    def trials(self) -> list[str]:
        """Folders of rollouts, at any depth; a reviewer's run inside another's is no trial."""
        found = sorted(
            {
                name.rpartition("/")[0]
                for name in self._records.names
                if "/" in name and name.rpartition("/")[2] in (RESULT, CONFIG)
            }
        )
        return [one for one in found if not any(one.startswith(f"{other}/") for other in found)]

    def files(self, key: str) -> list[str]:
        """All that lies in its folder."""
        return self._records.below(key)

    def trial(self, key: str, seed: str) -> TrialRead:
        """One rollout. Raises RecordsError for a folder without a usable `result.json`."""
        result = ended_result(self._records, key, "rollout")
        if (purpose := result.text("purpose")) not in (None, "task"):
            raise result.error("purpose", f"this is a {purpose}'s run and no trial of a task")
        return _Rollout(self._records, key, result, seed).read()


class _Rollout:
    def __init__(self, records: Records, key: str, result: Fields, seed: str) -> None:
        self._records = records
        self._key = key
        self._result = result
        self.story = Story(seed, result.time("started_at"))

    def read(self) -> TrialRead:
        """All of it."""
        result, story = self._result, self.story
        task, name = result.needed("task_name"), result.needed("rollout_name")
        agent, model = result.needed("agent"), result.text("model")
        story.tell(AgentStarted(name=agent, model=model))
        file = f"{self._key}/{TRAJECTORY}"
        if file in self._records.refs:
            tell_or_warn(story, TRAJECTORY, lambda told: self._trajectory(file, told))
        rewards, failed = result.raw("rewards"), result.text("verifier_error")
        error = result.text("error")
        timing = result.table("timing")
        graded = rewards is not None or failed is not None
        worked = timing.number("agent_execution")
        if error is not None and not graded:
            tell_failed(story, error, worked)
        else:
            usage = _usage(result.table("agent_result"))
            tell_finished(story, error, self._limit(), worked, usage)
        tell_artifacts(self._records, self._key, story)
        took = timing.number("verifier")
        if graded:
            tell_verdict(
                self._records, self._key, story, rewards, Phase(None, None, took), error=failed
            )
        story.conclude(error, ERROR, result.time("finished_at"))
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

    def _limit(self) -> Limit | None:
        """The limit that stopped the agent, if one did."""
        return next((how for name, how in _TIMEOUTS if self._result.raw(name)), None)

    def _trajectory(self, file: str, story: Story) -> None:
        """What the agent said over its protocol; a user's message begins a turn."""
        turn, thought = 0, None
        for event in _lines(self._records.read(file), file):
            kind = event.needed("type")
            if kind == "user_message" or turn == 0:
                turn += 1
            match kind:
                case "agent_thought":
                    thought = f"{thought}\n{event.text('text')}" if thought else event.text("text")
                case "user_message" | "agent_message":
                    agents = kind == "agent_message"
                    story.tell(
                        AgentMessage(
                            role="assistant" if agents else "user",
                            text=event.text("text") or "",
                            reasoning=thought if agents else None,
                            turn=turn if agents else None,
                        )
                    )
                    thought = None if agents else thought
                case "tool_call":
                    story.tell(_action(event, turn))
                case _:
                    pass  # oracles and timeouts: result.json has what matters of them
        if thought:
            story.tell(AgentMessage(role="assistant", text="", reasoning=thought, turn=turn))


def _action(event: Fields, turn: int) -> ActionTaken:
    failed = event.text("status") == "failed"
    came = event.raw("raw_output")
    if came is None:
        came = _content(event.raw("content"))
    return ActionTaken(
        turn=turn,
        tool_call=event.text("tool_call_id"),
        app=TOOLS,
        action=event.text("title") or event.text("kind") or "unknown",
        arguments=event.raw("raw_input"),
        observation=came,
        error="the tool call failed" if failed else None,
        started_at="",
        duration=0.0,
        observed_by="agent",
        untimed=True,
    )


def _content(blocks: Any) -> Any:
    """The texts of a tool call's content; other blocks are in the trajectory's own file."""
    texts = [
        str(inner["text"])
        for block in objects(blocks)
        for inner in objects([block.get("content"), block])
        if isinstance(inner.get("text"), str)
    ]
    return "\n".join(texts) if texts else None


def _lines(data: bytes, file: str) -> Iterator[Fields]:
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            yield parse_object(line, f"{file}:{number}")


def _usage(given: Fields) -> Usage | None:
    """What the agent's calls used, where anybody measured it."""
    if given.text("usage_source") == _UNSEEN:
        return None
    fresh = given.whole("n_input_tokens")
    usage = Usage(
        input_tokens=fresh,
        output_tokens=given.whole("n_output_tokens"),
        cached_tokens=given.whole("n_cache_read_tokens"),
        cost_usd=given.number("cost_usd"),
    )
    return None if usage == Usage() else usage


def looks_like_benchflow(names: Sequence[str], read: Callable[[str], bytes]) -> bool:
    """Whether one of a folder's `result.json` is a rollout's."""
    for name in names:
        if "/" in name and name.endswith(f"/{RESULT}"):
            try:
                found = parse_object(read(name), name).values
            except RecordsError:
                continue
            if "rollout_name" in found:
                return True
    return False
