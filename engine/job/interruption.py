"""What ends a job early: signals once and twice, and a cancellation through the log."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup, TaskStatus

from ...events.codec import decode_known
from ...events.kinds import JobCancelled, JobInterrupted
from ...events.log import EventLog
from .record import JobRecord
from .report import Notice, Watcher

LOOK_SEC = 0.25
GRACE_SEC = 30.0
"""What running trials get to end after the first signal."""


class Interruption:
    """Listens as long as the job has anything to clean up, so that no signal orphans a sandbox.

    Without a record there is no job that could be cancelled through the log, or be told of it.
    """

    def __init__(
        self, record: JobRecord | None, watch: Watcher, *, grace: float = GRACE_SEC
    ) -> None:
        self.draining = False
        """No new execution begins."""
        self.interrupted = False
        self.cancelled = False
        """What is cut off ends as cancelled, not as interrupted."""
        self.running = 0
        """Executions under way."""
        self.scope = anyio.CancelScope()
        """What runs in it is stopped at the second signal, or after the grace."""
        self._record = record
        self._watch = watch
        self._grace = grace

    @asynccontextmanager
    async def listening(self, log: EventLog, since: int) -> AsyncGenerator[None]:
        """Listen while the context lasts; `since` is the job's version as it went on."""
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._listen, tasks)
            if self._record is not None:
                tasks.start_soon(self._follow_cancellation, log, since, self._record)
            yield
            tasks.cancel_scope.cancel()

    async def _listen(
        self, tasks: TaskGroup, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            task_status.started()
            async for number in signals:
                if self.interrupted:
                    self._say(f"{number.name}: stopping now; removing the sandboxes, please wait")
                    self.scope.cancel()
                else:
                    self.interrupted = self.draining = True
                    self._say(
                        f"{number.name}: no new trials; {self.running} running get "
                        f"{self._grace:g} s to end. Once more stops them now"
                    )
                    tasks.start_soon(self._stop_later)
                    if self._record is not None:
                        tasks.start_soon(_note, self._record, number.name, self.running)

    def _say(self, message: str) -> None:
        self._watch(Notice(level="warning", message=message))

    async def _stop_later(self) -> None:
        await anyio.sleep(self._grace)
        self.scope.cancel()

    async def _follow_cancellation(self, log: EventLog, since: int, record: JobRecord) -> None:
        """Another process may cancel the job: it appends JobCancelled to the job's stream.

        Looked for now and then: a subscription would wake at every event of every trial.
        """
        after = since
        while True:
            for event in await log.read(record.stream, after=after):
                after = event.version
                if isinstance(decode_known(event), JobCancelled):
                    self._say("the job was cancelled")
                    self.cancelled = self.draining = True
                    self.scope.cancel()
                    return
            await anyio.sleep(LOOK_SEC)


async def _note(record: JobRecord, name: str, running: int) -> None:
    with anyio.CancelScope(shield=True):
        await record.tell(JobInterrupted(signal=name, running=running))
