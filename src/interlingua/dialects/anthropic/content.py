"""Content blocks and messages: decoding and encoding."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from ...values.errors import BadWire
from ...values.losses import QUIET, Reporter
from ...values.messages import (
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
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
)
from ..codec import ANSWER, USER
from ..residual import (
    an_object,
    boolean,
    decode_typed,
    each,
    encode_blocks,
    given_arguments,
    keeping,
    media_type,
    optional,
    put_back,
    residual,
    residual_of,
    restored,
    string,
)
from ..results import add_result, add_user, is_tool_result, mark_joined, split_results
from .facts import API

# --- wire to ours ----------------------------------------------------------------------------------------------------


def decode_block(wire: Any) -> Block:
    """Decodes a content block; an unknown or malformed one becomes an opaque block."""
    if type(wire) is dict:  # fast path: most are plain text and calls, without a residual
        kind, size = wire.get("type"), len(wire)
        if kind == "text":
            if size == 2 and type(wire.get("text")) is str:
                return TextBlock(text=wire["text"])
        elif kind == "tool_use" and size == 4 and type(wire.get("input")) is dict:
            id, name = wire.get("id"), wire.get("name")
            if type(id) is str and type(name) is str:
                return ToolCall(id=id, name=name, arguments=wire["input"])
    kind = wire.get("type") if isinstance(wire, dict) else None
    # Each server tool has a result type of its own, `web_search_tool_result`, `bash_code_execution_tool_result` …
    # (platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools): the name is the type without this end.
    if isinstance(kind, str) and kind.endswith("_tool_result"):  # of any tool that the provider runs
        return decode_typed(wire, {kind: _decode_server_result}, encode_block, API)
    return decode_typed(wire, _DECODERS, encode_block, API)


def _decode_text(wire: dict[str, Any]) -> TextBlock:
    citations = wire.get("citations")
    return TextBlock(
        text=string(wire["text"]),
        citations=tuple(map(_decode_citation, citations)) if citations else (),
        cache=decode_cache(wire),
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
    # …/build-with-claude/citations: `char_location`, `page_location` and `content_block_location` refer to a document
    # of the request by `document_title`; search results have a `title`.
    return "title" if kind in ("web_search_result_location", "search_result_location") else "document_title"


def _decode_thinking(wire: dict[str, Any]) -> ThinkingBlock:
    return ThinkingBlock(thinking=string(wire["thinking"]), thinking_signature=optional(wire.get("signature")))


# …/build-with-claude/thinking: `data` is encrypted; it is sent back unchanged to continue the turn.
def decode_redacted(wire: dict[str, Any]) -> ThinkingBlock:
    return ThinkingBlock(thinking="", thinking_signature=string(wire["data"]), redacted=True)


def _decode_image(wire: dict[str, Any]) -> ImageBlock:
    return ImageBlock(**_decode_source(wire["source"]), cache=decode_cache(wire))


def _decode_document(wire: dict[str, Any]) -> DocumentBlock:
    citations = wire.get("citations")
    return DocumentBlock(
        **_decode_source(wire["source"]),
        title=optional(wire.get("title")),
        context=optional(wire.get("context")),
        citations=boolean(citations["enabled"]) if citations else None,
        cache=decode_cache(wire),
    )


def _decode_source(source: dict[str, Any]) -> dict[str, Any]:
    match source["type"]:
        case "base64":
            return {"data": string(source["data"]), "mime_type": media_type(source.get("media_type"))}
        # …/build-with-claude/citations: `text` is a plain text document, with the text itself in `data`.
        case "text":
            return {"text": string(source["data"]), "mime_type": media_type(source.get("media_type"))}
        case "url":
            return {"url": string(source["url"])}
        case "file":
            return {"file_id": string(source["file_id"])}
        case kind:
            raise ValueError(kind)


def _decode_tool_use(wire: dict[str, Any]) -> ToolCall:
    arguments = given_arguments(wire["input"])
    return ToolCall(id=string(wire["id"]), name=string(wire["name"]), **arguments, cache=decode_cache(wire))


def _decode_server_use(wire: dict[str, Any]) -> ServerToolCall:
    return ServerToolCall(
        id=string(wire["id"]), name=string(wire["name"]), arguments=wire["input"], cache=decode_cache(wire)
    )


def _decode_server_result(wire: dict[str, Any]) -> ServerToolResult:
    return ServerToolResult(
        tool_call_id=string(wire["tool_use_id"]),
        tool_name=wire["type"].removesuffix("_tool_result"),
        dialect=API,
        content=wire["content"],
        is_error=boolean(wire.get("is_error", False)),
        cache=decode_cache(wire),
    )


_DECODERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "text": _decode_text,
    "thinking": _decode_thinking,
    "redacted_thinking": decode_redacted,
    "image": _decode_image,
    "document": _decode_document,
    "tool_use": _decode_tool_use,
    "server_tool_use": _decode_server_use,
    "mcp_tool_use": _decode_server_use,
}


def decode_cache(wire: Mapping[str, Any]) -> CacheMarker | None:
    marker = wire.get("cache_control")
    if not isinstance(marker, dict):
        return None
    cache = CacheMarker(ttl=optional(marker.get("ttl")))
    return keeping(cache, API, marker, encode_cache(cache))


# --- ours to wire ----------------------------------------------------------------------------------------------------


def encode_block(block: Block, report: Reporter) -> dict[str, Any] | None:
    """Encodes a block; None, with a report, if the wire has no such block."""
    wire: dict[str, Any]
    # Nearly every block is one of the first three. Comparing types takes half the time of `match`, which would take
    # longer than all the rest.
    if type(block) is TextBlock:
        wire = {"type": "text", "text": block.text}
        if block.citations and (citations := _encode_citations(block.citations, report)):
            wire["citations"] = citations
    elif type(block) is ToolCall:
        wire = {"type": "tool_use", "id": block.id, "name": block.name, "input": block.arguments}
    # `redacted_thinking` requires `data`; without it there is nothing that the API accepts.
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
        report.lost(type(block).__name__, "this wire has no such block")
        return None
    if block.cache is not None:
        wire["cache_control"] = encode_cache(block.cache)
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
        # Citations refer to documents of the request or to encrypted search results.
        report.lost("citations", "only citations of this wire can return to it", field="citations")
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
    """The source of a block: the first of text, data, URL and file that is set; None if none is."""
    text = block.text if isinstance(block, DocumentBlock) else None
    given = (("text", text), ("data", block.data), ("url", block.url), ("file_id", block.file_id))
    reported = [(name, value) for name, value in given if value is not None]
    if not reported:
        return None
    (name, value), *others = reported
    for other, _ in others:
        report.lost(other, "a block has one source", field="fileId" if other == "file_id" else other)
    if name == "text":
        if block.mime_type is None:
            report.lost("mime_type", "text without a type is sent as plain text", "record", field="mimeType")
        # The only media type of a `text` source is `text/plain` (…/api/messages).
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


# …/build-with-claude/prompt-caching: `ephemeral` is the only type; without `ttl` an entry lives for 5 minutes, `1h`
# costs more.
def encode_cache(cache: CacheMarker) -> dict[str, Any]:
    wire = {"type": "ephemeral"}
    if cache.ttl is not None:
        wire["ttl"] = cache.ttl
    return restored(wire, cache.extra, API)


def encode_content(content: Content, report: Reporter) -> Any:
    if content is None or isinstance(content, str):
        return content
    return encode_blocks(content, encode_block, report, API)


def decode_content(content: Any) -> Content:
    if content is None or isinstance(content, str):
        return content
    return tuple(each(content, "content", API, decode_block))


# --- messages --------------------------------------------------------------------------------------------------------


def decode_messages(wire: Any, api: str = API) -> tuple[Message, ...]:
    """Decodes messages; a user message with tool results becomes several. `api` is set on the answers."""
    names: dict[str, str] = {}  # call id -> tool name; a repeated id refers to the latest call
    groups = each(wire, "messages", API, lambda message: _decode_message(message, names, api))
    return tuple(message for group in groups for message in group)


def _decode_message(wire: Any, names: dict[str, str], api: str) -> list[Message]:
    role = an_object(wire, API).get("role")
    content = wire.get("content")
    if type(content) is str and len(wire) == 2 and role in ("user", "assistant"):
        return [
            replace(USER, extra={}, content=content)
            if role == "user"
            else replace(ANSWER, extra={}, content=content, api=api)
        ]
    if role == "user":
        return _decode_user(wire, content, names)
    if role == "assistant":
        blocks = decode_content(content)
        message = replace(ANSWER, extra={}, content=blocks, api=api)
        usual = len(wire) == 2 and type(blocks) is tuple
        for block in blocks if type(blocks) is tuple else ():
            if type(block) is ToolCall:
                names[block.id] = block.name
                usual = usual and not block.extra
            else:
                usual = usual and type(block) is TextBlock and not block.extra
        if usual:  # plain text and calls have no residual
            return [message]
        return [keeping(message, API, wire, _encode_message("assistant", message, QUIET))]
    # …/api/messages, `messages`: a system message may follow others; the system prompt itself is the field `system`.
    if role == "system":
        system = SystemMessage(content=decode_content(content))
        return [keeping(system, API, wire, _encode_message("system", system, QUIET))]
    if not isinstance(role, str):
        raise BadWire(API, "message without a role; expected user, assistant or system", "$.role")
    return [CustomMessage(role, {k: v for k, v in wire.items() if k != "role"})]  # type: ignore[list-item]


def _decode_user(wire: dict[str, Any], content: Any, names: dict[str, str]) -> list[Message]:
    if not isinstance(content, list) or not any(is_tool_result(block) for block in content):
        user = replace(USER, extra={}, content=decode_content(content))
        if len(wire) == 2 and user.content and all(type(b) is TextBlock and not b.extra for b in user.content):
            return [user]
        return [keeping(user, API, wire, _encode_message("user", user, QUIET))]
    pieces = split_results(content, is_tool_result, lambda block: _decode_result(block, names), decode_block)
    # The first result is always marked, as if results came before it.
    return mark_joined(pieces, residual(wire, {"role": "user", "content": content}), pieces[0], API)


def _decode_result(wire: dict[str, Any], names: dict[str, str]) -> ToolResultMessage:
    result = ToolResultMessage(
        tool_call_id=wire["tool_use_id"],
        tool_name=names.get(wire["tool_use_id"]),
        content=decode_content(wire.get("content")),
        is_error=wire.get("is_error", False),
        cache=decode_cache(wire),
    )
    if len(wire) == 3 and type(result.content) is str:
        return result  # no residual
    return keeping(result, API, wire, _encode_result(result, QUIET))


def encode_messages(messages: tuple[Message, ...], report: Reporter) -> list[dict[str, Any]]:
    """Encodes messages. All results of a turn must be in one user message, right after the calls:

    docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use, Handling tool results.
    """
    encoded: list[dict[str, Any]] = []
    before: Message | None = None
    names: dict[str, str] = {}
    for at, message in enumerate(messages):
        report.message = at
        if type(message) is AssistantMessage:
            encoded.append(_encode_message("assistant", message, report))
            for block in blocks_of(message.content):
                if type(block) is ToolCall:
                    names[block.id] = block.name
        elif type(message) is ToolResultMessage:
            if message.tool_name is not None and names.get(message.tool_call_id) != message.tool_name:
                report.lost("tool_name", "the wire knows only the name of the call", "record", field="toolName")
            add_result(encoded, [_encode_result(message, report)], residual_of(message.extra, API), before)
        elif type(message) is UserMessage:
            wire = _encode_message("user", message, report)
            if message.extra:
                add_user(encoded, wire, residual_of(message.extra, API), before)
            else:
                encoded.append(wire)
        elif isinstance(message, SystemMessage):
            encoded.append(_encode_message("system", message, report))
        elif isinstance(
            message, CustomMessage
        ):  # an unknown role of this wire; those of others are reported by the table
            encoded.append({"role": message.role, **message.fields})
        before = message
    return encoded


def _encode_message(
    role: str, message: UserMessage | AssistantMessage | SystemMessage, report: Reporter
) -> dict[str, Any]:
    encoded = {"role": role, "content": encode_content(message.content, report)}
    return restored(encoded, message.extra, API) if message.extra else encoded


def _encode_result(result: ToolResultMessage, report: Reporter) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.tool_call_id}
    if result.content is not None:
        wire["content"] = encode_content(result.content, report)
    if result.is_error:
        wire["is_error"] = True
    if result.cache is not None:
        wire["cache_control"] = encode_cache(result.cache)
    return restored(wire, result.extra, API) if result.extra else wire
