"""What sandboxes leave behind on this machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
import msgspec
import pytest

from trialog.engine.sandbox.protocol import SandboxBackend


@pytest.fixture
def leftovers(backend: SandboxBackend) -> Callable[[str], Awaitable[list[str]]]:
    """What there is on this machine of a log's sandboxes."""
    if backend.name == "docker":

        async def find(log_id: str) -> list[str]:
            names: list[str] = []
            for words in ("ps -aq", "volume ls -q", "network ls -q"):
                command = ["docker", *words.split(), "--filter", f"label=trialog.log={log_id}"]
                names += (await anyio.run_process(command)).stdout.decode().split()
            return names

    else:
        from trialog.engine.sandbox.bubblewrap.records import Record, state_folder

        def read(log_id: str) -> list[str]:
            records: list[Record] = []
            for file in state_folder().glob("*.json"):
                with suppress(FileNotFoundError):  # another test's, which has just ended
                    records.append(msgspec.json.decode(file.read_bytes(), type=Record))
            return [record.id for record in records if record.log_id == log_id]

        async def find(log_id: str) -> list[str]:
            return await anyio.to_thread.run_sync(read, log_id)

    return find
