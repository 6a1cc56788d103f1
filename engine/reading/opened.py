"""``trialog.open``: a log's trials from Python, read only, one at a time."""

# Neither pandas nor pyarrow brings types of its own.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false

from __future__ import annotations

import os
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from anyio import to_thread
from anyio.from_thread import start_blocking_portal

from ...events.errors import LogError, said
from ...events.log import EventLog
from ...events.open import open_log
from ..errors import ConfigError
from ..exports.reading import UNREADABLE, Selection, read_one, select_job, select_trial
from ..labels.rows import valid_gamma
from ..location import LOG_NAME, LogPlace, NotFound, find_job, find_log, find_trial
from .structs import Trial
from .tables import TABLES, TableName, arrow, arrow_table, frame, rows_of
from .trials import trial_blobs, trial_of

if TYPE_CHECKING:
    import pandas
    import pyarrow

Found = TypeVar("Found")


def open(log: str | Path | None = None) -> Log:
    """The log in the file `log`, or the one in the folder of jobs `log`, to read trials from.

    Without `log` it is $TRIALOG_LOG, else the nearest ``jobs/trialog.db`` upward, as on the command
    line. It is only read, also while a job runs, and there is nothing to close. Raises NotFound
    where there is no log.

    >>> import trialog
    >>> log = trialog.open("jobs")
    >>> for trial in log.trials():
    ...     print(trial.task, trial.reward, [step.reward for step in trial.steps])
    count 1.0 [1.0, -0.5, 1.0, 1.0]
    count 1.0 [1.0, -0.5, 1.0, 1.0]
    """
    here = Path.cwd()
    text = None if log is None else os.fspath(log)
    if text is not None and Path(here, text).is_dir():
        text = str(Path(text, LOG_NAME))
    place = find_log(log=text, environ=os.environ, here=here, by="trialog.open")
    if not place.path.is_file():
        raise NotFound(f"there is no log at {place.path} ({place.reason})")
    return Log(place, here)


class Log:
    """A log to read from."""

    def __init__(self, place: LogPlace, here: Path) -> None:
        self._place = place
        self._here = here

    @property
    def path(self) -> Path:
        """The log's file."""
        return self._place.path

    def __repr__(self) -> str:
        return f"trialog.open({str(self.path)!r})"

    def jobs(self) -> list[str]:
        """The names of all jobs, the oldest first.

        >>> import trialog
        >>> len(trialog.open("jobs").jobs())
        1
        """
        return _at_once(self._place, _jobs_of)

    def trials(
        self, job: str | None = None, *, gamma: float = 1.0, skip_unreadable: bool = False
    ) -> Trials:
        """The trials of `job`, or of all jobs: of each slot the execution that counts.

        `gamma` (above 0, up to 1) discounts `Step.to_go`. A trial that can't be read raises its
        LogError where its turn comes; with `skip_unreadable` it is a warning.
        """
        if not valid_gamma(gamma):
            raise ConfigError(f"gamma {gamma} can't discount; give a number above 0, up to 1")
        return Trials(self._place, self._here, job, None, gamma, skip_unreadable)

    def trial(self, name: str, *, gamma: float = 1.0) -> Trial:
        """One trial, by its name or the beginning of it. Raises NotFound.

        >>> import trialog
        >>> log = trialog.open("jobs")
        >>> first = next(iter(log.trials()))
        >>> log.trial(first.name).verdicts[0].verifier
        'exact'
        """
        for found in Trials(self._place, self._here, None, name, gamma, False):
            return found
        raise NotFound(f"trial {name} has no event yet")


class Trials:
    """A log's trials, read while they are asked for: with ``for``, in an event loop with ``async
    for``, or all together as tables. Each time the log is read anew."""

    def __init__(
        self,
        place: LogPlace,
        here: Path,
        job: str | None,
        trial: str | None,
        gamma: float,
        skip: bool,
    ) -> None:
        self._place = place
        self._here = here
        self._job = job
        self._trial = trial
        self._gamma = gamma
        self._skip = skip

    def __iter__(self) -> Iterator[Trial]:
        """One trial after the other; no more than one is in memory."""
        # Opened anew for each, so that an iteration which nobody ends keeps nothing open.
        for selection, trial in _at_once(self._place, self._chosen):
            found = _at_once(self._place, partial(self._read, selection=selection, trial=trial))
            if found is not None:
                yield found

    async def __aiter__(self) -> AsyncIterator[Trial]:
        """The same in an event loop."""
        async with open_log(self._place.path, readonly=True) as log:
            for selection, trial in await self._chosen(log):
                found = await self._read(log, selection, trial)
                if found is not None:
                    yield found

    def table(self, name: TableName = "trials") -> pyarrow.Table:
        """All `trials`, their `steps`, `rewards` or `verdicts`, as a table of pyarrow's.

        Raises ConfigError where pyarrow is not installed.

        >>> import trialog
        >>> trialog.open("jobs").trials().table("steps").num_rows
        8
        """
        arrow()  # before anything is read
        return arrow_table(_known(name), (row for one in self for row in rows_of(name, one)))

    def frame(self, name: TableName = "trials") -> pandas.DataFrame:
        """The same as a data frame of pandas'. Raises ConfigError where it is not installed.

        >>> import trialog
        >>> trials = trialog.open("jobs").trials().frame()
        >>> float(trials.groupby("task")["reward"].mean()["count"])
        1.0
        """
        return frame(_known(name), (row for one in self for row in rows_of(name, one)))

    async def _chosen(self, log: EventLog) -> list[tuple[Selection, str]]:
        """Which trials are read; those that begin later are not among them."""
        here = self._here
        if self._trial is not None:
            name = await find_trial(log, self._place, self._trial, here)
            selections = [await select_trial(log, name)]
        elif self._job is not None:
            selections = [await select_job(log, await find_job(log, self._place, self._job, here))]
        else:
            selections = [await select_job(log, job) for job in await _jobs_of(log)]
        return [(found, one.trial) for found in selections for one in found.trials]

    async def _read(self, log: EventLog, selection: Selection, trial: str) -> Trial | None:
        try:
            read = await read_one(log, trial, blobs=trial_blobs, regrades=selection.regrades)
            if read is None:
                return None
            return await to_thread.run_sync(partial(trial_of, read, gamma=self._gamma))
        except UNREADABLE as error:
            if not self._skip:
                error.add_note(f"trial {trial} can't be read")
                raise
            self._warn(trial, error)
            return None

    def _warn(self, trial: str, error: LogError) -> None:
        warnings.warn(f"trial {trial} is left out: {said(error)}", stacklevel=2)


def _at_once(place: LogPlace, read: Callable[[EventLog], Awaitable[Found]]) -> Found:
    """What `read` finds, for callers that can't wait.

    It is read in a thread with a loop of its own: in a notebook one runs in this thread already.
    """

    async def opened() -> Found:
        async with open_log(place.path, readonly=True) as log:
            return await read(log)

    with start_blocking_portal() as portal:
        return portal.call(opened)


async def _jobs_of(log: EventLog) -> list[str]:
    return [stream.removeprefix("job/") for stream in await log.streams("job/")]


def _known(name: TableName) -> TableName:
    if name not in TABLES:
        raise ConfigError(f"there is no table {name!r}; there are {', '.join(TABLES)}")
    return name
