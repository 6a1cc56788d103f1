"""What a review is told to do, as resolved; ReviewStarted has it, for a resume."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from ...events.kinds import ReviewStarted
from ...events.values import Json, escape, unescape
from ..agents import agent_name
from ..agents.chat import CHAT
from ..errors import ConfigError
from ..models.models import ModelLimits
from ..models.prices import Price
from .choosing import Selection

Network = Literal["no-internet", "open"]
REVIEWER_SEC = 1800.0
"""What a reviewer has, where nothing else is said."""
_OF_MODELS = ("max_turns", "max_tokens", "max_cost", "max_total_cost", "prices")


class ReviewConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A review's configuration."""

    agent: str
    model: str | None = None
    selection: Selection = "all"
    image: str | None = None
    concurrency: int = 4
    open_network: bool = False
    rubric: Path | None = None
    tasks_root: Path | None = None
    max_seconds: float = REVIEWER_SEC
    """For one trial's reviewer."""
    max_turns: int | None = None
    """Calls that one trial's reviewer may make of its model; null: 100."""
    max_tokens: int | None = None
    max_cost: float | None = None
    """Dollars that one trial's reviewer may cost."""
    max_total_cost: float | None = None
    """Dollars that all reviewers may cost together."""
    prices: dict[str, Price] = {}
    """What models cost, by their names."""
    single: bool = False
    """One trial was named, not a job."""

    @property
    def network(self) -> Network:
        """As the report has it."""
        return "open" if self.open_network else "no-internet"

    @property
    def first_limit(self) -> str | None:
        """The option of the first limit on its model's calls that was given."""
        return next((_option(name) for name in _OF_MODELS if getattr(self, name)), None)

    @property
    def model_limits(self) -> ModelLimits:
        """What one reviewer may use of its model."""
        limits = ModelLimits(tokens=self.max_tokens, cost=self.max_cost)
        if self.max_turns is None:
            return limits
        return replace(limits, turns=self.max_turns)


def review_config(given: Mapping[str, Any]) -> ReviewConfig:
    """The configuration with these settings. Raises ConfigError for what could not be honoured."""
    if not given.get("agent"):
        raise ConfigError(
            "a review needs a reviewer: give --agent (say command:./reviewer.py), or set "
            "review.agent in trialog.yaml"
        )
    config = msgspec.convert(dict(given), ReviewConfig, dec_hook=_path)
    config = replace(config, agent=agent_name(config.agent))
    if config.agent == "oracle":
        raise ConfigError(
            "the oracle runs a task's reference solution, and a review has none; name a reviewer",
            key="--agent",
        )
    for name in ("concurrency", "max_seconds", "max_turns", "max_tokens", "max_cost",
                 "max_total_cost"):  # fmt: skip
        value = getattr(config, name)
        if value is not None and not 0 < value < float("inf"):
            raise ConfigError(f"must be above 0, found {value:g}", key=_option(name))
    if config.agent == CHAT and config.model is None:
        raise ConfigError("chat needs a model; name it with --model", key="--agent chat")
    if (limit := config.first_limit) is not None and config.model is None:
        raise ConfigError("holds for a model's calls; name it with --model", key=limit)
    limited = config.max_cost is not None or config.max_total_cost is not None
    if limited and config.model not in config.prices:
        raise ConfigError(
            f"the cost limit needs the model's price, and there is none for {config.model}; give "
            "--prices FILE",
            key="--max-cost" if config.max_cost is not None else "--max-total-cost",
        )
    return config


def recorded(config: ReviewConfig) -> Json:
    """The configuration as ReviewStarted has it."""
    return escape(msgspec.to_builtins(config, enc_hook=str))


def resumed_config(started: ReviewStarted, given: Mapping[str, Any]) -> ReviewConfig:
    """The configuration that a review was started with; limits and `-n` may be given anew.

    Raises ConfigError for anything else that differs.
    """
    before: dict[str, Any] = {
        "agent": started.agent, "model": started.model, "selection": started.selection,
        "open_network": started.network == "open", "single": started.single,
    }  # fmt: skip
    if started.config is not None:
        before |= unescape(started.config)
    anew = ("concurrency", "max_seconds", *_OF_MODELS)
    given = {**given, **({"agent": agent_name(given["agent"])} if "agent" in given else {})}
    for name, value in given.items():
        same = str(value) == str(before.get(name)) or (name == "tasks_root" and not started.config)
        if name not in anew and not same:
            raise ConfigError(
                f"review {started.review} was begun with {before.get(name)}, found {value}; a "
                "resume goes on as it was begun. Leave it out, or start another review",
                key=_option(name),
            )
    return review_config({**before, **given})


def _option(name: str) -> str:
    return "-n" if name == "concurrency" else f"--{name.replace('_', '-')}"


def _path(kind: type, value: Any) -> Any:
    return kind(value)
