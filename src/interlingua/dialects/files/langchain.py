"""LangChain: messages as `messages_to_dict`, as `langchain_core.load.dumpd`, or as their own fields.

The three are `{"type": "ai", "data": {…}}`, `{"lc": 1, "type": "constructor", "id": […, "AIMessage"], "kwargs": {…}}`
and `{"type": "ai", "content": …, "additional_kwargs": {}, …}`, in a list, or under `messages` in a state of LangGraph,
which its server has under `values`. `usage_metadata` counts the cached part in its input.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from ...values.errors import BadWire
from ...values.messages import (
    AssistantMessage,
    Block,
    Message,
    OpaqueBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    Usage,
)
from ...values.request import Conversation
from ..residual import body_of, count, fields_of, optional, reading, whole
from ..wire import ListedSession, Rows, SessionStream
from . import new_messages, templates
from .line_sessions import ReadAgain, Record, RowReader, TemplateStream, read
from .program_content import inner
from .reading import Pairing, anthropic_items, asked, image_of, kept_record, result_content

API = "langchain"

CLASSES = {
    "HumanMessage": "human",
    "AIMessage": "ai",
    "AIMessageChunk": "ai",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "function",
    "ChatMessage": "chat",
}
KINDS = {**{kind: kind for kind in CLASSES.values()}, "AIMessageChunk": "ai", "HumanMessageChunk": "human"}
ROLES = {"user": "human", "assistant": "ai", "system": "system"}  # of a ChatMessage


def _fields(value: Any) -> tuple[str, dict[str, Any]] | None:
    """The kind of a message and its fields, whichever way it is written."""
    if not isinstance(value, dict):
        return None
    path, kwargs = value.get("id"), value.get("kwargs")
    if value.get("lc") is not None and isinstance(path, list) and path and isinstance(kwargs, dict):
        kind = CLASSES.get(str(path[-1]))
        return (kind, kwargs) if kind else None
    kind = KINDS.get(value["type"]) if isinstance(value.get("type"), str) else None
    if kind is None:
        return None
    if isinstance(value.get("data"), dict) and "content" in value["data"]:
        return kind, value["data"]
    return (
        (kind, value) if "content" in value and ("additional_kwargs" in value or "response_metadata" in value) else None
    )


def _messages(value: Any, pairs: Pairing) -> list[Any]:
    found = _fields(value)
    if found is None:
        return [kept_record(API, "record", value)]
    kind, fields = found
    kind = ROLES.get(str(fields.get("role")), "human") if kind == "chat" else kind
    content = fields.get("content")
    if kind in ("tool", "function"):
        given = result_content(content, API)
        return [pairs.result(fields.get("tool_call_id"), fields.get("name"), given, fields.get("status") == "error")]
    items = [_block(item) for item in anthropic_items(content, API, pairs)]
    if kind == "human":
        return asked(items)
    if kind == "system":
        return [SystemMessage(content=tuple(items))]
    return [_answer(fields, items, pairs)]


def _block(item: Any) -> Any:
    """The blocks that LangChain has beside Anthropic's: OpenAI's pictures, and its own names for thoughts and data."""
    if not isinstance(item, OpaqueBlock):
        return item
    wire = fields_of(item.value)
    if wire.get("type") in ("image_url", "image"):
        return image_of(wire.get("image_url") or {**wire, "data": wire.get("base64") or wire.get("data")}) or item
    thought = wire.get("reasoning") or wire.get("reasoning_content") or wire.get("thinking")
    thought = thought.get("text") if isinstance(thought, dict) else thought
    if wire.get("type") in ("reasoning", "reasoning_content", "thinking") and isinstance(thought, str):
        return ThinkingBlock(thinking=thought)
    return item


def _answer(fields: dict[str, Any], items: list[Any], pairs: Pairing) -> AssistantMessage:
    more, about = fields_of(fields.get("additional_kwargs")), fields_of(fields.get("response_metadata"))
    blocks: list[Block] = [block for block in items if not (isinstance(block, TextBlock) and not block.text)]
    if isinstance(more.get("reasoning_content"), str):
        blocks.insert(0, ThinkingBlock(thinking=more["reasoning_content"]))
    made = {getattr(block, "id", None) for block in blocks}
    calls = fields.get("tool_calls") or []
    blocks += [
        pairs.call(call.get("id"), call.get("name"), call.get("args"))
        for call in map(fields_of, calls if isinstance(calls, list) else ())
        if call.get("id") is None or call["id"] not in made
    ]
    if not calls:
        for call in map(fields_of, more.get("tool_calls") or ()):
            function = fields_of(call.get("function"))
            blocks.append(pairs.call(call.get("id"), function.get("name"), function.get("arguments")))
        if isinstance(legacy := more.get("function_call"), dict):  # before tools: its result has the name alone
            blocks.append(pairs.call(None, legacy.get("name"), legacy.get("arguments")))
    return AssistantMessage(
        content=tuple(blocks) or tuple(items),
        model=optional(about.get("model_name")) or optional(about.get("model")) or None,
        usage=usage_in(fields.get("usage_metadata"))
        or _stated(fields_of(about.get("token_usage") or about.get("usage"))),
        stop_detail=optional(about.get("finish_reason")) or optional(about.get("stop_reason")),
        response_id=optional(fields.get("id")),
    )


def usage_in(wire: Any) -> Usage | None:
    if not isinstance(wire, dict):
        return None
    inner, outer = fields_of(wire.get("input_token_details")), fields_of(wire.get("output_token_details"))
    read, written = count(inner, "cache_read"), count(inner, "cache_creation")
    # langchain_core/messages/ai.py, `UsageMetadata`: `input_tokens` is the sum of all input, the details are parts of
    # it.
    fresh = max(count(wire, "input_tokens") - read - written, 0)
    reasoning = whole(outer.get("reasoning"))
    return Usage.of(fresh, count(wire, "output_tokens"), cache_read=read, cache_write=written, reasoning=reasoning)


def _stated(wire: dict[str, Any]) -> Usage | None:
    """The provider's own numbers, which older versions kept alone: with OpenAI's field names, or Anthropic's."""
    read = count(fields_of(wire.get("prompt_tokens_details")), "cached_tokens")
    if "prompt_tokens" in wire:
        return Usage.of(max(count(wire, "prompt_tokens") - read, 0), count(wire, "completion_tokens"), cache_read=read)
    if "input_tokens" not in wire:
        return None
    read, written = count(wire, "cache_read_input_tokens"), count(wire, "cache_creation_input_tokens")
    return Usage.of(count(wire, "input_tokens"), count(wire, "output_tokens"), cache_read=read, cache_write=written)


def _is_removal(value: Any) -> bool:
    """A message of LangGraph that takes another one back."""
    # langchain_core/messages/modifier.py, `RemoveMessage`.
    path = value.get("id") if isinstance(value, dict) else None
    return isinstance(path, list) and path[-1:] == ["RemoveMessage"]


def _listed(value: Any) -> list[Any] | None:
    """The messages of a document: a list, one under `messages`, or the one list of a run's batch."""
    found = value
    if isinstance(value, dict) and "lc" not in value:
        found = value["messages"] if "messages" in value else inner(value, "values", "messages")
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], list):
        found = found[0]
    found = found if isinstance(found, list) else [found]
    return found if _are_messages(found) else None


def _are_messages(items: Iterable[Any]) -> bool:
    has_message = False
    for item in items:  # up to the first of another kind: other sessions have many lines
        if _fields(item) is not None:
            has_message = True
        elif not _is_removal(item):
            return False
    return has_message


def split(value: Any) -> list[Any] | None:
    """The conversations of a list of several."""
    several = (
        isinstance(value, list)
        and len(value) > 1
        and all(isinstance(item, list | dict) and _fields(item) is None and _listed(item) is not None for item in value)
    )
    return value if several else None


@reading(API)
def decode(data: Any) -> Conversation:
    """One list of messages."""
    body = body_of(data, API)
    found = _listed(body)
    if found is None:
        raise _not_messages()
    return templates.keep(read(_Reader(), found), body, API)


@reading(API)
def listed(header: Record, messages: ReadAgain) -> SessionStream:
    """One list of messages, one entry at a time."""
    if "lc" in header or not _are_messages(messages()):
        raise _not_messages()
    return TemplateStream(_Reader(), messages, API, "messages" if header else "", header)


def _not_messages() -> BadWire:
    return BadWire(API, 'expected messages of LangChain, such as {"type": "human", "data": …}')


class _Reader(RowReader):
    """Reads messages; the first is that of the system, if it is one."""

    def messages(self, records: Iterable[Any]) -> Iterator[Message]:
        pairs, system = Pairing(), None
        for at, message in enumerate(message for item in records for message in _messages(item, pairs)):
            if not at and isinstance(message, SystemMessage):
                texts = [block for block in message.content or () if isinstance(block, TextBlock)]
                system = texts[0].text if len(texts) == 1 else tuple(texts) or None
            else:
                yield message
        self.fields = {"system": system}


def detect(value: Any) -> str | None:
    """Whether a document is messages of LangChain."""
    return "messages of LangChain" if _listed(value) is not None or split(value) else None


FORMAT = templates.file_format(
    API,
    decode,
    detect=detect,
    split=split,
    rows=Rows(),
    rank=25,
    write=lambda conversation: new_messages.langchain(conversation, decode),
    listed=ListedSession(("", "messages"), listed),
)
