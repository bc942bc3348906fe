"""What other web pages, guessers and path tricks try on the canvas: refused, and nothing of the user's is shown."""

import asyncio
import base64
import io
import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

import interlingua as il
from canvas.driving import Browser, browsing, canvas_at
from interlingua.canvas.library import Library
from interlingua.canvas.server import Canvas
from interlingua.serving.access import MAX_GUESSES, Access, KeyRing
from interlingua.sessions import Session
from interlingua.values.errors import InterlinguaError


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with Session.open("s", home=tmp_path) as session:
        session.append(il.UserMessage(content="secret words"), id="q")
    return tmp_path


async def test_nothing_is_shown_without_a_login(home: Path) -> None:
    """Every route of the API and every blob; the page itself holds nothing."""
    from interlingua.canvas.routing import ROUTES

    async with canvas_at(home) as canvas, aiohttp.ClientSession() as http:
        for route in ROUTES:
            if route.path == "/api/login":
                continue
            path = route.path.replace("{key}", "own~main~s").replace("{id}", "q")
            path = path.replace("{name}", "x").replace("{note}", "x").replace("{run}", "x")
            async with http.request(route.method, canvas.address + path) as response:
                assert response.status in (401, 403), (route.method, path, response.status)
                assert b"secret" not in await response.read()
        async with http.get(f"{canvas.address}/blobs/{'0' * 64}?in=own~main~s/q") as response:
            assert 401 == response.status
        async with http.get(f"{canvas.address}/api/anything/else") as response:
            assert 401 == response.status
        async with http.get(canvas.address) as response:
            assert 200 == response.status and b"secret" not in await response.read()


async def test_a_token_works_once(home: Path) -> None:
    """The second who has it is not let in; a browser that only prefetches does not use it up."""
    async with canvas_at(home) as canvas, aiohttp.ClientSession() as http:
        link = canvas.link()
        async with http.get(link, headers={"Sec-Purpose": "prefetch"}, allow_redirects=False) as response:
            assert 403 == response.status
        async with http.get(link, allow_redirects=False) as response:
            cookie = response.headers["Set-Cookie"]
            assert (303, "/") == (response.status, response.headers["Location"])
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Path=/" in cookie
        async with http.get(link, allow_redirects=False) as response:
            assert "Set-Cookie" not in response.headers and response.headers["Location"] == "/?login=failed"


@pytest.mark.parametrize("target", ["//evil.example/", "/\\evil.example", "/s/own~main~s/canvas?at=q"])
async def test_a_token_never_leads_to_another_site(home: Path, target: str) -> None:
    """The redirect stays on this server."""
    async with canvas_at(home) as canvas, aiohttp.ClientSession() as http:
        token = canvas.access.new_token()
        sign = "&" if "?" in target else "?"
        url = f"{canvas.address}{target}{sign}token={token}"
        async with http.get(url, allow_redirects=False) as response:
            where = response.headers.get("Location", "/")
            assert where.startswith("/") and not where.startswith(("//", "/\\"))


async def test_guessing_is_slowed_down(home: Path) -> None:
    """After some wrong tokens all are refused for a while, with how long."""
    async with canvas_at(home) as canvas, aiohttp.ClientSession() as http:
        for _ in range(MAX_GUESSES):
            async with http.get(f"{canvas.address}/?token=guess", allow_redirects=False) as response:
                assert 303 == response.status
        async with http.get(f"{canvas.address}/?token=guess", allow_redirects=False) as response:
            assert 429 == response.status and int(response.headers["Retry-After"]) <= 61


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1.evil.example:{port}",
        "localhost:1",
        "",
        "localhost:" + "1" * 5000,
    ],
    ids=lambda host: host[:40],
)
async def test_dns_rebinding_is_refused(home: Path, host: str) -> None:
    """A page whose name was bound to this machine still sends its own name."""
    async with browsing(home) as (canvas, browser):
        status, body = await browser.ask("GET", "/api/sessions", Host=host.replace("{port}", str(canvas.port)))
        assert status in (400, 403)
        assert b"secret" not in (body if isinstance(body, bytes) else json.dumps(body).encode())
        async with browser.http.get(canvas.address, headers={"Host": host.replace("{port}", "1")}) as response:
            assert response.status in (400, 403)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:5173"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    ],
)
async def test_another_origin_is_refused(home: Path, headers: dict[str, str]) -> None:
    """With the cookie too: another port of this machine is another origin."""
    async with browsing(home) as (_, browser):
        for path in ("/api/sessions", "/api/sessions/own~main~s/events", f"/blobs/{'0' * 64}?in=own~main~s/q"):
            status, _ = await browser.ask("GET", path, **headers)
            assert 403 == status, path
        status, _ = await browser.ask("PUT", "/api/sessions/own~main~s/view", {"a": 1}, **headers)
        assert 403 == status
        assert {} == await browser.get("/api/sessions/own~main~s/view")


async def test_a_link_elsewhere_may_open_the_page(home: Path) -> None:
    """But never what is behind it."""
    async with browsing(home) as (_, browser):
        marks = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        assert 200 == (await browser.ask("GET", "/s/own~main~s/canvas", **marks))[0]
        assert 403 == (await browser.ask("GET", "/api/me", **marks))[0]


async def test_what_changes_something_needs_the_csrf_header(home: Path) -> None:
    """A form can send neither the header nor JSON."""
    async with browsing(home) as (_, browser):
        path, right = "/api/sessions/own~main~s/view", browser.csrf
        for wrong in ("", "wrong", right[:-1], right + "x", right.swapcase()):
            status, body = await browser.ask("PUT", path, {"a": 1}, **{"X-Canvas-CSRF": wrong})
            assert (403, "bad_csrf") == (status, body["detail"]["error"])
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            status, body = await browser.ask("PUT", path, {"a": 1}, **{"Content-Type": kind})
            assert (415, "unsupported_type") == (status, body["detail"]["error"])
        assert {} == await browser.get(path)


async def test_a_cookie_cannot_be_forged_or_used_after_logging_out(home: Path) -> None:
    """Signed, so that no bit of it can be changed; revoked, over a restart too."""
    async with browsing(home) as (canvas, browser):
        (cookie,) = [c.value for c in browser.http.cookie_jar if c.key == canvas.cookie_name]
        assert canvas.access.by_cookie(cookie) is not None
        payload, _, signature = cookie.partition(".")
        for forged in (
            "",
            ".",
            payload,
            f"{payload}.",
            f"{payload}A.{signature}",
            f"{payload}.{signature[:-2]}AA",
            "é.é",
        ):
            assert canvas.access.by_cookie(forged) is None
        await browser.post("/api/logout")
        assert canvas.access.by_cookie(cookie) is None
    assert Access(Library(home).folder).by_cookie(cookie) is None


async def test_viewers_stay_logged_in_when_the_server_restarts(home: Path) -> None:
    """The secret is kept where only this user can read it."""
    async with browsing(home) as (canvas, browser):
        (cookie,) = [c.value for c in browser.http.cookie_jar if c.key == canvas.cookie_name]
    async with canvas_at(home) as canvas:
        assert canvas.access.by_cookie(cookie) is not None
    assert 0o600 == (Library(home).folder / "secret").stat().st_mode & 0o777
    assert Access(home / "elsewhere").by_cookie(cookie) is None


async def test_every_answer_has_the_defensive_headers(home: Path) -> None:
    """No inline script, no frame around it, no sniffing, nothing remote; errors included."""
    async with browsing(home) as (canvas, browser):
        for path in ("/", "/api/me", "/api/nothing", "/assets/nothing.js", "/api/sessions/own~main~s/tree"):
            async with browser.http.get(canvas.address + path) as response:
                policy = response.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
                assert "unsafe-inline" not in policy and "unsafe-eval" not in policy and "http" not in policy
                assert "nosniff" == response.headers["X-Content-Type-Options"]
                assert "no-referrer" == response.headers["Referrer-Policy"]
                assert "Access-Control-Allow-Origin" not in response.headers
                assert "Server" not in response.headers


@pytest.mark.parametrize(
    ("site", "separated"),
    [("cross-site", True), ("same-site", True), (None, True), ("same-origin", False), ("none", False)],
)
async def test_a_window_that_another_page_opens_is_separated_from_it(
    home: Path, site: str | None, separated: bool
) -> None:
    """A user who opens the page has no such window: then the browser need not start another process for it."""
    marks = {} if site is None else {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
    async with browsing(home) as (canvas, browser), browser.http.get(canvas.address + "/", headers=marks) as response:
        assert separated == (response.headers.get("Cross-Origin-Opener-Policy") == "same-origin")


@pytest.mark.parametrize(
    "path",
    [
        "/../secret",
        "/assets/../../secret",
        "/%2e%2e/secret",
        "/..%2fsecret",
        "/assets/..%5c..%5csecret",
        "//etc/passwd",
        "/%2fetc%2fpasswd",
        "/assets/%00",
        "/link",
    ],
)
async def test_no_path_leads_out_of_the_assets(home: Path, path: str) -> None:
    """Dots, escapes, absolute paths and links."""
    assets = home / "page"
    assets.mkdir()
    (assets / "index.html").write_text("<p>page")
    (home / "secret").write_text("secret words")
    (assets / "link").symlink_to(home / "secret")
    async with canvas_at(home, assets=assets) as canvas:
        reader, writer = await asyncio.open_connection("127.0.0.1", canvas.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{canvas.port}\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        assert b"secret words" not in answer and b"root:" not in answer


@pytest.mark.parametrize(
    "key", ["own~..~..", "own~main~..%2f..%2fx", "own~main~%2e%2e", "own~main~", "own~~x", "x", "own~main~a%00b"]
)
async def test_no_key_leads_out_of_the_store(home: Path, key: str) -> None:
    """A key is only ever a name of a session."""
    async with browsing(home) as (_, browser):
        status, body = await browser.ask("GET", f"/api/sessions/{key}/tree")
        assert status in (404, 409, 422), body


@pytest.mark.parametrize("ending", ["", ".txt", ".jsonl"])
async def test_a_key_or_an_id_is_never_a_path(home: Path, tmp_path: Path, ending: str) -> None:
    """What is there is not read or appended to, and nothing is created: by the page, and by the client's routes."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    secret, fresh = folder / f"secret{ending}", folder / "new" / f"made{ending}"
    secret.write_text('{"role":"user","content":"secret words","id":"q"}\n')
    for path in (secret, fresh, Path(os.path.relpath(secret)), Path("~") / "secret.jsonl"):
        escaped = quote(str(path), safe="")
        async with browsing(home, client_port=0) as (canvas, browser):
            key = f"own~main~{escaped}"
            commit = {"message": {"role": "user", "content": "words"}}
            for method, route, body in (
                ("GET", "/tree", None), ("GET", "/entries?last=9", None), ("GET", "/events", None),
                ("GET", "/stats", None), ("POST", "/entries", commit), ("PUT", "/branches/x", {"head": "q"}),
            ):  # fmt: skip
                status, found = await browser.ask(method, f"/api/sessions/{key}{route}", body)
                assert status >= 400 and "secret words" not in str(found), route
            create = {"operations": [{"op": "create", "canvas": str(path), "title": "x"}]}
            assert "secret words" not in str(await browser.ask("POST", "/api/batch", create))
            assert 404 == (await browser.ask("GET", f"/api/canvases/{escaped}"))[0]
            async with aiohttp.ClientSession() as http:
                assert canvas.client_listener is not None
                base = f"{canvas.client_listener.address}/api/v1/canvas"
                for method, route in (("GET", f"?canvas_id={escaped}"), ("POST", f"/{escaped}/messages")):
                    sent = (
                        json.dumps({"data": {"id": "n", "content": "words", "role": "user"}})
                        if method == "POST"
                        else None
                    )
                    async with http.request(method, base + route, data=sent) as response:
                        assert response.status >= 400 and "secret words" not in await response.text()
    assert '{"role":"user","content":"secret words","id":"q"}\n' == secret.read_text()
    assert [secret] == list(folder.iterdir())


async def test_a_body_that_is_too_large_is_refused_early(home: Path) -> None:
    """Before it is read; with or without a length."""
    async with browsing(home) as (canvas, browser):
        sent = {"X-Canvas-CSRF": browser.csrf, "Content-Type": "application/json", "Origin": browser.base}
        url = f"{canvas.address}/api/sessions/own~main~s/view"
        async with browser.http.put(url, data=io.BytesIO(b"x" * (9 << 20)), headers=sent) as response:
            detail = (await response.json())["detail"]
            assert (413, "too_large", 8 << 20) == (response.status, detail["error"], detail["limit"])

        async def endless() -> Any:
            for _ in range(2000):
                yield b"x" * 65536

        try:
            async with browser.http.put(url, data=endless(), headers=sent) as response:
                assert 413 == response.status
        except aiohttp.ClientConnectionError:
            pass  # the server closed the connection while we were still sending


async def test_nesting_beyond_reason_is_refused(home: Path) -> None:
    """A thousand levels are an error, not a crash."""
    async with browsing(home) as (_, browser):
        deep = b'{"a":' + b"[" * 1000 + b"]" * 1000 + b"}"
        status, body = await browser.ask(
            "PUT", "/api/sessions/own~main~s/view", deep, **{"Content-Type": "application/json"}
        )
        assert (422, "invalid") == (status, body["detail"]["error"])


async def test_media_cannot_run_in_the_origin_of_the_page(home: Path) -> None:
    """A script in SVG is sandboxed; HTML is only ever a download."""
    svg = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
    with Session.open("m", home=home) as session:
        blocks = [
            il.ImageBlock(data=base64.b64encode(svg).decode(), mime_type="image/svg+xml"),
            il.DocumentBlock(data=base64.b64encode(b"<script>alert(1)</script>").decode(), mime_type="text/html"),
            il.DocumentBlock(data=base64.b64encode(b"x").decode(), mime_type="image/png\r\nX-Bad: 1"),
        ]
        session.append(il.UserMessage(content=tuple(blocks)), id="q")
    async with browsing(home) as (canvas, browser):
        content = (await browser.get("/api/sessions/own~main~m/entries/q"))["message"]["content"]
        for block, expected in zip(
            content, ("image/svg+xml", "application/octet-stream", "application/octet-stream"), strict=True
        ):
            async with browser.http.get(canvas.address + block["src"]) as response:
                assert (200, expected) == (response.status, response.content_type)
                assert "sandbox" in response.headers["Content-Security-Policy"]
                assert "X-Bad" not in response.headers
                assert expected == "image/svg+xml" or response.headers["Content-Disposition"] == "attachment"


async def test_it_listens_further_only_with_keys(home: Path) -> None:
    """And then a key reads or writes, as its scope says."""
    with pytest.raises(InterlinguaError, match="keys add"):
        async with Canvas(Library(home), host="0.0.0.0", port=0):
            pass
    ring = KeyRing(Library(home).folder / "keys.json")
    reading, writing = ring.add("r", "read"), ring.add("w", "write")
    assert reading not in (Library(home).folder / "keys.json").read_text()
    async with Canvas(Library(home), host="0.0.0.0", port=0) as canvas, aiohttp.ClientSession() as http:
        url = f"http://127.0.0.1:{canvas.port}/api/sessions/own~main~s"
        for key, reads, writes in ((reading, 200, 403), (writing, 200, 200), ("il-wrong", 401, 401)):
            sent = {"Authorization": f"Bearer {key}"}
            async with http.get(f"{url}/tree", headers=sent) as response:
                assert reads == response.status
            async with http.put(f"{url}/view", json={"a": 1}, headers=sent) as response:
                assert writes == response.status


async def test_a_viewer_who_may_only_read_changes_nothing(home: Path) -> None:
    """A read-only address gives a read-only cookie."""
    async with canvas_at(home) as canvas, Browser(canvas.link(scope="read")) as browser:
        assert "read" == (await browser.get("/api/me"))["scope"]
        status, body = await browser.ask("PUT", "/api/sessions/own~main~s/view", {"a": 1})
        assert (403, "forbidden") == (status, body["detail"]["error"])


async def test_methods_that_are_not_meant_are_refused(home: Path) -> None:
    """With the error shape."""
    async with browsing(home) as (canvas, browser):
        for method in ("DELETE", "PATCH", "OPTIONS", "TRACE"):
            async with browser.http.request(method, f"{canvas.address}/api/me") as response:
                assert response.status in (404, 403, 405)
