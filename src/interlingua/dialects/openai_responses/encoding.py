"""Encoding of streamed answers. platform.openai.com/docs/api-reference/responses-streaming"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ...values.errors import ProviderError
from ...values.folding import unfold
from ...values.losses import QUIET
from ...values.messages import AssistantMessage, Block, TextBlock, ThinkingBlock, ToolCall, blocks_of
from ..framing import json_line, write_sse
from ..provider_errors import code_of
from ..residual import JOINED, MESSAGE, residual_of
from ..streaming import Encoder, OpenBlocks
from .answers import answer_encoded, encode_response, encoded_stop, status_given
from .content import (
    default_fields,
    encode_content_text,
    encode_item,
    encoded_call,
    finish_message,
    id_stem,
    is_custom,
    message_item,
)
from .facts import API, CONTENT, CUSTOM, FORM, PARTS, SUMMARY


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
        self._output: list[Any] = []  # finished items; None for open ones
        self._open: OpenBlocks[tuple[_Encoded, int]] = (
            OpenBlocks()
        )  # by content index: the item and the index of the part
        self._messages: list[_Encoded] = []  # open message items
        self._seen = False

    def _is_stop(self, message: AssistantMessage) -> bool:
        return True  # a response that failed is a response: `response.failed`

    def _failure(self, error: ProviderError) -> bytes:
        given = AssistantMessage(
            content=(), stop_reason="error", stop_detail=code_of(error), error_message=error.message
        )
        return self._finish(given)

    def _event(self, kind: str, **given: Any) -> bytes:
        self._number += 1
        return write_sse(json_line({"type": kind, "sequence_number": self._number, **given}), kind)

    def _start(self, message: AssistantMessage) -> bytes:
        if self._id is not None:
            return b""
        response = self._response(replace(message, error_message=None), [], _PENDING)
        self._id = response.get("id", "")
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
_TERMINAL = {"incomplete": "response.incomplete", "failed": "response.failed", "cancelled": "response.failed"}
_PENDING = {"status": "in_progress", "error": None, "incomplete_details": None, "usage": None}
