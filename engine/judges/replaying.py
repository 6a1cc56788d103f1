"""A judge that is answered by the recorded replies of an earlier trial's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ...events.kinds import JudgeSampled, VerifierFailed
from ...events.kinds.parts import RequestDifference
from ...events.log import BlobStore
from ...projections.episode import EpisodeData
from ..authoring.verifiers import AgentVerifier
from ..models.difference import Difference, first_difference
from ..models.replaying import in_words, request_difference
from .judge import JudgeResult, recorded_judge
from .prompt import Prompt


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge of the recorded trial was asked about."""

    verifier: AgentVerifier
    """As it was then."""
    episode: EpisodeData


def request(verifier: AgentVerifier, episode: EpisodeData) -> dict[str, Any]:
    """What a judge is asked, but for the random word of each call's fence."""
    prompt = Prompt(verifier, episode)
    return {"model": verifier.model, "messages": prompt.messages(""), "schema": prompt.schema}


async def replayed_judge(
    verifier: AgentVerifier,
    episode: EpisodeData,
    replies: Sequence[tuple[str, JudgeSampled]],
    *,
    trial: str,
    asked: Callable[[], Awaitable[Asked | None]],
    digest: str,
    blobs: BlobStore,
) -> JudgeResult:
    """The verdict from the recorded replies of `trial`, where the judge is asked the same.

    `asked` gives what it was asked about then, where that is still known. Where it is asked
    something else, or for more samples, the verdict is a failure that says what differs.
    """
    if not replies:
        error = f"trial {trial} has no recorded replies of judge {verifier.name!r}"
        return _failed(verifier, digest, error, None)
    now = request(verifier, episode)
    event, first = replies[0]
    if (first.prompt_digest, first.model) != (Prompt(verifier, episode).digest, verifier.model):
        before = await _request_then(asked, first)
        found = (first_difference(before, now) if before else None) or Difference("", None, None)
        what = f": {in_words(found)}" if found.path else ""
        error = f"judge {verifier.name!r} is asked something else than in trial {trial}{what}"
        difference = await request_difference(
            trial, 1, found, blobs=blobs, event=event, recorded=before, now=now
        )
        return _failed(verifier, digest, error, difference)
    samples = max(reply.sample for _, reply in replies)
    if verifier.samples > samples:
        error = (
            f"judge {verifier.name!r} is asked for {verifier.samples} samples, and trial {trial} "
            f"has {samples}"
        )
        difference = await request_difference(
            trial, samples + 1, Difference("", None, None), blobs=blobs, event=None, recorded=None,
            now=now,
        )  # fmt: skip
        return _failed(verifier, digest, error, difference)
    again = [
        replace(
            reply, replayed=event, digest=digest, usage=replace(reply.usage, cost_usd=0.0),
            latency=0.0,
        )
        for event, reply in replies
        if reply.sample <= verifier.samples
    ]  # fmt: skip
    return await recorded_judge(verifier, again, digest=digest, blobs=blobs)


async def _request_then(
    asked: Callable[[], Awaitable[Asked | None]], reply: JudgeSampled
) -> dict[str, Any] | None:
    """What the judge was asked then; null where a later release would ask it in other words."""
    known = await asked()
    if known is None or Prompt(known.verifier, known.episode).digest != reply.prompt_digest:
        return None
    return request(known.verifier, known.episode)


def _failed(
    verifier: AgentVerifier, digest: str, error: str, difference: RequestDifference | None
) -> JudgeResult:
    verdict = VerifierFailed(
        verifier=verifier.name, verifier_kind="agent", version=verifier.version, digest=digest,
        weight=verifier.weight, error=error, category="replay_differs", infrastructure=False,
        model=verifier.model, duration=0.0, difference=difference,
    )  # fmt: skip
    return JudgeResult(events=[], verdict=verdict)
