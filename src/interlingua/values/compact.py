"""Sets and maps of ids for files with millions of lines: some 12 bytes an id beside its text, instead of 100 to 200."""

from array import array
from collections.abc import Iterable
from typing import overload

_PLAIN = 1 << 16  # ids: so many are in a `dict` or a `set`, which is faster


class StringTable:
    """Numbers strings in the order in which they are added.

    From `_PLAIN` strings on, an open-addressing hash table of numbers over one buffer with all texts. `IdSet`, `IdMap`
    and `IdNumbers` share it, so that several of them store the text of an id once.
    """

    __slots__ = ("_ends", "_mask", "_plain", "_plain_texts", "_slots", "_texts")

    def __init__(self) -> None:
        self._plain: dict[str, int] | None = {}
        self._plain_texts: list[str] = []
        self._texts = bytearray()
        self._ends = array("Q", [0])
        self._slots = array("i")
        self._mask = 0

    def __len__(self) -> int:
        return len(self._ends) - 1 if self._plain is None else len(self._plain_texts)

    def find(self, text: str) -> int | None:
        """Returns the number of a string; None if it was not added."""
        if self._plain is not None:
            return self._plain.get(text)
        number = self._slot(text.encode("utf-8", "surrogatepass"))[1]
        return None if number < 0 else number

    def number(self, text: str) -> int:
        """Returns the number of a string, which is added if it is new."""
        if self._plain is not None:
            found = self._plain.setdefault(text, len(self._plain_texts))
            if found == len(self._plain_texts):
                self._plain_texts.append(text)
                if found + 1 == _PLAIN:
                    self._pack()
            return found
        raw = text.encode("utf-8", "surrogatepass")
        slot, number = self._slot(raw)
        if number >= 0:
            return number
        number = len(self._ends) - 1
        self._slots[slot] = number
        self._texts += raw
        self._ends.append(len(self._texts))
        if 2 * number > self._mask:
            self._grow(2 * len(self._slots))
        return number

    def text(self, number: int) -> str:
        if self._plain is not None:
            return self._plain_texts[number]
        return self._raw(number).decode("utf-8", "surrogatepass")

    def _raw(self, number: int) -> bytes:
        return bytes(self._texts[self._ends[number] : self._ends[number + 1]])

    def _slot(self, raw: bytes) -> tuple[int, int]:
        """Returns the slot of a text, and the number in it or -1."""
        slots, ends, texts, mask = self._slots, self._ends, self._texts, self._mask
        slot = hash(raw) & mask
        while (number := slots[slot]) >= 0:
            if texts[ends[number] : ends[number + 1]] == raw:
                return slot, number
            slot = (slot + 1) & mask
        return slot, -1

    def _pack(self) -> None:
        """Moves the texts into the buffer."""
        for text in self._plain_texts:
            self._texts += text.encode("utf-8", "surrogatepass")
            self._ends.append(len(self._texts))
        self._plain, self._plain_texts = None, []
        self._grow(4 * _PLAIN)

    def _grow(self, size: int) -> None:
        """Makes a table of so many slots: a power of two."""
        self._mask = mask = size - 1
        self._slots = slots = array("i", [-1]) * size
        for number in range(len(self)):
            slot = hash(self._raw(number)) & mask
            while slots[slot] >= 0:
                slot = (slot + 1) & mask
            slots[slot] = number


class IdSet:
    """A set of strings. None may be asked for, and added in vain."""

    __slots__ = ("_flags", "_ids", "_plain")

    def __init__(self, ids: StringTable | None = None) -> None:
        self._plain: set[str] | None = set() if ids is None else None
        self._ids = StringTable() if ids is None else ids
        self._flags = bytearray()

    def __contains__(self, text: object) -> bool:
        if not isinstance(text, str):
            return False
        if self._plain is not None:
            return text in self._plain
        number = self._ids.find(text)
        return number is not None and number < len(self._flags) and bool(self._flags[number])

    def add(self, text: str | None) -> None:
        if text is None:
            return
        if self._plain is not None:
            self._plain.add(text)
            if len(self._plain) == _PLAIN:
                self._pack(self._plain)
            return
        number = self._ids.number(text)
        if number >= len(self._flags):
            self._flags.extend(bytes(len(self._ids) - len(self._flags)))
        self._flags[number] = True

    def _pack(self, texts: set[str]) -> None:
        self._plain = None
        for text in texts:
            self.add(text)

    def discard(self, text: str | None) -> None:
        if self._plain is not None:
            self._plain.discard(text)
        elif text in self:
            self._flags[self._ids.number(str(text))] = False


class IdNumbers:
    """A map from strings to natural numbers or None."""

    __slots__ = ("_ids", "_values")

    def __init__(self, ids: StringTable | None = None) -> None:
        self._ids = StringTable() if ids is None else ids
        self._values = array("i")  # by number: 0 if there is none, 1 for None, else two more than the value

    def __contains__(self, text: object) -> bool:
        return self._stored(text) > 0

    def __getitem__(self, text: str) -> int | None:
        value = self._stored(text)
        if not value:
            raise KeyError(text)
        return value - 2 if value > 1 else None

    def get(self, text: str | None, default: int | None = None) -> int | None:
        value = self._stored(text)
        return value - 2 if value > 1 else None if value else default

    def __setitem__(self, text: str, value: int | None) -> None:
        number = self._ids.number(text)
        if number >= len(self._values):
            self._values.extend([0] * (len(self._ids) - len(self._values)))
        self._values[number] = 1 if value is None else value + 2

    def _stored(self, text: object) -> int:
        number = self._ids.find(text) if isinstance(text, str) else None
        return self._values[number] if number is not None and number < len(self._values) else 0


class IdMap:
    """A map from strings to strings."""

    __slots__ = ("_ids", "_numbers", "_plain")

    def __init__(self, ids: StringTable | None = None) -> None:
        self._plain: dict[str, str] | None = {} if ids is None else None
        if ids is not None:
            self._ids, self._numbers = ids, IdNumbers(ids)

    def __contains__(self, text: object) -> bool:
        return text in self._numbers if self._plain is None else isinstance(text, str) and text in self._plain

    def __getitem__(self, text: str) -> str:
        if self._plain is not None:
            return self._plain[text]
        number = self._numbers[text]
        assert number is not None
        return self._ids.text(number)

    @overload
    def get(self, text: str | None, default: str) -> str: ...
    @overload
    def get(self, text: str | None, default: None = None) -> str | None: ...
    def get(self, text: str | None, default: str | None = None) -> str | None:
        if self._plain is not None:
            return self._plain.get(text, default) if isinstance(text, str) else default
        number = self._numbers.get(text)
        return default if number is None else self._ids.text(number)

    def __setitem__(self, text: str, value: str) -> None:
        if self._plain is not None:
            self._plain[text] = value
            if len(self._plain) == _PLAIN:
                self._pack(self._plain)
            return
        self._numbers[text] = self._ids.number(value)

    def _pack(self, texts: dict[str, str]) -> None:
        self._plain = None
        self._ids = StringTable()
        self._numbers = IdNumbers(self._ids)
        self.update(texts.items())

    def setdefault(self, text: str, value: str) -> str:
        if text not in self:
            self[text] = value
        return self[text]

    def update(self, pairs: Iterable[tuple[str, str]]) -> None:
        for text, value in pairs:
            self[text] = value
