"""What a trial's agent or verifier printed: while it runs from a file, afterwards from the log."""

from __future__ import annotations

import codecs
from pathlib import Path

import anyio
from anyio import to_thread

from ...events.codec import decode_known
from ...events.kinds import (
    AgentFailed,
    AgentFinished,
    AgentStarted,
    Event,
    RegradeFailed,
    RegradeScored,
    SandboxStarted,
    TrialAbandoned,
    TrialFinished,
    TrialInterrupted,
    TrialStarted,
    VerifierFailed,
    VerifierScored,
    VerifierStarted,
)
from ...events.kinds.parts import Install, Output
from ...events.log import EventLog
from ..errors import ConfigError
from ..location import NotFound
from .session import Request, Session, opened
from .text import escaped

__all__ = ("printed", "recorded_output", "show_output")

_LOOK_SEC = 0.1
_AGENTS = (AgentStarted, (AgentFinished, AgentFailed), ("agent", "sandbox"))
_VERIFIERS = (VerifierStarted, (VerifierScored, VerifierFailed), ("verifying",))
"""A phase's first event, its last ones, and the stages at which it may be cut off: an agent that
is being installed has not started."""
_INSTALLING = ("agent_install_failed", "agent_install_timeout")
_CHUNK = 64 * 1024


async def show_output(
    request: Request,
    trial: str,
    *,
    verifier: bool,
    follow: bool,
    regrade: bool = False,
    install: bool = False,
) -> int:
    """``trialog logs``; gives the exit code."""
    request.terminal.streaming = True
    if install and (verifier or follow or regrade):
        raise ConfigError("--install goes with none of --verifier, --follow and --regrade")
    if regrade and follow:
        raise ConfigError("a regrade's output is there at its end; leave out --follow")
    async with opened(request, trial) as session:
        name = await session.trial(trial)
        if regrade:
            await _show_regrade(session, name)
            return 0
        if install:
            await _show_install(session, name)
            return 0
        if follow:
            await _follow(session, name, verifier=verifier)
            return 0
        output = await recorded_output(session.log, name, verifier=verifier)
        if output is not None:
            _write(session, printed(await session.log.blobs.get(output.blob)))
            return 0
        live = await _live_file(session, name, verifier=verifier)
        if live is None:
            raise NotFound(await _nothing(session.log, name, verifier=verifier))
        _write(session, printed(await to_thread.run_sync(live.read_bytes)))
    return 0


async def _show_regrade(session: Session, trial: str) -> None:
    """What the verifiers printed in the last regrade that gave the trial an answer."""
    last: RegradeScored | RegradeFailed | None = None
    for event in await session.log.read(f"trial/{trial}"):
        payload = decode_known(event)
        if isinstance(payload, RegradeScored | RegradeFailed):
            last = payload
    outputs = [one.output for one in last.verdicts if one.output] if last else []
    if not outputs:
        raise NotFound(f"trial {trial}: no regrade of it has printed anything")
    for output in outputs:
        _write(session, printed(await session.log.blobs.get(output.blob)))


async def _show_install(session: Session, trial: str) -> None:
    """What the agent's last installation printed."""
    last: Output | None = None
    for event in await session.log.read(f"trial/{trial}"):
        match decode_known(event):
            case AgentStarted(install=Install(output=output)):
                last = output
            case AgentFailed(category=category, output=output) if category in _INSTALLING:
                last = output
            case _:
                pass
    if last is None:
        raise NotFound(f"trial {trial}: no installation of an agent has printed anything")
    _write(session, printed(await session.log.blobs.get(last.blob)))


def printed(data: bytes) -> str:
    """Output as text for a terminal: its lines as they are, everything else spelled out."""
    text = escaped(data.decode("utf-8", "replace"), lines=True)
    return text if not text or text.endswith("\n") else text + "\n"


def _write(session: Session, text: str) -> None:
    session.terminal.raw(text)


async def recorded_output(log: EventLog, trial: str, *, verifier: bool) -> Output | None:
    """The newest output that the log has of the agent or of the verifier.

    Of one that was cut off, it is what it had printed until then.
    """
    begun, ended, stages = _VERIFIERS if verifier else _AGENTS
    found: Output | None = None
    cut: Output | None = None
    continued: str | None = None
    for event in await log.read(f"trial/{trial}"):
        payload = decode_known(event)
        if isinstance(payload, TrialStarted) and payload.continues is not None:
            continued = payload.continues.stream.removeprefix("trial/")
        elif isinstance(payload, ended):
            found = payload.output or found
        elif isinstance(payload, TrialInterrupted) and payload.stage in stages:
            cut = payload.output
        elif isinstance(payload, begun):
            cut = None
    if cut is None and found is None and continued is not None:
        return await recorded_output(log, continued, verifier=verifier)
    return cut or found


async def _nothing(log: EventLog, trial: str, *, verifier: bool) -> str:
    """Why there is nothing to show."""
    who = "verifier" if verifier else "agent"
    begun, ended, _ = _VERIFIERS if verifier else _AGENTS
    lost = False
    for event in await log.read(f"trial/{trial}"):
        payload = decode_known(event)
        if isinstance(payload, begun):
            lost = True
        elif isinstance(payload, (*ended, TrialInterrupted)):
            lost = False
    if lost:
        return (
            f"trial {trial}: its engine was killed while the {who} worked, so what it had printed "
            "is lost"
        )
    return f"trial {trial}: its {who} has printed nothing that is recorded"


class _Ending:
    """Whether a trial has finished, was interrupted, or was given up: nothing more will come."""

    def __init__(self, log: EventLog, trial: str) -> None:
        self._log = log
        self._trial = trial
        self._job: str | None = None
        self._read = {"trial": 0, "job": 0}
        self._over = False

    async def come(self) -> bool:
        """Look at what is new in the log."""
        for event in await self._new("trial", self._trial):
            match event:
                case TrialStarted():
                    self._job = event.job
                case TrialFinished() | TrialInterrupted():
                    self._over = True
                case SandboxStarted():
                    self._over = False
                case _:
                    pass
        for event in await self._new("job", self._job) if self._job else ():
            if isinstance(event, TrialAbandoned) and event.trial == self._trial:
                self._over = True
        return self._over

    async def _new(self, kind: str, name: str) -> list[Event | None]:
        events = await self._log.read(f"{kind}/{name}", after=self._read[kind])
        self._read[kind] += len(events)
        return [decode_known(event) for event in events]


async def _live_file(session: Session, trial: str, *, verifier: bool) -> Path | None:
    """The file that the running engine writes the output to."""
    name = "verifier.log" if verifier else "agent.log"

    def look() -> Path | None:
        folder = session.place.folder
        places = [*folder.glob(f".scratch/*/*/{trial}/{name}"), folder / ".kept" / trial / name]
        return next((place for place in places if place.is_file()), None)

    return await to_thread.run_sync(look)


async def _follow(session: Session, trial: str, *, verifier: bool) -> None:
    """Print what comes, until the log has the whole of it; then what is missing of that."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    told = 0
    ending = _Ending(session.log, trial)
    while True:
        over = await ending.come()
        output = await recorded_output(session.log, trial, verifier=verifier)
        if output is not None:
            data = await session.log.blobs.get(output.blob)
            if told == 0 or not output.truncated:
                _write(session, printed(data[told:]))
            return
        live = await _live_file(session, trial, verifier=verifier)
        while live is not None:
            data = await to_thread.run_sync(_read_from, live, told)
            if not data:
                break
            told += len(data)
            _write(session, escaped(decoder.decode(data), lines=True))
        if over:
            return
        await anyio.sleep(_LOOK_SEC)


def _read_from(file: Path, start: int) -> bytes:
    try:
        with file.open("rb") as opened_file:
            opened_file.seek(start)
            return opened_file.read(_CHUNK)
    except OSError:
        return b""
