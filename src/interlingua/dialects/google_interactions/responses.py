"""Responses, whole and streamed: decoding and encoding.

The stream decoder assembles the wire's steps and decodes them as those of a whole answer, so both give equal messages.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ...values.errors import BadWire, ProviderError
from ...values.folding import parse_arguments
from ...values.losses import QUIET, Reporter, own_fields
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
from ..provider_errors import failure_of
from ..residual import (
    RESPONSE,
    Ids,
    an_object,
    count,
    decode_time,
    each,
    encode_time,
    fields_of,
    generated_id,
    joined_base64,
    keeping,
    keeping_response,
    model_names,
    named,
    optional,
    own_stop_reason,
    put_back,
    reason_for,
    residual_of,
    restored,
    whole,
    with_residual,
)
from ..streaming import Decoder, Encoder, OpenBlocks
from .content import (
    decode_content,
    decode_outputs,
    decode_step,
    encode_content,
    encode_output,
    encode_outputs,
    encode_step,
    encode_steps,
    is_step,
)
from .facts import (
    API,
    CONTENTS,
    OUTPUTS,
    RESPONSE_SUPPORT,
    RUNNING,
    SHARED,
    STEP,
    STOP_REASONS,
    WIRE_STOP_REASONS,
    decode_error,
    encode_error,
)

_ERROR = ("error", "message", "code")  # of an error body, whole or without its envelope

# --- whole answers: wire to ours -------------------------------------------------------------------------------------


@response_decoder(API)
def decode_response(body: Any, base: AssistantMessage, given: Given) -> AssistantMessage:
    """A whole answer."""
    wire = an_object(body, API)
    if wire.keys().isdisjoint(("status", "steps", "outputs")):
        raise BadWire(API, "no `status` and no `steps`") if wire.keys().isdisjoint(_ERROR) else decode_error(0, wire)
    return _decode_answer(wire, _decode_blocks(wire, Ids(given.mint)), base)


def _decode_blocks(wire: Mapping[str, Any], ids: Ids) -> tuple[Block, ...]:
    if _is_first_revision(wire):
        return tuple(decode_outputs(wire["outputs"], ids))
    steps = each(wire.get("steps") or [], "steps", API, lambda step: decode_step(an_object(step, API), ids))
    return tuple(block for blocks in steps for block in blocks)


def _is_first_revision(wire: Mapping[str, Any]) -> bool:
    return "steps" not in wire and isinstance(wire.get("outputs"), list)


def _decode_answer(wire: dict[str, Any], content: tuple[Block, ...], base: AssistantMessage) -> AssistantMessage:
    """The message with this content, which is already decoded, and the envelope `wire`."""
    stop = optional(wire.get("status"))
    reason = reason_for(stop, STOP_REASONS, content)
    failed = reason in ("error", "aborted")
    message = replace(
        base,
        content=content,
        response_id=optional(wire.get("id")) or None,
        **model_names(base, optional(wire.get("model")) or None),
        timestamp=base.timestamp if base.timestamp is not None else decode_time(wire.get("created")),
        usage=_decode_usage(wire.get("usage")),
        stop_reason=reason,
        stop_detail=stop,
        error_message=(_decode_problem(wire) or _explained(stop)) if failed else None,
    )
    emitted = _encode_envelope(message)
    given = dict(wire)
    if _is_first_revision(wire):
        message = with_residual(message, API, **{OUTPUTS: True})
        del given["outputs"], emitted["steps"]
    elif isinstance(wire.get("steps"), list):
        given["steps"] = []
    return keeping_response(message, API, given, emitted)


def _decode_problem(wire: Mapping[str, Any]) -> str | None:
    errors = wire.get("errors")
    texts = (fields_of(error).get("message") for error in errors) if isinstance(errors, list) else ()
    return next((text for text in texts if isinstance(text, str)), None)


def _explained(stop: str | None) -> str:
    return f"the provider stopped: {stop or 'no reason given'}"


def _decode_usage(wire: Any) -> Usage | None:
    # `Usage`: the input includes cached tokens; tokens of tool use and thoughts are counted separately.
    if not isinstance(wire, dict):
        return None
    given = count(wire, "total_input_tokens")
    cached, thought = min(count(wire, "total_cached_tokens"), given), whole(wire.get("total_thought_tokens"))
    usage = Usage.of(
        given - cached + count(wire, "total_tool_use_tokens"),
        count(wire, "total_output_tokens") + (thought or 0),
        cache_read=cached,
        reasoning=thought,
        total_tokens=whole(wire.get("total_tokens")),
    )
    return keeping(usage, API, wire, _encode_usage(usage))


# --- whole answers: ours to wire -------------------------------------------------------------------------------------


@response_encoder(API, RESPONSE_SUPPORT)
def encode_response(
    message: AssistantMessage, report: Reporter, request: Request | None, quirks: Quirks
) -> dict[str, Any]:
    """The body of a whole answer."""
    _report_envelope(message, report)
    return _encode_answer(named(message, request), report)


def _encode_answer(message: AssistantMessage, report: Reporter) -> dict[str, Any]:
    hints, blocks = residual_of(message.extra, API), blocks_of(message.content)
    body = _encode_envelope(message)
    if hints.get(OUTPUTS):
        del body["steps"]
        body["outputs"] = encode_outputs(blocks, report)
    else:
        body["steps"] = encode_steps(blocks, report)
    steps = body.get("steps")
    body = put_back(body if steps is None else {**body, "steps": []}, hints.get(RESPONSE, {}))
    return body if not steps else {**body, "steps": steps}


def _encode_envelope(message: AssistantMessage) -> dict[str, Any]:
    stop = _wire_stop_reason(message)
    body: dict[str, Any] = {
        "id": message.response_id or generated_id(message, "v1_"),
        "object": "interaction",
        "status": stop,
        "model": message.response_model or message.model or "",
    }
    created = encode_time(message.timestamp, digits=False)
    # `created` and `updated` are RFC 3339 times.
    if created is not None:
        body |= {"created": created, "updated": created}
    if message.error_message is not None and message.error_message != _explained(stop):
        body["errors"] = [{"message": message.error_message}]
    body["steps"] = []
    if message.usage is not None:
        body["usage"] = _encode_usage(message.usage)
    return body


def _wire_stop_reason(message: AssistantMessage) -> str:
    return own_stop_reason(message, STOP_REASONS) or WIRE_STOP_REASONS.get(message.stop_reason or "", "completed")


def _encode_usage(usage: Usage) -> dict[str, Any]:
    wire = {
        "total_tokens": usage.total_tokens,
        "total_input_tokens": usage.input + usage.cache_read + usage.cache_write,
        "total_cached_tokens": usage.cache_read,
        "total_output_tokens": max(usage.output - (usage.reasoning or 0), 0),
    }
    if usage.reasoning is not None:
        wire["total_thought_tokens"] = usage.reasoning
    return restored(wire, usage.extra, API) if usage.extra else wire


def _report_envelope(message: AssistantMessage, report: Reporter) -> None:
    """Reports what decoding will not restore."""
    stop = _wire_stop_reason(message)
    reason = reason_for(stop, STOP_REASONS, blocks_of(message.content))
    if reason != message.stop_reason:
        report.at("$.stopReason", "stop_reason", f"read back as {reason}", "weakened")
    if stop != message.stop_detail:
        report.at("$.stopDetail", "stop_detail", f"this wire's value is {stop}", "record")
    if message.timestamp is not None and encode_time(message.timestamp) is None:
        report.at("$.timestamp", "timestamp", "outside the calendar", "record")
    if message.response_model and message.response_model != message.model:
        report.at("$.model", "model", "the wire names only the model that answered", "record")
        report.at("$.responseModel", "response_model", "the wire names only the model that answered", "record")
    if message.usage is not None and message.usage.cache_write:
        report.at("$.usage.cacheWrite", "cache_write", "counted as input", "record")
    if not isinstance(message.content, tuple):
        report.at("$.content", "content", "content is read as blocks", "record")
    for key in own_fields(residual_of(message.extra, API)):
        report.at(f"$.extra.{API}.{key}", key, "kept for a request's message, not for an answer", "record")


# --- streams: wire to ours -------------------------------------------------------------------------------------------


# The first revision had other names for the same events.
_RENAMED = {
    "interaction.start": "interaction.created",
    "interaction.complete": "interaction.completed",
    "content.start": "step.start",
    "content.delta": "step.delta",
    "content.stop": "step.stop",
}


class _Step:
    """An open step: its fields so far, without the text in the recorder."""

    def __init__(self, wire: dict[str, Any]) -> None:
        self.wire = wire
        self.kind = wire.get("type")
        self.items = 0  # number of contents so far
        self.item: dict[str, Any] | None = None  # the latest content
        self.other: tuple[Any, ...] = ()  # the latest content, if it is not an object
        self.pieces: list[str] = []  # fragments of its data
        self.pictures: list[Any] = []  # images of a summary


class StreamDecoder(Decoder):
    """Decodes the frames of a streamed answer."""

    API = API

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._ids = Ids(self._mint)
        self._shell: dict[str, Any] = {}  # the answer without its steps
        self._open: dict[Any, _Step] = {}
        self._empty: list[tuple[Any, _Step]] = []  # ended steps without content: nothing, unless the answer goes on
        self._began = 0  # number of steps so far; an index may repeat

    def _read(self, value: Any, frame: Frame) -> None:
        # The type is in the data, as `event_type`; the name of the SSE event repeats it.
        kind = value.get("event_type") or frame.event
        kind = _RENAMED.get(kind, kind)
        if kind == "step.delta":
            self._append_delta(value["index"], value["delta"])
        elif kind in _HANDLERS:
            _HANDLERS[kind](self, value)
        elif "event_type" in value:
            pass  # unknown event types are ignored
        elif "status" in value or "steps" in value or "outputs" in value:
            self._answered(_decode_answer(value, _decode_blocks(value, self._ids), self._given))
        else:
            self._error(value)

    def _error(self, wire: Any) -> None:
        self._failed(decode_error(0, wire))

    def _start(self, event: dict[str, Any]) -> None:
        self._shell |= {key: value for key, value in event["interaction"].items() if key != "steps"}
        name = optional(self._shell.get("model")) or None
        self._record.note(response_id=optional(self._shell.get("id")) or None, model=self._given.model or name)
        self._record.begin()

    def _update(self, event: dict[str, Any]) -> None:
        # `InteractionStatusUpdate`: what changes while the interaction runs, before its last event.
        self._shell |= {key: event[key] for key in ("status", "usage", "continuation_token") if key in event}

    def _open_step(self, event: dict[str, Any]) -> None:
        index, wire = event["index"], dict(event["step"] if "step" in event else event["content"])
        self._close(index)
        self._keep_empty()
        if wire.get("type") in CONTENTS:  # of the first revision
            wire = {"type": "model_output", "content": [wire]}
        step = self._open[index] = _Step(wire)
        self._began += 1
        if step.kind == "model_output":
            contents = wire.pop("content", None)
            for item in contents if isinstance(contents, list) else ():
                self._add_content(index, step, item)
        elif step.kind == "thought":
            self._record.open(index, ThinkingBlock(thinking="", thinking_signature=optional(wire.get("signature"))))
            summary = wire.pop("summary", None)
            for item in summary if isinstance(summary, list) else ():
                self._add_summary(index, step, item)
        else:
            empty = {**wire, "arguments": {}} if step.kind == "function_call" else wire
            (block,) = decode_step(empty, self._ids)
            self._record.open(index, block)

    def _append_delta(self, index: Any, delta: dict[str, Any]) -> None:
        step, kind = self._open.get(index), delta.get("type")
        if step is None:  # the start of the step is missing
            self._open_step({"index": index, "step": {"type": _STARTS.get(str(kind), kind)}})
            step = self._open[index]
        # Deltas of an output have the type of their content; a new type begins a new content.
        if step.kind == "model_output" and kind != "model_output":
            self._add_content(index, step, delta)
        elif kind == "thought_summary":
            self._add_summary(index, step, delta.get("content"))
        # `ArgumentsDelta`: JSON text in fragments, though a whole step has an object.
        elif kind == "arguments_delta":
            self._record.delta(index, delta.get("arguments") or "")
        # The signature is a delta of its own, after the summary.
        elif kind == "thought_signature":
            step.wire["signature"] = delta.get("signature")
        elif kind == step.kind:  # fields of the step itself, such as the arguments of a search
            more = {key: value for key, value in delta.items() if key != "type"}
            contents = more.pop("content", None) if kind == "model_output" else None
            step.wire |= more
            for item in contents or ():
                self._add_content(index, step, item, apart=True)

    def _add_summary(self, index: Any, step: _Step, item: Any) -> None:
        if isinstance(item, dict) and item.get("type") == "text":
            self._record.delta(index, item["text"])
        elif item is not None:
            step.pictures.append(item)

    def _add_content(self, index: Any, step: _Step, item: Any, *, apart: bool = False) -> None:
        """Adds a content, or continues the latest: text and audio come in fragments, annotations after their text."""
        kind = fields_of(item).get("type")
        if kind in ("text_annotation", "text_annotation_delta"):
            item, kind = {"type": "text", "text": "", "annotations": item.get("annotations") or []}, "text"
        if (
            apart
            or step.item is None
            or not _accumulates(item)
            or step.item.get("type") != kind
            or not _accumulates(step.item)
        ):
            self._begin_content(index, step, item)
            return
        merged = step.item
        if kind == "text":
            self._record.delta((index, step.items), item["text"])
            if "annotations" in item:
                merged["annotations"] = [*merged.get("annotations", ()), *item["annotations"]]
        else:
            step.pieces.append(item["data"])
        merged |= {key: value for key, value in item.items() if key not in ("text", "data", "annotations")}

    def _begin_content(self, index: Any, step: _Step, item: Any) -> None:
        self._close_content(index, step)
        step.items += 1
        step.item, step.other = (dict(item), ()) if isinstance(item, dict) else ({}, (item,))
        shared = {API: {SHARED: True}} if step.items > 1 else {}
        key = (index, step.items)
        if not _accumulates(step.item):
            self._record.open(key, decode_content(item))
        elif step.item["type"] == "text":
            self._record.open(key, TextBlock(text="", extra=shared))
            self._record.delta(key, step.item["text"])
        else:
            step.pieces = [step.item["data"]]
            self._record.open(key, decode_content(item))

    def _close_content(self, index: Any, step: _Step) -> None:
        item, step.item = step.item, None
        if item is None:
            return
        key = (index, step.items)
        if item.get("type") == "text" and _accumulates(item):
            item["text"] = self._record.text(key)
        elif len(step.pieces) > 1:
            item["data"] = joined_base64(step.pieces)
        step.pieces = []
        block: Any = decode_content(step.other[0] if step.other else item)
        if step.items > 1:
            block = with_residual(block, API, **{SHARED: True})
        else:
            rest = {name: value for name, value in step.wire.items() if name != "type"}
            block = with_residual(block, API, **{STEP: rest}) if rest else block
        self._record.close(key, block)

    def _end_step(self, event: dict[str, Any]) -> None:
        self._close(event["index"])

    def _close_blocks(self) -> None:
        for index in list(self._open):
            self._close(index)

    def _close(self, index: Any) -> None:
        step = self._open.pop(index, None)
        if step is None:
            return
        if step.kind != "model_output":
            self._record.close(index, self._closed(index, step))
        elif step.items == 0:
            self._empty.append((index, step))
        else:
            self._close_content(index, step)

    def _keep_empty(self) -> None:
        for index, step in self._empty:
            self._record.whole((index, 0), *decode_step(step.wire, self._ids))
        self._empty.clear()

    def _closed(self, index: Any, step: _Step) -> Block:
        wire, opened = step.wire, self._record.block(index)
        if isinstance(opened, ThinkingBlock):
            text = self._record.text(index)
            texts = [{"type": "text", "text": text}] if text else []
            if texts or step.pictures:
                wire["summary"] = texts + step.pictures
            (block,) = decode_step(wire, self._ids)
            return block
        if not isinstance(opened, ToolCall):
            (block,) = decode_step(wire, self._ids)
            return block
        text = self._record.text(index)
        arguments, spelled, broken = parse_arguments(text)
        if text:
            wire["arguments"] = arguments
        (call,) = decode_step(wire, Ids(lambda number: opened.id))  # the id generated at its start
        if text and isinstance(call, ToolCall):
            return replace(call, arguments_text=spelled, parse_error=broken)
        return call

    def _complete(self) -> bool:
        """Whether the status is final: `interaction.completed` may be missing."""
        return self._shell.get("status") in STOP_REASONS.keys() - RUNNING

    def _end(self, event: dict[str, Any]) -> None:
        shell = dict(event["interaction"])
        steps = shell.pop("steps", None)
        self._shell |= shell
        # Some servers send the steps only with the last event.
        if isinstance(steps, list) and not self._began:
            for key, block in enumerate(_decode_blocks({"steps": steps}, self._ids)):
                self._record.whole(("whole", key), block)
        self._finish()

    def _finish(self) -> None:
        self._close_blocks()
        self._keep_empty()
        message = _decode_answer({**self._shell, "steps": []}, tuple(self._record.content), self._given)
        if message.stop_reason == "error":
            self.failure = failure_of(message)
        self._record.end(message)


# The step that begins with a delta.
_STARTS = {
    **dict.fromkeys(CONTENTS | {"text_annotation", "text_annotation_delta"}, "model_output"),
    "thought_summary": "thought",
    "thought_signature": "thought",
}
_HANDLERS = {
    "interaction.created": StreamDecoder._start,
    "interaction.status_update": StreamDecoder._update,
    "step.start": StreamDecoder._open_step,
    "step.stop": StreamDecoder._end_step,
    "interaction.completed": StreamDecoder._end,
    "error": StreamDecoder._error,
}


def _accumulates(item: Mapping[str, Any]) -> bool:
    """Whether a content comes in fragments."""
    return isinstance(item.get(_PIECES.get(item.get("type"), "")), str)


_PIECES: dict[Any, str] = {"text": "text", "audio": "data"}


# --- streams: ours to wire -------------------------------------------------------------------------------------------


class _Place:
    """The step of an open block: its index and what was sent of it."""

    def __init__(self, index: int, kind: str) -> None:
        self.index = index
        self.kind = kind
        self.sent: dict[str, Any] = {}
        self.text = False  # whether any text was sent
        self.waits = False  # a second text in one output: sent whole at its end
        self.ended = False
        self.is_left = False  # another step began before it ended


class StreamEncoder(Encoder):
    """Encodes a streamed answer."""

    encode_response = staticmethod(encode_response)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._steps = 0
        self._places: OpenBlocks[_Place] = OpenBlocks()
        self._output: _Place | None = None  # an output that may get more contents

    def _start(self, message: AssistantMessage) -> bytes:
        body = _encode_envelope(message)
        # `interaction.created` has no steps and no usage yet.
        shell = {"id": body["id"], "object": "interaction", "status": "in_progress", "model": body["model"]}
        return _event("interaction.created", {"interaction": shell})

    def _text(self, index: int, text: str) -> bytes:
        place = self._places[index]
        if place.waits:
            return b""
        place.text = True
        return _delta(place.index, {"type": "text", "text": text})

    def _thinking(self, index: int, text: str) -> bytes:
        summary = {"type": "thought_summary", "content": {"type": "text", "text": text}}
        return _delta(self._places[index].index, summary)

    def _arguments(self, index: int, text: str) -> bytes:
        place = self._places[index]
        place.text = True
        return _delta(place.index, {"type": "arguments_delta", "arguments": text})

    def _open_thinking(self, index: int, block: ThinkingBlock) -> bytes:
        return self._open(index, {"type": "thought"})

    def _open_call(self, index: int, call: ToolCall) -> bytes:
        return self._open(index, {**(encode_step(call, QUIET) or {}), "arguments": {}})

    def _leave_output(self) -> bytes:
        """Ends the latest output, unless its text continues."""
        output, self._output = self._output, None
        if output is None:
            return b""
        output.is_left = True
        return _event("step.stop", {"index": output.index}) if output.ended else b""

    def _begin(self, step: dict[str, Any]) -> tuple[bytes, _Place]:
        before = self._leave_output()
        place = _Place(self._steps, str(step.get("type")))
        place.sent = step
        self._steps += 1
        return before + _event("step.start", {"index": place.index, "step": step}), place

    def _open(self, index: int, step: dict[str, Any]) -> bytes:
        out, self._places[index] = self._begin(step)
        return out

    def _open_text(self, index: int, block: TextBlock) -> bytes:
        output = self._output
        if output is not None and output.ended and residual_of(block.extra, API).get(SHARED):
            output.waits, output.ended, output.text = output.kind == "text", False, False
            output.kind = "text"
            self._places[index] = output
            return b""
        out, place = self._begin({"type": "model_output"})
        place.kind = "text"
        self._places[index] = self._output = place
        return out

    def _end_text(self, index: int, block: TextBlock) -> bytes:
        place = self._places.end(index)
        item = encode_content(block, QUIET)
        place.ended = True
        if place.waits:
            out = _delta(place.index, {"type": "model_output", "content": [item]})
        else:
            notes = item.pop("annotations", None)
            rest = {key: value for key, value in item.items() if key != "text"}
            out = b"" if place.text and len(rest) == 1 else _delta(place.index, {**rest, "text": ""})
            if notes is not None:
                out += _delta(place.index, {"type": "text_annotation_delta", "annotations": notes})
        out += self._rest_of_output(place, block)
        return out + _event("step.stop", {"index": place.index}) if place.is_left else out

    def _rest_of_output(self, place: _Place, block: Block) -> bytes:
        if STEP not in residual_of(block.extra, API):
            return b""
        rest = {key: value for key, value in encode_output(block, []).items() if key not in ("type", "content")}
        return _delta(place.index, {"type": "model_output", **rest}) if rest else b""

    def _end_call(self, index: int, block: Block) -> bytes:
        place = self._places.end(index)
        return self._rest_of_step(place, encode_step(block, QUIET)) + _event("step.stop", {"index": place.index})

    _end_thinking = _end_call

    def _rest_of_step(self, place: _Place, wire: dict[str, Any]) -> bytes:
        """Deltas for the fields of a step that were not sent: its signature, and those without a delta type."""
        out = b""
        rest = {key: value for key, value in wire.items() if key not in place.sent or place.sent[key] != value}
        if place.kind == "thought":
            if isinstance(rest.get("signature"), str):
                out = _delta(place.index, {"type": "thought_signature", "signature": rest.pop("signature")})
            rest.pop("summary", None)
        elif place.text:
            rest.pop("arguments", None)
        return out + _delta(place.index, {"type": place.kind, **rest}) if rest else out

    def _end_block(self, index: int, block: Block) -> bytes:
        if index in self._places:  # it began as a block of another kind
            place = self._places.end(index)
            place.ended = True
            return b"" if place is self._output else _event("step.stop", {"index": place.index})
        if is_step(block):
            wire = encode_step(block, QUIET)
            if wire is None:
                return b""
            out, place = self._begin(wire)
            return out + _event("step.stop", {"index": place.index})
        item = encode_content(block, QUIET)
        if item is None:
            return b""
        shared, output = residual_of(block.extra, API).get(SHARED), self._output
        if shared and output is not None and output.ended:
            output.kind = "media"
            return _delta(output.index, {"type": "model_output", "content": [item]})
        out, place = self._begin({"type": "model_output"})
        self._output, place.ended, place.kind = place, True, "media"
        whole = {"type": "model_output", "content": [item]} if isinstance(block, OpaqueBlock) else item
        return out + _delta(place.index, whole) + self._rest_of_output(place, block)

    def _end(self, message: AssistantMessage) -> bytes:
        before = self._leave_output()
        body = _encode_answer(message, QUIET)
        shell = {key: value for key, value in body.items() if key not in ("steps", "outputs")}
        return before + _event("interaction.completed", {"interaction": shell})

    def _is_stop(self, message: AssistantMessage) -> bool:
        return message.stop_detail is not None and own_stop_reason(message, STOP_REASONS) is not None

    def _failure(self, error: ProviderError) -> bytes:
        return _event("error", encode_error(error)[1])


def _event(kind: str, value: dict[str, Any]) -> bytes:
    return write_sse(json_line({"event_type": kind, **value}), kind)


def _delta(index: int, delta: dict[str, Any]) -> bytes:
    return _event("step.delta", {"index": index, "delta": delta})
