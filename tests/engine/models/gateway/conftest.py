"""A gateway with a real endpoint behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from helpers.fakes import FakeBackend, FakeSandbox
from helpers.gateway import Endpoint
from helpers.served import Serve, Served
from trialog.engine.models.endpoint import read_endpoints
from trialog.engine.models.gateway import upstream
from trialog.engine.models.gateway.gateway import Gateway
from trialog.engine.models.gateway.trial import TrialCalls
from trialog.engine.models.gateway.upstream import open_upstream
from trialog.engine.models.models import Models
from trialog.engine.sandbox.protocol import Image, SandboxSpec
from trialog.events.clock import SystemClock
from trialog.events.kinds.parts import Limits
from trialog.events.open import memory_log


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """Answers as told."""
    made = Endpoint()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause before another try but what the endpoint asks for."""
    pause = upstream.pause

    def shorter(retries: int, headers: Any, **more: Any) -> float:
        return pause(retries, headers, **more) if "retry-after" in headers else 0.0

    monkeypatch.setattr(upstream, "pause", shorter)


@pytest.fixture
async def serve(endpoint: Endpoint, tmp_path: Path) -> AsyncIterator[Serve]:
    """Serves gateways, all of one job; keywords are Models' own."""
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(memory_log())
        upstream = await stack.enter_async_context(open_upstream(read_endpoints(endpoint.environ)))
        spec = SandboxSpec(
            job="j", trial="t", log_id="l", image=Image(name=None), workdir="/app",
            limits=Limits(), scratch=tmp_path,
        )  # fmt: skip
        sandbox = FakeSandbox(FakeBackend(), spec)

        async def make(*, network: bool = False, **given: Any) -> Served:
            events: list[Any] = []

            def emit(told: Any) -> str:
                events.append(told)
                return f"e{len(events)}"

            models = Models(None, upstream=upstream, **given)
            trial = TrialCalls(
                "m", models, upstream, emit=emit, blobs=log.blobs, clock=SystemClock(),
                network=network,
            )  # fmt: skip
            gateway = Gateway(trial)
            _, variables = await stack.enter_async_context(gateway.serving(sandbox))
            served = Served(gateway, trial, variables)
            served.events = events
            return served

        yield make


@pytest.fixture
async def served(serve: Serve) -> Served:
    """One gateway."""
    return await serve()
