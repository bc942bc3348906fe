"""Large media in content-addressed blobs beside the sessions.

A block with large base64 data is written with the URL `blob:sha256:…` instead of the data, and a marker in `extra`: a
valid block for any reader, and restored exactly by ours.
"""

import base64
import binascii
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from ..dialects.files.transcript import API
from ..values.messages import AgentMessage, AudioBlock, CustomMessage, DocumentBlock, ImageBlock
from ..values.places import private_folder
from ..values.regular import read_regular
from .store import Blobs, sync_folder

THRESHOLD = 64 * 1024  # characters of base64
SCHEME = "blob:sha256:"
NAME = re.compile(rb'"blob:sha256:([0-9a-f]{64})"')
MARK = "blob"
_MEDIA = (ImageBlock, AudioBlock, DocumentBlock)

M = TypeVar("M", bound=AgentMessage)


def externalize(message: M, blobs: Blobs) -> M:
    """The message with large data moved to the blobs; non-canonical base64 stays in place."""
    if isinstance(message, CustomMessage) or not isinstance(message.content, tuple):
        return message
    content = tuple(_put(block, blobs) if isinstance(block, _MEDIA) else block for block in message.content)
    return message if content == message.content else replace(message, content=content)


def _put(block: Any, blobs: Blobs) -> Any:
    if block.data is None or len(block.data) < THRESHOLD or MARK in block.extra.get(API, {}):
        return block
    try:
        data = base64.b64decode(block.data, validate=True)
    except (binascii.Error, ValueError):
        return block
    # Other spellings (RFC 4648, 3.5: unused bits that are not zero) would not come back as they were.
    if base64.b64encode(data).decode() != block.data:
        return block
    name = hashlib.sha256(data).hexdigest()
    blobs.put(name, data)
    mark: dict[str, Any] = {"size": len(data)} | ({} if block.url is None else {"url": block.url})
    residual = {**block.extra.get(API, {}), MARK: mark}
    return replace(block, data=None, url=f"{SCHEME}{name}", extra={**block.extra, API: residual})


def inline(message: M, blobs: Blobs) -> tuple[M, list[str]]:
    """The message with its data inline again, and the names of missing blobs, whose blocks keep the URL."""
    if isinstance(message, CustomMessage) or not isinstance(message.content, tuple):
        return message, []
    missing: list[str] = []
    content = tuple(_inline(block, blobs, missing) if isinstance(block, _MEDIA) else block for block in message.content)
    return replace(message, content=content), missing


def _inline(block: Any, blobs: Blobs, missing: list[str]) -> Any:
    mark = block.extra.get(API, {}).get(MARK)
    if not isinstance(mark, dict) or not (block.url or "").startswith(SCHEME):
        return block
    name = block.url.removeprefix(SCHEME)
    data = blobs.get(name) if is_name(name) else None
    if data is None:
        missing.append(name)
        return block
    residual = {key: value for key, value in block.extra[API].items() if key != MARK}
    extra = {key: value for key, value in block.extra.items() if key != API} | ({API: residual} if residual else {})
    url = mark.get("url")
    data_text = base64.b64encode(data).decode()
    return replace(block, data=data_text, url=url if isinstance(url, str) else None, extra=extra)


def is_name(name: str) -> bool:
    """Whether it is a valid blob name; a session line may hold any other text, such as a path."""
    return len(name) == 64 and not name.strip("0123456789abcdef")


class FileBlobs:
    """A folder of blobs. Writes are atomic; putting a blob again refreshes its time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, name: str, data: bytes) -> None:
        path = self._folder / name
        try:
            # The time keeps it from the collector, which spares blobs that were put a short while ago.
            os.utime(path, follow_symlinks=False)
        except FileNotFoundError:
            self._write(path, data)

    def _write(self, path: Path, data: bytes) -> None:
        private_folder(self._folder)
        handle, part = tempfile.mkstemp(dir=self._folder, prefix=".", suffix=".part")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            Path(part).replace(path)
            sync_folder(self._folder)  # a synced line may reference it
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise

    def get(self, name: str) -> bytes | None:
        if not is_name(name):
            return None
        try:
            data = read_regular(self._folder / name, follow=False)
        except OSError:
            return None
        # What another program changed is not the same content any more.
        return data if hashlib.sha256(data).hexdigest() == name else None

    def names(self, unused_for: float = 0) -> list[str]:
        if not self._folder.is_dir():
            return []
        before = time.time() - unused_for
        return [
            entry.name
            for entry in os.scandir(self._folder)
            if is_name(entry.name) and (not unused_for or entry.stat(follow_symlinks=False).st_mtime < before)
        ]

    def delete(self, names: Iterable[str]) -> None:
        for name in filter(is_name, names):
            (self._folder / name).unlink(missing_ok=True)
