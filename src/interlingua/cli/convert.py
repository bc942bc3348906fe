"""`interlingua convert`: converts between any formats and reports losses."""

import contextlib
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import IO, Any, NamedTuple

import click
from click.shell_completion import CompletionItem
from msgspec.structs import replace
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from .. import conversion
from ..conversion import local_files, sources
from ..conversion.sources import Document, Problem, Source
from ..dialects import DIALECTS, FORMATS
from ..dialects.registry import aliases, canonical
from ..values.errors import InterlinguaError
from ..values.losses import Encoded, Lines
from ..values.request import ModelDescriptor
from ..values.spelling import unknown
from . import bulk, output


class Registered(click.ParamType[str]):
    """The name of a dialect, those of plugins included, or an alias (`openai`, `anthropic`, `gemini`) of one.

    `writable`: only formats that can be written from any conversation are offered; another writes what it has read.
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


class Converted:
    """One converted conversation, as returned by a worker."""

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
@click.option("-t", "--to", "target", type=TARGETS, required=True, help="The format to write; `dialects` lists them.")
@click.option("-o", "--output", "place", type=click.Path(), help="A file, or a folder for many inputs.")
@click.option("-m", "--model", help="The model to write into requests, and whose limits to adapt to.")
@click.option("--report", is_flag=True, help="Show what was lost, on standard error.")
@click.option("--records", is_flag=True, help="In the report, also list bookkeeping (timestamps, usage, …).")
@click.option("--strict", is_flag=True, help="Fail if anything would be lost.")
@click.option("--json", "as_json", is_flag=True, help="Results and losses as JSON, for programs.")
@click.option("-j", "--jobs", type=click.IntRange(1), default=None, help="Processes; all cores by default.")
@click.option("--max-size", type=click.IntRange(1), default=512, show_default=True, help="Largest single body, in MB.")
def command(
    inputs: tuple[str, ...],
    origin: str | None,
    target: str,
    place: str | None,
    model: str | None,
    report: bool,
    records: bool,
    strict: bool,
    as_json: bool,
    jobs: int | None,
    max_size: int,
) -> None:
    """Convert conversations between formats and report losses.

    Session formats (transcript, openclaw, …) have one conversation per file: for several, give a folder with -o.
    IN is a file, a glob, a folder, or - for standard input; plain, gzip or zstd; a JSON body, JSON lines, a session
    file or a recorded stream.
    """
    found = sources.expand(inputs)
    model = None if model is None else _full_name(model)
    out = Path(place) if place is not None else None
    into_folder = out is not None and (len(found) > 1 or out.is_dir() or str(place).endswith(os.sep))
    workers = jobs or os.cpu_count() or 1
    if out is not None and not into_folder:
        local_files.refuse_inputs(out, (source.path for source in found))
    if out is not None and not into_folder and not as_json and not model and bulk.applies(found[0], origin, target):
        _finish(bulk.convert(found[0], target, out, workers))
        return
    problems: list[Problem] = []
    results = _run(found, _Task(origin, target, model, strict, max_size << 20), workers, problems)
    files = [source.path for source in found]
    into: _Place = _Folder(out, files) if into_folder and out else _Stream(out, write=out is not None or not as_json)
    shown = _write(results, target, into, as_json and out is None, problems, report=report, records=records)
    if not as_json and not report:
        names = {result.source.name for result in shown}
        name = next(iter(names)) if len(names) == 1 else f"{len(names)} files"
        output.note_losses(f"{name} → {target}", [result.losses for result in shown])
    if as_json:
        errors = [{"source": problem.name, "message": problem.message} for problem in problems]
        rows = [_shown(result, with_body=out is None) for result in shown]
        output.say_json({"to": target, "results": rows, "errors": errors})
    _finish(problems)


def _finish(problems: Sequence[Problem]) -> None:
    output.report_problems(problems)
    if problems:
        sys.exit(1)


class _Task(NamedTuple):
    """What to make of every document."""

    origin: str | None
    target: str
    model: str | None
    strict: bool
    limit: int


def _full_name(model: str) -> str:
    from ..connect.client import default_client
    from ..connect.names import full_name

    return full_name(model, default_client().connectors)


def _run(found: list[Source], task: _Task, workers: int, problems: list[Problem]) -> Generator[Converted, None, None]:
    """Converts every document, in parallel if there are many files."""
    with _progress(found) as advance:
        if workers > 1 and len(found) >= 8:
            with ProcessPoolExecutor(workers) as pool:
                tasks = ((source, task) for source in found)
                for source, (results, bad) in zip(found, pool.map(_file, tasks, chunksize=4), strict=True):
                    problems.extend(bad)
                    yield from results
                    advance(source)
        else:
            for source in found:
                for document in sources.documents(source, task.origin, problems, limit=task.limit):
                    yield _converted(document, task)
                advance(source)


def _file(given: tuple[Source, _Task]) -> tuple[list[Converted], list[Problem]]:
    source, task = given
    problems: list[Problem] = []
    documents = sources.documents(source, task.origin, problems, limit=task.limit)
    return [_converted(document, task) for document in documents], problems


def _converted(document: Document, task: _Task) -> Converted:
    result = Converted(document)
    try:
        named = task.origin or document.dialect or _named(document)
        result.detected = named
        conversation = conversion.decode(document.data, named)
        if task.model is not None:
            # The api stays that of the source: it says whose the conversation is, and so what must be adapted.
            provider, _, id = task.model.partition("/")
            api = conversation.model.api if conversation.model is not None else ""
            conversation = replace(conversation, model=ModelDescriptor(id=id, provider=provider, api=api))
        encoded: Encoded = conversion.encode(conversation, task.target, strict=task.strict)
        result.payload = encoded.bytes()
        result.lines = isinstance(encoded.body, Lines)
        result.losses = tuple(encoded.losses)
    except InterlinguaError as error:
        result.error = str(error)
    return result


def _named(document: Document) -> str:
    found = conversion.detect(document.data)
    if found is None:
        raise InterlinguaError("no known format; give it with --from")
    return found.dialect


@contextlib.contextmanager
def _progress(found: list[Source]) -> Iterator[Any]:
    """A progress bar on a terminal, for large inputs."""
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
    results: Generator[Converted, None, None],
    target: str,
    place: "_Place",
    with_bodies: bool,
    problems: list[Problem],
    *,
    report: bool,
    records: bool,
) -> list[Converted]:
    """Writes each result; returns them, without their bodies unless `with_bodies`."""
    shown: list[Converted] = []
    with place, contextlib.closing(results):
        for result in results:
            if result.error is not None:
                problems.append(Problem(result.name, result.error))
                continue
            try:
                place.put(result)
            except _SingleConversation as error:
                problems.append(Problem(target, str(error)))
                return []
            if report:
                output.report_losses(f"{result.name} → {target}", result.losses, records=records)
            if not with_bodies:
                result.payload = b""
            shown.append(result)
    return shown


def _shown(result: Converted, *, with_body: bool) -> dict[str, Any]:
    from ..values import jsontext

    row: dict[str, Any] = {"source": result.source.name, "line": result.line, "from": result.detected}
    row["losses"] = [output.loss_json(loss) for loss in result.losses]
    if with_body:
        row["body"] = (
            [jsontext.read(line) for line in result.payload.splitlines()]
            if result.lines
            else jsontext.read(result.payload)
        )
    return row


class _SingleConversation(InterlinguaError):
    """A second conversation for a file that can have only one."""


class _Stream:
    """One output for everything: one body per line, or the lines of one conversation; opened with the first result."""

    def __init__(self, out: Path | None, *, write: bool) -> None:
        self._out = out
        self._write = write
        self._stack = contextlib.ExitStack()
        self._stream: IO[bytes] | None = None
        self._waiting: bytes | None = None  # the lines of a conversation, written at the end if it is the only one

    def put(self, result: Converted) -> None:
        if not self._write:
            return
        if result.lines and self._waiting is not None:
            self._waiting = None
            raise _SingleConversation(
                "several conversations, but a file of this format has one; give a folder for one file each: -o FOLDER/"
            )
        if result.lines:
            self._waiting = result.payload
        else:
            self._opened().write(result.payload + b"\n")

    def _opened(self) -> IO[bytes]:
        if self._stream is None:
            file = (
                self._stack.enter_context(local_files.atomic(self._out)) if self._out is not None else sys.stdout.buffer
            )
            self._stream = file
        return self._stream

    def __enter__(self) -> None:
        self._stack.__enter__()

    def __exit__(self, *failure: Any) -> None:
        if failure[0] is None and self._waiting is not None:
            self._opened().write(self._waiting)
        self._stack.__exit__(*failure)


class _Folder:
    """One output file per input file; per conversation, if a file of the format has only one."""

    def __init__(self, folder: Path, inputs: list[Path | None]) -> None:
        self._folder = folder
        self._inputs = inputs
        self._stack = contextlib.ExitStack()
        self._source: Source | None = None
        self._stream: IO[bytes] | None = None
        self._names: set[str] = set()

    def put(self, result: Converted) -> None:
        if result.source != self._source or result.lines or self._stream is None:
            self._stack.close()  # completes the previous file
            path = self._folder / self._name(result)
            local_files.refuse_inputs(path, self._inputs)
            self._source = result.source
            self._stream = self._stack.enter_context(local_files.atomic(path))
        self._stream.write(result.payload if result.lines else result.payload + b"\n")

    def _name(self, result: Converted) -> str:
        ending = ".jsonl" if result.lines or result.line is not None else ".json"
        stem = f"{result.source.stem}-{result.line}" if result.lines and result.line is not None else result.source.stem
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


_Place = _Stream | _Folder
