"""Parts of input, message items, and the other items of the model: decoding and encoding."""

import base64
import functools
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.folding import arguments_text, parse_arguments
from ...values.losses import QUIET, Reporter
from ...values.messages import (
    AudioBlock,
    Block,
    CacheMarker,
    Citation,
    Content,
    DocumentBlock,
    Extra,
    ImageBlock,
    OpaqueBlock,
    ServerToolCall,
    TextBlock,
    ThinkingBlock,
    ToolCall,
)
from ..openai_shared import data_url, read_data_url
from ..residual import (
    GENERATED,
    HINTS,
    JOINED,
    MESSAGE,
    RESPONSE,
    decode_typed,
    encode_blocks,
    keeping,
    media_type,
    optional,
    put_back,
    residual,
    restored,
    same,
    string,
    whole,
)
from .facts import (
    API,
    AS_TEXT,
    CITATIONS,
    CONTENT,
    CUSTOM,
    FORM,
    HIDDEN,
    NULLS,
    PARTS,
    SERVER_CALLS,
    STRING,
    SUMMARY,
    Mint,
)

# The residual of an item, and the default fields of items in an answer.


NAMES = ("id", "phase")  # fields of a message item that are stored on its first block
NO_HINTS: Mapping[str, Any] = {}


def kind_of(wire: Mapping[str, Any]) -> str:
    """The type of an item; optional for messages."""
    # …/responses/create, `input`: a message with a role and content needs no type; an item with only an id refers to
    # another.
    kind = wire.get("type")
    if kind is None:
        return "message" if "role" in wire else "item_reference"
    return kind if isinstance(kind, str) else ""


def residual_of(
    wire: Mapping[str, Any], encoded: Mapping[str, Any], kind: str, at: int, stem: str | None
) -> dict[str, Any]:
    """The residual of an item whose blocks are encoded as `encoded`.

    For an answer (`stem` as of `id_stem`), default fields (`default_fields`) are not stored, and fields that are
    refused as input are under `~response`, which is restored only in answers.
    """
    if stem is None:
        return residual(wire, encoded)
    usual = default_fields(kind, at, stem)
    named = {"id": wire["id"]} if "id" in wire and "id" in usual and "id" not in encoded else {}
    if same(wire, {**usual, **encoded, **named}):  # most are: only the id is the provider's own
        return {} if named == {"id": usual.get("id")} else named
    sent: dict[str, Any] = {}
    hidden: dict[str, Any] = {}
    for key, value in wire.items():
        if key in encoded:
            sent[key] = value
        elif key == "status":
            (hidden if kind in HIDDEN else sent)[key] = value
        elif (value is None and key in NULLS) or (key in usual and same(value, usual[key])):
            hidden[key] = value
        else:
            sent[key] = value
    expected = {key: value for key, value in usual.items() if key not in sent}
    if "arguments" in sent and not sent["arguments"]:  # blank means none
        hidden["arguments"], expected["arguments"] = sent["arguments"], encoded["arguments"]
        sent["arguments"] = encoded["arguments"]
    extra_fields, rest = residual(sent, encoded), residual(hidden, expected)
    return {**extra_fields, RESPONSE: rest} if rest else extra_fields


def id_stem(response_id: Any) -> str:
    """The part of default item ids that distinguishes responses: clients refer to an item by its id alone.

    A digest, since ids of items have at most 64 characters, and those of responses are of any provider.
    """
    return _id_stem(response_id) if isinstance(response_id, str) and response_id else ""


@functools.lru_cache(maxsize=1024)
def _id_stem(response_id: str) -> str:
    return hashlib.blake2b(response_id.encode("utf-8", "replace"), digest_size=12).hexdigest() + "_"


def default_fields(kind: str, at: int, stem: str) -> dict[str, Any]:
    """The default fields of an item or part of this kind in an answer."""
    # …/responses/object: ids begin with `msg_`, `rs_`, `fc_` or `ctc_` by type, and the API refuses an item of input
    # with another beginning.
    match kind:
        case "message":
            return {"id": f"msg_{stem}{at}", "status": "completed"}
        case "reasoning":
            return {"id": f"rs_{stem}{at}"}
        case "function_call":
            return {"id": f"fc_{stem}{at}", "status": "completed"}
        case "custom_tool_call":
            return {"id": f"ctc_{stem}{at}", "status": "completed"}
        case "output_text":
            return {"logprobs": []}
        case _:
            return {}


def with_extra(extra: Extra, extra_fields: Mapping[str, Any]) -> Extra:
    """`extra` with these fields added for this wire."""
    return {**extra, API: {**extra.get(API, {}), **extra_fields}} if extra_fields else extra


def answered(wire: dict[str, Any], extra_fields: Mapping[str, Any], kind: str, at: int, stem: str) -> dict[str, Any]:
    """Adds the fields of an answer to an item of input, in place, and returns it."""
    for key, value in default_fields(kind, at, stem).items():
        wire.setdefault(key, value)
    rest = extra_fields.get(RESPONSE)
    return put_back(wire, rest) if rest else wire


# --- wire to ours -----------------------------------------------------------------------------------------------------


def decode_part(wire: dict[str, Any]) -> Block:
    """Decodes a part of input; an unknown or malformed one becomes an opaque block."""
    return decode_typed(wire, _PARTS, encode_part, API)


def _decode_text(wire: dict[str, Any]) -> TextBlock:
    return TextBlock(text=string(wire["text"]), cache=_decode_cache(wire))


def _decode_image(wire: dict[str, Any]) -> ImageBlock:
    address = optional(wire.get("image_url"))
    mime, data = _read_url(address) if address is not None else (None, None)
    return ImageBlock(
        data=data,
        mime_type=mime,
        url=address if data is None else None,
        file_id=optional(wire.get("file_id")),
        # …/responses/create, `input_image`: `detail` is `auto` unless given.
        detail=None if wire.get("detail") == AUTO else optional(wire.get("detail")),
        cache=_decode_cache(wire),
    )


def _read_url(url: str) -> tuple[str | None, str | None]:
    """The MIME type and the data of a data URL; empty for any other URL."""
    if url.startswith(_UNTYPED):
        return None, url.removeprefix(_UNTYPED)
    return read_data_url(url) or (None, None)


_UNTYPED = "data:;base64,"
AUTO = "auto"  # the default `detail`, which the SDK types require


def _decode_file(wire: dict[str, Any]) -> DocumentBlock:
    data = optional(wire.get("file_data"))
    mime = None
    head, cut, rest = data.partition(";base64,") if data is not None else ("", "", "")
    # …/guides/file-inputs: `file_data` is a data URL; base64 without one is accepted from older clients.
    if cut and head.startswith("data:"):  # else bare base64
        mime, data = media_type(head.removeprefix("data:")), rest
    return DocumentBlock(
        data=data,
        mime_type=mime,
        url=optional(wire.get("file_url")),
        file_id=optional(wire.get("file_id")),
        title=optional(wire.get("filename")),
        cache=_decode_cache(wire),
    )


def _decode_audio(wire: dict[str, Any]) -> AudioBlock:
    sound = wire["input_audio"]
    return AudioBlock(data=string(sound["data"]), mime_type=_sound_type(optional(sound.get("format"))))


def _sound_type(format: str | None) -> str | None:
    return None if format is None else "audio/mpeg" if format == "mp3" else f"audio/{format}"


_PARTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "input_text": _decode_text,
    "output_text": _decode_text,
    "text": _decode_text,  # not of this wire, but of files whose items are of it
    "input_image": _decode_image,
    "input_file": _decode_file,
    "input_audio": _decode_audio,
}


def _decode_cache(wire: Mapping[str, Any]) -> CacheMarker | None:
    marker = wire.get("prompt_cache_breakpoint")
    if not isinstance(marker, dict):
        return None
    cache = CacheMarker(ttl=optional(marker.get("ttl")))
    return keeping(cache, API, marker, _encode_cache(cache))


def decode_content(content: Any) -> Content:
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise TypeError("expected text or a list of parts")
    return tuple(map(decode_part, content))


# --- ours to wire -----------------------------------------------------------------------------------------------------


def encode_part(block: Block, report: Reporter) -> Any:
    """Encodes a part of input; None, with a report, if the wire has no such part."""
    wire: dict[str, Any]
    match block:
        case TextBlock():
            wire = {"type": "input_text", "text": block.text}
            if block.citations:
                report.lost("citations", "only answers cite", field="citations")
            if block.refusal:
                report.lost("refusal", "only answers refuse", field="refusal")
        case ImageBlock():
            wire = _encode_image(block, report)
        case DocumentBlock():
            wire = _encode_file(block, report)
        case AudioBlock() if block.data is not None:
            wire = _encode_audio(block, report)
            return restored(wire, block.extra, API) if block.extra else wire
        case OpaqueBlock() if block.dialect == API:
            return block.value
        case _:
            report.lost(type(block).__name__, "the input of this wire has no such block")
            return None
    if block.cache is not None:
        wire["prompt_cache_breakpoint"] = _encode_cache(block.cache)
    return restored(wire, block.extra, API) if block.extra else wire


def _encode_image(block: ImageBlock, report: Reporter) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "input_image"}
    if block.data is not None:
        wire["image_url"] = data_url(block.mime_type, block.data) if block.mime_type else _UNTYPED + block.data
        if block.url is not None:
            report.lost("url", "the picture is there as data", field="url")
    elif block.url is not None:
        wire["image_url"] = block.url
        if _read_url(block.url)[1] is not None:
            report.lost("url", "a data URL is read as its data", "record")
    if block.mime_type is not None and block.data is None:
        report.lost("mime_type", "only data has a type", "weakened", field="mimeType")
    if block.file_id is not None:
        wire["file_id"] = block.file_id
    wire["detail"] = block.detail or AUTO
    if block.detail == AUTO:
        report.lost("detail", "the default where nothing is given", "record", field="detail")
    return wire


def _encode_file(block: DocumentBlock, report: Reporter) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "input_file"}
    if block.title is not None:
        wire["filename"] = block.title
    if block.data is not None:
        wire["file_data"] = block.data if block.mime_type is None else data_url(block.mime_type, block.data)
        if block.text is not None:
            report.lost("text", "the file is there as data", field="text")
    elif block.text is not None:
        # The wire has no text documents: the text is sent as file data.
        plain = base64.b64encode(jsontext.clean(block.text).encode()).decode()
        wire["file_data"] = data_url(block.mime_type or "text/plain", plain)
        report.lost("text", "sent as a file", "weakened")
    elif block.mime_type is not None:
        report.lost("mime_type", "only data has a type", "weakened", field="mimeType")
    if block.url is not None:
        wire["file_url"] = block.url
    if block.file_id is not None:
        wire["file_id"] = block.file_id
    return wire


def _encode_audio(block: AudioBlock, report: Reporter) -> dict[str, Any]:
    sound: dict[str, Any] = {"data": block.data}
    if block.mime_type is not None:
        kind = block.mime_type.removeprefix("audio/")
        # …, `input_audio`: `format` is `mp3` or `wav`.
        sound["format"] = "mp3" if kind == "mpeg" else kind
        if _sound_type(sound["format"]) != block.mime_type:
            report.lost("mime_type", "the wire has its own name for the type", "weakened", field="mimeType")
    for field, value in (("url", block.url), ("fileId", block.file_id), ("cache", block.cache)):
        if value is not None:
            report.lost(field, "a sound is its data, and nothing else", field=field)
    return {"type": "input_audio", "input_audio": sound}


def _encode_cache(cache: CacheMarker) -> dict[str, Any]:
    # …/responses/create, `prompt_cache_breakpoint`: the only mode; without `ttl`, the lifetime is that of the request.
    wire = {"mode": "explicit"}
    if cache.ttl is not None:
        wire["ttl"] = cache.ttl
    return restored(wire, cache.extra, API)


def encode_content(content: Content, report: Reporter) -> Any:
    if content is None or isinstance(content, str):
        return content
    return encode_blocks(content, encode_part, report, API)


# --- message items ---------------------------------------------------------------------------------------------------


# --- wire to ours -----------------------------------------------------------------------------------------------------


def decode_message(wire: dict[str, Any], at: int, stem: str | None, mint: Mint) -> list[tuple[int, Block]]:
    """One block for each part. In input, the content may be a string."""
    if wire["role"] != "assistant":
        raise ValueError(wire["role"])
    content = wire["content"]
    about: dict[str, Any] = {}
    if isinstance(content, str) and stem is None:
        blocks: list[tuple[int, TextBlock]] = [(0, TextBlock(text=content))]
        extra_fields = residual_of(wire, {"role": "assistant", "content": content}, "message", at, stem)
        if extra_fields:
            about[STRING] = True
    else:
        blocks, others = _decode_parts(content, stem)
        extra_fields = residual_of(
            wire, {"type": "message", "role": "assistant", "content": content}, "message", at, stem
        )
        if others:
            about[PARTS] = others
        elif stem is None and not extra_fields:
            about[STRING] = False
    # `id` and `phase` of the item are on the block; its other fields are under `~message`.
    named = {key: extra_fields.pop(key) for key in NAMES if key in extra_fields}
    about.update(extra_fields)
    place, first = blocks[0]
    extra = with_extra(first.extra, {**named, MESSAGE: about} if about else named)
    joined = [(n, replace(b, extra=with_extra(b.extra, {JOINED: True}))) for n, b in blocks[1:]]
    return [(place, replace(first, extra=extra)), *joined]


def _decode_parts(content: Any, stem: str | None) -> tuple[list[tuple[int, TextBlock]], list[Any]]:
    """The texts of a message item and its other parts, each with its index."""
    if not isinstance(content, list):
        raise TypeError(f"expected a list of parts, got {type(content).__name__}")
    blocks: list[tuple[int, TextBlock]] = []
    others: list[Any] = []
    for place, part in enumerate(content):
        try:
            blocks.append((place, _decode_encoded(part, stem)))
        except (KeyError, TypeError, ValueError, AttributeError):
            others.append([place, part])
    if not blocks:
        raise ValueError("a message item without text")
    return blocks, others


def _decode_encoded(wire: Any, stem: str | None) -> TextBlock:
    """A part of an answer's message."""
    kind = wire["type"]
    # …/guides/structured-outputs, Refusals: a part of its own in the message's content.
    if kind == "refusal":
        block = TextBlock(text=string(wire["refusal"]), refusal=True)
    elif kind in ("output_text", "input_text", "text"):
        noted = wire.get("annotations")
        citations = tuple(map(_decode_citation, noted)) if isinstance(noted, list) else ()
        block = TextBlock(text=string(wire["text"]), citations=citations)
    else:
        raise ValueError(kind)
    extra_fields = residual_of(wire, _encoded_part(block, QUIET), kind, 0, stem)
    for name in NAMES:  # fields of the part that the item has too
        if name in extra_fields:
            extra_fields.setdefault(HINTS, {})[name] = {"wire": extra_fields.pop(name)}
    return replace(block, extra={API: extra_fields}) if extra_fields else block


def _decode_citation(wire: dict[str, Any]) -> Citation:
    kind = string(wire["type"])
    title, start, end = CITATIONS.get(kind, (None, None, None))
    citation = Citation(
        title=optional(wire.get(title)) if title else None,
        url=optional(wire.get("url")) if kind == "url_citation" else None,
        start=whole(wire.get(start)) if start else None,
        end=whole(wire.get(end)) if end else None,
    )
    # Files are cited by `file_id`, which is in the residual: only the type is needed to write them again.
    if kind != "url_citation" or citation.url is None:
        citation = replace(citation, extra={API: {"type": kind}})
    return keeping(citation, API, wire, _encoded_citation(citation))


# --- ours to wire -----------------------------------------------------------------------------------------------------


def is_string_content(block: TextBlock, extra_fields: Mapping[str, Any]) -> bool:
    """Whether a text is sent as a message with a string: if it has no other field.

    An output message in parts needs an id and a status, which only the provider can generate.
    """
    if block.refusal or block.citations:
        return False
    return not extra_fields or bool(extra_fields.get(MESSAGE, NO_HINTS).get(STRING))


def easy_message(block: TextBlock, extra_fields: Mapping[str, Any], report: Reporter) -> dict[str, Any]:
    if block.cache is not None:
        report.lost("cache", "answers cannot be marked", field="cache")
    wire: dict[str, Any] = {"role": "assistant", "content": block.text}
    if extra_fields:
        wire.update((name, extra_fields[name]) for name in NAMES if name in extra_fields)
        wire = put_back(wire, extra_fields[MESSAGE])
    return wire


def message_item(extra_fields: Mapping[str, Any], parts: list[Any], at: int, stem: str | None) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "message", "role": "assistant", "content": parts}
    about = extra_fields.get(MESSAGE, NO_HINTS)
    if extra_fields:
        wire.update((name, extra_fields[name]) for name in NAMES if name in extra_fields)
        put_back(wire, about)
    return wire if stem is None else answered(wire, about, "message", at, stem)


def finish_message(wire: dict[str, Any], about: Mapping[str, Any]) -> None:
    """Restores unknown parts at their indexes, if all texts are present."""
    for place, part in about.get(PARTS, ()):
        wire["content"].insert(place, part)


def encode_content_text(block: TextBlock, report: Reporter, *, answer: bool = False) -> dict[str, Any]:
    """Text of an answer as a part of a message item."""
    if block.cache is not None:
        report.lost("cache", "answers cannot be marked", field="cache")
    wire = _encoded_part(block, report)
    extra_fields = block.extra.get(API) if block.extra else None
    if extra_fields:
        wire = put_back(wire, {key: value for key, value in extra_fields.items() if key not in NAMES})
    return answered(wire, extra_fields or {}, wire.get("type", ""), 0, "") if answer else wire


def _encoded_part(block: TextBlock, report: Reporter) -> dict[str, Any]:
    if block.refusal:
        if block.citations:
            report.lost("citations", "a refusal cites nothing", field="citations")
        return {"type": "refusal", "refusal": block.text}
    # `annotations` is required in `output_text`, even if empty.
    noted = _encode_citations(block.citations, report) if block.citations else []
    return {"type": "output_text", "text": block.text, "annotations": noted}


def _encode_citations(citations: tuple[Citation, ...], report: Reporter) -> list[Any]:
    encoded = [c for c in citations if c.url is not None or "type" in c.extra.get(API, ())]
    if len(encoded) < len(citations):
        report.lost("citations", "only a URL can be cited", field="citations")
    return [restored(_encoded_citation(citation), citation.extra, API) for citation in encoded]


def _encoded_citation(citation: Citation) -> dict[str, Any]:
    kind = citation.extra.get(API, {}).get("type", "url_citation") if citation.extra else "url_citation"
    wire: dict[str, Any] = {"type": kind}
    if kind == "url_citation" and citation.url is not None:
        wire["url"] = citation.url
    values = (citation.title, citation.start, citation.end)
    given = zip(CITATIONS.get(kind, ()), values, strict=False)
    wire.update((key, value) for key, value in given if key is not None and value is not None)
    return wire


# --- items of the model: reasoning, calls, messages ------------------------------------------------------------------


# --- wire to ours -----------------------------------------------------------------------------------------------------


def decode_item(
    wire: dict[str, Any], at: int, *, answer: bool = False, response_id: Any = None, mint: Mint | None = None
) -> list[tuple[int, Block]]:
    """The blocks of item `at`, each with the index of its part.

    `answer` if the item is from an answer, that of `response_id`, not from input (see `residual_of`). An unknown or
    malformed item becomes an opaque block.
    """
    decode = _ITEMS.get(kind_of(wire))
    if decode is not None:
        try:
            return decode(wire, at, id_stem(response_id) if answer else None, mint or "call_{}".format)
        except (KeyError, TypeError, ValueError):
            pass
    return [(0, OpaqueBlock(dialect=API, value=wire))]


def _decode_reasoning(wire: dict[str, Any], at: int, stem: str | None, mint: Mint) -> list[tuple[int, Block]]:
    texts: list[str] = []
    # …/responses/object, reasoning: `summary` is a list of texts, empty unless asked for; `content` is the reasoning
    # itself, from open models.
    summary = _measured(wire.get("summary") or [], "summary_text", texts)
    content = _measured(wire["content"], "reasoning_text", texts) if isinstance(wire.get("content"), list) else None
    text = "\n\n".join(texts)
    block = ThinkingBlock(thinking=text, thinking_signature=optional(wire.get("encrypted_content")))
    hints = {SUMMARY: summary} if content is None else {SUMMARY: summary, CONTENT: content}
    if content is not None or summary != ([len(text)] if text else []):
        block = replace(block, extra={API: hints})
    extra_fields = residual_of(wire, _encoded_reasoning(block), "reasoning", at, stem)
    return [(0, replace(block, extra=with_extra(block.extra, extra_fields)))]


def _measured(parts: Any, kind: str, texts: list[str]) -> list[Any]:
    """The length of each part's text, with its other fields; appends the texts to `texts`."""
    lengths: list[Any] = []
    for part in parts:
        text = string(part["text"])
        rest = residual(part, {"type": kind, "text": text})
        lengths.append([len(text), rest] if rest else len(text))
        texts.append(text)
    return lengths


def _decode_call(wire: dict[str, Any], at: int, stem: str | None, mint: Mint) -> list[tuple[int, Block]]:
    # A call has two ids: `call_id`, to which its result refers, and `id`, the item's own.
    id = optional(wire.get("call_id"))
    given = wire.get("arguments", "")
    hints: dict[str, Any] = {GENERATED: True} if id is None else {}
    provided: tuple[dict[str, Any], str | None, str | None]
    if wire["type"] == CUSTOM:
        provided = {"input": string(wire["input"])}, None, None
        hints[FORM] = CUSTOM
    elif isinstance(given, dict):  # some servers
        provided = given, None, None
    else:
        provided = parse_arguments(string(given))
        if stem is not None and provided[1] is not None and not provided[1].strip():
            provided = {}, None, None  # blank arguments are none
    block = ToolCall(
        id=mint(at) if id is None else id,
        name=string(wire["name"]),
        arguments=provided[0],
        arguments_text=provided[1],
        parse_error=provided[2],
        extra={API: hints} if hints else {},
    )
    extra_fields = residual_of(wire, encoded_call(block), wire["type"], at, stem)
    return [(0, replace(block, extra=with_extra(block.extra, extra_fields)) if extra_fields else block)]


def _decode_server_call(wire: dict[str, Any], at: int, stem: str | None, mint: Mint) -> list[tuple[int, Block]]:
    kind = wire["type"]
    # …/guides/tools-tool-search: with `execution: client` the application searches and sends the output.
    if wire.get("execution") == "client":
        raise ValueError("a call for the client to run")
    name, key = SERVER_CALLS[kind]
    given = wire.get(key) if key else None
    if kind in AS_TEXT and given is not None:
        arguments, _, broken = parse_arguments(string(given), f"$.{key}")
        given = arguments if broken is None and given.strip() else given
    id = wire.get("id")  # Codex writes none where it stores nothing at the provider
    block = ServerToolCall(
        id=mint(at) if id is None else string(id),
        name=string(wire["name"]) if name is None else name,
        arguments=given,
        extra={API: {"type": kind} if id is not None else {"type": kind, GENERATED: True}},
    )
    return [(0, keeping(block, API, wire, _encoded_server_call(block, kind)))]


_ITEMS: dict[str, Callable[[dict[str, Any], int, str | None, Mint], list[tuple[int, Block]]]] = {
    "message": decode_message,
    "reasoning": _decode_reasoning,
    "function_call": _decode_call,
    CUSTOM: _decode_call,
    **dict.fromkeys(SERVER_CALLS, _decode_server_call),
}


# --- ours to wire -----------------------------------------------------------------------------------------------------


def encode_items(content: tuple[Block, ...], report: Reporter, *, stem: str | None = None) -> list[Any]:
    """Encodes blocks as items; for an answer (`stem` as of `id_stem`) with all fields of output items."""
    return [item for item, _ in grouped_items(content, report, stem=stem)]


def grouped_items(
    content: tuple[Block, ...], report: Reporter, *, stem: str | None = None
) -> list[tuple[Any, list[Block]]]:
    """As `encode_items`, each item with its blocks."""
    items: list[tuple[Any, list[Block]]] = []
    message: dict[str, Any] | None = None  # the message item of the text before
    unfinished: list[tuple[dict[str, Any], Mapping[str, Any]]] = []
    for at, block in enumerate(content):
        report.block = at
        if isinstance(block, TextBlock):
            extra_fields = (block.extra.get(API) if block.extra else None) or NO_HINTS
            if stem is None and is_string_content(block, extra_fields):
                message = None
                items.append((easy_message(block, extra_fields, report), [block]))
                continue
            part = encode_content_text(block, report, answer=stem is not None)
            if message is not None and extra_fields.get(JOINED):
                message["content"].append(part)
                items[-1][1].append(block)
                continue
            message = message_item(extra_fields, [part], len(items), stem)
            items.append((message, [block]))
            if MESSAGE in extra_fields:
                unfinished.append((message, extra_fields[MESSAGE]))
            continue
        message = None
        item = _encode_item(block, report, len(items), stem)
        if item is not None:
            items.append((item, [block]))
    report.block = None
    for message, about in unfinished:
        finish_message(message, about)
    return items


def encode_item(block: Block, report: Reporter, at: int, *, answer: bool = False, response_id: Any = None) -> Any:
    """Encodes a block that is not text as item `at`; None, with a report, if the wire has no such item."""
    return _encode_item(block, report, at, id_stem(response_id) if answer else None)


def _encode_item(block: Block, report: Reporter, at: int, stem: str | None) -> Any:
    extra_fields = block.extra.get(API) if block.extra else None
    match block:
        case ToolCall():
            wire = encoded_call(block)
            kind = wire["type"]
            if stem is not None and block.arguments_text is not None and not block.arguments_text.strip():
                report.lost("arguments_text", "blank arguments mean none", "record", field="argumentsText")
        case ThinkingBlock():
            kind, wire = "reasoning", _encoded_reasoning(block)
        case ServerToolCall() if extra_fields and extra_fields.get("type") in SERVER_CALLS:
            if block.cache is not None:
                report.lost("cache", "answers cannot be marked", field="cache")
            kind, wire = "", _encoded_server_call(block, extra_fields["type"])
        case OpaqueBlock() if block.dialect == API:
            return block.value
        case _:
            report.lost(type(block).__name__, "an answer of this wire cannot hold such a block")
            return None
    if extra_fields:
        wire = put_back(wire, extra_fields)
    return wire if stem is None else answered(wire, extra_fields or {}, kind, at, stem)


def encoded_call(block: ToolCall) -> dict[str, Any]:
    extra_fields = block.extra.get(API) if block.extra else None
    if extra_fields and is_custom(block):
        wire = {"type": CUSTOM, "call_id": block.id, "name": block.name, "input": block.arguments["input"]}
    else:
        wire = {"type": "function_call", "call_id": block.id, "name": block.name, "arguments": arguments_text(block)}
    if extra_fields and extra_fields.get(GENERATED):
        del wire["call_id"]
    return wire


def is_custom(call: ToolCall) -> bool:
    if call.extra.get(API, {}).get(FORM) != CUSTOM:
        return False
    return call.arguments.keys() == {"input"} and isinstance(call.arguments["input"], str)


def _encoded_server_call(block: ServerToolCall, kind: str) -> dict[str, Any]:
    name, key = SERVER_CALLS[kind]
    generated = block.extra.get(API, {}).get(GENERATED)
    wire: dict[str, Any] = {"type": kind} if generated else {"type": kind, "id": block.id}
    if name is None:
        wire["name"] = block.name
    if key is not None and block.arguments is not None:
        spelled = kind in AS_TEXT and not isinstance(block.arguments, str)
        wire[key] = jsontext.compact(block.arguments) if spelled else block.arguments
    return wire


def _encoded_reasoning(block: ThinkingBlock) -> dict[str, Any]:
    summary, content = _reasoning_parts(block)
    # `summary` is required in a reasoning item of input, even if empty.
    wire: dict[str, Any] = {"type": "reasoning", "summary": summary}
    if content is not None:
        wire["content"] = content
    if block.thinking_signature is not None:
        wire["encrypted_content"] = block.thinking_signature
    return wire


def _reasoning_parts(block: ThinkingBlock) -> tuple[list[Any], list[Any] | None]:
    """The text split into its original parts if the lengths still match, else in one part."""
    extra_fields = block.extra.get(API, {}) if block.extra else {}
    if SUMMARY not in extra_fields:
        return ([{"type": "summary_text", "text": block.thinking}] if block.thinking else []), None
    summary, content = extra_fields[SUMMARY], extra_fields.get(CONTENT)
    texts = _cut(block.thinking, [*summary, *(content or ())])
    if texts is None:
        if content and not summary:
            return [], [{"type": "reasoning_text", "text": block.thinking}]
        return [{"type": "summary_text", "text": block.thinking}], None if content is None else []
    encoded = _encoded_parts(texts, summary, "summary_text")
    return encoded, None if content is None else _encoded_parts(texts[len(summary) :], content, "reasoning_text")


def _cut(text: str, lengths: list[Any]) -> list[str] | None:
    """The inverse of joining with blank lines; None if the lengths do not match."""
    texts: list[str] = []
    at = 0
    for length in lengths:
        if texts:
            if not text.startswith("\n\n", at):
                return None
            at += 2
        end = at + (length if isinstance(length, int) else length[0])
        texts.append(text[at:end])
        at = end
    return texts if at == len(text) else None


def _encoded_parts(texts: list[str], lengths: list[Any], kind: str) -> list[Any]:
    encoded = []
    for text, length in zip(texts, lengths, strict=False):
        part = {"type": kind, "text": text}
        encoded.append(part if isinstance(length, int) else put_back(part, length[1]))
    return encoded
