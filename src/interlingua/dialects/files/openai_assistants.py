"""OpenAI's Assistants: the messages of a thread, as the API lists them or a thread with its `messages`.

The API lists the newest first unless asked otherwise; the path is in the order of time. Run steps among the messages,
or beside them, hold the calls of a run and their outputs. platform.openai.com/docs/api-reference/messages
"""

import sys
from collections.abc import Iterator
from typing import Any

from ...values.errors import BadWire
from ...values.losses import Encoded, SupportTable
from ...values.messages import AssistantMessage, Block, Citation, ImageBlock, OpaqueBlock, TextBlock, UserMessage
from ...values.request import Conversation, Entry
from ..residual import body_of, fields_of, optional, reading
from ..wire import FileFormat
from . import records, templates
from .reading import Pairing, image_of, openai_usage, rounds, seconds

API = "openai-assistants"
FIELD_SUPPORT: SupportTable = records.FIELD_SUPPORT

MESSAGE, STEP = "thread.message", "thread.run.step"


def _messages(record: dict[str, Any], pairs: Pairing) -> list[Any]:
    when = seconds(record.get("created_at"))
    if record.get("object") == STEP:
        return _step(record, pairs, when)
    content = record.get("content")
    blocks = [TextBlock(text=content)] if isinstance(content, str) else [*map(_block, content or ())]
    if record.get("role") != "assistant":
        return [UserMessage(content=tuple(blocks), timestamp=when)]
    return [AssistantMessage(content=tuple(blocks), timestamp=when, response_id=optional(record.get("id")))]


def _block(part: Any) -> Block:
    kind = fields_of(part).get("type")
    text = fields_of(part).get("text")
    if kind == "text" and isinstance(text, str):
        return TextBlock(text=text)
    if kind == "text" and isinstance(fields_of(text).get("value"), str):
        return TextBlock(text=part["text"]["value"], citations=tuple(_citations(part["text"])))
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return TextBlock(text=part["refusal"], refusal=True)
    if kind == "image_file" and isinstance(fields_of(part.get("image_file")).get("file_id"), str):
        return ImageBlock(file_id=part["image_file"]["file_id"], detail=optional(part["image_file"].get("detail")))
    if kind == "image_url" and (found := image_of(part.get("image_url"))) is not None:
        return found
    return OpaqueBlock(dialect=API, value=part)


def _citations(text: dict[str, Any]) -> Iterator[Citation]:
    for note in map(fields_of, text.get("annotations") or ()):
        cited = fields_of(note.get("file_citation"))
        if isinstance(cited.get("file_id"), str):
            yield Citation(title=cited["file_id"], cited_text=optional(cited.get("quote")))


def _step(record: dict[str, Any], pairs: Pairing, when: int | None) -> list[Any]:
    """The calls of a step with their outputs; a step that made a message repeats it."""
    details = fields_of(record.get("step_details"))
    calls = [fields_of(call) for call in details.get("tool_calls") or ()]
    functions = [(call.get("id"), fields_of(call.get("function"))) for call in calls if call.get("type") == "function"]
    if not functions:
        return []
    made = [pairs.call(id, function.get("name"), function.get("arguments")) for id, function in functions]
    outputs = [
        pairs.result(call.id, call.name, function["output"], timestamp=when)
        for call, (_, function) in zip(made, functions, strict=True)
        if isinstance(function.get("output"), str)
    ]
    return rounds([*made, *outputs], {"usage": openai_usage(record.get("usage"))}, timestamp=when)


def _listed(value: Any) -> list[Any] | None:
    found = value
    if isinstance(value, dict):
        found = value.get("data") if value.get("object") == "list" else value.get("messages")
        found = fields_of(found).get("data") if isinstance(found, dict) else found
    if not isinstance(found, list) or not found:
        return None
    known = all(isinstance(item, dict) and item.get("object") in (MESSAGE, STEP) for item in found)
    return found if known and any(item.get("object") == MESSAGE for item in found) else None


@reading(API)
def decode(data: Any) -> Conversation:
    """The messages of one thread."""
    body = body_of(data, API)
    listed = _listed(body)
    if listed is None:
        raise BadWire(API, "expected a list of `thread.message` objects", "$.data")
    steps = _steps_beside(body)
    in_order = enumerate([*_oldest_first(listed), *_oldest_first(steps)])
    order = sorted(in_order, key=lambda pair: _when(pair[1], pair[0], bool(steps)))
    pairs = Pairing()
    entries = tuple(Entry(message=message) for _, record in order for message in _messages(record, pairs))
    return templates.keep(Conversation(entries=entries), body, API)


def _oldest_first(listed: list[Any]) -> list[Any]:
    known = [when for record in listed if (when := seconds(record.get("created_at"))) is not None]
    return listed[::-1] if len(known) > 1 and known[0] > known[-1] else listed


def _steps_beside(body: Any) -> list[Any]:
    """The steps of runs beside the messages of a thread: in a list of their own, or in their runs."""
    holders = [fields_of(body), *map(fields_of, _data(fields_of(body).get("runs")))]
    found = [step for holder in holders for key in ("steps", "run_steps") for step in _data(holder.get(key))]
    return [step for step in found if fields_of(step).get("object") == STEP]


def _data(value: Any) -> list[Any]:
    value = value.get("data") if isinstance(value, dict) else value
    return value if isinstance(value, list) else []


def _when(record: dict[str, Any], at: int, beside: bool) -> tuple[int, int, int]:
    """The place of a record. Steps beside messages stand before the answer of their run, also in the same second."""
    is_answer = record.get("object") == MESSAGE and record.get("role") == "assistant"
    rank = 2 if is_answer else int(record.get("object") == STEP)
    return seconds(record.get("created_at")) or 0, rank if beside else 0, at


def encode(conversation: Conversation) -> Encoded:
    """The list that was read."""
    return templates.give_back(conversation, API, decode)


def detect(value: Any) -> str | None:
    """Whether a document is the messages of a thread."""
    return "objects of type `thread.message`" if _listed(value) is not None else None


FORMAT = FileFormat(name=API, codec=sys.modules[__name__], detect=detect, writable=False, rank=20)
