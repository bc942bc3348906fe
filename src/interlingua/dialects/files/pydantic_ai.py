"""Pydantic AI's messages, as `all_messages_json()` gives them: a list of `kind` request and response, with `parts`.

A request holds what the model read: the system text, what the person asked, and what tools returned; `retry-prompt` is
the program's request to correct an answer. A response is an answer. Its usage counts the cached part in its input.
ai.pydantic.dev/message-history
"""

from collections.abc import Iterable, Iterator
from typing import Any

from ...values.messages import AssistantMessage, Block, Message, SystemMessage, TextBlock, ThinkingBlock, Usage
from ...values.request import Conversation
from ..residual import count, optional, reading
from ..wire import ListedSession, SessionStream
from . import templates
from .line_sessions import ReadAgain, Record, RowReader, TemplateStream, read
from .program_content import (
    a_call,
    a_list_of,
    a_result,
    attachment_of,
    content_of,
    image_of,
    inner,
    items,
    moment,
    user,
)

API = "pydantic-ai"

_KINDS = ("request", "response")


def _asked(content: Any) -> Any:
    """What a person asked: text, or a list of texts, links and files."""
    if not isinstance(content, list):
        return content_of(content)
    blocks: list[Block] = []
    for item in content:
        if isinstance(item, str):
            blocks.append(TextBlock(text=item))
        elif isinstance(item, dict):
            kind, url = str(item.get("kind")), optional(item.get("url"))
            mime = optional(item.get("media_type"))
            if kind == "image-url" and url is not None:
                found: Block | None = image_of({"url": url})
            elif kind == "binary" and (mime or "").startswith("image/"):
                found = image_of({"data": item.get("data"), "media_type": mime})
            else:
                found = None if url is None else attachment_of(url, mime, None)
            blocks += [] if found is None else [found]
    return tuple(blocks)


def _request(message: dict[str, Any]) -> Iterator[Message]:
    for part in items(message.get("parts")):
        when = moment(part.get("timestamp"))
        match part.get("part_kind"):
            case "system-prompt":
                yield SystemMessage(content=content_of(part.get("content")), timestamp=when)
            case "user-prompt":
                yield user(_asked(part.get("content")), when)
            case "tool-return" | "builtin-tool-return":
                id, name = optional(part.get("tool_call_id")), optional(part.get("tool_name"))
                yield a_result(id or "", part.get("content"), name=name, when=when)
            case "retry-prompt":
                id, name = optional(part.get("tool_call_id")), optional(part.get("tool_name"))
                # pydantic_ai/messages.py, `RetryPromptPart`: without a tool it is sent as a message of the user.
                if name is not None:
                    yield a_result(id or "", part.get("content"), name=name, failed=True, when=when)
                else:
                    yield user(content_of(part.get("content")), when, program=True)


def _response(message: dict[str, Any]) -> AssistantMessage:
    blocks: list[Block] = []
    for part in items(message.get("parts")):
        text = optional(part.get("content"))
        match part.get("part_kind"):
            case "text" if text is not None:
                blocks.append(TextBlock(text=text))
            case "thinking":
                blocks.append(ThinkingBlock(thinking=text or "", thinking_signature=optional(part.get("signature"))))
            case "tool-call":
                id, name = optional(part.get("tool_call_id")), optional(part.get("tool_name"))
                blocks.append(a_call(id or "", name or "", part.get("args")))
    return AssistantMessage(
        content=tuple(blocks),
        model=optional(message.get("model_name")),
        provider=optional(message.get("provider_name")),
        usage=_usage(message.get("usage")),
        timestamp=moment(message.get("timestamp")),
    )


def _usage(wire: Any) -> Usage | None:
    """`input_tokens` of newer versions, `request_tokens` of older ones."""
    if not isinstance(wire, dict):
        return None
    # pydantic_ai/usage.py, `RequestUsage`: the old names are read, too; the cached part is included.
    names = ("input_tokens", "output_tokens") if "input_tokens" in wire else ("request_tokens", "response_tokens")
    if not any(wire.get(name) is not None for name in names):
        return None
    read, wrote = count(wire, "cache_read_tokens"), count(wire, "cache_write_tokens")
    fresh = max(count(wire, names[0]) - read - wrote, 0)
    return Usage.of(fresh, count(wire, names[1]), cache_read=read, cache_write=wrote)


@reading(API)
def decode(data: Any) -> Conversation:
    """A list of messages."""
    body = a_list_of(data, API)
    return templates.keep(read(_Reader(), items(body)), body, API)


@reading(API)
def listed(header: Record, messages: ReadAgain) -> SessionStream:
    """A list of messages, one entry at a time."""
    return TemplateStream(_Reader(), messages, API, "")


class _Reader(RowReader):
    """Reads the messages; text of the system before them, or the first instructions, is that of the conversation."""

    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        system = instructed = None
        is_first = True
        for record in records:
            instructed = instructed or optional(inner(record, "instructions"))
            for message in _request(record) if record.get("kind") == "request" else [_response(record)]:
                if is_first and isinstance(message, SystemMessage) and isinstance(message.content, str):
                    system = message.content
                else:
                    yield message
                is_first = False
        self.fields = {"system": system or instructed or None}


def detect(value: Any) -> str | None:
    """Whether a list is messages of `kind` request or response, whose parts have a `part_kind`."""
    if not isinstance(value, list) or not value:
        return None
    for message in value:
        parts = message.get("parts") if isinstance(message, dict) and message.get("kind") in _KINDS else None
        if not isinstance(parts, list) or not all(isinstance(part, dict) and "part_kind" in part for part in parts):
            return None
    return "messages of `kind` request and response, with parts of a `part_kind`"


FORMAT = templates.file_format(API, decode, detect=detect, rank=20, listed=ListedSession(("",), listed))
