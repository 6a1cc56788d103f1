"""A verifier's current code over a stored trial: as the run would have given it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec.structs import replace

from ...events.kinds import JudgeSampled, VerifierScored
from ...events.values import BlobRef, unescape
from ...projections.episode import RewardData
from ..authoring.verifiers import AgentVerifier
from ..hooks.protocol import CheckGiven, HookFault, Hooks, HookSource, RewardGiven
from ..judges.judge import JudgeResult
from .current import CurrentVerifier
from .said import Said
from .stored import StoredTrial


class Judging(Protocol):
    """A judge's verdict on a stored trial."""

    async def __call__(
        self, verifier: AgentVerifier, trial: StoredTrial, digest: str, applied: str | None
    ) -> JudgeResult:
        """From its recorded replies, or from new ones. Raises NothingRecorded."""
        ...


async def replay(source: HookSource, trial: StoredTrial, hooks: Hooks) -> Said:
    """What the code gives now: rewards on the recorded steps with the recorded states, the check
    and the hindsight on the recorded episode with the recorded score."""
    data = trial.episode
    assert data is not None
    rewards: dict[str, RewardGiven] = {}
    if source.reward is not None:
        steps = [n for n, step in enumerate(data.steps) if step.observed_by == "host"]
        given = await hooks.rewards(source, data, steps, None) if steps else []
        for number, one in zip(steps, given, strict=True):
            if one.value is not None or one.fault is not None:
                rewards[data.steps[number].event_id] = one
    check = hindsight = None
    if source.check is not None and trial.worked:
        earned = earned_now(trial.at_check, source, rewards)
        check = await hooks.check(source, replace(data, rewards=earned), None)
    if source.hindsight is not None and trial.score is not None:
        earned = earned_now(trial.at_end, source, rewards)
        hindsight = await hooks.hindsight(source, replace(data, rewards=earned), trial.score)
    return Said(check=check, rewards=rewards, hindsight=hindsight)


def earned_now(
    earned: Sequence[RewardData], source: HookSource, rewards: dict[str, RewardGiven]
) -> list[RewardData]:
    """What a trial had earned, had this verifier's rewards been those of its current code.

    Its new rewards stand where its recorded ones stood, so that nothing moves if nothing changed.
    """
    fresh = iter(
        [
            RewardData(
                verifier=source.name, version=source.version, value=one.value, source="step",
                event_id=step,
            )
            for step, one in rewards.items()
            if one.value is not None
        ]
    )  # fmt: skip
    found: list[RewardData] = []
    place = 0
    for reward in earned:
        if reward.source != "step":
            found.append(reward)
            continue
        if reward.verifier != source.name:
            found.append(reward)
        elif (own := next(fresh, None)) is not None:
            found.append(own)
        place = len(found)
    found[place:place] = list(fresh)
    return found


async def rejudge(
    verifier: CurrentVerifier, trial: StoredTrial, judging: Judging, applied: str | None = None
) -> tuple[Said, list[JudgeSampled]]:
    """A judge's verdict, and the replies that were asked for now, under the label `applied`."""
    assert verifier.judge is not None
    result = await judging(verifier.judge, trial, verifier.digest, applied)
    verdict = result.verdict
    if isinstance(verdict, VerifierScored):
        feedback = None if verdict.feedback is None else str(verdict.feedback)
        check = CheckGiven(
            score=verdict.score, scores=unescape(verdict.scores),
            evidence=[str(text) for text in verdict.evidence], feedback=feedback,
        )  # fmt: skip
    else:
        error = verdict.error
        text = f"({error.size} bytes of text)" if isinstance(error, BlobRef) else error
        check = CheckGiven(fault=HookFault(error=text, line=verdict.line))
    fresh = [reply for reply in result.events if applied is not None and reply.applied == applied]
    return Said(check=check), fresh
