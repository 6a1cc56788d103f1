"""The hook processes of a job with environment tasks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

from ..hooks.protocol import Hooks
from .episode_task import EpisodeTask


@asynccontextmanager
async def open_hooks(tasks: Iterable[object], given: Hooks | None) -> AsyncGenerator[Hooks | None]:
    """What runs verifiers' code: what is given, else processes of the job's own where needed."""
    if given is not None or not any(isinstance(task, EpisodeTask) for task in tasks):
        yield given
        return
    from ..hooks.pool import HookPool

    async with HookPool() as pool:
        yield pool
