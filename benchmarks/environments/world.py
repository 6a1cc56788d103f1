"""The world that is played: a counter, five actions to its end, and a verifier with three hooks."""

from __future__ import annotations

import anyio
import msgspec

from trialog import (
    Action,
    Answer,
    App,
    DeterministicVerifier,
    Environment,
    Task,
    VerifierOutput,
    action,
)

ACTIONS = 5


class Count(msgspec.Struct):
    """What the counter shows."""

    value: int = 0


class Counter(App[Count]):
    """Counts; the episode ends at the task's number."""

    def reset(self, task):
        """The first thing that the agent sees."""
        self.goal = task.expected
        return f"The counter is at {self.state.value}."

    @action
    def add(self, n: int) -> int:
        """Add to the counter."""
        self.state.value += n
        return self.state.value

    def terminated(self):
        """When the number is reached."""
        return self.state.value >= self.goal


class Adds:
    """Adds 1 until the world ends."""

    async def act(self, observation, actions):
        """One more."""
        return Action("add", {"n": 1})


class Waits:
    """Waits for a second before every action but the first, as for a model."""

    def __init__(self):
        self.acted = 0

    async def act(self, observation, actions):
        """One more, after a while."""
        if self.acted:
            await anyio.sleep(1.0)
        self.acted += 1
        return Action("add", {"n": 1}) if self.acted <= ACTIONS else Answer(None)


def check(episode):
    """Whether the number was reached."""
    reached = episode.state["value"] == episode.expected
    return VerifierOutput(score=float(reached), evidence=[f"it shows {episode.state['value']}"])


def reward(step):
    """How much nearer the step came."""
    if step.error:
        return -0.1
    return (step.current_state["value"] - step.previous_state["value"]) / step.task.expected


def hindsight(trial):
    """Credit for the last step."""
    steps = trial.steps("add")
    if trial.score and steps:
        yield trial.credit(steps[-1], 1.0 / len(steps))


def counting() -> Task:
    """Count to five."""
    verifier = DeterministicVerifier("reached", check=check, reward=reward, hindsight=hindsight)
    return Task(
        "count-to-five",
        "Bring the counter to exactly 5.",
        environment=Environment([Counter], name="counter", max_turns=20),
        verifiers=[verifier],
        expected=ACTIONS,
    )
