"""GitHub Copilot CLI: a session's events, one a line: `{type, data, id, timestamp, parentId}`.

`assistant.message` is one response with the calls it asks for (`toolRequests`), `tool.execution_complete` what a call
gave; results are placed beside the calls of their message, and those that no message asked for are the program's own.
What sub-agents did has a `parentToolCallId` and is a branch from the message that called them. Tokens are only counted
when the session ends (`session.shutdown`), by model; their input includes what came from the cache.
"""

import sys
from collections.abc import Iterator
from typing import Any

from ...values.errors import BadWire
from ...values.losses import Encoded, SupportTable
from ...values.messages import (
    AssistantMessage,
    Block,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from ...values.request import Conversation, Entry, ModelDescriptor
from ..residual import count, fields_of, optional, reading
from ..wire import FileFormat
from . import records, templates
from .reading import Pairing, result_content
from .records import lines_of, milliseconds

API = "copilot-cli"
SPAWNED_BY = "~spawnedBy"  # of the first entry of a sub-agent: the `entry` and the `callId` that started it
FIELD_SUPPORT: SupportTable = records.FIELD_SUPPORT


class _Reader:
    """Reads events into a path and the branches of sub-agents."""

    def __init__(self, lines: list[Any]) -> None:
        self.model: str | None = None
        self.system: str | None = None
        self.title: str | None = None
        self.usage: Usage | None = None
        self._pairs = Pairing()
        self._results = {  # call -> the event of its result
            fields_of(line.get("data")).get("toolCallId"): line
            for line in lines
            if line.get("type") == "tool.execution_complete"
        }
        self._heads: dict[str | None, str | None] = {None: None}  # call of a sub-agent -> where it stands
        self._callers: dict[str, str] = {}  # call -> the entry that holds it
        self._used: set[str] = set()
        self._places: dict[str, int] = {}  # event -> how many entries there were before it
        self.entries: list[Entry] = []
        for line in lines:
            self._read(line)

    @property
    def head(self) -> str | None:
        return self._heads[None]

    def _read(self, line: dict[str, Any]) -> None:
        kind, data, when = line.get("type"), fields_of(line.get("data")), milliseconds(line.get("timestamp"))
        agent = optional(data.get("parentToolCallId"))
        if isinstance(line.get("id"), str):
            self._places[line["id"]] = len(self.entries)
        if kind == "user.message":
            self._add(UserMessage(content=tuple(_asked(data)), timestamp=when), line, agent)
        elif kind == "assistant.message":
            self._answer(data, line, agent, when)
        elif kind == "system.message" and isinstance(data.get("content"), str):
            self._instruct(data["content"], line, agent, when)
        elif kind == "session.start":
            self.model = optional(data.get("selectedModel")) or self.model
        elif kind == "session.model_change":
            self.model = optional(data.get("newModel")) or self.model
        elif kind == "session.title_changed":
            self.title = optional(data.get("title")) or self.title
        elif kind == "session.snapshot_rewind":
            self._rewind(optional(data.get("upToEventId")))
        elif kind == "session.shutdown":
            self._count(fields_of(data.get("modelMetrics")))

    def _add(self, message: Any, line: dict[str, Any], agent: str | None) -> str:
        caller = self._callers.get(agent or "")
        extra: dict[str, Any] = {}
        if agent not in self._heads:
            self._heads[agent] = caller
            extra = {API: {SPAWNED_BY: {"entry": caller, "callId": agent}}}
        id = optional(line.get("id"))
        if id is None or id in self._used:  # a result may be read with several calls of its id
            id = f"event_{len(self.entries)}"
        self._used.add(id)
        self.entries.append(Entry(message=message, id=id, parent_id=self._heads[agent], extra=extra))
        self._heads[agent] = id
        return id

    def _instruct(self, text: str, line: dict[str, Any], agent: str | None, when: int | None) -> None:
        """The instructions, which each turn repeats."""
        if agent is None and self.system is None:
            self.system = text
        elif text != self.system:
            self._add(SystemMessage(content=text, timestamp=when), line, agent)

    def _answer(self, data: dict[str, Any], line: dict[str, Any], agent: str | None, when: int | None) -> None:
        blocks: list[Block] = []
        thought, sealed = optional(data.get("reasoningText")), optional(data.get("reasoningOpaque"))
        if thought or sealed:
            blocks.append(ThinkingBlock(thinking=thought or "", thinking_signature=sealed, redacted=not thought))
        if isinstance(data.get("content"), str) and data["content"]:
            blocks.append(TextBlock(text=data["content"]))
        calls = [
            self._pairs.call(
                fields_of(item).get("toolCallId"), fields_of(item).get("name"), fields_of(item).get("arguments")
            )
            for item in data.get("toolRequests") or ()
        ]
        model = optional(data.get("model")) or self.model
        answer = AssistantMessage(content=(*blocks, *calls), model=model, timestamp=when)
        id = self._add(answer, line, agent)
        for call in calls:
            self._callers[call.id] = id
            event = self._results.get(call.id)
            if event is not None:
                self._add(self._result(call.id, call.name, event), event, agent)

    def _result(self, id: str, name: str, event: dict[str, Any]) -> ToolResultMessage:
        data = fields_of(event.get("data"))
        result, failure = data.get("result"), fields_of(data.get("error"))
        given = result.get("content") if isinstance(result, dict) else result
        content = result_content(failure.get("message") if given is None else given, API)
        failed = data.get("success") is False
        return self._pairs.result(id, name, content, failed, timestamp=milliseconds(event.get("timestamp")))

    def _rewind(self, event: str | None) -> None:
        """Back to before an event: what came after stays in the tree."""
        kept = self.entries[: self._places.get(event or "", 0)]
        self._heads[None] = kept[-1].id if kept else None

    def _count(self, metrics: dict[str, Any]) -> None:
        for metric in metrics.values():
            counts = fields_of(fields_of(metric).get("usage"))
            read, written = count(counts, "cacheReadTokens"), count(counts, "cacheWriteTokens")
            before = self.usage or Usage.of()
            self.usage = Usage.of(
                before.input + max(count(counts, "inputTokens") - read - written, 0),
                before.output + count(counts, "outputTokens"),
                cache_read=before.cache_read + read,
                cache_write=before.cache_write + written,
                reasoning=(before.reasoning or 0) + count(counts, "reasoningTokens") or None,
            )


def _asked(data: dict[str, Any]) -> Iterator[Block]:
    """What a person wrote; what the program asked in its place where that is nothing."""
    for item in data.get("attachments") or ():
        item = fields_of(item)
        if isinstance(item.get("data"), str) and str(item.get("mimeType")).startswith("image/"):
            yield ImageBlock(data=item["data"], mime_type=item["mimeType"])
    text, sent = data.get("content"), data.get("transformedContent")
    if isinstance(text, str) and (text or not isinstance(sent, str)):
        yield TextBlock(text=text)
    elif isinstance(sent, str):
        yield TextBlock(text=sent)


def _is_event(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("data"), dict) or not isinstance(value.get("type"), str):
        return False
    group = value["type"].partition(".")
    return group[1] == "." and group[0] in EVENTS and isinstance(value.get("timestamp"), str) and "parentId" in value


EVENTS = ("session", "system", "user", "assistant", "tool", "subagent", "hook", "skill", "abort", "permission")


@reading(API)
def decode(data: Any) -> Conversation:
    """The events of one session."""
    lines = lines_of(data, API)
    if not any(map(_is_event, lines)):
        raise BadWire(API, "expected events of a `type`, its `data` and a `timestamp`")
    reader = _Reader(lines)
    conversation = Conversation(
        entries=tuple(reader.entries),
        head=reader.head,
        system=reader.system,
        title=reader.title,
        usage=reader.usage,
        model=ModelDescriptor(id=reader.model) if reader.model else None,
    )
    return templates.keep(conversation, lines, API, lines=True)


def encode(conversation: Conversation) -> Encoded:
    """The events that were read."""
    return templates.give_back(conversation, API, decode)


def detect(value: Any) -> str | None:
    """Whether a document is the events of a session."""
    lines = [value] if isinstance(value, dict) else value
    if isinstance(lines, list) and lines and sum(map(_is_event, lines[:20])) * 2 > len(lines[:20]):
        return "events such as `session.start` with `data` and a `parentId`"
    return None


FORMAT = FileFormat(name=API, codec=sys.modules[__name__], detect=detect, lines=True, writable=False, rank=20)
