"""The app host: a process that serves worlds over its standard input and output, one at a time.

It never runs an app's code itself. Each world is a child of its own, which imports the apps anew,
so nothing goes from one trial to the next, and whatever an app does to its process (a crash, an
exit, an endless loop) ends that child alone; the host tells how, and takes the next world.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO

from .serving import CLOSED, Note, Serving, read_frame, shown_place, write_all
from .wire import VERSION, Ended, Hello, Open, WireError, decode_request, frame

OUTPUT_KEPT = 4096
"""Bytes of the end of what apps print that are kept for messages."""

KILL_DEADLINE = 5.0
"""Seconds for the kernel to end what a world left running."""

_SUBREAPER = 36
_IN_DUMP = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in ', re.MULTILINE)
_POLL = 0.02


def main() -> None:
    """Serve until standard input ends."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # nothing that prints may reach the answers
    os.close(nothing)
    _adopt_orphans()
    write_all(answers, frame(_hello()))
    while (body := read_frame(requests)) is not None:
        request = decode_request(body)
        if not isinstance(request, Open):
            raise WireError(f"{type(request).__name__} while no world is open")
        ended = _serve(requests, answers, request)
        if ended is None:
            return
        write_all(answers, frame(ended))


def _hello() -> Hello:
    try:
        own = version("trialog")
    except PackageNotFoundError:
        own = "unknown"
    return Hello(version=VERSION, python=platform.python_version(), trialog=own)


def _serve(requests: int, answers: int, request: Open) -> Ended | None:
    """Have a child serve a world to its end; None when the engine is gone."""
    note = Note()
    note.write("", "")
    folder = tempfile.mkdtemp(prefix="world-")
    printed, printed_end = os.pipe()
    try:
        with tempfile.TemporaryFile() as dump:
            child = os.fork()
            if child == 0:
                os.close(printed)
                _be_world(requests, answers, note, dump, printed_end, folder, request)
            os.close(printed_end)
            printed_end = -1
            status, output, gone = _watch(child, printed, requests)
            _end_all_others()
            return None if gone else _ended(status, output, note, dump, request)
    finally:
        os.close(printed)
        if printed_end >= 0:
            os.close(printed_end)
        note.close()
        shutil.rmtree(folder, ignore_errors=True)


def _be_world(
    requests: int, answers: int, note: Note, dump: IO[bytes], output: int, folder: str, first: Open
) -> None:
    """The child; never returns."""
    code = 70
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        sys.stdin = open(os.devnull, encoding="utf-8")
        sys.stdout = _lines(1)
        sys.stderr = _lines(2)
        os.environ |= {"TMPDIR": folder, "HOME": folder}
        tempfile.tempdir = None
        os.chdir(folder)
        code = Serving(requests, answers, note, dump).run(first)
    except BaseException:  # what is not the apps' doing: a broken pipe, a broken frame
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _lines(descriptor: int) -> IO[str]:
    """A text file that is written line by line: what was printed is seen though an app crashes."""
    return open(descriptor, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)


def _watch(child: int, printed: int, requests: int) -> tuple[int, bytes, bool]:
    """Wait for the child's end: its status, the end of what it printed, whether we were left."""
    os.set_blocking(printed, False)
    output = bytearray()
    gone = False
    death = _pidfd(child)
    waiting = select.poll()
    waiting.register(printed, select.POLLIN)
    waiting.register(requests, 0)  # tells only that the other side is gone
    if death is not None:
        waiting.register(death, select.POLLIN)
    try:
        while True:
            found = dict(waiting.poll(None if death is not None else int(_POLL * 1000)))
            if printed in found and not _take(printed, output):
                waiting.unregister(printed)
            if requests in found:
                gone = True
                waiting.unregister(requests)
                os.kill(child, signal.SIGKILL)
            if death is None or death in found:
                pid, status = os.waitpid(child, 0 if death in found else os.WNOHANG)
                if pid:
                    while _take(printed, output):
                        pass
                    return status, bytes(output[-OUTPUT_KEPT:]), gone
    finally:
        if death is not None:
            os.close(death)


def _take(printed: int, output: bytearray) -> bool:
    """Take what was printed; false when there is no more for now or ever."""
    try:
        data = os.read(printed, 65536)
    except BlockingIOError:
        return False
    output += data
    del output[:-OUTPUT_KEPT]
    return bool(data)


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # no Linux, or an old one
        return None


def _ended(status: int, output: bytes, note: Note, dump: IO[bytes], request: Open) -> Ended:
    app, hook = note.read()
    dump.seek(0)
    traced = dump.read().decode("utf-8", "replace")
    code = os.waitstatus_to_exitcode(status)
    return Ended(
        clean=hook == CLOSED and code == 0,
        timed_out=traced.startswith("Timeout ("),
        app=app,
        hook=hook,
        how=f"exit code {code}" if code >= 0 else f"signal {_signal_name(-code)}",
        place=_place(traced, request),
        output=output.decode("utf-8", "replace"),
    )


def _signal_name(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)


def _place(traced: str, request: Open) -> str | None:
    """The place in the apps' own code that a dump of a traceback tells, the innermost first."""
    folder, root = Path(request.folder).resolve(), Path(request.root).resolve()
    for found in _IN_DUMP.finditer(traced):
        place = shown_place(found["file"], int(found["line"]), folder, root)
        if place is not None:
            return place
    return None


def _adopt_orphans() -> None:
    """Become the parent of what children leave running, so that it can be found and ended."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def _end_all_others() -> None:
    """End what a world left running, however it was started."""
    deadline = time.monotonic() + KILL_DEADLINE
    while time.monotonic() < deadline:
        if os.getpid() == 1:  # all of this namespace is ours
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(-1, signal.SIGKILL)
        else:
            for pid in descendants(os.getpid()):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


def descendants(pid: int) -> list[int]:
    """The processes below one, where /proc tells; the nearest first."""
    below: dict[int, list[int]] = {}
    try:
        entries = os.listdir("/proc")
    except OSError:
        return []
    for entry in entries:
        if not entry.isdigit():
            continue
        try:
            fields = Path(f"/proc/{entry}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[0] not in (b"Z", b"X"):
            below.setdefault(int(fields[1]), []).append(int(entry))
    found = [pid]
    for each in found:
        found += below.get(each, [])
    return found[1:]


if __name__ == "__main__":
    main()
