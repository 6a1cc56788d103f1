"""A log of everything, in rows, and a reader of such rows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from helpers.given import (
    Item,
    action,
    agent_finished,
    at,
    job_started,
    output,
    recorded,
    sandbox,
    scheduled,
    scored,
    slot,
    started,
    step_rewarded,
    trial_scored,
    verifier_started,
)
from trialog.events.envelope import RecordedEvent
from trialog.events.kinds import (
    AgentFailed,
    AgentMessage,
    AgentStarted,
    ArtifactsSaved,
    EnvironmentReset,
    HindsightCredited,
    HumanReviewRequested,
    HumanReviewSubmitted,
    JobFinished,
    JobInterrupted,
    JobResumed,
    JudgeSampled,
    ModelCalled,
    ProcessesKilled,
    SandboxRemoved,
    StepRewardFailed,
    TamperFound,
    TrialAbandoned,
    TrialErrored,
    TrialFinished,
    TrialInterrupted,
    TrialUnscored,
    VerifierApplied,
    VerifierFailed,
    WarningRaised,
    WorkspaceHardened,
    WorkspaceSaved,
)
from trialog.events.kinds.parts import (
    AppState,
    Continues,
    Criterion,
    CriterionAsked,
    StateChange,
    Target,
    Usage,
)
from trialog.events.kinds.trial import Artifact
from trialog.events.memory import MemoryLog
from trialog.events.open import memory_log
from trialog.events.values import blob_ref

JOB = "2026-09-21__14-13-20"
LONG = ("A long message. " * 1100).encode()
PRINTED = b"1 passed\n\xff\n"
KEPT = b"\x00\x01answer\n"
ODD = "one\u2028two\u2029three\x85four\x0b\x0c\x1c\x1d\x1efive\r\nsix"


def streams() -> tuple[list[RecordedEvent], dict[str, bytes]]:
    """The events, in the order of their positions, and the blobs."""
    names = [f"t__{n:08x}" for n in range(1, 7)]
    chat: dict[str, Any] = {
        "task": "half-life", "agent": "chat", "model": "m-1", "parameters": {"temperature": 0.5},
    }  # fmt: skip
    slots = [
        slot(**chat),
        slot(**chat, attempt=2),
        slot(task="tolerance", agent="oracle"),
        slot(task="tolerance", agent="oracle", attempt=2),
    ]
    job: list[Item] = [
        job_started(job=JOB, folder=JOB, slots=4, config={"agents": ["chat", "oracle"], "k": 2}),
        scheduled(names[0], slot=slots[0]),
        scheduled(names[1], slot=slots[1]),
        JobInterrupted(signal="SIGINT", running=1),
        JobResumed(plan={"run": 3}, pid=2, host="h"),
        TrialAbandoned(trial=names[1], reason="cut off before work was saved"),
        scheduled(names[2], slot=slots[1], execution=2, continues=names[1], reason="cut off"),
        scheduled(names[3], slot=slots[2]),
        scheduled(names[4], slot=slots[2], execution=2, continues=names[3], reason="sandbox_lost"),
        scheduled(names[5], slot=slots[3]),
        JobFinished(root="0" * 64, heads=[], trials=6, wall_seconds=12.3456789),
    ]
    whole = {f"job/{JOB}": job}
    whole[f"trial/{names[0]}"] = _rich(names[0], slots[0])
    whole[f"trial/{names[1]}"] = [
        started(job=JOB, trial=names[1], slot=slots[1]),
        AgentStarted(name="chat"),
        _called(usage=Usage(input_tokens=7)),
        TrialInterrupted(reason="SIGINT", stage="agent"),
    ]
    whole[f"trial/{names[2]}"] = [
        started(job=JOB, trial=names[2], slot=slots[1], execution=2),
        sandbox(),
        AgentFailed(error="the sandbox went away", category="sandbox_lost", duration=0.5),
        TrialErrored(error="the sandbox went away", category="sandbox_lost"),
        TrialFinished(outcome="errored"),
    ]
    saved = [
        started(job=JOB, trial=names[3], slot=slots[2]),
        sandbox(),
        AgentStarted(name="oracle"),
        action(),
        agent_finished(),
        WorkspaceSaved(archive=blob_ref(b"tar"), size=3, files=1, outside=[], duration=0.125),
    ]
    lost = VerifierFailed(
        verifier="script", verifier_kind="script", digest="sha256:" + "b" * 64, weight=1.0,
        error="the sandbox went away", category="sandbox_lost", infrastructure=True, duration=1.5,
        output=output(PRINTED),
    )  # fmt: skip
    whole[f"trial/{names[3]}"] = [
        *saved,
        verifier_started(),
        lost,
        TrialUnscored(error="lost", category="sandbox_lost", infrastructure=True),
        TrialFinished(outcome="unscored"),
    ]
    head = recorded(f"trial/{names[3]}", saved)[-1]
    place = Continues(stream=head.stream, version=head.version, hash=head.hash.hex())
    whole[f"trial/{names[4]}"] = [
        started(job=JOB, trial=names[4], slot=slots[2], execution=2, continues=place),
        sandbox(purpose="verifier", sandbox_id="s2"),
        WorkspaceHardened(removed=["conftest.py"], duration=0.0625),
        verifier_started(),
        WarningRaised(
            code="reward_missing", message="Verifier scored 0: verifier exited with rc=3"
        ),
        scored(0.0, source="engine", warnings=["reward_missing"], exit_code=3),
        trial_scored(0.0, reward_source="engine", reward_valid=False),
        TrialFinished(outcome="scored"),
    ]
    whole[f"trial/{names[5]}"] = [
        started(job=JOB, trial=names[5], slot=slots[3]),
        sandbox(),
        agent_finished(ended_by="agent_timeout", error="stopped", error_category="agent_timeout"),
        _asked(),
    ]
    events: list[RecordedEvent] = []
    for stream, items in whole.items():
        events += recorded(stream, items, position=len(events) + 1)
    return events, {blob_ref(data).blob: data for data in (LONG, PRINTED, KEPT, b"tar")}


def _asked() -> HumanReviewRequested:
    asked = CriterionAsked(name="care", description="d", weight=2.0, min_score=0.0, max_score=4.0)
    return HumanReviewRequested(
        verifier="person", version="1.0.0", digest="sha256:" + "e" * 64, weight=0.5,
        instructions="look", criteria=[asked],
    )  # fmt: skip


def _called(**changes: Any) -> ModelCalled:
    known: dict[str, Any] = {
        "model": "m-1", "request": {"messages": []}, "started_at": at(3), "latency": 0.25,
        "retries": 0,
    }  # fmt: skip
    return ModelCalled(**(known | changes))


def _rich(name: str, slot: Any) -> list[Item]:
    label: dict[str, Any] = {"verifier": "progress", "version": "2.0.0", "digest": "sha256:2"}
    span = Target(target="event", event_id="m1", field="text", start=0, end=4)
    return [
        started(job=JOB, trial=name, slot=slot, seed=7),
        sandbox(
            backend="docker", image="python:3.12", image_digest="sha256:1",
            repository_digest="python@sha256:2", build_seconds=1.23456789,
        ),
        WarningRaised(code="storage_not_limited", message="the engine can't limit storage"),
        AgentStarted(name="chat", version="1.2.3"),
        EnvironmentReset(
            apps={"counter": AppState(state={"b": 0, "a": []}, control="live")}, seed=7,
            observation={"counter": 0},
        ),
        AgentMessage(role="system", text="be brief"),
        AgentMessage(role="user", text=blob_ref(LONG)),
        ("m1", _called(
            model_reported="m-1-2026", purpose="agent",
            usage=Usage(input_tokens=100, output_tokens=20, cached_tokens=10, cost_usd=1e-7),
        )),
        AgentMessage(role="assistant", text=ODD, reasoning="hm", model_call="m1"),
        ("s1", action(
            app="counter", action="add", arguments={"$$n": 1}, observation=1, tool_call="c1",
            model_call="m1", states={"counter": StateChange(
                patch=[{"op": "replace", "path": "/b", "value": 1}])},
        )),
        step_rewarded("s1", 0.1, app="counter"),
        ("s2", action(
            turn=2, app="counter", action="add", arguments=None, observation=None, error="no",
            tool_call="c2", model_call="m1", states={"counter": StateChange(full=[{"b": 2}])},
        )),
        step_rewarded("s2", 0.2, app="counter"),
        StepRewardFailed(
            verifier="care", version="1.0.0", digest="sha256:3", step="s2", error="KeyError: 'x'",
            line="verify.py:14",
        ),
        agent_finished(ended_by="answer", answer=[{"half_life": 5730}]),
        ProcessesKilled(),
        ArtifactsSaved(duration=0.03125, artifacts=[
            Artifact(path="out/answer.bin", blob=blob_ref(KEPT), sha256=blob_ref(KEPT).blob[7:],
                     size=len(KEPT))]),
        WorkspaceSaved(archive=blob_ref(b"tar"), size=3, files=1, duration=0.125),
        WorkspaceHardened(duration=0.0625),
        TamperFound(path="/logs/verifier/reward.txt", sha256="ab" * 32, what="planted reward"),
        verifier_started(),
        ("v1", scored(
            0.75, scores={"speed": 0.5}, details={"notes": ["x"]}, output=output(PRINTED),
        )),
        verifier_started(verifier="judge", verifier_kind="agent", version="1.0.0", model="j-1"),
        JudgeSampled(
            verifier="judge", sample=1, attempt=1, valid=True, reply="{}", model="j-1",
            usage=Usage(input_tokens=5, cost_usd=0.001), latency=0.5,
        ),
        scored(
            1.0, verifier="judge", verifier_kind="agent", version="1.0.0", model="j-1",
            samples=[1.0], spread=0.0, exit_code=None, sandbox_mode=None, feedback="good",
            evidence=["line 3"],
        ),
        _asked(),
        HumanReviewSubmitted(
            verifier="person", reviewer="ann", score=0.5, feedback="fine",
            criteria=[Criterion(name="care", score=2.0, min_score=0.0, max_score=4.0, weight=2.0)],
        ),
        trial_scored(0.8, rewards={"reward": 0.75, "speed": 0.5}, scores={"script.speed": 0.5}),
        HindsightCredited(
            verifier="progress", version="1.0.0", digest="sha256:2", target=span, value=1e22,
            weight=1.0, space="output", metadata={"why": ODD},
        ),
        TrialFinished(outcome="scored"),
        SandboxRemoved(sandbox_id="s1", duration=0.5),
        ("apply", VerifierApplied(verifier_kind="deterministic", author="ann", **label)),
        step_rewarded("s1", 0.3, version="2.0.0", applied="apply"),
    ]  # fmt: skip


class Row(msgspec.Struct, frozen=True):
    """An event as a row of text."""

    position: int
    stream: str
    version: int
    kind: str
    schema: int
    id: str
    at: str
    causation: str | None
    ignorable: bool
    data: str
    hash: str


def row_of(event: RecordedEvent) -> Row:
    """The row of an event."""
    values = msgspec.structs.asdict(event)
    return Row(**(values | {"hash": event.hash.hex()}))


def event_of(row: Row) -> RecordedEvent:
    """The event of a row."""
    values = msgspec.structs.asdict(row)
    return RecordedEvent(**(values | {"hash": bytes.fromhex(row.hash)}))


@asynccontextmanager
async def golden_log(folder: Path) -> AsyncIterator[MemoryLog]:
    """The log that a folder's rows and blobs make up, exactly as they are."""
    async with memory_log() as log:
        assert isinstance(log, MemoryLog)
        for line in (folder / "log.jsonl").read_bytes().split(b"\n")[:-1]:
            event = event_of(msgspec.json.decode(line, type=Row))
            log._events.append(event)
            log._streams.setdefault(event.stream, []).append(event)
        for path in sorted((folder / "blobs").iterdir()):
            await log.blobs.put(path.read_bytes())
        yield log
