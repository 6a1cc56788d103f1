"""One execution of a slot, from its first event to its files, whatever its task is made of."""

from __future__ import annotations

import anyio
from anyio import to_thread

from ...events.errors import BlobAltered, BlobMissing, EventInvalid, LogError
from ...events.kinds import TrialScheduled
from ..full_disk import full_disk_in
from ..own_log import logger
from ..trial.load import load_trial
from ..trial.state import TrialState
from .context import JobContext
from .ending import TrialEnd, fault
from .episode_task import EpisodeTask
from .episode_trial import EpisodeTrial
from .plan import PlannedSlot
from .sandbox_trial import SandboxTrial
from .slot import AgentSlot

CLOSING_SEC = 20.0
"""For the last events of a trial that is cut off."""


async def execute(
    job: JobContext, planned: PlannedSlot, scheduled: TrialScheduled, slot: AgentSlot
) -> TrialEnd:
    """Run, grade or finish one execution as planned; its files are written when it ends.

    `slot` is given back as soon as the agent's work is saved.
    A fault of one trial's ends that trial and no other, and so do stored bytes that are gone; only
    the log's other errors are raised.
    """
    state = TrialState()
    if planned.same_stream:
        state = await load_trial(job.log, scheduled.trial)
    task = job.tasks[scheduled.slot.task]
    execution: SandboxTrial | EpisodeTrial
    if isinstance(task, EpisodeTask):
        execution = EpisodeTrial(job, scheduled, state, slot, task)
    else:
        execution = SandboxTrial(job, scheduled, state, slot, task)
    try:
        await execution.go(planned)
    except anyio.get_cancelled_exc_class():
        with anyio.move_on_after(CLOSING_SEC, shield=True):
            await execution.cut_off()
        raise
    except (BlobMissing, BlobAltered) as error:
        await execution.tell(*fault(execution.record.state, error))
    except LogError as error:
        if not isinstance(error, EventInvalid):
            raise
        await log_fault(scheduled.trial, error)
        await execution.tell(*fault(execution.record.state, error))
    except Exception as error:  # siblings must go on
        await log_fault(scheduled.trial, error)
        await execution.tell(*fault(execution.record.state, error))
    finally:
        execution.release()
    await execution.write_files()
    return execution.end()


async def log_fault(trial: str, error: Exception) -> None:
    """Tell whoever mends this program; a full disk is nobody's fault."""
    if full_disk_in(error) is not None:
        return

    def write() -> None:  # reads source files for the traceback
        logger().error("engine fault", trial=trial, exc_info=error)

    await to_thread.run_sync(write)
