"""What apps in a process of their own can do to it, as errors."""

from __future__ import annotations

from .world import AppFault


class AppFailed(AppFault):
    """An app raised in a hook of its own, or ended its process."""

    def __init__(self, app: str, hook: str, text: str) -> None:
        self.app = app
        self.hook = hook
        Exception.__init__(self, text)


class AppTimeout(AppFailed):
    """An app did not come back within its deadline."""

    category = "app_timeout"
