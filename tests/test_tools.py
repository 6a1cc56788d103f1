"""The set-up scripts: what they leave out they name, and in CI nothing may be left out."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The modules of tools/, imported as the scripts import each other."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    names = ["docker_engine", "services", "check", "demo"]
    yield {name: __import__(name) for name in names}
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def ran(tools: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The programs that a check would have run; all succeed."""
    argvs: list[list[str]] = []

    def run(self: Any, name: str, argv: list[str], env: dict[str, str] | None = None) -> None:
        argvs.append(argv)

    @contextmanager
    def engine() -> Iterator[dict[str, str]]:
        yield {"DOCKER_HOST": "unix:///nowhere"}

    monkeypatch.setattr(tools["check"].Parts, "run", run)
    monkeypatch.setattr(tools["services"], "docker", engine)
    monkeypatch.setattr(tools["services"], "bubblewrap", lambda: None)
    monkeypatch.delenv("CI", raising=False)
    return argvs


def lack_docker(tools: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which no engine can be had."""

    @contextmanager
    def none() -> Iterator[dict[str, str]]:
        raise tools["services"].Unavailable("the engine is on holiday")
        yield {}

    monkeypatch.setattr(tools["services"], "docker", none)


def test_with_all_engines_every_test_runs(
    tools: dict[str, ModuleType], ran: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is deselected, and the gates follow."""
    code = tools["check"].test(tools["check"].Parts(), [])
    [pytest_argv] = [argv for argv in ran if "pytest" in argv]
    assert "-m" not in pytest_argv
    assert "--cov" in pytest_argv
    assert [argv for argv in ran if "--fail-under=100" in argv]
    assert 0 == code
    assert "NOT RUN" not in capsys.readouterr().out


def test_a_suite_without_its_engine_is_named_last(
    tools: dict[str, ModuleType],
    ran: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its tests are left out by their mark, and the last line says so, with the reason."""
    lack_docker(tools, monkeypatch)
    code = tools["check"].test(tools["check"].Parts(), [])
    [pytest_argv] = [argv for argv in ran if "pytest" in argv]
    assert "not docker" == pytest_argv[pytest_argv.index("-m") + 1]
    assert 0 == code
    last = capsys.readouterr().out.splitlines()[-1]
    assert "Suite docker: NOT RUN. the engine is on holiday" == last


def test_a_suite_without_its_engine_fails_in_ci(
    tools: dict[str, ModuleType], ran: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With CI=true the same machine is no good."""
    lack_docker(tools, monkeypatch)
    monkeypatch.setenv("CI", "true")
    assert 1 == tools["check"].test(tools["check"].Parts(), [])


def test_one_failed_part_fails_the_whole(tools: dict[str, ModuleType]) -> None:
    """The parts after it run all the same, and the exit code remembers."""
    parts = tools["check"].Parts()
    parts.run("bad", ["python", "-c", "raise SystemExit(3)"])
    parts.run("good", ["python", "-c", ""])
    assert ["bad"] == parts.failed
    assert 1 == parts.finish()


@contextmanager
def answering(path: Path, status: str, body: bytes) -> Iterator[None]:
    """A server on a socket that gives every request the same answer."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n"
                connection.sendall(head.encode() + body)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def test_engine_answers(tools: dict[str, ModuleType], tmp_path: Path) -> None:
    """An engine is there when its ping is answered, and not when its socket is missing."""
    path = tmp_path / "docker.sock"
    engine = tools["docker_engine"].Engine(f"unix://{path}")
    assert not engine.answers()
    with answering(path, "200 OK", b"OK"):
        assert engine.answers()


def test_an_unknown_engine_address_is_named(tools: dict[str, ModuleType]) -> None:
    """An address that can't be used is shown as it was given."""
    engine = tools["docker_engine"].Engine("ssh://elsewhere")
    assert not engine.answers()
    with pytest.raises(tools["docker_engine"].EngineError, match="ssh://elsewhere"):
        engine.image_comment("an-image")


@pytest.mark.parametrize(
    ("status", "body"),
    [
        ("404 Not Found", json.dumps({"message": "no such thing"}).encode()),
        ("200 OK", b'{"status":"Pulling"}\r\n{"errorDetail":{},"error":"no such thing"}\r\n'),
    ],
    ids=["by status", "in the stream"],
)
def test_a_failed_pull_is_an_error(
    tools: dict[str, ModuleType], tmp_path: Path, status: str, body: bytes
) -> None:
    """The engine tells of a failure by status or late, in the stream; both are errors."""
    path = tmp_path / "docker.sock"
    engine = tools["docker_engine"].Engine(f"unix://{path}")
    with (
        answering(path, status, body),
        pytest.raises(tools["docker_engine"].EngineError, match="no such thing"),
    ):
        engine.pull("an-image:1", timeout=5)


def test_demo_falls_back_to_bubblewrap(
    tools: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without an engine the demo uses bubblewrap, and says that and why."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing")
    monkeypatch.setattr(tools["services"], "bubblewrap", lambda: None)
    options, sentence = tools["demo"].choose("auto", None)
    assert ["--sandbox", "bubblewrap"] == options
    assert "bubblewrap" in sentence
    assert f"no engine answers at unix://{tmp_path}/nothing" in sentence


def test_demo_without_any_sandbox_says_how_to_get_one(
    tools: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It ends with both reasons and a sentence on what to do."""

    def no_bwrap() -> None:
        raise tools["services"].Unavailable("bwrap not found: install bubblewrap")

    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing")
    monkeypatch.setattr(tools["services"], "bubblewrap", no_bwrap)
    with pytest.raises(SystemExit) as end:
        tools["demo"].choose("auto", None)
    message = str(end.value)
    assert "no engine answers" in message
    assert "bwrap not found: install bubblewrap" in message
    assert "DOCKER_HOST" in message


def test_demo_names_an_image_that_the_engine_lacks(
    tools: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An image asked for by name is never replaced by another."""
    path = tmp_path / "docker.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")

    def only_ping(self: Any, method: str, url: str, **_: Any) -> tuple[int, bytes]:
        return (200, b"OK") if url == "/_ping" else (404, b'{"message":"no"}')

    monkeypatch.setattr(tools["docker_engine"].Engine, "_call", only_ping)
    with pytest.raises(SystemExit, match="has no image my-image:7"):
        tools["demo"].choose("docker", "my-image:7")


FAKE_PYTHON = """#!/bin/sh
case "$1" in
-V) echo "Python {version}" ;;
-c) code=$2; shift 2; exec {real} -c '
import sys
sys.version_info = (*map(int, "{version}".split(".")), "final", 0)
sys.executable, code, sys.argv = sys.argv[1], sys.argv[2], ["-c", *sys.argv[3:]]
exec(code)' "$0" "$code" "$@" ;;
-m) if [ "$2" = venv ]; then mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; fi ;;
esac
"""


class Checkout(NamedTuple):
    """A folder with the set-up script, and Pythons that only say that they are ones."""

    folder: Path
    bin: Path

    def python(self, name: str, version: str) -> Path:
        """Put a Python on PATH."""
        path = self.bin / name
        path.write_text(FAKE_PYTHON.format(version=version, real=shlex.quote(sys.executable)))
        path.chmod(0o755)
        return path

    def set_up(self, python: str = "") -> subprocess.CompletedProcess[str]:
        """Make the environment."""
        env = {"PATH": f"{self.bin}:/usr/bin:/bin", "PYTHON": python}
        script = self.folder / "tools/venv.sh"
        return subprocess.run(
            ["bash", script, "env", "dev"], env=env, capture_output=True, text=True, check=False
        )

    @property
    def version(self) -> str:
        """The version of the environment's Python."""
        asked = [self.folder / "env/bin/python", "-V"]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A checkout without an environment."""
    found = Checkout(tmp_path / "a checkout", tmp_path / "bin")
    (found.folder / "tools").mkdir(parents=True)
    found.bin.mkdir()
    shutil.copy(ROOT / "tools/venv.sh", found.folder / "tools")
    return found


def test_another_python_when_the_first_is_too_old(checkout: Checkout) -> None:
    """The environment is made with the first Python that is new enough, before any installing."""
    checkout.python("python3", "3.11.3")
    checkout.python("python3.14", "3.9.1")
    checkout.python("python3.13", "3.13.0")
    made = checkout.set_up()
    assert (made.returncode, checkout.version) == (0, "Python 3.13.0"), made.stderr
    checkout.python("python3", "3.11.4")
    shutil.rmtree(checkout.folder / "env")
    assert checkout.set_up().returncode == 0
    assert checkout.version == "Python 3.11.4"


def test_an_environment_whose_python_does_not_fit(checkout: Checkout) -> None:
    """An environment of a Python that is too old, or not the one that was named, is made anew."""
    old = checkout.python("python3", "3.11.2")
    (checkout.folder / "env/bin").mkdir(parents=True)
    shutil.copy(old, checkout.folder / "env/bin/python")
    checkout.python("python3.13", "3.13.0")
    made = checkout.set_up()
    assert "env is made anew: it has Python 3.11.2, not Python 3.13.0" in made.stdout
    assert checkout.version == "Python 3.13.0"
    assert "Making" not in checkout.set_up().stdout
    named = str(checkout.python("mine", "3.12.1"))
    assert checkout.set_up(named).returncode == 0
    assert checkout.version == "Python 3.12.1"
    assert "Making" not in checkout.set_up(named).stdout


@pytest.mark.parametrize(("version", "told"), [("3.11.3", "Python 3.11.3"), ("", "no Python")])
def test_a_named_python_that_does_not_do(checkout: Checkout, version: str, told: str) -> None:
    """A Python that was named and is too old, or none, is refused by name, with what to do."""
    checkout.python("python3", "3.13.0")
    named = checkout.python("mine", version) if version else checkout.bin / "none"
    made = checkout.set_up(str(named))
    assert made.returncode == 1
    assert f"PYTHON={named} is {told}" in made.stderr
    assert "3.11.4 or newer: name one with PYTHON=/path/to/python3 before" in made.stderr
    assert made.stdout == ""


def test_one_lowest_python() -> None:
    """The package, the set-up script and the README name the same lowest version of Python."""
    declared = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert declared
    assert f"\nneeds={declared[1]} " in (ROOT / "tools/venv.sh").read_text()
    assert f"Python {declared[1]} or newer" in (ROOT / "README.md").read_text()


def test_help_of_the_demo_keeps_its_lines() -> None:
    """`make demo ARGS=--help` shows its examples as they are written."""
    asked = [sys.executable, ROOT / "tools/demo.py", "--help"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert '\n    make demo ARGS="--sandbox bubblewrap"\n' in told
