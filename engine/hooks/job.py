"""A work as the engine follows it, through as many processes as it takes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...events.tickets import Ticket
from ...projections.episode import EpisodeData
from ..authoring.views import Credit, QueryRefused
from .faults import bounded
from .protocol import AskApp, CheckGiven, HindsightGiven, HookFault, HookSource, RewardGiven
from .wire import Answer, Call, Outcome, Source, Work, source_of

_check = msgspec.json.Decoder(CheckGiven)
_credits = msgspec.json.Decoder(list[Credit])


class Job:
    """Calls on one episode, and what came of them until now."""

    __slots__ = (
        "ask", "broken", "calls", "cancelled", "deaths", "done", "episode", "got_to", "score",
        "scored", "sources",
        "ticket", "unrewarded", "verdicts", "wired",
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
        unrewarded: bool = False,
    ) -> None:
        self.sources = sources
        self.wired: list[Source] = [source_of(source) for source in sources]
        self.calls = calls
        self.episode = msgspec.json.encode(episode)
        self.ask = ask
        self.score = score
        self.scored = scored
        self.verdicts = verdicts or {}
        self.unrewarded = unrewarded
        self.done: list[Outcome] = []
        self.broken: dict[int, HookFault] = {}
        self.ticket: Ticket[list[Outcome]] = Ticket()
        self.deaths = 0
        """Processes that ended under it, in none of its calls, since it last got on."""
        self.got_to = 0
        self.cancelled = False

    def work(self, seq: int) -> Work:
        """What is still to be done, for a process."""
        return Work(
            seq=seq, sources=self.wired, calls=self.calls, episode=self.episode, score=self.score,
            scored=self.scored, verdicts=self.verdicts, done=self.done, broken=self.broken,
            live=self.ask is not None, unrewarded=self.unrewarded,
        )  # fmt: skip

    def died(self) -> int:
        """A process ended under it, and no call is to blame; how often that was, without one done
        in between."""
        self.deaths = self.deaths + 1 if len(self.done) == self.got_to else 1
        self.got_to = len(self.done)
        return self.deaths

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


async def answered(ask: AskApp, app: str, action: str, arguments: bytes) -> Answer:
    """An app's answer to a hook. Whatever goes wrong is a refusal, so that none waits for ever."""
    try:
        given = await ask(app, action, msgspec.json.decode(arguments))
        return Answer(answer=msgspec.json.encode(given))
    except QueryRefused as error:
        return Answer(refused=bounded(str(error)))
    except Exception as error:
        return Answer(refused=bounded(f"{type(error).__name__}: {error}"))
