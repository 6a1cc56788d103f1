"""One execution of a task whose agent works in a sandbox, from that to the verdict.

The order is the format's: sandbox, agent, end of the agent's processes, saved work, hardening,
verifier, conclusion. Three appends are awaited: before the agent acts, before the verifier does,
and at the end, before anyone is told.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import anyio
from anyio import to_thread
from msgspec.structs import replace

from ...events.errors import LogError
from ...events.kinds import (
    SandboxFailed,
    SandboxLost,
    TrialEvent,
    TrialFinished,
    TrialScheduled,
    TrialUnscored,
)
from ..agents import InstalledAgent
from ..errors import SandboxError, SandboxGone, TransferFailed, WorkTooLarge
from ..own_log import logger
from ..sandbox.protocol import Sandbox
from ..tasks.environment import resolve_env
from ..tasks.model import TaskWarning
from ..trial.decide import Conclude, Interrupt, Record
from ..trial.folders import TamperUncleared
from ..trial.hardening.way import clear_the_way
from ..trial.record import stream_of
from ..trial.saving import MEBIBYTE, Saved, Saving, save_work
from ..trial.state import TrialState
from ..trial.work import SavedWork, find_saved_work
from ..verifier.script import ScriptVerifier, run_script_verifier
from .agent_at_work import AgentAtWork, stuck
from .config import MOVED, SandboxMode
from .context import JobContext
from .ending import TrialEnd, removal
from .place import Place
from .plan import PlannedSlot
from .slot import AgentSlot
from .stages import detail, stage
from .tasks import TaskInJob

WITH_KEPT = ["what kept processes write to the workspace while the test runs"]
"""What can't be put right while processes stay."""


class SandboxTrial(AgentAtWork):
    """An execution of a task whose agent works in a sandbox and whose verifier is a script."""

    def __init__(
        self,
        job: JobContext,
        scheduled: TrialScheduled,
        state: TrialState,
        slot: AgentSlot,
        task: TaskInJob,
    ) -> None:
        super().__init__(job, scheduled, state, slot, task)
        verifier = task.task.settings.verifier
        self.mode: SandboxMode = job.config.verifier_sandbox or verifier.sandbox_mode
        self._closing = 0.0
        """Seconds for putting out of the way what the agent left."""
        self.work: SavedWork | None = None

    # The order of a trial

    async def go(self, planned: PlannedSlot) -> None:
        """Do what was planned, to the end of the trial."""
        match planned.action:
            case "finish":
                pass
            case "grade":
                await self._grade(planned)
            case _:
                await self._run()
        self.command(Conclude())
        await self.settle()

    async def _run(self) -> None:
        await self._begin()
        solution = self.task.task.solution if self.agent.needs_solution else None
        detail("sandbox wanted", trial=self.trial, purpose="agent")
        told = await self.place.start("agent", solution=solution, lends_network=self.lends_network)
        if not self._made("agent", told):
            return
        assert self.place.sandbox is not None
        if not await self.let_work(self.place.sandbox):
            return
        saved = await self._save(self.place.sandbox)
        if saved is None:
            return
        self.slot.give_back()
        if self.mode == "separate":
            await self._judge_apart(saved)
        elif (removed := await self._close()) is not None:
            await self._judge(removed)

    def _made(self, purpose: str, told: Sequence[TrialEvent]) -> bool:
        """Note how a sandbox was made; False when there is none."""
        self.note(*told)
        made = self.place.sandbox
        if made is None:
            stage("no sandbox", trial=self.trial, purpose=purpose)
            return False
        stage("sandbox made", trial=self.trial, sandbox=made.id, purpose=purpose)
        return True

    async def _begin(self) -> None:
        seed = await self.seed()
        self.begin(
            self.task.snapshot.digest,
            seed=seed,
            continues=self.work.place if self.work else None,
            warnings=self._task_warnings(),
            sandbox_mode=self.mode,
        )

    def _task_warnings(self) -> list[TaskWarning]:
        settings, environ = self.task.task.settings, self.job.environ
        found = list(self.task.task.warnings)
        for env in (settings.sandbox.env, settings.verifier.env):
            found += resolve_env(env, environ).warnings
        if isinstance(self.agent, InstalledAgent):
            found += resolve_env(self.agent.env, environ).warnings
        moved = self.mode == "separate" != settings.verifier.sandbox_mode
        if moved and not settings.artifacts:
            found.append(TaskWarning("separate_without_artifacts", MOVED))
        return found

    async def _save(self, sandbox: Sandbox) -> Saved | None:
        """Save the work; None when the sandbox went away meanwhile."""
        config = self.job.config
        what = Saving(
            workspace=self.place.folders.workspace,
            declared=self.task.task.settings.artifacts,
            artifacts_folder=self.place.folders.artifacts,
            scratch=self.place.scratch,
            keep_workspace=config.save_outputs,
            cap=config.workspace_cap_mb * MEBIBYTE,
            timeout=config.save_timeout_sec,
            apart=self.mode == "separate",
        )
        job = self.job
        try:
            saved = await save_work(
                sandbox, what, blobs=job.log.blobs, clock=job.clock, redactor=job.redactor
            )
        except SandboxGone as error:
            self._lost(sandbox, error, "save")
            return None
        self.note(*saved.events)
        stage("work saved", trial=self.trial)
        return saved

    def _lost(self, sandbox: Sandbox, error: SandboxGone, phase: str) -> None:
        self.note(
            SandboxLost(sandbox_id=sandbox.id, phase=phase, error=str(error)),
            TrialUnscored(error=str(error), category=error.category, infrastructure=True),
            TrialFinished(outcome="unscored"),
        )

    async def _judge_apart(self, saved: Saved) -> None:
        """Let the verifier work in a fresh sandbox, which is given what was taken out of this one.

        The agent's own goes as soon as that is done.
        """
        removed = await self._close(needed=False) or []
        if saved.lost is not None or saved.archive is None:
            failed = WorkTooLarge if saved.too_large else TransferFailed
            self._unscored(failed("separate verifier transfer failed", saved.lost or ""))
            return
        state, blobs = self.record.state, self.job.log.blobs
        place = Place(self.job, self.task, self.trial, apart=True)
        await place.make_scratch()
        archive = place.scratch / saved.archive.name
        await to_thread.run_sync(os.rename, saved.archive, archive)
        self.release()
        self.place = place
        async with self.job.verifier_slots:
            detail("sandbox wanted", trial=self.trial, purpose="verifier")
            try:
                told = await place.start_over(archive, state.artifacts, blobs)
            except SandboxError as error:
                self._not_given(error)
                return
            if self._made("verifier", _of_a_transfer(told)):
                await self._judge_here(removed)

    async def _close(self, *, needed: bool = True) -> list[str] | None:
        """Put out of the way what the agent left for the verifier; the paths of it.

        None where that can't be done, and is `needed`: then nothing may be graded here.
        """
        begun = self.job.clock.monotonic()
        try:
            tampered = await self.place.folders.close_agent_phase(
                self.job.log.blobs, planted=self.place.image.planted_rewards
            )
        except TamperUncleared as error:
            self.note(*error.found)
            if needed:
                self._unscored(error)
            return None
        self.note(*tampered)
        self._closing = self.job.clock.monotonic() - begun
        return [found.path for found in tampered]

    def _unscored(self, error: TamperUncleared | SandboxError) -> None:
        # What an agent leaves buys it no second try.
        machine = not isinstance(error, TamperUncleared | WorkTooLarge)
        self.note(
            TrialUnscored(error=str(error), category=error.category, infrastructure=machine),
            TrialFinished(outcome="unscored"),
        )

    def _not_given(self, error: SandboxError) -> None:
        """What the sandbox was to begin with could not be brought into it."""
        if isinstance(error, SandboxGone):
            assert self.place.sandbox is not None
            self._lost(self.place.sandbox, error, "start")
        else:
            self._unscored(TransferFailed("separate verifier transfer failed", str(error)))

    async def _judge(self, removed: list[str]) -> None:
        """Let the verifier work in the sandbox that is there, once it has a slot."""
        async with self.job.verifier_slots:
            await self._judge_here(removed)

    async def _judge_here(self, removed: list[str]) -> None:
        job, place = self.job, self.place
        sandbox = place.sandbox
        assert sandbox is not None
        begun = job.clock.monotonic()
        try:
            hardened = await clear_the_way(
                sandbox,
                place.folders,
                place.image,
                self.task.task.verifier,
                blobs=job.log.blobs,
                seconds=job.config.save_timeout_sec,
            )
            if self.task.task.settings.verifier.keep_processes:
                hardened = replace(hardened, kept=WITH_KEPT)
        except TamperUncleared as error:
            self.note(*error.found)
            self._unscored(error)
            return
        except SandboxGone as error:
            self._lost(sandbox, error, "verifier")
            return
        duration = round(self._closing + job.clock.monotonic() - begun, 6)
        self.note(*hardened.events(removed, duration))
        detail("workspace hardened", trial=self.trial, removed=len(removed + hardened.removed))
        verifier = self._verifier()
        await self.tell(verifier.started())
        stage("verifier started", trial=self.trial, verifier=verifier.name)
        try:
            with anyio.fail_after(self.patience_of(verifier.timeout)):
                result = await run_script_verifier(
                    verifier,
                    sandbox=sandbox,
                    folders=place.folders,
                    blobs=job.log.blobs,
                    clock=job.clock,
                    redactor=job.redactor,
                    spool=place.scratch / "verifier.log",
                    cut_off=self.cut_phase,
                )
        except TimeoutError:
            self._lost(sandbox, stuck(sandbox, "verifier"), "verifier")
            return
        self.command(Record(result.events), Conclude())
        stage("verifier ended", trial=self.trial, verifier=verifier.name)

    def _verifier(self) -> ScriptVerifier:
        job, settings = self.job, self.task.task.settings.verifier
        return ScriptVerifier(
            digest=self.task.verifier_digest,
            source=self.task.task.verifier,
            files=self.task.snapshot.files,
            settings=settings,
            env=resolve_env(settings.env, job.environ).values | dict(job.verifier_env),
            timeout=settings.timeout_sec * job.config.timeout_multiplier,
            start_timeout=job.config.start_timeout_sec,
            missing_reward=job.config.missing_reward,
            sandbox_mode=self.mode,
        )

    async def _grade(self, planned: PlannedSlot) -> None:
        """Grade saved work in a fresh sandbox, in this stream or in a new one."""
        blobs = self.job.log.blobs
        source = self.trial if planned.same_stream else planned.trial
        assert source is not None
        self.work = await find_saved_work(self.job.log, stream_of(source))
        if planned.same_stream:
            self.command(Interrupt("the engine had stopped"))
            self.announce()
        else:
            await self._begin()
        detail("sandbox wanted", trial=self.trial, purpose="verifier")
        try:
            told = await self.place.start_restored(self.work, blobs)
        except SandboxError as error:
            self._not_given(error)
            return
        if not self._made("verifier", _of_a_transfer(told) if self.mode == "separate" else told):
            return
        if (removed := await self._close()) is not None:
            await self._judge(removed)

    # Ends

    def release(self) -> None:
        """Give the sandbox to the reaper, or leave it where it is to be kept."""

        async def removed(sandbox_id: str, seconds: float, error: str | None) -> None:
            try:
                await self.tell(removal(sandbox_id, seconds=seconds, error=error))
            except LogError as failure:
                logger().info("removal not recorded", sandbox=sandbox_id, why=str(failure))

        kept = self.place.give_up(removed)
        if kept is not None:
            self.note(removal(kept, kept=True))

    def end(self) -> TrialEnd:
        """How it ended; what the work it goes on from had is its own, too."""
        end, work = super().end(), self.work
        if work is None:
            return end
        return replace(
            end,
            tools=end.tools or work.tools,
            agent_category=end.agent_category or work.agent_category,
        )


def _of_a_transfer(told: Sequence[TrialEvent]) -> list[TrialEvent]:
    """Say it of a sandbox that could not be had because of what it was to begin with."""
    return [
        replace(event, error=f"separate verifier transfer failed: {event.error}")
        if isinstance(event, SandboxFailed) and event.category == TransferFailed.category
        else event
        for event in told
    ]
