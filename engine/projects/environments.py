"""Environments as authors would write them in Python, made from their manifests."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeGuard

from ..authoring.app import App
from ..authoring.environment import Environment
from ..errors import ConfigError
from .faults import ProjectError
from .importing import Space
from .manifests import read_environment
from .model import AppManifest, EnvironmentManifest
from .reader import Faults


def open_environment(file: Path, root: Path) -> Environment:
    """The environment of an environment.yaml; blocks, and imports its apps.

    For processes that have nothing but a project's files. Raises ConfigError, and what the apps'
    files raise.
    """
    faults = Faults()
    manifest = read_environment(file, root, faults)
    if manifest is None or faults.found:
        raise ProjectError(file.name, faults.found)
    return authored_environment(manifest, Space(file.parent, root))


def authored_environment(manifest: EnvironmentManifest, space: Space) -> Environment:
    """An environment whose apps are imported into a space."""
    apps = [authored_app(app, space, manifest.file) for app in manifest.apps]
    return Environment(
        apps,
        name=manifest.name,
        max_turns=manifest.max_turns,
        max_seconds=manifest.max_seconds,
        max_cost=manifest.max_cost,
        settings={
            kind.app_name(): app.settings
            for kind, app in zip(apps, manifest.apps, strict=True)
            if app.settings
        },
    )


def authored_app(app: AppManifest, space: Space, file: Path) -> type[App[Any]]:
    """An app's class, with what the manifest says in place of its own. Raises ConfigError."""
    kind = space.load(app.python)
    if not is_app(kind):
        raise ConfigError(f"{app.python} is no App; write `class Name(App[State])`", file=file)
    changes: dict[str, Any] = {}
    if app.name is not None and app.name != kind.app_name():
        changes["name"] = app.name
    if app.control is not None and app.control != kind.control:
        changes["control"] = app.control
    if not changes:
        return kind
    changes |= {"__module__": kind.__module__, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind,), changes)


def is_app(value: object) -> TypeGuard[type[App[Any]]]:
    """Whether something is an app's class."""
    return isinstance(value, type) and issubclass(value, App) and value is not App
