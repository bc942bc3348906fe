"""GitHub Copilot CLI: a session's events, one a line: `{type, data, id, timestamp, parentId}`.

`assistant.message` is one response with the calls it asks for (`toolRequests`), `tool.execution_complete` what a call
gave; results are placed beside the calls of their message, and those that no message asked for are the program's own.
What sub-agents did has an `agentId`, in older versions a `parentToolCallId`, and is a branch from the message that
called them. A response may be split into several messages, `chunkCount` of them. Pictures stand in events of their own
(`session.binary_asset`). Tokens are only counted when the session ends (`session.shutdown`), by model; their input
includes what came from the cache. github.com/github/copilot-sdk `nodejs/src/generated/session-events.ts`
"""

import itertools
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from ...values.compact import IdNumbers, IdSet, StringTable
from ...values.errors import BadWire
from ...values.messages import (
    Block,
    DocumentBlock,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
)
from ...values.request import Conversation, Entry, ModelDescriptor
from .. import codec
from ..residual import count, fields_of, optional, reading, whole
from ..wire import SessionStream
from . import templates
from .line_sessions import ReadAgain, Reader, Record, TemplateStream, read
from .reading import Pairing, result_content
from .records import lines_of, milliseconds

API = "copilot-cli"
SPAWNED_BY = "~spawnedBy"  # of the first entry of a sub-agent: the `entry` and the `callId` that started it


class _Survey:
    """What an earlier pass finds: where the results of calls stand, and the events and calls that others name.

    Of lines `in_memory`, it has the results themselves.
    """

    def __init__(self, lines: ReadAgain, *, in_memory: bool) -> None:
        ids = StringTable()
        self._results: dict[str, Record] | None = {} if in_memory else None
        self._places = IdNumbers(ids)  # call -> the place of its result: the last one
        self._asked = IdSet(ids)
        self._again = IdSet(ids)  # calls that stand in several events, or behind a result
        self.agents = set[str]()  # calls that started sub-agents
        self.rewinds = set[str]()  # events before which the session went back
        self.assets: dict[str, str] = {}  # the data of pictures and files
        self._started: dict[str, str] = {}  # sub-agent -> the call that started it
        for at, line in enumerate(lines()):
            kind, data = line.get("type"), fields_of(line.get("data"))
            if kind == "subagent.started" and isinstance(line.get("agentId"), str):
                self._started[line["agentId"]] = optional(data.get("toolCallId")) or line["agentId"]
            elif kind == "session.binary_asset" and isinstance(data.get("assetId"), str):
                self.assets[data["assetId"]] = optional(data.get("data")) or ""
            agent = self.agent_of(line)
            if agent is not None:
                self.agents.add(agent)
            if kind == ANSWER and self._results is None:
                for id in _requests(data):
                    (self._again if id in self._asked or id in self._places else self._asked).add(id)
            elif kind == RESULT and isinstance(call := data.get("toolCallId"), str):
                if self._results is None:
                    self._places[call] = at
                else:
                    self._results[call] = line
            elif kind == REWIND and isinstance(event := data.get("upToEventId"), str):
                self.rewinds.add(event)

    def agent_of(self, line: Record) -> str | None:
        """The call that started the sub-agent of an event; None for the main one."""
        agent, call = optional(line.get("agentId")), optional(fields_of(line.get("data")).get("parentToolCallId"))
        return call if call or agent is None else self._started.get(agent, agent)

    def with_results(self, lines: Iterable[Record]) -> Iterator[tuple[Record, dict[str, Record]]]:
        """Yields each event with the results of its calls, by the call; the events before a result wait for it."""
        if self._results is not None:
            yield from zip(lines, itertools.repeat(self._results))
            return
        waiting, found = deque[Record](), dict[str, Record]()
        numbered = self._noted(enumerate(lines), found)
        last = -1  # the place of the last event that was read
        while True:
            if not waiting:
                last, line = next(numbered, (sys.maxsize, None))
                if line is None:
                    return
            else:
                line = waiting.popleft()
            if line.get("type") != ANSWER:
                yield line, found
                continue
            ids = list(_requests(fields_of(line.get("data"))))
            for id in ids:
                while last < (self._places.get(id) or -1):
                    last, behind = next(numbered, (sys.maxsize, None))
                    if behind is not None:
                        waiting.append(behind)
            yield line, found
            for id in ids:
                if id not in self._again:
                    found.pop(id, None)

    def _noted(
        self, lines: Iterable[tuple[int, Record]], found: dict[str, Record]
    ) -> Iterator[tuple[int, Record | None]]:
        """Yields the events, and adds the results of calls to `found`."""
        for at, line in lines:
            if line.get("type") == RESULT:
                id: Any = fields_of(line.get("data")).get("toolCallId")
                if (id in self._asked or id in self._again) and self._places.get(id) == at:
                    found[id] = line
            yield at, line


ANSWER, REWIND = "assistant.message", "session.snapshot_rewind"
RESULT = "tool.execution_complete"


def _requests(data: dict[str, Any]) -> Iterator[str]:
    """The ids of the calls that an answer asks for."""
    for item in data.get("toolRequests") or ():
        id = fields_of(item).get("toolCallId")
        if isinstance(id, str):
            yield id


class _Reader(Reader):
    """Reads events into a path and the branches of sub-agents."""

    def __init__(self, survey: _Survey) -> None:
        self._survey = survey

    def entries(self, records: Iterable[Record]) -> Iterator[Entry]:
        events = _Events(self._survey)
        for line, results in self._survey.with_results(records):
            yield from events.read(line, results)
        yield from events.finish()
        self.head = events.head
        self.about = Conversation(
            system=events.system,
            title=events.title,
            usage=events.usage,
            model=ModelDescriptor(id=events.model) if events.model else None,
        )


class _Events:
    def __init__(self, survey: _Survey) -> None:
        self._survey = survey
        self.model: str | None = None
        self.system: str | None = None
        self.title: str | None = None
        self.usage: Usage | None = None
        self._pairs = Pairing()
        self._heads: dict[str | None, str | None] = {None: None}  # call of a sub-agent -> where it stands
        self._callers: dict[str, str | None] = {}  # call of a sub-agent -> the entry that holds it
        self._stands: dict[str, str | None] = {}  # event before which the session went back -> the entry before it
        self._chunks: dict[str | None, list[tuple[Record, dict[str, Record]]]] = {}  # of a response that goes on
        self._used = IdSet()
        self._last: str | None = None
        self._number = 0  # how many entries there are; `_last` is the id of the last one

    @property
    def head(self) -> str | None:
        return self._heads[None]

    def read(self, line: Record, results: Mapping[str, Record]) -> Iterator[Entry]:
        """The entries of an event, with the results of its calls."""
        kind, data = line.get("type"), fields_of(line.get("data"))
        agent = self._survey.agent_of(line)
        if isinstance(line.get("id"), str) and line["id"] in self._survey.rewinds:
            self._stands[line["id"]] = self._last
        if kind == "user.message":
            yield from self._answer(agent, ())
            when = milliseconds(line.get("timestamp"))
            asked = replace(codec.USER, extra={}, content=tuple(_asked(data, self._survey.assets)), timestamp=when)
            yield self._add(replace(asked, origin="program") if _is_programs(data) else asked, line, agent)
        elif kind == ANSWER:
            own = {id: results[id] for id in _requests(data) if id in results}
            chunk, chunks = whole(data.get("chunkIndex")), whole(data.get("chunkCount"))
            if chunk is not None and chunks is not None and chunk < chunks - 1:
                self._chunks.setdefault(agent, []).append((line, own))
            else:
                yield from self._answer(agent, ((line, own),))
        elif kind == "system.message" and isinstance(data.get("content"), str):
            yield from self._instruct(data["content"], line, agent)
        elif kind == "session.compaction_complete" and optional(data.get("summaryContent")):
            summary = replace(codec.USER, extra={}, content=data["summaryContent"], origin="program")
            yield self._add(replace(summary, timestamp=milliseconds(line.get("timestamp"))), line, agent)
        elif kind == "session.context_cleared":
            self._heads[None] = None
        elif kind in ("session.start", "session.resume"):
            self.model = optional(data.get("selectedModel")) or self.model
        elif kind == "session.model_change":
            self.model = optional(data.get("newModel")) or self.model
        elif kind == "session.title_changed":
            self.title = optional(data.get("title")) or self.title
        elif kind == REWIND:
            self._rewind(optional(data.get("upToEventId")))
        elif kind == "session.shutdown":
            self._count(fields_of(data.get("modelMetrics")))

    def _add(self, message: Any, line: Record, agent: str | None) -> Entry:
        caller = self._callers.get(agent or "")
        extra: dict[str, Any] = {}
        if agent not in self._heads:
            self._heads[agent] = caller
            extra = {API: {SPAWNED_BY: {"entry": caller, "callId": agent}}}
        id = optional(line.get("id"))
        if id is None or id in self._used:  # a result may be read with several calls of its id
            id = f"event_{self._number}"
        self._used.add(id)
        entry = Entry(message=message, id=id, parent_id=self._heads[agent], extra=extra)
        self._heads[agent] = self._last = id
        self._number += 1
        return entry

    def _instruct(self, text: str, line: Record, agent: str | None) -> Iterator[Entry]:
        """The instructions, which each turn repeats."""
        if agent is None and self.system is None:
            self.system = text
        elif text != self.system:
            when = milliseconds(line.get("timestamp"))
            yield self._add(SystemMessage(content=text, timestamp=when), line, agent)

    def finish(self) -> Iterator[Entry]:
        """The responses of which no further chunk came."""
        for agent in list(self._chunks):
            yield from self._answer(agent, ())

    def _answer(self, agent: str | None, last: Iterable[tuple[Record, dict[str, Record]]]) -> Iterator[Entry]:
        """A response of the chunks so far and the last one, with the results of its calls."""
        chunks = [*self._chunks.pop(agent, ()), *last]
        if not chunks:
            return
        content: list[Block] = []
        for line, _ in chunks:
            content += self._blocks(fields_of(line.get("data")))
        line, data = chunks[-1][0], fields_of(chunks[-1][0].get("data"))
        when, model = milliseconds(line.get("timestamp")), optional(data.get("model")) or self.model
        entry = self._add(
            replace(codec.ANSWER, extra={}, content=tuple(content), model=model, timestamp=when), line, agent
        )
        yield entry
        results = {id: result for _, own in chunks for id, result in own.items()}
        for call in content:
            if not isinstance(call, ToolCall):
                continue
            if call.id in self._survey.agents:
                self._callers[call.id] = entry.id
            event = results.get(call.id)
            if event is not None:
                yield self._add(self._result(call.id, call.name, event), event, agent)

    def _blocks(self, data: dict[str, Any]) -> list[Block]:
        blocks: list[Block] = []
        thought, sealed = optional(data.get("reasoningText")), optional(data.get("reasoningOpaque"))
        if thought or sealed:
            blocks.append(ThinkingBlock(thinking=thought or "", thinking_signature=sealed, redacted=not thought))
        if isinstance(data.get("content"), str) and data["content"]:
            blocks.append(TextBlock(text=data["content"]))
        blocks += (
            self._pairs.call(item.get("toolCallId"), item.get("name"), item.get("arguments"))
            for item in map(fields_of, data.get("toolRequests") or ())
        )
        return blocks

    def _result(self, id: str, name: str, event: dict[str, Any]) -> ToolResultMessage:
        data = fields_of(event.get("data"))
        result, failure = data.get("result"), fields_of(data.get("error"))
        given = result.get("content") if isinstance(result, dict) else result
        content = result_content(failure.get("message") if given is None else given, API)
        files = [*_files(fields_of(result).get("binaryResultsForLlm"), self._survey.assets)]
        if files:
            content = (*([TextBlock(text=content)] if isinstance(content, str) else content or ()), *files)
        failed = data.get("success") is False
        return self._pairs.result(id, name, content, failed, timestamp=milliseconds(event.get("timestamp")))

    def _rewind(self, event: str | None) -> None:
        """Back to before an event: what came after stays in the tree."""
        self._heads[None] = self._stands.get(event or "")

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


# Where a message that no person wrote comes from (`UserMessageDelivery`): `skill-pdf`, `agent-ID`, …
_SOURCES = ("skill", "agent", "system", "command", "schedule", "jit")


def _is_programs(data: dict[str, Any]) -> bool:
    return data.get("isAutopilotContinuation") is True or (optional(data.get("source")) or "").startswith(_SOURCES)


def _files(given: Any, assets: Mapping[str, str]) -> Iterator[Block]:
    for item in map(fields_of, given if isinstance(given, list) else ()):
        data = optional(item.get("data")) or assets.get(optional(item.get("assetId")) or "")
        mime = optional(item.get("mimeType"))
        if data and (mime or "").startswith("image/"):
            yield ImageBlock(data=data, mime_type=mime)
        elif data:
            name = optional(item.get("displayName")) or optional(item.get("description"))
            yield DocumentBlock(data=data, mime_type=mime, title=name)


def _asked(data: dict[str, Any], assets: Mapping[str, str]) -> Iterator[Block]:
    """What a person wrote; what the program asked in its place where that is nothing."""
    yield from _files(data.get("attachments"), assets)
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
    return templates.keep(read(_reader(lambda: lines, in_memory=True), lines), lines, API, lines=True)


@reading(API)
def stream(lines: ReadAgain) -> SessionStream:
    """The same, one entry at a time."""
    return TemplateStream(_reader(lines), lines, API)


def _reader(lines: ReadAgain, *, in_memory: bool = False) -> Reader:
    if not any(map(_is_event, lines())):
        raise BadWire(API, "expected events of a `type`, its `data` and a `timestamp`")
    return _Reader(_Survey(lines, in_memory=in_memory))


def detect(value: Any) -> str | None:
    """Whether a document is the events of a session."""
    lines = [value] if isinstance(value, dict) else value
    if isinstance(lines, list) and lines and sum(map(_is_event, lines[:20])) * 2 > len(lines[:20]):
        return "events such as `session.start` with `data` and a `parentId`"
    return None


FORMAT = templates.file_format(API, decode, detect=detect, lines=True, rank=20, stream=stream)
