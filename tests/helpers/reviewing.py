"""For tests of rubric reviews at a command line: reviewers, and what comes of them."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from acceptance.conftest import User

ANSWER = """
import json, os, subprocess, sys
prompt = sys.stdin.read()
result = json.load(open("/evidence/trial/result.json"))
outcome = "pass" if result["passed"] else "fail"
names = {names}
checks = {{n: {{"outcome": outcome, "explanation": "by result.json"}} for n in names}}
answer = {{"summary": "The run is over.", "checks": checks}}
"""
WRITE = 'json.dump(answer, open("review-result.json", "w"))\n'
BUILT_IN = ("reward_hacking", "task_specification")


class MakeReviewer(Protocol):
    """Makes a reviewer: Python that has `prompt`, `result` and `answer`; the word that names it."""

    def __call__(
        self, code: str = "", *, names: tuple[str, ...] = BUILT_IN, write: bool = True
    ) -> str:
        """Make one; with `write` it leaves `answer` in the end."""
        ...


def make_reviewer(user: User) -> MakeReviewer:
    """A factory of reviewers in the user's folder."""

    def make(code: str = "", *, names: tuple[str, ...] = BUILT_IN, write: bool = True) -> str:
        path = user.home / "reviewer.py"
        body = ANSWER.format(names=names) + code + ("\n" + WRITE if write else "")
        path.write_text(f"#!/usr/bin/env python3\n{body}")
        path.chmod(0o755)
        return f"command:{path}"

    return make


def review(
    user: User, thing: object, agent: str, *words: object, code: int = 0,
    sandbox: tuple[object, ...] = ("--sandbox", "bubblewrap"),
) -> dict[str, Any]:  # fmt: skip
    """Review a job or a trial: the report."""
    ran = user.run("review", "run", thing, "--agent", agent, *sandbox, *words, code=code)
    return report_of(user, ran.out)


def report_of(user: User, out: str) -> dict[str, Any]:
    """The report that a review said it wrote."""
    place = next(line for line in out.splitlines() if line.startswith("Report: "))
    report: dict[str, Any] = json.loads((user.home / place.removeprefix("Report: ")).read_text())
    return report


def alike(report: dict[str, Any]) -> str:
    """A report without the random names of its reviewers' runs."""
    return re.sub(r"__[0-9a-z]{8}", "__x", json.dumps(report))


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but reviews."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "reviews" not in path.relative_to(folder).parts
    }


class Row(NamedTuple):
    """An event as the log's file has it."""

    stream: str
    kind: str
    data: str
    hash: str


def rows(user: User) -> list[Row]:
    """All that is in the user's log, in order."""
    db = sqlite3.connect(user.home / "jobs" / "trialog.db")
    try:
        return [Row(*row) for row in db.execute("SELECT stream, kind, data, hash FROM log")]
    finally:
        db.close()


def logged(user: User, kind: str) -> list[dict[str, Any]]:
    """The payloads of one kind."""
    return [json.loads(row.data) for row in rows(user) if row.kind == kind]


def damage(user: User, stream: str, kind: str) -> None:
    """Change the first event of a kind in a stream (by its beginning), as no log allows."""
    db = sqlite3.connect(user.home / "jobs" / "trialog.db")
    try:
        triggers = db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (name,) in triggers:
            db.execute(f"DROP TRIGGER {name}")
        [(position,)] = db.execute(
            "SELECT min(position) FROM log WHERE stream LIKE ? AND kind = ?", (stream + "%", kind)
        )
        assert position is not None
        db.execute("UPDATE events SET data = '{' WHERE position = ?", (position,))
        db.commit()
    finally:
        db.close()
