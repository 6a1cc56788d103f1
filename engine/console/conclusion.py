"""How a job that has just run is told, and the exit code that it gives."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from ..job.api import JobResult
from ..job.config import MOVED
from .failure import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from .kept import kept_trials
from .lines import summary_lines, warning_lines
from .rows import read_job
from .session import Session
from .table import figure_lines
from .tally import kept_lines
from .text import escaped, percent, plural
from .unreadable import tell_unreadable
from .watch import JobWatch

__all__ = ("conclude", "exit_code_of")


def exit_code_of(
    summary: Mapping[str, Any], *, interrupted: bool, fail_under: float | None = None
) -> int:
    """0 when every trial is scored or waits for people, and the pass rate is high enough."""
    if interrupted:
        return EXIT_INTERRUPTED
    counts = summary["counts"]
    if counts["scored"] + counts["awaiting_review"] < counts["slots"]:
        return EXIT_FAILED
    return EXIT_FAILED if _under(summary, fail_under) else EXIT_OK


def _under(summary: Mapping[str, Any], fail_under: float | None) -> bool:
    rate: float | None = summary["pass_rate"]["value"]
    return fail_under is not None and (rate is None or rate < fail_under)


def _not_said(watch: JobWatch) -> dict[str, list[str]]:
    """Warnings of trials but for those of their tasks that are told elsewhere."""
    return {
        message: tasks
        for message, tasks in watch.tally.warnings.items()
        if message != MOVED and not all(f"task {task}: {message}" in watch.said for task in tasks)
    }


async def conclude(
    session: Session,
    result: JobResult,
    watch: JobWatch,
    *,
    resumed: bool = False,
    fail_under: float | None = None,
) -> int:
    """Print the job's end; gives the exit code."""
    terminal, summary = session.terminal, result.summary
    tally, rows = watch.tally, None
    if resumed:  # trials of earlier runs count too
        kept = await kept_trials(session.place.folder)
        rows = await read_job(session.log, result.job, kept=kept)
        tally = rows.tally
    folder = session.shown(result.folder)
    for line in warning_lines(_not_said(watch)):
        terminal.message(line)
    word = "interrupted" if result.interrupted else "complete"
    if summary["counts"]["cancelled"] and not result.interrupted:
        word = "cancelled"
    if terminal.json:
        terminal.data({"report": "summary", "job": result.job, "summary": summary})
    for line in summary_lines(summary, tally, folder=folder, word=word):
        terminal.line(line)
    for line in (*figure_lines(tally.groups, watch.config), *kept_lines(tally)):
        terminal.line(line)
    terminal.line(f"Job folder: {escaped(folder)}")
    if waiting := summary["counts"]["awaiting_review"]:
        terminal.line(f"{plural(waiting, 'trial waits', 'trials wait')} for people to score them")
    if result.interrupted:
        terminal.line(f"      next: `trialog resume {shlex.quote(folder)}` goes on")
    code = exit_code_of(summary, interrupted=result.interrupted, fail_under=fail_under)
    if fail_under is not None and _under(summary, fail_under):
        rate = percent(summary["pass_rate"]["value"])
        terminal.message(f"error: the pass rate {rate} is under {percent(fail_under)}")
    if rows is not None:
        code = max(code, tell_unreadable(session, rows, folder))
    return code
