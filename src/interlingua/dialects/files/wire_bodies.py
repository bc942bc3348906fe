"""Requests and answers of providers inside other files: batches and logs hold them as they went over the wire."""

from typing import Any

from ...values.errors import BadWire, ProviderError
from ...values.messages import AssistantMessage
from ...values.request import Conversation, ModelDescriptor
from .. import dialect
from ..residual import fields_of, optional

CHAT, RESPONSES, MESSAGES, GOOGLE, CONVERSE = (
    "openai-completions",
    "openai-responses",
    "anthropic-messages",
    "google-generative-ai",
    "bedrock-converse-stream",
)


def wire_of_request(body: Any, url: Any = None) -> str | None:
    """The wire of a request body, by the path that it was sent to and by its own fields."""
    if not isinstance(body, dict):
        return None
    path = url.rpartition("?")[0] or url if isinstance(url, str) else ""
    if path.endswith("/responses") or ("input" in body and "messages" not in body and not path):
        return RESPONSES if isinstance(body.get("input"), str | list) else None
    if isinstance(body.get("messages"), list):
        return MESSAGES if path.endswith("/messages") else CHAT
    return GOOGLE if isinstance(body.get("contents"), list) else None


def wire_of_answer(body: Any) -> str | None:
    """The wire of a whole answer."""
    if not isinstance(body, dict):
        return None
    if isinstance(body.get("choices"), list):
        return CHAT
    if body.get("object") == "response" and isinstance(body.get("output"), list):
        return RESPONSES
    if body.get("type") == "message" and "content" in body:
        return MESSAGES
    return GOOGLE if isinstance(body.get("candidates"), list) else None


def request_in(body: Any, wire: str) -> Conversation:
    """The conversation of a request."""
    found: Conversation = dialect(wire).decode(body)
    return found


def answer_in(body: Any, wire: str, **fields: Any) -> AssistantMessage:
    """The message of an answer; one of another kind of completion is its text."""
    choice = fields_of(next(iter(fields_of(body).get("choices") or ()), None))
    if wire == CHAT and "message" not in choice and isinstance(choice.get("text"), str):
        return AssistantMessage(content=choice["text"], response_model=optional(body.get("model")), **fields)
    try:
        return dialect(wire).decode_response(body, **fields)
    except ProviderError as error:
        return failure(error.message, **fields)


def failure(message: Any, **fields: Any) -> AssistantMessage:
    """An answer that is an error, by its text or by the object that holds it."""
    while isinstance(message, dict):
        message = message.get("message") or message.get("error") or message.get("code") or message.get("type")
    return AssistantMessage(content=(), stop_reason="error", error_message=optional(message) or "no answer", **fields)


def model_of(message: AssistantMessage) -> ModelDescriptor | None:
    """The model of a conversation that is one answer."""
    named = message.response_model or message.model
    return ModelDescriptor(id=named) if named else None


def refuse(api: str, what: str, place: str = "$") -> BadWire:
    return BadWire(api, f"{what} holds no conversation", place)
