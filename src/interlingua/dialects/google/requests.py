"""Requests: tools, options, paths."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from ...values.losses import QUIET, SYSTEM, Reporter
from ...values.messages import Extra, TextBlock
from ...values.request import (
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
    JOINED,
    Ids,
    an_object,
    each,
    fields_of,
    optional,
    own_path,
    put_back,
    residual,
    residual_of,
    strings,
    whole,
    with_residual,
)
from .content import decode_block, encode_block, listed
from .facts import (
    ALONE,
    API,
    CHOICES,
    CONFIG,
    DECLARATION_NAMES,
    ENVELOPE,
    FIELD,
    FIELD_SUPPORT,
    JSON,
    LIST,
    MODEL,
    MODES,
    PLAIN,
    REQUEST_NAMES,
    TEXT,
    UPPER,
    camel,
    has_envelope,
    keeping,
    respelled,
    restored,
)
from .messages import decode_messages, encode_messages


@request_decoder(API)
def decode_request(body: Any, given: Given) -> Request:
    """A generateContent request. `model` and `stream` are in the path; `mint` generates ids for calls without one."""
    outer, quirks = an_object(body, API), given.quirks
    # As Gemini CLI sends it (github.com/google-gemini/gemini-cli, packages/core/src/code_assist/converter.ts).
    wrapped = has_envelope(quirks) and isinstance(outer.get("request"), dict)
    snakes: list[str] = []
    wire = camel(outer["request"] if wrapped else outer, REQUEST_NAMES, snakes)
    marks = _shapes(wire)
    contents, tools = listed(wire.get("contents")), listed(wire.get("tools"))
    context = replace(
        CONTEXT,
        system=_decode_system(wire.get("systemInstruction")),
        messages=decode_messages(contents, given.api, given.mint) if contents is not None else (),
        tools=_decode_tools(tools),
        extra={},
    )
    model = given.model_of(outer.get("model")) if wrapped else _decode_model(wire, given, marks)
    if context.messages and not (quirks or snakes or marks) and is_usual(wire, _USUAL):
        config = wire.get("generationConfig")
        if config is None:
            return Request(model=model, context=context, options=Options(stream=given.stream))
        if config and is_usual(config, _USUAL_CONFIG):
            length, temperature, top_p = map(config.get, _USUAL_CONFIG)
            options = Options(max_tokens=length, temperature=temperature, top_p=top_p, stream=given.stream)
            return Request(model=model, context=context, options=options)
    request = Request(model=model, context=context, options=_decode_options(wire, given))
    if wrapped:
        beside = residual({k: v for k, v in outer.items() if k != "request"}, _envelope(request.model))
        marks |= {ENVELOPE: beside} if beside else {}
    elif has_envelope(quirks):
        marks[PLAIN] = True
    return keeping(request, *_without_residuals(wire, request, marks, quirks), snakes, **marks)


_USUAL = {"contents": list, "generationConfig": dict}
_USUAL_CONFIG = {"maxOutputTokens": int, "temperature": float, "topP": float}


def _envelope(model: ModelDescriptor) -> dict[str, Any]:
    """The envelope of Cloud Code Assist; the caller adds project and ids."""
    return {"model": model.id} if model.id else {}


def _shapes(wire: dict[str, Any]) -> dict[str, Any]:
    """Hints about unusual shapes of a request."""
    system = wire.get("systemInstruction")
    if system is None and isinstance(wire.get("contents"), list) and "tools" not in wire:
        return {}
    alone = [key for key in ("contents", "tools") if isinstance(wire.get(key), dict)]
    if isinstance(system, dict) and isinstance(system.get("parts"), dict):
        alone.append("systemInstruction")
    return ({ALONE: alone} if alone else {}) | ({TEXT: True} if isinstance(system, str) else {})


def _decode_model(wire: dict[str, Any], given: Given, marks: dict[str, Any]) -> ModelDescriptor:
    """Some bodies have the model as a resource name: `models/…`."""
    named = wire.get("model")
    # Resource names have a collection: `models/gemini-2.5-pro` (ai.google.dev/api/models).
    prefix = "models/" if isinstance(named, str) and named.startswith("models/") else ""
    model = given.model_of(named.removeprefix(prefix) if isinstance(named, str) else None)
    if named == prefix + model.id:
        marks[MODEL] = prefix
    return model


def _without_residuals(
    wire: dict[str, Any], request: Request, marks: Mapping[str, Any], quirks: Quirks
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The wire's request and our encoding of it, without the fields that have residuals of their own."""
    emitted = _encode_outside(request, QUIET, quirks)
    given = dict(wire)
    if not request.context.messages:
        emitted["contents"] = []
    else:
        del given["contents"]
    if isinstance(given.get("toolConfig"), dict) and given["toolConfig"]:
        emitted.setdefault("toolConfig", {})  # so that its unknown fields become a nested residual
    if "generationConfig" in emitted:
        given["generationConfig"] = emitted["generationConfig"]
    if request.context.tools is not None:
        given["tools"] = emitted["tools"]
    if request.context.system is not None:
        system = given["systemInstruction"]
        parts = emitted["systemInstruction"]["parts"]
        given["systemInstruction"] = {**system, "parts": parts} if isinstance(system, dict) else {"parts": parts}
    if MODEL in marks:
        del given["model"]
    return given, emitted


def _decode_system(wire: Any) -> System:
    if isinstance(wire, str):
        return (TextBlock(text=wire),)
    if not isinstance(wire, dict):
        return None
    parts = listed(wire.get("parts"))
    if not isinstance(parts, list):
        return None
    blocks = tuple(decode_block(part, Ids(None)) for part in parts)
    return blocks if all(isinstance(block, TextBlock) for block in blocks) else None  # type: ignore[return-value]


def _decode_tools(wire: Any) -> tuple[ToolSpec, ...] | None:
    if not isinstance(wire, list):
        return None
    specs: list[ToolSpec] = []
    for group in each(wire, "tools", API, _decode_group):
        for at, spec in enumerate(group):
            usual = _is_function(spec) and bool(specs) and _is_function(specs[-1])
            specs.append(with_residual(spec, API, **{JOINED: at > 0}) if usual != (at > 0) else spec)
    return tuple(specs)


def _is_function(spec: ToolSpec) -> bool:
    return spec.dialect is None


def _decode_group(wire: Any) -> list[ToolSpec]:
    """One entry of `tools`: functions, and built-in tools."""
    specs: list[ToolSpec] = []
    for key, value in an_object(wire, API).items():
        # …/api/caching, Tool: an object with one or more of its tools: `functionDeclarations`, `googleSearch`,
        # `codeExecution` …
        if key in _FUNCTIONS and _are_functions(value) and (key == "functionDeclarations" or _FUNCTIONS[0] not in wire):
            functions = each(value, key, API, _decode_function)
            if key != _FUNCTIONS[0]:
                functions[0] = with_residual(functions[0], API, **{LIST: key})
            specs += functions
        else:
            specs.append(ToolSpec(name=key, dialect=API, value={key: value}))
    return specs or [ToolSpec(name="", dialect=API, value={})]


_FUNCTIONS = ("functionDeclarations", "function_declarations")


def _are_functions(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in value)
    )


def _decode_function(wire: dict[str, Any]) -> ToolSpec:
    snakes: list[str] = []
    given = camel(wire, DECLARATION_NAMES, snakes)
    # …, FunctionDeclaration: `parameters` takes the subset Schema, `parametersJsonSchema` JSON Schema; they exclude
    # each other.
    field = "parametersJsonSchema" if given.get("parametersJsonSchema") is not None else "parameters"
    schema, hints = _decode_schema(given.get(field), field, "parametersJsonSchema")
    tool = ToolSpec(
        name=given["name"],
        description=optional(given.get("description")),
        input_schema=schema,
        extra={API: hints} if hints else {},
    )
    return keeping(tool, given, _encode_function(tool), snakes)


def _decode_schema(schema: Any, field: str, usual: str) -> tuple[Any, dict[str, Any]]:
    """A JSON Schema, and hints. `Schema` of the Gemini API has types in upper case."""
    if schema is None:
        return None, {}
    hints: dict[str, Any] = {} if field == usual else {FIELD: field}
    if field != usual:
        lower = _with_type_case(schema, str.lower)
        # …, Schema, Type: `STRING`, `OBJECT` and so on; JSON Schema has them in lower case.
        if lower != schema and _with_type_case(lower, str.upper) == schema:
            return lower, {**hints, UPPER: True}
    return schema, hints


def _with_type_case(schema: Any, case: Callable[[str], str]) -> Any:
    """A copy with all types in this case, by position: a parameter named `type` is not changed."""
    if not isinstance(schema, dict):
        return schema
    out = dict(schema)
    for key, value in schema.items():
        if key == "type" and isinstance(value, str):
            out[key] = case(value)
        elif key in ("properties", "$defs", "defs") and isinstance(value, dict):
            out[key] = {name: _with_type_case(inner, case) for name, inner in value.items()}
        elif key in ("anyOf", "any_of", "prefixItems", "prefix_items") and isinstance(value, list):
            out[key] = [_with_type_case(inner, case) for inner in value]
        elif key in ("items", "additionalProperties", "additional_properties"):
            out[key] = _with_type_case(value, case)
    return out


def _encode_schema(schema: Any, extra: Extra, usual: str) -> dict[str, Any]:
    extra_fields = residual_of(extra, API)
    return {extra_fields.get(FIELD, usual): _with_type_case(schema, str.upper) if extra_fields.get(UPPER) else schema}


def _decode_options(wire: dict[str, Any], given: Given) -> Options:
    config = fields_of(wire.get("generationConfig"))
    options = Options(
        # Vertex AI has `topK` as a float.
        **read_options({**config, "topK": _integral(config.get("topK"))}, CONFIG),
        reasoning=_decode_reasoning(config.get("thinkingConfig")),
        tool_choice=_decode_choice(wire.get("toolConfig")),
        output_schema=_decode_output(config),
        session_id=optional(wire.get("sessionId")) if has_envelope(given.quirks) else None,
        service_tier=optional(wire.get("serviceTier")),
        stream=given.stream,
    )
    return keeping(options, config, _encode_config(options, QUIET))


def _integral(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _decode_reasoning(wire: Any) -> Reasoning | None:
    if not isinstance(wire, dict):
        return None
    # ai.google.dev/gemini-api/docs/thinking: levels from Gemini 3 on, budgets before; both in one request are refused.
    level, budget = optional(wire.get("thinkingLevel")), whole(wire.get("thinkingBudget"))
    shown = wire.get("includeThoughts") is True
    reasoning = Reasoning(
        effort=level.lower() if level is not None else None,
        # ai.google.dev/gemini-api/docs/thinking: a budget of 0 turns thinking off, -1 lets the model decide.
        budget=budget if budget not in (None, 0, -1) else None,
        enabled=False if budget == 0 else True if budget == -1 and level is None else None,
        summary="auto" if shown and budget is None and level is None else None,
    )
    return keeping(reasoning, wire, _encode_reasoning(reasoning, QUIET))


def _decode_choice(wire: Any) -> ToolChoice | None:
    config = fields_of(wire).get("functionCallingConfig")
    if not isinstance(config, dict):
        return None
    mode = MODES.get(str(config.get("mode")).upper())
    if mode is None:
        return None
    # …/api/caching, FunctionCallingConfig: `allowedFunctionNames` is for `ANY` and `VALIDATED`.
    names = strings(config.get("allowedFunctionNames")) if mode != "none" else None
    choice = ToolChoice(mode=mode, names=names or ())
    return keeping(choice, config, _encode_choice(choice, QUIET))


def _decode_output(config: dict[str, Any]) -> OutputSchema | None:
    field = "responseJsonSchema" if config.get("responseJsonSchema") is not None else "responseSchema"
    schema, hints = _decode_schema(config.get(field), field, "responseJsonSchema")
    # …/api/generate-content, GenerationConfig: `application/json` without a schema is JSON mode; a schema requires that
    # type.
    if config.get("responseMimeType", JSON if schema is not None else None) != JSON:
        return None
    return OutputSchema(schema=schema, extra={API: hints} if hints else {})


@request_encoder(API, FIELD_SUPPORT)
def encode_request(request: Request, report: Reporter, quirks: Quirks) -> dict[str, Any]:
    """The body of a generateContent request."""
    extra_fields = residual_of(request.extra, API)
    body = _encode_outside(request, report, quirks)
    body["contents"] = encode_messages(request.context.messages, report)
    if extra_fields:
        _shape_request(body, request, extra_fields)
    if has_envelope(quirks) and not extra_fields.get(PLAIN):
        body = put_back(_envelope(request.model), extra_fields.get(ENVELOPE, {})) | {"request": body}
    return body


def _shape_request(body: dict[str, Any], request: Request, extra_fields: Mapping[str, Any]) -> None:
    """Restores the original shape of the body where it still applies."""
    alone, system = extra_fields.get(ALONE, ()), body.get("systemInstruction")
    for key in ("contents", "tools"):
        if key in alone and len(body.get(key, ())) == 1:
            body[key] = body[key][0]
    if "in" in extra_fields.get("~", {}).get("toolConfig", {}):
        body.setdefault("toolConfig", {})
    if MODEL in extra_fields:
        body["model"] = extra_fields[MODEL] + request.model.id
    put_back(body, extra_fields)
    if system is not None and len(system["parts"]) == 1:
        if extra_fields.get(TEXT):
            body["systemInstruction"] = system["parts"][0].get("text")
        elif "systemInstruction" in alone:
            body["systemInstruction"]["parts"] = system["parts"][0]
    respelled(body, extra_fields)


def _encode_outside(request: Request, report: Reporter, quirks: Quirks) -> dict[str, Any]:
    """The request without its contents."""
    context, options = request.context, request.options
    body: dict[str, Any] = {}
    if context.system is not None:
        body["systemInstruction"] = {"parts": _encode_system(context.system, report)}
    if context.tools is not None:
        body["tools"] = _encode_tools(context.tools, report)
    if options.tool_choice is not None:
        body["toolConfig"] = {"functionCallingConfig": _encode_choice(options.tool_choice, report)}
    config = _encode_config(options, report)
    if options.extra:
        restored(config, options.extra)
    if config:
        body["generationConfig"] = config
    if options.service_tier is not None:
        body["serviceTier"] = options.service_tier
    if options.session_id is not None:
        if has_envelope(quirks):
            body["sessionId"] = options.session_id
        else:
            report.at("$.options.sessionId", "session_id", "no place in this wire")
    return body


def _encode_system(system: System, report: Reporter) -> list[Any]:
    if isinstance(system, str):
        report.at(SYSTEM, "system", "a string becomes a text part", "record")
        return [{"text": system}]
    return [encode_block(block, QUIET) for block in system or ()]


def _encode_tools(specs: tuple[ToolSpec, ...], report: Reporter) -> list[Any]:
    """Functions share one entry and built-in tools have one each, unless hints group them otherwise."""
    emitted: list[Any] = []
    before: ToolSpec | None = None
    for at, spec in enumerate(specs):
        if spec.dialect not in (None, API):
            report.at(f"$.tools[{at}]", spec.name, f"a tool that only {spec.dialect} can run")
            continue
        usual = _is_function(spec) and before is not None and _is_function(before)
        extra_fields = residual_of(spec.extra, API)
        if not (extra_fields.get(JOINED, usual) and emitted):
            emitted.append({})
        if _is_function(spec):
            there = next((name for name in _FUNCTIONS if name in emitted[-1]), extra_fields.get(LIST, _FUNCTIONS[0]))
            emitted[-1].setdefault(there, []).append(_encode_function(spec))
        elif isinstance(spec.value, dict):
            emitted[-1].update(spec.value)
        before = spec
    return emitted


def _encode_function(spec: ToolSpec) -> dict[str, Any]:
    wire: dict[str, Any] = {"name": spec.name}
    if spec.description is not None:
        wire["description"] = spec.description
    if spec.input_schema is not None:
        wire |= _encode_schema(spec.input_schema, spec.extra, "parametersJsonSchema")
    return restored(wire, spec.extra) if spec.extra else wire


def _encode_choice(choice: ToolChoice, report: Reporter) -> dict[str, Any]:
    wire: dict[str, Any] = {"mode": CHOICES[choice.mode]}
    if choice.names and choice.mode == "none":
        report.at("$.options.toolChoice.names", "tool_choice", "no tool is no tool", "weakened")
    elif choice.names:
        if choice.mode == "auto":  # VALIDATED: text, or a call of one of these functions
            wire["mode"] = "VALIDATED"
        wire["allowedFunctionNames"] = list(choice.names)
    return restored(wire, choice.extra) if choice.extra else wire


def _encode_config(options: Options, report: Reporter) -> dict[str, Any]:
    config: dict[str, Any] = {}
    write_options(config, options, CONFIG)
    if options.reasoning is not None:
        config["thinkingConfig"] = _encode_reasoning(options.reasoning, report)
    schema = options.output_schema
    if schema is not None:
        config["responseMimeType"] = JSON
        if schema.schema is not None:
            config |= _encode_schema(schema.schema, schema.extra, "responseJsonSchema")
    return config


def _encode_reasoning(reasoning: Reasoning, report: Reporter) -> dict[str, Any]:
    """`thinkingConfig`. Off is a budget of 0; without it, models that think by default still do."""
    effort, budget = reasoning.effort, reasoning.budget
    wire: dict[str, Any] = {}
    if reasoning.enabled is False:
        wire["thinkingBudget"] = 0
    else:
        if budget is not None:
            wire["thinkingBudget"] = budget
        # -1: the model decides how much, which is all that `enabled` says.
        elif reasoning.enabled and effort is None:
            wire["thinkingBudget"] = -1
        if (wire and budget != 0) or effort is not None or reasoning.summary is not None:
            wire["includeThoughts"] = True
    if effort is not None:
        wire["thinkingLevel"] = effort.upper()
    _report_reasoning(reasoning, report)
    return restored(wire, reasoning.extra) if reasoning.extra else wire


def _report_reasoning(reasoning: Reasoning, report: Reporter) -> None:
    effort, budget = reasoning.effort, reasoning.budget
    if budget is not None and (reasoning.enabled is False or budget in (0, -1)):
        report.at("$.options.reasoning", "budget", "0 is off, -1 leaves it to the model", "weakened")
    elif reasoning.enabled and (effort is not None or budget is not None):
        report.at("$.options.reasoning.enabled", "enabled", "how much to think implies it", "record")
    if effort is not None and effort.upper().lower() != effort:
        report.at("$.options.reasoning.effort", "effort", "levels are in one case", "weakened")
    if reasoning.summary is not None and (
        reasoning.summary != "auto" or effort is not None or budget is not None or reasoning.enabled is not None
    ):
        report.at("$.options.reasoning.summary", "summary", "thoughts are shown or not, without degrees", "weakened")


def path(model: str, stream: bool, *, quirks: Quirks = None) -> str:
    """Relative to the version of the API; on Vertex AI, to the location of the project."""
    # Without `alt=sse` a stream is one JSON array (ai.google.dev/api/generate-content, streamGenerateContent).
    verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
    if (own := own_path(quirks, model)) is not None:
        return f"{own}:{verb}"
    if has_envelope(quirks):
        return f"/v1internal:{verb}"
    if model.startswith(("models/", "tunedModels/", "publishers/", "projects/", "endpoints/")):
        name = model
    # Vertex AI: models of other publishers have theirs in the name (`meta/llama-4`).
    elif quirks and quirks.get("publisher"):
        publisher, slash, rest = model.partition("/")
        name = f"publishers/{publisher}/models/{rest}" if slash else f"publishers/{quirks['publisher']}/models/{model}"
    else:
        name = f"models/{model}"
    return f"/{quote(name, safe='/@')}:{verb}"


decode, encode = conversation_codec(API, decode_request, encode_request, "contents")
