"""How a hook process ended, and whose fault that is."""

from __future__ import annotations

import re
import signal
from typing import Literal, NamedTuple, TypeAlias

from .faults import Places
from .job import Job
from .page import LOADING
from .protocol import HookFault

Cause: TypeAlias = Literal["died", "timeout", "left", "stuck", "closed"]

_FRAME = re.compile(r'File "(.*)", line (\d+) in ')


class Ending(NamedTuple):
    """How a process ended, and the call that was to blame, if one was."""

    cause: Cause
    ready: bool
    """Whether it ever was."""
    job: Job | None = None
    loading: int | None = None
    """The source that was being loaded, if the call had not begun."""
    fault: HookFault | None = None


def blame(cause: Cause, job: Job, place: int, trace: str, code: int | None) -> Ending:
    """The ending of a process that a call brought down, or had to be ended for."""
    loading = place - LOADING if place >= LOADING else None
    if loading is not None:
        source, what = job.sources[loading], "loading its code"
    else:
        source = job.sources[job.calls[place].source]
        what = f"its {job.calls[place].hook}"
    line = _line(trace, Places(str(source.folder), str(source.root)))
    if cause == "timeout":
        error = f"{what} ran past the deadline of {source.timeout_sec:g} s and was stopped"
    else:
        error = f"{what} ended the process that it ran in: {_how(code)}"
    fault = HookFault(error=error, line=line, timed_out=cause == "timeout")
    return Ending(cause, True, job, loading, fault)


def _line(trace: str, places: Places) -> str | None:
    """The innermost place of the author's in what faulthandler wrote."""
    for file, number in _FRAME.findall(trace):
        line = places.shown(file, int(number))
        if line is not None:
            return line
    return None


def _how(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
