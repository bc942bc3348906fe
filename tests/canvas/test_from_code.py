"""The canvas from code: agents that are watched, sessions that open themselves, frames for notebooks."""

import asyncio
import os
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from canvas.driving import Browser, canvas_at
from canvas.test_live import Viewer
from interlingua.canvas.client import AsyncCanvasClient
from interlingua.canvas.opened import OpenCanvas, open_canvas
from interlingua.sessions import Session
from interlingua.tools.core.canvas import canvas_tool
from interlingua.tools.tool import ToolContext


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenCanvas]:
    """A canvas in a thread of this process."""
    with open_canvas(tmp_path) as canvas:
        yield canvas


async def test_a_watched_agent_is_seen_while_it_answers(opened: OpenCanvas, tmp_path: Path) -> None:
    """Its answer grows on the canvas, then becomes a row; the run ends when the agent does."""
    with Session.open("s", home=tmp_path) as session:
        session.append(il.UserMessage(content="Hello"), id="q")
        session.append(il.AssistantMessage(content="Hi"), id="a")
        agent = il.Agent("debug/echo", session=session)
        unwatch = agent.watch(opened)
        async with Browser(await asyncio.to_thread(opened.link)) as browser:
            viewer = Viewer(browser, "own~main~s")
            async with viewer.watching():
                await agent.prompt("word " * 200)
                await viewer.until(lambda: any(run["state"] == "done" for run in viewer.runs.values()))
                [run] = viewer.runs.values()
                assert run.get("mine") is False
                types = viewer.types()
                assert types.index("live") < types.index("settled")
                settled = next(event.data for event in viewer.seen if event.type == "settled")
                assert settled["entry"] == session.head and session.head in viewer.rows
        unwatch()


async def test_an_agent_without_a_session_gets_one_on_the_canvas(opened: OpenCanvas, tmp_path: Path) -> None:
    """What it has said before is shown as well."""
    agent = il.Agent("debug/echo", messages=[il.UserMessage(content="first"), il.AssistantMessage(content="yes")])
    agent.watch(opened)
    await agent.prompt("second")
    [found] = await asyncio.to_thread(lambda: opened.ask("GET", "/api/sessions")["sessions"])
    assert found["messages"] == 4 and found["title"] == "first"


async def test_a_watched_agent_commits_to_a_client_s_canvas(tmp_path: Path) -> None:
    """A canvas of a client takes an agent as well: each message is a node of its branch."""
    async with canvas_at(tmp_path) as canvas, AsyncCanvasClient(canvas.address, home=tmp_path) as client:
        shown = await client.create_canvas("watched")
        agent = il.Agent("debug/echo")
        agent.watch(shown)
        agent.watch(shown.checkout("copy", create_if_not_exists=True))
        await agent.prompt("hello")
        await client.flush()
        found = await client.get_canvas(shown.canvas_id)
        assert found is not None and len(found.nodes) == 4
        assert {branch["name"] for branch in found.list_branches()} == {"main", "copy"}


async def test_every_agent_of_a_host_is_seen(opened: OpenCanvas, tmp_path: Path) -> None:
    """`AgentHost(on_event=canvas.on_event)`: the session of each event is found by its key."""
    from interlingua.host import AgentHost

    host = AgentHost("debug/echo", home=tmp_path, on_event=opened.on_event)
    await host.run("hello", "main")
    async with asyncio.timeout(20):
        while True:
            found = await asyncio.to_thread(lambda: opened.ask("GET", "/api/sessions")["sessions"])
            if found and found[0]["messages"] == 2:
                break
            await asyncio.sleep(0.05)
    assert found[0]["key"] == "own~main~main"


def test_a_session_opens_itself_and_is_a_frame_in_a_notebook(tmp_path: Path) -> None:
    """The frame is sandboxed and shows this session; the link lets a browser in."""
    with Session.open("s", home=tmp_path) as session:
        session.append(il.UserMessage(content="Hello there"), id="q")
        canvas = session.open_canvas(browser=False)
        with canvas:
            html = canvas._repr_html_()
            [address] = re.findall(r'src="([^"]+)"', html)
            assert 'sandbox="allow-scripts"' in html and "allow-same-origin" not in html
            with urllib.request.urlopen(address.replace("&amp;", "&"), timeout=20) as response:
                assert b"Hello there" in response.read()
            assert re.match(rf"{re.escape(canvas.address)}/s/own~main~s/canvas\?token=", canvas.link())
            assert session.open_canvas(browser=False) is canvas


async def test_the_canvas_tool_shows_any_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its id or its key, the oldest of many, too; what this canvas cannot do is refused with what it can."""
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    for number in range(1003):
        path = tmp_path / "agents" / "main" / "sessions" / f"s{number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"role":"user","content":"Hello","timestamp":1}\n')
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    with open_canvas(tmp_path) as canvas:
        tool = canvas_tool(ToolContext(canvas=canvas))
        for target in "s0", "own~main~s1002":
            result = await tool.execute("c", {"action": "present", "target": target})
            assert '"ok": true' in result.text and f"~{target.rpartition('~')[2]}/canvas?token=" in opened[-1]
        await tool.execute("c", {"action": "present"})
        assert opened[-1].startswith(f"{canvas.address}/?token=")
        refused = {"navigate": ("s1003", "no session"), "present": ("https://spy.invalid", "only sessions")}
        for action, (target, why) in refused.items():
            with pytest.raises(il.ToolInputError, match=why):
                await tool.execute("c", {"action": action, "target": target})
        with pytest.raises(il.ToolInputError, match="not possible on this canvas; present a session"):
            await tool.execute("c", {"action": "snapshot"})
        assert 3 == len(opened)


def test_a_session_file_anywhere_can_be_shown(tmp_path: Path) -> None:
    """One that is not in the home is opened as a file."""
    with Session.open(tmp_path / "elsewhere" / "x.jsonl") as session:
        session.append(il.UserMessage(content="Hello from afar"), id="q")
        with open_canvas(tmp_path / "home") as canvas:
            canvas.show(session, browser=False)
            key = canvas.key_of(session)
            assert key.startswith("file~")
            assert canvas.ask("GET", f"/api/sessions/{key}/entries/q")["id"] == "q"


async def test_the_canvas_that_runs_is_used(tmp_path: Path) -> None:
    """A program does not start a second one beside it."""
    async with canvas_at(tmp_path) as canvas:
        found = await asyncio.to_thread(open_canvas, tmp_path)
        try:
            assert found.address == canvas.address
        finally:
            await asyncio.to_thread(found.close)


@pytest.mark.parametrize(
    "event", [{}, {"type": "no_such"}, {"type": "message_end"}, {"type": "message_end", "message": 1}]
)
async def test_a_report_that_is_none_is_refused(event: dict[str, Any], tmp_path: Path) -> None:
    """With the path of what is wrong; a session that is not there is 404; a reader may not report."""
    with Session.open("s", home=tmp_path) as session:
        session.append(il.UserMessage(content="Hello"), id="q")
    async with canvas_at(tmp_path) as canvas, Browser(canvas.link()) as browser:
        body = {"run": "r", "events": [{"event": event}]}
        status, answer = await browser.ask("POST", "/api/sessions/own~main~s/feed", body)
        assert (status, answer["detail"]["path"]) == (422, "$.events[0].event")
        assert (await browser.ask("POST", "/api/sessions/own~main~none/feed", {"run": "r"}))[0] == 404


async def test_an_agent_that_falls_silent_is_taken_to_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing stays `running` for ever because a program was killed."""
    with Session.open("s", home=tmp_path) as session:
        session.append(il.UserMessage(content="Hello"), id="q")
    async with canvas_at(tmp_path) as canvas, Browser(canvas.link()) as browser:
        start = {"event": {"type": "message_start", "message": {"role": "assistant", "content": []}}, "at": "q"}
        await browser.post("/api/sessions/own~main~s/feed", {"run": "r", "events": [start]})
        view = await browser.get("/api/sessions/own~main~s")
        assert view["live"]["state"] == "running"
        monkeypatch.setattr("interlingua.canvas.live.SILENCE", 0.0)
        async with Viewer(browser, "own~main~s").watching() as viewer:
            assert viewer.live
            canvas.feeds.sweep()
            await viewer.until(lambda: viewer.runs["r"]["state"] == "stopped" and not viewer.live)
        assert "live" not in await browser.get("/api/sessions/own~main~s")
