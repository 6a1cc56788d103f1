"""A process of its own that works on a log: to be killed, starved of disk, or run beside another.

python child.py append LOG STREAM SIZE COUNT BYTES [fail-sync=N]
python child.py read LOG
python child.py hold LOG
python child.py full LOG BALLAST
python child.py nobody COMMAND ...
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import sqlite3
import struct
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio

from trialog.events.clock import RandomIds, SystemClock
from trialog.events.envelope import NewEvent, new_event
from trialog.events.errors import LogUnavailable
from trialog.events.kinds import WarningRaised
from trialog.events.open import open_log


def say(what: str, **facts: object) -> None:
    """One line of JSON for the parent."""
    sys.stdout.write(json.dumps({"what": what, **facts}) + "\n")
    sys.stdout.flush()


def some(count: int, size: int) -> list[NewEvent]:
    """Events with messages of a size."""
    payload = WarningRaised(code="reward_missing", message="x" * size)
    return [new_event(payload, SystemClock(), RandomIds()) for _ in range(count)]


async def append(path: str, stream: str, size: str, count: str, length: str, *more: str) -> None:
    """Append and say each acknowledgement; with fail-sync=N no sync works after N of them."""
    failing = [int(m.removeprefix("fail-sync=")) for m in more]
    async with open_log(path) as log:
        version = (await log.head(stream)).version
        for number in range(int(count)):
            if number in failing:
                fail_syncs()
            try:
                done = await log.append(stream, version, some(int(size), int(length)))
            except LogUnavailable as error:
                say("failed", error=type(error).__name__, message=str(error))
                break
            version = done.version
            say("acknowledged", version=version, position=done.last)
        if failing:
            queued = [log.append(stream, version, some(1, 1)), log.append("other", 0, some(1, 1))]
            for ticket in queued:
                try:
                    await ticket
                except LogUnavailable as error:
                    say("failed", error=type(error).__name__, message=str(error))


async def nobody(command: str, *words: str) -> None:
    """Become a plain user, who may not reach the modules of this project any more."""
    import trialog.events.sqlite.store

    assert trialog.events.sqlite.store
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    await COMMANDS[command](*words)


async def read(path: str) -> None:
    """Say how many events there are, opened only to read; and that appending is refused."""
    async with open_log(path, readonly=True) as log:
        say("read", events=await log.last_position(), first=(await log.read("job/a"))[0].version)
        try:
            await log.append("job/a", 1, some(1, 1))
        except LogUnavailable as error:
            say("failed", message=str(error))
    try:
        async with open_log(path):
            say("opened")
    except LogUnavailable as error:
        say("refused", message=str(error))


async def hold(path: str) -> None:
    """Hold a transaction with an event in it open until told how to end it."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    position = db.execute("SELECT max(position) + 1 FROM events").fetchone()[0]
    db.execute("INSERT INTO streams (id, name) VALUES (999, 'job/slow')")
    db.execute(
        "INSERT INTO events VALUES (?, 999, 1, 'JobCancelled', 1, 'slow', ?, NULL, 0, ?, x'00')",
        (position, SystemClock().now(), '{"kind":"JobCancelled"}'),
    )
    say("holding", position=position)
    db.execute(sys.stdin.readline().strip())
    say("ended")
    db.close()


async def full(path: str, ballast: str) -> None:
    """Fill the disk, make room, and go on."""
    acknowledged = 0
    async with open_log(path) as log:
        try:
            await log.blobs.put(os.urandom(3_000_000))
        except LogUnavailable as error:
            say("blob", message=str(error))
        try:
            while True:
                acknowledged = (await log.append("job/a", acknowledged, some(1, 10_000))).version
        except LogUnavailable as error:
            say("failed", error=type(error).__name__, message=str(error), after=acknowledged)
        try:
            await log.append("job/b", 0, some(1, 1))
        except LogUnavailable as error:
            say("failed", error=type(error).__name__, message=str(error), after=0)
    Path(ballast).unlink()
    async with open_log(path) as log:
        head = await log.head("job/a")
        done = await log.append("job/a", head.version, some(1, 10_000))
        ref = await log.blobs.put(os.urandom(100_000))
        events = [e async for batch in log.read_all() for e in batch]
        say(
            "reopened",
            version=head.version,
            next=done.version,
            blob=await log.blobs.has(ref),
            temporary=len(list((Path(path).parent / "blobs" / "tmp").iterdir())),
            rows=[[e.position, e.stream, e.version, len(e.data), e.hash.hex()] for e in events],
        )


def fail_syncs() -> None:
    """From now on the kernel answers fsync and fdatasync of this process with EIO."""
    numbers = {"x86_64": (0xC000003E, 74, 75, 317), "aarch64": (0xC00000B7, 82, 83, 277)}
    _, fsync, fdatasync, seccomp = numbers[platform.machine()]
    allow, eio = 0x7FFF0000, 0x00050000 | 5
    program = b"".join(
        struct.pack("HBBI", *instruction)
        for instruction in [
            (0x20, 0, 0, 0),  # load the system call's number
            (0x15, 1, 0, fsync),
            (0x15, 0, 1, fdatasync),
            (0x06, 0, 0, eio),
            (0x06, 0, 0, allow),
        ]
    )
    buffer = ctypes.create_string_buffer(program, len(program))
    filter_ = struct.pack("HxxxxxxP", 5, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # no new privileges
    every_thread = 1
    assert libc.syscall(seccomp, 1, every_thread, filter_) == 0, ctypes.get_errno()


COMMANDS: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    "append": append,
    "nobody": nobody,
    "read": read,
    "hold": hold,
    "full": full,
}

if __name__ == "__main__":
    words = sys.argv[1:]
    anyio.run(COMMANDS[words[0]], *words[1:])
