"""Taking an agent's work out of its sandbox."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from anyio import to_thread

from trialog.engine.redact import Redactor
from trialog.engine.trial.restoring import restore_artifacts
from trialog.engine.trial.saving import Saving, save_work
from trialog.events.clock import SystemClock
from trialog.events.kinds import ArtifactsSaved
from trialog.events.log import BlobStore
from trialog.events.memory import MemoryLog

NAMES = {b"a\xff": b"one", b"a\xfe": b"two", "a\ufffd".encode(): b"three", b"plain": b"four"}


async def saved(folder: Path, blobs: BlobStore) -> ArtifactsSaved:
    """What is saved of a folder of artifacts; no sandbox has to be asked for that."""
    no_sandbox: Any = None
    what = Saving(
        workspace="/app", declared=(), artifacts_folder=folder / "logs", scratch=folder / "scratch",
        keep_workspace=False, cap=0, timeout=20,
    )  # fmt: skip
    found = await save_work(
        no_sandbox, what, blobs=blobs, clock=SystemClock(), redactor=Redactor({})
    )
    (event,) = found.events
    assert isinstance(event, ArtifactsSaved)
    return event


async def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    """Each file has a path of its own, the raw bytes beside it, and comes back under those."""

    def write() -> None:
        for folder in ("logs", "scratch", "back"):
            (tmp_path / folder).mkdir()
        for name, data in NAMES.items():
            (tmp_path / "logs" / os.fsdecode(name)).write_bytes(data)

    await to_thread.run_sync(write)
    blobs = MemoryLog().blobs

    event = await saved(tmp_path, blobs)
    await restore_artifacts(event.artifacts, blobs, tmp_path / "back")

    found = {one.path: await blobs.get(one.blob) for one in event.artifacts}
    assert len(NAMES) == len(found)
    assert set(NAMES.values()) == set(found.values())
    assert {"plain"} == {one.path for one in event.artifacts if "\ufffd" not in one.path}
    raw = {await blobs.get(one.raw_path) for one in event.artifacts if one.raw_path is not None}
    assert {b"a\xff", b"a\xfe"} <= raw
    back = await to_thread.run_sync(lambda: list((tmp_path / "back").iterdir()))
    assert NAMES == {os.fsencode(file.name): file.read_bytes() for file in back}
