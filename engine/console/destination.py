"""Where a command's data goes: standard output, or a file or folder that is whole or not there."""

from __future__ import annotations

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
    """All at once into a folder that is new; else file by file, which leaves others as they are."""
    if not target.exists():
        part.rename(target)
        return
    for file in sorted(part.iterdir()):
        os.replace(file, target / file.name)
