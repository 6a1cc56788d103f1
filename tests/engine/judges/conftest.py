"""An endpoint for judges."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from helpers.judges import Endpoint


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """An OpenAI-compatible endpoint on this machine."""
    made = Endpoint()
    yield made
    made.close()
