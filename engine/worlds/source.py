"""Where an environment's code is, and its apps made from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ..authoring.app import App
from ..authoring.environment import Environment
from ..projects.apps import authored_app
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
        kind = authored_app(entry, space, source.folder)
        kinds.append(kind)
        settings[kind.app_name()] = entry.settings
    return Environment(kinds, name=source.name, settings=settings)
