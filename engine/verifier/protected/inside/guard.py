"""Loaded into every other pytest of a task that asks for the protected one.

It refuses plugins that lie where agents work. Must run on any Python 3 and pytest.
"""

# pyright: basic
import os

import pytest

PLACES = [
    os.path.realpath(place)
    for place in (os.environ.get("TRIALOG_WORKSPACE"), "/tmp", "/var/tmp", "/logs")  # noqa: S108
    if place and place != "/"
]


def pytest_plugin_registered(plugin, manager):  # type: ignore[no-untyped-def]
    """End the run when a plugin, neither a conftest.py nor installed, comes from such a place."""
    file = getattr(plugin, "__file__", None)
    if not file or os.path.basename(file).startswith("conftest.") or "-packages" in file:
        return
    place = os.path.realpath(file)
    if any(place.startswith(folder + os.sep) for folder in PLACES):
        raise pytest.UsageError("trialog: the plugin " + file + " is not of the image")
