"""Iterates over the elements of a large JSON array, or the fields of a large object, in bounded memory."""

import itertools
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple

from ..values import jsontext
from ..values.errors import FormatError

CHUNK = 1 << 20
_MAX_CHUNK = 64 << 20
MAX_ELEMENT = 512 << 20  # bytes: a compressed file of a few kilobytes may hold gigabytes
# The next bracket, with complete strings before it: the last of them, and what is between it and the bracket.
# Possessive: an incomplete string is no match.
_BRACKET = re.compile(rb'[^"\[\]{}]*+(?:("[^"\\]*+(?:\\.[^"\\]*+)*+")([^"\[\]{}]*+))*+[\[\]{}]', re.DOTALL)
_MAX_OUTLINE = 32 << 20
_SPACE = b" \t\r\n"
_OPENING = b"[{"


class Splitter:
    """Splits an array into its elements as bytes arrive. Only brackets and strings are parsed.

    Elements are objects or lists; `is_mixed` if there was something else. `closed` once the array has ended; `rest` is
    data that is not a complete element yet. Raises `FormatError` if an element becomes too large.

    With `keyed` it is an object, and its elements are the texts of its fields, with their keys. `ends` are the places
    behind the elements that were last returned, from the beginning of the array.
    """

    def __init__(self, *, keyed: bool = False) -> None:
        self.rest = b""
        self.keyed = keyed
        self.ends: list[int] = []
        self._before = 0  # bytes before `rest`
        self.closed = self.is_mixed = self._begun = False
        self._depth = 0
        self._at = 0  # where scanning continues in `rest`
        self._fault = ""  # what is wrong after the elements that were returned

    def feed(self, data: bytes) -> list[bytes]:
        """Returns the elements that are complete so far. What is wrong after them is raised by the next call."""
        if self._fault:
            raise FormatError(self._fault, "$")
        if len(self.rest) + len(data) > MAX_ELEMENT:
            raise FormatError(f"an element of the array is larger than {MAX_ELEMENT >> 20} MB", "$")
        found: list[bytes] = []
        self.ends = []
        text, start, depth = self.rest + data, 0, self._depth
        at = self._at
        while token := _BRACKET.match(text, at):
            at = token.end()
            if text[at - 1] in _OPENING:
                depth += 1
                if depth == 1:
                    start = at
            else:
                depth -= 1
                if depth == 1:
                    element = self._separated(text[start:at])
                    if not element:
                        self._fault = "not JSON: expected one comma between two elements of the array"
                        break
                    self.is_mixed = self.is_mixed or element[0] not in (b'"' if self.keyed else _OPENING)
                    found.append(element)
                    self.ends.append(self._before + at)
                    start = at
                elif depth < 1:
                    rest = text[start : at - 1].strip(_SPACE)
                    if text[at - 1 : at] != (b"}" if self.keyed else b"]") or rest.endswith(b","):
                        self._fault = "not JSON: the array does not end as JSON does"
                        break
                    self.closed = True
                    self.is_mixed = self.is_mixed or bool(rest)
                    start = at
                    break
        self.rest, self._depth, self._at = text[start:], depth, at - start
        self._before += start
        if self._fault and not found:
            raise FormatError(self._fault, "$")
        return found

    def _separated(self, text: bytes) -> bytes:
        """An element without the comma before it; nothing if that is missing, or there are several."""
        text = text.lstrip(_SPACE)
        if text.startswith(b",") != self._begun:
            return b""
        text = text[self._begun :].lstrip(_SPACE)
        self._begun = True
        return b"" if text.startswith(b",") else text


class Listing(NamedTuple):
    """An array in a file: where it begins and ends, its first elements, and whether it has others than a splitter's.

    `is_keyed`: it is an object, whose elements are fields.
    """

    begin: int
    end: int
    first: list[bytes]
    is_mixed: bool
    is_keyed: bool = False

    def values(self) -> Any:
        """The first elements, read."""
        return items_of(map(read_element(self.is_keyed), self.first), keyed=self.is_keyed)


def read_element(keyed: bool) -> Callable[[bytes], Any]:
    """Returns a function that reads an element of an array, or a field of an object as its key and value."""
    return _read_field if keyed else jsontext.read


def _read_field(text: bytes) -> tuple[str, Any]:
    fields: list[tuple[str, Any]] = list(jsontext.read(b"{" + text + b"}").items())
    if len(fields) != 1:  # fields before it are no objects
        raise FormatError("expected an object", "$")
    return fields[0]


def items_of(items: Iterable[Any], *, keyed: bool) -> Any:
    """The list of some items, or the object of some fields."""
    return dict(items) if keyed else list(items)


def outline(stream: IO[bytes], keys: Container[str], nodes: Container[str] = ()) -> tuple[bytes, dict[str, Listing]]:
    """Returns the text of a document without the elements of its arrays at these keys, and of its objects at `nodes`.

    The key of an array in an inner object is `outer.inner`; in a list of one object it begins with a dot.
    """
    text, at, size = b"", 0, CHUNK
    names: list[str] = []  # of the objects and arrays around; "" for an item of a list
    kinds: list[bytes] = []  # their brackets
    lists: dict[str, Listing] = {}
    while data := stream.read(size):
        text = text + data if text else data.removeprefix(b"\xef\xbb\xbf")
        before = at
        while token := _BRACKET.match(text, at):
            at = token.end()
            kind = text[at - 1 : at]
            if kind not in _OPENINGS:
                del names[-1:], kinds[-1:]
                if not names:
                    break
                continue
            is_item = kinds[-1:] == [b"["]
            if is_item and len(kinds) == 1 and text[: token.start()].strip(_SPACE) != b"[":
                raise FormatError("a list of several", "$")
            names.append("" if is_item else _name(token))
            kinds.append(kind)
            key = ".".join(names[1:])
            if len(names) < 2 or not names[-1] or key not in (keys if kind == b"[" else nodes):
                continue
            names.pop()
            kinds.pop()
            if key in lists:
                raise FormatError(f"the key {key} is there twice", "$")
            splitter, begin = Splitter(keyed=kind == b"{"), stream.tell() - len(text) + at - 1
            complete = splitter.feed(text[at - 1 :])
            text = text[:at]  # the rest is in the splitter
            first = first_of(itertools.chain(complete, parts(stream, splitter)))
            end = stream.tell() - len(splitter.rest)
            lists[key] = Listing(begin, end, first, splitter.is_mixed, splitter.keyed)
            text, at = text + (b"}" if splitter.keyed else b"]") + splitter.rest, at + 1
        if at and not names and text[at:].strip():
            raise FormatError("unexpected data after the end of the object", "$")
        if len(text) > _MAX_OUTLINE:
            raise FormatError(f"the object around the arrays is larger than {_MAX_OUTLINE >> 20} MB", "$")
        size = CHUNK if at > before else min(size * 2, _MAX_CHUNK)
    return text, lists


_OPENINGS = (b"[", b"{")
_UNKNOWN = "?"


def _name(token: re.Match[bytes]) -> str:
    """The key before a bracket, however it is spelled; no key of ours for one with a dot, or for none."""
    if token[2] is None or token[2].strip(_SPACE) != b":":
        return _UNKNOWN
    with jsontext.Repairs():  # it is read again
        name = str(jsontext.read(token[1]))
    return _UNKNOWN if not name or "." in name else name


FIRST = 20  # elements that tell the format of a file


def with_lists(value: Any, lists: Mapping[str, Any]) -> Any:
    """The document with these items in its empty arrays, by keys as `outline` has them."""
    for key, items in lists.items():
        value = _with_items(value, key.split("."), items)
    return value


def _with_items(value: Any, steps: list[str], items: Any) -> Any:
    if not steps:
        if value != type(items)():
            raise FormatError("a key is there twice", "$")
        return items
    if not steps[0]:
        if not isinstance(value, list) or len(value) != 1:
            raise FormatError("a list of several", "$")
        return [_with_items(value[0], steps[1:], items)]
    if not isinstance(value, dict) or steps[0] not in value:
        raise FormatError(f"the key {steps[0]} is there twice", "$")
    return {**value, steps[0]: _with_items(value[steps[0]], steps[1:], items)}


def first_of(elements: Iterable[bytes]) -> list[bytes]:
    """The first elements of an array: some, or two if they are long. Reads all of them."""
    first: list[bytes] = []
    size = 0
    for element in elements:
        if len(first) < 2 or (len(first) < FIRST and size + len(element) < CHUNK):
            first.append(element)
            size += len(element)
    return first


def parts(stream: IO[bytes], splitter: Splitter) -> Iterator[bytes]:
    """Yields the elements of an array; the rest of `splitter` is what was read behind it then."""
    return (element for _, element in placed_parts(stream, splitter))


def placed_parts(stream: IO[bytes], splitter: Splitter) -> Iterator[tuple[int, bytes]]:
    """The same, each with its place from the beginning of the array."""
    size = CHUNK
    while not splitter.closed:
        data = stream.read(size)
        if not data:
            raise FormatError("the array is cut off; it has no end", "$")
        found = splitter.feed(data)
        yield from ((end - len(element), element) for end, element in zip(splitter.ends, found, strict=True))
        # An element longer than a chunk is scanned again from its last bracket on: fewer, longer scans.
        size = CHUNK if found else min(size * 2, _MAX_CHUNK)


def elements(stream: IO[bytes], splitter: Splitter) -> Iterator[bytes]:
    """Yields the remaining elements of the array that `splitter` has begun; raises `FormatError` if it is
    incomplete.
    """
    yield from parts(stream, splitter)
    for data in itertools.chain((splitter.rest,), iter(lambda: stream.read(CHUNK), b"")):
        if data.strip():
            raise FormatError("unexpected data after the end of the array", "$")
