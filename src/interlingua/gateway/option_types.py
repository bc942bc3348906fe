"""Refuses options of a wrong type, as a provider of the client's own wire does; another one would not get them at all.

The types are not listed: a codec that leaves an option out of the request's values for one type, and not for another,
expects the other.
"""

import functools
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from ..dialects import WIRES
from ..dialects.residual import HINTS
from ..values.errors import BadRequest, InterlinguaError
from ..values.messages import UserMessage
from ..values.request import Context, ModelDescriptor, Options, Request

Path: TypeAlias = tuple[str, ...]

_MAX_FIELDS = 20  # fields of a request that are looked at: each new one is tried with every sample
# Values that some option of some wire has: of a type, not each is one of the choices of an option.
_SAMPLES: tuple[Any, ...] = (1, 0.5, True, "auto", "low", "x", [], ["x"], {}, {"type": "auto"}, {"type": "text"})
_NAMES = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list", dict: "an object"}


def refuse_wrong_types(api: str, request: Request) -> None:
    """Refuses an option that a wire has, but not with a value of this type. Unknown fields are none of its options."""
    for path, value in itertools.islice(_unread(api, request), _MAX_FIELDS):
        expected = _types(api, path) if value is not None else ()
        given = _NAMES.get(type(value), "")
        if not 1 <= len(expected) <= 2 or given in expected:  # a field with more types has values of its own
            continue
        if isinstance(value, list | dict) and "a string" in expected:  # a newer form of a choice
            continue
        place = "$." + ".".join(path)
        raise BadRequest(f"{place}: expected {' or '.join(expected)}, got {given}; correct it", status=400)


def _unread(api: str, request: Request) -> Iterator[tuple[Path, Any]]:
    """The fields of a request that are not among its values, with their paths in the body."""
    yield from _fields(request.extra.get(api, {}))
    for path, value in _fields(request.options.extra.get(api, {})):
        yield path, value
        yield from (((place, *path), value) for place in _places_of_options(api))


def _fields(residual: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """The fields of a residual (`dialects.residual`), and those within objects, of which the rest may be read."""
    for name, value in residual.items():
        if not name.startswith(HINTS):
            yield (name,), value
            if isinstance(value, dict):
                yield from (((name, inner), one) for inner, one in value.items())
    for name, hint in residual.get(HINTS, {}).items():
        for inner, one in hint.get("in", {}).items() if isinstance(hint, dict) else ():
            if not inner.startswith(HINTS):
                yield (name, inner), one


@functools.lru_cache(maxsize=1000)
def _types(api: str, path: Path) -> tuple[str, ...]:
    """The types with which a wire reads an option, as names; none if it does not know the option."""
    return tuple(dict.fromkeys(_NAMES[type(value)] for value in _SAMPLES if _is_read(api, path, value)))


def _is_read(api: str, path: Path, value: Any) -> bool:
    for name in reversed(path):
        value = {name: value}
    try:
        read = WIRES[api].codec.decode_request({**_body(api, Options()), **value}, model="m")
    except InterlinguaError:
        return False
    unread = (*read.extra.values(), *read.options.extra.values())
    return all(each[-1] != path[-1] for residual in unread for each, _ in _fields(residual))


@functools.lru_cache(maxsize=100)
def _places_of_options(api: str) -> tuple[str, ...]:
    """The fields of a body that are objects of options."""
    body = _body(api, Options(max_tokens=1, temperature=0.5))
    return tuple(name for name, value in body.items() if isinstance(value, dict))


def _body(api: str, options: Options) -> dict[str, Any]:
    """The smallest body with these options."""
    context = Context(messages=(UserMessage(content="x"),))
    request = Request(model=ModelDescriptor(id="m", api=api), context=context, options=options)
    body: dict[str, Any] = WIRES[api].codec.encode_request(request).body
    return body
