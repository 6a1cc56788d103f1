"""A bench for regrades."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from helpers.regrades import Bench
from trialog.events.open import open_log


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """A bench with a log, on which nothing has run yet."""
    (tmp_path / "jobs").mkdir()
    async with open_log(tmp_path / "jobs" / "trialog.db") as log:
        yield Bench(tmp_path, log)
