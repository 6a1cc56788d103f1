"""The modules of many verifiers in one process, so that none sees another's.

While a verifier's code runs, its folder and its project's are first on the import path, and the
modules that came from there are its own: the next verifier's ``verify.py`` is another module.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from types import CodeType, ModuleType
from typing import Any

from .faults import Places
from .wire import Source


class NoFunction(Exception):
    """A manifest names a function that isn't there."""


class _FromSource(importlib.machinery.SourceFileLoader):
    """Compiles what the file has now: a stale cache file would be code that nobody wrote."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class Code:
    """One verifier's modules."""

    def __init__(self, source: Source) -> None:
        self.places = Places(os.path.abspath(source.folder), os.path.abspath(source.root))
        self.paths = list(dict.fromkeys(self.places))
        self.modules: dict[str, ModuleType] = {}
        self.files: dict[str, ModuleType | BaseException] = {}
        self.names = {name.partition(".")[0] for path in self.paths for name in _listed(path)}

    def owns(self, module: ModuleType) -> bool:
        """Whether a module came from the verifier's files or the project's."""
        file = getattr(module, "__file__", None)
        if file is None:
            file = next(iter(getattr(module, "__path__", ())), None)
        return isinstance(file, str) and self.places.shown(file, None) is not None


class Sources:
    """The code of all verifiers of a process."""

    def __init__(self) -> None:
        self._path = list(sys.path)
        self._base = frozenset(sys.modules)
        self._codes: dict[tuple[str, str, str], Code] = {}
        self._active: Code | None = None
        self._aside: dict[str, ModuleType] = {}
        self._count = 0

    def code(self, source: Source) -> Code:
        """The source's modules, so far as they are loaded."""
        code = self._codes.get(source.key)
        if code is None:
            code = self._codes[source.key] = Code(source)
            for path in code.paths:
                _look_anew(path)
        return code

    def enter(self, source: Source) -> Code:
        """Make a source's modules those that an import finds."""
        code = self.code(source)
        if code is not self._active:
            self.leave()
            self._active = code
            sys.path[:] = [*code.paths, *self._path]
            for name in code.names & sys.modules.keys():
                if name not in self._base:  # another's dependency of the same name
                    self._aside[name] = sys.modules.pop(name)
            sys.modules.update(code.modules)
            self._count = len(sys.modules)
        return code

    def leave(self) -> None:
        """Take the active source's modules out of sight."""
        code, self._active = self._active, None
        if code is None:
            return
        if len(sys.modules) != self._count:
            for name, module in list(sys.modules.items()):
                if name not in self._base and name not in code.modules and code.owns(module):
                    code.modules[name] = module
        for name in code.modules:
            sys.modules.pop(name, None)
        sys.modules.update(self._aside)
        self._aside.clear()
        sys.path[:] = self._path

    def loaded(self, source: Source, what: str) -> bool:
        """Whether the file in ``file.py:function`` was loaded already."""
        return what.partition(":")[0] in self.code(source).files

    def load(self, source: Source, what: str) -> None:
        """Run the file in ``file.py:function``, once; that it failed is kept as well."""
        code = self.enter(source)
        name = what.partition(":")[0]
        try:
            code.files[name] = self._import(code, name)
        except BaseException as error:
            code.files[name] = error
            self._count = -1  # what it imported before it failed is to be found

    def function(self, source: Source, what: str) -> Any:
        """The function of a loaded file. Raises what loading raised, and NoFunction."""
        file, _, names = what.partition(":")
        found: Any = self.enter(source).files[file]
        if isinstance(found, BaseException):
            raise found
        for name in names.split("."):
            found = getattr(found, name, None)
        if not callable(found):
            raise NoFunction(f"{file} has no function {names!r}")
        return found

    def _import(self, code: Code, name: str) -> ModuleType:
        path = os.path.join(code.places.folder, name)
        dotted = name.removesuffix(".py").replace("/", ".")
        if dotted in self._base:  # a file called json.py, say, must not replace the real one
            dotted = f"verifier_{dotted}"
        if dotted in sys.modules and code.owns(sys.modules[dotted]):
            return sys.modules[dotted]
        loader = _FromSource(dotted, path)
        spec = importlib.util.spec_from_file_location(dotted, path, loader=loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[dotted] = module
        try:
            loader.exec_module(module)
        except BaseException:
            sys.modules.pop(dotted, None)
            raise
        return sys.modules[dotted]


def _listed(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _look_anew(path: str) -> None:
    """Let imports from a folder see its files as they are now, compiled from their source."""
    details = (_FromSource, importlib.machinery.SOURCE_SUFFIXES)
    extensions = (
        importlib.machinery.ExtensionFileLoader,
        importlib.machinery.EXTENSION_SUFFIXES,
    )
    sys.path_importer_cache[path] = importlib.machinery.FileFinder(path, extensions, details)
