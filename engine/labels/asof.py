"""Which of a trial's labels stand: those of each verifier's newest version, or as they once stood.

Pure: events in, events and versions out. Labels are what verifiers say of steps, at once or in
hindsight; several versions of one verifier may have labelled a trial, and only one of them counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, get_args

import msgspec

from ...events.codec import decode_or_none
from ...events.envelope import RecordedEvent
from ...events.kinds import (
    HindsightCredited,
    HindsightFailed,
    StepRewarded,
    StepRewardFailed,
    TrialFinished,
    VerifierApplied,
)
from ..errors import ConfigError

Label: TypeAlias = (
    StepRewarded | StepRewardFailed | HindsightCredited | HindsightFailed | VerifierApplied
)
_LABELS = frozenset(kind.__name__ for kind in get_args(Label))


class AsOf(msgspec.Struct, frozen=True):
    """The moment when this version of a verifier was the newest one."""

    verifier: str
    version: str

    def __str__(self) -> str:
        return f"{self.verifier}@{self.version}"


def parse_as_of(text: str) -> AsOf:
    """``NAME@VERSION``. Raises ConfigError."""
    verifier, at, version = text.rpartition("@")
    if not (verifier and at and version):
        raise ConfigError(
            f"{text!r} names no version of a verifier; write NAME@VERSION, such as progress@1.0.0",
            key="--as-of",
        )
    return AsOf(verifier, version)


def labels(events: Sequence[RecordedEvent]) -> list[tuple[RecordedEvent, Label]]:
    """The events by which verifiers label a trial, in order."""
    found: list[tuple[RecordedEvent, Label]] = []
    for event in events:
        if event.kind in _LABELS:
            payload = decode_or_none(event)
            if isinstance(payload, Label):
                found.append((event, payload))
    return found


def as_it_stood(events: Sequence[RecordedEvent], moment: AsOf) -> list[RecordedEvent]:
    """A trial's events up to the last label of that version, and in any case up to its end.

    The place is fixed from the moment that the version has labelled the trial, so what is made of
    these events is the same for ever, whatever is applied later.
    """
    own = events[-1].stream if events else ""
    finished = 0
    for number, event in enumerate(events, 1):
        if event.stream == own and event.kind == TrialFinished.__name__:
            finished = number
    if not finished:
        return list(events)
    last = finished
    for number, event in enumerate(events[finished:], finished + 1):
        if event.kind in _LABELS:
            payload = decode_or_none(event)
            if isinstance(payload, Label) and _is_of(payload, moment):
                last = number
    return list(events[:last])


def _is_of(label: Label, moment: AsOf) -> bool:
    return (label.verifier, label.version) == (moment.verifier, moment.version)


def standing(
    found: Sequence[tuple[RecordedEvent, Label]], moment: AsOf | None = None
) -> dict[str, str]:
    """Each verifier's version whose labels stand: its newest; the named one at that moment."""
    versions = {label.verifier: label.version for _, label in found}
    if moment is not None:
        versions[moment.verifier] = moment.version
    return versions
