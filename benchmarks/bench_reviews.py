"""Rubric reviews: 50 trials, 8 at once, against the reviewer's program alone.

    python benchmarks/bench_reviews.py [--trials 50] [--at-once 8] [--seconds 1] [--image IMAGE]

A job of trivial trials is reviewed by a program that answers at once, and by one that first sleeps,
as a whole command with its start and its report; against as many bare starts of that program, so
many at once, in turns, the best of each. What a review adds is its share of the difference.
CPU seconds of all processes stand beside, since they do not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from pathlib import Path

from bench_regrade import measured
from bench_trials import TRIALOG, in_parallel, run, write_task

NAMES = ("reward_hacking", "task_specification")
AIM = 0.2
"""Seconds that a review may add on bubblewrap."""


def main() -> None:
    """Measure what this machine has, and print one table."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--trials", type=int, default=50)
    words.add_argument("--at-once", type=int, default=8)
    words.add_argument("--rounds", type=int, default=3)
    words.add_argument("--seconds", type=float, default=1.0)
    words.add_argument("--image", default=os.environ.get("TRIALOG_TEST_IMAGE", "trialog-base"))
    options = words.parse_args()
    print(f"{options.trials} reviews, {options.at_once} at once, best of {options.rounds}")
    print(f"{'what':44} {'alone':>9} {'s/review':>9} {'adds':>9} {'CPU adds':>9}")
    with tempfile.TemporaryDirectory() as folder:
        task = write_task(Path(folder) / "trivial")
        for sandbox, program in (("bubblewrap", "bwrap"), ("docker", "docker")):
            if shutil.which(program):
                bench(task, sandbox, options)
            else:
                print(f"{sandbox}: not on this machine's PATH, not measured")


def bench(task: Path, sandbox: str, options: argparse.Namespace) -> None:
    """A job's reviews against the reviewer alone, for one that is quick and one that is not."""
    with tempfile.TemporaryDirectory() as folder:
        words = [
            TRIALOG, "run", str(task), "--agent", "oracle", "-k", str(options.trials),
            "-n", str(options.at_once), "--sandbox", sandbox, "--jobs-dir", folder,
        ]  # fmt: skip
        image = ["--image", options.image] if sandbox == "docker" else []
        run(*words, *image)
        (job,) = (path.parent for path in Path(folder).glob("*/summary.json"))
        for seconds in (0.0, options.seconds):
            reviewer = write_reviewer(Path(folder), seconds)
            command = [
                TRIALOG, "review", "run", str(job), "--agent", f"command:{reviewer}",
                "-n", str(options.at_once), "--sandbox", sandbox, *image,
            ]  # fmt: skip
            row(f"by {seconds:g} s on {sandbox}, the whole command", reviewer, command, options)


def row(what: str, reviewer: Path, command: list[str], options: argparse.Namespace) -> None:
    """One line of the table."""
    n = options.trials
    alone = alone_cpu = ours = ours_cpu = float("inf")
    bare = ("env", "-C", str(reviewer.parent), str(reviewer))
    for _ in range(options.rounds):
        seconds, cpu = measured(lambda: in_parallel(options.at_once, n, *bare))
        alone, alone_cpu = min(alone, seconds / n), min(alone_cpu, cpu / n)
        seconds, cpu = measured(lambda: run(*command))
        ours, ours_cpu = min(ours, seconds / n), min(ours_cpu, cpu / n)
    adds = ours - alone
    met = f" (aim {AIM:g}: {'met' if adds <= AIM else 'missed'})" if "bubblewrap" in command else ""
    print(
        f"{what:44} {alone:9.3f} {ours:9.3f} {adds:9.3f} {ours_cpu - alone_cpu:9.3f}{met}",
        flush=True,
    )


def write_reviewer(folder: Path, seconds: float) -> Path:
    """A program that takes so long and answers the built-in rubric."""
    check = {"outcome": "pass", "explanation": "it was measured"}
    answer = {"summary": "It ran.", "checks": dict.fromkeys(NAMES, check)}
    path = folder / f"reviewer-{seconds:g}.sh"
    wait = f"sleep {seconds:g}\n" if seconds else ""
    path.write_text(
        f"#!/bin/sh\n{wait}cat > review-result.json <<'END'\n{json.dumps(answer)}\nEND\n"
    )
    path.chmod(0o755)
    return path


if __name__ == "__main__":
    main()
