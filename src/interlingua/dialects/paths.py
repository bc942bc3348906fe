"""Routing of request paths to wires, and splitting of encoded streams into frames, by the facts in `Wire.http`."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from .registry import WIRES
from .wire import AWS, SSE, Wire


class Route(NamedTuple):
    """The route of a path. `model` and `stream` are None if the body decides; `api` is empty if no wire matches."""

    api: str
    listing: bool = False
    known: bool = True
    model: str | None = None
    stream: bool | None = None


def route(raw_path: str, headers: Mapping[str, str] | None = None) -> Route:
    """The route of a path: by an api name as its first segment, else by its end.

    Several wires may match. The longest match wins, then the lowest rank; for a list of models, first a wire whose own
    headers are present.
    """
    first, _, rest = raw_path.lstrip("/").partition("/")
    if first in WIRES:
        found = _call(WIRES[first], f"/{rest}")
        if found is not None:
            return found[1]
        return Route(first, listing=True) if _lists(WIRES[first], f"/{rest}") else Route(first, known=False)
    calls = [(found[0], wire.http.route_rank, found[1]) for wire in WIRES.values() if (found := _call(wire, raw_path))]
    if calls:
        return min(calls, key=lambda call: call[:2])[2]
    lists = [(_listing_rank(wire, raw_path, headers or {}), wire) for wire in WIRES.values() if _lists(wire, raw_path)]
    return Route(min(lists, key=lambda pair: pair[0])[1].api, listing=True) if lists else Route("", known=False)


def _call(wire: Wire, path: str) -> tuple[int, Route] | None:
    """The index in the path where the wire's route begins, and the route."""
    http = wire.http
    asked = re.search(f"{http.route}/?$", path)
    if asked is None:
        return None
    if http.streaming is None:
        return asked.start(), Route(wire.api)
    name, verb = asked.groups()
    return asked.start(), Route(wire.api, model=http.model_in(name) if name else None, stream=verb == http.streaming)


def _lists(wire: Wire, path: str) -> bool:
    return re.search(f"{wire.http.models_route}/?$", path) is not None


def _listing_rank(wire: Wire, path: str, headers: Mapping[str, str]) -> tuple[int, int, int]:
    http = wire.http
    own = [name in headers for name in http.headers]  # Anthropic's and OpenAI's lists have the same path
    matched = re.search(f"(?:{re.escape(http.base)})?{http.models_route}/?$", path)
    return (1 if not own else 0 if all(own) else 2), matched.start() if matched else 0, http.route_rank


def cut_frames(data: bytes, content_type: str) -> Iterator[bytes]:
    """Splits the bytes of a stream encoder into frames."""
    if content_type == AWS:
        at = 0
        while at < len(data):
            length = int.from_bytes(data[at : at + 4])
            yield data[at : at + length]
            at += length
    else:
        border = b"\n\n" if content_type == SSE else b"\n"
        for frame in data.split(border)[:-1]:
            yield frame + border
