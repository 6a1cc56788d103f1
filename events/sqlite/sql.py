"""The statements of queries.sql by their names, and those of schema.sql one by one."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

_HEADER = re.compile(r"^-- (\w+) --$\n", re.MULTILINE)


def queries() -> dict[str, str]:
    """Each query by its name."""
    _, *parts = _HEADER.split(_read("queries.sql"))
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}


def schema() -> list[str]:
    """The statements that make an empty log."""
    statements: list[str] = []
    pending = ""
    for line in _read("schema.sql").splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            statements.append(pending)
            pending = ""
    return statements


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


QUERY = queries()
