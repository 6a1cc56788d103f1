"""Jobs whose models are answered by the recorded calls of an earlier one.

Each slot is answered by the recorded trial of the same task, agent, model, parameters and attempt:
by its last execution whose agent came to an end. A slot that has none, or whose calls were not
seen, refuses the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ...events.codec import decode_or_none
from ...events.envelope import RecordedEvent
from ...events.errors import LogCorrupt
from ...events.kinds import (
    AgentFailed,
    AgentFinished,
    JudgeSampled,
    ModelCalled,
    TrialStarted,
    VerifierStarted,
)
from ...events.kinds.job import TaskSnapshot
from ...events.kinds.parts import Replays, Slot
from ...events.log import BlobStore, EventLog
from ...events.values import unescape
from ...projections.source import read_trial
from ..errors import ConfigError
from ..models.client import CutOff
from ..models.recorded import RecordedCall, call_blobs, recorded_calls
from ..models.replaying import Recording
from .config import JobConfig
from .load import load_job
from .refuse import refuse_imported
from .state import JobState, slot_key, slots

SHOWN = 5
"""Slots that a refusal names."""


class RecordedTrial(msgspec.Struct, frozen=True, kw_only=True):
    """A trial of which every model call was seen."""

    name: str
    task: TaskSnapshot
    """As its job took it."""
    seed: int | None
    calls: Sequence[RecordedCall]
    end: AgentFinished | AgentFailed
    judged: Mapping[str, Sequence[tuple[str, JudgeSampled]]]
    """The replies of each judge, with the events' ids: those that its verdict is made of."""
    events: Sequence[RecordedEvent]

    def recording(self, blobs: BlobStore, clean: Callable[[Any], Any]) -> Recording:
        """Its calls, for the trial that is answered by this one; see Recording."""
        return Recording(self.name, self.calls, blobs, clean=clean, cut_off=_cut_off(self.end))


class ReplayedJob:
    """Where a job's model calls are answered from."""

    def __init__(
        self, log: EventLog, job: str, tasks: Mapping[str, TaskSnapshot], trials: Mapping[str, str]
    ) -> None:
        """`trials` are the recorded ones, by the key of the slot that each answers."""
        self.job = job
        self._log = log
        self._tasks = tasks
        self._trials = trials

    def of(self, slot: Slot) -> Replays:
        """The recorded trial of a slot, as events name it."""
        return Replays(job=self.job, trial=self._trials[slot_key(slot)])

    async def open(self, slot: Slot) -> RecordedTrial:
        """The recorded trial of a slot. Raises LogError where the log lost something of it."""
        name = self._trials[slot_key(slot)]
        return await _recorded(self._log, name, self._tasks[slot.task])


async def find_replayed(log: EventLog, config: JobConfig, tasks: Iterable[str]) -> ReplayedJob:
    """The recorded trials that answer a job of this configuration.

    Raises ConfigError where a slot has none, and CommandRefused for a job that is not there.
    """
    assert config.replay_models is not None
    job = await load_job(log, config.replay_models)
    assert job.started is not None
    refuse_imported(job.started, "replayed")
    found: dict[str, str] = {}
    unseen: list[str] = []
    for slot in slots(config, tasks):
        try:
            found[slot_key(slot)] = await _answering(log, job, slot)
        except _Unseen as why:
            unseen.append(f"{_named(slot)}: {why}")
    if unseen:
        more = f", and {len(unseen) - SHOWN} more" if len(unseen) > SHOWN else ""
        raise ConfigError(
            f"job {job.started.job} can't answer {len(unseen)} of {len(unseen) + len(found)} "
            f"trials: {', and '.join(unseen[:SHOWN])}{more}; only what it recorded can be replayed",
            key="--replay-models",
        )
    snapshots = {task.task: task for task in job.started.tasks}
    return ReplayedJob(log, job.started.job, snapshots, found)


class _Unseen(Exception):
    """Why no recorded trial answers a slot."""


async def _answering(log: EventLog, job: JobState, slot: Slot) -> str:
    """The recorded trial that answers a slot. Raises _Unseen."""
    executions = [e for e in job.executions.get(slot_key(slot), []) if e.trial not in job.abandoned]
    if not executions:
        raise _Unseen(_no_trial(job, slot))
    for scheduled in reversed(executions):
        try:
            payloads = _payloads(await read_trial(log, scheduled.trial))
        except LogCorrupt as corrupt:
            raise _Unseen(str(corrupt)) from corrupt
        if _end(payloads) is None:
            continue
        calls = [
            one for _, one in payloads if isinstance(one, ModelCalled) and one.failure != "refused"
        ]
        if not calls:
            raise _Unseen(f"no model call of trial {scheduled.trial} was seen")
        for place, call in enumerate(calls, 1):
            for ref in call_blobs(call):
                if not await log.blobs.has(ref):
                    raise _Unseen(
                        f"a part of model call {place} of trial {scheduled.trial} is gone (blob "
                        f"{ref.blob})"
                    )
        return scheduled.trial
    raise _Unseen(f"the agent of trial {executions[-1].trial} never came to an end")


def _no_trial(job: JobState, slot: Slot) -> str:
    """The first thing that the recorded job does not have."""
    assert job.started is not None
    recorded = [one.slot for tries in job.executions.values() for one in tries]
    known: list[tuple[str, Any, Callable[[Slot], Any]]] = [
        ("tasks", slot.task, lambda one: one.task),
        ("agents", slot.agent, lambda one: one.agent),
        ("models", slot.model, lambda one: one.model),
        ("parameters", unescape(slot.parameters), lambda one: unescape(one.parameters)),
        ("attempts", slot.attempt, lambda one: one.attempt),
    ]
    for what, wanted, field in known:
        there = [field(one) for one in recorded]
        if wanted not in there:
            listed = sorted({_word(value) for value in there})
            return f"its {what} that were run are {', '.join(listed) or 'none'}"
        recorded = [one for one in recorded if field(one) == wanted]
    return "its trial was given up"


def _word(value: Any) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _named(slot: Slot) -> str:
    model = f" with {slot.model}" if slot.model else ""
    given = "".join(f" {k}={_word(v)}" for k, v in unescape(slot.parameters).items())
    return f"{slot.task} by {slot.agent}{model}{given}, attempt {slot.attempt}"


async def _recorded(log: EventLog, name: str, task: TaskSnapshot) -> RecordedTrial:
    events = await read_trial(log, name)
    payloads = _payloads(events)
    calls = [(id, one) for id, one in payloads if isinstance(one, ModelCalled)]
    end = _end(payloads)
    assert end is not None  # as it was when the trial was chosen
    return RecordedTrial(
        name=name,
        task=task,
        seed=next((one.seed for _, one in payloads if isinstance(one, TrialStarted)), None),
        calls=await recorded_calls(calls, log.blobs),
        end=end,
        judged=_judged(payloads),
        events=events,
    )


def _payloads(events: Iterable[RecordedEvent]) -> list[tuple[str, Any]]:
    return [(event.id, decode_or_none(event)) for event in events]


def _end(payloads: Iterable[tuple[str, Any]]) -> AgentFinished | AgentFailed | None:
    ends = [one for _, one in payloads if isinstance(one, AgentFinished | AgentFailed)]
    return ends[-1] if ends else None


def _judged(payloads: Iterable[tuple[str, Any]]) -> dict[str, list[tuple[str, JudgeSampled]]]:
    judged: dict[str, list[tuple[str, JudgeSampled]]] = {}
    for event_id, one in payloads:
        match one:
            case VerifierStarted(verifier_kind="agent"):
                judged[one.verifier] = []  # what it said before is not what its verdict is made of
            case JudgeSampled(applied=None):
                judged.setdefault(one.verifier, []).append((event_id, one))
            case _:
                pass
    return judged


def _cut_off(end: AgentFinished | AgentFailed) -> CutOff | None:
    match end:
        case AgentFinished(ended_by="max_seconds" | "agent_timeout" | "idle_timeout" as ended_by):
            return CutOff(ended_by, end.error_category or ended_by)
        case _:
            return None
