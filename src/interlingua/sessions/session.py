"""A session: a conversation that outlives the process. Every message is on disk before `append` returns.

The session is a tree of entries in a log that only grows. It stands at one entry, its head; what is appended becomes a
child of the head, and the head moves there. Moving the head back and appending makes a branch.
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
from ..dialects.foreign_blocks import meant
from ..values import jsontext
from ..values.canonical import build, message_of, plain
from ..values.errors import BadWire, FormatError, InterlinguaError
from ..values.messages import AgentMessage, CustomMessage, Message, Spoken, ToolCall, ToolResultMessage
from ..values.request import Conversation, Entry, ModelDescriptor, Options
from . import blobs as media
from . import compaction, tree
from .executions import Execution, Executions, OpenCall, open_calls
from .files import ENDING, FileLog, FileStore
from .index import StaleIndex
from .lines import decode_line, encode_line, placed, read_line
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
)
from .watching import Watch

Sync: TypeAlias = Literal["always", "turn", "never"]

F = TypeVar("F", bound=Callable[..., Any])

_MARKS = (HEAD, LABEL, MARK, REVISION)  # kinds of lines that say something about entries
_HERE: Any = object()  # the head, wherever it is by then
_REMEMBERED = 256  # entries by which a follower finds its place in a log that was replaced
_ANY: Any = object()  # wherever a branch stands
_LONGEST_NAME = 200  # characters of a branch's name
_OWN = ("role", "version", "id", "createdAt", "agentId", "forkedFrom")  # of the first line: the session's own affair


class UnfinishedCall(NamedTuple):
    """A call without a result on the way to the head. If it `started`, it must not run again.

    `ended` says that the tool came to an end; `result` is its result, where one was saved: in the journal, or as an
    entry of another branch. Where it started and nothing more is known, nobody knows what it did: report that.
    """

    call: ToolCall
    entry_id: str
    started: bool
    ended: bool
    result: Any = None


class Node(NamedTuple):
    """An entry in the tree: the numbers of its line and of its parent's (-1: a root), and whether the head is below it.

    `problem` says what is wrong where the line names another place than the one that it is read at.
    """

    number: int
    parent: int
    entry: Entry
    on_path: bool
    problem: str | None


class Line(NamedTuple):
    """A line of a session: an entry, or fields beside the tree, or what is wrong with it; `kind` is one of `tree`'s."""

    number: int
    kind: int
    entry: Entry | None = None
    fields: dict[str, Any] | None = None
    problem: str | None = None
    id: str | None = None  # of an entry that cannot be read


def _checked(method: F) -> F:
    """One thread at a time; and once more from the ground up, where the index turns out not to fit the file."""

    @functools.wraps(method)
    def called(self: "Session", *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            try:
                return method(self, *args, **kwargs)
            except StaleIndex:
                self._log.rebuild()
                return method(self, *args, **kwargs)

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
        self._at: int | None = None  # the head, where it was moved and nothing was written yet
        self._known = (ROOT, "")  # the number and the id of what was appended last
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
        sync: Sync = "turn",
        about: Conversation | None = None,
    ) -> "Session":
        """Opens a session by its id, or a session file by its path; a new one when it is not there, or without a name.

        `store` is a store or an address (`sqlite:FILE`, `postgresql://…`); files under `home` otherwise. `sync` says
        when the disk is waited for: after each append (`always`), at `sync()` (`turn`), or not (`never`). `about` gives
        a new session its system text, tools, model and options.
        """
        if isinstance(id_or_path, Path) or (id_or_path is not None and _is_path(id_or_path)):
            path = Path(id_or_path).expanduser().absolute()
            kept: Store = FileStore(home, folder=path.parent)
            agent = path.parent.parent.name if path.parent.name == "sessions" else agent
            if create and not read_only:
                path.parent.mkdir(parents=True, exist_ok=True)
            id = path.name.removesuffix(ENDING)
            log: Log = FileLog(path, write=not read_only, create=create)
        else:
            id = id_or_path or str(uuid.uuid4())
            kept = store_at(store, home)
            log = kept.open(agent, id, write=not read_only, create=create)
        session = cls(log, kept, id=id, agent=agent, sync=sync)
        session._owns_store = isinstance(store, str)
        try:
            session._begin(about)
        except BaseException:
            session.close()
            raise
        return session

    def _begin(self, about: Conversation | None) -> None:
        if len(self._log) and is_foreign(self._log.line(0)):
            raise SessionError(f"{self._log.where}: another program's session file; import it first")
        given = {} if about is None else plain(replace(about, entries=(), head=None))
        self._about = {
            "role": "session",
            "version": transcript.VERSION,
            "id": self.id,
            "createdAt": _now(),
            "agentId": self.agent,
            **given,
        }
        if len(self._log) and self._log.place(0).kind == SESSION:
            self._about = read_line(self._log.line(0))

    # --- what is there -----------------------------------------------------------------------------------------------

    @property
    def store(self) -> Store:
        """What keeps the session."""
        return self._store

    @property
    def where(self) -> str:
        """The file, or the place in the database."""
        return self._log.where

    @property
    def about(self) -> dict[str, Any]:
        """The first line: id, time, agent, and what was said of the conversation."""
        return dict(self._about)

    @property
    def base(self) -> Conversation:
        """What was said of the conversation when it began (system text, tools, model, options), without entries."""
        about = {key: value for key, value in self._about.items() if key not in _OWN}
        base: Conversation = build(about, Conversation)
        return base

    @property
    @_checked
    def head(self) -> str | None:
        """The id of the entry at which the session stands; None before the first."""
        at = self._stand
        return None if at == ROOT else self._name(at)

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        """Everything said on the way to the head, in full, without the session's bookkeeping."""
        spoken = (entry.message for entry in self.path())
        return tuple(message for message in spoken if not compaction.is_bookkeeping(message))

    @_checked
    def path(self, *, to: str | None = None, last: int | None = None) -> tuple[Entry, ...]:
        """The entries from the root to an entry (the head, if not given); or the last so many, reading no others."""
        walk = self._walk() if to is None else tree.walk(self._parent, self._number(to))
        return self._entries(_limited(walk, last))

    @_checked
    def path_lines(self, *, to: str | None = None, last: int | None = None) -> list[int]:
        """The numbers of the lines of a path's entries; none of them is read."""
        return _limited(self._walk() if to is None else tree.walk(self._parent, self._number(to)), last)

    @_checked
    def roots(self) -> tuple[Entry, ...]:
        """The entries that follow nothing, in the order in which they came."""
        return self._entries(self._log.children(ROOT))

    @_checked
    def children(self, id: str) -> tuple[Entry, ...]:
        """The entries that follow an entry, in the order in which they came; nothing else is read."""
        return self._entries(self._log.children(self._number(id)))

    @_checked
    def leaves(self) -> tuple[Entry, ...]:
        """The entries that nothing follows: the ends of all branches, named or not."""
        return self._entries(self._log.leaves())

    @_checked
    def entry(self, id: str, *, media: bool = True) -> Entry:
        """One entry, wherever it is in the tree; without `media`, large data stay addresses (`blob:sha256:…`)."""
        return self._entry_at(self._number(id), media_in_place=media)

    @property
    def line_count(self) -> int:
        """The number of lines, those beside the tree included."""
        return len(self._log)

    @property
    def generation(self) -> int:
        """Counts how often the log was replaced or read anew: line numbers of before may mean other lines."""
        return self._log.generation

    @_checked
    def lines(self, since: int = 0, limit: int | None = None, *, revised: bool = True) -> list[Line]:
        """Lines by their number, in order, whatever they are: for readers that show all of a session, page by page.

        Large media stay addresses. Unless `revised`, entries say what they said when they were appended.
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
        """The number of an entry's line."""
        return self._number(id)

    @_checked
    def raw(self, number: int) -> bytes:
        """A line as it is stored."""
        return self._log.line(number)

    @_checked
    def leaf_ids(self) -> tuple[str, ...]:
        """The ids of the leaves, whose messages are not read."""
        return tuple(map(self._name, self._log.leaves()))

    def entries(self, *, since: str | None = None, limit: int | None = None) -> Iterator[Entry]:
        """Entries of the tree in the order in which they came: all, or those after `since`, at most `limit` of them.

        What cannot be read is left out and reported.
        """
        first = 0 if since is None else self._after(since)
        wanted = (entry for entry in map(self._entry_if_any, range(first, len(self._log))) if entry is not None)
        return islice(wanted, limit)

    @_checked
    def _after(self, id: str) -> int:
        return self._number(id) + 1

    @_checked
    def nodes(self) -> tuple[Node, ...]:
        """The tree by the numbers of its lines, as it is read: with what is wrong where an entry says another place."""
        numbers = (number for number in range(len(self._log)) if self._log.place(number).kind >= ENTRY)
        entries = {number: entry for number in numbers if (entry := self._readable(number)) is not None}
        on_path = set(self._walk())
        nodes = []
        for number, entry in entries.items():
            above = next((at for at in tree.walk(self._parent, self._parent(number)) if at in entries), ROOT)
            nodes.append(Node(number, above, entry, number in on_path, self._misplaced(number)))
        return tuple(nodes)

    def _misplaced(self, number: int) -> str | None:
        """What is wrong with the place that a line names."""
        place, line = self._log.place(number), tree.parse_place(self._log.line(number))
        if place.orphan:
            itself = line.parent_id == line.id
            return "names itself as its parent" if itself else f"names the parent {line.parent_id!r}, not before it"
        named = self._log.find(line.id) if isinstance(line.id, str) else number
        return None if named == number else f"line {(named or 0) + 1} has the same id"

    @_checked
    def _entry_if_any(self, number: int) -> Entry | None:
        return self._readable(number) if self._log.place(number).kind >= ENTRY else None

    @_checked
    def context_entries(self, *, to: str | None = None) -> tuple[Entry, ...]:
        """The end of the path to an entry (the head, if not given) that the model's view is made of, and no more."""
        return self._entries(self._context_numbers(self._stand if to is None else self._number(to)))

    def context_messages(self, *, to: str | None = None) -> tuple[AgentMessage, ...]:
        """What a model reads: the latest summary, what it kept, and everything since."""
        return compaction.context(self.context_entries(to=to))

    @_checked
    def conversation(self) -> Conversation:
        """The whole tree as a value, with the head and the present model."""
        base = self.base
        entries = tuple(self._all())
        model = self.model if self._log.count(MODEL) else base.model
        if all(tree.is_positional(entry.id) for entry in entries) and len(entries) == len(self.path()):
            bare = tuple(replace(entry, id=None, parent_id=None) for entry in entries)
            return replace(base, entries=bare, model=model)  # a plain list of messages stays one
        if self.head is None and entries:  # rewound to before the first
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
        """The branch that moves with what is appended; None where the session stands on none."""
        marks = self._marks()
        return marks.current if marks.current in marks.branches else None

    @_checked
    def notes(self, id: str | None = None) -> tuple[Note, ...]:
        """The notes on an entry, or on all, the oldest first."""
        notes = self._marks().notes
        chosen = notes.values() if id is None else [notes.get(self._name(self._number(id)), {})]
        return tuple(note for some in chosen for note in some.values())

    @_checked
    def version(self, id: str) -> int:
        """How often an entry was revised."""
        return len(self._marks().revisions.get(self._name(self._number(id)), ()))

    @_checked
    def versions(self, id: str) -> tuple[AgentMessage, ...]:
        """What an entry said at each version, as it was first and after each revision."""
        number = self._number(id)
        revised = self._marks().revisions.get(self._name(number), [])
        return tuple(self._message_at(number, line) for line in (number, *revised))

    @property
    @_checked
    def marks(self) -> Marks:
        """All that is said of entries beside the tree. It grows with the session: read it, do not keep it."""
        return self._marks()

    @_checked
    def blob(self, name: str) -> bytes | None:
        """The large data of this name; None where it is missing."""
        return self._blobs.get(name)

    def _marks(self) -> Marks:
        """The marks, with what came since; all of them anew where the log was."""
        generation, seen = self._marked_until
        if generation != self._log.generation:
            self._marked, seen = Marks(), 0
        size = len(self._log)
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
        """The model in use: set last on this path, or the one that answered last, or the session's own."""
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
        """What is wrong with the stored lines, and what opening mended."""
        bad = (Problem(number + 1, f"skipped: {self._why_bad(number)}") for number in self._log.numbers(BAD))
        lost = (Problem(number + 1, "names an entry that is not there") for number in self._log.orphans())
        return (*self._log.problems, *bad, *lost, *self._found)

    def _why_bad(self, number: int) -> str:
        try:
            tree.parse_place(self._log.line(number))
        except FormatError as error:
            return error.message
        return "not a line of a session"

    @_checked
    def unfinished_calls(self, *, to: str | None = None) -> tuple[UnfinishedCall, ...]:
        """Calls in the model's view at an entry (the head, if not given) that have no result: what was under way."""
        path = self._context_numbers(self._stand if to is None else self._number(to))
        return tuple(
            UnfinishedCall(one.call, self._name(one.number), known.started, known.ended, self._whole(known.result))
            for one, known in self._executions(path)
        )

    def _executions(self, path: Sequence[int]) -> Iterator[tuple[OpenCall, Execution]]:
        """The calls without a result on a path, and what is known of them, on whichever branch it was recorded."""
        seen: dict[int, Executions] = {}
        for one in open_calls(self._messages_at(path)):
            known = seen.get(one.number) or Executions(self._log, one.number)
            seen[one.number] = known
            yield one, known.of(one.call.id, one.occurrence)

    def _messages_at(self, numbers: Sequence[int]) -> Iterator[tuple[int, AgentMessage]]:
        """Answers and results alone; without what blobs hold."""
        for number in numbers:
            if self._log.place(number).kind in (ASSISTANT, RESULT):
                with contextlib.suppress(InterlinguaError):
                    yield number, self._entry_at(number, media_in_place=False).message

    def _whole(self, result: dict[str, Any] | None) -> dict[str, Any] | None:
        """A result as it was before its large data was moved to the blobs; None where it cannot be read."""
        if result is None:
            return None
        try:
            message: ToolResultMessage = build(result, ToolResultMessage)
        except FormatError:
            return None
        whole: dict[str, Any] = plain(media.bring_back(message, self._blobs)[0])
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
        """Adds a message (or its JSON) behind the head (or `parent_id`; None begins a new root); the head moves to it.

        With `branch` it goes behind the head of that branch, which moves along; `expect` refuses if that is not where
        the branch stands. `parents` are the further parents of a merge. When it returns, the message is saved; on disk
        too, if the session syncs `always` or `sync` is true.
        """
        *earlier, message = meant([message_of(message)])
        for one in earlier:  # results that shared a message in another wire's words
            self.append(one, parent_id=parent_id, parents=parents, branch=branch, expect=expect, sync=sync)
            parent_id, parents, expect = _HERE, (), _ANY
        if isinstance(message, CustomMessage) and tree.kind_of_message(message) < ENTRY:
            raise SessionError(f"the role {message.role!r} is the session's own: a message cannot have it")
        self._log.refresh()
        if branch is not None:
            parent = self._branch_end(branch, expect)
        else:
            parent = self._stand if parent_id is _HERE else ROOT if parent_id is None else self._number(parent_id)
            branch = self._moving_branch(parent)
        if id is not None and self._log.find(id) is not None:
            raise EntryExists(f"{self.where}: there is an entry {id!r} already; choose another id, or revise it")
        made = Entry(
            message=message,  # type: ignore[arg-type]
            id=id or secrets.token_hex(8),
            parent_id=None if parent == ROOT else self._name(parent),
            parents=tuple(self._name(self._number(one)) for one in parents),
            extra=extra or {},
        )
        _refuse_unreadable(made)
        self._insert(made, sync, branch)
        return made

    def _branch_end(self, name: str, expect: str | None) -> int:
        """The entry at which a branch stands, if that is the one expected."""
        known = self._marks().branches.get(name)
        if known is None:
            raise SessionNotFound(f"{self.where}: no branch {name!r}; make it with set_branch or checkout")
        if expect is not _ANY and expect != known.head:
            raise StaleHead(self.where, name, known.head)
        return ROOT if known.head is None else self._number(known.head)

    def _moving_branch(self, parent: int) -> str | None:
        """The branch on which the session stands, if an entry behind `parent` moves it on."""
        name = self.current_branch
        return name if name is not None and self._branch_end(name, _ANY) == parent else None

    def _insert(self, entry: Entry, sync: bool | None = None, branch: str | None = None) -> None:
        message: AgentMessage = entry.message
        stored = media.put_away(message, self._blobs)
        root = entry.parent_id is None and self._log.stand != ROOT
        lines = [encode_line(entry if stored is message else replace(entry, message=stored), root=root)]
        if branch is not None:  # in the same write: the branch and its commit are there together, or neither is
            lines.append(jsontext.write({"role": "branch", "name": branch, "target": entry.id, "parentId": entry.id}))
        self._add(*lines, sync=sync)
        self._at, self._known = None, (self._log.stand, entry.id or "")

    def _add(self, *lines: bytes, sync: bool | None = None) -> None:
        """Writes lines, after the session's own if they are the first."""
        first = () if len(self._log) else (jsontext.write(self._about),)
        self._log.add([*first, *lines], sync=self._sync == "always" if sync is None else sync)

    def _aside(self, role: str, parent: str | None = _HERE, /, **fields: Any) -> None:
        """A line beside the tree. It says where the session stands, or `parent`."""
        head = self.head if parent is _HERE else parent
        given = {key: value for key, value in fields.items() if value is not None or key == "target"}
        self._add(jsontext.write({"role": role, **given} | ({"parentId": head} if head is not None else {})))

    def _mark(self, role: str, target: str | None, **fields: Any) -> None:
        """A line about an entry, with its time."""
        self._aside(role, target=target, **fields, timestamp=_now())

    @_checked
    def rewind(self, id: str | None) -> None:
        """Moves the head to an earlier entry, or before the first (None). Nothing is removed."""
        target = None if id is None else self._name(self._number(id))
        self._add(jsontext.write({"role": "head", "target": target}))
        self._at = None

    @_checked
    def branch(self, at: str | None) -> None:
        """Moves the head as `rewind` does, but writes nothing: what is appended next makes it last."""
        self._at = ROOT if at is None else self._number(at)

    @_checked
    def set_branch(
        self, name: str, head: str | None, *, expect: str | None = _ANY, description: str | None = None
    ) -> Branch:
        """Makes a named branch, or moves it to another entry; `expect` refuses if it stands elsewhere than that.

        `expect=None` also means that there is no such branch yet, or that nothing was committed to it.
        """
        if not name.strip() or len(name) > _LONGEST_NAME:
            raise SessionError(f"{name!r} is no name for a branch; use 1 to {_LONGEST_NAME} characters")
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
        """Takes the name away; the entries stay."""
        self._log.refresh()
        if name not in self._marks().branches:
            raise SessionNotFound(f"{self.where}: no branch {name!r}")
        self._mark("branch", None, name=name, deleted=True)

    @_checked
    def checkout(self, name: str, *, create: bool = False, at: str | None = _HERE) -> Branch:
        """Stands on a branch: what is appended goes behind its head, and the branch moves along.

        With `create` the branch is made first, at the entry `at` (the present head, if not given).
        """
        self._log.refresh()
        known = self._marks().branches.get(name)
        if known is None:
            if not create:
                raise SessionNotFound(f"{self.where}: no branch {name!r}; make it with create=True")
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
        """Puts another message in the place of an entry's, and returns its new version. What it was stays in the log.

        `version` refuses if the entry was revised since it had that version. `parents` are other further parents of a
        merge, where they became known later; `extra` is another extra of the entry.
        """
        if tree.kind_of_message(message) < ENTRY:
            raise SessionError(f"the role {message.role!r} is the session's own: a message cannot have it")
        self._log.refresh()
        name = self._name(self._number(id))
        present = len(self._marks().revisions.get(name, ()))
        if version is not None and version != present:
            raise StaleVersion(self.where, name, present)
        stored = media.put_away(message, self._blobs)
        further = None if parents is None else [self._name(self._number(one)) for one in parents]
        self._mark("revision", name, version=present + 1, message=plain(stored), parents=further, entryExtra=extra)
        return present + 1

    @_checked
    def note(self, id: str, text: str | None = None, *, rating: int | None = None, by: str | None = None) -> Note:
        """Puts a note on an entry, or a rating of it: -1, 0 or 1."""
        if rating not in (None, -1, 0, 1):
            raise SessionError(f"a rating is -1, 0 or 1, not {rating!r}")
        if rating is None and not (text or "").strip():
            raise SessionError("an empty note says nothing; give a text or a rating")
        self._log.refresh()
        name, own = self._name(self._number(id)), secrets.token_hex(8)
        self._mark("note", name, note=own, text=text, rating=rating, by=by)
        return self._marks().notes[name][own]

    @_checked
    def delete_note(self, note: str) -> None:
        """Takes a note back."""
        self._log.refresh()
        for target, notes in self._marks().notes.items():
            if note in notes:
                self._mark("note", target, note=note, deleted=True)
                return
        raise SessionNotFound(f"{self.where}: no note {note!r}")

    @_checked
    def label(self, id: str | None, text: str | None) -> None:
        """Names an entry, or takes its name away (None); without an id, names the session."""
        target = {} if id is None else {"target": self._name(self._number(id))}
        self._aside("label", **target, label=text)

    def set_model(self, model: ModelDescriptor | str, *, provider: str | None = None, options: Any = None) -> Entry:
        """From here on the session talks to another model; `options` are kept with it."""
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
        """Puts a summary in the place of everything before `first_kept`, for the model; None keeps nothing before it.

        The entries stay where they are.
        """
        if not summary.strip():
            raise SessionError("an empty summary would lose the conversation; nothing was changed")
        if first_kept is not None and not self._is_on_path(self._number(first_kept)):
            raise SessionError(f"{self.where}: {first_kept!r} is not on the way to the head")
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
        """Notes what a run does (`tool_start`, `tool_end`), for whoever has to go on after a crash.

        `at` is the entry at which the run stands, if that is not the head: several may run on branches of their own.
        """
        self._aside("journal", at, kind=kind, callId=call_id, name=name, timestamp=_now(), **fields)

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
        """A new session with the path to `at` (the head, if not given), open for writing; this one stays as it is.

        It knows which calls on that path have been run, so none of them is run again. It is kept in `store` (this
        one's, if not given). `linked` says that it goes on for this session, which cannot be written: viewers show both
        as one tree. An `empty` one takes nothing of the path along.
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
        """Lines as they are, and the labels of their entries."""
        if len(self._log):
            raise SessionError(f"{self.where}: there is a session already")
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
        """The notes and revisions of some entries, as lines for a session in which the entries have these names."""
        for number in self._log.numbers(MARK, REVISION):
            line = read_line(self._log.line(number))
            if line.get("role") in ("note", "revision") and line.get("target") in names:
                own = {key: value for key, value in line.items() if key != "parentId"}
                yield jsontext.write({**own, "target": names[line["target"]]})

    def journal_of(self, path: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
        """Journal lines with what is known of the calls without a result on a path, by the number of their entry."""
        journal: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
        for (number, call, _), known in self._executions(path):
            journal[number] += known.notes(call, _now())
        return journal

    @_checked
    def open_journal(self) -> tuple[CustomMessage, ...]:
        """What is known of `unfinished_calls()`, as the journal says it: for a copy of what a model reads."""
        notes = (note for notes in self.journal_of(self._context_numbers(self._stand)).values() for note in notes)
        return tuple(CustomMessage("journal", {k: v for k, v in note.items() if k != "role"}) for note in notes)

    def sync(self) -> None:
        """Waits until everything is on disk, unless the session was opened with `sync="never"`."""
        if self._sync != "never":
            self._log.sync()

    def refresh(self) -> None:
        """Takes in what another process has appended: for readers that stay open."""
        with self._lock:
            self._log.refresh()

    def watch(self) -> Watch:
        """Waits for what others append, on an event loop; `refresh` then takes it in."""
        return self._log.watch()

    async def follow(self, *, since: str | None = None) -> AsyncGenerator[Entry, None]:
        """The entries that others append, as they come: those after `since`, else those after this moment.

        It ends only with its reader. What is not finished is not in the log, so it is not seen here.
        """
        watch = self.watch()
        try:
            at = self._after(since) if since is not None else self.line_count
            seen = deque(line.entry.id for line in self.lines(max(0, at - _REMEMBERED), _REMEMBERED) if line.entry)
            generation = self.generation
            while True:
                await asyncio.to_thread(self.refresh)
                if self.generation != generation:  # other lines have these numbers now: go on behind what was seen
                    generation, at = self.generation, self._behind(seen)
                for number in range(at, self.line_count):
                    found = self._entry_if_any(number)
                    at = number + 1
                    if found is not None:
                        seen.append(found.id)
                        if len(seen) > _REMEMBERED:
                            seen.popleft()
                        yield found
                await watch.wait()
        finally:
            watch.close()

    def _behind(self, seen: Iterable[str | None]) -> int:
        """The line behind the latest entry of these that is still there."""
        for id in reversed(list(seen)):
            with contextlib.suppress(SessionNotFound):
                return self._after(id or "")
        return 0

    def open_canvas(self, *, browser: bool = True) -> Any:
        """Shows the session on a canvas: in the browser, and as what this gives in a notebook.

        The canvas is the one that runs for this home, or one beside this program, which ends with it.
        """
        show = importlib.import_module("interlingua.canvas.opened").show  # a program: imported on first use
        return show(self, browser=browser)

    def close(self) -> None:
        """Ends the session; the next writer may begin."""
        with self._lock:
            try:
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
    def _stand(self) -> int:
        return self._log.stand if self._at is None else self._at

    def _parent(self, number: int) -> int:
        return self._log.place(number).parent

    def _walk(self) -> Iterator[int]:
        return tree.walk(self._parent, self._stand)

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

    def _context_numbers(self, at: int) -> list[int]:
        """From an entry back to what the latest compaction kept first; to the root where there is none."""
        numbers: list[int] = []
        kept: int | None = None
        for number in tree.walk(self._parent, at):
            if kept is not None and number < kept:
                break
            numbers.append(number)
            if kept is None and self._log.place(number).kind == COMPACTION:
                first = compaction.first_kept_of(decode_line(self._log.line(number)).message)
                found = None if first is None else self._log.find(first)
                kept = number if found is None else found
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
        parent = self._parent(number)
        orphan = self._log.place(number).orphan
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
        """What an entry said: at first, or in the revision of that line."""
        raw = self._log.line(line)
        message: AgentMessage = decode_line(raw).message if line == number else _revised(raw)
        return self._with_media(number, message) if media.NAME.search(raw) else message

    def _with_media(self, number: int, message: AgentMessage) -> Any:
        message, missing = media.bring_back(message, self._blobs)
        for name in missing:
            self._report(Problem(number + 1, f"the blob {name} is missing: its block holds the address alone"))
        return message

    def _report(self, problem: Problem) -> None:
        if problem not in self._found:
            self._found.append(problem)

    def _refuse_damage(self, before: int) -> None:
        bad = [number + 1 for number in self._log.numbers(BAD, first=1) if number <= before]
        if bad:
            raise SessionDamaged(
                f"{self.where}: line {bad[0]} cannot be read and would be lost;"
                " repair the file first: interlingua doctor FILE -o NEW"
            )


def store_at(store: Store | str | None, home: str | Path | None = None) -> Store:
    """A store by its address: `sqlite:FILE`, `postgresql://…`; the files under `home` where none is given."""
    if store is None:
        return FileStore(home)
    if not isinstance(store, str):
        return store
    if store.startswith("sqlite:"):
        from .sqlite import sqlite_store

        return sqlite_store(store.removeprefix("sqlite:").removeprefix("//"))
    if store.startswith(("postgresql:", "postgres:")):
        from .postgres import postgres_store

        return postgres_store(store)
    raise SessionError(f"{store!r} is no address of a store: write sqlite:FILE or postgresql://HOST/NAME")


def save(conversation: Conversation, *, new_id: Callable[[], str] | None = None, **where: Any) -> Session:
    """A new session that holds a conversation; takes what `Session.open` takes.

    `new_id` makes the ids of entries that have none; random ones otherwise.
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
        raise SessionError(f"{session.where}: there is a session already")
    names: dict[str, str | None] = {}
    for entry in placed(conversation, new_id, names):
        message: AgentMessage = entry.message
        if entry.id is not None:
            session._insert(entry)
        elif isinstance(message, CustomMessage) and message.role == "head":
            session._add(jsontext.write({"role": "head", **message.fields}))
        elif isinstance(message, CustomMessage):
            session._aside(message.role, entry.parent_id, **message.fields, entryExtra=entry.extra or None)
    head = session.head if conversation.head is None else names.get(conversation.head, session.head)
    if head != session.head:
        session.rewind(head)


def _moved(
    path: list[tuple[int, bytes]], journal: dict[int, list[dict[str, Any]]]
) -> tuple[list[bytes], dict[str, str]]:
    """Raw lines of a path for a file of their own, each with its journal, and what their entries are called there.

    Entries that are named by their line get another name, so lines that refer to them are written anew.
    """
    names: dict[str, str] = {}
    out: list[bytes] = []
    for number, raw in path:
        given = tree.parse_place(raw)
        out.append(
            _renamed(raw, names) if tree.is_positional(given.parent_id) or given.role == compaction.ROLE else raw
        )
        id = given.id if isinstance(given.id, str) else tree.positional(number)
        names[id] = (
            given.id if isinstance(given.id, str) else tree.positional(len(out))
        )  # behind the session's own line
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


def _refuse_unreadable(entry: Entry) -> None:
    """Raises FormatError, with the place, for a message that could be written and not read again."""
    if not isinstance(entry.message, Spoken | CustomMessage):
        raise FormatError(f"{type(entry.message).__name__} is no message; append a UserMessage(content=…)")
    try:
        decode_line(encode_line(entry))
    except BadWire as error:
        raise FormatError(error.message.partition(": ")[2], error.path) from None


def _revised(raw: bytes) -> Any:
    """The message that a revision puts in the place of an entry's."""
    return build(read_line(raw)["message"], Message, "$.message")


def _is_path(name: str) -> bool:
    return os.sep in name or name.endswith(ENDING) or name.startswith("~")


def _now() -> int:
    return int(time.time() * 1000)
