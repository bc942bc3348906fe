"""Accumulators of the stream decoder: JSON values, the open block, calls, and reasoning details."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.folding import EventRecorder
from ...values.messages import Block, OpaqueBlock, ThinkingBlock, ToolCall
from ...values.text import natural
from ..residual import whole
from .content import ResultPairing, decode_call, real_id
from .facts import API, DETAILS, PART, PIECES, REPEATS, STRINGS, THOUGHTS, Compat
from .messages import TEXTS, decode_detail, is_detail, joined_text, usual_repeats

# --- JSON values in fragments ----------------------------------------------------------------------------------------

ACCUMULATING = frozenset({*STRINGS, "arguments", "input", "data", "transcript", "text", "summary"})


class Pieces(list[str]):
    """The fragments of a string."""


def merge_delta(known: dict[str, Any], delta: dict[str, Any], accumulator: Iterable[str]) -> None:
    """Merges a delta: strings under these names are appended, lists joined by `index`, other values replaced."""
    for key, value in delta.items():
        before = known.get(key)
        if isinstance(value, str) and key in accumulator and before:
            if isinstance(before, Pieces):
                before.append(value)
            else:
                known[key] = Pieces([str(before), value])
        elif isinstance(value, dict) and isinstance(before, dict):
            merge_delta(before, value, accumulator)
        elif isinstance(value, list) and isinstance(before, list):
            for item in value:
                # In deltas, entries of a list that belong together have the same `index`; those without one are
                # complete.
                index = item.get("index") if isinstance(item, dict) else None
                alike = (other for other in reversed(before) if isinstance(other, dict) and other.get("index") == index)
                found = None if index is None else next(alike, None)
                if found is None:
                    before.append(item)
                else:
                    merge_delta(found, item, accumulator)
        # Later chunks repeat fields as null or "", which must not replace the value.
        elif key not in known or (value is not None and not (value == "" and before)):
            known[key] = value


def joined(value: Any) -> Any:
    """A value with all fragments joined."""
    if isinstance(value, Pieces):
        return "".join(value)
    if isinstance(value, dict):
        return {key: joined(item) if isinstance(item, (dict, list)) else item for key, item in value.items()}
    return [joined(item) for item in value] if isinstance(value, list) else value


# --- the block that opened last --------------------------------------------------------------------------------------

# Blocks of these fields stay open while others begin.
_SIDE_BY_SIDE = ("tool_calls", "function_call", "audio")


class OpenBlock:
    """Its key (the number of blocks before it) and its track (the field of the message)."""

    __slots__ = ("_finish", "_record", "key", "track")

    def __init__(self, record: EventRecorder, finish: Callable[[int, str], Block]) -> None:
        self._record = record
        self._finish = finish
        self.key = -1
        self.track = ""

    def begin(self, track: str) -> int:
        """Closes the block unless it may stay open, and returns the key of the next."""
        self.settle()
        self.key += 1
        self.track = track
        return self.key

    def settle(self) -> None:
        if self.track and self.track not in _SIDE_BY_SIDE and self._record.is_open(self.key):
            self._record.close(self.key, self._finish(self.key, self.track))


# --- calls -----------------------------------------------------------------------------------------------------------

# The text of a custom tool is our argument `input`: the JSON around its fragments.
_TEXT_BEGINS, _TEXT_ENDS = '{"input":"', '"}'


# platform.openai.com/docs/guides/function-calling, Streaming: the first delta of a call has id and name, the others
# only its `index` and argument text. Hosts differ: no index (Mistral), the whole call in one delta (Groq, xAI,
# Mistral), an empty id in later deltas, indices from 1: so neither the index nor the number of deltas is relied on.
class CallReader:
    """Decodes the deltas of calls. A call is opened when its id and name are known and all calls before it are open."""

    def __init__(self, record: EventRecorder, block: OpenBlock, pairing: ResultPairing) -> None:
        self._record = record
        self._block = block
        self._pairing = pairing
        self._calls: list[CallAccumulator] = []
        self._by_index: dict[int, CallAccumulator] = {}
        self._opened = 0

    @property
    def is_waiting(self) -> bool:
        """Whether some calls are not open yet."""
        return self._opened < len(self._calls)

    def read(self, deltas: list[Any]) -> None:
        """Handles the calls of one chunk."""
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
                call.note(delta)
                if not isinstance(arguments, str):
                    if arguments is not None and "function" in call.wire:
                        call.wire["function"]["arguments"] = arguments
                elif arguments:
                    call.pieces.append(arguments)
                    if call.key is not None:
                        self._record.delta(call.key, _escaped(arguments) if call.is_custom() else arguments)
                if call.key is None:
                    self.open()
            touched.append(call)

    def _find(
        self, delta: dict[str, Any], function: dict[str, Any], touched: "list[CallAccumulator]"
    ) -> "CallAccumulator":
        """The call of a delta: by its index, else by its id, else the last one; or a new one."""
        index, given, name = delta.get("index"), real_id(delta.get("id")), function.get("name")
        index = natural(index) if isinstance(index, str) else whole(index)  # some hosts send a string
        call: CallAccumulator | None
        if index is not None:
            call = self._by_index.get(index)
            if call is not None and begins_another(call, given, name, function.get("arguments")):
                call = None
        elif given is not None:
            call = next((known for known in self._calls if known.id == given), None)
            if call in touched and name:
                call = None  # a whole answer instead of a stream, whose calls share an id
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
        # A name comes whole: hosts that repeat it in each delta would multiply it if it were appended.
        if name and (call.name is None or not call.pieces):
            call.name = name
        return call

    def open(self, *, all_of_them: bool = False) -> None:
        """Opens calls in order. At the end, a call without an id gets a generated one."""
        while self._opened < len(self._calls):
            call = self._calls[self._opened]
            if not (all_of_them or (call.id and call.name)):
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
        """Opens and closes all calls."""
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
    """The deltas of one call so far."""

    __slots__ = ("id", "key", "name", "pieces", "wire")

    def __init__(self) -> None:
        self.wire: dict[str, Any] = {}
        self.pieces: list[str] = []
        self.key: int | None = None
        self.id: str | None = None
        self.name: str | None = None

    def is_custom(self) -> bool:
        return "custom" in self.wire

    def note(self, delta: dict[str, Any]) -> None:
        """Records the fields of a delta beside argument text. Names are replaced, not appended; blanks are ignored."""
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
        """The call as known at its start, without arguments."""
        if self.is_custom():
            return {**self.wire, "custom": {**self.wire["custom"], "input": ""}}
        return {**self.wire, "function": {**self.wire["function"], "arguments": "{}"}}

    def whole(self) -> dict[str, Any]:
        """The call as in a whole answer."""
        for kind, field in (("function", "arguments"), ("custom", "input")):
            if kind in self.wire and self.pieces:
                return {**self.wire, kind: {**self.wire[kind], field: "".join(self.pieces)}}
        return self.wire


def begins_another(call: CallAccumulator, text: str | None, name: Any, arguments: Any) -> bool:
    """Whether a delta with a known index begins another call: some hosts reuse an index.

    It does with another id and a name, or no other field; another id with arguments only is a host that changes ids.
    """
    if text is not None and call.id is not None and text != call.id:
        return bool(name) or not arguments
    return text is None and bool(name and call.name and name != call.name and call.pieces)


# --- `reasoning_details`: openrouter.ai/docs/use-cases/reasoning-tokens ----------------------------------------------


class DetailReader:
    """Decodes the deltas of entries: those with the same type and index belong together."""

    def __init__(self, record: EventRecorder, block: OpenBlock, open: Callable[[str, Block], None]) -> None:
        self._record = record
        self._block = block
        self._open = open
        self._keys: dict[Any, int] = {}  # key of the block, by type and index of the entry
        self._wires: dict[int, dict[str, Any]] = {}  # fields of an entry beside its text
        self.numbers: dict[int, int] = {}  # number of the entry of a block
        self.aliases: dict[int, list[str]] = {}  # plain fields with the thinking of a block
        self.repeats: set[str] = set()  # plain fields that repeat the entries
        self.repeated = ""  # the text of the entries in this chunk, if a plain field repeats it

    def read(self, detail: Any) -> None:
        """Handles one delta of an entry."""
        kind = detail.get("type") if isinstance(detail, dict) else None
        if kind not in TEXTS:
            self._begin(OpaqueBlock(dialect=API, value={DETAILS: [detail]}))
            return
        field = TEXTS[kind]
        text = detail.get(field)
        text = text if isinstance(text, str) else ""
        index = detail.get("index")
        place = (kind, index if isinstance(index, (int, str)) else None)
        key = self._keys.get(place)
        if key is not None and self._is_other(key, detail):
            key = None
        if key is None:
            if field == "text" and self._takes_over(text):
                key = self._block.key
                self._wires[key] = {}
            else:
                key = self._begin(decode_detail({**detail, field: ""}, len(self.numbers)))
                self._add(key, field, text)
            self._keys[place] = key
        else:
            self._add(key, field, text)
        known = self._wires[key]
        for name, value in detail.items():
            if name not in known or (name != field and value):
                known[name] = value

    def _begin(self, block: Block) -> int:
        self._open(DETAILS, block)
        key = self._block.key
        self._wires[key] = {}
        self.numbers[key] = len(self.numbers)
        if isinstance(block, OpaqueBlock):
            self._record.close(key, block)
        return key

    def _add(self, key: int, field: str, text: str) -> None:
        if field == "data":
            self._wires[key].setdefault(PIECES, []).append(text)
        else:
            self._record.delta(key, text)

    def _is_other(self, key: int, detail: dict[str, Any]) -> bool:
        """Whether a delta begins another entry although its type and index are known."""
        known = self._wires[key]
        given = detail.get("id")
        if given and known.get("id") and given != known["id"]:
            return True
        if detail.get("index") is None and key != self._block.key:
            return True
        return not self._record.is_open(key)

    def _takes_over(self, text: str) -> bool:
        """Whether the entry repeats the plain thinking just before it: then they are one block."""
        block = self._block
        if not text or text == self.repeated or block.track not in THOUGHTS or not self._record.is_open(block.key):
            return False
        if self._record.text(block.key) != text:
            return False
        self.repeats.update(self.aliases.pop(block.key, [block.track]))
        self.numbers[block.key] = len(self.numbers)
        block.track = DETAILS
        return True

    def finished(self, key: int) -> Block:
        """The block of an entry, decoded as in a whole answer."""
        wire = {name: value for name, value in self._wires[key].items() if name != PIECES}
        field = TEXTS[wire["type"]]
        pieces = self._wires[key].get(PIECES)
        if field in wire and isinstance(wire[field], str):
            wire[field] = self._record.text(key) if pieces is None else "".join(pieces)
        return decode_detail(wire, self.numbers[key])

    def mark_repeats(self, content: tuple[Block, ...], marks: dict[str, Any], compat: Compat) -> None:
        """Adds the hint about plain fields that repeat the entries, if they are not the default ones."""
        text = joined_text(content[key] for key in self.numbers)
        plain = any(
            isinstance(block, ThinkingBlock)
            and not is_detail(block)
            and not (block.extra.get(API) or {}).get(PART)  # a part of `content`
            for block in content
        )
        repeats = [name for name in THOUGHTS if name in self.repeats]
        if text and not plain and repeats != usual_repeats(False, compat, answer=True):
            marks[REPEATS] = repeats
