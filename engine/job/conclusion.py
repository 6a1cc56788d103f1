"""The end of an environment trial: its score, credit in hindsight, and TrialFinished."""

from __future__ import annotations

from collections.abc import Sequence

from ...events.kinds import HindsightCredited, HindsightFailed, TrialEvent, TrialScored
from ...events.kinds.parts import Target
from ...events.values import escape
from ...projections.episode import EpisodeData
from ..hooks.protocol import HindsightGiven, Hooks, HookSource
from ..trial.decide import Conclude, Record, Score, decide
from ..trial.record import TrialRecord


async def conclude_episode(
    record: TrialRecord, sources: Sequence[HookSource], episode: EpisodeData, hooks: Hooks
) -> None:
    """Conclude a trial whose verdicts are all in; durable when this returns.

    All of it is one append: when the engine dies before, a resume does it anew, and nothing twice.
    """
    scored = record.state.scored
    for event in decide(record.state, Score()):
        scored = event if isinstance(event, TrialScored) else scored
    credits: list[TrialEvent] = []
    if scored is not None:
        for source in sources:
            if source.hindsight is not None:
                given = await hooks.hindsight(source, episode, scored.score)
                credits += credit_events(source, given)
    ticket = record.tell(Score(), Record(credits), Conclude())
    if ticket is not None:
        await ticket


def credit_events(source: HookSource, given: HindsightGiven) -> list[TrialEvent]:
    """What a hindsight hook gave, as events."""
    if given.fault is not None:
        return [
            HindsightFailed(
                verifier=source.name, version=source.version, digest=source.digest,
                error=given.fault.error, line=given.fault.line,
            )
        ]  # fmt: skip
    return [
        HindsightCredited(
            verifier=source.name, version=source.version, digest=source.digest,
            target=Target(
                target=credit.target, event_id=credit.event_id, field=credit.field,
                start=credit.start, end=credit.end, token_start=credit.token_start,
                token_end=credit.token_end,
            ),
            value=credit.value, weight=source.weight, space=credit.space,
            metadata=escape(credit.metadata),
        )
        for credit in given.credits
    ]  # fmt: skip
