"""Sessions of xAI's Grok CLI (`updates.jsonl`): the updates of the Agent Client Protocol, one a line.

Chunks of one kind in a row are one text; a message of the user ends where its `promptIndex` changes. Thoughts, text and
calls are one answer until the first result comes; what follows the results is the next answer. A `tool_call` may be
followed by updates that only tell more of it; the one with the status `completed` or `failed` has its result. The kinds
of `_x.ai/session/update` are for the screen. The title stands in a file beside this one (`summary.json`).
"""

import sys
from typing import Any

from msgspec.structs import replace

from ...values.losses import Encoded, SupportTable
from ...values.messages import AssistantMessage, Block, Message, TextBlock, ThinkingBlock
from ...values.request import Conversation
from ..residual import fields_of, optional, reading
from ..wire import FileFormat
from . import records as _records
from .program_content import a_call, a_result, content_of, conversation_of, first, inner, items, moment, user
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


@reading(API)
def decode(data: Any) -> Conversation:
    """The updates of a session: text, bytes, or the values of its lines."""
    lines = lines_of(data, API)
    updates = _Updates()
    for line in lines:
        updates.feed(line)
    updates.finish()
    return keep(conversation_of(updates.messages, model=updates.model), lines, API, lines=True)


def encode(conversation: Conversation) -> Encoded:
    """The lines that were read."""
    return give_back(conversation, API, decode)


def detect(value: Any) -> str | None:
    """Detects session updates by their method."""
    for line in items(value)[:20] if isinstance(value, list) else items([value]):
        update = inner(line, "params", "update", "sessionUpdate")
        if str(line.get("method")).endswith("session/update") and isinstance(update, str):
            return "`session/update` lines"
    return None


FORMAT = FileFormat(name=API, codec=sys.modules[__name__], detect=detect, lines=True, writable=False)
