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
from ...values.messages import AssistantMessage, Message, TextBlock, ThinkingBlock
from ...values.request import Conversation
from ..residual import fields_of, optional, reading
from ..wire import FileFormat
from . import records as _records
from .program_content import a_call, a_result, content_of, conversation_of, first, inner, items, moment, user
from .records import lines_of
from .templates import give_back, keep

API = "grok"
RETURNED = True  # read and returned, not made from other formats
FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT


class _Updates:
    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.model: str | None = None
        self._kind: Any = None  # what the last chunk was, with its prompt: the next one may carry it on
        self._names: dict[str, str] = {}
        self._answering = False

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
        self._answering = False
        last: Any = self.messages[-1] if self.messages else None
        if self._kind == ("user", prompt) and text is not None and isinstance(last.content, str):
            self.messages[-1] = replace(last, content=last.content + text)
        else:
            self.messages.append(user(text if text is not None else content_of(update.get("content")), when))
        self._kind = ("user", prompt)

    def _grow(self, kind: str, block: Any, when: int | None) -> None:
        if not self._answering:
            self.messages.append(AssistantMessage(content=(), model=self.model, timestamp=when))
            self._answering, self._kind = True, None
        answer: Any = self.messages[-1]
        before = answer.content[-1] if answer.content else None
        if kind == self._kind and isinstance(before, TextBlock) and isinstance(block, TextBlock):
            content = (*answer.content[:-1], TextBlock(text=before.text + block.text))
        elif kind == self._kind and isinstance(before, ThinkingBlock) and isinstance(block, ThinkingBlock):
            content = (*answer.content[:-1], ThinkingBlock(thinking=before.thinking + block.thinking))
        else:
            content = (*answer.content, block)
        self._kind = kind
        self.messages[-1] = replace(answer, content=content)

    def _chunk(self, kind: str, text: str, when: int | None) -> None:
        thought = kind == "agent_thought_chunk"
        self._grow(kind, ThinkingBlock(thinking=text) if thought else TextBlock(text=text), when)

    def _call(self, update: dict[str, Any], when: int | None) -> None:
        id = optional(update.get("toolCallId"))
        known = inner(update, "_meta", "x.ai/tool", "name")
        name = optional(known) or optional(first(update, "title", "kind"))
        if id is None or name is None or id in self._names:
            return
        self._names[id] = name
        self._grow("tool_call", a_call(id, name, update.get("rawInput")), when)

    def _result(self, update: dict[str, Any], when: int | None) -> None:
        id = optional(update.get("toolCallId"))
        if id is None or update.get("status") not in ("completed", "failed"):
            return
        inside = [item.get("content") for item in items(update.get("content")) if item.get("type") == "content"]
        given: Any = inside or first(fields_of(update.get("rawOutput")), "output", "content") or update.get("rawOutput")
        failed = update["status"] == "failed"
        self.messages.append(a_result(id, given, name=self._names.get(id), failed=failed, when=when))
        self._answering, self._kind = False, None


@reading(API)
def decode(data: Any) -> Conversation:
    """The updates of a session: text, bytes, or the values of its lines."""
    lines = lines_of(data, API)
    updates = _Updates()
    for line in lines:
        updates.feed(line)
    return keep(conversation_of(updates.messages, model=updates.model), lines, API, lines=True)


def encode(conversation: Conversation) -> Encoded:
    """The lines that were read."""
    return give_back(conversation, API, decode)


def detect(value: Any) -> str | None:
    """Updates of a session, as its method says."""
    for line in items(value)[:20] if isinstance(value, list) else items([value]):
        update = inner(line, "params", "update", "sessionUpdate")
        if str(line.get("method")).endswith("session/update") and isinstance(update, str):
            return "`session/update` lines"
    return None


FORMAT = FileFormat(name=API, codec=sys.modules[__name__], detect=detect, lines=True, writable=False)
