"""Requests: the system prompt, messages, tools, and everything about how to answer."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from ...values.errors import BadWire
from ...values.losses import SYSTEM, Encoded, Reporter, encoded
from ...values.messages import Extra, TextBlock
from ...values.request import Context, Conversation, ModelDescriptor, Request, System, ToolSpec
from ..residual import (
    MESSAGE,
    an_object,
    api_of,
    body_of,
    decode_conversation,
    each,
    encode_conversation,
    flag,
    keeping,
    model_of,
    optional,
    put_back,
    reading,
    residual,
    restored,
    say_tools,
)
from .facts import API, FIELD_SUPPORT
from .hosts import PLAIN_HOST, Compat, compat_of
from .messages import decode_messages, encode_content, encode_messages, say_plain
from .options import decode_options, encode_options
from .parts import decode_cache, decode_part, say_cache


@reading(API)
def decode_request(
    body: Any,
    *,
    model: str | ModelDescriptor | None = None,
    stream: bool | None = None,
    mint: Callable[[int], str] | None = None,
    quirks: Mapping[str, Any] | None = None,
) -> Request:
    """A Chat Completions request. `model` and `stream` are for hosts that say them outside the body."""
    wire = an_object(body_of(body, API), API)
    spoken = api_of(quirks, API)
    described = model_of(wire.get("model"), model, spoken)
    compat = compat_of(quirks, described)
    given = wire.get("messages", [])
    if not isinstance(given, list):
        raise BadWire(API, f"expected a list, got {type(given).__name__}", "$.messages")
    system, role, extra = _decode_system(given[0] if given else None)
    context = Context(
        system=system,
        messages=decode_messages(given if system is None else given[1:], spoken, compat, mint),
        tools=_decode_tools(wire.get("tools")),
        system_role=role,
        extra=extra,
    )
    request = Request(model=described, context=context, options=decode_options(wire, stream, compat))
    emitted, _ = encode_request(request, quirks=quirks)
    # `messages` and `tools` keep their own residuals, item by item.
    lists = {key: emitted[key] for key in ("messages", "tools") if isinstance(wire.get(key), list) and key in emitted}
    return keeping(request, API, {**wire, **lists}, emitted)


def _decode_system(wire: Any) -> tuple[System, str | None, Extra]:
    """The first message, if it is the system prompt: its text, its role where it is not the usual one, and the rest."""
    role = wire.get("role") if isinstance(wire, dict) else None
    if role not in ("system", "developer"):
        return None, None, {}
    content = wire.get("content")
    system: System = content if isinstance(content, str) else None
    if isinstance(content, list):
        blocks = tuple(map(decode_part, content))
        if all(isinstance(block, TextBlock) for block in blocks):
            system = blocks  # type: ignore[assignment]
    if system is None:
        return None, None, {}
    emitted = say_plain(role, system)
    given = wire if isinstance(content, str) else {**wire, "content": emitted["content"]}
    extra_fields = residual(given, emitted)
    return system, "developer" if role == "developer" else None, {API: {MESSAGE: extra_fields}} if extra_fields else {}


def _decode_tools(wire: Any) -> tuple[ToolSpec, ...] | None:
    if not isinstance(wire, list):
        return None
    return tuple(each(wire, "tools", API, _decode_tool))


def _decode_tool(wire: Any) -> ToolSpec:
    function = an_object(wire, API).get("function")
    if wire.get("type", "function") != "function" or not isinstance(function, dict):
        return _own_tool(wire)
    name = function.get("name")
    if not isinstance(name, str):
        return _own_tool(wire)
    tool = ToolSpec(
        name=name,
        description=optional(function.get("description")),
        input_schema=function.get("parameters"),
        strict=flag(function.get("strict")),
        cache=decode_cache(wire),
    )
    return keeping(tool, API, wire, _encode_tool(tool))


def _own_tool(wire: dict[str, Any]) -> ToolSpec:
    kind = wire.get("type")
    inner = wire.get(kind) if isinstance(kind, str) else None
    name = inner.get("name") if isinstance(inner, dict) else wire.get("name")
    return ToolSpec(name=name if isinstance(name, str) else str(kind), dialect=API, value=wire)


def encode_request(request: Request, *, strict: bool = False, quirks: Mapping[str, Any] | None = None) -> Encoded:
    """The body of a Chat Completions request."""
    report = Reporter()
    context, compat = request.context, compat_of(quirks, request.model)
    body: dict[str, Any] = {}
    if request.model.id:
        body["model"] = request.model.id
    messages = encode_messages(context.messages, compat, report)
    system = _encode_system(request, compat, messages, report)
    body["messages"] = messages if system is None else [system, *messages]
    if context.tools is not None:
        body["tools"] = say_tools(context.tools, API, lambda spec: _encode_tool(spec, compat), report)
        if not compat.supports_strict_mode:
            _report_strict(context.tools, report)
    encode_options(body, request.options, compat, report)
    if compat is not PLAIN_HOST:
        _encode_host(body, compat)
    emitted = restored(body, request.extra, API) if request.extra else body
    return encoded(API, emitted, request, FIELD_SUPPORT, report.losses, strict=strict, spoken=api_of(quirks, API))


def _encode_system(
    request: Request, compat: Compat, messages: list[dict[str, Any]], report: Reporter
) -> dict[str, Any] | None:
    """The system prompt as the first message. Without one, a system message that comes first is read as it."""
    context = request.context
    given = context.system_role
    if context.system is None:
        role = _lifted_role(messages, report)
        if role != given:
            report.at("$.systemRole", "system_role", "the role of the first message", "record")
        return None
    developer = given == "developer" and compat.supports_developer_role is not False
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


def _lifted_role(messages: list[dict[str, Any]], report: Reporter) -> str | None:
    system, role, _ = _decode_system(messages[0] if messages else None)
    if system is None:
        return None
    report.at("$.messages[0]", "system message", "it comes first and is read as the system prompt", "weakened")
    report.at(SYSTEM, "system", "a first system message is read as the system prompt", "weakened")
    return role


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
        say_cache(wire, spec.cache)
    return restored(wire, spec.extra, API) if spec.extra else wire


def _report_strict(specs: tuple[ToolSpec, ...], report: Reporter) -> None:
    for at, spec in enumerate(specs):
        if spec.strict is not None and spec.dialect is None:
            report.at(f"$.tools[{at}].strict", "strict", "this host does not know strict schemas", "weakened")


def _encode_host(body: dict[str, Any], compat: Compat) -> None:
    """What a host wants to be told with every request."""
    if compat.supports_store:
        body["store"] = False
    if compat.open_router_routing:
        body["provider"] = compat.open_router_routing
    if compat.vercel_gateway_routing:
        body["providerOptions"] = {"gateway": compat.vercel_gateway_routing}


def path(model: str, stream: bool, *, quirks: Mapping[str, Any] | None = None) -> str:
    return compat_of(quirks).path.replace("{model}", quote(model, safe=""))


def decode(data: Any, *, quirks: Mapping[str, Any] | None = None) -> Conversation:
    return decode_conversation(data, API, lambda body: decode_request(body, quirks=quirks), "messages")


def encode(conversation: Conversation, *, quirks: Mapping[str, Any] | None = None) -> Encoded:
    return encode_conversation(conversation, API, lambda request: encode_request(request, quirks=quirks), "messages")
