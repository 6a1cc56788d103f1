"""What trial folders of Harbor and BenchFlow have alike: a test script's rewards, its output and
reward files, artifacts, and a trajectory that may be damaged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from ...events.kinds import (
    AgentFailed,
    AgentFinished,
    ArtifactsSaved,
    VerifierFailed,
    VerifierScored,
    VerifierStarted,
    WarningRaised,
)
from ...events.kinds.parts import Usage
from ...events.kinds.trial import Artifact
from .fields import Fields, RecordsError, finite, parse_object
from .records import Records, Story

RESULT = "result.json"
SCRIPT = "tests/test.sh"
"""What its verifier is called: the script that grades."""
STDOUT = "verifier/test-stdout.txt"
ERROR = "imported_error"
UNSCORED = "imported_unscored"
_MODES: dict[str, Literal["shared", "separate"]] = {"shared": "shared", "separate": "separate"}
_REWARDS = ("verifier/reward.txt", "verifier/reward.json", "verifier/reward-details.json")


Limit: TypeAlias = Literal["agent_timeout", "idle_timeout"]
"""What stopped an agent that was still at work."""


class Phase(NamedTuple):
    """When something began and ended, and how long it took, as far as the records say it."""

    began: str | None
    ended: str | None
    seconds: float | None


def tell_or_warn(story: Story, path: str, tell: Callable[[Story], object]) -> None:
    """Tell what a file has: all of it, or nothing and a warning. What can't be read is kept as a
    file, and the trial still counts."""
    try:
        tell(Story("", story.at))
    except RecordsError as error:
        story.tell(WarningRaised(code="imported_unreadable", message=str(error), path=path))
        return
    tell(story)


def ended_result(records: Records, key: str, what: str) -> Fields:
    """The `result.json` of a trial's folder. Raises RecordsError where there is none."""
    file = f"{key}/{RESULT}"
    if file not in records.refs:
        raise RecordsError(
            f"is not there: the {what} has not ended, or its engine died; import the job again "
            "when it has",
            file=file,
        )
    return parse_object(records.read(file), file)


def tell_failed(story: Story, error: str, took: float | None, at: str | None = None) -> None:
    """The agent failed after so many seconds, and nothing graded its work."""
    story.tell(
        AgentFailed(error=error, category=ERROR, duration=took or 0.0, untimed=took is None), at
    )


def tell_finished(
    story: Story, error: str | None, stopped_by: Limit | None, took: float | None,
    usage: Usage | None, at: str | None = None,
) -> None:  # fmt: skip
    """The agent ended after so many seconds and left work; `error` is what it fell over, if so."""
    story.tell(
        AgentFinished(
            ended_by=stopped_by or ("done" if error is None else "agent_exit"),
            error=error,
            error_category=None if error is None else ERROR,
            duration=took or 0.0,
            untimed=took is None,
            reported_usage=usage,
        ),
        at,
    )


def tell_artifacts(records: Records, key: str, story: Story) -> None:
    """Files that a trial left in its `artifacts/`."""
    folder = f"{key}/artifacts"
    found: list[Artifact] = []
    for name in records.below(folder):
        saved = records.saved(name, folder)
        digest = saved.blob.blob.removeprefix("sha256:")
        found.append(
            Artifact(path=saved.path, blob=saved.blob, sha256=digest, size=saved.blob.size)
        )
    if found:
        story.tell(ArtifactsSaved(artifacts=found, duration=0.0, untimed=True))


def tell_verdict(
    records: Records, key: str, story: Story, rewards: Any, phase: Phase, *,
    mode: str | None = None, error: str | None = None,
) -> None:  # fmt: skip
    """The script's verdict; `error` says why there is none, where the records know it."""
    where = _MODES.get(mode or "")
    story.tell(
        VerifierStarted(
            verifier=SCRIPT, verifier_kind="script", digest="", weight=1.0, sandbox_mode=where
        ),
        phase.began,
    )
    reward, others, why = rewards_of(rewards)
    took = phase.seconds
    output = records.output(f"{key}/{STDOUT}")
    files = [
        records.saved(name, f"{key}/verifier")
        for part in _REWARDS
        if (name := f"{key}/{part}") in records.refs
    ]
    if reward is None:
        story.tell(
            VerifierFailed(
                verifier=SCRIPT, verifier_kind="script", digest="", weight=1.0,
                error=error or why, category=UNSCORED, infrastructure=False, sandbox_mode=where,
                duration=took or 0.0, output=output, files=files, untimed=took is None,
            ),
            phase.ended,
        )  # fmt: skip
        return
    story.tell(
        VerifierScored(
            verifier=SCRIPT, verifier_kind="script", digest="", weight=1.0, score=reward,
            scores=others, source="verifier", sandbox_mode=where, duration=took or 0.0,
            output=output, files=files, untimed=took is None,
        ),
        phase.ended,
    )  # fmt: skip


def rewards_of(given: Any) -> tuple[float | None, dict[str, float], str]:
    """`reward`, the other scores, and why there is no reward. A single score is the reward."""
    if not isinstance(given, dict) or not given:
        return None, {}, "the verifier wrote no reward"
    numbers: dict[str, float] = {}
    for name, value in cast("dict[str, Any]", given).items():
        number = finite(value)
        if number is None:
            return None, {}, f"the verifier's {name} is no number: {str(value)[:60]!r}"
        numbers[name] = number
    if len(numbers) == 1:
        return next(iter(numbers.values())), {}, ""
    reward = numbers.pop("reward", None)
    listed = ", ".join(f"{name}={value:g}" for name, value in numbers.items())
    return reward, numbers if reward is not None else {}, f"no score is named reward: {listed}"
