"""Amazon Q Developer CLI and Kiro CLI: a saved chat (`/chat save`), or the conversations of `data.sqlite3`.

`history` has a turn for each request: the `user` with a prompt or the results of tools, the `assistant` with a response
or calls, and `request_metadata` with times and the model; in older versions a turn is the pair alone. `latest_summary`
is what a compaction left of the turns before. github.com/aws/amazon-q-developer-cli `crates/chat-cli/src/cli/chat`
"""

import base64
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from ...values.messages import AssistantMessage, Block, ImageBlock, Message, TextBlock
from ..residual import fields_of, optional
from .line_sessions import ReadAgain, Reader, Record, RowReader, document_format
from .program_content import a_call, a_result, first, inner, items, moment, user
from .reading import columns_of, read_json

API = "amazon-q"

_RESULTS = ("ToolUseResults", "CancelledToolUses")
_ANSWERS = ("Response", "ToolUse")


def _turn(value: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The user, the assistant and what is known of the request."""
    if isinstance(value, list):
        user, assistant = (*map(fields_of, value), {}, {})[:2]
        return user, assistant, {}
    wire = fields_of(value)
    return fields_of(wire.get("user")), fields_of(wire.get("assistant")), fields_of(wire.get("request_metadata"))


def _asked(wire: dict[str, Any], names: dict[str, str]) -> Iterator[Message]:
    content, when = fields_of(wire.get("content")), moment(wire.get("timestamp"))
    for name in _RESULTS:
        for one in items(inner(content, name, "tool_use_results")):
            yield _result(one, names, when)
    prompt = next((text for payload in content.values() if (text := optional(inner(payload, "prompt")))), None)
    context = optional(wire.get("additional_context"))
    if context:  # of hooks, which the model reads before the prompt
        yield user(context, when, program=True)
    pictures = list(_pictures(wire.get("images")))
    if prompt is not None or pictures:
        texts = [] if prompt is None else [TextBlock(text=prompt)]
        yield user((*pictures, *texts) if pictures else prompt, when)


def _pictures(given: Any) -> Iterator[ImageBlock]:
    """Pictures of a prompt, whose bytes are a list of numbers."""
    for item in items(given):
        data = inner(item, "source", "Bytes")
        if isinstance(data, list) and all(isinstance(byte, int) and 0 <= byte < 256 for byte in data):
            kind = (optional(item.get("format")) or "png").lower()
            yield ImageBlock(data=base64.b64encode(bytes(data)).decode(), mime_type=f"image/{kind}")


def _result(wire: dict[str, Any], names: dict[str, str], when: int | None) -> Message:
    id = optional(wire.get("tool_use_id")) or ""
    given: list[Any] = [first(one, "Text", "Json") for one in items(wire.get("content"))]
    content = given[0] if len(given) == 1 else given
    failed = wire.get("status") == "Error"
    return a_result(id, content, name=names.get(id), failed=failed, when=when)


def _answer(wire: dict[str, Any], about: dict[str, Any], model: str | None, names: dict[str, str]) -> Iterator[Message]:
    payload = fields_of(next((wire[name] for name in _ANSWERS if name in wire), None))
    if not payload:
        return
    text, blocks = optional(payload.get("content")), []
    if text:
        blocks.append(TextBlock(text=text))
    calls: list[Block] = []
    for one in items(payload.get("tool_uses")):
        id, name = optional(one.get("id")) or "", optional(first(one, "name", "orig_name")) or ""
        names[id] = name
        calls.append(a_call(id, name, first(one, "args", "orig_args")))
    yield AssistantMessage(
        content=(*blocks, *calls),
        model=optional(about.get("model_id")) or model,
        response_id=optional(payload.get("message_id")),
        timestamp=moment(about.get("stream_end_timestamp_ms")),
    )


class _Reader(RowReader):
    """Reads the turns of a conversation, which is given without them."""

    def __init__(self, body: Record) -> None:
        self._body = body
        self._model = optional(inner(body, "model_info", "model_id")) or optional(body.get("model"))
        self.fields = {"model": self._model}

    def messages(self, records: Iterable[Any]) -> Iterator[Message]:
        names: dict[str, str] = {}
        summary = self._body.get("latest_summary")
        text = optional(summary[0] if isinstance(summary, list) and summary else summary)
        if text:
            yield user(text, program=True)
        for turn in records:
            asked, answered, about = _turn(turn)
            yield from _asked(asked, names)
            yield from _answer(answered, about, self._model, names)
        yield from _asked(fields_of(self._body.get("next_message")), names)


def _is_conversation(value: Any) -> bool:
    history = value.get("history") if isinstance(value, dict) else None
    if not isinstance(history, list) or not isinstance(value.get("conversation_id"), str):
        return False
    return all(map(_is_turn, history))


def _is_turn(value: Any) -> bool:
    return not _turn(value)[0].keys().isdisjoint(("content", "env_context"))


def _reader(conversation: Record, turns: ReadAgain) -> Reader | None:
    return _Reader(conversation) if _is_conversation(conversation) and all(map(_is_turn, turns())) else None


def detect(value: Any) -> str | None:
    """Whether a document is a conversation of these programs."""
    return "a `conversation_id` and a `history` of turns" if _is_conversation(value) else None


def database(connection: sqlite3.Connection) -> Iterable[Any] | None:
    """The conversations of a `data.sqlite3`: one for each folder, in newer versions any number."""
    tables = [name for name in ("conversations", "conversations_v2") if "value" in columns_of(connection, name)]
    return _stored(connection, tables) if tables else None


def _stored(connection: sqlite3.Connection, tables: list[str]) -> Iterator[Any]:
    for table in tables:
        for (value,) in connection.execute(f"SELECT value FROM {table} ORDER BY rowid"):
            conversation = read_json(value)
            if not _is_conversation(conversation) or conversation["history"]:
                yield conversation


FORMAT = document_format(
    API, "history", _reader, "a `conversation_id` and a `history` of turns", detect=detect, database=database, rank=20
)
