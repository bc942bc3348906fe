"""Liveness of workers: each has a lock that the system releases when it dies.

No clock is involved: a slow worker is not mistaken for a dead one. If a lock is lost while its owner lives, the lease
of the session still prevents a second worker from executing the run.
"""

import contextlib
import hashlib
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..sessions import SessionBusy
from ..sessions.lease import Lease
from .place import Place

if TYPE_CHECKING:
    import psycopg

_WORKER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,200}")

# The server drops the connection of a vanished machine after 30 s.
_KEEPALIVE = "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=4"


class Presence(Protocol):
    """This worker's liveness lock, and those of others."""

    def dead(self, worker: str) -> AbstractContextManager[bool]:
        """Whether a worker has certainly died; until the end of the context no other worker checks it."""
        ...

    def keep(self) -> None:
        """Takes the lock again if it was lost."""
        ...

    def end(self) -> None: ...


def presence(place: Place, worker: str) -> Presence:
    """The liveness lock of a worker, in its database or in a file."""
    if place.file is not None:
        return _Locks(place.file.with_name(f"{place.file.name}.workers"), worker)
    return _Advisory(place.address or "", worker)


class _Locks:
    """Lock files, one for each worker of this machine."""

    def __init__(self, folder: Path, worker: str) -> None:
        self._folder = folder
        self._path = self._file(worker)
        self._lease = Lease.take(self._path)

    def _file(self, worker: str) -> Path:
        return self._folder / f"{worker}.lock"

    @contextlib.contextmanager
    def dead(self, worker: str) -> Iterator[bool]:
        if not _WORKER.fullmatch(worker):  # not a worker of ours, and not a file name
            yield True
            return
        try:
            lease = Lease.take(self._file(worker))
        except SessionBusy:
            yield False
            return
        try:
            yield True
        finally:
            lease.release()

    def keep(self) -> None:
        if not self._lease.is_owned:
            self._lease.release()
            self._lease = Lease.take(self._path)

    def end(self) -> None:
        self._lease.release()


class _Advisory:
    """Advisory locks of the server, each on a separate connection."""

    def __init__(self, address: str, worker: str) -> None:
        import psycopg

        self._psycopg = psycopg
        self._address = address
        self._key = _key(worker)
        self._connection = self._connect()

    def _connect(self) -> "psycopg.Connection[Any]":
        connection = self._psycopg.connect(self._address, autocommit=True, options=_KEEPALIVE)
        connection.execute("SELECT pg_advisory_lock(%s)", [self._key])
        return connection

    @contextlib.contextmanager
    def dead(self, worker: str) -> Iterator[bool]:
        taken = self._connection.execute("SELECT pg_try_advisory_lock(%s)", [_key(worker)]).fetchone()
        if not taken or not taken[0]:
            yield False
            return
        try:
            yield True
        finally:
            self._connection.execute("SELECT pg_advisory_unlock(%s)", [_key(worker)])

    def keep(self) -> None:
        try:
            self._connection.execute("SELECT 1")
        except self._psycopg.Error:
            self._connection.close()
            self._connection = self._connect()

    def end(self) -> None:
        self._connection.close()


def _key(worker: str) -> int:
    digest = hashlib.sha256(f"interlingua worker\0{worker}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
