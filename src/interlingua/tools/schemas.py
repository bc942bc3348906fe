"""What the model is told of tools: their names, words and schemas, fitted to who reads them."""

from collections.abc import Iterable, Mapping
from typing import Any

from ..conversion import schemas
from ..dialects import WIRES
from ..values.errors import FormatError
from ..values.interop import attribute, attributes
from ..values.losses import Loss
from ..values.request import ToolSpec
from .tool import Tool, tool_of

# Words about values that are no objects: at the root of a tool's schema they mean nothing.
_FOR_OTHER_TYPES = frozenset(
    {
        "minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
        "multipleOf", "minItems", "maxItems", "uniqueItems", "items",
    }
)  # fmt: skip


def extract_tool_schema(tool: Tool | Mapping[str, Any] | Any) -> ToolSpec:
    """The tool as it is offered to a model that takes any JSON Schema."""
    tool = tool_of(tool)
    return ToolSpec(name=tool.name, description=tool.description, input_schema=normalize_schema(tool.parameters))


def to_openrouter_schema(tool: Tool | ToolSpec | Mapping[str, Any]) -> dict[str, Any]:
    """The tool as OpenAI and OpenRouter want it: `{"type": "function", "function": {…}}`, the schema as it is.

    Takes a tool, or its description with `name`, `description` and `input_schema`.
    """
    schema = attribute(tool, "input_schema", attribute(tool, "parameters", {"type": "object", "properties": {}}))
    about = attributes(tool, ("name", "description"))
    if not isinstance(about.get("name"), str):
        raise FormatError(f"{tool!r} is no tool; give a name, a description and an input_schema")
    return {"type": "function", "function": {**about, "parameters": schema}}


def extract_tool_schemas(
    tools: Iterable[Tool | Mapping[str, Any] | Any], provider_or_api: str | None = None
) -> tuple[list[ToolSpec], list[Loss]]:
    """The tools as they are offered to this provider or api, in their order, and what it could not be told."""
    name = provider_or_api or ""
    wire = WIRES.get(name) or next((wire for wire in WIRES.values() if name in wire.aliases), None)
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
    """The schema in the words that Gemini knows, references written out; names of parameters are never touched."""
    return schemas.fit(schema, "gemini")[0]


def normalize_schema(schema: Any) -> dict[str, Any]:
    """A schema of an object, which is what every provider wants a tool to take. The source is not changed.

    What is no schema is an object without properties; what is a schema of something else becomes one of an object.
    Unlike the TypeScript function, it always gives `properties`, which OpenAI insists on, and it follows a reference
    at the root, where no provider does.
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
