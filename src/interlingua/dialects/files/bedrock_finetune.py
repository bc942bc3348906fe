"""Bedrock's training rows: a conversation of the schema `bedrock-conversation-2024`, as Nova is trained on.

A row is a request of the Converse API with its answers. Claude's rows, an Anthropic request without a model, are read
as that; rows of `prompt` and `completion` as TRL's.
docs.aws.amazon.com/nova/latest/userguide/fine-tune-prepare-data-understanding.html
"""

from typing import Any

from ...values.request import Conversation
from ..residual import body_of, reading
from . import templates
from .reading import Documents
from .wire_bodies import CONVERSE, request_in

API = "bedrock-finetune"

SCHEMA = "bedrock-conversation"


def _is_row(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return False
    return isinstance(value.get("schemaVersion"), str) and value["schemaVersion"].startswith(SCHEMA)


DOCUMENTS = Documents(API, _is_row, "a `schemaVersion` bedrock-conversation-2024")


@reading(API)
def decode(data: Any) -> Conversation:
    """One row."""
    body = body_of(data, API)
    row = DOCUMENTS.only(body, "$.schemaVersion")
    request = {key: value for key, value in row.items() if key in ("system", "messages", "toolConfig")}
    return templates.keep(request_in(request, CONVERSE), body, API)


FORMAT = templates.file_format(API, decode, detect=DOCUMENTS.detect, split=DOCUMENTS.split, rank=20)
