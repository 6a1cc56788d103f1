"""One execution of an environment task: the episode, its rewards, its verdicts, its credit."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import anyio
import msgspec
from msgspec.structs import replace

from ...events.kinds import (
    AgentFailed,
    AgentFinished,
    AgentStarted,
    ProcessesKilled,
    SandboxFailed,
    SandboxStarted,
    TrialScheduled,
)
from ...events.kinds.parts import Limits
from ...events.values import json_bytes, unescape
from ..agents.chat import CHAT, ChatPolicy
from ..agents.chat.calls import ModelFailed, Stopped
from ..agents.chat.policy import ChatAction
from ..authoring.policy import Action, Answer
from ..errors import SandboxError
from ..models.endpoint import ModelUnavailable
from ..trial.decide import Conclude
from ..trial.record import stream_of
from ..trial.state import TrialState
from ..trial.work import find_episode
from ..worlds.protocol import WorldClient
from ..worlds.world import Acted, AppFault
from .context import JobContext
from .episode_judging import EpisodeJudging
from .episode_record import EpisodeRecord
from .episode_task import EpisodeTask, answer_of
from .history import History
from .plan import PlannedSlot
from .policies import CHAT_AGENT, NOP, PolicyAgent
from .slot import AgentSlot

EndedBy = Literal[
    "done", "answer", "agent_exit", "max_turns", "max_seconds", "max_cost", "terminated",
    "truncated", "agent_timeout", "idle_timeout",
]  # fmt: skip


class Played(NamedTuple):
    """How an episode came to its end."""

    ended_by: EndedBy
    terminated: bool = False
    truncated: bool = False
    reason: str | None = None
    answer: list[Any] | None = None
    error: str | None = None
    category: str | None = None


class EpisodeTrial(History):
    """The agent acts in a world; hooks reward each step; verifiers judge the end."""

    def __init__(
        self,
        job: JobContext,
        scheduled: TrialScheduled,
        state: TrialState,
        slot: AgentSlot,
        task: EpisodeTask,
    ) -> None:
        super().__init__(job, scheduled, state, slot)
        self.task = task
        self.record_of = EpisodeRecord(self, task.data())
        self.judging = EpisodeJudging(self, task, self.record_of)

    async def go(self, planned: PlannedSlot) -> None:
        """Do what was planned, to the end of the trial or until it waits for people."""
        if planned.action == "run":
            await self._run()
        else:
            if not planned.same_stream:
                await self._go_on_from(planned.trial)
            await self.judging.finish_stored()
        await self.settle()

    async def _go_on_from(self, trial: str | None) -> None:
        """Begin with the episode that an earlier execution recorded."""
        assert trial is not None
        found = await find_episode(self.job.log, stream_of(trial))
        self.record.state = found.state
        self.begin(self.task.snapshot.digest, seed=found.seed, continues=found.place)
        await self.settle()

    async def _run(self) -> None:
        job = self.job
        seed = await self.seed()
        seed = secrets.randbits(32) if seed is None else seed
        self.begin(self.task.snapshot.digest, seed=seed)
        begun = job.clock.monotonic()
        try:
            world = await job.worlds.make(self.task, seed=seed, trial=self.trial)
            reset = await world.reset()
        except (SandboxError, AppFault) as error:
            self.note(
                SandboxFailed(
                    purpose="agent", backend=job.worlds.backend, phase="start",
                    error=await self.record_of.text(str(error)), category=error.category,
                    duration=round(job.clock.monotonic() - begun, 6),
                )
            )  # fmt: skip
            self.command(Conclude())
            return
        slot = self.scheduled.slot
        agent = self._agent()
        self.note(
            SandboxStarted(
                purpose="agent", backend=job.worlds.backend, sandbox_id=self.trial, workspace="",
                limits=Limits(), start_seconds=round(job.clock.monotonic() - begun, 6),
            ),
            AgentStarted(
                name=agent.name, version=agent.version, digest=agent.digest,
                model=slot.model or (agent.own.model if agent.own else None),
            ),
        )  # fmt: skip
        try:
            await self.record_of.reset(reset, seed)
            begun = job.clock.monotonic()
            try:
                played = await self._play(world, reset.observation)
                final = await world.final()
            except (AppFault, SandboxError, ModelFailed, ModelUnavailable) as error:
                duration = round(job.clock.monotonic() - begun, 6)
                text = await self.record_of.text(str(error))
                self.note(AgentFailed(error=text, category=error.category, duration=duration))
                self.note_replay()
                self.command(Conclude())
                return
            ended = await self.record_of.ended(
                final, terminated=played.terminated, truncated=played.truncated,
                reason=played.reason, answer=played.answer,
            )  # fmt: skip
            finished = AgentFinished(
                ended_by=played.ended_by,
                answer=ended.answer,
                error=None if played.error is None else await self.record_of.text(played.error),
                error_category=played.category,
                duration=round(job.clock.monotonic() - begun, 6),
            )
            self.slot.give_back()
            self.note_replay()
            await self.judging.run(world, [ended, finished, ProcessesKilled()])
        finally:
            with anyio.CancelScope(shield=True):
                await world.aclose()

    def _agent(self) -> PolicyAgent:
        name = self.scheduled.slot.agent
        given = self.job.policies.get(name) or self.task.policies.get(name)
        return given or (CHAT_AGENT if name == CHAT else NOP)

    async def _policy(self) -> Any:
        agent = self._agent()
        job, slot = self.job, self.scheduled.slot
        if agent.own is None:
            return agent(slot.model, unescape(slot.parameters))
        models = await self.models()
        models.client()
        model = slot.model or agent.own.model
        assert model is not None  # a job without one was refused
        limits = models.limits
        limits = replace(limits, cost=_least(limits.cost, self.task.environment.max_cost))
        return ChatPolicy(
            model, models, self.record_of, job.clock, unescape(slot.parameters),
            limits, agent.own.tools,
        )  # fmt: skip

    def _seconds(self) -> float | None:
        own = self.job.models.limits.seconds if self._agent().own else None
        return _least(own, self.task.environment.max_seconds)

    async def _play(self, world: WorldClient, first: Any) -> Played:
        """Let the agent act until the episode ends."""
        limits = self.task.environment
        act = _actor(await self._policy())
        actions = await world.actions()
        observation: Any = {"instructions": self.task.view.instructions, "observation": first}
        turn = 0
        with anyio.move_on_after(self._seconds()), anyio.CancelScope() as acting:
            while limits.max_turns is None or turn < limits.max_turns:
                try:
                    choice = _as_data(await act(observation, actions))
                except Stopped as stopped:
                    return Played(
                        stopped.ended_by, truncated=True, reason=stopped.category,
                        error=str(stopped), category=stopped.category,
                    )  # fmt: skip
                except ModelFailed:
                    raise
                except Exception as raised:  # a failing agent is an event
                    return _broke(f"{type(raised).__name__}: {raised}")
                match choice:
                    case Answer(value):
                        return Played("answer", answer=answer_of(value))
                    case Action():
                        turn += 1
                        ended, observation = await self._step(world, choice, acting)
                        if ended is not None:
                            return ended
                    case _:
                        kind = type(choice).__name__
                        error = f"the policy gave {kind} in place of an Action or an Answer"
                        return _broke(error)
            return Played("max_turns", truncated=True, reason="max_turns")
        return Played("max_seconds", truncated=True, reason="max_seconds")

    async def _step(
        self, world: WorldClient, choice: Action, acting: anyio.CancelScope
    ) -> tuple[Played | None, Any]:
        acting.shield = True  # an action that has begun is recorded
        try:
            acted = await self._act(world, choice)
        finally:
            acting.shield = False
        observation = acted.observation if acted.error is None else {"error": acted.error}
        if acted.terminated:
            return Played("terminated", terminated=True), observation
        if acted.truncated:
            return Played("truncated", truncated=True, reason="app"), observation
        return None, observation

    async def _act(self, world: WorldClient, choice: Action) -> Acted:
        clock = self.job.clock
        started_at, begun = clock.now(), clock.monotonic()
        acted = await world.act(choice.name, choice.arguments, choice.app)
        called = choice if isinstance(choice, ChatAction) else ChatAction(choice.name)
        number = await self.record_of.step(
            acted, started_at, clock.monotonic() - begun,
            tool_call=called.tool_call, model_call=called.model_call,
        )  # fmt: skip
        await self.judging.reward_now(world, number)
        return acted


def _as_data(choice: Any) -> Any:
    """A policy's choice as the log will have it; what is none is left to the caller.

    Raises ValueError for one that is no JSON data.
    """
    if not isinstance(choice, Action | Answer):
        return choice
    try:
        return msgspec.json.decode(json_bytes(choice), type=type(choice))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"the policy's {type(choice).__name__} is no JSON data: {error}") from None


def _broke(error: str) -> Played:
    return Played("agent_exit", error=error, category="agent_exit")


def _least(one: float | None, other: float | None) -> float | None:
    return min((limit for limit in (one, other) if limit is not None), default=None)


def _actor(policy: Any) -> Callable[[Any, Sequence[Any]], Any]:
    """The policy's `act`, or the function that it is."""
    act = getattr(policy, "act", policy)

    async def call(observation: Any, actions: Sequence[Any]) -> Any:
        given = act(observation, actions)
        return await given if inspect.isawaitable(given) else given

    return call
