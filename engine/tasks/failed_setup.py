"""Signs in a test's output that its set-up failed. For advice only: no verdict comes from text."""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST = 200
"""Characters of a line that are given back."""

_SIGN = re.compile(
    r": command not found$"
    r"|: \d+: \S+: not found$"
    r"|\bpython[\d.]*: No module named "
    r"|\b(?:ModuleNotFoundError|ImportError): No module named "
    r"|^curl: \(\d+\) "
    r"|^wget: (?:unable|bad|can't|download)"
    r"|Could not resolve host"
    r"|Temporary failure (?:in name resolution|resolving)"
    r"|^E: (?:Unable to locate package|Failed to fetch|Package .* has no installation candidate)"
    r"|Could not find a version that satisfies|No matching distribution found"
    r"|\bcollected 0 items\b|\bno tests ran\b|^Ran 0 tests "
)


def failed_setup(lines: Iterable[str]) -> str | None:
    """The first line that says so: a tool or module missing, a download failed, no test found."""
    for line in lines:
        if _SIGN.search(line.rstrip()):
            return line.strip()[:LONGEST]
    return None
