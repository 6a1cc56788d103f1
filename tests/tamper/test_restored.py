"""What an agent left is put back in a fresh sandbox with its saved workspace, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.grading import DOCKER, Build
from trialog.engine.sandbox.protocol import Command, Image, SandboxBackend, SandboxSpec
from trialog.engine.trial.folders import TrialFolders
from trialog.engine.trial.hardening.way import clear_the_way
from trialog.events.kinds.parts import Limits
from trialog.events.memory import MemoryLog

CHANGE = (
    "echo evil > conftest.py; echo evil > pytest.ini; rm setup.cfg; "
    "printf '[tool.pytest]\\na = 1\\n[tool.x]\\n' > sub/pyproject.toml; echo work > work"
)


@pytest.mark.parametrize("backend_name", [DOCKER])
@pytest.mark.parametrize("alone", [False, True])
async def test_restored_workspace(
    backend: SandboxBackend, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    alone: bool,
) -> None:  # fmt: skip
    """Changed files are the image's again, the agent's own gone, and unchanged ones stay."""
    if alone:
        monkeypatch.setattr("trialog.engine.sandbox.docker.sandbox.overlay", lambda _: None)
        monkeypatch.setattr("trialog.engine.sandbox.docker.changes.SLOWEST", 60.0)
    image = await build(
        "WORKDIR /app", "RUN mkdir sub; echo own | tee conftest.py sub/conftest.py > setup.cfg"
    )

    def spec(number: int, image: Image, workspace: Path | None = None) -> SandboxSpec:
        scratch = tmp_path / str(number)
        scratch.mkdir()
        return SandboxSpec(
            job="j", trial=f"{tmp_path.name}-{number}", log_id=tmp_path.name, image=image,
            workdir="/app", limits=Limits(), scratch=scratch, workspace=workspace,
        )  # fmt: skip

    first = await backend.create(spec(1, image))
    archive = tmp_path / "saved.tar.zst"
    try:
        await first.run(Command(argv=["sh", "-c", CHANGE]), lambda _: None)
        await first.save_tree("/app", archive, cap=1024 * 1024)
    finally:
        await first.remove()
    (tmp_path / "tests").mkdir()
    printed: list[bytes] = []
    second = await backend.create(spec(2, image, archive))
    try:
        hardened = await clear_the_way(
            second,
            TrialFolders(tmp_path / "2", workspace="/app"),
            image,
            tmp_path / "tests",
            blobs=MemoryLog().blobs,
            seconds=60.0,
        )
        await second.run(
            Command(argv=["sh", "-c", "cat conftest.py sub/* work; cat pytest.ini"]), printed.append
        )
    finally:
        await second.remove()
    assert b"".join(printed).startswith(b"own\nown\n[tool.x]\nwork\n")
    assert b"evil" not in b"".join(printed)
    assert [found.path for found in hardened.found] == [
        "/app/conftest.py", "/app/pytest.ini", "/app/sub/pyproject.toml",
    ]  # fmt: skip
