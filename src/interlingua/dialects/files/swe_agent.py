"""SWE-agent's trajectories (`.traj`): what was sent to the model in `history`, or in `messages` from mini-swe-agent.

Older runs have no tool calls: an action is a part of the answer's text, and the observation comes back as a message of
the user. Newer ones have `tool_calls` and messages of role `tool`, with the ids in `tool_call_ids`. Demonstrations
stand in the history like everything else that the model read. `info.model_stats` counts the tokens of the whole run, in
a run of several `attempts` those of all of them; the one that was chosen is repeated outside. `replay_config`, an
object or JSON text, names the model. `trajectory` repeats the history step by step and is kept for the way back.
mini-swe-agent over the Responses API has whole responses and items of type `function_call_output` as its messages.
github.com/SWE-agent/SWE-agent `sweagent/agent/agents.py`, github.com/SWE-agent/mini-swe-agent
`src/minisweagent/models`
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values.errors import BadWire
from ...values.messages import AssistantMessage, Block, Message, SystemMessage, ToolCall, Usage, blocks_of
from ...values.request import Conversation
from ..residual import fields_of, optional, reading
from ..wire import ListedSession, SessionStream
from .line_sessions import ReadAgain, Record, RowReader, TemplateStream, read
from .program_content import (
    a_result,
    an_object_of,
    call_of,
    content_of,
    first,
    inner,
    items,
    moment,
    priced,
    thinking_of,
    usage_of,
    user,
)
from .reading import json_value, kept_record, openai_usage
from .templates import file_format, keep
from .wire_bodies import RESPONSES, answer_in

API = "swe-agent"


_KEYS = ("history", "messages")


def _key(document: Record) -> str:
    """Where the history is."""
    for key in _KEYS:
        if isinstance(document.get(key), list):
            return key
    raise BadWire(API, "a trajectory has a `history` or `messages`", "$.history")


def _answer(item: dict[str, Any], when: int | None) -> AssistantMessage:
    """An answer; mini-swe-agent keeps the provider's beside it, with the usage, or has that of Responses itself."""
    extra = fields_of(item.get("extra"))
    if item.get("object") == "response":
        body = {key: value for key, value in item.items() if key != "extra"}
        found = answer_in(body, RESPONSES, timestamp=when)
        return replace(found, usage=priced(found.usage, extra.get("cost")))
    calls = [call for wire in items(item.get("tool_calls")) if (call := call_of(wire)) is not None]
    thoughts = [thinking_of(wire) for wire in items(item.get("thinking_blocks"))]
    thought = optional(first(item, "reasoning_content", "reasoning"))
    if not thoughts and thought:
        thoughts = [thinking_of({"thinking": thought})]
    content = content_of(item.get("content"))
    blocks: tuple[Block, ...] = (*thoughts, *(blocks_of(content) if content else ()), *calls)
    response = extra.get("response")
    return AssistantMessage(
        content=blocks if thoughts or calls else content,
        model=optional(inner(response, "model")),
        usage=priced(openai_usage(inner(response, "usage")), extra.get("cost")),
        timestamp=when,
    )


def _role(item: dict[str, Any]) -> Any:
    if item.get("object") == "response":
        return "assistant"
    return "tool" if item.get("type") == "function_call_output" else item.get("role")


def _message(item: dict[str, Any], waiting: list[ToolCall]) -> list[Message]:
    when = moment(item.get("timestamp") or inner(item, "extra", "timestamp"))
    content = content_of(item.get("content"))
    match _role(item):
        case "system":
            return [SystemMessage(content=content, timestamp=when)]
        case "user":
            return [user(content, when)]
        case "assistant":
            answer = _answer(item, when)
            waiting[:] = answer.tool_calls
            return [answer]
        case "tool":
            given = item.get("tool_call_ids") or [first(item, "tool_call_id", "call_id")]
            ids = [id for id in given if isinstance(id, str)]
            if not ids and waiting:
                ids = [waiting[0].id]
            names = {call.id: call.name for call in waiting}
            waiting[:] = [call for call in waiting if call.id not in ids]
            # One observation answers all calls of its step.
            observed, failed = first(item, "content", "output"), bool(inner(item, "extra", "exception_info"))
            return [a_result(id, observed, name=names.get(id), failed=failed, when=when) for id in ids]
        case "exit":  # mini-swe-agent's own last word; no model reads it
            return []
        case role:
            return [kept_record(API, str(role), item)]


def _total(document: dict[str, Any]) -> Usage | None:
    info = fields_of(document.get("info"))
    chosen, attempts = info.get("best_attempt_idx"), items(document.get("attempts"))
    if isinstance(chosen, int) and 0 <= chosen < len(attempts):
        info = fields_of(attempts[chosen].get("info"))
    stats = info.get("model_stats")
    found = usage_of(stats, input="tokens_sent", output="tokens_received")
    return priced(found, inner(stats, "instance_cost")) if found is not None and found.total_tokens else None


@reading(API)
def decode(data: Any) -> Conversation:
    """A trajectory."""
    document = an_object_of(data, API)
    return keep(read(_Reader(document), items(document[_key(document)])), document, API)


@reading(API)
def listed(header: Record, history: ReadAgain) -> SessionStream:
    """A trajectory, one entry at a time."""
    return TemplateStream(_Reader(header), history, API, _key(header), header)


class _Reader(RowReader):
    """Reads the history of a trajectory; text of the system before all else is that of the conversation."""

    def __init__(self, document: Record) -> None:
        model = inner(json_value(document.get("replay_config")), "agent", "model", "name")
        model = optional(model or inner(document, "info", "config", "model", "model_name"))
        self.fields = {"usage": _total(document), "model": model}

    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        waiting: list[ToolCall] = []
        found = (message for item in records for message in _message(item, waiting))
        for at, message in enumerate(found):
            if not at and isinstance(message, SystemMessage) and isinstance(message.content, str):
                self.fields["system"] = message.content
            else:
                yield message


def detect(value: Any) -> str | None:
    """A history of messages that name their agent or their action, or mini-swe-agent's name for its format."""
    if not isinstance(value, dict):
        return None
    if str(value.get("trajectory_format", "")).startswith("mini-swe-agent") and isinstance(value.get("messages"), list):
        return "`messages` in a trajectory of mini-swe-agent"
    history = value.get("history")
    if not isinstance(history, list) or not history or not all(isinstance(i, dict) and "role" in i for i in history):
        return None
    if any("agent" in item or "action" in item for item in history) and ("trajectory" in value or len(value) == 1):
        return "a `history` of messages with their `agent`"
    if isinstance(value.get("trajectory"), list) and "info" in value:
        return "a `history` beside a `trajectory` and `info`"
    return None


FORMAT = file_format(
    API, decode, detect=detect, calls_beside=True, listed=ListedSession(_KEYS, listed, beside=("trajectory",))
)
