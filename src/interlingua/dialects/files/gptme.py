"""gptme: the log of a conversation (`conversation.jsonl`), a message a line.

Roles are `system`, `user` and `assistant`. The first system messages are the prompt; later ones are outputs of tools
and notices, which the model reads as the program's. Calls stand in the text of an answer. Usage and model are in
`metadata`. github.com/gptme/gptme `gptme/message.py`
"""

import sys
from typing import Any

from ...values.errors import BadWire
from ...values.losses import Encoded, SupportTable
from ...values.messages import AssistantMessage, Message, text_of
from ...values.request import Conversation
from ..residual import fields_of, optional, reading
from ..wire import FileFormat
from . import records, templates
from .program_content import content_of, conversation_of, moment, usage_of, user
from .records import lines_of

API = "gptme"
FIELD_SUPPORT: SupportTable = records.FIELD_SUPPORT

_MARKS = ("pinned", "hide", "quiet", "file_hashes", "call_id", "ephemeral_ttl")


def _is_line(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("role") in ("system", "user", "assistant", "tool")
        and isinstance(value.get("content"), str | list)
        and isinstance(value.get("timestamp"), str)
    )


def _is_log(lines: Any) -> bool:
    return (
        isinstance(lines, list) and all(map(_is_line, lines)) and any(key in line for line in lines for key in _MARKS)
    )


def _message(line: dict[str, Any]) -> Message:
    when, content = moment(line["timestamp"]), content_of(line["content"])
    if line["role"] != "assistant":
        return user(content, when, program=line["role"] != "user")
    about = fields_of(line.get("metadata"))
    usage = usage_of(
        about.get("usage"),
        input="input_tokens",
        output="output_tokens",
        read="cache_read_tokens",
        write="cache_creation_tokens",
    )
    model = optional(about.get("resolved_model")) or optional(about.get("model"))
    return AssistantMessage(content=content, model=model, usage=usage, timestamp=when)


@reading(API)
def decode(data: Any) -> Conversation:
    """A log: text, bytes, or the values of its lines."""
    lines = lines_of(data, API)
    if not _is_log(lines):
        raise BadWire(API, "expected lines of `role`, `content` and `timestamp`, one of them `pinned` or `hide`")
    start = next((at for at, line in enumerate(lines) if line["role"] != "system"), len(lines))
    system = "\n\n".join(text_of(content_of(line["content"])) for line in lines[:start]) or None
    return templates.keep(conversation_of(map(_message, lines[start:]), system=system), lines, API, lines=True)


def encode(conversation: Conversation) -> Encoded:
    """The lines that were read."""
    return templates.give_back(conversation, API, decode)


def detect(value: Any) -> str | None:
    """Whether lines are a log of this program."""
    return "messages with `timestamp`, `pinned` or `hide`" if _is_log(value) else None


FORMAT = FileFormat(name=API, codec=sys.modules[__name__], detect=detect, lines=True, writable=False, rank=40)
