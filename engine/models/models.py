"""What a job's agents share of models: one client, limits, prices, calls at once to each model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

import anyio
import msgspec
from anyio import to_thread

from .client import ModelClient, open_model_client
from .endpoint import ModelUnavailable, read_endpoint, read_endpoints
from .limit import CostLimit
from .prices import Price
from .replaying import Recording, ReplayClient

if TYPE_CHECKING:
    from .gateway.endpoints import Endpoints  # slow to import, and most jobs have no gateway

CALLS_AT_ONCE = 8
"""To one model."""


class CallSlots:
    """Holds calls to each model to so many at once."""

    def __init__(self) -> None:
        self._slots: dict[str, anyio.CapacityLimiter] = {}

    def slots(self, model: str) -> anyio.CapacityLimiter:
        """A model's limiter."""
        return self._slots.setdefault(model, anyio.CapacityLimiter(CALLS_AT_ONCE))


class ModelLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one trial's agent may use of its model. Null: no limit."""

    turns: int | None = 100
    """Calls."""
    seconds: float | None = None
    """For the agent's whole work."""
    tokens: int | None = None
    """In and out, over all calls."""
    cost: float | None = None
    """Dollars."""


class Models(CallSlots):
    """Made once a job."""

    def __init__(
        self,
        client: ModelClient | None,
        error: ModelUnavailable | None = None,
        *,
        limits: ModelLimits | None = None,
        prices: Mapping[str, Price] | None = None,
        call_timeout: float = 600.0,
        cost_limit: CostLimit | None = None,
        upstream: Endpoints | ModelUnavailable | None = None,
        also: Collection[str] = (),
    ) -> None:
        super().__init__()
        self._client = client
        self._error = error
        self._upstream = upstream
        self.recording: Recording | None = None
        """What answers in place of any model."""
        self.also = frozenset(also)
        """Models beside its own that a trial may call through its gateway."""
        self.limits = limits or ModelLimits()
        self.call_timeout = call_timeout
        """Seconds for one call, tries and waits included."""
        self.cost_limit = cost_limit
        """What all of them may cost together; null: no limit but each one's own."""
        self._prices = dict(prices or {})

    def client(self) -> ModelClient:
        """The client. Raises ModelUnavailable where none can be had."""
        if self._client is None:
            raise self._error or ModelUnavailable("this job was started without models")
        return self._client

    def upstream(self) -> Endpoints | None:
        """What gateways pass calls on to; null where the job has none. Raises ModelUnavailable."""
        if isinstance(self._upstream, ModelUnavailable):
            raise self._upstream
        return self._upstream

    def answered_by(self, recording: Recording, *, gateway: bool) -> Models:
        """The same limits and prices for one trial, whose calls a record answers at once."""
        from .gateway.recorded import RecordedEndpoints

        models = Models(
            ReplayClient(recording), limits=self.limits, prices=self._prices, also=self.also,
            call_timeout=self.call_timeout,
            upstream=RecordedEndpoints(recording) if gateway else None,
        )  # fmt: skip
        models.recording = recording
        return models

    def price(self, model: str) -> Price | None:
        """A model's price; null where the table has none."""
        return self._prices.get(model)


@asynccontextmanager
async def open_models(
    environ: Mapping[str, str],
    given: ModelClient | None,
    *,
    needed: bool,
    limits: ModelLimits,
    prices: Mapping[str, Price],
    call_timeout: float,
    cost_limit: CostLimit | None = None,
    gateway: bool = False,
    also: Collection[str] = (),
) -> AsyncGenerator[Models]:
    """The models of a job; where no client can be had, each agent that asks is told why.

    `needed` is for agents that run out here, `gateway` for those in sandboxes.
    """
    async with AsyncExitStack() as stack:
        upstream: Endpoints | ModelUnavailable | None = None
        if gateway:
            await to_thread.run_sync(import_module, f"{__package__}.gateway.upstream")
            from .gateway.upstream import open_upstream

            try:
                upstream = await stack.enter_async_context(open_upstream(read_endpoints(environ)))
            except ModelUnavailable as unavailable:
                upstream = unavailable
        client, error = given, None
        if client is None and needed:
            try:
                endpoint = read_endpoint(environ)
                client = await stack.enter_async_context(open_model_client(endpoint))
            except ModelUnavailable as unavailable:
                error = unavailable
        yield Models(
            client, error, limits=limits, prices=prices, call_timeout=call_timeout,
            cost_limit=cost_limit, upstream=upstream, also=also,
        )  # fmt: skip
