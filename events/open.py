"""The one place that picks a store."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from .log import EventLog

if TYPE_CHECKING:
    from .sqlite.store import SqliteLog


@asynccontextmanager
async def open_log(
    path: Path | str, *, readonly: bool = False, create: bool = True, log_id: str | None = None
) -> AsyncGenerator[EventLog]:
    """The log in the SQLite file `path`; leaving the context writes what is queued and closes it.

    The file and its folder are made where they are missing, unless `create` is false or the log
    is opened only to read. A new log gets a random name, or `log_id`. Raises LogUnavailable,
    LogTooNew or LogCorrupt.
    """
    store = await anyio.to_thread.run_sync(_sqlite_log)
    log = store(Path(path))
    try:
        await log.start(readonly=readonly, create=create, log_id=log_id or secrets.token_hex(16))
        yield log
    finally:
        await log.aclose()


def _sqlite_log() -> type[SqliteLog]:
    """Load the store, and aiosqlite with it; start-up should not pay for that."""
    from .sqlite.store import SqliteLog

    return SqliteLog


@asynccontextmanager
async def memory_log() -> AsyncGenerator[EventLog]:
    """An empty log in memory, with every rule of the format, that is gone afterwards."""
    from .memory import MemoryLog

    log = MemoryLog()
    try:
        yield log
    finally:
        await log.aclose()
