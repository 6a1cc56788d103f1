"""Variables and secrets as a user gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from trialog.engine.environment import assignments, find_secrets, is_secret_name, read_env_file
from trialog.engine.errors import ConfigError

GOOD = """\
\ufeff# a comment
PLAIN=value
export EXPORTED=yes
SPACED = around
EMPTY=
INNER=a=b
COMMENTED=value # gone
HASH=a#b
SINGLE='as $it is \\n'
DOUBLE="two\\nlines \\"quoted\\""  # a comment
FROM_HERE
PLAIN=later
"""


def read(tmp_path: Path, text: str | bytes, **environ: str) -> dict[str, str]:
    """What is in a file with this text."""
    path = tmp_path / "my vars.env"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_env_file(path, environ)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_env_file(tmp_path: Path, end: str) -> None:
    """Comments, export, quotes and names alone are understood, and a later value wins."""
    assert read(tmp_path, GOOD.replace("\n", end), FROM_HERE="there") == {
        "PLAIN": "later",
        "EXPORTED": "yes",
        "SPACED": "around",
        "EMPTY": "",
        "INNER": "a=b",
        "COMMENTED": "value",
        "HASH": "a#b",
        "SINGLE": "as $it is \\n",
        "DOUBLE": 'two\nlines "quoted"',
        "FROM_HERE": "there",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A=1\nthis is no line\n", "line 2: expected NAME=VALUE, found 'this i…"),
        ("A=1\n\n9LIVES=x\n", "line 3: '9LIVES' is no name of a variable"),
        ("=x\n", "line 1: expected NAME=VALUE"),
        ('A="open\n', 'line 1: a " is opened and not closed'),
        ("A='x' y\n", "line 1: there is text after the closing quote"),
        ("MISSING\n", "line 1: MISSING has no value, and none in the environment"),
        ("A=\0\n", "line 1: a value can't hold a NUL byte"),
        (b"A=1\nB=\xff\n", "not UTF-8 text (byte 6)"),
    ],
)
def test_env_file_errors_name_the_line(tmp_path: Path, text: str, message: str) -> None:
    """A line that can't be read is an error with the file, the line and what was found."""
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert message in str(caught.value)
    assert "my vars.env" in str(caught.value)


@pytest.mark.parametrize("name", ["missing.env", "."])
def test_env_file_that_is_none(tmp_path: Path, name: str) -> None:
    """A file that is not there, or a folder, is an error that names it."""
    with pytest.raises(ConfigError, match=r"no such file|can't be read"):
        read_env_file(tmp_path / name, {})


def test_assignments() -> None:
    """NAME=VALUE words, the last of a name holds, and a name alone asks the environment."""
    words = ["A=1", "B=x=y", "A=2", "HOME_TOKEN"]
    found = assignments(words, "--agent-env", {"HOME_TOKEN": "abc"})
    assert found == {"A": "2", "B": "x=y", "HOME_TOKEN": "abc"}


@pytest.mark.parametrize("word", ["A B=1", "=x", "", "1A=2", "UNSET", "A\x1b=2"])
def test_assignment_errors_name_the_option(word: str) -> None:
    """A word that is no assignment is an error that names the option."""
    with pytest.raises(ConfigError, match="--verifier-env"):
        assignments([word], "--verifier-env", {})


def test_secret_names() -> None:
    """Variables that end in _KEY, _TOKEN, _SECRET or _PASSWORD hold secrets."""
    secret = ["OPENAI_API_KEY", "GH_TOKEN", "MY_SECRET", "DB_PASSWORD"]
    assert all(map(is_secret_name, secret))
    assert not any(map(is_secret_name, ["KEYBOARD", "TOKEN_COUNT", "PATH", "KEY"]))


def test_secrets_of_the_environment() -> None:
    """Named values and those whose names say so; short ones only where given for the job."""
    secrets = find_secrets(
        ["PLAIN"],
        {"PLAIN": "long enough", "API_KEY": "12345678", "OLD_TOKEN": "short", "PATH": "/usr/bin"},
        {"DB_PASSWORD": "hunter2", "JUDGE_KEY": "abcdefgh"},
    )
    assert secrets == {
        "PLAIN": "long enough",
        "API_KEY": "12345678",
        "DB_PASSWORD": "hunter2",
        "JUDGE_KEY": "abcdefgh",
    }


@pytest.mark.parametrize(
    ("environ", "message"), [({}, "NAME is not set"), ({"NAME": "1234567"}, "under 8 characters")]
)
def test_secret_option_errors(environ: dict[str, str], message: str) -> None:
    """--secret with a name that is not set, or with a value under 8 characters, is refused."""
    with pytest.raises(ConfigError, match=message):
        find_secrets(["NAME"], environ, {})
