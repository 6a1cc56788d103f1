"""An agent at work in its trial's sandbox: made ready, kept to its deadline, its end noted."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio

from ...events.kinds import AgentFailed, AgentStarted, ProcessesKilled, SandboxLost, TrialScheduled
from ...events.values import unescape
from ..agents import AgentContext, AgentOutcome, Assignment, InstalledAgent
from ..agents.chat import ChatAgent
from ..agents.installing import Prepared
from ..agents.running import run_agent
from ..errors import SandboxGone
from ..models.endpoint import KEYS
from ..sandbox.protocol import Sandbox
from ..tasks.environment import resolve_env
from ..trial.state import TrialState
from .context import JobContext
from .history import History
from .place import Place
from .slot import AgentSlot
from .stages import detail, stage
from .tasks import TaskInJob

_T = TypeVar("_T")


class AgentAtWork(History):
    """An execution of a task whose agent works in a sandbox."""

    def __init__(
        self,
        job: JobContext,
        scheduled: TrialScheduled,
        state: TrialState,
        slot: AgentSlot,
        task: TaskInJob,
    ) -> None:
        super().__init__(job, scheduled, state, slot)
        self.task = task
        self.agent = job.agents[scheduled.slot.agent]
        self.place = Place(job, task, self.trial)

    async def let_work(self, sandbox: Sandbox) -> bool:
        """Let the agent work; False when there is nothing to grade."""
        agent, limit = self.agent, self._agent_limit
        context = await self._agent_context(sandbox)
        prepared = await self._prepare_agent(context)
        if prepared is None:
            return False
        own = agent.own.model if isinstance(agent, ChatAgent) else None
        await self.tell(
            AgentStarted(
                name=agent.name, version=prepared.version or agent.version,
                model=self.scheduled.slot.model or own, digest=agent.digest,
                install=prepared.install,
            ),
            *prepared.warnings,
        )  # fmt: skip
        stage("agent started", trial=self.trial, agent=agent.name, timeout=limit)
        outcome = await self._in_time(run_agent(agent, context), limit, context)
        return outcome is not None and self._worked(outcome)

    @property
    def lends_network(self) -> bool:
        """The agent has a network while it is installed, and for nothing else."""
        agent, sandbox = self.agent, self.task.task.settings.sandbox
        wanted = isinstance(agent, InstalledAgent) and agent.network == "install"
        return wanted and not sandbox.network and self.job.config.install_network

    @property
    def _agent_limit(self) -> float:
        return self.task.task.settings.agent.timeout_sec * self.job.config.timeout_multiplier

    async def _agent_context(self, sandbox: Sandbox) -> AgentContext:
        job, settings, agent, slot = (
            self.job, self.task.task.settings, self.agent, self.scheduled.slot,
        )  # fmt: skip
        own = agent.env if isinstance(agent, InstalledAgent) else {}
        env = {**resolve_env(own, job.environ).values, **job.agent_env}
        if job.config.model_gateway == "on":  # which has them, and gives the agent another
            env = {name: value for name, value in env.items() if name not in KEYS}
        return AgentContext(
            sandbox=sandbox,
            folders=self.place.folders,
            prompt=self.task.task.prompt,
            env=env,
            solution_env=resolve_env(settings.solution_env, job.environ).values,
            user=settings.agent.user,
            timeout=self._agent_limit,
            idle_timeout=settings.agent.idle_timeout_sec,
            start_timeout=job.config.start_timeout_sec,
            patience=job.config.timeout_multiplier,
            reviews=job.review is not None,
            network=settings.sandbox.network,
            keep=settings.verifier.keep_processes,
            blobs=job.log.blobs,
            clock=job.clock,
            redactor=job.redactor,
            spool=self.place.scratch / "agent.log",
            assignment=Assignment(
                task=slot.task,
                attempt=slot.attempt,
                model=slot.model,
                parameters=unescape(slot.parameters),
                seed=await self.seed(),
            ),
            models=await self.models(),
            emit=self.emit,
            cut_off=self.cut_phase,
        )

    async def _prepare_agent(self, context: AgentContext) -> Prepared | None:
        """Have the agent ready to work; None where it can't be had."""
        agent = self.agent
        if not isinstance(agent, InstalledAgent):
            return Prepared()
        detail("agent wanted", trial=self.trial, agent=agent.name)
        prepared = await self._in_time(agent.prepare(context), agent.patience(context), context)
        if prepared is None or isinstance(prepared, Prepared):
            return prepared
        self._worked(prepared)
        return None

    async def _in_time(
        self, work: Coroutine[Any, Any, _T], limit: float, context: AgentContext
    ) -> _T | None:
        """Do something in the agent's sandbox; None where that did not end it at its deadline."""
        sandbox, clock = context.sandbox, self.job.clock
        begun = clock.monotonic()
        try:
            with anyio.fail_after(self.patience_of(limit)):
                return await work
        except TimeoutError:
            error = stuck(sandbox, "agent")
            duration = round(clock.monotonic() - begun, 6)
            self.note(
                SandboxLost(sandbox_id=sandbox.id, phase="agent", error=str(error)),
                AgentFailed(
                    error=str(error), category=error.category, duration=duration,
                    output=await self.printed(),
                ),
            )  # fmt: skip
            return None

    def _worked(self, outcome: AgentOutcome) -> bool:
        """Note how the agent's phase went; False when there is nothing to grade."""
        self.note(*outcome.events, outcome.end)
        self.note_replay()
        seconds = outcome.end.duration
        if isinstance(outcome.end, AgentFailed):
            stage("agent failed", trial=self.trial, why=outcome.end.category, seconds=seconds)
            return False
        how = outcome.end.ended_by
        stage("agent ended", trial=self.trial, ended_by=how, seconds=seconds)
        if self.task.task.settings.verifier.keep_processes:
            detail("processes kept", trial=self.trial, processes=len(outcome.killed))
            self.note(ProcessesKilled(kept=outcome.killed))
        else:
            detail("processes killed", trial=self.trial, processes=len(outcome.killed))
            self.note(ProcessesKilled(processes=outcome.killed))
        return True

    def patience_of(self, limit: float) -> float:
        """Seconds after which a phase that its sandbox should have stopped is given up."""
        config = self.job.config
        return limit + config.start_timeout_sec + config.stop_timeout_sec


def stuck(sandbox: Sandbox, phase: str) -> SandboxGone:
    """What a sandbox is that should have ended a phase and did not."""
    return SandboxGone(f"sandbox {sandbox.id} did not end the {phase}'s phase at its deadline")
