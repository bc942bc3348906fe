"""A canvas from code: `open_canvas()` finds the one that runs on this machine, or starts one in this program.

canvas = open_canvas()
agent.watch(canvas)                         # the agent's responses grow on the canvas
host = AgentHost(..., on_event=canvas.on_event)
session.open_canvas()                       # the session, in the browser; in a notebook, in a frame
"""

import asyncio
import atexit
import contextlib
import html
import http.client
import queue
import secrets
import threading
import time
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from ..serving.access import Access
from ..sessions import Session, Store
from ..sessions.files import FileStore
from ..sessions.sql import SqlStore
from ..sessions.store import own_key
from ..values import jsontext
from ..values.canonical import dump
from ..values.errors import InterlinguaError, ToolInputError, TransportError
from ..values.events import AgentEvent, AgentStart, MessageEnd, MessageUpdate
from ..values.places import home as default_home
from ..values.regular import read_regular
from .library import Library
from .routing import BYTES, JSON
from .server import PORT, Canvas

FRAME = 1 / 30  # seconds for which events are batched
ALIVE = 15.0  # seconds after which a quiet agent is reported as still working
MAX_QUEUED = 2000  # events queued for a session that is not on disk yet
TIMEOUT = 10.0


class OpenCanvas:
    """A canvas on which this program can show sessions. In a notebook, it displays a frame with its session."""

    def __init__(self, home: Path, store: Store | None = None) -> None:
        self.home = home
        self._store = store
        self._server: _Server | None = None
        self.address = (_running(home) if store is None else None) or self._start()
        self._access = Access(home / "canvas")
        self._key: str | None = None
        self._reporter = _Reporter(self)

    def _start(self) -> str:
        self._server = _Server(self.home, self._store)
        return self._server.address

    def close(self) -> None:
        """Stops the server, if this program started it."""
        self._reporter.close()
        if self._server is not None:
            self._server.close()
        for place, known in list(_OPEN.items()):
            if known is self:
                del _OPEN[place]

    def __enter__(self) -> "OpenCanvas":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- showing -----------------------------------------------------------------------------------------------------

    def show(self, session: Session | None = None, *, browser: bool = True) -> "OpenCanvas":
        """Opens a session, or the list, in the browser; without a browser, use `link()`."""
        self._key = self.key_of(session) if session is not None else None
        if browser:
            with contextlib.suppress(webbrowser.Error):
                webbrowser.open(self.link())
        return self

    def link(self) -> str:
        """Returns a one-time URL for a browser."""
        found = self.ask("POST", "/api/links", {})["address"]
        return str(found).replace("/?", f"/s/{self._key}/canvas?", 1) if self._key is not None else str(found)

    def key_of(self, session: Session) -> str:
        """Returns the key of a session on the canvas; one that it cannot see is opened as a file."""
        store = session.store
        kept = FileStore(self.home).folder(session.agent)
        if isinstance(store, FileStore) and Path(session.where).parent.resolve() != kept.resolve():
            data = Path(session.where).read_bytes()
            name = quote(Path(session.where).name, safe="")
            return str(self.ask("POST", f"/api/files?name={name}", data)["sessions"][0]["key"])
        return own_key(session.agent, session.id)

    def _repr_html_(self) -> str:
        if self._key is None:
            address = html.escape(self.address)
            return f"<p>The canvas is at <code>{address}</code>; <code>canvas.link()</code> lets a browser in.</p>"
        address = f"{self.address}/embed/{self._key}?k={self._access.cookie('read', only=self._key)}"
        return (
            f'<iframe sandbox="allow-scripts" src="{html.escape(address)}" width="100%" height="640"'
            ' style="border:0" title="A conversation on the canvas" referrerpolicy="no-referrer"></iframe>'
        )

    # --- agents ------------------------------------------------------------------------------------------------------

    def listener(self, agent: Any) -> Callable[[AgentEvent], None]:
        """The listener for `agent.watch(canvas)`: shows the agent's responses while they stream."""
        session = getattr(agent.history, "session", None)
        if isinstance(session, Session):
            return _Follower(self._reporter, self.key_of(session), lambda: session.head)
        mirror = _Mirror(self, agent)
        follower = _Follower(self._reporter, mirror.key, lambda: mirror.session.head)

        def listen(event: AgentEvent) -> None:
            mirror(event)
            follower(event)

        return listen

    def on_event(self, key: str, event: AgentEvent) -> None:
        """The callback for `AgentHost(on_event=…)`: shows the responses of all its agents."""
        _, agent, id = key.split(":", 2) if key.count(":") >= 2 else ("", "main", key)
        followers = self._reporter.followers
        if key not in followers:
            home, store = self.home, self._store
            followers[key] = _Follower(self._reporter, own_key(agent, id), lambda: _head(home, store, agent, id))
        followers[key](event)

    async def invoke(
        self, command: str, params: dict[str, Any], *, node: str | None = None, idempotency_key: str = ""
    ) -> Any:
        """Runs a command of the `canvas` tool: shows a session, or the list. Foreign pages and code are refused."""
        if command not in ("canvas.present", "canvas.navigate"):
            raise ToolInputError(f"canvas: {command} is not possible on this canvas; present a session")
        target = str(params.get("url") or "")
        if ":" in target.partition("/")[0]:
            raise ToolInputError("canvas: this canvas shows only sessions; give a session id")
        key = await asyncio.to_thread(self._find, target) if target else None
        if target and key is None:
            raise ToolInputError(f"canvas: no session {target!r}")
        self._key = key
        link = await asyncio.to_thread(self.link)
        await asyncio.to_thread(webbrowser.open, link)
        return {"ok": True}

    def _find(self, target: str) -> str | None:
        """Returns the key of a session, given its key or id: the latest, if several agents have one of this id."""
        page: str | None = ""
        while page is not None:
            found = self.ask("GET", f"/api/sessions?limit=1000{page}")
            for one in found["sessions"]:
                if target in (one["key"], one["key"].rpartition("~")[2]):
                    return str(one["key"])
            page = f"&cursor={quote(found['next'], safe='')}" if found.get("next") else None
        return None

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Sends a request to the server as this user's program."""
        is_bytes = isinstance(body, bytes)
        data = body if is_bytes else jsontext.write(body) if body is not None else None
        status, answer = self.request(method, path, data, BYTES if is_bytes else JSON)
        if status >= 400:
            detail = answer.get("detail", {}) if isinstance(answer, dict) else {}
            raise InterlinguaError(f"the canvas refused {method} {path}: {detail.get('message', status)}")
        return answer

    def request(self, method: str, path: str, data: bytes | None, kind: str = JSON) -> tuple[int, Any]:
        """Returns status and JSON of a response; raises TransportError without one."""
        place = urlsplit(self.address)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=TIMEOUT)
        headers = {"Authorization": f"Bearer {self._access.local_key}", "Content-Type": kind}
        try:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            raw = response.read()
            return response.status, jsontext.read(raw) if raw else None
        except (OSError, http.client.HTTPException) as error:
            raise TransportError(f"no canvas at {self.address}: {error!r}; open it again") from None
        finally:
            connection.close()


_OPEN: dict[str, OpenCanvas] = {}
_lock = threading.Lock()


def open_canvas(home: str | Path | None = None, store: Store | str | None = None) -> OpenCanvas:
    """Returns the canvas of a home (or of a database): the running one, or one in this program, which ends with it."""
    place = Path(home).expanduser().absolute() if home is not None else default_home()
    if isinstance(store, FileStore):
        place, store = (store.home if home is None else place).absolute(), None
    if isinstance(store, str):
        from ..sessions import store_at

        store = store_at(store, place)
    name = f"{place}\0{store.database.where if isinstance(store, SqlStore) else ''}"
    with _lock:
        if name not in _OPEN:
            _OPEN[name] = OpenCanvas(place, store)
        return _OPEN[name]


def show(session: Session, *, browser: bool = True) -> OpenCanvas:
    """Implements `session.open_canvas()`."""
    return open_canvas(store=session.store).show(session, browser=browser)


def _running(home: Path) -> str | None:
    """Returns the address of a responding canvas of this home."""
    try:
        found = jsontext.read(read_regular(home / "canvas" / "server.json"))
        place = urlsplit(str(found["address"]))
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=2)
        try:
            key = Access(home / "canvas").local_key
            connection.request("GET", "/api/me", headers={"Authorization": f"Bearer {key}"})
            return str(found["address"]) if connection.getresponse().status == 200 else None
        finally:
            connection.close()
    except (OSError, InterlinguaError, KeyError, ValueError, http.client.HTTPException):
        return None


class _Server:
    """A canvas in a thread of this process."""

    def __init__(self, home: Path, store: Store | None) -> None:
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self.address = ""
        self._thread = threading.Thread(target=self._run, args=(home, store), name="interlingua-canvas", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        atexit.register(self.close)

    def _run(self, home: Path, store: Store | None) -> None:
        try:
            asyncio.run(self._serve(home, store))
        except BaseException as failure:
            self._failure = failure
        finally:
            self._ready.set()

    async def _serve(self, home: Path, store: Store | None) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with Canvas(Library(home, store), port=PORT, fallback_port=True) as canvas:
            self.address = canvas.address
            self._ready.set()
            await self._stop.wait()

    def close(self) -> None:
        atexit.unregister(self.close)
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # it has ended meanwhile
                self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(TIMEOUT)


# --- reports ---------------------------------------------------------------------------------------------------------


class _Follower:
    """Turns one agent's events into reports; each run has its own id."""

    def __init__(self, reporter: "_Reporter", key: str, at: Callable[[], str | None]) -> None:
        self._reporter = reporter
        self._key = key
        self._at = at
        self._run = secrets.token_hex(4)
        self._stood: str | None = None

    def __call__(self, event: AgentEvent) -> None:
        if isinstance(event, AgentStart):
            self._run = secrets.token_hex(4)
        if not isinstance(event, MessageUpdate):  # nothing is stored while a response streams
            self._stood = self._at()
        at = self._stood
        item = b'{"event":' + dump(event) + (b',"at":' + jsontext.write(at) if at is not None else b"") + b"}"
        self._reporter.put(self._key, self._run, item, event.type == "agent_end")


class _Mirror:
    """A session for an agent that has none, stored beside the other sessions of the home."""

    def __init__(self, canvas: OpenCanvas, agent: Any) -> None:
        self.session = Session.open(home=canvas.home, store=canvas._store)
        self.key = own_key(self.session.agent, self.session.id)
        for message in agent.history.messages:
            self.session.append(message)

    def __call__(self, event: AgentEvent) -> None:
        if isinstance(event, MessageEnd):
            self.session.append(event.message)


def _head(home: Path, store: Store | None, agent: str, id: str) -> str | None:
    try:
        with Session.open(id, agent=agent, home=home, store=store, create=False, read_only=True) as session:
            return session.head
    except InterlinguaError:
        return None


class _Reporter:
    """Sends reports in a thread, joined per frame. Events in progress are not stored: without a server they are
    lost, and the messages are in the sessions anyway.
    """

    def __init__(self, canvas: OpenCanvas) -> None:
        self._canvas = canvas
        self._queue: queue.SimpleQueue[tuple[str, str, bytes, bool] | None] = queue.SimpleQueue()
        self._waiting: dict[tuple[str, str], list[bytes]] = {}
        self._active: dict[tuple[str, str], float] = {}  # active runs, and when each was last reported
        self._thread: threading.Thread | None = None
        self.followers: dict[str, _Follower] = {}

    def put(self, key: str, run: str, item: bytes, ends: bool) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="interlingua-canvas-reports", daemon=True)
            self._thread.start()
        self._queue.put((key, run, item, ends))

    def close(self) -> None:
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(TIMEOUT)
            self._thread = None

    def _work(self) -> None:
        while True:
            is_over = self._gather()
            for (key, run), items in list(self._waiting.items()):
                if self._send(key, run, items):
                    self._waiting.pop((key, run), None)
            if is_over:
                return

    def _gather(self) -> bool:
        """Waits for events to report, and those right after them; returns whether they are the last."""
        try:
            item = self._queue.get(timeout=ALIVE if self._active else None)
        except queue.Empty:
            item = None
            for place, reported in self._active.items():
                if time.monotonic() - reported >= ALIVE:
                    self._waiting.setdefault(place, [])
            return False
        until = time.monotonic() + FRAME
        while item is not None:
            key, run, data, ends = item
            items = self._waiting.setdefault((key, run), [])
            items.append(data)
            del items[:-MAX_QUEUED]
            if ends:
                self._active.pop((key, run), None)
            else:
                self._active[key, run] = time.monotonic()
            try:
                item = self._queue.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return False
        return True

    def _send(self, key: str, run: str, items: list[bytes]) -> bool:
        """Returns whether the report is done; it is not if its session is not on disk yet."""
        body = b'{"run":' + jsontext.write(run) + b',"events":[' + b",".join(items) + b"]}"
        with contextlib.suppress(InterlinguaError):
            status, _ = self._canvas.request("POST", f"/api/sessions/{key}/feed", body)
            return status != 404
        return True
