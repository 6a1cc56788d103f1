"""Doing something beside something else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup

_T = TypeVar("_T")


async def in_group(work: Callable[[TaskGroup], Awaitable[_T]]) -> _T:
    """Do the work, and what it starts in the group as long as that takes.

    A fault that is the only one is raised as if there had been no group.
    """
    done: list[_T] = []
    try:
        async with anyio.create_task_group() as group:
            done.append(await work(group))
            group.cancel_scope.cancel()
    except ExceptionGroup as faults:
        first, *others = faults.exceptions
        if others:
            raise
        raise first from None
    return done[0]


async def beside(
    other: Callable[[], Coroutine[Any, Any, None]], work: Callable[[], Awaitable[_T]]
) -> _T:
    """Do the work, and the other thing as long as that takes."""

    async def both(group: TaskGroup) -> _T:
        group.start_soon(other)
        return await work()

    return await in_group(both)
