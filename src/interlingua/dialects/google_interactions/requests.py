"""Requests: the input, tools, options, paths."""

from collections.abc import Mapping
from typing import Any

from ...values.losses import QUIET, SYSTEM, Reporter
from ...values.messages import Message, text_of
from ...values.request import (
    Context,
    Options,
    OutputSchema,
    Reasoning,
    Request,
    System,
    ToolChoice,
    ToolSpec,
)
from ..codec import Given, Quirks, conversation_codec, read_options, request_decoder, request_encoder, write_options
from ..residual import (
    HINTS,
    Mint,
    an_object,
    decode_tools,
    encode_tools,
    fields_of,
    keeping,
    optional,
    own_path,
    residual_of,
    restored,
    strings,
    with_residual,
)
from .facts import AGENT, API, CHOICES, CONFIG, CONTENTS, FIELD_SUPPORT, INPUT, JSON, MODES
from .messages import decode_messages, encode_messages, text_alone


@request_decoder(API)
def decode_request(body: Any, given: Given) -> Request:
    """A request for an interaction. `mint` generates ids for calls without one."""
    wire = an_object(body, API)
    # ai.google.dev/api/interactions-api: a request names a model or an agent, which has its own model and tools.
    agent = optional(wire.get("agent"))
    asks_agent = agent is not None and "model" not in wire
    messages, form = _decode_input(wire.get("input"), given.api, given.mint)
    request = Request(
        model=given.model_of(agent if asks_agent else wire.get("model")),
        context=Context(
            system=optional(wire.get("system_instruction")),
            messages=messages,
            tools=decode_tools(wire.get("tools"), API, _decode_tool),
        ),
        options=_decode_options(wire, given),
    )
    if asks_agent and request.model.id == agent:
        request = with_residual(request, API, **{AGENT: agent})
    if form is not None:
        request = with_residual(request, API, **{INPUT: form})
    emitted = _encode_body(request, QUIET)
    if fields_of(wire.get("generation_config")):
        emitted.setdefault("generation_config", {})  # so that its unknown fields become a nested residual
    own = [key for key, kind in _OWN.items() if isinstance(wire.get(key), kind)]
    return keeping(request, API, wire, emitted, own)


_OWN: dict[str, Any] = {"input": str | list | dict, "tools": list}  # fields whose items have residuals of their own


def _decode_input(wire: Any, api: str, mint: Mint | None) -> tuple[tuple[Message, ...], str | None]:
    """The messages, and the form of an input that is not a list of steps (`InteractionsInput`)."""
    if isinstance(wire, str):
        return decode_messages([_step([{"type": "text", "text": wire}])], api, mint), "text"
    if isinstance(wire, dict):
        return decode_messages([_step([wire])], api, mint), "content"
    if not isinstance(wire, list):
        return (), None
    if wire and all(fields_of(item).get("type") in CONTENTS for item in wire):
        return decode_messages([_step(wire)], api, mint), "contents"
    return decode_messages(wire, api, mint), None


def _step(contents: list[Any]) -> dict[str, Any]:
    return {"type": "user_input", "content": contents}


def _decode_tool(wire: Any) -> ToolSpec:
    kind, name = an_object(wire, API).get("type"), wire.get("name")
    # `Tool`: a function of the client, or a tool of Google's or an MCP server by type.
    if kind != "function" or not isinstance(name, str):
        return ToolSpec(name=str(kind), dialect=API, value=wire)
    tool = ToolSpec(name=name, description=optional(wire.get("description")), input_schema=wire.get("parameters"))
    return keeping(tool, API, wire, _encode_tool(tool))


def _decode_options(wire: dict[str, Any], given: Given) -> Options:
    config = fields_of(wire.get("generation_config"))
    return Options(
        **read_options(config, CONFIG),
        reasoning=_decode_reasoning(config),
        tool_choice=_decode_choice(config.get("tool_choice")),
        output_schema=_decode_schema(wire),
        service_tier=optional(wire.get("service_tier")),
        stream=given.stream_of(wire),
    )


def _decode_reasoning(config: Mapping[str, Any]) -> Reasoning | None:
    level, summaries = optional(config.get("thinking_level")), config.get("thinking_summaries")
    summary = summaries if summaries in ("auto", "none") else None
    return None if level is None and summary is None else Reasoning(effort=level, summary=summary)


def _decode_choice(wire: Any) -> ToolChoice | None:
    # `ToolChoiceConfig`: only `allowed_tools`, with a mode and names; a mode alone is a string.
    allowed = fields_of(fields_of(wire).get("allowed_tools"))
    given = allowed.get("mode", "auto") if allowed else wire
    mode = MODES.get(given) if isinstance(given, str) else None
    if mode is None:
        return None
    names = strings(allowed.get("tools")) if mode != "none" else None
    return ToolChoice(mode=mode, names=names or ())


def _decode_schema(wire: Mapping[str, Any]) -> OutputSchema | None:
    """The text format, alone or in a list by modality; in the first revision, the schema itself."""
    given = wire.get("response_format")
    for item in given if isinstance(given, list) else [given]:
        form = fields_of(item)
        if form.get("type") == "text" and form.get("mime_type") == JSON:
            return OutputSchema(schema=form.get("schema"))
    if wire.get("response_mime_type") == JSON:
        return OutputSchema(schema=given if isinstance(given, dict) else None)
    return None


# --- ours to wire ----------------------------------------------------------------------------------------------------


@request_encoder(API, FIELD_SUPPORT)
def encode_request(request: Request, report: Reporter, quirks: Quirks) -> dict[str, Any]:
    """The body of a request for an interaction."""
    body = _encode_body(request, report)
    if "in" in residual_of(request.extra, API).get(HINTS, {}).get("generation_config", {}):
        body.setdefault("generation_config", {})
    return restored(body, request.extra, API)


def _encode_body(request: Request, report: Reporter) -> dict[str, Any]:
    context, options, hints = request.context, request.options, residual_of(request.extra, API)
    body: dict[str, Any] = {}
    if request.model.id:
        body["agent" if hints.get(AGENT) == request.model.id else "model"] = request.model.id
    body["input"] = _shaped(encode_messages(context.messages, report), hints.get(INPUT))
    if context.system is not None:
        body["system_instruction"] = _encode_system(context.system, report)
    if context.tools is not None:
        body["tools"] = encode_tools(context.tools, API, _encode_tool, report)
    config = _encode_config(options, report)
    if config:
        body["generation_config"] = config
    if options.output_schema is not None:
        schema = options.output_schema.schema
        body["response_format"] = {
            "type": "text",
            "mime_type": JSON,
            **({} if schema is None else {"schema": schema}),
        }
    if options.service_tier is not None:
        body["service_tier"] = options.service_tier
    if options.stream is not None:
        body["stream"] = options.stream
    return body


def _shaped(steps: list[Any], form: str | None) -> Any:
    """The input in its original form, if that still fits."""
    step = fields_of(steps[0]) if len(steps) == 1 else {}
    if form is None or step.keys() != {"type", "content"} or step["type"] != "user_input":
        return steps
    contents = step["content"]
    if form == "contents":
        return contents if contents and all(fields_of(item).get("type") in CONTENTS for item in contents) else steps
    if form == "content":
        return contents[0] if len(contents) == 1 else steps
    text = text_alone(contents)
    return steps if text is None else text


def _encode_system(system: System, report: Reporter) -> str:
    if not isinstance(system, str):
        joined = len(system or ()) > 1
        report.at(SYSTEM, "system", "the system instruction is one string", "weakened" if joined else "record")
    return text_of(system)


def _encode_tool(spec: ToolSpec) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "function", "name": spec.name}
    if spec.description is not None:
        wire["description"] = spec.description
    if spec.input_schema is not None:
        wire["parameters"] = spec.input_schema
    return restored(wire, spec.extra, API) if spec.extra else wire


def _encode_config(options: Options, report: Reporter) -> dict[str, Any]:
    config: dict[str, Any] = {}
    write_options(config, options, CONFIG)
    if options.reasoning is not None:
        config |= _encode_reasoning(options.reasoning, report)
    if options.tool_choice is not None:
        config["tool_choice"] = _encode_choice(options.tool_choice, report)
    return config


def _encode_reasoning(reasoning: Reasoning, report: Reporter) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    if reasoning.effort is not None:
        wire["thinking_level"] = reasoning.effort
    if reasoning.summary is not None:
        # `ThinkingSummaries`: `auto` or `none`.
        wire["thinking_summaries"] = "none" if reasoning.summary == "none" else "auto"
        if reasoning.summary not in ("auto", "none"):
            report.at("$.options.reasoning.summary", "summary", "summaries have no degrees", "weakened")
    if not wire:
        report.at("$.options.reasoning", "reasoning", "how much to think is a level on this wire", "weakened")
    return wire


def _encode_choice(choice: ToolChoice, report: Reporter) -> Any:
    mode = CHOICES[choice.mode]
    if not choice.names:
        return mode
    if choice.mode == "none":
        report.at("$.options.toolChoice.names", "tool_choice", "no tool is no tool", "weakened")
        return mode
    return {"allowed_tools": {"mode": mode, "tools": list(choice.names)}}


def path(model: str, stream: bool, *, quirks: Quirks = None) -> str:
    # The model and the choice to stream are in the body.
    return own_path(quirks, model) or "/interactions"


decode, encode = conversation_codec(API, decode_request, encode_request, "input")
