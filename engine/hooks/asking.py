"""What may be asked of hooks, as jobs: rewards, a check, a hindsight, or a trial's all at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

from ...projections.episode import AppData, EpisodeData
from .job import Job, check_given, hindsight_given, reward_given
from .protocol import (
    AskApp,
    CheckGiven,
    HindsightGiven,
    HookSource,
    Recorded,
    RewardGiven,
    TrialGiven,
)
from .wire import Call, Outcome


class JobHooks(ABC):
    """Hooks whose calls are made as jobs, wherever those are done."""

    def __init__(self) -> None:
        self._reading: set[str] = set()
        """Digests of the verifiers whose check has read the rewards."""

    @abstractmethod
    async def done(self, job: Job) -> list[Outcome]:
        """What came of a job's calls, one each."""

    @abstractmethod
    async def done_each(self, jobs: Sequence[Job]) -> list[list[Outcome] | Exception]:
        """The same of several jobs, or why one could not be done."""

    async def rewards(
        self, source: HookSource, episode: EpisodeData, steps: Sequence[int], ask: AskApp | None
    ) -> list[RewardGiven]:
        """See Hooks. Steps that only the agent's program reported are not rewarded."""
        seen = _seen(episode, steps)
        calls, needed = _needed(seen, episode)
        outcomes = await self.done(Job([source], calls, needed, ask=ask))
        given = dict(zip(seen, map(reward_given, outcomes), strict=True))
        return [given.get(step, RewardGiven()) for step in steps]

    async def check(
        self, source: HookSource, episode: EpisodeData, ask: AskApp | None
    ) -> CheckGiven:
        """See Hooks."""
        (outcome,) = await self.done(Job([source], [Call(0, "check")], episode, ask=ask))
        return check_given(outcome)

    async def hindsight(
        self, source: HookSource, episode: EpisodeData, score: float | None
    ) -> HindsightGiven:
        """See Hooks."""
        job = Job([source], [Call(0, "hindsight")], episode, score=score, scored=True)
        (outcome,) = await self.done(job)
        return hindsight_given(outcome)

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
        """See Hooks."""
        job = _trial_job(sources, episode, ask, rewarded, checks, hindsight, verdicts)
        return _trial_given(job, episode, await self.done(job))

    async def check_each(self, trials: Sequence[Recorded]) -> list[TrialGiven | Exception]:
        """See Hooks."""
        given: dict[int, TrialGiven | Exception] = {}
        left = list(range(len(trials)))
        while left:
            given |= await self._checked({number: trials[number] for number in left})
            left = [number for number in left if number not in given]
        return [given[number] for number in range(len(trials))]

    async def _checked(self, trials: dict[int, Recorded]) -> dict[int, TrialGiven | Exception]:
        """What checks gave, by trial; nothing where one read rewards that had not been given."""
        given: dict[int, TrialGiven | Exception] = {}
        jobs: dict[int, Job] = {}
        for number, trial in trials.items():
            try:
                jobs[number] = self._checking(trial)
            except (TypeError, ValueError, RecursionError) as error:  # it can't be sent as JSON
                given[number] = error
        outcomes = await self.done_each(list(jobs.values()))
        for (number, job), found in zip(jobs.items(), outcomes, strict=True):
            if isinstance(found, Exception):
                given[number] = found
                continue
            reading = {
                job.sources[call.source].digest
                for call, outcome in zip(job.calls, found, strict=True)
                if outcome.unrewarded
            }
            self._reading |= reading
            if not reading:
                given[number] = _trial_given(job, trials[number].episode, found)
        return given

    def _checking(self, trial: Recorded) -> Job:
        sources, episode = trial
        rewarding = any(source.reward is not None for source in sources)
        if rewarding and not any(_reads(source, self._reading) for source in sources):
            calls = [Call(n, "check") for n, s in enumerate(sources) if s.check is not None]
            return Job(sources, calls, episode, unrewarded=True)
        return _trial_job(sources, episode, None, (), True, False, None)


def _reads(source: HookSource, reading: Collection[str]) -> bool:
    """Whether its check is known to read the rewards; a program is given all there is."""
    check = source.check
    return check == "total_reward" or isinstance(check, list) or source.digest in reading


def _trial_job(
    sources: Sequence[HookSource],
    episode: EpisodeData,
    ask: AskApp | None,
    rewarded: Collection[str],
    checks: bool,
    hindsight: bool,
    verdicts: dict[str, str] | None,
) -> Job:
    """All rewards, source by source; then all checks; then all hindsights."""
    steps = _seen(episode, range(len(episode.steps)))
    calls = [
        Call(number, "reward", step)
        for number, source in enumerate(sources)
        if source.reward is not None and source.name not in rewarded
        for step in steps
    ]
    if checks:
        calls += [Call(n, "check") for n, s in enumerate(sources) if s.check is not None]
    if hindsight:
        calls += [Call(n, "hindsight") for n, s in enumerate(sources) if s.hindsight is not None]
    return Job(sources, calls, episode, ask=ask, verdicts=verdicts)


def _trial_given(job: Job, episode: EpisodeData, outcomes: list[Outcome]) -> TrialGiven:
    """A trial's outcomes, by verifier."""
    rewards: dict[str, list[RewardGiven]] = {}
    checks: dict[str, CheckGiven] = {}
    hindsight: dict[str, HindsightGiven] = {}
    seconds: dict[str, float] = {}
    for call, outcome in zip(job.calls, outcomes, strict=True):
        name = job.sources[call.source].name
        match call.hook:
            case "reward":
                if name not in rewards:
                    rewards[name] = [RewardGiven()] * len(episode.steps)
                rewards[name][call.step] = reward_given(outcome)
            case "check":
                checks[name] = check_given(outcome)
                seconds[name] = outcome.taken / 1e9
            case "hindsight":
                hindsight[name] = hindsight_given(outcome)
    return TrialGiven(rewards=rewards, checks=checks, hindsight=hindsight, seconds=seconds)


def _seen(episode: EpisodeData, steps: Sequence[int]) -> list[int]:
    return [step for step in steps if episode.steps[step].observed_by == "host"]


def _needed(steps: list[int], episode: EpisodeData) -> tuple[list[Call], EpisodeData]:
    """The calls for rewards of these steps, and of the episode what they are given."""
    first, last = (min(steps), max(steps)) if steps else (0, -1)
    states: dict[str, Any] = {name: app.initial for name, app in episode.apps.items()}
    for step in episode.steps[:first]:
        states |= step.states
    needed = EpisodeData(
        trial=episode.trial,
        task=episode.task,
        apps={name: AppData(initial=state) for name, state in states.items()},
        steps=episode.steps[first : last + 1],
        queries=[query for query in episode.queries if query.step is not None],
    )
    return [Call(0, "reward", step - first) for step in steps], needed
