"""Trials that the log can't give, told at the end of what is told of their job."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from .failure import EXIT_FAILED, EXIT_OK
from .text import escaped, plural

if TYPE_CHECKING:
    from .rows import JobRows
    from .session import Session

__all__ = ("tell_unreadable",)


def tell_unreadable(session: Session, rows: JobRows, folder: str) -> int:
    """Say how many can't be read, and what to do; gives the exit code."""
    if not rows.unreadable:
        return EXIT_OK
    check = f"trialog rebuild {shlex.quote(escaped(folder))} --check"
    session.terminal.message(
        f"error: {plural(len(rows.unreadable), 'trial')} can't be read from the log\n"
        f"hint: `{check}` says what is wrong there; a resume leaves what can't be read alone"
    )
    return EXIT_FAILED
