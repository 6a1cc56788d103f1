"""What a sandbox's programs left outside of the workspace and the mounts."""

from __future__ import annotations

import os
import stat

from ...archive.walk import open_folder, walk
from ...archive.writing import Skips
from .layout import Layout

MOST = 1000
"""Paths that are listed."""


def list_changes(layout: Layout) -> list[str]:
    """Files, links and empty folders in the folders that began empty, by their paths inside."""
    mounted = {layout.workdir, *(mount.target for mount in layout.mounts)}
    found: list[str] = []
    for top, folder in sorted(layout.folders.items()):
        if top == layout.workdir:
            continue
        fd = open_folder(folder)
        try:
            skips = Skips()
            for each in walk(fd, skips):
                path = f"{top}/{each.path.decode('utf-8', 'replace')}"
                if path in mounted or any(m.startswith(path + "/") for m in mounted):
                    continue
                if any(path.startswith(m + "/") for m in mounted):
                    continue
                if stat.S_ISDIR(each.status.st_mode) and each.status.st_nlink > 2:
                    continue
                found.append(path)
                if len(found) > MOST:
                    return [*found[:MOST], "…"]
            found += [f"{top}/{skipped.path}" for skipped in skips.listed()]
        finally:
            os.close(fd)
    return found
