"""Whether a job has a model gateway."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.fakes import FakeBackend
from helpers.jobs import services
from trialog.engine.agents import agent_by_name
from trialog.engine.errors import ConfigError
from trialog.engine.job.config import JobConfig
from trialog.engine.job.gateway import settle_gateway
from trialog.engine.models.endpoint import ModelUnavailable
from trialog.engine.models.prices import Price

KEY = {"OPENAI_API_KEY": "sk-very-secret-key"}
COMMAND = "command:/bin/true"

Settle = Callable[..., tuple[str, list[str]]]


@pytest.fixture
def settle(tmp_path: Path) -> Settle:
    """What comes of a configuration."""
    backend = FakeBackend()
    log: Any = None  # nothing is written

    def make(
        *, environ: dict[str, str] = KEY, why: str | None = None, **given: Any
    ) -> tuple[str, list[str]]:
        backend.no_listener = why
        config = JobConfig(**{"tasks": ["t"], "agents": [COMMAND], "models": ["m"], **given})
        agents = {name: agent_by_name(name) for name in config.agents}
        job = services(log, backend, tmp_path, environ=environ)
        settled, told = settle_gateway(config, agents, job)
        return settled.model_gateway, told

    return make


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "on"),
        ({"model_gateway": "on"}, "on"),
        ({"environ": {"ANTHROPIC_API_KEY": "word"}}, "on"),
        ({"agents": ["chat", COMMAND]}, "on"),
        ({"agent_env": KEY}, "on"),
        ({"agent_env": {"OPENAI_API_KEY": ""}}, "on"),
        ({"model_gateway": "off"}, "off"),
        ({"models": []}, "auto"),
        ({"environ": {}}, "auto"),
        ({"environ": {"OPENAI_API_KEY": "  "}}, "auto"),
        ({"agents": ["chat"]}, "auto"),
        ({"agents": ["nop", "oracle"]}, "auto"),
        ({"agent_env": {"OPENAI_API_KEY": "sk-of-the-agent"}}, "auto"),
        ({"agent_env": {"ANTHROPIC_BASE_URL": "http://elsewhere"}}, "auto"),
    ],
)
def test_where_there_is_one(settle: Settle, given: dict[str, Any], expected: str) -> None:
    """With a model, a key and an agent that works inside, unless the agent has its own; what is
    only handed on counts as the engine's."""
    assert (expected, []) == settle(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"models": []}, "--model-gateway: it needs a model; name it with --model"),
        ({"agents": ["chat"]}, "no agent of this job calls a model from its sandbox"),
        ({"agent_env": {"OPENAI_API_KEY": "sk-other"}}, "agents are given another OPENAI_API_KEY"),
        ({"environ": {}}, "neither OPENAI_API_KEY nor ANTHROPIC_API_KEY is set"),
        ({"environ": KEY | {"OPENAI_BASE_URL": "x"}}, "OPENAI_BASE_URL is 'x', which is no addr"),
        ({"why": "not here"}, "--model-gateway: not here"),
    ],
)
def test_one_that_can_not_be_had(settle: Settle, given: dict[str, Any], message: str) -> None:
    """Where it was asked for, the job is refused with the reason."""
    with pytest.raises((ConfigError, ModelUnavailable), match=message):
        settle(model_gateway="on", **given)


def test_a_replay_of_what_came_through_it(settle: Settle) -> None:
    """It has one without any key, and is refused without one."""
    assert ("on", []) == settle(replay_models="j", environ={})
    assert ("auto", []) == settle(replay_models="j", environ={}, agents=["chat"])
    assert ("off", []) == settle(replay_models="j", agents=["chat"], model_gateway="off")
    with pytest.raises(ConfigError, match="are answered through it again; leave `off` out"):
        settle(replay_models="j", model_gateway="off")
    with pytest.raises(ConfigError, match="--model-gateway: not here"):
        settle(replay_models="j", why="not here")


def test_an_engine_that_can_not_be_entered(settle: Settle) -> None:
    """By itself the job goes without, and says why."""
    assert ("auto", ["agents' calls of their models are not seen: not here"]) == settle(
        why="not here"
    )


def test_a_cost_limit_needs_prices(settle: Settle) -> None:
    """Of every model that may be called; else it could not be held."""
    price = Price(input=1, output=1)
    with pytest.raises(ConfigError, match=r"--max-cost: .* there is none for m; give --prices"):
        settle(max_cost=1.0)
    with pytest.raises(ConfigError, match="there is none for small"):
        settle(max_cost=1.0, prices={"m": price}, also_models=["small"])
    both = {"m": price, "small": price}
    assert "on" == settle(max_cost=1.0, prices=both, also_models=["small"])[0]
    assert "off" == settle(max_cost=1.0, model_gateway="off")[0]
