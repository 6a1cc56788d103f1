"""What a verifier's files say of pytest."""

from __future__ import annotations

import pytest

from trialog.engine.verifier.protected.asking import asked_by
from trialog.engine.verifier.protected.prepare import changed_packages
from trialog.engine.verifier.protected.watch import GuardWatch


@pytest.mark.parametrize(
    "text",
    [
        '"$TRIALOG_PYTEST" /verifier/test_a.py',
        "${BENCHFLOW_PYTEST} -q",
        "# $TRIALOG_PYTEST",
        "${TRIALOG_PYTEST:-pytest} /tests",
    ],
)
def test_asks(text: str) -> None:
    """The text asks, in a comment too, and in a value of the verifier's env."""
    assert asked_by([b"x", text.encode()]).protected
    assert asked_by([], [text]).protected


@pytest.mark.parametrize("text", ["TRIALOG_PYTEST", "$TRIALOG_PYTESTS", "$PYTEST", "pytest"])
def test_does_not_ask(text: str) -> None:
    """Other texts don't."""
    assert not asked_by([text.encode()], [text]).protected


@pytest.mark.parametrize(
    ("text", "other", "isolated"),
    [
        ("python3 -I -m pytest /tests", True, True),
        ("/usr/bin/python3.11 -sI -m pytest", True, True),
        ("python3 -B -I -X dev /usr/bin/pytest", True, True),
        ("python3 -m pytest /tests", True, False),
        ("pytest -q", True, False),
        ('subprocess.run(["pytest", "/app"])', True, False),
        ('"$TRIALOG_PYTEST" /tests/test_a.py', False, False),
        ("python3 -I check.py", False, False),
        ("cat pytest.ini", False, False),
    ],
)
def test_other_pytests(text: str, other: bool, isolated: bool) -> None:
    """Another pytest is seen, and one that keeps the guard out."""
    asked = asked_by([text.encode()])
    assert (asked.other, asked.isolated) == (other, isolated)


SIGN = b"ImportError: Error importing plugin \"guard_1\": No module named 'guard_1'\n"


@pytest.mark.parametrize(
    ("test", "kept_out"),
    [
        ("# $TRIALOG_PYTEST\npython3 -I -m pytest", True),
        ("# $TRIALOG_PYTEST\npytest", True),
        ("# $TRIALOG_PYTEST", False),
        ("python3 -I -m pytest", False),
    ],
)
def test_the_guard_is_missed(test: str, kept_out: bool) -> None:
    """What was printed counts only where the task asks and runs another pytest; pieces are one."""
    watch = GuardWatch(asked_by([test.encode()]), "guard_1")
    for place in range(len(SIGN)):
        watch.feed(SIGN[place : place + 1])
    assert watch.kept_out is kept_out
    other = GuardWatch(asked_by([test.encode()]), "guard_2")
    other.feed(SIGN)
    assert not other.kept_out


def test_names_of_changed_packages() -> None:
    """Modules, packages and extensions by their top-level names; no caches and no metadata."""
    site = "/usr/local/lib/python3.11/site-packages"
    paths = [f"{site}/numpy/core/x.py", f"{site}/six.py", f"{site}/_yaml.cpython-311-x.so"]
    paths += [f"{site}/__pycache__/a.pyc", f"{site}/numpy-1.0.dist-info/RECORD", f"{site}/x.pth"]
    assert {"numpy", "six", "_yaml"} == changed_packages([*paths, "/app/numpy.py", "/usr/bin/x"])
