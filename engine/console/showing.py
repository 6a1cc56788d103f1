"""A job as the log has it, for a person, and all jobs of a log."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from anyio import to_thread

from ...events.codec import decode_known
from ...events.errors import LogCorrupt
from ...events.kinds import JobCancelled, JobFinished, JobInterrupted, JobResumed, JobStarted
from ...events.kinds.job import ImportedJob
from ...events.pages import each_event
from ...events.values import unescape
from ..job.lock import is_owned
from ..location import job_folder, job_started
from ..regrade.progress import all_regrades
from .failure import EXIT_FAILED, EXIT_OK
from .kept import kept_trials
from .lines import REASON_WIDTH, labels, summary_lines, trial_line, warning_lines
from .regrade_lines import counts_line
from .rows import JobRows, cancel_reason, read_job, summaries_of, summary_of
from .session import Request, Session, opened
from .showing_trial import show_trial
from .table import aligned, figure_lines
from .tally import kept_lines
from .text import duration, escaped, number, percent, plural, telling
from .unreadable import tell_unreadable

__all__ = ("list_jobs", "show_thing")


async def show_thing(request: Request, thing: str) -> int:
    """``trialog show``: a job if there is one of that name, else a trial."""
    async with opened(request, thing) as session:
        name, is_job = await session.job_or_trial(thing)
        if is_job:
            return await _show_job(session, name)
        await show_trial(session, name)
    return EXIT_OK


async def _show_job(session: Session, job: str) -> int:
    """Gives the exit code: not 0 where a trial can't be read."""
    terminal, log = session.terminal, session.log
    started = await job_started(log, job)
    summary, regraded = await summaries_of(log, job)
    rows = await read_job(log, job, kept=await kept_trials(session.place.folder))
    folder = job_folder(session.place, started)
    state = await _state(session, job)
    cut_off = (await all_regrades(log, job)).unfinished
    if terminal.json:
        terminal.data(
            {
                "job": job,
                "state": state,
                "folder": str(folder),
                "log": str(session.place.path),
                "started_at": (await log.read(f"job/{job}", limit=1))[0].at,
                "summary": summary,
                "regrade": regraded,
                "unfinished_regrade": cut_off.id if cut_off else None,
                "trials": msgspec.to_builtins(rows.ended),
                "open": [trial.trial for trial in rows.open],
                "superseded": rows.superseded,
                "unreadable": msgspec.to_builtins(rows.unreadable),
            }
        )
        return tell_unreadable(session, rows, str(folder))
    config, shown = unescape(started.config), session.shown(folder)
    for line in _head(job, started, state, shown, await cancel_reason(log, job)):
        terminal.line(line)
    for line in _trials(rows, config):
        terminal.line(line)
    for line in warning_lines(rows.tally.warnings):
        terminal.line(line)
    word = "complete" if state == "finished" else state
    for line in summary_lines(summary, rows.tally, folder=shown, word=word):
        terminal.line(line)
    for line in (*figure_lines(rows.tally.groups, config), *kept_lines(rows.tally)):
        terminal.line(line)
    if regraded is not None:
        terminal.line(f"Regrade {escaped(regraded.regrade_id)}: {counts_line(regraded)}")
    if cut_off is not None:
        terminal.line(f"Regrade {escaped(cut_off.id)}: {await _how(session, job, state, shown)}")
    there = await to_thread.run_sync(folder.is_dir)
    missing = (
        "" if there else f" (not there; `trialog rebuild {shlex.quote(escaped(shown))}` writes it)"
    )
    terminal.line(f"Job folder: {escaped(shown)}{missing}")
    terminal.line(f"Log: {escaped(session.shown(session.place.path))}")
    return tell_unreadable(session, rows, shown)


async def _how(session: Session, job: str, state: str, folder: str) -> str:
    """How a regrade stands that has not finished. A process that resumes the job is none's."""
    if state not in ("running", "stopping") and await is_owned(session.place.folder, job):
        return "running"
    return f"cut off; `trialog regrade {shlex.quote(escaped(folder))} --resume` goes on"


def _listed(values: Any) -> str:
    return escaped(", ".join(map(str, values))) if values else "–"


def _head(
    job: str, started: JobStarted, state: str, folder: str, reason: str | None
) -> Iterator[str]:
    told = state
    if state in ("stopped", "interrupted"):
        again = "import" if started.imported else "resume"
        told = f"{state}: `trialog {again} {shlex.quote(_again(started, folder))}` goes on"
    elif state == "cancelled" and reason is not None:
        told = reason
    yield f"Job {escaped(job)}: {escaped(told)}"
    config = started.config
    if (of := started.imported) is not None:
        yield from _imported(of)
        return
    yield (
        f"  {plural(len(started.tasks), 'task')}; agents: {_listed(config.get('agents'))}; "
        f"models: {_listed(config.get('models'))}; attempts: {config.get('attempts', 1)}; "
        f"sandbox: {escaped(config.get('sandbox'))}"
    )
    if started.replays is not None:
        yield f"  models answered by the record of job {escaped(started.replays)}"


def _again(started: JobStarted, folder: str) -> str:
    return started.imported.path if started.imported else folder


def _imported(of: ImportedJob) -> Iterator[str]:
    version = f" {escaped(of.version)}" if of.version else ""
    yield (
        f"  imported from {of.system}{version}: {escaped(of.name)}, read at {of.at} from "
        f"{escaped(of.path)}; trialog ran none of it"
    )
    for one in of.skipped:
        yield f"  left out {escaped(one.path)}: {escaped(one.reason)}"


def _trials(rows: JobRows, config: Mapping[str, Any]) -> Iterator[str]:
    """A line for each trial that counts, then those that have not finished."""
    for trial in rows.ended:
        yield f"{trial_line(trial, labels(trial, config))} {escaped(trial.trial)}"
    for one in rows.open:
        why = "waits for people" if one.waits else "not finished"
        several = labels(one, config)
        named = f"{several} {one.trial}" if several else one.trial
        yield f"[{'WAIT' if one.waits else '....'}] {escaped(one.task)} ({why}) {escaped(named)}"
    for lost in rows.unreadable:
        named = " ".join(filter(None, (labels(lost, config), escaped(lost.trial))))
        why = telling(lost.error, REASON_WIDTH)
        yield f"[????] {escaped(lost.task)} (can't be read: {why}) {named}"
    if rows.superseded:
        yield f"{plural(len(rows.superseded), 'earlier execution')} superseded or given up"


async def _state(session: Session, job: str) -> str:
    """`running` or `stopping` while a process owns the job; else how its events leave it.

    `stopped` is a job whose engine was killed, `interrupted` one whose engine was told to stop.
    """
    state = "running"
    cancelled = False
    async for event in each_event(session.log, f"job/{job}"):
        match decode_known(event):
            case JobResumed():
                state, cancelled = "running", False
            case JobInterrupted():
                state = "interrupted"
            case JobCancelled():
                cancelled = True
            case JobFinished():
                state = "finished"
            case _:
                pass
    if cancelled:
        return "cancelled"
    if state == "finished":
        return state
    if await is_owned(session.place.folder, job):
        return "running" if state == "running" else "stopping"
    return "stopped" if state == "running" else state


async def list_jobs(request: Request) -> int:
    """``trialog jobs``: the newest last."""
    async with opened(request) as session:
        names = [name.removeprefix("job/") for name in await session.log.streams("job/")]
        rows = [row for name in names if (row := await _job_row(session, name)) is not None]
    terminal = request.terminal
    for row in rows if terminal.json else ():
        terminal.data(row)
    if not terminal.json and not names:
        terminal.line("no jobs yet; `trialog run TASK` makes the first")
    elif not terminal.json and rows:
        for line in _table(rows):
            terminal.line(line)
    return EXIT_OK if len(rows) == len(names) else EXIT_FAILED


async def _job_row(session: Session, job: str) -> dict[str, Any] | None:
    """A job's row; null, and a message, where the log has what it can't be made of."""
    first = (await session.log.read(f"job/{job}", limit=1))[0]
    try:
        started = await job_started(session.log, job)
        summary = await summary_of(session.log, job)
    except LogCorrupt as corrupt:
        session.terminal.message(f"error: job {escaped(job)}: {escaped(corrupt)}")
        return None
    return {
        "job": job,
        "started_at": first.at,
        "state": await _state(session, job),
        "slots": summary["counts"]["slots"],
        "counts": summary["counts"],
        "pass_rate": summary["pass_rate"],
        "mean_reward": summary["mean_reward"],
        "wall_seconds": summary["wall_seconds"],
        "folder": str(Path(session.place.folder, started.folder)),
        "agents": started.config.get("agents"),
        "tasks": len(started.tasks),
        "imported": started.imported.system if started.imported else None,
    }


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    table = [("JOB", "STARTED (UTC)", "STATE", "TRIALS", "PASSED", "REWARD", "TIME", "AGENTS")]
    for row in rows:
        counts, rate = row["counts"], row["pass_rate"]
        seconds = row["wall_seconds"]
        table.append(
            (
                escaped(row["job"]),
                row["started_at"][:16].replace("T", " "),
                f"from {row['imported']}" if row["imported"] else row["state"],
                str(row["slots"]),
                f"{counts['passed']}/{rate['n']} ({percent(rate['value'])})",
                number(row["mean_reward"]["value"]),
                "–" if seconds is None else duration(seconds),
                _listed(row["agents"]),
            )
        )
    return aligned(table)
