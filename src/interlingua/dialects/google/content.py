"""Parts and citations: decoding and encoding. ai.google.dev/api/caching, Part."""

import base64
import string as characters
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.losses import QUIET, Reporter
from ...values.messages import (
    AudioBlock,
    Block,
    Citation,
    Content,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
)
from ..residual import GENERATED, Ids, encode_blocks, given_arguments, media_type, optional, residual_of, string, whole
from .facts import API, CODE, FAILED_OUTCOMES, PART, PART_NAMES, URL_SAFE, camel, keeping, restored

# --- wire to ours ----------------------------------------------------------------------------------------------------


def decode_block(wire: Any, ids: Ids) -> Block:
    """Decodes a part; an unknown or malformed one becomes an opaque block."""
    if isinstance(wire, dict):
        if len(wire) == 1 and isinstance(wire.get("text"), str):
            return TextBlock(text=wire["text"])
        snakes: list[str] = []
        part = camel(wire, PART_NAMES, snakes)
        decode = decoder_of(part)
        if decode is not None:
            try:
                block: Block = decode(part, ids)
                return keeping(block, part, encode_block(block, QUIET) or {}, snakes)
            except (KeyError, TypeError, AttributeError, ValueError):
                pass
    elif wire is None:
        raise TypeError("a part must be an object, not null")
    return OpaqueBlock(dialect=API, value=wire)


def decoder_of(part: dict[str, Any]) -> Callable[[dict[str, Any], Ids], Any] | None:
    """The decoder for the data key of a part. A part with only a signature is an empty text."""
    found = [key for key in part if key in DATA]
    if len(found) == 1:
        return _DECODERS.get(found[0])
    return decode_text if not found and "thoughtSignature" in part and part.keys() <= _WITHOUT_DATA else None


def decode_text(part: dict[str, Any], ids: Ids) -> TextBlock | ThinkingBlock:
    text, signature = string(part.get("text", "")), decode_signature(part)
    if part.get("thought") is True:
        return ThinkingBlock(thinking=text, thinking_signature=signature)
    return TextBlock(text=text, text_signature=signature)


def decode_signature(part: Mapping[str, Any]) -> str | None:
    """The signature of a part; one of another provider as it was (see `encode_signature`)."""
    signature = optional(part.get("thoughtSignature"))
    if signature is None or not signature.startswith(_FOREIGN):
        return signature
    try:
        data = base64.b64decode(signature.removeprefix(_FOREIGN).translate(_STANDARD), validate=True)
        return data.decode("utf-8", "surrogatepass")
    except ValueError:
        return signature


def _decode_inline(part: dict[str, Any], ids: Ids) -> Block:
    blob = part["inlineData"]
    mime, data = media_type(blob.get("mimeType")), string(blob["data"])
    # protobuf.dev/programming-guides/json: bytes are accepted in standard and URL-safe base64. google-genai writes
    # the latter; other wires accept only the former.
    if ("-" in data or "_" in data) and "+" not in data and "/" not in data:
        return _media_class(mime)(data=data.translate(_STANDARD), mime_type=mime, extra={API: {URL_SAFE: True}})
    return _media_class(mime)(data=data, mime_type=mime)


_FOREIGN = "aW50ZXJsaW5ndWE6"  # "interlingua:" in base64: the beginning of signatures that were none
_STANDARD = str.maketrans("-_", "+/")
_ALPHANUMERIC = (characters.ascii_letters + characters.digits).encode()
_URL_SAFE = str.maketrans("+/", "-_")


def _decode_file(part: dict[str, Any], ids: Ids) -> Block:
    file = part["fileData"]
    mime = media_type(file.get("mimeType"))
    return _media_class(mime)(url=string(file["fileUri"]), mime_type=mime)


def _media_class(mime: str | None) -> type[ImageBlock] | type[AudioBlock] | type[DocumentBlock]:
    # A part has only a MIME type: `inlineData` and `fileData` are the same for pictures, sounds, videos and files.
    kind = (mime or "").partition("/")[0]
    return ImageBlock if kind == "image" else AudioBlock if kind == "audio" else DocumentBlock


def decode_call(part: dict[str, Any], ids: Ids) -> ToolCall:
    call = part["functionCall"]
    name, given = string(call["name"]), call.get("args", {})
    # protobuf.dev/programming-guides/json: null is accepted for any field, and is its default value.
    if given is None:
        given = {}
    # …/api/caching, FunctionCall: `id` is optional; models before Gemini 3 send none, and pair calls by order and name.
    id, generated = ids.take(call.get("id"))
    return ToolCall(
        id=id,
        name=name,
        **given_arguments(given),
        thought_signature=decode_signature(part),
        extra={API: {GENERATED: True}} if generated else {},
    )


# …, ExecutableCode and CodeExecutionResult: code that Gemini runs itself, as parts of its answer.
def _decode_code(part: dict[str, Any], ids: Ids) -> ServerToolCall:
    code = part["executableCode"]
    rest = {key: value for key, value in code.items() if key != "id"}
    return ServerToolCall(
        id=string(code.get("id", "")), name=CODE, arguments=rest, extra={API: {PART: "executableCode"}}
    )


def _decode_outcome(part: dict[str, Any], ids: Ids) -> ServerToolResult:
    result = part["codeExecutionResult"]
    return ServerToolResult(
        tool_call_id=string(result.get("id", "")),
        tool_name=CODE,
        dialect=API,
        content={key: value for key, value in result.items() if key != "id"},
        is_error=result.get("outcome") in FAILED_OUTCOMES,
        extra={API: {PART: "codeExecutionResult"}},
    )


# …, ToolCall and ToolResponse: tools of Google's servers, shown as parts from Gemini 3 on.
def _decode_server_call(part: dict[str, Any], ids: Ids) -> ServerToolCall:
    call = part["toolCall"]
    return ServerToolCall(
        id=string(call.get("id", "")),
        name=string(call["toolType"]),
        arguments=call.get("args"),
        extra={API: {PART: "toolCall"}},
    )


def _decode_server_result(part: dict[str, Any], ids: Ids) -> ServerToolResult:
    given = part["toolResponse"]
    return ServerToolResult(
        tool_call_id=string(given.get("id", "")),
        tool_name=string(given["toolType"]),
        dialect=API,
        content=given.get("response"),
    )


_DECODERS: dict[str, Callable[[dict[str, Any], Ids], Any]] = {
    "text": decode_text,
    "inlineData": _decode_inline,
    "fileData": _decode_file,
    "functionCall": decode_call,
    "executableCode": _decode_code,
    "codeExecutionResult": _decode_outcome,
    "toolCall": _decode_server_call,
    "toolResponse": _decode_server_result,
}
DATA = frozenset({*_DECODERS, "functionResponse"})
_WITHOUT_DATA = frozenset({"thought", "thoughtSignature", "partMetadata"})


# --- ours to wire ----------------------------------------------------------------------------------------------------


def encode_block(block: Block, report: Reporter) -> dict[str, Any] | None:
    """Encodes a block as a part; None, with a report, if the wire has no such part."""
    wire: dict[str, Any] | None
    match block:
        case TextBlock():
            wire = {"text": block.text}
            if block.text_signature is not None:
                wire["thoughtSignature"] = encode_signature(block.text_signature)
        case ToolCall():
            wire = _encode_call(block, report)
        case ThinkingBlock() if not block.redacted:
            # …, Part: `thought` marks a part as thinking; its signature may be on any part, also on a text or a call.
            wire = {"text": block.thinking, "thought": True}
            if block.thinking_signature is not None:
                wire["thoughtSignature"] = encode_signature(block.thinking_signature)
        case ImageBlock() | AudioBlock() | DocumentBlock():
            wire = _encode_media(block, report)
        case ServerToolCall() if PART in residual_of(block.extra, API):
            wire = _encode_server_call(block)
        case ServerToolResult() if block.dialect == API:
            wire = _encode_server_result(block, report)
        case OpaqueBlock() if block.dialect == API:
            return block.value  # type: ignore[no-any-return]
        case _:
            report.lost(type(block).__name__, "this wire has no such part")
            return None
    return restored(wire, block.extra) if block.extra and wire is not None else wire


def _encode_call(call: ToolCall, report: Reporter) -> dict[str, Any]:
    encoded: dict[str, Any] = {"name": call.name, "args": call.arguments}
    if not is_generated(call):
        if call.id:
            encoded["id"] = call.id
        else:
            report.lost("id", "an empty id is none", "weakened", field="id")
    wire: dict[str, Any] = {"functionCall": encoded}
    if call.thought_signature is not None:
        wire["thoughtSignature"] = encode_signature(call.thought_signature)
    return wire


def encode_signature(signature: str) -> str:
    """A signature as bytes in JSON. Google's own are base64 and stay as they are; google-genai refuses answers with any
    other."""
    if _is_base64(signature) and not signature.startswith(_FOREIGN):
        return signature
    return _FOREIGN + base64.urlsafe_b64encode(signature.encode("utf-8", "surrogatepass")).decode()


def _is_base64(text: str) -> bool:
    """Whether a text is bytes in JSON: in either alphabet, padded or not (protobuf.dev/programming-guides/json).

    Only the last group is decoded: requests repeat all signatures, and each must be looked at.
    """
    bare = text.rstrip("=")
    group = len(bare) % 4
    if group == 1 or len(text) - len(bare) not in (0, -group % 4) or not bare.isascii():
        return False
    others = bare.encode().translate(None, _ALPHANUMERIC)
    if others.strip(b"+/") and others.strip(b"-_"):
        return False
    if not group:
        return True
    last = bare[-group:].translate(_STANDARD) + "=" * (4 - group)
    return base64.b64encode(base64.b64decode(last)).decode() == last  # its unused bits are zero


def is_generated(value: ToolCall | ToolResultMessage) -> bool:
    return bool(value.extra) and bool(residual_of(value.extra, API).get(GENERATED))


def _encode_media(block: ImageBlock | AudioBlock | DocumentBlock, report: Reporter) -> dict[str, Any] | None:
    """Media as inline data or as a file URI, with the MIME type."""
    text = block.text if isinstance(block, DocumentBlock) else None
    mime = {"mimeType": block.mime_type} if block.mime_type is not None else {}
    wire: dict[str, Any]
    if block.data is not None:
        safe = bool(block.extra) and residual_of(block.extra, API).get(URL_SAFE)
        data = block.data.translate(_URL_SAFE) if safe else block.data
        if not safe and ("-" in data or "_" in data):
            report.lost("data", "read as base64 in the URL-safe alphabet", "weakened", field="data")
        wire, used = {"inlineData": {**mime, "data": data}}, "data"
    elif block.url is not None:
        wire, used = {"fileData": {**mime, "fileUri": block.url}}, "url"
    elif text is not None:
        # A text document has no part of its own: `inlineData` with a text type.
        blob = base64.b64encode(jsontext.clean(text).encode()).decode()
        wire, used = {"inlineData": {"mimeType": block.mime_type or "text/plain", "data": blob}}, "text"
    else:
        report.lost(type(block).__name__, "neither data nor an address; uploads to other providers are not known here")
        return None
    if text is not None and used == "text":
        report.lost("text", "sent as base64 data", "weakened")
    elif _media_class(block.mime_type) is not type(block):
        report.lost(type(block).__name__, "the wire has only the MIME type, which differs", "weakened")
    for field, name in (("url", "url"), ("file_id", "fileId"), ("text", "text")):
        if field != used and getattr(block, field, None) is not None:
            report.lost(field, f"the wire has its {used}", field=name)
    return wire


def _encode_server_call(block: ServerToolCall) -> dict[str, Any]:
    """A call of a built-in tool of Google's; those of other providers have no counterpart."""
    id = {"id": block.id} if block.id else {}
    if (
        residual_of(block.extra, API).get(PART) == "executableCode"
        and isinstance(block.arguments, dict)
        and block.name == CODE
    ):
        return {"executableCode": {**id, **block.arguments}}
    args = {"args": block.arguments} if block.arguments is not None else {}
    return {"toolCall": {**id, "toolType": block.name, **args}}


def _encode_server_result(block: ServerToolResult, report: Reporter) -> dict[str, Any]:
    id = {"id": block.tool_call_id} if block.tool_call_id else {}
    content = block.content
    failed = False
    if (
        residual_of(block.extra, API).get(PART) == "codeExecutionResult"
        and isinstance(content, dict)
        and block.tool_name == CODE
    ):
        wire = {"codeExecutionResult": {**id, **content}}
        failed = content.get("outcome") in FAILED_OUTCOMES
    else:
        # …, ToolResponse: no flag for a failure, as `outcome` is of executed code.
        response = {"response": content} if content is not None else {}
        wire = {"toolResponse": {**id, "toolType": block.tool_name, **response}}
    if block.is_error != failed:
        report.lost("is_error", "only the outcome of code has it", "weakened", field="isError")
    return wire


def encode_content(content: Content, report: Reporter) -> list[Any] | None:
    if not isinstance(content, tuple):
        if content is None:
            return None
        # A string is encoded like one text part, and decoded as one.
        report.lost("content", "content is a list of parts in this wire", "record", field="content")
        return [{"text": content}]
    return encode_blocks(content, encode_block, report, API)


def listed(value: Any) -> Any:
    """A single object is accepted for a list of one."""
    return [value] if isinstance(value, dict) else value


# Citations from the metadata of a candidate: groundingMetadata and citationMetadata.


def with_citations(content: tuple[Block, ...], candidate: Mapping[str, Any]) -> tuple[Block, ...]:
    """The content with the citations of the candidate's metadata whose position is exact.

    The metadata itself is part of the residual; nothing is encoded from here.
    """
    if "groundingMetadata" not in candidate and "citationMetadata" not in candidate:
        return content
    found: dict[int, list[Citation]] = {}
    texts = {at: block.text for at, block in enumerate(content) if isinstance(block, TextBlock)}
    try:
        for at, citation in [*_groundings(candidate, texts), *_citations(candidate, texts)]:
            found.setdefault(at, []).append(citation)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError):
        return content  # unexpected metadata
    return tuple(
        replace(block, citations=tuple(found[at])) if at in found else block for at, block in enumerate(content)
    )


def without_citations(content: tuple[Block, ...]) -> tuple[Block, ...]:
    return tuple(replace(b, citations=()) if isinstance(b, TextBlock) and b.citations else b for b in content)


def _groundings(candidate: Mapping[str, Any], texts: dict[int, str]) -> list[tuple[int, Citation]]:
    """GroundingSupport: a span of the answer, with offsets in bytes, and the chunks that support it."""
    metadata = candidate.get("groundingMetadata") or {}
    # …/api/generate-content, GroundingChunk: a union of `web`, `retrievedContext` and `maps`, so one key.
    sources: list[Any] = [next(iter(chunk.values()), {}) for chunk in metadata.get("groundingChunks") or ()]
    found = []
    for support in metadata.get("groundingSupports") or ():
        segment = support["segment"]
        # An index of 0 is absent: ProtoJSON omits default values.
        place = _placed(segment.get("startIndex", 0), segment["endIndex"], segment["text"], texts)
        if place is None:
            continue
        at, start, end = place
        # …, GroundingSupport: indices into `groundingChunks`, several for one segment.
        for index in support.get("groundingChunkIndices") or ():
            source = sources[index]
            citation = Citation(
                title=optional(source.get("title")),
                url=optional(source.get("uri")),
                cited_text=optional(source.get("text")),
                start=start,
                end=end,
            )
            found.append((at, citation))
    return found


def _placed(start: int, end: int, quoted: str, texts: dict[int, str]) -> tuple[int, int, int] | None:
    """The text block of a span, and its offsets in characters; None if ambiguous."""
    for at, text in texts.items():
        # …, Segment: offsets count UTF-8 bytes within a part.
        raw = text.encode("utf-8", "replace")
        if raw[start:end].decode("utf-8", "replace") == quoted:
            begin = len(raw[:start].decode("utf-8", "replace"))
            return at, begin, begin + len(quoted)
    # The offsets are of a part of Google's, which may be divided otherwise here: a text that occurs once is safe.
    holders = [at for at, text in texts.items() if quoted and text.count(quoted) == 1]
    if len(holders) != 1:
        return None
    begin = texts[holders[0]].index(quoted)
    return holders[0], begin, begin + len(quoted)


def _citations(candidate: Mapping[str, Any], texts: dict[int, str]) -> list[tuple[int, Citation]]:
    """CitationSource: offsets in bytes, for an answer with one text block."""
    metadata = candidate.get("citationMetadata") or {}
    # …/api/generate-content, CitationSource: offsets in the whole answer, without the part that they are in.
    if len(texts) != 1:
        return []
    [(at, text)] = texts.items()
    found = []
    # The Gemini API has `citationSources`, Vertex AI `citations`.
    for source in metadata.get("citationSources") or metadata.get("citations") or ():
        title, url = optional(source.get("title")), optional(source.get("uri"))
        if title is not None or url is not None:
            start, end = whole(source.get("startIndex")), whole(source.get("endIndex"))
            if end is not None:
                start = _characters(text, start or 0)
            found.append((at, Citation(title=title, url=url, start=start, end=end and _characters(text, end))))
    return found


def _characters(text: str, offset: int) -> int:
    return len(text.encode("utf-8", "replace")[:offset].decode("utf-8", "ignore"))
