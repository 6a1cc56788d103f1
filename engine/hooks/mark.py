"""How a hook process, and all below it, can be told from any other."""

from __future__ import annotations

import os

MARK = "TRIALOG_HOOK_PROCESS"
"""A variable whose value no other process has."""


def in_hook_process() -> bool:
    """Whether this process runs hooks: a verifier's file that starts trials while it is loaded
    would start them anew in each."""
    return MARK in os.environ
