"""Custom tools: OpenAI's tools that take one free text instead of arguments.

In our format a call of such a tool has the single argument `input`. For targets without custom tools, a function with
that argument replaces it: calls come back in the same form, and go back to OpenAI as calls of the custom tool.
"""

from typing import Any

from msgspec.structs import replace

from ...dialects.limits import CustomTools
from ...dialects.registry import WIRES
from ...values.messages import ToolCall
from ...values.request import ToolSpec


def _form(api: str | None) -> CustomTools | None:
    """Returns how a wire writes custom tools; None if it has none."""
    wire = WIRES.get(api or "")
    return wire.limits.custom_form if wire is not None else None


def definition(tool: ToolSpec) -> dict[str, Any] | None:
    """Returns name, description and format of a custom tool, as on the Responses wire; None for any other tool."""
    value = tool.value
    if not isinstance(value, dict) or value.get("type") != "custom" or (form := _form(tool.dialect)) is None:
        return None
    if not form.nested:
        return {key: item for key, item in value.items() if key != "type"}
    inner = value.get("custom")
    if not isinstance(inner, dict):
        return None
    format = inner.get("format")
    if isinstance(format, dict) and isinstance(format.get("grammar"), dict):
        return {**inner, "format": {"type": "grammar", **format["grammar"]}}
    return dict(inner)


def respelled(tool: ToolSpec, api: str) -> ToolSpec:
    """Returns the custom tool in the form of OpenAI's other wire."""
    fields, written = definition(tool) or {}, _form(api)
    if written is None or not written.nested:
        return replace(tool, dialect=api, value={"type": "custom", **fields})
    form = fields.get("format")
    if isinstance(form, dict) and form.get("type") == "grammar":
        grammar = {key: item for key, item in form.items() if key != "type"}
        fields = {**fields, "format": {"type": "grammar", "grammar": grammar}}
    return replace(tool, dialect=api, value={"type": "custom", "custom": fields})


def as_function(tool: ToolSpec) -> ToolSpec:
    """Returns a function that takes the text as its only argument; a grammar goes into its description."""
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
    """Returns the call as a custom tool call on this wire, if it has exactly one text."""
    own, form = call.extra.get(api, {}), _form(api)
    if (
        form is None
        or call.arguments.keys() != {"input"}
        or not isinstance(call.arguments["input"], str)
        or own.items() >= form.mark.items()
    ):
        return call
    return replace(call, arguments_text=None, extra={**call.extra, api: {**own, **form.mark}})


def unmarked(call: ToolCall, api: str) -> ToolCall:
    """Returns the call as a function call on this wire."""
    own, form = call.extra.get(api, {}), _form(api)
    mark = form.mark if form is not None else {}
    rest = {key: item for key, item in own.items() if key not in mark or item != mark[key]}
    return call if rest == own else replace(call, extra={**call.extra, api: rest})
