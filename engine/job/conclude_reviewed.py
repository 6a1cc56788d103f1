"""The end of a trial whose last review is in, in any process that is given the log."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from anyio import CancelScope, to_thread

from ...projections.episode import episode_blobs, episode_data
from ...projections.source import read_trial
from ...projections.writer import JobFiles
from ..errors import CommandRefused
from ..hooks.protocol import Hooks
from ..trial.load import load_trial
from ..trial.record import TrialRecord
from ..trial.state import Stage
from .conclusion import conclude_episode
from .episode_loading import open_episode_task
from .load import load_job
from .services import Services


async def conclude_reviewed(services: Services, hooks: Hooks, trial: str) -> None:
    """Score, credit in hindsight, TrialFinished and the files, once nobody is waited for.

    A trial that is finished, or that still waits, is left as it is. Raises CommandRefused for one
    whose agent has not finished.
    """
    log = services.log
    events = await read_trial(log, trial)
    state = await load_trial(log, trial)
    if state.stage is Stage.FINISHED or state.awaiting:
        return
    if state.started is None or state.stage < Stage.JUDGED:
        raise CommandRefused(f"trial {trial} has not been judged yet; `trialog resume` goes on")
    job = await load_job(log, state.started.job)
    assert job.started is not None
    name = state.started.slot.task
    (snapshot,) = [task for task in job.started.tasks if task.task == name]
    record = TrialRecord(log, trial, clock=services.clock, ids=services.ids, state=state)
    folder = await to_thread.run_sync(
        partial(tempfile.TemporaryDirectory, prefix="trialog-review-")
    )
    try:
        data = await log.blobs.get(snapshot.snapshot)
        place = Path(folder.name) / "task"
        task = await to_thread.run_sync(open_episode_task, data, place, snapshot)
        blobs = {ref.blob: await log.blobs.get(ref) for ref in episode_blobs(events)}
        episode = episode_data(trial, task.data(), events, blobs)
        await conclude_episode(record, task.sources, episode, hooks)
    finally:
        with CancelScope(shield=True):
            await to_thread.run_sync(folder.cleanup)
    files = JobFiles(log, state.started.job, services.jobs_folder / job.started.folder, verify=True)
    await files.write_trial(trial)
    await files.write_summary()
