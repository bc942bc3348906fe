"""Outputs of a conversion: a stream, a file, or a folder; with a journal for resuming an interrupted run.

The journal is a file beside the output, with one JSON line for each written piece: how many pieces of which source are
done, the length of the output then, and the losses. On resume, the output is truncated to the last line of the journal
and continues with the next piece: nothing is duplicated or missing.
"""

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from ..conversion import containers, local_files
from ..conversion.sources import Source, SourceProblem
from ..values import jsontext
from ..values.errors import FormatError, InterlinguaError
from ..values.regular import naming, read_regular
from .bulk import PieceResult, packed, packing_into
from .output import LossSummary

MAX_PROBLEMS = 1000  # maximum listed problems; all are counted


class SingleConversation(InterlinguaError):
    """A second conversation for a file that can have only one."""

    def __init__(self) -> None:
        super().__init__(
            "several conversations, but a file of this format has one; give a folder for one file each: -o FOLDER/"
        )


class Tally:
    """The totals of a run so far."""

    def __init__(self) -> None:
        self.losses = LossSummary()
        self.problems: list[SourceProblem] = []
        self.failed = 0
        self.count = 0
        self.names: set[str] = set()  # sources with conversations

    def add(self, source: Source, result: PieceResult) -> None:
        self.name([source.name] if result.count else [])
        self.count += result.count
        self.losses.merge(result.losses)
        self.fail(result.problems)

    def name(self, sources: list[str]) -> None:
        if len(self.names) < MAX_PROBLEMS:
            self.names.update(sources)

    def fail(self, problems: list[SourceProblem], count: int | None = None) -> None:
        """Counts problems, of which `problems` may be the first ones only."""
        self.failed += len(problems) if count is None else count
        self.problems += problems[: MAX_PROBLEMS - len(self.problems)]


# --- the journal -----------------------------------------------------------------------------------------------------


class RunProgress(NamedTuple):
    """The progress of an interrupted run: `pieces` of the source number `source` are written, with `length` bytes of
    `name`, which has the conversations of `origin`: in a folder this may be an earlier source.
    """

    source: int = 0
    pieces: int = 0
    name: str | None = None
    length: int = 0
    rejected: int = 0
    origin: str | None = None


class PieceJournal:
    """The written pieces of a run, one JSON line each; the first line identifies the run."""

    def __init__(self, path: Path, run: dict[str, Any]) -> None:
        self._path = path
        self._run = run
        self._file: IO[bytes] | None = None
        self.done = RunProgress()
        self.names: list[str] = []  # started or finished files

    def resume(self, tally: Tally) -> None:
        """Resumes the run of an existing journal; without one, everything is still to be done."""
        with contextlib.suppress(FileNotFoundError):
            with self._path.open("rb") as file:
                local_files.lock(file, self._path)  # refused while the run that is to be resumed goes on
            lines = read_regular(self._path).split(b"\n")[:-1]  # an incomplete last line was being written
            if lines and jsontext.read(lines[0]) != self._run:
                raise InterlinguaError(
                    f"{self._path}: belongs to another run (other inputs, options or version);"
                    " run without --resume to start over"
                )
            try:
                for line in lines[1:]:
                    self._replay(jsontext.read(line), tally)
            except (FormatError, KeyError, TypeError, ValueError):
                raise InterlinguaError(f"{self._path}: damaged; run without --resume to start over") from None

    def _replay(self, row: Any, tally: Tally) -> None:
        self.done = RunProgress(*row["done"])
        if self.done.name is not None and self.done.name not in self.names:
            self.names.append(self.done.name)
        self.names += row.get("names", ())
        tally.count += row["count"]
        tally.name(row["from"])
        tally.losses.merge(LossSummary.from_json(row["losses"]))
        tally.fail([SourceProblem(*problem) for problem in row["problems"]], row["failed"])

    def open(self) -> None:
        """Rewrites the known lines, without an incomplete last one, and continues after them."""
        kept = b""
        if self.done != RunProgress():
            kept = b"\n".join(read_regular(self._path).split(b"\n")[:-1]) + b"\n"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with local_files.resumable(self._path) as file:
            file.write(kept or jsontext.write(self._run) + b"\n")
        self._file = self._path.open("ab")
        local_files.lock(self._file, self._path)

    def write(self, done: RunProgress, source: Source, result: PieceResult, names: list[str]) -> None:
        """Records a piece, once its output is written."""
        assert self._file is not None
        row = {
            "done": list(done),
            "names": names,
            "count": result.count,
            "from": [source.name] if result.count else [],
            "losses": result.losses.as_json(),
            "failed": len(result.problems),
            "problems": [list(problem) for problem in result.problems[:MAX_PROBLEMS]],
        }
        with naming(self._path):
            self._file.write(jsontext.write(row) + b"\n")
            self._file.flush()
        self.done = done

    def remove(self) -> None:
        if self._file is not None:
            self._file.close()
        self._path.unlink(missing_ok=True)


# --- outputs ---------------------------------------------------------------------------------------------------------


class Output:
    """A single output: standard output or a file, which appears atomically when everything is done.

    Bodies are written one per line; a conversation that is itself several lines must be the only one.
    """

    def __init__(
        self, out: Path | None, *, write: bool = True, packing: str | None = None, journal: PieceJournal | None = None
    ) -> None:
        self._out = out
        self._write = write
        self._packing = packing
        self._journal = journal
        self._stack = contextlib.ExitStack()
        self._stream: IO[bytes] | None = None
        self._session: bytes | IO[bytes] | None = None  # written at the end if it is the only one

    origin: str | None = None  # of the current file, if each source has its own

    def resume(self) -> None:
        """Resumes the partial file."""
        assert self._journal is not None
        if self._journal.done.name is not None:
            self._opened(self._journal.done.length)

    def put(self, source: Source, result: PieceResult) -> list[str]:
        """Writes a piece; returns the names of the files that it completes."""
        if not self._write:
            return []
        if result.streamed is not None and result.is_body:
            with naming(self._out or "standard output"), packing_into(self._opened(), self._packing) as stream:
                for part in result.streamed:
                    stream.write(part)
        elif result.sessions or result.streamed is not None:
            if self._session is not None or len(result.sessions) > 1:
                self._session = None
                raise SingleConversation
            self._session = self._spooled(result.streamed) if result.streamed is not None else result.sessions[0][1]
        if result.payload:
            with naming(self._out or "standard output"):
                self._opened().write(result.payload)
        return []

    def _spooled(self, lines: Iterator[bytes]) -> IO[bytes]:
        """Writes lines to an unnamed file, on the disk of the output."""
        where = self._out.parent if self._out is not None else None
        with naming(where or tempfile.gettempdir()):
            file = self._stack.enter_context(tempfile.TemporaryFile(dir=where))  # noqa: SIM115
            file.writelines(lines)
            file.seek(0)
        return file

    @property
    def is_pending(self) -> bool:
        """Whether something is not written yet."""
        return self._session is not None

    def place(self) -> tuple[str | None, int]:
        """Returns the current file and its length, after syncing it."""
        if self._stream is None or self._out is None:
            return None, 0
        return self._out.name, local_files.synced(self._stream)

    def _opened(self, length: int = 0) -> IO[bytes]:
        if self._stream is None:
            self._stream = sys.stdout.buffer if self._out is None else self._stack.enter_context(self._file(length))
        return self._stream

    def _file(self, length: int) -> contextlib.AbstractContextManager[IO[bytes]]:
        assert self._out is not None
        return _writing(self._out, length, self._journal)

    def __enter__(self) -> None:
        self._stack.__enter__()

    def __exit__(self, *failure: Any) -> None:
        if failure[0] is None and self._session is not None:
            with naming(self._out or "standard output"):
                self._write_session(self._session)
        self._stack.__exit__(*failure)

    def _write_session(self, session: bytes | IO[bytes]) -> None:
        if isinstance(session, bytes):
            self._opened().write(packed(session, self._packing))
            return
        with packing_into(self._opened(), self._packing) as stream:
            shutil.copyfileobj(session, stream, 1 << 20)


class ColumnarOutput(Output):
    """A Parquet or Arrow file: rows are buffered in a file until all of them, and so the columns, are known."""

    def __init__(self, out: Path, kind: str) -> None:
        super().__init__(out)
        self._rows = tempfile.TemporaryFile()  # noqa: SIM115
        self._place, self._kind = out, kind

    def put(self, source: Source, result: PieceResult) -> list[str]:
        """Writes a piece; returns the names of the files that it completes."""
        if result.sessions or (result.streamed is not None and not result.is_body):
            raise InterlinguaError(
                f"{self._place}: a row of columns is a conversation, and a session file has a row for each line;"
                " choose a format whose body is an object, such as openai-finetune"
            )
        return super().put(source, result)

    def _opened(self, length: int = 0) -> IO[bytes]:
        return self._rows

    def __exit__(self, *failure: Any) -> None:
        with self._rows:
            super().__exit__(*failure)
            if failure[0] is None:
                self._rows.seek(0)
                with local_files.atomic(self._place) as file:
                    containers.write_rows(self._rows, file, self._kind, str(self._place))


def _writing(path: Path, length: int, journal: PieceJournal | None) -> contextlib.AbstractContextManager[IO[bytes]]:
    return local_files.atomic(path) if journal is None else local_files.resumable(path, length)


class FolderOutput:
    """One file per source; or per conversation, if a file of the format has only one."""

    is_pending = False

    def __init__(self, folder: Path, inputs: list[Path | None], journal: PieceJournal | None = None) -> None:
        self._folder = folder
        self._inputs = inputs
        self._journal = journal
        self._stack = contextlib.ExitStack()
        self.origin: str | None = None  # the name of the source whose conversations the current file has
        self._stream: IO[bytes] | None = None
        self._path: Path | None = None
        self._names = {name.casefold() for name in journal.names} if journal is not None else set[str]()

    def put(self, source: Source, result: PieceResult) -> list[str]:
        """Writes a piece; returns the names of the files that it completes."""
        names = []
        sessions: list[tuple[int | None, Iterable[bytes]]] = [(at, (session,)) for at, session in result.sessions]
        if result.streamed is not None and not result.is_body:
            sessions.append((None, result.streamed))
        for number, lines in sessions:
            stem = f"{source.stem}-{number}" if number is not None else source.stem
            names.append(self._free(stem, ".jsonl"))
            with _writing(self._checked(names[-1]), 0, self._journal) as file:
                file.writelines(lines)
        if result.payload:
            if self._stream is None or source.name != self.origin:
                self._open(source.name, self._free(source.stem, ".jsonl" if result.numbered else ".json"))
            assert self._stream is not None
            self._stream.write(result.payload)
        if result.streamed is not None and result.is_body:
            self._open(source.name, self._free(source.stem, ".json"))
            assert self._stream is not None
            self._stream.writelines(result.streamed)
        return names

    def resume(self) -> None:
        """Resumes the partial file."""
        assert self._journal is not None
        done = self._journal.done
        if done.name is not None:
            self._open(done.origin, done.name, done.length)

    def _open(self, origin: str | None, name: str, length: int = 0) -> None:
        self._stack.close()  # completes the previous file
        self.origin, self._path = origin, self._checked(name)
        self._stream = self._stack.enter_context(_writing(self._path, length, self._journal))

    def place(self) -> tuple[str | None, int]:
        """Returns the current file and its length, after syncing it."""
        if self._stream is None or self._path is None:
            return None, 0
        return self._path.name, local_files.synced(self._stream)

    def _checked(self, name: str) -> Path:
        path = self._folder / name
        local_files.refuse_inputs(path, self._inputs)
        return path

    def _free(self, stem: str, ending: str) -> str:
        name, n = f"{stem}{ending}", 1
        while name.casefold() in self._names:
            n += 1
            name = f"{stem}-{n}{ending}"
        self._names.add(name.casefold())
        return name

    def __enter__(self) -> None:
        self._stack.__enter__()

    def __exit__(self, *failure: Any) -> None:
        self._stack.__exit__(*failure)


class Rejects:
    """A file of failed conversations: one JSON line each, with position, reason and text."""

    def __init__(self, path: Path | None, journal: PieceJournal | None) -> None:
        self._path = path
        self._journal = journal
        self._stack = contextlib.ExitStack()
        self._stream: IO[bytes] | None = None
        if path is not None and journal is not None and journal.done.rejected:
            self._stream = self._stack.enter_context(_writing(path, journal.done.rejected, journal))

    def put(self, rows: list[bytes]) -> None:
        if rows and self._path is not None:
            if self._stream is None:
                self._stream = self._stack.enter_context(_writing(self._path, 0, self._journal))
            self._stream.writelines(row + b"\n" for row in rows)

    def length(self) -> int:
        return local_files.synced(self._stream) if self._stream is not None else 0

    def __enter__(self) -> None:
        self._stack.__enter__()

    def __exit__(self, *failure: Any) -> None:
        self._stack.__exit__(*failure)
