"""The small files of every format, and how tests look at what was read."""

import json
from pathlib import Path
from typing import Any

import interlingua as il

WIRE = Path(__file__).parents[2] / "wire"


def sample(name: str) -> Any:
    """The value of `FORMAT/FILE`; the lines of one that ends in `.jsonl`."""
    text = (WIRE / name).read_text()
    return [json.loads(line) for line in text.splitlines()] if name.endswith(".jsonl") else json.loads(text)


def read(name: str) -> il.Conversation:
    """The conversation of `FORMAT/FILE`."""
    (found,) = il.read(WIRE / name)
    return found


def outline(conversation: il.Conversation) -> list[str]:
    """The path in short: who, and what in text; calls by name and results by what they answer."""
    found = []
    for message in conversation.messages:
        if isinstance(message, il.AssistantMessage):
            calls = "".join(f" {call.name}()" for call in message.tool_calls)
            found.append(f"assistant: {message.text}{calls}")
        elif isinstance(message, il.ToolResultMessage):
            found.append(f"{message.tool_name} -> {message.text}")
        elif isinstance(message, il.UserMessage):
            found.append(f"{message.origin or 'user'}: {message.text}")
        else:
            found.append(f"{message.role}: {getattr(message, 'text', '')}")
    return found
