"""Codex's rollout files: JSON lines of `timestamp`, `type` and `payload`; in old files bare items behind a first line.

A `response_item` holds one item of the Responses wire, and is read by that dialect; the reasoning, messages and calls
up to the next output or message of the user are one answer, at the time of its last line. The first line
(`session_meta`) belongs to the whole session, and so do the instructions in it; `turn_context` names the model,
`token_count` what was used (its input includes the cached part), and `thread_rolled_back` takes back the last turns,
which stay in the tree. Events repeat the history for the screen, and are read where a file has nothing else. All other
lines are kept in their places as messages of their own role. The first versions wrote one document, a `session` beside
its `items`.
"""

import bisect
import contextlib
import functools
import itertools
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import BadWire, FormatError, InterlinguaError
from ...values.folding import parse_arguments
from ...values.losses import Encoded, Lines, Reporter, SupportTable
from ...values.messages import (
    AssistantMessage,
    Block,
    CustomMessage,
    Message,
    OpaqueBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    blocks_of,
    text_of,
)
from ...values.request import Conversation, Entry, ModelDescriptor
from .. import dialect
from ..residual import JOINED, count, fields_of, optional, put_back, reading, residual, residual_of, whole
from ..wire import FileFormat, ListedSession, Relations, SessionStream
from . import new_sessions
from . import records as _records
from .joining import apart, joined, located
from .line_readers import LineReader
from .records import (
    FILE,
    RECORD,
    UNPLACED,
    Records,
    Shapes,
    lines_of,
    milliseconds,
    objects_in,
    time_in,
    unreported,
    usual_milliseconds,
    with_time,
)

API = "codex-cli"
WIRE = "openai-responses"
HEADER = "~header"  # of a conversation: residual of the first line
OLD = "~old"  # of a conversation: items stand bare in their lines
DOCUMENT = "~document"  # of a conversation: residual of the document that holds its items
EVENT = "~event"  # of a message: the event that it was read from
SHELL = "~shell"  # of a call: it is a `local_shell_call`, and how that differs from the usual one
SEARCH = "~search"  # of a call or a result: it is of a `tool_search`, and how that differs from the usual one
SENT = "~sent"  # of a message: another agent sent it, and how its item differs from the usual one
COMMUNICATION = "~communication"  # the same, of a line of its own kind
OUTPUT = "~output"  # of a result: its output was wrapped with whether the tool succeeded

ITEMS = (
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "local_shell_call",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
    "image_generation_call",
    "agent_message",
)

FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT

_SHELL, _SEARCH = "local_shell", "tool_search"  # the tools whose calls have items of their own


def _decode_shell(item: dict[str, Any], when: int | None) -> AssistantMessage:
    """A call of the shell that runs here (codex-rs protocol, `LocalShellCall`): its output names it like any other.

    Those from the chat completions wire have only an `id`.
    """
    id = optional(item.get("call_id")) or optional(item.get("id")) or ""
    block = ToolCall(id=id, name=_SHELL, arguments=item["action"])
    rest = residual(item, _encode_shell(block))
    return AssistantMessage(content=(replace(block, extra={API: {SHELL: rest}}),), timestamp=when)


def _encode_shell(call: ToolCall) -> dict[str, Any]:
    return {"type": "local_shell_call", "call_id": call.id, "status": "completed", "action": call.arguments}


def _decode_search(item: dict[str, Any], when: int | None) -> AssistantMessage:
    """A search for tools that runs here (`ToolSearchCall` with `execution` client), as a call like any other."""
    block = ToolCall(id=item["call_id"], name=_SEARCH, arguments=item["arguments"])
    rest = residual(item, _encode_search(block))
    return AssistantMessage(content=(replace(block, extra={API: {SEARCH: rest}}),), timestamp=when)


def _encode_search(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_search_call", "call_id": call.id, "execution": "client", "arguments": call.arguments}


def _decode_found(item: dict[str, Any], when: int | None) -> ToolResultMessage:
    """The tools that such a search found, as JSON."""
    text = jsontext.write(item["tools"]).decode()
    result = ToolResultMessage(tool_call_id=item["call_id"], content=text, is_error=False, timestamp=when)
    return replace(result, extra={API: {SEARCH: residual(item, _encode_found(result))}})


def _encode_found(result: ToolResultMessage) -> dict[str, Any]:
    tools = jsontext.read(text_of(result.content))
    return {"type": "tool_search_output", "call_id": result.tool_call_id, "execution": "client", "tools": tools}


def _decode_sent(item: dict[str, Any], when: int | None) -> UserMessage:
    """What another agent sent (`AgentMessage`): the model reads it as input, and no person wrote it."""
    blocks = tuple(
        TextBlock(text=part["text"])
        if isinstance(part.get("text"), str)
        else OpaqueBlock(dialect=WIRE, value=part)  # encrypted
        for part in item["content"]
    )
    message = UserMessage(content=blocks, timestamp=when, origin="program")
    return replace(message, extra={API: {SENT: residual(item, _encode_sent(message))}})


def _text(block: Block) -> str:
    if not isinstance(block, TextBlock):
        raise TypeError("another agent sends texts")
    return block.text


def _encode_sent(message: UserMessage) -> dict[str, Any]:
    parts = [
        block.value if isinstance(block, OpaqueBlock) else {"type": "input_text", "text": _text(block)}
        for block in blocks_of(message.content)
    ]
    return {"type": "agent_message", "content": parts}


_OWN_ITEMS: dict[str, tuple[dict[str, type], Callable[[dict[str, Any], int | None], Message]]] = {
    "local_shell_call": ({"action": dict}, _decode_shell),
    "tool_search_call": ({"call_id": str, "arguments": dict}, _decode_search),
    "tool_search_output": ({"call_id": str, "tools": list}, _decode_found),
    "agent_message": ({"content": list}, _decode_sent),
}


def _decode_item(item: dict[str, Any], when: int | None) -> list[Any]:
    """The message in one item of the wire."""
    required, decode_own = _OWN_ITEMS.get(item["type"], ({}, None))
    if (
        decode_own is not None
        and item.get("execution") != "server"  # the provider's own search: an item like its other tools
        and all(isinstance(item.get(key), kind) for key, kind in required.items())
    ):
        return [decode_own(item, when)]
    wrapped = item.get("output")
    if not isinstance(wrapped, dict) or not isinstance(wrapped.get("content"), str):
        return [with_time(message, when) for message in dialect(WIRE).decode_messages([item])]  # type: ignore[attr-defined]
    # Some versions write a result with its success: `{"content": …, "success": …}`.
    (result,) = dialect(WIRE).decode_messages([{**item, "output": wrapped["content"]}])  # type: ignore[attr-defined]
    result = replace(result, is_error=wrapped.get("success") is False)
    extra = {**result.extra, API: {OUTPUT: residual(wrapped, _wrapper(result))}}
    return [with_time(replace(result, extra=extra), when)]


def _is_text(message: Message) -> bool:
    return all(isinstance(block, TextBlock) for block in blocks_of(message.content))


def _wrapper(result: ToolResultMessage) -> dict[str, Any]:
    return {"content": text_of(result.content), "success": not result.is_error}


def _encode_item(messages: tuple[Message, ...], report: Reporter) -> dict[str, Any]:
    (message,) = messages
    block = next(iter(blocks_of(message.content)), None)
    if isinstance(block, ToolCall) and SHELL in block.extra.get(API, {}) and block.name == _SHELL:
        return put_back(_encode_shell(block), block.extra[API][SHELL])
    if isinstance(block, ToolCall) and SEARCH in block.extra.get(API, {}) and block.name == _SEARCH:
        return put_back(_encode_search(block), block.extra[API][SEARCH])
    own = message.extra.get(API, {})
    if isinstance(message, ToolResultMessage) and SEARCH in own and not message.is_error:
        with contextlib.suppress(FormatError):  # it is no JSON any more
            return put_back(_encode_found(message), own[SEARCH])
    if isinstance(message, UserMessage) and SENT in own:
        return put_back(_encode_sent(message), own[SENT])
    extra_fields = message.extra.get(API, {}).get(OUTPUT)
    wrapped = isinstance(message, ToolResultMessage) and extra_fields is not None and _is_text(message)
    plain = replace(message, is_error=False) if wrapped else message  # the wrapper states it
    items: list[dict[str, Any]] = dialect(WIRE).encode_messages((plain,), report)  # type: ignore[attr-defined]
    (item,) = items
    if "type" not in item:
        item = new_sessions.codex_item(item)
    return {**item, "output": put_back(_wrapper(message), extra_fields)} if wrapped else item  # type: ignore[arg-type]


# What the program writes into the history for the model: codex-rs/core/src/context/ has a tag or a heading for each.
_PROGRAM = re.compile(
    r"\s*(<(environment_context|user_instructions|permissions instructions|collaboration_mode|turn_aborted"
    r"|user_shell_command|subagent_notification|skill|skills_instructions|apps_instructions|plugins_instructions"
    r"|app-context|multi_agent_mode|multi_agent_role|model_switch|personality_spec|hook_prompt|recommended_plugins"
    r"|codex_internal_context|goal_context|realtime_delegation|realtime_conversation|managed_developer_instructions"
    r"|environments_instructions|context_window|context_window_guidance|rollout_budget|current_time_reminder"
    r"|image_resize_notice|external_[^>\s]*)[ >]|# AGENTS\.md instructions"
    r"|Warning: (The maximum number of unified exec processes|apply_patch was requested via|Your account was flagged)"
    r"|Another language model started to solve this problem)"
)
_COMMUNICATION = "inter_agent_communication"
_EVENTS = {"user_message": "message", "agent_message": "message", "agent_reasoning": "text"}


def _moment(line: dict[str, Any]) -> int | None:
    """The time of a line: ISO 8601, or seconds since 1970 in files of other programs."""
    when = line.get("timestamp")
    if isinstance(when, int | float) and not isinstance(when, bool) and 0 <= when < 1e11:
        return round(when * 1000)
    return milliseconds(when)


def _decode_line(line: dict[str, Any], events: Container[str] = ()) -> list[Any]:
    payload = line.get("payload")
    if not isinstance(payload, dict):
        return []
    kind = payload.get("type")
    if line.get("type") == "event_msg" and kind in events:
        return _decode_event(payload, _moment(line))
    if line.get("type") == _COMMUNICATION and isinstance(payload.get("content"), str):
        return [_decode_communication(payload, _moment(line))]
    if line.get("type") != "response_item" or kind not in ITEMS:
        return []
    return _decode_item(payload, _moment(line))


def _decode_communication(payload: dict[str, Any], when: int | None) -> UserMessage:
    """What another agent sent, as versions before `agent_message` items write it; it may be encrypted."""
    message = UserMessage(content=payload["content"], timestamp=when, origin="program")
    return replace(message, extra={API: {COMMUNICATION: residual(payload, {"content": payload["content"]})}})


def _decode_event(payload: dict[str, Any], when: int | None) -> list[Any]:
    """What the screen showed, in a file that has no items of it."""
    kind = payload["type"]
    text = payload.get(_EVENTS[kind])
    if not isinstance(text, str):
        return []
    if kind == "user_message":
        return [UserMessage(content=text, timestamp=when, extra={API: {EVENT: kind}})]
    block = ThinkingBlock(thinking=text) if kind == "agent_reasoning" else TextBlock(text=text)
    return [AssistantMessage(content=(block,), timestamp=when, extra={API: {EVENT: kind}})]


def _encode_event(message: Message) -> dict[str, Any]:
    match blocks_of(message.content):
        case (ThinkingBlock(thinking=text),):
            kind = "agent_reasoning"
        case (TextBlock(text=text),):
            kind = "agent_message" if isinstance(message, AssistantMessage) else "user_message"
        case _:
            raise ValueError("an event has one text")
    return {"type": kind, _EVENTS[kind]: text}


def _encode_line(messages: tuple[Message, ...], report: Reporter) -> dict[str, Any]:
    kind = messages[0].extra.get(API, {}).get(EVENT)
    if kind is not None:
        return {**time_in(messages), "type": "event_msg", "payload": _encode_event(messages[0])}
    own = messages[0].extra.get(API, {})
    if COMMUNICATION in own and isinstance(messages[0], UserMessage):
        text = "".join(map(_text, blocks_of(messages[0].content)))
        payload = put_back({"content": text}, own[COMMUNICATION])
        return {**time_in(messages), "type": _COMMUNICATION, "payload": payload}
    return {**time_in(messages), "type": "response_item", "payload": _encode_item(messages, report)}


def _decode_bare(line: dict[str, Any]) -> list[Any]:
    if "type" not in line and "role" in line and "content" in line:
        line = {"type": "message", **line}
    return _decode_item(line, _moment(line)) if line.get("type") in ITEMS else []


def _encode_bare(messages: tuple[Message, ...], report: Reporter) -> dict[str, Any]:
    return {**_encode_item(messages, report), **time_in(messages)}


def _records_of(old: bool, events: Container[str] = ()) -> Records:
    if old:
        return Records(API, _decode_bare, _encode_bare)
    return Records(API, lambda line: _decode_line(line, events), _encode_line, usual=_usual)


# --- the usual lines -------------------------------------------------------------------------------------------------
#
# Nearly all items are of a few kinds with nothing unusual in them. The wire's dialect reads one item of each kind and
# set of keys; the others differ from it in their texts and ids, which are put in here. That takes a tenth of the time.

_LINES = Shapes(("timestamp", "type", "payload"))
_PLAIN = (str, int, bool, type(None))  # what a further key of an item may hold
_ASKED = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "?"}]}
_ANSWERED = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "?"}]}
_SUMMARY = {"type": "summary_text", "text": "?"}
_SAMPLES: dict[str, dict[str, Any]] = {
    "user": _ASKED,
    "assistant": _ANSWERED,
    "thought": {"type": "reasoning", "summary": [_SUMMARY], "encrypted_content": "?"},
    "sealed": {"type": "reasoning", "summary": [], "encrypted_content": "?"},
    "function_call": {"type": "function_call", "name": "?", "arguments": "{}", "call_id": "?"},
    "custom_tool_call": {"type": "custom_tool_call", "name": "?", "input": "?", "call_id": "?"},
    "function_call_output": {"type": "function_call_output", "call_id": "?", "output": "?"},
    "custom_tool_call_output": {"type": "custom_tool_call_output", "call_id": "?", "output": "?"},
}
_SHAPES = {name: Shapes(tuple(sample)) for name, sample in _SAMPLES.items()}


@functools.lru_cache(500)
def _sample(name: str, others: tuple[str, ...]) -> Any:
    """What the wire's dialect reads from an item of this kind with these keys; None if it keeps them anywhere else.

    That is the message of the user or of a tool, or the block of an answer.
    """
    wire: Any = dialect(WIRE)
    (message,) = wire.decode_messages([{**_SAMPLES[name], **dict.fromkeys(others, "?")}])
    read: Any = message.content[0] if type(message) is AssistantMessage else message  # type: ignore[index]
    kept = read.extra.get(WIRE, {})
    return read if all(kept.get(key) == "?" for key in others) else None


def _usual(line: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
    """The message of a line with a usual item, and the other fields of the line; None for any other line."""
    others = _LINES[tuple(line)]
    if others is None or line["type"] != "response_item" or type(line["payload"]) is not dict:
        return None
    when = usual_milliseconds(line["timestamp"])
    message = None if when is None else _usual_message(line["payload"], when)
    return None if message is None else (message, {key: line[key] for key in others})


def _usual_message(item: dict[str, Any], when: int) -> Any:
    kind = name = item.get("type")
    if kind == "message":
        name = item.get("role")
    elif kind == "reasoning":
        name = "thought" if item.get("summary") else "sealed"
    if type(name) is not str or name not in _SHAPES or _SAMPLES[name]["type"] != kind:
        return None
    others = _SHAPES[name][tuple(item)]
    sample = None if others is None else _sample(name, others)
    if sample is None or (others and not all(type(item[key]) in _PLAIN for key in others)):
        return None
    extra = {WIRE: {**sample.extra.get(WIRE, {}), **{key: item[key] for key in others}}} if others else sample.extra
    if name == "user":
        texts = _texts_in(item["content"], "input_text")
        blocks = tuple(TextBlock(text=text) for text in texts)
        return replace(sample, content=blocks, timestamp=when, extra=extra) if blocks else None
    if kind == "message" or kind == "reasoning":
        block = _usual_text(item, name, sample, extra)
    else:
        id = item["call_id"]
        if type(id) is not str:
            return None
        if "output" in item:
            text = item["output"]
            if type(text) is not str:
                return None
            return replace(sample, tool_call_id=id, content=text, timestamp=when, extra=extra)
        block = _usual_call(item, id, sample, extra)
    return None if block is None else replace(_ANSWER, content=(block,), timestamp=when)


_ANSWER = AssistantMessage(content=(), api=WIRE)


def _usual_text(item: dict[str, Any], name: Any, sample: Any, extra: dict[str, Any]) -> Any:
    """A text or a thought of one part."""
    if name == "assistant":
        texts = _texts_in(item["content"], "output_text")
        return replace(sample, text=texts[0], extra=extra) if len(texts) == 1 else None
    texts = _texts_in(item["summary"], "summary_text")
    if type(item["encrypted_content"]) is not str or len(texts) != (name == "thought") or texts == [""]:
        return None
    return replace(sample, thinking="".join(texts), thinking_signature=item["encrypted_content"], extra=extra)


def _usual_call(item: dict[str, Any], id: str, sample: Any, extra: dict[str, Any]) -> Any:
    given = item.get("arguments", item.get("input"))
    if type(given) is not str or type(item["name"]) is not str:
        return None
    if item["type"] == "custom_tool_call":
        return replace(sample, id=id, name=item["name"], arguments={"input": given}, extra=extra)
    arguments, text, error = parse_arguments(given)
    return replace(
        sample,
        id=id,
        name=item["name"],
        arguments=arguments,
        arguments_text=text,
        parse_error=error,
        extra=extra,
    )


def _texts_in(parts: Any, kind: str) -> list[str]:
    """The texts of parts that are of one kind and hold nothing else; none where there are others."""
    if type(parts) is not list:
        return []
    texts = [
        part["text"]
        for part in parts
        if type(part) is dict and len(part) == 2 and part.get("type") == kind and type(part.get("text")) is str
    ]
    return texts if len(texts) == len(parts) else []


@reading(API)
def decode(data: Any) -> Conversation:
    """A rollout file: text, bytes, or the values of its lines."""
    lines = list(lines_of(data, API))
    document = lines[0] if len(lines) == 1 and _is_document(lines[0]) else None
    if document is not None:
        lines = [document["session"], *document["items"]]
    old = not any("payload" in line for line in lines)
    extra_fields: dict[str, Any] = {FILE: True, OLD: True} if old else {FILE: True}
    if document is not None:
        extra_fields |= _around(document)
    return _conversation(iter(lines), extra_fields, _unrepeated(lines))


def _around(document: dict[str, Any]) -> dict[str, Any]:
    """The fields of a document beside its session and its items."""
    return {DOCUMENT: residual(document, {"session": document["session"], "items": document["items"]})}


def _conversation(
    lines: Iterator[dict[str, Any]], extra_fields: dict[str, Any], events: Container[str]
) -> Conversation:
    old = OLD in extra_fields
    system: str | None = None
    first = next(lines, None)
    if first is not None and _is_header(first, old):
        system = _instructions(first, old)
        extra_fields[HEADER] = residual(first, _encode_header(system, old))
    elif first is not None:
        lines = itertools.chain((first,), lines)
    history = _History(_records_of(old, events))
    entries: Iterable[Entry] = list(history.entries(lines, old))
    if history.back:
        entries = _placed(entries, history.back)
    return replace(history.about(system, extra_fields), entries=tuple(entries))


def read(raws: Iterable[bytes]) -> Conversation | None:
    """What `decode` gives of the lines of a file with items, none of which is in memory for longer than needed."""
    try:
        return reading(API)(_conversation)(_items(raws), {FILE: True}, ())
    except InterlinguaError:
        return None


def _items(raws: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The lines of a file; raises if they have to be read as a whole: old ones, and those that have only events."""
    has_items = False
    for line in objects_in(raws, API):
        has_items = has_items or (line.get("type") == "response_item" and "payload" in line)
        yield line
    if not has_items:
        raise BadWire(API, "no items")


def _unrepeated(lines: Iterable[dict[str, Any]]) -> set[str]:
    """The events that are read as messages: events repeat the history for the screen, but some files have only them."""
    return set() if any(line.get("type") == "response_item" for line in lines) else set(_EVENTS)


class _History:
    """Reads lines as entries: items of one answer together. Notes what concerns the whole session."""

    def __init__(self, records: Records) -> None:
        self.model: str | None = None
        self.title: str | None = None
        self.total: Usage | None = None
        self.back: dict[int, int] = {}  # by the index of an entry: so many turns are taken back there
        self._records = records
        self._window: list[Entry] = []  # from the last answer on, whose usage may follow
        self._first = 0  # the place of the window among the entries of the lines
        self._group: list[int] = []  # the last answer, by places
        self._used: Usage | None = None  # by the last answer
        self._open = False  # whether further items belong to it
        self._rolled: dict[int, int] = {}  # `back`, by places
        self._count = 0  # of entries that were yielded

    def entries(self, lines: Iterable[dict[str, Any]], old: bool) -> Iterator[Entry]:
        for line in lines:
            kind = line.get("record_type" if old and "type" not in line else "type")
            entries = self._records.read(line, kind if isinstance(kind, str) else "line")
            if line.get("type") != "response_item":
                self._note(line)
            for entry in entries:
                if type(entry.message) is AssistantMessage and not self._open:
                    if self._window:
                        yield from self._closed()
                    self._open = True
                self._put(entry)
        yield from self._closed()

    def about(self, system: str | None, extra_fields: dict[str, Any]) -> Conversation:
        """The conversation without its entries, when all lines are read."""
        return Conversation(
            system=system,
            model=ModelDescriptor(id=self.model, provider="openai") if self.model else None,
            title=self.title,
            usage=self.total,
            extra={API: extra_fields},
        )

    def _note(self, line: dict[str, Any]) -> None:
        """Reads what a line without an item states about the session."""
        fields = fields_of(line.get("payload"))
        event = fields.get("type") if line.get("type") == "event_msg" else None
        if line.get("type") == "turn_context":
            self.model = optional(fields.get("model")) or self.model
        elif event == "token_count":
            self._count_tokens(fields)
        elif event == "thread_name_updated":
            self.title = optional(fields.get("thread_name")) or self.title
        elif event == "thread_rolled_back":
            # codex-rs/protocol/src/protocol.rs, `ThreadRolledBackEvent`: turns of the user, not messages.
            self._rolled[self._first + len(self._window)] = whole(fields.get("num_turns")) or 0
            self._open = False
        elif line.get("type") == "compacted":
            self._open = False

    def _put(self, entry: Entry) -> None:
        message: Any = entry.message
        kind = type(message)
        if kind is AssistantMessage:
            if self.model is not None:
                entry = replace(entry, message=replace(message, model=self.model))
            self._group.append(self._first + len(self._window))
        elif kind is not CustomMessage:
            self._open = False
            if kind is UserMessage and _PROGRAM.match(message.text):
                entry = replace(entry, message=replace(message, origin="program"))
        self._window.append(entry)

    def _count_tokens(self, payload: dict[str, Any]) -> None:
        """Input includes the cached part, output the reasoning: codex-rs/protocol `TokenUsage`."""
        info = fields_of(payload.get("info"))
        total = _usage(info.get("total_token_usage"))
        if total is not None and total != self.total:
            # …, `TokenUsageInfo`: the event also comes without a new response, with the same total.
            last = _usage(info.get("last_token_usage"))
            if last is not None and self._group and self._used is None:
                self._used = last
            self.total = total

    def _closed(self) -> list[Entry]:
        """The entries of the window, which no further line changes."""
        window, first, group = self._window, self._first, self._group
        if self._used is not None:
            for at in group:
                entry = window[at - first]
                window[at - first] = replace(entry, message=replace(entry.message, usage=self._used))
        left_out = group[1:]
        omitted = frozenset(left_out)
        for at, turns in self._rolled.items():
            self.back[self._count + at - first - bisect.bisect_left(left_out, at)] = turns
        if left_out:
            window[group[0] - first] = joined([window[at - first] for at in group], group, API, keys=True)
            window = [entry for at, entry in enumerate(window, first) if at not in omitted]
        self._first += len(self._window)
        self._count += len(window)
        self._window, self._group, self._used, self._rolled = [], [], None, {}
        return window


def _placed(entries: Iterable[Entry], back: Mapping[int, int]) -> Iterator[Entry]:
    """The entries as a tree, in which turns that were rolled back are branches."""
    path: list[int] = []
    turns: list[int] = []  # the places in the path where a turn begins
    for at, entry in enumerate(entries):
        if back.get(at) and turns:
            cut = turns[-min(back[at], len(turns))]
            del path[cut:]
            turns = [place for place in turns if place < cut]
        if _begins_turn(entry):
            turns.append(len(path))
        yield replace(entry, id=f"line-{at + 1}", parent_id=f"line-{path[-1] + 1}" if path else None)
        path.append(at)


class _Stream:
    """The entries of a rollout file one at a time: the first pass finds what concerns all of them."""

    def __init__(self, lines: Callable[[], Iterable[dict[str, Any]]], around: dict[str, Any] | None = None) -> None:
        self._lines = lines
        self.head: str | None = None  # a file stands at its last line
        first = next(iter(lines()), {})
        self._old = not any("payload" in line for line in lines())
        self._header = first if _is_header(first, self._old) else None
        self._events = _unrepeated(self._body())
        system: str | None = None
        extra_fields: dict[str, Any] = {FILE: True, **({OLD: True} if self._old else {}), **(around or {})}
        if self._header is not None:
            system = _instructions(self._header, self._old)
            extra_fields[HEADER] = residual(self._header, _encode_header(system, self._old))
        history = self._history()
        for _ in history.entries(self._body(), self._old):
            pass
        self._back = history.back
        self.about = history.about(system, extra_fields)

    def _body(self) -> Iterator[dict[str, Any]]:
        return itertools.islice(self._lines(), 0 if self._header is None else 1, None)

    def _history(self) -> _History:
        return _History(_records_of(self._old, self._events))

    def entries(self) -> Iterator[Entry]:
        found = self._history().entries(self._body(), self._old)
        return _placed(found, self._back) if self._back else found


@reading(API)
def stream(lines: Callable[[], Iterable[dict[str, Any]]]) -> SessionStream | None:
    """A rollout file, one entry at a time; not the document of the first versions."""
    return None if _is_document(next(iter(lines()), None)) else _Stream(lines)


@reading(API)
def listed(header: dict[str, Any], items: Callable[[], Iterable[dict[str, Any]]]) -> SessionStream:
    """The document of the first versions, one entry at a time."""
    if not _is_document(header) or not all(_is_document({**header, "items": [item]}) for item in items()):
        raise BadWire(API, "expected `items` beside a `session`")
    return _Stream(lambda: itertools.chain((header["session"],), items()), _around(header))


def _begins_turn(entry: Entry) -> bool:
    """Prompts do, and what another agent sent: codex-rs/core/src/context_manager, `is_user_turn_boundary`."""
    if not isinstance(entry.message, UserMessage):
        return False
    own = entry.message.extra.get(API, {})
    return entry.message.origin is None or SENT in own or COMMUNICATION in own


def _usage(given: Any) -> Usage | None:
    if not isinstance(given, dict):
        return None
    read, written = count(given, "cached_input_tokens"), count(given, "cache_write_input_tokens")
    return Usage.of(
        max(count(given, "input_tokens") - read - written, 0),
        count(given, "output_tokens"),
        cache_read=read,
        cache_write=written,
        reasoning=whole(given.get("reasoning_output_tokens")),
    )


def _is_document(value: Any) -> bool:
    """Whether a value is a whole session, as the first versions wrote it (`rollout-….json`)."""
    if not isinstance(value, dict) or not isinstance(value.get("session"), dict) or "id" not in value["session"]:
        return False
    items = value.get("items")
    return isinstance(items, list) and all(isinstance(item, dict) and item.keys() & {"type", "role"} for item in items)


def _is_header(line: dict[str, Any], old: bool) -> bool:
    if old:
        return "id" in line and "type" not in line and "record_type" not in line
    return line.get("type") == "session_meta" and isinstance(line.get("payload"), dict)


def _instructions(header: dict[str, Any], old: bool) -> str | None:
    base = header.get("base_instructions") if old else header["payload"].get("base_instructions")
    # …, `SessionMeta`: `base_instructions` is the system prompt; `instructions` of older files was the user's.
    text = base.get("text") if isinstance(base, dict) else None
    return text if isinstance(text, str) else None


def _encode_header(system: str | None, old: bool) -> dict[str, Any]:
    given = {} if system is None else {"base_instructions": {"text": system}}
    return given if old else {"type": "session_meta", "payload": given}


def encode(conversation: Conversation) -> Encoded:
    """The lines of a rollout file that was read."""
    extra_fields = conversation.extra.get(API, {})
    parts = replace(conversation, entries=tuple(_items_of(conversation.entries)))
    lines, losses = _records_of(bool(extra_fields.get(OLD)), _EVENTS).write(parts, system=True)
    reported = located(losses, conversation, _items_of)
    lines = [*_header(conversation), *lines]
    if DOCUMENT in extra_fields:
        body = put_back({"session": lines[0], "items": lines[1:]}, extra_fields[DOCUMENT])
        return Encoded(body, reported)
    return Encoded(Lines(lines), reported)


def copy(about: Conversation, entries: Iterable[Entry], report: Reporter) -> Iterator[dict[str, Any]] | None:
    """The same, given the entries one at a time; None if the file was not of lines."""
    extra_fields = about.extra[API]
    if DOCUMENT in extra_fields:
        return None
    report.add(unreported(about, system=True))
    records = _records_of(bool(extra_fields.get(OLD)), _EVENTS)
    lines = records.lines(((entry, UNPLACED) for entry in _items_of(entries)), report)
    return itertools.chain(_header(about), lines)


def _items_of(entries: Iterable[Entry]) -> Iterator[Entry]:
    """The entries with one item each: an answer of one line may have received further blocks since it was read."""
    for entry in apart(entries, API):
        message: Any = entry.message
        if type(message) is not AssistantMessage or type(message.content) is not tuple or len(message.content) < 2:
            yield entry
            continue
        items: list[list[Block]] = []
        for block in message.content:
            if items and type(block) is type(items[-1][-1]) is TextBlock and JOINED in residual_of(block.extra, WIRE):
                items[-1].append(block)
            else:
                items.append([block])
        first, *others = (replace(message, content=tuple(blocks)) for blocks in items)
        yield replace(entry, message=first)
        yield from (Entry(message=other, extra={**entry.extra, API: {RECORD: True}}) for other in others)


def _header(about: Conversation) -> Iterator[dict[str, Any]]:
    """The first line, if it was there."""
    extra_fields = about.extra.get(API, {})
    if HEADER in extra_fields:
        system = None if about.system is None else text_of(about.system)
        yield put_back(_encode_header(system, bool(extra_fields.get(OLD))), extra_fields[HEADER])


def detect(value: Any) -> str | None:
    """Whether lines are a rollout: a header of either age, or lines of `timestamp`, `type` and `payload`."""
    if _is_document(value):
        return "`items` beside a `session`"
    lines = value if isinstance(value, list) else [value]
    if not lines or not all(isinstance(line, dict) for line in lines):
        return None
    first = next((line for line in lines[:5] if fields_of(line.get("payload")).get("type") in ITEMS), lines[0])
    if first.get("type") in ("session_meta", "response_item", "turn_context", "event_msg") and "payload" in first:
        return f"a `{first['type']}` line with its `payload`"
    if first.keys() >= {"id", "timestamp", "instructions"} and "type" not in first and "role" not in first:
        return "a first line with `id`, `timestamp` and `instructions`"
    return None


def relations(conversation: Conversation, path: PurePath) -> Relations:
    """A sub-agent's rollout names its parent in the header: `parent_thread_id`, or in `source.subagent.thread_spawn`.

    Rollouts are in a folder for each day, and a sub-agent may begin on a later one.
    """
    extra_fields = conversation.extra.get(API, {})
    old = bool(extra_fields.get(OLD))
    header = put_back(_encode_header(None, old), extra_fields.get(HEADER, {}))
    about = header if old else fields_of(header.get("payload"))
    spawned = fields_of(fields_of(fields_of(about.get("source")).get("subagent")).get("thread_spawn"))
    id = optional(about.get("id"))
    parent = optional(spawned.get("parent_thread_id")) or optional(about.get("parent_thread_id"))
    dated = path.parent.name.isdigit()
    return Relations(
        id, parent, ((path.parent.parent, "*/rollout-*.jsonl") if dated else (path.parent, "rollout-*.jsonl"),)
    )


_COPYING = 2_000  # milliseconds in which a fork writes the history that it copies


class _LineReader(LineReader):
    """A rollout line by line."""

    joins = True

    def messages(self, line: dict[str, Any]) -> list[tuple[str, Any]]:
        kind, payload = line.get("type"), fields_of(line.get("payload"))
        if kind == "session_meta":
            return self._begin(line, payload)
        if kind == "turn_context":
            self.state["model"] = optional(payload.get("model")) or self.state.get("model")
        elif kind == "compacted":
            return [("", CustomMessage("compacted", payload))]
        elif kind == "event_msg" and payload.get("type") == "thread_name_updated":
            self.title = optional(payload.get("thread_name")) or self.title
        elif kind == "event_msg" and payload.get("type") == "token_count":
            return self._used(payload, _moment(line))
        usual = _usual(line)
        found = _decode_line(line) if usual is None else [usual[0]]
        if not found and kind == "response_item":  # an item of another kind, in which something may be found
            found = [CustomMessage(kind, payload)]
        return [("", self._answered(message)) for message in found]

    def _begin(self, line: dict[str, Any], header: dict[str, Any]) -> list[tuple[str, Any]]:
        """A fork writes its history again, with new times: what that used is counted in the file it comes from."""
        if "begun" in self.state:
            return []
        self.state["begun"] = _moment(line) if header.get("forked_from_id") else None
        system = _instructions(line, old=False)
        return [("", SystemMessage(content=system))] if system else []

    def _answered(self, message: Any) -> Any:
        if isinstance(message, AssistantMessage):
            return replace(message, model=self.state.get("model"), provider="openai")
        if isinstance(message, UserMessage) and _PROGRAM.match(message.text):
            return replace(message, origin="program")
        return message

    def _used(self, payload: dict[str, Any], when: int | None) -> list[tuple[str, Any]]:
        """Events repeat the last usage: it is another one when the total has grown."""
        info = fields_of(payload.get("info"))
        before, total = fields_of(self.state.get("total")), fields_of(info.get("total_token_usage"))
        if not total or total == before:
            return []
        self.state["total"] = total
        last = fields_of(info.get("last_token_usage"))
        # The total may have grown by more than the last answer: what is stated in all counts.
        usage = _usage({key: max(count(total, key) - count(before, key), count(last, key)) for key in total})
        begun = self.state.get("begun")
        if begun is not None and when is not None and when <= begun + _COPYING:
            return []
        model = self.state.get("model")
        return [("", AssistantMessage(content=(), model=model, provider="openai", usage=usage, timestamp=when))]


def line_reader(first: Sequence[Any], state: dict[str, Any] | None = None) -> LineReader | None:
    """A reader of single lines; not of old files, nor of those that have only events."""
    return (
        _LineReader(state) if any(line.get("type") == "response_item" and "payload" in line for line in first) else None
    )


FORMAT = FileFormat(
    name="codex-cli",
    codec=sys.modules[__name__],
    detect=detect,
    lines=True,
    write=new_sessions.codex_cli,
    writer=new_sessions.CodexWriter,
    adapted_for=WIRE,
    line_reader=line_reader,
    read=read,
    stream=stream,
    listed=ListedSession(("items",), listed),
    relations=relations,
    copy=copy,
    stamps_ends=True,
)
