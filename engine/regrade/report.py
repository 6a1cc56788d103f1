"""What those who watch a regrade are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from ...events.kinds import RegradePlanned
from ...events.values import Text
from ...projections.regrades import Graded, Verdict


class RegradeOpened(msgspec.Struct, frozen=True, kw_only=True):
    """A regrade begins, or goes on."""

    planned: RegradePlanned
    resumed: bool = False
    """It was cut off before."""


class TrialRegraded(msgspec.Struct, frozen=True, kw_only=True):
    """A trial has its answer; or, of a plan, would be regraded (`verdict` is null then)."""

    trial: str
    task: str
    original: Graded
    new: Graded = Graded()
    verdict: Verdict | None = None
    reason: str | None = None
    """Why it failed, or is not regradable."""
    category: str | None = None
    notes: list[str] = []
    warnings: list[Text] = []


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is no trial's."""

    message: str


RegradeReport: TypeAlias = RegradeOpened | TrialRegraded | Noted
RegradeWatcher: TypeAlias = Callable[[RegradeReport], None]
