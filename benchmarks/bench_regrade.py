"""Regrades: of scripts against bare sandboxes, of functions against reading and decoding alone.

    python benchmarks/bench_regrade.py [--trials 40] [--at-once 8] [--image IMAGE]
                                       [--functions 10000] [--harbor PATH]

Scripts: a job of trivial trials is regraded as a whole command, against as many bare starts of a
sandbox (`docker run --rm IMAGE true`, `bwrap … true`), in turns, the best of each. The bare
container is the floor of both kinds; a bare `bwrap`, which has no engine to ask, is a stricter one.
A third tells what isolation and the test itself cost there: bare starts with a sandbox's own name
spaces and mounts, which run the task's own test; nothing is made, recorded or removed for them.
`--harbor` names a Harbor program, whose `job regrade` does the same with a job of its own; it needs
`docker compose`.
Functions: a job of environment trials is regraded, against reading its trials' events from the same
log, trial by trial, and decoding them. A regrade's start is that of a job of one trial, and what
comes to it is each further trial's, the job's files included. CPU seconds of all processes stand
beside, since they depend less on what else the machine does. How much faster the reading is where
many trials are read in one go is told, too.
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
from functools import partial
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
    if options.trials:
        print(
            f"{options.trials} trivial trials, {options.at_once} at once, best of {options.rounds}"
        )
        print(f"{'what':44} {'s/trial':>9} {'a second':>9} {'ratio':>7}")
        with tempfile.TemporaryDirectory() as folder:
            task = write_task(Path(folder) / "trivial")
            container = None
            if shutil.which("docker"):
                bare = ("docker", "run", "--rm", "--network=none", options.image, "true")
                container = scripts(task, "docker", bare, options)
            else:
                print("docker: not on this machine's PATH, not measured")
            if shutil.which("bwrap"):
                bare = (
                    "bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc",
                    "/proc", "--dev", "/dev", "true",
                )  # fmt: skip
                scripts(task, "bubblewrap", bare, options, container)
            else:
                print("bubblewrap: not on this machine's PATH, not measured")
    if options.functions > 1:
        functions(options.functions, options.rounds)


def row(what: str, seconds: float, floor: float) -> None:
    """One line of the table."""
    print(f"{what:44} {seconds:9.4f} {1 / seconds:9.1f} {seconds / floor:7.2f}", flush=True)


def scripts(
    task: Path,
    sandbox: str,
    bare: tuple[str, ...],
    options: argparse.Namespace,
    container: float | None = None,
) -> float:
    """A job's regrade against as many bare starts, whose seconds a start come back."""
    n, at_once = options.trials, options.at_once
    with tempfile.TemporaryDirectory() as jobs:
        words = [
            TRIALOG, "run", str(task), "--agent", "oracle", "-k", str(n), "-n", str(at_once),
            "--sandbox", sandbox, "--jobs-dir", jobs,
        ]  # fmt: skip
        run(*words, *(["--image", options.image] if sandbox == "docker" else []))
        (job,) = (path.parent for path in Path(jobs).glob("*/summary.json"))
        regrade = (TRIALOG, "regrade", str(job), "-n", str(at_once))
        second = isolated(task, Path(jobs) / "isolated") if sandbox == "bubblewrap" else None
        floor = held = ours = peer = float("inf")
        for _ in range(options.rounds):
            floor = min(floor, timed(lambda: in_parallel(at_once, n, *bare)) / n)
            if second is not None:
                held = min(held, timed(lambda: in_parallel(at_once, n, *second)) / n)
            ours = min(ours, timed(lambda: run(*regrade)) / n)
        row(" ".join(bare[:2]) + " … true", floor, floor)
        if second is not None:
            row("bwrap as a sandbox has it, running the test", held, floor)
        row(f"trialog regrade on {sandbox}, the whole command", ours, floor)
        if second is not None:
            row("  … against the test in its sandbox", ours, held)
        if container is not None:
            row("  … against the bare container", ours, container)
        if options.harbor and sandbox == "docker":
            peer = harbor(task, options)
            row("Harbor's job regrade, the whole command", peer, floor)
        return floor


def isolated(task: Path, folder: Path) -> list[str]:
    """A bare start with the name spaces and mounts of a regrade's sandbox, and the task's test."""
    from trialog.engine.sandbox.bubblewrap.etc import copy_etc
    from trialog.engine.sandbox.bubblewrap.layout import PATH, Layout, home_folder
    from trialog.engine.sandbox.protocol import Image, SandboxSpec
    from trialog.engine.trial.folders import TrialFolders
    from trialog.events.kinds.parts import Limits

    folders = TrialFolders(folder / "scratch", workspace="/app")
    anyio.run(folders.prepare)
    shutil.copytree(task / "tests", folders.verifier, dirs_exist_ok=True)
    copy_etc(folder / "etc", home_folder())
    spec = SandboxSpec(
        job="", trial="", log_id="", image=Image(name=None), workdir=folders.workspace,
        limits=Limits(network=False), mounts=folders.mounts(), scratch=folders.scratch,
    )  # fmt: skip
    layout = Layout(spec, folder / "own", folder / "etc")
    layout.make()
    (layout.folders[folders.workspace] / "answer.txt").write_text("42\n")
    options = layout.arguments({"PATH": PATH, "HOME": layout.home})
    return ["bwrap", *options, "--", "/bin/bash", f"{folders.verifier_targets[0]}/test.sh"]


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


def functions(count: int, rounds: int) -> None:
    """A function's regrade of many stored trials against reading and decoding them."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        shutil.copytree(PROJECT, project)
        print(f"{count} environment trials are run first …", flush=True)
        many, one = (environment_job(project, Path(folder), n) for n in (count, 1))
        best: dict[str, tuple[float, float]] = {}

        def time(what: str, action: Callable[[], object]) -> None:
            found, known = measured(action), best.get(what, (float("inf"),) * 2)
            best[what] = (min(found[0], known[0]), min(found[1], known[1]))

        for _ in range(rounds):
            for name, job in (("many", many), ("one", one)):
                log, words = job.parent / "trialog.db", [TRIALOG, "regrade", str(job)]
                time(f"read {name}", partial(anyio.run, read_and_decode, log))
                time(f"read {name} at once", partial(anyio.run, read_at_once, log))
                time(
                    f"regrade {name}",
                    partial(subprocess.run, words, check=True, cwd=project, capture_output=True),
                )
        print(f"{'what':44} {'s/trial':>9} {'a second':>9} {'ratio':>7}")
        for clock, unit in enumerate(("by the clock", "in CPU seconds")):

            def each(what: str, clock: int = clock) -> float:
                whole, start = best[f"{what.replace('*', 'many')}"], best[what.replace("*", "one")]
                return (whole[clock] - start[clock]) / (count - 1)

            floor = each("read *")
            row(f"read and decode, {unit}", floor, floor)
            row("  64 trials at once", each("read * at once"), floor)
            row(f"regrade, each further trial, {unit}", each("regrade *"), floor)
        print(f"a regrade's start: {best['regrade one'][1]:.2f} CPU seconds")


def environment_job(project: Path, folder: Path, count: int) -> Path:
    """The folder of a job of so many trials, with a log of its own."""
    jobs = folder / f"jobs-{count}"
    words = ("refund-request", "-a", "clerk", "-k", str(count), "-n", "16", "--jobs-dir", str(jobs))
    subprocess.run(
        [TRIALOG, "run", *words], cwd=project, check=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    (job,) = (path.parent for path in jobs.glob("*/summary.json"))
    return job


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


async def read_at_once(path: Path) -> None:
    """The same, 64 trials in one go."""
    from trialog.events.codec import decode
    from trialog.events.open import open_log

    async with open_log(path, readonly=True) as log:
        streams = await log.streams("trial/")
        for start in range(0, len(streams), 64):
            for events in await log.read_each(streams[start : start + 64]):
                for event in events:
                    decode(event)


if __name__ == "__main__":
    main()
