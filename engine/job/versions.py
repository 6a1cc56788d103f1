"""What a job was started on."""

from __future__ import annotations

import platform
from importlib.metadata import version


def versions() -> dict[str, str]:
    """Of trialog, Python and the platform. Blocks."""
    return {
        "trialog": version("trialog"),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
