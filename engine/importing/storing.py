"""Values as other systems recorded them, made into what events hold: escaped, and large ones as
blobs."""

from __future__ import annotations

from typing import cast

import msgspec

from ...events.kinds import (
    ActionTaken,
    AgentFailed,
    AgentFinished,
    AgentMessage,
    EnvironmentReset,
    EpisodeEnded,
    Event,
    ModelCalled,
    StepRewarded,
    TrialErrored,
    TrialScored,
    TrialUnscored,
    VerifierFailed,
    VerifierScored,
)
from ...events.kinds.parts import AppState, StateChange
from ...events.log import BlobStore
from ...events.values import BlobRef, Json, Text, escape
from ..stored import store_json, store_text


async def stored(payload: Event, blobs: BlobStore) -> Event:
    """A payload with the values of others as the log holds them."""
    replace = msgspec.structs.replace
    match payload:
        case ActionTaken():
            return replace(
                payload,
                arguments=await _json(payload.arguments, blobs),
                observation=await _json(payload.observation, blobs),
                error=await _text(payload.error, blobs),
                states={
                    name: StateChange(full=await _one(change.full, blobs))
                    for name, change in payload.states.items()
                },
            )
        case ModelCalled():
            return replace(
                payload,
                request=await store_json(payload.request, blobs),
                response=await _json(payload.response, blobs),
                error=await _text(payload.error, blobs),
            )
        case AgentMessage():
            return replace(
                payload,
                text=await store_text(str(payload.text), blobs),
                reasoning=await _text(payload.reasoning, blobs),
            )
        case AgentFinished():
            return replace(
                payload,
                answer=await _one(payload.answer, blobs),
                error=await _text(payload.error, blobs),
            )
        case EnvironmentReset():
            return replace(
                payload,
                apps={
                    name: AppState(state=await _json(app.state, blobs), control=app.control)
                    for name, app in payload.apps.items()
                },
                observation=await _json(payload.observation, blobs),
            )
        case EpisodeEnded():
            return replace(
                payload,
                apps={name: await _json(state, blobs) for name, state in payload.apps.items()},
                answer=await _one(payload.answer, blobs),
            )
        case VerifierScored():
            return replace(
                payload,
                scores=escape(payload.scores),
                evidence=[await store_text(str(text), blobs) for text in payload.evidence],
                feedback=await _text(payload.feedback, blobs),
                details={
                    name: await _json(value, blobs)
                    for name, value in zip(
                        escape(dict.fromkeys(payload.details)),
                        payload.details.values(),
                        strict=True,
                    )
                },
            )
        case StepRewarded():
            return replace(payload, metadata=escape(payload.metadata))
        case TrialScored():
            return replace(payload, scores=escape(payload.scores), rewards=escape(payload.rewards))
        case AgentFailed() | VerifierFailed() | TrialErrored() | TrialUnscored():
            return replace(payload, error=await store_text(str(payload.error), blobs))
        case _:
            return payload


async def _json(value: Json | None, blobs: BlobStore) -> Json | None:
    return value if value is None or isinstance(value, BlobRef) else await store_json(value, blobs)


async def _one(wrapped: Json | None, blobs: BlobStore) -> Json | None:
    """A value in the list of one that tells null from none."""
    return None if wrapped is None else [await store_json(cast("list[Json]", wrapped)[0], blobs)]


async def _text(text: Text | None, blobs: BlobStore) -> Text | None:
    return text if text is None or isinstance(text, BlobRef) else await store_text(text, blobs)
