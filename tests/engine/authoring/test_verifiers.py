"""Verifiers and tasks as their authors write them, and what is refused at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from trialog import (
    AgentVerifier,
    DeterministicVerifier,
    HumanVerifier,
    RubricCriterion,
    Task,
    total_reward,
)
from trialog.engine.errors import ConfigError


def _check(episode: object) -> dict[str, Any]:
    return {"score": 1.0}


def _reward(step: object) -> float:
    return 1.0


ONE = RubricCriterion(name="tone", description="Polite?")


def test_a_verifier_needs_something_to_do() -> None:
    """A verifier has at least one of check, reward and hindsight."""
    with pytest.raises(ConfigError, match="verifier 'v' has neither check, reward nor hindsight"):
        DeterministicVerifier("v")
    DeterministicVerifier("v", hindsight=lambda trial: iter(()))


def test_total_reward_needs_a_reward() -> None:
    """`total_reward` without a reward would always score 0, and is refused."""
    with pytest.raises(ConfigError, match="scores by total_reward but has no reward"):
        DeterministicVerifier("v", check=total_reward)
    made = DeterministicVerifier("v", check=total_reward, reward=_reward)
    assert repr(made.check) == "total_reward"


def test_defaults() -> None:
    """A verifier weighs 1, has version 0.1.0, and a minute's time."""
    made = DeterministicVerifier("v", check=_check)

    assert (made.weight, made.version, made.timeout_sec, made.kind) == (
        1.0, "0.1.0", 60.0, "deterministic",
    )  # fmt: skip
    assert (ONE.weight, ONE.min_score, ONE.max_score, ONE.blocker) == (1.0, 0.0, 1.0, False)


RUBRICS: list[Callable[..., Any]] = [
    lambda criteria: AgentVerifier("v", model="m", instructions="", criteria=criteria),
    lambda criteria: HumanVerifier("v", instructions="", criteria=criteria),
]


@pytest.mark.parametrize("make", RUBRICS, ids=["agent", "human"])
@pytest.mark.parametrize(
    ("criteria", "words"),
    [
        ([], "verifier 'v' has no criteria"),
        ([ONE, ONE], "criterion 'tone': the name is taken"),
        (
            [RubricCriterion(name="a", description="", min_score=1, max_score=1)],
            "criterion 'a': the range 1 to 1 is empty",
        ),
        (
            [RubricCriterion(name="a", description="", max_score=math.nan)],
            "criterion 'a': the range 0 to nan is empty",
        ),
        (
            [RubricCriterion(name="a", description="", weight=-1)],
            "criterion 'a': weight is -1; it must be 0 or more",
        ),
    ],
)
def test_rubrics(make: Callable[..., Any], criteria: list[RubricCriterion], words: str) -> None:
    """A rubric that can't be scored is refused, with verifier and criterion."""
    make([ONE])
    with pytest.raises(ConfigError, match=words):
        make(criteria)


def test_samples() -> None:
    """A judge is asked at least once."""
    with pytest.raises(ConfigError, match="verifier 'v': samples is 0; it must be 1 or more"):
        AgentVerifier("v", model="m", instructions="", criteria=[ONE], samples=0)


def test_names_are_unique_in_a_task() -> None:
    """A task lists each verifier's name once."""
    verifier = DeterministicVerifier("v", check=_check)

    with pytest.raises(ConfigError, match="task 't' lists two verifiers of the name 'v'"):
        Task("t", verifiers=[verifier, verifier])


def test_something_scores_a_task() -> None:
    """At least one verifier of a task scores it; a judge or a person does, too."""
    rewards = DeterministicVerifier("v", reward=_reward)
    person = HumanVerifier("p", instructions="", criteria=[ONE])

    with pytest.raises(ConfigError, match="task 't' has no verifier with a check"):
        Task("t", verifiers=[rewards])
    assert len(Task("t", verifiers=[rewards, person]).verifiers) == 2
    assert Task("t").verifiers == []


def test_weights_that_say_nothing() -> None:
    """Weights that sum to nothing are refused."""
    with pytest.raises(ConfigError, match="task 't': the weights of its verifiers sum to 0"):
        Task("t", verifiers=[DeterministicVerifier("v", check=_check, weight=0)])


def test_a_task_without_an_environment() -> None:
    """A task without an environment has one without apps."""
    task = Task("t", "Say hello.", expected="hello")

    assert task.environment.apps == {}
    assert (task.view.instructions, task.view.expected) == ("Say hello.", "hello")
    assert task.view.initial_state is None
