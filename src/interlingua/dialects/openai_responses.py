"""OpenAI Responses. Knows nothing of HTTP, keys, clocks or other dialects.

Shapes that differ from ours: a conversation is a flat list of items, so an answer is every item between two of the
user's (reasoning, messages, calls): these are one message here, a block for each item, and for each part of a message
item. What the wire says of such an item is on its first block, and `~joined` on the others. Reasoning comes in parts;
the block has them joined by blank lines, and hints say how long each is. Calls have two ids: ours is the one that
results name (`call_id`), the item's own is in `extra`.

An item of an answer may go back as input, but not all of it: its status, for one, is refused. So what is held of an
answer's item is in two places, and what lies under `~response` is never sent.

A stream is put together as the wire's own items and read as the whole answer would be, so both give equal messages by
construction. Also, as Variants, the same bodies at Azure's and at the Codex backend's address.
"""

import base64
import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from .. import jsontext
from ..errors import BadWire, FormatError, ProviderError
from ..events import (
    BlockEnd,
    BlockStart,
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
from ..folding import CUT_OFF, arguments_text, parse_arguments, settle, unfold
from ..framing import SSE, Frame, write_sse
from ..losses import QUIET, SYSTEM, Encoded, Fates, Reporter, bookkeeping, dropped, encoded, kept, record, some
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
    ServerToolCall,
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
from ._openai import data_url, read_data_url
from ._stream import Decoder
from ._variant import Variant
from ._wire import (
    HINTS,
    JOINED,
    MESSAGE,
    RESPONSE,
    an_object,
    api_of,
    body_of,
    count,
    decode_conversation,
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
    same,
    say_tools,
    string,
    whole,
    with_held,
)

API = "openai-responses"

# The word for how an answer ended: its status, or for an incomplete one the reason, where there is one.
STOP_REASONS: dict[str, StopReason] = {
    "completed": "stop",
    "in_progress": "stop",
    "queued": "stop",
    "incomplete": "length",
    "failed": "error",
    "cancelled": "aborted",
    "max_output_tokens": "length",
    "max_messages": "length",
    "content_filter": "error",
}
REASONS = frozenset({"max_output_tokens", "max_messages", "content_filter"})
SAID_STOPS = {"length": "max_output_tokens", "error": "failed", "aborted": "cancelled"}
RETENTIONS: dict[Any, Literal["short", "long"]] = {"24h": "long", "in_memory": "short", "in-memory": "short"}
SAID_RETENTIONS = {"long": "24h", "short": "in_memory"}

# Calls that the provider runs itself: our name for the tool, and where the item has the arguments. The name of a remote
# tool is in the item.
SERVER_CALLS: dict[str, tuple[str | None, str | None]] = {
    "web_search_call": ("web_search", "action"),
    "file_search_call": ("file_search", "queries"),
    "code_interpreter_call": ("code_interpreter", "code"),
    "image_generation_call": ("image_generation", None),
    "tool_search_call": ("tool_search", "arguments"),
    "x_search_call": ("x_search", "arguments"),
    "mcp_call": (None, "arguments"),
}
AS_TEXT = frozenset({"mcp_call", "x_search_call"})  # whose arguments are JSON in a string
# Items that a client adds to the input, beside messages and results; all others are a model's.
CLIENTS = frozenset(
    {
        "computer_call_output",
        "local_shell_call_output",
        "shell_call_output",
        "apply_patch_call_output",
        "mcp_approval_response",
        "additional_tools",
        "configuration_update",
        "compaction_trigger",
    }
)
# What an answer says of an item and input must not: "Unknown parameter: 'input[3].status'".
HIDDEN = dict.fromkeys(("message", "reasoning", "function_call", "custom_tool_call"), ("status",))
NULLS = frozenset({"content", "encrypted_content", "phase", "namespace", "caller", "logprobs"})  # and these when null
# A custom tool takes one text instead of arguments: here it is the argument `input`.
CUSTOM = "custom_tool_call"
RESULTS = ("function_call_output", "custom_tool_call_output")
# Of an annotation: the keys for its title, start and end.
CITATIONS: dict[str, tuple[str | None, str | None, str | None]] = {
    "url_citation": ("title", "start_index", "end_index"),
    "container_file_citation": ("filename", "start_index", "end_index"),
    "file_citation": ("filename", None, None),
}

# Hints of this wire, in `extra[API]`.
STRING = "~string"  # of a message item: whether its content was a string
PARTS = "~parts"  # of a message item: parts that are not modelled, each with its place
SUMMARY = "~summary"  # of thinking: how long the parts of the summary are
CONTENT = "~content"  # the same for the parts of the reasoning itself
ITEM = "~item"  # of a user message: its one block is an item of the input, no part of a message
INPUT = "~input"  # of a request: the input was a string
TEXT = "~text"  # of a request: what the wire says of the text beside its format
FORM = "~type"  # of a tool choice or a call: the less usual of two ways to say it
MINTED = "~minted"

# Fields that only one form of an answer carries, as paths into the message: none here, the stream says it all.
UNEVEN: tuple[str, ...] = ()

FATES: Fates = {
    **kept("TextBlock.text Citation.title Citation.url Citation.start Citation.end"),
    **some("TextBlock.refusal TextBlock.citations", "answers have them, and citations need a URL; input has neither"),
    **some("TextBlock.cache", "input can be marked, answers cannot"),
    **dropped("Citation.cited_text TextBlock.text_signature"),
    **kept("CacheMarker.ttl"),
    **kept("ThinkingBlock.thinking ThinkingBlock.thinking_signature"),
    **dropped("ThinkingBlock.redacted", "sealed reasoning is reasoning without a summary"),
    **some(
        "ImageBlock.data ImageBlock.mime_type ImageBlock.url ImageBlock.file_id ImageBlock.detail ImageBlock.cache"
        " DocumentBlock.data DocumentBlock.mime_type DocumentBlock.url DocumentBlock.file_id DocumentBlock.title"
        " DocumentBlock.text DocumentBlock.cache AudioBlock.data AudioBlock.mime_type",
        "only in input, where a file is data or a reference, and only data has a type",
    ),
    **some("AudioBlock.url AudioBlock.file_id AudioBlock.cache", "sounds are data, and nothing else"),
    **dropped("AudioBlock.transcript DocumentBlock.context DocumentBlock.citations"),
    **kept("ToolCall.id ToolCall.name ToolCall.arguments ToolCall.arguments_text ToolCall.parse_error"),
    **dropped("ToolCall.thought_signature ToolCall.cache"),
    **some(
        "ServerToolCall.id ServerToolCall.name ServerToolCall.arguments ServerToolCall.cache OpaqueBlock.dialect"
        " OpaqueBlock.value ServerToolResult.tool_call_id ServerToolResult.tool_name ServerToolResult.dialect"
        " ServerToolResult.content ServerToolResult.is_error ServerToolResult.cache",
        "only what this wire minted",
    ),
    **some("AssistantMessage.content", "answers in a row are one: the wire has nothing between them"),
    **some("SystemMessage.content", "the first one is the system prompt where there is no other"),
    **kept("UserMessage.content SystemMessage.developer CustomMessage.role CustomMessage.fields"),
    **bookkeeping(API),
    **kept("ToolResultMessage.tool_call_id ToolResultMessage.content"),
    **some("ToolResultMessage.tool_name", "the name is that of the call it answers"),
    **some("ToolResultMessage.is_error", "an error is said in the words of the result"),
    **dropped("ToolResultMessage.cache"),
    **some("Context.system_role", "only a message has a role, and there may be none"),
    **kept("ToolSpec.name ToolSpec.description ToolSpec.input_schema ToolSpec.strict"),
    **some("ToolSpec.dialect ToolSpec.value", "only this wire's own tools"),
    **dropped("ToolSpec.cache"),
    **kept("Options.max_tokens Options.temperature Options.top_p Options.parallel_tools Options.session_id"),
    **kept("Options.service_tier Options.metadata Options.stream Options.tool_choice Options.reasoning"),
    **kept("Options.output_schema ToolChoice.mode Reasoning.summary OutputSchema.schema"),
    **some("ToolChoice.names", "no tool at all cannot be narrowed"),
    **some("Reasoning.effort Reasoning.enabled", "one word says both"),
    **some("OutputSchema.name OutputSchema.description OutputSchema.strict", "only of a schema, not of any object"),
    **some("Options.cache_retention", "the cache cannot be switched off"),
    **dropped("Options.top_k Options.stop Options.seed Reasoning.budget"),
    **dropped(
        "Options.extra Reasoning.extra ToolChoice.extra OutputSchema.extra",
        "what only this wire can say of a request goes into the request's extra",
    ),
}

Mint: TypeAlias = Callable[[int], str]


# --- parts of input: wire to ours ------------------------------------------------------------------------------------


def decode_part(wire: dict[str, Any]) -> Block:
    """One part of input; whatever is not as this wire has it is kept as it is, opaque."""
    kind = wire.get("type")
    decode = _PARTS.get(kind) if isinstance(kind, str) else None
    if decode is not None:
        try:
            block: Block = decode(wire)
            return keeping(block, API, wire, encode_part(block, QUIET) or {})
        except (KeyError, TypeError, ValueError):
            pass
    return OpaqueBlock(dialect=API, value=wire)


def _decode_words(wire: dict[str, Any]) -> TextBlock:
    return TextBlock(text=string(wire["text"]), cache=_decode_cache(wire))


def _decode_image(wire: dict[str, Any]) -> ImageBlock:
    address = optional(wire.get("image_url"))
    mime, data = _read_url(address) if address is not None else (None, None)
    return ImageBlock(
        data=data,
        mime_type=mime,
        url=address if data is None else None,
        file_id=optional(wire.get("file_id")),
        detail=None if wire.get("detail") == AUTO else optional(wire.get("detail")),
        cache=_decode_cache(wire),
    )


def _read_url(url: str) -> tuple[str | None, str | None]:
    """The MIME type and the data in a data URL; nothing of either where it is the address of something else."""
    if url.startswith(_UNTYPED):
        return None, url.removeprefix(_UNTYPED)
    return read_data_url(url) or (None, None)


_UNTYPED = "data:;base64,"
AUTO = "auto"  # the detail of a picture where nothing is said of it; the wire's types want it said


def _decode_file(wire: dict[str, Any]) -> DocumentBlock:
    data = optional(wire.get("file_data"))
    mime = None
    head, cut, rest = data.partition(";base64,") if data is not None else ("", "", "")
    if cut and head.startswith("data:"):  # else it is bare base64
        mime, data = head.removeprefix("data:"), rest
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
    "input_text": _decode_words,
    "output_text": _decode_words,
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


def _decode_content(content: Any) -> Content:
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise TypeError("expected text or a list of parts")
    return tuple(map(decode_part, content))


# --- parts of input: ours to wire ------------------------------------------------------------------------------------


def encode_part(block: Block, report: Reporter) -> Any:
    """One part of input as this wire says it, or None (reported) when it cannot."""
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
            report.lost(type(block).__name__, "the input of this wire cannot say such a block")
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
        report.lost("detail", "what is meant where nothing is said", "record", field="detail")
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
        # The wire has no place for the text of a file: it is sent as a file of that text.
        plain = base64.b64encode(block.text.encode()).decode()
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
        sound["format"] = "mp3" if kind == "mpeg" else kind
        if _sound_type(sound["format"]) != block.mime_type:
            report.lost("mime_type", "the wire has its own word for the type", "weakened", field="mimeType")
    for field, value in (("url", block.url), ("fileId", block.file_id), ("cache", block.cache)):
        if value is not None:
            report.lost(field, "a sound is its data, and nothing else", field=field)
    return {"type": "input_audio", "input_audio": sound}


def _encode_cache(cache: CacheMarker) -> dict[str, Any]:
    wire = {"mode": "explicit"}
    if cache.ttl is not None:
        wire["ttl"] = cache.ttl
    return restored(wire, cache.extra, API)


def _encode_content(content: Content, report: Reporter) -> Any:
    if content is None or isinstance(content, str):
        return content
    said = []
    for at, block in enumerate(content):
        report.block = at
        wire = encode_part(block, report)
        if wire is not None:
            said.append(wire)
    report.block = None
    return said


# --- items of answers: wire to ours ----------------------------------------------------------------------------------


def decode_item(
    wire: dict[str, Any], at: int, *, answer: bool = False, mint: Mint | None = None
) -> list[tuple[int, Block]]:
    """The blocks of an item at place `at`, each with its place among the item's parts.

    `answer` says that the item is of an answer, and not of the input, which may say less (see `_held`). Whatever is not
    as this wire has it is kept as it is, opaque.
    """
    decode = _ITEMS.get(_kind(wire))
    if decode is not None:
        try:
            return decode(wire, at, answer, mint or "call_{}".format)
        except (KeyError, TypeError, ValueError):
            pass
    return [(0, OpaqueBlock(dialect=API, value=wire))]


def _kind(wire: Mapping[str, Any]) -> str:
    """The type of an item; messages may leave it out."""
    kind = wire.get("type")
    if kind is None:
        return "message" if "role" in wire else "item_reference"
    return kind if isinstance(kind, str) else ""


def _held(wire: Mapping[str, Any], said: Mapping[str, Any], kind: str, at: int, answer: bool) -> dict[str, Any]:
    """What to hold of an item, of which `said` is known from its blocks.

    Of an answer, what is usual there (`_usual`) is not held at all, and what input must not say is under `~response`,
    which is put back only into answers.
    """
    if not answer:
        return residual(wire, said)
    usual = _usual(kind, at)
    if same(wire, {**usual, **said}):
        return {}
    hidden = HIDDEN.get(kind, ())
    lean = {
        key: value
        for key, value in wire.items()
        if key in said
        or not (key in hidden or (value is None and key in NULLS) or (key in usual and same(value, usual[key])))
    }
    held = residual(lean, said)
    rest = residual(wire, {**usual, **lean})
    return {**held, RESPONSE: rest} if rest else held


def _usual(kind: str, at: int) -> dict[str, Any]:
    """What an answer says of an item or part of this kind, even of one that was minted elsewhere."""
    match kind:
        case "message":
            return {"id": f"msg_{at}", "status": "completed"}
        case "reasoning":
            return {"id": f"rs_{at}"}
        case "function_call":
            return {"id": f"fc_{at}", "status": "completed"}
        case "custom_tool_call":
            return {"id": f"ctc_{at}", "status": "completed"}
        case "output_text":
            return {"logprobs": []}
        case _:
            return {}


def _filed(extra: Extra, held: Mapping[str, Any]) -> Extra:
    return {**extra, API: {**extra.get(API, {}), **held}} if held else extra


def _decode_message(wire: dict[str, Any], at: int, answer: bool, mint: Mint) -> list[tuple[int, Block]]:
    if wire["role"] != "assistant":
        raise ValueError(wire["role"])
    content = wire["content"]
    about: dict[str, Any] = {}
    if isinstance(content, str):
        blocks: list[tuple[int, TextBlock]] = [(0, TextBlock(text=content))]
        held = _held(wire, {"role": "assistant", "content": content}, "message", at, answer)
        if held or answer:
            about[STRING] = True
    else:
        blocks, others = _decode_parts(content, answer)
        held = _held(wire, {"type": "message", "role": "assistant", "content": content}, "message", at, answer)
        if others:
            about[PARTS] = others
        elif not answer and not held:
            about[STRING] = False
    # The item's id and phase stand with the block itself; all else that the wire said of the item, apart from it.
    named = {key: held.pop(key) for key in _NAMES if key in held}
    about.update(held)
    place, first = blocks[0]
    extra = _filed(first.extra, {**named, MESSAGE: about} if about else named)
    joined = [(n, replace(b, extra=_filed(b.extra, {JOINED: True}))) for n, b in blocks[1:]]
    return [(place, replace(first, extra=extra)), *joined]


_NAMES = ("id", "phase")


def _decode_parts(content: Any, answer: bool) -> tuple[list[tuple[int, TextBlock]], list[Any]]:
    """The words in a message item with their places, and the other parts with theirs."""
    if not isinstance(content, list):
        raise TypeError(f"expected a list of parts, got {type(content).__name__}")
    blocks: list[tuple[int, TextBlock]] = []
    others: list[Any] = []
    for place, part in enumerate(content):
        try:
            blocks.append((place, _decode_said(part, answer)))
        except (KeyError, TypeError, ValueError, AttributeError):
            others.append([place, part])
    if not blocks:
        raise ValueError("a message item without words")
    return blocks, others


def _decode_said(wire: Any, answer: bool) -> TextBlock:
    """A part of an answer's message."""
    kind = wire["type"]
    if kind == "refusal":
        block = TextBlock(text=string(wire["refusal"]), refusal=True)
    elif kind in ("output_text", "input_text"):
        noted = wire.get("annotations")
        citations = tuple(map(_decode_citation, noted)) if isinstance(noted, list) else ()
        block = TextBlock(text=string(wire["text"]), citations=citations)
    else:
        raise ValueError(kind)
    held = _held(wire, _said_part(block, QUIET), kind, 0, answer)
    for name in _NAMES:  # of the part, not of the item: kept from being taken for that
        if name in held:
            held.setdefault(HINTS, {})[name] = {"wire": held.pop(name)}
    return replace(block, extra={API: held}) if held else block


def _decode_citation(wire: dict[str, Any]) -> Citation:
    kind = string(wire["type"])
    title, start, end = CITATIONS.get(kind, (None, None, None))
    citation = Citation(
        title=optional(wire.get(title)) if title else None,
        url=optional(wire.get("url")) if kind == "url_citation" else None,
        start=whole(wire.get(start)) if start else None,
        end=whole(wire.get(end)) if end else None,
    )
    if kind != "url_citation" or citation.url is None:
        citation = replace(citation, extra={API: {"type": kind}})
    held = residual(wire, _said_citation(citation))
    return replace(citation, extra=_filed(citation.extra, held)) if held else citation


def _decode_reasoning(wire: dict[str, Any], at: int, answer: bool, mint: Mint) -> list[tuple[int, Block]]:
    texts: list[str] = []
    summary = _measured(wire.get("summary") or [], "summary_text", texts)
    content = _measured(wire["content"], "reasoning_text", texts) if isinstance(wire.get("content"), list) else None
    text = "\n\n".join(texts)
    block = ThinkingBlock(thinking=text, thinking_signature=optional(wire.get("encrypted_content")))
    hints = {SUMMARY: summary} if content is None else {SUMMARY: summary, CONTENT: content}
    if content is not None or summary != ([len(text)] if text else []):
        block = replace(block, extra={API: hints})
    held = _held(wire, _said_reasoning(block), "reasoning", at, answer)
    return [(0, replace(block, extra=_filed(block.extra, held)))]


def _measured(parts: Any, kind: str, texts: list[str]) -> list[Any]:
    """How long the text of each part is, with what else the wire said of it; the texts are added to `texts`."""
    lengths: list[Any] = []
    for part in parts:
        text = string(part["text"])
        rest = residual(part, {"type": kind, "text": text})
        lengths.append([len(text), rest] if rest else len(text))
        texts.append(text)
    return lengths


def _decode_call(wire: dict[str, Any], at: int, answer: bool, mint: Mint) -> list[tuple[int, Block]]:
    id = optional(wire.get("call_id"))
    given = wire.get("arguments", "")
    hints: dict[str, Any] = {MINTED: True} if id is None else {}
    told: tuple[dict[str, Any], str | None, str | None]
    if wire["type"] == CUSTOM:
        told = {"input": string(wire["input"])}, None, None
        hints[FORM] = CUSTOM
    elif isinstance(given, dict):  # some servers
        told = given, None, None
    else:
        told = parse_arguments(string(given))
    block = ToolCall(
        id=mint(at) if id is None else id,
        name=string(wire["name"]),
        arguments=told[0],
        arguments_text=told[1],
        parse_error=told[2],
        extra={API: hints} if hints else {},
    )
    held = _held(wire, _said_call(block), wire["type"], at, answer)
    return [(0, replace(block, extra=_filed(block.extra, held)) if held else block)]


def _decode_server_call(wire: dict[str, Any], at: int, answer: bool, mint: Mint) -> list[tuple[int, Block]]:
    kind = wire["type"]
    if wire.get("execution") == "client":
        raise ValueError("a call for the client to run")
    name, key = SERVER_CALLS[kind]
    given = wire.get(key) if key else None
    if kind in AS_TEXT and given is not None:
        arguments, _, broken = parse_arguments(string(given))
        given = arguments if broken is None and given.strip() else given
    block = ServerToolCall(
        id=string(wire["id"]),
        name=string(wire["name"]) if name is None else name,
        arguments=given,
        extra={API: {"type": kind}},
    )
    held = residual(wire, _said_server_call(block, kind))
    return [(0, replace(block, extra=_filed(block.extra, held)))]


_ITEMS: dict[str, Callable[[dict[str, Any], int, bool, Mint], list[tuple[int, Block]]]] = {
    "message": _decode_message,
    "reasoning": _decode_reasoning,
    "function_call": _decode_call,
    CUSTOM: _decode_call,
    **dict.fromkeys(SERVER_CALLS, _decode_server_call),
}


# --- items of answers: ours to wire ----------------------------------------------------------------------------------


def encode_items(content: tuple[Block, ...], report: Reporter, *, answer: bool = False) -> list[Any]:
    """The items that say these blocks; of an `answer`, with all that answers say of items."""
    items: list[Any] = []
    message: dict[str, Any] | None = None  # the item of the words before, if words were before
    unfinished: list[tuple[dict[str, Any], Mapping[str, Any]]] = []
    for at, block in enumerate(content):
        report.block = at
        if isinstance(block, TextBlock):
            held = (block.extra.get(API) if block.extra else None) or _NO_HINTS
            if not answer and _is_string_said(block, held):
                message = None
                items.append(_easy_message(block, held, report))
                continue
            part = encode_said(block, report, answer=answer)
            if message is not None and held.get(JOINED):
                message["content"].append(part)
                continue
            message = _message_item(held, [part], len(items), answer)
            items.append(message)
            if PARTS in held.get(MESSAGE, ()) or held.get(MESSAGE, _NO_HINTS).get(STRING):
                unfinished.append((message, held[MESSAGE]))
            continue
        message = None
        item = encode_item(block, report, len(items), answer=answer)
        if item is not None:
            items.append(item)
    report.block = None
    for message, about in unfinished:
        _finish_message(message, about)
    return items


_NO_HINTS: Mapping[str, Any] = {}


def _is_string_said(block: TextBlock, held: Mapping[str, Any]) -> bool:
    """Whether words go into the input as a message with a string: such as have nothing but their text.

    A message item in parts is an answer's own: its type wants an id and a status, which only the provider can mint.
    """
    if block.refusal or block.citations:
        return False
    return not held or bool(held.get(MESSAGE, _NO_HINTS).get(STRING))


def _easy_message(block: TextBlock, held: Mapping[str, Any], report: Reporter) -> dict[str, Any]:
    if block.cache is not None:
        report.lost("cache", "answers cannot be marked", field="cache")
    wire: dict[str, Any] = {"role": "assistant", "content": block.text}
    if held:
        wire.update((name, held[name]) for name in _NAMES if name in held)
        wire = put_back(wire, held[MESSAGE])
    return wire


def encode_item(block: Block, report: Reporter, at: int, *, answer: bool = False) -> Any:
    """The item that says one block, no words, at place `at` of the output; or None (reported)."""
    held = block.extra.get(API) if block.extra else None
    match block:
        case ToolCall():
            wire = _said_call(block)
            kind = wire["type"]
        case ThinkingBlock():
            kind, wire = "reasoning", _said_reasoning(block)
        case ServerToolCall() if held and held.get("type") in SERVER_CALLS:
            if block.cache is not None:
                report.lost("cache", "answers cannot be marked", field="cache")
            kind, wire = "", _said_server_call(block, held["type"])
        case OpaqueBlock() if block.dialect == API:
            return block.value
        case _:
            report.lost(type(block).__name__, "an answer of this wire cannot hold such a block")
            return None
    if held:
        wire = put_back(wire, held)
    return _answered(wire, held or {}, kind, at) if answer else wire


def _answered(wire: dict[str, Any], held: Mapping[str, Any], kind: str, at: int) -> dict[str, Any]:
    for key, value in _usual(kind, at).items():
        wire.setdefault(key, value)
    rest = held.get(RESPONSE)
    return put_back(wire, rest) if rest else wire


def _message_item(held: Mapping[str, Any], parts: list[Any], at: int, answer: bool) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "message", "role": "assistant", "content": parts}
    if not held:
        return _answered(wire, {}, "message", at) if answer else wire
    wire.update((name, held[name]) for name in _NAMES if name in held)
    about = held.get(MESSAGE, {})
    wire = put_back(wire, about)
    return _answered(wire, about, "message", at) if answer else wire


def _finish_message(wire: dict[str, Any], about: Mapping[str, Any]) -> None:
    """What can only be said of a message item when all its words are there."""
    content = wire["content"]
    for place, part in about.get(PARTS, ()):
        content.insert(place, part)
    if about.get(STRING) and len(content) == 1 and content[0] == {**_PLAIN, "text": content[0].get("text")}:
        wire["content"] = content[0]["text"]


_PLAIN = {"type": "output_text", "annotations": [], "logprobs": []}


def encode_said(block: TextBlock, report: Reporter, *, answer: bool = False) -> dict[str, Any]:
    """Words of an answer, as a part of a message item."""
    if block.cache is not None:
        report.lost("cache", "answers cannot be marked", field="cache")
    wire = _said_part(block, report)
    held = block.extra.get(API) if block.extra else None
    if held:
        wire = put_back(wire, {key: value for key, value in held.items() if key not in _NAMES})
    return _answered(wire, held or {}, wire.get("type", ""), 0) if answer else wire


def _said_part(block: TextBlock, report: Reporter) -> dict[str, Any]:
    if block.refusal:
        if block.citations:
            report.lost("citations", "a refusal cites nothing", field="citations")
        return {"type": "refusal", "refusal": block.text}
    noted = _encode_citations(block.citations, report) if block.citations else []
    return {"type": "output_text", "text": block.text, "annotations": noted}


def _encode_citations(citations: tuple[Citation, ...], report: Reporter) -> list[Any]:
    said = [c for c in citations if c.url is not None or "type" in c.extra.get(API, ())]
    if len(said) < len(citations):
        report.lost("citations", "only a URL can be cited", field="citations")
    return [restored(_said_citation(citation), citation.extra, API) for citation in said]


def _said_citation(citation: Citation) -> dict[str, Any]:
    kind = citation.extra.get(API, {}).get("type", "url_citation") if citation.extra else "url_citation"
    wire: dict[str, Any] = {"type": kind}
    if kind == "url_citation" and citation.url is not None:
        wire["url"] = citation.url
    values = (citation.title, citation.start, citation.end)
    told = zip(CITATIONS.get(kind, ()), values, strict=False)
    wire.update((key, value) for key, value in told if key is not None and value is not None)
    return wire


def _said_call(block: ToolCall) -> dict[str, Any]:
    held = block.extra.get(API) if block.extra else None
    if held and _is_custom(block):
        wire = {"type": CUSTOM, "call_id": block.id, "name": block.name, "input": block.arguments["input"]}
    else:
        wire = {"type": "function_call", "call_id": block.id, "name": block.name, "arguments": arguments_text(block)}
    if held and held.get(MINTED):
        del wire["call_id"]
    return wire


def _is_custom(call: ToolCall) -> bool:
    if call.extra.get(API, {}).get(FORM) != CUSTOM:
        return False
    return call.arguments.keys() == {"input"} and isinstance(call.arguments["input"], str)


def _said_server_call(block: ServerToolCall, kind: str) -> dict[str, Any]:
    name, key = SERVER_CALLS[kind]
    wire: dict[str, Any] = {"type": kind, "id": block.id}
    if name is None:
        wire["name"] = block.name
    if key is not None and block.arguments is not None:
        spelled = kind in AS_TEXT and not isinstance(block.arguments, str)
        wire[key] = jsontext.compact(block.arguments) if spelled else block.arguments
    return wire


def _said_reasoning(block: ThinkingBlock) -> dict[str, Any]:
    summary, content = _reasoning_parts(block)
    wire: dict[str, Any] = {"type": "reasoning", "summary": summary}
    if content is not None:
        wire["content"] = content
    if block.thinking_signature is not None:
        wire["encrypted_content"] = block.thinking_signature
    return wire


def _reasoning_parts(block: ThinkingBlock) -> tuple[list[Any], list[Any] | None]:
    """The text in the parts in which it came, as long as it still has their lengths; else in one."""
    held = block.extra.get(API, {}) if block.extra else {}
    if SUMMARY not in held:
        return ([{"type": "summary_text", "text": block.thinking}] if block.thinking else []), None
    summary, content = held[SUMMARY], held.get(CONTENT)
    texts = _cut(block.thinking, [*summary, *(content or ())])
    if texts is None:
        if content and not summary:
            return [], [{"type": "reasoning_text", "text": block.thinking}]
        return [{"type": "summary_text", "text": block.thinking}], None if content is None else []
    said = _parts_said(texts, summary, "summary_text")
    return said, None if content is None else _parts_said(texts[len(summary) :], content, "reasoning_text")


def _cut(text: str, lengths: list[Any]) -> list[str] | None:
    """The inverse of joining with blank lines; None if these are not the lengths."""
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


def _parts_said(texts: list[str], lengths: list[Any], kind: str) -> list[Any]:
    said = []
    for text, length in zip(texts, lengths, strict=False):
        part = {"type": kind, "text": text}
        said.append(part if isinstance(length, int) else put_back(part, length[1]))
    return said


# --- messages --------------------------------------------------------------------------------------------------------


def decode_messages(wire: list[Any], api: str = API, first: int = 0) -> tuple[Message, ...]:
    """Items of input as messages: all that a model said between two items of the client is one answer.

    `api` is who minted the answers, `first` the place of the first item that is no system prompt.
    """
    said: list[Message] = []
    calls: dict[str, ToolCall] = {}  # by either id; a repeated one means the latest call
    answer: list[tuple[int, dict[str, Any]]] = []
    for at in range(first, len(wire)):
        item = an_object(wire[at], API, f"$.input[{at}]")
        if _is_answers(item):
            answer.append((at, item))
            continue
        if answer:
            said.append(_decode_answer_items(answer, api, calls))
            answer = []
        said.append(_decode_input_item(item, calls))
    if answer:
        said.append(_decode_answer_items(answer, api, calls))
    return tuple(said)


def _is_answers(item: Any) -> bool:
    """Whether an item is a model's: what it said, called or thought."""
    if not isinstance(item, dict):
        return True
    kind = _kind(item)
    if kind == "message":
        return item.get("role") == "assistant" or not isinstance(item.get("role"), str)
    if kind == "tool_search_output":
        return item.get("execution") != "client"
    return kind not in CLIENTS and kind not in RESULTS


def _decode_input_item(item: dict[str, Any], calls: Mapping[str, ToolCall]) -> Message:
    try:
        if _kind(item) == "message":
            return _decode_input_message(item)
        if item["type"] in RESULTS:
            return _decode_result(item, calls)
    except (KeyError, TypeError, ValueError):
        pass
    return UserMessage(content=(OpaqueBlock(dialect=API, value=item),), extra={API: {ITEM: True}})


def _decode_input_message(item: dict[str, Any]) -> Message:
    role = item["role"]
    if role == "user":
        user = UserMessage(content=_decode_content(item.get("content")))
        return keeping(user, API, item, _said_message(role, user.content, QUIET))
    if role == "system" or role == "developer":
        system = SystemMessage(content=_decode_content(item.get("content")), developer=role == "developer")
        return keeping(system, API, item, _said_message(role, system.content, QUIET))
    return CustomMessage(role, {k: v for k, v in item.items() if k != "role"})  # type: ignore[return-value]


def _decode_result(item: dict[str, Any], calls: Mapping[str, ToolCall]) -> ToolResultMessage:
    id = string(item["call_id"])
    call = calls.get(id)
    result = ToolResultMessage(
        tool_call_id=id,
        tool_name=None if call is None else call.name,
        content=_decode_content(item.get("output")),
        is_error=False,
    )
    return keeping(result, API, item, _said_result(result, call, QUIET))


def _decode_answer_items(
    items: list[tuple[int, dict[str, Any]]], api: str, calls: dict[str, ToolCall]
) -> AssistantMessage:
    if len(items) == 1 and _is_bare(items[0][1]):
        item = items[0][1]
        content = item.get("content")
        bare = AssistantMessage(content=() if content == [] else content, api=api)
        return keeping(bare, API, item, _said_bare(bare))
    blocks = tuple(block for at, item in items for _, block in decode_item(item, at))
    for block in blocks:
        if isinstance(block, ToolCall):
            _note_call(block, calls)
    return AssistantMessage(content=blocks, api=api)


def _is_bare(item: Mapping[str, Any]) -> bool:
    """Whether an item alone is an answer without blocks: nothing, or a string in a message that names its type."""
    content = item.get("content")
    if isinstance(content, str):
        return item.get("type") == "message"
    return _kind(item) == "message" and (content is None or content == [])


def _said_bare(message: AssistantMessage) -> dict[str, Any]:
    if isinstance(message.content, str):
        return {"type": "message", "role": "assistant", "content": message.content}
    return {"role": "assistant", "content": None if message.content is None else []}


def _note_call(call: ToolCall, calls: dict[str, ToolCall]) -> None:
    calls[call.id] = call
    item = call.extra.get(API, {}).get("id") if call.extra else None
    if isinstance(item, str):
        calls[item] = call


def encode_messages(messages: tuple[Message, ...], report: Reporter) -> list[Any]:
    """Our messages as items of input."""
    said: list[Any] = []
    calls: dict[str, ToolCall] = {}
    before: Message | None = None
    joined = False
    for at, message in enumerate(messages):
        report.message = at
        match message:
            case UserMessage():
                said.append(_encode_user(message, report))
            case AssistantMessage():
                joined = joined or isinstance(before, AssistantMessage)
                _say_answer(said, message, calls, report)
            case ToolResultMessage():
                said.append(_encode_result(message, calls.get(message.tool_call_id), report))
            case SystemMessage():
                wire = _said_message("developer" if message.developer else "system", message.content, report)
                said.append(restored(wire, message.extra, API) if message.extra else wire)
            case CustomMessage():
                said.append({"role": message.role, **message.fields})
        before = message
    if joined:
        report.at("$.messages", "message", "answers in a row are one on this wire", "weakened")
    return said


def _said_message(role: str, content: Content, report: Reporter) -> dict[str, Any]:
    return {"role": role, "content": _encode_content(content, report)}


def _encode_user(message: UserMessage, report: Reporter) -> Any:
    wire = _said_message("user", message.content, report)
    if not message.extra:
        return wire
    held = message.extra.get(API, {})
    if held.get(ITEM) and isinstance(message.content, tuple) and len(message.content) == 1:
        block = message.content[0]
        if isinstance(block, OpaqueBlock) and block.dialect == API:
            return block.value
    return put_back(wire, held)


def _encode_result(result: ToolResultMessage, call: ToolCall | None, report: Reporter) -> dict[str, Any]:
    if result.tool_name is not None and (call is None or call.name != result.tool_name):
        report.lost("tool_name", "the wire knows only the name of the call", "record", field="toolName")
    if result.is_error:
        report.lost("is_error", "an error is said in the words of the result", "weakened", field="isError")
    wire = _said_result(result, call, report)
    return restored(wire, result.extra, API) if result.extra else wire


def _said_result(result: ToolResultMessage, call: ToolCall | None, report: Reporter) -> dict[str, Any]:
    custom = call is not None and bool(call.extra) and _is_custom(call)
    wire: dict[str, Any] = {"type": RESULTS[custom], "call_id": result.tool_call_id}
    if result.content is not None:
        wire["output"] = _encode_content(result.content, report)
    return wire


def _say_answer(said: list[Any], message: AssistantMessage, calls: dict[str, ToolCall], report: Reporter) -> None:
    content = message.content
    items: list[Any] = []
    if content is not None and not isinstance(content, str):
        items = encode_items(content, report)
        for block in content:
            if isinstance(block, ToolCall):
                _note_call(block, calls)
            elif isinstance(block, OpaqueBlock) and block.dialect == API and not _is_answers(block.value):
                report.at("$.messages", "message", "an item of the client's ends the answer", "weakened")
    if items:
        if len(items) == 1 and isinstance(items[0], dict) and _is_bare(items[0]) and isinstance(content, tuple):
            items[0].pop("type", None)  # else it would be read as an answer without blocks
        said += items
        if message.extra and any(not key.startswith(HINTS) for key in message.extra.get(API, ())):
            report.lost("extra", "an answer of several items has no place for it", field=f"extra.{API}")
    else:
        wire = _said_bare(message)
        said.append(restored(wire, message.extra, API) if message.extra else wire)


# --- requests --------------------------------------------------------------------------------------------------------


@reading(API)
def decode_request(
    body: Any,
    *,
    model: str | ModelDescriptor | None = None,
    stream: bool | None = None,
    quirks: Mapping[str, Any] | None = None,
) -> Request:
    """A Responses request. `model` and `stream` are for callers that say them outside the body."""
    wire = an_object(body_of(body, API), API)
    context, hints = _decode_context(wire, api_of(quirks, API))
    text = wire.get("text")
    if isinstance(text, dict):
        rest = {key: value for key, value in text.items() if key != "format" or _decode_schema(text) is None}
        if rest or not text:
            hints[TEXT] = rest
    request = Request(
        model=model_of(wire.get("model"), model, api_of(quirks, API)),
        context=context,
        options=_decode_options(wire, stream),
        extra={API: hints} if hints else {},
    )
    # Items keep their own residuals, one by one.
    said = _encode_body(request, [], QUIET)
    held = residual({**wire, "input": []} if "input" in wire else wire, said)
    return replace(request, extra=_filed(request.extra, held)) if held else request


def _decode_context(wire: dict[str, Any], api: str) -> tuple[Context, dict[str, Any]]:
    given = wire.get("input", [])
    tools = _decode_tools(wire.get("tools"))
    system: System = optional(wire.get("instructions"))
    if isinstance(given, str):
        return Context(system=system, messages=(UserMessage(content=given),), tools=tools), {INPUT: True}
    if not isinstance(given, list):
        raise BadWire(API, f"expected text or a list of items, got {type(given).__name__}", "$.input")
    if system is not None or not given or not _is_prompt(given[0]):
        return Context(system=system, messages=decode_messages(given, api), tools=tools), {}
    # Without instructions, the first system message is the system prompt.
    role = given[0]["role"]
    content = _decode_content(given[0]["content"])
    held = residual(given[0], _said_message(role, content, QUIET))
    context = Context(
        system=content,  # type: ignore[arg-type]
        messages=decode_messages(given, api, 1),
        tools=tools,
        system_role=_prompt_role(given[0]),
        extra={API: {MESSAGE: held}} if held else {},
    )
    return context, {}


def _prompt_role(item: Mapping[str, Any]) -> str | None:
    """The role of a system prompt; of one in parts, which is always a message, only if it is not the usual one."""
    role: str = item["role"]
    return None if role == "system" and isinstance(item["content"], list) else role


def _is_prompt(item: Any) -> bool:
    """Whether an item can be the system prompt: a system message of words alone."""
    if not isinstance(item, dict) or _kind(item) != "message" or item.get("role") not in ("system", "developer"):
        return False
    content = item.get("content")
    if isinstance(content, list):
        return all(isinstance(part, dict) and isinstance(decode_part(part), TextBlock) for part in content)
    return isinstance(content, str)


def _decode_tools(wire: Any) -> tuple[ToolSpec, ...] | None:
    if not isinstance(wire, list):
        return None
    return tuple(_decode_tool(an_object(tool, API, f"$.tools[{at}]")) for at, tool in enumerate(wire))


def _decode_tool(wire: dict[str, Any]) -> ToolSpec:
    name, kind = wire.get("name"), wire.get("type")
    if kind != "function" or not isinstance(name, str):
        return ToolSpec(name=name if isinstance(name, str) else str(kind), dialect=API, value=wire)
    tool = ToolSpec(
        name=name,
        description=optional(wire.get("description")),
        input_schema=wire.get("parameters"),
        strict=flag(wire.get("strict")),
    )
    return keeping(tool, API, wire, _encode_tool(tool))


def _decode_options(wire: dict[str, Any], stream: bool | None) -> Options:
    metadata = wire.get("metadata")
    retention = wire.get("prompt_cache_retention")
    return Options(
        max_tokens=whole(wire.get("max_output_tokens")),
        temperature=number(wire.get("temperature")),
        top_p=number(wire.get("top_p")),
        reasoning=_decode_effort(wire.get("reasoning")),
        tool_choice=_decode_choice(wire.get("tool_choice")),
        parallel_tools=flag(wire.get("parallel_tool_calls")),
        output_schema=_decode_schema(wire.get("text")),
        cache_retention=RETENTIONS.get(retention) if isinstance(retention, str) else None,
        session_id=optional(wire.get("prompt_cache_key")),
        service_tier=optional(wire.get("service_tier")),
        metadata=metadata if isinstance(metadata, dict) else None,
        stream=wire["stream"] if isinstance(wire.get("stream"), bool) else stream,
    )


def _decode_effort(wire: Any) -> Reasoning | None:
    if not isinstance(wire, dict):
        return None
    effort = optional(wire.get("effort"))
    off = effort == "none"
    return Reasoning(
        effort=None if off else effort, enabled=False if off else None, summary=optional(wire.get("summary"))
    )


def _decode_choice(wire: Any) -> ToolChoice | None:
    if wire in ("auto", "none", "required"):
        return ToolChoice(mode=wire)
    if not isinstance(wire, dict):
        return None
    match wire.get("type"):
        case "function" if isinstance(wire.get("name"), str):
            return ToolChoice(mode="required", names=(wire["name"],))
        case "allowed_tools" if wire.get("mode") in ("auto", "required"):
            names = _decode_allowed(wire.get("tools"))
            if names is None:
                return None
            choice = ToolChoice(mode=wire["mode"], names=names)
            return choice if _is_list(choice) else replace(choice, extra={API: {FORM: "allowed_tools"}})
        case _:
            return None


def _decode_allowed(tools: Any) -> tuple[str, ...] | None:
    """The names of the allowed tools, if all are functions and nothing else is said of them."""
    if not isinstance(tools, list):
        return None
    for tool in tools:
        if not isinstance(tool, dict) or tool.keys() != {"type", "name"} or tool["type"] != "function":
            return None
        if not isinstance(tool["name"], str):
            return None
    return tuple(tool["name"] for tool in tools)


def _decode_schema(text: Any) -> OutputSchema | None:
    given = text.get("format") if isinstance(text, dict) else None
    if not isinstance(given, dict):
        return None
    if given.get("type") == "json_object":
        return OutputSchema()
    if given.get("type") != "json_schema" or given.get("schema") is None:
        return None
    return OutputSchema(
        schema=given["schema"],
        name=optional(given.get("name")),
        description=optional(given.get("description")),
        strict=flag(given.get("strict")),
    )


def encode_request(request: Request, *, strict: bool = False, quirks: Mapping[str, Any] | None = None) -> Encoded:
    """The body of a Responses request."""
    report = Reporter()
    context = request.context
    items: list[Any] = []
    if context.system is not None and _is_item(context):
        items.append(_encode_prompt(context, report))
    said = encode_messages(context.messages, report)
    if context.system is None and said and _is_prompt(said[0]):
        report.at("$.system", "system", "the first system message is the system prompt on this wire", "weakened")
        report.at("$.messages[0]", "message", "the first system message is the system prompt on this wire", "weakened")
        if context.system_role != _prompt_role(said[0]):
            report.at("$.systemRole", "system_role", "it is that of the first system message", "weakened")
    elif context.system is None and context.system_role is not None:
        report.at("$.systemRole", "system_role", "there is no system prompt", "record")
    body = _encode_body(request, [*items, *said] if items else said, report)
    body = restored(body, request.extra, API) if request.extra else body
    return encoded(API, body, request, FATES, report.losses, strict=strict, spoken=api_of(quirks, API))


def _is_item(context: Context) -> bool:
    """Whether the system prompt is a message, and not the instructions, which are a string and have no role."""
    return context.system_role is not None or not isinstance(context.system, str)


def _encode_prompt(context: Context, report: Reporter) -> dict[str, Any]:
    report.root = SYSTEM
    wire = _said_message(context.system_role or "system", context.system, report)
    report.root = ""
    if context.system_role is not None and context.system_role != _prompt_role(wire):
        report.at("$.systemRole", "system_role", "blocks are always said in a system message", "record")
    return put_back(wire, context.extra.get(API, {}).get(MESSAGE, {})) if context.extra else wire


def _encode_body(request: Request, items: list[Any], report: Reporter) -> dict[str, Any]:
    """The body, but for what the request holds of it."""
    context, options = request.context, request.options
    held = request.extra.get(API, {}) if request.extra else {}
    body: dict[str, Any] = {}
    if request.model.id:
        body["model"] = request.model.id
    if context.system is not None and not _is_item(context):
        body["instructions"] = context.system
    body["input"] = items[0]["content"] if held.get(INPUT) and _is_string(items) else items
    if context.tools is not None:
        body["tools"] = say_tools(context.tools, API, _encode_tool, report)
    if options.tool_choice is not None:
        body["tool_choice"] = _encode_choice(options.tool_choice, report)
    if options.parallel_tools is not None:
        body["parallel_tool_calls"] = options.parallel_tools
    if options.max_tokens is not None:
        body["max_output_tokens"] = options.max_tokens
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if options.top_p is not None:
        body["top_p"] = options.top_p
    if options.reasoning is not None:
        body["reasoning"] = _encode_effort(options.reasoning, report)
    if options.output_schema is not None or TEXT in held:
        body["text"] = dict(held.get(TEXT, {}))
        if options.output_schema is not None:
            body["text"]["format"] = _encode_schema(options.output_schema, report)
    _encode_service(body, options, report)
    return body


def _is_string(items: list[Any]) -> bool:
    """Whether the input is nothing but words of the user."""
    if len(items) != 1 or not isinstance(items[0], dict) or items[0].keys() != {"role", "content"}:
        return False
    return items[0]["role"] == "user" and isinstance(items[0]["content"], str)


def _encode_service(body: dict[str, Any], options: Options, report: Reporter) -> None:
    if options.metadata is not None:
        body["metadata"] = options.metadata
    if options.session_id is not None:
        body["prompt_cache_key"] = options.session_id
    if options.cache_retention == "none":
        report.at("$.options.cacheRetention", "cache_retention", "the cache cannot be switched off", "weakened")
    elif options.cache_retention is not None:
        body["prompt_cache_retention"] = SAID_RETENTIONS[options.cache_retention]
    if options.service_tier is not None:
        body["service_tier"] = options.service_tier
    if options.stream is not None:
        body["stream"] = options.stream


def _encode_tool(spec: ToolSpec) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "function", "name": spec.name}
    if spec.description is not None:
        wire["description"] = spec.description
    wire["parameters"] = spec.input_schema
    wire["strict"] = spec.strict  # left out, it would mean true
    return restored(wire, spec.extra, API) if spec.extra else wire


def _encode_choice(choice: ToolChoice, report: Reporter) -> Any:
    if choice.mode == "none" and choice.names:
        report.at("$.options.toolChoice.names", "tool_choice", "no tool at all cannot be narrowed", "weakened")
    elif _is_list(choice) or choice.extra.get(API, {}).get(FORM) == "allowed_tools":
        tools = [{"type": "function", "name": name} for name in choice.names]
        return {"type": "allowed_tools", "mode": choice.mode, "tools": tools}
    elif choice.names:
        return {"type": "function", "name": choice.names[0]}
    return choice.mode


def _is_list(choice: ToolChoice) -> bool:
    """Whether only a list of allowed tools says this choice."""
    return len(choice.names) > 1 or (choice.mode == "auto" and bool(choice.names))


def _encode_effort(reasoning: Reasoning, report: Reporter) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    if reasoning.enabled is False:
        wire["effort"] = "none"
        if reasoning.effort is not None:
            report.at("$.options.reasoning.effort", "effort", "reasoning is off", "record")
    elif reasoning.effort is not None:
        wire["effort"] = reasoning.effort
        if reasoning.effort == "none":
            report.at("$.options.reasoning", "reasoning", "no effort is reasoning switched off", "record")
    if reasoning.enabled:
        report.at("$.options.reasoning.enabled", "enabled", "models that reason do so unless told otherwise", "record")
    if reasoning.summary is not None:
        wire["summary"] = reasoning.summary
    return wire


def _encode_schema(schema: OutputSchema, report: Reporter) -> dict[str, Any]:
    told = {"name": schema.name, "description": schema.description, "strict": schema.strict}
    told = {key: value for key, value in told.items() if value is not None}
    if schema.schema is not None:
        return {"type": "json_schema", **told, "schema": schema.schema}
    for key in told:
        report.at(f"$.options.outputSchema.{key}", key, "said of a schema, and there is none")
    return {"type": "json_object"}


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
    if "output" not in wire and (wire.get("type") == "error" or (wire.get("error") and "status" not in wire)):
        raise decode_error(0, wire)
    base = AssistantMessage(content=(), api=api_of(quirks, API), provider=provider, model=model, timestamp=timestamp)
    output = wire.get("output", [])
    if not isinstance(output, list):
        raise BadWire(API, f"expected a list of items, got {type(output).__name__}", "$.output")
    items = (an_object(item, API, f"$.output[{at}]") for at, item in enumerate(output))
    content = tuple(block for at, item in enumerate(items) for _, block in decode_item(item, at, answer=True))
    return _decode_answer({**wire, "output": []} if "output" in wire else wire, content, base)


def _decode_answer(wire: dict[str, Any], content: tuple[Block, ...], base: AssistantMessage) -> AssistantMessage:
    """The message whose envelope is `wire` and whose content is read already."""
    word = _stop_word(wire)
    reason = _reason(word, wire.get("status"), content)
    error = wire.get("error")
    told = optional(error.get("message")) if isinstance(error, dict) else None
    failed = reason in ("error", "aborted")
    message = replace(
        base,
        content=content,
        **_decode_envelope(wire, base),
        stop_reason=reason,
        stop_detail=word,
        error_message=_explained(word, content) if told is None and failed else told,
    )
    said = _encode_answer(message, [], QUIET)
    held = residual(wire, said)
    created = wire.get("created_at")
    if isinstance(created, float) and created == said["created_at"]:  # equal, but spelled otherwise
        held.setdefault(HINTS, {})["created_at"] = {"said": said["created_at"], "wire": created}
    return with_held(message, API, **{RESPONSE: held}) if held else message


def _decode_envelope(wire: Mapping[str, Any], base: AssistantMessage) -> dict[str, Any]:
    named = optional(wire.get("model")) or None
    return {
        "response_id": optional(wire.get("id")) or None,
        "model": base.model or named,
        "response_model": named if base.model and named != base.model else None,
        "timestamp": base.timestamp if base.timestamp is not None else _decode_time(wire.get("created_at")),
        "usage": _decode_usage(wire.get("usage")),
    }


def _decode_time(seconds: Any) -> int | None:
    told = number(seconds)
    return round(told * 1000) if told else None


def _encode_time(timestamp: int | None) -> int | float:
    if timestamp is None:
        return 0
    return timestamp / 1000 if timestamp % 1000 else timestamp // 1000


def _stop_word(wire: Mapping[str, Any]) -> str | None:
    """The reason of an incomplete answer, else the status."""
    status, details = optional(wire.get("status")), wire.get("incomplete_details")
    reason = optional(details.get("reason")) if isinstance(details, dict) and status == "incomplete" else None
    return reason or status


def _reason(word: str | None, status: Any, content: tuple[Block, ...]) -> StopReason:
    known = STOP_REASONS.get(word or "", "length" if status == "incomplete" else None)
    if known in (None, "stop") and any(isinstance(block, TextBlock) and block.refusal for block in content):
        return "error"
    return settle(known, content)


def _explained(word: str | None, content: tuple[Block, ...]) -> str:
    refused = "".join(block.text for block in content if isinstance(block, TextBlock) and block.refusal)
    return f"the model refused: {refused}" if refused else f"the provider stopped: {word or 'no reason given'}"


def _decode_usage(wire: Any) -> Usage | None:
    if not isinstance(wire, dict):
        return None
    given, made = wire.get("input_tokens_details"), wire.get("output_tokens_details")
    given = given if isinstance(given, dict) else {}
    read, written = count(given, "cached_tokens"), count(given, "cache_write_tokens")
    price = number(wire.get("cost"))
    usage = Usage.of(
        max(count(wire, "input_tokens") - read - written, 0),
        count(wire, "output_tokens"),
        cache_read=read,
        cache_write=written,
        total_tokens=whole(wire.get("total_tokens")),
        reasoning=whole(made.get("reasoning_tokens")) if isinstance(made, dict) else None,
        cost=None if price is None else Cost(total=price),
    )
    return keeping(usage, API, wire, _encode_usage(usage) or {})


def _encode_usage(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    wire = {
        "input_tokens": usage.input + usage.cache_read + usage.cache_write,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": usage.total_tokens,
    }
    if usage.cost is not None:
        wire["cost"] = usage.cost.total  # as OpenRouter says it
    return restored(wire, usage.extra, API) if usage.extra else wire


def encode_response(message: AssistantMessage, *, quirks: Mapping[str, Any] | None = None) -> Encoded:
    """The body of a whole answer."""
    report = Reporter("$")
    output = encode_items(blocks_of(message.content), report, answer=True)
    body = _answer_said(message, output, report)
    return encoded(API, body, message, ANSWER_FATES, report.losses, spoken=api_of(quirks, API))


def _answer_said(message: AssistantMessage, output: list[Any], report: Reporter) -> dict[str, Any]:
    body = _encode_answer(message, output, report)
    held = message.extra.get(API, {}) if message.extra else {}
    if any(not key.startswith(HINTS) for key in held):
        report.at(f"$.extra.{API}", "extra", "held of a request's message, not of an answer", "record")
    return put_back(body, held[RESPONSE]) if RESPONSE in held else body


def _encode_answer(message: AssistantMessage, output: list[Any], report: Reporter) -> dict[str, Any]:
    """The envelope. It has what the wire's answers always have; settings that are not known are their defaults."""
    content = blocks_of(message.content)
    word = _said_word(message, content)
    if report is not QUIET:
        _report_envelope(message, word, content, report)
    explained = message.stop_reason in ("error", "aborted") and message.error_message == _explained(word, content)
    error = None if message.error_message is None or explained else message.error_message
    return {
        "id": message.response_id or "",
        "object": "response",
        "created_at": _encode_time(message.timestamp),
        "status": _status(word),
        "error": None if error is None else {"code": "server_error", "message": error},
        "incomplete_details": {"reason": word} if word in REASONS else None,
        "instructions": None,
        "metadata": {},
        "model": message.response_model or message.model or "",
        "output": output,
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": _encode_usage(message.usage),
    }


def _status(word: str) -> str:
    return "incomplete" if word in REASONS else word


def _said_word(message: AssistantMessage, content: tuple[Block, ...]) -> str:
    word = message.stop_detail
    if word in STOP_REASONS and _reason(word, None, content) == message.stop_reason:
        return word
    return SAID_STOPS.get(message.stop_reason or "", "completed")


def _report_envelope(message: AssistantMessage, word: str, content: tuple[Block, ...], report: Reporter) -> None:
    """What will be read back otherwise than it is."""
    reason = _reason(word, None, content)
    if reason != message.stop_reason:
        report.at("$.stopReason", "stop_reason", f"read back as {reason}", "weakened")
    if word != message.stop_detail:
        report.at("$.stopDetail", "stop_detail", f"this wire's word is {word}", "record")
    if message.error_message is None and reason in ("error", "aborted"):
        report.at("$.errorMessage", "error_message", "the wire's own words take its place", "record")
    if message.timestamp is not None and _decode_time(_encode_time(message.timestamp)) != message.timestamp:
        report.at("$.timestamp", "timestamp", "not a time that this wire can say", "record")
    if message.response_model and message.response_model != message.model:
        report.at("$.model", "model", "the wire names only the model that answered", "record")
        report.at("$.responseModel", "response_model", "the wire names only the model that answered", "record")
    if message.usage is not None and message.usage.reasoning is None:
        report.at("$.usage.reasoning", "reasoning", "always counted on this wire", "record")
    if message.content is None or isinstance(message.content, str):
        report.at("$.content", "content", "answers are lists of items", "record")


ANSWER_FATES: Fates = {
    **FATES,
    **kept("AssistantMessage.usage AssistantMessage.response_id AssistantMessage.timestamp AssistantMessage.content"),
    **some(
        "AssistantMessage.stop_reason AssistantMessage.stop_detail AssistantMessage.error_message",
        "said in the words of the wire",
    ),
    **some("AssistantMessage.model AssistantMessage.response_model", "the wire names only the model that answered"),
    **kept("Usage.cost Cost.total"),
    **record("Cost.input Cost.output Cost.cache_read Cost.cache_write", "the wire has only the total"),
}


# --- streams: wire to ours -------------------------------------------------------------------------------------------


def framing(content_type: str | None = None) -> SSE:
    return SSE()


class _Item:
    """An item of a stream: what the wire said of it, and which blocks are open for its parts."""

    __slots__ = ("at", "done", "keys", "kind", "notes", "parts", "pieces", "wire")

    def __init__(self, wire: dict[str, Any], at: int) -> None:
        self.wire = wire
        self.at = at
        self.kind = _kind(wire)
        self.done = False
        self.keys: dict[int, tuple[int, int]] = {}  # place of a part -> key of its block
        self.parts: dict[int, dict[str, Any]] = {}  # parts of a message, as far as the wire told them
        self.notes: dict[int, list[Any]] = {}  # annotations that came one by one
        self.pieces: dict[tuple[str, int], list[str]] = {}  # parts of reasoning


class StreamDecoder(Decoder):
    """Frames of a streamed answer to events."""

    API = API

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._shell: dict[str, Any] = {}  # the wire's response, without its output
        self._items: list[_Item] = []
        self._places: dict[Any, _Item] = {}  # by output index; ids may change from event to event at some hosts
        self._ids: dict[str, _Item] = {}
        # The delta that is most likely next: another of the same kind at the same place.
        self._same = ("", None, "", None)
        self._key: Any = None
        self._pieces: list[str] | None = None

    def _read(self, value: Any, frame: Frame) -> None:
        get = value.get
        kind = get("type")
        likely, index, field, place = self._same
        if kind == likely and get("output_index") == index and get(field) == place:
            delta = value["delta"]
            if delta.__class__ is str:
                self._record.delta(self._key, delta)
                if self._pieces is not None:
                    self._pieces.append(delta)
                return
        if kind is None:
            kind = "error" if "error" in value else frame.event
        handle = _HANDLERS.get(kind)
        if handle is not None:
            self._same = ("", None, "", None)
            handle(self, value)

    def _unreadable(self, frame: Frame, error: FormatError) -> None:
        if frame.data.strip() != b"[DONE]":
            super()._unreadable(frame, error)

    def _complete(self) -> bool:
        return False  # an answer has a terminal event

    # What the answer is.

    def _began(self, event: dict[str, Any]) -> None:
        response = event.get("response")
        if isinstance(response, dict):
            self._shell.update(response)
        if not self._record.started:
            self._record.note(**_decode_envelope(self._shell, self._given))
            self._record.begin()

    def _ended(self, event: dict[str, Any]) -> None:
        response = event.get("response")
        response = response if isinstance(response, dict) else {}
        if response.get("status") is None and event["type"] in _ENDS:
            response = {**response, "status": _ENDS[event["type"]]}
        self._shell.update(response)
        if isinstance(response.get("output"), list):
            self._fill(response["output"])
        self._finish()

    def _failed(self, event: dict[str, Any]) -> None:
        """An error event. That it is followed by a failed response tells nothing new: the first one ends the stream."""
        error = decode_error(0, event)
        self._shell.update(status="failed", error={"code": error.code, "message": error.message})
        self._finish()

    def _finish(self) -> None:
        self._close_blocks()
        content = tuple(self._record.content)
        self._record.end(_decode_answer({**self._shell, "output": []}, content, self._given))

    # Items.

    def _added(self, event: dict[str, Any]) -> None:
        wire = event.get("item")
        if not isinstance(wire, dict):  # some hosts announce an item before there is one
            return
        index, id = event.get("output_index"), optional(wire.get("id"))
        item = self._find(index, id, _kind(wire))
        if item is None or (id is not None and item.wire.get("id", id) != id):
            self._open(wire, index)
        elif not item.done:
            item.wire = {**item.wire, **wire}

    def _find(self, index: Any, id: str | None, kind: str) -> _Item | None:
        """The item of this kind that an event is about: by its id, or else, as ids change at some hosts, its index."""
        item = self._ids.get(id) if id is not None else None
        if item is not None and item.kind == kind:
            return item
        item = self._places.get(index)
        if item is None or item.kind != kind or (item.done and id is not None and item.wire.get("id", id) != id):
            return None
        return item

    def _open(self, wire: dict[str, Any], index: Any) -> _Item:
        item = self._new(wire, index)
        block: Block | None
        if item.kind == "message":
            block = None  # opened by its parts
        elif item.kind in ("function_call", CUSTOM):
            block = _opening_call(wire, self._minted(item.at))
        elif item.kind == "reasoning":
            block = ThinkingBlock(thinking="", extra=_opening_extra(wire, "id"))
        else:
            block = OpaqueBlock(dialect=API, value=wire)
        if block is not None:
            self._record.open(self._keyed(item, 0), block)
        return item

    def _minted(self, at: int) -> str:
        return str((self._mint or "call_{}".format)(at))

    def _keyed(self, item: _Item, place: int) -> tuple[int, int]:
        key = item.keys[place] = (id(item), place)
        return key

    def _place(self, event: Mapping[str, Any], kind: str) -> _Item | None:
        """The item that an event is about; one that was not announced is opened. None for an event that comes late."""
        index, id = event.get("output_index"), optional(event.get("item_id"))
        if index is None and id is None and self._items and self._items[-1].kind == kind:
            item: _Item | None = self._items[-1]
        else:
            item = self._find(index, id, kind)
        if item is None:
            return self._open({"type": kind} if id is None else {"type": kind, "id": id}, index)
        return None if item.done else item

    def _done(self, event: dict[str, Any]) -> None:
        wire, index = event.get("item"), event.get("output_index")
        if isinstance(wire, dict):
            item = self._find(index, optional(wire.get("id")), _kind(wire))
            self._close(self._new(wire, index) if item is None else item, wire)

    def _new(self, wire: dict[str, Any], index: Any) -> _Item:
        """An item of which no block is open yet."""
        item = _Item(wire, index if isinstance(index, int) else len(self._items))
        self._items.append(item)
        self._places[item.at] = item
        if isinstance(wire.get("id"), str):
            self._ids[wire["id"]] = item
        return item

    def _close(self, item: _Item, wire: dict[str, Any]) -> None:
        """Closes the blocks of an item with what the whole answer would have shown; once."""
        if item.done:
            return
        item.done = True
        wire = self._with_streamed(item, wire)
        record, unmatched = self._record, dict(item.keys)
        for place, block in decode_item(wire, item.at, answer=True, mint=self._mint):
            key = unmatched.pop(place, None)
            if key is None:
                record.whole(self._keyed(item, place), block)
            else:
                self._settle(key, block)
        for key in unmatched.values():
            record.close(key)

    def _settle(self, key: tuple[int, int], block: Block) -> None:
        """Closes a block, after what its deltas did not say."""
        opened = self._record.block(key)
        if type(opened) is type(block):
            text = _text_of(block)
            came = self._record.text(key)
            if len(text) > len(came) and text.startswith(came):
                self._record.delta(key, text[len(came) :])
        self._record.close(key, block)

    def _with_streamed(self, item: _Item, wire: dict[str, Any]) -> dict[str, Any]:
        """A finished item; where it leaves out what was streamed, with that."""
        if item.kind == "message" and not wire.get("content") and item.keys:
            return {"role": "assistant", **wire, "content": self._streamed_parts(item)}
        if item.kind == "function_call" and not wire.get("arguments") and item.keys:
            return {**wire, "arguments": self._record.text(item.keys[0])}
        if item.kind == CUSTOM and not wire.get("input") and item.pieces:
            return {**wire, "input": "".join(item.pieces["input", 0])}
        if item.kind == "reasoning" and item.pieces and not wire.get("summary") and not wire.get("content"):
            return {**wire, **_streamed_reasoning(item)}
        return wire

    def _streamed_parts(self, item: _Item) -> list[dict[str, Any]]:
        parts = []
        for place, key in sorted(item.keys.items()):
            refused = getattr(self._record.block(key), "refusal", False)
            came = self._record.text(key)
            part = item.parts.get(place) or ({"type": "refusal"} if refused else {"type": "output_text"})
            field = "refusal" if refused else "text"
            told = part.get(field)
            part = {**part, field: told if isinstance(told, str) and told.startswith(came) else came}
            if place in item.notes and not part.get("annotations"):
                part["annotations"] = item.notes[place]
            parts.append(part)
        return parts

    def _fill(self, output: list[Any]) -> None:
        """The output of the terminal event: only for what the events before did not say, or did not finish."""
        left = list(self._items)
        told = [(at, wire) for at, wire in enumerate(output) if isinstance(wire, dict)]
        for match in (self._same_id, self._same_place, self._same_kind):
            rest = []
            for at, wire in told:
                item = next((item for item in left if match(item, at, wire)), None)
                if item is None:
                    rest.append((at, wire))
                else:
                    left.remove(item)
                    self._close(item, wire)
            told = rest
        for at, wire in told:
            self._close(self._new(wire, at), wire)

    @staticmethod
    def _same_id(item: _Item, at: int, wire: dict[str, Any]) -> bool:
        id = wire.get("id")
        return id is not None and bool(item.wire.get("id") == id) and item.kind == _kind(wire)

    @staticmethod
    def _same_place(item: _Item, at: int, wire: dict[str, Any]) -> bool:
        return item.at == at and item.kind == _kind(wire)

    @staticmethod
    def _same_kind(item: _Item, at: int, wire: dict[str, Any]) -> bool:
        return item.kind == _kind(wire)

    def _close_blocks(self) -> None:
        for item in self._items:
            if item.kind == "message" and not item.keys:
                item.done = True  # announced, and nothing came
            self._close(item, item.wire)

    # Words.

    def _text(self, event: dict[str, Any]) -> None:
        self._words(event, refused=False)

    def _refusal(self, event: dict[str, Any]) -> None:
        self._words(event, refused=True)

    def _words(self, event: dict[str, Any], *, refused: bool) -> None:
        item = self._place(event, "message")
        if item is not None:
            key = self._part(item, _index(event, "content_index"), refused)
            self._record.delta(key, string(event["delta"]))
            self._expect(event, "content_index", key)

    def _part(self, item: _Item, place: int, refused: bool) -> tuple[int, int]:
        key = item.keys.get(place)
        if key is None:
            extra = {API: {JOINED: True}} if item.keys else _opening_extra(item.wire, *_NAMES)
            key = self._keyed(item, place)
            self._record.open(key, TextBlock(text="", refusal=refused, extra=extra))
        return key

    def _expect(self, event: Mapping[str, Any], field: str, key: Any, pieces: list[str] | None = None) -> None:
        self._same = (event["type"], event.get("output_index"), field, event.get(field))
        self._key = key
        self._pieces = pieces

    def _part_told(self, event: dict[str, Any]) -> None:
        part = event.get("part")
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "reasoning_text":
            self._reasoning_part(event, "content", "content_index")
        elif kind == "output_text" or kind == "refusal":
            item, place = self._place(event, "message"), _index(event, "content_index")
            if item is not None:
                item.parts[place] = part  # type: ignore[assignment]
                self._part(item, place, kind == "refusal")

    def _text_done(self, event: dict[str, Any]) -> None:
        field = "refusal" if "refusal" in event else "text"
        item, place = self._place(event, "message"), _index(event, "content_index")
        if item is not None:
            self._part(item, place, field == "refusal")
            item.parts[place] = {"type": "output_text", **item.parts.get(place, {}), field: event.get(field)}

    def _annotated(self, event: dict[str, Any]) -> None:
        item, place = self._place(event, "message"), _index(event, "content_index")
        if item is not None:
            self._part(item, place, False)
            item.notes.setdefault(place, []).append(event["annotation"])

    # Calls.

    def _arguments(self, event: dict[str, Any]) -> None:
        item = self._place(event, "function_call")
        if item is not None:
            self._record.delta(item.keys[0], string(event["delta"]))
            self._expect(event, "content_index", item.keys[0])

    def _arguments_done(self, event: dict[str, Any]) -> None:
        item = self._place(event, "function_call")
        if item is not None:
            told = {key: event[key] for key in ("arguments", "name") if isinstance(event.get(key), str)}
            item.wire = {**item.wire, **told}

    def _input(self, event: dict[str, Any]) -> None:
        """The text for a custom tool, in the spelling of the argument that it is here."""
        item = self._place(event, CUSTOM)
        if item is not None:
            delta = string(event["delta"])
            opening = "" if item.pieces else '{"input":"'
            item.pieces.setdefault(("input", 0), []).append(delta)
            self._record.delta(item.keys[0], opening + jsontext.compact(delta)[1:-1])

    def _input_done(self, event: dict[str, Any]) -> None:
        item = self._place(event, CUSTOM)
        if item is not None and isinstance(event.get("input"), str):
            item.wire = {**item.wire, "input": event["input"]}

    # Reasoning.

    def _summary_part(self, event: dict[str, Any]) -> None:
        self._reasoning_part(event, "summary", "summary_index")

    def _reasoning_part(self, event: Mapping[str, Any], field: str, index: str) -> tuple[Any, list[str]]:
        """A part of reasoning: the key of its block and its pieces. Between parts there is a blank line."""
        item = self._place(event, "reasoning")
        if item is None:
            return None, []
        place = (field, _index(event, index))
        pieces = item.pieces.get(place)
        if pieces is None:
            if item.pieces:
                self._record.delta(item.keys[0], "\n\n")
            pieces = item.pieces[place] = []
        return item.keys[0], pieces

    def _summary(self, event: dict[str, Any]) -> None:
        self._reasoned(event, "summary", "summary_index")

    def _reasoning(self, event: dict[str, Any]) -> None:
        self._reasoned(event, "content", "content_index")

    def _reasoned(self, event: dict[str, Any], field: str, index: str) -> None:
        key, pieces = self._reasoning_part(event, field, index)
        if key is not None:
            delta = string(event["delta"])
            pieces.append(delta)
            self._record.delta(key, delta)
            self._expect(event, index, key, pieces)

    def _summary_done(self, event: dict[str, Any]) -> None:
        self._reasoned_done(event, "summary", "summary_index")

    def _reasoning_done(self, event: dict[str, Any]) -> None:
        self._reasoned_done(event, "content", "content_index")

    def _reasoned_done(self, event: dict[str, Any], field: str, index: str) -> None:
        key, pieces = self._reasoning_part(event, field, index)
        if key is not None and not pieces:  # a host that sends no deltas
            pieces.append(string(event["text"]))
            self._record.delta(key, pieces[0])


_ENDS = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
_HANDLERS: dict[Any, Callable[[StreamDecoder, dict[str, Any]], None]] = {
    "response.created": StreamDecoder._began,
    "response.queued": StreamDecoder._began,
    "response.in_progress": StreamDecoder._began,
    "response.output_item.added": StreamDecoder._added,
    "response.output_item.done": StreamDecoder._done,
    "response.content_part.added": StreamDecoder._part_told,
    "response.content_part.done": StreamDecoder._part_told,
    "response.output_text.delta": StreamDecoder._text,
    "response.output_text.done": StreamDecoder._text_done,
    "response.output_text.annotation.added": StreamDecoder._annotated,
    "response.output_text_annotation.added": StreamDecoder._annotated,
    "response.refusal.delta": StreamDecoder._refusal,
    "response.refusal.done": StreamDecoder._text_done,
    "response.function_call_arguments.delta": StreamDecoder._arguments,
    "response.function_call_arguments.done": StreamDecoder._arguments_done,
    "response.custom_tool_call_input.delta": StreamDecoder._input,
    "response.custom_tool_call_input.done": StreamDecoder._input_done,
    "response.reasoning_summary_part.added": StreamDecoder._summary_part,
    "response.reasoning_summary_text.delta": StreamDecoder._summary,
    "response.reasoning_summary_text.done": StreamDecoder._summary_done,
    "response.reasoning_text.delta": StreamDecoder._reasoning,
    "response.reasoning_text.done": StreamDecoder._reasoning_done,
    **dict.fromkeys(_ENDS, StreamDecoder._ended),
    "response.done": StreamDecoder._ended,  # the Codex backend's word
    "error": StreamDecoder._failed,
}


def _index(event: Mapping[str, Any], field: str) -> int:
    return whole(event.get(field)) or 0


def _opening_extra(wire: Mapping[str, Any], *names: str) -> Extra:
    held = {name: wire[name] for name in names if isinstance(wire.get(name), str)}
    return {API: held} if held else {}


def _opening_call(wire: Mapping[str, Any], minted: str) -> ToolCall:
    id = optional(wire.get("call_id"))
    extra = _opening_extra(wire, "id")
    if id is None:
        extra = _filed(extra, {MINTED: True})
    if wire["type"] == CUSTOM:
        extra = _filed(extra, {FORM: CUSTOM})
    return ToolCall(id=minted if id is None else id, name=optional(wire.get("name")) or "", arguments={}, extra=extra)


def _text_of(block: Block) -> str:
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, ThinkingBlock):
        return block.thinking
    return arguments_text(block) if isinstance(block, ToolCall) else ""


def _streamed_reasoning(item: _Item) -> dict[str, list[Any]]:
    out: dict[str, list[Any]] = {"summary": []}
    kinds = {"summary": "summary_text", "content": "reasoning_text"}
    for (field, _), pieces in sorted(item.pieces.items(), key=lambda part: (part[0][0] != "summary", part[0][1])):
        out.setdefault(field, []).append({"type": kinds[field], "text": "".join(pieces)})
    return out


# --- streams: ours to wire -------------------------------------------------------------------------------------------


class _Said:
    """An item that is being said: its place and id, and of a message the blocks of its parts."""

    __slots__ = ("blocks", "field", "id", "index", "open", "others", "streamed")

    def __init__(self, index: int, id: Any, field: str) -> None:
        self.index = index
        self.id = id
        self.field = field  # what it is; of reasoning: the field in which its text is said
        self.blocks: dict[int, TextBlock] = {}  # by place
        self.others: dict[int, Any] = {}  # parts that are not modelled, by place
        self.open = 0
        self.streamed = False


class StreamEncoder:
    """Events to the bytes of a streamed answer.

    A message item is closed only when something else begins: the next words may belong to it.
    """

    def __init__(self, *, request: Request | None = None, quirks: Mapping[str, Any] | None = None) -> None:
        self._echo = _echoed(request)
        self._number = -1
        self._id: str | None = None
        self._closed = False
        self._output: list[Any] = []  # finished items, and None where one is not
        self._open: dict[int, tuple[_Said, int]] = {}  # by content index: the item, and the place of the part
        self._messages: list[_Said] = []  # message items that are not closed
        self._seen = False

    def feed(self, event: StreamEvent) -> bytes:
        if self._closed:
            return b""
        match event:
            case TextDelta() | ThinkingDelta() | ToolCallDelta():
                return self._delta(event)
            case Start():
                return self._begin(event.partial)
            case TextStart() | ThinkingStart() | ToolCallStart() | BlockStart():
                self._seen = True
                return self._begin(None) + self._start(event)
            case TextEnd() | ThinkingEnd() | ToolCallEnd() | BlockEnd():
                return self._end(event)
            case Done():
                return self._finish(event.message)
            case Error():
                return self._finish(event.error)

    def close(self) -> bytes:
        """Nothing is owed after the terminal event; a stream without one is cut off, and says so."""
        if self._closed:
            return b""
        return self._finish(AssistantMessage(content=(), stop_reason="error", error_message=CUT_OFF))

    def _event(self, kind: str, **told: Any) -> bytes:
        self._number += 1
        return write_sse(jsontext.write({"type": kind, "sequence_number": self._number, **told}), kind)

    def _begin(self, partial: AssistantMessage | None) -> bytes:
        if self._id is not None:
            return b""
        response = self._response(replace(partial or _NOTHING, error_message=None), [], _PENDING)
        self._id = response.get("id", "")
        created = self._event("response.created", response=response)
        return created + self._event("response.in_progress", response=response)

    def _response(self, message: AssistantMessage, output: list[Any], pending: Mapping[str, Any]) -> dict[str, Any]:
        body = _answer_said(message, output, QUIET)
        if RESPONSE not in message.extra.get(API, ()):
            body.update(self._echo)
        body.update((key, value) for key, value in pending.items() if key in body)
        return body

    def _delta(self, event: TextDelta | ThinkingDelta | ToolCallDelta) -> bytes:
        said, place = self._open[event.content_index]
        before = b""
        told: dict[str, Any] = {"item_id": said.id, "output_index": said.index, "delta": event.delta}
        if isinstance(event, TextDelta):
            told["content_index"] = place
            if said.blocks[place].refusal:
                return self._event("response.refusal.delta", **told)
            return self._event("response.output_text.delta", **told, logprobs=[])
        if isinstance(event, ToolCallDelta):
            if said.field == CUSTOM:
                return b""  # its text is inside the argument, and comes at the end
            said.streamed = True
            return self._event("response.function_call_arguments.delta", **told)
        if not said.streamed:
            said.streamed = True
            before = self._reasoning_part(said, "added", "")
        if said.field == "content":
            return before + self._event("response.reasoning_text.delta", **told, content_index=0)
        return before + self._event("response.reasoning_summary_text.delta", **told, summary_index=0)

    def _start(self, event: TextStart | ThinkingStart | ToolCallStart | BlockStart) -> bytes:
        if isinstance(event, BlockStart):
            return self._close_messages()  # what it is will be known at its end
        held = event.block.extra.get(API, {}) if event.block is not None and event.block.extra else {}
        if isinstance(event, TextStart):
            return self._start_words(event.content_index, event.block or TextBlock(text=""), held)
        closed = self._close_messages()
        if isinstance(event, ToolCallStart):
            call = event.block or ToolCall(id="", name="", arguments={})
            if held.get(FORM) == CUSTOM:
                call = replace(call, arguments={"input": ""})
            wire = {**_said_call(call), "status": "in_progress"}
            if "arguments" in wire:
                wire["arguments"] = ""
            return closed + self._announce(event.content_index, wire["type"], wire, held)
        opened = self._announce(event.content_index, "reasoning", {"type": "reasoning", "summary": []}, held)
        said, _ = self._open[event.content_index]
        said.field = "content" if held.get(CONTENT) and not held.get(SUMMARY) else "summary"
        return closed + opened

    def _start_words(self, at: int, block: TextBlock, held: Mapping[str, Any]) -> bytes:
        joins = bool(held.get(JOINED)) and bool(self._messages) and self._messages[-1].index == len(self._output) - 1
        opened = b""
        if not joins:
            wire = {"type": "message", "role": "assistant", "status": "in_progress", "content": []}
            if "phase" in held:
                wire["phase"] = held["phase"]
            opened = self._close_messages() + self._announce(at, "message", wire, held)
            message = self._open[at][0]
            message.others = dict(held.get(MESSAGE, {}).get(PARTS, ()))
            self._messages.append(message)
        said = self._messages[-1]
        place = len(said.blocks)
        for other in sorted(said.others):
            if other <= place:
                place += 1
        said.blocks[place] = block
        said.open += 1
        self._open[at] = said, place
        return opened + self._content_part(said, place, "added", encode_said(block, QUIET, answer=True))

    def _announce(self, at: int, kind: str, wire: dict[str, Any], held: Mapping[str, Any]) -> bytes:
        said = _Said(len(self._output), held.get("id", _usual(kind, len(self._output))["id"]), kind)
        self._output.append(None)
        self._open[at] = said, 0
        return self._event("response.output_item.added", output_index=said.index, item={"id": said.id, **wire})

    def _content_part(self, said: _Said, place: int, what: str, part: Any) -> bytes:
        return self._event(
            f"response.content_part.{what}",
            item_id=said.id,
            output_index=said.index,
            content_index=place,
            part=part,
        )

    def _reasoning_part(self, said: _Said, what: str, text: str) -> bytes:
        told = {"item_id": said.id, "output_index": said.index}
        if said.field == "content":
            return self._content_part(said, 0, what, {"type": "reasoning_text", "text": text})
        part = {"type": "summary_text", "text": text}
        return self._event(f"response.reasoning_summary_part.{what}", **told, summary_index=0, part=part)

    def _end(self, event: TextEnd | ThinkingEnd | ToolCallEnd | BlockEnd) -> bytes:
        opened = self._open.pop(event.content_index, None)
        if isinstance(event, TextEnd) and opened is not None:
            return self._end_words(*opened, event.block or TextBlock(text=event.content))
        if isinstance(event, ThinkingEnd) and opened is not None:
            block = event.block or ThinkingBlock(thinking=event.content)
            return self._end_thinking(opened[0], event.content) + self._item_done(opened[0], block)
        if isinstance(event, ToolCallEnd) and opened is not None:
            return self._end_call(opened[0], event.tool_call)
        if isinstance(event, BlockEnd):
            return self._end_block(opened[0] if opened else None, event.block)
        return b""

    def _end_words(self, said: _Said, place: int, block: TextBlock) -> bytes:
        said.blocks[place] = block
        said.open -= 1
        part = encode_said(block, QUIET, answer=True)
        told = {"item_id": said.id, "output_index": said.index, "content_index": place}
        if block.refusal:
            done = self._event("response.refusal.done", **told, refusal=block.text)
        else:
            kind = "response.output_text.annotation.added"
            noted = part.get("annotations")
            notes = enumerate(noted if isinstance(noted, list) else ())
            done = b"".join(self._event(kind, **told, annotation_index=at, annotation=note) for at, note in notes)
            done += self._event(
                "response.output_text.done", **told, text=block.text, logprobs=part.get("logprobs") or []
            )
        return done + self._content_part(said, place, "done", part)

    def _end_thinking(self, said: _Said, text: str) -> bytes:
        if not said.streamed:
            return b""
        told = {"item_id": said.id, "output_index": said.index, "text": text}
        if said.field == "content":
            done = self._event("response.reasoning_text.done", **told, content_index=0)
        else:
            done = self._event("response.reasoning_summary_text.done", **told, summary_index=0)
        return done + self._reasoning_part(said, "done", text)

    def _end_call(self, said: _Said, call: ToolCall) -> bytes:
        told = {"item_id": said.id, "output_index": said.index}
        if said.field == CUSTOM and _is_custom(call):
            kind, done = "custom_tool_call_input", {"input": call.arguments["input"]}
        else:
            kind, done = "function_call_arguments", {"name": call.name, "arguments": arguments_text(call)}
        text = done.get("input", done.get("arguments"))
        delta = self._event(f"response.{kind}.delta", **told, delta=text) if text and not said.streamed else b""
        return delta + self._event(f"response.{kind}.done", **told, **done) + self._item_done(said, call)

    def _end_block(self, said: _Said | None, block: Block) -> bytes:
        if said is not None:  # it began as something else
            return self._item_done(said, block)
        item = encode_item(block, QUIET, len(self._output), answer=True)
        if item is None:
            return b""
        index = len(self._output)
        self._output.append(item)
        added = self._event("response.output_item.added", output_index=index, item=item)
        return added + self._event("response.output_item.done", output_index=index, item=item)

    def _item_done(self, said: _Said, block: Block) -> bytes:
        return self._say_done(said, encode_item(block, QUIET, said.index, answer=True))

    def _say_done(self, said: _Said, item: Any) -> bytes:
        if isinstance(item, dict) and "id" in item:
            item = {**item, "id": said.id}  # as announced: clients match items by it
        self._output[said.index] = item
        return self._event("response.output_item.done", output_index=said.index, item=item)

    def _close_messages(self) -> bytes:
        """Closes the message items whose words are all there."""
        closed = b""
        for said in [said for said in self._messages if not said.open]:
            self._messages.remove(said)
            closed += self._say_done(said, self._whole_message(said))
        return closed

    def _whole_message(self, said: _Said) -> dict[str, Any]:
        blocks = [block for _, block in sorted(said.blocks.items())]
        held = blocks[0].extra.get(API, {}) if blocks[0].extra else {}
        parts = [encode_said(block, QUIET, answer=True) for block in blocks]
        item = _message_item(held, parts, said.index, True)
        _finish_message(item, held.get(MESSAGE, {}))
        return item

    def _finish(self, message: AssistantMessage) -> bytes:
        said = self._begin(message if not self._seen else None)
        if not self._seen:  # a message that was never taken apart
            said += b"".join(map(self.feed, list(unfold(message))[:-1]))
        said += self._close_messages()
        self._closed = True
        output = [item for item in self._output if item is not None]
        response = self._response(message, output, {"id": self._id})
        status = _status(_said_word(message, blocks_of(message.content)))
        return said + self._event(_TERMINAL.get(status, "response.completed"), response=response)


_NOTHING = AssistantMessage(content=())
_TERMINAL = {"incomplete": "response.incomplete", "failed": "response.failed", "cancelled": "response.failed"}
_PENDING = {"status": "in_progress", "error": None, "incomplete_details": None, "usage": None}
# Settings of a request that its answer repeats.
_ECHOED = (
    "background",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
)


def _echoed(request: Request | None) -> dict[str, Any]:
    if request is None:
        return {}
    body = restored(_encode_body(request, [], QUIET), request.extra, API)
    return {key: body[key] for key in _ECHOED if body.get(key) is not None}


# --- errors, path, conversations -------------------------------------------------------------------------------------


def decode_error(status: int, body: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    """An error answer, or the error event of a stream (status 0)."""
    wire = lenient(body)
    error = wire.get("error") if isinstance(wire, dict) else None
    if not isinstance(error, dict):
        error = wire if isinstance(wire, dict) else {}
    message = error.get("message")
    if not isinstance(message, str):
        told = wire.get("error", wire.get("detail")) if isinstance(wire, dict) else wire
        message = told if isinstance(told, str) else jsontext.compact(wire) if wire else ""
    code = optional(error.get("code"))
    if code is None and error.get("type") != "error":
        code = optional(error.get("type"))
    return provider_error(message, status=status, code=code, headers=headers, body=wire)


ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


def encode_error(error: ProviderError) -> tuple[int, Any]:
    status = status_of(error)
    kind = ERROR_TYPES.get(status, "server_error")
    return status, {"error": {"message": error.message, "type": kind, "param": None, "code": error.code}}


def path(model: str, stream: bool, *, quirks: Mapping[str, Any] | None = None) -> str:
    return str(quirks["path"]) if quirks else "/responses"


def decode(data: Any, *, quirks: Mapping[str, Any] | None = None) -> Conversation:
    return decode_conversation(data, API, lambda body: decode_request(body, quirks=quirks), "input")


def encode(conversation: Conversation, *, quirks: Mapping[str, Any] | None = None) -> Encoded:
    return encode_conversation(conversation, API, lambda request: encode_request(request, quirks=quirks), "input")


# --- the same bodies elsewhere ---------------------------------------------------------------------------------------

# The address of a deployment ends in /openai/v1; the model is the deployment's name.
AZURE = Variant(sys.modules[__name__], "azure-openai-responses", quirks={"path": "/responses?api-version=v1"})
CODEX = Variant(sys.modules[__name__], "openai-codex-responses", quirks={"path": "/codex/responses"})
