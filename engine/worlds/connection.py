"""An app host as the engine sees it: a channel, the requests over it, and the world behind them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import anyio
import msgspec

from ..authoring.app import ActionSpec, Parameter
from ..authoring.task import TaskView
from ..authoring.views import QueryRefused
from ..errors import SandboxError, SandboxGone
from .faults import AppFailed, AppTimeout
from .source import WorldSource
from .wire import (
    VERSION,
    Act,
    Actions,
    ActionSent,
    Answer,
    AnyAnswer,
    AnyRequest,
    Close,
    Done,
    Ended,
    Faulted,
    Final,
    Frames,
    Hello,
    Open,
    Query,
    Refused,
    Reset,
    Unsendable,
    WireError,
    decode_answer,
    frame,
)
from .world import Acted, WorldReset

GRACE = 5.0
"""Seconds that a host is given on top of a deadline that it keeps itself."""

DEADLINE = 60.0
"""Seconds that an app's code may take for one action, query or reset."""

T = TypeVar("T")


class Channel(Protocol):
    """Bytes to and from an app host's process."""

    async def send(self, data: bytes) -> None:
        """Send all of it. Raises anyio.BrokenResourceError, ClosedResourceError, SandboxGone."""
        ...

    async def receive(self) -> bytes:
        """The next bytes; empty at the end. Raises SandboxGone."""
        ...

    async def kill(self) -> None:
        """End the process and all below it, and give everything back; may be repeated."""
        ...

    async def last_words(self) -> str:
        """What it said last on its error output; for messages."""
        ...


class Host:
    """An app host that has said hello. It serves one world at a time."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._frames = Frames()
        self._bodies: deque[bytes] = deque()
        self._last_id = 0
        self._lock = anyio.Lock()
        self.usable = True
        """It may be given another request."""

    async def greet(self, deadline: float) -> None:
        """Wait for its first message. Raises SandboxError; it is killed then."""
        try:
            with anyio.fail_after(deadline):
                _check_hello(decode_answer(await self._next_body()))
        except TimeoutError as error:
            said = await self._end()
            raise SandboxError(f"no app host came up within {deadline:g} s{_said(said)}") from error
        except (SandboxGone, WireError) as error:
            said = await self._end()
            raise SandboxError(f"no app host came up: {said or error}") from error
        except BaseException:
            await self._end()
            raise

    async def open(
        self, source: WorldSource, task: TaskView, *, seed: int, deadline: float
    ) -> HostedWorld:
        """Have the apps imported; their world is not made yet. Raises AppFault, SandboxGone.

        The source's folders are as the host sees them.
        """
        world = HostedWorld(self, source, deadline)
        await self.ask(
            lambda number: Open(
                id=number,
                deadline=deadline,
                environment=source.name,
                folder=str(source.folder),
                root=str(source.root),
                apps=source.apps,
                task=task,
                seed=seed,
            ),
            world.names,
        )
        return world

    async def ask(self, make: Callable[[int], AnyRequest], names: str) -> msgspec.Raw | None:
        """Send a request and wait for its answer; null for a world that was closed.

        `names` are the apps' for messages. Raises QueryRefused, AppFault, SandboxGone. When it is
        cancelled meanwhile, the answer is passed over by the next request.
        """
        async with self._lock:
            if not self.usable:
                raise SandboxGone("the app host is gone")
            self._last_id += 1
            request = make(self._last_id)
            data = frame(request)
            try:
                with anyio.fail_after(request.deadline + GRACE):
                    with anyio.CancelScope(shield=True), anyio.fail_after(GRACE):
                        await self._channel.send(data)  # half a frame would end the host
                    answer = await self._next()
                    while not isinstance(answer, Ended) and answer.id != request.id:
                        answer = await self._next()  # that was one to a request given up
            except TimeoutError as error:
                await self._end()
                hook = request.name if isinstance(request, Act | Query) else _word(request)
                raise AppTimeout(
                    names, hook, f"app {names}: {hook} did not end within {request.deadline:g} s"
                ) from error
            except (WireError, SandboxGone, anyio.BrokenResourceError) as error:
                said = await self._end()
                raise SandboxGone(f"the app host went away: {error}{_said(said)}") from error
            if isinstance(answer, Ended) and not (answer.clean and isinstance(request, Close)):
                await self._end()  # it may have a request that nobody will answer
                raise _died(answer, request.deadline)
            return _understood(answer)

    async def _next(self) -> Answer:
        answer = decode_answer(await self._next_body())
        if isinstance(answer, Hello):
            raise WireError("it said hello twice")
        return answer

    async def _next_body(self) -> bytes:
        while not self._bodies:
            data = await self._channel.receive()
            if not data:
                raise SandboxGone("its process has ended")
            self._frames.feed(data)
            self._bodies.extend(self._frames.take())
        return self._bodies.popleft()

    async def _end(self) -> str:
        with anyio.CancelScope(shield=True):
            await self.kill()
        return await self._channel.last_words()

    async def kill(self) -> None:
        """End it and all that it runs; may be repeated."""
        self.usable = False
        await self._channel.kill()


class HostedWorld:
    """The world of one trial in an app host; see WorldClient."""

    def __init__(self, host: Host, source: WorldSource, deadline: float) -> None:
        self._host = host
        self._deadline = deadline
        self._given_back: Callable[[Host], Any] | None = None
        self.names = ", ".join(repr(app.name or app.python) for app in source.apps) or "none"

    def on_close(self, give_back: Callable[[Host], Any]) -> HostedWorld:
        """Have the host given back after a clean end; an async function."""
        self._given_back = give_back
        return self

    async def reset(self) -> WorldReset:
        """See WorldClient."""
        return await self._ask(WorldReset, lambda n: Reset(id=n, deadline=self._deadline))

    async def actions(self) -> list[ActionSpec]:
        """What an agent may do; the types of arguments are JSON schemas."""
        sent = await self._ask(list[ActionSent], lambda n: Actions(id=n, deadline=self._deadline))
        return [_spec(each) for each in sent]

    async def act(self, name: str, arguments: Mapping[str, Any], app: str | None) -> Acted:
        """See WorldClient. Arguments that are no JSON data are refused as the app would."""
        given = dict(arguments)
        try:
            return await self._ask(
                Acted,
                lambda n: Act(id=n, deadline=self._deadline, name=name, arguments=given, app=app),
            )
        except Unsendable as error:
            return Acted(app=app or "", action=name, arguments=given, error=f"{name}: {error}")

    async def query(self, app: str, name: str, arguments: Mapping[str, Any]) -> Any:
        """See WorldClient."""
        given = dict(arguments)
        try:
            return await self._ask(
                object,
                lambda n: Query(id=n, deadline=self._deadline, app=app, name=name, arguments=given),
            )
        except Unsendable as error:
            raise QueryRefused(f"{name}: {error}") from error

    async def final(self) -> dict[str, Any]:
        """See WorldClient."""
        return await self._ask(dict[str, Any], lambda n: Final(id=n, deadline=self._deadline))

    async def _ask(self, kind: type[T], make: Callable[[int], AnyRequest]) -> T:
        value = await self._host.ask(make, self.names)
        assert value is not None, "only Close has no answer"
        return msgspec.json.decode(value, type=kind)

    async def aclose(self) -> None:
        """End the world; its host is used again where the world's process ended as asked."""
        host, give_back = self._host, self._given_back
        self._given_back = None
        if give_back is None:
            return
        with anyio.CancelScope(shield=True):
            try:
                if host.usable:
                    await host.ask(lambda n: Close(id=n, deadline=GRACE), self.names)
            except (AppFailed, SandboxError, QueryRefused):
                await host.kill()
            await give_back(host)


class HostedAction(ActionSpec, frozen=True, kw_only=True):
    """An action of an app in another process."""

    arguments: dict[str, Any]
    """The JSON schema of its arguments."""

    def schema(self) -> dict[str, Any]:
        """The arguments as a JSON schema."""
        return self.arguments


def _spec(sent: ActionSent) -> HostedAction:
    properties: dict[str, Any] = sent.schema.get("properties", {})
    return HostedAction(
        app=sent.app,
        name=sent.name,
        description=sent.description,
        readonly=sent.readonly,
        parameters=[
            Parameter(name=name, type=properties.get(name), required=required)
            for name, required in sent.parameters
        ],
        arguments=sent.schema,
    )


def _check_hello(hello: AnyAnswer) -> None:
    if not isinstance(hello, Hello):
        raise WireError(f"it began with {type(hello).__name__}")
    if hello.version != VERSION:
        raise SandboxError(
            f"the app host is trialog {hello.trialog} with protocol {hello.version}, and this "
            f"engine has protocol {VERSION}; have the same trialog on both sides"
        )


def _understood(answer: Answer) -> msgspec.Raw | None:
    match answer:
        case Done():
            return answer.value
        case Refused():
            raise QueryRefused(answer.message)
        case Faulted():
            raise AppFailed(answer.app, answer.hook, answer.message)
        case Ended():
            return None


def _died(ended: Ended, deadline: float) -> AppFailed:
    place = f" (at {ended.place})" if ended.place else ""
    who = f"app {ended.app!r}: {ended.hook}" if ended.app else "the environment's code"
    if ended.timed_out:
        text = f"{who} did not end within {deadline:g} s{place}"
        return AppTimeout(ended.app, ended.hook, text)
    printed = ended.output.strip()
    text = f"{who} ended the app's process with {ended.how}{place}{_said(printed)}"
    return AppFailed(ended.app, ended.hook, text)


def _word(request: AnyRequest) -> str:
    return "import" if isinstance(request, Open) else type(request).__name__.lower()


def _said(text: str) -> str:
    return f". Its last output:\n{text}" if text else ""
