"""Which files of a project belong to a resource, and their digest."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from ..tasks.digest import digest as digest_of
from ..tasks.files import Bounds, Entry, walk
from ..tasks.files import regular_file as regular_file
from .importing import parse_reference
from .model import AgentManifest, EnvironmentManifest, VerifierManifest
from .modules import imported

_LEFT_OUT = re.compile(
    r"(?:^|/)(?:\.mypy_cache|\.ruff_cache|\.ipynb_checkpoints|\.DS_Store)(?:/|$)|\.pyc$"
)
_QUERY = re.compile(rb"\bquery\b")

Coded: TypeAlias = EnvironmentManifest | VerifierManifest | AgentManifest
"""A manifest that may name code."""


def folder_entries(folder: Path, root: Path) -> list[Entry]:
    """All files of a folder but caches, by their path from the project's root; links are followed
    within the project. Raises TaskError."""
    bounds = Bounds(root, root)
    base = folder.relative_to(root).as_posix()
    return [
        entry._replace(path=f"{base}/{entry.path}")
        for entry in walk(folder, bounds, lambda _: True)
        if entry.kind == "file" and not _LEFT_OUT.search(entry.path)
    ]


def file_entry(file: Path, root: Path) -> Entry:
    """One file of the project."""
    place = regular_file(file, Bounds(root, root), what=file.name)
    mode = stat.S_IMODE(place.stat().st_mode) & 0o777
    return Entry(file.relative_to(root).as_posix(), "file", place, mode)


def resource_entries(manifest: Coded, root: Path) -> list[Entry]:
    """All files that a resource is made of: those of its folder, and the project's modules that
    they import. Raises TaskError and SourceError."""
    folder = manifest.folder
    entries = {entry.path: entry for entry in folder_entries(folder, root)}
    if isinstance(manifest, AgentManifest) and manifest.command is not None:
        return sorted(entries.values(), key=lambda entry: entry.key)  # it runs elsewhere
    for file in source_files(manifest, root):
        if not file.is_relative_to(folder):
            entry = file_entry(file, root)
            entries.setdefault(entry.path, entry)
    return sorted(entries.values(), key=lambda entry: entry.key)


def source_files(manifest: Coded, root: Path) -> set[Path]:
    """The Python files of a resource, and the project's that they import."""
    folder = manifest.folder
    seeds = [entry.place for entry in folder_entries(folder, root) if entry.path.endswith(".py")]
    seeds += [folder / file for file in referenced(manifest)]
    return imported(seeds, folder=folder, root=root)


def referenced(manifest: Coded) -> list[str]:
    """The files that a manifest names in ``file.py:name``."""
    match manifest:
        case EnvironmentManifest():
            texts = [app.python for app in manifest.apps]
        case VerifierManifest():
            texts = [
                text
                for text in (manifest.check, manifest.reward, manifest.hindsight)
                if isinstance(text, str)
            ]
        case _:
            texts = [manifest.python] if manifest.python else []
    parsed = [parse_reference(text) for text in texts]
    return [reference.file for reference in parsed if reference is not None]


def verifier_digest(manifest: VerifierManifest, root: Path) -> str:
    """``sha256:…`` over everything that decides what a verifier says: all files of its folder, the
    manifest among them, and the project's modules that they import."""
    return digest_of(resource_entries(manifest, root))


def entries_digest(entries: Iterable[Entry]) -> str:
    """``sha256:…`` over files by their paths from the project's root."""
    return digest_of(entries)


def may_query(manifest: VerifierManifest, root: Path) -> bool:
    """Whether a verifier's code may ask apps questions: the word `query` is in it."""
    return any(_QUERY.search(file.read_bytes()) for file in source_files(manifest, root))
