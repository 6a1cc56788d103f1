"""What a test's output says of a set-up that failed."""

import pytest

from trialog.engine.tasks.failed_setup import LONGEST, failed_setup


@pytest.mark.parametrize(
    "line",
    [
        "/verifier/test.sh: line 2: pytest: command not found",
        "/tests/test.sh: 3: uvx: not found",
        "/usr/bin/python3: No module named pytest",
        "ModuleNotFoundError: No module named 'numpy'",
        "curl: (7) Failed to connect to 127.0.0.1 port 9 after 0 ms: Couldn't connect to server",
        "wget: unable to resolve host address ‘example.org’",
        "E: Unable to locate package jq",
        "Temporary failure resolving 'deb.example.org'",
        "ERROR: No matching distribution found for pytest",
        "collected 0 items",
        "============ no tests ran in 0.01s ============",
        "Ran 0 tests in 0.000s",
    ],
)
def test_a_tool_that_is_missing_and_a_test_that_was_not_found(line):
    """Each is given back as it was printed, wherever in the output it stands."""
    assert failed_setup(["setting up", line + "\r", "all done"]) == line


@pytest.mark.parametrize(
    "line",
    [
        "AssertionError: expected 3, found 4",
        "FileNotFoundError: [Errno 2] No such file or directory: 'answer.txt'",
        "cat: answer.txt: No such file or directory",
        "answer.txt: not found",
        "collected 10 items",
        "Ran 3 tests in 0.002s",
        "see curl: (7) in the manual",
    ],
)
def test_what_a_check_says_of_the_work_is_no_sign(line):
    """Work that is missing or wrong is what a test is there to find."""
    assert failed_setup([line]) is None


def test_the_first_sign_counts_and_is_cut():
    """The later ones follow from it; a line may be of any length."""
    lines = ["x" * 500 + " Could not resolve host", "pytest: command not found"]
    found = failed_setup(lines)
    assert found is not None
    assert (found[0], len(found)) == ("x", LONGEST)
