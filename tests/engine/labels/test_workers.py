"""Work on many trials at once."""

from __future__ import annotations

import anyio
import pytest

from trialog.engine.labels.workers import in_order


async def test_results_are_told_in_order() -> None:
    """Whoever is done first, results are told in the order of the items."""
    begun = anyio.Event()
    told: list[int] = []

    async def work(item: int) -> int:
        if item == 0:
            await begun.wait()  # the first is done last
        elif item == 7:
            begun.set()
        return item * 10

    await in_order(range(8), work, told.append, at_once=4)

    assert [item * 10 for item in range(8)] == told


async def test_nobody_runs_far_ahead() -> None:
    """While the first item takes long, only so many others are done."""
    going = anyio.Event()
    done: list[int] = []
    told: list[int] = []

    async def work(item: int) -> int:
        if item == 0:
            await going.wait()
        done.append(item)
        return item

    async with anyio.create_task_group() as group:
        group.start_soon(lambda: in_order(range(100), work, told.append, at_once=2))
        with anyio.fail_after(5):
            while len(done) < 7:
                await anyio.lowlevel.checkpoint()
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        assert ([], 7) == (told, len(done))
        going.set()

    assert list(range(100)) == told


async def test_a_fault_ends_all() -> None:
    """What the work raises is raised, and nothing is told past it."""
    told: list[int] = []

    async def work(item: int) -> int:
        if item == 3:
            raise ValueError("three")
        return item

    with pytest.RaisesGroup(ValueError):
        await in_order(range(10), work, told.append, at_once=1)

    assert [0, 1, 2] == told


async def test_nothing_to_do() -> None:
    """Without items nothing is told."""
    told: list[object] = []
    await in_order([], anyio.sleep, told.append)
    assert told == []
