"""Runs one job under the shim and is killed at every write after the verifier's end, in turn.

Started by test_kill.py with the shim preloaded. Prints one JSON line a run: where it was killed,
what had been acknowledged, and what the resume made of it.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path

import anyio

from helpers.fakes import CountingIds, FakeBackend, FakeSandbox, TickingClock
from helpers.jobs import Watched, services, write_task
from trialog.engine.job.api import resume_job, run_job
from trialog.engine.job.config import JobConfig
from trialog.engine.sandbox.protocol import Command, Exit
from trialog.engine.tasks.load import load_task
from trialog.events.open import open_log

SHIM = ctypes.CDLL(None)


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


async def run(folder: Path, task: Path, kill_at: int | None, *, resume: bool) -> None:
    """Run or resume the job in `folder`."""
    jobs = folder / "jobs"
    backend = Backend(folder, kill_at)
    ids = CountingIds()
    if resume:
        for _ in range(10_000):  # ids of another process never come again
            ids.event_id()
    async with open_log(jobs / "trialog.db") as log:
        made = services(log, backend, jobs, clock=TickingClock(), ids=ids)
        if resume:
            (job,) = [name.removeprefix("job/") for name in await log.streams("job/")]
            await resume_job(made, job, Watched())
        else:
            loaded = await anyio.to_thread.run_sync(load_task, task)
            config = JobConfig(tasks=["task"], agents=["oracle"])
            await run_job(made, config, [loaded], Watched())


def in_child(folder: Path, task: Path, kill_at: int | None, *, resume: bool) -> tuple[int, int]:
    """Run in a forked process: its exit status, and how many writes it counted."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            anyio.run(lambda: run(folder, task, kill_at, resume=resume))
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


def main(root: Path) -> None:
    """The run that nothing interrupts, then one killed at each write."""
    SHIM.shim_count.restype = ctypes.c_long
    task = write_task(root / "task")
    whole = root / "whole"
    whole.mkdir()
    status, writes = in_child(whole, task, 1_000_000, resume=False)
    print(json.dumps({"kill_at": None, "status": status, "writes": writes}), flush=True)
    for kill_at in range(1, writes + 1):
        folder = root / f"killed-{kill_at}"
        folder.mkdir()
        status, _ = in_child(folder, task, kill_at, resume=False)
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
    main(Path(sys.argv[1]))
