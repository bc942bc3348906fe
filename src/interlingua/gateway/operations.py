"""Maps request paths to gateway operations. All facts come from the wires."""

import functools
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import unquote

from ..dialects import WIRES
from ..dialects.registry import route
from ..dialects.wire import Wire

Kind: TypeAlias = Literal["call", "rephrased", "list", "model", "count", "fixed", "stored", "conversation", "other"]


class GatewayOperation(NamedTuple):
    """A wire and the requested operation. `model` and `stream` are None if the body has them; `id` and `part`
    identify a stored response or conversation and a part of it.
    """

    kind: Kind
    wire: Wire
    model: str | None = None
    stream: bool | None = None
    id: str = ""
    part: str | None = None


def operation_of(method: str, raw_path: str, headers: Mapping[str, str]) -> GatewayOperation:
    """Returns the operation of a request."""
    if method != "POST":
        asked = route(raw_path, headers)
        if asked.listing and method == "GET":
            return GatewayOperation("list", WIRES[asked.api])
        found = re.match(r"(.*?/models)/(.+?)/?$", raw_path)
        if method == "GET" and found and (listed := route(found[1], headers)).listing:
            return GatewayOperation("model", WIRES[listed.api], model=unquote(found[2]))
    known = _by_path(raw_path, method)
    return GatewayOperation("other", _expected_wire(raw_path, headers)) if known is None else known


@functools.lru_cache(maxsize=2048)
def _by_path(raw_path: str, method: str) -> GatewayOperation | None:
    """Returns the operation of a path; None if it is no path of any wire."""
    asked = route(raw_path)
    if asked.known and not asked.listing and method == "POST":
        return GatewayOperation("call", WIRES[asked.api], asked.model, asked.stream)
    first = _first_part(raw_path)
    for wire in (WIRES[first],) if first in WIRES else tuple(WIRES.values()):
        http = wire.http
        for pattern, kind in (
            (http.count.route if http.count else None, "count"),
            (http.rephrased.route if http.rephrased else None, "rephrased"),
        ):
            if pattern is not None and method == "POST" and (found := re.search(f"{pattern}/?$", raw_path)):
                model = http.model_in(found[1]) if found.re.groups else None
                return GatewayOperation(kind, wire, model=model)  # type: ignore[arg-type]
        for name in http.fixed:
            if name.startswith(f"{method} ") and raw_path.rstrip("/").endswith(name.partition(" ")[2]):
                return GatewayOperation("fixed", wire, part=name)
        if http.stored_route is not None:
            found = re.search(f"{http.stored_route}/?$", raw_path)
            if found and (method != "POST" or found[2] is not None):  # others are no stored response: `/compact`
                return GatewayOperation("stored", wire, id=found[1], part=found[2])
            if found := re.search(r"/conversations(?:/([^/]+)(?:/(items(?:/[^/]+)?))?)?/?$", raw_path):
                return GatewayOperation("conversation", wire, id=found[1] or "", part=found[2])
    if asked.api:
        return GatewayOperation("other", WIRES[asked.api])
    for wire in WIRES.values():
        http = wire.http
        routes = [http.route, *(one.route for one in (http.rephrased, http.count) if one is not None)]
        if any(re.search(route, raw_path) for route in routes):
            return GatewayOperation("other", wire)
    return None


def _expected_wire(raw_path: str, headers: Mapping[str, str]) -> Wire:
    """The wire whose errors the client of an unknown path expects: by its own headers, else by the first part of the
    path, else the first wire below `/v1`, where most clients are.
    """
    for wire in WIRES.values():
        own = wire.http.headers
        if wire.http.auth in headers or (own and all(name in headers for name in own)):
            return wire
    starts = {_first_part(wire.http.base + wire.http.route): wire for wire in reversed([*WIRES.values()])}
    return starts.get(_first_part(raw_path)) or starts["v1"]


def _first_part(path: str) -> str:
    return path.lstrip("/").partition("/")[0]
