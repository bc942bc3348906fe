"""Kimi's wire logs (`wire.jsonl`, one per agent): what happened to the context, an event a line.

`context.append_message` adds a message; `context.append_loop_event` has the steps of the model: `step.begin`, then
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
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from ...values.compact import IdMap, IdNumbers
from ...values.messages import AssistantMessage, Block, Message, ThinkingBlock, Usage, UserMessage, blocks_of, text_of
from ...values.request import Conversation
from ..codec import ANSWER
from ..residual import fields_of, optional, reading, whole
from ..wire import SessionStream
from .line_sessions import Branches, ReadAgain, Reader, Record, RowReader, TemplateStream, TreeReader, read
from .program_content import (
    a_call,
    a_result,
    block_of,
    call_of,
    content_of,
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
from .templates import file_format, keep

API = "kimi"

# Origins of messages that stand for a person: one typed them, or (for a sub-agent) another agent did.
_ASKED = frozenset((None, "user", "system_trigger", "skill_activation", "plugin_command"))
_EVENT = "context.append_loop_event"


def _ends_of(lines: ReadAgain) -> IdNumbers:
    """The place of the last record of each step."""
    ends = IdNumbers()
    current: Any = None
    for at, record in enumerate(_records_in(lines())):
        kind, event = record.get("type"), fields_of(record.get("event"))
        if kind == _EVENT and event.get("type") == "step.begin":
            current = event.get("uuid")
        if kind in (_EVENT, "llm.request", "usage.record"):
            ends[_step_of(event, current)] = at
    return ends


def _step_of(event: dict[str, Any], current: Any) -> str:
    return str(event.get("uuid") if event.get("type") == "step.end" else first(event, "stepUuid") or current)


class _Answer(NamedTuple):
    """A step of the model: its id, and what its events contain."""

    step: str
    blocks: list[Block]
    fields: dict[str, Any]

    def message(self) -> AssistantMessage:
        return replace(ANSWER, extra={}, content=tuple(self.blocks), **self.fields)


class _Log:
    """The state of the context, event by event.

    `ends` are those of the steps. `stays` are the places of messages that a compaction adds again: they are known from
    an earlier pass, which yields others in their place. A log in memory needs neither; its messages wait for the end.
    """

    def __init__(self, with_messages: bool, tree: Branches, ends: IdNumbers | None, stays: set[int]) -> None:
        self.system: str | None = None
        self.tools: Any = None
        self.model: str | None = None
        self.spent: Usage | None = None
        self._with_messages = with_messages  # else prompts stand in `turn.prompt` alone
        self._tree, self._ends, self._stays = tree, ends, stays
        # Step -> place of its answer; maps of ids for millions of them take longer.
        self._steps: dict[str, int] | IdNumbers = {} if ends is None else IdNumbers()
        self._step: Any = None
        self._waiting = deque[Message | _Answer]()  # from the first answer on that may still change
        self._first = 0  # the place of the first of them
        self._kept: dict[int, Message] = {}
        self._prompts = bytearray()  # by place: whether a person asked
        self._names = IdMap()  # call -> tool

    def complete(self, at: int) -> Iterator[Message]:
        """The messages that no record after this one changes."""
        while self._waiting:
            first = self._waiting[0]
            if self._ends is not None and isinstance(first, _Answer) and (self._ends.get(first.step) or 0) > at:
                return
            message = self._message_at(self._first)
            if self._first in self._stays:
                self._kept[self._first] = message
            self._waiting.popleft()
            self._first += 1
            yield message

    def _message_at(self, place: int) -> Any:
        """A message as it is now; one in its place, if only a later pass keeps it."""
        if place < self._first:
            return self._kept.get(place, user(None))
        found = self._waiting[place - self._first]
        return found.message() if isinstance(found, _Answer) else found

    def _add(self, message: Message | _Answer, *, is_prompt: bool | None = None) -> int:
        self._waiting.append(self._tree.add(message))
        self._prompts.append(_is_prompt(message) if is_prompt is None else is_prompt)
        return len(self._prompts) - 1

    def feed(self, record: dict[str, Any]) -> None:
        time = record.get("time")
        when = moment(record.get("timestamp") if time is None else time)
        match record.get("type"):
            case "context.append_loop_event":  # most are
                event = record.get("event")
                if isinstance(event, dict):
                    self._event(event, when)
            case "context.append_message":
                self._message(record.get("message"), when)
            case "turn.prompt" if not self._with_messages:
                self._message({"role": "user", "content": record.get("input"), "origin": record.get("origin")}, when)
            case "config.update" | "profile.bind":
                self.system = optional(record.get("systemPrompt")) or self.system
            case "llm.tools_snapshot":
                self.tools = record.get("tools")
            case "llm.request" if record.get("kind") != "compaction":
                self.model = optional(record.get("model"))
                self._change(self._step, "model", self.model)
            case "usage.record":
                self.spent = _sum(self.spent, _usage(record.get("usage")))
                if self.model is None:
                    self._change(self._step, "model", optional(record.get("model")))
            case "context.undo":
                self._undo(whole(record.get("count")) or 0)
            case "context.clear":
                self._tree.cut(0)
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
            self._add(replace(ANSWER, extra={}, content=(*_blocks(content), *calls), timestamp=when))
        elif wire.get("role") == "tool":
            id = optional(first(wire, "toolCallId", "tool_call_id"))
            if id is not None:
                self._add(a_result(id, content, when=when))
        elif wire.get("role") == "user":
            program = inner(wire, "origin", "kind") not in _ASKED
            # A skill or a command that the model activated: compactionHandoff.ts, `compactionUserMessageDisposition`.
            program = program or inner(wire, "origin", "trigger") not in (None, "user-slash")
            # Reminders are put in when a session is opened, which may be long before anybody speaks.
            for message in user_messages(content, None if program else when, program=program):
                self._add(message)
        else:
            self._add(kept_record(API, str(wire.get("role")), wire))

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
                self._change(event.get("uuid"), "usage", _usage(event.get("usage")))

    def _begin(self, step: Any, when: int | None) -> _Answer:
        answer = _Answer(str(step), [], {"model": self.model, "timestamp": when})
        self._steps[answer.step] = self._add(answer, is_prompt=False)
        return answer

    def _answer(self, step: Any) -> _Answer | None:
        at = self._steps.get(str(step))
        found = None if at is None or at < self._first else self._waiting[at - self._first]
        return found if isinstance(found, _Answer) else None

    def _append_block(self, event: dict[str, Any], block: Block, when: int | None) -> None:
        step = first(event, "stepUuid") or self._step
        answer = self._answer(step) or self._begin(step, when)
        answer.blocks.append(block)
        if when is not None:
            answer.fields["timestamp"] = when

    def _change(self, step: Any, name: str, value: Any) -> None:
        answer = self._answer(step) if value is not None else None
        if answer is not None:
            answer.fields[name] = value

    def _result(self, event: dict[str, Any], when: int | None) -> None:
        id, result = optional(event.get("toolCallId")), event.get("result", event)
        if id is not None:
            output = first(result, "output", "content") if isinstance(result, dict) else result
            failed = inner(result, "isError") is True
            self._add(a_result(id, output, name=self._names.get(id), failed=failed, when=when))

    def _undo(self, prompts: int) -> None:
        """Cuts before the n-th prompt from the end; does nothing if there are not so many."""
        asked = [at for at, place in enumerate(self._tree.path) if self._prompts[place]]
        if 0 < prompts <= len(asked):
            self._tree.cut(asked[-prompts])

    def _compact(self, record: dict[str, Any], when: int | None) -> None:
        """Older versions put the summary before what was not covered, newer ones behind the prompts that they keep.

        These are the first ones and the last ones: agent-core/src/agent/context, `applyCompaction`.
        """
        covered, kept = whole(first(record, "compactedCount", "count")), whole(record.get("keptUserMessageCount"))
        if kept is None:
            places = [] if covered is None else self._tree.path[max(covered, 0) :]
        else:
            prompts = [place for place in self._tree.path if self._prompts[place]]
            head = min(whole(record.get("keptHeadUserMessageCount")) or 0, kept)
            places = [*prompts[:head], *prompts[max(len(prompts) - (kept - head), head) :]]
        stays = [(self._message_at(place), bool(self._prompts[place])) for place in places]
        self._stays.update(places)
        self._tree.cut(0)
        summary = first(record, "contextSummary", "summary")
        content = content_of(summary.get("content") if isinstance(summary, dict) else summary)
        added = [] if content is None else [(user(content, when, program=True), False)]
        for message, is_prompt in [*stays, *added] if kept is not None else [*added, *stays]:
            # Counted where they first stood.
            message = replace(message, usage=None) if isinstance(message, AssistantMessage) else message
            self._add(message, is_prompt=is_prompt)


class _LogReader(TreeReader):
    def __init__(self, with_messages: bool, ends: IdNumbers | None) -> None:
        super().__init__()
        self._with_messages, self._ends, self._stays = with_messages, ends, set[int]()

    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        log = _Log(self._with_messages, self.tree, self._ends, self._stays)
        for at, record in enumerate(_records_in(records)):
            log.feed(record)
            if self._ends is not None:
                yield from log.complete(at)
        yield from log.complete(sys.maxsize)
        tools = openai_tools(log.tools)
        self.fields = {"usage": log.spent, "model": log.model, "system": log.system, "tools": tools}


def _is_prompt(message: Message | _Answer) -> bool:
    return isinstance(message, UserMessage) and message.origin is None


def _blocks(content: Any) -> tuple[Block, ...]:
    # A part of the model's thinking may be sealed: then it has no text.
    blocks = blocks_of(content_of(content))
    return tuple([b for b in blocks if type(b) is not ThinkingBlock or b.thinking or b.thinking_signature])


def _usage(wire: Any) -> Usage | None:
    return usage_of(wire, input="inputOther", output="output", read="inputCacheRead", write="inputCacheCreation")


def _sum(total: Usage | None, counted: Usage | None) -> Usage | None:
    if counted is None:
        return total
    given = (total or Usage.of(), counted)
    return Usage.of(
        sum(usage.input for usage in given),
        sum(usage.output for usage in given),
        cache_read=sum(usage.cache_read for usage in given),
        cache_write=sum(usage.cache_write for usage in given),
    )


# --- older logs ------------------------------------------------------------------------------------------------------


def _records_in(lines: Iterable[Record]) -> Iterator[Record]:
    """The records of a log of either age."""
    step = [0]
    for line in lines:
        payload = inner(line, "message", "payload") if "message" in line else None
        if isinstance(payload, dict):
            yield from _as_newer(line, payload, step)
        else:
            yield line


def _as_newer(record: dict[str, Any], payload: dict[str, Any], step: list[int]) -> list[dict[str, Any]]:
    """A record of the older program as the equal records of today."""
    time = record.get("timestamp")

    def event(**fields: Any) -> dict[str, Any]:
        return {"type": _EVENT, "event": {"stepUuid": str(step[0]), **fields}, "time": time}

    match inner(record, "message", "type"):
        case "TurnBegin" | "SteerInput":  # a prompt, or what the person wrote while a turn ran
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
    return keep(read(_reader(lambda: lines), lines), lines, API, lines=True)


@reading(API)
def stream(lines: ReadAgain) -> SessionStream:
    """The same, one entry at a time."""
    return TemplateStream(_reader(lines, _ends_of(lines)), lines, API)


def _reader(lines: ReadAgain, ends: IdNumbers | None = None) -> Reader:
    if _is_context(lines):
        return _ContextReader()
    return _LogReader(any(line.get("type") == "context.append_message" for line in _records_in(lines())), ends)


class _ContextReader(RowReader):
    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        systems: list[Any] = []
        for line in records:
            if line.get("role") == "_system_prompt":
                systems.append(line.get("content"))
            message = _context_message(line)
            if message is not None:
                yield message
        self.fields = {"system": optional(systems[0]) if systems else None}


def _is_context(lines: Callable[[], Iterable[Any]]) -> bool:
    return all(isinstance(line, dict) and isinstance(line.get("role"), str) for line in lines()) and any(
        line["role"] in ("_checkpoint", "_usage", "_system_prompt") for line in lines()
    )


def _context_message(line: dict[str, Any]) -> Message | None:
    content = content_of(line.get("content"))
    match line.get("role"):
        case "user":
            text = text_of(content).lstrip()
            return user(content, program=text.startswith(("<system>", "<system-reminder>")))
        case "assistant":
            calls = [call for item in items(line.get("tool_calls")) if (call := call_of(item)) is not None]
            return replace(ANSWER, extra={}, content=(*blocks_of(content), *calls) if calls else content)
        case "tool":
            return a_result(optional(line.get("tool_call_id")) or "", line.get("content"))
    return None


def detect(value: Any) -> str | None:
    """A header with the version of the protocol, or events of the context."""
    lines = value if isinstance(value, list) else [value]
    if len(lines) > 1 and _is_context(lambda: lines[:50]):
        return "messages with `_checkpoint` or `_usage` between them"
    for line in lines[:50]:
        if not isinstance(line, dict):
            return None
        if line.get("type") == "metadata" and "protocol_version" in line:
            return "a `metadata` line with a `protocol_version`"
        if line.get("type") in (_EVENT, "context.append_message") and ("event" in line or "message" in line):
            return f"a `{line['type']}` line"
    return None


FORMAT = file_format(API, decode, detect=detect, lines=True, stream=stream)
