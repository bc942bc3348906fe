"""Transcripts: our own session files. JSON lines, each an AgentMessage with its `id` and `parentId` beside it.

A first line of role `session` holds what the conversation is about (system text, tools, model, options); a line of role
`head` says where it stands. A line without `id`, or without the key `parentId`, follows the line before; `null` makes a
root. A line without `id` may be named by its number (`line-3`), as sessions do. Other roles are messages of their own
kind. What a format keeps of its file (`files.templates`) is a list of records: each is a line `{"role": "session",
"record": …}` behind the first, which has their number.
"""

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, get_args

import msgspec
from msgspec import UNSET, UnsetType, ValidationError, convert
from msgspec.structs import replace

from ...values import jsontext
from ...values.canonical import build, plain
from ...values.compact import IdNumbers
from ...values.errors import BadWire, FormatError
from ...values.jsontext import DEPTH_LIMIT
from ...values.losses import Encoded, Lines, SupportTable
from ...values.messages import AssistantMessage, Extra, Message, SystemMessage, ToolResultMessage, UserMessage
from ...values.request import FOLLOWS, Conversation, Entry, Placer, Problem, arrange, is_aside
from ..residual import with_residual
from ..wire import FileFormat, SessionStream
from . import templates
from .line_readers import LineReader
from .records import lines_of

API = "transcript"
VERSION = 1
SPELLED = "~version"  # what the session line had, where it is not what we would write
INLINE = "~inline"  # of a conversation: the records of its file are in the session line, as it was once written
OMITTED = "~omitted"  # of an entry: what its line leaves to its position (`id`, `parentId`)
ROOT = "~root"  # of an entry: its line says that it has no parent where that goes without saying, or is not so

FIELD_SUPPORT: SupportTable = {}  # everything is kept: the lines are our own JSON


def decode(data: Any) -> Conversation:
    """A conversation from the lines of a transcript."""
    lines = lines_of(data, API)
    base, first = _decode_first(lines)
    stands = len(lines) > first and _is_head(lines[-1])
    last = len(lines) - 1 if stands else len(lines)
    entries = tuple(decode_entry(line, number + 1) for number, line in enumerate(lines[:last]) if number >= first)
    head = lines[-1]["target"] if stands else None
    return replace(base, entries=_placed(entries, lines[first:last], first + 1, head), head=head)


def _decode_first(lines: Sequence[dict[str, Any]]) -> tuple[Conversation, int]:
    """The conversation as the first lines describe it, and their number."""
    if not lines or lines[0].get("role") != "session":
        return Conversation(), 0
    base = _decode_session(lines[0])
    last = 1 + _record_count(base)
    if not _are_records(lines[1:last], last - 1):
        return _without_records(base), 1
    return _with_records(base, lines[1:last]), last


def _without_records(base: Conversation) -> Conversation:
    """The conversation of a transcript that lacks lines."""
    owners = [owner for owner, kept in base.extra.items() if templates.line_counts({owner: kept})]
    message = f"records of the file are missing: it cannot be written as {' or '.join(owners)} again"
    return replace(base, problems=(Problem(message=message, line=1), *base.problems))


def _record_count(base: Conversation) -> int:
    """The number of records behind the session line."""
    return 0 if INLINE in base.extra.get(API, {}) else sum(templates.line_counts(base.extra))


def _are_records(lines: Iterable[Any], count: int) -> bool:
    """Whether all these lines are records, and none is missing."""
    return count == sum(1 if isinstance(line, dict) and _is_record(line) else -1 for line in lines)


def _is_record(line: dict[str, Any]) -> bool:
    return line.keys() == {"role", "record"} and line["role"] == "session"


def _with_records(base: Conversation, lines: Iterable[dict[str, Any]]) -> Conversation:
    return replace(base, extra=_joined(base.extra, lines))


def _joined(extra: Extra, lines: Iterable[dict[str, Any]]) -> Extra:
    records = (line["record"] for line in lines)

    def take(count: int, is_keyed: bool) -> Any:
        some = list(itertools.islice(records, count))
        return _fields(some) if is_keyed else some

    return templates.joined(extra, take)


def _fields(records: Iterable[Any]) -> dict[str, Any]:
    """The object whose fields are records."""
    made: dict[str, Any] = {}
    for record in records:
        if not isinstance(record, list) or len(record) != 2 or not isinstance(record[0], str):
            raise BadWire(API, "expected a key with its value in a record of an object")
        made[record[0]] = record[1]
    return made


def with_records(line: dict[str, Any], behind: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """A session line with the records in the lines behind it; as it is, if one of them is missing."""
    extra = line.get("extra")
    count = sum(templates.line_counts(extra)) if isinstance(extra, dict) else 0
    lines = list(itertools.islice(behind, count))
    return {**line, "extra": _joined(extra, lines)} if isinstance(extra, dict) and _are_records(lines, count) else line


def _decode_session(line: dict[str, Any]) -> Conversation:
    about = {key: value for key, value in line.items() if key not in ("role", "version")}
    try:
        base: Conversation = build(about, Conversation)
    except FormatError as error:
        raise BadWire(API, f"line 1: {error.message}", error.path) from None
    version = line.get("version")
    if not about or version != VERSION:
        base = with_residual(base, API, **{SPELLED: version})
    is_inline = bool(templates.apart(base.extra, templates.line_mark)[1])
    return with_residual(base, API, **{INLINE: True}) if is_inline else base


def _is_head(line: dict[str, Any]) -> bool:
    """Where the conversation stands; a `head` line that others follow is history, and stays a line of its own."""
    return line.keys() == {"role", "target"} and line["role"] == "head" and isinstance(line["target"], str)


def decode_entry(line: dict[str, Any], number: int = 1) -> Entry:
    """Decodes a line as an entry, with its own place keys."""
    place = {key: line[key] for key, kind in _PLACE.items() if isinstance(line.get(key), kind)}
    if not place.get("parents") or not all(isinstance(id, str) for id in place["parents"]):
        place.pop("parents", None)  # an empty list would not come back
    known = {**place, "parentId": None} if _has_null_parent(line) else place
    fields, role = {k: v for k, v in line.items() if k not in known}, line.get("role")
    message: Any
    try:
        message = convert(fields, _MESSAGES[role] if isinstance(role, str) else UserMessage)
    except (ValidationError, KeyError):  # not as we would write it: read again with all that is odd about it
        try:
            message = build(fields, Message)
        except FormatError as error:
            raise BadWire(API, f"line {number}: {error.message}", error.path) from None
    return Entry(
        message=message,
        id=place.get("id"),
        parent_id=place.get("parentId"),
        parents=tuple(place.get("parents", ())),
        extra=place.get("entryExtra", {}),
    )


_MESSAGES: dict[str, Any] = {str(kind.__struct_config__.tag): kind for kind in get_args(Message)}
_PLACE: dict[str, type] = {"id": str, "parentId": str, "parents": list, "entryExtra": dict}


def _has_null_parent(line: dict[str, Any]) -> bool:
    return "parentId" in line and line["parentId"] is None


def _is_root(line: dict[str, Any]) -> bool:
    return _has_null_parent(line) and isinstance(line.get("id"), str)


# --- places ----------------------------------------------------------------------------------------------------------

_REFERENCES = ("parentId", "target", "targetId", "firstKept", "firstKeptEntryId")


def positional(number: int) -> str:
    """The name of an entry whose line has no id: the line's number, counted from one."""
    return f"line-{number}"


def _placed(entries: tuple[Entry, ...], lines: list[dict[str, Any]], first: int, head: str | None) -> tuple[Entry, ...]:
    """The entries with the parents that their positions give them; `first` is the number of the first line.

    In an `Entry`, an id without a parent is a root. So one that follows the line before by its position gets that
    line's id for a parent, and a line that is named by its position gets that name for an id.
    """
    if _is_placed(entries):
        return _with_root(entries, lines[0]) if entries else entries
    bare = {positional(first + at): at for at, entry in enumerate(entries) if entry.id is None and not is_aside(entry)}
    stated = [
        entry.parent_id if entry.parent_id is not None else None if _is_root(line) else FOLLOWS
        for entry, line in zip(entries, lines, strict=True)
    ]
    tree = arrange(((e.message, e.id, parent) for e, parent in zip(entries, stated, strict=True)), head, bare)
    follows = [
        above is not None and parent is FOLLOWS and not is_aside(entry)
        for entry, parent, above in zip(entries, stated, tree.parents, strict=True)
    ]
    named = {bare[name] for name in (head or "", *_references(lines)) if name in bare}
    waiting = [*named, *(tree.parents[at] for at, entry in enumerate(entries) if entry.id is not None and follows[at])]
    while waiting:  # who has a name needs one for its parent
        at = waiting.pop()
        if at is not None and entries[at].id is None:
            named.add(at)
            waiting += [tree.parents[at]] if follows[at] and tree.parents[at] not in named else []
    ids = [positional(first + at) if at in named else entry.id for at, entry in enumerate(entries)]
    placed = []
    for at, (entry, parent) in enumerate(zip(entries, tree.parents, strict=True)):
        omitted = ["id"] if at in named else []
        if follows[at] and ids[at] is not None:
            assert parent is not None
            omitted.append("parentId")
            entry = replace(entry, parent_id=ids[parent])
        hints: dict[str, Any] = {OMITTED: omitted} if omitted else {}
        if _has_null_parent(lines[at]) and (stated[at] is FOLLOWS or tree.stands[at] is None):
            hints[ROOT] = True
        placed.append(with_residual(replace(entry, id=ids[at]), API, **hints) if hints else entry)
    return tuple(placed)


def _is_placed(entries: Sequence[Entry]) -> bool:
    """Whether every entry states its place; the first has no predecessor."""
    places = [entry.id is not None and entry.parent_id is not None for entry in entries]
    return all(places[1:]) and (not entries or entries[0].id is not None)


def _with_root(entries: tuple[Entry, ...], first: dict[str, Any]) -> tuple[Entry, ...]:
    return (with_residual(entries[0], API, **{ROOT: True}), *entries[1:]) if _has_null_parent(first) else entries


def _references(lines: list[dict[str, Any]]) -> Iterator[str]:
    for line in lines:
        for key in _REFERENCES:
            name = line.get(key)
            if isinstance(name, str) and name.startswith("line-"):
                yield name


# --- encoding --------------------------------------------------------------------------------------------------------


def encode(conversation: Conversation) -> Encoded:
    """The lines of a transcript; nothing is lost."""
    return Encoded(Lines(encode_lines(conversation, conversation.entries, lambda: conversation.head)), ())


def encode_lines(
    about: Conversation,
    entries: Iterable[Entry],
    head: Callable[[], str | None],
    places: IdNumbers | None = None,
) -> Iterator[dict[str, Any]]:
    """The lines of a transcript, one at a time; `head` is called when all entries are written.

    `places`: see `Placer`.
    """
    residual = about.extra.get(API, {})
    fields = {key: value for key, value in residual.items() if key not in (SPELLED, INLINE)}
    extra = {owner: fields if owner == API else kept for owner, kept in about.extra.items()}
    extra = {owner: kept for owner, kept in extra.items() if kept or owner != API}
    extra, lists = (extra, []) if INLINE in residual else templates.apart(extra, templates.line_mark)
    first_number = 1
    # Problems are those of the file that was read; this one has none.
    first = plain(replace(about, entries=(), head=None, problems=(), extra=extra))
    if first or SPELLED in residual:
        version = residual.get(SPELLED, VERSION)
        yield {"role": "session", **({} if version is None else {"version": version}), **first}
        first_number = 2
    for record in itertools.chain.from_iterable(lists):
        yield {"role": "session", "record": list(record) if isinstance(record, tuple) else record}
        first_number += 1
    placer = Placer(places=places)
    for number, entry in enumerate(entries, first_number):
        stand = placer.stand
        yield _encode_entry(entry, positional(number), placer.add_entry(entry), stand)
    target = head()
    if target is not None:
        yield {"role": "head", "target": target}


def _encode_entry(entry: Entry, position: str, parent: int | None, stand: int | None) -> dict[str, Any]:
    """The line of an entry that follows `parent`, where the session stands at `stand`."""
    hints = entry.extra.get(API, {}) if entry.extra else {}
    omitted = hints.get(OMITTED, ())
    line: dict[str, Any] = plain(entry.message)
    follows = parent == stand
    if entry.id is not None and not ("id" in omitted and entry.id == position and (follows or entry.parent_id)):
        line["id"] = entry.id
    if entry.parent_id is not None and not ("parentId" in omitted and follows):
        line["parentId"] = entry.parent_id
    elif ROOT in hints or (not follows and entry.id is not None and not is_aside(entry)):
        line["parentId"] = None  # without the key it would follow the line before
    if entry.parents:
        line["parents"] = list(entry.parents)
    extra = kept_extra(entry)
    if extra:
        line["entryExtra"] = extra
    return line


def kept_extra(entry: Entry) -> Extra:
    """Returns an entry's `extra` without the hints about its line."""
    return {owner: kept for owner, kept in entry.extra.items() if owner != API or not kept.keys() <= {OMITTED, ROOT}}


def detect(value: Any) -> str | None:
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return None
    if value[0].get("role") == "session":
        return "lines that begin with a `session` line"
    lines = [line for line in value if isinstance(line, dict)]
    if any(_is_head(line) or "entryExtra" in line for line in lines):
        return "messages with ids and a `head` line"
    if any(line.get("role") == "journal" and isinstance(line.get("kind"), str) for line in lines):
        return "messages and a `journal`"
    return None


# --- a whole file, at C speed ----------------------------------------------------------------------------------------


class _Place(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How a session ends its lines."""

    id: str
    parent_id: str | UnsetType = UNSET


_decode_message = msgspec.json.Decoder(Message).decode
_decode_place = msgspec.json.Decoder(_Place).decode
# Inside a text its quotes would be escaped: wherever this stands it is a key, of the line itself if only one brace
# closes after it.
_PLACE_KEY = b',"id":"'
_MISREAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def read(raws: Iterable[bytes]) -> Conversation | None:
    """What `decode` gives of the lines of a file, for one that is whole and as sessions write it; None for others."""
    entries: list[Entry] = []
    odd: dict[int, dict[str, Any]] = {}  # the lines that had to be read as values, by their place among the entries
    base, first = Conversation(), 0
    placed = True  # every line states its place, as far as it is known
    raws = iter(raws)
    try:
        opening = jsontext.read(next((raw for raw in raws if not raw.isspace()), b""), "$[0]")
        if not isinstance(opening, dict):
            return None
        if opening.get("role") == "session":
            base = _decode_session(opening)
            kept = enumerate(itertools.islice(raws, _record_count(base)), 1)
            records = [jsontext.read(raw, f"$[{at}]") for at, raw in kept]
            if not _are_records(records, _record_count(base)):
                return None
            base, first = _with_records(base, records), 1 + len(records)
        else:
            odd[0] = opening
            entries.append(decode_entry(opening))
            placed = entries[0].id is not None
        for raw in raws:
            if len(raw) <= DEPTH_LIMIT or raw.count(b"{") + raw.count(b"[") <= DEPTH_LIMIT:
                at = raw.rfind(_PLACE_KEY)
                try:
                    if at < 0:
                        entries.append(Entry(message=_decode_message(raw)))
                        placed = False
                        continue
                    place = _decode_place(b"{" + raw[at + 1 :])
                    message = _decode_message(raw[:at] + b"}")
                    parent = None if place.parent_id is UNSET else place.parent_id
                    placed = placed and parent is not None
                    entries.append(Entry(message=message, id=place.id, parent_id=parent))
                    continue
                except _MISREAD:
                    pass
            if raw.isspace():
                continue
            line = jsontext.read(raw, f"$[{first + len(entries)}]")
            if not isinstance(line, dict):
                return None
            odd[len(entries)] = line
            entries.append(decode_entry(line))
            placed = False
    except (BadWire, FormatError):
        return None
    if first + len(entries) < 2:
        return None  # one line may be anything
    head = None
    if _is_head(odd.get(len(entries) - 1, {})):
        entries.pop()
        head = odd.pop(len(entries))["target"]
    if placed or _is_placed(entries):
        return replace(base, entries=_with_root(tuple(entries), odd.get(0, {})), head=head)
    lines = [odd[at] if at in odd else _place_of(entry) for at, entry in enumerate(entries)]
    return replace(base, entries=_placed(tuple(entries), lines, first + 1, head), head=head)


def _place_of(entry: Entry) -> dict[str, Any]:
    """The fields of an entry's line that give its place."""
    return {"parentId": entry.parent_id} if entry.parent_id is not None else {}


class _Stream:
    """The entries of a transcript one at a time, if no line gets an id by its position."""

    def __init__(self, lines: Callable[[], Iterable[dict[str, Any]]], about: Conversation, first: int) -> None:
        """`first` lines are not entries, but `about`."""
        self._lines = lines
        self.about, self._first = about, first
        self.head: str | None = None
        is_placed = is_unnamed = is_first = True
        for at, (entry, line) in enumerate(self._read()):
            is_placed = is_placed and entry.id is not None and (at == 0 or entry.parent_id is not None)
            is_unnamed = is_unnamed and not _may_need_name(entry, line, is_first)
            is_first = is_first and is_aside(entry)
        self.is_regular = is_placed or (is_unnamed and not any(_references([{"target": self.head}])))

    def entries(self) -> Iterator[Entry]:
        return (entry for entry, _ in self._read())

    def _read(self) -> Iterator[tuple[Entry, dict[str, Any]]]:
        """The entries, each with its line."""
        lines = enumerate(itertools.islice(self._lines(), self._first, None), self._first + 1)
        before = next(lines, None)  # the last line may be no entry
        is_first = True  # of the tree
        stand: str | None = None  # the id of the entry that the next one follows, if it is known
        for one in itertools.chain(lines, (None,)):
            if before is None:
                return
            number, line = before
            if one is None and _is_head(line):
                self.head = line["target"]
                return
            entry = decode_entry(line, number)
            if _has_null_parent(line) and (is_first or entry.id is None):
                entry = with_residual(entry, API, **{ROOT: True})
            if not is_first and stand is not None and _follows(entry, line):
                entry = with_residual(replace(entry, parent_id=stand), API, **{OMITTED: ["parentId"]})
            yield entry, line
            if not is_aside(entry):
                is_first, stand = False, entry.id
            elif entry.parent_id is not None:
                stand = None  # a journal may move to its parent
            before = one


class _RecordStream(_Stream):
    """The same of a transcript with records."""

    def __init__(self, lines: Callable[[], Iterable[dict[str, Any]]], base: Conversation, first: int) -> None:
        self._base = base
        super().__init__(lines, base, first)
        self.about = replace(base, extra=templates.beginning(self.extra()))

    def extra(self) -> Extra:
        """That of `about`, with all records."""
        begin = 1

        def take(count: int, is_keyed: bool) -> templates.LongList:
            nonlocal begin
            place = slice(begin, begin + count)
            begin += count
            return templates.LongList(count, lambda: self._records(place, is_keyed), is_keyed=is_keyed)

        return templates.joined(self._base.extra, take)

    def _records(self, place: slice, is_keyed: bool) -> Iterator[Any]:
        records = (line["record"] for line in itertools.islice(self._lines(), place.start, place.stop))
        return (field for record in records for field in _fields([record]).items()) if is_keyed else records


def _follows(entry: Entry, line: dict[str, Any]) -> bool:
    """Whether a line with an id has its parent by its position."""
    return entry.id is not None and "parentId" not in line and not is_aside(entry)


def _may_need_name(entry: Entry, line: dict[str, Any], is_first: bool) -> bool:
    """Whether a line needs an id for its parent, names a position, or moves the head.

    `is_first`: no entry of the tree is before it.
    """
    follows = _follows(entry, line) and entry.parent_id is None
    moves = is_aside(entry) and line["role"] in ("head", "session")
    return any(_references([line])) or (not is_first and (follows or moves))


def stream(lines: Callable[[], Iterable[dict[str, Any]]]) -> SessionStream | None:
    """A transcript, one entry at a time; not one with lines that get their names from their positions."""
    line = next(iter(lines()), {})
    is_session = line.get("role") == "session"
    base = _decode_session(line) if is_session else Conversation()
    count = _record_count(base)
    has_records = count > 0 and _are_records(itertools.islice(lines(), 1, 1 + count), count)
    if count and not has_records:
        base = _without_records(base)
    found = _RecordStream(lines, base, 1 + count) if has_records else _Stream(lines, base, int(is_session))
    return found if found.is_regular else None


# --- one line at a time, at C speed ----------------------------------------------------------------------------------


class _UserLine(UserMessage, frozen=True, kw_only=True, tag_field="role", tag="user"):
    id: str | None = None
    parent_id: str | UnsetType | None = UNSET
    parents: tuple[str, ...] = ()


class _AssistantLine(AssistantMessage, frozen=True, kw_only=True, tag_field="role", tag="assistant"):
    id: str | None = None
    parent_id: str | UnsetType | None = UNSET
    parents: tuple[str, ...] = ()


class _ResultLine(ToolResultMessage, frozen=True, kw_only=True, tag_field="role", tag="toolResult"):
    id: str | None = None
    parent_id: str | UnsetType | None = UNSET
    parents: tuple[str, ...] = ()


class _SystemLine(SystemMessage, frozen=True, kw_only=True, tag_field="role", tag="system"):
    id: str | None = None
    parent_id: str | UnsetType | None = UNSET
    parents: tuple[str, ...] = ()


_line_decoder = msgspec.json.Decoder(_UserLine | _AssistantLine | _ResultLine | _SystemLine)
_line_encoder = msgspec.json.Encoder()


def copy_line(raw: bytes) -> bytes:
    """A line read and written again: known ones at C speed, others by the slow way, none changed in meaning."""
    try:
        if len(raw) <= DEPTH_LIMIT or raw.count(b"[") + raw.count(b"{") <= DEPTH_LIMIT:
            return _line_encoder.encode(_line_decoder.decode(raw))
    except _MISREAD:
        pass
    line = jsontext.read(raw)
    place = {
        key: line[key]
        for key, kind in _PLACE.items()
        if isinstance(line.get(key), kind) or (key == "parentId" and _has_null_parent(line))
    }
    return jsontext.write({**plain(decode_entry(line).message), **place})


class _LineReader(LineReader):
    """A transcript line by line; the system text of its first line is a message without a time."""

    def messages(self, line: dict[str, Any]) -> list[tuple[str, Any]]:
        is_first = not self.state.get("begun")
        self.state["begun"] = True
        if is_first and line.get("role") == "session":
            about = _decode_session(line)
            self.title = about.title
            return [("", SystemMessage(content=about.system))] if about.system else []
        entry = decode_entry(line)
        return [] if _is_head(line) or _is_record(line) else [(entry.id or "", entry.message)]


FORMAT = FileFormat(
    name="transcript",
    codec=sys.modules[__name__],
    detect=detect,
    rank=0,  # it has the records of other programs' files as they are, which their formats recognise
    lines=True,
    line_reader=lambda first, state: _LineReader(state),
    read=read,
    stream=stream,
)
