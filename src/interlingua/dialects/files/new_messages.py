"""Encodes any conversation as LangChain messages, or in OpenTelemetry's conventions.

LangChain: `messages_to_dict`, which `messages_from_dict` reads. OpenTelemetry: the attributes of one call of a model,
whose input is the conversation up to its last answer (opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-events).
What reading them again does not give back is reported.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import fields as struct_fields

from ...values.losses import Encoded, SupportTable, bookkeeping, dropped, record
from ...values.messages import (
    AssistantMessage,
    Block,
    Content,
    CustomMessage,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    blocks_of,
    text_of,
)
from ...values.request import Conversation, Options
from ..comparison import losses_of
from ..openai_shared import data_url
from .records import LINEAR

_NO_CALL = "the format holds messages, not the options and tools of a call"


def _support(api: str) -> SupportTable:
    options = " ".join(f"Options.{field.name}" for field in struct_fields(Options))
    return {
        **bookkeeping(api),
        **LINEAR,
        **record("ModelDescriptor.id", "only an answer names its model"),
        **dropped(f"{options} Context.tools Context.system_role", _NO_CALL),
    }


def _encoded(conversation: Conversation, body: Any, api: str, decode: Callable[[Any], Conversation]) -> Encoded:
    encoded = [at for at, message in enumerate(conversation.messages) if not isinstance(message, CustomMessage)]
    # An empty list is of no format.
    return Encoded(
        body, losses_of(conversation, encoded, lambda: decode(body) if body else Conversation(), _support(api), api)
    )


def _picture(block: ImageBlock) -> str | None:
    return data_url(block.mime_type, block.data) if block.data is not None else block.url


# --- LangChain -------------------------------------------------------------------------------------------------------


def langchain(conversation: Conversation, decode: Callable[[Any], Conversation]) -> Encoded:
    """A list of messages as `messages_to_dict` gives it."""
    system = [] if conversation.system is None else [SystemMessage(content=conversation.system)]
    messages: list[Any] = [*system, *conversation.messages]
    body = [_langchain(message) for message in messages if not isinstance(message, CustomMessage)]
    return _encoded(conversation, body, "langchain", decode)


def _langchain(message: Any) -> dict[str, Any]:
    data: dict[str, Any] = {"content": _langchain_content(message.content), "additional_kwargs": {}}
    data["response_metadata"] = {}
    match message:
        case SystemMessage():
            kind = "system"
        case UserMessage():
            kind = "human"
        case ToolResultMessage():
            kind = "tool"
            data |= {"tool_call_id": message.tool_call_id, "status": "error" if message.is_error else "success"}
            data |= {} if message.tool_name is None else {"name": message.tool_name}
        case _:
            kind = "ai"
            data |= _langchain_answer(message)
    return {"type": kind, "data": {**data, "type": kind}}


def _langchain_answer(message: AssistantMessage) -> dict[str, Any]:
    about = {"model_name": message.model, "finish_reason": message.stop_detail or message.stop_reason}
    data: dict[str, Any] = {"response_metadata": {key: value for key, value in about.items() if value is not None}}
    calls = [block for block in blocks_of(message.content) if isinstance(block, ToolCall)]
    # Arguments that are no object belong to `invalid_tool_calls`, as text: no code gets to run them.
    data["tool_calls"] = [
        {"name": call.name, "args": call.arguments, "id": call.id, "type": "tool_call"}
        for call in calls
        if call.parse_error is None
    ]
    data["invalid_tool_calls"] = [
        {"name": c.name, "args": c.arguments_text, "id": c.id, "error": c.parse_error, "type": "invalid_tool_call"}
        for c in calls
        if c.parse_error is not None
    ]
    data |= {} if message.response_id is None else {"id": message.response_id}
    return data if message.usage is None else {**data, "usage_metadata": _langchain_usage(message.usage)}


def _langchain_usage(usage: Usage) -> dict[str, Any]:
    read = usage.input + usage.cache_read + usage.cache_write
    wire: dict[str, Any] = {"input_tokens": read, "output_tokens": usage.output, "total_tokens": read + usage.output}
    wire["input_token_details"] = {"cache_read": usage.cache_read, "cache_creation": usage.cache_write}
    return wire if usage.reasoning is None else {**wire, "output_token_details": {"reasoning": usage.reasoning}}


def _langchain_content(content: Content) -> Any:
    if not isinstance(content, tuple):
        return content or ""
    items = [item for item in map(_langchain_block, content) if item is not None]
    alone = len(items) == 1 and items[0]["type"] == "text"
    return items[0]["text"] if alone else items or ""


def _langchain_block(block: Block) -> dict[str, Any] | None:
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text}
        case ThinkingBlock() if block.redacted:
            return {"type": "redacted_thinking", "data": block.thinking_signature}
        case ThinkingBlock():
            signed = {} if block.thinking_signature is None else {"signature": block.thinking_signature}
            return {"type": "thinking", "thinking": block.thinking, **signed}
        case ImageBlock() if (url := _picture(block)) is not None:
            return {"type": "image_url", "image_url": {"url": url}}
    return None


# --- OpenTelemetry ---------------------------------------------------------------------------------------------------


def otel(conversation: Conversation, decode: Callable[[Any], Conversation]) -> Encoded:
    """The attributes of the call that gave the last answer; of one that is still to come, where none is at the end."""
    messages = [message for message in conversation.messages if not isinstance(message, CustomMessage)]
    last = messages[-1] if messages and isinstance(messages[-1], AssistantMessage) else None
    model = (last.model if last is not None else None) or (conversation.model.id if conversation.model else None)
    body: dict[str, Any] = {"gen_ai.operation.name": "chat"}
    if model:
        body["gen_ai.request.model"] = model
    if conversation.system is not None:
        parts = blocks_of(conversation.system)
        body["gen_ai.system_instructions"] = [{"type": "text", "content": text_of((part,))} for part in parts]
    body["gen_ai.input.messages"] = [_otel(message) for message in (messages if last is None else messages[:-1])]
    if last is not None:
        ended = {} if last.stop_reason is None else {"finish_reason": last.stop_detail or last.stop_reason}
        body["gen_ai.output.messages"] = [{**_otel(last), **ended}]
        body |= {} if last.usage is None else _otel_usage(last.usage)
    # Attributes without messages are of no format.
    return _encoded(conversation, body, "otel", decode if messages else lambda body: Conversation())


def _otel_usage(usage: Usage) -> dict[str, int]:
    counts = {
        "input_tokens": usage.input + usage.cache_read + usage.cache_write,
        "output_tokens": usage.output,
        "cache_read.input_tokens": usage.cache_read or None,
        "cache_creation.input_tokens": usage.cache_write or None,
        "reasoning.output_tokens": usage.reasoning,
    }
    return {f"gen_ai.usage.{name}": count for name, count in counts.items() if count is not None}


def _otel(message: Any) -> dict[str, Any]:
    if isinstance(message, ToolResultMessage):
        named = {} if message.tool_name is None else {"name": message.tool_name}
        part = {"type": "tool_call_response", "id": message.tool_call_id, **named, "response": text_of(message.content)}
        return {"role": "tool", "parts": [part]}
    parts = [part for part in map(_otel_part, blocks_of(message.content)) if part is not None]
    return {"role": message.role, "parts": parts}


def _otel_part(block: Block) -> dict[str, Any] | None:
    match block:
        case TextBlock():
            return {"type": "text", "content": block.text}
        case ThinkingBlock() if not block.redacted:
            return {"type": "reasoning", "content": block.thinking}
        case ToolCall():
            return {"type": "tool_call", "id": block.id, "name": block.name, "arguments": block.arguments}
        case ImageBlock() if block.data is not None:
            return {"type": "blob", "modality": "image", "mime_type": block.mime_type, "content": block.data}
        case ImageBlock() if block.url is not None:
            return {"type": "uri", "modality": "image", "mime_type": block.mime_type, "uri": block.url, "content": ""}
    return None
