"""`interlingua stats`: messages, tokens, cost and tool calls, in all and per model."""

import sys
from collections import Counter
from typing import Any

import click
from rich.table import Table

from .. import conversion
from ..errors import InterlinguaError
from ..messages import AssistantMessage, ThinkingBlock, ToolCall, ToolResultMessage, UserMessage, blocks_of
from ..request import Conversation
from . import output, sources
from .convert import NAMES

_TOKENS = ("input", "cache_read", "cache_write", "output", "reasoning", "total_tokens")


class Tally:
    """Counts over conversations. Cost is the sum of what is known; `unpriced` says how many answers had none."""

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
        self.models: dict[str, Tally] = {}

    def add(self, conversation: Conversation) -> None:
        self.conversations += 1
        for entry in conversation.entries:
            message = entry.message
            self._message(message)
            if isinstance(message, AssistantMessage):
                self.models.setdefault(message.model or "unknown", Tally())._message(message)

    def _message(self, message: Any) -> None:
        self.messages[
            getattr(type(message).__struct_config__, "tag", "") if isinstance(message, _KNOWN) else message.role
        ] += 1
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
            for name in _TOKENS:
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
            "tokens": {name: self.tokens[name] for name in _TOKENS},
            "cost": self.cost if self.priced else None,
            "unpriced": self.unpriced,
            "thinking": self.thinking,
            "tools": dict(self.tools.most_common()),
            "failedTools": dict(self.failed_tools.most_common()),
            "stopReasons": dict(self.stops.most_common()),
            "models": {name: tally.plain() for name, tally in self.models.items()},
        }


_KNOWN = (UserMessage, AssistantMessage, ToolResultMessage)


@click.command("stats")
@click.argument("inputs", nargs=-1, metavar="IN…")
@click.option("-f", "--from", "origin", type=NAMES, help="The format of the input; detected if not given.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
def command(inputs: tuple[str, ...], origin: str | None, as_json: bool) -> None:
    """Count messages, tokens, cost and tool calls, in all and per model."""
    problems: list[sources.Problem] = []
    tally = Tally()
    for source in sources.expand(inputs):
        for document in sources.documents(source, origin, problems):
            try:
                tally.add(conversion.decode(document.data, origin))
            except InterlinguaError as error:
                problems.append(sources.Problem(document.name, str(error)))
    if as_json:
        output.say_json(tally.plain())
    else:
        _show(tally)
    output.report_problems(problems)
    if problems:
        sys.exit(1)


def _show(tally: Tally) -> None:
    out = output.console()
    counts = ", ".join(f"{count:,} {role}" for role, count in tally.messages.most_common())
    conversations = "conversation" if tally.conversations == 1 else "conversations"
    out.print(f"{tally.conversations:,} {conversations}, {counts or 'no messages'}")
    table = Table(box=None)
    table.add_column("model")
    for column in ("answers", "input", "cache read", "cache write", "output", "reasoning", "cost"):
        table.add_column(column, justify="right")
    for name, model in sorted(tally.models.items(), key=lambda item: -item[1].tokens["total_tokens"]):
        table.add_row(name, *_row(model))
    if len(tally.models) > 1:
        table.add_row("all", *_row(tally))
    if tally.models:
        out.print(table)
    if tally.tools:
        failed = tally.failed_tools
        tools = (
            f"{name} {n:,}" + (f" ({failed[name]} failed)" if failed[name] else "")
            for name, n in tally.tools.most_common()
        )
        out.print(f"tools: {', '.join(tools)}")


def _row(tally: Tally) -> list[str]:
    cost = f"${tally.cost:,.4f}" if tally.priced else "unknown"
    if tally.priced and tally.unpriced:
        cost += f" + {tally.unpriced} unknown"
    tokens = [f"{tally.tokens[name]:,}" for name in _TOKENS[:-1]]
    return [f"{tally.messages['assistant']:,}", *tokens, cost]
