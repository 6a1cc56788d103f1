"""result.json: one execution's verdict and what surrounds it. There is none before the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import msgspec

from ..events.kinds import (
    AgentFailed,
    AgentFinished,
    HindsightCredited,
    StepRewarded,
    TrialErrored,
    TrialScored,
    TrialUnscored,
)
from ..events.kinds.parts import Continues, Replays
from ..events.kinds.trial import ImportedTrial
from ..events.values import Json, Text
from .document import total, total_seconds
from .grading import NO_REWARD, NO_REWARD_CATEGORY, VerifierResult, verifier_results
from .texts import score_names
from .trial import Finish, TrialView, with_line
from .usage import UsageTotal, usage_total

SCHEMA = "trialog.result/1"


class RewardTotals(msgspec.Struct, frozen=True, gc=False):
    """What a verifier's rewards of one trial add up to; null where it gave none."""

    step: float | None
    hindsight: float | None


class RewardErrors(msgspec.Struct, frozen=True, gc=False):
    """On how many steps a verifier's reward failed; the first error stands for all."""

    verifier: str
    steps: int
    error: Text


class HindsightError(msgspec.Struct, frozen=True, gc=False):
    """Why a verifier's hindsight gave nothing."""

    verifier: str
    error: Text


class Warned(msgspec.Struct, frozen=True, gc=False):
    """Something a reader of the result should know."""

    code: str
    message: Text


class Tampered(msgspec.Struct, frozen=True, gc=False):
    """Something found that could have changed the grade."""

    path: str
    sha256: str | None
    what: str


class SandboxUsed(msgspec.Struct, frozen=True, gc=False):
    """The sandbox that the agent worked in."""

    backend: str
    image: str | None
    image_digest: str | None
    repository_digest: str | None
    mode: str | None
    """`shared` or `separate`: where the test script ran; null when none ran."""


class SavedWorkspace(msgspec.Struct, frozen=True, gc=False):
    """The saved workspace: its archive's blob, and bytes and number of the files in it."""

    blob: str
    size: int
    files: int


class SavedArtifact(msgspec.Struct, frozen=True, gc=False):
    """One file below artifacts/."""

    path: str
    size: int
    sha256: str


class Timing(msgspec.Struct, frozen=True, gc=False):
    """Seconds in each phase; null for a phase that was not recorded."""

    build: float | None
    start: float | None
    agent: float | None
    save: float | None
    verifier: float | None
    total: float | None


class LogPlace(msgspec.Struct, frozen=True, gc=False):
    """A place in the log."""

    stream: str
    version: int
    hash: str


class FirstDifference(msgspec.Struct, frozen=True, gc=False):
    """The first part of a request that is not as recorded; null where one side does not have it."""

    call: int
    path: str
    recorded: str | None
    now: str | None


class Replay(msgspec.Struct, frozen=True, gc=False):
    """The recorded trial that answered the model calls; and where the calls differ, if they do."""

    job: str
    trial: str
    difference: FirstDifference | None


class Imported(msgspec.Struct, frozen=True, gc=False):
    """Another system ran the trial: which, and what the trial is called there."""

    system: str
    name: str
    path: str


class Result(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """result.json; docs/files.md explains every field."""

    schema: str
    task_name: str
    trial_name: str
    job: str
    attempt: int
    execution: int
    seed: int | None
    agent: str
    agent_version: str | None
    model: str | None
    parameters: dict[str, Json]
    outcome: str
    passed: bool | None
    rewards: dict[str, float] | None
    reward_source: str | None
    reward_valid: bool
    score: float | None
    scores: dict[str, float]
    verifiers: list[VerifierResult]
    reward_totals: dict[str, RewardTotals]
    reward_errors: list[RewardErrors]
    hindsight_errors: list[HindsightError]
    answer: Json | None
    n_steps: int
    n_tool_calls: int
    usage: UsageTotal
    error: Text | None
    error_category: str | None
    verifier_error: Text | None
    verifier_error_category: str | None
    warnings: list[Warned]
    tamper: list[Tampered]
    task_digest: str | None
    sandbox: SandboxUsed | None
    workspace: SavedWorkspace | None
    artifacts: list[SavedArtifact]
    started_at: str
    finished_at: str
    timing: Timing
    continues: LogPlace | None
    log: LogPlace
    replay: Replay | msgspec.UnsetType = msgspec.UNSET
    """Only there for a trial that replays another."""
    imported: Imported | msgspec.UnsetType = msgspec.UNSET
    """Only there for a trial that another system ran."""


def result(view: TrialView) -> Result | None:
    """The result of a finished execution; None before its end."""
    finish = view.finish
    if finish is None:
        return None
    started, slot = view.started, view.started.slot
    scored = view.conclusion if isinstance(view.conclusion, TrialScored) else None
    outcome = finish.payload.outcome
    if outcome != "scored":
        scored = None  # a cancelled trial may have had a score, but it is not its outcome
    error, error_category = _error(view, finish)
    verifier_error, verifier_error_category = _verifier_error(view, outcome)
    graded = verifier_results(view)
    agent = view.agent_started
    return Result(
        schema=SCHEMA,
        task_name=slot.task,
        trial_name=started.trial,
        job=started.job,
        attempt=slot.attempt,
        execution=started.execution,
        seed=started.seed,
        agent=slot.agent,
        agent_version=view.agent_version,
        model=slot.model or (agent.model if agent else None),
        parameters=slot.parameters,
        outcome=outcome,
        passed=scored.passed if scored else (False if outcome == "errored" else None),
        rewards=score_names(scored.rewards) if scored and scored.rewards is not None else None,
        reward_source=scored.reward_source if scored else None,
        reward_valid=scored.reward_valid if scored else False,
        score=scored.score if scored else None,
        scores=score_names(scored.scores) if scored else {},
        verifiers=graded,
        reward_totals=_reward_totals(view),
        reward_errors=[
            RewardErrors(verifier, found.steps, found.error)
            for verifier, found in view.reward_failures.items()
        ],
        hindsight_errors=[
            HindsightError(failed.verifier, with_line(failed.error, failed.line))
            for failed in view.hindsight_failures
        ],
        answer=answer(view),
        n_steps=view.steps,
        n_tool_calls=view.tool_calls,
        usage=usage_total(view.usages),
        error=error,
        error_category=error_category,
        verifier_error=verifier_error,
        verifier_error_category=verifier_error_category,
        warnings=[Warned(warning.code, warning.message) for warning in view.warnings],
        tamper=[Tampered(found.path, found.sha256, found.what) for found in view.tamper],
        task_digest=started.task_digest or None,
        sandbox=_sandbox(view, graded),
        workspace=_workspace(view),
        artifacts=[
            SavedArtifact(saved.path, saved.size, saved.sha256)
            for saved in (view.artifacts.artifacts if view.artifacts else ())
        ],
        started_at=view.started_at,
        finished_at=finish.at,
        timing=_timing(view),
        continues=_continues(started.continues),
        log=LogPlace(finish.stream, finish.version, finish.hash),
        replay=msgspec.UNSET if started.replays is None else _replay(started.replays, view),
        imported=msgspec.UNSET if started.imported is None else _imported(started.imported),
    )


def _imported(of: ImportedTrial) -> Imported:
    return Imported(of.system, of.name, of.path)


def _replay(of: Replays, view: TrialView) -> Replay:
    found = view.difference
    first = FirstDifference(found.call, found.path, found.recorded, found.now) if found else None
    return Replay(of.job, of.trial, first)


def answer(view: TrialView) -> Json | None:
    """The agent's answer, taken out of the list of one that events hold it in."""
    for end in (view.agent_end, view.episode_end):
        wrapped = None if end is None or isinstance(end, AgentFailed) else end.answer
        if wrapped is not None:
            return cast("Sequence[Json]", wrapped)[0] if isinstance(wrapped, list) else wrapped
    return None


def _error(view: TrialView, finish: Finish) -> tuple[Text | None, str | None]:
    match view.conclusion, view.agent_end:
        case _ if finish.payload.outcome == "cancelled":
            return "the trial was cancelled before its end", "cancelled"
        case TrialErrored(error=error, category=category), _:
            return error, category
        case _, AgentFinished(error=error, error_category=category):
            return error, category
        case _:
            return None, None


def _verifier_error(view: TrialView, outcome: str) -> tuple[Text | None, str | None]:
    if outcome == "unscored" and isinstance(view.conclusion, TrialUnscored):
        return view.conclusion.error, view.conclusion.category
    if any(part.scored is not None and part.scored.missing for part in view.grading.values()):
        return NO_REWARD, NO_REWARD_CATEGORY
    return None, None


def _reward_totals(view: TrialView) -> dict[str, RewardTotals]:
    given: dict[str, tuple[list[float], list[float]]] = {}
    for _, payload in view.ledger[: view.ledger_at_finish]:
        match payload:
            case StepRewarded(verifier=verifier, value=value):
                given.setdefault(verifier, ([], []))[0].append(value)
            case HindsightCredited(verifier=verifier, value=value):
                given.setdefault(verifier, ([], []))[1].append(value)
            case _:
                pass
    return {
        verifier: RewardTotals(_total(steps), _total(credits))
        for verifier, (steps, credits) in given.items()
    }


def _total(values: list[float]) -> float | None:
    return total(values) if values else None


def _sandbox(view: TrialView, graded: Iterable[VerifierResult]) -> SandboxUsed | None:
    mode = next((v.sandbox_mode for v in graded if v.sandbox_mode is not None), None)
    if (sandbox := view.sandbox) is not None:
        return SandboxUsed(
            sandbox.backend,
            sandbox.image,
            sandbox.image_digest,
            sandbox.repository_digest,
            mode,
        )
    if (failed := view.sandbox_failed) is not None:
        return SandboxUsed(failed.backend, failed.image, None, None, mode)
    return None


def _workspace(view: TrialView) -> SavedWorkspace | None:
    saved = view.workspace
    return SavedWorkspace(saved.archive.blob, saved.size, saved.files) if saved else None


def _timing(view: TrialView) -> Timing:
    return Timing(
        total_seconds(view.build),
        total_seconds(view.start),
        total_seconds(view.agent),
        total_seconds(view.save),
        total_seconds(view.verifier),
        total_seconds((*view.build, *view.start, *view.agent, *view.save, *view.verifier)),
    )


def _continues(place: Continues | None) -> LogPlace | None:
    return LogPlace(place.stream, place.version, place.hash) if place else None
