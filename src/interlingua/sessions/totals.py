"""Counts over messages: roles, tokens, cost, tool calls, in all and per model. Cost is the sum of what is known."""

from collections import Counter
from typing import Any

from ..values.messages import AgentMessage, AssistantMessage, ThinkingBlock, ToolCall, ToolResultMessage, blocks_of
from ..values.request import Conversation, is_aside

TOKENS = ("input", "cache_read", "cache_write", "output", "reasoning", "total_tokens")


class Totals:
    """A sum over messages; `unpriced` says how many answers had no known cost."""

    def __init__(self) -> None:
        self.conversations = 0
        self.messages: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.tools: Counter[str] = Counter()
        self.failed_tools: Counter[str] = Counter()
        self.stops: Counter[str] = Counter()
        self.thinking = 0
        self.cost = 0.0
        self.priced = 0
        self.unpriced = 0
        self.models: dict[str, Totals] = {}

    def add_conversation(self, conversation: Conversation) -> None:
        self.conversations += 1
        for entry in conversation.entries:
            if not is_aside(entry):
                self.add(entry.message)

    def add(self, message: AgentMessage) -> None:
        self._count(message)
        if isinstance(message, AssistantMessage):
            self.models.setdefault(message.model or "unknown", Totals())._count(message)

    def _count(self, message: AgentMessage) -> None:
        self.messages[message.role] += 1
        if isinstance(message, ToolResultMessage) and message.is_error:
            self.failed_tools[message.tool_name or "unknown"] += 1
        if isinstance(message, AssistantMessage):
            self._answer(message)

    def _answer(self, message: AssistantMessage) -> None:
        for block in blocks_of(message.content):
            if isinstance(block, ToolCall):
                self.tools[block.name] += 1
            elif isinstance(block, ThinkingBlock):
                self.thinking += 1
        if message.stop_reason:
            self.stops[message.stop_reason] += 1
        if message.usage is not None:
            for name in TOKENS:
                self.tokens[name] += getattr(message.usage, name) or 0
            if message.usage.cost is not None:
                self.cost += message.usage.cost.total
                self.priced += 1
            else:
                self.unpriced += 1

    def plain(self) -> dict[str, Any]:
        return {
            "conversations": self.conversations,
            "messages": dict(self.messages),
            "tokens": {name: self.tokens[name] for name in TOKENS},
            "cost": self.cost if self.priced else None,
            "unpriced": self.unpriced,
            "thinking": self.thinking,
            "tools": dict(self.tools.most_common()),
            "failedTools": dict(self.failed_tools.most_common()),
            "stopReasons": dict(self.stops.most_common()),
            "models": {name: totals.plain() for name, totals in self.models.items()},
        }
