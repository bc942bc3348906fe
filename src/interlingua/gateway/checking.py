"""What a gateway's settings mean, before it starts: every alias, its prices and fallbacks, and what each pair loses."""

from collections.abc import Iterator

from msgspec import Struct

from ..connect.client import Client
from ..connect.retry import Breaker
from ..connect.transport import HttpTransport
from ..dialects.registry import WIRES
from ..dialects.wire import Wire
from ..values.errors import InterlinguaError
from ..values.request import Context, ModelDescriptor, Request
from .exchange import LOCAL
from .routing import Router
from .settings import Alias, Settings, Target


class TargetReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One target of an alias. `losses` names, by client wire, the fields that clients can send and it cannot take."""

    alias: str
    target: str
    role: str  # target, fallback
    wire: str | None = None
    context_window: int | None = None
    has_price: bool = False
    problem: str | None = None
    losses: dict[str, tuple[str, ...]] = {}


async def check_settings(settings: Settings) -> list[TargetReport]:
    """A report on every target. Nothing is sent to any provider."""
    transport = HttpTransport()
    try:
        client = Client(transport=transport)
        return [
            await _report(settings, alias, target, role, client)
            for alias in settings.aliases
            for role, targets in (("target", alias.targets), ("fallback", alias.fallbacks))
            for target in targets
        ]
    finally:
        await transport.aclose()


async def _report(settings: Settings, alias: Alias, target: Target, role: str, client: Client) -> TargetReport:
    name = target.model if isinstance(target.model, str) else f"{target.model.provider}/{target.model.id}"
    # Each target alone, so that one that is wrong hides no other.
    alone = Settings(providers=settings.providers, aliases=(Alias(name=alias.name, targets=(target,)),))
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
    """The wires that clients speak: one for each form of a request."""
    return [wire for wire in WIRES.values() if wire.codec.API == wire.api]


def lost_fields(client: Wire, target: Wire) -> Iterator[str]:
    """What a client of one wire can say and another wire cannot, by the tables of both."""
    if client.codec.API == target.codec.API:
        return
    own, other = (getattr(wire.codec, "FIELD_SUPPORT", {}) for wire in (client, target))
    for name, support in own.items():
        if support.kind in ("kept", "some") and name in other and other[name].kind in ("dropped", "weakened"):
            yield name
