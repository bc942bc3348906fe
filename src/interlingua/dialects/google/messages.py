"""Contents as messages: decoding and encoding. Results are parts of a user turn, paired with calls by id or name."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import BadWire, FormatError
from ...values.losses import QUIET, Reporter, own_fields
from ...values.messages import (
    AssistantMessage,
    AudioBlock,
    Block,
    Content,
    CustomMessage,
    DocumentBlock,
    Extra,
    ImageBlock,
    Message,
    OpaqueBlock,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
)
from ..codec import ANSWER, USER
from ..residual import (
    GENERATED,
    JOINED,
    MESSAGE,
    Ids,
    Mint,
    S,
    an_object,
    each,
    put_back,
    residual,
    residual_of,
    with_residual,
)
from ..results import Layout, encoded, gathered, mark_joined, split_results
from .content import DATA, decode_block, encode_block, encode_content, is_generated, listed
from .facts import ALONE, API, AS_JSON, KEY, PART_NAMES, camel, keeping, restored

LAYOUT = Layout(API)


class _Turns:
    """The state of decoding: the current role, and the open calls."""

    def __init__(self, api: str, mint: Mint | None) -> None:
        self.api = api
        self.ids = Ids(mint)
        self.open: list[tuple[str, str]] = []  # (id, name) of calls of the last turn without a result
        self.calls: dict[str, tuple[str, bool]] = {}  # call id -> (tool name, whether the id was generated)
        self.before: Message | None = None

    def called(self, calls: tuple[ToolCall, ...]) -> None:
        self.open = [(call.id, call.name) for call in calls]
        _note_calls(self.calls, calls)

    def answered(self, given: Any, name: Any) -> tuple[str, bool]:
        """The call id of a result: by id, else the first open call by name; and whether there is none."""
        if isinstance(given, str) and given:
            self.open = [call for call in self.open if call[0] != given]
            return given, False
        # Without ids, a response belongs to the first open call of its name:
        # ai.google.dev/gemini-api/docs/function-calling, Parallel function calling.
        for call in self.open:
            if call[1] == name:
                self.open.remove(call)
                return call[0], False
        return self.ids.take(None)


def _note_calls(known: dict[str, tuple[str, bool]], calls: tuple[ToolCall, ...]) -> None:
    for call in calls:
        known[call.id] = call.name, is_generated(call)


def decode_messages(wire: Any, api: str = API, mint: Mint | None = None) -> tuple[Message, ...]:
    """Decodes contents; one with function responses becomes several messages."""
    return _decode_piece(wire, _Turns(api, mint))


def pieces_of(wire: Iterable[Any]) -> Iterator[tuple[list[Any], tuple[Message, ...]]]:
    """The contents of a long list, in pieces that begin with an answer, with their messages.

    Results are joined, and media moved into them, within a piece.
    """
    turns, piece, first = _Turns(API, None), list[Any](), 0
    for at, content in enumerate(wire):
        if piece and isinstance(content, dict) and content.get("role") == "model":
            yield piece, _decode_piece(piece, turns, first)
            piece, first = [], at
        piece.append(content)
    if piece:
        yield piece, _decode_piece(piece, turns, first)


def _decode_piece(wire: Any, turns: _Turns, first: int = 0) -> tuple[Message, ...]:
    groups = each(wire, "contents", API, lambda content: _decode_content(content, turns), first)
    return gathered(tuple(message for group in groups for message in group), LAYOUT)


def _decode_content(wire: Any, turns: _Turns) -> list[Message]:
    role = an_object(wire, API).get("role")
    if role == "model":
        message = replace(ANSWER, extra={}, content=_decode_parts(wire, turns.ids), api=turns.api)
        # Responses answer the last turn of the model: calls before it are closed.
        turns.called(message.tool_calls)
        group: list[Message] = [_shelled(message, wire, "model")]
    elif role == "user" and (texts := _texts_of(wire)) is not None:
        group = [replace(USER, extra={}, content=texts)]
    # The role may be absent for one turn; `function` and `tool` are of older clients, for what is `user` now.
    elif role in ("user", "function", "tool", None):
        group = _decode_user(wire, turns)
    elif isinstance(role, str):
        group = [CustomMessage(role, {k: v for k, v in wire.items() if k != "role"})]  # type: ignore[list-item]
    else:
        raise BadWire(API, "a role must be user or model", "$.role")
    turns.before = group[-1]
    return group


def _texts_of(wire: dict[str, Any]) -> tuple[TextBlock, ...] | None:
    """The texts of a content that has a role and nothing else, as most of users; None of any other."""
    parts = wire.get("parts")
    if len(wire) != 2 or type(parts) is not list:
        return None
    texts = []
    for part in parts:
        if type(part) is not dict or len(part) != 1 or type(part.get("text")) is not str:
            return None
        texts.append(TextBlock(text=part["text"]))
    return tuple(texts)


def _decode_parts(wire: dict[str, Any], ids: Ids) -> Content:
    parts = listed(wire.get("parts"))
    return None if parts is None else tuple(each(parts, "parts", API, lambda part: decode_block(part, ids)))


def _shell(wire: dict[str, Any], role: str) -> dict[str, Any]:
    """The residual of a content without its parts, which have their own."""
    if len(wire) == 2 and wire.get("role") == role and isinstance(wire.get("parts"), list):
        return {}
    extra_fields = residual({k: v for k, v in wire.items() if k != "parts" or v is None}, {"role": role})
    if isinstance(wire.get("parts"), dict):
        extra_fields[ALONE] = True
    return extra_fields


def _shelled(message: S, wire: dict[str, Any], role: str) -> S:
    extra_fields = _shell(wire, role)
    return with_residual(message, API, **extra_fields) if extra_fields else message


def _decode_user(wire: dict[str, Any], turns: _Turns) -> list[Message]:
    parts = listed(wire.get("parts"))
    if not isinstance(parts, list) or not any(map(_is_result, parts)):
        return [_shelled(replace(USER, extra={}, content=_decode_parts(wire, turns.ids)), wire, "user")]
    pieces = split_results(
        parts, _is_result, lambda part: _decode_result(part, turns), lambda part: decode_block(part, turns.ids)
    )
    return mark_joined(pieces, _shell(wire, "user"), turns.before, API)


def _is_result(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    given = part.get("functionResponse", part.get("function_response"))
    return (
        isinstance(given, dict)
        and isinstance(given.get("name", ""), str)
        and isinstance(given.get("parts", []), list)
        and sum(key in part for key in _ANY_DATA) == 1
    )


_ANY_DATA = frozenset(spelled for spelled in (*PART_NAMES, "text") if PART_NAMES.get(spelled, ("text",))[0] in DATA)


def _decode_result(wire: dict[str, Any], turns: _Turns) -> ToolResultMessage:
    snakes: list[str] = []
    part = camel(wire, PART_NAMES, snakes)
    given = part["functionResponse"]
    id, orphan = turns.answered(given.get("id"), given.get("name"))
    content, failed, hints = _decode_response(given)
    result = ToolResultMessage(
        tool_call_id=id,
        tool_name=given["name"] if "name" in given else turns.calls.get(id, (None,))[0],
        content=content,
        is_error=failed,
        extra={API: hints | ({GENERATED: True} if orphan else {})} if hints or orphan else {},
    )
    return keeping(result, part, _encode_result_part(result, turns.calls, QUIET), snakes)


# Keys that clients use for the result of a tool. ai.google.dev/api/caching, FunctionResponse: `output` and `error`.
RESULTS = frozenset({"output", "error", "result", "return_value", "content"})


def _decode_response(fields: dict[str, Any]) -> tuple[Content, bool, dict[str, Any]]:
    """Content, error flag and hints of a function response."""
    media = tuple(map(_decode_beside, fields.get("parts", ())))
    if "response" not in fields or fields["response"] == {}:
        return (media or (() if "response" in fields else None)), False, {}
    response, hints = fields["response"], {}
    value, failed = response, _has_failed(response)
    # Vertex AI, FunctionResponse: without `output` and `error`, the whole response is the output.
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
    """The media of a function response."""
    block = decode_block(part, Ids(None))
    return block if isinstance(block, _MEDIA) else OpaqueBlock(dialect=API, value=part)


_MEDIA = (ImageBlock, AudioBlock, DocumentBlock, OpaqueBlock)


def _has_failed(response: Any) -> bool:
    """Whether it has only `error`, or a non-empty `error` beside other keys."""
    if not isinstance(response, dict):
        return False
    return "error" in response and (len(response) == 1 or bool(response["error"]))


def encode_messages(messages: tuple[Message, ...], report: Reporter) -> list[dict[str, Any]]:
    """Encodes messages; the results of one turn share a content."""
    return encoded(messages, LAYOUT, lambda found: _encode_messages(found, report), report)


def _encode_messages(messages: tuple[Message, ...], report: Reporter) -> list[dict[str, Any]]:
    emitted: list[dict[str, Any]] = []
    before: Message | None = None
    calls: dict[str, tuple[str, bool]] = {}
    for at, message in enumerate(messages):
        report.message = at
        match message:
            case UserMessage():
                _add_user(emitted, message, before, report)
            case AssistantMessage():
                emitted.append(_encode_message("model", message.content, message.extra, report))
                if type(message.content) is tuple:
                    _note_calls(calls, message.tool_calls)
            case ToolResultMessage():
                _join_result(emitted, message, before, calls, report)
            case CustomMessage():  # an unknown role of this wire
                emitted.append({"role": message.role, **message.fields})
            case _:
                report.lost("system message", "this wire has no later system messages")
        before = message
    return emitted


def _encode_message(role: str, content: Content, extra: Extra, report: Reporter) -> dict[str, Any]:
    parts = encode_content(content, report)
    wire: dict[str, Any] = {"role": role} if parts is None else {"role": role, "parts": parts}
    return _shaped(wire, extra.get(API)) if extra else wire


def _shaped(wire: dict[str, Any], extra_fields: Mapping[str, Any] | None) -> dict[str, Any]:
    if extra_fields:
        put_back(wire, extra_fields)
        if extra_fields.get(ALONE) and len(wire.get("parts") or ()) == 1:
            wire["parts"] = wire["parts"][0]
    return wire


def _add_user(emitted: list[dict[str, Any]], message: UserMessage, before: Message | None, report: Reporter) -> None:
    extra_fields = residual_of(message.extra, API)
    wire = _encode_message("user", message.content, message.extra, report)
    if extra_fields.get(JOINED) and _takes_parts(before, emitted) and isinstance(wire.get("parts"), list):
        emitted[-1]["parts"].extend(wire["parts"])
    else:
        emitted.append(_shaped(wire, extra_fields.get(MESSAGE)))


def _join_result(
    emitted: list[dict[str, Any]],
    message: ToolResultMessage,
    before: Message | None,
    calls: dict[str, tuple[str, bool]],
    report: Reporter,
) -> None:
    extra_fields = residual_of(message.extra, API)
    part = _encode_result_part(message, calls, report)
    # …/docs/function-calling: the responses to parallel calls are sent together in one content; the API refuses a turn
    # with fewer responses than calls.
    if extra_fields.get(JOINED, isinstance(before, ToolResultMessage)) and _takes_parts(before, emitted):
        emitted[-1]["parts"].append(part)
    else:
        emitted.append(_shaped({"role": "user", "parts": [part]}, extra_fields.get(MESSAGE)))


def _takes_parts(before: Message | None, emitted: list[dict[str, Any]]) -> bool:
    return isinstance(before, (ToolResultMessage, UserMessage)) and isinstance(emitted[-1].get("parts"), list)


def _encode_result_part(
    result: ToolResultMessage, calls: Mapping[str, tuple[str, bool]], report: Reporter
) -> dict[str, Any]:
    """A result as a part, with the id of its call if it has one, and the name of its tool."""
    called, generated = calls.get(result.tool_call_id, (None, False))
    fields: dict[str, Any] = {}
    if not generated and not is_generated(result):
        if result.tool_call_id:
            fields["id"] = result.tool_call_id
        else:
            report.lost("tool_call_id", "an empty id is none", "weakened", field="toolCallId")
    name = called if result.tool_name is None else result.tool_name
    if name is not None:
        fields["name"] = name
    _encode_result(fields, result, report)
    wire = {"functionResponse": fields}
    return restored(wire, result.extra) if result.extra else wire


def _encode_result(fields: dict[str, Any], result: ToolResultMessage, report: Reporter) -> None:
    """The content of a result: text as one value of the response, media as parts."""
    content = result.content
    if content is None:
        if result.is_error:
            report.lost("is_error", "there is no content to be an error", "weakened", field="isError")
        return
    if isinstance(content, str):
        report.lost("content", "a string becomes a text block", "record", field="content")
    texts: list[str] = []
    media: list[Any] = []
    moved = False
    for at, block in enumerate(blocks_of(content)):
        report.block = at
        if isinstance(block, TextBlock):
            moved = moved or bool(media)
            texts.append(block.text)
            _report_lost_text(block, report)
        elif isinstance(block, _MEDIA):
            part = encode_block(block, report)
            if part is not None:
                media.append(part)
        else:
            report.lost(type(block).__name__, "a result has text and media")
    report.block = None
    # `response` and `parts` are fields of their own, without an order between them.
    if moved:
        report.lost("content", "the text of a result stands before its media", "weakened", field="content")
    if len(texts) > 1:
        report.lost("content", "the text of a result is one string: joined by line breaks", "weakened", field="content")
    if texts or result.is_error:
        if not texts:
            report.lost("content", "an error has a text, if only an empty one", "weakened", field="content")
        fields["response"] = _response_of("\n".join(texts), result)
    else:
        # `response` is required, and an object.
        fields["response"] = {}
    # ai.google.dev/api/caching, FunctionResponse, `parts`: media beside the response, from Gemini 3 on.
    if media:
        fields["parts"] = media


def _report_lost_text(block: TextBlock, report: Reporter) -> None:
    if block.text_signature is not None:
        report.lost("text_signature", "the text of a result cannot be signed", field="textSignature")
    if block.extra:
        for key in own_fields(residual_of(block.extra, API)):
            report.lost(key, "the text of a result is no part", field=f"extra.{API}.{key}")


def _response_of(text: str, result: ToolResultMessage) -> Any:
    """The response object: in its original form if that still has the same content, else the documented one."""
    usual = "error" if result.is_error else "output"
    extra_fields = residual_of(result.extra, API)
    key = extra_fields.get(KEY, usual)
    value: Any = text
    if extra_fields.get(AS_JSON):
        value = _parsed(text)
    if key is None:
        return value if value is not text and _has_failed(value) == result.is_error else {usual: text}
    response = {key: value}
    return response if _has_failed(response) == result.is_error else {usual: text}


def _parsed(text: str) -> Any:
    """The value whose compact JSON is this text, else the text."""
    try:
        value = jsontext.read(text)
        return value if not isinstance(value, str) and jsontext.compact(value) == text else text
    except FormatError:
        return text
