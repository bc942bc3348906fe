"""Tool calls, and which call a result answers."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from ...values.folding import arguments_text, parse_arguments
from ...values.messages import Block, OpaqueBlock, ToolCall
from ..residual import RESPONSE, put_back, residual, restored, string
from .facts import API, CUSTOM, GENERATED, OBJECT
from .parts import decode_cache, say_cache
from .sources import google_signature, signed


def decode_call(wire: Any, mint: Callable[[], str], *, answer: bool = False) -> Block:
    """One entry of `tool_calls`. In an answer, blank arguments mean none and are not sent back as they were."""
    try:
        call, marks = _read_call(wire, mint)
    except (KeyError, TypeError, ValueError, AttributeError):
        return OpaqueBlock(dialect=API, value={"tool_calls": [wire]})
    function = wire.get("function") or {}
    blank = answer and is_blank(call)
    if len(wire) == 3 and len(function) == 2 and not marks and not blank and wire.get("type") == "function":
        return call
    if not blank:
        extra_fields = residual(wire, encode_call(call))
        return replace(call, extra={API: {**extra_fields, **marks}}) if extra_fields else call
    call = replace(call, arguments_text=None)
    meant = {**wire, "function": {**function, "arguments": "{}"}}
    extra_fields = {**residual(meant, encode_call(call)), **marks, RESPONSE: residual(wire, meant)}
    return replace(call, extra={API: extra_fields})


def _read_call(wire: Any, mint: Callable[[], str]) -> tuple[ToolCall, dict[str, Any]]:
    kind, call_id, marks = wire.get("type") or "function", wire.get("id"), {}
    function = wire[kind]
    name = string(function["name"])
    if kind == "custom":  # it takes one text instead of arguments: here that is the argument `input`
        arguments, text, broken = {"input": string(function["input"])}, None, None
        marks[CUSTOM] = True
    elif kind == "function":
        arguments, text, broken, is_object = _read_arguments(function.get("arguments"))
        if is_object:
            marks[OBJECT] = True
    else:
        raise ValueError("neither a function nor a custom tool")
    if real_id(call_id) is None:
        call_id, marks[GENERATED] = mint(), True
    call = ToolCall(
        id=call_id,
        name=name,
        arguments=arguments,
        arguments_text=text,
        parse_error=broken,
        thought_signature=google_signature(wire),
        cache=decode_cache(wire),
        extra={API: marks} if marks else {},
    )
    return call, marks


def _read_arguments(given: Any) -> tuple[dict[str, Any], str | None, str | None, bool]:
    """Arguments as a ToolCall has them, and whether they came as an object: some hosts do not write them as text."""
    if given is None:
        return {}, None, None, False
    if isinstance(given, dict):
        return given, None, None, True
    return *parse_arguments(string(given)), False


def real_id(wire_id: Any) -> str | None:
    """The id, unless the wire gave none; "null" is how one SDK spells that."""
    return wire_id if isinstance(wire_id, str) and wire_id not in ("", "null") else None


def encode_call(call: ToolCall) -> dict[str, Any]:
    wire: dict[str, Any]
    if call.extra and is_custom(call):
        wire = {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments["input"]}}
    else:
        is_object = call.extra and (call.extra.get(API) or {}).get(OBJECT)
        function = {"name": call.name, "arguments": call.arguments if is_object else arguments_text(call)}
        wire = {"id": call.id, "type": "function", "function": function}
    if call.thought_signature is not None:
        wire["extra_content"] = signed(call.thought_signature)
    if call.cache is not None:
        say_cache(wire, call.cache)
    return restored(wire, call.extra, API) if call.extra else wire


def is_custom(call: ToolCall) -> bool:
    """Whether the call was one of a custom tool, and its arguments are still one text."""
    given = call.arguments
    return (
        bool((call.extra.get(API) or {}).get(CUSTOM)) and given.keys() == {"input"} and isinstance(given["input"], str)
    )


def encode_answered_call(call: ToolCall) -> dict[str, Any]:
    """A call of an answer. Clients parse the arguments, so none are said as an empty object."""
    if is_blank(call):
        call = replace(call, arguments_text=None)
    encoded = encode_call(call)
    return put_back(encoded, (call.extra.get(API) or {}).get(RESPONSE) or {}) if call.extra else encoded


def is_blank(call: ToolCall) -> bool:
    return call.arguments_text is not None and not call.arguments_text.strip()


class Pairing:
    """Which call a result answers: by id within the turn, one result for each call, else the latest call of that id.

    Calls that came without an id get one here; their results, which have none either, are paired in order.
    """

    def __init__(self, mint: Callable[[int], str] | None = None) -> None:
        self._mint = mint or _call_number
        self._generated = 0
        self._names: dict[str, str] = {}
        self._open: list[tuple[str | None, str, str]] = []  # (id on the wire, id, name) of the calls not answered yet

    def mint(self) -> str:
        self._generated += 1
        return self._mint(self._generated - 1)

    def turn(self) -> None:
        """Another assistant message begins."""
        self._open = []

    def made(self, wire_id: Any, call_id: str, name: str) -> None:
        self._open.append((real_id(wire_id), call_id, name))
        self._names[call_id] = name

    def answered(self, wire_id: Any) -> tuple[str | None, str | None]:
        """The id and the name of the call that a result with this id on the wire answers; no id where none fits."""
        wire_id = real_id(wire_id)
        for at, (known, call_id, name) in enumerate(self._open):
            if known == wire_id:
                del self._open[at]
                return call_id, name
        return wire_id, None if wire_id is None else self._names.get(wire_id)


def _call_number(n: int) -> str:
    return f"call_{n}"
