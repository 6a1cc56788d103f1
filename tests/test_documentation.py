"""What the documentation tells a reader to type exists."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer.main

from trialog import cli
from trialog.events.codes import CATEGORIES, WARNINGS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
BLOCK = re.compile(r"^```(?:sh|console|text)?\n(.*?)^```", re.M | re.S)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")


def commands(text: str) -> list[list[str]]:
    """The words of every `trialog …` line in shell blocks, and of every such inline code."""
    lines = [
        line.removeprefix("$ ")
        for block in BLOCK.findall(text)
        for line in block.replace("\\\n", " ").splitlines()
    ]
    lines += re.findall(r"`(trialog [^`\n]+)`", text)
    words = [
        shlex.split(line.split(" | ")[0], comments=True)
        for line in lines
        if re.match(r"(\.venv/bin/)?trialog ", line) and "…" not in line
    ]
    return [line[1:] for line in words]


def wrong(words: list[str]) -> str | None:
    """Why a command line can't be typed like that; None when it can."""
    command: Any = typer.main.get_command(cli.app)
    options = {name for parameter in command.params for name in parameter.opts}
    options |= {"--help", "-h"}
    rest = list(words)
    while rest and hasattr(command, "commands") and not rest[0].startswith("-"):
        name = rest.pop(0)
        if name not in command.commands:
            return f"no command {name}"
        command = command.commands[name]
        for parameter in command.params:
            options |= {*parameter.opts, *parameter.secondary_opts}
    for word in rest:
        if word == "--":
            break
        if word.startswith("-") and word.partition("=")[0] not in options:
            return f"no option {word}"
    return None


@pytest.mark.parametrize("words", [["no-such-command"], ["run", "--no-such-option"]])
def test_a_wrong_command_is_found(words: list[str]) -> None:
    """The check below can fail."""
    assert wrong(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documented_commands_exist(page: Path) -> None:
    """Every command and option that a page shows is one that `trialog` has."""
    found = [(shlex.join(words), wrong(words)) for words in commands(page.read_text("utf-8"))]
    assert [] == [(line, why) for line, why in found if why]


def test_readme_shows_commands() -> None:
    """The README is among the pages checked, and it has commands to check."""
    assert len(commands((ROOT / "README.md").read_text("utf-8"))) >= 8


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every link to a file of the repository leads to one."""
    links = LINK.findall(page.read_text("utf-8"))
    assert [] == [link for link in links if not (page.parent / link).exists()]


def test_every_command_is_in_the_readme() -> None:
    """The README's table names every command that there is, and no other."""
    command: Any = typer.main.get_command(cli.app)
    text = (ROOT / "README.md").read_text("utf-8")
    table = set(re.findall(r"^\| `trialog ([\w-]+)", text, re.M))
    assert {name for name, sub in command.commands.items() if not sub.hidden} == table


def test_the_page_of_codes_is_up_to_date() -> None:
    """docs/codes.md is what `tools/codes.py` makes of the tables."""
    made = runpy.run_path(str(ROOT / "tools" / "codes.py"))["page"]()
    assert made == (ROOT / "docs" / "codes.md").read_text("utf-8"), "run tools/codes.py"


def test_messages_name_commands_that_exist() -> None:
    """Every `trialog …` that a message of the engine's or the console's advises is a command."""
    found = {
        f"{path.relative_to(ROOT)}: {word}"
        for part in ("engine", "projections", "events/codes.py", "cli.py")
        for path in ([ROOT / part] if part.endswith(".py") else (ROOT / part).rglob("*.py"))
        for word in re.findall(r"`trialog ([a-z-]+)", path.read_text("utf-8"))
        if wrong([word])
    }
    assert set() == found


def texts() -> list[tuple[str, str]]:
    """Every code, and what it tells a user."""
    entries = {**WARNINGS, **CATEGORIES}
    return [(name, f"{entry.meaning} {entry.next}") for name, entry in entries.items()]


def test_codes_name_commands_and_pages_that_exist() -> None:
    """What a code tells a user to type or read is there."""
    command: Any = typer.main.get_command(cli.app)
    known = {
        option
        for sub in command.commands.values()
        for parameter in sub.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    found = []
    for name, text in texts():
        found += [f"{name}: {wrong(words)}" for words in commands(text) if wrong(words)]
        options = re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)
        found += [f"{name}: no option {option}" for option in options if option not in known]
    assert [] == found


def test_pages_that_the_code_names_exist() -> None:
    """Wherever a module, a task template or a message says `docs/….md`, there is such a page."""
    missing = {
        f"{path.relative_to(ROOT)}: {page}"
        for part in ("engine", "events", "projections", "cli.py", "tools", "tests", "benchmarks")
        for path in ([ROOT / part] if part.endswith(".py") else (ROOT / part).rglob("*.py"))
        for page in re.findall(r"docs/[\w/-]+\.md", path.read_text("utf-8"))
        if not (ROOT / page).exists()
    }
    assert set() == missing


def test_every_page_is_in_the_index() -> None:
    """docs/README.md leads to every page of docs/."""
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages <= set(LINK.findall((ROOT / "docs" / "README.md").read_text("utf-8")))


def test_decisions_are_numbered_and_indexed() -> None:
    """Every decision has the next number and stands in the index."""
    folder = ROOT / "docs" / "decisions"
    notes = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert [f"{number:04}" for number in range(1, len(notes) + 1)] == [name[:4] for name in notes]
    index = (folder / "README.md").read_text("utf-8")
    assert [] == [name for name in notes if f"({name})" not in index]


@pytest.mark.parametrize("part", ["events", "projections", "engine"])
def test_the_map_names_every_module(part: str) -> None:
    """ARCHITECTURE.md has a place for each module and each folder of a part, and no other."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    section = text.partition("## The map")[2].partition(f"`{part}/`, what")[2]
    table = section.partition("\n\n`")[0].partition("\n## ")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    named = {name.removesuffix("/") for row in rows for name in re.findall(r"`([\w/]+)`", row)}
    listed = subprocess.run(
        ["git", "ls-files", f"{part}/*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    tops = {Path(name).parts[1].removesuffix(".py") for name in listed.stdout.splitlines()}
    assert tops - {"__init__"} == named
