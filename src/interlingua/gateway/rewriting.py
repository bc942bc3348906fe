"""In-place edits of JSON text: everything else stays byte-identical, spaces included."""

import functools
import itertools
import re
from collections.abc import Iterator, Sequence

from ..dialects.wire import AWS, SSE
from ..values import jsontext

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]', re.DOTALL)
_BLANK = b" \t\r\n"


def spans(text: bytes, path: Sequence[str]) -> list[tuple[int, int]]:
    """Returns the spans of the plain values (texts, numbers, null) at a path of keys; several if keys are repeated."""
    wanted = list(path)
    found: list[tuple[int, int]] = []
    stack: list[str | None] = []  # the key of each open object or list; lists match no path
    key: str | None = None
    is_key, value_at = False, -1
    in_list: list[bool] = []
    # Tokens in place of a parse: writing JSON anew would change spaces, escapes and numbers, and with them the
    # provider's prompt cache and signatures.
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


# Strings of JSON have no line breaks: what is odd in one line of a stream does not reach the next.
_STRING = re.compile(rb'"[^"\\\n]*(?:\\.[^"\\\n]*)*"')
_NO_SHAPE = bytes(set(range(256)) - set(b'{}[]":'))
_VALUE = re.compile(rb'\s*:\s*("(?:[^"\\]|\\.)*")', re.DOTALL)
_DATA = re.compile(rb"data: ?\{")
# A key of the outermost object of a line: nothing else is open before it, or nothing else is closed after it.
_EARLY = rb'\n((?:data: ?)?\{[^{}\n]*?(?<!\\)%b[ \t]*:[ \t]*)"(?:[^"\\\n]|\\.)*"()'
_LATE = rb'(?<!\\)(%b[ \t]*:[ \t]*)"(?:[^"\\\n]|\\.)*"([^{}\n]*\}[ \t\r]*\n)'
_QUOTE, _COLON = b'":'
_SHORT = 4096  # bytes: most frames are shorter


class Renaming:
    """Replaces the model's name in JSON text: in a document, or in whole frames of a stream."""

    def __init__(self, paths: Sequence[tuple[str, ...]], name: str) -> None:
        self.name = jsontext.write(name)
        self._paths = [[None, *map(jsontext.write, path[:-1])] for path in paths]
        self._keys = sorted({jsontext.write(path[-1]) for path in paths})
        self.key = self._keys[0] if len(self._keys) == 1 and [None] in self._paths else None
        self._done = tuple((self.key or b"") + colon + self.name for colon in (b":", b": "))
        forms = (_EARLY, _LATE) if self.key is not None and self._paths == [[None]] else ()
        self.usual = tuple(re.compile(form % re.escape(self.key or b"")) for form in forms)

    def __call__(self, text: bytes) -> bytes:
        if self.key is not None and text[:1] == b"{":
            if text.count(self.key) == 1 and (self._done[0] in text or self._done[1] in text):
                return text  # the name is there already
            at = text.find(self.key)
            end = at + len(self.key)
            if at < 0:
                return text
            if text.find(self.key, end) < 0 and text[at - 1 : at] != b"\\":
                value = _VALUE.match(text, end)
                if value is None:
                    return text
                # The usual document: nothing but the document is open before the key, or closed after it.
                opened = text.count(b"{", 0, at) - text.count(b"{}", 0, at)
                if opened == 1 or text.count(b"}", value.end()) == 1:
                    return text[: value.start(1)] + self.name + text[value.end(1) :]
        return self._replaced(text, b"")

    def frames(self, text: bytes, border: bytes) -> bytes:
        """The same for whole frames of a stream, each a document, with `border` between them."""
        return self._replaced(text, border)

    def _replaced(self, text: bytes, border: bytes) -> bytes:
        places = self._places(text)
        if not places:
            return text
        parts: list[bytes] = []
        done, scan = 0, _Scan(border)
        for at, end in places:
            # An opening quote is never behind a backslash: others are part of a text.
            value = _VALUE.match(text, end) if text[at - 1 : at] != b"\\" else None
            if value is not None and scan.keys(text, at) in self._paths:
                parts += (text[done : value.start(1)], self.name)
                done = value.end(1)
        return b"".join((*parts, text[done:])) if parts else text

    def _places(self, text: bytes) -> list[tuple[int, int]]:
        """Where one of the keys may be."""
        found = []
        for key in self._keys:
            at = text.find(key)
            while at >= 0:
                found.append((at, at + len(key)))
                at = text.find(key, at + len(key))
        return found if len(self._keys) < 2 else sorted(found)


class FrameRenaming:
    """Replaces the model's name in the frames of one stream.

    The name mostly stands in the same place of every frame: what surrounds it is replaced, up to the beginning or the
    end of the line. Quotes in texts have backslashes, so none looks like it.
    """

    def __init__(self, rename: "Renaming", border: bytes = b"") -> None:
        self._rename = rename
        self._border = border
        self._old = self._new = b""

    def __call__(self, data: bytes) -> bytes:
        key = self._rename.key
        if key is None or not self._rename.usual:
            return self._rename.frames(data, self._border)
        count = data.count(key)
        if not count:
            return data
        text = b"\n" + data
        if not self._old or self._old not in text:
            self._learn(text)
        parts = text.split(self._old) if self._old else []
        if len(parts) == count + 1 or (parts and self._rename_others(parts, key)):
            return self._new.join(parts)[1:]
        return self._rename.frames(data, self._border)

    def _rename_others(self, parts: list[bytes], key: bytes) -> bool:
        """Replaces the name in other frames between those that were split; False if it is elsewhere."""
        for at, part in enumerate(parts):
            if key in part:
                # What precedes a border belongs to the frame that was split.
                head, border, frames = part.partition(self._border or part) if at else (part[:1], b"", part[1:])
                if key in head:
                    return False
                parts[at] = head + border + self._rename.frames(frames, self._border)
        return True

    def _learn(self, data: bytes) -> None:
        self._old = self._new = b""
        for end, usual in itertools.product((_SHORT, len(data)), self._rename.usual):
            if found := usual.search(data, 0, end):
                self._old = found[0]
                self._new = found[0][: found.end(1) - found.start()] + self._rename.name + found[2]
                return


class _Scan:
    """Tracks the structure of JSON text, as far as needed. `border` ends a document, if there are several."""

    def __init__(self, border: bytes = b"") -> None:
        self._border = border
        self._at = 0
        self._stack: list[bytes | None] = []  # the key of each open object and list; None: a document, or in a list
        self._key: bytes | None = None

    def keys(self, text: bytes, at: int) -> list[bytes | None]:
        """Returns the keys that lead to the object that is open there."""
        line = text.rfind(b"\n", self._at, at) + 1
        # The usual case, seen at one look: a frame, or the text, begins an object and nothing in it is open.
        if (line or not self._at) and text.count(b"{", line, at) == 1 and (_DATA.match(text, line) or not line):
            self._at, self._stack, self._key = at, [None], None
            return self._stack
        if self._border and (border := text.rfind(self._border, self._at, at)) >= 0:
            self._at, self._stack, self._key = border + len(self._border), [], None
        part = text[self._at : at]
        strings = _STRING.findall(part)
        stack, key, number = self._stack, self._key, 0
        for mark in _STRING.sub(b'"', part).translate(None, _NO_SHAPE):
            if mark == _QUOTE:
                number += 1
            elif mark == _COLON:
                key = strings[number - 1] if number else None
            elif mark in b"{[":
                stack.append(key if stack else None)
                key = None
            else:
                key = None
                if stack:
                    stack.pop()
        self._at, self._key = at, key
        return stack


@functools.lru_cache(maxsize=1024)
def renaming(paths: tuple[tuple[str, ...], ...], name: str) -> Renaming:
    """Returns a cached `Renaming`."""
    return Renaming(paths, name)


def with_option(text: bytes, outer: str, inner: str) -> bytes:
    """Returns the text of an object in which `outer.inner` is true."""
    places = spans(text, (outer, inner))
    if places:
        for start, end in reversed(places):
            text = text[:start] + b"true" + text[end:]
        return text
    opened = next(_objects(text, outer), None)
    if opened is not None:
        rest = text[opened.end() :].lstrip(_BLANK)
        comma = b"" if rest.startswith(b"}") else b","
        return text[: opened.end()] + jsontext.write(inner) + b":true" + comma + text[opened.end() :]
    for start, end in reversed(spans(text, (outer,))):  # null
        return text[:start] + jsontext.write({inner: True}) + text[end:]
    brace = text.index(b"{") + 1
    comma = b"" if text[brace:].lstrip(_BLANK).startswith(b"}") else b","
    return text[:brace] + jsontext.write({outer: {inner: True}})[1:-1] + comma + text[brace:]


def _objects(text: bytes, name: str) -> Iterator[re.Match[bytes]]:
    """Finds the objects under a key of the outermost object. An opening quote is never behind a backslash."""
    scan = _Scan()
    for found in re.finditer(rb'(?<!\\)"%s"\s*:\s*\{' % re.escape(name.encode()), text):
        if scan.keys(text, found.start()) == [None]:
            yield found


def valid_text(data: bytes) -> bytes:
    """Replaces invalid UTF-8 in frames by U+FFFD, as readers of events decode it (html.spec.whatwg.org, 9.2.6)."""
    return data.decode("utf-8", "replace").encode()


def without_repeats(data: bytes, content_type: str, name: bytes, seen: set[bytes]) -> bytes:
    """Returns frames without repeated events of this name, byte for byte."""
    borders = _borders(data) if content_type == SSE else (b"\n",)
    typed = b'"type":"%s"' % name
    kept: list[bytes] = []
    done = at = 0
    while (found := data.find(name, at)) >= 0:
        starts = [data.rfind(border, at, found) + len(border) for border in borders if border in data[at:found]]
        start = max(starts, default=at)
        ends = [end + len(border) for border in borders if (end := data.find(border, found)) >= 0]
        at = min(ends, default=len(data))
        frame = data[start:at]
        if name in frame.partition(b"data:")[0] or typed in frame.replace(b'": "', b'":"'):
            if frame in seen:
                kept.append(data[done:start])
                done = at
            seen.add(frame)
    return b"".join((*kept, data[done:])) if done else data


class Cutter:
    """Splits a stream into whole frames, unchanged, however the bytes arrive. Frames that arrive together stay
    together.
    """

    def __init__(self, content_type: str) -> None:
        self._rest = b""
        self._kind = content_type

    def feed(self, chunk: bytes) -> bytes:
        """Returns the frames that are complete."""
        data = self._rest + chunk if self._rest else chunk
        if data.endswith(b"\n\n") and self._kind == SSE:
            end = len(data)
        elif self._kind == SSE:
            end = max(data.rfind(border) + len(border) if border in data else 0 for border in _borders(data))
        else:
            end = _aws_end(data) if self._kind == AWS else data.rfind(b"\n") + 1
        self._rest = data[end:]
        return data[:end]

    def close(self) -> bytes:
        """Returns the rest of an incomplete frame."""
        rest, self._rest = self._rest, b""
        return rest


_BORDERS = (b"\n\n", b"\r\n\r\n", b"\r\r")  # of events (html.spec.whatwg.org, 9.2.5)


def _borders(data: bytes) -> tuple[bytes, ...]:
    """The borders of events that may be in a piece of a stream."""
    return _BORDERS if b"\r" in data else _BORDERS[:1]


def _aws_end(data: bytes) -> int:
    """Returns where the complete messages at the beginning end."""
    at, size = 0, len(data)
    while at + 4 <= size:
        length = int.from_bytes(data[at : at + 4])
        if length < 16:  # no message is shorter: garbage, which the decoder names
            return size
        if at + length > size:
            break
        at += length
    return at
