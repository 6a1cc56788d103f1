"""What an agent may ask of its client: permission, files and terminals, all inside its sandbox."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup

from ....events.values import Json, valid_text
from .forms import RequestError, ValidationError, schema
from .inside import Inside, Running
from .updates import Chronicle, problem

FILE_CAP = 16 * 1024 * 1024
"""Bytes of a file that an agent reads."""

FILE_SEC = 60.0
"""For reading or writing one."""

MOST_TERMINALS = 32
"""Terminals of one agent at once."""

TERMINAL_CAP = 1024 * 1024
"""Bytes of a terminal's output that are kept, where the agent asks for no less."""

STOPPING_SEC = 10.0

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NO_FILE = 66
_PERMITTED = ("allow_once", "allow_always", "reject_once", "reject_always")
"""What is chosen of what an agent offers: the first of these."""

_M = TypeVar("_M", bound=schema.BaseModel)


class _Terminal:
    """A command that the agent has run."""

    def __init__(self, request: schema.CreateTerminalRequest, cap: int) -> None:
        self.request = request
        self.printed = _Tail(cap)
        self.running: Running | None = None
        self.told = anyio.Event()
        """Its step is in the log."""


class Services:
    """Answers one agent's requests. Everything that it has done runs in its sandbox, as it."""

    def __init__(
        self,
        inside: Inside,
        chronicle: Chronicle,
        group: TaskGroup,
        *,
        workspace: str,
        printed: Callable[[bytes], None],
    ) -> None:
        """`printed` is told what terminals print, as it comes."""
        self._inside, self._chronicle, self._group = inside, chronicle, group
        self._workspace = workspace
        self._printed = printed
        self._terminals: dict[str, _Terminal] = {}
        self._made = 0
        self.session: str | None = None
        self.crash: Exception | None = None
        """What the engine could not do; the conversation was ended for it."""

    async def handle(self, method: str, params: Any, is_notification: bool) -> Any:
        """Answer a request: the answer's form. Raises RequestError."""
        ways: dict[str, Callable[[Any], Awaitable[Any]]] = {
            "session/request_permission": self._permit,
            "fs/read_text_file": self._read,
            "fs/write_text_file": self._write,
            "terminal/create": self._create,
            "terminal/output": self._output,
            "terminal/wait_for_exit": self._wait,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
        }
        way = ways.get(method)
        if way is None:
            raise RequestError.method_not_found(method)
        try:
            answer = await way(params)
        except (ValidationError, RecursionError) as error:
            raise RequestError(-32602, problem(error)) from None
        except RequestError:
            raise
        except Exception as error:  # the engine's own fault: it is raised where it can be heard
            self.crash = self.crash or error
            self._inside.agent_out.finish()
            raise RequestError.internal_error() from None
        return answer.model_dump(mode="json", by_alias=True, exclude_none=True)

    def _checked(self, form: type[_M], params: Any) -> _M:
        request = form.model_validate(params)
        if self.session is not None and getattr(request, "session_id", None) != self.session:
            raise RequestError(-32602, "sessionId: there is no such session")
        return request

    # Permission

    async def _permit(self, params: Any) -> schema.RequestPermissionResponse:
        request = self._checked(schema.RequestPermissionRequest, params)
        since = self._chronicle.now()
        offered = sorted(request.options, key=lambda option: _PERMITTED.index(option.kind))
        call = request.tool_call
        asked: dict[str, Json] = {
            "tool_call": call.tool_call_id,
            "title": call.title or self._chronicle.title(call.tool_call_id),
            "options": [f"{option.kind}: {option.name}" for option in request.options],
        }
        if not offered:
            await self._chronicle.did(
                "session", "permission", asked, since=since, error="no option was offered"
            )
            return schema.RequestPermissionResponse(
                outcome=schema.DeniedOutcome(outcome="cancelled")
            )
        chosen = offered[0]
        await self._chronicle.did(
            "session", "permission", asked, since=since, observation={"chosen": chosen.kind}
        )
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        )

    # Files

    async def _read(self, params: Any) -> schema.ReadTextFileResponse:
        request = self._checked(schema.ReadTextFileRequest, params)
        path = _absolute(request.path)
        since = self._chronicle.now()
        asked: dict[str, Json] = {"path": path}
        if request.line is not None:
            asked["line"] = request.line
        if request.limit is not None:
            asked["limit"] = request.limit
        quoted = shlex.quote(path)
        script = f"[ -f {quoted} ] || exit {_NO_FILE}\nexec cat -- {quoted}\n"
        printed = _Tail(FILE_CAP)
        error = await self._aside(script, b"", printed)
        text, invalid = valid_text(printed.data)
        if error is None and printed.cut:
            error = f"{path} is over {FILE_CAP // 2**20} MiB"
        elif error is None and invalid:
            error = f"{path} is no UTF-8 text"
        if error is not None:
            error = f"there is no file {path}" if error == str(_NO_FILE) else error
            await self._chronicle.did("files", "read", asked, since=since, error=error)
            raise RequestError(-32002, error)
        text = _lines(text, request.line, request.limit)
        await self._chronicle.did("files", "read", asked, since=since, observation=text)
        return schema.ReadTextFileResponse(content=text)

    async def _write(self, params: Any) -> schema.WriteTextFileResponse:
        request = self._checked(schema.WriteTextFileRequest, params)
        path = _absolute(request.path)
        since = self._chronicle.now()
        folder, quoted = shlex.quote(path.rpartition("/")[0] or "/"), shlex.quote(path)
        script = f"mkdir -p -- {folder} && cat > {quoted}\n"
        data = request.content.encode("utf-8", "replace")
        error = await self._aside(script, data, _Tail(1000))
        asked: dict[str, Json] = {"path": path, "content": request.content}
        await self._chronicle.did("files", "write", asked, since=since, error=error)
        if error is not None:
            raise RequestError(-32603, error)
        return schema.WriteTextFileResponse()

    async def _aside(self, script: str, stdin: bytes, printed: _Tail) -> str | None:
        """Run a script to its end; what went wrong: its words, or its exit code."""
        running = await self._inside.run(self._group, script, stdin, printed.take)
        if running is None:
            return "no more commands can be run"
        with anyio.move_on_after(FILE_SEC) as deadline:
            await running.over.wait()
        if deadline.cancelled_caught:
            self._inside.stop(running)
            return f"it took over {FILE_SEC:g} s"
        if running.code == 0:
            return None
        if running.code == _NO_FILE:
            return str(_NO_FILE)
        return printed.text.strip() or f"exit code {running.code}"

    # Terminals

    async def _create(self, params: Any) -> schema.CreateTerminalResponse:
        request = self._checked(schema.CreateTerminalRequest, params)
        if len(self._terminals) >= MOST_TERMINALS:
            raise RequestError(-32603, f"there are {MOST_TERMINALS} terminals; release some")
        script = _script(request, self._workspace)
        asked = TERMINAL_CAP if request.output_byte_limit is None else request.output_byte_limit
        terminal = _Terminal(request, min(asked, TERMINAL_CAP))
        since = self._chronicle.now()
        self._printed(f"$ {_command_line(request)}\n".encode("utf-8", "replace"))

        def take(data: bytes) -> None:
            terminal.printed.take(data)
            self._chronicle.heard()
            self._printed(data)

        terminal.running = await self._inside.run(self._group, script, b"", take)
        if terminal.running is None:
            raise RequestError(-32603, "no more commands can be run")
        self._made += 1
        name = f"terminal-{self._made}"
        self._terminals[name] = terminal
        self._group.start_soon(self._follow, terminal, terminal.running, since)
        return schema.CreateTerminalResponse(terminal_id=name)

    async def _follow(
        self, terminal: _Terminal, running: Running, since: tuple[str, float]
    ) -> None:
        """Make a step of a command, once it has ended."""
        with anyio.CancelScope(shield=True):  # it had begun, so it is told
            try:
                await running.over.wait()
                await self._ran(terminal, running, since)
            finally:
                terminal.told.set()

    async def _ran(self, terminal: _Terminal, running: Running, since: tuple[str, float]) -> None:
        request, printed = terminal.request, terminal.printed
        observation: dict[str, Json] = {"output": printed.text, "exit_code": running.code}
        if printed.cut:
            observation["output_bytes"] = printed.total
        error = None if running.code is not None else "the command was still running at the end"
        arguments: dict[str, Json] = {"command": _command_line(request)}
        if request.cwd is not None:
            arguments["cwd"] = request.cwd
        await self._chronicle.did(
            "shell", "run", arguments, since=since, observation=observation, error=error,
            raw=printed.data if printed.invalid else None,
        )  # fmt: skip

    async def settled(self) -> None:
        """Wait until every command's step is in the log; nothing runs any more."""
        for terminal in list(self._terminals.values()):
            await terminal.told.wait()

    async def _output(self, params: Any) -> schema.TerminalOutputResponse:
        terminal, running = self._of(schema.TerminalOutputRequest, params)
        return schema.TerminalOutputResponse(
            output=terminal.printed.text,
            truncated=terminal.printed.cut,
            exit_status=schema.TerminalExitStatus(**_exit(running))
            if running.over.is_set()
            else None,
        )

    async def _wait(self, params: Any) -> schema.WaitForTerminalExitResponse:
        _, running = self._of(schema.WaitForTerminalExitRequest, params)
        await running.over.wait()
        return schema.WaitForTerminalExitResponse(**_exit(running))

    async def _kill(self, params: Any) -> schema.KillTerminalResponse:
        _, running = self._of(schema.KillTerminalRequest, params)
        await self._end(running)
        return schema.KillTerminalResponse()

    async def _release(self, params: Any) -> schema.ReleaseTerminalResponse:
        request = self._checked(schema.ReleaseTerminalRequest, params)
        terminal, running = self._of(schema.ReleaseTerminalRequest, params)
        await self._end(running)
        with anyio.move_on_after(STOPPING_SEC):
            await terminal.told.wait()
        self._terminals.pop(request.terminal_id, None)
        return schema.ReleaseTerminalResponse()

    async def _end(self, running: Running) -> None:
        if not running.over.is_set():
            self._inside.stop(running)
            with anyio.move_on_after(STOPPING_SEC):
                await running.over.wait()

    def _of(self, form: type[Any], params: Any) -> tuple[_Terminal, Running]:
        request = self._checked(form, params)
        terminal = self._terminals.get(request.terminal_id)
        if terminal is None or terminal.running is None:
            raise RequestError(-32002, f"there is no terminal {request.terminal_id!r}")
        return terminal, terminal.running


class _Tail:
    """The end of what something prints."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._data = bytearray()
        self.total = 0

    def take(self, data: bytes) -> None:
        self.total += len(data)
        self._data += data
        if len(self._data) > 2 * self._cap + 1024:
            del self._data[: len(self._data) - self._cap]

    @property
    def cut(self) -> bool:
        """Something of it is gone."""
        return self.total > self._cap

    @property
    def data(self) -> bytes:
        """What is kept, from the first whole character on."""
        kept = bytes(self._data[max(0, len(self._data) - self._cap) :]) if self._cap else b""
        start = 0
        while self.cut and start < min(3, len(kept)) and kept[start] & 0xC0 == 0x80:
            start += 1
        return kept[start:]

    @property
    def text(self) -> str:
        return valid_text(self.data)[0]

    @property
    def invalid(self) -> bool:
        return valid_text(self.data)[1]


def _exit(running: Running) -> dict[str, Any]:
    code = running.code
    if code is None:
        return {"signal": "SIGKILL"}
    if code > 128:
        try:
            return {"signal": signal.Signals(code - 128).name}
        except ValueError:
            pass
    return {"exit_code": code}


def _command_line(request: schema.CreateTerminalRequest) -> str:
    """A command alone is a line for a shell; one with words beside it is a program."""
    if not request.args:
        return request.command
    return shlex.join([request.command, *request.args])


def _script(request: schema.CreateTerminalRequest, workspace: str) -> str:
    cwd = workspace if request.cwd is None else _absolute(request.cwd)
    lines = [f"cd -- {shlex.quote(cwd)} || exit 126"]
    for variable in request.env or ():
        if not _NAME.fullmatch(variable.name) or "\0" in variable.value:
            raise RequestError(-32602, f"env: {variable.name!r} can't be set")
        lines.append(f"export {variable.name}={shlex.quote(variable.value)}")
    if "\0" in _command_line(request):
        raise RequestError(-32602, "command: it has a NUL")
    return "\n".join([*lines, _command_line(request)]) + "\n"


def _absolute(path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise RequestError(-32602, f"expected an absolute path, found {path!r}")
    return path


def _lines(text: str, line: int | None, limit: int | None) -> str:
    """Some lines of a text, counted from 1."""
    if line is None and limit is None:
        return text
    lines = text.splitlines(keepends=True)
    first = max((line or 1) - 1, 0)
    return "".join(lines[first:] if limit is None else lines[first : first + limit])
