"""LLaMA-Factory's pairs in the style of chat completions: `messages`, then a `chosen` and a `rejected` message.

The chosen answer is on the path, the rejected one a branch after the last of the messages. Rows without a pair, with a
`label` (KTO) or `images` or not, are read as requests of chat completions, which they are.
"""

import sys
from typing import Any

from ...values.losses import Encoded, SupportTable
from ...values.request import Conversation
from ..residual import body_of, reading
from ..wire import FileFormat
from . import records, templates
from .reading import Documents, preference
from .wire_bodies import CHAT, request_in

API = "llamafactory-messages"
RETURNED = True  # read and returned, not made from other formats
FIELD_SUPPORT: SupportTable = records.FIELD_SUPPORT


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str) and "content" in value


def _is_row(value: Any) -> bool:
    if not isinstance(value, dict) or not _is_message(value.get("chosen")) or not _is_message(value.get("rejected")):
        return False
    messages = value.get("messages")
    return isinstance(messages, list) and bool(messages) and all(map(_is_message, messages))


DOCUMENTS = Documents(API, _is_row, "`messages` with a `chosen` and a `rejected` message")


@reading(API)
def decode(data: Any) -> Conversation:
    """One row, or a set of one."""
    body = body_of(data, API)
    row = DOCUMENTS.only(body, "$.messages")
    asked = request_in(row["messages"], CHAT)
    prompt = [entry.message for entry in asked.entries]
    answers = [[entry.message for entry in request_in([row[key]], CHAT).entries] for key in ("chosen", "rejected")]
    entries, head = preference(*([*prompt, *answer] for answer in answers))
    conversation = Conversation(entries=entries, head=head, system=asked.system, system_role=asked.system_role)
    return templates.keep(conversation, body, API)


def encode(conversation: Conversation) -> Encoded:
    """The row that was read."""
    return templates.give_back(conversation, API, decode)


FORMAT = FileFormat(
    name=API, codec=sys.modules[__name__], detect=DOCUMENTS.detect, split=DOCUMENTS.split, writable=False, rank=30
)
