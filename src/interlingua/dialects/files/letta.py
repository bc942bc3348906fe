"""Letta: an agent file (`.af`), with the `messages` of each of its `agents`; an older file is one agent.

A message of a person, and what the program tells the model of, is JSON text with a `type`: `user_message`, or
`heartbeat`, `login` and other events. In older agents an answer speaks by calling `send_message`, and its text is a
thought. A message of role `approval` asks for a call, or answers such a question; `summary` has what was compacted.
github.com/letta-ai/letta `letta/schemas/agent_file.py`, `letta/schemas/message.py`
"""

from collections.abc import Iterator
from typing import Any

from ...values.messages import AssistantMessage, Block, Message, SystemMessage
from ...values.request import Conversation
from ..residual import fields_of, optional
from .chat_programs import chat
from .program_content import (
    block_of,
    call_id,
    called,
    content_of,
    first,
    inner,
    items,
    moment,
    name_of,
    thinking_of,
    user,
)
from .reading import Documents, Pairing, kept_record, read_json

API = "letta"

_IN_CONTEXT = ("in_context_message_ids", "in_context_message_indices")


def _is_agent(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("agent_type"), str)
        and isinstance(value.get("llm_config"), dict)
        and isinstance(value.get("messages"), list)
        and not value.keys().isdisjoint(_IN_CONTEXT)
    )


def _blocks(message: dict[str, Any]) -> list[Block]:
    content = message.get("content", message.get("text"))
    found = map(_block, items(content)) if isinstance(content, list) else [block_of({"text": content})]
    return [block for block in found if block is not None]


def _block(part: dict[str, Any]) -> Block | None:
    kind, sealed = part.get("type"), optional(part.get("encrypted_content"))
    if kind == "summarized_reasoning":
        text = "\n\n".join(filter(None, (optional(one.get("text")) for one in items(part.get("summary")))))
        return thinking_of({"thinking": text, "signature": sealed})
    if kind == "redacted_reasoning":
        return thinking_of({"type": "redacted_thinking", "data": part.get("data")})
    return None if kind in ("tool_call", "tool_return") else block_of(part)


def _asked(message: dict[str, Any], when: int | None) -> Message:
    """What a person wrote, or what the program tells the model of."""
    blocks = _blocks(message)
    text = optional(getattr(blocks[0], "text", None)) if len(blocks) == 1 else None
    packed = fields_of(read_json(text))
    written = optional(packed.get("message")) if packed.get("type") == "user_message" else None
    if written is not None:
        return user(written, when)
    return user(tuple(blocks), when, program=isinstance(packed.get("type"), str))


def _results(message: dict[str, Any], pairs: Pairing, when: int | None) -> Iterator[Message]:
    """What the calls gave: each by itself in newer files, else as the content of the message."""
    returns = items(message.get("tool_returns")) or items(message.get("approvals"))
    stated = [one for one in returns if "func_response" in one or "tool_return" in one]
    for one in stated:
        given = content_of(first(one, "func_response", "tool_return"))
        id = first(one, "tool_call_id") or message.get("tool_call_id")
        yield pairs.result(id, message.get("name"), given, one.get("status") == "error", timestamp=when)
    if not stated and message.get("role") != "approval":
        content = tuple(_blocks(message))
        yield pairs.result(message.get("tool_call_id"), message.get("name"), content, timestamp=when)


def _messages(agent: dict[str, Any]) -> Iterator[Message]:
    pairs = Pairing()
    for message in items(agent["messages"]):
        role, when = message.get("role"), moment(message.get("created_at"))
        calls = items(message.get("tool_calls"))
        if role == "system":
            yield SystemMessage(content=tuple(_blocks(message)), timestamp=when)
        elif role == "summary":
            yield user(tuple(_blocks(message)), when, program=True)
        elif role == "user":
            yield _asked(message, when)
        elif role == "assistant" or calls:
            made = [pairs.call(call_id(one), name_of(one), called(one).get("arguments")) for one in calls]
            model = optional(message.get("model"))
            yield AssistantMessage(content=(*_blocks(message), *made), model=model, timestamp=when)
        elif role in ("tool", "function", "approval"):
            yield from _results(message, pairs, when)
        else:
            yield kept_record(API, str(role), message)


def _conversation(value: Any) -> Conversation:
    """One agent."""
    agent = value if _is_agent(value) else value["agents"][0]
    return chat(_messages(agent), title=agent.get("name"), model=inner(agent, "llm_config", "model"))


FORMAT = Documents(
    API, _is_agent, "an agent with its `messages`", "agents", inside=lambda value: inner(value, "agents")
).format(_conversation, array="agents", rank=20)
