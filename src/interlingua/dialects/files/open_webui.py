"""Open WebUI: a chat with its `history`, a tree of messages by id with its head `currentId`.

An export is a list of rows with the chat in `chat`, and so is the table `chat` of the program's database, `webui.db`; a
downloaded chat is the row or the chat itself. `messages` repeats the path of the tree. What models thought stands as
HTML inside the text of an answer, as the program shows it. Calls of tools stand there, too, with their results: these
are read as calls. `usage` is in the format of whichever provider served the model.
"""

import html
import re
import sqlite3
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values.compact import IdSet
from ...values.errors import BadWire
from ...values.messages import Block, Citation, DocumentBlock, SystemMessage, TextBlock, ThinkingBlock, UserMessage
from ...values.request import Conversation, Entry, ModelDescriptor
from ..residual import body_of, fields_of, optional, reading
from ..wire import ListedSession, SessionStream
from . import templates
from .line_sessions import ReadAgain, Reader, Record, TemplateStream, read
from .reading import (
    Pairing,
    columns_of,
    image_of,
    kept_record,
    openai_usage,
    parents_first,
    placed,
    read_json,
    result_content,
    rounds,
    seconds,
    values_at,
)

API = "open-webui"


def _messages(record: dict[str, Any], pairs: Pairing) -> list[Any]:
    role, when = record.get("role"), seconds(record.get("timestamp"))
    content = record.get("content")
    if role == "tool":
        given = result_content(content, API)
        return [pairs.result(record.get("tool_call_id"), record.get("name"), given, timestamp=when)]
    files = list(_files(record))
    blocks: list[Block] = [*files, *_texts(content)]
    if role == "system":
        return [SystemMessage(content=tuple(blocks), timestamp=when)]
    if role == "user":
        plain = isinstance(content, str) and len(blocks) == 1
        return [UserMessage(content=content if plain else tuple(blocks), timestamp=when)]
    if role != "assistant":
        return [kept_record(API, str(role), record)]
    items = list(_output_items(record.get("output"), pairs, when))
    items = [*files, *items] if items else [item for block in blocks for item in _shown_calls(block, pairs, when)]
    cited = tuple(_citations(record.get("sources") or record.get("citations")))
    last = next((at for at in reversed(range(len(items))) if isinstance(items[at], TextBlock)), None)
    if cited and last is not None:
        items[last] = replace(items[last], citations=cited)
    for call in record.get("tool_calls") or ():
        function = fields_of(fields_of(call).get("function"))
        items.append(pairs.call(fields_of(call).get("id"), function.get("name"), function.get("arguments")))
    failure = fields_of(record.get("error"))
    failed = optional(failure.get("content")) or optional(failure.get("message"))
    usage = openai_usage(record.get("usage") or record.get("info"))
    return rounds(
        items,
        {} if usage is None else {"usage": usage},
        model=optional(record.get("model")) or None,
        error_message=failed,
        stop_reason="error" if failed or record.get("error") is True else None,
        timestamp=when,
    )


def _output_items(output: Any, pairs: Pairing, when: int | None) -> Iterator[Any]:
    """What versions from 2026 keep beside the text that they show: items in the style of OpenAI's Responses.

    backend/open_webui/utils/misc.py, `convert_output_to_messages`
    """
    for item in map(fields_of, output if isinstance(output, list) else ()):
        match item.get("type"):
            case "message":
                yield from (block for block in _texts(item.get("content")) if not _is_empty(block))
            case "reasoning":
                parts = _texts(item.get("summary") or item.get("content"))
                texts = [part.text for part in parts if isinstance(part, TextBlock)]
                if any(texts):
                    yield ThinkingBlock(thinking="".join(texts))
            case "function_call":
                yield pairs.call(item.get("call_id"), item.get("name"), item.get("arguments"))
            case "function_call_output":
                given = result_content(item.get("output"), API)
                yield pairs.result(item.get("call_id"), None, given, timestamp=when)
            case "open_webui:code_interpreter" if optional(item.get("code")):
                call = pairs.call(item.get("id"), "code_interpreter", {"code": item["code"]})
                yield call
                output = item.get("output")
                shown = output.get("stdout") or output.get("result") if isinstance(output, dict) else output
                if shown:
                    yield pairs.result(call.id, call.name, str(shown), timestamp=when)


def _citations(sources: Any) -> Iterator[Citation]:
    """The documents and pages that an answer was given, and may refer to by their numbers."""
    for item in map(fields_of, sources if isinstance(sources, list) else ()):
        source, texts = fields_of(item.get("source")), item.get("document")
        text = next(iter(texts if isinstance(texts, list) else ()), None)
        url = optional(source.get("url")) or next(iter(item.get("urls") or ()), None)
        yield Citation(title=optional(source.get("name")), url=optional(url), cited_text=optional(text))


def _is_empty(block: Block) -> bool:
    return isinstance(block, TextBlock) and not block.text


# src/lib/utils/index.ts finds them by the same attribute.
_CALLS = re.compile(r'<details type="tool_calls"([^>]*)>')
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_END = "</details>"


def _shown_calls(block: Block, pairs: Pairing, when: int | None) -> Iterator[Any]:
    """A text, without the calls that are shown in it, which stand with their results where they were made."""
    text, at = block.text if isinstance(block, TextBlock) else "", 0
    while (begin := _CALLS.search(text, at)) is not None:
        end = text.find(_END, begin.end())
        if end < 0:
            break
        if text[at : begin.start()].strip():
            yield TextBlock(text=text[at : begin.start()])
        given = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(begin[1])}
        arguments = read_json(given.get("arguments"))  # a JSON text in one, or the object
        call = pairs.call(
            given.get("id"), given.get("name"), given.get("arguments") if arguments is None else arguments
        )
        yield call
        if given.get("done") != "false" and "result" in given:
            result = read_json(given["result"])
            shown = result if isinstance(result, str) else given["result"]
            yield pairs.result(call.id, call.name, shown, timestamp=when)
        at = end + len(_END) + text.startswith("\n", end + len(_END))
    if not at:
        yield block
    elif text[at:].strip():
        yield TextBlock(text=text[at:])


def _texts(content: Any) -> Iterable[Block]:
    if isinstance(content, str):
        yield TextBlock(text=content)
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield TextBlock(text=part["text"])
        elif isinstance(part, dict) and (found := image_of(part.get("image_url"))):
            yield found


def _files(record: dict[str, Any]) -> Iterable[Block]:
    for item in map(fields_of, record.get("files") or ()):
        kind = optional(item.get("content_type"))
        if item.get("type") == "image" or (kind or "").startswith("image/"):
            if found := image_of(item.get("url")):
                yield found
        elif isinstance(item.get("name"), str) and isinstance(item.get("id") or item.get("url"), str):
            yield DocumentBlock(file_id=str(item.get("id") or item["url"]), mime_type=kind, title=item["name"])


def _chat_of(value: Any) -> dict[str, Any] | None:
    """The chat in a row of an export, or the chat itself."""
    if not isinstance(value, dict):
        return None
    chat = value["chat"] if isinstance(value.get("chat"), dict) else value
    history = chat.get("history")
    if history is None and chat is not value and "user_id" in value:
        return chat if isinstance(chat.get("messages"), list) else None
    return chat if isinstance(history, dict) and isinstance(history.get("messages"), dict) else None


_NODES = ("history.messages", "chat.history.messages", ".history.messages", ".chat.history.messages")
_PATHS = ("messages", "chat.messages", ".messages", ".chat.messages")  # repeat the path of the tree


class _Reader(Reader):
    """Reads the messages of a chat by id, in a row of an export or by itself, which is given with or without them."""

    def __init__(self, row: Record, chat: Record) -> None:
        models = chat.get("models")
        model = models[0] if isinstance(models, list) and models and isinstance(models[0], str) else None
        self.about = Conversation(
            title=optional(chat.get("title")) if "title" in chat else optional(row.get("title")),
            system=optional(fields_of(chat.get("params")).get("system")) or optional(chat.get("system")) or None,
            model=ModelDescriptor(id=model) if model else None,
        )
        self._end = optional(fields_of(chat.get("history")).get("currentId"))
        self._known = IdSet()

    def order(self, records: Iterable[tuple[str, Any]]) -> "array[int] | None":
        self._known = IdSet()

        def linked() -> Iterator[tuple[str, str | None]]:
            for id, parent, _ in _placed(records):
                self._known.add(id)
                yield id, parent

        return parents_first(linked())

    def entries(self, records: Iterable[tuple[str, Any]]) -> Iterator[Entry]:
        pairs, self.head = Pairing(), None
        nodes = ((id, parent, _messages(record, pairs)) for id, parent, record in _placed(records))
        for entry in placed(nodes, self._known):
            if entry.id is not None and entry.id == self._end:
                self.head = entry.id
            yield entry


def _placed(records: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, str | None, Record]]:
    """The messages with their ids and those of their parents."""
    before: str | None = None
    for key, record in records:
        id = optional(record.get("id")) or key
        yield id, optional(record.get("parentId")) if "parentId" in record else before, record
        before = id


def _records(chat: dict[str, Any]) -> list[tuple[str, Any]]:
    """The messages of the tree by id; a chat from before there were trees has them in a list alone."""
    if chat.get("history") is not None:
        found = list(chat["history"]["messages"].items())
    else:
        found = [(str(at), record) for at, record in enumerate(chat["messages"])]
    return [(key, record) for key, record in found if isinstance(record, dict)]


def split(value: Any) -> list[Any] | None:
    """The chats of a whole export, if it holds several."""
    return value if isinstance(value, list) and len(value) > 1 and all(map(_chat_of, value)) else None


@reading(API)
def decode(data: Any) -> Conversation:
    """One chat: a row of an export, in its list of one, or the chat itself."""
    body = body_of(data, API)
    row = body[0] if isinstance(body, list) and len(body) == 1 else body
    if split(row):
        raise BadWire(API, f"an export of {len(row)} chats: take one of them")
    chat = _chat_of(row)
    if chat is None:
        raise BadWire(API, "expected a chat whose `history` has `messages` by id", "$.history")
    places = _places(body, chat) if chat.get("history") is not None else ()
    return templates.keep(read(_Reader(row, chat), _records(chat)), body, API, places=places)


def _places(body: Any, chat: Record) -> list[str]:
    """Where the messages are, and the list that repeats their path."""
    row = body[0] if isinstance(body, list) else body
    before = ("." if row is not body else "") + ("chat." if chat is not row else "")
    return [f"{before}{_NODES[0]}", *([f"{before}{_PATHS[0]}"] if isinstance(chat.get("messages"), list) else ())]


@reading(API)
def listed(header: Any, messages: ReadAgain) -> SessionStream | None:
    """One chat, one entry at a time."""
    row = header[0] if isinstance(header, list) else header
    chat = _chat_of(row)
    if chat is None or chat.get("history") is None or chat["history"]["messages"]:
        return None
    places = _places(header, chat)
    return TemplateStream(_Reader(row, chat), messages, API, places[0], header, keyed=True, places=places)


def detect(value: Any) -> str | None:
    """Whether a document is a chat or an export of chats."""
    if _chat_of(value):
        return "a chat with a `history` of `messages` by id"
    if isinstance(value, list) and value and all(map(_chat_of, value)):
        return "chats with a `history` of `messages` by id"
    return None


def database(connection: sqlite3.Connection) -> Iterable[Any] | None:
    """The chats of a `webui.db`, each as the program exports it."""
    return _rows(connection) if {"user_id", "title", "chat"} <= columns_of(connection, "chat") else None


def _rows(connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    # A chat that was shared has a second row, a copy that belongs to no user.
    query = "SELECT rowid FROM chat WHERE user_id NOT LIKE 'shared-%' ORDER BY created_at, rowid"
    for row in values_at(
        connection, "SELECT * FROM chat WHERE rowid = ?", array("q", (n for (n,) in connection.execute(query)))
    ):
        yield {**row, "chat": read_json(row["chat"]), **({"meta": read_json(row["meta"])} if "meta" in row else {})}


FORMAT = templates.file_format(
    API,
    decode,
    detect=detect,
    split=split,
    database=database,
    rank=20,
    listed=ListedSession((), listed, beside=_PATHS, nodes=_NODES),
)
