"""A verifier tried on stored trials, against Inspect AI's scoring of a stored log.

    python benchmarks/bench_try.py [--trials 500 2000] [--inspect PYTHON]

Both are the whole command in a process of its own, on two sizes of log: what the larger one takes
more, by what it has more, is what a further trial costs, without the start of either. The verifier
has all three hooks; `--inspect` names a Python that has Inspect AI, whose scorer only checks.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import anyio

import trialog

sys.path.insert(0, str(Path(__file__).parent / "environments"))
import world

PEER = Path(__file__).parent / "environments" / "inspect_peer.py"
TRIALOG = str(Path(sys.executable).with_name("trialog"))
AT_ONCE = 100


def main() -> None:
    """Store the trials, then time the commands in turns."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--trials", type=int, nargs=2, default=[500, 2000])
    words.add_argument("--rounds", type=int, default=3)
    words.add_argument("--inspect", metavar="PYTHON")
    options = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench(Path(folder), options)


def bench(folder: Path, options: argparse.Namespace) -> None:
    """Print the table."""
    small, large = sorted(options.trials)
    commands = {("trialog", size): trying(folder / f"ours-{size}", size) for size in (small, large)}
    if options.inspect:
        for size in (small, large):
            commands["Inspect AI", size] = scoring(options.inspect, folder / f"theirs-{size}", size)
    best = dict.fromkeys(commands, float("inf"))
    for _ in range(options.rounds):
        for key, command in commands.items():
            best[key] = min(best[key], timed(command))
    print(
        f"{'what':16} {'trials':>7} {'s':>8} {'ms a further one':>17} {'a second':>9} {'ratio':>7}"
    )
    each = {who: (best[who, large] - best[who, small]) / (large - small) for who, _ in commands}
    for (who, size), seconds in best.items():
        further = "" if size == small else f"{each[who] * 1000:17.3f} {1 / each[who]:9.0f}"
        if size == large and options.inspect:
            further += f" {each['Inspect AI'] / each[who]:7.1f}"
        print(f"{who:16} {size:7} {seconds:8.2f} {further}", flush=True)


def trying(folder: Path, trials: int) -> list[str]:
    """Store so many trials; the command that tries their verifier on them."""

    async def play() -> str:
        result = await trialog.run(
            world.counting(), world.Adds, name="adds", attempts=trials, concurrency=AT_ONCE,
            seed=1, jobs=folder,
        )  # fmt: skip
        assert result.summary["counts"]["passed"] == trials, result.summary["counts"]
        return result.job

    job = anyio.run(play)
    log = str(folder / "trialog.db")
    return [TRIALOG, "verifier", "try", "reached", "--job", job, "--log", log, "--check"]


def scoring(python: str, folder: Path, samples: int) -> list[str]:
    """Store as many samples; the command that scores them."""
    folder.mkdir()
    run([python, str(PEER), str(samples), str(AT_ONCE), str(folder)])
    (log,) = folder.glob("*.eval")
    program = str(Path(python).parent / "inspect")
    return [
        program, "score", str(log), "--scorer", f"{PEER}@reached", "--action", "overwrite",
        "--output-file", str(folder / "scored.eval"), "--overwrite", "--display", "none",
    ]  # fmt: skip


def timed(command: Sequence[str]) -> float:
    """Seconds of a command that must succeed."""
    begun = time.perf_counter()
    run(command)
    return time.perf_counter() - begun


def run(command: Sequence[str]) -> None:
    """Run a command; end with what it printed where it fails."""
    environ = {**os.environ, "INSPECT_DISPLAY": "none"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
