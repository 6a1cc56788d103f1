"""Whether a trial may be trained on, and how its episode ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from ...events.kinds import AgentFinished, TrialErrored, TrialScored, TrialUnscored
from ...events.values import BlobRef, Text
from ...projections.regrades import latest_verdict
from ...projections.trial import TrialView

Reason = Literal[
    "awaiting_review", "not_finished", "cancelled", "errored", "unscored", "engine_given",
    "regraded",
]  # fmt: skip


class Mask(msgspec.Struct, frozen=True):
    """Why a trial is not to be trained on."""

    reason: Reason
    detail: str


class Ending(msgspec.Struct, frozen=True):
    """How an episode ended. Both false where it did not, or where that is not known."""

    terminated: bool
    """By itself: the world's end, an answer, or the agent's own."""
    truncated: bool
    """By a limit."""
    ended_by: str | None


_LIMITS = frozenset(
    ("agent_timeout", "idle_timeout", "max_turns", "max_seconds", "max_cost", "truncated")
)


def ending_of(view: TrialView) -> Ending:
    """How the trial's episode ended. What the world says of it comes before how the agent ended."""
    end = view.agent_end
    ended_by = end.ended_by if isinstance(end, AgentFinished) else None
    world = view.episode_end
    if world is not None and (world.terminated or world.truncated):
        return Ending(world.terminated, world.truncated, ended_by)
    cut = ended_by in _LIMITS
    return Ending(ended_by is not None and not cut, cut, ended_by)


def mask_of(view: TrialView, regrades: Iterable[str] = ()) -> Mask | None:
    """Why nothing of the trial is to be trained on; None where it has a reward of a verifier's.

    `regrades` are the ids of the job's finished ones. What they gave is never the reward: where the
    run itself gave none, the reason names the regrade that did.
    """
    mask = _mask_of_run(view)
    if mask is None or mask.reason not in ("unscored", "engine_given"):
        return mask
    later = latest_verdict(view, regrades)
    if later is None:
        return mask
    said = "passed" if later.passed else "failed"
    return Mask(
        "regraded",
        f"regrade {later.regrade_id} gave it a verdict ({said}, score {later.score:g}), which is "
        f"in regrade.json; in the run it was {mask.reason}: {mask.detail}",
    )


def _mask_of_run(view: TrialView) -> Mask | None:
    if view.finish is None:
        if view.awaiting_review:
            waits = [
                name
                for name, part in view.grading.items()
                if part.requested is not None and part.submitted is None
            ]
            return Mask("awaiting_review", f"it waits for {', '.join(waits)}")
        return Mask("not_finished", "the trial has not finished")
    if view.finish.payload.outcome == "cancelled":
        return Mask("cancelled", "the trial was cancelled")
    match view.conclusion:
        case TrialErrored(error=error, category=category):
            return Mask("errored", f"{category}: {short(error)}")
        case TrialUnscored(error=error, category=category):
            return Mask("unscored", f"{category}: {short(error)}")
        case TrialScored() as scored if not scored.reward_valid:
            codes = [
                code
                for part in view.grading.values()
                if part.scored
                for code in part.scored.warnings
            ]
            why = f" ({', '.join(codes)})" if codes else ""
            return Mask("engine_given", f"the engine gave the reward, not a verifier{why}")
        case _:
            return None


def short(text: Text) -> str:
    """A stored text; of one that is kept as a blob only its size."""
    return f"({text.size} bytes of text)" if isinstance(text, BlobRef) else text
