"""Why tasks can't be run, all told at once, on Docker too."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.fakes import FakeBackend
from helpers.jobs import write_task
from trialog.engine.console import images
from trialog.engine.job.config import JobConfig
from trialog.engine.tasks.dataset import TasksError, find_tasks

CACHED = "FROM a\nRUN --mount=type=cache,target=/r true\n"


@pytest.fixture
def broken(tmp_path: Path) -> TasksError:
    """Five tasks of which one can't be read; two have images of their own."""
    for name in ("broken", "cached", "good", "no-image", "no-oracle"):
        write_task(tmp_path / name, solve=None if name == "no-oracle" else "true")
    (tmp_path / "broken" / "instruction.md").unlink()
    for name, dockerfile in (("cached", CACHED), ("good", "FROM a\n")):
        (tmp_path / name / "environment").mkdir()
        (tmp_path / name / "environment" / "Dockerfile").write_text(dockerfile)
    with pytest.raises(TasksError) as caught:
        find_tasks([tmp_path])
    assert caught.value.names == ["broken"]
    return caught.value


@pytest.mark.parametrize("buildx", [False, True])
async def test_all_that_docker_can_not_run(
    broken: TasksError, monkeypatch: pytest.MonkeyPatch, buildx: bool
) -> None:
    """Each task is named once, by its first fault; those that can be run are not."""

    async def there() -> bool:
        return buildx

    monkeypatch.setattr(images, "_has_buildx", there)
    backend = FakeBackend()
    backend.name = "docker"
    config = JobConfig(tasks=[], agents=["oracle"])

    found = await images.with_refusals(broken, config, backend)

    words = {
        "broken": "instruction.md", "no-oracle": "no reference solution",
        "no-image": "names no image", "cached": "needs BuildKit",
    }  # fmt: skip
    named = [name for name in words if name != "cached" or not buildx]
    assert (found.chosen, found.names) == (5, named)
    for name, error in zip(named, found.errors, strict=True):
        assert words[name] in str(error)
    alone = await images.with_refusals(broken, JobConfig(tasks=[], agents=["nop"]), backend)
    assert "no-oracle" in alone.names  # it has no image either
    given = JobConfig(tasks=[], agents=["nop"], image="a")
    assert (await images.with_refusals(broken, given, backend)).names == (
        ["broken"] if buildx else ["broken", "cached"]
    )
