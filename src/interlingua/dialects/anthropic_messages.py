"""Anthropic Messages. Knows nothing of HTTP, keys, clocks or other dialects.

Shapes that differ from ours: the system prompt is a top-level field; tool results are blocks inside user messages (one
wire message may hold several results and words of the user: hint `~joined`); thinking is signed; redacted thinking is a
sealed payload. An answer's stream is put together as the wire's own message and read as the whole one would be, so both
give equal messages by construction.

Also, as a Variant, the same bodies in AWS event-stream frames (Bedrock's InvokeModel): no `model`, no `stream`.
"""

import base64
import sys
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from .. import jsontext
from ..errors import BadWire, FormatError, ProviderError
from ..events import (
    BlockEnd,
    Done,
    Error,
    Start,
    StreamEvent,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ..folding import CUT_OFF, parse_arguments, settle
from ..framing import SSE, AWSEventStream, Frame, write_aws, write_sse
from ..losses import QUIET, SYSTEM, Encoded, Fates, Reporter, bookkeeping, dropped, encoded, kept, record, some
from ..messages import (
    AssistantMessage,
    Block,
    CacheMarker,
    Citation,
    Content,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    Message,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    StopReason,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    blocks_of,
)
from ..request import (
    Context,
    Conversation,
    ModelDescriptor,
    Options,
    OutputSchema,
    Reasoning,
    Request,
    System,
    ToolChoice,
    ToolSpec,
)
from ._errors import provider_error, status_of
from ._stream import Decoder
from ._variant import Variant
from ._wire import (
    JOINED,
    MESSAGE,
    RESPONSE,
    an_object,
    api_of,
    body_of,
    boolean,
    count,
    decode_conversation,
    each,
    encode_conversation,
    flag,
    keeping,
    lenient,
    model_of,
    number,
    optional,
    put_back,
    reading,
    residual,
    restored,
    say_tools,
    string,
    strings,
    whole,
    with_held,
)

API = "anthropic-messages"

STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "compaction": "stop",
    "tool_use": "toolUse",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "error",
    "sensitive": "error",
}
SAID_STOPS = {
    "stop": "end_turn",
    "toolUse": "tool_use",
    "length": "max_tokens",
    "error": "refusal",
    "aborted": "end_turn",
}
CHOICES = {"auto": "auto", "none": "none", "required": "any"}

# What only one form of an answer carries, as paths into the message: a stream brings arguments as text, which may be
# broken, a whole answer brings an object.
UNEVEN: tuple[str, ...] = ("$.content[].argumentsText", "$.content[].parseError")

FATES: Fates = {
    **kept("TextBlock.text TextBlock.cache CacheMarker.ttl"),
    **some("TextBlock.citations Citation.title Citation.url Citation.cited_text", "only citations minted by this wire"),
    **dropped("Citation.start Citation.end TextBlock.text_signature"),
    **dropped("TextBlock.refusal", "a refusal is said as plain text"),
    **some("ThinkingBlock.thinking", "redacted thinking has only its sealed payload"),
    **kept("ThinkingBlock.thinking_signature ThinkingBlock.redacted"),
    **some(
        "ImageBlock.data ImageBlock.mime_type ImageBlock.url ImageBlock.file_id DocumentBlock.data DocumentBlock.text"
        " DocumentBlock.mime_type DocumentBlock.url DocumentBlock.file_id",
        "a block has one source, and only data and text have a type",
    ),
    **kept("ImageBlock.cache"),
    **dropped("ImageBlock.detail"),
    **some(
        "AudioBlock.data AudioBlock.mime_type AudioBlock.url AudioBlock.file_id AudioBlock.transcript AudioBlock.cache",
        "this wire has no audio; the block is dropped",
    ),
    **kept("DocumentBlock.title DocumentBlock.context DocumentBlock.citations DocumentBlock.cache"),
    **kept("ToolCall.id ToolCall.name ToolCall.arguments ToolCall.cache"),
    **record("ToolCall.arguments_text", "arguments travel as an object, not as text"),
    **dropped("ToolCall.parse_error", "arguments travel as an object; what is none is sent as {}"),
    **dropped("ToolCall.thought_signature"),
    **kept("ServerToolCall.id ServerToolCall.name ServerToolCall.arguments ServerToolCall.cache"),
    **some(
        "ServerToolResult.tool_call_id ServerToolResult.tool_name ServerToolResult.dialect ServerToolResult.content"
        " ServerToolResult.is_error ServerToolResult.cache OpaqueBlock.dialect OpaqueBlock.value",
        "only what this wire minted",
    ),
    **kept("UserMessage.content AssistantMessage.content SystemMessage.content"),
    **bookkeeping(API),
    **kept(
        "ToolResultMessage.tool_call_id ToolResultMessage.content ToolResultMessage.is_error ToolResultMessage.cache"
    ),
    **some("ToolResultMessage.tool_name", "the name is that of the call it answers"),
    **dropped("SystemMessage.developer Context.system_role", "one word for system messages"),
    **kept("CustomMessage.role CustomMessage.fields"),
    **kept("ToolSpec.name ToolSpec.description ToolSpec.input_schema ToolSpec.strict ToolSpec.cache"),
    **some("ToolSpec.dialect ToolSpec.value", "only this wire's own tools"),
    **kept("Options.max_tokens Options.temperature Options.top_p Options.top_k Options.stop Options.service_tier"),
    **kept("Options.stream ToolChoice.mode Reasoning.effort OutputSchema.schema"),
    **some("Reasoning.budget Reasoning.enabled", "see `encode_reasoning`"),
    **some("Options.parallel_tools Options.tool_choice ToolChoice.names", "see `encode_choice`"),
    **some("Options.reasoning Options.output_schema Options.metadata Options.cache_retention", "see `encode_options`"),
    **dropped("Options.seed Options.session_id Reasoning.summary"),
    **dropped("OutputSchema.name OutputSchema.description OutputSchema.strict"),
    **dropped(
        "Options.extra Reasoning.extra ToolChoice.extra OutputSchema.extra",
        "what only this wire can say of a request goes into the request's extra",
    ),
}


# --- content: wire to ours -------------------------------------------------------------------------------------------


def decode_block(wire: Any) -> Block:
    """One content block; whatever is not as this wire has it is kept as it is, opaque."""
    decode = _decoder_of(wire.get("type")) if isinstance(wire, dict) else None
    if decode is not None:
        try:
            block: Block = decode(wire)
            return keeping(block, API, wire, encode_block(block, QUIET) or {})
        except (KeyError, TypeError, ValueError):
            pass
    return OpaqueBlock(dialect=API, value=wire)


def _decoder_of(kind: Any) -> Callable[[dict[str, Any]], Any] | None:
    if isinstance(kind, str) and kind.endswith("_tool_result"):
        return _decode_server_result
    return _DECODERS.get(kind) if isinstance(kind, str) else None


def _decode_text(wire: dict[str, Any]) -> TextBlock:
    citations = wire.get("citations")
    return TextBlock(
        text=string(wire["text"]),
        citations=tuple(map(_decode_citation, citations)) if citations else (),
        cache=_decode_cache(wire),
    )


def _decode_citation(wire: dict[str, Any]) -> Citation:
    citation = Citation(
        title=optional(wire.get(_title_key(string(wire["type"])))),
        url=optional(wire.get("url")),
        cited_text=optional(wire.get("cited_text")),
        extra={API: {"type": wire["type"]}},
    )
    return replace(citation, extra={API: {"type": wire["type"], **residual(wire, _encode_citation(citation))}})


def _title_key(kind: str) -> str:
    return "title" if kind in ("web_search_result_location", "search_result_location") else "document_title"


def _decode_thinking(wire: dict[str, Any]) -> ThinkingBlock:
    return ThinkingBlock(thinking=string(wire["thinking"]), thinking_signature=optional(wire.get("signature")))


def _decode_redacted(wire: dict[str, Any]) -> ThinkingBlock:
    return ThinkingBlock(thinking="", thinking_signature=string(wire["data"]), redacted=True)


def _decode_image(wire: dict[str, Any]) -> ImageBlock:
    return ImageBlock(**_decode_source(wire["source"]), cache=_decode_cache(wire))


def _decode_document(wire: dict[str, Any]) -> DocumentBlock:
    citations = wire.get("citations")
    return DocumentBlock(
        **_decode_source(wire["source"]),
        title=optional(wire.get("title")),
        context=optional(wire.get("context")),
        citations=boolean(citations["enabled"]) if citations else None,
        cache=_decode_cache(wire),
    )


def _decode_source(source: dict[str, Any]) -> dict[str, Any]:
    match source["type"]:
        case "base64":
            return {"data": string(source["data"]), "mime_type": optional(source.get("media_type"))}
        case "text":
            return {"text": string(source["data"]), "mime_type": optional(source.get("media_type"))}
        case "url":
            return {"url": string(source["url"])}
        case "file":
            return {"file_id": string(source["file_id"])}
        case kind:
            raise ValueError(kind)


def _decode_tool_use(wire: dict[str, Any]) -> ToolCall:
    given = wire["input"]
    broken = None if isinstance(given, dict) else jsontext.compact(given)
    return ToolCall(
        id=string(wire["id"]),
        name=string(wire["name"]),
        arguments=given if broken is None else {},
        arguments_text=broken,
        parse_error=broken and "the arguments are not a JSON object",
        cache=_decode_cache(wire),
    )


def _decode_server_use(wire: dict[str, Any]) -> ServerToolCall:
    return ServerToolCall(
        id=string(wire["id"]), name=string(wire["name"]), arguments=wire["input"], cache=_decode_cache(wire)
    )


def _decode_server_result(wire: dict[str, Any]) -> ServerToolResult:
    return ServerToolResult(
        tool_call_id=string(wire["tool_use_id"]),
        tool_name=wire["type"].removesuffix("_tool_result"),
        dialect=API,
        content=wire["content"],
        is_error=boolean(wire.get("is_error", False)),
        cache=_decode_cache(wire),
    )


_DECODERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "text": _decode_text,
    "thinking": _decode_thinking,
    "redacted_thinking": _decode_redacted,
    "image": _decode_image,
    "document": _decode_document,
    "tool_use": _decode_tool_use,
    "server_tool_use": _decode_server_use,
    "mcp_tool_use": _decode_server_use,
}


def _decode_cache(wire: Mapping[str, Any]) -> CacheMarker | None:
    marker = wire.get("cache_control")
    if not isinstance(marker, dict):
        return None
    cache = CacheMarker(ttl=optional(marker.get("ttl")))
    return keeping(cache, API, marker, _encode_cache(cache))


# --- content: ours to wire -------------------------------------------------------------------------------------------


def encode_block(block: Block, report: Reporter) -> dict[str, Any] | None:
    """One block as this wire says it, or None (reported) when it cannot."""
    wire: dict[str, Any]
    # Nearly every block is one of the first three. Asking for the type costs half of what `match` does, and `match`
    # would take longer than all the rest.
    if type(block) is TextBlock:
        wire = {"type": "text", "text": block.text}
        if block.citations and (citations := _encode_citations(block.citations, report)):
            wire["citations"] = citations
    elif type(block) is ToolCall:
        wire = {"type": "tool_use", "id": block.id, "name": block.name, "input": block.arguments}
    elif type(block) is ThinkingBlock and (not block.redacted or block.thinking_signature is not None):
        wire = _encode_thinking(block, report)
        return restored(wire, block.extra, API) if block.extra else wire
    elif isinstance(block, ImageBlock) and (source := _encode_source(block, report)) is not None:
        wire = {"type": "image", "source": source}
    elif isinstance(block, DocumentBlock) and (source := _encode_source(block, report)) is not None:
        wire = _encode_document(block, source)
    elif isinstance(block, ServerToolCall):
        wire = {"type": "server_tool_use", "id": block.id, "name": block.name, "input": block.arguments}
    elif isinstance(block, ServerToolResult) and block.dialect == API:
        wire = {
            "type": f"{block.tool_name}_tool_result",
            "tool_use_id": block.tool_call_id,
            "content": block.content,
        }
        if block.is_error:
            wire["is_error"] = True
    elif isinstance(block, OpaqueBlock) and block.dialect == API:
        return block.value  # type: ignore[no-any-return]
    else:
        report.lost(type(block).__name__, "this wire cannot say such a block")
        return None
    if block.cache is not None:
        wire["cache_control"] = _encode_cache(block.cache)
    return restored(wire, block.extra, API) if block.extra else wire


def _encode_thinking(block: ThinkingBlock, report: Reporter) -> dict[str, Any]:
    if block.redacted:
        if block.thinking:
            report.lost("thinking", "redacted thinking has only its sealed payload", field="thinking")
        return {"type": "redacted_thinking", "data": block.thinking_signature}
    wire = {"type": "thinking", "thinking": block.thinking}
    if block.thinking_signature is not None:
        wire["signature"] = block.thinking_signature
    return wire


def _encode_citations(citations: tuple[Citation, ...], report: Reporter) -> list[dict[str, Any]]:
    own = [citation for citation in citations if "type" in citation.extra.get(API, ())]
    if len(own) < len(citations):
        # The wire's citations point into documents or sealed search results of its own.
        report.lost("citations", "only citations minted by this wire can return to it", field="citations")
    return [put_back(_encode_citation(citation), citation.extra[API]) for citation in own]


def _encode_citation(citation: Citation) -> dict[str, Any]:
    wire = {"type": citation.extra[API]["type"]}
    if citation.cited_text is not None:
        wire["cited_text"] = citation.cited_text
    if citation.title is not None:
        wire[_title_key(wire["type"])] = citation.title
    if citation.url is not None:
        wire["url"] = citation.url
    return wire


def _encode_source(block: ImageBlock | DocumentBlock, report: Reporter) -> dict[str, Any] | None:
    """Where the bytes are: the first of text, data, url and file that is known; None when none is."""
    text = block.text if isinstance(block, DocumentBlock) else None
    given = (("text", text), ("data", block.data), ("url", block.url), ("file_id", block.file_id))
    told = [(name, value) for name, value in given if value is not None]
    if not told:
        return None
    (name, value), *others = told
    for other, _ in others:
        report.lost(other, "a block has one source", field="fileId" if other == "file_id" else other)
    if name == "text":
        if block.mime_type is None:
            report.lost("mime_type", "text without a type is said to be plain", "record", field="mimeType")
        return {"type": "text", "media_type": block.mime_type or "text/plain", "data": value}
    if name == "data":
        return {"type": "base64", "media_type": block.mime_type, "data": value}
    if block.mime_type is not None:
        report.lost("mime_type", "only data and text have a type", "weakened", field="mimeType")
    return {"type": "url", "url": value} if name == "url" else {"type": "file", "file_id": value}


def _encode_document(block: DocumentBlock, source: dict[str, Any]) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "document", "source": source}
    if block.title is not None:
        wire["title"] = block.title
    if block.context is not None:
        wire["context"] = block.context
    if block.citations is not None:
        wire["citations"] = {"enabled": block.citations}
    return wire


def _encode_cache(cache: CacheMarker) -> dict[str, Any]:
    wire = {"type": "ephemeral"}
    if cache.ttl is not None:
        wire["ttl"] = cache.ttl
    return restored(wire, cache.extra, API)


def _encode_content(content: Content, report: Reporter) -> Any:
    if content is None or isinstance(content, str):
        return content
    said = []
    for at, block in enumerate(content):
        report.block = at
        wire = encode_block(block, report)
        if wire is not None:
            said.append(wire)
    report.block = None
    return said


# --- messages --------------------------------------------------------------------------------------------------------


def decode_messages(wire: Any, api: str = API) -> tuple[Message, ...]:
    """Wire messages as ours; a user message with tool results becomes several. `api` is who minted the answers."""
    names: dict[str, str] = {}  # call id -> tool name; a repeated id means the latest call
    groups = each(wire, "messages", API, lambda message: _decode_message(message, names, api))
    return tuple(message for group in groups for message in group)


def _decode_message(wire: Any, names: dict[str, str], api: str) -> list[Message]:
    role = an_object(wire, API).get("role")
    content = wire.get("content")
    if role == "user":
        return _decode_user(wire, content, names)
    if role == "assistant":
        message = AssistantMessage(content=_decode_content(content), api=api)
        for call in message.tool_calls:
            names[call.id] = call.name
        return [keeping(message, API, wire, _encode_assistant(message, QUIET))]
    if role == "system":
        system = SystemMessage(content=_decode_content(content))
        return [keeping(system, API, wire, _said_message("system", system.content, QUIET))]
    if not isinstance(role, str):
        raise BadWire(API, "a message needs a role: user, assistant or system", "$.role")
    return [CustomMessage(role, {k: v for k, v in wire.items() if k != "role"})]  # type: ignore[list-item]


def _decode_content(content: Any) -> Content:
    if content is None or isinstance(content, str):
        return content
    return tuple(each(content, "content", API, decode_block))


def _decode_user(wire: dict[str, Any], content: Any, names: dict[str, str]) -> list[Message]:
    if not isinstance(content, list) or not any(_is_result(block) for block in content):
        user = UserMessage(content=_decode_content(content))
        return [keeping(user, API, wire, _said_message("user", user.content, QUIET))]
    pieces: list[Message] = []
    words: list[Block] = []
    for block in content:
        if _is_result(block):
            if words:
                pieces.append(UserMessage(content=tuple(words)))
                words = []
            pieces.append(_decode_result(block, names))
        else:
            words.append(decode_block(block))
    if words:
        pieces.append(UserMessage(content=tuple(words)))
    return _joined(pieces, residual(wire, {"role": "user", "content": content}))


def _joined(pieces: list[Message], held: dict[str, Any]) -> list[Message]:
    """Marks how the pieces of one wire message hang together, wherever it is not the usual way."""
    out: list[Message] = []
    for at, piece in enumerate(pieces):
        usual = at > 0 and isinstance(piece, ToolResultMessage) and isinstance(pieces[at - 1], ToolResultMessage)
        if at == 0 and isinstance(piece, ToolResultMessage):
            piece = with_held(piece, API, **{JOINED: False})
        elif at > 0 and not usual:
            piece = with_held(piece, API, **{JOINED: True})
        out.append(piece)
    if held:
        out[0] = with_held(out[0], API, **{MESSAGE: held})
    return out


def _is_result(block: Any) -> bool:
    return (
        isinstance(block, dict)
        and block.get("type") == "tool_result"
        and isinstance(block.get("tool_use_id"), str)
        and isinstance(block.get("content", ""), str | list | None)
        and isinstance(block.get("is_error", False), bool)
    )


def _decode_result(wire: dict[str, Any], names: dict[str, str]) -> ToolResultMessage:
    result = ToolResultMessage(
        tool_call_id=wire["tool_use_id"],
        tool_name=names.get(wire["tool_use_id"]),
        content=_decode_content(wire.get("content")),
        is_error=wire.get("is_error", False),
        cache=_decode_cache(wire),
    )
    return keeping(result, API, wire, _encode_result(result, QUIET))


def encode_messages(messages: tuple[Message, ...], report: Reporter) -> list[dict[str, Any]]:
    """Our messages as the wire's; results of one turn share a user message."""
    said: list[dict[str, Any]] = []
    before: Message | None = None
    names: dict[str, str] = {}
    for at, message in enumerate(messages):
        report.message = at
        if type(message) is AssistantMessage:
            said.append(_encode_assistant(message, report))
            for block in blocks_of(message.content):
                if type(block) is ToolCall:
                    names[block.id] = block.name
        elif type(message) is ToolResultMessage:
            if message.tool_name is not None and names.get(message.tool_call_id) != message.tool_name:
                report.lost("tool_name", "the wire knows only the name of the call", "record", field="toolName")
            _say_result(said, message, before, report)
        elif type(message) is UserMessage:
            _say_user(said, message, before, report)
        elif isinstance(message, SystemMessage):
            said.append(restored(_said_message("system", message.content, report), message.extra, API))
        elif isinstance(message, CustomMessage):  # the wire's own unknown role; others are reported by the table
            said.append({"role": message.role, **message.fields})
        before = message
    return said


def _said_message(role: str, content: Content, report: Reporter) -> dict[str, Any]:
    return {"role": role, "content": _encode_content(content, report)}


def _encode_assistant(message: AssistantMessage, report: Reporter) -> dict[str, Any]:
    said = _said_message("assistant", message.content, report)
    return restored(said, message.extra, API) if message.extra else said


def _encode_result(result: ToolResultMessage, report: Reporter) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.tool_call_id}
    if result.content is not None:
        wire["content"] = _encode_content(result.content, report)
    if result.is_error:
        wire["is_error"] = True
    if result.cache is not None:
        wire["cache_control"] = _encode_cache(result.cache)
    return restored(wire, result.extra, API) if result.extra else wire


def _say_user(said: list[dict[str, Any]], message: UserMessage, before: Message | None, report: Reporter) -> None:
    held = message.extra.get(API, {}) if message.extra else {}
    wire = _said_message("user", message.content, report)
    if held.get(JOINED) and isinstance(before, ToolResultMessage) and isinstance(wire["content"], list):
        said[-1]["content"].extend(wire["content"])
    else:
        said.append(put_back(put_back(wire, held), held.get(MESSAGE, {})) if held else wire)


def _say_result(
    said: list[dict[str, Any]], message: ToolResultMessage, before: Message | None, report: Reporter
) -> None:
    held = message.extra.get(API, {}) if message.extra else {}
    block = _encode_result(message, report)
    joins = held.get(JOINED, isinstance(before, ToolResultMessage))
    if joins and _takes_blocks(before, said):
        said[-1]["content"].append(block)
    else:
        wire = {"role": "user", "content": [block]}
        said.append(put_back(wire, held.get(MESSAGE, {})) if held else wire)


def _takes_blocks(before: Message | None, said: list[dict[str, Any]]) -> bool:
    return isinstance(before, (ToolResultMessage, UserMessage)) and isinstance(said[-1]["content"], list)


# --- requests --------------------------------------------------------------------------------------------------------


@reading(API)
def decode_request(
    body: Any,
    *,
    model: str | ModelDescriptor | None = None,
    stream: bool | None = None,
    quirks: Mapping[str, Any] | None = None,
) -> Request:
    """A Messages request. `model` and `stream` are for hosts that say them outside the body."""
    wire = an_object(body_of(body, API), API)
    request = Request(
        model=model_of(wire.get("model"), model, api_of(quirks, API)),
        context=Context(
            system=_decode_system(wire.get("system")),
            messages=decode_messages(wire["messages"], api_of(quirks, API)) if "messages" in wire else (),
            tools=_decode_tools(wire.get("tools")),
        ),
        options=_decode_options(wire, stream),
    )
    said, _ = encode_request(request, quirks=quirks)
    # `messages` keep their own residuals, message by message.
    given = {**wire, "messages": said["messages"]} if "messages" in wire else wire
    return keeping(request, API, given, said)


def _decode_system(wire: Any) -> System:
    if isinstance(wire, str):
        return wire
    if isinstance(wire, list) and all(isinstance(block, dict) and block.get("type") == "text" for block in wire):
        blocks = tuple(map(decode_block, wire))
        if all(isinstance(block, TextBlock) for block in blocks):
            return blocks  # type: ignore[return-value]
    return None


def _decode_tools(wire: Any) -> tuple[ToolSpec, ...] | None:
    if not isinstance(wire, list):
        return None
    return tuple(each(wire, "tools", API, _decode_tool))


def _decode_tool(wire: Any) -> ToolSpec:
    an_object(wire, API)
    name, kind = wire.get("name"), wire.get("type", "custom")
    if kind != "custom" or not isinstance(name, str):
        return ToolSpec(name=name if isinstance(name, str) else str(kind), dialect=API, value=wire)
    tool = ToolSpec(
        name=name,
        description=optional(wire.get("description")),
        input_schema=wire.get("input_schema"),
        strict=flag(wire.get("strict")),
        cache=_decode_cache(wire),
    )
    return keeping(tool, API, wire, _encode_tool(tool))


def _decode_options(wire: dict[str, Any], stream: bool | None) -> Options:
    choice = wire.get("tool_choice")
    metadata = wire.get("metadata")
    return Options(
        max_tokens=whole(wire.get("max_tokens")),
        temperature=number(wire.get("temperature")),
        top_p=number(wire.get("top_p")),
        top_k=whole(wire.get("top_k")),
        stop=strings(wire.get("stop_sequences")),
        reasoning=_decode_reasoning(wire),
        tool_choice=_decode_choice(choice),
        parallel_tools=_decode_parallel(choice),
        output_schema=_decode_schema(wire),
        cache_retention=_decode_retention(wire.get("cache_control")),
        service_tier=optional(wire.get("service_tier")),
        metadata={k: metadata[k] for k in metadata if k == "user_id"} if isinstance(metadata, dict) else None,
        stream=wire["stream"] if isinstance(wire.get("stream"), bool) else stream,
    )


def _decode_reasoning(wire: dict[str, Any]) -> Reasoning | None:
    thinking, config = wire.get("thinking"), wire.get("output_config")
    effort = optional(config.get("effort")) if isinstance(config, dict) else None
    if not isinstance(thinking, dict):
        return Reasoning(effort=effort) if effort is not None else None
    budget = whole(thinking.get("budget_tokens"))
    match thinking.get("type"):
        case "enabled" if budget is not None:
            return Reasoning(effort=effort, budget=budget)
        case "adaptive":
            return Reasoning(effort=effort, enabled=True if effort is None else None)
        case "disabled":
            return Reasoning(effort=effort, enabled=False)
        case _:
            return Reasoning(effort=effort) if effort is not None else None


def _decode_choice(wire: Any) -> ToolChoice | None:
    if not isinstance(wire, dict):
        return None
    match wire.get("type"):
        case "auto":
            # Said with `disable_parallel_tool_use`, `auto` is only the carrier of that flag.
            return None if "disable_parallel_tool_use" in wire else ToolChoice(mode="auto")
        case "any":
            return ToolChoice(mode="required")
        case "none":
            return ToolChoice(mode="none")
        case "tool" if isinstance(wire.get("name"), str):
            return ToolChoice(mode="required", names=(wire["name"],))
        case _:
            return None


def _decode_parallel(wire: Any) -> bool | None:
    if isinstance(wire, dict) and isinstance(wire.get("disable_parallel_tool_use"), bool):
        return not wire["disable_parallel_tool_use"]
    return None


def _decode_schema(wire: dict[str, Any]) -> OutputSchema | None:
    config = wire.get("output_config")
    inside = config.get("format") if isinstance(config, dict) else None
    outside = wire.get("output_format")
    given = inside or outside
    if not isinstance(given, dict) or given.get("type") != "json_schema" or "schema" not in given:
        return None
    # `output_format` is how the beta spelled it.
    return OutputSchema(schema=given["schema"], extra={API: {"field": "output_format"}} if given is outside else {})


def _decode_retention(wire: Any) -> Any:
    if not isinstance(wire, dict) or wire.get("type") != "ephemeral":
        return None
    return "long" if wire.get("ttl") == "1h" else "short"


def encode_request(request: Request, *, strict: bool = False, quirks: Mapping[str, Any] | None = None) -> Encoded:
    """The body of a Messages request."""
    report = Reporter()
    context, options = request.context, request.options
    hosted = bool(quirks and quirks.get("hosted"))  # the host says model and stream in the URL
    body: dict[str, Any] = {}
    if request.model.id and not hosted:
        body["model"] = request.model.id
    if options.max_tokens is not None:
        body["max_tokens"] = options.max_tokens
    if context.system is not None:
        report.root = SYSTEM
        body["system"] = _encode_content(context.system, report)
        report.root = ""
    body["messages"] = encode_messages(context.messages, report)
    if context.tools is not None:
        body["tools"] = say_tools(context.tools, API, _encode_tool, report)
    _encode_options(body, options, report)
    if options.stream is not None and not hosted:
        body["stream"] = options.stream
    if hosted:
        body["anthropic_version"] = quirks["version"]  # type: ignore[index]
    said = restored(body, request.extra, API)
    return encoded(API, said, request, FATES, report.losses, strict=strict, spoken=api_of(quirks, API))


def _encode_tool(spec: ToolSpec) -> dict[str, Any]:
    wire: dict[str, Any] = {"name": spec.name}
    if spec.description is not None:
        wire["description"] = spec.description
    if spec.input_schema is not None:
        wire["input_schema"] = spec.input_schema
    if spec.strict is not None:
        wire["strict"] = spec.strict
    if spec.cache is not None:
        wire["cache_control"] = _encode_cache(spec.cache)
    return restored(wire, spec.extra, API)


def _encode_options(body: dict[str, Any], options: Options, report: Reporter) -> None:
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if options.top_p is not None:
        body["top_p"] = options.top_p
    if options.top_k is not None:
        body["top_k"] = options.top_k
    if options.stop is not None:
        body["stop_sequences"] = list(options.stop)
    if options.service_tier is not None:
        body["service_tier"] = options.service_tier
    if options.reasoning is not None:
        _encode_reasoning(body, options.reasoning, report)
    if options.tool_choice is not None or options.parallel_tools is not None:
        body["tool_choice"] = _encode_choice(options, report)
    if options.output_schema is not None:
        _encode_schema(body, options.output_schema, report)
    if options.metadata is not None:
        _encode_metadata(body, options.metadata, report)
    if options.cache_retention == "none":
        report.at("$.options.cacheRetention", "cache_retention", "caching is off unless asked for", "weakened")
    elif options.cache_retention is not None:
        body["cache_control"] = {"type": "ephemeral"} | ({"ttl": "1h"} if options.cache_retention == "long" else {})


def _encode_reasoning(body: dict[str, Any], reasoning: Reasoning, report: Reporter) -> None:
    if reasoning.enabled is False:
        body["thinking"] = {"type": "disabled"}
        if reasoning.budget is not None:
            report.at("$.options.reasoning.budget", "budget", "thinking is off", "record")
    elif reasoning.budget is not None:
        body["thinking"] = {"type": "enabled", "budget_tokens": reasoning.budget}
    elif reasoning.enabled or reasoning.effort is not None:
        body["thinking"] = {"type": "adaptive"}
    else:
        report.at("$.options.reasoning", "reasoning", "it says nothing about thinking", "record")
    if reasoning.effort is not None:
        body["output_config"] = {"effort": reasoning.effort}
    if reasoning.enabled and (reasoning.budget is not None or reasoning.effort is not None):
        report.at("$.options.reasoning.enabled", "enabled", "implied by the budget or the effort", "record")


def _encode_choice(options: Options, report: Reporter) -> dict[str, Any]:
    choice = options.tool_choice or ToolChoice(mode="auto")
    wire: dict[str, Any] = {"type": CHOICES[choice.mode]}
    if choice.mode == "required" and len(choice.names) == 1:
        wire = {"type": "tool", "name": choice.names[0]}
    elif choice.names:
        report.at("$.options.toolChoice.names", "tool_choice", "the choice is one tool or all of them", "weakened")
    if options.parallel_tools is not None:
        wire["disable_parallel_tool_use"] = not options.parallel_tools
        if choice.mode == "auto" and options.tool_choice is not None:
            report.at("$.options.toolChoice", "tool_choice", "implied by the flag against parallel calls", "weakened")
    return wire


def _encode_schema(body: dict[str, Any], schema: OutputSchema, report: Reporter) -> None:
    if schema.schema is None:
        report.at("$.options.outputSchema", "output_schema", "this wire has no free-form JSON mode")
        return
    said = {"type": "json_schema", "schema": schema.schema}
    if schema.extra.get(API, {}).get("field") == "output_format":
        body["output_format"] = said
    else:
        body["output_config"] = {**body.get("output_config", {}), "format": said}


def _encode_metadata(body: dict[str, Any], metadata: dict[str, Any], report: Reporter) -> None:
    body["metadata"] = {key: value for key, value in metadata.items() if key == "user_id"}
    if metadata.keys() - {"user_id"}:
        report.at("$.options.metadata", "metadata", "only user_id is carried", "weakened")


# --- answers ---------------------------------------------------------------------------------------------------------


@reading(API)
def decode_response(
    body: Any,
    *,
    model: str | None = None,
    provider: str | None = None,
    timestamp: int | None = None,
    quirks: Mapping[str, Any] | None = None,
) -> AssistantMessage:
    """A whole answer."""
    wire = an_object(body_of(body, API), API)
    if wire.get("type") == "error" or ("error" in wire and "content" not in wire):
        raise decode_error(0, wire)
    base = AssistantMessage(content=(), api=api_of(quirks, API), provider=provider, model=model, timestamp=timestamp)
    return _decode_answer(wire, _decode_content(wire.get("content")), base)


def _decode_answer(wire: dict[str, Any], content: Content, base: AssistantMessage) -> AssistantMessage:
    """The message whose envelope is `wire` and whose content is read already."""
    word = optional(wire.get("stop_reason"))
    reason = settle(STOP_REASONS.get(word or ""), blocks_of(content))
    message = replace(
        base,
        content=content,
        **_decode_envelope(wire, base),
        stop_reason=reason,
        stop_detail=word,
        error_message=f"the provider stopped: {_refusal(wire, word)}" if reason == "error" else None,
    )
    blocks = wire.get("content")  # a list keeps its own residuals, block by block
    said = _encode_answer(message, blocks if isinstance(blocks, list) else _encode_content(blocks_of(content), QUIET))
    held = residual(wire, said)
    return with_held(message, API, **{RESPONSE: held}) if held else message


def _decode_envelope(wire: dict[str, Any], base: AssistantMessage) -> dict[str, Any]:
    named = optional(wire.get("model"))
    return {
        "response_id": optional(wire.get("id")) or None,
        "model": base.model or named,
        "response_model": named if base.model and named != base.model else None,
        "usage": _decode_usage(wire.get("usage")),
    }


def _refusal(wire: dict[str, Any], word: str | None) -> str:
    details = wire.get("stop_details")
    told = details.get("explanation") if isinstance(details, dict) else None
    return told if isinstance(told, str) else word or "no reason given"


def _decode_usage(wire: Any) -> Usage | None:
    if not isinstance(wire, dict):
        return None
    details = wire.get("output_tokens_details")
    thinking = details.get("thinking_tokens") if isinstance(details, dict) else None
    usage = Usage.of(
        count(wire, "input_tokens"),
        count(wire, "output_tokens"),
        cache_read=count(wire, "cache_read_input_tokens"),
        cache_write=count(wire, "cache_creation_input_tokens"),
        reasoning=whole(thinking),
    )
    return keeping(usage, API, wire, _encode_usage(usage))


def _encode_usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {"input_tokens": 0, "output_tokens": 0}
    wire: dict[str, Any] = {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    }
    if usage.reasoning is not None:
        wire["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return restored(wire, usage.extra, API)


def encode_response(message: AssistantMessage, *, quirks: Mapping[str, Any] | None = None) -> Encoded:
    """The body of a whole answer."""
    report = Reporter("$")
    content = _encode_content(blocks_of(message.content), report)
    body = _whole_answer(message, content)
    return encoded(API, body, message, ANSWER_FATES, report.losses, spoken=api_of(quirks, API))


def _whole_answer(message: AssistantMessage, content: Any) -> dict[str, Any]:
    return put_back(_encode_answer(message, content), message.extra.get(API, {}).get(RESPONSE, {}))


def _encode_answer(message: AssistantMessage, content: Any) -> dict[str, Any]:
    return {
        "id": message.response_id or "",
        "type": "message",
        "role": "assistant",
        "model": message.response_model or message.model or "",
        "content": content,
        "stop_reason": _stop_word(message),
        "stop_sequence": None,
        "usage": _encode_usage(message.usage),
    }


def _stop_word(message: AssistantMessage) -> str | None:
    word = message.stop_detail
    if word in STOP_REASONS and settle(STOP_REASONS[word], blocks_of(message.content)) == message.stop_reason:
        return word
    return SAID_STOPS.get(message.stop_reason or "")


ANSWER_FATES: Fates = {
    **FATES,
    **kept("AssistantMessage.usage AssistantMessage.stop_reason AssistantMessage.response_id AssistantMessage.model"),
    **some("AssistantMessage.stop_detail AssistantMessage.response_model", "said where the wire knows the word"),
    **record("Usage.cost"),
}


# --- streams ---------------------------------------------------------------------------------------------------------


def framing(content_type: str | None = None) -> SSE:
    return SSE()


class StreamDecoder(Decoder):
    """Frames of a streamed answer to events."""

    API = API

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._shell: dict[str, Any] = {}  # the wire's message, without its content
        self._blocks: dict[Any, dict[str, Any]] = {}  # the wire's open blocks, by index

    def _read(self, value: Any, frame: Frame) -> None:
        kind = value["type"]
        if kind == "content_block_delta":
            self._delta(value["index"], value["delta"])
        else:
            handle = _HANDLERS.get(kind)
            if handle is not None:
                handle(self, value)

    def _complete(self) -> bool:
        return bool(self._shell.get("stop_reason")) and not self._blocks

    def _start(self, event: dict[str, Any]) -> None:
        self._shell = dict(event["message"])
        self._record.note(**_decode_envelope(self._shell, self._given))
        self._record.begin()

    def _open(self, event: dict[str, Any]) -> None:
        key, wire = event["index"], dict(event["content_block"])
        if key in self._blocks:  # an upstream that never closed it
            self._close(event)
        self._blocks[key] = wire
        match wire["type"]:
            case "text":
                self._record.open(key, TextBlock(text=wire["text"]))
            case "thinking":
                if wire.get("signature") == "":  # a placeholder: the signature comes as a delta, or there is none
                    del wire["signature"]
                self._record.open(key, ThinkingBlock(thinking=wire["thinking"]))
            case "redacted_thinking":
                self._record.open(key, _decode_redacted(wire))
            case "tool_use":
                self._record.open(key, ToolCall(id=wire["id"], name=wire["name"], arguments={}))
            case _:
                self._record.open(key, OpaqueBlock(dialect=API, value=wire))

    def _delta(self, key: Any, delta: dict[str, Any]) -> None:
        kind = delta["type"]
        field = _STREAMED.get(kind)
        if key not in self._blocks:  # an upstream that skipped the start of the block
            self._open({"index": key, "content_block": _UNOPENED.get(kind, {"type": "unknown"})})
        if field is not None:
            self._record.delta(key, delta[field])
            if kind == "input_json_delta":
                self._blocks[key].setdefault(_PIECES, []).append(delta[field] or "")
        elif kind == "citations_delta":
            self._blocks[key]["citations"] = [*(self._blocks[key].get("citations") or ()), delta["citation"]]
        else:
            _merge(self._blocks[key], delta)

    def _close(self, event: dict[str, Any]) -> None:
        key = event["index"]
        if key in self._blocks:
            self._record.close(key, self._finished(key, self._blocks.pop(key)))

    def _finished(self, key: Any, wire: dict[str, Any]) -> Block:
        """The block, read from what the whole answer would have shown."""
        pieces = wire.pop(_PIECES, None)
        if wire["type"] == "text":
            wire["text"] = self._record.text(key)
        elif wire["type"] == "thinking":
            wire["thinking"] = self._record.text(key)
        elif pieces is not None:
            arguments, text, broken = parse_arguments("".join(pieces))
            if broken is not None:
                block = decode_block({**wire, "input": {}})
                return replace(block, arguments_text=text, parse_error=broken) if isinstance(block, ToolCall) else block
            wire["input"] = arguments or wire.get("input", {})
        return decode_block(wire)

    def _message_delta(self, event: dict[str, Any]) -> None:
        self._shell.update(event["delta"])
        for key, value in event.items():
            if key == "usage":
                before = self._shell.get("usage") or {}  # proxies send null for what they lack: that unsays nothing
                told = {k: v for k, v in (value or {}).items() if v is not None or k not in before}
                self._shell["usage"] = {**before, **told}
            elif key not in ("type", "delta"):
                self._shell[key] = value
        self._record.note(usage=_decode_usage(self._shell.get("usage")))

    def _stop(self, event: dict[str, Any]) -> None:
        self._finish()

    def _finish(self) -> None:
        self._close_blocks()
        content = tuple(self._record.content)
        self._record.end(_decode_answer({**self._shell, "content": []}, content, self._given))

    def _failed(self, event: dict[str, Any]) -> None:
        error = decode_error(0, event)
        self._fail(error.message, detail=error.code)

    def _close_blocks(self) -> None:
        for key in list(self._blocks):
            self._close({"index": key})


_PIECES = "~pieces"  # argument text so far, beside the keys of an open block
_STREAMED = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_UNOPENED = {
    "text_delta": {"type": "text", "text": ""},
    "citations_delta": {"type": "text", "text": ""},
    "thinking_delta": {"type": "thinking", "thinking": ""},
    "signature_delta": {"type": "thinking", "thinking": ""},
    "input_json_delta": {"type": "tool_use", "id": "", "name": "", "input": {}},
}
_HANDLERS = {
    "message_start": StreamDecoder._start,
    "content_block_start": StreamDecoder._open,
    "content_block_stop": StreamDecoder._close,
    "message_delta": StreamDecoder._message_delta,
    "message_stop": StreamDecoder._stop,
    "error": StreamDecoder._failed,
}


def _merge(wire: dict[str, Any], delta: dict[str, Any]) -> None:
    """A delta of a kind not modelled: strings grow, everything else is set."""
    for key, value in delta.items():
        if key == "type":
            continue
        before = wire.get(key)
        wire[key] = before + value if isinstance(before, str) and isinstance(value, str) else value


class StreamEncoder:
    """Events to the bytes of a streamed answer. Blocks that this wire cannot say leave no gap in its indices."""

    def __init__(self, *, request: Request | None = None, quirks: Mapping[str, Any] | None = None) -> None:
        self._closed = False
        self._told: dict[str, Any] = {}  # the envelope that the first event showed
        self._opened = 0
        self._places: dict[int, int] = {}  # our index of an open block -> the wire's
        # Thinking that has begun and is not opened yet: only its first words, or its end, tell that it is not redacted.
        self._waiting: dict[int, bool] = {}

    def feed(self, event: StreamEvent) -> bytes:
        if self._closed:
            return b""
        match event:
            case TextDelta():
                return _delta(self._places[event.content_index], {"type": "text_delta", "text": event.delta})
            case ThinkingDelta():
                return self._thought(event.content_index, {"type": "thinking_delta", "thinking": event.delta})
            case ToolCallDelta():
                place = self._places[event.content_index]
                return _delta(place, {"type": "input_json_delta", "partial_json": event.delta})
            case Start():
                self._told = _first(event.partial)
                return _event({"type": "message_start", "message": self._told})
            case TextStart():
                return self._open(event.content_index, {"type": "text", "text": ""})
            case ThinkingStart():
                self._waiting[event.content_index] = bool(event.block and event.block.redacted)
                return b""
            case ToolCallStart():
                call = event.block or ToolCall(id="", name="", arguments={})
                return self._open(
                    event.content_index, {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
                )
            case TextEnd() | ThinkingEnd() | BlockEnd():
                return self._close(event.content_index, event.block, whole=isinstance(event, BlockEnd))
            case ToolCallEnd():
                return self._close(event.content_index, event.tool_call)
            case Done():
                self._closed = True
                return _last(event.message, self._told)
            case Error() if STOP_REASONS.get(event.error.stop_detail or "") == "error":
                self._closed = True  # the model refused: an answer of this wire, not a failure of the stream
                return _last(event.error, self._told)
            case Error():
                self._closed = True
                return _event(
                    {"type": "error", "error": {"type": "api_error", "message": event.error.error_message or ""}}
                )
            case _:
                return b""

    def close(self) -> bytes:
        """Nothing is owed after the terminal event; a stream without one is cut off, and says so."""
        if self._closed:
            return b""
        self._closed = True
        return _event({"type": "error", "error": {"type": "api_error", "message": CUT_OFF}})

    def _open(self, index: int, block: dict[str, Any]) -> bytes:
        place = self._places[index] = self._opened
        self._opened += 1
        return _event({"type": "content_block_start", "index": place, "content_block": block})

    def _thought(self, index: int, delta: dict[str, Any]) -> bytes:
        redacted = self._waiting.get(index)
        if redacted is None:
            return _delta(self._places[index], delta)
        if redacted:  # said whole at its end
            return b""
        del self._waiting[index]
        return self._open(index, _THINKING) + _delta(self._places[index], delta)

    def _close(self, index: int, block: Block | None, *, whole: bool = False) -> bytes:
        """The end of a block, after whatever the deltas could not say."""
        wire = encode_block(block, QUIET) if block is not None else {}
        before = b""
        if whole or (isinstance(block, ThinkingBlock) and block.redacted):
            if index in self._places:  # it looked like another kind of block
                before = _stop(self._places.pop(index))
            if wire is None:
                return before
            before += self._open(index, wire)
        elif self._waiting.pop(index, None) is not None:
            before = self._open(index, _THINKING) + _rest(self._places[index], wire or {})
        else:
            before = _rest(self._places[index], wire or {})
        return before + _stop(self._places.pop(index))


_THINKING = {"type": "thinking", "thinking": "", "signature": ""}
_SAID = frozenset({"type", "text", "thinking", "id", "name", "input"})


def _event(value: dict[str, Any]) -> bytes:
    return write_sse(jsontext.write(value), value["type"])


def _delta(place: int, delta: dict[str, Any]) -> bytes:
    return _event({"type": "content_block_delta", "index": place, "delta": delta})


def _stop(place: int) -> bytes:
    return _event({"type": "content_block_stop", "index": place})


def _rest(place: int, wire: dict[str, Any]) -> bytes:
    """What a finished block says beyond its text or arguments."""
    rest = {k: v for k, v in wire.items() if k not in _SAID}
    said = b""
    for citation in rest.pop("citations", None) or ():
        said += _delta(place, {"type": "citations_delta", "citation": citation})
    if "signature" in rest:
        said += _delta(place, {"type": "signature_delta", "signature": rest.pop("signature")})
    if rest:
        said += _delta(place, {"type": "block_delta", **rest})
    return said


def _first(partial: AssistantMessage | None) -> dict[str, Any]:
    message = partial or AssistantMessage(content=())
    return _whole_answer(message, []) | {"stop_reason": None}


def _last(message: AssistantMessage, told: dict[str, Any]) -> bytes:
    """The end of the answer: what its first event did not show yet."""
    whole = _whole_answer(message, [])
    delta = {k: v for k, v in whole.items() if k != "usage" and (k in _AT_THE_END or k not in told or told[k] != v)}
    return _event({"type": "message_delta", "delta": delta, "usage": whole.get("usage")}) + _event(
        {"type": "message_stop"}
    )


_AT_THE_END = ("stop_reason", "stop_sequence")


# --- errors, path, conversations -------------------------------------------------------------------------------------


def decode_error(status: int, body: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    """An error answer, or the error event of a stream (status 0)."""
    wire = lenient(body)
    error = wire.get("error") if isinstance(wire, dict) else None
    if not isinstance(error, dict):
        error = wire if isinstance(wire, dict) else {"message": wire}
    message = error.get("message")
    return provider_error(
        message if isinstance(message, str) else jsontext.compact(wire) if wire else "",
        status=status,
        code=optional(error.get("type")),
        headers=headers,
        body=wire,
    )


ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    529: "overloaded_error",
}


def encode_error(error: ProviderError) -> tuple[int, Any]:
    status = status_of(error)
    kind = ERROR_TYPES.get(status, "api_error")
    return status, {"type": "error", "error": {"type": kind, "message": error.message}}


def path(model: str, stream: bool, *, quirks: Mapping[str, Any] | None = None) -> str:
    if quirks and quirks.get("hosted"):
        return f"/model/{quote(model, safe='')}/invoke{'-with-response-stream' if stream else ''}"
    return "/v1/messages"


def decode(data: Any, *, quirks: Mapping[str, Any] | None = None) -> Conversation:
    return decode_conversation(data, API, lambda body: decode_request(body, quirks=quirks), "messages")


def encode(conversation: Conversation, *, quirks: Mapping[str, Any] | None = None) -> Encoded:
    return encode_conversation(conversation, API, lambda request: encode_request(request, quirks=quirks), "messages")


# --- the same bodies in AWS frames -----------------------------------------------------------------------------------


class _AWSChunks:
    """AWS frames whose payload holds the wire's own event, in base64 under `bytes`."""

    def __init__(self) -> None:
        self._frames = AWSEventStream()

    def feed(self, chunk: bytes) -> list[Frame]:
        return [_unchunked(frame) for frame in self._frames.feed(chunk)]

    def close(self) -> list[Frame]:
        return [_unchunked(frame) for frame in self._frames.close()]


def _unchunked(frame: Frame) -> Frame:
    try:
        payload = jsontext.read(frame.data)
        if "bytes" in payload:
            return Frame(base64.b64decode(payload["bytes"]))
        message = payload.get("message") or frame.event
    except (FormatError, TypeError, AttributeError, ValueError) as error:
        raise BadWire(API, f"an AWS frame without a chunk of the answer: {error}") from None
    return Frame(jsontext.write({"type": "error", "error": {"type": frame.event, "message": message}}))


def _chunked(frame: Frame) -> bytes:
    return write_aws("chunk", jsontext.write({"bytes": base64.b64encode(frame.data).decode()}))


BEDROCK = Variant(
    sys.modules[__name__],
    "bedrock-invoke-anthropic",
    quirks={"hosted": True, "version": "bedrock-2023-05-31"},
    framing=lambda content_type: SSE() if content_type == "text/event-stream" else _AWSChunks(),
    reframe=_chunked,
)
