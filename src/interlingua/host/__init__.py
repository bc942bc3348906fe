"""The agent host: many sessions, sub-agents, channels and replies, and the tools for them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .host import AgentHost

__all__ = ["AgentHost"]


if not TYPE_CHECKING:  # for type checkers every name exists

    def __getattr__(name: str) -> Any:
        """Loads the host on first use: the tool catalogue looks up modules of this package without running them."""
        if name != "AgentHost":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from .host import AgentHost

        return AgentHost
