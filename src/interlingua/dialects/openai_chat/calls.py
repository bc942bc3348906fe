"""The calls of a streamed answer, put together from their deltas."""

from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.folding import Recorder
from ...values.messages import Block, OpaqueBlock, ToolCall
from ..residual import whole
from .content import Pairing, decode_call, real_id
from .facts import API
from .open_block import OpenBlock

# The text for a custom tool is, here, the argument `input`; this is how it is written piece by piece.
_TEXT_BEGINS, _TEXT_ENDS = '{"input":"', '"}'


class CallReader:
    """Deltas of calls to blocks. A call opens when its id and name are known and all calls before it are open."""

    def __init__(self, record: Recorder, block: OpenBlock, pairing: Pairing) -> None:
        self._record = record
        self._block = block
        self._pairing = pairing
        self._calls: list[CallAccumulator] = []
        self._by_index: dict[int, CallAccumulator] = {}
        self._opened = 0

    @property
    def is_waiting(self) -> bool:
        """Whether calls have come that are not open yet."""
        return self._opened < len(self._calls)

    def read(self, deltas: list[Any]) -> None:
        """Goes on with the calls of one chunk, or begins them."""
        touched: list[CallAccumulator] = []  # in this chunk
        for delta in deltas:
            function = delta.get("function") or {}
            arguments = function.get("arguments")
            call = self._by_index.get(delta.get("index"))
            if arguments.__class__ is str and call and call.key is not None and len(delta) == 2 and len(function) == 1:
                call.pieces.append(arguments)
                self._record.delta(call.key, arguments)
            else:
                custom = delta.get("custom")
                if isinstance(custom, dict):
                    function, arguments = custom, custom.get("input")
                call = self._find(delta, function, touched)
                self._read_one(call, delta, arguments)
            touched.append(call)

    def _read_one(self, call: "CallAccumulator", delta: dict[str, Any], arguments: Any) -> None:
        call.note(delta)
        if isinstance(arguments, str):
            if arguments:
                call.pieces.append(arguments)
                if call.key is not None:
                    self._record.delta(call.key, _escaped(arguments) if call.is_custom() else arguments)
        elif arguments is not None and "function" in call.wire:
            call.wire["function"]["arguments"] = arguments
        if call.key is None:
            self.open()

    def _find(
        self, delta: dict[str, Any], function: dict[str, Any], touched: "list[CallAccumulator]"
    ) -> "CallAccumulator":
        """The call that a delta goes on with: by its index, else its id, else the last; or a new one."""
        index, given, name = index_of(delta.get("index")), real_id(delta.get("id")), function.get("name")
        call: CallAccumulator | None
        if index is not None:
            call = self._by_index.get(index)
            if call is not None and begins_another(call, given, name, function.get("arguments")):
                call = None
        elif given is not None:
            call = next((known for known in self._calls if known.id == given), None)
            if call in touched and name:
                call = None  # a whole answer in place of a stream, whose calls share an id
        else:
            call = self._calls[-1] if self._calls else None
            if call is not None and name and call.name and (name != call.name or call in touched):
                call = None
        if call is None:
            call = CallAccumulator()
            self._calls.append(call)
            if index is not None:
                self._by_index[index] = call
        call.id = call.id or given
        if name and (call.name is None or not call.pieces):
            call.name = name
        return call

    def open(self, *, all_of_them: bool = False) -> None:
        """Opens the calls whose turn it is. At the end, one that never got an id is given one."""
        while self._opened < len(self._calls):
            call = self._calls[self._opened]
            if not (all_of_them or call.is_known()):
                return
            self._opened += 1
            call.key = self._block.begin("tool_calls")
            if not call.name:
                self._record.open(call.key, OpaqueBlock(dialect=API, value={"tool_calls": [call.wire]}))
                continue
            call.id = call.id or self._pairing.mint()
            block, text = _finished(call, call.known()), "".join(call.pieces)
            if isinstance(block, ToolCall):
                block = replace(block, arguments={})
            self._record.open(call.key, block)
            self._record.delta(call.key, _TEXT_BEGINS + _escaped(text) if call.is_custom() else text)

    def close(self) -> None:
        """Opens and ends all calls."""
        self.open(all_of_them=True)
        for call in self._calls:
            if call.key is not None:
                if call.is_custom() and self._record.is_open(call.key):
                    self._record.delta(call.key, _TEXT_ENDS)
                self._record.close(call.key, _finished(call, call.whole()))


def _finished(call: "CallAccumulator", wire: dict[str, Any]) -> Block:
    return decode_call(wire, lambda: call.id or "", answer=True)


def _escaped(text: str) -> str:
    return jsontext.compact(text)[1:-1]


class CallAccumulator:
    """A call under way: what its deltas have given so far."""

    __slots__ = ("id", "key", "name", "pieces", "wire")

    def __init__(self) -> None:
        self.wire: dict[str, Any] = {}
        self.pieces: list[str] = []
        self.key: int | None = None
        self.id: str | None = None
        self.name: str | None = None

    def is_known(self) -> bool:
        return self.key is None and bool(self.id and self.name)

    def is_custom(self) -> bool:
        return "custom" in self.wire

    def note(self, delta: dict[str, Any]) -> None:
        """Records the fields of a delta beside argument text. Names are set, not appended; a blank clears nothing."""
        for key, value in delta.items():
            if key == "function" or key == "custom":
                inner = self.wire.setdefault(key, {})
                for name, given in (value or {}).items():
                    if name not in inner or (given and name not in ("arguments", "input")):
                        inner[name] = given
                if self.name:
                    inner["name"] = self.name
            elif key == "id":
                self.wire[key] = self.id or value
            elif key != "index" and (key not in self.wire or value):
                self.wire[key] = value

    def known(self) -> dict[str, Any]:
        """The call as far as it is known when it opens, its arguments yet to come."""
        if self.is_custom():
            return {**self.wire, "custom": {**self.wire["custom"], "input": ""}}
        return {**self.wire, "function": {**self.wire["function"], "arguments": "{}"}}

    def whole(self) -> dict[str, Any]:
        """The call as a whole answer would show it."""
        for kind, grown in (("function", "arguments"), ("custom", "input")):
            if kind in self.wire and self.pieces:
                return {**self.wire, kind: {**self.wire[kind], grown: "".join(self.pieces)}}
        return self.wire


def index_of(given: Any) -> int | None:
    """The number of a call: some hosts spell it as a string."""
    if isinstance(given, str) and given.isdecimal():
        return int(given)
    return whole(given)


def begins_another(call: CallAccumulator, text: str | None, name: Any, arguments: Any) -> bool:
    """Whether a delta for a known number begins another call: hosts give one number to several calls.

    Another id with a name, or with nothing else, does; another id with arguments alone is a host that changes ids.
    """
    if text is not None and call.id is not None and text != call.id:
        return bool(name) or not arguments
    return text is None and bool(name and call.name and name != call.name and call.pieces)
