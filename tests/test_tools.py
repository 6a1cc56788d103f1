"""The set-up scripts: what they leave out they name, and in CI nothing may be left out."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

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
