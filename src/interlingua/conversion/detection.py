"""Which format some data is in, from its content alone: every wire and every file format is asked for its evidence."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..dialects.framing import SSE, AWSEventStream, Frame
from ..dialects.registry import FORMATS, WIRES
from ..dialects.wire import AWS, Evidence, Shape, Wire
from ..values import jsontext
from ..values.errors import InterlinguaError
from .documents import as_bytes, stream_kind, value_of

SELF = "interlingua"


class Detection(NamedTuple):
    """Which dialect some data is in, why we think so, and which others it could be."""

    dialect: str
    reason: str
    others: tuple[str, ...] = ()


def detect(data: Any) -> Detection | None:
    """What the data is, from its content alone; None when nothing fits."""
    found = dict(_findings(data))
    if not found:
        return None
    name, reason = next(iter(found.items()))
    return Detection(name, reason, tuple(found)[1:])


def is_response(wire: Wire, value: Any) -> bool:
    """Whether a value is a whole answer of this wire."""
    return any(
        one.shape == "response" and holds(one.test, value)
        for other in WIRES.values()
        if other.base == wire.base
        for one in other.evidence
    )


def chunks_of(value: Any) -> list[Frame] | None:
    """The frames of a stream that was recorded as a list of JSON values: Ollama's lines, Google's array."""
    if not isinstance(value, list) or not value:
        return None
    for _, evidence in _ranked("chunk"):
        if all(holds(evidence.test, item) for item in value):
            return [Frame(jsontext.write(item)) for item in value]
    return None


def holds(test: Callable[[Any], Any] | None, value: Any) -> Any:
    """What the test says of a value, which may be anything."""
    try:
        return test(value) if test is not None else None
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError):
        return None


def _ranked(shape: Shape) -> list[tuple[str, Evidence]]:
    """The tests of one shape, the most particular first."""
    found = [
        (wire.api, one) for wire in WIRES.values() if wire.is_detected for one in wire.evidence if one.shape == shape
    ]
    found += [(form.name, one) for form in FORMATS.values() for one in form.evidence if one.shape == shape]
    return sorted(found, key=lambda pair: pair[1].rank)


def _findings(data: Any) -> Iterator[tuple[str, str]]:
    """The most telling first: streams, our own, session files, answers, then requests from the rarest shape on."""
    kind = stream_kind(data)
    if kind is not None:
        yield from _in_stream(as_bytes(data), kind)
        return
    try:
        value = value_of(data)
    except InterlinguaError:
        return
    for reason, test in _OWN:
        if holds(test, value):
            yield SELF, reason
    for form in FORMATS.values():
        reason = holds(form.detect, value)
        if reason:
            yield form.name, str(reason)
    if isinstance(value, list) and value:
        for name, one in _ranked("chunk"):
            if all(holds(one.test, item) for item in value):
                yield name, one.reason
    for shape in _WHOLE:
        for name, one in _ranked(shape):
            if holds(one.test, value):
                yield name, one.reason


_WHOLE: tuple[Shape, ...] = ("response", "request", "plain")
_OWN: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("an object with `entries`", lambda v: isinstance(v["entries"], list)),
    ("a `model` beside a `context`", lambda v: isinstance(v["context"]["messages"], list) and "model" in v),
)


def _in_stream(data: bytes, kind: str) -> Iterator[tuple[str, str]]:
    tests = _ranked("frame" if kind == AWS else "event")
    for item in _first_frames(data) if kind == AWS else _first_events(data):
        found = [(name, one.reason) for name, one in tests if holds(one.test, item)]
        if found:
            for name, reason in found:
                yield name, reason if kind == AWS else f"a stream with {reason}"
            return


def _first_frames(data: bytes) -> list[Frame]:
    try:
        return AWSEventStream().feed(data[: 1 << 20])[:20]
    except InterlinguaError:
        return []


def _first_events(data: bytes) -> Iterator[Any]:
    """What the first events say; comments, pings and errors tell nothing."""
    try:
        for frame in SSE().feed(data[: 1 << 20] + b"\n\n")[:20]:
            yield jsontext.read(frame.data) if frame.data.startswith(b"{") else None
    except InterlinguaError:
        return
