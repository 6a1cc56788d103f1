"""Fixtures of every suite: anyio on asyncio, and a blocking call on the loop fails the test."""

import secrets
import signal
from collections.abc import Awaitable, Callable, Iterator

import anyio
import pytest
import structlog
from blockbuster import BlockBuster, blockbuster_ctx
from hypothesis import settings

from helpers import terminal
from trialog.engine import own_log

# How long an example takes says more of the machine's load than of the code.
settings.register_profile("trialog", deadline=None)
settings.load_profile("trialog")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what it puts into the background so, and what is started from here inherits it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """aiodocker and aiosqlite are asyncio's, so that is the only backend."""
    return "asyncio", {"debug": False}


@pytest.fixture(autouse=True)
def blockbuster() -> Iterator[BlockBuster]:
    """A blocking call of this project's on the event loop raises."""
    with blockbuster_ctx("trialog") as blocker:
        yield blocker


@pytest.fixture(autouse=True)
def unset_log_lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No command has said which lines it wants, and what one says is forgotten after its test."""
    monkeypatch.setattr(own_log, "_configuring", None)
    monkeypatch.setattr(own_log, "_level", None)
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


@pytest.fixture
def mark() -> str:
    """A word that no other process on this machine has in its command line."""
    return f"canary{secrets.token_hex(8)}"


@pytest.fixture
def running() -> Callable[[str], list[int]]:
    """Ids of the processes of this machine, sandboxes' included, that have a word in their line."""
    return terminal.running


@pytest.fixture
def until() -> Callable[[Callable[[], object]], Awaitable[None]]:
    """Wait until something outside has happened, at most 30 s."""

    async def wait(happened: Callable[[], object]) -> None:
        with anyio.fail_after(30):
            while not await anyio.to_thread.run_sync(happened):
                await anyio.sleep(0.02)

    return wait
