"""Requests: tools, options, paths."""

from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from ...values.losses import SYSTEM, Reporter
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
    read_options,
    request_decoder,
    request_encoder,
    write_options,
)
from ..residual import (
    an_object,
    decode_tools,
    encode_tools,
    fields_of,
    flag,
    keeping,
    optional,
    own_path,
    residual_of,
    restored,
    whole,
)
from .content import decode_block, decode_cache, decode_messages, encode_cache, encode_content, encode_messages
from .facts import API, CHOICES, FIELD_SUPPORT, OFF_VALUE, OPTIONS, SUMMARIZED


@request_decoder(API)
def decode_request(body: Any, given: Given) -> Request:
    """A Messages request. The caller gives `model` and `stream` where the host has them outside the body."""
    wire = an_object(body, API)
    context = replace(
        CONTEXT,
        system=_decode_system(wire.get("system")),
        messages=decode_messages(wire["messages"], given.api) if "messages" in wire else (),
        tools=decode_tools(wire.get("tools"), API, _decode_tool),
        extra={},
    )
    model = given.model_of(wire.get("model"))
    if given == (API, None, None, None, None) and _is_usual(wire):
        options = Options(max_tokens=wire.get("max_tokens"), stream=wire.get("stream"))
        return Request(model=model, context=context, options=options)
    request = Request(model=model, context=context, options=_decode_options(wire, given))
    bare = replace(request, context=replace(context, messages=()))
    return keeping(request, API, wire, encode_request(bare, quirks=given.quirks).body, ("messages",))


def _is_usual(wire: dict[str, Any]) -> bool:
    """Whether a request has only plain fields beside its messages, so that it has no residual."""
    if not wire.keys() <= _USUAL.keys() or "messages" not in wire or not wire.get("model"):
        return False
    if "tools" in wire and not wire["tools"]:
        return False
    return list(map(type, wire.values())) == list(map(_USUAL.get, wire))


_USUAL: dict[str, Any] = {
    "model": str,
    "max_tokens": int,
    "system": str,
    "messages": list,
    "tools": list,  # each tool has its own residual
    "stream": bool,
}


def _decode_system(wire: Any) -> System:
    if isinstance(wire, str):
        return wire
    if isinstance(wire, list) and all(isinstance(block, dict) and block.get("type") == "text" for block in wire):
        blocks = tuple(map(decode_block, wire))
        if all(isinstance(block, TextBlock) for block in blocks):
            return blocks  # type: ignore[return-value]
    return None


def _decode_tool(wire: Any) -> ToolSpec:
    an_object(wire, API)
    name, kind = wire.get("name"), wire.get("type", "custom")
    # platform.claude.com/docs/en/api/messages, `tools`: a tool of the client is `custom`, or has no `type`; every other
    # type is a tool that Anthropic defines, most with a date as version (`web_search_20250305`).
    if kind != "custom" or not isinstance(name, str):
        return ToolSpec(name=name if isinstance(name, str) else str(kind), dialect=API, value=wire)
    if len(wire) == 3 and type(wire.get("description")) is str and type(wire.get("input_schema")) is dict:
        # Fast path: most tools have no residual.
        return ToolSpec(name=name, description=wire["description"], input_schema=wire["input_schema"])
    tool = ToolSpec(
        name=name,
        description=optional(wire.get("description")),
        input_schema=wire.get("input_schema"),
        strict=flag(wire.get("strict")),
        cache=decode_cache(wire),
    )
    return keeping(tool, API, wire, _encode_tool(tool))


def _decode_options(wire: dict[str, Any], given: Given) -> Options:
    choice = wire.get("tool_choice")
    metadata = wire.get("metadata")
    return Options(
        max_tokens=whole(wire.get("max_tokens")),
        **read_options(wire, OPTIONS),
        reasoning=_decode_reasoning(wire),
        tool_choice=_decode_choice(choice),
        parallel_tools=_decode_parallel(choice),
        output_schema=_decode_schema(wire),
        # …, top-level `cache_control`: a marker on the last block that can be cached.
        cache_retention=_decode_retention(wire.get("cache_control")),
        # …, `metadata`: `user_id` is its only field.
        metadata={k: metadata[k] for k in metadata if k == "user_id"} if isinstance(metadata, dict) else None,
        stream=given.stream_of(wire),
    )


def _decode_reasoning(wire: dict[str, Any]) -> Reasoning | None:
    thinking, effort = wire.get("thinking"), optional(fields_of(wire.get("output_config")).get("effort"))
    if not isinstance(thinking, dict):
        return Reasoning(effort=effort) if effort is not None else None
    budget = whole(thinking.get("budget_tokens"))
    shown = "auto" if thinking.get("display") == SUMMARIZED else None
    match thinking.get("type"):
        # …/build-with-claude/extended-thinking: `enabled` requires `budget_tokens`; with `adaptive` the model decides,
        # guided by `output_config.effort`.
        case "enabled" if budget is not None:
            return Reasoning(effort=effort, budget=budget, summary=shown)
        case "adaptive":
            return Reasoning(effort=effort, enabled=True if effort is None else None, summary=shown)
        case "disabled":
            return Reasoning(effort=effort, enabled=False)
        case "between_tools":  # for models that refuse `disabled`
            return Reasoning(effort=effort, enabled=False, extra={API: {OFF_VALUE: "between_tools"}})
        case _:
            return Reasoning(effort=effort) if effort is not None else None


def _decode_choice(wire: Any) -> ToolChoice | None:
    if not isinstance(wire, dict):
        return None
    match wire.get("type"):
        case "auto":
            # `disable_parallel_tool_use` is a field of `tool_choice`: beside it, `auto` only carries the flag.
            return None if "disable_parallel_tool_use" in wire else ToolChoice(mode="auto")
        case "any":
            return ToolChoice(mode="required")
        case "none":
            return ToolChoice(mode="none")
        case "tool" if isinstance(wire.get("name"), str):
            return ToolChoice(mode="required", names=(wire["name"],))
        case _:
            return None


def _decode_parallel(wire: Any) -> bool | None:
    # The wire has the opposite flag, false by default.
    if isinstance(wire, dict) and isinstance(wire.get("disable_parallel_tool_use"), bool):
        return not wire["disable_parallel_tool_use"]
    return None


def _decode_schema(wire: dict[str, Any]) -> OutputSchema | None:
    inside = fields_of(wire.get("output_config")).get("format")
    outside = wire.get("output_format")
    given = inside or outside
    if not isinstance(given, dict) or given.get("type") != "json_schema" or "schema" not in given:
        return None
    # The beta had the field `output_format`.
    return OutputSchema(schema=given["schema"], extra={API: {"field": "output_format"}} if given is outside else {})


def _decode_retention(wire: Any) -> Any:
    if not isinstance(wire, dict) or wire.get("type") != "ephemeral":
        return None
    # Two lifetimes exist, `5m` (the default) and `1h`.
    return "long" if wire.get("ttl") == "1h" else "short"


@request_encoder(API, FIELD_SUPPORT)
def encode_request(request: Request, report: Reporter, quirks: Quirks) -> dict[str, Any]:
    """The body of a Messages request."""
    context, options = request.context, request.options
    hosted = quirks.get("hosted") if quirks else None  # the host has the model in the URL
    body: dict[str, Any] = {}
    if request.model.id and not hosted:
        body["model"] = request.model.id
    if options.max_tokens is not None:
        body["max_tokens"] = options.max_tokens
    if context.system is not None:
        report.root = SYSTEM
        body["system"] = encode_content(context.system, report)
        report.root = ""
    body["messages"] = encode_messages(context.messages, report)
    if context.tools is not None:
        body["tools"] = encode_tools(context.tools, API, _encode_tool, report)
    _encode_options(body, options, report)
    if options.stream is not None and (not hosted or quirks["says_stream"]):  # type: ignore[index]
        body["stream"] = options.stream
    # Bedrock (InvokeModel) and Vertex AI take the version in the body, Anthropic in the header `anthropic-version`
    # (platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai, …/claude-on-amazon-bedrock).
    if hosted:
        body["anthropic_version"] = quirks["version"]  # type: ignore[index]
    return restored(body, request.extra, API) if request.extra else body


def _encode_tool(spec: ToolSpec) -> dict[str, Any]:
    wire: dict[str, Any] = {"name": spec.name}
    if spec.description is not None:
        wire["description"] = spec.description
    if spec.input_schema is not None:
        wire["input_schema"] = spec.input_schema
    if spec.strict is not None:
        wire["strict"] = spec.strict
    if spec.cache is not None:
        wire["cache_control"] = encode_cache(spec.cache)
    return restored(wire, spec.extra, API)


def _encode_options(body: dict[str, Any], options: Options, report: Reporter) -> None:
    write_options(body, options, OPTIONS)
    if options.reasoning is not None:
        _encode_reasoning(body, options.reasoning, report)
    if options.tool_choice is not None or options.parallel_tools is not None:
        body["tool_choice"] = _encode_choice(options, report)
    if options.output_schema is not None:
        _encode_schema(body, options.output_schema, report)
    if options.metadata is not None:
        _encode_metadata(body, options.metadata, report)
    if options.cache_retention == "none":
        report.at("$.options.cacheRetention", "cache_retention", "caching is off unless asked for", "record")
    elif options.cache_retention is not None:
        body["cache_control"] = {"type": "ephemeral"} | ({"ttl": "1h"} if options.cache_retention == "long" else {})


def _encode_reasoning(body: dict[str, Any], reasoning: Reasoning, report: Reporter) -> None:
    if reasoning.enabled is False:
        body["thinking"] = {"type": residual_of(reasoning.extra, API).get(OFF_VALUE, "disabled")}
        if reasoning.budget is not None:
            report.at("$.options.reasoning.budget", "budget", "thinking is off", "record")
    elif reasoning.budget is not None:
        body["thinking"] = {"type": "enabled", "budget_tokens": reasoning.budget}
    # Of the two modes that think, only `adaptive` takes no budget.
    elif reasoning.enabled or reasoning.effort is not None:
        body["thinking"] = {"type": "adaptive"}
    else:
        report.at("$.options.reasoning", "reasoning", "nothing to send", "record")
    if reasoning.effort is not None:
        body["output_config"] = {"effort": reasoning.effort}
    if reasoning.enabled and (reasoning.budget is not None or reasoning.effort is not None):
        report.at("$.options.reasoning.enabled", "enabled", "implied by the budget or the effort", "record")
    if reasoning.summary is not None:
        _encode_summary(body, reasoning, report)


def _encode_summary(body: dict[str, Any], reasoning: Reasoning, report: Reporter) -> None:
    """`display` is `summarized` or omitted; the default depends on the model."""
    if reasoning.enabled is False or "thinking" not in body:
        report.at("$.options.reasoning.summary", "summary", "there is no thinking to show")
        return
    body["thinking"]["display"] = SUMMARIZED
    if reasoning.summary != "auto":
        report.at("$.options.reasoning.summary", "summary", "summaries have no degrees", "weakened")


def _encode_choice(options: Options, report: Reporter) -> dict[str, Any]:
    choice = options.tool_choice or ToolChoice(mode="auto")
    # `tool_choice` is required around the flag: without a choice it is `auto`, the API's default beside tools.
    wire: dict[str, Any] = {"type": CHOICES[choice.mode]}
    if choice.mode == "required" and len(choice.names) == 1:
        wire = {"type": "tool", "name": choice.names[0]}
    elif choice.names:
        report.at("$.options.toolChoice.names", "tool_choice", "the choice is one tool or all of them", "weakened")
    if options.parallel_tools is not None:
        wire["disable_parallel_tool_use"] = not options.parallel_tools
        if choice.mode == "auto" and options.tool_choice is not None:
            report.at("$.options.toolChoice", "tool_choice", "implied by the flag against parallel calls", "weakened")
    return wire


def _encode_schema(body: dict[str, Any], schema: OutputSchema, report: Reporter) -> None:
    if schema.schema is None:
        report.at("$.options.outputSchema", "output_schema", "this wire has no free-form JSON mode")
        return
    emitted = {"type": "json_schema", "schema": schema.schema}
    if schema.extra.get(API, {}).get("field") == "output_format":
        body["output_format"] = emitted
    else:
        body["output_config"] = {**body.get("output_config", {}), "format": emitted}


def _encode_metadata(body: dict[str, Any], metadata: dict[str, Any], report: Reporter) -> None:
    body["metadata"] = {key: value for key, value in metadata.items() if key == "user_id"}
    if metadata.keys() - {"user_id"}:
        report.at("$.options.metadata", "metadata", "only user_id is sent", "weakened")


def path(model: str, stream: bool, *, quirks: Quirks = None) -> str:
    if not quirks:
        return "/v1/messages"
    if (own := own_path(quirks, model)) is not None:
        return own
    if quirks.get("hosted"):
        return str(quirks["hosted"][stream]).format(quote(model, safe="@"))  # Vertex model ids have `@` before the date
    return "/v1/messages"


decode, encode = conversation_codec(API, decode_request, encode_request)
