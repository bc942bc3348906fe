"""The agent host: many sessions, sub-agents, channels and replies, and the tools for them."""

from .host import AgentHost

__all__ = ["AgentHost"]
