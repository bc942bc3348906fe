"""Tools: names, custom tools, and schemas."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from ...values.errors import FormatError
from ...values.messages import ToolCall, ToolResultMessage
from ...values.request import OutputSchema, ToolSpec
from .. import schemas
from . import custom_tools
from .ids import fitting
from .work import Work


def rename_tools(work: Work) -> None:
    """Renames tools that the target refuses, in definitions, calls, results and the forced choice alike."""
    rule, taken = work.rules.names, {tool.name for tool in work.tools or ()}
    forward: dict[str, str] = {}
    allowed: set[str] = set()  # checked before: calls repeat the names of tools

    def allows(name: str) -> bool:
        if name in allowed:
            return True
        if rule.allows(name):
            allowed.add(name)
            return True
        return False

    def fit(name: str, path: str) -> str:
        if allows(name):
            return name
        if name not in forward:
            forward[name] = fitting(name, 0, rule, {*taken, *forward.values()})
            work.names[forward[name]] = name
        work.lost(path, "tool name", "not a name that the target takes")
        return forward[name]

    if work.tools is not None:
        work.tools = _named_once(work, fit)
        _mark_custom_calls(work)
        if not work.tools and not work.rules.empty_tools:
            work.lost("$.tools", "tools", "an empty list of tools is refused", "record")
            work.tools = None
    for turn in work.turns:
        used = turn.message.tool_name if isinstance(turn.message, ToolResultMessage) else None
        if used is not None and not allows(used):
            turn.set(tool_name=fit(used, f"{turn.path}.toolName" if turn.at is not None else ""))
        for at, block in enumerate(turn.blocks):
            if isinstance(block, ToolCall) and not allows(block.name):
                turn.put(at, replace(block, name=fit(block.name, f"{turn.places[at]}.name")))
    choice = work.options.tool_choice
    if choice is not None:
        names = tuple(fit(name, "$.options.toolChoice.names") for name in choice.names)
        work.options = replace(work.options, tool_choice=replace(choice, names=names))


def _named_once(work: Work, fit: Callable[[str, str], str]) -> tuple[ToolSpec, ...]:
    """Returns definitions with valid names; the first of duplicates, and none that only another provider can
    execute.
    """
    kept: dict[str, ToolSpec] = {}
    work.tool_places = []
    for place, tool in enumerate(work.tools or ()):
        path = f"$.tools[{place}]"
        tool = _fit_custom(tool, path, work)
        if tool.dialect is not None and tool.dialect != work.rules.api:
            work.lost(path, "tool", f"only {tool.dialect} can run it", "dropped")
        elif tool.name in kept:
            work.lost(path, "tool", f"another tool is called {tool.name}", "dropped")
        else:
            name = tool.name if tool.dialect else fit(tool.name, f"{path}.name")
            kept[tool.name] = tool if name == tool.name else replace(tool, name=name)
            work.tool_places.append(place)
    return tuple(kept.values())


def _fit_custom(tool: ToolSpec, path: str, work: Work) -> ToolSpec:
    """Converts a custom tool to the wire's form, or to a function with one text for other targets."""
    if custom_tools.definition(tool) is None:
        return tool
    api = work.rules.api
    if work.rules.custom_tools and work.home == "openai" and work.generation.custom_tools is not False:
        work.custom[tool.name] = api
        if tool.dialect == api:
            return tool
        work.lost(path, "tool", "written in the form of this wire", "record")
        return custom_tools.respelled(tool, api)
    work.custom[tool.name] = ""
    work.restored[tool.name] = tool.dialect or ""
    work.lost(path, "tool", "sent as a function that takes one text")
    return custom_tools.as_function(tool)


def _mark_custom_calls(work: Work) -> None:
    """Converts custom tool calls to the form in which the target has the tool."""
    for turn in work.turns if work.custom else ():
        for at, block in enumerate(turn.blocks):
            if isinstance(block, ToolCall) and block.name in work.custom:
                api = work.custom[block.name]
                call = custom_tools.marked(block, api) if api else custom_tools.unmarked(block, work.rules.api)
                if call is not block:
                    turn.put(at, call)


def fit_schemas(work: Work) -> None:
    if work.tools:
        work.tools = tuple(
            tool
            if tool.dialect
            else _with_strictness(
                _with_schema(tool, "input_schema", f"{work.tool(at)}.input_schema", work),
                "input_schema",
                work.tool(at),
                work,
            )
            for at, tool in enumerate(work.tools)
        )
    elif work.rules.tools_with_history and any(turn.calls for turn in work.turns):
        work.lost("$.tools", "tools", "calls in the history need definitions: bare ones were added")
        names = dict.fromkeys(call.name for turn in work.turns for call in turn.calls)
        work.tools = tuple(ToolSpec(name=name, input_schema={"type": "object"}) for name in names)
        work.tool_places = []
    output = work.options.output_schema
    if output is not None and work.generation.strict is False and work.rules.strict == "closed":
        work.lost("$.options.outputSchema", "schema", "the model takes no schema for its answer", "dropped")
        work.options = replace(work.options, output_schema=None)
    elif output is not None:
        fitted = _with_schema(output, "schema", "$.options.outputSchema.schema", work)
        fitted = _with_strictness(fitted, "schema", "$.options.outputSchema", work)
        if fitted is not output:
            work.options = replace(work.options, output_schema=fitted)


def _with_strictness(holder: Any, field: str, path: str, work: Work) -> Any:
    """Closes a strict schema where that changes nothing; otherwise drops `strict`."""
    rule = work.rules.strict
    if not holder.strict or rule is None:
        return holder
    if work.generation.strict is False:
        work.lost(f"{path}.strict", "strict", "the model does not know strict schemas")
        return replace(holder, strict=None)
    fitted, why = schemas.strict(getattr(holder, field), rule)
    if why is not None:
        work.lost(f"{path}.strict", "strict", f"sent without the claim: {why}")
        return replace(holder, strict=False)
    if fitted == getattr(holder, field):
        return holder
    work.lost(f"{path}.{field}", "schema", "closed, as a strict schema must be", "record")
    return replace(holder, **{field: fitted})


def _with_schema(holder: Any, field: str, path: str, work: Work) -> Any:
    schema = getattr(holder, field)
    if schema is not None and not (isinstance(schema, dict) and all(isinstance(key, str) for key in schema)):
        raise FormatError(f"a schema must be a JSON object, not {type(schema).__name__}", path)
    if work.rules.strict == "closed" and isinstance(holder, OutputSchema):
        fitted, removed = schemas.closed(schema)  # the output schema is always strict there
    else:
        fitted, removed = schemas.fit(schema, work.rules.schema)
    if work.rules.typed_tools and isinstance(holder, ToolSpec) and "type" not in (fitted or {}):
        fitted = {"type": "object", **(fitted or {})}
    if fitted == schema:
        return holder
    if removed:
        work.lost(path, "schema", f"the target refuses {', '.join(removed)}")
    else:
        work.lost(path, "schema", "written in the target's form", "record")
    return replace(holder, **{field: fitted})
