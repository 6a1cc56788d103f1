"""Working on what a process that is kept changes at the same time."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ...archive.inside import MOVED

TRIES = 20
"""How often a path is put back that another process changes at the same time."""

_RACES = (*MOVED, errno.ENOTEMPTY, errno.EEXIST, errno.ESTALE)

T = TypeVar("T")


async def settled(attempt: Callable[[], Awaitable[T | None]]) -> T | None:
    """What an attempt comes to that is made again while others get in its way.

    None also for what is no longer there. Raises OSError, as the last of the attempts did.
    """
    for left in reversed(range(TRIES)):
        try:
            return await attempt()
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in _RACES or not left:
                raise
    return None
