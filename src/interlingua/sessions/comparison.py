"""Comparison of two conversations: aligns messages and diffs their texts word by word. Pure."""

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from ..values import jsontext
from ..values.canonical import plain
from ..values.messages import AgentMessage, CustomMessage, text_of
from ..values.request import Conversation, Entry

Kind: TypeAlias = Literal["equal", "changed", "removed", "added"]

# Metadata that some formats do not store.
BOOKKEEPING = frozenset(
    {"timestamp", "usage", "api", "provider", "model", "responseId", "responseModel", "stopReason", "stopDetail"}
    | {"extra", "argumentsText", "toolName"}
)
MAX_TOKENS = 10_000  # longer texts are compared line by line
_AUTOJUNK_TOKENS = 1_000  # longer texts use difflib's autojunk heuristic, for speed
_TOKENS = re.compile(r"\s*(?:\w+|[^\w\s])|\s+")  # spaces belong to the next word: alone they would match anywhere
_LINES = re.compile(r"[^\n]*\n|[^\n]+")


class MessagePair(NamedTuple):
    """Two aligned messages by index; None where a side has no counterpart."""

    kind: Kind
    a: int | None
    b: int | None


class TextSpan(NamedTuple):
    """A piece of text that is on both sides, or on one."""

    text: str
    side: Literal["both", "a", "b"]


def comparable(message: AgentMessage, *, everything: bool = False) -> dict[str, Any]:
    """A message in normal form: text content as blocks, without bookkeeping unless `everything`."""
    value: dict[str, Any] = plain(message)
    if isinstance(value.get("content"), str):
        value = {**value, "content": [{"type": "text", "text": value["content"]}]}
    return value if everything else _stripped(value)


def _stripped(value: dict[str, Any]) -> dict[str, Any]:
    stripped = {key: item for key, item in value.items() if key not in BOOKKEEPING}
    if isinstance(stripped.get("content"), list):
        stripped["content"] = [_stripped(item) if isinstance(item, dict) else item for item in stripped["content"]]
    return stripped


def common_prefix(a: Sequence[Any], b: Sequence[Any]) -> int:
    """The length of the common prefix."""
    count = 0
    for left, right in zip(a, b, strict=False):
        if left != right:
            break
        count += 1
    return count


def aligned(a: Sequence[dict[str, Any]], b: Sequence[dict[str, Any]]) -> Iterator[MessagePair]:
    """Aligns messages in order: equal ones first; between them, those of the same role."""
    keys = [[jsontext.compact(value) for value in side] for side in (a, b)]
    start = common_prefix(*keys)
    yield from (MessagePair("equal", at, at) for at in range(start))
    matcher = difflib.SequenceMatcher(None, keys[0][start:], keys[1][start:], autojunk=False)
    for kind, a1, a2, b1, b2 in matcher.get_opcodes():
        if kind == "equal":
            yield from (MessagePair("equal", start + a1 + at, start + b1 + at) for at in range(a2 - a1))
        else:
            yield from _by_role(a, b, range(start + a1, start + a2), range(start + b1, start + b2))


def _by_role(
    a: Sequence[dict[str, Any]], b: Sequence[dict[str, Any]], left: range, right: range
) -> Iterator[MessagePair]:
    """Aligns messages that differ by role; the others are removed or added."""
    roles = [[side[at].get("role") for at in where] for side, where in ((a, left), (b, right))]
    matcher = difflib.SequenceMatcher(None, roles[0], roles[1], autojunk=False)
    for kind, a1, a2, b1, b2 in matcher.get_opcodes():
        if kind == "equal":
            yield from (MessagePair("changed", left[a1 + at], right[b1 + at]) for at in range(a2 - a1))
        else:
            yield from (MessagePair("removed", left[at], None) for at in range(a1, a2))
            yield from (MessagePair("added", None, right[at]) for at in range(b1, b2))


def spans(a: str, b: str) -> list[TextSpan]:
    """The diff of two texts, word by word; line by line if they are very long."""
    tokens = [_TOKENS.findall(text) for text in (a, b)]
    if max(map(len, tokens)) > MAX_TOKENS:
        tokens = [_LINES.findall(text) for text in (a, b)]
    found: list[TextSpan] = []
    matcher = difflib.SequenceMatcher(None, tokens[0], tokens[1], autojunk=max(map(len, tokens)) > _AUTOJUNK_TOKENS)
    for kind, a1, a2, b1, b2 in matcher.get_opcodes():
        if kind == "equal":
            found.append(TextSpan("".join(tokens[0][a1:a2]), "both"))
            continue
        if a1 < a2:
            found.append(TextSpan("".join(tokens[0][a1:a2]), "a"))
        if b1 < b2:
            found.append(TextSpan("".join(tokens[1][b1:b2]), "b"))
    return found


def alike(pieces: Sequence[TextSpan]) -> tuple[int, int]:
    """The number of common tokens, and of tokens in the longer side."""
    counts = {"both": 0, "a": 0, "b": 0}
    for piece in pieces:
        counts[piece.side] += len(re.findall(r"\w+", piece.text))
    return counts["both"], counts["both"] + max(counts["a"], counts["b"])


class Difference(NamedTuple):
    """Two aligned messages that differ, by index, with the changed lines; both are None for the system text."""

    kind: Kind
    a: int | None
    b: int | None
    changes: list[str]
    role: str = "system"

    @property
    def heading(self) -> str:
        if self.a is self.b is None:
            return f"{self.kind} system ↔ system"
        return f"{self.kind} {' ↔ '.join('–' if at is None else f'[{at}]' for at in (self.a, self.b))}"


def is_record(entry: Entry) -> bool:
    """Whether an entry is a line of a program's session file without a message."""
    if not isinstance(entry.message, CustomMessage) or entry.message.role in ("compaction", "compacted"):
        return False
    return any(isinstance(kept, dict) and ("~record" in kept or "~line" in kept) for kept in entry.extra.values())


def differences(
    a: Conversation, b: Conversation, *, everything: bool = False, for_reading: bool = False
) -> Iterator[Difference]:
    """What differs between two conversations, in order; with `everything`, bookkeeping too.

    Lines are of the messages as JSON, or `for_reading` of their texts and calls.
    """
    shown = _readable if for_reading else _pretty
    before, after = text_of(a.system), text_of(b.system)
    if before != after:
        yield Difference("changed", None, None, _changed_lines(before, after))
    (places, left), (other_places, right) = (_comparables(one, everything=everything) for one in (a, b))
    for kind, at, bt in aligned(left, right):
        if at is not None and bt is not None:
            if kind == "changed":
                lines = _changed_lines(shown(left[at]), shown(right[bt]))
                lines = lines or _changed_lines(_pretty(left[at]), _pretty(right[bt]))
                yield Difference(kind, places[at], other_places[bt], lines, str(right[bt].get("role")))
        elif at is not None:
            removed = [f"- {line}" for line in shown(left[at]).splitlines()]
            yield Difference(kind, places[at], None, removed, str(left[at].get("role")))
        elif bt is not None:
            added = [f"+ {line}" for line in shown(right[bt]).splitlines()]
            yield Difference(kind, None, other_places[bt], added, str(right[bt].get("role")))


def _comparables(conversation: Conversation, *, everything: bool) -> tuple[list[int], list[dict[str, Any]]]:
    """The messages to compare, and their places on the path."""
    path = conversation.path()
    places = [at for at, entry in enumerate(path) if everything or not is_record(entry)]
    return places, [comparable(path[at].message, everything=everything) for at in places]


def _readable(message: dict[str, Any]) -> str:
    """A message in normal form as people read it: its texts, its calls, and other blocks by their type."""
    blocks = message.get("content")
    if not isinstance(blocks, list) or not blocks:
        return _pretty(message)
    lines = []
    for block in blocks:
        if "text" in block:
            lines.append(str(block["text"]))
        elif "name" in block and "arguments" in block:
            lines.append(f"→ {block['name']} {jsontext.compact(block['arguments'])}")
        else:
            lines.append(f"[{block.get('type')}]")
    return "\n".join(lines)


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def _changed_lines(a: str, b: str) -> list[str]:
    diff = list(difflib.unified_diff(a.splitlines(), b.splitlines(), lineterm="", n=1))
    return [line for line in diff[2:] if not line.startswith("@@")]  # without the two lines that name the files
