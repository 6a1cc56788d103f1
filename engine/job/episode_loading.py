"""Environment tasks from a project, on their way into a job and out of its snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...events.kinds.job import TaskSnapshot
from ...events.values import blob_ref
from ..authoring.environment import Environment
from ..authoring.verifiers import AgentVerifier, HumanVerifier
from ..hooks.protocol import HookSource
from ..projects.faults import ProjectError
from ..projects.functions import missing_functions
from ..projects.manifests import TOTAL_REWARD
from ..projects.resources import ProjectAgent, ProjectTask
from ..projects.snapshot import pack_project_task, unpack_project_task
from ..worlds.source import WorldSource
from .episode_task import EpisodeTask
from .policies import PolicyAgent


def pack_episode_task(task: ProjectTask, agents: Sequence[ProjectAgent] = ()) -> EpisodeTask:
    """A task for a new job, which runs it from its snapshot; blocks.

    Raises ConfigError, and what the authors' files raise when they are imported.
    """
    faults = [fault for each in task.verifiers for fault in missing_functions(each.manifest)]
    if faults:
        raise ProjectError(f"task {task.name!r}", faults)
    packed = pack_project_task(task, *agents)
    snapshot = TaskSnapshot(
        task=task.name,
        digest=task.digest,
        path=str(task.path),
        layout="project",
        snapshot=blob_ref(packed),
        files=task.verifier_files(),
        asking=[each.name for each in task.verifiers if each.source and may_ask(each.source)],
    )
    return from_project(task, snapshot, packed)


def open_episode_task(
    data: bytes, folder: Path, snapshot: TaskSnapshot, *, in_process: bool = True
) -> EpisodeTask:
    """The task of a snapshot, unpacked into `folder`; blocks."""
    return from_project(unpack_project_task(data, folder), snapshot, in_process=in_process)


def from_project(
    task: ProjectTask, snapshot: TaskSnapshot, packed: bytes = b"", *, in_process: bool = False
) -> EpisodeTask:
    """A project's task as a job runs it; its apps are imported only to run in this process."""
    written = [each.verifier for each in task.verifiers]
    return EpisodeTask(
        snapshot=snapshot,
        packed=packed,
        view=task.view,
        environment=task.task.environment if in_process else _limits(task),
        world=_source(task),
        sources=[each.source for each in task.verifiers if each.source is not None],
        judges=[v for v in written if isinstance(v, AgentVerifier)],
        people=[v for v in written if isinstance(v, HumanVerifier)],
        policies={
            name: PolicyAgent(name, agent.policy(), version=agent.version, digest=agent.digest)
            for name, agent in task.agents.items()
        },
        digests={each.name: each.digest for each in task.verifiers},
    )


def may_ask(source: HookSource) -> bool:
    """Whether the verifier's check may ask the apps, and so needs them alive."""
    return source.queries and isinstance(source.check, str) and source.check != TOTAL_REWARD


def _limits(task: ProjectTask) -> Environment:
    """The environment without its apps."""
    manifest = task.environment
    if manifest is None:
        return Environment()
    return Environment(
        name=manifest.name,
        max_turns=manifest.max_turns,
        max_seconds=manifest.max_seconds,
        max_cost=manifest.max_cost,
    )


def _source(task: ProjectTask) -> WorldSource | None:
    manifest = task.environment
    if manifest is None:
        return WorldSource(name="none", folder=task.path, root=task.root)
    return WorldSource(
        name=manifest.name,
        folder=manifest.folder,
        root=task.root,
        apps=manifest.apps,
        image=manifest.image,
    )
