"""Whether a job has a model gateway, settled once, when it starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from ..agents import Agent, InstalledAgent
from ..agents.running import calls_from_inside
from ..errors import ConfigError
from ..models.endpoint import (
    ANTHROPIC_API_KEY,
    ANTHROPIC_BASE_URL,
    API_KEY,
    BASE_URL,
    read_endpoints,
)
from ..tasks.environment import resolve_env
from .config import JobConfig
from .services import Services

_KEY = "--model-gateway"
_OWN = (BASE_URL, API_KEY, ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY)


def settle_gateway(
    config: JobConfig, agents: Mapping[str, Agent], services: Services
) -> tuple[JobConfig, list[str]]:
    """The configuration with the gateway `on` where there is one, and what to tell of it.

    Raises ConfigError where it is asked for and can't be had, or can't hold a limit.
    """
    replays = config.replay_models is not None
    inside = {name: agent for name, agent in agents.items() if calls_from_inside(agent)}
    if config.model_gateway == "off":
        if replays and inside:
            raise ConfigError(
                f"the recorded calls of {next(iter(inside))} came through it, and are answered "
                "through it again; leave `off` out",
                key=_KEY,
            )
        return config, []
    # What is only handed on (as by --env-file) is the gateway's to call, and is replaced inside.
    given = [
        name
        for env in [config.agent_env, *_manifests(inside, services.environ)]
        for name in _OWN
        if env.get(name, "") not in ("", services.environ.get(name))
    ]
    asked = config.model_gateway == "on" or (replays and bool(inside))
    keys = [name for name in (API_KEY, ANTHROPIC_API_KEY) if services.environ.get(name, "").strip()]
    if not asked and (not inside or not config.models or not keys or given):
        return config, []
    if not config.models:
        raise ConfigError("it needs a model; name it with --model", key=_KEY)
    if not inside:
        raise ConfigError("no agent of this job calls a model from its sandbox", key=_KEY)
    if given:
        raise ConfigError(
            f"agents are given another {given[0]}, which the gateway sets; leave one of them out",
            key=_KEY,
        )
    if not replays:
        read_endpoints(services.environ)
    if (why := services.backend.no_listener) is not None:
        if asked:
            raise ConfigError(why, key=_KEY)
        return config, [f"agents' calls of their models are not seen: {why}"]
    _refuse_unpriced(config)
    return replace(config, model_gateway="on"), []


def _manifests(
    agents: Mapping[str, Agent], environ: Mapping[str, str]
) -> Iterator[Mapping[str, str]]:
    """The variables that manifests give their agents."""
    for agent in agents.values():
        if isinstance(agent, InstalledAgent):
            yield resolve_env(agent.env, environ).values


def _refuse_unpriced(config: JobConfig) -> None:
    if config.max_cost is None:
        return
    models = [*config.models, *config.also_models]
    unpriced = next((model for model in models if model not in config.prices), None)
    if unpriced is not None:
        raise ConfigError(
            f"the cost limit needs the model's price, and there is none for {unpriced}; give "
            "--prices FILE",
            key="--max-cost",
        )
