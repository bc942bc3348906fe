"""Arguments of tool calls: as one Struct, which also defines the schema that the model sees; or read one by one.

The readers are lenient about common model mistakes, with clear errors otherwise.

Keys: the exact one first; only if it is absent its other spelling, `workDir` ↔ `work_dir`. A key with the value null is
present: the other spelling is not tried.

Deliberate differences from the TypeScript readers of clawtools: both spellings are tried, since Python tools use
snake_case; true and false are not numbers; 42.0 is read as the text `42`; blank, infinite and NaN numbers are errors,
not 0; an array that contains null, a list or an object is an error, not the text `null`.
"""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, cast, overload

import msgspec
from msgspec import Struct

from ..values.errors import ToolInputError
from ..values.interop import camel_case, snake_case

Arguments = TypeVar("Arguments", bound=Struct)

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WHOLE = re.compile(r"[+-]?\d+|0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+")


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


@overload
def read_string_param(
    params: Mapping[str, Any],
    key: str,
    *,
    required: Literal[True],
    trim: bool = True,
    label: str | None = None,
    allow_empty: bool = False,
) -> str: ...
@overload
def read_string_param(
    params: Mapping[str, Any],
    key: str,
    *,
    required: bool = False,
    trim: bool = True,
    label: str | None = None,
    allow_empty: bool = False,
) -> str | None: ...
def read_string_param(
    params: Mapping[str, Any],
    key: str,
    *,
    required: bool = False,
    trim: bool = True,
    label: str | None = None,
    allow_empty: bool = False,
) -> str | None:
    """Text, trimmed; a number as its text; None when absent, blank or of another type."""
    value, label = _value(params, key), label or key
    if _is_number(value):
        return number_text(value)
    if not isinstance(value, str):
        _refuse(label, required)
        return None
    text = value.strip() if trim else value
    if text.strip() or allow_empty:
        return text
    if required:
        raise ToolInputError(f"{label} must not be blank")
    return None


@overload
def read_number_param(
    params: Mapping[str, Any], key: str, *, required: Literal[True], integer: Literal[True], label: str | None = None
) -> int: ...
@overload
def read_number_param(
    params: Mapping[str, Any],
    key: str,
    *,
    required: Literal[False] = False,
    integer: Literal[True],
    label: str | None = None,
) -> int | None: ...
@overload
def read_number_param(
    params: Mapping[str, Any],
    key: str,
    *,
    required: Literal[True],
    integer: Literal[False] = False,
    label: str | None = None,
) -> int | float: ...
@overload
def read_number_param(
    params: Mapping[str, Any], key: str, *, required: bool = False, integer: bool = False, label: str | None = None
) -> int | float | None: ...
def read_number_param(
    params: Mapping[str, Any], key: str, *, required: bool = False, integer: bool = False, label: str | None = None
) -> int | float | None:
    """A number, or text that is one; `integer` rounds down. A value that is not a number is always an error."""
    value, label = _value(params, key), label or key
    if value is None:
        _refuse(label, required)
        return None
    number: Any = _parsed(value) if isinstance(value, str) else value
    if not _is_number(number) or not math.isfinite(number):
        raise ToolInputError(f"{label} must be a number")
    return math.floor(number) if integer else cast(int | float, number)


def read_boolean_param(
    params: Mapping[str, Any], key: str, default: bool = False, *, required: bool = False, label: str | None = None
) -> bool:
    """A boolean. Of strings only `true` (any case) and `1` are true; other values follow JavaScript's truthiness."""
    value = _value(params, key)
    if value is None:
        _refuse(label or key, required)
        return default
    if isinstance(value, str):
        return value == "1" or value.lower() == "true"
    if _is_number(value):
        return value != 0 and not math.isnan(value)
    return value is not False


@overload
def read_string_array_param(
    params: Mapping[str, Any], key: str, *, required: Literal[True], label: str | None = None
) -> list[str]: ...
@overload
def read_string_array_param(
    params: Mapping[str, Any], key: str, *, required: bool = False, label: str | None = None
) -> list[str] | None: ...
def read_string_array_param(
    params: Mapping[str, Any], key: str, *, required: bool = False, label: str | None = None
) -> list[str] | None:
    """A list of strings; a single string becomes a list of one. Numbers and booleans become strings."""
    value, label = _value(params, key), label or key
    if value is None:
        _refuse(label, required)
        return None
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list | tuple):
        raise ToolInputError(f"{label} must be a string or string array")
    return [_item(item, f"{label}[{at}]") for at, item in enumerate(value)]


def assert_required_params(params: Mapping[str, Any], keys: Iterable[str]) -> None:
    """Raises ToolInputError for the first of `keys` that is absent, null or empty."""
    for key in keys:
        if _value(params, key) in (None, ""):
            raise ToolInputError(f"{key} required")


def number_text(number: int | float) -> str:
    """The number as a person writes it: 42.0 is `42`."""
    whole = isinstance(number, float) and number.is_integer() and abs(number) < 1e15
    return str(int(number)) if whole else str(number)


def _value(params: Mapping[str, Any], key: str) -> Any:
    for spelling in (key, snake_case(key), camel_case(key)):
        if spelling in params:
            return params[spelling]
    return None


def _refuse(label: str, required: bool) -> None:
    if required:
        raise ToolInputError(f"{label} required")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _parsed(text: str) -> int | float | None:
    text = text.strip()
    try:
        if _WHOLE.fullmatch(text):
            return int(text, 0) if text[1:2].isalpha() else int(text)
        return float(text) if _NUMBER.fullmatch(text) else None
    except ValueError:  # more digits than Python reads
        return None


def _item(value: Any, label: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if _is_number(value):
        return number_text(value)
    raise ToolInputError(f"{label} must be a string")
