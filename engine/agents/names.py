"""Agents by the names that a job is told."""

from __future__ import annotations

from pathlib import Path

from ..errors import ConfigError
from .chat import ChatAgent
from .command import CommandAgent
from .nop import Nop
from .oracle import Oracle
from .protocol import Agent

_KNOWN = (
    "oracle (runs the reference solution), nop (does nothing), "
    "chat (lets a model work through a shell), command:PATH (runs a program of this machine)"
)


def agent_name(spec: str) -> str:
    """The one spelling of an agent's name: ``command:./agents/x`` is ``command:agents/x``.

    A relative path stays relative; ``~`` is the user's home. What is wrong with a name is left to
    `agent_by_name`.
    """
    kind, colon, path = spec.partition(":")
    if kind != "command" or not path:
        return spec
    return f"{kind}{colon}{_expanded(path)}"


def agent_by_name(spec: str) -> Agent:
    """The agent that a word stands for. Reads a command's program, so it blocks.

    Raises ConfigError for a name that isn't known and for a program that can't be used.
    """
    match spec.partition(":"):
        case ("oracle", "", ""):
            return Oracle()
        case ("nop", "", ""):
            return Nop()
        case ("chat", "", ""):
            return ChatAgent()
        case ("command", ":", ""):
            raise ConfigError("expected a path, as in command:./agent.py", key=f"agent {spec!r}")
        case ("command", ":", path):
            return CommandAgent.load(_expanded(path))
        case ("command", _, _):
            raise ConfigError("write command:PATH", key=f"agent {spec!r}")
        case _:
            raise ConfigError(f"there is no such agent; known are {_KNOWN}", key=f"agent {spec!r}")


def agent_from_snapshot(name: str, program: bytes | None) -> Agent:
    """An agent as a job recorded it, by its name and its program; no file is read."""
    if program is None:
        return agent_by_name(name)
    return CommandAgent(Path(name.partition(":")[2]), program)


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # a user that there is not
        return Path(path)
