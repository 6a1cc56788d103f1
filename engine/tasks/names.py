"""Names of tasks that are safe as names of folders, containers and rows."""

from __future__ import annotations

import hashlib
import os
import re

LONGEST = 80
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_EDGES = "-._"


def safe_name(raw: str) -> str:
    """The name of a task, from the name of its folder.

    A name of at most 80 ASCII letters, digits, ``.``, ``_`` and ``-`` that begins with a letter or
    digit and does not end with ``.`` stays as it is. In any other, each run of other characters
    becomes one ``-``, the ends are trimmed, and eight hex digits of the SHA-256 of the folder's
    name are added, so that two different folders keep different names.
    """
    name = _UNSAFE.sub("-", raw).lstrip(_EDGES).rstrip(".")
    if name == raw and 0 < len(name) <= LONGEST:
        return name
    mark = hashlib.sha256(os.fsencode(raw)).hexdigest()[:8]
    name = name[: LONGEST - len(mark) - 1].rstrip(_EDGES) or "task"
    return f"{name}-{mark}"
