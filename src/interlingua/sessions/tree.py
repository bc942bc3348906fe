"""Where the lines of a session stand. Pure: what lines say goes in, places come out.

A line is an entry of the tree (a message, a compaction, a change of model, any role that is not known here), or it
stands beside the tree (`session`, `head`, `label`, `journal`, `branch`, `note`, `revision`). After every line the
session stands at some entry: an entry moves it there, a `head` line moves it to its target, a `journal` line to the
entry at which it was written; a second `session` line begins another conversation; the others leave it. A line without
`id`, or without the key `parentId`, follows the entry at which the session stood; `null` makes a root. Parents are
always earlier lines, so no path can run in circles.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from ..dialects.files import transcript
from ..values import jsontext
from ..values.errors import FormatError
from ..values.messages import AgentMessage, CustomMessage, Value

ROOT = -1  # the parent of what has none

# Kinds of lines. From ENTRY on they are entries of the tree.
BLANK, BAD, SESSION, HEAD, LABEL, JOURNAL, MARK, REVISION = range(8)
ENTRY, USER, ASSISTANT, RESULT, SYSTEM, COMPACTION, MODEL = range(8, 15)

_KINDS = {
    "session": SESSION,
    "head": HEAD,
    "label": LABEL,
    "journal": JOURNAL,
    "branch": MARK,
    "note": MARK,
    "revision": REVISION,
    "user": USER,
    "assistant": ASSISTANT,
    "toolResult": RESULT,
    "system": SYSTEM,
    "compaction": COMPACTION,
    "model": MODEL,
}
MESSAGES = (USER, ASSISTANT, RESULT, SYSTEM)

_MARK = b"\xef\xbb\xbf"
_POSITIONAL = re.compile(r"line-([1-9][0-9]{0,9})")


class Given(Struct, frozen=True, rename="camel"):
    """What a line says about its place."""

    role: str
    id: Any = None
    parent_id: Any = UNSET
    target: Any = UNSET


class Place(NamedTuple):
    """What a line is, and the number of the entry that it follows; beside the tree, the entry the session stands at.

    An orphan named a parent that is not there, and follows the line before instead.
    """

    kind: int
    parent: int
    orphan: bool = False


_decode = msgspec.json.Decoder(Given).decode


def parse_place(raw: bytes) -> Given:
    """What a raw line says about its place; raises FormatError where it is no line of a session."""
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        value = jsontext.read(raw.removeprefix(_MARK))
    if not isinstance(value, dict) or not isinstance(value.get("role"), str):
        raise FormatError("expected an object with a `role`")
    return Given(value["role"], value.get("id"), value.get("parentId", UNSET), value.get("target", UNSET))


def place(line: Given, stand: int, find: Callable[[str], int | None]) -> Place:
    """The place of a line, when the session stood at `stand` before it; `find` gives the number of an earlier entry."""
    kind = kind_of(line)
    if kind == SESSION:
        return Place(SESSION, ROOT)
    if kind == HEAD:
        return _head(line, stand, find)
    if kind < ENTRY and kind != JOURNAL:
        return Place(kind, stand)
    parent = find(line.parent_id) if isinstance(line.parent_id, str) else None
    if parent is not None:
        return Place(kind, parent)
    if kind == JOURNAL or line.parent_id is UNSET or (line.parent_id is None and not isinstance(line.id, str)):
        return Place(kind, stand)
    return Place(kind, ROOT) if line.parent_id is None else Place(kind, stand, True)


def _head(line: Given, stand: int, find: Callable[[str], int | None]) -> Place:
    if line.target is None:
        return Place(HEAD, ROOT)
    target = find(line.target) if isinstance(line.target, str) else None
    return Place(HEAD, stand, line.target is not UNSET) if target is None else Place(HEAD, target)


def kind_of(line: Given) -> int:
    """The kind of a line. Other programs have messages of the roles `branch` and `note`: ours name a `target`."""
    kind = _KINDS.get(line.role, ENTRY)
    is_ours = line.target is not UNSET and not isinstance(line.id, str)
    return ENTRY if kind in (MARK, REVISION) and not is_ours else kind


def kind_of_message(message: AgentMessage) -> int:
    """The kind of the line that a message would be."""
    fields = message.fields if isinstance(message, CustomMessage) else {}
    return kind_of(Given(message.role, fields.get("id"), None, fields.get("target", UNSET)))


def stand_after(number: int, kind: int, parent: int) -> int:
    """Where the session stands after a line."""
    return number if kind >= ENTRY else parent


def walk(parent: Callable[[int], int], at: int) -> Iterator[int]:
    """The numbers from an entry up to its root."""
    while at > ROOT:
        yield at
        at = parent(at)


def positional(number: int) -> str:
    """The name of an entry that has no id of its own: its line in the file, counted from one."""
    return transcript.positional(number + 1)


def position(id: str) -> int | None:
    """The number in a positional name; None for any other id."""
    found = _POSITIONAL.fullmatch(id)
    return int(found[1]) - 1 if found else None


def is_positional(id: object) -> bool:
    return isinstance(id, str) and position(id) is not None


# What the lines beside the tree say of its entries: labels, branches, notes, revisions. Pure.
#
#     {"role":"branch","name":…,"target":ENTRY|null,"description":…,"timestamp":…}   `deleted`: the name is free again
#     {"role":"note","note":ID,"target":ENTRY,"text":…,"rating":-1|0|1,"by":…,"timestamp":…}   `deleted`: taken back
#     {"role":"revision","target":ENTRY,"version":N,"message":{…},"parents":[…],"entryExtra":{…},"timestamp":…}
#     {"role":"head","target":ENTRY,"branch":NAME}   the session stands on this branch; without a name, on none
#
# The log only grows: of each name, note and entry the latest line counts.


class Branch(Value, frozen=True, kw_only=True):
    """A named head. It moves with what is committed to it; `head` is None before the first commit."""

    name: str
    head: str | None = None
    description: str | None = None
    created: int | None = None


class Note(Value, frozen=True, kw_only=True):
    """A remark on an entry, or a rating of it (-1, 0, 1), or both."""

    id: str
    target: str
    text: str | None = None
    rating: int | None = None
    by: str | None = None
    timestamp: int | None = None


class Marks:
    """The marks of a session, brought up to date line by line."""

    def __init__(self) -> None:
        self.labels: dict[str, str] = {}
        self.title: str | None = None
        self.branches: dict[str, Branch] = {}
        self.current: str | None = None  # the branch on which the session stands
        self.notes: dict[str, dict[str, Note]] = {}
        self.revisions: dict[str, list[int]] = {}  # by entry, the numbers of its revisions' lines
        self.parents: dict[str, tuple[str, ...]] = {}  # by entry, further parents that a revision gave it
        self.extras: dict[str, dict[str, Any]] = {}  # by entry, the extra that a revision gave it
        self.changed: list[str] = []  # entries whose marks changed since this list was emptied

    def take(self, number: int, line: dict[str, Any]) -> None:
        """Takes in the line with this number; one that makes no sense changes nothing."""
        role, target = line.get("role"), line.get("target")
        if role == "label":
            self._label(line)
        elif role == "head":
            name = line.get("branch")
            self.current = name if isinstance(name, str) else None
        elif role == "branch":
            self._branch(line, target)
        elif role == "note" and isinstance(target, str):
            self._note(line, target)
        elif role == "revision" and isinstance(target, str) and isinstance(line.get("message"), dict):
            self.revisions.setdefault(target, []).append(number)
            parents = line.get("parents")
            if isinstance(parents, list) and all(isinstance(one, str) for one in parents):
                self.parents[target] = tuple(parents)
            if isinstance(line.get("entryExtra"), dict):
                self.extras[target] = line["entryExtra"]
        if isinstance(target, str):
            self.changed.append(target)

    def rating(self, entry: str) -> int | None:
        """The latest rating of an entry."""
        ratings = [note.rating for note in self.notes.get(entry, {}).values() if note.rating is not None]
        return ratings[-1] if ratings else None

    def _label(self, line: dict[str, Any]) -> None:
        target, label = line.get("target", line.get("targetId")), line.get("label")
        if target is None:
            self.title = label if isinstance(label, str) else None
        elif isinstance(target, str):
            self.labels.pop(target, None)
            if isinstance(label, str):
                self.labels[target] = label

    def _branch(self, line: dict[str, Any], target: Any) -> None:
        name = line.get("name")
        if not isinstance(name, str):
            return
        if line.get("deleted") is True:
            self.branches.pop(name, None)
            return
        known = self.branches.get(name) or Branch(name=name, created=_number(line.get("timestamp")))
        description = line.get("description")
        self.branches[name] = replace(
            known,
            head=target if isinstance(target, str) else None,
            description=description if isinstance(description, str) else known.description,
        )

    def _note(self, line: dict[str, Any], target: str) -> None:
        id = line.get("note")
        if not isinstance(id, str):
            return
        notes = self.notes.setdefault(target, {})
        notes.pop(id, None)
        if line.get("deleted") is not True:
            text, by = line.get("text"), line.get("by")
            notes[id] = Note(
                id=id,
                target=target,
                text=text if isinstance(text, str) else None,
                rating=_number(line.get("rating")),
                by=by if isinstance(by, str) else None,
                timestamp=_number(line.get("timestamp")),
            )


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
