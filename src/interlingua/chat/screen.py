"""The chat on a terminal: finished output scrolls, work in progress and the input stay at the bottom.

Finished parts are written once, above; the tail of a response, running calls, the current question and the input line
are drawn by prompt-toolkit, which sends only changes. All untrusted text is sanitized before (see rendering.py).
"""

import asyncio
import io
import os
import re
import signal as signals
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import FileHistory, ThreadedHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    Float,
    FloatContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import DynamicStyle, Style
from prompt_toolkit.widgets import SearchToolbar
from rich.cells import cell_len, set_cell_size
from rich.console import RenderableType
from rich.text import Text

from ..sessions import SessionInfo
from ..values.events import AgentEvent
from ..values.places import private_folder
from ..values.regular import open_regular
from .chat import Chat
from .command import Command, images_mentioned, place
from .display import Display
from .opening import matching
from .rendering import one_line
from .terminal import safe_console
from .themes import DARK, THEMES, Theme

_MENU = 8  # lines for completions
_TICK = 0.5  # seconds between clock updates, while something runs
_STYLES = {
    theme.name: Style.from_dict({"status": "reverse", "prompt": theme.prompt, "asking": theme.asking})
    for theme in THEMES.values()
}


class TerminalScreen:
    """One prompt-toolkit application for the whole chat. `run` ends when the user leaves."""

    is_terminal = True
    keys = (
        "Enter sends · Alt-Enter, or \\ and Enter: new line · @FILE attaches · text typed while it works steers it\n"
        "Ctrl-C: interrupt, twice: stop · Ctrl-T: thinking · Ctrl-R: search your messages · Ctrl-D: leave"
    )

    def __init__(
        self,
        *,
        history: Path,
        completer: Completer,
        theme: Theme = DARK,
        output: Output | None = None,
    ) -> None:
        self.theme = theme
        self.display = Display()
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self._drawing = asyncio.Lock()
        self._left = False
        self._drawn: tuple[int, StyleAndTextTuples] = (-1, [])
        self._buffer = Buffer(
            history=ThreadedHistory(FileHistory(str(_own_file(history)))),
            completer=ThreadedCompleter(completer),
            complete_while_typing=True,
            multiline=True,
        )
        self._chat: Chat | None = None
        self.app: Application[None] = Application(
            layout=self._layout(),
            key_bindings=self._bindings(),
            style=DynamicStyle(lambda: _STYLES[self.theme.name]),
            color_depth=lambda: None if self.theme.has_colour else ColorDepth.DEPTH_1_BIT,  # None: respect NO_COLOR
            erase_when_done=True,
            min_redraw_interval=0.04,
            output=output,
        )

    async def run(self, chat: Chat, prompt: str | None) -> int:
        self._chat = chat
        loop = asyncio.get_running_loop()
        for number in (signals.SIGTERM, signals.SIGHUP):
            loop.add_signal_handler(number, self.leave)
        beside = [loop.create_task(self._tick()), loop.create_task(self._consume(chat, prompt))]
        try:
            with patch_stdout():  # library output appears above, without its escapes
                if not self._left:
                    await self.app.run_async()
                await _ended(beside)
                await chat.close()
        finally:
            for number in (signals.SIGTERM, signals.SIGHUP):
                loop.remove_signal_handler(number)
        return 0

    async def _consume(self, chat: Chat, prompt: str | None) -> None:
        await chat.start(prompt)
        while True:
            await chat.take(await self._lines.get())

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            if self._chat is not None and self._chat.busy:
                self.refresh()

    # --- the Screen protocol ----------------------------------------------------------------------------------------

    async def handle(self, event: AgentEvent) -> None:
        parts = self.display.handle(event)
        if parts:
            await self.show(*parts)
        self.refresh()

    async def show(self, *parts: RenderableType) -> None:
        """Writes parts above the input; they are never redrawn."""
        if not parts:
            return
        output = self.app.output
        text = drawn(parts, self._width, self.theme)

        def write() -> None:
            output.write_raw(text)
            output.flush()

        async with self._drawing:
            await run_in_terminal(write)

    aside = show

    async def question(self, text: str) -> None:
        self.refresh()

    def offer(self, message: str) -> None:
        typed = self._buffer.text
        text = f"{message}\n{typed}" if typed.strip() else message
        self._buffer.set_document(Document(text, len(text)), bypass_readonly=True)
        self.refresh()

    def notify(self, text: str) -> None:
        self.app.output.write_raw(notification(text, os.environ))
        self.app.output.flush()

    def refresh(self) -> None:
        self.app.invalidate()

    def leave(self) -> None:
        self._left = True
        if self.app.is_running and self.app.future is not None and not self.app.future.done():
            self.app.exit()

    # --- layout ------------------------------------------------------------------------------------------------------

    @property
    def _width(self) -> int:
        return max(20, self.app.output.get_size().columns - 1)

    def _layout(self) -> Layout:
        search = SearchToolbar()
        field = Window(
            BufferControl(self._buffer, search_buffer_control=search.control, focus_on_click=True),
            get_line_prefix=self._prefix,
            wrap_lines=True,
            dont_extend_height=True,
            height=lambda: Dimension(min=_MENU if self._buffer.complete_state is not None else 1),
        )
        live = ConditionalContainer(
            Window(FormattedTextControl(self._live), dont_extend_height=True),
            filter=Condition(lambda: bool(self._live())),
        )
        status = Window(FormattedTextControl(self._status), height=1, style="class:status")
        menu = Float(CompletionsMenu(max_height=_MENU, scroll_offset=1), xcursor=True, ycursor=True)
        return Layout(FloatContainer(HSplit([live, field, search, status]), [menu]), focused_element=field)

    def _prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        chat = self._chat
        if line or wrapped:
            return [("", "  ")]
        if chat is not None and chat.question is not None:
            return [("class:asking", "? ")]
        if chat is not None and chat.steering:
            return [("class:asking", "what should it know? › ")]
        return [("class:prompt", "» " if chat is not None and chat.busy else "› ")]

    def _status(self) -> StyleAndTextTuples:
        return [("", f" {self._chat.status(self._width - 1) if self._chat is not None else ''}")]

    def _live(self) -> StyleAndTextTuples:
        """Returns the work in progress, rendered once per redraw; only the last lines if it is too long."""
        counter = self.app.render_counter
        if self._drawn[0] != counter:
            text = drawn(self._in_progress(), self._width, self.theme).rstrip("\n")
            room = max(3, self.app.output.get_size().rows - self._buffer.text.count("\n") - 4)
            lines = text.split("\n")[-room:]
            self._drawn = counter, to_formatted_text(ANSI("\n".join(lines))) if text else []
        return self._drawn[1]

    def _in_progress(self) -> list[RenderableType]:
        parts = self.display.live()
        chat = self._chat
        if chat is None:
            return parts
        parts += [Text(f"⇢ {one_line(text, 120)}  (it reads this next)", "dim") for text in chat.queued]
        if chat.steering:
            parts.append(Text("type what it should know, Enter sends; Ctrl-C again stops it", "yellow"))
        if chat.question is not None:
            parts.append(Text(chat.question.text, "bold yellow"))
        return parts

    # --- keys --------------------------------------------------------------------------------------------------------

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        chosen = Condition(
            lambda: (
                self._buffer.complete_state is not None and self._buffer.complete_state.current_completion is not None
            )
        )

        @keys.add("enter", filter=has_completions & chosen)
        def _(event: KeyPressEvent) -> None:
            self._buffer.complete_state = None

        @keys.add("enter", filter=~(has_completions & chosen))
        def _(event: KeyPressEvent) -> None:
            self._enter()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            self._buffer.insert_text("\n")

        @keys.add("c-c")
        @keys.add(Keys.SIGINT)
        def _(event: KeyPressEvent) -> None:
            self._interrupt()

        @keys.add("c-d", filter=Condition(lambda: not self._buffer.text))
        def _(event: KeyPressEvent) -> None:
            self.leave()

        @keys.add(Keys.BracketedPaste)
        def _(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            before = event.current_buffer.document.text_before_cursor
            starts_argument = not before or (before[-1].isspace() and not before.startswith("/"))
            if self._chat is not None and event.current_buffer is self._buffer and starts_argument:
                text = images_mentioned(text, self._chat.settings.root)
            event.current_buffer.insert_text(text)

        @keys.add("c-t")
        def _(event: KeyPressEvent) -> None:
            self._lines.put_nowait("/thinking")

        @keys.add("c-z")
        def _(event: KeyPressEvent) -> None:
            event.app.suspend_to_background()

        return keys

    def _enter(self) -> None:
        text = self._buffer.text
        if self._buffer.document.is_cursor_at_the_end and text.endswith("\\"):
            self._buffer.delete_before_cursor()
            self._buffer.insert_text("\n")
            return
        has_question = self._chat is not None and self._chat.question is not None
        if not has_question:
            self._buffer.append_to_history()
        self._buffer.reset()
        if text.strip() or has_question:
            self._lines.put_nowait(text)

    def _interrupt(self) -> None:
        if self._chat is not None and self._chat.interrupt():
            return
        if self._buffer.text:
            self._buffer.reset()


def notification(text: str, environment: Mapping[str, str]) -> str:
    """Returns the bell, and the escape sequence of a desktop notification that this terminal supports.

    Only one of the two common ones, since some terminals would show both: OSC 777 of rxvt-unicode, which foot and VTE
    read, or OSC 9 of iTerm2, which kitty, WezTerm, Ghostty and Windows Terminal read. The Linux console would print
    them.
    """
    term = environment.get("TERM", "")
    if term == "linux":
        return "\a"
    if term.startswith(("rxvt", "foot")) or "VTE_VERSION" in environment:
        return f"\x1b]777;notify;interlingua;{one_line(text)}\x1b\\\a"
    return f"\x1b]9;interlingua: {one_line(text)}\x1b\\\a"


def drawn(parts: Any, width: int, theme: Theme = DARK) -> str:
    """Renders parts as text with escapes, for this terminal."""
    out = io.StringIO()
    console = safe_console(theme=theme, file=out, force_terminal=True, width=width, legacy_windows=False)
    for part in parts:
        console.print(part)
    return out.getvalue()


def _own_file(path: Path) -> Path:
    """Creates the file with mode 0600."""
    private_folder(path.parent)
    os.close(open_regular(path, os.O_RDWR | os.O_CREAT, follow=True))  # a FIFO in its place would block the prompt
    return path


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# --- completion: commands, their arguments, and files after an `@` ---------------------------------------------------

_MAX_COMPLETIONS = 100
_ARGUMENT = re.compile(r"/([a-z]+)\s+(.*)", re.DOTALL)
_MENTION = re.compile(r'(?:^|\s)@("?)([^\s"]*)$')


class ChatCompleter(Completer):
    """`arguments` returns the candidates of a command's argument, by its name; may block, since it runs in a thread."""

    def __init__(
        self, commands: Mapping[str, Command], root: Path, arguments: Mapping[str, Callable[[], Sequence[str]]]
    ) -> None:
        self._commands = commands
        self._root = root
        self._arguments = arguments

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        mention = _MENTION.search(text)
        argument = _ARGUMENT.fullmatch(text)
        if mention is not None:
            yield from self._files(mention[2])
        elif argument is not None:
            yield from self._arguments_for(argument[1], argument[2].rpartition(" ")[2])
        elif text.startswith("/") and " " not in text:
            yield from self._names(text[1:])

    def _names(self, prefix: str) -> Iterator[Completion]:
        for command in self._commands.values():
            if command.name.startswith(prefix.lower()):
                yield Completion(f"/{command.name}", -len(prefix) - 1, display_meta=command.about)

    def _arguments_for(self, command: str, prefix: str) -> Iterator[Completion]:
        known = self._arguments.get(command)
        text = known() if known is not None else ()
        leading = [candidate for candidate in text if candidate.lower().startswith(prefix.lower())]
        within = [candidate for candidate in text if prefix.lower() in candidate.lower() and candidate not in leading]
        for candidate in [*leading, *within][:_MAX_COMPLETIONS]:
            yield Completion(candidate, -len(prefix))

    def _files(self, prefix: str) -> Iterator[Completion]:
        folder, _, start = prefix.rpartition("/")
        base = f"{folder}/" if "/" in prefix else ""
        try:
            with os.scandir(place(base or ".", self._root)) as found:
                entries = sorted(((entry.name, entry.is_dir()) for entry in found), key=lambda pair: pair[0])
        except OSError:
            return
        for name, is_folder in [pair for pair in entries if _fits(pair[0], start)][:_MAX_COMPLETIONS]:
            shown = f"{name}/" if is_folder else name
            yield Completion(shown, -len(start), display=shown)


def _fits(name: str, start: str) -> bool:
    """Whether to offer a name: hidden files only after a dot, never names with spaces or control characters."""
    return name.startswith(start) and name.isprintable() and " " not in name and (start != "" or name[0] != ".")


# --- the picker of sessions -------------------------------------------------------------------------------------------

_ROWS = 12
_KEYS = " type to search · ↑ ↓ choose · Enter opens · Ctrl-C leaves"


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else f"{set_cell_size(text, width - 1)}…"


class SessionPicker:
    """Returns the id of the chosen session from `run`; None if the user leaves."""

    def __init__(
        self, infos: Sequence[SessionInfo], *, input: Input | None = None, output: Output | None = None
    ) -> None:
        self._infos = infos
        self._at = 0  # the index of the selected row among the matches
        self._search = Buffer(multiline=False, on_text_changed=self._narrow)
        self._found = list(infos)
        search = Window(BufferControl(self._search, input_processors=[BeforeInput("session › ")]), height=1)
        rows = Window(FormattedTextControl(self._rows), dont_extend_height=True)
        keys = Window(FormattedTextControl(_KEYS), height=1, style="reverse")
        self._app: Application[str | None] = Application(
            layout=Layout(HSplit([search, rows, keys]), focused_element=search),
            key_bindings=self._bindings(),
            erase_when_done=True,
            input=input,
            output=output,
        )

    async def run(self) -> str | None:
        return await self._app.run_async()

    def _narrow(self, _: Buffer) -> None:
        self._found = matching(self._infos, self._search.text)
        self._at = 0

    def _rows(self) -> StyleAndTextTuples:
        if not self._found:
            return [("", "  no session has this in its title, model or id")]
        width = max(20, self._app.output.get_size().columns - 1)
        first = max(0, min(self._at - _ROWS // 2, len(self._found) - _ROWS))
        shown = list(enumerate(self._found))[first : first + _ROWS]
        lines: StyleAndTextTuples = []
        for index, info in shown:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.modified / 1000))
            text = f"{'›' if index == self._at else ' '} {when}  {info.id[:8]}  {one_line(info.title or '')}"
            end = "" if index == shown[-1][0] else "\n"
            lines.append(("bold" if index == self._at else "", f"{_cut(text, width)}{end}"))
        return lines

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()

        def move(by: int) -> None:
            self._at = max(0, min(self._at + by, len(self._found) - 1))

        @keys.add("up")
        @keys.add("c-p")
        def _(event: KeyPressEvent) -> None:
            move(-1)

        @keys.add("down")
        @keys.add("c-n")
        def _(event: KeyPressEvent) -> None:
            move(1)

        @keys.add("pageup")
        def _(event: KeyPressEvent) -> None:
            move(-_ROWS)

        @keys.add("pagedown")
        def _(event: KeyPressEvent) -> None:
            move(_ROWS)

        @keys.add("enter", filter=Condition(lambda: bool(self._found)))
        def _(event: KeyPressEvent) -> None:
            self._app.exit(result=self._found[self._at].id)

        @keys.add("enter", filter=Condition(lambda: not self._found))
        def _(event: KeyPressEvent) -> None:
            """Does nothing without a match."""

        @keys.add("c-c")
        @keys.add("c-d")
        @keys.add("<sigint>")
        def _(event: KeyPressEvent) -> None:
            self._app.exit(result=None)

        return keys
