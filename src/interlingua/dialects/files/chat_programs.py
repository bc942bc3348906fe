"""What readers of chat programs share: messages of a role and content under many names, and exports of many chats.

Programs agree on little more than a role and a text. Content is text, a list of parts, or parts in a field of their
own; reasoning, calls and results stand beside it or among the parts. A message that has neither text nor parts is
empty, not an error.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...values.messages import Block, Message, SystemMessage, TextBlock, ThinkingBlock, Usage
from ...values.request import Conversation
from ..residual import optional, whole
from .program_content import (
    block_of,
    call_id,
    conversation_of,
    first,
    given_content,
    inner,
    is_result,
    items,
    moment,
    name_of,
    user,
)
from .reading import Pairing, kept_record, openai_usage, rounds

ROLES = {"user": "user", "human": "user", "assistant": "assistant", "bot": "assistant", "model": "assistant"}
_CONTENT = ("contentParts", "contentChunks", "content", "text")
_REASONING = ("reasoning", "reasoning_content", "reasoningContent", "thinking")
_TIMES = ("timestamp", "createdAt", "created_at", "created", "date", "time")


def is_turn(value: Any, role: str = "role", *content: str) -> bool:
    """Whether a value has a role and content under one of these names."""
    return (
        isinstance(value, dict)
        and isinstance(value.get(role), str)
        and any(key in value for key in content or _CONTENT)
    )


def chat_messages(
    records: Iterable[Mapping[str, Any]], *, model: str | None = None, roles: Mapping[str, str] = ROLES
) -> Iterator[Message]:
    """The messages of records in their order; `model` answered where a record names none."""
    pairs = Pairing()
    for record in records:
        yield from turn(record, pairs, model=model, roles=roles)


def turn(
    record: Mapping[str, Any], pairs: Pairing, *, model: str | None = None, roles: Mapping[str, str] = ROLES
) -> list[Message]:
    """The messages of one record: an answer with the results among its parts is several."""
    when = moment(first(record, *_TIMES))
    name = str(first(record, "role", "from") or "").lower()
    role, content = roles.get(name, name), first(record, *_CONTENT)
    parts = _parts(record, content, pairs)
    if role == "tool":
        id = first(record, "tool_call_id", "toolCallId", "call_id")
        named = first(record, "name", "tool_name", "toolName")
        return [pairs.result(id, named, given_content(content), timestamp=when)]
    if role == "system":
        return [SystemMessage(content=tuple(parts))] if parts else []
    if role == "assistant":
        usage = usage_in(record)
        model = optional(first(record, "model", "modelId", "modelName")) or model
        failure = optional(record.get("error"))
        failed = {"stop_reason": "error", "error_message": failure} if failure else {}
        return rounds(parts, {"usage": usage} if usage else {}, model=model, timestamp=when, **failed)
    return [user(tuple(parts), when)] if role == "user" else [kept_record("chat", name, dict(record))]


def _parts(record: Mapping[str, Any], content: Any, pairs: Pairing) -> list[Any]:
    """Blocks of a record, with results behind the calls that they answer."""
    found: list[Any] = []
    thought = optional(first(record, *_REASONING))
    if thought:
        found.append(ThinkingBlock(thinking=thought))
    if isinstance(content, str):  # most are
        if content:
            found.append(TextBlock(text=content))
    else:
        for part in (content,) if isinstance(content, dict) else content or ():
            found += _part(part, pairs)
    for item in items(record.get("tool_calls")) if "tool_calls" in record else ():
        name = name_of(item)
        if name is not None:
            given = first(inner(item, "function") or item, "arguments", "input", "args")
            found.append(pairs.call(call_id(item), name, given))
    return found


def _part(part: Any, pairs: Pairing) -> list[Any]:
    if isinstance(part, str):
        return [TextBlock(text=part)] if part else []
    if not isinstance(part, dict):
        return []
    name = name_of(part) if part.get("type") in ("tool-call", "tool_use", "tool_call") else None
    if name is not None:
        id = call_id(part)
        found: list[Any] = [pairs.call(id, name, first(part, "args", "input", "arguments"))]
        if part.get("result") is not None:
            failed = part.get("state") == "error"
            found.append(pairs.result(id, name, given_content(part["result"]), failed))
        return found
    if is_result(part):
        given = given_content(first(part, "content", "output", "result"))
        return [pairs.result(first(part, "tool_use_id", "tool_call_id", "toolCallId"), None, given)]
    block: Block | None = block_of(part)
    return [] if block is None else [block]


def usage_in(record: Mapping[str, Any]) -> Usage | None:
    """Usage of a record, in the names of the AI SDK or of a provider."""
    given = record.get("usage")
    if isinstance(given, dict) and ("inputTokens" in given or "outputTokens" in given):
        read = max(whole(given.get("cachedInputTokens")) or 0, 0)
        prompt, output = (max(whole(given.get(key)) or 0, 0) for key in ("inputTokens", "outputTokens"))
        return Usage.of(max(prompt - read, 0), output, cache_read=min(read, prompt)) if prompt or output else None
    return openai_usage(given)


def chat(
    messages: Iterable[Message], *, title: Any = None, model: Any = None, system: str | None = None
) -> Conversation:
    """A conversation of messages in a row: the system texts before the first other message are the system prompt."""
    texts = [system] if system else []
    found = list(without_prompt(messages, texts))
    return conversation_of(found, title=title, model=model, system="\n\n".join(texts) or None)


def without_prompt(messages: Iterable[Message], texts: list[str]) -> Iterator[Message]:
    """The messages from the first on that is not of the system; the texts of those before it are added to `texts`."""
    is_prompt = True
    for message in messages:
        is_prompt = is_prompt and isinstance(message, SystemMessage)
        if not is_prompt:
            yield message
        elif message.text:
            texts.append(message.text)
