"""Sessions as rows of a list, and how one stands that nobody runs. Pure."""

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..sessions.store import SessionInfo, SessionNotFound
from ..values.messages import AgentMessage, AssistantMessage, CustomMessage
from ..values.request import ModelDescriptor
from .runs import Status

_KEY = re.compile(r"agent:(?P<agent>\w[\w.@+=-]{0,100}):(?P<id>\w[\w.:@+=-]{0,200})", re.ASCII)
_KINDS = ("group", "cron", "hook", "node")


def parts(key: str) -> tuple[str, str]:
    """The agent and the id in a key. Raises `SessionNotFound` for what is no key: a path, above all."""
    found = _KEY.fullmatch(key)
    if found is None or key.endswith(".jsonl"):
        raise SessionNotFound(f"{key[:200]!r} is no name of a session: give its id, or agent:NAME:ID")
    return found["agent"], found["id"]


def spawned(about: Mapping[str, Any]) -> dict[str, Any]:
    given = about.get("spawn")
    return given if isinstance(given, dict) else {}


def row_of(info: SessionInfo) -> dict[str, Any]:
    row = {
        "key": f"agent:{info.agent}:{info.id}",
        "agentId": info.agent,
        "sessionId": info.id,
        "kind": _kind(info.id),
        "displayName": info.title or info.id,
        "updatedAt": info.modified,
        "model": info.model,
        "transcriptPath": info.where,
    }
    return {name: value for name, value in row.items() if value is not None}


def _kind(id: str) -> str:
    if id == "main":
        return "main"
    return next((kind for kind in _KINDS if id.startswith(kind) and id[len(kind) : len(kind) + 1] in ":-_."), "other")


def usage_in(tail: Sequence[AgentMessage]) -> dict[str, Any]:
    """How much of the model's window the last answer filled."""
    for message in reversed(tail):
        if isinstance(message, AssistantMessage) and message.usage is not None:
            return {"contextTokens": message.usage.total_tokens}
    return {}


def standing(tail: Sequence[AgentMessage]) -> Status:
    """How a session was left that nobody runs: at the end of an answer, or in the middle of something."""
    last = next((message for message in reversed(tail) if not isinstance(message, CustomMessage)), None)
    if last is None:
        return "done"
    if not isinstance(last, AssistantMessage) or (last.tool_calls and last.stop_reason not in ("error", "aborted")):
        return "paused"
    return {"error": "failed", "aborted": "killed"}.get(last.stop_reason or "", "done")  # type: ignore[return-value]


def name_of(model: str | ModelDescriptor) -> str:
    if isinstance(model, str):
        return model
    return f"{model.provider}/{model.id}" if model.provider else model.id


def milliseconds() -> int:
    return int(time.time() * 1000)
