"""Storage of runs and their sessions: a SQLite file and session files by default, PostgreSQL for many machines.

And the presence of workers: each has a lock that the system releases when it dies.
"""

import contextlib
import hashlib
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct

from ..sessions import Session, SessionBusy, SessionError
from ..sessions.files import check_name
from ..sessions.lease import Lease
from ..values.errors import TimedOut
from ..values.places import home as default_home
from ..values.places import private_folder
from ..values.regular import private_database
from .orders import Order, RunError

if TYPE_CHECKING:
    import psycopg
    from dbos import DBOSClient

NAME = "interlingua"
AGENT = "durable"  # the agent id of their sessions
TIMEOUT = 30.0  # seconds per database operation

T = TypeVar("T")


class RunPlace(Struct, frozen=True, kw_only=True):
    """A database of runs (a SQLite file, else a PostgreSQL address) and the store of their sessions (None: files)."""

    home: Path
    file: Path | None = None
    address: str | None = None
    sessions: str | None = None

    @classmethod
    def of(cls, database: str | None = None, sessions: str | None = None, home: str | Path | None = None) -> "RunPlace":
        """`database` is `sqlite:FILE` or `postgresql://HOST/NAME`; with PostgreSQL, sessions are stored there too."""
        folder = Path(home).expanduser() if home is not None else default_home()
        if database is None or database.startswith("sqlite:"):
            named = (database or "").removeprefix("sqlite:").removeprefix("//")
            file = Path(named).expanduser() if named else folder / "durable.sqlite"
            return cls(home=folder, file=file.absolute(), sessions=sessions)
        if database.startswith(("postgresql:", "postgres:")):
            address = f"postgresql:{database.partition(':')[2]}"
            return cls(home=folder, address=address, sessions=sessions or address)
        raise RunError(f"unknown database address {database!r}; use sqlite:FILE or postgresql://HOST/NAME")

    @property
    def database(self) -> str:
        """The address of this place."""
        return self.address or f"sqlite:{self.file}"

    @property
    def url(self) -> str:
        """The database as DBOS names it."""
        from sqlalchemy import URL, make_url

        if self.file is not None:
            return URL.create("sqlite", database=str(self.file)).render_as_string()
        return make_url(self.address or "").render_as_string(hide_password=False)

    def client(self) -> "DBOSClient":
        """A connection to the database, which is created if missing."""
        with dbos_installed():
            from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer

        _hide_parameters(self.url)

        def opened() -> DBOSClient:
            with self._create_tables():
                DBOS.migrate(self.url)
            return DBOSClient(
                system_database_url=self.url,
                serializer=DBOSPortableJSONSerializer(),
                application_name=NAME,
                retry_connection_errors=False,
            )

        return self.within(2 * TIMEOUT, opened, "not usable as a run database: ")

    @property
    def where(self) -> str:
        """The database in messages."""
        return str(self.file or "the PostgreSQL database")

    def within(self, seconds: float, operation: Callable[[], T], what: str = "") -> T:
        """Runs an operation on the database; raises TimedOut if it takes too long, RunError if it fails.

        DBOS retries an operation on a locked database forever; here it continues in its thread, and the caller does not
        wait.
        """
        result: list[T] = []
        failure: list[BaseException] = []

        def run() -> None:
            try:
                result.append(operation())
            except BaseException as error:  # raised below, where the caller is
                failure.append(error)

        thread = threading.Thread(target=run, name="interlingua-database", daemon=True)
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            raise TimedOut(
                f"{self.where}: locked or unreachable for {seconds:g} s; release the lock and try again"
                " (with the same id it stays one run)"
            )
        for error in failure:
            if not isinstance(error, Exception) or isinstance(error, RunError | SessionError | TimedOut):
                raise error
            raise RunError(f"{self.where}: {what}{_first_line(error)}") from error
        return result[0]

    @contextlib.contextmanager
    def _create_tables(self) -> Iterator[None]:
        """Creates the tables of a SQLite file under a lock; on PostgreSQL, DBOS does that itself."""
        if self.file is None:
            yield
            return
        private_folder(self.file.parent)
        private_database(self.file)
        if self.file.lstat().st_uid == os.geteuid():
            self.file.chmod(0o600)  # orders quote conversations: readable by the owner alone
        lease = _waited_for(self.file.with_name(f"{self.file.name}.setup.lock"))
        try:
            with contextlib.closing(sqlite3.connect(self.file)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
            yield
        finally:
            lease.release()

    def session(self, order: Order) -> Session:
        """The session of a run, for writing. Every line is on disk before the next tool starts."""
        check_name(order.session, "session")  # not a path: clients that enqueue may not choose where to write
        return Session.open(order.session, agent=AGENT, home=self.home, store=self.sessions, sync="always")

    @property
    def transient_errors(self) -> tuple[type[Exception], ...]:
        """Returns the exceptions of a database or session store that is temporarily unreachable."""
        if self.sessions is None or not self.sessions.startswith("postgres"):
            return (SessionError, TimedOut, OSError, sqlite3.Error)
        import psycopg

        return (SessionError, TimedOut, OSError, psycopg.Error)


@contextlib.contextmanager
def dbos_installed() -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise RunError('durable runs need an engine; pip install "interlingua[durable]"') from None


def _waited_for(path: Path) -> Lease:
    until = time.monotonic() + 60
    while True:
        try:
            return Lease.take(path)
        except SessionBusy:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


_hidden: set[tuple[Any, ...]] = set()  # host, port and name of our databases


def _hide_parameters(url: str) -> None:
    """Keeps the parameters of statements, which quote conversations, out of messages and logs about this database."""
    from sqlalchemy import Engine, event, make_url

    if not _hidden:

        @event.listens_for(Engine, "handle_error")
        def hide(context: Any) -> None:
            if context.engine is not None and _name_of(context.engine.url) in _hidden:
                context.sqlalchemy_exception.hide_parameters = True

    _hidden.add(_name_of(make_url(url)))


def _name_of(url: Any) -> tuple[Any, ...]:
    return url.host, url.port, url.database


def _first_line(error: Any) -> str:
    return str(getattr(error, "orig", None) or error).strip().partition("\n")[0]


# --- presence of a worker ---------------------------------------------------------------------------------------------
# No clock is involved: a slow worker is not mistaken for a dead one. If a lock is lost while its owner lives, the lease
# of the session still prevents a second worker from executing the run.

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


def presence(place: RunPlace, worker: str) -> Presence:
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
