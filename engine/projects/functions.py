"""Functions that a verifier's manifest names and its files don't have, told without importing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from .faults import Fault
from .importing import parse_reference
from .manifests import TOTAL_REWARD
from .model import VerifierManifest
from .reader import nearest

_DYNAMIC = {"__getattr__", "exec", "globals", "setattr", "vars"}
"""A file that has one of these may make names that can't be read off it."""


def missing_functions(manifest: VerifierManifest) -> Iterator[Fault]:
    """Hooks that lead to nothing, as far as the text of their files says; blocks."""
    for hook in ("check", "reward", "hindsight"):
        text: object = getattr(manifest, hook)
        reference = None
        if isinstance(text, str) and text != TOTAL_REWARD:
            reference = parse_reference(text)
        if reference is None:
            continue
        read = _names(manifest.folder / reference.file)
        wanted = reference.name.partition(".")[0]
        if read is None or wanted in read[0]:
            continue
        message = (
            f"{hook}: there is no function {reference.name!r} in {reference.file}; "
            f"{nearest(wanted, read[1])}"
        )
        yield Fault(file=str(manifest.file), line=manifest.line(hook), message=message)


def _names(file: Path) -> tuple[set[str], list[str]] | None:
    """Every name that a file may bind at its top, and its functions; null where it can't be told.

    Names bound anywhere count, so that nothing is refused that could work.
    """
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None  # told where the file is loaded
    bound: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                bound.add(node.name)
            case ast.Name():
                if node.id in _DYNAMIC:
                    return None
                if isinstance(node.ctx, ast.Store):
                    bound.add(node.id)
            case ast.alias():
                if node.name == "*":
                    return None
                bound.add((node.asname or node.name).partition(".")[0])
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bound.add(name)
            case _:
                pass
    functions = [n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    return None if bound & _DYNAMIC else (bound, functions)
