"""Content parts, citations and tool calls."""

import base64
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.folding import arguments_text, parse_arguments
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
from ..residual import GENERATED, RESPONSE, keeping, optional, put_back, residual, restored, string, whole
from .facts import API, AS, BREAKPOINT, CACHE, CUSTOM, FLAT, MEDIA_RULE, OBJECT, PART, PLAIN, PREFIX, SPLIT

# --- parts of a content list -----------------------------------------------------------------------------------------


def decode_part(wire: Any) -> Block:
    """Decodes a part of a content list; an unknown or malformed one becomes an opaque block."""
    kind = wire.get("type") if isinstance(wire, dict) else None
    if not isinstance(kind, str):
        return OpaqueBlock(dialect=API, value={"content": [wire]})
    decode = _PART_DECODERS.get(kind)
    if decode is not None:
        try:
            return _marked(*decode(wire), wire)
        except (KeyError, TypeError, ValueError, AttributeError):
            pass
    return OpaqueBlock(dialect=API, value=wire)


def _marked(block: Any, marks: dict[str, Any], wire: dict[str, Any]) -> Block:
    """The block with hints and its residual."""
    if marks:
        block = replace(block, extra={API: marks})
    extra_fields = residual(wire, encode_part_unreported(block)[0])
    made: Block = replace(block, extra={API: {**extra_fields, **marks}}) if extra_fields else block
    return made


def _decode_text(wire: dict[str, Any]) -> tuple[Block, dict[str, Any]]:
    return TextBlock(text=string(wire["text"]), cache=decode_cache(wire)), {}


def _decode_refusal(wire: dict[str, Any]) -> tuple[Block, dict[str, Any]]:
    return TextBlock(text=string(wire["refusal"]), refusal=True, cache=decode_cache(wire)), {PART: True}


def _decode_thought(wire: dict[str, Any]) -> tuple[Block, dict[str, Any]]:
    """Mistral's thinking part: a list of text chunks (docs.mistral.ai, Reasoning)."""
    given, marks = wire["thinking"], {PART: True}
    if isinstance(given, str):
        text, marks = given, {PART: True, PLAIN: True}
    else:
        pieces = [chunk_text(chunk) for chunk in given]
        text = "".join(pieces)
        if pieces != ([text] if text else []):
            marks[SPLIT] = [len(piece) for piece in pieces]  # type: ignore[assignment]
    return ThinkingBlock(thinking=text, thinking_signature=optional(wire.get("signature"))), marks


def chunk_text(chunk: dict[str, Any]) -> str:
    if chunk.keys() != {"type", "text"} or chunk["type"] != "text":
        raise ValueError("not a plain text chunk")
    return string(chunk["text"])


def _decode_by_url(wire: dict[str, Any]) -> tuple[Block, dict[str, Any]]:
    """`image_url` and `audio_url`: an object with a URL; some hosts have the URL itself."""
    kind = wire["type"]
    given = wire[kind]
    bare = isinstance(given, str)
    usual = ImageBlock if kind == "image_url" else AudioBlock
    source, marks = _decode_source(string(given if bare else given["url"]), usual)
    block = source(cache=decode_cache(wire))
    if isinstance(block, ImageBlock) and not bare:
        block = replace(block, detail=optional(given.get("detail")))
    if bare:
        marks[PLAIN] = True
    return block, _as(kind, block, marks)


def _decode_document_url(wire: dict[str, Any]) -> tuple[Block, dict[str, Any]]:
    source, marks = _decode_source(string(wire["document_url"]), DocumentBlock)
    block = source(cache=decode_cache(wire))
    if isinstance(block, DocumentBlock):
        block = replace(block, title=optional(wire.get("document_name")))
    return block, _as("document_url", block, marks)


def _decode_file(wire: dict[str, Any]) -> tuple[Block, dict[str, Any]]:
    file = wire["file"]
    given, file_id = optional(file.get("file_data")), optional(file.get("file_id"))
    block: Any
    marks: dict[str, Any]
    if given is None:
        if file_id is None:
            raise ValueError("a file needs data or an id")
        block, marks = DocumentBlock(cache=decode_cache(wire)), {}
    elif given.startswith("data:") or "://" in given:
        source, marks = _decode_source(given, DocumentBlock)
        block = source(cache=decode_cache(wire))
    else:  # some hosts have the base64 text itself
        block, marks = DocumentBlock(data=given, cache=decode_cache(wire)), {}
    if isinstance(block, DocumentBlock):
        block = replace(block, file_id=file_id, title=optional(file.get("filename")))
    return block, _as("file", block, marks)


def _decode_input_audio(wire: dict[str, Any]) -> tuple[Block, dict[str, Any]]:
    given = wire["input_audio"]
    if isinstance(given, str):
        usual = AudioBlock(cache=decode_cache(wire))
        sound = replace(usual, url=given) if "://" in given else replace(usual, data=given)
        return sound, {PLAIN: True, AS: "input_audio"}
    spelled = optional(given.get("format"))
    block = AudioBlock(
        data=string(given["data"]),
        mime_type=None if spelled is None else _mime_of(spelled),
        cache=decode_cache(wire),
    )
    return block, {}


_PART_DECODERS: dict[str, Callable[[dict[str, Any]], tuple[Block, dict[str, Any]]]] = {
    "text": _decode_text,
    "refusal": _decode_refusal,
    "thinking": _decode_thought,
    # docs.mistral.ai/capabilities/document_ai and …/audio: `document_url`; audio as a URL or base64 under
    # `input_audio`.
    "image_url": _decode_by_url,
    "audio_url": _decode_by_url,
    "document_url": _decode_document_url,
    "file": _decode_file,
    "input_audio": _decode_input_audio,
}


def _decode_source(url: str, usual: type[Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The block class for a URL, by the media type of its data."""
    found = read_data_url(url)
    if found is None:
        return lambda **more: usual(url=url, **more), {}
    mime, data = found
    kind = ImageBlock if mime.startswith("image/") else AudioBlock if mime.startswith("audio/") else DocumentBlock
    if not mime:
        kind = usual
    prefix = odd_prefix(url)
    marks = {} if prefix is None else {PREFIX: prefix}
    return lambda **more: kind(data=data, mime_type=mime or None, **more), marks


def _as(kind: str, block: Any, marks: dict[str, Any]) -> dict[str, Any]:
    return marks if kind == _usual_part(block) else {**marks, AS: kind}


def _usual_part(block: ImageBlock | AudioBlock | DocumentBlock) -> str:
    if isinstance(block, ImageBlock):
        return "image_url"
    if isinstance(block, DocumentBlock):
        return "file"
    return "input_audio" if block.data is not None else "audio_url"


_FORMATS = {"audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/x-wav": "wav", "audio/wave": "wav"}


def _mime_of(spelled: str) -> str:
    # …/chat/create, `input_audio`: `format` is `wav` or `mp3`; RFC 3003 names the latter `audio/mpeg`.
    return "audio/mpeg" if spelled == "mp3" else f"audio/{spelled}"


def _format_of(mime: str) -> str:
    return _FORMATS.get(mime) or mime.removeprefix("audio/")


def decode_cache(wire: Mapping[str, Any]) -> CacheMarker | None:
    """A cache breakpoint, in Anthropic's field, which routers accept, or in OpenAI's own."""
    # openrouter.ai/docs/features/prompt-caching: `cache_control` on a text part is passed on to Anthropic's and
    # Google's models; OpenAI's own field is `prompt_cache_breakpoint` (platform.openai.com/docs/guides/prompt-caching).
    for key in (CACHE, BREAKPOINT):
        marker = wire.get(key)
        if isinstance(marker, dict):
            marks = {AS: key} if key == BREAKPOINT else {}
            cache = CacheMarker(ttl=optional(marker.get("ttl")), extra={API: marks} if marks else {})
            extra_fields = {**residual(marker, _encode_marker(cache)), **marks}
            return replace(cache, extra={API: extra_fields}) if extra_fields else cache
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
    elif isinstance(block, (ImageBlock, AudioBlock, DocumentBlock)):
        _account(block, encoded[0], report)
    return encoded


def encode_part_unreported(block: Block) -> list[Any]:
    """The same without reports."""
    wire: dict[str, Any] | None
    match block:
        case TextBlock():
            wire = {"type": "refusal", "refusal": block.text} if block.refusal else {"type": "text", "text": block.text}
        case ThinkingBlock():
            wire = _encode_thinking_part(block)
            return [restored(wire, block.extra, API)]
        case ImageBlock() | AudioBlock() | DocumentBlock():
            wire = _encode_media(block, block.extra.get(API) or {})
            if wire is None:
                return []
        case OpaqueBlock() if block.dialect == API:
            return _opaque_part(block.value)
        case _:
            return []
    if block.cache is not None:
        put_cache(wire, block.cache)
    return [restored(wire, block.extra, API) if block.extra else wire]


def _opaque_part(value: Any) -> list[Any]:
    if isinstance(value, dict):
        if isinstance(value.get("type"), str):
            return [value]
        if value.keys() == {"content"} and isinstance(value["content"], list) and len(value["content"]) == 1:
            return list(value["content"])
    return []


def _encode_thinking_part(block: ThinkingBlock) -> dict[str, Any]:
    extra_fields, text = block.extra.get(API) or {}, block.thinking
    lengths = extra_fields.get(SPLIT)
    wire: dict[str, Any] = {"type": "thinking"}
    if extra_fields.get(PLAIN):
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


def _encode_media(
    block: ImageBlock | AudioBlock | DocumentBlock, extra_fields: Mapping[str, Any]
) -> dict[str, Any] | None:
    kind = extra_fields.get(AS) or _usual_part(block)
    url = _url_of(block, extra_fields)
    if kind == "file":
        return _encode_file(block, url)
    if kind == "input_audio":
        return _encode_audio(block, extra_fields)
    if url is None:
        return None
    if kind == "document_url":
        named = {"document_name": block.title} if isinstance(block, DocumentBlock) and block.title is not None else {}
        return {"type": kind, kind: url, **named}
    detail = {"detail": block.detail} if isinstance(block, ImageBlock) and block.detail is not None else {}
    return {"type": kind, kind: url if extra_fields.get(PLAIN) and not detail else {"url": url, **detail}}


def _url_of(block: ImageBlock | AudioBlock | DocumentBlock, extra_fields: Mapping[str, Any]) -> str | None:
    if block.data is None:
        return block.url
    prefix = extra_fields.get(PREFIX)
    if prefix is not None and read_data_url(prefix) == (block.mime_type or "", ""):
        return f"{prefix}{block.data}"
    return data_url(block.mime_type, block.data)


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


def _encode_audio(
    block: ImageBlock | AudioBlock | DocumentBlock, extra_fields: Mapping[str, Any]
) -> dict[str, Any] | None:
    if extra_fields.get(PLAIN):
        given = block.data if block.data is not None else block.url
        return None if given is None else {"type": "input_audio", "input_audio": given}
    if block.data is None:
        return None
    spelled = {} if block.mime_type is None else {"format": _format_of(block.mime_type)}
    return {"type": "input_audio", "input_audio": {"data": block.data, **spelled}}


def put_cache(wire: dict[str, Any], cache: CacheMarker) -> None:
    """Writes a cache breakpoint into its original field."""
    wire[BREAKPOINT if _is_openai_s(cache) else CACHE] = _encode_marker(cache)


def _is_openai_s(cache: CacheMarker) -> bool:
    return bool(cache.extra) and (cache.extra.get(API) or {}).get(AS) == BREAKPOINT


def _encode_marker(cache: CacheMarker) -> dict[str, Any]:
    # Anthropic's marker is `{"type": "ephemeral"}`, OpenAI's `{"mode": "explicit"}`.
    wire = {"mode": "explicit"} if _is_openai_s(cache) else {"type": "ephemeral"}
    if cache.ttl is not None:
        wire["ttl"] = cache.ttl
    return restored(wire, cache.extra, API) if cache.extra else wire


_MEDIA_FIELDS = {
    ImageBlock: ("data", "mime_type", "url", "file_id", "detail"),
    AudioBlock: ("data", "mime_type", "url", "file_id", "transcript"),
    DocumentBlock: ("data", "mime_type", "text", "url", "file_id", "title"),
}


def _account(block: ImageBlock | AudioBlock | DocumentBlock, encoded: Any, report: Reporter) -> None:
    """Reports the fields that decoding the part would not restore."""
    if isinstance(block, ImageBlock) and _is_plain_picture(block):
        return  # fast path: the most common case, and the most expensive to compare
    again = decode_part(encoded)
    if type(again) is not type(block):
        report.lost(type(block).__name__, "it is read back as another kind of block", "weakened")
        return
    for name in _MEDIA_FIELDS[type(block)]:
        given, kept = getattr(block, name), getattr(again, name)
        if given != kept:
            report.lost(name, MEDIA_RULE, "dropped" if kept is None else "weakened", field=json_name(name))


def _is_plain_picture(block: ImageBlock) -> bool:
    mime = block.mime_type
    return bool(mime and mime.startswith("image/") and block.data is not None and block.url is block.file_id is None)


def json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def chunks_in(thinking: list[Any]) -> str | None:
    """The text of thinking chunks; None if one of them is not text."""
    try:
        return "".join(map(chunk_text, thinking))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


# --- citations and signatures of a message ---------------------------------------------------------------------------


def decode_citation(wire: dict[str, Any]) -> Citation:
    given = wire.get("url_citation")
    inner = given if isinstance(given, dict) else {}
    citation = Citation(
        title=optional(inner.get("title")),
        url=optional(inner.get("url")),
        cited_text=optional(inner.get("content")),
        start=whole(inner.get("start_index")),
        end=whole(inner.get("end_index")),
    )
    return keeping(citation, API, wire, encode_citation(citation, 0))


def encode_citation(citation: Citation, offset: int) -> dict[str, Any]:
    """A citation of a text that starts at `offset` in the text of the message."""
    inner: dict[str, Any] = {}
    if citation.url is not None:
        inner["url"] = citation.url
    if citation.title is not None:
        inner["title"] = citation.title
    if citation.start is not None:
        inner["start_index"] = citation.start + offset
    if citation.end is not None:
        inner["end_index"] = citation.end + offset
    if citation.cited_text is not None:
        inner["content"] = citation.cited_text
    wire: dict[str, Any] = {"type": "url_citation", "url_citation": inner}
    return restored(wire, citation.extra, API) if citation.extra else wire


def google_signature(wire: Mapping[str, Any]) -> str | None:
    """Google's thought signature, in `extra_content` of its compatible endpoint."""
    # ai.google.dev/gemini-api/docs/thought-signatures, OpenAI compatibility: the signature of a call, or of a text.
    content = wire.get("extra_content")
    google = content.get("google") if isinstance(content, dict) else None
    return optional(google.get("thought_signature")) if isinstance(google, dict) else None


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
    try:
        call, marks = _read_call(wire, mint, None if answer else _flat_key(wire))
    except (KeyError, TypeError, ValueError, AttributeError):
        return OpaqueBlock(dialect=API, value={"tool_calls": [wire]})
    function = wire.get("function") or {}
    blank = answer and is_blank(call)
    is_plain = len(wire) == 3 and len(function) == 2 and not marks and wire.get("type") == "function"
    if is_plain and not blank and isinstance(function.get("arguments"), str):
        return call
    if not blank:
        extra_fields = residual(wire, encode_call(call))
        return replace(call, extra={API: {**extra_fields, **marks}}) if extra_fields else call
    call = replace(call, arguments_text=None)
    meant = {**wire, "function": {**function, "arguments": "{}"}}
    extra_fields = {**residual(meant, encode_call(call)), **marks, RESPONSE: residual(wire, meant)}
    return replace(call, extra={API: extra_fields})


def _read_call(wire: Any, mint: Callable[[], str], flat: str | None) -> tuple[ToolCall, dict[str, Any]]:
    call_id = wire.get("id")
    marks: dict[str, Any] = {}
    if flat is not None:
        kind, function = "function", {"name": wire["name"], "arguments": wire[flat]}
        marks[FLAT] = flat
    else:
        kind = wire.get("type") or "function"
        function = wire[kind]
    name = string(function["name"])
    # platform.openai.com/docs/guides/function-calling, Custom tools: the input is one string that need not be JSON.
    if kind == "custom":  # a custom tool takes a text: our argument `input`
        arguments, text, broken = {"input": string(function["input"])}, None, None
        marks[CUSTOM] = True
    elif kind == "function":
        arguments, text, broken, is_object = _read_arguments(function.get("arguments"))
        if is_object:
            marks[OBJECT] = True
    else:
        raise ValueError("neither a function nor a custom tool")
    # The id is required by the API reference, but some hosts send none, "" or "null".
    if real_id(call_id) is None:
        call_id, marks[GENERATED] = mint(), True
    call = ToolCall(
        id=call_id,
        name=name,
        arguments=arguments,
        arguments_text=text,
        parse_error=broken,
        thought_signature=google_signature(wire),
        cache=decode_cache(wire),
        extra={API: marks} if marks else {},
    )
    return call, marks


def _flat_key(wire: dict[str, Any]) -> str | None:
    """The key of the arguments of a call without its `function`, as training sets and LangChain write it.

    Only in requests: clients read an answer's calls by `function`.
    """
    if "function" in wire or wire.get("type") not in (None, "function", "tool_call"):
        return None
    return next((key for key in ("arguments", "args") if isinstance(wire.get(key), dict | str)), None)


def _read_arguments(given: Any) -> tuple[dict[str, Any], str | None, str | None, bool]:
    """Fields of a ToolCall, and whether the arguments were an object: some hosts do not send text."""
    # A call without arguments has no `arguments` from some hosts, "" or "{}" from others.
    if given is None:
        return {}, None, None, False
    if isinstance(given, dict):
        return given, None, None, True
    return *parse_arguments(string(given)), False


def real_id(wire_id: Any) -> str | None:
    """The id, or None; one SDK writes "null" for none."""
    return wire_id if isinstance(wire_id, str) and wire_id not in ("", "null") else None


def encode_call(call: ToolCall, *, answer: bool = False) -> dict[str, Any]:
    wire: dict[str, Any]
    if call.extra and is_custom(call):
        wire = {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments["input"]}}
    else:
        marks = (call.extra.get(API) or {}) if call.extra else {}
        arguments = call.arguments if marks.get(OBJECT) else arguments_text(call)
        if not answer and (key := marks.get(FLAT)):
            wire = {"id": call.id, "name": call.name, key: arguments}
        else:
            wire = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
    if call.thought_signature is not None:
        wire["extra_content"] = signed(call.thought_signature)
    if call.cache is not None:
        put_cache(wire, call.cache)
    return restored(wire, call.extra, API) if call.extra else wire


def is_custom(call: ToolCall) -> bool:
    """Whether the call is of a custom tool and its arguments are still one text."""
    given = call.arguments
    return (
        bool((call.extra.get(API) or {}).get(CUSTOM)) and given.keys() == {"input"} and isinstance(given["input"], str)
    )


def encode_answered_call(call: ToolCall) -> dict[str, Any]:
    """A call of an answer. Clients parse the arguments, so blank ones are sent as `{}`."""
    if is_blank(call):
        call = replace(call, arguments_text=None)
    encoded = encode_call(call, answer=True)
    return put_back(encoded, (call.extra.get(API) or {}).get(RESPONSE) or {}) if call.extra else encoded


def is_blank(call: ToolCall) -> bool:
    return call.arguments_text is not None and not call.arguments_text.strip()


class ResultPairing:
    """Pairs results with calls: by id within the turn, one result per call, else the latest call with that id.

    Calls without an id get a generated one; results without an id are paired in order.
    """

    def __init__(self, mint: Callable[[int], str] | None = None) -> None:
        self._mint = mint or _call_number
        self._generated = 0
        self._names: dict[str, str] = {}
        self._open: list[tuple[str | None, str, str]] = []  # (wire id, id, name) of calls without a result

    def mint(self) -> str:
        self._generated += 1
        return self._mint(self._generated - 1)

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


def _call_number(n: int) -> str:
    return f"call_{n}"
