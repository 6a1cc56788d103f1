"""Answering a trial's model calls from the recorded calls of another one.

The calls are answered in their order, each only where its request is the recorded one to the byte.
The first that is not ends the replay: the record has no answer to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio.lowlevel
import msgspec

from ...events.kinds.parts import RequestDifference
from ...events.log import BlobStore
from ...events.values import json_bytes
from .client import Answered, CallFailed, CallWatch, CutOff
from .difference import Difference, canonical, first_difference
from .recorded import RecordedCall


class ReplayClient:
    """A ModelClient for one trial that calls no model. `trial` is the recorded one's name."""

    def __init__(
        self,
        trial: str,
        calls: Sequence[RecordedCall],
        blobs: BlobStore,
        *,
        clean: Callable[[Any], Any],
        cut_off: CutOff | None = None,
    ) -> None:
        """`clean` makes of a request what a log would have of it; `cut_off` is how the recorded
        agent ended, where that ended a call under way."""
        self.endpoint = f"trial/{trial}"
        self._trial = trial
        self._calls = calls
        self._blobs = blobs
        self._clean = clean
        self._cut_off = cut_off
        self._answered = 0
        self.differs: CallFailed | None = None
        """The first call that is not as recorded, once there was one."""

    @property
    def left(self) -> int:
        """Recorded calls that nobody asked for yet."""
        return len(self._calls) - self._answered

    async def complete(
        self, request: Mapping[str, Any], watch: CallWatch | None = None
    ) -> Answered:
        """What came of the recorded call. Raises CallFailed, and with `differs` for another call.

        Once a call differed, no further one is answered.
        """
        await anyio.lowlevel.checkpoint()
        if self.differs is not None:
            raise CallFailed(f"the replay ended before: {self.differs}", "differs")
        now = self._clean(msgspec.json.decode(json_bytes(request)))
        if not self.left:
            raise await self._difference(None, now, Difference("", None, None))
        recorded = self._calls[self._answered]
        if (found := first_difference(recorded.request, now)) is not None:
            raise await self._difference(recorded, now, found)
        self._answered += 1
        if recorded.body is not None:
            return Answered(body=recorded.body, retries=recorded.retries, replayed=recorded.event)
        raise CallFailed(
            recorded.error or "", recorded.failure, status=recorded.status, code=recorded.code,
            retries=recorded.retries, replayed=recorded.event,
            ended=self._cut_off if recorded.failure == "cut_off" else None,
        )  # fmt: skip

    async def _difference(
        self, recorded: RecordedCall | None, now: Any, found: Difference
    ) -> CallFailed:
        difference = await request_difference(
            self._trial, self._answered + 1, found, blobs=self._blobs,
            event=None if recorded is None else recorded.event,
            recorded=None if recorded is None else recorded.request, now=now,
        )  # fmt: skip
        error = (
            f"model call {difference.call} is not in the record: trial {self._trial} made "
            f"{len(self._calls)}"
            if recorded is None
            else f"model call {difference.call} is not the recorded one of trial {self._trial}: "
            + in_words(found)
        )
        self.differs = CallFailed(error, "differs", difference=difference)
        return self.differs


async def request_difference(
    trial: str, call: int, found: Difference, *, blobs: BlobStore, event: str | None,
    recorded: Any | None, now: Any,
) -> RequestDifference:  # fmt: skip
    """A difference as events have it, with both requests in full as blobs."""

    async def stored(request: Any) -> Any:
        return await blobs.put(msgspec.json.format(canonical(request), indent=2) + b"\n")

    return RequestDifference(
        trial=trial, call=call, event=event, path=found.path, recorded=found.recorded,
        now=found.now, request_now=await stored(now),
        request_recorded=None if recorded is None else await stored(recorded),
    )  # fmt: skip


def in_words(found: Difference) -> str:
    """The first part that differs, as it was and as it is."""
    if found.now is None:
        return f"{found.path} is missing, and was {found.recorded!r}"
    if found.recorded is None:
        return f"{found.path} is {found.now!r}, and was not there"
    return f"{found.path} is {found.now!r}, and was {found.recorded!r}"
