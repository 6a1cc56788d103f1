"""What went wrong in an author's code, in his own terms: the error, and the line that it is at."""

from __future__ import annotations

import reprlib
from types import TracebackType
from typing import Any, NamedTuple

from ...events.values import without_surrogates
from .protocol import HookFault

MESSAGE_LIMIT = 2000
"""Characters of an error that are kept."""

_FOREIGN = ("/site-packages/", "/dist-packages/", "/.venv/")


class WrongValue(Exception):
    """A hook gave what it must not. The message is the fault; `line` where it is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        self.line = line
        super().__init__(message)


class Places(NamedTuple):
    """The folders in which a verifier's own code is."""

    folder: str
    root: str

    def shown(self, file: str, line: int | None) -> str | None:
        """``verify.py:14``, from the verifier's folder or else the project's; null elsewhere."""
        if any(part in file for part in _FOREIGN):
            return None
        for place in self:
            if file.startswith(f"{place}/"):
                name = file[len(place) + 1 :]
                return name if line is None else f"{name}:{line}"
        return None

    def last(self, traceback: TracebackType | None) -> str | None:
        """The innermost place of a traceback that is the author's."""
        found: str | None = None
        while traceback is not None:
            file = traceback.tb_frame.f_code.co_filename
            found = self.shown(file, traceback.tb_lineno) or found
            traceback = traceback.tb_next
        return found


def bounded(text: str) -> str:
    """Text that the log can hold, not too long."""
    clean, _ = without_surrogates(text)
    return clean if len(clean) <= MESSAGE_LIMIT else f"{clean[: MESSAGE_LIMIT - 1]}…"


def fault_of(error: BaseException, places: Places) -> HookFault:
    """The fault that an exception is."""
    line = places.last(error.__traceback__)
    if isinstance(error, SyntaxError) and error.filename:
        line = places.shown(error.filename, error.lineno) or line
    try:
        text = str(error)
    except BaseException:  # an author's exception may fail even at this
        text = ""
    name = type(error).__name__
    return HookFault(error=bounded(f"{name}: {text}" if text else name), line=line)


def shown(value: Any) -> str:
    """A value for a message: short, and with its type."""
    try:
        text = reprlib.repr(value)
    except BaseException:  # an author's repr may raise
        return f"a {type(value).__name__}"
    if value is None:
        return text
    return bounded(f"{text} ({type(value).__name__})")
