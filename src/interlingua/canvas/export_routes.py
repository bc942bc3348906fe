"""Routes that write files: first what was found, then the file; and the frame for notebooks."""

import asyncio
import re
from typing import Any
from urllib.parse import quote

from aiohttp import web

from ..dialects import DIALECTS
from ..serving.problems import HttpProblem
from .export import Choice, check_format, finds_of, losses_of, material_of, redacted, write
from .routing import Call, route
from .shapes import ExportLosses, ExportRequest, Scan, ScanRequest

FRAME_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline';"
    " img-src data: blob:; media-src data: blob:; form-action 'none'; base-uri 'none'; frame-ancestors *"
)


def _choice(asked: ScanRequest | ExportRequest) -> Choice:
    check_format(asked.format)
    return Choice(format=asked.format, to=asked.to, all=asked.all, thinking=asked.thinking, media=asked.media)


@route("POST", "/api/sessions/{key}/export/scan", body=ScanRequest, returns=Scan)
async def scan(call: Call) -> Scan:
    """List what looks private in a file, before it is written."""
    hub = await call.canvas.hub(call["key"])

    def scanned() -> Scan:
        choice, view = _choice(call.body), call.canvas.describe(hub.place)
        material = material_of(hub.tree, view, choice)
        return Scan(finds=tuple(finds_of(material, call.body.patterns)), bytes=len(write(material, view, choice).data))

    return await asyncio.to_thread(scanned)


@route("POST", "/api/sessions/{key}/export", body=ExportRequest)
async def export(call: Call) -> web.Response:
    """Write a session as a file, with the chosen finds replaced."""
    hub, asked = await call.canvas.hub(call["key"]), call.body

    def written() -> tuple[Any, str]:
        choice, view = _choice(asked), call.canvas.describe(hub.place)
        material = material_of(hub.tree, view, choice)
        if asked.redact:
            material = redacted(material, asked.redact, asked.patterns, asked.replace)
        return write(material, view, choice), material.title

    file, title = await asyncio.to_thread(written)
    name = f"{_plain_name(title)}.{file.ending}"
    ascii_name = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    return web.Response(
        body=file.data,
        content_type=file.mime_type,
        charset="utf-8",
        headers={
            "Content-Disposition": f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(name, safe='')}",
            "X-Losses": str(sum(loss.severity != "record" for loss in file.losses)),
        },
    )


def _plain_name(title: str) -> str:
    """A title as a file's name."""
    return re.sub(r"[^\w.-]+", "-", title)[:80].strip("-.") or "conversation"


@route("POST", "/api/sessions/{key}/export/losses", body=ScanRequest, returns=ExportLosses)
async def losses(call: Call) -> ExportLosses:
    """What a dialect could not say of a session."""
    hub = await call.canvas.hub(call["key"])

    def lost() -> ExportLosses:
        choice, view = _choice(call.body), call.canvas.describe(hub.place)
        if choice.format not in DIALECTS:
            return ExportLosses(losses=())
        return ExportLosses(losses=losses_of(material_of(hub.tree, view, choice), choice.format))

    return await asyncio.to_thread(lost)


async def frame(canvas: Any, request: web.Request) -> web.Response:
    """A session for a notebook: the page of an export, in a sandbox of its own.

    The key in the address lets one in to this session alone, to read. A sandboxed frame has an origin of its own, so it
    could use neither a cookie nor the API; all that it shows is in the page.
    """
    key = request.match_info["key"]
    visitor = canvas.access.by_cookie(request.query.get("k", ""))
    if visitor is None or visitor.only != key:
        raise HttpProblem(401, "this frame's key is wrong or too old", remedy="run the cell again")
    hub = await canvas.hub(key)

    def page() -> bytes:
        choice, view = Choice(format="html", all=True), canvas.describe(hub.place)
        return write(material_of(hub.tree, view, choice), view, choice).data

    return web.Response(
        body=await asyncio.to_thread(page),
        content_type="text/html",
        charset="utf-8",
        headers={"Content-Security-Policy": FRAME_POLICY, "Cross-Origin-Resource-Policy": "cross-origin"},
    )
