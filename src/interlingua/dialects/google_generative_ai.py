"""Google's generateContent and streamGenerateContent. Knows nothing of HTTP, keys, clocks or other dialects.

Shapes that differ from ours: a message is `parts` without types, told apart by their one data key; any part may be
signed (`thoughtSignature`), and a signature does not make a part a thought; calls and results may lack ids, and results
are parts of a user turn (hint `~joined`); a result is an object, not text; functions are declared in groups; model and
streaming are said in the path. Names may be spelled in snake_case, one by one: where they were is a hint (`~snake`).

In a stream, parts of one chunk are parts of their own; the first of a chunk goes on with the text before it if it is of
the same kind, unless that was signed. An empty signed part is the signature of the text before it; a signed part with
words of its own stands alone.

Also, as Variants, the same bodies at Vertex AI, and in the envelope of Gemini CLI's host (Cloud Code Assist).
"""

import base64
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar
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
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallEnd,
)
from ..folding import CUT_OFF, settle
from ..framing import SSE, Frame, JSONArray, write_sse
from ..losses import QUIET, SYSTEM, Encoded, Fates, Reporter, bookkeeping, dropped, encoded, kept, record, some
from ..messages import (
    AssistantMessage,
    AudioBlock,
    Block,
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
from ._partial_arguments import PartialArguments
from ._stream import Decoder
from ._variant import Variant
from ._wire import (
    JOINED,
    MESSAGE,
    RESPONSE,
    an_object,
    api_of,
    body_of,
    count,
    decode_conversation,
    each,
    encode_conversation,
    lenient,
    model_of,
    number,
    optional,
    put_back,
    reading,
    residual,
    string,
    strings,
    whole,
    with_held,
)

API = "google-generative-ai"

STOP_REASONS: dict[str, StopReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        (
            "SAFETY",
            "RECITATION",
            "LANGUAGE",
            "OTHER",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "MALFORMED_FUNCTION_CALL",
            "UNEXPECTED_TOOL_CALL",
            "TOO_MANY_TOOL_CALLS",
            "MISSING_THOUGHT_SIGNATURE",
            "MALFORMED_RESPONSE",
            "MODEL_ARMOR",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
            "IMAGE_OTHER",
            "NO_IMAGE",
        ),
        "error",
    ),
}
# Older clients ask for enums as numbers: these are the words of the Gemini API. From SAFETY on, all are failures.
STOP_NUMBERS = (
    "FINISH_REASON_UNSPECIFIED",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "OTHER",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "IMAGE_SAFETY",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
)
SAID_STOPS = {"stop": "STOP", "toolUse": "STOP", "length": "MAX_TOKENS", "error": "OTHER", "aborted": "OTHER"}
MODES: dict[str, Any] = {"AUTO": "auto", "VALIDATED": "auto", "ANY": "required", "NONE": "none"}
CHOICES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
FAILED_OUTCOMES = ("OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED")
CODE = "code_execution"
JSON = "application/json"

# Fields that only one form of an answer carries, as paths into the message: none here, the last chunk says it all.
UNEVEN: tuple[str, ...] = ()

FATES: Fates = {
    **kept("TextBlock.text"),
    **some("TextBlock.text_signature", "not in tool results"),
    **dropped("TextBlock.citations Citation.title Citation.url Citation.cited_text Citation.start Citation.end"),
    **dropped("TextBlock.refusal", "a refusal is said as plain text"),
    **dropped("TextBlock.cache ImageBlock.cache AudioBlock.cache DocumentBlock.cache ToolCall.cache ToolSpec.cache"),
    **dropped("ServerToolCall.cache ServerToolResult.cache ToolResultMessage.cache CacheMarker.ttl"),
    **some(
        "ThinkingBlock.thinking ThinkingBlock.thinking_signature ThinkingBlock.redacted",
        "sealed thinking of another wire is dropped",
    ),
    **some("ImageBlock.data ImageBlock.mime_type ImageBlock.url ImageBlock.file_id", "see `_encode_media`"),
    **dropped("ImageBlock.detail"),
    **some("AudioBlock.data AudioBlock.mime_type AudioBlock.url AudioBlock.file_id", "see `_encode_media`"),
    **dropped("AudioBlock.transcript"),
    **some(
        "DocumentBlock.data DocumentBlock.mime_type DocumentBlock.text DocumentBlock.url DocumentBlock.file_id",
        "see `_encode_media`",
    ),
    **dropped("DocumentBlock.title DocumentBlock.context DocumentBlock.citations"),
    **some("ToolCall.id", "an empty id is none"),
    **kept("ToolCall.name ToolCall.arguments ToolCall.thought_signature"),
    **record("ToolCall.arguments_text", "arguments travel as an object, not as text"),
    **dropped("ToolCall.parse_error", "arguments travel as an object; what is none is sent as {}"),
    **some(
        "ServerToolCall.id ServerToolCall.name ServerToolCall.arguments ServerToolResult.tool_call_id"
        " ServerToolResult.tool_name ServerToolResult.dialect ServerToolResult.content ServerToolResult.is_error"
        " OpaqueBlock.dialect OpaqueBlock.value",
        "only what this wire minted",
    ),
    **dropped("OpaqueBlock.extra", "an opaque block is said as it is"),
    **some("UserMessage.content AssistantMessage.content Context.system", "a string becomes a text part"),
    **some("ToolResultMessage.content ToolResultMessage.is_error", "see `_encode_result`"),
    **some("ToolResultMessage.tool_call_id", "an empty id is none"),
    **kept("ToolResultMessage.tool_name"),
    **some("SystemMessage.content SystemMessage.developer", "this wire has no later system messages"),
    **kept("CustomMessage.role CustomMessage.fields"),
    **bookkeeping(API),
    **dropped("Context.system_role", "the system prompt has no role"),
    **kept("ToolSpec.name ToolSpec.description ToolSpec.input_schema"),
    **dropped("ToolSpec.strict"),
    **some("ToolSpec.dialect ToolSpec.value", "only this wire's own tools"),
    **kept("Options.max_tokens Options.temperature Options.top_p Options.top_k Options.stop Options.seed"),
    **kept("Options.service_tier Options.tool_choice Options.output_schema ToolChoice.mode OutputSchema.schema"),
    **some("ToolChoice.names", "no names beside `NONE`"),
    **some(
        "Options.reasoning Reasoning.effort Reasoning.budget Reasoning.enabled Reasoning.summary",
        "see `_encode_reasoning`",
    ),
    **some("Options.session_id", "only in Gemini CLI's envelope"),
    **kept("Options.stream"),  # said by the path, as the model is
    **dropped("Options.parallel_tools Options.cache_retention Options.metadata"),
    **dropped("OutputSchema.name OutputSchema.description OutputSchema.strict"),
    **dropped("OutputSchema.extra", "the schema has no object of its own in this wire"),
}

# Keys of `extra[API]` that only this wire needs.
SNAKE = "~snake"  # places of names that the wire spelled in snake_case
MINTED = "~minted"  # the wire gave no id
PART = "~part"  # the kind of part that a call or a result of Google's own tools is
KEY = "~key"  # where in a function's response its content stood; null: it was all of it
AS_JSON = "~json"  # text of a tool result that the wire has as a JSON value
FIELD = "~field"  # which field held a schema
UPPER = "~upper"  # its types were in capitals
ALONE = "~alone"  # fields where one value stood for a list of one
TEXT = "~text"  # the system prompt was a bare string
LIST = "~list"  # how a group of functions spelled its list
MODEL = "~model"  # the body named the model, with this prefix
ENVELOPE = "~envelope"  # what stood beside the body in its envelope
PLAIN = "~plain"  # a body without its envelope
CANDIDATE = "~candidate"  # residual of the candidate that became the message
OTHERS = "~others"  # the candidates after the first
NO_CANDIDATE = "~none"  # the answer had no candidate

S = TypeVar("S", bound=Struct)
Names: TypeAlias = dict[str, tuple[str, Any]]  # any spelling -> (camelCase, names inside)


# --- spelling --------------------------------------------------------------------------------------------------------


def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)


def _names(plain: str, **nested: Names) -> Names:
    inner: dict[str, Names] = {**{name: {} for name in plain.split()}, **nested}
    return {spelled: (name, inner[name]) for name in inner for spelled in (name, _snake(name))}


_PART_NAMES = _names(
    "thoughtSignature functionCall functionResponse executableCode codeExecutionResult",
    inlineData=_names("mimeType"),
    fileData=_names("mimeType fileUri"),
    toolCall=_names("toolType"),
    toolResponse=_names("toolType"),
)
_DECLARATION_NAMES = _names("parametersJsonSchema")
_REQUEST_NAMES = _names(
    "systemInstruction serviceTier sessionId",
    toolConfig=_names("", functionCallingConfig=_names("allowedFunctionNames")),
    generationConfig=_names(
        "topP topK maxOutputTokens stopSequences responseMimeType responseSchema responseJsonSchema",
        thinkingConfig=_names("includeThoughts thinkingBudget thinkingLevel"),
    ),
)


def _camel(wire: dict[str, Any], names: Names, snakes: list[str], path: str = "") -> dict[str, Any]:
    """The object with the names that are read here in camelCase; `snakes` gets the places that had them otherwise."""
    out: dict[str, Any] = {}
    for key, value in wire.items():
        name, inner = names.get(key, (key, None))
        if name != key:
            if name in wire:  # said twice: the other spelling is unknown
                out[key] = value
                continue
            snakes.append(path + name)
        out[name] = _camel(value, inner, snakes, f"{path}{name}.") if inner and isinstance(value, dict) else value
    return out


def _respell(place: dict[str, Any], path: list[str]) -> None:
    """Puts one name back into snake_case; objects on the way are copied, for they may not be ours to change."""
    name = path[0]
    if name not in place:
        return
    if len(path) == 1:
        place[_snake(name)] = place.pop(name)
    elif isinstance(place[name], dict):
        place[name] = dict(place[name])
        _respell(place[name], path[1:])


def _held(extra: Extra) -> Mapping[str, Any]:
    return extra.get(API, {}) if extra else {}


def _restored(said: dict[str, Any], extra: Extra) -> dict[str, Any]:
    """`said` with the residual put back, and the names as the wire spelled them."""
    held = extra.get(API)
    if held:
        put_back(said, held)
        _respelled(said, held)
    return said


def _respelled(said: dict[str, Any], held: Mapping[str, Any]) -> None:
    for path in reversed(held.get(SNAKE, ())):  # inner names first, while the outer ones can be found
        _respell(said, path.split("."))


def _keeping(
    value: S, wire: Mapping[str, Any], said: Mapping[str, Any], snakes: list[str] | None = None, **marks: Any
) -> S:
    """The value with what `said`, its own encoding, gets wrong about `wire`, beside hints that it already holds."""
    held = residual(wire, said)
    if snakes:
        marks[SNAKE] = snakes
    return with_held(value, API, **held, **marks) if held or marks else value


class _Ids:
    """Ids for calls that the wire left without one: the n-th is `mint(n)`, but none that was given before."""

    def __init__(self, mint: Callable[[int], str] | None) -> None:
        self._mint = mint or "call_{}".format
        self._count = 0
        self._given: set[str] = set()

    def take(self, given: Any) -> tuple[str, bool]:
        """The id, and whether it was minted."""
        if isinstance(given, str) and given:
            self._given.add(given)
            return given, False
        while True:
            id, self._count = self._mint(self._count), self._count + 1
            if id not in self._given or self._count > len(self._given) + 1:  # a mint may know only one word
                return id, True


# --- content: wire to ours -------------------------------------------------------------------------------------------


def decode_block(wire: Any, ids: _Ids) -> Block:
    """One part; whatever is not as this wire has it is kept as it is, opaque."""
    if isinstance(wire, dict):
        if len(wire) == 1 and isinstance(wire.get("text"), str):
            return TextBlock(text=wire["text"])
        snakes: list[str] = []
        part = _camel(wire, _PART_NAMES, snakes)
        decode = _decoder_of(part)
        if decode is not None:
            try:
                block: Block = decode(part, ids)
                return _keeping(block, part, encode_block(block, QUIET) or {}, snakes)
            except (KeyError, TypeError, AttributeError, ValueError):
                pass
    elif wire is None:
        raise TypeError("a part is an object, not null")
    return OpaqueBlock(dialect=API, value=wire)


def _decoder_of(part: dict[str, Any]) -> Callable[[dict[str, Any], _Ids], Any] | None:
    """By the one data key. A part with nothing but a signature is an empty text."""
    found = [key for key in part if key in _DATA]
    if len(found) == 1:
        return _DECODERS.get(found[0])
    return _decode_text if not found and "thoughtSignature" in part and part.keys() <= _UNSAID else None


def _decode_text(part: dict[str, Any], ids: _Ids) -> TextBlock | ThinkingBlock:
    text, signature = string(part.get("text", "")), optional(part.get("thoughtSignature"))
    if part.get("thought") is True:
        return ThinkingBlock(thinking=text, thinking_signature=signature)
    return TextBlock(text=text, text_signature=signature)


def _decode_inline(part: dict[str, Any], ids: _Ids) -> Block:
    blob = part["inlineData"]
    mime = optional(blob.get("mimeType"))
    return _media_class(mime)(data=string(blob["data"]), mime_type=mime)


def _decode_file(part: dict[str, Any], ids: _Ids) -> Block:
    file = part["fileData"]
    mime = optional(file.get("mimeType"))
    return _media_class(mime)(url=string(file["fileUri"]), mime_type=mime)


def _media_class(mime: str | None) -> type[ImageBlock] | type[AudioBlock] | type[DocumentBlock]:
    kind = (mime or "").partition("/")[0]
    return ImageBlock if kind == "image" else AudioBlock if kind == "audio" else DocumentBlock


def _decode_call(part: dict[str, Any], ids: _Ids) -> ToolCall:
    call = part["functionCall"]
    name, given = string(call["name"]), call.get("args", {})
    if given is None:
        given = {}
    broken = None if isinstance(given, dict) else jsontext.compact(given)
    id, minted = ids.take(call.get("id"))
    return ToolCall(
        id=id,
        name=name,
        arguments=given if broken is None else {},
        arguments_text=broken,
        parse_error=broken and "the arguments are not a JSON object",
        thought_signature=optional(part.get("thoughtSignature")),
        extra={API: {MINTED: True}} if minted else {},
    )


def _decode_code(part: dict[str, Any], ids: _Ids) -> ServerToolCall:
    code = part["executableCode"]
    rest = {key: value for key, value in code.items() if key != "id"}
    return ServerToolCall(
        id=string(code.get("id", "")), name=CODE, arguments=rest, extra={API: {PART: "executableCode"}}
    )


def _decode_outcome(part: dict[str, Any], ids: _Ids) -> ServerToolResult:
    result = part["codeExecutionResult"]
    return ServerToolResult(
        tool_call_id=string(result.get("id", "")),
        tool_name=CODE,
        dialect=API,
        content={key: value for key, value in result.items() if key != "id"},
        is_error=result.get("outcome") in FAILED_OUTCOMES,
        extra={API: {PART: "codeExecutionResult"}},
    )


def _decode_server_call(part: dict[str, Any], ids: _Ids) -> ServerToolCall:
    call = part["toolCall"]
    return ServerToolCall(
        id=string(call.get("id", "")),
        name=string(call["toolType"]),
        arguments=call.get("args"),
        extra={API: {PART: "toolCall"}},
    )


def _decode_server_result(part: dict[str, Any], ids: _Ids) -> ServerToolResult:
    told = part["toolResponse"]
    return ServerToolResult(
        tool_call_id=string(told.get("id", "")),
        tool_name=string(told["toolType"]),
        dialect=API,
        content=told.get("response"),
    )


_DECODERS: dict[str, Callable[[dict[str, Any], _Ids], Any]] = {
    "text": _decode_text,
    "inlineData": _decode_inline,
    "fileData": _decode_file,
    "functionCall": _decode_call,
    "executableCode": _decode_code,
    "codeExecutionResult": _decode_outcome,
    "toolCall": _decode_server_call,
    "toolResponse": _decode_server_result,
}
_DATA = frozenset({*_DECODERS, "functionResponse"})
_UNSAID = frozenset({"thought", "thoughtSignature", "partMetadata"})


# --- content: ours to wire -------------------------------------------------------------------------------------------


def encode_block(block: Block, report: Reporter) -> dict[str, Any] | None:
    """One block as a part, or None (reported) when it cannot be one."""
    wire: dict[str, Any] | None
    match block:
        case TextBlock():
            wire = {"text": block.text}
            if block.text_signature is not None:
                wire["thoughtSignature"] = block.text_signature
        case ToolCall():
            wire = _encode_call(block, report)
        case ThinkingBlock() if not block.redacted:
            wire = {"text": block.thinking, "thought": True}
            if block.thinking_signature is not None:
                wire["thoughtSignature"] = block.thinking_signature
        case ImageBlock() | AudioBlock() | DocumentBlock():
            wire = _encode_media(block, report)
        case ServerToolCall() if PART in _held(block.extra):
            wire = _encode_server_call(block)
        case ServerToolResult() if block.dialect == API:
            wire = _encode_server_result(block, report)
        case OpaqueBlock() if block.dialect == API:
            return block.value  # type: ignore[no-any-return]
        case _:
            report.lost(type(block).__name__, "this wire has no such part")
            return None
    return _restored(wire, block.extra) if block.extra and wire is not None else wire


def _encode_call(call: ToolCall, report: Reporter) -> dict[str, Any]:
    said: dict[str, Any] = {"name": call.name, "args": call.arguments}
    if not _is_minted(call):
        if call.id:
            said["id"] = call.id
        else:
            report.lost("id", "an empty id is none", "weakened", field="id")
    wire: dict[str, Any] = {"functionCall": said}
    if call.thought_signature is not None:
        wire["thoughtSignature"] = call.thought_signature
    return wire


def _is_minted(value: ToolCall | ToolResultMessage) -> bool:
    return bool(value.extra) and bool(_held(value.extra).get(MINTED))


def _encode_media(block: ImageBlock | AudioBlock | DocumentBlock, report: Reporter) -> dict[str, Any] | None:
    """Media by value or by address. What a file is, the wire tells by its MIME type alone."""
    text = block.text if isinstance(block, DocumentBlock) else None
    mime = {"mimeType": block.mime_type} if block.mime_type is not None else {}
    wire: dict[str, Any]
    if block.data is not None:
        wire, used = {"inlineData": {**mime, "data": block.data}}, "data"
    elif block.url is not None:
        wire, used = {"fileData": {**mime, "fileUri": block.url}}, "url"
    elif text is not None:
        blob = base64.b64encode(text.encode("utf-8", "replace")).decode()
        wire, used = {"inlineData": {"mimeType": block.mime_type or "text/plain", "data": blob}}, "text"
    else:
        report.lost(type(block).__name__, "neither data nor an address; uploads to other providers are not known here")
        return None
    if text is not None and used == "text":
        report.lost("text", "said as base64 data", "weakened")
    elif _media_class(block.mime_type) is not type(block):
        report.lost(type(block).__name__, "the wire knows only the MIME type, which says something else", "weakened")
    for field, name in (("url", "url"), ("file_id", "fileId"), ("text", "text")):
        if field != used and getattr(block, field, None) is not None:
            report.lost(field, f"the wire has its {used}", field=name)
    return wire


def _encode_server_call(block: ServerToolCall) -> dict[str, Any]:
    """A call of a tool of Google's; those of others would be tools that it does not have."""
    id = {"id": block.id} if block.id else {}
    if _held(block.extra).get(PART) == "executableCode" and isinstance(block.arguments, dict) and block.name == CODE:
        return {"executableCode": {**id, **block.arguments}}
    args = {"args": block.arguments} if block.arguments is not None else {}
    return {"toolCall": {**id, "toolType": block.name, **args}}


def _encode_server_result(block: ServerToolResult, report: Reporter) -> dict[str, Any]:
    id = {"id": block.tool_call_id} if block.tool_call_id else {}
    content = block.content
    failed = False
    if _held(block.extra).get(PART) == "codeExecutionResult" and isinstance(content, dict) and block.tool_name == CODE:
        wire = {"codeExecutionResult": {**id, **content}}
        failed = content.get("outcome") in FAILED_OUTCOMES
    else:
        response = {"response": content} if content is not None else {}
        wire = {"toolResponse": {**id, "toolType": block.tool_name, **response}}
    if block.is_error != failed:
        report.lost("is_error", "only the outcome of code says so", "weakened", field="isError")
    return wire


def _encode_content(content: Content, report: Reporter) -> list[Any] | None:
    if not isinstance(content, tuple):
        if content is None:
            return None
        # A string and one text part are the same here, and decoding gives the latter.
        report.lost("content", "content is a list of parts in this wire", "record", field="content")
        return [{"text": content}]
    said = []
    for at, block in enumerate(content):
        report.block = at
        wire = encode_block(block, report)
        if wire is not None:
            said.append(wire)
    report.block = None
    return said


# --- messages --------------------------------------------------------------------------------------------------------


class _Turns:
    """What is known of the conversation so far while its contents are read: who speaks, and which calls are open."""

    def __init__(self, api: str, mint: Callable[[int], str] | None) -> None:
        self.api = api
        self.ids = _Ids(mint)
        self.open: list[tuple[str, str]] = []  # calls of the last turn that wait for their results: (id, name)
        self.calls: dict[str, tuple[str, bool]] = {}  # call id -> (tool name, whether the id was minted)
        self.before: Message | None = None

    def called(self, calls: tuple[ToolCall, ...]) -> None:
        self.open = [(call.id, call.name) for call in calls]
        _note_calls(self.calls, calls)

    def answered(self, given: Any, name: Any) -> tuple[str, bool]:
        """The call that a result answers: by id, else by name, the first that is open. (id, whether it is an orphan)"""
        if isinstance(given, str) and given:
            self.open = [call for call in self.open if call[0] != given]
            return given, False
        for call in self.open:
            if call[1] == name:
                self.open.remove(call)
                return call[0], False
        return self.ids.take(None)


def _note_calls(known: dict[str, tuple[str, bool]], calls: tuple[ToolCall, ...]) -> None:
    for call in calls:
        known[call.id] = call.name, _is_minted(call)


def decode_messages(wire: Any, api: str = API, mint: Callable[[int], str] | None = None) -> tuple[Message, ...]:
    """Wire contents as our messages; one with function responses becomes several."""
    turns = _Turns(api, mint)
    groups = each(wire, "contents", API, lambda content: _decode_content(content, turns))
    return tuple(message for group in groups for message in group)


def _decode_content(wire: Any, turns: _Turns) -> list[Message]:
    role = an_object(wire, API).get("role")
    if role == "model":
        message = AssistantMessage(content=_decode_parts(wire, turns.ids), api=turns.api)
        turns.called(message.tool_calls)
        group: list[Message] = [_shelled(message, wire, "model")]
    elif role in ("user", "function", "tool", None):
        group = _decode_user(wire, turns)
    elif isinstance(role, str):
        group = [CustomMessage(role, {k: v for k, v in wire.items() if k != "role"})]  # type: ignore[list-item]
    else:
        raise BadWire(API, "a role is a word: user or model", "$.role")
    turns.before = group[-1]
    return group


def _listed(value: Any) -> Any:
    """The wire takes one object for a list of one."""
    return [value] if isinstance(value, dict) else value


def _decode_parts(wire: dict[str, Any], ids: _Ids) -> Content:
    parts = _listed(wire.get("parts"))
    return None if parts is None else tuple(each(parts, "parts", API, lambda part: decode_block(part, ids)))


def _shell(wire: dict[str, Any], role: str) -> dict[str, Any]:
    """Residual of a content beside its parts, which keep their own."""
    held = residual({k: v for k, v in wire.items() if k != "parts" or v is None}, {"role": role})
    if isinstance(wire.get("parts"), dict):
        held[ALONE] = True
    return held


def _shelled(message: S, wire: dict[str, Any], role: str) -> S:
    held = _shell(wire, role)
    return with_held(message, API, **held) if held else message


def _decode_user(wire: dict[str, Any], turns: _Turns) -> list[Message]:
    parts = _listed(wire.get("parts"))
    if not isinstance(parts, list) or not any(map(_is_result, parts)):
        return [_shelled(UserMessage(content=_decode_parts(wire, turns.ids)), wire, "user")]
    pieces: list[Message] = []
    words: list[Block] = []
    for part in parts:
        if _is_result(part):
            if words:
                pieces.append(UserMessage(content=tuple(words)))
                words = []
            pieces.append(_decode_result(part, turns))
        else:
            words.append(decode_block(part, turns.ids))
    if words:
        pieces.append(UserMessage(content=tuple(words)))
    return _joined(pieces, _shell(wire, "user"), turns.before)


def _joined(pieces: list[Message], held: dict[str, Any], before: Message | None) -> list[Message]:
    """Marks how the pieces of one content hang together, wherever it is not the usual way."""
    out: list[Message] = []
    for at, piece in enumerate(pieces):
        usual = isinstance(piece, ToolResultMessage) and isinstance(before, ToolResultMessage)
        if usual != (at > 0):
            piece = with_held(piece, API, **{JOINED: at > 0})
        out.append(piece)
        before = piece
    if held:
        out[0] = with_held(out[0], API, **{MESSAGE: held})
    return out


def _is_result(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    told = part.get("functionResponse", part.get("function_response"))
    return (
        isinstance(told, dict)
        and isinstance(told.get("name", ""), str)
        and isinstance(told.get("parts", []), list)
        and sum(key in part for key in _ANY_DATA) == 1
    )


_ANY_DATA = frozenset(spelled for spelled in (*_PART_NAMES, "text") if _PART_NAMES.get(spelled, ("text",))[0] in _DATA)


def _decode_result(wire: dict[str, Any], turns: _Turns) -> ToolResultMessage:
    snakes: list[str] = []
    part = _camel(wire, _PART_NAMES, snakes)
    told = part["functionResponse"]
    id, orphan = turns.answered(told.get("id"), told.get("name"))
    content, failed, hints = _decode_response(told)
    result = ToolResultMessage(
        tool_call_id=id,
        tool_name=told["name"] if "name" in told else turns.calls.get(id, (None,))[0],
        content=content,
        is_error=failed,
        extra={API: hints | ({MINTED: True} if orphan else {})} if hints or orphan else {},
    )
    return _keeping(result, part, _say_result(result, turns.calls, QUIET), snakes)


# Names under which clients put what a tool gave. Google's own are `output` and `error`.
RESULTS = frozenset({"output", "error", "result", "return_value", "content"})


def _decode_response(told: dict[str, Any]) -> tuple[Content, bool, dict[str, Any]]:
    """What a function gave, as content, whether it failed, and hints: the object itself is never kept."""
    media = tuple(map(_decode_beside, told.get("parts", ())))
    if "response" not in told or told["response"] == {}:
        return (media or (() if "response" in told else None)), False, {}
    response, hints = told["response"], {}
    value, failed = response, _has_failed(response)
    if isinstance(response, dict) and len(response) == 1 and RESULTS.issuperset(response):
        [(key, value)] = response.items()
        if key not in ("output", "error"):
            hints[KEY] = key
    else:
        hints[KEY] = None
    if not isinstance(value, str):
        hints[AS_JSON] = True
        value = jsontext.compact(value)
    return (TextBlock(text=value), *media), failed, hints


def _decode_beside(part: Any) -> Block:
    """Media that a function gave; nothing else belongs there."""
    block = decode_block(part, _Ids(None))
    return block if isinstance(block, _MEDIA) else OpaqueBlock(dialect=API, value=part)


_MEDIA = (ImageBlock, AudioBlock, DocumentBlock, OpaqueBlock)


def _has_failed(response: Any) -> bool:
    """`error` alone says so whatever it holds; beside other keys it may be empty."""
    if not isinstance(response, dict):
        return False
    return "error" in response and (len(response) == 1 or bool(response["error"]))


def encode_messages(messages: tuple[Message, ...], report: Reporter) -> list[dict[str, Any]]:
    """Our messages as contents; results of one turn share one."""
    said: list[dict[str, Any]] = []
    before: Message | None = None
    calls: dict[str, tuple[str, bool]] = {}
    for at, message in enumerate(messages):
        report.message = at
        match message:
            case UserMessage():
                _say_user(said, message, before, report)
            case AssistantMessage():
                said.append(_say_content("model", message.content, message.extra, report))
                if type(message.content) is tuple:
                    _note_calls(calls, message.tool_calls)
            case ToolResultMessage():
                _join_result(said, message, before, calls, report)
            case CustomMessage():  # the wire's own unknown role goes back
                said.append({"role": message.role, **message.fields})
            case _:
                report.lost("system message", "this wire has no later system messages")
        before = message
    return said


def _say_content(role: str, content: Content, extra: Extra, report: Reporter) -> dict[str, Any]:
    parts = _encode_content(content, report)
    wire: dict[str, Any] = {"role": role} if parts is None else {"role": role, "parts": parts}
    return _shaped(wire, extra.get(API)) if extra else wire


def _shaped(wire: dict[str, Any], held: Mapping[str, Any] | None) -> dict[str, Any]:
    if held:
        put_back(wire, held)
        if held.get(ALONE) and len(wire.get("parts") or ()) == 1:
            wire["parts"] = wire["parts"][0]
    return wire


def _say_user(said: list[dict[str, Any]], message: UserMessage, before: Message | None, report: Reporter) -> None:
    held = _held(message.extra)
    wire = _say_content("user", message.content, message.extra, report)
    if held.get(JOINED) and _takes_parts(before, said) and isinstance(wire.get("parts"), list):
        said[-1]["parts"].extend(wire["parts"])
    else:
        said.append(_shaped(wire, held.get(MESSAGE)))


def _join_result(
    said: list[dict[str, Any]],
    message: ToolResultMessage,
    before: Message | None,
    calls: dict[str, tuple[str, bool]],
    report: Reporter,
) -> None:
    held = _held(message.extra)
    part = _say_result(message, calls, report)
    if held.get(JOINED, isinstance(before, ToolResultMessage)) and _takes_parts(before, said):
        said[-1]["parts"].append(part)
    else:
        said.append(_shaped({"role": "user", "parts": [part]}, held.get(MESSAGE)))


def _takes_parts(before: Message | None, said: list[dict[str, Any]]) -> bool:
    return isinstance(before, (ToolResultMessage, UserMessage)) and isinstance(said[-1].get("parts"), list)


def _say_result(result: ToolResultMessage, calls: Mapping[str, tuple[str, bool]], report: Reporter) -> dict[str, Any]:
    """A result as a part: with the id of its call if that has one, and the name of its tool."""
    called, minted = calls.get(result.tool_call_id, (None, False))
    told: dict[str, Any] = {}
    if not minted and not _is_minted(result):
        if result.tool_call_id:
            told["id"] = result.tool_call_id
        else:
            report.lost("tool_call_id", "an empty id is none", "weakened", field="toolCallId")
    name = called if result.tool_name is None else result.tool_name
    if name is not None:
        told["name"] = name
    _encode_result(told, result, report)
    wire = {"functionResponse": told}
    return _restored(wire, result.extra) if result.extra else wire


def _encode_result(told: dict[str, Any], result: ToolResultMessage, report: Reporter) -> None:
    """The content of a result: its words as one value of the response, media beside it."""
    content = result.content
    if content is None:
        if result.is_error:
            report.lost("is_error", "there is no content to be an error", "weakened", field="isError")
        return
    if isinstance(content, str):
        report.lost("content", "a string becomes a text block", "record", field="content")
    words: list[str] = []
    media: list[Any] = []
    moved = False
    for at, block in enumerate(blocks_of(content)):
        report.block = at
        if isinstance(block, TextBlock):
            moved = moved or bool(media)
            words.append(block.text)
            _report_lost_words(block, report)
        elif isinstance(block, _MEDIA):
            part = encode_block(block, report)
            if part is not None:
                media.append(part)
        else:
            report.lost(type(block).__name__, "a result holds words and media")
    report.block = None
    if moved:
        report.lost("content", "the words of a result stand before its media", "weakened", field="content")
    if len(words) > 1:
        report.lost("content", "the words of a result are one text: joined by line breaks", "weakened", field="content")
    if words or result.is_error:
        if not words:
            report.lost("content", "an error says something, if only nothing", "weakened", field="content")
        told["response"] = _response_of("\n".join(words), result)
    else:
        told["response"] = {}
    if media:
        told["parts"] = media


def _report_lost_words(block: TextBlock, report: Reporter) -> None:
    if block.text_signature is not None:
        report.lost("text_signature", "the words of a result cannot be signed", field="textSignature")
    if block.extra and any(not key.startswith("~") for key in _held(block.extra)):
        report.lost("extra", "the words of a result are no part", field=f"extra.{API}")


def _response_of(text: str, result: ToolResultMessage) -> Any:
    """The response object: as the wire had it where that still says the same, else Google's own way."""
    usual = "error" if result.is_error else "output"
    held = _held(result.extra)
    key = held.get(KEY, usual)
    value: Any = text
    if held.get(AS_JSON):
        value = _parsed(text)
    if key is None:
        return value if value is not text and _has_failed(value) == result.is_error else {usual: text}
    response = {key: value}
    return response if _has_failed(response) == result.is_error else {usual: text}


def _parsed(text: str) -> Any:
    """The value whose compact JSON is this very text, else the text itself."""
    try:
        value = jsontext.read(text)
        return value if not isinstance(value, str) and jsontext.compact(value) == text else text
    except FormatError:
        return text


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
    """A generateContent request. `model` and `stream` are said in the path; `mint` gives ids to calls without one."""
    outer = an_object(body_of(body, API), API)
    api = api_of(quirks, API)
    wrapped = _has_envelope(quirks) and isinstance(outer.get("request"), dict)
    snakes: list[str] = []
    wire = _camel(outer["request"] if wrapped else outer, _REQUEST_NAMES, snakes)
    marks = _shapes(wire)
    contents, tools = _listed(wire.get("contents")), _listed(wire.get("tools"))
    request = Request(
        model=model_of(outer.get("model"), model, api) if wrapped else _decode_model(wire, model, api, marks),
        context=Context(
            system=_decode_system(wire.get("systemInstruction")),
            messages=decode_messages(contents, api, mint) if contents is not None else (),
            tools=_decode_tools(tools),
        ),
        options=_decode_options(wire, stream, quirks),
    )
    if wrapped:
        beside = residual({k: v for k, v in outer.items() if k != "request"}, _envelope(request.model))
        marks |= {ENVELOPE: beside} if beside else {}
    elif _has_envelope(quirks):
        marks[PLAIN] = True
    return _keeping(request, *_beside(wire, request, marks, quirks), snakes, **marks)


def _has_envelope(quirks: Mapping[str, Any] | None) -> bool:
    return bool(quirks and quirks.get("envelope"))


def _envelope(model: ModelDescriptor) -> dict[str, Any]:
    """What stands around a request of Gemini CLI's; project and ids are the caller's business."""
    return {"model": model.id} if model.id else {}


def _shapes(wire: dict[str, Any]) -> dict[str, Any]:
    """Hints about unusual shapes of a request."""
    system = wire.get("systemInstruction")
    alone = [key for key in ("contents", "tools") if isinstance(wire.get(key), dict)]
    if isinstance(system, dict) and isinstance(system.get("parts"), dict):
        alone.append("systemInstruction")
    return ({ALONE: alone} if alone else {}) | ({TEXT: True} if isinstance(system, str) else {})


def _decode_model(
    wire: dict[str, Any], told: str | ModelDescriptor | None, api: str, marks: dict[str, Any]
) -> ModelDescriptor:
    """Some bodies name the model too, as a resource: `models/…`."""
    named = wire.get("model")
    prefix = "models/" if isinstance(named, str) and named.startswith("models/") else ""
    model = model_of(named.removeprefix(prefix) if isinstance(named, str) else None, told, api)
    if named == prefix + model.id:
        marks[MODEL] = prefix
    return model


def _beside(
    wire: dict[str, Any], request: Request, marks: Mapping[str, Any], quirks: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The request but for what keeps residuals of its own, as the wire has it and as we would say it."""
    said = _encode_outside(request, QUIET, quirks)
    given = dict(wire)
    if not request.context.messages:
        said["contents"] = []
    else:
        del given["contents"]
    if isinstance(given.get("toolConfig"), dict) and given["toolConfig"]:
        said.setdefault("toolConfig", {})  # so that what is unknown in it is filed inside, not instead
    if "generationConfig" in said:
        given["generationConfig"] = said["generationConfig"]
    if request.context.tools is not None:
        given["tools"] = said["tools"]
    if request.context.system is not None:
        system = given["systemInstruction"]
        parts = said["systemInstruction"]["parts"]
        given["systemInstruction"] = {**system, "parts": parts} if isinstance(system, dict) else {"parts": parts}
    if MODEL in marks:
        del given["model"]
    return given, said


def _decode_system(wire: Any) -> System:
    if isinstance(wire, str):
        return (TextBlock(text=wire),)
    if not isinstance(wire, dict):
        return None
    parts = _listed(wire.get("parts"))
    if not isinstance(parts, list):
        return None
    blocks = tuple(decode_block(part, _Ids(None)) for part in parts)
    return blocks if all(isinstance(block, TextBlock) for block in blocks) else None  # type: ignore[return-value]


def _decode_tools(wire: Any) -> tuple[ToolSpec, ...] | None:
    if not isinstance(wire, list):
        return None
    specs: list[ToolSpec] = []
    for group in each(wire, "tools", API, _decode_group):
        for at, spec in enumerate(group):
            usual = _is_function(spec) and bool(specs) and _is_function(specs[-1])
            specs.append(with_held(spec, API, **{JOINED: at > 0}) if usual != (at > 0) else spec)
    return tuple(specs)


def _is_function(spec: ToolSpec) -> bool:
    return spec.dialect is None


def _decode_group(wire: Any) -> list[ToolSpec]:
    """One entry of `tools`: functions of ours and tools of Google's, each a tool."""
    specs: list[ToolSpec] = []
    for key, value in an_object(wire, API).items():
        if key in _FUNCTIONS and _are_functions(value) and (key == "functionDeclarations" or _FUNCTIONS[0] not in wire):
            functions = each(value, key, API, _decode_function)
            if key != _FUNCTIONS[0]:
                functions[0] = with_held(functions[0], API, **{LIST: key})
            specs += functions
        else:
            specs.append(ToolSpec(name=key, dialect=API, value={key: value}))
    return specs or [ToolSpec(name="", dialect=API, value={})]


_FUNCTIONS = ("functionDeclarations", "function_declarations")


def _are_functions(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in value)
    )


def _decode_function(wire: dict[str, Any]) -> ToolSpec:
    snakes: list[str] = []
    given = _camel(wire, _DECLARATION_NAMES, snakes)
    field = "parametersJsonSchema" if given.get("parametersJsonSchema") is not None else "parameters"
    schema, hints = _decode_schema(given.get(field), field, "parametersJsonSchema")
    tool = ToolSpec(
        name=given["name"],
        description=optional(given.get("description")),
        input_schema=schema,
        extra={API: hints} if hints else {},
    )
    return _keeping(tool, given, _encode_function(tool), snakes)


def _decode_schema(schema: Any, field: str, usual: str) -> tuple[Any, dict[str, Any]]:
    """A schema in JSON Schema's spelling, and hints. Google's own subset writes types in capitals."""
    if schema is None:
        return None, {}
    hints: dict[str, Any] = {} if field == usual else {FIELD: field}
    if field != usual:
        lower = _cased(schema, str.lower)
        if lower != schema and _cased(lower, str.upper) == schema:
            return lower, {**hints, UPPER: True}
    return schema, hints


def _cased(schema: Any, case: Callable[[str], str]) -> Any:
    """A copy with all types in this case. Goes by position: a parameter that is *named* `type` is none."""
    if not isinstance(schema, dict):
        return schema
    out = dict(schema)
    for key, value in schema.items():
        if key == "type" and isinstance(value, str):
            out[key] = case(value)
        elif key in ("properties", "$defs", "defs") and isinstance(value, dict):
            out[key] = {name: _cased(inner, case) for name, inner in value.items()}
        elif key in ("anyOf", "any_of", "prefixItems", "prefix_items") and isinstance(value, list):
            out[key] = [_cased(inner, case) for inner in value]
        elif key in ("items", "additionalProperties", "additional_properties"):
            out[key] = _cased(value, case)
    return out


def _encode_schema(schema: Any, extra: Extra, usual: str) -> dict[str, Any]:
    held = _held(extra)
    return {held.get(FIELD, usual): _cased(schema, str.upper) if held.get(UPPER) else schema}


def _decode_options(wire: dict[str, Any], stream: bool | None, quirks: Mapping[str, Any] | None) -> Options:
    given = wire.get("generationConfig")
    config: dict[str, Any] = given if isinstance(given, dict) else {}
    options = Options(
        max_tokens=whole(config.get("maxOutputTokens")),
        temperature=number(config.get("temperature")),
        top_p=number(config.get("topP")),
        top_k=whole(_integral(config.get("topK"))),
        stop=strings(config.get("stopSequences")),
        seed=whole(config.get("seed")),
        reasoning=_decode_reasoning(config.get("thinkingConfig")),
        tool_choice=_decode_choice(wire.get("toolConfig")),
        output_schema=_decode_output(config),
        session_id=optional(wire.get("sessionId")) if _has_envelope(quirks) else None,
        service_tier=optional(wire.get("serviceTier")),
        stream=stream,
    )
    return _keeping(options, config, _encode_config(options, QUIET))


def _integral(value: Any) -> Any:
    """The wire's type of `topK` is a float."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _decode_reasoning(wire: Any) -> Reasoning | None:
    if not isinstance(wire, dict):
        return None
    level, budget = optional(wire.get("thinkingLevel")), whole(wire.get("thinkingBudget"))
    shown = wire.get("includeThoughts") is True
    reasoning = Reasoning(
        effort=level.lower() if level is not None else None,
        # 0 is off; -1 leaves it to the model, which a level does too.
        budget=budget if budget not in (None, 0, -1) else None,
        enabled=False if budget == 0 else True if budget == -1 and level is None else None,
        summary="auto" if shown and budget is None and level is None else None,
    )
    return _keeping(reasoning, wire, _encode_reasoning(reasoning, QUIET))


def _decode_choice(wire: Any) -> ToolChoice | None:
    config = wire.get("functionCallingConfig") if isinstance(wire, dict) else None
    if not isinstance(config, dict):
        return None
    mode = MODES.get(str(config.get("mode")).upper())
    if mode is None:
        return None
    names = strings(config.get("allowedFunctionNames")) if mode != "none" else None
    choice = ToolChoice(mode=mode, names=names or ())
    return _keeping(choice, config, _encode_choice(choice, QUIET))


def _decode_output(config: dict[str, Any]) -> OutputSchema | None:
    field = "responseJsonSchema" if config.get("responseJsonSchema") is not None else "responseSchema"
    schema, hints = _decode_schema(config.get(field), field, "responseJsonSchema")
    if config.get("responseMimeType", JSON if schema is not None else None) != JSON:
        return None
    return OutputSchema(schema=schema, extra={API: hints} if hints else {})


def encode_request(request: Request, *, strict: bool = False, quirks: Mapping[str, Any] | None = None) -> Encoded:
    """The body of a generateContent request."""
    report = Reporter()
    held = _held(request.extra)
    body = _encode_outside(request, report, quirks)
    body["contents"] = encode_messages(request.context.messages, report)
    if held:
        _shape_request(body, request, held)
    if _has_envelope(quirks) and not held.get(PLAIN):
        body = put_back(_envelope(request.model), held.get(ENVELOPE, {})) | {"request": body}
    return encoded(API, body, request, FATES, report.losses, strict=strict, spoken=api_of(quirks, API))


def _shape_request(body: dict[str, Any], request: Request, held: Mapping[str, Any]) -> None:
    """The body in the shape that the wire had, where it still can have it."""
    alone, system = held.get(ALONE, ()), body.get("systemInstruction")
    for key in ("contents", "tools"):
        if key in alone and len(body.get(key, ())) == 1:
            body[key] = body[key][0]
    if "in" in held.get("~", {}).get("toolConfig", {}):
        body.setdefault("toolConfig", {})
    if MODEL in held:
        body["model"] = held[MODEL] + request.model.id
    put_back(body, held)
    if system is not None and len(system["parts"]) == 1:
        if held.get(TEXT):
            body["systemInstruction"] = system["parts"][0].get("text")
        elif "systemInstruction" in alone:
            body["systemInstruction"]["parts"] = system["parts"][0]
    _respelled(body, held)


def _encode_outside(request: Request, report: Reporter, quirks: Mapping[str, Any] | None) -> dict[str, Any]:
    """All of a request but its contents."""
    context, options = request.context, request.options
    body: dict[str, Any] = {}
    if context.system is not None:
        body["systemInstruction"] = {"parts": _encode_system(context.system, report)}
    if context.tools is not None:
        body["tools"] = _encode_tools(context.tools, report)
    if options.tool_choice is not None:
        body["toolConfig"] = {"functionCallingConfig": _encode_choice(options.tool_choice, report)}
    config = _encode_config(options, report)
    if options.extra:
        _restored(config, options.extra)
    if config:
        body["generationConfig"] = config
    if options.service_tier is not None:
        body["serviceTier"] = options.service_tier
    if options.session_id is not None:
        if _has_envelope(quirks):
            body["sessionId"] = options.session_id
        else:
            report.at("$.options.sessionId", "session_id", "no place in this wire")
    return body


def _encode_system(system: System, report: Reporter) -> list[Any]:
    if isinstance(system, str):
        report.at(SYSTEM, "system", "a string becomes a text part", "record")
        return [{"text": system}]
    return [encode_block(block, QUIET) for block in system or ()]


def _encode_tools(specs: tuple[ToolSpec, ...], report: Reporter) -> list[Any]:
    """Functions share one entry, tools of Google's have one each, unless the wire grouped them otherwise."""
    said: list[Any] = []
    before: ToolSpec | None = None
    for at, spec in enumerate(specs):
        if spec.dialect not in (None, API):
            report.at(f"$.tools[{at}]", spec.name, f"a tool that only {spec.dialect} can run")
            continue
        usual = _is_function(spec) and before is not None and _is_function(before)
        held = _held(spec.extra)
        if not (held.get(JOINED, usual) and said):
            said.append({})
        if _is_function(spec):
            there = next((name for name in _FUNCTIONS if name in said[-1]), held.get(LIST, _FUNCTIONS[0]))
            said[-1].setdefault(there, []).append(_encode_function(spec))
        elif isinstance(spec.value, dict):
            said[-1].update(spec.value)
        before = spec
    return said


def _encode_function(spec: ToolSpec) -> dict[str, Any]:
    wire: dict[str, Any] = {"name": spec.name}
    if spec.description is not None:
        wire["description"] = spec.description
    if spec.input_schema is not None:
        wire |= _encode_schema(spec.input_schema, spec.extra, "parametersJsonSchema")
    return _restored(wire, spec.extra) if spec.extra else wire


def _encode_choice(choice: ToolChoice, report: Reporter) -> dict[str, Any]:
    wire: dict[str, Any] = {"mode": CHOICES[choice.mode]}
    if choice.names and choice.mode == "none":
        report.at("$.options.toolChoice.names", "tool_choice", "no tool is no tool", "weakened")
    elif choice.names:
        if choice.mode == "auto":  # the mode in which the model may speak, and may call only these
            wire["mode"] = "VALIDATED"
        wire["allowedFunctionNames"] = list(choice.names)
    return _restored(wire, choice.extra) if choice.extra else wire


def _encode_config(options: Options, report: Reporter) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if options.max_tokens is not None:
        config["maxOutputTokens"] = options.max_tokens
    if options.temperature is not None:
        config["temperature"] = options.temperature
    if options.top_p is not None:
        config["topP"] = options.top_p
    if options.top_k is not None:
        config["topK"] = options.top_k
    if options.stop is not None:
        config["stopSequences"] = list(options.stop)
    if options.seed is not None:
        config["seed"] = options.seed
    if options.reasoning is not None:
        config["thinkingConfig"] = _encode_reasoning(options.reasoning, report)
    schema = options.output_schema
    if schema is not None:
        config["responseMimeType"] = JSON
        if schema.schema is not None:
            config |= _encode_schema(schema.schema, schema.extra, "responseJsonSchema")
    return config


def _encode_reasoning(reasoning: Reasoning, report: Reporter) -> dict[str, Any]:
    """Off is a budget of nothing: without it, models that think by default would still do so."""
    effort, budget = reasoning.effort, reasoning.budget
    wire: dict[str, Any] = {}
    if reasoning.enabled is False:
        wire["thinkingBudget"] = 0
    else:
        if budget is not None:
            wire["thinkingBudget"] = budget
        elif reasoning.enabled and effort is None:
            wire["thinkingBudget"] = -1
        if (wire and budget != 0) or effort is not None or reasoning.summary is not None:
            wire["includeThoughts"] = True
    if effort is not None:
        wire["thinkingLevel"] = effort.upper()
    _report_reasoning(reasoning, report)
    return _restored(wire, reasoning.extra) if reasoning.extra else wire


def _report_reasoning(reasoning: Reasoning, report: Reporter) -> None:
    effort, budget = reasoning.effort, reasoning.budget
    if budget is not None and (reasoning.enabled is False or budget in (0, -1)):
        report.at("$.options.reasoning", "budget", "0 is off, -1 leaves it to the model", "weakened")
    elif reasoning.enabled and (effort is not None or budget is not None):
        report.at("$.options.reasoning.enabled", "enabled", "how much to think implies it", "record")
    if effort is not None and effort.upper().lower() != effort:
        report.at("$.options.reasoning.effort", "effort", "levels are words in one case", "weakened")
    if reasoning.summary is not None and (
        reasoning.summary != "auto" or effort is not None or budget is not None or reasoning.enabled is not None
    ):
        report.at("$.options.reasoning.summary", "summary", "thoughts are shown or not, without degrees", "weakened")


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
    """A whole answer: its first candidate; the others are kept beside it."""
    wire = body_of(body, API)
    if _is_error(wire):
        raise decode_error(0, wire)
    outer = an_object(wire, API)
    wrapped = _has_envelope(quirks) and isinstance(outer.get("response"), dict)
    wire = outer["response"] if wrapped else outer
    base = AssistantMessage(content=(), api=api_of(quirks, API), provider=provider, model=model, timestamp=timestamp)
    ids = _Ids(mint)
    first = _first_candidate(wire)
    parts = ((first or {}).get("content") or {}).get("parts")
    blocks = tuple(each(parts, "parts", API, lambda part: decode_block(part, ids))) if parts else ()
    message = _decode_answer(wire, _cited(blocks, first or {}), base)
    return _with_envelope(message, outer, wrapped) if _has_envelope(quirks) else message


def _first_candidate(wire: dict[str, Any]) -> dict[str, Any] | None:
    candidates = wire.get("candidates")
    return an_object(candidates[0], API, "$.candidates[0]") if isinstance(candidates, list) and candidates else None


def _with_envelope(message: AssistantMessage, outer: dict[str, Any], wrapped: bool) -> AssistantMessage:
    rest = {key: value for key, value in outer.items() if key != "response"} if wrapped else {}
    mark = {ENVELOPE: rest} if rest else {} if wrapped else {PLAIN: True}
    held = _held(message.extra).get(RESPONSE, {})
    return with_held(message, API, **{RESPONSE: {**held, **mark}}) if mark else message


def _decode_answer(wire: dict[str, Any], content: tuple[Block, ...], base: AssistantMessage) -> AssistantMessage:
    """The message whose envelope is `wire` and whose content is read already."""
    first = _first_candidate(wire)
    word, reason = _decode_stop(wire, first, content)
    message = replace(
        base,
        content=content,
        **_decode_envelope(wire, base),
        usage=_decode_usage(wire.get("usageMetadata")),
        stop_reason=reason,
        stop_detail=word,
        error_message=f"the provider stopped: {_told(wire, first, word)}" if reason == "error" else None,
    )
    held = _answer_residual(wire, first, message)
    return with_held(message, API, **{RESPONSE: held}) if held else message


def _decode_stop(
    wire: dict[str, Any], first: dict[str, Any] | None, content: tuple[Block, ...]
) -> tuple[str | None, StopReason]:
    """The provider's word and what it means. A blocked prompt has no candidate, only the reason."""
    if first is None:
        blocked = _block_reason(wire)
        return blocked, "error" if blocked is not None else settle(None, content)
    word = _stop_name(first.get("finishReason"))
    return word, settle(STOP_REASONS.get(word or ""), content)


def _block_reason(wire: dict[str, Any]) -> str | None:
    feedback = wire.get("promptFeedback")
    reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
    return None if reason is None else str(reason)


def _stop_name(word: Any) -> str | None:
    number = whole(word)
    if number is None:
        return optional(word)
    return STOP_NUMBERS[number] if 0 <= number < len(STOP_NUMBERS) else str(number)


def _told(wire: dict[str, Any], first: dict[str, Any] | None, word: str | None) -> str:
    feedback = wire.get("promptFeedback")
    if first is not None:
        told = first.get("finishMessage")
    else:
        told = feedback.get("blockReasonMessage") if isinstance(feedback, dict) else None
    return told if isinstance(told, str) and told else word or "no reason given"


def _decode_envelope(wire: dict[str, Any], base: AssistantMessage) -> dict[str, Any]:
    named = optional(wire.get("modelVersion"))
    return {
        "response_id": optional(wire.get("responseId")) or None,
        "model": base.model or named,
        "response_model": named if base.model and named != base.model else None,
    }


def _answer_residual(wire: dict[str, Any], first: dict[str, Any] | None, message: AssistantMessage) -> dict[str, Any]:
    """What encoding the envelope gets wrong; parts keep their own residuals."""
    candidates = wire.get("candidates")
    if first is None:
        return {**residual(wire, _encode_envelope(message)), NO_CANDIDATE: True}
    held = residual({k: v for k, v in wire.items() if k != "candidates"}, _encode_envelope(message))
    content = first.get("content")
    if isinstance(content, dict) and message.content:
        first = {**first, "content": {k: v for k, v in content.items() if k != "parts"}}
    inner = residual(first, _encode_candidate(message))
    if inner:
        held[CANDIDATE] = inner
    if len(candidates) > 1:  # type: ignore[arg-type]
        held[OTHERS] = candidates[1:]  # type: ignore[index]
    return held


def _decode_usage(wire: Any) -> Usage | None:
    """All counts are cumulative. The prompt's includes what was cached; what tools brought in comes on top."""
    if not isinstance(wire, dict):
        return None
    cached, thoughts = count(wire, "cachedContentTokenCount"), whole(wire.get("thoughtsTokenCount"))
    usage = Usage.of(
        count(wire, "promptTokenCount") - cached + count(wire, "toolUsePromptTokenCount"),
        count(wire, "candidatesTokenCount") + (thoughts or 0),
        cache_read=cached,
        total_tokens=whole(wire.get("totalTokenCount")),
        reasoning=thoughts,
    )
    return _keeping(usage, wire, _encode_usage(usage))


def _encode_usage(usage: Usage) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "promptTokenCount": usage.input + usage.cache_read + usage.cache_write,
        "candidatesTokenCount": usage.output - (usage.reasoning or 0),
        "totalTokenCount": usage.total_tokens,
    }
    if usage.cache_read:
        wire["cachedContentTokenCount"] = usage.cache_read
    if usage.reasoning is not None:
        wire["thoughtsTokenCount"] = usage.reasoning
    return _restored(wire, usage.extra) if usage.extra else wire


def encode_response(message: AssistantMessage, *, quirks: Mapping[str, Any] | None = None) -> Encoded:
    """The body of a whole answer."""
    report = Reporter("$")
    blocks = blocks_of(message.content)
    if not isinstance(message.content, tuple):
        report.lost("content", "content is a list of parts in this wire", "record", field="content")
    body = _encode_answer(message, _encode_content(blocks, report) or [])
    _report_answer(message, blocks, body, report)
    if _has_envelope(quirks):
        body = _wrapped_answer(message, body)
    return encoded(API, body, message, ANSWER_FATES, report.losses, spoken=api_of(quirks, API))


def _wrapped_answer(message: AssistantMessage, body: dict[str, Any]) -> dict[str, Any]:
    held = _held(message.extra).get(RESPONSE, {})
    return body if held.get(PLAIN) else {"response": body, **held.get(ENVELOPE, {})}


def _encode_answer(message: AssistantMessage, parts: list[Any]) -> dict[str, Any]:
    held: Mapping[str, Any] = _held(message.extra).get(RESPONSE, {})
    body: dict[str, Any] = {}
    if parts or message.content or not held.get(NO_CANDIDATE):
        candidate = put_back(_encode_candidate(message), held.get(CANDIDATE, {}))
        if parts:
            content = candidate.get("content")
            candidate["content"] = {**(content if isinstance(content, dict) else {"role": "model"}), "parts": parts}
        body["candidates"] = [candidate, *held.get(OTHERS, ())]
    return put_back(body | _encode_envelope(message), held)


def _encode_candidate(message: AssistantMessage) -> dict[str, Any]:
    """A candidate without its parts."""
    wire: dict[str, Any] = {"content": {"role": "model"}}
    if message.stop_reason is not None:
        wire["finishReason"] = _stop_word(message)
        if wire["finishReason"] == "OTHER" and message.error_message and message.stop_detail is None:
            wire["finishMessage"] = message.error_message
    return wire


def _encode_envelope(message: AssistantMessage) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    if message.usage is not None:
        wire["usageMetadata"] = _encode_usage(message.usage)
    named = message.response_model or message.model
    if named:
        wire["modelVersion"] = named
    if message.response_id:
        wire["responseId"] = message.response_id
    return wire


def _stop_word(message: AssistantMessage) -> str:
    word = message.stop_detail
    if word in STOP_REASONS and settle(STOP_REASONS[word], blocks_of(message.content)) == message.stop_reason:
        return word
    return SAID_STOPS[message.stop_reason or "stop"]


def _report_answer(
    message: AssistantMessage, blocks: tuple[Block, ...], body: dict[str, Any], report: Reporter
) -> None:
    if message.stop_reason == "aborted":
        report.lost("stop_reason", "an answer does not say that it was aborted", "weakened", field="stopReason")
    if message.usage is not None and message.usage.cache_write:
        report.lost("cache_write", "counted as part of the prompt", "weakened", field="usage")
    if any(isinstance(block, TextBlock) and block.citations for block in blocks):
        back = _cited(_uncited(blocks), _first_candidate(body) or {})
        for at, (block, again) in enumerate(zip(blocks, back, strict=True)):
            if isinstance(block, TextBlock) and isinstance(again, TextBlock) and block.citations != again.citations:
                report.at(f"$.content[{at}].citations", "citations", "no place in this wire")


ANSWER_FATES: Fates = {
    **FATES,
    **kept("AssistantMessage.response_id AssistantMessage.model"),
    **some("AssistantMessage.usage AssistantMessage.stop_reason", "see `_report_answer`"),
    **some("AssistantMessage.stop_detail AssistantMessage.response_model", "said where the wire knows the word"),
    **some("AssistantMessage.error_message", "said with the reason of the stop"),
    **some(
        "TextBlock.citations Citation.title Citation.url Citation.cited_text Citation.start Citation.end",
        "only what the answer's own metadata says",
    ),
    **record("Usage.cost"),
}


# --- citations -------------------------------------------------------------------------------------------------------


def _cited(content: tuple[Block, ...], candidate: Mapping[str, Any]) -> tuple[Block, ...]:
    """The content with the sources that the candidate's metadata tells of, as far as they can be placed exactly.

    The metadata itself is part of the residual; nothing is said from here.
    """
    if "groundingMetadata" not in candidate and "citationMetadata" not in candidate:
        return content
    found: dict[int, list[Citation]] = {}
    texts = {at: block.text for at, block in enumerate(content) if isinstance(block, TextBlock)}
    try:
        for at, citation in [*_groundings(candidate, texts), *_citations(candidate, texts)]:
            found.setdefault(at, []).append(citation)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError):
        return content  # metadata of another shape
    return tuple(
        replace(block, citations=tuple(found[at])) if at in found else block for at, block in enumerate(content)
    )


def _uncited(content: tuple[Block, ...]) -> tuple[Block, ...]:
    return tuple(replace(b, citations=()) if isinstance(b, TextBlock) and b.citations else b for b in content)


def _groundings(candidate: Mapping[str, Any], texts: dict[int, str]) -> list[tuple[int, Citation]]:
    """Each support names a stretch of the answer, in bytes, and the sources for it."""
    metadata = candidate.get("groundingMetadata") or {}
    sources: list[Any] = [next(iter(chunk.values()), {}) for chunk in metadata.get("groundingChunks") or ()]
    found = []
    for support in metadata.get("groundingSupports") or ():
        segment = support["segment"]
        place = _placed(segment.get("startIndex", 0), segment["endIndex"], segment["text"], texts)
        if place is None:
            continue
        at, start, end = place
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
    """Which text holds the stretch, and where in characters; None where that is not sure."""
    for at, text in texts.items():
        raw = text.encode("utf-8", "replace")
        if raw[start:end].decode("utf-8", "replace") == quoted:
            begin = len(raw[:start].decode("utf-8", "replace"))
            return at, begin, begin + len(quoted)
    holders = [at for at, text in texts.items() if quoted and text.count(quoted) == 1]
    if len(holders) != 1:
        return None
    begin = texts[holders[0]].index(quoted)
    return holders[0], begin, begin + len(quoted)


def _citations(candidate: Mapping[str, Any], texts: dict[int, str]) -> list[tuple[int, Citation]]:
    """What the answer recites; the places are bytes of the only text there is."""
    metadata = candidate.get("citationMetadata") or {}
    if len(texts) != 1:
        return []
    [(at, text)] = texts.items()
    found = []
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


# --- streams ---------------------------------------------------------------------------------------------------------


def framing(content_type: str | None = None) -> SSE | JSONArray:
    """Without `alt=sse`, a stream is one JSON array of chunks."""
    return JSONArray() if content_type and content_type.startswith(JSON) else SSE()


class StreamDecoder(Decoder):
    """Frames of a streamed answer to events. Every chunk is an answer of its own that goes on with the one before."""

    API = API

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._wrapped = _has_envelope(self._quirks)
        self._ids = _Ids(self._mint)
        self._shell: dict[str, Any] = {}  # the wire's answer, its candidates aside
        self._outer: dict[str, Any] = {}  # what stood beside it in its envelope
        self._candidate: dict[str, Any] = {}  # the first candidate
        self._others: dict[Any, dict[str, Any]] = {}  # the other candidates, by index
        self._part: dict[str, Any] | None = None  # the open text part, its text aside
        self._kind: type[Block] | None = None  # of the open text, if the next chunk may go on with it
        self._call: _StreamedCall | None = None
        self._key = -1  # of the newest block

    def _read(self, value: Any, frame: Frame) -> None:
        if self._wrapped:
            value = self._unwrapped(value)
        if not self._shell:
            self._begin(value)
        self._shell.update(value)
        candidates = value.get("candidates")
        if candidates:
            if len(candidates) == 1 and len(self._others) == 0:
                self._read_candidate(candidates[0])
            else:
                self._read_candidates(candidates)
        elif "error" in value:
            error = decode_error(0, value)
            self._fail(error.message, detail=error.code)

    def _unreadable(self, frame: Frame, error: FormatError) -> None:
        if frame.data.strip() != b"[DONE]":  # some proxies end every stream so
            super()._unreadable(frame, error)

    def _unwrapped(self, value: Any) -> Any:
        inner = value.get("response")
        if not isinstance(inner, dict):
            return value
        self._outer.update(value)
        return inner

    def _begin(self, value: dict[str, Any]) -> None:
        if "error" not in value:
            self._record.note(**_decode_envelope(value, self._given))
            self._record.begin()

    def _read_candidates(self, candidates: list[dict[str, Any]]) -> None:
        for at, candidate in enumerate(candidates):
            index = candidate.get("index", at)
            if index == self._candidate.get("index", 0):
                self._read_candidate(candidate)
            else:
                _merge_candidate(self._others.setdefault(index, {}), candidate)

    def _read_candidate(self, candidate: dict[str, Any]) -> None:
        index = candidate.get("index")
        if index and type(index) is int and self._candidate and index != self._candidate.get("index"):
            # Another one, alone in its chunk.
            _merge_candidate(self._others.setdefault(index, {}), candidate)
            return
        known = self._candidate
        if len(candidate) > (1 if index is None else 2):  # more than its content
            _merge_metadata(known, candidate)
        known.update(candidate)
        content = candidate.get("content")
        parts = content.get("parts") if content else None
        if not parts:
            return
        kind, part = self._kind, parts[0]
        if kind is not None and len(parts) == 1 and type(part) is dict and len(part) == _SIZES[kind]:
            text = part.get("text")
            if type(text) is str and (kind is TextBlock or part.get("thought") is True):
                self._record.delta(self._key, text)  # one more piece, and nothing else: nearly always
                return
        for at, part in enumerate(parts):
            self._read_part(part, at == 0)

    def _read_part(self, part: Any, goes_on: bool) -> None:
        decode = _decoder_of(part) if isinstance(part, dict) else None
        if decode is _decode_text and isinstance(part.get("text", ""), str):
            self._read_text(part, goes_on)
        elif decode is _decode_call and isinstance(part["functionCall"], dict):
            self._read_call(part)
        else:
            self._add(decode_block(part, self._ids))

    def _read_text(self, part: dict[str, Any], goes_on: bool) -> None:
        kind = ThinkingBlock if part.get("thought") is True else TextBlock
        text, signed = part.get("text", ""), "thoughtSignature" in part
        if not goes_on or self._kind is not kind or (signed and text):
            self._close_blocks()
            self._key += 1
            self._record.open(self._key, _EMPTY[kind])
            self._part = {}
        self._part.update(part)  # type: ignore[union-attr]
        self._record.delta(self._key, text)
        self._kind = None if signed else kind

    def _read_call(self, part: dict[str, Any]) -> None:
        """A call comes whole, or opens with its name and goes on in parts without one."""
        call = part["functionCall"]
        if self._call is None or isinstance(call.get("name"), str):
            if "partialArgs" not in call and not call.get("willContinue"):
                self._add(decode_block(part, self._ids))
                return
            self._close_blocks()
            self._key += 1
            id, minted = self._ids.take(call.get("id"))
            self._call = _StreamedCall(id, minted)
            self._record.open(self._key, ToolCall(id=id, name=string(call["name"]), arguments={}))
        self._record.delta(self._key, self._call.add(part))
        if not call.get("willContinue"):
            self._close_blocks()

    def _add(self, block: Block) -> None:
        self._close_blocks()
        self._key += 1
        self._record.whole(self._key, block)

    def _open_text(self) -> Block | None:
        """The open text as the whole answer would have shown it."""
        if self._part is None:
            return None
        if "text" in self._part:
            self._part["text"] = self._record.text(self._key)
        return decode_block(self._part, self._ids)

    def _close_blocks(self) -> None:
        if self._call is not None:
            call, self._call = self._call, None
            self._record.delta(self._key, call.rest())
            self._record.close(self._key, call.finished())
        elif self._part is not None:
            block = self._open_text()
            self._part = self._kind = None
            self._record.close(self._key, block)

    def _complete(self) -> bool:
        if self._candidate:
            return self._candidate.get("finishReason") is not None
        return _block_reason(self._shell) is not None

    def _finish(self) -> None:
        if self._call is not None:
            self._close_blocks()
        content = list(self._record.content)
        last = self._open_text()
        if last is not None:
            content[-1] = last
        cited = _cited(tuple(content), self._candidate)
        if last is not None:  # sources are told at the end: as far as it can be, before the block is closed
            self._record.close(self._key, cited[-1])
        message = _decode_answer(self._whole(), cited, self._given)
        self._record.end(_with_envelope(message, self._outer, bool(self._outer)) if self._wrapped else message)

    def _whole(self) -> dict[str, Any]:
        """The answer as it would have come at once; its parts are read already."""
        wire = self._shell
        if self._candidate:
            wire = {**wire, "candidates": [self._candidate, *self._others.values()]}
        return wire

    def _fail(self, message: str, *, aborted: bool = False, detail: str | None = None) -> None:
        usage = _decode_usage(self._shell.get("usageMetadata"))
        if usage is not None and not self._record.finished:
            self._record.note(usage=usage)
        super()._fail(message, aborted=aborted, detail=detail)


_EMPTY: dict[type, Block] = {TextBlock: TextBlock(text=""), ThinkingBlock: ThinkingBlock(thinking="")}
_SIZES: dict[type, int] = {TextBlock: 1, ThinkingBlock: 2}  # keys of a part that is nothing but text
# What a candidate tells of its sources comes once, in pieces, or again and again; empty where there is nothing new.
_SOURCES = ("groundingMetadata", "citationMetadata", "urlContextMetadata")


def _merge_metadata(known: dict[str, Any], candidate: dict[str, Any]) -> None:
    """Changes `candidate`, which is about to be merged, so that nothing told before gets lost."""
    for key in _SOURCES:
        if key in known and key in candidate:
            candidate[key] = _grown(known[key], candidate[key], repeats=True)
    if "logprobsResult" in known and "logprobsResult" in candidate:
        candidate["logprobsResult"] = _grown(known["logprobsResult"], candidate["logprobsResult"], repeats=False)
    if "finishReason" in candidate and candidate["finishReason"] is None:
        candidate["finishReason"] = known.get("finishReason")


def _grown(before: Any, after: Any, *, repeats: bool) -> Any:
    """Objects key by key, lists one after the other, unless (`repeats`) the later one begins with the earlier.

    In place: what was told before is not copied for each piece.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in after.items():
            before[key] = _grown(before[key], value, repeats=repeats) if key in before else value
        return before
    if isinstance(before, list) and isinstance(after, list):
        if repeats and len(before) <= len(after) and after[: len(before)] == before:
            return after
        before.extend(after)
        return before
    return after


def _merge_candidate(known: dict[str, Any], candidate: dict[str, Any]) -> None:
    """Another candidate goes on: its parts are added, the rest is set."""
    parts = (known.get("content") or {}).get("parts")
    _merge_metadata(known, candidate)
    known.update(candidate)
    content = known.get("content")
    if parts and isinstance(content, dict):
        parts.extend(content.get("parts") or ())
        content["parts"] = parts


class _StreamedCall:
    """A call that comes in parts: first its name, then values of its arguments."""

    def __init__(self, id: str, minted: bool) -> None:
        self._id = id
        self._minted = minted
        self._part: dict[str, Any] = {}
        self._call: dict[str, Any] = {}
        self._arguments = PartialArguments()

    def add(self, part: dict[str, Any]) -> str:
        """Takes one part; gives the JSON text that it brings."""
        self._part.update({k: v for k, v in part.items() if k != "functionCall"})
        call = part["functionCall"]
        self._call.update({k: v for k, v in call.items() if k not in ("partialArgs", "willContinue")})
        return "".join(map(self._arguments.add, call.get("partialArgs") or ()))

    def rest(self) -> str:
        return self._arguments.rest()

    def finished(self) -> Block:
        """The call, read from what the whole answer would have shown."""
        given = self._call.get("args")
        args = {**(given if isinstance(given, dict) else {}), **self._arguments.value()}
        call = {**self._call, "id": self._id, "args": args}
        if self._minted:
            del call["id"]
        return decode_block({**self._part, "functionCall": call}, _Ids(lambda _: self._id))


class StreamEncoder:
    """Events to the bytes of a streamed answer. Parts have no index: blocks that overlap are said one by one."""

    def __init__(self, *, request: Request | None = None, quirks: Mapping[str, Any] | None = None) -> None:
        self._wrapped = _has_envelope(quirks)
        self._closed = False
        self._beside: dict[str, Any] = {}  # what every chunk says beside its candidate
        self._index: dict[str, Any] = {}  # what it says in it beside the parts
        self._at = 0  # the block that may speak now
        self._waiting: dict[int, list[Any]] = {}  # events of later blocks
        self._kind: type[Block] | None = None  # of the text that the reader would go on with
        self._fresh = True  # nothing of this block was said yet
        self._sealed = False  # it is thinking that cannot be said

    def feed(self, event: StreamEvent) -> bytes:
        if self._closed:
            return b""
        match event:
            case Done() | Error():
                self._closed = True
                return self._flush() + self._last(event)
            case Start():
                self._begin(event.partial or AssistantMessage(content=()))
                return b""
            case _ if event.content_index == self._at:
                return self._say(event)
            case _:
                self._waiting.setdefault(event.content_index, []).append(event)
                return b""

    def close(self) -> bytes:
        """Nothing is owed after the terminal event; a stream without one is cut off, and says so."""
        if self._closed:
            return b""
        self._closed = True
        return self._flush() + self._event(_error_body(500, CUT_OFF, None))

    def _begin(self, message: AssistantMessage) -> None:
        held = _held(message.extra).get(RESPONSE, {})
        body = put_back(_encode_envelope(message), held)
        self._beside = {key: body[key] for key in ("modelVersion", "responseId") if key in body}
        self._index = {key: value for key, value in held.get(CANDIDATE, {}).items() if key == "index"}
        self._wrapped = self._wrapped and not held.get(PLAIN)

    def _say(self, event: StreamEvent) -> bytes:
        match event:
            case TextDelta():
                return self._text(TextBlock, {"text": event.delta})
            case ThinkingDelta():
                return b"" if self._sealed else self._text(ThinkingBlock, {"text": event.delta, "thought": True})
            case ThinkingStart():
                self._sealed = event.block is not None and event.block.redacted
                return b""
            case TextEnd():
                return self._end_text(event.block or TextBlock(text=event.content)) + self._next()
            case ThinkingEnd():
                return self._end_text(event.block or ThinkingBlock(thinking=event.content)) + self._next()
            case BlockEnd():
                return self._whole(event.block) + self._next()
            case _ if isinstance(event, ToolCallEnd):
                return self._whole(event.tool_call) + self._next()
            case _:
                return b""  # a start, or a piece of arguments: calls are said whole

    def _text(self, kind: type[Block], part: dict[str, Any]) -> bytes:
        parts = [part]
        if self._fresh and self._kind is kind:
            # Two texts in a row: an empty piece for the one before, so that this one is a part of its own.
            parts.insert(0, dict(_NOTHING[kind]))
        self._fresh, self._kind = False, None if "thoughtSignature" in part else kind
        return self._chunk(parts)

    def _end_text(self, block: TextBlock | ThinkingBlock) -> bytes:
        """What the deltas could not say: the signature above all."""
        part = encode_block(block, QUIET)
        nothing = _NOTHING[type(block)]
        if part is not None and not self._fresh:
            rest = {key: value for key, value in part.items() if key != "text" and (key, value) != ("thought", True)}
            part = {**nothing, **rest} if rest else None
        return self._text(type(block), part) if part is not None else b""

    def _whole(self, block: Block) -> bytes:
        part = encode_block(block, QUIET)
        if part is None:
            return b""
        self._kind = None
        return self._chunk([part])

    def _next(self) -> bytes:
        """The next block may speak: what it said while it had to wait."""
        self._at += 1
        self._fresh = True
        return b"".join(map(self._say, self._waiting.pop(self._at, ())))

    def _flush(self) -> bytes:
        out = b""
        for index in sorted(self._waiting):
            if index in self._waiting:
                self._at, self._fresh = index, True
                out += b"".join(map(self._say, self._waiting.pop(index)))
        return out

    def _last(self, event: Done | Error) -> bytes:
        message = event.message if isinstance(event, Done) else event.error
        if isinstance(event, Error) and not _is_said_by_stop(message):
            code = 499 if event.reason == "aborted" else _CODES.get(message.stop_detail or "", 500)
            return self._event(_error_body(code, message.error_message or "", message.stop_detail))
        body = _encode_answer(message, [])
        candidate = _first_candidate(body)
        if candidate is not None and candidate.get("finishReason") is None:
            candidate["finishReason"] = _stop_word(message)  # without it, a stream is cut off
        return self._event(body, _held(message.extra).get(RESPONSE, {}).get(ENVELOPE))

    def _chunk(self, parts: list[Any]) -> bytes:
        candidate = {"content": {"parts": parts, "role": "model"}, **self._index}
        return self._event({"candidates": [candidate], **self._beside})

    def _event(self, chunk: dict[str, Any], beside: Mapping[str, Any] | None = None) -> bytes:
        if self._wrapped and "error" not in chunk:
            chunk = {"response": chunk, **(beside or {})}
        return write_sse(jsontext.write(chunk))


_NOTHING: dict[type[Block], dict[str, Any]] = {
    TextBlock: {"text": ""},
    ThinkingBlock: {"text": "", "thought": True},
}


def _is_said_by_stop(message: AssistantMessage) -> bool:
    """Whether the failure is one that this wire says at the end of an answer, not instead of it."""
    if message.stop_reason != "error":
        return False
    return RESPONSE in _held(message.extra) or STOP_REASONS.get(message.stop_detail or "") == "error"


# --- errors, path, conversations -------------------------------------------------------------------------------------


def _is_error(wire: Any) -> bool:
    if isinstance(wire, list) and len(wire) == 1:
        wire = wire[0]
    return isinstance(wire, dict) and "error" in wire and "candidates" not in wire


def decode_error(status: int, body: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    """An error answer, alone or in a list of one, or the error of a stream (status 0: the body has it)."""
    wire = lenient(body)
    first = wire[0] if isinstance(wire, list) and wire else wire
    error = first.get("error") if isinstance(first, dict) else None
    if not isinstance(error, dict):
        error = first if isinstance(first, dict) else {"message": first}
    message = error.get("message")
    found = provider_error(
        message if isinstance(message, str) else jsontext.compact(wire) if wire else "",
        status=status or whole(error.get("code")) or 0,
        code=_reason(error) or optional(error.get("status")),
        headers=headers,
        body=wire,
    )
    if found.retry_after is None:
        found.retry_after = _delay(error)
    return found


def _details(error: dict[str, Any]) -> list[dict[str, Any]]:
    details = error.get("details")
    return [item for item in details if isinstance(item, dict)] if isinstance(details, list) else []


def _reason(error: dict[str, Any]) -> str | None:
    """A wrong key is an invalid argument like any other, but for its reason."""
    return next((item["reason"] for item in _details(error) if item.get("reason") == "API_KEY_INVALID"), None)


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_TIME = r"(\d+(?:\.\d+)?)\s*(ms|h|m|s)"
_WAIT = re.compile(rf"\b(?:reset|retry) (?:after|in) ((?:{_TIME}\s*)+)", re.IGNORECASE)


def _delay(error: dict[str, Any]) -> float | None:
    """Seconds to wait: from RetryInfo, else from the words of the message."""
    told = next((item["retryDelay"] for item in _details(error) if isinstance(item.get("retryDelay"), str)), None)
    if told is None:
        found = _WAIT.search(str(error.get("message")))
        told = found[1] if found else ""
    times = re.findall(_TIME, told.lower())
    return sum(float(amount) * _UNITS[unit] for amount, unit in times) if times else None


STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    529: "UNAVAILABLE",
}
_CODES = {word: status for status, word in reversed(STATUSES.items())}


def _error_body(code: int, message: str, word: str | None) -> dict[str, Any]:
    # Google's own client takes a chunk for an error only if `error` is its first key.
    return {"error": {"code": code, "message": message, **({"status": word} if word else {})}}


def encode_error(error: ProviderError) -> tuple[int, Any]:
    status = status_of(error)
    body = _error_body(status, error.message, STATUSES.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT"))
    if error.retry_after is not None:
        delay = f"{error.retry_after:.3f}".rstrip("0").rstrip(".")
        body["error"]["details"] = [
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{delay}s"},
        ]
    return status, body


def path(model: str, stream: bool, *, quirks: Mapping[str, Any] | None = None) -> str:
    """Below the address of the API's version; at Vertex AI, below that of the project's location."""
    verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
    if _has_envelope(quirks):
        return f"/v1internal:{verb}"
    if model.startswith(("models/", "tunedModels/", "publishers/", "projects/", "endpoints/")):
        name = model
    elif quirks and quirks.get("publisher"):
        publisher, slash, rest = model.partition("/")
        name = f"publishers/{publisher}/models/{rest}" if slash else f"publishers/{quirks['publisher']}/models/{model}"
    else:
        name = f"models/{model}"
    return f"/{quote(name, safe='/@')}:{verb}"


def decode(data: Any, *, quirks: Mapping[str, Any] | None = None) -> Conversation:
    return decode_conversation(data, API, lambda body: decode_request(body, quirks=quirks), "contents")


def encode(conversation: Conversation, *, quirks: Mapping[str, Any] | None = None) -> Encoded:
    return encode_conversation(conversation, API, lambda request: encode_request(request, quirks=quirks), "contents")


# --- the same bodies elsewhere ---------------------------------------------------------------------------------------

VERTEX = Variant(sys.modules[__name__], "google-vertex", quirks={"publisher": "google"})
GEMINI_CLI = Variant(sys.modules[__name__], "google-gemini-cli", quirks={"envelope": True})
