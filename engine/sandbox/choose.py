"""Choosing the sandbox: by name, or what this machine has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio import to_thread

from ..errors import ConfigError, SandboxUnavailable

if TYPE_CHECKING:
    from .bubblewrap import BubblewrapBackend
    from .docker import DockerBackend
    from .protocol import SandboxBackend

ANSWER_WITHIN = 2.0
"""Seconds that a container engine has to answer."""


async def choose(
    name: str, *, default_image: str | None = None, strict_limits: bool = False
) -> SandboxBackend:
    """The backend called `docker` or `bubblewrap`, or for `auto` the first that works here.

    `default_image` is what Docker takes for tasks that name no image; `strict_limits` makes
    either refuse a limit that it can't hold. Raises SandboxUnavailable with what to do.
    """
    match name:
        case "docker":
            return await _docker(default_image, strict_limits)
        case "bubblewrap":
            return await _bubblewrap(strict_limits)
        case "in-process":
            from .none import NoSandboxes

            return NoSandboxes()
        case "auto":
            return await _first_that_works(default_image, strict_limits)
        case _:
            raise ConfigError(
                f"there is no sandbox {name!r}; use auto, docker or bubblewrap", key="sandbox"
            )


async def _first_that_works(default_image: str | None, strict_limits: bool) -> SandboxBackend:
    try:
        return await _docker(default_image, strict_limits)
    except SandboxUnavailable as error:
        no_engine = str(error)
    try:
        return await _bubblewrap(strict_limits)
    except SandboxUnavailable as error:
        raise SandboxUnavailable(
            f"no sandbox can be had here. docker: {no_engine}. bubblewrap: {error}"
        ) from error


async def _docker(default_image: str | None, strict_limits: bool) -> DockerBackend:
    backend = await to_thread.run_sync(_import_docker)
    return await backend.connect(
        default_image=default_image, strict_limits=strict_limits, deadline=ANSWER_WITHIN
    )


async def _bubblewrap(strict_limits: bool) -> BubblewrapBackend:
    return await to_thread.run_sync(_make_bubblewrap, strict_limits)


def _import_docker() -> type[DockerBackend]:
    """Only now, and in a thread: the client library takes a quarter of a second."""
    from .docker import DockerBackend

    return DockerBackend


def _make_bubblewrap(strict_limits: bool) -> BubblewrapBackend:
    from .bubblewrap import BubblewrapBackend, usable

    reason = usable()
    if reason is not None:
        raise SandboxUnavailable(reason)
    return BubblewrapBackend(strict_limits=strict_limits)
