"""Fixtures of every suite: anyio on asyncio, and a blocking call on the loop fails the test."""

from collections.abc import Iterator

import pytest
from blockbuster import BlockBuster, blockbuster_ctx


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """aiodocker and aiosqlite are asyncio's, so that is the only backend."""
    return "asyncio", {"debug": False}


@pytest.fixture(autouse=True)
def blockbuster() -> Iterator[BlockBuster]:
    """A blocking call of this project's on the event loop raises."""
    with blockbuster_ctx("trialog") as blocker:
        yield blocker
