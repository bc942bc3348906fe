"""The searchable texts of a session's lines, and search queries. Pure.

Scripts without word spacing (Chinese, Japanese, Thai, …) are indexed character by character, and a run of
characters is searched as a phrase, so that two characters are enough.
"""

import functools
import re
import unicodedata
from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import Struct

from ..values import jsontext
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    AudioBlock,
    CustomMessage,
    DocumentBlock,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    blocks_of,
    error_beside,
)
from ..values.text import spaced
from .reader import Line
from .tree import BAD, BLANK, LABEL, MARK, REVISION, SESSION

KINDS = ("text", "thinking", "arguments", "result", "system", "summary", "note", "document", "title", "other")
MAX_TERMS = 24
_QUERY = re.compile(r'(-?)"([^"]*)"?|(-?)(\S+)')
_TOKEN = re.compile(r"[^\W_]+")


class SearchText(NamedTuple):
    """One searchable text: its entry and block, and attributes of its message."""

    entry: str
    block: int | None
    kind: str
    role: str
    text: str
    tool: str | None = None
    model: str | None = None
    at: int | None = None
    is_error: bool = False
    cost: float | None = None


class Query(Struct, frozen=True, kw_only=True):
    """A search query. All terms must match; `sessions` are pairs of agent and id.

    `min_cost` is about a message; `min_total` and `max_total` are about the whole conversation.
    """

    text: str = ""
    sessions: tuple[tuple[str, str], ...] = ()
    stores: tuple[str, ...] = ()
    agent: str | None = None
    role: str | None = None
    tool: str | None = None
    model: str | None = None
    is_error: bool | None = None
    min_cost: float | None = None
    min_total: float | None = None
    max_total: float | None = None
    project: str | None = None
    since: int | None = None
    until: int | None = None
    limit: int = 50
    offset: int = 0


class Filters(NamedTuple):
    """The roles, tools and models that indexed texts have: the values that a query can filter by."""

    roles: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    models: tuple[str, ...] = ()


class Term(NamedTuple):
    """A word or a phrase; `excluded` terms must not occur."""

    tokens: tuple[str, ...]
    excluded: bool = False


def terms_of(text: str) -> list[Term]:
    """The terms of a query: `word`, `"a phrase"`, and `-word` to exclude. Nothing else is syntax."""
    terms: list[Term] = []
    for minus_quoted, quoted, minus, plain in _QUERY.findall(text):
        tokens = tuple(tokens_of(quoted or plain))
        if tokens:
            terms.append(Term(tokens, bool(minus_quoted or minus)))
    return terms[:MAX_TERMS]


def tokens_of(text: str) -> Iterator[str]:
    """The tokens of a text as they are indexed."""
    for found in _TOKEN.finditer(spaced(text)):
        yield found[0]


def texts_of(line: Line) -> Iterator[SearchText]:
    """The searchable texts of a line."""
    if line.kind in (BLANK, BAD):
        return
    if line.entry is not None:
        yield from message_texts(line.entry.id or "", line.entry.message)
        return
    fields = line.fields or {}
    target = fields.get("target")
    if line.kind == SESSION:
        system = _plain(fields.get("systemPrompt"))
        if system:
            yield SearchText("", None, "system", "system", system)
    elif line.kind == LABEL and isinstance(fields.get("label"), str):
        yield SearchText(target if isinstance(target, str) else "", None, "title", "", fields["label"])
    elif line.kind == MARK and isinstance(target, str) and isinstance(fields.get("text"), str):
        yield SearchText(target, None, "note", "", fields["text"])
    elif line.kind == REVISION and isinstance(target, str) and isinstance(fields.get("message"), dict):
        for text in _plain_texts(fields["message"]):
            yield SearchText(target, None, "text", str(fields["message"].get("role", "")), text)


def message_texts(entry: str, message: AgentMessage) -> Iterator[SearchText]:
    if isinstance(message, CustomMessage):
        kind = "summary" if message.role == "compaction" else "other"
        text = "\n".join(_strings(message.fields))
        if text.strip():
            yield SearchText(entry, None, kind, message.role, text)
        return
    about: dict[str, Any] = {"at": message.timestamp}
    if isinstance(message, AssistantMessage):
        cost = message.usage.cost if message.usage is not None else None
        failed = message.stop_reason in ("error", "aborted")
        about |= {"model": message.model, "is_error": failed, "cost": cost.total if cost is not None else None}
    if isinstance(message, ToolResultMessage):
        about |= {"tool": message.tool_name, "is_error": message.is_error}
    for number, block in enumerate(blocks_of(message.content)):
        kind, text, tool = _block(block, message)
        if text.strip():
            yield SearchText(entry, number, kind, message.role, text, **(about | ({"tool": tool} if tool else {})))
    error = error_beside(message) if isinstance(message, AssistantMessage) else None
    if error is not None:
        yield SearchText(entry, None, "other", message.role, error, **about)


def _block(block: Any, message: AgentMessage) -> tuple[str, str, str | None]:
    match block:
        case TextBlock():
            kind = "result" if isinstance(message, ToolResultMessage) else "text"
            return ("system" if message.role == "system" else kind), block.text, None
        case ThinkingBlock():
            return "thinking", block.thinking, None
        case ToolCall():
            text = block.arguments_text if block.parse_error else "\n".join(_strings(block.arguments))
            return "arguments", f"{block.name}\n{text or ''}", block.name
        case ServerToolCall():
            return "arguments", f"{block.name}\n" + "\n".join(_strings(block.arguments)), block.name
        case ServerToolResult():
            return "result", "\n".join(_strings(block.content)), block.tool_name
        case DocumentBlock():
            return "document", "\n".join(part for part in (block.title, block.context, block.text) if part), None
        case AudioBlock():
            return "text", block.transcript or "", None
        case OpaqueBlock():
            return "other", "\n".join(_strings(block.value)), None
        case _:
            return "other", "", None


def _strings(value: Any) -> Iterator[str]:
    """The strings and numbers in a JSON value, without base64 data."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, str):
            if not (len(found) > 512 and " " not in found[:512]):
                yield found
        elif isinstance(found, dict):
            waiting += reversed(found.values())
        elif isinstance(found, list | tuple):
            waiting += reversed(found)
        elif isinstance(found, int | float) and not isinstance(found, bool):
            yield jsontext.compact(found)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else "\n".join(_plain_texts({"content": value}))


def _plain_texts(message: dict[str, Any]) -> Iterator[str]:
    """The texts in the plain JSON of a message."""
    content = message.get("content")
    if isinstance(content, str):
        yield content
    for block in content if isinstance(content, list) else ():
        for key in ("text", "thinking"):
            if isinstance(block, dict) and isinstance(block.get(key), str):
                yield block[key]


class Snippet(NamedTuple):
    text: str
    is_hit: bool


def snippet(text: str, terms: list[Term], before: int = 60, length: int = 200) -> list[Snippet]:
    """The part of a text around the first match, with all matches marked."""
    pattern = _pattern(tuple(terms))
    start = max(0, _first(text, terms, pattern) - before)
    start = text.rfind(" ", 0, start) + 1 if 0 < start < len(text) and start - text.rfind(" ", 0, start) < 20 else start
    part = text[start : start + length]
    pieces: list[Snippet] = []
    at = 0
    for found in pattern.finditer(part) if pattern is not None else ():
        if found.start() > at:
            pieces.append(Snippet(part[at : found.start()], False))
        pieces.append(Snippet(found[0], True))
        at = found.end()
    if at < len(part):
        pieces.append(Snippet(part[at:], False))
    if start:
        pieces.insert(0, Snippet("…", False))
    if start + length < len(text):
        pieces.append(Snippet("…", False))
    return pieces


def _first(text: str, terms: list[Term], pattern: re.Pattern[str] | None) -> int:
    """Where the first match begins; 0 if there is none."""
    if pattern is None:
        return 0
    if text.isascii() and all(len(term.tokens) == 1 for term in terms):  # a pattern without case is ten times slower
        small = text.lower()
        return min((at for t in terms if not t.excluded and (at := small.find(t.tokens[0].lower())) >= 0), default=0)
    found = pattern.search(text)
    return found.start() if found is not None else 0


@functools.lru_cache(maxsize=16)
def _pattern(terms: tuple[Term, ...]) -> re.Pattern[str] | None:
    """A pattern that matches the terms in a text: tokens separated by punctuation, or nothing."""
    included = [term.tokens for term in terms if not term.excluded]
    if not included:
        return None
    ways = [r"(?:\W|_)*".join(map(re.escape, text)) for text in included]
    return re.compile("|".join(sorted(ways, key=len, reverse=True)), re.IGNORECASE)


def is_in(text: str, terms: list[Term], *, exact: bool = True) -> bool:
    """Whether a text contains every term and no excluded one; unless `exact`, the last word may be a prefix."""
    texts = _TOKEN.findall(text.lower()) if text.isascii() else [_folded(word) for word in tokens_of(text)]
    row = f" {' '.join(texts)} "
    end = " " if exact else ""
    return all((f" {' '.join(map(_folded, term.tokens))}{end}" in row) != term.excluded for term in terms)


def _folded(word: str) -> str:
    """The word without case and accents."""
    if word.isascii():  # has no accents: the usual case, and a hot path
        return word.lower()
    return "".join(char for char in unicodedata.normalize("NFKD", word.casefold()) if not unicodedata.combining(char))
