"""Prints the responses of `run`: text to standard output, everything else to standard error."""

import re
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from ..values import jsontext
from ..values.events import TextDelta, ThinkingDelta, ToolCallEnd, ToolExecutionEnd
from ..values.messages import AssistantMessage
from . import output

if TYPE_CHECKING:
    from rich.live import Live

_SHOWN = 200  # characters of a tool's result


class Printer:
    """Prints text as it arrives, for pipes and files."""

    def __init__(self, *, notes: bool) -> None:
        self._out = sys.stdout
        self._notes = output.console(err=True)
        self._has_notes = notes
        self._thoughts = notes and sys.stderr.isatty()
        self._thinking = False
        self._fresh = True  # whether the cursor is at the start of a line

    def show(self, event: Any) -> None:
        """Shows an event of a stream, or of a tool's execution."""
        if isinstance(event, TextDelta):
            self._settle()
            self._write(event.delta)
        elif isinstance(event, ThinkingDelta) and self._thoughts:
            self._thinking = True
            self._notes.print(Text(event.delta, "dim italic"), end="", soft_wrap=True)
        elif isinstance(event, ToolCallEnd):
            self.end()
            if self._has_notes:
                call = event.tool_call
                self._notes.print(Text(f"→ {call.name}({jsontext.compact(call.arguments)})", "cyan"))
        elif isinstance(event, ToolExecutionEnd) and self._has_notes:
            self._notes.print(Text(f"← {_result(event.result)}", "red" if event.is_error else "dim"))

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
        self._fresh = text.endswith("\n")

    def end(self) -> None:
        """Ends a text."""
        self._settle()
        if not self._fresh:
            self._write("\n")

    def _settle(self) -> None:
        if self._thinking:
            self._thinking = False
            self._notes.print()


class MarkdownPrinter(Printer):
    """Prints text as Markdown on a terminal: finished blocks once, the open one redrawn below them."""

    def __init__(self, *, notes: bool) -> None:
        super().__init__(notes=notes)
        from ..chat.rendering import Blocks, markdown
        from ..chat.terminal import safe_console

        self._console = safe_console()
        self._markdown = markdown
        self._blocks = Blocks()
        self._live: Live | None = None
        self._is_first = True

    def _write(self, text: str) -> None:
        self._print(self._blocks.feed(text))
        tail = self._blocks.tail
        if tail is not None:
            if self._live is None:
                from rich.live import Live

                self._live = Live(console=self._console, transient=True, auto_refresh=False)
                self._live.start()
            apart = [] if self._is_first or tail.continues else [Text("")]
            self._live.update(Group(*apart, self._markdown(tail.markdown)), refresh=True)
        self._fresh = False

    def _print(self, pieces: Any) -> None:
        shown = [piece for piece in pieces if piece.text.strip()]
        if shown:
            self._stop()
        for piece in shown:
            if not (self._is_first or piece.continues):
                self._console.print()
            self._console.print(self._markdown(piece.markdown))
            self._is_first = False

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def end(self) -> None:
        self._settle()
        self._print(self._blocks.close())
        self._stop()
        if not self._fresh:
            self._console.print()  # the following output is not part of the response
        self._fresh = True


class SilentPrinter(Printer):
    """Prints no text until it is complete."""

    def _write(self, text: str) -> None:
        pass


def _result(result: Any) -> str:
    from ..chat.rendering import one_line, result_text

    return one_line(result_text(result), _SHOWN) or "(nothing)"


_FENCE = re.compile(
    r"^([ \t]{0,3})(`{3,}|~{3,})[^\n`]*\n(.*?)(?:^[ \t]{0,3}\2[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)


def code_in(text: str, *, last: bool = False) -> str:
    """The first or last fenced code block (CommonMark, "Fenced code blocks"); the whole text if there is none."""
    found = _FENCE.findall(text)
    if not found:
        return text
    indent, _, code = found[-1 if last else 0]
    lines = code.split("\n")
    return "\n".join(line.removeprefix(indent) for line in lines) if indent else code


def figures(answer: AssistantMessage, usage: Any = None) -> str:
    """The usage of a response, or of a run: model, tokens, cost, and the stop reason if unusual."""
    usage = usage or answer.usage
    parts = [f"{answer.provider}/{answer.model}"]
    if usage is not None:
        cached = f" (+{usage.cache_read + usage.cache_write:,} cached)" if usage.cache_read or usage.cache_write else ""
        parts.append(f"{usage.input:,}{cached} in, {usage.output:,} out")
        parts.append("cost unknown" if usage.cost is None else f"${usage.cost.total:.6f}".rstrip("0").rstrip("."))
    if answer.stop_reason not in ("stop", "toolUse", None):
        parts.append(str(answer.stop_reason))
    return " · ".join(parts)
