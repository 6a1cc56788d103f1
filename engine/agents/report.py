"""What an agent's program says that it did: JSON lines in a file that it may append to.

The file is the agent's, so anything may lie there. What is reported is marked as such: only what
the engine's own host saw counts as seen.
"""

from __future__ import annotations

import json
import math
import os
import stat
import time
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from anyio import to_thread

from ...events.clock import format_time, parse_time
from ...events.kinds import ActionTaken, TrialEvent, WarningRaised
from ...events.values import without_surrogates
from ..sandbox.protocol import TreeTooLarge
from ..stored import store_json, store_text
from ..trial.folders import AGENT_FOLDER
from .protocol import AgentContext

ACTIONS_FILE = "actions.jsonl"

REPORT_CAP = 16 * 1024 * 1024
"""Bytes of the report that are read."""
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


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A report as events."""

    events: list[TrialEvent]
    turns: int
    """How many actions there are."""


class _Lines(msgspec.Struct, frozen=True, kw_only=True):
    data: bytes = b""
    remark: str | None = None
    """What is missing of it."""
    denied: bool = False
    """It is another user's, and this process may not read it."""


async def report_age(folder: Path) -> float:
    """Seconds since something was last reported; infinite where nothing was."""
    return await to_thread.run_sync(_age, folder / ACTIONS_FILE)


def _age(path: Path) -> float:
    try:
        return max(0.0, time.time() - os.lstat(path).st_ctime)
    except OSError:
        return math.inf


async def read_report(context: AgentContext, *, since: str) -> Report:
    """The report of a phase that is over and began at `since`."""
    lines = await to_thread.run_sync(_read, context.folders.agent_logs)
    if lines.denied:
        lines = await _fetch(context)
    events: list[TrialEvent] = []
    turns = malformed = 0
    remark = lines.remark
    for number, line in enumerate(lines.data.split(b"\n"), 1):
        if not line.strip():
            continue
        if turns >= MOST_ACTIONS:
            remark = f"only the first {MOST_ACTIONS} actions are kept"
            break
        action = _parse(line)
        if isinstance(action, str):
            malformed += 1
            if malformed <= MOST_WARNINGS:
                events.append(_malformed(number, action, line))
            continue
        turns += 1
        events.append(await _taken(action, turns, since, context))
    if malformed > MOST_WARNINGS:
        events.append(
            _warning(
                "agent_report_malformed", f"{malformed} lines of the agent's report are no actions"
            )
        )
    if remark is not None:
        events.append(_warning("agent_report_cut", remark))
    return Report(events=events, turns=turns)


def _read(folder: Path) -> _Lines:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(folder, flags | os.O_DIRECTORY)
    except OSError as error:
        return _Lines(remark=f"the report can't be read: {error.strerror}")
    try:
        status = os.lstat(ACTIONS_FILE, dir_fd=fd)
        if not stat.S_ISREG(status.st_mode):
            return _Lines(remark="the report is no regular file and was not read")
        file = os.open(ACTIONS_FILE, flags | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=fd)
    except FileNotFoundError:
        return _Lines()
    except PermissionError as error:
        return _Lines(denied=True, remark=f"the report can't be read: {error.strerror}")
    except OSError as error:
        return _Lines(remark=f"the report can't be read: {error.strerror}")
    finally:
        os.close(fd)
    return _bounded(file)


async def _fetch(context: AgentContext) -> _Lines:
    """The report, through the sandbox."""
    copy = context.folders.scratch / f".fetched-{ACTIONS_FILE}"
    path = f"{AGENT_FOLDER}/{ACTIONS_FILE}"
    try:
        skipped = await context.sandbox.copy_file(path, copy, cap=REPORT_CAP)
    except TreeTooLarge:
        return _Lines(remark=f"the report is over {REPORT_CAP // 2**20} MiB and can't be read")
    if skipped:
        return _Lines(remark=f"the report can't be read: {skipped[0].reason}")
    return await to_thread.run_sync(_bounded, copy)


def _bounded(file: int | Path) -> _Lines:
    with open(file, "rb") as report:
        data = report.read(REPORT_CAP + 1)
    if len(data) <= REPORT_CAP:
        return _Lines(data=data)
    whole = data[:REPORT_CAP].rpartition(b"\n")[0]
    return _Lines(
        data=whole, remark=f"only the first {REPORT_CAP // 2**20} MiB of the report are kept"
    )


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
