"""Where a function or class of a running program is written."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from ..errors import ConfigError
from .importing import LazyFunction, parse_reference


class Place(msgspec.Struct, frozen=True):
    """Where a function or class is written."""

    file: Path
    root: Path
    """The folder that imports start from."""
    name: str
    """Dotted within the file."""


def place_of(what: str, thing: Any) -> Place:
    """Where a function or class can be found again. `what` says whose it is. Raises ConfigError."""
    if isinstance(thing, LazyFunction):
        reference = parse_reference(thing.reference)
        assert reference is not None
        place = (thing.space.folder / reference.file).resolve()
        return Place(place, thing.space.root, reference.name)
    name = getattr(thing, "__qualname__", None)
    if not isinstance(name, str):
        raise ConfigError(
            f"{what} is {thing!r}, an object without a name; give a function or class that a "
            "file has at its top level"
        )
    shown = f"{what} ({name})"
    if "<lambda>" in name:
        raise ConfigError(f"{shown} is a lambda, which can't be found again in a file; use def")
    if "<locals>" in name:
        raise ConfigError(
            f"{shown} is made within a function, so it can't be found again in its file; move it "
            "to the file's top level"
        )
    module = sys.modules.get(getattr(thing, "__module__", None) or "")
    file = _file_of(thing, module)
    if module is None or file is None:
        raise ConfigError(
            f"{shown} comes from no file, such as one typed at a prompt; its digest is taken from "
            "a Python file, so write it into one"
        )
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part, None)
    if value is not thing:
        raise ConfigError(
            f"{shown} is not what {file.name} has by that name; give the function or class itself, "
            "without a decorator that keeps the name",
            file=file,
        )
    return Place(file, _import_root(module, file), name)


def _file_of(thing: Any, module: ModuleType | None) -> Path | None:
    named = getattr(module, "__file__", None)
    code = getattr(thing, "__code__", None)
    if named is None or (code is not None and code.co_filename.startswith("<")):
        return None
    file = Path(os.path.abspath(named)).resolve()
    return file if file.is_file() and file.suffix == ".py" else None


def _import_root(module: ModuleType, file: Path) -> Path:
    """The folder below which the file is the module of its name."""
    spec = module.__spec__
    parts = (spec.name if spec is not None else module.__name__).split(".")
    if file.stem == "__init__":
        parts.append("__init__")
    place = file.with_suffix("").parts
    if len(parts) < len(place) and list(place[-len(parts) :]) == parts:
        return Path(*place[: -len(parts)])
    return file.parent
