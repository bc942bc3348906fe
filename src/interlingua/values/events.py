"""Events of a response stream (`StreamEvent`) and of an agent run (`AgentEvent`).

Events carry deltas. `partial`, the message so far, is computed on access: an event references the log of its stream and
its position in it; neither is compared, printed or serialised. An event whose JSON had `partial` keeps it in the same
way.
"""

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import Struct, field

from .messages import (
    AssistantMessage,
    Block,
    Message,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    shown,
)
from .partials import snapshot


class Event(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True, tag_field="type"):
    """Base of all events. `type` is the name of the event in JSON; type checkers narrow events by it."""

    type: ClassVar[str]
    __repr__ = shown


PARTIAL = "_partial"  # the message so far of an event that was read from JSON with `partial`


class StreamPart(Event, frozen=True, dict=True):
    """Base of the events between start and end; `partial` is a snapshot of the message at this event."""

    @property
    def partial(self) -> AssistantMessage | None:
        """The message so far; None for an event that was read from JSON without it."""
        beside = self.__dict__
        log = beside.get("_log")
        return beside.get(PARTIAL) if log is None else snapshot(log, beside["_at"])


class Start(Event, frozen=True, tag="start"):
    type: ClassVar[Literal["start"]] = "start"
    partial: AssistantMessage | None = None


class TextStart(StreamPart, frozen=True, tag="text_start"):
    """`block` is set if more than an empty text is known."""

    type: ClassVar[Literal["text_start"]] = "text_start"
    content_index: int
    block: TextBlock | None = None


class TextDelta(StreamPart, frozen=True, tag="text_delta"):
    type: ClassVar[Literal["text_delta"]] = "text_delta"
    content_index: int
    delta: str


class TextEnd(StreamPart, frozen=True, tag="text_end"):
    """`block` is set if the finished block has more than `content` (citations, a signature, …)."""

    type: ClassVar[Literal["text_end"]] = "text_end"
    content_index: int
    content: str
    block: TextBlock | None = None


class ThinkingStart(StreamPart, frozen=True, tag="thinking_start"):
    type: ClassVar[Literal["thinking_start"]] = "thinking_start"
    content_index: int
    block: ThinkingBlock | None = None


class ThinkingDelta(StreamPart, frozen=True, tag="thinking_delta"):
    type: ClassVar[Literal["thinking_delta"]] = "thinking_delta"
    content_index: int
    delta: str


class ThinkingEnd(StreamPart, frozen=True, tag="thinking_end"):
    type: ClassVar[Literal["thinking_end"]] = "thinking_end"
    content_index: int
    content: str
    block: ThinkingBlock | None = None


class ToolCallStart(StreamPart, frozen=True, tag="toolcall_start"):
    """`block` holds what is known at the start: the call's id and name, without arguments."""

    type: ClassVar[Literal["toolcall_start"]] = "toolcall_start"
    content_index: int
    block: ToolCall | None = None


class ToolCallDelta(StreamPart, frozen=True, tag="toolcall_delta"):
    type: ClassVar[Literal["toolcall_delta"]] = "toolcall_delta"
    content_index: int
    delta: str


class ToolCallEnd(StreamPart, frozen=True, tag="toolcall_end"):
    type: ClassVar[Literal["toolcall_end"]] = "toolcall_end"
    content_index: int
    tool_call: ToolCall


class BlockStart(StreamPart, frozen=True, tag="block_start"):
    """A block that is delivered as a whole: image, audio, document, server tool, opaque."""

    type: ClassVar[Literal["block_start"]] = "block_start"
    content_index: int


class BlockEnd(StreamPart, frozen=True, tag="block_end"):
    type: ClassVar[Literal["block_end"]] = "block_end"
    content_index: int
    block: Block


class Done(Event, frozen=True, tag="done"):
    type: ClassVar[Literal["done"]] = "done"
    reason: StopReason
    message: AssistantMessage


class Error(Event, frozen=True, tag="error"):
    type: ClassVar[Literal["error"]] = "error"
    reason: Literal["error", "aborted"]
    error: AssistantMessage


StreamEvent: TypeAlias = (
    Start
    | TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | BlockStart
    | BlockEnd
    | Done
    | Error
)
AssistantMessageEvent: TypeAlias = StreamEvent


def message_in(event: StreamEvent) -> AssistantMessage | None:
    """Returns the finished message of an event, or the message so far where it is known."""
    if isinstance(event, Done):
        return event.message
    return event.error if isinstance(event, Error) else event.partial


class AgentStart(Event, frozen=True, tag="agent_start"):
    type: ClassVar[Literal["agent_start"]] = "agent_start"


class AgentEnd(Event, frozen=True, tag="agent_end"):
    """`messages` are the new messages of this run; `reason` is set if the run ended early."""

    type: ClassVar[Literal["agent_end"]] = "agent_end"
    messages: tuple[Message, ...]
    reason: str = "done"


class TurnStart(Event, frozen=True, tag="turn_start"):
    type: ClassVar[Literal["turn_start"]] = "turn_start"


class TurnEnd(Event, frozen=True, tag="turn_end"):
    type: ClassVar[Literal["turn_end"]] = "turn_end"
    message: Message
    tool_results: tuple[ToolResultMessage, ...]


class MessageStart(Event, frozen=True, tag="message_start"):
    type: ClassVar[Literal["message_start"]] = "message_start"
    message: Message


class MessageUpdate(Event, frozen=True, tag="message_update"):
    """`message` is the message so far: computed on access, and in the JSON only if it was `shown`."""

    type: ClassVar[Literal["message_update"]] = "message_update"
    assistant_message_event: StreamEvent
    shown: Message | None = field(default=None, name="message")

    @property
    def message(self) -> Message | None:
        return self.shown or message_in(self.assistant_message_event)


class MessageEnd(Event, frozen=True, tag="message_end"):
    type: ClassVar[Literal["message_end"]] = "message_end"
    message: Message


class ToolExecutionStart(Event, frozen=True, tag="tool_execution_start"):
    type: ClassVar[Literal["tool_execution_start"]] = "tool_execution_start"
    tool_call_id: str
    tool_name: str
    args: Any


class ToolExecutionUpdate(Event, frozen=True, tag="tool_execution_update"):
    type: ClassVar[Literal["tool_execution_update"]] = "tool_execution_update"
    tool_call_id: str
    tool_name: str
    args: Any
    partial_result: Any


class ToolExecutionEnd(Event, frozen=True, tag="tool_execution_end"):
    type: ClassVar[Literal["tool_execution_end"]] = "tool_execution_end"
    tool_call_id: str
    tool_name: str
    result: Any
    is_error: bool


AgentEvent: TypeAlias = (
    AgentStart
    | AgentEnd
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
)
