"""An environment task in a running job."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from ...events.kinds.job import TaskSnapshot
from ...projections.episode import TaskData
from ..authoring.environment import Environment
from ..authoring.task import TaskView
from ..authoring.verifiers import AgentVerifier, HumanVerifier
from ..hooks.protocol import HookSource
from ..worlds.protocol import InProcessWorld, WorldClient
from ..worlds.source import WorldSource
from ..worlds.world import World
from .policies import PolicyAgent


class EpisodeTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task whose agent acts in an environment; what its verifiers are, by kind."""

    snapshot: TaskSnapshot
    """Its `snapshot` names `packed` once the job has stored it."""
    packed: bytes = b""
    """What a later command needs of the project, as an archive."""
    live: bool = False
    """The job runs these very objects; else it runs what is in the snapshot."""
    view: TaskView
    environment: Environment
    """Without its apps where they are not to run in this process."""
    world: WorldSource | None = None
    """Where the apps' code is, for a process of their own."""
    sources: list[HookSource] = []
    judges: list[AgentVerifier] = []
    people: list[HumanVerifier] = []
    policies: dict[str, PolicyAgent] = {}
    """The agents that came with it, by name."""
    digests: dict[str, str] = {}
    """Of judges and people, by name; a source has its own."""

    @property
    def scoring(self) -> int:
        """How many verifiers the score is put together of."""
        checks = sum(source.check is not None for source in self.sources)
        return checks + len(self.judges) + len(self.people)

    def data(self) -> TaskData:
        """The task as hooks are given it."""
        return msgspec.convert(msgspec.structs.asdict(self.view), TaskData)


class Worlds(Protocol):
    """A way to make worlds."""

    @property
    def backend(self) -> str:
        """As in SandboxStarted."""
        ...

    async def make(self, task: EpisodeTask, *, seed: int, trial: str) -> WorldClient:
        """The world of one trial; it is not reset yet. Raises SandboxError."""
        ...


class InProcessWorlds:
    """Worlds in the engine's own process: for apps that are trusted and quick."""

    backend = "in-process"

    async def make(self, task: EpisodeTask, *, seed: int, trial: str) -> WorldClient:
        """See Worlds."""
        return InProcessWorld(World(task.environment, task.view, seed=seed))


def answer_of(value: Any) -> list[Any] | None:
    """An answer as events hold it: a list of one, so that none can be told from an empty one."""
    return None if value is None else [value]
