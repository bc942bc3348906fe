"""The canvas server: sessions over HTTP for a local page, and for programs with a key."""

import asyncio
import contextlib
import mimetypes
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

from ..connect.client import Client
from ..serving import guard
from ..serving.access import Visitor, write_private
from ..serving.listener import Listener, is_loopback
from ..serving.problems import HttpProblem
from ..sessions import gc
from ..sessions.files import FileStore
from ..values import jsontext
from ..values.errors import InterlinguaError
from . import client_server, export, openapi, reading_routes, writing_routes  # noqa: F401
from .client_server import ClientListener
from .library import Library
from .routing import LIMITS, ROUTES, ApiRoute, CanvasState, answer
from .runs import Toolbox
from .shapes import TreePage, encode
from .watchers import follow_home, follow_store

ASSETS = Path(__file__).parent / "assets"
PORT = 8642
IDLE = 60.0  # seconds after which a session without viewers is closed
PURGE_EVERY = 3600.0  # seconds
_HASHED = re.compile(r"[.-][A-Za-z0-9_-]{8,}\.\w+$")  # a file name with a content hash
_NO_PAGE = (
    b"<!doctype html><meta charset=utf-8><title>Interlingua canvas</title>"
    b"<p>The page of the canvas is not part of this installation; the API is at /api."
)


class Canvas(CanvasState):
    """One canvas over HTTP: its routes, its page, and its lifecycle."""

    def __init__(
        self,
        library: Library,
        *,
        host: str = "127.0.0.1",
        port: int = PORT,
        names: Sequence[str] = (),
        fallback_port: bool = True,
        assets: Path = ASSETS,
        toolbox: Toolbox | None = None,
        client: Client | None = None,
        client_port: int | None = None,
        watch: Sequence[str] = (),
    ) -> None:
        super().__init__(library, toolbox=toolbox, client=client, watch=watch)
        self._is_stopping = False
        self._names = frozenset(names)
        self._host = host
        self._assets = assets
        self._files: dict[Path, bytes] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._listener = Listener(self._app(), host, port, fallback=fallback_port)
        self.address, self.port = self._listener.address, self._listener.port
        self.client_listener = ClientListener(self, client_port) if client_port is not None else None

    # --- lifecycle
    # -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._is_stopping = False
        if not is_loopback(self._host) and not self.access.has_keys:
            raise InterlinguaError(
                f"without keys the canvas listens only on loopback addresses, not on {self._host};"
                " make one first: interlingua canvas keys add NAME"
            )
        await self._listener.start()
        self.address, self.port = self._listener.address, self._listener.port
        if self.client_listener is not None:
            await self.client_listener.start()
        where = jsontext.write({"address": self.address, "pid": os.getpid()})
        write_private(self.library.folder / "server.json", where)
        self.finder.start()
        followed = [self._sweep(), *(watcher.follow(self) for watcher in self.watchers)]
        followed.append(follow_home(self) if isinstance(self.library.store, FileStore) else follow_store(self))
        self._tasks = [asyncio.ensure_future(one) for one in followed]

    async def stop(self) -> None:
        """Notifies viewers, lets open requests finish, and closes every session."""
        self._is_stopping = True
        self.events.close("shutdown")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.client_listener is not None:
            await self.client_listener.stop()
        await self.runs.close()
        for opening in list(self._hubs.values()):
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await (await opening).stop()
        self._hubs.clear()
        await self.finder.stop()
        await self._listener.stop()
        # Last: until the listener has stopped, requests in progress may still open and write sessions.
        await self.lingering.close()
        await self.runs.writers.close()

    async def __aenter__(self) -> "Canvas":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _sweep(self) -> None:
        """Closes sessions without viewers, and purges what was deleted long ago."""
        purged = 0.0
        while True:
            if time.monotonic() - purged > PURGE_EVERY or not purged:
                purged = time.monotonic()
                with contextlib.suppress(InterlinguaError, OSError):
                    await asyncio.to_thread(gc.purge, self.library.store, home=self.library.home)
            await asyncio.sleep(IDLE / 4)
            self.feeds.sweep()
            for key, opening in list(self._hubs.items()):
                if not opening.done() or opening.exception():
                    continue
                hub = opening.result()
                if hub.channel.closing or (hub.is_idle and time.monotonic() - hub.used > IDLE):
                    self._hubs.pop(key, None)
                    await hub.stop("reload")

    # --- HTTP --------------------------------------------------------------------------------------------------------

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=LIMITS["file"], handler_args={"max_field_size": 16 << 10})
        app.on_response_prepare.append(guard.add_headers)
        for found in ROUTES:
            app.router.add_route(found.method, found.path, guard.guarded(self._checked(found)))
        app.router.add_route("GET", "/blobs/{sha256}", guard.guarded(self._checked(reading_routes.BLOB)))
        app.router.add_route("GET", "/embed/{key}", guard.guarded(self._frame))
        app.router.add_route("*", "/api/{rest:.*}", guard.guarded(self._no_route))
        app.router.add_route("GET", "/{path:.*}", guard.guarded(self._page))
        return app

    def _checked(self, found: ApiRoute) -> guard.Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            guard.refuse_foreign_host(request, self._names)
            guard.refuse_foreign_origin(request)
            if self._is_stopping:  # a viewer that reconnects at once would prevent the stop
                raise HttpProblem(503, "the server is stopping", remedy="try again when it is back")
            visitor = guard.authenticate(request, self.access, self.cookie_name)
            if found.path not in reading_routes.OPEN:
                visitor = guard.authorize(request, visitor)
                _refuse_other_sessions(request, visitor)
            return await answer(found, self, request, visitor or Visitor("read"))

        return handle

    async def _frame(self, request: web.Request) -> web.StreamResponse:
        """Allows pages of other origins to embed this frame; the key in its URL grants access."""
        guard.refuse_foreign_host(request, self._names)
        return await export.frame(self, request)

    async def _no_route(self, request: web.Request) -> web.StreamResponse:
        guard.refuse_foreign_host(request, self._names)
        guard.refuse_foreign_origin(request)
        guard.authorize(request, guard.authenticate(request, self.access, self.cookie_name))
        raise HttpProblem(404, f"no route {request.method} {request.path}", remedy="see /api/openapi.json")

    async def _page(self, request: web.Request) -> web.StreamResponse:
        """Serves the page and its files; a one-time token in the URL is redeemed here."""
        guard.refuse_foreign_host(request, self._names)
        guard.refuse_foreign_origin(request)
        if "token" in request.query:
            return self._redeem_token(request)
        path = _inside(self._assets, request.match_info["path"])
        if path is not None and path.is_file():
            return self._asset(path) if _HASHED.search(path.name) else _file(path)
        if "." in request.path.rpartition("/")[2] and request.path.startswith("/assets/"):
            raise HttpProblem(404, f"no file {request.path}")
        index = self._assets / "index.html"
        if not index.is_file():
            return web.Response(body=_NO_PAGE, content_type="text/html")
        opened = _CANVAS_PAGE.fullmatch(request.match_info["path"])
        visitor = guard.authenticate(request, self.access, self.cookie_name)
        if opened is None or visitor is None or visitor.only not in (None, opened[1]) or self._is_stopping:
            return _file(index)
        return await self._page_with_rows(request, index, opened[1])

    def _asset(self, path: Path) -> web.Response:
        """Serves a file whose name changes with its content, from memory: no thread that reads a session delays it."""
        data = self._files.get(path)
        if data is None:
            data = self._files[path] = path.read_bytes()
        return web.Response(body=data, headers={"Content-Type": _type(path), "Cache-Control": _FOREVER})

    async def _page_with_rows(self, request: web.Request, index: Path, key: str) -> web.StreamResponse:
        """Sends the page and then the rows that it shows first: its files are loaded while the session is opened."""
        page, end, rest = index.read_bytes().partition(b"</body>")
        response = web.StreamResponse(headers={"Content-Type": _TYPES[".html"], "Cache-Control": "no-store"})
        await response.prepare(request)
        await response.write(page)
        rows = await self._first_rows(key)
        await response.write((b"" if rows is None else _data_block(rows)) + end + rest)
        await response.write_eof()
        return response

    async def _first_rows(self, key: str) -> TreePage | None:
        """Reads the rows that a canvas shows first, unless it takes long."""
        query = reading_routes.TreeQuery(limit=FIRST_ROWS)
        reading = asyncio.ensure_future(reading_routes.tree_page(self, key, query, wait=False))
        await asyncio.wait({reading}, timeout=FIRST_ROWS_WAIT)
        if not reading.done():
            reading.add_done_callback(_ignore)  # the session stays open for the request of the page
            return None
        return None if _ignore(reading) else reading.result()

    def _redeem_token(self, request: web.Request) -> web.StreamResponse:
        # A browser that only prefetches a page must not use up the token.
        if "prefetch" in request.headers.get("Sec-Purpose", request.headers.get("Purpose", "")):
            raise HttpProblem(403, "the address works once, and is not for prefetching")
        cookie = self.access.redeem(request.query["token"])
        rest = request.rel_url.without_query_params("token")
        # Browsers read a backslash as a slash, and two of either as the start of another host.
        target = rest.path_qs if re.match(r"/(?![/\\])", rest.path_qs) else "/"
        response = web.Response(status=303, headers={"Location": target if cookie else "/?login=failed"})
        if cookie is not None:
            self.set_cookie(response, cookie)
        return response


def _refuse_other_sessions(request: web.Request, visitor: Visitor) -> None:
    """Restricts an embedded frame to the one session that it was created for."""
    if visitor.only is None:
        return
    named = request.match_info.get("key") or request.query.get("in", "").partition("/")[0]
    if named != visitor.only and request.path not in ("/api/me", "/api/dialects"):
        raise HttpProblem(403, "this frame shows only one session", remedy="open the canvas itself")


def _inside(folder: Path, name: str) -> Path | None:
    """Returns a file below a folder; None for anything outside, through links too."""
    if not name or "\0" in name or name.startswith("/"):
        return None
    try:
        path = (folder / name).resolve()
    except (OSError, ValueError):
        return None
    return path if path.is_relative_to(folder.resolve()) else None


def _ignore(reading: "asyncio.Future[TreePage]") -> bool:
    """Retrieves the exception, if any: the page makes the same request and shows the error."""
    return reading.cancelled() or reading.exception() is not None


def _data_block(rows: TreePage) -> bytes:
    """Returns rows as an element of data that no browser executes (web/src/store.ts reads it)."""
    return b'<script type="application/json" id="first-rows">%b</script>' % encode(rows).replace(b"<", b"\\u003c")


def _file(path: Path) -> web.FileResponse:
    return web.FileResponse(path, headers={"Content-Type": _type(path), "Cache-Control": "no-cache"})


def _type(path: Path) -> str:
    return _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"


_FOREVER = "public, max-age=31536000, immutable"
FIRST_ROWS = 60  # as many cards as a large screen shows
FIRST_ROWS_WAIT = 0.25  # seconds
_CANVAS_PAGE = re.compile(r"s/([^/]+)(?:/canvas)?")
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
