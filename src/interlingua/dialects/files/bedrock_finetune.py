"""Bedrock's training rows: a conversation of the schema `bedrock-conversation-2024`, as Nova is trained on.

A row is a request of the Converse API with its answers. Claude's rows, an Anthropic request without a model, are read
as that; rows of `prompt` and `completion` as TRL's.
docs.aws.amazon.com/nova/latest/userguide/fine-tune-prepare-data-understanding.html
"""

from typing import Any

from ...values.request import Conversation
from .reading import Documents
from .wire_bodies import CONVERSE, request_in

API = "bedrock-finetune"

SCHEMA = "bedrock-conversation"


def _is_row(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return False
    return isinstance(value.get("schemaVersion"), str) and value["schemaVersion"].startswith(SCHEMA)


def _conversation(row: dict[str, Any]) -> Conversation:
    """One row."""
    request = {key: value for key, value in row.items() if key in ("system", "messages", "toolConfig")}
    return request_in(request, CONVERSE)


FORMAT = Documents(API, _is_row, "a `schemaVersion` bedrock-conversation-2024", path="$.schemaVersion").format(
    _conversation, rank=20
)
