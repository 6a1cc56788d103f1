"""An endpoint over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from helpers.judges import Endpoint


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """Answers as told."""
    made = Endpoint()
    yield made
    made.close()
