"""Environment trials of five actions, with one verifier's check, reward and hindsight.

    python benchmarks/bench_environments.py [--trials 800] [--at-once 8 1000] [--inspect PYTHON]
    python benchmarks/bench_environments.py --flight 10000
    python benchmarks/bench_environments.py --profile 800

Apps and policies are in the engine's process, verifiers' code in hook processes; log and files are
written as by any run. `--inspect` names a Python that has Inspect AI, which then plays the same
with its mock model, in turns; the ratio is its seconds over ours, more is better.

`--flight` has so many trials in flight at once, each waiting 1 s between its steps, and prints the
peak memory for one of them, the event loop's lag, and whether every event is in the log.
`--profile` prints where one run of trials spends its time (needs pyinstrument).
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import anyio

import trialog

sys.path.insert(0, str(Path(__file__).parent / "environments"))
import world

PEER = Path(__file__).parent / "environments" / "inspect_peer.py"
EVENTS_A_TRIAL = 22
"""Five actions, five rewards, one credit, and the eleven that any episode has."""
TICK_SEC = 0.01


def main() -> None:
    """Measure what was asked for."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--trials", type=int, default=800)
    words.add_argument("--at-once", type=int, nargs="+", default=[8, 1000])
    words.add_argument("--rounds", type=int, default=2)
    words.add_argument("--inspect", metavar="PYTHON")
    words.add_argument("--flight", type=int, metavar="TRIALS")
    words.add_argument("--profile", type=int, metavar="TRIALS")
    options = words.parse_args()
    if options.flight:
        anyio.run(bench_flight, options.flight)
    elif options.profile:
        profile(options.profile, options.at_once[0])
    else:
        bench_rates(options)


def bench_rates(options: argparse.Namespace) -> None:
    """Trials a second, ours and the peer's, the best of each."""
    anyio.run(play, world.Adds, 20, 8)  # imports: the peer's aren't counted either
    print(f"{'what':44} {'trials':>7} {'s':>8} {'a second':>9} {'ratio':>7}")
    for at_once in options.at_once:
        trials = max(options.trials, at_once)
        ours = theirs = float("inf")
        for _ in range(options.rounds):
            ours = min(ours, anyio.run(play, world.Adds, trials, at_once))
            if options.inspect:
                theirs = min(theirs, play_inspect(options.inspect, trials, at_once))
        row(f"trialog, {at_once} at once", trials, ours, theirs / ours)
        if options.inspect:
            row(f"Inspect AI, {at_once} at once", trials, theirs, 1.0)


def row(what: str, trials: int, seconds: float, ratio: float) -> None:
    """One line of the table."""
    shown = f"{ratio:7.1f}" if ratio != float("inf") else f"{'–':>7}"
    print(f"{what:44} {trials:7} {seconds:8.2f} {trials / seconds:9.0f} {shown}", flush=True)


async def play(policy: type, trials: int, at_once: int) -> float:
    """Seconds of one job, its files included; every trial must pass."""
    with tempfile.TemporaryDirectory() as jobs:
        begun = time.perf_counter()
        result = await trialog.run(
            world.counting(), policy, name="adds", attempts=trials, concurrency=at_once, seed=1,
            jobs=jobs,
        )  # fmt: skip
        seconds = time.perf_counter() - begun
    assert result.summary["counts"]["passed"] == trials, result.summary["counts"]
    return seconds


def play_inspect(python: str, trials: int, at_once: int) -> float:
    """Seconds of the same in Inspect AI, in a process of its own, without its start."""
    words = [python, str(PEER), str(trials), str(at_once)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return float(done.stdout.split()[-1])


async def bench_flight(trials: int) -> None:
    """Many trials that wait, at once."""
    await play(world.Adds, 50, 50)  # imports and caches are not the trials' own
    with tempfile.TemporaryDirectory() as jobs:
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # noqa: ASYNC240 - the peak starts here
        before = memory("VmRSS")
        lags: list[float] = []
        flight = Flight()
        begun = time.perf_counter()
        async with anyio.create_task_group() as group:
            group.start_soon(watch_loop, lags)
            await trialog.run(
                world.counting(), world.Waits, name="waits", attempts=trials, concurrency=trials,
                seed=1, jobs=jobs, watch=flight,
            )  # fmt: skip
            group.cancel_scope.cancel()
        seconds = time.perf_counter() - begun
        peak = memory("VmHWM")
        kinds = await count_events(Path(jobs))
    lags.sort()
    stored = sum(kinds.values())
    wanted = trials * EVENTS_A_TRIAL
    print(f"{trials} trials, {flight.most} in flight at once, {seconds:.1f} s")
    print(f"peak memory a trial  {(peak - before) / trials:8.1f} KB  ({before} → {peak} KB)")
    for name, share in (("median", 0.5), ("p99", 0.99), ("most", 1.0)):
        lag = lags[min(int(len(lags) * share), len(lags) - 1)]
        print(f"event loop's lag {name:6} {lag * 1000:8.1f} ms")
    print(f"events in the log    {stored:8} of {wanted}")
    if stored != wanted:
        sys.exit(f"events are missing: {dict(kinds)}")


class Flight:
    """The most trials that were under way at once."""

    def __init__(self) -> None:
        self.most = 0

    def __call__(self, report: object) -> None:
        """Take a report of the job's."""
        self.most = max(self.most, getattr(report, "running", 0))


async def watch_loop(lags: list[float]) -> None:
    """How much later than asked for this is woken, again and again."""
    while True:
        due = time.perf_counter() + TICK_SEC
        await anyio.sleep(TICK_SEC)
        lags.append(time.perf_counter() - due)


async def count_events(jobs: Path) -> Counter[str]:
    """Events of trials in the log, by kind."""
    from trialog.events.open import open_log

    kinds: Counter[str] = Counter()
    async with open_log(jobs / "trialog.db", readonly=True) as log:
        async for batch in log.read_all():
            kinds.update(event.kind for event in batch if event.stream.startswith("trial/"))
    return kinds


def memory(name: str) -> int:
    """A figure of this process's, in KB."""
    for line in Path(f"/proc/{os.getpid()}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise LookupError(name)


def profile(trials: int, at_once: int) -> None:
    """Where the time of the engine's own thread goes."""
    from pyinstrument import Profiler
    from pyinstrument.renderers import ConsoleRenderer

    async def profiled() -> float:
        await play(world.Adds, 20, 8)
        with profiler:
            return await play(world.Adds, trials, at_once)

    profiler = Profiler(interval=0.0005, async_mode="disabled")
    seconds = anyio.run(profiled)
    assert profiler.last_session is not None
    flat = ConsoleRenderer(flat=True, show_all=True, color=False)
    print("\n".join(flat.render(profiler.last_session).splitlines()[:70]))
    tree = ConsoleRenderer(show_all=True, color=False)
    print("\n".join(tree.render(profiler.last_session).splitlines()[:160]))
    print(f"{trials} trials in {seconds:.2f} s")


if __name__ == "__main__":
    main()
