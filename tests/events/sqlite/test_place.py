"""A log's file that is moved, deleted or replaced under a running writer."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from helpers.samples import events
from trialog.events.errors import LogPoisoned
from trialog.events.open import open_log

NAME = "trialog.db"


def move_folder(path: Path) -> None:
    """Move the whole folder."""
    path.parent.rename(path.parent.with_name("elsewhere"))


def replace(path: Path) -> None:
    """Put a copy into its place."""
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


@pytest.mark.parametrize(("harm", "what"), [
    (Path.unlink, f"{NAME} was moved or deleted"),
    (lambda path: path.rename(path.with_name("other")), f"{NAME} was moved or deleted"),
    (lambda path: shutil.rmtree(path.parent), f"{NAME} was moved or deleted"),
    (move_folder, f"{NAME} was moved or deleted"),
    (replace, f"{NAME} was replaced by another file"),
    (lambda path: path.with_name(f"{NAME}-wal").unlink(), f"{NAME}-wal was moved or deleted"),
])  # fmt: skip
async def test_a_writer_whose_file_is_gone(
    tmp_path: Path, harm: Callable[[Path], object], what: str
) -> None:
    """What goes into a file without a name is not acknowledged, and nothing after it is."""
    path = tmp_path / "jobs" / NAME
    async with open_log(path) as log:
        for version in range(3):
            await log.append("job/a", version, events(1))
        await anyio.to_thread.run_sync(harm, path)

        for stream in ("job/a", "job/b"):
            with pytest.raises(LogPoisoned, match=what):
                await log.append(stream, 3 if stream == "job/a" else 0, events(1))
        with pytest.raises(LogPoisoned, match=what):
            await log.blobs.put(b"small")
        with pytest.raises(LogPoisoned, match=what):
            await log.blobs.put(bytes(100_000))


async def test_a_link_to_a_log_that_stays(tmp_path: Path) -> None:
    """A log that is reached through a link is where it was as long as the link leads there."""
    (tmp_path / "real").mkdir()
    (tmp_path / "jobs").symlink_to("real")
    async with open_log(tmp_path / "jobs" / NAME) as log:
        await log.append("job/a", 0, events(1))
        async with open_log(tmp_path / "real" / NAME) as other:
            await other.append("job/b", 0, events(1))
        assert 2 == (await log.append("job/a", 1, events(1))).version
