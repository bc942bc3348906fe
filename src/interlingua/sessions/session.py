"""A session: a persistent conversation. `append` writes each message before it returns.

The session is a tree of entries in an append-only log. One entry is the head; an appended entry becomes a child of the
head, and the new head. Moving the head back and appending makes a branch.
"""

import asyncio
import contextlib
import functools
import importlib
import os
import secrets
import threading
import time
import uuid
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from msgspec.structs import replace

from ..dialects.files import transcript
from ..dialects.foreign_blocks import meant, understood
from ..values import jsontext
from ..values.canonical import build, message_of, plain
from ..values.errors import BadWire, FormatError, InterlinguaError
from ..values.messages import AgentMessage, CustomMessage, Message, MessageBase, ToolCall, ToolResultMessage
from ..values.regular import reason
from ..values.request import Conversation, Entry, ModelDescriptor, Options
from . import blobs as media
from . import compaction, tree
from .executions import Execution, Executions, OpenCall, open_calls
from .files import ENDING, FileLog, FileStore, make_folder
from .index import StaleIndex
from .store import (
    EntryExists,
    Log,
    Problem,
    SessionDamaged,
    SessionError,
    SessionNotFound,
    StaleHead,
    StaleVersion,
    Store,
    typed,
)
from .summary import is_foreign
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
    SESSION,
    Branch,
    Marks,
    Note,
    decode_line,
    encode_line,
    placed,
    read_line,
)
from .watching import Watch

Sync: TypeAlias = Literal["always", "turn", "never"]
Durability: TypeAlias = Literal["full", "process"]
_DURABILITY: dict[str, Sync] = {"full": "always", "process": "turn"}

F = TypeVar("F", bound=Callable[..., Any])

_MARKS = (HEAD, LABEL, MARK, REVISION)  # kinds of lines that describe entries
_HERE: Any = object()  # default: the head
_REMEMBERED = 256  # entries by which `follow` finds its position in a replaced log
_ANY: Any = object()  # default: any head
_MAX_BRANCH_NAME = 200  # characters
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

    `ended` tells whether the tool finished; `result` is its saved result, from the journal or another branch. If it
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


def _checked(method: F) -> F:
    """Takes the lock, retries once with a rebuilt index if it does not match the file, and raises typed errors."""

    @functools.wraps(method)
    def called(self: "Session", *args: Any, **kwargs: Any) -> Any:
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


class Session:
    """One session, open. Use it as a context manager, or call `close()`."""

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
        self._found: list[Problem] = []
        self._about: dict[str, Any] = {}
        self._marked = Marks()
        self._marked_until = (log.generation, 0)

    @classmethod
    def open(
        cls,
        id_or_path: str | Path | None = None,
        *,
        agent: str = "main",
        home: str | Path | None = None,
        store: Store | str | None = None,
        create: bool = True,
        read_only: bool = False,
        durability: Durability | None = None,
        sync: Sync | None = None,
        about: Conversation | None = None,
    ) -> "Session":
        """Opens a session by id, or a session file by path; creates it if it does not exist, or if no id is given.

        `store` is a store or an address (`sqlite:FILE`, `postgresql://…`); default: files under `home`. With a store, a
        string is an id and never a path. `durability` is
        what an append that has returned survives: the death of this program (`process`, the default), or a power cut
        too (`full`). `sync` says the same in terms of when to sync to disk: after each append (`always`), on `sync()`
        (`turn`), or not (`never`). `about` provides the system text, tools, model and options of a new session.
        """
        if durability not in (None, *_DURABILITY) or sync not in (None, "always", "turn", "never"):
            raise SessionError(f"unknown durability {durability or sync!r}; use 'full' or 'process'")
        sync = sync or _DURABILITY[durability or "process"]
        # With a store, a text is only ever an id: servers pass on what their clients send.
        if isinstance(id_or_path, Path) or (isinstance(id_or_path, str) and store is None and _is_path(id_or_path)):
            with typed(id_or_path):
                path = _absolute(id_or_path)
            opened: Store = FileStore(home, folder=path.parent)
            agent = path.parent.parent.name if path.parent.name == "sessions" else agent
            if create and not read_only:
                with typed(path):
                    make_folder(path.parent)
            id = path.name.removesuffix(ENDING)
            log: Log = FileLog(path, write=not read_only, create=create)
        else:
            id = id_or_path or str(uuid.uuid4())
            opened = store_at(store, home)
            log = opened.open(agent, id, write=not read_only, create=create)
        session = cls(log, opened, id=id, agent=agent, sync=sync)
        session._owns_store = isinstance(store, str)
        try:
            session._begin(about)
        except BaseException:
            session.close()
            raise
        return session

    @_checked
    def _begin(self, about: Conversation | None) -> None:
        if len(self._log) and is_foreign(self._log.line(0)):
            raise SessionError(
                f"{self._log.where}: another program's session file; import it with `interlingua sessions import`"
            )
        self._about = _first_line(self.id, self.agent, {} if about is None else described(about))
        if len(self._log) and self._log.place(0).kind == SESSION:
            self._about = read_line(self._log.line(0))

    # --- reading -----------------------------------------------------------------------------------------------------

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
    @_checked
    def head(self) -> str | None:
        """The id of the head entry; None before the first."""
        at = self._head
        return None if at == ROOT else self._name(at)

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        """All messages on the path to the head, without bookkeeping entries."""
        messages = (entry.message for entry in self.path())
        return tuple(message for message in messages if not compaction.is_bookkeeping(message))

    @_checked
    def path(self, *, to: str | None = None, last: int | None = None) -> tuple[Entry, ...]:
        """The entries from the root to an entry (default: the head); or the `last` N, reading no others."""
        walk = self._walk() if to is None else tree.walk(self._parent, self._number(to))
        return self._entries(_limited(walk, last))

    @_checked
    def path_lines(self, *, to: str | None = None, last: int | None = None) -> list[int]:
        """The line numbers of a path's entries, without reading them."""
        return _limited(self._walk() if to is None else tree.walk(self._parent, self._number(to)), last)

    @_checked
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

    @_checked
    def roots(self) -> tuple[Entry, ...]:
        """The entries without a parent, in order of append."""
        return self._entries(self._log.children(ROOT))

    @_checked
    def children(self, id: str) -> tuple[Entry, ...]:
        """The children of an entry, in order of append; reads nothing else."""
        return self._entries(self._log.children(self._number(id)))

    @_checked
    def leaves(self) -> tuple[Entry, ...]:
        """The entries without children: the ends of all branches, named or not."""
        return self._entries(self._log.leaves())

    @_checked
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

    @_checked
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

    @_checked
    def line_of(self, id: str) -> int:
        """The line number of an entry."""
        return self._number(id)

    @_checked
    def raw(self, number: int) -> bytes:
        """A line as it is stored."""
        if not 0 <= number < len(self._log):
            raise SessionNotFound(f"{self.where}: no line {number}; the last is {len(self._log) - 1}")
        return self._log.line(number)

    @_checked
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

    @_checked
    def _after(self, id: str) -> int:
        return self._number(id) + 1

    @_checked
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

    @_checked
    def _entry_if_any(self, number: int) -> Entry | None:
        return self._readable(number) if self._log.place(number).kind >= ENTRY else None

    @_checked
    def context_entries(self, *, to: str | None = None, last: int | None = None) -> tuple[Entry, ...]:
        """The entries of the path to an entry (default: the head) that make up the model's view; or the `last` N."""
        return self._entries(self._context_numbers(self._head if to is None else self._number(to), last))

    @_checked
    def message_count(self, *, to: str | None = None) -> int:
        """The number of messages on the path to an entry, without records and compactions; reads none of them."""
        walk = self._walk() if to is None else tree.walk(self._parent, self._number(to))
        return sum(self._log.place(number).kind in tree.MESSAGES for number in walk)

    def context_messages(self, *, to: str | None = None) -> tuple[AgentMessage, ...]:
        """The model's view: the latest summary, the entries it kept, and all later ones."""
        return compaction.context(self.context_entries(to=to))

    @_checked
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

    @_checked
    def labels(self) -> dict[str, str]:
        """Labels by the id of their entry."""
        return dict(self._marks().labels)

    @property
    @_checked
    def title(self) -> str | None:
        """The label of the session itself."""
        return self._marks().title

    @_checked
    def branches(self) -> dict[str, Branch]:
        """Named branches, the oldest first."""
        return dict(self._marks().branches)

    @property
    @_checked
    def current_branch(self) -> str | None:
        """The branch that is checked out and moves with appended entries; None if none is."""
        marks = self._marks()
        return marks.current if marks.current in marks.branches else None

    @_checked
    def notes(self, id: str | None = None) -> tuple[Note, ...]:
        """The notes on an entry, or on all entries, the oldest first."""
        notes = self._marks().notes
        chosen = notes.values() if id is None else [notes.get(self._name(self._number(id)), {})]
        return tuple(note for some in chosen for note in some.values())

    @_checked
    def version(self, id: str) -> int:
        """The number of revisions of an entry."""
        return len(self._marks().revisions.get(self._name(self._number(id)), ()))

    @_checked
    def versions(self, id: str) -> tuple[AgentMessage, ...]:
        """The messages of an entry at each version: the original, and each revision."""
        number = self._number(id)
        revised = self._marks().revisions.get(self._name(number), [])
        return tuple(self._message_at(number, line) for line in (number, *revised))

    @property
    @_checked
    def marks(self) -> Marks:
        """Labels, branches, notes and revisions. A live object: do not store it."""
        return self._marks()

    @_checked
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
        if seen == 0:
            numbers: Iterable[int] = self._log.numbers(*_MARKS) if size else ()
        else:
            numbers = (at for at in range(seen, size) if self._log.place(at).kind in _MARKS)
        for number in numbers:
            self._marked.take(number, read_line(self._log.line(number)))
        self._marked_until = (self._log.generation, size)
        return self._marked

    @property
    @_checked
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
    @_checked
    def options(self) -> Options:
        """The options set last on this path, or the session's own."""
        for number in self._walk():
            if self._log.place(number).kind == MODEL:
                line = read_line(self._log.line(number))
                if isinstance(line.get("options"), dict):
                    return _options(line["options"])
        return _options(self._about.get("options") or {})

    @property
    @_checked
    def problems(self) -> tuple[Problem, ...]:
        """Problems of the stored lines, and what was repaired on opening."""
        bad = (Problem(number + 1, f"skipped: {self._why_bad(number)}") for number in self._log.numbers(BAD))
        lost = (Problem(number + 1, "references a missing entry") for number in self._log.orphans())
        return (*self._log.problems, *bad, *lost, *self._found)

    def _why_bad(self, number: int) -> str:
        try:
            tree.parse_place(self._log.line(number))
        except FormatError as error:
            return error.message
        return "not a line of a session"

    @_checked
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

    # --- writing -----------------------------------------------------------------------------------------------------

    @_checked
    def append(
        self,
        message: AgentMessage | Mapping[str, Any],
        *,
        id: str | None = None,
        parent_id: str | None = _HERE,
        parents: Sequence[str] = (),
        branch: str | None = None,
        expect: str | None = _ANY,
        extra: dict[str, Any] | None = None,
        sync: bool | None = None,
    ) -> Entry:
        """Appends a message (or its JSON) to the head (or to `parent_id`; None makes a root), and makes it the head.

        With `branch` it is appended to that branch, which moves along; raises StaleHead if `expect` is not its head.
        `parents` are the further parents of a merge. On return the message is written; it is synced to disk if the
        session syncs `always` or `sync` is true.
        """
        *earlier, message = meant([message_of(message)])
        for one in earlier:  # a message of another wire may contain several results
            self.append(one, parent_id=parent_id, parents=parents, branch=branch, expect=expect, sync=sync)
            parent_id, parents, expect = _HERE, (), _ANY
        if isinstance(message, CustomMessage) and tree.kind_of_message(message) < ENTRY:
            raise SessionError(f"reserved role {message.role!r}; choose another role for the message")
        self._log.refresh()
        if branch is not None:
            parent = self._branch_end(branch, expect)
        else:
            parent = self._head if parent_id is _HERE else ROOT if parent_id is None else self._number(parent_id)
            branch = self._moving_branch(parent)
        if id is not None and self._log.find(id) is not None:
            raise EntryExists(f"{self.where}: entry {id!r} already exists; choose another id, or revise it")
        entry = Entry(
            message=message,  # type: ignore[arg-type]
            id=id or secrets.token_hex(8),
            parent_id=None if parent == ROOT else self._name(parent),
            parents=tuple(self._name(self._number(one)) for one in parents),
            extra=extra or {},
        )
        self._insert(entry, sync, branch, _readable_line(entry))
        return entry

    @contextlib.contextmanager
    def grouped(self) -> Iterator[None]:
        """Writes the appends inside as one write when it ends.

        Raises SessionError if that fails, in which case nothing was written. Nothing is durable until it ends.
        """
        with self._lock:
            generation = self._log.generation
            try:
                with self._log.grouped():
                    yield
            finally:
                if self._log.generation != generation:
                    self._at, self._known = None, (ROOT, "")

    @contextlib.contextmanager
    def unless_busy(self) -> Iterator[bool]:
        """Locks the session unless another thread holds it, and yields whether it is locked; calls inside do not
        wait.
        """
        is_locked = self._lock.acquire(blocking=False)
        try:
            yield is_locked
        finally:
            if is_locked:
                self._lock.release()

    def _branch_end(self, name: str, expect: str | None) -> int:
        """The head of a branch; raises StaleHead if `expect` is another."""
        known = self._marks().branches.get(name)
        if known is None:
            raise SessionNotFound(f"{self.where}: no branch {name!r}; create it with set_branch or checkout")
        if expect is not _ANY and expect != known.head:
            raise StaleHead(self.where, name, known.head)
        return ROOT if known.head is None else self._number(known.head)

    def _moving_branch(self, parent: int) -> str | None:
        """The checked out branch, if its head is `parent`."""
        name = self.current_branch
        return name if name is not None and self._branch_end(name, _ANY) == parent else None

    def _insert(
        self, entry: Entry, sync: bool | None = None, branch: str | None = None, line: bytes | None = None
    ) -> None:
        """Writes an entry; `line` is its line, if it was encoded already."""
        message: AgentMessage = entry.message
        stored = media.externalize(message, self._blobs)
        root = entry.parent_id is None and self._log.head != ROOT
        if line is None or root or stored is not message:
            line = encode_line(entry if stored is message else replace(entry, message=stored), root=root)
        lines = [line]
        if branch is not None:  # in the same write, so that both lines exist or neither
            lines.append(jsontext.write({"role": "branch", "name": branch, "target": entry.id, "parentId": entry.id}))
        self._add(*lines, sync=sync)
        self._at, self._known = None, (self._log.head, entry.id or "")

    def _add(self, *lines: bytes, sync: bool | None = None) -> None:
        """Writes lines; before the first of all, the session line."""
        first = () if len(self._log) else (jsontext.write(self._about),)
        self._log.add([*first, *lines], sync=self._sync == "always" if sync is None else sync)

    def _append_outside_tree(self, role: str, parent: str | None = _HERE, /, **fields: Any) -> None:
        """Writes a line outside the tree, with the head (or `parent`) as its parentId."""
        head = self.head if parent is _HERE else parent
        given = {key: value for key, value in fields.items() if value is not None or key == "target"}
        self._add(jsontext.write({"role": role, **given} | ({"parentId": head} if head is not None else {})))

    def _mark(self, role: str, target: str | None, **fields: Any) -> None:
        """Writes a timestamped line about an entry."""
        self._append_outside_tree(role, target=target, **fields, timestamp=_now())

    @_checked
    def rewind(self, id: str | None) -> None:
        """Moves the head to another entry, or before the first (None). Removes nothing."""
        target = None if id is None else self._name(self._number(id))
        self._add(jsontext.write({"role": "head", "target": target}))
        self._at = None

    @_checked
    def branch(self, at: str | None) -> None:
        """Moves the head like `rewind`, but writes nothing until the next append."""
        self._at = ROOT if at is None else self._number(at)

    @_checked
    def set_branch(
        self, name: str, head: str | None, *, expect: str | None = _ANY, description: str | None = None
    ) -> Branch:
        """Creates a branch, or moves it to another entry; raises StaleHead if `expect` is not its head.

        `expect=None` matches a branch that does not exist or is empty.
        """
        if not name.strip() or len(name) > _MAX_BRANCH_NAME:
            raise SessionError(f"invalid branch name {name!r}; use 1 to {_MAX_BRANCH_NAME} characters")
        self._log.refresh()
        known = self._marks().branches.get(name)
        at = None if known is None else known.head
        if expect is not _ANY and expect != at:
            raise StaleHead(self.where, name, at)
        target = None if head is None else self._name(self._number(head))
        self._mark("branch", target, name=name, description=description)
        return self._marks().branches[name]

    @_checked
    def delete_branch(self, name: str) -> None:
        """Deletes a branch name; its entries stay."""
        self._log.refresh()
        if name not in self._marks().branches:
            raise SessionNotFound(f"{self.where}: no branch {name!r}")
        self._mark("branch", None, name=name, deleted=True)

    @_checked
    def checkout(self, name: str, *, create: bool = False, at: str | None = _HERE) -> Branch:
        """Checks out a branch: the head moves to its head, and the branch moves with appended entries.

        With `create`, a missing branch is created at the entry `at` (default: the head).
        """
        self._log.refresh()
        known = self._marks().branches.get(name)
        if known is None:
            if not create:
                raise SessionNotFound(f"{self.where}: no branch {name!r}; create it with create=True")
            known = self.set_branch(name, self.head if at is _HERE else at)
        self._add(jsontext.write({"role": "head", "target": known.head, "branch": name}))
        self._at = None
        return known

    @_checked
    def revise(
        self,
        id: str,
        message: AgentMessage,
        *,
        version: int | None = None,
        parents: Sequence[str] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> int:
        """Replaces the message of an entry and returns the new version; earlier versions stay in the log.

        Raises StaleVersion if `version` is given and not the current one. `parents` replaces the further parents of a
        merge, `extra` the entry's extra.
        """
        if tree.kind_of_message(message) < ENTRY:
            raise SessionError(f"reserved role {message.role!r}; choose another role for the message")
        self._log.refresh()
        name = self._name(self._number(id))
        present = len(self._marks().revisions.get(name, ()))
        if version is not None and version != present:
            raise StaleVersion(self.where, name, present)
        stored = media.externalize(message, self._blobs)
        further = None if parents is None else [self._name(self._number(one)) for one in parents]
        self._mark("revision", name, version=present + 1, message=plain(stored), parents=further, entryExtra=extra)
        return present + 1

    @_checked
    def note(self, id: str, text: str | None = None, *, rating: int | None = None, by: str | None = None) -> Note:
        """Adds a note to an entry, or a rating: -1, 0 or 1."""
        if rating not in (None, -1, 0, 1):
            raise SessionError(f"invalid rating {rating!r}; use -1, 0 or 1")
        if rating is None and not (text or "").strip():
            raise SessionError("empty note; give a text or a rating")
        self._log.refresh()
        name, own = self._name(self._number(id)), secrets.token_hex(8)
        self._mark("note", name, note=own, text=text, rating=rating, by=by)
        return self._marks().notes[name][own]

    @_checked
    def delete_note(self, note: str) -> None:
        """Deletes a note."""
        self._log.refresh()
        for target, notes in self._marks().notes.items():
            if note in notes:
                self._mark("note", target, note=note, deleted=True)
                return
        raise SessionNotFound(f"{self.where}: no note {note!r}")

    @_checked
    def label(self, id: str | None, text: str | None) -> None:
        """Labels an entry, or removes its label (None); without an id, sets the session's title."""
        target = {} if id is None else {"target": self._name(self._number(id))}
        self._append_outside_tree("label", **target, label=text)

    def set_model(self, model: ModelDescriptor | str, *, provider: str | None = None, options: Any = None) -> Entry:
        """Sets the model, and optionally its `options`, for the session from here on."""
        described = ModelDescriptor(id=model, provider=provider or "") if isinstance(model, str) else model
        fields = {"provider": described.provider, "model": described.id, "api": described.api}
        given: dict[str, Any] = {key: value for key, value in fields.items() if value}
        if options is not None:
            given["options"] = plain(options)
        return self.append(CustomMessage("model", {**given, "timestamp": _now()}))

    @_checked
    def compact(
        self,
        summary: str,
        first_kept: str | None,
        *,
        tokens_before: int | None = None,
        tokens_after: int | None = None,
        details: dict[str, Any] | None = None,
    ) -> Entry:
        """Replaces everything before `first_kept` by a summary in the model's view; None keeps no earlier entry.

        The entries stay in the session.
        """
        if not summary.strip():
            raise SessionError("empty summary; it would lose the conversation")
        if first_kept is not None and not self._is_on_path(self._number(first_kept)):
            raise SessionError(f"{self.where}: entry {first_kept!r} is not on the path to the head")
        fields = {
            "summary": summary,
            "firstKept": first_kept,
            "tokensBefore": tokens_before,
            "tokensAfter": tokens_after,
            "details": details,
        }
        given = {key: value for key, value in fields.items() if value is not None}
        return self.append(CustomMessage(compaction.ROLE, {**given, "timestamp": _now()}))

    def journal(
        self,
        kind: str,
        *,
        call_id: str | None = None,
        name: str | None = None,
        at: str | None = _HERE,
        **fields: Any,
    ) -> None:
        """Records an event of a run (`tool_start`, `tool_end`), for recovery after a crash.

        `at` is the entry of the run, if it is not the head: several runs may work on different branches.
        """
        self._append_outside_tree("journal", at, kind=kind, callId=call_id, name=name, timestamp=_now(), **fields)

    @_checked
    def fork(
        self,
        at: str | None = None,
        *,
        id: str | None = None,
        agent: str | None = None,
        store: Store | None = None,
        linked: bool = False,
        empty: bool = False,
    ) -> "Session":
        """A new session with the path to `at` (default: the head), open for writing; this one is not changed.

        It records which calls on that path have run, so none runs again. It is stored in `store` (default: this one's).
        `linked` marks it as the continuation of this session, which is read-only: viewers show both as one tree. An
        `empty` fork has no entries.
        """
        walk = self._walk() if at is None else tree.walk(self._parent, self._number(at))
        numbers = [] if empty else list(walk)[::-1]
        self._refuse_damage(before=numbers[-1] if numbers else 0)
        new, whose, where = id or str(uuid.uuid4()), agent or self.agent, store or self._store
        log = where.open(whose, new, write=True, create=True)
        other = Session(log, where, id=new, agent=whose, sync=self._sync)
        try:
            other._take_over(self, numbers, linked)
        except BaseException:
            other.close()
            raise
        return other

    def _take_over(self, source: "Session", numbers: list[int], linked: bool) -> None:
        """Copies raw lines, and the labels of their entries."""
        if len(self._log):
            raise SessionError(f"{self.where}: the session already exists; choose another id")
        origin: dict[str, Any] = {"id": source.id} | ({"agent": source.agent} if source.agent != self.agent else {})
        origin |= ({"entry": source._name(numbers[-1])} if numbers else {}) | ({"linked": True} if linked else {})
        own = {"id": self.id, "createdAt": _now(), "agentId": self.agent, "forkedFrom": origin}
        self._about = {**source._about, **own}
        path = [(number, source._log.line(number)) for number in numbers]
        lines, names = _moved(path, source.journal_of(numbers))
        lines += source._marks_of(names)
        if self.agent != source.agent or self._store is not source._store:
            _copy_blobs(lines, source._blobs, self._blobs)
        self._log.add([jsontext.write(self._about), *lines], sync=self._sync != "never")
        for target, label in source.labels().items():
            if target in names:
                self.label(names[target], label)

    def _marks_of(self, names: dict[str, str]) -> Iterator[bytes]:
        """The lines of notes and revisions of entries, with the new `names` of the entries."""
        for number in self._log.numbers(MARK, REVISION):
            line = read_line(self._log.line(number))
            if line.get("role") in ("note", "revision") and line.get("target") in names:
                own = {key: value for key, value in line.items() if key != "parentId"}
                yield jsontext.write({**own, "target": names[line["target"]]})

    def journal_of(self, path: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
        """Journal lines that record the calls without a result on a path, by the number of their entry."""
        journal: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
        for (number, call, _), known in self._executions(path):
            journal[number] += known.notes(call, _now())
        return journal

    @_checked
    def open_journal(self) -> tuple[CustomMessage, ...]:
        """The journal messages of `unfinished_calls()`, for a copy of the model's view."""
        notes = (note for notes in self.journal_of(self._context_numbers(self._head)).values() for note in notes)
        return tuple(CustomMessage("journal", {k: v for k, v in note.items() if k != "role"}) for note in notes)

    def sync(self) -> None:
        """Syncs to disk, unless the session was opened with `sync="never"`."""
        if self._sync != "never":
            with typed(self.where):
                self._log.sync()

    @_checked
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

    def open_canvas(self, *, browser: bool = True) -> Any:
        """Shows the session on a canvas: in the browser, or in a notebook as the returned value.

        The canvas is the one that runs for this home, or one started by this program, which ends with it.
        """
        show = importlib.import_module("interlingua.canvas.opened").show  # imported on first use
        return show(self, browser=browser)

    def close(self, *, sync: bool = True) -> None:
        """Syncs, and releases the write lock. Without `sync`, the system decides when the last lines reach the disk."""
        with self._lock:
            try:
                if sync:
                    self.sync()
            finally:
                self._log.close()
                if self._owns_store:
                    self._store.close()
                    self._owns_store = False

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Session({self.id!r}, {self.where!r})"

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
            raise SessionNotFound(f"{self.where}: no entry {id!r}")
        return number

    def _name(self, number: int) -> str:
        if self._known[0] == number:
            return self._known[1]
        id = tree.parse_place(self._log.line(number)).id
        return id if isinstance(id, str) else tree.positional(number)

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
            self._report(Problem(number + 1, f"skipped: {error}"))
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
            self._report(Problem(number + 1, f"blob {name} is missing: its block has only the URL"))
        return message

    def _report(self, problem: Problem) -> None:
        if problem not in self._found:
            self._found.append(problem)

    def _refuse_damage(self, before: int) -> None:
        bad = [number + 1 for number in self._log.numbers(BAD, first=1) if number <= before]
        if bad:
            raise SessionDamaged(
                f"{self.where}: line {bad[0]} is unreadable and would be lost;"
                " repair the file first: interlingua doctor FILE -o NEW"
            )


def store_at(store: Store | str | None, home: str | Path | None = None) -> Store:
    """The store at an address: `sqlite:FILE`, `postgresql://…`; default: the files under `home`."""
    if store is None:
        return FileStore(home)
    if not isinstance(store, str):
        return store
    if store.startswith("sqlite:"):
        from .sql import sqlite_store

        return sqlite_store(store.removeprefix("sqlite:").removeprefix("//"))
    if store.startswith(("postgresql:", "postgres:")):
        from .sql import postgres_store

        return postgres_store(store)
    raise SessionError(f"unknown store address {store!r}; use sqlite:FILE or postgresql://HOST/NAME")


def save(conversation: Conversation, *, new_id: Callable[[], str] | None = None, **where: Any) -> Session:
    """Saves a conversation as a new session; takes the arguments of `Session.open`.

    `new_id` generates ids for entries without one; default: random ids.
    """
    session = Session.open(where.pop("id", None), about=conversation, **where)
    try:
        _write(session, conversation, new_id or (lambda: secrets.token_hex(8)))
    except BaseException:
        session.close()
        raise
    return session


def _write(session: Session, conversation: Conversation, new_id: Callable[[], str]) -> None:
    if len(session._log):
        raise SessionError(f"{session.where}: the session already exists")
    names: dict[str, str | None] = {}
    for entry in placed(conversation, new_id, names):
        message: AgentMessage = entry.message
        if entry.id is not None:
            session._insert(entry)
        elif isinstance(message, CustomMessage) and message.role == "head":
            session._add(jsontext.write({"role": "head", **message.fields}))
        elif isinstance(message, CustomMessage):
            session._append_outside_tree(
                message.role, entry.parent_id, **message.fields, entryExtra=entry.extra or None
            )
    head = session.head if conversation.head is None else names.get(conversation.head, session.head)
    if head != session.head:
        session.rewind(head)


def _moved(
    path: list[tuple[int, bytes]], journal: dict[int, list[dict[str, Any]]]
) -> tuple[list[bytes], dict[str, str]]:
    """The raw lines of a path for a new file, each with its journal, and the new names of their entries.

    Entries named by their line number get another name, so lines that reference them are rewritten.
    """
    names: dict[str, str] = {}
    out: list[bytes] = []
    for number, raw in path:
        given = tree.parse_place(raw)
        out.append(
            _renamed(raw, names) if tree.is_positional(given.parent_id) or given.role == compaction.ROLE else raw
        )
        id = given.id if isinstance(given.id, str) else tree.positional(number)
        names[id] = given.id if isinstance(given.id, str) else tree.positional(len(out))  # after the session line
        out += [jsontext.write({**line, "parentId": names[id]}) for line in journal.get(number, ())]
    return out, names


def _renamed(raw: bytes, names: dict[str, str]) -> bytes:
    line = read_line(raw)
    new = {key: names[line[key]] for key in ("parentId", "firstKept") if line.get(key) in names}
    return raw if all(line[key] == name for key, name in new.items()) else jsontext.write({**line, **new})


def _copy_blobs(lines: list[bytes], source: Any, target: Any) -> None:
    for raw in lines:
        for found in media.NAME.findall(raw):
            data = source.get(found.decode())
            if data is not None:
                target.put(found.decode(), data)


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


def described(about: Conversation) -> dict[str, Any]:
    """The fields of a conversation in the first line of its session."""
    fields: dict[str, Any] = plain(replace(about, entries=(), head=None))
    return fields


def _first_line(id: str, agent: str, about: Mapping[str, Any]) -> dict[str, Any]:
    own = {"role": "session", "version": transcript.VERSION, "id": id, "createdAt": _now(), "agentId": agent}
    return {**own, **about}


def create_session(store: Store, agent: str, id: str, about: Mapping[str, Any], entries: Sequence[Entry]) -> bool:
    """Creates a session with these entries, each after the one before it, in one write. Returns False if the session
    exists, or if this store or these entries need `Session.open`. `about` is what `described` returns.
    """
    for entry in entries:
        if isinstance(entry.message, CustomMessage) or understood(entry.message) is not None:
            return False

    def lines() -> list[bytes]:
        blobs = store.blobs(agent)
        written = [jsontext.write(_first_line(id, agent, about))]
        for entry in entries:
            line, stored = _readable_line(entry), media.externalize(entry.message, blobs)
            written.append(line if stored is entry.message else encode_line(replace(entry, message=stored)))
        return written

    return store.create(agent, id, lines)


def _readable_line(entry: Entry) -> bytes:
    """The line of an entry; raises FormatError, with the path, if it would be unreadable once written."""
    if not isinstance(entry.message, MessageBase | CustomMessage):
        raise FormatError(f"{type(entry.message).__name__} is not a message; append a UserMessage(content=…)")
    line = encode_line(entry)
    try:
        decode_line(line)
    except BadWire as error:
        raise FormatError(error.message.partition(": ")[2], error.path) from None
    return line


def _revised(raw: bytes) -> Any:
    """The message in a revision line."""
    return build(read_line(raw)["message"], Message, "$.message")


def _is_path(name: str) -> bool:
    return os.sep in name or name.endswith(ENDING) or name.startswith("~")


def _absolute(name: str | Path) -> Path:
    """Returns the absolute path, without following a link at its end; raises ValueError if it is invalid."""
    path = Path(name).expanduser().absolute()
    os.fsencode(path)
    if "\0" in str(path):
        raise ValueError("it contains a NUL character")
    return path


def _now() -> int:
    return int(time.time() * 1000)
