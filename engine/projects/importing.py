"""Importing authors' code, each resource's apart from all others.

A `Space` is the modules of one resource. In it the resource's folder and the project's root come
first, as if they were on `sys.path`, and nowhere else: its modules are known to Python under names
that nobody else uses, so two verifiers with a `helpers.py` each have their own, and `sys.path` and
the plain names in `sys.modules` stay as they were. Bytecode is neither read nor written: what runs
is the file as it is.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.machinery
import importlib.util
import itertools
import re
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from ..errors import ConfigError
from .faults import PREFIX

_REFERENCE = re.compile(r"(?P<file>[^:\0]+\.py):(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")
OURS = "trialog"
"""The package that authors import from, whatever a project has of that name."""

_numbers = itertools.count(1)
_spaces: dict[str, Space] = {}
_importing = threading.local()


class Reference(NamedTuple):
    """``file.py:name``, taken apart."""

    file: str
    name: str


def parse_reference(text: str) -> Reference | None:
    """A reference, or None for text that is none."""
    found = _REFERENCE.fullmatch(text)
    return Reference(found["file"], found["name"]) if found else None


def importing() -> bool:
    """Whether this thread is in the middle of importing an author's file.

    A script that starts a job at its top level would start it again whenever its functions are
    imported; by this the job can refuse.
    """
    return bool(getattr(_importing, "depth", 0))


class Space:
    """The modules of one resource of a project."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder.resolve()
        self.root = root.resolve()
        self.name = f"{PREFIX}{next(_numbers)}"
        self.path = list(dict.fromkeys([str(self.folder), str(self.root)]))
        self._builtins = {**vars(builtins), "__import__": self._import}
        package = ModuleType(self.name)
        package.__path__ = self.path
        sys.modules[self.name] = package
        _spaces[self.name] = self
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder())

    def load(self, reference: str) -> Any:
        """What ``file.py:name`` stands for; the file is relative to the resource's folder.

        Raises ConfigError for a reference that leads to nothing, and whatever the file's own code
        raises while it is imported.
        """
        parsed = parse_reference(reference)
        if parsed is None:
            raise ConfigError(f"expected file.py:name, found {reference!r}")
        value: Any = self.module(self.folder / parsed.file)
        for part in parsed.name.split("."):
            try:
                value = getattr(value, part)
            except AttributeError:
                raise ConfigError(
                    f"there is no {parsed.name!r} in {parsed.file}", file=self.folder / parsed.file
                ) from None
        return value

    def module(self, file: Path) -> ModuleType:
        """A file of the resource or the project as a module, imported once."""
        name = module_name(file, self.folder, self.root)
        if not file.is_file():
            raise ConfigError("there is no such file", file=file)
        _importing.depth = getattr(_importing, "depth", 0) + 1
        try:
            module = importlib.import_module(f"{self.name}.{name}")
        except ModuleNotFoundError as error:
            raise self._plainly(error) from None
        finally:
            _importing.depth -= 1
        if module.__file__ is None or Path(module.__file__).resolve() != file.resolve():
            raise ConfigError(
                f"the name {name!r} stands for {module.__file__} here; rename one of the files",
                file=file,
            )
        return module

    def close(self) -> None:
        """Forget its modules. What was loaded goes on working but for imports within functions."""
        _spaces.pop(self.name, None)
        for name in list(sys.modules):
            if name == self.name or name.startswith(f"{self.name}."):
                del sys.modules[name]

    def owns(self, top: str) -> bool:
        """Whether a module's first name is the project's.

        As everywhere in Python, a folder without ``__init__.py`` comes after what is installed.
        """
        if top == OURS:
            return False
        spec = find(f"{self.name}.{top}", self.path)
        if spec is None:
            return False
        if spec.loader is not None:
            return True
        try:
            installed = importlib.util.find_spec(top)
        except (ValueError, ImportError):
            return False
        return installed is None or installed.origin is None

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """``__import__`` as the space's modules have it."""
        top = name.partition(".")[0]
        if level or not self.owns(top):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        try:
            module = builtins.__import__(f"{self.name}.{name}", {}, {}, fromlist or (), 0)
        except ModuleNotFoundError as error:
            raise self._plainly(error) from None
        return module if fromlist else sys.modules[f"{self.name}.{top}"]

    def _plainly(self, error: ModuleNotFoundError) -> ModuleNotFoundError:
        """The error with names as the author wrote them."""
        own = f"{self.name}."
        plain = ModuleNotFoundError(
            str(error).replace(own, ""),
            name=(error.name or "").replace(own, "") or None,
            path=error.path,
        )
        return plain.with_traceback(error.__traceback__)

    def run(self, code: CodeType, module: ModuleType) -> None:
        """Run a module's code with the space's own ``import``."""
        module.__dict__["__builtins__"] = self._builtins
        exec(code, module.__dict__)  # noqa: S102 - what importing is


def module_name(file: Path, folder: Path, root: Path) -> str:
    """A file's dotted name, from the resource's folder, else from the project's root.

    Raises ConfigError for a file outside of both.
    """
    place = file.resolve()
    for base in (folder.resolve(), root.resolve()):
        if place.is_relative_to(base):
            parts = place.relative_to(base).with_suffix("").parts
            if any("." in part for part in parts):
                raise ConfigError("a file with code can't have dots in its name", file=file)
            return ".".join(parts)
    raise ConfigError(f"is outside of the project {root}", file=file)


def find(name: str, path: Sequence[str]) -> importlib.machinery.ModuleSpec | None:
    """Where a module of a space is: a file or package, else the folders of a namespace."""
    portions: list[str] = []
    for folder in path:
        finder = importlib.machinery.FileFinder(
            folder,
            (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES),
            (_Loader, [".py"]),
        )
        spec = finder.find_spec(name)
        if spec is None:
            continue
        if spec.loader is not None:
            return spec
        portions.extend(spec.submodule_search_locations or ())
    if not portions:
        return None
    spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = portions
    return spec


class _Finder:
    """Finds the modules of spaces, and no others."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return find(name, path or ()) if name.startswith(PREFIX) else None

    def invalidate_caches(self) -> None:
        """It has none."""


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a file of a space."""

    def get_code(self, fullname: str) -> CodeType:
        file = self.get_filename(fullname)
        return self.source_to_code(self.get_data(file), file)

    def exec_module(self, module: ModuleType) -> None:
        space = _spaces.get(module.__name__.partition(".")[0])
        if space is None:
            raise ImportError(f"the modules of {module.__file__} are closed", name=module.__name__)
        space.run(self.get_code(module.__name__), module)


class LazyFunction:
    """A function of a file, which is imported when it is first called."""

    def __init__(self, space: Space, reference: str) -> None:
        self.space = space
        self.reference = reference
        self.__name__ = reference.rpartition(":")[2]

    def __call__(self, *arguments: Any) -> Any:
        """Call it. Raises ConfigError where it is not there, and what the function raises."""
        return self.space.load(self.reference)(*arguments)
