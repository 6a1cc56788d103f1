"""The engine's own log lines: structlog, which is loaded by the first line that is told.

To import it takes longer than a small job, and most jobs have nothing to say.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_configuring: Callable[[], None] | None = None
_level: int | None = None


def configure_later(level: int, configure: Callable[[], None]) -> None:
    """Have structlog configured by its first use; it shows lines of `level` (of logging's) up."""
    global _configuring, _level
    _configuring, _level = configure, level


def logger() -> Any:
    """Structlog's logger."""
    global _configuring
    import structlog

    if _configuring is not None:
        configure, _configuring = _configuring, None
        configure()
    return structlog.get_logger()


def shows(level: int) -> bool:
    """Whether a program has asked for lines of a level: else they are not even made."""
    if _configuring is not None:
        return _level is not None and level >= _level
    structlog = sys.modules.get("structlog")
    return structlog is not None and structlog.is_configured()
