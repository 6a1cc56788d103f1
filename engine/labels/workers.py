"""Work on many trials at once, told in order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

AT_ONCE = 48
"""Trials at once: enough that hook processes and the log's readers always have work."""


async def in_order(
    items: Sequence[ItemT],
    work: Callable[[ItemT], Awaitable[ResultT]],
    tell: Callable[[ResultT], None],
    *,
    at_once: int = AT_ONCE,
) -> None:
    """Do the work on every item, several at once, and tell each result in the items' order.

    Nobody runs far ahead of the slowest, so that few results are held. What work raises ends all.
    """
    waiting = iter(enumerate(items))
    results: dict[int, ResultT] = {}
    told = 0
    moved = anyio.Condition()

    async def worker() -> None:
        nonlocal told
        for number, item in waiting:
            async with moved:
                while number >= told + 4 * at_once:
                    await moved.wait()
            results[number] = await work(item)
            before = told
            while told in results:
                tell(results.pop(told))
                told += 1
            if told != before:
                async with moved:
                    moved.notify_all()

    async with anyio.create_task_group() as group:
        for _ in range(min(at_once, len(items))):
            group.start_soon(worker)
