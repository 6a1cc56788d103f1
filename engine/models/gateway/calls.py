"""One call on its way through the gateway, and the events that tell of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from ..client import SHOWN, CallFailed, failure_of
from .http import BadRequest, ClientConnection, ClientGone
from .listed import only_allowed
from .loose import as_object
from .routes import Route, Target, error_body, error_event, error_in
from .streams import EventReader, assembler, data_of
from .telling import CallRecord, Failed
from .trial import OUT_OF_TIME, TIMEOUT, TrialCalls
from .upstream import ANSWER_CAP, Answer, Ask, Downstream
from .wanted import Wanted, apart, decoded

NO_MORE = {"x-should-retry": "false"}
"""Tells clients that another try is no use: what may help was tried already, or nothing can."""


class PassedCall:
    """A call that is passed on, from its admission to its events. Made once for each."""

    def __init__(
        self,
        trial: TrialCalls,
        client: ClientConnection,
        target: Target,
        headers: Mapping[str, str],
        wanted: Wanted | None,
    ) -> None:
        """`wanted` is null for what names no model: a list of them."""
        self._trial = trial
        self._client = client
        self._target = target
        self._headers = headers
        self._wanted = wanted
        self._record = CallRecord(trial, target, wanted)
        self._reader = EventReader()
        self._whole = assembler(self._route.form)
        self._seen = 0
        self._held: list[bytes] = []
        """The end of a stream, which is told only when the call is in the log."""
        self._over = False
        self._streaming = False
        self._cut = "the call was cut off"
        """Why, if it is."""
        self._send: MemoryObjectSendStream[bytes]
        self._take: MemoryObjectReceiveStream[bytes]
        self._send, self._take = anyio.create_memory_object_stream[bytes](float("inf"))

    @property
    def _route(self) -> Route:
        return self._target.route

    async def run(self) -> None:
        """Pass it on and answer the client; recorded whatever becomes of it."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch_client, tasks.cancel_scope)
                await self._go(tasks)
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._tell(Failed(error=self._cut, failure="cut_off"))
            self._send.close()
            self._take.close()

    async def _watch_client(self, scope: anyio.CancelScope) -> None:
        await self._client.hung_up()
        self._cut = "the client hung up"
        scope.cancel()

    async def _go(self, tasks: anyio.abc.TaskGroup) -> None:
        written = anyio.Event()

        async def begin(status: int, headers: Mapping[str, str]) -> None:
            self._streaming = True
            self._send.send_nowait(b"")  # nothing yet, and the answer begins
            tasks.start_soon(self._write, headers, written, tasks.cancel_scope)

        try:
            answer = await self._ask(Downstream(begin, self._piece))
        except CallFailed as error:
            self._record.retries, self._record.replayed = error.retries, error.replayed
            await self._tell(
                Failed(
                    error=str(error),
                    failure=error.failure,
                    status=error.status,
                    code=error.code,
                    difference=error.difference,
                ),
                accepted=self._streaming,
            )
            if error.code == OUT_OF_TIME:
                self._trial.cut_off(str(error))
                await self._fail(403, str(error), OUT_OF_TIME)
            else:
                await self._fail(504 if error.code == TIMEOUT else 502, str(error))
        else:
            self._record.retries, self._record.replayed = answer.retries, answer.replayed
            if not self._streaming:
                await self._pass_back(answer)
                return
            if rest := self._reader.rest():
                self._event(rest)
            await self._tell(self._broken())
            for event in self._held:
                self._send.send_nowait(event)
        if self._streaming:
            self._send.close()
            await written.wait()

    async def _tell(self, failed: Failed | None, *, accepted: bool = True) -> None:
        """Tell of the call with what has come of a stream, if it is one."""
        response = self._whole.whole() if self._streaming else None
        await self._record.tell(response, failed, size=self._seen, accepted=accepted)

    def _broken(self) -> Failed | None:
        """Why a stream that has ended is no whole answer."""
        if self._whole.error is not None:
            return Failed(error=f"the endpoint broke off: {self._whole.error}")
        if not self._whole.ended:
            return Failed(error="the endpoint's stream ended in the middle of the answer")
        return None

    async def _ask(self, down: Downstream) -> Answer:
        trial, wanted = self._trial, self._wanted
        body = (
            None
            if wanted is None
            else await apart(wanted.size, msgspec.json.encode, wanted.request)
        )
        ask = Ask(target=self._target, headers=self._headers, body=body)
        seconds, why, code = trial.seconds()
        slots = nullcontext() if wanted is None else self._slot(wanted.model)
        try:
            with anyio.fail_after(seconds):
                async with slots:
                    return await trial.upstream.ask(ask, down, trial.pulse)
        except TimeoutError:
            raise CallFailed(why, "unreachable", code=code) from None
        finally:
            trial.pulse.heard()

    @asynccontextmanager
    async def _slot(self, model: str) -> AsyncGenerator[None]:
        slots = self._trial.models.slots(model)
        with self._trial.pulse.pausing():
            await slots.acquire_on_behalf_of(self)
        try:
            yield
        finally:
            slots.release_on_behalf_of(self)

    async def _pass_back(self, answer: Answer) -> None:
        assert answer.body is not None
        self._seen = len(answer.body)
        failed: Failed | None = None
        try:
            response: Any = await apart(len(answer.body), decoded, answer.body)
        except BadRequest:
            failed = Failed(error="the endpoint's answer is no JSON")
            response = answer.body.decode("utf-8", "replace")
        body = answer.body
        if self._route.form == "models" and failed is None and answer.status < 300:
            response = only_allowed(response, self._trial.may_call)
            body = msgspec.json.encode(response)
        if answer.status >= 300:
            failure, what = failure_of(answer.status)
            message, code = error_in(response) or ("", None)
            failed = Failed(
                error=f"{what}: {message[:SHOWN]}" if message else what,
                failure=failure, status=answer.status, code=code,
            )  # fmt: skip
        elif (said := error_in(response)) is not None:
            message, code = said
            failed = Failed(
                error=f"the endpoint answered with an error: {message[:SHOWN]}",
                status=answer.status, code=code,
            )  # fmt: skip
        accepted = answer.status < 300
        await self._record.tell(response, failed, size=self._seen, accepted=accepted)
        headers = {**answer.headers, **(NO_MORE if answer.status >= 400 else {})}
        try:
            await self._client.respond(answer.status, body, headers)
        except ClientGone:
            return

    async def _fail(self, status: int, message: str, code: str = "model_failed") -> None:
        """Tell the client that there is no answer, or none any more."""
        api = self._route.api
        if self._streaming:
            self._send.send_nowait(error_event(api, message))
            return
        kind = {"content-type": "application/json", **NO_MORE}
        try:
            await self._client.respond(status, error_body(api, status, message, code), kind)
        except ClientGone:
            return

    # Streams

    async def _piece(self, data: bytes) -> bool:
        self._trial.pulse.heard()
        self._seen += len(data)
        if self._seen > ANSWER_CAP:
            raise CallFailed(f"the endpoint's answer is over {ANSWER_CAP // 2**20} MiB", "rejected")
        for event in self._reader.feed(data):
            self._event(event)
        return not self._over

    def _event(self, event: bytes) -> None:
        event = self._trial.upstream.redactor.redact(event)
        data = data_of(event)
        if data.strip() == b"[DONE]":
            self._over = True
        elif data:
            try:
                value: Any = decoded(data)
            except BadRequest:
                value = None
            self._whole.add(value)
            if self._is_ours(value):
                return
            if self._route.form in ("messages", "responses"):
                self._over = self._over or self._whole.ended
        if self._over:
            self._held.append(event)
        else:
            self._send.send_nowait(event)

    def _is_ours(self, chunk: Any) -> bool:
        """The chunk that tells what was used, which the client had not asked for."""
        if self._wanted is None or self._wanted.wants_usage:
            return False
        told = as_object(chunk)
        return told.get("choices") == [] and told.get("usage") is not None

    async def _write(
        self, headers: Mapping[str, str], written: anyio.Event, scope: anyio.CancelScope
    ) -> None:
        """Give the client what comes, at its own pace."""
        try:
            await self._client.begin(200, headers)
            async for data in self._take:
                together = data + b"".join(self._waiting())
                if together:
                    await self._client.send(together)
            if self._record.complete:
                await self._client.end()
        except ClientGone as gone:
            self._cut = str(gone)
            scope.cancel()
        finally:
            written.set()

    def _waiting(self) -> Iterator[bytes]:
        """What else has come by now."""
        with suppress(anyio.WouldBlock, anyio.EndOfStream):
            while True:
                yield self._take.receive_nowait()
