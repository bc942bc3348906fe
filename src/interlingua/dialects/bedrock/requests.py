"""Requests: tools, options, paths."""

from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import FormatError
from ...values.losses import QUIET, SYSTEM, Reporter, own_fields
from ...values.messages import TextBlock
from ...values.request import (
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
    an_object,
    fields_of,
    flag,
    keeping,
    optional,
    own_path,
    residual_of,
    restored,
    string,
    whole,
    with_residual,
)
from .content import (
    decode_block,
    decode_cache,
    decode_messages,
    encode_block,
    encode_cache,
    encode_messages,
    takes_cache,
    with_points,
)
from .facts import API, EFFORT, FIELD, FIELD_SUPPORT, INFERENCE, NOVA, OFF_VALUE, SPELLED, SUMMARIZED


@request_decoder(API)
def decode_request(body: Any, given: Given) -> Request:
    """A Converse request. `model` and `stream` are in the path; a boto3 call has `modelId` beside the body."""
    wire = an_object(body, API)
    config = fields_of(wire.get("toolConfig"))
    context = replace(
        CONTEXT,
        system=_decode_system(wire.get("system")),
        messages=decode_messages(wire["messages"], given.api) if "messages" in wire else (),
        tools=_decode_tools(config.get("tools")),
        extra={},
    )
    model = given.model_of(wire.get("modelId"))
    if "messages" in wire and given.quirks is None and is_usual(wire, _USUAL):
        inference = wire.get("inferenceConfig")
        if inference is None:
            return Request(model=model, context=context, options=Options(stream=given.stream))
        if inference and is_usual(inference, _USUAL_INFERENCE):
            length, temperature, top_p = map(inference.get, _USUAL_INFERENCE)
            options = Options(max_tokens=length, temperature=temperature, top_p=top_p, stream=given.stream)
            return Request(model=model, context=context, options=options)
    request = Request(model=model, context=context, options=_decode_options(wire, config, given.stream))
    bare = replace(request, context=replace(context, messages=()))
    return keeping(request, API, wire, encode_request(bare, quirks=given.quirks).body, ("messages",))


_USUAL = {"messages": list, "inferenceConfig": dict}
_USUAL_INFERENCE = {"maxTokens": int, "temperature": float, "topP": float}


def _decode_system(wire: Any) -> System:
    """The system prompt, if it is text and cache points only; else it stays in the residual."""
    if not isinstance(wire, list):
        return None
    blocks = with_points(wire, decode_block)
    reported = [_SYSTEM_KEYS.get(next(iter(item), ""), False) if isinstance(item, dict) else False for item in wire]
    if all(reported) and all(isinstance(block, TextBlock) for block in blocks):
        return tuple(blocks)  # type: ignore[arg-type]
    return None


_SYSTEM_KEYS = dict.fromkeys(("text", "guardContent", "cachePoint"), True)


def _decode_tools(wire: Any) -> tuple[ToolSpec, ...] | None:
    if not isinstance(wire, list):
        return None
    tools: list[ToolSpec] = []
    for item in wire:
        cache = decode_cache(item)
        if cache is not None and tools and takes_cache(tools[-1]):
            tools[-1] = replace(tools[-1], cache=cache)
        else:
            tools.append(_decode_tool(item))
    return tuple(tools)


def _decode_tool(wire: Any) -> ToolSpec:
    given = an_object(wire, API, "$.toolConfig.tools").get("toolSpec")
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        return ToolSpec(name=_name_of(wire), dialect=API, value=wire)
    tool = ToolSpec(
        name=given["name"],
        description=optional(given.get("description")),
        input_schema=fields_of(given.get("inputSchema")).get("json"),
        strict=flag(given.get("strict")),
    )
    return keeping(tool, API, wire, _encode_tool(tool))


def _name_of(wire: dict[str, Any]) -> str:
    """The name of a built-in tool (`{"systemTool": {"name": …}}`), else its kind."""
    kind = next(iter(wire), "")
    name = fields_of(wire.get(kind)).get("name")
    return name if isinstance(name, str) else kind


def _decode_options(wire: dict[str, Any], config: dict[str, Any], stream: bool | None) -> Options:
    fields = fields_of(wire.get("additionalModelRequestFields"))
    output = fields_of(wire.get("outputConfig"))
    tier, metadata = fields_of(wire.get("serviceTier")), wire.get("requestMetadata")
    return Options(
        **read_options(fields_of(wire.get("inferenceConfig")), INFERENCE),
        # Not one of the base parameters: Claude takes it in `additionalModelRequestFields`.
        top_k=whole(fields.get("top_k")),
        reasoning=_decode_thinking(fields, output),
        tool_choice=_decode_choice(config.get("toolChoice")),
        output_schema=_decode_schema(output.get("textFormat")),
        service_tier=optional(tier.get("type")),
        metadata=metadata if isinstance(metadata, dict) and _all_strings(metadata) else None,
        stream=stream,
    )


def _all_strings(values: dict[str, Any]) -> bool:
    return all(isinstance(value, str) for value in values.values())


def _decode_thinking(fields: dict[str, Any], output: dict[str, Any]) -> Reasoning | None:
    """Reasoning of Claude (`thinking`, formerly `reasoning_config`), gpt-oss (`reasoning_effort`) or Nova."""
    if NOVA in fields and not fields.keys() & {"thinking", "reasoning_config"}:
        return _decode_nova(fields_of(fields[NOVA]))
    plain = optional(fields.get("reasoning_effort"))
    if plain is not None and not fields.keys() & {"thinking", "reasoning_config"}:
        return Reasoning(effort=plain, extra={API: {FIELD: "reasoning_effort"}})
    field = "thinking" if "thinking" in fields else "reasoning_config"
    wire = fields_of(fields.get(field))
    inside, outside = fields_of(fields.get("output_config")).get("effort"), output.get("effort")
    effort = optional(inside if inside is not None else outside)
    hints = {FIELD: field} if field != "thinking" and wire else {}
    if effort is not None and inside is not None:
        hints[EFFORT] = "output_config"
    reasoning = _decode_budget(wire, effort)
    if reasoning is None:
        return None
    if hints:
        reasoning = with_residual(reasoning, API, **hints)
    return keeping(reasoning, API, wire, _encode_thinking_field(reasoning)) if wire else reasoning


def _decode_nova(wire: dict[str, Any]) -> Reasoning | None:
    effort = optional(wire.get("maxReasoningEffort"))
    match wire.get("type"):
        case "enabled":
            reasoning = Reasoning(effort=effort, enabled=None if effort is not None else True)
        case "disabled":
            reasoning = Reasoning(effort=effort, enabled=False)
        case _:
            return None
    reasoning = with_residual(reasoning, API, **{FIELD: NOVA})
    return keeping(reasoning, API, wire, _encode_nova(reasoning))


def _encode_nova(reasoning: Reasoning) -> dict[str, Any]:
    """docs.aws.amazon.com/nova, on reasoning: a type, and an effort of low, medium or high."""
    wire: dict[str, Any] = {"type": "disabled" if reasoning.enabled is False else "enabled"}
    if reasoning.effort is not None:
        wire["maxReasoningEffort"] = reasoning.effort
    return restored(wire, reasoning.extra, API)


def _decode_budget(wire: dict[str, Any], effort: str | None) -> Reasoning | None:
    budget = whole(wire.get("budget_tokens"))
    shown = "auto" if wire.get("display") == SUMMARIZED else None
    match wire.get("type"):
        case "enabled" if budget is not None:
            return Reasoning(effort=effort, budget=budget, summary=shown)
        case "adaptive":
            return Reasoning(effort=effort, enabled=None if effort is not None else True, summary=shown)
        case "disabled":
            return Reasoning(effort=effort, enabled=False)
        case "between_tools":
            return Reasoning(effort=effort, enabled=False, extra={API: {OFF_VALUE: "between_tools"}})
        case _:
            return Reasoning(effort=effort) if effort is not None else None


def _decode_choice(wire: Any) -> ToolChoice | None:
    if not isinstance(wire, dict):
        return None
    if "auto" in wire:
        # API_runtime_ToolChoice.html: a union of empty objects `auto` and `any`, and `tool` with a name.
        choice = ToolChoice(mode="auto")
    elif "any" in wire:
        choice = ToolChoice(mode="required")
    elif isinstance(fields_of(wire.get("tool")).get("name"), str):
        choice = ToolChoice(mode="required", names=(wire["tool"]["name"],))
    else:
        return None
    return keeping(choice, API, wire, _encode_choice(choice, QUIET) or {})


def _decode_schema(wire: Any) -> OutputSchema | None:
    # API_runtime_OutputFormat.html: the schema is JSON inside a string.
    given = fields_of(fields_of(fields_of(wire).get("structure")).get("jsonSchema"))
    text = given.get("schema")
    if not isinstance(text, str) or wire.get("type") != "json_schema":
        return None
    try:
        provided = jsontext.read(text)
    except FormatError:
        return None
    if provided is None:
        return None
    schema = OutputSchema(
        schema=provided, name=optional(given.get("name")), description=optional(given.get("description"))
    )
    if jsontext.compact(provided) != text:
        schema = with_residual(schema, API, **{SPELLED: text})
    return keeping(schema, API, wire, _encode_schema(schema))


@request_encoder(API, FIELD_SUPPORT)
def encode_request(request: Request, report: Reporter, quirks: Quirks) -> dict[str, Any]:
    """The body of a Converse request; the path has the model and whether to stream."""
    context, options = request.context, request.options
    body: dict[str, Any] = {"messages": encode_messages(context.messages, report)}
    if context.system is not None:
        body["system"] = _encode_system(context.system, report)
    config: dict[str, Any] = {}
    write_options(config, options, INFERENCE)
    if config:
        body["inferenceConfig"] = config
    config = _encode_tool_config(context.tools, options, report)
    if config:
        body["toolConfig"] = config
    _encode_options(body, options, request.model.id, report)
    return restored(body, request.extra, API)


def _encode_system(system: System, report: Reporter) -> list[Any]:
    report.root = SYSTEM
    if isinstance(system, str):
        report.lost("system", "the system prompt is a list of blocks in this wire", "record")
        system = (TextBlock(text=system),)
    emitted: list[Any] = []
    for at, block in enumerate(system or ()):
        report.block = at
        if block.citations:
            report.lost("citations", "system text has none", field="citations")
            block = replace(block, citations=())
        emitted.append(encode_block(block, report))
        if block.cache is not None:
            emitted.append(encode_cache(block.cache))
    report.root, report.block = "", None
    return emitted


def _encode_tool_config(tools: tuple[ToolSpec, ...] | None, options: Options, report: Reporter) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if tools is not None:
        config["tools"] = _encode_tools(tools, report)
    if options.tool_choice is not None:
        choice = _encode_choice(options.tool_choice, report)
        if choice is not None:
            config["toolChoice"] = choice
    return config


def _encode_tools(tools: tuple[ToolSpec, ...], report: Reporter) -> list[Any]:
    emitted: list[Any] = []
    for at, spec in enumerate(tools):
        if spec.dialect is None:
            emitted.append(_encode_tool(spec))
        elif spec.dialect == API:
            emitted.append(spec.value)
        else:
            report.at(f"$.tools[{at}]", spec.name, f"a tool that only {spec.dialect} can run")
            continue
        if spec.cache is not None:
            # API_runtime_Tool.html: a cache point is an entry of the list, after the tools that it ends.
            emitted.append(encode_cache(spec.cache))
    return emitted


def _encode_tool(spec: ToolSpec) -> dict[str, Any]:
    wire: dict[str, Any] = {"name": spec.name}
    if spec.description is not None:
        wire["description"] = spec.description
    if spec.input_schema is not None:
        # API_runtime_ToolInputSchema.html: a union whose only member is `json`.
        wire["inputSchema"] = {"json": spec.input_schema}
    if spec.strict is not None:
        wire["strict"] = spec.strict
    return restored({"toolSpec": wire}, spec.extra, API)


def _encode_choice(choice: ToolChoice, report: Reporter) -> dict[str, Any] | None:
    if choice.mode == "none":
        # API_runtime_ToolChoice.html has auto, any and tool. `adapt` may drop the tools instead.
        report.at("$.options.toolChoice", "tool_choice", "this wire cannot forbid the tools that it offers")
        return None
    wire: dict[str, Any] = {"auto" if choice.mode == "auto" else "any": {}}
    if choice.mode == "required" and len(choice.names) == 1:
        wire = {"tool": {"name": choice.names[0]}}
    elif choice.names:
        report.at("$.options.toolChoice.names", "tool_choice", "the choice is one tool or all of them", "weakened")
    return restored(wire, choice.extra, API)


def _encode_options(body: dict[str, Any], options: Options, model: str, report: Reporter) -> None:
    fields: dict[str, Any] = {}
    output: dict[str, Any] = {}
    if options.top_k is not None:
        fields["top_k"] = options.top_k
    if options.reasoning is not None:
        _encode_reasoning(fields, output, options.reasoning, model, report)
    if options.output_schema is not None:
        if options.output_schema.schema is None:
            report.at("$.options.outputSchema", "output_schema", "this wire has no free-form JSON mode")
        else:
            output["textFormat"] = _encode_schema(options.output_schema)
    if fields:
        body["additionalModelRequestFields"] = fields
    if output:
        body["outputConfig"] = output
    if options.metadata is not None:
        body["requestMetadata"] = {key: value for key, value in options.metadata.items() if isinstance(value, str)}
        if not _all_strings(options.metadata):
            report.at("$.options.metadata", "metadata", "only strings are sent", "weakened")
    if options.service_tier is not None:
        # API_runtime_ServiceTier.html: `priority`, `default`, `flex` or `reserved`.
        body["serviceTier"] = {"type": options.service_tier}


def _encode_reasoning(
    fields: dict[str, Any], output: dict[str, Any], reasoning: Reasoning, model: str, report: Reporter
) -> None:
    residual = residual_of(reasoning.extra, API)
    field = residual.get(FIELD) or next((field for part, field in _OWN_FIELDS.items() if part in model), "thinking")
    if field == "reasoning_effort":
        _encode_effort_alone(fields, reasoning, report)
        return
    if reasoning.budget is None and reasoning.enabled is None and reasoning.effort is None:
        report.at("$.options.reasoning", "reasoning", "nothing is asked for", "record")
        return
    if field == NOVA:
        _encode_nova_alone(fields, reasoning, report)
        return
    fields[field] = _encode_thinking_field(reasoning)
    if reasoning.effort is not None:
        if residual.get(EFFORT) == "output_config":
            fields["output_config"] = {"effort": reasoning.effort}
        else:
            # API_runtime_OutputConfig.html: `effort`; Claude's own field is `output_config.effort`.
            output["effort"] = reasoning.effort
    if reasoning.summary is not None and reasoning.enabled is False:
        report.at("$.options.reasoning.summary", "summary", "there is no thinking to show")
    elif reasoning.summary not in (None, "auto"):
        report.at("$.options.reasoning.summary", "summary", "summaries have no degrees", "weakened")
    if reasoning.budget is not None and reasoning.enabled is False:
        report.at("$.options.reasoning.budget", "reasoning", "thinking is off")
    elif reasoning.enabled and (reasoning.budget is not None or reasoning.effort is not None):
        report.at("$.options.reasoning.enabled", "reasoning", "implied by the amount", "record")


# The reasoning field of models other than Claude, by a part of the model id.
_OWN_FIELDS = {"openai.": "reasoning_effort", "nova": NOVA}


def _encode_nova_alone(fields: dict[str, Any], reasoning: Reasoning, report: Reporter) -> None:
    fields[NOVA] = _encode_nova(reasoning)
    if reasoning.budget is not None:
        report.at("$.options.reasoning.budget", "reasoning", "this model takes a named effort only")
    if reasoning.enabled and reasoning.effort is not None:
        report.at("$.options.reasoning.enabled", "reasoning", "implied by the amount", "record")
    if reasoning.summary is not None:
        report.at("$.options.reasoning.summary", "summary", "this model has no value for it")


def _encode_thinking_field(reasoning: Reasoning) -> dict[str, Any]:
    """The value of `thinking` for Claude models."""
    if reasoning.enabled is False:
        wire: dict[str, Any] = {"type": residual_of(reasoning.extra, API).get(OFF_VALUE, "disabled")}
    elif reasoning.budget is not None:
        wire = {"type": "enabled", "budget_tokens": reasoning.budget}
    else:
        wire = {"type": "adaptive"}
    if reasoning.summary is not None and reasoning.enabled is not False:
        wire["display"] = SUMMARIZED
    return restored(wire, reasoning.extra, API)


def _encode_effort_alone(fields: dict[str, Any], reasoning: Reasoning, report: Reporter) -> None:
    if reasoning.effort is not None:
        fields["reasoning_effort"] = reasoning.effort
    for name in ("budget", "enabled", "summary"):
        if getattr(reasoning, name) is not None:
            report.at(f"$.options.reasoning.{name}", "reasoning", "this model takes a named effort only")
    for key in own_fields(residual_of(reasoning.extra, API)):
        report.at(f"$.options.reasoning.extra.{API}.{key}", key, "this model takes a named effort only")


def _encode_schema(schema: OutputSchema) -> dict[str, Any]:
    """Structured output: the schema is JSON text."""
    inner: dict[str, Any] = {"schema": _schema_text(schema)}
    if schema.name is not None:
        inner["name"] = schema.name
    if schema.description is not None:
        inner["description"] = schema.description
    return restored({"type": "json_schema", "structure": {"jsonSchema": inner}}, schema.extra, API)


def _schema_text(schema: OutputSchema) -> str:
    spelled = residual_of(schema.extra, API).get(SPELLED)
    if spelled is not None and jsontext.read(spelled) == schema.schema:
        return string(spelled)
    return jsontext.compact(schema.schema)


def path(model: str, stream: bool, *, quirks: Quirks = None) -> str:
    # API_runtime_Converse.html: `POST /model/modelId/converse`; an ARN as the id has slashes and colons to escape.
    return own_path(quirks, model) or f"/model/{quote(model, safe='')}/converse{'-stream' if stream else ''}"


decode, encode = conversation_codec(API, decode_request, encode_request)
