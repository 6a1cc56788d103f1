"""A job's files, written again from the log or compared with it."""

from __future__ import annotations

import shlex
from pathlib import Path

from ...events.errors import LogCorrupt, said
from ...projections.rebuild import Difference, check, rebuild, rebuild_at
from ...projections.rebuild import job_folder as folder_of
from ...projections.writer import Report
from ..errors import ConfigError
from .failure import EXIT_FAILED, EXIT_OK
from .session import Request, Session, opened
from .text import escaped, plural

__all__ = ("rebuild_job",)


async def rebuild_job(
    request: Request, job: str, *, check: bool, at: int | None, out: Path | None
) -> int:
    """``trialog rebuild``; gives the exit code."""
    if (at is None) != (out is None):
        raise ConfigError("--at and --out go together; give both, or neither")
    if check and at is not None:
        raise ConfigError("--check compares the job's own files; leave out --at and --out")
    async with opened(request, job) as session:
        name = await session.job(job)
        if at is not None and out is not None:
            return await _as_of(session, name, at, Path(request.here, out), shown=str(out))
        if check:
            return await _check(session, name)
        shown = session.shown(await folder_of(session.log, name, session.place.folder))
        report = await rebuild(session.log, name, session.place.folder)
        code = _tell(session, name, shown, report)
        if any(isinstance(problem.error, LogCorrupt) for problem in report.problems):
            command = f"trialog rebuild {shlex.quote(escaped(shown))} --check"
            session.terminal.message(
                f"hint: what is there of them stays; `{command}` says what is wrong with the log"
            )
        return code


async def _as_of(session: Session, job: str, position: int, out: Path, *, shown: str) -> int:
    last = await session.log.last_position()
    if position > last:
        raise ConfigError(f"the log ends at position {last}, found {position}", key="--at")
    return _tell(session, job, shown, await rebuild_at(session.log, job, position, out))


def _tell(session: Session, job: str, shown: str, report: Report) -> int:
    terminal = session.terminal
    if terminal.json:
        terminal.data(
            {
                "job": job,
                "folder": shown,
                "written": report.written,
                "unchanged": report.unchanged,
                "problems": [
                    {"path": problem.path, "error": said(problem.error)}
                    for problem in report.problems
                ],
            }
        )
    for problem in report.problems:
        terminal.message(f"error: {escaped(problem)}")
    if not terminal.json:
        terminal.line(
            f"{escaped(shown)}: {plural(report.written, 'file')} written, "
            f"{report.unchanged} as they should be already"
            + (f", {len(report.problems)} not written" if report.problems else "")
        )
    return EXIT_FAILED if report.problems else EXIT_OK


async def _check(session: Session, job: str) -> int:
    terminal = session.terminal
    try:
        shown = session.shown(await folder_of(session.log, job, session.place.folder))
    except LogCorrupt:
        shown = job  # the check says more of it
    differences = await check(session.log, job, session.place.folder)
    wrong = [difference for difference in differences if not difference.harmless]
    for difference in differences:
        if terminal.json:
            terminal.data(difference)
        else:
            terminal.line(escaped(difference))
    if wrong:
        terminal.message(_summed_up(escaped(shown), wrong))
        return EXIT_FAILED
    if terminal.json:
        terminal.message(f"{shown}: every file is as the log has it")
    else:
        terminal.line(f"{escaped(shown)}: every file is as the log has it")
    return EXIT_OK


def _summed_up(shown: str, wrong: list[Difference]) -> str:
    """The error, and what helps: a rebuild does only where log and blobs are sound."""
    files = [difference for difference in wrong if not difference.behind]
    behind = len(wrong) - len(files)
    lines: list[str] = []
    if behind:
        places = plural(
            behind, "place in the log or its blobs is", "places in the log or its blobs are"
        )
        lines.append(f"error: {shown}: {places} not as written")
    if files:
        lines.append(
            f"error: {shown}: {plural(len(files), 'file is', 'files are')} not as the log has them"
        )
    if behind:
        lines.append(
            "hint: nothing can make these again; put the log and its blobs back from a copy"
        )
    elif any(difference.what != "blocked" for difference in files):
        lines.append(f"hint: `trialog rebuild {shlex.quote(shown)}` writes them again")
    return "\n".join(lines)
