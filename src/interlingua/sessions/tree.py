"""The lines of a session and the tree they form: codec, kind, parent, marks. Pure.

A line is an entry of the tree (a message, a compaction, a change of model, any unknown role), or it is outside the tree
(`session`, `head`, `label`, `journal`, `branch`, `note`, `revision`). After every line the session has a head: an entry
becomes the head, a `head` line moves it to its target, a `journal` line to its `parentId`; a second `session` line
starts another conversation; other lines do not move it. An entry without `id`, or without the key `parentId`, is a
child of the head; `null` makes a root. Parents are always earlier lines, so there are no cycles.
"""

import re
from collections.abc import Callable, Iterator
from types import new_class
from typing import Any, NamedTuple, Union, get_args

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from ..values import jsontext
from ..values.canonical import SELF, dump
from ..values.errors import BadWire, FormatError
from ..values.messages import AgentMessage, CustomMessage, Message, MessageBase, Value
from ..values.request import Conversation, Entry, is_aside

ROOT = -1  # the parent of a root

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


class LineKeys(Struct, frozen=True, rename="camel"):
    """The keys of a line that determine its place."""

    role: str
    id: Any = None
    parent_id: Any = UNSET
    target: Any = UNSET


class LinePlace(NamedTuple):
    """The kind of a line and the number of its parent; outside the tree, the head after it.

    An orphan names a missing parent, and is a child of the head instead.
    """

    kind: int
    parent: int
    orphan: bool = False


_decode = msgspec.json.Decoder(LineKeys).decode


def parse_place(raw: bytes) -> LineKeys:
    """Parses the place keys of a raw line; raises FormatError if it is not a session line."""
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        value = jsontext.read(raw.removeprefix(_MARK))
    if not isinstance(value, dict) or not isinstance(value.get("role"), str):
        raise FormatError("expected an object with a `role`")
    return LineKeys(value["role"], value.get("id"), value.get("parentId", UNSET), value.get("target", UNSET))


def place(line: LineKeys, head: int, find: Callable[[str], int | None]) -> LinePlace:
    """The place of a line, given the `head` before it; `find` returns the number of an earlier entry by id."""
    kind = kind_of(line)
    if kind == SESSION:
        return LinePlace(SESSION, ROOT)
    if kind == HEAD:
        return _head(line, head, find)
    if kind < ENTRY and kind != JOURNAL:
        return LinePlace(kind, head)
    parent = find(line.parent_id) if isinstance(line.parent_id, str) else None
    if parent is not None:
        return LinePlace(kind, parent)
    if kind == JOURNAL or line.parent_id is UNSET or (line.parent_id is None and not isinstance(line.id, str)):
        return LinePlace(kind, head)
    return LinePlace(kind, ROOT) if line.parent_id is None else LinePlace(kind, head, True)


def _head(line: LineKeys, head: int, find: Callable[[str], int | None]) -> LinePlace:
    if line.target is None:
        return LinePlace(HEAD, ROOT)
    target = find(line.target) if isinstance(line.target, str) else None
    return LinePlace(HEAD, head, line.target is not UNSET) if target is None else LinePlace(HEAD, target)


def kind_of(line: LineKeys) -> int:
    """The kind of a line. Other programs use the roles `branch` and `note` for messages; ours have a `target`."""
    kind = _KINDS.get(line.role, ENTRY)
    is_ours = line.target is not UNSET and not isinstance(line.id, str)
    return ENTRY if kind in (MARK, REVISION) and not is_ours else kind


def kind_of_message(message: AgentMessage) -> int:
    """The kind of the line that a message becomes."""
    fields = message.fields if isinstance(message, CustomMessage) else {}
    return kind_of(LineKeys(message.role, fields.get("id"), None, fields.get("target", UNSET)))


def is_message(message: AgentMessage) -> bool:
    """Whether a message counts as one: a program's records and compactions are stored beside the messages."""
    return kind_of_message(message) in MESSAGES


def head_after(number: int, kind: int, parent: int) -> int:
    """The head after a line."""
    return number if kind >= ENTRY else parent


def walk(parent: Callable[[int], int], at: int) -> Iterator[int]:
    """The numbers from an entry to its root."""
    while at > ROOT:
        yield at
        at = parent(at)


def positional(number: int) -> str:
    """The name of an entry without id: its line in the file, counted from one."""
    from ..dialects.files import transcript  # on first use: a list of sessions needs no dialects

    return transcript.positional(number + 1)


def position(id: str) -> int | None:
    """The line number in a positional name; None for any other id."""
    found = _POSITIONAL.fullmatch(id)
    return int(found[1]) - 1 if found else None


def is_positional(id: object) -> bool:
    return isinstance(id, str) and position(id) is not None


# Lines outside the tree that describe its entries: labels, branches, notes, revisions.
#
#     {"role":"branch","name":…,"target":ENTRY|null,"description":…,"timestamp":…}   `deleted`: removed
#     {"role":"note","note":ID,"target":ENTRY,"text":…,"rating":-1|0|1,"by":…,"timestamp":…}   `deleted`: removed
#     {"role":"revision","target":ENTRY,"version":N,"message":{…},"parents":[…],"entryExtra":{…},"timestamp":…}
#     {"role":"head","target":ENTRY,"branch":NAME}   checks out this branch; without a name, none
#
# The log is append-only: the latest line for each name, note and entry counts.


class Branch(Value, frozen=True, kw_only=True):
    """A named head that moves with appended entries; `head` is None before the first."""

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
    """Labels, branches, notes and revisions of a session, updated line by line."""

    def __init__(self) -> None:
        self.labels: dict[str, str] = {}
        self.title: str | None = None
        self.branches: dict[str, Branch] = {}
        self.current: str | None = None  # the branch that is checked out
        self.notes: dict[str, dict[str, Note]] = {}
        self.revisions: dict[str, list[int]] = {}  # by entry, the numbers of its revisions' lines
        self.parents: dict[str, tuple[str, ...]] = {}  # by entry, further parents set by a revision
        self.extras: dict[str, dict[str, Any]] = {}  # by entry, the extra set by a revision
        self.changed: list[str] = []  # entries whose marks changed since this list was cleared

    def take(self, number: int, line: dict[str, Any]) -> None:
        """Applies the line with this number; ignores an invalid one."""
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


# --- the line codec: known roles with msgspec, all others with the transcript dialect -------------------------------

PLACES = ("id", "parentId", "parents", "entryExtra")


def _placed(message: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """The message's struct with the additional keys of a line."""
    hints = {"id": str | None, "parent_id": str | None, "parents": tuple[str, ...], "entry_extra": dict[str, Any]}
    defaults: dict[str, Any] = {"id": None, "parent_id": None, "parents": (), "entry_extra": {}}
    options = {"frozen": True, "kw_only": True, "tag_field": "role", "tag": message.__struct_config__.tag}
    body = {"__annotations__": hints, **defaults}
    return new_class(f"_{message.__name__}Line", (message,), options, lambda namespace: namespace.update(body))


_KNOWN = {_placed(message): (message, message.__struct_fields__) for message in get_args(Message)}
_decoder = msgspec.json.Decoder(Union[tuple(_KNOWN)])  # noqa: UP007


def decode_line(raw: bytes) -> Entry:
    """The entry in a raw line; raises FormatError or BadWire if it is invalid."""
    line = _usual(raw)
    if line is None:
        return _decode_slowly(raw)
    message, fields = _KNOWN[type(line)]
    made: Any = message(**{name: getattr(line, name) for name in fields})
    place = {"id": line.id, "parent_id": line.parent_id, "parents": line.parents, "extra": line.entry_extra}
    return Entry(message=made, **place)


def _usual(raw: bytes) -> Any:
    """A raw line with a message of a known role, message and place in one; None for any other."""
    if raw.count(b"[") + raw.count(b"{") > jsontext.DEPTH_LIMIT:
        return None
    try:
        return _decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _decode_slowly(raw: bytes) -> Entry:
    value = read_line(raw)
    if value.get("role") in ("head", "session"):  # the transcript dialect gives these another meaning
        return Entry(message=CustomMessage(value["role"], {k: v for k, v in value.items() if k != "role"}))  # type: ignore[arg-type]
    from ..dialects.files import transcript

    return transcript.decode_entry(value)


def read_line(raw: bytes) -> dict[str, Any]:
    """A raw line as plain JSON."""
    value = jsontext.read(raw.removeprefix(b"\xef\xbb\xbf"))
    if not isinstance(value, dict):
        raise FormatError("expected an object")
    return value


def _kept_extra(entry: Entry) -> Any:
    from ..dialects.files import transcript

    return transcript.kept_extra(entry)


def encode_line(entry: Entry, *, root: bool = False) -> bytes:
    """The line of an entry, without a newline; raises FormatError if the message uses a reserved key.

    `root` writes `parentId: null`; without the key, the entry follows the line before it.
    """
    message: AgentMessage = entry.message
    residual = message.fields if isinstance(message, CustomMessage) else message.extra.get(SELF)
    if isinstance(residual, dict) and not residual.keys().isdisjoint(PLACES):
        taken = next(key for key in PLACES if key in residual)
        raise FormatError(f"reserved key {taken!r} in a message; it stores the entry's place in the session")
    raw = dump(message)
    place: dict[str, Any] = {}
    if entry.id is not None:
        place["id"] = entry.id
    if entry.parent_id is not None or root:
        place["parentId"] = entry.parent_id
    if entry.parents:
        place["parents"] = entry.parents
    if entry.extra and (extra := _kept_extra(entry)):
        place["entryExtra"] = extra
    return b"%b,%b" % (raw[:-1], jsontext.write(place)[1:]) if place else raw


def placed(
    conversation: Conversation, new_id: Callable[[], str], names: dict[str, str | None] | None = None
) -> Iterator[Entry]:
    """The entries of a conversation with an id and a parent each; those outside the tree without an id.

    Fills `names` with the new id for each id of the conversation.
    """
    names = {} if names is None else names
    ids: list[str | None] = []  # the new id of each entry
    for entry, above in zip(conversation.entries, conversation.tree().parents, strict=True):
        parent = None if above is None else ids[above]
        if is_aside(entry):
            yield replace(entry, message=_renamed(entry.message, names), id=None, parent_id=parent)
            ids.append(parent)
        else:
            ids.append(entry.id if entry.id is not None and entry.id not in names else new_id())
            parents = tuple(known for id in entry.parents if (known := names.get(id)) is not None)
            yield replace(entry, id=ids[-1], parent_id=parent, parents=parents)
        if entry.id is not None:
            names[entry.id] = ids[-1]


def _renamed(aside: Any, names: dict[str, str | None]) -> Any:
    """A head or label line with the new id of its target."""
    target = aside.fields.get("target")
    new = names.get(target, target) if isinstance(target, str) else target
    return aside if new == target else CustomMessage(aside.role, {**aside.fields, "target": new})


def readable_line(entry: Entry) -> bytes:
    """The line of an entry; raises FormatError, with the path, if it would be unreadable once written."""
    if not isinstance(entry.message, MessageBase | CustomMessage):
        raise FormatError(f"{type(entry.message).__name__} is not a message; append a UserMessage(content=…)")
    line = encode_line(entry)
    try:
        if _usual(line) is None:
            _decode_slowly(line)
    except BadWire as error:
        raise FormatError(error.message.partition(": ")[2], error.path) from None
    return line
