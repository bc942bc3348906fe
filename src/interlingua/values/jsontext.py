"""JSON text to values and back, with defined edge cases.

Integers of any size survive (orjson turns them into floats on reading and refuses them on writing). Unpaired
surrogates, escaped or raw, become U+FFFD. NaN and Infinity are refused in both directions, and so is nesting beyond
`DEPTH_LIMIT`. The common case costs one C call; edge cases take a second attempt.
"""

import contextlib
import functools
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

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


def read(data: bytes | bytearray | str) -> Any:
    """Parses the JSON value in `data`. Raises FormatError with the byte offset of the error."""
    if isinstance(data, str):
        data = clean(data).encode()
    try:
        value = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        refuse_depth(data)
        return _read_repaired(bytes(data))
    if len(data) > DEPTH_LIMIT and data.count(b"[") + data.count(b"{") > DEPTH_LIMIT:
        _refuse_depth_of(value, data)
    return value


def read_line(data: bytes | bytearray | str) -> list[Any]:
    """Parses a line of JSON lines: one value, or objects with nothing between them (`{…}{…}`).

    Some programs lose a line end between two writes. Raises FormatError if not all of the line is valid.
    """
    try:
        return [read(data)]
    except FormatError:
        text = clean(data) if isinstance(data, str) else bytes(data).decode("utf-8", "replace")
        if not _GLUED.search(text):
            raise
        found = list(_concatenated(text))
        if not found:
            raise
        return found


_GLUED = re.compile(r"\}\s*\{")
_decode_first = json.JSONDecoder().raw_decode


def _concatenated(text: str) -> Iterator[Any]:
    """Yields the objects of a text; nothing if it is anything else."""
    text, at, found = text.strip(), 0, []
    while at < len(text):
        try:
            if not text.startswith("{", at):
                return
            _, end = _decode_first(text, at)
            found.append(read(text[at:end]))
        except (ValueError, RecursionError, FormatError):
            return
        at = end
        while at < len(text) and text[at].isspace():
            at += 1
    yield from found


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
    if out.count(b"[") + out.count(b"{") > DEPTH_LIMIT:
        _refuse_depth_of(value, out)
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
    if data.count(b"[") + data.count(b"{") <= DEPTH_LIMIT:
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


def _read_repaired(data: bytes) -> Any:
    repaired = _ESCAPES.sub(lambda m: b"\\ufffd" if m[1] else m[0], _valid_utf8(data))
    try:
        return _decode(repaired)
    except msgspec.DecodeError as error:
        raise FormatError(f"not JSON: {reason_of(error)}", "$") from None
    except RecursionError:
        raise FormatError(f"nested deeper than {DEPTH_LIMIT} levels; flatten the value") from None


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
