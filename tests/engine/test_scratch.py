"""Scratch folders."""

from __future__ import annotations

import errno
import fcntl
import subprocess
from pathlib import Path

import pytest
from anyio import to_thread

from trialog.engine.job.folders import claim
from trialog.engine.scratch import scratch_folder


def _apart(folder: Path) -> bool:
    """Whether `lsattr` names the folder one whose folders don't belong together."""
    words = ["lsattr", "-d", str(folder)]
    told = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    return "T" in told.split(" ")[0]


def _takes_hints(folder: Path) -> bool:
    folder.mkdir()
    done = subprocess.run(["chattr", "+T", str(folder)], capture_output=True, check=False)
    return done.returncode == 0


async def test_trials_are_apart_on_the_disk(tmp_path: Path) -> None:
    """The folder of all trials' folders has ext4's hint, wherever `chattr` can set it."""
    taken = await to_thread.run_sync(_takes_hints, tmp_path / "probe")
    async with scratch_folder(tmp_path, "job") as folder:
        assert taken == await to_thread.run_sync(_apart, folder)
        assert not await to_thread.run_sync(_apart, folder.parent)
    assert not folder.exists()


def test_jobs_are_apart_on_the_disk(tmp_path: Path) -> None:
    """The folder of all jobs has the hint from the first one on."""
    taken, jobs = _takes_hints(tmp_path / "probe"), tmp_path / "jobs"
    jobs.mkdir()
    assert not _apart(jobs)
    assert claim(jobs / "2026-01-31__00-00-00")
    assert _apart(jobs) == taken


async def test_a_disk_without_hints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the disk knows of no such thing, the folder is made all the same."""

    def refuse(*_: object) -> bytes:
        raise OSError(errno.ENOTTY, "Inappropriate ioctl for device")

    monkeypatch.setattr(fcntl, "ioctl", refuse)
    async with scratch_folder(tmp_path, "job") as folder:
        assert await to_thread.run_sync(folder.is_dir)
