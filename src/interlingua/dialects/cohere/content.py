"""Content blocks and messages: decoding and encoding."""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from ...values.errors import BadWire
from ...values.folding import arguments_text, parse_arguments
from ...values.losses import QUIET, Reporter
from ...values.messages import (
    AssistantMessage,
    Block,
    Citation,
    Content,
    CustomMessage,
    ImageBlock,
    Message,
    OpaqueBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
)
from ..openai_shared import data_url, read_data_url
from ..residual import (
    Ids,
    Mint,
    an_object,
    each,
    fields_of,
    keeping,
    optional,
    residual_of,
    restored,
    whole,
    with_residual,
)
from ..results import Layout, OpenCalls, gathered
from ..results import encoded as encode_gathered
from .facts import API, GENERATED, NO_BLOCK, ORDER, PLAN

LAYOUT = Layout(API, strings=True)


# --- blocks: wire to ours --------------------------------------------------------------------------------------------


def decode_block(wire: Any) -> Block:
    """Decodes an item of `content`; an unknown one becomes an opaque block."""
    given = fields_of(wire)
    block: Block | None = None
    match given.get("type"):
        case "text" if isinstance(given.get("text"), str):
            block = TextBlock(text=given["text"])
        # docs.cohere.com/docs/reasoning: thinking is an item of the content of an answer, before its text.
        case "thinking" if isinstance(given.get("thinking"), str):
            block = ThinkingBlock(thinking=given["thinking"])
        # docs.cohere.com/reference/chat, `messages`: only user messages have pictures, as a web address or a data URL.
        case "image_url" if isinstance(url := fields_of(given.get("image_url")).get("url"), str):
            block = _decode_picture(url, given["image_url"])
    if block is None:
        return OpaqueBlock(dialect=API, value={"content": wire})
    return keeping(block, API, wire, encode_item(block, QUIET) or {})


def _decode_picture(url: str, wire: Mapping[str, Any]) -> ImageBlock:
    inline, detail = read_data_url(url), optional(wire.get("detail"))
    if inline is not None and data_url(*inline) == url:
        return ImageBlock(data=inline[1], mime_type=inline[0], detail=detail)
    return ImageBlock(url=url, detail=detail)


def decode_call(wire: Any, ids: Ids) -> Block:
    """Decodes an item of `tool_calls`."""
    given = fields_of(wire)
    function = fields_of(given.get("function"))
    # docs.cohere.com/reference/chat, `tool_calls`: `arguments` is JSON text.
    text = function.get("arguments", "")
    if given.get("type", "function") != "function" or not isinstance(function.get("name"), str):
        return OpaqueBlock(dialect=API, value={"tool_calls": wire})
    if not isinstance(text, str):
        return OpaqueBlock(dialect=API, value={"tool_calls": wire})
    # The id is required by the reference; proxies leave it out.
    id, generated = ids.take(given.get("id"))
    arguments, spelled, broken = parse_arguments(text)
    call = ToolCall(
        id=id,
        name=function["name"],
        arguments=arguments,
        arguments_text=spelled,
        parse_error=broken,
        extra={API: {GENERATED: True}} if generated else {},
    )
    return keeping(call, API, wire, encode_call(call, QUIET))


def decode_parts(wire: Mapping[str, Any], ids: Ids) -> tuple[Block, ...]:
    """The blocks of a message: its plan, its content with citations, its calls."""
    plan, content, calls = wire.get("tool_plan"), wire.get("content"), wire.get("tool_calls")
    # …, `tool_plan`: what the model means to do with the tools, before its calls; it belongs to the message, not to
    # `content`.
    blocks: list[Block] = [_planned(plan)] if isinstance(plan, str) and plan else []
    first = len(blocks)
    if isinstance(content, str):
        blocks.append(TextBlock(text=content))
    elif isinstance(content, list):
        blocks += map(decode_block, content)
    elif content is not None:
        raise BadWire(API, f"content must be a string or a list, not {type(content).__name__}", "$.content")
    blocks = cited(blocks, wire.get("citations"), first)
    return (*blocks, *(decode_call(call, ids) for call in (calls if isinstance(calls, list) else ())))


def _planned(plan: str) -> ThinkingBlock:
    return ThinkingBlock(thinking=plan, extra={API: {PLAN: True}})


def is_plan(block: Block) -> bool:
    """Whether a block is encoded as `tool_plan`, if it is the first of its message."""
    return isinstance(block, ThinkingBlock) and bool(residual_of(block.extra, API).get(PLAN)) and bool(block.thinking)


# Citations refer to an item by `content_index`, or to the only one; `start` and `end` are offsets in its text, and
# `text` repeats the span (docs.cohere.com/docs/rag-citations).


def cited(blocks: list[Block], wire: Any, first: int) -> list[Block]:
    """The blocks with their citations; `first` is the index of the first content block."""
    for item in wire if isinstance(wire, list) else ():
        place = _cited_place(blocks, item, first)
        if place is not None:
            block: Any = blocks[place]
            blocks[place] = replace(block, citations=(*block.citations, _decode_citation(item, place - first, block)))
    return blocks


def _cited_place(blocks: list[Block], wire: Any, first: int) -> int | None:
    if not isinstance(wire, dict) or wire.get("type", "TEXT_CONTENT") != "TEXT_CONTENT":
        return None
    index = whole(wire.get("content_index"))
    # `content_index` counts the items of `content`; older models send none, and have one item.
    if index is not None and 0 <= index < len(blocks) - first and isinstance(blocks[index + first], TextBlock):
        return index + first
    return next((at for at, block in enumerate(blocks) if isinstance(block, TextBlock)), None)


def _decode_citation(wire: dict[str, Any], index: int, block: TextBlock) -> Citation:
    sources = wire.get("sources")
    # …, `citations`: a source is a document of the request or the output of a tool.
    source = fields_of(fields_of(sources[0] if isinstance(sources, list) and sources else None).get("document"))
    citation = Citation(
        title=optional(source.get("title")),
        url=optional(source.get("url")),
        cited_text=optional(source.get("text")),
        start=whole(wire.get("start")),
        end=whole(wire.get("end")),
    )
    return keeping(citation, API, wire, encode_citation(citation, index, block.text))


def encode_citation(citation: Citation, index: int, text: str) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "TEXT_CONTENT", "content_index": index}
    if citation.start is not None:
        wire["start"] = citation.start
    if citation.end is not None:
        wire["end"] = citation.end
    if citation.start is not None and citation.end is not None:
        # Python would count negative offsets from the end.
        wire["text"] = text[max(citation.start, 0) : max(citation.end, 0)]
    named = {"title": citation.title, "url": citation.url, "text": citation.cited_text}
    document = {key: value for key, value in named.items() if value is not None}
    wire["sources"] = [{"type": "document", "document": document}] if document else []
    return restored(wire, citation.extra, API)


# --- blocks: ours to wire --------------------------------------------------------------------------------------------


def encode_item(block: Block, report: Reporter) -> Any:
    """Encodes a block as an item of `content`; None, with a report, if it has no place there."""
    wire: dict[str, Any]
    match block:
        case TextBlock():
            wire = {"type": "text", "text": block.text}
        case ThinkingBlock() if not block.redacted:
            wire = {"type": "thinking", "thinking": block.thinking}
        case ImageBlock() if block.data is not None or block.url is not None:
            wire = {"type": "image_url", "image_url": _encode_picture(block, report)}
        case OpaqueBlock() if block.dialect == API and _is_item(block.value, "content"):
            return block.value["content"]
        case ThinkingBlock():
            report.lost("thinking", "redacted thinking has no text")
            return None
        case _:
            report.lost(type(block).__name__, NO_BLOCK)
            return None
    return restored(wire, block.extra, API) if block.extra else wire


def _is_item(value: Any, of: str) -> bool:
    return isinstance(value, dict) and value.keys() == {of}


def _encode_picture(block: ImageBlock, report: Reporter) -> dict[str, Any]:
    url = block.url if block.data is None else data_url(block.mime_type, block.data)
    detail = {} if block.detail is None else {"detail": block.detail}
    again = _decode_picture(url or "", detail)
    for name, field in (("data", "data"), ("mime_type", "mimeType"), ("url", "url"), ("file_id", "fileId")):
        if getattr(block, name) != getattr(again, name):
            report.lost(name, "a picture is a URL, or data", field=field)
    return {"url": url, **detail}


def encode_call(call: ToolCall, report: Reporter) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "function", "function": {"name": call.name, "arguments": arguments_text(call)}}
    if not residual_of(call.extra, API).get(GENERATED):
        if call.id:
            wire = {"id": call.id, **wire}
        else:
            report.lost("id", "a call without an id is given one", "record", field="id")
    return restored(wire, call.extra, API) if call.extra else wire


class AnswerParts:
    """The fields of an assistant message; `in_order` is whether decoding them gives the same order of blocks."""

    def __init__(self, blocks: tuple[Block, ...], report: Reporter = QUIET) -> None:
        self.plan: str | None = None
        self.content: list[Any] = []
        self.calls: list[Any] = []
        self.citations: list[Any] = []
        self.in_order = True
        for at, block in enumerate(blocks):
            report.block = at
            self._add(block, at, report)
        report.block = None

    def _add(self, block: Block, at: int, report: Reporter) -> None:
        if isinstance(block, ToolCall):
            self.calls.append(encode_call(block, report))
        elif isinstance(block, OpaqueBlock) and block.dialect == API and _is_item(block.value, "tool_calls"):
            self.calls.append(block.value["tool_calls"])
        # There is one `tool_plan`, and it is read as the first block.
        elif at == 0 and isinstance(block, ThinkingBlock) and is_plan(block) and not block.redacted:
            self.plan = block.thinking
        else:
            item = encode_item(block, report)
            if item is None:
                return
            self.in_order &= not self.calls
            if isinstance(block, TextBlock):
                place = len(self.content)
                self.citations += [encode_citation(citation, place, block.text) for citation in block.citations]
            self.content.append(item)

    def message(self) -> dict[str, Any]:
        """The fields of a wire message; `content` is omitted only if there are others."""
        wire: dict[str, Any] = {}
        if self.plan is not None:
            wire["tool_plan"] = self.plan
        # …: an assistant message needs content, or calls.
        if self.content or not (self.calls or self.plan):
            wire["content"] = self.content
        if self.calls:
            wire["tool_calls"] = self.calls
        if self.citations:
            wire["citations"] = self.citations
        return wire


def encode_assistant(message: AssistantMessage, report: Reporter) -> dict[str, Any]:
    """An assistant message of a request or an answer."""
    content = message.content
    wire: dict[str, Any] = {"role": "assistant"}
    if isinstance(content, str):
        wire["content"] = content
    elif content is not None:
        parts = AnswerParts(content, report)
        if not parts.in_order:
            report.lost("content", ORDER, "weakened", field="content")
        wire |= parts.message()
    return restored(wire, message.extra, API) if message.extra else wire


def encode_content(content: Content, report: Reporter) -> dict[str, Any]:
    """The content of any other message."""
    if content is None:
        return {}
    if isinstance(content, str):
        return {"content": content}
    items = []
    for at, block in enumerate(content):
        report.block = at
        item = encode_item(block, report)
        if isinstance(block, TextBlock) and block.citations:
            report.lost("citations", "only the texts of an assistant message have sources", field="citations")
        if item is not None:
            items.append(item)
    report.block = None
    return {"content": items}


# --- messages --------------------------------------------------------------------------------------------------------


def decode_messages(wire: Any, mint: Mint | None = None, api: str = API) -> tuple[Message, ...]:
    """Decodes messages one to one."""
    turn = OpenCalls(mint)
    return gathered(tuple(each(wire, "messages", API, lambda message: _decode_message(message, turn, api))), LAYOUT)


def _decode_message(wire: Any, turn: OpenCalls, api: str) -> Message:
    role = an_object(wire, API).get("role")
    if role == "assistant":
        message = AssistantMessage(content=_decode_assistant(wire, turn.ids), api=api)
        turn.called(message)
        return keeping(message, API, wire, encode_assistant(message, QUIET))
    if role == "tool":
        return _decode_result(wire, turn)
    if role == "user":
        return _plain(UserMessage(content=decode_content(wire.get("content"))), role, wire)
    if role == "system":
        return _plain(SystemMessage(content=decode_content(wire.get("content"))), role, wire)
    if not isinstance(role, str):
        raise BadWire(API, "a message needs a role: system, user, assistant or tool", "$.role")
    return CustomMessage(role, {k: v for k, v in wire.items() if k != "role"})  # type: ignore[return-value]


def _decode_assistant(wire: Mapping[str, Any], ids: Ids) -> Content:
    """The content of an assistant message; text alone stays a string."""
    blocks, text = decode_parts(wire, ids), wire.get("content")
    if isinstance(text, str) and blocks == (TextBlock(text=text),):
        return text
    return blocks if blocks or isinstance(text, list) else None


M = TypeVar("M", UserMessage, SystemMessage)


def _plain(message: M, role: str, wire: dict[str, Any]) -> M:
    return keeping(message, API, wire, {"role": role, **encode_content(message.content, QUIET)})


def decode_content(wire: Any) -> Content:
    if isinstance(wire, list):
        return tuple(map(decode_block, wire))
    if wire is not None and not isinstance(wire, str):
        raise BadWire(API, f"content must be a string or a list, not {type(wire).__name__}", "$.content")
    return optional(wire)


def _decode_result(wire: dict[str, Any], turn: OpenCalls) -> ToolResultMessage:
    id, generated = turn.answered(wire.get("tool_call_id"))
    result = ToolResultMessage(
        tool_call_id=id,
        # A result has only the id of its call.
        tool_name=turn.names.get(id),
        content=decode_content(wire.get("content")),
        is_error=False,
    )
    result = with_residual(result, API, **{GENERATED: True}) if generated else result
    return keeping(result, API, wire, _encode_result(result, QUIET))


def encode_messages(messages: tuple[Message, ...], report: Reporter) -> list[dict[str, Any]]:
    """Encodes messages; media of tool results are moved after them."""
    return encode_gathered(messages, LAYOUT, lambda found: _encode_messages(found, report), report)


def _encode_messages(messages: tuple[Message, ...], report: Reporter) -> list[dict[str, Any]]:
    """Encodes messages one to one."""
    emitted: list[dict[str, Any]] = []
    generated: set[str] = set()  # generated ids of the latest answer with calls
    names: dict[str, str] = {}
    for at, message in enumerate(messages):
        report.message = at
        match message:
            case AssistantMessage():
                calls = [block for block in blocks_of(message.content) if isinstance(block, ToolCall)]
                names |= {call.id: call.name for call in calls}
                if calls:
                    generated = {call.id for call in calls if residual_of(call.extra, API).get(GENERATED)}
                emitted.append(encode_assistant(message, report))
            case ToolResultMessage():
                if message.tool_name is not None and names.get(message.tool_call_id) != message.tool_name:
                    report.lost("tool_name", "the wire knows only the name of the call", "record", field="toolName")
                emitted.append(_encode_result(message, report, generated))
            case UserMessage() | SystemMessage():
                role = "user" if isinstance(message, UserMessage) else "system"
                wire = {"role": role, **encode_content(message.content, report)}
                emitted.append(restored(wire, message.extra, API) if message.extra else wire)
            case CustomMessage():  # an unknown role of this wire
                emitted.append({"role": message.role, **message.fields})
    return emitted


def _encode_result(
    result: ToolResultMessage, report: Reporter, generated: Collection[str] = frozenset()
) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": "tool"}
    if not result.tool_call_id:
        report.lost("tool_call_id", "a result without an id is given that of a call", "record", field="toolCallId")
    elif result.tool_call_id not in generated and not residual_of(result.extra, API).get(GENERATED):
        wire["tool_call_id"] = result.tool_call_id
    wire |= encode_content(result.content, report)
    if result.is_error:
        report.lost("is_error", "only the text shows that it failed", "weakened", field="isError")
    return restored(wire, result.extra, API) if result.extra else wire
