"""What an agent's program says that it did: JSON lines in a file that it may append to.

What is reported is marked as such: only what the engine's own host saw counts as seen.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import anyio
import msgspec
from anyio import to_thread

from ...events.clock import format_time, parse_time
from ...events.kinds import ActionTaken, WarningRaised
from ...events.values import without_surrogates
from ..sandbox.protocol import TreeTooLarge
from ..stored import store_json, store_text
from ..trial.folders import AGENT_FOLDER
from .protocol import AgentContext
from .report_file import ACTIONS_FILE, Piece, read_piece

REPORT_CAP = 16 * 1024 * 1024
"""Bytes of the report that are read."""
LOOK_SEC = 0.25
PIECE = 1024 * 1024
"""Bytes that are read at one look."""
MOST_ACTIONS = 10_000
MOST_WARNINGS = 20
"""Malformed lines that are named one by one."""
_EXCERPT = 500

_Code: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**32)]
_Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class ReportedAction(msgspec.Struct, frozen=True, kw_only=True):
    """One line: a command that the program ran. Other keys are passed over."""

    command: str | list[str]
    output: str | None = None
    exit_code: _Code | None = None
    duration_sec: _Seconds = 0.0
    started_at: str | None = None
    """RFC 3339; the start of the agent's phase where it is left out."""
    id: str | None = None
    """The tool-call id; ``shell-N`` where it is left out."""
    error: str | None = None


async def report_age(folder: Path) -> float:
    """Seconds since something was last reported; infinite where nothing was."""
    return await to_thread.run_sync(_age, folder / ACTIONS_FILE)


def _age(path: Path) -> float:
    try:
        return max(0.0, time.time() - os.lstat(path).st_ctime)
    except OSError:
        return math.inf


class Following:
    """Puts into the log what a program reports, while it works and once it has ended.

    What is there is read from the first byte on, once: what was emitted stands, whatever the agent
    does to the file afterwards.
    """

    def __init__(self, context: AgentContext, *, since: str) -> None:
        self._context = context
        self._folder = context.folders.agent_logs
        self._since = since
        """When the phase began."""
        self.turns = 0
        """How many actions there were."""
        self._taken = 0
        """Bytes; all of whole lines."""
        self._digest = hashlib.sha256()
        """Over those bytes."""
        self._lines = 0
        self._malformed = 0
        self._full = False

    async def follow(self) -> None:
        """Emit each step as it is reported, until cancelled."""
        while True:
            await anyio.sleep(LOOK_SEC)
            await self._look()

    async def catch_up(self) -> None:
        """Emit the whole lines that are there by now, for a phase that was cut off."""
        before = -1
        while before != self._taken:
            before = self._taken
            await self._look()

    async def finish(self) -> None:
        """The phase is over: emit the rest, and say what of the report could not be used."""
        piece = await to_thread.run_sync(read_piece, self._folder, 0, REPORT_CAP + 1)
        if piece.denied:
            piece = await self._fetch()
        remark, data = piece.remark, piece.data
        if len(data) > REPORT_CAP:
            data = data[: data.rfind(b"\n", 0, REPORT_CAP) + 1]
            remark = f"only the first {REPORT_CAP // 2**20} MiB of the report are kept"
        if piece.remark is None:
            if await to_thread.run_sync(self._begins_as_read, data):
                await self._take(data[self._taken :])
            else:
                remark = (
                    f"the report was changed after its first {self._lines} lines had been read; "
                    "they stand, and the rest was not read"
                )
        if self._malformed > MOST_WARNINGS:
            total = f"{self._malformed} lines of the agent's report are no actions"
            self._context.emit(_warning("agent_report_malformed", total))
        if self._full:
            remark = f"only the first {MOST_ACTIONS} actions are kept"
        if remark is not None:
            self._context.emit(_warning("agent_report_cut", remark))

    async def _look(self) -> None:
        """Emit the whole lines that came since the last look, or some of them."""
        most = min(PIECE, REPORT_CAP - self._taken)
        if self._full or most <= 0:
            return
        piece = Piece()
        with suppress(OSError):  # `finish` will tell
            piece = await to_thread.run_sync(read_piece, self._folder, self._taken, most)
        await self._take(piece.data[: piece.data.rfind(b"\n") + 1])

    def _begins_as_read(self, data: bytes) -> bool:
        return hashlib.sha256(data[: self._taken]).digest() == self._digest.digest()

    async def _take(self, data: bytes) -> None:
        """Emit lines. What was emitted and what was read stay in step if this is cancelled."""
        for line in io.BytesIO(data):
            await anyio.lowlevel.checkpoint()
            if line.strip():
                if self.turns >= MOST_ACTIONS:
                    self._full = True
                    return
                text = line.removesuffix(b"\n")
                action = _parse(text)
                if isinstance(action, str):
                    self._malformed += 1
                    if self._malformed <= MOST_WARNINGS:
                        self._context.emit(_malformed(self._lines + 1, action, text))
                else:
                    step = await _taken(action, self.turns + 1, self._since, self._context)
                    self.turns += 1
                    self._context.emit(step)
            self._lines += 1
            self._taken += len(line)
            self._digest.update(line)

    async def _fetch(self) -> Piece:
        """The report, through the sandbox."""
        copy = self._context.folders.scratch / f".fetched-{ACTIONS_FILE}"
        path = f"{AGENT_FOLDER}/{ACTIONS_FILE}"
        try:
            skipped = await self._context.sandbox.copy_file(path, copy, cap=REPORT_CAP)
        except TreeTooLarge:
            return Piece(remark=f"the report is over {REPORT_CAP // 2**20} MiB and can't be read")
        if skipped:
            return Piece(remark=f"the report can't be read: {skipped[0].reason}")
        return Piece(data=await to_thread.run_sync(copy.read_bytes))


def _parse(line: bytes) -> ReportedAction | str:
    """The action, or what is wrong with the line."""
    try:
        value: Any = json.loads(
            line.decode("utf-8", "surrogateescape"), parse_constant=_no_constant
        )
        action = msgspec.convert(value, ReportedAction)
    except msgspec.ValidationError as error:
        return str(error)
    except RecursionError:
        return "nested too deeply"
    except json.JSONDecodeError as error:
        return f"not JSON: {error.msg}"
    except ValueError:
        return "not JSON: NaN, or a number of too many digits"
    if action.started_at is not None and _time(action.started_at) is None:
        return f"started_at is no time with a zone: {action.started_at[:40]!r}"
    return action


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _time(text: str) -> str | None:
    try:
        zone = datetime.fromisoformat(text).tzinfo
        return None if zone is None else format_time(parse_time(text))
    except (ValueError, OverflowError, OSError):
        return None


async def _taken(
    action: ReportedAction, turn: int, since: str, context: AgentContext
) -> ActionTaken:
    blobs = context.blobs
    command = [action.command] if isinstance(action.command, str) else action.command
    clean = [without_surrogates(word)[0] for word in command]
    output, raw = (None, None)
    if action.output is not None:
        output, raw = without_surrogates(action.output)
    return ActionTaken(
        turn=turn,
        tool_call=without_surrogates(action.id)[0][:200] if action.id else f"shell-{turn}",
        app="shell",
        action="run",
        arguments=await store_json(
            {"command": clean[0] if isinstance(action.command, str) else clean}, blobs
        ),
        observation=await store_json({"output": output, "exit_code": action.exit_code}, blobs),
        error=None
        if action.error is None
        else await store_text(without_surrogates(action.error)[0], blobs),
        raw=None if raw is None else await blobs.put(raw),
        started_at=(_time(action.started_at) if action.started_at else None) or since,
        duration=round(action.duration_sec, 6),
        observed_by="agent",
    )


def _malformed(number: int, why: str, line: bytes) -> WarningRaised:
    more = f"… ({len(line)} bytes)" if len(line) > _EXCERPT else ""
    excerpt = line[:_EXCERPT].decode("utf-8", "replace")
    return _warning(
        "agent_report_malformed", f"the agent's report, line {number}: {why}: {excerpt}{more}"
    )


def _warning(code: str, message: str) -> WarningRaised:
    clean = without_surrogates(message)[0]
    return WarningRaised(code=code, message=clean, path=f"{AGENT_FOLDER}/{ACTIONS_FILE}")
