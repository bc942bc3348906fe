"""Requests: the system prompt, tools, options, paths."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ...values.errors import BadWire
from ...values.losses import QUIET, SYSTEM, Reporter
from ...values.messages import TextBlock
from ...values.request import (
    Context,
    ModelDescriptor,
    Options,
    OutputSchema,
    Reasoning,
    Request,
    System,
    ToolChoice,
    ToolSpec,
)
from ..codec import (
    CONTEXT,
    USER,
    Given,
    Quirks,
    conversation_codec,
    is_usual,
    read_options,
    request_decoder,
    request_encoder,
    write_options,
)
from ..residual import (
    MESSAGE,
    an_object,
    encode_tools,
    fields_of,
    flag,
    keeping,
    optional,
    own_path,
    put_back,
    residual,
    restored,
    strings,
)
from .content import decode_content, decode_part, kind_of
from .facts import API, FIELD_SUPPORT, FORM, INPUT, OPTIONS, RETENTIONS, SERVICE, TEXT
from .messages import decode_messages, encode_messages, encoded_message

# --- wire to ours -----------------------------------------------------------------------------------------------------


@request_decoder(API)
def decode_request(body: Any, given: Given) -> Request:
    """A Responses request."""
    wire = an_object(body, API)
    context, hints = _decode_context(wire, given.api)
    is_plain = given == (API, None, None, None, None) and wire.get("model") and hints.keys() <= {INPUT}
    if is_plain and is_usual(wire, _USUAL_TEXT if hints else _USUAL):
        usual = Options(max_tokens=wire.get("max_output_tokens"), stream=wire.get("stream"))
        model, extra = ModelDescriptor(id=wire["model"], api=API), {API: hints} if hints else {}
        return Request(model=model, context=context, options=usual, extra=extra)
    text = wire.get("text")
    if text in ({}, {"format": {"type": "text"}}):  # which ask for nothing; other fields of it are unknown ones
        hints[TEXT] = text
    request = Request(
        model=given.model_of(wire.get("model")),
        context=context,
        options=_decode_options(wire, given),
        extra={API: hints} if hints else {},
    )
    # Items have residuals of their own.
    emitted = {**_message_type(given.quirks), **encode_body(request, [], QUIET)}
    return keeping(request, API, {**wire, "input": []} if "input" in wire else wire, emitted)


_USUAL = {"model": str, "input": list, "instructions": str, "max_output_tokens": int, "stream": bool}
_USUAL_TEXT = {**_USUAL, "input": str}


def _decode_context(wire: dict[str, Any], api: str) -> tuple[Context, dict[str, Any]]:
    given = wire.get("input", [])
    tools = _decode_tools(wire.get("tools"))
    system: System = optional(wire.get("instructions"))
    # …/responses/create, `input`: a string is one user message.
    if isinstance(given, str):
        user = replace(USER, extra={}, content=given)
        return replace(CONTEXT, extra={}, system=system, messages=(user,), tools=tools), {INPUT: True}
    if not isinstance(given, list):
        raise BadWire(API, f"expected text or a list of items, got {type(given).__name__}", "$.input")
    if system is not None or not given or not _is_prompt(given[0]):
        return replace(CONTEXT, extra={}, system=system, messages=decode_messages(given, api), tools=tools), {}
    # Without `instructions`, a first system message is the system prompt.
    role = given[0]["role"]
    content = decode_content(given[0]["content"])
    extra_fields = residual(given[0], encoded_message(role, content, QUIET))
    context = replace(
        CONTEXT,
        system=content,
        messages=decode_messages(given, api, 1),
        tools=tools,
        system_role=_prompt_role(given[0]),
        extra={API: {MESSAGE: extra_fields}} if extra_fields else {},
    )
    return context, {}


def _prompt_role(item: Mapping[str, Any]) -> str | None:
    """The role of a system prompt; for one in parts, which is always a message, only if it is not `system`."""
    role: str = item["role"]
    return None if role == "system" and isinstance(item["content"], list) else role


def _is_prompt(item: Any) -> bool:
    """Whether an item can be the system prompt: a system message with text only."""
    if not isinstance(item, dict) or kind_of(item) != "message" or item.get("role") not in ("system", "developer"):
        return False
    content = item.get("content")
    if isinstance(content, list):
        return all(isinstance(part, dict) and isinstance(decode_part(part), TextBlock) for part in content)
    return isinstance(content, str)


def _decode_tools(wire: Any) -> tuple[ToolSpec, ...] | None:
    if not isinstance(wire, list):
        return None
    return tuple(_decode_tool(an_object(tool, API, f"$.tools[{at}]")) for at, tool in enumerate(wire))


def _decode_tool(wire: dict[str, Any]) -> ToolSpec:
    name, kind = wire.get("name"), wire.get("type")
    # Functions are flat here, without the `function` object of Chat Completions; all other types are tools of OpenAI.
    if kind != "function" or not isinstance(name, str):
        return ToolSpec(name=name if isinstance(name, str) else str(kind), dialect=API, value=wire)
    tool = ToolSpec(
        name=name,
        description=optional(wire.get("description")),
        input_schema=wire.get("parameters"),
        strict=flag(wire.get("strict")),
    )
    return keeping(tool, API, wire, _encode_tool(tool))


def _decode_options(wire: dict[str, Any], given: Given) -> Options:
    metadata = wire.get("metadata")
    retention = wire.get("prompt_cache_retention")
    return Options(
        **read_options(wire, OPTIONS | SERVICE),
        reasoning=_decode_effort(wire.get("reasoning")),
        tool_choice=_decode_choice(wire.get("tool_choice")),
        output_schema=_decode_schema(wire.get("text")),
        cache_retention=RETENTIONS.get(retention) if isinstance(retention, str) else None,
        metadata=metadata if isinstance(metadata, dict) else None,
        stream=given.stream_of(wire),
    )


def _decode_effort(wire: Any) -> Reasoning | None:
    if not isinstance(wire, dict):
        return None
    effort = optional(wire.get("effort"))
    # platform.openai.com/docs/guides/reasoning: `none` is the lowest effort, that is no reasoning at all.
    off = effort == "none"
    return Reasoning(
        effort=None if off else effort, enabled=False if off else None, summary=optional(wire.get("summary"))
    )


def _decode_choice(wire: Any) -> ToolChoice | None:
    if wire in ("auto", "none", "required"):
        return ToolChoice(mode=wire)
    if not isinstance(wire, dict):
        return None
    match wire.get("type"):
        case "function" if isinstance(wire.get("name"), str):
            return ToolChoice(mode="required", names=(wire["name"],))
        # …/responses/create, `tool_choice`: `allowed_tools` has its mode and tools at the top, in Chat Completions
        # under its name.
        case "allowed_tools" if wire.get("mode") in ("auto", "required"):
            names = _decode_allowed(wire.get("tools"))
            if names is None:
                return None
            choice = ToolChoice(mode=wire["mode"], names=names)
            return choice if _is_list(choice) else replace(choice, extra={API: {FORM: "allowed_tools"}})
        case _:
            return None


def _decode_allowed(tools: Any) -> tuple[str, ...] | None:
    """The names of the allowed tools, if all are functions without further fields."""
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        return None
    names = strings([tool.get("name") for tool in tools])
    return names if names is not None and tools == _allowed(names) else None


def _decode_schema(text: Any) -> OutputSchema | None:
    given = text.get("format") if isinstance(text, dict) else None
    if not isinstance(given, dict):
        return None
    # …, `text.format`: the older JSON mode, which takes no schema.
    if given.get("type") == "json_object":
        return OutputSchema()
    if given.get("type") != "json_schema" or given.get("schema") is None:
        return None
    return OutputSchema(
        schema=given["schema"],
        name=optional(given.get("name")),
        description=optional(given.get("description")),
        strict=flag(given.get("strict")),
    )


# --- ours to wire -----------------------------------------------------------------------------------------------------


@request_encoder(API, FIELD_SUPPORT)
def encode_request(request: Request, report: Reporter, quirks: Quirks) -> dict[str, Any]:
    """The body of a Responses request."""
    context = request.context
    items: list[Any] = []
    if context.system is not None and _is_item(context):
        items.append(_encode_prompt(context, report))
    emitted = encode_messages(context.messages, report)
    if context.system is None and emitted and _is_prompt(emitted[0]):
        report.at("$.system", "system", "the first system message is the system prompt on this wire", "weakened")
        report.at("$.messages[0]", "message", "the first system message is the system prompt on this wire", "weakened")
        if context.system_role != _prompt_role(emitted[0]):
            report.at("$.systemRole", "system_role", "it is that of the first system message", "weakened")
    elif context.system is None and context.system_role is not None:
        report.at("$.systemRole", "system_role", "there is no system prompt", "record")
    body = {**_message_type(quirks), **encode_body(request, [*items, *emitted] if items else emitted, report)}
    return restored(body, request.extra, API) if request.extra else body


def _message_type(quirks: Quirks) -> dict[str, Any]:
    """The type of a request that is a message of a WebSocket."""
    return {"type": quirks["message"]} if quirks and "message" in quirks else {}


def _is_item(context: Context) -> bool:
    """Whether the system prompt is a message instead of `instructions`, a string without a role."""
    return context.system_role is not None or not isinstance(context.system, str)


def _encode_prompt(context: Context, report: Reporter) -> dict[str, Any]:
    report.root = SYSTEM
    wire = encoded_message(context.system_role or "system", context.system, report)
    report.root = ""
    if context.system_role is not None and context.system_role != _prompt_role(wire):
        report.at("$.systemRole", "system_role", "blocks are always sent in a system message", "record")
    return put_back(wire, context.extra.get(API, {}).get(MESSAGE, {})) if context.extra else wire


def encode_body(request: Request, items: list[Any], report: Reporter) -> dict[str, Any]:
    """The body without the residual of the request."""
    context, options = request.context, request.options
    extra_fields = request.extra.get(API, {}) if request.extra else {}
    body: dict[str, Any] = {}
    if request.model.id:
        body["model"] = request.model.id
    if context.system is not None and not _is_item(context):
        # …, `instructions`: text only, and not carried over to a response that continues this one.
        body["instructions"] = context.system
    body["input"] = items[0]["content"] if extra_fields.get(INPUT) and _is_string(items) else items
    if context.tools is not None:
        body["tools"] = encode_tools(context.tools, API, _encode_tool, report)
    if options.tool_choice is not None:
        body["tool_choice"] = _encode_choice(options.tool_choice, report)
    write_options(body, options, OPTIONS)
    if options.reasoning is not None:
        body["reasoning"] = _encode_effort(options.reasoning, report)
    if options.output_schema is not None or TEXT in extra_fields:
        body["text"] = dict(fields_of(extra_fields.get(TEXT, extra_fields.get("text"))))
        if options.output_schema is not None:
            body["text"]["format"] = _encode_schema(options.output_schema, report)
    _encode_service(body, options, report)
    return body


def _is_string(items: list[Any]) -> bool:
    """Whether the input is one plain user text."""
    if len(items) != 1 or not isinstance(items[0], dict) or items[0].keys() != {"role", "content"}:
        return False
    return items[0]["role"] == "user" and isinstance(items[0]["content"], str)


def _encode_service(body: dict[str, Any], options: Options, report: Reporter) -> None:
    if options.metadata is not None:
        # …, `metadata`: up to 16 strings under keys of up to 64 characters.
        body["metadata"] = options.metadata
    write_options(body, options, SERVICE)
    if options.cache_retention == "none":
        report.at("$.options.cacheRetention", "cache_retention", "the cache cannot be switched off", "weakened")
    elif options.cache_retention == "long":
        body["prompt_cache_retention"] = "24h"
    elif options.cache_retention is not None:  # newer models refuse `in_memory`; others do as the organization has set
        report.at("$.options.cacheRetention", "cache_retention", "the default needs no field", "record")
    if options.stream is not None:
        body["stream"] = options.stream


def _encode_tool(spec: ToolSpec) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "function", "name": spec.name}
    if spec.description is not None:
        wire["description"] = spec.description
    # …/responses/create, `tools`: `parameters` and `strict` are required, and may be null.
    wire["parameters"] = spec.input_schema
    wire["strict"] = spec.strict  # the default is true: platform.openai.com/docs/guides/function-calling, Strict mode
    return restored(wire, spec.extra, API) if spec.extra else wire


def _encode_choice(choice: ToolChoice, report: Reporter) -> Any:
    if choice.mode == "none" and choice.names:
        report.at("$.options.toolChoice.names", "tool_choice", "no tool at all cannot be narrowed", "weakened")
    elif _is_list(choice) or choice.extra.get(API, {}).get(FORM) == "allowed_tools":
        return {"type": "allowed_tools", "mode": choice.mode, "tools": _allowed(choice.names)}
    elif choice.names:
        return {"type": "function", "name": choice.names[0]}
    return choice.mode


def _allowed(names: tuple[str, ...]) -> list[Any]:
    return [{"type": "function", "name": name} for name in names]


def _is_list(choice: ToolChoice) -> bool:
    """Whether a choice needs `allowed_tools`."""
    return len(choice.names) > 1 or (choice.mode == "auto" and bool(choice.names))


def _encode_effort(reasoning: Reasoning, report: Reporter) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    if reasoning.enabled is False:
        wire["effort"] = "none"
        if reasoning.effort is not None:
            report.at("$.options.reasoning.effort", "effort", "reasoning is off", "record")
    elif reasoning.effort is not None:
        wire["effort"] = reasoning.effort
        if reasoning.effort == "none":
            report.at("$.options.reasoning", "reasoning", "no effort is reasoning switched off", "record")
    if reasoning.enabled:
        report.at("$.options.reasoning.enabled", "enabled", "models that reason do so by default", "record")
    if reasoning.summary is not None:
        wire["summary"] = reasoning.summary
    return wire


def _encode_schema(schema: OutputSchema, report: Reporter) -> dict[str, Any]:
    fields = {"name": schema.name, "description": schema.description, "strict": schema.strict}
    fields = {key: value for key, value in fields.items() if value is not None}
    if schema.schema is not None:
        return {"type": "json_schema", **fields, "schema": schema.schema}
    for key in fields:
        report.at(f"$.options.outputSchema.{key}", key, "belongs to a schema, and there is none")
    return {"type": "json_object"}


def path(model: str, stream: bool, *, quirks: Quirks = None) -> str:
    return own_path(quirks, model) or "/responses"


decode, encode = conversation_codec(API, decode_request, encode_request, "input")
