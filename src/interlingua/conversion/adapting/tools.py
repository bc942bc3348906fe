"""Tools: names, schemas, ids of calls, and custom tools (OpenAI's, which take one free text instead of arguments)."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Container
from typing import Any

from msgspec.structs import replace

from ...dialects.limits import CustomTools, NameRule
from ...dialects.registry import WIRES
from ...values.errors import FormatError
from ...values.messages import AssistantMessage, ToolCall, ToolResultMessage
from ...values.request import OutputSchema, ToolSpec
from .. import schemas
from .pairing import rows
from .work import EarlierIds, Turn, Work


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
    """Definitions with valid names; the first of duplicates, and none that only another provider can execute."""
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
    if custom_definition(tool) is None:
        return tool
    api = work.rules.api
    if work.rules.custom_tools and work.home == "openai" and work.generation.custom_tools is not False:
        work.custom[tool.name] = api
        if tool.dialect == api:
            return tool
        work.lost(path, "tool", "written in the form of this wire", "record")
        return respelled_custom(tool, api)
    work.custom[tool.name] = ""
    work.restored[tool.name] = tool.dialect or ""
    work.lost(path, "tool", "sent as a function that takes one text")
    return custom_as_function(tool)


def _mark_custom_calls(work: Work) -> None:
    """Converts custom tool calls to the form in which the target has the tool."""
    for turn in work.turns if work.custom else ():
        for at, block in enumerate(turn.blocks):
            if isinstance(block, ToolCall) and block.name in work.custom:
                api = work.custom[block.name]
                call = marked_custom(block, api) if api else unmarked_custom(block, work.rules.api)
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
    elif work.rules.tools_with_history:
        names = (call.name for turn in work.turns[work.before :] for call in turn.calls)
        work.called = {**work.called, **dict.fromkeys(names)}
        if work.called:
            work.lost("$.tools", "tools", "calls in the history need definitions: bare ones were added")
            work.tools = tuple(ToolSpec(name=name, input_schema={"type": "object"}) for name in work.called)
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


# --- custom tools -----------------------------------------------------------------------------------------------------
# In our format a call of such a tool has the single argument `input`. For targets without custom tools, a function with
# that argument replaces it: calls come back in the same form, and go back to OpenAI as calls of the custom tool.


def _form(api: str | None) -> CustomTools | None:
    """Returns how a wire writes custom tools; None if it has none."""
    wire = WIRES.get(api or "")
    return wire.limits.custom_form if wire is not None else None


def custom_definition(tool: ToolSpec) -> dict[str, Any] | None:
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


def respelled_custom(tool: ToolSpec, api: str) -> ToolSpec:
    """Returns the custom tool in the form of OpenAI's other wire."""
    fields, written = custom_definition(tool) or {}, _form(api)
    if written is None or not written.nested:
        return replace(tool, dialect=api, value={"type": "custom", **fields})
    form = fields.get("format")
    if isinstance(form, dict) and form.get("type") == "grammar":
        grammar = {key: item for key, item in form.items() if key != "type"}
        fields = {**fields, "format": {"type": "grammar", "grammar": grammar}}
    return replace(tool, dialect=api, value={"type": "custom", "custom": fields})


def custom_as_function(tool: ToolSpec) -> ToolSpec:
    """Returns a function that takes the text as its only argument; a grammar goes into its description."""
    given = custom_definition(tool) or {}
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


def marked_custom(call: ToolCall, api: str) -> ToolCall:
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


def unmarked_custom(call: ToolCall, api: str) -> ToolCall:
    """Returns the call as a function call on this wire."""
    own, form = call.extra.get(api, {}), _form(api)
    mark = form.mark if form is not None else {}
    rest = {key: item for key, item in own.items() if key not in mark or item != mark[key]}
    return call if rest == own else replace(call, extra={**call.extra, api: rest})


# --- ids of calls -----------------------------------------------------------------------------------------------------


class _Used:
    """The ids that no further call may have."""

    def __init__(self, earlier: EarlierIds | None) -> None:
        self._own = set[str]()
        self._earlier = () if earlier is None else earlier

    def __contains__(self, id: object) -> bool:
        return id in self._own or id in self._earlier

    def add(self, id: str) -> None:
        self._own.add(id)


# Anthropic's and Bedrock's ids match [a-zA-Z0-9_-] (platform.claude.com/docs/en/api/messages, `tool_use.id`;
# docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolUseBlock.html), OpenAI refuses long ones ("string too
# long"), Mistral wants nine letters or digits ("must be a-z, A-Z, 0-9, with a length of 9").
def rename_ids(work: Work) -> None:
    """Renames call ids that the target refuses: deterministic, unique and never empty; results follow their calls."""
    earlier = work.earlier.ids if work.earlier is not None and work.rules.ids is not None else None
    used, seen = _Used(earlier), Counter[str]()
    pending: list[tuple[str, str]] = []
    step = 0
    for row, turn in rows(work.turns):
        if isinstance(turn.message, ToolResultMessage):
            _follow(turn, pending, work)
        if not isinstance(turn.message, AssistantMessage):
            continue
        if row != step:
            step, pending = row, []
            if work.rules.ids is None:  # these wires pair within the step
                used, seen = _Used(None), Counter()
        for at, block in enumerate(turn.blocks):
            if isinstance(block, ToolCall):
                count = seen[block.id] + (0 if earlier is None else earlier.count(block.id))
                new = fitting(block.id, count, work.rules.ids, used)
                seen[block.id] += 1
                used.add(new)
                pending.append((block.id, new))
                if new != block.id:
                    work.ids[new] = block.id
                    work.lost(f"{turn.places[at]}.id", "id", "the target does not accept this id")
                    turn.put(at, replace(block, id=new))


def _follow(turn: Turn, pending: list[tuple[str, str]], work: Work) -> None:
    # In order, one result per call: ids that repeat within a step are told apart by it.
    for place, (old, new) in enumerate(pending):
        if old == turn.message.tool_call_id:
            del pending[place]
            if old != new:
                if turn.at is not None:
                    work.lost(f"{turn.path}.toolCallId", "id", "follows the id of its call")
                turn.set(tool_call_id=new)
            return


_ANY_ID = NameRule(r"[A-Za-z0-9_-]+", 64)


def fitting(name: str, nth: int, rule: NameRule | None, used: Container[str]) -> str:
    if name and name not in used and (rule is None or rule.allows(name)):
        return name
    attempt = 0
    while (new := _hashed(name, f"{nth}.{attempt}", rule or _ANY_ID)) in used:
        attempt += 1
    return new


def _hashed(name: str, salt: str, rule: NameRule) -> str:
    """A valid name for an invalid one: its readable part and a hash, so that truncation causes no collisions."""
    # The same name for the same source in every request: caches of the prefix depend on it.
    digest = hashlib.blake2s(f"{salt}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()
    readable = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[: max(0, rule.max_length - 13)]
    for new in (f"{readable}_{digest[:12]}" if readable else "", f"call_{digest[:12]}"):
        if rule.allows(new):
            return new
    return digest[: rule.max_length]
