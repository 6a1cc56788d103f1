"""Which python3 of the host's a sandbox can use, and who owns it: seen from outside."""

from __future__ import annotations

import functools
import os
import subprocess

from ..protocol import OLDEST_PYTHON, PYTHON_PLACES, Python

_ASK = "import os, sys; print(*sys.version_info[:2], os.path.dirname(os.__file__))"


@functools.cache
def find_python() -> Python | None:
    """The first that belongs to root and is new enough. Runs it; blocks."""
    for path in PYTHON_PLACES:
        try:
            done = subprocess.run(
                [path, "-ISc", _ASK], capture_output=True, text=True, timeout=60, check=True, env={}
            )
            major, minor, library = done.stdout.strip().split(" ", 2)
        except (OSError, ValueError, subprocess.SubprocessError):
            continue
        places = [path, os.path.realpath(path)]
        places += [os.path.dirname(place) for place in places] + [library]
        version = (int(major), int(minor))
        if version >= OLDEST_PYTHON and all(os.lstat(place).st_uid == 0 for place in places):
            return Python(path=path, version=version, judged_outside=True)
    return None
