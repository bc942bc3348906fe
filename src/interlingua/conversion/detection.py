"""Format detection by content alone: every wire and file format provides its evidence."""

import contextlib
import functools
import gc
import io
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, NamedTuple
from zlib import crc32

from ..dialects.framing import SSE, AWSEventStream, Frame
from ..dialects.registry import WIRES, DetectionOrder, ordered
from ..dialects.wire import AWS, Evidence, Shape, Wire
from ..dialects.wire import SSE as EVENT_STREAM
from ..values import jsontext
from ..values.errors import FormatError, InterlinguaError
from ..values.losses import Lines, Text
from ..values.request import Conversation, Problem
from ..values.text import unmarked

_log = logging.getLogger(__name__)

# Raw documents: bytes and text to JSON values; JSON lines and recorded streams are distinguished.


def value_of(data: Any) -> Any:
    """Parses a document: the JSON value of a text, `Lines` for JSON lines, the text itself for a text format."""
    if not isinstance(data, (bytes, bytearray, str)) or isinstance(data, Text):
        return data
    data = unmarked(data)
    if _begins_lines(data):
        found = _known_text(data, HEAD) or _lines(data)
        if found is not None:
            return found
    try:
        return jsontext.read(data)
    except FormatError:
        text = _known_text(data)
        if text is not None:
            return text
        lines = _lines(data)
        if lines is None:
            raise
        return lines


def lines_in(stream: IO[bytes]) -> Lines | None:
    """Like `value_of` for a file of JSON lines, without keeping its bytes; on None the stream position is undefined."""
    if not holds_lines(stream):
        return None
    stream.seek(0)
    with gc_paused():
        return _parsed(stream)


def holds_lines(stream: IO[bytes]) -> bool:
    """Whether a file is JSON lines, and no recorded stream or text, by its beginning."""
    head = begin = stream.read(HEAD)
    data, size = head, 0
    while begin.startswith(b"{") and b"\n" not in data and data and size < MAX_LINE:
        size += len(data)
        data = stream.read(HEAD)
    if size and b"\n" in data:  # a long first line
        stream.seek(0)
        begin = stream.read(size + 2 * HEAD)
    return stream_kind(head) is None and _begins_lines(begin) and _known_text(head) is None


def _begins_lines(data: bytes | bytearray | str) -> bool:
    """Whether the first line is an object and more follows, so that the whole cannot be one JSON value."""
    text: Any = data
    end, mark = ("\n", "{") if isinstance(data, str) else (b"\n", b"{")
    if not text.startswith(mark):
        return False
    at = text.find(end)
    try:
        return at > 0 and bool(text[at : at + 4096].strip()) and isinstance(jsontext.read(text[:at]), dict)
    except FormatError:
        return False


def text_of_file(data: bytes | bytearray | str) -> Text:
    return Text(data if isinstance(data, str) else bytes(data).decode("utf-8-sig", "replace"))


MAX_LINE = 16 << 20  # bytes: a longer first line is a document
HEAD = 1 << 16  # bytes that distinguish a text from JSON lines, which may be long


def _known_text(data: bytes | bytearray | str, size: int | None = None) -> Text | None:
    """Returns the text if a text format recognises it, or its first `size` bytes."""
    text: Text | None = None
    for form in ordered().formats:
        if form.text:
            text = text_of_file(data[:size]) if text is None else text
            if holds(form.detect, text):
                return text_of_file(data)
    return None


@contextlib.contextmanager
def gc_paused(size: int | None = None) -> Iterator[None]:
    """Disables garbage collection while the values of a large file of `size` lines are created.

    They have no cycles, and collection takes a quarter of the time. Only the caller that disabled the collector enables
    it again, so threads may do this concurrently.
    """
    if (size is not None and size < _MANY_LINES) or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] > _MANY_VALUES:
            _promote()
        gc.enable()


_MANY_LINES = 200
_MANY_VALUES = 20_000
_promotions = itertools.count(1)
_UNSEEN = 16  # promotions between full collections


def _promote() -> None:
    """Promotes new objects to the oldest generation without a collection, which takes as long as decoding them.

    Every 16th time a full collection runs, so that the garbage of a program that reads many large files is not hidden.
    A program that has frozen its own objects is not touched: thawing would undo that.
    """
    if next(_promotions) % _UNSEEN == 0:
        gc.collect()
    elif not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()


def _lines(data: bytes | bytearray | str) -> Lines | None:
    """Returns the values of a file of JSON lines, without truncated lines; None if most lines are invalid."""
    with gc_paused(data.count("\n") if isinstance(data, str) else data.count(b"\n")):
        # Not str.splitlines(): U+2028 may appear unescaped in a JSON string.
        return _parsed(data.split("\n") if isinstance(data, str) else io.BytesIO(data))


def _parsed(texts: Iterable[Any]) -> Lines | None:
    lines, problems = Lines(), []
    kind: type | None = None  # of the first line: a file holds objects or lists, not both
    for number, line in enumerate(texts, 1):
        if not line or line.isspace():
            continue
        try:
            values = jsontext.read_line(line, len(lines))
        except FormatError as error:
            problems.append(Problem(message=error.message, line=number))
            continue
        for value in values:
            if type(value) is kind:
                lines.append(value)
            elif kind is None and type(value) in (dict, list):
                kind = type(value)
                lines.append(value)
            else:
                wrong = "expected a list" if kind is list else "expected an object"
                problems.append(Problem(message=wrong, line=number))
    if len(lines) + len(problems) < 2 or len(problems) > len(lines):
        return None
    lines.problems = tuple(problems)
    return lines


def is_stream(data: Any) -> bool:
    """Whether data is a recorded stream: server-sent events, or AWS frames."""
    return stream_kind(data) is not None


def as_bytes(data: bytes | bytearray | str) -> bytes:
    return data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)


def stream_kind(data: Any) -> str | None:
    if not isinstance(data, bytes | bytearray | str):
        return None
    head = as_bytes(data[:4096])
    if head.lstrip(b"\xef\xbb\xbf\r\n\t ").startswith((b"data:", b"event:", b":", b"id:", b"retry:")):
        return EVENT_STREAM
    # A frame begins with its length and its headers' length, and the checksum of these eight bytes.
    return AWS if len(head) >= 12 and crc32(head[:8]) == int.from_bytes(head[8:12], "big") else None


SELF = "interlingua"


class Detection(NamedTuple):
    """The detected dialect, the reason, and other dialects that match."""

    dialect: str
    reason: str
    others: tuple[str, ...] = ()


def detect(data: Any) -> Detection | None:
    """Detects the format of the data by its content alone; None if nothing matches."""
    found = dict(_findings(data))
    if not found:
        return None
    name, reason = next(iter(found.items()))
    return Detection(name, reason, tuple(found)[1:])


def detect_text(head: bytes) -> Detection | None:
    """The format of a text, by its first bytes; None for anything else."""
    # html.spec.whatwg.org, 9.2.5: a byte order mark may precede; a line that begins with a colon is a comment.
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")) or stream_kind(head) is not None:
        return None
    text = _known_text(head[: head.rfind(b"\n") + 1])
    return None if text is None else detect(text)


def detect_name(data: Any) -> str | None:
    """Returns the dialect that `detect` finds, without looking for other matches."""
    return next((name for name, _ in _findings(data)), None)


def is_response(wire: Wire, value: Any) -> bool:
    """Whether a value is a complete response of this wire."""
    known = _tests_by_kind()
    tests = known.get(wire.base)
    if tests is None:
        relatives = [other for other in WIRES.values() if other.base == wire.base]
        tests = known[wire.base] = tuple(
            _Test(other.api, one.reason, one.test)
            for other in relatives
            for one in other.evidence
            if one.shape == "response"
        )
    return any(holds(one.test, value) for one in tests)


def chunks_of(value: Any) -> list[Frame] | None:
    """Returns the frames of a stream that was recorded as a list of JSON values: Ollama's lines, Google's array."""
    if not isinstance(value, list) or not value:
        return None
    for _, evidence in _ranked("chunk"):
        if all(holds(evidence.test, item) for item in value):
            return [Frame(jsontext.write(item)) for item in value]
    return None


def holds(test: Callable[[Any], Any] | None, value: Any) -> Any:
    """Returns the result of a test for any value; a test that fails does not match."""
    try:
        return test(value) if test is not None else None
    except _NO_MATCH:
        return None
    except Exception:  # a plugin's own test
        _log.warning(_FAILED_TEST, exc_info=True)
        return None


_NO_MATCH = (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError)
_FAILED_TEST = "a test that recognises a format failed"


def _ranked(shape: Shape) -> tuple[tuple[str, Evidence], ...]:
    """Returns the tests of one shape, the most specific first."""
    return ordered().evidence[shape]


def _findings(data: Any) -> Iterator[tuple[str, str]]:
    """Yields matches, the most specific first: streams, our own, session files, responses, then requests from the
    rarest shape on.
    """
    kind = stream_kind(data)
    if kind is not None:
        yield from _in_stream(as_bytes(data), kind)
        return
    try:
        value = value_of(data)
    except InterlinguaError:
        return
    for name, reason, test in _tests(value):
        try:  # as `holds`, without a call for each of many tests
            why = test(value)
        except _NO_MATCH:
            continue
        except Exception:
            _log.warning(_FAILED_TEST, exc_info=True)
            continue
        if why:
            yield name, reason or str(why)


class _Test(NamedTuple):
    name: str
    reason: str | None  # None: the value that the test returns
    test: Callable[[Any], Any]


def _tests(value: Any) -> Iterable[_Test]:
    """Returns the tests that may match a value, the most specific first.

    Rows of a data set have the same keys, and most tests require a key that they lack. Tests that only check keys are
    evaluated once per set of keys and skipped for later rows.
    """
    if isinstance(value, Text):
        return _tests_by_kind()["text"]
    if isinstance(value, list):
        return _tests_by_kind()["list"]
    if type(value) is not dict or len(value) > _MAX_KEYS:
        return _tests_by_kind()["object"]
    known = _tests_by_kind()
    keys = frozenset(value)
    found = known.get(keys)
    if found is None:
        found = known[keys] = tuple(one for one in known["object"] if _looks_inside(one.test, value))
        if len(known) > _MAX_KINDS:
            known.clear()
    return found


_MAX_KEYS, _MAX_KINDS = 40, 500


class _Probe(dict[str, Any]):
    """An object that records whether a test looks at its values, and not only at its keys."""

    looked = False

    def __getitem__(self, key: str) -> Any:
        found = super().__getitem__(key)
        self.looked = True
        return found

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def _look(self, *given: Any, **named: Any) -> Any:
        self.looked = True
        raise KeyError

    values = items = copy = pop = popitem = setdefault = __or__ = __eq__ = __ne__ = __repr__ = __reduce_ex__ = _look


def _looks_inside(test: Callable[[Any], Any], value: dict[str, Any]) -> bool:
    probe = _Probe(value)
    return bool(holds(test, probe)) or probe.looked


_cached: tuple[DetectionOrder, dict[Any, tuple[_Test, ...]]] | None = None


def _tests_by_kind() -> dict[Any, tuple[_Test, ...]]:
    """The tests for each kind of value, and for each known set of keys; rebuilt when a format is registered."""
    global _cached
    order = ordered()
    if _cached is None or _cached[0] is not order or "object" not in _cached[1]:
        _cached = (order, {kind: tuple(_all_tests(order, kind)) for kind in ("text", "list", "object")})
    return _cached[1]


def _all_tests(order: DetectionOrder, kind: str) -> Iterator[_Test]:
    if kind != "text":
        yield from (_Test(SELF, reason, test) for reason, test in _OWN)
    for form in order.formats:
        if form.detect is not None and form.text == (kind == "text"):
            yield _Test(form.name, None, form.detect)
    if kind == "list":
        for name, one in order.evidence["chunk"]:
            yield _Test(name, one.reason, functools.partial(_all_hold, one.test))
    if kind != "text":
        for shape in _WHOLE:
            yield from (_Test(name, one.reason, one.test) for name, one in order.evidence[shape])


def _all_hold(test: Callable[[Any], Any], values: list[Any]) -> bool:
    return bool(values) and all(holds(test, item) for item in values)


_WHOLE: tuple[Shape, ...] = ("response", "request", "plain")
_FIELDS = frozenset(Conversation.__struct_encode_fields__)
_OWN: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    (
        "an object with `entries`",
        lambda v: (
            isinstance(v["entries"], list)
            and all(isinstance(e["message"], dict) for e in v["entries"])
            and (len(v["entries"]) > 0 or v.keys() <= _FIELDS)
        ),
    ),
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
    """Returns the evidence in the first events; comments, pings and errors give none."""
    try:
        for frame in SSE().feed(data[: 1 << 20] + b"\n\n")[:20]:
            yield jsontext.read(frame.data) if frame.data.startswith(b"{") else None
    except InterlinguaError:
        return
