"""Which files of a project a file imports, found without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..errors import ConfigError
from ..tasks.files import Bounds, read_bytes
from .importing import OURS, find


class SourceError(ConfigError):
    """A file with code that can't be read as Python."""

    def __init__(self, message: str, *, file: Path, line: int) -> None:
        self.line = line
        self.reason = message
        super().__init__(f"line {line}: {message}", file=file)


def imported(files: Iterable[Path], *, folder: Path, root: Path) -> set[Path]:
    """The project's own files that these import, and those that they import in turn.

    Every import statement counts, within functions too. Names that lead to no file of the
    resource's folder or the project are somebody else's. Raises SourceError.
    """
    folder, root = folder.resolve(), root.resolve()
    path = list(dict.fromkeys([str(folder), str(root)]))
    seen: set[Path] = set()
    waiting = [file.resolve() for file in files]
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        if file.suffix != ".py":
            continue
        waiting.extend(_targets(file, path, root))
    return seen


def _targets(file: Path, path: list[str], root: Path) -> Iterator[Path]:
    for node in ast.walk(parsed(file, root)):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield from _files(alias.name, path, root)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = path if level == 0 else [str(_above(file, level))]
                for alias in names:
                    dotted = ".".join(part for part in (module, alias.name) if part)
                    if level and module is None and (Path(base[0]) / "__init__.py").is_file():
                        yield Path(base[0]) / "__init__.py"
                    yield from _files(dotted, base, root)
            case _:
                pass


def parsed(file: Path, root: Path) -> ast.Module:
    """A file's syntax tree. Raises SourceError."""
    data = read_bytes(file, Bounds(root, root), what=file.name)
    try:
        return ast.parse(data, filename=str(file))
    except SyntaxError as error:
        raise SourceError(f"no valid Python: {error.msg}", file=file, line=error.lineno or 1) from (
            None
        )
    except (ValueError, RecursionError, MemoryError) as error:
        raise SourceError(f"no valid Python: {error}", file=file, line=1) from None


def _above(file: Path, level: int) -> Path:
    return file.parents[level - 1]


def _files(dotted: str, path: list[str], root: Path) -> Iterator[Path]:
    """The files that importing a dotted name runs; its last part may be no module."""
    here = path
    first, *_ = dotted.split(".")
    if first == OURS:
        return
    for part in dotted.split("."):
        spec = find(part, here)
        if spec is None:
            return
        if spec.origin is not None and spec.loader is not None:
            place = Path(spec.origin).resolve()
            if not place.is_relative_to(root):
                return
            yield place
        if spec.submodule_search_locations is None:
            return
        here = list(spec.submodule_search_locations)
