"""What a bwrap process is given as open files, and what it must not be given."""

from __future__ import annotations

import os

from ...memory_file import memory_file


def options_file(words: list[str]) -> int:
    """A descriptor of bwrap's options, where no other user of this machine can read them."""
    return memory_file(os.fsencode("".join(f"{word}\0" for word in words)))


def stray_descriptors() -> list[int]:
    """Descriptors that this process was given by its own parent and would hand on."""
    found: list[int] = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
        except OSError:
            continue  # the one that listed the folder
    return found
