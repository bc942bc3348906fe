"""`interlingua convert`: any format in, any format out, with what was lost."""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import IO, Any

import click
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from .. import conversion
from ..dialects import DIALECTS
from ..errors import InterlinguaError
from ..losses import Encoded, Lines
from . import bulk, output, sources
from .sources import Document, Problem, Source

NAMES = click.Choice(sorted([*DIALECTS, conversion.SELF]))


class Result:
    """One conversation converted, as it travels back from a worker."""

    __slots__ = ("detected", "error", "line", "lines", "losses", "name", "payload", "source")

    def __init__(self, document: Document) -> None:
        self.source = document.source
        self.line = document.line
        self.name = document.name
        self.payload = b""
        self.lines = False
        self.losses: tuple[Any, ...] = ()
        self.detected: str | None = None
        self.error: str | None = None


@click.command("convert")
@click.argument("inputs", nargs=-1, metavar="IN…")
@click.option("-f", "--from", "origin", type=NAMES, help="The format of the input; detected if not given.")
@click.option("-t", "--to", "target", type=NAMES, required=True, help="The format to write.")
@click.option("-o", "--output", "place", type=click.Path(), help="A file, or a folder for many inputs.")
@click.option("--report", is_flag=True, help="Show what was lost, on standard error.")
@click.option("--records", is_flag=True, help="In the report, list bookkeeping (timestamps, usage, …) too.")
@click.option("--strict", is_flag=True, help="Refuse what cannot be carried in full.")
@click.option("--json", "as_json", is_flag=True, help="Results and losses as JSON, for programs.")
@click.option("-j", "--jobs", type=click.IntRange(1), default=None, help="Processes; all cores by default.")
@click.option("--max-size", type=click.IntRange(1), default=512, show_default=True, help="Largest single body, in MB.")
def command(
    inputs: tuple[str, ...],
    origin: str | None,
    target: str,
    place: str | None,
    report: bool,
    records: bool,
    strict: bool,
    as_json: bool,
    jobs: int | None,
    max_size: int,
) -> None:
    """Convert conversations from any format to another, and say what was lost.

    IN is a file, a glob, a folder, or - for standard input; plain, gzip or zstd; a JSON body, JSON lines, a session
    file or a recorded stream.
    """
    found = sources.expand(inputs)
    out = Path(place) if place is not None else None
    into_folder = out is not None and (len(found) > 1 or out.is_dir() or str(place).endswith(os.sep))
    workers = jobs or os.cpu_count() or 1
    if out is not None and not into_folder and not as_json and bulk.applies(found[0], origin, target):
        _finish(bulk.convert(found[0], target, out, workers))
        return
    problems: list[Problem] = []
    results = _run(found, origin, target, strict, workers, max_size << 20, problems)
    shown = _write(results, target, out, into_folder, as_json, problems, report=report, records=records)
    if as_json:
        errors = [{"source": problem.name, "message": problem.message} for problem in problems]
        output.say_json({"to": target, "results": shown, "errors": errors})
    _finish(problems)


def _finish(problems: Sequence[Problem]) -> None:
    output.report_problems(problems)
    if problems:
        sys.exit(1)


def _run(
    found: list[Source],
    origin: str | None,
    target: str,
    strict: bool,
    workers: int,
    limit: int,
    problems: list[Problem],
) -> Iterator[Result]:
    """Converts every document, several at a time when there are many files."""
    with _progress(found) as advance:
        if workers > 1 and len(found) >= 8:
            with ProcessPoolExecutor(workers) as pool:
                tasks = ((source, origin, target, strict, limit) for source in found)
                for source, (results, bad) in zip(found, pool.map(_file, tasks, chunksize=4), strict=True):
                    problems.extend(bad)
                    yield from results
                    advance(source)
        else:
            for source in found:
                for document in sources.documents(source, origin, problems, limit=limit):
                    yield _converted(document, origin, target, strict)
                advance(source)


def _file(task: tuple[Source, str | None, str, bool, int]) -> tuple[list[Result], list[Problem]]:
    source, origin, target, strict, limit = task
    problems: list[Problem] = []
    documents = sources.documents(source, origin, problems, limit=limit)
    return [_converted(document, origin, target, strict) for document in documents], problems


def _converted(document: Document, origin: str | None, target: str, strict: bool) -> Result:
    result = Result(document)
    try:
        named = origin or _named(document)
        result.detected = named
        encoded: Encoded = conversion.convert(document.data, target, named, strict=strict)
        result.payload = encoded.bytes()
        result.lines = isinstance(encoded.body, Lines)
        result.losses = tuple(encoded.losses)
    except InterlinguaError as error:
        result.error = str(error)
    return result


def _named(document: Document) -> str:
    found = conversion.detect(document.data)
    if found is None:
        raise InterlinguaError("no known format; name it with --from")
    return found.dialect


@contextlib.contextmanager
def _progress(found: list[Source]) -> Iterator[Any]:
    """A bar on a terminal, when there is enough to wait for."""
    sizes = {source: source.path.stat().st_size if source.path and source.path.exists() else 0 for source in found}
    total = sum(sizes.values())
    if not sys.stderr.isatty() or total < 8 << 20:
        yield lambda source: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=output.console(err=True), transient=True) as bar:
        task = bar.add_task("converting", total=total)
        yield lambda source: bar.advance(task, sizes[source])


def _write(
    results: Iterator[Result],
    target: str,
    out: Path | None,
    into_folder: bool,
    as_json: bool,
    problems: list[Problem],
    *,
    report: bool,
    records: bool,
) -> list[dict[str, Any]]:
    """Puts each result where it belongs; gives what `--json` shows of them."""
    shown: list[dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        place: _Place = _Folder(out, stack) if into_folder and out else _Stream(_stream(out, stack, as_json))
        for result in results:
            if result.error is not None:
                problems.append(Problem(result.name, result.error))
                continue
            place.put(result)
            if report:
                output.report_losses(f"{result.name} → {target}", result.losses, records=records)
            if as_json:
                shown.append(_shown(result, with_body=out is None))
    return shown


def _shown(result: Result, *, with_body: bool) -> dict[str, Any]:
    from .. import jsontext

    row: dict[str, Any] = {"source": result.source.name, "line": result.line, "from": result.detected}
    row["losses"] = [output.loss_json(loss) for loss in result.losses]
    if with_body:
        row["body"] = (
            [jsontext.read(line) for line in result.payload.splitlines()]
            if result.lines
            else jsontext.read(result.payload)
        )
    return row


def _stream(out: Path | None, stack: contextlib.ExitStack, as_json: bool) -> IO[bytes] | None:
    if out is not None:
        return stack.enter_context(output.atomic(out))
    return None if as_json else sys.stdout.buffer


class _Stream:
    """One output for everything: a body, or a line each."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        self._stream = stream

    def put(self, result: Result) -> None:
        if self._stream is not None:
            self._stream.write(_ended(result))


class _Folder:
    """An output file per input file."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._source: Source | None = None
        self._stream: IO[bytes] | None = None
        self._names: set[str] = set()

    def put(self, result: Result) -> None:
        if result.source != self._source:
            self._stack.close()  # the file before this one is whole: it takes its place now
            self._source = result.source
            self._stream = self._stack.enter_context(output.atomic(self._folder / self._name(result)))
        assert self._stream is not None
        self._stream.write(_ended(result))

    def _name(self, result: Result) -> str:
        ending = ".jsonl" if result.lines or result.line is not None else ".json"
        name, n = f"{result.source.stem}{ending}", 1
        while name in self._names:
            n += 1
            name = f"{result.source.stem}-{n}{ending}"
        self._names.add(name)
        return name


_Place = _Stream | _Folder


def _ended(result: Result) -> bytes:
    return result.payload if result.lines else result.payload + b"\n"
