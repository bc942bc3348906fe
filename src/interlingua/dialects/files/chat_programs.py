"""What readers of chat programs share: messages of a role and content under many names, and exports of many chats.

Programs agree on little more than a role and a text. Content is text, a list of parts, or parts in a field of their
own; reasoning, calls and results stand beside it or among the parts. A message that has neither text nor parts is
empty, not an error.
"""

import functools
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from ...values.messages import (
    AssistantMessage,
    Block,
    Message,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    Usage,
    blocks_of,
)
from ...values.request import Conversation
from ..residual import optional, whole
from .program_content import (
    block_of,
    call_id,
    called,
    conversation_of,
    first,
    given_content,
    is_result,
    items,
    moment,
    name_of,
    user,
)
from .reading import Pairing, by_keys, kept_record, openai_usage, rounds

ROLES = {"user": "user", "human": "user", "assistant": "assistant", "bot": "assistant", "model": "assistant"}
_CONTENT = ("contentParts", "contentChunks", "content", "text")
_FIELDS = (
    ("timestamp", "createdAt", "created_at", "created", "date", "time"),
    ("role", "from"),
    _CONTENT,
    ("reasoning", "reasoning_content", "reasoningContent", "thinking"),
    ("model", "modelId", "modelName"),
    ("tool_call_id", "toolCallId", "call_id"),
    ("name", "tool_name", "toolName"),
)


def is_turn(value: Any, role: str = "role", *content: str) -> bool:
    """Whether a value has a role and content under one of these names."""
    return (
        isinstance(value, dict)
        and isinstance(value.get(role), str)
        and any(key in value for key in content or _CONTENT)
    )


def chat_messages(
    records: Iterable[Mapping[str, Any]], *, model: str | None = None, failures: tuple[str, ...] = ()
) -> Iterator[Message]:
    """The messages of records in their order; `model` answered where a record names none. `failures` as in `turn`."""
    pairs = Pairing()
    for record in records:
        yield from turn(record, pairs, model=model, failures=failures)


def turn(
    record: Mapping[str, Any],
    pairs: Pairing,
    *,
    model: str | None = None,
    roles: Mapping[str, str] = ROLES,
    failures: tuple[str, ...] = (),
) -> list[Message]:
    """The messages of one record: an answer with the results among its parts is several.

    `failures` are fields by which the program leaves an answer out of later requests. Beside other answers with content
    an `error` is a note.
    """
    time, role_in, content_in, thought, model_in, id_in, tool_in = by_keys(_getters, record)
    when = moment(time(record))
    name = str(role_in(record) or "").lower()
    role, content = roles.get(name, name), content_in(record)
    if role == "tool":
        return [pairs.result(id_in(record), tool_in(record), given_content(content), timestamp=when)]
    parts = _parts(record, optional(thought(record)), content, pairs)
    if role == "system":
        return [SystemMessage(content=tuple(parts))] if parts else []
    if role == "assistant":
        usage = usage_in(record) if "usage" in record else None
        model = optional(model_in(record)) or model
        failed: dict[str, Any] = {}
        if "error" in record or failures:
            failure = optional(record.get("error"))
            is_failed = any(map(record.get, failures)) or (failure and not parts)
            failed = {"stop_reason": "error" if is_failed else None, "error_message": failure or None}
        return rounds(parts, {"usage": usage} if usage else {}, model=model, timestamp=when, **failed)
    return [user(tuple(parts), when)] if role == "user" else [kept_record("chat", name, dict(record))]


@functools.lru_cache(500)
def _getters(keys: tuple[str, ...]) -> tuple[Callable[[Mapping[str, Any]], Any], ...]:
    """For each of the fields, what returns the first value that a record with these keys has under its names."""
    return tuple(_getter([name for name in names if name in keys]) for names in _FIELDS)


def _getter(names: list[str]) -> Callable[[Mapping[str, Any]], Any]:
    if not names:
        return lambda record: None
    return operator.itemgetter(*names) if len(names) == 1 else lambda record: first(record, *names)


def _parts(record: Mapping[str, Any], thought: str | None, content: Any, pairs: Pairing) -> list[Any]:
    """Blocks of a record, with results behind the calls that they answer."""
    found: list[Any] = []
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
            found.append(pairs.call(call_id(item), name, first(called(item), "arguments", "input", "args")))
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


# Thoughts that a program leaves in the text of an answer as the model marked them; one may be cut. A tag in backticks
# is only mentioned.
_THOUGHT = re.compile(
    r"(?<!`)<(?P<tag>think|thought|seed:think)>(?P<thought>.*?)(?P<end></(?P=tag)>|\Z)"
    r"|<\|channel\|>analysis<\|message\|>(?P<analysis>.*?)(?:<\|end\|>|(?=<\|start\|>)|\Z)"
    r"|(?P<mark>(?:<\|start\|>assistant)?<\|channel\|>final<\|message\|>|<\|end\|>)",
    re.DOTALL,
)
_IS_MARKED = re.compile(r"<(think|thought|seed:think)>|<\|channel\|>")


def with_thoughts(message: Message) -> Message:
    """The message with the thoughts that are marked in the text of an answer as blocks."""
    if not isinstance(message, AssistantMessage) or _IS_MARKED.search(message.text) is None:
        return message
    return replace(message, content=tuple(block for one in blocks_of(message.content) for block in _marked(one)))


def _marked(block: Block) -> Iterator[Block]:
    if not isinstance(block, TextBlock) or _IS_MARKED.search(block.text) is None:
        yield block
        return
    end, texts = 0, list[str]()
    for found in _THOUGHT.finditer(block.text):
        if found["tag"] and not found["end"] and block.text[: found.start()].rpartition("\n")[2].strip():
            break  # without an end, only a tag that begins a line is one of the model's
        texts.append(block.text[end : found.start()])
        end, thought = found.end(), found["thought"] or found["analysis"]
        if thought and thought.strip():
            yield from _joined(texts)
            yield ThinkingBlock(thinking=thought.strip())
            texts = []
    yield from _joined([*texts, block.text[end:]]) if end else (block,)


def _joined(texts: list[str]) -> Iterator[Block]:
    text = "".join(texts).strip()
    if text:
        yield TextBlock(text=text)


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
    messages = iter(messages)
    for message in messages:
        if not isinstance(message, SystemMessage):
            yield message
            break
        if message.text:
            texts.append(message.text)
    yield from messages
