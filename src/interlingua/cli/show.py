"""`interlingua show`: prints a conversation, thinking folded, calls with their results."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click
from rich.console import Console, Group, RenderableType
from rich.text import Text

from .. import conversion
from ..chat.rendering import Indented, markdown
from ..conversion import sources
from ..conversion.large_sessions import LargeSession, conversations
from ..sessions.comparison import is_record
from ..values import jsontext
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    Block,
    CustomMessage,
    OpaqueBlock,
    ServerToolCall,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
    error_beside,
    text_of,
)
from ..values.request import Conversation, Entry, is_aside
from . import output
from .convert import NAMES

_STYLES = {UserMessage: ("user", "bold cyan"), AssistantMessage: ("assistant", "bold green")}


@click.command("show")
@click.argument("inputs", nargs=-1, metavar="IN…")
@click.option("-f", "--from", "origin", type=NAMES, help="The format of the input; detected if not given.")
@click.option("--thinking", is_flag=True, help="Unfold the model's reasoning.")
@click.option("--full", is_flag=True, help="Show long tool results, and what a program put in, in full.")
@click.option("--all", "everything", is_flag=True, help="Also show the bookkeeping lines of session files.")
@click.option("--plain", is_flag=True, help="Plain text instead of Markdown, as in a pipe.")
@click.option("--pager/--no-pager", default=None, help="Page the output; on a terminal by default, if it is long.")
@click.option("--json", "as_json", is_flag=True, help="The conversation as Interlingua JSON.")
def command(
    inputs: tuple[str, ...],
    origin: str | None,
    thinking: bool,
    full: bool,
    everything: bool,
    plain: bool,
    pager: bool | None,
    as_json: bool,
) -> None:
    """Show conversations in the terminal: thinking folded, tool calls with their results."""
    problems: list[sources.SourceProblem] = []
    notes: list[sources.SourceProblem] = []  # of conversations that are shown
    view = _View(thinking=thinking, full=full, everything=everything, plain=plain)
    found = _noted(inputs, origin, problems, notes)
    if as_json:
        for _, conversation in found:
            if isinstance(conversation, LargeSession):
                sys.stdout.buffer.writelines(conversation.json())
            else:
                sys.stdout.buffer.write(conversion.encode(conversation, conversion.SELF).bytes())
            sys.stdout.buffer.write(b"\n")
    else:
        with output.paged(pager) as out:
            _show(out, found, view)
    output.report_problems(notes)
    output.report_problems(problems)
    if problems:
        sys.exit(1)


def _noted(
    inputs: tuple[str, ...],
    origin: str | None,
    problems: list[sources.SourceProblem],
    notes: list[sources.SourceProblem],
) -> Iterator[tuple[str, Conversation | LargeSession]]:
    for source in sources.expand(inputs):
        for name, found in conversations(source, origin, problems):
            yield name, found
            if isinstance(found, Conversation):  # torn lines are among the problems of the file
                notes += [sources.SourceProblem(name, one.message) for one in found.problems if one.line is None]


def _show(out: Console, found: Iterator[tuple[str, Conversation | LargeSession]], view: "_View") -> None:
    for name, conversation in found:
        out.print(Text(name, style="dim"))
        for part in view.conversation(conversation):
            out.print(part)


def print_conversation(conversation: Conversation, view: "_View", as_json: bool) -> None:
    if as_json:
        sys.stdout.buffer.write(conversion.encode(conversation, conversion.SELF).bytes() + b"\n")
        return
    with output.paged() as out:
        for part in view.conversation(conversation):
            out.print(part)


class _View:
    """Renders a conversation; in a pipe as plain text, whose lines are neither wrapped nor padded."""

    def __init__(self, *, thinking: bool, full: bool, plain: bool, everything: bool = False) -> None:
        self._everything = everything
        self._thinking = thinking
        self._full = full
        self._piped = not sys.stdout.isatty()
        self._plain = plain or self._piped

    def conversation(self, conversation: Conversation | LargeSession) -> Iterator[RenderableType]:
        """The parts of a conversation, to be printed one after the other."""
        if isinstance(conversation, LargeSession):
            return self._parts(conversation.about, conversation.path(), conversation.entries)
        on_path = set(map(id, conversation.path()))
        flags = bytearray(id(entry) in on_path for entry in conversation.entries)
        return self._parts(conversation, flags, lambda: conversation.entries)

    def _parts(
        self, about: Conversation, on_path: bytearray, entries: Callable[[], Iterable[Entry]]
    ) -> Iterator[RenderableType]:
        """Renders the entries on the path; `entries` may be read twice."""
        if about.title:
            yield Text(about.title, style="bold")
        if about.system:
            yield Text("system", style="bold magenta")
            yield self._indented(self._text(text_of(about.system)))
        counts = Counter[str]()
        yield from self._turns(self._shown(on_path, entries, counts))
        if counts["left out"]:
            noun = "line; --all shows it" if counts["left out"] == 1 else "lines; --all shows them"
            yield Text(f"({counts['left out']} bookkeeping {noun})", style="dim")
        if counts["hidden"]:
            noun = "entry" if counts["hidden"] == 1 else "entries"
            yield Text(f"({counts['hidden']} {noun} on other branches)", style="dim")

    def _shown(
        self, on_path: bytearray, entries: Callable[[], Iterable[Entry]], counts: Counter[str]
    ) -> Iterator[AgentMessage]:
        """Yields the messages that are shown, and counts the entries that are not."""
        beside = 0  # bookkeeping lines that are on no branch
        for is_on_path, entry in zip(on_path, entries(), strict=True):
            if is_on_path and (self._everything or not is_record(entry)):
                yield entry.message
            elif is_on_path:
                counts["left out"] += 1
            elif is_aside(entry):
                continue
            elif is_record(entry):
                beside += 1
            else:
                counts["hidden"] += 1
        if not self._everything:
            counts["left out"] += beside
        elif beside:
            for is_on_path, entry in zip(on_path, entries(), strict=True):
                if not is_on_path and not is_aside(entry) and is_record(entry):
                    yield entry.message

    def _turns(self, messages: Iterable[AgentMessage]) -> Iterator[RenderableType]:
        """Renders messages turn by turn. A turn begins at the first of several assistant messages in a row."""
        turn: list[AgentMessage] = []
        for message in messages:
            begins = isinstance(message, AssistantMessage) and not (turn and isinstance(turn[-1], AssistantMessage))
            if begins:
                yield from self._turn(turn)
                turn = []
            turn.append(message)
        yield from self._turn(turn)

    def _turn(self, messages: list[AgentMessage]) -> Iterator[RenderableType]:
        results = self._results(messages)
        for message in messages:
            if isinstance(message, ToolResultMessage) and results.get(id(message)):
                continue  # shown with its call
            if not self._piped:
                yield Text()
            yield self._message(message, results)

    def _results(self, messages: list[AgentMessage]) -> dict[int, Any]:
        """Returns results by their call, and calls by their result, within a turn."""
        pairs: dict[int, Any] = {}
        pending: dict[str, list[ToolCall]] = {}
        for message in messages:
            if isinstance(message, AssistantMessage):
                for call in message.tool_calls:
                    pending.setdefault(call.id, []).append(call)
            elif isinstance(message, ToolResultMessage) and pending.get(message.tool_call_id):
                call = pending[message.tool_call_id].pop(0)
                pairs[id(call)] = message
                pairs[id(message)] = call
        return pairs

    def _message(self, message: AgentMessage, results: dict[int, Any]) -> RenderableType:
        if isinstance(message, CustomMessage):
            return Group(
                Text(message.role, style="bold"), self._indented(Text(_short(jsontext.compact(message.fields))))
            )
        if isinstance(message, ToolResultMessage):
            return self._result(message)
        if isinstance(message, UserMessage) and message.origin is not None:
            texts = [
                Text(
                    _short(block.text if isinstance(block, TextBlock) else named_block(block), self._full), style="dim"
                )
                for block in blocks_of(message.content)
            ]
            return Group(Text(message.origin, style="bold"), *map(self._indented, texts))
        label, style = _STYLES.get(type(message), ("system", "bold magenta"))
        heading = Text.assemble((label, style))
        if isinstance(message, AssistantMessage):
            heading.append(_about(message), style="dim")
        parts = [self._block(block, results) for block in blocks_of(message.content)]
        error = error_beside(message) if isinstance(message, AssistantMessage) else None
        if error is not None:
            parts.append(Text(error, style="red"))
        return Group(heading, *(self._indented(part) for part in parts))

    def _block(self, block: Block, results: dict[int, Any]) -> RenderableType:
        match block:
            case TextBlock():
                return self._text(block.text)
            case ThinkingBlock():
                return self._folded(block)
            case ToolCall():
                call = Text.assemble(
                    ("→ ", "yellow"), (block.name, "bold yellow"), " ", _short(_arguments(block), self._full)
                )
                result = results.get(id(block))
                return Group(call, self._result(result)) if result else call
            case ServerToolCall():
                return Text(
                    f"→ {block.name} {_short(jsontext.compact(block.arguments), self._full)} (at the provider)", "dim"
                )
            case _:
                return Text(named_block(block), style="dim")

    def _result(self, message: ToolResultMessage) -> RenderableType:
        colour = "red" if message.is_error else "dim"
        mark = Text("✗ " if message.is_error else "← ", style=colour)
        blocks = blocks_of(message.content)
        parts = [_short(text, self._full)] if (text := text_of(message.content)) else []
        parts += [named_block(block) for block in blocks if not isinstance(block, TextBlock)]
        return Text.assemble(mark, ("\n".join(parts).replace("\n", "\n  ") or "(empty)", colour))

    def _folded(self, block: ThinkingBlock) -> RenderableType:
        if self._thinking and block.thinking:
            return Text(block.thinking, style="italic dim")
        size = "sealed" if block.redacted else f"{len(block.thinking):,} characters"
        return Text(f"▸ thinking ({size})", style="dim")

    def _text(self, text: str) -> RenderableType:
        return Text(text) if self._plain else markdown(text)

    def _indented(self, part: RenderableType) -> RenderableType:
        return _prefixed(part) if self._piped else Indented(part)


def _prefixed(part: RenderableType) -> RenderableType:
    """Text with two spaces before each line that is not empty."""
    if isinstance(part, Group):
        return Group(*map(_prefixed, part.renderables))
    if not isinstance(part, Text):
        return part
    return Text("\n").join(Text("  ") + line if line else line for line in part.split("\n", allow_blank=True))


def named_block(block: Block) -> str:
    """Describes a block without text: its kind, title, type and size, or location."""
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(block).__name__.removesuffix("Block")).lower()
    if isinstance(block, OpaqueBlock):
        inner = block.value.get("type") if isinstance(block.value, dict) else None
        return f"[{inner or kind} of {block.dialect}]"
    about = [getattr(block, name, None) for name in ("title", "mime_type")]
    data = getattr(block, "data", None)
    about.append(_bytes(len(data) * 3 // 4) if data else getattr(block, "url", None) or getattr(block, "file_id", None))
    given = ", ".join(_short(str(one), limit=200) for one in about if one)
    text = getattr(block, "transcript", None) or (getattr(block, "text", None) if kind == "document" else None)
    return f"[{kind}{': ' if given else ''}{given}]" + (f" {_short(text)}" if text else "")


def _bytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB" if size >= 1000 else f"{size} bytes"


def _about(message: AssistantMessage) -> str:
    parts = [message.model or ""]
    if message.usage is not None:
        parts.append(f"{message.usage.total_tokens:,} tokens")
        if message.usage.cost is not None:
            parts.append(f"${message.usage.cost.total:.4f}")
    if message.stop_reason not in (None, "stop", "toolUse"):
        parts.append(str(message.stop_reason))
    text = " · ".join(part for part in parts if part)
    return f"  {text}" if text else ""


def _arguments(call: ToolCall) -> str:
    return call.arguments_text if call.parse_error and call.arguments_text else jsontext.compact(call.arguments)


def _short(text: str, full: bool = False, limit: int = 600) -> str:
    """A long text truncated, with the number of omitted characters."""
    if full or len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit:,} more characters)"
