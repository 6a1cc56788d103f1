"""Which log, which job, which trial."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from trialog.engine.errors import ConfigError
from trialog.engine.location import LogPlace, NotFound, find_job, find_log, find_trial
from trialog.events.envelope import NewEvent
from trialog.events.kinds import JobStarted, TrialStarted
from trialog.events.kinds.parts import Slot
from trialog.events.log import EventLog
from trialog.events.open import memory_log


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with jobs/trialog.db, another log in out/, and a folder deep within."""
    project = tmp_path / "a project ö"
    for folder in ("jobs", "out/2026-01-01__00-00-00/t__1", "deep/er", "empty"):
        (project / folder).mkdir(parents=True)
    for log in ("jobs/trialog.db", "out/trialog.db"):
        (project / log).touch()
    return project


def found(project: Path, here: str = ".", **given: Any) -> str:
    """The log's path below the project."""
    environ = given.pop("environ", {})
    place = find_log(environ=environ, here=(project / here).resolve(), **given)
    return str(place.path.relative_to(project))


def test_order_of_logs(project: Path) -> None:
    """--log, else --jobs-dir, else $TRIALOG_LOG, else the nearest upward, else jobs/ here."""
    environ = {"TRIALOG_LOG": "env.db"}
    assert found(project, log="x.db", environ=environ) == "x.db"
    assert found(project, jobs_folder="out", environ=environ) == "out/trialog.db"
    assert found(project, environ=environ) == "env.db"
    assert found(project, environ={"TRIALOG_LOG": ""}) == "jobs/trialog.db"
    assert found(project, "deep/er") == "jobs/trialog.db"
    (project / "jobs/trialog.db").unlink()
    assert found(project, "deep") == "deep/jobs/trialog.db"


@pytest.mark.parametrize(
    "thing",
    [
        "out/2026-01-01__00-00-00",
        "out/2026-01-01__00-00-00/",
        "out/2026-01-01__00-00-00/t__1",
        "out/gone",
    ],
)
def test_the_log_beside_what_is_named(project: Path, thing: str) -> None:
    """A job or trial named by its path is looked for in the log beside it, if there is one."""
    assert found(project, thing=thing) == "out/trialog.db"
    assert found(project, thing="2026-01-01__00-00-00") == "jobs/trialog.db"
    assert found(project, thing="elsewhere/2026-01-01__00-00-00") == "jobs/trialog.db"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"log": "a", "jobs_folder": "b"}, "not both"),
        ({"log": "out"}, "--log: out is a folder; the log is a file"),
        ({"log": "postgresql://u:secret@h/db"}, "a log at postgresql:// is not supported"),
    ],
)
def test_logs_that_are_none(project: Path, given: dict[str, str], message: str) -> None:
    """A log that can't be meant is refused, and a password in an address is not repeated."""
    with pytest.raises(ConfigError) as caught:
        found(project, **given)
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.fixture
async def log() -> AsyncIterator[EventLog]:
    """A log with one job and three trials."""
    async with memory_log() as log:
        job = JobStarted(
            job="2026-01-01__00-00-00", folder="2026-01-01__00-00-00", config={}, versions={},
            tasks=[], slots=3, pid=1, host="h",
        )  # fmt: skip
        await append(log, "job/2026-01-01__00-00-00", job)
        for trial in ("alpha__11111111", "alpha__12222222", "beta__33333333"):
            started = TrialStarted(
                job=job.job, trial=trial, slot=Slot(task="t", agent="nop", attempt=1),
                execution=1, task_digest="sha256:0",
            )  # fmt: skip
            await append(log, f"trial/{trial}", started)
        yield log


async def append(log: EventLog, stream: str, payload: Any) -> None:
    """Append one event to an empty stream."""
    at = "2026-01-01T00:00:00.000000Z"
    await log.append(stream, 0, [NewEvent(id=f"id of {stream}", at=at, payload=payload)])


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01__00-00-00",
        "jobs/2026-01-01__00-00-00",
        "./jobs/2026-01-01__00-00-00/",
        "deep/../jobs/2026-01-01__00-00-00",
        "jobs/2026-01-01__00-00-00/summary.json",
        "not/there/2026-01-01__00-00-00",
    ],
)
async def test_a_job_by_id_or_path(project: Path, log: EventLog, text: str) -> None:
    """A job is found by its id and by its folder's path, whether the folder exists or not."""
    place = LogPlace(project / "jobs/trialog.db", "test")
    assert await find_job(log, place, text, project) == "2026-01-01__00-00-00"


async def test_another_logs_folder_is_not_taken(project: Path, log: EventLog) -> None:
    """A folder of the same name in another place is not this log's job."""
    place = LogPlace(project / "jobs/trialog.db", "test")
    with pytest.raises(NotFound, match="name the job by its id"):
        await find_job(log, place, "out/2026-01-01__00-00-00", project)


@pytest.mark.parametrize(
    ("text", "trial"),
    [
        ("beta__33333333", "beta__33333333"),
        ("b", "beta__33333333"),
        ("alpha__12", "alpha__12222222"),
        ("jobs/2026-01-01__00-00-00/beta__33333333", "beta__33333333"),
        ("jobs/2026-01-01__00-00-00/beta__33333333/", "beta__33333333"),
        ("jobs/2026-01-01__00-00-00/beta__33333333/result.json", "beta__33333333"),
    ],
)
async def test_a_trial_by_name_prefix_or_path(
    project: Path, log: EventLog, text: str, trial: str
) -> None:
    """A trial is found by its name, by a beginning that only it has, and by its folder's path."""
    place = LogPlace(project / "jobs/trialog.db", "test")
    assert await find_trial(log, place, text, project) == trial


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("alpha", "'alpha' fits 2 trials: alpha__11111111, alpha__12222222; give more"),
        ("betta__33333333", "did you mean beta__33333333?"),
        ("zzz", "`trialog show JOB` lists what is there"),
    ],
)
async def test_no_such_trial(project: Path, log: EventLog, text: str, message: str) -> None:
    """A name that fits none or several says so, with the nearest."""
    place = LogPlace(project / "jobs/trialog.db", "test")
    with pytest.raises(NotFound) as caught:
        await find_trial(log, place, text, project)
    assert message in str(caught.value)


@pytest.mark.parametrize("how", ["log", "jobs_folder", "TRIALOG_LOG", "here"])
def test_a_place_that_is_not_utf8(tmp_path: Path, how: str) -> None:
    """A path that no event could name is refused, whoever gave it, in words that can be shown."""
    odd = tmp_path / "jo\udcffbs"
    given = {
        "log": {"log": f"{odd}/a.db"},
        "jobs_folder": {"jobs_folder": str(odd)},
        "TRIALOG_LOG": {"environ": {"TRIALOG_LOG": f"{odd}/a.db"}},
        "here": {"here": odd},
    }[how]
    with pytest.raises(ConfigError, match=r"not UTF-8: .*/jo\\xffbs/.*another name") as caught:
        find_log(**{"environ": {}, "here": tmp_path, **given})  # type: ignore[arg-type]
    str(caught.value).encode()


async def test_no_such_job(project: Path, log: EventLog) -> None:
    """An unknown job names the log that was looked in and how it was found."""
    place = LogPlace(project / "jobs/trialog.db", "the nearest one upward")
    with pytest.raises(NotFound, match=r"jobs/trialog.db \(the nearest one upward\) has no job"):
        await find_job(log, place, "2027", project)
    await anyio.Path(place.path).unlink()
    with pytest.raises(NotFound, match="there is no log at"):
        await find_job(log, place, "2027", project)
    with pytest.raises(ConfigError, match="an empty name"):
        await find_job(log, place, " ", project)
