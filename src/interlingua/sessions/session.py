"""A session: a persistent conversation. `append` writes each message before it returns.

The session is a tree of entries in an append-only log. One entry is the head; an appended entry becomes a child of the
head, and the new head. Moving the head back and appending makes a branch. What can be read of it is in `reader`.
"""

import contextlib
import importlib
import os
import secrets
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from ..dialects.files import transcript
from ..dialects.foreign_blocks import meant, understood
from ..values import jsontext
from ..values.canonical import message_of, plain
from ..values.messages import AgentMessage, CustomMessage
from ..values.request import Conversation, Entry, ModelDescriptor
from . import blobs as media
from . import compaction, tree
from .files import ENDING, FileLog, FileStore, make_folder
from .reader import ANY, SessionReader, Sync, checked, now
from .store import (
    EntryExists,
    Log,
    SessionError,
    SessionNotFound,
    StaleHead,
    StaleVersion,
    Store,
    typed,
)
from .summary import is_foreign
from .tree import (
    BLANK,
    ENTRY,
    MARK,
    REVISION,
    ROOT,
    SESSION,
    Branch,
    Note,
    encode_line,
    read_line,
    readable_line,
)

Durability: TypeAlias = Literal["full", "process"]
_DURABILITY: dict[str, Sync] = {"full": "always", "process": "turn"}

_HERE: Any = object()  # default: the head
_MAX_BRANCH_NAME = 200  # characters


class Session(SessionReader):
    """One session, open. Use it as a context manager, or call `close()`."""

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
        too (`full`). `sync` is the same as the moment of syncing to disk: after each append (`always`), on `sync()`
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

    @checked
    def _begin(self, about: Conversation | None) -> None:
        if len(self._log) and is_foreign(self._log.line(0)):
            raise SessionError(
                f"{self._log.where}: another program's session file; import it with `interlingua sessions import`"
            )
        self._about = first_line(self.id, self.agent, {} if about is None else _fields(about))
        if len(self._log) and self._log.place(0).kind == SESSION:
            behind = takewhile(lambda at: self._log.place(at).kind in (SESSION, BLANK), range(1, len(self._log)))
            lines = (read_line(self._log.line(at)) for at in behind if self._log.place(at).kind == SESSION)
            self._about = transcript.with_records(read_line(self._log.line(0)), lines)

    @checked
    def append(
        self,
        message: AgentMessage | Mapping[str, Any],
        *,
        id: str | None = None,
        parent_id: str | None = _HERE,
        parents: Sequence[str] = (),
        branch: str | None = None,
        expect: str | None = ANY,
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
            parent_id, parents, expect = _HERE, (), ANY
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
            parents=tuple(map(self._known_name, parents)),
            extra=extra or {},
        )
        self._insert(entry, sync, branch, readable_line(entry))
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
        """Locks the session unless another thread holds it; yields whether it is locked. Calls inside do not wait."""
        is_locked = self._lock.acquire(blocking=False)
        try:
            yield is_locked
        finally:
            if is_locked:
                self._lock.release()

    def _insert(
        self, entry: Entry, sync: bool | None = None, branch: str | None = None, line: bytes | None = None
    ) -> None:
        """Writes an entry; `line` is its line, if it was encoded already."""
        message: AgentMessage = entry.message
        is_text = isinstance(getattr(message, "content", None), str)  # which holds no media
        stored = message if is_text else media.externalize(message, self._blobs)
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
        self._append_outside_tree(role, target=target, **fields, timestamp=now())

    @checked
    def rewind(self, id: str | None) -> None:
        """Moves the head to another entry, or before the first (None). Removes nothing."""
        target = None if id is None else self._name(self._number(id))
        self._add(jsontext.write({"role": "head", "target": target}))
        self._at = None

    @checked
    def branch(self, at: str | None) -> None:
        """Moves the head like `rewind`, but writes nothing until the next append."""
        self._at = ROOT if at is None else self._number(at)

    @checked
    def set_branch(
        self, name: str, head: str | None, *, expect: str | None = ANY, description: str | None = None
    ) -> Branch:
        """Creates a branch, or moves it to another entry; raises StaleHead if `expect` is not its head.

        `expect=None` matches a branch that does not exist or is empty.
        """
        if not name.strip() or len(name) > _MAX_BRANCH_NAME:
            raise SessionError(f"invalid branch name {name!r}; use 1 to {_MAX_BRANCH_NAME} characters")
        self._log.refresh()
        known = self._marks().branches.get(name)
        at = None if known is None else known.head
        if expect is not ANY and expect != at:
            raise StaleHead(self.where, name, at)
        target = None if head is None else self._name(self._number(head))
        self._mark("branch", target, name=name, description=description)
        return self._marks().branches[name]

    @checked
    def delete_branch(self, name: str) -> None:
        """Deletes a branch name; its entries stay."""
        self._log.refresh()
        if name not in self._marks().branches:
            raise SessionNotFound(f"{self.where}: no branch {name!r}")
        self._mark("branch", None, name=name, deleted=True)

    @checked
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

    @checked
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

    @checked
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

    @checked
    def delete_note(self, note: str) -> None:
        """Deletes a note."""
        self._log.refresh()
        for target, notes in self._marks().notes.items():
            if note in notes:
                self._mark("note", target, note=note, deleted=True)
                return
        raise SessionNotFound(f"{self.where}: no note {note!r}")

    @checked
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
        return self.append(CustomMessage("model", {**given, "timestamp": now()}))

    @checked
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
        return self.append(CustomMessage(compaction.ROLE, {**given, "timestamp": now()}))

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
        self._append_outside_tree("journal", at, kind=kind, callId=call_id, name=name, timestamp=now(), **fields)

    @checked
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
        is_new = not len(log)
        try:
            names = take_over(other, self, numbers, linked)
            for target, label in self.labels().items():
                if target in names:
                    other.label(names[target], label)
        except BaseException:
            other._abandon(is_new)
            raise
        return other

    def _abandon(self, is_new: bool) -> None:
        """Closes the session, and removes it if it `is_new`: what could not be written whole would look whole."""
        if is_new:
            with contextlib.suppress(SessionError):
                self._store.delete(self.agent, self.id)
        self.close(sync=False)

    def sync(self) -> None:
        """Syncs to disk, unless the session was opened with `sync="never"`."""
        if self._sync != "never":
            with typed(self.where):
                self._log.sync()

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


def _fields(about: Conversation) -> dict[str, Any]:
    """The fields of a conversation in the first line of its session."""
    fields: dict[str, Any] = plain(replace(about, entries=(), head=None))
    return fields


def described(about: Conversation) -> bytes:
    """The fields of a conversation in the first line of its session, as JSON for `create_session`."""
    return jsontext.write(_fields(about))


def first_line(id: str, agent: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """The line of a new session that describes it."""
    own = {"role": "session", "version": transcript.VERSION, "id": id, "createdAt": now(), "agentId": agent}
    return {**own, **about}


def _is_path(name: str) -> bool:
    return os.sep in name or name.endswith(ENDING) or name.startswith("~")


def _absolute(name: str | Path) -> Path:
    """Returns the absolute path, without following a link at its end; raises ValueError if it is invalid."""
    path = Path(name).expanduser().absolute()
    os.fsencode(path)
    if "\0" in str(path):
        raise ValueError("it contains a NUL character")
    return path


# --- forks ------------------------------------------------------------------------------------------------------------


def take_over(fork: SessionReader, source: SessionReader, numbers: list[int], linked: bool) -> dict[str, str]:
    """Copies raw lines of a session into a new one, with the notes and revisions of their entries.

    Returns the new names of the entries.
    """
    if len(fork._log):
        raise SessionError(f"{fork.where}: the session already exists; choose another id")
    origin: dict[str, Any] = {"id": source.id} | ({"agent": source.agent} if source.agent != fork.agent else {})
    origin |= ({"entry": source._name(numbers[-1])} if numbers else {}) | ({"linked": True} if linked else {})
    own = {"id": fork.id, "createdAt": now(), "agentId": fork.agent, "forkedFrom": origin}
    fork._about = {**source._about, **own}
    path = [(number, source._log.line(number)) for number in numbers]
    lines, names = _moved(path, source.journal_of(numbers))
    lines += _marks_of(source, names)
    if fork.agent != source.agent or fork._store is not source._store:
        _copy_blobs(lines, source._blobs, fork._blobs)
    fork._log.add([jsontext.write(fork._about), *lines], sync=fork._sync != "never")
    return names


def _marks_of(source: SessionReader, names: dict[str, str]) -> Iterator[bytes]:
    """The lines of notes and revisions of entries, with the new `names` of the entries."""
    for number in source._log.numbers(MARK, REVISION):
        line = read_line(source._log.line(number))
        if line.get("role") in ("note", "revision") and line.get("target") in names:
            own = {key: value for key, value in line.items() if key != "parentId"}
            yield jsontext.write({**own, "target": names[line["target"]]})


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


# --- whole conversations as new sessions ------------------------------------------------------------------------------


def save(conversation: Conversation, *, new_id: Callable[[], str] | None = None, **where: Any) -> Session:
    """Saves a conversation as a new session; takes the arguments of `Session.open`.

    `new_id` generates ids for entries without one; default: random ids.
    """
    session = Session.open(where.pop("id", None), about=conversation, **where)
    is_new = not len(session._log)
    try:
        _write(session, conversation, new_id or (lambda: secrets.token_hex(8)))
    except BaseException:
        session._abandon(is_new)
        raise
    return session


def _write(session: Session, conversation: Conversation, new_id: Callable[[], str]) -> None:
    if len(session._log):
        raise SessionError(f"{session.where}: the session already exists")
    names: dict[str, str | None] = {}
    for entry in tree.placed(conversation, new_id, names):
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


def create_session(store: Store, agent: str, id: str, about: bytes, entries: Sequence[Entry]) -> bool:
    """Creates a session with these entries, each after the one before it, in one write. Returns False if the session
    exists, or if this store or these entries need `Session.open`. `about` is what `described` returns.
    """
    for entry in entries:
        if isinstance(entry.message, CustomMessage) or understood(entry.message) is not None:
            return False

    def lines() -> list[bytes]:
        blobs = store.blobs(agent)
        first = jsontext.write(first_line(id, agent, {}))
        written = [first if about == b"{}" else b"%b,%b" % (first[:-1], about[1:])]
        for entry in entries:
            line, stored = readable_line(entry), media.externalize(entry.message, blobs)
            written.append(line if stored is entry.message else encode_line(replace(entry, message=stored)))
        return written

    return store.create(agent, id, lines)
