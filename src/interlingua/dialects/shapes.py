"""Predicates on JSON values of unknown origin, for the detection of formats."""

from collections.abc import Callable, Iterator
from typing import Any


def has(*keys: str) -> Callable[[Any], bool]:
    """A test for an object with all these keys."""
    return lambda value: isinstance(value, dict) and all(key in value for key in keys)


def messages(value: Any) -> list[dict[str, Any]]:
    """The messages of a request body or of a bare list."""
    found = value.get("messages") if isinstance(value, dict) else value
    return [message for message in found if isinstance(message, dict)] if isinstance(found, list) else []


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """The content parts of all messages."""
    for message in messages(value):
        if isinstance(message.get("content"), list):
            yield from (part for part in message["content"] if isinstance(part, dict))


def roles(value: Any) -> set[Any]:
    return {message.get("role") for message in messages(value)}


def is_plain(value: Any, *allowed: str) -> bool:
    """Messages of only these roles whose content is text: the shape that all chat wires share."""
    found = messages(value)
    return bool(found) and roles(value) <= set(allowed) and all(map(_is_text, found))


def _is_text(message: dict[str, Any]) -> bool:
    content = message.get("content")
    if isinstance(content, list):
        return all(isinstance(part, dict) and part.get("type") == "text" for part in content)
    return isinstance(content, str) and message.keys() == {"role", "content"}


# Fields of a request body that only Chat Completions has.
CHAT_ONLY = frozenset(("stream_options", "max_completion_tokens", "response_format", "n", "store", "reasoning_effort"))


def has_any(value: Any, keys: frozenset[str]) -> bool:
    return isinstance(value, dict) and not keys.isdisjoint(value)
