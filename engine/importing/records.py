"""What a reader makes of another system's records: a job, and its trials as events."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast
from uuid import UUID

import msgspec

from ...events.envelope import NewEvent
from ...events.kinds import (
    TrialErrored,
    TrialEvent,
    TrialFinished,
    TrialUnscored,
    VerifierFailed,
    VerifierScored,
)
from ...events.kinds.parts import Output, SavedFile
from ...events.values import BlobRef, Json, blob_ref
from ..trial.decide import combine, first_failed
from .fields import RecordsError


class Readable(Protocol):
    """Where files are read from."""

    def read(self, name: str) -> bytes:
        """A file's bytes. Raises RecordsError for one that is damaged or too large to be read."""
        ...


class Records:
    """The files of what is imported, under names that are paths below it, as they were hashed."""

    def __init__(self, source: Readable, refs: Mapping[str, BlobRef]) -> None:
        self._source = source
        self.refs = refs
        """The blob that each file is, or will be."""
        self._sorted = sorted(refs)

    @property
    def names(self) -> list[str]:
        """Every file."""
        return list(self.refs)

    def read(self, name: str) -> bytes:
        """A file's bytes. Raises RecordsError for what is not as it was hashed."""
        data = self._source.read(name)
        if blob_ref(data) != self.refs[name]:
            raise RecordsError("it was changed while it was imported; import it again", file=name)
        return data

    def below(self, folder: str) -> list[str]:
        """The files in a folder."""
        first, last = (bisect_left(self._sorted, f"{folder}{end}") for end in ("/", "0"))
        return self._sorted[first:last]  # "0" is what follows "/"

    def saved(self, name: str, folder: str = "") -> SavedFile:
        """A file by its name below a folder."""
        return SavedFile(path=name.removeprefix(f"{folder}/"), blob=self.refs[name])

    def output(self, name: str) -> Output | None:
        """A file as what a program printed; None where it is not there."""
        ref = self.refs.get(name)
        if ref is None or not ref.size:
            return None
        return Output(blob=ref, total=ref.size, sha256=ref.blob.removeprefix("sha256:"))


class JobRead(msgspec.Struct, frozen=True, kw_only=True):
    """What the records say of a whole job."""

    name: str
    version: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    data: Json | None = None


class TrialRead(msgspec.Struct, frozen=True, kw_only=True):
    """A trial as its records tell it."""

    name: str
    """What it is called there."""
    path: str
    """Where its records lie."""
    task: str
    agent: str
    model: str | None = None
    parameters: dict[str, Json] = {}
    attempt: int | None = None
    """As the records count; null where they don't."""
    seed: int | None = None
    started_at: str | None = None
    events: list[NewEvent]
    """From AgentStarted to TrialFinished, with values as they were given: neither escaped nor put
    into blobs."""
    data: Json | None = None
    """What no event has a place for."""


class Reader(Protocol):
    """One system's records, made into events. Pure but for `Records.read`."""

    system: str

    def job(self) -> JobRead:
        """The job. Raises RecordsError."""
        ...

    def trials(self) -> list[str]:
        """A key for each of its trials: where its records lie."""
        ...

    def files(self, key: str) -> list[str]:
        """Names of the files that are this trial's records alone."""
        ...

    def trial(self, key: str, seed: str) -> TrialRead:
        """One trial; `seed` is what its events' ids are made from. Raises RecordsError."""
        ...


class Story:
    """A trial's events while they are told. Ids follow from the seed, so that the same records
    give the same events."""

    def __init__(self, seed: str, at: str | None) -> None:
        self.at = at or ""
        """The time of the last event; one that is not known is that of the event before."""
        self.events: list[NewEvent] = []
        self._seed = seed

    def tell(self, payload: TrialEvent, at: str | None = None) -> str:
        """Add an event; gives its id."""
        self.at = max(self.at, at or "")
        last = self.events[-1].id if self.events else None
        event = NewEvent(
            id=derived_id(self._seed, len(self.events) + 1),
            at=self.at,
            payload=payload,
            causation=last,
        )
        self.events.append(event)
        return event.id

    def conclude(
        self, error: str | None, category: str, at: str | None = None, *, cancelled: bool = False
    ) -> None:
        """Tell the end. With verdicts the trial is scored by the rules that hold for every trial;
        an `error` counts where nothing was graded."""
        verdicts = [
            e.payload for e in self.events if isinstance(e.payload, VerifierScored | VerifierFailed)
        ]
        scored = [v for v in verdicts if isinstance(v, VerifierScored)]
        if cancelled:
            self.tell(TrialFinished(outcome="cancelled"), at)
        elif (failed := first_failed(verdicts)) is not None:
            self.tell(
                TrialUnscored(error=failed.error, category=failed.category, infrastructure=False),
                at,
            )
            self.tell(TrialFinished(outcome="unscored"), at)
        elif scored:
            self.tell(combine(scored), at)
            self.tell(TrialFinished(outcome="scored"), at)
        elif error is not None:
            self.tell(TrialErrored(error=error, category=category), at)
            self.tell(TrialFinished(outcome="errored"), at)
        else:
            why = "the records have no score of this trial"
            self.tell(
                TrialUnscored(error=why, category="imported_unscored", infrastructure=False), at
            )
            self.tell(TrialFinished(outcome="unscored"), at)


def derived_id(seed: str, place: int) -> str:
    """An event's id, which the same records always give."""
    digest = hashlib.sha256(f"{seed}\n{place}".encode()).digest()
    return str(UUID(bytes=digest[:16], version=5))


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; none where it is no list."""
    items = cast("Sequence[Any]", value) if isinstance(value, list) else ()
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]
