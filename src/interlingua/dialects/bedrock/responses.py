"""Responses, whole and streamed: decoding and encoding."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import BadWire, FormatError, ProviderError
from ...values.losses import QUIET, Reporter
from ...values.messages import (
    AssistantMessage,
    Block,
    OpaqueBlock,
    ServerToolCall,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
)
from ...values.request import Request
from ..codec import Given, Quirks, response_decoder, response_encoder
from ..framing import AWSEventStream, Frame, Framing, framing_for, write_aws
from ..provider_errors import error_text
from ..residual import (
    RESPONSE,
    an_object,
    count,
    each,
    fields_of,
    joined_base64,
    keeping,
    keeping_response,
    optional,
    own_stop_reason,
    put_back,
    reason_for,
    residual_of,
    restored,
    string,
    whole,
)
from ..streaming import Decoder, Encoder
from .content import SERVER, decode_block, encode_block, encode_content
from .facts import API, EXCEPTION_OF, EXCEPTIONS, RESPONSE_SUPPORT, STOP_REASONS, WIRE_STOP_REASONS, decode_error

# --- whole answers ---------------------------------------------------------------------------------------------------


@response_decoder(API)
def decode_response(body: Any, base: AssistantMessage, given: Given) -> AssistantMessage:
    """A whole answer."""
    wire = an_object(body, API)
    if "output" not in wire:
        # Errors have no common shape: `message` in JSON of the service, `Message` from the layer in front of it.
        is_error = not wire.keys().isdisjoint(("message", "Message", "__type"))
        raise decode_error(0, wire) if is_error else BadWire(API, "an answer without output", "$.output")
    content = an_object(an_object(wire["output"], API, "$.output")["message"], API, "$.output.message")["content"]
    return decode_answer(wire, tuple(each(content, "output.message.content", API, decode_block)), base)


def decode_answer(wire: dict[str, Any], content: tuple[Block, ...], base: AssistantMessage) -> AssistantMessage:
    """The message with this content, which is already decoded, and the envelope `wire`."""
    stop = optional(wire.get("stopReason"))
    reason = reason_for(stop, STOP_REASONS, content)
    message = replace(
        base,
        content=content,
        usage=decode_usage(wire.get("usage")),
        stop_reason=reason,
        stop_detail=stop,
        error_message=f"the provider stopped: {_stop_text(wire, stop)}" if reason == "error" else None,
    )
    return keeping_response(message, API, wire, _encode_answer(message, wire["output"]["message"]["content"]))


def _stop_text(wire: dict[str, Any], stop: str | None) -> str:
    """The stop reason, with that of the guardrail if there is one."""
    # API_runtime_GuardrailTraceAssessment.html: why it intervened.
    reason = fields_of(fields_of(wire.get("trace")).get("guardrail")).get("actionReason")
    given = stop or "no reason given"
    return f"{given}: {reason}" if isinstance(reason, str) else given


def decode_usage(wire: Any) -> Usage | None:
    if not isinstance(wire, dict):
        return None
    # `inputTokens` excludes cache reads and writes; `totalTokens` includes them (API_runtime_TokenUsage.html).
    usage = Usage.of(
        count(wire, "inputTokens"),
        count(wire, "outputTokens"),
        cache_read=count(wire, "cacheReadInputTokens"),
        cache_write=count(wire, "cacheWriteInputTokens"),
        total_tokens=whole(wire.get("totalTokens")),
    )
    return keeping(usage, API, wire, _encode_usage(usage))


def _encode_usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
    wire: dict[str, Any] = {
        "inputTokens": usage.input,
        "outputTokens": usage.output,
        "totalTokens": usage.total_tokens,
    }
    if usage.cache_read:
        wire["cacheReadInputTokens"] = usage.cache_read
    if usage.cache_write:
        wire["cacheWriteInputTokens"] = usage.cache_write
    return restored(wire, usage.extra, API)


@response_encoder(API, RESPONSE_SUPPORT)
def encode_response(
    message: AssistantMessage, report: Reporter, request: Request | None, quirks: Quirks
) -> dict[str, Any]:
    """The body of a whole answer; the wire has neither a model nor an id."""
    return whole_answer(message, encode_content(message.content, report, points=False))


def whole_answer(message: AssistantMessage, content: list[Any]) -> dict[str, Any]:
    return put_back(_encode_answer(message, content), residual_of(message.extra, API).get(RESPONSE, {}))


def _encode_answer(message: AssistantMessage, content: list[Any]) -> dict[str, Any]:
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": own_stop_reason(message, STOP_REASONS) or WIRE_STOP_REASONS.get(message.stop_reason or ""),
        "usage": _encode_usage(message.usage),
        "metrics": {"latencyMs": 0},  # required: API_runtime_ConverseMetrics.html
    }


# --- streamed answers: API_runtime_ConverseStream.html in the Bedrock API reference ----------------------------------
#
# Only tools, results and images have a start event; text and reasoning begin with their first delta. Usage comes after
# the stop, in `metadata`. The decoder assembles the wire's whole answer and decodes that.


def framing(content_type: str | None = None) -> Framing:
    """AWS frames; a JSON body is an error, or a whole answer."""
    return framing_for(content_type, AWSEventStream)


class _Open:
    """An open block: its kind, and the fields received beside the recorded text."""

    __slots__ = ("citations", "kind", "more", "pieces", "sealed", "wire")

    def __init__(self, kind: str, wire: dict[str, Any] | None = None) -> None:
        self.kind = kind
        self.wire: dict[str, Any] = {} if wire is None else wire
        self.pieces: list[str] = []  # fragments of arguments, a signature or an image
        self.sealed: list[str] = []  # fragments of redacted thinking
        self.citations: list[Any] = []
        self.more: dict[str, Any] = {}  # unknown fields, as in a whole block


class StreamDecoder(Decoder):
    """Decodes the frames of a streamed answer."""

    API = API

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        # The wire's whole answer, without its content.
        self._shell: dict[str, Any] = {"output": {"message": {}}}
        self._blocks: dict[Any, _Open] = {}  # the wire's open blocks, by index
        self._stopped = False

    def _read(self, value: Any, frame: Frame) -> None:
        name = frame.event
        if name == "contentBlockDelta":
            key, delta = value["contentBlockIndex"], value["delta"]
            text = delta.get("text")
            if text:
                block = self._blocks.get(key)
                if block is not None and block.kind == "text":
                    self._record.delta(key, text)
                    return
            self._delta(key, delta)
        elif name in _HANDLERS:
            _HANDLERS[name](self, value)
        elif frame.headers is not None and frame.headers.get(":message-type", "event") != "event":
            self._exception(value, frame)
        elif not name:
            self._unnamed(value, frame)

    def _unreadable(self, frame: Frame, error: FormatError) -> None:
        text = (frame.headers or {}).get(":error-message")
        if isinstance(text, str):  # an error may have headers only
            self._exception({"message": text}, frame)
        else:
            super()._unreadable(frame, error)

    def _complete(self) -> bool:
        return self._stopped

    def _start(self, event: dict[str, Any]) -> None:
        self._shell["output"]["message"].update(_unpadded(event))
        self._record.begin()

    def _open(self, event: dict[str, Any]) -> None:
        key, start = event["contentBlockIndex"], dict(event["start"])
        if key in self._blocks:
            self._close(event)
        # API_runtime_ContentBlockStart.html: a union; text and reasoning have no start.
        kind = next(iter(start), "") if len(start) == 1 else ""
        given: Any = start.get(kind)
        # Not in the API: some proxies announce text as they announce calls.
        if start == {"text": ""}:
            self._begin(key, "text")
        elif kind == "toolUse" and _is_named(given):
            self._open_call(key, dict(given))
        else:
            apart = kind in ("toolResult", "image") and isinstance(given, dict)
            self._blocks[key] = _Open(kind, dict(given)) if apart else _Open("", start)
            self._record.open(key, OpaqueBlock(dialect=API, value=start))

    def _open_call(self, key: Any, use: dict[str, Any]) -> None:
        if use.get("type") == SERVER:
            self._blocks[key] = _Open(SERVER, use)
            self._record.open(key, ServerToolCall(id=use["toolUseId"], name=use["name"]))
        else:
            self._blocks[key] = _Open("toolUse", use)
            self._record.open(key, ToolCall(id=use["toolUseId"], name=use["name"], arguments={}))

    def _begin(self, key: Any, kind: str) -> _Open:
        """Opens a block without a start event."""
        if key in self._blocks:  # another kind under the same index is another block
            self._close({"contentBlockIndex": key})
        self._blocks[key] = block = _Open(kind)
        if kind == "text":
            self._record.open(key, TextBlock(text=""))
        elif kind == "reasoning":
            self._record.open(key, ThinkingBlock(thinking=""))
        else:
            self._record.open(key, OpaqueBlock(dialect=API, value=None))
        return block

    def _delta(self, key: Any, delta: dict[str, Any]) -> None:
        block = self._blocks.get(key)
        for kind, value in delta.items():
            sort = _SORTS.get(kind, "")
            if not sort and block is not None and block.kind:  # an unknown field of the open block
                block.more = _merged(block.more, {kind: value})
                continue
            if block is None or not _continues(block, sort):
                block = self._begin(key, sort)
            self._append_delta(key, block, kind, value)

    def _append_delta(self, key: Any, block: _Open, kind: str, value: Any) -> None:
        match kind:
            case "text":
                self._record.delta(key, string(value))
            case "toolUse":
                # API_runtime_ToolUseBlockDelta.html: `input` is JSON text in fragments, though an object in a whole
                # answer.
                piece = string(value.get("input", ""))
                if block.kind == "toolUse":
                    self._record.delta(key, piece)
                block.pieces.append(piece)
                if len(value) > 1 or "input" not in value:
                    rest = {field: given for field, given in value.items() if field != "input"}
                    block.more = _merged(block.more, {kind: rest})
            case "reasoningContent":
                self._append_reasoning(key, block, value)
            case "citation":
                block.citations.append(value)
            case "toolResult":
                block.wire.setdefault("content", []).extend(value)
            case "image":
                _append_image(block, value)
            case _:
                block.wire = {**block.wire, kind: value}

    def _append_reasoning(self, key: Any, block: _Open, value: dict[str, Any]) -> None:
        for field, piece in value.items():
            if field == "text":
                self._record.delta(key, string(piece))
            elif field == "signature":
                block.pieces.append(string(piece))
            elif field == "redactedContent":
                # Fragments of base64: each is padded by itself.
                block.sealed.append(string(piece))
            else:
                block.more = _merged(block.more, {"reasoningContent": {field: piece}})

    def _close(self, event: dict[str, Any]) -> None:
        key = event["contentBlockIndex"]
        if key in self._blocks:
            self._record.close(key, self._finished(key, self._blocks.pop(key)))

    def _finished(self, key: Any, block: _Open) -> Block:
        """Decodes the assembled block as a whole answer would have it."""
        wire = self._assembled(key, block)
        text = broken = None
        if block.kind == "toolUse":
            text = "".join(block.pieces)
            arguments, broken = self._object_arguments(text, f"$.output.message.content[{key}].toolUse.input")
            wire["toolUse"]["input"] = arguments or wire["toolUse"].get("input", {})
        read = decode_block(_merged(wire, block.more))
        if broken is not None and isinstance(read, ToolCall):
            return replace(read, arguments_text=text, parse_error=broken)
        return read

    def _assembled(self, key: Any, block: _Open) -> dict[str, Any]:
        match block.kind:
            case "text":
                return _encoded_text(self._record.text(key), block.citations)
            case "reasoning":
                if block.sealed:
                    return {"reasoningContent": {"redactedContent": joined_base64(block.sealed)}}
                signature = "".join(block.pieces) if block.pieces else None
                return _encoded_reasoning(self._record.text(key), signature)
            case "server_tool_use":
                return {"toolUse": {**block.wire, "input": _any_json("".join(block.pieces), block.wire)}}
            case "image" if block.pieces:
                source = {**block.wire.get("source", {}), "bytes": joined_base64(block.pieces)}
                return {"image": {**block.wire, "source": source}}
            case "toolUse" | "toolResult" | "image":
                return {block.kind: block.wire}
            case _:
                return dict(block.wire)

    def _stop(self, event: dict[str, Any]) -> None:
        self._shell.update(_unpadded(event))
        self._stopped = True

    def _metadata(self, event: dict[str, Any]) -> None:
        given = _unpadded(event)
        output = given.pop("output", None)
        if isinstance(output, dict):  # written by our encoder, which learned it after `messageStart`
            message = {**self._shell["output"]["message"], **fields_of(output.get("message"))}
            self._shell["output"] = {**output, "message": message}
        self._shell.update(given)
        self._record.note(usage=decode_usage(self._shell.get("usage")))
        # `metadata` follows `messageStop` and ends the stream.
        if self._stopped:
            self._finish()

    def _finish(self) -> None:
        self._close_blocks()
        output = self._shell["output"]
        wire = {**self._shell, "output": {**output, "message": {**output["message"], "content": []}}}
        self._record.end(decode_answer(wire, tuple(self._record.content), self._given))

    # Recordings and proxies decode the AWS frames to JSON, with the event's name as the only key.
    def _unnamed(self, value: Any, frame: Frame) -> None:
        """A frame without a name: an event inside an object that names it, a whole answer, or an error."""
        name = next((name for name in value if name in _NAMES), None)
        if name is not None:
            self._read(value[name], Frame(b"", name))
        elif "output" in value:
            self._shell = {**value, "output": {**value["output"], "message": dict(value["output"]["message"])}}
            for key, block in enumerate(map(decode_block, self._shell["output"]["message"].pop("content"))):
                self._record.whole(key, block)
            self._finish()
        else:
            self._exception(value, frame)

    def _exception(self, value: Any, frame: Frame) -> None:
        error = self.failure = decode_error(0, value, {"x-amzn-errortype": frame.event})
        # The name comes first: a message about throttled tokens must not be taken for a context overflow.
        self._fail(f"{error.code}: {error.message}" if error.code else error.message, detail=error.code)

    def _close_blocks(self) -> None:
        for key in list(self._blocks):
            self._close({"contentBlockIndex": key})


_SORTS = {
    "text": "text",
    "citation": "text",
    "reasoningContent": "reasoning",
    "toolUse": "toolUse",
    "toolResult": "toolResult",
    "image": "image",
}
_HANDLERS: dict[str, Callable[[StreamDecoder, dict[str, Any]], None]] = {
    "messageStart": StreamDecoder._start,
    "contentBlockStart": StreamDecoder._open,
    "contentBlockStop": StreamDecoder._close,
    "messageStop": StreamDecoder._stop,
    "metadata": StreamDecoder._metadata,
}
_NAMES = frozenset({"contentBlockDelta", *_HANDLERS})


def _is_named(use: Any) -> bool:
    return isinstance(use, dict) and isinstance(use.get("toolUseId"), str) and isinstance(use.get("name"), str)


def _continues(block: _Open, sort: str) -> bool:
    return block.kind == sort or (sort == "toolUse" and block.kind == SERVER)


def _unpadded(event: dict[str, Any]) -> dict[str, Any]:
    """An event without `p`, random padding that hides the length of the payload."""
    return {key: value for key, value in event.items() if key != "p"}


def _merged(wire: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Merges nested objects; the first has precedence."""
    out = dict(wire)
    for key, value in more.items():
        known = out.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            out[key] = _merged(known, value)
        else:
            out.setdefault(key, value)
    return out


def _encoded_text(text: str, citations: list[Any]) -> dict[str, Any]:
    if citations:
        return {"citationsContent": {"content": [{"text": text}], "citations": citations}}
    return {"text": text}


def _encoded_reasoning(text: str, signature: str | None) -> dict[str, Any]:
    given = {"text": text} if signature is None else {"text": text, "signature": signature}
    return {"reasoningContent": {"reasoningText": given}}


def _any_json(text: str, use: dict[str, Any]) -> Any:
    """Arguments of a built-in tool: any JSON value, or the text if it is invalid."""
    if not text:
        return use.get("input", {})
    try:
        return jsontext.read(text)
    except FormatError:
        return text


def _append_image(block: _Open, delta: dict[str, Any]) -> None:
    for key, value in delta.items():
        if key == "source" and isinstance(value, dict) and isinstance(value.get("bytes"), str):
            block.pieces.append(value["bytes"])
            value = {name: given for name, given in value.items() if name != "bytes"}
        block.wire[key] = value


class StreamEncoder(Encoder):
    """Encodes a streamed answer."""

    encode_response = staticmethod(encode_response)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._sealed: set[int] = set()  # redacted blocks, which have no text to stream
        self._whole: set[int] = set()  # text that the wire has in a block of another kind, without deltas
        self._calls: dict[int, dict[str, Any]] = {}  # start events of calls
        self._first: dict[str, Any] = {}

    def _start(self, message: AssistantMessage) -> bytes:
        self._first = _without_content(whole_answer(message, []))
        return _event("messageStart", self._first)

    def _text(self, index: int, text: str) -> bytes:
        return b"" if index in self._whole else _delta(index, {"text": text})

    def _thinking(self, index: int, text: str) -> bytes:
        return b"" if index in self._sealed else _delta(index, {"reasoningContent": {"text": text}})

    def _arguments(self, index: int, text: str) -> bytes:
        return _delta(index, {"toolUse": {"input": text}})

    # ConverseStream has no start event for text and reasoning (ContentBlockStart: toolUse, toolResult, image): an empty
    # delta opens the block.

    def _open_text(self, index: int, block: TextBlock) -> bytes:
        if any(key.startswith("~") for key in block.extra.get(API, ())):
            self._whole.add(index)
            return b""
        return _delta(index, {"text": ""})

    def _open_thinking(self, index: int, block: ThinkingBlock) -> bytes:
        if block.redacted:
            self._sealed.add(index)
            return b""
        return _delta(index, {"reasoningContent": {"text": ""}})

    def _open_call(self, index: int, call: ToolCall) -> bytes:
        self._calls[index] = start = {"toolUseId": call.id, "name": call.name}
        return _opening(index, {"toolUse": start})

    def _end_text(self, index: int, block: TextBlock) -> bytes:
        wire = encode_block(block, QUIET) or {}
        return (_whole_block if index in self._whole else _rest_of_text)(index, wire) + _stop(index)

    def _end_thinking(self, index: int, block: ThinkingBlock) -> bytes:
        wire = encode_block(block, QUIET)
        if wire is None:
            return b"" if index in self._sealed else _stop(index)
        return _rest_of_thinking(index, block, wire) + _stop(index)

    def _end_call(self, index: int, call: ToolCall) -> bytes:
        sent = {"toolUse": {**self._calls.get(index, {}), "input": call.arguments}}
        return _remaining_delta(index, encode_block(call, QUIET) or {}, sent) + _stop(index)

    def _end_block(self, index: int, block: Block) -> bytes:
        wire = encode_block(block, QUIET)
        return b"" if wire is None else _whole_block(index, wire) + _stop(index)

    def _end(self, message: AssistantMessage) -> bytes:
        answer = whole_answer(message, [])
        # API_runtime_MessageStopEvent.html has these two; all else belongs to `metadata`.
        stop = {key: answer.pop(key) for key in _STOP_KEYS if key in answer}
        given = _without_content(answer)
        output = {key: value for key, value in answer.pop("output").items() if key != "message"}
        late = {key: value for key, value in given.items() if key not in self._first}
        if output or late:
            answer["output"] = {**output, "message": late}
        return _event("messageStop", stop) + _event("metadata", answer)

    def _is_stop(self, message: AssistantMessage) -> bool:
        return message.stop_detail is not None and whole_answer(message, []).get("stopReason") == message.stop_detail

    def _failure(self, error: ProviderError) -> bytes:
        """An exception: under its original name if it came from this wire, else by its kind."""
        code = error.code if error.code in EXCEPTIONS else EXCEPTION_OF.get(type(error), "internalServerException")
        text = error_text(error).removeprefix(f"{error.code}: ")
        # An exception in a stream is a frame with `:message-type: exception` and its name in `:exception-type`.
        return write_aws(code or "", jsontext.write({"message": text}), message_type="exception")


_STOP_KEYS: tuple[str, ...] = ("stopReason", "additionalModelResponseFields")


def _event(name: str, value: dict[str, Any]) -> bytes:
    return write_aws(name, jsontext.write(value))


def _delta(index: int, delta: dict[str, Any]) -> bytes:
    return _event("contentBlockDelta", {"contentBlockIndex": index, "delta": delta})


def _stop(index: int) -> bytes:
    return _event("contentBlockStop", {"contentBlockIndex": index})


def _opening(index: int, start: Any) -> bytes:
    return _event("contentBlockStart", {"contentBlockIndex": index, "start": start})


def _remaining_delta(index: int, wire: dict[str, Any], encoded: dict[str, Any]) -> bytes:
    """A delta with the fields of a block that the wire has no delta for, nested as in a whole block."""
    more = _added(wire, encoded)
    if "toolUse" in more:
        more["toolUse"]["input"] = ""  # clients expect `input` in every such delta
    return _delta(index, more) if more and encoded.keys() <= wire.keys() else b""


def _added(wire: dict[str, Any], encoded: dict[str, Any]) -> dict[str, Any]:
    """The fields of `wire` that `encoded` lacks, at the same places."""
    out: dict[str, Any] = {}
    for key, value in wire.items():
        if key not in encoded:
            out[key] = value
        elif isinstance(value, dict) and isinstance(encoded[key], dict) and key != "input":
            inner = _added(value, encoded[key])
            if inner:
                out[key] = inner
    return out


def _rest_of_text(index: int, wire: dict[str, Any]) -> bytes:
    citations = fields_of(wire.get("citationsContent")).get("citations") or []
    cited = b"".join(_delta(index, {"citation": citation}) for citation in citations)
    return cited + _remaining_delta(
        index, wire, _encoded_text("", citations)
    )  # `_remaining_delta` looks at the keys, not at the text


def _rest_of_thinking(index: int, block: ThinkingBlock, wire: dict[str, Any]) -> bytes:
    signature = block.thinking_signature
    if block.redacted:
        encoded: dict[str, Any] = {"reasoningContent": {"redactedContent": signature}}
        return _delta(index, encoded) + _remaining_delta(index, wire, encoded)
    signed = b"" if signature is None else _delta(index, {"reasoningContent": {"signature": signature}})
    return signed + _remaining_delta(index, wire, _encoded_reasoning(block.thinking, signature))


def _whole_block(index: int, wire: Any) -> bytes:
    """A whole block. Some kinds have deltas; all others are sent in their start event."""
    kind = next(iter(wire)) if isinstance(wire, dict) and len(wire) == 1 else ""
    inner = wire[kind] if kind else None
    if not isinstance(inner, dict):
        return _opening(index, wire)
    if kind == "toolUse" and _is_named(inner) and inner.get("type") == SERVER and "input" in inner:
        start = {key: value for key, value in inner.items() if key != "input"}
        return _opening(index, {kind: start}) + _delta(index, {kind: {"input": jsontext.compact(inner["input"])}})
    if kind == "toolResult" and isinstance(inner.get("content"), list):
        start = {key: value for key, value in inner.items() if key != "content"}
        return _opening(index, {kind: start}) + _delta(index, {kind: inner["content"]})
    if kind == "image" and isinstance(inner.get("source"), dict):
        start = {key: value for key, value in inner.items() if key != "source"}
        return _opening(index, {kind: start}) + _delta(index, {kind: {"source": inner["source"]}})
    return _opening(index, wire)


def _without_content(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer["output"]["message"].items() if key != "content"}
