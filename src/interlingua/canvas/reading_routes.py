"""Read routes: login, events, media; sessions, trees, contents, statistics and the lossless views."""

import asyncio
import contextlib
import gc
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import unquote

import msgspec
from aiohttp import web
from msgspec import field

from ..dialects import FORMATS, WIRES
from ..dialects.registry import DEFAULT_WIRE
from ..serving.access import write_private
from ..serving.problems import HttpProblem
from ..serving.sse import serve_events
from ..sessions.store import view_path
from ..sessions.texts import Query
from ..values import jsontext
from ..values.errors import InterlinguaError
from ..values.regular import read_regular
from ..values.text import natural
from .inspection import cache_view, compare_view, context_view, doctor_view
from .routing import BYTES, LIMITS, MAX_STREAMS, ApiCall, ApiRoute, CanvasState, read_limited, route
from .session_list import scope, searched
from .shapes import (
    CacheView,
    Comparison,
    ContextView,
    Dialects,
    DialectView,
    DoctorView,
    EntryPage,
    EntryView,
    FilterValues,
    Group,
    Me,
    OpenedFiles,
    SearchResult,
    SessionList,
    SessionView,
    Shape,
    SourceList,
    SourceView,
    TextPart,
    Timeline,
    TotalsView,
    TreePage,
    Versions,
    WireView,
    encode,
)
from .targets import target, wire_view
from .views import timeline, totals_of, totals_view

# --- login, events, media --------------------------------------------------------------------------------------------
#
# Routes for viewers: login, events, blobs, and view state.


OPEN = frozenset({"/api/login"})  # routes without login
VIEW_LIMIT = 256 << 10
_SHA256 = re.compile(r"[0-9a-f]{64}")
# Types that a browser renders without active content. Others, above all SVG, are sandboxed.
_DRAWN = re.compile(r"image/(png|jpeg|gif|webp|avif|bmp)|audio/[\w.+-]+|video/[\w.+-]+|application/pdf|text/plain")
_SANDBOX = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


class Login(Shape, frozen=True, kw_only=True):
    """A one-time token, or a key."""

    token: str | None = None
    key: str | None = None


class Link(Shape, frozen=True, kw_only=True):
    address: str


class Nothing(Shape, frozen=True, kw_only=True):
    """An empty object."""


class EventsQuery(Shape, frozen=True, kw_only=True):
    since: str | None = None


class BlobQuery(Shape, frozen=True, kw_only=True):
    """`KEY/ENTRY`: where the data is."""

    in_: str = msgspec.field(name="in")


@route("GET", "/api/me", returns=Me)
async def me(call: ApiCall) -> Me:
    """Get the current visitor, and the server's capabilities."""
    return call.canvas.me(call.visitor)


@route("POST", "/api/login", body=Login, returns=Me)
async def login(call: ApiCall) -> web.Response:
    """Exchange a one-time token or a key for a cookie."""
    access, body = call.canvas.access, call.body
    cookie = access.redeem(body.token) if body.token else access.redeem_key(body.key) if body.key else None
    visitor = access.by_cookie(cookie) if cookie else None
    if cookie is None or visitor is None:
        raise HttpProblem(401, "invalid or already used token or key", remedy="ask for a new address")
    response = web.Response(body=encode(call.canvas.me(visitor)), content_type="application/json")
    call.canvas.set_cookie(response, cookie)
    return response


@route("POST", "/api/logout", body=Nothing, returns=Nothing)
async def logout(call: ApiCall) -> web.Response:
    """Invalidate the cookie."""
    cookie = call.request.cookies.get(call.canvas.cookie_name)
    if cookie is not None:
        call.canvas.access.revoke(cookie)
    response = web.Response(body=b"{}", content_type="application/json")
    response.del_cookie(call.canvas.cookie_name, path="/", httponly=True, samesite="Strict")
    return response


@route("POST", "/api/links", body=Nothing, returns=Link)
async def links(call: ApiCall) -> Link:
    """Create another one-time URL, for another browser."""
    return Link(address=call.canvas.link())


@route("GET", "/api/events", query=EventsQuery)
async def all_events(call: ApiCall) -> web.StreamResponse:
    """Follow the list of sessions, as server-sent events."""
    canvas = call.canvas

    async def snapshot() -> tuple[int, bytes]:
        return canvas.events.last, encode({"epoch": canvas.epoch, "live": canvas.live_sessions()})

    return await _streamed(call, canvas.events, snapshot)


@route("GET", "/api/sessions/{key}/events", query=EventsQuery)
async def session_events(call: ApiCall) -> web.StreamResponse:
    """Follow one session, as server-sent events."""
    hub = await call.canvas.hub(call["key"])
    return await _streamed(call, hub.channel, hub.snapshot)


async def _streamed(call: ApiCall, channel: Any, snapshot: Any) -> web.StreamResponse:
    canvas = call.canvas
    if canvas.streams >= MAX_STREAMS:
        raise HttpProblem(429, f"{MAX_STREAMS} viewers are connected", remedy="close a tab and reload")
    canvas.streams += 1
    try:
        return await serve_events(call.request, channel, snapshot)
    finally:
        canvas.streams -= 1


async def blob(call: ApiCall) -> web.Response:
    """Get the data of a block, by its hash."""
    name = call["sha256"]
    key, _, entry = call.query.in_.partition("/")
    if not _SHA256.fullmatch(name):
        raise HttpProblem(404, f"{name!r} is no hash", code="blob_not_found", path="sha256")
    hub = await call.canvas.hub(key)
    found = await asyncio.to_thread(hub.tree.blob, entry, name)
    if found is None:
        raise HttpProblem(404, f"no data {name} in {entry!r}", code="blob_not_found", remedy="reload the entry")
    data, given = found
    kind = (given or "").partition(";")[0].strip().lower()
    headers = {"Cache-Control": "private, max-age=31536000, immutable", "ETag": f'"{name}"'}
    if kind == "image/svg+xml":
        headers["Content-Security-Policy"] = _SANDBOX
    elif not _DRAWN.fullmatch(kind):
        kind = "application/octet-stream"
        headers["Content-Disposition"] = "attachment"
    if call.request.headers.get("If-None-Match") == f'"{name}"':
        return web.Response(status=304, headers=headers)
    return _ranged(call.request, data, kind, headers)


def _ranged(request: web.Request, data: bytes, kind: str, headers: dict[str, str]) -> web.Response:
    """Returns all of it, or the range that a player requests."""
    try:
        byte_range = request.http_range
    except ValueError:
        return web.Response(status=416, headers={"Content-Range": f"bytes */{len(data)}"})
    headers["Accept-Ranges"] = "bytes"
    start, stop, _ = slice(byte_range.start, byte_range.stop).indices(len(data))
    if (byte_range.start, byte_range.stop) == (None, None):
        return web.Response(body=data, content_type=kind, headers=headers)
    if start >= stop:
        return web.Response(status=416, headers={"Content-Range": f"bytes */{len(data)}"})
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
    return web.Response(status=206, body=data[start:stop], content_type=kind, headers=headers)


BLOB = ApiRoute("GET", "/blobs/{sha256}", blob, "Get the data of a block, by its hash.", BlobQuery)


# --- view state ------------------------------------------------------------------------------------------------------


@route("GET", "/api/sessions/{key}/view", returns=dict[str, Any])
async def view(call: ApiCall) -> web.Response:
    """Get the page's view state of a session: positions, folds."""
    return web.Response(body=jsontext.write(_stored_view(call.canvas, call["key"])), content_type="application/json")


@route("PUT", "/api/sessions/{key}/view", body=dict[str, Any], returns=Nothing)
async def keep_view(call: ApiCall) -> Nothing:
    """Store the page's view state of a session."""
    data = jsontext.write(call.body)
    if len(data) > VIEW_LIMIT:
        raise HttpProblem(413, f"more than {VIEW_LIMIT:,} bytes", path="$", limit=VIEW_LIMIT, remedy="keep less")
    await asyncio.to_thread(write_private, _view_path(call.canvas, call["key"]), data)
    return Nothing()


def _stored_view(canvas: CanvasState, key: str) -> dict[str, Any]:
    """Read the view state. An unreadable one is not worth an error: the page then opens unfolded."""
    try:
        found = jsontext.read(read_regular(_view_path(canvas, key)))
    except (OSError, InterlinguaError):
        return {}
    return found if isinstance(found, dict) else {}


def _view_path(canvas: CanvasState, key: str) -> Path:
    return view_path(canvas.library.home, canvas.library.place(key).key)


# --- sessions, trees, contents ---------------------------------------------------------------------------------------
#
# Read routes: sessions, trees, contents, statistics, and the lossless views.


PAGE_LIMIT = 10_000
FEW_MESSAGES = 2_000  # are read within a fraction of a second
ENTRIES_LIMIT = 200
TEXT_LIMIT = 2_000_000
T = TypeVar("T")


async def in_thread(call: ApiCall, key: str, work: Callable[..., T], *values: Any) -> T:
    """Calls a function on an open session's tree, in a thread."""
    hub = await call.canvas.hub(key)
    return await asyncio.to_thread(work, hub.tree, *values)


class CollectorPause:
    """No garbage collection while at least one long path is read.

    What is read are hundreds of thousands of objects without cycles: to walk them again and again took up to half of
    the time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers = 0
        self._was_enabled = False

    def __enter__(self) -> None:
        with self._lock:
            self._readers += 1
            if self._readers == 1:
                self._was_enabled = gc.isenabled()
                gc.disable()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._readers -= 1
            if not self._readers and self._was_enabled:
                gc.enable()


_collector_pause = CollectorPause()


async def inspected(call: ApiCall, work: Callable[[], T], messages: int) -> T:
    """Calls a function that reads up to so many messages, in a thread.

    They are read for a few visitors at a time, and for none that has gone on: a page asks anew with every step of the
    reader and drops what it asked before. Requests for few messages do not wait for requests for many.
    """
    canvas = call.canvas
    is_short = messages <= FEW_MESSAGES

    def read() -> T:
        with contextlib.nullcontext() if is_short else _collector_pause:
            return work()

    async with canvas.short_inspections if is_short else canvas.inspections:
        if call.request.transport is None:
            raise HttpProblem(503, "the connection was closed before its turn", remedy="ask again")
        return await asyncio.to_thread(read)


# --- sessions --------------------------------------------------------------------------------------------------------


class SessionsQuery(Shape, frozen=True, kw_only=True):
    source: str | None = None
    group: str | None = None
    q: str | None = None
    sort: Literal["modified", "cost", "messages", "title"] = "modified"
    filter: Literal["rated", "notes", "live", "bad"] | None = None
    limit: int = 100
    cursor: str | None = None


@route("GET", "/api/sessions", query=SessionsQuery, returns=SessionList)
async def sessions(call: ApiCall) -> SessionList:
    """List the sessions."""
    return await asyncio.to_thread(_listed, call.canvas, call.query)


def _listed(canvas: Any, query: SessionsQuery) -> SessionList:
    places = canvas.describer.places()
    groups: dict[tuple[Any, str], int] = {}
    for place in places:
        groups[place.source, place.group] = groups.get((place.source, place.group), 0) + 1
    views = [
        canvas.describe(place)
        for place in places
        if query.source in (None, place.source) and query.group in (None, place.group)
    ]
    views = [view for view in views if not query.q or searched(view, query.q)]
    views = [view for view in views if query.filter is None or _FILTERS[query.filter](view)]
    views.sort(key=_SORTS[query.sort])
    start = _offset(query.cursor)
    limit = _within(query.limit, 1, 1000, "query.limit")
    shown = views[start : start + limit]
    return SessionList(
        sessions=tuple(shown),
        total=len(views),
        next=str(start + limit) if start + limit < len(views) else None,
        groups=tuple(Group(source=source, group=group, count=count) for (source, group), count in groups.items()),
        size=sum(view.size for view in views),
        index=canvas.index_state(),
    )


_FILTERS: dict[str, Callable[[SessionView], bool]] = {
    "rated": lambda view: view.rated > 0,
    "notes": lambda view: view.notes > 0,
    "live": lambda view: view.live is not None,
    "bad": lambda view: view.bad_lines > 0 or view.problems > 0,
}
_SORTS: dict[str, Callable[[SessionView], Any]] = {
    "modified": lambda view: (-view.modified, view.key),
    "cost": lambda view: (-(view.cost or 0.0), view.key),
    "messages": lambda view: (-view.messages, view.key),
    "title": lambda view: (view.title.lower(), view.key),
}


@route("GET", "/api/sessions/{key}", returns=SessionView)
async def session(call: ApiCall) -> SessionView:
    """Get a session of the list."""
    hub = await call.canvas.hub(call["key"])
    return await asyncio.to_thread(call.canvas.describe, hub.place)


class FilesQuery(Shape, frozen=True, kw_only=True):
    name: str = "dropped"
    dialect: str | None = None


@route("POST", "/api/files", query=FilesQuery, body=BYTES, returns=OpenedFiles, status=201)
async def files(call: ApiCall) -> OpenedFiles:
    """Open a file of any dialect."""
    if call.request.content_type not in (BYTES, "application/json", "text/plain", "application/x-ndjson"):
        raise HttpProblem(415, f"a body of type {call.request.content_type!r}", remedy=f"send {BYTES}")
    data = await read_limited(call.request, LIMITS["file"])
    name = call.query.name.replace("\\", "/").rpartition("/")[2][:200] or "dropped"
    places, problems = await asyncio.to_thread(call.canvas.library.open_data, data, name, call.query.dialect)
    if not places:
        why = problems[0].message if problems else "no conversation was found"
        raise HttpProblem(
            422, f"{name}: {why}", path="$", remedy="name the dialect", problems=[p.message for p in problems[:50]]
        )
    call.canvas.describer.forget("")
    views = await asyncio.to_thread(lambda: tuple(map(call.canvas.describe, places)))
    return OpenedFiles(sessions=views, problems=tuple(problems))


@route("GET", "/api/sources", returns=SourceList)
async def sources(call: ApiCall) -> SourceList:
    """List the sources of sessions."""
    return await asyncio.to_thread(_sources, call.canvas)


def _sources(canvas: Any) -> SourceList:
    library, places = canvas.library, canvas.describer.places()
    counts: dict[str, int] = {}
    for place in places:
        name = place.agent if place.source == "watch" else place.source
        counts[name] = counts.get(name, 0) + 1
    own = SourceView(
        id="home",
        kind="home",
        label="Own sessions",
        where=str(library.home),
        sessions=sum(counts.get(name, 0) for name in ("own", "client", "gateway")),
        watching=True,
    )
    opened = SourceView(
        id="opened", kind="file", label="Opened files", where="", sessions=counts.get("file", 0), read_only=True
    )
    return SourceList(sources=(own, opened, *canvas.watched_sources(counts)))


# --- tree and contents -----------------------------------------------------------------------------------------------


class TreeQuery(Shape, frozen=True, kw_only=True):
    """Rows `since` a number, or the `last` ones, or the last ones of the `path` `to` an entry (else to the head)."""

    since: int = 0
    limit: int = 2000
    last: int | None = None
    path: int | None = None
    to: str | None = None


@route("GET", "/api/sessions/{key}/tree", query=TreeQuery, returns=TreePage)
async def tree(call: ApiCall) -> TreePage:
    """Get a page of the tree's rows, in log order. After the end of a path, the whole is read from `next` on."""
    return await tree_page(call.canvas, call["key"], call.query)


async def tree_page(canvas: CanvasState, key: str, query: TreeQuery, *, wait: bool = True) -> TreePage:
    """Reads a page of rows; what is slow to know of the session is omitted unless `wait`: events send it later."""
    hub = await canvas.hub(key)
    limit = _within(query.limit, 1, PAGE_LIMIT, "query.limit")

    def page() -> TreePage:
        total = hub.tree.total
        since = (
            max(0, query.since)
            if query.last is None
            else max(0, total - _within(query.last, 1, PAGE_LIMIT, "query.last"))
        )
        next_ = since + limit if since + limit < total else None
        if query.path is not None and total > (max_rows := _within(query.path, 1, PAGE_LIMIT, "query.path")):
            rows, next_ = hub.tree.path_rows(query.to, max_rows), 0
        else:
            rows = hub.tree.rows(since, limit)
        is_first = since == 0 or query.last is not None
        return TreePage(
            epoch=canvas.epoch,
            rows=tuple(rows),
            next=next_,
            total=total,
            head=hub.tree.head(),
            branches=hub.tree.branches(),
            session=canvas.describe(hub.place, wait=wait),
            problems=hub.tree.problems() if is_first else (),
            view=_stored_view(canvas, key) if is_first else None,
        )

    return await asyncio.to_thread(page)


class EntriesQuery(Shape, frozen=True, kw_only=True):
    ids: str | None = None
    to: str | None = None
    last: int = 50
    before: str | None = None


@route("GET", "/api/sessions/{key}/entries", query=EntriesQuery, returns=EntryPage)
async def entries(call: ApiCall) -> EntryPage:
    """Get the contents of entries: those named, or the end of a path."""
    query = call.query

    def page(tree: Any) -> EntryPage:
        if query.ids is not None:
            wanted = [unquote(id) for id in query.ids.split(",") if id]
            if len(wanted) > ENTRIES_LIMIT:
                raise HttpProblem(422, f"more than {ENTRIES_LIMIT} ids", path="query.ids", remedy="ask in pages")
            return EntryPage(entries=tuple(tree.view(tree.entry(id)) for id in wanted))
        last = _within(query.last, 1, ENTRIES_LIMIT, "query.last")
        if query.before is not None:
            first = tree.entry(query.before).parent_id
            if first is None:
                return EntryPage(entries=())
            found = tree.path(first, last + 1)
        else:
            found = tree.path(query.to, last + 1)
        shown = found[-last:]
        views = tuple(tree.view(tree.entry(entry.id)) for entry in shown)
        return EntryPage(entries=views, more=len(found) > last)

    return await in_thread(call, call["key"], page)


@route("GET", "/api/sessions/{key}/entries/{id}", returns=EntryView)
async def entry(call: ApiCall) -> EntryView:
    """Get an entry with its contents."""
    return await in_thread(call, call["key"], lambda tree: tree.view(tree.entry(call["id"])))


class TextQuery(Shape, frozen=True, kw_only=True):
    block: int = 0
    offset: int = 0
    limit: int = 200_000


@route("GET", "/api/sessions/{key}/entries/{id}/text", query=TextQuery, returns=TextPart)
async def text(call: ApiCall) -> TextPart:
    """Get a part of a long block."""
    query = call.query
    limit = _within(query.limit, 1, TEXT_LIMIT, "query.limit")
    offset = _within(query.offset, 0, 1 << 40, "query.offset")
    return await in_thread(call, call["key"], lambda tree: tree.text(call["id"], query.block, offset, limit))


class RawQuery(Shape, frozen=True, kw_only=True):
    offset: int = 0
    limit: int = 200_000


@route("GET", "/api/sessions/{key}/entries/{id}/raw", query=RawQuery, returns=TextPart)
async def raw(call: ApiCall) -> TextPart:
    """Get a part of an entry's stored JSON, indented."""
    limit = _within(call.query.limit, 1, TEXT_LIMIT, "query.limit")
    offset = _within(call.query.offset, 0, 1 << 40, "query.offset")
    return await in_thread(call, call["key"], lambda tree: tree.raw(call["id"], offset, limit))


@route("GET", "/api/sessions/{key}/entries/{id}/versions", returns=Versions)
async def versions(call: ApiCall) -> Versions:
    """Get the content of an entry at each version."""
    return await in_thread(call, call["key"], lambda tree: Versions(versions=tree.versions(call["id"])))


# --- statistics ------------------------------------------------------------------------------------------------------


class ToQuery(Shape, frozen=True, kw_only=True):
    to: str | None = None


@route("GET", "/api/sessions/{key}/stats", query=ToQuery, returns=TotalsView)
async def stats(call: ApiCall) -> TotalsView:
    """Get totals of a branch, or of the whole tree."""

    def counted(tree: Any) -> TotalsView:
        if call.query.to is None:
            return totals_view(totals_of(entry.message for entry in tree.session.entries()))
        path = tree.path(call.query.to)
        return totals_view(totals_of(entry.message for entry in path), path)

    hub = await call.canvas.hub(call["key"])
    return await inspected(call, lambda: counted(hub.tree), hub.tree.total)


@route("GET", "/api/sessions/{key}/timeline", query=ToQuery, returns=Timeline)
async def times(call: ApiCall) -> Timeline:
    """Get times, tokens and costs along a branch."""

    def rows(tree: Any) -> Timeline:
        return timeline(tree.path_rows(call.query.to, 2000))

    return await in_thread(call, call["key"], rows)


# --- lossless views --------------------------------------------------------------------------------------------------


class FindQuery(Shape, frozen=True, kw_only=True):
    """`q` has terms, "phrases" and -terms to exclude; `in` names one session."""

    q: str = ""
    in_: str | None = field(default=None, name="in")
    role: str | None = None
    tool: str | None = None
    model: str | None = None
    error: bool = False
    min_cost: float | None = None
    source: str | None = None
    since: int | None = field(default=None, name="from")
    until: int | None = None
    limit: int = 50
    cursor: str | None = None


@route("GET", "/api/search", query=FindQuery, returns=SearchResult)
async def search(call: ApiCall) -> SearchResult:
    """Search the text of all sessions, or of one."""
    query, canvas = call.query, call.canvas
    hub = await canvas.hub(query.in_) if query.in_ is not None else None
    offset = _offset(query.cursor)

    def found() -> SearchResult:
        within: dict[str, Any] = scope(query.source)
        if hub is not None:
            places = [hub.place, *canvas.describer.links_of(hub.place)]
            within = {"sessions": tuple((place.agent, place.id) for place in places)}
        search_query = Query(
            text=query.q,
            role=query.role,
            tool=query.tool,
            model=query.model,
            is_error=query.error or None,
            min_cost=query.min_cost,
            since=_milliseconds(query.since),
            until=_milliseconds(query.until),
            limit=_within(query.limit, 1, 1000, "query.limit"),
            offset=offset,
            **within,
        )
        return canvas.finder.search(search_query, hub.place if hub is not None else None)

    return await asyncio.to_thread(found)


@route("GET", "/api/filters", returns=FilterValues)
async def filters(call: ApiCall) -> FilterValues:
    """The roles, tools and models that a search can filter by."""
    return await asyncio.to_thread(call.canvas.finder.filters)


class CompareQuery(Shape, frozen=True, kw_only=True):
    a: str
    b: str
    a_to: str | None = None
    b_to: str | None = None
    offset: int = 0
    limit: int = 200


@route("GET", "/api/compare", query=CompareQuery, returns=Comparison)
async def compare(call: ApiCall) -> Comparison:
    """Compare two branches, or two sessions, message by message."""
    query, canvas = call.query, call.canvas
    left, right = await canvas.hub(query.a), await canvas.hub(query.b)

    def compared() -> Comparison:
        titles = (canvas.describe(left.place).title, canvas.describe(right.place).title)
        limit = _within(query.limit, 1, 1000, "query.limit")
        offset = _within(query.offset, 0, 1 << 40, "query.offset")
        return compare_view(left.tree, query.a_to, right.tree, query.b_to, titles, offset, limit)

    return await inspected(call, compared, left.tree.total + right.tree.total)


@route("GET", "/api/dialects", returns=Dialects)
async def dialects(call: ApiCall) -> Dialects:
    """List the formats in which conversations can be shown and exported."""
    return Dialects(
        wires=tuple(DialectView(id=name, label=name) for name in WIRES),
        files=tuple(DialectView(id=name, label=name) for name in FORMATS),
    )


class WireQuery(Shape, frozen=True, kw_only=True):
    to: str | None = None
    as_: str | None = field(default=None, name="as")
    model: str | None = None
    thinking: Literal["drop", "text"] = "drop"
    part: Literal["request", "answer", "stream"] = "request"
    kept: bool = False
    last: int | None = None


@route("GET", "/api/sessions/{key}/wire", query=WireQuery, returns=WireView)
async def wire(call: ApiCall) -> WireView:
    """Get the request or response as a dialect encodes it, each loss at its position."""
    query = call.query

    def seen(tree: Any) -> WireView:
        chosen = target(query.model) if query.model else target(query.as_ or _usual_wire(tree))
        if query.model and query.as_:
            from msgspec.structs import replace

            chosen = replace(chosen, api=query.as_)
        return wire_view(
            tree, query.to, chosen, part=query.part, thinking=query.thinking, with_kept=query.kept, last=last
        )

    last = _last(query.last)
    hub = await call.canvas.hub(call["key"])
    return await inspected(call, lambda: seen(hub.tree), last or hub.tree.total)


def _last(given: int | None) -> int | None:
    return None if given is None else _within(given, 1, PAGE_LIMIT, "query.last")


def _usual_wire(tree: Any) -> str:
    """Returns the wire of the current model, if it has one."""
    model = tree.session.base.model or tree.session.model
    return model.api if model is not None and model.api in WIRES else DEFAULT_WIRE


class DoctorQuery(Shape, frozen=True, kw_only=True):
    to: str | None = None
    model: str | None = None


@route("GET", "/api/sessions/{key}/doctor", query=DoctorQuery, returns=DoctorView)
async def doctor(call: ApiCall) -> DoctorView:
    """Check the conversation for a model, before anything is sent."""
    query = call.query

    def examined(tree: Any) -> DoctorView:
        return doctor_view(tree, query.to, target(query.model) if query.model else None)

    hub = await call.canvas.hub(call["key"])
    return await inspected(call, lambda: examined(hub.tree), hub.tree.total)


class CacheQuery(Shape, frozen=True, kw_only=True):
    to: str | None = None
    as_: str | None = field(default=None, name="as")
    last: int | None = None


@route("GET", "/api/sessions/{key}/cache", query=CacheQuery, returns=CacheView)
async def cache(call: ApiCall) -> CacheView:
    """Show which prefix each request shares with the previous one, and what invalidated it."""
    if call.query.as_ is not None and call.query.as_ not in WIRES:
        raise HttpProblem(422, f"no wire {call.query.as_!r}", path="query.as", remedy="see /api/dialects")
    last = _last(call.query.last)
    hub = await call.canvas.hub(call["key"])
    return await inspected(
        call, lambda: cache_view(hub.tree, call.query.to, call.query.as_, last), last or hub.tree.total
    )


class ContextQuery(Shape, frozen=True, kw_only=True):
    to: str | None = None
    model: str | None = None
    last: int | None = None


@route("GET", "/api/sessions/{key}/context", query=ContextQuery, returns=ContextView)
async def context(call: ApiCall) -> ContextView:
    """Get what the model read at an entry, and how much of its window that used."""
    query = call.query

    def measured(tree: Any) -> ContextView:
        chosen = target(query.model) if query.model else None
        named = (chosen.provider or None, chosen.id or None) if chosen is not None else None
        return context_view(tree, query.to, named, last)

    last = _last(query.last)
    hub = await call.canvas.hub(call["key"])
    return await inspected(call, lambda: measured(hub.tree), last or hub.tree.total)


_LAST = (1 << 63) - 1  # the largest integer of SQLite and PostgreSQL


def _offset(cursor: str | None) -> int:
    """The position in a list; 0 for a cursor that is not one of ours."""
    return natural(cursor) or 0


def _milliseconds(at: int | None) -> int | None:
    """A time that a database can compare."""
    return None if at is None else max(-_LAST, min(at, _LAST))


def _within(value: int, low: int, high: int, path: str) -> int:
    if not low <= value <= high:
        raise HttpProblem(422, f"{value} is not between {low} and {high}", path=path, remedy=f"use {low} to {high}")
    return value
