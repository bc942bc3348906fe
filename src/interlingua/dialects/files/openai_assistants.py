"""OpenAI's Assistants: the messages of a thread, as the API lists them or a thread with its `messages`.

The API lists the newest first unless asked otherwise; the path is in the order of time. Run steps among the messages,
or beside them, hold the calls of a run and their outputs. platform.openai.com/docs/api-reference/messages
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ...values.errors import BadWire
from ...values.messages import AssistantMessage, Block, Citation, ImageBlock, OpaqueBlock, TextBlock, UserMessage
from ...values.request import Conversation, Entry
from ..residual import body_of, fields_of, optional, reading
from ..wire import ListedSession, SessionStream
from . import templates
from .line_sessions import ReadAgain, Reader, Record, TemplateStream, read
from .reading import Pairing, image_of, openai_usage, rounds, seconds

API = "openai-assistants"

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


def _messages_in(value: Any) -> list[Any] | None:
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
    listed = _messages_in(body)
    if listed is None:
        raise BadWire(API, "expected a list of `thread.message` objects", "$.data")
    steps, place = _steps_beside(body), _place(body)
    conversation = read(_Reader(len(steps)), [*listed, *steps])
    return templates.keep(conversation, body, API, places=[place] if "." in place else ())


def _place(body: Any) -> str:
    """Where the messages are."""
    if not isinstance(body, dict):
        return ""
    key = "data" if body.get("object") == "list" else "messages"
    return f"{key}.data" if isinstance(body.get(key), dict) else key


@reading(API)
def listed(header: Any, messages: ReadAgain) -> SessionStream | None:
    """The messages of one thread, one entry at a time; not with steps beside them."""
    place = _place(header) if header else ""
    kinds = {one.get("object") for one in messages()}
    if _steps_beside(header) or place not in (*templates.places_in(header, (place,)), "") or MESSAGE not in kinds:
        return None
    if not kinds <= {MESSAGE, STEP}:
        return None
    return TemplateStream(_Reader(0), messages, API, place, header, places=[place] if "." in place else ())


class _Reader(Reader):
    """Reads the messages of a thread, and the steps that stand beside them: so many at the end of the records."""

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def order(self, records: Iterable[Record]) -> "array[int] | None":
        keys = [(seconds(record.get("created_at")), _rank(record) if self._steps else 0) for record in records]
        first = len(keys) - self._steps
        oldest_first = [*_oldest_first(range(first), keys), *_oldest_first(range(first, len(keys)), keys)]
        order = array("Q", sorted(oldest_first, key=lambda at: (keys[at][0] or 0, keys[at][1])))
        return None if list(order) == list(range(len(keys))) else order

    def entries(self, records: Iterable[Record]) -> Iterator[Entry]:
        pairs = Pairing()
        return (Entry(message=message) for record in records for message in _messages(record, pairs))


def _oldest_first(numbers: range, keys: list[tuple[int | None, int]]) -> Sequence[int]:
    """The API lists the newest first."""
    known = [when for when, _ in keys[numbers.start : numbers.stop] if when is not None]
    return numbers[::-1] if len(known) > 1 and known[0] > known[-1] else numbers


def _rank(record: Record) -> int:
    """Steps beside messages stand before the answer of their run, also in the same second."""
    is_answer = record.get("object") == MESSAGE and record.get("role") == "assistant"
    return 2 if is_answer else int(record.get("object") == STEP)


def _steps_beside(body: Any) -> list[Any]:
    """The steps of runs beside the messages of a thread: in a list of their own, or in their runs."""
    holders = [fields_of(body), *map(fields_of, _data(fields_of(body).get("runs")))]
    found = [step for holder in holders for key in ("steps", "run_steps") for step in _data(holder.get(key))]
    return [step for step in found if fields_of(step).get("object") == STEP]


def _data(value: Any) -> list[Any]:
    value = value.get("data") if isinstance(value, dict) else value
    return value if isinstance(value, list) else []


def detect(value: Any) -> str | None:
    """Whether a document is the messages of a thread; Jan's are like them, with times in milliseconds."""
    found = _messages_in(value)
    if found is None:
        return None
    times = [item.get("created_at") for item in found]
    is_seconds = not any(isinstance(time, int | float) and time > _MILLISECONDS for time in times)
    return "objects of type `thread.message`" if is_seconds else None


_MILLISECONDS = 1e11  # as seconds, the year 5138


FORMAT = templates.file_format(
    API,
    decode,
    detect=detect,
    rank=20,
    listed=ListedSession(("data", "messages", "data.data", "messages.data", ""), listed),
)
