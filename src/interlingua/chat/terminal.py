"""Safe terminal output: removes control sequences from untrusted text.

`safe_streams` replaces standard output and standard error, so that `print`, `click.echo`, errors and tracebacks pass
through `printable`. Colours come only from consoles of `safe_console`, which sanitize each piece of text before they
colour it and write to the underlying streams.
"""

import codecs
import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

from ..values.text import escaped, printable

if TYPE_CHECKING:  # rich is imported when something is printed with it
    from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderResult
    from rich.segment import Segment
    from rich.style import Style

    from .themes import Theme


# One ASCII character for each symbol that we print, so that columns stay aligned on ASCII terminals.
_LOOK_ALIKES = dict(zip("…·•→←›»▸⇢●■✓✗×—–‘’“”─━│┃", "..*><>>>>**+xx--''\"\"--||", strict=True))
LOOK_ALIKES = "interlingua-look-alikes"  # the error handler of streams whose encoding may lack a character


def _look_alikes(error: UnicodeError) -> tuple[str, int]:
    """Writes a symbol of ours as ASCII, and any other character that the encoding lacks as an escape."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    escapes = (_LOOK_ALIKES.get(one) or one.encode("ascii", "backslashreplace").decode() for one in missing)
    return "".join(escapes), error.end


codecs.register_error(LOOK_ALIKES, _look_alikes)


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
    """Returns the underlying stream of a safe one, for callers that sanitize their own output."""
    return stream.stream if isinstance(stream, SafeWriter) else stream


class TextStream:
    """A text stream without its `buffer`: prompt-toolkit would encode to it, with `?` for unsupported characters."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self._stream, name)


# In place of rich's own where these suit a black terminal only, are louder than the text, or look like an error.
_STYLES = {
    "markdown.code": "bold cyan",
    "markdown.h1": "bold underline",
    "markdown.h2": "bold",
    "markdown.h3": "bold",
    "markdown.h4": "bold dim",
    "markdown.block_quote": "italic",
    "markdown.link_url": "underline",
    "markdown.table.header": "bold",
    "markdown.table.border": "dim",
    "bar.complete": "cyan",
    "bar.finished": "green",
    "bar.pulse": "cyan",
    "bar.back": "dim",
    "progress.download": "none",
    "progress.data.speed": "dim",
    "progress.remaining": "dim",
}


def safe_console(*, theme: "Theme | None" = None, **options: Any) -> "Console":
    """A console that prints each piece of text without what steers a terminal, and reads no markup in it.

    On a terminal it has the colours of the theme; without one given, of the user's.
    """
    from rich.console import Console
    from rich.theme import Theme as Styles

    from . import themes

    if "file" not in options:
        options["file"] = behind(sys.stderr if options.pop("stderr", False) else sys.stdout)
    console = Console(highlight=False, markup=False, emoji=False, theme=Styles(_STYLES), **options)
    has_colour = console.color_system is not None and not console.no_color
    theme = theme or (themes.usual_theme() if has_colour else themes.DARK)
    console.no_color = console.no_color or not theme.has_colour
    console.push_render_hook(cast(Any, _CleanHook(theme.replaced)))
    return console


class _CleanHook:
    def __init__(self, colours: Mapping[str, str]) -> None:
        self._colours = colours

    def process_renderables(self, renderables: "list[ConsoleRenderable]") -> "list[_Cleaned]":
        return [_Cleaned(renderable, self._colours) for renderable in renderables]


class _Cleaned:
    """What another one renders, with its text and links cleaned. Control segments are rich's own."""

    def __init__(self, renderable: "RenderableType", colours: Mapping[str, str]) -> None:
        self._renderable = renderable
        self._colours = colours

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.segment import Segment
        from rich.table import Table

        segments = console.render(self._renderable, options)
        if isinstance(self._renderable, Table) and not console.is_terminal:
            segments = _unpadded(segments)
        for segment in segments:
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), _themed(_unlinked(segment.style), self._colours))


def _unpadded(segments: "Iterable[Segment]") -> "Iterator[Segment]":
    """The lines of a table without the spaces at their ends, which would only disturb programs that read them."""
    from rich.segment import Segment

    for line in Segment.split_lines(segments):
        kept = list(line)
        while kept and not kept[-1].text.strip():
            kept.pop()
        if kept:
            yield from kept[:-1]
            yield Segment(kept[-1].text.rstrip(), kept[-1].style)
        yield Segment.line()


def _themed(style: "Style | None", colours: Mapping[str, str]) -> "Style | None":
    """The style in the colours of the theme, by their names."""
    if style is None or style.color is None or style.color.name not in colours:
        return style
    from rich.style import Style

    return style + Style(color=colours[style.color.name])


def _unlinked(style: "Style | None") -> "Style | None":
    """Returns the style with its link sanitized: rich writes a link's URL into an escape sequence unchanged."""
    return style if style is None or not style.link else style.update_link(printable(style.link) or None)
