"""OpenAI Chat Completions, as OpenAI and the many hosts that copied it speak it.

Knows nothing of HTTP, keys, clocks or other dialects. What hosts do differently is data (`Compat`), never a name.

Shapes that differ from ours: an assistant message is no list but has a place for each kind of content ("tracks":
thinking, `content`, `refusal`, `tool_calls`, …), so the order between kinds is the wire's own; a stream shows the order
in which the model spoke, and it is kept. Where an answer of ours is interleaved, the whole form says the order in a
field of its own, `interlingua`, which clients ignore and return. Thinking comes under several names, sometimes under
two at once, and at OpenRouter also as `reasoning_details` with signatures and sealed payloads: words are read once.

Hints on messages: `~parts` (content as a list although a string would do), `~repeats` (fields that repeat the words of
the details), `~ordered`; on blocks: `~part` (a part of `content`), `~fields` and `~detail` (where thinking stood),
`~as`, `~plain`, `~prefix`, `~split` (spelling of media and thinking), `~object` (arguments as an object), `~minted`.
"""

import base64
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, TypeVar
from urllib.parse import quote

from msgspec import Struct, ValidationError, convert
from msgspec.structs import fields as struct_fields
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
from ..folding import CUT_OFF, arguments_text, parse_arguments, settle
from ..framing import SSE, Frame, JSONArray, write_sse
from ..losses import QUIET, SYSTEM, Encoded, Fate, Fates, Reporter, bookkeeping, dropped, encoded, kept, record, some
from ..messages import (
    AssistantMessage,
    AudioBlock,
    Block,
    CacheMarker,
    Citation,
    Content,
    Cost,
    CustomMessage,
    DocumentBlock,
    Extra,
    ImageBlock,
    Message,
    OpaqueBlock,
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
from ._openai import data_url, odd_prefix, read_data_url
from ._stream import Decoder
from ._wire import (
    MESSAGE,
    RESPONSE,
    an_object,
    api_of,
    body_of,
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

API = "openai-completions"

M = TypeVar("M", UserMessage, SystemMessage, ToolResultMessage)

STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop",
    "end": "stop",
    "eos": "stop",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
    "length": "length",
    "model_length": "length",
    "content_filter": "error",
    "sensitive": "error",
    "error": "error",
    "network_error": "error",
    "insufficient_system_resource": "error",
    "model_context_window_exceeded": "error",  # the conversation did not fit: the word is what tells an overflow
}
SAID_STOPS = {"stop": "stop", "toolUse": "tool_calls", "length": "length", "error": "error", "aborted": "stop"}

# Where hosts put the words of the model's thinking; a message that has several is read in this order.
THOUGHTS = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
DETAILS = "reasoning_details"
# The places of an assistant message, in the order in which a whole one is read.
TRACKS = (*THOUGHTS, DETAILS, "content", "refusal", "audio", "images", "function_call", "tool_calls")
RANKS = {track: rank for rank, track in enumerate(TRACKS)}
ORDER = "interlingua"  # our own field in an answer whose content is interleaved: {"order": [[track, how much], …]}

PARTS, REPEATS, ORDERED, INDEXED = "~parts", "~repeats", "~ordered", "~indexed"
PART, FIELDS, DETAIL, AS, PLAIN, PREFIX, SPLIT = "~part", "~fields", "~detail", "~as", "~plain", "~prefix", "~split"
OBJECT, MINTED, CHOICE, CHOICES, NONE = "~object", "~minted", "~choice", "~choices", "~none"

# What only one form of an answer carries, as paths into the message: a stream has its own word for `object` and numbers
# all calls and details, as some hosts do in whole answers; one host puts a `delta` beside the message of a whole one.
UNEVEN: tuple[str, ...] = (
    f"$.content[].extra.{API}.~.index",
    f"$.extra.{API}.{RESPONSE}.~.object",
    f"$.extra.{API}.{RESPONSE}.{MESSAGE}.{INDEXED}",
    f"$.extra.{API}.{RESPONSE}.{CHOICE}.delta",
    f"$.extra.{API}.{RESPONSE}.{CHOICES}",
)

_MEDIA_RULE = "a part has one source: data with its type, a URL or, for files, an id"

FATES: Fates = {
    **kept("TextBlock.text TextBlock.refusal TextBlock.cache CacheMarker.ttl"),
    **some("TextBlock.citations", "sources belong to the one text of an assistant message"),
    **kept("Citation.title Citation.url Citation.cited_text Citation.start Citation.end"),
    **some("TextBlock.text_signature", "carried for the first text of an assistant message"),
    **some("ThinkingBlock.thinking", "sealed thinking has no words; blank thinking is not said"),
    **kept("ThinkingBlock.thinking_signature ThinkingBlock.redacted"),
    **some("ImageBlock.data ImageBlock.mime_type ImageBlock.url ImageBlock.detail", _MEDIA_RULE),
    **some("ImageBlock.file_id", "a picture is data or a URL"),
    **kept("ImageBlock.cache"),
    **some("AudioBlock.data AudioBlock.mime_type AudioBlock.url AudioBlock.cache", _MEDIA_RULE),
    **some("AudioBlock.file_id AudioBlock.transcript", "only for the sound of an answer"),
    **some("DocumentBlock.data DocumentBlock.mime_type DocumentBlock.text DocumentBlock.url", _MEDIA_RULE),
    **some("DocumentBlock.file_id DocumentBlock.title", _MEDIA_RULE),
    **kept("DocumentBlock.cache"),
    **dropped("DocumentBlock.context DocumentBlock.citations"),
    **some("ToolCall.id", "an empty id is read as none"),
    **kept("ToolCall.name ToolCall.arguments ToolCall.arguments_text ToolCall.parse_error ToolCall.cache"),
    **kept("ToolCall.thought_signature"),
    **some(
        "ServerToolCall.id ServerToolCall.name ServerToolCall.arguments ServerToolCall.cache"
        " ServerToolResult.tool_call_id ServerToolResult.tool_name ServerToolResult.dialect ServerToolResult.content"
        " ServerToolResult.is_error ServerToolResult.cache",
        "this wire does not show what the provider's own tools do; the block is dropped",
    ),
    **some("OpaqueBlock.dialect OpaqueBlock.value", "only what this wire minted"),
    **kept("UserMessage.content SystemMessage.developer"),
    **some("AssistantMessage.content", "kinds have their own places: order and borders between blocks may change"),
    **some("SystemMessage.content", "a first system message is the system prompt"),
    **bookkeeping(API),
    **some("ToolResultMessage.tool_call_id", "an empty id is read as none"),
    **some("ToolResultMessage.content", "a string is read as one text"),
    **kept("ToolResultMessage.cache"),
    **some("ToolResultMessage.tool_name", "the name is that of the call it answers"),
    "ToolResultMessage.is_error": Fate("dropped", "a tool message cannot say that it is an error", False),
    **some("Context.system_role", "`developer` is said, where the host knows that role"),
    **kept("CustomMessage.role CustomMessage.fields"),
    **kept("ToolSpec.name ToolSpec.description ToolSpec.input_schema ToolSpec.cache"),
    **some("ToolSpec.strict", "where the host knows strict schemas"),
    **some("ToolSpec.dialect ToolSpec.value", "only this wire's own tools"),
    **kept("Options.max_tokens Options.temperature Options.top_p Options.top_k Options.stop Options.seed"),
    **kept("Options.parallel_tools Options.session_id Options.service_tier Options.metadata Options.stream"),
    **some("Options.cache_retention", "what is cached is not turned off here"),
    **some("Options.reasoning Options.tool_choice Options.output_schema", "see their fields"),
    **some(
        "Reasoning.effort Reasoning.budget Reasoning.enabled",
        "an effort word, a budget or a switch, as the host has it",
    ),
    **dropped("Reasoning.summary"),
    **kept("ToolChoice.mode"),
    **some("ToolChoice.names", "names narrow a choice that allows tools"),
    **kept("OutputSchema.schema"),
    **some(
        "OutputSchema.name OutputSchema.description OutputSchema.strict", "only beside a schema, which needs a name"
    ),
    **dropped(
        "Options.extra Reasoning.extra ToolChoice.extra OutputSchema.extra",
        "what only this wire can say of a request goes into the request's extra",
    ),
}


# --- what hosts do differently ---------------------------------------------------------------------------------------


class Compat(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a host departs from OpenAI's own service. The JSON names are those of `ModelDescriptor.compat`."""

    supports_store: bool | None = None  # True: say `store: false`, so that nothing is kept
    supports_developer_role: bool | None = None  # True: reasoning models get `developer`; False: nobody does
    supports_reasoning_effort: bool = True
    reasoning_effort_map: dict[str, str | None] = {}  # our word -> the host's, null where it has none; `off` too
    supports_usage_in_streaming: bool = True
    max_tokens_field: str = "max_completion_tokens"
    seed_field: str = "seed"
    requires_tool_result_name: bool = False
    # openai: reasoning_effort · openrouter: reasoning{effort, max_tokens, enabled} · zai: thinking{type}
    # deepseek: thinking{type} and reasoning_effort · qwen: enable_thinking · qwen-chat-template: the same, nested
    thinking_format: str = "openai"
    supports_strict_mode: bool = True
    open_router_routing: dict[str, Any] = {}
    vercel_gateway_routing: dict[str, Any] = {}
    reasoning_field: str = "reasoning_content"
    usage_includes_reasoning: bool | None = None  # whether completion_tokens count the thinking; None: see the total
    path: str = "/chat/completions"  # {model} is the model's id


_PLAIN_HOST = Compat()
_COMPAT_NAMES = frozenset(field.encode_name for field in struct_fields(Compat))


def compat_of(quirks: Mapping[str, Any] | None, model: ModelDescriptor | None = None) -> Compat:
    """The host's ways: the quirks of the variant, overruled field by field by what the model's description says."""
    if not quirks and (model is None or not model.compat):
        return _PLAIN_HOST
    told = {**(quirks or {}), **((model and model.compat) or {})}
    try:
        return convert({name: told[name] for name in told.keys() & _COMPAT_NAMES}, Compat)
    except ValidationError as error:
        raise FormatError(str(error), "$.model.compat") from None


# --- parts of a content list: wire to ours ---------------------------------------------------------------------------


def decode_part(wire: Any) -> Block:
    """One part of a content list; whatever is not as this wire has it is kept as it is, opaque."""
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
    """The block with its marks and with what its own encoding gets wrong about `wire`."""
    if marks:
        block = replace(block, extra={API: marks})
    held = residual(wire, _say_part(block)[0])
    made: Block = replace(block, extra={API: {**held, **marks}}) if held else block
    return made


def _decode_text(wire: dict[str, Any]) -> tuple[Block, dict[str, Any]]:
    return TextBlock(text=string(wire["text"]), cache=_decode_cache(wire)), {}


def _decode_refusal(wire: dict[str, Any]) -> tuple[Block, dict[str, Any]]:
    return TextBlock(text=string(wire["refusal"]), refusal=True, cache=_decode_cache(wire)), {PART: True}


def _decode_thought(wire: dict[str, Any]) -> tuple[Block, dict[str, Any]]:
    """Mistral's thinking, itself a list of text chunks."""
    told, marks = wire["thinking"], {PART: True}
    if isinstance(told, str):
        text, marks = told, {PART: True, PLAIN: True}
    else:
        pieces = [_chunk_text(chunk) for chunk in told]
        text = "".join(pieces)
        if pieces != ([text] if text else []):
            marks[SPLIT] = [len(piece) for piece in pieces]  # type: ignore[assignment]
    return ThinkingBlock(thinking=text, thinking_signature=optional(wire.get("signature"))), marks


def _chunk_text(chunk: dict[str, Any]) -> str:
    if chunk.keys() != {"type", "text"} or chunk["type"] != "text":
        raise ValueError("not a plain text chunk")
    return string(chunk["text"])


def _decode_by_url(wire: dict[str, Any]) -> tuple[Block, dict[str, Any]]:
    """`image_url` and `audio_url`: an object with a URL, or at some hosts the bare URL."""
    kind = wire["type"]
    told = wire[kind]
    bare = isinstance(told, str)
    usual = ImageBlock if kind == "image_url" else AudioBlock
    source, marks = _decode_source(string(told if bare else told["url"]), usual)
    block = source(cache=_decode_cache(wire))
    if isinstance(block, ImageBlock) and not bare:
        block = replace(block, detail=optional(told.get("detail")))
    if bare:
        marks[PLAIN] = True
    return block, _as(kind, block, marks)


def _decode_document_url(wire: dict[str, Any]) -> tuple[Block, dict[str, Any]]:
    source, marks = _decode_source(string(wire["document_url"]), DocumentBlock)
    block = source(cache=_decode_cache(wire))
    if isinstance(block, DocumentBlock):
        block = replace(block, title=optional(wire.get("document_name")))
    return block, _as("document_url", block, marks)


def _decode_file(wire: dict[str, Any]) -> tuple[Block, dict[str, Any]]:
    file = wire["file"]
    told, file_id = optional(file.get("file_data")), optional(file.get("file_id"))
    block: Any
    marks: dict[str, Any]
    if told is None:
        if file_id is None:
            raise ValueError("a file needs data or an id")
        block, marks = DocumentBlock(cache=_decode_cache(wire)), {}
    elif told.startswith("data:") or "://" in told:
        source, marks = _decode_source(told, DocumentBlock)
        block = source(cache=_decode_cache(wire))
    else:  # some hosts take the base64 text alone
        block, marks = DocumentBlock(data=told, cache=_decode_cache(wire)), {}
    if isinstance(block, DocumentBlock):
        block = replace(block, file_id=file_id, title=optional(file.get("filename")))
    return block, _as("file", block, marks)


def _decode_input_audio(wire: dict[str, Any]) -> tuple[Block, dict[str, Any]]:
    told = wire["input_audio"]
    if isinstance(told, str):
        usual = AudioBlock(cache=_decode_cache(wire))
        sound = replace(usual, url=told) if "://" in told else replace(usual, data=told)
        return sound, {PLAIN: True, AS: "input_audio"}
    spelled = optional(told.get("format"))
    block = AudioBlock(
        data=string(told["data"]),
        mime_type=None if spelled is None else _mime_of(spelled),
        cache=_decode_cache(wire),
    )
    return block, {}


_PART_DECODERS: dict[str, Callable[[dict[str, Any]], tuple[Block, dict[str, Any]]]] = {
    "text": _decode_text,
    "refusal": _decode_refusal,
    "thinking": _decode_thought,
    "image_url": _decode_by_url,
    "audio_url": _decode_by_url,
    "document_url": _decode_document_url,
    "file": _decode_file,
    "input_audio": _decode_input_audio,
}


def _decode_source(url: str, usual: type[Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
    """What makes a block of the URL: the media type of the data in it decides the kind of block."""
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
    return "audio/mpeg" if spelled == "mp3" else f"audio/{spelled}"


def _format_of(mime: str) -> str:
    return _FORMATS.get(mime) or mime.removeprefix("audio/")


def _decode_cache(wire: Mapping[str, Any]) -> CacheMarker | None:
    marker = wire.get("cache_control")
    if not isinstance(marker, dict):
        return None
    cache = CacheMarker(ttl=optional(marker.get("ttl")))
    return keeping(cache, API, marker, _encode_cache(cache))


# --- parts of a content list: ours to wire ---------------------------------------------------------------------------


def encode_part(block: Block, report: Reporter) -> list[Any]:
    """The block as a part of a content list; none (reported) when this wire cannot say it there."""
    said = [] if isinstance(block, ThinkingBlock) else _say_part(block)
    if not said:
        report.lost(type(block).__name__, "this wire cannot say such a block here")
    elif isinstance(block, TextBlock):
        if block.citations:
            report.lost("citations", "only the text of an answer has sources", field="citations")
        if block.text_signature is not None:
            report.lost("text_signature", "only the text of an answer is signed", field="textSignature")
    elif isinstance(block, (ImageBlock, AudioBlock, DocumentBlock)):
        _account(block, said[0], report)
    return said


def _say_part(block: Block) -> list[Any]:
    """The same without a word about what is lost."""
    wire: dict[str, Any] | None
    match block:
        case TextBlock():
            wire = {"type": "refusal", "refusal": block.text} if block.refusal else {"type": "text", "text": block.text}
        case ThinkingBlock():
            wire = _say_thought(block)
            return [restored(wire, block.extra, API)]
        case ImageBlock() | AudioBlock() | DocumentBlock():
            wire = _say_media(block, block.extra.get(API) or {})
            if wire is None:
                return []
        case OpaqueBlock() if block.dialect == API:
            return _opaque_part(block.value)
        case _:
            return []
    if block.cache is not None:
        wire["cache_control"] = _encode_cache(block.cache)
    return [restored(wire, block.extra, API) if block.extra else wire]


def _opaque_part(value: Any) -> list[Any]:
    if isinstance(value, dict):
        if isinstance(value.get("type"), str):
            return [value]
        if value.keys() == {"content"} and isinstance(value["content"], list) and len(value["content"]) == 1:
            return list(value["content"])
    return []


def _say_thought(block: ThinkingBlock) -> dict[str, Any]:
    held, text = block.extra.get(API) or {}, block.thinking
    lengths = held.get(SPLIT)
    wire: dict[str, Any] = {"type": "thinking"}
    if held.get(PLAIN):
        wire["thinking"] = text
    elif lengths is not None and sum(lengths) == len(text):
        ends = [sum(lengths[:at]) for at in range(len(lengths) + 1)]
        wire["thinking"] = [_chunk(text[a:b]) for a, b in pairwise(ends)]
    else:
        wire["thinking"] = [_chunk(text)] if text else []
    if block.thinking_signature is not None:
        wire["signature"] = block.thinking_signature
    return wire


def _chunk(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _say_media(block: ImageBlock | AudioBlock | DocumentBlock, held: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = held.get(AS) or _usual_part(block)
    url = _url_of(block, held)
    if kind == "file":
        return _say_file(block, url)
    if kind == "input_audio":
        return _say_sound(block, held)
    if url is None:
        return None
    if kind == "document_url":
        named = {"document_name": block.title} if isinstance(block, DocumentBlock) and block.title is not None else {}
        return {"type": kind, kind: url, **named}
    detail = {"detail": block.detail} if isinstance(block, ImageBlock) and block.detail is not None else {}
    return {"type": kind, kind: url if held.get(PLAIN) and not detail else {"url": url, **detail}}


def _url_of(block: ImageBlock | AudioBlock | DocumentBlock, held: Mapping[str, Any]) -> str | None:
    if block.data is None:
        return block.url
    prefix = held.get(PREFIX)
    if prefix is not None and read_data_url(prefix) == (block.mime_type or "", ""):
        return f"{prefix}{block.data}"
    return data_url(block.mime_type, block.data)


def _say_file(block: ImageBlock | AudioBlock | DocumentBlock, url: str | None) -> dict[str, Any] | None:
    file: dict[str, Any] = {}
    if isinstance(block, DocumentBlock):
        if block.data is not None and block.mime_type is None:
            url = block.data
        elif url is None and block.text is not None:
            url = data_url(block.mime_type or "text/plain", base64.b64encode(block.text.encode()).decode())
        if block.file_id is not None:
            file["file_id"] = block.file_id
        if block.title is not None:
            file["filename"] = block.title
    if url is not None:
        file["file_data"] = url
    return {"type": "file", "file": file} if "file_data" in file or "file_id" in file else None


def _say_sound(block: ImageBlock | AudioBlock | DocumentBlock, held: Mapping[str, Any]) -> dict[str, Any] | None:
    if held.get(PLAIN):
        told = block.data if block.data is not None else block.url
        return None if told is None else {"type": "input_audio", "input_audio": told}
    if block.data is None:
        return None
    spelled = {} if block.mime_type is None else {"format": _format_of(block.mime_type)}
    return {"type": "input_audio", "input_audio": {"data": block.data, **spelled}}


def _encode_cache(cache: CacheMarker) -> dict[str, Any]:
    wire = {"type": "ephemeral"}
    if cache.ttl is not None:
        wire["ttl"] = cache.ttl
    return restored(wire, cache.extra, API) if cache.extra else wire


_MEDIA_FIELDS = {
    ImageBlock: ("data", "mime_type", "url", "file_id", "detail"),
    AudioBlock: ("data", "mime_type", "url", "file_id", "transcript"),
    DocumentBlock: ("data", "mime_type", "text", "url", "file_id", "title"),
}


def _account(block: ImageBlock | AudioBlock | DocumentBlock, said: Any, report: Reporter) -> None:
    """Reports what reading the part again would not bring back."""
    if (
        block.mime_type is not None
        and block.data is not None
        and block.url is block.file_id is None
        and (isinstance(block, ImageBlock) and block.mime_type.startswith("image/"))
    ):
        return  # by far the most common, and the most expensive to look at
    again = decode_part(said)
    if type(again) is not type(block):
        report.lost(type(block).__name__, "it is read back as another kind of block", "weakened")
        return
    for name in _MEDIA_FIELDS[type(block)]:
        if getattr(block, name) != getattr(again, name):
            report.lost(
                name, _MEDIA_RULE, "weakened" if getattr(again, name) is not None else "dropped", field=_json(name)
            )


def _json(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


# --- sources, thinking, calls ----------------------------------------------------------------------------------------


def _decode_citation(wire: dict[str, Any]) -> Citation:
    told = wire.get("url_citation")
    inner = told if isinstance(told, dict) else {}
    if _whose(wire):
        wire = {key: value for key, value in wire.items() if key != ORDER}
    citation = Citation(
        title=optional(inner.get("title")),
        url=optional(inner.get("url")),
        cited_text=optional(inner.get("content")),
        start=whole(inner.get("start_index")),
        end=whole(inner.get("end_index")),
    )
    return keeping(citation, API, wire, _encode_citation(citation, 0, 0))


def _encode_citation(citation: Citation, offset: int, which: int) -> dict[str, Any]:
    """A source; `which` text of a message it belongs to, and how far into all its text that one begins."""
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
    if which:
        wire[ORDER] = {"text": which}
    return restored(wire, citation.extra, API) if citation.extra else wire


def _decode_detail(wire: Any, at: int) -> Block:
    """One entry of `reasoning_details`, the `at`th."""
    try:
        block, marks = _DETAIL_DECODERS[wire["type"]](wire)
        block = replace(block, extra={API: marks}) if marks else block
        held = {**residual(wire, _encode_detail(block, at)), **marks}
        return replace(block, extra={API: held}) if held else block
    except (KeyError, TypeError, ValueError, AttributeError):
        return OpaqueBlock(dialect=API, value={DETAILS: [wire]})


def _decode_detail_text(wire: dict[str, Any]) -> tuple[ThinkingBlock, dict[str, Any]]:
    text = "" if wire.get("text") is None else string(wire["text"])
    signature = optional(wire.get("signature"))
    return ThinkingBlock(thinking=text, thinking_signature=signature), {} if signature is not None else {
        DETAIL: "reasoning.text"
    }


def _decode_detail_summary(wire: dict[str, Any]) -> tuple[ThinkingBlock, dict[str, Any]]:
    return ThinkingBlock(thinking=string(wire["summary"])), {DETAIL: "reasoning.summary"}


def _decode_detail_sealed(wire: dict[str, Any]) -> tuple[ThinkingBlock, dict[str, Any]]:
    return ThinkingBlock(thinking="", thinking_signature=optional(wire.get("data")), redacted=True), {}


_DETAIL_DECODERS: dict[str, Callable[[dict[str, Any]], tuple[ThinkingBlock, dict[str, Any]]]] = {
    "reasoning.text": _decode_detail_text,
    "reasoning.summary": _decode_detail_summary,
    "reasoning.encrypted": _decode_detail_sealed,
}


def _encode_detail(block: ThinkingBlock, at: int) -> dict[str, Any]:
    """The entry; its index is said because clients put streamed entries together by it."""
    kind = "reasoning.encrypted" if block.redacted else (block.extra.get(API) or {}).get(DETAIL, "reasoning.text")
    wire: dict[str, Any] = {"type": kind}
    if block.redacted:
        if block.thinking_signature is not None:
            wire["data"] = block.thinking_signature
    else:
        wire[_WORDS[kind]] = block.thinking
        if block.thinking_signature is not None:
            wire["signature"] = block.thinking_signature
    wire["index"] = at
    return restored(wire, block.extra, API)


_WORDS = {"reasoning.text": "text", "reasoning.summary": "summary"}  # where an entry has its words


def _is_detail(block: ThinkingBlock) -> bool:
    """Whether the thinking needs an entry of its own: signed, sealed, or with more than its words to say."""
    if block.thinking_signature is not None or block.redacted:
        return True
    held = block.extra.get(API) or {}
    return DETAIL in held or any(not key.startswith("~") for key in held)


def _decode_call(wire: Any, mint: Callable[[], str], *, answer: bool = False) -> Block:
    """One entry of `tool_calls`. In an answer, blank arguments mean none and are not sent back as they were."""
    try:
        call, marks = _read_call(wire, mint)
    except (KeyError, TypeError, ValueError, AttributeError):
        return OpaqueBlock(dialect=API, value={"tool_calls": [wire]})
    function = wire["function"]
    blank = answer and _is_blank(call)
    if len(wire) == 3 and len(function) == 2 and not marks and not blank and wire.get("type") == "function":
        return call
    if not blank:
        held = residual(wire, _encode_call(call))
        return replace(call, extra={API: {**held, **marks}}) if held else call
    call = replace(call, arguments_text=None)
    meant = {**wire, "function": {**function, "arguments": "{}"}}
    held = {**residual(meant, _encode_call(call)), **marks, RESPONSE: residual(wire, meant)}
    return replace(call, extra={API: held})


def _read_call(wire: Any, mint: Callable[[], str]) -> tuple[ToolCall, dict[str, Any]]:
    function, call_id, marks = wire["function"], wire.get("id"), {}
    if wire.get("type", "function") not in ("function", None):
        raise ValueError("not a call of a function")
    name, (arguments, text, broken, is_object) = string(function["name"]), _read_arguments(function.get("arguments"))
    if is_object:
        marks[OBJECT] = True
    if _real_id(call_id) is None:
        call_id, marks[MINTED] = mint(), True
    call = ToolCall(
        id=call_id,
        name=name,
        arguments=arguments,
        arguments_text=text,
        parse_error=broken,
        thought_signature=_google_signature(wire),
        cache=_decode_cache(wire),
        extra={API: marks} if marks else {},
    )
    return call, marks


def _read_arguments(told: Any) -> tuple[dict[str, Any], str | None, str | None, bool]:
    """Arguments as a ToolCall has them, and whether they came as an object: some hosts do not write them as text."""
    if told is None:
        return {}, None, None, False
    if isinstance(told, dict):
        return told, None, None, True
    return *parse_arguments(string(told)), False


def _real_id(wire_id: Any) -> str | None:
    """The id, unless the wire gave none; "null" is how one SDK spells that."""
    return wire_id if isinstance(wire_id, str) and wire_id not in ("", "null") else None


def _encode_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments_text(call)}
    wire: dict[str, Any] = {"id": call.id, "type": "function", "function": function}
    if call.thought_signature is not None:
        wire["extra_content"] = _signed(call.thought_signature)
    if call.cache is not None:
        wire["cache_control"] = _encode_cache(call.cache)
    if call.extra:
        if (call.extra.get(API) or {}).get(OBJECT):
            function["arguments"] = call.arguments  # type: ignore[assignment]
        return restored(wire, call.extra, API)
    return wire


def _encode_answered_call(call: ToolCall) -> dict[str, Any]:
    """A call of an answer. Clients parse the arguments, so none are said as an empty object."""
    if _is_blank(call):
        call = replace(call, arguments_text=None)
    said = _encode_call(call)
    return put_back(said, (call.extra.get(API) or {}).get(RESPONSE) or {}) if call.extra else said


def _is_blank(call: ToolCall) -> bool:
    return call.arguments_text is not None and not call.arguments_text.strip()


def _google_signature(wire: Mapping[str, Any]) -> str | None:
    """Google's thought signature, where its compatible endpoint puts it."""
    content = wire.get("extra_content")
    google = content.get("google") if isinstance(content, dict) else None
    return optional(google.get("thought_signature")) if isinstance(google, dict) else None


def _signed(signature: str) -> dict[str, Any]:
    return {"google": {"thought_signature": signature}}


# --- the assistant's message: wire to ours ---------------------------------------------------------------------------


def _decode_spoken(
    wire: dict[str, Any], compat: Compat, mint: Callable[[], str], *, answer: bool
) -> tuple[tuple[Block, ...], dict[str, Any]]:
    """The blocks of an assistant message, and what saying them again would get wrong about it."""
    tracks, marks = _decode_tracks(wire, compat, mint, answer=answer)
    blocks = _in_order(wire, tracks)
    if blocks is None:
        blocks = [block for track in TRACKS for block in tracks.get(track, ())]
    elif not answer:
        marks[ORDERED] = True
    blocks = _sourced(blocks, wire)
    return tuple(blocks), _spoken_residual(wire, blocks, marks, compat, answer=answer)


def _spoken_residual(
    wire: dict[str, Any], blocks: Iterable[Block], marks: dict[str, Any], compat: Compat, *, answer: bool
) -> dict[str, Any]:
    said = _say(blocks, marks, compat, QUIET, answer=answer)
    content = wire.get("content")
    if isinstance(content, list) and not (isinstance(said["content"], list) and len(said["content"]) == len(content)):
        marks[PARTS] = True
        said = _say(blocks, marks, compat, QUIET, answer=answer)
    # The items of a list have their own residuals.
    lists = {key: said[key] for key in _LISTS if isinstance(wire.get(key), list) and isinstance(said.get(key), list)}
    return {**residual({**wire, **lists}, said), **marks}


_LISTS = ("content", DETAILS, "annotations", "images", "tool_calls")


def _decode_tracks(
    wire: dict[str, Any], compat: Compat, mint: Callable[[], str], *, answer: bool
) -> tuple[dict[str, list[Block]], dict[str, Any]]:
    """The blocks at each place of the message."""
    tracks: dict[str, list[Block]] = {}
    marks: dict[str, Any] = {}
    details = wire.get(DETAILS)
    if isinstance(details, list) and details:
        tracks[DETAILS] = [_decode_detail(detail, at) for at, detail in enumerate(details)]
    _decode_thoughts(wire, tracks, marks, compat, answer=answer)
    content = wire.get("content")
    if isinstance(content, str):
        if content or not answer:
            tracks["content"] = [TextBlock(text=content)]
    elif isinstance(content, list):
        tracks["content"] = [_decode_spoken_part(part) for part in content]
    elif content is not None:  # some hosts give structured output as an object
        tracks["content"] = [TextBlock(text=jsontext.compact(content))]
    refusal = wire.get("refusal")
    if isinstance(refusal, str) and refusal:
        tracks["refusal"] = [TextBlock(text=refusal, refusal=True)]
    if _is_sound(wire.get("audio")):
        tracks["audio"] = [_decode_spoken_sound(wire["audio"], answer=answer)]
    if _is_legacy_call(wire.get("function_call")):
        tracks["function_call"] = [OpaqueBlock(dialect=API, value={"function_call": wire["function_call"]})]
    images = wire.get("images")
    if isinstance(images, list) and images:
        pictures = [decode_part(image) for image in images]
        if all(isinstance(picture, ImageBlock) for picture in pictures):
            tracks["images"] = pictures
    calls = wire.get("tool_calls")
    if isinstance(calls, list) and calls:
        if answer:
            calls = _without_indexes(calls, marks)
        tracks["tool_calls"] = [_decode_call(call, mint, answer=answer) for call in calls]
    return tracks, marks


def _decode_thoughts(
    wire: dict[str, Any], tracks: dict[str, list[Block]], marks: dict[str, Any], compat: Compat, *, answer: bool
) -> None:
    """Thinking in plain fields, each wording once: what only repeats the details is noted, not read again."""
    words = _words_of(tracks.get(DETAILS, ()))
    placed = {track for track, _ in _order_of(wire) or ()}
    repeats: list[str] = []
    names_of: dict[str, list[str]] = {}
    for name in THOUGHTS:
        text = wire.get(name)
        if isinstance(text, str) and text:
            if text == words and name not in placed:
                repeats.append(name)
            else:
                names_of.setdefault(text, []).append(name)
    for text, names in names_of.items():
        tracks[names[0]] = [_thought(text, names, compat)]
    if words and repeats != _usual_repeats(bool(names_of), compat, answer=answer):
        marks[REPEATS] = repeats


def _words_of(details: Iterable[Block]) -> str:
    return "".join(block.thinking for block in details if isinstance(block, ThinkingBlock))


def _usual_repeats(other_thoughts: bool, compat: Compat, *, answer: bool) -> list[str]:
    """The fields that repeat the words of details: in answers the usual one, for clients that know no details."""
    return [compat.reasoning_field] if answer and not other_thoughts else []


def _thought(text: str, names: list[str], compat: Compat) -> ThinkingBlock:
    return ThinkingBlock(thinking=text, extra={} if names == [compat.reasoning_field] else {API: {FIELDS: names}})


def _decode_spoken_part(wire: Any) -> Block:
    """A part of an assistant's content list; of media it is noted, since their usual place is another."""
    block = decode_part(wire)
    if isinstance(block, (ImageBlock, AudioBlock, DocumentBlock)):
        return with_held(block, API, **{PART: True})
    return block


def _is_sound(wire: Any) -> bool:
    return isinstance(wire, dict) and bool(optional(wire.get("id")) or optional(wire.get("data")))


def _decode_spoken_sound(wire: dict[str, Any], *, answer: bool) -> AudioBlock:
    """Sound that the model made. An answer brings it whole; a request refers to it by its id."""
    sound = AudioBlock(file_id=optional(wire.get("id")))
    if answer:
        sound = replace(sound, data=optional(wire.get("data")), transcript=optional(wire.get("transcript")))
    held = residual(wire, _encode_spoken_sound(sound, answer=answer))
    if not held:
        return sound
    return replace(sound, extra={API: {RESPONSE: held} if answer else held})


def _encode_spoken_sound(sound: AudioBlock, *, answer: bool) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    if sound.file_id is not None:
        wire["id"] = sound.file_id
    if answer:
        if sound.data is not None:
            wire["data"] = sound.data
        if sound.transcript is not None:
            wire["transcript"] = sound.transcript
    return wire


def _is_legacy_call(wire: Any) -> bool:
    return isinstance(wire, dict) and bool(optional(wire.get("name")))


def _without_indexes(calls: list[Any], marks: dict[str, Any]) -> list[Any]:
    """The calls of a whole answer without the numbers that some hosts give them."""
    indexes = [call.get("index") if isinstance(call, dict) else None for call in calls]
    if not any(isinstance(call, dict) and "index" in call for call in calls):
        return calls
    marks[INDEXED] = True if indexes == list(range(len(calls))) else indexes
    return [{k: v for k, v in call.items() if k != "index"} if isinstance(call, dict) else call for call in calls]


def _order_of(wire: Mapping[str, Any]) -> list[tuple[str, int]] | None:
    """The order of an interleaved message, if it says one that makes sense."""
    told = wire.get(ORDER)
    order = told.get("order") if isinstance(told, dict) else None
    if not isinstance(order, list):
        return None
    for run in order:
        if not (isinstance(run, list) and len(run) == 2 and run[0] in TRACKS and (whole(run[1]) or 0) > 0):
            return None
    return [(track, much) for track, much in order]


def _in_order(wire: dict[str, Any], tracks: dict[str, list[Block]]) -> list[Block] | None:
    """The blocks in the order that the message says, or None if it says none, or one that does not fit."""
    order = _order_of(wire)
    if order is None:
        return None
    left = {track: list(blocks) for track, blocks in tracks.items() if blocks}
    out: list[Block] = []
    for track, much in order:
        blocks = left.pop(track, [])
        if track in _STRINGS and isinstance(wire.get(track), str) and blocks:
            first, rest = _cut(blocks[0], much)
            taken, blocks = ([first], [rest] if rest else [])
            if first is None:
                return None
        else:
            taken, blocks = blocks[:much], blocks[much:]
            if len(taken) < much:
                return None
        out += taken
        if blocks:
            left[track] = blocks
    return None if left else out


_STRINGS = frozenset({*THOUGHTS, "content", "refusal"})


def _cut(block: Any, at: int) -> tuple[Any, Any]:
    """The block in two; the second is None where nothing is left, the first where there is not enough."""
    name = "thinking" if isinstance(block, ThinkingBlock) else "text"
    text = getattr(block, name)
    if len(text) < at:
        return None, None
    return replace(block, **{name: text[:at]}), replace(block, **{name: text[at:]}) if len(text) > at else None


def _sourced(blocks: list[Block], wire: Mapping[str, Any]) -> list[Block]:
    """The blocks with what the message says of its text: the signature of the first, and the sources of each."""
    told, signature = wire.get("annotations"), _google_signature(wire)
    if not told and signature is None:
        return blocks
    texts = [at for at, block in enumerate(blocks) if isinstance(block, TextBlock) and not block.refusal]
    if not texts:
        return blocks
    out: list[Any] = list(blocks)
    before = 0
    for which, at in enumerate(texts):
        size = len(out[at].text)
        out[at] = _with_sources(out[at], told, which, before, len(texts))
        before += size
    if signature is not None:
        out[texts[0]] = replace(out[texts[0]], text_signature=signature)
    return out


def _with_sources(block: TextBlock, told: Any, which: int, before: int, texts: int) -> TextBlock:
    """The text, one of `texts`, with those of the sources that are its own."""
    if not _are_sources(told):
        return block
    own = tuple(
        _shifted(_decode_citation(source), before)
        for source in told
        if (_whose(source) if _whose(source) < texts else 0) == which
    )
    return replace(block, citations=own) if own else block


def _are_sources(told: Any) -> bool:
    return isinstance(told, list) and all(isinstance(item, dict) and isinstance(item.get("type"), str) for item in told)


def _whose(source: dict[str, Any]) -> int:
    """Which text of the message a source belongs to: the first, unless we said another."""
    match source.get(ORDER):
        case {"text": int(which)} if which > 0 and len(source[ORDER]) == 1:
            return which
        case _:
            return 0


def _shifted(citation: Citation, before: int) -> Citation:
    """The source with its places counted from the beginning of its own text."""
    if not before:
        return citation
    return replace(
        citation,
        start=None if citation.start is None else citation.start - before,
        end=None if citation.end is None else citation.end - before,
    )


# --- the assistant's message: ours to wire ---------------------------------------------------------------------------


def _say(
    blocks: Iterable[Block], held: Mapping[str, Any], compat: Compat, report: Reporter, *, answer: bool
) -> dict[str, Any]:
    """An assistant message that says the blocks."""
    speech = _Speech(held, compat, report, answer=answer)
    for at, block in enumerate(blocks):
        report.block = at
        speech.add(block)
    report.block = None
    return speech.message()


class _Speech:
    """Puts blocks into the places of an assistant message, and watches what becomes of their order and borders."""

    def __init__(self, held: Mapping[str, Any], compat: Compat, report: Reporter, *, answer: bool) -> None:
        self.held = held
        self.compat = compat
        self.report = report
        self.answer = answer
        self.parts_kept = bool(held.get(PARTS))
        self.runs: list[list[Any]] = []  # [track, how much], where the content counts its entries
        self.content: list[tuple[bool, Any]] = []  # (whether it is a plain string, the string or the part)
        self.blank = False  # an empty text was said
        self.thoughts: dict[str, list[str]] = {}
        self.details: list[Any] = []
        self.words: list[str] = []
        self.refusals: list[str] = []
        self.citations: list[tuple[Citation, int, int]] = []
        self.texts = 0
        self.spoken = 0  # how much text came before
        self.signature: str | None = None
        self.sound: dict[str, Any] | None = None
        self.images: list[Any] = []
        self.legacy: Any = None
        self.calls: list[Any] = []
        self.merged = False

    def add(self, block: Block) -> None:
        match block:
            case TextBlock():
                self._text(block)
            case ToolCall():
                self._call(block)
            case ThinkingBlock():
                self._thinking(block)
            case OpaqueBlock() if block.dialect == API:
                self._opaque(block.value)
            case ImageBlock() | AudioBlock() | DocumentBlock() if (block.extra.get(API) or {}).get(PART):
                self._part(encode_part(block, self.report))
            case ImageBlock():
                said = encode_part(block, self.report)
                self.images += said
                self._run("images", len(said))
            case AudioBlock():
                self._spoken_sound(block)
            case _:
                self._lose(block)

    def _lose(self, block: Block) -> None:
        self.report.lost(type(block).__name__, "an assistant message of this wire cannot say such a block")

    def _run(self, track: str, much: int) -> None:
        if much:
            if self.runs and self.runs[-1][0] == track:
                self.runs[-1][1] += much
            else:
                self.runs.append([track, much])

    def _follows(self, track: str) -> bool:
        return bool(self.runs) and self.runs[-1][0] == track

    def _part(self, said: list[Any]) -> None:
        self.content += [(False, part) for part in said]
        self._run("content", len(said))

    def _text(self, block: TextBlock) -> None:
        special = block.cache is not None or bool(block.extra and block.extra.get(API))
        if block.refusal:
            self._unsigned(block)
            if special:
                self._part(_say_part(block))
            elif block.text:
                self.merged |= self._follows("refusal")
                self.refusals.append(block.text)
                self._run("refusal", len(block.text))
            else:
                self._say_nothing("an empty refusal")
            return
        plain = not (special or self.parts_kept)
        if plain and self.answer and not block.text:
            self.blank = True
            self._say_nothing("an empty text")
            return
        if plain and self.answer and self._follows("content") and self.content[-1][0]:
            self.merged = True
            self.content[-1] = (True, self.content[-1][1] + block.text)
        else:
            self.texts += 1
            if plain:
                self.content.append((True, block.text))
                self._run("content", 1)
            else:
                self._part(_say_part(block))
        self._sign(block.text_signature)
        self.citations += [(citation, self.spoken, self.texts - 1) for citation in block.citations]
        self.spoken += len(block.text)

    def _say_nothing(self, what: str) -> None:
        self.report.lost(what, "it says nothing", "record")

    def _unsigned(self, block: TextBlock) -> None:
        if block.citations:
            self.report.lost("citations", "a refusal has no sources", field="citations")
        if block.text_signature is not None:
            self.report.lost("text_signature", "a refusal is not signed", field="textSignature")

    def _sign(self, signature: str | None) -> None:
        if signature is None:
            return
        if self.texts == 1 and self.signature is None:
            self.signature = signature
        else:
            self.report.lost("text_signature", "only the first text is signed", field="textSignature")

    def _call(self, call: ToolCall) -> None:
        if self.answer:
            said = _encode_answered_call(call)
            if _is_blank(call):
                self.report.lost("arguments_text", "blank arguments mean none", "record", field="argumentsText")
        else:
            said = _encode_call(call)
        if not call.id or call.id == "null":
            self.report.lost("id", "an empty id is read as none", "weakened", field="id")
        self.calls.append(said)
        self._run("tool_calls", 1)

    def _thinking(self, block: ThinkingBlock) -> None:
        held = block.extra.get(API) or {}
        if held.get(PART):
            self._part(_say_part(block))
        elif _is_detail(block):
            if block.redacted and block.thinking:
                self.report.lost("thinking", "sealed thinking has no words", field="thinking")
            self.details.append(_encode_detail(block, len(self.details)))
            if not block.redacted:
                self.words.append(block.thinking)
            self._run(DETAILS, 1)
        elif block.thinking:
            self._plain_thinking(block.thinking, held.get(FIELDS) or [self.compat.reasoning_field])
        else:
            self._say_nothing("an empty thought")

    def _plain_thinking(self, text: str, names: list[str]) -> None:
        track = names[0]
        said = self.thoughts.get(track)
        if said and (self._follows(track) or not self.answer):
            self.merged = True
            text = "\n\n" + text
        for name in names:
            self.thoughts.setdefault(name, []).append(text)
        self._run(track, len(text))

    def _opaque(self, value: Any) -> None:
        match value:
            case {"type": str()}:
                self._part([value])
            case {"content": [part]} if len(value) == 1:
                self._part([part])
            case {"tool_calls": [call]} if len(value) == 1:
                self.calls.append(call)
                self._run("tool_calls", 1)
            case {"reasoning_details": [detail]} if len(value) == 1:
                self.details.append(detail)
                self._run(DETAILS, 1)
            case {"function_call": legacy} if len(value) == 1 and self.legacy is None:
                self.legacy = legacy
                self._run("function_call", 1)
            case _:
                self.report.lost("opaque", "it is no piece of such a message")

    def _spoken_sound(self, sound: AudioBlock) -> None:
        if self.sound is not None or not (sound.file_id or (self.answer and sound.data)):
            self._lose(sound)
            return
        said = _encode_spoken_sound(sound, answer=self.answer)
        if self.answer and sound.extra:
            said = put_back(said, (sound.extra.get(API) or {}).get(RESPONSE) or {})
        self.sound = restored(said, sound.extra, API) if sound.extra else said
        lost = ["mime_type", "url", "cache"] if self.answer else ["mime_type", "url", "cache", "data", "transcript"]
        for name in lost:
            if getattr(sound, name) is not None:
                self.report.lost(name, "sound of the assistant is known by its id", field=_json(name))
        self._run("audio", 1)

    def message(self) -> dict[str, Any]:
        said: dict[str, Any] = {"role": "assistant", "content": self._said_content()}
        for name in sorted(self.thoughts, key=lambda name: RANKS.get(name, 0)):
            said[name] = "".join(self.thoughts[name])
        words = "".join(self.words)
        if words:
            usual = _usual_repeats(bool(self.thoughts), self.compat, answer=self.answer)
            for name in self.held.get(REPEATS, usual):
                said.setdefault(name, words)
        if self.details:
            said[DETAILS] = self.details
        if self.refusals:
            said["refusal"] = "".join(self.refusals)
        if self.citations:
            self._say_sources(said)
        rarer = {"audio": self.sound, "images": self.images, "function_call": self.legacy}
        said.update((name, value) for name, value in rarer.items() if value)
        if self.calls:
            said["tool_calls"] = self._numbered()
        if self.signature is not None:
            said["extra_content"] = _signed(self.signature)
        self._say_order(said, words)
        return said

    def _numbered(self) -> list[Any]:
        told = self.held.get(INDEXED) if self.answer else None
        if not told:
            return self.calls
        indexes = range(len(self.calls)) if told is True else told
        numbered = [
            {**call, "index": index} if isinstance(call, dict) and index is not None else call
            for call, index in zip(self.calls, indexes, strict=False)
        ]
        return numbered + self.calls[len(numbered) :]

    def _said_content(self) -> Any:
        if self._is_listed():
            return [{"type": "text", "text": entry} if plain else entry for plain, entry in self.content]
        if self.content:
            return "".join(entry for _, entry in self.content)
        if self.blank:
            return ""
        return [] if not (self.runs or self.answer) else None

    def _is_listed(self) -> bool:
        if self.parts_kept or any(not plain for plain, _ in self.content):
            return True
        return not self.answer and len(self.content) > 1

    def _say_sources(self, said: dict[str, Any]) -> None:
        if self.texts > 1 and not (self.answer or self.held.get(ORDERED)):
            self.report.lost("citations", "with several texts, whose source it is cannot be said", field="content")
            return
        said["annotations"] = [_encode_citation(*source) for source in self.citations]

    def _say_order(self, said: dict[str, Any], words: str) -> None:
        """The order of an interleaved answer, or that it is lost; and that borders between blocks are."""
        ranks = [RANKS[track] for track, _ in self.runs]
        natural = all(a < b for a, b in pairwise(ranks))
        # A thought in the same words as the details would be taken for their repetition.
        twice = bool(words) and any("".join(pieces) == words for pieces in self.thoughts.values())
        if (natural and not twice) and not self.merged:
            return
        if (not natural or twice) and (self.answer or self.held.get(ORDERED)):
            said[ORDER] = {"order": self._counted()}
        elif not natural or twice:
            self.report.lost("order", "thinking, text and calls have places of their own", "weakened", field="content")
        if self.merged:
            self.report.lost("borders", "blocks of one kind become one", "weakened", field="content")

    def _counted(self) -> list[list[Any]]:
        """The runs, with the text counted in characters where the content is a string."""
        if self._is_listed():
            return self.runs
        counted, entries = [], iter(self.content)
        for track, much in self.runs:
            if track == "content":
                much = sum(len(next(entries)[1]) for _ in range(much))
            counted.append([track, much])
        return counted


# --- messages --------------------------------------------------------------------------------------------------------


class _Pairing:
    """Which call a result answers: by id within the turn, one result for each call, else the latest call of that id.

    Calls that came without an id get one here; their results, which have none either, are paired in order.
    """

    def __init__(self, mint: Callable[[int], str] | None = None) -> None:
        self._mint = mint or _call_number
        self._minted = 0
        self._names: dict[str, str] = {}
        self._open: list[tuple[str | None, str, str]] = []  # (id on the wire, id, name) of the calls not answered yet

    def mint(self) -> str:
        self._minted += 1
        return self._mint(self._minted - 1)

    def turn(self) -> None:
        """Another assistant message begins."""
        self._open = []

    def made(self, wire_id: Any, call_id: str, name: str) -> None:
        self._open.append((_real_id(wire_id), call_id, name))
        self._names[call_id] = name

    def answered(self, wire_id: Any) -> tuple[str | None, str | None]:
        """The id and the name of the call that a result with this id on the wire answers; no id where none fits."""
        wire_id = _real_id(wire_id)
        for at, (known, call_id, name) in enumerate(self._open):
            if known == wire_id:
                del self._open[at]
                return call_id, name
        return wire_id, None if wire_id is None else self._names.get(wire_id)


def _call_number(n: int) -> str:
    return f"call_{n}"


def decode_messages(wire: list[Any], api: str, compat: Compat, mint: Any = None) -> tuple[Message, ...]:
    """Wire messages as ours, one by one. `api` is who minted the answers."""
    pairing = _Pairing(mint)
    return tuple(each(wire, "messages", API, lambda message: _decode_message(message, pairing, api, compat)))


def _decode_message(wire: Any, pairing: _Pairing, api: str, compat: Compat) -> Message:
    role = an_object(wire, API).get("role")
    if role == "user":
        user = UserMessage(content=_decode_content(wire.get("content")))
        if len(wire) == 2 and "content" in wire:
            return user
        return _kept(user, wire, _say_plain("user", user.content))
    if role == "assistant":
        return _decode_assistant(wire, pairing, api, compat)
    if role == "tool":
        return _decode_result(wire, pairing)
    if role in ("system", "developer"):
        system = SystemMessage(content=_decode_content(wire.get("content")), developer=role == "developer")
        return _kept(system, wire, _say_plain(role, system.content))
    if not isinstance(role, str):
        raise BadWire(API, "a message needs a role: system, developer, user, assistant or tool", "$.role")
    return CustomMessage(role, {k: v for k, v in wire.items() if k != "role"})  # type: ignore[return-value]


def _decode_content(content: Any) -> Content:
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise BadWire(API, f"expected a string or a list, got {type(content).__name__}", "$.content")
    return tuple(map(decode_part, content))


def _kept(value: M, wire: dict[str, Any], said: dict[str, Any], marks: dict[str, Any] | None = None) -> M:
    """The message with its residual; the parts of its content have their own."""
    if isinstance(wire.get("content"), list) and isinstance(said.get("content"), list):
        wire = {**wire, "content": said["content"]}
    held = {**residual(wire, said), **(marks or {})}
    return replace(value, extra={API: held}) if held else value


def _say_plain(role: str, content: Content) -> dict[str, Any]:
    return {"role": role, "content": _encode_content(content, QUIET)}


def _decode_assistant(wire: dict[str, Any], pairing: _Pairing, api: str, compat: Compat) -> AssistantMessage:
    pairing.turn()
    content = wire.get("content")
    if len(wire) == 2 and (content is None or isinstance(content, str)) and "content" in wire:
        return AssistantMessage(content=None if content is None else (TextBlock(text=content),), api=api)
    blocks, held = _decode_spoken(wire, compat, pairing.mint, answer=False)
    for call in blocks:
        if isinstance(call, ToolCall):
            pairing.made(None if (call.extra.get(API) or {}).get(MINTED) else call.id, call.id, call.name)
    if blocks or isinstance(content, list):
        return AssistantMessage(content=blocks, api=api, extra={API: held} if held else {})
    held = residual(wire, {"role": "assistant", "content": None})  # null, or no content at all
    return AssistantMessage(content=None, api=api, extra={API: held} if held else {})


def _decode_result(wire: dict[str, Any], pairing: _Pairing) -> ToolResultMessage:
    content = wire.get("content")
    blocks = (TextBlock(text=content),) if isinstance(content, str) else _decode_content(content)
    told = wire.get("tool_call_id")
    call_id, name = pairing.answered(told)
    result = ToolResultMessage(
        tool_call_id=pairing.mint() if call_id is None else call_id,
        tool_name=name if name is not None else optional(wire.get("name")),
        content=blocks,
        is_error=False,
        cache=_decode_cache(wire),
    )
    if len(wire) == 3 and isinstance(content, str) and call_id == told:
        return result
    marks: dict[str, Any] = {} if call_id == told else {MINTED: True}
    said = _say_result(result, {}, QUIET)
    if isinstance(content, list) and not (isinstance(said["content"], list) and len(said["content"]) == len(content)):
        marks[PARTS] = True
        said = _say_result(result, marks, QUIET)
    return _kept(result, wire, said, marks)


def encode_messages(messages: tuple[Message, ...], compat: Compat, report: Reporter) -> list[dict[str, Any]]:
    """Our messages as the wire's, one by one."""
    said: list[dict[str, Any]] = []
    pairing = _Pairing()
    unnamed: dict[str, Any] = {}  # calls of this turn that the wire gave no id, and how it spelled that
    for at, message in enumerate(messages):
        report.message = at
        match message:
            case UserMessage():
                wire = {"role": "user", "content": _encode_content(message.content, report)}
                said.append(restored(wire, message.extra, API) if message.extra else wire)
            case AssistantMessage():
                said.append(_encode_assistant(message, compat, report))
                unnamed = _begin_turn(message, pairing, report)
            case ToolResultMessage():
                said.append(_encode_result(message, pairing, unnamed, compat, report))
            case SystemMessage():
                wire = {"role": _system_role(message.developer, compat, report), "content": None}
                wire["content"] = _encode_content(message.content, report)
                said.append(restored(wire, message.extra, API) if message.extra else wire)
            case CustomMessage():
                said.append({"role": message.role, **message.fields})
    return said


def _encode_content(content: Content, report: Reporter) -> Any:
    if content is None or isinstance(content, str):
        return content
    said: list[Any] = []
    for at, block in enumerate(content):
        if type(block) is TextBlock and _is_plain(block):
            said.append({"type": "text", "text": block.text})
        else:
            report.block = at
            said += encode_part(block, report)
    report.block = None
    return said


def _is_plain(block: TextBlock) -> bool:
    """Whether there is nothing to a text but its words."""
    return not (
        block.extra or block.refusal or block.citations or block.cache is not None or block.text_signature is not None
    )


def _system_role(developer: bool, compat: Compat, report: Reporter) -> str:
    if developer and compat.supports_developer_role is False:
        report.lost("developer", "this host knows only the role `system`", "weakened", field="developer")
        return "system"
    return "developer" if developer else "system"


def _begin_turn(message: AssistantMessage, pairing: _Pairing, report: Reporter) -> dict[str, Any]:
    """Notes the calls of an assistant message; gives those that the wire left without an id, as it spelled that."""
    unnamed: dict[str, Any] = {}
    pairing.turn()
    content = message.content
    if content is None or isinstance(content, str):
        return unnamed
    for at, block in enumerate(content):
        if type(block) is ToolCall:
            call_id = wire_id = block.id
            if block.extra and (block.extra.get(API) or {}).get(MINTED):
                wire_id = _encode_call(block).get("id")  # type: ignore[assignment]
                if _real_id(wire_id) is None:
                    unnamed[call_id] = wire_id
            if _real_id(wire_id) is None:
                call_id = pairing.mint()  # as reading it again would
                if unnamed and call_id != block.id:
                    report.block = at
                    report.lost("id", "the host gave the call none, and another is made up", "record", field="id")
                    report.block = None
            pairing.made(wire_id, call_id, block.name)
    return unnamed


def _encode_assistant(message: AssistantMessage, compat: Compat, report: Reporter) -> dict[str, Any]:
    content = message.content
    held = message.extra.get(API) if message.extra else None
    said: dict[str, Any] | None = None
    if content is None:
        said = {"role": "assistant", "content": None}
    elif isinstance(content, str):
        said = {"role": "assistant", "content": content}
        report.lost("content", "a string is read as one text", "record", field="content")
    elif not held:
        said = _say_simply(content, compat)
    if said is None:
        said = _say(content, held or {}, compat, report, answer=False)  # type: ignore[arg-type]
    return put_back(said, held) if held else said


def _say_simply(content: tuple[Block, ...], compat: Compat) -> dict[str, Any] | None:
    """The message for a thought, a text and calls, in this order and with nothing special about them; else None."""
    text = thought = None
    calls: list[dict[str, Any]] = []
    for block in content:
        kind = type(block)
        if kind is ToolCall:
            if not block.id or block.id == "null":  # type: ignore[union-attr]
                return None
            calls.append(_encode_call(block))  # type: ignore[arg-type]
        elif kind is TextBlock:
            if text is not None or calls or not _is_plain(block):  # type: ignore[arg-type]
                return None
            text = block.text  # type: ignore[union-attr]
        elif kind is ThinkingBlock:
            if text is not None or thought is not None or calls or block.extra or _is_detail(block):  # type: ignore
                return None
            thought = block.thinking  # type: ignore[union-attr]
            if not thought:
                return None
        else:
            return None
    if not content:
        return None
    said: dict[str, Any] = {"role": "assistant", "content": text}
    if thought is not None:
        said[compat.reasoning_field] = thought
    if calls:
        said["tool_calls"] = calls
    return said


def _encode_result(
    result: ToolResultMessage, pairing: _Pairing, unnamed: dict[str, Any], compat: Compat, report: Reporter
) -> dict[str, Any]:
    held = result.extra.get(API) or {} if result.extra else {}
    said = _say_result(result, held, report)
    if result.tool_call_id in unnamed and not held.get(MINTED):
        # The host gave the call no id, so its result has none either.
        said["tool_call_id"] = unnamed[result.tool_call_id]
        if said["tool_call_id"] is None:
            del said["tool_call_id"]
    if held:
        said = put_back(said, held)
    told = said.get("tool_call_id")
    call_id, name = pairing.answered(told)
    if compat.requires_tool_result_name and result.tool_name is not None:
        said.setdefault("name", result.tool_name)
    if name is None:
        name = optional(said.get("name"))
    if (pairing.mint() if call_id is None else call_id) != result.tool_call_id:
        severity = "record" if result.tool_call_id in unnamed else "weakened"
        report.lost("tool_call_id", "it is read as that of a call without an id", severity, field="toolCallId")  # type: ignore[arg-type]
    if name != result.tool_name:
        report.lost("tool_name", "the wire knows only the name of the call", "record", field="toolName")
    return said


def _say_result(result: ToolResultMessage, held: Mapping[str, Any], report: Reporter) -> dict[str, Any]:
    content: Any = result.content
    if isinstance(content, str):
        report.lost("content", "a string is read as one text", "record", field="content")
    elif content is not None:
        first = content[0] if len(content) == 1 and not held.get(PARTS) else None
        if type(first) is TextBlock and _is_plain(first):
            content = first.text
        else:
            content = _encode_content(content, report)
    wire: dict[str, Any] = {"role": "tool", "tool_call_id": result.tool_call_id, "content": content}
    if result.cache is not None:
        wire["cache_control"] = _encode_cache(result.cache)
    return wire


# --- requests --------------------------------------------------------------------------------------------------------


@reading(API)
def decode_request(
    body: Any,
    *,
    model: str | ModelDescriptor | None = None,
    stream: bool | None = None,
    mint: Callable[[int], str] | None = None,
    quirks: Mapping[str, Any] | None = None,
) -> Request:
    """A Chat Completions request. `model` and `stream` are for hosts that say them outside the body."""
    wire = an_object(body_of(body, API), API)
    spoken = api_of(quirks, API)
    described = model_of(wire.get("model"), model, spoken)
    compat = compat_of(quirks, described)
    given = wire.get("messages", [])
    if not isinstance(given, list):
        raise BadWire(API, f"expected a list, got {type(given).__name__}", "$.messages")
    system, role, extra = _decode_system(given[0] if given else None)
    context = Context(
        system=system,
        messages=decode_messages(given if system is None else given[1:], spoken, compat, mint),
        tools=_decode_tools(wire.get("tools")),
        system_role=role,
        extra=extra,
    )
    request = Request(model=described, context=context, options=_decode_options(wire, stream, compat))
    said, _ = encode_request(request, quirks=quirks)
    # `messages` and `tools` keep their own residuals, item by item.
    lists = {key: said[key] for key in ("messages", "tools") if isinstance(wire.get(key), list) and key in said}
    return keeping(request, API, {**wire, **lists}, said)


def _decode_system(wire: Any) -> tuple[System, str | None, Extra]:
    """The first message, if it is the system prompt: its text, its role where it is not the usual one, and the rest."""
    role = wire.get("role") if isinstance(wire, dict) else None
    if role not in ("system", "developer"):
        return None, None, {}
    content = wire.get("content")
    system: System = content if isinstance(content, str) else None
    if isinstance(content, list):
        blocks = tuple(map(decode_part, content))
        if all(isinstance(block, TextBlock) for block in blocks):
            system = blocks  # type: ignore[assignment]
    if system is None:
        return None, None, {}
    said = _say_plain(role, system)
    given = wire if isinstance(content, str) else {**wire, "content": said["content"]}
    held = residual(given, said)
    return system, "developer" if role == "developer" else None, {API: {MESSAGE: held}} if held else {}


def _decode_tools(wire: Any) -> tuple[ToolSpec, ...] | None:
    if not isinstance(wire, list):
        return None
    return tuple(each(wire, "tools", API, _decode_tool))


def _decode_tool(wire: Any) -> ToolSpec:
    function = an_object(wire, API).get("function")
    if wire.get("type", "function") != "function" or not isinstance(function, dict):
        return _own_tool(wire)
    name = function.get("name")
    if not isinstance(name, str):
        return _own_tool(wire)
    tool = ToolSpec(
        name=name,
        description=optional(function.get("description")),
        input_schema=function.get("parameters"),
        strict=flag(function.get("strict")),
        cache=_decode_cache(wire),
    )
    return keeping(tool, API, wire, _encode_tool(tool))


def _own_tool(wire: dict[str, Any]) -> ToolSpec:
    kind = wire.get("type")
    inner = wire.get(kind) if isinstance(kind, str) else None
    name = inner.get("name") if isinstance(inner, dict) else wire.get("name")
    return ToolSpec(name=name if isinstance(name, str) else str(kind), dialect=API, value=wire)


def _decode_options(wire: dict[str, Any], stream: bool | None, compat: Compat) -> Options:
    marks: dict[str, Any] = {}
    stop = wire.get("stop")
    if isinstance(stop, str):
        marks["~stop"] = True
    return Options(
        max_tokens=_decode_field(
            wire, ("max_completion_tokens", "max_tokens"), compat.max_tokens_field, "~max_tokens", marks
        ),
        temperature=number(wire.get("temperature")),
        top_p=number(wire.get("top_p")),
        top_k=whole(wire.get("top_k")),
        stop=(stop,) if isinstance(stop, str) else strings(stop),
        seed=_decode_field(wire, ("seed", "random_seed"), compat.seed_field, "~seed", marks),
        reasoning=_decode_reasoning(wire, compat),
        tool_choice=_decode_choice(wire.get("tool_choice")),
        parallel_tools=flag(wire.get("parallel_tool_calls")),
        output_schema=_decode_schema(wire.get("response_format")),
        cache_retention=_RETENTIONS.get(optional(wire.get("prompt_cache_retention")) or ""),  # type: ignore[arg-type]
        session_id=optional(wire.get("prompt_cache_key")),
        service_tier=optional(wire.get("service_tier")),
        metadata=_decode_metadata(wire, marks),
        stream=wire["stream"] if isinstance(wire.get("stream"), bool) else stream,
        extra={API: marks} if marks else {},
    )


_RETENTIONS = {"in_memory": "short", "24h": "long"}


def _decode_field(
    wire: dict[str, Any], names: tuple[str, ...], usual: str, mark: str, marks: dict[str, Any]
) -> int | None:
    """A number that hosts have under different names; which one is noted where it is not the usual."""
    for name in (usual, *names):
        value = whole(wire.get(name))
        if value is not None:
            if name != usual:
                marks[mark] = name
            return value
    return None


def _decode_metadata(wire: dict[str, Any], marks: dict[str, Any]) -> dict[str, Any] | None:
    """The labels of a request; `user`, the end user's id, is `user_id` among them, as other wires have it."""
    metadata, user = wire.get("metadata"), wire.get("user")
    labels = metadata if isinstance(metadata, dict) else None
    if labels is not None and "user_id" in labels:
        marks["~metadata"] = True
        return labels
    if isinstance(user, str):
        return {"user_id": user, **(labels or {})}
    return labels


def _decode_reasoning(wire: dict[str, Any], compat: Compat) -> Reasoning | None:
    """How much to think, in whichever of the hosts' ways it is said."""
    for way, read in _REASONING_WAYS.items():
        reasoning = read(wire)
        if reasoning is not None:
            return reasoning if way == compat.thinking_format else replace(reasoning, extra={API: {AS: way}})
    return None


def _read_openrouter(wire: dict[str, Any]) -> Reasoning | None:
    told = wire.get("reasoning")
    if not isinstance(told, dict):
        return None
    read = Reasoning(
        effort=optional(told.get("effort")), budget=whole(told.get("max_tokens")), enabled=flag(told.get("enabled"))
    )
    return None if read == Reasoning() else read


def _read_deepseek(wire: dict[str, Any]) -> Reasoning | None:
    effort, switched = optional(wire.get("reasoning_effort")), _read_zai(wire)
    if effort is None or switched is None:
        return None
    return replace(switched, effort=effort, enabled=switched.enabled and None)


def _read_zai(wire: dict[str, Any]) -> Reasoning | None:
    told = wire.get("thinking")
    if not isinstance(told, dict) or told.get("type") not in ("enabled", "disabled"):
        return None
    return _switched(told["type"] == "enabled", whole(told.get("budget_tokens")))


def _read_qwen(wire: dict[str, Any]) -> Reasoning | None:
    told = flag(wire.get("enable_thinking"))
    return None if told is None else _switched(told, whole(wire.get("thinking_budget")))


def _read_template(wire: dict[str, Any]) -> Reasoning | None:
    told = wire.get("chat_template_kwargs")
    switch = flag(told.get("enable_thinking")) if isinstance(told, dict) else None
    return None if switch is None else _switched(switch, None)


def _read_openai(wire: dict[str, Any]) -> Reasoning | None:
    effort = optional(wire.get("reasoning_effort"))
    if effort is None:
        return None
    return Reasoning(effort=effort, enabled=False if effort == "none" else None)


def _switched(on: bool, budget: int | None) -> Reasoning:
    """A switch; where a budget says that thinking is on, nothing else need."""
    return Reasoning(budget=budget, enabled=None if on and budget is not None else on)


# Where several ways are mixed, the first that says something is read; the others stay in the residual.
_REASONING_WAYS: dict[str, Callable[[dict[str, Any]], Reasoning | None]] = {
    "openrouter": _read_openrouter,
    "deepseek": _read_deepseek,
    "zai": _read_zai,
    "qwen": _read_qwen,
    "qwen-chat-template": _read_template,
    "openai": _read_openai,
}


def _decode_choice(wire: Any) -> ToolChoice | None:
    match wire:
        case "auto" | "none" | "required":
            return ToolChoice(mode=wire)
        case "any":
            return ToolChoice(mode="required")
        case {"type": "function", "function": {"name": str(name)}}:
            return ToolChoice(mode="required", names=(name,))
        case {"type": "allowed_tools", "allowed_tools": {"mode": "auto" | "required" as mode, "tools": list(tools)}}:
            names = [_allowed_name(tool) for tool in tools]
            if None in names:
                return None
            choice = ToolChoice(mode=mode, names=tuple(names))  # type: ignore[arg-type]
            usual = len(names) > 1 or (mode == "auto" and names)
            return choice if usual else replace(choice, extra={API: {AS: "allowed_tools"}})
        case _:
            return None


def _allowed_name(tool: Any) -> str | None:
    match tool:
        case {"type": "function", "function": {"name": str(name)}} if len(tool) == 2 and len(tool["function"]) == 1:
            return name
        case _:
            return None


def _decode_schema(wire: Any) -> OutputSchema | None:
    match wire:
        case {"type": "json_object"}:
            return OutputSchema()
        case {"type": "json_schema", "json_schema": {"schema": schema} as told} if schema is not None:
            return OutputSchema(
                schema=schema,
                name=optional(told.get("name")),
                description=optional(told.get("description")),
                strict=flag(told.get("strict")),
            )
        case _:
            return None


def encode_request(request: Request, *, strict: bool = False, quirks: Mapping[str, Any] | None = None) -> Encoded:
    """The body of a Chat Completions request."""
    report = Reporter()
    context, compat = request.context, compat_of(quirks, request.model)
    body: dict[str, Any] = {}
    if request.model.id:
        body["model"] = request.model.id
    messages = encode_messages(context.messages, compat, report)
    system = _encode_system(request, compat, messages, report)
    body["messages"] = messages if system is None else [system, *messages]
    if context.tools is not None:
        body["tools"] = say_tools(context.tools, API, lambda spec: _encode_tool(spec, compat), report)
        if not compat.supports_strict_mode:
            _report_strict(context.tools, report)
    _encode_options(body, request.options, compat, report)
    if compat is not _PLAIN_HOST:
        _encode_host(body, compat)
    said = restored(body, request.extra, API) if request.extra else body
    return encoded(API, said, request, FATES, report.losses, strict=strict, spoken=api_of(quirks, API))


def _encode_system(
    request: Request, compat: Compat, messages: list[dict[str, Any]], report: Reporter
) -> dict[str, Any] | None:
    """The system prompt as the first message. Without one, a system message that comes first is read as it."""
    context = request.context
    told = context.system_role
    if context.system is None:
        role = _lifted_role(messages, report)
        if role != told:
            report.at("$.systemRole", "system_role", "the role of the first message", "record")
        return None
    developer = told == "developer" and compat.supports_developer_role is not False
    if compat.supports_developer_role and request.model.reasoning:
        developer = True
    if told != ("developer" if developer else None):
        report.at(
            "$.systemRole", "system_role", "as the host knows roles", "record" if told == "system" else "weakened"
        )
    report.root = SYSTEM
    wire = {"role": "developer" if developer else "system", "content": _encode_content(context.system, report)}
    report.root = ""
    held = (context.extra.get(API) or {}).get(MESSAGE) if context.extra else None
    return put_back(wire, held) if held else wire


def _lifted_role(messages: list[dict[str, Any]], report: Reporter) -> str | None:
    system, role, _ = _decode_system(messages[0] if messages else None)
    if system is None:
        return None
    report.at("$.messages[0]", "system message", "it comes first and is read as the system prompt", "weakened")
    report.at(SYSTEM, "system", "a first system message is read as the system prompt", "weakened")
    return role


def _encode_tool(spec: ToolSpec, compat: Compat = _PLAIN_HOST) -> dict[str, Any]:
    function: dict[str, Any] = {"name": spec.name}
    if spec.description is not None:
        function["description"] = spec.description
    if spec.input_schema is not None:
        function["parameters"] = spec.input_schema
    if spec.strict is not None and compat.supports_strict_mode:
        function["strict"] = spec.strict
    wire: dict[str, Any] = {"type": "function", "function": function}
    if spec.cache is not None:
        wire["cache_control"] = _encode_cache(spec.cache)
    return restored(wire, spec.extra, API) if spec.extra else wire


def _report_strict(specs: tuple[ToolSpec, ...], report: Reporter) -> None:
    for at, spec in enumerate(specs):
        if spec.strict is not None and spec.dialect is None:
            report.at(f"$.tools[{at}].strict", "strict", "this host does not know strict schemas", "weakened")


def _encode_options(body: dict[str, Any], options: Options, compat: Compat, report: Reporter) -> None:
    marks = options.extra.get(API) or {} if options.extra else {}
    if options.max_tokens is not None:
        body[marks.get("~max_tokens", compat.max_tokens_field)] = options.max_tokens
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if options.top_p is not None:
        body["top_p"] = options.top_p
    if options.top_k is not None:
        body["top_k"] = options.top_k
    if options.stop is not None:
        body["stop"] = options.stop[0] if marks.get("~stop") and len(options.stop) == 1 else list(options.stop)
    if options.seed is not None:
        body[marks.get("~seed", compat.seed_field)] = options.seed
    if options.tool_choice is not None:
        body["tool_choice"] = _encode_choice(options.tool_choice, report)
    if options.parallel_tools is not None:
        body["parallel_tool_calls"] = options.parallel_tools
    if options.reasoning is not None:
        _encode_reasoning(body, options.reasoning, compat, report)
    if options.output_schema is not None:
        body["response_format"] = _encode_schema(options.output_schema, report)
    if options.session_id is not None:
        body["prompt_cache_key"] = options.session_id
    if options.cache_retention == "none":
        report.at("$.options.cacheRetention", "cache_retention", "caching cannot be turned off here", "weakened")
    elif options.cache_retention is not None:
        body["prompt_cache_retention"] = "24h" if options.cache_retention == "long" else "in_memory"
    if options.service_tier is not None:
        body["service_tier"] = options.service_tier
    if options.metadata is not None:
        _encode_metadata(body, options.metadata, marks)
    if options.stream is not None:
        body["stream"] = options.stream
        if options.stream and compat.supports_usage_in_streaming:
            body["stream_options"] = {"include_usage": True}


def _encode_host(body: dict[str, Any], compat: Compat) -> None:
    """What a host wants to be told with every request."""
    if compat.supports_store:
        body["store"] = False
    if compat.open_router_routing:
        body["provider"] = compat.open_router_routing
    if compat.vercel_gateway_routing:
        body["providerOptions"] = {"gateway": compat.vercel_gateway_routing}


def _encode_choice(choice: ToolChoice, report: Reporter) -> Any:
    listed = (choice.extra.get(API) or {}).get(AS) == "allowed_tools"
    if choice.mode == "none":
        if choice.names:
            report.at("$.options.toolChoice.names", "tool_choice", "no tool may be called anyway", "record")
        return "none"
    if not choice.names and not listed:
        return choice.mode
    tools = [{"type": "function", "function": {"name": name}} for name in choice.names]
    if choice.mode == "required" and len(tools) == 1 and not listed:
        return tools[0]
    return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": tools}}


def _encode_schema(schema: OutputSchema, report: Reporter) -> dict[str, Any]:
    if schema.schema is None:
        for name in ("name", "description", "strict"):
            if getattr(schema, name) is not None:
                report.at(f"$.options.outputSchema.{name}", name, "there is no schema that it could belong to")
        return {"type": "json_object"}
    if schema.name is None:
        report.at("$.options.outputSchema.name", "name", "this wire wants every schema named", "record")
    told: dict[str, Any] = {"name": "output" if schema.name is None else schema.name, "schema": schema.schema}
    if schema.description is not None:
        told["description"] = schema.description
    if schema.strict is not None:
        told["strict"] = schema.strict
    return {"type": "json_schema", "json_schema": told}


def _encode_metadata(body: dict[str, Any], metadata: dict[str, Any], marks: Mapping[str, Any]) -> None:
    user = metadata.get("user_id")
    if isinstance(user, str) and not marks.get("~metadata"):
        body["user"] = user
        metadata = {key: value for key, value in metadata.items() if key != "user_id"}
        if not metadata:
            return
    body["metadata"] = metadata


def _encode_reasoning(body: dict[str, Any], reasoning: Reasoning, compat: Compat, report: Reporter) -> None:
    way = (reasoning.extra.get(API) or {}).get(AS) or compat.thinking_format
    said = _REASONING_SAYERS.get(way, _say_effort)(reasoning, compat)
    body.update(said)
    read = _decode_reasoning(said, compat)
    if read is None:
        report.at("$.options.reasoning", "reasoning", "this host has no word for it")
        return
    for name in ("effort", "budget", "enabled"):
        told, again = getattr(reasoning, name), getattr(read, name)
        if told != again:
            implied = name == "enabled" and (told is True or again is not None)
            why = "implied by the rest" if implied else "this host has no word for it"
            severity = "record" if implied else "dropped" if again is None else "weakened"
            report.at(f"$.options.reasoning.{name}", name, why, severity)  # type: ignore[arg-type]


def _say_effort(reasoning: Reasoning, compat: Compat) -> dict[str, Any]:
    word = reasoning.effort
    if word is None and reasoning.enabled is False:
        word = "off" if "off" in compat.reasoning_effort_map else None
    if word is None or not compat.supports_reasoning_effort:
        return {}
    said = compat.reasoning_effort_map.get(word, word)
    return {} if said is None else {"reasoning_effort": said}


def _say_openrouter(reasoning: Reasoning, compat: Compat) -> dict[str, Any]:
    told = {"effort": reasoning.effort, "max_tokens": reasoning.budget, "enabled": reasoning.enabled}
    said = {key: value for key, value in told.items() if value is not None}
    return {"reasoning": said} if said else {}


def _say_zai(reasoning: Reasoning, compat: Compat) -> dict[str, Any]:
    told: dict[str, Any] = {"type": "disabled" if reasoning.enabled is False else "enabled"}
    if reasoning.budget is not None:
        told["budget_tokens"] = reasoning.budget
    return {"thinking": told}


def _say_deepseek(reasoning: Reasoning, compat: Compat) -> dict[str, Any]:
    effort = _say_effort(reasoning, compat) if reasoning.effort is not None else {}
    return {**_say_zai(reasoning, compat), **effort}


def _say_qwen(reasoning: Reasoning, compat: Compat) -> dict[str, Any]:
    said: dict[str, Any] = {"enable_thinking": reasoning.enabled is not False}
    if reasoning.budget is not None:
        said["thinking_budget"] = reasoning.budget
    return said


def _say_template(reasoning: Reasoning, compat: Compat) -> dict[str, Any]:
    return {"chat_template_kwargs": {"enable_thinking": reasoning.enabled is not False}}


_REASONING_SAYERS: dict[str, Callable[[Reasoning, Compat], dict[str, Any]]] = {
    "openai": _say_effort,
    "openrouter": _say_openrouter,
    "zai": _say_zai,
    "deepseek": _say_deepseek,
    "qwen": _say_qwen,
    "qwen-chat-template": _say_template,
}


# --- answers ---------------------------------------------------------------------------------------------------------


@reading(API)
def decode_response(
    body: Any,
    *,
    model: str | None = None,
    provider: str | None = None,
    timestamp: int | None = None,
    mint: Callable[[int], str] | None = None,
    quirks: Mapping[str, Any] | None = None,
) -> AssistantMessage:
    """A whole answer. Of several choices the first is the message; the others are kept beside it."""
    wire = an_object(body_of(body, API), API)
    if wire.get("error"):  # some hosts say it with status 200
        raise decode_error(0, wire)
    base = AssistantMessage(content=(), api=api_of(quirks, API), provider=provider, model=model, timestamp=timestamp)
    compat, choices = compat_of(quirks), wire.get("choices")
    envelope = {key: value for key, value in wire.items() if key != "choices"}
    if not choices:
        empty = wire if "choices" in wire else envelope
        return _read_answer(empty, None, (), {}, base, compat)
    choice, *others = each(choices, "choices", API, lambda item: an_object(item, API))
    content, held = _decode_spoken(
        an_object(choice.get("message"), API, "$.choices[0].message"), compat, _Pairing(mint).mint, answer=True
    )
    beside = {MESSAGE: held} if held else {}
    if others:
        beside[CHOICES] = others  # type: ignore[assignment]
    rest = {key: value for key, value in choice.items() if key != "message"}
    return _read_answer(envelope, rest, content, beside, base, compat)


def _read_answer(
    envelope: dict[str, Any],
    choice: dict[str, Any] | None,
    content: tuple[Block, ...],
    beside: dict[str, Any],
    base: AssistantMessage,
    compat: Compat,
) -> AssistantMessage:
    """The message of an answer whose content is read already; `choice` is None where the answer has none."""
    word = optional((choice or {}).get("finish_reason"))
    reason = _reason(word, content)
    message = replace(
        base,
        content=content,
        **_decode_envelope(envelope, base),
        usage=_decode_usage(_find_usage(envelope, choice or {}), compat),
        stop_reason=reason,
        stop_detail=word,
        error_message=_what_went_wrong(word, choice or {}, content) if reason == "error" else None,
    )
    held = {**residual(envelope, _encode_envelope(message, compat)), **beside}
    if choice is None:
        held[NONE] = True
    elif rest := residual(choice, _encode_choice_shell(message)):
        held[CHOICE] = rest
    return with_held(message, API, **{RESPONSE: held}) if held else message


def _reason(word: str | None, content: tuple[Block, ...]) -> StopReason:
    """Why the answer ended. A refusal is no answer, whatever the wire calls it."""
    if any(isinstance(block, TextBlock) and block.refusal for block in content):
        return "error"
    return settle(STOP_REASONS.get(word or ""), content)


def _what_went_wrong(word: str | None, choice: Mapping[str, Any], content: tuple[Block, ...]) -> str:
    error = choice.get("error")
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return str(error["message"])
    refusal = "".join(block.text for block in content if isinstance(block, TextBlock) and block.refusal)
    return f"the model refused: {refusal}" if refusal else f"the provider stopped: {word or 'no reason given'}"


def _decode_envelope(wire: Mapping[str, Any], base: AssistantMessage) -> dict[str, Any]:
    named = optional(wire.get("model")) or None
    return {
        "response_id": optional(wire.get("id")) or None,
        "model": base.model or named,
        "response_model": named if base.model and named != base.model else None,
    }


def _find_usage(envelope: Mapping[str, Any], choice: Mapping[str, Any]) -> Any:
    """Groq has it in a field of its own too, and in some streams only there; Moonshot inside the choice."""
    if envelope.get("usage"):
        return envelope["usage"]
    groq = envelope.get("x_groq")
    return (groq.get("usage") if isinstance(groq, dict) else None) or choice.get("usage")


def _decode_usage(wire: Any, compat: Compat) -> Usage | None:
    if not isinstance(wire, dict):
        return None
    prompt, output, total = (
        count(wire, "prompt_tokens"),
        count(wire, "completion_tokens"),
        whole(wire.get("total_tokens")),
    )
    read, written = _cached(wire)
    if max(read, written) > prompt or (read + written and total == prompt + output + read + written):
        prompt += read + written  # this host counts the cache beside the prompt
    elif read + written > prompt:
        written = 0  # this host counts what it wrote among what it read
    details = wire.get("completion_tokens_details")
    reasoning = whole(details.get("reasoning_tokens")) if isinstance(details, dict) else None
    if reasoning and _is_apart(compat, prompt, output, reasoning, total):
        output += reasoning
    usage = Usage.of(
        prompt - read - written,
        output,
        cache_read=read,
        cache_write=written,
        total_tokens=total,
        reasoning=reasoning,
        cost=_decode_cost(wire.get("cost")),
    )
    return keeping(usage, API, wire, _encode_usage(usage, compat))


def _cached(wire: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens read from and written to the cache, under the names that hosts have for them."""
    told = wire.get("prompt_tokens_details")
    details = told if isinstance(told, dict) else {}
    read = count(details, "cached_tokens")
    for name in ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens", "cache_read_input_tokens"):
        read = read or count(wire, name)
    return read, count(details, "cache_write_tokens") or count(wire, "cache_creation_input_tokens")


def _is_apart(compat: Compat, prompt: int, output: int, reasoning: int, total: int | None) -> bool:
    """Whether the host counts thinking beside the output and not in it (xAI); if nobody says, the total tells."""
    if compat.usage_includes_reasoning is not None:
        return not compat.usage_includes_reasoning
    return total == prompt + output + reasoning


def _decode_cost(wire: Any) -> Cost | None:
    """Dollars, as a number or with its parts."""
    if isinstance(wire, dict):
        total, spent, made = (number(wire.get(f"{name}_cost")) for name in ("total", "input_tokens", "output_tokens"))
        return None if total is None else Cost(total=total, input=spent, output=made)
    total = number(wire)
    return None if total is None else Cost(total=total)


def _encode_usage(usage: Usage, compat: Compat) -> dict[str, Any]:
    output = usage.output
    if usage.reasoning and compat.usage_includes_reasoning is False:
        output -= usage.reasoning
    wire: dict[str, Any] = {
        "prompt_tokens": usage.input + usage.cache_read + usage.cache_write,
        "completion_tokens": output,
        "total_tokens": usage.total_tokens,
    }
    if usage.cache_read or usage.cache_write:
        wire["prompt_tokens_details"] = {"cached_tokens": usage.cache_read}
        if usage.cache_write:
            wire["prompt_tokens_details"]["cache_write_tokens"] = usage.cache_write
    if usage.reasoning is not None:
        wire["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    if usage.cost is not None:
        wire["cost"] = _encode_cost(usage.cost)
    return restored(wire, usage.extra, API) if usage.extra else wire


def _encode_cost(cost: Cost) -> Any:
    if cost.input is None and cost.output is None:
        return cost.total
    parts = {"input_tokens_cost": cost.input, "output_tokens_cost": cost.output, "total_cost": cost.total}
    return {key: value for key, value in parts.items() if value is not None}


def encode_response(message: AssistantMessage, *, quirks: Mapping[str, Any] | None = None) -> Encoded:
    """The body of a whole answer."""
    report, compat = Reporter("$"), compat_of(quirks)
    body = _whole_answer(message, compat, report)
    _report_answer(message, report)
    return encoded(API, body, message, ANSWER_FATES, report.losses, spoken=api_of(quirks, API))


def _held_response(message: AssistantMessage) -> dict[str, Any]:
    return (message.extra.get(API) or {}).get(RESPONSE) or {}


def _whole_answer(message: AssistantMessage, compat: Compat, report: Reporter) -> dict[str, Any]:
    held = _held_response(message)
    body = put_back(_encode_envelope(message, compat), held)
    if held.get(NONE):
        return body
    choice = put_back(_encode_choice_shell(message), held.get(CHOICE) or {})
    choice["message"] = _said_answer(message, compat, report)
    body["choices"] = [choice, *(held.get(CHOICES) or ())]
    return body


def _said_answer(message: AssistantMessage, compat: Compat, report: Reporter) -> dict[str, Any]:
    held = _held_response(message).get(MESSAGE) or {}
    return put_back(_say(blocks_of(message.content), held, compat, report, answer=True), held)


def _encode_envelope(message: AssistantMessage, compat: Compat) -> dict[str, Any]:
    wire = {
        "id": message.response_id or "",
        "object": "chat.completion",
        "created": (message.timestamp or 0) // 1000,
        "model": message.response_model or message.model or "",
    }
    if message.usage is not None:
        wire["usage"] = _encode_usage(message.usage, compat)
    return wire


def _encode_choice_shell(message: AssistantMessage) -> dict[str, Any]:
    """A choice without its message."""
    word = _stop_word(message)
    wire: dict[str, Any] = {"index": 0, "finish_reason": word}
    if word == "error" and message.error_message is not None:
        wire["error"] = {"message": message.error_message}
    return wire


def _stop_word(message: AssistantMessage) -> str | None:
    word, content = message.stop_detail, blocks_of(message.content)
    if word in STOP_REASONS and _reason(word, content) == message.stop_reason:
        return word
    if message.stop_reason == "error" and _reason("stop", content) == "error":
        return "stop"  # a refusal says it all
    return SAID_STOPS.get(message.stop_reason or "")


def _report_answer(message: AssistantMessage, report: Reporter) -> None:
    word = _stop_word(message)
    if message.stop_reason is None or _reason(word, blocks_of(message.content)) != message.stop_reason:
        report.at("$.stopReason", "stop_reason", "the wire has no word for it", "weakened")
    if word != message.stop_detail:
        report.at("$.stopDetail", "stop_detail", "another wire's word", "record")
    if message.response_model is not None and message.model is not None:
        report.at("$.model", "model", "the model that answered is said, not the one that was asked", "record")


ANSWER_FATES: Fates = {
    **FATES,
    **kept("AssistantMessage.usage AssistantMessage.response_id"),
    **some("AssistantMessage.model AssistantMessage.response_model", "one of them is said"),
    **some("AssistantMessage.stop_reason AssistantMessage.stop_detail", "said where the wire knows the word"),
    **some("AssistantMessage.error_message", "said where no word of the wire tells"),
    **kept("Usage.input Usage.output Usage.cache_read Usage.cache_write Usage.total_tokens Usage.reasoning Usage.cost"),
    **kept("Cost.input Cost.output Cost.total"),
    **record("Cost.cache_read Cost.cache_write Cost.extra", "the price of the cache is not told apart"),
}


# --- streams: wire to ours -------------------------------------------------------------------------------------------


def framing(content_type: str | None = None) -> SSE | JSONArray:
    """Server-sent events; a host that was asked for a stream and gives one JSON document is understood too."""
    return JSONArray() if (content_type or "").partition(";")[0].strip() == "application/json" else SSE()


class _Call:
    """A call under way. It opens when its id and its name are known and all calls before it are open."""

    __slots__ = ("id", "key", "name", "pieces", "wire")

    def __init__(self) -> None:
        self.wire: dict[str, Any] = {}
        self.pieces: list[str] = []
        self.key: int | None = None
        self.id: str | None = None
        self.name: str | None = None

    def is_known(self) -> bool:
        return self.key is None and ("custom" in self.wire or bool(self.id and self.name))

    def hear(self, delta: dict[str, Any]) -> None:
        """Notes what a delta says beside argument text. Names are set, not appended; nothing is unsaid by a blank."""
        for key, value in delta.items():
            if key == "function" or key == "custom":
                inner = self.wire.setdefault(key, {})
                for name, told in (value or {}).items():
                    if name not in inner or (told and name not in ("arguments", "input")):
                        inner[name] = told
            elif key != "index" and (key not in self.wire or value):
                self.wire[key] = value

    def known(self) -> dict[str, Any]:
        """The call as far as it is known when it opens, its arguments yet to come."""
        return {**self.wire, "function": {**self.wire["function"], "arguments": "{}"}}

    def whole(self) -> dict[str, Any]:
        """The call as a whole answer would show it."""
        for kind, grown in (("function", "arguments"), ("custom", "input")):
            if kind in self.wire and self.pieces:
                return {**self.wire, kind: {**self.wire[kind], grown: "".join(self.pieces)}}
        return self.wire


class StreamDecoder(Decoder):
    """Frames of a streamed answer to events."""

    API = API

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._compat = compat_of(self._quirks)
        self._pairing = _Pairing(self._mint)
        self._shell: dict[str, Any] = {}  # the wire's envelope
        self._keys: tuple[str, ...] = ()  # of the latest chunk, whose envelope …
        self._latest: dict[str, Any] = {}  # … is merged when another shape comes
        self._choice: dict[str, Any] = {}  # the first choice, without its message
        self._message: dict[str, Any] = {}  # what the message has beside its tracks, and tracks that are empty so far
        self._others: dict[Any, dict[str, Any]] = {}  # the other choices, whole
        self._track = ""  # of the block that opened last; its key is the number of blocks before it
        self._now = -1
        self._hot = ""  # the track that the next chunk most likely goes on with, if it looks like the last one:
        self._quiet: dict[str, Any] = {}  # its choice without the delta, …
        self._rest: dict[str, Any] = {}  # … its delta without the piece
        self._wires: dict[int, dict[str, Any]] = {}  # what blocks have beside their text
        self._aliases: dict[int, list[str]] = {}  # fields that gave the same thinking in other words' place
        self._details: dict[Any, int] = {}
        self._numbers: dict[int, int] = {}  # which of the details a block is
        self._repeats: set[str] = set()
        self._words = ""  # of the details in this chunk, if a plain field repeats them
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._opened = 0
        self._grown: dict[str, int] = {}  # the blocks of sound and of a call of the old kind
        self._texts = 0
        self._spoken = 0  # how much text the finished ones have
        self._listed = False
        self._ended = False

    def feed(self, frame: Frame) -> list[StreamEvent]:
        if frame.data.startswith(b"{"):
            return Decoder.feed(self, frame)
        said = frame.data.strip()
        if said == b"[DONE]":
            self._ended = True
            return self.close()
        return Decoder.feed(self, frame) if said else []

    def _read(self, value: Any, frame: Frame) -> None:
        if (*value,) == self._keys and not value.get("usage"):
            self._latest = value
            hot, choices = self._hot, value["choices"]
            if hot and len(choices) == 1:
                # Most chunks bring the next piece of the block that was heard last, and look just like the last one.
                choice = choices[0]
                delta = choice.pop("delta", None)
                if delta and choice == self._quiet:
                    told = delta.pop(hot, None)
                    if delta == self._rest:
                        if told.__class__ is str:
                            self._record.delta(self._now, told)
                            return
                        if told.__class__ is list and hot == "tool_calls":
                            self._hear_calls(told)
                            return
                    delta[hot] = told
                choice["delta"] = delta
        else:
            self._envelope(value)
            if self._record.finished:
                return
        for choice in value.get("choices") or ():
            if choice.get("index"):
                self._hear_other(choice)
            else:
                self._hear(choice)

    def _complete(self) -> bool:
        return self._ended or bool(self._choice.get("finish_reason"))

    # the envelope

    def _envelope(self, value: dict[str, Any]) -> None:
        error = value.get("error")
        if error:
            self._merge_envelope(value)
            told = decode_error(0, value)
            self._fail(told.message, detail=told.code)
            return
        if self._latest:
            self._merge_envelope(self._latest)
        self._merge_envelope(value)
        self._latest = {}
        # Chunks of the same shape differ in nothing that matters, unless they are of those that carry usage or errors.
        self._keys = () if "error" in value or "x_groq" in value else (*value,)
        self._record.note(
            **_decode_envelope(self._shell, self._given),
            usage=_decode_usage(_find_usage(self._shell, {}), self._compat),
        )
        self._record.begin()

    def _merge_envelope(self, value: dict[str, Any]) -> None:
        shell = self._shell
        for key, told in value.items():
            if key == "choices" or (key in shell and (told is None or told == "")):
                continue
            if key == "id" and shell.get("id"):
                continue  # some hosts change it from chunk to chunk
            if key == "object":  # whatever hosts call their chunks
                told = "chat.completion"
            if key == "x_groq" and isinstance(told, dict) and isinstance(shell.get(key), dict):
                told = {**shell[key], **told}
            if key not in _PADDING:
                shell[key] = told

    # choices

    def _warm(self, choice: dict[str, Any], delta: dict[str, Any], track: str) -> None:
        """Notes what a chunk looks like that only brings more of the same."""
        quiet = {key: value for key, value in choice.items() if key != "delta"}
        if self._track == track and delta is choice.get("delta") and not any(quiet.values()):
            self._hot, self._quiet = track, quiet
            self._rest = {key: value for key, value in delta.items() if key != track}

    def _hear(self, choice: dict[str, Any]) -> None:
        if not self._choice and "index" in choice:
            self._choice["index"] = choice["index"]
        delta = choice.get("delta")
        if delta is None:
            delta = choice.get("message") or {}
        told = []
        for key, value in delta.items():
            if value and key != "role":
                told.append(key)
            elif key not in self._message:
                self._message[key] = value
        if len(told) > 1:
            self._hear_many(delta, told)
        elif told:
            self._hear_one(told[0], delta[told[0]])
            self._warm(choice, delta, told[0])
        for key, value in choice.items():
            if value is None:
                if key not in self._choice:
                    self._choice[key] = None
            elif key not in _CHOICE_SHELL:
                self._hear_shell(key, value)

    def _hear_shell(self, key: str, value: Any) -> None:
        """What a choice says beside its delta."""
        if key == "finish_reason":
            if value or not self._choice.get(key):
                self._choice[key] = value
        elif key == "usage":
            self._choice[key] = value
        else:
            _grow(self._choice, {key: value}, ())

    def _hear_many(self, delta: dict[str, Any], told: list[str]) -> None:
        """A delta of several kinds: thinking first, then text, then calls; words that stand twice are heard once."""
        details = delta.get(DETAILS)
        words = _words_in(details) if isinstance(details, list) and details else ""
        heard: list[Any] = []
        for name in THOUGHTS:
            text = delta.get(name)
            if text and text.__class__ is str:
                if text == words:
                    self._words = words
                    self._repeats.add(name)
                elif text not in heard:
                    heard.append(text)
                    self._hear_text(name, text, [other for other in THOUGHTS if delta.get(other) == text])
        others = [key for key in told if key not in THOUGHTS or delta[key].__class__ is not str]
        for key in others if len(others) == 1 else sorted(others, key=_rank):
            self._hear_one(key, delta[key])
        self._words = ""

    def _hear_one(self, key: str, value: Any) -> None:
        if key in _STRINGS and isinstance(value, str):
            self._hear_text(key, value)
        elif key == "tool_calls" and isinstance(value, list):
            self._hear_calls(value)
        elif key == DETAILS and isinstance(value, list):
            for detail in value:
                self._hear_detail(detail)
        elif key == "content" and isinstance(value, list):
            self._listed = True
            for part in value:
                self._hear_part(part)
        elif key == "content":
            self._hear_text(key, jsontext.compact(value))
            self._message[key] = value
        elif key in ("audio", "function_call") and isinstance(value, dict):
            self._hear_growing(key, value)
        elif key == "images" and isinstance(value, list):
            for image in value:
                self._open("images", decode_part(image))
                self._record.close(self._now, decode_part(image))
        else:
            _grow(self._message, {key: value}, ())

    def _hear_other(self, choice: dict[str, Any]) -> None:
        """A choice that is not the first: kept as the whole answer would show it."""
        known = self._others.setdefault(choice["index"], {})
        for key, value in choice.items():
            if key in ("delta", "message"):
                _grow(known.setdefault("message", {}), value or {}, _GROWING)
            elif key == "finish_reason":
                known[key] = value or known.get(key)
            else:
                _grow(known, {key: value}, ())

    # blocks

    def _open(self, track: str, block: Block) -> None:
        if self._opened < len(self._calls) and track != "tool_calls":
            self._open_calls(all_of_them=True)
        self._settle()
        self._now += 1
        self._track = track
        self._hot = ""
        self._record.open(self._now, block)

    def _settle(self) -> None:
        """Ends the block that opened last, unless it is a call: calls are made side by side."""
        if self._track and self._track != "tool_calls" and self._record.is_open(self._now):
            self._record.close(self._now, self._finished(self._now, self._track))

    def _hear_text(self, track: str, text: str, names: list[str] | None = None) -> None:
        if self._track != track:
            if track == "content":
                self._open(track, TextBlock(text=""))
            elif track == "refusal":
                self._open(track, TextBlock(text="", refusal=True))
            else:
                self._open(track, _thought("", names or [track], self._compat))
        if names is not None:
            known = self._aliases.get(self._now, ())
            self._aliases[self._now] = [name for name in THOUGHTS if name in names or name in known]
        self._record.delta(self._now, text)

    def _hear_part(self, part: Any) -> None:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text" and isinstance(part.get("text"), str):
            if self._track != "content":
                self._open("content", TextBlock(text=""))
            self._record.delta(self._now, part["text"])
            self._note_part(part, "text")
        elif kind == "thinking" and isinstance(part.get("thinking"), (str, list)):
            text = part["thinking"] if isinstance(part["thinking"], str) else _chunks_in(part["thinking"])
            if text is None:
                self._whole_part(part)
                return
            if self._track != "thinking part":
                self._open("thinking part", ThinkingBlock(thinking="", extra={API: {PART: True}}))
                self._wires[self._now] = {"type": "thinking", PLAIN: isinstance(part["thinking"], str)}
            self._record.delta(self._now, text)
            self._note_part(part, "thinking")
        else:
            self._whole_part(part)

    def _note_part(self, part: dict[str, Any], grown: str) -> None:
        if len(part) > 2:
            known = self._wires.setdefault(self._now, {})
            known.update((key, value) for key, value in part.items() if key not in ("type", grown))

    def _whole_part(self, part: Any) -> None:
        block = _decode_spoken_part(part)
        self._open("part", block)
        self._record.close(self._now, block)

    def _hear_detail(self, detail: Any) -> None:
        """A piece of `reasoning_details`: pieces of one type and index belong together."""
        kind = detail.get("type") if isinstance(detail, dict) else None
        if kind not in _DETAIL_DECODERS:
            self._new_detail(OpaqueBlock(dialect=API, value={DETAILS: [detail]}), {})
            return
        grown = _WORDS.get(kind, "data")
        text = detail.get(grown)
        text = text if isinstance(text, str) else ""
        index = detail.get("index")
        place = (kind, index if isinstance(index, (int, str)) else None)
        key = self._details.get(place)
        if key is not None and self._is_other(key, detail):
            key = None
        if key is None:
            if grown == "text" and self._takes_over(text):
                key = self._now
                self._wires[key] = {}
            else:
                key = self._new_detail(_decode_detail({**detail, grown: ""}, len(self._numbers)), {})
                self._say_detail(key, grown, text)
            self._details[place] = key
        else:
            self._say_detail(key, grown, text)
        known = self._wires[key]
        for name, value in detail.items():
            if name not in known or (name != grown and value):
                known[name] = value

    def _say_detail(self, key: int, grown: str, text: str) -> None:
        if grown == "data":
            self._wires[key].setdefault(_PIECES, []).append(text)
        else:
            self._record.delta(key, text)

    def _is_other(self, key: int, detail: dict[str, Any]) -> bool:
        """Whether a piece begins an entry of its own although one of its type and index is known."""
        known = self._wires[key]
        told = detail.get("id")
        if told and known.get("id") and told != known["id"]:
            return True
        if detail.get("index") is None and key != self._now:
            return True
        return not self._record.is_open(key)

    def _takes_over(self, text: str) -> bool:
        """Whether the entry repeats the plain thinking that was just heard: then that thinking is the entry."""
        track = self._track
        if not text or text == self._words or track not in THOUGHTS or not self._record.is_open(self._now):
            return False
        if self._record.text(self._now) != text:
            return False
        self._repeats.update(self._aliases.pop(self._now, [track]))
        self._number()
        self._track = DETAILS
        self._hot = ""
        return True

    def _new_detail(self, block: Block, wire: dict[str, Any]) -> int:
        self._open(DETAILS, block)
        self._wires[self._now] = wire
        self._number()
        if isinstance(block, OpaqueBlock):
            self._record.close(self._now, block)
        return self._now

    def _number(self) -> None:
        self._numbers[self._now] = len(self._numbers)

    def _hear_growing(self, track: str, value: dict[str, Any]) -> None:
        """Sound, or a call of the old kind: it opens when enough is known, and grows."""
        known = self._message.get(track)
        wire = known if isinstance(known, dict) else {}
        _grow(wire, value, _GROWING)
        self._message[track] = wire
        if track not in self._grown and (_is_sound(wire) if track == "audio" else _is_legacy_call(wire)):
            self._open(track, AudioBlock() if track == "audio" else OpaqueBlock(dialect=API, value={}))
            self._grown[track] = self._now

    # calls

    def _hear_calls(self, deltas: list[Any]) -> None:
        touched: list[_Call] = []  # in this chunk
        for delta in deltas:
            function = delta.get("function") or {}
            arguments = function.get("arguments")
            call = self._by_index.get(delta.get("index"))
            if arguments.__class__ is str and call and call.key is not None and len(delta) == 2 and len(function) == 1:
                call.pieces.append(arguments)
                self._record.delta(call.key, arguments)
            else:
                call = self._find_call(delta, function, touched)
                self._hear_call(call, delta, arguments)
            touched.append(call)

    def _hear_call(self, call: _Call, delta: dict[str, Any], arguments: Any) -> None:
        call.hear(delta)
        custom = delta.get("custom")
        if isinstance(custom, dict):
            arguments = custom.get("input")
        elif arguments is not None and not isinstance(arguments, str):
            call.wire["function"]["arguments"] = arguments
        if isinstance(arguments, str) and arguments:
            call.pieces.append(arguments)
            if call.key is not None:
                self._record.delta(call.key, arguments)
        if call.key is None:
            self._open_calls()

    def _find_call(self, delta: dict[str, Any], function: dict[str, Any], touched: list[_Call]) -> _Call:
        """The call that a delta goes on with: by its index, else its id, else the last; or a new one."""
        index, told, name = _index_of(delta.get("index")), _real_id(delta.get("id")), function.get("name")
        call: _Call | None
        if index is not None:
            call = self._by_index.get(index)
            if call is not None and _begins_another(call, told, name, function.get("arguments")):
                call = None
        elif told is not None:
            call = next((known for known in self._calls if known.id == told), None)
        else:
            call = self._calls[-1] if self._calls else None
            if call is not None and name and call.name and (name != call.name or call in touched):
                call = None
        if call is None:
            call = _Call()
            self._calls.append(call)
            if index is not None:
                self._by_index[index] = call
        call.id = call.id or told
        if name and (call.name is None or not call.pieces):
            call.name = name
        return call

    def _open_calls(self, *, all_of_them: bool = False) -> None:
        """Opens the calls whose turn it is. At the end, one that never got an id is given one."""
        while self._opened < len(self._calls):
            call = self._calls[self._opened]
            if not (all_of_them or call.is_known()):
                return
            self._opened += 1
            self._settle()
            self._now += 1
            self._track = "tool_calls"
            self._hot = ""
            call.key = self._now
            if "custom" in call.wire or not call.name:
                self._record.open(call.key, OpaqueBlock(dialect=API, value={"tool_calls": [call.wire]}))
                continue
            call.id = call.id or self._pairing.mint()
            self._record.open(call.key, self._finished_call(call, call.known()))
            self._record.delta(call.key, "".join(call.pieces))

    # the end

    def _finish(self) -> None:
        if not self._message and not self._choice and self._others:
            first = self._others.pop(min(self._others, key=str))
            self._hear(_joined(first))
        self._close_blocks()
        if self._latest:
            self._merge_envelope(self._latest)
        content = tuple(self._record.content)
        held = self._residual(content)
        beside: dict[str, Any] = {MESSAGE: held} if held else {}
        if self._others:
            beside[CHOICES] = [
                _joined(other) for _, other in sorted(self._others.items(), key=lambda item: str(item[0]))
            ]
        choice = self._choice or None
        self._record.end(_read_answer(self._shell, choice, content, beside, self._given, self._compat))

    def _close_blocks(self) -> None:
        self._open_calls(all_of_them=True)
        for call in self._calls:
            if call.key is not None:
                self._record.close(call.key, self._finished_call(call, call.whole()))
        for key in self._record.open_keys():
            self._record.close(key, self._finished(key, self._track if key == self._now else ""))  # type: ignore[arg-type]

    def _finished_call(self, call: _Call, wire: dict[str, Any]) -> Block:
        return _decode_call(wire, lambda: call.id or "", answer=True)

    def _finished(self, key: int, track: str) -> Block:
        """The block, read from what the whole answer would have shown."""
        record = self._record
        if key in self._numbers:
            return self._finished_detail(key, self._numbers[key])
        for grown, at in self._grown.items():
            if at == key:
                told = _joined(self._message.pop(grown))
                if grown == "audio":
                    return _decode_spoken_sound(told, answer=True)
                return OpaqueBlock(dialect=API, value={grown: told})
        text, block, wire = record.text(key), record.block(key), self._wires.get(key)
        if isinstance(block, ThinkingBlock) and wire is not None:
            plain = wire.get(PLAIN)
            rest = {name: value for name, value in wire.items() if name != PLAIN}
            return decode_part({**rest, "thinking": text if plain else [_chunk(text)] if text else []})
        if isinstance(block, ThinkingBlock):
            return _thought(text, self._aliases.get(key) or [track], self._compat)
        if isinstance(block, TextBlock) and block.refusal:
            return TextBlock(text=text, refusal=True)
        finished = decode_part({"type": "text", "text": text, **wire}) if wire else TextBlock(text=text)
        return self._sourced(finished) if isinstance(finished, TextBlock) else finished

    def _sourced(self, block: TextBlock) -> TextBlock:
        """The text with the sources that came until its end, and its signature if it is the first."""
        told, before, first = self._message.get("annotations"), self._spoken, not self._texts
        self._spoken += len(block.text)
        self._texts += 1
        if told and _are_sources(told):
            del self._message["annotations"]
            own = tuple(_shifted(_decode_citation(_unnumbered(source)), before) for source in told)
            block = replace(block, citations=own)
        signature = _google_signature(self._message) if first else None
        return block if signature is None else replace(block, text_signature=signature)

    def _finished_detail(self, key: int, at: int) -> Block:
        wire = {name: value for name, value in self._wires[key].items() if name != _PIECES}
        grown = _WORDS.get(wire["type"], "data")
        pieces = self._wires[key].get(_PIECES)
        if grown in wire and isinstance(wire[grown], str):
            wire[grown] = self._record.text(key) if pieces is None else "".join(pieces)
        return _decode_detail(wire, at)

    def _residual(self, content: tuple[Block, ...]) -> dict[str, Any]:
        """What the message said beside its blocks, as the residual of the whole message would hold it."""
        marks: dict[str, Any] = {}
        if any(isinstance(content[key], ThinkingBlock) for key in self._numbers):
            self._mark_repeats(content, marks)
        if self._listed and not _implies_parts(content):
            marks[PARTS] = True
        said = _say(content, marks, self._compat, QUIET, answer=True)
        beside = {
            key: value
            for key, value in _joined(self._message).items()
            if not (said.get(key) and key in _TOLD) or (key == "content" and value)
        }
        wire = {**said, **beside}
        if not said["content"] and "content" not in self._message:
            del wire["content"]
        return {**residual(wire, said), **marks}

    def _mark_repeats(self, content: tuple[Block, ...], marks: dict[str, Any]) -> None:
        words = _words_of(content[key] for key in self._numbers)
        plain = any(
            isinstance(block, ThinkingBlock) and not _is_detail(block) and not _in_content(block) for block in content
        )
        repeats = [name for name in THOUGHTS if name in self._repeats]
        if words and not plain and repeats != _usual_repeats(False, self._compat, answer=True):
            marks[REPEATS] = repeats


_PADDING = frozenset({"obfuscation", "p"})  # noise against traffic analysis
_CHOICE_SHELL = frozenset({"delta", "message", "index"})
_TOLD = frozenset({*TRACKS, "annotations"})  # what the blocks say for themselves
_GROWING = frozenset({*_STRINGS, "arguments", "input", "data", "transcript", "text", "summary"})
_PIECES = "~pieces"


def _unnumbered(source: dict[str, Any]) -> dict[str, Any]:
    """A source without the number that it needs in a stream, for clients to put lists together."""
    return {key: value for key, value in source.items() if key != "index"}


def _rank(track: str) -> int:
    return RANKS.get(track, len(RANKS))


def _words_in(details: list[Any]) -> str:
    if len(details) == 1 and isinstance(details[0], dict):
        words = details[0].get("text") or details[0].get("summary")
        return words if isinstance(words, str) else ""
    return "".join(
        detail[word]
        for detail in details
        if isinstance(detail, dict)
        for word in ("text", "summary")
        if isinstance(detail.get(word), str)
    )


def _chunks_in(thinking: list[Any]) -> str | None:
    try:
        return "".join(map(_chunk_text, thinking))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _index_of(told: Any) -> int | None:
    """The number of a call: some hosts spell it as a string."""
    if isinstance(told, str) and told.isdecimal():
        return int(told)
    return whole(told)


def _begins_another(call: _Call, told: str | None, name: Any, arguments: Any) -> bool:
    """Whether a delta for a known number begins another call: hosts give one number to several calls.

    Another id with a name, or with nothing else, does; another id with arguments alone is a host that changes ids.
    """
    if told is not None and call.id is not None and told != call.id:
        return bool(name) or not arguments
    return told is None and bool(name and call.name and name != call.name and call.pieces)


def _in_content(block: Block) -> bool:
    return bool((getattr(block, "extra", {}).get(API) or {}).get(PART))


def _implies_parts(content: tuple[Block, ...]) -> bool:
    """Whether saying the blocks gives a content list anyway, with the same parts."""
    said = _say(content, {}, _PLAIN_HOST, QUIET, answer=True)["content"]
    listed = _say(content, {PARTS: True}, _PLAIN_HOST, QUIET, answer=True)["content"]
    return isinstance(said, list) and len(said) == len(listed)


class _Pieces(list[str]):
    """A string that still grows."""


def _grow(known: dict[str, Any], delta: dict[str, Any], growing: Iterable[str]) -> None:
    """Puts a delta into what is known: strings under `growing` names grow, lists are joined by `index`, rest is set."""
    for key, value in delta.items():
        before = known.get(key)
        if isinstance(value, str) and key in growing and before:
            if isinstance(before, _Pieces):
                before.append(value)
            else:
                known[key] = _Pieces([str(before), value])
        elif isinstance(value, dict) and isinstance(before, dict):
            _grow(before, value, growing)
        elif isinstance(value, list) and isinstance(before, list):
            for item in value:
                _grow_item(before, item, growing)
        elif key not in known or (value is not None and not (value == "" and before)):
            known[key] = value


def _grow_item(known: list[Any], item: Any, growing: Iterable[str]) -> None:
    index = item.get("index") if isinstance(item, dict) else None
    if index is not None:
        for other in reversed(known):
            if isinstance(other, dict) and other.get("index") == index:
                _grow(other, item, growing)
                return
    known.append(item)


def _joined(value: Any) -> Any:
    """A value with everything that grew as plain strings."""
    if isinstance(value, _Pieces):
        return "".join(value)
    if isinstance(value, dict):
        return {key: _joined(item) for key, item in value.items()}
    return [_joined(item) for item in value] if isinstance(value, list) else value


# --- streams: ours to wire -------------------------------------------------------------------------------------------


class StreamEncoder:
    """Events to the bytes of a streamed answer."""

    def __init__(self, *, request: Request | None = None, quirks: Mapping[str, Any] | None = None) -> None:
        self._compat = compat_of(quirks)
        self._says_usage = request is None or _wants_usage(request)
        self._started = False
        self._closed = False
        self._head = b""  # a chunk up to its delta
        self._envelope: dict[str, Any] = {}
        self._held: dict[str, Any] = {}  # residual of the message, as far as it is known at the start
        self._writers: dict[int, Callable[[str], bytes]] = {}
        self._track = ""  # of what was said last
        self._border = False  # whether a part of a content list ended, so that more text must not join it
        self._details: dict[int, dict[str, Any]] = {}  # entries under way, by content index, as far as they are said
        self._said_details = 0
        self._calls: dict[int, dict[str, Any]] = {}  # calls under way, likewise
        self._said_calls = 0
        self._texts = 0
        self._spoken = 0
        self._sources = 0
        self._once: set[str] = set()

    def feed(self, event: StreamEvent) -> bytes:
        if self._closed:
            return b""
        match event:
            case TextDelta() | ThinkingDelta() | ToolCallDelta():
                writer = self._writers.get(event.content_index)
                return b"" if writer is None else writer(event.delta)
            case Start():
                return self._start(event.partial)
            case TextStart():
                return self._begin_text(event.content_index, event.block or TextBlock(text=""))
            case TextEnd():
                return self._end_text(event.content_index, event.block or TextBlock(text=event.content))
            case ThinkingStart():
                return self._begin_thinking(event.content_index, event.block or ThinkingBlock(thinking=""))
            case ThinkingEnd():
                return self._end_thinking(event.content_index, event.block or ThinkingBlock(thinking=event.content))
            case ToolCallStart():
                return self._begin_call(event.content_index, event.block or ToolCall(id="", name="", arguments={}))
            case ToolCallEnd():
                return self._end_call(event.content_index, event.tool_call)
            case BlockEnd():
                return self._block(event.block)
            case Done():
                return self._end(event.message)
            case Error():
                return self._fail(event.error)
            case _:
                return b""

    def close(self) -> bytes:
        """Nothing is owed after the terminal event; a stream without one is cut off, and says so."""
        if self._closed:
            return b""
        self._closed = True
        return _failed(CUT_OFF, None)

    def _chunk(self, delta: dict[str, Any]) -> bytes:
        return b"".join((self._head, jsontext.write(delta), _TAIL))

    def _start(self, partial: AssistantMessage | None) -> bytes:
        """The first chunk, which always has the role."""
        message = partial or AssistantMessage(content=())
        held = _held_response(message)
        self._held = held.get(MESSAGE) or {}
        self._started = True
        self._set_head(put_back(_encode_envelope(message, self._compat), held))
        return self._chunk({"role": "assistant"})

    def _set_head(self, envelope: dict[str, Any]) -> None:
        self._envelope = {key: envelope[key] for key in ("id", "created", "model") if key in envelope}
        self._envelope["object"] = "chat.completion.chunk"  # clients skip chunks that are called anything else
        head = jsontext.write({**self._envelope, "choices": []})
        self._head = b"data: " + head[:-2] + b'{"index":0,"delta":'

    # text

    def _begin_text(self, at: int, block: TextBlock) -> bytes:
        special = block.cache is not None or bool(block.extra.get(API))
        if block.refusal:
            self._writers[at] = self._say_nothing if special else self._say_refusal
            return b""
        if not (special or self._held.get(PARTS)):
            self._writers[at] = self._say_text
            return b""
        self._writers[at] = self._say_text_part
        self._once.discard("part")
        return self._cross_border(always=True)

    def _cross_border(self, *, always: bool = False) -> bytes:
        """An empty content list, which keeps two parts in a row apart."""
        border, self._border = self._border, False
        return self._chunk({"content": []}) if self._track == "content" and (border or always) else b""

    def _say_text(self, text: str) -> bytes:
        border = b""
        if self._border or self._track != "content":
            border = self._cross_border()
            self._track = "content"
            self._texts += 1
        return b"".join((border, self._head, b'{"content":', jsontext.write(text), b"}", _TAIL))

    def _say_text_part(self, text: str, rest: dict[str, Any] = {"type": "text"}) -> bytes:  # noqa: B006
        if "part" not in self._once:
            self._once.add("part")
            self._texts += 1
        self._track = "content"
        return self._chunk({"content": [{**rest, "text": text}]})

    def _say_refusal(self, text: str) -> bytes:
        self._track = "refusal"
        return self._chunk({"refusal": text})

    def _say_nothing(self, text: str) -> bytes:
        return b""

    def _end_text(self, at: int, block: TextBlock) -> bytes:
        special = block.cache is not None or bool(block.extra.get(API))
        if block.refusal:
            return self._block(block) if special else b""
        if not (special or self._writers.get(at) == self._say_text_part):
            return self._say_sources(block) if block.text else b""
        rest = {key: value for key, value in _say_part(block)[0].items() if key != "text"}
        said = b"" if len(rest) == 1 and "part" in self._once else self._say_text_part("", rest)
        said += self._say_sources(block)
        self._border = True
        return said

    def _say_sources(self, block: TextBlock) -> bytes:
        """What the message says of a text beside its words, while that text is the last thing said."""
        delta: dict[str, Any] = {}
        if block.citations:
            sources = [_encode_citation(citation, self._spoken, self._texts - 1) for citation in block.citations]
            delta["annotations"] = [{"index": self._sources + at, **source} for at, source in enumerate(sources)]
            self._sources += len(sources)
        if block.text_signature is not None and self._texts == 1 and "extra_content" not in self._once:
            self._once.add("extra_content")
            delta["extra_content"] = _signed(block.text_signature)
        self._spoken += len(block.text)
        return self._chunk(delta) if delta else b""

    # thinking

    def _begin_thinking(self, at: int, block: ThinkingBlock) -> bytes:
        held = block.extra.get(API) or {}
        if held.get(PART):
            border = self._chunk({"content": []}) if self._track == "thinking part" else b""
            self._writers[at] = self._say_thought_string if held.get(PLAIN) else self._say_thought_chunk
            self._track = ""
            return border
        if block.redacted:
            self._writers[at] = self._say_nothing
        elif _is_detail(block):
            entry = _encode_detail(block, self._said_details)
            self._said_details += 1
            self._details[at] = {"type": entry["type"], "index": entry.get("index", self._said_details - 1)}
            self._writers[at] = self._detail_writer(at, _WORDS.get(entry["type"], "text"))
        else:
            self._writers[at] = self._thought_writer(held.get(FIELDS) or [self._compat.reasoning_field])
        return b""

    def _say_thought_chunk(self, text: str) -> bytes:
        self._track = "thinking part"
        return self._chunk({"content": [{"type": "thinking", "thinking": [_chunk(text)]}]})

    def _say_thought_string(self, text: str) -> bytes:
        self._track = "thinking part"
        return self._chunk({"content": [{"type": "thinking", "thinking": text}]})

    def _thought_writer(self, names: list[str]) -> Callable[[str], bytes]:
        apart = "\n\n" if self._track == names[0] else ""

        def write(text: str) -> bytes:
            nonlocal apart
            text, apart = apart + text, ""
            self._track = names[0]
            return self._chunk(dict.fromkeys(names, text))

        return write

    def _detail_writer(self, at: int, words: str) -> Callable[[str], bytes]:
        repeats = self._held.get(REPEATS, [self._compat.reasoning_field])

        def write(text: str) -> bytes:
            self._track = DETAILS
            self._details[at][words] = ""
            entry = {**self._details[at], words: text}
            return self._chunk({**dict.fromkeys(repeats, text), DETAILS: [entry]})

        return write

    def _end_thinking(self, at: int, block: ThinkingBlock) -> bytes:
        held = block.extra.get(API) or {}
        if held.get(PART):
            part = _say_part(block)[0]
            empty: Any = "" if held.get(PLAIN) else []
            return (
                b""
                if len(part) == 2 and block.thinking
                else self._say_part_rest_of_thought({**part, "thinking": empty})
            )
        if not _is_detail(block):
            return b""
        known = self._details.pop(at, None)
        if known is None:
            # Clients put the entries together by their index, so it is always there.
            entry = {"index": self._said_details, **_encode_detail(block, self._said_details)}
            self._said_details += 1
        else:
            told = _encode_detail(block, 0)
            rest = {key: value for key, value in told.items() if key not in known}
            if not rest and len(known) > 2:
                return b""
            entry = {"type": known["type"], "index": known["index"], **rest}
        self._track = DETAILS
        return self._chunk({DETAILS: [entry]})

    def _say_part_rest_of_thought(self, part: dict[str, Any]) -> bytes:
        self._track = "thinking part"
        return self._chunk({"content": [part]})

    # calls and what comes whole

    def _begin_call(self, at: int, call: ToolCall) -> bytes:
        said = _encode_answered_call(call)
        number, self._said_calls = self._said_calls, self._said_calls + 1
        function = said.get("function")
        if isinstance(function, dict) and isinstance(function.get("arguments"), str):
            said = {**said, "function": {**function, "arguments": ""}}
        self._calls[at] = {"index": number, **said}
        self._writers[at] = self._call_writer(at, number)
        self._track = "tool_calls"
        return self._chunk({"tool_calls": [self._calls[at]]})

    def _call_writer(self, at: int, number: int) -> Callable[[str], bytes]:
        opening = b'{"tool_calls":[{"index":%d,"function":{"arguments":' % number
        calls = self._calls

        def write(text: str) -> bytes:
            calls[at][_PIECES] = True
            return b"".join((self._head, opening, jsontext.write(text), b"}}]}", _TAIL))

        return write

    def _end_call(self, at: int, call: ToolCall) -> bytes:
        known = self._calls.pop(at, None)
        if known is None:
            return b""
        told = _encode_answered_call(call)
        rest = {key: value for key, value in told.items() if known.get(key) != value and key != "function"}
        function = told.get("function") or {}
        more = {key: value for key, value in function.items() if known.get("function", {}).get(key) != value}
        if _PIECES in known and isinstance(more.get("arguments"), str):
            del more["arguments"]
        if more:
            rest["function"] = more
        return self._chunk({"tool_calls": [{"index": known["index"], **rest}]}) if rest else b""

    def _block(self, block: Block) -> bytes:
        """A block that is said whole."""
        said = _say([block], {}, self._compat, QUIET, answer=True)
        delta = {key: said[key] for key in TRACKS if said.get(key)}
        for key in ("audio", "function_call"):
            if key in delta and key in self._once:
                del delta[key]
        if not delta:
            return b""
        self._once.update(delta)
        if "tool_calls" in delta:
            delta["tool_calls"] = [{"index": self._said_calls, **call} for call in delta["tool_calls"]]
            self._said_calls += 1
        if DETAILS in delta:
            self._said_details += 1
        self._track = "part" if "content" in delta else next(iter(delta))
        return self._chunk(delta)

    # the end

    def _end(self, message: AssistantMessage) -> bytes:
        """What the deltas could not say, the reason, the other choices, the usage."""
        self._closed = True
        before = b"" if self._started else self._start(message)
        told = _whole_answer(message, self._compat, QUIET)
        self._set_head(told)
        choices = told.pop("choices", None) or [{"index": 0, "message": {}}]
        usage = told.pop("usage") if isinstance(told.get("usage"), dict) else None
        chunks = [self._last_chunk({**told, **self._envelope}, choices[0])]
        for choice in choices[1:]:
            rest = {key: value for key, value in choice.items() if key != "message"}
            delta = dict(choice.get("message") or {})
            if isinstance(delta.get("tool_calls"), list):  # clients want their number
                delta["tool_calls"] = [{"index": at, **call} for at, call in enumerate(delta["tool_calls"])]
            chunks.append({**self._envelope, "choices": [{**rest, "delta": delta}]})
        if usage is not None and self._says_usage:
            chunks.append({**self._envelope, "choices": [], "usage": usage})
        return before + b"".join(write_sse(jsontext.write(chunk)) for chunk in chunks) + write_sse(b"[DONE]")

    def _last_chunk(self, envelope: dict[str, Any], choice: dict[str, Any]) -> dict[str, Any]:
        rest = {key: value for key, value in choice.items() if key != "message"}
        delta = {
            key: value
            for key, value in choice["message"].items()
            if key not in ("role", ORDER)
            and not (value and (key in TRACKS or (key == "annotations" and self._sources)))
        }
        return {**envelope, "choices": [{**rest, "delta": delta}]}

    def _fail(self, message: AssistantMessage) -> bytes:
        """A refusal and a filter are ends that the wire has a word for; anything else is an error object."""
        if message.stop_reason == "error" and (_stop_word(message) != "error" or message.stop_detail == "error"):
            return self._end(message)
        self._closed = True
        return _failed(message.error_message or message.stop_reason or "error", message.stop_detail)


_TAIL = b',"finish_reason":null}]}\n\n'


def _failed(text: str, code: str | None) -> bytes:
    error = {"message": text, "type": "server_error", "param": None, "code": code}
    return write_sse(jsontext.write({"error": error}))


def _wants_usage(request: Request) -> bool:
    """Whether the client asked for usage at the end of the stream; requests of other wires are taken to have."""
    said: dict[str, Any] = {"stream_options": {"include_usage": True}}
    options = restored(said, request.extra, API).get("stream_options")
    return isinstance(options, dict) and bool(options.get("include_usage"))


# --- errors, path, conversations -------------------------------------------------------------------------------------


def decode_error(status: int, body: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    """An error answer, an error inside a stream (status 0), or one that came with status 200."""
    wire = lenient(body)
    told = wire[0] if isinstance(wire, list) and wire else wire  # Google's endpoint wraps it in a list
    error = told.get("error") if isinstance(told, dict) else None
    if not isinstance(error, dict):
        error = {"message": error} if isinstance(error, str) else told if isinstance(told, dict) else {"message": told}
    message = error.get("message") or error.get("detail")
    text = message if isinstance(message, str) else jsontext.compact(message or wire) if wire else ""
    code = error.get("code")
    if isinstance(code, int) and not isinstance(code, bool) and status in (0, 200):
        status = code if 400 <= code < 600 else status
    return provider_error(
        _with_details(text, error),
        status=status,
        code=optional(code) or optional(error.get("type")) or (str(code) if code else None),
        headers=headers,
        body=wire,
    )


def _with_details(text: str, error: Mapping[str, Any]) -> str:
    """OpenRouter says in `metadata.raw` what the provider behind it said."""
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if not raw:
        return text
    return f"{text}: {raw if isinstance(raw, str) else jsontext.compact(raw)}"


ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


def encode_error(error: ProviderError) -> tuple[int, Any]:
    status = status_of(error)
    kind = ERROR_TYPES.get(status) or ("server_error" if status >= 500 else "invalid_request_error")
    return status, {"error": {"message": error.message, "type": kind, "param": None, "code": error.code}}


def path(model: str, stream: bool, *, quirks: Mapping[str, Any] | None = None) -> str:
    return compat_of(quirks).path.replace("{model}", quote(model, safe=""))


def decode(data: Any, *, quirks: Mapping[str, Any] | None = None) -> Conversation:
    return decode_conversation(data, API, lambda body: decode_request(body, quirks=quirks), "messages")


def encode(conversation: Conversation, *, quirks: Mapping[str, Any] | None = None) -> Encoded:
    return encode_conversation(conversation, API, lambda request: encode_request(request, quirks=quirks), "messages")
