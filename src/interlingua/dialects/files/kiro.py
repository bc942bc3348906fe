"""Kiro CLI's journals (`ID.jsonl`): lines of `version`, `kind` and `data`, with content parts of `kind` and `data`.

`Prompt` is the user's, `AssistantMessage` an answer, `ToolResults` the results, with what a tool returned to the
program in `results`. A thought names the model. `Compaction` puts a summary in the place of what came before; `Clear`
forgets it.

The sessions of Kiro's editor (`workspace-sessions/…/ID.json`) are Continue's `history` with marks of their own: the
`selectedModel`, or the `executionId` of an answer.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values.errors import BadWire
from ...values.messages import AssistantMessage, Block, Message, TextBlock, ThinkingBlock
from ...values.request import Conversation
from ..codec import ANSWER
from ..residual import body_of, fields_of, optional, reading
from ..wire import ListedSession, SessionStream
from .continue_dev import HistoryReader
from .line_sessions import ReadAgain, Record, TemplateStream, TreeReader, read
from .program_content import a_call, a_result, first, image_of, inner, items, moment, user
from .records import lines_of
from .templates import file_format, keep

API = "kiro"


def _block(part: dict[str, Any]) -> Block | None:
    data = part.get("data")
    match part.get("kind"):
        case "text" if isinstance(data, str):
            return TextBlock(text=data)
        case "thinking" if isinstance(data, dict):
            signature = optional(data.get("signature"))
            return ThinkingBlock(thinking=optional(data.get("text")) or "", thinking_signature=signature)
        case "toolUse" if isinstance(data, dict) and isinstance(data.get("name"), str):
            return a_call(optional(data.get("toolUseId")) or "", data["name"], data.get("input"))
        case "image" if isinstance(data, dict):
            kind = optional(data.get("format"))
            source: dict[str, Any] = {"media_type": f"image/{kind}" if kind else None}
            given = data.get("source")
            return image_of({**source, "data": inner(given, "data") or inner(given, "bytes") or data.get("data")})
    return None


def _blocks(content: Any) -> tuple[Block, ...]:
    return tuple([block for part in items(content) if (block := _block(part)) is not None])


def _results(data: dict[str, Any]) -> list[Message]:
    found: list[Message] = []
    for part in items(data.get("content")):
        given = part.get("data")
        id = optional(inner(given, "toolUseId"))
        if part.get("kind") != "toolResult" or id is None:
            continue
        inside = items(inner(given, "content"))
        content: Any = [one["data"] for one in inside if isinstance(one.get("data"), str)]
        if len(content) != len(inside):  # JSON, which the model reads as text
            content = inside[0].get("data") if len(inside) == 1 else [one.get("data") for one in inside]
        failed = inner(given, "status") == "error"
        details = inner(data, "results", id)
        found.append(
            a_result(id, content, failed=failed, when=moment(inner(data, "meta", "timestamp")), details=details)
        )
    return found


def _message(line: dict[str, Any]) -> list[Message]:
    data = fields_of(line.get("data"))
    when = moment(inner(data, "meta", "timestamp"))
    match line.get("kind"):
        case "Prompt":
            return [user(_blocks(data.get("content")), when)]
        case "AssistantMessage":
            named = [inner(part, "data", "modelId") for part in items(data.get("content"))]
            model = next((name for name in named if isinstance(name, str)), None)
            return [replace(ANSWER, extra={}, content=_blocks(data.get("content")), model=model, timestamp=when)]
        case "ToolResults":
            return _results(data)
    return []


class _Reader(TreeReader):
    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        model = None
        for line in records:
            if line.get("kind") in ("Compaction", "Clear"):
                self.tree.cut(0)
                model = None
                summary = optional(first(fields_of(line.get("data")), "summary", "text"))
                if summary is not None:
                    yield self.tree.add(user(summary, program=True))
            for message in _message(line):
                model = message.model or model if isinstance(message, AssistantMessage) else model
                yield self.tree.add(message)
        self.fields = {"model": model}


def _session(data: Any) -> dict[str, Any] | None:
    """A session of the editor, if that is what the data is."""
    try:
        value = body_of(data, API)
    except BadWire:  # several lines
        return None
    return value if isinstance(value, dict) and isinstance(value.get("history"), list) else None


@reading(API)
def decode(data: Any) -> Conversation:
    """A journal (text, bytes, or the values of its lines), or a session of the editor."""
    session = _session(data)
    if session is not None:
        history = items(session["history"])
        return keep(read(_editor(session, lambda: history), history), session, API)
    lines = lines_of(data, API)
    return keep(read(_Reader(), lines), lines, API, lines=True)


@reading(API)
def stream(lines: ReadAgain) -> SessionStream:
    """A journal, one entry at a time."""
    return TemplateStream(_Reader(), lines, API)


@reading(API)
def listed(header: Record, history: ReadAgain) -> SessionStream:
    """A session of the editor, one entry at a time."""
    return TemplateStream(_editor(header, history), history, API, "history", header)


def _editor(session: Record, history: ReadAgain) -> HistoryReader:
    return HistoryReader({"title": session.get("title"), "model": optional(session.get("selectedModel"))}, history)


_KINDS = frozenset(("Prompt", "AssistantMessage", "ToolResults", "Compaction", "Clear"))


def detect(value: Any) -> str | None:
    """Lines with a version, one of the kinds, and data; or a history with the marks of the editor."""
    if isinstance(value, dict) and isinstance(value.get("history"), list) and "sessionId" in value:
        own = "selectedModel" in value or any("executionId" in item for item in items(value["history"]))
        return "a `history` with a `selectedModel` or `executionId`" if own else None
    lines = items(value) if isinstance(value, list) else items([value])
    kinds = {str(line.get("kind")) for line in lines if "version" in line and "data" in line}
    return "lines of `version`, `kind` and `data`" if kinds & _KINDS else None


FORMAT = file_format(
    API, decode, detect=detect, lines=True, rank=40, stream=stream, listed=ListedSession(("history",), listed)
)
