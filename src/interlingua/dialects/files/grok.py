"""Sessions of xAI's Grok CLI: the updates of the Agent Client Protocol (`updates.jsonl`), and `chat_history.jsonl`.

Chunks of one kind in a row are one text; a message of the user ends where its `promptIndex` changes. Thoughts, text and
calls are one answer until the first result comes; what follows the results is the next answer. A `tool_call` may be
followed by updates that only tell more of it; the one with the status `completed` or `failed` has its result. The kinds
of `_x.ai/session/update` are for the screen. The title stands in a file beside this one (`summary.json`).

The chat history has a line for each message that was sent to the model, by `type`: `reasoning` belongs to the answer
after it, a `user` line with a `synthetic_reason` was put in by the program (an `interjection` is a person's), and a
`backend_tool_call` ran on the server.
"""

import sys
from typing import Any

from msgspec.structs import replace

from ...values.losses import Encoded, SupportTable
from ...values.messages import AssistantMessage, Block, Message, TextBlock, ThinkingBlock, text_of
from ...values.request import Conversation
from ..residual import fields_of, optional, reading
from ..wire import FileFormat
from . import records as _records
from .program_content import (
    a_call,
    a_result,
    call_of,
    content_of,
    conversation_of,
    first,
    inner,
    items,
    moment,
    user,
)
from .records import lines_of
from .templates import give_back, keep

API = "grok"
FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT


class _Updates:
    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.model: str | None = None
        self._kind: Any = None  # what the last chunk was, with its prompt: the next one may carry it on
        self._names: dict[str, str] = {}
        self._chunks: list[str] = []  # of the text that the last chunk belongs to
        self._blocks: list[Block] | None = None  # of the answer that is being streamed

    def feed(self, line: dict[str, Any]) -> None:
        update = inner(line, "params", "update")
        if not isinstance(update, dict):
            return
        when = moment(inner(line, "params", "_meta", "agentTimestampMs")) or moment(line.get("timestamp"))
        kind, text = update.get("sessionUpdate"), optional(inner(update, "content", "text"))
        if kind == "user_message_chunk":
            self.model = optional(inner(update, "_meta", "modelId")) or self.model
            self._user(update, text, when, inner(update, "_meta", "promptIndex"))
        elif kind in ("agent_message_chunk", "agent_thought_chunk") and text is not None:
            self._chunk(kind, text, when)
        elif kind == "tool_call":
            self._call(update, when)
        elif kind == "tool_call_update":
            self._result(update, when)

    def _user(self, update: dict[str, Any], text: str | None, when: int | None, prompt: Any) -> None:
        if self._kind != ("user", prompt) or text is None:
            self.finish()
            self.messages.append(user(content_of(update.get("content")) if text is None else "", when))
            self._kind = ("user", prompt) if text is not None else None
        self._chunks += [text] if text is not None else []

    def _close(self) -> None:
        """Writes the text whose chunks have come."""
        text = self._chunks[0] if len(self._chunks) == 1 else "".join(self._chunks)
        if self._chunks and self._blocks is not None:
            thought = self._kind == "agent_thought_chunk"
            self._blocks.append(ThinkingBlock(thinking=text) if thought else TextBlock(text=text))
        elif self._chunks:
            self.messages[-1] = replace(self.messages[-1], content=text)
        self._chunks, self._kind = [], None

    def finish(self) -> None:
        """Writes the message that was streamed."""
        self._close()
        if self._blocks is not None:
            self.messages[-1] = replace(self.messages[-1], content=tuple(self._blocks))
        self._blocks = None

    def _open(self, kind: str, when: int | None) -> None:
        if self._blocks is None:
            self.finish()
            self.messages.append(AssistantMessage(content=(), model=self.model, timestamp=when))
            self._blocks = []
        elif kind != self._kind:
            self._close()
        self._kind = kind

    def _chunk(self, kind: str, text: str, when: int | None) -> None:
        self._open(kind, when)
        self._chunks.append(text)

    def _call(self, update: dict[str, Any], when: int | None) -> None:
        id = optional(update.get("toolCallId"))
        known = inner(update, "_meta", "x.ai/tool", "name")
        name = optional(known) or optional(first(update, "title", "kind"))
        if id is None or name is None or id in self._names:
            return
        self._names[id] = name
        self._open("tool_call", when)
        self._blocks = [*(self._blocks or ()), a_call(id, name, update.get("rawInput"))]

    def _result(self, update: dict[str, Any], when: int | None) -> None:
        id = optional(update.get("toolCallId"))
        if id is None or update.get("status") not in ("completed", "failed"):
            return
        inside = [item.get("content") for item in items(update.get("content")) if item.get("type") == "content"]
        given: Any = inside or first(fields_of(update.get("rawOutput")), "output", "content") or update.get("rawOutput")
        failed = update["status"] == "failed"
        self.finish()
        self.messages.append(a_result(id, given, name=self._names.get(id), failed=failed, when=when))


class _History:
    """The messages of a chat history."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.system: list[str] = []
        self._thoughts: list[Block] = []  # of the answer that comes next

    def feed(self, line: dict[str, Any]) -> None:
        content = content_of(line.get("content"))
        match line.get("type"):
            case "system":
                self.system.append(text_of(content))
            case "user":
                self.finish()
                reason = line.get("synthetic_reason")
                self.messages.append(user(content, program=reason is not None and reason != "interjection"))
            case "reasoning":
                summary = "\n".join(text for part in items(line.get("summary")) if (text := optional(part.get("text"))))
                sealed = optional(line.get("encrypted_content"))
                self._thoughts.append(ThinkingBlock(thinking=summary, thinking_signature=sealed))
            case "assistant":
                self._answer(content, items(line.get("tool_calls")), optional(line.get("model_id")))
            case "tool_result":
                self.finish()
                id = optional(line.get("tool_call_id")) or ""
                self.messages.append(a_result(id, line.get("content"), name=self._name(id)))

    def _answer(self, content: Any, calls: list[dict[str, Any]], model: str | None) -> None:
        texts = (TextBlock(text=content),) if isinstance(content, str) and content else content or ()
        blocks = (*self._thoughts, *texts, *(call for item in calls if (call := call_of(item)) is not None))
        self._thoughts = []
        self.messages.append(AssistantMessage(content=blocks, model=model))

    def _name(self, id: str) -> str | None:
        last = next((one for one in reversed(self.messages) if isinstance(one, AssistantMessage)), None)
        return next((call.name for call in last.tool_calls if call.id == id), None) if last is not None else None

    def finish(self) -> None:
        """Writes thoughts that no answer followed."""
        if self._thoughts:
            self._answer(None, [], None)


_HISTORY = frozenset(("system", "user", "reasoning", "assistant", "tool_result", "backend_tool_call"))


def _is_history(lines: list[dict[str, Any]]) -> bool:
    """Lines by `type` alone, with a field that only this program writes."""
    return all(line.get("type") in _HISTORY and "role" not in line and "message" not in line for line in lines) and any(
        ("model_id" in line if line["type"] == "assistant" else line["type"] == "backend_tool_call")
        or (line["type"] == "user" and ("prompt_index" in line or "synthetic_reason" in line))
        for line in lines
    )


@reading(API)
def decode(data: Any) -> Conversation:
    """The updates or the history of a session: text, bytes, or the values of its lines."""
    lines = lines_of(data, API)
    if lines and _is_history(lines):
        history = _History()
        for line in lines:
            history.feed(line)
        history.finish()
        system = "\n\n".join(history.system) or None
        return keep(conversation_of(history.messages, system=system), lines, API, lines=True)
    updates = _Updates()
    for line in lines:
        updates.feed(line)
    updates.finish()
    return keep(conversation_of(updates.messages, model=updates.model), lines, API, lines=True)


def encode(conversation: Conversation) -> Encoded:
    """The lines that were read."""
    return give_back(conversation, API, decode)


def detect(value: Any) -> str | None:
    """Updates of a session, as its method says, or its chat history."""
    lines = items(value if isinstance(value, list) else [value])
    if isinstance(value, list) and lines and len(lines) == len(value) and _is_history(lines):
        return "lines of a chat history"
    for line in lines[:20]:
        update = inner(line, "params", "update", "sessionUpdate")
        if str(line.get("method")).endswith("session/update") and isinstance(update, str):
            return "`session/update` lines"
    return None


FORMAT = FileFormat(name=API, codec=sys.modules[__name__], detect=detect, lines=True, writable=False, rank=30)
