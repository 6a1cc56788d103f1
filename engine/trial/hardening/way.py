"""Before the verifier starts: what the agent left of the system and in the workspace."""

from __future__ import annotations

from pathlib import Path

import anyio
from anyio import to_thread
from msgspec.structs import replace

from ....events.kinds import TamperFound
from ....events.log import BlobStore
from ...errors import SandboxGone
from ...sandbox.protocol import Image, Sandbox
from ...verifier.protected.asking import texts_of
from ..folders import ENGINES_FOLDER, REWARD_FOLDER, TamperUncleared, TrialFolders
from .contents import programs_of
from .harden import Hardened, harden, told
from .logs import clear_logs
from .steering import Surroundings

_PHASES_FOLDER = "/.trialog-phase"
_WAYS = frozenset({"/logs", ENGINES_FOLDER})
ANSWER = 30.0
"""Seconds for a single answer of a sandbox that much was asked of."""

_INSTALLS = (b"uv ", b"uvx", b"pip install")


async def clear_the_way(
    sandbox: Sandbox,
    folders: TrialFolders,
    image: Image,
    verifier: Path,
    *,
    blobs: BlobStore,
    seconds: float,
) -> Hardened:
    """Put back what could steer the verifier, in the sandbox that it is about to run in.

    `verifier` is the folder of the verifier's files as the job's snapshot has it. Raises
    TamperUncleared, with what was found until then, when something can't be put back, or not all
    of it within `seconds`: then nothing may be graded. Raises SandboxGone, also for a sandbox that
    no longer answers.
    """
    found: list[TamperFound] = []
    try:
        texts = await to_thread.run_sync(lambda: list(texts_of(verifier)))
        where = Surroundings(
            workspace=folders.workspace,
            path=tuple(part.rstrip("/") for part in (image.path or "").split(":") if part),
            entrypoint=(image.entrypoint_program or "") if image.entrypoint else None,
            interpreters=programs_of(texts),
            ways=_WAYS,
            places=(REWARD_FOLDER, *folders.verifier_targets, ENGINES_FOLDER, _PHASES_FOLDER),
            installs=any(word in text for text in texts for word in _INSTALLS),
        )
        with anyio.fail_after(seconds):
            async with sandbox.still():
                hardened = await harden(sandbox, where, texts, blobs, found)
                links = await clear_logs(sandbox, folders.agents_own, where.places, blobs)
        return replace(hardened, found=[*hardened.found, *links])
    except TimeoutError:
        await _check_answers(sandbox)
        raise TamperUncleared(
            folders.workspace, f"it was not done within {seconds:g} s", told(found)
        ) from None
    except OSError as error:
        raise TamperUncleared(
            folders.workspace, error.strerror or str(error), told(found)
        ) from error


async def _check_answers(sandbox: Sandbox) -> None:
    """Whether too much was asked, or nobody is there who answers. Raises SandboxGone."""
    try:
        with anyio.fail_after(ANSWER):
            await sandbox.look("/", cap=0)
    except (TimeoutError, OSError):
        raise SandboxGone(
            f"sandbox {sandbox.id} no longer answers, while what the agent left was put back"
        ) from None
