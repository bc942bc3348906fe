"""The agent host: many sessions, sub-agents, channels and replies, and the tools for them."""

from typing import TYPE_CHECKING

from ..values.lazy import lazy_names

if TYPE_CHECKING:
    from .host import AgentHost

__all__ = ["AgentHost"]

# Loaded on first use: the tool catalogue looks up modules of this package without running them.
_LAZY = {"AgentHost": "host"}

if not TYPE_CHECKING:  # for type checkers every name exists
    __getattr__ = lazy_names(__name__, _LAZY)
