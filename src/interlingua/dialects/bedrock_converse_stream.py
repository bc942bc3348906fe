"""Amazon Bedrock Converse and ConverseStream, as JSON on the REST wire: blobs are base64 strings.

Shapes that differ from ours: a block is an object with one key that names its kind; a cache point is a block of its
own, after the one it marks; tool results are blocks inside user messages (hint `~joined`, as one wire message may hold
several results and words of the user); cited text has a block of its own. Model and stream are said by the path, and
what only some models understand (thinking, top_k) travels in `additionalModelRequestFields`.

A stream says only tools, results and images when they start; text and reasoning begin with their first delta. Usage
comes after the stop, in `metadata`. The answer is put together as the whole one would look and read by the same code.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from msgspec import Struct
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
from ..framing import AWSEventStream, Frame, JSONArray, write_aws
from ..losses import QUIET, SYSTEM, Encoded, Fates, Reporter, bookkeeping, dropped, encoded, kept, record, some
from ..messages import (
    AssistantMessage,
    AudioBlock,
    Block,
    CacheMarker,
    Citation,
    Content,
    CustomMessage,
    DocumentBlock,
    Extra,
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
from ._wire import (
    JOINED,
    MESSAGE,
    RESPONSE,
    an_object,
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
    string,
    strings,
    whole,
    with_held,
)

API = "bedrock-converse-stream"

STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "toolUse",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "content_filtered": "error",
    "guardrail_intervened": "error",
    "malformed_model_output": "error",
    "malformed_tool_use": "error",
}
SAID_STOPS = {
    "stop": "end_turn",
    "toolUse": "tool_use",
    "length": "max_tokens",
    "error": "content_filtered",
    "aborted": "end_turn",
}

# The wire's words for formats. Where two words mean one MIME type, the first is said for what came from elsewhere.
IMAGES = {"png": "image/png", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}
DOCUMENTS = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
}
VIDEOS = {
    "mp4": "video/mp4",
    "mkv": "video/x-matroska",
    "mov": "video/quicktime",
    "webm": "video/webm",
    "flv": "video/x-flv",
    "mpeg": "video/mpeg",
    "mpg": "video/mpeg",
    "wmv": "video/x-ms-wmv",
    "three_gp": "video/3gpp",
}
SOUNDS = {
    "mp3": "audio/mpeg",
    "mpeg": "audio/mpeg",
    "mpga": "audio/mpeg",
    "wav": "audio/wav",
    "ogg": "audio/ogg",
    "opus": "audio/opus",
    "flac": "audio/flac",
    "aac": "audio/aac",
    "x-aac": "audio/x-aac",
    "mp4": "audio/mp4",
    "m4a": "audio/mp4",
    "mkv": "audio/x-matroska",
    "mka": "audio/x-matroska",
    "webm": "audio/webm",
    "pcm": "audio/pcm",
}
_ALIASES = {
    "image/jpg": "image/jpeg",
    "audio/mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/x-m4a": "audio/mp4",
    "audio/m4a": "audio/mp4",
    "audio/x-flac": "audio/flac",
    "text/x-markdown": "text/markdown",
    "application/json": "text/plain",
    "application/xml": "text/plain",
}

# Both forms of an answer say the same, but for calls whose argument text is broken: only a stream carries text.
UNEVEN: tuple[str, ...] = ("$.content[*].argumentsText", "$.content[*].parseError")

FATES: Fates = {
    **kept("TextBlock.text CacheMarker.ttl Citation.title Citation.url Citation.cited_text"),
    **some("TextBlock.citations", "not in system text and tool results"),
    **some(
        "TextBlock.cache ImageBlock.cache AudioBlock.cache DocumentBlock.cache ToolCall.cache ServerToolCall.cache"
        " ServerToolResult.cache",
        "not inside tool results",
    ),
    **dropped("Citation.start Citation.end TextBlock.text_signature"),
    **dropped("TextBlock.refusal", "a refusal is said as plain text"),
    **some("ThinkingBlock.thinking", "redacted thinking has no text"),
    **kept("ThinkingBlock.thinking_signature ThinkingBlock.redacted"),
    **some("ImageBlock.data ImageBlock.mime_type ImageBlock.url ImageBlock.file_id", "see `_encode_media`"),
    **dropped("ImageBlock.detail"),
    **some("AudioBlock.data AudioBlock.mime_type AudioBlock.url AudioBlock.file_id", "see `_encode_media`"),
    **dropped("AudioBlock.transcript"),
    **some(
        "DocumentBlock.data DocumentBlock.mime_type DocumentBlock.text DocumentBlock.url DocumentBlock.file_id",
        "see `_encode_media`",
    ),
    **some("DocumentBlock.title DocumentBlock.context DocumentBlock.citations", "a video has none"),
    **kept("ToolCall.id ToolCall.name ToolCall.arguments"),
    **record("ToolCall.arguments_text", "arguments travel as an object, not as text"),
    **dropped("ToolCall.parse_error", "arguments travel as an object; what is none is sent as {}"),
    **dropped("ToolCall.thought_signature"),
    **kept("ServerToolCall.id ServerToolCall.name ServerToolCall.arguments"),
    **some(
        "ServerToolResult.tool_call_id ServerToolResult.tool_name ServerToolResult.dialect ServerToolResult.content"
        " ServerToolResult.is_error OpaqueBlock.dialect OpaqueBlock.value",
        "only what this wire minted",
    ),
    **some(
        "UserMessage.content AssistantMessage.content SystemMessage.content ToolResultMessage.content Context.system",
        "a string becomes a text block",
    ),
    **bookkeeping(API),
    **kept("ToolResultMessage.tool_call_id ToolResultMessage.is_error ToolResultMessage.cache"),
    **some("ToolResultMessage.tool_name", "the name is that of the call it answers"),
    **dropped("SystemMessage.developer Context.system_role", "one word for system messages"),
    **kept("CustomMessage.role CustomMessage.fields"),
    **kept("ToolSpec.name ToolSpec.description ToolSpec.input_schema ToolSpec.strict ToolSpec.cache"),
    **some("ToolSpec.dialect ToolSpec.value", "only this wire's own tools"),
    **kept("Options.max_tokens Options.temperature Options.top_p Options.top_k Options.stop Options.service_tier"),
    **kept("Options.stream"),  # said by the path, as the model is
    **some("Options.tool_choice ToolChoice.mode ToolChoice.names", "see `_encode_choice`"),
    **some("Options.reasoning Reasoning.effort Reasoning.budget Reasoning.enabled", "see `_encode_reasoning`"),
    **some("Options.metadata", "values are strings"),
    **some("Options.output_schema", "there is no free-form JSON mode"),
    **kept("OutputSchema.schema OutputSchema.name OutputSchema.description"),
    **dropped("Options.seed Options.session_id Options.parallel_tools Reasoning.summary OutputSchema.strict"),
    **dropped("Options.cache_retention", "caching is asked for by cache points"),
    **dropped("Options.extra", "what only this wire can say of a request goes into the request's extra"),
}

# Keys of `extra[API]` that only this wire needs.
PIECES = "~pieces"  # lengths of the texts that the wire had where we have one
CITED = "~cited"  # the same for cited text; also says that text without citations came in a block for cited text
JSON = "~json"  # text of a tool result that the wire has as a JSON value
GUARDED = "~guarded"  # text that the wire marks for the guardrail
STRING = "~string"  # content that came as a string
FIELD = "~field"  # where among the model's own fields reasoning was asked for
SPELLED = "~spelled"  # the schema's own text

S = TypeVar("S", bound=Struct)


def _noting(value: S, wire: Mapping[str, Any], said: Mapping[str, Any]) -> S:
    """As `keeping`, beside hints that the value already holds."""
    held = residual(wire, said)
    return with_held(value, API, **held) if held else value


def _held(extra: Extra) -> Mapping[str, Any]:
    return extra.get(API, {}) if extra else {}


# --- content: wire to ours -------------------------------------------------------------------------------------------


def decode_block(wire: Any) -> Block:
    """One content block; whatever is not as this wire has it is kept as it is, opaque."""
    return _decode_block(wire, _DECODERS, encode_block)


def _decode_result_block(wire: Any) -> Block:
    return _decode_block(wire, _RESULT_DECODERS, _encode_result_block)


def _decode_block(
    wire: Any,
    decoders: Mapping[str, Callable[[dict[str, Any]], Any]],
    encode: Callable[[Any, Reporter], dict[str, Any] | None],
) -> Block:
    kind = next((key for key in an_object(wire, API) if key in decoders), None)
    if kind is not None:
        try:
            block: Block = decoders[kind](wire)
            said = encode(block, QUIET)
            if said is not None:
                return _noting(block, wire, said)
        except (KeyError, TypeError, ValueError, AttributeError, FormatError):
            pass
    return OpaqueBlock(dialect=API, value=wire)


def _decode_text(wire: dict[str, Any]) -> TextBlock:
    return TextBlock(text=string(wire["text"]))


def _decode_cited(wire: dict[str, Any]) -> TextBlock:
    given = wire["citationsContent"]
    text, lengths = _joined(given.get("content", []))
    block = TextBlock(text=text, citations=tuple(map(_decode_citation, given.get("citations", []))))
    usual = bool(block.citations) and len(lengths) == 1
    return block if usual else with_held(block, API, **{CITED: lengths})


def _decode_citation(wire: dict[str, Any]) -> Citation:
    location = wire.get("location")
    web = location.get("web") if isinstance(location, dict) else None
    citation = Citation(
        title=optional(wire.get("title")), url=optional(web.get("url")) if isinstance(web, dict) else None
    )
    if "sourceContent" in wire:
        text, lengths = _joined(wire["sourceContent"])
        citation = replace(citation, cited_text=text)
        if len(lengths) != 1:
            citation = with_held(citation, API, **{PIECES: lengths})
    return _noting(citation, wire, _encode_citation(citation))


def _joined(pieces: Any) -> tuple[str, list[int]]:
    """A list of texts as one, and how long each was."""
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
    if "redactedContent" in given:
        return ThinkingBlock(thinking="", thinking_signature=string(given["redactedContent"]), redacted=True)
    told = given["reasoningText"]
    return ThinkingBlock(thinking=string(told["text"]), thinking_signature=optional(told.get("signature")))


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
        said: dict[str, Any] = {"text": string(source["text"]), "mime_type": _mime_of(given, DOCUMENTS)}
    elif "content" in source:
        text, lengths = _joined(source["content"])
        said = {"text": text, "mime_type": _mime_of(given, DOCUMENTS)}
    else:
        said = _decode_media(given, DOCUMENTS)
    block = DocumentBlock(
        **said,
        title=optional(given.get("name")),
        context=optional(given.get("context")),
        citations=boolean(citations["enabled"]) if citations else None,
    )
    return block if lengths is None else with_held(block, API, **{PIECES: lengths})


def _decode_media(wire: dict[str, Any], formats: Mapping[str, str]) -> dict[str, Any]:
    source, mime = wire["source"], _mime_of(wire, formats)
    if "bytes" in source:
        return {"data": string(source["bytes"]), "mime_type": mime}
    return {"url": string(source["s3Location"]["uri"]), "mime_type": mime}


def _mime_of(wire: dict[str, Any], formats: Mapping[str, str]) -> str | None:
    return formats[wire["format"]] if "format" in wire else None


def _decode_tool_use(wire: dict[str, Any]) -> ToolCall | ServerToolCall:
    given = wire["toolUse"]
    id, name, arguments = string(given["toolUseId"]), string(given["name"]), given.get("input", {})
    if given.get("type") == _SERVER:
        return ServerToolCall(id=id, name=name, arguments=arguments)
    if isinstance(arguments, dict):
        return ToolCall(id=id, name=name, arguments=arguments)
    return ToolCall(
        id=id,
        name=name,
        arguments={},
        arguments_text=jsontext.compact(arguments),
        parse_error="the arguments are not a JSON object",
    )


_SERVER = "server_tool_use"


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


def _decode_cache(wire: Any) -> CacheMarker | None:
    """The marker, if this is a cache point and nothing else."""
    if not isinstance(wire, dict) or wire.keys() != {"cachePoint"} or not isinstance(wire["cachePoint"], dict):
        return None
    point = wire["cachePoint"]
    cache = CacheMarker(ttl=optional(point.get("ttl")))
    return keeping(cache, API, point, _encode_cache(cache)["cachePoint"])


def _takes_cache(value: Any) -> bool:
    """Whether a cache point after this can be its mark: it can hold one and has none yet."""
    return getattr(value, "cache", value) is None


def _decode_content(content: Any) -> Content:
    if content is None or isinstance(content, str):
        return content
    return tuple(_with_points(content, decode_block))


def _with_points(wire: Any, decode: Callable[[Any], Block]) -> list[Block]:
    """The blocks of a list, each with the cache point that follows it."""
    blocks: list[Block] = []

    def read(item: Any) -> None:
        cache = _decode_cache(item)
        if cache is not None and blocks and _takes_cache(blocks[-1]):
            blocks[-1] = replace(blocks[-1], cache=cache)
        else:
            blocks.append(decode(item))

    each(wire, "content", API, read)
    return blocks


# --- content: ours to wire -------------------------------------------------------------------------------------------


def encode_block(block: Block, report: Reporter) -> dict[str, Any] | None:
    """One block as this wire says it, or None (reported) when it cannot. Its cache point is a block of its own."""
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
            use = {"toolUseId": block.id, "name": block.name, "input": block.arguments, "type": _SERVER}
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
    held = _held(block.extra)
    if held.get(GUARDED):
        if block.citations:
            report.lost("citations", "guarded text has none", field="citations")
        return {"guardContent": {"text": {"text": block.text}}}
    if block.citations or CITED in held:
        content = _apart(block.text, held.get(CITED))
        return {"citationsContent": {"content": content, "citations": list(map(_encode_citation, block.citations))}}
    return {"text": block.text}


def _encode_citation(citation: Citation) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    if citation.title is not None:
        wire["title"] = citation.title
    if citation.cited_text is not None:
        wire["sourceContent"] = _apart(citation.cited_text, _held(citation.extra).get(PIECES))
    if citation.url is not None:
        wire["location"] = {"web": {"url": citation.url}}
    return restored(wire, citation.extra, API)


def _apart(text: str, lengths: list[int] | None) -> list[dict[str, Any]]:
    """The inverse of `_joined`, as long as the lengths still fit the text."""
    if lengths is None or sum(lengths) != len(text):
        return [{"text": text}]
    pieces, at = [], 0
    for length in lengths:
        pieces.append({"text": text[at : at + length]})
        at += length
    return pieces


def _encode_thinking(block: ThinkingBlock, report: Reporter) -> dict[str, Any] | None:
    if not block.redacted:
        told = {"text": block.thinking}
        if block.thinking_signature is not None:
            told["signature"] = block.thinking_signature
        return {"reasoningContent": {"reasoningText": told}}
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
    """A file in the one format word that its MIME type has here; only documents may come without one."""
    mime, word = block.mime_type, None
    if mime is not None:
        word = _format_of(mime, formats)
        if word is None and kind != "document":
            report.lost(kind, f"{mime} has no word in this wire; it takes {', '.join(formats)}")
            return None
    source = _encode_source(kind, block, report)
    if source is None:
        return None
    if mime is not None and (word is None or formats[word] != mime):
        report.lost("mime_type", f"said as {word or 'nothing'}", "weakened", field="mimeType")
    return {kind: {"format": word, "source": source} if word is not None else {"source": source}}


def _format_of(mime: str, formats: Mapping[str, str]) -> str | None:
    bare = mime.partition(";")[0].strip().lower()
    meant = (bare, _ALIASES.get(bare, bare))
    for word, known in formats.items():
        if known in meant:
            return word
    return "txt" if formats is DOCUMENTS and bare.startswith("text/") else None


def _encode_source(
    kind: str, block: ImageBlock | AudioBlock | DocumentBlock, report: Reporter
) -> dict[str, Any] | None:
    text = block.text if isinstance(block, DocumentBlock) else None
    url = block.url if block.url is not None and block.url.startswith("s3://") else None
    said: dict[str, Any]
    if block.data is not None:
        said, used = {"bytes": block.data}, "data"
    elif text is not None and kind == "document":
        lengths = _held(block.extra).get(PIECES)
        said, used = ({"text": text} if lengths is None else {"content": _apart(text, lengths)}), "text"
    elif url is not None:
        said, used = {"s3Location": {"uri": url}}, "url"
    else:
        report.lost(kind, "this wire takes bytes or an S3 location")
        return None
    given = {"text": text, "url": block.url, "fileId": block.file_id}
    for field, value in given.items():
        if value is not None and field != used:
            report.lost(field, "one source is enough", field=field)
    return said


def _encode_server_result(block: ServerToolResult) -> dict[str, Any]:
    wire: dict[str, Any] = {"toolUseId": block.tool_call_id}
    if block.content is not None:
        wire["content"] = block.content
    wire["type"] = block.tool_name + _RESULT
    if block.is_error:
        wire["status"] = "error"
    return wire


def _encode_cache(cache: CacheMarker) -> dict[str, Any]:
    wire = {"type": "default"}
    if cache.ttl is not None:
        wire["ttl"] = cache.ttl
    return {"cachePoint": restored(wire, cache.extra, API)}


def _encode_content(content: Content, report: Reporter, *, points: bool = True) -> list[Any]:
    if not isinstance(content, tuple):
        report.lost("content", "content is a list of blocks in this wire", "record", field="content")
        return [] if content is None else [{"text": content}]
    said: list[Any] = []
    for at, block in enumerate(content):
        report.block = at
        wire = encode_block(block, report)
        if wire is not None:
            said.append(wire)
            cache = getattr(block, "cache", None)
            if cache is not None and points:
                said.append(_encode_cache(cache))
    report.block = None
    return said


def _encode_result_content(content: Content, report: Reporter) -> list[Any]:
    if not isinstance(content, tuple):
        return _encode_content(content, report)
    said = []
    for at, block in enumerate(content):
        report.block = at
        wire = _encode_result_block(block, report)
        if wire is not None:
            said.append(wire)
            if getattr(block, "cache", None) is not None:
                report.lost("cache", "a tool result is cached as a whole", field="cache")
    report.block = None
    return said


def _encode_result_block(block: Block, report: Reporter) -> dict[str, Any] | None:
    """A block inside a tool result, where fewer kinds are allowed."""
    if isinstance(block, TextBlock):
        if block.citations:
            report.lost("citations", "a tool result has none", field="citations")
        return restored(_encode_result_text(block), block.extra, API) if block.extra else {"text": block.text}
    if isinstance(block, ImageBlock | DocumentBlock | OpaqueBlock):
        return encode_block(block, report)
    report.lost(type(block).__name__, "a tool result holds text, images, documents and videos only")
    return None


def _encode_result_text(block: TextBlock) -> dict[str, Any]:
    """Text, or the JSON value that it spells if that is how it came."""
    if _held(block.extra).get(JSON):
        try:
            value = jsontext.read(block.text)
            if jsontext.compact(value) == block.text:
                return {"json": value}
        except FormatError:
            pass
    return {"text": block.text}


# --- messages --------------------------------------------------------------------------------------------------------


def decode_messages(wire: Any) -> tuple[Message, ...]:
    """Wire messages as ours; a user message with tool results becomes several."""
    names: dict[str, str] = {}  # call id -> tool name; a repeated id means the latest call
    messages: list[Message] = []
    for group in each(wire, "messages", API, lambda message: _decode_message(message, names)):
        if messages and isinstance(messages[-1], ToolResultMessage) and isinstance(group[0], ToolResultMessage):
            group[0] = with_held(group[0], API, **{JOINED: False})
        messages += group
    return tuple(messages)


def _decode_message(wire: Any, names: dict[str, str]) -> list[Message]:
    role = an_object(wire, API).get("role")
    content = wire.get("content")
    if role == "user":
        if isinstance(content, list) and any(map(_is_result, content)):
            return _decode_results(wire, content, names)
        return [_plain(UserMessage(content=_decode_content(content)), "user", wire)]
    if role == "assistant":
        message = AssistantMessage(content=_decode_content(content), api=API)
        for call in message.tool_calls:
            names[call.id] = call.name
        return [_plain(message, role, wire)]
    if role == "system":
        return [_plain(SystemMessage(content=_decode_content(content)), role, wire)]
    if not isinstance(role, str):
        raise BadWire(API, "a message needs a role: user, assistant or system", "$.role")
    return [CustomMessage(role, {k: v for k, v in wire.items() if k != "role"})]  # type: ignore[list-item]


M = TypeVar("M", UserMessage, AssistantMessage, SystemMessage)


def _plain(message: M, role: str, wire: dict[str, Any]) -> M:
    """A message that is one wire message, with what its encoding gets wrong."""
    if isinstance(message.content, str):
        message = with_held(message, API, **{STRING: True})
    return _noting(message, wire, _said_message(role, message, QUIET))


def _decode_results(wire: dict[str, Any], content: list[Any], names: dict[str, str]) -> list[Message]:
    pieces: list[Message] = []
    words: list[Any] = []
    for item in content:
        cache = _decode_cache(item)
        if cache is not None and not words and pieces and _takes_cache(pieces[-1]):
            pieces[-1] = replace(pieces[-1], cache=cache)
        elif _is_result(item):
            _say_words(pieces, words)
            words = []
            pieces.append(_decode_result(item, names))
        else:
            words.append(item)
    _say_words(pieces, words)
    # Results follow one another in one wire message; everything else that shares one says so.
    for at in range(1, len(pieces)):
        if not (isinstance(pieces[at], ToolResultMessage) and isinstance(pieces[at - 1], ToolResultMessage)):
            pieces[at] = with_held(pieces[at], API, **{JOINED: True})
    held = residual(wire, {"role": "user", "content": content})
    if held:
        pieces[0] = with_held(pieces[0], API, **{MESSAGE: held})
    return pieces


def _say_words(pieces: list[Message], words: list[Any]) -> None:
    if words:
        pieces.append(UserMessage(content=tuple(_with_points(words, decode_block))))


def _is_result(block: Any) -> bool:
    given = block.get("toolResult") if isinstance(block, dict) else None
    return (
        isinstance(given, dict)
        and isinstance(given.get("toolUseId"), str)
        and isinstance(given.get("content", []), list | None)
        # Only results of the provider's own tools say their type (`nova_code_interpreter_result`).
        and (not isinstance(given.get("type"), str) or given["type"] == "tool_result")
    )


def _decode_result(wire: dict[str, Any], names: dict[str, str]) -> ToolResultMessage:
    given = wire["toolResult"]
    content = given.get("content")
    result = ToolResultMessage(
        tool_call_id=given["toolUseId"],
        tool_name=names.get(given["toolUseId"]),
        content=None if content is None else tuple(map(_decode_result_block, content)),
        is_error=given.get("status") == "error",
    )
    return _noting(result, wire, _encode_result(result, QUIET))


def encode_messages(messages: tuple[Message, ...], report: Reporter) -> list[dict[str, Any]]:
    """Our messages as the wire's; results of one turn share a user message."""
    said: list[dict[str, Any]] = []
    before: Message | None = None
    names: dict[str, str] = {}
    for at, message in enumerate(messages):
        report.message = at
        match message:
            case UserMessage():
                _say_user(said, message, before, report)
            case AssistantMessage():
                said.append(_said_message("assistant", message, report))
                for block in message.content if isinstance(message.content, tuple) else ():
                    if isinstance(block, ToolCall):
                        names[block.id] = block.name
            case ToolResultMessage():
                if message.tool_name is not None and names.get(message.tool_call_id) != message.tool_name:
                    report.lost("tool_name", "the wire knows only the name of the call", "record", field="toolName")
                _say_result(said, message, before, report)
            case SystemMessage():
                said.append(_said_message("system", message, report))
            case CustomMessage():  # the wire's own unknown role goes back; others are reported by the table
                said.append({"role": message.role, **message.fields})
        before = message
    return said


def _said_message(
    role: str, message: UserMessage | AssistantMessage | SystemMessage, report: Reporter
) -> dict[str, Any]:
    content: Any = message.content
    if not message.extra:
        return {"role": role, "content": _encode_content(content, report)}
    held = _held(message.extra)
    if not (held.get(STRING) and isinstance(content, str)):
        content = _encode_content(content, report)
    return put_back({"role": role, "content": content}, held)


def _encode_result(result: ToolResultMessage, report: Reporter) -> dict[str, Any]:
    inner: dict[str, Any] = {
        "toolUseId": result.tool_call_id,
        "content": _encode_result_content(result.content, report),
    }
    if result.is_error:  # a plain success goes without saying: only some models know the field
        inner["status"] = "error"
    return restored({"toolResult": inner}, result.extra, API) if result.extra else {"toolResult": inner}


def _say_user(said: list[dict[str, Any]], message: UserMessage, before: Message | None, report: Reporter) -> None:
    wire = _said_message("user", message, report)
    held = _held(message.extra)
    if held.get(JOINED) and isinstance(before, ToolResultMessage) and isinstance(wire["content"], list):
        said[-1]["content"].extend(wire["content"])
    else:
        said.append(put_back(wire, held.get(MESSAGE, {})))


def _say_result(
    said: list[dict[str, Any]], message: ToolResultMessage, before: Message | None, report: Reporter
) -> None:
    held = _held(message.extra)
    blocks = [_encode_result(message, report)]
    if message.cache is not None:
        blocks.append(_encode_cache(message.cache))
    joins = held.get(JOINED, isinstance(before, ToolResultMessage))
    if joins and isinstance(before, ToolResultMessage | UserMessage) and isinstance(said[-1]["content"], list):
        said[-1]["content"].extend(blocks)
    else:
        said.append(put_back({"role": "user", "content": blocks}, held.get(MESSAGE, {})))


# --- requests --------------------------------------------------------------------------------------------------------


@reading(API)
def decode_request(body: Any, *, model: str | ModelDescriptor | None = None, stream: bool | None = None) -> Request:
    """A Converse request. The path says `model` and `stream`; a body that was written for boto3 names the model."""
    wire = an_object(body_of(body, API), API)
    config = _dict(wire.get("toolConfig"))
    request = Request(
        model=model_of(wire.get("modelId"), model, API),
        context=Context(
            system=_decode_system(wire.get("system")),
            messages=decode_messages(wire["messages"]) if "messages" in wire else (),
            tools=_decode_tools(config.get("tools")),
        ),
        options=_decode_options(wire, config, stream),
    )
    said, _ = encode_request(request)
    # `messages` keep their own residuals, message by message.
    given = {**wire, "messages": said["messages"]} if "messages" in wire else wire
    return keeping(request, API, given, said)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _decode_system(wire: Any) -> System:
    """The system text, if it is all text and cache points; else the whole of it is left to the residual."""
    if not isinstance(wire, list):
        return None
    blocks = _with_points(wire, decode_block)
    told = [_SAYS_SYSTEM.get(next(iter(item), ""), False) if isinstance(item, dict) else False for item in wire]
    if all(told) and all(isinstance(block, TextBlock) for block in blocks):
        return tuple(blocks)  # type: ignore[arg-type]
    return None


_SAYS_SYSTEM = dict.fromkeys(("text", "guardContent", "cachePoint"), True)


def _decode_tools(wire: Any) -> tuple[ToolSpec, ...] | None:
    if not isinstance(wire, list):
        return None
    tools: list[ToolSpec] = []
    for item in wire:
        cache = _decode_cache(item)
        if cache is not None and tools and _takes_cache(tools[-1]):
            tools[-1] = replace(tools[-1], cache=cache)
        else:
            tools.append(_decode_tool(item))
    return tuple(tools)


def _decode_tool(wire: Any) -> ToolSpec:
    given = an_object(wire, API, "$.toolConfig.tools").get("toolSpec")
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        return ToolSpec(name=_name_of(wire), dialect=API, value=wire)
    schema = given.get("inputSchema")
    tool = ToolSpec(
        name=given["name"],
        description=optional(given.get("description")),
        input_schema=schema.get("json") if isinstance(schema, dict) else None,
        strict=flag(given.get("strict")),
    )
    return keeping(tool, API, wire, _encode_tool(tool))


def _name_of(wire: dict[str, Any]) -> str:
    """A name for a tool of the wire's own (`{"systemTool": {"name": …}}`): its own, else that of its kind."""
    kind = next(iter(wire), "")
    name = _dict(wire.get(kind)).get("name")
    return name if isinstance(name, str) else kind


def _decode_options(wire: dict[str, Any], config: dict[str, Any], stream: bool | None) -> Options:
    inference = _dict(wire.get("inferenceConfig"))
    fields = _dict(wire.get("additionalModelRequestFields"))
    output = _dict(wire.get("outputConfig"))
    tier, metadata = _dict(wire.get("serviceTier")), wire.get("requestMetadata")
    return Options(
        max_tokens=whole(inference.get("maxTokens")),
        temperature=number(inference.get("temperature")),
        top_p=number(inference.get("topP")),
        top_k=whole(fields.get("top_k")),
        stop=strings(inference.get("stopSequences")),
        reasoning=_decode_thinking(fields, output),
        tool_choice=_decode_choice(config.get("toolChoice")),
        output_schema=_decode_schema(output.get("textFormat")),
        service_tier=optional(tier.get("type")),
        metadata=metadata if isinstance(metadata, dict) and _all_strings(metadata) else None,
        stream=stream,
    )


def _all_strings(values: dict[str, Any]) -> bool:
    return all(isinstance(value, str) for value in values.values())


def _decode_thinking(fields: dict[str, Any], output: dict[str, Any]) -> Reasoning | None:
    """Reasoning as Claude takes it (`thinking`, once `reasoning_config`), or as gpt-oss does (`reasoning_effort`)."""
    plain = optional(fields.get("reasoning_effort"))
    if plain is not None and not fields.keys() & {"thinking", "reasoning_config"}:
        return Reasoning(effort=plain, extra={API: {FIELD: "reasoning_effort"}})
    field = "thinking" if "thinking" in fields else "reasoning_config"
    wire = _dict(fields.get(field))
    inside, outside = _dict(fields.get("output_config")).get("effort"), output.get("effort")
    effort = optional(inside if inside is not None else outside)
    hints = {FIELD: field} if field != "thinking" and wire else {}
    if effort is not None and inside is not None:
        hints[EFFORT] = "output_config"
    reasoning = _decode_budget(wire, effort)
    if reasoning is None:
        return None
    if hints:
        reasoning = with_held(reasoning, API, **hints)
    return _noting(reasoning, wire, _encode_thinking_field(reasoning)) if wire else reasoning


def _decode_budget(wire: dict[str, Any], effort: str | None) -> Reasoning | None:
    budget = whole(wire.get("budget_tokens"))
    match wire.get("type"):
        case "enabled" if budget is not None:
            return Reasoning(effort=effort, budget=budget)
        case "adaptive":
            return Reasoning(effort=effort, enabled=None if effort is not None else True)
        case "disabled":
            return Reasoning(effort=effort, enabled=False)
        case _:
            return Reasoning(effort=effort) if effort is not None else None


def _decode_choice(wire: Any) -> ToolChoice | None:
    if not isinstance(wire, dict):
        return None
    if "auto" in wire:
        choice = ToolChoice(mode="auto")
    elif "any" in wire:
        choice = ToolChoice(mode="required")
    elif isinstance(_dict(wire.get("tool")).get("name"), str):
        choice = ToolChoice(mode="required", names=(wire["tool"]["name"],))
    else:
        return None
    return _noting(choice, wire, _encode_choice(choice, QUIET) or {})


def _decode_schema(wire: Any) -> OutputSchema | None:
    given = _dict(_dict(_dict(wire).get("structure")).get("jsonSchema"))
    text = given.get("schema")
    if not isinstance(text, str) or wire.get("type") != "json_schema":
        return None
    try:
        told = jsontext.read(text)
    except FormatError:
        return None
    if told is None:
        return None
    schema = OutputSchema(schema=told, name=optional(given.get("name")), description=optional(given.get("description")))
    if jsontext.compact(told) != text:
        schema = with_held(schema, API, **{SPELLED: text})
    return _noting(schema, wire, _encode_schema(schema))


def encode_request(request: Request, *, strict: bool = False) -> Encoded:
    """The body of a Converse request; the path says the model and whether to stream."""
    report = Reporter()
    context, options = request.context, request.options
    body: dict[str, Any] = {"messages": encode_messages(context.messages, report)}
    if context.system is not None:
        body["system"] = _encode_system(context.system, report)
    config = _encode_inference(options)
    if config:
        body["inferenceConfig"] = config
    config = _encode_tool_config(context.tools, options, report)
    if config:
        body["toolConfig"] = config
    _encode_options(body, options, request.model.id, report)
    return encoded(API, restored(body, request.extra, API), request, FATES, report.losses, strict=strict)


def _encode_system(system: System, report: Reporter) -> list[Any]:
    report.root = SYSTEM
    if isinstance(system, str):
        report.lost("system", "the system prompt is a list of blocks in this wire", "record")
        system = (TextBlock(text=system),)
    said: list[Any] = []
    for at, block in enumerate(system or ()):
        report.block = at
        if block.citations:
            report.lost("citations", "system text has none", field="citations")
            block = replace(block, citations=())
        said.append(encode_block(block, report))
        if block.cache is not None:
            said.append(_encode_cache(block.cache))
    report.root, report.block = "", None
    return said


def _encode_inference(options: Options) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if options.max_tokens is not None:
        config["maxTokens"] = options.max_tokens
    if options.temperature is not None:
        config["temperature"] = options.temperature
    if options.top_p is not None:
        config["topP"] = options.top_p
    if options.stop is not None:
        config["stopSequences"] = list(options.stop)
    return config


def _encode_tool_config(tools: tuple[ToolSpec, ...] | None, options: Options, report: Reporter) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if tools is not None:
        config["tools"] = _encode_tools(tools, report)
    if options.tool_choice is not None:
        choice = _encode_choice(options.tool_choice, report)
        if choice is not None:
            config["toolChoice"] = choice
    return config


def _encode_tools(tools: tuple[ToolSpec, ...], report: Reporter) -> list[Any]:
    said: list[Any] = []
    for at, spec in enumerate(tools):
        if spec.dialect is None:
            said.append(_encode_tool(spec))
        elif spec.dialect == API:
            said.append(spec.value)
        else:
            report.at(f"$.tools[{at}]", spec.name, f"a tool that only {spec.dialect} can run")
            continue
        if spec.cache is not None:
            said.append(_encode_cache(spec.cache))
    return said


def _encode_tool(spec: ToolSpec) -> dict[str, Any]:
    wire: dict[str, Any] = {"name": spec.name}
    if spec.description is not None:
        wire["description"] = spec.description
    if spec.input_schema is not None:
        wire["inputSchema"] = {"json": spec.input_schema}
    if spec.strict is not None:
        wire["strict"] = spec.strict
    return restored({"toolSpec": wire}, spec.extra, API)


def _encode_choice(choice: ToolChoice, report: Reporter) -> dict[str, Any] | None:
    if choice.mode == "none":
        # Leaving the tools out instead is for `adapt`: history with tool blocks needs them.
        report.at("$.options.toolChoice", "tool_choice", "this wire cannot forbid the tools that it offers")
        return None
    wire: dict[str, Any] = {"auto" if choice.mode == "auto" else "any": {}}
    if choice.mode == "required" and len(choice.names) == 1:
        wire = {"tool": {"name": choice.names[0]}}
    elif choice.names:
        report.at("$.options.toolChoice.names", "tool_choice", "the choice is one tool or all of them", "weakened")
    return restored(wire, choice.extra, API)


def _encode_options(body: dict[str, Any], options: Options, model: str, report: Reporter) -> None:
    fields: dict[str, Any] = {}
    output: dict[str, Any] = {}
    if options.top_k is not None:
        fields["top_k"] = options.top_k
    if options.reasoning is not None:
        _encode_reasoning(fields, output, options.reasoning, model, report)
    if options.output_schema is not None:
        if options.output_schema.schema is None:
            report.at("$.options.outputSchema", "output_schema", "this wire has no free-form JSON mode")
        else:
            output["textFormat"] = _encode_schema(options.output_schema)
    if fields:
        body["additionalModelRequestFields"] = fields
    if output:
        body["outputConfig"] = output
    if options.metadata is not None:
        body["requestMetadata"] = {key: value for key, value in options.metadata.items() if isinstance(value, str)}
        if not _all_strings(options.metadata):
            report.at("$.options.metadata", "metadata", "only strings are carried", "weakened")
    if options.service_tier is not None:
        body["serviceTier"] = {"type": options.service_tier}


EFFORT = "~effort"  # where the effort was said, if not in the wire's own place


def _encode_reasoning(
    fields: dict[str, Any], output: dict[str, Any], reasoning: Reasoning, model: str, report: Reporter
) -> None:
    held = _held(reasoning.extra)
    field = held.get(FIELD) or ("reasoning_effort" if "openai." in model else "thinking")
    if field == "reasoning_effort":
        _encode_effort_alone(fields, reasoning, report)
        return
    if reasoning.budget is None and reasoning.enabled is None and reasoning.effort is None:
        report.at("$.options.reasoning", "reasoning", "nothing is asked for", "record")
        return
    fields[field] = _encode_thinking_field(reasoning)
    if reasoning.effort is not None:
        if held.get(EFFORT) == "output_config":
            fields["output_config"] = {"effort": reasoning.effort}
        else:
            output["effort"] = reasoning.effort
    if reasoning.budget is not None and reasoning.enabled is False:
        report.at("$.options.reasoning.budget", "reasoning", "thinking is off")
    elif reasoning.enabled and (reasoning.budget is not None or reasoning.effort is not None):
        report.at("$.options.reasoning.enabled", "reasoning", "goes without saying beside how much", "record")


def _encode_thinking_field(reasoning: Reasoning) -> dict[str, Any]:
    """What Claude models take for `thinking`."""
    if reasoning.enabled is False:
        wire: dict[str, Any] = {"type": "disabled"}
    elif reasoning.budget is not None:
        wire = {"type": "enabled", "budget_tokens": reasoning.budget}
    else:
        wire = {"type": "adaptive"}
    return restored(wire, reasoning.extra, API)


def _encode_effort_alone(fields: dict[str, Any], reasoning: Reasoning, report: Reporter) -> None:
    if reasoning.effort is not None:
        fields["reasoning_effort"] = reasoning.effort
    for name, value in (("budget", reasoning.budget), ("enabled", reasoning.enabled)):
        if value is not None:
            report.at(f"$.options.reasoning.{name}", "reasoning", "this model takes a word for the effort only")
    if any(not key.startswith("~") for key in _held(reasoning.extra)):
        report.at(f"$.options.reasoning.extra.{API}", "extra", "this model takes a word for the effort only")


def _encode_schema(schema: OutputSchema) -> dict[str, Any]:
    """Structured output: the schema travels as text."""
    inner: dict[str, Any] = {"schema": _schema_text(schema)}
    if schema.name is not None:
        inner["name"] = schema.name
    if schema.description is not None:
        inner["description"] = schema.description
    return restored({"type": "json_schema", "structure": {"jsonSchema": inner}}, schema.extra, API)


def _schema_text(schema: OutputSchema) -> str:
    spelled = _held(schema.extra).get(SPELLED)
    if spelled is not None and jsontext.read(spelled) == schema.schema:
        return string(spelled)
    return jsontext.compact(schema.schema)


# --- answers ---------------------------------------------------------------------------------------------------------


@reading(API)
def decode_response(
    body: Any, *, model: str | None = None, provider: str | None = None, timestamp: int | None = None
) -> AssistantMessage:
    """A whole answer."""
    wire = an_object(body_of(body, API), API)
    if "output" not in wire:
        raise decode_error(0, wire)
    content = an_object(an_object(wire["output"], API, "$.output")["message"], API, "$.output.message")["content"]
    base = AssistantMessage(content=(), api=API, provider=provider, model=model, timestamp=timestamp)
    return _decode_answer(wire, tuple(each(content, "output.message.content", API, decode_block)), base)


def _decode_answer(wire: dict[str, Any], content: tuple[Block, ...], base: AssistantMessage) -> AssistantMessage:
    """The message whose envelope is `wire` and whose content is read already."""
    word = optional(wire.get("stopReason"))
    reason = settle(STOP_REASONS.get(word or ""), content)
    message = replace(
        base,
        content=content,
        usage=_decode_usage(wire.get("usage")),
        stop_reason=reason,
        stop_detail=word,
        error_message=f"the provider stopped: {_told(wire, word)}" if reason == "error" else None,
    )
    held = residual(wire, _encode_answer(message, wire["output"]["message"]["content"]))
    return with_held(message, API, **{RESPONSE: held}) if held else message


def _told(wire: dict[str, Any], word: str | None) -> str:
    """The word for the end, and the guardrail's reason where it gives one."""
    reason = _dict(_dict(wire.get("trace")).get("guardrail")).get("actionReason")
    told = word or "no reason given"
    return f"{told}: {reason}" if isinstance(reason, str) else told


def _decode_usage(wire: Any) -> Usage | None:
    if not isinstance(wire, dict):
        return None
    # `inputTokens` excludes what was read from or written to the cache; `totalTokens` counts everything.
    usage = Usage.of(
        count(wire, "inputTokens"),
        count(wire, "outputTokens"),
        cache_read=count(wire, "cacheReadInputTokens"),
        cache_write=count(wire, "cacheWriteInputTokens"),
        total_tokens=whole(wire.get("totalTokens")),
    )
    return keeping(usage, API, wire, _encode_usage(usage))


def _encode_usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
    wire: dict[str, Any] = {
        "inputTokens": usage.input,
        "outputTokens": usage.output,
        "totalTokens": usage.total_tokens,
    }
    if usage.cache_read:
        wire["cacheReadInputTokens"] = usage.cache_read
    if usage.cache_write:
        wire["cacheWriteInputTokens"] = usage.cache_write
    return restored(wire, usage.extra, API)


def encode_response(message: AssistantMessage) -> Encoded:
    """The body of a whole answer."""
    report = Reporter("$")
    content = _encode_content(message.content, report, points=False)
    return encoded(API, _whole_answer(message, content), message, ANSWER_FATES, report.losses)


def _whole_answer(message: AssistantMessage, content: list[Any]) -> dict[str, Any]:
    return put_back(_encode_answer(message, content), _held(message.extra).get(RESPONSE, {}))


def _encode_answer(message: AssistantMessage, content: list[Any]) -> dict[str, Any]:
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": _stop_word(message),
        "usage": _encode_usage(message.usage),
        "metrics": {"latencyMs": 0},  # clients of this wire count on its being there
    }


def _stop_word(message: AssistantMessage) -> str | None:
    word = message.stop_detail
    if word in STOP_REASONS and settle(STOP_REASONS[word], blocks_of(message.content)) == message.stop_reason:
        return word
    return SAID_STOPS.get(message.stop_reason or "")


ANSWER_FATES: Fates = {
    **FATES,
    **dropped(
        "TextBlock.cache ImageBlock.cache AudioBlock.cache DocumentBlock.cache ToolCall.cache ServerToolCall.cache"
        " ServerToolResult.cache",
        "an answer has no cache points",
    ),
    **kept("AssistantMessage.usage AssistantMessage.stop_reason"),
    **some("AssistantMessage.stop_detail AssistantMessage.error_message", "said where the wire knows the word"),
    **kept("Usage.input Usage.output Usage.cache_read Usage.cache_write Usage.total_tokens"),
    **record("Usage.cost Usage.reasoning", "the wire does not count it"),
    **dropped("AssistantMessage.extra", "it is of the message as a request has it"),
}


# --- streams ---------------------------------------------------------------------------------------------------------


def framing(content_type: str | None = None) -> AWSEventStream | JSONArray:
    if content_type is not None and content_type.partition(";")[0].strip().lower() == "application/json":
        return JSONArray()  # an error, or a whole answer from a host that does not stream
    return AWSEventStream()


class _Open:
    """A block of the wire's answer while it streams: its kind, and what has come of it beside the recorded text."""

    __slots__ = ("citations", "held", "kind", "pieces", "sealed", "wire")

    def __init__(self, kind: str, wire: dict[str, Any] | None = None) -> None:
        self.kind = kind
        self.wire: dict[str, Any] = {} if wire is None else wire
        self.pieces: list[str] = []  # of arguments, a signature or a picture
        self.sealed: list[str] = []  # of redacted thinking
        self.citations: list[Any] = []
        self.held: dict[str, Any] = {}


class StreamDecoder(Decoder):
    """Frames of a streamed answer to events."""

    API = API

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        # The wire's whole answer, without its content.
        self._shell: dict[str, Any] = {"output": {"message": {}}}
        self._blocks: dict[Any, _Open] = {}  # the wire's open blocks, by index
        self._stopped = False

    def _read(self, value: Any, frame: Frame) -> None:
        name = frame.event
        if name == "contentBlockDelta":
            key, delta = value["contentBlockIndex"], value["delta"]
            text = delta.get("text")
            if text:
                block = self._blocks.get(key)
                if block is not None and block.kind == "text":
                    self._record.delta(key, text)
                    return
            self._delta(key, delta)
        elif name in _HANDLERS:
            _HANDLERS[name](self, value)
        elif frame.headers is not None and frame.headers.get(":message-type", "event") != "event":
            self._failed(value, frame)
        elif not name:
            self._unnamed(value, frame)

    def _unreadable(self, frame: Frame, error: FormatError) -> None:
        words = (frame.headers or {}).get(":error-message")
        if isinstance(words, str):  # an error without a payload says it all in its headers
            self._failed({"message": words}, frame)
        else:
            super()._unreadable(frame, error)

    def _complete(self) -> bool:
        return self._stopped

    def _start(self, event: dict[str, Any]) -> None:
        self._shell["output"]["message"].update(_unpadded(event))
        self._record.begin()

    def _open(self, event: dict[str, Any]) -> None:
        key, start = event["contentBlockIndex"], dict(event["start"])
        if key in self._blocks:
            self._close(event)
        kind = next(iter(start), "") if len(start) == 1 else ""
        given: Any = start.get(kind)
        if start == {"text": ""}:
            self._begin(key, "text")
        elif kind == "toolUse" and _is_named(given):
            self._open_call(key, dict(given))
        else:
            apart = kind in ("toolResult", "image") and isinstance(given, dict)
            self._blocks[key] = _Open(kind, dict(given)) if apart else _Open("", start)
            self._record.open(key, OpaqueBlock(dialect=API, value=start))

    def _open_call(self, key: Any, use: dict[str, Any]) -> None:
        if use.get("type") == _SERVER:
            self._blocks[key] = _Open(_SERVER, use)
            self._record.open(key, ServerToolCall(id=use["toolUseId"], name=use["name"]))
        else:
            self._blocks[key] = _Open("toolUse", use)
            self._record.open(key, ToolCall(id=use["toolUseId"], name=use["name"], arguments={}))

    def _begin(self, key: Any, kind: str) -> _Open:
        """Opens a block that begins with its first delta."""
        if key in self._blocks:  # another kind under the same index: what came before was a block of its own
            self._close({"contentBlockIndex": key})
        self._blocks[key] = block = _Open(kind)
        if kind == "text":
            self._record.open(key, TextBlock(text=""))
        elif kind == "reasoning":
            self._record.open(key, ThinkingBlock(thinking=""))
        else:
            self._record.open(key, OpaqueBlock(dialect=API, value=None))
        return block

    def _delta(self, key: Any, delta: dict[str, Any]) -> None:
        block = self._blocks.get(key)
        for kind, value in delta.items():
            if kind == "~":  # what our own encoder could not say in the wire's words
                if block is not None:
                    block.held = dict(value)
                continue
            sort = _SORTS.get(kind, "")
            if block is None or not _goes_on(block, sort):
                block = self._begin(key, sort)
            self._grow(key, block, kind, value)

    def _grow(self, key: Any, block: _Open, kind: str, value: Any) -> None:
        match kind:
            case "text":
                self._record.delta(key, string(value))
            case "toolUse":
                piece = string(value["input"])
                if block.kind == "toolUse":
                    self._record.delta(key, piece)
                block.pieces.append(piece)
            case "reasoningContent":
                self._grow_reasoning(key, block, value)
            case "citation":
                block.citations.append(value)
            case "toolResult":
                block.wire.setdefault("content", []).extend(value)
            case "image":
                _grow_image(block, value)
            case _:
                block.wire = {**block.wire, kind: value}

    def _grow_reasoning(self, key: Any, block: _Open, value: dict[str, Any]) -> None:
        for field, piece in value.items():
            if field == "text":
                self._record.delta(key, string(piece))
            elif field == "signature":
                block.pieces.append(string(piece))
            elif field == "redactedContent":
                block.sealed.append(string(piece))

    def _close(self, event: dict[str, Any]) -> None:
        key = event["contentBlockIndex"]
        if key in self._blocks:
            self._record.close(key, self._finished(key, self._blocks.pop(key)))

    def _finished(self, key: Any, block: _Open) -> Block:
        """The block, read from what the whole answer would have shown."""
        wire = self._assembled(key, block)
        text = broken = None
        if block.kind == "toolUse":
            text = "".join(block.pieces)
            arguments, _, broken = parse_arguments(text)
            wire["toolUse"]["input"] = arguments or wire["toolUse"].get("input", {})
        wire = put_back(wire, block.held)
        read = decode_block(wire)
        if broken is not None and isinstance(read, ToolCall):
            return replace(read, arguments_text=text, parse_error=broken)
        return read

    def _assembled(self, key: Any, block: _Open) -> dict[str, Any]:
        match block.kind:
            case "text":
                return _said_text(self._record.text(key), block.citations)
            case "reasoning":
                if block.sealed:
                    return {"reasoningContent": {"redactedContent": _joined_base64(block.sealed)}}
                signature = "".join(block.pieces) if block.pieces else None
                return _said_reasoning(self._record.text(key), signature)
            case "server_tool_use":
                return {"toolUse": {**block.wire, "input": _any_json("".join(block.pieces), block.wire)}}
            case "image" if block.pieces:
                source = {**block.wire.get("source", {}), "bytes": _joined_base64(block.pieces)}
                return {"image": {**block.wire, "source": source}}
            case "toolUse" | "toolResult" | "image":
                return {block.kind: block.wire}
            case _:
                return dict(block.wire)

    def _stop(self, event: dict[str, Any]) -> None:
        self._shell.update(_unpadded(event))
        self._stopped = True

    def _metadata(self, event: dict[str, Any]) -> None:
        told = _unpadded(event)
        output = told.pop("output", None)
        if isinstance(output, dict):  # what our own encoder knew too late for the start of the message
            message = {**self._shell["output"]["message"], **_dict(output.get("message"))}
            self._shell["output"] = {**output, "message": message}
        self._shell.update(told)
        self._record.note(usage=_decode_usage(self._shell.get("usage")))
        if self._stopped:
            self._finish()

    def _finish(self) -> None:
        self._close_blocks()
        output = self._shell["output"]
        wire = {**self._shell, "output": {**output, "message": {**output["message"], "content": []}}}
        self._record.end(_decode_answer(wire, tuple(self._record.content), self._given))

    def _unnamed(self, value: Any, frame: Frame) -> None:
        """A frame without a name: an event inside an object that names it, a whole answer, or an error."""
        name = next((name for name in value if name in _NAMES), None)
        if name is not None:
            self._read(value[name], Frame(b"", name))
        elif "output" in value:
            self._shell = {**value, "output": {**value["output"], "message": dict(value["output"]["message"])}}
            for key, block in enumerate(map(decode_block, self._shell["output"]["message"].pop("content"))):
                self._record.whole(key, block)
            self._finish()
        else:
            self._failed(value, frame)

    def _failed(self, value: Any, frame: Frame) -> None:
        error = decode_error(0, value, {"x-amzn-errortype": frame.event})
        # The name first: throttling speaks of too many tokens, which must not pass for too long a conversation.
        self._fail(f"{error.code}: {error.message}" if error.code else error.message, detail=error.code)

    def _close_blocks(self) -> None:
        for key in list(self._blocks):
            self._close({"contentBlockIndex": key})


_SORTS = {
    "text": "text",
    "citation": "text",
    "reasoningContent": "reasoning",
    "toolUse": "toolUse",
    "toolResult": "toolResult",
    "image": "image",
}
_HANDLERS: dict[str, Callable[[StreamDecoder, dict[str, Any]], None]] = {
    "messageStart": StreamDecoder._start,
    "contentBlockStart": StreamDecoder._open,
    "contentBlockStop": StreamDecoder._close,
    "messageStop": StreamDecoder._stop,
    "metadata": StreamDecoder._metadata,
}
_NAMES = frozenset({"contentBlockDelta", *_HANDLERS})


def _is_named(use: Any) -> bool:
    return isinstance(use, dict) and isinstance(use.get("toolUseId"), str) and isinstance(use.get("name"), str)


def _goes_on(block: _Open, sort: str) -> bool:
    return block.kind == sort or (sort == "toolUse" and block.kind == _SERVER)


def _unpadded(event: dict[str, Any]) -> dict[str, Any]:
    """An event without `p`, the noise that hides how long its payload is."""
    return {key: value for key, value in event.items() if key != "p"}


def _said_text(text: str, citations: list[Any]) -> dict[str, Any]:
    if citations:
        return {"citationsContent": {"content": [{"text": text}], "citations": citations}}
    return {"text": text}


def _said_reasoning(text: str, signature: str | None) -> dict[str, Any]:
    told = {"text": text} if signature is None else {"text": text, "signature": signature}
    return {"reasoningContent": {"reasoningText": told}}


def _any_json(text: str, use: dict[str, Any]) -> Any:
    """Arguments of a provider's own tool: any JSON value; text that is none stays text."""
    if not text:
        return use.get("input", {})
    try:
        return jsontext.read(text)
    except FormatError:
        return text


def _grow_image(block: _Open, delta: dict[str, Any]) -> None:
    for key, value in delta.items():
        if key == "source" and isinstance(value, dict) and isinstance(value.get("bytes"), str):
            block.pieces.append(value["bytes"])
            value = {name: told for name, told in value.items() if name != "bytes"}
        block.wire[key] = value


def _joined_base64(pieces: list[str]) -> str:
    """The base64 of blobs in a row; a single one stays as it is spelled."""
    said = [piece for piece in pieces if piece]
    if len(said) < 2:
        return "".join(said)
    try:
        return base64.b64encode(b"".join(map(base64.b64decode, said))).decode()
    except binascii.Error:
        return "".join(said)


class StreamEncoder:
    """Events to the bytes of a streamed answer."""

    def __init__(self, *, request: Request | None = None) -> None:
        self._closed = False
        self._sealed: set[int] = set()  # redacted blocks, which have no text to stream
        self._calls: dict[int, dict[str, Any]] = {}  # how calls were announced
        self._first: dict[str, Any] = {}

    def feed(self, event: StreamEvent) -> bytes:
        if self._closed:
            return b""
        match event:
            case TextDelta():
                return _delta(event.content_index, {"text": event.delta})
            case ThinkingDelta():
                if event.content_index in self._sealed:
                    return b""
                return _delta(event.content_index, {"reasoningContent": {"text": event.delta}})
            case ToolCallDelta():
                return _delta(event.content_index, {"toolUse": {"input": event.delta}})
            case Start():
                self._first = _without_content(_whole_answer(event.partial or AssistantMessage(content=()), []))
                return _event("messageStart", self._first)
            case TextStart():  # an empty delta opens the block, as the wire has no start for text
                return _delta(event.content_index, {"text": ""})
            case ThinkingStart():
                if event.block is not None and event.block.redacted:
                    self._sealed.add(event.content_index)
                    return b""
                return _delta(event.content_index, {"reasoningContent": {"text": ""}})
            case ToolCallStart():
                call = event.block or ToolCall(id="", name="", arguments={})
                self._calls[event.content_index] = start = {"toolUseId": call.id, "name": call.name}
                return _opening(event.content_index, {"toolUse": start})
            case TextEnd() | ThinkingEnd() | ToolCallEnd() | BlockEnd():
                return self._closing(event)
            case Done():
                self._closed = True
                return self._last(event.message)
            case Error():
                self._closed = True
                return self._last(event.error) if _is_own_end(event.error) else _failure(event.error)
            case _:
                return b""

    def close(self) -> bytes:
        """Nothing is owed after the terminal event; a stream without one is cut off, and says so."""
        if self._closed:
            return b""
        self._closed = True
        return _failure(AssistantMessage(content=(), error_message=CUT_OFF))

    def _closing(self, event: TextEnd | ThinkingEnd | ToolCallEnd | BlockEnd) -> bytes:
        """The end of a block, after whatever its deltas could not say."""
        index = event.content_index
        stop = _event("contentBlockStop", {"contentBlockIndex": index})
        block = event.tool_call if isinstance(event, ToolCallEnd) else event.block
        if block is None:
            return stop
        wire = encode_block(block, QUIET)
        if wire is None:
            return b"" if isinstance(event, BlockEnd) or index in self._sealed else stop
        match event:
            case TextEnd():
                return _rest_of_text(index, event.content, wire) + stop
            case ThinkingEnd():
                return _rest_of_thinking(index, block, wire) + stop  # type: ignore[arg-type]
            case ToolCallEnd():
                said = {"toolUse": {**self._calls.get(index, {}), "input": event.tool_call.arguments}}
                return _rest(index, wire, said) + stop
            case _:
                return _whole_block(index, wire) + stop

    def _last(self, message: AssistantMessage) -> bytes:
        answer = _whole_answer(message, [])
        stop = {key: answer.pop(key) for key in _STOP_KEYS if key in answer}
        told = _without_content(answer)
        output = {key: value for key, value in answer.pop("output").items() if key != "message"}
        late = {key: value for key, value in told.items() if key not in self._first}
        if output or late:
            answer["output"] = {**output, "message": late}
        return _event("messageStop", stop) + _event("metadata", answer)


def _is_own_end(message: AssistantMessage) -> bool:
    """Whether the wire has a word of its own for how this failed, so that it is no exception there."""
    return message.stop_detail is not None and _whole_answer(message, []).get("stopReason") == message.stop_detail


_STOP_KEYS: tuple[str, ...] = ("stopReason", "additionalModelResponseFields")


def _event(name: str, value: dict[str, Any]) -> bytes:
    return write_aws(name, jsontext.write(value))


def _delta(index: int, delta: dict[str, Any]) -> bytes:
    return _event("contentBlockDelta", {"contentBlockIndex": index, "delta": delta})


def _opening(index: int, start: Any) -> bytes:
    return _event("contentBlockStart", {"contentBlockIndex": index, "start": start})


def _rest(index: int, wire: dict[str, Any], said: dict[str, Any]) -> bytes:
    """What the deltas so far got wrong, for our own decoder; other clients see a delta that they do not know."""
    held = residual(wire, said)
    return _delta(index, {"~": held}) if held else b""


def _rest_of_text(index: int, text: str, wire: dict[str, Any]) -> bytes:
    citations = _dict(wire.get("citationsContent")).get("citations") or []
    cited = b"".join(_delta(index, {"citation": citation}) for citation in citations)
    return cited + _rest(index, wire, _said_text(text, citations))


def _rest_of_thinking(index: int, block: ThinkingBlock, wire: dict[str, Any]) -> bytes:
    signature = block.thinking_signature
    if block.redacted:
        said: dict[str, Any] = {"reasoningContent": {"redactedContent": signature}}
        return _delta(index, said) + _rest(index, wire, said)
    signed = b"" if signature is None else _delta(index, {"reasoningContent": {"signature": signature}})
    return signed + _rest(index, wire, _said_reasoning(block.thinking, signature))


def _whole_block(index: int, wire: Any) -> bytes:
    """A block that came at once. The wire streams some kinds in parts; all others are said in their start."""
    kind = next(iter(wire), "") if isinstance(wire, dict) and len(wire) == 1 else ""
    inner = wire[kind] if kind else None
    if not isinstance(inner, dict):
        return _opening(index, wire)
    if kind == "toolUse" and _is_named(inner) and inner.get("type") == _SERVER and "input" in inner:
        start = {key: value for key, value in inner.items() if key != "input"}
        return _opening(index, {kind: start}) + _delta(index, {kind: {"input": jsontext.compact(inner["input"])}})
    if kind == "toolResult" and isinstance(inner.get("content"), list):
        start = {key: value for key, value in inner.items() if key != "content"}
        return _opening(index, {kind: start}) + _delta(index, {kind: inner["content"]})
    if kind == "image" and isinstance(inner.get("source"), dict):
        start = {key: value for key, value in inner.items() if key != "source"}
        return _opening(index, {kind: start}) + _delta(index, {kind: {"source": inner["source"]}})
    return _opening(index, wire)


def _without_content(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer["output"]["message"].items() if key != "content"}


def _failure(message: AssistantMessage) -> bytes:
    """An exception, under the name that the wire gave it if it was its own."""
    told, code = message.error_message or "", message.stop_detail
    if code in EXCEPTIONS:
        told = told.removeprefix(f"{code}: ")
    else:
        code = "internalServerException"
    return write_aws(code, jsontext.write({"message": told}), message_type="exception")


# --- errors, path, conversations -------------------------------------------------------------------------------------

EXCEPTIONS = frozenset(
    {
        "internalServerException",
        "modelStreamErrorException",
        "serviceUnavailableException",
        "throttlingException",
        "validationException",
    }
)


def decode_error(status: int, body: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    """An error answer, or the exception of a stream (status 0). The header names the error; the body rarely does."""
    wire = lenient(body)
    told = wire if isinstance(wire, dict) else {"message": wire}
    words = (told.get(key) for key in ("message", "Message", "originalMessage"))
    message = next((word for word in words if isinstance(word, str) and word), None)
    return provider_error(
        message or (jsontext.compact(wire) if wire else ""),
        status=status,
        code=_code(told, headers or {}),
        headers=headers,
        body=wire,
    )


def _code(wire: dict[str, Any], headers: Mapping[str, str]) -> str | None:
    """`ValidationException`, from `ValidationException:http://…` in the header or `com.amazon…#…` in the body."""
    named = next((value for key, value in headers.items() if key.lower() == "x-amzn-errortype"), None)
    code = named or wire.get("__type") or wire.get("code")
    return code.rpartition("#")[2].partition(":")[0] or None if isinstance(code, str) else None


ERROR_TYPES = {
    400: "ValidationException",
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
    529: "ServiceUnavailableException",
}


def encode_error(error: ProviderError) -> tuple[int, Any]:
    status = status_of(error)
    return status, {"__type": ERROR_TYPES.get(status, "InternalServerException"), "message": error.message}


def path(model: str, stream: bool) -> str:
    return f"/model/{quote(model, safe='')}/converse{'-stream' if stream else ''}"


def decode(data: Any) -> Conversation:
    return decode_conversation(data, API, decode_request, "messages")


def encode(conversation: Conversation) -> Encoded:
    return encode_conversation(conversation, API, encode_request, "messages")
