"""The engine's own lines about the stages of its work, which ``-v`` and ``-vv`` show.

They hold names, counts and durations only: nothing that an agent or a task may have written.
"""

from __future__ import annotations

import logging

from ..own_log import logger, shows


def stage(what: str, **facts: object) -> None:
    """A step of a trial's or the job's, at the level of ``-v``."""
    if shows(logging.INFO):  # else it would be printed for those who use the engine alone
        logger().info(what, **facts)


def detail(what: str, **facts: object) -> None:
    """A smaller step, at the level of ``-vv``."""
    if shows(logging.DEBUG):
        logger().debug(what, **facts)
