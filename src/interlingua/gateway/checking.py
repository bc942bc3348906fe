"""Checks a gateway's settings before it starts: every alias, its prices and fallbacks, and the losses of each pair."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..connect.client import Client
from ..connect.retry import Breaker
from ..conversion.adapting.adapter import adapt
from ..dialects.registry import WIRES
from ..dialects.wire import Wire
from ..values.errors import InterlinguaError
from ..values.losses import Loss
from ..values.messages import (
    AssistantMessage,
    Block,
    CacheMarker,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ..values.request import (
    Context,
    ModelDescriptor,
    Options,
    OutputSchema,
    Reasoning,
    Request,
    ToolSpec,
)
from .exchange import LOCAL
from .routing import Router
from .settings import Alias, ProviderSettings, Settings, Target


class TargetReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One target of an alias. `losses` has, by client wire, the fields that clients can send and it does not
    support.
    """

    alias: str
    target: str
    role: str  # target, fallback, rule, provider
    wire: str | None = None
    context_window: int | None = None
    has_price: bool = False
    problem: str | None = None
    losses: dict[str, tuple[str, ...]] = {}


async def check_settings(settings: Settings) -> list[TargetReport]:
    """Returns a report on every target. Nothing is sent to any provider."""
    async with Client() as client:
        reports = [
            await _report(settings, alias, target, role, client)
            for alias in settings.aliases
            for role, targets in (("target", alias.targets), ("fallback", alias.fallbacks))
            for target in targets
        ]
        for own in settings.providers:
            problem = await _problem(Settings(providers=(own,)), client)
            if problem is not None:
                reports.append(TargetReport(alias="", target=own.id, role="provider", problem=problem))
        names = {alias.name for alias in settings.aliases}
        for rule in settings.rules:
            used = _used(settings, rule.to)
            problem = None if rule.to in names else await _problem(Settings(providers=used, rules=(rule,)), client)
            if problem is not None:
                reports.append(TargetReport(alias="", target=rule.to, role="rule", problem=problem))
        return reports


async def _problem(settings: Settings, client: Client) -> str | None:
    try:
        await Router(settings, client, Breaker()).resolve()
    except InterlinguaError as error:
        return str(error)
    return None


def _used(settings: Settings, name: str) -> tuple[ProviderSettings, ...]:
    """Returns the settings of a model's provider."""
    return tuple(one for one in settings.providers if one.id == name.partition("/")[0])


async def _report(settings: Settings, alias: Alias, target: Target, role: str, client: Client) -> TargetReport:
    name = target.model if isinstance(target.model, str) else f"{target.model.provider}/{target.model.id}"
    # Each target alone, so that one that is wrong hides no other.
    alone = Settings(providers=_used(settings, name), aliases=(Alias(name=alias.name, targets=(target,)),))
    try:
        router = Router(alone, client, Breaker())
        await router.resolve()
        asked = Request(model=ModelDescriptor(id=alias.name), context=Context(messages=()))
        (place,) = (await router.plan(alias.name, LOCAL, asked, {}, 0)).places
    except InterlinguaError as error:
        return TargetReport(alias=alias.name, target=name, role=role, problem=str(error))
    model = place.model
    return TargetReport(
        alias=alias.name,
        target=name,
        role=role,
        wire=model.api,
        context_window=model.context_window,
        has_price=model.cost is not None or place.wire is None,
        losses={}
        if place.wire is None
        else {wire.api: lost for wire in front_wires() if (lost := tuple(lost_fields(wire, place.wire)))},
    )


def front_wires() -> list[Wire]:
    """Returns the wires of clients: one for each form of a request."""
    return [wire for wire in WIRES.values() if wire.base == wire.api]


_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_PDF = "JVBERi0xLjQKJSBhIGRvY3VtZW50Cg=="
_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_CALLS = tuple(ToolCall(id=f"call_{city}", name="weather", arguments={"city": city}) for city in ("Oslo", "Rome"))
_RESULTS = tuple(
    ToolResultMessage(tool_call_id=call.id, tool_name=call.name, content="sunny", is_error=False) for call in _CALLS
)


def _sample(*blocks: Block, **options: Any) -> Request:
    messages = (UserMessage(content=(TextBlock(text="What is it?"), *blocks)),)
    context = Context(system="Be brief.", messages=messages)
    return Request(model=ModelDescriptor(id="model"), context=context, options=Options(max_tokens=4000, **options))


def _with_calls() -> Request:
    asked = _sample()
    messages = (*asked.context.messages, AssistantMessage(content=_CALLS, stop_reason="toolUse"), *_RESULTS)
    tool = ToolSpec(name="weather", description="The weather of a city.", input_schema=_SCHEMA)
    return replace(asked, context=replace(asked.context, messages=messages, tools=(tool,)))


# What programs ask for, by name: the cells of the table in docs/gateway.md.
SCENARIOS: dict[str, Request] = {
    "text": _sample(temperature=0.5),
    "thinking": _sample(reasoning=Reasoning(effort="medium")),
    "parallel tools": _with_calls(),
    "images": _sample(ImageBlock(data=_PNG, mime_type="image/png")),
    "documents": _sample(DocumentBlock(data=_PDF, mime_type="application/pdf")),
    "structured output": _sample(output_schema=OutputSchema(schema=_SCHEMA)),
    "caching marks": _sample(TextBlock(text="A long text.", cache=CacheMarker())),
}


def scenario_body(client: Wire, scenario: str) -> Any:
    """Returns the request of a scenario in a client's wire; None if that wire does not support it."""
    encoded = client.codec.encode_request(replace(SCENARIOS[scenario], model=ModelDescriptor(id="m", api=client.api)))
    return None if any(loss.severity != "record" for loss in encoded.losses) else encoded.body


def scenario_losses(client: Wire, target: Wire, scenario: str) -> tuple[Loss, ...] | None:
    """Returns the losses of a scenario between a client and a provider; None if the client does not support it."""
    body = scenario_body(client, scenario)
    if body is None:
        return None
    model = ModelDescriptor(id="model", provider=target.api, api=target.api)
    given = replace(client.codec.decode_request(body, model="model"), model=model)
    request, lost = adapted = adapt(given, model)
    if client.base == target.base and request == given:  # it is forwarded unchanged
        return ()
    found = (*lost, *adapted.warnings, *target.codec.encode_request(request).losses)
    return tuple(loss for loss in found if loss.severity != "record")


def lost_fields(client: Wire, target: Wire) -> Iterator[str]:
    """Returns the fields that one wire supports and another does not, by their tables."""
    if client.base == target.base:
        return
    own, other = (getattr(wire.codec, "FIELD_SUPPORT", {}) for wire in (client, target))
    for name, support in own.items():
        if support.kind in ("kept", "some") and name in other and other[name].kind in ("dropped", "weakened"):
            yield name
