"""What viewers see while something happens: numbered events, snapshot then deltas, resumed and never stale."""

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError, web
from aiohttp.test_utils import TestClient, TestServer

import interlingua as il
from canvas.driving import Browser, Event, browsing, canvas_at
from interlingua.canvas import reading_routes
from interlingua.canvas.server import Canvas
from interlingua.serving import sse
from interlingua.serving.guard import guarded
from interlingua.serving.sse import EventChannel, Joiner
from interlingua.sessions import Session

KEY = "own~main~s"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with Session.open("s", home=tmp_path) as session:
        session.append(il.UserMessage(content="Hello"), id="q")
    return tmp_path


class Viewer:
    """A page: it keeps the rows and live nodes that events tell of, and comes back where it was."""

    def __init__(self, browser: Browser, key: str = KEY) -> None:
        self._browser = browser
        self._key = key
        self.rows: dict[str, Any] = {}
        self.live: dict[str, Any] = {}
        self.runs: dict[str, Any] = {}
        self.seen: list[Event] = []
        self.last: str | None = None
        self.head: str | None = None
        self.branches: list[Any] = []
        self.bytes = 0
        self._changed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator["Viewer"]:
        task = asyncio.ensure_future(self._watch())
        try:
            await self.until(lambda: self.seen)
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch(self) -> None:
        path = f"/api/sessions/{self._key}/events"
        async for event in self._browser.events(path, self.last):
            await self.take(event)

    async def take(self, event: Event) -> None:
        self.last = event.id or self.last
        data = event.data
        match event.type:
            case "snapshot":
                self.live = {node["node"]: node for node in data["live"]}
                self.runs = {run["id"]: run for run in data["runs"]}
                self.head, self.branches, since = data.get("head"), data["branches"], 0
                self.rows = {}
                while since is not None and since < data["total"]:
                    page = await self._browser.get(f"/api/sessions/{self._key}/tree?since={since}")
                    self.rows |= {row["id"]: row for row in page["rows"]}
                    since = page.get("next")
            case "rows":
                self.rows |= {row["id"]: row for row in data["rows"]}
                self.head = data.get("head", self.head)
            case "head":
                self.head, self.branches = data.get("head"), data["branches"]
            case "run":
                self.runs[data["id"]] = data
            case "live":
                self.live[data["node"]] = {**data, "content": data.get("content", [])}
            case "block":
                content = self.live[data["node"]]["content"]
                content[data["block"] :] = [data["value"]]
            case "delta":
                for part in data["parts"]:
                    block = self.live[data["node"]]["content"][part["block"]]
                    field = "argumentsText" if block["type"] == "toolCall" else "text"
                    block[field] = block.get(field, "") + part["text"]
            case "settled":
                del self.live[data["node"]]
        self.seen.append(event)
        self._changed.set()

    async def until(self, condition: Any, timeout: float = 20) -> None:
        async with asyncio.timeout(timeout):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def types(self) -> list[str]:
        return [event.type for event in self.seen]


def texts(viewer: Viewer) -> list[str]:
    return [row["text"] for row in viewer.rows.values()]


async def test_a_viewer_sees_what_another_process_appends(home: Path) -> None:
    """Snapshot first, then rows as they come, with the head; revisions and notes change rows that are there."""
    async with browsing(home) as (_, browser), Viewer(browser).watching() as viewer:
        assert ("snapshot", ["Hello"]) == (viewer.seen[0].type, texts(viewer))
        with Session.open("s", home=home) as session:
            session.append(il.AssistantMessage(content="Hi"), id="a")
            await viewer.until(lambda: "a" in viewer.rows)
            session.revise("a", il.AssistantMessage(content="Hi there"))
            await viewer.until(lambda: viewer.rows["a"].get("version") == 1)
            session.note("q", "good", rating=1)
            await viewer.until(lambda: viewer.rows["q"].get("rating") == 1)
            session.set_branch("main", "a")
            await viewer.until(lambda: viewer.branches)
        assert ["Hello", "Hi there"] == texts(viewer)
        assert ("a", "main") == (viewer.head, viewer.branches[0]["name"])


async def test_events_are_numbered_and_resumed_where_the_viewer_was(home: Path) -> None:
    """What was missed comes; nothing comes twice; no second snapshot."""
    async with browsing(home) as (_, browser):
        viewer = Viewer(browser)
        async with viewer.watching():
            with Session.open("s", home=home) as session:
                session.append(il.UserMessage(content="1"), id="1")
                await viewer.until(lambda: "1" in viewer.rows)
        with Session.open("s", home=home) as session:
            session.append(il.UserMessage(content="2"), id="2")
            await asyncio.sleep(0.2)
        viewer.seen.clear()
        async with viewer.watching():
            await viewer.until(lambda: "2" in viewer.rows)
        assert ["resume", "rows"] == viewer.types()
        numbers = [int(event.id.rpartition(".")[2]) for event in viewer.seen if event.id]
        assert numbers == sorted(numbers)


async def test_after_a_restart_a_viewer_begins_anew(home: Path) -> None:
    """A number from before means nothing to the new server: it sends a snapshot."""
    async with browsing(home) as (_, browser):
        viewer = Viewer(browser)
        async with viewer.watching():
            pass
    async with browsing(home) as (_, browser):
        again = Viewer(browser)
        again.last = viewer.last
        async with again.watching():
            assert ["snapshot"] == again.types() and again.rows == viewer.rows


async def test_a_viewer_that_is_too_slow_is_told_to_reload(home: Path) -> None:
    """Its place is no longer kept; it is never left with an old picture."""
    async with browsing(home) as (canvas, browser):
        hub = await canvas.hub(KEY)
        hub.channel._max_events = 5
        viewer = Viewer(browser)
        async with viewer.watching():
            pass
        for at in range(10):
            hub.publish("tool", {"n": at})
        viewer.seen.clear()
        async with viewer.watching():
            assert "snapshot" == viewer.seen[0].type
        behind = hub.channel.last - 9
        assert hub.channel.after(behind) is None


@contextlib.asynccontextmanager
async def sleeping(canvas: Canvas, browser: Browser, last: str = "") -> AsyncIterator[asyncio.StreamReader]:
    """A connected viewer whose socket takes little until it is read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", canvas.port))
    reader, writer = await asyncio.open_connection(sock=connection, limit=4096)
    (cookie,) = [f"{c.key}={c.value}" for c in browser.http.cookie_jar]
    resumed = f"Last-Event-ID: {last}\r\n" if last else ""
    host = f"Host: 127.0.0.1:{canvas.port}\r\nConnection: close\r\nCookie: {cookie}\r\n"
    head = f"GET /api/sessions/{KEY}/events HTTP/1.1\r\n{host}{resumed}\r\n"
    writer.write(head.encode())
    try:
        yield reader
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def everything(reader: asyncio.StreamReader) -> bytes:
    """All that a connection still delivers."""
    pieces = []
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(1 << 16):
            pieces.append(piece)
    return b"".join(pieces)


@pytest.mark.parametrize("stalled", [False, True], ids=["reads later", "never reads"])
async def test_a_connected_viewer_that_does_not_read_is_never_left_stale(
    home: Path, monkeypatch: pytest.MonkeyPatch, stalled: bool
) -> None:
    """It is sent `reload` when it has fallen behind; if it never reads, it is cut off, and begins with a snapshot."""
    monkeypatch.setattr(sse.serve_events, "__kwdefaults__", {"heartbeat": 60.0, "stalled": 0.5 if stalled else 600.0})
    async with browsing(home) as (canvas, browser):
        hub = await canvas.hub(KEY)
        async with sleeping(canvas, browser) as reader:
            await reader.readuntil(b"snapshot")
            pad = "x" * 200_000
            for at in range(200):  # 40 MB: more than the buffers of the system and of the server
                hub.publish("tool", {"n": at, "pad": pad})
                await asyncio.sleep(0)
            while stalled and hub.channel.viewers:
                await asyncio.sleep(0.05)
            seen = await everything(reader)
        assert seen.count(b"event:tool") < 200
        assert stalled or b'event:reload\ndata:{"reason":"slow"}' in seen[-200:]
        ids = re.findall(rb"id:(\S+)\n", seen)
        async with sleeping(canvas, browser, ids[-1].decode() if ids else "") as again:
            assert (await again.readuntil(b"event:")).endswith(b"event:")
            assert b"snapshot" == await again.readexactly(8)


async def test_a_viewer_that_leaves_before_the_response_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    """The log has nothing about it; a connection that another host closed is still a failure."""

    async def leaves(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        await asyncio.sleep(0)
        return await sse.serve_events(request, EventChannel("e"), lambda: asyncio.sleep(0, (0, b"{}")))

    async def fails(request: web.Request) -> web.StreamResponse:
        raise ConnectionResetError("upstream")

    app = web.Application()
    app.router.add_get("/leaves", guarded(leaves))
    app.router.add_get("/fails", guarded(fails))
    async with TestClient(TestServer(app)) as client:
        with pytest.raises(ClientError):
            await client.get("/leaves")
        assert [] == caplog.messages
        assert 500 == (await client.get("/fails")).status
        assert ["GET /fails failed"] == caplog.messages


async def test_one_sleeping_viewer_costs_the_others_nothing(home: Path) -> None:
    """Of fifty, one reads nothing: the others get every event, in order."""
    async with browsing(home) as (canvas, browser):
        hub = await canvas.hub(KEY)
        reader, writer = await asyncio.open_connection("127.0.0.1", canvas.port)
        (cookie,) = [f"{c.key}={c.value}" for c in browser.http.cookie_jar]
        request = (
            f"GET /api/sessions/{KEY}/events HTTP/1.1\r\nHost: 127.0.0.1:{canvas.port}\r\nCookie: {cookie}\r\n\r\n"
        )
        writer.write(request.encode())
        await reader.readuntil(b"snapshot")
        viewers = [Viewer(browser) for _ in range(20)]
        async with contextlib.AsyncExitStack() as stack:
            for viewer in viewers:
                await stack.enter_async_context(viewer.watching())
            for at in range(300):
                hub.publish("tool", {"n": at, "pad": "x" * 2000})
                await asyncio.sleep(0)
            for viewer in viewers:
                await viewer.until(lambda v=viewer: v.types().count("tool") == 300)
                numbers = [event.data["n"] for event in viewer.seen if event.type == "tool"]
                assert list(range(300)) == numbers
        writer.close()


async def test_heartbeats_keep_the_connection_alive(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment for programs, an event for pages, without a number."""
    monkeypatch.setattr(sse, "HEARTBEAT", 0.05)
    monkeypatch.setattr(sse.serve_events, "__kwdefaults__", {"heartbeat": 0.05, "stalled": 5.0})
    async with browsing(home) as (canvas, browser):
        response = await browser.http.get(f"{canvas.address}/api/sessions/{KEY}/events")
        raw = b""
        while raw.count(b"event:heartbeat") < 2:
            raw += await response.content.readany()
        assert b"id:" not in raw.partition(b"event:heartbeat")[2]
        response.close()


async def test_a_stop_is_told_to_viewers(home: Path) -> None:
    """So that the page can say that the connection is lost on purpose."""
    async with canvas_at(home) as canvas, Browser(canvas.link()) as browser:
        viewer = Viewer(browser)
        async with viewer.watching():
            await canvas.stop()
            await viewer.until(lambda: "shutdown" in viewer.types())


async def test_a_log_that_was_replaced_makes_viewers_reload(home: Path) -> None:
    """Clearing up gives entries other numbers."""
    from interlingua.sessions import store_at
    from interlingua.sessions.gc import collect_branches

    with Session.open("s", home=home) as session:
        session.append(il.UserMessage(content="dead end"), id="x", parent_id="q")
        session.append(il.UserMessage(content="way"), id="y", parent_id="q")
    async with browsing(home) as (_, browser):
        viewer = Viewer(browser)
        async with viewer.watching():
            assert {"q", "x", "y"} == set(viewer.rows)
            collect_branches(store_at(None, home), "main", "s")
            await viewer.until(lambda: "reload" in viewer.types())
        fresh = Viewer(browser)
        async with fresh.watching():
            assert {"q", "y"} == set(fresh.rows)


async def test_too_many_viewers_are_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a remedy, before they cost anything."""
    monkeypatch.setattr(reading_routes, "MAX_STREAMS", 1)
    async with browsing(home) as (_, browser), Viewer(browser).watching():
        status, body = await browser.ask("GET", f"/api/sessions/{KEY}/events")
        assert (429, "rate_limited") == (status, body["detail"]["error"])


async def test_the_list_is_followed_too(home: Path) -> None:
    """New sessions appear without asking."""
    async with browsing(home) as (_, browser):
        seen: list[Event] = []

        async def watch() -> None:
            async for event in browser.events("/api/events"):
                seen.append(event)  # noqa: PERF401

        task = asyncio.ensure_future(watch())
        while not seen:
            await asyncio.sleep(0.01)
        made = await browser.post("/api/sessions", {"title": "Plans"}, status=201)
        async with asyncio.timeout(10):
            while not any(event.type == "session" for event in seen):
                await asyncio.sleep(0.01)
        task.cancel()
        assert "Plans" == made["title"]
        assert made["key"] in [event.data.get("key") for event in seen if event.type == "session"]


async def test_pieces_are_joined_per_frame() -> None:
    """However fast they come, a frame is sent at most thirty times a second; order is kept; flush sends at once."""
    frames: list[list[Any]] = []
    joiner = Joiner(frames.append, frame=0.01, slow_frame=0.02)
    for at in range(1000):
        joiner.add((at, "x"))
        if at % 100 == 0:
            await asyncio.sleep(0.003)
    joiner.flush()
    assert list(range(1000)) == [piece[0] for frame in frames for piece in frame]
    assert len(frames) < 20


async def test_a_channel_keeps_the_latest_within_its_bounds() -> None:
    """By number and by size; one event that is too large alone is still delivered."""
    channel = EventChannel("e", max_events=3, max_bytes=1000)
    for at in range(5):
        channel.publish("x", str(at).encode())
    assert (3, 5) == (channel.first, channel.last)
    assert [b"3", b"4"] == [raw.split(b"data:")[1].strip() for raw in channel.after(3) or []]
    channel.publish("x", b"y" * 5000)
    assert (6, 6) == (channel.first, channel.last)
    assert (None, None, None, 6, 5) == tuple(channel.position(id) for id in ("", "e.x", "other.6", "e.6", "e.5"))
    assert channel.position("e.99") is None


@pytest.mark.parametrize("number", ["²", "٣", "9" * 5000, "-1", ""])
def test_a_strange_event_id_begins_with_a_snapshot(number: str) -> None:
    """A client may send any `Last-Event-ID`."""
    channel = EventChannel("e")
    assert channel.position("e.0") == 0
    assert channel.position(f"e.{number}") is None
