"""Agents by their names, and what is said of names that stand for none."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from trialog.engine.agents import agent_by_name
from trialog.engine.agents.command import PROGRAM_CAP
from trialog.engine.errors import ConfigError


def refusal(spec: str) -> str:
    """What is said of a name that is refused."""
    with pytest.raises(ConfigError) as caught:
        agent_by_name(spec)
    return str(caught.value)


def test_known_names(tmp_path: Path) -> None:
    """Only the oracle gets the solution; a command is known by its path and its digest."""
    oracle, nop = agent_by_name("oracle"), agent_by_name("nop")
    assert (oracle.name, oracle.needs_solution, oracle.digest) == ("oracle", True, None)
    assert (nop.name, nop.needs_solution, nop.digest) == ("nop", False, None)
    program = tmp_path / "my agent:2.sh"
    program.write_text("echo")
    command = agent_by_name(f"command:{program}")
    assert (command.name, command.needs_solution) == (f"command:{program}", False)
    assert command.digest == f"sha256:{hashlib.sha256(b'echo').hexdigest()}"


@pytest.mark.parametrize("spec", ["", "oracles", "Oracle", "nop:", "oracle:x", ":", "commands:x"])
def test_unknown_names(spec: str) -> None:
    """An unknown name is repeated, with all that exist."""
    assert refusal(spec) == (
        f"agent {spec!r}: there is no such agent; known are oracle (runs the reference solution), "
        "nop (does nothing), chat (lets a model work through a shell), command:PATH (runs a "
        "program of this machine), agent:PATH (installs what an agent.yaml describes), "
        "acp:COMMAND (speaks the Agent Client Protocol in the sandbox)"
    )


def test_command_without_a_path() -> None:
    """A command needs its path."""
    assert refusal("command:") == "agent 'command:': expected a path, as in command:./agent.py"
    assert refusal("command") == "agent 'command': write command:PATH"


def test_programs_that_can_not_be_used(tmp_path: Path) -> None:
    """A path that is missing, a folder, empty, no file, or too large: the message names it."""
    assert refusal(f"command:{tmp_path}/none") == (
        f"{tmp_path}/none: command: there is no such program; "
        "give the path of a file of this machine"
    )
    assert refusal(f"command:{tmp_path}") == (
        f"{tmp_path}: command: this is a folder; give the program in it"
    )
    program = tmp_path / "agent"
    program.write_text(" \n")
    assert refusal(f"command:{program}") == f"{program}: command: the program is empty"
    os.truncate(program, PROGRAM_CAP + 1)
    assert refusal(f"command:{program}") == f"{program}: command: the program is over 256 MiB"
    program.unlink()
    os.mkfifo(program)
    assert refusal(f"command:{program}") == f"{program}: command: this is no regular file"
    assert "this is no path" in refusal("command:a\0b")
    (tmp_path / "loop").symlink_to("loop")
    assert f"{tmp_path}/loop: command: can't be read: " in refusal(f"command:{tmp_path}/loop")
    assert f"{program}/x: command: can't be read: " in refusal(f"command:{program}/x")


def test_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tilde is the user's home, which a shell leaves alone after a colon."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "agent.sh").write_text("echo")
    assert agent_by_name("command:~/agent.sh").digest
