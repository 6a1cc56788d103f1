"""A job's trials in forms for other programs, to standard output, a file or a folder."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from anyio import to_thread

from ...events.errors import said
from ..errors import ConfigError
from ..exports.atif import Trajectories
from ..exports.form import Form
from ..exports.junit import TestReport
from ..exports.otel.traces import Traces
from ..exports.reading import UNREADABLE, Selection, select_job, select_trial
from ..exports.training import Steps, Trl
from ..exports.writing import Written, write_events, write_trials
from ..labels.asof import AsOf, parse_as_of
from ..labels.rows import valid_gamma
from ..location import NotFound
from .destination import to_folder, to_stream
from .failure import EXIT_FAILED, EXIT_OK
from .rewards import read_ledger, refuse_unknown
from .session import Request, Session, opened
from .terminal import Terminal
from .text import escaped, plural

__all__ = ("export_thing",)

_OF_REWARDS = ("jsonl", "trl", "parquet")
"""Forms that labels and discounts have to do with."""


async def export_thing(
    request: Request,
    thing: str,
    *,
    form: str,
    out: Path | None,
    as_of: str | None,
    gamma: float,
) -> int:
    """``trialog export``: a job if there is one of that name, else a trial; gives the exit code."""
    moment = parse_as_of(as_of) if as_of else None
    if not valid_gamma(gamma):
        raise ConfigError(f"{gamma} can't discount; give a number above 0, up to 1", key="--gamma")
    if form not in _OF_REWARDS:
        given = {"--as-of": moment is not None, "--gamma": gamma != 1.0}
        for key in (key for key, is_given in given.items() if is_given):
            forms = ", ".join(_OF_REWARDS)
            raise ConfigError(f"--format {form} has no use for it; {forms} have", key=key)

    def tell(what: str, error: Exception) -> None:
        request.terminal.message(f"error: {escaped(what)}: {escaped(said(error))}")

    async with opened(request, thing) as session:
        selection = await _select(session, thing)
        if moment is not None:
            await _known_in(session, selection, moment)
        log = session.log
        if form == "parquet":
            async with _tables(request, out, gamma) as tables:
                written = await write_trials(log, selection, tables, _nowhere, tell, moment)
        else:
            async with to_stream(request, out) as write:
                if form == "events":
                    written = await write_events(log, selection, write, tell)
                else:
                    made = _form(form, selection, gamma)
                    written = await write_trials(log, selection, made, write, tell, moment)
    what = "event" if form == "events" else "trial"
    return _conclude(request.terminal, written, what, masks=form in _OF_REWARDS)


def _form(form: str, selection: Selection, gamma: float) -> Form:
    match form:
        case "jsonl":
            return Steps(gamma)
        case "trl":
            return Trl(gamma)
        case "atif":
            return Trajectories()
        case "otel":
            return Traces()
        case _:
            return TestReport(selection.name)


@asynccontextmanager
async def _tables(request: Request, out: Path | None, gamma: float) -> AsyncGenerator[Form]:
    """A folder's tables, which are there when all of them are whole."""
    from ..reading.parquet import ParquetFiles

    if out is None:
        raise ConfigError(
            "--format parquet writes several files; give a folder for them", key="--out"
        )
    async with to_folder(request, out) as folder:
        with await to_thread.run_sync(ParquetFiles, folder, gamma) as tables:
            yield tables


async def _nowhere(data: bytes) -> None:
    """Tables go into files of their own."""


async def _select(session: Session, thing: str) -> Selection:
    name, is_job = await session.job_or_trial(thing)
    return await (select_job if is_job else select_trial)(session.log, name)


def _conclude(terminal: Terminal, written: Written, what: str, *, masks: bool) -> int:
    told = f"{plural(written.count, what)} exported"
    if masks:
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(written.masked.items()))
        told += f", {written.masked.total()} of them masked" + (f" ({why})" if why else "")
    if written.left_out:
        told += f"; {written.left_out} left out"
    if written.altered:
        told += f"; {plural(written.altered, 'stream')} altered"
    terminal.message(told)
    return EXIT_FAILED if written.left_out or written.altered else EXIT_OK


async def _known_in(session: Session, selection: Selection, moment: AsOf) -> None:
    """Raise NotFound where no trial has a label of that version."""
    for scheduled in selection.trials:
        try:
            ledger = await read_ledger(session.log, scheduled.trial, None, every=True)
            if ledger is not None:
                refuse_unknown(moment, ledger)
                return
        except (NotFound, *UNREADABLE):
            continue
    what = "job" if selection.whole else "trial"
    raise NotFound(f"no trial of {what} {selection.name} has a label of {moment}")
