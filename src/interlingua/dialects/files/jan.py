"""Jan: the messages of a thread (`messages.jsonl`), each a `thread.message` with its time in milliseconds.

Content has the shape of OpenAI's Assistants (`text.value`), with `reasoning` and `tool_call` among it; older versions
marked thoughts in the text, and calls stood in the metadata, with what they gave.
github.com/janhq/jan `web-app/src/lib/messages.ts`
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...values.errors import BadWire
from ...values.losses import Lines
from ...values.messages import Block, DocumentBlock, Message, TextBlock, ThinkingBlock
from ...values.request import Conversation
from ..residual import fields_of, optional, reading
from ..wire import SessionStream
from . import templates
from .chat_programs import usage_in, with_thoughts
from .line_sessions import ReadAgain, Record, RowReader, TemplateStream, read
from .program_content import a_result, file_of, image_of, inner, items, moment, user
from .reading import Pairing, document_of, rounds

API = "jan"

_SECONDS = 1e11  # times of OpenAI's threads are less


def _is_message(value: Any) -> bool:
    created = inner(value, "created_at")
    known = inner(value, "object") == "thread.message" and isinstance(inner(value, "content"), list)
    return known and isinstance(created, int | float) and created > _SECONDS


def _parts(record: Record, pairs: Pairing) -> Iterator[Any]:
    for part in items(record.get("content")):
        text = optional(inner(part, "text", "value"))
        if part.get("type") == "tool_call":
            yield from _called(
                part.get("tool_call_id"), part.get("tool_name"), part.get("input"), part.get("output"), pairs
            )
        elif part.get("type") == "image_url":
            picture = image_of(part)
            if picture is not None:
                yield picture
        elif part.get("type") in _MEDIA:
            medium = _MEDIA[part["type"]](fields_of(part.get(part["type"])))
            if medium is not None:
                yield medium
        elif text:
            yield ThinkingBlock(thinking=text) if part.get("type") == "reasoning" else TextBlock(text=text)
    for item in items(inner(record, "metadata", "tool_calls")):
        given = inner(item, "response", "content")
        function = inner(item, "tool", "function")
        gave = item.get("response") if given is None else given
        yield from _called(
            inner(item, "tool", "id"), inner(function, "name"), inner(function, "arguments"), gave, pairs
        )


def _video(given: dict[str, Any]) -> Block | None:
    data, mime = optional(given.get("data")), optional(given.get("format"))
    return None if data is None else DocumentBlock(data=data, mime_type=mime or "video/mp4")


_MEDIA: dict[str, Callable[[dict[str, Any]], Block | None]] = {
    "input_audio": lambda given: file_of({"type": "input_audio", "input_audio": given}),
    "input_video": _video,
}


def _called(id: Any, name: Any, arguments: Any, gave: Any, pairs: Pairing) -> Iterator[Any]:
    call = pairs.call(id, name, arguments)
    yield call
    if gave is not None:
        yield pairs.result(call.id, call.name, a_result("", gave).content, inner(gave, "isError"))


class _Reader(RowReader):
    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        pairs = Pairing()
        for record in records:
            parts, when = list(_parts(record, pairs)), moment(record.get("created_at"))
            if record.get("role") == "assistant":
                about = record.get("metadata")
                usage = usage_in(about) if isinstance(about, dict) else None
                model = optional(inner(record, "metadata", "model")) or optional(inner(record, "metadata", "modelId"))
                answers = rounds(parts, {"usage": usage} if usage else {}, model=model, timestamp=when)
                yield from map(with_thoughts, answers)
            else:
                yield user(tuple(parts), when, program=record.get("role") == "system")


@reading(API)
def decode(data: Any) -> Conversation:
    """One thread."""
    body = document_of(data, API)
    lines = [body] if isinstance(body, dict) else list(body)
    if not lines or not all(map(_is_message, lines)):
        raise BadWire(API, "expected messages of a thread, with times in milliseconds")
    return templates.keep(read(_Reader(), lines), body, API, lines=isinstance(body, Lines))


@reading(API)
def stream(lines: ReadAgain) -> SessionStream:
    """The same, one entry at a time."""
    if not all(map(_is_message, lines())):
        raise BadWire(API, "expected messages of a thread, with times in milliseconds")
    return TemplateStream(_Reader(), lines, API)


def detect(value: Any) -> str | None:
    """Whether values are messages of a thread."""
    lines = value if isinstance(value, list) else [value]
    return "messages of a thread, with times in milliseconds" if lines and all(map(_is_message, lines)) else None


FORMAT = templates.file_format(API, decode, detect=detect, lines=True, rank=8, stream=stream)
