"""Calls, results and messages in the format of any wire, at any place in a conversation.

Users mix formats: OpenAI's `tool` message after our `toolCall`, Anthropic's `tool_use` in our content, `tool_calls`
beside it. Codecs keep what their format does not have; `understood` interprets it. `adapt` uses and reports it; the
clawtools dialect explains the same shapes with these names.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from ..values import jsontext
from ..values.errors import FormatError
from ..values.folding import parse_arguments
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    Block,
    CustomMessage,
    ImageBlock,
    Message,
    OpaqueBlock,
    SystemMessage,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
)
from .openai_shared import read_data_url
from .registry import DIALECTS

_log = logging.getLogger(__name__)

# The type names of all wires, in every spelling in use.
RESULT_ROLES = frozenset(
    {"tool", "function", "tool_result", "toolresult", "tool-result", "tool_response", "observation"}
)
SYSTEM_ROLES = frozenset({"system", "developer"})
OTHER_ROLES = {"model": "assistant", "ai": "assistant", "bot": "assistant", "human": "user"}
CALL_TYPES = frozenset({"tool_use", "toolUse", "tool_call", "tool-call", "function_call", "functionCall"})
RESULT_TYPES = frozenset(
    {
        "tool_result",
        "toolResult",
        "tool-result",
        "tool_output",
        "function_call_output",
        "function_response",
        "functionResponse",
    }
)
TEXT_TYPES = frozenset({"input_text", "output_text"})
IMAGE_TYPES = frozenset({"input_image", "image_url", "image"})
# Blocks identified by a key and not by a type: Gemini's parts, Bedrock's blocks.
CALL_KEYS = ("functionCall", "function_call", "toolUse")
RESULT_KEYS = ("functionResponse", "function_response", "toolResult")
IMAGE_KEYS = ("inlineData", "inline_data", "fileData", "file_data", "image")
# Fields with the calls of a message beside its content; `calls_beside` marks the formats that have them.
BESIDE = ("tool_calls", "toolCalls", "function_call", "functionCall")
_CALL_IDS = ("toolCallId", "tool_call_id", "tool_use_id", "toolUseId", "call_id", "id")


class Understood(NamedTuple):
    """The interpretation of a message: messages, each with the source places of its blocks (None: no places)."""

    what: str
    messages: tuple[tuple[Message, tuple[int | None, ...]], ...]


def understood(message: AgentMessage) -> Understood | None:
    """The interpretation of a message with values of another wire; None for all other messages."""
    if type(message) is UserMessage and type(message.content) is str:
        return None  # the most frequent case
    if isinstance(message, CustomMessage):
        return _understood_role(message)
    if not message.extra and (type(message.content) is str or OpaqueBlock not in map(type, message.content or ())):
        return None  # only opaque blocks and residuals hold values of another wire
    if isinstance(message, ToolResultMessage):
        return _understood_result(message)
    calls, what, extra = _calls_beside(message) if isinstance(message, AssistantMessage) else ([], "", message.extra)
    blocks: list[Block] = []
    places: list[int | None] = []
    results: list[ToolResultMessage] = []
    stated = {block.id for block in blocks_of(message.content) if isinstance(block, ToolCall)}
    calls = [call for call in calls if call.id not in stated]
    stated |= {call.id for call in calls}
    blank = isinstance(message.content, str) and not message.content.strip()
    for at, block in enumerate(() if blank else blocks_of(message.content)):
        meaning = _meaning(block)
        if meaning is not None:
            what = what or f"`{_word(block)}`"
        if isinstance(meaning, ToolResultMessage):
            results.append(meaning)
        elif not isinstance(meaning, ToolCall) or not meaning.id or meaning.id not in stated:
            blocks.append(meaning or block)  # a call that the message states twice, here and beside it, counts once
            places.append(at)
    if not what:
        return None
    rest = replace(message, content=(*blocks, *calls), extra=extra)
    encoded = [(rest, (*places, *[None] * len(calls)))] if rest.content else []
    answers = [(result, (None,) * len(blocks_of(result.content))) for result in results]
    # Results come before text in the same message (docs.claude.com, tool use: tool_result blocks first).
    order = [*encoded, *answers] if isinstance(message, AssistantMessage) else [*answers, *encoded]
    return Understood(what, tuple(order))


def meant(messages: Iterable[AgentMessage]) -> list[AgentMessage]:
    """The messages, with those of another wire interpreted and logged."""
    read: list[AgentMessage] = []
    for message in messages:
        meaning = understood(message)
        if meaning is None:
            read.append(message)
            continue
        _log.warning(
            "%s in a message: read as what it means in other formats; `check` shows how to write it", meaning.what
        )
        read += [encoded for encoded, _ in meaning.messages]
    return read


def _word(block: Block) -> str:
    value = block.value if isinstance(block, OpaqueBlock) else {}
    if _text_among(value) is not None:
        return "text"
    return str(value.get("type") or next((key for key in (*CALL_KEYS, *RESULT_KEYS, *IMAGE_KEYS) if key in value), ""))


def _meaning(block: Block) -> Block | ToolResultMessage | None:
    """The interpretation of an opaque block with values of another wire."""
    if not isinstance(block, OpaqueBlock):
        return None
    text = _text_among(block.value)
    if text is not None:
        return TextBlock(text=text)
    return _read_block(block.value) if isinstance(block.value, dict) else None


def _text_among(value: Any) -> str | None:
    """Text that stands among the blocks without one of its own, as libraries accept it."""
    if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("content"), list):  # OpenAI's parts
        value = value["content"][0] if len(value["content"]) == 1 else None
    return value if isinstance(value, str) else None


def _read_block(value: dict[str, Any]) -> Block | ToolResultMessage | None:
    kind = value.get("type")
    if not isinstance(kind, str | None):
        return None
    inner = next((key for key in (*CALL_KEYS, *RESULT_KEYS) if kind is None and isinstance(value.get(key), dict)), None)
    if kind in CALL_TYPES or kind == "toolCall" or inner in CALL_KEYS:
        return call_in(value[inner] if inner else value)
    if kind in RESULT_TYPES or inner in RESULT_KEYS:
        return result_in(value[inner] if inner else value)
    if (kind in TEXT_TYPES or kind in ("text", None)) and isinstance(value.get("text"), str):
        return TextBlock(text=value["text"])
    return image_in(value)


def _calls_beside(message: AssistantMessage) -> tuple[list[ToolCall], str, dict[str, Any]]:
    """Calls beside the content, the key they were under, and the other fields of the message."""
    for dialect, residual in message.extra.items():
        for key in BESIDE if isinstance(residual, dict) else ():
            given = residual.get(key)
            if given is None or ((owner := DIALECTS.get(dialect)) and owner.calls_beside):
                continue
            calls = [call_in(call) for call in (given if isinstance(given, list) else [given])]
            found = [call for call in calls if call is not None]
            if found and len(found) == len(calls):
                rest = {name: value for name, value in residual.items() if name != key}
                others = {name: value for name, value in message.extra.items() if name != dialect}
                return found, f"`{key}` beside the content", {**others, **({dialect: rest} if rest else {})}
    return [], "", message.extra


def _understood_role(message: CustomMessage) -> Understood | None:
    role, fields = message.role, message.fields
    what, content = f"the role `{role}`", fields.get("content", fields.get("parts"))
    if role in RESULT_ROLES:
        result = result_in(fields)
        return None if result is None else _whole(what, result)
    if role in SYSTEM_ROLES and content is not None:
        return _whole(what, SystemMessage(content=tuple(_content(content)), developer=role == "developer"))
    beside = {key: fields[key] for key in BESIDE if key in fields}
    if role not in OTHER_ROLES or (content is None and not beside):
        return None
    items = content if isinstance(content, list) else [] if content is None else [content]
    blocks = tuple(TextBlock(text=i) if isinstance(i, str) else OpaqueBlock(dialect="", value=i) for i in items)
    read: AssistantMessage | UserMessage = UserMessage(content=blocks)
    if OTHER_ROLES[role] == "assistant":
        read = AssistantMessage(content=blocks, extra={"": beside})
    inner = understood(read)
    return _whole(what, *(replace(encoded, extra={}) for encoded, _ in inner.messages) if inner else (read,))


def _understood_result(message: ToolResultMessage) -> Understood | None:
    """A result of ours with another wire's field for the call id, or with blocks of another wire."""
    residual = {key: value for part in message.extra.values() if isinstance(part, dict) for key, value in part.items()}
    blocks = blocks_of(message.content)
    read = {at: meant for at, block in enumerate(blocks) if (meant := _in_a_result(block))}
    known: dict[str, Any] = {}
    if not message.tool_call_id and isinstance(id := first(residual, *_CALL_IDS), str):
        name = message.tool_name or first(residual, "tool_name", "name")
        known = {
            "tool_call_id": id,
            "tool_name": name,
            "is_error": message.is_error or residual.get("is_error") is True,
        }
    if not read and not known:
        return None
    places = tuple(at for at in range(len(blocks)) for _ in read.get(at, (None,)))
    if read:
        known["content"] = tuple(block for at, given in enumerate(blocks) for block in read.get(at, (given,)))
    return Understood("a result in another text", ((replace(message, **known), places),))


def _in_a_result(block: Block) -> tuple[TextBlock | ImageBlock, ...]:
    """Another wire's block in the content of a result: text, an image, or the result once more with its content."""
    value = block.value if isinstance(block, OpaqueBlock) else None
    if isinstance(value, dict) and isinstance(value.get("type"), str) and value["type"] in RESULT_TYPES:
        return tuple(part for part in _content(result_parts(value)[2]) if isinstance(part, TextBlock | ImageBlock))
    meant = _meaning(block)
    return (meant,) if isinstance(meant, TextBlock | ImageBlock) else ()


def _whole(what: str, *messages: Any) -> Understood:
    return Understood(what, tuple((message, (None,) * len(blocks_of(message.content))) for message in messages))


# --- calls, results, content ------------------------------------------------------------------------------------------


def call_parts(call: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Id, name and arguments of a call in any wire's format."""
    inner = call.get("function")
    given = {**call, **inner} if isinstance(inner, dict) else call
    return (
        first(given, "call_id", "id", "toolUseId", "toolCallId", "tool_call_id"),
        first(given, "name", "toolName"),
        first(given, "arguments", "input", "args"),
    )


def call_in(call: Any) -> ToolCall | None:
    """A call in any wire's format; None for what has no name."""
    id, name, given = call_parts(call) if isinstance(call, dict) else (None, None, None)
    if not isinstance(name, str) or not name:
        return None
    text = given if isinstance(given, str) else jsontext.compact({} if given is None else given)
    arguments, spelled, error = parse_arguments(text)
    return ToolCall(
        id=id if isinstance(id, str) else "",  # Gemini's calls may have no id: they pair by order
        name=name,
        arguments=arguments,
        arguments_text=spelled,
        parse_error=error,
    )


def result_parts(result: Mapping[str, Any]) -> tuple[Any, Any, Any, bool]:
    """Call id, tool name, content and whether it failed, of a result in any wire's format."""
    content = first(result, "content", "output", "response", "result", "text")
    failed = any(result.get(key) is True for key in ("isError", "is_error")) or result.get("status") == "error"
    return first(result, *_CALL_IDS), first(result, "toolName", "tool_name", "name"), content, failed


def result_in(result: dict[str, Any]) -> ToolResultMessage | None:
    """A result in any wire's format; None for what names neither its call nor its tool."""
    id, name, content, failed = result_parts(result)
    if not isinstance(id, str) and not isinstance(name, str):
        return None
    return ToolResultMessage(
        tool_call_id=id if isinstance(id, str) else "",
        tool_name=name if isinstance(name, str) else None,
        content=tuple(_content(content)),
        is_error=failed,
    )


def _content(content: Any) -> Iterator[Block]:
    """The content of a result or a message as text and images; anything else as JSON text."""
    if content is None:
        return
    if isinstance(content, dict) and len(content) == 1 and isinstance(text := first(content, "output", "result"), str):
        content = text  # Gemini wraps a text result in an object
    for item in content if isinstance(content, list) else [content]:
        block = _read_block(item) if isinstance(item, dict) else None
        if isinstance(block, TextBlock | ImageBlock):
            yield block
        else:
            yield TextBlock(text=item if isinstance(item, str) else shown(item))


def image_in(block: Mapping[str, Any]) -> ImageBlock | None:
    """An image in any wire's format: data with its type, or a URL."""
    if block.get("type") not in (None, *IMAGE_TYPES):
        return None
    source = next((block[key] for key in ("source", *IMAGE_KEYS) if isinstance(block.get(key), dict)), block)
    given = block.get("image_url")
    url = given.get("url") if isinstance(given, dict) else given or first(source, "url", "fileUri", "file_uri")
    inline = read_data_url(url) if isinstance(url, str) else None
    mime, data = inline or (first(source, "mimeType", "mime_type", "media_type"), source.get("data"))
    if "type" not in block and not str(mime).startswith("image/"):
        return None  # Gemini has the same keys for audio and files
    mime = mime if isinstance(mime, str) else None
    if isinstance(data, str):
        return ImageBlock(data=data, mime_type=mime)
    return ImageBlock(url=url, mime_type=mime) if isinstance(url, str) else None


def first(value: Mapping[str, Any], *keys: str) -> Any:
    """The value of the first of these keys that is present."""
    return next((value[key] for key in keys if value.get(key) is not None), None)


def shown(value: Any) -> str:
    """A value as JSON text, if it can be serialized."""
    try:
        return jsontext.compact(value)
    except FormatError:  # nested too deep
        return "…"
