"""Plain words are read without typer's own way, and as it would read them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from trialog import cli
from trialog.engine.console.parsing import command_for

WORDS = [
    None, True, False, 0, 3, 0.5, "", "x", "a b", "7", "-7", "0.5", "1e3", "007", "1_000", " 3",
    "é", "٣", "\udcff", "auto", "docker", "AUTO", "zero", "jsonl", "x\ty",
    "2000", "-1", "nan", "yes",
    (), ["a"], ["a", "é"], ("3", "4"),
]  # fmt: skip


def parameters(command: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every parameter of a command and of those below it, with its own command."""
    for parameter in command.params:
        yield f"{path} {parameter.name}".strip(), parameter, command
    for name, below in getattr(command, "commands", {}).items():
        yield from parameters(below, f"{path} {name}".strip())


def reading(parameter: Any, command: Any, value: object) -> object:
    """What comes of a value: itself and its type, or the error's words."""
    try:
        context = typer.Context(command, resilient_parsing=False)
        read = parameter.process_value(context, value)
    except typer.TyperException as error:
        return type(error), error.format_message()
    return type(read), repr(read)


def by_path(command: Any) -> dict[str, tuple[Any, Any]]:
    """The same by the words that lead there."""
    return {path: (parameter, own) for path, parameter, own in parameters(command)}


SLOW = by_path(typer.main.get_command(cli.app))
QUICK = by_path(command_for(cli.app, []))


@pytest.mark.parametrize("path", SLOW)
def test_values_are_read_as_typer_reads_them(path: str) -> None:
    """A value is the same by the quick way, and so are its type and what is said against it."""
    assert QUICK.keys() == SLOW.keys()
    for value in WORDS:
        assert reading(*QUICK[path], value) == reading(*SLOW[path], value), value


@pytest.mark.parametrize("first", ["run", "task", "human", "show"])
def test_only_the_command_that_is_called_is_made(first: str) -> None:
    """The command is what it is among all others, and no other is made."""
    alone, among = command_for(cli.app, [first]), typer.main.get_command(cli.app)
    assert isinstance(alone, typer.core.TyperGroup)
    assert [first] == list(alone.commands)
    assert isinstance(among, typer.core.TyperGroup)
    names = [path for path, *_ in parameters(among.commands[first])]
    assert names == [path for path, *_ in parameters(alone.commands[first])]


@pytest.mark.parametrize("words", [[], ["--help"], ["nonsense"], ["-h", "run"]])
def test_all_are_made_where_none_is_named(words: list[str]) -> None:
    """Help and errors know every command."""
    among = typer.main.get_command(cli.app)
    assert isinstance(among, typer.core.TyperGroup)
    assert list(among.commands) == list(command_for(cli.app, words).commands)


def test_plain_words_load_no_validator() -> None:
    """A command with plain values and options loads neither pydantic nor rich."""
    code = (
        "import sys; from trialog.cli import main\n"
        "try: main(['explain', 'agent_timeout'])\nexcept SystemExit: pass\n"
        "print([m for m in ('pydantic', 'rich', 'structlog') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[]" == ran.stdout.splitlines()[-1], ran.stdout
