"""The line-by-line chat, for pipes and simple terminals: no escape sequences.

Responses and requested output go to standard output, the rest to standard error. From a pipe, a line is read when the
previous work is done, or there is a question. At a keyboard, any line may steer.
"""

import asyncio
import io
import os
import signal as signals
import sys
import threading
from collections.abc import Coroutine
from typing import Any, TextIO

from msgspec.structs import replace
from rich.console import RenderableType

from ..tools.tool import visible
from ..values.events import AgentEvent, MessageEnd, MessageStart, MessageUpdate, TextDelta, TextEnd
from ..values.messages import AssistantMessage, UserMessage, text_of
from .chat import Chat
from .display import Display
from .rendering import safe
from .terminal import safe_console
from .themes import THEMES

_WIDTH = 100


class PlainScreen:
    """Reads `source` (a file descriptor), writes to `out` and `err`."""

    is_terminal = False
    keys = "a line is a message, \\ at its end: more follows · @FILE attaches · Ctrl-C: interrupt, twice: stop"

    def __init__(self, source: int, out: TextIO, err: TextIO, *, interactive: bool) -> None:
        self.display = Display()
        self.theme = THEMES["mono"]
        self._source = source
        self._out = out
        self._err = err
        self._interactive = interactive
        self._chat: Chat | None = None
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._prompted = False
        self._has_text = False  # whether the current answer has shown text
        self._fresh = True  # whether standard output is at the start of a line
        self._leaving = asyncio.Event()
        self._code = 0

    async def run(self, chat: Chat, prompt: str | None) -> int:
        self._chat = chat
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signals.SIGINT, self._interrupt)
        loop.add_signal_handler(signals.SIGTERM, self.leave)
        threading.Thread(target=self._read, args=(loop,), daemon=True).start()
        try:
            await chat.start(prompt)
            await self._converse(chat)
        finally:
            loop.remove_signal_handler(signals.SIGINT)
            loop.remove_signal_handler(signals.SIGTERM)
            await chat.close()
        return self._code or (1 if chat.failed and not self._interactive else 0)

    async def _converse(self, chat: Chat) -> None:
        while not self._leaving.is_set():
            if not self._interactive:
                await self._or_left(chat.wait_for_turn())
            line = await self._or_left(self._lines.get())
            if self._leaving.is_set():
                return
            if line is None:
                self._note("")  # ends the line of the prompt
                chat.end_of_input()
                while chat.busy and not self._leaving.is_set():
                    await self._or_left(chat.wait_for_turn())
                return
            if not self._interactive:
                self._note(safe(line))  # after the prompt, as a terminal would show it
            self._prompted = False
            await chat.take(line)
            self.refresh()

    async def _or_left(self, waiting: Coroutine[Any, Any, object]) -> str | None:
        """Returns the result, or None if the user has left meanwhile."""
        task = asyncio.ensure_future(waiting)
        left = asyncio.ensure_future(self._leaving.wait())
        try:
            await asyncio.wait({task, left}, return_when=asyncio.FIRST_COMPLETED)
            found = task.result() if task.done() else None
            return found if isinstance(found, str) else None
        finally:
            for one in (task, left):
                one.cancel()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """Reads lines from the descriptor: a thread that waits in a buffered file would block the exit."""
        rest = b""
        pending = ""
        while data := _some(self._source):
            *lines, rest = (rest + data).split(b"\n")
            for raw in lines:
                line = raw.decode("utf-8", "replace").rstrip("\r")
                if line.endswith("\\"):
                    pending += f"{line[:-1]}\n"
                else:
                    _hand_over(loop, self._lines, pending + line)
                    pending = ""
        if rest or pending:
            _hand_over(loop, self._lines, pending + rest.decode("utf-8", "replace"))
        _hand_over(loop, self._lines, None)

    def _interrupt(self) -> None:
        chat = self._chat
        if chat is None or not self._interactive or not chat.busy:
            if chat is not None:
                chat.stop()
            self._code = 130
            self.leave()
        elif chat.interrupt() and chat.steering:
            self._note("what should it know? (Ctrl-C again stops it)")

    # --- the Screen protocol ----------------------------------------------------------------------------------------

    async def handle(self, event: AgentEvent) -> None:
        match event:
            case MessageUpdate(assistant_message_event=TextDelta(delta=delta)):
                self._print(delta)
            case MessageUpdate(assistant_message_event=TextEnd()):
                self._end_line()
            case MessageStart(message=UserMessage()):
                pass
            case MessageEnd(message=AssistantMessage() as message):
                if not self._has_text:
                    self._print(text_of(message.content))
                self._end_line()
                self._has_text = False
                await self.aside(*self.display.handle(MessageEnd(replace(message, content=()))))
            case _:
                await self.aside(*self.display.handle(event))

    async def show(self, *parts: RenderableType) -> None:
        self._end_line()
        self._write(self._out, parts)

    async def aside(self, *parts: RenderableType) -> None:
        if parts:
            self._end_line()
            self._write(self._err, parts)

    async def question(self, text: str) -> None:
        self._note(text)
        self._prompted = False

    def offer(self, text: str) -> None:
        self._note(f"to edit: {safe(text)}")

    def notify(self, text: str) -> None:
        """Does nothing: a pipe has no bell."""

    def refresh(self) -> None:
        """Shows the prompt when input is possible."""
        chat = self._chat
        if chat is not None and not self._prompted and (not chat.busy or chat.question is not None):
            self._prompted = True
            self._end_line()
            self._err.write("? " if chat.question is not None else "> ")
            self._err.flush()

    def leave(self) -> None:
        self._leaving.set()

    # --- writing -----------------------------------------------------------------------------------------------------

    def _print(self, text: str) -> None:
        text = visible(text)
        if text:
            self._has_text = True
            self._out.write(text)
            self._out.flush()
            self._fresh = text.endswith("\n")

    def _end_line(self) -> None:
        if not self._fresh:
            self._out.write("\n")
            self._out.flush()
            self._fresh = True

    def _note(self, text: str) -> None:
        self._end_line()
        self._err.write(f"{text}\n")
        self._err.flush()

    def _write(self, file: TextIO, parts: "tuple[RenderableType, ...]") -> None:
        file.write(plain_text(parts, _width(file)))
        file.flush()


def _width(file: TextIO) -> int:
    """The columns of a terminal; a hundred for a pipe."""
    try:
        return os.get_terminal_size(file.fileno()).columns or _WIDTH
    except (OSError, ValueError):  # no terminal, or no file
        return _WIDTH


def plain_text(parts: "tuple[RenderableType, ...] | list[RenderableType]", width: int = _WIDTH) -> str:
    """Parts as text without escape sequences and trailing spaces."""
    out = io.StringIO()
    console = safe_console(file=out, force_terminal=False, color_system=None, width=width)
    for part in parts:
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def _some(source: int) -> bytes:
    try:
        return os.read(source, 1 << 16)
    except OSError:  # the terminal was closed
        return b""


def _hand_over(loop: asyncio.AbstractEventLoop, lines: "asyncio.Queue[str | None]", line: str | None) -> None:
    try:
        loop.call_soon_threadsafe(lines.put_nowait, line)
    except RuntimeError:  # the loop is closed
        sys.exit()
