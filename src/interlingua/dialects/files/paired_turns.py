"""Rows of training sets whose turns are not named one by one: pairs of a question and its answer, or texts in turn.

`conversation` of `human` and `assistant` is Firefly's and ms-swift's, of `input` and `output` XTuner's and Capybara's;
`data`, texts of which every second is an answer, is UltraChat's.
"""

from collections.abc import Iterator
from typing import Any

from ...values.messages import AssistantMessage, Message, UserMessage
from ...values.request import Conversation
from ..residual import optional
from .program_content import conversation_of

SHAPE = "pairs of a question and its answer"
_NAMES = (("human", "assistant"), ("input", "output"))
_BESIDE = frozenset(("system",))


def is_row(value: Any) -> bool:
    """Whether a value is a row of pairs, or of texts in turn."""
    if not isinstance(value, dict):
        return False
    pairs, texts = value.get("conversation"), value.get("data")
    if isinstance(pairs, list):
        return bool(pairs) and all(_is_pair(pair) for pair in pairs)
    return isinstance(texts, list) and len(texts) > 1 and all(isinstance(text, str) for text in texts) and "id" in value


def _is_pair(value: Any) -> bool:
    return isinstance(value, dict) and any(
        value.keys() - _BESIDE == set(names) and all(isinstance(value[name], str) for name in names) for names in _NAMES
    )


def conversation_in(row: dict[str, Any]) -> Conversation:
    """The conversation of a row. The system text is beside the pairs, or in the first pair."""
    pairs = row.get("conversation")
    first = pairs[0].get("system") if isinstance(pairs, list) else None
    system = optional(row.get("system")) or optional(first) or None
    return conversation_of(_messages(row), system=system)


def _messages(row: dict[str, Any]) -> Iterator[Message]:
    for at, text in enumerate(_texts(row)):
        yield AssistantMessage(content=text) if at % 2 else UserMessage(content=text)


def _texts(row: dict[str, Any]) -> Iterator[str]:
    if isinstance(row.get("conversation"), list):
        for pair in row["conversation"]:
            asked, answered = next(names for names in _NAMES if names[0] in pair)
            yield pair[asked]
            yield pair[answered]
    else:
        yield from row["data"]
