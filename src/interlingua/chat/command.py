"""What a command is, and how one is read from a line."""

import difflib
import re
from collections.abc import Coroutine, Iterable
from typing import Any, NamedTuple, Protocol

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
