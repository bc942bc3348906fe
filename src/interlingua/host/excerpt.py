"""What one agent may read of another's session: bounded, and without what is not for its eyes. Pure.

Text is cut, signatures and media data are taken out (how many bytes they had stays), details, usage and prices are left
out. The whole stays below a size: the oldest messages go first.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..values import jsontext
from ..values.canonical import plain
from ..values.messages import AgentMessage, AssistantMessage, CustomMessage, ToolResultMessage

LONGEST_TEXT = 4_000
LARGEST = 80 * 1024  # bytes of JSON
_LEFT_OUT = ("details", "usage", "cost", "extra", "cache", "api", "responseId", "stopDetail")
_SEALED = ("textSignature", "thinkingSignature", "thoughtSignature", "argumentsText")
_PLACEHOLDER = {"role": "system", "content": "[this message is too large to be shown]"}


class Excerpt(NamedTuple):
    """Messages as plain JSON, and what was done to them."""

    messages: list[dict[str, Any]]
    dropped: int
    cut: bool
    redacted: bool
    size: int


def is_tool_message(message: AgentMessage) -> bool:
    """Whether nothing of a message is left when tools are left out."""
    if isinstance(message, ToolResultMessage):
        return True
    return isinstance(message, AssistantMessage) and bool(message.tool_calls) and not message.text.strip()


def excerpt(messages: Sequence[AgentMessage], *, tools: bool = False) -> Excerpt:
    """The messages as another agent may read them; those of tools only where asked for."""
    reading = _Reading()
    reported = [
        reading.message(message, tools)
        for message in messages
        if not isinstance(message, CustomMessage) and (tools or not is_tool_message(message))
    ]
    kept, size = _bounded(reported)
    return Excerpt(kept, len(reported) - len(kept), reading.cut, reading.redacted, size)


def _bounded(reported: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    kept: list[dict[str, Any]] = []
    size = 2
    for message in reversed(reported):
        more = len(jsontext.write(message)) + 1
        if size + more > LARGEST:
            break
        kept.insert(0, message)
        size += more
    if reported and not kept:
        return [_PLACEHOLDER], len(jsontext.write([_PLACEHOLDER]))
    return kept, size


class _Reading:
    """Notes what was cut and what was taken out."""

    def __init__(self) -> None:
        self.cut = False
        self.redacted = False

    def message(self, message: AgentMessage, tools: bool) -> dict[str, Any]:
        fields: dict[str, Any] = self._given(plain(message))
        content = fields.get("content")
        if not tools and isinstance(content, list):
            fields["content"] = [block for block in content if block.get("type") != "toolCall"]
        return fields

    def _given(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._short(value)
        if isinstance(value, list):
            return [self._given(item) for item in value]
        if not isinstance(value, dict):
            return value
        fields = {}
        for key, item in value.items():
            if key in _SEALED:
                self.redacted = True
            elif key == "data" and isinstance(item, str):
                self.redacted = True
                fields["bytes"] = len(item) * 3 // 4 - item[-2:].count("=")
            elif key not in _LEFT_OUT:
                fields[key] = self._given(item)
        return fields

    def _short(self, text: str) -> str:
        if len(text) <= LONGEST_TEXT:
            return text
        self.cut = True
        return f"{text[:LONGEST_TEXT]}… ({len(text) - LONGEST_TEXT} more characters)"
