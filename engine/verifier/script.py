"""Running a task's test script in the sandbox, and turning what came of it into events.

Nothing here touches the log: blobs are stored, and the events that name them are given back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import anyio
import msgspec
from anyio import to_thread

from ...events.clock import Clock
from ...events.kinds import (
    SandboxLost,
    TrialEvent,
    VerifierFailed,
    VerifierScored,
    VerifierStarted,
    WarningRaised,
)
from ...events.kinds.parts import Output, Process, SavedFile
from ...events.log import BlobStore
from ...events.values import INLINE_LIMIT, Json, escape
from ..errors import SandboxError, SandboxGone
from ..output import Captured, OutputCapture, store_output
from ..redact import Redactor
from ..sandbox.protocol import Command, Sandbox, TreeTooLarge
from ..stored import store_json
from ..tasks.model import VerifierSettings
from ..tasks.scripts import interpreter
from ..trial.folders import AGENT_FOLDER, REWARD_FOLDER, TrialFolders, VerifierDigestMismatch
from .files import (
    CAPS,
    CTRF,
    NOT_PERMITTED,
    REWARD_DETAILS,
    REWARD_JSON,
    REWARD_TEXT,
    FileRead,
    RewardFiles,
    read_reward_files,
)
from .protected.asking import Asked, asked_by, texts_of
from .protected.prepare import GuardKeptOut, Prepared, PytestNeedsPython, prepare_pytest
from .protected.tools import fill_stand_in
from .reward import RewardVerdict, judge_reward

SCRIPT = "test.sh"
"""The test script's name; a script verifier is called by it."""

MOST_DETAILS = 100
"""Entries of reward.json beyond which no more blobs are made for details."""


class ScriptVerifier(msgspec.Struct, frozen=True, kw_only=True):
    """A task's test script and what it is run with."""

    name: str = SCRIPT
    digest: str
    """SHA-256 over the verifier's files."""
    weight: float = 1.0
    source: Path
    """The verifier's folder as the job's snapshot has it."""
    files: Mapping[str, str]
    """SHA-256 (hex) of each file by its path in that folder, as recorded."""
    settings: VerifierSettings
    env: dict[str, str] = {}
    """The task's `verifier.env` and --verifier-env, resolved."""
    timeout: float
    """Seconds; the settings' own times the job's multiplier."""
    start_timeout: float = 60.0
    missing_reward: Literal["zero", "error"] = "zero"
    sandbox_mode: Literal["shared", "separate"] = "shared"

    def started(self) -> VerifierStarted:
        """The event to append before it is run."""
        return VerifierStarted(
            verifier=self.name,
            verifier_kind="script",
            digest=self.digest,
            weight=self.weight,
            sandbox_mode=self.sandbox_mode,
            timeout_sec=self.timeout,
        )

    def failed(
        self,
        error: str,
        category: str,
        *,
        infrastructure: bool = True,
        duration: float = 0.0,
        output: Output | None = None,
    ) -> VerifierFailed:
        """The event for an engine's fault: it holds whatever the script may have written."""
        return VerifierFailed(
            verifier=self.name,
            verifier_kind="script",
            digest=self.digest,
            weight=self.weight,
            error=error,
            category=category,
            infrastructure=infrastructure,
            sandbox_mode=self.sandbox_mode,
            duration=duration,
            output=output,
        )


class ScriptResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of running a test script."""

    events: list[TrialEvent]
    """To append, in one append: the verdict or the failure, and its warnings."""
    killed: list[Process] = []
    """What the script had left running."""


def script_env(workspace: str, verifier_folder: str) -> dict[str, str]:
    """The variables that tell a test script where things are."""
    places = {
        "WORKSPACE": workspace,
        "VERIFIER_DIR": verifier_folder,
        "AGENT_LOG_DIR": AGENT_FOLDER,
        "REWARD_TEXT": f"{REWARD_FOLDER}/{REWARD_TEXT}",
        "REWARD_JSON": f"{REWARD_FOLDER}/{REWARD_JSON}",
        "REWARD_DETAILS_JSON": f"{REWARD_FOLDER}/{REWARD_DETAILS}",
    }
    return {
        f"{prefix}_{name}": place
        for prefix in ("TRIALOG", "BENCHFLOW")
        for name, place in places.items()
    }


async def run_script_verifier(
    script: ScriptVerifier,
    *,
    sandbox: Sandbox,
    folders: TrialFolders,
    blobs: BlobStore,
    clock: Clock,
    redactor: Redactor | None = None,
    spool: Path | None = None,
    cut_off: Callable[[Captured], None] | None = None,
) -> ScriptResult:
    """Copy the verifier's files in, run the script in the workspace, read and judge the reward.

    The agent's phase must have been closed (`TrialFolders.close_agent_phase`). A fault of the
    sandbox, of the transfer or of the files' digests wins over any reward that may be there.
    `spool` is a file that the output also goes to while it comes. `cut_off` takes what was printed
    when this is cancelled.
    """
    began = clock.monotonic()
    capture = OutputCapture(redactor=redactor, spool=spool, monotonic=clock.monotonic)

    async def fail(error: Exception, category: str, *, infrastructure: bool = True) -> ScriptResult:
        captured = capture.finish()
        failed = script.failed(
            str(error),
            category,
            infrastructure=infrastructure,
            duration=round(clock.monotonic() - began, 6),
            output=await store_output(blobs, captured) if captured.total else None,
        )
        lost: list[TrialEvent] = []
        if isinstance(error, SandboxGone):
            lost.append(SandboxLost(sandbox_id=sandbox.id, phase="verifier", error=str(error)))
        return ScriptResult(events=[*lost, failed])

    try:
        asked, words = await to_thread.run_sync(_fill, script, folders)
        pytest = await prepare_pytest(sandbox, folders, asked)
        command = _command(script, folders, pytest, words)

        def take(data: bytes) -> None:
            pytest.watch.feed(data)
            capture.feed(data)

        exit = await sandbox.run(command, take)
        files = await _read_files(sandbox, folders)
    except anyio.get_cancelled_exc_class():
        if cut_off is not None:
            cut_off(capture.finish())
        raise
    except SandboxError as error:
        return await fail(error, error.category)
    except VerifierDigestMismatch as error:
        return await fail(error, error.category)
    except PytestNeedsPython as error:
        return await fail(error, error.category, infrastructure=False)
    except OSError as error:
        return await fail(error, "transfer_failed")
    if pytest.watch.kept_out:
        return await fail(kept_out := GuardKeptOut(), kept_out.category, infrastructure=False)
    duration = round(clock.monotonic() - began, 6)
    verdict = judge_reward(
        files,
        exit,
        script.settings,
        missing_reward=script.missing_reward,
        timeout=script.timeout,
    )
    output = await store_output(blobs, capture.finish())
    scored = VerifierScored(
        verifier=script.name,
        verifier_kind="script",
        digest=script.digest,
        weight=script.weight,
        score=verdict.score,
        scores=escape(verdict.scores),
        details=await _stored_details(verdict.details, blobs),
        source=verdict.source,
        missing=verdict.missing,
        evidence=["the machine ran out of memory for the script"] if exit.out_of_memory else [],
        warnings=list(dict.fromkeys(warning.code for warning in verdict.warnings)),
        exit_code=exit.code,
        timed_out=exit.ended_by != "exit",
        sandbox_mode=script.sandbox_mode,
        duration=duration,
        output=output,
        files=[
            SavedFile(path=file.name, blob=await blobs.put(file.data))
            for file in files.found()
            if file.data is not None
        ],
    )
    return ScriptResult(events=[scored, *_warnings(verdict, files)], killed=exit.left)


def _fill(script: ScriptVerifier, folders: TrialFolders) -> tuple[Asked, list[str]]:
    """Copy the verifier's files in: what they ask of pytest, and the words that run the script."""
    folders.fill_verifier(script.source, script.files)
    asked = asked_by(texts_of(folders.verifier), script.settings.env.values())
    if not asked.protected:
        fill_stand_in(folders.tools)
    return asked, interpreter(folders.verifier / SCRIPT)


def _command(
    script: ScriptVerifier, folders: TrialFolders, pytest: Prepared, words: list[str]
) -> Command:
    """The command that runs the script."""
    inside = folders.verifier_targets[0]
    return Command(
        argv=[*pytest.starter, *words, f"{inside}/{SCRIPT}"],
        env=script.env | script_env(folders.workspace, inside) | pytest.env,
        user=script.settings.user,
        timeout=script.timeout,
        start_timeout=script.start_timeout,
    )


async def _read_files(sandbox: Sandbox, folders: TrialFolders) -> RewardFiles:
    """The reward files, read once; what another user's rights hide, through the sandbox."""
    files = await to_thread.run_sync(read_reward_files, folders.verifier_logs)
    hidden = [file.name for file in files.found() if file.reason == NOT_PERMITTED]
    if not hidden:
        return files
    fetched = {name: await _fetch(sandbox, folders.scratch, name) for name in hidden}
    return RewardFiles(
        text=fetched.get(REWARD_TEXT, files.text),
        json=fetched.get(REWARD_JSON, files.json),
        details=fetched.get(REWARD_DETAILS, files.details),
        ctrf=fetched.get(CTRF, files.ctrf),
    )


async def _fetch(sandbox: Sandbox, scratch: Path, name: str) -> FileRead:
    copy = scratch / f".fetched-{name}"
    try:
        skipped = await sandbox.copy_file(f"{REWARD_FOLDER}/{name}", copy, cap=CAPS[name])
    except TreeTooLarge:
        return FileRead(name=name, reason=f"is over {CAPS[name] // (1024 * 1024)} MiB")
    if skipped:
        return FileRead(name=name, reason=NOT_PERMITTED)
    return FileRead(name=name, data=await to_thread.run_sync(copy.read_bytes))


async def _stored_details(details: dict[str, Any], blobs: BlobStore) -> dict[str, Json]:
    """Details as an event holds them: escaped, and large ones as a blob each.

    Beyond MOST_DETAILS those that would need a blob are left to the file itself, which is kept.
    """
    stored: dict[str, Json] = {}
    room = INLINE_LIMIT
    for key, value in details.items():
        name = f"${key}" if key.startswith("$") else key
        size = len(key) + len(msgspec.json.encode(value))
        if size <= room or len(stored) < MOST_DETAILS:
            stored[name] = await store_json(value, blobs, room=room)
            room -= size if size <= room else 0
    return stored


def _warnings(verdict: RewardVerdict, files: RewardFiles) -> list[WarningRaised]:
    warnings = [WarningRaised(code=code, message=message) for code, message in verdict.warnings]
    return warnings + [
        WarningRaised(
            code="verifier_file_skipped",
            message=f"{file.name} {file.reason}; it was not kept",
            path=f"{REWARD_FOLDER}/{file.name}",
        )
        for file in (files.details, files.ctrf)
        if file is not None and file.data is None
    ]
