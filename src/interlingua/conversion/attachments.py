"""Images, audio and documents as blocks: from a path, bytes, an open file or a URL, validated on creation."""

import base64
import mimetypes
import os
import stat
from pathlib import Path
from typing import IO, Any, TypeAlias
from urllib.parse import unquote, urlsplit

from ..values.errors import FormatError
from ..values.interop import several
from ..values.messages import AudioBlock, DocumentBlock, ImageBlock
from ..values.regular import kind_of, read_regular
from . import resizing

Source: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes]

MAX_BYTES = 100_000_000  # no provider accepts larger inline files
_SCHEMES = ("http", "https", "gs", "s3", "data")


def image(source: Source, *, mime_type: str | None = None, detail: str | None = None) -> ImageBlock:
    """Returns an image block: `il.image("photo.png")`, `il.image(data)`, `il.image("https://…/photo.png")`.

    A URL is not fetched here: the provider, or `adapt`, fetches it.
    """
    if (url := _address(source)) is not None:
        return ImageBlock(url=url, mime_type=mime_type, detail=detail)
    data, name = _data(source)
    seen = _seen(data) or mime_type or _guessed(name)
    if seen is None or not seen.startswith("image/"):
        raise FormatError(f"{_called(name)} is not an image ({seen or 'of an unknown type'}); {_OTHERS}", "image")
    return ImageBlock(data=base64.b64encode(data).decode(), mime_type=seen, detail=detail)


def audio(source: Source, *, mime_type: str | None = None) -> AudioBlock:
    """Returns an audio block, from the same sources as `image`."""
    if (url := _address(source)) is not None:
        return AudioBlock(url=url, mime_type=mime_type)
    data, name = _data(source)
    guessed = mime_type or _guessed(name)
    seen = _seen(data)
    if seen is None or not seen.startswith("audio/"):  # audio containers are video containers, too
        seen = guessed if guessed is not None and guessed.startswith("audio/") else seen
    if seen is None or not seen.startswith("audio/"):
        raise FormatError(f"{_called(name)} is not audio ({seen or 'of an unknown type'}); {_OTHERS}", "audio")
    return AudioBlock(data=base64.b64encode(data).decode(), mime_type=seen)


def document(source: Source, *, mime_type: str | None = None, title: str | None = None) -> DocumentBlock:
    """Returns a document block for a PDF, a text or any other file; UTF-8 text of a text type is passed as text."""
    if (url := _address(source)) is not None:
        return DocumentBlock(url=url, mime_type=mime_type, title=title)
    data, name = _data(source)
    kind = mime_type or _seen(data) or _guessed(name)
    title = title or (Path(name).name if name else None)
    if kind is None or kind.startswith("text/"):
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            text = None
        if text is not None and "\0" not in text:
            return DocumentBlock(text=text, mime_type=kind or "text/plain", title=title)
        if kind is None:
            raise FormatError(f"unknown type of {_called(name)}; pass mime_type=…", "document")
    return DocumentBlock(data=base64.b64encode(data).decode(), mime_type=kind, title=title)


_OTHERS = "use image(), audio() or document() for its type, or pass mime_type=…"


def images_of(given: Any) -> tuple[ImageBlock, ...]:
    """Returns image blocks: one or several of what `image` accepts, or blocks."""
    if isinstance(given, ImageBlock | str | bytes | os.PathLike):
        given = (given,)
    blocks = []
    for at, one in enumerate(several(given, "paths, bytes, addresses or image blocks", "images")):
        try:
            blocks.append(one if isinstance(one, ImageBlock) else image(one))
        except FormatError as error:
            raise FormatError(error.message, f"images[{at}]") from None
    return tuple(blocks)


def _address(source: Source) -> str | None:
    """Returns the source if it is a URL; a `file:` URL is a path."""
    if not isinstance(source, str):
        return None
    scheme = source.partition(":")[0].lower()
    return source if scheme in _SCHEMES and ":" in source else None


def _data(source: Source) -> tuple[bytes, str | None]:
    """Returns the bytes, and the file name if there is one."""
    if isinstance(source, bytes | bytearray | memoryview):
        data, name = bytes(source), None
    elif isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        if name.startswith("file:"):
            name = unquote(urlsplit(name).path)
        data = _read(name)
    elif callable(getattr(source, "read", None)):
        read: Any = source.read(MAX_BYTES + 1)
        if not isinstance(read, bytes):
            raise FormatError("the file is open as text; open it in binary mode, with 'rb'", "source")
        data, name = read, getattr(source, "name", None)
        name = name if isinstance(name, str) else None
    else:
        what = type(source).__name__
        raise FormatError(f"{what} is not a file; pass a path, bytes, an open file, a URL or a block", "source")
    if not data:
        raise FormatError(f"{_called(name)} is empty; pass a file with content", "source")
    if len(data) > MAX_BYTES:
        raise FormatError(f"{_called(name)} has more than {MAX_BYTES:,} bytes; upload it and pass its URL", "source")
    return data, name


def _read(name: str) -> bytes:
    path = Path(name).expanduser()
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would wait for ever, a device never end
            raise FormatError(f"{name!r} is not a regular file; pass the path of one", "source")
        if path.stat().st_size > MAX_BYTES:
            raise FormatError(f"{name} has more than {MAX_BYTES:,} bytes; upload it and pass its URL", "source")
        return read_regular(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = getattr(error, "strerror", None) or str(error)
        raise FormatError(f"cannot read {name!r}: {why}; check the path", "source") from None


def _seen(data: bytes) -> str | None:
    """Returns the media type that the bytes show."""
    return resizing.sniff(base64.b64encode(data[:48]).decode())


def _guessed(name: str | None) -> str | None:
    return mimetypes.guess_type(name)[0] if name else None


def _called(name: str | None) -> str:
    return name if name else "the data"


# --- files of any kind ------------------------------------------------------------------------------------------------


Attachment: TypeAlias = ImageBlock | AudioBlock | DocumentBlock
MAX_ATTACHED_BYTES = 50 * 1024 * 1024


def attached(path: str, mime_type: str | None = None) -> Attachment:
    """Returns the block for a file; its type is the given one, or detected from its first bytes, or from its name.

    A web URL is passed on unchanged.
    """
    if path.startswith(("http://", "https://")):
        return _linked(path, mime_type)
    place = Path(path).expanduser()
    if (kind := kind_of(place)) is not None:
        raise FormatError(f"{path} is {kind}; attach a regular file, or pipe it in with `-`", "--attach")
    if not place.is_file():
        raise FormatError(f"{path}: no such file to attach; check the path", "--attach")
    if place.stat().st_size > MAX_ATTACHED_BYTES:
        raise FormatError(
            f"{path}: {place.stat().st_size} bytes; attachments have at most {MAX_ATTACHED_BYTES}", "--attach"
        )
    return attached_bytes(read_regular(place), place.name, mime_type)


def _linked(url: str, mime_type: str | None) -> Attachment:
    kind = mime_type or mimetypes.guess_type(url.partition("?")[0])[0] or ""
    if kind.startswith("audio/"):
        return AudioBlock(url=url, mime_type=kind)
    return ImageBlock(url=url) if kind.startswith("image/") else DocumentBlock(url=url, mime_type=kind or None)


def attached_bytes(raw: bytes, name: str | None = None, mime_type: str | None = None) -> Attachment:
    """Returns the block for the bytes of a file."""
    if len(raw) > MAX_ATTACHED_BYTES:
        raise FormatError(f"{len(raw)} bytes; attachments have at most {MAX_ATTACHED_BYTES}", "--attach")
    data = base64.b64encode(raw).decode("ascii")
    kind = mime_type or resizing.sniff(data) or _guessed(name) or ""
    if kind.startswith("audio/"):
        return AudioBlock(data=data, mime_type=kind)
    if kind.startswith("image/"):
        return ImageBlock(data=data, mime_type=kind)
    if kind != "application/pdf" and (text := _text(raw)) is not None:
        return DocumentBlock(text=text, mime_type=mime_type or "text/plain", title=name)
    return DocumentBlock(data=data, mime_type=kind or "application/octet-stream", title=name)


def _text(raw: bytes) -> str | None:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
