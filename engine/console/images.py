"""Tasks that are refused before a job begins: above all those without a container on Docker."""

from __future__ import annotations

from collections.abc import Sequence

from anyio import to_thread

from ..errors import ConfigError, TaskError
from ..job.agents import spelled_alike
from ..job.config import JobConfig
from ..job.refuse import refused_tasks
from ..job.tasks import configured
from ..sandbox.protocol import SandboxBackend
from ..tasks.dataset import TasksError
from ..tasks.dockerfile import needs_buildkit
from ..tasks.files import Bounds, read_text
from ..tasks.model import Task


async def refuse_without_images(
    backend: SandboxBackend, image: str | None, tasks: Sequence[Task]
) -> None:
    """Raise for tasks that name no image, and for those whose image can't be built here.

    Bubblewrap needs no image. Raises ConfigError, TaskError (of several tasks TasksError).
    """
    if backend.name != "docker":
        return
    if image is None:
        _refuse_unnamed(tasks)
    if faults := await _unbuildable_tasks(tasks):
        errors = list(faults.values())
        others = [task for task in tasks if task.name not in faults]
        if len(tasks) == 1:
            raise errors[0]
        raise TasksError(errors, len(tasks), names=list(faults), others=others)


async def with_refusals(
    error: TasksError, config: JobConfig, backend: SandboxBackend
) -> TasksError:
    """The faults that are known, and why this sandbox can't run others: told at once."""
    config = spelled_alike(config)
    faults = refused_tasks(config, [configured(t, config) for t in error.others], backend.name)
    if backend.name == "docker":
        left = [task for task in error.others if task.name not in faults]
        unnamed = _unnamed(left) if config.image is None else []
        faults |= {
            name: TaskError(f"task {name} names no image, and Docker needs one; see --image")
            for name in unnamed
        }
        faults |= await _unbuildable_tasks([task for task in left if task.name not in unnamed])
    return error.joined(faults)


def _unnamed(tasks: Sequence[Task]) -> list[str]:
    return [
        task.name
        for task in tasks
        if task.dockerfile is None and task.settings.sandbox.docker_image is None
    ]


def _refuse_unnamed(tasks: Sequence[Task]) -> None:
    if without := _unnamed(tasks):
        named = f"task {without[0]} names no image"
        if len(without) > 1:
            more = ", …" if len(without) > 5 else ""
            named = f"{len(without)} tasks name no image ({', '.join(without[:5])}{more})"
        raise ConfigError(
            f"{named}, and Docker needs one; give --image or $TRIALOG_IMAGE, or give the task an "
            "environment/Dockerfile or a docker_image, or run on this machine's own system with "
            "`--sandbox bubblewrap`"
        )


async def _unbuildable_tasks(tasks: Sequence[Task]) -> dict[str, TaskError]:
    reasons = await to_thread.run_sync(_buildkit_reasons, tasks)
    if not reasons or await _has_buildx():
        return {}
    return {t.name: _unbuildable(t, reasons[t.name]) for t in tasks if t.name in reasons}


def _buildkit_reasons(tasks: Sequence[Task]) -> dict[str, str]:
    """Why tasks' Dockerfiles need BuildKit, by the tasks' names."""
    reasons: dict[str, str] = {}
    for task in tasks:
        if task.dockerfile is None or task.settings.sandbox.docker_image is not None:
            continue
        bounds = Bounds(task.path.resolve(), task.dataset)
        reason = needs_buildkit(read_text(task.dockerfile, bounds, what="the Dockerfile"))
        if reason is not None:
            reasons[task.name] = reason
    return reasons


async def _has_buildx() -> bool:
    """Imported only now: the client library takes a quarter of a second."""
    from ..sandbox.docker.build import has_buildx

    return await has_buildx()


def _unbuildable(task: Task, reason: str) -> TaskError:
    return TaskError(
        f"task {task.name} is refused: its Dockerfile needs BuildKit ({reason}), and `docker "
        "buildx` is not installed here; install it, or write the Dockerfile without",
        file=task.dockerfile,
    )
