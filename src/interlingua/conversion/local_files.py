"""Local files: written whole or not at all, and read as content blocks."""

import base64
import contextlib
import mimetypes
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from ..values.errors import FormatError, InterlinguaError
from ..values.messages import AudioBlock, DocumentBlock, ImageBlock
from . import resizing

MAX_ATTACHED_BYTES = 50 * 1024 * 1024

Attachment = ImageBlock | AudioBlock | DocumentBlock


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


def attached(path: str) -> Attachment:
    """The block for a file: what it is tells its first bytes, else its name. A web address is passed on as one."""
    if path.startswith(("http://", "https://")):
        return _linked(path)
    place = Path(path).expanduser()
    if not place.is_file():
        raise FormatError(f"{path}: no such file to attach", "--attach")
    if place.stat().st_size > MAX_ATTACHED_BYTES:
        raise FormatError(
            f"{path}: {place.stat().st_size} bytes; attachments have at most {MAX_ATTACHED_BYTES}", "--attach"
        )
    return _block(place, place.read_bytes())


def _linked(url: str) -> Attachment:
    kind = mimetypes.guess_type(url.partition("?")[0])[0] or ""
    return ImageBlock(url=url) if kind.startswith("image/") else DocumentBlock(url=url, mime_type=kind or None)


def _block(place: Path, raw: bytes) -> Attachment:
    data = base64.b64encode(raw).decode("ascii")
    kind = resizing.sniff(data) or mimetypes.guess_type(place.name)[0] or ""
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
