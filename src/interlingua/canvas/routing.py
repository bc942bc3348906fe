"""The state of a canvas, and its routes as data: method, path, and the shapes of query, body and response.

The OpenAPI document is generated from the routes.

A handler takes an `ApiCall` and returns a shape; parsing and validating the request, and responding in the published
error shape, is done here, once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec
from aiohttp import web
from msgspec import Struct

from .._version import __version__
from ..connect.client import Client
from ..plugins.installed import FOLDER
from ..plugins.manifest import tool_views
from ..serving.access import COOKIE_MAX_AGE, Access, KeyRing, Visitor
from ..serving.problems import HttpProblem
from ..values import jsontext
from ..values.places import has_package_plugins
from .library import Library
from .live import Feeds, ReportedRun
from .open_sessions import OpenSessions
from .runs import CanvasRun, CanvasRuns, Toolbox
from .shapes import Me, SourceView, ToolDisplayView, encode
from .watchers import Watcher
from .writers import Lingering, Nodes

MAX_STREAMS = 64
MAX_INSPECTIONS = 2  # at once: each reads a whole path, and threads are left for short requests
LIMITS = {
    "json": 8 << 20,
    "upload": 25 << 20,
    "file": 512 << 20,
    "message": 32 << 20,
    "streams": MAX_STREAMS,
    "runs": 8,
}


class CanvasState(OpenSessions):
    """Open sessions with their runs, watched sources, keys and cookies. `address` and `port` are where it listens."""

    address = ""
    port = 0

    def __init__(
        self,
        library: Library,
        *,
        toolbox: Toolbox | None = None,
        client: Client | None = None,
        watch: Sequence[str] = (),
    ) -> None:
        super().__init__(library)
        self.keys = KeyRing(library.folder / "keys.json")
        self.access = Access(library.folder, self.keys)
        self.runs = CanvasRuns(self, toolbox or Toolbox(), client)
        self.lingering = Lingering(self.runs.writers)
        self.nodes = Nodes(library)
        self.feeds = Feeds(self)
        self.streams = 0
        self.inspections = asyncio.Semaphore(MAX_INSPECTIONS)
        self.short_inspections = asyncio.Semaphore(MAX_INSPECTIONS)
        self.watchers = [Watcher(library, given) for given in dict.fromkeys(watch)]

    def _all_runs(self, key: str | None = None) -> list[CanvasRun | ReportedRun]:
        return [*self.runs.all(key), *self.feeds.all(key)]

    @property
    def cookie_name(self) -> str:
        """Cookies ignore ports, so their name has one: two canvases on one machine do not log each other out."""
        return f"interlingua_canvas_{self.port}"

    def link(self, path: str = "/", *, scope: Any = "write") -> str:
        """Returns a one-time URL for a browser."""
        return f"{self.address}{path}?token={self.access.new_token(scope)}"

    def watched_sources(self, counts: dict[str, int]) -> list[SourceView]:
        return [watcher.view(counts.get(watcher.id, 0)) for watcher in self.watchers]

    def set_cookie(self, response: web.StreamResponse, cookie: str) -> None:
        response.set_cookie(
            self.cookie_name, cookie, max_age=COOKIE_MAX_AGE, path="/", httponly=True, samesite="Strict"
        )

    def me(self, visitor: Visitor) -> Me:
        views = tool_views(self.library.home / FOLDER, packages=has_package_plugins())
        return Me(
            scope=visitor.scope,
            csrf=visitor.csrf,
            version=__version__,
            epoch=self.epoch,
            address=self.address,
            capabilities=self.capabilities(),
            limits=LIMITS,
            tool_views={
                name: ToolDisplayView(icon=one.icon, label=one.label, result=one.result) for name, one in views.items()
            },
        )

    def capabilities(self) -> tuple[str, ...]:
        return ("read", "write", "run", "export", *(("tools",) if self.runs.toolbox.listed().tools else ()))


JSON_LIMIT = 8 << 20  # bytes of a JSON body
JSON = "application/json"
BYTES = "application/octet-stream"

T = TypeVar("T")


@dataclass(frozen=True)
class ApiCall:
    """One validated request: path parameters, query and body in their shapes, and the visitor."""

    canvas: CanvasState
    request: web.Request
    visitor: Visitor
    query: Any
    body: Any

    def __getitem__(self, name: str) -> str:
        """Returns a path parameter by its name."""
        return self.request.match_info[name]


Handler: TypeAlias = Callable[[ApiCall], Awaitable[Any]]


class ApiRoute(NamedTuple):
    method: str
    path: str
    handler: Handler
    summary: str
    query: type[Struct] | None = None
    body: Any = None
    returns: Any = None
    status: int = 200
    tag: str = ""


ROUTES: list[ApiRoute] = []


def route(
    method: str,
    path: str,
    *,
    query: type[Struct] | None = None,
    body: Any = None,
    returns: Any = None,
    status: int = 200,
) -> Callable[[Handler], Handler]:
    """Adds a handler to the routes; the first line of its docstring is the summary in the published document."""

    def add(handler: Handler) -> Handler:
        summary = (handler.__doc__ or "").strip().split("\n")[0]
        tag = handler.__module__.rpartition(".")[2].removesuffix("_routes")
        ROUTES.append(ApiRoute(method, path, handler, summary, query, body, returns, status, tag))
        return handler

    return add


async def answer(found: ApiRoute, canvas: CanvasState, request: web.Request, visitor: Visitor) -> web.StreamResponse:
    """Parses a request into its shapes, calls the handler, and writes the response."""
    query = _query(request, found.query) if found.query is not None else None
    body = await _body(request, found.body) if found.body not in (None, BYTES) else None
    given = await found.handler(ApiCall(canvas, request, visitor, query, body))
    if isinstance(given, web.StreamResponse):
        return given
    return web.Response(body=encode(given), status=found.status, content_type=JSON)


def _query(request: web.Request, shape: type[T]) -> T:
    given = {name: value for name, value in request.query.items() if value != ""}
    try:
        return msgspec.convert(given, shape, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(error, "query") from None


async def _body(request: web.Request, shape: Any) -> Any:
    if request.content_type != JSON:
        raise HttpProblem(415, f"a body of type {request.content_type!r}", remedy="send application/json")
    raw = await read_limited(request, JSON_LIMIT)
    try:
        return msgspec.convert(jsontext.read(raw or b"{}"), shape)
    except msgspec.ValidationError as error:
        raise _invalid(error, "$") from None


async def read_limited(request: web.Request, limit: int) -> bytes:
    """Reads the body of a request; 413 as soon as it exceeds the limit."""
    if (request.content_length or 0) > limit:
        raise _too_large(limit)
    pieces: list[bytes] = []
    size = 0
    async for piece in request.content.iter_any():
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        pieces.append(piece)
    return b"".join(pieces)


def _too_large(limit: int) -> HttpProblem:
    # The rest of the body is not read, so the connection cannot be reused.
    return HttpProblem(
        413,
        f"the body is larger than {limit:,} bytes",
        path="$",
        remedy="send less at once",
        limit=limit,
        headers={"Connection": "close"},
    )


def _invalid(error: msgspec.ValidationError, root: str) -> HttpProblem:
    text = str(error)
    message, _, place = text.partition(" - at `")
    path = place.rstrip("`").removeprefix("$")
    where = f"{root}{path}" if root == "$" else root + (path or "")
    return HttpProblem(422, message[:1].lower() + message[1:], path=where, remedy="see /api/openapi.json")
