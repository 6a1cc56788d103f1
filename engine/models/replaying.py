"""Answering a trial's model calls from the recorded calls of another one.

A call is answered only where its request is a recorded one to the byte. The first that is not ends
the replay: the record has no answer to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from anyio import to_thread

from ...events.kinds.parts import RequestDifference
from ...events.log import BlobStore
from ...events.values import json_bytes
from .client import Answered, CallFailed, CallWatch, CutOff
from .difference import Difference, canonical, first_difference
from .recorded import RecordedCall


class Recording:
    """The recorded calls of the trial `trial`, for one that asks them again."""

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
        self.trial = trial
        self.cut_off = cut_off
        self._calls = list(calls)
        self._made = len(self._calls)
        self._digests: dict[str, bytes] = {}
        self._blobs = blobs
        self._clean = clean
        self.differs: CallFailed | None = None
        """The first call that is not as recorded, once there was one."""

    @property
    def left(self) -> int:
        """Recorded calls that nobody asked for yet."""
        return len(self._calls)

    @property
    def calls(self) -> Sequence[RecordedCall]:
        """Those."""
        return self._calls

    async def find(self, request: Any, *, in_order: bool = True) -> RecordedCall:
        """The recorded call of this request, which is then used up: the next one, or where calls
        may be made at the same time, the first of those that are left.

        Raises CallFailed with `differs` where there is none; from then on there is none any more.
        """
        now, wanted = await to_thread.run_sync(self._as_logged, request)
        if self.differs is not None:
            raise CallFailed(f"the replay ended before: {self.differs}", "differs")
        for place, call in enumerate(self._calls[:1] if in_order else self._calls):
            if self._digest(call) == wanted:
                return self._calls.pop(place)
        self.differs = CallFailed("", "differs")  # whoever asks meanwhile is not answered either
        self.differs = await self._difference(now)
        raise self.differs

    def _as_logged(self, request: Any) -> tuple[Any, bytes]:
        """A request as a log would have it, and its digest."""
        now = self._clean(msgspec.json.decode(json_bytes(request)))
        return now, _digest(now)

    def _digest(self, call: RecordedCall) -> bytes:
        """A recorded request's; each is made once."""
        found = self._digests.get(call.event)
        if found is None:
            found = self._digests[call.event] = _digest(call.request)
        return found

    async def _difference(self, now: Any) -> CallFailed:
        recorded = self._calls[0] if self._calls else None
        number = self._made - self.left + 1
        found = Difference("", None, None)
        if recorded is None:
            error = (
                f"model call {number} is not in the record: trial {self.trial} made {self._made}"
            )
        else:
            found = first_difference(recorded.request, now) or found
            error = (
                f"model call {number} is not the recorded one of trial {self.trial}: "
                f"{in_words(found)}"
            )
        difference = await request_difference(
            self.trial, number, found, blobs=self._blobs,
            event=None if recorded is None else recorded.event,
            recorded=None if recorded is None else recorded.request, now=now,
        )  # fmt: skip
        return CallFailed(error, "differs", difference=difference)


def _digest(request: Any) -> bytes:
    return hashlib.sha256(canonical(request)).digest()


class ReplayClient:
    """A ModelClient for one trial that calls no model."""

    def __init__(self, recording: Recording) -> None:
        self.endpoint = f"trial/{recording.trial}"
        self._recording = recording

    async def complete(
        self, request: Mapping[str, Any], watch: CallWatch | None = None
    ) -> Answered:
        """What came of the recorded call. Raises CallFailed, and with `differs` for another call.

        Once a call differed, no further one is answered.
        """
        recorded = await self._recording.find(request)
        if recorded.body is not None:
            return Answered(body=recorded.body, retries=recorded.retries, replayed=recorded.event)
        raise CallFailed(
            recorded.error or "", recorded.failure, status=recorded.status, code=recorded.code,
            retries=recorded.retries, replayed=recorded.event,
            ended=self._recording.cut_off if recorded.failure == "cut_off" else None,
        )  # fmt: skip


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
