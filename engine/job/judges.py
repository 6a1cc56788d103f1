"""What a job's model judges share: one client, and so many calls at once to each model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from ..judges.client import JudgeClient, JudgeUnavailable, open_client
from ..models.limit import CostLimit
from ..models.models import CallSlots
from .episode_task import EpisodeTask


class Judges(CallSlots):
    """Made once a job."""

    def __init__(
        self,
        client: JudgeClient | None,
        error: JudgeUnavailable | None = None,
        *,
        cost_limit: CostLimit | None = None,
        models: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._client = client
        self._error = error
        self._models = dict(models or {})
        self.cost_limit = cost_limit
        """What they may cost together; null: no limit but each judge's own."""

    def client(self) -> JudgeClient:
        """The client. Raises JudgeUnavailable where none can be had."""
        if self._client is None:
            raise self._error or JudgeUnavailable("this job was started without model judges")
        return self._client

    def another(self, model: str, reported: str) -> str | None:
        """What the model called itself first in this job, where that is not what it says now."""
        first = self._models.setdefault(model, reported)
        return None if first == reported else first


@asynccontextmanager
async def open_judges(
    tasks: Iterable[object],
    environ: Mapping[str, str],
    given: JudgeClient | None,
    *,
    cost_limit: CostLimit | None = None,
    models: Mapping[str, str] | None = None,
) -> AsyncGenerator[Judges]:
    """The judges that these tasks need; where no client can be had, each judge says why.

    `models` is what judging models called themselves in this job before, by their names.
    """
    needed = any(isinstance(task, EpisodeTask) and task.judges for task in tasks)
    if given is not None or not needed:
        yield Judges(given, cost_limit=cost_limit, models=models)
        return
    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(open_client(environ))
            judges = Judges(client, cost_limit=cost_limit, models=models)
        except JudgeUnavailable as error:
            judges = Judges(None, error)
        yield judges
