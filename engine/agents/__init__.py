"""Agents: what works on a task in its sandbox."""

from .assignment import Assignment as Assignment
from .installed import InstalledAgent as InstalledAgent
from .names import agent_by_name as agent_by_name
from .names import agent_from_snapshot as agent_from_snapshot
from .names import agent_name as agent_name
from .protocol import Agent as Agent
from .protocol import AgentContext as AgentContext
from .protocol import AgentOutcome as AgentOutcome
