"""A verifier.md: a task that is graded by test.sh runs, one that is graded otherwise is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from trialog.engine.errors import TaskError
from trialog.engine.tasks.load import load_task

Make = Callable[..., Path]

SCRIPT = "checks: {type: script, command: ./test.sh}"


def document(*strategies: str, more: str = "") -> dict[str, str]:
    """The file, with some strategies and further lines below `verifier`."""
    lines = "".join(f"    {line}\n" for line in strategies)
    settings = f"verifier:\n  strategies:\n{lines}{more}"
    return {"verifier/verifier.md": f"---\n{settings}---\n\nWhy it is so.\n"}


@pytest.mark.parametrize(
    "command",
    ["./test.sh", "test.sh", "bash test.sh", "sh ./test.sh", "/verifier/test.sh",
     "/bin/bash  /tests/test.sh"],
)  # fmt: skip
def test_a_document_that_has_test_sh_grade_asks_for_nothing(make: Make, command: str):
    """However the command is written, that is what runs anyway: no warning."""
    task = load_task(make("a", document(f"checks: {{type: script, command: '{command}'}}")))
    assert task.warnings == []


def test_a_document_for_people_asks_for_nothing(make: Make):
    """Without settings, or without strategies in them, it says nothing of the grading."""
    for text in ("# How it is graded\n", "---\nverifier: {name: mine}\n---\n"):
        assert load_task(make("a", {"verifier/verifier.md": text})).warnings == []


@pytest.mark.parametrize(
    ("strategy", "key", "what"),
    [
        ("judge: {type: llm-judge, rubric: r.md}", "judge.type", "the type 'llm-judge'"),
        ("kit: {root: reward}", "kit.type", "a verifier of no type"),
        ("own: {type: script, command: python3 grade.py}", "own.command", "'python3 grade.py'"),
        ("own: {type: script, command: ./test.sh --all}", "own.command", "in place of test.sh"),
    ],
)
@pytest.mark.parametrize("with_test", [True, False])
def test_a_document_that_has_something_else_grade_refuses_the_task(
    make: Make, strategy: str, key: str, what: str, with_test: bool
):
    """By name, with the file and the key, whether or not there is a test.sh too."""
    files = document(strategy) | ({} if with_test else {"verifier/test.sh": None})
    with pytest.raises(TaskError, match="task task is refused: it asks for ") as caught:
        load_task(make("a", files))
    assert str(caught.value.file).endswith("verifier/verifier.md")
    assert caught.value.key == f"verifier.strategies.{key}"
    assert what in str(caught.value)


def test_the_chosen_strategy_counts(make: Make):
    """The one that `default_strategy` names, else the first."""
    judge = "judge: {type: llm-judge, rubric: r.md}"
    assert load_task(make("a", document(SCRIPT, judge))).warnings == []
    with pytest.raises(TaskError, match="llm-judge"):
        load_task(make("a", document(judge, SCRIPT)))
    chosen = document(judge, SCRIPT, more="  default_strategy: checks\n")
    assert load_task(make("a", chosen)).warnings == []
    with pytest.raises(TaskError, match=r"expected one of its strategies \(checks\), found 'x'"):
        load_task(make("a", document(SCRIPT, more="  default_strategy: x\n")))


def test_a_reward_that_would_be_elsewhere_refuses_the_task(make: Make):
    """It would not be found."""
    usual = "  outputs: {reward_text: /logs/verifier/reward.txt}\n"
    assert load_task(make("a", document(SCRIPT, more=usual))).warnings == []
    with pytest.raises(TaskError, match=r"outputs\.reward_json: task task is refused"):
        load_task(make("a", document(SCRIPT, more="  outputs: {reward_json: /tmp/r.json}\n")))


def test_wrong_types_name_file_and_key(make: Make):
    """As in a task's own settings."""
    with pytest.raises(TaskError, match=r"verifier\.strategies: expected a table, found a list"):
        load_task(make("a", {"verifier/verifier.md": "---\nverifier: {strategies: []}\n---\n"}))
    with pytest.raises(TaskError, match=r"verifier\.md: line 2: no valid YAML"):
        load_task(make("a", {"verifier/verifier.md": "---\n{{x}}\n---\n"}))
