"""Where a command's data goes: standard output, or a file or folder that is whole or not there."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread

from ..exports.writing import Write
from .session import Request

__all__ = ("to_folder", "to_stream")


@asynccontextmanager
async def to_stream(request: Request, out: Path | None) -> AsyncGenerator[Write]:
    """Standard output, or the file `out`."""
    if out is None:

        async def printed(data: bytes) -> None:
            if data:
                request.terminal.streaming = True
                request.terminal.raw(data.decode())

        yield printed
        return
    target = Path(request.here, out)
    part = target.with_name(f".{target.name}.part")
    try:
        async with await anyio.open_file(part, "wb") as file:
            yield file.write
        await to_thread.run_sync(os.replace, part, target)
    except BaseException as error:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(partial(part.unlink, missing_ok=True))
        if isinstance(error, OSError) and error.filename is None:  # a write's names no file
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise


@asynccontextmanager
async def to_folder(request: Request, out: Path) -> AsyncGenerator[Path]:
    """A folder to write files into; they are moved into `out` when all are whole."""
    target = Path(request.here, out)
    part = target.with_name(f".{target.name}.part")
    try:
        await to_thread.run_sync(_fresh, part)
        yield part
        await to_thread.run_sync(_move, part, target)
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(partial(shutil.rmtree, part, ignore_errors=True))


def _fresh(part: Path) -> None:
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)


def _move(part: Path, target: Path) -> None:
    """All at once into a folder that is new; else in place of those of the same names.

    What else is in the folder stays. The earlier files are all taken out before the first new one
    comes in, so that a process that is killed here leaves fewer files, never old beside new ones;
    where one can't be moved all are as they were.
    """
    if not target.exists():
        part.rename(target)
        return
    names = sorted(file.name for file in part.iterdir())
    for name in names:
        if (target / name).is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target / name))
    aside = part / "earlier"
    aside.mkdir()
    moves = [(target / name, aside / name) for name in names if os.path.lexists(target / name)]
    moves += [(part / name, target / name) for name in names]
    moved: list[tuple[Path, Path]] = []
    try:
        for move in moves:
            os.replace(*move)
            moved.append(move)
    except BaseException:
        for source, place in reversed(moved):
            os.replace(place, source)
        raise
