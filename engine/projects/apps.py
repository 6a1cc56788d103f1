"""An environment's apps, made from the entries of its manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeGuard

from ..authoring.app import App
from ..errors import ConfigError
from .importing import Space
from .model import AppManifest


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
