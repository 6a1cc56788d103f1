"""A git repository's settings without those that make git run programs. Pure, on bytes."""

from __future__ import annotations

import re

HOOKS = (
    "applypatch-msg commit-msg fsmonitor-watchman post-applypatch post-checkout post-commit "
    "post-index-change post-merge post-rewrite pre-applypatch pre-auto-gc pre-commit "
    "pre-merge-commit pre-push pre-rebase prepare-commit-msg reference-transaction "
    "sendemail-validate"
).split()
"""Programs that git runs for whoever works in a repository; those of a server's are not here."""

_HEADER = re.compile(rb'\s*\[\s*([\w.-]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]')
_VARIABLE = re.compile(rb"\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*?)\s*)?$", re.S)
_CONTINUED = re.compile(rb"(?<!\\)(?:\\\\)*\\\r?\n?$")
_SWITCH = frozenset(b"true false yes no on off 0 1".split())
_LFS = re.compile(rb'"?git[- ]lfs (?:clean|smudge|filter-process)[^;|&`$<>]*')
_BOM = b"\xef\xbb\xbf"

_PROGRAMS = {
    b"core": b"fsmonitor hookspath sshcommand askpass gitproxy alternaterefscommand",
    b"diff": b"external command textconv",
    b"filter": b"clean smudge process",
    b"merge": b"driver",
    b"gpg": b"program",
    b"include": b"path",
    b"includeif": b"path",
    b"init": b"templatedir",
    b"interactive": b"difffilter",
    b"remote": b"uploadpack receivepack",
    b"sequence": b"editor",
    b"uploadpack": b"packobjectshook",
}
_STEERING = {section: frozenset(names.split()) for section, names in _PROGRAMS.items()}


def without_programs(config: bytes) -> bytes | None:
    """The settings without such; None if there are none of them."""
    kept: list[bytes] = []
    cut = False
    section = b""
    for text in _logical_lines(config):
        found = _HEADER.match(text.removeprefix(_BOM))
        header = b""
        if found is not None:
            header = text[: found.end() + len(text) - len(text.removeprefix(_BOM))]
            section = found[1].partition(b".")[0].lower()
        variable = _VARIABLE.match(text[len(header) :])
        if variable is not None and _runs(section, variable[1].lower(), variable[2] or b""):
            cut = True
            if header:
                kept.append(header + b"\n")
        else:
            kept.append(text)
    return b"".join(kept) if cut else None


def git_folder(pointer: bytes) -> bytes | None:
    """What a file named .git leads to; None for no such file."""
    if not pointer.startswith(b"gitdir:"):
        return None
    return pointer.removeprefix(b"gitdir:").strip() or None


def _runs(section: bytes, name: bytes, value: bytes) -> bool:
    if section in (b"credential", b"submodule"):
        return name in (b"helper", b"update") and value.lstrip(b'"').startswith((b"!", b"/"))
    if name not in _STEERING.get(section, ()):
        return False
    if name == b"fsmonitor" and value.lower() in _SWITCH:
        return False
    return not (section == b"filter" and _LFS.fullmatch(value))


def _logical_lines(config: bytes) -> list[bytes]:
    lines: list[bytes] = []
    going_on = False
    for line in config.splitlines(True):
        if going_on:
            lines[-1] += line
        else:
            lines.append(line)
        going_on = _CONTINUED.search(line) is not None and not line.lstrip().startswith(
            (b"#", b";")
        )
    return lines
