"""Media that the page uploads before it says something: kept by their hash until they are used, or a day."""

import hashlib
import re
import time
from pathlib import Path

from ..serving.access import write_private

LIFE = 24 * 3600.0  # seconds
_NAME = re.compile(r"[0-9a-f]{64}")


class Uploads:
    """A folder of uploads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        self._forget_old()
        write_private(self._folder / name, data)
        return name

    def get(self, name: str) -> bytes | None:
        if not _NAME.fullmatch(name):
            return None
        try:
            return (self._folder / name).read_bytes()
        except OSError:
            return None

    def _forget_old(self) -> None:
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                if path.stat().st_mtime < time.time() - LIFE:
                    path.unlink(missing_ok=True)
