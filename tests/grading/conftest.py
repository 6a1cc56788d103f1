"""Whole jobs in both sandboxes."""

from __future__ import annotations

import pytest

from helpers.grading import BUBBLEWRAP, DOCKER
from helpers.grading import backend as backend
from helpers.left import leftovers as leftovers
from helpers.tasks_in_jobs import grade as grade


@pytest.fixture(params=[DOCKER, BUBBLEWRAP])
def backend_name(request: pytest.FixtureRequest) -> str:
    """Each sandbox in turn."""
    return str(request.param)
