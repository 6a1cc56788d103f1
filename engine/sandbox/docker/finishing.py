"""A call that makes something is never left half-way: what it made is known, or undone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")

GRACE = 3.0
"""Seconds that a cancelled caller waits for the engine's answer, and for the undoing."""


async def finished(
    make: Callable[[], Awaitable[T]],
    undo: Callable[[T], Awaitable[None]],
    abandon: Callable[[], None],
) -> T:
    """Await `make`; when that is cancelled, wait for its answer and undo what it made.

    When the answer does not come in time either, `abandon` is told.
    """
    made: list[T] = []
    faults: list[Exception] = []
    over = anyio.Event()
    making = anyio.CancelScope(shield=True)

    async def run() -> None:
        with making:
            try:
                made.append(await make())
            except Exception as error:
                faults.append(error)
        over.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        try:
            await over.wait()
        except anyio.get_cancelled_exc_class():
            making.deadline = anyio.current_time() + GRACE
            with anyio.CancelScope(shield=True):
                await over.wait()
                if making.cancelled_caught:
                    abandon()
                with anyio.move_on_after(GRACE):
                    for one in made:
                        await undo(one)
            raise
    if faults:
        raise faults[0]
    return made[0]
