"""Semantic Kernel: a `ChatHistory` as Python writes it (`messages` of `items`) or as .NET does (a list of `Items`).

An item is a text, a picture, a `function_call` or a `function_result`; .NET names its class in `$type`.
github.com/microsoft/semantic-kernel `python/semantic_kernel/contents`,
`dotnet/src/SemanticKernel.Abstractions/Contents`
"""

from collections.abc import Iterator
from typing import Any

from ...values.errors import BadWire
from ...values.messages import Message, SystemMessage, TextBlock, ThinkingBlock, ToolResultMessage, Usage
from ...values.request import Conversation
from ..residual import body_of, fields_of, optional, reading
from . import templates
from .chat_programs import ROLES, chat
from .program_content import a_result, first, image_of, inclusive_usage, inner, items, usage_of, user
from .reading import Pairing, openai_usage, rounds

API = "semantic-kernel"


def _get(value: dict[str, Any], name: str) -> Any:
    """A field as Python or .NET spells it."""
    return first(value, name, name.title().replace("_", ""))


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    python = value.get("content_type") == "message" and isinstance(value.get("role"), str)
    dotnet = isinstance(inner(value, "Role", "Label"), str) and isinstance(value.get("Items"), list)
    return python or dotnet


def _messages_in(body: Any) -> list[dict[str, Any]] | None:
    found = body if isinstance(body, list) else inner(body, "messages")
    return found if isinstance(found, list) and found and all(map(_is_message, found)) else None


def _parts(message: dict[str, Any], pairs: Pairing) -> Iterator[Any]:
    for item in items(_get(message, "items")):
        kind = optional(first(item, "content_type", "$type")) or ""
        named = ".".join(filter(None, (optional(_get(item, "plugin_name")), optional(_get(item, "function_name")))))
        name = optional(item.get("name")) or named.replace(".", "-")
        if kind in ("text", "TextContent"):
            yield TextBlock(text=optional(_get(item, "text")) or "")
        elif kind in ("reasoning", "ReasoningContent"):
            yield ThinkingBlock(thinking=optional(_get(item, "text")) or "")
        elif kind in ("function_call", "FunctionCallContent"):
            yield pairs.call(_get(item, "id"), name, _get(item, "arguments"))
        elif kind in ("function_result", "FunctionResultContent"):
            id = first(item, "CallId", "id", "Id")
            yield pairs.result(id, name, a_result("", _get(item, "result")).content)
        else:
            picture = image_of({"url": first(item, "data_uri", "DataUri", "uri", "Uri")})
            if picture is not None:
                yield picture


def _usage(metadata: dict[str, Any]) -> Usage | None:
    """The provider's counts, in Python; the objects of a client in .NET, whose input includes the cached part."""
    counts = fields_of(metadata.get("Usage"))
    cached = inner(counts, "InputTokenDetails", "CachedTokenCount")
    return (
        openai_usage(metadata.get("usage"))
        or inclusive_usage(counts, input="InputTokenCount", output="OutputTokenCount", cached=cached)
        or usage_of(counts, input="PromptTokens", output="CompletionTokens")
    )


def _messages(records: list[dict[str, Any]]) -> Iterator[Message]:
    pairs = Pairing()
    for record in records:
        named = optional(record.get("role")) or optional(inner(record, "Role", "Label")) or ""
        role, parts = ROLES.get(named.lower(), named.lower()), list(_parts(record, pairs))
        if role in ("system", "developer"):
            yield SystemMessage(content=tuple(parts))
        elif role == "assistant":
            usage = _usage(fields_of(_get(record, "metadata")))
            model = optional(first(record, "ai_model_id", "ModelId"))
            yield from rounds(parts, {"usage": usage} if usage else {}, model=model)
        else:
            yield from (part for part in parts if isinstance(part, ToolResultMessage))
            blocks = tuple(part for part in parts if not isinstance(part, ToolResultMessage))
            if blocks or role == "user":
                yield user(blocks)


@reading(API)
def decode(data: Any) -> Conversation:
    """One history."""
    body = body_of(data, API)
    found = _messages_in(body)
    if found is None:
        raise BadWire(API, "expected the messages of a chat history, with their `items`")
    return templates.keep(chat(_messages(found)), body, API)


def detect(value: Any) -> str | None:
    """Whether a value is a chat history."""
    return "messages with `items` of a chat history" if _messages_in(value) is not None else None


FORMAT = templates.file_format(API, decode, detect=detect, rank=20)
