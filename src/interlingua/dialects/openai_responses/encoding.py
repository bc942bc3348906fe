"""Events to streams."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import ProviderError
from ...values.events import (
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
from ...values.folding import CUT_OFF, unfold
from ...values.losses import QUIET
from ...values.messages import AssistantMessage, Block, TextBlock, ThinkingBlock, ToolCall, blocks_of
from ..framing import write_sse
from ..provider_errors import code_of
from ..residual import JOINED, MESSAGE
from ..streaming import Encoder
from .answers import answer_said, encode_response, said_word, status_said
from .assistant_encode import encode_said, finish_message, message_item
from .facts import API, CONTENT, CUSTOM, FORM, PARTS, SUMMARY
from .items import encode_item, is_custom, said_call
from .response_residual import usually


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


class StreamEncoder(Encoder):
    """Events to the bytes of a streamed answer.

    A message item is closed only when something else begins: the next words may belong to it.
    """

    encode_response = staticmethod(encode_response)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._number = -1
        self._id: str | None = None
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
        self._latest = event
        match event:
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

    def _failure(self, error: ProviderError) -> bytes:
        told = AssistantMessage(
            content=(), stop_reason="error", stop_detail=code_of(error), error_message=error.message
        )
        return self._finish(told)

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
        body = answer_said(message, output, QUIET, self._request)
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
            wire = {**said_call(call), "status": "in_progress"}
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
        said = _Said(len(self._output), held.get("id", usually(kind, len(self._output))["id"]), kind)
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
        if isinstance(event, BlockEnd):
            return self._end_block(self._open.pop(event.content_index, None), event.block)
        said, place = self._open.pop(event.content_index)
        if isinstance(event, TextEnd):
            return self._end_words(said, place, event.block or TextBlock(text=event.content))
        if isinstance(event, ThinkingEnd):
            block = event.block or ThinkingBlock(thinking=event.content)
            return self._end_thinking(said, event.content) + self._item_done(said, block)
        return self._end_call(said, event.tool_call)

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
        if said.field == CUSTOM and is_custom(call):
            kind, done = "custom_tool_call_input", {"input": call.arguments["input"]}
        else:
            item = encode_item(call, QUIET, said.index, answer=True) or {}
            kind, done = "function_call_arguments", {"name": call.name, "arguments": item.get("arguments", "{}")}
        text = done.get("input", done.get("arguments"))
        delta = self._event(f"response.{kind}.delta", **told, delta=text) if text and not said.streamed else b""
        return delta + self._event(f"response.{kind}.done", **told, **done) + self._item_done(said, call)

    def _end_block(self, opened: tuple[_Said, int] | None, block: Block) -> bytes:
        if opened is not None:  # it began as something else
            return self._item_done(opened[0], block)
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
        item = message_item(held, parts, said.index, True)
        finish_message(item, held.get(MESSAGE, {}))
        return item

    def _finish(self, message: AssistantMessage) -> bytes:
        said = self._begin(message if not self._seen else None)
        if not self._seen:  # a message that was never taken apart
            terminal = self._latest
            said += b"".join(map(self.feed, list(unfold(message))[:-1]))
            self._latest = terminal
        said += self._close_messages()
        self._closed = True
        output = [item for item in self._output if item is not None]
        response = self._response(message, output, {"id": self._id})
        status = status_said(said_word(message, blocks_of(message.content)))
        return said + self._event(_TERMINAL.get(status, "response.completed"), response=response)


_NOTHING = AssistantMessage(content=())
_TERMINAL = {"incomplete": "response.incomplete", "failed": "response.failed", "cancelled": "response.failed"}
_PENDING = {"status": "in_progress", "error": None, "incomplete_details": None, "usage": None}
