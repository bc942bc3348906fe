"""The agent: runs a model with tools until it is done, and emits events."""

from ..connect.results import Result
from .agent import Agent
from .batch import AfterCall, BeforeCall, Verdict
from .compaction import Compacted, Compaction
from .history import register_message
from .loop import AgentState, Limits

__all__ = [
    "AfterCall",
    "Agent",
    "AgentState",
    "BeforeCall",
    "Compacted",
    "Compaction",
    "Limits",
    "Result",
    "Verdict",
    "register_message",
]
