"""Normalizes inputs that stand for a conversation: messages, a context, a request, a conversation."""

from collections.abc import Mapping
from typing import Any, TypeAlias, get_args

from msgspec.structs import replace

from ..values.canonical import message_of
from ..values.errors import FormatError
from ..values.messages import AgentMessage, CustomMessage, Message, UserMessage
from ..values.request import Context, Conversation, ModelDescriptor, Request

Given: TypeAlias = Conversation | Request | Context | AgentMessage | list[Any] | tuple[Any, ...] | str
ContextInput: TypeAlias = Given | Mapping[str, Any] | bytes  # or as JSON of any dialect

_MESSAGES = (*get_args(Message), CustomMessage)


def request_of(given: Given, path: str = "request") -> Request:
    """Returns a request; its model has an empty name if the input has none."""
    if isinstance(given, Request):
        return given
    if isinstance(given, Conversation):
        return given.request()
    return Request(model=ModelDescriptor(id=""), context=context_of(given, path))


def conversation_of(given: Given, path: str = "conversation") -> Conversation:
    if isinstance(given, Conversation):
        return given
    if isinstance(given, Request):
        return Conversation.of(given)
    context = context_of(given, path)
    return replace(Conversation.of(Request(model=ModelDescriptor(id=""), context=context)), model=None)


def context_of(given: Any, path: str = "context") -> Context:
    """Returns a context from text, a message, messages (as values, or as this format's JSON), or a context."""
    if isinstance(given, Context):
        return read_context(given)
    if isinstance(given, str):
        return Context(messages=(UserMessage(content=given),))
    messages = tuple(given) if isinstance(given, list | tuple) else (given,)
    for message in messages:
        if not isinstance(message, (*_MESSAGES, dict)):
            what = "a list with a string in it" if isinstance(message, str) else type(message).__name__
            raise FormatError(f"a context must be text, messages, a Context or a request, not {what}", path)
    if not messages:
        raise FormatError("the context has no messages; add a user message", path)
    at = (f"{path}[{number}]" for number in range(len(messages))) if isinstance(given, list | tuple) else (path,)
    return Context(messages=tuple(map(message_of, messages, at)))  # type: ignore[arg-type]


def read_context(given: Any) -> Context:
    """Returns a context from a `StreamContext` as JSON, or from a context whose messages or tools are JSON."""
    if isinstance(given, Context):
        if not isinstance(given.messages, list | tuple):
            what = type(given.messages).__name__
            raise FormatError(f"messages must be a list, not {what}; write [UserMessage(content=…)]", "messages")
        tools = given.tools or ()
        if not any(isinstance(item, Mapping) for items in (given.messages, tools) for item in items):
            return given
    from ..dialects.files.clawtools import decode, decode_tool  # not loaded for values

    if not isinstance(given, Context):
        return decode(dict(given) if isinstance(given, Mapping) else given).request().context
    documents = [dict(message) for message in given.messages if isinstance(message, Mapping)]
    read = iter(decode(documents).messages if documents else ())
    return replace(
        given,
        messages=tuple(next(read) if isinstance(message, Mapping) else message for message in given.messages),
        tools=tuple(decode_tool(dict(tool)) if isinstance(tool, Mapping) else tool for tool in tools) or given.tools,
    )
