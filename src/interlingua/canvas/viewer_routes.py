"""Routes for whoever looks: getting in, events, blobs, and what the page keeps for itself."""

import asyncio
import re
from typing import Any

import msgspec
from aiohttp import web

from ..serving.access import write_private
from ..serving.problems import HttpProblem
from ..serving.sse import serve_events
from ..values import jsontext
from .routing import JSON_LIMIT, Call, Route, read_limited, route
from .shapes import Me, Shape, encode
from .state import MAX_STREAMS

OPEN = frozenset({"/api/login"})  # what needs no login
VIEW_LIMIT = 256 << 10
_SHA256 = re.compile(r"[0-9a-f]{64}")
# Types that a browser draws without running anything in them. Others, SVG above all, are given a sandbox of their own.
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
async def me(call: Call) -> Me:
    """Who is asking, and what this server can do."""
    return call.canvas.me(call.visitor)


@route("POST", "/api/login", body=Login, returns=Me)
async def login(call: Call) -> web.Response:
    """Trade a one-time token or a key for a cookie."""
    access, body = call.canvas.access, call.body
    cookie = access.redeem(body.token) if body.token else access.redeem_key(body.key) if body.key else None
    visitor = access.by_cookie(cookie) if cookie else None
    if cookie is None or visitor is None:
        raise HttpProblem(401, "the token or key is wrong or used up", remedy="ask for a new address")
    response = web.Response(body=encode(call.canvas.me(visitor)), content_type="application/json")
    call.canvas.set_cookie(response, cookie)
    return response


@route("POST", "/api/logout", body=Nothing, returns=Nothing)
async def logout(call: Call) -> web.Response:
    """Make the cookie worthless."""
    cookie = call.request.cookies.get(call.canvas.cookie_name)
    if cookie is not None:
        call.canvas.access.revoke(cookie)
    response = web.Response(body=b"{}", content_type="application/json")
    response.del_cookie(call.canvas.cookie_name, path="/", httponly=True, samesite="Strict")
    return response


@route("POST", "/api/links", body=Nothing, returns=Link)
async def links(call: Call) -> Link:
    """Make one more address that works once, for another browser."""
    return Link(address=call.canvas.link())


@route("GET", "/api/events", query=EventsQuery)
async def all_events(call: Call) -> web.StreamResponse:
    """Follow the list of sessions, as server-sent events."""
    canvas = call.canvas

    async def snapshot() -> tuple[int, bytes]:
        return canvas.events.last, encode({"epoch": canvas.epoch, "live": canvas.live_sessions()})

    return await _streamed(call, canvas.events, snapshot)


@route("GET", "/api/sessions/{key}/events", query=EventsQuery)
async def session_events(call: Call) -> web.StreamResponse:
    """Follow one session, as server-sent events."""
    hub = await call.canvas.hub(call["key"])
    return await _streamed(call, hub.channel, hub.snapshot)


async def _streamed(call: Call, channel: Any, snapshot: Any) -> web.StreamResponse:
    canvas = call.canvas
    if canvas.streams >= MAX_STREAMS:
        raise HttpProblem(429, f"{MAX_STREAMS} viewers are connected", remedy="close a tab and reload")
    canvas.streams += 1
    try:
        return await serve_events(call.request, channel, snapshot)
    finally:
        canvas.streams -= 1


async def blob(call: Call) -> web.Response:
    """The data of a block, by its hash."""
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
    """All of it, or the part that a player asks for."""
    try:
        asked = request.http_range
    except ValueError:
        return web.Response(status=416, headers={"Content-Range": f"bytes */{len(data)}"})
    headers["Accept-Ranges"] = "bytes"
    start, stop, _ = slice(asked.start, asked.stop).indices(len(data))
    if (asked.start, asked.stop) == (None, None):
        return web.Response(body=data, content_type=kind, headers=headers)
    if start >= stop:
        return web.Response(status=416, headers={"Content-Range": f"bytes */{len(data)}"})
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
    return web.Response(status=206, body=data[start:stop], content_type=kind, headers=headers)


BLOB = Route("GET", "/blobs/{sha256}", blob, "The data of a block, by its hash.", BlobQuery)


# --- what the page keeps for itself ----------------------------------------------------------------------------------


@route("GET", "/api/sessions/{key}/view", returns=dict[str, Any])
async def view(call: Call) -> web.Response:
    """What the page keeps of a session: positions, folds."""
    path = _view_path(call)
    data = path.read_bytes() if path.is_file() else b"{}"
    return web.Response(body=data, content_type="application/json")


@route("PUT", "/api/sessions/{key}/view", body=dict[str, Any], returns=Nothing)
async def keep_view(call: Call) -> Nothing:
    """Keep what the page knows of a session."""
    data = jsontext.write(call.body)
    if len(data) > VIEW_LIMIT:
        raise HttpProblem(413, f"more than {VIEW_LIMIT:,} bytes", path="$", limit=VIEW_LIMIT, remedy="keep less")
    await asyncio.to_thread(write_private, _view_path(call), data)
    return Nothing()


def _view_path(call: Call) -> Any:
    import hashlib

    place = call.canvas.library.place(call["key"])
    name = hashlib.blake2b(place.key.encode(), digest_size=16).hexdigest()
    return call.canvas.library.folder / "views" / f"{name}.json"


__all__ = ["BLOB", "JSON_LIMIT", "OPEN", "read_limited"]
