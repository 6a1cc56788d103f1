"""A snapshot holds everything that a later command needs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from trialog.engine.errors import ConfigError, TaskError
from trialog.engine.projects.project import load_project
from trialog.engine.projects.snapshot import pack_project_task, unpack_project_task

from .conftest import Make, write
from .test_digest import SHARED


def names(folder: Path) -> list[str]:
    """All files below a folder."""
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def test_round_trip(make: Make, tmp_path: Path) -> None:
    """The task comes back without the project's folder: same digests, same settings, and its code
    and its agent's can be imported."""
    root = make(
        {
            **SHARED,
            "agents/steady/policy.py": (
                "import plans\n\n\nclass Policy:\n    plan = plans.PLAN\n"
                "    async def act(self, observation, actions):\n        return None\n"
            ),
            "plans.py": "PLAN = 'slowly'\n",
            "tasks/count/notes.txt": "for people\n",
            "tasks/other/task.yaml": "broken: [\n",
            "agents/other/agent.yaml": "name: other\npython: x.py:y\n",
        }
    )
    project = load_project(root)
    task = project.task("count")
    files = task.verifier_files()
    data = pack_project_task(task, project.agent("steady"))
    agent_digest = project.agent("steady").digest
    shutil.rmtree(root)
    back = unpack_project_task(data, tmp_path / "snapshot")
    assert names(tmp_path / "snapshot") == [
        "agents/steady/agent.yaml",
        "agents/steady/policy.py",
        "environments/counter/env.py",
        "environments/counter/environment.yaml",
        "late.py",
        "plans.py",
        "shared/more.py",
        "shared/sums.py",
        "tasks/count/notes.txt",
        "tasks/count/task.yaml",
        "trialog.yaml",
        "verifiers/reached/data/answers.txt",
        "verifiers/reached/verifier.yaml",
        "verifiers/reached/verify.py",
    ]
    assert (back.name, back.view, back.digest) == (task.name, task.view, task.digest)
    assert [each.digest for each in back.verifiers] == [each.digest for each in task.verifiers]
    assert back.verifier_files() == files
    assert set(files) == {name for name in names(tmp_path / "snapshot")
                          if name.startswith(("verifiers/", "shared/", "late"))}  # fmt: skip
    assert back.agents["steady"].digest == agent_digest
    assert back.agents["steady"].policy().plan == "slowly"
    environment = back.task.environment
    environment.reset(back.task, verifiers=back.task.verifiers)
    assert environment.step("add", n=3)[0] == 3


def test_same_bytes(make: Make) -> None:
    """The same files give the same archive, wherever and whenever it is made."""
    one, other = (load_project(make(SHARED, name=name)).task("count") for name in ("a", "b"))
    assert pack_project_task(one) == pack_project_task(other)
    changed = load_project(make({**SHARED, "late.py": "x = 1\n"}, name="c")).task("count")
    assert pack_project_task(one) != pack_project_task(changed)


def test_a_snapshot_of_a_snapshot(make: Make, tmp_path: Path) -> None:
    """A task from a snapshot packs to the same bytes again."""
    task = load_project(make(SHARED)).task("count")
    data = pack_project_task(task)
    assert pack_project_task(unpack_project_task(data, tmp_path / "s")) == data


def test_a_change_while_packing(make: Make) -> None:
    """Files that changed since the task was loaded are not kept under its digest."""
    root = make(SHARED)
    task = load_project(root).task("count")
    assert pack_project_task(task)
    write(root, {"late.py": "x = 2\n"})
    with pytest.raises(TaskError, match="changed while it was read"):
        pack_project_task(task)


def test_a_later_version_reads_it(make: Make, tmp_path: Path) -> None:
    """A project's range of versions stops no command that works on what a job has kept."""
    root = make()
    task = load_project(root).task("count")
    write(root, {"trialog.yaml": "name: shop\ntrialog: '<0.0.1'\n"})
    with pytest.raises(ConfigError, match=r"is for trialog <0\.0\.1"):
        load_project(root)
    data = pack_project_task(task)
    assert unpack_project_task(data, tmp_path / "s").name == "count"


def test_modules_in_other_resources(make: Make, tmp_path: Path) -> None:
    """A module of another resource's folder comes along, without its manifest."""
    root = make(
        {
            "verifiers/reached/verify.py": (
                "from tasks.other.key import KEY\n\n\ndef check(episode):\n    return KEY\n\n\n"
                "def reward(step):\n    return KEY\n"
            ),
            "tasks/other/key.py": "KEY = 1\n",
            "tasks/other/task.yaml": "name: other\n",
        }
    )
    data = pack_project_task(load_project(root).task("count"))
    back = unpack_project_task(data, tmp_path / "s")
    assert not (tmp_path / "s/tasks/other/task.yaml").exists()
    assert back.task.verifiers[0].reward(None) == 1  # type: ignore[union-attr, misc, arg-type]


@pytest.mark.parametrize("data", [b"", b"nonsense"])
def test_no_snapshot(tmp_path: Path, data: bytes) -> None:
    """Bytes that are no snapshot are refused."""
    with pytest.raises(ConfigError):
        unpack_project_task(data, tmp_path / "s")


def test_agents_of_other_projects(make: Make) -> None:
    """An agent's files are kept with tasks of its own project only: names of files could clash."""
    one, other = (load_project(make(name=name)) for name in ("one", "other"))
    assert pack_project_task(one.task("count"), one.agent("steady"))
    with pytest.raises(ConfigError, match="an agent plays tasks of its own project"):
        pack_project_task(one.task("count"), other.agent("steady"))
