"""Agents by the names that a job is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ..errors import ConfigError
from .acp import AcpAgent, require_package
from .chat import ChatAgent
from .command import CommandAgent
from .installed import MANIFEST, InstalledAgent
from .nop import Nop
from .oracle import Oracle
from .protocol import Agent

_KNOWN = (
    "oracle (runs the reference solution), nop (does nothing), "
    "chat (lets a model work through a shell), command:PATH (runs a program of this machine), "
    "agent:PATH (installs what an agent.yaml describes), "
    "acp:COMMAND (speaks the Agent Client Protocol in the sandbox)"
)

_EXAMPLES = {
    "command": ("a path", "command:./agent.py"),
    "agent": ("a path", "agent:./agents/mine"),
    "acp": ("a command", "'acp:my-agent --acp'"),
}


def agent_name(spec: str) -> str:
    """The one spelling of an agent's name: ``command:./agents/x`` is ``command:agents/x``.

    A relative path stays relative; ``~`` is the user's home. The bare path of an agent's folder or
    manifest is that of an ``agent:``. What is wrong with a name is left to `agent_by_name`.
    """
    kind, colon, path = spec.partition(":")
    if kind == "command" and path:
        return f"{kind}{colon}{_expanded(path)}"
    if kind == "agent" and path:
        return f"{kind}{colon}{_folder(path)}"
    if kind != "acp" and ("/" in spec or spec == MANIFEST):
        folder = _folder(spec)
        if (folder / MANIFEST).is_file():
            return f"agent:{folder}"
    return spec


def agent_by_name(spec: str, projects: Iterable[Path] = ()) -> Agent:
    """The agent that a word stands for. Reads its files, so it blocks.

    `projects` are the folders of projects whose agents have names. Raises ConfigError for a name
    that isn't known and for files that can't be used.
    """
    match spec.partition(":"):
        case ("oracle", "", ""):
            return Oracle()
        case ("nop", "", ""):
            return Nop()
        case ("chat", "", ""):
            return ChatAgent()
        case ("command" | "agent" | "acp" as kind, ":", ""):
            what, example = _EXAMPLES[kind]
            raise ConfigError(f"expected {what}, as in {example}", key=f"agent {spec!r}")
        case ("command", ":", path):
            return CommandAgent.load(_expanded(path))
        case ("agent", ":", path):
            return InstalledAgent.load(_folder(path))
        case ("acp", ":", command):
            require_package()
            return AcpAgent(command)
        case ("command" | "agent" | "acp" as kind, _, _):
            word = "COMMAND" if kind == "acp" else "PATH"
            raise ConfigError(f"write {kind}:{word}", key=f"agent {spec!r}")
        case _:
            return _of_a_project(spec, sorted(set(projects)))


def _of_a_project(spec: str, projects: Sequence[Path]) -> Agent:
    places = [place for root in projects if (place := root / "agents" / spec).is_dir()]
    if "/" in spec or not places:
        raise ConfigError(f"there is no such agent; known are {_KNOWN}", key=f"agent {spec!r}")
    if len(places) > 1:
        raise ConfigError(
            f"two projects have an agent {spec!r}, {places[0]} and {places[1]}; write agent:PATH",
            key=f"agent {spec!r}",
        )
    return InstalledAgent.load(places[0])


def agent_from_snapshot(name: str, program: bytes | None, digest: str | None = None) -> Agent:
    """An agent as a job recorded it, by its name and its program; no file is read.

    Blocks. Raises ConfigError for a program that can't be read any more.
    """
    if program is None:
        return agent_by_name(name)
    kind, colon, path = name.partition(":")
    if kind == "command" and colon:
        return CommandAgent(Path(path), program)
    return InstalledAgent.unpack(name, program, digest)


def _folder(path: str) -> Path:
    """An agent's folder, named itself or by the manifest in it."""
    place = _expanded(path)
    return place.parent if place.name == MANIFEST else place


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # a user that there is not
        return Path(path)
