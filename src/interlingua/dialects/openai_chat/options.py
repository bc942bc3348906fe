"""What a request says about how to answer."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ...values.losses import Reporter
from ...values.request import Options, OutputSchema, ToolChoice
from ..residual import flag, number, optional, strings, whole
from .facts import API, AS
from .hosts import Compat
from .reasoning import decode_reasoning, encode_reasoning


def decode_options(wire: dict[str, Any], stream: bool | None, compat: Compat) -> Options:
    marks: dict[str, Any] = {}
    stop = wire.get("stop")
    if isinstance(stop, str):
        marks["~stop"] = True
    return Options(
        max_tokens=_decode_field(
            wire, ("max_completion_tokens", "max_tokens"), compat.max_tokens_field, "~max_tokens", marks
        ),
        temperature=number(wire.get("temperature")),
        top_p=number(wire.get("top_p")),
        top_k=whole(wire.get("top_k")),
        stop=(stop,) if isinstance(stop, str) else strings(stop),
        seed=_decode_field(wire, ("seed", "random_seed"), compat.seed_field, "~seed", marks),
        reasoning=decode_reasoning(wire, compat),
        tool_choice=_decode_choice(wire.get("tool_choice")),
        parallel_tools=flag(wire.get("parallel_tool_calls")),
        output_schema=_decode_schema(wire.get("response_format")),
        cache_retention=_decode_retention(wire.get("prompt_cache_retention"), marks),
        session_id=optional(wire.get("prompt_cache_key")),
        service_tier=optional(wire.get("service_tier")),
        metadata=_decode_metadata(wire, marks),
        stream=wire["stream"] if isinstance(wire.get("stream"), bool) else stream,
        extra={API: marks} if marks else {},
    )


def _decode_retention(wire: Any, marks: dict[str, Any]) -> Any:
    if wire != "in_memory":
        return "long" if wire == "24h" else None
    marks["~retention"] = True
    return "short"


def _decode_field(
    wire: dict[str, Any], names: tuple[str, ...], usual: str, mark: str, marks: dict[str, Any]
) -> int | None:
    """A number that hosts have under different names; which one is noted where it is not the usual."""
    for name in (usual, *names):
        value = whole(wire.get(name))
        if value is not None:
            if name != usual:
                marks[mark] = name
            return value
    return None


def _decode_metadata(wire: dict[str, Any], marks: dict[str, Any]) -> dict[str, Any] | None:
    """The labels of a request; `user`, the end user's id, is `user_id` among them, as other wires have it."""
    metadata, user = wire.get("metadata"), wire.get("user")
    labels = metadata if isinstance(metadata, dict) else None
    if labels is not None and "user_id" in labels:
        marks["~metadata"] = True
        return labels
    if isinstance(user, str):
        return {"user_id": user, **(labels or {})}
    return labels


def _decode_choice(wire: Any) -> ToolChoice | None:
    match wire:
        case "auto" | "none" | "required":
            return ToolChoice(mode=wire)
        case "any":
            return ToolChoice(mode="required")
        case {"type": "function", "function": {"name": str(name)}}:
            return ToolChoice(mode="required", names=(name,))
        case {"type": "allowed_tools", "allowed_tools": {"mode": "auto" | "required" as mode, "tools": list(tools)}}:
            names = [_allowed_name(tool) for tool in tools]
            if None in names:
                return None
            choice = ToolChoice(mode=mode, names=tuple(names))  # type: ignore[arg-type]
            usual = len(names) > 1 or (mode == "auto" and names)
            return choice if usual else replace(choice, extra={API: {AS: "allowed_tools"}})
        case _:
            return None


def _allowed_name(tool: Any) -> str | None:
    match tool:
        case {"type": "function", "function": {"name": str(name)}} if len(tool) == 2 and len(tool["function"]) == 1:
            return name
        case _:
            return None


def _decode_schema(wire: Any) -> OutputSchema | None:
    match wire:
        case {"type": "json_object"}:
            return OutputSchema()
        case {"type": "json_schema", "json_schema": {"schema": schema} as given} if schema is not None:
            return OutputSchema(
                schema=schema,
                name=optional(given.get("name")),
                description=optional(given.get("description")),
                strict=flag(given.get("strict")),
            )
        case _:
            return None


def encode_options(body: dict[str, Any], options: Options, compat: Compat, report: Reporter) -> None:
    marks = options.extra.get(API) or {} if options.extra else {}
    if options.max_tokens is not None:
        body[marks.get("~max_tokens", compat.max_tokens_field)] = options.max_tokens
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if options.top_p is not None:
        body["top_p"] = options.top_p
    if options.top_k is not None:
        body["top_k"] = options.top_k
    if options.stop is not None:
        body["stop"] = options.stop[0] if marks.get("~stop") and len(options.stop) == 1 else list(options.stop)
    if options.seed is not None:
        body[marks.get("~seed", compat.seed_field)] = options.seed
    if options.tool_choice is not None:
        body["tool_choice"] = _encode_choice(options.tool_choice, report)
    if options.parallel_tools is not None:
        body["parallel_tool_calls"] = options.parallel_tools
    if options.reasoning is not None:
        encode_reasoning(body, options.reasoning, compat, report)
    if options.output_schema is not None:
        body["response_format"] = _encode_schema(options.output_schema, report)
    if options.session_id is not None:
        body["prompt_cache_key"] = options.session_id
    if options.cache_retention is not None:
        _encode_retention(body, options.cache_retention, marks, compat, report)
    if options.service_tier is not None:
        body["service_tier"] = options.service_tier
    if options.metadata is not None:
        _encode_metadata(body, options.metadata, marks)
    if options.stream is not None:
        body["stream"] = options.stream
        if options.stream and compat.supports_usage_in_streaming:
            body["stream_options"] = {"include_usage": True}


def _encode_retention(
    body: dict[str, Any], retention: str, marks: Mapping[str, Any], compat: Compat, report: Reporter
) -> None:
    if retention == "long" and compat.supports_long_cache_retention:
        body["prompt_cache_retention"] = "24h"
    elif retention == "long":
        report.at("$.options.cacheRetention", "cache_retention", "this host does not keep caches for long", "weakened")
    elif retention == "none":
        report.at("$.options.cacheRetention", "cache_retention", "caching cannot be turned off here", "weakened")
    elif marks.get("~retention"):
        body["prompt_cache_retention"] = "in_memory"
    else:  # a word that new models refuse
        report.at("$.options.cacheRetention", "cache_retention", "what is usual needs no word", "record")


def _encode_choice(choice: ToolChoice, report: Reporter) -> Any:
    listed = (choice.extra.get(API) or {}).get(AS) == "allowed_tools"
    if choice.mode == "none":
        if choice.names:
            report.at("$.options.toolChoice.names", "tool_choice", "no tool may be called anyway", "record")
        return "none"
    if not choice.names and not listed:
        return choice.mode
    tools = [{"type": "function", "function": {"name": name}} for name in choice.names]
    if choice.mode == "required" and len(tools) == 1 and not listed:
        return tools[0]
    return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": tools}}


def _encode_schema(schema: OutputSchema, report: Reporter) -> dict[str, Any]:
    if schema.schema is None:
        for name in ("name", "description", "strict"):
            if getattr(schema, name) is not None:
                report.at(f"$.options.outputSchema.{name}", name, "there is no schema that it could belong to")
        return {"type": "json_object"}
    if schema.name is None:
        report.at("$.options.outputSchema.name", "name", "this wire wants every schema named", "record")
    fields: dict[str, Any] = {"name": "output" if schema.name is None else schema.name, "schema": schema.schema}
    if schema.description is not None:
        fields["description"] = schema.description
    if schema.strict is not None:
        fields["strict"] = schema.strict
    return {"type": "json_schema", "json_schema": fields}


def _encode_metadata(body: dict[str, Any], metadata: dict[str, Any], marks: Mapping[str, Any]) -> None:
    user = metadata.get("user_id")
    if isinstance(user, str) and not marks.get("~metadata"):
        body["user"] = user
        metadata = {key: value for key, value in metadata.items() if key != "user_id"}
        if not metadata:
            return
    body["metadata"] = metadata
