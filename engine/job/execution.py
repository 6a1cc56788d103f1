"""One execution, from its sandbox to its files.

The order is the format's: sandbox, agent, end of the agent's processes, saved work, hardening,
verifier, conclusion. Three appends are awaited: before the agent acts, before the verifier does,
and at the end, before anyone is told.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable
from pathlib import Path

import anyio
import msgspec
import structlog
from anyio import to_thread

from ...events.envelope import Appended
from ...events.errors import LogError
from ...events.kinds import (
    AgentFailed,
    AgentStarted,
    ProcessesKilled,
    SandboxFailed,
    SandboxLost,
    SandboxRemoved,
    SandboxStarted,
    TrialErrored,
    TrialEvent,
    TrialFinished,
    TrialScheduled,
    TrialStarted,
    TrialUnscored,
    WarningRaised,
    WorkspaceHardened,
)
from ...events.kinds.parts import Limits
from ...projections.writer import write_trial
from ..agents import AgentContext
from ..archive import remove_tree
from ..errors import SandboxError, SandboxGone, SandboxStartTimeout
from ..sandbox.protocol import Image, Sandbox, SandboxSpec
from ..tasks.environment import resolve_env
from ..trial.decide import Cancel, Command, Conclude, Interrupt, Record
from ..trial.folders import TamperUncleared, TrialFolders
from ..trial.load import load_trial
from ..trial.record import TrialRecord, stream_of
from ..trial.saving import MEBIBYTE, Saving, save_work
from ..trial.state import Stage, TrialState
from ..trial.work import SavedWork, find_saved_work
from ..verifier.script import ScriptVerifier, run_script_verifier
from .context import JobContext
from .plan import PlannedSlot
from .report import Notice, TrialBegan, TrialEnded
from .state import slot_seed

CLOSING_SEC = 20.0
"""For the last events of a trial that is cut off."""


class TrialEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How an execution ended."""

    scheduled: TrialScheduled
    state: TrialState
    tools: int
    agent_category: str | None

    @property
    def retry_category(self) -> str | None:
        """The category by which it may be run again within the job."""
        if self.state.errored is not None:
            return self.state.errored.category
        if self.state.unscored is not None:
            return self.state.unscored.category if self.state.unscored.infrastructure else None
        return self.agent_category

    def report(self, *, will_retry: bool) -> TrialEnded:
        """What those who watch the job are told."""
        state, slot = self.state, self.scheduled.slot
        assert state.finished is not None
        problem = state.errored or state.unscored
        error = None
        if problem is not None:
            error = problem.error if isinstance(problem.error, str) else problem.category
        return TrialEnded(
            trial=self.scheduled.trial,
            task=slot.task,
            agent=slot.agent,
            model=slot.model,
            attempt=slot.attempt,
            execution=self.scheduled.execution,
            outcome=state.finished.outcome,
            passed=state.scored.passed if state.scored else None,
            reward=state.scored.score if state.scored else None,
            tools=self.tools,
            error=error,
            category=problem.category if problem else self.agent_category,
            infrastructure=state.unscored.infrastructure if state.unscored else False,
            warnings=list(state.warnings),
            will_retry=will_retry,
        )


async def execute(job: JobContext, planned: PlannedSlot, scheduled: TrialScheduled) -> TrialEnd:
    """Run, grade or finish one execution as planned; its files are written when it ends.

    A fault of one trial's ends that trial and no other; only the log's own errors are raised.
    """
    state = TrialState()
    if planned.same_stream:
        state = await load_trial(job.log, scheduled.trial)
    run = TrialRun(job, scheduled, state)
    try:
        await run.go(planned)
    except anyio.get_cancelled_exc_class():
        with anyio.move_on_after(CLOSING_SEC, shield=True):
            await run.cut_off()
        raise
    except LogError:
        raise
    except Exception as error:  # siblings must go on
        structlog.get_logger().exception("engine fault", trial=scheduled.trial)
        await run.fail(error)
    finally:
        run.release()
    await run.write_files()
    return run.end()


class TrialRun:
    """One execution under way."""

    def __init__(self, job: JobContext, scheduled: TrialScheduled, state: TrialState) -> None:
        self.job = job
        self.scheduled = scheduled
        self.trial = scheduled.trial
        self.task = job.tasks[scheduled.slot.task]
        self.settings = self.task.task.settings
        self.record = TrialRecord(job.log, self.trial, clock=job.clock, ids=job.ids, state=state)
        self.scratch = self._scratch()
        self.sandbox: Sandbox | None = None
        self.work: SavedWork | None = None
        self._newest: Awaitable[Appended] | None = None

    def _scratch(self) -> Path:
        if self.job.config.keep_sandbox:
            return self.job.folder.parent / ".kept" / self.trial
        return self.job.scratch / self.trial

    def tell(self, *events: TrialEvent) -> Awaitable[Appended]:
        """Record that these happened."""
        ticket = self._command(Record(events))
        assert ticket is not None
        return ticket

    def _command(self, *commands: Command) -> Awaitable[Appended] | None:
        ticket = self.record.tell(*commands)
        self._newest = ticket or self._newest
        return ticket

    async def go(self, planned: PlannedSlot) -> None:
        """Do what was planned, to the end of the trial."""
        match planned.action:
            case "finish":
                pass
            case "grade":
                await self._grade(planned)
            case _:
                await self._run()
        self._command(Conclude())
        if self._newest is not None:
            await self._newest

    # The agent's phase

    async def _run(self) -> None:
        job = self.job
        async with job.agent_slots:
            self._begin(continues=None)
            if not await self._start("agent", solution=self._solution(), workspace=None):
                return
            assert self.sandbox is not None
            agent = job.agents[self.scheduled.slot.agent]
            await self.tell(
                AgentStarted(
                    name=agent.name,
                    version=agent.version,
                    model=self.scheduled.slot.model,
                    digest=agent.digest,
                )
            )
            if not await self._work():
                return
            if not await self._save():
                return
        await self._judge(planted=self.image.planted_rewards)

    def _begin(self, *, continues: SavedWork | None) -> None:
        slot = self.scheduled.slot
        self.tell(
            TrialStarted(
                job=self.job.job,
                trial=self.trial,
                slot=slot,
                execution=self.scheduled.execution,
                seed=slot_seed(self.job.config, slot),
                task_digest=self.task.snapshot.digest,
                continues=continues.place if continues else None,
            )
        )
        self._announce()

    def _announce(self) -> None:
        slot = self.scheduled.slot
        self.job.watch(
            TrialBegan(
                trial=self.trial,
                task=slot.task,
                agent=slot.agent,
                stage=self.record.state.stage.name.lower(),
            )
        )

    def _solution(self) -> Path | None:
        wanted = self.job.agents[self.scheduled.slot.agent].needs_solution
        return self.task.task.solution if wanted else None

    async def _work(self) -> bool:
        """Let the agent work; False when there is nothing to grade."""
        job, settings = self.job, self.settings.agent
        assert self.sandbox is not None
        limit = settings.timeout_sec * job.config.timeout_multiplier
        context = AgentContext(
            sandbox=self.sandbox,
            folders=self.folders,
            prompt=self.task.task.prompt,
            env=dict(job.agent_env),
            solution_env=resolve_env(self.settings.solution_env, job.environ).values,
            user=settings.user,
            timeout=limit,
            idle_timeout=settings.idle_timeout_sec,
            start_timeout=job.config.start_timeout_sec,
            blobs=job.log.blobs,
            clock=job.clock,
            redactor=job.redactor,
            spool=self.folders.scratch / "agent.log",
        )
        begun = job.clock.monotonic()
        try:
            with anyio.fail_after(self._patience(limit)):
                outcome = await job.agents[self.scheduled.slot.agent].run(context)
        except TimeoutError:
            stuck = _stuck(self.sandbox, "agent")
            self.tell(
                SandboxLost(sandbox_id=self.sandbox.id, phase="agent", error=str(stuck)),
                AgentFailed(
                    error=str(stuck),
                    category=stuck.category,
                    duration=round(job.clock.monotonic() - begun, 6),
                ),
            )
            return False
        self.tell(*outcome.events, outcome.end)
        if isinstance(outcome.end, AgentFailed):
            return False
        self.tell(ProcessesKilled(processes=outcome.killed))
        return True

    def _patience(self, limit: float) -> float:
        """Seconds after which a phase that should have been stopped by its sandbox is given up."""
        config = self.job.config
        return limit + config.start_timeout_sec + config.stop_timeout_sec

    # Saving, and making the place safe

    async def _save(self) -> bool:
        job = self.job
        assert self.sandbox is not None
        what = Saving(
            workspace=self.folders.workspace,
            declared=self.settings.artifacts,
            artifacts_folder=self.folders.artifacts,
            scratch=self.scratch,
            keep_workspace=job.config.save_outputs,
            cap=job.config.workspace_cap_mb * MEBIBYTE,
            timeout=job.config.save_timeout_sec,
        )
        try:
            events = await save_work(
                self.sandbox, what, blobs=job.log.blobs, clock=job.clock, redactor=job.redactor
            )
        except SandboxGone as error:
            self._lost(error, "save")
            return False
        self.tell(*events)
        return True

    def _lost(self, error: SandboxGone, phase: str) -> None:
        assert self.sandbox is not None
        self.tell(
            SandboxLost(sandbox_id=self.sandbox.id, phase=phase, error=str(error)),
            TrialUnscored(error=str(error), category=error.category, infrastructure=True),
            TrialFinished(outcome="unscored"),
        )

    # The verifier's phase

    async def _judge(self, *, planted: dict[str, str | None]) -> None:
        job = self.job
        assert self.sandbox is not None
        begun = job.clock.monotonic()
        try:
            tampered = await self.folders.close_agent_phase(job.log.blobs, planted=planted)
        except TamperUncleared as error:
            self.tell(
                *error.found,
                TrialUnscored(error=str(error), category=error.category, infrastructure=True),
                TrialFinished(outcome="unscored"),
            )
            return
        verifier = self._verifier()
        self.tell(
            *tampered,
            WorkspaceHardened(
                removed=[found.path for found in tampered],
                duration=round(job.clock.monotonic() - begun, 6),
            ),
        )
        async with job.verifier_slots:
            await self.tell(verifier.started())
            try:
                with anyio.fail_after(self._patience(verifier.timeout)):
                    result = await run_script_verifier(
                        verifier,
                        sandbox=self.sandbox,
                        folders=self.folders,
                        blobs=job.log.blobs,
                        clock=job.clock,
                        redactor=job.redactor,
                        spool=self.folders.scratch / "verifier.log",
                    )
            except TimeoutError:
                self._lost(_stuck(self.sandbox, "verifier"), "verifier")
                return
        self._command(Record(result.events), Conclude())

    def _verifier(self) -> ScriptVerifier:
        job, settings = self.job, self.settings.verifier
        resolved = resolve_env(settings.env, job.environ)
        return ScriptVerifier(
            digest=self.task.verifier_digest,
            source=self.task.task.verifier,
            files=self.task.snapshot.files,
            settings=settings,
            env=resolved.values | dict(job.verifier_env),
            timeout=settings.timeout_sec * job.config.timeout_multiplier,
            start_timeout=job.config.start_timeout_sec,
            missing_reward=job.config.missing_reward,
        )

    async def _grade(self, planned: PlannedSlot) -> None:
        """Grade saved work in a fresh sandbox, in this stream or in a new one."""
        job = self.job
        source = self.trial if planned.same_stream else planned.trial
        assert source is not None
        self.work = await find_saved_work(job.log, stream_of(source))
        if planned.same_stream:
            self._command(Interrupt("the engine had stopped"))
            self._announce()
        else:
            self._begin(continues=self.work)
        archive = self.scratch / "saved.tar.zst"
        await to_thread.run_sync(self._make_scratch)
        await job.log.blobs.copy_to(self.work.archive, archive)
        if not await self._start("verifier", solution=None, workspace=archive):
            return
        for artifact in self.work.artifacts.artifacts if self.work.artifacts else []:
            path = self.folders.artifacts / artifact.path
            await to_thread.run_sync(_make_parent, path)
            await job.log.blobs.copy_to(artifact.blob, path)
        await self._judge(planted=self.image.planted_rewards)

    def _make_scratch(self) -> None:
        self.scratch.mkdir(mode=0o700, parents=True, exist_ok=True)

    # Sandboxes

    async def _start(self, purpose: str, *, solution: Path | None, workspace: Path | None) -> bool:
        """Have a sandbox; False when there is none, and the trial's events say why."""
        job = self.job
        begun = job.clock.monotonic()
        phase = "build"
        image: Image | None = None
        try:
            image = await self.task.image()
            phase = "start"
            begun = job.clock.monotonic()
            with anyio.fail_after(job.config.start_timeout_sec):
                self.image = image
                await self._create(image, solution=solution, workspace=workspace)
        except (SandboxError, TimeoutError, OSError) as error:
            if isinstance(error, TimeoutError):
                error = SandboxStartTimeout(f"no sandbox within {job.config.start_timeout_sec:g} s")
            self.tell(
                SandboxFailed(
                    purpose="agent" if purpose == "agent" else "verifier",
                    backend=job.backend.name,
                    image=image.name if image else self.settings.sandbox.docker_image,
                    phase="build" if phase == "build" else "start",
                    error=str(error),
                    category=error.category if isinstance(error, SandboxError) else "host_failed",
                    duration=round(job.clock.monotonic() - begun, 6),
                )
            )
            return False
        assert self.sandbox is not None
        self.tell(
            SandboxStarted(
                purpose="agent" if purpose == "agent" else "verifier",
                backend=job.backend.name,
                sandbox_id=self.sandbox.id,
                image=image.name,
                image_digest=image.digest,
                repository_digest=image.repository_digest,
                workspace=self.folders.workspace,
                limits=self._limits(),
                build_seconds=image.build_seconds,
                start_seconds=round(job.clock.monotonic() - begun, 6),
            ),
            *(WarningRaised(code=code, message=message) for code, message in self.sandbox.warnings),
        )
        return True

    async def _create(self, image: Image, *, solution: Path | None, workspace: Path | None) -> None:
        job, settings = self.job, self.settings
        workdir = settings.sandbox.workdir or image.workdir or "/app"
        self.folders = TrialFolders(self.scratch, workspace=workdir)
        await self.folders.prepare(prompt=self.task.task.prompt, solution=solution)
        resolved = resolve_env(settings.sandbox.env, job.environ)
        self.sandbox = await job.backend.create(
            SandboxSpec(
                job=job.job,
                trial=self.trial,
                log_id=job.log_id,
                image=image,
                workdir=workdir,
                env=resolved.values,
                limits=self._limits(),
                mounts=self.folders.mounts(),
                scratch=self.scratch,
                workspace=workspace,
                separate_users=(settings.agent.user or settings.verifier.user) is not None,
            )
        )

    def _limits(self) -> Limits:
        config, sandbox = self.job.config, self.settings.sandbox
        return Limits(
            cpus=config.cpus or sandbox.cpus,
            memory_mb=config.memory_mb or sandbox.memory_mb,
            storage_mb=sandbox.storage_mb,
            network=sandbox.network,
        )

    # Ends

    async def write_files(self) -> None:
        """Write the execution's files; where that fails, they can be rebuilt from the log."""
        try:
            await write_trial(self.job.log, self.trial, self.job.folder)
        except OSError as error:
            self.job.watch(
                Notice(
                    level="error",
                    message=f"the files of {self.trial} could not be written "
                    f"({error.strerror or error}); `trialog rebuild {self.job.job}` writes them",
                )
            )

    async def cut_off(self) -> None:
        """The trial was cancelled under way: say so in its stream."""
        command = Cancel() if self.job.cancelled else Interrupt("the job was interrupted")
        try:
            ticket = self._command(command)
            if ticket is not None:
                await ticket
            if self.job.cancelled:
                await self.write_files()
        except LogError as error:
            structlog.get_logger().warning(
                "interruption not recorded", trial=self.trial, why=str(error)
            )

    async def fail(self, error: Exception) -> None:
        """A fault that nobody foresaw, or the host's: it ends this trial."""
        category = "host_failed" if isinstance(error, OSError) else "engine_fault"
        what = f"{type(error).__name__}: {error}"
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            what = f"the disk is full: {error}"
        state = self.record.state
        end: list[TrialEvent]
        if state.stage is Stage.FINISHED:
            return
        if state.stage is Stage.AGENT:
            failed = AgentFailed(error=what, category=category, duration=0.0)
            end = [
                failed,
                TrialErrored(error=what, category=category),
                TrialFinished(outcome="errored"),
            ]
        elif state.stage < Stage.STOPPED and not self.work:
            end = [
                TrialErrored(error=what, category=category),
                TrialFinished(outcome="errored"),
            ]
        else:
            end = [
                TrialUnscored(error=what, category=category, infrastructure=True),
                TrialFinished(outcome="unscored"),
            ]
        await self.tell(*end)

    def release(self) -> None:
        """Give the sandbox to the reaper."""
        sandbox, self.sandbox = self.sandbox, None
        if sandbox is None:
            return
        if self.job.config.keep_sandbox:
            self.tell(SandboxRemoved(sandbox_id=sandbox.id, kept=True))
            return

        async def removed(seconds: float, error: str | None) -> None:
            await to_thread.run_sync(remove_tree, self.scratch)
            ticket = self.tell(
                SandboxRemoved(sandbox_id=sandbox.id, duration=round(seconds, 6), error=error)
            )
            try:
                await ticket
            except LogError as fault:
                structlog.get_logger().warning(
                    "removal not recorded", sandbox=sandbox.id, why=str(fault)
                )

        self.job.reaper.take(sandbox, removed)

    def end(self) -> TrialEnd:
        """How it ended."""
        state, work = self.record.state, self.work
        category = state.agent_finished.error_category if state.agent_finished else None
        return TrialEnd(
            scheduled=self.scheduled,
            state=state,
            tools=state.tools + (work.tools if work and not state.tools else 0),
            agent_category=category or (work.agent_category if work else None),
        )


def _stuck(sandbox: Sandbox, phase: str) -> SandboxGone:
    return SandboxGone(f"sandbox {sandbox.id} did not end the {phase}'s phase at its deadline")


def _make_parent(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
