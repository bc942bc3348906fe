"""What decoders of programs' files share: blocks in the style of Anthropic, trees of nodes, rounds of calls, counts.

These read what a program wrote down, not what a provider accepts: names are those of the two styles with the variations
that programs make of them, missing fields are missing, and what is not understood stays as it is in the file.
"""

import itertools
import operator
import re
import sqlite3
from array import array
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from ...values import jsontext
from ...values.compact import IdMap, IdSet
from ...values.errors import BadWire, FormatError
from ...values.folding import parse_arguments
from ...values.losses import Lines
from ...values.messages import (
    AudioBlock,
    Block,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    checked_content,
)
from ...values.request import Conversation, Entry
from ..codec import ANSWER, RESULT, USER
from ..residual import body_of, count, fields_of, number, optional, reading, whole
from ..wire import FileFormat, Parts, RecordLists
from . import templates
from .records import lines_of

Node: TypeAlias = tuple[str | None, str | None, Sequence[Any]]  # id, parent's id, messages
_USUAL_KEYS = 2000  # characters


def json_value(value: Any) -> Any:
    """A value that a log or an export may hold as JSON text."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return jsontext.read(value)
        except FormatError:
            return value
    return value


def document_of(data: Any, api: str) -> Any:
    """The value of a file that is JSON, or the `Lines` of one that is JSON lines."""
    if not isinstance(data, (bytes, bytearray, str)):
        return data
    try:
        return body_of(data, api)
    except BadWire:
        return Lines(lines_of(data, api))


class Documents(NamedTuple):
    """Documents of a format: each by itself, in a list, or in an export.

    `is_one` recognises one, `shape` describes it in errors, `several` is what more of them are called, and `path` is
    named if the shape is not there. `inside` returns the list in an export, None for any other value.
    """

    api: str
    is_one: Callable[[Any], Any]
    shape: str
    several: str = "rows"
    path: str = "$"
    inside: Callable[[Any], Any] = lambda value: None

    def _all(self, value: Any) -> list[Any] | None:
        found = value if isinstance(value, list) else self.inside(value)
        return found if isinstance(found, list) and found and all(map(self.is_one, found)) else None

    def detect(self, value: Any) -> str | None:
        """Detects a document, a list of documents, or an export."""
        return self.shape if self.is_one(value) or self._all(value) is not None else None

    def split(self, value: Any) -> list[Any] | None:
        """Those of a list or an export, if there are several."""
        found = None if self.is_one(value) else self._all(value)
        return found if found is not None and len(found) > 1 else None

    def only(self, body: Any) -> Any:
        """The one document of a body."""
        found = [body] if self.is_one(body) else self._all(body)
        if found is None:
            raise BadWire(self.api, f"expected {self.shape}", self.path)
        if len(found) > 1:
            raise BadWire(self.api, f"{len(found)} {self.several}: take one of them")
        return found[0]

    def format(self, conversation: Callable[[Any], Conversation], **fields: Any) -> FileFormat:
        """The format of these documents that keeps them as templates; `conversation` reads one."""

        @reading(self.api)
        def decode(data: Any) -> Conversation:
            body = body_of(data, self.api)
            return templates.keep(conversation(self.only(body)), body, self.api)

        decode.__module__ = conversation.__module__
        return templates.file_format(self.api, decode, detect=self.detect, split=self.split, **fields)


class Tables:
    """The lists of a document in memory, as `RecordLists`."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def records(self, *keys: str) -> Iterator[Any]:
        for key in keys:
            found = self._at(key)
            yield from found if isinstance(found, list) else ()

    def fields(self, node: str) -> Iterator[tuple[str, Any]]:
        if not node.endswith("*"):
            return iter(fields_of(self._at(node)).items())
        return ((key, value) for key, value in fields_of(self._value).items() if key.startswith(node[:-1]))

    def grouped(self, by: Callable[[Any], Any], *keys: str) -> dict[Any, list[Any]]:
        found: dict[Any, list[Any]] = {}
        for record in self.records(*keys):
            found.setdefault(by(record), []).append(record)
        return found

    def _at(self, key: str) -> Any:
        value = self._value
        for name in filter(None, key.split(".")):
            value = fields_of(value).get(name)
        return value


def several(parts: Parts, value: Any) -> list[Any] | None:
    """The conversations of a document in memory, if there are several."""
    found = list(parts.read(value, Tables(value)))
    return found if len(found) > 1 else None


def listed(members: Mapping[str, bytes], name: str) -> Iterator[Any]:
    """The items of a member of an archive that is a JSON array: one after the other, where the archive can do that."""
    one_by_one: Callable[[str], Iterator[Any]] | None = getattr(members, "elements", None)
    if one_by_one is not None:
        return one_by_one(name)
    value = jsontext.read(members[name])
    return iter(value if isinstance(value, list) else ())


def tables_in(members: Mapping[str, bytes], name: str, parts: Parts) -> tuple[Any, RecordLists]:
    """A member of an archive that is a document with lists of records, and the lists: in a file, if it can do that."""
    in_file: Callable[[str, Parts], tuple[Any, RecordLists]] | None = getattr(members, "tables", None)
    try:
        if in_file is not None:
            return in_file(name, parts)
        value = jsontext.read(members[name])
    except FormatError:
        value = None
    return value, Tables(value)


def read_json(text: Any) -> Any:
    """The value of a JSON text inside a document; None where it is none."""
    try:
        return jsontext.read(text) if isinstance(text, str | bytes) else None
    except FormatError:
        return None


def rows_of(connection: sqlite3.Connection, query: str, *given: Any) -> Iterator[dict[str, Any]]:
    """The rows of a query, by the names of their columns."""
    found = connection.execute(query, given)
    names = [column[0] for column in found.description]
    for row in found:
        yield dict(zip(names, row, strict=True))


def values_at(connection: sqlite3.Connection, query: str, rows: Iterable[int]) -> Iterator[dict[str, Any]]:
    """What a query returns for each of these row numbers."""
    for row in rows:
        yield from rows_of(connection, query, row)


def rows_by_key(connection: sqlite3.Connection, query: str) -> "dict[Any, array[int]]":
    """The row numbers, the last column of a query, by the values of the others. Rows themselves are read later."""
    found: dict[Any, array[int]] = {}
    for *key, row in connection.execute(query):
        found.setdefault(tuple(key), array("q")).append(row)
    return found


def ordered_rows(connection: sqlite3.Connection, table: str, order: str) -> Iterator[dict[str, Any]]:
    """The rows of a table in an order, one in memory: only their numbers are sorted."""
    numbers = array("q", (row for (row,) in connection.execute(f"SELECT rowid FROM {table} ORDER BY {order}")))
    return values_at(connection, f"SELECT * FROM {table} WHERE rowid = ?", numbers)


def columns_of(connection: sqlite3.Connection, table: str) -> set[str]:
    """The columns of a table; none if it does not exist."""
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone()
    if known is None:
        return set()
    return {column[0] for column in connection.execute(f'SELECT * FROM "{table}" LIMIT 0').description}


def by_keys(cached: Any, record: Mapping[str, Any]) -> Any:
    """The result of a cached function for the keys of a record: the records of a file have few sets of them.

    That of unusually long keys is not cached: it would stay in memory.
    """
    is_usual = sum(map(len, record)) < _USUAL_KEYS
    return (cached if is_usual else cached.__wrapped__)(tuple(record))


def kept_record(api: str, kind: str, record: Any) -> Any:
    """A message of the file's own kind, which holds a record as it is: it was never sent to a model."""
    return CustomMessage(f"{api}:{kind}", {"record": record})


# --- trees -----------------------------------------------------------------------------------------------------------


def entries_of(nodes: Iterable[Node]) -> tuple[Entry, ...]:
    """The entries of a tree's nodes, parents first; a node of several messages has its id on the last of them.

    A parent that is in no node is none. A node without messages lends its place to its children.
    """
    given = [(id, parent, tuple(messages)) for id, parent, messages in nodes]
    return tuple(placed(given, {id for id, _, _ in given if id is not None}))


def placed(nodes: Iterable[Node], known: Container[str]) -> Iterator[Entry]:
    """The same, given the ids of all nodes: a node is read when those before it were handed on."""
    seen = IdSet()
    elsewhere: dict[str, str | None] = {}  # nodes without messages, or in a circle -> the entry at which they end
    for id, parent, messages in _parents_first(nodes, known):
        before = elsewhere.get(parent, parent) if parent is not None and parent in seen else None
        for at, message in enumerate(messages):
            own = id if at == len(messages) - 1 or id is None else f"{id}#{at}"
            yield Entry(message=message, id=own, parent_id=before)
            before = own
        if id is not None:
            seen.add(id)
            elsewhere.pop(id, None)
            if before != id:
                elsewhere[id] = before


def parents_first(links: Iterable[tuple[str | None, str | None]]) -> "array[int] | None":
    """The order of nodes in which each comes behind its parent, by their ids and their parents'; None if they do."""
    given = list(links)
    known = {id for id, _ in given if id is not None}
    numbered = ((id, parent, at) for at, (id, parent) in enumerate(given))
    order = array("Q", (at for _, _, at in _parents_first(numbered, known)))
    return None if all(map(operator.eq, order, itertools.count())) else order


def _parents_first(nodes: Iterable[Any], known: Container[str]) -> Iterator[Any]:
    """The nodes in their order, but none before its parent; a circle is cut where it is entered."""
    waiting: dict[str, list[Any]] = {}
    done = IdSet()
    for node in nodes:
        if node[1] in known and node[1] not in done and node[1] != node[0]:
            waiting.setdefault(node[1], []).append(node)
            continue
        ready = [node]
        while ready:
            one = ready.pop(0)
            yield one
            if one[0] is not None and one[0] not in done:
                done.add(one[0])
                ready = [*waiting.pop(one[0], ()), *ready] if waiting else ready
    for node in [node for rest in waiting.values() for node in rest]:
        yield node[0], (node[1] if node[1] in done else None), node[2]
        done.add(node[0])


def ending(entries: Sequence[Entry], id: Any) -> str | None:
    """The id as a head, if an entry has it."""
    return id if isinstance(id, str) and any(entry.id == id for entry in entries) else None


# --- rounds: what a program shows as one answer may be several responses with results between them -------------------


class Pairing:
    """Gives calls and results of a file the ids that they lack: results answer open calls of their name, in order.

    A result whose id no call has answers the first open call without an id: some programs drop the ids of calls only.
    """

    def __init__(self) -> None:
        self._open: list[ToolCall] = []
        self._names = IdMap()
        self._generated: set[str] = set()

    def call(self, id: Any, name: Any, arguments: Any, **fields: Any) -> ToolCall:
        """A call; its arguments are an object, or the text of one."""
        own = id if isinstance(id, str) and id else self._generate()
        made = ToolCall(id=own, name=optional(name) or "", **given_arguments(arguments), **fields)
        self._open.append(made)
        self._names[own] = made.name
        return made

    def result(self, id: Any, name: Any, content: Any, is_error: Any = False, **fields: Any) -> ToolResultMessage:
        """The result of a call."""
        answered = id if isinstance(id, str) and id else None
        call = self._answered(answered, name)
        if call is not None:
            self._open.remove(call)
            answered = call.id
        answered = answered or self._generate()
        named = optional(name) or self._names.get(answered)
        return replace(
            RESULT,
            extra={},
            tool_call_id=answered,
            tool_name=named,
            content=checked_content(content, "ToolResultMessage"),
            is_error=is_error is True,
            **fields,
        )

    def _answered(self, id: str | None, name: Any) -> ToolCall | None:
        """The open call that a result with this id and name answers."""
        if id is not None and id in self._names:
            return next((call for call in self._open if call.id == id), None)
        candidates = [call for call in self._open if not isinstance(name, str) or call.name == name]
        return next((call for call in candidates if id is None or call.id in self._generated), None)

    def _generate(self) -> str:
        id = f"call_{len(self._generated)}"
        self._generated.add(id)
        return id


def given_arguments(given: Any) -> dict[str, Any]:
    """Arguments as fields of a call: an object as it is, text parsed; what is neither is kept as text."""
    if isinstance(given, dict):
        return {"arguments": given}
    if given is None:
        return {"arguments": {}}
    if isinstance(given, str):
        arguments, text, error = parse_arguments(given)
        return {"arguments": arguments, "arguments_text": text, "parse_error": error}
    return {"arguments": {}, "arguments_text": str(given), "parse_error": "the arguments are not a JSON object"}


def rounds(items: Iterable[Any], first: Mapping[str, Any] = {}, **fields: Any) -> list[Any]:
    """Blocks and results in their order as answers with the results between them; `first` are of the first answer."""
    if type(items) is list and ToolResultMessage not in map(type, items):  # most are
        fields.update(first)
        return [_made(ANSWER, items, fields)]
    messages: list[Any] = []
    blocks: list[Block] = []
    more = dict(first)
    for item in items:
        if isinstance(item, ToolResultMessage):
            if blocks:
                messages.append(_made(ANSWER, blocks, {**fields, **more}))
                blocks, more = [], {}
            messages.append(item)
        else:
            blocks.append(item)
    if blocks or more or not messages:
        messages.append(_made(ANSWER, blocks, {**fields, **more}))
    return messages


def asked(items: Iterable[Any], **fields: Any) -> list[Any]:
    """Blocks and results of a user's turn: the results, and what else there is as messages of the user."""
    messages: list[Any] = []
    blocks: list[Block] = []
    for item in items:
        if isinstance(item, ToolResultMessage):
            if blocks:
                messages.append(_made(USER, blocks, fields))
                blocks = []
            messages.append(item)
        else:
            blocks.append(item)
    if blocks or not messages:
        messages.append(_made(USER, blocks, fields))
    return messages


def _made(kind: Any, blocks: Sequence[Any], fields: Mapping[str, Any]) -> Any:
    """A message like `kind` of these blocks."""
    content = checked_content(tuple(blocks), type(kind).__name__)
    return replace(kind, **{"extra": {}, **fields, "content": content})


# --- blocks ----------------------------------------------------------------------------------------------------------


def anthropic_items(content: Any, api: str, pairs: Pairing, timestamp: int | None = None) -> list[Any]:
    """Blocks, and results among them, of content in Anthropic's style; a plain text is one block."""
    if isinstance(content, str):
        return [TextBlock(text=content)]
    if isinstance(content, dict):
        content = [content]
    return [_anthropic_item(block, api, pairs, timestamp) for block in content or () if block is not None]


def _anthropic_item(block: Any, api: str, pairs: Pairing, timestamp: int | None) -> Any:
    if isinstance(block, str):
        return TextBlock(text=block)
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text" and isinstance(block.get("text"), str):
        return TextBlock(text=block["text"])
    if kind == "thinking" and isinstance(block.get("thinking"), str):
        return ThinkingBlock(thinking=block["thinking"], thinking_signature=optional(block.get("signature")))
    if kind == "redacted_thinking":
        return ThinkingBlock(thinking="", thinking_signature=optional(block.get("data")), redacted=True)
    if kind == "tool_use":
        return pairs.call(block.get("id"), block.get("name"), block.get("input"))
    if kind == "tool_result":
        id, name = block.get("tool_use_id"), block.get("name")
        content = result_content(block.get("content"), api)
        return pairs.result(id, name, content, block.get("is_error"), timestamp=timestamp)
    if kind == "image":
        return image_of(block.get("source")) or OpaqueBlock(dialect=api, value=block)
    if kind == "document":
        return _document(fields_of(block.get("source")), block) or OpaqueBlock(dialect=api, value=block)
    return OpaqueBlock(dialect=api, value=block)


def result_content(content: Any, api: str) -> Any:
    """What a tool gave: text, or blocks of text and pictures; other values as they are."""
    if content is None or isinstance(content, str):
        return content
    items = content if isinstance(content, list) else [content]
    return tuple(_result_block(item, api) for item in items)


def _result_block(item: Any, api: str) -> Block:
    if isinstance(item, str):
        return TextBlock(text=item)
    if isinstance(item, dict):
        if isinstance(item.get("text"), str) and item.get("type") in (None, "text", "input_text", "output_text"):
            return TextBlock(text=item["text"])
        if item.get("type") in ("image", "image_url", "input_image"):
            found = image_of(item.get("source") or item.get("image_url") or item)
            if found is not None:
                return found
        # A page that a search found (claude.ai's `knowledge`): what the model read of it.
        page = [item[key] for key in ("title", "url", "text") if isinstance(item.get(key), str) and item[key]]
        if page and isinstance(item.get("type"), str):
            return TextBlock(text="\n".join(page))
    return OpaqueBlock(dialect=api, value=item)


def image_of(source: Any) -> ImageBlock | None:
    """A picture as Anthropic, OpenAI, MCP and browsers write it: data, a URL (data URLs included), or a file's id."""
    if isinstance(source, str):
        head, comma, data = source.partition(",")
        if source.startswith("data:") and comma and head.endswith(";base64"):
            return ImageBlock(data=data, mime_type=head[5:-7])
        return ImageBlock(url=source)
    if not isinstance(source, dict):
        return None
    if isinstance(source.get("data"), str):
        mime = source.get("media_type") or source.get("mimeType") or source.get("mime_type")
        return ImageBlock(data=source["data"], mime_type=optional(mime))
    if isinstance(source.get("url"), str):
        return image_of(source["url"])
    if isinstance(source.get("file_id"), str):
        return ImageBlock(file_id=source["file_id"])
    return None


# Media of a training row: their files are listed beside the messages, and a mark in the text of a person says where
# each belongs (llamafactory.readthedocs.io, "Data Preparation", multimodal).
MEDIA: dict[str, tuple[str, Callable[[str], Block | None]]] = {
    "<image>": ("images", lambda file: image_of(file)),
    "<video>": ("videos", lambda file: DocumentBlock(url=file)),
    "<audio>": ("audios", lambda file: AudioBlock(url=file)),
}
_MARKS = re.compile("|".join(MEDIA))


def has_media(row: Mapping[str, Any], texts: Iterable[str]) -> bool:
    """Whether a row lists media, as many of each kind as the texts have marks for."""
    marks = Counter(mark for text in texts for mark in _MARKS.findall(text))
    listed = {mark: row[key] for mark, (key, _) in MEDIA.items() if row.get(key)}
    return bool(listed) and all(
        isinstance(files, list) and all(isinstance(file, str) for file in files) and len(files) == marks[mark]
        for mark, files in listed.items()
    )


class MediaPlacer:
    """Puts the media of a row in the place of their marks, text by text."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._files = {mark: iter(row[key]) for mark, (key, _) in MEDIA.items() if row.get(key)}

    def blocks(self, text: str) -> Iterator[Block]:
        end = 0
        for found in _MARKS.finditer(text):
            file = next(self._files.get(found[0], iter(())), None)
            block = None if file is None else MEDIA[found[0]][1](file)
            if block is not None:
                if found.start() > end:
                    yield TextBlock(text=text[end : found.start()])
                yield block
                end = found.end()
        if end < len(text):
            yield TextBlock(text=text[end:])


def _document(source: dict[str, Any], block: dict[str, Any]) -> DocumentBlock | None:
    title, mime = optional(block.get("title")), optional(source.get("media_type"))
    if isinstance(source.get("data"), str):
        key = "text" if source.get("type") == "text" else "data"
        return DocumentBlock(**{key: source["data"]}, mime_type=mime, title=title)
    if isinstance(source.get("url"), str):
        return DocumentBlock(url=source["url"], title=title)
    if isinstance(source.get("file_id"), str):
        return DocumentBlock(file_id=source["file_id"], title=title)
    return None


# --- counts and times ------------------------------------------------------------------------------------------------


def seconds(value: Any) -> int | None:
    """A moment in seconds since 1970 as milliseconds; what is far too large for seconds is milliseconds already."""
    given = number(value)
    if given is None or given != given or abs(given) > 1e16:
        return None
    return round(given) if abs(given) > 1e11 else round(given * 1000)


def openai_usage(wire: Any) -> Usage | None:
    """Usage in the format of OpenAI (chat or responses), Anthropic or Ollama, whichever served the model."""
    if not isinstance(wire, dict):
        return None
    if whole(wire.get("prompt_eval_count")) is not None and whole(wire.get("prompt_tokens")) is None:
        return Usage.of(count(wire, "prompt_eval_count"), count(wire, "eval_count"))
    if "prompt_tokens" in wire or "completion_tokens" in wire:
        prompt, output = count(wire, "prompt_tokens"), count(wire, "completion_tokens")
        details, parts = fields_of(wire.get("prompt_tokens_details")), fields_of(wire.get("completion_tokens_details"))
    elif "input_tokens" in wire or "output_tokens" in wire:
        read, written = count(wire, "cache_read_input_tokens"), count(wire, "cache_creation_input_tokens")
        if read or written or "cache_read_input_tokens" in wire:  # Anthropic counts the cached part beside the input
            return Usage.of(
                count(wire, "input_tokens"), count(wire, "output_tokens"), cache_read=read, cache_write=written
            )
        prompt, output = count(wire, "input_tokens"), count(wire, "output_tokens")
        details, parts = fields_of(wire.get("input_tokens_details")), fields_of(wire.get("output_tokens_details"))
    else:
        return None
    read = min(count(details, "cached_tokens"), prompt)
    written = min(count(details, "cache_creation_tokens") or count(wire, "cache_creation_input_tokens"), prompt - read)
    return Usage.of(
        prompt - read - written,
        output,
        cache_read=read,
        cache_write=written,
        reasoning=whole(parts.get("reasoning_tokens")),
    )


def plain_usage(input: Any, output: Any, cache_read: Any = 0, cache_write: Any = 0) -> Usage | None:
    """Usage of four disjoint counts; None where all are missing or zero, which programs write for unknown."""
    counts = [max(whole(value) or 0, 0) for value in (input, output, cache_read, cache_write)]
    return Usage.of(counts[0], counts[1], cache_read=counts[2], cache_write=counts[3]) if any(counts) else None


# --- rows of two answers ---------------------------------------------------------------------------------------------


def preference(chosen: Sequence[Any], *rejected: Sequence[Any]) -> tuple[tuple[Entry, ...], str | None]:
    """Entries of the chosen messages, with each of the rejected answers as a branch where they part; and the head."""
    entries = _branch("chosen", chosen, 0)
    for nth, messages in enumerate(rejected, 1):
        shared = 0
        while shared < min(len(chosen), len(messages)) and chosen[shared] == messages[shared]:
            shared += 1
        entries += _branch("rejected" if nth == 1 else f"rejected-{nth}", messages, shared)
    return tuple(entries), f"chosen-{len(chosen) - 1}" if chosen else None


def _branch(name: str, messages: Sequence[Any], start: int) -> list[Entry]:
    before = f"chosen-{start - 1}" if start else None
    entries: list[Entry] = []
    for at in range(start, len(messages)):
        entries.append(Entry(message=messages[at], id=f"{name}-{at}", parent_id=before))
        before = f"{name}-{at}"
    return entries


def rejected_answers(text: Any, messages: Any) -> tuple[list[str], list[list[Any]]]:
    """The rejected answers beside the messages of a row of ms-swift, as texts or as whole conversations.

    There may be several: `rejected_response` is a text or a list of them (`_compat_rejected_response` in its
    `template_inputs.py`), `rejected_messages` a conversation, or a list of them in rows that follow this.
    """
    texts = text if isinstance(text, list) else [text]
    others = messages if isinstance(messages, list) else []
    others = others if others and all(isinstance(other, list) and other for other in others) else [others]
    return (
        texts if all(isinstance(one, str) and one for one in texts) else [],
        [other for other in others if other and all(isinstance(message, dict) for message in other)],
    )


REJECTED = re.compile(r"(rejected|non_preferred_output)(-\d+)?")


def rejected_in(conversation: Conversation) -> list[int]:
    """The places of the rejected messages in a row of two answers, whichever format it was read from.

    None of them in any other conversation: the branches of a session are no preference.
    """
    if conversation.head is None:
        return []
    path = set(map(id, conversation.path()))
    beside = [at for at, entry in enumerate(conversation.entries) if id(entry) not in path]
    entries = [conversation.entries[at] for at in beside]
    named = all(entry.id is not None and REJECTED.fullmatch(entry.id) for entry in entries)
    chained = all(one.id == other.parent_id for one, other in itertools.pairwise(entries))
    forks = {entry.parent_id for entry in conversation.path()}
    return beside if named and chained and entries and entries[0].parent_id in forks else []
