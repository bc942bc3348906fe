"""Mistral Vibe: the messages of a session (`messages.jsonl`), or the one document that older versions wrote.

Messages are those of OpenAI's chat wire, with `reasoning_content` beside the content and pictures in `images`;
`injected` ones are the program's. A document has them beside the `metadata` of the session.
github.com/mistralai/mistral-vibe `vibe/core/types.py`, `vibe/core/session`
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values.errors import BadWire
from ...values.losses import Lines
from ...values.messages import Message, UserMessage
from ...values.request import Conversation
from ..residual import fields_of, optional, reading
from ..wire import ListedSession, SessionStream
from . import templates
from .chat_programs import turn, without_prompt
from .line_sessions import ReadAgain, Record, RowReader, TemplateStream, read
from .program_content import PROGRAM, inner, items, openai_tools, usage_of
from .reading import Pairing, document_of

API = "vibe"

_ROLES = ("user", "assistant", "tool", "system")


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and value.get("role") in _ROLES


def _are_lines(lines: Callable[[], Iterable[Any]]) -> bool:
    return all(map(_is_message, lines())) and any(isinstance(line.get("injected"), bool) for line in lines())


def _is_session(value: Any) -> bool:
    metadata = fields_of(inner(value, "metadata"))
    messages = inner(value, "messages")
    known = metadata.keys() >= {"session_id", "start_time", "environment"}
    return known and isinstance(messages, list) and all(map(_is_message, messages))


class _Reader(RowReader):
    def __init__(self, about: Record) -> None:
        self._about = about

    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        metadata = fields_of(self._about.get("metadata"))
        system = optional(inner(metadata, "system_prompt", "content"))
        texts = [system] if system else []
        yield from without_prompt(_messages(records), texts)
        stats = metadata.get("stats")
        self.fields = {
            "title": metadata.get("title"),
            "system": "\n\n".join(texts) or None,
            "model": optional(inner(metadata, "config", "active_model")),
            "usage": usage_of(stats, input="session_prompt_tokens", output="session_completion_tokens"),
            "tools": openai_tools(metadata.get("tools_available")),
        }


def _messages(records: Iterable[Record]) -> Iterator[Message]:
    pairs = Pairing()
    for record in records:
        for message in turn(_with_pictures(record), pairs):
            is_program = record.get("injected") is True and isinstance(message, UserMessage)
            yield replace(message, origin=PROGRAM) if is_program else message


def _with_pictures(record: Record) -> Record:
    pictures = [
        {"type": "image", **fields_of(picture.get("source")), "mimeType": picture.get("mime_type")}
        for picture in items(record.get("images"))
    ]
    if not pictures:
        return record
    return {**record, "content": [{"type": "text", "text": optional(record.get("content")) or ""}, *pictures]}


@reading(API)
def decode(data: Any) -> Conversation:
    """One session."""
    body = document_of(data, API)
    if _is_session(body):
        return templates.keep(read(_Reader(body), items(body["messages"])), body, API)
    lines = [body] if isinstance(body, dict) else list(body)
    if not _are_lines(lambda: lines):
        raise BadWire(API, "expected messages with `injected`, or `messages` beside the `metadata` of a session")
    return templates.keep(read(_Reader({}), lines), body, API, lines=isinstance(body, Lines))


@reading(API)
def stream(lines: ReadAgain) -> SessionStream:
    """A session of JSON lines, one entry at a time."""
    if not _are_lines(lines):
        raise BadWire(API, "expected messages with `injected`")
    return TemplateStream(_Reader({}), lines, API)


@reading(API)
def listed(header: Record, messages: ReadAgain) -> SessionStream:
    """A session as one document, one entry at a time."""
    if not _is_session({**header, "messages": []}) or not all(map(_is_message, messages())):
        raise BadWire(API, "expected `messages` beside the `metadata` of a session")
    return TemplateStream(_Reader(header), messages, API, "messages", header)


def detect(value: Any) -> str | None:
    """Messages that say whether they were `injected`, or a document with the `metadata` of a session."""
    if _is_session(value):
        return "`messages` beside the `metadata` of a session"
    lines = value if isinstance(value, list) else [value]
    return "messages with `injected`" if _are_lines(lambda: lines) else None


FORMAT = templates.file_format(
    API, decode, detect=detect, lines=True, rank=20, stream=stream, listed=ListedSession(("messages",), listed)
)
