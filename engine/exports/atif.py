"""Trajectories: each trial's trajectory.json (ATIF 1.7) on a line of its own. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ...events.values import BlobRef
from ...projections.trajectory import trajectory, trajectory_blobs
from ...projections.trial import TrialView
from .form import Form, TrialRead


class Trajectories(Form):
    """A line a trial; of a single trial the whole is one document."""

    def blobs(self, view: TrialView) -> Iterable[BlobRef]:
        """The episode's texts."""
        return trajectory_blobs(view)

    def trial(self, read: TrialRead) -> bytes:
        """Its document, without line breaks."""
        return msgspec.json.format(trajectory(read.ledger.view, read.blobs), indent=-1) + b"\n"
