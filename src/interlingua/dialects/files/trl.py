"""Rows of TRL's training sets: a `prompt` with its `completion`, or with a `chosen` and a `rejected` answer.

Each is text or a list of messages; `chosen` and `rejected` may hold the prompt themselves. The chosen answer is on the
path, the rejected one a branch that begins where they part. A row of prompt and completion may have a `label` (KTO).
The first fine-tuning rows of OpenAI and those of Bedrock are `prompt` and `completion`, too. So are read the rows that
have a column of chat messages under another name than `messages`, those of messages as `input` and the answer as
`output` (Nemotron, and what many programs log), and pairs of whole dialogues as text, with `Human:` and `Assistant:`
before each turn (HH-RLHF).
huggingface.co/docs/trl/dataset_formats
"""

import re
from typing import Any

from ...values.messages import AssistantMessage, SystemMessage, UserMessage
from ...values.request import Conversation
from ..residual import optional
from .reading import Documents, preference
from .wire_bodies import CHAT, request_in

API = "trl"

COLUMNS = ("conversations", "conversation", "dialogue", "dialog")  # with `role` and `content`, where others have `from`


def _messages(value: Any, role: type = AssistantMessage) -> list[Any]:
    """A text as a message of its role, or the messages of a list."""
    if value is None:
        return []
    if isinstance(value, str):
        turns = _TURN.split(value) if _is_dialogue(value) else []
        return [_SPEAKERS[who](content=text) for who, text in zip(turns[1::2], turns[2::2], strict=True)] or [
            role(content=value)
        ]
    conversation = request_in(value if isinstance(value, list) else [value], CHAT)
    system = [] if conversation.system is None else [SystemMessage(content=conversation.system)]
    return [*system, *(entry.message for entry in conversation.entries)]


# huggingface.co/datasets/Anthropic/hh-rlhf: "\n\nHuman: …\n\nAssistant: …"
_TURN = re.compile(r"\n\n(Human|Assistant):[ ]?")
_SPEAKERS: dict[str, Any] = {"Human": UserMessage, "Assistant": AssistantMessage}


def _is_dialogue(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("\n\nHuman:") and "\n\nAssistant:" in value


def _is_content(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    return isinstance(value, str) or (
        bool(items) and all(isinstance(item, dict) and isinstance(item.get("role"), str) for item in items)
    )


def _column(row: dict[str, Any]) -> str | None:
    """The name of the column of messages."""
    return next((name for name in COLUMNS if isinstance(row.get(name), list) and _is_chat(row[name])), None)


def _is_chat(messages: list[Any]) -> bool:
    return _is_content(messages) and all(
        isinstance(message.get("content"), str) or (message.get("content") is None and "tool_calls" in message)
        for message in messages
    )


def _is_row(value: Any) -> bool:
    if not isinstance(value, dict) or "instruction" in value:
        return False
    if "messages" in value and not (isinstance(value.get("chosen"), list) and isinstance(value.get("rejected"), list)):
        return False
    if "conversation" in value and "model" in value:
        return False  # the log of an arena, not a row for training
    if _column(value) is not None:
        return True
    if _is_content(value.get("chosen")) and _is_content(value.get("rejected")):
        # Two texts without a prompt would be answers to nothing.
        if _is_content(value.get("prompt")):
            return True
        return "prompt" not in value and (not isinstance(value["chosen"], str) or _is_dialogue(value["chosen"]))
    if "eventName" in value and "schema" in value:
        return False  # a call in a log of Continue
    if _is_content(value.get("prompt")) and _is_content(value.get("completion")):
        return True
    return isinstance(value.get("input"), list) and _is_chat(value["input"]) and _is_answer(value.get("output"))


def _is_answer(value: Any) -> bool:
    """Text, or a message of the assistant's."""
    return isinstance(value, str) or (
        isinstance(value, dict) and value.get("role") == "assistant" and "content" in value
    )


def _conversation(row: dict[str, Any]) -> Conversation:
    """One row."""
    column = _column(row)
    if column is not None:
        tools = {"tools": row["tools"]} if isinstance(row.get("tools"), list) else {}
        return request_in({"messages": row[column], **tools}, CHAT)
    logged = isinstance(row.get("input"), list) and _is_answer(row.get("output"))
    prompt = _messages(row.get("input" if logged else "prompt"), UserMessage)
    columns = ("output",) if logged else ("chosen", "rejected", "completion")
    answers = [_messages(row[key]) for key in columns if _is_content(row.get(key))]
    if len(answers) > 1 and prompt and answers[0][: len(prompt)] == prompt == answers[1][: len(prompt)]:
        prompt = []  # the answers hold it themselves
    entries, head = preference(*([*prompt, *answer] for answer in answers[:2]))
    system = optional(row.get("system")) or None
    return Conversation(entries=entries, head=head, system=system)


# Rows for training are checked by what is common to all trainers.
FORMAT = Documents(
    API, _is_row, "a `prompt` with a `completion`, `chosen` and `rejected` answers, or messages", path="$.prompt"
).format(_conversation, rank=45, training={})
