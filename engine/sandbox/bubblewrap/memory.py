"""Files that lie in memory alone: bwrap's options (with a task's variables) and standard input."""

from __future__ import annotations

import os


def memory_file(data: bytes) -> int:
    """A descriptor, read-only, of a file with these bytes that has no name."""
    writing = os.memfd_create("trialog", os.MFD_CLOEXEC)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(writing, view) :]
        return os.open(f"/proc/self/fd/{writing}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(writing)


def options_file(words: list[str]) -> int:
    """The same for bwrap's options, where no other user of this machine can read them."""
    return memory_file(b"".join(os.fsencode(word) + b"\0" for word in words))
