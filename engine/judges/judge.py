"""Judging an episode: samples are asked for, read and put together into a verdict.

Nothing here touches the log: the events to append are given back. A judge is data and a model; it
runs in the engine, outside of any sandbox.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Literal

import anyio
import msgspec

from ...events.clock import Clock
from ...events.errors import TrialogError
from ...events.kinds import JudgeSampled, VerifierFailed, VerifierScored, WarningRaised
from ...events.kinds.parts import Usage
from ...events.log import BlobStore
from ...events.values import BlobRef, escape, without_surrogates
from ...projections.episode import EpisodeData
from ..authoring.verifiers import AgentVerifier
from ..models.limit import CostLimit
from ..stored import store_text
from .client import CallFailed, JudgeClient, JudgeUnavailable, Reply
from .prompt import Prompt
from .reply import Malformed, Marks, Read, read_reply
from .scoring import ASKS, Heard, conclude


class JudgeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of judging, to be appended in this order, the warnings with the verdict."""

    events: list[JudgeSampled]
    """Every reply, and an entry for each sample that got none."""
    verdict: VerifierScored | VerifierFailed
    warnings: list[WarningRaised] = []


class NothingRecorded(TrialogError):
    """A trial has no replies of a judge's that could be read again."""


async def judge(
    verifier: AgentVerifier,
    episode: EpisodeData,
    client: JudgeClient,
    *,
    digest: str,
    blobs: BlobStore,
    clock: Clock,
    limiter: anyio.CapacityLimiter | None = None,
    cost_limit: CostLimit | None = None,
    redact: Callable[[str], str] = str,
    applied: str | None = None,
) -> JudgeResult:
    """Ask the verifier's model about an episode, `samples` times, and give its verdict.

    `digest` is the verifier's own. `limiter` bounds the calls to its model at any one time;
    waiting for it is not counted in `timeout_sec`, which each sample has for all that it takes.
    `cost_limit` is shared with other judges; the verifier's own `max_cost` holds besides.
    `redact` takes secrets out of replies before they are read, so that a replay reads the same;
    pass the job's `Redactor.text`. `applied` is the VerifierApplied event that the replies belong
    to. Never raises for what model or endpoint do.
    """
    began = clock.monotonic()
    limits = [] if cost_limit is None else [cost_limit]
    if verifier.max_cost is not None:
        limits.append(CostLimit(verifier.max_cost, whose=f"the max_cost of {verifier.name!r}"))
    asking = _Asking(
        verifier, digest, Prompt(verifier, episode), client, blobs, clock, limiter, limits, redact,
        applied,
    )  # fmt: skip
    heard: list[Heard] = []

    async def sample(number: int) -> None:
        heard.extend(await asking.sample(number))

    async with anyio.create_task_group() as group:
        for number in range(1, verifier.samples + 1):
            group.start_soon(sample, number)
    heard.sort(key=lambda one: (one.event.sample, one.event.attempt))
    duration = round(clock.monotonic() - began, 6)
    verdict, warnings = conclude(verifier, heard, digest=digest, duration=duration)
    return JudgeResult(events=[one.event for one in heard], verdict=verdict, warnings=warnings)


async def recorded_judge(
    verifier: AgentVerifier,
    replies: Sequence[JudgeSampled],
    *,
    digest: str,
    blobs: BlobStore,
    duration: float = 0.0,
) -> JudgeResult:
    """The verdict from a judge's recorded replies, read again; no model is called.

    With an unchanged verifier, and the `duration` of the recorded verdict, it is the recorded one
    to the byte. With another rubric the same replies are read by the new one. Raises
    NothingRecorded where there are none.
    """
    if not replies:
        raise NothingRecorded(
            f"the trial has no recorded replies of judge {verifier.name!r}; call its model with "
            "--call-models"
        )
    heard = [await _read_again(verifier, reply, blobs) for reply in replies]
    verdict, warnings = conclude(verifier, heard, digest=digest, duration=duration)
    return JudgeResult(events=[one.event for one in heard], verdict=verdict, warnings=warnings)


def unavailable_judge(
    verifier: AgentVerifier, error: JudgeUnavailable, *, digest: str
) -> JudgeResult:
    """The verdict where no client could be had at all."""
    failed = VerifierFailed(
        verifier=verifier.name,
        verifier_kind="agent",
        version=verifier.version,
        digest=digest,
        weight=verifier.weight,
        error=str(error),
        category=error.category,
        infrastructure=True,
        model=verifier.model,
        duration=0.0,
    )
    return JudgeResult(events=[], verdict=failed)


def _failure(error: CallFailed) -> Literal["unreachable", "unavailable", "rejected", "cost_limit"]:
    match error.failure:
        case "cut_off" | "differs":
            return "unreachable"
        case failure:
            return failure


class _Asking:
    """One judge asking about one episode."""

    def __init__(
        self, verifier: AgentVerifier, digest: str, prompt: Prompt, client: JudgeClient,
        blobs: BlobStore, clock: Clock, limiter: anyio.CapacityLimiter | None,
        limits: Sequence[CostLimit], redact: Callable[[str], str], applied: str | None,
    ) -> None:  # fmt: skip
        self._verifier = verifier
        self._digest = digest
        self._prompt = prompt
        self._prompt_digest = prompt.digest
        self._client = client
        self._blobs = blobs
        self._clock = clock
        self._limiter = limiter
        self._limits = limits
        self._redact = redact
        self._applied = applied

    async def sample(self, number: int) -> list[Heard]:
        """One sample's replies, until one fits or none is to be had."""
        heard: list[Heard] = []
        left = self._verifier.timeout_sec
        malformed, reason = "", ""
        for attempt in range(1, ASKS + 1):
            messages = self._prompt.messages(
                secrets.token_hex(16), malformed=malformed, reason=reason
            )
            try:
                reply, latency = await self._call(messages, left)
            except CallFailed as error:
                heard.append(self._lost(number, attempt, error))
                break
            left -= latency
            text = self._redact(without_surrogates(reply.text)[0])
            read = read_reply(text, self._verifier.criteria, reply.finish)
            heard.append(await self._heard(number, attempt, reply, text, latency, read))
            if isinstance(read, Marks):
                break
            malformed, reason = ("" if reply.finish == "error" else text), read.told
        return heard

    async def _call(self, messages: list[dict[str, str]], left: float) -> tuple[Reply, float]:
        """One reply and the seconds that it took. Raises CallFailed, past the deadline too."""
        async with AsyncExitStack() as stack:
            if self._limiter is not None:
                await stack.enter_async_context(self._limiter)
            for limit in self._limits:
                limit.check()
            began = self._clock.monotonic()
            with anyio.move_on_after(max(left, 0.0)):
                reply = await self._client.ask(self._verifier.model, messages, self._prompt.schema)
                for limit in self._limits:
                    limit.add(reply.usage)
                return reply, round(self._clock.monotonic() - began, 6)
        raise CallFailed(
            f"no reply within the {self._verifier.timeout_sec:g} s that a sample has",
            "unreachable",
        )

    async def _heard(
        self, number: int, attempt: int, reply: Reply, text: str, latency: float,
        read: Read,
    ) -> Heard:  # fmt: skip
        scores, error = _taken(read)
        event = JudgeSampled(
            verifier=self._verifier.name,
            sample=number,
            attempt=attempt,
            valid=error is None,
            reply=await store_text(text, self._blobs),
            error=error,
            scores=scores,
            model=self._verifier.model,
            model_reported=None if reply.model is None else self._redact(reply.model),
            prompt_digest=self._prompt_digest,
            usage=reply.usage,
            latency=latency,
            finish=reply.finish,
            applied=self._applied,
            digest=self._digest,
        )
        return Heard(event, read)

    def _lost(self, number: int, attempt: int, error: CallFailed) -> Heard:
        event = JudgeSampled(
            verifier=self._verifier.name,
            sample=number,
            attempt=attempt,
            valid=False,
            reply="",
            error=self._redact(without_surrogates(str(error))[0]),
            model=self._verifier.model,
            prompt_digest=self._prompt_digest,
            usage=Usage(model_calls=0 if error.failure == "cost_limit" else 1),
            latency=0.0,
            failure=_failure(error),
            applied=self._applied,
            digest=self._digest,
        )
        return Heard(event, None)


async def _read_again(verifier: AgentVerifier, recorded: JudgeSampled, blobs: BlobStore) -> Heard:
    if recorded.failure is not None:
        return Heard(recorded, None)
    text = recorded.reply
    if isinstance(text, BlobRef):
        text = (await blobs.get(text)).decode()
    read = read_reply(text, verifier.criteria, recorded.finish)
    scores, error = _taken(read)
    event = msgspec.structs.replace(recorded, valid=error is None, error=error, scores=scores)
    return Heard(event, read)


def _taken(read: Read) -> tuple[dict[str, float], str | None]:
    """Scores and error as the event has them."""
    if isinstance(read, Malformed):
        return {}, read.reason
    return escape(read.scores), None
