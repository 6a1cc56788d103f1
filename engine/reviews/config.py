"""What a review is told to do."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from .choosing import Selection

Network = Literal["no-internet", "open"]


class ReviewConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A review's configuration."""

    agent: str
    model: str | None = None
    selection: Selection = "all"
    image: str | None = None
    concurrency: int = 4
    open_network: bool = False
    rubric: Path | None = None
    tasks_root: Path | None = None
    timeout_multiplier: float = 1.0
    single: bool = False
    """One trial was named, not a job."""

    @property
    def network(self) -> Network:
        """As the report has it."""
        return "open" if self.open_network else "no-internet"
