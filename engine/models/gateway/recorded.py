"""Endpoints that are a record: a trial's gateway is answered by the calls of another trial."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec

from ...redact import Redactor
from ..client import CallFailed, CallWatch
from ..endpoint import Api
from ..recorded import RecordedCall
from ..replaying import Recording
from .again import streamed
from .loose import as_object
from .routes import ROUTES, Form
from .upstream import Answer, Ask, Downstream

JSON = {"content-type": "application/json"}
STREAM = {"content-type": "text/event-stream"}


class RecordedEndpoints:
    """What a gateway passes calls on to in a replay. Made once a trial.

    Its agent may make several calls at once, so each is answered by the first recorded call of the
    same request that is left.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.redactor = Redactor({})
        self.apis: list[Api] = _apis(recording)

    def shown(self, api: Api) -> str:
        """What events show in place of an endpoint's address."""
        return f"trial/{self._recording.trial}"

    async def ask(self, ask: Ask, down: Downstream, watch: CallWatch | None = None) -> Answer:
        """What the recorded endpoint answered. Raises CallFailed, and with `differs` for a call
        that is not recorded."""
        request: Any = (
            {"path": ask.target.path} if ask.body is None else msgspec.json.decode(ask.body)
        )
        recorded = await self._recording.find(request, in_order=False)
        if recorded.body is None or _is_broken(recorded):
            if recorded.body is not None and as_object(request).get("stream") is True:
                await self._stream(ask.target.route.form, recorded, down, whole=False)
            if recorded.failure == "cut_off":
                await anyio.sleep_forever()  # until the client hangs up, as it did then
            raise CallFailed(
                recorded.error or "", recorded.failure, status=recorded.status,
                code=recorded.code, retries=recorded.retries, replayed=recorded.event,
            )  # fmt: skip
        status = recorded.status or 200
        streams = as_object(request).get("stream") is True
        streams = streams and recorded.error is None and _is_json(recorded)
        if status < 300 and streams:
            await self._stream(ask.target.route.form, recorded, down, whole=True)
            return Answer(
                status=200, headers=STREAM, body=None, retries=recorded.retries,
                replayed=recorded.event,
            )  # fmt: skip
        return Answer(
            status=status, headers=JSON, body=recorded.body.encode(), retries=recorded.retries,
            replayed=recorded.event,
        )  # fmt: skip

    async def _stream(
        self, form: Form, recorded: RecordedCall, down: Downstream, *, whole: bool
    ) -> None:
        assert recorded.body is not None
        events, end = streamed(form, msgspec.json.decode(recorded.body))
        await down.begin(200, STREAM)
        for event in [*events, *(end if whole else [])]:
            await down.piece(event)


def _is_broken(recorded: RecordedCall) -> bool:
    """Whether a stream had begun that never came to its end."""
    return recorded.error is not None and recorded.status is None and _is_json(recorded)


def _is_json(recorded: RecordedCall) -> bool:
    assert recorded.body is not None
    try:
        msgspec.json.decode(recorded.body)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _apis(recording: Recording) -> list[Api]:
    """Those that the recorded agent used; both where its log does not say."""
    forms = {call.form for call in recording.calls}
    used = {route.api for route in ROUTES.values() if route.form in forms}
    apis: list[Api] = ["openai", "anthropic"]
    return [api for api in apis if api in used or not used]
