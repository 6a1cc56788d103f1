"""What applying a verifier to a trial appends: what it says and what is there in, events out.

Plain functions: no clock, no log, nothing awaited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from ...events.kinds import (
    HindsightCredited,
    HindsightFailed,
    JudgeSampled,
    StepRewarded,
    StepRewardFailed,
    TrialEvent,
    VerifierApplied,
)
from ...events.kinds.parts import Target
from ...events.values import escape
from ..errors import CommandRefused
from .said import Said, shown_fault
from .stored import Existing, StoredTrial, place_of


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """Under which name a verifier's labels are appended, and by whom."""

    verifier: str
    kind: str
    version: str
    digest: str
    weight: float
    author: str | None = None
    reason: str | None = None


def refuse(trials: Sequence[StoredTrial], label: Label) -> None:
    """Raise CommandRefused where nothing may be applied to these trials.

    That is while one of them waits for people, and where the version was other code before.
    """
    waiting = [trial.trial for trial in trials if trial.state == "waiting"]
    if waiting:
        shown = ", ".join(waiting[:3]) + (" …" if len(waiting) > 3 else "")
        raise CommandRefused(
            f"{len(waiting)} of the trials wait for people ({shown}), and labels come after their "
            "reviews; `trialog human list` shows them"
        )
    for trial in trials:
        others = trial.digests.get(label.version, set()) - {label.digest}
        if others:
            raise CommandRefused(
                f"version {label.version} of {label.verifier} was other code when it judged trial "
                f"{trial.trial} ({short(others.pop())}, now {short(label.digest)}), and a version "
                "is one code for ever; raise the version in verifier.yaml"
            )


def short(digest: str) -> str:
    """The beginning of a digest, enough to tell it from another."""
    return digest.removeprefix("sha256:")[:12]


def application(
    label: Label,
    trial: StoredTrial,
    said: Said,
    replies: Sequence[JudgeSampled] = (),
    *,
    applied: str,
) -> list[TrialEvent]:
    """The events of one application; none where the log has all of it from this version already.

    `applied` is the id that the first of them, VerifierApplied, will have.
    """
    if not _adds(trial.existing.get(label.version) or Existing(), said):
        return []
    check = said.check
    first = VerifierApplied(
        verifier=label.verifier,
        verifier_kind=cast("Any", label.kind),
        version=label.version,
        digest=label.digest,
        score=check.score if check else None,
        scores=escape(check.scores) if check else {},
        evidence=list(check.evidence) if check else [],
        feedback=check.feedback if check else None,
        error=shown_fault(check.fault) if check else None,
        author=label.author,
        reason=label.reason,
    )
    return [
        first,
        *replies,
        *_rewards(label, trial, said, applied),
        *_credits(label, said, applied),
    ]


def _adds(existing: Existing, said: Said) -> bool:
    """Whether there is anything in it that this version has not said yet."""
    if said.check is not None and not existing.check:
        return True
    for step, given in said.rewards.items():
        if given.fault is None and step not in existing.rewards:
            return True
        if given.fault is not None and step not in existing.rewards | existing.failed:
            return True
    if said.hindsight is None:
        return False
    if said.hindsight.fault is not None:
        return not (existing.credits_failed or existing.credits)
    return not Counter(place_of(credit) for credit in said.hindsight.credits) <= existing.credits


def _rewards(label: Label, trial: StoredTrial, said: Said, applied: str) -> list[TrialEvent]:
    apps = {step.event_id: step.app for step in trial.episode.steps} if trial.episode else {}
    found: list[TrialEvent] = []
    for step, given in said.rewards.items():
        if given.fault is not None:
            found.append(
                StepRewardFailed(
                    verifier=label.verifier, version=label.version, digest=label.digest,
                    step=step, error=given.fault.error, line=given.fault.line, applied=applied,
                )
            )  # fmt: skip
        elif given.value is not None:
            found.append(
                StepRewarded(
                    verifier=label.verifier, version=label.version, digest=label.digest,
                    target=Target(target="step", event_id=step), app=apps.get(step) or None,
                    value=given.value, weight=label.weight, space="action", applied=applied,
                )
            )  # fmt: skip
    return found


def _credits(label: Label, said: Said, applied: str) -> list[TrialEvent]:
    if said.hindsight is None:
        return []
    if (fault := said.hindsight.fault) is not None:
        return [
            HindsightFailed(
                verifier=label.verifier, version=label.version, digest=label.digest,
                error=fault.error, line=fault.line, applied=applied,
            )
        ]  # fmt: skip
    return [
        HindsightCredited(
            verifier=label.verifier, version=label.version, digest=label.digest,
            target=Target(
                target=credit.target, event_id=credit.event_id, field=credit.field,
                start=credit.start, end=credit.end, token_start=credit.token_start,
                token_end=credit.token_end,
            ),
            value=credit.value, weight=label.weight, space=credit.space,
            metadata=escape(credit.metadata), applied=applied,
        )
        for credit in said.hindsight.credits
    ]  # fmt: skip
