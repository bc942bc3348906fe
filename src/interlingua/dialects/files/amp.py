"""Amp's threads (`T-….json`): `messages` of Anthropic's blocks, beside a `title` and the `env` they began in.

A result names its call in `toolUseID` and holds a `run`, with its `status` and `result`. Messages of role `info` are
the program's notices, except for the summary that a thread begins with which carries on another one.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values.messages import Message
from ..codec import ANSWER
from ..residual import optional
from .line_sessions import Record, RowReader, document_format
from .program_content import (
    a_result,
    content_of,
    first,
    inner,
    is_result,
    items,
    moment,
    usage_of,
    user,
)
from .reading import kept_record

API = "amp"

_FAILED = frozenset(("error", "cancelled", "rejected-by-user"))


def _message(wire: dict[str, Any]) -> list[Message]:
    content = wire.get("content")
    stated = first(wire, "timestamp", "created") or inner(wire, "meta", "sentAt") or inner(wire, "usage", "timestamp")
    when = moment(stated)
    match wire.get("role"):
        case "assistant":
            usage = usage_of(
                wire.get("usage"),
                input="inputTokens",
                output="outputTokens",
                read="cacheReadInputTokens",
                write="cacheCreationInputTokens",
            )
            model = optional(inner(wire, "usage", "model")) or optional(wire.get("model"))
            return [replace(ANSWER, extra={}, content=content_of(content), model=model, usage=usage, timestamp=when)]
        case "user":
            found: list[Message] = [made for item in items(content) if (made := _result(item, when)) is not None]
            blocks = [item for item in content if not is_result(item)] if isinstance(content, list) else content
            rest = content_of(blocks)
            return [*found, user(rest, when)] if rest or not found else found
        case "info":
            texts = [inner(item, "summary", "summary") for item in items(content) if item.get("type") == "summary"]
            return [user(text, when, program=True) for text in texts if isinstance(text, str)]
    return [kept_record(API, str(wire.get("role")), wire)]


def _result(item: dict[str, Any], when: int | None) -> Message | None:
    id = optional(first(item, "toolUseID", "tool_use_id", "toolUseId"))
    if not is_result(item) or id is None:
        return None
    run = item.get("run")
    if not isinstance(run, dict):
        return a_result(id, item.get("content"), failed=item.get("is_error") is True, when=when)
    if run.get("status") in ("in-progress", "queued", "blocked-on-user"):
        return None
    failed = run.get("status") in _FAILED
    given = first(run, "result", "error", "progress", "reason")
    output = inner(given, "output") if inner(given, "output") is not None else given
    return a_result(id, output, failed=failed, when=when)


class _Reader(RowReader):
    def __init__(self, thread: Record) -> None:
        self.fields = {"title": thread.get("title")}

    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        return (message for wire in records if isinstance(wire, dict) for message in _message(wire))


def detect(value: Any) -> str | None:
    """A thread's id begins with `T-`; it has a version, or the environment it began in."""
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return None
    named = isinstance(value.get("id"), str) and value["id"].startswith("T-")
    if named and ("v" in value or "env" in value or "created" in value):
        return "`messages` of a thread whose id begins with `T-`"
    return None


FORMAT = document_format(
    API, "messages", lambda thread, messages: _Reader(thread), "a thread with `messages`", detect=detect
)
