"""Looking for secrets in an archive, whose bytes must stay as they are."""

from __future__ import annotations

from pathlib import Path

from ..redact import Redactor
from .members import members
from .writing import CHUNK, cancellation_check


def find_secrets_in_archive(archive: Path, redactor: Redactor) -> list[str]:
    """Paths in an archive whose bytes, name or link target hold a secret; in memory that is flat.

    A path that holds one itself is given redacted.
    """
    found: list[str] = []
    if redactor.empty:
        return found
    check = cancellation_check()
    keep = redactor.longest - 1
    for member in members(archive):
        entry = member.entry
        hit = redactor.finds(entry.path) or redactor.finds(entry.link)
        before = b""
        while not hit and (data := member.read(CHUNK)):
            check()
            hit = redactor.finds(before + data)
            before = (before + data)[-keep:]
        if hit:
            found.append(redactor.redact(entry.path).decode("utf-8", "replace"))
    return found
