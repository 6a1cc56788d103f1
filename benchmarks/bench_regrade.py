"""Regrades: of scripts against bare sandboxes, of functions against reading and decoding alone.

    python benchmarks/bench_regrade.py [--trials 40] [--at-once 8] [--image IMAGE]
                                       [--functions 10000] [--harbor PATH]

Scripts: a job of trivial trials is regraded as a whole command, against as many bare starts of a
sandbox (`docker run --rm IMAGE true`, `bwrap … true`), in turns, the best of each. `--harbor` names
a Harbor program, whose `job regrade` does the same with a job of its own; it needs `docker
compose`.
Functions: a job of environment trials is regraded in this process, against reading its trials'
events from the same log and decoding them. CPU seconds of all processes stand beside, since they
do not depend on what else the machine does.
Ratios are seconds a trial over the floor's; less is better.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import anyio

from bench_trials import (
    HARBOR_OFFLINE,
    TRIALOG,
    check_harbor,
    harbor_run,
    harbor_task,
    in_parallel,
    run,
    timed,
    write_task,
)

PROJECT = Path(__file__).resolve().parents[1] / "examples" / "environments"


def main() -> None:
    """Measure what this machine has, and print one table."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--trials", type=int, default=40)
    words.add_argument("--at-once", type=int, default=8)
    words.add_argument("--rounds", type=int, default=3)
    words.add_argument("--functions", type=int, default=10_000)
    words.add_argument("--image", default=os.environ.get("TRIALOG_TEST_IMAGE", "trialog-base"))
    words.add_argument("--harbor")
    options = words.parse_args()
    print(f"{options.trials} trivial trials, {options.at_once} at once, best of {options.rounds}")
    print(f"{'what':44} {'s/trial':>9} {'a second':>9} {'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        task = write_task(Path(folder) / "trivial")
        if shutil.which("docker"):
            bare = ("docker", "run", "--rm", "--network=none", options.image, "true")
            scripts(task, "docker", bare, options)
        else:
            print("docker: not on this machine's PATH, not measured")
        if shutil.which("bwrap"):
            bare = (
                "bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc",
                "/proc", "--dev", "/dev", "true",
            )  # fmt: skip
            scripts(task, "bubblewrap", bare, options)
        else:
            print("bubblewrap: not on this machine's PATH, not measured")
    if options.functions:
        functions(options.functions)


def row(what: str, seconds: float, floor: float) -> None:
    """One line of the table."""
    print(f"{what:44} {seconds:9.4f} {1 / seconds:9.1f} {seconds / floor:7.2f}", flush=True)


def scripts(task: Path, sandbox: str, bare: tuple[str, ...], options: argparse.Namespace) -> None:
    """A job's regrade against as many bare starts."""
    n, at_once = options.trials, options.at_once
    with tempfile.TemporaryDirectory() as jobs:
        words = [
            TRIALOG, "run", str(task), "--agent", "oracle", "-k", str(n), "-n", str(at_once),
            "--sandbox", sandbox, "--jobs-dir", jobs,
        ]  # fmt: skip
        run(*words, *(["--image", options.image] if sandbox == "docker" else []))
        (job,) = (path.parent for path in Path(jobs).glob("*/summary.json"))
        regrade = (TRIALOG, "regrade", str(job), "-n", str(at_once))
        floor = ours = peer = float("inf")
        for _ in range(options.rounds):
            floor = min(floor, timed(lambda: in_parallel(at_once, n, *bare)) / n)
            ours = min(ours, timed(lambda: run(*regrade)) / n)
        row(" ".join(bare[:2]) + " … true", floor, floor)
        row(f"trialog regrade on {sandbox}, the whole command", ours, floor)
        if options.harbor and sandbox == "docker":
            peer = harbor(task, options)
            row("Harbor's job regrade, the whole command", peer, floor)


def harbor(task: Path, options: argparse.Namespace) -> float:
    """Seconds a trial of the peer's regrade of a job of its own.

    It regrades by recorded artifacts alone: its verifier runs in an environment of its own, and the
    answer lies among them.
    """
    with tempfile.TemporaryDirectory() as folder:
        apart = 'environment_mode = "separate"'
        theirs = harbor_task(task, Path(folder), options.image, apart)
        for script in (theirs / "solution" / "solve.sh", theirs / "tests" / "test.sh"):
            text = script.read_text()
            script.write_text(text.replace("answer.txt", "/logs/artifacts/answer.txt"))
        words = [*harbor_run(theirs, options), "--jobs-dir", f"{folder}/jobs"]
        run(*words, environment=HARBOR_OFFLINE)
        job = check_harbor(Path(folder, "jobs"), options.trials)
        words = [
            options.harbor, "job", "regrade", str(job), "--task-path", str(theirs),
            "--n-concurrent", str(options.at_once), "--jobs-dir", f"{folder}/regrades",
        ]  # fmt: skip
        seconds = timed(lambda: run(*words, environment=HARBOR_OFFLINE))
        check_harbor(Path(folder, "regrades"), options.trials)
        return seconds / options.trials


def functions(count: int) -> None:
    """A function's regrade of many stored trials against reading and decoding them."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        shutil.copytree(PROJECT, project)
        print(f"{count} environment trials are run first …", flush=True)
        subprocess.run(
            [
                TRIALOG, "run", "refund-request", "-a", "clerk", "-k", str(count), "-n", "16",
                "--jobs-dir", str(Path(folder) / "jobs"),
            ],
            cwd=project, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        (job,) = (path.parent for path in (Path(folder) / "jobs").glob("*/summary.json"))
        log = job.parent / "trialog.db"
        read, read_cpu = measured(lambda: anyio.run(read_and_decode, log))
        words = [TRIALOG, "regrade", str(job)]
        whole, whole_cpu = measured(
            lambda: subprocess.run(words, check=True, cwd=project, capture_output=True)
        )
        one = next(job.glob("*/result.json")).parent.name
        single = [TRIALOG, "regrade", one, "--log", str(log)]
        start, start_cpu = measured(
            lambda: subprocess.run(single, check=True, cwd=project, capture_output=True)
        )
        print(f"{'what':44} {'s/trial':>9} {'a second':>9} {'ratio':>7}")
        row("read and decode every trial", read / count, read / count)
        row("trialog regrade, the whole command", whole / count, read / count)
        row("trialog regrade, each further trial", (whole - start) / count, read / count)
        row("  in CPU seconds: read and decode", read_cpu / count, read_cpu / count)
        row(
            "  in CPU seconds: each further trial",
            (whole_cpu - start_cpu) / count,
            read_cpu / count,
        )


def measured(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and CPU seconds of this process and its children."""
    begun, used = time.perf_counter(), cpu()
    action()
    return time.perf_counter() - begun, cpu() - used


def cpu() -> float:
    """CPU seconds until now, of children that have ended too."""
    own, others = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


async def read_and_decode(path: Path) -> None:
    """Every event of every trial, decoded."""
    from trialog.events.codec import decode
    from trialog.events.open import open_log

    async with open_log(path, readonly=True) as log:
        for stream in await log.streams("trial/"):
            for event in await log.read(stream):
                decode(event)


if __name__ == "__main__":
    main()
