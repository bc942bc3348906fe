"""Markdown that arrives in pieces, cut where what came before can no longer change.

What is cut off is shown once and never touched again; only the tail is drawn anew as it grows, and it is never long. So
an answer costs work in proportion to its length, and what has scrolled by stays.
"""

import re
from typing import NamedTuple

MOST_LINES = 60
MOST_CHARACTERS = 6_000

_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_RULE = re.compile(r"[\s|:-]*-[\s|:-]*\|[\s|:-]*|\|?[\s:]*-+[\s:]*\|?")


class Piece(NamedTuple):
    """Part of a text, in order: all `text` together is what came. The rest makes a part of a block whole by itself."""

    text: str
    before: str = ""
    after: str = ""
    continues: bool = False  # a part of the same block comes before it

    @property
    def markdown(self) -> str:
        return f"{self.before}{self.text}{self.after}"


class Blocks:
    """Takes text as it comes; gives pieces. Where the text is cut on its way makes no difference to them."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._rest = ""  # of a line whose end has not come
        self._fence: str | None = None  # the line that opened the code we are in
        self._before = ""
        self._continues = False

    @property
    def tail(self) -> Piece | None:
        """What may still change."""
        text = "".join(self._lines) + self._rest
        return self._piece(text) if text.strip() else None

    def feed(self, text: str) -> list[Piece]:
        out: list[Piece] = []
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            out += self._line(line)
        self._rest, cut = self._shortened(self._rest)
        out += cut
        if self._rest and self._is_boundary(self._rest):
            out += self._cut()
        return out

    def close(self) -> list[Piece]:
        """The end of the text: what is left."""
        self._lines.append(self._rest)
        self._rest = ""
        left = self._cut()
        self._fence = None
        self._before, self._continues = "", False
        return left

    def _line(self, line: str) -> list[Piece]:
        line, out = self._shortened(line)
        if self._is_boundary(line):
            out += self._cut()
        self._add(f"{line}\n")
        self._follow_fence(line)
        if len(self._lines) >= MOST_LINES or self._size >= MOST_CHARACTERS:
            out += self._cut(within=True)
        return out

    def _shortened(self, line: str) -> tuple[str, list[Piece]]:
        """A line that is too long for one piece is cut, between words where there are any."""
        out: list[Piece] = []
        while len(line) > MOST_CHARACTERS:
            if self._is_boundary(line):
                out += self._cut()
            at = line.rfind(" ", MOST_CHARACTERS // 2, MOST_CHARACTERS) + 1 or MOST_CHARACTERS
            self._add(line[:at])
            out += self._cut(within=True)
            line = line[at:]
        return line, out

    def _is_boundary(self, line: str) -> bool:
        """Whether a new block begins: behind a blank line, and not with an indent, which would go on with a list."""
        blank_before = bool(self._lines) and not self._lines[-1].strip() and self._size > 1
        return blank_before and self._fence is None and bool(line.strip()) and not line.startswith((" ", "\t"))

    def _follow_fence(self, line: str) -> None:
        found = _FENCE.match(line)
        if found is None:
            return
        if self._fence is None:
            self._fence = f"{line}\n"
        elif line.strip() == found[1] and found[1].startswith(self._marks()):
            self._fence = None

    def _marks(self) -> str:
        found = _FENCE.match(self._fence or "")
        return found[1] if found else ""

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line)

    def _piece(self, text: str) -> Piece:
        after = f"{'' if text.endswith(chr(10)) else chr(10)}{self._marks()}\n" if self._fence is not None else ""
        return Piece(text, self._before, after, self._continues)

    def _cut(self, *, within: bool = False) -> list[Piece]:
        """Ends a piece here. `within` a block, the next one begins with what makes it the same kind of block."""
        text = "".join(self._lines)
        made = [self._piece(text)] if text else []
        opening = (self._fence or _table_head(self._lines) or self._before) if within else ""
        if self._fence is None and within and self._before.lstrip().startswith(("`", "~")):
            opening = ""
        self._before, self._continues = opening, within
        self._lines, self._size = [], 0
        return made


def _table_head(lines: list[str]) -> str:
    """The two lines that begin a table, if these do."""
    is_table = len(lines) >= 2 and "|" in lines[0] and _RULE.fullmatch(lines[1].strip()) is not None
    return "".join(lines[:2]) if is_table else ""
