"""Zed: the threads of its agent, in `threads.db` (compressed JSON), or one as JSON.

A message is `{"User": …}` or `{"Agent": …}`, whose `tool_results` answer the calls in it; `Compaction` has the summary
from which a thread goes on. Threads of 2025 have a `version`, a `summary` for the title, and messages of a role and
`segments`. github.com/zed-industries/zed `crates/agent/src/db.rs`, `legacy_thread.rs`
"""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

import zstandard

from ...values.errors import BadWire
from ...values.messages import AssistantMessage, Block, ImageBlock, Message, TextBlock, ThinkingBlock, ToolResultMessage
from ..residual import fields_of, optional
from .line_sessions import ReadAgain, Reader, Record, TreeReader, document_format
from .program_content import a_call, a_result, content_of, inner, items, user
from .reading import columns_of, ordered_rows, plain_usage, read_json

API = "zed"
MAX_THREAD = 256 * 1024 * 1024  # bytes of a decompressed thread

VARIANTS = frozenset(
    ("User", "Agent", "Resume", "Compaction", "Text", "Mention", "Image", "Thinking", "RedactedThinking", "ToolUse")
)
_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def _variant(value: Any) -> tuple[str, Any]:
    """An enum of Rust: its name, and what it holds."""
    if isinstance(value, dict):
        # serde.rs, Enum representations: externally tagged, `{"Name": payload}`, and a bare "Name" for a unit variant.
        return next(((name, payload) for name, payload in value.items() if name in VARIANTS), ("", None))
    return (value, None) if isinstance(value, str) else ("", None)


def _block(value: Any) -> Block | None:
    name, payload = _variant(value)
    match name:
        case "Text" if isinstance(payload, str):
            return TextBlock(text=payload)
        case "Thinking":
            signature = optional(inner(payload, "signature"))
            return ThinkingBlock(thinking=optional(inner(payload, "text")) or "", thinking_signature=signature)
        case "RedactedThinking":
            return ThinkingBlock(thinking="", thinking_signature=optional(payload), redacted=True)
        case "Mention":
            return TextBlock(text=optional(inner(payload, "content")) or "")
        case "Image":
            return ImageBlock(data=optional(inner(payload, "source")), mime_type="image/png")
        case "ToolUse":
            given = inner(payload, "input")
            return a_call(optional(inner(payload, "id")) or "", optional(inner(payload, "name")) or "", given)
    return None


def _blocks(content: Any) -> tuple[Block, ...]:
    return tuple(found for one in content or () if (found := _block(one)) is not None)


def _result(given: dict[str, Any], name: str | None) -> ToolResultMessage:
    content = given.get("content")
    parts = content if isinstance(content, list) else [content]
    blocks = tuple(found for part in parts if (found := _block(part)) is not None)
    id, failed = optional(given.get("tool_use_id")) or "", given.get("is_error") is True
    if blocks:
        return ToolResultMessage(tool_call_id=id, tool_name=name, content=blocks, is_error=failed)
    return a_result(id, content, name=name, failed=failed)


def _answer(blocks: tuple[Block, ...], results: list[dict[str, Any]], model: str | None) -> list[Message]:
    answer = AssistantMessage(content=blocks, model=model)
    names = {call.id: call.name for call in answer.tool_calls}
    found = [_result(one, names.get(optional(one.get("tool_use_id")) or "")) for one in results]
    return [answer, *found] if blocks else [*found]


def _old(message: dict[str, Any], model: str | None) -> list[Message]:
    """A message of a role and segments."""
    results = items(message.get("tool_results"))
    texts = content_of(message.get("segments")) or ()
    if message.get("role") == "assistant":
        calls = [
            a_call(str(one.get("id")), str(one.get("name")), one.get("input"))
            for one in items(message.get("tool_uses"))
        ]
        return _answer((*texts, *calls), results, model)
    context = optional(message.get("context"))
    found: list[Message] = [_result(one, optional(one.get("tool_name"))) for one in results]
    found += [user(context, program=True)] if context else []
    return [*found, user(texts)] if texts or not found else found


class _Reader(TreeReader):
    """Reads the messages of a thread, which is given without them."""

    def __init__(self, thread: dict[str, Any]) -> None:
        super().__init__()
        self._thread = thread

    def messages(self, records: Iterable[Any]) -> Iterator[Message]:
        thread = self._thread
        model = optional(inner(thread, "model", "model"))
        for message in records:
            name, payload = _variant(message)
            if name == "Compaction" and isinstance(inner(payload, "Summary"), str):
                self.tree.cut(0)
            yield from map(self.tree.add, _messages(message, model))
        counts = fields_of(thread.get("cumulative_token_usage"))
        usage = plain_usage(*(counts.get(key) for key in _COUNTS))
        self.fields = {"title": thread.get("title", thread.get("summary")), "model": model, "usage": usage}


def _messages(message: Any, model: str | None) -> list[Message]:
    name, payload = _variant(message)
    found: list[Message] = []
    if name == "User":
        found = [user(_blocks(inner(payload, "content")))]
    elif name == "Agent":
        found = _answer(
            _blocks(inner(payload, "content")), items([*fields_of(inner(payload, "tool_results")).values()]), model
        )
    elif name == "Compaction" and isinstance(inner(payload, "Summary"), str):
        found = [user(payload["Summary"], program=True)]
    elif name == "Resume":  # what the model reads for it
        found = [user("Continue where you left off", program=True)]
    elif isinstance(message, dict) and "role" in message:
        found = _old(message, model)
    return found


def _is_message(value: Any) -> bool:
    old = isinstance(value, dict) and "role" in value and "segments" in value
    return old or _variant(value)[0] in ("User", "Agent", "Resume", "Compaction")


def _is_thread(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("title", value.get("summary")), str)
        and isinstance(value.get("messages"), list)
        and "updated_at" in value
        and all(map(_is_message, value["messages"]))
    )


def _reader(thread: Record, messages: ReadAgain) -> Reader | None:
    return _Reader(thread) if _is_thread(thread) and all(map(_is_message, messages())) else None


def detect(value: Any) -> str | None:
    """Whether a document is a thread of this program."""
    return "a thread of `User` and `Agent` messages" if _is_thread(value) and value["messages"] else None


def database(connection: sqlite3.Connection) -> Iterable[Any] | None:
    """The threads of a `threads.db`."""
    return _threads(connection) if {"data_type", "data"} <= columns_of(connection, "threads") else None


def _threads(connection: sqlite3.Connection) -> Iterator[Any]:
    for thread in ordered_rows(connection, "threads", "updated_at, id"):
        id, kind, data = thread["id"], thread["data_type"], thread["data"]
        # crates/agent/src/db.rs, `DataType`: `json` or `zstd`.
        value = read_json(_unpacked(data, id) if kind == "zstd" else data)
        if not _is_thread(value):
            raise BadWire(API, f"the data of thread {id} are damaged, or of another version")
        if value["messages"]:
            yield value


def _unpacked(data: Any, id: Any) -> bytes:
    try:
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            found = reader.read(MAX_THREAD + 1)
    except zstandard.ZstdError as error:
        raise BadWire(API, f"the data of thread {id} are damaged: {error}") from None
    # A few kilobytes can hold gigabytes of zeros.
    if len(found) > MAX_THREAD:
        raise BadWire(API, f"thread {id} has more than {MAX_THREAD:,} bytes")
    return found


FORMAT = document_format(
    API,
    "messages",
    _reader,
    "a thread with a `title`, `updated_at` and `messages`",
    detect=detect,
    database=database,
    rank=20,
)
