"""AutoGen: the saved state of an agent or a team, the messages of a run, or an agent's context.

Each message has a `type` and a `source`. An agent's context has `UserMessage`, `AssistantMessage` (text, or a list of
calls) and `FunctionExecutionResultMessage`; a run has `TextMessage`, `ToolCallRequestEvent` and others, with usage. A
team's state has the thread of its manager, in which the first speaker asks. A thought, a handoff or a
summary of results repeats or leads what follows. github.com/microsoft/autogen
`python/packages/autogen-core/src/autogen_core/models/_types.py`, `autogen-agentchat`

Before version 0.4, and in AG2, a message has a role and a `name`; a `ChatResult` has them as `chat_history`, with the
total of what was used in `cost`. The roles are those in the view of one agent, so the names tell who spoke; what
several calls gave is in the `tool_responses` of one message. github.com/ag2ai/ag2
`autogen/agentchat/conversable_agent.py`
"""

import re
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from ...values.errors import BadWire
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
from ..residual import body_of, fields_of, optional, reading
from . import templates
from .chat_programs import chat
from .program_content import call_id, called, content_of, image_of, inner, items, moment, name_of, priced, user
from .reading import Pairing, kept_record, openai_usage

API = "autogen"

_PERSON = re.compile(r"user|human", re.IGNORECASE)
_MODEL = re.compile(r"assistant|agent", re.IGNORECASE)

_ASKED = ("UserMessage", "SystemMessage")
_SPOKEN = ("TextMessage", "MultiModalMessage", "StopMessage", "HandoffMessage", "StructuredMessage")
_CALLS = ("AssistantMessage", "ToolCallRequestEvent")
_RESULTS = ("FunctionExecutionResultMessage", "ToolCallExecutionEvent")
_KINDS = frozenset((*_ASKED, *_SPOKEN, *_CALLS, *_RESULTS, "ThoughtEvent", "ToolCallSummaryMessage"))


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str) and "content" in value


def _thread(body: Any) -> list[dict[str, Any]] | None:
    """The messages of a document in any of its forms."""
    found = body if isinstance(body, list) else inner(body, "messages")
    state = str(inner(body, "type") or "")
    if state.endswith("State"):
        found = inner(body, "llm_context", "messages") or inner(body, "message_thread")
        for agent in (inner(body, "agent_states") or {}).values() if state == "TeamState" else ():
            found = inner(agent, "message_thread") or found
    messages = items(found)
    known = [message for message in messages if _is_message(message) and message["type"] in _KINDS]
    return messages if known and len(messages) == len(found) and all(map(_is_message, messages)) else None


def _older_thread(body: Any) -> list[dict[str, Any]] | None:
    """The messages of an older version: of a `ChatResult`, or a list that has its marks."""
    history = inner(body, "chat_history")
    found = body if isinstance(body, list) else history
    messages = items(found)
    if not messages or len(messages) != len(found) or not all(map(_is_named, messages)):
        return None
    is_result = history is not None and "cost" in body
    return messages if is_result or any(map(_is_marked, messages)) or _is_turned(messages) else None


def _is_marked(message: dict[str, Any]) -> bool:
    """Whether no message of chat completions is like this: several results, or a call of a user."""
    calls = message.get("tool_calls") or message.get("function_call")
    return "tool_responses" in message or (message["role"] == "user" and bool(calls))


def _is_turned(messages: list[dict[str, Any]]) -> bool:
    """Whether the names contradict the roles: else a bot that speaks first is the assistant, as it states."""
    first = messages[0]
    others = (one["name"] for one in messages if one["role"] == "user")
    # The names in the documentation of both programs are `user_proxy` and `assistant`.
    return first["role"] == "assistant" and (
        _PERSON.search(first["name"]) is not None or any(map(_MODEL.search, others))
    )


def _is_named(value: dict[str, Any]) -> bool:
    return "content" in value and isinstance(value.get("name"), str) and isinstance(value.get("role"), str)


def _older_messages(thread: list[dict[str, Any]]) -> Iterator[Message]:
    """The first who speaks and calls no tools is the person."""
    pairs = Pairing()
    callers = {one["name"] for one in thread if one.get("tool_calls") or one.get("function_call")}
    speakers = (one["name"] for one in thread if one["role"] not in ("tool", "function"))
    person = next((name for name in speakers if name not in callers), None)
    for message in thread:
        calls, legacy, returned = (message.get(key) for key in ("tool_calls", "function_call", "tool_responses"))
        if message["role"] in ("tool", "function"):
            for one in items(returned) or [message]:
                yield pairs.result(one.get("tool_call_id"), None, optional(one.get("content")) or "")
        elif message["name"] == person:
            yield user(content_of(message["content"]))
        else:
            wires = items(calls) or items([legacy])
            made = [pairs.call(call_id(one), name_of(one), called(one).get("arguments")) for one in wires]
            blocks = blocks_of(content_of(message["content"] or []))
            yield AssistantMessage(content=(*blocks, *made))


def _older_chat(body: Any, thread: list[dict[str, Any]]) -> Conversation:
    """A chat with the total of its models."""
    costs = fields_of(inner(body, "cost", "usage_including_cached_inference"))
    used = {name: found for name, one in costs.items() if (found := openai_usage(one)) is not None}
    total = [sum(getattr(one, key) for one in used.values()) for key in ("input", "output")]
    usage = priced(Usage.of(*total), costs.get("total_cost")) if used else None
    return replace(chat(_older_messages(thread), model=next(iter(used), None)), usage=usage)


def _blocks(content: Any) -> tuple[Block, ...]:
    parts = content if isinstance(content, list) else [content]
    found = (TextBlock(text=part) if isinstance(part, str) else image_of(part) for part in parts if part)
    return tuple(block for block in found if block is not None)


def _messages(thread: list[dict[str, Any]]) -> Iterator[Message]:
    pairs, thought = Pairing(), ""
    person = next((message.get("source") for message in thread if message["type"] in _SPOKEN), None)
    for message in thread:
        kind, content = message["type"], message["content"]
        when, usage = moment(message.get("created_at")), openai_usage(message.get("models_usage"))
        if kind == "SystemMessage":
            yield SystemMessage(content=_blocks(content))
        elif kind == "UserMessage" or (kind in _SPOKEN and message.get("source") == person):
            yield user(_blocks(content), when)
        elif kind in _RESULTS:
            for given in items(content):
                yield pairs.result(
                    given.get("call_id"), given.get("name"), given.get("content"), given.get("is_error"), timestamp=when
                )
        elif kind in _CALLS or kind in _SPOKEN:
            thought = optional(message.get("thought")) or thought
            blocks: list[Block] = [ThinkingBlock(thinking=thought)] if thought else []
            thought = ""
            if kind in _CALLS and isinstance(content, list):
                blocks += [
                    pairs.call(call.get("id"), call.get("name"), call.get("arguments")) for call in items(content)
                ]
            else:
                blocks += _blocks(content)
            yield AssistantMessage(content=tuple(blocks), usage=usage, timestamp=when)
        elif kind == "ThoughtEvent":
            thought = optional(content) or ""
        else:
            yield kept_record(API, kind, message)


@reading(API)
def decode(data: Any) -> Conversation:
    """One thread."""
    body = body_of(data, API)
    thread, older = _thread(body), _older_thread(body)
    if thread is None and older is not None:
        return templates.keep(_older_chat(body, older), body, API)
    if thread is None:
        raise BadWire(API, "expected the state of an agent or a team, or messages with a `type` and a `source`")
    return templates.keep(chat(_messages(thread)), body, API)


def detect(value: Any) -> str | None:
    """Whether a value is a state, or the messages of a run."""
    if _thread(value) is not None:
        return "messages with a `type` of AutoGen's"
    return "messages of named agents" if _older_thread(value) is not None else None


FORMAT = templates.file_format(API, decode, detect=detect, rank=30)
