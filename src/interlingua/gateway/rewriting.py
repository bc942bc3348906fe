"""Changes of single values in JSON text, byte for byte: what is not changed stays as it came, spaces included."""

import re
from collections.abc import Iterator, Sequence

from ..dialects.wire import AWS, SSE
from ..values import jsontext

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]', re.DOTALL)
_BLANK = b" \t\r\n"


def spans(text: bytes, path: Sequence[str]) -> list[tuple[int, int]]:
    """Where the plain values (texts, numbers, null) of a path of keys stand; several where keys are repeated."""
    wanted = list(path)
    found: list[tuple[int, int]] = []
    stack: list[str | None] = []  # the key under which each open object or list stands; lists match no path
    key: str | None = None
    is_key, value_at = False, -1
    in_list: list[bool] = []
    for token in _TOKEN.finditer(text):
        mark = text[token.start() : token.start() + 1]
        if mark == b'"':
            if is_key:
                key = jsontext.read(token.group())
            continue
        if mark == b":":
            is_key, value_at = False, token.end()
            continue
        if value_at >= 0 and mark in b",}]" and _at(stack, key) == wanted:
            start, end = value_at, token.start()
            found.append((start + _leading(text, start, end), len(text[:end].rstrip(_BLANK))))
        value_at = -1
        if mark == b"{":
            stack.append(key)
            in_list.append(False)
            key, is_key = None, True
        elif mark == b"[":
            stack.append(key)
            in_list.append(True)
            key = None
        elif mark in b"}]" and stack:
            key = stack.pop()
            in_list.pop()
            is_key = False
        elif mark == b",":
            is_key = bool(in_list) and not in_list[-1]
            key = None if is_key or not in_list else key
    return found


def _at(stack: list[str | None], key: str | None) -> list[str | None]:
    return [*stack[1:], key]


def _leading(text: bytes, start: int, end: int) -> int:
    part = text[start:end]
    return len(part) - len(part.lstrip(_BLANK))


class Renaming:
    """Replaces the model's name in JSON text, wherever the wire has it."""

    def __init__(self, paths: Sequence[tuple[str, ...]], name: str) -> None:
        self._paths = paths
        self._name = jsontext.write(name)
        keys = {path[-1] for path in paths}
        joined = b"|".join(re.escape(key.encode()) for key in sorted(keys))
        self._pattern = re.compile(rb'"(?:%s)"\s*:\s*("(?:[^"\\]|\\.)*")' % joined, re.DOTALL) if paths else None
        self._shallow = all(len(path) == 1 for path in paths)

    def __call__(self, text: bytes) -> bytes:
        if self._pattern is None:
            return text
        first = self._pattern.search(text)
        if first is None:
            return text
        # One brace before it: the key stands in the outermost object, where these wires have it.
        if self._shallow and text.count(b"{", 0, first.start()) == 1:
            return b"".join((text[: first.start(1)], self._name, text[first.end(1) :]))
        found = [span for path in self._paths for span in spans(text, path) if text[span[0] : span[0] + 1] == b'"']
        for start, end in sorted(found, reverse=True):
            text = text[:start] + self._name + text[end:]
        return text


def with_option(text: bytes, outer: str, inner: str) -> bytes:
    """The text of an object in which `outer.inner` is true."""
    places = spans(text, (outer, inner))
    if places:
        for start, end in reversed(places):
            text = text[:start] + b"true" + text[end:]
        return text
    opened = re.search(rb'"%s"\s*:\s*\{' % re.escape(outer.encode()), text)
    if opened is not None and text.count(b"{", 0, opened.start()) == 1:
        rest = text[opened.end() :].lstrip(_BLANK)
        comma = b"" if rest.startswith(b"}") else b","
        return text[: opened.end()] + jsontext.write(inner) + b":true" + comma + text[opened.end() :]
    for start, end in reversed(spans(text, (outer,))):  # null
        return text[:start] + jsontext.write({inner: True}) + text[end:]
    brace = text.index(b"{") + 1
    comma = b"" if text[brace:].lstrip(_BLANK).startswith(b"}") else b","
    return text[:brace] + jsontext.write({outer: {inner: True}})[1:-1] + comma + text[brace:]


class Cutter:
    """Raw frames of a stream, whole and unchanged, however the bytes arrive."""

    def __init__(self, content_type: str) -> None:
        self._rest = b""
        self._kind = content_type

    def feed(self, chunk: bytes) -> list[bytes]:
        data = self._rest + chunk if self._rest else chunk
        cut = list(_aws(data) if self._kind == AWS else _text(data, _BORDER if self._kind == SSE else _LINE))
        size = sum(map(len, cut))
        self._rest = data[size:] if size < len(data) else b""
        return cut

    def close(self) -> bytes:
        """What came of a frame that never ended."""
        rest, self._rest = self._rest, b""
        return rest


_BORDER = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE = re.compile(rb"\n")


def _text(data: bytes, border: re.Pattern[bytes]) -> Iterator[bytes]:
    at = 0
    for found in border.finditer(data):
        yield data[at : found.end()]
        at = found.end()


def _aws(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + 4 <= len(data):
        length = int.from_bytes(data[at : at + 4])
        if length < 16:  # no frame is shorter: garbage, which the decoder names
            yield data[at:]
            return
        if at + length > len(data):
            return
        yield data[at : at + length]
        at += length
