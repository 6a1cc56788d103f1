"""A desk for agents of the Agent Client Protocol."""

from helpers.acp_desk import desk

__all__ = ("desk",)
