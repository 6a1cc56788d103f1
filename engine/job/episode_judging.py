"""Judging an episode: rewards, checks, judges, people, the score, and credit in hindsight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ...events.kinds import (
    HumanReviewRequested,
    StepRewarded,
    StepRewardFailed,
    TrialEvent,
    VerifierFailed,
    VerifierScored,
    VerifierStarted,
    WarningRaised,
)
from ...events.kinds.parts import CriterionAsked, Target
from ...events.values import escape
from ...projections.episode import EpisodeData
from ..authoring.verifiers import AgentVerifier
from ..authoring.views import NotRecorded, QueryRefused, RecordedQueries
from ..hooks.protocol import AskApp, CheckGiven, HookSource, RewardGiven
from ..judges.client import JudgeUnavailable
from ..judges.judge import JudgeResult, judge, unavailable_judge
from ..trial.decide import Conclude, Record, Score
from ..worlds.protocol import WorldClient
from .conclusion import conclude_episode, credit_events
from .episode_record import EpisodeRecord
from .episode_replay import judge_again
from .episode_task import EpisodeTask

if TYPE_CHECKING:
    from .history import History


class EpisodeJudging:
    """The judging of one execution."""

    def __init__(self, history: History, task: EpisodeTask, episode: EpisodeRecord) -> None:
        self._history = history
        assert history.job.hooks is not None, "a job with environment tasks is given hooks"
        self._hooks = history.job.hooks
        self._task = task
        self._episode = episode

    async def reward_now(self, world: WorldClient, step: int) -> None:
        """Reward a step right away by those verifiers whose code may ask apps questions."""
        for source in self._task.sources:
            if source.reward is None or not source.queries:
                continue
            event_id = self._episode.step_id(step)
            data = self._episode.data()
            ask = self._ask(source, world, event_id)
            (given,) = await self._hooks.rewards(source, data, [step], ask)
            self._tell_reward(source, event_id, data.steps[step].app, given)

    async def run(self, world: WorldClient, end: list[TrialEvent]) -> None:
        """Reward what is not yet rewarded, end the agent's part, and judge.

        The episode is on its way into the log before anyone judges it, so that whatever becomes of
        the engine while a check runs, the agent does not act again. Before anyone is asked who is
        not the author's code, it is durable.
        """
        task = self._task
        checks = [source for source in task.sources if source.check is not None]
        asked = task.judges or task.people or any(s.queries for s in task.sources)
        if len(checks) == 1 and not asked:
            await self._judge_by(checks[0], end)
            return
        self._episode.told(*await self._rest_of_rewards(self._episode.data()), *end)
        if asked:
            await self._history.settle()
        await self._check_all(world)
        if await self._waits():
            return
        await self.conclude()

    async def _judge_by(self, source: HookSource, end: list[TrialEvent]) -> None:
        """The one check and the credit in one round trip: they ask apps nothing."""
        history, sources = self._history, self._task.sources
        episode = self._episode.data(*end)
        self._episode.told(*await self._rest_of_rewards(episode), *end, _started(source))
        episode = replace(episode, rewards=self._episode.earned())
        ids = {source.name: history.record.reserve(source.name)}
        given = await self._hooks.trial(
            sources, episode, None, rewarded=[s.name for s in sources], verdicts=ids
        )
        verdict = verdict_given(
            source, given.checks[source.name], round(given.seconds[source.name], 6)
        )
        credits: list[TrialEvent] = []
        if isinstance(verdict, VerifierScored):
            for one in sources:
                if one.name in given.hindsight:
                    credits += credit_events(one, given.hindsight[one.name])
        # One append: it is all there or, to be asked for again, none of it.
        history.command(Record([verdict]), Score(), Record(credits), Conclude())
        await history.settle()

    async def _rest_of_rewards(self, episode: EpisodeData) -> list[TrialEvent]:
        """The rewards of verifiers whose code asks nothing, in one round trip."""
        rest = [s for s in self._task.sources if s.reward is not None and not s.queries]
        if not rest:
            return []
        given = await self._hooks.trial(rest, episode, None, checks=False, hindsight=False)
        events: list[TrialEvent] = []
        for source in rest:
            for step, one in zip(episode.steps, given.rewards.get(source.name, []), strict=False):
                events += _reward(source, step.event_id, step.app, one)
        return events

    def _tell_reward(self, source: HookSource, step: str, app: str, given: RewardGiven) -> None:
        for event in _reward(source, step, app, given):
            self._episode.told(event)

    async def _check_all(self, world: WorldClient | None) -> None:
        judged = {v.verifier for v in self._history.record.state.verdicts}
        for source in self._task.sources:
            if source.check is None or source.name in judged:
                continue
            if self._history.record.state.verifying != source.name:  # else it was cut off
                self._history.note(_started(source))
            begun = self._history.job.clock.monotonic()
            data = self._episode.data()
            gone = WorldGone(source.name, data) if world is None else None
            ask = self._ask(source, world, None) if world is not None else gone
            given = await self._hooks.check(source, data, ask)
            duration = round(self._history.job.clock.monotonic() - begun, 6)
            verdict = verdict_given(source, given, duration)
            if gone is not None and gone.missed is not None:
                verdict = _ungiven(source, gone.missed, duration)
            self._episode.told(*with_range_told(verdict, self._task.scoring))
        for verifier in self._task.judges:
            if verifier.name not in judged:
                await self._judge(verifier)

    async def finish_stored(self) -> None:
        """Judge what is recorded but not judged, as far as it goes without a world, and end."""
        await self._episode.load()
        await self._check_all(None)
        if not await self._waits():
            await self.conclude()

    async def _judge(self, verifier: AgentVerifier) -> None:
        digest = self._task.digests[verifier.name]
        if self._history.record.state.verifying != verifier.name:  # else it was cut off
            await self._history.tell(
                VerifierStarted(
                    verifier=verifier.name, verifier_kind="agent", version=verifier.version,
                    digest=digest, weight=verifier.weight, model=verifier.model,
                    timeout_sec=verifier.timeout_sec,
                )
            )  # fmt: skip
        result = await self._ask_judge(verifier, digest)
        verdict = result.verdict
        if isinstance(verdict, VerifierScored) and any(
            app.control == "live" for app in self._episode.data().apps.values()
        ):
            verdict = replace(verdict, live_state=True)  # a judge is shown the final states
        warnings = [*result.warnings]
        if not any(warning.code == "judge_model_changed" for warning in warnings):
            warnings += self._changed_model(verifier, result)
        if isinstance(verdict, VerifierScored):
            verdict = replace(verdict, warnings=[warning.code for warning in warnings])
        self._episode.told(*result.events, verdict, *warnings)
        await self._history.settle()

    async def _ask_judge(self, verifier: AgentVerifier, digest: str) -> JudgeResult:
        job, episode = self._history.job, self._episode.data()
        if (recorded := await self._history.recorded()) is not None:
            result = await judge_again(
                verifier, episode, recorded, digest=digest, blobs=job.log.blobs
            )
            if isinstance(result.verdict, VerifierFailed) and result.verdict.difference:
                self._history.tell_difference(str(result.verdict.error))
            return result
        try:
            client = job.judges.client()
        except JudgeUnavailable as error:
            return unavailable_judge(verifier, error, digest=digest)
        return await judge(
            verifier, episode, client, digest=digest, blobs=job.log.blobs, clock=job.clock,
            limiter=job.judges.slots(verifier.model), cost_limit=job.judges.cost_limit,
            redact=job.redactor.text,
        )  # fmt: skip

    def _changed_model(self, verifier: AgentVerifier, result: JudgeResult) -> list[WarningRaised]:
        """The same name led to another model than in this job's trials before."""
        judges = self._history.job.judges
        for event in result.events:
            if event.model_reported is None:
                continue
            before = judges.another(verifier.model, event.model_reported)
            if before is not None:
                message = (
                    f"judge {verifier.name}: {verifier.model} called itself {before} in this job "
                    f"before, and {event.model_reported} here, so the trials had different judges"
                )
                return [WarningRaised(code="judge_model_changed", message=message)]
        return []

    async def _waits(self) -> bool:
        """Ask people, where the task has them and nothing failed; whether the trial waits."""
        state = self._history.record.state
        failed = any(isinstance(verdict, VerifierFailed) for verdict in state.verdicts)
        if failed or not self._task.people:
            return False
        if state.requested:  # asked before the engine had stopped
            return bool(state.awaiting)
        await self._history.tell(
            *(
                HumanReviewRequested(
                    verifier=person.name, version=person.version,
                    digest=self._task.digests[person.name], weight=person.weight,
                    instructions=person.instructions,
                    criteria=[
                        CriterionAsked(
                            name=c.name, description=c.description, weight=c.weight,
                            min_score=c.min_score, max_score=c.max_score, blocker=c.blocker,
                        )
                        for c in person.criteria
                    ],
                )
                for person in self._task.people
            )
        )  # fmt: skip
        return True

    async def conclude(self) -> None:
        """The score, then credit in hindsight, then the end."""
        await conclude_episode(
            self._history.record, self._task.sources, self._episode.data(), self._hooks
        )

    def _ask(self, source: HookSource, world: WorldClient, step: str | None) -> AskApp:
        async def ask(app: str, action: str, arguments: dict[str, Any]) -> Any:
            live = app in self._episode.live
            try:
                answer = await world.query(app, action, arguments)
            except QueryRefused as error:
                await self._episode.query(
                    source, app, action, arguments, error=str(error), step=step, live=live
                )
                raise
            await self._episode.query(
                source, app, action, arguments, answer=answer, step=step, live=live
            )
            return answer

        return ask


def _reward(
    source: HookSource, step: str, app: str, given: RewardGiven
) -> list[StepRewarded | StepRewardFailed]:
    """What a reward hook gave for a step, as an event; none where there is no signal."""
    if given.fault is not None:
        return [
            StepRewardFailed(
                verifier=source.name, version=source.version, digest=source.digest, step=step,
                error=given.fault.error, line=given.fault.line,
            )
        ]  # fmt: skip
    if given.value is None:
        return []
    return [
        StepRewarded(
            verifier=source.name, version=source.version, digest=source.digest,
            target=Target(target="step", event_id=step), app=app or None,
            value=given.value, weight=source.weight, space="action",
        )
    ]  # fmt: skip


class WorldGone:
    """Answers a check of a recorded episode from the log, and notes what only the apps could say.

    A check that asks for more can't be believed, whatever it makes of the refusal.
    """

    def __init__(self, verifier: str, episode: EpisodeData) -> None:
        own = [q for q in episode.queries if q.verifier == verifier and q.step is None]
        self._recorded = RecordedQueries(own)
        self.missed: str | None = None
        """The first question without an answer."""

    async def __call__(self, app: str, action: str, arguments: dict[str, Any]) -> Any:
        """See AskApp."""
        try:
            return self._recorded(app, action, arguments)
        except NotRecorded:
            self.missed = self.missed or f"{app}.{action}"
            raise


def _ungiven(source: HookSource, question: str, duration: float) -> VerifierFailed:
    return VerifierFailed(
        verifier=source.name, verifier_kind="deterministic", version=source.version,
        digest=source.digest, weight=source.weight,
        error=f"its check asks {question}, and the apps went away when the engine stopped",
        category="world_gone", infrastructure=True, duration=duration,
    )  # fmt: skip


def _started(source: HookSource) -> VerifierStarted:
    return VerifierStarted(
        verifier=source.name, verifier_kind="deterministic", version=source.version,
        digest=source.digest, weight=source.weight, timeout_sec=source.timeout_sec,
    )  # fmt: skip


def with_range_told(
    verdict: VerifierScored | VerifierFailed, scoring: int
) -> list[VerifierScored | VerifierFailed | WarningRaised]:
    """The verdict, and a warning where it is one of several and its score can outvote theirs."""
    if isinstance(verdict, VerifierFailed) or scoring < 2 or 0.0 <= verdict.score <= 1.0:
        return [verdict]
    message = (
        f"verifier {verdict.verifier} gave {verdict.score:g}, outside 0 to 1, so it counts for "
        f"more than its weight among {scoring} verifiers"
    )
    warning = WarningRaised(code="score_out_of_range", message=message)
    return [replace(verdict, warnings=[*verdict.warnings, warning.code]), warning]


def verdict_given(
    source: HookSource, given: CheckGiven, duration: float
) -> VerifierScored | VerifierFailed:
    """What a check gave, as an event."""
    if given.fault is not None or given.score is None:
        fault = given.fault
        return VerifierFailed(
            verifier=source.name, verifier_kind="deterministic", version=source.version,
            digest=source.digest, weight=source.weight,
            error=fault.error if fault else "the check gave no score",
            category="verifier_timeout" if fault and fault.timed_out else "verifier_failed",
            infrastructure=False, line=fault.line if fault else None, duration=duration,
        )  # fmt: skip
    return VerifierScored(
        verifier=source.name, verifier_kind="deterministic", version=source.version,
        digest=source.digest, weight=source.weight, score=given.score,
        scores=escape(given.scores),
        evidence=list(given.evidence), feedback=given.feedback, source="verifier",
        live_state=given.live, duration=duration,
    )  # fmt: skip
