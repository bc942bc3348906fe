"""Contents and steps: decoding and encoding.

A step of the model is one block, except `model_output`, whose contents are one block each. A block is encoded as a step
of its own; the hint `~shared` marks contents of the same `model_output`.
"""

import base64
from collections.abc import Callable, Iterator
from typing import Any

from ...values import jsontext
from ...values.losses import QUIET, Reporter
from ...values.messages import (
    AudioBlock,
    Block,
    Citation,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    TextBlock,
    ThinkingBlock,
    ToolCall,
)
from ..residual import (
    Ids,
    fields_of,
    given_arguments,
    keeping,
    media_type,
    optional,
    put_back,
    residual,
    residual_of,
    restored,
    string,
    whole,
    with_residual,
)
from .facts import (
    API,
    CITATION,
    CITATIONS,
    CONTENTS,
    GENERATED,
    NO_BLOCK,
    RESOLUTIONS,
    SERVER,
    SHARED,
    STEP,
)

# --- contents: wire to ours ------------------------------------------------------------------------------------------


def decode_content(wire: Any) -> Block:
    """Decodes a content; an unknown one becomes an opaque block."""
    decode = _CONTENTS.get(str(fields_of(wire).get("type")))
    if decode is not None:
        try:
            block = decode(wire)
            return keeping(block, API, wire, encode_content(block, QUIET) or {})
        except (KeyError, TypeError, AttributeError, ValueError):
            pass
    return OpaqueBlock(dialect=API, value={"content": wire})


def _decode_text(wire: dict[str, Any]) -> TextBlock:
    # `TextContent`: annotations are of this text, with offsets in it.
    text, notes = string(wire["text"]), wire.get("annotations")
    if not isinstance(notes, list) or not all(isinstance(note, dict) for note in notes):
        return TextBlock(text=text)
    return TextBlock(text=text, citations=tuple(_decode_citation(note, text) for note in notes))


def _decode_citation(wire: dict[str, Any], text: str) -> Citation:
    kind = optional(wire.get("type")) or ""
    title, url = CITATIONS.get(kind, CITATIONS["url_citation"])
    start, end = whole(wire.get("start_index")), whole(wire.get("end_index"))
    citation = Citation(
        title=optional(wire.get(title)),
        url=optional(wire.get(url)),
        start=None if start is None else _characters(text, start),
        end=None if end is None else _characters(text, end),
        extra={API: {CITATION: kind}} if kind in CITATIONS and kind != "url_citation" else {},
    )
    return keeping(citation, API, wire, _encode_citation(citation, text))


# "Start of segment of the response that is attributed to this source … measured in bytes" (UrlCitation.start_index).
# Offsets beyond the text are kept relative to its end.


def _characters(text: str, offset: int) -> int:
    if text.isascii() or offset <= 0:
        return offset
    raw = text.encode("utf-8", "surrogatepass")
    return len(raw[:offset].decode("utf-8", "ignore")) if offset <= len(raw) else len(text) + offset - len(raw)


def _bytes(text: str, offset: int) -> int:
    if text.isascii() or offset <= 0:
        return offset
    size = len(text[:offset].encode("utf-8", "surrogatepass"))
    return size + max(offset - len(text), 0)


def _decode_media(wire: dict[str, Any]) -> Block:
    given: dict[str, Any] = {"mime_type": media_type(wire.get("mime_type"))}
    # `ImageContent` and the others: `data` (base64) or `uri`, and a MIME type.
    if isinstance(wire.get("data"), str):
        given["data"] = wire["data"]
    else:
        given["url"] = string(wire["uri"])
    if wire["type"] == "audio":
        return AudioBlock(**given)
    if wire["type"] != "image":
        return DocumentBlock(**given)
    resolution = wire.get("resolution")
    return ImageBlock(**given, detail=resolution if resolution in RESOLUTIONS else None)


_CONTENTS: dict[str, Callable[[dict[str, Any]], Block]] = {
    "text": _decode_text,
    **dict.fromkeys(CONTENTS - {"text"}, _decode_media),
}

# --- contents: ours to wire ------------------------------------------------------------------------------------------


def encode_content(block: Block, report: Reporter) -> Any:
    """Encodes a block as a content; None, with a report, if the wire has no such content."""
    wire: dict[str, Any] | None
    match block:
        case TextBlock():
            wire = {"type": "text", "text": block.text}
            if block.citations:
                wire["annotations"] = [_encode_citation(citation, block.text) for citation in block.citations]
        case ImageBlock() | AudioBlock() | DocumentBlock():
            wire = _encode_media(block, report)
        case OpaqueBlock() if _is_own(block, "content"):
            return block.value["content"]
        case _:
            report.lost(type(block).__name__, NO_BLOCK)
            return None
    return restored(wire, block.extra, API) if block.extra and wire is not None else wire


def _is_own(block: OpaqueBlock, kind: str) -> bool:
    return block.dialect == API and isinstance(block.value, dict) and block.value.keys() == {kind}


def _encode_citation(citation: Citation, text: str) -> dict[str, Any]:
    kind = residual_of(citation.extra, API).get(CITATION, "url_citation")
    title, url = CITATIONS.get(kind, CITATIONS["url_citation"])
    wire: dict[str, Any] = {"type": kind}
    given = {
        "start_index": None if citation.start is None else _bytes(text, citation.start),
        "end_index": None if citation.end is None else _bytes(text, citation.end),
        url: citation.url,
        title: citation.title,
    }
    wire |= {key: value for key, value in given.items() if value is not None}
    return restored(wire, citation.extra, API) if citation.extra else wire


def _encode_media(block: ImageBlock | AudioBlock | DocumentBlock, report: Reporter) -> dict[str, Any] | None:
    """Media as data or as a URI."""
    text = block.text if isinstance(block, DocumentBlock) else None
    mime = {} if block.mime_type is None else {"mime_type": block.mime_type}
    if block.data is not None:
        used, source = "data", {"data": block.data, **mime}
    elif block.url is not None:
        used, source = "url", {"uri": block.url, **mime}
    elif text is not None:
        # A text document is base64 like any other: `DocumentContent` has no text.
        data = base64.b64encode(jsontext.clean(text).encode()).decode()
        used, source = "text", {"data": data, "mime_type": block.mime_type or "text/plain"}
        report.lost("text", "sent as base64 data", "weakened")
    else:
        report.lost(type(block).__name__, "neither data nor an address; uploads to other providers are not known here")
        return None
    for field, name in (("url", "url"), ("file_id", "fileId"), ("text", "text")):
        if field != used and getattr(block, field, None) is not None:
            report.lost(field, f"the wire has its {used}", field=name)
    wire = {"type": _media_kind(block), **source}
    if isinstance(block, ImageBlock) and block.detail is not None:
        if block.detail in RESOLUTIONS:
            wire["resolution"] = block.detail
        else:
            report.lost("detail", "no resolution of this wire", field="detail")
    return wire


def _media_kind(block: ImageBlock | AudioBlock | DocumentBlock) -> str:
    if isinstance(block, DocumentBlock):
        return "video" if (block.mime_type or "").startswith("video/") else "document"
    return "image" if isinstance(block, ImageBlock) else "audio"


# --- steps of the model: wire to ours --------------------------------------------------------------------------------


def decode_step(wire: Any, ids: Ids) -> list[Block]:
    """The blocks of a step: one, or one for each content of `model_output`."""
    step = fields_of(wire)
    if step.get("type") == "model_output":
        return _decode_output(step)
    decode = _decoder_of(step.get("type"))
    if decode is not None:
        try:
            block: Any = decode(step, ids)
            return [keeping(block, API, step, encode_step(block, QUIET) or {})]
        except (KeyError, TypeError, AttributeError, ValueError):
            pass
    return [OpaqueBlock(dialect=API, value={"step": wire})]


def _decode_output(step: dict[str, Any]) -> list[Block]:
    items = step.get("content")
    if isinstance(items, str):
        items = [{"type": "text", "text": items}]
    # `ModelOutputStep.content` is optional: a failed step has `error` in its place.
    if not isinstance(items, list) or not items:
        return [OpaqueBlock(dialect=API, value={"step": step})]
    blocks: list[Any] = [decode_content(item) for item in items]
    contents = [encode_content(block, QUIET) for block in blocks]
    given = {**step, "content": contents} if isinstance(step["content"], list) else step
    rest = residual(given, {"type": "model_output", "content": contents})
    blocks[1:] = [with_residual(block, API, **{SHARED: True}) for block in blocks[1:]]
    if rest:
        blocks[0] = with_residual(blocks[0], API, **{STEP: rest})
    return blocks


def _decoder_of(kind: Any) -> Callable[[dict[str, Any], Ids], Block] | None:
    if not isinstance(kind, str):
        return None
    # A step of each tool has its own type; new tools follow the same pattern.
    if kind.endswith("_call") and kind != "function_call":
        return _decode_server_call
    if kind.endswith("_result") and kind != "function_result":
        return _decode_server_result
    return _decode_thought if kind == "thought" else _decode_call if kind == "function_call" else None


def _decode_thought(step: dict[str, Any], ids: Ids) -> ThinkingBlock:
    # "An array of content (text and/or images) summarizing the reasoning"; a stream has one text in fragments.
    items = step.get("summary")
    texts = [item["text"] for item in items if item["type"] == "text"] if isinstance(items, list) else ()
    return ThinkingBlock(thinking="".join(map(string, texts)), thinking_signature=optional(step.get("signature")))


def _decode_call(step: dict[str, Any], ids: Ids) -> ToolCall:
    name, given = string(step["name"]), step.get("arguments", {})
    id, generated = ids.take(step.get("id"))
    return ToolCall(
        id=id,
        name=name,
        **given_arguments({} if given is None else given),
        thought_signature=optional(step.get("signature")),
        extra={API: {GENERATED: True}} if generated else {},
    )


# Calls of tools that Google runs (`google_search_call`, `code_execution_call`, `mcp_server_tool_call`), and results.


def _decode_server_call(step: dict[str, Any], ids: Ids) -> ServerToolCall:
    return ServerToolCall(
        id=string(step["id"]),
        name=step["type"].removesuffix("_call"),
        arguments=step.get("arguments"),
        extra={API: {SERVER: True}},
    )


def _decode_server_result(step: dict[str, Any], ids: Ids) -> ServerToolResult:
    return ServerToolResult(
        tool_call_id=string(step["call_id"]),
        tool_name=step["type"].removesuffix("_result"),
        dialect=API,
        content=step.get("result"),
        is_error=step.get("is_error") is True,
    )


# --- steps of the model: ours to wire --------------------------------------------------------------------------------


def encode_steps(blocks: tuple[Block, ...], report: Reporter) -> list[Any]:
    """The steps of an answer."""
    steps: list[Any] = []
    output: list[Any] | None = None  # the contents of the latest step, while it can have more
    for at, block in enumerate(blocks):
        report.block = at
        wire = encode_step(block, report) if is_step(block) else encode_content(block, report)
        if wire is None:
            continue
        if is_step(block):
            output = None
            steps.append(wire)
        elif output is not None and residual_of(block.extra, API).get(SHARED):
            output.append(wire)
        else:
            output = [wire]
            steps.append(encode_output(block, output))
    report.block = None
    return steps


def is_step(block: Block) -> bool:
    """Whether a block is encoded as a step, not as a content."""
    if isinstance(block, OpaqueBlock):
        return _is_own(block, "step")
    return isinstance(block, ThinkingBlock | ToolCall | ServerToolCall | ServerToolResult)


def encode_output(block: Block, contents: list[Any]) -> dict[str, Any]:
    """A `model_output` with the residual of its first block."""
    return put_back({"type": "model_output", "content": contents}, residual_of(block.extra, API).get(STEP, {}))


def encode_step(block: Block, report: Reporter) -> Any:
    wire: dict[str, Any]
    match block:
        case ThinkingBlock():
            wire = {"type": "thought"}
            if block.thinking_signature is not None:
                wire["signature"] = block.thinking_signature
            if block.thinking:
                wire["summary"] = [{"type": "text", "text": block.thinking}]
        case ToolCall():
            wire = _encode_call(block, report)
        case ServerToolCall() if residual_of(block.extra, API).get(SERVER) and block.name != "function":
            wire = {"type": f"{block.name}_call", "id": block.id}
            if block.arguments is not None:
                wire["arguments"] = block.arguments
        case ServerToolResult() if block.dialect == API and block.tool_name != "function":
            wire = {"type": f"{block.tool_name}_result", "call_id": block.tool_call_id}
            if block.content is not None:
                wire["result"] = block.content
            if block.is_error:
                wire["is_error"] = True
        case OpaqueBlock():
            return block.value["step"]
        case _:
            report.lost(type(block).__name__, "a tool that this wire does not have")
            return None
    return restored(wire, block.extra, API) if block.extra else wire


def _encode_call(call: ToolCall, report: Reporter) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "function_call", "name": call.name, "arguments": call.arguments}
    if not residual_of(call.extra, API).get(GENERATED):
        if call.id:
            wire["id"] = call.id
        else:
            report.lost("id", "a call without an id is given one", "record", field="id")
    if call.thought_signature is not None:
        wire["signature"] = call.thought_signature
    return wire


# Answers of the first revision (until June 2026) have `outputs`: contents and steps in one list.


def decode_outputs(items: list[Any], ids: Ids) -> Iterator[Block]:
    for item in items:
        if fields_of(item).get("type") in CONTENTS:
            yield decode_content(item)
        else:
            yield from decode_step(item, ids)


def encode_outputs(blocks: tuple[Block, ...], report: Reporter) -> list[Any]:
    outputs: list[Any] = []
    for at, block in enumerate(blocks):
        report.block = at
        item = encode_step(block, report) if is_step(block) else encode_content(block, report)
        if item is not None:
            outputs.append(item)
    report.block = None
    return outputs
