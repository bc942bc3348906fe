"""LiteLLM: a call as its callbacks and its proxy log it, the standard logging payload or a row of the spend logs.

`messages` is what was asked and `response` the answer, both in the terms of chat completions unless `call_type` says
otherwise; spend logs may hold them as JSON text. Token counts beside them count where the answer has none.
docs.litellm.ai/docs/proxy/logging_spec
"""

from typing import Any

from msgspec.structs import replace

from ...values.errors import BadWire
from ...values.messages import AssistantMessage, UserMessage
from ...values.request import Conversation, Entry, ModelDescriptor
from ..residual import an_object, body_of, optional, reading
from . import templates
from .program_content import priced
from .reading import json_value, plain_usage, seconds
from .records import milliseconds
from .wire_bodies import CHAT, MESSAGES, answer_in, failure, request_in, wire_of_answer

API = "litellm-log"


@reading(API)
def decode(data: Any) -> Conversation:
    """One call: what was asked, and the answer."""
    body = an_object(body_of(data, API), API)
    if not _is_call(body):
        raise BadWire(API, "expected a logged call: `messages` and `response` beside a `call_type`")
    asked = _asked(json_value(body.get("messages")), body)
    when, until = _moment(body.get("startTime")), _moment(body.get("endTime"))
    messages: list[Any] = [_at(entry.message, when) for entry in asked.entries]
    answer = _answer(json_value(body.get("response")), body, until or when)
    model = optional(body.get("model")) or ""
    conversation = Conversation(
        entries=tuple(Entry(message=message) for message in [*messages, *([answer] if answer else [])]),
        system=asked.system,
        tools=asked.tools,
        model=ModelDescriptor(id=model, provider=optional(body.get("custom_llm_provider")) or "") if model else None,
    )
    return templates.keep(conversation, body, API)


def _asked(given: Any, body: dict[str, Any]) -> Conversation:
    if isinstance(given, str):
        return Conversation(entries=(Entry(message=UserMessage(content=given)),))
    if isinstance(given, dict) and isinstance(given.get("messages"), list):
        given = given["messages"]
    if not isinstance(given, list):
        return Conversation()
    return request_in(given, MESSAGES if body.get("call_type") == "anthropic_messages" else CHAT)


def _answer(given: Any, body: dict[str, Any], when: int | None) -> AssistantMessage | None:
    model = optional(body.get("model"))
    wire = wire_of_answer(given)
    if wire is not None:
        answer = answer_in(given, wire, model=model, timestamp=when)
    elif isinstance(given, str) and given:
        answer = AssistantMessage(content=given, model=model, timestamp=when)
    elif body.get("status") == "failure" or body.get("error_str"):
        return failure(body.get("error_str") or body.get("error_information"), model=model, timestamp=when)
    else:
        return None
    counted = answer.usage or plain_usage(body.get("prompt_tokens"), body.get("completion_tokens"))
    return replace(answer, usage=priced(counted, body.get("response_cost", body.get("spend"))))


def _at(message: Any, when: int | None) -> Any:
    return replace(message, timestamp=when) if isinstance(message, UserMessage) else message


def _moment(value: Any) -> int | None:
    return milliseconds(value) if isinstance(value, str) else seconds(value)


def _is_call(value: Any) -> bool:
    if not isinstance(value, dict) or "messages" not in value or "response" not in value:
        return False
    if not isinstance(value.get("call_type"), str) or "startTime" not in value:
        return False
    return isinstance(value["messages"], list | str | dict) and (
        isinstance(json_value(value["messages"]), list)
        or bool(value["messages"])
        or wire_of_answer(json_value(value["response"])) is not None
    )


def split(value: Any) -> list[Any] | None:
    """The calls of a list of several."""
    return value if isinstance(value, list) and len(value) > 1 and all(map(_is_call, value)) else None


def detect(value: Any) -> str | None:
    """Whether a value is a logged call, or several."""
    if _is_call(value) or (isinstance(value, list) and value and all(map(_is_call, value))):
        return "`messages` and `response` beside a `call_type`"
    return None


FORMAT = templates.file_format(API, decode, detect=detect, split=split, rank=20)
