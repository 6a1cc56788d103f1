"""What a form of export is given, and gives: bytes for each trial, in order, and for the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ...events.envelope import RecordedEvent
from ...events.kinds import TrialScheduled
from ...events.values import BlobRef
from ...projections.trial import TrialView
from ..labels.ledger import Ledger


class TrialRead(msgspec.Struct, frozen=True, kw_only=True):
    """One trial, as it was read from the log."""

    events: Sequence[RecordedEvent]
    """Its own, after those of the execution that it goes on from."""
    ledger: Ledger
    blobs: Mapping[str, bytes]
    """Those that the form asked for."""
    regrades: Sequence[str]
    """Ids of the job's finished ones."""
    instructions: str = ""
    """The task's, where it is known."""


class Form(ABC):
    """Makes an export out of trials, one at a time. Pure but for what it remembers."""

    def blobs(self, view: TrialView) -> Iterable[BlobRef]:
        """The blobs whose bytes a trial needs."""
        return ()

    @abstractmethod
    def trial(self, read: TrialRead) -> bytes:
        """What is written for one more trial."""

    def left_out(self, scheduled: TrialScheduled, why: str | None) -> bytes:
        """What is written for a trial that can't be read, and why; null for one that has not
        begun."""
        return b""

    def end(self) -> bytes:
        """What is written after the last one."""
        return b""
