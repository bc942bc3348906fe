"""The session picker on a terminal: a list, the latest first, filtered by typed text."""

import time
from collections.abc import Sequence

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import Output
from rich.cells import cell_len, set_cell_size

from ..sessions import SessionInfo
from .opening import matching
from .rendering import one_line

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
