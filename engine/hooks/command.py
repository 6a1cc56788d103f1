"""A check that is a program: the episode on its standard input, the output on the other."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
from pathlib import Path
from typing import IO, Any

import msgspec

from ...projections.episode import EpisodeData
from ..authoring.views import Episode
from . import values
from .faults import WrongValue, bounded, shown
from .protocol import HookFault
from .wire import Outcome

_STDERR_KEPT = 64 * 1024
_CHUNK = 64 * 1024


def run(words: list[str], folder: str, data: EpisodeData) -> Outcome:
    """Run a check's program in its folder until it ends; what it leaves running is killed.

    Nothing ends it early but the end of this process.
    """
    try:
        code, printed, complaint = _run(_program(words, folder), folder, document(data))
    except (OSError, ValueError) as error:  # there is no such program, or no such folder
        return _fault(f"the check's command {words[0]!r} can't be run: {error}")
    if len(printed) > values.OUTPUT_LIMIT:
        return _fault(f"the check printed more than {values.OUTPUT_LIMIT:,} bytes")
    if code != 0:
        how = f"exit code {code}" if code > 0 else f"killed by {_name(-code)}"
        last = complaint.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return _fault(f"{how}: {last}" if last else how)
    try:
        given = values.output(msgspec.json.decode(printed))
        if any(app.control == "live" for app in data.apps.values()):  # it is given all states
            given = msgspec.structs.replace(given, live=True)
        return Outcome(value=given.score, body=values.fitting(given, "check"))
    except WrongValue as error:
        return _fault(str(error))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        text = printed.decode("utf-8", "replace")
        return _fault(f"the check printed {shown(text)}, which is no JSON: {error}")


def document(data: EpisodeData) -> bytes:
    """An episode as a command reads it: the names that a check in Python has, too."""
    episode = Episode(data)
    return msgspec.json.encode(
        {
            "task": episode.task,
            "expected": episode.expected,
            "answer": episode.answer,
            "state": episode.state,
            "apps": {
                name: {"initial": app.initial, "final": app.final, "control": app.control}
                for name, app in episode.apps.items()
            },
            "observation": episode.observation,
            "trajectory": episode.trajectory,
            "outcome": episode.outcome,
            "rewards": episode.rewards,
            "usage": episode.usage,
            "artifacts": episode.artifacts,
        }
    )


def _program(words: list[str], folder: str) -> list[str]:
    """The words with a program of the verifier's own folder found without ``./``."""
    first = words[0]
    if "/" not in first and shutil.which(first) is None and (Path(folder) / first).is_file():
        return [f"./{first}", *words[1:]]
    return words


def _run(words: list[str], folder: str, given: bytes) -> tuple[int, bytes, bytes]:
    episode = os.memfd_create("episode")
    with os.fdopen(episode, "r+b") as stdin:
        stdin.write(given)
        stdin.seek(0)
        process = subprocess.Popen(
            words, cwd=folder, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
    try:
        printed, complaint = _read(process)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    return process.returncode, printed, complaint


def _read(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """What a process prints until it has ended, even if a child of its holds on to the pipes."""
    assert process.stdout is not None
    assert process.stderr is not None
    printed, complaint = bytearray(), bytearray()
    ended = os.pidfd_open(process.pid)
    try:
        with selectors.DefaultSelector() as selector, process.stdout, process.stderr:
            selector.register(ended, selectors.EVENT_READ)
            for pipe in (process.stdout, process.stderr):
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ)
            over = False
            while not over:
                ready: list[Any] = [key.fileobj for key, _ in selector.select()]
                over = ended in ready
                for pipe, kept in ((process.stdout, printed), (process.stderr, complaint)):
                    if over or pipe in ready:
                        _take(pipe, kept, selector)
                del complaint[:-_STDERR_KEPT]
                over = over or len(printed) > values.OUTPUT_LIMIT
    finally:
        os.close(ended)
    return bytes(printed), bytes(complaint)


def _take(pipe: IO[bytes], kept: bytearray, selector: selectors.BaseSelector) -> None:
    """Read what a pipe has now."""
    while len(kept) <= values.OUTPUT_LIMIT:
        try:
            chunk = os.read(pipe.fileno(), _CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            if pipe in selector.get_map():
                selector.unregister(pipe)
            return
        kept += chunk


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _fault(message: str) -> Outcome:
    return Outcome(fault=HookFault(error=bounded(message)))
