"""One world in a process of its own: requests in, answers out, until it is asked to end."""

from __future__ import annotations

import faulthandler
import mmap
import os
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import msgspec

from ..authoring.app import ActionSpec
from ..authoring.views import QueryRefused
from ..errors import ConfigError
from .source import WorldSource, load_environment
from .wire import (
    HEADER,
    Act,
    Actions,
    ActionSent,
    AnyAnswer,
    AnyRequest,
    Close,
    Done,
    Faulted,
    Final,
    Open,
    Query,
    Refused,
    Reset,
    Unsendable,
    WireError,
    body_size,
    decode_request,
    frame,
)
from .world import AppFault, World

NOTE_SIZE = 1024
CLOSED = "closed"


class Note:
    """What the world's process is at, where its parent can read it after its end."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, NOTE_SIZE)

    def write(self, app: str, hook: str) -> None:
        """Say what runs now."""
        text = f"{app}\0{hook}".encode("utf-8", "replace")[: NOTE_SIZE - 2]
        self._memory[: len(text) + 2] = text + b"\0\0"

    def read(self) -> tuple[str, str]:
        """What ran last: an app and its hook or action; ("", "closed") after a clean end."""
        text = self._memory[:].partition(b"\0\0")[0].decode("utf-8", "replace")
        app, _, hook = text.partition("\0")
        return app, hook

    def close(self) -> None:
        """Give the memory back."""
        self._memory.close()


class Serving:
    """Serves one world over a pair of descriptors; ends the process in the end."""

    def __init__(self, requests: int, answers: int, note: Note, dump: IO[bytes]) -> None:
        self._requests = requests
        self._answers = answers
        self._note = note
        self._dump = dump
        self._pid = os.getpid()
        self._world: World | None = None
        self._source: WorldSource | None = None

    def run(self, first: Open) -> int:
        """Serve to the end: the process's exit code."""
        faulthandler.enable(file=self._dump, all_threads=False)
        request: AnyRequest = first
        while not isinstance(request, Close):
            answer = self._answer(request)
            try:
                data = frame(answer)
            except Unsendable as error:
                app, hook = self._note.read()
                text = f"app {app!r}: what {hook} led to can't be sent: {error}"
                data = frame(Faulted(id=request.id, app=app, hook=hook, message=text))
            write_all(self._answers, data)
            received = read_frame(self._requests)
            if received is None:
                return 0
            request = decode_request(received)
        self._note.write("", CLOSED)
        return 0

    def _answer(self, request: AnyRequest) -> AnyAnswer:
        faulthandler.dump_traceback_later(max(request.deadline, 0.001), exit=True, file=self._dump)
        try:
            return Done(id=request.id, value=msgspec.Raw(msgspec.json.encode(self._do(request))))
        except QueryRefused as error:
            return Refused(id=request.id, message=str(error))
        except AppFault as error:
            text = f"{error}{self._at(error.__cause__)}"
            return Faulted(id=request.id, app=error.app, hook=error.hook, message=text)
        except BaseException as error:  # an app may raise what it likes, SystemExit too
            app, hook = self._note.read()
            who = f"app {app!r}: {hook}" if app else "the environment's code"
            text = f"{who} raised {type(error).__name__}: {error}{self._at(error)}"
            return Faulted(id=request.id, app=app, hook=hook, message=text)
        finally:
            if os.getpid() != self._pid:
                os._exit(0)  # a copy that an app's own fork() made; it has no business here
            faulthandler.cancel_dump_traceback_later()

    def _do(self, request: AnyRequest) -> Any:
        if isinstance(request, Open):
            self._open(request)
            return None
        world = self._world
        if world is None:
            raise WireError(f"{type(request).__name__} before Open")
        match request:
            case Reset():
                return world.reset()
            case Actions():
                return [_sent(spec) for spec in world.actions()]
            case Act():
                return world.act(request.name, request.arguments, request.app)
            case Query():
                return world.query(request.app, request.name, request.arguments)
            case Final():
                return world.final()
            case Close():
                return None

    def _open(self, request: Open) -> None:
        self._source = source = WorldSource(
            name=request.environment,
            folder=Path(request.folder).resolve(),
            root=Path(request.root).resolve(),
            apps=request.apps,
        )
        self._note.write(", ".join(app.name or app.python for app in source.apps), "import")
        environment = load_environment(source)
        self._world = World(environment, request.task, seed=request.seed, entering=self._note.write)
        self._note.write("", "")

    def _at(self, error: BaseException | None) -> str:
        place = None
        if error is not None and self._source is not None:
            place = place_of(error.__traceback__, self._source)
        return f" (at {place})" if place else ""


def _sent(spec: ActionSpec) -> ActionSent:
    try:
        schema = spec.schema()
    except Exception as error:
        raise ConfigError(f"the arguments of {spec.app}.{spec.name} have no schema: {error}") from (
            error
        )
    return ActionSent(
        app=spec.app,
        name=spec.name,
        description=spec.description,
        readonly=spec.readonly,
        parameters=[(parameter.name, parameter.required) for parameter in spec.parameters],
        schema=schema,
    )


def place_of(traceback: TracebackType | None, source: WorldSource) -> str | None:
    """The last place of a traceback that is in the environment's or project's own code."""
    place: str | None = None
    while traceback is not None:
        shown = shown_place(
            traceback.tb_frame.f_code.co_filename, traceback.tb_lineno, source.folder, source.root
        )
        place = shown or place
        traceback = traceback.tb_next
    return place


def shown_place(file: str, line: int, folder: Path, root: Path) -> str | None:
    """``env.py:14`` for a file of the environment's or the project's."""
    for base in (folder, root):
        if Path(file).is_relative_to(base):
            return f"{Path(file).relative_to(base)}:{line}"
    return None


def read_frame(descriptor: int) -> bytes | None:
    """The next frame's body; None at the end. Raises WireError."""
    header = _read(descriptor, HEADER)
    return None if header is None else _read(descriptor, body_size(header))


def _read(descriptor: int, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        piece = os.read(descriptor, min(size - len(data), 1024 * 1024))
        if not piece:
            return None
        data += piece
    return bytes(data)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
