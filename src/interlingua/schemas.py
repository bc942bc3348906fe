"""JSON Schemas made fit for a target. Works by position: a parameter that is *named* `pattern` is no keyword."""

from typing import Any

from .losses import Reporter

# Keys of a schema whose values are schemas, lists of schemas, or names mapped to schemas.
_ONE = frozenset({"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"})
_MANY = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})

GEMINI = frozenset(
    {
        "type", "format", "title", "description", "nullable", "enum", "items", "prefixItems", "properties", "required",
        "anyOf", "minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength", "minProperties",
        "maxProperties", "pattern", "propertyOrdering", "additionalProperties", "default", "example",
    }
)  # fmt: skip

_DEPTH = 8  # how often a schema that refers to itself is unrolled


def fit(schema: Any, rules: str, report: Reporter, path: str) -> Any:
    """The schema for a target with these rules; what was removed is reported. The source is not changed."""
    if rules != "gemini" or not isinstance(schema, dict):
        return schema
    return _gemini(inlined(schema), report, path)


def inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without `$ref`: definitions in place, a recursive one cut off after a few rounds as any value."""
    out = _inline(schema, schema, ())
    return {k: v for k, v in out.items() if k not in ("$defs", "definitions")}


def _inline(node: Any, root: dict[str, Any], trail: tuple[str, ...]) -> Any:
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if isinstance(reference, str):
        rest = {k: v for k, v in node.items() if k != "$ref"}
        found = _resolve(root, reference)
        if found is None or trail.count(reference) >= _DEPTH // 4 or len(trail) >= _DEPTH:
            return _inline(rest, root, trail)
        return _inline({**found, **rest}, root, (*trail, reference))
    return {key: _inline_at(key, value, root, trail) for key, value in node.items()}


def _inline_at(key: str, value: Any, root: dict[str, Any], trail: tuple[str, ...]) -> Any:
    if key in ("$defs", "definitions"):
        return value
    if key in _ONE:
        return _inline(value, root, trail)
    if key in _MANY and isinstance(value, list):
        return [_inline(item, root, trail) for item in value]
    if key in _NAMED and isinstance(value, dict):
        return {name: _inline(item, root, trail) for name, item in value.items()}
    return value


def _resolve(root: dict[str, Any], reference: str) -> dict[str, Any] | None:
    if not reference.startswith("#"):
        return None
    node: Any = root
    for part in reference[1:].split("/")[1:]:
        node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node if isinstance(node, dict) and node is not root else None


def _gemini(node: Any, report: Reporter, path: str) -> Any:
    if not isinstance(node, dict):
        return node
    node = _said_otherwise(node)
    out: dict[str, Any] = {}
    for key, value in node.items():
        if key not in GEMINI:
            report.at(f"{path}.{key}", key, "the target refuses this keyword", "weakened")
        else:
            out[key] = _gemini_at(key, value, report, f"{path}.{key}")
    return _pruned(out, report, path)


def _gemini_at(key: str, value: Any, report: Reporter, path: str) -> Any:
    if key in _ONE:
        return _gemini(value, report, path)
    if key in _MANY and isinstance(value, list):
        return [_gemini(item, report, f"{path}[{at}]") for at, item in enumerate(value)]
    if key in _NAMED and isinstance(value, dict):
        return {name: _gemini(item, report, f"{path}.{name}") for name, item in value.items()}
    return value


def _said_otherwise(node: dict[str, Any]) -> dict[str, Any]:
    """Keywords that the target lacks and that another one says as well."""
    node = dict(node)
    if "const" in node:
        node.setdefault("enum", [node.pop("const")])
        node.pop("const", None)
    if "oneOf" in node and "anyOf" not in node:
        node["anyOf"] = node.pop("oneOf")
    kinds = node.get("type")
    if isinstance(kinds, list):
        solid = [kind for kind in kinds if kind != "null"]
        if "null" in kinds:
            node["nullable"] = True
        if len(solid) == 1:
            node["type"] = solid[0]
        elif solid:
            del node["type"]
            node["anyOf"] = [{"type": kind} for kind in solid]
    parts = node.get("allOf")
    if isinstance(parts, list) and all(isinstance(part, dict) for part in parts):
        del node["allOf"]
        node = _merged([node, *parts])
    return node


def _merged(parts: list[dict[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            if key == "properties" and isinstance(out.get(key), dict):
                out[key] = {**out[key], **value}
            elif key == "required" and isinstance(out.get(key), list):
                out[key] = out[key] + [name for name in value if name not in out[key]]
            else:
                out.setdefault(key, value)
    return out


def _pruned(node: dict[str, Any], report: Reporter, path: str) -> dict[str, Any]:
    """`required` lists only what `properties` has."""
    required, properties = node.get("required"), node.get("properties")
    if not isinstance(required, list):
        return node
    known = properties if isinstance(properties, dict) else {}
    there = [name for name in required if name in known]
    if len(there) == len(required):
        return node
    report.at(f"{path}.required", "required", "names parameters that the schema does not have", "weakened")
    return {**{k: v for k, v in node.items() if k != "required"}, **({"required": there} if there else {})}
