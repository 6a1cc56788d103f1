"""Driving a job: slots through a pool of workers, with retries and progress."""

from __future__ import annotations

from collections.abc import Iterator

import anyio

from ...events.errors import LogUnavailable
from ...events.kinds import TrialAbandoned, TrialScheduled
from ...projections.errors import FilesUnwritable
from ...projections.writer import JobFiles
from ..collector import collect_rarely
from ..own_log import logger
from ..trial.state import Stage, TrialState
from .context import JobContext
from .ending import TrialEnd
from .execution import execute
from .folders import TrialNames
from .load import JobPlan
from .plan import Execution, PlannedSlot, forget, plan_slot, retried
from .record import JobRecord
from .report import Progress, TrialEnded
from .results import write_given_up
from .slot import AgentSlot
from .state import slot_key

SUMMARY_EVERY_SEC = 5.0


class Driver:
    """Runs the planned slots of one job to their ends."""

    def __init__(
        self,
        context: JobContext,
        plan: JobPlan,
        record: JobRecord,
        files: JobFiles,
    ) -> None:
        self.context = context
        self._record = record
        self._files = files
        self._plan = plan.slots
        self._executions = plan.executions
        self._done = 0
        self._names = TrialNames(context.log, context.ids)
        self._under_way: set[str] = set()
        """Executions that this process works on."""
        self._counts = {"scored": 0, "passed": 0, "errored": 0, "unscored": 0}

    async def run(self) -> None:
        """Run until every slot has ended or the job was told to stop."""
        context = self.context
        work = [p for p in self._plan if p.action in ("run", "grade", "finish")]
        self._done = len(self._plan) - len(work)
        queue = iter(work)
        self._progress()
        workers = context.config.concurrency + (
            context.config.verifiers or context.config.concurrency
        )
        async with anyio.create_task_group() as helpers:
            helpers.start_soon(self._keep_summary)
            helpers.start_soon(collect_rarely)
            with context.interruption.scope:
                async with anyio.create_task_group() as pool:
                    for _ in range(min(workers, max(len(work), 1))):
                        pool.start_soon(self._work, queue)
            helpers.cancel_scope.cancel()

    # Workers

    async def _work(self, queue: Iterator[PlannedSlot]) -> None:
        for planned in queue:
            if self.context.interruption.draining:
                return
            await self._run_slot(planned)

    async def _run_slot(self, planned: PlannedSlot) -> None:
        retries = self.context.config.retries
        while True:
            end = await self._run_once(planned)
            if end is None:
                return
            again = self._next_try(planned, end) if retries > 0 else None
            self._tell(end, will_retry=again is not None)
            if again is None:
                tries = self._executions[slot_key(planned.slot)]
                tries[:] = [forget(execution) for execution in tries]
                return
            retries -= 1
            planned = again

    async def _run_once(self, planned: PlannedSlot) -> TrialEnd | None:
        """One execution; None when the job began to stop before it could begin."""
        async with AgentSlot(self.context.agent_slots) as slot:
            if planned.action == "run":
                await slot.take()
            if self.context.interruption.draining:
                return None
            self.context.interruption.running += 1
            trial = ""
            try:
                scheduled = await self._schedule(planned)
                trial = scheduled.trial
                self._under_way.add(trial)
                self._progress()
                return await execute(self.context, planned, scheduled, slot)
            finally:
                self._under_way.discard(trial)
                self.context.interruption.running -= 1

    async def _schedule(self, planned: PlannedSlot) -> TrialScheduled:
        before = self._executions.setdefault(slot_key(planned.slot), [])
        if planned.same_stream:
            return before[-1].scheduled
        trial = await self._names.new(planned.slot.task)
        last = before[-1] if before else None
        scheduled = TrialScheduled(
            trial=trial,
            slot=planned.slot,
            execution=len(before) + 1,
            continues=last.scheduled.trial if last else None,
            reason=planned.reason if last else None,
        )
        if last and last.state.stage is not Stage.FINISHED and not last.abandoned:
            cut_off = last.scheduled.trial
            await self._record.tell(TrialAbandoned(trial=cut_off, reason=planned.reason), scheduled)
            await write_given_up(self._files, cut_off, self.context.watch)
        else:
            await self._record.tell(scheduled)
        before.append(Execution(scheduled=scheduled, state=TrialState()))
        return scheduled

    def _next_try(self, planned: PlannedSlot, end: TrialEnd) -> PlannedSlot | None:
        executions = self._executions[slot_key(planned.slot)]
        executions[-1] = Execution(scheduled=executions[-1].scheduled, state=end.state)
        category = end.retry_category
        if (
            category is None
            or self.context.interruption.draining
            or not retried(category, self.context.config.retry_on)
        ):
            return None
        if end.state.scored is not None:  # a resume would keep it; here --retry-on asks for it
            reason = f"scored, but to be tried again after {category}"
            trial = executions[-1].scheduled.trial
            return PlannedSlot(slot=planned.slot, action="run", reason=reason, trial=trial)
        again = plan_slot(planned.slot, executions, category)
        return again if again.action in ("run", "grade") else None

    def _tell(self, end: TrialEnd, *, will_retry: bool) -> None:
        report: TrialEnded = end.report(will_retry=will_retry)
        self.context.watch(report)
        if not will_retry:
            self._done += 1
            if report.outcome in self._counts:
                self._counts[report.outcome] += 1
            if report.passed:
                self._counts["passed"] += 1
        self._progress()

    def _progress(self) -> None:
        slots = len(self._plan)
        running = self.context.interruption.running
        self.context.watch(
            Progress(
                slots=slots,
                done=self._done,
                running=running,
                waiting=max(slots - self._done - running, 0),
                **self._counts,
            )
        )

    async def _keep_summary(self) -> None:
        written = -1
        while True:
            await anyio.sleep(SUMMARY_EVERY_SEC)
            if written != self._done:
                written = self._done
                try:
                    await self._files.write_summary(self._under_way)
                except (FilesUnwritable, LogUnavailable) as error:
                    logger().warning("summary not written", why=str(error))
