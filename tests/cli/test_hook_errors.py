"""Verifiers' own hooks that failed, as they are told."""

from __future__ import annotations

import io
import json
from pathlib import Path

from helpers.desk import VERIFY, run_desk, write_desk
from trialog.engine.console.hook_errors import HookErrors
from trialog.engine.console.rows import read_job
from trialog.engine.console.session import Request, opened
from trialog.engine.console.showing_trial import show_trial
from trialog.engine.console.terminal import Terminal
from trialog.engine.trial.state import HookFailure, fold
from trialog.events.codes import WARNINGS
from trialog.events.kinds import HindsightFailed, StepRewardFailed, TrialEvent
from trialog.events.open import open_log
from trialog.events.values import blob_ref


def failure(step: str, verifier: str = "progress", **more: str) -> TrialEvent:
    """A reward that failed on a step."""
    return StepRewardFailed(
        verifier=verifier, version="1", digest="d", step=step, error="KeyError: 'done'",
        line="verify.py:14", **more,
    )  # fmt: skip


def test_failures_are_counted_by_verifier() -> None:
    """Of each verifier and hook the steps are counted and the first error is kept; labels that
    were applied later don't count."""
    late = HindsightFailed(verifier="late", version="1", digest="d", error=blob_ref(b"long"))

    state = fold([failure("s1"), failure("s2"), late, failure("s3", applied="a")])

    assert (
        HookFailure(
            verifier="progress", hook="reward", steps=2,
            error="KeyError: 'done' (at verify.py:14)",
        ),
        HookFailure(verifier="late", hook="hindsight", error="(4 bytes of text)"),
    ) == state.hook_failures  # fmt: skip


def test_lines_over_many_trials() -> None:
    """One line a verifier and hook: how many steps and trials, then the first error's place."""
    errors = HookErrors()
    for steps in (5, 4, 3):
        errors.take([HookFailure(verifier="progress", hook="reward", steps=steps, error="E1")])
    errors.take([HookFailure(verifier="late", hook="hindsight", error="E2\n")])

    assert [
        "! Verifier progress's reward raised on 12 steps in 3 Trials, which earned it no reward",
        "    there: E1",
        "    next: `trialog explain reward_failed` says what to do",
        "! Verifier late's hindsight raised in 1 Trial, which earned it no credit",
        "    there: E2\\n",
        "    next: `trialog explain hindsight_failed` says what to do",
    ] == list(errors.lines())
    assert [] == list(HookErrors().lines())
    assert {"reward_failed", "hindsight_failed"} <= WARNINGS.keys()


async def test_after_a_run_and_in_show(tmp_path: Path) -> None:
    """A reward that raised is told at the job's end and for the trial, and costs it nothing."""
    verify = VERIFY.replace("return -0.5", "raise KeyError('done')")
    jobs = tmp_path / "jobs"
    ran = await run_desk(write_desk(tmp_path / "desk", verify=verify), jobs)
    async with open_log(jobs / "trialog.db", readonly=True) as log:
        rows = await read_job(log, ran.job)
    (row,) = rows.ended
    printed = io.StringIO()
    terminal = Terminal(environ={"NO_COLOR": "1"}, out=printed)
    async with opened(Request(terminal, tmp_path, {}, str(jobs / "trialog.db"))) as session:
        await show_trial(session, row.trial)

    told = "! Verifier exact's reward raised on 1 step in 1 Trial, which earned it no reward"
    assert told in list(rows.tally.hook_errors.lines())
    shown = printed.getvalue()
    assert f"  {told}\n" in shown
    assert "there: KeyError: 'done' (at verify.py:" in shown
    assert "  rewards by exact: steps 3, hindsight 0.25\n" in shown
    assert row.passed
    result = json.loads((ran.folder / row.trial / "result.json").read_bytes())
    assert [("exact", 1)] == [(one["verifier"], one["steps"]) for one in result["reward_errors"]]
