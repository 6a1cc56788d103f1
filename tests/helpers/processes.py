"""Children that work on a log, as the tests start them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHILD = str(Path(__file__).with_name("child.py"))

# A mount name space of its own: what is mounted in it is gone with it. Root needs no other.
ALONE = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--user", "--map-root-user"])


def start(*words: object, before: list[str] | None = None) -> subprocess.Popen[str]:
    """Start a child; `before` is the command that runs it."""
    return subprocess.Popen(
        [*(before or []), sys.executable, CHILD, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said(child: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """What it says, line by line."""
    assert child.stdout is not None
    for line in child.stdout:
        if line.endswith("\n"):  # a killed child may leave half a line
            yield json.loads(line)


def run(*words: object, before: list[str] | None = None) -> list[dict[str, Any]]:
    """Run a child to its end; all it said."""
    with start(*words, before=before) as child:
        assert child.stdin is not None
        child.stdin.close()
        lines = list(said(child))
    assert 0 == child.returncode
    return lines


def mounted(script: str) -> list[str]:
    """The command that runs a child after a shell script has mounted something."""
    return [*ALONE, "sh", "-ec", f'{script}\nexec "$@"', "sh"]
