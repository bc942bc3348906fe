"""Requests: the system prompt, tools, options, paths."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from ...values.errors import BadWire
from ...values.losses import SYSTEM, Reporter
from ...values.messages import Extra, TextBlock
from ...values.request import Options, OutputSchema, Reasoning, Request, System, ToolChoice, ToolSpec
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
    MESSAGE,
    an_object,
    decode_tools,
    encode_tools,
    fields_of,
    flag,
    keeping,
    optional,
    put_back,
    residual,
    restored,
    same,
    strings,
    whole,
)
from .content import decode_cache, decode_part, put_cache
from .facts import API, AS, FIELD_SUPPORT, PLAIN_HOST, SAMPLING, SERVICE, Compat, compat_of
from .messages import decode_messages, encode_content, encode_messages, plain_message

# --- reasoning, in the fields of each kind of host -------------------------------------------------------------------


# platform.openai.com: `reasoning_effort`; openrouter.ai/docs/use-cases/reasoning-tokens: `reasoning`;
# docs.z.ai/guides/capabilities/thinking and api-docs.deepseek.com: `thinking`; Alibaba Model Studio, Deep thinking:
# `enable_thinking` and `thinking_budget`; Qwen on vLLM and SGLang: `chat_template_kwargs`.


def decode_reasoning(wire: dict[str, Any], compat: Compat) -> Reasoning | None:
    """The amount of reasoning, in the fields of any host; what else there is stays in the residual."""
    way, reasoning = _find_reasoning(wire)
    if reasoning is None or way == compat.thinking_format:
        return reasoning
    return replace(reasoning, extra={API: {AS: way}})


def _find_reasoning(wire: dict[str, Any]) -> tuple[str, Reasoning | None]:
    """The kind of host whose fields come first, and the amount in them."""
    given = fields_of(wire.get("reasoning"))
    effort, budget, enabled = optional(given.get("effort")), whole(given.get("max_tokens")), flag(given.get("enabled"))
    if (effort, budget, enabled) != (None, None, None):
        return "openrouter", Reasoning(effort=effort, budget=budget, enabled=enabled)
    effort, given = optional(wire.get("reasoning_effort")), fields_of(wire.get("thinking"))
    if given.get("type") in ("enabled", "disabled"):
        switched = _switched(given["type"] == "enabled", whole(given.get("budget_tokens")))
        if effort is None:
            return "zai", switched
        return "deepseek", replace(switched, effort=effort, enabled=switched.enabled and None)
    switch = flag(wire.get("enable_thinking"))
    if switch is not None:
        return "qwen", _switched(switch, whole(wire.get("thinking_budget")))
    switch = flag(fields_of(wire.get("chat_template_kwargs")).get("enable_thinking"))
    if switch is not None:
        return "qwen-chat-template", Reasoning(enabled=switch)
    # …/chat/create, `reasoning_effort`: `none` is the value for no reasoning.
    return "openai", None if effort is None else Reasoning(effort=effort, enabled=False if effort == "none" else None)


def _switched(on: bool, budget: int | None) -> Reasoning:
    """A switch with an optional budget, which implies that reasoning is on."""
    return Reasoning(budget=budget, enabled=None if on and budget is not None else on)


def encode_reasoning(body: dict[str, Any], reasoning: Reasoning, compat: Compat, report: Reporter) -> None:
    encoded = _encode_reasoning(reasoning, (reasoning.extra.get(API) or {}).get(AS) or compat.thinking_format, compat)
    body.update(encoded)
    read = decode_reasoning(encoded, compat)
    if read is None:
        report.at("$.options.reasoning", "reasoning", "this host has no value for it")
        return
    for name in ("effort", "budget", "enabled"):
        given, again = getattr(reasoning, name), getattr(read, name)
        if given != again:
            implied = name == "enabled" and (given is True or again is not None)
            why = "implied by the rest" if implied else "this host has no value for it"
            severity = "record" if implied else "dropped" if again is None else "weakened"
            report.at(f"$.options.reasoning.{name}", name, why, severity)  # type: ignore[arg-type]


def _encode_reasoning(reasoning: Reasoning, way: str, compat: Compat) -> dict[str, Any]:
    effort, budget, is_on = reasoning.effort, reasoning.budget, reasoning.enabled is not False
    if way == "openrouter":
        fields = {"effort": effort, "max_tokens": budget, "enabled": reasoning.enabled}
        encoded = {key: value for key, value in fields.items() if value is not None}
        return {"reasoning": encoded} if encoded else {}
    if way == "qwen":
        return {"enable_thinking": is_on, **({} if budget is None else {"thinking_budget": budget})}
    if way == "qwen-chat-template":
        return {"chat_template_kwargs": {"enable_thinking": is_on}}
    switch: dict[str, Any] = {}
    if way in ("zai", "deepseek"):
        limit = {} if budget is None else {"budget_tokens": budget}
        switch = {"thinking": {"type": "enabled" if is_on else "disabled", **limit}}
    elif effort is None and not is_on:
        # …/chat/create, `reasoning_effort`: not every model takes `none`: nothing is sent unless the host has a value.
        effort = "off" if "off" in compat.reasoning_effort_map else None
    if way == "zai" or effort is None or not compat.supports_reasoning_effort:
        return switch
    word = compat.reasoning_effort_map.get(effort, effort)
    return switch if word is None else {**switch, "reasoning_effort": word}


# --- options ---------------------------------------------------------------------------------------------------------


def decode_options(wire: dict[str, Any], given: Given, compat: Compat) -> Options:
    marks: dict[str, Any] = {}
    stop = wire.get("stop")
    if isinstance(stop, str):
        marks["~stop"] = True
    return Options(
        max_tokens=_decode_field(
            wire, ("max_completion_tokens", "max_tokens"), compat.max_tokens_field, "~max_tokens", marks
        ),
        **read_options(wire, SAMPLING | SERVICE),
        stop=(stop,) if isinstance(stop, str) else strings(stop),
        seed=_decode_field(wire, ("seed", "random_seed"), compat.seed_field, "~seed", marks),
        reasoning=decode_reasoning(wire, compat),
        tool_choice=_decode_choice(wire.get("tool_choice")),
        parallel_tools=flag(wire.get("parallel_tool_calls")),
        output_schema=_decode_schema(wire.get("response_format")),
        cache_retention=_decode_retention(wire.get("prompt_cache_retention"), marks),
        metadata=_decode_metadata(wire, marks),
        stream=given.stream_of(wire),
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
    """A number under one of several names; a hint records a name that is not the host's own."""
    for name in (usual, *names):
        value = whole(wire.get(name))
        if value is not None:
            if name != usual:
                marks[mark] = name
            return value
    return None


def _decode_metadata(wire: dict[str, Any], marks: dict[str, Any]) -> dict[str, Any] | None:
    """`metadata`, with `user` (the id of the end user) as `user_id`, as on other wires."""
    # …/chat/create, `user`: the end user, for caches and against abuse; `safety_identifier` and `prompt_cache_key`
    # replace it.
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
        # docs.mistral.ai/capabilities/function_calling: `any` forces a call, as `required` does elsewhere.
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
        # …/chat/create, `response_format`: `json_object` is the older mode, valid JSON without a schema.
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
    write_options(body, options, SAMPLING)
    if options.stop is not None:
        # …, `stop`: a string or a list of up to four.
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
    write_options(body, options, SERVICE)
    if options.cache_retention is not None:
        _encode_retention(body, options.cache_retention, marks, compat, report)
    if options.metadata is not None:
        _encode_metadata(body, options.metadata, marks)
    if options.stream is not None:
        body["stream"] = options.stream
        if options.stream and compat.supports_usage_in_streaming:
            # …, `stream_options`: only with `stream: true`.
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
    else:  # `in_memory` is refused by newer models; without the field, older ones do as the organization has set
        report.at("$.options.cacheRetention", "cache_retention", "the default needs no field", "record")


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
    # …: `json_schema.name` is required, of letters, digits, `_` and `-`, at most 64 characters.
    fields: dict[str, Any] = {"name": "output" if schema.name is None else schema.name, "schema": schema.schema}
    more = {"description": schema.description, "strict": schema.strict}
    fields |= {key: value for key, value in more.items() if value is not None}
    return {"type": "json_schema", "json_schema": fields}


def _encode_metadata(body: dict[str, Any], metadata: dict[str, Any], marks: Mapping[str, Any]) -> None:
    user = metadata.get("user_id")
    # …, `user`: a stable id of the end user; `metadata` holds up to 16 strings for the owner of the key.
    if isinstance(user, str) and not marks.get("~metadata"):
        body["user"] = user
        metadata = {key: value for key, value in metadata.items() if key != "user_id"}
        if not metadata:
            return
    body["metadata"] = metadata


@request_decoder(API)
def decode_request(body: Any, given: Given) -> Request:
    """A Chat Completions request. The caller gives `model` and `stream` where the host has them outside the body."""
    wire = an_object(body, API)
    model = given.model_of(wire.get("model"))
    compat = compat_of(given.quirks, model)
    messages = wire.get("messages", [])
    if not isinstance(messages, list):
        raise BadWire(API, f"expected a list, got {type(messages).__name__}", "$.messages")
    system, role, extra = _decode_system(messages[0] if messages else None)
    context = replace(
        CONTEXT,
        system=system,
        messages=decode_messages(messages if system is None else messages[1:], given.api, compat, given.mint),
        tools=decode_tools(wire.get("tools"), API, _decode_tool),
        system_role=role,
        extra=extra,
    )
    # `messages` and `tools` have residuals of their own; training rows have no other fields.
    lists = [key for key in ("messages", "tools") if isinstance(wire.get(key), list)]
    if len(lists) == len(wire) and "messages" in lists and given.stream is None and not model.id:
        absent = residual({}, _host_defaults(compat))
        return Request(model=model, context=context, options=Options(), extra={API: absent} if absent else {})
    if compat is PLAIN_HOST and given.model is None and given.stream is None and _is_usual(wire):
        is_older = "max_tokens" in wire
        options = Options(
            max_tokens=wire.get("max_tokens" if is_older else "max_completion_tokens"),
            temperature=wire.get("temperature"),
            stream=wire.get("stream"),
            extra={API: {"~max_tokens": "max_tokens"}} if is_older else {},
        )
        return Request(model=model, context=context, options=options)
    request = Request(model=model, context=context, options=decode_options(wire, given, compat))
    bare = replace(context, messages=(), tools=None if context.tools is None else ())
    return keeping(request, API, wire, encode_request(replace(request, context=bare), quirks=given.quirks).body, lists)


def _is_usual(wire: dict[str, Any]) -> bool:
    """Whether a request has only plain fields beside its messages, so that it has no residual."""
    for key, value in wire.items():
        if type(value) not in _USUAL.get(key, ()):
            return False
    if not wire.get("model") or "messages" not in wire or ("max_tokens" in wire and "max_completion_tokens" in wire):
        return False
    # The encoder asks each stream for its usage: a request that does not has a hint.
    asks_usage = "stream_options" in wire and same(wire["stream_options"], _WITH_USAGE)
    return asks_usage is (wire.get("stream") is True) and asks_usage is ("stream_options" in wire)


_USUAL: dict[str, tuple[type, ...]] = {
    "model": (str,),
    "messages": (list,),
    "tools": (list,),
    "max_completion_tokens": (int,),
    "max_tokens": (int,),
    "temperature": (int, float),
    "stream": (bool,),
    "stream_options": (dict,),
}
_WITH_USAGE = {"include_usage": True}


def _decode_system(wire: Any) -> tuple[System, str | None, Extra]:
    """The first message, if it is the system prompt: its content, its role if not `system`, and its residual."""
    role = wire.get("role") if isinstance(wire, dict) else None
    if role not in ("system", "developer"):
        return None, None, {}
    system: Any = wire.get("content")
    if isinstance(system, list):
        system = tuple(map(decode_part, system))
        if not all(isinstance(block, TextBlock) for block in system):
            return None, None, {}
    elif not isinstance(system, str):
        return None, None, {}
    named = "developer" if role == "developer" else None
    if len(wire) == 2 and isinstance(system, str):
        return system, named, {}
    emitted = plain_message(role, system)
    extra_fields = residual({**wire, "content": emitted["content"]}, emitted)
    return system, named, {API: {MESSAGE: extra_fields}} if extra_fields else {}


def _decode_tool(wire: Any) -> ToolSpec:
    function: Any = an_object(wire, API).get("function")
    name = function.get("name") if isinstance(function, dict) else None
    if wire.get("type", "function") != "function" or not isinstance(name, str):  # a tool of the provider
        kind = wire.get("type")
        inner = wire.get(kind) if isinstance(kind, str) else None
        name = inner.get("name") if isinstance(inner, dict) else wire.get("name")
        return ToolSpec(name=name if isinstance(name, str) else str(kind), dialect=API, value=wire)
    if len(wire) == 2 and "type" in wire:
        description, schema = function.get("description"), function.get("parameters")
        plain = len(function) == 2 if description is None else len(function) == 3 and type(description) is str
        if plain and type(schema) is dict:  # fast path: no residual
            return ToolSpec(name=name, description=description, input_schema=schema)
    tool = ToolSpec(
        name=name,
        description=optional(function.get("description")),
        input_schema=function.get("parameters"),
        strict=flag(function.get("strict")),
        cache=decode_cache(wire),
    )
    return keeping(tool, API, wire, _encode_tool(tool))


@request_encoder(API, FIELD_SUPPORT)
def encode_request(request: Request, report: Reporter, quirks: Quirks) -> dict[str, Any]:
    """The body of a Chat Completions request."""
    context, compat = request.context, compat_of(quirks, request.model)
    body: dict[str, Any] = {}
    if request.model.id:
        body["model"] = request.model.id
    messages = encode_messages(context.messages, compat, report)
    system = _encode_system(request, compat, messages, report)
    body["messages"] = messages if system is None else [system, *messages]
    if context.tools is not None:
        body["tools"] = encode_tools(context.tools, API, lambda spec: _encode_tool(spec, compat), report)
        for at, spec in enumerate(context.tools if not compat.supports_strict_mode else ()):
            if spec.strict is not None and spec.dialect is None:
                report.at(f"$.tools[{at}].strict", "strict", "this host does not know strict schemas", "weakened")
    encode_options(body, request.options, compat, report)
    if compat is not PLAIN_HOST:
        body.update(_host_defaults(compat))
    return restored(body, request.extra, API) if request.extra else body


def _encode_system(
    request: Request, compat: Compat, messages: list[dict[str, Any]], report: Reporter
) -> dict[str, Any] | None:
    """The system prompt as the first message. Without one, a first system message will be decoded as it."""
    context = request.context
    given = context.system_role
    if context.system is None:
        system, role, _ = _decode_system(messages[0] if messages else None)
        if system is not None:
            why = "it comes first and is read as the system prompt"
            report.at("$.messages[0]", "system message", why, "weakened")
            report.at(SYSTEM, "system", "a first system message is read as the system prompt", "weakened")
        if role != given:
            report.at("$.systemRole", "system_role", "the role of the first message", "record")
        return None
    developer = given == "developer" and compat.supports_developer_role is not False
    # platform.openai.com/docs/guides/reasoning: from o1 on, developer messages replace system messages.
    if compat.supports_developer_role and request.model.reasoning:
        developer = True
    if given != ("developer" if developer else None):
        report.at(
            "$.systemRole", "system_role", "as the host knows roles", "record" if given == "system" else "weakened"
        )
    report.root = SYSTEM
    wire = {"role": "developer" if developer else "system", "content": encode_content(context.system, report)}
    report.root = ""
    extra_fields = (context.extra.get(API) or {}).get(MESSAGE) if context.extra else None
    return put_back(wire, extra_fields) if extra_fields else wire


def _encode_tool(spec: ToolSpec, compat: Compat = PLAIN_HOST) -> dict[str, Any]:
    function: dict[str, Any] = {"name": spec.name}
    if spec.description is not None:
        function["description"] = spec.description
    if spec.input_schema is not None:
        function["parameters"] = spec.input_schema
    if spec.strict is not None and compat.supports_strict_mode:
        function["strict"] = spec.strict
    wire: dict[str, Any] = {"type": "function", "function": function}
    if spec.cache is not None:
        put_cache(wire, spec.cache)
    return restored(wire, spec.extra, API) if spec.extra else wire


def _host_defaults(compat: Compat) -> dict[str, Any]:
    """The fields that are sent to a host by default."""
    fields: dict[str, Any] = {"store": False} if compat.supports_store else {}
    if compat.open_router_routing:
        # openrouter.ai/docs/features/provider-routing.
        fields["provider"] = compat.open_router_routing
    if compat.vercel_gateway_routing:
        # vercel.com/docs/ai-gateway/models-and-providers/provider-filtering-and-ordering: `order` and `only`, under
        # `gateway`.
        fields["providerOptions"] = {"gateway": compat.vercel_gateway_routing}
    return fields


def path(model: str, stream: bool, *, quirks: Quirks = None) -> str:
    path = compat_of(quirks).path
    return path.replace("{model}", quote(model, safe="")) if "{" in path else path


decode, encode = conversation_codec(API, decode_request, encode_request)
