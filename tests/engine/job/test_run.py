"""Jobs from start to end, over a log in memory and sandboxes that do as they are told."""

from __future__ import annotations

import json
from pathlib import Path

from helpers.fakes import FakeBackend
from helpers.jobs import Watched, services, tasks
from trialog.engine.job.api import run_job
from trialog.engine.job.config import JobConfig
from trialog.engine.job.report import TrialEnded
from trialog.events.open import memory_log

CONFIG = JobConfig(tasks=["tasks"], agents=["oracle"])


async def test_job_scores_every_slot(tmp_path: Path) -> None:
    """Every slot of the matrix is run once and scored, and its files are there."""
    backend, watched = FakeBackend(), Watched()
    async with memory_log() as log:
        result = await run_job(
            services(log, backend, tmp_path / "jobs"),
            JobConfig(tasks=["t"], agents=["oracle", "nop"], attempts=2),
            await tasks(tmp_path / "t", 2),
            watched,
        )
    ended = watched.of(TrialEnded)
    assert len(ended) == 8
    assert all(report.outcome == "scored" and report.passed for report in ended)
    assert result.summary["counts"]["scored"] == 8
    folders = [f for f in result.folder.iterdir() if f.is_dir()]
    assert len(folders) == 8
    for folder in folders:
        assert json.loads((folder / "result.json").read_bytes())["passed"] is True
        assert (folder / "verifier" / "test-stdout.txt").read_bytes() == b"PASS\n"
    assert backend.alive == set()
