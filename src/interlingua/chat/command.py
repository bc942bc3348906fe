"""What a command is and how a line is read: commands, and files named with `@`."""

import difflib
import os
import re
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ..conversion.local_files import attached
from ..values.messages import TextBlock

# Files named in a message: `@notes.md` or `@"my picture.png"` goes along with the words.


MENTION = re.compile(r'(?:(?<=\s)|^)@(?:"([^"\n]+)"|(\S+))')
_ENDINGS = ",.;:!?)]}"


class Attached(NamedTuple):
    """A message's content, and the mentions that look like files but are none."""

    content: Any
    missing: tuple[str, ...]


def attach(text: str, root: Path) -> Attached:
    """The words with the files that they mention. Reads files: not for the event loop."""
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


# What a command is, and how one is read from a line.


_LINE = re.compile(r"/([A-Za-z?]+)(?:\s+(.*))?", re.DOTALL)


class Run(Protocol):
    """Does what a command says, with the chat and the rest of the line."""

    def __call__(self, chat: Any, argument: str, /) -> Coroutine[Any, Any, None]: ...


class Command(NamedTuple):
    """A command. One that is `instant` changes nothing in the conversation, so it may run beside the agent."""

    name: str
    takes: str
    about: str
    run: Run
    instant: bool = False


def parse(line: str) -> tuple[str, str] | None:
    """The name and the argument of a command line; None for words to the model, a path among them."""
    found = _LINE.fullmatch(line.strip())
    return (found[1].lower(), (found[2] or "").strip()) if found else None


def nearest(name: str, known: Iterable[str]) -> str:
    """What to say of a command that does not exist."""
    near = difflib.get_close_matches(name, list(known), 1, 0.5)
    hint = f"did you mean /{near[0]}?" if near else "/help lists the commands"
    return f"there is no command /{name}; {hint}"
