"""task.md: settings between two lines of dashes, then the prompt."""

from __future__ import annotations

import re
from typing import NamedTuple

_SECTION = re.compile(r"##[ \t]+(prompt|role:\S+|scene:\S+|user-persona)[ \t]*", re.IGNORECASE)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class Document(NamedTuple):
    """A task.md, taken apart."""

    front_matter: str | None
    """The YAML text; null when the file does not begin with a line of three dashes."""
    body: str
    closed: bool
    """Whether the front matter's second line of dashes is there."""


class Prompt(NamedTuple):
    """The prompt and what was beside it."""

    text: str
    other_sections: list[str]
    """Headings of sections for roles, scenes and simulated users."""
    repeated: bool
    """There is more than one ``## prompt``."""


def split_document(text: str) -> Document:
    """Take a task.md apart; its line ends are ``\\n``."""
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return Document(None, text, closed=True)
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() in ("---", "..."):
            return Document("\n".join(lines[1:number]), "\n".join(lines[number + 1 :]), closed=True)
    return Document("\n".join(lines[1:]), "", closed=False)


def find_prompt(body: str) -> Prompt:
    """The text under ``## prompt`` up to the next such section or the end; else the whole body.

    Only the sections of `_SECTION` end it, so that a prompt may have headings of its own. A heading
    within a code fence is none, and one after a backslash is text.
    """
    starts: list[tuple[str, int, int]] = []
    fence = ""
    place = 0
    for line in body.splitlines(keepends=True):
        mark = _FENCE.match(line)
        heading = _SECTION.fullmatch(line.rstrip("\n"))
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        elif heading and not fence:
            starts.append((heading[1].lower(), place, place + len(line)))
        place += len(line)
    prompts = [index for index, (name, _, _) in enumerate(starts) if name == "prompt"]
    others = [name for name, _, _ in starts if name != "prompt"]
    if prompts:
        index = prompts[0]
        end = starts[index + 1][1] if index + 1 < len(starts) else len(body)
        text = body[starts[index][2] : end]
    else:
        text = body[: starts[0][1]] if starts else body
    return Prompt(_unescape(text).strip("\n"), others, repeated=len(prompts) > 1)


def _unescape(text: str) -> str:
    return "\n".join(
        line[1:] if line.startswith("\\") and _SECTION.fullmatch(line[1:]) else line
        for line in text.split("\n")
    )
