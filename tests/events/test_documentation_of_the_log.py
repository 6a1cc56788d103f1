"""docs/event-log.md says what is so."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from trialog.events.hashing import event_hash, first_previous
from trialog.events.sqlite.connection import FORMAT

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "event-log.md").read_text()
GOLDEN = ROOT / "tests" / "golden" / "v1" / "trialog.db"
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE, re.S)


def test_the_test_vector_of_the_hash() -> None:
    """The printed hashes are those of the printed events."""
    block = re.search(r"```json\n(.*?)```", PAGE, re.S)
    assert block is not None
    vector: list[dict[str, Any]] = json.loads(block[1])
    previous = first_previous(vector[0]["stream"])
    for event in vector:
        printed = event.pop("hash")
        previous = event_hash(previous, **event)
        assert printed == previous.hex()
    assert 2 == len(vector)


def test_there_are_five_queries() -> None:
    """As many as are promised."""
    assert 5 == len(QUERIES)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_gives_rows(query: str) -> None:
    """Plain SQLite runs it on a log, and it finds something."""
    db = sqlite3.connect(f"{GOLDEN.as_uri()}?immutable=1", uri=True)
    rows = db.execute(query).fetchall()
    db.close()
    assert rows
    assert all(len(row) >= 3 for row in rows)


def test_the_tables_are_described() -> None:
    """Every table and column of the schema stands on the page, and the format's number."""
    assert f"Format {FORMAT} is written" in PAGE
    db = sqlite3.connect(f"{GOLDEN.as_uri()}?immutable=1", uri=True)
    tables = db.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
    for (table,) in tables:
        assert f"`{table}`" in PAGE
        for column in db.execute(f"SELECT name FROM pragma_table_info('{table}')"):
            assert f"`{column[0]}`" in PAGE
    db.close()
    assert 5 == len(tables)
