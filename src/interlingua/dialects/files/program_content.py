"""Content as coding agents store it: the blocks of Anthropic's wire, of OpenAI's and of Google's, under many names.

Every program has its own spelling for the same few things (`tool_use` with `id`, `toolUseId` or `toolCallID`; `input`,
`args` or `arguments`, as an object or as JSON text). The readers here know them all and are liberal: what is missing
is left out, and what is of the wrong type is not read. Formats that use them return their files by a template
(`templates.py`), so nothing that is passed over here is lost.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import BadWire, FormatError
from ...values.messages import (
    AssistantMessage,
    AudioBlock,
    Block,
    Content,
    Cost,
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    checked_content,
)
from ...values.request import Conversation, Entry, ModelDescriptor, ToolSpec
from ..codec import RESULT, USER
from ..residual import body_of, count, number, optional
from .records import milliseconds

PROGRAM = "program"  # the origin of what a program put in for the model to read

_TEXT = frozenset(("text", "input_text", "output_text"))
_THINKING = frozenset(("thinking", "reasoning", "think", "redacted_thinking", "redactedThinking"))
_FILES = frozenset(("document", "file", "input_file", "media", "resource", "resource_link"))
_RECORDINGS = frozenset(("audio", "input_audio", "audio_url", "video_url"))
_IMAGE = frozenset(("image", "image_url", "imageUrl", "input_image"))
_CALL = frozenset(("tool_use", "toolUse", "tool_call", "tool-call", "toolCall", "function_call", "custom_tool_call"))
_RESULT = frozenset(
    ("tool_result", "toolResult", "tool-result", "function_call_output", "custom_tool_call_output", "tool_response")
)
_CALL_IDS = ("id", "toolUseId", "toolUseID", "toolCallId", "tool_call_id", "call_id", "callId")
_RESULT_IDS = ("tool_use_id", "toolUseID", "toolUseId", "tool_call_id", "toolCallId", "call_id", "callId", "id")


def an_object_of(data: Any, api: str) -> dict[str, Any]:
    """A document that must be one JSON object."""
    value = body_of(data, api)
    if not isinstance(value, dict):
        raise BadWire(api, f"expected an object, got {type(value).__name__}")
    return value


def a_list_of(data: Any, api: str) -> list[Any]:
    """A document that must be a JSON list."""
    value = body_of(data, api)
    if not isinstance(value, list):
        raise BadWire(api, f"expected a list, got {type(value).__name__}")
    return value


def items(value: Any) -> list[dict[str, Any]]:
    """The objects in a list that may be missing, or hold nulls."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def inner(value: Any, *keys: str) -> Any:
    """Returns the value at a path of nested keys; None if one is missing."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def first(value: Mapping[str, Any], *keys: str) -> Any:
    """Returns the first of these keys with a value."""
    for key in keys:
        found = value.get(key)
        if found is not None:
            return found
    return None


def moment(value: Any) -> int | None:
    """A time as milliseconds: ISO 8601, or a number of seconds or milliseconds since 1970."""
    if isinstance(value, str):
        return milliseconds(value)
    counted = number(value)
    if counted is None:
        return None
    try:
        return round(counted if abs(counted) > 1e11 else counted * 1000)  # 1e11 seconds are the year 5138
    except (OverflowError, ValueError):
        return None


# --- blocks ----------------------------------------------------------------------------------------------------------


def content_of(value: Any) -> Content:
    """Text as it is, or the blocks of a list; calls and results are read where they belong, not here."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        return None
    blocks = [TextBlock(text=item) if isinstance(item, str) else block_of(item) for item in value]
    return tuple([block for block in blocks if block is not None])


def block_of(item: Any) -> Block | None:
    """A block of an answer or of a message; None for what is none."""
    if not isinstance(item, dict):
        return None
    kind = item.get("type")
    if kind in _TEXT or (kind is None and "text" in item):
        text = optional(item.get("text"))
        return None if text is None else TextBlock(text=text)
    if kind in _THINKING:
        return thinking_of(item)
    if kind in _IMAGE:
        return image_of(item)
    if kind in _CALL:
        return call_of(item)
    return file_of(item) if kind in _FILES or kind in _RECORDINGS else None


def thinking_of(item: Mapping[str, Any]) -> ThinkingBlock:
    sealed = optional(first(item, "data", "encrypted", "redactedContent"))
    text = optional(first(item, "thinking", "text", "reasoning", "think", "content"))
    signature = optional(first(item, "signature", "thoughtSignature"))
    if item.get("type") in ("redacted_thinking", "redactedThinking"):
        return ThinkingBlock(thinking="", thinking_signature=sealed, redacted=True)
    return ThinkingBlock(thinking=text or "", thinking_signature=signature)


def image_of(item: Mapping[str, Any]) -> ImageBlock | None:
    """A picture: Anthropic's `source`, OpenAI's `image_url`, or data and type beside each other."""
    source = item.get("source")
    given: Any = source if isinstance(source, dict) else item
    linked = first(given, "image_url", "imageUrl", "url", "path", "image", "storageKey")
    url = optional(linked.get("url")) if isinstance(linked, dict) else optional(linked)
    if url is not None and not url.startswith("data:"):
        return ImageBlock(url=url)
    data = optional(given.get("data")) if url is None else url
    if data is None:
        return None
    head, comma, rest = data.partition(",")
    if comma and head.startswith("data:"):
        return ImageBlock(data=rest, mime_type=head[len("data:") :].partition(";")[0] or None)
    return ImageBlock(data=data, mime_type=optional(first(given, "media_type", "mediaType", "mimeType", "mime")))


def attachment_of(url: str, mime: str | None, name: str | None) -> Block:
    """A file that is given by a URL: a picture, or a document."""
    if (mime or "").startswith("image/"):
        return image_of({"url": url, "media_type": mime}) or TextBlock(text=url)
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:"):
        return DocumentBlock(data=data, mime_type=mime, title=name)
    return DocumentBlock(url=url, mime_type=mime, title=name)


def file_of(item: Mapping[str, Any]) -> Block | None:
    """A file that is no picture: Anthropic's `source`, OpenAI's `file` and `input_audio`, or a `resource` of MCP."""
    if isinstance(item.get("media"), dict):
        item = {**item, **item["media"], "type": item["media"].get("modality")}
    source = first(item, "source", "resource", "file", "input_audio", "audio_url", "video_url")
    given: Mapping[str, Any] = source if isinstance(source, dict) else item
    name = optional(first({**given, **item}, "title", "filename", "name", "uri", "path"))
    mime = optional(first({**item, **given}, "media_type", "mediaType", "mimeType", "mime_type", "mime"))
    text, data = optional(given.get("text")), optional(first(given, "data", "blob", "file_data"))
    url, id = optional(first(given, "url", "uri", "file_url")), optional(given.get("file_id"))
    if text is not None:  # a resource, which the model reads as text
        return TextBlock(text=text)
    written = data if given.get("type") == "text" else optional(item.get("content"))
    if written is not None:
        return DocumentBlock(text=written, mime_type=mime, title=name)
    if url is not None and item.get("type") == "audio_url":
        return AudioBlock(url=url)
    if data is not None and item.get("type") in ("audio", "input_audio"):
        return AudioBlock(data=data, mime_type=mime or f"audio/{given.get('format', 'wav')}")
    if data is not None:
        return attachment_of(data if data.startswith("data:") else f"data:{mime};base64,{data}", mime, name)
    if url is not None:
        return attachment_of(url, mime, name)
    return None if id is None else DocumentBlock(file_id=id, title=name)


def call_of(item: Mapping[str, Any]) -> ToolCall | None:
    """Decodes a call; its name and arguments may be inside `function`."""
    given = called(item)
    name = name_of(item)
    if name is None:
        return None
    return a_call(call_id(item), name, first(given, "input", "arguments", "args", "rawInput", "parameters"))


def called(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object with the name and the arguments of a call."""
    function = item.get("function")
    return function if isinstance(function, dict) else item


def name_of(item: Mapping[str, Any]) -> str | None:
    """The name of the tool that a call is for."""
    return optional(first(called(item), "name", "toolName", "tool_name", "function_name"))


def call_id(item: Mapping[str, Any]) -> str:
    """The id of a call; "" if it has none."""
    return optional(first(item, *_CALL_IDS)) or ""


def a_call(id: str, name: str, arguments: Any) -> ToolCall:
    """A call with arguments that are an object, JSON text, or nothing."""
    if isinstance(arguments, dict):
        return ToolCall(id=id, name=name, arguments=arguments)
    if arguments is None or arguments == "":
        return ToolCall(id=id, name=name, arguments={})
    text = arguments if isinstance(arguments, str) else jsontext.compact(arguments)
    try:
        parsed = jsontext.read(text)
    except FormatError:
        parsed = None
    if isinstance(parsed, dict):
        spelled = None if jsontext.compact(parsed) == text else text
        return ToolCall(id=id, name=name, arguments=parsed, arguments_text=spelled)
    error = "the arguments are not a JSON object"
    return ToolCall(id=id, name=name, arguments={}, arguments_text=text, parse_error=error)


def is_result(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") in _RESULT


def result_of(item: Mapping[str, Any], when: int | None = None) -> ToolResultMessage | None:
    id = optional(first(item, *_RESULT_IDS))
    if id is None:
        return None
    given = first(item, "content", "output", "result")
    failed = first(item, "is_error", "isError") is True or item.get("status") in ("error", "failed")
    name = optional(first(item, "name", "tool_name", "toolName"))
    return a_result(id, given, name=name, failed=failed, when=when)


def a_result(
    id: str, given: Any, *, name: str | None = None, failed: bool = False, when: int | None = None, details: Any = None
) -> ToolResultMessage:
    """A result with this content, see `given_content`."""
    return replace(
        RESULT,
        extra={},
        tool_call_id=id,
        tool_name=name,
        content=given_content(given),
        is_error=failed,
        timestamp=when,
        details=details,
    )


def given_content(given: Any) -> Content:
    """The content of a result: text, blocks, or any other JSON, which the model read as text."""
    if isinstance(given, str):
        return given
    blocks = content_of(given) if isinstance(given, list) else None
    if blocks is None or (blocks == () and given):
        return "" if given is None else jsontext.compact(given)
    return blocks


# --- messages --------------------------------------------------------------------------------------------------------


def user(content: Content, when: int | None = None, *, program: bool = False) -> UserMessage:
    checked = checked_content(content, "UserMessage")
    return replace(USER, extra={}, content=checked, timestamp=when, origin=PROGRAM if program else None)


def user_messages(content: Any, when: int | None = None, *, program: bool = False) -> list[Message]:
    """Decodes a user message: its results, then its other content."""
    if not isinstance(content, list):
        return [user(content_of(content), when, program=program)]
    found: list[Message] = []
    others = []
    for item in content:
        if not is_result(item):
            others.append(item)
        elif (result := result_of(item, when)) is not None:
            found.append(result)
    rest = content_of(others)
    return [*found, user(rest, when, program=program)] if rest or not found else found


def usage_of(
    wire: Any, *, input: str, output: str, read: str = "", write: str = "", reasoning: str = ""
) -> Usage | None:
    """Tokens under these names, where input excludes cached tokens and output excludes reasoning."""
    if not isinstance(wire, dict) or (number(wire.get(input)) is None and number(wire.get(output)) is None):
        return None
    thought = count(wire, reasoning) if reasoning else 0
    return Usage.of(
        count(wire, input),
        count(wire, output) + thought,
        cache_read=count(wire, read) if read else 0,
        cache_write=count(wire, write) if write else 0,
        reasoning=thought if reasoning and reasoning in wire else None,
    )


def priced(usage: Usage | None, cost: Any) -> Usage | None:
    """Usage with the cost in dollars that a file states; zero is what programs write where they know no price."""
    total = number(cost)
    return usage if usage is None or total is None or total <= 0 else replace(usage, cost=Cost(total=total))


def inclusive_usage(wire: Any, *, input: str, output: str, cached: Any = 0, written: Any = 0) -> Usage | None:
    """Tokens under these names, where the input includes what was read from the cache or written to it."""
    found = usage_of(wire, input=input, output=output)
    if found is None:
        return None
    read, wrote = (max(given, 0) if isinstance(given, int) else 0 for given in (cached, written))
    return Usage.of(max(found.input - read - wrote, 0), found.output, cache_read=read, cache_write=wrote)


def conversation_of(
    messages: Iterable[Message],
    *,
    title: Any = None,
    usage: Usage | None = None,
    model: Any = None,
    system: str | None = None,
    tools: tuple[ToolSpec, ...] | None = None,
) -> Conversation:
    """Messages in a row. The model is the one that answered last, where the file names no other."""
    entries = tuple(Entry(message=message) for message in messages)
    answered = [e.message.model for e in entries if isinstance(e.message, AssistantMessage) and e.message.model]
    named = optional(model) or (answered[-1] if answered else None)
    return Conversation(
        entries=entries,
        title=optional(title) or None,
        usage=usage,
        system=system,
        tools=tools,
        model=ModelDescriptor(id=named) if named else None,
    )


def openai_tools(value: Any) -> tuple[ToolSpec, ...] | None:
    """Tools in the format of OpenAI's chat wire."""
    found = []
    for item in items(value):
        function = item["function"] if isinstance(item.get("function"), dict) else item
        name = optional(function.get("name"))
        if name is not None:
            schema = first(function, "parameters", "input_schema", "inputSchema")
            found.append(ToolSpec(name=name, description=optional(function.get("description")), input_schema=schema))
    return tuple(found) or None
