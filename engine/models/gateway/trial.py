"""What the calls of one trial share: whose they are, where they are recorded, what they may use."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from ....events.clock import Clock
from ....events.kinds import TrialEvent
from ....events.log import BlobStore
from ..meter import Meter, Reached
from ..models import Models
from .endpoints import Endpoints
from .requests import Conversations

TIMEOUT = "timeout"
"""The code of a call that the endpoint did not answer in time."""

OUT_OF_TIME = "max_seconds"
"""That of one that the trial's own limit cut off."""


class Pulse:
    """When something was last heard of a trial's model; as for `chat`, a call that is under way is
    no sign of life, and a wait of the engine's own is no silence."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heard_at = clock.monotonic()
        self._pauses = 0

    def heard(self) -> None:
        """A piece of an answer came."""
        self._heard_at = self._clock.monotonic()

    @contextmanager
    def pausing(self) -> Generator[None]:
        """Around a wait of the engine's own."""
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            self.heard()

    def quiet(self) -> float:
        """Seconds since something was heard."""
        return 0.0 if self._pauses else self._clock.monotonic() - self._heard_at


class TrialCalls:
    """Made once a trial."""

    def __init__(
        self,
        model: str,
        models: Models,
        upstream: Endpoints,
        *,
        emit: Callable[[TrialEvent], str],
        blobs: BlobStore,
        clock: Clock,
        network: bool = False,
    ) -> None:
        """`network`: the trial's sandbox has one."""
        self.model = model
        self.models = models
        self.upstream = upstream
        self.emit = emit
        self.blobs = blobs
        self.clock = clock
        self.network = network
        self.meter = Meter(models.limits, models.cost_limit)
        self.conversations = Conversations()
        self.stop: Callable[[], None] = lambda: None
        """Ends the agent where a replay has no more answers."""
        self.pulse = Pulse(clock)
        self._begun = clock.monotonic()
        self.reached: Reached | None = None
        """The limit that a call was refused or cut off for."""
        self.asked = 0
        """Calls that the endpoint was asked to answer; lists and counts of tokens are none."""
        self.failed = 0
        """Those that failed, and the endpoint is to blame."""
        self.why = ""
        """What the last of these failed of."""
        self.category = ""
        """The category of an agent whose every call failed like the last one."""

    @property
    def had_none(self) -> bool:
        """Whether the trial had no model: it called, and the endpoint failed each call."""
        return 0 < self.failed == self.asked

    def may_call(self, model: str) -> bool:
        """Whether the trial may call a model."""
        return model == self.model or model in self.models.also

    def limit(self, *, turn: bool) -> Reached | None:
        """The limit that forbids another call; from the first on that it was asked for in vain,
        the trial counts as ended by it."""
        found = self.meter.reached(turn=turn) or self._out_of_time()
        self.reached = self.reached or found
        return found

    def cut_off(self, why: str) -> None:
        """A call was cut off by the limit on seconds: the trial counts as ended by it."""
        self.reached = self.reached or Reached(
            why=why, ended_by="max_seconds", category="max_seconds"
        )

    def seconds(self) -> tuple[float, str, str]:
        """How long a call may take, and what to say of one that takes longer, with its code."""
        most = self.models.call_timeout
        silence = most, f"the endpoint did not answer within {most:g} s", TIMEOUT
        limit = self.models.limits.seconds
        if limit is None:
            return silence
        left = max(0.0, limit - (self.clock.monotonic() - self._begun))
        return (left, _too_late(limit), OUT_OF_TIME) if left < most else silence

    def _out_of_time(self) -> Reached | None:
        if self.reached is not None and self.reached.category == "max_seconds":
            return self.reached  # in a replay, too, where it takes no time to come to it
        limit = self.models.limits.seconds
        if limit is None or self.clock.monotonic() - self._begun < limit:
            return None
        return Reached(why=_too_late(limit), ended_by="max_seconds", category="max_seconds")


def _too_late(limit: float) -> str:
    return f"the agent may call its model for {limit:g} s, and they are over"
