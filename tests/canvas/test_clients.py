"""The canvas of programs: the published client's routes, our own clients, and the mistakes that are not repeated.

Names with a B and a number are the bugs of the published server that are listed in its description.
"""

import asyncio
import errno
import json
import socket
import tempfile
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlingua as il
from canvas.driving import browsing, canvas_at
from canvas.test_live import Viewer
from interlingua.canvas.client import AsyncCanvasClient, CanvasClient, LocalCanvas, Outbox
from interlingua.canvas.library import Library
from interlingua.canvas.server import Canvas
from interlingua.sessions import Session, SessionBusy
from interlingua.sessions.files import FileLog

HELLO = {"role": "user", "content": "Hello"}


class Published:
    """Speaks as the published client does, in JSON."""

    def __init__(self, address: str) -> None:
        self._base = f"{address}/api/v1"
        self.http = aiohttp.ClientSession()

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        async with self.http.request(method, self._base + path, json=body, headers=headers) as response:
            return response.status, await response.json()

    async def create(self, title: str = "T") -> str:
        status, made = await self.ask("POST", "/canvas", {"title": title, "description": None})
        assert (200, {"canvas_id", "message"}) == (status, set(made))
        return str(made["canvas_id"])

    async def commit(self, canvas: str, id: str, message: Any, parent: str | None = None, **more: Any) -> int:
        node = {"id": id, "message": message, "child_ids": [], "meta": {"timestamp": 1.5}, **more}
        node |= {"parent_id": parent} if parent is not None else {}
        return (await self.ask("POST", f"/canvas/{canvas}/messages", event("commit_message", canvas, node)))[0]

    async def update(self, canvas: str, id: str, node: Any) -> int:
        return (await self.ask("PUT", f"/canvas/{canvas}/messages/{id}", event("update_message", canvas, node)))[0]

    async def nodes(self, canvas: str) -> dict[str, Any]:
        status, found = await self.ask("GET", f"/canvas?canvas_id={canvas}")
        assert 200 == status
        return dict(found["data"]["nodes"])


def event(kind: str, canvas: str, node: Any) -> Any:
    return {"data": {"event_type": kind, "canvas_id": canvas, "timestamp": 1.0, "data": node}}


@pytest.fixture
async def published(tmp_path: Path) -> AsyncIterator[Published]:
    async with canvas_at(tmp_path, client_port=0) as canvas:
        assert canvas.client_listener is not None
        client = Published(canvas.client_listener.address)
        yield client
        await client.http.close()


async def test_the_routes_answer_as_the_published_server_does(published: Published) -> None:
    """Health, list, create, get, delete; their shapes, and errors with a code."""
    assert (200, {"status": "healthy", "server_type": "local", "timestamp": None}) == await published.ask(
        "GET", "/health"
    )
    assert (200, {"events": []}) == await published.ask("GET", "/sse/documentation")
    id = await published.create("First")
    status, listed = await published.ask("GET", "/canvas/list")
    (summary,) = listed["canvases"]
    assert (id, "First", 0, []) == tuple(summary[key] for key in ("canvas_id", "title", "node_count", "root_ids"))
    status, found = await published.ask("GET", f"/canvas?canvas_id={id}")
    assert {"canvas_id", "title", "description", "created_at", "last_updated", "nodes"} == set(found["data"])
    for method, path, body, code in (
        ("GET", "/canvas?canvas_id=nowhere", None, "canvas_not_found"),
        ("DELETE", "/canvas/nowhere", None, "canvas_not_found"),
        (
            "POST",
            "/canvas/nowhere/messages",
            event("commit_message", "x", {"id": "a", "message": HELLO}),
            "canvas_not_found",
        ),
        (
            "PUT",
            f"/canvas/{id}/messages/nowhere",
            event("update_message", "x", {"message": HELLO}),
            "message_not_found",
        ),
        ("GET", "/canvas/nowhere/sse", None, "canvas_not_found"),
    ):
        status, answer = await published.ask(method, path, body)
        assert (404, code) == (status, answer["detail"]["error"]), path
    status, answer = await published.ask("GET", "/canvas")
    assert 422 == status and {"loc", "msg", "type", "remedy"} <= set(answer["detail"][0])
    assert (200, id) == (lambda found: (found[0], found[1]["canvas_id"]))(
        await published.ask("DELETE", f"/canvas/{id}")
    )
    assert 404 == (await published.ask("DELETE", f"/canvas/{id}"))[0]


async def test_b1_contents_can_be_read_any_number_of_times(published: Published) -> None:
    """Lists in tool results, citations: each reading gives the same."""
    canvas = await published.create()
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "a"}] * 2}
    cited = {"type": "text", "text": "x", "citations": [{"type": "char_location", "cited_text": "y"}]}
    assert 200 == await published.commit(canvas, "n", {"role": "user", "content": [result, cited]})
    first, second = await published.nodes(canvas), await published.nodes(canvas)
    assert first == second and first["n"]["message"]["content"] == [result, cited]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "abc"},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": 1}},
        {"type": "hologram", "depth": [1, {"a": None}]},
        {"type": "image", "source": {"type": "url", "url": "javascript:alert(1)"}},
    ],
    ids=lambda block: block["type"],
)
async def test_every_block_is_kept(published: Published, block: Any) -> None:
    """Thinking, documents, unknown ones: what was sent comes back."""
    canvas = await published.create()
    message = {"role": "assistant", "content": [{"type": "text", "text": "a"}, block]}
    assert 200 == await published.commit(canvas, "n", message)
    assert message == (await published.nodes(canvas))["n"]["message"]


async def test_a_row_of_commits_is_a_tree(published: Published) -> None:
    """Children follow from parents; what the client says of a parent before its child is there changes nothing."""
    canvas = await published.create()
    assert 200 == await published.commit(canvas, "a", {"role": "system", "content": "Be brief"})
    parent = {
        "id": "a",
        "message": {"role": "system", "content": "Be brief"},
        "child_ids": ["b"],
        "meta": {"timestamp": 1.5},
    }
    assert 200 == await published.update(canvas, "a", parent)
    assert 200 == await published.commit(canvas, "b", HELLO, "a", meta={"timestamp": 2.0, "model": "m", "own": [1]})
    nodes = await published.nodes(canvas)
    assert (["b"], "a") == (nodes["a"]["child_ids"], nodes["b"]["parent_id"])
    assert {"timestamp": 2.0, "model": "m", "own": [1]} == nodes["b"]["meta"]


async def test_an_update_replaces_the_message_and_its_meta(published: Published) -> None:
    """Commit early, then update with growing text; id, parent and children stay."""
    canvas = await published.create()
    await published.commit(canvas, "a", HELLO)
    await published.commit(canvas, "b", {"role": "assistant", "content": "H"}, "a")
    for text in ("Hi", "Hi there"):
        node = {
            "id": "b",
            "message": {"role": "assistant", "content": text},
            "parent_id": "a",
            "meta": {"timestamp": 1.5, "t": text},
        }
        assert 200 == await published.update(canvas, "b", node)
    nodes = await published.nodes(canvas)
    assert ("Hi there", "a", "Hi there") == (
        nodes["b"]["message"]["content"],
        nodes["b"]["parent_id"],
        nodes["b"]["meta"]["t"],
    )
    assert 422 == await published.update(canvas, "b", {"id": "other", "message": HELLO})


async def test_a_merge_keeps_all_its_parents(published: Published, tmp_path: Path) -> None:
    """The client tells by naming the merge among the children of its sources."""
    canvas = await published.create()
    await published.commit(canvas, "a", HELLO)
    for id in ("b", "c"):
        await published.commit(canvas, id, HELLO, "a")
    await published.commit(canvas, "m", HELLO, "b")
    assert 200 == await published.update(
        canvas, "c", {"id": "c", "message": HELLO, "parent_id": "a", "child_ids": ["m"], "meta": {"timestamp": 1.5}}
    )
    nodes = await published.nodes(canvas)
    assert ("b", ["m"], ["m"]) == (nodes["m"]["parent_id"], nodes["b"]["child_ids"], nodes["c"]["child_ids"])
    with Session.open(canvas, agent="canvas", home=tmp_path, read_only=True) as session:
        assert ("c",) == session.entry("m").parents


async def test_what_cannot_be_committed_is_refused(published: Published) -> None:
    """An id twice, a parent that is not there, no id, no message; but the same commit again is fine."""
    canvas = await published.create()
    assert 200 == await published.commit(canvas, "a", HELLO)
    assert 200 == await published.commit(canvas, "a", HELLO), "sent again after a lost answer"
    assert 400 == await published.commit(canvas, "a", {"role": "user", "content": "Other"})
    assert 422 == await published.commit(canvas, "b", HELLO, "nowhere")
    for body in ({}, {"data": 1}, {"data": {"data": {"message": HELLO}}}, event("commit_message", canvas, {"id": "x"})):
        assert 422 == (await published.ask("POST", f"/canvas/{canvas}/messages", body))[0], body
    assert ["a"] == list(await published.nodes(canvas))


async def test_a_commit_that_must_wait_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    """Short commits are written at once, but not while another thread has the session."""
    async with canvas_at(tmp_path, client_port=0) as canvas:
        assert canvas.client_listener is not None
        client = Published(canvas.client_listener.address)
        id = await client.create()
        assert 200 == await client.commit(id, "a", HELLO)
        session = canvas.runs.writers.current(canvas.nodes.key(id))
        taken, released = threading.Event(), threading.Event()

        def hold() -> None:
            with session.unless_busy() as is_locked:
                assert is_locked
                taken.set()
                released.wait(30)

        holding = asyncio.ensure_future(asyncio.to_thread(hold))
        await asyncio.to_thread(taken.wait, 30)
        waiting = asyncio.ensure_future(client.commit(id, "b", HELLO, "a"))
        async with asyncio.timeout(10):
            for _ in range(20):
                assert 200 == (await client.ask("GET", "/health"))[0]
        assert not waiting.done()
        released.set()
        await holding
        assert 200 == await waiting
        assert ["b"] == (await client.nodes(id))["a"]["child_ids"]
        await client.http.close()


async def test_b8_last_updated_is_when_something_last_changed(published: Published) -> None:
    """Not now, whenever one asks."""
    canvas = await published.create()
    await published.commit(canvas, "a", HELLO)
    times = [(await published.ask("GET", f"/canvas?canvas_id={canvas}"))[1]["data"]["last_updated"] for _ in range(2)]
    assert times[0] == times[1] <= time.time()


async def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    """The published server forgets; this one keeps, and continues."""
    async with canvas_at(tmp_path, client_port=0) as canvas:
        client = Published(canvas.client_listener.address)  # type: ignore[union-attr]
        id = await client.create()
        await client.commit(id, "a", HELLO)
        await client.http.close()
    async with canvas_at(tmp_path, client_port=0) as canvas:
        client = Published(canvas.client_listener.address)  # type: ignore[union-attr]
        assert 200 == await client.commit(id, "b", HELLO, "a")
        assert ["a", "b"] == list(await client.nodes(id))
        await client.http.close()


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://127.0.0.1"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Mode": "navigate"},
        {"Sec-Ch-Ua": "x"},
        {"Cookie": "a=b"},
        {"Referer": "http://x/"},
        {"Host": "evil.example"},
        {"Host": "localhost:1"},
    ],
    ids=lambda headers: next(iter(headers)),
)
async def test_whatever_a_browser_marks_is_refused(published: Published, headers: dict[str, str]) -> None:
    """This port has no login, so no page may reach it, not even one of this machine."""
    for method, path in (("GET", "/canvas/list"), ("POST", "/canvas"), ("GET", "/health"), ("GET", "/canvas/sse")):
        status, answer = await published.ask(method, path, {} if method == "POST" else None, **headers)
        assert 403 == status and answer["detail"]["error"] in ("bad_origin", "bad_host")


async def test_the_second_port_has_these_routes_alone(tmp_path: Path) -> None:
    """And is not there unless asked for."""
    async with canvas_at(tmp_path) as canvas:
        assert canvas.client_listener is None
    async with canvas_at(tmp_path, client_port=0) as canvas, aiohttp.ClientSession() as http:
        for path in ("/", "/api/sessions", "/api/me", "/api/v1/other", "/assets/x"):
            async with http.get(f"{canvas.client_listener.address}{path}") as response:  # type: ignore[union-attr]
                assert 404 == response.status


async def test_b3_events_are_numbered_and_replayed(published: Published) -> None:
    """After a lost connection nothing is missing."""
    canvas = await published.create()
    url = f"{published._base}/canvas/{canvas}/sse"

    connected = asyncio.Event()

    async def read(count: int, since: str | None = None) -> list[dict[str, str]]:
        headers = {"Last-Event-ID": since} if since else {}
        found: list[dict[str, str]] = []
        async with published.http.get(url, headers=headers) as response:
            fields: dict[str, str] = {}
            async for raw in response.content:
                line = raw.decode().rstrip("\n")
                if line:
                    name, _, value = line.partition(":")
                    fields[name] = value
                elif fields:
                    found.append(fields)
                    fields = {}
                    connected.set()
                if len(found) == count:
                    return found
        return found

    first = asyncio.ensure_future(read(2))
    await connected.wait()
    await published.commit(canvas, "a", HELLO)
    events = await asyncio.wait_for(first, 10)
    assert "message_committed" == events[1]["event"] and "a" == json.loads(events[1]["data"])["data"]["id"]
    connected.clear()
    second = asyncio.ensure_future(read(2, events[1]["id"]))
    await connected.wait()
    await published.update(
        canvas, "a", {"id": "a", "message": {"role": "user", "content": "Hi"}, "meta": {"timestamp": 1.5}}
    )
    events = await asyncio.wait_for(second, 10)
    assert ["resume", "message_updated"] == [event["event"] for event in events]


async def test_commits_of_the_client_appear_on_the_page(tmp_path: Path) -> None:
    """A canvas is a session like any other: seen live, continued, searched."""
    async with browsing(tmp_path, client_port=0) as (canvas, browser):
        client = Published(canvas.client_listener.address)  # type: ignore[union-attr]
        id = await client.create("Shown")
        key = f"own~canvas~{id}"
        viewer = Viewer(browser, key)
        async with viewer.watching():
            await client.commit(id, "a", HELLO)
            await viewer.until(lambda: "a" in viewer.rows)
            (session,) = (await browser.get("/api/sessions?source=client"))["sessions"]
            assert ("Shown", key) == (session["title"], session["key"])
            asked = {"models": ["debug/parrot-1"], "from": "a"}
            await browser.post(f"/api/sessions/{key}/runs", asked, status=202)
            await viewer.until(lambda: len(viewer.rows) == 2)
        await client.http.close()


# --- our own clients -------------------------------------------------------------------------------------------------


class Served:
    """A canvas in a thread of its own, for clients without an event loop."""

    def __init__(self, home: Path, port: int = 0) -> None:
        self._home = home
        self._port = port
        self._ready = threading.Event()
        self._stop: Any = None
        self.address = ""

    def __enter__(self) -> "Served":
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with Canvas(Library(self._home), port=self._port, fallback_port=False) as canvas:
            self.address = canvas.address
            self._ready.set()
            await self._stop.wait()


def test_our_client_has_the_methods_of_the_published_one(tmp_path: Path) -> None:
    """And what it did is there when another reads the canvas, branches included (B2)."""
    with Served(tmp_path) as served, CanvasClient(served.address, home=tmp_path) as client:
        assert client.check_server_health()
        canvas = client.create_canvas("Trip", "Where to?")
        main = canvas.checkout("main")
        first = main.commit_message({"role": "user", "content": "Where to?"}, meta={"tag": 1})
        side = main.checkout("side", create_if_not_exists=True)
        side.commit_message({"role": "assistant", "content": [{"type": "text", "text": "Rome"}]})
        main.commit_message(il.AssistantMessage(content="Oslo", model="m"))
        merge = main.merge_from(["side"], {"role": "user", "content": "Both"})
        main.update_message(first["id"], {"role": "user", "content": "Where to go?"})
        assert client.flush() and [] == client.failures and 1 == len(client)
        read = client.get_canvas(canvas.canvas_id)
        assert read is not None
        assert {info["name"]: info["head_node_id"] for info in canvas.list_branches()} == {
            info["name"]: info["head_node_id"] for info in read.list_branches()
        }
        assert {id: node["child_ids"] for id, node in canvas.nodes.items()} == {
            id: node["child_ids"] for id, node in read.nodes.items()
        }
        assert "Where to go?" == read.nodes[first["id"]]["message"]["content"]
        read.checkout("main").commit_message({"role": "user", "content": "On"})
        assert client.flush()
        again = client.get_canvas(canvas.canvas_id)
        assert again is not None and merge["id"] == list(again.nodes.values())[-1]["parent_id"]
        assert [canvas.canvas_id] == [one["canvas_id"] for one in client.get_canvas_summaries()]
        assert client.remove_canvas(canvas.canvas_id) and client.get_canvas(canvas.canvas_id) is None
        assert not client.remove_canvas("nowhere")


def test_b4_commits_are_kept_while_the_server_is_away(tmp_path: Path) -> None:
    """On disk, so that even the end of the program loses none; sent in order when the server is back."""
    with Served(tmp_path) as served:
        port = int(served.address.rpartition(":")[2])
    client = CanvasClient(f"http://127.0.0.1:{port}", home=tmp_path)
    canvas = client.create_canvas("Away")
    branch = canvas.checkout("main")
    for at in range(50):
        branch.commit_message({"role": "user", "content": str(at)})
    assert not client.flush(0.5) and 52 == client.pending
    client.close(0.1)
    with Served(tmp_path, port), CanvasClient(f"http://127.0.0.1:{port}", home=tmp_path) as again:
        assert again.flush() and 0 == again.pending
        found = again.get_canvas(canvas.canvas_id)
        assert found is not None
        assert [str(at) for at in range(50)] == [node["message"]["content"] for node in found.nodes.values()]


def test_b5_branches_of_many_threads_do_not_move_each_other(tmp_path: Path) -> None:
    """Each thread checks out and commits; every branch is one straight line of its own."""
    with Served(tmp_path) as served, CanvasClient(served.address, home=tmp_path) as client:
        canvas = client.create_canvas()
        root = canvas.checkout("main").commit_message(HELLO)

        def work(name: str) -> None:
            branch = canvas.checkout(name, create_if_not_exists=True, commit_message=root)
            for at in range(20):
                branch.commit_message({"role": "user", "content": f"{name} {at}"})

        threads = [threading.Thread(target=work, args=(f"t{at}",)) for at in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.flush() and [] == client.failures
        found = client.get_canvas(canvas.canvas_id)
        assert found is not None and 161 == len(found.nodes)
        for name in (f"t{at}" for at in range(8)):
            at, line = found.checkout(name).head_node_id, []
            while at is not None and at != root["id"]:
                line.append(found.nodes[at]["message"]["content"])
                at = found.nodes[at]["parent_id"]
            assert [f"{name} {at}" for at in range(19, -1, -1)] == line


def test_an_https_address_is_reached_over_tls(tmp_path: Path) -> None:
    """The key is not sent in the clear."""
    received: list[bytes] = []

    def serve() -> None:
        for _ in range(2):  # a request is tried again
            connection, _ = server.accept()
            with connection:
                received.append(connection.recv(1))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        address = f"https://127.0.0.1:{server.getsockname()[1]}"
        with CanvasClient(address, key="k", home=tmp_path, queue=False) as client:
            assert not client.check_server_health()
        thread.join()
    assert [b"\x16", b"\x16"] == received  # the handshake of TLS


async def test_the_async_client_does_the_same(tmp_path: Path) -> None:
    """With the same methods, awaited where something is waited for."""
    async with canvas_at(tmp_path) as canvas, AsyncCanvasClient(canvas.address, home=tmp_path) as client:
        assert await client.check_server_health()
        made = await client.create_canvas("A")
        branch = made.checkout("main")
        for at in range(100):
            branch.commit_message({"role": "user", "content": str(at)})
        assert await client.flush() and [] == client.failures
        found = await client.get_canvas(made.canvas_id)
        assert found is not None and 100 == len(found.nodes)
        assert [made.canvas_id] == [one.canvas_id for one in await client.list_canvases()]
        assert await client.remove_canvas(made.canvas_id)


def test_a_branch_ends_at_each_commit(tmp_path: Path) -> None:
    """The line that moves it follows the entry; where a node is several entries, the last of them."""
    results = [{"type": "tool_result", "tool_use_id": name, "content": "x"} for name in ("t", "u")]
    with Served(tmp_path) as served, CanvasClient(served.address, home=tmp_path) as client:
        canvas = client.create_canvas("T")
        branch = canvas.checkout("main")
        first = branch.commit_message(HELLO)["id"]
        for message in (HELLO, il.UserMessage(content="own"), {"role": "user", "content": results}, HELLO):
            last = branch.commit_message(message)["id"]
        assert client.flush(30) and not client.failures
    with Session.open(canvas.canvas_id, agent="canvas", home=tmp_path, read_only=True) as session:
        lines = [json.loads(session.raw(number)) for number in range(session.line_count)]
        assert last == session.branches()["main"].head
        assert first == session.path()[0].id and 6 == len(session.path())
    at = {line["id"]: number for number, line in enumerate(lines) if "id" in line}
    assert [node["id"] for node in canvas.iter_nodes()] == [
        line["target"] for line in lines if line["role"] == "branch" and line.get("target")
    ]
    for number, line in enumerate(lines):
        if line["role"] == "branch" and line.get("target"):
            assert number == at[line["target"]] + 1


async def test_a_branch_that_somebody_else_moved_is_not_moved_back(tmp_path: Path) -> None:
    """Both commits are kept; the second client is told."""
    async with (
        canvas_at(tmp_path) as canvas,
        AsyncCanvasClient(canvas.address, home=tmp_path, queue=False) as one,
        AsyncCanvasClient(canvas.address, home=tmp_path, queue=False) as two,
    ):
        made = await one.create_canvas()
        root = made.checkout("main").commit_message(HELLO)
        await one.flush()
        other = await two.get_canvas(made.canvas_id)
        assert other is not None
        mine = made.checkout("main").commit_message({"role": "user", "content": "mine"})
        await one.flush()
        theirs = other.checkout("main").commit_message({"role": "user", "content": "theirs"})
        await two.flush()
        assert [mine["id"]] == [failure["outcome"]["head"] for failure in two.failures]
        found = await one.get_canvas(made.canvas_id)
        assert found is not None and {mine["id"], theirs["id"]} == set(found.nodes[root["id"]]["child_ids"])
        assert mine["id"] == found.checkout("main").head_node_id


async def test_a_change_that_is_refused_does_not_stop_the_others(tmp_path: Path) -> None:
    """It is told, and not sent for ever."""
    async with canvas_at(tmp_path) as canvas, AsyncCanvasClient(canvas.address, home=tmp_path) as client:
        made = await client.create_canvas()
        branch = made.checkout("main")
        branch.commit_message(HELLO)
        client._client._keep(
            {"op": "commit", "canvas": made.canvas_id, "id": "x", "parent": "nowhere", "node": {"message": HELLO}}
        )
        client._client._keep({"op": "nonsense", "canvas": made.canvas_id})
        branch.commit_message(HELLO)
        assert await client.flush()
        assert 2 == len(client.failures)
        found = await client.get_canvas(made.canvas_id)
        assert found is not None and 2 == len(found.nodes)


BAD_IDS = ("", ".", "../x", "a/b", "a b", "ü", "x" * 300, "a\nb")


@given(st.lists(st.sampled_from([*BAD_IDS, "one", "two", "three"]), max_size=8))
@settings(max_examples=25, deadline=None)
def test_a_canvas_with_a_bad_id_is_refused_alone(ids: list[str]) -> None:
    """The others of its batch are created; the refusal says which operation it is about. Nothing else is created."""

    async def sent() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with browsing(Path(folder)) as (_, browser):
                operations = [
                    {"op": op, "canvas": id, **more}
                    for id in ids
                    for op, more in (("create", {}), ("branch", {"branch": "main"}))
                ]
                outcomes = (await browser.post("/api/batch", {"operations": operations}))["outcomes"]
                assert [one["canvas"] not in BAD_IDS for one in operations] == [one.get("ok", True) for one in outcomes]
                for number, outcome in enumerate(outcomes):
                    assert outcome.get("ok", True) or outcome["error"]["path"].startswith(f"$.operations[{number}]")
                made = (await browser.get("/api/canvases"))["canvases"]
                assert {*ids} - {*BAD_IDS} == {one["canvas_id"] for one in made}

    asyncio.run(sent())


async def test_the_good_canvases_of_a_queue_are_created_beside_a_bad_one(tmp_path: Path) -> None:
    async with AsyncCanvasClient(home=tmp_path) as client:
        before = await client.create_canvas("before")
        client._client._keep({"op": "create", "canvas": "../elsewhere"})
        after = await client.create_canvas("after")
        after.checkout("main").commit_message(HELLO)
        async with canvas_at(tmp_path):
            assert await client.flush()
            assert ["../elsewhere"] == [failure["change"]["canvas"] for failure in client.failures]
            assert "$.operations[2].canvas" == client.failures[0]["outcome"]["error"]["path"]
            found = {one["canvas_id"] for one in await client.get_canvas_summaries()}
            assert {before.canvas_id, after.canvas_id} == found


async def test_a_batch_that_is_sent_again_changes_nothing(tmp_path: Path) -> None:
    """Its acknowledgement was lost, and the canvas that it creates is open for writing."""
    async with browsing(tmp_path) as (_, browser):
        operations = [
            {"op": "create", "canvas": "one"},
            {"op": "branch", "canvas": "one", "branch": "main"},
            {"op": "commit", "canvas": "one", "id": "a", "branch": "main", "node": {"id": "a", "message": HELLO}},
        ]
        for _ in range(2):
            outcomes = (await browser.post("/api/batch", {"operations": operations}))["outcomes"]
            assert [True] * 3 == [one.get("ok", True) for one in outcomes]
        assert ["a"] == [*(await browser.get("/api/canvases/one"))["data"]["nodes"]]


def test_commits_that_cannot_be_saved_are_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full for a while: nothing is acknowledged, nothing is lost, nothing is there twice."""
    attempts: list[int] = []
    write = FileLog._write

    def failing(log: FileLog, data: Any) -> None:
        if b"message 1" in bytes(data) and len(attempts) < 2:
            attempts.append(len(data))
            raise OSError(errno.ENOSPC, "No space left on device")
        write(log, data)

    monkeypatch.setattr(FileLog, "_write", failing)
    with Served(tmp_path) as served, CanvasClient(served.address, home=tmp_path) as client:
        main = client.create_canvas("full").checkout("main")
        nodes = [main.commit_message({"role": "user", "content": f"message {number}"}) for number in range(3)]
        assert client.flush(20) and not client.failures
        stored = client.get_canvas(main._canvas.canvas_id)
        assert stored is not None
        assert (2, [node["id"] for node in nodes]) == (len(attempts), [*stored.nodes])
        assert nodes[-1]["id"] == stored.checkout("main").head_node_id


async def test_a_stopped_canvas_has_no_session_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even one that a request, still on its way, took while the others were closed."""
    async with canvas_at(tmp_path) as canvas, AsyncCanvasClient(canvas.address, home=tmp_path) as client:
        made = await client.create_canvas("T")
        made.commit_message(HELLO)
        assert await client.flush(30)
        closing = canvas.runs.close

        async def close() -> None:
            await closing()
            await canvas.lingering.take(canvas.nodes.place(made.canvas_id))

        monkeypatch.setattr(canvas.runs, "close", close)
    with Session.open(made.canvas_id, agent="canvas", home=tmp_path) as session:
        assert 1 == len(session.path())


async def test_a_stop_closes_the_session_that_requests_share(tmp_path: Path) -> None:
    """Requests that arrive together count as one user, and stopped runs leave them their session."""
    async with canvas_at(tmp_path) as canvas, AsyncCanvasClient(canvas.address, home=tmp_path) as client:
        made = await client.create_canvas("T")
        made.commit_message(HELLO)
        assert await client.flush(30)
        place = canvas.nodes.place(made.canvas_id)
        await canvas.lingering.close_one(place.key)
        first, second = await asyncio.gather(canvas.lingering.take(place), canvas.lingering.take(place))
        assert first is second
        await canvas.lingering.close_one(place.key)
        Session.open(made.canvas_id, agent="canvas", home=tmp_path).close()  # nobody else writes it now
        await canvas.lingering.take(place)
        await canvas.runs.close()
        with pytest.raises(SessionBusy):
            Session.open(made.canvas_id, agent="canvas", home=tmp_path)
    Session.open(made.canvas_id, agent="canvas", home=tmp_path).close()


def test_an_outbox_survives_its_process(tmp_path: Path) -> None:
    """What was acknowledged is not sent again, half a line is not sent at all."""
    path = tmp_path / "o.jsonl"
    box = Outbox(path)
    for at in range(5):
        box.add({"n": at})
    assert [b'{"n":0}', b'{"n":1}'] == box.batch()[:2]
    box.acknowledge(2)
    box.close()
    with path.open("ab") as stream:
        stream.write(b'{"n":9')
    again = Outbox(path)
    assert [b'{"n":2}', b'{"n":3}', b'{"n":4}'] == again.batch()
    again.acknowledge(3)
    again.add({"n": 5})
    again.close()
    assert [b'{"n":5}'] == Outbox(path).batch()


# --- branching: the published package's own test ideas ----------------------------------------------------------------


def local() -> LocalCanvas:
    return LocalCanvas(lambda change: None)


def test_branching_ideas_of_the_published_tests() -> None:
    """Create, commit, list, check out, detached heads, branches from a message, deletion, meta, update, merge."""
    canvas = local()
    assert ["main"] == [info["name"] for info in canvas.list_branches()]
    main = canvas.checkout("main")
    assert main.head_node_id is None and main.get_head_node() is None
    first = main.commit_message(HELLO, meta={"k": 1})
    second = main.commit_message(HELLO)
    assert (None, first["id"]) == (first["parent_id"], second["parent_id"])
    assert 1 == first["meta"]["k"] and "timestamp" in first["meta"]
    with pytest.raises(ValueError, match="no branch"):
        canvas.checkout("unknown")
    with pytest.raises(ValueError):
        canvas.checkout()
    with pytest.raises(ValueError, match="no node"):
        canvas.checkout(commit_message={"id": "nowhere"})
    detached = canvas.checkout(commit_message=first)
    assert detached.name.startswith("detached-")
    away = detached.commit_message(HELLO)
    assert (away["id"], second["id"]) == (detached.head_node_id, main.head_node_id)
    from_first = canvas.checkout("early", create_if_not_exists=True, commit_message=first)
    assert first["id"] == from_first.commit_message(HELLO)["parent_id"]
    empty = local().checkout("main").checkout("new", create_if_not_exists=True)
    assert empty.head_node_id is None and empty.commit_message(HELLO)["parent_id"] is None
    canvas.delete_branch("early")
    for name in ("early", "main"):
        with pytest.raises(ValueError):
            canvas.delete_branch(name)
    before = dict(first)
    updated = main.update_message(first["id"], {"message": {"role": "user", "content": "new"}, "meta": {"m": 2}})
    assert (before["id"], before["parent_id"], before["child_ids"]) == tuple(
        updated[k] for k in ("id", "parent_id", "child_ids")
    )
    assert {"k", "m", "timestamp"} == set(updated["meta"])
    with pytest.raises(ValueError):
        main.update_message("nowhere", HELLO)
    with pytest.raises(KeyError):
        canvas.add_message(HELLO, "nowhere")
    with pytest.raises(ValueError):
        canvas.add_message(HELLO, node_id=first["id"])


def test_merging_ideas_of_the_published_tests() -> None:
    """One or many sources, all or nothing, sources untouched; what follows hangs under the merge."""
    canvas = local()
    main = canvas.checkout("main")
    main.commit_message(HELLO)
    a = main.checkout("a", create_if_not_exists=True)
    b = main.checkout("b", create_if_not_exists=True)
    canvas.checkout("void", create_if_not_exists=True, commit_message=None)
    heads = {branch.name: branch.commit_message(HELLO)["id"] for branch in (a, b)}
    blank = canvas.list_branches()
    canvas._branches["void"]["head_node_id"] = None
    for wrong in ([], "unknown", ["a", "unknown"], ["a", "void"]):
        with pytest.raises(ValueError):
            main.merge_from(wrong, HELLO)
    with pytest.raises(ValueError):
        canvas.merge("a", HELLO, "unknown")
    assert 3 == len(canvas.nodes), "nothing was made by what failed"
    merge = main.merge_from(["a", "b"], HELLO)
    assert (merge["id"], heads["a"], heads["b"]) == (main.head_node_id, a.head_node_id, b.head_node_id)
    assert all(merge["id"] in canvas.nodes[head]["child_ids"] for head in heads.values())
    assert merge["id"] == main.commit_message(HELLO)["parent_id"] and blank
    copy = LocalCanvas.from_canvas_data(json.loads(json.dumps(canvas.to_canvas_data())))
    assert canvas.nodes == copy.nodes and canvas.list_branches() == copy.list_branches()


def test_a_listener_that_fails_does_not_reach_the_committer() -> None:
    """And the others still hear."""
    canvas, received = local(), []

    def fail(event: Any) -> None:
        raise RuntimeError

    canvas.add_event_listener(fail)
    canvas.add_event_listener(received.append)
    canvas.checkout("main").commit_message(HELLO)
    canvas.remove_event_listener(fail)
    assert ["commit_message"] == [event["event_type"] for event in received]


acts = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.integers(0, 3)),
        st.tuples(st.just("branch"), st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.just("merge"), st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.just("update"), st.integers(0, 30)),
        st.tuples(st.just("restart")),
    ),
    max_size=25,
)


@given(acts=acts)
@settings(max_examples=15)
def test_any_row_of_acts_of_a_client_ends_in_the_servers_tree(acts: Any, tmp_path_factory: Any) -> None:
    """Commits, branch moves, merges, revisions, and servers that stop in between: the client has what the server has,
    and so does the page."""
    asyncio.run(_act(acts, tmp_path_factory.mktemp("acts")))


async def _act(acts: Any, home: Path) -> None:
    client = AsyncCanvasClient(home=home)
    canvas = Canvas(Library(home), port=0)
    await canvas.start()
    async with client:
        made = await client.create_canvas()
        names = ["main", "b1", "b2", "b3"]
        for act, *rest in acts:
            if act == "commit" and _known(made, names[rest[0]]):
                made.checkout(names[rest[0]]).commit_message({"role": "user", "content": f"m{len(made.nodes)}"})
            elif act == "branch" and _known(made, names[rest[1]]):
                made.checkout(names[rest[1]]).checkout(names[rest[0]], create_if_not_exists=True)
            elif act == "merge" and all(
                _known(made, names[at]) and made.checkout(names[at]).head_node_id for at in rest
            ):
                made.checkout(names[rest[0]]).merge_from(names[rest[1]], {"role": "user", "content": "merge"})
            elif act == "update" and made.nodes:
                id = list(made.nodes)[rest[0] % len(made.nodes)]
                made.update_message(id, {"role": "user", "content": f"u{rest[0]}"})
            elif act == "restart":
                await client.flush(0.05)
                await canvas.stop()
                canvas = Canvas(Library(home), port=0)
                await canvas.start()
        assert await client.flush(30) and [] == client.failures
        read = await client.get_canvas(made.canvas_id)
        assert read is not None
        assert _shape(made) == _shape(read)
        hub = await canvas.hub(canvas.nodes.key(made.canvas_id))
        rows = hub.tree.rows(0, 10_000)
        assert {row.id: (row.parent, set(row.parents), row.text) for row in rows} == {
            id: (node["parent_id"], _further(made, id), node["message"]["content"]) for id, node in made.nodes.items()
        }
    await canvas.stop()


def _known(canvas: LocalCanvas, name: str) -> bool:
    return name in {info["name"] for info in canvas.list_branches()}


def _further(canvas: LocalCanvas, id: str) -> set[str]:
    return {
        above
        for above, node in canvas.nodes.items()
        if id in node["child_ids"] and canvas.nodes[id]["parent_id"] != above
    }


def _shape(canvas: LocalCanvas) -> Any:
    nodes = {id: (node["parent_id"], sorted(node["child_ids"]), node["message"]) for id, node in canvas.nodes.items()}
    return nodes, {info["name"]: info["head_node_id"] for info in canvas.list_branches()}
