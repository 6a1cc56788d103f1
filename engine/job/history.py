"""What every execution does alike: its stream's writing end, its files, its announcement."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Any

from ...events.envelope import Appended
from ...events.errors import LogError
from ...events.kinds import TrialEvent, TrialScheduled, TrialStarted, WarningRaised
from ...events.kinds.parts import Continues, Output
from ...projections.errors import FilesUnwritable
from ..models.models import Models
from ..models.replaying import Recording
from ..output import Captured, store_output
from ..own_log import logger
from ..tasks.model import TaskWarning
from ..trial.decide import Command, Record
from ..trial.record import TrialRecord
from ..trial.state import TrialState
from .config import SandboxMode
from .context import JobContext
from .ending import TrialEnd, commands_to_cut_off
from .replays import RecordedTrial
from .report import Notice, TrialBegan
from .slot import AgentSlot
from .stages import stage
from .state import slot_seed


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
        self._recorded: RecordedTrial | None = None
        self._recording: Recording | None = None

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

    async def recorded(self) -> RecordedTrial | None:
        """The trial whose calls answer this one's; null where models are called."""
        if self._recorded is None and self.job.replays is not None:
            self._recorded = await self.job.replays.open(self.scheduled.slot)
        return self._recorded

    async def seed(self) -> int | None:
        """The slot's seed; where the job has none, that of the trial that it replays."""
        seed = slot_seed(self.job.config, self.scheduled.slot)
        recorded = await self.recorded()
        return recorded.seed if seed is None and recorded is not None else seed

    async def models(self) -> Models:
        """What calls this trial's model, or answers for it."""
        recorded = await self.recorded()
        if recorded is None:
            return self.job.models
        self._recording = recorded.recording(self.job.log.blobs, self._as_logged)
        gateway = self.job.config.model_gateway == "on"
        return self.job.models.answered_by(self._recording, gateway=gateway)

    def _as_logged(self, request: Any) -> Any:
        redactor = self.job.redactor
        return request if redactor.empty else redactor.value(request)

    def note_replay(self) -> None:
        """Once the agent has ended: tell where its calls were not those of the record."""
        recording = self._recording
        if recording is None:
            return
        if recording.differs is not None:
            self.tell_difference(str(recording.differs))
        elif recording.left:
            message = (
                f"the agent ended with {recording.left} of the recorded trial's model calls not "
                "made"
            )
            self.note(WarningRaised(code="replay_shorter", message=message))

    def tell_difference(self, error: str) -> None:
        """Tell those who watch where a replay is not as recorded."""
        place = self.job.folder / self.trial / "replay"
        message = f"trial {self.trial}: {error}; both requests are in {place}"
        self.job.watch(Notice(level="warning", message=message))

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
        replays = self.job.replays
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
                replays=None if replays is None else replays.of(self.scheduled.slot),
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
            logger().info("cut-off not recorded", trial=self.trial, why=str(error))

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
