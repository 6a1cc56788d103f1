"""Records of sandboxes that exist, so that a later engine can remove what a killed one left."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from ...archive import remove_tree
from ..owner import is_dead, parse_owner
from .cgroups import remove_group

MARK = "trialog-bwrap:"
"""Begins the word that a phase's processes have on their command lines; an id follows."""


_MEMORY = Path("/dev/shm")  # noqa: S108 - what is made in it is in a folder of this user's own

PART_AGE = 3600.0
"""Seconds after which a half-written record is nobody's any more."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One sandbox, or an engine's own folder (then without a trial)."""

    id: str
    owner: str
    folder: str
    """What to remove."""
    log_id: str | None = None
    trial: str | None = None
    groups: list[str] = []
    kept: bool = False
    """It stays after its engine's end on purpose."""


def state_folder() -> Path:
    """Where a user's records are; made for this user alone."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    base = Path(runtime) if runtime and os.access(runtime, os.W_OK) else Path(tempfile.gettempdir())
    return base / f"trialog-bubblewrap-{os.geteuid()}"


def prepare_state(folder: Path) -> None:
    """Make the folder. Raises OSError when another user has made it, who could read along."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = os.lstat(folder)
    if status.st_uid != os.geteuid():
        raise PermissionError(
            f"{folder} belongs to another user; remove it, or set XDG_RUNTIME_DIR"
        )
    if status.st_mode & 0o077:
        folder.chmod(0o700)


def memory_folder(state: Path) -> Path:
    """Where many small files are made in no time: a folder in memory, where this user has one.

    Disks may take a hundred times as long for a link where others were removed lately. Records of
    what is put there stay in the state folder. Blocks.
    """
    folder = _MEMORY / f"trialog-bubblewrap-{os.geteuid()}"
    try:
        if not os.path.ismount(_MEMORY) or state.is_relative_to(_MEMORY):
            return state
        prepare_state(folder)
    except OSError:
        return state
    return folder


def write_record(state: Path, record: Record) -> None:
    """Keep a record, whole or not at all. Raises OSError."""
    part = state / f"{record.id}.part"
    try:
        part.write_bytes(msgspec.json.encode(record))
        part.replace(state / f"{record.id}.json")
    except OSError:
        part.unlink(missing_ok=True)
        raise


def forget_record(state: Path, record_id: str) -> None:
    """Drop a record."""
    (state / f"{record_id}.json").unlink(missing_ok=True)


def reap_dead(state: Path, log_id: str | None) -> list[str]:
    """Remove what dead engines left; names of the trials.

    With a log: what belongs to it, and nothing that was kept on purpose.
    """
    gone: list[str] = []
    _drop_parts(state)
    for file in sorted(state.glob("*.json")):
        try:
            record = msgspec.json.decode(file.read_bytes(), type=Record)
        except (OSError, msgspec.DecodeError):
            continue
        owner = parse_owner(record.owner)
        if owner is None or not is_dead(owner):
            continue
        if log_id is not None and (record.kept or record.log_id not in (None, log_id)):
            continue
        for pid in find_phases(record.id):
            _kill(pid)
        for group in record.groups:
            remove_group(Path(group))
        remove_tree(Path(record.folder))
        file.unlink(missing_ok=True)
        if record.trial is not None:
            gone.append(record.trial)
    return gone


def _drop_parts(state: Path) -> None:
    """Remove records whose engine was killed while it wrote them: there is nothing of them yet."""
    for part in state.glob("*.part"):
        with suppress(OSError):
            if time.time() - part.stat().st_mtime > PART_AGE:
                part.unlink()


def find_phases(record_id: str) -> list[int]:
    """The processes of a sandbox that carry its name: bwrap and the phase's first one."""
    wanted = f"\0{MARK}{record_id}\0".encode()
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted in b"\0" + (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return
