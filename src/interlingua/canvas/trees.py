"""An open session as the page sees it: one tree, with rows numbered in order of arrival.

A session that could not be written continues in linked forks; their entries are rows of the same tree. Only the
position of the parts is in memory: rows are built from the log on demand. All methods block: use threads.
"""

import base64
import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from ..conversion.resizing import look
from ..conversion.subagents import origin_of
from ..dialects import FORMATS
from ..serving.problems import HttpProblem
from ..sessions import Branch, Session, SessionNotFound, compaction
from ..sessions import Note as StoredNote
from ..sessions.reader import Line
from ..sessions.tree import BAD, ENTRY, JOURNAL
from ..values import jsontext
from ..values.errors import InterlinguaError
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    AudioBlock,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    ServerToolCall,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
    error_beside,
)
from ..values.request import Context, Entry, ModelDescriptor, Request
from .library import Library, SessionPlace
from .shapes import (
    AnsweredCall,
    BranchView,
    CallRow,
    EntryView,
    LineProblem,
    NoteView,
    Row,
    RowUsage,
    TextPart,
    Version,
)
from .views import MediaData, block_text, message_view, pretty, raw_of

# --- rows ------------------------------------------------------------------------------------------------------------
#
# An entry as a row of the tree: the data for a card, an outline line or a dot on the map. Pure.


TEXT_SHOWN = 160
ARGUMENT_SHOWN = 120
_SCANNED = 4 * TEXT_SHOWN  # characters of a text that are searched for its first line: most of it may be blank
# Fields of custom messages that may be shown for them, and those that hold another record.
_CUSTOM_TEXTS = ("summary", "text", "content", "message", "model")
_CUSTOM_WRAPPERS = ("payload", "data", "message")
# The most descriptive argument of a call, by common names.
DESCRIPTIVE = (
    "command",
    "cmd",
    "pattern",
    "query",
    "path",
    "file_path",
    "filePath",
    "url",
    "prompt",
    "description",
    "name",
)


def row_of(entry: Entry, seq: int, **more: Any) -> Row:
    """Returns the row of an entry; `more` holds what only its session knows (label, notes, duration, …)."""
    message: AgentMessage = entry.message
    place = {"seq": seq, "id": entry.id or "", "parent": entry.parent_id, "parents": getattr(entry, "parents", ())}
    caller = (origin_of(entry) or {}).get("entry")
    if isinstance(caller, str):  # the sub-agent's own conversation begins here
        place |= {"parent": None, "caller": caller}
    match message:
        case AssistantMessage():
            fields = _answer(message)
        case ToolResultMessage():
            fields = {"role": "toolResult", "call": _answered(message), "at": message.timestamp}
        case UserMessage() | SystemMessage():
            fields = {"role": message.role, "at": message.timestamp, "origin": getattr(message, "origin", None)}
        case CustomMessage():
            return Row(**{**place, **_custom(message), **more})
    return Row(**{**place, **fields, **_content(message.content), **more})


def _answer(message: AssistantMessage) -> dict[str, Any]:
    usage = message.usage
    return {
        "role": "assistant",
        "at": message.timestamp,
        "model": message.model,
        "provider": message.provider,
        "stop": message.stop_reason,
        "stop_detail": message.stop_detail if message.stop_detail != message.stop_reason else None,
        "error": _line(error_beside(message) or "", 400) if message.error_message else None,
        "usage": None
        if usage is None
        else RowUsage(
            input=usage.input,
            output=usage.output,
            cache_read=usage.cache_read,
            cache_write=usage.cache_write,
            total=usage.total_tokens,
            reasoning=usage.reasoning,
        ),
        "cost": usage.cost.total if usage is not None and usage.cost is not None else None,
    }


def _answered(message: ToolResultMessage) -> AnsweredCall:
    return AnsweredCall(id=message.tool_call_id, name=message.tool_name, error=message.is_error)


def _custom_text(fields: Mapping[str, Any]) -> str:
    """The text that stands for a custom message: a known field, else that of what it wraps, else its type."""
    for key in _CUSTOM_TEXTS:
        if isinstance(fields.get(key), str):
            return str(fields[key])
    for key in _CUSTOM_WRAPPERS:
        if isinstance(fields.get(key), dict) and (found := _custom_text(fields[key])):
            return found
    kind = fields.get("type")
    return kind if isinstance(kind, str) else ""


def _custom(message: CustomMessage) -> dict[str, Any]:
    fields = message.fields
    given = _custom_text(fields)
    at = fields.get("timestamp")
    return {
        "role": message.role,
        "text": _line(given, TEXT_SHOWN),
        "chars": len(given) if len(given) > TEXT_SHOWN else None,
        "at": at if isinstance(at, int) else None,
        "model": fields["model"] if message.role == "model" and isinstance(fields.get("model"), str) else None,
    }


_COUNTED = {ThinkingBlock: "thinking", ImageBlock: "images", DocumentBlock: "files", AudioBlock: "audio"}


def _content(content: Any) -> dict[str, Any]:
    counts: dict[str, int] = {}
    calls: list[CallRow] = []
    text, length = "", 0
    for block in blocks_of(content):
        match block:
            case TextBlock():
                length += len(block.text)
                if len(text) < TEXT_SHOWN:
                    text = f"{text} {_line(block.text, TEXT_SHOWN)}".strip()
            case ToolCall():
                bad = block.parse_error is not None
                about = block.arguments_text if bad else main_argument(block.arguments)
                calls.append(CallRow(id=block.id, name=block.name, arg=_line(about, ARGUMENT_SHOWN) or None, bad=bad))
            case ServerToolCall():
                given = _line(main_argument(block.arguments), ARGUMENT_SHOWN) or None
                calls.append(CallRow(id=block.id, name=block.name, arg=given, server=True))
            case OpaqueBlock():
                counts["opaque"] = counts.get("opaque", 0) + 1
            case _:
                name = _COUNTED.get(type(block))
                if name is not None:
                    counts[name] = counts.get(name, 0) + 1
    cut = _line(text, TEXT_SHOWN)
    return {"text": cut, "chars": length if length > len(cut) else None, "calls": tuple(calls), **counts}


def main_argument(arguments: Any) -> str:
    """Returns the most descriptive argument of a call: by its name, else the first text."""
    if not isinstance(arguments, Mapping):
        return arguments if isinstance(arguments, str) else ""
    named = next((arguments[key] for key in DESCRIPTIVE if isinstance(arguments.get(key), str)), None)
    return named if named is not None else next((value for value in arguments.values() if isinstance(value, str)), "")


def _line(text: str | None, max_length: int) -> str:
    """Returns the beginning of a text in one line."""
    line = " ".join((text or "")[: max(_SCANNED, max_length)].split())
    return line if len(line) <= max_length else f"{line[: max_length - 1]}…"


# --- trees -----------------------------------------------------------------------------------------------------------


LOOKED_BACK = 64  # lines before a page that are searched for the start of its calls


class TreePart(NamedTuple):
    """A session of the tree: its own entries begin at line `first`."""

    key: str | None  # None for the session itself
    session: Session
    first: int


class RowSpan(NamedTuple):
    """Lines `first` to `first + size` of a part, as rows from `start` on."""

    start: int
    part: int
    first: int
    size: int


class Tree:
    """One session and its linked forks, open for reading."""

    def __init__(self, library: Library, place: SessionPlace) -> None:
        self._library = library
        self.place = place
        self._lock = threading.RLock()
        self._parts: list[TreePart] = [TreePart(None, library.open(place), 0)]
        self._spans: list[RowSpan] = []
        self._generation = 0
        self._measured: dict[str, MediaData | None] = {}
        self._spawned: dict[str, list[str]] = {}
        self.refresh()

    @property
    def session(self) -> Session:
        return self._parts[0].session

    @property
    def sessions(self) -> list[Session]:
        """The session, then its linked forks."""
        return [part.session for part in self._parts]

    @property
    def total(self) -> int:
        """The number of the next row."""
        return self._spans[-1].start + self._spans[-1].size if self._spans else 0

    def close(self) -> None:
        with self._lock:
            for part in self._parts:
                part.session.close()

    # --- growth ------------------------------------------------------------------------------------------------------

    def link(self, key: str, place: SessionPlace) -> bool:
        """Adds a linked fork to the tree; False if it is part of it already."""
        with self._lock:
            if any(part.key == key for part in self._parts):
                return False
            session = self._library.open(place)
            origin = session.about.get("forkedFrom")
            entry = origin.get("entry") if isinstance(origin, dict) else None
            try:
                first = session.line_of(entry) + 1 if isinstance(entry, str) else 0
            except SessionNotFound:
                first = 0
            self._parts.append(TreePart(key, session, first))
            return True

    def refresh(self) -> bool:
        """Reads new lines; False if the log was replaced, which invalidates row numbers."""
        with self._lock:
            for at, part in enumerate(self._parts):
                part.session.refresh()
                counted = sum(span.size for span in self._spans if span.part == at)
                fresh = part.session.line_count - part.first - counted
                if fresh < 0:
                    return False
                if fresh:
                    self._extend_part(at, part.first + counted, fresh)
            generation = sum(part.session.generation for part in self._parts)
            is_same, self._generation = generation == self._generation or not self._generation, generation
            return is_same or generation == 0

    def _extend_part(self, part: int, first: int, count: int) -> None:
        last = self._spans[-1] if self._spans else None
        if last is not None and last.part == part:
            self._spans[-1] = last._replace(size=last.size + count)
        else:
            self._spans.append(RowSpan(self.total, part, first, count))

    # --- rows --------------------------------------------------------------------------------------------------------

    def rows(self, since: int, limit: int) -> list[Row]:
        """Returns the rows of `limit` lines from `since` on; lines outside the tree have no row."""
        with self._lock:
            rows: list[Row] = []
            for span in self._spans:
                begin = max(since, span.start)
                end = min(since + limit, span.start + span.size)
                if begin < end:
                    rows += self._rows_of(span, begin, end - begin)
            return rows

    def _rows_of(self, span: RowSpan, since: int, count: int) -> Iterator[Row]:
        part = self._parts[span.part]
        first = span.first + since - span.start
        maker = _RowMaker(part, self.place, self._spawned)
        back = max(part.first, first - LOOKED_BACK)
        for line in part.session.lines(back, first - back):
            maker.note(line)
        for line in part.session.lines(first, count):
            row = maker.row(line, since + line.number - first)
            if row is not None:
                yield row

    def path_rows(self, to: str | None, last: int) -> list[Row]:
        """Returns the rows of the end of a path."""
        with self._lock:
            if to is None and self.head() is None:
                return []
            at = 0 if to is None else self._find(to)[0]
            part = self._parts[at]
            numbers = part.session.path_lines(to=to, last=last)
            maker = _RowMaker(part, self.place, self._spawned)
            rows, before = [], -1
            for number in numbers:
                back = max(before + 1, number - LOOKED_BACK)
                for line in part.session.lines(back, number - back):
                    maker.note(line)
                seq = self._seq(at, number)
                rows += [row for line in part.session.lines(number, 1) if (row := maker.row(line, seq)) is not None]
                before = number
            return rows

    def _span(self, part: int, number: int) -> RowSpan | None:
        """Returns the span of a part's line; None for the lines that a fork shares with its origin."""
        for span in self._spans:
            if span.part == part and span.first <= number < span.first + span.size:
                return span
        return None

    def _seq(self, part: int, number: int) -> int:
        span = self._span(part, number)
        return number if span is None else span.start + number - span.first

    def row(self, id: str) -> Row:
        """The row of one entry."""
        with self._lock:
            part, number = self._find(id)
            span = self._span(part, number)
            if span is not None and (found := list(self._rows_of(span, span.start + number - span.first, 1))):
                return found[0]
            raise _no_entry(id)

    # --- entries -----------------------------------------------------------------------------------------------------

    def _find(self, id: str) -> tuple[int, int]:
        """The part that an entry belongs to, and its line there."""
        for at, part in enumerate(self._parts):
            try:
                number = part.session.line_of(id)
            except SessionNotFound:
                continue
            if number >= part.first:
                return at, number
        raise _no_entry(id)

    def session_at(self, id: str | None) -> Session:
        """Returns the session in which the path to an entry is complete."""
        return self.session if id is None else self._parts[self._find(id)[0]].session

    def key_at(self, id: str | None) -> str:
        """Returns the key of the session in which an entry is stored."""
        part = 0 if id is None else self._find(id)[0]
        return self._parts[part].key or self.place.key

    def entry(self, id: str) -> Entry:
        """Returns an entry with large media as URLs."""
        return self.session_at(id).entry(id, media=False)

    def path(self, to: str | None, last: int | None = None) -> tuple[Entry, ...]:
        return self.session_at(to).path(to=to, last=last)

    def view(self, entry: Entry) -> EntryView:
        """Returns an entry as the page shows it."""
        id = entry.id or ""
        session = self.session_at(id)
        address = f"?in={quote(self.place.key, safe='~')}/{quote(id, safe='')}"
        return EntryView(
            id=id,
            parent=entry.parent_id,
            version=session.version(id),
            message=message_view(entry.message, address, lambda name: self._measure(session, name)),
            notes=tuple(map(note_view, session.notes(id))),
        )

    def versions(self, id: str) -> tuple[Version, ...]:
        session = self.session_at(id)
        address = f"?in={quote(self.place.key, safe='~')}/{quote(id, safe='')}"
        return tuple(
            Version(version=at, message=message_view(message, address, lambda name: self._measure(session, name)))
            for at, message in enumerate(session.versions(id))
        )

    def text(self, id: str, block: int, offset: int, limit: int) -> TextPart:
        """Returns a part of a block's text."""
        message: AgentMessage = self.entry(id).message
        if isinstance(message, CustomMessage):
            text = pretty(message.fields)
        else:
            blocks = blocks_of(message.content)
            if not 0 <= block < len(blocks):
                raise HttpProblem(404, f"{id!r} has no block {block}", code="entry_not_found", path="query.block")
            text = block_text(blocks[block])
        return TextPart(text=text[offset : offset + limit], offset=offset, total=len(text))

    def raw(self, id: str, offset: int, limit: int) -> TextPart:
        """Returns a part of an entry's line, indented."""
        part, number = self._find(id)
        raw = self._parts[part].session.raw(number)
        try:
            text = pretty(jsontext.read(raw.removeprefix(b"\xef\xbb\xbf")))
        except InterlinguaError:
            text = raw.decode("utf-8", "replace")
        return TextPart(text=text[offset : offset + limit], offset=offset, total=len(text), line=number + 1)

    def blob(self, id: str, sha256: str) -> tuple[bytes, str | None] | None:
        """Returns the data with this hash in an entry (or in one of its versions), and its media type."""
        session = self.session_at(id)
        for message in reversed(session.versions(id)):
            if isinstance(message, CustomMessage):
                continue
            for block in blocks_of(message.content):
                found = _data_of(block, sha256)
                if found is not None:
                    return found, getattr(block, "mime_type", None)
        return None

    def _measure(self, session: Session, name: str) -> MediaData | None:
        """Returns size and pixels of a blob, read once."""
        if name not in self._measured:
            data = session.blob(name)
            picture = look(base64.b64encode(data[: 48 * 1024]).decode()) if data is not None else None
            width, height = (picture.width, picture.height) if picture is not None else (0, 0)
            self._measured[name] = None if data is None else MediaData(name, len(data), width, height)
        return self._measured[name]

    # --- what a model reads ------------------------------------------------------------------------------------------

    def request(self, to: str | None, model: ModelDescriptor | None = None) -> Request:
        """Returns the request at an entry: the conversation up to there, after compaction."""
        return self.request_with_entries(to, model)[0]

    def request_with_entries(
        self, to: str | None, model: ModelDescriptor | None = None
    ) -> tuple[Request, list[str | None]]:
        """Returns the request at an entry, and the entry of each of its messages; None for a summary's."""
        request, ids, _ = self.last_of_request(to, None, model)
        return request, ids

    def last_of_request(
        self, to: str | None, last: int | None, model: ModelDescriptor | None = None
    ) -> tuple[Request, list[str | None], bool]:
        """Returns a request as `request_with_entries` does, and whether earlier messages were left out.

        With `last`, it has at most as many messages: from a user's on, so that no result is without its call.
        """
        session = self.session_at(to)
        entries = session.context_entries(to=to, last=None if last is None else last + 1)
        is_partial = last is not None and len(entries) > last
        request, ids = self.request_of(
            from_user(entries[1:]) if is_partial else entries, session, model or session.base.model or session.model
        )
        return request, ids, is_partial

    def request_of(
        self, entries: Sequence[Entry], session: Session, model: ModelDescriptor | None
    ) -> tuple[Request, list[str | None]]:
        """Returns the request for the end of a path."""
        base = session.base
        read = compaction.context_pairs(entries)
        request = Request(
            model=model or ModelDescriptor(id=""),
            context=Context(
                system=base.system,
                messages=tuple(message for _, message in read),  # type: ignore[misc]
                tools=base.tools,
                system_role=base.system_role,
                extra=base.extra.get("context", {}),
            ),
            options=base.options,
            extra={key: value for key, value in base.extra.items() if key != "context"},
        )
        return request, [id for id, _ in read]

    # --- beside the tree ---------------------------------------------------------------------------------------------

    def head(self) -> str | None:
        return self.session.head

    def branches(self) -> tuple[BranchView, ...]:
        """Named branches of the session and its linked forks."""
        views: dict[str, BranchView] = {}
        for part in self._parts:
            current = part.session.current_branch
            for branch in part.session.branches().values():
                views.setdefault(branch.name, branch_view(branch, part.key is None and branch.name == current))
        return tuple(views.values())

    def problems(self) -> tuple[LineProblem, ...]:
        """Returns the problems of the stored lines, each with the entry that it follows."""
        place = self._library.current(self.place)
        noted = [LineProblem(line=note.line, message=note.message) for note in place.problems]
        found = [
            LineProblem(line=problem.line, message=problem.message, after=self._before(problem.line))
            for part in self._parts
            for problem in part.session.problems
        ]
        return tuple(dict.fromkeys((*found, *noted)))

    def _before(self, line: int | None) -> str | None:
        """Returns the entry before a line of the session itself."""
        if line is None or self.place.written_as != "transcript":
            return None
        for number in range(min(line - 1, self.session.line_count) - 1, max(-1, line - 1000), -1):
            found = self.session.lines(number, 1)[0]
            if found.entry is not None:
                return found.entry.id
        return None

    def take_changed(self) -> list[str]:
        """Returns entries whose marks (notes, labels, …) changed since the last call."""
        with self._lock:
            changed: dict[str, None] = {}
            for part in self._parts:
                marks = part.session.marks
                changed |= dict.fromkeys(marks.changed)
                marks.changed = []
            return list(changed)

    def set_spawned(self, spawned: dict[str, list[str]]) -> list[str]:
        """Sets the sub-agent sessions that each entry started; returns the entries for which that changed."""
        with self._lock:
            before, self._spawned = self._spawned, spawned
            return [id for id in {**before, **spawned} if before.get(id) != spawned.get(id)]

    def spawner(self, call_id: str | None, entry: str | None) -> str | None:
        """Returns the entry that started a sub-agent: the one named, or the one with that call."""
        if entry is not None or call_id is None:
            return entry
        for line in self.session.lines():
            message: AgentMessage | None = line.entry.message if line.entry is not None else None
            if isinstance(message, AssistantMessage) and any(call.id == call_id for call in message.tool_calls):
                assert line.entry is not None
                return line.entry.id
        return None


class _RowMaker:
    """Builds the rows of a part, with what only surrounding lines contain: durations, and marks."""

    def __init__(self, part: TreePart, place: SessionPlace, spawned: dict[str, list[str]]) -> None:
        self._part = part
        self._session = part.session
        self._marks = part.session.marks
        self._spawned = spawned
        self._begun: dict[str, int] = {}  # start time by call id
        self._times: dict[str, int] = {}  # time by entry
        written_as = FORMATS.get(place.written_as or "")
        self._end_stamped = written_as is not None and written_as.stamps_ends

    def note(self, line: Line) -> None:
        """Processes a line before the first row."""
        if line.kind == JOURNAL and line.fields is not None:
            call, at = line.fields.get("callId"), line.fields.get("timestamp")
            if line.fields.get("kind") == "tool_start" and isinstance(call, str) and isinstance(at, int):
                self._begun[call] = at
        elif line.entry is not None:
            at = getattr(line.entry.message, "timestamp", None)
            if at is not None and line.entry.id is not None:
                self._times[line.entry.id] = at

    def row(self, line: Line, seq: int) -> Row | None:
        self.note(line)
        if line.kind == BAD or (line.kind >= ENTRY and line.entry is None):
            raw = self._session.raw(line.number)[:160].decode("utf-8", "replace")
            id = line.id or f"line-{line.number + 1}"
            return Row(seq=seq, id=id, role="unreadable", text=raw, bad=line.problem or "", session=self._part.key)
        if line.entry is None:
            return None
        id = line.entry.id or ""
        marks = self._marks
        return row_of(
            line.entry,
            seq,
            ms=self._duration(line.entry),
            version=len(marks.revisions.get(id, ())),
            label=marks.labels.get(id),
            rating=marks.rating(id),
            notes=len(marks.notes.get(id, ())),
            session=self._part.key,
            spawned=tuple(self._spawned.get(id, ())),
        )

    def _duration(self, entry: Entry) -> int | None:
        message: AgentMessage = entry.message
        if isinstance(message, ToolResultMessage) and message.timestamp is not None:
            began = self._begun.get(message.tool_call_id)
            if began is None and self._end_stamped:
                return self._since_parent(entry, message.timestamp)
            return _positive(message.timestamp, began)
        if isinstance(message, AssistantMessage) and message.timestamp is not None and self._end_stamped:
            return self._since_parent(entry, message.timestamp)
        return None

    def _since_parent(self, entry: Entry, end: int) -> int | None:
        """None for no time at all: the program gave both entries one timestamp."""
        return _positive(end, self._times.get(entry.parent_id or "")) or None


def from_user(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Returns the entries from the first user message on; all of them if there is none."""
    return entries[next((at for at, entry in enumerate(entries) if isinstance(entry.message, UserMessage)), 0) :]


def _data_of(block: Any, sha256: str) -> bytes | None:
    """The data of a block, if it has this hash."""
    data = getattr(block, "data", None)
    if not isinstance(data, str):
        return None
    raw = raw_of(data)
    return raw if hashlib.sha256(raw).hexdigest() == sha256 else None


def _positive(end: int, began: int | None) -> int | None:
    return end - began if began is not None and end >= began else None


def branch_view(branch: Branch, current: bool = False) -> BranchView:
    return BranchView(
        name=branch.name,
        head=branch.head,
        description=branch.description,
        created=branch.created,
        current=current,
    )


def note_view(note: StoredNote) -> NoteView:
    return NoteView(id=note.id, text=note.text, rating=note.rating, by=note.by, at=note.timestamp or 0)


def _no_entry(id: str) -> HttpProblem:
    return HttpProblem(404, f"no entry {id!r} in this session", code="entry_not_found", remedy="reload the tree")
