"""steps.jsonl: a line an action, with the acting app's state before and after it.

States are rebuilt from those that were recorded in full and the patches on them. A value over
16 KiB stays the reference to its blob.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from ..events.errors import LogCorrupt
from ..events.kinds import ActionTaken, EnvironmentReset, StepRewarded, StepRewardFailed
from ..events.kinds.parts import StateChange
from ..events.values import BlobRef, Json, Text
from .document import compact, known_seconds, line
from .patch import PatchError, apply_patch
from .texts import reference
from .trial import TrialView, with_line


class StepReward(msgspec.Struct, frozen=True, gc=False):
    """What one verifier said of one step."""

    verifier: str
    version: str
    value: float | None
    error: Text | None


class StepLine(msgspec.Struct, frozen=True, gc=False):
    """One line of steps.jsonl."""

    event_id: str
    turn: int
    app: str
    action: str
    arguments: Json | None
    observation: Json | None
    error: Text | None
    previous_state: msgspec.Raw | None
    current_state: msgspec.Raw | None
    rewards: Sequence[StepReward]
    started_at: str | None
    duration_sec: float | None


def steps(view: TrialView, blobs: Mapping[str, bytes]) -> bytes:
    """The file's bytes. `blobs` has those that `state_blobs` names.

    Raises LogCorrupt where a patch does not fit the state it was made for.
    """
    rewards = _rewards(view)
    world: dict[str, _State] = {}
    lines: list[bytes] = []
    for event, payload in view.history:
        match payload:
            case EnvironmentReset(apps=apps):
                world.update((name, _State(app.state)) for name, app in apps.items())
            case ActionTaken() as step:
                previous = world.get(step.app)
                previous_raw = previous.raw if previous else None
                if step.states:
                    _change(world, step.states, blobs, event.id)
                current = world.get(step.app)
                lines.append(
                    line(
                        StepLine(
                            event.id,
                            step.turn,
                            step.app,
                            step.action,
                            step.arguments,
                            step.observation,
                            step.error,
                            previous_raw,
                            current.raw if current else None,
                            rewards.get(event.id, ()),
                            step.started_at or None,
                            known_seconds(step.duration, step.untimed),
                        )
                    )
                )
            case _:
                pass
    return b"".join(lines)


def state_blobs(view: TrialView) -> list[BlobRef]:
    """The states that are blobs and have patches on them, so that their bytes are needed."""
    latest: dict[str, BlobRef | None] = {}
    needed: list[BlobRef] = []
    for _, payload in view.history:
        match payload:
            case EnvironmentReset(apps=apps):
                latest.update((name, reference(app.state)) for name, app in apps.items())
            case ActionTaken(states=states):
                for name, change in states.items():
                    if change.patch is None:
                        latest[name] = reference(_full(change))
                    elif (ref := latest.get(name)) is not None:
                        needed.append(ref)
                        latest[name] = None
            case _:
                pass
    return needed


def _rewards(view: TrialView) -> dict[str, list[StepReward]]:
    """What each step got by its end; labels that were applied later are not among it."""
    found: dict[str, list[StepReward]] = {}
    for _, given in view.ledger[: view.ledger_at_finish]:
        match given:
            case StepRewarded():
                reward = StepReward(given.verifier, given.version, given.value, None)
                found.setdefault(given.target.event_id, []).append(reward)
            case StepRewardFailed():
                error = with_line(given.error, given.line)
                reward = StepReward(given.verifier, given.version, None, error)
                found.setdefault(given.step, []).append(reward)
            case _:
                pass
    return found


class _State:
    """An app's state: its JSON text, and a tree that patches are applied to once there is one."""

    __slots__ = ("_tree", "raw")

    def __init__(self, value: Json) -> None:
        self.raw = msgspec.Raw(compact(value))
        self._tree: tuple[Json] | None = None

    def patch(self, operations: list[Json], blobs: Mapping[str, bytes]) -> None:
        if self._tree is None:
            value = msgspec.json.decode(self.raw)
            if (ref := reference(value)) is not None:
                value = msgspec.json.decode(blobs[ref.blob])
            self._tree = (value,)
        value = apply_patch(self._tree[0], operations)
        self._tree = (value,)
        self.raw = msgspec.Raw(compact(value))


def _change(
    world: dict[str, _State],
    changes: Mapping[str, StateChange],
    blobs: Mapping[str, bytes],
    event_id: str,
) -> None:
    for name, change in changes.items():
        if change.patch is None:
            world[name] = _State(_full(change))
        elif (state := world.get(name)) is None:
            raise LogCorrupt(f"event {event_id}", f"a patch on app {name!r}, which has no state")
        else:
            try:
                state.patch(change.patch, blobs)
            except PatchError as error:
                raise LogCorrupt(f"event {event_id}", f"state of app {name!r}: {error}") from error


def _full(change: StateChange) -> Json:
    """The state in a change: a list of one, or the blob that holds it."""
    full = change.full
    return cast("Sequence[Json]", full)[0] if isinstance(full, list) else full
