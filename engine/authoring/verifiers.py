"""Verifiers as their authors write them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from ..errors import ConfigError
from .views import Episode, HindsightTrial, Step


class VerifierOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a check gives: a score, usually 0 to 1, and how it came about."""

    score: float
    scores: dict[str, float] = {}
    evidence: list[str] = []
    feedback: str | None = None


class RubricCriterion(msgspec.Struct, frozen=True, kw_only=True):
    """One question that a judge or a person scores."""

    name: str
    description: str
    weight: float = 1.0
    min_score: float = 0.0
    max_score: float = 1.0
    blocker: bool = False
    """The trial passes only when it is fully met."""


Check: TypeAlias = Callable[[Episode], VerifierOutput | Mapping[str, Any]]
Reward: TypeAlias = Callable[[Step], float | None]
Hindsight: TypeAlias = Callable[[HindsightTrial], Iterator[Any]]


class _TotalReward:
    def __repr__(self) -> str:
        return "total_reward"


total_reward = _TotalReward()
"""As a `check`: the score is the sum of the same verifier's own step rewards."""


class DeterministicVerifier:
    """A verifier in code: a check of the end, a reward for each step, credit in hindsight.

    Functions come from a Python file, since the verifier's digest is taken from it. `check` may
    also be a command (a list of words) that reads the episode as JSON and writes the output as
    JSON, or `total_reward`.
    """

    kind: Literal["deterministic"] = "deterministic"

    def __init__(
        self,
        name: str,
        *,
        check: Check | Sequence[str] | _TotalReward | None = None,
        reward: Reward | None = None,
        hindsight: Hindsight | None = None,
        version: str = "0.1.0",
        weight: float = 1.0,
        timeout_sec: float = 60.0,
        folder: Path | None = None,
    ) -> None:
        self.name = name
        self.check = check
        self.reward = reward
        self.hindsight = hindsight
        self.version = version
        self.weight = weight
        self.timeout_sec = timeout_sec
        self.folder = folder
        if check is None and reward is None and hindsight is None:
            raise ConfigError(
                f"verifier {name!r} has neither check, reward nor hindsight; it needs one"
            )
        if check is total_reward and reward is None:
            raise ConfigError(
                f"verifier {name!r} scores by total_reward but has no reward, so it would always "
                "score 0; give it a reward"
            )


class AgentVerifier:
    """A model as judge: it scores the episode against criteria.

    `max_cost`, in US dollars, is what judging one trial may cost; no call is made past it.
    """

    kind: Literal["agent"] = "agent"

    def __init__(
        self,
        name: str,
        *,
        model: str,
        instructions: str,
        criteria: Sequence[RubricCriterion],
        samples: int = 1,
        version: str = "0.1.0",
        weight: float = 1.0,
        timeout_sec: float = 60.0,
        max_cost: float | None = None,
    ) -> None:
        self.name = name
        self.model = model
        self.instructions = instructions
        self.criteria = list(criteria)
        self.samples = samples
        self.version = version
        self.weight = weight
        self.timeout_sec = timeout_sec
        self.max_cost = max_cost
        check_criteria(name, self.criteria)
        if samples < 1:
            raise ConfigError(f"verifier {name!r}: samples is {samples}; it must be 1 or more")
        if max_cost is not None and not 0 < max_cost < math.inf:
            raise ConfigError(f"verifier {name!r}: max_cost is {max_cost}; it must be above 0")


class HumanVerifier:
    """A person as judge: the trial waits until the scores are submitted."""

    kind: Literal["human"] = "human"

    def __init__(
        self,
        name: str,
        *,
        instructions: str,
        criteria: Sequence[RubricCriterion],
        version: str = "0.1.0",
        weight: float = 1.0,
    ) -> None:
        self.name = name
        self.instructions = instructions
        self.criteria = list(criteria)
        self.version = version
        self.weight = weight
        check_criteria(name, self.criteria)


Verifier: TypeAlias = DeterministicVerifier | AgentVerifier | HumanVerifier


def check_criteria(verifier: str, criteria: Sequence[RubricCriterion]) -> None:
    """Raise ConfigError for a rubric that can't be scored."""
    if not criteria:
        raise ConfigError(f"verifier {verifier!r} has no criteria; a rubric needs at least one")
    names: set[str] = set()
    for criterion in criteria:
        place = f"verifier {verifier!r}, criterion {criterion.name!r}"
        if criterion.name in names:
            raise ConfigError(f"{place}: the name is taken; names are unique in a rubric")
        names.add(criterion.name)
        if not criterion.min_score < criterion.max_score:
            raise ConfigError(
                f"{place}: the range {criterion.min_score:g} to {criterion.max_score:g} is empty"
            )
        if not math.isfinite(criterion.max_score - criterion.min_score):
            raise ConfigError(
                f"{place}: the range {criterion.min_score:g} to {criterion.max_score:g} is too wide"
            )
        if not 0 <= criterion.weight < math.inf:
            raise ConfigError(f"{place}: weight is {criterion.weight}; it must be 0 or more")
    if not 0 < sum(criterion.weight for criterion in criteria) < math.inf:
        raise ConfigError(
            f"verifier {verifier!r}: the weights of its criteria must have a finite sum above 0"
        )


def check_verifiers(task: str, verifiers: Sequence[Verifier]) -> None:
    """Raise ConfigError where a task's verifiers can't judge it together."""
    names: set[str] = set()
    for verifier in verifiers:
        if verifier.name in names:
            raise ConfigError(f"task {task!r} lists two verifiers of the name {verifier.name!r}")
        names.add(verifier.name)
    scoring = [
        v for v in verifiers if not isinstance(v, DeterministicVerifier) or v.check is not None
    ]
    if verifiers and not scoring:
        raise ConfigError(f"task {task!r} has no verifier with a check, so nothing would score it")
    if scoring and not sum(v.weight for v in scoring) > 0:
        raise ConfigError(f"task {task!r}: the weights of its verifiers sum to 0")
