"""Compaction: the summary that replaces a long history for the model."""

from collections.abc import Sequence
from typing import Any

from .messages import AgentMessage, CustomMessage, UserMessage
from .request import Entry

ROLE = "compaction"  # in our session files and pi's: a summary, and the id of the first entry that is kept
CODEX_ROLE = "compacted"  # in Codex's rollouts: a `payload` with the message that the model read


def summary_message(summary: str, timestamp: Any = None) -> UserMessage:
    """Returns the user message that carries the summary."""
    text = (
        "The conversation so far was too long to keep in full. This is a summary of it:\n\n"
        f"<summary>\n{summary}\n</summary>"
    )
    return UserMessage(content=text, timestamp=timestamp if isinstance(timestamp, int) else None)


def first_kept_of(message: AgentMessage) -> str | None:
    """Returns the first kept entry of a compaction; OpenClaw writes `firstKeptEntryId`."""
    fields = message.fields if isinstance(message, CustomMessage) else {}
    found = fields.get("firstKept", fields.get("firstKeptEntryId"))
    return found if isinstance(found, str) else None


def latest_summary(path: Sequence[Entry]) -> int | None:
    """Returns the index of the last compaction on a path that has a summary, ours, pi's or Codex's."""
    return next((at for at in range(len(path) - 1, -1, -1) if summary_of(path[at].message) is not None), None)


def summary_of(message: AgentMessage) -> UserMessage | None:
    """Returns what a model reads for a compaction; None for any other message."""
    if not isinstance(message, CustomMessage):
        return None
    payload = message.fields.get("payload")
    if message.role == ROLE and isinstance(summary := message.fields.get("summary"), str):
        return summary_message(summary, message.fields.get("timestamp"))
    if message.role == CODEX_ROLE and isinstance(payload, dict) and isinstance(text := payload.get("message"), str):
        return UserMessage(content=text, origin="program")
    return None
