"""The access log: one JSON line per request. No content, no key, no error text."""

import logging
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from ..values import jsontext
from ..values.errors import ProviderError
from ..values.places import private_folder
from .exchange import Exchange, safe_name

_log = logging.getLogger(__name__)


class AccessLog:
    """Writes lines to standard error (`-`) or to a file that only its owner can read; `reopen` it after rotation."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._file: IO[bytes] = self._opened()
        self._is_failing = False

    def _opened(self) -> IO[bytes]:
        if self._where == "-":
            return sys.stderr.buffer
        path = Path(self._where).expanduser()
        private_folder(path.parent)
        is_cut = _is_cut(path)
        # O_APPEND: several workers write to one file, each line in one write.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        file = os.fdopen(handle, "ab", buffering=0)
        if is_cut:
            file.write(b"\n")
        return file

    def reopen(self) -> None:
        self.close()
        self._file = self._opened()

    def close(self) -> None:
        if self._where != "-":
            self._file.close()

    async def observe(self, exchange: Exchange) -> None:
        await self.observe_all((exchange,))

    async def observe_all(self, exchanges: Sequence[Exchange]) -> None:
        """Writes their lines, after the ledger was written."""
        try:
            self._file.write(b"".join(jsontext.write(record_of(exchange)) + b"\n" for exchange in exchanges))
            self._file.flush()
            self._is_failing = False
        except OSError as error:
            if not self._is_failing:
                _log.error("the access log %s cannot be written: %s", self._where, error)
            self._is_failing = True


def _is_cut(path: Path) -> bool:
    """Whether a file ends in a part of a line, as a killed process may leave it: it would spoil the next one."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:  # it may be written, but not read
        return False


def record_of(exchange: Exchange) -> dict[str, Any]:
    """Returns the loggable fields of an exchange."""
    model, usage, error = exchange.model, exchange.usage, exchange.error
    found: dict[str, Any] = {
        "time": datetime.fromtimestamp(exchange.started, UTC).isoformat(timespec="milliseconds"),
        "id": exchange.id,
        "key": exchange.key.name,
        "wire": exchange.wire.api,
        "asked": safe_name(exchange.asked_model),
        "model": safe_name(f"{model.provider}/{model.id}") if model is not None else None,
        "lane": exchange.lane,
        "stream": exchange.is_stream,
        "status": exchange.status,
        "attempts": exchange.attempts,
        "seconds": _since(exchange, exchange.finished),
        "first_byte": _since(exchange, exchange.first_byte),
        "losses": len(exchange.losses) or None,
        "cache_break": str(exchange.cache_break) if exchange.cache_break is not None else None,
        "cost": exchange.cost,
        "estimated": exchange.is_estimated or None,
        "aborted": exchange.is_aborted or None,
        "session": safe_name(exchange.session) if exchange.session else None,
        "error": type(error).__name__ if error is not None else None,
        "code": safe_name(error.code) if isinstance(error, ProviderError) and error.code else None,
    }
    if usage is not None:
        found |= {name: getattr(usage, name) for name in ("input", "output", "cache_read", "cache_write")}
    return {name: value for name, value in found.items() if value is not None}


def _since(exchange: Exchange, at: float | None) -> float | None:
    return None if at is None else round(at - exchange.started, 6)
