"""Content parts, citations and tool calls."""

import base64
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ...values import jsontext
from ...values.folding import arguments_text, parse_arguments
from ...values.interop import camel_case
from ...values.losses import Reporter
from ...values.messages import (
    AudioBlock,
    Block,
    CacheMarker,
    Citation,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
)
from ..openai_shared import data_url, odd_prefix, read_data_url
from ..residual import GENERATED, RESPONSE, fields_of, optional, put_back, residual, restored, string, whole
from ..results import MEDIA
from .facts import API, AS, BREAKPOINT, CACHE, CUSTOM, FLAT, MEDIA_RULE, OBJECT, PART, PLAIN, PREFIX, SPLIT

S = TypeVar("S", bound=Struct)


def with_rest(value: S, wire: Mapping[str, Any], encoded: Mapping[str, Any]) -> S:
    """The value with the residual of `wire`, before the hints that it has."""
    rest, extra = residual(wire, encoded), value.extra  # type: ignore[attr-defined]
    return replace(value, extra={API: rest | (extra.get(API) or {})}) if rest else value


# --- parts of a content list -----------------------------------------------------------------------------------------


def decode_part(wire: Any) -> Block:
    """Decodes a part of a content list; an unknown or malformed one becomes an opaque block."""
    kind = wire.get("type") if isinstance(wire, dict) else None
    if not isinstance(kind, str):
        return OpaqueBlock(dialect=API, value={"content": [wire]})
    decode = _PART_DECODERS.get(kind)
    if decode is not None:
        try:
            block: Block = decode(wire)
            return with_rest(block, wire, encode_part_unreported(block)[0])
        except (KeyError, TypeError, ValueError, AttributeError):
            pass
    return OpaqueBlock(dialect=API, value=wire)


def _decode_text(wire: dict[str, Any]) -> TextBlock:
    if wire["type"] == "text":
        return TextBlock(text=string(wire["text"]), cache=decode_cache(wire))
    return TextBlock(text=string(wire["refusal"]), refusal=True, cache=decode_cache(wire), extra={API: {PART: True}})


def _decode_thought(wire: dict[str, Any]) -> ThinkingBlock:
    """Mistral's thinking part: a list of text chunks (docs.mistral.ai, Reasoning)."""
    text, marks = wire["thinking"], {PART: True}
    if isinstance(text, str):
        marks[PLAIN] = True
    else:
        pieces = [chunk_text(chunk) for chunk in text]
        text = "".join(pieces)
        if pieces != ([text] if text else []):
            marks[SPLIT] = [len(piece) for piece in pieces]  # type: ignore[assignment]
    return ThinkingBlock(thinking=text, thinking_signature=optional(wire.get("signature")), extra={API: marks})


def chunk_text(chunk: dict[str, Any]) -> str:
    if chunk.keys() != {"type", "text"} or chunk["type"] != "text":
        raise ValueError("not a plain text chunk")
    return string(chunk["text"])


def _decode_by_url(wire: dict[str, Any]) -> Any:
    """`image_url` and `audio_url`: an object with a URL; some hosts have the URL itself."""
    kind = wire["type"]
    given, usual = wire[kind], ImageBlock if kind == "image_url" else AudioBlock
    if isinstance(given, str):
        return _as(kind, _decode_source(wire, given, usual), {PLAIN: True})
    block = _decode_source(wire, string(given["url"]), usual)
    return _as(kind, replace(block, detail=optional(given.get("detail"))) if isinstance(block, ImageBlock) else block)


def _decode_document_url(wire: dict[str, Any]) -> Any:
    block, title = (
        _decode_source(wire, string(wire["document_url"]), DocumentBlock),
        optional(wire.get("document_name")),
    )
    return _as("document_url", replace(block, title=title) if isinstance(block, DocumentBlock) else block)


def _decode_file(wire: dict[str, Any]) -> Any:
    file = wire["file"]
    given, file_id = optional(file.get("file_data")), optional(file.get("file_id"))
    if given is None and file_id is None:
        raise ValueError("a file needs data or an id")
    if given is not None and (given.startswith("data:") or "://" in given):
        block = _decode_source(wire, given, DocumentBlock)
    else:  # some hosts have the base64 text itself
        block = DocumentBlock(data=given, cache=decode_cache(wire))
    if isinstance(block, DocumentBlock):
        block = replace(block, file_id=file_id, title=optional(file.get("filename")))
    return _as("file", block)


def _decode_input_audio(wire: dict[str, Any]) -> AudioBlock:
    given, cache = wire["input_audio"], decode_cache(wire)
    if isinstance(given, str):
        source = {"url" if "://" in given else "data": given}
        return AudioBlock(**source, cache=cache, extra={API: {PLAIN: True, AS: "input_audio"}})
    spelled = optional(given.get("format"))
    # …/chat/create, `input_audio`: `format` is `wav` or `mp3`; RFC 3003 names the latter `audio/mpeg`.
    mime = None if spelled is None else "audio/mpeg" if spelled == "mp3" else f"audio/{spelled}"
    return AudioBlock(data=string(given["data"]), mime_type=mime, cache=cache)


_PART_DECODERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "text": _decode_text,
    "refusal": _decode_text,
    "thinking": _decode_thought,
    # docs.mistral.ai/capabilities/document_ai and …/audio: `document_url`; audio as a URL or base64 under
    # `input_audio`.
    "image_url": _decode_by_url,
    "audio_url": _decode_by_url,
    "document_url": _decode_document_url,
    "file": _decode_file,
    "input_audio": _decode_input_audio,
}


def _decode_source(wire: dict[str, Any], url: str, usual: type[Any]) -> Any:
    """The block of a part's URL, by the media type of its data."""
    found, cache = read_data_url(url), decode_cache(wire)
    if found is None:
        return usual(url=url, cache=cache)
    mime, data = found
    kind = ImageBlock if mime.startswith("image/") else AudioBlock if mime.startswith("audio/") else DocumentBlock
    prefix = odd_prefix(url)
    extra = {} if prefix is None else {API: {PREFIX: prefix}}
    return (kind if mime else usual)(data=data, mime_type=mime or None, cache=cache, extra=extra)


def _as(kind: str, block: Any, marks: dict[str, Any] = {}) -> Any:  # noqa: B006
    """The block with hints: these, and `~as` if it is usually another kind of part."""
    if kind != _usual_part(block):
        marks = {**marks, AS: kind}
    return replace(block, extra={API: {**(block.extra.get(API) or {}), **marks}}) if marks else block


def _usual_part(block: ImageBlock | AudioBlock | DocumentBlock) -> str:
    if isinstance(block, ImageBlock):
        return "image_url"
    if isinstance(block, DocumentBlock):
        return "file"
    return "input_audio" if block.data is not None else "audio_url"


def decode_cache(wire: Mapping[str, Any]) -> CacheMarker | None:
    """A cache breakpoint, in Anthropic's field, which routers accept, or in OpenAI's own."""
    # openrouter.ai/docs/features/prompt-caching: `cache_control` on a text part is passed on to Anthropic's and
    # Google's models; OpenAI's own field is `prompt_cache_breakpoint` (platform.openai.com/docs/guides/prompt-caching).
    for key in (CACHE, BREAKPOINT):
        marker = wire.get(key)
        if isinstance(marker, dict):
            extra = {API: {AS: key}} if key == BREAKPOINT else {}
            cache = CacheMarker(ttl=optional(marker.get("ttl")), extra=extra)
            encoded: dict[str, Any] = {}
            put_cache(encoded, cache)
            return with_rest(cache, marker, encoded[key])
    return None


def encode_part(block: Block, report: Reporter) -> list[Any]:
    """Encodes a block as a part of a content list; none, with a report, if the wire has no such part."""
    encoded = [] if isinstance(block, ThinkingBlock) else encode_part_unreported(block)
    if not encoded:
        report.lost(type(block).__name__, "this wire has no such block here")
    elif isinstance(block, TextBlock):
        if block.citations:
            report.lost("citations", "only the text of an answer has sources", field="citations")
        if block.text_signature is not None:
            report.lost("text_signature", "only the text of an answer is signed", field="textSignature")
    elif isinstance(block, MEDIA):
        _account(block, encoded[0], report)
    return encoded


def encode_part_unreported(block: Block) -> list[Any]:
    """The same without reports."""
    wire: dict[str, Any] | None
    match block:
        case TextBlock():
            kind = "refusal" if block.refusal else "text"
            wire = {"type": kind, kind: block.text}
        case ThinkingBlock():
            return [restored(_encode_thinking_part(block), block.extra, API)]
        case ImageBlock() | AudioBlock() | DocumentBlock():
            wire = _encode_media(block, block.extra.get(API) or {})
            if wire is None:
                return []
        case OpaqueBlock(dialect=dialect, value={"type": str()}) if dialect == API:
            return [block.value]
        case OpaqueBlock(dialect=dialect, value={"content": [_] as parts}) if dialect == API and len(block.value) == 1:
            return list(parts)
        case _:
            return []
    if block.cache is not None:
        put_cache(wire, block.cache)
    return [restored(wire, block.extra, API) if block.extra else wire]


def _encode_thinking_part(block: ThinkingBlock) -> dict[str, Any]:
    marks, text = block.extra.get(API) or {}, block.thinking
    lengths = marks.get(SPLIT)
    wire: dict[str, Any] = {"type": "thinking"}
    if marks.get(PLAIN):
        wire["thinking"] = text
    elif lengths is not None and sum(lengths) == len(text):
        ends = [sum(lengths[:at]) for at in range(len(lengths) + 1)]
        wire["thinking"] = [text_chunk(text[a:b]) for a, b in pairwise(ends)]
    else:
        wire["thinking"] = [text_chunk(text)] if text else []
    if block.thinking_signature is not None:
        wire["signature"] = block.thinking_signature
    return wire


def text_chunk(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _encode_media(block: ImageBlock | AudioBlock | DocumentBlock, marks: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = marks.get(AS) or _usual_part(block)
    if kind == "input_audio":
        given: Any = block.data
        if marks.get(PLAIN):
            given = block.url if given is None else given
        elif given is not None:
            mime = block.mime_type
            format = {} if mime is None else {"format": _FORMATS.get(mime) or mime.removeprefix("audio/")}
            given = {"data": given, **format}
        return None if given is None else {"type": kind, kind: given}
    url = block.url
    if block.data is not None:
        prefix = marks.get(PREFIX)
        if prefix is not None and read_data_url(prefix) == (block.mime_type or "", ""):
            url = f"{prefix}{block.data}"
        else:
            url = data_url(block.mime_type, block.data)
    if kind == "file":
        return _encode_file(block, url)
    if url is None:
        return None
    if kind == "document_url":
        named = {"document_name": block.title} if isinstance(block, DocumentBlock) and block.title is not None else {}
        return {"type": kind, kind: url, **named}
    detail = {"detail": block.detail} if isinstance(block, ImageBlock) and block.detail is not None else {}
    return {"type": kind, kind: url if marks.get(PLAIN) and not detail else {"url": url, **detail}}


def _encode_file(block: ImageBlock | AudioBlock | DocumentBlock, url: str | None) -> dict[str, Any] | None:
    file: dict[str, Any] = {}
    if isinstance(block, DocumentBlock):
        if block.data is not None and block.mime_type is None:
            url = block.data
        elif url is None and block.text is not None:
            # `file_data` is base64 for every type, text included.
            plain = base64.b64encode(jsontext.clean(block.text).encode()).decode()
            url = data_url(block.mime_type or "text/plain", plain)
        if block.file_id is not None:
            file["file_id"] = block.file_id
        if block.title is not None:
            file["filename"] = block.title
    if url is not None:
        file["file_data"] = url
    return {"type": "file", "file": file} if "file_data" in file or "file_id" in file else None


_FORMATS = {"audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/x-wav": "wav", "audio/wave": "wav"}


def put_cache(wire: dict[str, Any], cache: CacheMarker) -> None:
    """Writes a cache breakpoint into its original field."""
    is_own = bool(cache.extra) and (cache.extra.get(API) or {}).get(AS) == BREAKPOINT
    # Anthropic's marker is `{"type": "ephemeral"}`, OpenAI's `{"mode": "explicit"}`.
    marker = {"mode": "explicit"} if is_own else {"type": "ephemeral"}
    if cache.ttl is not None:
        marker["ttl"] = cache.ttl
    wire[BREAKPOINT if is_own else CACHE] = restored(marker, cache.extra, API) if cache.extra else marker


_OTHER_FIELDS = frozenset({"cache", "context", "citations", "extra"})  # written, or lost as FIELD_SUPPORT states


def _account(block: ImageBlock | AudioBlock | DocumentBlock, encoded: Any, report: Reporter) -> None:
    """Reports the fields that decoding the part would not restore."""
    is_picture = isinstance(block, ImageBlock) and block.mime_type is not None and block.mime_type.startswith("image/")
    if is_picture and block.data is not None and block.url is block.file_id is None:
        return  # fast path: the most common case, and the most expensive to compare
    again = decode_part(encoded)
    if type(again) is not type(block):
        report.lost(type(block).__name__, "it is read back as another kind of block", "weakened")
        return
    for name in block.__struct_fields__:
        given, kept = getattr(block, name), getattr(again, name)
        if given != kept and name not in _OTHER_FIELDS:
            report.lost(name, MEDIA_RULE, "dropped" if kept is None else "weakened", field=camel_case(name))


def chunks_in(thinking: list[Any]) -> str | None:
    """The text of thinking chunks; None if one of them is not text."""
    try:
        return "".join(map(chunk_text, thinking))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


# --- citations and signatures of a message ---------------------------------------------------------------------------


def decode_citation(wire: dict[str, Any]) -> Citation:
    inner = fields_of(wire.get("url_citation"))
    citation = Citation(
        title=optional(inner.get("title")),
        url=optional(inner.get("url")),
        cited_text=optional(inner.get("content")),
        start=whole(inner.get("start_index")),
        end=whole(inner.get("end_index")),
    )
    return with_rest(citation, wire, encode_citation(citation, 0))


def encode_citation(citation: Citation, offset: int) -> dict[str, Any]:
    """A citation of a text that starts at `offset` in the text of the message."""
    source = shifted(citation, -offset)
    fields = {
        "url": source.url,
        "title": source.title,
        "start_index": source.start,
        "end_index": source.end,
        "content": source.cited_text,
    }
    inner = {key: value for key, value in fields.items() if value is not None}
    return restored({"type": "url_citation", "url_citation": inner}, citation.extra, API)


def google_signature(wire: Mapping[str, Any]) -> str | None:
    """Google's thought signature, in `extra_content` of its compatible endpoint."""
    # ai.google.dev/gemini-api/docs/thought-signatures, OpenAI compatibility: the signature of a call, or of a text.
    return optional(fields_of(fields_of(wire.get("extra_content")).get("google")).get("thought_signature"))


def signed(signature: str) -> dict[str, Any]:
    return {"google": {"thought_signature": signature}}


def sourced(blocks: list[Block], wire: Mapping[str, Any]) -> list[Block]:
    """The blocks with the citations and the signature of the message on the first text."""
    given: Any = wire.get("annotations")
    signature = google_signature(wire)
    if not given and signature is None:
        return blocks
    for at, block in enumerate(blocks):
        if isinstance(block, TextBlock) and not block.refusal:
            own = tuple(map(decode_citation, given)) if are_sources(given) else ()
            return [*blocks[:at], replace(block, citations=own, text_signature=signature), *blocks[at + 1 :]]
    return blocks


def are_sources(given: Any) -> bool:
    return isinstance(given, list) and all(
        isinstance(item, dict) and isinstance(item.get("type"), str) for item in given
    )


# …/chat/object, `annotations`: offsets count characters of the whole `content`.
def shifted(citation: Citation, before: int) -> Citation:
    """The citation with offsets relative to its own text."""
    if not before:
        return citation
    return replace(
        citation,
        start=None if citation.start is None else citation.start - before,
        end=None if citation.end is None else citation.end - before,
    )


# --- tool calls ------------------------------------------------------------------------------------------------------


def decode_call(wire: Any, mint: Callable[[], str], *, answer: bool = False) -> Block:
    """Decodes an entry of `tool_calls`. In an answer, blank arguments are decoded as none."""
    if type(wire) is dict and len(wire) == 3 and wire.get("type") == "function":  # fast path: no residual
        function, id = wire.get("function"), wire.get("id")
        if type(function) is dict and len(function) == 2 and type(id) is str and id not in ("", "null"):
            name, given = function.get("name"), function.get("arguments")
            if type(name) is str and type(given) is str and (not answer or given.strip()):
                arguments, text, broken = parse_arguments(given)
                return ToolCall(id=id, name=name, arguments=arguments, arguments_text=text, parse_error=broken)
    try:
        call = _read_call(wire, mint, answer)
    except (KeyError, TypeError, ValueError, AttributeError):
        return OpaqueBlock(dialect=API, value={"tool_calls": [wire]})
    if not (answer and is_blank(call)):
        return with_rest(call, wire, encode_call(call))
    call = replace(call, arguments_text=None)
    meant = {**wire, "function": {**wire["function"], "arguments": "{}"}}
    call = with_rest(call, meant, encode_call(call))
    return replace(call, extra={API: {**(call.extra.get(API) or {}), RESPONSE: residual(wire, meant)}})


def _read_call(wire: Any, mint: Callable[[], str], answer: bool) -> ToolCall:
    marks: dict[str, Any] = {}
    # Training sets and LangChain write calls without `function`; clients read an answer's calls by `function`.
    flat = "function" not in wire and not answer and wire.get("type") in (None, "function", "tool_call")
    key = next((key for key in ("arguments", "args") if isinstance(wire.get(key), dict | str)), "") if flat else ""
    if key:
        kind, function = "function", {"name": wire["name"], "arguments": wire[key]}
        marks[FLAT] = key
    else:
        kind = wire.get("type") or "function"
        function = wire[kind]
    name = string(function["name"])
    arguments: dict[str, Any] = {}
    text = broken = None
    # platform.openai.com/docs/guides/function-calling, Custom tools: the input is one string that need not be JSON.
    if kind == "custom":  # a custom tool takes a text: our argument `input`
        arguments = {"input": string(function["input"])}
        marks[CUSTOM] = True
    elif kind != "function":
        raise ValueError("neither a function nor a custom tool")
    else:
        # A call without arguments has no `arguments` from some hosts, "" or "{}" from others; some send an object.
        given = function.get("arguments")
        if isinstance(given, dict):
            arguments = given
            marks[OBJECT] = True
        elif given is not None:
            arguments, text, broken = parse_arguments(string(given))
    # The id is required by the API reference, but some hosts send none, "" or "null".
    call_id = wire.get("id")
    if real_id(call_id) is None:
        call_id, marks[GENERATED] = mint(), True
    return ToolCall(
        id=call_id,
        name=name,
        arguments=arguments,
        arguments_text=text,
        parse_error=broken,
        thought_signature=google_signature(wire),
        cache=decode_cache(wire),
        extra={API: marks} if marks else {},
    )


def real_id(wire_id: Any) -> str | None:
    """The id, or None; one SDK writes "null" for none."""
    return wire_id if isinstance(wire_id, str) and wire_id not in ("", "null") else None


def encode_call(call: ToolCall, *, answer: bool = False) -> dict[str, Any]:
    """Encodes a call. Clients parse the arguments of an answer, so blank ones are sent there as `{}`."""
    if answer and is_blank(call):
        call = replace(call, arguments_text=None)
    marks = (call.extra.get(API) or {}) if call.extra else {}
    wire: dict[str, Any]
    given = call.arguments
    if marks.get(CUSTOM) and given.keys() == {"input"} and isinstance(given["input"], str):  # still one text
        wire = {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": given["input"]}}
    else:
        arguments = given if marks.get(OBJECT) else arguments_text(call)
        if not answer and (key := marks.get(FLAT)):
            wire = {"id": call.id, "name": call.name, key: arguments}
        else:
            wire = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
    if call.thought_signature is not None:
        wire["extra_content"] = signed(call.thought_signature)
    if call.cache is not None:
        put_cache(wire, call.cache)
    if marks:
        wire = put_back(wire, marks)
        return put_back(wire, marks.get(RESPONSE) or {}) if answer else wire
    return wire


def is_blank(call: ToolCall) -> bool:
    return call.arguments_text is not None and not call.arguments_text.strip()


class ResultPairing:
    """Pairs results with calls: by id within the turn, one result per call, else the latest call with that id.

    Calls without an id get a generated one; results without an id are paired in order.
    """

    def __init__(self, mint: Callable[[int], str] | None = None) -> None:
        self._mint = mint
        self._generated = 0
        self._names: dict[str, str] = {}
        self._open: list[tuple[str | None, str, str]] = []  # (wire id, id, name) of calls without a result

    def mint(self) -> str:
        number, self._generated = self._generated, self._generated + 1
        return self._mint(number) if self._mint is not None else f"call_{number}"

    def turn(self) -> None:
        """Starts the turn of another assistant message."""
        self._open = []

    def made(self, wire_id: Any, call_id: str, name: str) -> None:
        self._open.append((real_id(wire_id), call_id, name))
        self._names[call_id] = name

    def answered(self, wire_id: Any) -> tuple[str | None, str | None]:
        """The id and the name of the call for a result with this wire id; None if there is none."""
        wire_id = real_id(wire_id)
        # Some hosts give calls of different turns the same id, such as the name of the function: only the last turn's
        # count.
        for at, (known, call_id, name) in enumerate(self._open):
            if known == wire_id:
                del self._open[at]
                return call_id, name
        return wire_id, None if wire_id is None else self._names.get(wire_id)
