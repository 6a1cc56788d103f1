"""verifier.md: what it says of how a task is graded, and whether test.sh alone does that."""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import TaskError
from .files import Bounds, present, read_text
from .raw import raw_settings
from .reader import Table

NAME = "verifier.md"
"""In the verifier's folder."""

_TEST = re.compile(r"(?:(?:/bin/|/usr/bin/env )?(?:ba)?sh )?(?:\./|/verifier/|/tests/)?test\.sh")
_OUTPUTS = {
    "reward_text": "/logs/verifier/reward.txt",
    "reward_json": "/logs/verifier/reward.json",
}


def check_document(folder: Path, bounds: Bounds, task: str) -> None:
    """See that a verifier's document, if there is one, has the task graded by test.sh.

    Of its `verifier.strategies` the one counts that `default_strategy` names, else the first. All
    else in it is for people. Raises TaskError for what it says wrongly, and for a strategy that
    grades the task otherwise.
    """
    file = folder / NAME
    if not present(file):
        return
    top = Table(file, "", raw_settings(read_text(file, bounds, what=NAME), file), [])
    verifier = top.table("verifier")
    strategies = verifier.table("strategies")
    chosen = verifier.text("default_strategy")
    names = list(strategies.peek())
    if chosen is not None and chosen not in names:
        known = f"one of its strategies ({', '.join(names)})" if names else "one of its strategies"
        raise verifier.error("default_strategy", f"expected {known}, found {chosen!r}")
    if names:
        _check_strategy(strategies.table(chosen or names[0]), task)
    outputs = verifier.table("outputs")
    for name, place in _OUTPUTS.items():
        if outputs.text(name) not in (None, place):
            raise _refused(outputs, name, task, f"a reward that is read elsewhere than at {place}")


def _check_strategy(strategy: Table, task: str) -> None:
    kind = strategy.text("type")
    if kind != "script":
        found = "no type" if kind is None else f"the type {kind!r}"
        raise _refused(strategy, "type", task, f"a verifier of {found}")
    command = strategy.text("command")
    if command is not None and not _TEST.fullmatch(" ".join(command.split())):
        raise _refused(strategy, "command", task, f"the command {command!r} in place of test.sh")


def _refused(table: Table, name: str, task: str, what: str) -> TaskError:
    return table.error(
        name,
        f"task {task} is refused: it asks for {what}, which changes how it is graded and is not "
        "supported",
    )
