"""What a bwrap process is given as open files, and what it must not be given."""

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
