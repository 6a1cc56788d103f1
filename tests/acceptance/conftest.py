"""The installed command, as a user has it, and a factory of small tasks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest

from helpers.judges import Endpoint
from helpers.reviewing import MakeReviewer, make_reviewer
from helpers.terminal import Shell

TRIALOG = Path(sys.executable).parent / "trialog"


def read(file: Path) -> Any:
    """A file's JSON."""
    return json.loads(file.read_bytes())


class Ran(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Standard output, line by line."""
        return self.out.splitlines()

    @property
    def objects(self) -> list[dict[str, Any]]:
        """Standard output as one JSON object a line; anything else fails."""
        found = [json.loads(line, parse_constant=_refuse) for line in self.lines]
        assert all(isinstance(one, dict) for one in found)
        return found


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


class User:
    """Somebody at a command line, in a folder of his own."""

    def __init__(self, home: Path, runtime: Path) -> None:
        self.home = home
        self.env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TRIALOG_", "COLUMNS", "NO_COLOR"))
        }
        self.env["XDG_RUNTIME_DIR"] = str(runtime)

    def start(
        self,
        *words: object,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> subprocess.Popen[str]:
        """Start `trialog` with these words."""
        return subprocess.Popen(
            [TRIALOG, *map(str, words)],
            cwd=cwd or self.home,
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=settings.pop("stdout", subprocess.PIPE),
            stderr=settings.pop("stderr", subprocess.PIPE),
            text=True,
            **settings,
        )

    def run(
        self,
        *words: object,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        code: int | None = None,
    ) -> Ran:
        """Run `trialog` with these words to its end; `code` is the exit code it must give."""
        process = self.start(*words, cwd=cwd, env=env)
        try:
            out, err = process.communicate(timeout=90)
        except BaseException:
            process.kill()
            process.wait()
            raise
        assert "Traceback" not in err, err
        if code is not None:
            assert process.returncode == code, f"exit code {process.returncode}\n{out}\n{err}"
        return Ran(process.returncode, out, err)

    def job(self, *words: object, code: int | None = 0, **settings: Any) -> Path:
        """Run a job on bubblewrap: its folder, of which nothing is known but what was printed."""
        ran = self.run("run", "--sandbox", "bubblewrap", *words, code=code, **settings)
        folder = next(line for line in ran.lines if line.startswith("Job folder: "))
        cwd: Path = settings.get("cwd") or self.home
        return cwd / folder.removeprefix("Job folder: ")


@pytest.fixture
def user(tmp_path: Path) -> User:
    """A user in an empty folder whose name has blanks and other letters."""
    home, runtime = tmp_path / "a home ö 家", tmp_path / "runtime"
    home.mkdir()
    runtime.mkdir()
    return User(home, runtime)


class MakeTask(Protocol):
    """Makes a task folder."""

    def __call__(
        self, name: str = "t", *, test: str = ..., solve: str | None = ..., settings: str = ...,
        folder: Path | None = ..., layout: str = ...,
    ) -> Path:  # fmt: skip
        """Make one."""
        ...


PASSES_WITH_ANSWER = """\
echo 0 > /logs/verifier/reward.txt
test "$(cat answer.txt 2>/dev/null)" = 42 && echo 1 > /logs/verifier/reward.txt
echo "the answer was looked at"
"""


@pytest.fixture
def make_task(user: User) -> MakeTask:
    """Makes a task whose oracle passes and whose nop fails, unless told otherwise."""

    def make(
        name: str = "t",
        *,
        test: str = PASSES_WITH_ANSWER,
        solve: str | None = "echo 42 > answer.txt\n",
        settings: str = "",
        folder: Path | None = None,
        layout: str = "a",
    ) -> Path:
        task = (folder or user.home) / name
        task.mkdir(parents=True)
        if layout == "a":
            head = "agent: {timeout_sec: 60}\nverifier: {timeout_sec: 60}\n"
            (task / "task.md").write_text(f"---\n{settings or head}---\n## prompt\nDo it.\n")
        else:
            head = "[agent]\ntimeout_sec = 60\n[verifier]\ntimeout_sec = 60\n"
            (task / "task.toml").write_text(settings or head)
            (task / "instruction.md").write_text("Do it.\n")
        verifier, solution = ("verifier", "oracle") if layout == "a" else ("tests", "solution")
        (task / verifier).mkdir()
        (task / verifier / "test.sh").write_text(test)
        if solve is not None:
            (task / solution).mkdir()
            (task / solution / "solve.sh").write_text(solve)
        return task

    return make


@pytest.fixture
def endpoint(user: User) -> Iterator[Endpoint]:
    """A model's endpoint over HTTP, which the user's environment names."""
    made = Endpoint()
    user.env |= made.environ
    yield made
    made.close()


@pytest.fixture
def agent_program(user: User) -> Callable[[str], str]:
    """Makes a program that is an agent, and gives the word that names it."""

    def make(script: str) -> str:
        path = user.home / "agent.sh"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return f"command:{path}"

    return make


@pytest.fixture
def reviewer(user: User) -> MakeReviewer:
    """Makes a reviewer: Python that has `prompt`, `result` and `answer`; the word that names it."""
    return make_reviewer(user)


@pytest.fixture
def at_terminal(user: User) -> Iterator[Callable[..., Shell]]:
    """Starts `trialog` on a terminal."""
    shells: list[Shell] = []

    def start(*words: object, **env: str) -> Shell:
        shells.append(Shell(user.start, *words, **env))
        return shells[-1]

    yield start
    for shell in shells:
        shell.close()
