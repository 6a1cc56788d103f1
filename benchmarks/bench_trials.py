"""Whole trials: 40 trivial ones, 8 at once, against starting as many bare sandboxes.

    python benchmarks/bench_trials.py [--trials 40] [--at-once 8] [--image IMAGE] [--harbor PATH]

Docker: `trialog run` with the oracle on a task whose solution and test are one line each, against
`docker run --rm IMAGE true`; both 8 at once, alternating, the best of each. bubblewrap: the same
against bare `bwrap`. `--harbor` names a Harbor program to run the same task with, as a peer; it
needs `docker compose`.
Ratios are seconds a trial over the floor's seconds a start; less is better.
"""

from __future__ import annotations

import argparse
import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TRIALOG = str(Path(sys.executable).with_name("trialog"))


def main() -> None:
    """Measure what this machine has, and print one table."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--trials", type=int, default=40)
    words.add_argument("--at-once", type=int, default=8)
    words.add_argument("--rounds", type=int, default=3)
    words.add_argument("--image", default=os.environ.get("TRIALOG_TEST_IMAGE", "trialog-base"))
    words.add_argument("--harbor")
    options = words.parse_args()
    print(f"{options.trials} trivial trials, {options.at_once} at once, best of {options.rounds}")
    print(f"{'what':44} {'s/trial':>9} {'a second':>9} {'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        task = write_task(Path(folder) / "trivial")
        bench_start_up(options.rounds)
        if shutil.which("docker"):
            bench_docker(task, options)
        else:
            print("docker: not on this machine's PATH, not measured")
        if shutil.which("bwrap"):
            bench_bubblewrap(task, options)
        else:
            print("bubblewrap: not on this machine's PATH, not measured")


def bench_start_up(rounds: int) -> None:
    """The command line's own start."""
    seconds = min(timed(lambda: run(TRIALOG, "--help")) for _ in range(rounds))
    print(f"{'trialog --help':44} {seconds:9.3f}")


def bench_docker(task: Path, options: argparse.Namespace) -> None:
    """Against `docker run --rm IMAGE true`, in turns."""
    n, at_once = options.trials, options.at_once
    floor = trialog = harbor = float("inf")

    def bare() -> None:
        in_parallel(at_once, n, "docker", "run", "--rm", "--network=none", options.image, "true")

    for _ in range(options.rounds):
        floor = min(floor, timed(bare) / n)
        trialog = min(trialog, timed_job(task, "docker", options) / n)
        if options.harbor:
            harbor = min(harbor, timed_harbor(task, options) / n)
    row("docker run --rm IMAGE true", floor, floor)
    row("trialog on Docker, the whole command", trialog, floor)
    if options.harbor:
        row("Harbor, the whole command", harbor, floor)


def bench_bubblewrap(task: Path, options: argparse.Namespace) -> None:
    """Against bare `bwrap … true`, in turns."""
    n, at_once = options.trials, options.at_once
    bwrap = (
        "bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc",
        "--dev", "/dev", "true",
    )  # fmt: skip
    floor = trialog = float("inf")
    for _ in range(options.rounds):
        floor = min(floor, timed(lambda: in_parallel(at_once, n, *bwrap)) / n)
        trialog = min(trialog, timed_job(task, "bubblewrap", options) / n)
    row("bwrap --unshare-all true", floor, floor)
    row("trialog on bubblewrap, the whole command", trialog, floor)


def row(what: str, seconds: float, floor: float) -> None:
    """One line of the table."""
    print(f"{what:44} {seconds:9.3f} {1 / seconds:9.1f} {seconds / floor:7.2f}")


def timed(action: Callable[[], object]) -> float:
    """Seconds that an action takes."""
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def timed_job(task: Path, sandbox: str, options: argparse.Namespace) -> float:
    """Seconds of one `trialog run` with its own log; every trial must pass."""
    with tempfile.TemporaryDirectory() as jobs:
        words = [
            TRIALOG, "run", str(task), "--agent", "oracle", "-k", str(options.trials),
            "-n", str(options.at_once), "--sandbox", sandbox, "--jobs-dir", jobs,
            "--fail-under", "1",
        ]  # fmt: skip
        if sandbox == "docker":
            words += ["--image", options.image]
        return timed(lambda: run(*words))


def timed_harbor(task: Path, options: argparse.Namespace) -> float:
    """Seconds of the same task with Harbor's oracle, as often and as many at once."""
    with tempfile.TemporaryDirectory() as folder:
        theirs = harbor_task(task, Path(folder), options.image)
        words = [*harbor_run(theirs, options), "--jobs-dir", f"{folder}/jobs"]
        seconds = timed(lambda: run(*words, environment=HARBOR_OFFLINE))
        check_harbor(Path(folder, "jobs"), options.trials)
    return seconds


# A library of its asks the network for models' prices, and waits where there is none.
HARBOR_OFFLINE = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def harbor_task(task: Path, folder: Path, image: str, verifier: str = "") -> Path:
    """A copy of the task for Harbor, with further settings of its verifier."""
    theirs = Path(shutil.copytree(task, folder / task.name))
    (theirs / "environment").mkdir()
    with (theirs / "task.toml").open("a") as settings:
        settings.write(f'[environment]\ndocker_image = "{image}"\n[verifier]\n{verifier}\n')
    return theirs


def harbor_run(task: Path, options: argparse.Namespace) -> list[str]:
    """The words that run a task with its oracle."""
    return [
        options.harbor, "run", "--yes", "--path", str(task), "--agent", "oracle",
        "--n-attempts", str(options.trials), "--n-concurrent", str(options.at_once),
    ]  # fmt: skip


def check_harbor(jobs: Path, trials: int) -> Path:
    """The folder of its only job, every trial of which must have passed."""
    (found,) = jobs.glob("*/result.json")
    stats = json.loads(found.read_text())["stats"]
    (graded,) = stats["evals"].values()
    if graded["n_trials"] != trials or graded["metrics"] != [{"mean": 1.0}]:
        sys.exit(f"not every trial of Harbor's passed: {stats}")
    return found.parent


def in_parallel(at_once: int, times: int, *words: str) -> None:
    """Run a command several times, some at once."""
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(lambda _: run(*words), range(times)))


@functools.cache
def compiled() -> dict[str, str]:
    """Where Python keeps compiled modules meanwhile: an installed program has them as well."""
    folder = tempfile.mkdtemp(prefix="trialog-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {"PYTHONPYCACHEPREFIX": folder}


def run(*words: str, environment: dict[str, str] | None = None) -> None:
    """Run a command; its failure ends the benchmark with what it said."""
    environment = os.environ | compiled() | (environment or {})
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")


def write_task(folder: Path) -> Path:
    """A task whose solution and test are one line each."""
    for name in ("tests", "solution"):
        (folder / name).mkdir(parents=True)
    (folder / "task.toml").write_text('version = "1.0"\n')
    (folder / "instruction.md").write_text("Write 42 to answer.txt.\n")
    (folder / "tests" / "test.sh").write_text(
        '#!/bin/bash\n[ "$(cat answer.txt)" = 42 ] && echo 1 > /logs/verifier/reward.txt\n'
    )
    (folder / "solution" / "solve.sh").write_text("#!/bin/bash\necho 42 > answer.txt\n")
    return folder


if __name__ == "__main__":
    main()
