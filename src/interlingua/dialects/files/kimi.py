"""Kimi's wire logs (`wire.jsonl`, one per agent): what happened to the context, an event a line.

`context.append_message` adds a message; `context.append_loop_event` tells the steps of the model: `step.begin`, then
`content.part`, `tool.call` and `tool.result`, and `step.end` with the usage. A step is one answer. `turn.prompt` says
what the user typed a second time. `context.undo` takes back the last prompts of the user and all after them;
`context.apply_compaction` puts a summary in the place of the first messages, `context.clear` forgets them all. Usage is
disjoint; the total is the sum of `usage.record`, which also has what compactions and titles cost. Sub-agents have logs
of their own, which begin with a prompt whose origin is `system_trigger`.

Older logs (of the Python program) are `{timestamp, message: {type, payload}}` with the same events under other names.
Beside its log that program keeps the context alone (`context.jsonl`): the messages of OpenAI's chat wire, with marks
between them whose role begins with `_` (`_checkpoint`, `_usage`, `_system_prompt`).
"""

import sys
from typing import Any

from msgspec.structs import replace

from ...values.losses import Encoded, SupportTable
from ...values.messages import AssistantMessage, Block, Message, ThinkingBlock, Usage, UserMessage, blocks_of
from ...values.request import Conversation
from ..residual import optional, reading, whole
from ..wire import FileFormat
from . import records as _records
from .program_content import (
    Branches,
    a_call,
    a_result,
    block_of,
    call_of,
    content_of,
    conversation_of,
    first,
    inner,
    items,
    moment,
    openai_tools,
    usage_of,
    user,
    user_messages,
)
from .reading import kept_record
from .records import lines_of
from .templates import give_back, keep

API = "kimi"
FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT

# Origins of messages that stand for a person: one typed them, or (for a sub-agent) another agent did.
_ASKED = frozenset((None, "user", "system_trigger", "skill_activation", "plugin_command"))
_EVENT = "context.append_loop_event"


class _Log:
    """The state of the context, event by event."""

    def __init__(self, with_messages: bool) -> None:
        self.tree = Branches()
        self.system: str | None = None
        self.tools: Any = None
        self.model: str | None = None
        self.spent: list[Usage] = []
        self._with_messages = with_messages  # else prompts stand in `turn.prompt` alone
        self._steps: dict[Any, int] = {}  # step -> place of its answer
        self._step: Any = None
        self._unfinished: dict[int, list[Block]] = {}  # place -> the blocks of an answer that is not written yet
        self._names: dict[str, str] = {}  # call -> tool

    def feed(self, record: dict[str, Any]) -> None:
        when = moment(first(record, "time", "timestamp"))
        match record.get("type"):
            case "context.append_message":
                self._message(record.get("message"), when)
            case "turn.prompt" if not self._with_messages:
                self._message({"role": "user", "content": record.get("input"), "origin": record.get("origin")}, when)
            case "context.append_loop_event":
                event = record.get("event")
                if isinstance(event, dict):
                    self._event(event, when)
            case "config.update" | "profile.bind":
                self.system = optional(record.get("systemPrompt")) or self.system
            case "llm.tools_snapshot":
                self.tools = record.get("tools")
            case "llm.request":
                self.model = optional(record.get("model"))
                self._change(self._step, model=self.model)
            case "usage.record":
                counted = _usage(record.get("usage"))
                if counted is not None:
                    self.spent.append(counted)
                if self.model is None:
                    self._change(self._step, model=optional(record.get("model")))
            case "context.undo":
                self._undo(whole(record.get("count")) or 0)
            case "context.clear":
                self.tree.cut(0)
            case "context.apply_compaction":
                self._compact(record, when)

    def _message(self, wire: Any, when: int | None) -> None:
        if not isinstance(wire, dict):
            return
        content = wire.get("content")
        if wire.get("role") == "assistant":
            calls = [
                block for item in items(wire.get("toolCalls")) if (block := block_of({**item, "type": "tool_use"}))
            ]
            self.tree.add(AssistantMessage(content=(*_blocks(content), *calls), timestamp=when))
        elif wire.get("role") == "tool":
            id = optional(first(wire, "toolCallId", "tool_call_id"))
            if id is not None:
                self.tree.add(a_result(id, content, when=when))
        elif wire.get("role") == "user":
            program = inner(wire, "origin", "kind") not in _ASKED
            # Reminders are put in when a session is opened, which may be long before anybody speaks.
            for message in user_messages(content, None if program else when, program=program):
                self.tree.add(message)
        else:
            self.tree.add(kept_record(API, str(wire.get("role")), wire))

    def _event(self, event: dict[str, Any], when: int | None) -> None:
        match event.get("type"):
            case "step.begin":
                self._step = event.get("uuid")
                self._begin(self._step, when)
            case "content.part":
                for block in _blocks([event.get("part")]):
                    self._append_block(event, block, when)
            case "tool.call":
                id, name = optional(event.get("toolCallId")), optional(event.get("name"))
                if id is not None and name is not None:
                    self._names[id] = name
                    self._append_block(event, a_call(id, name, event.get("args")), when)
            case "tool.result":
                self._result(event, when)
            case "step.end":
                self._change(event.get("uuid"), usage=_usage(event.get("usage")))

    def _begin(self, step: Any, when: int | None) -> int:
        at = self.tree.add(AssistantMessage(content=(), model=self.model, timestamp=when))
        self._steps[str(step)] = at
        return at

    def _append_block(self, event: dict[str, Any], block: Block, when: int | None) -> None:
        step = first(event, "stepUuid") or self._step
        at = self._steps[str(step)] if str(step) in self._steps else self._begin(step, when)
        self._unfinished.setdefault(at, []).append(block)
        self._change(step, timestamp=when)

    def finish(self) -> None:
        """Writes the answers with appended content."""
        for at, blocks in self._unfinished.items():
            self.tree.replace(at, replace(self.tree[at], content=tuple(blocks)))

    def _change(self, step: Any, **fields: Any) -> None:
        at = self._steps.get(str(step))
        given = {name: value for name, value in fields.items() if value is not None}
        if at is not None and given:
            self.tree.replace(at, replace(self.tree[at], **given))

    def _result(self, event: dict[str, Any], when: int | None) -> None:
        id, result = optional(event.get("toolCallId")), event.get("result", event)
        if id is not None:
            output = first(result, "output", "content") if isinstance(result, dict) else result
            failed = inner(result, "isError") is True
            self.tree.add(a_result(id, output, name=self._names.get(id), failed=failed, when=when))

    def _undo(self, prompts: int) -> None:
        """Cuts before the n-th prompt from the end; does nothing if there are not so many."""
        asked = [at for at, place in enumerate(self.tree.path) if _is_prompt(self.tree[place])]
        if 0 < prompts <= len(asked):
            self.tree.cut(asked[-prompts])

    def _compact(self, record: dict[str, Any], when: int | None) -> None:
        self.finish()
        covered = whole(record.get("compactedCount"))
        stays = [] if covered is None else [self.tree[place] for place in self.tree.path[max(covered, 0) :]]
        self.tree.cut(0)
        summary = optional(record.get("summary"))
        if summary is not None:
            self.tree.add(user(summary, when, program=True))
        for message in stays:  # counted where they first stood
            self.tree.add(replace(message, usage=None) if isinstance(message, AssistantMessage) else message)


def _is_prompt(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.origin is None


def _blocks(content: Any) -> tuple[Block, ...]:
    # A part of the model's thinking may be sealed: then it has no text.
    blocks = blocks_of(content_of(content))
    return tuple(b for b in blocks if not isinstance(b, ThinkingBlock) or b.thinking or b.thinking_signature)


def _usage(wire: Any) -> Usage | None:
    return usage_of(wire, input="inputOther", output="output", read="inputCacheRead", write="inputCacheCreation")


def _sum(counted: list[Usage]) -> Usage | None:
    if not counted:
        return None
    names = ("input", "output", "cache_read", "cache_write")
    total = {name: sum(getattr(usage, name) for usage in counted) for name in names}
    return Usage.of(total["input"], total["output"], cache_read=total["cache_read"], cache_write=total["cache_write"])


# --- older logs ------------------------------------------------------------------------------------------------------


def _as_newer(record: dict[str, Any], step: list[int]) -> list[dict[str, Any]]:
    """A record of the older program as the records that say the same today."""
    payload = inner(record, "message", "payload")
    if not isinstance(payload, dict):
        return [record]
    time = record.get("timestamp")

    def event(**fields: Any) -> dict[str, Any]:
        return {"type": _EVENT, "event": {"stepUuid": str(step[0]), **fields}, "time": time}

    match inner(record, "message", "type"):
        case "TurnBegin":
            message = {"role": "user", "content": payload.get("user_input")}
            return [{"type": "context.append_message", "message": message, "time": time}]
        case "StepBegin":
            step[0] += 1
            return [event(type="step.begin", uuid=str(step[0]))]
        case "ContentPart":
            return [event(type="content.part", part=payload)]
        case "ToolCall":
            called = payload.get("function")
            name, given = inner(called, "name"), inner(called, "arguments")
            return [event(type="tool.call", toolCallId=payload.get("id"), name=name, args=given)]
        case "ToolResult":
            given = first(payload, "return_value", "result")
            result = {"output": inner(given, "output"), "isError": inner(given, "is_error")}
            return [event(type="tool.result", toolCallId=payload.get("tool_call_id"), result=result)]
        case "StatusUpdate":
            usage = payload.get("token_usage")
            names = ("input_other", "output", "input_cache_read", "input_cache_creation")
            newer = ("inputOther", "output", "inputCacheRead", "inputCacheCreation")
            counted = {new: inner(usage, old) for old, new in zip(names, newer, strict=True)}
            return [event(type="step.end", uuid=str(step[0]), usage=counted)]
    return []


@reading(API)
def decode(data: Any) -> Conversation:
    """A wire log: text, bytes, or the values of its lines."""
    lines = lines_of(data, API)
    if _is_context(lines):
        system = next((optional(line.get("content")) for line in lines if line.get("role") == "_system_prompt"), None)
        messages = [message for line in lines if (message := _context_message(line)) is not None]
        return keep(conversation_of(messages, system=system), lines, API, lines=True)
    step = [0]
    records = [newer for line in lines for newer in _as_newer(line, step)]
    log = _Log(any(record.get("type") == "context.append_message" for record in records))
    for record in records:
        log.feed(record)
    log.finish()
    found = conversation_of(
        (), usage=_sum(log.spent), model=log.model, system=log.system, tools=openai_tools(log.tools)
    )
    return keep(log.tree.placed(found), lines, API, lines=True)


def _is_context(lines: Any) -> bool:
    return all(isinstance(line, dict) and isinstance(line.get("role"), str) for line in lines) and any(
        line["role"] in ("_checkpoint", "_usage", "_system_prompt") for line in lines
    )


def _context_message(line: dict[str, Any]) -> Message | None:
    content = content_of(line.get("content"))
    match line.get("role"):
        case "user":
            return user(content)
        case "assistant":
            calls = [call for item in items(line.get("tool_calls")) if (call := call_of(item)) is not None]
            return AssistantMessage(content=(*blocks_of(content), *calls) if calls else content)
        case "tool":
            return a_result(optional(line.get("tool_call_id")) or "", line.get("content"))
    return None


def encode(conversation: Conversation) -> Encoded:
    """The lines of a log that was read."""
    return give_back(conversation, API, decode)


def detect(value: Any) -> str | None:
    """A header with the version of the protocol, or events of the context."""
    lines = value if isinstance(value, list) else [value]
    if len(lines) > 1 and _is_context(lines[:50]):
        return "messages with `_checkpoint` or `_usage` between them"
    for line in lines[:50]:
        if not isinstance(line, dict):
            return None
        if line.get("type") == "metadata" and "protocol_version" in line:
            return "a `metadata` line with a `protocol_version`"
        if line.get("type") in (_EVENT, "context.append_message") and ("event" in line or "message" in line):
            return f"a `{line['type']}` line"
    return None


FORMAT = FileFormat(name=API, codec=sys.modules[__name__], detect=detect, lines=True, writable=False)
