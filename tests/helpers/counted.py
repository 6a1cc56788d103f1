"""Episodes of a counter, as hooks are given them."""

from __future__ import annotations

from typing import Any

import msgspec

from trialog.projections.episode import AppData, EpisodeData, StepData, TaskData


def counting(*numbers: int, **changes: Any) -> EpisodeData:
    """An episode in which each number was added in turn; a negative one was refused."""
    steps: list[StepData] = []
    value = 0
    for turn, number in enumerate(numbers, 1):
        refused = number < 0
        value += 0 if refused else number
        steps.append(
            StepData(
                event_id=f"e{turn}",
                turn=turn,
                app="counter",
                action="add",
                arguments={"n": number},
                observation=None if refused else value,
                error="n must not be negative" if refused else None,
                states={} if refused else {"counter": {"value": value}},
            )
        )
    data = EpisodeData(
        trial="count__1",
        task=TaskData(name="count", info={"goal": 6}, expected="six"),
        apps={"counter": AppData(initial={"value": 0}, final={"value": value})},
        first_observation="0",
        steps=steps,
        answer=["six"],
        terminated=True,
        model_calls=[{"event_id": "m1", "model": "m"}],
    )
    return msgspec.structs.replace(data, **changes)
