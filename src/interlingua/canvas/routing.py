"""Routes as data: method, path, and the shapes of query, body and response. The OpenAPI document is generated from
them.

A handler takes a `Call` and returns a shape; parsing and validating the request, and responding in the published error
shape, is done here, once.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec
from aiohttp import web
from msgspec import Struct

from ..serving.access import Visitor
from ..serving.problems import HttpProblem
from ..values import jsontext
from .shapes import encode
from .state import CanvasState

JSON_LIMIT = 8 << 20  # bytes of a JSON body
JSON = "application/json"
BYTES = "application/octet-stream"

T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """One validated request: path parameters, query and body in their shapes, and the visitor."""

    canvas: CanvasState
    request: web.Request
    visitor: Visitor
    query: Any
    body: Any

    def __getitem__(self, name: str) -> str:
        """Returns a path parameter by its name."""
        return self.request.match_info[name]


Handler: TypeAlias = Callable[[Call], Awaitable[Any]]


class Route(NamedTuple):
    method: str
    path: str
    handler: Handler
    summary: str
    query: type[Struct] | None = None
    body: Any = None
    returns: Any = None
    status: int = 200
    tag: str = ""


ROUTES: list[Route] = []


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
        ROUTES.append(Route(method, path, handler, summary, query, body, returns, status, tag))
        return handler

    return add


async def answer(found: Route, canvas: CanvasState, request: web.Request, visitor: Visitor) -> web.StreamResponse:
    """Parses a request into its shapes, calls the handler, and writes the response."""
    query = _query(request, found.query) if found.query is not None else None
    body = await _body(request, found.body) if found.body not in (None, BYTES) else None
    given = await found.handler(Call(canvas, request, visitor, query, body))
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
