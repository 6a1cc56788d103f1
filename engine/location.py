"""Which log a command means, and which job or trial in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, cast

from anyio import to_thread

from ..events.codec import decode
from ..events.errors import TrialogError
from ..events.kinds import JobStarted
from ..events.log import EventLog
from ..events.values import without_surrogates
from .errors import ConfigError

__all__ = (
    "LOG_NAME",
    "LogPlace",
    "NotFound",
    "find_job",
    "find_log",
    "find_trial",
    "job_folder",
    "job_started",
)

LOG_NAME = "trialog.db"


class NotFound(TrialogError):
    """The log has no such job or trial."""


class LogPlace(NamedTuple):
    """Where the log is, and how that was found, for messages."""

    path: Path
    reason: str
    by: str = "--log"
    """What another log is given by."""

    @property
    def folder(self) -> Path:
        """The folder with the log, its blobs and the jobs' folders."""
        return self.path.parent


def find_log(
    *,
    log: str | None = None,
    jobs_folder: str | None = None,
    thing: str | None = None,
    environ: Mapping[str, str],
    here: Path,
    by: str = "--log",
) -> LogPlace:
    """The log of a command that was given these options in the folder `here`; `log` came `by`.

    `--log`, else `--jobs-dir`, else $TRIALOG_LOG, else the log beside the job or trial when `thing`
    is the path of one, else the nearest ``jobs/trialog.db`` upward, else ``jobs/trialog.db`` here.
    Raises ConfigError for a path that is not UTF-8: no event and no file could name it.
    """
    place = _find(log, jobs_folder, thing, environ, here, by)._replace(by=by)
    raw = without_surrogates(str(place.path))[1]
    if raw is not None:
        raise ConfigError(
            f"the log's path is not UTF-8: {raw.decode(errors='backslashreplace')}; no "
            "event could name what is there, so use a folder with another name",
            key=place.reason,
        )
    return place


def _find(
    log: str | None,
    jobs_folder: str | None,
    thing: str | None,
    environ: Mapping[str, str],
    here: Path,
    by: str,
) -> LogPlace:
    if log and jobs_folder:
        raise ConfigError("give --log or --jobs-dir, not both")
    if log:
        return LogPlace(_file(here, log, by), by)
    if jobs_folder:
        return LogPlace(_file(here, f"{jobs_folder}/{LOG_NAME}", "--jobs-dir"), "--jobs-dir")
    if environ.get("TRIALOG_LOG"):
        return LogPlace(_file(here, environ["TRIALOG_LOG"], "TRIALOG_LOG"), "TRIALOG_LOG")
    if thing and _is_path(thing):
        place = Path(here, thing)
        for folder in (place.parent, place.parent.parent):
            if (folder / LOG_NAME).is_file():
                return LogPlace(folder / LOG_NAME, f"beside {thing}")
    for folder in (here, *here.parents):
        candidate = folder / "jobs" / LOG_NAME
        if candidate.is_file():
            return LogPlace(candidate, "the nearest one upward")
    return LogPlace(here / "jobs" / LOG_NAME, "the default")


def _file(here: Path, text: str, source: str) -> Path:
    if "://" in text:
        scheme = text.split("://", 1)[0]
        raise ConfigError(
            f"a log at {scheme}:// is not supported by this release; give the path of a file",
            key=source,
        )
    path = Path(here, text).expanduser()
    if path.is_dir():
        raise ConfigError(
            f"{text} is a folder; the log is a file, say {path / LOG_NAME}", key=source
        )
    return path


def _is_path(text: str) -> bool:
    return "/" in text or text in {".", ".."}


async def find_job(log: EventLog, place: LogPlace, text: str, here: Path) -> str:
    """The id of the job that `text` names: an id, or the path of a folder that may be gone."""
    text = text.strip()
    for name in _names(text, here):
        if (await log.head(f"job/{name}")).version:
            if _is_path(text):
                await _same_place(log, place, name, Path(here, text))
            return name
    known = [stream.removeprefix("job/") for stream in await log.streams("job/")]
    raise NotFound(await to_thread.run_sync(_missing, "job", text, place, known))


async def _same_place(log: EventLog, place: LogPlace, job: str, given: Path) -> None:
    """Refuse a path that only ends like the job's folder: that of a job in another log, say."""
    folder = job_folder(place, await job_started(log, job))
    if await to_thread.run_sync(_differ, given, folder):
        raise NotFound(
            f"log {place.path} has a job {job}, but its folder is {folder}, not {given}; "
            f"name the job by its id, or give the other log with {place.by}"
        )


def _differ(given: Path, folder: Path) -> bool:
    """Whether the paths are of two places; one that is no place any more is not compared."""
    places = (given, given.parent)  # the folder, or a file in it
    return given.parent.exists() and folder.resolve() not in [one.resolve() for one in places]


async def find_trial(log: EventLog, place: LogPlace, text: str, here: Path) -> str:
    """The name of the trial that `text` names: a name, a prefix that only it has, or a path."""
    text = text.strip()
    names = _names(text, here)
    for name in names:
        if (await log.head(f"trial/{name}")).version:
            return name
    for name in names:
        found = [stream.removeprefix("trial/") for stream in await log.streams(f"trial/{name}")]
        if len(found) == 1:
            return found[0]
        if found:
            shown = ", ".join(found[:5]) + (" …" if len(found) > 5 else "")
            raise NotFound(f"{text!r} fits {len(found)} trials: {shown}; give more of the name")
    known = [stream.removeprefix("trial/") for stream in await log.streams("trial/")]
    raise NotFound(await to_thread.run_sync(_missing, "trial", text, place, known))


def _names(text: str, here: Path) -> list[str]:
    """What a word may name, likeliest first: itself, the folder's name, that of a file's folder."""
    if not text:
        raise ConfigError("an empty name names nothing")
    if not _is_path(text):
        return [text]
    place = Path(os.path.normpath(here / text))
    names = [place.name, place.parent.name] if place.suffix in {".json", ".jsonl"} else [place.name]
    return [name for name in names if name]


def _missing(what: str, text: str, place: LogPlace, known: list[str]) -> str:
    import difflib

    command = "trialog jobs" if what == "job" else "trialog show JOB"
    if not place.path.exists():
        return (
            f"there is no log at {place.path}, so no {what} {text!r}; "
            f"give the log with {place.by}, or run the command where jobs/ is"
        )
    near = difflib.get_close_matches(Path(text).name, known, n=1, cutoff=0.6)
    advice = f"did you mean {near[0]}?" if near else f"`{command}` lists what is there"
    return f"log {place.path} ({place.reason}) has no {what} {text!r}; {advice}"


async def job_started(log: EventLog, job: str) -> JobStarted:
    """The first event of a job."""
    first = await log.read(f"job/{job}", limit=1)
    return cast("JobStarted", decode(first[0]))


def job_folder(place: LogPlace, started: JobStarted) -> Path:
    """Where a job's files are, or would be."""
    return place.folder / started.folder
