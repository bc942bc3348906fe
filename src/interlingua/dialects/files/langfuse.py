"""Langfuse: a generation, as its API and its exports return it: an observation of the type `GENERATION`.

`input` is the question: messages, a request body or text; `output` is the answer: a message, a response or text. They
are in the terms of the provider's wire, mostly of chat completions. An export may have names in snake case, and these
two as JSON text; old versions call them `prompt` and `completion`. Usage is in `usageDetails` or `usage`.
langfuse.com/docs/observability/data-model
"""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import BadWire
from ...values.messages import AssistantMessage, Usage, UserMessage
from ...values.request import Conversation, Entry, ModelDescriptor
from ..residual import body_of, count, fields_of, optional, reading, whole
from ..wire import Parts, RecordLists
from . import templates
from .program_content import priced
from .reading import Tables, json_value
from .records import milliseconds
from .wire_bodies import CHAT, answer_in, failure, request_in, wire_of_answer, wire_of_request

API = "langfuse"


@reading(API)
def decode(data: Any) -> Conversation:
    """One generation: what was asked, and the answer."""
    body = body_of(data, API)
    row = body[0] if isinstance(body, list) and len(body) == 1 else body
    if not _is_generation(row):
        raise BadWire(API, "expected one observation of the type `GENERATION` with `input` or `output`")
    asked = _asked(json_value(row.get("input", row.get("prompt"))))
    began, ended = (milliseconds(_field(row, name)) for name in ("startTime", "endTime"))
    messages: list[Any] = [_at(entry.message, began) for entry in asked.entries]
    messages += _answer(json_value(row.get("output", row.get("completion"))), row, ended or began)
    model = _model(row) or (asked.model.id if asked.model is not None else None)
    conversation = replace(
        asked,
        entries=tuple(Entry(message=message) for message in messages),
        model=ModelDescriptor(id=model) if model else None,
        extra={},
    )
    return templates.keep(conversation, body, API)


def _asked(given: Any) -> Conversation:
    if isinstance(given, str):
        return Conversation(entries=(Entry(message=UserMessage(content=given)),))
    if isinstance(given, dict) and "role" in given:
        given = [given]
    if isinstance(given, list) and given and all(isinstance(one, dict) and "role" in one for one in given):
        return request_in({"messages": given}, CHAT)
    wire = wire_of_request(given)
    if wire is not None:
        return request_in(given, wire)
    return Conversation(entries=(Entry(message=UserMessage(content=jsontext.compact(given))),)) if given else _NOTHING


_NOTHING = Conversation()


def _answer(given: Any, row: dict[str, Any], when: int | None) -> list[Any]:
    fields: dict[str, Any] = {"model": _model(row), "timestamp": when}
    wire = wire_of_answer(given)
    messages: list[Any] = []
    if wire is not None:
        messages = [answer_in(given, wire, **fields)]
    elif isinstance(given, str) and given:
        messages = [AssistantMessage(content=given, **fields)]
    elif isinstance(given, dict) and ("role" in given or "content" in given or "tool_calls" in given):
        given = [{"role": "assistant", **given}]
    if isinstance(given, list) and given and all(isinstance(one, dict) and "role" in one for one in given):
        found = request_in({"messages": given}, CHAT).entries
        messages = [
            replace(entry.message, **fields) if isinstance(entry.message, AssistantMessage) else entry.message
            for entry in found
        ]
    elif not messages and given:
        messages = [AssistantMessage(content=jsontext.compact(given), **fields)]
    if not messages and row.get("level") == "ERROR":
        return [failure(_field(row, "statusMessage"), **fields)]
    usage = _usage(row)
    if usage is not None and messages and isinstance(messages[-1], AssistantMessage) and messages[-1].usage is None:
        messages[-1] = replace(messages[-1], usage=usage)
    return messages


def _usage(row: dict[str, Any]) -> Usage | None:
    """The counts. Those of tokens from the cache are beside `input` in some integrations, and parts of it in others."""
    for name in ("usageDetails", "usage"):
        counts = fields_of(json_value(_field(row, name)))
        if not any(whole(counts.get(key)) for key in ("input", "output", "total")):
            continue
        read = count(counts, "cache_read_input_tokens") or count(counts, "input_cached_tokens")
        written = count(counts, "cache_creation_input_tokens")
        fresh, output, total = count(counts, "input"), count(counts, "output"), count(counts, "total")
        if "cache_read_input_tokens" not in counts and total == fresh + output:
            fresh = max(fresh - read, 0)
        found = Usage.of(
            fresh,
            output,
            cache_read=read,
            cache_write=written,
            reasoning=whole(counts.get("output_reasoning_tokens")),
            total_tokens=total or None,
        )
        details = fields_of(json_value(_field(row, "costDetails")))
        return priced(found, details.get("total", _field(row, "totalCost") or _field(row, "calculatedTotalCost")))
    return None


def _model(row: dict[str, Any]) -> str | None:
    return optional(row.get("model")) or optional(_field(row, "providedModelName")) or None


def _at(message: Any, when: int | None) -> Any:
    return replace(message, timestamp=when) if isinstance(message, UserMessage) else message


_SNAKE = {
    "startTime": "start_time",
    "endTime": "end_time",
    "traceId": "trace_id",
    "usageDetails": "usage_details",
    "costDetails": "cost_details",
    "totalCost": "total_cost",
    "statusMessage": "status_message",
    "providedModelName": "provided_model_name",
}


def _field(row: dict[str, Any], name: str) -> Any:
    return row.get(name, row.get(_SNAKE.get(name, name)))


def _is_generation(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("type") != "GENERATION":
        return False
    return isinstance(_field(value, "traceId"), str) and bool(
        {"input", "output", "prompt", "completion"} & value.keys()
    )


def split(value: Any) -> list[Any] | None:
    """The generations of a list, or of the pages of the API; other observations are left out."""
    listed = value.get("data") if isinstance(value, dict) else value
    if not isinstance(listed, list) or not listed or not all(map(_is_observation, listed)):
        return None
    found = list(_generations(value, Tables(value)))
    return found if len(found) > 1 or (found and (len(listed) > 1 or isinstance(value, dict))) else None


def _generations(header: Any, lists: RecordLists) -> Iterator[Any]:
    return filter(_is_generation, lists.records("data" if isinstance(header, dict) else ""))


def _is_observation(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(_field(value, "traceId"), str) and isinstance(value.get("type"), str)


def detect(value: Any) -> str | None:
    """Whether a value is a generation, or several."""
    listed = value if isinstance(value, list) else [value]
    if split(value) is not None or (listed and any(map(_is_generation, listed)) and all(map(_is_observation, listed))):
        return "observations of the type `GENERATION` with a `traceId`"
    return None


FORMAT = templates.file_format(
    API, decode, detect=detect, split=split, parts=Parts(_generations, ("data", "")), rank=20
)
