"""Tool arguments as one Struct: it defines the schema that the model sees and the values that the tool reads."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ..values.errors import ToolInputError

Arguments = TypeVar("Arguments", bound=Struct)


def schema_of(kind: type[Struct]) -> dict[str, Any]:
    """Returns the JSON Schema of a flat Struct, inlined: no `$ref`, no title, a type beside every enum."""
    _, parts = msgspec.json.schema_components([kind], ref_template="#/{name}")
    whole = {key: value for key, value in parts[kind.__name__].items() if key not in ("title", "description")}
    whole["properties"] = {name: _typed(schema) for name, schema in whole["properties"].items()}
    return whole


def read_arguments(tool: str, params: Mapping[str, Any], kind: type[Arguments]) -> Arguments:
    """Parses the arguments as a value of `kind`; null means absent. Raises `ToolInputError` that names the argument."""
    given = {name: value for name, value in params.items() if value is not None}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ToolInputError(f"{tool}: {error}") from None


def _typed(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "string", **schema} if "enum" in schema else schema
