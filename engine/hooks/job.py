"""A work as the engine follows it, through as many processes as it takes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...events.tickets import Ticket
from ...projections.episode import EpisodeData
from ..authoring.views import Credit
from .protocol import AskApp, CheckGiven, HindsightGiven, HookFault, HookSource, RewardGiven
from .wire import Call, Outcome, Source, Work, source_of

_check = msgspec.json.Decoder(CheckGiven)
_credits = msgspec.json.Decoder(list[Credit])


class Job:
    """Calls on one episode, and what came of them until now."""

    __slots__ = (
        "ask", "broken", "calls", "cancelled", "deaths", "done", "episode", "score",
        "scored", "sources",
        "ticket", "verdicts", "wired",
    )  # fmt: skip

    def __init__(
        self,
        sources: Sequence[HookSource],
        calls: list[Call],
        episode: EpisodeData,
        *,
        ask: AskApp | None = None,
        score: float | None = None,
        scored: bool = False,
        verdicts: dict[str, str] | None = None,
    ) -> None:
        self.sources = sources
        self.wired: list[Source] = [source_of(source) for source in sources]
        self.calls = calls
        self.episode = msgspec.json.encode(episode)
        self.ask = ask
        self.score = score
        self.scored = scored
        self.verdicts = verdicts or {}
        self.done: list[Outcome] = []
        self.broken: dict[int, HookFault] = {}
        self.ticket: Ticket[list[Outcome]] = Ticket()
        self.deaths = 0
        """Processes that ended under it and not in one of its calls."""
        self.cancelled = False

    def work(self, seq: int) -> Work:
        """What is still to be done, for a process."""
        return Work(
            seq=seq, sources=self.wired, calls=self.calls, episode=self.episode, score=self.score,
            scored=self.scored, verdicts=self.verdicts, done=self.done, broken=self.broken,
            live=self.ask is not None,
        )  # fmt: skip

    def fail_rest(self, fault: HookFault) -> None:
        """Give every call that is not done this fault."""
        self.done += [Outcome(fault=fault)] * (len(self.calls) - len(self.done))


def reward_given(outcome: Outcome) -> RewardGiven:
    """A reward's outcome."""
    return RewardGiven(value=outcome.value, fault=outcome.fault)


def check_given(outcome: Outcome) -> CheckGiven:
    """A check's outcome."""
    if outcome.fault is not None or not outcome.body:
        return CheckGiven(fault=outcome.fault)
    return _check.decode(outcome.body)


def hindsight_given(outcome: Outcome) -> HindsightGiven:
    """A hindsight's outcome."""
    if outcome.fault is not None or not outcome.body:
        return HindsightGiven(fault=outcome.fault)
    return HindsightGiven(credits=_credits.decode(outcome.body))
