"""``agent:PATH``: an agent that a manifest describes, installed in each trial's sandbox.

The manifest and the files beside it are read once, when the job starts, and kept as one archive:
so every trial runs the same bytes, those of a resume too.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from anyio import to_thread

from ..errors import ConfigError, TaskError
from ..models.own import OwnModel
from ..projects.faults import ProjectError
from ..projects.files import folder_entries
from ..projects.manifests import is_own_program, read_agent
from ..projects.model import AgentManifest, Network
from ..projects.project import project_root
from ..projects.reader import Faults
from ..tasks.digest import digest as digest_of
from ..tasks.files import Entry
from ..tasks.snapshot import extract, pack_entries
from ..trial.folders import AGENT_FOLDER
from .acp import require_package, run_acp
from .chat import ChatAgent
from .installing import VERSION_SEC, Installer, Prepared
from .program import not_copied, program_environment, words_to_run
from .protocol import AgentContext, AgentOutcome
from .reporting import run_reporting

MANIFEST = "agent.yaml"

BUILT_IN = ("oracle", "nop", "chat")
"""Names that are not to be had, or a reader of results could not tell who worked."""

FILES_CAP = 256 * 1024 * 1024
"""Bytes of an agent's files together."""

HOME = "home"
"""Below the agent's own folder of logs: what is installed may go there."""


class InstalledAgent:
    """An agent by its manifest."""

    needs_solution = False
    takes_settings = True

    def __init__(self, manifest: AgentManifest, packed: bytes, digest: str | None) -> None:
        assert manifest.command is not None, "a manifest of another kind is refused before"
        self.manifest = manifest
        self.name = manifest.name
        self.version = manifest.version if isinstance(manifest.version, str) else None
        self.program: bytes | None = packed
        self.digest = digest
        self._packed = packed
        self._command = manifest.command

    @classmethod
    def load(cls, place: Path) -> InstalledAgent | ChatAgent:
        """Read an agent's folder, or the manifest in it; blocks. An agent that is a model is a
        `chat` of its own name. Raises ConfigError."""
        folder = (place.parent if place.name == MANIFEST else place).resolve()
        if not (folder / MANIFEST).is_file():
            raise ConfigError(
                f"there is no {MANIFEST}; give the path of an agent's folder", file=str(place)
            )
        # Links may lead to other files of the project, but not out of it.
        root = (project_root(folder) or folder).resolve()
        manifest = _read(folder / MANIFEST, root)
        if manifest.protocol == "acp":
            require_package()
        entries = _entries(folder, root)
        size = sum(entry.place.stat().st_size for entry in entries)
        if size > FILES_CAP:
            raise ConfigError(
                f"its files are {size} bytes, and {FILES_CAP // 2**20} MiB at most are copied into "
                "a sandbox; fetch what is large with `install`",
                file=folder,
            )
        digest = digest_of(entries)
        packed = pack_entries(entries)
        if digest_of(_entries(folder, root)) != digest:
            raise ConfigError("its files changed while they were read; try again", file=folder)
        return _made(manifest, packed, digest)

    @classmethod
    def unpack(cls, name: str, packed: bytes, digest: str | None) -> InstalledAgent | ChatAgent:
        """An agent from a job's archive of it; blocks. Raises ConfigError."""
        with tempfile.TemporaryDirectory(prefix="trialog-agent-") as made:
            folder = Path(made).resolve() / name
            extract(packed, folder, name=f"agent {name}")
            return _made(_read(folder / MANIFEST, folder), packed, digest)

    @property
    def network(self) -> Network:
        """When it needs one."""
        return self.manifest.network

    @property
    def env(self) -> dict[str, str]:
        """The manifest's variables, with `${VAR}` as they are written."""
        return self.manifest.env

    def patience(self, context: AgentContext) -> float:
        """Seconds that `prepare` may take at most."""
        return self.manifest.install_timeout_sec * context.patience + VERSION_SEC

    async def prepare(self, context: AgentContext) -> Prepared | AgentOutcome:
        """Copy the files in, install and ask the version; an outcome where it can't be used."""
        began = context.clock.monotonic()
        try:
            await to_thread.run_sync(self._put, context)
        except (OSError, TaskError) as error:
            return not_copied(context, error, began)
        return await Installer(context, self.manifest, self._environment(context)).run()

    async def run(self, context: AgentContext) -> AgentOutcome:
        """Let it work in the workspace."""
        began = context.clock.monotonic()
        try:
            argv = await to_thread.run_sync(self._argv, context)
        except (OSError, TaskError) as error:
            return not_copied(context, error, began)
        if self.manifest.protocol == "acp":
            return await run_acp(context, argv, self._environment(context))
        return await run_reporting(context, self.name, argv, self._environment(context))

    def _environment(self, context: AgentContext) -> dict[str, str]:
        return program_environment(context) | {
            "TRIALOG_AGENT_DIR": context.folders.inside(context.folders.program),
            "TRIALOG_AGENT_HOME": f"{AGENT_FOLDER}/{HOME}",
        }

    def _argv(self, context: AgentContext) -> list[str]:
        if isinstance(self._command, str):
            return ["/bin/sh", "-c", self._command]
        first, *rest = self._command
        if not is_own_program(first):
            return self._command
        program = context.folders.program / first
        return [*words_to_run(program, context.folders.inside(program)), *rest]

    def _put(self, context: AgentContext) -> None:
        folders = context.folders
        folders.put_run(context.assignment.document())
        extract(self._packed, folders.program, name=f"agent {self.name}")
        for place, _, files in os.walk(folders.program):
            Path(place).chmod(0o755)
            for name in files:
                file = Path(place, name)
                mode = stat.S_IMODE(file.stat().st_mode)
                file.chmod(0o755 if mode & 0o100 else 0o644)  # whoever the agent runs as
        home = folders.agent_logs / HOME
        home.mkdir()
        home.chmod(0o777)


def _made(manifest: AgentManifest, packed: bytes, digest: str | None) -> InstalledAgent | ChatAgent:
    if manifest.model is None:
        return InstalledAgent(manifest, packed, digest)
    own = OwnModel(model=manifest.model, tools=manifest.tools)
    return ChatAgent(own, name=manifest.name, program=packed, digest=digest)


def _read(file: Path, root: Path) -> AgentManifest:
    faults = Faults()
    manifest = read_agent(file, root, faults)
    if manifest is None or faults.found:
        raise ProjectError(f"agent {file.parent.name!r}", faults.found)
    if manifest.name in BUILT_IN:
        raise ConfigError(
            f"{manifest.name} is an agent of trialog's; give the folder and `name` another name",
            file=file, key="name",
        )  # fmt: skip
    if manifest.python is not None:
        raise ConfigError(
            f"agent {manifest.name!r} is a policy for environments and can't work in a sandbox",
            file=file,
        )
    return manifest


def _entries(folder: Path, root: Path) -> list[Entry]:
    base = folder.relative_to(root).as_posix()
    return [
        entry._replace(path=entry.path.removeprefix(f"{base}/"))
        for entry in folder_entries(folder, root)
    ]
