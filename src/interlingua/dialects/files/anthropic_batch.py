"""Anthropic's batches: a request (`custom_id`, `params`) or a line of the results (`custom_id`, `result`).

The body that creates a batch is `{"requests": […]}`. A result is `succeeded` with a message, or `errored`, `canceled`
or `expired`, which is read as an answer with an error. docs.claude.com/en/docs/build-with-claude/batch-processing
"""

from typing import Any

from ...values.errors import BadWire
from ...values.request import Conversation, Entry
from ..residual import an_object, body_of, fields_of, reading
from . import templates
from .wire_bodies import MESSAGES, answer_in, failure, model_of, request_in

API = "anthropic-batch"

ENDS = {"errored", "canceled", "expired"}


@reading(API)
def decode(data: Any) -> Conversation:
    """One request or one result."""
    body = an_object(body_of(data, API), API)
    requests = body.get("requests")
    if isinstance(requests, list) and len(requests) > 1:
        raise BadWire(API, f"a batch of {len(requests)} requests: take one of them", "$.requests")
    line = requests[0] if isinstance(requests, list) and requests else body
    params, result = fields_of(line.get("params")), fields_of(line.get("result"))
    if isinstance(params.get("messages"), list):
        return templates.keep(request_in(params, MESSAGES), body, API, request=(params, MESSAGES))
    if isinstance(result.get("message"), dict):
        answer = answer_in(result["message"], MESSAGES)
    elif result.get("type") in ENDS:
        answer = failure(result.get("error") or result["type"])
    else:
        raise BadWire(API, "expected `params` with `messages`, or a `result`")
    conversation = Conversation(entries=(Entry(message=answer),), model=model_of(answer))
    return templates.keep(conversation, body, API)


def _is_line(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("custom_id"), str):
        return False
    params, result = fields_of(value.get("params")), fields_of(value.get("result"))
    return isinstance(params.get("messages"), list) or (
        isinstance(result.get("message"), dict) or result.get("type") in ENDS
    )


def split(value: Any) -> list[Any] | None:
    """The requests of a batch or the lines of its results, if there are several."""
    lines = value["requests"] if isinstance(value, dict) and isinstance(value.get("requests"), list) else value
    return lines if isinstance(lines, list) and len(lines) > 1 and all(map(_is_line, lines)) else None


def detect(value: Any) -> str | None:
    """Whether a value is a request or a result of a batch, or several."""
    lines = value["requests"] if isinstance(value, dict) and isinstance(value.get("requests"), list) else value
    if _is_line(lines) or (isinstance(lines, list) and lines and all(map(_is_line, lines))):
        return "a `custom_id` beside a request's `params` or its `result`"
    return None


FORMAT = templates.file_format(API, decode, detect=detect, split=split, rank=20)
