"""What an open session holds: entries, paths, the model's view, marks, unfinished calls and problems.

Entries are addressed by id from outside, and by the number of their line inside.
"""

import asyncio
import contextlib
import functools
import threading
import time
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from itertools import islice, takewhile
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from msgspec.structs import replace

from ..values.canonical import build, plain
from ..values.errors import FormatError, InterlinguaError
from ..values.messages import AgentMessage, CustomMessage, Message, ToolCall, ToolResultMessage
from ..values.regular import reason
from ..values.request import Conversation, Entry, ModelDescriptor, Options
from . import blobs as media
from . import compaction, tree
from .executions import Execution, Executions, OpenCall, open_calls
from .index import StaleIndex
from .store import Log, SessionDamaged, SessionError, SessionNotFound, SessionProblem, StaleHead, Store
from .tree import (
    ASSISTANT,
    BAD,
    BLANK,
    COMPACTION,
    ENTRY,
    HEAD,
    JOURNAL,
    LABEL,
    MARK,
    MODEL,
    RESULT,
    REVISION,
    ROOT,
    Branch,
    Marks,
    Note,
    decode_line,
    read_line,
)
from .watching import Watch

Sync: TypeAlias = Literal["always", "turn", "never"]

F = TypeVar("F", bound=Callable[..., Any])

_MARKS = (HEAD, LABEL, MARK, REVISION)  # kinds of lines that describe entries
_REMEMBERED = 256  # entries by which `follow` finds its position in a replaced log
ANY: Any = object()  # default: any head
_OWN = (
    "role",
    "version",
    "id",
    "createdAt",
    "agentId",
    "forkedFrom",
)  # of the session line


class UnfinishedCall(NamedTuple):
    """A call without a result on the path to the head. If it `started`, it must not run again.

    `ended`: whether the tool finished; `result` is its saved result, from the journal or another branch. If it
    started and has no result, its outcome is unknown: report that.
    """

    call: ToolCall
    entry_id: str
    started: bool
    ended: bool
    result: Any = None


class Node(NamedTuple):
    """An entry in the tree: its line number, that of its parent (-1: a root), and whether it is on the head's path.

    `problem` describes an invalid parent or id.
    """

    number: int
    parent: int
    entry: Entry
    on_path: bool
    problem: str | None


class Line(NamedTuple):
    """A line of a session: an entry, or the fields of a line outside the tree, or a problem; `kind` is from `tree`."""

    number: int
    kind: int
    entry: Entry | None = None
    fields: dict[str, Any] | None = None
    problem: str | None = None
    id: str | None = None  # of an unreadable entry


def checked(method: F) -> F:
    """Takes the lock, retries once with a rebuilt index if it does not match the file, and raises typed errors."""

    @functools.wraps(method)
    def called(self: "SessionReader", *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            try:
                try:
                    return method(self, *args, **kwargs)
                except StaleIndex:
                    self._log.rebuild()
                    return method(self, *args, **kwargs)
            except StaleIndex:
                raise SessionDamaged(f"{self.where}: the file changes while it is read; read it again") from None
            except OSError as error:
                raise SessionError(f"{self.where}: {reason(error)}") from error

    return called  # type: ignore[return-value]


class SessionReader:
    """An open session, for reading."""

    def __init__(self, log: Log, store: Store, *, id: str, agent: str, sync: Sync = "turn") -> None:
        """Use `Session.open`."""
        self.id = id
        self.agent = agent
        self._log = log
        self._store = store
        self._owns_store = False
        self._blobs = store.blobs(agent)
        self._sync = sync
        self._lock = threading.RLock()
        self._at: int | None = None  # the head, if `branch` moved it and nothing was written since
        self._known = (ROOT, "")  # the number and id of the last appended entry
        self._found: list[SessionProblem] = []
        self._about: dict[str, Any] = {}
        self._marked = Marks()
        self._marked_until = (log.generation, 0)

    @property
    def store(self) -> Store:
        """What keeps the session."""
        return self._store

    @property
    def where(self) -> str:
        """The file, or the database and id."""
        return self._log.where

    @property
    def about(self) -> dict[str, Any]:
        """The first line: id, time, agent, and the conversation's own fields."""
        return dict(self._about)

    @property
    def base(self) -> Conversation:
        """The conversation without entries: system text, tools, model, options as it was created."""
        about = {key: value for key, value in self._about.items() if key not in _OWN}
        base: Conversation = build(about, Conversation)
        return base

    @property
    @checked
    def head(self) -> str | None:
        """The id of the head entry; None before the first."""
        at = self._head
        return None if at == ROOT else self._name(at)

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        """All messages on the path to the head, without bookkeeping entries."""
        messages = (entry.message for entry in self.path())
        return tuple(message for message in messages if not compaction.is_bookkeeping(message))

    @checked
    def path(self, *, to: str | None = None, last: int | None = None) -> tuple[Entry, ...]:
        """The entries from the root to an entry (default: the head); or the `last` N, reading no others."""
        walk = self._walk() if to is None else tree.walk(self._parent, self._number(to))
        return self._entries(_limited(walk, last))

    @checked
    def path_lines(self, *, to: str | None = None, last: int | None = None) -> list[int]:
        """The line numbers of a path's entries, without reading them."""
        return _limited(self._walk() if to is None else tree.walk(self._parent, self._number(to)), last)

    @checked
    def message_numbers(self, ids: Iterable[str]) -> dict[str, int]:
        """The positions of messages on their paths, counted from one; without what is no message, or is not here."""
        counts = {ROOT: 0}  # messages up to a line
        found: dict[str, int] = {}
        for id in ids:
            if (number := self._log.find(id)) is None:
                continue
            walked = list(takewhile(lambda at: at not in counts, tree.walk(self._parent, number)))
            for at in reversed(walked):
                kind, parent, _ = self._log.place(at)
                counts[at] = counts[parent] + (kind in tree.MESSAGES)
            if self._log.place(number).kind in tree.MESSAGES:
                found[id] = counts[number]
        return found

    @checked
    def roots(self) -> tuple[Entry, ...]:
        """The entries without a parent, in order of append."""
        return self._entries(self._log.children(ROOT))

    @checked
    def children(self, id: str) -> tuple[Entry, ...]:
        """The children of an entry, in order of append; reads nothing else."""
        return self._entries(self._log.children(self._number(id)))

    @checked
    def leaves(self) -> tuple[Entry, ...]:
        """The entries without children: the ends of all branches, named or not."""
        return self._entries(self._log.leaves())

    @checked
    def entry(self, id: str, *, media: bool = True) -> Entry:
        """One entry of the tree; without `media`, large data stay URLs (`blob:sha256:…`)."""
        return self._entry_at(self._number(id), media_in_place=media)

    @property
    def line_count(self) -> int:
        """The number of lines, including those outside the tree."""
        return len(self._log)

    @property
    def generation(self) -> int:
        """Incremented when the log is replaced or rebuilt; earlier line numbers are then invalid."""
        return self._log.generation

    @checked
    def lines(self, since: int = 0, limit: int | None = None, *, revised: bool = True) -> list[Line]:
        """Lines of every kind by number: for readers that show all of a session, page by page.

        Large media stay URLs. Unless `revised`, entries have their original message.
        """
        end = len(self._log) if limit is None else min(len(self._log), since + limit)
        return [self._line(number, revised) for number in range(since, end)]

    def _line(self, number: int, revised: bool) -> Line:
        kind = self._log.place(number).kind
        if kind in (BLANK, BAD):
            return Line(number, kind, problem=self._why_bad(number) if kind == BAD else None)
        if kind < ENTRY:
            return Line(number, kind, fields=read_line(self._log.line(number)))
        try:
            return Line(number, kind, entry=self._entry_at(number, media_in_place=False, as_revised=revised))
        except InterlinguaError as error:
            return Line(number, kind, problem=str(error), id=self._name(number))

    @checked
    def line_of(self, id: str) -> int:
        """The line number of an entry."""
        return self._number(id)

    @checked
    def raw(self, number: int) -> bytes:
        """A line as it is stored."""
        if not 0 <= number < len(self._log):
            raise SessionNotFound(f"{self.where}: no line {number}; the last is {len(self._log) - 1}")
        return self._log.line(number)

    @checked
    def leaf_ids(self) -> tuple[str, ...]:
        """The ids of the leaves, without reading their messages."""
        return tuple(map(self._name, self._log.leaves()))

    def entries(self, *, since: str | None = None, limit: int | None = None) -> Iterator[Entry]:
        """Entries of the tree in order of append: all, or those after `since`, at most `limit`.

        Skips unreadable entries and adds them to `problems`.
        """
        first = 0 if since is None else self._after(since)
        found = (entry for entry in map(self._entry_if_any, range(first, len(self._log))) if entry is not None)
        return islice(found, limit)

    @checked
    def _after(self, id: str) -> int:
        return self._number(id) + 1

    @checked
    def nodes(self) -> tuple[Node, ...]:
        """The tree by line numbers, with a problem for each entry that has an invalid parent or id."""
        numbers = (number for number in range(len(self._log)) if self._log.place(number).kind >= ENTRY)
        entries = {number: entry for number in numbers if (entry := self._readable(number)) is not None}
        on_path = set(self._walk())
        nodes = []
        for number, entry in entries.items():
            above = next((at for at in tree.walk(self._parent, self._parent(number)) if at in entries), ROOT)
            nodes.append(Node(number, above, entry, number in on_path, self._placement_problem(number)))
        return tuple(nodes)

    def _placement_problem(self, number: int) -> str | None:
        """The problem with a line's parent or id, if any."""
        place, line = self._log.place(number), tree.parse_place(self._log.line(number))
        if place.orphan:
            itself = line.parent_id == line.id
            return "is its own parent" if itself else f"parent {line.parent_id!r} is not before it"
        named = self._log.find(line.id) if isinstance(line.id, str) else number
        return None if named == number else f"line {(named or 0) + 1} has the same id"

    @checked
    def _entry_if_any(self, number: int) -> Entry | None:
        return self._readable(number) if self._log.place(number).kind >= ENTRY else None

    @checked
    def context_entries(self, *, to: str | None = None, last: int | None = None) -> tuple[Entry, ...]:
        """The entries of the path to an entry (default: the head) that make up the model's view; or the `last` N."""
        return self._entries(self._context_numbers(self._head if to is None else self._number(to), last))

    @checked
    def message_count(self, *, to: str | None = None) -> int:
        """The number of messages on the path to an entry, without records and compactions; reads none of them."""
        walk = self._walk() if to is None else tree.walk(self._parent, self._number(to))
        return sum(self._log.place(number).kind in tree.MESSAGES for number in walk)

    def context_messages(self, *, to: str | None = None) -> tuple[AgentMessage, ...]:
        """The model's view: the latest summary, the entries it kept, and all later ones."""
        return compaction.context(self.context_entries(to=to))

    @checked
    def conversation(self) -> Conversation:
        """The whole tree as a value, with the head and the current model."""
        base = self.base
        entries = tuple(self._all())
        model = self.model if self._log.count(MODEL) else base.model
        if all(tree.is_positional(entry.id) for entry in entries) and len(entries) == len(self.path()):
            bare = tuple(replace(entry, id=None, parent_id=None) for entry in entries)
            return replace(base, entries=bare, model=model)  # a plain list of messages stays a list
        if self.head is None and entries:  # rewound to before the first entry
            entries = (*entries, Entry(message=CustomMessage("head", {"target": None})))  # type: ignore[arg-type]
        return replace(base, entries=entries, head=self.head, model=model)

    def _all(self) -> Iterator[Entry]:
        for number in range(len(self._log)):
            kind = self._log.place(number).kind
            found = self._readable(number) if kind >= ENTRY or kind in (LABEL, MARK, JOURNAL) else None
            if found is not None:
                yield found if kind >= ENTRY else replace(found, id=None)

    # --- marks --------------------------------------------------------------------------------------------------------

    @checked
    def labels(self) -> dict[str, str]:
        """Labels by the id of their entry."""
        return dict(self._marks().labels)

    @property
    @checked
    def title(self) -> str | None:
        """The label of the session itself."""
        return self._marks().title

    @checked
    def branches(self) -> dict[str, Branch]:
        """Named branches, the oldest first."""
        return dict(self._marks().branches)

    @property
    @checked
    def current_branch(self) -> str | None:
        """The branch that is checked out and moves with appended entries; None if none is."""
        marks = self._marks()
        return marks.current if marks.current in marks.branches else None

    @checked
    def notes(self, id: str | None = None) -> tuple[Note, ...]:
        """The notes on an entry, or on all entries, the oldest first."""
        notes = self._marks().notes
        chosen = notes.values() if id is None else [notes.get(self._known_name(id), {})]
        return tuple(note for some in chosen for note in some.values())

    @checked
    def version(self, id: str) -> int:
        """The number of revisions of an entry."""
        return len(self._marks().revisions.get(self._known_name(id), ()))

    @checked
    def versions(self, id: str) -> tuple[AgentMessage, ...]:
        """The messages of an entry at each version: the original, and each revision."""
        number = self._number(id)
        revised = self._marks().revisions.get(self._name(number), [])
        return tuple(self._message_at(number, line) for line in (number, *revised))

    @property
    @checked
    def marks(self) -> Marks:
        """Labels, branches, notes and revisions. A live object: do not store it."""
        return self._marks()

    @checked
    def blob(self, name: str) -> bytes | None:
        """The blob of this name; None if it is missing."""
        return self._blobs.get(name)

    def _marks(self) -> Marks:
        """The marks, updated with new lines; recomputed if the log was rebuilt."""
        generation, seen = self._marked_until
        size = len(self._log)
        if (generation, seen) == (self._log.generation, size):
            return self._marked
        if generation != self._log.generation:
            self._marked, seen = Marks(), 0
        numbers: Iterable[int] = range(seen, size) if seen else self._log.numbers(*_MARKS) if size else ()
        for number in numbers:
            if not seen or self._log.place(number).kind in _MARKS:
                self._marked.take(number, read_line(self._log.line(number)))
        self._marked_until = (self._log.generation, size)
        return self._marked

    @property
    @checked
    def model(self) -> ModelDescriptor | None:
        """The model in use: the last one set or used on this path, or the session's own."""
        for number in self._walk():
            if self._log.place(number).kind in (MODEL, ASSISTANT):
                line = read_line(self._log.line(number))
                if isinstance(line.get("model"), str):
                    known = {key: line[key] for key in ("api", "provider") if isinstance(line.get(key), str)}
                    return ModelDescriptor(id=line["model"], **known)
        own = self._about.get("model")
        return build(own, ModelDescriptor) if isinstance(own, dict) else None

    @property
    @checked
    def options(self) -> Options:
        """The options set last on this path, or the session's own."""
        for number in self._walk():
            if self._log.place(number).kind == MODEL:
                line = read_line(self._log.line(number))
                if isinstance(line.get("options"), dict):
                    return _options(line["options"])
        return _options(self._about.get("options") or {})

    @property
    @checked
    def problems(self) -> tuple[SessionProblem, ...]:
        """Problems of the stored lines, and what was repaired on opening."""
        bad = (SessionProblem(number + 1, f"skipped: {self._why_bad(number)}") for number in self._log.numbers(BAD))
        lost = (SessionProblem(number + 1, "references a missing entry") for number in self._log.orphans())
        return (*self._log.problems, *bad, *lost, *self._found)

    def _why_bad(self, number: int) -> str:
        try:
            tree.parse_place(self._log.line(number))
        except FormatError as error:
            return error.message
        return "not a line of a session"

    # --- unfinished calls ---------------------------------------------------------------------------------------------

    @checked
    def unfinished_calls(self, *, to: str | None = None) -> tuple[UnfinishedCall, ...]:
        """Calls in the model's view at an entry (default: the head) that have no result."""
        path = self._context_numbers(self._head if to is None else self._number(to))
        return tuple(
            UnfinishedCall(one.call, self._name(one.number), known.started, known.ended, self._whole(known.result))
            for one, known in self._executions(path)
        )

    def _executions(self, path: Sequence[int]) -> Iterator[tuple[OpenCall, Execution]]:
        """The calls without a result on a path, and their executions, recorded on any branch."""
        seen: dict[int, Executions] = {}
        for one in open_calls(self._messages_at(path)):
            known = seen.get(one.number) or Executions(self._log, one.number)
            seen[one.number] = known
            yield one, known.of(one.call.id, one.occurrence)

    def _messages_at(self, numbers: Sequence[int]) -> Iterator[tuple[int, AgentMessage]]:
        """Assistant messages and results, without inlined blobs."""
        for number in numbers:
            if self._log.place(number).kind in (ASSISTANT, RESULT):
                with contextlib.suppress(InterlinguaError):
                    yield number, self._entry_at(number, media_in_place=False).message

    def _whole(self, result: dict[str, Any] | None) -> dict[str, Any] | None:
        """A result with its large data inlined; None if it is unreadable."""
        if result is None:
            return None
        try:
            message: ToolResultMessage = build(result, ToolResultMessage)
        except FormatError:
            return None
        whole: dict[str, Any] = plain(media.inline(message, self._blobs)[0])
        return whole

    def journal_of(self, path: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
        """Journal lines that record the calls without a result on a path, by the number of their entry."""
        journal: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
        for (number, call, _), known in self._executions(path):
            journal[number] += known.notes(call, now())
        return journal

    @checked
    def open_journal(self) -> tuple[CustomMessage, ...]:
        """The journal messages of `unfinished_calls()`, for a copy of the model's view."""
        notes = (note for notes in self.journal_of(self._context_numbers(self._head)).values() for note in notes)
        return tuple(CustomMessage("journal", {k: v for k, v in note.items() if k != "role"}) for note in notes)

    # --- what other processes append ----------------------------------------------------------------------------------

    @checked
    def refresh(self) -> None:
        """Reads what another process has appended."""
        self._log.refresh()

    def watch(self) -> Watch:
        """Watches for appends by other processes, on an event loop; `refresh` then reads them."""
        return self._log.watch()

    async def follow(self, *, since: str | None = None) -> AsyncGenerator[Entry, None]:
        """Yields entries as other processes append them: those after `since`, or from now on.

        Never ends by itself. Unfinished messages are not in the log and not yielded.
        """
        with contextlib.closing(self.watch()) as watch:
            at = self._after(since) if since is not None else self.line_count
            seen = deque(line.entry.id for line in self.lines(max(0, at - _REMEMBERED), _REMEMBERED) if line.entry)
            generation = self.generation
            while True:
                await asyncio.to_thread(self.refresh)
                if self.generation != generation:  # line numbers have changed: continue after the last seen entry
                    generation, at = self.generation, self._line_after(seen)
                for number in range(at, self.line_count):
                    found = self._entry_if_any(number)
                    at = number + 1
                    if found is not None:
                        seen.append(found.id)
                        if len(seen) > _REMEMBERED:
                            seen.popleft()
                        yield found
                await watch.wait()

    def _line_after(self, seen: Iterable[str | None]) -> int:
        """The line after the latest of these entries that still exists."""
        for id in reversed(list(seen)):
            with contextlib.suppress(SessionNotFound):
                return self._after(id or "")
        return 0

    # --- by number ---------------------------------------------------------------------------------------------------

    @property
    def _head(self) -> int:
        return self._log.head if self._at is None else self._at

    def _parent(self, number: int) -> int:
        return self._log.place(number).parent

    def _walk(self) -> Iterator[int]:
        return tree.walk(self._parent, self._head)

    def _is_on_path(self, number: int) -> bool:
        return number in takewhile(lambda at: at >= number, self._walk())

    def _number(self, id: str) -> int:
        number = self._log.find(id)
        if number is None:
            agent = "" if self.agent == "main" else f" --agent {self.agent}"
            see = f"interlingua sessions show {self.id}{agent} --tree"
            raise SessionNotFound(f"{self.where}: no entry {id!r}; see: {see}")
        return number

    def _known_name(self, id: str) -> str:
        """The id of an entry, which must exist."""
        return self._name(self._number(id))

    def _name(self, number: int) -> str:
        if self._known[0] == number:
            return self._known[1]
        id = tree.parse_place(self._log.line(number)).id
        return id if isinstance(id, str) else tree.positional(number)

    def _branch_end(self, name: str, expect: str | None) -> int:
        """The head of a branch; raises StaleHead if `expect` is another."""
        known = self._marks().branches.get(name)
        if known is None:
            raise SessionNotFound(f"{self.where}: no branch {name!r}; create it with set_branch or checkout")
        if expect is not ANY and expect != known.head:
            raise StaleHead(self.where, name, known.head)
        return ROOT if known.head is None else self._number(known.head)

    def _moving_branch(self, parent: int) -> str | None:
        """The checked out branch, if its head is `parent`."""
        name = self.current_branch
        return name if name is not None and self._branch_end(name, ANY) == parent else None

    def _context_numbers(self, at: int, last: int | None = None) -> list[int]:
        """The numbers from the first kept entry of the latest compaction (default: the root) to an entry."""
        numbers: list[int] = []
        first_number: int | None = None
        for number in tree.walk(self._parent, at):
            if (first_number is not None and number < first_number) or (last is not None and len(numbers) >= last):
                break
            numbers.append(number)
            if first_number is None and self._log.place(number).kind == COMPACTION:
                first = compaction.first_kept_of(decode_line(self._log.line(number)).message)
                found = None if first is None else self._log.find(first)
                first_number = number if found is None else found
        return numbers[::-1]

    def _entries(self, numbers: Sequence[int]) -> tuple[Entry, ...]:
        found = (self._readable(number) for number in numbers)
        return tuple(entry for entry in found if entry is not None)

    def _readable(self, number: int) -> Entry | None:
        try:
            return self._entry_at(number)
        except InterlinguaError as error:
            self._report(SessionProblem(number + 1, f"skipped: {error}"))
            return None

    def _entry_at(self, number: int, *, media_in_place: bool = True, as_revised: bool = True) -> Entry:
        raw = self._log.line(number)
        entry = decode_line(raw)
        _, parent, orphan = self._log.place(number)
        if entry.id is None or orphan or (parent != ROOT and entry.parent_id is None):
            name = None if parent == ROOT else self._name(parent)
            entry = replace(entry, id=entry.id or tree.positional(number), parent_id=name)
        revised = self._marks().revisions.get(entry.id or "") if as_revised else None
        if revised:
            raw = self._log.line(revised[-1])
            entry = replace(entry, message=_revised(raw))
            marks, name = self._marks(), entry.id or ""
            entry = replace(
                entry, parents=marks.parents.get(name, entry.parents), extra=marks.extras.get(name, entry.extra)
            )
        if media_in_place and media.NAME.search(raw):
            entry = replace(entry, message=self._with_media(number, entry.message))
        return entry

    def _message_at(self, number: int, line: int) -> AgentMessage:
        """The message of an entry: the original, or that of a revision's line."""
        raw = self._log.line(line)
        message: AgentMessage = decode_line(raw).message if line == number else _revised(raw)
        return self._with_media(number, message) if media.NAME.search(raw) else message

    def _with_media(self, number: int, message: AgentMessage) -> Any:
        message, missing = media.inline(message, self._blobs)
        for name in missing:
            self._report(SessionProblem(number + 1, f"blob {name} is missing: its block has only the URL"))
        return message

    def _report(self, problem: SessionProblem) -> None:
        if problem not in self._found:
            self._found.append(problem)

    def _refuse_damage(self, before: int) -> None:
        bad = [number + 1 for number in self._log.numbers(BAD, first=1) if number <= before]
        if bad:
            raise SessionDamaged(
                f"{self.where}: line {bad[0]} is unreadable and would be lost;"
                " repair the file first: interlingua doctor FILE -o NEW"
            )


def _limited(walk: Iterator[int], last: int | None) -> list[int]:
    numbers: list[int] = []
    for number in walk:
        if last is not None and len(numbers) >= last:
            break
        numbers.append(number)
    return numbers[::-1]


def _options(value: dict[str, Any]) -> Options:
    options: Options = build(value, Options)
    return options


def _revised(raw: bytes) -> Any:
    """The message in a revision line."""
    return build(read_line(raw)["message"], Message, "$.message")


def now() -> int:
    return int(time.time() * 1000)
