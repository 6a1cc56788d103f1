"""What is refused on Docker before a job begins: tasks for which no container can be made here."""

from __future__ import annotations

from collections.abc import Sequence

from anyio import to_thread

from ..errors import ConfigError, TaskError
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
    reasons = await to_thread.run_sync(_buildkit_reasons, tasks)
    if reasons and not await _has_buildx():
        errors = [_unbuildable(task, reasons[task.name]) for task in tasks if task.name in reasons]
        raise errors[0] if len(tasks) == 1 else TasksError(errors, len(tasks), names=list(reasons))


def _refuse_unnamed(tasks: Sequence[Task]) -> None:
    without = [
        task.name
        for task in tasks
        if task.dockerfile is None and task.settings.sandbox.docker_image is None
    ]
    if without:
        named = f"task {without[0]} names no image"
        if len(without) > 1:
            more = ", …" if len(without) > 5 else ""
            named = f"{len(without)} tasks name no image ({', '.join(without[:5])}{more})"
        raise ConfigError(
            f"{named}, and Docker needs one; give --image or $TRIALOG_IMAGE, or give the task an "
            "environment/Dockerfile or a docker_image, or run on this machine's own system with "
            "`--sandbox bubblewrap`"
        )


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
