"""A judge of a replayed trial: answered by the recorded replies, where it is asked the same."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from anyio import CancelScope, to_thread

from ...events.log import BlobStore
from ...projections.episode import EpisodeData, episode_blobs, episode_data
from ..authoring.verifiers import AgentVerifier
from ..judges.judge import JudgeResult
from ..judges.replaying import Asked, replayed_judge
from .episode_loading import open_episode_task
from .replays import RecordedTrial


async def judge_again(
    verifier: AgentVerifier,
    episode: EpisodeData,
    recorded: RecordedTrial,
    *,
    digest: str,
    blobs: BlobStore,
) -> JudgeResult:
    """The verdict from the replies that the recorded trial has of this judge."""
    return await replayed_judge(
        verifier, episode, recorded.judged.get(verifier.name, ()), trial=recorded.name,
        asked=partial(_asked, recorded, verifier.name, blobs), digest=digest, blobs=blobs,
    )  # fmt: skip


async def _asked(recorded: RecordedTrial, verifier: str, blobs: BlobStore) -> Asked | None:
    """What the judge was asked about then, by the task as its job took it."""
    made = partial(tempfile.TemporaryDirectory[str], prefix="trialog-replay-")
    folder = await to_thread.run_sync(made)
    try:
        packed = await blobs.get(recorded.task.snapshot)
        place = Path(folder.name) / "task"
        task = await to_thread.run_sync(open_episode_task, packed, place, recorded.task)
        found = {ref.blob: await blobs.get(ref) for ref in episode_blobs(recorded.events)}
        episode = episode_data(recorded.name, task.data(), recorded.events, found)
        judge = next((one for one in task.judges if one.name == verifier), None)
        return None if judge is None else Asked(verifier=judge, episode=episode)
    finally:
        with CancelScope(shield=True):
            await to_thread.run_sync(folder.cleanup)
