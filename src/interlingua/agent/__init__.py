"""The agent: a model with tools that works until it is done, and tells what it does as it does it."""

from ..host.host import AgentHost
from .agent import Agent, AgentState, Result
from .batch import AfterCall, BeforeCall, Verdict
from .compaction import Compacted, Compaction
from .conversion import register_message
from .loop import Limits

__all__ = [
    "AfterCall",
    "Agent",
    "AgentHost",
    "AgentState",
    "BeforeCall",
    "Compacted",
    "Compaction",
    "Limits",
    "Result",
    "Verdict",
    "register_message",
]
