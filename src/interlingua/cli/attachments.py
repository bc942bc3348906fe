"""Files beside a prompt, as the blocks that models read."""

import base64
import mimetypes
from pathlib import Path

from ..conversion import pictures
from ..values.errors import FormatError
from ..values.messages import AudioBlock, DocumentBlock, ImageBlock

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
