"""Hooks in the engine's own process: for tests and trials by hand. Nothing ends a hook early."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from anyio import CapacityLimiter, from_thread, to_thread

from ..authoring.views import Query
from .asking import JobHooks
from .calls import Material
from .job import Job, answered
from .performing import perform
from .sources import Sources
from .wire import Outcome


class InlineHooks(JobHooks):
    """Runs hooks one at a time in a thread; what they are given and may give is as in HookPool."""

    def __init__(self) -> None:
        super().__init__()
        self._sources = Sources()
        self._one = CapacityLimiter(1)  # the import path is the whole process's

    async def done(self, job: Job) -> list[Outcome]:
        """See JobHooks."""
        return await to_thread.run_sync(self._run, job, limiter=self._one)

    async def done_each(self, jobs: Sequence[Job]) -> list[list[Outcome] | Exception]:
        """See JobHooks."""
        return [await self.done(job) for job in jobs]

    def _run(self, job: Job) -> list[Outcome]:
        work = job.work(1)
        material = Material(work)
        try:
            while len(work.done) < len(work.calls):
                outcome = perform(
                    self._sources, work, material, work.done, lambda index: None, _asking(job)
                )
                work.done.append(outcome)
        finally:
            self._sources.leave()
        return work.done

    async def aclose(self) -> None:
        """Nothing to end."""


def _asking(job: Job) -> Query | None:
    ask = job.ask
    if ask is None:
        return None

    def query(app: str, action: str, arguments: dict[str, Any]) -> Any:
        answer = from_thread.run(answered, ask, app, action, msgspec.json.encode(arguments))
        return answer.given()

    return query
