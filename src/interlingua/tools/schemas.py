"""Tool definitions for models: names, descriptions and JSON Schemas, adapted to each provider."""

from collections.abc import Iterable, Mapping
from typing import Any

from ..conversion import schemas
from ..dialects import WIRES
from ..dialects.registry import canonical
from ..values.errors import FormatError
from ..values.interop import attribute, attributes
from ..values.losses import Loss
from ..values.request import ToolSpec
from .tool import Tool, tool_of

# Keywords for other types than objects: meaningless at the root of a tool's schema.
_FOR_OTHER_TYPES = frozenset(
    {
        "minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
        "multipleOf", "minItems", "maxItems", "uniqueItems", "items",
    }
)  # fmt: skip


def extract_tool_schema(tool: Tool | Mapping[str, Any] | Any) -> ToolSpec:
    """The definition of a tool for a model that accepts any JSON Schema."""
    tool = tool_of(tool)
    return ToolSpec(name=tool.name, description=tool.description, input_schema=normalize_schema(tool.parameters))


def to_openrouter_schema(tool: Tool | ToolSpec | Mapping[str, Any]) -> dict[str, Any]:
    """The tool in the form of OpenAI and OpenRouter: `{"type": "function", "function": {…}}`, schema unchanged.

    Takes a tool, or its description with `name`, `description` and `input_schema`.
    """
    schema = attribute(tool, "input_schema", attribute(tool, "parameters", {"type": "object", "properties": {}}))
    about = attributes(tool, ("name", "description"))
    if not isinstance(about.get("name"), str):
        raise FormatError(f"not a tool: {tool!r}; give a name, a description and an input_schema")
    return {"type": "function", "function": {**about, "parameters": schema}}


def extract_tool_schemas(
    tools: Iterable[Tool | Mapping[str, Any] | Any], provider_or_api: str | None = None
) -> tuple[list[ToolSpec], list[Loss]]:
    """The tool definitions for a provider or api, in order, and the losses."""
    name = provider_or_api or ""
    wire = WIRES.get(canonical(name))
    specs: list[ToolSpec] = []
    losses: list[Loss] = []
    for at, tool in enumerate(tools):
        spec = extract_tool_schema(tool)
        fitted, removed = schemas.fit(spec.input_schema, wire.limits.schema if wire else "full")
        path = f"$.tools[{at}].input_schema"
        losses += [Loss(f"{path}.{place}", "schema", f"{provider_or_api} refuses it", "dropped") for place in removed]
        specs.append(ToolSpec(name=spec.name, description=spec.description, input_schema=fitted))
    return specs, losses


def clean_schema_for_gemini(schema: Any) -> Any:
    """The schema with the keywords that Gemini supports, references inlined; parameter names are never changed."""
    return schemas.fit(schema, "gemini")[0]


def normalize_schema(schema: Any) -> dict[str, Any]:
    """The schema as one of an object, which every provider requires for a tool. Returns a new value.

    A value that is no schema becomes an object without properties. Unlike the TypeScript function of clawtools, the
    result always has `properties`, which OpenAI requires, and a reference at the root is resolved, since no provider
    does that.
    """
    if not isinstance(schema, dict) or not schema:
        return {"type": "object", "properties": {}}
    schema = _dereferenced(schema)
    if schema.get("type") != "object":
        schema = {key: value for key, value in schema.items() if key not in _FOR_OTHER_TYPES}
    properties = schema.get("properties")
    return {**schema, "type": "object", "properties": properties if isinstance(properties, dict) else {}}


def _dereferenced(schema: dict[str, Any]) -> dict[str, Any]:
    seen: set[str] = set()
    while isinstance(reference := schema.get("$ref"), str):
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        if reference in seen:
            return rest
        seen.add(reference)
        found = schemas.find(schema, reference)
        if found is None:
            break
        schema = {**found, **rest}
    return schema
