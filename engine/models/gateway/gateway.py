"""One trial's gateway: who may call, what is let through, and how much of it at once."""

from __future__ import annotations

import hmac
import secrets
import socket
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import anyio
from anyio import to_thread
from anyio.abc import SocketStream

from ....events.kinds import ModelCalled, WarningRaised
from ....events.kinds.parts import Usage
from ...errors import log_error_in
from ...own_log import logger
from ...sandbox.protocol import Listener, Sandbox
from ..endpoint import Api
from .calls import NO_MORE, PassedCall
from .http import BadRequest, ClientConnection, ClientGone, Head
from .listed import asked_for
from .routes import PASSED_ON, VERSION, Target, api_of, error_body, find, key_in
from .telling import stored
from .trial import TrialCalls
from .wanted import Wanted, read_wanted

PORT = 21170
"""On a loopback that is the sandbox's own."""

CONNECTIONS = 16
"""Open at once; more wait until one of them ends."""

CALLS = 4
"""Passed on at once; more wait. Fewer than a model may get, so that no trial keeps others out."""

BODY_CAP = 16 * 1024 * 1024
HELD_CAP = 32 * 1024 * 1024
"""Bytes of all requests that are under way."""

UNPAID = 1000
"""Times that a trial may ask what costs nothing: which models there are, how many tokens."""

BESIDE_CAP = 1024 * 1024 * 1024
"""Bytes of requests that are no turns. Each is in the log, and no limit may hold for them."""

REFUSALS = 50
"""Calls past a limit, or of another model, that are told one by one."""

IN_VAIN = 20
"""Connections that asked for nothing, and requests that were refused, until each is held up: what
comes in a flood must not keep the engine from its work."""

HOLD_UP_SEC = 0.25

LIMITS = {"max_turns", "max_seconds", "max_tokens", "max_cost"}
"""Reasons to refuse that the agent's end tells of."""

PAUSE = 0.1
"""Seconds before another connection is taken, when there was none to be had."""


class Gateway:
    """Passes a trial's calls on. It is served in each of the agent's phases."""

    def __init__(self, trial: TrialCalls) -> None:
        self._trial = trial
        self._key = f"sk-trialog-{secrets.token_hex(24)}"
        self._connections = anyio.Semaphore(CONNECTIONS)
        self._calls = anyio.Semaphore(CALLS)
        self._held = 0
        self._unpaid = 0
        self._beside = 0
        self._in_vain = 0
        self._refused: Counter[str] = Counter()
        """By reason, all that was not passed on."""
        self._told = 0

    def variables(self, port: int) -> dict[str, str]:
        """What tells programs inside where to call and with which key."""
        base = f"http://127.0.0.1:{port}"
        found: dict[str, str] = {}
        if "openai" in self._trial.upstream.apis:
            url = base + VERSION
            found |= {"OPENAI_BASE_URL": url, "OPENAI_API_BASE": url, "OPENAI_API_KEY": self._key}
        if "anthropic" in self._trial.upstream.apis:
            found |= {"ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": self._key}
        return found

    def quiet(self) -> float:
        """Seconds since something was heard of the model."""
        return self._trial.pulse.quiet()

    @asynccontextmanager
    async def serving(
        self, sandbox: Sandbox
    ) -> AsyncGenerator[tuple[Listener | None, dict[str, str]]]:
        """Be there while a phase of the sandbox runs; what the phase needs for it.

        Calls that are under way in the end are cut off, and recorded as such.
        """
        async with anyio.create_task_group() as tasks:

            def take(listener: socket.socket) -> None:
                tasks.start_soon(self._serve, listener)

            if sandbox.own_loopback:
                yield Listener(PORT, take), self.variables(PORT)
            else:  # it has this machine's network: the key keeps others out
                listener = socket.create_server(("127.0.0.1", 0))
                listener.setblocking(False)
                take(listener)
                yield None, self.variables(listener.getsockname()[1])
            tasks.cancel_scope.cancel()

    def close(self) -> None:
        """The agent is done: tell of calls that its endpoint failed and of what was refused, but
        for a limit that the trial has ended by and whose calls were all told."""
        trial = self._trial
        if trial.failed:
            trial.emit(
                WarningRaised(
                    code="model_calls_failed",
                    message=f"the model's endpoint failed {trial.failed} of {trial.asked} calls "
                    f"({trial.why})",
                )
            )  # fmt: skip
        refused = self._refused.total()
        if refused > self._told or self._refused.keys() - LIMITS:
            reasons = ", ".join(f"{count} {why}" for why, count in self._refused.most_common())
            self._trial.emit(
                WarningRaised(
                    code="gateway_refused",
                    message=f"the model gateway refused {refused} request{'s' * (refused != 1)} of "
                    f"the sandbox ({reasons})",
                )
            )  # fmt: skip

    async def _serve(self, listener: socket.socket) -> None:
        with listener:
            async with anyio.create_task_group() as tasks:
                while True:
                    await self._connections.acquire()
                    tasks.start_soon(self._connection, await _accepted(listener))

    async def _connection(self, stream: SocketStream) -> None:
        try:
            async with stream:
                await self._talk(ClientConnection(stream))
        except ClientGone:
            pass
        except Exception as error:  # whatever it is, it is this connection's alone
            if log_error_in(error) is not None:
                raise
            await to_thread.run_sync(_log_fault, error)
        finally:
            self._connections.release()

    async def _hold_up(self) -> None:
        """Nothing was passed on."""
        self._in_vain += 1
        if self._in_vain > IN_VAIN:
            await anyio.sleep(HOLD_UP_SEC)

    async def _talk(self, client: ClientConnection) -> None:
        """Answer one request after the other."""
        api: Api = "openai"
        while True:
            try:
                head = await client.head()
                if head is None:
                    await self._hold_up()
                    return
                api = api_of(head.target, head.headers)
                await self._request(client, head)
            except BadRequest as bad:
                self._refused[bad.code] += 1
                await self._hold_up()
                await _refuse(client, api, bad.status, str(bad), bad.code)
                if not client.read_whole:
                    await client.drain()
                    return
            if not client.again():
                return

    async def _request(self, client: ClientConnection, head: Head) -> None:
        if not hmac.compare_digest(key_in(head.headers).encode(), self._key.encode()):
            raise BadRequest(401, "this is not the key that the trial was given", "invalid_key")
        target = find(head.method, head.target, head.headers)
        if target is None:
            raise BadRequest(
                404, f"the model gateway does not pass on {head.method} {head.target[:200]}",
                "unknown_path",
            )  # fmt: skip
        if target.route.api not in self._trial.upstream.apis:
            raise BadRequest(
                404, f"this job has no endpoint for {target.route.api}'s API", "no_endpoint"
            )
        taken = 0

        def room(size: int) -> bool:
            nonlocal taken
            taken += size
            self._held += size
            return taken <= BODY_CAP and self._held <= HELD_CAP

        try:
            body = await client.body(room)
            with self._trial.pulse.pausing():
                await self._calls.acquire()
            try:
                await self._call(client, head.headers, target, body)
            finally:
                self._calls.release()
        finally:
            self._held -= taken

    async def _call(
        self, client: ClientConnection, headers: Mapping[str, str], target: Target, body: bytes
    ) -> None:
        wanted = None
        if target.route.form in ("models", "count_tokens"):
            self._unpaid += 1
            if self._unpaid > UNPAID:
                raise BadRequest(403, "this was asked too often", "asked_too_often")
        if target.route.purpose != "agent":
            self._beside += len(body)
            if self._beside > BESIDE_CAP:
                raise BadRequest(403, "too much was asked beside turns", "asked_too_much")
        if target.route.form == "models" and not asked_for(target.path, self._trial.may_call):
            raise BadRequest(
                404, f"this trial may call {self._trial.model}; --also-model allows further ones",
                "model_not_allowed",
            )  # fmt: skip
        if target.route.form != "models":
            wanted = await read_wanted(body, target.route.form)
            if (refused := self._problem(wanted, target)) is not None:
                await self._refuse_call(client, target, wanted, *refused)
                return
        passed = {name: value for name, value in headers.items() if name in PASSED_ON}
        await PassedCall(self._trial, client, target, passed, wanted).run()

    def _problem(self, wanted: Wanted, target: Target) -> tuple[int, str, str] | None:
        """Why a call is not passed on: status, message and code; null for one that is."""
        if not self._trial.may_call(wanted.model):
            return (
                404,
                f"this trial may call {self._trial.model} and not {wanted.model[:200]!r}; "
                "--also-model allows further ones",
                "model_not_allowed",
            )
        if wanted.request.get("background"):
            return 400, "what runs in the background is not passed on: leave it out", "background"
        if wanted.reaches_out is not None and not self._trial.network:
            return (
                403,
                f"this task has no network, and {wanted.reaches_out} would have the model's "
                "endpoint reach out in its place",
                "no_network",
            )
        if target.route.form == "count_tokens":
            return None
        limit = self._trial.limit(turn=target.route.purpose == "agent")
        return None if limit is None else (403, limit.why, limit.category)

    async def _refuse_call(
        self, client: ClientConnection, target: Target, wanted: Wanted,
        status: int, message: str, code: str,
    ) -> None:  # fmt: skip
        self._refused[code] += 1
        if self._told < REFUSALS:
            self._told += 1
            trial = self._trial
            kept = trial.conversations.new_in(wanted.request)
            trial.emit(
                ModelCalled(
                    model=wanted.model[:1000], endpoint=trial.upstream.shown(target.route.api),
                    request=await stored(kept, trial.blobs, wanted.size),
                    error=f"refused: {message}", usage=Usage(model_calls=0),
                    started_at=trial.clock.now(), latency=0.0,
                    retries=0, purpose=target.route.purpose, failure="refused", code=code,
                )
            )  # fmt: skip
        await self._hold_up()
        await _refuse(client, target.route.api, status, message, code)


async def _refuse(client: ClientConnection, api: Api, status: int, message: str, code: str) -> None:
    kind = {"content-type": "application/json", **NO_MORE}
    await client.respond(status, error_body(api, status, message, code), kind)


def _log_fault(error: Exception) -> None:
    logger().error("a fault in the model gateway", exc_info=error)


async def _accepted(listener: socket.socket) -> SocketStream:
    """The next connection."""
    while True:
        await anyio.wait_readable(listener)
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            continue
        except OSError as error:  # no descriptor is free, or the client is gone already
            logger().info("no connection to the model gateway", why=str(error))
            await anyio.sleep(PAUSE)
            continue
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return await SocketStream.from_socket(connection)
