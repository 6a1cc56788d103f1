"""The program's own log lines: structlog, to standard error."""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from functools import partial
from typing import Any

from ..errors import ConfigError
from ..own_log import configure_later
from .terminal import Terminal
from .text import escaped

__all__ = ("configure",)

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class _Lines:
    """A logger that writes through the terminal, so that the live line stays whole."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def msg(self, message: str) -> None:
        self._terminal.message(message)

    log = debug = info = warning = warn = error = critical = exception = fatal = failure = msg


def configure(terminal: Terminal, verbose: int, environ: Mapping[str, str]) -> None:
    """Set the level: ``-v`` info, ``-vv`` debug, else $TRIALOG_LOG_LEVEL, else warning."""
    named = environ.get("TRIALOG_LOG_LEVEL", "warning").lower()
    if named not in _LEVELS:
        raise ConfigError(
            f"unknown level {named!r}; known are {', '.join(_LEVELS)}", key="TRIALOG_LOG_LEVEL"
        )
    level = {0: _LEVELS[named], 1: logging.INFO}.get(verbose, logging.DEBUG)
    configure_later(level, partial(_configure, terminal, level))


def _configure(terminal: Terminal, level: int) -> None:
    import structlog

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=True),
            structlog.processors.format_exc_info,
            _as_line,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: _Lines(terminal),
        cache_logger_on_first_use=False,
    )


def _as_line(_: Any, __: str, event: MutableMapping[str, Any]) -> str:
    """``12:00:01 warning: sandbox not removed sandbox=… why=…``, safe for a terminal."""
    time, level = event.pop("timestamp"), event.pop("level")
    message, trace = event.pop("event"), event.pop("exception", None)
    pairs = "".join(f" {key}={escaped(value)}" for key, value in event.items())
    text = f"{time} {level}: {escaped(message)}{pairs}"
    return f"{text}\n{escaped(trace, lines=True)}" if trace else text
