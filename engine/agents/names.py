"""Agents by the names that a job is told."""

from __future__ import annotations

from pathlib import Path

from ..errors import ConfigError
from .command import CommandAgent
from .nop import Nop
from .oracle import Oracle
from .protocol import Agent

_KNOWN = (
    "oracle (runs the reference solution), nop (does nothing), "
    "command:PATH (runs a program of this machine)"
)


def agent_by_name(spec: str) -> Agent:
    """The agent that a word stands for. Reads a command's program, so it blocks.

    Raises ConfigError for a name that isn't known and for a program that can't be used.
    """
    match spec.partition(":"):
        case ("oracle", "", ""):
            return Oracle()
        case ("nop", "", ""):
            return Nop()
        case ("command", ":", ""):
            raise ConfigError("expected a path, as in command:./agent.py", key=f"agent {spec!r}")
        case ("command", ":", path):
            return CommandAgent.load(Path(path).expanduser())
        case ("command", _, _):
            raise ConfigError("write command:PATH", key=f"agent {spec!r}")
        case _:
            raise ConfigError(f"there is no such agent; known are {_KNOWN}", key=f"agent {spec!r}")
