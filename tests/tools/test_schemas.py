"""What models are told of tools."""

import json
from typing import Any

import pytest

from interlingua.tools.schemas import (
    clean_schema_for_gemini,
    extract_tool_schema,
    extract_tool_schemas,
    normalize_schema,
)
from interlingua.tools.tool import Tool, ToolResult
from interlingua.values.request import ToolSpec

EMPTY = {"type": "object", "properties": {}}
STRICT = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "description": "what",
    "properties": {
        "pattern": {"type": "string", "examples": ["x"], "exclusiveMinimum": 3},
        "format": {"type": "array", "items": {"type": "string", "$comment": "no"}},
        "default": {"$ref": "#/$defs/Node", "default": {"examples": ["kept, this is a value"]}},
    },
    "required": ["pattern", "format", "nowhere"],
    "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
}


def tool(parameters: Any, name: str = "t") -> Tool:
    async def execute(*_: Any) -> ToolResult:
        return ToolResult()

    return Tool(name=name, description=f"does {name}", parameters=parameters, execute=execute)


def test_a_tool_is_offered_with_name_words_and_schema() -> None:
    """The schema is that of an object, as it was given."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    assert ToolSpec(name="t", description="does t", input_schema=schema) == extract_tool_schema(tool(schema))


NORMALIZED: list[tuple[Any, Any]] = [
    (None, EMPTY),
    ({}, EMPTY),
    ("string", EMPTY),
    (True, EMPTY),
    ([1], EMPTY),
    ({"type": "object"}, EMPTY),
    ({"type": "object", "properties": None}, EMPTY),
    ({"type": "string", "minLength": 1, "description": "d"}, {**EMPTY, "description": "d"}),
    ({"type": "array", "items": {"type": "string"}, "maxItems": 2}, EMPTY),
    ({"type": ["object", "null"], "properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
    ({"properties": {"a": {}}, "required": ["a"]}, {"type": "object", "properties": {"a": {}}, "required": ["a"]}),
    ({"anyOf": [{"required": ["a"]}]}, {**EMPTY, "anyOf": [{"required": ["a"]}]}),
    (
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"a": {}}}}},
        {"type": "object", "properties": {"a": {}}, "$defs": {"A": {"type": "object", "properties": {"a": {}}}}},
    ),
    ({"$ref": "#"}, {**EMPTY}),
    ({"$ref": "#/nowhere"}, {**EMPTY, "$ref": "#/nowhere"}),
]


@pytest.mark.parametrize(("schema", "expected"), NORMALIZED)
def test_any_schema_becomes_one_of_an_object(schema: Any, expected: Any) -> None:
    """With its properties if it had any, without words that are about other types."""
    before = json.dumps(schema)
    assert expected == normalize_schema(schema)
    assert before == json.dumps(schema)


def test_tools_are_offered_in_their_order() -> None:
    """One each; none of none."""
    specs, losses = extract_tool_schemas([tool({}, "b"), tool({}, "a")])
    assert (["b", "a"], []) == ([spec.name for spec in specs], losses)
    assert ([], []) == extract_tool_schemas([])


GOOGLE = ["google", "google-generative-ai", "google-gemini-cli", "google-vertex", "google-antigravity"]


@pytest.mark.parametrize("target", GOOGLE)
def test_case_73_74_75_76_schemas_are_fitted_for_google_and_what_is_removed_is_reported(target: str) -> None:
    """References written out, unknown words out at every depth, names of parameters and values untouched."""
    before = json.dumps(STRICT)
    (spec,), losses = extract_tool_schemas([tool(STRICT)], target)
    schema = spec.input_schema
    assert ["pattern", "format", "default"] == list(schema["properties"])
    assert ["pattern", "format"] == schema["required"]
    assert {"type": "string"} == schema["properties"]["pattern"]
    assert {"type": "array", "items": {"type": "string"}} == schema["properties"]["format"]
    assert {"examples": ["kept, this is a value"]} == schema["properties"]["default"]["default"]
    assert "object" == schema["properties"]["default"]["type"]
    assert not any(word in json.dumps(schema) for word in ("$ref", "$defs", "$schema", "$comment"))
    assert {
        "$.tools[0].input_schema.$schema",
        "$.tools[0].input_schema.properties.pattern.examples",
        "$.tools[0].input_schema.properties.pattern.exclusiveMinimum",
        "$.tools[0].input_schema.properties.format.items.$comment",
        "$.tools[0].input_schema.required",
    } <= {loss.path for loss in losses}
    assert {"dropped"} == {loss.severity for loss in losses}
    assert before == json.dumps(STRICT)


@pytest.mark.parametrize(
    "target", [None, "anthropic", "anthropic-messages", "openai-completions", "ollama-chat", "new"]
)
def test_schemas_are_left_alone_for_those_who_take_them(target: str | None) -> None:
    """What is not known to be refused is said."""
    (spec,), losses = extract_tool_schemas([tool(STRICT)], target)
    assert (STRICT, []) == (spec.input_schema, losses)


CLEANED: list[tuple[Any, Any]] = [
    ({"type": "object", "$schema": "x", "$id": "y"}, {"type": "object"}),
    ({"type": "string", "minLength": 1, "maxLength": 2}, {"type": "string", "minLength": 1, "maxLength": 2}),
    ({"type": "object", "additionalProperties": False}, {"type": "object", "additionalProperties": False}),
    (
        {"type": "object", "properties": {"a": {"not": {}, "description": "d"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"description": "d"}}, "required": ["a"]},
    ),
    ({"type": "array", "items": {"if": {}, "type": "string"}}, {"type": "array", "items": {"type": "string"}}),
    (
        {"type": "array", "items": [{"const": 1}, {"contains": {}}]},
        {"type": "array", "items": [{"type": "integer", "description": "One of: 1"}, {}]},
    ),
    ({"oneOf": [{"const": "a"}, {"type": "null"}]}, {"anyOf": [{"enum": ["a"]}, {"type": "null"}]}),
    ({"enum": [{"$ref": "a value"}]}, {"description": 'One of: {"$ref":"a value"}'}),
]


@pytest.mark.parametrize(("schema", "expected"), CLEANED)
def test_case_74_77_schemas_are_cleaned_for_gemini(schema: Any, expected: Any) -> None:
    """At every depth, and only of what Gemini's JSON Schema does not know: lengths and bounds stay."""
    assert expected == clean_schema_for_gemini(schema)
