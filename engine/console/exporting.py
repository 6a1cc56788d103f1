"""Training data of a job, to standard output or a file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import anyio
from anyio import to_thread

from ...events.kinds import TrialScheduled
from ...events.log import EventLog
from ...projections.document import line
from ...projections.trajectory import trajectory_blobs
from ..errors import ConfigError
from ..labels.asof import AsOf, parse_as_of
from ..labels.current import JobTask, job_tasks
from ..labels.rows import Row, rows, valid_gamma
from ..labels.trials import JobTrials, job_trials
from ..labels.trl import TrlRow, trl_row
from ..location import NotFound
from ..regrade.progress import load_progress
from .failure import EXIT_OK
from .rewards import read_ledger, refuse_unknown
from .session import Request, opened
from .text import plural

__all__ = ("export_job",)

Write: TypeAlias = Callable[[bytes], Awaitable[object]]


async def export_job(
    request: Request,
    job: str,
    *,
    form: str,
    out: Path | None,
    as_of: str | None,
    gamma: float,
) -> int:
    """``trialog export``; gives the exit code."""
    moment = parse_as_of(as_of) if as_of else None
    if not valid_gamma(gamma):
        raise ConfigError(f"{gamma} can't discount; give a number above 0, up to 1", key="--gamma")
    masked: Counter[str] = Counter()
    exported = 0
    async with opened(request, job) as session:
        found = await job_trials(session.log, await session.job(job))
        if moment is not None:
            await _known_in(session.log, found, moment)
        tasks = await job_tasks(found.started.tasks, session.log.blobs) if form == "trl" else {}
        async with _output(request, out) as write:
            done = (await load_progress(session.log, found.started.job)).regrades
            # What once stood is the same for ever, whatever is regraded since.
            regrades = [one.id for one in done] if moment is None else []
            for scheduled in found.trials:
                exported += await _export(
                    session.log, scheduled, form, moment, gamma, tasks, regrades, write, masked
                )
    left = ", ".join(f"{count} {reason}" for reason, count in sorted(masked.items()))
    request.terminal.message(
        f"{plural(exported, 'trial')} exported, {masked.total()} of them masked"
        + (f" ({left})" if left else "")
    )
    return EXIT_OK


async def _export(
    log: EventLog, scheduled: TrialScheduled, form: str, moment: AsOf | None, gamma: float,
    tasks: dict[str, JobTask | None], regrades: list[str], write: Write, masked: Counter[str],
) -> bool:  # fmt: skip
    """Export one trial; False where it has not begun."""
    ledger = await read_ledger(log, scheduled.trial, moment)
    if ledger is None:
        return False
    blobs = {ref.blob: await log.blobs.get(ref) for ref in trajectory_blobs(ledger.view)}
    if form == "trl":
        task = tasks.get(scheduled.slot.task)
        instructions = task.data.instructions if task else ""
        row = await to_thread.run_sync(
            partial(
                trl_row, ledger, blobs, instructions=instructions, gamma=gamma, regrades=regrades
            )
        )
        made: list[Row | TrlRow] = [row]
    else:
        made = await to_thread.run_sync(
            lambda: list(rows(ledger, blobs, gamma=gamma, regrades=regrades))
        )
    if (reason := made[-1].mask_reason) is not None:
        masked[reason] += 1
    await write(b"".join(map(line, made)))
    return True


async def _known_in(log: EventLog, found: JobTrials, moment: AsOf) -> None:
    """Raise NotFound where no trial of the job has a label of that version."""
    for scheduled in found.trials:
        ledger = await read_ledger(log, scheduled.trial, None, every=True)
        if ledger is not None:
            try:
                refuse_unknown(moment, ledger)
            except NotFound:
                continue
            return
    raise NotFound(f"no trial of job {found.started.job} has a label of {moment}")


@asynccontextmanager
async def _output(request: Request, out: Path | None) -> AsyncGenerator[Write]:
    """Where an export goes: standard output, or a file that is whole or not there."""
    if out is None:

        async def printed(data: bytes) -> None:
            request.terminal.raw(data.decode())

        yield printed
        return
    target = Path(request.here, out)
    part = target.with_name(f".{target.name}.part")
    try:
        async with await anyio.open_file(part, "wb") as file:
            yield file.write
        await to_thread.run_sync(os.replace, part, target)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(partial(part.unlink, missing_ok=True))
        raise
