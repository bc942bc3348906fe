"""The agent: a model with tools that works until it is done, and tells what it does as it does it."""

from .agent import Agent, AgentState, Result
from .batch import AfterCall, BeforeCall, Verdict
from .compaction import Compaction
from .loop import Limits

__all__ = ["AfterCall", "Agent", "AgentState", "BeforeCall", "Compaction", "Limits", "Result", "Verdict"]
