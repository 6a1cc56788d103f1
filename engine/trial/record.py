"""The writing end of a trial's stream: commands are decided, then their events appended."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from ...events.clock import Clock, Ids
from ...events.envelope import Appended, NewEvent
from ...events.kinds import (
    ActionTaken,
    AgentFailed,
    AgentFinished,
    AgentStarted,
    TrialEvent,
    VerifierFailed,
    VerifierScored,
    VerifierStarted,
)
from ...events.log import EventLog
from .decide import Command, follow
from .state import TrialState


def stream_of(trial: str) -> str:
    """The name of a trial's stream."""
    return f"trial/{trial}"


class TrialRecord:
    """One execution's history, written by one coroutine.

    `tell` queues what the command leads to and gives a ticket: await it before anything outside
    depends on it. After a failed append the record is of no more use; the error says why.
    """

    def __init__(
        self,
        log: EventLog,
        trial: str,
        *,
        clock: Clock,
        ids: Ids,
        state: TrialState | None = None,
        cause: str | None = None,
    ) -> None:
        self.log = log
        self.trial = trial
        self.stream = stream_of(trial)
        self.clock = clock
        self.ids = ids
        self.state = state or TrialState()
        self._last = cause
        self._begun: dict[type, str] = {}
        self._reserved: dict[str, str] = {}
        self.told: list[str] = []
        """Ids of the events that were told last."""

    def tell(self, *commands: Command) -> Awaitable[Appended] | None:
        """Decide one command after the other, and queue all their events as one append.

        None when nothing follows from the commands.
        """
        state = self.state
        events: list[TrialEvent] = []
        for command in commands:
            decided, state = follow(state, command)
            events += decided
        if not events:
            return None
        # What the log refuses at once has not happened, so the state follows the append.
        envelopes = self._envelopes(events)
        ticket = self.log.append(self.stream, self.state.version, envelopes)
        self.state = state
        self.told = [envelope.id for envelope in envelopes]
        return ticket

    def reserve(self, verifier: str) -> str:
        """The id that this verifier's score will have as an event."""
        return self._reserved.setdefault(verifier, self.ids.event_id())

    def _envelopes(self, events: Sequence[TrialEvent]) -> list[NewEvent]:
        enveloped: list[NewEvent] = []
        for event in events:
            new = NewEvent(
                id=self._id(event),
                at=self.clock.now(),
                payload=event,
                causation=self._cause(event),
            )
            self._last = new.id
            if isinstance(event, (AgentStarted, VerifierStarted)):
                self._begun[type(event)] = new.id
            enveloped.append(new)
        return enveloped

    def _id(self, event: TrialEvent) -> str:
        if isinstance(event, VerifierScored):
            reserved = self._reserved.pop(event.verifier, None)
            if reserved is not None:
                return reserved
        return self.ids.event_id()

    def _cause(self, event: TrialEvent) -> str | None:
        match event:
            case ActionTaken() | AgentFinished() | AgentFailed():
                return self._begun.get(AgentStarted, self._last)
            case VerifierScored() | VerifierFailed():
                return self._begun.get(VerifierStarted, self._last)
            case _:
                return self._last
