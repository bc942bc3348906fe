"""Content blocks and messages: decoding and encoding. API_runtime_ContentBlock.html in the Bedrock API reference."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import BadWire, FormatError
from ...values.losses import QUIET, Reporter
from ...values.messages import (
    AssistantMessage,
    AudioBlock,
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
)
from ..codec import ANSWER, USER
from ..residual import (
    an_object,
    boolean,
    each,
    fields_of,
    given_arguments,
    keeping,
    optional,
    put_back,
    residual,
    residual_of,
    restored,
    string,
    with_residual,
)
from ..results import add_result, add_user, mark_joined
from .facts import ALIASES, API, CITED, DOCUMENTS, GUARDED, IMAGES, JSON, PIECES, SOUNDS, STRING, VIDEOS

# --- wire to ours ----------------------------------------------------------------------------------------------------


def decode_block(wire: Any) -> Block:
    """Decodes a content block; an unknown or malformed one becomes an opaque block."""
    return _decode_block(wire, _DECODERS, encode_block)


def decode_result_block(wire: Any) -> Block:
    return _decode_block(wire, _RESULT_DECODERS, _encode_result_block)


def _decode_block(
    wire: Any,
    decoders: Mapping[str, Callable[[dict[str, Any]], Any]],
    encode: Callable[[Any, Reporter], dict[str, Any] | None],
) -> Block:
    if len(an_object(wire, API)) == 1 and type(wire.get("text")) is str and "text" in decoders:
        return TextBlock(text=wire["text"])  # the usual text has no residual
    # ContentBlock is a union: one key, which is the kind, and no `type`.
    kind = next((key for key in wire if key in decoders), "")
    try:
        block: Block = decoders[kind](wire)
        encoded = encode(block, QUIET)
        if encoded is not None:
            return keeping(block, API, wire, encoded)
    except (KeyError, TypeError, ValueError, AttributeError, FormatError):
        pass
    return OpaqueBlock(dialect=API, value=wire)


def _decode_text(wire: dict[str, Any]) -> TextBlock:
    return TextBlock(text=string(wire["text"]))


def _decode_cited(wire: dict[str, Any]) -> TextBlock:
    # API_runtime_CitationsContentBlock.html: the generated text and its sources, both as lists.
    given = wire["citationsContent"]
    text, lengths = _joined(given.get("content", []))
    block = TextBlock(text=text, citations=tuple(map(_decode_citation, given.get("citations", []))))
    usual = bool(block.citations) and len(lengths) == 1
    return block if usual else with_residual(block, API, **{CITED: lengths})


def _decode_citation(wire: dict[str, Any]) -> Citation:
    web = fields_of(fields_of(wire.get("location")).get("web"))
    citation = Citation(title=optional(wire.get("title")), url=optional(web.get("url")))
    if "sourceContent" in wire:
        text, lengths = _joined(wire["sourceContent"])
        citation = replace(citation, cited_text=text)
        if len(lengths) != 1:
            citation = with_residual(citation, API, **{PIECES: lengths})
    return keeping(citation, API, wire, _encode_citation(citation))


def _joined(pieces: Any) -> tuple[str, list[int]]:
    """A list of texts joined, and the length of each."""
    texts = [_only_text(piece) for piece in pieces]
    return "".join(texts), [len(text) for text in texts]


def _only_text(wire: dict[str, Any]) -> str:
    if wire.keys() != {"text"}:
        raise ValueError("more than a text")
    return string(wire["text"])


def _decode_guarded(wire: dict[str, Any]) -> TextBlock:
    return TextBlock(text=string(wire["guardContent"]["text"]["text"]), extra={API: {GUARDED: True}})


def _decode_json(wire: dict[str, Any]) -> TextBlock:
    return TextBlock(text=jsontext.compact(wire["json"]), extra={API: {JSON: True}})


def _decode_reasoning(wire: dict[str, Any]) -> ThinkingBlock:
    given = wire["reasoningContent"]
    # API_runtime_ReasoningContentBlock.html: encrypted by the provider of the model, a blob.
    if "redactedContent" in given:
        return ThinkingBlock(thinking="", thinking_signature=string(given["redactedContent"]), redacted=True)
    provided = given["reasoningText"]
    return ThinkingBlock(thinking=string(provided["text"]), thinking_signature=optional(provided.get("signature")))


def _decode_image(wire: dict[str, Any]) -> ImageBlock:
    return ImageBlock(**_decode_media(wire["image"], IMAGES))


def _decode_audio(wire: dict[str, Any]) -> AudioBlock:
    return AudioBlock(**_decode_media(wire["audio"], SOUNDS))


def _decode_video(wire: dict[str, Any]) -> DocumentBlock:
    return DocumentBlock(**_decode_media(wire["video"], VIDEOS))


def _decode_document(wire: dict[str, Any]) -> DocumentBlock:
    given = wire["document"]
    source, citations = given["source"], given.get("citations")
    lengths = None
    if "text" in source:
        encoded: dict[str, Any] = {"text": string(source["text"]), "mime_type": _mime_of(given, DOCUMENTS)}
    elif "content" in source:
        text, lengths = _joined(source["content"])
        encoded = {"text": text, "mime_type": _mime_of(given, DOCUMENTS)}
    else:
        encoded = _decode_media(given, DOCUMENTS)
    block = DocumentBlock(
        **encoded,
        title=optional(given.get("name")),
        context=optional(given.get("context")),
        citations=boolean(citations["enabled"]) if citations else None,
    )
    return block if lengths is None else with_residual(block, API, **{PIECES: lengths})


def _decode_media(wire: dict[str, Any], formats: Mapping[str, str]) -> dict[str, Any]:
    source, mime = wire["source"], _mime_of(wire, formats)
    # `bytes` is a blob, base64 in JSON; the other source is an object in S3 (API_runtime_ImageSource.html).
    if "bytes" in source:
        return {"data": string(source["bytes"]), "mime_type": mime}
    return {"url": string(source["s3Location"]["uri"]), "mime_type": mime}


def _mime_of(wire: dict[str, Any], formats: Mapping[str, str]) -> str | None:
    # API_runtime_DocumentBlock.html: only here is `format` optional.
    return formats[wire["format"]] if "format" in wire else None


def _decode_tool_use(wire: dict[str, Any]) -> ToolCall | ServerToolCall:
    given = wire["toolUse"]
    id, name, arguments = string(given["toolUseId"]), string(given["name"]), given.get("input", {})
    # API_runtime_ToolUseBlock.html: `type` is `server_tool_use` for a tool that runs at the provider, else absent.
    if given.get("type") == SERVER:
        return ServerToolCall(id=id, name=name, arguments=arguments)
    return ToolCall(id=id, name=name, **given_arguments(arguments))


SERVER = "server_tool_use"


def _decode_server_result(wire: dict[str, Any]) -> ServerToolResult:
    given = wire["toolResult"]
    return ServerToolResult(
        tool_call_id=string(given["toolUseId"]),
        tool_name=string(given.get("type", "")).removesuffix(_RESULT),
        dialect=API,
        content=given.get("content"),
        is_error=given.get("status") == "error",
    )


_RESULT = "_result"
_DECODERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "text": _decode_text,
    "toolUse": _decode_tool_use,
    "reasoningContent": _decode_reasoning,
    "image": _decode_image,
    "document": _decode_document,
    "video": _decode_video,
    "audio": _decode_audio,
    "citationsContent": _decode_cited,
    "guardContent": _decode_guarded,
    "toolResult": _decode_server_result,
}
_RESULT_DECODERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "text": _decode_text,
    "json": _decode_json,
    "image": _decode_image,
    "document": _decode_document,
    "video": _decode_video,
}


# API_runtime_CachePointBlock.html: a cache point is a block of its own, after what it ends.
def decode_cache(wire: Any) -> CacheMarker | None:
    """The marker, if the block is a cache point."""
    if not isinstance(wire, dict) or wire.keys() != {"cachePoint"} or not isinstance(wire["cachePoint"], dict):
        return None
    point = wire["cachePoint"]
    cache = CacheMarker(ttl=optional(point.get("ttl")))
    return keeping(cache, API, point, encode_cache(cache)["cachePoint"])


def takes_cache(value: Any) -> bool:
    """Whether a value can get the cache point after it: it has the field, and no marker yet."""
    return getattr(value, "cache", value) is None


def decode_content(content: Any) -> Content:
    if content is None or isinstance(content, str):
        return content
    return tuple(with_points(content, decode_block))


def with_points(wire: Any, decode: Callable[[Any], Block]) -> list[Block]:
    """The blocks of a list, each with the cache point that follows it."""
    blocks: list[Block] = []

    def read(item: Any) -> None:
        cache = decode_cache(item)
        if cache is not None and blocks and takes_cache(blocks[-1]):
            blocks[-1] = replace(blocks[-1], cache=cache)
        else:
            blocks.append(decode(item))

    each(wire, "content", API, read)
    return blocks


# --- ours to wire ----------------------------------------------------------------------------------------------------


def encode_block(block: Block, report: Reporter) -> dict[str, Any] | None:
    """Encodes a block without its cache point; None, with a report, if the wire has no such block."""
    wire: dict[str, Any] | None
    match block:
        case TextBlock():
            if not block.extra and not block.citations:
                return {"text": block.text}
            wire = _encode_text(block, report)
        case ToolCall():
            wire = {"toolUse": {"toolUseId": block.id, "name": block.name, "input": block.arguments}}
        case ThinkingBlock():
            wire = _encode_thinking(block, report)
        case ImageBlock():
            wire = _encode_media("image", block, IMAGES, report)
        case DocumentBlock():
            wire = _encode_document(block, report)
        case AudioBlock():
            wire = _encode_media("audio", block, SOUNDS, report)
        case ServerToolCall():
            use = {"toolUseId": block.id, "name": block.name, "input": block.arguments, "type": SERVER}
            wire = {"toolUse": use}
        case ServerToolResult() if block.dialect == API:
            wire = {"toolResult": _encode_server_result(block)}
        case OpaqueBlock() if block.dialect == API:
            return block.value  # type: ignore[no-any-return]
        case _:
            report.lost(type(block).__name__, "this wire has no such block")
            return None
    return wire if wire is None or not block.extra else restored(wire, block.extra, API)


def _encode_text(block: TextBlock, report: Reporter) -> dict[str, Any]:
    residual = residual_of(block.extra, API)
    if residual.get(GUARDED):
        if block.citations:
            report.lost("citations", "guarded text has none", field="citations")
        return {"guardContent": {"text": {"text": block.text}}}
    if block.citations or CITED in residual:
        content = _split_joined(block.text, residual.get(CITED))
        return {"citationsContent": {"content": content, "citations": list(map(_encode_citation, block.citations))}}
    return {"text": block.text}


def _encode_citation(citation: Citation) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    if citation.title is not None:
        wire["title"] = citation.title
    if citation.cited_text is not None:
        wire["sourceContent"] = _split_joined(citation.cited_text, residual_of(citation.extra, API).get(PIECES))
    if citation.url is not None:
        wire["location"] = {"web": {"url": citation.url}}
    return restored(wire, citation.extra, API)


def _split_joined(text: str, lengths: list[int] | None) -> list[dict[str, Any]]:
    """The inverse of `_joined`, if the lengths still match the text."""
    if lengths is None or sum(lengths) != len(text):
        return [{"text": text}]
    pieces, at = [], 0
    for length in lengths:
        pieces.append({"text": text[at : at + length]})
        at += length
    return pieces


def _encode_thinking(block: ThinkingBlock, report: Reporter) -> dict[str, Any] | None:
    if not block.redacted:
        fields = {"text": block.thinking}
        if block.thinking_signature is not None:
            fields["signature"] = block.thinking_signature
        return {"reasoningContent": {"reasoningText": fields}}
    if block.thinking_signature is None:
        report.lost("thinking", "redacted thinking without its sealed payload")
        return None
    if block.thinking:
        report.lost("thinking", "redacted thinking has no text", field="thinking")
    return {"reasoningContent": {"redactedContent": block.thinking_signature}}


def _encode_document(block: DocumentBlock, report: Reporter) -> dict[str, Any] | None:
    if block.mime_type is not None and block.mime_type.startswith("video/"):
        wire = _encode_media("video", block, VIDEOS, report)
        for field in ("title", "context", "citations") if wire is not None else ():
            if getattr(block, field) is not None:
                report.lost(field, "a video has none", field=field)
        return wire
    wire = _encode_media("document", block, DOCUMENTS, report)
    if wire is None:
        return None
    inner = wire["document"]
    # API_runtime_DocumentBlock.html: `name` is required, of letters, digits, spaces, hyphens, parentheses and brackets;
    # `adapt` makes one.
    if block.title is not None:
        inner["name"] = block.title
    if block.context is not None:
        inner["context"] = block.context
    if block.citations is not None:
        inner["citations"] = {"enabled": block.citations}
    return wire


def _encode_media(
    kind: str, block: ImageBlock | AudioBlock | DocumentBlock, formats: Mapping[str, str], report: Reporter
) -> dict[str, Any] | None:
    """A file under the format name of its MIME type; only documents may have none."""
    mime, name = block.mime_type, None
    if mime is not None:
        name = _format_of(mime, formats)
        if name is None and kind != "document":
            report.lost(kind, f"{mime} has no value in this wire; it takes {', '.join(formats)}")
            return None
    source = _encode_source(kind, block, report)
    if source is None:
        return None
    if mime is not None and (name is None or formats[name] != mime):
        report.lost("mime_type", f"sent as {name or 'nothing'}", "weakened", field="mimeType")
    return {kind: {"format": name, "source": source} if name is not None else {"source": source}}


def _format_of(mime: str, formats: Mapping[str, str]) -> str | None:
    bare = mime.partition(";")[0].strip().lower()
    meant = (bare, ALIASES.get(bare, bare))
    for name, known in formats.items():
        if known in meant:
            return name
    # Text of any other type is read as plain text.
    return "txt" if formats is DOCUMENTS and bare.startswith("text/") else None


def _encode_source(
    kind: str, block: ImageBlock | AudioBlock | DocumentBlock, report: Reporter
) -> dict[str, Any] | None:
    text = block.text if isinstance(block, DocumentBlock) else None
    # Bedrock fetches nothing from the web.
    url = block.url if block.url is not None and block.url.startswith("s3://") else None
    encoded: dict[str, Any]
    if block.data is not None:
        encoded, used = {"bytes": block.data}, "data"
    elif text is not None and kind == "document":
        lengths = residual_of(block.extra, API).get(PIECES)
        # API_runtime_DocumentSource.html: `text`, or `content` as a list of texts, the unit of citations.
        encoded, used = ({"text": text} if lengths is None else {"content": _split_joined(text, lengths)}), "text"
    elif url is not None:
        encoded, used = {"s3Location": {"uri": url}}, "url"
    else:
        report.lost(kind, "this wire takes bytes or an S3 location")
        return None
    given = {"text": text, "url": block.url, "fileId": block.file_id}
    for field, value in given.items():
        if value is not None and field != used:
            report.lost(field, "one source is enough", field=field)
    return encoded


def _encode_server_result(block: ServerToolResult) -> dict[str, Any]:
    wire: dict[str, Any] = {"toolUseId": block.tool_call_id}
    if block.content is not None:
        wire["content"] = block.content
    wire["type"] = block.tool_name + _RESULT
    if block.is_error:
        wire["status"] = "error"
    return wire


def encode_cache(cache: CacheMarker) -> dict[str, Any]:
    wire = {"type": "default"}
    if cache.ttl is not None:
        wire["ttl"] = cache.ttl
    return {"cachePoint": restored(wire, cache.extra, API)}


def encode_content(content: Content, report: Reporter, *, points: bool = True) -> list[Any]:
    if not isinstance(content, tuple):
        report.lost("content", "content is a list of blocks in this wire", "record", field="content")
        return [] if content is None else [{"text": content}]
    encoded: list[Any] = []
    for at, block in enumerate(content):
        report.block = at
        wire = encode_block(block, report)
        if wire is not None:
            encoded.append(wire)
            cache = getattr(block, "cache", None)
            if cache is not None and points:
                encoded.append(encode_cache(cache))
    report.block = None
    return encoded


def encode_result_content(content: Content, report: Reporter) -> list[Any]:
    if not isinstance(content, tuple):
        return encode_content(content, report)
    encoded = []
    for at, block in enumerate(content):
        report.block = at
        wire = _encode_result_block(block, report)
        if wire is not None:
            encoded.append(wire)
            if getattr(block, "cache", None) is not None:
                report.lost("cache", "a tool result is cached as a whole", field="cache")
    report.block = None
    return encoded


def _encode_result_block(block: Block, report: Reporter) -> dict[str, Any] | None:
    """A block inside a tool result, where fewer kinds are allowed."""
    if isinstance(block, TextBlock):
        if block.citations:
            report.lost("citations", "a tool result has none", field="citations")
        return restored(_encode_result_text(block), block.extra, API) if block.extra else {"text": block.text}
    # API_runtime_ToolResultContentBlock.html: json, text, image, document, video and search results.
    if isinstance(block, ImageBlock | DocumentBlock | OpaqueBlock):
        return encode_block(block, report)
    report.lost(type(block).__name__, "a tool result holds text, images, documents and videos only")
    return None


def _encode_result_text(block: TextBlock) -> dict[str, Any]:
    """Text, or the JSON value that was decoded to this text."""
    if residual_of(block.extra, API).get(JSON):
        try:
            value = jsontext.read(block.text)
            if jsontext.compact(value) == block.text:
                return {"json": value}
        except FormatError:
            pass
    return {"text": block.text}


# --- messages --------------------------------------------------------------------------------------------------------


def decode_messages(wire: Any, api: str = API) -> tuple[Message, ...]:
    """Decodes messages; a user message with tool results becomes several."""
    names: dict[str, str] = {}  # call id -> tool name; a repeated id refers to the latest call
    messages: list[Message] = []

    def read(message: Any) -> None:
        messages.extend(_decode_message(message, names, messages[-1] if messages else None, api))

    each(wire, "messages", API, read)
    return tuple(messages)


def _decode_message(wire: Any, names: dict[str, str], before: Message | None, api: str) -> list[Message]:
    role = an_object(wire, API).get("role")
    content = wire.get("content")
    # API_runtime_ToolResultBlock.html: results are blocks of a user message.
    if role == "user":
        if isinstance(content, list) and any(map(_is_result, content)):
            extra_fields = residual(wire, {"role": "user", "content": content})
            return mark_joined(_decode_results(content, names), extra_fields, before, API)
        user = replace(USER, extra={}, content=decode_content(content))
        if len(wire) == 2 and user.content and all(map(_is_bare_text, user.content)):
            return [user]
        return [_plain(user, "user", wire)]
    if role == "assistant":
        message = replace(ANSWER, extra={}, content=decode_content(content), api=api)
        for call in message.tool_calls:
            names[call.id] = call.name
        return [_plain(message, role, wire)]
    if role == "system":
        return [_plain(SystemMessage(content=decode_content(content)), role, wire)]
    if not isinstance(role, str):
        raise BadWire(API, "a message needs a role: user, assistant or system", "$.role")
    return [CustomMessage(role, {k: v for k, v in wire.items() if k != "role"})]  # type: ignore[list-item]


M = TypeVar("M", UserMessage, AssistantMessage, SystemMessage)


def _is_bare_text(block: Any) -> bool:
    return type(block) is TextBlock and not block.extra and block.cache is None


def _plain(message: M, role: str, wire: dict[str, Any]) -> M:
    """A message for one wire message, with its residual."""
    if isinstance(message.content, str):
        message = with_residual(message, API, **{STRING: True})
    return keeping(message, API, wire, _encoded_message(role, message, QUIET))


def _decode_results(content: list[Any], names: dict[str, str]) -> list[Message]:
    pieces: list[Message] = []
    pending: list[Any] = []
    for item in content:
        cache = decode_cache(item)
        if cache is not None and not pending and pieces and takes_cache(pieces[-1]):
            pieces[-1] = replace(pieces[-1], cache=cache)
        elif _is_result(item):
            _append_text(pieces, pending)
            pending = []
            pieces.append(_decode_result(item, names))
        else:
            pending.append(item)
    _append_text(pieces, pending)
    return pieces


def _append_text(pieces: list[Message], pending: list[Any]) -> None:
    if pending:
        pieces.append(UserMessage(content=tuple(with_points(pending, decode_block))))


def _is_result(block: Any) -> bool:
    given = block.get("toolResult") if isinstance(block, dict) else None
    return (
        isinstance(given, dict)
        and isinstance(given.get("toolUseId"), str)
        and isinstance(given.get("content", []), list | None)
        # Only results of the provider's own tools have a type (`nova_code_interpreter_result`).
        and (not isinstance(given.get("type"), str) or given["type"] == "tool_result")
    )


def _decode_result(wire: dict[str, Any], names: dict[str, str]) -> ToolResultMessage:
    given = wire["toolResult"]
    content = given.get("content")
    result = ToolResultMessage(
        tool_call_id=given["toolUseId"],
        tool_name=names.get(given["toolUseId"]),
        content=None if content is None else tuple(map(decode_result_block, content)),
        is_error=given.get("status") == "error",
    )
    return keeping(result, API, wire, _encode_result(result, QUIET))


def encode_messages(messages: tuple[Message, ...], report: Reporter) -> list[dict[str, Any]]:
    """Encodes messages; the results of one turn share a user message."""
    encoded: list[dict[str, Any]] = []
    before: Message | None = None
    names: dict[str, str] = {}
    for at, message in enumerate(messages):
        report.message = at
        match message:
            case UserMessage():
                add_user(encoded, _encoded_message("user", message, report), residual_of(message.extra, API), before)
            case AssistantMessage():
                encoded.append(_encoded_message("assistant", message, report))
                for block in message.content if isinstance(message.content, tuple) else ():
                    if isinstance(block, ToolCall):
                        names[block.id] = block.name
            case ToolResultMessage():
                if message.tool_name is not None and names.get(message.tool_call_id) != message.tool_name:
                    report.lost("tool_name", "the wire knows only the name of the call", "record", field="toolName")
                blocks = [_encode_result(message, report)]
                if message.cache is not None:
                    blocks.append(encode_cache(message.cache))
                add_result(encoded, blocks, residual_of(message.extra, API), before)
            case SystemMessage():
                encoded.append(_encoded_message("system", message, report))
            case CustomMessage():  # an unknown role of this wire; those of others are reported by the table
                encoded.append({"role": message.role, **message.fields})
        before = message
    return encoded


def _encoded_message(
    role: str, message: UserMessage | AssistantMessage | SystemMessage, report: Reporter
) -> dict[str, Any]:
    content: Any = message.content
    if not message.extra:
        return {"role": role, "content": encode_content(content, report)}
    extra_fields = residual_of(message.extra, API)
    if not (extra_fields.get(STRING) and isinstance(content, str)):
        content = encode_content(content, report)
    return put_back({"role": role, "content": content}, extra_fields)


def _encode_result(result: ToolResultMessage, report: Reporter) -> dict[str, Any]:
    inner: dict[str, Any] = {
        "toolUseId": result.tool_call_id,
        "content": encode_result_content(result.content, report),
    }
    if result.is_error:  # `success` is omitted: not all models support `status` (API_runtime_ToolResultBlock.html)
        inner["status"] = "error"
    return restored({"toolResult": inner}, result.extra, API) if result.extra else {"toolResult": inner}
