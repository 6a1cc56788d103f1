"""A trial regraded by its task's test script: its saved work in a fresh sandbox, without agent."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from ...events.errors import BlobAltered, BlobMissing
from ...events.kinds import (
    RegradeFailed,
    RegradeScored,
    SandboxFailed,
    TamperFound,
    VerifierFailed,
    VerifierScored,
    WarningRaised,
)
from ...events.kinds.parts import Continues
from ..errors import ImageError, SandboxError, SandboxGone
from ..job.place import Place
from ..job.tasks import TaskInJob
from ..sandbox.protocol import Sandbox
from ..tasks.environment import resolve_env
from ..trial.folders import TamperUncleared
from ..trial.hardening.way import clear_the_way
from ..trial.work import SavedWork
from ..verifier.script import SCRIPT, ScriptVerifier, run_script_verifier
from .context import Context
from .decide import answer
from .looking import lost_blob
from .plan import Facts, Refusal, SavedBlob, notes, refusal
from .stored import StoredTrial


class ScriptRegrade:
    """The regrade of one trial by a script."""

    def __init__(self, context: Context, trial: StoredTrial) -> None:
        self.context = context
        self.trial = trial
        self.notes: list[str] = []
        self.image_digest: str | None = None
        """Of the image that it is regraded in."""
        self._task: TaskInJob | None = None
        self._place: Place | None = None

    async def prepare(self, *, thorough: bool = False) -> Refusal | None:
        """Have the image ready; why the trial is not regradable, None when it is.

        With `thorough` the saved work's bytes are read and compared with their hashes, and nothing
        is built: for a plan of what would be done.
        """
        context, trial = self.context, self.trial
        task = context.scripts.get(trial.task)
        facts = Facts(
            gone=context.gone.get(trial.task),
            script=True,
            service=task is not None and task.task.settings.verifier.keep_processes,
            pruned=trial.workspace is not None and trial.workspace.archive.blob in context.pruned,
            blob=await self._blob(thorough=thorough),
            backend=context.backend.name,
        )
        found = refusal(trial, facts)
        if found is None and thorough:
            found = await self._artifacts()
        if found is not None or task is None:
            return found
        self.notes = notes(trial, facts)
        run = trial.sandbox
        digest = run.image_digest if run and context.backend.name == "docker" else None
        workspace = run.workspace if run else None
        self._task = context.script(trial.task, digest, workspace)
        if thorough and digest is None:
            return None
        try:
            self.image_digest = (await self._task.image()).digest
        except ImageError as error:
            return Refusal("image_gone", str(error))
        return None

    async def _blob(self, *, thorough: bool) -> SavedBlob:
        saved, blobs = self.trial.workspace, self.context.log.blobs
        if saved is None or saved.archive.blob in self.context.pruned:
            return "there"
        if not await blobs.has(saved.archive):
            return "missing"
        if thorough:
            try:
                await blobs.check(saved.archive)
            except BlobAltered:
                return "altered"
            except BlobMissing:
                return "missing"
        return "there"

    async def _artifacts(self) -> Refusal | None:
        saved = self.trial.artifacts
        return await lost_blob(
            self.context.log.blobs, [one.blob for one in saved.artifacts] if saved else []
        )

    @property
    def verifiers(self) -> dict[str, str]:
        """What grades it, by name, with its digest."""
        assert self._task is not None
        return {SCRIPT: self._task.verifier_digest}

    async def run(self) -> RegradeScored | RegradeFailed | Refusal:
        """Grade the saved work. A saved workspace that can't be read makes it not regradable."""
        assert self._task is not None
        context = self.context
        self._place = place = Place(context, self._task, self.trial.trial)
        try:
            told = await place.start_restored(self._work(), context.log.blobs)
        except BlobAltered as error:
            return Refusal("blob_altered", str(error))
        except BlobMissing as error:
            return Refusal("blob_missing", str(error))
        except SandboxError as error:
            return self._failed(error)
        if place.sandbox is None:
            failed = next(event for event in told if isinstance(event, SandboxFailed))
            return RegradeFailed(
                regrade_id=context.planned.regrade_id, error=failed.error,
                category=failed.category, infrastructure=True,
            )  # fmt: skip
        warnings = [event for event in told if isinstance(event, WarningRaised)]
        try:
            tampered = await place.folders.close_agent_phase(
                context.log.blobs, planted=place.image.planted_rewards, fresh=True
            )
            hardened = await clear_the_way(
                place.sandbox,
                place.folders,
                place.image,
                self._task.task.verifier,
                blobs=context.log.blobs,
                seconds=context.config.save_timeout_sec,
            )
        except (TamperUncleared, SandboxError) as error:
            return self._failed(error)
        events = [*tampered, *hardened.events([], 0.0)]
        warnings += [event for event in events if isinstance(event, WarningRaised)]
        warnings += _told([event for event in events if isinstance(event, TamperFound)])
        return await self._verify(self._task, place.sandbox, warnings)

    async def _verify(
        self, task: TaskInJob, sandbox: Sandbox, warnings: Sequence[WarningRaised]
    ) -> RegradeScored | RegradeFailed:
        context, place = self.context, self._place
        assert place is not None
        verifier = self._verifier(task)
        config = context.config
        patience = verifier.timeout + config.start_timeout_sec + config.stop_timeout_sec
        try:
            with anyio.fail_after(patience):
                result = await run_script_verifier(
                    verifier,
                    sandbox=sandbox,
                    folders=place.folders,
                    blobs=context.log.blobs,
                    clock=context.clock,
                    redactor=context.redactor,
                    spool=place.scratch / "verifier.log",
                )
        except TimeoutError:
            reason = f"sandbox {sandbox.id} did not end the verifier's phase at its deadline"
            return self._failed(SandboxGone(reason))
        verdicts = [e for e in result.events if isinstance(e, VerifierScored | VerifierFailed)]
        told = [event for event in result.events if isinstance(event, WarningRaised)]
        return answer(
            context.planned.regrade_id,
            verdicts,
            [*warnings, *told],
            as_of_run=self.trial if context.planned.as_of_run else None,
        )

    def _failed(self, error: SandboxError | TamperUncleared) -> RegradeFailed:
        return RegradeFailed(
            regrade_id=self.context.planned.regrade_id, error=str(error),
            category=error.category, infrastructure=not isinstance(error, TamperUncleared),
        )  # fmt: skip

    def _work(self) -> SavedWork:
        saved = self.trial.workspace
        assert saved is not None
        return SavedWork(
            archive=saved.archive,
            artifacts=self.trial.artifacts,
            place=Continues(stream="", version=0, hash=""),
            tools=0,
            agent_category=None,
        )

    def _verifier(self, task: TaskInJob) -> ScriptVerifier:
        context, settings = self.context, task.task.settings.verifier
        env = resolve_env(settings.env, context.environ).values
        return ScriptVerifier(
            digest=task.verifier_digest,
            source=task.task.verifier,
            files=task.snapshot.files,
            settings=settings,
            env=env | dict(context.verifier_env),
            timeout=settings.timeout_sec * context.config.timeout_multiplier,
            start_timeout=context.config.start_timeout_sec,
            missing_reward=context.config.missing_reward,
            sandbox_mode="separate",
        )

    def release(self) -> None:
        """Give the sandbox to the reaper."""

        async def removed(sandbox_id: str, seconds: float, error: str | None) -> None:
            await anyio.lowlevel.checkpoint()  # no event: the trial's own sandbox is long gone

        if self._place is not None:
            self._place.give_up(removed)


def _told(tampered: Sequence[TamperFound]) -> list[WarningRaised]:
    """What was put out of the verifier's way; such an event has no place after a trial's end."""
    return [
        WarningRaised(code="tamper_found", message=f"{found.what}: {found.path}", path=found.path)
        for found in tampered
    ]
