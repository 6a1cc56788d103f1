"""Agents: what works on a task in its sandbox."""

from .names import agent_by_name as agent_by_name
from .protocol import Agent as Agent
from .protocol import AgentContext as AgentContext
from .protocol import AgentOutcome as AgentOutcome
