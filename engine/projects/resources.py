"""What is loaded from a project: a task with all that it leads to, a verifier, an agent."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import msgspec

from ..authoring.environment import Environment
from ..authoring.task import Task, TaskView
from ..authoring.verifiers import (
    AgentVerifier,
    DeterministicVerifier,
    HumanVerifier,
    Verifier,
    total_reward,
)
from ..errors import ConfigError
from ..hooks.protocol import HookSource
from ..models.own import OwnModel
from ..tasks.digest import file_digests
from ..tasks.files import Entry
from .environments import authored_environment
from .faults import imports
from .files import (
    Coded,
    entries_digest,
    folder_entries,
    may_query,
    resource_entries,
    verifier_digest,
)
from .importing import LazyFunction, Space
from .manifests import TOTAL_REWARD
from .model import AgentManifest, EnvironmentManifest, TaskManifest, VerifierManifest

if TYPE_CHECKING:
    from .project import Project


class ProjectVerifier(msgspec.Struct, frozen=True, kw_only=True):
    """A verifier of a task."""

    manifest: VerifierManifest
    digest: str
    """Goes with every event that the verifier causes."""
    source: HookSource | None
    """Where its code is; null for judges and people."""
    verifier: Verifier
    """As an author would write it in Python; functions are imported when they are first called."""

    @property
    def name(self) -> str:
        """What its rewards and score are recorded under."""
        return self.manifest.name


class ProjectAgent:
    """An agent of a project."""

    def __init__(self, project: Project, manifest: AgentManifest) -> None:
        self.project = project
        self.manifest = manifest
        self.name = manifest.name
        self.version = manifest.version if isinstance(manifest.version, str) else None
        self.entries = resource_entries(manifest, project.root)
        self.digest = entries_digest(self.entries)

    def policy(self) -> Any:
        """Its policy: a class, or an async function, imported now; or the model that it is.

        Raises ConfigError for what can't act in an environment, and ProjectError, with file and
        line, for a file that can't be imported.
        """
        manifest = self.manifest
        if manifest.model is not None:
            return OwnModel(model=manifest.model, tools=manifest.tools)
        if manifest.python is None:
            raise ConfigError(
                f"agent {self.name!r} is installed in a sandbox, and can't act in an environment; "
                "an agent with `python: policy.py:Class` can",
                file=manifest.file,
            )
        with imports(
            f"agent {self.name!r}", self.project.root, manifest.file, manifest.line("python")
        ):
            return self.project.space(manifest.folder).load(manifest.python)


class ProjectTask:
    """A task of a project, with all that it leads to. Nothing is imported until it is asked for."""

    def __init__(
        self,
        project: Project,
        manifest: TaskManifest,
        environment: EnvironmentManifest | None,
        verifiers: list[ProjectVerifier],
    ) -> None:
        self.project = project
        self.manifest = manifest
        self.environment = environment
        self.verifiers = verifiers
        self.name = manifest.name
        self.path = manifest.folder
        self.root = project.root
        self.entries = self._entries()
        """Every file of the project that the task is made of, by its path from the root."""
        self.digest = entries_digest(self.entries)
        self.view = TaskView(
            name=manifest.name,
            instructions=manifest.instructions,
            info=manifest.info,
            metadata=manifest.metadata,
            expected=manifest.expected,
            initial_state=manifest.initial_state,
        )
        self.agents: dict[str, ProjectAgent] = {}
        """The agents that came with a snapshot, by name."""

    @property
    def image(self) -> str | None:
        """The image of the sandbox that its apps run in."""
        return self.environment.image if self.environment else None

    def verifier_files(self) -> dict[str, str]:
        """The SHA-256 (hex) of each file of its verifiers, by the path from the root."""
        found: dict[str, Entry] = {}
        for verifier in self.verifiers:
            for entry in resource_entries(verifier.manifest, self.root):
                found[entry.path] = entry
        return file_digests(found[path] for path in sorted(found))

    @functools.cached_property
    def task(self) -> Task:
        """The task as an author would write it in Python; imports its apps.

        Raises ConfigError, and ProjectError, with file and line, for apps that can't be imported.
        """
        environment = Environment()
        manifest = self.environment
        if manifest is not None:
            with imports(f"task {self.name!r}", self.root, manifest.file, manifest.line("apps")):
                environment = authored_environment(manifest, self.project.space(manifest.folder))
        return Task(
            self.name,
            self.view.instructions,
            environment=environment,
            verifiers=[each.verifier for each in self.verifiers],
            expected=self.view.expected,
            info=self.view.info,
            metadata=self.view.metadata,
            initial_state=self.view.initial_state,
        )

    def _entries(self) -> list[Entry]:
        found = {entry.path: entry for entry in folder_entries(self.path, self.root)}
        coded: list[Coded] = [each.manifest for each in self.verifiers]
        if self.environment is not None:
            coded.append(self.environment)
        for manifest in coded:
            found.update({entry.path: entry for entry in resource_entries(manifest, self.root)})
        return sorted(found.values(), key=lambda entry: entry.key)


def project_verifier(project: Project, manifest: VerifierManifest) -> ProjectVerifier:
    """A verifier from its manifest. Raises TaskError and SourceError for what can't be read."""
    digest = verifier_digest(manifest, project.root)
    if manifest.kind != "deterministic":
        return ProjectVerifier(
            manifest=manifest, digest=digest, source=None, verifier=_rubric(manifest)
        )
    source = HookSource(
        name=manifest.name,
        version=manifest.version,
        digest=digest,
        weight=manifest.weight,
        timeout_sec=manifest.timeout_sec,
        folder=manifest.folder,
        root=project.root,
        check=manifest.check,
        reward=manifest.reward,
        hindsight=manifest.hindsight,
        queries=may_query(manifest, project.root),
    )
    verifier = _deterministic(manifest, project.space(manifest.folder))
    return ProjectVerifier(manifest=manifest, digest=digest, source=source, verifier=verifier)


def _rubric(manifest: VerifierManifest) -> Verifier:
    if manifest.kind == "human":
        return HumanVerifier(
            manifest.name,
            instructions=manifest.instructions,
            criteria=manifest.criteria,
            version=manifest.version,
            weight=manifest.weight,
        )
    assert manifest.model is not None, "a manifest without a model is a fault"
    return AgentVerifier(
        manifest.name,
        model=manifest.model,
        instructions=manifest.instructions,
        criteria=manifest.criteria,
        samples=manifest.samples,
        max_cost=manifest.max_cost,
        version=manifest.version,
        weight=manifest.weight,
        timeout_sec=manifest.timeout_sec,
    )


def _deterministic(manifest: VerifierManifest, space: Space) -> DeterministicVerifier:
    def function(reference: str | None) -> LazyFunction | None:
        return None if reference is None else LazyFunction(space, reference)

    check: Any = manifest.check
    if check == TOTAL_REWARD:
        check = total_reward
    elif isinstance(check, str):
        check = function(check)
    return DeterministicVerifier(
        manifest.name,
        check=check,
        reward=function(manifest.reward),
        hindsight=function(manifest.hindsight),
        version=manifest.version,
        weight=manifest.weight,
        timeout_sec=manifest.timeout_sec,
        folder=manifest.folder,
    )
