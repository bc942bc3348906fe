"""Runs a search: with ripgrep or fd for local files, if installed, else in a worker process.

The output of a program is not trusted: a path may become a link to elsewhere while it runs. Names are looked up and
lines are read again through the bridge, and what is missing there is dropped.
"""

import asyncio
import itertools
import os
import posixpath
import re
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec

from ...values.abort import Abort
from ...values.errors import ToolInputError
from ..access import names_below, permitted
from ..fs import AdaptedBridge, ByteBridge
from ..paths import name_bytes, name_text
from ._engine import EXCLUDE, MAX_DEPTH, Found, Glob, Job, packed
from ._files import from_root, stop_if_aborted

MAX_FILE_BYTES = 16 * 1024 * 1024
SECONDS = 30.0
_MAX_OUTPUT = 16 * 1024 * 1024
_CHUNK = 1 << 20
_NO_HOME = "/nonexistent"  # no settings and ignore files of the user
_RECORD = re.compile(rb"([^\0]*)\0(\d+):([^\n]*)\n")
_PLAIN_NAME = re.compile(r"([\w.*?-]|\{[\w.*?-]+(,[\w.*?-]+)+\})+", re.ASCII)


@runtime_checkable
class OnThisMachine(Protocol):
    """The additional methods of a bridge to a local directory."""

    @property
    def local_root(self) -> str: ...
    async def locate(self, path: str) -> str: ...
    async def kinds(self, paths: Sequence[str]) -> list[str | None]: ...


class SearchOutcome(msgspec.Struct, kw_only=True):
    """The matches; `cut` is why the search ended early: time, or size of the output."""

    found: list[Found]
    engine: str
    cut: str | None = None


class _Guard:
    """A process that is killed on timeout, on abort, and when its context exits."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.cut: str | None = None

    def end(self, why: str | None) -> None:
        if self.process.returncode is None:
            self.cut = self.cut or why
            with suppress(ProcessLookupError):
                self.process.kill()


@asynccontextmanager
async def _guarded(
    argv: Sequence[str], cwd: bytes | None, seconds: float, signal: Abort | None, ask: bool = False
) -> AsyncIterator[_Guard]:
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    environment = None if ask else os.environ | {"HOME": _NO_HOME, "XDG_CONFIG_HOME": _NO_HOME}
    process = await asyncio.create_subprocess_exec(
        *map(name_bytes, argv),
        cwd=cwd,
        env=environment,
        stdin=pipe if ask else nothing,
        stdout=pipe,
        stderr=nothing,
        limit=_CHUNK,
    )
    guard, loop = _Guard(process), asyncio.get_running_loop()
    timer = loop.call_later(seconds, guard.end, "time")
    forget = signal.on_abort(lambda: loop.call_soon_threadsafe(guard.end, "abort")) if signal else None
    try:
        yield guard
    finally:
        timer.cancel()
        if forget is not None:
            forget()
        guard.end(None)
        await asyncio.shield(process.communicate())


async def locate(bridge: ByteBridge, path: str) -> str:
    """The path from the root, without `.` and `..`; empty for the root."""
    if isinstance(bridge, OnThisMachine):
        return await bridge.locate(path)
    path = bridge.from_root(path) if isinstance(bridge, AdaptedBridge) else path
    plain = posixpath.normpath(path).lstrip("/")
    return "" if plain == "." else plain


async def by_worker(job: Job, bridge: ByteBridge, seconds: float, signal: Abort | None) -> SearchOutcome:
    """Runs the search in a worker process, which requests files that it cannot open itself."""
    root = bridge.local_root if isinstance(bridge, OnThisMachine) else None
    if isinstance(bridge, OnThisMachine):
        job = msgspec.structs.replace(job, root=name_bytes(bridge.local_root))
    outcome = SearchOutcome(found=[], engine="python")
    argv = [sys.executable, "-P", "-m", "interlingua.tools.core._engine"]
    done = False
    async with _guarded(argv, None, seconds, signal, ask=True) as guard:
        process = guard.process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(asyncio.IncompleteReadError, ConnectionError):  # it was ended, or it died
            await _answer(process.stdin, packed(job))
            while not done:
                size = int.from_bytes(await process.stdout.readexactly(4), "big")
                message = msgspec.msgpack.decode(await process.stdout.readexactly(size))
                match message:
                    case ["found", path, kind, line, text]:
                        if permitted(*names_below(root, name_text(path))):
                            outcome.found.append(Found(name_text(path), kind, line, text))
                    case ["done"]:
                        done = True
                    case [question, path] if root is None:
                        await _answer(process.stdin, packed(await _fetched(bridge, question, name_text(path))))
    stop_if_aborted(signal)
    outcome.cut = guard.cut
    if not done and guard.cut is None:
        raise ToolInputError("the search process ended early (out of memory?); narrow the path")
    return outcome


async def _answer(stdin: asyncio.StreamWriter, frame: bytes) -> None:
    stdin.write(frame)
    await stdin.drain()


async def _fetched(bridge: ByteBridge, question: str, path: str) -> Any:
    try:
        if question == "read":
            return await bridge.read_bytes(from_root(path))
        return [name_bytes(name) for name in await bridge.readdir(from_root(path) or ".")]
    except Exception:  # a bridge is foreign code: files that it cannot read are not searched
        return None


def program(names: Sequence[str], root: str) -> str | None:
    """The path of a program; None if it is missing, or below the root, where the model could have written it."""
    for name in names:
        found = shutil.which(name)
        if found is None:
            continue
        places = (Path(found).absolute(), Path(found).resolve())
        if not any(place.is_relative_to(root) for place in places):
            return str(places[0])
    return None


def rules_above(root: str, names: Sequence[str]) -> bool:
    """Whether there are ignore files above the root, which ripgrep and fd would apply."""
    places = (str(above / name) for above in Path(root).parents for name in (*names, EXCLUDE))
    return any(os.path.lexists(name_bytes(place)) for place in places)


async def by_ripgrep(job: Job, bridge: OnThisMachine, seconds: float, signal: Abort | None) -> SearchOutcome | None:
    """Runs the search with ripgrep; None if it is missing, or does not support the pattern or a flag."""
    start, root = name_text(job.start), bridge.local_root
    rg = program(("rg",), root)
    if rg is None or (start and not job.is_file and rules_above(root, job.ignore_names)):
        return None
    directory, target = posixpath.split(start) if job.is_file else (start, "")
    argv = [
        rg,
        *("--no-config", "--no-messages", "--color=never", "--no-heading", "--with-filename"),
        *("--line-number", "--null", "--hidden", "--glob=!.git", "--no-require-git", "--no-ignore-global"),
        *("--crlf", "--max-columns=1024", "--max-columns-preview"),
        f"--max-filesize={job.max_file_bytes}",
        f"--max-depth={MAX_DEPTH}",
        f"--max-count={job.limit + 1}",
        "--ignore-case" if job.ignore_case else "--case-sensitive",
        *(["--fixed-strings"] if job.literal else []),
        *(["--multiline"] if job.multiline else []),
        *([] if start else ["--no-ignore-parent"]),
        *_file_type(job),
        "-e",
        job.pattern or "",
        "--",
        f"./{target}",
    ]
    output = await _output(argv, name_bytes(f"{root}/{directory}"), seconds, signal)
    if output is None:
        return None
    data, cut = output
    found = [
        Found(posixpath.join(directory, _name(path)), "file", int(line), text)
        for path, line, text in _RECORD.findall(data)
    ]
    return SearchOutcome(found=found, engine="ripgrep", cut=cut)


def _file_type(job: Job) -> list[str]:
    """The last name of the glob as a file type: unlike `--glob`, ripgrep's types do not override ignore files."""
    name = None if job.is_file else _plain_name(job)
    return [f"--type-add=selected:{name}", "--type=selected"] if name else []


def _plain_name(job: Job) -> str | None:
    """The last name of the glob, if every program interprets it the same."""
    name = (job.glob or "").rpartition("/")[2]
    return name if _PLAIN_NAME.fullmatch(name) and "**" not in name else None


def _name(path: bytes) -> str:
    """A path of the output; warnings about binary files may precede it."""
    return name_text((b"\n" + path).rpartition(b"\n./")[2])


async def by_fd(job: Job, bridge: OnThisMachine, seconds: float, signal: Abort | None) -> SearchOutcome | None:
    """Runs the search with fd; None if it is missing, or does not support a flag."""
    start, root = name_text(job.start), bridge.local_root
    fd = program(("fd", "fdfind"), root)
    if fd is None or (start and rules_above(root, job.ignore_names)):
        return None
    argv = [
        fd,
        *("--color=never", "--print0", "--hidden", "--exclude=.git", "--case-sensitive"),
        f"--max-depth={MAX_DEPTH}",
        *([] if os.path.lexists(name_bytes(f"{root}/.git")) else ["--no-require-git"]),
        *([] if start else ["--no-ignore-parent"]),
        *([] if job.kind == "any" else [f"--type={job.kind}"]),
        "--glob",
        "--",
        _plain_name(job) or "*",
    ]
    output = await _output(argv, name_bytes(f"{root}/{start}"), seconds, signal)
    if output is None:
        return None
    data, cut = output
    names = await asyncio.to_thread(lambda: sorted(data.split(b"\0")[:-1]))
    return SearchOutcome(found=await _looked_up(job, bridge, names), engine="fd", cut=cut)


async def _looked_up(job: Job, bridge: OnThisMachine, names: list[bytes]) -> list[Found]:
    """The first paths found by fd that match the glob, exist, and are of the requested kind."""
    glob, start = Glob(job.glob or "*"), name_text(job.start)
    paths = (name_text(name).removeprefix("./").rstrip("/") for name in names)
    fitting = (posixpath.join(start, path) for path in paths if glob.matches(path.split("/")))
    found = list[Found]()
    while len(found) <= job.limit:
        batch = await asyncio.to_thread(lambda: list(itertools.islice(fitting, job.limit + 1)))
        if not batch:
            break
        kinds = await bridge.kinds([f"./{path}" for path in batch])
        there = [Found(path, kind) for path, kind in zip(batch, kinds, strict=True) if kind is not None]
        found += [one for one in there if job.kind in ("any", one.kind)]
    return found[: job.limit + 1]


async def _output(
    argv: Sequence[str], cwd: bytes, seconds: float, signal: Abort | None
) -> tuple[bytes, str | None] | None:
    """The output of a program, up to the limit, and why it was ended; None if it failed without output."""
    chunks, size = list[bytes](), 0
    try:
        async with _guarded(argv, cwd, seconds, signal) as guard:
            assert guard.process.stdout is not None
            while chunk := await guard.process.stdout.read(_CHUNK):
                chunks.append(chunk)
                size += len(chunk)
                if size > _MAX_OUTPUT:
                    guard.end("size")
                    break
            else:
                await guard.process.wait()
    except (OSError, ValueError):  # the directory went away, or an argument cannot be one
        return None
    stop_if_aborted(signal)
    if not chunks and guard.cut is None and guard.process.returncode not in (0, 1):
        return None
    return b"".join(chunks), guard.cut
