"""The check that a reviewer's answer has the contract's form."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.engine.reviews.structure import CAP, RESULT_FILE, faults
from trialog.engine.reviews.wrapper import write_check

CHECK = {"outcome": "pass", "explanation": "step 3 shows it"}
GOOD: dict[str, Any] = {"summary": "It went well.", "checks": {"sound": CHECK, "kind": CHECK}}
NAMES = ["sound", "kind"]


def wrong(answer: Any) -> str:
    """All faults of an answer, a text as it stands."""
    data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    return "; ".join(faults(data, NAMES))


@pytest.mark.parametrize("outcome", ["pass", "fail", "not_applicable"])
def test_an_answer_to_every_criterion_is_a_review(outcome: str) -> None:
    """Each outcome of the vocabulary is accepted, whatever it says of the run."""
    assert wrong({"summary": "x", "checks": {n: CHECK | {"outcome": outcome} for n in NAMES}}) == ""


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (b"", "is empty"),
        (b"\xff", "not UTF-8 (byte 0)"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"summary": "a", "summary": "b"}', 'key "summary" is given twice'),
        ([], "a list, not a JSON object"),
        ({}, "summary: expected a text"),
        (GOOD | {"summary": "  "}, "summary: expected a text"),
        (GOOD | {"summary": 3}, "summary: expected a text"),
        (GOOD | {"reward": 1}, 'unknown key "reward"'),
        (GOOD | {"checks": []}, "checks: expected an object"),
        ({"summary": "x", "checks": {"sound": CHECK}}, "checks.kind: missing"),
        (GOOD | {"checks": GOOD["checks"] | {"new": CHECK}}, 'unknown criterion "new"'),
        (GOOD | {"checks": {"sound": CHECK, "kind": "pass"}}, "checks.kind: expected an object"),
        (GOOD | {"checks": {"sound": CHECK, "kind": CHECK | {"outcome": "PASS"}}}, "kind.outcome"),
        (GOOD | {"checks": {"sound": CHECK, "kind": CHECK | {"outcome": []}}}, "kind.outcome"),
        (
            GOOD | {"checks": {"sound": CHECK, "kind": CHECK | {"explanation": ""}}},
            "kind.explanation: expected a text that is not empty",
        ),
        (
            GOOD | {"checks": {"sound": CHECK, "kind": CHECK | {"explanation": "\ud800"}}},
            "kind.explanation",
        ),
        (GOOD | {"checks": {"sound": CHECK, "kind": CHECK | {"score": 1}}}, 'unknown key "score"'),
    ],
)
def test_what_is_no_review_is_named(answer: Any, named: str) -> None:
    """A fault of form is told by its place."""
    assert wrong(GOOD) == ""
    assert named in wrong(answer)


@given(st.recursive(st.none() | st.text(max_size=3), lambda v: st.lists(v) | st.dictionaries(st.sampled_from(["summary", "checks", *NAMES]), v)))  # fmt: skip  # noqa: E501
def test_no_json_breaks_the_check(value: Any) -> None:
    """Whatever JSON a reviewer writes, the check comes to a list of faults."""
    assert wrong(value)


def run(folder: Path, python: str = sys.executable) -> tuple[str, str]:
    """Run the module as the sandbox does; the reward and what was printed."""
    criteria = folder / "criteria.json"
    criteria.write_text(json.dumps(NAMES))
    check = folder / "check"
    if not check.exists():
        write_check(check)
    workspace = folder / "work"
    workspace.mkdir(exist_ok=True)
    done = subprocess.run(
        [python, "-I", str(check), str(folder / "reward.txt"), str(criteria)],
        cwd=workspace,
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    return (folder / "reward.txt").read_text(), done.stdout


def test_it_runs_alone(tmp_path: Path) -> None:
    """Without this package it gives 1 for a review, and 0 with the reason for anything else."""
    assert run(tmp_path) == ("0", f"no {RESULT_FILE} that could be read in the workspace: "
                                  "No such file or directory\n")  # fmt: skip
    answer = tmp_path / "work" / RESULT_FILE
    answer.write_text(json.dumps(GOOD))
    assert run(tmp_path) == ("1", "")
    answer.write_text("{}")
    assert run(tmp_path)[0] == "0"


def test_hostile_files_do_not_steer_or_stop_it(tmp_path: Path) -> None:
    """A pipe is not waited for, a link is not followed, a folder and a flood are no answer."""
    answer = tmp_path / "work" / RESULT_FILE
    run(tmp_path)
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps(GOOD))
    for make in (
        lambda: os.mkfifo(answer),
        lambda: answer.symlink_to(outside),
        lambda: answer.write_bytes(b" " * (CAP + 1)),
    ):
        make()
        reward, printed = run(tmp_path)
        assert reward == "0"
        assert RESULT_FILE in printed
        answer.unlink()
    answer.mkdir()
    assert run(tmp_path)[0] == "0"


def test_many_faults_are_cut(tmp_path: Path) -> None:
    """A flood of faults is told in a few lines."""
    run(tmp_path)
    many = {str(n): CHECK for n in range(50)}
    (tmp_path / "work" / RESULT_FILE).write_text(json.dumps(GOOD | {"checks": many}))
    reward, printed = run(tmp_path)
    assert reward == "0"
    assert printed.splitlines()[-1] == "and 42 more"
