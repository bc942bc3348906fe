"""Validation of arguments against a JSON Schema, with repair of harmless mistakes and errors a model can act on."""

import difflib
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any

from jsonschema_rs import FancyRegexOptions, RegexOptions, ValidationError, Validator, validator_for
from jsonschema_rs import ValidationErrorKind as Kind

from ..values import jsontext
from ..values.errors import FormatError
from ..values.schema_cost import is_costly, refuse_reference
from .params import number_text

_ERRORS = 50_000  # errors considered for repair
_MAX_PROBLEMS = 20  # reported to the model
_ROUNDS = 8  # one repair may reveal the next error
_TRIALS = 32  # branches of unions tried
_BACKTRACKS = 10_000


def validated(schema: Any, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The arguments, repaired where harmless, and the remaining problems, one `path: message` each.

    Valid arguments are returned unchanged. Otherwise a copy is repaired: `"5"` for a number, `"true"` for true, a
    number or boolean for a string, JSON text for an object or array, one value for an array, null for an optional
    argument (removed), another spelling of a name (`oldText`, `old_text`). If problems remain, the original
    arguments are returned. Raises FormatError for an invalid schema.
    """
    if not isinstance(schema, dict):
        return arguments, []
    try:
        return _validated(schema, arguments)
    except UnicodeEncodeError:
        raise FormatError("unpaired surrogate in the arguments; send valid Unicode") from None


def _validated(schema: dict[str, Any], arguments: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    text = jsontext.write(schema)
    validator = _validator(text)
    whole = _integers(schema, arguments)
    if is_costly(text, schema, whole):
        is_valid = validator.is_valid(whole)
        return (whole, []) if is_valid else (arguments, ["(arguments): do not match the schema"])
    errors = _errors(validator, whole)
    if not errors:
        return whole, []
    repair = _Repair(schema, validator, jsontext.read(jsontext.write(whole)))
    left = repair.left(errors)
    return (arguments, _problems(left, schema)) if left else (repair.document, [])


@functools.lru_cache(maxsize=256)
def _validator(schema: bytes) -> Validator:
    """The compiled validator of a schema. Fetches nothing; patterns run in linear or bounded time."""
    refused = ""
    # Only the second engine supports lookaround and backreferences; its backtracking is limited.
    for engine in (RegexOptions(), FancyRegexOptions(backtrack_limit=_BACKTRACKS)):
        try:
            return validator_for(schema.decode(), pattern_options=engine, retriever=refuse_reference, mask="the value")
        except ValidationError as error:
            refused = refused or error.message
        except ValueError as error:
            refused = refused or str(error)
    raise FormatError(refused)


def _errors(validator: Validator, document: Any) -> list[ValidationError]:
    return list(islice(validator.iter_errors(document), _ERRORS))


def _integers(schema: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with whole numbers as int: JSON Schema accepts 5.0 as an integer, Python code may not."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return arguments
    repaired = {
        name: int(value)
        for name, value in arguments.items()
        if isinstance(value, float)
        and value.is_integer()
        and "integer" in (types := _types(properties.get(name)))
        and "number" not in types
    }
    return {**arguments, **repaired} if repaired else arguments


def _types(schema: Any) -> list[Any]:
    """The types of a schema, its own or those of its union branches."""
    if not isinstance(schema, dict):
        return []
    named = schema.get("type", [])
    branches = schema.get("anyOf") or schema.get("oneOf") or []
    return (named if isinstance(named, list) else [named]) + [
        branch.get("type") for branch in branches if isinstance(branch, dict)
    ]


class _Repair:
    """A copy of the arguments, changed where an error determines the correct value."""

    def __init__(self, schema: dict[str, Any], validator: Validator, document: dict[str, Any]) -> None:
        self._schema = schema
        self._validator = validator
        self._trials = 0
        self.document = document

    def left(self, errors: list[ValidationError]) -> list[ValidationError]:
        """Repairs as long as that helps; returns the remaining errors."""
        for _ in range(_ROUNDS):
            if not self._repair_all(errors):
                break
            errors = _errors(self._validator, self.document)
            if not errors:
                break
        return errors

    def _repair_all(self, errors: Sequence[ValidationError]) -> bool:
        touched: set[tuple[str | int, ...]] = set()
        for error in errors:
            path = tuple(error.instance_path)
            if not any(path[:length] in touched for length in range(len(path) + 1)) and self._repair(error):
                touched.add(path)
        return bool(touched)

    def _repair(self, error: ValidationError) -> bool:
        try:
            return self._repaired(error)
        except (LookupError, TypeError):  # an earlier repair has moved the value
            return False

    def _repaired(self, error: ValidationError) -> bool:
        match error.kind:
            case Kind.Required(property=name):
                return self._rename(error, [name])
            case Kind.AdditionalProperties() | Kind.UnevaluatedProperties():
                return self._rename(error, list(_properties(self._schema, error)))
        path = error.instance_path
        if path and _at(self.document, path) is None and ("properties", path[-1]) in pairwise(error.evaluation_path):
            del _at(self.document, path[:-1])[path[-1]]
            return True
        if not isinstance(error.kind, Kind.AnyOf | Kind.OneOfNotValid):
            return bool(path) and self._replace(path, error.kind)
        types = _expected_types(error)
        if types is not None:
            return bool(path) and self._put(path, _as_type(_at(self.document, path), types))
        return self._repair_union(path, error.kind.context)

    def _replace(self, path: Sequence[str | int], kind: Kind) -> bool:
        value, new = _at(self.document, path), _UNCHANGED
        match kind:
            case Kind.Type(types=types):
                new = _as_type(value, types)
            case Kind.Enum(options=options):
                new = _as_option(value, options)
            case Kind.Constant(expected_value=option):
                new = _as_option(value, [option])
        return self._put(path, new)

    def _put(self, path: Sequence[str | int], new: Any) -> bool:
        if new is _UNCHANGED:
            return False
        _at(self.document, path[:-1])[path[-1]] = new
        return True

    def _repair_union(self, path: list[str | int], branches: Sequence[Sequence[ValidationError]]) -> bool:
        """Takes the first branch that matches after repair."""
        for branch in branches:
            self._trials += 1
            if self._trials > _TRIALS:
                return False
            before = self.document
            self.document = jsontext.read(jsontext.write(before))
            if self._repair_all(branch) and self._is_repaired(path):
                return True
            self.document = before
        return False

    def _is_repaired(self, path: list[str | int]) -> bool:
        """Whether no error is left at the path, after repairing those revealed there."""
        for _ in range(_ROUNDS):
            errors = [one for one in _errors(self._validator, self.document) if one.instance_path[: len(path)] == path]
            if not errors:
                return True
            if not self._repair_all(errors):
                return False
        return False

    def _rename(self, error: ValidationError, names: list[str]) -> bool:
        """Renames arguments in another spelling, if the schema has no such name."""
        holder = _at(self.document, error.instance_path)
        known = _properties(self._schema, error)
        given = {_folded(name): name for name in holder if name not in known}
        changed = False
        for name in names:
            other = next((given[key] for key in (_folded(name), *_ALIASES.get(name, ())) if key in given), None)
            if name not in holder and other is not None:
                holder[name] = holder.pop(other)
                changed = True
        return changed


# Names for the same argument in other programs' tools.
_ALIASES = {"path": ("filepath", "filename"), "oldText": ("oldstring",), "newText": ("newstring",), "command": ("cmd",)}


def _expected_types(error: ValidationError) -> list[str] | None:
    """The types of a union's branches, if every branch fails because of the value's type."""
    if not isinstance(error.kind, Kind.AnyOf | Kind.OneOfNotValid):
        return None
    expected: list[str] = []
    for branch in error.kind.context:
        here = [one.kind for one in branch if one.instance_path == error.instance_path]
        mistaken = [kind for kind in here if isinstance(kind, Kind.Type)]
        if not mistaken:
            return None
        expected += [name for kind in mistaken for name in kind.types]
    return list(dict.fromkeys(expected))


def _at(document: Any, path: Sequence[str | int]) -> Any:
    for key in path:
        document = document[key]
    return document


def _properties(schema: Any, error: ValidationError) -> dict[str, Any]:
    """The properties of the schema with the violated keyword."""
    try:
        found = _at(schema, error.schema_path[:-1]).get("properties")
    except (LookupError, TypeError, AttributeError):
        return {}
    return found if isinstance(found, dict) else {}


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


_UNCHANGED: Any = object()
_INTEGER = re.compile(r"[+-]?\d+(\.0+)?")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def _as_type(value: Any, types: list[str]) -> Any:
    """The value converted to one of the types, the narrowest first; `_UNCHANGED` if none fits."""
    for name in sorted(types, key=_NARROW.index):
        new = _FORMS[name](value)
        if new is not _UNCHANGED:
            return new
    return _UNCHANGED


def _as_boolean(value: Any) -> Any:
    return (
        {"true": True, "false": False}.get(value.strip().lower(), _UNCHANGED) if isinstance(value, str) else _UNCHANGED
    )


def _as_integer(value: Any) -> Any:
    if not isinstance(value, str) or not _INTEGER.fullmatch(text := value.strip()):
        return _UNCHANGED
    try:
        return int(text.partition(".")[0])
    except ValueError:  # more digits than Python's limit
        return _UNCHANGED


def _as_number(value: Any) -> Any:
    whole = _as_integer(value)
    if whole is not _UNCHANGED or not isinstance(value, str) or not _NUMBER.fullmatch(value.strip()):
        return whole
    number = float(value)
    return number if abs(number) != float("inf") else _UNCHANGED


def _as_array(value: Any) -> Any:
    parsed = _from_text(value, list)
    if parsed is not _UNCHANGED:
        return parsed
    broken = isinstance(value, str) and value.lstrip().startswith("[")
    return [value] if value is not None and not broken else _UNCHANGED


def _as_string(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_text(value) if isinstance(value, int | float) else _UNCHANGED


def _from_text(value: Any, kind: type) -> Any:
    if not isinstance(value, str):
        return _UNCHANGED
    try:
        parsed = jsontext.read(value)
    except FormatError:
        return _UNCHANGED
    return parsed if isinstance(parsed, kind) else _UNCHANGED


_FORMS: dict[str, Callable[[Any], Any]] = {
    "null": lambda value: None if value == "null" else _UNCHANGED,
    "boolean": _as_boolean,
    "integer": _as_integer,
    "number": _as_number,
    "object": lambda value: _from_text(value, dict),
    "string": _as_string,
    "array": _as_array,
}
_NARROW = list(_FORMS)


def _as_option(value: Any, options: list[Any]) -> Any:
    """The one option that reads like the value: 5 for `"5"`, `"5"` for 5."""
    text = value if isinstance(value, str) else jsontext.compact(value)
    like = [option for option in options if (option if isinstance(option, str) else jsontext.compact(option)) == text]
    return like[0] if len(like) == 1 and like[0] is not value else _UNCHANGED


# --- messages for the model -----------------------------------------------------------------------------------------


def _problems(errors: Sequence[ValidationError], schema: dict[str, Any]) -> list[str]:
    lines = list(dict.fromkeys(line for error in errors for line in _given(error, schema)))
    return (
        lines
        if len(lines) <= _MAX_PROBLEMS
        else [*lines[:_MAX_PROBLEMS], f"(and {len(lines) - _MAX_PROBLEMS} more problems)"]
    )


def _given(error: ValidationError, schema: dict[str, Any]) -> Iterator[str]:
    path = _path(error.instance_path)
    got = f", got {shown(error.instance)}"
    match error.kind:
        case Kind.Required(property=name):
            known = _properties(schema, error)
            given = error.instance if isinstance(error.instance, dict) else {}
            unexpected = [other for other in given if other not in known]
            yield f"{_path([*error.instance_path, name])}: is required{_suggestion(name, unexpected, 'given as')}"
        case Kind.AdditionalProperties(unexpected=names) | Kind.UnevaluatedProperties(unexpected=names):
            known = _properties(schema, error)
            for name in names:
                hint = _suggestion(name, list(known)) or f"; allowed: {', '.join(known) or 'none'}"
                yield f"{_path([*error.instance_path, name])}: unknown argument{hint}"
        case Kind.Type(types=types):
            yield f"{path}: expected {' or '.join(types)}{got}"
        case Kind.Enum(options=options):
            names = [option for option in options if isinstance(option, str)]
            meant = _suggestion(error.instance, names) if isinstance(error.instance, str) else ""
            yield f"{path}: must be one of {', '.join(map(shown, options[:50]))}{got}{meant}"
        case Kind.AnyOf(context=branches) | Kind.OneOfNotValid(context=branches):
            yield from _described_union(error, branches, schema)
        case _:
            yield f"{path}: {error.message.removeprefix('the value ')}{got}"


def _described_union(
    error: ValidationError, branches: Sequence[Sequence[ValidationError]], schema: dict[str, Any]
) -> Iterator[str]:
    """The errors of the branch for a value of this type; if there is none, the accepted types."""
    types = _expected_types(error)
    if types is not None:
        yield f"{_path(error.instance_path)}: expected {' or '.join(types)}, got {shown(error.instance)}"
        return
    meant = min(branches, key=lambda branch: sum(one.instance_path == error.instance_path for one in branch))
    for one in meant:
        yield from _given(one, schema)


def _path(path: Sequence[str | int]) -> str:
    out = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return out.removeprefix(".") or "(arguments)"


def _suggestion(name: str, candidates: list[str], text: str = "did you mean") -> str:
    folded = {_folded(candidate): candidate for candidate in candidates}
    near = difflib.get_close_matches(_folded(name), folded, n=1, cutoff=0.6)
    return f"; {text} {shown(folded[near[0]])}?" if near else ""


def shown(value: Any, limit: int = 100) -> str:
    """The value as JSON, cut after `limit` characters."""
    try:
        text = jsontext.compact(value)
    except FormatError:
        text = type(value).__name__
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def allowed(schema: Any) -> str:
    """The parameters of a schema, each with its type, in one line."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or not properties:
        return "no arguments"
    required = schema.get("required") or ()
    return ", ".join(
        f"{name} ({form(part)}{', required' if name in required else ''})" for name, part in properties.items()
    )


def form(schema: Any, depth: int = 3) -> str:
    """The type of a parameter, in short form."""
    if not isinstance(schema, dict) or not depth:
        return "any"
    if isinstance(options := schema.get("enum"), list):
        return " | ".join(shown(option, 40) for option in options[:20])
    if isinstance(branches := schema.get("anyOf") or schema.get("oneOf"), list):
        return " | ".join(dict.fromkeys(form(branch, depth - 1) for branch in branches))
    named = schema.get("type")
    if isinstance(named, list):
        return " | ".join(map(str, named))
    return str(named or str(schema.get("$ref", "any")).rpartition("/")[2])
