"""The request for one target: the client's own bytes where the target would receive the same, else translated.

What the target cannot have is refused here, or among the losses: the key decides which are allowed.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..connect.connector import HttpConnector
from ..connect.stream import Restore
from ..conversion.adapting.adapter import Adapted
from ..dialects.wire import Rephrased, Variant, Wire
from ..values import jsontext
from ..values.errors import BadRequest
from ..values.losses import Loss, replaced, without_records
from ..values.messages import AssistantMessage, Block, ThinkingBlock, blocks_of
from ..values.request import CallOptions, Request
from .exchange import Lane
from .incoming import Incoming
from .option_types import refuse_wrong_types
from .recall import reference_id
from .rewriting import renaming, with_option
from .routing import Place

# Quirks of a variant that change its address, not its bodies.
_ADDRESSES = frozenset({"api", "path", "publisher"})
# A letter of "model" in hexadecimal: no client writes it so, and a key spelled that way would be a second model beside
# the one that the client's key was checked for. Hosts differ in which of two equal keys counts (RFC 8259, 4).
_ESCAPED_NAME = re.compile(rb"\\u00(?:6[45cdfCDF])")


class TooLossy(BadRequest):
    """The key does not allow the losses of the request at this target."""


class Outgoing(Struct, frozen=True, kw_only=True):
    """A request for one target."""

    lane: Lane
    body: bytes
    restore: Restore | None = None
    losses: tuple[Loss, ...] = ()
    hides_usage: bool = False  # usage was requested although the client did not request it
    rephrased: Rephrased | None = None  # the endpoint that is called, if it is not the main one

    def __repr__(self) -> str:
        return f"Outgoing({self.lane}, {len(self.body)} bytes)"


def outgoing(place: Place, incoming: Incoming, stream: bool) -> Outgoing:
    """Returns the request for one target. Takes time proportional to the request."""
    target_wire, connector = place.wire, place.connector
    assert target_wire is not None and isinstance(connector, HttpConnector)
    options = incoming.request.options
    if options.stream is not stream:
        options = replace(options, stream=stream)
    is_stored, is_foreign = incoming.wire.http.stored_route is not None, target_wire.base != incoming.wire.base
    has_items = not is_foreign and incoming.item_owners <= {place.model.provider}  # those that are referred to
    source = incoming.request if has_items or incoming.resolved is None else incoming.resolved
    request = replace(source, model=place.model, options=options)
    lost: tuple[Loss, ...] = ()
    if is_stored:
        if is_foreign:
            _refuse_references(request, incoming.wire.base)
        request, lost = _in_foreground(request, incoming.wire.base)
    refuse_untranslatable(place, incoming)
    adapted = place.adapt(request)
    if adapted.places == (None,):
        _refuse_placeholder(incoming, adapted)
    is_unchanged = incoming.body is not None and has_items and not (incoming.as_array or lost or incoming.rephrased)
    if is_unchanged and is_same_wire(incoming.wire, target_wire):
        if adapted.request != request:
            # The client returns the signatures of an earlier response, and no wire names the model that signed them.
            # Unless the gateway has a record, it assumes the model that is called now.
            request = _by_default_author(request, place)
            adapted = place.adapt(request)
        sent = _without_stored_items(request, target_wire)
        checked = adapted if sent is request else place.adapt(sent)
        passed = _passed(place, incoming, sent, checked, stream)
        if passed is not None:
            return passed
    body, restore, losses = connector.body(target_wire, request, adapted)
    option = target_wire.http.usage_option
    if option is not None and stream and _reports_usage(place):
        # Chat clients need not ask for usage; its chunk is not encoded for one that did not.
        given = body.get(option[0])
        body = {**body, option[0]: {**(given if isinstance(given, dict) else {}), option[1]: True}}
    if incoming.rephrased is not None:
        body = incoming.rephrased.encode_request(body)
    losses = (*map(replaced, jsontext.repaired_in(incoming.received)), *lost, *without_records(losses))
    return Outgoing(
        lane="translated", body=jsontext.write(body), restore=restore, losses=losses, rephrased=incoming.rephrased
    )


def refuse_untranslatable(place: Place, incoming: Incoming) -> None:
    """Refuses options of a wrong type at a target with another wire, and a request that only one endpoint of the
    client's wire knows at a target without that endpoint."""
    request, rephrased = incoming.request, incoming.rephrased
    if (request.extra or request.options.extra) and (place.wire is None or place.wire.base != incoming.wire.base):
        refuse_wrong_types(incoming.wire.base, request)
    if rephrased is None or (place.wire is not None and place.wire.http.rephrased == rephrased):
        return
    own = request.extra.get(incoming.wire.base, {})
    fields = ", ".join(f"`{name}`" for name in rephrased.own_fields if name in own)
    facts = incoming.wire.http
    raise TooLossy(
        f"{place.name} has no equivalent of {fields} in {rephrased.route}; leave it out, send a conversation to "
        f"{facts.route} as `{facts.input_field}`, or ask for a model whose provider is {incoming.wire.telemetry}",
        status=400,
        code="loss_not_allowed",
    )


def _refuse_placeholder(incoming: Incoming, adapted: Adapted) -> None:
    """Refuses a request of which nothing is left that the target could read: it would answer a placeholder."""
    given = incoming.request.context
    if given.system and not given.messages:
        return
    dropped = "; ".join(f"{loss.path}: {loss.why}" for loss in adapted[1] if loss.severity == "dropped")
    nothing = f"`{incoming.wire.http.input_field}` holds nothing that this model can read"
    raise BadRequest(f"{nothing}{f' ({dropped})' if dropped else ''}; send a text in it", status=400)


def _in_foreground(request: Request, api: str) -> tuple[Request, tuple[Loss, ...]]:
    """Returns the request without `background`, which is for HTTP: the client of a WebSocket waits for the response."""
    own = request.extra.get(api, {})
    if not own.get("background"):
        return request, ()
    own = {name: value for name, value in own.items() if name != "background"}
    lost = Loss(f"$.extra.{api}.background", "background", "the client waits for the response", "weakened")
    return replace(request, extra={**request.extra, api: own}), (lost,)


def _refuse_references(request: Request, api: str) -> None:
    """Refuses references to items that neither the gateway nor the provider has."""
    answers = (message for message in request.context.messages if isinstance(message, AssistantMessage))
    for block in (block for answer in answers for block in blocks_of(answer.content)):
        id = reference_id(block, api)
        if id is not None:
            remedy = "send the whole item (many clients do with `store` = false)"
            raise BadRequest(f"item with id {id!r} not found; {remedy}", status=404)


def _by_default_author(request: Request, place: Place) -> Request:
    author = {"model": place.model.id, "provider": place.model.provider, "api": place.model.api}
    messages = tuple(
        replace(message, **author) if isinstance(message, AssistantMessage) and message.model is None else message
        for message in request.context.messages
    )
    return replace(request, context=replace(request.context, messages=messages))


def _without_stored_items(request: Request, target_wire: Wire) -> Request:
    """Returns the request without reasoning that is only an id. The provider has stored it, unless `store` is false
    (developers.openai.com/api/docs/guides/reasoning): nothing of it needs to be verified or repaired."""
    api = target_wire.base
    if not target_wire.limits.item_ids or request.extra.get(api, {}).get("store") is False:
        return request
    messages, changed = [], False
    for message in request.context.messages:
        if isinstance(message, AssistantMessage):
            blocks = blocks_of(message.content)
            kept = tuple(block for block in blocks if not _is_stored_item(block, api))
            if len(kept) < len(blocks):
                message, changed = replace(message, content=kept), True
        messages.append(message)
    return replace(request, context=replace(request.context, messages=tuple(messages))) if changed else request


def _is_stored_item(block: Block, api: str) -> bool:
    return (
        isinstance(block, ThinkingBlock)
        and block.thinking_signature is None
        and bool(block.extra.get(api, {}).get("id"))
    )


def is_same_wire(client: Wire, target_wire: Wire) -> bool:
    """Whether two wires have the same bodies and streams: the same one, or one at another URL."""
    if client.api == target_wire.api:
        return True
    if client.base != target_wire.base or client.http.content_type != target_wire.http.content_type:
        return False
    return all(
        not isinstance(wire.codec, Variant) or set(wire.codec.quirks) <= _ADDRESSES for wire in (client, target_wire)
    )


def _passed(place: Place, incoming: Incoming, request: Request, adapted: Adapted, stream: bool) -> Outgoing | None:
    """Returns the client's own bytes for a target with the same wire; None if the target needs anything else."""
    target_wire, connector, body = place.wire, place.connector, incoming.body
    assert target_wire is not None and body is not None and isinstance(connector, HttpConnector)
    if adapted.request != request or adapted.restore_block is not None:
        return None
    if target_wire.http.streaming is None and _ESCAPED_NAME.search(body):
        return None
    if place.model.compat or connector.row.body or target_wire.http.only_streams:
        # The host has quirks, so its body would differ from the client's.
        own, _, _ = connector.body(target_wire, request, adapted)
        given = jsontext.read(body)
        if _without(own) != _without(given):
            return None
    hides_usage = False
    if target_wire.http.streaming is None:
        body = renaming((("model",),), place.model.id)(body)
    option = target_wire.http.usage_option
    if option is not None and stream and _reports_usage(place):
        given = jsontext.read(body).get(option[0])
        hides_usage = not (isinstance(given, dict) and given.get(option[1]) is True)
        if hides_usage:
            body = with_option(body, *option)
    losses = adapted.warnings
    if incoming.body is not incoming.received:  # written anew: what could not be read is replaced in it
        losses = (*map(replaced, jsontext.repaired_in(incoming.received)), *losses)
    return Outgoing(lane="same", body=body, losses=losses, hides_usage=hides_usage)


def _reports_usage(place: Place) -> bool:
    """Whether a host knows the option that requests usage in a stream."""
    return (place.model.compat or {}).get("supportsUsageInStreaming") is not False


def _without(body: Any) -> Any:
    """Returns a body without the fields that the gateway sets itself."""
    return {name: value for name, value in body.items() if name not in ("model", "stream", "stream_options")}


def refuse_losses(outgoing: Outgoing, allowed: str) -> None:
    """Refuses losses that a strict key does not allow, with the list."""
    if allowed == "any" or not outgoing.losses:
        return
    severe = ("dropped",) if allowed == "minor" else ("dropped", "weakened")
    lost = [loss for loss in outgoing.losses if loss.severity in severe]
    if lost:
        listed = "; ".join(f"{loss.path}: {loss.what} {loss.severity} ({loss.why})" for loss in lost[:20])
        more = f"; and {len(lost) - 20} more" if len(lost) > 20 else ""
        raise TooLossy(
            f"the request would lose {listed}{more}; leave it out, ask for another model, or use a key that allows it",
            status=400,
            code="loss_not_allowed",
        )


def request_headers(
    place: Place, incoming: Incoming, fixed: Mapping[str, str], key: str | None, lane: Lane
) -> Mapping[str, str]:
    """Returns the headers of the target, those of its row for this request, and the client's own on the same wire; of
    one name, in any case, a single one.
    """
    connector = place.connector
    assert isinstance(connector, HttpConnector)
    own = connector.row.request_headers
    forwarded = incoming.headers if lane == "same" else {}
    if own is None and not forwarded:
        return fixed
    headers = dict(fixed)
    if own is not None:
        _merge(headers, own(replace(incoming.request, model=place.model), key), replaces=False)
    _merge(headers, forwarded, replaces=True)
    return headers


def _merge(headers: dict[str, str], given: Mapping[str, str], *, replaces: bool) -> None:
    """Adds headers. Lists (`anthropic-beta`) are joined; a single word (`anthropic-version`) replaces, or stays."""
    for name, value in given.items():
        before = next((one for one in headers if one.lower() == name.lower()), None)
        if before is None:
            headers[name] = value
        elif "beta" in name.lower():
            if value not in headers[before]:
                headers[before] = f"{headers[before]},{value}"
        elif replaces:
            headers[before] = value


async def signed(
    place: Place, incoming: Incoming, made: Outgoing, options: CallOptions, stream: bool
) -> tuple[str, Mapping[str, str], bytes]:
    """Returns URL, headers and body of a request whose credentials its connector makes."""
    connector = place.connector
    assert isinstance(connector, HttpConnector) and place.wire is not None
    given = incoming.request
    options = replace(options, on_payload=lambda body, model: jsontext.read(made.body))
    request = replace(given, model=place.model, options=replace(given.options, stream=stream))
    prepared = await connector.prepare(place.wire, request, options, [None])
    return prepared.url, prepared.headers, prepared.body
