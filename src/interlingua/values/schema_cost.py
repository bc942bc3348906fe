"""Bounds the cost of JSON Schema validation: references and unions can double it at each level.

`{"anyOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/b"}]}`, nested 28 times, is a schema of two kilobytes that takes
minutes to validate. Steps are counted without executing them: each pair of a schema and a value is visited once.
"""

from collections.abc import Iterator
from typing import Any

from .errors import FormatError

MAX_PAIRS = 50_000  # visited pairs of schema and value
MAX_DEPTH = 250
_MAX_STEPS = 2_000_000  # about 0.1 µs each
_EXPLAINED_STEPS = 10_000  # with errors, each takes a thousand times as long
_ALL = ("allOf", "anyOf", "oneOf")
_ONE = ("not", "if", "then", "else")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_KINDS = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}


def refuse_reference(uri: str) -> Any:
    """For validators, which would fetch it: a schema may open neither URLs nor files."""
    raise ValueError(f"external reference {uri}; only references inside the schema are supported")


def is_costly(text: bytes, schema: Any, document: Any) -> bool:
    """Whether validation can only return yes or no, because there may be too many errors to list.

    Raises FormatError if even that takes too long. Without references the steps are bounded by schema and document.
    """
    if b'Ref"' not in text and b'"$ref"' not in text:
        return False
    count = steps(schema, document)
    if count > _MAX_STEPS:
        raise FormatError(f"validation takes more than {_MAX_STEPS:,} steps; use fewer unions of references")
    return count > _EXPLAINED_STEPS


def steps(schema: Any, document: Any) -> int:
    """Returns the steps of a validation in the worst case; raises FormatError if they cannot be counted."""
    return _Count(schema).steps(schema, document)


class _Count:
    def __init__(self, schema: Any) -> None:
        self._root = schema
        self._names = dict(_named(schema, 0))
        self._known: dict[tuple[int, int], int] = {}
        self._alive: list[Any] = []  # keeps ids unique

    def steps(self, schema: Any, value: Any, depth: int = 0) -> int:
        if not isinstance(schema, dict):
            return 1
        pair = id(schema), id(value)
        found = self._known.get(pair)
        if found == 0 or depth > MAX_DEPTH:
            raise FormatError("the schema refers to itself endlessly, or the value is too deep; remove the cycle")
        if found is not None:
            return found
        if len(self._known) >= MAX_PAIRS:
            raise FormatError(f"more than {MAX_PAIRS:,} parts of the value are compared; use fewer references")
        self._known[pair] = 0
        self._alive.append(value)
        count = 1
        if not _is_mistaken(schema, value):
            count += sum(self.steps(part, value, depth + 1) for part in self._in_place(schema))
            count += sum(self.steps(part, child, depth + 1) for part, child in _subschemas(schema, value))
        self._known[pair] = count
        return count

    def _in_place(self, schema: dict[str, Any]) -> Iterator[Any]:
        """Yields the schemas that apply to the same value."""
        for key in _ALL:
            if isinstance(schema.get(key), list):
                yield from schema[key]
        for key in _ONE:
            if key in schema:
                yield schema[key]
        if isinstance(schema.get("dependentSchemas"), dict):
            yield from schema["dependentSchemas"].values()
        for key in _REFERENCES:
            if isinstance(schema.get(key), str):
                yield self._target(schema[key])

    def _target(self, reference: str) -> Any:
        if reference in self._names:
            return self._names[reference]
        document, _, pointer = reference.partition("#")
        at = self._names.get(document, self._root) if document else self._root
        for part in filter(None, pointer.split("/")):
            key = part.replace("~1", "/").replace("~0", "~")
            try:
                at = at[int(key)] if isinstance(at, list) else at[key]
            except (LookupError, TypeError, ValueError):
                return {}  # the validator refuses it, or has it built in: the schemas of JSON Schema itself
        return at


def _named(schema: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Schemas by the names that references may use beside pointers."""
    if depth > MAX_DEPTH:
        return
    if isinstance(schema, dict):
        for key, sign in (("$id", ""), ("id", ""), ("$anchor", "#"), ("$dynamicAnchor", "#")):
            if isinstance(schema.get(key), str):
                yield sign + schema[key], schema
        for part in schema.values():
            yield from _named(part, depth + 1)
    elif isinstance(schema, list):
        for part in schema:
            yield from _named(part, depth + 1)


def _is_mistaken(schema: dict[str, Any], value: Any) -> bool:
    """Whether the value can be refused at once: by its type, or by a discriminating property."""
    types = schema.get("type")
    if types is not None:
        kind = _KINDS.get(type(value), "number")
        given = types if isinstance(types, list) else [types]
        if kind not in given and not (kind == "number" and "integer" in given):
            return True
    properties = schema.get("properties")
    if not isinstance(value, dict) or not isinstance(properties, dict):
        return False
    return any(
        isinstance(part, dict) and "const" in part and name in value and value[name] != part["const"]
        for name, part in properties.items()
    )


def _subschemas(schema: dict[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the schemas that apply to parts of the value, with those parts."""
    if isinstance(value, dict):
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        patterns = schema.get("patternProperties")
        rest = [*patterns.values()] if isinstance(patterns, dict) else []
        rest += [schema[key] for key in ("additionalProperties", "unevaluatedProperties") if key in schema]
        for name, child in value.items():
            if name in properties:
                yield properties[name], child
            yield from ((part, child) for part in rest)
            if "propertyNames" in schema:
                yield schema["propertyNames"], name
    elif isinstance(value, list):
        firsts = schema.get("prefixItems", schema.get("items"))
        rest = [schema[key] for key in ("items", "additionalItems", "contains", "unevaluatedItems") if key in schema]
        for at, child in enumerate(value):
            if isinstance(firsts, list) and at < len(firsts):
                yield firsts[at], child
            yield from ((part, child) for part in rest if not isinstance(part, list))
