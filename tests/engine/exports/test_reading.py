"""What an export reads."""

from __future__ import annotations

from helpers.given import fill, trial
from trialog.engine.exports.reading import each_stream, select_trial, tasks_of
from trialog.events.memory import MemoryLog


async def test_a_reviewers_own_trial_has_no_job() -> None:
    """It can be exported alone, though the log has no such job."""
    log = MemoryLog()
    await fill(log, {"trial/r__00000001": trial(job="r", trial="r__00000001", review="r")})

    found = await select_trial(log, "r__00000001")

    assert ("r__00000001", "r", [], False) == (
        found.name, found.job, found.regrades, found.whole,
    )  # fmt: skip
    assert ["r__00000001"] == [one.trial for one in found.trials]
    assert {} == await tasks_of(log, found.job)
    assert ["trial/r__00000001"] == [stream async for stream in each_stream(log, found)]
