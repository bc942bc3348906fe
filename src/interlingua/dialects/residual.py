"""Residuals, which make round trips exact, and the small readers that all dialects share.

The residual rule: `extra[API]` of a value holds exactly what `encode(decode(wire))` would otherwise get wrong, which is
fields that the format does not model, and hints. A hint means "where you would encode X, the wire had Y". It applies
only while the encoder still writes X, so it never overrides a value that was changed after decoding.
"""

import base64
import binascii
import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ParamSpec, TypeVar
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from ..values import jsontext
from ..values.errors import BadWire, DialectError, FormatError, InterlinguaError
from ..values.folding import settle
from ..values.jsontext import same as same
from ..values.losses import QUIET, Reporter
from ..values.messages import AssistantMessage, Block, Extra, ImageBlock, OpaqueBlock, StopReason, ToolCall, blocks_of
from ..values.request import Request, ToolSpec

# Keys of `extra[API]` with this prefix are ours (hints); all others are fields of the wire.
HINTS = "~"
JOINED = "~joined"  # whether a message shares its wire message with the one before it
MESSAGE = "~message"  # residual of a wire message that is decoded as several messages, on the first of them
RESPONSE = "~response"  # residual of the envelope of an answer; never sent in a request
BARE = "~bare"  # the wire was a bare list of messages
GENERATED = "~minted"  # of a call or a result: the wire had no id; the key is in stored sessions
ENCODED = "said"  # of a hint: what the encoder writes; the key is in stored sessions

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=Struct)
M = TypeVar("M", bound=AssistantMessage)
Mint = Callable[[int], str]  # makes the id of the n-th call that has none


_SCALARS = frozenset({str, int, float})  # equal ones of the same type are the same JSON


def residual(wire: Mapping[str, Any], encoded: Mapping[str, Any]) -> dict[str, Any]:
    """The difference of `wire` from `encoded`: unknown fields as they are, known ones as hints; empty if equal."""
    if same(wire, encoded):
        return {}
    extra_fields: dict[str, Any] = {}
    hints: dict[str, Any] = {}
    for key, value in wire.items():
        if key in encoded:
            other = encoded[key]
            if value is other:
                continue  # most are: no call for those
            # `1`, `1.0` and `True` are equal in Python and different in JSON: types are compared first.
            kind = value.__class__
            if kind is other.__class__ and (value == other if kind in _SCALARS else not (value or other)):
                continue
            hint = _hint(value, other)
            if hint:
                hints[key] = hint
        elif key.startswith(HINTS):
            hints[key] = {"wire": value}
        else:
            extra_fields[key] = value
    if not encoded.keys() <= wire.keys():
        for key, value in encoded.items():
            if key not in wire:
                hints[key] = {ENCODED: value}
    if hints:
        extra_fields[HINTS] = hints
    return extra_fields


def _hint(wire: Any, encoded: Any) -> dict[str, Any] | None:
    if isinstance(wire, dict) and isinstance(encoded, dict):
        inner = residual(wire, encoded)
        return {"in": inner} if inner else None
    return None if same(wire, encoded) else {ENCODED: encoded, "wire": wire}


def restored(encoded: dict[str, Any], extra: Extra, api: str) -> dict[str, Any]:
    """Puts the residual of `api` back into `encoded`, in place, and returns it."""
    extra_fields = extra.get(api)
    return put_back(encoded, extra_fields) if extra_fields else encoded


def put_back(encoded: dict[str, Any], extra_fields: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `residual`: changes and returns `encoded`."""
    if not extra_fields:
        return encoded
    for key, value in extra_fields.items():
        if not key.startswith(HINTS) and key not in encoded:
            encoded[key] = value
    for key, hint in extra_fields.get(HINTS, {}).items():
        if "in" in hint:
            if isinstance(encoded.get(key), dict):
                encoded[key] = put_back(dict(encoded[key]), hint["in"])
        elif ENCODED not in hint:
            encoded.setdefault(key, hint["wire"])
        elif key in encoded and same(encoded[key], hint[ENCODED]):
            if "wire" in hint:
                encoded[key] = hint["wire"]
            else:
                del encoded[key]
    return encoded


def keeping(value: S, api: str, wire: Mapping[str, Any], encoded: Mapping[str, Any], own: Iterable[str] = ()) -> S:
    """The value with the residual of `wire` against `encoded`, its own encoding, added to its `extra`.

    `own` are the fields whose items have residuals of their own.
    """
    if own:
        wire = {**wire, **{key: encoded[key] for key in own if key in wire and key in encoded}}
    extra_fields = residual(wire, encoded)
    return with_residual(value, api, **extra_fields) if extra_fields else value


def keeping_response(message: M, api: str, wire: Mapping[str, Any], encoded: Mapping[str, Any]) -> M:
    """The message with the residual of an answer's envelope, under a key that no request sends."""
    extra_fields = residual(wire, encoded)
    return with_residual(message, api, **{RESPONSE: extra_fields}) if extra_fields else message


def with_residual(value: S, api: str, /, **extra_fields: Any) -> S:
    """The value with these keys added to `extra[api]`."""
    extra: Extra = value.extra  # type: ignore[attr-defined]
    return replace(value, extra={**extra, api: {**extra.get(api, {}), **extra_fields}})


def residual_of(extra: Extra, api: str) -> Mapping[str, Any]:
    """`extra[api]`, or an empty mapping."""
    return extra.get(api, {}) if extra else {}


def reading(api: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorates a decoder: any failure on malformed input is raised as `BadWire`."""

    def guard(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except FormatError as error:
                _raise_in_body(error, api, "$")
                raise
            except InterlinguaError:
                raise
            # Nested JSON may be deeper than the stack: that is the sender's fault, too.
            except RecursionError:
                raise BadWire(api, "nested too deeply") from None
            except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError) as error:
                raise BadWire(api, f"malformed body: {type(error).__name__}: {error}") from error

        return guarded

    return guard


def each(items: Any, name: str, api: str, decode: Callable[[Any], R], first: int = 0) -> list[R]:
    """`decode` for each item of a list; errors name the path of the item, `first` is the number of the first one."""
    if not isinstance(items, list):
        raise BadWire(api, f"expected a list, got {type(items).__name__}", f"$.{name}")
    out = []
    for at, item in enumerate(items, first):
        try:
            out.append(decode(item))
        except DialectError as error:
            raise error.under(f"{name}[{at}]") from None
        except FormatError as error:
            _raise_in_body(error, api, f"$.{name}[{at}]")
            raise
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise BadWire(api, f"{type(error).__name__}: {error}", f"$.{name}[{at}]") from error
    return out


def _raise_in_body(error: FormatError, api: str, path: str) -> None:
    """Raises the error of a value that was made from a body as `BadWire`, unless it names a place of its own."""
    if not error.path.startswith("$"):
        raise BadWire(api, error.message, f"{path}.{error.path}") from error


def decode_tools(wire: Any, api: str, decode: Callable[[Any], ToolSpec]) -> tuple[ToolSpec, ...] | None:
    """The tools of a request; None if the field is not a list."""
    return tuple(each(wire, "tools", api, decode)) if isinstance(wire, list) else None


def an_object(value: Any, api: str, path: str = "$") -> dict[str, Any]:
    """The value, which must be a JSON object."""
    if not isinstance(value, dict):
        raise BadWire(api, f"expected an object, got {type(value).__name__}", path)
    return value


# Unions would be built anew for each value.
_TEXTS = (bytes, bytearray, str)
_NUMBERS = (int, float)


def body_of(data: Any, api: str) -> Any:
    """A body as JSON values; text and bytes are parsed."""
    if isinstance(data, _TEXTS):
        try:
            return jsontext.read(data)
        except FormatError as error:
            raise BadWire(api, error.message) from None
    return data


def json_or_text(body: Any) -> Any:
    """The body of an error response: JSON values if it is JSON, else text."""
    try:
        return body_of(body, "")
    except BadWire:
        return body.decode("utf-8", "replace") if isinstance(body, bytes | bytearray) else body


def string(value: Any) -> str:
    """The value, which must be a string. On TypeError the caller keeps the whole value as an opaque block."""
    if not isinstance(value, str):
        raise TypeError(f"expected a string, got {type(value).__name__}")
    return value


def boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"expected a boolean, got {type(value).__name__}")
    return value


def optional(value: Any) -> str | None:
    """The value if it is a string, else None: the residual keeps anything else."""
    return value if isinstance(value, str) else None


def media_type(value: Any) -> str | None:
    """The media type without parameters, except for audio, where they are the format (`audio/L16;rate=24000`)."""
    # RFC 2045, 5.1: parameters after a semicolon. No wire needs those of other types, and some refuse them.
    if not isinstance(value, str) or value.startswith("audio/"):
        return optional(value)
    return value.partition(";")[0].strip()


def flag(value: Any) -> bool | None:
    """The value if it is a boolean."""
    return value if isinstance(value, bool) else None


def whole(value: Any) -> int | None:
    """The value if it is an integer."""
    return value if type(value) is int else None  # excludes bool


def number(value: Any) -> int | float | None:
    """The value if it is a number."""
    return value if isinstance(value, _NUMBERS) and not isinstance(value, bool) else None


def fields_of(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def strings(value: Any) -> tuple[str, ...] | None:
    """The value if it is a list of strings."""
    return tuple(value) if isinstance(value, list) and all(isinstance(item, str) for item in value) else None


def count(usage: Mapping[str, Any], key: str) -> int:
    """A token count; 0 if it is absent, null or not an integer."""
    value = usage.get(key)
    return value if type(value) is int else 0


def joined_base64(pieces: list[str]) -> str:
    """Joins base64 fragments, each of whole bytes; a single fragment is returned unchanged."""
    given = [piece for piece in pieces if piece]
    if len(given) < 2:
        return "".join(given)
    try:
        return base64.b64encode(b"".join(base64.b64decode(piece, validate=True) for piece in given)).decode()
    except binascii.Error:
        return "".join(given)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def decode_time(text: Any) -> int | None:
    """Milliseconds since the epoch from an RFC 3339 time, or None. Finer digits stay in the residual."""
    try:
        when = datetime.fromisoformat(text)
        return (when.replace(tzinfo=when.tzinfo or UTC) - _EPOCH) // timedelta(milliseconds=1)
    except (TypeError, ValueError, OverflowError):
        return None


def encode_time(timestamp: int | None, *, digits: bool = True) -> str | None:
    """The inverse; None for a time outside the calendar. Without `digits`, whole seconds have no fraction."""
    if timestamp is None:
        return None
    try:
        when = _EPOCH + timedelta(milliseconds=timestamp)
    except OverflowError:
        return None
    return when.isoformat(timespec="milliseconds" if digits or timestamp % 1000 else "seconds").replace("+00:00", "Z")


class Ids:
    """Ids for calls without one: the n-th is `mint(n)`, unless that id is already in use."""

    def __init__(self, mint: Mint | None) -> None:
        self._mint = mint or "call_{}".format
        self._count = 0
        self._given: set[str] = set()

    def take(self, given: Any) -> tuple[str, bool]:
        """The id, and whether it was generated."""
        if isinstance(given, str) and given:
            self._given.add(given)
            return given, False
        for _ in range(len(self._given) + 1):  # a `mint` that ignores its argument must not loop forever
            id, self._count = self._mint(self._count), self._count + 1
            if id not in self._given:
                break
        return id, True


def generated_id(message: AssistantMessage, prefix: str) -> str:
    """An id for an answer without one, because clients expect it; the same whether streamed or whole.

    It depends only on what is known when an answer begins.
    """
    text = f"{message.provider}\n{message.response_model or message.model}\n{message.timestamp}"
    # A digest of fixed values, so that a repeated request gives the same bytes to caches and recordings.
    return prefix + hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()


def named(message: AssistantMessage, request: Request | None) -> AssistantMessage:
    """The message with the model name of the request, which clients expect whichever model answered."""
    if request is None or not request.model.id:
        return message
    return replace(message, model=request.model.id, response_model=None)


def model_names(base: AssistantMessage, name: str | None) -> dict[str, Any]:
    """`model` and `response_model`: the requested model, and the one that answered if it differs."""
    return {"model": base.model or name, "response_model": name if base.model and name != base.model else None}


def own_path(quirks: Mapping[str, Any] | None, model: str) -> str | None:
    """The request path of a variant or host that sets one; `{model}` is replaced by the model."""
    path = quirks.get("path") if quirks else None
    return str(path).replace("{model}", quote(model, safe="")) if path else None


# Stop reasons that hosts pass on from the provider of the model (OpenRouter, LiteLLM, servers with compatible APIs), in
# lower case with underscores.
_SPELLINGS: dict[StopReason, str] = {
    "stop": "stop end eos end_turn stop_sequence complete completed",
    "toolUse": "tool_calls tool_call tool_use function_call function_calls",
    "length": "length max_tokens max_output_tokens max_completion_tokens max_new_tokens max_length model_length"
    " token_limit length_limit truncated incomplete model_context_window_exceeded",
    "error": "content_filter content_filtered safety refusal recitation blocklist prohibited_content spii language"
    " image_safety guardrail_intervened malformed_function_call malformed_tool_use unexpected_tool_call"
    " error failed timeout abort aborted cancelled canceled",
}
STOP_SPELLINGS = {stop: reason for reason, names in _SPELLINGS.items() for stop in names.split()}


def known_reason(stop: str | None, reasons: Mapping[str, StopReason]) -> StopReason | None:
    """Our stop reason for the wire's value: by the wire's table, else by those of others; None if unknown."""
    stop = stop or ""
    return reasons.get(stop) or STOP_SPELLINGS.get(stop.lower().replace("-", "_").replace(" ", "_"))


def reason_for(stop: str | None, reasons: Mapping[str, StopReason], content: tuple[Block, ...]) -> StopReason:
    """Our stop reason for an answer with this content.

    An unknown value is `stop` if there is usable content, but `length` if the arguments of a call break off.
    """
    known = known_reason(stop, reasons)
    if known is not None or not stop:
        return settle(known, content)
    broken = any(isinstance(block, ToolCall) and block.parse_error is not None for block in content)
    return "length" if broken else settle(known, content)


def own_stop_reason(message: AssistantMessage, reasons: Mapping[str, StopReason]) -> str | None:
    """The wire's own value in `stop_detail`, if it still agrees with `stop_reason`."""
    stop = message.stop_detail
    means = reasons.get(stop or "")
    return stop if means is not None and settle(means, blocks_of(message.content)) == message.stop_reason else None


def given_arguments(given: Any) -> dict[str, Any]:
    """Fields of a call from arguments that the wire has as an object; any other value is kept as text."""
    if isinstance(given, dict):
        return {"arguments": given}
    provided = jsontext.compact(given)
    return {"arguments": {}, "arguments_text": provided, "parse_error": "the arguments are not a JSON object"}


def decode_typed(
    wire: Any, decoders: Mapping[str, Callable[[dict[str, Any]], Any]], encode: Callable[[Any, Reporter], Any], api: str
) -> Block:
    """A block, decoded by its `type`, with its residual; one that is unknown or malformed is opaque."""
    kind = wire.get("type") if isinstance(wire, dict) else None
    decode = decoders.get(kind) if isinstance(kind, str) else None
    if decode is not None:
        try:
            block: Block = decode(wire)
            return keeping(block, api, wire, encode(block, QUIET) or {})
        except (KeyError, TypeError, ValueError):
            pass
    return OpaqueBlock(dialect=api, value=wire)


def is_null(block: Block, api: str) -> bool:
    """A null that stood where a block should be: not the same as a block that cannot be encoded."""
    return isinstance(block, OpaqueBlock) and block.dialect == api and block.value is None


def encode_blocks(
    content: tuple[Block, ...], encode: Callable[[Block, Reporter], Any], report: Reporter, api: str = ""
) -> list[Any]:
    """Encodes blocks; those that `encode` cannot write (None) are left out, and it reports them.

    Nulls are written again in formats that name themselves with `api`.
    """
    encoded = []
    for at, block in enumerate(content):
        report.block = at
        wire = encode(block, report)
        if wire is not None or is_null(block, api):
            encoded.append(wire)
    report.block = None
    return encoded


def report_other_sources(block: ImageBlock, report: Reporter) -> None:
    """Reports what else says where a picture is, in formats that write its data, or without data its URL."""
    if block.file_id is not None:
        report.lost("file_id", "uploads have no place in this format", field="fileId")
    if block.data is not None and block.url is not None:
        report.lost("url", "the picture is sent by its data", field="url")


def encode_tools(
    specs: tuple[ToolSpec, ...], api: str, encode: Callable[[ToolSpec], Any], report: Reporter
) -> list[Any]:
    """Encodes tool definitions; built-in tools of other providers are reported as lost."""
    encoded = []
    for at, spec in enumerate(specs):
        if spec.dialect is None:
            encoded.append(encode(spec))
        elif spec.dialect == api:
            encoded.append(spec.value)
        else:
            report.at(f"$.tools[{at}]", spec.name, f"a tool that only {spec.dialect} can run")
    return encoded
