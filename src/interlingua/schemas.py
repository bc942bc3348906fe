"""JSON Schemas made fit for a target. Works by position: a parameter that is *named* `pattern` is no keyword."""

from typing import Any

# Keys of a schema whose values are schemas, lists of schemas, or names mapped to schemas.
_ONE = frozenset({"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"})
_MANY = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})

GEMINI = frozenset(
    {
        "type", "format", "title", "description", "enum", "items", "prefixItems", "properties", "required", "anyOf",
        "minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength", "minProperties", "maxProperties",
        "pattern", "propertyOrdering", "additionalProperties", "default", "nullable",
    }
)  # fmt: skip

_ROUNDS = 2  # how often a schema that refers to itself is written out


def fit(schema: Any, rules: str) -> tuple[Any, list[str]]:
    """The schema for a target with these rules, and the places of what it cannot say. The source is not changed."""
    if rules != "gemini" or not isinstance(schema, dict):
        return schema, []
    fitting = _Fitting(schema)
    return fitting.node(schema, "", ()), fitting.removed


class _Fitting:
    """One schema, its references written out, in the words that Gemini knows."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self.removed: list[str] = []

    def node(self, node: Any, path: str, trail: tuple[str, ...]) -> Any:
        if not isinstance(node, dict):
            return node
        node, trail = self._resolved(node, path, trail)
        node, trail = self._merged(node, path, trail)
        node = _said_otherwise(node)
        out: dict[str, Any] = {}
        for key, value in node.items():
            here = f"{path}.{key}" if path else key
            if key in GEMINI:
                out[key] = self._under(key, value, here, trail)
            elif key not in ("$defs", "definitions"):  # written out where they are used
                self.removed.append(here)
        return self._pruned(out, path)

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
        """The node with what it refers to in its place; what refers to itself too often, or nowhere, is any value."""
        while isinstance(reference := node.get("$ref"), str):
            node = {key: value for key, value in node.items() if key != "$ref"}
            found = find(self._root, reference)
            if found is None or trail.count(reference) >= _ROUNDS:
                self.removed.append(f"{path}.$ref" if path else "$ref")
                break
            node, trail = {**found, **node}, (*trail, reference)
        return node, trail

    def _merged(
        self, node: dict[str, Any], path: str, trail: tuple[str, ...]
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The node with the parts of `allOf` in it; where they contradict each other, the first is right."""
        parts = node.get("allOf")
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            return node, trail
        out = {key: value for key, value in node.items() if key != "allOf"}
        for at, part in enumerate(parts):
            here = f"{path}.allOf[{at}]" if path else f"allOf[{at}]"
            part, trail = self._resolved(part, here, trail)
            for key, value in part.items():
                held = out.setdefault(key, value)
                if key == "properties" and isinstance(held, dict) and isinstance(value, dict):
                    out[key] = {**value, **held}
                elif key == "required" and isinstance(held, list) and isinstance(value, list):
                    out[key] = held + [name for name in value if name not in held]
                elif held != value and key not in ("$defs", "definitions"):
                    self.removed.append(f"{here}.{key}")
        return out, trail

    def _pruned(self, node: dict[str, Any], path: str) -> dict[str, Any]:
        """`required` lists only what `properties` has."""
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


def find(root: dict[str, Any], reference: str) -> dict[str, Any] | None:
    """The part of a schema that a reference inside it points at."""
    if not reference.startswith("#"):
        return None
    node: Any = root
    for part in reference[1:].split("/")[1:]:
        node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else None


def _said_otherwise(node: dict[str, Any]) -> dict[str, Any]:
    """Keywords that the target lacks and that another one says as well."""
    node = dict(node)
    if "const" in node and "enum" not in node:
        node["enum"] = [node.pop("const")]
    if "oneOf" in node and "anyOf" not in node:
        node["anyOf"] = node.pop("oneOf")
    return node
