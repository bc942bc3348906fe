"""Two conversations side by side: which messages belong together, and what differs in them, word by word. Pure."""

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from ..values import jsontext
from ..values.canonical import plain
from ..values.messages import AgentMessage

Kind: TypeAlias = Literal["equal", "changed", "removed", "added"]

# What a format may or may not write down about a message, and what is not the message itself.
BOOKKEEPING = frozenset(
    {"timestamp", "usage", "api", "provider", "model", "responseId", "responseModel", "stopReason", "stopDetail"}
    | {"extra", "argumentsText", "toolName"}
)
MAX_WORDS = 10_000  # of either text; longer ones are compared line by line
_MANY_WORDS = 1_000  # from here on, words that are everywhere do not begin a match: comparing stays quick
_WORDS = re.compile(r"\s*(?:\w+|[^\w\s])|\s+")  # blanks go with what follows: alone they would match anywhere
_LINES = re.compile(r"[^\n]*\n|[^\n]+")


class Pair(NamedTuple):
    """A message of each side that belong together; one of them is None where the other side has none."""

    kind: Kind
    a: int | None
    b: int | None


class Span(NamedTuple):
    """A piece of text that both sides have, or one of them."""

    text: str
    side: Literal["both", "a", "b"]


def comparable(message: AgentMessage, *, everything: bool = False) -> dict[str, Any]:
    """What a message says, in one spelling: text content as blocks, bookkeeping left out unless `everything`."""
    value: dict[str, Any] = plain(message)
    if isinstance(value.get("content"), str):
        value = {**value, "content": [{"type": "text", "text": value["content"]}]}
    return value if everything else _stripped(value)


def _stripped(value: dict[str, Any]) -> dict[str, Any]:
    kept = {key: item for key, item in value.items() if key not in BOOKKEEPING}
    if isinstance(kept.get("content"), list):
        kept["content"] = [_stripped(item) if isinstance(item, dict) else item for item in kept["content"]]
    return kept


def common_prefix(a: Sequence[Any], b: Sequence[Any]) -> int:
    """How many values are the same from the beginning on."""
    count = 0
    for left, right in zip(a, b, strict=False):
        if left != right:
            break
        count += 1
    return count


def aligned(a: Sequence[dict[str, Any]], b: Sequence[dict[str, Any]]) -> Iterator[Pair]:
    """Which messages belong together, in order: the same ones first; between them, those of one role."""
    keys = [[jsontext.compact(value) for value in side] for side in (a, b)]
    start = common_prefix(*keys)
    yield from (Pair("equal", at, at) for at in range(start))
    matcher = difflib.SequenceMatcher(None, keys[0][start:], keys[1][start:], autojunk=False)
    for kind, a1, a2, b1, b2 in matcher.get_opcodes():
        if kind == "equal":
            yield from (Pair("equal", start + a1 + at, start + b1 + at) for at in range(a2 - a1))
        else:
            yield from _by_role(a, b, range(start + a1, start + a2), range(start + b1, start + b2))


def _by_role(a: Sequence[dict[str, Any]], b: Sequence[dict[str, Any]], left: range, right: range) -> Iterator[Pair]:
    """Messages that differ: neighbours of the same role are two tellings of one, the others stand alone."""
    roles = [[side[at].get("role") for at in where] for side, where in ((a, left), (b, right))]
    matcher = difflib.SequenceMatcher(None, roles[0], roles[1], autojunk=False)
    for kind, a1, a2, b1, b2 in matcher.get_opcodes():
        if kind == "equal":
            yield from (Pair("changed", left[a1 + at], right[b1 + at]) for at in range(a2 - a1))
        else:
            yield from (Pair("removed", left[at], None) for at in range(a1, a2))
            yield from (Pair("added", None, right[at]) for at in range(b1, b2))


def spans(a: str, b: str) -> list[Span]:
    """Two texts as one row of pieces, word by word; line by line where they are very long."""
    terms = [_WORDS.findall(text) for text in (a, b)]
    if max(map(len, terms)) > MAX_WORDS:
        terms = [_LINES.findall(text) for text in (a, b)]
    found: list[Span] = []
    matcher = difflib.SequenceMatcher(None, terms[0], terms[1], autojunk=max(map(len, terms)) > _MANY_WORDS)
    for kind, a1, a2, b1, b2 in matcher.get_opcodes():
        if kind == "equal":
            found.append(Span("".join(terms[0][a1:a2]), "both"))
            continue
        if a1 < a2:
            found.append(Span("".join(terms[0][a1:a2]), "a"))
        if b1 < b2:
            found.append(Span("".join(terms[1][b1:b2]), "b"))
    return found


def alike(pieces: Sequence[Span]) -> tuple[int, int]:
    """How many words both sides have, and how many there are in the longer one."""
    counts = {"both": 0, "a": 0, "b": 0}
    for piece in pieces:
        counts[piece.side] += len(re.findall(r"\w+", piece.text))
    return counts["both"], counts["both"] + max(counts["a"], counts["b"])
