"""Training data: a line a step, or a line a trial for TRL. The rows are made in labels/. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ...events.values import BlobRef
from ...projections.document import line
from ...projections.trajectory import trajectory_blobs
from ...projections.trial import TrialView
from ..labels.rows import rows
from ..labels.trl import trl_row
from .form import Form, TrialRead


class Steps(Form):
    """A line a step, and one for the trial."""

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma

    def blobs(self, view: TrialView) -> Iterable[BlobRef]:
        """The episode's texts."""
        return trajectory_blobs(view)

    def trial(self, read: TrialRead) -> bytes:
        """Its lines."""
        made = rows(read.ledger, read.blobs, gamma=self._gamma, regrades=read.regrades)
        return b"".join(map(line, made))


class Trl(Steps):
    """A line a trial, as TRL's trainers read it."""

    def trial(self, read: TrialRead) -> bytes:
        """Its line."""
        row = trl_row(
            read.ledger, read.blobs, instructions=read.instructions, gamma=self._gamma,
            regrades=read.regrades,
        )  # fmt: skip
        return line(row)
