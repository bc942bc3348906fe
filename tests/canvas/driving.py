"""A canvas on a port of this machine, and a browser's half of the conversation with it."""

import contextlib
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any, Self

import aiohttp
import jsonschema_rs

from interlingua.canvas.library import Library
from interlingua.canvas.openapi import document
from interlingua.canvas.server import Canvas
from interlingua.values import jsontext


@cache
def _published() -> dict[str, Any]:
    return document()


@cache
def _validator(method: str, route: str, status: str) -> Any:
    answers = _published()["paths"][route][method.lower()]["responses"]
    content = answers.get(status, answers["default"])["content"]
    if "application/json" not in content:
        return None
    schema = {**content["application/json"]["schema"], "components": _published()["components"]}
    return jsonschema_rs.validator_for(schema)


def check_shape(method: str, path: str, status: int, body: Any) -> None:
    """Every answer in every test is what the published document says."""
    parts = path.partition("?")[0].split("/")
    for route in _published()["paths"]:
        pattern = route.split("/")
        fits = len(pattern) == len(parts) and all(
            p == g or p.startswith("{") for p, g in zip(pattern, parts, strict=True)
        )
        if fits and method.lower() in _published()["paths"][route]:
            validator = _validator(method, route, str(status))
            if validator is not None:
                validator.validate(body)
                return


class Event:
    """A server-sent event."""

    def __init__(self, id: str | None, type: str, data: Any) -> None:
        self.id = id
        self.type = type
        self.data = data

    def __repr__(self) -> str:
        return f"Event({self.id}, {self.type}, {str(self.data)[:200]})"


class Browser:
    """Asks as the page does: with the cookie, the CSRF header, and an Origin on what changes something."""

    def __init__(self, address: str) -> None:
        self.base = address.partition("/?")[0]
        self._address = address
        self.http = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))
        self.csrf = ""

    async def __aenter__(self) -> Self:
        async with self.http.get(self._address) as response:
            assert response.status == 200, await response.text()
        self.csrf = (await self.get("/api/me"))["csrf"]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.close()

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and JSON of an answer."""
        sent = {"Origin": self.base, "X-Canvas-CSRF": self.csrf} if method != "GET" else {}
        data = None
        if body is not None or method != "GET":
            data = body if isinstance(body, bytes) else jsontext.write(body if body is not None else {})
            sent["Content-Type"] = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        async with self.http.request(method, self.base + path, data=data, headers={**sent, **headers}) as response:
            raw = await response.read()
            if response.content_type != "application/json" or not raw:
                return response.status, raw
            found = jsontext.read(raw)
            check_shape(method, path, response.status, found)
            return response.status, found

    async def get(self, path: str, status: int = 200) -> Any:
        found, body = await self.ask("GET", path)
        assert found == status, (found, body)
        return body

    async def post(self, path: str, body: Any = None, status: int = 200, method: str = "POST") -> Any:
        found, given = await self.ask(method, path, body)
        assert found == status, (found, given)
        return given

    async def events(self, path: str, since: str | None = None) -> AsyncIterator[Event]:
        """The events of a stream, heartbeats left out."""
        headers = {"Last-Event-ID": since} if since is not None else {}
        async with self.http.get(self.base + path, headers=headers) as response:
            assert response.status == 200, await response.text()
            fields: dict[str, str] = {}
            async for raw in response.content:
                line = raw.decode().rstrip("\n")
                if line:
                    name, _, value = line.partition(":")
                    fields[name] = value
                    continue
                if fields.get("event") != "heartbeat":
                    yield Event(fields.get("id"), fields["event"], jsontext.read(fields["data"]))
                fields = {}


@contextlib.asynccontextmanager
async def canvas_at(home: Path, **how: Any) -> AsyncIterator[Canvas]:
    canvas = Canvas(Library(home), port=0, **how)
    async with canvas:
        yield canvas


@contextlib.asynccontextmanager
async def browsing(home: Path, **how: Any) -> AsyncIterator[tuple[Canvas, Browser]]:
    """A canvas and a browser that is logged in."""
    async with canvas_at(home, **how) as canvas, Browser(canvas.link()) as browser:
        yield canvas, browser
