"""Models as rows of a table: the snake_case spelling that clawtools stores, beside the camelCase of our JSON."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import fields

from ..values.errors import FormatError
from ..values.request import ModelCost, ModelDescriptor

_FIELDS = tuple(field.name for field in fields(ModelDescriptor) if field.name not in ("cost", "extra"))
_PRICES = tuple(field.name for field in fields(ModelCost) if field.name != "extra")


def serialize_model(model: ModelDescriptor) -> dict[str, Any]:
    """The row of a model. What is not known has no key."""
    row = {name: value for name in _FIELDS if (value := getattr(model, name)) is not None}
    if model.input is not None:
        row["input"] = list(model.input)
    if model.cost is not None:
        row["cost"] = {name: getattr(model.cost, name) for name in _PRICES}
    return row


def deserialize_model(row: Mapping[str, Any]) -> ModelDescriptor:
    """The model of a row. A null is as good as an absent key, and columns that are not a model's are ignored."""
    given = {name: value for name in _FIELDS if (value := row.get(name)) is not None}
    cost = row.get("cost")
    if cost is not None:
        given["cost"] = {
            _camel(name): value
            for name in _PRICES
            if isinstance(cost, Mapping) and (value := cost.get(name)) is not None
        }
    try:
        return msgspec.convert({_camel(name): value for name, value in given.items()}, ModelDescriptor)
    except msgspec.ValidationError as error:
        raise FormatError(f"this row is no model: {error}") from None


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
