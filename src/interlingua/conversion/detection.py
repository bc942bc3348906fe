"""Which format some data is in, from its content alone: every wire and every file format is asked for its evidence."""

import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..dialects.framing import SSE, AWSEventStream, Frame
from ..dialects.registry import FORMATS, WIRES
from ..dialects.wire import AWS, Evidence, Shape, Wire
from ..dialects.wire import SSE as EVENT_STREAM
from ..values import jsontext
from ..values.errors import BadWire, FormatError, InterlinguaError
from ..values.losses import Lines

_log = logging.getLogger(__name__)

# Documents as they are found: bytes and text to JSON values, lines and recorded streams told apart.


def value_of(data: Any) -> Any:
    """JSON values: parsed if they are text, a list of them if the text is a line format."""
    if not isinstance(data, bytes | bytearray | str):
        return data
    try:
        return jsontext.read(data)
    except FormatError:
        lines = _lines(data)
        if lines is None:
            raise
        return Lines(lines)


def _lines(data: bytes | bytearray | str) -> list[Any] | None:
    # Not str.splitlines(): U+2028 may stand raw inside a JSON string.
    texts: list[Any] = [
        line for line in (data.split("\n") if isinstance(data, str) else data.split(b"\n")) if line.strip()
    ]
    if len(texts) < 2:
        return None
    values = []
    for number, line in enumerate(texts, 1):
        try:
            values.append(jsontext.read(line))
        except FormatError as error:
            if number == 1:
                return None
            raise BadWire("lines", f"line {number}: {error.message}") from None
    return values


def is_stream(data: Any) -> bool:
    """Whether data are a recorded stream: server-sent events, or AWS frames."""
    return stream_kind(data) is not None


def as_bytes(data: bytes | bytearray | str) -> bytes:
    return data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)


def stream_kind(data: Any) -> str | None:
    if not isinstance(data, bytes | bytearray | str):
        return None
    head = as_bytes(data[:4096])
    if head.lstrip(b"\xef\xbb\xbf\r\n\t ").startswith((b"data:", b"event:", b":", b"id:", b"retry:")):
        return EVENT_STREAM
    # A frame begins with its length and that of its headers, a checksum, and the first header's name.
    size, headers = int.from_bytes(head[:4], "big"), int.from_bytes(head[4:8], "big")
    return AWS if 16 <= headers + 16 <= size and b":" in head[12:14] and b"-type" in head[12:200] else None


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
    """What the test says of a value, which may be anything: where it fails, the value is not what it looks for."""
    try:
        return test(value) if test is not None else None
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError):
        return None
    except Exception:  # of a plugin's own test
        _log.warning("a test that recognises a format failed", exc_info=True)
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
