"""Messages as the page shows them: media by URL, long texts truncated. Pure.

The rest of the blocks (signatures, extras) is in the raw view.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..conversion.resizing import look
from ..sessions.blobs import SCHEME
from ..sessions.cards import Totals
from ..values import jsontext
from ..values.canonical import plain
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    AudioBlock,
    Block,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    blocks_of,
)
from ..values.partials import partial_arguments
from ..values.request import Entry
from .shapes import (
    AudioView,
    BlockView,
    DocumentView,
    ImageView,
    MessageView,
    ModelTotals,
    OpaqueView,
    Point,
    Row,
    ServerToolCallView,
    ServerToolResultView,
    TextView,
    ThinkingView,
    Timeline,
    Tokens,
    ToolCallView,
    TotalsView,
)

TEXT_LIMIT = 20_000  # characters of a block that are sent initially


class MediaData(NamedTuple):
    """A block's data: its hash, size in bytes, and pixels if it is an image."""

    sha256: str
    size: int
    width: int = 0
    height: int = 0
    mime_type: str | None = None


Locate = Callable[[str], MediaData | None]  # metadata of a blob by its hash; None if it is missing


def message_view(message: AgentMessage, address: str, locate: Locate, limit: int = TEXT_LIMIT) -> MessageView:
    """Returns a message for the page. `address` is appended to `/blobs/HASH`, so that the data can be found."""
    viewer = _Viewer(address, locate, limit)
    if isinstance(message, CustomMessage):
        return _custom_view(message, limit)
    common: dict[str, Any] = {
        "role": message.role,
        "content": tuple(viewer.block(block) for block in blocks_of(message.content)),
        "as_text": isinstance(message.content, str),
        "at": message.timestamp,
    }
    match message:
        case AssistantMessage():
            return MessageView(
                **common,
                model=message.model,
                provider=message.provider,
                api=message.api,
                response_model=message.response_model,
                response_id=message.response_id,
                usage=message.usage,
                stop=message.stop_reason,
                stop_detail=message.stop_detail,
                error=message.error_message,
            )
        case ToolResultMessage():
            details, more = _cut_json(plain(message.details), limit)
            return MessageView(
                **common,
                tool_call_id=message.tool_call_id,
                tool_name=message.tool_name,
                is_error=message.is_error,
                details=details,
                details_more=more,
            )
        case SystemMessage():
            return MessageView(**common, developer=message.developer)
        case _:
            return MessageView(**common, origin=getattr(message, "origin", None))


def _custom_view(message: CustomMessage, limit: int) -> MessageView:
    at = message.fields.get("timestamp")
    summary = message.fields.get("summary")
    text, more = _cut(summary, limit) if isinstance(summary, str) else ("", None)
    fields, left = _cut_json({k: v for k, v in message.fields.items() if k != "summary"}, limit)
    return MessageView(
        role=message.role,
        content=(TextView(text=text, more=more),) if isinstance(summary, str) else (),
        at=at if isinstance(at, int) else None,
        fields=fields if left is None else {"json": fields},
        details_more=left,
    )


class _Viewer:
    def __init__(self, address: str, locate: Locate, limit: int) -> None:
        self._address = address
        self._locate = locate
        self._limit = limit

    def block(self, block: Block) -> BlockView:
        match block:
            case TextBlock():
                text, more = _cut(block.text, self._limit)
                return TextView(
                    text=text,
                    more=more,
                    refusal=block.refusal,
                    citations=block.citations,
                    cached=block.cache is not None,
                )
            case ThinkingBlock():
                text, more = _cut(block.thinking, self._limit)
                return ThinkingView(
                    text=text, more=more, signed=block.thinking_signature is not None, redacted=block.redacted
                )
            case ImageBlock():
                return ImageView(**self._media(block))
            case AudioBlock():
                return AudioView(**self._media(block), transcript=block.transcript)
            case DocumentBlock():
                shown, more = _cut(block.text or "", self._limit)
                text_or_none = None if block.text is None else shown
                return DocumentView(**self._media(block), title=block.title, text=text_or_none, more=more)
            case ToolCall():
                return self._call(block)
            case ServerToolCall():
                value, more = _cut_json(block.arguments, self._limit)
                return ServerToolCallView(id=block.id, name=block.name, arguments=value, more=more)
            case ServerToolResult():
                value, more = _cut_json(block.content, self._limit)
                return ServerToolResultView(
                    tool_call_id=block.tool_call_id,
                    tool_name=block.tool_name,
                    dialect=block.dialect,
                    content=value,
                    is_error=block.is_error,
                    more=more,
                )
            case OpaqueBlock():
                value, more = _cut_json(block.value, self._limit)
                kind = block.value.get("type") if isinstance(block.value, dict) else None
                return OpaqueView(
                    dialect=block.dialect, name=kind if isinstance(kind, str) else None, value=value, more=more
                )

    def _call(self, call: ToolCall) -> ToolCallView:
        if call.parse_error is None:
            value, more = _cut_json(call.arguments, self._limit)
            return ToolCallView(id=call.id, name=call.name, arguments=value, more=more, cached=call.cache is not None)
        text, more = _cut(call.arguments_text or "", self._limit)
        made = partial_arguments(call.arguments_text or "") if more is None else None
        return ToolCallView(
            id=call.id,
            name=call.name,
            arguments={},
            arguments_text=text,
            parse_error=call.parse_error,
            made=made or None,
            more=more,
        )

    def _media(self, block: Any) -> dict[str, Any]:
        fields: dict[str, Any] = {"mime_type": block.mime_type, "file_id": block.file_id}
        if isinstance(block.url, str) and block.url.startswith(SCHEME):
            name = block.url.removeprefix(SCHEME)
            found = self._locate(name)
            return {**fields, "missing": True} if found is None else fields | self._found(found)
        fields["url"] = block.url
        if block.data is None:
            return fields
        return fields | self._found(data_of(block.data))

    def _found(self, data: MediaData) -> dict[str, Any]:
        return {
            "src": f"/blobs/{data.sha256}{self._address}",
            "size": data.size,
            "width": data.width or None,
            "height": data.height or None,
        }


def data_of(encoded: str) -> MediaData:
    """Returns metadata of base64 in a block. Invalid base64 is hashed as text, and cannot be displayed."""
    data = raw_of(encoded)
    picture = look(encoded)
    width, height = (picture.width, picture.height) if picture is not None else (0, 0)
    return MediaData(hashlib.sha256(data).hexdigest(), len(data), width, height)


def raw_of(encoded: str) -> bytes:
    import base64
    import binascii

    try:
        return base64.b64decode(encoded, validate=False)
    except (binascii.Error, ValueError):
        return encoded.encode("utf-8", "replace")


def _cut(text: str, limit: int) -> tuple[str, int | None]:
    return (text, None) if len(text) <= limit else (text[:limit], len(text) - limit)


def _cut_json(value: Any, limit: int) -> tuple[Any, int | None]:
    """Returns a JSON value; beyond the limit the beginning of its text, and how much is missing."""
    if value is None or isinstance(value, bool | int | float):
        return value, None
    text = jsontext.compact(value)
    return (value, None) if len(text) <= limit else (text[:limit], len(text) - limit)


def block_text(block: Block) -> str:
    """Returns a whole block as text: its text, or its JSON, indented."""
    match block:
        case TextBlock():
            return block.text
        case ThinkingBlock():
            return block.thinking
        case ToolCall():
            return block.arguments_text or pretty(block.arguments) if block.parse_error else pretty(block.arguments)
        case ServerToolCall():
            return pretty(block.arguments)
        case ServerToolResult():
            return pretty(block.content)
        case OpaqueBlock():
            return pretty(block.value)
        case DocumentBlock() if block.text is not None:
            return block.text
        case _:
            return pretty(plain(block))


def pretty(value: Any) -> str:
    import msgspec

    return msgspec.json.format(jsontext.write(value), indent=2).decode()


# --- statistics ------------------------------------------------------------------------------------------------------
#
# Totals and timelines of paths.


def totals_of(messages: Iterable[AgentMessage]) -> Totals:
    totals = Totals()
    for message in messages:
        totals.add(message)
    return totals


def totals_view(totals: Totals, entries: Sequence[Entry] = ()) -> TotalsView:
    return TotalsView(
        **_fields(totals),
        ms=elapsed([entry.message for entry in entries]),
        models={name: ModelTotals(**_fields(one)) for name, one in totals.models.items()},
    )


def _fields(totals: Totals) -> dict[str, Any]:
    tokens = totals.tokens
    return {
        "messages": dict(totals.messages),
        "tokens": Tokens(
            input=tokens["input"],
            cache_read=tokens["cache_read"],
            cache_write=tokens["cache_write"],
            output=tokens["output"],
            reasoning=tokens["reasoning"],
            total=tokens["total_tokens"],
        ),
        "cost": totals.cost if totals.priced else None,
        "unpriced": totals.unpriced,
        "thinking": totals.thinking,
        "tools": dict(totals.tools.most_common()),
        "failed_tools": dict(totals.failed_tools.most_common()),
        "stop_reasons": dict(totals.stops.most_common()),
    }


def elapsed(messages: Sequence[AgentMessage]) -> int | None:
    """The time between the first and the last message, without the time in which the user typed; None if unknown."""
    total, before, known = 0, None, False
    for message in messages:
        at = getattr(message, "timestamp", None)
        if at is None:
            continue
        if before is not None and isinstance(message, AssistantMessage | ToolResultMessage) and at >= before:
            total += at - before
            known = True
        before = at
    return total if known else None


def timeline(rows: Iterable[Row]) -> Timeline:
    return Timeline(
        points=tuple(
            Point(
                id=row.id,
                role=row.role,
                at=row.at,
                ms=row.ms,
                model=row.model,
                input=row.usage.input if row.usage is not None else None,
                cache_read=row.usage.cache_read if row.usage is not None else None,
                cache_write=row.usage.cache_write if row.usage is not None else None,
                output=row.usage.output if row.usage is not None else None,
                cost=row.cost,
            )
            for row in rows
            if row.role in ("assistant", "toolResult", "user")
        )
    )
