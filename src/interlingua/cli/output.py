"""Where a command's output goes: atomically into files, or to standard output; reports to standard error."""

import base64
import contextlib
import mimetypes
import os
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..conversion import resizing as pictures
from ..conversion.sources import (
    DEFAULT_LIMIT,
    ENDINGS,
    PACKED,
    STDIN,
    Document,
    Problem,
    Source,
    SourceError,
    as_utf8,
    documents,
    expand,
    open_binary,
    read_all,
)
from ..values.errors import FormatError, InterlinguaError
from ..values.losses import Loss
from ..values.messages import AudioBlock, DocumentBlock, ImageBlock


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears whole or not at all: written beside its place, synced, then renamed.

    What is there already stays until then, and its permissions after. A link is followed. What is open already
    (`/dev/stdout`), a pipe or a device is written to directly, since nothing may take its place.
    """
    descriptor = _OPEN.get(str(path))
    if descriptor is not None or (path.exists() and not path.is_file()):
        with open(path if descriptor is None else os.dup(descriptor), "wb") as stream:  # noqa: PTH123
            yield stream
        return
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_umask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def refuse_inputs(path: Path, inputs: Iterable[Path | None]) -> None:
    """Raises where an output would take the place of an input (None: standard input), whatever name either has."""
    try:
        there = path.stat()
    except OSError:
        return
    if not stat.S_ISREG(there.st_mode):
        return
    for source in inputs:
        with contextlib.suppress(OSError, ValueError):
            found = source.stat() if source is not None else os.fstat(sys.stdin.fileno())
            if os.path.samestat(there, found):
                name = source if source is not None else "standard input"
                raise InterlinguaError(
                    f"{path}: the output would take the place of the input {name}; name another file"
                )


_OPEN = {f"{folder}/fd/{number}": number for folder in ("/dev", "/proc/self") for number in range(10)}
_OPEN |= {"/dev/stdout": 1, "/dev/stderr": 2}


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def console(*, err: bool = False) -> Console:
    """A quiet console: colours only on a terminal, no wrapping of what programs may read."""
    terminal = (sys.stderr if err else sys.stdout).isatty()
    return Console(stderr=err, highlight=False, soft_wrap=True, width=None if terminal else _WIDE)


_WIDE = 4000  # columns, where there is no screen: nothing is cut short or broken


def typed_in() -> str:
    """The text on standard input. Raises `FormatError` where it is no UTF-8."""
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise FormatError(
            f"standard input is not UTF-8 text (byte {error.start:,}); convert it first, for instance with iconv", "-"
        ) from None


def say_json(value: Any) -> None:
    from ..values import jsontext

    sys.stdout.buffer.write(jsontext.write(value) + b"\n")


def loss_json(loss: Loss) -> dict[str, str]:
    return {"path": loss.path, "what": loss.what, "why": loss.why, "severity": loss.severity}


def report_losses(name: str, losses: Sequence[Loss], *, records: bool = False) -> None:
    """The losses of one conversion, grouped for a reader; bookkeeping is counted, not listed."""
    reported = [loss for loss in losses if records or loss.severity != "record"]
    kept_quiet = len(losses) - len(reported)
    out = console(err=True)
    if not reported:
        out.print(Text.assemble((name, "bold"), ": nothing lost", _quietly(kept_quiet)))
        return
    out.print(Text.assemble((name, "bold"), f": {len(reported)} lost", _quietly(kept_quiet)))
    table = Table(box=None, show_header=False, pad_edge=True)
    for loss in reported:
        table.add_row(Text(loss.severity, style=_COLOURS[loss.severity]), Text(loss.path), Text(loss.why, style="dim"))
    out.print(table)


_COLOURS = {"dropped": "red", "weakened": "yellow", "record": "dim"}


def _quietly(count: int) -> str:
    return f" (and {count} bookkeeping fields that requests do not carry)" if count else ""


REMEDY = "--report lists what was lost, --strict refuses"


def note_losses(name: str, losses: Sequence[Sequence[Loss]], remedy: str = REMEDY) -> None:
    """One line for those who did not ask for a report: how much was lost in these conversations, and how to see it."""
    counts = Counter(loss.severity for some in losses for loss in some)
    text = ", ".join(f"{counts[severity]} {severity}" for severity in ("dropped", "weakened") if counts[severity])
    if not text:
        return
    lossy = sum(any(loss.severity != "record" for loss in some) for some in losses)
    where = f" in {lossy} of {len(losses)} conversations" if len(losses) > 1 else ""
    console(err=True).print(Text(f"{name}: {text}{where}; {remedy}", "yellow"))


def report_problems(problems: Sequence[Problem]) -> None:
    for problem in problems:
        print(f"interlingua: {problem.name}: {problem.message}", file=sys.stderr)


# Where a command's input comes from; see `interlingua.conversion.sources`.


__all__ = [
    "DEFAULT_LIMIT",
    "ENDINGS",
    "PACKED",
    "STDIN",
    "Document",
    "Problem",
    "Source",
    "SourceError",
    "as_utf8",
    "documents",
    "expand",
    "open_binary",
    "read_all",
]


# Files beside a prompt, as the blocks that models read.


MOST = 50 * 1024 * 1024

Attached = ImageBlock | AudioBlock | DocumentBlock


def attached(path: str) -> Attached:
    """The block for a file: what it is tells its first bytes, else its name. A web address is passed on as one."""
    if path.startswith(("http://", "https://")):
        return _linked(path)
    place = Path(path).expanduser()
    if not place.is_file():
        raise FormatError(f"{path}: there is no such file to attach", "--attach")
    if place.stat().st_size > MOST:
        raise FormatError(f"{path}: {place.stat().st_size} bytes are too many to attach (at most {MOST})", "--attach")
    return _block(place, place.read_bytes())


def _linked(url: str) -> Attached:
    kind = mimetypes.guess_type(url.partition("?")[0])[0] or ""
    return ImageBlock(url=url) if kind.startswith("image/") else DocumentBlock(url=url, mime_type=kind or None)


def _block(place: Path, raw: bytes) -> Attached:
    data = base64.b64encode(raw).decode("ascii")
    kind = pictures.sniff(data) or mimetypes.guess_type(place.name)[0] or ""
    if kind.startswith("audio/"):
        return AudioBlock(data=data, mime_type=kind)
    if kind.startswith("image/"):
        return ImageBlock(data=data, mime_type=kind)
    if kind != "application/pdf" and (text := _text(raw)) is not None:
        return DocumentBlock(text=text, mime_type="text/plain", title=place.name)
    return DocumentBlock(data=data, mime_type=kind or "application/octet-stream", title=place.name)


def _text(raw: bytes) -> str | None:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
