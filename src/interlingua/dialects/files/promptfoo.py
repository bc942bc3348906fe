"""promptfoo: the results of an evaluation (`promptfoo eval -o`), each a prompt with a provider's response.

They are in `results.results` of a file, in JSON lines, or in the table `eval_results` of `promptfoo.db`. `prompt.raw`
is the text that was sent, or the JSON text of messages, OpenAI's or Gemini's; `response.output` is the answer: a text,
a message, calls, or the JSON that it was parsed to. A response that promptfoo had cached counts its tokens as `cached`
alone.
github.com/promptfoo/promptfoo `src/types/index.ts`, `src/types/providers.ts`
"""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import BadWire
from ...values.messages import AssistantMessage, Message, ToolCall, UserMessage
from ...values.request import Conversation, Entry, ModelDescriptor
from ..residual import fields_of, optional, whole
from .program_content import call_of, called, first, inner, items, priced, usage_of
from .reading import Documents, Pairing, columns_of, json_value, ordered_rows, read_json
from .wire_bodies import CHAT, GOOGLE, failure, request_in

API = "promptfoo"


def _is_result(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(inner(value, "prompt", "raw"), str)
        and isinstance(value.get("provider"), dict | str)
        and ("response" in value or "error" in value)
        and not value.keys().isdisjoint(("vars", "testCase"))
    )


def _thread(messages: Any) -> Conversation | None:
    """Messages of chat completions, or of Gemini with their `parts`; None for anything else."""
    found = items(messages)
    if not found or len(found) != len(messages) or not all(isinstance(one.get("role"), str) for one in found):
        return None
    is_google = all(isinstance(one.get("parts"), list) for one in found)
    if not is_google and not all("content" in one or "tool_calls" in one for one in found):
        return None
    try:
        asked = request_in({"contents": found}, GOOGLE) if is_google else request_in({"messages": found}, CHAT)
    except BadWire:  # JSON of another shape was sent as text
        return None
    return replace(asked, extra={})


def _asked(prompt: str) -> Conversation:
    sent = json_value(prompt.strip())
    messages = first(sent, "messages", "contents") if isinstance(sent, dict) else sent
    return _thread(messages) or Conversation(entries=(Entry(message=UserMessage(content=prompt)),))


def _answer(output: Any, **fields: Any) -> Message:
    thread = _thread([{"role": "assistant", **output}]) if isinstance(output, dict) and "content" in output else None
    answer = thread.entries[0].message if thread is not None and thread.entries else None
    if isinstance(answer, AssistantMessage):
        return replace(answer, **fields)
    calls = [_call(part) for part in (output if isinstance(output, list) else [output])]
    if calls and all(calls):
        pairs = Pairing()
        made = tuple(pairs.call(call.id, call.name, call.arguments) for call in calls if call is not None)
        return AssistantMessage(content=made, **fields)
    return AssistantMessage(content=output if isinstance(output, str) else jsontext.compact(output), **fields)


def _call(part: Any) -> ToolCall | None:
    return call_of(part) if isinstance(part, dict) and "arguments" in called(part) else None


def _conversation(result: dict[str, Any]) -> Conversation:
    """One result."""
    response, given = fields_of(result.get("response")), result["provider"]
    model = optional(given if isinstance(given, str) else given.get("id")) or None
    asked = _asked(result["prompt"]["raw"])
    output, failed = response.get("output"), optional(response.get("error")) or optional(result.get("error"))
    answers: tuple[Entry, ...] = ()
    if output is not None:
        counted = fields_of(response.get("tokenUsage"))
        usage = usage_of(counted, input="prompt", output="completion")
        if usage is not None:
            reasoning = whole(inner(counted, "completionDetails", "reasoning"))
            usage = priced(replace(usage, reasoning=reasoning), response.get("cost", result.get("cost")))
        answers = (Entry(message=_answer(output, model=model, usage=usage)),)
    elif failed:
        answers = (Entry(message=failure(failed, model=model)),)
    named = ModelDescriptor(id=model) if model else None
    return replace(asked, entries=(*asked.entries, *answers), title=optional(result.get("description")), model=named)


def database(connection: sqlite3.Connection) -> Iterable[Any] | None:
    """The results in the program's database."""
    known = columns_of(connection, "eval_results")
    return _stored(connection) if {"prompt", "provider", "response", "test_case"} <= known else None


def _stored(connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    for row in ordered_rows(connection, "eval_results", "created_at, rowid"):
        parsed = {name: read_json(row.get(name)) for name in ("prompt", "provider", "response")}
        yield {"id": row.get("id"), **parsed, "testCase": read_json(row.get("test_case")), "error": row.get("error")}


FORMAT = Documents(
    API,
    _is_result,
    "results with a `prompt`, a `provider` and a `response`",
    "results",
    inside=lambda value: inner(value, "results", "results") or inner(value, "results"),
).format(_conversation, array="results.results", database=database, rank=20)
