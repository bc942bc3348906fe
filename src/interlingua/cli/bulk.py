"""Bulk conversion: files of any size are split into pieces, converted on all cores and joined in order, in bounded
memory.

A piece is a range of whole lines or array elements that are each a conversation, a few documents of a container, or a
whole file. Session lines that are the same in the target format are copied at C speed.
"""

import contextlib
import gzip
import io
import itertools
import multiprocessing
import os
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing.connection import wait
from pathlib import Path
from typing import IO, Any, NamedTuple

import zstandard
from msgspec.structs import replace

from .. import conversion
from ..conversion import containers, large_sessions, sources
from ..conversion.converting import with_losses
from ..conversion.detection import detect_name
from ..conversion.large_encoding import encode_large
from ..conversion.sources import Document, Source, SourceProblem
from ..dialects import FORMATS, WIRES
from ..dialects.files import transcript
from ..dialects.wire import FileFormat
from ..values import jsontext
from ..values.errors import FormatError, InterlinguaError, Unsupported
from ..values.losses import Lines, Loss, replaced
from ..values.regular import stream_regular
from ..values.request import Conversation, ModelDescriptor
from ..values.text import as_utf8
from .output import LossSummary, loss_json

PIECE = 2 * 1024 * 1024
FEW = 4  # documents of a container per worker task: they may be large
ROWS = 200  # the same for rows of columnar files, which are small
LARGE = 8 * 1024 * 1024
TRANSCRIPTS = frozenset({"transcript", "openclaw"})


class PieceTask(NamedTuple):
    """The settings that apply to every piece."""

    origin: str | None
    target: str
    model: str | None
    strict: bool
    limit: int
    rows: bool = False  # individual results and losses, for programs
    bodies: bool = True
    packing: str | None = None  # compression of the output: `.gz` or `.zst`
    rejects: bool = False  # failed documents are returned
    columns: Mapping[str, str] = {}  # the names of a format's columns -> those of the file


class SourcePiece(NamedTuple):
    """An independently converted part of a source.

    `kind` is `lines`, `array`, `documents`, `session` (lines that are copied), `stream` (a session whose entries are
    read one at a time), `file` or `problem`. `first` is the number of lines or elements before it. `data` is its
    content, None if the worker reads the bytes from `start` to `end` of the file `inode` itself; `position` is its end
    offset in the compressed file.
    """

    source: Source
    kind: str
    data: Any = None
    first: int = 0
    start: int = 0
    end: int = 0
    position: int = 0
    inode: int = 0


class PieceResult:
    def __init__(self) -> None:
        self.count = 0
        self.payload = b""  # bodies, one a line
        self.sessions: list[tuple[int | None, bytes]] = []  # conversations that get their own files, by number
        self.streamed: Iterator[bytes] | None = None  # the text of one more conversation, converted as it is read
        self.is_body = False  # whether that text is a body, not the lines of a session
        self.spooled: Path | None = None  # a temporary file with this text, from a worker
        self.numbered = False  # whether the source holds several conversations
        self.rows: list[dict[str, Any]] = []
        self.streamed_row: Iterator[bytes] | None = None  # the JSON text of one more, made as it is read
        self.spooled_row: Path | None = None  # a temporary file with it, from a worker
        self.losses = LossSummary()
        self.problems: list[SourceProblem] = []
        self.rejected: list[bytes] = []


# --- splitting -------------------------------------------------------------------------------------------------------


def pieces(source: Source, task: PieceTask, *, copy: bool = False) -> Iterator[SourcePiece]:
    """Yields the pieces of a source; deterministic.

    With `copy`, the lines of a large session that are the same in the target format are split, too.
    """
    try:
        raw = stream_regular(source.path) if source.path is not None else None
        if raw is not None and source.path is not None:
            size = source.path.stat().st_size
            if size <= min(PIECE, large_sessions.LARGE) and not raw.peek(4).startswith(_PACKED):  # type: ignore[attr-defined]
                raw.close()
                yield SourcePiece(source, "file", position=size)
                return
        with sources.open_stream(raw) as stream:
            if copy and raw is stream and _is_copyable(source, task):
                yield from _cut(source, "session", stream, raw, task.limit)
            elif source.path is not None and _is_streamed(source, task):
                yield SourcePiece(source, "stream", position=source.path.stat().st_size)
            else:
                yield from _pieces_in(source, stream, raw, task)
    except sources.UNREADABLE as error:
        yield SourcePiece(source, "problem", sources.unreadable(source, error))


_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", containers.ZIP)  # a small file may decompress to much content


def _pieces_in(source: Source, stream: IO[bytes], raw: IO[bytes] | None, task: PieceTask) -> Iterator[SourcePiece]:
    """Yields the pieces of a decompressed stream; `raw` is its file, if there is one."""
    found = sources.look(stream, task.origin, task.columns, task.limit)
    if found.kind == "lines":
        if raw is stream:
            stream.seek(0)
        yield from _cut(source, "lines", stream if raw is stream else found.stream, raw, task.limit)
    elif found.kind == "array":
        yield from _elements(source, found, raw)
    elif found.kind == "whole" and raw is not None:
        yield SourcePiece(source, "file", position=raw.tell())
    elif found.kind == "zip" and stream.seekable():
        yield from _members(source, stream, task)
    else:
        few = ROWS if found.kind in ("parquet", "arrow") else FEW
        yield from _documents(source, few, found.stream if raw is None else None, task)


def _cut(source: Source, kind: str, stream: IO[bytes], raw: IO[bytes] | None, limit: int) -> Iterator[SourcePiece]:
    """Yields ranges of whole lines."""
    first = start = 0
    inode = os.fstat(raw.fileno()).st_ino if raw is not None else 0
    while data := stream.read(PIECE):
        if not data.endswith(b"\n"):
            rest = stream.readline(limit + 1)
            data += rest
            while len(rest) > limit and not rest.endswith(b"\n"):  # too long: reported by the worker, and not kept
                rest = stream.readline(limit + 1)
        position = raw.tell() if raw is not None else 0
        own = raw is stream and position - start == len(data)  # the worker can read it
        yield SourcePiece(source, kind, None if own else data, first, start, position, position, inode)
        start, first = position, first + data.count(b"\n") + (not data.endswith(b"\n"))
    if raw is not None and os.fstat(raw.fileno()).st_size < start:
        raise _changed(source)


def _changed(source: Source) -> InterlinguaError:
    return InterlinguaError(f"{source.name}: the file was changed while it was read; try again")


def _elements(source: Source, found: sources.Look, raw: IO[bytes] | None) -> Iterator[SourcePiece]:
    """Yields ranges of array elements."""
    batch: list[bytes] = []
    size = number = 0
    failure = None
    try:
        for element in sources.all_elements(found):
            batch.append(element)
            size += len(element)
            if size >= PIECE:
                yield SourcePiece(source, "array", batch, number, position=raw.tell() if raw is not None else 0)
                number += len(batch)
                batch, size = [], 0
    except FormatError as error:
        failure = error.message
    if batch:
        yield SourcePiece(source, "array", batch, number, position=raw.tell() if raw is not None else 0)
    if failure is not None:
        number += len(batch)
        yield SourcePiece(source, "problem", f"{failure}; {number} conversations before that were read")


def _members(source: Source, stream: IO[bytes], task: PieceTask) -> Iterator[SourcePiece]:
    """Yields the pieces of each file in a zip; a few documents at a time if a format recognises the zip as a whole."""
    members = containers.Members(stream, source.name, task.limit)
    names = [member for member in sorted(members) if sources.is_ours(Path(member))]
    if not names or containers.in_archive(members, task.origin) is not None:
        stream.seek(0)
        yield from _documents(source, FEW, stream, task)
        return
    for member in names:
        with sources.open_stream(members.open(member)) as opened:
            yield from _pieces_in(Source(source.path, member), opened, None, task)


def _documents(source: Source, few: int, stream: IO[bytes] | None, task: PieceTask) -> Iterator[SourcePiece]:
    """Yields a few documents at a time, read here."""
    problems: list[SourceProblem] = []
    batch: list[Document] = []
    for document in sources.documents(
        source, task.origin, problems, limit=task.limit, opened=stream, columns=task.columns
    ):
        batch.append(document)
        if len(batch) == few:
            yield SourcePiece(source, "documents", batch)
            batch = []
    if batch:
        yield SourcePiece(source, "documents", batch)
    for problem in problems:
        yield SourcePiece(source, "problem", problem)


def _is_copyable(source: Source, task: PieceTask) -> bool:
    """Whether a file is a session whose lines are the same in the target format."""
    assert source.path is not None
    if task.target != "transcript" or task.origin not in (None, *TRANSCRIPTS) or source.path.stat().st_size < LARGE:
        return False
    if task.origin is not None:
        return True
    with stream_regular(source.path) as stream:
        head = [line for line in as_utf8(stream.read(1 << 20)).split(b"\n")[:-1] if line.strip()][:8]
    try:
        lines = Lines(jsontext.read(line) for line in head)
        found = conversion.detect(lines)
    except InterlinguaError:
        return False
    return found is not None and found.dialect in TRANSCRIPTS and all(map(_has_role, lines))


def _has_role(line: Any) -> bool:
    return isinstance(line, dict) and "role" in line  # pi's lines have it in their `message`


def _is_streamed(source: Source, task: PieceTask) -> bool:
    """Whether a file is a large session, which is converted entry by entry."""
    if task.columns or not large_sessions.is_large(source):
        return False
    to = FORMATS.get(task.target)
    name = task.origin
    if name is None:
        found = large_sessions.detect_large(source)
        name = found.dialect if found is not None else None
    is_written = task.target in (*WIRES, conversion.SELF, transcript.API, name)
    is_written = is_written or (
        to is not None and bool(to.writer or to.tree_writer or to.rows or to.stream or to.listed)
    )
    form = FORMATS.get(name or "")
    return is_written and form is not None and bool(form.stream or form.listed) and not _holds_several(source, form)


def _holds_several(source: Source, form: FileFormat) -> bool:
    """Whether a large document holds several conversations, which are read one by one."""
    if form.split is None:
        return False
    with sources.open_binary(source) as stream:
        return sources.holds_several(stream, form.name)


# --- converting ------------------------------------------------------------------------------------------------------


def convert(piece: SourcePiece, task: PieceTask) -> PieceResult:
    """Converts a piece; failures are among its problems."""
    result = PieceResult()
    if piece.kind == "problem":
        given = piece.data
        result.problems.append(given if isinstance(given, SourceProblem) else SourceProblem(piece.source.name, given))
        return result
    if piece.kind == "stream":
        problems: list[SourceProblem] = []
        with jsontext.Repairs() as repaired:
            session = large_sessions.open_large(piece.source, task.origin, problems, limit=task.limit)
        if session is not None and _convert_session(session, piece.source.name, task, result, repaired):
            for problem in problems:
                _reject(result, task, problem, None)
            return result
        piece = piece._replace(kind="file")
    bodies: list[bytes] = []
    if piece.kind == "session":
        _copy(piece, task, result, bodies)
    else:
        for document, text in _read(piece, task, result):
            try:
                _convert_document(document, task, result, bodies)
            except InterlinguaError as error:
                _reject(result, task, SourceProblem(document.name, str(error), document.line), text or document.data)
    result.payload = packed(b"".join(bodies), task.packing) if bodies else b""
    return result


def _convert_session(
    session: large_sessions.LargeSession, name: str, task: PieceTask, result: PieceResult, repaired: list[str]
) -> bool:
    """Converts a large session entry by entry; returns False if it must be in memory for that."""
    session.about = _with_model(session.about, task)
    parts, losses = session.transcript, _Losses(name, 3 * [None])
    with contextlib.ExitStack() as stack:
        if task.rows:
            losses = _Losses(name, [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)])
        if task.target == conversion.SELF:
            parts, result.is_body = session.json, True
        elif task.target != transcript.API:
            encoding = encode_large(session, task.target, losses)
            if encoding is None:
                return False
            parts, result.is_body = encoding.parts, encoding.is_body
        for path in dict.fromkeys(repaired):
            losses.add(0, replaced(path))
        loss = losses.refused
        if loss is not None and task.strict:
            error = Unsupported(task.target, f"{loss.what}: {loss.why}", loss.path)
            _reject(result, task, SourceProblem(name, str(error)), None)
            return True
        if repaired or task.target not in (conversion.SELF, transcript.API):
            result.losses = losses.summary()
        stack.pop_all()  # the files are closed when they have been read
    result.count, in_row = 1, task.rows and task.bodies
    if task.rows:
        row = {"source": name, "line": None, "from": session.dialect}
        body = parts() if in_row else None
        result.streamed_row = _row_parts(row, losses.rows(), body, is_list=not result.is_body)
    if not in_row:
        result.streamed = itertools.chain(parts(), (b"\n",)) if result.is_body else parts()
    return True


class _Losses:
    """The losses of a session in the order of their stages; as rows, in temporary files."""

    def __init__(self, name: str, files: Sequence[IO[bytes] | None]) -> None:
        self._name, self._files = name, files
        self.clear()

    def clear(self) -> None:
        self._stages = [LossSummary() for _ in self._files]
        self._refused: dict[int, Loss] = {}
        for file in self._files:
            if file is not None:
                file.seek(0)
                file.truncate()

    def add(self, stage: int, loss: Loss) -> None:
        self._stages[stage].count(self._name, loss)
        if loss.severity != "record":
            self._refused.setdefault(stage, loss)
        file = self._files[stage]
        if file is not None:
            file.write(jsontext.write(loss_json(loss)) + b"\n")

    @property
    def refused(self) -> Loss | None:
        """The loss that strict mode names."""
        return self._refused[min(self._refused)] if self._refused else None

    def summary(self) -> LossSummary:
        made = LossSummary()
        made.conversations, made.lossy = 1, int(bool(self._refused))
        for stage in self._stages:
            made.merge(stage)
        return made

    def rows(self) -> Iterator[bytes]:
        for file in self._files:
            assert file is not None
            with file:
                file.seek(0)
                yield from file


def _row_parts(
    row: dict[str, Any], losses: Iterable[bytes], body: Iterable[bytes] | None, *, is_list: bool
) -> Iterator[bytes]:
    """Yields the JSON text of a row, with its losses and its body; with `is_list`, the body is one line a part."""
    yield jsontext.write(row)[:-1] + b',"losses":['
    yield from _separated(losses)
    yield b"]"
    if body is not None:
        yield b',"body":' + b"[" * is_list
        yield from _separated(body) if is_list else body
        yield b"]" * is_list
    yield b"}"


def _separated(lines: Iterable[bytes]) -> Iterator[bytes]:
    for at, line in enumerate(lines):
        yield b"," * bool(at) + line.rstrip(b"\n")


def _convert_document(document: Document, task: PieceTask, result: PieceResult, bodies: list[bytes]) -> None:
    name = task.origin or document.dialect or _detected(document)
    given = document.data
    conversation = _with_model(given if isinstance(given, Conversation) else conversion.decode(given, name), task)
    encoded = conversion.encode(conversation, task.target, strict=task.strict)
    if document.repaired:
        encoded = with_losses(encoded, map(replaced, document.repaired), task.target, strict=task.strict)
    losses = tuple(encoded.losses)
    lines = isinstance(encoded.body, Lines)
    payload = _written(encoded.body) if lines else encoded.bytes()
    result.count += 1
    result.numbered |= document.line is not None
    result.losses.add(document.name, losses)
    if task.rows:
        row: dict[str, Any] = {"source": document.source.name, "line": document.line, "from": name}
        row["losses"] = [loss_json(loss) for loss in losses]
        if task.bodies:
            row["body"] = [jsontext.read(line) for line in payload.splitlines()] if lines else jsontext.read(payload)
        result.rows.append(row)
    if lines and task.target in FORMATS and FORMATS[task.target].mixed_lines:
        bodies.append(payload)
    elif lines:
        result.sessions.append((document.line, payload))
    else:
        bodies += (payload, b"\n")


def _written(lines: Lines) -> bytes:
    """Returns lines as bytes. Each line is released when it is written: all of them may be most of the memory."""
    lines.reverse()
    written = io.BytesIO()
    while lines:
        written.write(jsontext.write(lines.pop()) + b"\n")
    return written.getvalue()


def _with_model(conversation: Conversation, task: PieceTask) -> Conversation:
    if task.model is None:
        return conversation
    # The api stays that of the source: it decides what must be adapted.
    provider, _, id = task.model.partition("/")
    api = conversation.model.api if conversation.model is not None else ""
    return replace(conversation, model=ModelDescriptor(id=id, provider=provider, api=api))


def _detected(document: Document) -> str:
    name = detect_name(document.data)
    if name is None:
        raise InterlinguaError("no known format; give it with --from")
    return name


def _reject(result: PieceResult, task: PieceTask, problem: SourceProblem, data: Any) -> None:
    result.problems.append(problem)
    if task.rejects:
        text = data.decode("utf-8", "replace").rstrip("\r\n") if isinstance(data, bytes) else data
        row = {"source": problem.name, "line": problem.line, "error": problem.message, "data": text}
        try:
            result.rejected.append(jsontext.write(row))
        except FormatError:  # the source contains what JSON cannot express
            result.rejected.append(jsontext.write({**row, "data": None}))


def _read(piece: SourcePiece, task: PieceTask, result: PieceResult) -> Iterator[tuple[Document, bytes | None]]:
    """Yields the documents of a piece, with their text where they have their own."""
    if piece.kind == "documents":
        for document in piece.data:
            yield document, None
    elif piece.kind == "file":
        yield from _read_file(piece, task, result)
    else:
        lines = piece.data if piece.kind == "array" else read_lines(piece)
        what = "conversation" if piece.kind == "array" else "line"
        yield from _read_each(piece.source, lines, piece.first, task, result, what)


def _read_file(piece: SourcePiece, task: PieceTask, result: PieceResult) -> Iterator[tuple[Document, bytes | None]]:
    kind = None
    with contextlib.suppress(OSError, *sources.DAMAGED), sources.open_binary(piece.source) as stream:
        kind = sources.look(stream, task.origin, task.columns, task.limit).kind
    if kind == "lines":
        with sources.open_binary(piece.source) as stream:
            yield from _read_each(piece.source, sources.read_lines(stream, task.limit), 0, task, result)
        return
    problems: list[SourceProblem] = []
    for document in sources.documents(
        piece.source,
        task.origin,
        problems,
        limit=task.limit,
        columns=task.columns,
        decoded=not task.rejects,  # what fails is kept as it was
    ):
        yield document, None
    for problem in problems:
        _reject(result, task, problem, None)


def _read_each(
    source: Source, lines: Iterable[bytes], first: int, task: PieceTask, result: PieceResult, what: str = "line"
) -> Iterator[tuple[Document, bytes | None]]:
    """Yields lines or elements that are conversations; `first` is the number before them."""
    for number, line in enumerate(lines, first + 1):
        if not line.strip():
            continue
        name = f"{source.name}:{number}"
        if len(line) > task.limit:
            _reject(result, task, SourceProblem(name, sources.too_long(task.limit, what), number), None)
            continue
        try:
            with jsontext.Repairs() as repaired:
                values = jsontext.read_line(as_utf8(line) if number == 1 else line)
        except FormatError as error:
            _reject(result, task, SourceProblem(name, error.message, number), line)
            continue
        for value in values:
            yield Document(source, number, sources.renamed(value, task.columns), repaired=tuple(repaired)), line


def read_lines(piece: SourcePiece) -> Iterable[bytes]:
    """Yields the lines of a piece, with their line ends."""
    if piece.data is not None:
        return io.BytesIO(piece.data)
    assert piece.source.path is not None
    with stream_regular(piece.source.path) as stream:
        stream.seek(piece.start)
        data = stream.read(piece.end - piece.start)
        if os.fstat(stream.fileno()).st_ino != piece.inode or len(data) < piece.end - piece.start:
            raise _changed(piece.source)
        return io.BytesIO(data)


def _copy(piece: SourcePiece, task: PieceTask, result: PieceResult, bodies: list[bytes]) -> None:
    """Copies the lines of a session: plain ones unchanged, those with packed ids or signatures one by one."""
    copy = transcript.copy_line
    with jsontext.Repairs() as repaired:
        for number, line in enumerate(read_lines(piece), piece.first + 1):
            line = line.strip()
            if not line:
                continue
            try:
                made = _unpacked(line) if b"|" in line or b'ignature"' in line else copy(line)
                if repaired:
                    _note_repairs(f"{piece.source.name}:{number}", repaired, task, result)
                bodies += (made, b"\n")
            except InterlinguaError as error:
                result.problems.append(SourceProblem(f"{piece.source.name}:{number}", str(error), number))
    result.count = 1 if bodies else 0


def _note_repairs(name: str, repaired: list[str], task: PieceTask, result: PieceResult) -> None:
    """Adds what was repaired in a line to the losses; in strict mode it is refused."""
    losses = tuple(map(replaced, dict.fromkeys(repaired)))
    repaired.clear()
    if task.strict:
        raise Unsupported(task.target, f"{losses[0].what}: {losses[0].why}", losses[0].path)
    result.losses.add(name, losses)


def _unpacked(line: bytes) -> bytes:
    """Converts a line that may have packed ids or signatures."""
    value = jsontext.read(line)
    place = {key: value.pop(key) for key in ("id", "parentId", "parents", "entryExtra") if key in value}
    conversation = conversion.decode(Lines([value]), "openclaw")
    return jsontext.write({**conversion.encode(conversation, "transcript").body[0], **place})


@contextlib.contextmanager
def packing_into(stream: IO[bytes], packing: str | None) -> Iterator[IO[bytes]]:
    """Compresses what is written into a stream, which stays open."""
    if packing == ".gz":
        with gzip.GzipFile("", "wb", 6, stream, mtime=0) as file:
            yield file  # type: ignore[misc]
    elif packing == ".zst":
        with zstandard.ZstdCompressor().stream_writer(stream, closefd=False) as writer:
            yield writer
    else:
        yield stream


def packed(data: bytes, packing: str | None) -> bytes:
    """Compresses bytes as a gzip member or a zstd frame: such files may be concatenated."""
    if packing == ".gz":
        return gzip.compress(data, 6, mtime=0)
    return zstandard.ZstdCompressor().compress(data) if packing == ".zst" else data


# --- processes -------------------------------------------------------------------------------------------------------


def run(
    tasks: Iterable[tuple[int, SourcePiece]], task: PieceTask, workers: int, spool: Path | None = None
) -> Generator[tuple[int, SourcePiece, PieceResult]]:
    """Yields the pieces with their results, in order. Only as many are pending as keep the workers busy.

    `spool` is how the path of a folder begins, for temporary files with what the workers make of large sessions;
    without it, such sessions are converted here while they are written.
    """
    if workers == 1:
        for index, piece in tasks:
            yield index, piece, convert(piece, task)
        return
    with ProcessPoolExecutor(workers, initializer=_end_with_parent) as pool, contextlib.ExitStack() as stack:
        waiting: deque[tuple[int, SourcePiece, Future[PieceResult]]] = deque()
        submit: Callable[..., Future[PieceResult]] = pool.submit
        folder: Path | None = None
        try:
            for number, (index, piece) in enumerate(tasks):
                if piece.kind != "stream":
                    future = submit(convert, piece, task)
                elif spool is not None:
                    if folder is None:
                        spool.parent.mkdir(parents=True, exist_ok=True)
                        made = tempfile.TemporaryDirectory(prefix=f"{spool.name}-", dir=spool.parent)
                        folder = Path(stack.enter_context(made))
                    future = submit(_convert_to_file, piece, task, folder / f"{number}")
                else:  # read here while it is written
                    future = Future()
                    future.set_result(convert(piece, task))
                waiting.append((index, piece._replace(data=None), future))
                if len(waiting) > 2 * workers:
                    yield _finished(waiting)
            while waiting:
                yield _finished(waiting)
        finally:
            for _, _, future in waiting:
                future.cancel()
            pool.shutdown()  # before the temporary files are removed


def _convert_to_file(piece: SourcePiece, task: PieceTask, path: Path) -> PieceResult:
    """Converts a large session into a temporary file."""
    result = convert(piece, task)
    if result.streamed is not None:
        with path.open("wb") as file:
            file.writelines(result.streamed)
        result.streamed, result.spooled = None, path
    if result.streamed_row is not None:
        path = path.with_suffix(".row")
        with path.open("wb") as file:
            file.writelines(result.streamed_row)
        result.streamed_row, result.spooled_row = None, path
    return result


def _finished(waiting: "deque[tuple[int, SourcePiece, Future[PieceResult]]]") -> tuple[int, SourcePiece, PieceResult]:
    index, piece, future = waiting.popleft()
    result = future.result()
    if result.spooled is not None:
        result.streamed = _moved(result.spooled)
    if result.spooled_row is not None:
        result.streamed_row = _moved(result.spooled_row)
    return index, piece, result


def _moved(path: Path) -> Iterator[bytes]:
    """Yields the content of a temporary file, which is removed."""
    with path.open("rb") as file:
        path.unlink()
        while data := file.read(1 << 20):
            yield data


def _end_with_parent() -> None:
    """Ends this process when its parent has died, even if it was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    parent = multiprocessing.parent_process()
    if parent is not None:
        sentinel = parent.sentinel
        threading.Thread(target=lambda: (wait([sentinel]), os._exit(1)), daemon=True).start()
