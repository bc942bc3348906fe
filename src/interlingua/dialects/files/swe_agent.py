"""SWE-agent's trajectories (`.traj`): what was sent to the model in `history`, or in `messages` from mini-swe-agent.

Older runs have no tool calls: an action is a part of the answer's text, and the observation comes back as a message of
the user. Newer ones have `tool_calls` and messages of role `tool`, with the ids in `tool_call_ids`. Demonstrations
stand in the history like everything else that the model read. `info.model_stats` counts the tokens of the whole run.
`trajectory` repeats the history step by step and is kept for the way back.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from ...values.errors import BadWire
from ...values.messages import AssistantMessage, Block, Message, SystemMessage, ToolCall, Usage, blocks_of
from ...values.request import Conversation
from ..residual import optional, reading
from ..wire import ListedSession, SessionStream
from .line_sessions import ReadAgain, Record, RowReader, TemplateStream, read
from .program_content import (
    a_result,
    an_object_of,
    call_of,
    content_of,
    inner,
    items,
    moment,
    thinking_of,
    usage_of,
    user,
)
from .reading import kept_record
from .templates import file_format, keep

API = "swe-agent"


_KEYS = ("history", "messages")


def _key(document: Record) -> str:
    """Where the history is."""
    for key in _KEYS:
        if isinstance(document.get(key), list):
            return key
    raise BadWire(API, "a trajectory has a `history` or `messages`", "$.history")


def _answer(item: dict[str, Any], when: int | None) -> AssistantMessage:
    """An answer; mini-swe-agent keeps the provider's own beside it, with the usage."""
    calls = [call for wire in items(item.get("tool_calls")) if (call := call_of(wire)) is not None]
    thoughts = [thinking_of(wire) for wire in items(item.get("thinking_blocks"))]
    if not thoughts and optional(item.get("reasoning_content")):
        thoughts = [thinking_of({"thinking": item["reasoning_content"]})]
    content = content_of(item.get("content"))
    blocks: tuple[Block, ...] = (*thoughts, *(blocks_of(content) if content else ()), *calls)
    response = inner(item, "extra", "response")
    counted = inner(response, "usage")
    return AssistantMessage(
        content=blocks if thoughts or calls else content,
        model=optional(inner(response, "model")),
        usage=usage_of(counted, input="prompt_tokens", output="completion_tokens"),
        timestamp=when,
    )


def _message(item: dict[str, Any], waiting: list[ToolCall]) -> list[Message]:
    when = moment(item.get("timestamp") or inner(item, "extra", "timestamp"))
    content = content_of(item.get("content"))
    match item.get("role"):
        case "system":
            return [SystemMessage(content=content, timestamp=when)]
        case "user":
            return [user(content, when)]
        case "assistant":
            answer = _answer(item, when)
            waiting[:] = answer.tool_calls
            return [answer]
        case "tool":
            ids = [id for id in item.get("tool_call_ids") or [item.get("tool_call_id")] if isinstance(id, str)]
            if not ids and waiting:
                ids = [waiting[0].id]
            names = {call.id: call.name for call in waiting}
            waiting[:] = [call for call in waiting if call.id not in ids]
            # One observation answers all calls of its step.
            return [a_result(id, item.get("content"), name=names.get(id), when=when) for id in ids]
        case "exit":  # mini-swe-agent's own last word; no model reads it
            return []
        case role:
            return [kept_record(API, str(role), item)]


def _total(document: dict[str, Any]) -> Usage | None:
    found = usage_of(inner(document, "info", "model_stats"), input="tokens_sent", output="tokens_received")
    return found if found is not None and found.total_tokens else None


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
        model = inner(document, "replay_config", "agent", "model", "name")
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
