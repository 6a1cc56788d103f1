"""What every execution does alike: its stream's writing end, its files, its announcement."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

import structlog

from ...events.envelope import Appended
from ...events.errors import LogError
from ...events.kinds import TrialEvent, TrialScheduled, TrialStarted, WarningRaised
from ...events.kinds.parts import Continues, Output
from ...projections.errors import FilesUnwritable
from ..output import Captured, store_output
from ..tasks.model import TaskWarning
from ..trial.decide import Command, Record
from ..trial.record import TrialRecord
from ..trial.state import TrialState
from .config import SandboxMode
from .context import JobContext
from .ending import TrialEnd, commands_to_cut_off
from .report import Notice, TrialBegan
from .slot import AgentSlot
from .stages import stage


class History:
    """One execution under way, as far as its stream and its files go."""

    def __init__(
        self, job: JobContext, scheduled: TrialScheduled, state: TrialState, slot: AgentSlot
    ) -> None:
        self.job = job
        self.slot = slot
        self.scheduled = scheduled
        self.trial = scheduled.trial
        self.record = TrialRecord(job.log, self.trial, clock=job.clock, ids=job.ids, state=state)
        self._newest: Awaitable[Appended] | None = None
        self._cut: Captured | None = None

    def command(self, *commands: Command) -> None:
        """Queue what the commands lead to."""
        self._newest = self.record.tell(*commands) or self._newest

    def note(self, *events: TrialEvent) -> None:
        """Queue these events; nobody is told of them yet."""
        self.command(Record(events))

    def emit(self, event: TrialEvent) -> str:
        """Queue one event; its id."""
        self.note(event)
        return self.record.told[-1]

    async def settle(self) -> None:
        """Wait until all that was queued is durable."""
        if self._newest is not None:
            await self._newest

    async def tell(self, *events: TrialEvent) -> None:
        """Queue these events and wait until they are durable."""
        if events:
            self.note(*events)
        await self.settle()

    def begin(
        self,
        digest: str,
        *,
        seed: int | None,
        continues: Continues | None = None,
        warnings: Iterable[TaskWarning] = (),
        sandbox_mode: SandboxMode | None = None,
    ) -> None:
        """Queue TrialStarted, with what the task's author should know."""
        self.note(
            TrialStarted(
                job=self.job.job,
                trial=self.trial,
                slot=self.scheduled.slot,
                execution=self.scheduled.execution,
                seed=seed,
                task_digest=digest,
                continues=continues,
                sandbox_mode=sandbox_mode,
                review=self.job.review,
            ),
            *(WarningRaised(code=w.code, message=w.message) for w in warnings),
        )
        self.announce()

    def announce(self) -> None:
        """Tell those who watch that it goes on."""
        slot = self.scheduled.slot
        at = self.record.state.stage.name.lower()
        self.job.watch(TrialBegan(trial=self.trial, task=slot.task, agent=slot.agent, stage=at))

    def cut_phase(self, printed: Captured) -> None:
        """Keep what a phase had printed that is cut off."""
        self._cut = printed

    async def printed(self) -> Output | None:
        """What the phase that was cut off had printed, stored."""
        if self._cut is None:
            return None
        return await store_output(self.job.log.blobs, self._cut)

    async def cut_off(self) -> None:
        """The trial was cancelled under way: say so in its stream."""
        cancelled = self.job.interruption.cancelled
        try:
            output = await self.printed()
            self.command(*commands_to_cut_off(cancelled=cancelled, output=output))
            await self.settle()
            if cancelled:
                await self.write_files()
                self.job.watch(self.end().report(will_retry=False))
        except LogError as error:
            structlog.get_logger().info("cut-off not recorded", trial=self.trial, why=str(error))

    def release(self) -> None:
        """Give back what the execution held of the machine."""

    async def write_files(self) -> None:
        """Write the execution's files; where that fails, they can be rebuilt from the log."""
        try:
            report = await self.job.files.write_trial(self.trial)
        except FilesUnwritable as error:
            self.job.watch(Notice(level="error", message=str(error)))
        else:
            stage("files written", trial=self.trial)
            for problem in report.problems:
                self.job.watch(Notice(level="error", message=str(problem)))

    def end(self) -> TrialEnd:
        """How it ended."""
        state = self.record.state
        category = state.agent_finished.error_category if state.agent_finished else None
        return TrialEnd(
            scheduled=self.scheduled, state=state, tools=state.tools, agent_category=category
        )
