"""A job's files from its log, against the bare SELECT-and-decode, in one run.

    python benchmarks/bench_rebuild.py [--folder DIR] [--small]

A million events in ten thousand trials of a hundred events, eight trials at a time interleaved as
a running job writes them. The floor reads every row with sqlite3 and decodes its payload; each row
of the table adds one thing to the one above it. Ratios are what counts.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec
from rich.console import Console
from rich.table import Table

from trialog.events.clock import RandomIds, SystemClock
from trialog.events.codec import decode
from trialog.events.envelope import new_event
from trialog.events.kinds import (
    ActionTaken,
    AgentFinished,
    AgentMessage,
    AgentStarted,
    ArtifactsSaved,
    Event,
    JobStarted,
    ProcessesKilled,
    SandboxRemoved,
    SandboxStarted,
    StepRewarded,
    TrialFinished,
    TrialScheduled,
    TrialScored,
    TrialStarted,
    VerifierScored,
    VerifierStarted,
    WorkspaceHardened,
    WorkspaceSaved,
)
from trialog.events.kinds.parts import Limits, Slot, Target
from trialog.events.log import EventLog
from trialog.events.open import open_log
from trialog.events.values import blob_ref
from trialog.projections.files import trial_files
from trialog.projections.rebuild import rebuild
from trialog.projections.source import read_trial
from trialog.projections.trial import TrialFold

CLOCK = SystemClock()
IDS = RandomIds()
TRIAL_EVENTS = 100
AT_ONCE = 8
CHUNK = 25
"""Events of one append."""
TIME = "2026-01-31T12:00:00.000000Z"
FLOOR = "SELECT and decode (the floor)"
DIGEST = "sha256:" + "d" * 64


def trial_name(number: int) -> str:
    """A trial's name."""
    return f"bench__{number:08x}"


def slot(number: int) -> Slot:
    """A trial's slot: a hundred tasks, the rest are attempts."""
    return Slot(task=f"task-{number % 100}", agent="policy", attempt=number // 100 + 1)


def trial(number: int) -> list[Event]:
    """A trial of a hundred events: forty steps with a reward each, messages, and its grading."""
    reward = (number % 5) / 4
    steps: list[Event] = []
    for step in range(40):
        steps += [
            ActionTaken(
                turn=step,
                tool_call=f"call_{step:04d}",
                app="mail",
                action="send_message",
                arguments={"to": "someone@example.com", "subject": "The figures", "n": step},
                observation={"ok": True, "message_id": f"m-{step:08d}", "folder": "sent"},
                started_at=TIME,
                duration=0.012345,
                observed_by="host",
            ),
            StepRewarded(
                verifier="progress",
                version="1.0.0",
                digest=DIGEST,
                target=Target(target="step", event_id=f"step-{step}"),
                app="mail",
                value=0.025,
                weight=1.0,
                space="action",
            ),
        ]
    return [
        TrialStarted(
            job="bench", trial=trial_name(number), slot=slot(number), execution=1,
            seed=number, task_digest=DIGEST,
        ),
        SandboxStarted(
            purpose="agent", backend="bubblewrap", sandbox_id=f"s{number}", workspace="/app",
            limits=Limits(), start_seconds=0.011,
        ),
        AgentStarted(name="policy", version="1.0.0"),
        *(AgentMessage(role="assistant", text=f"Step {n} of the plan is done.") for n in range(6)),
        *steps,
        AgentFinished(ended_by="done", exit_code=0, duration=1.25, answer=["42"]),
        ProcessesKilled(),
        ArtifactsSaved(duration=0.001),
        WorkspaceSaved(archive=blob_ref(b""), size=0, files=0, duration=0.002),
        WorkspaceHardened(duration=0.001),
        VerifierStarted(verifier="script", verifier_kind="script", digest=DIGEST, weight=1.0),
        VerifierScored(
            verifier="script", verifier_kind="script", digest=DIGEST, weight=1.0, score=reward,
            source="verifier", exit_code=0, sandbox_mode="shared", duration=0.5,
        ),
        TrialScored(
            passed=reward >= 1.0, score=reward, rewards={"reward": reward},
            reward_source="verifier", reward_valid=True,
        ),
        TrialFinished(outcome="scored"),
        SandboxRemoved(sandbox_id=f"s{number}", duration=0.1),
        SandboxRemoved(sandbox_id=f"s{number}", duration=0.1),
    ]  # fmt: skip


async def fill(path: Path, trials: int) -> None:
    """Write the log through its store."""
    async with open_log(path) as log:
        started = JobStarted(
            job="bench", folder="bench", config={"agent": "policy"}, versions={}, tasks=[],
            slots=trials, pid=1, host="bench",
        )  # fmt: skip
        version = (await log.append("job/bench", 0, [new_event(started, CLOCK, IDS)])).version
        for first in range(0, trials, AT_ONCE):
            group = range(first, min(first + AT_ONCE, trials))
            scheduled = [
                TrialScheduled(trial=trial_name(n), slot=slot(n), execution=1) for n in group
            ]
            tickets: list[Awaitable[Any]] = [
                log.append(
                    "job/bench", version, [new_event(payload, CLOCK, IDS) for payload in scheduled]
                )
            ]
            version += len(scheduled)
            payloads = {n: trial(n) for n in group}
            for at in range(0, TRIAL_EVENTS, CHUNK):
                tickets += [
                    log.append(
                        f"trial/{trial_name(n)}",
                        at,
                        [new_event(p, CLOCK, IDS) for p in payloads[n][at : at + CHUNK]],
                    )
                    for n in group
                ]
            for ticket in tickets:
                await ticket


# The floor


def rows(path: Path) -> Iterator[list[tuple[Any, ...]]]:
    """Every row, a thousand at a time."""
    connection = sqlite3.connect(path)
    cursor = connection.execute(
        "SELECT position, stream, version, kind, schema, id, at, causation, ignorable, data, hash "
        "FROM events ORDER BY position"
    )
    while batch := cursor.fetchmany(1000):
        yield batch
    connection.close()


def select(path: Path) -> int:
    """The rows alone."""
    return sum(len(batch) for batch in rows(path))


def select_and_decode(path: Path) -> int:
    """The rows, and their payloads decoded."""
    decoder = msgspec.json.Decoder(Event)
    count = 0
    for batch in rows(path):
        for row in batch:
            decoder.decode(row[9])
        count += len(batch)
    return count


# Ours


async def read_all(log: EventLog, trials: int) -> int:
    """Every event as the log's reader gives it, in the order of positions."""
    count = 0
    async for batch in log.read_all():
        count += len(batch)
    return count


async def read_and_decode(log: EventLog, trials: int) -> int:
    """The same, decoded."""
    count = 0
    async for batch in log.read_all():
        for event in batch:
            decode(event)
        count += len(batch)
    return count


async def read_trials(log: EventLog, trials: int) -> int:
    """Every trial's stream, one after the other."""
    count = 0
    for number in range(trials):
        count += len(await read_trial(log, trial_name(number)))
    return count


async def decode_trials(log: EventLog, trials: int) -> int:
    """The same, decoded."""
    count = 0
    for number in range(trials):
        for event in await read_trial(log, trial_name(number)):
            decode(event)
            count += 1
    return count


async def fold_trials(log: EventLog, trials: int) -> int:
    """The same, folded."""
    count = 0
    for number in range(trials):
        fold = TrialFold()
        events = await read_trial(log, trial_name(number))
        fold.feed(events)
        count += len(events)
        assert fold.record() is not None
    return count


async def render_trials(log: EventLog, trials: int) -> int:
    """The same, with the bytes of the four files of each."""
    count = 0
    for number in range(trials):
        fold = TrialFold()
        events = await read_trial(log, trial_name(number))
        fold.feed(events)
        count += len(events)
        view = fold.record()
        assert view is not None
        assert len(trial_files(view, {}).documents) == 4
    return count


async def one_trial(log: EventLog, trials: int) -> tuple[float, float]:
    """Seconds for one trial out of all, warm: read and folded; and its result.json rendered."""
    folded: list[float] = []
    rendered: list[float] = []
    for number in range(0, trials, max(1, trials // 200)):
        name = trial_name(number)
        await read_trial(log, name)  # warm
        before = time.perf_counter()
        fold = TrialFold()
        fold.feed(await read_trial(log, name))
        view = fold.record()
        folded.append(time.perf_counter() - before)
        assert view is not None
        trial_files(view, {})
        rendered.append(time.perf_counter() - before)
    return statistics.median(folded), statistics.median(rendered)


async def folding(log: EventLog, trials: int) -> tuple[float, float]:
    """Seconds on the processor of decoding a sample, and of folding it beside; from memory."""
    sample = [await read_trial(log, trial_name(n)) for n in range(min(trials, 500))]

    def decoded() -> int:
        return sum(decode(event) is not None for events in sample for event in events)

    def folded() -> int:
        for events in sample:
            fold = TrialFold()
            fold.feed(events)
            assert fold.record() is not None
        return len(sample)

    decoding = (await timed(decoded, 7)).cpu
    return decoding, (await timed(folded, 7)).cpu - decoding


# Measuring


class Taken(NamedTuple):
    """Seconds on the wall and on the processor. Others use this machine too, so that the first
    says little; every ratio is of the second."""

    wall: float
    cpu: float


async def timed(action: Callable[[], Awaitable[Any] | int], times: int) -> Taken:
    """The least that a call takes, of so many times."""
    found: list[Taken] = []
    for _ in range(times):
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        result = action()
        if not isinstance(result, int):
            await result
        found.append(Taken(time.perf_counter() - wall, time.process_time() - cpu))
    return min(found, key=lambda taken: taken.cpu)


async def rebuild_into(path: Path, folder: Path) -> None:
    """A whole rebuild, every file written."""
    async with open_log(path, readonly=True) as log:
        report = await rebuild(log, "bench", folder)
        assert not report.problems, report.problems[0]


def peak_memory(path: Path) -> float:
    """MiB that a process of its own needs at most for a whole rebuild."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        found = subprocess.run(
            [sys.executable, __file__, "--rebuild", str(path), folder],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
    return float(found.stdout)


async def measure(
    path: Path, trials: int, times: int
) -> tuple[dict[str, Taken], tuple[float, float, float, float]]:
    """Seconds of each way; of one trial, read and rendered; of decoding, and of folding."""
    found = {
        "SELECT": await timed(lambda: select(path), times),
        FLOOR: await timed(lambda: select_and_decode(path), times),
    }
    async with open_log(path, readonly=True) as log:
        for name, way in (
            ("read all", read_all),
            ("read all, decode", read_and_decode),
            ("read by trial", read_trials),
            ("… decode", decode_trials),
            ("… fold", fold_trials),
            ("… render four files", render_trials),
        ):
            found[name] = await timed(lambda way=way: way(log, trials), times)
        one = (*await one_trial(log, trials), *await folding(log, trials))
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        for name in ("rebuild: all that, written", "rebuild again: nothing differs"):
            found[name] = await timed(lambda: rebuild_into(path, Path(folder)), 1)
    return found, one


async def run(folder: Path, trials: int, times: int, console: Console) -> None:
    """Fill two logs, measure, and print the tables."""
    few = trials // 10
    paths = {count: folder / f"{count}.db" for count in (few, trials)}
    for count, path in paths.items():
        taken = await timed(lambda path=path, count=count: fill(path, count), 1)
        console.print(
            f"{count * TRIAL_EVENTS:,} events in {count:,} trials written: {taken.wall:.1f} s"
        )
    found, (folded, rendered, decoding, extra) = await measure(paths[trials], trials, times)
    events = trials * TRIAL_EVENTS
    table = Table("way", "wall s", "cpu s", "cpu µs an event", "ratio", title="Reading back")
    for name, taken in found.items():
        table.add_row(
            name,
            f"{taken.wall:.2f}",
            f"{taken.cpu:.2f}",
            f"{taken.cpu / events * 1e6:.2f}",
            f"{taken.cpu / found[FLOOR].cpu:.2f}",
        )
    console.print(table)
    aims = Table("aim", "found", "wanted", title="Aims")
    aims.add_row("folding to decoding", f"{extra / decoding:.2f}", "≤ 1")
    aims.add_row(f"one trial of {events:,} events, folded", f"{folded * 1e3:.2f} ms", "< 2 ms")
    aims.add_row("… with the bytes of its files", f"{rendered * 1e3:.2f} ms", "")
    small, large = peak_memory(paths[few]), peak_memory(paths[trials])
    aims.add_row(
        f"peak memory, {trials:,} to {few:,} trials",
        f"{large:.0f} to {small:.0f} MiB: {large / small:.2f}",
        "flat",
    )
    console.print(aims)


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="where the logs go; default: a temporary one")
    parser.add_argument("--small", action="store_true", help="a tenth of the trials")
    parser.add_argument("--rebuild", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rebuild:
        anyio.run(rebuild_into, *options.rebuild)
        # Not getrusage: its figure has the peak of the process that this one was forked from.
        status = Path("/proc/self/status").read_text()
        print(int(status.split("VmHWM:")[1].split()[0]) / 1024)
        return
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        trials, times = (1_000, 5) if options.small else (10_000, 2)
        anyio.run(run, folder, trials, times, Console(width=100))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
