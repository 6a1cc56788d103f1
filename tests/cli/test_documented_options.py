"""docs/cli.md has every command with its arguments and options, in the program's own words."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from trialog import cli
from trialog.engine.settings import SWEEP_KEYS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"


def leaves(command: Any, name: str = "") -> dict[str, Any]:
    """Every command by its words, those of groups included."""
    found: dict[str, Any] = {}
    for word, sub in command.commands.items():
        words = f"{name} {word}".strip()
        found |= leaves(sub, words) if hasattr(sub, "commands") else {words: sub}
    return found


COMMANDS = leaves(typer.main.get_command(cli.app))


def table(command: Any) -> str:
    """The table that the page must have for a command."""
    rows = ["| | |", "|---|---|"]
    for parameter in command.params:
        names = [*parameter.opts, *parameter.secondary_opts]
        shown = ", ".join(f"`{name}`" for name in names if name not in {"-h", "--help"})
        if parameter.param_type_name == "argument":
            shown = f"`{parameter.metavar}`"
        elif parameter.metavar:
            shown += f" {parameter.metavar}"
        if shown:
            rows.append(f"| {shown} | {(parameter.help or '').replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


def section(name: str) -> str:
    """What the page says under a command's heading."""
    text = PAGE.read_text("utf-8")
    found = re.search(rf"^## trialog {name}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    assert found, f"no section '## trialog {name}'"
    return found[1]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_is_documented(name: str) -> None:
    """A command's section has the table of its arguments and options as `--help` words them."""
    assert table(COMMANDS[name]) in section(name), f"expected:\n{table(COMMANDS[name])}"


def test_every_key_of_a_sweep_file_is_documented() -> None:
    """In its example, or in the list after it."""
    told = section("run").partition("**A sweep file**")[2].partition("**Variables.**")[0]
    missing = [key for key in SWEEP_KEYS if not re.search(rf"\b{key}(`|:)", told)]
    assert not missing


def test_no_other_command_is_documented() -> None:
    """The page has no section for a command that does not exist."""
    named = re.findall(r"^## trialog (.+)$", PAGE.read_text("utf-8"), re.M)
    assert sorted(named) == sorted(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_of_every_command(name: str) -> None:
    """`trialog COMMAND --help` works, names every option, and fits a narrow terminal."""
    ran = subprocess.run(
        [Path(sys.executable).parent / "trialog", *name.split(), "--help"],
        capture_output=True, text=True, check=True, env={"COLUMNS": "80", "PATH": ""},
    )  # fmt: skip
    for parameter in COMMANDS[name].params:
        for option in parameter.opts:
            assert option.startswith("-") is False or option in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) <= 80
