"""Events as a log would have them, made from payloads, and a trial to start from."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import msgspec

from trialog.events.clock import format_time
from trialog.events.codec import decode, encode
from trialog.events.envelope import NewEvent, RecordedEvent
from trialog.events.hashing import event_hash, first_previous
from trialog.events.kinds import (
    ActionTaken,
    AgentFinished,
    AgentStarted,
    Event,
    JobStarted,
    SandboxStarted,
    StepRewarded,
    TrialFinished,
    TrialScheduled,
    TrialScored,
    TrialStarted,
    VerifierScored,
    VerifierStarted,
)
from trialog.events.kinds.parts import Limits, Output, Slot, Target
from trialog.events.log import EventLog
from trialog.events.values import blob_ref
from trialog.projections.trial import TrialFold, TrialView

EPOCH = 1_790_000_000_000_000
"""The time of the first event of every stream: microseconds."""

Item = Event | tuple[str, Event]
"""A payload; or the event's id and the payload."""


def recorded(stream: str, items: Iterable[Item], *, position: int = 1) -> list[RecordedEvent]:
    """The events of one stream: a second apart, with ids that count up and true hashes."""
    previous = first_previous(stream)
    events: list[RecordedEvent] = []
    for version, item in enumerate(items, 1):
        id, payload = item if isinstance(item, tuple) else (event_id(stream, version), item)
        fields: dict[str, Any] = {
            "stream": stream,
            "version": version,
            "kind": type(payload).__name__,
            "schema": type(payload).schema,
            "id": id,
            "at": at(version),
            "causation": None,
            "ignorable": type(payload).ignorable,
            "data": encode(payload),
        }
        previous = event_hash(previous, **fields)
        events.append(RecordedEvent(position=position + version - 1, hash=previous, **fields))
    return events


def event_id(stream: str, version: int) -> str:
    """An id in the form of a UUIDv7."""
    return f"01900000-0000-7000-8000-{sum(stream.encode()):04x}{version:08x}"


def at(version: int) -> str:
    """The time of a stream's event."""
    return format_time(EPOCH + (version - 1) * 1_000_000)


def unknown(event: RecordedEvent, *, ignorable: bool) -> RecordedEvent:
    """The same place in the log, taken by a kind of a later release."""
    return msgspec.structs.replace(
        event, kind="FutureThing", ignorable=ignorable, data='{"kind":"FutureThing","x":1}'
    )


def view(*items: Item, trial: str = "t__00000001") -> TrialView:
    """What a trial's fold knows after these events."""
    fold = TrialFold()
    fold.feed(recorded(f"trial/{trial}", items))
    found = fold.record()
    assert found is not None
    return found


async def fill(log: EventLog, streams: dict[str, list[Item]]) -> None:
    """Append streams to a log, one after the other, each in one append."""
    for stream, items in streams.items():
        await log.append(
            stream,
            0,
            [
                NewEvent(id=event.id, at=event.at, payload=decode(event))
                for event in recorded(stream, items)
            ],
        )


# The pieces of an ordinary trial


def slot(**changes: Any) -> Slot:
    """Task `t`, agent `oracle`, attempt 1."""
    return Slot(**({"task": "t", "agent": "oracle", "attempt": 1} | changes))


def started(**changes: Any) -> TrialStarted:
    """The first execution of `slot()` in job `j`."""
    known: dict[str, Any] = {
        "job": "j",
        "trial": "t__00000001",
        "slot": slot(),
        "execution": 1,
        "task_digest": "sha256:" + "a" * 64,
    }
    return TrialStarted(**(known | changes))


def sandbox(**changes: Any) -> SandboxStarted:
    """A bubblewrap sandbox for the agent."""
    known: dict[str, Any] = {
        "purpose": "agent",
        "backend": "bubblewrap",
        "sandbox_id": "s1",
        "workspace": "/app",
        "limits": Limits(),
        "start_seconds": 0.25,
    }
    return SandboxStarted(**(known | changes))


def action(**changes: Any) -> ActionTaken:
    """A command in the shell that printed `ok`."""
    known: dict[str, Any] = {
        "turn": 1,
        "app": "shell",
        "action": "run",
        "arguments": {"command": "true"},
        "observation": "ok",
        "started_at": at(4),
        "duration": 0.5,
        "observed_by": "host",
    }
    return ActionTaken(**(known | changes))


def agent_finished(**changes: Any) -> AgentFinished:
    """The agent is done."""
    known: dict[str, Any] = {"ended_by": "done", "exit_code": 0, "duration": 1.5}
    return AgentFinished(**(known | changes))


def verifier_started(**changes: Any) -> VerifierStarted:
    """The test script starts."""
    known: dict[str, Any] = {
        "verifier": "script",
        "verifier_kind": "script",
        "digest": "sha256:" + "b" * 64,
        "weight": 1.0,
        "sandbox_mode": "shared",
    }
    return VerifierStarted(**(known | changes))


def scored(value: float = 1.0, **changes: Any) -> VerifierScored:
    """The test script gave its number."""
    known: dict[str, Any] = {
        "verifier": "script",
        "verifier_kind": "script",
        "digest": "sha256:" + "b" * 64,
        "weight": 1.0,
        "score": value,
        "source": "verifier",
        "exit_code": 0,
        "sandbox_mode": "shared",
        "duration": 0.75,
    }
    return VerifierScored(**(known | changes))


def output(data: bytes = b"PASS\n") -> Output:
    """Console output, all of it kept."""
    ref = blob_ref(data)
    return Output(blob=ref, total=len(data), sha256=ref.blob.removeprefix("sha256:"))


def trial_scored(value: float = 1.0, **changes: Any) -> TrialScored:
    """The trial's score."""
    known: dict[str, Any] = {
        "passed": value >= 1.0,
        "score": value,
        "rewards": {"reward": value},
        "reward_source": "verifier",
        "reward_valid": True,
    }
    return TrialScored(**(known | changes))


def step_rewarded(step: str, value: float, **changes: Any) -> StepRewarded:
    """A reward of verifier `progress` for a step."""
    known: dict[str, Any] = {
        "verifier": "progress",
        "version": "1.0.0",
        "digest": "sha256:" + "c" * 64,
        "target": Target(target="step", event_id=step),
        "app": "shell",
        "value": value,
        "weight": 1.0,
        "space": "action",
    }
    return StepRewarded(**(known | changes))


def trial(value: float = 1.0, *, steps: int = 1, **changes: Any) -> list[Item]:
    """A whole trial, from its start to its end."""
    return [
        started(**changes),
        sandbox(),
        AgentStarted(name="oracle"),
        *(action(turn=turn) for turn in range(1, steps + 1)),
        agent_finished(),
        verifier_started(),
        scored(value),
        trial_scored(value),
        TrialFinished(outcome="scored"),
    ]


def job_started(**changes: Any) -> JobStarted:
    """Job `j` with one slot."""
    known: dict[str, Any] = {
        "job": "j",
        "folder": "j",
        "config": {"agent": "oracle"},
        "versions": {"trialog": "0.1.0"},
        "tasks": [],
        "slots": 1,
        "pid": 1,
        "host": "h",
    }
    return JobStarted(**(known | changes))


def scheduled(trial: str = "t__00000001", **changes: Any) -> TrialScheduled:
    """An execution of `slot()`."""
    known: dict[str, Any] = {"trial": trial, "slot": slot(), "execution": 1}
    return TrialScheduled(**(known | changes))


def names(task: str = "t") -> Iterable[str]:
    """Names of trials that count up."""
    return (f"{task}__{n:08x}" for n in itertools.count(1))
