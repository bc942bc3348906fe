"""Every place where a model can be asked: each row of the providers' table, and each of its routes."""

import re
from typing import Any, NamedTuple

from interlingua import Request
from interlingua.connect.client import Client
from interlingua.connect.providers import ROWS, Provider
from interlingua.connect.stream import Stream
from interlingua.events import StreamEvent
from interlingua.testing import Server

UNKNOWN = "a-model-nobody-knows"
# One white dot.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
REPORTED_COST = 0.25  # what the record of an answer says, where a provider keeps one


class Place(NamedTuple):
    row: Provider
    model: str

    @property
    def api(self) -> str:
        return self.row.route(self.model).api

    @property
    def name(self) -> str:
        return f"{self.row.id}/{self.model}"


def sample(pattern: str) -> str:
    """An id that a route's pattern takes: the first of its choices, and anything for anything."""
    id = re.sub(r"\(([^|)]*)\|[^)]*\)", r"\1", pattern).replace(".*", "x")
    assert re.fullmatch(pattern, id), f"make `sample` understand the route {pattern!r}"
    return id


PLACES = [Place(row, id) for row in ROWS for id in (UNKNOWN, *(sample(route.pattern) for route in row.routes))]


def ask(server: Server, place: Place, context: Any, **options: Any) -> Stream:
    """An answer from this place, served by the test's own server. No second try unless asked for."""
    given = {"api_key": "key-1", "base_url": server.base_url(place.api), "timeout": 20, "retry": 0, **options}
    if place.row.compat.get("supportsUsageInStreaming") is False:
        given.setdefault("on_payload", _as_if_asked_for_usage)
    if place.row.reports_cost:
        server.route("GET", "/openai-completions/v1/generation", {"data": {"total_cost": REPORTED_COST}})
    return Client().stream(place.name, context, **given)


def _as_if_asked_for_usage(body: dict[str, Any], model: object) -> dict[str, Any]:
    """Some hosts refuse to be asked for usage and tell it unasked; the test's server wants to be asked."""
    return {**body, "stream_options": {"include_usage": True}}


async def events_of(stream: Stream) -> list[StreamEvent]:
    return [event async for event in stream]


def asked_of(server: Server) -> Request:
    """The last question that the server understood."""
    return next(received.request for received in reversed(server.requests) if received.request is not None)
