"""One trial's review: its evidence, its reviewer's own trial, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from anyio import to_thread
from msgspec.structs import replace

from ...events.errors import LogCorrupt, LogError, said
from ...events.kinds import ReviewCompleted, ReviewFailed, TrialScheduled
from ...events.kinds.parts import Slot
from ...events.log import BlobStore
from ...events.values import Text
from ...projections.errors import FilesUnwritable
from ...projections.regrades import Regrade
from ...projections.reviews import ReviewerFiles
from ...projections.source import files_of, trial_view
from ...projections.writer import write
from ..archive import remove_tree
from ..errors import TaskError
from ..job.context import JobContext
from ..job.episode_task import EpisodeTask
from ..job.execution import execute, log_fault
from ..job.folders import TrialNames
from ..job.plan import PlannedSlot
from ..job.slot import AgentSlot
from ..job.tasks import TaskInJob, take
from ..sandbox.protocol import Mount
from ..stored import store_json, store_text
from ..tasks.load import load_task
from ..trial.state import TrialState
from .admitting import digest_of
from .calls import PREFIX, models_reported
from .choosing import Subject
from .config import ReviewConfig
from .decide import COST_LIMIT, Asked, failed, verdict
from .evidence import EvidenceOpen, EvidenceUnreadable, close, copy_task, copy_trial
from .planning import PlannedReview
from .structure import CAP, RESULT_FILE
from .wrapper import EVIDENCE, write_wrapper


class Reviewer:
    """Makes reviews, many at once; one object as long as a review runs."""

    def __init__(
        self,
        config: ReviewConfig,
        context: JobContext,
        tasks: dict[str, TaskInJob | EpisodeTask],
        files: ReviewerFiles,
        *,
        image_digest: str | None,
        regrades: Sequence[Regrade],
    ) -> None:
        """`regrades` are those of the reviewed job that are finished."""
        self._config = config
        self._image_digest = image_digest
        self._regrades = regrades
        self._context = context
        self._tasks = tasks
        self._files = files
        self._names = TrialNames(context.log, context.ids)

    async def review(self, planned: PlannedReview) -> ReviewCompleted | ReviewFailed:
        """Review one trial. Whatever goes wrong is its own answer; only the log's errors and
        cancellation are raised."""
        asked = planned.asked
        together = self._context.models.cost_limit
        if together is not None and (reached := together.reached()) is not None:
            return failed(asked, reached, COST_LIMIT)
        scratch = self._context.scratch / f"{PREFIX}{planned.subject.trial}"
        try:
            return await self._review(planned, asked, scratch)
        except LogError:
            raise
        except (EvidenceOpen, EvidenceUnreadable) as error:
            return failed(asked, str(error), error.category)
        except FilesUnwritable as error:
            return failed(asked, f"the evidence can't be made: {error.what}", "host_failed")
        except (OSError, TaskError) as error:
            return failed(asked, f"the evidence can't be made: {said(error)}", "host_failed")
        except Exception as error:  # the others must go on
            await log_fault(planned.subject.trial, error)
            return failed(asked, f"{type(error).__name__}: {error}", "engine_fault")
        finally:
            await to_thread.run_sync(remove_tree, scratch)

    async def _review(
        self, planned: PlannedReview, asked: Asked, scratch: Path
    ) -> ReviewCompleted | ReviewFailed:
        context = self._context
        evidence = scratch / "evidence"
        notes = await self._gather(planned, evidence)
        asked = replace(asked, notes=asked.notes + notes)
        wrapper = scratch / f"{PREFIX}{planned.subject.trial}"
        with_task = (evidence / "task").is_dir()
        await to_thread.run_sync(
            lambda: write_wrapper(
                wrapper,
                planned.criteria,
                with_task=with_task,
                network=self._config.open_network,
                seconds=self._config.max_seconds,
            )
        )
        task = await to_thread.run_sync(load_task, wrapper)
        [snapshot] = await take([task], context.log.blobs)
        # One mount for the whole tree: its folder is no more the reviewer's than what is in it.
        mounts = [Mount(source=evidence, target=EVIDENCE, readonly=True)]
        trial = await self._names.new(task.name)
        slot = Slot(task=task.name, agent=self._config.agent, model=self._config.model, attempt=1)
        self._tasks[task.name] = TaskInJob(
            snapshot, task, backend=context.backend, config=context.config, mounts=mounts,
            image_digest=self._image_digest,
        )  # fmt: skip
        self._files.expect(trial, planned.subject.trial)
        scheduled = TrialScheduled(trial=trial, slot=slot, execution=1)
        try:
            async with AgentSlot(context.agent_slots) as place:
                await place.take()
                plan = PlannedSlot(slot=slot, action="run", reason="a review")
                end = await execute(context, plan, scheduled, place)
        finally:
            del self._tasks[task.name]
        answer = await self._answer(end.state)
        models = await models_reported(context.log, trial)
        return await self._stored(verdict(asked, trial, end.state, answer, models=models))

    async def _gather(self, planned: PlannedReview, evidence: Path) -> list[str]:
        """Copy what may be read, and close it; notes on what was left out."""
        notes = await self._trials_files(planned.subject, evidence)
        if planned.task is not None:
            notes += await to_thread.run_sync(
                _copy_admitted, planned.task, planned.subject.digests[0], evidence / "task"
            )
        await to_thread.run_sync(close, evidence)
        return notes

    async def _trials_files(self, subject: Subject, evidence: Path) -> list[str]:
        if subject.folder is not None:
            return await to_thread.run_sync(copy_trial, subject.folder, evidence / "trial")
        log = self._context.log
        try:
            view = await trial_view(log, subject.trial)
            if view is not None and view.blocked is not None:
                raise view.blocked
        except LogCorrupt as corrupt:
            raise EvidenceUnreadable(f"the trial's events can't be read: {corrupt}") from corrupt
        await to_thread.run_sync(lambda: (evidence / "trial").mkdir(parents=True))
        if view is None:
            return ["its stream is empty"]
        files = await files_of(log.blobs, view, self._regrades)
        report = await write(log.blobs, evidence, "trial", files)
        return [f"not in the evidence: {problem}" for problem in report.problems]

    async def _answer(self, state: TrialState) -> bytes | None:
        """The file that the reviewer left in its workspace, as it was saved."""
        saved = state.artifacts.artifacts if state.artifacts else []
        for artifact in saved:
            if artifact.path == RESULT_FILE and artifact.size <= CAP:
                return await self._context.log.blobs.get(artifact.blob)
        return None

    async def _stored(
        self, answer: ReviewCompleted | ReviewFailed
    ) -> ReviewCompleted | ReviewFailed:
        """The same, its long texts as blobs."""
        blobs = self._context.log.blobs
        if isinstance(answer, ReviewFailed):
            reply = None if answer.reply is None else await store_json(answer.reply, blobs)
            return replace(answer, error=await _store(answer.error, blobs), reply=reply)
        checks = {
            name: replace(check, explanation=await _store(check.explanation, blobs))
            for name, check in answer.checks.items()
        }
        return replace(answer, summary=await _store(answer.summary, blobs), checks=checks)


async def _store(text: Text, blobs: BlobStore) -> Text:
    return await store_text(text, blobs) if isinstance(text, str) else text


def _copy_admitted(folder: Path, digest: str, target: Path) -> list[str]:
    """Copy a task that was admitted; not at all where it changed since, or meanwhile."""
    notes = copy_task(folder, target)
    if digest_of(folder) != digest:
        remove_tree(target)
        return [f"task evidence skipped: {folder} changed after it had been admitted"]
    return notes
