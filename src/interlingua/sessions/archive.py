"""A searchable archive: other programs' histories, exports and folders, together with the sessions of this home.

Nothing is copied or changed: files are read in place, and the index follows them. The added sources are in
`<home>/archive.json`; the index may be deleted at any time, and is rebuilt.
"""

import asyncio
import contextlib
import difflib
import functools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..conversion.local_files import atomic
from ..conversion.sources import is_followed
from ..values.errors import InterlinguaError
from ..values.places import home as default_home
from ..values.places import private_folder
from ..values.regular import kind_of, read_regular
from ..values.request import Conversation
from .archive_index import (
    ARCHIVE,
    FAILED,
    NOTE,
    OURS,
    READER,
    SKIPPED,
    Archived,
    ArchiveIndex,
    FileParts,
    FileProblem,
    KnownFile,
    Stamp,
)
from .archive_reading import FLUSH_CHARS, conversations, read_file
from .cards import Price, Total
from .files import ENDING
from .programs import PROGRAMS, Program
from .session import Session, store_at
from .store import Store
from .text_index import Results, TextHit
from .texts import Query
from .watching import RESCAN, FolderWatch, PathWatch, walk

OWN = "own"
_LISTED = 512 << 10  # maximum bytes of the list of sources


class ArchiveError(InterlinguaError):
    """A source that cannot be added or found."""


class ArchiveSource(NamedTuple):
    """An added source: a program, a folder or a file."""

    name: str
    root: Path
    dialect: str | None = None


class FoundFile(NamedTuple):
    """A file of a source. `searched` files were found in a folder and need not be conversations."""

    stamp: Stamp
    dialect: str | None
    searched: bool


class ArchiveProgress(NamedTuple):
    """Bytes and files read, of those that are new or changed."""

    done: int
    total: int
    files: int
    of: int


class ArchiveProblem(NamedTuple):
    """A file, or part of one, that could not be read."""

    path: str
    message: str
    line: int | None = None
    kind: str = NOTE


class Report(NamedTuple):
    """The outcome of an update. `indexed` are files of which something was read."""

    indexed: int = 0
    removed: int = 0
    moved: int = 0
    unchanged: int = 0
    skipped: int = 0  # files of a folder that are not conversations
    size: int = 0
    seconds: float = 0.0
    complete: bool = True
    problems: tuple[ArchiveProblem, ...] = ()


class SourceState(NamedTuple):
    """A source with its state in the index."""

    source: ArchiveSource
    files: int
    conversations: int
    is_there: bool


class Archive:
    """The archive of a home. `price` returns the cost of responses whose files state none."""

    def __init__(
        self,
        home: Path | None = None,
        *,
        store: Store | str | None = None,
        price: Price | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.home = (home or default_home()).absolute()
        self._env = env
        self._store = store_at(store, self.home)
        self._place = self.home / "archive.json"
        self.index = ArchiveIndex(self.home / "canvas" / "search.db", {OWN: self._store}, price)

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self.index.close()
        self._store.close()

    # --- sources -----------------------------------------------------------------------------------------------------

    def sources(self) -> list[ArchiveSource]:
        """The added sources, in order."""
        try:
            names = msgspec.json.decode(read_regular(self._place, _LISTED), type=_Listed).sources
        except FileNotFoundError:
            return []
        except msgspec.MsgspecError as error:
            raise ArchiveError(f"{self._place}: not a list of sources ({error}); correct or delete it") from None
        return [self._source(name) for name in names]

    def _source(self, name: str) -> ArchiveSource:
        program = PROGRAMS.get(name)
        return (
            ArchiveSource(name, Path(name)) if program is None else ArchiveSource(name, program.root(self._env), name)
        )

    def add(self, given: Iterable[str]) -> list[ArchiveSource]:
        """Adds programs, folders and files; all of them, or none if one cannot be added."""
        known = self.sources()
        found = [self._checked(name) for name in given]
        fresh = [one for one in dict.fromkeys(found) if one not in known]
        if fresh:
            self._save([*known, *fresh])
        return found

    def _checked(self, name: str) -> ArchiveSource:
        program = PROGRAMS.get(name)
        if program is not None:
            source = self._source(name)
            if not source.root.is_dir():
                raise ArchiveError(f"{name}: {source.root} does not exist; set {program.variable}, or add a folder")
            return source
        path = Path(os.path.abspath(Path(name).expanduser()))  # noqa: PTH100  # resolves `..`, and no links
        if not path.exists():
            near = difflib.get_close_matches(name, PROGRAMS, 1, 0.6)
            remedy = f"did you mean {near[0]}?" if near else f"give a file, a folder or one of {', '.join(PROGRAMS)}"
            raise ArchiveError(f"{name}: no such file or folder; {remedy}")
        if not path.is_dir() and (kind := kind_of(path)) is not None:
            raise ArchiveError(f"{name} is {kind}; give a regular file or a folder")
        if path == self.home or path.is_relative_to(self.home):
            raise ArchiveError(f"{name}: sessions of this home are always in the archive; add another folder")
        return ArchiveSource(str(path), path)

    def remove(self, given: Iterable[str]) -> None:
        """Removes sources; the next update removes their files from the index, unless another source has them."""
        known = self.sources()
        names = {source.name for source in known}
        gone = set[str]()
        for name in given:
            path = os.path.abspath(Path(name).expanduser())  # noqa: PTH100
            found = name if name in names else path
            if found not in names:
                raise ArchiveError(f"{name}: no source of the archive; sources: {', '.join(sorted(names)) or 'none'}")
            gone.add(found)
        self._save([source for source in known if source.name not in gone])

    def _save(self, sources: Iterable[ArchiveSource]) -> None:
        data = msgspec.json.format(msgspec.json.encode(_Listed(tuple(source.name for source in sources))))
        private_folder(self._place.parent)
        with atomic(self._place, private=True) as stream:
            stream.write(data + b"\n")

    # --- following ---------------------------------------------------------------------------------------------------

    def update(
        self,
        *,
        progress: Callable[[ArchiveProgress], object] = lambda progress: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Report:
        """Updates the index for all sources and the sessions of this home; `stop` may interrupt it."""
        began = time.monotonic()
        self.index.follow(stop=stop)
        problems: list[ArchiveProblem] = []
        wanted, missing = self._scan(problems)
        known = self.index.files()
        gone = {path: file for path, file in known.items() if path not in wanted and not _is_below(path, missing)}
        moved = self._move(gone, known, wanted)
        known = self.index.files() if moved else known
        gone = {path: file for path, file in gone.items() if file.n not in moved}
        self.index.forget_files(gone)
        changed = {path: one for path, one in wanted.items() if not _is_current(known.get(path), one)}
        read = self._read(changed, known, progress, stop)
        files = self.index.files()
        refused = {path for path in changed if path in files and _is_refused(files[path])}
        problems += (one for one in _problems(files) if one.kind == FAILED or one.path in changed)
        skipped = sum(problem.kind == SKIPPED for file in files.values() for problem in file.problems)
        return Report(
            indexed=max(0, read - len(refused)),
            removed=len(gone),
            moved=len(moved),
            unchanged=len(wanted) - len(changed),
            skipped=skipped,
            size=sum(one.stamp.size for path, one in changed.items() if path not in refused),
            seconds=time.monotonic() - began,
            complete=read == len(changed),
            problems=tuple(problems),
        )

    def _scan(self, problems: list[ArchiveProblem]) -> tuple[dict[str, FoundFile], list[Path]]:
        """Returns the files of all sources, and the roots and folders that are missing or cannot be read."""
        found: dict[str, FoundFile] = {}
        missing: list[Path] = []
        seen: set[tuple[int, int]] = set()
        for source in self.sources():
            try:
                for path, state in self._files(source, problems, missing):
                    identity = (state.st_dev, state.st_ino)
                    if str(path) in found or (state.st_ino and identity in seen):
                        continue  # in two sources, or the same file under another name
                    seen.add(identity)
                    searched = source.dialect is None and path != source.root
                    found[str(path)] = FoundFile(Stamp.of(path, state), source.dialect, searched)
            except OSError as error:
                missing.append(source.root)
                problems.append(ArchiveProblem(str(source.root), f"{error.strerror}; what was indexed of it is kept"))
        return found, missing

    def _files(
        self, source: ArchiveSource, problems: list[ArchiveProblem], missing: list[Path]
    ) -> Iterator[tuple[Path, os.stat_result]]:
        def failed(path: Path, error: OSError) -> None:
            if isinstance(error, FileNotFoundError):  # removed meanwhile, or a link to nothing
                problems.append(ArchiveProblem(str(path), f"{error.strerror}"))
                return
            missing.append(path)
            problems.append(ArchiveProblem(str(path), f"{error.strerror}; what was indexed of it is kept", kind=FAILED))

        state = source.root.stat()
        if not source.root.is_dir():
            yield source.root, state
            return
        program = PROGRAMS.get(source.name) if source.dialect is not None else None
        if program is not None:
            _, found = walk(source.root, lambda path: program.has(path, source.root), program.depth, failed=failed)
        else:
            _, found = walk(source.root, is_followed, enter=lambda folder: folder != self.home, failed=failed)
        yield from sorted(found.items())

    def _move(
        self, gone: Mapping[str, KnownFile], known: Mapping[str, KnownFile], wanted: Mapping[str, FoundFile]
    ) -> set[int]:
        """Renames files that have the inode, size and time of a missing one."""
        stamps = {file.stamp: file for file in gone.values() if file.stamp is not None}
        moved: set[int] = set()
        for path, one in wanted.items():
            file = stamps.get(one.stamp) if path not in known else None
            if file is not None and file.n not in moved:
                self.index.move_file(file, path)
                moved.add(file.n)
        return moved

    def _read(
        self,
        changed: Mapping[str, FoundFile],
        known: Mapping[str, KnownFile],
        progress: Callable[[ArchiveProgress], object],
        stop: Callable[[], bool],
    ) -> int:
        """Reads files and writes them in transactions of several; returns how many were read to the end."""
        total = sum(one.stamp.size for one in changed.values())
        waiting: list[FileParts] = []
        done = files = size = 0
        progress(ArchiveProgress(0, total, 0, len(changed)))
        # The latest last: search results with the highest rows come first.
        for path, one in sorted(changed.items(), key=lambda item: item[1].stamp.modified):
            for parts in read_file(Path(path), one.dialect, one.stamp, searched=one.searched, known=known.get(path)):
                if stop():
                    break
                waiting.append(parts)
                size += sum(part.size for part in parts.parts)
                if size > FLUSH_CHARS:
                    self.index.write(waiting)
                    waiting, size = [], 0
            if stop():
                break
            done, files = done + one.stamp.size, files + 1
            progress(ArchiveProgress(done, total, files, len(changed)))
        self.index.write(waiting)
        return files

    def watch(self) -> "SourceWatch":
        """Waits for changes of the sources and of the sessions of this home; needs a running event loop."""
        watches: list[FolderWatch | PathWatch] = [
            FolderWatch(self.home / "agents", lambda path: path.suffix == ENDING, depth=2)
        ]
        files = []
        for source in self.sources():
            if source.root.is_dir():
                program = PROGRAMS.get(source.name)
                wanted = functools.partial(_has, program, source.root) if program is not None else is_followed
                watches.append(FolderWatch(source.root, wanted, program.depth if program is not None else None))
            else:
                files.append(source.root)
        return SourceWatch([*watches, PathWatch(files)] if files else watches)

    def problems(self) -> list[ArchiveProblem]:
        """The files that could not be read, with the reason."""
        return _problems(self.index.files())

    def states(self) -> list[SourceState]:
        """The sources, with how much of each is indexed."""
        files = self.index.files()
        counts = self.index.counts()
        found = []
        for source in self.sources():
            own = [file for path, file in files.items() if path == str(source.root) or _is_below(path, [source.root])]
            conversations = sum(counts.get(file.n, 0) for file in own)
            found.append(SourceState(source, len(own), conversations, source.root.exists()))
        return found

    # --- finding -----------------------------------------------------------------------------------------------------

    def query(self, text: str = "", *, tool: str | None = None, **filters: object) -> Query:
        """Builds a query; `tool` is a program whose conversations to search, or a tool that was called."""
        given: dict[str, object] = {"text": text, "stores": (OWN, ARCHIVE), **filters}
        if tool == OURS:
            given["stores"] = (OWN,)
        elif tool in PROGRAMS or tool in self.index.names():
            given |= {"stores": (ARCHIVE,), "agent": tool}
        elif tool is not None:
            given["tool"] = tool
        return Query(**given)  # type: ignore[arg-type]

    def search(self, query: Query) -> Results:
        """Returns the texts that match a query, the latest first."""
        return self.index.search(query)

    def about(self, hit: TextHit) -> Archived | None:
        """Returns the conversation of a hit."""
        found = self.index.conversations(Query(stores=(hit.store,), agent=hit.agent, limit=1), id=hit.id)
        return found[0] if found and found[0].id == hit.id else None

    def conversations(self, query: Query) -> list[Archived]:
        """Returns the conversations that match the filters of a query, the latest first."""
        return self.index.conversations(query)

    def totals(self, group: str, query: Query) -> list[Total]:
        """Returns tokens and cost by day, model, project or tool, each response counted once."""
        return self.index.totals(group, query)

    def find(self, id: str) -> Archived:
        """Returns a conversation by its id or a prefix of it."""
        found = self.index.conversations(Query(stores=(OWN, ARCHIVE), limit=6), id=id) if id else []
        exact = [one for one in found if one.id == id]
        if not found:
            raise ArchiveError(f"no conversation {id!r} in the archive; see: interlingua archive list")
        if len(exact or found) > 1:
            raise ArchiveError(f"ambiguous id {id!r}: {', '.join(one.id for one in found[:5])}; give more of it")
        return (exact or found)[0]

    def open(self, one: Archived) -> Conversation:
        """Reads a conversation from its file or session, as it is now."""
        if one.path is None:
            with Session.open(one.id, agent=one.tool, store=self._store, read_only=True, create=False) as session:
                return session.conversation()
        problems: list[FileProblem] = []
        dialect = one.tool if one.tool in PROGRAMS else None
        with contextlib.suppress(StopIteration):
            for number, (_, conversation) in enumerate(conversations(Path(one.path), dialect, problems)):
                if number == one.number:
                    return conversation
        reason = problems[0].message if problems else "the file has changed"
        raise ArchiveError(f"{one.path}: conversation {one.number + 1} cannot be read ({reason}); update the archive")


class SourceWatch:
    """Waits for a change of any of several watches."""

    def __init__(self, watches: Sequence[FolderWatch | PathWatch]) -> None:
        self._watches = watches
        self._tasks: dict[asyncio.Task[None], FolderWatch | PathWatch] = {}

    async def start(self) -> None:
        """Records the state of the files; later changes are reported."""
        for watch in self._watches:
            if isinstance(watch, FolderWatch):
                await watch.scan()

    async def wait(self, timeout: float | None = None) -> bool:
        """Waits for a change since the last reported one; False on timeout."""
        for watch in self._watches:
            if watch not in self._tasks.values():
                self._tasks[asyncio.ensure_future(_changed(watch))] = watch
        done, _ = await asyncio.wait(self._tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            del self._tasks[task]
        return bool(done)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for watch in self._watches:
            watch.close()


async def _changed(watch: FolderWatch | PathWatch) -> None:
    """Returns when there is a change."""
    while not await watch.wait(RESCAN):
        pass


def _has(program: Program, root: Path, path: Path) -> bool:
    return program.has(path, root)


def _problems(files: Mapping[str, KnownFile]) -> list[ArchiveProblem]:
    return [
        ArchiveProblem(path, problem.message, problem.line, problem.kind)
        for path, file in sorted(files.items())
        for problem in file.problems
        if problem.kind != SKIPPED
    ]


class _Listed(msgspec.Struct, forbid_unknown_fields=True):
    sources: tuple[str, ...] = ()


def _is_refused(file: KnownFile) -> bool:
    """Whether nothing of a file could be read."""
    return any(problem.kind in (FAILED, SKIPPED) for problem in file.problems)


def _is_below(path: str, roots: Iterable[Path]) -> bool:
    return any(path == str(root) or path.startswith(f"{root}{os.sep}") for root in roots)


def _is_current(file: KnownFile | None, one: FoundFile) -> bool:
    return file is not None and file.stamp == one.stamp and file.reader == READER
