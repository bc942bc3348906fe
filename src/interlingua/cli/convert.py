"""`interlingua convert`: converts between any formats, files of any size, and reports losses."""

import contextlib
import hashlib
import itertools
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import click
from click.shell_completion import CompletionItem

from .. import conversion
from .._version import __version__
from ..conversion import local_files, sources
from ..conversion.containers import COLUMNAR
from ..conversion.sources import PACKED, Source
from ..dialects import DIALECTS, FORMATS
from ..dialects.registry import aliases, canonical
from ..values import jsontext
from ..values.errors import InterlinguaError, unknown
from ..values.regular import naming
from . import bulk, output
from .bulk import PieceTask, SourcePiece
from .options import complete_models
from .outputs import ColumnarOutput, FolderOutput, Output, PieceJournal, Rejects, RunProgress, SingleConversation, Tally

PARALLEL = 4 * 1024 * 1024  # bytes of input that justify more processes; or so many files:
MANY = 8
PROGRESS_EVERY = 5.0  # seconds between lines of progress where there is no terminal


class Registered(click.ParamType[str]):
    """The name of a dialect, including plugins', or an alias (`openai`, `anthropic`, `gemini`).

    `writable`: only formats that can be written from any conversation are offered; others only write what they have
    read.
    """

    name = "format"

    def __init__(self, names: Callable[[], Iterable[str]], *, writable: bool = False) -> None:
        self._names = names
        self._writable = writable

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = canonical(str(value))
        names = set(self._names())
        if name not in names:
            known = {*self.offered(), *(alias for alias, real in aliases().items() if real in names)}
            self.fail(unknown("format", str(value), known), param, ctx)
        return name

    def offered(self) -> list[str]:
        return sorted(name for name in self._names() if not self._writable or is_writable(name))

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        names = {*self.offered(), *aliases()}
        return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def is_writable(name: str) -> bool:
    return name not in FORMATS or FORMATS[name].writable


NAMES = Registered(lambda: (*DIALECTS, conversion.SELF))
TARGETS = Registered(lambda: (*DIALECTS, conversion.SELF), writable=True)
_OTHER_ARCHIVES = (".zip", ".tar", ".tgz", ".bz2", ".xz", ".7z", ".rar")


@click.command("convert")
@click.argument("inputs", nargs=-1, metavar="IN…")
@click.option("-f", "--from", "origin", type=NAMES, help="The format of the input; detected if not given.")
@click.option("-t", "--to", "target", type=TARGETS, required=True, help="The format to write; `dialects` lists them.")
@click.option(
    "-o",
    "--output",
    "place",
    type=click.Path(),
    callback=output.or_standard_output,
    help="A file (.gz and .zst are packed, .parquet and .arrow have columns), or a folder; for many inputs, a file"
    " needs one of these endings, or .json, .jsonl or .ndjson.",
)
@click.option(
    "-m",
    "--model",
    shell_complete=complete_models,
    help="The model to write into requests, and whose limits to adapt to.",
)
@click.option(
    "--columns",
    metavar="NAME=COLUMN,…",
    callback=lambda ctx, param, given: _columns(given),
    help="The file's names for columns of the format: `messages=chat,messages.role=from`.",
)
@click.option("--report", is_flag=True, help="Show what was lost, on standard error; grouped, for many conversations.")
@click.option("--records", is_flag=True, help="In the report, also list bookkeeping (timestamps, usage, …).")
@click.option("--strict", is_flag=True, help="Fail if anything would be lost.")
@click.option(
    "--on-error",
    type=click.Choice(["skip", "stop", "keep"]),
    default="skip",
    show_default=True,
    help="Report and skip failures, stop at the first, or also keep them in OUT.errors.jsonl.",
)
@click.option("--resume", is_flag=True, help="Resume an interrupted run to the same output.")
@click.option("--progress/--no-progress", default=None, help="Bytes, rate and time left; on a terminal by default.")
@click.option("--json", "as_json", is_flag=True, help="Results and losses as JSON, for programs.")
@click.option("-j", "--jobs", type=click.IntRange(1), default=None, help="Processes; all cores by default.")
@click.option("--max-size", type=click.IntRange(1), default=512, show_default=True, help="Largest single body, in MB.")
def command(
    inputs: tuple[str, ...],
    origin: str | None,
    target: str,
    place: str | None,
    model: str | None,
    columns: dict[str, str],
    report: bool,
    records: bool,
    strict: bool,
    on_error: str,
    resume: bool,
    progress: bool | None,
    as_json: bool,
    jobs: int | None,
    max_size: int,
) -> None:
    """Convert conversations between formats and report losses.

    Session formats (transcript, openclaw, …) have one conversation per file: for several, give a folder with -o.
    IN is a file, a glob, a folder, or - for standard input; plain, gzip, zstd or zip; a JSON body, an array of them,
    JSON lines, a session file or a recorded stream. Files of any size are converted in bounded memory, on all cores.
    """
    out = Path(place) if place is not None else None
    found = sources.expand(inputs)
    if out is not None:
        found = _without_output(found, inputs, out)
    model = None if model is None else _full_name(model)
    is_many = len(found) > 1 or any(Path(given).is_dir() for given in inputs)
    into_folder = out is not None and (out.is_dir() or str(place).endswith(os.sep) or (is_many and not _is_file(out)))
    folder = out if into_folder else None
    if folder is not None:
        found = list(dict.fromkeys(found))  # a file that was named twice is one file in the folder
    if out is not None and folder is None:
        local_files.refuse_inputs(out, (source.path for source in found))
        if out.suffix in _OTHER_ARCHIVES:
            raise click.UsageError(f"{out.suffix} cannot be written; use .gz or .zst, or a folder")
    if on_error == "keep" and out is None:
        raise click.UsageError("--on-error keep needs -o; failed inputs are written beside the output")
    packing = out.suffix if out is not None and folder is None and out.suffix in PACKED else None
    task = PieceTask(
        origin,
        target,
        model,
        strict,
        max_size << 20,
        rows=as_json,
        bodies=as_json and out is None,
        packing=packing,
        rejects=on_error == "keep",
        columns=columns,
    )
    columnar = COLUMNAR.get(out.suffix) if out is not None and folder is None else None
    if columnar and resume:
        raise click.UsageError("--resume writes JSON lines; leave it out for Parquet and Arrow files")
    own = folder / f".convert-{_run_id(found)}" if folder is not None else None
    journal = None if columnar else _journal(found, out, own, task, as_json=as_json, resume=resume)
    # One large session is converted while it is written; of several, one in each process.
    spool = own if len(found) > 1 else None
    copy = out is not None and not (folder or columnar or as_json or model)
    run = _Run(found, task, journal, on_error, copy=copy, spool=spool)
    if resume and journal is not None:
        journal.resume(run.tally)
        for left in spool.parent.glob(f"{spool.name}-*") if spool is not None else ():
            shutil.rmtree(left, ignore_errors=True)  # of the process that was killed
    into: Output | FolderOutput
    if folder is not None:
        into = FolderOutput(folder, [source.path for source in found], journal)
    elif out is not None and columnar is not None:
        into = ColumnarOutput(out, columnar)
    else:
        into = Output(out, write=out is not None or not as_json, packing=packing, journal=journal)
    rejects = Rejects(_rejects_path(out, folder) if task.rejects else None, journal)
    with tempfile.TemporaryFile() as rows:
        run.convert(into, rejects, rows, jobs, progress)
        _report_outcome(run.tally, target, rows, as_json=as_json, report=report, records=records)
    if run.tally.failed:
        sys.exit(1)


def _without_output(found: list[Source], inputs: Iterable[str], out: Path) -> list[Source]:
    """Leaves out what an earlier run wrote into a folder of its inputs, unless it is named or there is nothing else."""
    named, ours = set(map(Path, inputs)), {out.resolve(), Path(f"{out}.errors.jsonl").resolve()}

    def is_input(path: Path | None) -> bool:
        return path is None or path in named or ours.isdisjoint((whole := path.resolve(), *whole.parents))

    rest = [source for source in found if is_input(source.path)]
    if not rest or len(rest) == len(found):
        return found
    count = len(found) - len(rest)
    files = "1 file is" if count == 1 else f"{count} files are"
    print(f"interlingua: {out}: {files} not read, as this is the output", file=sys.stderr)
    return rest


def _is_file(out: Path) -> bool:
    """Whether an output for several inputs is one file, by its name; any other is a folder."""
    return out.is_file() or out.suffix in (".json", ".jsonl", ".ndjson", *COLUMNAR, *PACKED)


def _columns(given: str | None) -> dict[str, str]:
    """Parses `NAME=COLUMN,…`."""
    pairs = [pair.partition("=") for pair in given.split(",")] if given else []
    for name, _, column in pairs:
        if not name.strip() or not column.strip():
            raise click.BadParameter(f"{given!r}; write NAME=COLUMN, with commas between several")
    return {name.strip(): column.strip() for name, _, column in pairs}


def _full_name(model: str) -> str:
    from ..connect.client import default_client
    from ..connect.names import full_name

    return full_name(model, default_client().connectors)


def _report_outcome(tally: Tally, target: str, rows: IO[bytes], *, as_json: bool, report: bool, records: bool) -> None:
    """Reports the outcome of a run: rows for programs, losses and problems for people."""
    if as_json:
        errors = [{"source": problem.name, "message": problem.message} for problem in tally.problems]
        sys.stdout.buffer.write(b'{"to":%s,"results":[' % jsontext.write(target))
        rows.seek(0)
        shutil.copyfileobj(rows, sys.stdout.buffer)
        rest = {"errors": errors} | ({"errorCount": tally.failed} if tally.failed > len(errors) else {})
        sys.stdout.buffer.write(b"]," + jsontext.write(rest)[1:] + b"\n")
    elif report and (tally.count or not tally.failed):  # of nothing, nothing was lost
        output.report_summary(_named(tally), target, tally.losses, records=records)
    else:
        output.note_summary(f"{_named(tally)} → {target}", tally.losses)
    output.report_problems(tally.problems, tally.failed)


def _named(tally: Tally) -> str:
    return next(iter(tally.names)) if len(tally.names) == 1 else f"{len(tally.names)} files"


def _rejects_path(out: Path | None, folder: Path | None) -> Path | None:
    if folder is not None:
        return folder / "errors.jsonl"
    return out.with_name(f"{out.name}.errors.jsonl") if out is not None else None


def _run_id(found: list[Source]) -> str:
    """Tells the temporary files of a run from those of others that write into its folder."""
    return hashlib.blake2b("\0".join(source.name for source in found).encode(), digest_size=4).hexdigest()


def _journal(
    found: list[Source], out: Path | None, own: Path | None, task: PieceTask, *, as_json: bool, resume: bool
) -> PieceJournal | None:
    """The journal of a resumable run: from files, into files. `own` is how the names of its files in a folder begin."""
    regular = out is not None and (own is not None or not out.exists() or out.is_file())
    if not regular or as_json or any(source.path is None for source in found):
        if resume:
            raise click.UsageError("--resume needs input files, and a file or folder with -o, without --json")
        return None
    assert out is not None
    if not resume and sum(_state(source)[0] for source in found) < bulk.LARGE:
        return None  # quick to redo
    path = own.with_name(f"{own.name}.progress") if own is not None else out.with_name(f".{out.name}.progress")
    files = [[source.name, *_state(source)] for source in found]
    options = {**task._asdict(), "piece": bulk.PIECE, "version": __version__}
    return PieceJournal(path, {"inputs": files, "options": options})


def _state(source: Source) -> tuple[int, int]:
    assert source.path is not None
    try:
        state = source.path.stat()
    except OSError:
        return 0, 0
    return state.st_size, state.st_mtime_ns


class _Run:
    """One run over all sources."""

    def __init__(
        self,
        found: list[Source],
        task: PieceTask,
        journal: PieceJournal | None,
        on_error: str,
        *,
        copy: bool,
        spool: Path | None,
    ) -> None:
        self._found = found
        self._task = task
        self._journal = journal
        self._stops = on_error == "stop"
        self._copy = copy
        self._spool = spool
        self.tally = Tally()

    def convert(
        self,
        into: Output | FolderOutput,
        rejects: Rejects,
        rows: IO[bytes],
        jobs: int | None,
        progress: bool | None,
    ) -> None:
        """Converts everything. The journal stays after an interruption only, for --resume."""
        journal = self._journal
        has_stream = any(source.path is None for source in self._found)
        total = None if has_stream else sum(_state(source)[0] for source in self._found)
        is_large = total is None or total >= PARALLEL or len(self._found) >= MANY
        workers = (jobs or os.cpu_count() or 1) if is_large else 1
        try:
            # The rows are in an unnamed file; outputs name themselves.
            with naming(tempfile.gettempdir()), _progress(total, progress) as advance, into, rejects:
                self._write(into, rejects, rows, workers, advance)
        except SingleConversation as error:
            self.tally = Tally()
            self.tally.fail([sources.SourceProblem(self._task.target, str(error))])
            rows.truncate(0)
        except (KeyboardInterrupt, OSError) as error:
            if journal is not None and journal.done != RunProgress():
                why = "interrupted" if isinstance(error, KeyboardInterrupt) else "not finished"
                print(f"interlingua: {why}; run the same command with --resume to continue", file=sys.stderr)
            raise
        except BaseException:
            if journal is not None:
                journal.remove()
            raise
        if journal is not None:
            journal.remove()

    def _write(
        self,
        into: Output | FolderOutput,
        rejects: Rejects,
        rows: IO[bytes],
        workers: int,
        advance: Callable[[int, int], None],
    ) -> None:
        """Converts everything that is not done yet, and records each piece in the journal when it is written."""
        written = RunProgress() if self._journal is None else self._journal.done
        number, index = written.pieces, written.source  # pieces of this source
        before = self._bytes(0, index)  # of earlier sources
        with contextlib.closing(bulk.run(self._pieces(into), self._task, workers, self._spool)) as results:
            for at, piece, result in results:
                if at != index:
                    before += self._bytes(index, at)
                    index, number = at, 0
                number += 1
                if result.problems and self._stops:
                    first = result.problems[0]
                    raise InterlinguaError(f"{first.name}: {first.message}; --on-error skip ignores such errors")
                names = into.put(piece.source, result)
                rejects.put(result.rejected)
                for row in result.rows:
                    rows.write((b"," if rows.tell() else b"") + jsontext.write(row))
                if result.streamed_row is not None:
                    rows.write(b"," if rows.tell() else b"")
                    rows.writelines(result.streamed_row)
                self.tally.add(piece.source, result)
                if self._journal is not None and not into.is_pending:
                    done = RunProgress(at, number, *into.place(), rejects.length(), into.origin)
                    self._journal.write(done, piece.source, result, names)
                advance(before + piece.position, self.tally.count)

    def _bytes(self, start: int, end: int) -> int:
        return sum(_state(source)[0] for source in self._found[start:end] if source.path is not None)

    def _pieces(self, into: Output | FolderOutput) -> Iterator[tuple[int, SourcePiece]]:
        done = RunProgress() if self._journal is None else self._journal.done
        if self._journal is not None:
            self._journal.open()
            into.resume()
        for index, source in enumerate(self._found[done.source :], done.source):
            skipped = done.pieces if index == done.source else 0
            for piece in itertools.islice(bulk.pieces(source, self._task, copy=self._copy), skipped, None):
                yield index, piece


@contextlib.contextmanager
def _progress(total: int | None, enabled: bool | None) -> Iterator[Callable[[int, int], None]]:
    """A function that reports bytes and conversations done: as a bar on a terminal, else as occasional lines."""
    terminal = sys.stderr.isatty()
    if enabled is False or (enabled is None and (not terminal or (total or 0) < bulk.LARGE)):
        yield lambda position, count: None
    elif terminal:
        with output.progress_bar() as bar:
            shown = bar.add_task("converting", total=total)
            yield lambda position, count: bar.update(shown, completed=position, description=f"{count:,} conversations")
    else:
        yield _Lines(total).advance


class _Lines:
    """Progress as lines, for logs."""

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._began = self._last = time.monotonic()
        self._first: int | None = None  # where a resumed run began

    def advance(self, position: int, count: int) -> None:
        now = time.monotonic()
        self._first = position if self._first is None else self._first
        ended = self._total is not None and position >= self._total
        if now - self._last < PROGRESS_EVERY and not ended:
            return
        self._last = now
        rate = max(position - self._first, 0) / max(now - self._began, 1e-6)
        text = f"{count:,} conversations, {position / 1e6:,.1f} MB"
        if self._total:
            text += f" of {self._total / 1e6:,.1f} MB ({100 * min(position / self._total, 1):.0f} %)"
        text += f", {rate / 1e6:,.1f} MB/s"
        if self._total and rate and not ended:
            left = int((self._total - position) / rate)
            text += f", {left // 3600}:{left // 60 % 60:02}:{left % 60:02} left"
        print(text, file=sys.stderr, flush=True)
