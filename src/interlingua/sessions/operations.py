"""The operations behind the commands `sessions` and `doctor`, as functions.

A session is given by its id, a prefix of its id, or its file; None is the latest one. `agent`, `home` and `store`
select the sessions, as in `Session.open`.
"""

import contextlib
import datetime
import hashlib
import os
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, TypedDict, Unpack, get_args

from msgspec.structs import replace

from .. import conversion
from ..conversion import local_files, sources
from ..conversion.sources import SourceProblem
from ..values import jsontext
from ..values.canonical import dump
from ..values.errors import FormatError, InterlinguaError, unknown
from ..values.losses import Encoded, Lines
from ..values.places import home as default_home
from ..values.regular import stream_regular
from ..values.request import Conversation, Entry
from . import compaction, gc
from .archive import OWN
from .archive_index import ArchiveIndex
from .cards import Total
from .files import ENDING, FileStore
from .gc import Collected, Purged
from .repair import Examined, examine
from .session import Session, save, store_at
from .store import Deleted, SessionError, SessionInfo, SessionNotFound, Store, typed
from .summary import is_foreign
from .text_index import Results
from .texts import Query

_MAX_FIRST_LINE = 16 << 20  # bytes
View: TypeAlias = Literal["tree", "path", "context"]
"""All entries; those on the path to the head; or what the model reads, after compaction."""


class Where(TypedDict, total=False):
    """Selects sessions: those of an agent (default: `main`) in a store (default: the files under `home`)."""

    agent: str
    home: str | Path | None
    store: Store | str | None


class _Place:
    """The sessions of one agent in an open store."""

    def __init__(self, store: Store, agent: str, home: str | Path | None) -> None:
        self.store = store
        self.agent = agent
        self.home = home

    @property
    def canvas_home(self) -> Path:
        """The home whose canvas shows these sessions."""
        return default_home() if self.home is None else Path(self.home)

    def ids(self) -> list[str]:
        """The latest first."""
        if isinstance(self.store, FileStore):
            return self.store.ids(self.agent)  # reads no session
        return [info.id for info in self.store.sessions(self.agent)]

    def id_of(self, name: str | None) -> str:
        ids = self.ids()
        if name is not None:
            return _matching(name, ids, self.agent)
        if not ids:
            raise SessionNotFound(f"no session of agent {self.agent!r} yet")
        return ids[0]

    @contextlib.contextmanager
    def index(self) -> Iterator[ArchiveIndex]:
        """The search index: for files that of the home, shared with canvas and archive; else a temporary one."""
        with contextlib.ExitStack() as ends:
            if isinstance(self.store, FileStore):
                path = self.store.home / "canvas" / "search.db"
            else:
                path = Path(ends.enter_context(tempfile.TemporaryDirectory())) / "search.db"
            yield ends.enter_context(contextlib.closing(ArchiveIndex(path, {OWN: self.store})))


@contextlib.contextmanager
def _place(where: Where) -> Iterator[_Place]:
    for name in where:
        if name not in Where.__annotations__:
            raise SessionError(unknown("option", name, Where.__annotations__))
    given, home = where.get("store"), where.get("home")
    store = store_at(given, home)
    try:
        yield _Place(store, where.get("agent", "main"), home)
    finally:
        if store is not given:  # a store that was passed in stays open
            store.close()


def _matching(name: str, ids: Iterable[str], agent: str, what: str = "session") -> str:
    """Returns the id by itself or by its prefix."""
    ids = list(ids)
    found = [name] if name in ids else [id for id in ids if id.startswith(name)]
    if len(found) > 1:
        raise SessionError(f"ambiguous {what} {name!r}: {', '.join(sorted(found)[:5])}; give more of the id")
    if not found:
        listed = "logs" if agent == "run" else "sessions list" if agent == "main" else f"sessions list --agent {agent}"
        raise SessionNotFound(f"no {what} {name!r} of agent {agent!r}; see: interlingua {listed}")
    return found[0]


def _is_file(name: str | Path | None) -> bool:
    return isinstance(name, Path) or (name is not None and ("/" in name or os.sep in name or name.endswith(ENDING)))


# --- finding and reading ---------------------------------------------------------------------------------------------


def list_sessions(
    agent: str | None = "main",
    *,
    limit: int | None = None,
    home: str | Path | None = None,
    store: Store | str | None = None,
) -> list[SessionInfo]:
    """The sessions of an agent, or with None of all agents, the latest first."""
    if limit is not None and limit < 0:
        raise SessionError(f"limit {limit} is negative; give 0 or more")
    with _place({"home": home, "store": store}) as place:
        agents = place.store.agents() if agent is None else [agent]
        found = [info for one in agents for info in place.store.sessions(one)]
    return sorted(found, key=lambda info: -info.modified)[:limit]


def find_sessions(
    names: str | Iterable[str] | None = None, *, before: datetime.datetime | None = None, **where: Unpack[Where]
) -> list[str]:
    """Returns the ids of the named sessions (default: all), or of those that have not changed since `before`."""
    names = [names] if isinstance(names, str) else names
    with _place(where) as place:
        ids = place.ids()
        if names is not None:
            ids = list(dict.fromkeys(_matching(name, ids, place.agent) for name in names))
        if before is None:
            return ids
        changed = {info.id: info.modified for info in place.store.sessions(place.agent)}
    return [id for id in ids if changed[id] < before.timestamp() * 1000]


@contextlib.contextmanager
def open_session(name: str | Path | None = None, *, write: bool = False, **where: Unpack[Where]) -> Iterator[Session]:
    """An existing session, for reading or writing."""
    with _place(where) as place:
        if isinstance(name, Path) or _is_file(name):
            opened = Session.open(Path(name or ""), home=place.home, create=False, read_only=not write)
        else:
            id = place.id_of(name)
            opened = Session.open(id, agent=place.agent, store=place.store, create=False, read_only=not write)
        with opened:
            yield opened


def foreign_file(name: str | Path | None = None, **where: Unpack[Where]) -> Path | None:
    """The file of a session that another program wrote; None if it is one of ours."""
    path = Path(name or "")
    if not isinstance(name, Path) and not _is_file(name):
        with _place(where) as place, contextlib.suppress(SessionNotFound):
            id = place.id_of(name)
            path = next(Path(info.where or id) for info in place.store.sessions(place.agent) if info.id == id)
    with typed(path):
        if not path.is_file():
            return None
        with stream_regular(path) as stream:
            return path if is_foreign(stream.readline(_MAX_FIRST_LINE)) else None


def read_session(
    name: str | Path | None = None, *, view: View = "tree", last: int | None = None, **where: Unpack[Where]
) -> Conversation:
    """A session, or another program's session file, as a conversation. `last` limits the path to its last entries."""
    foreign = foreign_file(name, **where)
    if foreign is not None:
        return conversion.decode(sources.read_all(sources.Source(foreign)))
    with open_session(name, **where) as session:
        return view_of(session, view, last)


def view_of(session: Session, view: View = "tree", last: int | None = None) -> Conversation:
    """A view of an open session: all of it, the path to its head, or what the model reads."""
    if view not in get_args(View):
        raise SessionError(f"unknown view {view!r}; valid views: {', '.join(get_args(View))}")
    if view == "tree":
        return session.conversation()
    if view == "context":  # with the journal of calls without a result
        messages = (*session.context_messages(), *session.open_journal())
        return replace(session.base, entries=tuple(Entry(message=message) for message in messages))  # type: ignore[arg-type]
    entries = (replace(entry, id=None, parent_id=None) for entry in session.path(last=last))
    return replace(session.base, entries=tuple(e for e in entries if not compaction.is_bookkeeping(e.message)))


def search_sessions(text: str, *, model: str | None = None, limit: int = 20, **where: Unpack[Where]) -> Results:
    """The texts that match, the latest first. All terms must match; `"a phrase"` and `-word` work, too."""
    with _place(where) as place, place.index() as index:
        index.follow(agent=place.agent)
        return index.search(Query(text=text, agent=place.agent, model=model, stores=(OWN,), limit=limit))


class SessionTotals(NamedTuple):
    """Responses, tokens and cost: of each model or day, and in total."""

    rows: list[Total]
    all: list[Total]


def session_totals(by: Literal["model", "day"] = "model", **where: Unpack[Where]) -> SessionTotals:
    """Counts responses, tokens and cost; a response that was copied to other sessions counts once."""
    with _place(where) as place, place.index() as index:
        index.follow(agent=place.agent)
        query = Query(agent=place.agent, stores=(OWN,))
        return SessionTotals(index.totals(by, query), index.totals("all", query))


# --- import and export -----------------------------------------------------------------------------------------------


class ImportedSession(NamedTuple):
    """A session, and the file (and line) that it was made from; `existed` if an earlier import had made it."""

    source: str
    id: str
    where: str
    messages: int
    existed: bool = False


class Imported(NamedTuple):
    """The sessions; `problems` are the conversations that could not be read or saved."""

    sessions: list[ImportedSession]
    problems: list[SourceProblem]


def import_sessions(
    inputs: str | Path | Iterable[str | Path],
    *,
    dialect: str | None = None,
    id: str | None = None,
    again: bool = False,
    **where: Unpack[Where],
) -> Imported:
    """Saves the conversations of files, folders or globs, in any format, as new sessions.

    `dialect` is their format; it is detected if not given. `id` is the id of the new session; by default it depends on
    the conversation, so that one that was imported before is found, and not saved a second time unless `again`.
    """
    given = [inputs] if isinstance(inputs, str | Path) else [*inputs]
    if not given:
        raise SessionError("nothing to import; give files, folders or globs")
    done, problems = list[ImportedSession](), list[SourceProblem]()
    with _place(where) as place:
        for source in sources.expand(map(str, given)):
            for document in sources.documents(source, dialect, problems):
                try:
                    conversation = conversion.decode(document.data, dialect or document.dialect)
                    done.append(_import(place, document.name, conversation, id, again))
                except InterlinguaError as error:
                    problems.append(SourceProblem(document.name, str(error)))
    return Imported(done, problems)


def _import(place: _Place, name: str, conversation: Conversation, id: str | None, again: bool) -> ImportedSession:
    """Saves a conversation as a session, unless an earlier import has done it."""
    count = _messages_in(conversation.entries)
    if id is None and not again:
        seen = hashlib.sha256(dump(conversation))
        with contextlib.suppress(SessionNotFound):
            while True:
                id = str(uuid.UUID(bytes=seen.digest()[:16], version=5))
                with _read_only(place, id) as session:
                    if _messages_in(session.entries()) >= count:
                        return ImportedSession(name, id, session.where, count, existed=True)
                seen.update(b"again")  # the one that has it is of an import that was cut off
    with save(conversation, id=id, agent=place.agent, store=place.store) as session:
        return ImportedSession(name, session.id, session.where, count)


def _messages_in(entries: Iterable[Entry]) -> int:
    return sum(not compaction.is_bookkeeping(entry.message) for entry in entries)


def _read_only(place: _Place, id: str) -> Session:
    return Session.open(id, agent=place.agent, store=place.store, create=False, read_only=True)


def export_session(
    name: str | Path | None,
    to: str,
    *,
    output: str | Path | None = None,
    view: View = "tree",
    strict: bool = False,
    **where: Unpack[Where],
) -> Encoded:
    """Encodes a session in another format, with the losses. `output` is a file to write; `strict` raises for a loss."""
    source = foreign_file(name, **where)
    conversation = read_session(name, view=view, **where)
    if output is not None:
        if source is None:
            with open_session(name, **where) as session:
                source = Path(session.where)
        local_files.refuse_inputs(Path(output), [source])
    encoded = conversion.encode(conversation, to, strict=strict)
    if output is not None:
        with local_files.atomic(Path(output)) as stream:
            stream.write(payload_of(encoded))
    return encoded


def payload_of(encoded: Encoded) -> bytes:
    """Returns the bytes of a file with an encoded conversation: they end with a newline."""
    return encoded.bytes() + (b"" if isinstance(encoded.body, Lines) else b"\n")


# --- changing --------------------------------------------------------------------------------------------------------


class ForkedSession(NamedTuple):
    """A new session with the path to an entry of another."""

    id: str
    where: str
    head: str | None
    forked_from: str


def fork_session(
    name: str | Path | None = None, at: str | None = None, *, id: str | None = None, **where: Unpack[Where]
) -> ForkedSession:
    """Copies the path to the entry `at` (default: the head) into a new session."""
    with open_session(name, **where) as session, session.fork(at, id=id) as other:
        return ForkedSession(other.id, other.where, other.head, session.id)


class SummaryRequest(NamedTuple):
    """The prompt that asks a model for the summary of the older part of a session."""

    id: str
    first_kept: str | None
    tokens_before: int
    prompt: str


class CompactedSession(NamedTuple):
    """A session whose older part the model reads as a summary, and the approximate size of what it reads."""

    id: str
    first_kept: str | None
    tokens_before: int
    tokens_after: int


def summary_request(
    name: str | Path | None = None,
    *,
    keep: int = compaction.KEEP_RECENT_TOKENS,
    focus: str | None = None,
    **where: Unpack[Where],
) -> SummaryRequest:
    """Returns the prompt for a summary; `compact_session` takes the model's response."""
    with open_session(name, **where) as session:
        cut = _cut(session, keep)
        return SummaryRequest(session.id, cut.first_kept, cut.tokens_before, _prompt(cut, focus))


def compact_session(
    name: str | Path | None,
    summary: str | Callable[[str], str],
    *,
    keep: int = compaction.KEEP_RECENT_TOKENS,
    focus: str | None = None,
    **where: Unpack[Where],
) -> CompactedSession:
    """Replaces all but the latest `keep` tokens by a summary in what the model reads; the session keeps every entry.

    `summary` is the text, or a function that takes the prompt and returns it. Raises SessionError if there is nothing
    to summarize.
    """
    with open_session(name, write=True, **where) as session:
        cut = _cut(session, keep)
        text, details = compaction.finished(cut, summary(_prompt(cut, focus)) if callable(summary) else summary)
        session.compact(text, cut.first_kept, tokens_before=cut.tokens_before, details=details)
        after = compaction.context_tokens(session.context_entries())
        return CompactedSession(session.id, cut.first_kept, cut.tokens_before, after)


def _cut(session: Session, keep: int) -> compaction.CompactionCut:
    cut = compaction.cut(session.context_entries(), keep)
    if cut is None:
        raise SessionError(f"{session.id}: nothing to summarize beyond the {keep:,} kept tokens")
    return cut


def _prompt(cut: compaction.CompactionCut, focus: str | None) -> str:
    """One prompt for everything to summarize."""
    return compaction.summary_request(cut._replace(summarize=(*cut.summarize, *cut.prefix), prefix=()), focus=focus)


# --- deleting --------------------------------------------------------------------------------------------------------


class DeletedSessions(NamedTuple):
    """The deleted sessions, and until when each can be restored (milliseconds; None if it is permanently removed)."""

    until: dict[str, int | None]
    problems: list[SourceProblem]


def delete_sessions(names: str | Iterable[str], *, purge: bool = False, **where: Unpack[Where]) -> DeletedSessions:
    """Deletes sessions; `restore_sessions` restores them within a week, unless `purge` removes them at once.

    Their texts are removed from the search index immediately. `find_sessions` selects them by age.
    """
    ids = find_sessions(names, **where)
    done, problems = dict[str, int | None](), list[SourceProblem]()
    with _place(where) as place, place.index() as index:
        for id in ids:
            try:
                gone = gc.delete(place.store, place.agent, id, index=index)
            except SessionError as error:
                problems.append(SourceProblem(id, str(error)))
                continue
            done[id] = None if purge else gone.at + int(gc.UNDO * 1000)
        for one in place.store.trashed(place.agent) if purge else ():
            if one.id in done:
                gc.purge_one(place.store, place.agent, one, home=place.canvas_home)
        gc.purge(place.store, place.agent, home=place.canvas_home)
    return DeletedSessions(done, problems)


def deleted_sessions(**where: Unpack[Where]) -> list[Deleted]:
    """The deleted sessions that can be restored, the latest first."""
    with _place(where) as place:
        return sorted(place.store.trashed(place.agent), key=lambda one: -one.at)


def restore_sessions(names: str | Iterable[str], **where: Unpack[Where]) -> list[Deleted]:
    """Restores deleted sessions."""
    with _place(where) as place:
        kept = {one.id: one for one in sorted(place.store.trashed(place.agent), key=lambda one: one.at)}
        given = [names] if isinstance(names, str) else names
        ids = [_matching(name, kept, place.agent, "deleted session") for name in given]
        for id in ids:
            gc.restore(place.store, place.agent, id)
    return [kept[id] for id in ids]


def purge_sessions(*, everything: bool = False, **where: Unpack[Where]) -> Purged:
    """Permanently removes sessions deleted more than a week ago, or with `everything` all deleted ones."""
    undo, grace = (0.0, 0.0) if everything else (gc.UNDO, gc.DELETION_GRACE)
    with _place(where) as place:
        return gc.purge(place.store, place.agent, undo=undo, grace=grace, home=place.canvas_home)


class CollectedGarbage(NamedTuple):
    """The removed entries of each session, and the removed blobs."""

    sessions: dict[str, Collected]
    blobs: Collected
    problems: list[SourceProblem]


def collect_garbage(
    names: str | Iterable[str] | None = None,
    *,
    branches: bool = False,
    keep_backup: bool = True,
    grace: float = gc.BLOB_GRACE,
    **where: Unpack[Where],
) -> CollectedGarbage:
    """Removes blobs that no session references; with `branches` also dead branches, of the named sessions or of all."""
    if names is not None and not branches:
        raise SessionError("sessions given, but no branches; add branches=True to remove their dead branches")
    done, problems = dict[str, Collected](), list[SourceProblem]()
    ids = find_sessions(names, **where) if branches else []
    with _place(where) as place:
        for id in ids:
            try:
                done[id] = gc.collect_branches(place.store, place.agent, id, delete=not keep_backup)
            except SessionError as error:
                problems.append(SourceProblem(id, str(error)))
        blobs = gc.collect_blobs(place.store, place.agent, grace=grace)
    return CollectedGarbage(done, blobs, problems)


# --- repair ----------------------------------------------------------------------------------------------------------


def repair_session(
    source: str | Path | bytes, output: str | Path | None = None, *, overwrite: bool = False
) -> Examined:
    """Returns the defects of a session file, and its repaired bytes; `output` is a new file for them.

    The file itself is never changed. Raises InterlinguaError if it is not a session file.
    """
    path = None if isinstance(source, bytes) else Path(source)
    data = source if isinstance(source, bytes) else sources.read_all(sources.Source(path))
    _refuse_other_formats("<stdin>" if path is None else str(path), data)
    found = examine(data)
    if output is not None:
        target = Path(output)
        if path is not None and target.exists() and target.samefile(path):
            raise SessionError("the output is the input file; give another file with -o or output=")
        if target.exists() and not overwrite:
            raise SessionError(
                f"{target} already exists; give another file, or overwrite it with --force or overwrite=True"
            )
        with local_files.atomic(target) as stream:
            stream.write(found.data)
    return found


def _refuse_other_formats(name: str, data: bytes) -> None:
    """Raises for a file without a session line: repairing it would leave nothing. The error names its format."""
    lines = [line for line in data.splitlines() if line.strip()]
    if not lines:
        raise InterlinguaError(f"{name} is empty, not a session file; nothing to repair")
    if is_foreign(lines[0]) or any(map(_has_role, lines)):
        return
    found = conversion.detect(data)
    if found is None and any(line.lstrip().startswith(b"{") for line in lines):
        return  # torn lines, perhaps of a session
    if found is None:
        raise InterlinguaError(f"{name} is not a session file and no known format; `interlingua dialects` lists them")
    raise InterlinguaError(
        f"{name} is {found.dialect} ({found.reason}), not a session file; "
        "`interlingua check` reports its problems, `interlingua convert -t transcript` makes a session of it"
    )


def _has_role(line: bytes) -> bool:
    try:
        value = jsontext.read(line)
    except FormatError:
        return False
    return isinstance(value, dict) and "role" in value
