"""A small world, policies for it, and hooks that do as they are told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trialog.engine.authoring.app import App, action
from trialog.engine.authoring.environment import Environment
from trialog.engine.authoring.policy import Action, Answer
from trialog.engine.authoring.task import TaskView
from trialog.engine.authoring.views import Episode, HindsightTrial, QueryRefused
from trialog.engine.hooks.protocol import (
    AskApp,
    CheckGiven,
    HindsightGiven,
    HookFault,
    HookSource,
    RewardGiven,
    TrialGiven,
)
from trialog.engine.job.episode_task import EpisodeTask
from trialog.events.kinds.job import TaskSnapshot
from trialog.events.values import blob_ref
from trialog.projections.episode import EpisodeData


class Count(msgspec.Struct):
    """The counter's state."""

    value: int = 0
    note: str = ""


class Counter(App[Count]):
    """Counts; the episode ends at five."""

    @action
    def add(self, n: int) -> int:
        """Add to the counter."""
        self.state.value += n
        return self.state.value

    @action
    def write(self, text: str) -> None:
        """Keep a note."""
        self.state.note = text

    @action
    def fail(self) -> None:
        """Always fails."""
        raise KeyError("nothing there")

    @action(readonly=True)
    def get(self) -> int:
        """The value."""
        return self.state.value

    def terminated(self) -> bool:
        """At five or more."""
        return self.state.value >= 5


class Script:
    """A policy that takes these actions, then answers."""

    def __init__(self, *choices: Any, answer: Any = None) -> None:
        self.choices = list(choices)
        self.answer = answer
        self.seen: list[Any] = []

    async def act(self, observation: Any, actions: Sequence[Any]) -> Any:
        """The next choice."""
        self.seen.append(observation)
        return self.choices.pop(0) if self.choices else Answer(self.answer)


def adds(times: int, n: int = 1) -> list[Action]:
    """So many additions."""
    return [Action("add", {"n": n}) for _ in range(times)]


class TellsHooks:
    """Hooks whose answers are functions of what they are given."""

    def __init__(
        self,
        *,
        reward: Callable[[EpisodeData, int], float | HookFault | None] | None = None,
        check: Callable[[Episode], float | HookFault] | None = None,
        hindsight: Callable[[HindsightTrial], list[Any] | HookFault] | None = None,
        question: tuple[str, str, dict[str, Any]] | None = None,
    ) -> None:
        self.reward = reward or (lambda episode, step: 0.25)
        self.check_with = check or (lambda episode: 1.0)
        self.hindsight_with = hindsight or (lambda trial: [])
        self.question = question
        self.answers: list[Any] = []
        self.calls: list[str] = []

    async def rewards(
        self, source: HookSource, episode: EpisodeData, steps: Sequence[int], ask: AskApp | None
    ) -> list[RewardGiven]:
        """See Hooks."""
        self.calls.append("rewards")
        if ask is not None and self.question:
            self.answers.append(await ask(*self.question))
        given: list[RewardGiven] = []
        for step in steps:
            said = self.reward(episode, step)
            if isinstance(said, HookFault):
                given.append(RewardGiven(fault=said))
            else:
                given.append(RewardGiven(value=said))
        return given

    async def check(
        self, source: HookSource, episode: EpisodeData, ask: AskApp | None
    ) -> CheckGiven:
        """See Hooks."""
        self.calls.append("check")
        if ask is not None and self.question:
            try:
                self.answers.append(await ask(*self.question))
            except QueryRefused as refused:
                return CheckGiven(fault=HookFault(error=str(refused)))
        given = Episode(episode)
        said = self.check_with(given)
        if isinstance(said, HookFault):
            return CheckGiven(fault=said)
        return CheckGiven(score=said, live=given.looked_at_live())

    async def hindsight(
        self, source: HookSource, episode: EpisodeData, score: float | None
    ) -> HindsightGiven:
        """See Hooks."""
        self.calls.append("hindsight")
        said = self.hindsight_with(HindsightTrial(episode, score))
        return (
            HindsightGiven(fault=said)
            if isinstance(said, HookFault)
            else HindsightGiven(credits=said)
        )

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
        """See Hooks: one after the other."""
        steps = range(len(episode.steps))
        rewards = {
            s.name: await self.rewards(s, episode, steps, ask)
            for s in sources if s.reward and s.name not in rewarded
        }  # fmt: skip
        given = {s.name: await self.check(s, episode, ask) for s in sources if s.check and checks}
        score = next((c.score for c in given.values()), None)
        credit = {
            s.name: await self.hindsight(s, episode, score)
            for s in sources if s.hindsight and hindsight
        }  # fmt: skip
        return TrialGiven(
            rewards=rewards, checks=given, hindsight=credit, seconds=dict.fromkeys(given, 0.0)
        )

    async def aclose(self) -> None:
        """Nothing to end."""


def source(name: str = "v", **changes: Any) -> HookSource:
    """A verifier with all three hooks."""
    fields: dict[str, Any] = {
        "name": name, "version": "0.1.0", "digest": "sha256:1", "weight": 1.0, "timeout_sec": 60.0,
        "folder": Path("."), "root": Path("."), "check": "verify.py:check",
        "reward": "verify.py:reward", "hindsight": "verify.py:hindsight",
    }  # fmt: skip
    return HookSource(**(fields | changes))


def episode_task(name: str = "count", **changes: Any) -> EpisodeTask:
    """A task in the counter's world."""
    fields: dict[str, Any] = {
        "snapshot": TaskSnapshot(
            task=name, digest="sha256:0", path="/nowhere", layout="project", snapshot=blob_ref(b"")
        ),
        "live": True,
        "view": TaskView(name=name, instructions="Count to five.", expected=5),
        "environment": Environment([Counter], max_turns=20),
        "sources": [source()],
    }
    return EpisodeTask(**(fields | changes))
