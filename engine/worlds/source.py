"""Where an environment's code is, and its apps made from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeGuard

import msgspec

from ..authoring.app import App
from ..authoring.environment import Environment
from ..errors import ConfigError
from ..projects.importing import Space
from ..projects.model import AppManifest


class WorldSource(msgspec.Struct, frozen=True, kw_only=True):
    """An environment's code."""

    name: str
    """The environment's."""
    folder: Path
    """The environment's folder, which the references in `apps` are relative to."""
    root: Path
    """The project's folder: what lies in it can be imported, too."""
    apps: list[AppManifest] = []
    image: str | None = None
    """The image that its apps run in, in a container."""


def load_environment(source: WorldSource) -> Environment:
    """Import the apps. Raises ConfigError, and whatever the author's code raises meanwhile."""
    space = Space(source.folder, source.root)
    kinds: list[type[App[Any]]] = []
    settings: dict[str, dict[str, Any]] = {}
    for entry in source.apps:
        kind = _named(space.load(entry.python), entry, source)
        kinds.append(kind)
        settings[kind.app_name()] = entry.settings
    return Environment(kinds, name=source.name, settings=settings)


def _named(found: Any, entry: AppManifest, source: WorldSource) -> type[App[Any]]:
    """The class, with name and control as the manifest has them."""
    if not _is_app(found):
        raise ConfigError(
            f"{entry.python} is {found!r}; an environment's apps are classes of the form "
            "`class Name(App[State])`",
            file=source.folder,
        )
    changes = {"name": entry.name, "control": entry.control}
    given = {key: value for key, value in changes.items() if value is not None}
    if not given:
        return found
    return type(found.__name__, (found,), {**given, "__module__": found.__module__})


def _is_app(found: Any) -> TypeGuard[type[App[Any]]]:
    return isinstance(found, type) and issubclass(found, App)
