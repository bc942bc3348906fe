"""Batches of Bedrock and of Google's clouds: a line is a request, or a request with the answer to it.

Bedrock has `recordId`, `modelInput` and `modelOutput`, in the terms of whichever model was asked; Vertex AI has
`request` and `response`, and Gemini's own service a `key` beside them. A line whose request failed has an `error` or a
`status` instead of the answer. Logs of calls of Gemini may have the fields of the request beside the `response`, and
its text, or its JSON as a text, in place of the object.
docs.aws.amazon.com/bedrock/latest/userguide/batch-inference-data.html,
cloud.google.com/vertex-ai/generative-ai/docs/multimodal/batch-prediction-gemini
"""

from typing import Any

from msgspec.structs import replace

from ...values.messages import AssistantMessage
from ...values.request import Conversation, Entry
from ..residual import fields_of, list_of, optional
from .reading import Documents, read_json
from .wire_bodies import (
    CONVERSE,
    GOOGLE,
    MESSAGES,
    answer_in,
    failure,
    model_of,
    request_in,
    wire_of_answer,
    wire_of_request,
)

API = "cloud-batch"

_NAMES = (("modelInput", "modelOutput"), ("request", "response"))


def _parts(line: dict[str, Any]) -> tuple[Any, Any]:
    if _is_flat(line):
        return {name: value for name, value in line.items() if name != "response"}, line["response"]
    asked, answered = next(names for names in _NAMES if names[0] in line)
    return line[asked], line.get(answered)


def _is_flat(line: dict[str, Any]) -> bool:
    """Whether the fields of a request of Google's stand beside the answer."""
    response = line.get("response")
    is_text = isinstance(response, str) and response != ""
    return _has_contents(line) and (is_text or isinstance(fields_of(response).get("candidates"), list))


def _has_contents(body: Any) -> bool:
    """A list of contents, or a single one."""
    contents = fields_of(body).get("contents")
    return isinstance(contents, list) or "parts" in fields_of(contents)


def _wire(body: Any) -> str | None:
    """The wire of a request: Claude's on Bedrock is named, Nova's and Converse's have content without a type."""
    if isinstance(body, dict) and isinstance(body.get("messages"), list):
        if "anthropic_version" in body:
            return MESSAGES
        parts = [part for item in body["messages"] if isinstance(item, dict) for part in list_of(item.get("content"))]
        if parts and all(isinstance(part, dict) and "type" not in part for part in parts):
            return CONVERSE
    return wire_of_request(body) or (GOOGLE if _has_contents(body) else None)


def _is_line(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if not any(asked in value for asked, _ in _NAMES):
        return _is_flat(value)
    if "modelInput" not in value and not value.keys() & {"key", "status", "response", "processed_time", "error"}:
        # A request under this name alone is Vertex AI's where it is Google's.
        return value.keys() == {"request"} and _has_contents(value["request"])
    if "modelInput" not in value and not _has_contents(value["request"]):
        return False
    return _wire(_parts(value)[0]) is not None


def _answer(line: dict[str, Any], given: Any, wire: str) -> AssistantMessage | None:
    if isinstance(given, str) and given:
        body = read_json(given)
        if wire_of_answer(body) is None:
            return AssistantMessage(content=given)
        given = body
    if isinstance(given, dict) and given:
        if wire == CONVERSE or wire_of_answer(given) is not None:
            return answer_in(given, wire_of_answer(given) or wire)
        return failure(given)
    error = line.get("error") or optional(line.get("status"))
    return failure(error) if error else None


def _conversation(line: dict[str, Any]) -> Conversation:
    """One line."""
    asked, answered = _parts(line)
    wire = _wire(asked) or MESSAGES
    # Bedrock's `anthropic_version` belongs to the host: the wire of each host has its own.
    conversation = request_in({name: value for name, value in asked.items() if name != "anthropic_version"}, wire)
    answer = _answer(line, answered, wire)
    if answer is not None:
        model = conversation.model if conversation.model and conversation.model.id else model_of(answer)
        entries = (*conversation.entries, Entry(message=answer))
        conversation = replace(conversation, entries=entries, model=model)
    return conversation


FORMAT = Documents(API, _is_line, "a `modelInput` or `request` with the answer to it", "lines").format(
    _conversation, rank=20
)
