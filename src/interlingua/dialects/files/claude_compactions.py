"""Compactions in Claude Code's session files: what they kept of the messages before them, and where it stands then."""

import bisect
import itertools
import operator
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from ...values.compact import IdMap, IdNumbers, StringTable
from ...values.messages import AssistantMessage, CustomMessage
from ...values.request import Entry
from ..residual import optional
from .joining import ahead

API = "claude-code"
BOUNDARY = "compact_boundary"
_LISTED = "preservedMessages"
_CHAIN = "preservedSegment"


class Compactions:
    """The compactions of a file, as its entries are read."""

    def __init__(self) -> None:
        self.boundaries: dict[str, dict[str, Any]] = {}  # with what is stated of each compaction
        self.written: dict[str, int] = {}  # boundaries, and what kept entries follow -> the place in the file
        self._anchors: set[Any] = set()

    def note(self, entry: Entry, line: Mapping[str, Any], at: int) -> None:
        """Notes the entry of a line, the `at`-th of the file."""
        if entry.id is None:
            return
        if line.get("type") == "system" and line.get("subtype") == BOUNDARY:
            stated = line.get("compactMetadata")
            self.boundaries[entry.id] = stated = stated if isinstance(stated, dict) else {}
            self.written[entry.id] = at
            self._anchors.update(_anchor(stated.get(key)) for key in (_LISTED, _CHAIN))
        elif entry.id in self._anchors and entry.parent_id in self.boundaries:
            self.written[entry.id] = at

    @property
    def keep(self) -> bool:
        """Whether one of them may have kept something."""
        return any(_LISTED in stated or _CHAIN in stated for stated in self.boundaries.values())


def _anchor(named: Any) -> str | None:
    """The line that the first of the kept ones follows."""
    return optional(named.get("anchorUuid")) if isinstance(named, dict) else None


def renamed(entry: Entry, moved: Mapping[str, str]) -> Entry:
    """The entry; if it is a boundary, with the new ids of lines that were written anew, by their old ones."""
    message = entry.message
    if not isinstance(message, CustomMessage) or message.fields.get("subtype") != BOUNDARY:
        return entry
    return replace(entry, message=CustomMessage(message.role, _renamed(message.fields, moved)))


def _renamed(value: Any, moved: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(field, moved) for key, field in value.items()}
    if isinstance(value, list):
        return list(dict.fromkeys(moved.get(id, id) for id in value)) if _are_ids(value) else value
    return moved.get(value, value) if isinstance(value, str) else value


def _are_ids(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


class Kept:
    """What compactions kept of the entries before them: it follows the summary, and what came later follows it.

    A boundary names the kept entries (`preservedMessages`), or the first and the last of a chain (`preservedSegment`),
    and the entry that the first of them follows: the summary, or the boundary itself if the summary follows the last.
    Where it names what is not there, nothing is kept.
    """

    def __init__(
        self,
        noted: Compactions,
        entries: Iterable[Entry],
        aliases: IdMap | Mapping[str | None, str | None],
        sub_agents: Container[str],
        ids: StringTable | None = None,
    ) -> None:
        self._aliases = aliases
        self._places: IdNumbers | dict[str, int] = {} if ids is None else IdNumbers(ids)
        self._stated: IdMap | dict[str, str] = {} if ids is None else IdMap(ids)
        self._written: dict[str, Entry] = {}  # by compactions, as they are before their places
        self._given: set[str] = set()  # of these
        self._parents: dict[str, str] = {}  # of kept entries
        self._last: dict[str, str] = {}  # the last kept entry, by the entry that the first one follows
        self.ends: dict[str, str] = {}  # the same by boundary and summary: where the session stands after them
        # Of each compaction of the main thread: its place, the last kept entry, and all of them.
        self._spans: list[tuple[int, str | None, frozenset[str]]] = []
        waiting: list[Entry] = []
        at = 0
        for at, entry in enumerate(entries):
            if entry.id is None:
                continue
            self._places[entry.id] = at
            if entry.parent_id is not None:
                self._stated[entry.id] = entry.parent_id
            if entry.id in noted.written and type(entry.message) is not AssistantMessage:
                waiting.append(entry)
            elif waiting:
                self._note(waiting, noted.written, entry.id)
        self._note(waiting, noted.written, None)
        self._steps = 4 * at  # so many do all chains together have at most: files may be made to take long
        for boundary, stated in noted.boundaries.items():
            kept = self._follow(boundary, stated)
            if boundary not in sub_agents:
                self._spans.append((self._place(boundary), kept[-1] if kept else None, frozenset(kept)))
        self.last = frozenset(self._last.values())

    def _note(self, waiting: list[Entry], places: Mapping[str, int], follower: str | None) -> None:
        for entry in waiting:
            if entry.id is not None:
                self._written[entry.id] = ahead(entry, places[entry.id], follower, API)
        waiting.clear()

    def _place(self, id: str) -> int:
        place = self._places.get(id)
        return -1 if place is None else place

    def _named(self, id: Any) -> str | None:
        """The entry of the line with an id, if there is one."""
        found = self._aliases.get(id, id) if isinstance(id, str) else None
        return found if found in self._places else None

    def _follow(self, boundary: str, stated: dict[str, Any]) -> list[str]:
        """Gives the kept entries of a compaction their places, and returns them."""
        for key, find in ((_LISTED, self._listed), (_CHAIN, self._chain)):
            named = stated.get(key)
            anchor = _anchor(named)
            if anchor is None or not self._is_anchor(anchor, boundary):
                continue
            kept = find(named)
            if kept and self._in_order(kept, self._place(boundary)):
                self._parents.update(zip(kept, (anchor, *kept), strict=False))
                self._last[anchor] = self.ends[anchor] = self.ends[boundary] = kept[-1]
                return kept
        return []

    def _is_anchor(self, id: str, boundary: str) -> bool:
        """Whether kept entries may follow this one: the boundary, which begins the tree anew, or a child of it."""
        begins = boundary in self._written and boundary not in self._stated
        return begins and (id == boundary or (id in self._written and self._stated.get(id) == boundary))

    def _listed(self, named: Any) -> list[str]:
        lines = named.get("uuids")
        kept: dict[str, None] = {}
        for line in lines if isinstance(lines, list) else ():
            id = self._named(line)
            if id is None:
                return []
            kept.update(dict.fromkeys(self._entries(id)))
        return list(kept)

    def _entries(self, id: str) -> list[str]:
        """The entries of a line; it may have several messages, the last with its id."""
        others = (f"{id}#{at}" for at in itertools.count())
        return [*itertools.takewhile(self._places.__contains__, others), id]

    def _chain(self, named: Any) -> list[str]:
        first, id = self._named(named.get("headUuid")), self._named(named.get("tailUuid"))
        if first is None or id is None:
            return []
        chain: list[str] = []
        while id != first:
            chain.append(id)
            parent = self._named(self._stated.get(id))
            self._steps -= 1
            if parent is None or not self._place(first) <= self._place(parent) < self._place(id) or self._steps < 0:
                return []
            id = parent
        return [*self._entries(first), *reversed(chain)]

    def _in_order(self, kept: list[str], boundary: int) -> bool:
        """Whether each entry is before the next, and all before the boundary; what is written ahead may be later."""
        before = -1
        for id in kept:
            place = self._place(id)
            if not before < place < boundary:
                return False
            before = before if id in self._written else place
        return True

    def ordered(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """The entries, each after the one that it follows."""
        for entry in entries:
            if entry.id in self._given:
                continue
            first: list[Entry] = []
            parent = self._parents.get(entry.id) if entry.id is not None else None
            while parent in self._written and parent not in self._given:
                first.append(self._written[parent])
                self._given.add(parent)
                parent = self._parents.get(parent, self._stated.get(parent))
            yield from reversed(first)
            if entry.id in self._written:
                self._given.add(entry.id)
            yield entry

    def parent(self, id: str, stated: str | None, is_main: bool) -> str | None:
        """The entry that an entry follows; the program forgets the other entries before the compaction."""
        parent = self._parents.get(id)
        if parent is not None or stated is None:
            return parent
        at = bisect.bisect_left(self._spans, self._place(id), key=operator.itemgetter(0)) - 1
        place, last, kept = self._spans[at] if at >= 0 and is_main else (0, None, frozenset())
        if stated in kept:
            return stated
        if last is not None and 0 <= self._place(stated) < place:
            return last
        return self._last.get(stated, stated)
