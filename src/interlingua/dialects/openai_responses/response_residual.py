"""What is held of an item beside what its blocks say, and what every answer says of its items."""

from collections.abc import Mapping
from typing import Any

from ...values.messages import Extra
from ..residual import RESPONSE, put_back, residual, same
from .facts import API, HIDDEN, NULLS

NAMES = ("id", "phase")  # of a message item: these are held with its first block itself
NO_HINTS: Mapping[str, Any] = {}


def kind_of(wire: Mapping[str, Any]) -> str:
    """The type of an item; messages may leave it out."""
    kind = wire.get("type")
    if kind is None:
        return "message" if "role" in wire else "item_reference"
    return kind if isinstance(kind, str) else ""


def residual_of(
    wire: Mapping[str, Any], encoded: Mapping[str, Any], kind: str, at: int, answer: bool
) -> dict[str, Any]:
    """What to hold of an item, of which `said` is known from its blocks.

    Of an answer, what is usual there (`usually`) is not held at all, and what input must not say is under `~response`,
    which is put back only into answers.
    """
    if not answer:
        return residual(wire, encoded)
    usual = usually(kind, at)
    if same(wire, {**usual, **encoded}):
        return {}

    def is_hidden(key: str, value: Any) -> bool:
        if key == "status":
            return kind in HIDDEN
        return (value is None and key in NULLS) or (key in usual and same(value, usual[key]))

    lean = {key: value for key, value in wire.items() if key in encoded or not is_hidden(key, value)}
    if "arguments" in lean and not lean["arguments"]:
        lean["arguments"] = encoded["arguments"]  # blank in an answer means none, and is said so when it is sent back
    extra_fields = residual(lean, encoded)
    rest = residual(wire, {**usual, **lean})
    return {**extra_fields, RESPONSE: rest} if rest else extra_fields


def usually(kind: str, at: int) -> dict[str, Any]:
    """What an answer says of an item or part of this kind, even of one that was minted elsewhere."""
    match kind:
        case "message":
            return {"id": f"msg_{at}", "status": "completed"}
        case "reasoning":
            return {"id": f"rs_{at}"}
        case "function_call":
            return {"id": f"fc_{at}", "status": "completed"}
        case "custom_tool_call":
            return {"id": f"ctc_{at}", "status": "completed"}
        case "output_text":
            return {"logprobs": []}
        case _:
            return {}


def filed(extra: Extra, extra_fields: Mapping[str, Any]) -> Extra:
    """`extra` with this added to what it holds for this wire."""
    return {**extra, API: {**extra.get(API, {}), **extra_fields}} if extra_fields else extra


def answered(wire: dict[str, Any], extra_fields: Mapping[str, Any], kind: str, at: int) -> dict[str, Any]:
    """What input says of an item, with what answers say besides; changes and returns `wire`."""
    for key, value in usually(kind, at).items():
        wire.setdefault(key, value)
    rest = extra_fields.get(RESPONSE)
    return put_back(wire, rest) if rest else wire
