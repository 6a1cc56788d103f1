"""What a reviewer gets beside its sandbox, settled before anything is written: whether there is a
gateway to its model, and that the network is what it needs."""

from __future__ import annotations

from typing import NamedTuple

from ..agents import Agent, InstalledAgent
from ..agents.chat import ChatAgent
from ..errors import ConfigError
from ..job.config import JobConfig
from ..job.gateway import settle_gateway
from ..job.services import Services
from .config import ReviewConfig


class Settled(NamedTuple):
    """What was settled, and what the user should be told of it."""

    gateway: bool
    told: list[str]


def settle(config: ReviewConfig, agent: Agent, services: Services) -> Settled:
    """Settle it. Raises ConfigError for what can't be had, or could not be honoured."""
    if isinstance(agent, InstalledAgent) and agent.network != "none" and not config.open_network:
        when = "while it is installed" if agent.network == "install" else "while it works"
        raise ConfigError(
            f"{config.agent} needs a network {when} (network in its manifest), and reviewers have "
            "none; bring what it needs in its folder or the image, or give --allow-open-network",
            key="--agent",
        )
    if isinstance(agent, ChatAgent):
        return Settled(False, [])
    job, told = settle_gateway(job_config(config, services), {config.agent: agent}, services)
    gateway = job.model_gateway == "on"
    if not gateway and (limit := config.first_limit) is not None:
        raise ConfigError(
            f"holds for calls of a model that trialog sees, and it sees none of {config.agent}: "
            "its program must call the --model that you name through the gateway, which needs an "
            "endpoint's key in the environment",
            key=limit,
        )
    return Settled(gateway, told)


def job_config(config: ReviewConfig, services: Services, *, gateway: bool = False) -> JobConfig:
    """What reviewers' trials are run by."""
    return JobConfig(
        tasks=[],
        agents=[config.agent],
        models=[config.model] if config.model else [],
        sandbox=services.backend.name,
        image=config.image,
        concurrency=config.concurrency,
        agent_env=dict(services.agent_env),
        max_cost=config.max_cost,
        prices=config.prices,
        model_gateway="on" if gateway else "auto",
        save_outputs=False,  # all that counts is the answer, which is an artifact
    )
