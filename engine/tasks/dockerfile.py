"""What a Dockerfile says of its build context, and whether the classic builder can build it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

_DIRECTIVE = re.compile(r"#\s*([A-Za-z]+)\s*=\s*(\S.*?)\s*")
_INSTRUCTION = re.compile(r"\s*(?:ONBUILD\s+)?([A-Za-z]+)(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)
_FLAG = re.compile(r"--([a-z-]+)(?:=(\S*))?\s*")
_HEREDOC = re.compile(r"""\d*<<(-?)(?:"([^"\s<]+)"|'([^'\s<]+)'|([A-Za-z_][A-Za-z0-9_.]*))""")
_REMOTE = re.compile(r"[a-z+]+://|git@", re.IGNORECASE)

_NEEDS = {
    "RUN": ("mount", "network", "security"),
    "COPY": ("chmod", "link", "parents", "exclude"),
    "ADD": ("chmod", "link", "checksum", "keep-git-dir", "unpack", "exclude"),
}


class Instruction(NamedTuple):
    """One instruction with its continued lines joined."""

    line: int
    name: str
    """In capitals."""
    flags: dict[str, str]
    rest: str
    heredocs: list[str]
    """Names of the here-documents that follow it."""


def needs_buildkit(text: str) -> str | None:
    """Why a Dockerfile needs BuildKit, or None when the classic builder can build it.

    A ``# syntax=`` line alone is no need.
    """
    for one in instructions(text):
        if one.heredocs:
            return f"line {one.line}: {one.name} with a here-document (<<{one.heredocs[0]})"
        for flag in _NEEDS.get(one.name, ()):
            if flag in one.flags:
                return f"line {one.line}: {one.name} --{flag}"
    return None


def base_images(text: str) -> list[str]:
    """The images that FROM and ``COPY --from`` take, without stages of its own.

    Left out are names with variables in them.
    """
    stages: set[str] = {"scratch"}
    images: list[str] = []
    for one in instructions(text):
        match one.name:
            case "FROM":
                words = one.rest.split()
                found = words[:1]
                if len(words) == 3 and words[1].upper() == "AS":
                    stages.add(words[2].lower())
            case "COPY" if "from" in one.flags:
                found = [one.flags["from"]]
            case _:
                continue
        images += [
            name
            for name in found
            if "$" not in name and not name.isdecimal() and name.lower() not in stages
        ]
    return list(dict.fromkeys(images))


def copied_sources(text: str) -> list[str]:
    """Paths and patterns that COPY and ADD take from the build context, in order.

    Left out are what comes from another stage or the network, here-documents, and paths with
    variables in them.
    """
    sources: list[str] = []
    for one in instructions(text):
        if one.name not in ("COPY", "ADD") or "from" in one.flags:
            continue
        words = _words(one.rest)[:-1]
        for word in words:
            if "$" in word or _REMOTE.match(word) or "<<" in word:
                continue
            sources.append(word)
    return sources


def in_context(source: str, context: Path) -> bool:
    """Whether a COPY source is in a build context."""
    relative = source.lstrip("/")
    while relative.startswith("./"):
        relative = relative[2:].lstrip("/")
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    if ".." in parts:
        return False
    if not parts:
        return True
    pattern = "/".join(parts)
    try:
        if (context / pattern).exists():
            return True
        return any(char in pattern for char in "*?[") and any(context.glob(pattern))
    except (OSError, ValueError):
        return False


def instructions(text: str) -> Iterator[Instruction]:
    """The instructions of a Dockerfile, with comments and here-documents' bodies left out."""
    lines = text.splitlines()
    escape = _escape(lines)
    number = 0
    while number < len(lines):
        start = number
        parts: list[str] = []
        while number < len(lines):
            line = lines[number]
            number += 1
            if line.lstrip().startswith("#") or (parts and not line.strip()):
                continue  # comments and empty lines are left out, within an instruction too
            stripped = line.rstrip()
            if stripped.endswith(escape):
                parts.append(stripped[: -len(escape)])
                continue
            parts.append(line)
            break
        joined = " ".join(parts)
        match = _INSTRUCTION.fullmatch(joined)
        if match is None:
            continue
        name, rest = match[1].upper(), match[2] or ""
        flags: dict[str, str] = {}
        while flag := _FLAG.match(rest):
            flags[flag[1]] = flag[2] or ""
            rest = rest[flag.end() :]
        heredocs: list[str] = []
        if name in ("RUN", "COPY", "ADD"):
            for end, strip_tabs in _heredocs(rest):
                after = _end_of_heredoc(lines, number, end, strip_tabs=strip_tabs)
                if after is not None:
                    heredocs.append(end)
                    number = after
        yield Instruction(start + 1, name, flags, rest, heredocs)


def _escape(lines: list[str]) -> str:
    """The character that continues a line: directives stand before anything else."""
    for line in lines:
        match = _DIRECTIVE.fullmatch(line.strip())
        if match is None:
            return "\\"
        if match[1].lower() == "escape":
            return match[2]
    return "\\"


def _heredocs(text: str) -> Iterator[tuple[str, bool]]:
    """Here-documents that a line opens, outside of quotes: their ends, and whether `<<-`."""
    place, quote = 0, ""
    while place < len(text):
        char = text[place]
        if char == "\\" and quote != "'":
            place += 2
            continue
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif place == 0 or text[place - 1] in " \t;|&(":
            match = _HEREDOC.match(text, place)
            if match is not None:
                yield match[2] or match[3] or match[4], bool(match[1])
                place = match.end()
                continue
        place += 1


def _end_of_heredoc(lines: list[str], start: int, end: str, *, strip_tabs: bool) -> int | None:
    """The line after the one that ends a here-document; None when there is none."""
    for number in range(start, len(lines)):
        line = lines[number].lstrip("\t") if strip_tabs else lines[number]
        if line == end:
            return number + 1
    return None


def _words(rest: str) -> list[str]:
    """The words of COPY or ADD, in either of their forms."""
    if rest.lstrip().startswith("["):
        try:
            words: Any = json.loads(rest)
        except ValueError:
            return []
        return [word for word in cast("list[Any]", words) if isinstance(word, str)]
    return rest.split()
