"""Maps request paths to gateway operations. All facts come from the wires."""

import functools
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import unquote

from ..dialects import WIRES
from ..dialects.paths import route
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
    if method == "POST":
        return _posted(raw_path)
    asked = route(raw_path, headers)
    if asked.listing and method == "GET":
        return GatewayOperation("list", WIRES[asked.api])
    found = re.match(r"(.*?/models)/(.+?)/?$", raw_path)
    if method == "GET" and found and (listed := route(found[1], headers)).listing:
        return GatewayOperation("model", WIRES[listed.api], model=unquote(found[2]))
    return _posted(raw_path, method)


@functools.lru_cache(maxsize=2048)
def _posted(raw_path: str, method: str = "POST") -> GatewayOperation:
    asked = route(raw_path)
    if asked.known and not asked.listing and method == "POST":
        return GatewayOperation("call", WIRES[asked.api], asked.model, asked.stream)
    first = raw_path.lstrip("/").partition("/")[0]
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
            if found := re.search(f"{http.stored_route}/?$", raw_path):
                return GatewayOperation("stored", wire, id=found[1], part=found[2])
            if found := re.search(r"/conversations(?:/([^/]+)(?:/(items(?:/[^/]+)?))?)?/?$", raw_path):
                return GatewayOperation("conversation", wire, id=found[1] or "", part=found[2])
    return GatewayOperation("other", WIRES[asked.api] if asked.api else _nearest_wire(raw_path))


def _nearest_wire(raw_path: str) -> Wire:
    """The wire whose errors the client of an unknown path expects: one that has a path with the same beginning."""
    for wire in WIRES.values():
        http = wire.http
        routes = [http.route, *(one.route for one in (http.rephrased, http.count) if one is not None)]
        if any(re.search(route, raw_path) for route in routes):
            return wire
    return next(iter(WIRES.values()))
