"""Listening on a container's loopback, and holding its phase back until that is done."""

from __future__ import annotations

import os
from pathlib import Path

from ...errors import SandboxError
from .finding import find_engine

GATE = "gate"
"""In the control folder: a pipe with a line to read once the phase may go on."""


def why_no_listener() -> str | None:
    """Why this process can't enter containers of the engine; null where it may. Blocks."""
    if os.geteuid() == 0:
        return None
    socket = find_engine().removeprefix("unix://")
    try:
        if os.stat(socket).st_uid == os.geteuid():
            return None  # an engine of one's own, and so are its name spaces
    except OSError:
        pass
    return (
        "the container engine is another user's, so trialog can't listen inside its containers; "
        "run it as root, use an engine of your own (rootless), or --sandbox bubblewrap"
    )


def make_gate(scratch: Path) -> int:
    """Make the pipe; a descriptor that nobody waits for. Blocks."""
    gate = scratch / "control" / GATE
    gate.unlink(missing_ok=True)
    os.mkfifo(gate, 0o600)
    gate.chmod(0o644)
    return os.open(gate, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def first_process(container: str, told: int) -> int:
    """The id on this machine of a container's first process; blocks.

    `told` is what the engine says, whose own processes may be numbered otherwise than ours. Raises
    SandboxError where it is not to be found.
    """
    if _is_first(told, container):
        return told
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _is_first(int(entry.name), container):
            return int(entry.name)
    raise SandboxError(
        f"the first process of container {container[:12]} can't be seen from here, so the engine "
        "can't listen on its loopback; the container engine must run on this machine"
    )


def _is_first(process: int, container: str) -> bool:
    place = Path("/proc", str(process))
    try:
        groups = (place / "cgroup").read_text("utf-8", "replace")
        if container not in groups:
            return False
        status = (place / "status").read_text("utf-8", "replace")
    except OSError:
        return False
    # Helpers of some engines are in such a group too, but are nobody's first process.
    line = next((one for one in status.splitlines() if one.startswith("NSpid:")), "")
    return line.split()[-1:] == ["1"] and len(line.split()) > 2
