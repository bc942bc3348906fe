"""`reasoning_details` of a streamed answer (openrouter.ai/docs/use-cases/reasoning-tokens), put together."""

from collections.abc import Callable
from typing import Any

from ...values.folding import Recorder
from ...values.messages import Block, OpaqueBlock, ThinkingBlock
from .assistant import DETAIL_DECODERS, TEXTS, decode_detail, is_detail, joined_text, usual_repeats
from .facts import API, DETAILS, PART, PIECES, REPEATS, THOUGHTS, Compat
from .open_block import OpenBlock


class DetailReader:
    """Pieces of entries to blocks: pieces of one type and index belong together."""

    def __init__(self, record: Recorder, block: OpenBlock, open: Callable[[str, Block], None]) -> None:
        self._record = record
        self._block = block
        self._open = open
        self._keys: dict[Any, int] = {}  # of the block, by type and index of the entry
        self._wires: dict[int, dict[str, Any]] = {}  # what an entry has beside its text
        self.numbers: dict[int, int] = {}  # which of the entries a block is
        self.aliases: dict[int, list[str]] = {}  # plain fields that gave the thinking of a block
        self.repeats: set[str] = set()  # plain fields that repeat the entries
        self.repeated = ""  # the text of the entries in this chunk, if a plain field repeats it

    def read(self, detail: Any) -> None:
        """Goes on with the entry that a piece belongs to, or begins it."""
        kind = detail.get("type") if isinstance(detail, dict) else None
        if kind not in DETAIL_DECODERS:
            self._begin(OpaqueBlock(dialect=API, value={DETAILS: [detail]}))
            return
        grown = TEXTS.get(kind, "data")
        text = detail.get(grown)
        text = text if isinstance(text, str) else ""
        index = detail.get("index")
        place = (kind, index if isinstance(index, (int, str)) else None)
        key = self._keys.get(place)
        if key is not None and self._is_other(key, detail):
            key = None
        if key is None:
            if grown == "text" and self._takes_over(text):
                key = self._block.key
                self._wires[key] = {}
            else:
                key = self._begin(decode_detail({**detail, grown: ""}, len(self.numbers)))
                self._add(key, grown, text)
            self._keys[place] = key
        else:
            self._add(key, grown, text)
        known = self._wires[key]
        for name, value in detail.items():
            if name not in known or (name != grown and value):
                known[name] = value

    def _begin(self, block: Block) -> int:
        self._open(DETAILS, block)
        key = self._block.key
        self._wires[key] = {}
        self.numbers[key] = len(self.numbers)
        if isinstance(block, OpaqueBlock):
            self._record.close(key, block)
        return key

    def _add(self, key: int, grown: str, text: str) -> None:
        if grown == "data":
            self._wires[key].setdefault(PIECES, []).append(text)
        else:
            self._record.delta(key, text)

    def _is_other(self, key: int, detail: dict[str, Any]) -> bool:
        """Whether a piece begins an entry of its own although one of its type and index is known."""
        known = self._wires[key]
        given = detail.get("id")
        if given and known.get("id") and given != known["id"]:
            return True
        if detail.get("index") is None and key != self._block.key:
            return True
        return not self._record.is_open(key)

    def _takes_over(self, text: str) -> bool:
        """Whether the entry repeats the plain thinking that came just before: then that thinking is the entry."""
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
        """The block of an entry, as the whole answer would have shown it."""
        wire = {name: value for name, value in self._wires[key].items() if name != PIECES}
        grown = TEXTS.get(wire["type"], "data")
        pieces = self._wires[key].get(PIECES)
        if grown in wire and isinstance(wire[grown], str):
            wire[grown] = self._record.text(key) if pieces is None else "".join(pieces)
        return decode_detail(wire, self.numbers[key])

    def mark_repeats(self, content: tuple[Block, ...], marks: dict[str, Any], compat: Compat) -> None:
        """Notes which plain fields repeated the entries, where these are not the usual ones."""
        if not any(isinstance(content[key], ThinkingBlock) for key in self.numbers):
            return
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
