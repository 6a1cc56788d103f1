"""The commands of a shell script, and which of them get something from the network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

COMMAND = (
    r"(?:^|[;&|({`!]|\b(?:if|then|else|elif|do|while|until|exec|time|sudo|nohup)\s|"
    r"\btimeout\s+(?:-\S+\s+)*\S+\s)\s*(?:[A-Za-z_]\w*=\S*\s+)*"
)
"""Where in a line a command begins."""

_INSTALL = re.compile(
    COMMAND + r"(?:\S*/)?((?:apt-get|apt|apk|dnf|yum)\s+(?:-\S+\s+)*(?:update|install|add)"
    r"|(?:python\S*\s+-m\s+)?pip3?\s+(?:-\S+\s+)*install|uvx|uv\s+(?:pip|run|tool|sync|add)"
    r"|npx|npm\s+(?:install|ci|i)\b|cargo\s+install|go\s+install|git\s+clone)"
)
_DOWNLOAD = re.compile(COMMAND + r"(?:\S*/)?(curl|wget)\b[^;&|]*?https?://([^/\s\"':]+)")
_LOCAL = re.compile(r"localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[?::1\]?|\$.*")
INTO_SHELL = re.compile(r"\|\s*(?:sudo\s+)?(?:\S*/)?(?:ba|da|z)?sh\b")
LOCAL_SCRIPT = "curl … | sh"
"""A download from this machine is part of a check, unless what it gets is run."""


class Line(NamedTuple):
    """A command, or several, with what follows them."""

    number: int
    text: str
    """Without comments, with continued lines joined."""


def shell_lines(text: str) -> Iterator[Line]:
    """The commands of a shell script: no comments, no here-documents' bodies."""
    end: str | None = None
    joined, start = "", 0
    for number, raw in enumerate(text.splitlines(), start=1):
        if end is not None:
            if raw.strip("\t") == end:
                end = None
            continue
        line = re.sub(r"(^|\s)#.*$", "", raw) if "'" not in raw and '"' not in raw else raw
        if raw.lstrip().startswith("#"):
            line = ""
        start = start or number
        if line.endswith("\\"):
            joined += line[:-1] + " "
            continue
        yield Line(start, joined + line)
        here = re.search(r"(?<!<)<<-?\s*[\"']?([A-Za-z_]\w*)[\"']?", joined + line)
        end = here[1] if here else None
        joined, start = "", 0


def fetched(text: str) -> str | None:
    """The command in a line that gets something from the network, or a program to run."""
    install = _INSTALL.search(text)
    if install is not None:
        return " ".join(install[1].split())
    download = _DOWNLOAD.search(text)
    if download is None:
        return None
    if not _LOCAL.fullmatch(download[2]):
        return download[1]
    return LOCAL_SCRIPT if INTO_SHELL.search(text) else None


def first_fetch(text: str) -> tuple[int, str] | None:
    """The first command of a script that needs the network, with the number of its line."""
    for line in shell_lines(text):
        step = fetched(line.text)
        if step is not None and step != LOCAL_SCRIPT:
            return line.number, step
    return None
