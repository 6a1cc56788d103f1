"""Choosing the sandbox."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from trialog.engine.errors import ConfigError, SandboxUnavailable
from trialog.engine.sandbox.choose import choose


@pytest.mark.docker
@pytest.mark.parametrize("name", ["auto", "docker"])
async def test_engine_comes_first(name: str) -> None:
    """Where a container engine answers, it is taken."""
    backend = await choose(name)
    assert backend.name == "docker"
    await backend.aclose()


@pytest.mark.bubblewrap
@pytest.mark.parametrize("name", ["auto", "bubblewrap"])
async def test_else_bubblewrap(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none does, bubblewrap is, if it works."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    backend = await choose(name)
    assert backend.name == "bubblewrap"
    await backend.aclose()


async def test_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where neither works, the error says why, and how to get either."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable) as raised:
        await choose("auto")
    said = str(raised.value)
    for part in (f"{tmp_path}/none", "bwrap is not installed", "install bubblewrap", "DOCKER_HOST"):
        assert said.count(part) == 1
    with pytest.raises(SandboxUnavailable, match="no container engine answers"):
        await choose("docker")
    with pytest.raises(SandboxUnavailable, match="bwrap is not installed"):
        await choose("bubblewrap")


async def test_silent_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that takes a call and says nothing is given up after two seconds."""
    place = tmp_path / "silent"
    listener = await anyio.create_unix_listener(place)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{place}")
    begun = anyio.current_time()
    async with listener:
        with pytest.raises(SandboxUnavailable, match="within 2 s"):
            await choose("docker")
    assert 1.9 < anyio.current_time() - begun < 4


async def test_unknown_name() -> None:
    """A name that is none is refused with those that are."""
    with pytest.raises(ConfigError, match=r"sandbox: .*'podman'.*auto, docker or bubblewrap"):
        await choose("podman")


def test_import_is_light() -> None:
    """Importing the choice does not import the engine's client."""
    script = "import sys, trialog.engine.sandbox.choose; print('aiodocker' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
