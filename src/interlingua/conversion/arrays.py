"""Iterates over the elements of a large JSON array, or the fields of a large object, in bounded memory."""

import io
import itertools
import os
import re
import tempfile
from array import array
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
            raise FormatError(f"an element of the array is larger than {MAX_ELEMENT >> 20} MB; split it", "$")
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
    lists: dict[str, Listing] = {}
    outside: list[bytes] = []
    for key, begin, splitter, found in lists_in(stream, keys, nodes, outside):
        if key in lists:
            raise FormatError(f"the key {key} is there twice", "$")
        first = first_of(element for _, element in found)
        lists[key] = Listing(begin, stream.tell() - len(splitter.rest), first, splitter.is_mixed, splitter.keyed)
    return b"".join(outside), lists


def lists_in(
    stream: IO[bytes], keys: Container[str], nodes: Container[str] = (), outside: list[bytes] | None = None
) -> Iterator[tuple[str, int, Splitter, Iterator[tuple[int, bytes]]]]:
    """Yields the arrays at these keys and the objects at `nodes`: the key, where it begins, its splitter and elements.

    The elements have their places from its beginning, and must all be read before the next one. `outside` receives the
    text around them; without it, the stream may hold several documents.
    """
    text, at, size = b"", 0, CHUNK
    names: list[str] = []  # of the objects and arrays around; "" for an item of a list
    kinds: list[bytes] = []  # their brackets
    while data := stream.read(size):
        if outside is None:
            text, at = text[at:], 0
        text = text + data if text else data.removeprefix(b"\xef\xbb\xbf")
        before = at
        while token := _BRACKET.match(text, at):
            at = token.end()
            kind = text[at - 1 : at]
            if kind not in _OPENINGS:
                del names[-1:], kinds[-1:]
                if not names and outside is not None:
                    break
                continue
            is_item = kinds[-1:] == [b"["]
            if outside is not None and is_item and len(kinds) == 1 and text[: token.start()].strip(_SPACE) != b"[":
                raise FormatError("a list of several", "$")
            names.append("" if is_item else _name(token))
            kinds.append(kind)
            key = ".".join(names[1:])
            if len(names) < 2 or not names[-1] or key not in (keys if kind == b"[" else nodes):
                continue
            names.pop()
            kinds.pop()
            splitter, begin = Splitter(keyed=kind == b"{"), stream.tell() - len(text) + at - 1
            complete = _fed(splitter, text[at - 1 :])
            text = text[:at]  # the rest is in the splitter
            yield key, begin, splitter, itertools.chain(complete, placed_parts(stream, splitter))
            text, at = text + (b"}" if splitter.keyed else b"]") + splitter.rest, at + 1
        if outside is not None and at and not names and text[at:].strip():
            raise FormatError("unexpected data after the end of the object", "$")
        if len(text) > _MAX_OUTLINE and outside is not None:
            raise FormatError(f"the object around the arrays is larger than {_MAX_OUTLINE >> 20} MB", "$")
        size = CHUNK if at > before else min(size * 2, _MAX_CHUNK)
    if outside is not None:
        outside.append(text)
    elif names:
        raise FormatError("a document is cut off; it has no end", "$")


_OPENINGS = (b"[", b"{")
_UNKNOWN = "?"


def _name(token: re.Match[bytes]) -> str:
    """The key before a bracket, however it is spelled; no key of ours for one with a dot, or for none."""
    if token[2] is None or token[2].strip(_SPACE) != b":":
        return _UNKNOWN
    with jsontext.Repairs():  # it is read again
        name = str(jsontext.read(token[1]))
    return _UNKNOWN if not name or "." in name else name


FIRST = 20  # elements by which the format of a file is detected


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
        found = _fed(splitter, data)
        yield from found
        # An element longer than a chunk is scanned again from its last bracket on: fewer, longer scans.
        size = CHUNK if found else min(size * 2, _MAX_CHUNK)


def _fed(splitter: Splitter, data: bytes) -> list[tuple[int, bytes]]:
    """The elements that are complete with these data, each with its place."""
    found = splitter.feed(data)
    return [(end - len(element), element) for end, element in zip(splitter.ends, found, strict=True)]


def elements(stream: IO[bytes], splitter: Splitter) -> Iterator[bytes]:
    """Yields the remaining elements of the array that `splitter` has begun; raises `FormatError` if it is
    incomplete.
    """
    yield from parts(stream, splitter)
    _refuse_rest(stream, splitter)


def _refuse_rest(stream: IO[bytes], splitter: Splitter) -> None:
    for data in itertools.chain((splitter.rest,), iter(lambda: stream.read(CHUNK), b"")):
        if data.strip():
            raise FormatError("unexpected data after the end of the array", "$")


# --- records of several conversations --------------------------------------------------------------------------------


class FileLists:
    """The lists of a large file, as `RecordLists`: their places are in memory, and one record or group of records.

    `lines`: the file has one record on each line. `problems` are torn lines, by their numbers, and groups of more than
    `limit` bytes, which are left out.
    """

    def __init__(self, stream: IO[bytes], limit: int, *, lines: bool = False) -> None:
        self._stream, self._limit, self._lines = stream, limit, lines
        self._groups: dict[tuple[Any, ...], RecordGroups] = {}
        self.problems: dict[int | str, str] = {}

    def records(self, *keys: str) -> Iterator[Any]:
        return (value for _, _, value in self._placed(keys))

    def fields(self, node: str) -> Iterator[tuple[str, Any]]:
        if node.endswith("*"):
            found = elements(_view(self._stream), Splitter(keyed=True))
            every = (field for text in found for field in _fields(text))
            return (field for field in every if field[0].startswith(node[:-1]))
        inner = lists_in(_view(self._stream), (), (node,))
        return (field for *_, found in inner for _, text in found for field in _fields(text))

    def outlined(self, node: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The document without its fields that begin with a name (`name*`), and the first two of these."""
        header: dict[str, Any] = {}
        first: dict[str, Any] = {}
        prefix = b'"' + node[:-1].encode()
        for text in elements(_view(self._stream), Splitter(keyed=True)):
            if not text.startswith(prefix):
                header |= _fields(text)
            elif len(first) < 2:
                first |= _fields(text)
        return header, first

    def grouped(self, by: Callable[[Any], Any], *keys: str) -> "RecordGroups":
        found = self._groups.get((by, *keys))
        if found is None:
            found = self._groups[by, *keys] = RecordGroups(self._stream, self._placed(keys), by)
            for key, size in found.without(self._limit):
                self.problems[key] = (
                    f"{size >> 20} MB of records in one conversation, {key}: more than {self._limit >> 20} MB;"
                    " split it, or convert it with a larger --max-size"
                )
        return found

    def _placed(self, keys: tuple[str, ...]) -> Iterator[tuple[int, int, Any]]:
        """The records with their places and lengths."""
        if keys != ("",):
            for _, begin, _, found in lists_in(_view(self._stream), keys):
                for place, text in found:
                    yield begin + place, len(text), jsontext.read(text)
        elif self._lines:
            yield from self._placed_lines()
        else:
            view, splitter = _view(self._stream), Splitter()
            for place, text in placed_parts(view, splitter):
                yield place, len(text), jsontext.read(text)
            _refuse_rest(view, splitter)

    def _placed_lines(self) -> Iterator[tuple[int, int, Any]]:
        self._stream.seek(0)
        place, lines = 0, iter(lambda: self._stream.readline(MAX_ELEMENT), b"")
        for number, line in enumerate(lines, 1):
            text = line if place else line.removeprefix(b"\xef\xbb\xbf")
            place += len(line)
            if not text.strip():
                continue
            try:
                values = jsontext.read_line(text)
            except FormatError as error:
                self.problems[number] = error.message
                continue
            if len(values) > 1:
                raise FormatError("several objects on a line", "$")
            yield place - len(text), len(text), values[0]


def _fields(text: bytes) -> Iterable[tuple[str, Any]]:
    """The field of an object that has brackets, and those before it that have none."""
    fields: dict[str, Any] = jsontext.read(b"{" + text + b"}")
    return fields.items()


class RecordGroups(Mapping[Any, list[Any]]):
    """The records of each conversation, read when they are asked for."""

    def __init__(self, stream: IO[bytes], records: Iterable[tuple[int, int, Any]], by: Callable[[Any], Any]) -> None:
        self._stream = stream
        self._places: dict[Any, array[int]] = {}
        for place, length, value in records:
            self._places.setdefault(by(value), array("Q")).extend((place, length))

    def without(self, limit: int) -> Iterator[tuple[str, int]]:
        """Removes the groups of more than so many bytes; yields their keys and sizes."""
        for key, places in list(self._places.items()):
            size = sum(places[1::2])
            if size > limit:
                del self._places[key]
                yield ", ".join(map(str, filter(None, key))) if isinstance(key, tuple) else str(key), size

    def __getitem__(self, key: Any) -> list[Any]:
        found = iter(self._places[key])
        return [self._read(place, length) for place, length in zip(found, found, strict=True)]

    def _read(self, place: int, length: int) -> Any:
        self._stream.seek(place)
        return jsontext.read(self._stream.read(length))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def spooled(stream: IO[bytes], limit: int) -> IO[bytes]:
    """Copies up to so many bytes of a stream to a temporary file, which can be read again."""
    with tempfile.TemporaryFile(buffering=0) as file:
        size = 0
        while size < limit and (data := stream.read(min(CHUNK, limit - size))):
            file.write(data)
            size += len(data)
        file.seek(0)
        return _Copy(io.FileIO(os.dup(file.fileno())))


class _Copy(io.BufferedReader):
    """A temporary file that exists as long as it is read."""

    def __del__(self) -> None:
        self.close()


def _view(stream: IO[bytes]) -> IO[bytes]:
    return _View(stream)  # type: ignore[return-value]


class _View(io.RawIOBase):
    """A file from its beginning, whatever else is read from it meanwhile."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._at = stream, 0

    def read(self, size: int = -1) -> bytes:
        self._stream.seek(self._at)
        data = self._stream.read(size)
        self._at += len(data)
        return data

    def tell(self) -> int:
        return self._at
