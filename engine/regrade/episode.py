"""A trial regraded by functions, judges' replies and people's scores, on its recorded episode."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ...events.kinds import (
    JudgeSampled,
    RegradeFailed,
    RegradeScored,
    VerifierFailed,
    VerifierScored,
    WarningRaised,
)
from ...events.values import BlobRef
from ..authoring.verifiers import AgentVerifier, HumanVerifier
from ..hooks.protocol import HookSource, Recorded, TrialGiven
from ..job.episode_judging import verdict_given, with_range_told
from ..job.episode_task import EpisodeTask
from ..judges.client import JudgeUnavailable
from ..judges.judge import judge, recorded_judge, unavailable_judge
from ..trial.decide import by_person
from .context import Context
from .decide import answer
from .looking import lost_blob
from .plan import Facts, Refusal, notes, refusal
from .stored import StoredTrial


class EpisodeRegrade:
    """The regrade of one trial on its episode."""

    def __init__(self, context: Context, trial: StoredTrial) -> None:
        self.context = context
        self.trial = trial
        self.notes: list[str] = []
        self.image_digest = None
        """It is regraded in no sandbox."""
        self.replies: list[JudgeSampled] = []
        """What judges were asked for now."""
        self._task: EpisodeTask | None = context.episodes.get(trial.task)

    async def prepare(self, *, thorough: bool = False) -> Refusal | None:
        """Why the trial is not regradable, None when it is.

        With `thorough` the bytes of judges' recorded replies are read: for a plan.
        """
        facts = Facts(gone=self.context.gone.get(self.trial.task), script=False)
        found = refusal(self.trial, facts)
        if found is not None or self._task is None:
            return found
        self.notes = notes(self.trial, facts)
        for person in self._people():
            if person.name not in self.trial.reviews:
                reason = f"no person has scored it as {person.name}"
                return Refusal("no_recorded_review", reason)
        for verifier in self._judges():
            calls = self.context.planned.call_models
            if not calls and not self.trial.replies.get(verifier.name):
                reason = f"it has no recorded replies of judge {verifier.name}; --call-models asks"
                return Refusal("no_recorded_replies", reason)
        for name in self._left():
            if not isinstance(self.trial.verdicts.get(name), VerifierScored):
                reason = f"its verifier {name} gave no score that could be kept"
                return Refusal("no_recorded_score", reason)
        if thorough and not self.context.planned.call_models:
            return await lost_blob(self.context.log.blobs, self._replies())
        return None

    @property
    def verifiers(self) -> dict[str, str]:
        """What grades it, by name, with its digest."""
        task = self._known()
        return {source.name: source.digest for source in task.sources} | task.digests

    def checked(self) -> Recorded | None:
        """What functions are to check; None where there are none."""
        sources, episode = self._sources(), self.trial.episode
        if not any(source.check is not None for source in sources):
            return None
        assert episode is not None
        # Rewards are given anew, so that checks see those of the code that they come with.
        return Recorded(sources, replace(episode, rewards=[]))

    async def run(self) -> RegradeScored | RegradeFailed | Refusal:
        """Grade the recorded episode."""
        given: TrialGiven | Exception | None = None
        if (checked := self.checked()) is not None:
            assert self.context.hooks is not None
            (given,) = await self.context.hooks.check_each([checked])
        return await self.conclude(given)

    async def conclude(
        self, given: TrialGiven | Exception | None
    ) -> RegradeScored | RegradeFailed | Refusal:
        """The same with what the functions gave. Raises what kept them from giving anything."""
        if isinstance(given, Exception):
            raise given
        trial = self.trial
        verdicts: dict[str, VerifierScored | VerifierFailed] = {}
        for name in self._left():
            verdicts[name] = trial.verdicts[name]
        kept = {*verdicts}
        if given is not None:
            verdicts |= self._verdicts(given)
        warnings: list[WarningRaised] = []
        for verifier in self._judges():
            verdicts[verifier.name] = await self._judge(verifier, warnings)
        for person in self._people():
            score = by_person(trial.requests[person.name], trial.reviews[person.name])
            verdicts[person.name] = replace(score, weight=person.weight)
            kept.add(person.name)
        judged = [verdicts[name] for name in self._order() if name in verdicts]
        for verdict in judged:
            told = with_range_told(verdict, len(judged))
            warnings += [one for one in told if isinstance(one, WarningRaised)]
        return answer(
            self.context.planned.regrade_id,
            judged,
            warnings,
            kept=kept,
            as_of_run=trial if self.context.planned.as_of_run else None,
        )

    def _verdicts(self, given: TrialGiven) -> dict[str, VerifierScored | VerifierFailed]:
        return {
            source.name: verdict_given(
                source, given.checks[source.name], round(given.seconds[source.name], 6)
            )
            for source in self._sources()
            if source.check is not None
        }

    async def _judge(
        self, verifier: AgentVerifier, warnings: list[WarningRaised]
    ) -> VerifierScored | VerifierFailed:
        context, trial = self.context, self.trial
        digest = self._known().digests[verifier.name]
        blobs = context.log.blobs
        if not context.planned.call_models:
            result = await recorded_judge(
                verifier, trial.replies[verifier.name], digest=digest, blobs=blobs
            )
        else:
            assert trial.episode is not None
            try:
                client = context.judges.client()
            except JudgeUnavailable as error:
                result = unavailable_judge(verifier, error, digest=digest)
            else:
                result = await judge(
                    verifier, trial.episode, client, digest=digest, blobs=blobs,
                    clock=context.clock, limiter=context.judges.slots(verifier.model),
                    cost_limit=context.judges.cost_limit,
                    redact=context.redactor.text,
                )  # fmt: skip
            self.replies += result.events
        warnings += result.warnings
        return result.verdict

    # Which verifiers do what

    def _known(self) -> EpisodeTask:
        assert self._task is not None
        return self._task

    def _sources(self) -> list[HookSource]:
        return [source for source in self._known().sources if self._again(source.name)]

    def _judges(self) -> list[AgentVerifier]:
        return [verifier for verifier in self._known().judges if self._again(verifier.name)]

    def _replies(self) -> list[BlobRef]:
        judges = [verifier.name for verifier in self._judges()]
        replies = [one.reply for name in judges for one in self.trial.replies[name]]
        return [reply for reply in replies if isinstance(reply, BlobRef)]

    def _people(self) -> Sequence[HumanVerifier]:
        return self._known().people

    def _again(self, name: str) -> bool:
        only = self.context.planned.verifier_only
        return only is None or name == only

    def _left(self) -> list[str]:
        """Verifiers that score and are not run again, of which the recorded score is kept."""
        task = self._known()
        scoring = [source.name for source in task.sources if source.check is not None]
        scoring += [verifier.name for verifier in task.judges]
        return [name for name in scoring if not self._again(name)]

    def _order(self) -> list[str]:
        task = self._known()
        return [
            *(source.name for source in task.sources),
            *(judge.name for judge in task.judges),
            *(person.name for person in task.people),
        ]

    def release(self) -> None:
        """There is nothing to give back."""
