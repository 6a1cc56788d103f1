"""The container engine's HTTP API, as far as sandboxes need it. The one place that knows aiodocker.

Calls raise EngineRefused with the engine's own answer, or EngineLost when it does not answer.
"""

from __future__ import annotations

import base64
import json
import os
import re
import stat
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Mapping,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, NamedTuple

import aiodocker
import aiohttp
import anyio
from aiodocker.exceptions import DockerError
from aiodocker.execs import Exec
from aiodocker.stream import Stream
from anyio import to_thread
from yarl import URL

from ...errors import SandboxError, SandboxGone, SandboxUnavailable
from .finding import find_engine

CHUNK = 256 * 1024

_NO_TIMEOUT = aiohttp.ClientTimeout(total=None)
"""Deadlines are the callers'."""

_GO_KINDS = {1 << 31: stat.S_IFDIR, 1 << 27: stat.S_IFLNK}
_GO_OTHER = 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19
"""Devices, pipes, sockets, and what the engine itself does not know."""


class EngineRefused(SandboxError):
    """The engine answered a call with an error."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.message = message.strip()
        super().__init__(f"the container engine says ({status}): {self.message}")

    @property
    def link_circle(self) -> bool:
        """Whether it failed because the path's links lead in a circle."""
        return re.search(r"too many (levels of symbolic )?links", self.message) is not None


class EngineLost(SandboxGone):
    """The engine does not answer any more."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the container engine does not answer: {reason}")


class PathStat(NamedTuple):
    """What the engine says of a path in a container; the last component is not followed."""

    kind: int
    """S_IFREG, S_IFDIR, S_IFLNK, or 0 for anything else."""
    size: int
    target: str


class Output:
    """What a process in a container prints, as it comes."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def open(self) -> None:
        """Connect to it."""
        with _translated():
            await self._stream.__aenter__()

    async def read(self) -> bytes | None:
        """The next bytes; None at the end."""
        with _translated():
            message = await self._stream.read_out()
        return None if message is None else message.data

    async def close(self) -> None:
        """Give the connection back."""
        with suppress(AssertionError):  # how the library says that the engine closed it first
            await self._stream.close()


class Terminal(Output):
    """A program on a terminal in a container: what it prints, and what is typed."""

    def __init__(self, engine: Engine, exec_: Exec) -> None:
        super().__init__(exec_.start())
        self._engine = engine
        self._exec = exec_

    async def write(self, data: bytes) -> None:
        """Type."""
        with _translated():
            await self._stream.write_in(data)

    async def resize(self, lines: int, columns: int) -> None:
        """Tell it the terminal's size."""
        with suppress(DockerError):  # it has ended meanwhile
            await self._exec.resize(h=lines, w=columns)

    async def exit_code(self) -> int:
        """Its exit code, once its output has ended."""
        code = await self._engine.exec_code(self._exec.id)
        return 1 if code is None else code


class Pipes(Output):
    """A container's standard input, output and error output, each apart."""

    async def write(self, data: bytes) -> None:
        """Send to its standard input."""
        with _translated():
            await self._stream.write_in(data)

    async def read_part(self) -> tuple[int, bytes] | None:
        """The next bytes, after 1 for output or 2 for error output; None at the end."""
        with _translated():
            message = await self._stream.read_out()
        return None if message is None else (message.stream, message.data)


class Engine:
    """A connection to a container engine."""

    def __init__(self, docker: aiodocker.Docker, version: Mapping[str, Any]) -> None:
        self._docker = docker
        self.version = version
        components: list[dict[str, Any]] = version.get("Components") or []
        self.is_podman = any("podman" in str(one.get("Name", "")).lower() for one in components)
        self._info: dict[str, Any] | None = None

    @classmethod
    async def connect(cls, *, deadline: float = 2.0) -> Engine:
        """Find the engine and ask for its version.

        It is found as the Docker command line finds it: DOCKER_HOST, else the current context,
        else the usual sockets. Raises SandboxUnavailable, also after `deadline` seconds.
        """
        place = await to_thread.run_sync(find_engine)
        docker = _client(place)
        try:
            with anyio.fail_after(deadline):
                version = await docker.version()
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                await _close(docker)
            if isinstance(error, TimeoutError):
                raise SandboxUnavailable(
                    f"no container engine answers at {place} within {deadline:g} s"
                ) from error
            if isinstance(error, DockerError | aiohttp.ClientError | OSError | ValueError):
                raise SandboxUnavailable(
                    f"no container engine answers at {place}: {_reason(error)}"
                ) from error
            raise
        return cls(docker, version)

    async def aclose(self) -> None:
        """Give the connections back."""
        await _close(self._docker)

    @asynccontextmanager
    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        data: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """One call; its answer may still be streaming in."""
        docker = self._docker
        # The library's own methods read whole answers into memory, or ask twice.
        with _translated():
            async with docker.session.request(
                method,
                URL(f"{docker.docker_host}/{docker.api_version}/{path}"),
                params=params,
                data=json.dumps(data) if isinstance(data, dict) else data,
                headers={"Content-Type": "application/json", **(headers or {})},
                timeout=_NO_TIMEOUT,
            ) as response:
                if response.status >= 400:
                    raise EngineRefused(response.status, _message(await response.read()))
                try:
                    yield response
                except BaseException:
                    response.close()  # what is still to come is not waited for
                    raise

    async def json(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        data: Any = None,
    ) -> Any:
        """One call and its answer, null when there is none."""
        async with self.call(method, path, params=params, data=data) as response:
            body = await response.read()
        return json.loads(body) if body.strip() else None

    async def info(self) -> dict[str, Any]:
        """What the engine says of its machine; asked once."""
        info = self._info
        if info is None:
            info = self._info = await self.json("GET", "info")
        assert info is not None
        return info

    async def create(self, name: str, config: Mapping[str, Any]) -> tuple[str, list[str]]:
        """Make a container: its id, and what the engine warns of."""
        made = await self.json(
            "POST", "containers/create", params={"name": name}, data=dict(config)
        )
        return made["Id"], made.get("Warnings") or []

    async def start(self, container: str) -> None:
        """Start a container. Returns when its first process runs."""
        async with self.call("POST", f"containers/{container}/start"):
            pass

    async def pause(self, container: str) -> None:
        """Let nothing in a running container go on."""
        async with self.call("POST", f"containers/{container}/pause"):
            pass

    async def unpause(self, container: str) -> None:
        """Let it go on."""
        async with self.call("POST", f"containers/{container}/unpause"):
            pass

    async def kill(self, container: str) -> bool:
        """Kill all in a container; false when it does not run."""
        try:
            async with self.call("POST", f"containers/{container}/kill"):
                return True
        except EngineRefused as error:
            if error.status == 409 or "is not running" in error.message:
                return False
            raise

    async def remove(self, container: str) -> None:
        """Kill and remove a container with its anonymous volumes; one that is gone is fine."""
        try:
            async with self.call(
                "DELETE", f"containers/{container}", params={"force": 1, "v": 1}
            ) as response:
                await response.read()
        except EngineRefused as error:
            if error.status == 404:
                return
            if error.status != 409:
                raise
            await self._removed(container)  # somebody else is at it

    async def _removed(self, container: str) -> None:
        try:
            await self.json("POST", f"containers/{container}/wait", params={"condition": "removed"})
        except EngineRefused as error:
            if error.status != 404:
                raise

    async def inspect(self, container: str) -> dict[str, Any]:
        """All that the engine knows of a container."""
        found: dict[str, Any] = await self.json("GET", f"containers/{container}/json")
        return found

    async def remove_volume(self, name: str) -> None:
        """Remove a volume; one that is gone is fine."""
        await self._delete(f"volumes/{name}")

    async def remove_network(self, ident: str) -> None:
        """Remove a network; one that is gone is fine."""
        await self._delete(f"networks/{ident}")

    async def _delete(self, path: str) -> None:
        try:
            async with self.call("DELETE", path):
                pass
        except EngineRefused as error:
            if error.status != 404:
                raise

    async def labelled(self, kind: str, label: str) -> list[dict[str, Any]]:
        """Containers (running or not), networks or volumes that carry a label."""
        params: dict[str, str | int] = {"filters": json.dumps({"label": [label]})}
        if kind == "containers":
            params["all"] = 1
        path = "containers/json" if kind == "containers" else kind
        found = await self.json("GET", path, params=params)
        listed: list[dict[str, Any]] = (found.get("Volumes") if kind == "volumes" else found) or []
        return listed

    @asynccontextmanager
    async def next_exit(self, container: str) -> AsyncGenerator[Callable[[], Awaitable[int]]]:
        """Register for a container's next exit, before it is started; gives the exit code."""
        async with self.call(
            "POST", f"containers/{container}/wait", params={"condition": "next-exit"}
        ) as response:

            async def code() -> int:
                with _translated():
                    body = await response.read()
                try:
                    return int(json.loads(body)["StatusCode"])
                except (ValueError, KeyError, TypeError) as error:
                    raise EngineLost("it ended while a container ran") from error

            yield code

    def attach(self, container: str) -> Output:
        """A container's output, from its next start on."""
        return self._output(f"containers/{container}/attach?stream=1&stdout=1", None)

    def attach_pipes(self, container: str) -> Pipes:
        """A container's input and outputs, from its next start on."""
        path = f"containers/{container}/attach?stream=1&stdin=1&stdout=1&stderr=1"
        return Pipes(self._stream(path, None))

    async def exec(self, container: str, argv: list[str], user: str | None) -> str:
        """Make ready to run a program in a running container: the id for `exec_output`."""
        request = {"Cmd": argv, "User": user or "", "AttachStdout": True, "AttachStderr": True}
        made = await self.json("POST", f"containers/{container}/exec", data=request)
        return str(made["Id"])

    def exec_output(self, ident: str) -> Output:
        """Start what `exec` made ready, and its output."""
        return self._output(f"exec/{ident}/start", b'{"Detach": false, "Tty": false}')

    async def exec_on_terminal(self, container: str, argv: list[str], workdir: str) -> Terminal:
        """Make ready to run a program in a running container on a terminal."""
        request = {
            "Cmd": argv,
            "WorkingDir": workdir,
            "Env": ["TERM=xterm"],
            "Tty": True,
            "AttachStdin": True,
            "AttachStdout": True,
            "AttachStderr": True,
        }
        made = await self.json("POST", f"containers/{container}/exec", data=request)
        return Terminal(self, Exec(self._docker, str(made["Id"]), tty=True))

    async def exec_code(self, ident: str) -> int | None:
        """Exit code of a program that `exec` ran; None while it runs."""
        code = (await self.json("GET", f"exec/{ident}/json"))["ExitCode"]
        return None if code is None else int(code)

    def _output(self, path: str, body: bytes | None) -> Output:
        return Output(self._stream(path, body))

    def _stream(self, path: str, body: bytes | None) -> Stream:
        async def setup() -> tuple[URL, bytes | None, bool]:
            return URL(path), body, False

        return Stream(self._docker, setup)

    async def last_lines(self, container: str, lines: int) -> str:
        """The end of a container's log, where it has one."""
        try:
            async with self.call(
                "GET",
                f"containers/{container}/logs",
                params={"stdout": 1, "stderr": 1, "tail": lines},
            ) as response:
                frames = await response.read()
        except EngineRefused:
            return ""
        text = bytearray()
        while len(frames) >= 8:
            size = int.from_bytes(frames[4:8], "big")
            text += frames[8 : 8 + size]
            frames = frames[8 + size :]
        return text.decode("utf-8", "replace").strip()

    async def processes(self, container: str) -> list[tuple[int, int, str]]:
        """Ids, parents' ids (as the machine has them) and names of what runs in a container."""
        try:
            listed = await self.json(
                "GET", f"containers/{container}/top", params={"ps_args": "-eo pid,ppid,comm"}
            )
        except EngineRefused:  # it has ended meanwhile
            return []
        rows: list[list[str]] = listed.get("Processes") or []
        return [(int(row[0]), int(row[1]), " ".join(row[2:])) for row in rows]

    async def stat(self, container: str, path: str) -> PathStat | None:
        """What is at a path in a container; None when nothing is."""
        try:
            async with self.call(
                "HEAD", f"containers/{container}/archive", params={"path": path}
            ) as response:
                header = response.headers["X-Docker-Container-Path-Stat"]
        except EngineRefused as error:
            if error.status == 500 and await self._is_link_circle(container, path):
                return PathStat(stat.S_IFLNK, 0, "")
            if error.status != 404:
                raise
            await self.inspect(container)  # such an answer has no text: is the container gone?
            return None
        found = json.loads(base64.b64decode(header))
        mode = int(found["mode"])
        kind = next((kind for bit, kind in _GO_KINDS.items() if mode & bit), None)
        if kind is None:
            kind = 0 if mode & _GO_OTHER else stat.S_IFREG
        return PathStat(kind, int(found["size"]), found.get("linkTarget") or "")

    async def _is_link_circle(self, container: str, path: str) -> bool:
        # The answer about a path has no text that would say so; the one with its bytes has.
        try:
            async with self.read_tree(container, path):
                return False
        except EngineRefused as error:
            return error.link_circle

    @asynccontextmanager
    async def read_tree(self, container: str, path: str) -> AsyncGenerator[AsyncIterator[bytes]]:
        """A path of a container as an uncompressed tar."""
        async with self.call(
            "GET", f"containers/{container}/archive", params={"path": path}
        ) as response:
            yield response.content.iter_chunked(CHUNK)

    async def write_tree(
        self, container: str, path: str, tar: AsyncIterator[bytes] | bytes
    ) -> None:
        """Unpack a tar into a folder of a container."""
        async with self.call(
            "PUT",
            f"containers/{container}/archive",
            params={"path": path},
            data=tar,
            headers={"Content-Type": "application/x-tar"},
        ):
            pass


def is_gone(error: EngineRefused) -> bool:
    """Whether the engine says that it has no such container (any more)."""
    return (
        error.status == 404 and "no such container" in error.message.lower()
    ) or "marked for removal" in error.message


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode("utf-8", "replace")


def _reason(error: BaseException) -> str:
    """Why a call failed, in the operating system's words where it is at fault."""
    cause: BaseException | None = error
    while cause is not None:
        found = getattr(cause, "os_error", cause)
        if isinstance(found, OSError) and found.errno:
            return os.strerror(found.errno)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, DockerError):
        return str(error.message)
    return str(error) or type(error).__name__


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except DockerError as error:
        if error.status == 900:
            raise EngineLost(_reason(error)) from error
        raise EngineRefused(error.status, error.message) from error
    except (aiohttp.ClientError, aiohttp.EofStream, ConnectionError) as error:
        raise EngineLost(_reason(error)) from error


def _client(place: str) -> aiodocker.Docker:
    try:
        if not place.startswith("unix://"):
            return aiodocker.Docker(place)
        # No limit: each running trial holds two connections open.
        connector = aiohttp.UnixConnector(place.removeprefix("unix://"), limit=0)
        return aiodocker.Docker("unix://localhost", connector=connector)
    except (ValueError, ImportError, DockerError) as error:
        raise SandboxUnavailable(f"{place!r} is no place of a container engine: {error}") from error


async def _close(docker: aiodocker.Docker) -> None:
    await docker.close()
    await docker.connector.close()  # it does not close what it was given
