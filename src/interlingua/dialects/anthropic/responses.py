"""Responses, whole and streamed: decoding and encoding."""

from typing import Any

from msgspec.structs import replace

from ...values.errors import ProviderError
from ...values.losses import QUIET, Reporter
from ...values.messages import (
    AssistantMessage,
    Block,
    Content,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
    blocks_of,
)
from ...values.request import Request
from ...values.tokens import estimate, taken
from ..codec import Given, Quirks, response_decoder, response_encoder
from ..framing import Frame, json_line, write_sse
from ..residual import (
    RESPONSE,
    an_object,
    count,
    fields_of,
    generated_id,
    keeping,
    keeping_response,
    model_names,
    named,
    optional,
    own_stop_reason,
    put_back,
    reason_for,
    restored,
    whole,
)
from ..streaming import Decoder, Encoder, OpenBlocks
from .content import decode_block, decode_content, decode_redacted, encode_block, encode_content
from .facts import API, RESPONSE_SUPPORT, STOP_REASONS, WIRE_STOP_REASONS, decode_error, encode_error

# --- whole answers ---------------------------------------------------------------------------------------------------


@response_decoder(API)
def decode_response(body: Any, base: AssistantMessage, given: Given) -> AssistantMessage:
    """A whole answer."""
    wire = an_object(body, API)
    # An error of the API has `type: "error"` (platform.claude.com/docs/en/api/errors); proxies leave it out.
    if wire.get("type") == "error" or ("error" in wire and "content" not in wire):
        raise decode_error(0, wire)
    return decode_answer(wire, decode_content(wire.get("content")), base)


def decode_answer(
    wire: dict[str, Any], content: Content, base: AssistantMessage, usage: Usage | None = None
) -> AssistantMessage:
    """The message with this content and usage, which are already decoded, and the envelope `wire`."""
    envelope = decode_envelope(wire, base, usage)
    decoded = content if isinstance(content, tuple) else blocks_of(content)
    stop = optional(wire.get("stop_reason"))
    reason = reason_for(stop, STOP_REASONS, decoded)
    message = replace(
        base,
        content=content,
        **envelope,
        stop_reason=reason,
        stop_detail=stop,
        error_message=f"the provider stopped: {_refusal(wire, stop)}" if reason == "error" else None,
    )
    if _is_usual(wire) and message.response_id and stop in STOP_REASONS:
        return message
    blocks, counts = wire.get("content"), wire.get("usage")
    # Content blocks and usage have residuals of their own.
    emitted = _encode_answer(
        message,
        blocks if isinstance(blocks, list) else encode_content(decoded, QUIET),
        counts if isinstance(counts, dict) else _encode_usage(None),
    )
    return keeping_response(message, API, wire, emitted)


def _is_usual(wire: dict[str, Any]) -> bool:
    """Whether an envelope with an id and a known stop reason has no residual: it would be encoded as it is."""
    return (
        wire.keys() == _USUAL.keys()
        and wire["type"] == "message"
        and wire["role"] == "assistant"
        and wire["model"] != ""
        and list(map(type, wire.values())) == list(map(_USUAL.get, wire))
    )


_USUAL: dict[str, type] = {
    "id": str,
    "type": str,
    "role": str,
    "model": str,
    "content": list,
    "stop_reason": str,
    "stop_sequence": type(None),
    "usage": dict,
}


def decode_envelope(wire: dict[str, Any], base: AssistantMessage, usage: Usage | None = None) -> dict[str, Any]:
    return {
        "usage": usage or decode_usage(wire.get("usage")),
        "response_id": optional(wire.get("id")) or None,
        **model_names(base, optional(wire.get("model"))),
    }


def _refusal(wire: dict[str, Any], stop: str | None) -> str:
    # `stop_details` says why a request was refused; null for all other stop reasons (…/api/messages).
    given = fields_of(wire.get("stop_details")).get("explanation")
    return given if isinstance(given, str) else stop or "no reason given"


def decode_usage(wire: Any) -> Usage | None:
    if not isinstance(wire, dict):
        return None
    # `input_tokens` excludes cache reads and writes: docs.claude.com/en/docs/build-with-claude/prompt-caching.
    if wire.keys() == _COUNTS and set(map(type, wire.values())) == {int}:  # nothing is left for a residual
        return Usage(
            input=wire["input_tokens"],
            output=wire["output_tokens"],
            cache_read=wire["cache_read_input_tokens"],
            cache_write=wire["cache_creation_input_tokens"],
            total_tokens=sum(wire.values()),
        )
    usage = Usage.of(
        count(wire, "input_tokens"),
        count(wire, "output_tokens"),
        cache_read=count(wire, "cache_read_input_tokens"),
        cache_write=count(wire, "cache_creation_input_tokens"),
        reasoning=whole(fields_of(wire.get("output_tokens_details")).get("thinking_tokens")),
    )
    return keeping(usage, API, wire, _encode_usage(usage))


_COUNTS = {"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"}


def _encode_usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {"input_tokens": 0, "output_tokens": 0}
    wire: dict[str, Any] = {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    }
    # `output_tokens` includes these; the details only divide it (…/api/messages, `usage`).
    if usage.reasoning is not None:
        wire["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return restored(wire, usage.extra, API)


@response_encoder(API, RESPONSE_SUPPORT)
def encode_response(
    message: AssistantMessage, report: Reporter, request: Request | None, quirks: Quirks
) -> dict[str, Any]:
    """The body of a whole answer."""
    return whole_answer(named(message, request), encode_content(blocks_of(message.content), report))


def whole_answer(message: AssistantMessage, content: Any) -> dict[str, Any]:
    emitted = _encode_answer(message, content, _encode_usage(message.usage))
    return put_back(emitted, message.extra.get(API, {}).get(RESPONSE, {}))


def _encode_answer(message: AssistantMessage, content: Any, usage: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": message.response_id or generated_id(message, "msg_"),
        "type": "message",
        "role": "assistant",
        "model": message.response_model or message.model or "",
        "content": content,
        "stop_reason": own_stop_reason(message, STOP_REASONS) or WIRE_STOP_REASONS.get(message.stop_reason or ""),
        # The sequence that matched; a received one is put back from the residual.
        "stop_sequence": None,
        "usage": usage,
    }


# --- streamed answers: docs.claude.com/en/docs/build-with-claude/streaming -------------------------------------------
#
# The decoder assembles the wire's message and decodes it as a whole answer, so both give equal messages.


class StreamDecoder(Decoder):
    """Decodes the frames of a streamed answer."""

    API = API

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._shell: dict[str, Any] = {}  # the wire's message without content
        self._blocks: dict[Any, dict[str, Any]] = {}  # the wire's open blocks, by index

    def _read(self, value: Any, frame: Frame) -> None:
        kind = value.get("type")
        # platform.claude.com/docs/en/build-with-claude/streaming: clients accept event types that they don't know, as
        # new ones may be added.
        if kind == "content_block_delta":
            self._delta(value["index"], value["delta"])
        elif kind is None:
            if "error" not in value:
                raise KeyError("type")
            self._error(value)
        else:
            handle = _HANDLERS.get(kind)
            if handle is not None:
                handle(self, value)

    def _complete(self) -> bool:
        # `message_delta` carries the stop reason: after it, a missing `message_stop` loses nothing.
        return bool(self._shell.get("stop_reason")) and not self._blocks

    def _start(self, event: dict[str, Any]) -> None:
        self._shell = dict(event["message"])
        self._record.note(**decode_envelope(self._shell, self._given))
        self._record.begin()

    def _open(self, event: dict[str, Any]) -> None:
        key, wire = event["index"], dict(event["content_block"])
        if key in self._blocks:  # the block was never closed
            self._close(event)
        self._blocks[key] = wire
        match wire["type"]:
            case "text":
                self._record.open(key, TextBlock(text=wire["text"]))
            case "thinking":
                if wire.get("signature") == "":  # a placeholder: a signature comes as `signature_delta`
                    del wire["signature"]
                self._record.open(key, ThinkingBlock(thinking=wire["thinking"]))
            case "redacted_thinking":
                self._record.open(key, decode_redacted(wire))
            # `input` is `{}` here and comes as `input_json_delta`; calls that code makes (`caller`) have it whole here.
            case "tool_use":
                self._record.open(key, ToolCall(id=wire["id"], name=wire["name"], arguments={}))
            case _:
                self._record.open(key, OpaqueBlock(dialect=API, value=wire))

    def _delta(self, key: Any, delta: dict[str, Any]) -> None:
        kind = delta["type"]
        field = _STREAMED.get(kind)
        if key not in self._blocks:  # the start of the block is missing
            self._open({"index": key, "content_block": _UNOPENED.get(kind, {"type": "unknown"})})
        if field is not None:
            self._record.delta(key, delta[field])
            if kind == "input_json_delta":
                self._blocks[key].setdefault(_PIECES, []).append(delta[field] or "")
        elif kind == "citations_delta":
            self._blocks[key]["citations"] = [*(self._blocks[key].get("citations") or ()), delta["citation"]]
        else:
            _merge(self._blocks[key], delta)

    def _close(self, event: dict[str, Any]) -> None:
        key = event["index"]
        if key in self._blocks:
            self._record.close(key, self._finished(key, self._blocks.pop(key)))

    def _finished(self, key: Any, wire: dict[str, Any]) -> Block:
        """Decodes the assembled block as a whole answer would have it."""
        pieces = wire.pop(_PIECES, None)
        if wire["type"] == "text":
            wire["text"] = self._record.text(key)
            if len(wire) == 2:  # as most are: nothing but text
                return TextBlock(text=wire["text"])
        elif wire["type"] == "thinking":
            wire["thinking"] = self._record.text(key)
        elif pieces is not None:
            # The fragments are parts of one JSON text that is complete at `content_block_stop`. It is empty for a tool
            # without arguments.
            text = "".join(pieces)
            arguments, broken = self._object_arguments(text, f"$.content[{key}].input")
            if broken is not None:
                block = decode_block({**wire, "input": {}})
                return replace(block, arguments_text=text, parse_error=broken) if isinstance(block, ToolCall) else block
            wire["input"] = arguments or wire.get("input", {})
        return decode_block(wire)

    def _message_delta(self, event: dict[str, Any]) -> None:
        self._shell.update(event["delta"])
        for key, value in event.items():
            if key == "usage":
                before = self._shell.get("usage") or {}  # counts are cumulative; proxies send null for those they lack
                fields = {k: v for k, v in (value or {}).items() if v is not None or k not in before}
                self._shell["usage"] = {**before, **fields}
            elif key not in ("type", "delta"):
                self._shell[key] = value
        self._record.note(usage=decode_usage(self._shell.get("usage")))

    def _unstreamed(self, message: dict[str, Any]) -> None:
        """A whole answer although a stream was requested."""
        self._start({"message": message})
        self._answered(decode_answer(message, decode_content(message.get("content")), self._given))

    def _stop(self, event: dict[str, Any]) -> None:
        self._finish()

    def _finish(self) -> None:
        self._close_blocks()
        content = tuple(self._record.content)
        usage = self._record.base.usage  # of the last event that had one
        self._record.end(decode_answer({**self._shell, "content": []}, content, self._given, usage))

    def _error(self, event: dict[str, Any]) -> None:
        self._failed(decode_error(0, event))

    def _close_blocks(self) -> None:
        for key in list(self._blocks):
            self._close({"index": key})


_PIECES = "~pieces"  # argument fragments, stored in the open block
_STREAMED = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_UNOPENED = {
    "text_delta": {"type": "text", "text": ""},
    "citations_delta": {"type": "text", "text": ""},
    "thinking_delta": {"type": "thinking", "thinking": ""},
    "signature_delta": {"type": "thinking", "thinking": ""},
    "input_json_delta": {"type": "tool_use", "id": "", "name": "", "input": {}},
}
_HANDLERS = {
    "message": StreamDecoder._unstreamed,
    "message_start": StreamDecoder._start,
    "content_block_start": StreamDecoder._open,
    "content_block_stop": StreamDecoder._close,
    "message_delta": StreamDecoder._message_delta,
    "message_stop": StreamDecoder._stop,
    "error": StreamDecoder._error,
}


def _merge(wire: dict[str, Any], delta: dict[str, Any]) -> None:
    """Merges a delta of an unknown type: strings are appended, other values replaced."""
    for key, value in delta.items():
        if key == "type":
            continue
        before = wire.get(key)
        wire[key] = before + value if isinstance(before, str) and isinstance(value, str) else value


class StreamEncoder(Encoder):
    """Encodes a streamed answer. Blocks that the wire does not have leave no gap in its indices."""

    encode_response = staticmethod(encode_response)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._envelope: dict[str, Any] = {}  # the envelope in `message_start`
        self._opened = 0
        self._places: OpenBlocks[int] = OpenBlocks()  # our index of an open block -> the wire's
        # Thinking that is not opened yet: its first text, or its end, shows whether it is redacted.
        self._waiting: dict[int, bool] = {}

    def _counted(self, message: AssistantMessage) -> AssistantMessage:
        """With input tokens, which clients read from `message_start`; an estimate if the count is not known yet."""
        usage = message.usage
        if self._request is None or (usage is not None and usage.input + usage.cache_read + usage.cache_write):
            return message
        return replace(message, usage=Usage.of(taken(self._request.context), estimate(message)))

    def _start(self, message: AssistantMessage) -> bytes:
        # `stop_reason` is null in `message_start` and set in `message_delta` (…/api/messages, `stop_reason`).
        self._envelope = whole_answer(self._counted(message), []) | {"stop_reason": None}
        return _event({"type": "message_start", "message": self._envelope})

    def _text(self, index: int, text: str) -> bytes:
        return _delta(self._places[index], {"type": "text_delta", "text": text})

    def _thinking(self, index: int, text: str) -> bytes:
        delta = {"type": "thinking_delta", "thinking": text}
        redacted = self._waiting.get(index)
        if redacted is None:
            return _delta(self._places[index], delta)
        if redacted:  # encoded at its end
            return b""
        del self._waiting[index]
        return self._open(index, _THINKING) + _delta(self._places[index], delta)

    def _arguments(self, index: int, text: str) -> bytes:
        return _delta(self._places[index], {"type": "input_json_delta", "partial_json": text})

    def _open_text(self, index: int, block: TextBlock) -> bytes:
        return self._open(index, {"type": "text", "text": ""})

    def _open_thinking(self, index: int, block: ThinkingBlock) -> bytes:
        self._waiting[index] = block.redacted
        return b""

    def _open_call(self, index: int, call: ToolCall) -> bytes:
        return self._open(index, {"type": "tool_use", "id": call.id, "name": call.name, "input": {}})

    def _end_text(self, index: int, block: Block, *, whole: bool = False) -> bytes:
        """The end of a block, after the fields that no delta carries."""
        wire = encode_block(block, QUIET)
        before = b""
        if whole or (isinstance(block, ThinkingBlock) and block.redacted):
            if index in self._places:  # it began as a block of another kind
                before = _stop(self._places.end(index))
            if wire is None:
                return before
            before += self._open(index, wire)
        elif self._waiting.pop(index, None) is not None:
            before = self._open(index, _THINKING) + _remaining_deltas(self._places[index], wire or {})
        else:
            before = _remaining_deltas(self._places[index], wire or {})
        return before + _stop(self._places.end(index))

    _end_thinking = _end_call = _end_text

    def _end_block(self, index: int, block: Block) -> bytes:
        return self._end_text(index, block, whole=True)

    def _end(self, message: AssistantMessage) -> bytes:
        """The stop reason and what the first event did not have."""
        if message.usage is None:  # no count came: zero would replace the estimate of the first event
            message = self._counted(message)
        whole, fields = whole_answer(message, []), self._envelope
        delta = {
            k: v for k, v in whole.items() if k != "usage" and (k in _AT_THE_END or k not in fields or fields[k] != v)
        }
        # The counts in `message_delta` are cumulative and replace those of `message_start`.
        end = _event({"type": "message_delta", "delta": delta, "usage": whole.get("usage")})
        return end + _event({"type": "message_stop"})

    def _is_stop(self, message: AssistantMessage) -> bool:
        return STOP_REASONS.get(message.stop_detail or "") == "error"

    def _failure(self, error: ProviderError) -> bytes:
        return _event(encode_error(error)[1])

    def _open(self, index: int, block: dict[str, Any]) -> bytes:
        place = self._places[index] = self._opened
        self._opened += 1
        return _event({"type": "content_block_start", "index": place, "content_block": block})


_THINKING = {"type": "thinking", "thinking": "", "signature": ""}
_ENCODED = frozenset({"type", "text", "thinking", "id", "name", "input"})


def _event(value: dict[str, Any]) -> bytes:
    return write_sse(json_line(value), value["type"])


def _delta(place: int, delta: dict[str, Any]) -> bytes:
    return _event({"type": "content_block_delta", "index": place, "delta": delta})


def _stop(place: int) -> bytes:
    return _event({"type": "content_block_stop", "index": place})


def _remaining_deltas(place: int, wire: dict[str, Any]) -> bytes:
    """Deltas for the fields of a finished block beside its text or arguments."""
    rest = {k: v for k, v in wire.items() if k not in _ENCODED}
    encoded = b""
    # One delta per citation: a delta carries exactly one, under `citation`.
    for citation in rest.pop("citations", None) or ():
        encoded += _delta(place, {"type": "citations_delta", "citation": citation})
    # A thinking block's signature is the last delta before `content_block_stop`.
    if "signature" in rest:
        encoded += _delta(place, {"type": "signature_delta", "signature": rest.pop("signature")})
    if rest:
        encoded += _delta(place, {"type": "block_delta", **rest})
    return encoded


_AT_THE_END = ("stop_reason", "stop_sequence")
