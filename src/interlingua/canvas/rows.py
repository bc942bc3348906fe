"""An entry as a row of the tree: what a card, an outline line or a dot on the map needs to know of it. Pure."""

from collections.abc import Mapping
from typing import Any

from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    AudioBlock,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    ServerToolCall,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
)
from ..values.request import Entry
from .shapes import AnsweredCall, CallRow, Row, RowUsage

TEXT_SHOWN = 160
ARGUMENT_SHOWN = 120
_SCANNED = 4 * TEXT_SHOWN  # characters of a text that are looked at for its first line: most of it may be blanks
_CUSTOM_TEXTS = ("summary", "text", "content", "model")  # fields of custom messages that may be shown for them
# The argument that tells most of a call, by the names that tools use for it.
TELLING = ("command", "path", "file_path", "filePath", "pattern", "query", "url", "prompt", "description", "name")


def row_of(entry: Entry, seq: int, **more: Any) -> Row:
    """The row of an entry; `more` holds what only its session knows (label, notes, duration, …)."""
    message: AgentMessage = entry.message
    place = {"seq": seq, "id": entry.id or "", "parent": entry.parent_id, "parents": getattr(entry, "parents", ())}
    match message:
        case AssistantMessage():
            fields = _answer(message)
        case ToolResultMessage():
            fields = {"role": "toolResult", "call": _answered(message), "at": message.timestamp}
        case UserMessage() | SystemMessage():
            fields = {"role": message.role, "at": message.timestamp, "origin": getattr(message, "origin", None)}
        case CustomMessage():
            return Row(**{**place, **_custom(message), **more})
    return Row(**{**place, **fields, **_content(message.content), **more})


def _answer(message: AssistantMessage) -> dict[str, Any]:
    usage = message.usage
    return {
        "role": "assistant",
        "at": message.timestamp,
        "model": message.model,
        "provider": message.provider,
        "stop": message.stop_reason,
        "stop_detail": message.stop_detail if message.stop_detail != message.stop_reason else None,
        "error": _line(message.error_message, 400) if message.error_message else None,
        "usage": None
        if usage is None
        else RowUsage(
            input=usage.input,
            output=usage.output,
            cache_read=usage.cache_read,
            cache_write=usage.cache_write,
            total=usage.total_tokens,
            reasoning=usage.reasoning,
        ),
        "cost": usage.cost.total if usage is not None and usage.cost is not None else None,
    }


def _answered(message: ToolResultMessage) -> AnsweredCall:
    return AnsweredCall(id=message.tool_call_id, name=message.tool_name, error=message.is_error)


def _custom(message: CustomMessage) -> dict[str, Any]:
    fields = message.fields
    given = next((fields[key] for key in _CUSTOM_TEXTS if isinstance(fields.get(key), str)), "")
    at = fields.get("timestamp")
    return {
        "role": message.role,
        "text": _line(given, TEXT_SHOWN),
        "chars": len(given) if len(given) > TEXT_SHOWN else None,
        "at": at if isinstance(at, int) else None,
        "model": fields["model"] if message.role == "model" and isinstance(fields.get("model"), str) else None,
    }


_COUNTED = {ThinkingBlock: "thinking", ImageBlock: "images", DocumentBlock: "files", AudioBlock: "audio"}


def _content(content: Any) -> dict[str, Any]:
    counts: dict[str, int] = {}
    calls: list[CallRow] = []
    text, length = "", 0
    for block in blocks_of(content):
        match block:
            case TextBlock():
                length += len(block.text)
                if len(text) < TEXT_SHOWN:
                    text = f"{text} {_line(block.text, TEXT_SHOWN)}".strip()
            case ToolCall():
                bad = block.parse_error is not None
                about = block.arguments_text if bad else emitter(block.arguments)
                calls.append(CallRow(id=block.id, name=block.name, arg=_line(about, ARGUMENT_SHOWN) or None, bad=bad))
            case ServerToolCall():
                given = _line(emitter(block.arguments), ARGUMENT_SHOWN) or None
                calls.append(CallRow(id=block.id, name=block.name, arg=given, server=True))
            case OpaqueBlock():
                counts["opaque"] = counts.get("opaque", 0) + 1
            case _:
                name = _COUNTED.get(type(block))
                if name is not None:
                    counts[name] = counts.get(name, 0) + 1
    cut = _line(text, TEXT_SHOWN)
    return {"text": cut, "chars": length if length > len(cut) else None, "calls": tuple(calls), **counts}


def emitter(arguments: Any) -> str:
    """The argument that says most about a call: by its name, else the first text."""
    if not isinstance(arguments, Mapping):
        return arguments if isinstance(arguments, str) else ""
    named = next((arguments[key] for key in TELLING if isinstance(arguments.get(key), str)), None)
    return named if named is not None else next((value for value in arguments.values() if isinstance(value, str)), "")


def _line(text: str | None, most: int) -> str:
    """The beginning of a text in one line."""
    line = " ".join((text or "")[: max(_SCANNED, most)].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
