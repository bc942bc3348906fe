"""Renderables for conversations (rich). Nothing here writes to a terminal.

Text of a model or a tool is untrusted: it passes through `safe` before it is drawn, so that it cannot move the cursor,
change the title or hide behind other text.
"""

import itertools
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, TableElement
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from ..sessions import SessionBusy, SessionInfo
from ..tools.output import plain
from ..tools.tool import visible
from ..values import jsontext
from ..values.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    InterlinguaError,
    Overloaded,
    RateLimited,
    TransportError,
)
from ..values.losses import Loss
from ..values.messages import AgentMessage, CustomMessage, TextBlock, blocks_of, text_of

# Streaming Markdown, split where the earlier part can no longer change.
#
# A finished piece is printed once; only the short tail is redrawn as it grows. So a response takes linear time, and the
# scrollback stays intact.


MAX_LINES = 60
MAX_CHARACTERS = 6_000

_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_RULE = re.compile(r"[\s|:-]*-[\s|:-]*\|[\s|:-]*|\|?[\s:]*-+[\s:]*\|?")


class TextPiece(NamedTuple):
    """A piece of a text; all `text` joined is the input. The other fields make a part of a block render by itself."""

    text: str
    before: str = ""
    after: str = ""
    continues: bool = False  # the previous piece is part of the same block

    @property
    def markdown(self) -> str:
        return f"{self.before}{self.text}{self.after}"


class Blocks:
    """Splits streamed text into pieces, independent of how it is chunked."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._rest = ""  # of an incomplete line
        self._fence: str | None = None  # the line that opened the current code block
        self._before = ""
        self._continues = False

    @property
    def tail(self) -> TextPiece | None:
        """The text that may still change."""
        text = "".join(self._lines) + self._rest
        return self._piece(text) if text.strip() else None

    def feed(self, text: str) -> list[TextPiece]:
        out: list[TextPiece] = []
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            out += self._line(line)
        self._rest, cut = self._shortened(self._rest)
        out += cut
        if self._rest and self._is_boundary(self._rest):
            out += self._cut()
        return out

    def close(self) -> list[TextPiece]:
        """Ends the text; returns the rest."""
        self._lines.append(self._rest)
        self._rest = ""
        left = self._cut()
        self._fence = None
        self._before, self._continues = "", False
        return left

    def _line(self, line: str) -> list[TextPiece]:
        line, out = self._shortened(line)
        if self._is_boundary(line):
            out += self._cut()
        self._add(f"{line}\n")
        self._follow_fence(line)
        if len(self._lines) >= MAX_LINES or self._size >= MAX_CHARACTERS:
            out += self._cut(within=True)
        return out

    def _shortened(self, line: str) -> tuple[str, list[TextPiece]]:
        """Splits a line that is too long for one piece, between words if possible."""
        out: list[TextPiece] = []
        while len(line) > MAX_CHARACTERS:
            if self._is_boundary(line):
                out += self._cut()
            at = line.rfind(" ", MAX_CHARACTERS // 2, MAX_CHARACTERS) + 1 or MAX_CHARACTERS
            self._add(line[:at])
            out += self._cut(within=True)
            line = line[at:]
        return line, out

    def _is_boundary(self, line: str) -> bool:
        """Whether a new block starts: after a blank line, and not indented, which would continue a list."""
        blank_before = bool(self._lines) and not self._lines[-1].strip() and self._size > 1
        return blank_before and self._fence is None and bool(line.strip()) and not line.startswith((" ", "\t"))

    def _follow_fence(self, line: str) -> None:
        found = _FENCE.match(line)
        if found is None:
            return
        if self._fence is None:
            self._fence = f"{line}\n"
        elif line.strip() == found[1] and found[1].startswith(self._marks()):
            self._fence = None

    def _marks(self) -> str:
        found = _FENCE.match(self._fence or "")
        return found[1] if found else ""

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line)

    def _piece(self, text: str) -> TextPiece:
        after = f"{'' if text.endswith(chr(10)) else chr(10)}{self._marks()}\n" if self._fence is not None else ""
        return TextPiece(text, self._before, after, self._continues)

    def _cut(self, *, within: bool = False) -> list[TextPiece]:
        """Ends a piece here. `within` a block, the next piece starts with the same block prefix."""
        text = "".join(self._lines)
        made = [self._piece(text)] if text else []
        opening = (self._fence or _table_head(self._lines) or self._before) if within else ""
        if self._fence is None and within and self._before.lstrip().startswith(("`", "~")):
            opening = ""
        self._before, self._continues = opening, within
        self._lines, self._size = [], 0
        return made


def _table_head(lines: list[str]) -> str:
    """The two header lines of a table, if there are."""
    is_table = len(lines) >= 2 and "|" in lines[0] and _RULE.fullmatch(lines[1].strip()) is not None
    return "".join(lines[:2]) if is_table else ""


OUTPUT_LINES = 8
LIVE_LINES = 5
DIFF_LINES = 60
_WIDTH = 200
_SUMMARY = 60

_DIFF_STYLES = (("+++", "bold"), ("---", "bold"), ("***", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))
_SUBJECTS = ("command", "path", "file_path", "pattern", "query", "url")


def safe(text: str) -> str:
    """The text without terminal control sequences and invisible characters."""
    return visible(plain(text.encode("utf-8", "replace")))


def one_line(text: str, limit: int = _WIDTH) -> str:
    line = " ".join(safe(text).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


class Indented:
    """Indents a part by two cells, wrapped lines included; without trailing spaces."""

    def __init__(self, part: RenderableType) -> None:
        self._part = part

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        narrower = options.update(width=max(1, options.max_width - 2))
        for line in console.render_lines(self._part, narrower, pad=False):
            yield Segment("  ")
            yield from line
            yield Segment.line()


class _Heading(Heading):
    LEVEL_ALIGN = {}  # left-aligned: a response is read from there


class _CodeBlock(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Syntax(str(self.text).rstrip(), self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 1))


class _Table(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            if isinstance(part, Table):
                part.show_edge = False  # blank lines, which parts have between them anyway
            yield part


class _Markdown(Markdown):
    """Markdown without blank lines around it: callers that join parts add these."""

    elements = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
        "table_open": _Table,
    }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        parts = super().__rich_console__(console, options)
        rendered = ([one] if isinstance(one, Segment) else console.render(one, options) for one in parts)
        lines = [*Segment.split_lines(itertools.chain.from_iterable(rendered))]
        filled = [at for at, line in enumerate(lines) if any(part.text.strip() for part in line)]
        for line in lines[filled[0] : filled[-1] + 1] if filled else ():
            yield from line
            yield Segment.line()


def markdown(text: str) -> Markdown:
    """Markdown whose links show their URL, so that the target is visible; in the terminal's palette."""
    return _Markdown(safe(text), code_theme="ansi_dark", hyperlinks=False)


# --- messages --------------------------------------------------------------------------------------------------------


def sent_by_user(content: Any) -> Text:
    files = [_file(block) for block in blocks_of(content) if not isinstance(block, TextBlock)]
    shown = Text.assemble(("› ", "bold cyan"), (safe(text_of(content)), "bold"))
    for name in files:
        shown.append(f"\n  + {name}", "dim")
    return shown


def _file(block: Any) -> str:
    name = getattr(block, "title", None) or getattr(block, "url", None) or getattr(block, "mime_type", None)
    return one_line(f"{type(block).__name__.removesuffix('Block').lower()} {name or ''}")


def folded(seconds: float | None, text: str, *, running: bool = False) -> Text:
    """Thinking in one line."""
    took = "" if seconds is None else f" for {duration(seconds)}"
    message = (
        f"thinking{took}…" if running else f"thought{took} ({len(text):,} characters; Ctrl-T or /thinking unfolds)"
    )
    return Text(f"▸ {message}", "dim")


def unfolded(text: str) -> Text:
    return Text(safe(text).strip(), "dim italic")


def duration(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    if minutes:
        return f"{minutes:.0f} min {rest:.0f} s"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


# --- calls -----------------------------------------------------------------------------------------------------------


def main_argument(arguments: Any) -> str | None:
    """The argument that says most about a call: its command, its file, …"""
    given = arguments if isinstance(arguments, Mapping) else {}
    return next((given[key] for key in _SUBJECTS if isinstance(given.get(key), str)), None)


def headline(name: str, arguments: Any, *, style: str = "cyan") -> Text:
    """A call in one line: the tool, and its main argument."""
    about = main_argument(arguments)
    text = about if about is not None else jsontext.compact(arguments) if arguments else ""
    return Text.assemble((f"● {one_line(name, 60)}", f"bold {style}"), " ", one_line(text, 160))


def result_text(result: Any) -> str:
    """The text of a result in an event; other blocks by their type."""
    content = result.get("content") if isinstance(result, Mapping) else None
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(block.get("text", f"[{block.get('type')}]")) for block in blocks if isinstance(block, Mapping))


def diff_of(result: Any) -> str | None:
    details = result.get("details") if isinstance(result, Mapping) else None
    found = details.get("diff") if isinstance(details, Mapping) else None
    return found if isinstance(found, str) and found.strip() else None


def last_lines(text: str, limit: int, style: str = "dim") -> Text:
    """The last lines of an output, and the number of hidden ones."""
    lines = [line.expandtabs(4) for line in safe(text).rstrip().split("\n")]
    hidden = len(lines) - limit
    shown = lines[-limit:] if hidden > 1 else lines
    note = [f"… {hidden:,} lines before"] if hidden > 1 else []
    return Text("\n".join(f"  {line[:_WIDTH]}" for line in [*note, *shown]), style, overflow="ellipsis", no_wrap=True)


def coloured_diff(diff: str, limit: int = DIFF_LINES, width: int = _WIDTH) -> RenderableType:
    lines = [line.expandtabs(4) for line in safe(diff).rstrip("\n").split("\n")]
    out = Text(overflow="fold")
    for line in lines[:limit]:
        out.append(f"{line[:width]}\n", next((style for mark, style in _DIFF_STYLES if line.startswith(mark)), "dim"))
    if len(lines) > limit:
        out.append(f"… {len(lines) - limit:,} more lines\n", "dim")
    out.rstrip()
    return Indented(out)


def finished_call(
    name: str, arguments: Any, result: Any, *, is_error: bool, diff: str | None, seconds: float, announced: bool
) -> RenderableType:
    """A finished call: its name, and its diff or output."""
    style = "red" if is_error else "green"
    head = Text(f"  {'✗' if is_error else '✓'} {one_line(name, 60)}", style) if announced else None
    first = head or headline(name, arguments, style=style)
    first.append(f"  {duration(seconds)}", "dim")
    shown = None if is_error else diff_of(result) or diff
    if shown is not None:
        return first if announced else Group(first, coloured_diff(shown))
    text = result_text(result)
    return Group(first, last_lines(text, OUTPUT_LINES, "red" if is_error else "dim")) if text.strip() else first


# --- errors ----------------------------------------------------------------------------------------------------------

_REMEDIES: tuple[tuple[type[BaseException], str], ...] = (
    (AuthFailed, "store a key with `interlingua auth login PROVIDER`, or ask another model with /model"),
    (RateLimited, "wait and send it again, or switch models with /model"),
    (Overloaded, "send it again later, or switch models with /model"),
    (ContextTooLong, "make room with /compact, or go back with /undo"),
    (BadRequest, "change it with /undo, or ask another model with /model"),
    (TransportError, "check the network and send it again"),
    (SessionBusy, "leave the other chat first, or begin a new one with --new"),
    (OSError, "nothing more was saved; fix the problem and send it again"),
)


def error_line(error: BaseException) -> Text:
    """Returns the error in one line, with a remedy."""
    remedy = next((message for kind, message in _REMEDIES if isinstance(error, kind)), None)
    message = str(error) or type(error).__name__
    return Text.assemble(("✗ ", "bold red"), (one_line(message, 400), "red"), (f" — {remedy}" if remedy else "", "dim"))


def error_text(text: str) -> Text:
    return error_line(InterlinguaError(text))


def note(text: str) -> Text:
    return Text(safe(text), "dim")


# --- tables ----------------------------------------------------------------------------------------------------------


def table(rows: Iterable[Sequence[str | Text]], *columns: str) -> Table:
    drawn = Table(box=None, show_header=bool(columns), header_style="bold", pad_edge=False)
    for column in columns:
        drawn.add_column(column)
    for row in rows:
        drawn.add_row(*(Text(one_line(cell)) if isinstance(cell, str) else cell for cell in row))
    return drawn


def session_rows(infos: Sequence[SessionInfo], current: str) -> Table:
    rows = [
        (
            Text(str(number), "bold"),
            Text(f"{info.id[:12]}{' ●' if info.id == current else ''}"),
            time.strftime("%Y-%m-%d %H:%M", time.localtime(info.modified / 1000)),
            f"{info.messages:,}",
            info.title or "",
        )
        for number, info in enumerate(infos, 1)
    ]
    return table(rows, "", "session", "modified", "messages", "title")


def loss_report(name: str, losses: Sequence[Loss]) -> RenderableType:
    """Returns the losses, without bookkeeping."""
    reported = [loss for loss in losses if loss.severity != "record"]
    if not reported:
        return Text(f"{name}: nothing lost")
    rows = [(Text(loss.severity, "yellow"), loss.path, Text(one_line(loss.why), "dim")) for loss in reported[:30]]
    more = [Text(f"… and {len(reported) - 30} more", "dim")] if len(reported) > 30 else []
    return Group(Text(f"{name}: {len(reported)} lost"), table(rows), *more)


def summary_line(message: AgentMessage) -> str:
    """A message in one short line."""
    return one_line(brief(message), _SUMMARY)


def brief(message: AgentMessage) -> str:
    """The text of a message, with the names of its calls."""
    if isinstance(message, CustomMessage):
        return str(message.fields.get("summary") or message.fields.get("model") or "")
    return " ".join([text_of(message.content), *(f"→ {call.name}" for call in getattr(message, "tool_calls", ()))])
