"""What a task's image is built from, and whether it could be built here at all."""

from __future__ import annotations

from pathlib import Path

from ..errors import TaskError
from .compose import compose_use, find_compose
from .dockerfile import copied_sources, in_context
from .files import (
    SOLUTION_NAMES,
    VERIFIER_NAMES,
    Bounds,
    present,
    read_text,
    real_folder,
    regular_file,
)
from .model import TaskSettings, TaskWarning


def find_build(
    folder: Path,
    settings: TaskSettings,
    name: str,
    bounds: Bounds,
    warnings: list[TaskWarning],
) -> tuple[Path | None, Path | None]:
    """The Dockerfile and its build context. Raises TaskError for a compose file that is needed."""
    environment = folder / "environment"
    if not present(environment):
        return None, None
    real_folder(environment, bounds, what="the environment")
    place = bounds.follow(environment)
    dockerfile = place / "Dockerfile"
    real, text = None, ""
    if present(dockerfile):
        real = regular_file(dockerfile, bounds, what="the Dockerfile")
        text = read_text(dockerfile, bounds, what="the Dockerfile")
        if not text.strip():
            raise TaskError("the Dockerfile is empty", file=environment / "Dockerfile")
    sources = copied_sources(text)
    has_image = real is not None or settings.sandbox.docker_image is not None
    compose = find_compose(place)
    if compose is not None and compose.name not in {source.strip("./") for source in sources}:
        use = compose_use(read_text(compose, bounds, what="the compose file"))
        if use is None and not has_image:
            use = "it alone says what the image is"
        if use is not None:
            raise TaskError(
                f"task {name} is refused: it needs its compose file ({use}), and compose files "
                "are not supported",
                file=environment / compose.name,
            )
    if real is None:
        return None, None
    from_root = [
        source for source in sources if not in_context(source, place) and in_context(source, folder)
    ]
    if not from_root:
        return real, place
    for source in sources:
        part = source.strip("./").split("/", 1)[0]
        if part in ("", "*", *VERIFIER_NAMES, *SOLUTION_NAMES):
            raise TaskError(
                f"task {name} is refused: with the task's root as build context (for "
                f"{from_root[0]!r}), COPY {source} puts the verifier or the solution into the "
                "image, where the agent can read it; copy what is meant into environment/",
                file=environment / "Dockerfile",
            )
    warnings.append(
        TaskWarning(
            "task_context_root",
            f"the Dockerfile copies {from_root[0]!r}, which is not in environment/ but at "
            "the task's root, so the root is the build context",
        )
    )
    return real, folder
