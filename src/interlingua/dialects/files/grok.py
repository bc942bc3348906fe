"""Sessions of xAI's Grok CLI: the updates of the Agent Client Protocol (`updates.jsonl`), and `chat_history.jsonl`.

Chunks of one kind in a row are one text; a message of the user ends where its `promptIndex` changes. Thoughts, text and
calls are one answer until the first result comes; what follows the results is the next answer. A `tool_call` may be
followed by updates that only add to it; the one with the status `completed` or `failed` has its result. The kinds
of `_x.ai/session/update` are for the screen. The title stands in a file beside this one (`summary.json`).

The chat history has a line for each message that was sent to the model, by `type`: `reasoning` belongs to the answer
after it, a `user` line with a `synthetic_reason` was put in by the program (an `interjection` is a person's), and a
`backend_tool_call` ran on the server.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values.compact import IdMap
from ...values.messages import AssistantMessage, Block, Message, TextBlock, ThinkingBlock, text_of
from ..codec import ANSWER
from ..residual import fields_of, optional
from .line_sessions import ReadAgain, Reader, Record, RowReader, line_format
from .program_content import (
    a_call,
    a_result,
    call_of,
    content_of,
    first,
    inner,
    items,
    moment,
    user,
)

API = "grok"


class _Updates:
    """The updates of a session. Each method returns the messages that are complete."""

    def __init__(self) -> None:
        self.model: str | None = None
        self._message: Any = None  # the one that is being streamed
        self._kind: Any = None  # what the last chunk was, with its prompt: the next one may carry it on
        self._names = IdMap()
        self._chunks: list[str] = []  # of the text that the last chunk belongs to
        self._blocks: list[Block] | None = None  # of the answer that is being streamed

    def feed(self, line: Record) -> list[Message]:
        update = inner(line, "params", "update")
        if not isinstance(update, dict):
            return []
        when = moment(inner(line, "params", "_meta", "agentTimestampMs")) or moment(line.get("timestamp"))
        kind, text = update.get("sessionUpdate"), optional(inner(update, "content", "text"))
        if kind == "user_message_chunk":
            self.model = optional(inner(update, "_meta", "modelId")) or self.model
            return self._user(update, text, when, inner(update, "_meta", "promptIndex"))
        if kind in ("agent_message_chunk", "agent_thought_chunk") and text is not None:
            return self._chunk(kind, text, when)
        if kind == "tool_call":
            return self._call(update, when)
        return self._result(update, when) if kind == "tool_call_update" else []

    def _user(self, update: dict[str, Any], text: str | None, when: int | None, prompt: Any) -> list[Message]:
        complete: list[Message] = []
        if self._kind != ("user", prompt) or text is None:
            complete = self.finish()
            self._message = user(content_of(update.get("content")) if text is None else "", when)
            self._kind = ("user", prompt) if text is not None else None
        self._chunks += [text] if text is not None else []
        return complete

    def _close(self) -> None:
        """Writes the text whose chunks have come."""
        text = self._chunks[0] if len(self._chunks) == 1 else "".join(self._chunks)
        if self._chunks and self._blocks is not None:
            thought = self._kind == "agent_thought_chunk"
            self._blocks.append(ThinkingBlock(thinking=text) if thought else TextBlock(text=text))
        elif self._chunks:
            self._message = replace(self._message, content=text)
        self._chunks, self._kind = [], None

    def finish(self) -> list[Message]:
        """Ends the message that was streamed."""
        self._close()
        message = self._message
        if self._blocks is not None:
            message = replace(message, content=tuple(self._blocks))
        self._message = self._blocks = None
        return [] if message is None else [message]

    def _open(self, kind: str, when: int | None) -> list[Message]:
        complete: list[Message] = []
        if self._blocks is None:
            complete = self.finish()
            self._message = replace(ANSWER, extra={}, content=(), model=self.model, timestamp=when)
            self._blocks = []
        elif kind != self._kind:
            self._close()
        self._kind = kind
        return complete

    def _chunk(self, kind: str, text: str, when: int | None) -> list[Message]:
        complete = self._open(kind, when)
        self._chunks.append(text)
        return complete

    def _call(self, update: dict[str, Any], when: int | None) -> list[Message]:
        id = optional(update.get("toolCallId"))
        known = inner(update, "_meta", "x.ai/tool", "name")
        name = optional(known) or optional(first(update, "title", "kind"))
        if id is None or name is None or id in self._names:
            return []
        self._names[id] = name
        complete = self._open("tool_call", when)
        self._blocks = [*(self._blocks or ()), a_call(id, name, update.get("rawInput"))]
        return complete

    def _result(self, update: dict[str, Any], when: int | None) -> list[Message]:
        id = optional(update.get("toolCallId"))
        if id is None or update.get("status") not in ("completed", "failed"):
            return []
        inside = [item.get("content") for item in items(update.get("content")) if item.get("type") == "content"]
        given: Any = inside or first(fields_of(update.get("rawOutput")), "output", "content") or update.get("rawOutput")
        failed = update["status"] == "failed"
        return [*self.finish(), a_result(id, given, name=self._names.get(id), failed=failed, when=when)]


class _UpdateReader(RowReader):
    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        updates = _Updates()
        for line in records:
            yield from updates.feed(line)
        yield from updates.finish()
        self.fields = {"model": updates.model}


class _HistoryReader(RowReader):
    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        history = _History()
        for line in records:
            yield from history.feed(line)
        yield from history.finish()
        self.fields = {"system": "\n\n".join(history.system) or None}


class _History:
    """The messages of a chat history. Each method returns those that are complete."""

    def __init__(self) -> None:
        self.system: list[str] = []
        self._thoughts: list[Block] = []  # of the answer that comes next
        self._last: AssistantMessage | None = None

    def feed(self, line: Record) -> list[Message]:
        content = content_of(line.get("content"))
        match line.get("type"):
            case "system":
                self.system.append(text_of(content))
            case "user":
                reason = line.get("synthetic_reason")
                return [*self.finish(), user(content, program=reason is not None and reason != "interjection")]
            case "reasoning":
                summary = "\n".join(text for part in items(line.get("summary")) if (text := optional(part.get("text"))))
                sealed = optional(line.get("encrypted_content"))
                self._thoughts.append(ThinkingBlock(thinking=summary, thinking_signature=sealed))
            case "assistant":
                return self._answer(content, items(line.get("tool_calls")), optional(line.get("model_id")))
            case "tool_result":
                complete = self.finish()
                id = optional(line.get("tool_call_id")) or ""
                return [*complete, a_result(id, line.get("content"), name=self._name(id))]
        return []

    def _answer(self, content: Any, calls: list[dict[str, Any]], model: str | None) -> list[Message]:
        texts = (TextBlock(text=content),) if isinstance(content, str) and content else content or ()
        blocks = (*self._thoughts, *texts, *(call for item in calls if (call := call_of(item)) is not None))
        self._thoughts = []
        self._last = replace(ANSWER, extra={}, content=blocks, model=model)
        return [self._last]

    def _name(self, id: str) -> str | None:
        calls = self._last.tool_calls if self._last is not None else ()
        return next((call.name for call in calls if call.id == id), None)

    def finish(self) -> list[Message]:
        """Thoughts that no answer followed."""
        return self._answer(None, [], None) if self._thoughts else []


_HISTORY = frozenset(("system", "user", "reasoning", "assistant", "tool_result", "backend_tool_call"))


def _is_history(lines: ReadAgain) -> bool:
    """Lines by `type` alone, with a field that only this program writes."""
    known = all(line.get("type") in _HISTORY and "role" not in line and "message" not in line for line in lines())
    return known and any(
        ("model_id" in line if line["type"] == "assistant" else line["type"] == "backend_tool_call")
        or (line["type"] == "user" and ("prompt_index" in line or "synthetic_reason" in line))
        for line in lines()
    )


def _reader(lines: ReadAgain) -> Reader:
    return _HistoryReader() if _is_history(lines) else _UpdateReader()


def detect(value: Any) -> str | None:
    """Updates of a session, by their method, or its chat history."""
    lines = items(value if isinstance(value, list) else [value])
    if isinstance(value, list) and lines and len(lines) == len(value) and _is_history(lambda: lines):
        return "lines of a chat history"
    for line in lines[:20]:
        update = inner(line, "params", "update", "sessionUpdate")
        if str(line.get("method")).endswith("session/update") and isinstance(update, str):
            return "`session/update` lines"
    return None


FORMAT = line_format(API, _reader, detect=detect, rank=30)
