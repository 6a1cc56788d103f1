"""Full collections of garbage while much is in flight."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import anyio
import pytest

from trialog.engine import collector
from trialog.engine.collector import collect_rarely


class Node:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[tuple[int, int, int]]:
    """As they were, whatever a test does."""
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)


async def test_python_starts_no_full_collection_while_it_runs_and_does_afterwards(
    thresholds: tuple[int, int, int],
) -> None:
    """The thresholds are the process's own, so the last one to end puts them back."""
    during = (max(collector.YOUNG, thresholds[0]), thresholds[1], collector.NEVER)
    async with anyio.create_task_group() as outer:
        outer.start_soon(collect_rarely)
        async with anyio.create_task_group() as inner:
            inner.start_soon(collect_rarely)
            await anyio.wait_all_tasks_blocked()
            assert during == gc.get_threshold()
            inner.cancel_scope.cancel()
        assert during == gc.get_threshold()
        outer.cancel_scope.cancel()
    assert thresholds == gc.get_threshold()


async def test_work_that_holds_much_for_a_short_while_is_looked_through_less_often() -> None:
    """Whoever frees it without the collector's help says how much that is."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(collect_rarely, 12_345)
        await anyio.wait_all_tasks_blocked()
        assert gc.get_threshold()[0] == 12_345
        tasks.cancel_scope.cancel()


async def test_a_collector_that_was_turned_off_stays_off() -> None:
    """By its thresholds, as the standard library documents it."""
    gc.set_threshold(0, 10, 10)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(collect_rarely)
        await anyio.wait_all_tasks_blocked()
        assert (0, 10, 10) == gc.get_threshold()
        tasks.cancel_scope.cancel()


async def test_garbage_that_lived_long_is_still_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """By full collections of our own, once there was enough to look through."""
    monkeypatch.setattr(collector, "LEAST_SEC", 0.0)
    monkeypatch.setattr(collector, "_LOOK_SEC", 0.001)
    monkeypatch.setattr(collector, "_WORTHWHILE", 1)
    collected = anyio.Event()
    gone = weakref.finalize(_lived_long(), collected.set)
    assert gone.alive
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(collect_rarely)
        with anyio.fail_after(30):
            while not collected.is_set():
                gc.collect(1)  # as allocations would
                await anyio.sleep(0.001)
        tasks.cancel_scope.cancel()


def _lived_long() -> Node:
    node = Node()
    gc.collect()  # it is of the oldest now
    return node
