"""Whatever happens to a session, to the server and to the line, every viewer ends with the server's tree.

Names with a number are the cases of the list of hard cases, or the bugs of the published server.
"""

import asyncio
import contextlib
import gc
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import interlingua as il
from canvas.driving import browsing, canvas_at
from canvas.test_live import Viewer
from interlingua.canvas import open_sessions, trees
from interlingua.canvas.client import CanvasClient
from interlingua.canvas.library import Library
from interlingua.canvas.server import Canvas
from interlingua.serving.sse import EventChannel
from interlingua.sessions import Session, SessionBusy, SessionError

KEY = "own~main~s"


class Follower:
    """A page as it should be: it takes what comes, reconnects where it was, and forgets all when told to reload."""

    def __init__(self, place: "Place") -> None:
        self._place = place
        self.rows: dict[str, Any] = {}
        self.head: str | None = None
        self.branches: list[Any] = []
        self.last: str | None = None
        self.changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def connect(self) -> None:
        if self._task is None:
            self._task = asyncio.ensure_future(self._follow())

    async def disconnect(self) -> None:
        """The line is cut: what was not read is not seen."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            with contextlib.suppress(aiohttp.ClientError, ConnectionError):
                await self._connected()
            await asyncio.sleep(0.01)

    async def _connected(self) -> None:
        headers = self._place.headers | ({"Last-Event-ID": self.last} if self.last is not None else {})
        address = f"{self._place.base}/events"
        async with self._place.http.get(address, headers=headers, raise_for_status=True) as response:
            fields: dict[str, str] = {}
            async for raw in response.content:
                line = raw.decode().rstrip("\n")
                if line:
                    name, _, value = line.partition(":")
                    fields[name] = value
                elif fields:
                    # Only what was taken in counts as seen: the rows of a snapshot are still to be read.
                    await self._take(fields["event"], json.loads(fields["data"]))
                    self.last = None if fields["event"] == "reload" else fields.get("id", self.last)
                    fields = {}

    async def _take(self, event: str, data: Any) -> None:
        match event:
            case "snapshot":
                self.rows, since = {}, 0
                self.head, self.branches = data.get("head"), data["branches"]
                while since is not None and since < data["total"]:
                    page = await self._place.get(f"/tree?since={since}&limit=3")
                    self.rows |= {row["id"]: row for row in page["rows"]}
                    since = page.get("next")
            case "rows":
                self.rows |= {row["id"]: row for row in data["rows"]}
                self.head = data.get("head")
            case "head":
                self.head, self.branches = data.get("head"), data["branches"]
            case "reload":
                self.rows = {}
        self.changed.set()

    async def agrees(self) -> None:
        """Waits until this page shows what the server has."""
        async with asyncio.timeout(20):
            while True:
                self.changed.clear()
                tree = await self._place.tree()
                if (self.rows, self.head, self.branches) == tree:
                    return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await self.changed.wait()


class Place:
    """A server that may die and come back elsewhere, and where to ask it."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.canvas: Canvas | None = None
        self.http = aiohttp.ClientSession()

    async def start(self) -> None:
        self.canvas = Canvas(Library(self._home), port=0)
        await self.canvas.start()

    async def stop(self) -> None:
        if self.canvas is not None:
            await self.canvas.stop()

    async def crash(self) -> None:
        """Nobody is told: every connection is cut at once, then another server begins."""
        assert self.canvas is not None
        runner: Any = self.canvas._listener._runner
        for connection in list(runner.server.connections):
            if connection.transport is not None:
                connection.transport.abort()
        old = self.canvas
        await self.start()
        await old.stop()

    @property
    def base(self) -> str:
        assert self.canvas is not None
        return f"{self.canvas.address}/api/sessions/{KEY}"

    @property
    def headers(self) -> dict[str, str]:
        assert self.canvas is not None
        return {"Authorization": f"Bearer {self.canvas.access.local_key}"}

    async def get(self, path: str) -> Any:
        async with self.http.get(self.base + path, headers=self.headers, raise_for_status=True) as response:
            return await response.json()

    async def tree(self) -> Any:
        found = await self.get("/tree?limit=10000")
        return {row["id"]: row for row in found["rows"]}, found.get("head"), found["branches"]


@contextlib.asynccontextmanager
async def placed(home: Path) -> AsyncIterator[Place]:
    place = Place(home)
    await place.start()
    try:
        yield place
    finally:
        await place.stop()
        await place.http.close()


some = st.integers(0, 50)
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), some),
        st.tuples(st.just("append_at"), some),
        st.tuples(st.just("merge"), some, some),
        st.tuples(st.just("revise"), some),
        st.tuples(st.just("note"), some, st.sampled_from([-1, 0, 1, None])),
        st.tuples(st.just("label"), some),
        st.tuples(st.just("branch"), st.sampled_from("abc"), some),
        st.tuples(st.just("delete_branch"), st.sampled_from("abc")),
        st.tuples(st.just("rewind"), some),
        st.tuples(st.just("cut"), st.integers(0, 1)),
        st.tuples(st.just("connect"), st.integers(0, 1)),
        st.tuples(st.just("agree"), st.integers(0, 1)),
        st.tuples(st.just("restart")),
        st.tuples(st.just("crash")),
    ),
    max_size=30,
)


@given(ACTS, st.sampled_from([4096, 3]))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_row_of_acts_leaves_every_viewer_with_the_servers_tree(
    tmp_path_factory: pytest.TempPathFactory, acts: list[Any], kept: int
) -> None:
    """Commits, revisions, merges, marks, branch moves; cut lines, servers that stop or crash; viewers that missed more
    than is kept."""
    asyncio.run(_converges(acts, kept, tmp_path_factory.mktemp("converging")))
    gc.collect()  # a connection that was left open fails here


async def _converges(acts: list[Any], kept: int, home: Path) -> None:
    with Session.open("s", home=home) as session:
        session.append(il.UserMessage(content="first"), id="e0")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(open_sessions, "EventChannel", lambda epoch: EventChannel(epoch, max_events=kept))
            async with placed(home) as place:
                viewers = [Follower(place), Follower(place)]
                viewers[0].connect()
                try:
                    for act in acts:
                        await _do(session, place, viewers, *act)
                    for viewer in viewers:
                        viewer.connect()
                        await viewer.agrees()
                finally:
                    for viewer in viewers:
                        await viewer.disconnect()
                rows, head, _ = await place.tree()
                assert [entry.id for entry in session.entries()] == list(rows)
                assert head == session.head


async def _do(session: Session, place: Place, viewers: list[Follower], act: str, *rest: Any) -> None:
    ids = [entry.id for entry in session.entries() if entry.id is not None]
    fresh = f"e{len(ids)}"
    message = il.UserMessage(content=f"message {len(ids)}")
    match act:
        case "append":
            session.append(message, id=fresh)
        case "append_at":
            session.append(message, id=fresh, parent_id=ids[rest[0] % len(ids)])
        case "merge":
            a, b = ids[rest[0] % len(ids)], ids[rest[1] % len(ids)]
            session.append(message, id=fresh, parent_id=a, parents=[b] if a != b else [])
        case "revise":
            session.revise(ids[rest[0] % len(ids)], il.UserMessage(content=f"revised {rest[0]}"))
        case "note":
            session.note(ids[rest[0] % len(ids)], "a note", rating=rest[1])
        case "label":
            session.label(ids[rest[0] % len(ids)], f"label {rest[0]}" if rest[0] % 2 else None)
        case "branch":
            session.set_branch(rest[0], ids[rest[1] % len(ids)])
        case "delete_branch":
            with contextlib.suppress(SessionError):
                session.delete_branch(rest[0])
        case "rewind":
            session.rewind(ids[rest[0] % len(ids)])
        case "cut":
            await viewers[rest[0]].disconnect()
        case "connect":
            viewers[rest[0]].connect()
        case "agree":
            viewers[rest[0]].connect()
            await viewers[rest[0]].agrees()
        case "restart":
            await place.stop()
            await place.start()
        case "crash":
            await place.crash()


def test_b2_branches_and_heads_are_there_for_another_process(tmp_path: Path) -> None:
    """A second client continues a branch where the first left it, after a restart of the server too."""

    async def served() -> None:
        async with canvas_at(tmp_path):
            await asyncio.to_thread(first)
        async with canvas_at(tmp_path):
            await asyncio.to_thread(second)

    made: dict[str, str] = {}

    def first() -> None:
        with CanvasClient(home=tmp_path) as client:
            canvas = client.create_canvas("kept")
            main = canvas.checkout("main")
            main.commit_message({"role": "user", "content": "1"})
            side = main.checkout("side", "another way", create_if_not_exists=True)
            made["side"] = side.commit_message({"role": "user", "content": "2"})["id"]
            made["canvas"] = canvas.canvas_id
            assert client.flush()

    def second() -> None:
        with CanvasClient(home=tmp_path) as client:
            canvas = client.get_canvas(made["canvas"])
            assert canvas is not None
            side = canvas.checkout("side")
            assert (side.head_node_id, side.description) == (made["side"], "another way")
            assert side.commit_message({"role": "user", "content": "3"})["parent_id"] == made["side"]
            assert client.flush()

    asyncio.run(served())


async def test_case_114_a_large_log_that_is_read_blocks_no_other_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one session is being opened, and its rows are made, the rest of the server answers."""
    for id in ("large", "small"):
        with Session.open(id, home=tmp_path) as session:
            session.append(il.UserMessage(content="Hello"), id="q")
    reading, go_on = threading.Event(), threading.Event()
    rows = trees.Tree.rows

    def slowly(self: Any, *args: Any) -> Any:
        if self.place.id == "large":
            reading.set()
            assert go_on.wait(20)
        return rows(self, *args)

    monkeypatch.setattr(trees.Tree, "rows", slowly)
    async with browsing(tmp_path) as (_, browser):
        waiting = asyncio.ensure_future(browser.get("/api/sessions/own~main~large/tree"))
        await asyncio.to_thread(reading.wait, 20)
        assert (await browser.get("/api/sessions/own~main~small/tree"))["total"] == 2
        assert not waiting.done()
        go_on.set()
        assert (await waiting)["total"] == 2


async def test_case_114_views_that_nobody_waits_for_block_no_other_request(tmp_path: Path) -> None:
    """A reader who steps through a large session drops one request after another; other sessions answer meanwhile."""
    for name in ("large", "small"):
        with Session.open(name, home=tmp_path) as session:
            session.append(il.UserMessage(content="Hello"), id="q")
    async with browsing(tmp_path) as (canvas, browser):
        hub = await canvas.hub("own~main~large")
        url = f"{canvas.address}/api/sessions/own~main~large/{{}}?to=q"
        released = threading.Event()
        held = threading.Event()

        def hold() -> None:  # whoever reads this session waits, as for a large one
            with hub.tree.session._lock:
                held.set()
                released.wait(60)

        holder = threading.Thread(target=hold)
        holder.start()
        held.wait(60)
        try:
            # More than the threads that asyncio has.
            asked = [asyncio.ensure_future(browser.http.get(url.format(view))) for view in ("context", "stats") * 40]
            await asyncio.sleep(0.3)
            async with asyncio.timeout(30):
                assert 1 == len((await browser.get("/api/sessions/own~main~small/tree"))["rows"])
            for one in asked:
                one.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        finally:
            released.set()
            holder.join()
        assert "total" in await browser.get("/api/sessions/own~main~large/context?to=q")


async def test_case_115_a_streamed_answer_updates_its_own_node_alone(tmp_path: Path) -> None:
    """Deltas are joined per frame and name one node; no row that is there is sent again, and bytes are linear."""
    with Session.open("s", home=tmp_path) as session:
        for number in range(50):
            session.append(il.UserMessage(content=f"earlier {number}"), id=f"e{number}")
    async with browsing(tmp_path) as (_, browser):
        async with Viewer(browser, KEY).watching() as viewer:
            text = "word " * 2000
            started = await browser.post(f"/api/sessions/{KEY}/runs", {"text": text, "models": ["debug/echo"]}, 202)
            run = started["runs"][0]["id"]
            await viewer.until(lambda: viewer.runs.get(run, {}).get("state") == "done")
        deltas = [event for event in viewer.seen if event.type == "delta"]
        assert len({event.data["node"] for event in deltas}) == 1
        sent = [row["id"] for event in viewer.seen if event.type == "rows" for row in event.data["rows"]]
        assert not {f"e{number}" for number in range(50)} & set(sent)
        assert sum(len(json.dumps(event.data)) for event in viewer.seen) < 3 * len(text) + 20_000


async def test_case_113_a_session_that_another_process_writes_goes_on_in_a_linked_fork(tmp_path: Path) -> None:
    """The other writer keeps it; the answer appears in the same tree all the same."""
    with Session.open("s", home=tmp_path) as session:
        session.append(il.UserMessage(content="Hello"), id="q")
        session.append(il.AssistantMessage(content="Hi"), id="a")
        with pytest.raises(SessionBusy):
            Session.open("s", home=tmp_path)
        async with browsing(tmp_path) as (_, browser), Viewer(browser, KEY).watching() as viewer:
            started = await browser.post(f"/api/sessions/{KEY}/runs", {"text": "More", "models": ["debug/echo"]}, 202)
            assert started["linked"] is True
            await viewer.until(lambda: sum(row["role"] == "assistant" for row in viewer.rows.values()) == 2)
        assert len(list(session.entries())) == 2
