"""Custom tools: OpenAI's tools that take one free text instead of arguments.

A call of one has, in our format, the single argument `input`. Where a target has no such tools, a function with that
argument stands for it: its calls come back in the same form, and go back to OpenAI as calls of the custom tool.
"""

from typing import Any

from msgspec.structs import replace

from ...values.messages import ToolCall
from ...values.request import ToolSpec

RESPONSES, CHAT = "openai-responses", "openai-completions"
# How each wire notes in a call's `extra` that it is one of a custom tool.
_HINTS: dict[str, dict[str, Any]] = {RESPONSES: {"~type": "custom_tool_call"}, CHAT: {"~custom": True}}


def definition(tool: ToolSpec) -> dict[str, Any] | None:
    """Name, description and format of a custom tool, as the Responses wire has them; None for another tool."""
    value = tool.value
    if tool.dialect not in _HINTS or not isinstance(value, dict) or value.get("type") != "custom":
        return None
    if tool.dialect == RESPONSES:
        return {key: item for key, item in value.items() if key != "type"}
    inner = value.get("custom")
    if not isinstance(inner, dict):
        return None
    form = inner.get("format")
    if isinstance(form, dict) and isinstance(form.get("grammar"), dict):  # the chat wire nests the grammar
        return {**inner, "format": {"type": "grammar", **form["grammar"]}}
    return dict(inner)


def respelled(tool: ToolSpec, api: str) -> ToolSpec:
    """The custom tool in the words of OpenAI's other wire."""
    fields = definition(tool) or {}
    if api == RESPONSES:
        return replace(tool, dialect=api, value={"type": "custom", **fields})
    form = fields.get("format")
    if isinstance(form, dict) and form.get("type") == "grammar":
        grammar = {key: item for key, item in form.items() if key != "type"}
        fields = {**fields, "format": {"type": "grammar", "grammar": grammar}}
    return replace(tool, dialect=api, value={"type": "custom", "custom": fields})


def as_function(tool: ToolSpec) -> ToolSpec:
    """A function that takes the text as its one argument; a grammar for the text is told in words."""
    given = definition(tool) or {}
    text: dict[str, Any] = {"type": "string", "description": "The whole input, as free text."}
    form = given.get("format")
    if isinstance(form, dict) and isinstance(form.get("definition"), str):
        text["description"] = f"The whole input, in this {form.get('syntax') or ''} grammar:\n{form['definition']}"
    schema = {"type": "object", "properties": {"input": text}, "required": ["input"], "additionalProperties": False}
    description = given.get("description")
    return ToolSpec(
        name=tool.name,
        description=description if isinstance(description, str) else None,
        input_schema=schema,
        cache=tool.cache,
    )


def marked(call: ToolCall, api: str) -> ToolCall:
    """The call as one of a custom tool on this wire, if it has one text."""
    own, hint = call.extra.get(api, {}), _HINTS[api]
    if (
        call.arguments.keys() != {"input"}
        or not isinstance(call.arguments["input"], str)
        or own.items() >= hint.items()
    ):
        return call
    return replace(call, arguments_text=None, extra={**call.extra, api: {**own, **hint}})


def unmarked(call: ToolCall, api: str) -> ToolCall:
    """The call as one of a function on this wire."""
    own = call.extra.get(api, {})
    rest = {key: item for key, item in own.items() if key not in _HINTS.get(api, {}) or item != _HINTS[api][key]}
    return call if rest == own else replace(call, extra={**call.extra, api: rest})
