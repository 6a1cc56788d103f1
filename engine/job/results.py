"""A job's files while it runs and when it ends, and what its caller gets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from anyio import to_thread

from ...projections.errors import FilesUnwritable
from ...projections.writer import JobFiles
from ..trial.state import Stage
from .plan import Execution
from .report import Notice, Watcher


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a job."""

    job: str
    folder: Path
    summary: dict[str, Any]
    """The content of summary.json; empty when it could not be written, and without the trials that
    can't be read where there are some."""
    interrupted: bool


async def write_missing(
    files: JobFiles, folder: Path, executions: Mapping[str, list[Execution]], watch: Watcher
) -> None:
    """Write the files of executions that are over and lack them: their engine died before it could,
    or with them."""
    over = {
        e.scheduled.trial: "result.json" if e.state.stage is Stage.FINISHED else "trajectory.json"
        for tries in executions.values()
        for e in tries
        if e.state.stage is Stage.FINISHED or e.abandoned
    }
    try:
        for trial in await to_thread.run_sync(_without_last, folder, over):
            await files.write_trial(trial)
    except FilesUnwritable as error:
        watch(Notice(level="error", message=str(error)))


def _without_last(folder: Path, last: Mapping[str, str]) -> list[str]:
    """Trials that lack the file that is written last."""
    return [trial for trial, name in last.items() if not (folder / trial / name).exists()]


async def write_given_up(files: JobFiles, trial: str, watch: Watcher) -> None:
    """Write the files of an execution that was cut off: nothing more comes of it."""
    try:
        report = await files.write_trial(trial)
    except FilesUnwritable as error:
        watch(Notice(level="error", message=str(error)))
        return
    for problem in report.problems:
        watch(Notice(level="error", message=str(problem)))


async def write_summary(files: JobFiles, folder: Path, watch: Watcher) -> dict[str, Any]:
    """Write summary.json; its content. Where executions can't be read, it is not written, and this
    is what the others came to."""
    try:
        report = await files.write_summary()
    except FilesUnwritable as error:
        watch(Notice(level="error", message=str(error)))
        return {}
    for problem in report.problems:
        watch(Notice(level="error", message=str(problem)))
    if report.problems:  # what is there is of an earlier day, if anything is
        return _decoded(await files.readable_summary())
    return _decoded(await to_thread.run_sync((folder / "summary.json").read_bytes))


def _decoded(data: bytes) -> dict[str, Any]:
    return msgspec.json.decode(data, type=dict[str, Any])
