"""What running a verifier's code is, for everyone who needs it.

Hooks see an episode as it was recorded. They run in a process of their own, shared by many calls
and trials; a call that runs past its deadline costs that call and nobody else's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from ...projections.episode import EpisodeData
from ..authoring.views import Credit


class HookSource(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a deterministic verifier's code is."""

    name: str
    version: str
    digest: str
    """``sha256:…`` over the verifier's files, manifest and the project's modules it imports."""
    weight: float
    timeout_sec: float
    folder: Path
    """The verifier's folder; relative names in the fields below are in it."""
    root: Path
    """The project's folder, on the import path."""
    check: str | list[str] | None = None
    """``verify.py:function``, a command's words, or ``total_reward``."""
    reward: str | None = None
    hindsight: str | None = None
    queries: bool = False
    """Its code may ask apps questions, so rewards can't be given in one batch at the end."""


class HookFault(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A hook that raised, ran too long or gave what it must not."""

    error: str
    """``KeyError: 'done'``"""
    line: str | None = None
    """``verify.py:14``: the last place in the author's own code."""
    timed_out: bool = False


class RewardGiven(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a reward hook said of one step. Both null: no signal."""

    value: float | None = None
    fault: HookFault | None = None


class CheckGiven(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a check gave, or why nothing."""

    score: float | None = None
    scores: dict[str, float] = {}
    evidence: list[str] = []
    feedback: str | None = None
    live: bool = False
    """It looked at the state of an app that others share."""
    fault: HookFault | None = None


class HindsightGiven(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All credits of a hindsight hook, or why none."""

    credits: list[Credit] = []
    fault: HookFault | None = None


class TrialGiven(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that a trial's verifiers gave, by verifier."""

    rewards: dict[str, list[RewardGiven]] = {}
    """One for each step; empty for steps that only the agent's program reported."""
    checks: dict[str, CheckGiven] = {}
    hindsight: dict[str, HindsightGiven] = {}
    """Empty credits where a check failed, since there is no score then."""
    seconds: dict[str, float] = {}
    """How long each check took."""


class Recorded(NamedTuple):
    """A recorded trial, and the verifiers that are to check it."""

    sources: Sequence[HookSource]
    episode: EpisodeData


AskApp: TypeAlias = Callable[[str, str, dict[str, Any]], Awaitable[Any]]
"""App, action, arguments → the answer. Raises QueryRefused."""


class Hooks(Protocol):
    """Runs hooks. Nothing that a hook does raises here: it is in what is given back."""

    async def rewards(
        self, source: HookSource, episode: EpisodeData, steps: Sequence[int], ask: AskApp | None
    ) -> list[RewardGiven]:
        """The verifier's reward for these steps (indices), in order. `ask` null: a replay, in
        which the record answers queries."""
        ...

    async def check(
        self, source: HookSource, episode: EpisodeData, ask: AskApp | None
    ) -> CheckGiven:
        """The verifier's check of the episode."""
        ...

    async def hindsight(
        self, source: HookSource, episode: EpisodeData, score: float | None
    ) -> HindsightGiven:
        """The verifier's credits; `episode.rewards` has what the trial earned until now."""
        ...

    async def trial(
        self,
        sources: Sequence[HookSource],
        episode: EpisodeData,
        ask: AskApp | None,
        *,
        rewarded: Collection[str] = (),
        checks: bool = True,
        hindsight: bool = True,
        verdicts: dict[str, str] | None = None,
    ) -> TrialGiven:
        """All hooks of a trial at once: rewards, checks, then hindsight with the score that the
        checks come to.

        Verifiers in `rewarded` have rewarded the steps already; `episode.rewards` has that. No
        `checks` where the episode is not in the log yet; no `hindsight` without them, and where
        judges or people have a say in the score. `verdicts` names the events that
        the scores will be in, by verifier, so that `trial.rewards` has them as a replay will.
        """
        ...

    async def check_each(self, trials: Sequence[Recorded]) -> list[TrialGiven | Exception]:
        """The checks of recorded trials, many at once; or why a trial's could not be made.

        Steps are rewarded by the same sources before, where a check reads `episode.rewards`. A
        check that does for the first time is begun anew then.
        """
        ...

    async def aclose(self) -> None:
        """End the processes."""
        ...
