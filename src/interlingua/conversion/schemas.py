"""Adapts JSON Schemas to a target. Works by position: a parameter that is *named* `pattern` is not a keyword."""

from typing import Any, Literal, TypeAlias

from ..values import jsontext

# Keys of a schema whose values are schemas, lists of schemas, or names mapped to schemas.
_ONE = frozenset({"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"})
_MANY = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})

# ai.google.dev/api/caching, Schema: the keywords of the OpenAPI subset; others are refused with "Unknown name".
GEMINI = frozenset(
    {
        "type", "format", "title", "description", "enum", "items", "prefixItems", "properties", "required", "anyOf",
        "minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength", "minProperties", "maxProperties",
        "pattern", "propertyOrdering", "additionalProperties", "default", "nullable",
    }
)  # fmt: skip

# Google's services read JSON names in both spellings: protobuf.dev/programming-guides/json, field names.
_GEMINI_SNAKE = frozenset({"property_ordering", "min_items", "max_items", "min_length", "max_length"})

_ROUNDS = 2  # how often a recursive schema is inlined


def fit(schema: Any, rules: str) -> tuple[Any, list[str]]:
    """The schema for a target with these rules, and the paths of what it cannot express. The source is not changed."""
    if rules != "gemini" or not isinstance(schema, dict):
        return schema, []
    fitting = _Fitting(schema)
    return fitting.node(schema, "", ()), fitting.removed


class _Fitting:
    """One schema in the keywords that Gemini supports, with references inlined."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self.removed: list[str] = []

    def node(self, node: Any, path: str, trail: tuple[str, ...]) -> Any:
        if not isinstance(node, dict):
            return node
        node, trail = self._resolved(node, path, trail)
        node, trail = self._merged(node, path, trail)
        node = _encoded_otherwise(node)
        out: dict[str, Any] = {}
        for key, value in node.items():
            here = f"{path}.{key}" if path else key
            if key in GEMINI or key in _GEMINI_SNAKE:
                out[key] = self._under(key, value, here, trail)
            elif key not in ("$defs", "definitions"):  # inlined where they are used
                self.removed.append(here)
        self._name_choices(out, path)
        return self._pruned(out, path)

    def _name_choices(self, node: dict[str, Any], path: str) -> None:
        """Moves enums that are not strings to the description: Gemini's are strings (`Schema.enum` in its API).

        As strings they would come back as strings, which the schema does not allow.
        """
        choices = node.get("enum")
        if not isinstance(choices, list) or all(isinstance(choice, str) for choice in choices):
            return
        strings = [choice for choice in choices if isinstance(choice, str)]
        del node["enum"]
        if len(strings) == sum(choice is not None for choice in choices):
            node["nullable"] = True
            if strings:
                node["enum"] = strings
            return
        self.removed.append(f"{path}.enum" if path else "enum")
        named = f"One of: {', '.join(map(jsontext.compact, choices))}"
        node["description"] = f"{node['description']} {named}" if node.get("description") else named
        kinds = {_JSON_TYPES.get(type(choice)) for choice in choices}
        if "type" not in node and len(kinds) == 1 and None not in kinds:
            node["type"] = kinds.pop()

    def _under(self, key: str, value: Any, path: str, trail: tuple[str, ...]) -> Any:
        if key in _ONE and not isinstance(value, list):
            return self.node(value, path, trail)
        if (key in _MANY or key == "items") and isinstance(value, list):  # older drafts list the items of a tuple
            return [self.node(item, f"{path}[{at}]", trail) for at, item in enumerate(value)]
        if key in _NAMED and isinstance(value, dict):
            return {name: self.node(item, f"{path}.{name}", trail) for name, item in value.items()}
        return value

    def _resolved(
        self, node: dict[str, Any], path: str, trail: tuple[str, ...]
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The node with its reference inlined; one that recurses too often, or points nowhere, becomes any value."""
        while isinstance(reference := node.get("$ref"), str):
            node = {key: value for key, value in node.items() if key != "$ref"}
            found = find(self._root, reference)
            if found is None or trail.count(reference) >= _ROUNDS:
                self.removed.append(f"{path}.$ref" if path else "$ref")
                break
            # JSON Schema from 2019-09 on: keywords beside `$ref` count, too.
            node, trail = {**found, **node}, (*trail, reference)
        return node, trail

    def _merged(
        self, node: dict[str, Any], path: str, trail: tuple[str, ...]
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Merges the parts of `allOf` into the node; the first wins where they conflict."""
        parts = node.get("allOf")
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            return node, trail
        out = {key: value for key, value in node.items() if key != "allOf"}
        for at, part in enumerate(parts):
            here = f"{path}.allOf[{at}]" if path else f"allOf[{at}]"
            part, trail = self._resolved(part, here, trail)
            for key, value in part.items():
                pending = out.setdefault(key, value)
                if key == "properties" and isinstance(pending, dict) and isinstance(value, dict):
                    out[key] = {**value, **pending}
                elif key == "required" and isinstance(pending, list) and isinstance(value, list):
                    out[key] = pending + [name for name in value if name not in pending]
                elif pending != value and key not in ("$defs", "definitions"):
                    self.removed.append(f"{here}.{key}")
        return out, trail

    def _pruned(self, node: dict[str, Any], path: str) -> dict[str, Any]:
        """Limits `required` to existing `properties`."""
        # Gemini: "property is not defined" for a required name that `properties` lacks.
        required, properties = node.get("required"), node.get("properties")
        if not isinstance(required, list):
            return node
        known = properties if isinstance(properties, dict) else {}
        there = [name for name in required if isinstance(name, str) and name in known]
        if len(there) == len(required):
            return node
        self.removed.append(f"{path}.required" if path else "required")
        rest = {key: value for key, value in node.items() if key != "required"}
        return {**rest, "required": there} if there else rest


_JSON_TYPES = {bool: "boolean", int: "integer", float: "number"}


def find(root: dict[str, Any], reference: str) -> dict[str, Any] | None:
    """Returns the part of a schema that an internal reference points to."""
    if not reference.startswith("#"):
        return None
    node: Any = root
    for part in reference[1:].split("/")[1:]:
        # RFC 6901, 4: first `~1`, then `~0`, so that `~01` becomes `~1`.
        node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else None


def _encoded_otherwise(node: dict[str, Any]) -> dict[str, Any]:
    """Rewrites keywords that the target lacks as equivalent ones."""
    node = dict(node)
    if "const" in node and "enum" not in node:
        node["enum"] = [node.pop("const")]
    if "oneOf" in node and "anyOf" not in node:
        node["anyOf"] = node.pop("oneOf")
    return node


# --- strict schemas ---------------------------------------------------------------------------------------------------

# all required: OpenAI's structured outputs (platform.openai.com/docs/guides/structured-outputs). closed: Anthropic's
# (platform.claude.com/docs/en/build-with-claude/structured-outputs), where properties may be optional.
Strictness: TypeAlias = Literal["all required", "closed"]

_CORE = frozenset(
    {
        "type", "enum", "const", "description", "title", "properties", "required", "additionalProperties", "items",
        "anyOf", "$ref", "$defs", "definitions", "pattern", "format",
    }
)  # fmt: skip
_NUMBERS = frozenset({"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_KNOWN: dict[Strictness, frozenset[str]] = {
    "all required": _CORE | _NUMBERS | {"minItems", "maxItems"},
    "closed": _CORE | {"allOf", "default"},
}
# Annotations, which restrict nothing.
_NOTES = frozenset({"default", "examples", "$schema", "$id", "$comment", "deprecated", "readOnly", "writeOnly"})


def strict(schema: Any, rule: Strictness) -> tuple[Any, str | None]:
    """Returns an equivalent strict schema, or the schema and the reason why there is none."""
    if not isinstance(schema, dict):
        return schema, "it has no schema"
    if rule == "all required" and (schema.get("type") != "object" or not _MANY.isdisjoint(schema)):
        return schema, "it is not one object"
    closing = _Closing(schema, rule)
    closed = closing.node(schema, "")
    return (schema, closing.faults[0]) if closing.faults else (closed, None)


def closed(schema: Any) -> tuple[Any, list[str]]:
    """Returns the schema in the keywords that Anthropic supports for output, all objects closed; and the losses."""
    closing = _Closing(schema, "closed", forced=True)
    return closing.node(schema, ""), closing.faults


class _Closing:
    """One schema while it is made strict. `forced`: obstacles are dropped."""

    def __init__(self, root: Any, rule: Strictness, *, forced: bool = False) -> None:
        self._root = root
        self._rule = rule
        self._forced = forced
        self.faults: list[str] = []

    def node(self, node: Any, path: str) -> Any:
        if not isinstance(node, dict):
            return node
        if self._forced and "oneOf" in node and "anyOf" not in node:
            node = {("anyOf" if key == "oneOf" else key): value for key, value in node.items()}
        out: dict[str, Any] = {}
        for key, value in node.items():
            here = f"{path}.{key}" if path else key
            if key in _KNOWN[self._rule] or (key == "minItems" and value in (0, 1)):
                out[key] = self._under(key, value, here)
            elif key not in _NOTES:
                self.faults.append(here)
        self._check(node, path)
        if node.get("type") == "object" or "properties" in node:
            self._close(node, out, path)
        return out

    def _under(self, key: str, value: Any, path: str) -> Any:
        if key in _NAMED and isinstance(value, dict):
            return {name: self.node(item, f"{path}.{name}") for name, item in value.items()}
        if isinstance(value, list) and key in _MANY:
            return [self.node(item, f"{path}[{at}]") for at, item in enumerate(value)]
        return self.node(value, path) if key in _ONE else value

    def _check(self, node: dict[str, Any], path: str) -> None:
        reference = node.get("$ref")
        if self._rule == "all required":
            if reference is not None and len(node) > 1:
                self.faults.append(f"{path}.$ref" if path else "$ref")  # it must stand alone
            elif _CORE.isdisjoint(node.keys() - {"description", "title"}):
                self.faults.append(f"{path}.type" if path else "type")  # any value
        elif isinstance(reference, str) and not self._forced and _refers_to_itself(self._root, reference):
            self.faults.append(f"{path}.$ref" if path else "$ref")

    def _close(self, node: dict[str, Any], out: dict[str, Any], path: str) -> None:
        open_ended = node.get("additionalProperties", False)
        if open_ended is not False:
            self.faults.append(f"{path}.additionalProperties" if path else "additionalProperties")
        out["additionalProperties"] = False
        properties, given = node.get("properties") or {}, node.get("required")
        if not isinstance(given, list | None):
            self.faults.append(f"{path}.required" if path else "required")
            del out["required"]
            return
        required = list(given or ())
        if self._rule == "closed" or not isinstance(properties, dict):
            return
        for name, item in properties.items():
            if name not in required:
                required.append(name)
                if not takes_null(item):
                    self.faults.append(f"{path}.{name} is optional" if path else f"{name} is optional")
        out["required"] = required


def takes_null(schema: Any) -> bool:
    """Whether the schema itself allows null."""
    if not isinstance(schema, dict):
        return False
    kinds, choices, options = schema.get("type"), schema.get("enum"), schema.get("anyOf")
    if kinds == "null" or (isinstance(kinds, list) and "null" in kinds):
        return True
    if isinstance(choices, list) and None in choices:
        return True
    return isinstance(options, list) and any(takes_null(item) for item in options)


def _refers_to_itself(root: Any, reference: str) -> bool:
    seen: set[str] = set()
    waiting = [reference]
    while waiting:
        found = find(root, waiting.pop()) if isinstance(root, dict) else None
        for other in _references(found):
            if other == reference:
                return True
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return False


def _references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [other for item in value for other in _references(item)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
    return own + [other for item in value.values() for other in _references(item)]
