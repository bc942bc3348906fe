"""Storage of runs and their sessions: a SQLite file and session files by default, PostgreSQL for many machines."""

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..sessions import Session, SessionBusy, SessionError
from ..sessions.lease import Lease
from ..values.places import home as default_home
from .orders import Order, RunError

if TYPE_CHECKING:
    from dbos import DBOSClient

NAME = "interlingua"
AGENT = "durable"  # whose sessions they are


class Place(Struct, frozen=True, kw_only=True):
    """A database of runs (a SQLite file, else a PostgreSQL address) and the store of their sessions (None: files)."""

    home: Path
    file: Path | None = None
    address: str | None = None
    sessions: str | None = None

    @classmethod
    def of(cls, database: str | None = None, sessions: str | None = None, home: str | Path | None = None) -> "Place":
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
        with dbos_at_hand():
            from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer
            from sqlalchemy.exc import DBAPIError

        try:
            with self._alone():
                DBOS.migrate(self.url)
            return DBOSClient(
                system_database_url=self.url, serializer=DBOSPortableJSONSerializer(), application_name=NAME
            )
        except (DBAPIError, sqlite3.Error, OSError) as error:
            where = self.file or "PostgreSQL"
            raise RunError(f"{where}: not usable as a run database: {_first_line(error)}") from error

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Creates the tables of a SQLite file under a lock; on PostgreSQL, DBOS does that itself."""
        if self.file is None:
            yield
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        lease = _waited_for(self.file.with_name(f"{self.file.name}.setup.lock"))
        try:
            with contextlib.closing(sqlite3.connect(self.file)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
            yield
        finally:
            lease.release()

    def session(self, order: Order) -> Session:
        """The session of a run, for writing. Every line is on disk before the next tool starts."""
        return Session.open(order.session, agent=AGENT, home=self.home, store=self.sessions, sync="always")

    @property
    def troubles(self) -> tuple[type[Exception], ...]:
        """The exceptions of a temporarily unreachable session store."""
        if self.sessions is None or not self.sessions.startswith("postgres"):
            return (SessionError, OSError, sqlite3.Error)
        import psycopg

        return (SessionError, OSError, psycopg.Error)


@contextlib.contextmanager
def dbos_at_hand() -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise RunError('durable runs need an engine; pip install "interlingua[durable]"') from None


def _waited_for(path: Path, seconds: float = 60) -> Lease:
    until = time.monotonic() + seconds
    while True:
        try:
            return Lease.take(path)
        except SessionBusy:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def _first_line(error: Any) -> str:
    return str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
