"""A job or a trial as the log has it, for a person."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from anyio import to_thread

from ...events.codec import decode_or_none
from ...events.kinds import JobCancelled, JobFinished, JobInterrupted, JobResumed
from ...events.log import EventLog
from ...projections.result import Result, result
from ...projections.trial import TrialView
from ..location import NotFound, job_folder, job_started
from .lines import labels, summary_lines, trial_line, warning_lines
from .rows import read_job, row_of, summary_of, view_of
from .session import Request, Session, opened
from .text import duration, escaped, number, percent, plural, text_of

__all__ = ("list_jobs", "show_thing")

_FILES = (
    "result.json",
    "rewards.jsonl",
    "steps.jsonl",
    "trajectory.json",
    "verifier/test-stdout.txt",
)


async def show_thing(request: Request, thing: str) -> int:
    """``trialog show``: a job if there is one of that name, else a trial."""
    async with opened(request, thing) as session:
        try:
            job = await session.job(thing)
        except NotFound as no_job:
            try:
                trial = await session.trial(thing)
            except NotFound as no_trial:
                raise (no_trial if "fits" in str(no_trial) else no_job) from None
            await _show_trial(session, trial)
        else:
            await _show_job(session, job)
    return 0


async def _show_job(session: Session, job: str) -> None:
    terminal, log = session.terminal, session.log
    started = await job_started(log, job)
    summary = await summary_of(log, job)
    rows = await read_job(log, job)
    folder = job_folder(session.place, started)
    state = await _state(log, job)
    if terminal.json:
        terminal.data(
            {
                "job": job,
                "state": state,
                "folder": str(folder),
                "log": str(session.place.path),
                "started_at": (await log.read(f"job/{job}", limit=1))[0].at,
                "summary": summary,
                "trials": msgspec.to_builtins(rows.ended),
                "open": rows.open,
            }
        )
        return
    config = started.config
    terminal.line(f"Job {escaped(job)}: {state}")
    terminal.line(
        f"  {plural(len(started.tasks), 'task')}; agents: {_listed(config.get('agents'))}; "
        f"models: {_listed(config.get('models'))}; attempts: {config.get('attempts', 1)}; "
        f"sandbox: {escaped(config.get('sandbox'))}"
    )
    for trial in rows.ended:
        terminal.line(trial_line(trial, labels(trial, config)))
    for name in rows.open:
        terminal.line(f"[....] {escaped(name)} (not finished)")
    for line in warning_lines(rows.warnings):
        terminal.line(line)
    shown = session.shown(folder)
    word = state if state in {"cancelled", "interrupted", "running"} else "complete"
    idle = rows.idle_timeouts
    for line in summary_lines(
        summary, rows.not_scored, folder=shown, word=word, idle_timeouts=idle
    ):
        terminal.line(line)
    there = await to_thread.run_sync(folder.is_dir)
    missing = "" if there else f" (not there; `trialog rebuild {job}` writes it)"
    terminal.line(f"Job folder: {escaped(shown)}{missing}")
    terminal.line(f"Log: {escaped(session.shown(session.place.path))}")


def _listed(values: Any) -> str:
    return escaped(", ".join(map(str, values))) if values else "–"


async def _state(log: EventLog, job: str) -> str:
    """How the job's own events leave it; a job whose engine was killed looks like a running one."""
    state = "running"
    cancelled = False
    for event in await log.read(f"job/{job}"):
        match decode_or_none(event):
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
    return "cancelled" if cancelled else state


async def _show_trial(session: Session, trial: str) -> None:
    terminal = session.terminal
    view = await view_of(session.log, trial)
    if view is None:
        raise NotFound(f"trial {trial} has no event yet")
    found = result(view)
    started = await job_started(session.log, view.started.job)
    folder = job_folder(session.place, started) / trial
    if terminal.json:
        document = msgspec.to_builtins(found) if found else {"trial_name": trial, "outcome": None}
        terminal.data({**document, "folder": str(folder)})
        return
    if found is None:
        terminal.line(f"[....] {escaped(view.started.slot.task)} (not finished)")
    else:
        terminal.line(trial_line(row_of(view), labels(row_of(view), started.config)))
    for line in _about(view, found):
        terminal.line(line)
    shown = session.shown(folder)
    files = [name for name in _FILES if await to_thread.run_sync((folder / name).is_file)]
    terminal.line(f"Files: {escaped(shown)}/ ({', '.join(files) or 'none there'})")
    terminal.line(f"Every event: `trialog replay {escaped(trial)}`")


def _about(view: TrialView, found: Result | None) -> Iterator[str]:
    started, slot = view.started, view.started.slot
    yield (
        f"  trial {escaped(started.trial)}, attempt {slot.attempt}, execution "
        f"{started.execution}, of job {escaped(started.job)}"
    )
    model = f", model {escaped(slot.model)}" if slot.model else ""
    given = "".join(f", {escaped(k)}={escaped(v)}" for k, v in slot.parameters.items())
    yield f"  agent {escaped(slot.agent)}{model}{given}"
    if view.sandbox is not None:
        image = f", image {escaped(view.sandbox.image)}" if view.sandbox.image else ""
        digest = f" ({view.sandbox.image_digest})" if view.sandbox.image_digest else ""
        yield f"  sandbox {view.sandbox.backend}{image}{digest}"
    if found is None:
        return
    yield from _verdict(found)
    phases = ("build", "start", "agent", "save", "verifier", "total")
    spent = [(phase, getattr(found.timing, phase)) for phase in phases]
    yield "  time: " + ", ".join(f"{phase} {s:.2f}s" for phase, s in spent if s is not None)
    for warning in found.warnings:
        yield f"  warning ({escaped(warning.code)}): {escaped(text_of(warning.message))}"
    for tamper in found.tamper:
        digest = f" (sha256 {tamper.sha256})" if tamper.sha256 else ""
        yield f"  tamper: {escaped(tamper.path)}: {escaped(tamper.what)}{digest}"


def _verdict(found: Result) -> Iterator[str]:
    if found.outcome == "scored":
        source = {"engine": "given by the engine", "verifier": "from the verifier"}
        said = source.get(found.reward_source or "", "of no source")
        verdict = "passed" if found.passed else "failed"
        yield f"  scored: {verdict}, score {number(found.score)}, {said}"
        others = {k: v for k, v in (found.rewards or {}).items() if k != "reward"}
        if others:
            yield "  scores: " + ", ".join(f"{escaped(k)}={v:g}" for k, v in others.items())
    for error, category in (
        (found.error, found.error_category),
        (found.verifier_error, found.verifier_error_category),
    ):
        if error is not None or category is not None:
            yield f"  error ({category}): {escaped(text_of(error))}"
            yield f"      next: `trialog explain {category}` says what to do"
    for verifier in found.verifiers:
        parts = [f"score {number(verifier.score)}"]
        if verifier.exit_code is not None:
            parts.append(f"exit code {verifier.exit_code}")
        if verifier.duration_sec is not None:
            parts.append(f"{verifier.duration_sec:.2f}s")
        yield f"  verifier {escaped(verifier.name)}: {', '.join(parts)}"
    if found.usage.model_calls:
        cost = "" if found.usage.cost_usd is None else f", {found.usage.cost_usd:.4f} USD"
        yield f"  model calls: {found.usage.model_calls}{cost}"


async def list_jobs(request: Request) -> int:
    """``trialog jobs``: the newest last."""
    async with opened(request) as session:
        names = [name.removeprefix("job/") for name in await session.log.streams("job/")]
        rows = [await _job_row(session, name) for name in names]
    terminal = request.terminal
    for row in rows if terminal.json else ():
        terminal.data(row)
    if not terminal.json and not rows:
        terminal.line("no jobs yet; `trialog run TASK` makes the first")
    elif not terminal.json:
        for line in _table(rows):
            terminal.line(line)
    return 0


async def _job_row(session: Session, job: str) -> dict[str, Any]:
    first = (await session.log.read(f"job/{job}", limit=1))[0]
    started = await job_started(session.log, job)
    summary = await summary_of(session.log, job)
    return {
        "job": job,
        "started_at": first.at,
        "state": await _state(session.log, job),
        "slots": summary["counts"]["slots"],
        "counts": summary["counts"],
        "pass_rate": summary["pass_rate"],
        "mean_reward": summary["mean_reward"],
        "wall_seconds": summary["wall_seconds"],
        "folder": str(Path(session.place.folder, started.folder)),
        "agents": started.config.get("agents"),
        "tasks": len(started.tasks),
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
                row["state"],
                str(row["slots"]),
                f"{counts['passed']}/{rate['n']} ({percent(rate['value'])})",
                number(row["mean_reward"]["value"]),
                "–" if seconds is None else duration(seconds),
                _listed(row["agents"]),
            )
        )
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        yield "  ".join(padded).rstrip()
