"""What a job was started on."""

from __future__ import annotations

import platform

from ...events.version import __version__


def versions() -> dict[str, str]:
    """Of trialog, Python and the platform. Blocks."""
    return {
        "trialog": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
