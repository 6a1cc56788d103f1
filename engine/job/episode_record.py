"""An episode on its way into the log, and what hooks are given of it at the same time."""

from __future__ import annotations

import msgspec

from ...events.codec import decode_or_none
from ...events.kinds import ActionTaken, AppQueried, EnvironmentReset, EpisodeEnded, TrialEvent
from ...events.kinds.parts import AppState, StateChange
from ...events.values import INLINE_LIMIT, Json, Text, as_json, escape
from ...projections.episode import EpisodeData, EpisodeFold, RewardData, TaskData, episode_blobs
from ...projections.source import read_trial
from ..hooks.protocol import HookSource
from ..redacting_log import redacted
from ..stored import store_text
from ..worlds.changes import StateRecorder
from ..worlds.world import Acted, WorldReset
from .history import History


class EpisodeRecord:
    """Tells an episode's events, and folds them as they were told.

    What is redacted in the log is redacted for hooks, too, so that a replay sees the same.
    """

    def __init__(self, history: History, task: TaskData) -> None:
        self._history = history
        self._redactor = history.job.redactor
        self._log_blobs = history.job.log.blobs
        self._fold = EpisodeFold(history.trial, task)
        self._blobs: dict[str, bytes] = {}
        clean = None if self._redactor.empty else self._redactor.value
        self._states = StateRecorder(clean=clean)
        self._turn = 0
        self.live: set[str] = set()
        """Apps whose state is shared with others."""

    async def load(self) -> None:
        """Take in what the log has of the episode, here or where this execution goes on from."""
        events = await read_trial(self._history.job.log, self._history.trial)
        for ref in episode_blobs(events):
            self._blobs[ref.blob] = await self._log_blobs.get(ref)
        for event in events:
            payload = decode_or_none(event)
            if payload is not None:
                self._fold.feed(event.id, payload, self._blobs)

    async def reset(self, reset: WorldReset, seed: int) -> None:
        """The world was made."""
        apps: dict[str, AppState] = {}
        for name, app in reset.apps.items():
            state = await self.json(app.state)
            apps[name] = msgspec.convert({"state": state, "control": app.control}, AppState)
            self._states.start(name, self._clean(app.state))
            if app.control == "live":
                self.live.add(name)
        observation = await self.json(reset.observation)
        self.told(EnvironmentReset(apps=apps, seed=seed, observation=observation))

    async def step(
        self,
        acted: Acted,
        started_at: str,
        duration: float,
        *,
        tool_call: str | None = None,
        model_call: str | None = None,
    ) -> int:
        """An action was taken; its number, from 0."""
        self._turn += 1
        states: dict[str, StateChange] = {}
        for name, state in acted.states.items():
            recorded = self._states.record(name, state)
            states[name] = recorded.change
            if recorded.blob is not None:
                await self._store(recorded.blob)
        self.told(
            ActionTaken(
                turn=self._turn,
                tool_call=tool_call,
                model_call=model_call,
                app=acted.app,
                action=acted.action,
                arguments=await self.json(acted.arguments),
                observation=await self.json(acted.observation),
                error=None if acted.error is None else await self.text(acted.error),
                states=states,
                started_at=started_at,
                duration=round(duration, 6),
                observed_by="host",
            )
        )
        return self._turn - 1

    async def query(
        self, verifier: HookSource, app: str, action: str, arguments: dict[str, Json],
        *, answer: Json = None, error: str | None = None, step: str | None, live: bool,
    ) -> None:  # fmt: skip
        """A verifier asked an app."""
        self.told(
            AppQueried(
                verifier=verifier.name, digest=verifier.digest, app=app, action=action,
                arguments=await self.json(arguments), answer=await self.json(answer),
                error=None if error is None else await self.text(error), step=step, live=live,
            )
        )  # fmt: skip

    async def ended(
        self, final: dict[str, Json], *, terminated: bool, truncated: bool, reason: str | None,
        answer: list[Json] | None,
    ) -> EpisodeEnded:  # fmt: skip
        """The event for the episode's end; it is not told yet."""
        return EpisodeEnded(
            apps={name: await self.json(state) for name, state in final.items()},
            terminated=terminated,
            truncated=truncated,
            reason=reason,
            answer=None if answer is None else [await self.json(answer[0])],
        )

    def emit(self, event: TrialEvent) -> str:
        """Queue one event of the agent's, and fold it; its id."""
        self.told(event)
        return self._history.record.told[-1]

    def told(self, *payloads: TrialEvent) -> None:
        """Queue events of the episode, in one append, and fold them as the log will have them."""
        payloads = tuple(redacted(payload, self._redactor) for payload in payloads)
        self._history.note(*payloads)
        for event_id, payload in zip(self._history.record.told, payloads, strict=True):
            self._fold.feed(event_id, payload, self._blobs)

    def data(self, *coming: TrialEvent) -> EpisodeData:
        """The episode until now, or as it will be with what is told next."""
        for payload in coming:
            self._fold.feed("", payload, self._blobs)
        return self._fold.data(self._blobs)

    def earned(self) -> list[RewardData]:
        """What the trial has earned until now."""
        return self._fold.earned()

    def step_id(self, number: int) -> str:
        """The event id of a step."""
        return self._fold.step(number, self._blobs).event_id

    async def text(self, text: str) -> Text:
        """Text as the log will have it: a blob where it is long."""
        stored = await store_text(self._redactor.text(text), self._log_blobs)
        if not isinstance(stored, str):
            self._blobs[stored.blob] = await self._log_blobs.get(stored)
        return stored

    def _clean(self, value: Json) -> Json:
        return value if self._redactor.empty else self._redactor.value(value)

    async def json(self, value: Json) -> Json:
        """A value as an event holds it."""
        escaped, encoded = as_json(escape(self._clean(value)))
        return escaped if len(encoded) <= INLINE_LIMIT else await self._store(encoded)

    async def _store(self, data: bytes) -> Json:
        ref = await self._log_blobs.put(data)
        self._blobs[ref.blob] = data
        return ref
