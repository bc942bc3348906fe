"""Responses, whole and streamed: decoding and encoding.

The stream decoder assembles the wire's message and decodes it as a whole answer, so both give equal messages.
"""

from typing import Any

from msgspec.structs import replace

from ...values.errors import BadWire, ProviderError
from ...values.losses import QUIET, Reporter
from ...values.messages import (
    AssistantMessage,
    Block,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
    blocks_of,
)
from ...values.request import Request
from ..codec import Given, Quirks, response_decoder, response_encoder
from ..framing import Frame, json_line, write_sse
from ..provider_errors import error_text
from ..residual import (
    RESPONSE,
    Ids,
    an_object,
    count,
    fields_of,
    generated_id,
    keeping,
    keeping_response,
    named,
    optional,
    own_stop_reason,
    put_back,
    reason_for,
    residual_of,
    restored,
    whole,
)
from ..streaming import Decoder, Encoder, OpenBlocks
from .content import (
    AnswerParts,
    cited,
    decode_block,
    decode_call,
    decode_parts,
    encode_assistant,
    encode_call,
    encode_citation,
    encode_item,
)
from .facts import API, PLAN, RESPONSE_SUPPORT, STOP_REASONS, WIRE_STOP_REASONS, decode_error

# --- whole answers ---------------------------------------------------------------------------------------------------


@response_decoder(API)
def decode_response(body: Any, base: AssistantMessage, given: Given) -> AssistantMessage:
    """A whole answer; the wire has no model in it."""
    wire = an_object(body, API)
    if not isinstance(wire.get("message"), dict):
        # An answer's `message` is an object, an error's a string.
        is_error = any(wire.get(name) for name in ("message", "error", "detail"))
        raise decode_error(0, wire) if is_error else BadWire(API, "an answer without a message", "$.message")
    return _decode_answer(wire, decode_parts(wire["message"], Ids(given.mint)), base)


def _decode_answer(wire: dict[str, Any], content: tuple[Block, ...], base: AssistantMessage) -> AssistantMessage:
    """The message with this content, which is already decoded, and the body `wire`."""
    stop = optional(wire.get("finish_reason"))
    reason = reason_for(stop, STOP_REASONS, content)
    problem = optional(wire.get("error")) or f"the provider stopped: {stop or 'no reason given'}"
    message = replace(
        base,
        content=content,
        response_id=optional(wire.get("id")) or None,
        usage=_decode_usage(wire.get("usage")),
        stop_reason=reason,
        stop_detail=stop,
        error_message=problem if reason == "error" else None,
    )
    message = keeping(message, API, wire["message"], encode_assistant(message, QUIET))
    return keeping_response(message, API, wire, {**_encode_answer(message), "message": wire["message"]})


def _decode_usage(wire: Any) -> Usage | None:
    """Usage from `tokens`, else from `billed_units`, which exclude the prompt that the service adds."""
    if not isinstance(wire, dict):
        return None
    tokens = fields_of(wire.get("tokens")) or fields_of(wire.get("billed_units"))
    # `image_tokens` are not part of `input_tokens`; `cached_tokens` are.
    given = count(tokens, "input_tokens") + count(tokens, "image_tokens")
    read = min(count(wire, "cached_tokens"), given)
    usage = Usage.of(
        given - read,
        count(tokens, "output_tokens"),
        cache_read=read,
        reasoning=whole(tokens.get("reasoning_tokens")),
    )
    return keeping(usage, API, wire, _encode_usage(usage))


def _encode_usage(usage: Usage) -> dict[str, Any]:
    tokens = {"input_tokens": usage.input + usage.cache_read + usage.cache_write, "output_tokens": usage.output}
    if usage.reasoning is not None:
        tokens["reasoning_tokens"] = usage.reasoning
    return restored({"tokens": tokens, "cached_tokens": usage.cache_read}, usage.extra, API)


@response_encoder(API, RESPONSE_SUPPORT)
def encode_response(
    message: AssistantMessage, report: Reporter, request: Request | None, quirks: Quirks
) -> dict[str, Any]:
    """The body of a whole answer."""
    if not isinstance(message.content, tuple):
        report.lost("content", "content is read as blocks", "record", field="content")
    usage = message.usage
    if usage is not None and (usage.cache_write or usage.cost or usage.total_tokens != _decode_total(usage)):
        report.at("$.usage", "usage", "only input, cache reads and output are counted", "record")
    return _whole_answer(named(message, request), report)


def _decode_total(usage: Usage) -> int:
    return usage.input + usage.cache_read + usage.cache_write + usage.output


def _whole_answer(message: AssistantMessage, report: Reporter = QUIET) -> dict[str, Any]:
    encoded = encode_assistant(replace(message, content=blocks_of(message.content)), report)
    body = put_back(_encode_answer(message), residual_of(message.extra, API).get(RESPONSE, {}))
    return {**body, "message": encoded}


def _encode_answer(message: AssistantMessage) -> dict[str, Any]:
    body: dict[str, Any] = {
        "id": message.response_id or generated_id(message, ""),
        "message": {},
        "finish_reason": own_stop_reason(message, STOP_REASONS) or WIRE_STOP_REASONS.get(message.stop_reason or ""),
    }
    if message.usage is not None:
        body["usage"] = _encode_usage(message.usage)
    return body


# --- streams: wire to ours -------------------------------------------------------------------------------------------


NO_ARGUMENTS = "{}"  # the arguments of a call without deltas, as in a whole answer
_PLAN = ("plan", 0)  # the key of the plan's block
_DELTA_BLOCKS: dict[str, Block] = {"text": TextBlock(text=""), "thinking": ThinkingBlock(thinking="")}


class StreamDecoder(Decoder):
    """Decodes the frames of a streamed answer.

    A text block is closed when another block begins, not at `content-end`, because its citations may come later.
    """

    API = API

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._ids = Ids(self._mint)
        self._shell: dict[str, Any] = {}  # the wire's answer without its message
        self._message: dict[str, Any] = {}  # the wire's message without its parts
        self._open: dict[Any, Any] = {}  # the wire's open items, by kind and index
        self._items = 0  # items of the content so far
        self._citations: list[Any] = []
        self._attached: set[int] = set()  # indexes of citations that belong to a block

    def _read(self, value: Any, frame: Frame) -> None:
        kind = value.get("type")
        if kind == "content-delta":
            self._append_content(("content", value["index"]), value["delta"]["message"]["content"])
        elif kind is None:
            self._untyped(value)
        else:
            handle = _HANDLERS.get(kind)
            if handle is not None:  # others, such as `debug`, are ignored
                handle(self, value)

    def _untyped(self, value: dict[str, Any]) -> None:
        """A whole answer although a stream was requested, or an error."""
        if isinstance(value.get("message"), dict):
            self._answered(_decode_answer(value, decode_parts(value["message"], self._ids), self._given))
        else:
            self._failed(decode_error(0, value))

    def _start(self, event: dict[str, Any]) -> None:
        self._shell |= {key: value for key, value in event.items() if key not in ("type", "delta")}
        self._record.note(response_id=optional(self._shell.get("id")) or None)
        self._record.begin()
        # The empty lists and texts of the first event are placeholders.
        message = fields_of(fields_of(event.get("delta")).get("message"))
        self._message = {key: value for key, value in message.items() if key not in _PARTS}

    # docs.cohere.com/docs/streaming, Stream events: `tool-plan-delta` has no start, no end and no index.
    def _plan_delta(self, event: dict[str, Any]) -> None:
        if _PLAN not in self._open:
            self._close_blocks()
            self._open[_PLAN] = {}
            self._record.open(_PLAN, ThinkingBlock(thinking="", extra={API: {PLAN: True}}))
        self._record.delta(_PLAN, event["delta"]["message"]["tool_plan"])

    def _open_content(self, event: dict[str, Any]) -> None:
        self._close_blocks()
        key, item = ("content", event["index"]), event["delta"]["message"]["content"]
        self._items += 1
        kind = item.get("type") if isinstance(item, dict) else None
        self._open[key] = dict(item) if kind in _DELTA_BLOCKS else item
        self._record.open(key, _DELTA_BLOCKS.get(str(kind), OpaqueBlock(dialect=API, value={"content": item})))
        if kind in _DELTA_BLOCKS:
            self._record.delta(key, item.get(kind) or "")

    def _append_content(self, key: Any, delta: dict[str, Any]) -> None:
        if key not in self._open:  # the start of the block is missing
            kind = "thinking" if "thinking" in delta else "text"
            self._open_content({"index": key[1], "delta": {"message": {"content": {"type": kind, kind: ""}}}})
        text = delta.get("text") or delta.get("thinking")
        if text:
            self._record.delta(key, text)

    def _end_content(self, event: dict[str, Any]) -> None:
        item, more = self._open.get(("content", event["index"])), fields_of(event.get("delta")).get("message")
        if isinstance(item, dict):
            item.update(fields_of(fields_of(more).get("content")))

    def _cite(self, event: dict[str, Any]) -> None:
        given = event["delta"]["message"]["citations"]
        # docs.cohere.com/docs/streaming, `citation-start`: one citation, not a list, under the name of the list.
        self._citations += given if isinstance(given, list) else [given]

    def _open_call(self, event: dict[str, Any]) -> None:
        self._close_blocks()
        key, item = ("call", event["index"]), event["delta"]["message"]["tool_calls"]
        # `tool-call-start` has id and name, `tool-call-delta` argument text, `tool-call-end` nothing but the index.
        function = fields_of(fields_of(item).get("function"))
        call = decode_call({**fields_of(item), "function": {**function, "arguments": ""}}, self._ids)
        begun = {name: value for name, value in function.items() if name != "arguments"}
        opened = {**item, "function": begun} if isinstance(call, ToolCall) else item
        self._open[key] = opened
        self._record.open(key, replace(call, arguments_text=None) if isinstance(call, ToolCall) else call)
        if isinstance(call, ToolCall):
            self._record.delta(key, function.get("arguments") or "")

    def _append_call(self, event: dict[str, Any]) -> None:
        key = ("call", event["index"])
        if key in self._open:
            self._record.delta(key, event["delta"]["message"]["tool_calls"]["function"]["arguments"])

    def _end_call(self, event: dict[str, Any]) -> None:
        key = ("call", event["index"])
        more = fields_of(fields_of(fields_of(event.get("delta")).get("message")).get("tool_calls"))
        item = self._open.get(key)
        if isinstance(item, dict) and "function" in item:
            function = {**fields_of(item["function"]), **fields_of(more.get("function"))}
            item.update({**more, "function": function})
        self._close(key)

    def _close_blocks(self) -> None:
        for key in list(self._open):
            self._close(key)

    def _close(self, key: Any) -> None:
        if key not in self._open:
            return
        item = self._open.pop(key)
        if key == _PLAN:
            self._record.close(key)
        elif key[0] == "content":
            kind = item.get("type") if isinstance(item, dict) else None
            if kind in _DELTA_BLOCKS:
                item[kind] = self._record.text(key)
            self._record.close(key, self._sourced(decode_block(item)))
        else:
            self._record.close(key, self._called(key, item))

    def _called(self, key: Any, item: Any) -> Block:
        opened = self._record.block(key)
        if not isinstance(opened, ToolCall):
            return decode_call(item, self._ids)
        text = self._record.text(key)
        # No delta for a tool without arguments; a whole answer has "{}".
        if text or "arguments" not in item["function"]:
            item["function"]["arguments"] = text or NO_ARGUMENTS
        return decode_call(item, Ids(lambda number: opened.id))  # the id generated at its start

    def _sourced(self, block: Block) -> Block:
        """A finished text block with its citations."""
        if not isinstance(block, TextBlock):
            return block
        for at, wire in enumerate(self._citations):
            if at not in self._attached:
                before: list[Block] = [OpaqueBlock(dialect=API, value=None)] * (self._items - 1)
                (*_, found) = cited([*before, block], [wire], 0)
                if found != block:
                    block = found
                    self._attached.add(at)
        return block

    def _complete(self) -> bool:
        return False  # only `message-end` ends an answer

    def _end(self, event: dict[str, Any]) -> None:
        delta = {**fields_of(event.get("delta"))}
        self._message |= fields_of(delta.pop("message", None))
        self._shell |= {**{key: value for key, value in event.items() if key not in ("type", "delta")}, **delta}
        # docs.cohere.com/reference/chat-stream, `message-end`: with the reason ERROR, `error` says why.
        if delta.get("finish_reason") == "ERROR" and isinstance(delta.get("error"), str):
            self._failed(decode_error(0, {"message": delta["error"]}))
        else:
            self._finish()

    def _finish(self) -> None:
        self._close_blocks()
        blocks = tuple(self._record.content)
        message = {"role": "assistant", **AnswerParts(blocks).message()}
        if self._citations:
            message["citations"] = self._citations
        wire = {**self._shell, "message": {**message, **self._message}}
        self._record.end(_decode_answer(wire, blocks, self._given))


_PARTS = ("content", "tool_plan", "tool_calls", "citations")
_HANDLERS = {
    "message-start": StreamDecoder._start,
    "tool-plan-delta": StreamDecoder._plan_delta,
    "content-start": StreamDecoder._open_content,
    "content-end": StreamDecoder._end_content,
    "citation-start": StreamDecoder._cite,
    "tool-call-start": StreamDecoder._open_call,
    "tool-call-delta": StreamDecoder._append_call,
    "tool-call-end": StreamDecoder._end_call,
    "message-end": StreamDecoder._end,
}


# --- streams: ours to wire -------------------------------------------------------------------------------------------


class StreamEncoder(Encoder):
    """Encodes a streamed answer. Blocks that the wire does not have leave no gap in its indices."""

    encode_response = staticmethod(encode_response)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._items = 0
        self._calls = 0
        self._citations = 0
        self._places: OpenBlocks[int] = OpenBlocks()  # our index of an open block -> the wire's; -1 for the plan
        self._waiting: dict[int, ThinkingBlock] = {}  # thinking that its first text will open
        self._started: dict[int, dict[str, Any]] = {}  # calls as sent so far
        self._blocks: dict[int, Block] = {}  # finished blocks

    def _start(self, message: AssistantMessage) -> bytes:
        # Cohere's first event has all fields of the message, empty.
        shell = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
        return _event({"id": _encode_answer(message)["id"], "type": "message-start", "delta": {"message": shell}})

    def _text(self, index: int, text: str) -> bytes:
        return _content("content-delta", self._places[index], {"text": text})

    def _arguments(self, index: int, text: str) -> bytes:
        place = self._places[index]
        self._started[index]["function"]["arguments"] = text
        return _call("tool-call-delta", place, {"function": {"arguments": text}})

    def _open_text(self, index: int, block: TextBlock) -> bytes:
        return self._open(index, {"type": "text", "text": ""})

    def _open_thinking(self, index: int, block: ThinkingBlock) -> bytes:
        self._waiting[index] = block
        return b""

    def _open(self, index: int, item: Any) -> bytes:
        self._places[index] = self._items
        self._items += 1
        return _content("content-start", self._places[index], item)

    def _thinking(self, index: int, text: str) -> bytes:
        opened, begun = b"", self._waiting.get(index)
        if begun is not None:
            if begun.redacted:
                return b""
            del self._waiting[index]
            if index == 0 and residual_of(begun.extra, API).get(PLAN):
                self._places[index] = -1
            else:
                opened = self._open(index, {"type": "thinking", "thinking": ""})
        place = self._places[index]
        if place < 0:
            return _event({"type": "tool-plan-delta", "delta": {"message": {"tool_plan": text}}})
        return opened + _content("content-delta", place, {"thinking": text})

    def _end_thinking(self, index: int, block: ThinkingBlock) -> bytes:
        self._blocks[index] = block
        opened = b""
        if self._waiting.pop(index, None) is not None:  # without text, or with none that can be encoded
            if block.redacted:
                return b""
            opened = self._open(index, {"type": "thinking", "thinking": ""})
        place = self._places.end(index)
        return b"" if place < 0 else opened + _end_content(place, block)

    def _end_text(self, index: int, block: TextBlock) -> bytes:
        self._blocks[index] = block
        place = self._places.end(index)
        out = b""
        for citation in block.citations:
            wire = {"citations": encode_citation(citation, place, block.text)}
            # `citation-start` carries the whole citation; `citation-end` only closes it.
            out += _event({"type": "citation-start", "index": self._citations, "delta": {"message": wire}})
            out += _event({"type": "citation-end", "index": self._citations})
            self._citations += 1
        return out + _end_content(place, block)

    def _open_call(self, index: int, call: ToolCall) -> bytes:
        self._places[index] = self._calls
        self._calls += 1
        wire = encode_call(call, QUIET)
        wire["function"] = {**wire["function"], "arguments": ""}
        self._started[index] = wire
        return _call("tool-call-start", self._places[index], wire)

    def _end_call(self, index: int, call: ToolCall) -> bytes:
        self._blocks[index] = call
        place, sent, item = self._places.end(index), self._started.pop(index), encode_call(call, QUIET)
        rest = {key: value for key, value in item.items() if key != "function" and sent.get(key) != value}
        function = {key: value for key, value in item["function"].items() if key not in sent["function"]}
        arguments = item["function"].get("arguments", NO_ARGUMENTS)
        if not sent["function"]["arguments"] and arguments != NO_ARGUMENTS:
            function["arguments"] = arguments
        rest |= {"function": function} if function else {}
        end: dict[str, Any] = {"type": "tool-call-end", "index": place}
        return _event({**end, "delta": {"message": {"tool_calls": rest}}} if rest else end)

    def _end_block(self, index: int, block: Block) -> bytes:
        self._blocks[index] = block
        parts = AnswerParts((block,))
        self._waiting.pop(index, None)
        if index in self._places:  # it began as a block of another kind
            return _content("content-end", self._places.end(index), None)
        if parts.calls:
            self._calls += 1
            return _call("tool-call-start", self._calls - 1, parts.calls[0]) + _event(
                {"type": "tool-call-end", "index": self._calls - 1}
            )
        if not parts.content:
            return b""
        opened = self._open(index, parts.content[0])
        return opened + _content("content-end", self._places.end(index), None)

    def _end(self, message: AssistantMessage) -> bytes:
        answer = _whole_answer(message)
        sent = {"role": "assistant", **AnswerParts(tuple(self._blocks[at] for at in sorted(self._blocks))).message()}
        rest = {key: value for key, value in answer.pop("message").items() if key not in sent or sent[key] != value}
        delta = {key: value for key, value in answer.items() if key != "id"}
        end = {"type": "message-end", "delta": {**delta, **({"message": rest} if rest else {})}}
        return _event({"id": answer["id"], **end} if "id" in answer else end) + write_sse(b"[DONE]")

    def _is_stop(self, message: AssistantMessage) -> bool:
        return own_stop_reason(message, STOP_REASONS) is not None and message.stop_detail is not None

    def _failure(self, error: ProviderError) -> bytes:
        return _event({"type": "message-end", "delta": {"error": error_text(error), "finish_reason": "ERROR"}})


def _event(value: dict[str, Any]) -> bytes:
    return write_sse(json_line(value), value["type"])


def _content(kind: str, place: int, item: Any) -> bytes:
    more = {} if item is None else {"delta": {"message": {"content": item}}}
    return _event({"type": kind, "index": place, **more})


def _call(kind: str, place: int, item: Any) -> bytes:
    return _event({"type": kind, "index": place, "delta": {"message": {"tool_calls": item}}})


def _end_content(place: int, block: Block) -> bytes:
    """The end of a text or thinking item, with its fields beside the text."""
    item = encode_item(block, QUIET) or {}
    rest = {key: value for key, value in item.items() if key not in ("type", "text", "thinking")}
    return _content("content-end", place, rest or None)
