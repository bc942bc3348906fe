"""Streamed responses: decoding and encoding. platform.openai.com/docs/api-reference/responses-streaming

The decoder assembles the wire's items and decodes them as those of a whole response.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import ProviderError
from ...values.folding import arguments_text, unfold
from ...values.losses import QUIET
from ...values.messages import (
    AssistantMessage,
    Block,
    Extra,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    blocks_of,
)
from ..framing import Frame, json_line, write_sse
from ..provider_errors import code_of
from ..residual import GENERATED, JOINED, MESSAGE, optional, residual_of, string, whole
from ..streaming import Decoder, Encoder, OpenBlocks
from .content import (
    NAMES,
    decode_item,
    default_fields,
    encode_content_text,
    encode_item,
    encoded_call,
    finish_message,
    id_stem,
    is_custom,
    kind_of,
    message_item,
    with_extra,
)
from .facts import API, CONTENT, CUSTOM, FORM, PARTS, SUMMARY, decode_error
from .responses import answer_encoded, decode_answer, decode_envelope, encode_response, encoded_stop, status_given

# --- wire to ours -----------------------------------------------------------------------------------------------------


class _Item:
    """An item of a stream: its fields so far, and the open blocks of its parts."""

    __slots__ = ("at", "done", "keys", "kind", "notes", "parts", "pieces", "wire")

    def __init__(self, wire: dict[str, Any], at: int) -> None:
        self.wire = wire
        self.at = at
        self.kind = kind_of(wire)
        self.done = False
        self.keys: dict[int, tuple[int, int]] = {}  # index of a part -> key of its block
        self.parts: dict[int, dict[str, Any]] = {}  # parts of a message so far
        self.notes: dict[int, list[Any]] = {}  # annotations by part
        self.pieces: dict[tuple[str, int], list[str]] = {}  # fragments of reasoning


class StreamDecoder(Decoder):
    """Decodes the frames of a streamed answer."""

    API = API

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._shell: dict[str, Any] = {}  # the wire's response without its output
        self._items: list[_Item] = []
        # By output index and by id, each with the kind: some hosts change ids in every event, and Bedrock (gpt-oss)
        # streams reasoning under the index and id of the message.
        self._places: dict[tuple[Any, str], _Item] = {}
        self._ids: dict[tuple[str, str], _Item] = {}
        # Fast path: the next delta is most likely of the same kind, for the same part.
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
            kind = "" if get("object") == "response" else "error" if "error" in value else frame.event
        handle = _HANDLERS.get(kind)
        if handle is not None:
            self._same = ("", None, "", None)
            handle(self, value)

    def _complete(self) -> bool:
        return False  # an answer needs its terminal event

    # the envelope

    # platform.openai.com/docs/api-reference/responses-streaming: `response.created`, `queued` and `in_progress` carry
    # the response so far, without output.
    def _began(self, event: dict[str, Any]) -> None:
        response = event.get("response")
        if isinstance(response, dict):
            self._shell.update(response)
        if not self._record.started:
            self._record.note(**decode_envelope(self._shell, self._given))
            self._record.begin()

    def _unstreamed(self, response: dict[str, Any]) -> None:
        """A whole answer although a stream was requested."""
        self._began({"response": {key: value for key, value in response.items() if key != "output"}})
        self._ended({"type": "", "response": response})

    def _ended(self, event: dict[str, Any]) -> None:
        response = event.get("response")
        response = response if isinstance(response, dict) else {}
        # Hosts leave the status out of the terminal event: its type says the same.
        if response.get("status") is None and event["type"] in _ENDS:
            response = {**response, "status": _ENDS[event["type"]]}
        self._shell.update(response)
        if response.get("status") == "failed" and isinstance(response.get("error"), dict):
            self.failure = decode_error(0, {"error": response["error"]})
        if isinstance(response.get("output"), list):
            self._fill(response["output"])
        if isinstance(response.get("error"), dict):
            self.failure = decode_error(0, {"error": response["error"]})
        self._finish()

    def _error(self, event: dict[str, Any]) -> None:
        """An error event, which ends the stream; a `response.failed` after it is ignored."""
        error = self.failure = decode_error(0, event)
        self._shell.update(status="failed", error={"code": error.code, "message": error.message})
        self._finish()

    def _finish(self) -> None:
        self._close_blocks()
        content = tuple(self._record.content)
        self._record.end(decode_answer({**self._shell, "output": []}, content, self._given))

    # items

    def _added(self, event: dict[str, Any]) -> None:
        wire = event["item"]
        index, id = event.get("output_index"), optional(wire.get("id"))
        item = self._find(index, id, kind_of(wire))
        if item is None or (id is not None and item.wire.get("id", id) != id):
            self._open(wire, index)
        elif not item.done:
            item.wire = {**item.wire, **wire}

    def _find(self, index: Any, id: str | None, kind: str) -> _Item | None:
        """The item of an event: by its id, else by its index, because some hosts change ids."""
        item = self._ids.get((id, kind)) if id is not None else None
        if item is not None:
            return item
        item = self._places.get((index, kind))
        return None if item is None or (item.done and id is not None and item.wire.get("id", id) != id) else item

    def _open(self, wire: dict[str, Any], index: Any) -> _Item:
        item = self._new(wire, index)
        block: Block | None
        if item.kind == "message":
            block = None  # opened by its parts
        elif item.kind in ("function_call", CUSTOM):
            block = _opening_call(wire, self._generated(item.at))
        elif item.kind == "reasoning":
            block = ThinkingBlock(thinking="", extra=_opening_extra(wire, "id"))
        else:
            block = OpaqueBlock(dialect=API, value=wire)
        if block is not None:
            self._record.open(self._keyed(item, 0), block)
        return item

    def _generated(self, at: int) -> str:
        return str((self._mint or "call_{}".format)(at))

    def _keyed(self, item: _Item, place: int) -> tuple[int, int]:
        key = item.keys[place] = (id(item), place)
        return key

    def _place(self, event: Mapping[str, Any], kind: str) -> _Item | None:
        """The item of an event; an unknown one is opened. None if the item is already closed."""
        index, id = event.get("output_index"), optional(event.get("item_id"))
        if index is None and id is None and self._items and self._items[-1].kind == kind:
            item: _Item | None = self._items[-1]
        else:
            item = self._find(index, id, kind)
        if item is not None:
            return None if item.done else item
        if id is None:
            return self._open({"type": kind}, index)
        if all(known.wire.get("id") != id for known in self._items):
            return self._open({"type": kind, "id": id}, index)
        item = self._ids[id, kind] = self._open({"type": kind}, index)  # the id belongs to another item
        return item

    def _done(self, event: dict[str, Any]) -> None:
        wire, index = event["item"], event.get("output_index")
        item = self._find(index, optional(wire.get("id")), kind_of(wire))
        if item is None or not (item.keys or item.done):
            unfinished = (known for known in self._items if not known.done and self._same_text(known, 0, wire))
            item = next(unfinished, item)
        self._close(self._new(wire, index) if item is None else item, wire)

    def _new(self, wire: dict[str, Any], index: Any) -> _Item:
        """An item without open blocks."""
        item = _Item(wire, index if isinstance(index, int) else len(self._items))
        self._items.append(item)
        self._places[item.at, item.kind] = item
        if isinstance(wire.get("id"), str):
            self._ids[wire["id"], item.kind] = item
        return item

    def _close(self, item: _Item, wire: dict[str, Any]) -> None:
        """Closes the blocks of an item, decoded as in a whole answer; once."""
        if item.done:
            return
        item.done = True
        # …/responses/object, reasoning: `encrypted_content` may be incomplete in `output_item.added`: the finished item
        # counts.
        wire = self._with_streamed(item, wire)
        record, unmatched = self._record, dict(item.keys)
        for place, block in self._decoded(wire, item.at):
            key = unmatched.pop(place, None)
            if key is None:
                record.whole(self._keyed(item, place), block)
            else:
                self._close_block(key, block)
        for key in unmatched.values():
            record.close(key)

    def _decoded(self, wire: dict[str, Any], at: int) -> list[tuple[int, Block]]:
        return decode_item(wire, at, answer=True, response_id=self._shell.get("id"), mint=self._mint)

    def _close_block(self, key: tuple[int, int], block: Block) -> None:
        """Closes a block, after a delta with text that was not streamed."""
        opened = self._record.block(key)
        if type(opened) is type(block):
            text = _text_of(block)
            came = self._record.text(key)
            if len(text) > len(came) and text.startswith(came):
                self._record.delta(key, text[len(came) :])
        self._record.close(key, block)

    def _with_streamed(self, item: _Item, wire: dict[str, Any]) -> dict[str, Any]:
        """A finished item, with streamed fields that it lacks."""
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
            given = part.get(field)
            part = {**part, field: given if isinstance(given, str) and given.startswith(came) else came}
            if place in item.notes and not part.get("annotations"):
                part["annotations"] = item.notes[place]
            parts.append(part)
        return parts

    # …/response/completed: the terminal event repeats all items; some hosts send items only there.
    def _fill(self, output: list[Any]) -> None:
        """Uses the output of the terminal event for items that were not streamed or not finished."""
        left = [item for item in self._items if item.keys or item.done]  # only items with content
        reported = [(at, wire) for at, wire in enumerate(output) if isinstance(wire, dict)]
        for match in (_same_id, _same_place, self._same_text):
            rest = []
            for at, wire in reported:
                item = next((item for item in left if match(item, at, wire)), None)
                if item is None:
                    rest.append((at, wire))
                else:
                    left.remove(item)
                    self._close(item, wire)
            reported = rest
        for at, wire in reported:
            self._close(self._new(wire, at), wire)

    def _same_text(self, item: _Item, at: int, wire: dict[str, Any]) -> bool:
        """Whether an item under another id and index has the same text."""
        if item.kind != kind_of(wire):
            return False
        streamed = "".join(self._record.text(key) for _, key in sorted(item.keys.items()))
        blocks = self._decoded(wire, at) if streamed else ()
        return streamed != "" and streamed == "".join(_text_of(block) for _, block in blocks)

    def _close_blocks(self) -> None:
        for item in self._items:
            if item.kind == "message" and not item.keys:
                item.done = True  # added, but without content
            self._close(item, item.wire)

    # text

    def _text(self, event: dict[str, Any]) -> None:
        self._text_delta(event, refused=False)

    def _refusal(self, event: dict[str, Any]) -> None:
        self._text_delta(event, refused=True)

    def _text_delta(self, event: dict[str, Any], *, refused: bool) -> None:
        item = self._place(event, "message")
        if item is not None:
            key = self._part(item, _index(event, "content_index"), refused)
            self._record.delta(key, string(event["delta"]))
            self._expect(event, "content_index", key)

    def _part(self, item: _Item, place: int, refused: bool) -> tuple[int, int]:
        key = item.keys.get(place)
        if key is None:
            extra = {API: {JOINED: True}} if item.keys else _opening_extra(item.wire, *NAMES)
            key = self._keyed(item, place)
            self._record.open(key, TextBlock(text="", refusal=refused, extra=extra))
        return key

    def _expect(self, event: Mapping[str, Any], field: str, key: Any, pieces: list[str] | None = None) -> None:
        self._same = (event["type"], event.get("output_index"), field, event.get(field))
        self._key = key
        self._pieces = pieces

    def _part_given(self, event: dict[str, Any]) -> None:
        part = event.get("part")
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "reasoning_text":  # in `content_part` events, or in `reasoning_part` ones (vLLM, Bedrock)
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

    # calls

    def _arguments(self, event: dict[str, Any]) -> None:
        item = self._place(event, "function_call")
        if item is not None:
            self._record.delta(item.keys[0], string(event["delta"]))
            self._expect(event, "content_index", item.keys[0])

    def _arguments_done(self, event: dict[str, Any]) -> None:
        item = self._place(event, "function_call")
        if item is not None:
            fields = {key: event[key] for key in ("arguments", "name") if isinstance(event.get(key), str)}
            item.wire = {**item.wire, **fields}

    def _input(self, event: dict[str, Any]) -> None:
        """The text of a custom tool, as JSON of our argument `input`."""
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

    # reasoning

    def _summary_part(self, event: dict[str, Any]) -> None:
        self._reasoning_part(event, "summary", "summary_index")

    def _reasoning_part(self, event: Mapping[str, Any], field: str, index: str) -> tuple[Any, list[str]]:
        """The key of the block and the fragments of a reasoning part; parts are joined by blank lines."""
        item = self._place(event, "reasoning")
        if item is None:
            return None, []
        place = (field, _index(event, index))
        pieces = item.pieces.get(place)
        if pieces is None:
            # A summary has several parts, without a separator between them.
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
    "response.content_part.added": StreamDecoder._part_given,
    "response.content_part.done": StreamDecoder._part_given,
    "response.reasoning_part.added": StreamDecoder._part_given,
    "response.reasoning_part.done": StreamDecoder._part_given,
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
    "response.done": StreamDecoder._ended,  # the Codex backend
    "error": StreamDecoder._error,
    "": StreamDecoder._unstreamed,
}


def _same_id(item: _Item, at: int, wire: dict[str, Any]) -> bool:
    id = wire.get("id")
    return id is not None and bool(item.wire.get("id") == id) and item.kind == kind_of(wire)


def _same_place(item: _Item, at: int, wire: dict[str, Any]) -> bool:
    return item.at == at and item.kind == kind_of(wire)


def _index(event: Mapping[str, Any], field: str) -> int:
    return whole(event.get(field)) or 0


def _opening_extra(wire: Mapping[str, Any], *names: str) -> Extra:
    residual = {name: wire[name] for name in names if isinstance(wire.get(name), str)}
    return {API: residual} if residual else {}


def _opening_call(wire: Mapping[str, Any], generated: str) -> ToolCall:
    id = optional(wire.get("call_id"))
    extra = _opening_extra(wire, "id")
    if id is None:
        extra = with_extra(extra, {GENERATED: True})
    if wire["type"] == CUSTOM:
        extra = with_extra(extra, {FORM: CUSTOM})
    return ToolCall(
        id=generated if id is None else id, name=optional(wire.get("name")) or "", arguments={}, extra=extra
    )


def _text_of(block: Block) -> str:
    """The text of a block that was just decoded: the spelling of its arguments is the wire's own."""
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, ThinkingBlock):
        return block.thinking
    if not isinstance(block, ToolCall):
        return ""
    return block.arguments_text if block.arguments_text is not None else arguments_text(block)


def _streamed_reasoning(item: _Item) -> dict[str, list[Any]]:
    out: dict[str, list[Any]] = {"summary": []}
    kinds = {"summary": "summary_text", "content": "reasoning_text"}
    for (field, _), pieces in sorted(item.pieces.items(), key=lambda part: (part[0][0] != "summary", part[0][1])):
        out.setdefault(field, []).append({"type": kinds[field], "text": "".join(pieces)})
    return out


# --- ours to wire -----------------------------------------------------------------------------------------------------


class _Encoded:
    """An open item: its index and id, and the blocks of a message."""

    __slots__ = ("blocks", "field", "id", "index", "open", "others", "streamed")

    def __init__(self, index: int, id: Any, field: str) -> None:
        self.index = index
        self.id = id
        self.field = field  # its type; for reasoning, the field of its text
        self.blocks: dict[int, TextBlock] = {}  # by index of the part
        self.others: dict[int, Any] = {}  # unknown parts by index
        self.open = 0
        self.streamed = False


class StreamEncoder(Encoder):
    """Encodes a streamed answer.

    A message item is closed when another item begins: the next text may belong to it.
    """

    encode_response = staticmethod(encode_response)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._number = -1
        self._id: str | None = None
        self._created: int | None = None  # in milliseconds
        self._output: list[Any] = []  # finished items; None for open ones
        # By content index: the item and the index of the part.
        self._open: OpenBlocks[tuple[_Encoded, int]] = OpenBlocks()
        self._messages: list[_Encoded] = []  # open message items
        self._seen = False

    def _is_stop(self, message: AssistantMessage) -> bool:
        return True  # a response that failed is a response: `response.failed`

    def _failure(self, error: ProviderError) -> bytes:
        given = AssistantMessage(
            content=(),
            stop_reason="error",
            stop_detail=code_of(error),
            error_message=error.message,
            timestamp=self._created,
        )
        return self._finish(given)

    def _event(self, kind: str, **given: Any) -> bytes:
        self._number += 1
        # …/responses-streaming: `sequence_number` counts from 0 over all events, and the SSE event has the name of the
        # type.
        return write_sse(json_line({"type": kind, "sequence_number": self._number, **given}), kind)

    def _start(self, message: AssistantMessage) -> bytes:
        if self._id is not None:
            return b""
        response = self._response(replace(message, error_message=None), [], _PENDING)
        self._id, self._created = response.get("id", ""), message.timestamp
        created = self._event("response.created", response=response)
        return created + self._event("response.in_progress", response=response)

    def _begin(self) -> bytes:
        """Notes that a block begins; a stream without a start event gets one."""
        self._seen = True
        return self._start(_NOTHING)

    def _response(self, message: AssistantMessage, output: list[Any], pending: Mapping[str, Any]) -> dict[str, Any]:
        body = answer_encoded(message, output, QUIET, self._request)
        body.update((key, value) for key, value in pending.items() if key in body)
        return body

    def _text(self, index: int, text: str) -> bytes:
        encoded, place = self._open[index]
        fields = {"item_id": encoded.id, "output_index": encoded.index, "delta": text, "content_index": place}
        if encoded.blocks[place].refusal:
            return self._event("response.refusal.delta", **fields)
        return self._event("response.output_text.delta", **fields, logprobs=[])

    def _thinking(self, index: int, text: str) -> bytes:
        encoded, _ = self._open[index]
        before = b""
        if not encoded.streamed:
            encoded.streamed = True
            before = self._reasoning_part(encoded, "added", "")
        fields = {"item_id": encoded.id, "output_index": encoded.index, "delta": text}
        if encoded.field == "content":
            return before + self._event("response.reasoning_text.delta", **fields, content_index=0)
        return before + self._event("response.reasoning_summary_text.delta", **fields, summary_index=0)

    def _arguments(self, index: int, text: str) -> bytes:
        encoded, _ = self._open[index]
        if encoded.field == CUSTOM:
            return b""  # sent at the end, because its text is inside the JSON
        encoded.streamed = True
        fields = {"item_id": encoded.id, "output_index": encoded.index, "delta": text}
        return self._event("response.function_call_arguments.delta", **fields)

    def _open_block(self, index: int) -> bytes:
        return self._begin() + self._close_messages()  # its type is known at its end

    def _open_call(self, index: int, call: ToolCall) -> bytes:
        before, residual = self._open_block(index), residual_of(call.extra, API)
        if residual.get(FORM) == CUSTOM:
            call = replace(call, arguments={"input": ""})
        wire = {**encoded_call(call), "status": "in_progress"}
        if "arguments" in wire:
            wire["arguments"] = ""
        return before + self._announce(index, wire["type"], wire, residual)

    def _open_thinking(self, index: int, block: ThinkingBlock) -> bytes:
        before, residual = self._open_block(index), residual_of(block.extra, API)
        opened = self._announce(index, "reasoning", {"type": "reasoning", "summary": []}, residual)
        encoded, _ = self._open[index]
        encoded.field = "content" if residual.get(CONTENT) and not residual.get(SUMMARY) else "summary"
        return before + opened

    def _open_text(self, index: int, block: TextBlock) -> bytes:
        begun, residual = self._begin(), residual_of(block.extra, API)
        joins = (
            bool(residual.get(JOINED)) and bool(self._messages) and self._messages[-1].index == len(self._output) - 1
        )
        opened = b""
        if not joins:
            wire = {"type": "message", "role": "assistant", "status": "in_progress", "content": []}
            if "phase" in residual:
                wire["phase"] = residual["phase"]
            opened = self._close_messages() + self._announce(index, "message", wire, residual)
            message = self._open[index][0]
            message.others = dict(residual.get(MESSAGE, {}).get(PARTS, ()))
            self._messages.append(message)
        encoded = self._messages[-1]
        place = len(encoded.blocks)
        for other in sorted(encoded.others):
            if other <= place:
                place += 1
        encoded.blocks[place] = block
        encoded.open += 1
        self._open[index] = encoded, place
        part = encode_content_text(block, QUIET, answer=True)
        # …: `output_item.added`, `content_part.added`, deltas, `output_text.done`, `content_part.done`,
        # `output_item.done`: SDKs read deltas into the part that was added.
        return begun + opened + self._content_part(encoded, place, "added", part)

    def _announce(self, index: int, kind: str, wire: dict[str, Any], residual: Mapping[str, Any]) -> bytes:
        usual = default_fields(kind, len(self._output), id_stem(self._id))
        encoded = _Encoded(len(self._output), residual.get("id", usual["id"]), kind)
        self._output.append(None)
        self._open[index] = encoded, 0
        return self._event("response.output_item.added", output_index=encoded.index, item={"id": encoded.id, **wire})

    def _content_part(self, encoded: _Encoded, place: int, what: str, part: Any) -> bytes:
        return self._event(
            f"response.content_part.{what}",
            item_id=encoded.id,
            output_index=encoded.index,
            content_index=place,
            part=part,
        )

    def _reasoning_part(self, encoded: _Encoded, what: str, text: str) -> bytes:
        fields = {"item_id": encoded.id, "output_index": encoded.index}
        if encoded.field == "content":
            return self._content_part(encoded, 0, what, {"type": "reasoning_text", "text": text})
        part = {"type": "summary_text", "text": text}
        return self._event(f"response.reasoning_summary_part.{what}", **fields, summary_index=0, part=part)

    def _end_text(self, index: int, block: TextBlock) -> bytes:
        encoded, place = self._open.end(index)
        encoded.blocks[place] = block
        encoded.open -= 1
        part = encode_content_text(block, QUIET, answer=True)
        fields = {"item_id": encoded.id, "output_index": encoded.index, "content_index": place}
        if block.refusal:
            done = self._event("response.refusal.done", **fields, refusal=block.text)
        else:
            kind = "response.output_text.annotation.added"
            noted = part.get("annotations")
            notes = enumerate(noted if isinstance(noted, list) else ())
            done = b"".join(self._event(kind, **fields, annotation_index=at, annotation=note) for at, note in notes)
            done += self._event(
                "response.output_text.done", **fields, text=block.text, logprobs=part.get("logprobs") or []
            )
        return done + self._content_part(encoded, place, "done", part)

    def _end_thinking(self, index: int, block: ThinkingBlock) -> bytes:
        encoded, _ = self._open.end(index)
        if not encoded.streamed:
            return self._item_done(encoded, block)
        text = block.thinking
        fields = {"item_id": encoded.id, "output_index": encoded.index, "text": text}
        if encoded.field == "content":
            done = self._event("response.reasoning_text.done", **fields, content_index=0)
        else:
            done = self._event("response.reasoning_summary_text.done", **fields, summary_index=0)
        return done + self._reasoning_part(encoded, "done", text) + self._item_done(encoded, block)

    def _end_call(self, index: int, call: ToolCall) -> bytes:
        encoded, _ = self._open.end(index)
        fields = {"item_id": encoded.id, "output_index": encoded.index}
        if encoded.field == CUSTOM and is_custom(call):
            kind, done = "custom_tool_call_input", {"input": call.arguments["input"]}
        else:
            item = self._item(call, encoded.index) or {}
            kind, done = "function_call_arguments", {"name": call.name, "arguments": item.get("arguments", "{}")}
        text = done.get("input", done.get("arguments"))
        delta = self._event(f"response.{kind}.delta", **fields, delta=text) if text and not encoded.streamed else b""
        return delta + self._event(f"response.{kind}.done", **fields, **done) + self._item_done(encoded, call)

    def _end_block(self, index: int, block: Block) -> bytes:
        opened = self._open.pop(index, None)
        if opened is not None:  # it began as a block of another kind
            return self._item_done(opened[0], block)
        item, place = self._item(block, len(self._output)), len(self._output)
        if item is None:
            return b""
        self._output.append(item)
        added = self._event("response.output_item.added", output_index=place, item=item)
        return added + self._event("response.output_item.done", output_index=place, item=item)

    def _item_done(self, encoded: _Encoded, block: Block) -> bytes:
        return self._item_finished(encoded, self._item(block, encoded.index))

    def _item(self, block: Block, at: int) -> Any:
        return encode_item(block, QUIET, at, answer=True, response_id=self._id)

    def _item_finished(self, encoded: _Encoded, item: Any) -> bytes:
        if isinstance(item, dict) and "id" in item:
            item = {**item, "id": encoded.id}  # clients match items by the id in `output_item.added`
        self._output[encoded.index] = item
        return self._event("response.output_item.done", output_index=encoded.index, item=item)

    def _close_messages(self) -> bytes:
        """Closes the message items whose text is complete."""
        closed = b""
        for encoded in [encoded for encoded in self._messages if not encoded.open]:
            self._messages.remove(encoded)
            closed += self._item_finished(encoded, self._whole_message(encoded))
        return closed

    def _whole_message(self, encoded: _Encoded) -> dict[str, Any]:
        blocks = [block for _, block in sorted(encoded.blocks.items())]
        residual = blocks[0].extra.get(API, {}) if blocks[0].extra else {}
        parts = [encode_content_text(block, QUIET, answer=True) for block in blocks]
        item = message_item(residual, parts, encoded.index, id_stem(self._id))
        finish_message(item, residual.get(MESSAGE, {}))
        return item

    def _finish(self, message: AssistantMessage) -> bytes:
        encoded = self._start(_NOTHING if self._seen else message)
        if not self._seen:  # only the terminal event: its message has all blocks
            terminal = self._latest
            encoded += b"".join(map(self.feed, list(unfold(message))[:-1]))
            self._latest = terminal
        self._closed = True
        return encoded + self._end(message)

    def _end(self, message: AssistantMessage) -> bytes:
        closed = self._close_messages()
        output = [item for item in self._output if item is not None]
        response = self._response(message, output, {"id": self._id})
        status = status_given(encoded_stop(message, blocks_of(message.content)))
        return closed + self._event(_TERMINAL.get(status, "response.completed"), response=response)


_NOTHING = AssistantMessage(content=())
# The reference has no terminal event for `cancelled`.
_TERMINAL = {"incomplete": "response.incomplete", "failed": "response.failed", "cancelled": "response.failed"}
# `response.created` has the status `in_progress`, and no usage yet.
_PENDING = {"status": "in_progress", "error": None, "incomplete_details": None, "usage": None}
