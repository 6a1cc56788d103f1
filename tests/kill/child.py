"""Runs a job, or a regrade of one, under the shim, and is killed at every write in turn.

Of a job, at every write after the verifier's end; of a regrade, at every one; until a run has ended
before its write came: how many there are depends on what was committed together. Started by
test_kill.py with the shim preloaded. Prints one JSON line a run: where it was killed, what had been
acknowledged, and what the resume made of it.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import json
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio

from helpers.fakes import CountingIds, FakeBackend, FakeSandbox, TickingClock
from helpers.jobs import Watched, services, write_task
from trialog.engine.job.api import resume_job, run_job
from trialog.engine.job.config import JobConfig
from trialog.engine.regrade.progress import load_progress
from trialog.engine.regrade.run import Wish, regrade_job, resume_regrade
from trialog.engine.sandbox.protocol import Command, Exit
from trialog.engine.tasks.load import load_task
from trialog.events.open import open_log
from trialog.projections.rebuild import rebuild

SHIM = ctypes.CDLL(None)

Act = Callable[..., Coroutine[Any, Any, None]]


def note(folder: Path, word: str) -> None:
    """Say durably, without a counted write, that a phase ran."""
    (folder / f"{word}-{len(list(folder.glob(word + '-*')))}").touch()


class Backend(FakeBackend):
    """Counts phases on disk, and arms the shim when the verifier has written its reward."""

    def __init__(self, folder: Path, kill_at: int | None) -> None:
        super().__init__(self.run_phase)
        self.folder = folder
        self.kill_at = kill_at

    async def run_phase(self, sandbox: FakeSandbox, command: Command, output: object) -> Exit:
        """An honest agent and verifier."""
        if "test.sh" in command.argv[-1]:
            await anyio.to_thread.run_sync(note, self.folder, "verifier")
            output(b"PASS\n")  # type: ignore[operator]
            await sandbox.write("/logs/verifier/reward.json", b'{"reward": 1, "speed": 0.5}')
            if self.kill_at is not None:
                SHIM.shim_arm(ctypes.c_long(self.kill_at))
        else:
            await anyio.to_thread.run_sync(note, self.folder, "agent")
            output(b"working\n")  # type: ignore[operator]
        return Exit(ended_by="exit", code=0, duration=0.0)


def ids_after(earlier: int) -> CountingIds:
    """Ids that so many earlier processes have not used: they never come again."""
    ids = CountingIds()
    for _ in range(10_000 * earlier):
        ids.event_id()
    return ids


async def regrade(folder: Path, task: Path, kill_at: int | None, *, resume: bool) -> None:
    """Regrade the job in `folder`, or go on with that; a new regrade where none was planned."""
    jobs = folder / "jobs"
    async with open_log(jobs / "trialog.db") as log:
        made = services(
            log,
            Backend(folder, None),
            jobs,
            clock=TickingClock(),
            ids=ids_after(2 if resume else 1),
        )
        (job,) = [name.removeprefix("job/") for name in await log.streams("job/")]
        progress = await load_progress(log, job)
        if resume and progress.unfinished is not None:
            await resume_regrade(made, job, Watched())
        elif not progress.regrades:
            if kill_at is not None:
                SHIM.shim_arm(ctypes.c_long(kill_at))
            await regrade_job(made, job, Wish(reason="again"), Watched())
        else:
            await rebuild(log, job, jobs)


async def run(folder: Path, task: Path, kill_at: int | None, *, resume: bool) -> None:
    """Run or resume the job in `folder`."""
    jobs = folder / "jobs"
    backend = Backend(folder, kill_at)
    ids = ids_after(1 if resume else 0)
    async with open_log(jobs / "trialog.db") as log:
        made = services(log, backend, jobs, clock=TickingClock(), ids=ids)
        if resume:
            (job,) = [name.removeprefix("job/") for name in await log.streams("job/")]
            await resume_job(made, job, Watched())
        else:
            loaded = await anyio.to_thread.run_sync(load_task, task)
            config = JobConfig(tasks=["task"], agents=["oracle"])
            await run_job(made, config, [loaded], Watched())


def in_child(
    folder: Path, task: Path, kill_at: int | None, *, resume: bool, act: Act = run
) -> tuple[int, int]:
    """Run it in a forked process: its exit status, and how many writes it counted."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            anyio.run(lambda: act(folder, task, kill_at, resume=resume))
            counted = SHIM.shim_count()
            SHIM.shim_arm(ctypes.c_long(-1))
            os.write(writing, str(counted).encode())
            os._exit(0)
        except BaseException:
            SHIM.shim_arm(ctypes.c_long(-1))
            import traceback

            traceback.print_exc()
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        counted = pipe.read()
    return os.waitpid(pid, 0)[1], int(counted or 0)


def regrades(root: Path) -> None:
    """The regrade that nothing interrupts, then one killed at each write."""
    task = write_task(root / "task")

    def begin(folder: Path) -> dict[str, str]:
        folder.mkdir()
        in_child(folder, task, None, resume=False)
        return hashes(folder)

    whole = root / "whole"
    originals = begin(whole)
    status, _ = in_child(whole, task, None, resume=False, act=regrade)
    same = originals.items() <= hashes(whole).items()
    print(json.dumps({"status": status, "same": same}), flush=True)
    for kill_at in itertools.count(1):
        folder = root / f"killed-{kill_at}"
        originals = begin(folder)
        status, writes = in_child(folder, task, kill_at, resume=False, act=regrade)
        if status == 0 and writes < kill_at:
            break
        between = hashes(folder)
        resumed, _ = in_child(folder, task, None, resume=True, act=regrade)
        print(
            json.dumps(
                {
                    "kill_at": kill_at,
                    "status": status,
                    "resumed": resumed,
                    "same": originals.items() <= between.items() & hashes(folder).items(),
                    "verifiers": len(list(folder.glob("verifier-*"))),
                }
            ),
            flush=True,
        )


def hashes(folder: Path) -> dict[str, str]:
    """The hash of every file of the job's, by its path."""
    (job,) = (path.parent for path in folder.glob("jobs/20*/summary.json"))
    files = [path for path in job.rglob("*") if path.is_file()]
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def main(root: Path) -> None:
    """The run that nothing interrupts, then one killed at each write."""
    task = write_task(root / "task")
    whole = root / "whole"
    whole.mkdir()
    status, _ = in_child(whole, task, None, resume=False)
    print(json.dumps({"kill_at": None, "status": status}), flush=True)
    for kill_at in itertools.count(1):
        folder = root / f"killed-{kill_at}"
        folder.mkdir()
        status, writes = in_child(folder, task, kill_at, resume=False)
        if status == 0 and writes < kill_at:
            break
        acknowledged = anyio.run(_has_verdict, folder / "jobs" / "trialog.db")
        result_before = [str(p.parent) for p in folder.glob("jobs/*/*/result.json")]
        resumed, _ = in_child(folder, task, None, resume=True)
        print(
            json.dumps(
                {
                    "kill_at": kill_at,
                    "status": status,
                    "acknowledged": acknowledged,
                    "result_before": result_before,
                    "resumed": resumed,
                    "agents": len(list(folder.glob("agent-*"))),
                    "verifiers": len(list(folder.glob("verifier-*"))),
                }
            ),
            flush=True,
        )


async def _has_verdict(path: Path) -> bool:
    async with open_log(path) as log:
        (stream,) = await log.streams("trial/")
        return any(event.kind == "VerifierScored" for event in await log.read(stream))


if __name__ == "__main__":
    SHIM.shim_count.restype = ctypes.c_long
    {"run": main, "regrade": regrades}[sys.argv[1]](Path(sys.argv[2]))
