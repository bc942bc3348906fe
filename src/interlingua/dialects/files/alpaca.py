"""Alpaca: a row of a training set, an `instruction` with its `input` and the expected `output`.

`system` and `history` (pairs of earlier turns) are LLaMA-Factory's and ms-swift's, as are `query` and `response`. The
question is the instruction and, on the next line, the input (Dolly's `context`). OpenOrca's rows have a `system_prompt`
and a `question`. Of a row with `chosen` and `rejected` answers the chosen one is on the path and the other a branch
beside it; in rows of ms-swift the others are `rejected_response`, a text or a list of them.
"""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from ...values.messages import AssistantMessage, UserMessage
from ...values.request import Conversation, Entry
from ..residual import optional
from .reading import Documents, rejected_answers

API = "alpaca"


def _entries(row: dict[str, Any]) -> Iterator[Entry]:
    history = row.get("history")
    turns = [text for pair in history for text in pair] if isinstance(history, list) else []
    asked = [_question(row), row.get("context") if row.get("input") is None else row["input"]]
    turns.append("\n".join(text for text in asked if isinstance(text, str) and text) if asked[1] else asked[0])
    before = None
    for at, text in enumerate(turns):
        message = replace(_USER if at % 2 == 0 else _ANSWER, content=text)
        yield Entry(message=message, id=f"turn_{at}", parent_id=before)
        before = f"turn_{at}"
    for name, text in _answers(row):
        yield Entry(message=replace(_ANSWER, content=text), id=name, parent_id=before)


def _question(row: dict[str, Any]) -> Any:
    if "instruction" in row:
        return row["instruction"]
    return row["query"] if "query" in row else row.get("question")


_USER: Any = UserMessage(content=None)
_ANSWER: Any = AssistantMessage(content=None)


def _answers(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The answer, or several of which the first is preferred."""
    output = row.get("output") if "output" in row else row.get("response")
    pair = output if isinstance(output, list) else [row.get("chosen"), row.get("rejected")]
    if isinstance(output, str):
        yield "chosen", output
        for count, text in enumerate(rejected_answers(row.get("rejected_response"), None)[0], 1):
            yield "rejected" if count == 1 else f"rejected-{count}", text
        return
    for name, text in zip(("chosen", "rejected"), pair, strict=False):
        if isinstance(text, str):
            yield name, text


def _is_row(value: Any) -> bool:
    if not isinstance(value, dict) or "messages" in value:
        return False
    if not isinstance(_question(value), str):
        return False
    if "context" in value and not isinstance(value["context"], str | None):
        return False
    history = value.get("history")
    if history is not None and not (isinstance(history, list) and all(map(_is_pair, history))):
        return False
    return isinstance(value.get("input"), str | None) and any(True for _ in _answers(value))


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(text, str) for text in value)


def _conversation(row: dict[str, Any]) -> Conversation:
    """One row."""
    entries = tuple(_entries(row))
    system = optional(row.get("system")) or optional(row.get("system_prompt")) or None
    return Conversation(entries=entries, head="chosen", system=system)


FORMAT = Documents(API, _is_row, "an `instruction` with its `output`", path="$.instruction").format(
    _conversation, rank=40
)
