"""JSON text to values and back, with the odd cases decided once.

Integers of any size survive (orjson would turn them into floats on reading and refuse them on writing). Unpaired
surrogates, escaped or raw, become U+FFFD. NaN and Infinity are refused in both directions, and so is nesting beyond
`DEPTH_LIMIT`. The common case costs one C call; everything odd is a second attempt.
"""

import functools
import math
import re
from collections.abc import Callable
from typing import Any

import msgspec
import orjson

from .errors import FormatError

DEPTH_LIMIT = 500

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

# A backslash escape, consumed whole so that `\\ud800` (an escaped backslash, then text) is not taken for one; a proper
# pair is consumed whole too, so that only halves without a partner are left for the first group.
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))
_LEVELS_TRIED = 40
_SHORT = 4096  # bytes: what is quickly searched
_STRUCTURE = re.compile(rb'[\[{]|[\]}]|"(?:[^"\\]|\\.)*"?')


def read(data: bytes | bytearray | str) -> Any:
    """The JSON value in `data`. Raises FormatError naming the byte where it stops making sense."""
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


def write(value: Any) -> bytes:
    """Compact JSON of a plain value. Raises FormatError for NaN, Infinity and what JSON has no word for."""
    try:
        out = orjson.dumps(value)
    except TypeError:
        out = _write_odd(value)
    _refuse_nan(value, out)
    return out


def compact(value: Any) -> str:
    """The one spelling of a JSON value that dialects use for argument text."""
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
    if isinstance(value, str):
        return is_clean(value)
    if isinstance(value, dict):
        return all(map(is_clean_value, value)) and all(map(is_clean_value, value.values()))
    return not isinstance(value, list | tuple) or all(map(is_clean_value, value))


def same(a: Any, b: Any) -> bool:
    """Equal as JSON texts: unlike Python, neither `true` nor `1.0` is `1`."""
    return bool(a == b) and not _differs_in_type(a, b)


def _differs_in_type(a: Any, b: Any) -> bool:
    """For equal values: whether somewhere a number of one kind, or a boolean, stands for one of another."""
    if a is b:  # most of what is compared is the same object: arguments, schemas
        return False
    if isinstance(a, dict):
        for key, value in a.items():
            other = b[key]  # what equals a string is one
            if value is not other and type(value) is not str and _differs_in_type(value, other):
                return True
        return False
    if isinstance(a, list | tuple):
        return any(type(x) is not str and _differs_in_type(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is not type(b)


def clean(text: str) -> str:
    """The string with adjacent surrogate halves joined and unpaired ones replaced by U+FFFD."""
    if is_clean(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def clean_value(value: Any) -> Any:
    """A JSON value in which every string, keys included, is valid Unicode; raises FormatError when nested too deep."""
    return _clean(value, 0)


def is_shallow(data: bytes | bytearray) -> bool:
    """Whether JSON text is surely nested within `DEPTH_LIMIT`; what is deep, odd or broken may get a no.

    Only brackets outside strings count, and innermost pairs are taken away a level at a time, so a wide document is
    distinguished from a deep one by a few passes at C speed.
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
        raise FormatError(f"nested deeper than {DEPTH_LIMIT} levels: flatten the value")
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
        raise FormatError(f"not JSON: {error}", "$") from None
    except RecursionError:
        raise FormatError(f"nested deeper than {DEPTH_LIMIT} levels: flatten the value") from None


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
                raise FormatError(f"nested deeper than {DEPTH_LIMIT} levels at byte {match.start()}: flatten the value")
        elif first in b"]}":
            depth -= 1


def _refuse_depth_of(value: Any, data: bytes | bytearray) -> None:
    """The same for a value and its text of many brackets, faster for a wide one: orjson writes at most 254 levels."""
    try:
        orjson.dumps(value)
    except TypeError:
        refuse_depth(data)


def _write_odd(value: Any) -> bytes:
    """What orjson refuses: huge integers, unpaired surrogates, too deep nesting."""
    try:
        return _encode(clean_value(value))
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise FormatError(f"cannot be written as JSON: {error}") from None


def contains(out: bytes, word: bytes) -> bool:
    """Whether a word occurs in text that an encoder wrote (which holds no NUL: JSON escapes it)."""
    return word in out if len(out) < _SHORT else bool(_strstr()(out, word))


@functools.cache
def _strstr() -> Callable[[bytes, bytes], Any]:
    """The C library's search, which reads many bytes at a time: some twenty times as fast as `in` on long text."""
    import ctypes  # only long texts are worth loading it

    try:
        found = ctypes.CDLL(None).strstr
    except (OSError, AttributeError, TypeError):  # no such library here
        return lambda out, word: word in out
    found.restype, found.argtypes = ctypes.c_void_p, (ctypes.c_char_p, ctypes.c_char_p)
    return found


def _refuse_nan(value: Any, out: bytes) -> None:
    """Raises FormatError for NaN and Infinity, which both encoders write as null: `out` is what they wrote."""
    if not contains(out, b"null"):
        return
    parts = [value]
    for item in parts:  # meets what is added on the way
        if isinstance(item, dict):
            parts += item.values()
        elif isinstance(item, (list, tuple)):
            parts += item
        elif isinstance(item, float) and not math.isfinite(item):
            raise FormatError(f"{item} is not a JSON number: use null or a string")
