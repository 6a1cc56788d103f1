"""What a verifier says of a trial: now, or as the log has it. Plain data, and what differs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from ..authoring.views import Credit
from ..hooks.protocol import CheckGiven, HindsightGiven, HookFault, RewardGiven

_PLACE = re.compile(r" \(at [^()]*\)$")


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one version of a verifier says of one trial."""

    check: CheckGiven | None = None
    """Null where it has no check, or where there was nothing to check."""
    rewards: dict[str, RewardGiven] = {}
    """By the step's event id; steps without a signal are left out."""
    hindsight: HindsightGiven | None = None
    """Null where it has none, or where the trial has no score."""

    @property
    def reward_total(self) -> list[float]:
        """The values of its rewards, in order."""
        return [given.value for given in self.rewards.values() if given.value is not None]

    @property
    def credit_total(self) -> list[float]:
        """The values of its credits, in order."""
        return [credit.value for credit in self.hindsight.credits] if self.hindsight else []

    @property
    def faults(self) -> list[HookFault]:
        """Of its reward hook, one a step."""
        return [given.fault for given in self.rewards.values() if given.fault is not None]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the verifier says otherwise than the log has it."""

    what: Literal["score", "scores", "evidence", "feedback", "check", "reward", "credits"]
    event_id: str | None = None
    """The step's, for a reward."""
    recorded: Any
    now: Any


def differences(recorded: Said, now: Said) -> list[Difference]:
    """All that differs; values are compared exactly."""
    return [*_checks(recorded.check, now.check), *_rewards(recorded, now), *_credits(recorded, now)]


def _checks(recorded: CheckGiven | None, now: CheckGiven | None) -> Iterator[Difference]:
    before, after = recorded or CheckGiven(), now or CheckGiven()
    if before.score != after.score:
        yield Difference(what="score", recorded=before.score, now=after.score)
    if before.scores != after.scores:
        yield Difference(what="scores", recorded=before.scores, now=after.scores)
    if before.evidence != after.evidence:
        yield Difference(what="evidence", recorded=before.evidence, now=after.evidence)
    if before.feedback != after.feedback:
        yield Difference(what="feedback", recorded=before.feedback, now=after.feedback)
    fault, again = shown_fault(before.fault), shown_fault(after.fault)
    if not _same(fault, again, after.fault):
        yield Difference(what="check", recorded=fault, now=again)


def _rewards(recorded: Said, now: Said) -> Iterator[Difference]:
    for step in dict.fromkeys([*now.rewards, *recorded.rewards]):
        before, after = _reward(recorded, step), _reward(now, step)
        given = now.rewards.get(step)
        if not _same(before, after, given.fault if given else None):
            yield Difference(what="reward", event_id=step, recorded=before, now=after)


def _reward(said: Said, step: str) -> float | str | None:
    given = said.rewards.get(step)
    if given is None:
        return None
    return given.value if given.fault is None else shown_fault(given.fault)


def _credits(recorded: Said, now: Said) -> Iterator[Difference]:
    before, after = credits_of(recorded), credits_of(now)
    if not _same(before, after, now.hindsight.fault if now.hindsight else None):
        yield Difference(what="credits", recorded=before, now=after)


def _same(recorded: Any, now: Any, fault: HookFault | None) -> bool:
    """Whether two things said are one; the line that code had got to at its deadline is chance."""
    if fault is not None and fault.timed_out and isinstance(recorded, str):
        recorded, now = (_PLACE.sub("", text) for text in (recorded, now))
    return bool(recorded == now)


def credits_of(said: Said) -> list[dict[str, Any]] | str:
    """Its credits as plain data, or why there are none."""
    if said.hindsight is None:
        return []
    if said.hindsight.fault is not None:
        return shown_fault(said.hindsight.fault) or ""
    return [_plain(credit) for credit in said.hindsight.credits]


def _plain(credit: Credit) -> dict[str, Any]:
    values = msgspec.structs.asdict(credit)
    return {name: value for name, value in values.items() if value not in (None, {})}


def shown_fault(fault: HookFault | None) -> str | None:
    """An error with its place in the author's file."""
    if fault is None:
        return None
    return f"{fault.error} (at {fault.line})" if fault.line else fault.error
