"""JSON text to values and back, with defined edge cases.

Integers of any size survive (orjson turns them into floats on reading and refuses them on writing). Unpaired
surrogates, escaped or raw, become U+FFFD. NaN and Infinity are refused in both directions, and so is nesting beyond
`DEPTH_LIMIT`. The common case costs one C call; edge cases take a second attempt. `Repairs` collects what was replaced.
"""

import contextlib
import functools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import ContextVar, Token
from typing import Any, Self

import msgspec
import orjson

from .errors import FormatError

DEPTH_LIMIT = 500

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

# A backslash escape, consumed whole so that `\\ud800` (an escaped backslash, then text) does not match; a valid pair is
# consumed whole too, so that only unpaired halves are left for the first group.
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))
_LEVELS_TRIED = 40
_SHORT = 4096  # bytes that are searched quickly
_STRUCTURE = re.compile(rb'[\[{]|[\]}]|"(?:[^"\\]|\\.)*"?')


def read(data: bytes | bytearray | str, place: str | None = "$") -> Any:
    """Parses the JSON value in `data`. Raises FormatError with the byte offset of the error.

    `place` is the path of the value for `Repairs`; None if the caller keeps the text, so that nothing is lost.
    """
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    try:
        value = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        refuse_depth(data)
        return _read_repaired(bytes(data), place)
    if len(data) > 2 * DEPTH_LIMIT:  # each level is at least two bytes; to count them takes as long as decoding does
        refuse_deep(value, data)
    return value


def refuse_deep(value: Any, data: bytes | bytearray) -> None:
    """Raises FormatError if a value that was read from `data` is nested too deeply."""
    if _brackets(data) > DEPTH_LIMIT:
        _refuse_depth_of(value, data)


def _brackets(data: bytes | bytearray) -> int:
    """The number of brackets that open; in short text `replace` finds them much sooner than `count`."""
    if len(data) > _COPIED:
        return data.count(b"[") + data.count(b"{")
    return 2 * len(data) - len(data.replace(b"[", b"")) - len(data.replace(b"{", b""))


_COPIED = 1 << 20  # bytes: longer text is not copied


def read_line(data: bytes | bytearray | str, first: int | None = None) -> list[Any]:
    """Parses a line of JSON lines: one value, or objects with nothing between them (`{…}{…}`).

    Some programs lose a line end between two writes. Raises FormatError if not all of the line is valid. `first` is the
    index of the first value, by which replaced characters are placed.
    """
    try:
        value = _decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _read_odd_line(data, first)
    if len(data) > 2 * DEPTH_LIMIT:
        refuse_deep(value, data.encode() if isinstance(data, str) else data)
    return [value]


def _read_odd_line(data: bytes | bytearray | str, first: int | None) -> list[Any]:
    found = repairs()
    try:
        value = read(data)
    except FormatError:
        # Bytes that are not UTF-8 are replaced when an object is read.
        lenient = "surrogatepass" if isinstance(data, str) else "surrogateescape"
        text = data if isinstance(data, str) else bytes(data).decode("utf-8", lenient)
        objects = list(_concatenated(text, lenient)) if _GLUED.search(text) else []
        if not objects:
            raise
        for at, (_, paths) in enumerate(objects):
            found += paths
            if first is not None:
                found.place(f"$[{first + at}]")
        return [value for value, _ in objects]
    if found and first is not None:
        found.place(f"$[{first}]")
    return [value]


_GLUED = re.compile(r"\}\s*\{")
_decode_first = json.JSONDecoder().raw_decode


def _concatenated(text: str, errors: str) -> Iterator[tuple[Any, list[str]]]:
    """Yields the objects of a text, each with what was replaced in it; nothing if it is anything else."""
    text, at = text.strip(), 0
    found: list[tuple[Any, list[str]]] = []
    while at < len(text):
        try:
            if not text.startswith("{", at):
                return
            _, end = _decode_first(text, at)
            with Repairs() as replaced:
                found.append((read(text[at:end].encode("utf-8", errors)), replaced))
        except (ValueError, RecursionError, FormatError):
            return
        at = end
        while at < len(text) and text[at].isspace():
            at += 1
    yield from found


def refuse_duplicates(data: bytes, value: Any) -> None:
    """Raises FormatError if an object in JSON text has a key twice; `value` was read from it.

    Readers differ in which of the two counts (RFC 8259, 4). Each key has a colon, and so has each in a value that was
    dropped: without duplicates the text has as many colons as its value, unless some are escaped.
    """
    try:
        out = orjson.dumps(value)
    except TypeError:  # huge integers, deep nesting
        out = b""
    if out == data or (data.count(b":") == out.count(b":") and not contains(data, b"\\u003")):
        return
    read_pairs = json.loads(data.decode("utf-8", "replace"), object_pairs_hook=_Pairs)
    for path, item in _found_in(read_pairs, lambda item: isinstance(item, _Pairs) and item.duplicate is not None):
        raise FormatError("duplicate key; send it once", f"{path}.{clean(item.duplicate)}")


class _Pairs(dict[str, Any]):
    """An object of JSON text. `duplicate`: a key that it repeats."""

    duplicate: str | None = None

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__((clean(key), value) for key, value in pairs)
        if len(self) < len(pairs):
            self.duplicate = next(key for key, count in Counter(clean(key) for key, _ in pairs).items() if count > 1)


def _found_in(value: Any, is_wanted: Callable[[Any], bool]) -> Iterator[tuple[str, Any]]:
    """Yields the parts of a JSON value that are wanted, with their paths; outer ones first."""
    parts: list[tuple[int, str, Any]] = [(0, "$", value)]  # the number of the parent, and the step from there
    for at, (_, _, item) in enumerate(parts):  # also visits items that are appended on the way
        if is_wanted(item):
            steps, place = [], at
            while place:
                place, step, _ = parts[place]
                steps.append(step)
            yield clean("".join(("$", *reversed(steps)))), item
        if isinstance(item, dict):
            parts += [(at, f".{key}", part) for key, part in item.items()]
        elif isinstance(item, list):
            parts += [(at, f"[{number}]", part) for number, part in enumerate(item)]


def write(value: Any) -> bytes:
    """Returns compact JSON of a plain value. Raises FormatError for NaN, Infinity and values that JSON cannot
    express.
    """
    try:
        out = orjson.dumps(value)
    except TypeError:
        out = _write_odd(value)
    _refuse_nan(value, out)
    return out


def compact(value: Any) -> str:
    """Returns the canonical spelling that dialects use for argument text."""
    try:
        out = _encode(value)
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError):
        out = _write_odd(value)
    if len(out) > 2 * DEPTH_LIMIT:
        refuse_deep(value, out)
    _refuse_nan(value, out)
    return out.decode()


def is_compact(text: str, value: Any) -> bool:
    """Whether the text from which a value was just read is its compact spelling."""
    return _encode(value).decode() == text


def is_clean(text: str) -> bool:
    """Whether a string is valid Unicode, with no unpaired surrogate."""
    return text.isascii() or _SURROGATES.search(text) is None


def is_clean_value(value: Any) -> bool:
    """Whether every string in a JSON value, keys included, is valid Unicode."""
    with contextlib.suppress(TypeError):  # huge integers, half surrogates
        orjson.dumps(value)
        return True
    return _is_clean_odd(value)


def _is_clean_odd(value: Any) -> bool:
    if isinstance(value, str):
        return is_clean(value)
    if isinstance(value, dict):
        return all(map(_is_clean_odd, value)) and all(map(_is_clean_odd, value.values()))
    return not isinstance(value, list | tuple) or all(map(_is_clean_odd, value))


def same(a: Any, b: Any) -> bool:
    """Compares as JSON: unlike in Python, neither `true` nor `1.0` equals `1`."""
    return bool(a == b) and not _differs_in_type(a, b)


def _differs_in_type(a: Any, b: Any) -> bool:
    """For equal values: whether a number or boolean in one has another type in the other.

    Parts that both share are skipped, usually arguments and schemas. Long lists are compared by their encoding, which
    is faster than a walk over many small values.
    """
    if a is b:
        return False
    if isinstance(a, dict):
        for key, value in a.items():
            kind = value.__class__
            if kind is str:  # only a string equals a string
                continue
            other = b[key]
            is_plain = kind is other.__class__ and (not value or kind in _NUMBERS)
            if value is not other and not is_plain and _differs_in_type(value, other):
                return True
        return False
    if not isinstance(a, (list, tuple)):
        return type(a) is not type(b)
    if len(a) > _LONG:
        with contextlib.suppress(TypeError):  # huge integers, half surrogates
            if orjson.dumps(a) == orjson.dumps(b):
                return False
    return any(type(x) is not str and _differs_in_type(x, y) for x, y in zip(a, b, strict=True))


_LONG = 8  # items
_NUMBERS = frozenset({int, float, bool})


def clean(text: str) -> str:
    """The string with adjacent surrogate halves joined and unpaired ones replaced by U+FFFD."""
    if is_clean(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def clean_value(value: Any) -> Any:
    """A JSON value in which every string, keys included, is valid Unicode; raises FormatError when nested too deep."""
    return _clean(value, 0)


def is_shallow(data: bytes | bytearray) -> bool:
    """Whether JSON text is certainly nested within `DEPTH_LIMIT`; False for text that is deep, unusual or invalid.

    Only brackets outside strings count. Innermost pairs are removed a level at a time, so a few passes at C speed
    distinguish a wide document from a deep one.
    """
    if _brackets(data) <= DEPTH_LIMIT:
        return True
    bare = data.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NOT_STRUCTURE).replace(b'""', b"")
    if b'"' in bare:
        bare = b"".join(bare.split(b'"')[::2])
    for taken in range(0, _LEVELS_TRIED, 2):
        if bare.count(b"[") + bare.count(b"{") + taken <= DEPTH_LIMIT:
            return True
        bare = bare.replace(b"[]", b"").replace(b"{}", b"")
    return False


def _clean(value: Any, depth: int) -> Any:
    if depth > DEPTH_LIMIT:
        raise FormatError(f"nested deeper than {DEPTH_LIMIT} levels; flatten the value")
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(k) if isinstance(k, str) else k: _clean(v, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(v, depth + 1) for v in value]
    return value


def _read_repaired(data: bytes, place: str | None) -> Any:
    repaired = _ESCAPES.sub(lambda m: b"\\ufffd" if m[1] else m[0], _valid_utf8(data))
    try:
        value = _decode(repaired)
    except msgspec.DecodeError as error:
        raise FormatError(f"not JSON: {reason_of(error)}", "$") from None
    except RecursionError:
        raise FormatError(f"nested deeper than {DEPTH_LIMIT} levels; flatten the value") from None
    repairs = _repairs.get()
    if repairs is not None:
        if place is None:
            repairs.has_kept = True
        else:
            repairs += [place + path[1:] for path in _repaired_paths(data)]
    return value


_repairs: ContextVar["Repairs | None"] = ContextVar("repairs", default=None)


class Repairs(list[str]):
    """The paths of the strings in which `read` replaces characters, while this is entered.

    `has_kept`: some were replaced in a value whose text is kept beside it.
    """

    has_kept = False
    _placed = 0

    def __enter__(self) -> Self:
        self._token: Token[Repairs | None] = _repairs.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _repairs.reset(self._token)

    def place(self, place: str) -> None:
        """Puts the paths that were added since the last call into the value at this path."""
        self[self._placed :] = [place + path[1:] for path in self[self._placed :]]
        self._placed = len(self)

    def keep(self, paths: list[str]) -> None:
        """Adds paths in their places."""
        self[self._placed :] = paths
        self._placed = len(self)


def repairs() -> Repairs:
    """Returns the paths that are being collected."""
    found = _repairs.get()
    return Repairs() if found is None else found


def repaired_in(data: bytes, place: str = "$") -> list[str]:
    """The paths of the strings with unpaired surrogates in JSON text that is UTF-8; `place`: that of its value."""
    if not (contains(data, b"\\ud") or contains(data, b"\\uD")):
        return []
    with Repairs() as found:
        read(data, place)
    return found


def _repaired_paths(data: bytes) -> list[str]:
    """The paths of the strings that are no Unicode; of a key, that of its object."""
    try:
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "surrogateescape")
    return [path for path, _ in _found_in(json.loads(text), _is_repaired)]


def _is_repaired(item: Any) -> bool:
    texts = item if isinstance(item, dict) else (item,) if isinstance(item, str) else ()
    return any(clean(text).count("\ufffd") > text.count("\ufffd") for text in texts)


def reason_of(error: msgspec.DecodeError) -> str:
    """Why a text is not JSON, and where: `invalid character (byte 62)`."""
    reason = str(error).removeprefix("JSON is malformed: ")
    return reason[:1].lower() + reason[1:]


def _valid_utf8(data: bytes) -> bytes:
    try:
        return clean(data.decode("utf-8", "surrogatepass")).encode()
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace").encode()


def refuse_depth(data: bytes | bytearray) -> None:
    """Raises FormatError when JSON text is nested deeper than `DEPTH_LIMIT`."""
    if len(data) <= DEPTH_LIMIT or is_shallow(data):
        return
    depth = 0
    for match in _STRUCTURE.finditer(data):
        first = match[0][0]
        if first in b"[{":
            depth += 1
            if depth > DEPTH_LIMIT:
                raise FormatError(f"nested deeper than {DEPTH_LIMIT} levels at byte {match.start()}; flatten the value")
        elif first in b"]}":
            depth -= 1


def _refuse_depth_of(value: Any, data: bytes | bytearray) -> None:
    """The same for a value and its text with many brackets, faster for a wide one: orjson writes at most 254 levels."""
    try:
        orjson.dumps(value)
    except TypeError:
        refuse_depth(data)


def _write_odd(value: Any) -> bytes:
    """Writes what orjson refuses: huge integers, unpaired surrogates, deep nesting."""
    try:
        return _encode(clean_value(value))
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise FormatError(f"cannot be written as JSON: {error}") from None


def contains(out: bytes, word: bytes) -> bool:
    """Whether a substring occurs in text that an encoder wrote (which holds no NUL: JSON escapes it)."""
    return word in out if len(out) < _SHORT else bool(_strstr()(out, word))


@functools.cache
def _strstr() -> Callable[[bytes, bytes], Any]:
    """The C library's `strstr`, about twenty times as fast as `in` on long text."""
    import ctypes  # worth loading for long texts only

    try:
        found = ctypes.CDLL(None).strstr
    except (OSError, AttributeError, TypeError):  # no such library on this platform
        return lambda out, word: word in out
    found.restype, found.argtypes = ctypes.c_void_p, (ctypes.c_char_p, ctypes.c_char_p)
    return found


def _refuse_nan(value: Any, out: bytes) -> None:
    """Raises FormatError for NaN and Infinity, which both encoders write as null: `out` is their output."""
    if not contains(out, b"null"):
        return
    parts = [value]
    for item in parts:  # also visits items that are appended on the way
        if isinstance(item, dict):
            parts += item.values()
        elif isinstance(item, (list, tuple)):
            parts += item
        elif isinstance(item, float) and not math.isfinite(item):
            raise FormatError(f"{item} is not a JSON number; use null or a string")
