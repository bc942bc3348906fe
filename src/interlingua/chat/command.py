"""Parsing of input lines: commands, and files mentioned with `@`."""

import mimetypes
import os
import re
import shlex
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from ..conversion.attachments import attached
from ..values import errors
from ..values.messages import TextBlock

# Files mentioned in a message: `@notes.md` or `@"my picture.png"` are attached.


MENTION = re.compile(r'(?:(?<=\s)|^)@(?:"([^"\n]+)"|(\S+))')
_ENDINGS = ",.;:!?)]}"


class Attached(NamedTuple):
    """A message's content, and the mentions of missing files."""

    content: Any
    missing: tuple[str, ...]


def attach(text: str, root: Path) -> Attached:
    """The text with the files that it mentions. Blocking."""
    blocks, missing = [], []
    for found in MENTION.finditer(text):
        name = found[1] or found[2]
        path = _file(name, root)
        if path is not None:
            blocks.append(attached(path))
        elif "/" in name or "." in name.strip("."):
            missing.append(name)
    content = (*blocks, TextBlock(text=text)) if blocks else text
    return Attached(content, tuple(missing))


def images_mentioned(pasted: str, root: Path) -> str:
    """Converts pasted text to mentions if it consists of image file names: plain, quoted, escaped, or `file:` URLs.

    Terminals paste dropped files like this.
    """
    try:
        parts = shlex.split(pasted)
    except ValueError:  # an open quote
        parts = []
    for names in ([pasted.strip()], parts):
        paths = [unquote(urlsplit(name).path) if name.startswith("file://") else name for name in names]
        if paths and all(_is_image(path, root) for path in paths):
            return "".join(f'@"{path}" ' if re.search(r"\s", path) else f"@{path} " for path in paths)
    return pasted


def _is_image(name: str, root: Path) -> bool:
    """Whether it can be mentioned, and is an existing image."""
    is_image = (mimetypes.guess_type(name)[0] or "").startswith("image/")
    return is_image and '"' not in name and "\n" not in name and place(name, root).is_file()


def is_file_name(name: str) -> bool:
    """Whether a mention must be a file: it has a known suffix, unlike `@app.route` or `@types/node`."""
    return mimetypes.guess_type(name.rstrip(_ENDINGS))[0] is not None


def _file(name: str, root: Path) -> str | None:
    if name.startswith(("http://", "https://")):
        return name
    for candidate in dict.fromkeys((name, name.rstrip(_ENDINGS))):
        path = place(candidate, root)
        if path.is_file():
            return str(path)
    return None


def place(name: str, root: Path) -> Path:
    return root / os.path.expanduser(name)  # noqa: PTH111 - an absolute path stays one


# Commands.


_LINE = re.compile(r"/([A-Za-z?]+)(?:\s+(.*))?", re.DOTALL)


class CommandFunction(Protocol):
    """Runs a command with the chat and its argument."""

    def __call__(self, chat: Any, argument: str, /) -> Coroutine[Any, Any, None]: ...


class Command(NamedTuple):
    """A command. An `instant` one does not change the conversation, so it may run while the agent works."""

    name: str
    takes: str
    about: str
    run: CommandFunction
    instant: bool = False


def parse(line: str) -> tuple[str, str] | None:
    """The name and argument of a command line; None for a message, including one that starts with a path."""
    found = _LINE.fullmatch(line.strip())
    return (found[1].lower(), (found[2] or "").strip()) if found else None


def nearest(name: str, known: Iterable[str]) -> str:
    """The message for an unknown command."""
    near = errors.nearest(name, known, 1, 0.5)
    hint = f"did you mean /{near[0]}?" if near else "/help lists the commands"
    return f"unknown command /{name}; {hint}"
