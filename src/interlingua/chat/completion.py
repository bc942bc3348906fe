"""What Tab offers: commands, what they take, and files behind an `@`."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from .command import Command, place

_MOST = 100
_ARGUMENT = re.compile(r"/([a-z]+)\s+(.*)", re.DOTALL)
_MENTION = re.compile(r'(?:^|\s)@("?)([^\s"]*)$')


class ChatCompleter(Completer):
    """`arguments` gives what a command takes, by its name; it may be slow, for completion runs in a thread."""

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
            yield from self._text(argument[1], argument[2].rpartition(" ")[2])
        elif text.startswith("/") and " " not in text:
            yield from self._names(text[1:])

    def _names(self, begun: str) -> Iterator[Completion]:
        for command in self._commands.values():
            if command.name.startswith(begun.lower()):
                yield Completion(f"/{command.name}", -len(begun) - 1, display_meta=command.about)

    def _text(self, command: str, begun: str) -> Iterator[Completion]:
        known = self._arguments.get(command)
        text = known() if known is not None else ()
        leading = [word for word in text if word.lower().startswith(begun.lower())]
        within = [word for word in text if begun.lower() in word.lower() and word not in leading]
        for word in [*leading, *within][:_MOST]:
            yield Completion(word, -len(begun))

    def _files(self, begun: str) -> Iterator[Completion]:
        folder, _, start = begun.rpartition("/")
        base = f"{folder}/" if "/" in begun else ""
        try:
            with os.scandir(place(base or ".", self._root)) as found:
                entries = sorted(((entry.name, entry.is_dir()) for entry in found), key=lambda pair: pair[0])
        except OSError:
            return
        for name, is_folder in [pair for pair in entries if _fits(pair[0], start)][:_MOST]:
            shown = f"{name}/" if is_folder else name
            yield Completion(shown, -len(start), display=shown)


def _fits(name: str, start: str) -> bool:
    """Hidden files are offered only to who asks for them; names that would need quotes or upset a terminal never."""
    return name.startswith(start) and name.isprintable() and " " not in name and (start != "" or name[0] != ".")
