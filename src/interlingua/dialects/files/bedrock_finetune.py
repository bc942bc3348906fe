"""Bedrock's training rows: a conversation of the schema `bedrock-conversation-2024`, as Nova is trained on.

A row is a request of the Converse API with its answers. Claude's rows, an Anthropic request without a model, are read
as that; rows of `prompt` and `completion` as TRL's.
docs.aws.amazon.com/nova/latest/userguide/fine-tune-prepare-data-understanding.html
"""

import sys
from typing import Any

from ...values.errors import BadWire
from ...values.losses import Encoded, SupportTable
from ...values.request import Conversation
from ..residual import an_object, body_of, reading
from ..wire import FileFormat
from . import records, templates
from .wire_bodies import CONVERSE, request_in

API = "bedrock-finetune"
RETURNED = True  # read and returned, not made from other formats
FIELD_SUPPORT: SupportTable = records.FIELD_SUPPORT

SCHEMA = "bedrock-conversation"


def _is_row(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return False
    return isinstance(value.get("schemaVersion"), str) and value["schemaVersion"].startswith(SCHEMA)


def split(value: Any) -> list[Any] | None:
    """The rows of a set, if there are several."""
    return value if isinstance(value, list) and len(value) > 1 and all(map(_is_row, value)) else None


@reading(API)
def decode(data: Any) -> Conversation:
    """One row."""
    body = an_object(body_of(data, API), API)
    if not _is_row(body):
        raise BadWire(API, "expected `messages` of a `schemaVersion` bedrock-conversation-2024", "$.schemaVersion")
    request = {key: value for key, value in body.items() if key in ("system", "messages", "toolConfig")}
    return templates.keep(request_in(request, CONVERSE), body, API)


def encode(conversation: Conversation) -> Encoded:
    """The row that was read."""
    return templates.give_back(conversation, API, decode)


def detect(value: Any) -> str | None:
    """Whether a value is a row, or a set of them."""
    if _is_row(value) or (isinstance(value, list) and value and all(map(_is_row, value))):
        return "a `schemaVersion` bedrock-conversation-2024"
    return None


FORMAT = FileFormat(name=API, codec=sys.modules[__name__], detect=detect, split=split, writable=False, rank=20)
