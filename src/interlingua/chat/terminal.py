"""The one place that output goes through: nothing that strangers wrote steers the terminal.

`safe_streams` puts itself in the place of standard output and standard error, so that `print`, `click.echo`, errors and
tracebacks pass through `printable`. Colours come from consoles of `safe_console` alone, which clean each piece of text
before they colour it and write to the streams behind.
"""

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

from ..values.visible_text import escaped, printable

if TYPE_CHECKING:  # rich is imported when something is printed with it
    from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderResult
    from rich.style import Style


class SafeWriter:
    """A text stream that passes only printable text on. On a terminal, JSON documents are written with escapes."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self.stream.write(printable(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> Any:
        return _SafeBytes(self.stream.buffer) if self.stream.isatty() else self.stream.buffer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _SafeBytes:
    """The binary side of a terminal: for documents, which are JSON."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream

    def write(self, data: bytes) -> int:
        self.stream.write(escaped(bytes(data).decode(errors="replace")).encode())
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def install_safe_streams() -> None:
    """Makes standard output and error pass printable text only, from now on."""
    sys.stdout, sys.stderr = _safe(sys.stdout), _safe(sys.stderr)


@contextlib.contextmanager
def safe_streams() -> Iterator[None]:
    """`install_safe_streams` within the context."""
    before = sys.stdout, sys.stderr
    install_safe_streams()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _safe(stream: TextIO) -> TextIO:
    return stream if stream is None or isinstance(stream, SafeWriter) else cast(TextIO, SafeWriter(stream))


def behind(stream: TextIO) -> TextIO:
    """The stream behind a safe one, for those who clean what they write themselves."""
    return stream.stream if isinstance(stream, SafeWriter) else stream


def safe_console(**options: Any) -> "Console":
    """A console that prints each piece of text without what steers a terminal, and reads no markup in it."""
    from rich.console import Console

    if "file" not in options:
        options["file"] = behind(sys.stderr if options.pop("stderr", False) else sys.stdout)
    console = Console(highlight=False, markup=False, emoji=False, **options)
    console.push_render_hook(cast(Any, _CleanHook()))
    return console


class _CleanHook:
    def process_renderables(self, renderables: "list[ConsoleRenderable]") -> "list[_Cleaned]":
        return [_Cleaned(renderable) for renderable in renderables]


class _Cleaned:
    """What another one renders, with its text and links cleaned. Control segments are rich's own."""

    def __init__(self, renderable: "RenderableType") -> None:
        self._renderable = renderable

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.segment import Segment

        for segment in console.render(self._renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), _unlinked(segment.style))


def _unlinked(style: "Style | None") -> "Style | None":
    """The style, its link cleaned: rich writes a link's address into an escape sequence as it is."""
    return style if style is None or not style.link else style.update_link(printable(style.link) or None)
