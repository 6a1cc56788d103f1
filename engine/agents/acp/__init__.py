"""Agents that speak the Agent Client Protocol, in the sandbox; the engine is their client.

Only `forms` knows the protocol's package; what imports it is not imported before an agent runs.
"""

from .agent import AcpAgent as AcpAgent
from .agent import require_package as require_package
from .agent import run_acp as run_acp
