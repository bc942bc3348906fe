"""LM Studio: a conversation as it is kept in `conversations/*.conversation.json`.

A message has `versions` of which one is selected; the others are branches beside it. An answer is a `multiStep`
version: its content blocks are steps, each with what the model used (`genInfo`), and calls and results of tools among
them.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from ...values import jsontext
from ...values.errors import BadWire, FormatError
from ...values.messages import ImageBlock, OpaqueBlock, StopReason, SystemMessage, TextBlock, ThinkingBlock
from ...values.request import Conversation, Entry, ModelDescriptor
from ..residual import body_of, fields_of, optional, reading, whole
from ..wire import ListedSession, SessionStream
from . import templates
from .line_sessions import ReadAgain, Reader, Record, TemplateStream, read
from .reading import Node, Pairing, asked, placed, plain_usage, result_content, rounds

API = "lm-studio"


class _Reader(Reader):
    """Reads the messages of a conversation; its head is the selected version of the last one."""

    def __init__(self, wire: Record) -> None:
        model = optional(fields_of(wire.get("lastUsedModel")).get("identifier"))
        self.about = Conversation(
            title=optional(wire.get("name")),
            system=_system(wire),
            model=ModelDescriptor(id=model) if model else None,
        )
        self._last: str | None = None

    def entries(self, records: Iterable[Record]) -> Iterator[Entry]:
        self._last = head = None
        for entry in placed(self._nodes(records), ()):
            head = entry.id if entry.id == self._last else head
            yield entry
        self.head = head if head == self._last else None

    def _nodes(self, messages: Iterable[Record]) -> Iterator[Node]:
        for at, message in enumerate(messages):
            before = self._last
            if message["versions"]:
                self._last = f"{at}.{_chosen(message)}"
            for number, version in enumerate(message["versions"]):
                if isinstance(version, dict):
                    yield f"{at}.{number}", before, _version(version)


def _chosen(message: dict[str, Any]) -> int:
    number = whole(message.get("currentlySelected")) or 0
    return number if 0 <= number < len(message["versions"]) else len(message["versions"]) - 1


def _version(version: dict[str, Any]) -> list[Any]:
    role, pairs = version.get("role"), _Calls()
    steps = version.get("steps")
    if role == "user":
        return asked(_items(version.get("content"), pairs))
    if role == "system":
        return [SystemMessage(content=tuple(_items(version.get("content"), pairs)))]
    named = optional(fields_of(version.get("senderInfo")).get("senderName"))
    if not isinstance(steps, list):
        return rounds(_items(version.get("content"), pairs), model=named)
    messages: list[Any] = []
    blocks: list[Any] = []
    about: dict[str, Any] = {}
    for step in steps:
        if fields_of(step).get("type") != "contentBlock":
            continue
        items = [*_items(step.get("content"), pairs, fields_of(step.get("style")).get("type") == "thinking")]
        known = fields_of(step.get("genInfo"))
        if known and about and known is not about:  # the step of another response
            messages += _answer(blocks, about, named)
            blocks, about = [], {}
        about = known or about
        blocks += items
    return messages + (_answer(blocks, about, named) if blocks or not messages else [])


# As the program's SDK names them (`LLMPredictionStopReason`). What the person stopped is sent on as it is.
_STOPPED: dict[str, StopReason] = {"eosFound": "stop", "stopStringFound": "stop", "toolCalls": "toolUse"}
_STOPPED |= {"maxPredictedTokensReached": "length", "contextLengthReached": "length"}


def _answer(blocks: list[Any], about: dict[str, Any], named: str | None) -> list[Any]:
    stats = fields_of(about.get("stats"))
    usage = plain_usage(stats.get("promptTokensCount"), stats.get("predictedTokensCount"))
    model = optional(about.get("identifier")) or optional(about.get("indexedModelIdentifier")) or named
    word = optional(stats.get("stopReason"))
    return rounds(blocks, {"usage": usage, "stop_reason": _STOPPED.get(word or ""), "stop_detail": word}, model=model)


class _Calls(Pairing):
    """The calls of a conversation, by their numbers too."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[str, str] = {}


def _items(content: Any, pairs: _Calls, thought: bool = False) -> Iterator[Any]:
    if isinstance(content, str):
        yield TextBlock(text=content)
    for part in content if isinstance(content, list) else ():
        kind, text = fields_of(part).get("type"), fields_of(part).get("text")
        if kind == "text" and isinstance(text, str):
            yield ThinkingBlock(thinking=text) if thought else TextBlock(text=text)
        elif kind == "toolCallRequest":
            id = part.get("toolCallRequestId") or part.get("callId")
            called = pairs.call(str(id) if id is not None else None, part.get("name"), part.get("parameters"))
            pairs.numbers[str(part.get("callId"))] = called.id
            yield called
        elif kind == "toolCallResult":  # it has the number of the call, and perhaps the model's own id for it
            id = part.get("toolCallRequestId") or pairs.numbers.get(str(part.get("callId"))) or part.get("callId")
            given = _result(part.get("content"))
            yield pairs.result(str(id) if id is not None else None, None, given)
        elif kind == "file" and part.get("fileType") == "image":
            yield ImageBlock(file_id=optional(part.get("fileIdentifier")) or optional(part.get("identifier")) or "")
        elif part is not None:
            yield OpaqueBlock(dialect=API, value=part)


def _result(content: Any) -> Any:
    """What a tool gave: the text of a list of blocks, or text."""
    if isinstance(content, str) and content[:1] == "[":
        try:
            return result_content(jsontext.read(content), API)
        except FormatError:
            return content
    return result_content(content, API)


def _is_conversation(value: Any) -> bool:
    messages = value.get("messages") if isinstance(value, dict) else None
    if not isinstance(messages, list) or not messages:
        return isinstance(messages, list) and "perChatPredictionConfig" in value
    return all(map(_is_message, messages))


def _is_message(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("versions"), list)


def _system(wire: dict[str, Any]) -> str | None:
    fields = fields_of(wire.get("perChatPredictionConfig")).get("fields")
    for field in map(fields_of, fields if isinstance(fields, list) else ()):
        if field.get("key") == "llm.prediction.systemPrompt" and isinstance(field.get("value"), str):
            return field["value"] or None
    return optional(wire.get("systemPrompt")) or None


@reading(API)
def decode(data: Any) -> Conversation:
    """One conversation."""
    body = body_of(data, API)
    if not _is_conversation(body):
        raise BadWire(API, "expected `messages` that have `versions`", "$.messages")
    return templates.keep(read(_Reader(body), body["messages"]), body, API)


@reading(API)
def listed(header: Record, messages: ReadAgain) -> SessionStream:
    """One conversation, one entry at a time."""
    is_empty = next(iter(messages()), None) is None
    if (is_empty and not _is_conversation(header)) or not all(map(_is_message, messages())):
        raise BadWire(API, "expected `messages` that have `versions`", "$.messages")
    return TemplateStream(_Reader(header), messages, API, "messages", header)


def detect(value: Any) -> str | None:
    """Whether a document is a conversation of this program."""
    return "`messages` that have `versions`" if _is_conversation(value) else None


FORMAT = templates.file_format(API, decode, detect=detect, rank=20, listed=ListedSession(("messages",), listed))
