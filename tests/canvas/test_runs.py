"""Going on from the page: fork, edit, several models at once, stream, stop, approve, steer; and what fails."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from canvas.driving import Browser, browsing
from canvas.test_live import Viewer
from interlingua.canvas.library import Library
from interlingua.canvas.runs import Toolbox
from interlingua.canvas.server import Canvas
from interlingua.canvas.writers import BranchHistory
from interlingua.connect.client import Client, builtin_connectors
from interlingua.connect.connector import HttpConnector
from interlingua.connect.providers import Provider
from interlingua.connect.retry import Retry
from interlingua.sessions import Session
from interlingua.testing import Cut, ErrorEvent, Server, Stall

KEY = "own~main~s"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with Session.open("s", home=tmp_path) as session:
        session.append(il.UserMessage(content="Hello"), id="q")
        session.append(il.AssistantMessage(content="Hi", model="m", stop_reason="stop"), id="a")
    return tmp_path


@contextlib.asynccontextmanager
async def viewing(home: Path, **how: Any) -> AsyncIterator[tuple[Canvas, Browser, Viewer]]:
    async with browsing(home, **how) as (canvas, browser):
        viewer = Viewer(browser)
        async with viewer.watching():
            yield canvas, browser, viewer


def over(viewer: Viewer, *ids: str) -> bool:
    return all(viewer.runs.get(id, {}).get("state") in ("done", "stopped", "error") for id in ids)


async def go(browser: Browser, viewer: Viewer, **asked: Any) -> Any:
    """Starts runs and waits for their end."""
    started = await browser.post(f"/api/sessions/{KEY}/runs", {"models": ["debug/parrot-1"], **asked}, status=202)
    await viewer.until(lambda: over(viewer, *(run["id"] for run in started["runs"])))
    return started


def served(server: Server, **how: Any) -> Client:
    """A client whose provider `local` is the test server."""
    registry = builtin_connectors()
    row = Provider(
        id="local",
        label="Local",
        api="anthropic-messages",
        base_url=server.base_url("anthropic-messages"),
        keyless=True,
    )
    registry.register(HttpConnector(row))
    return Client(connectors=registry, retry=Retry(attempts=1), **how)


def test_a_result_in_the_format_of_another_wire_is_a_result(home: Path) -> None:
    """Or its call, which looks unanswered, would run again when the conversation goes on."""
    place = home / "agents" / "main" / "sessions" / "foreign.jsonl"
    call = '{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"t","arguments":{}}]}'
    result = '{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"done"}],"id":"r"}'
    place.write_text(f"{call}\n{result}\n")
    with Session.open("foreign", home=home) as session:
        _, read = BranchHistory(session, "r").messages
        assert isinstance(read, il.ToolResultMessage) and "c" == read.tool_call_id


async def test_a_conversation_is_continued_and_streams_into_the_tree(home: Path) -> None:
    """The prompt is a row, the answer grows on a node that becomes a row; all of it is in the log."""
    async with viewing(home) as (_, browser, viewer):
        started = await go(browser, viewer, text="Say this")
        assert ("user", "Say this", "a") == tuple(viewer.rows[started["prompt"]][k] for k in ("role", "text", "parent"))
        (answer,) = [row for row in viewer.rows.values() if row.get("parent") == started["prompt"]]
        assert ("Say this", "parrot-1", "stop") == (answer["text"], answer["model"], answer["stop"])
        assert answer["live"] == f"{started['runs'][0]['id']}.1" and not viewer.live
        types = viewer.types()
        assert types.index("live") < types.index("delta") < types.index("settled")
        run = viewer.runs[started["runs"][0]["id"]]
        assert ("done", answer["id"], 0) == (run["state"], run["head"], run["cost"])
    with Session.open("s", home=home) as session:
        assert ["Hello", "Hi", "Say this", "Say this"] == [message.text for message in session.messages]  # type: ignore[union-attr]


async def test_several_models_answer_at_once_as_siblings(home: Path) -> None:
    """Each in a branch of its own behind one prompt."""
    names = ["debug/parrot-1", "debug/upper-parrot-1", "debug/reverse-parrot-1"]
    async with viewing(home) as (_, browser, viewer):
        models = (await browser.get("/api/models?q=debug&limit=200"))["models"]
        names = [name for name in names if name in {model["name"] for model in models}]
        started = await go(browser, viewer, text="abc", models=names, branch="try")
        answers = [row for row in viewer.rows.values() if row.get("parent") == started["prompt"]]
        assert len(names) == len(answers) >= 2 and {"abc", "ABC"} <= {row["text"] for row in answers}
        branches = {
            branch["name"]: branch["head"]
            for branch in (await browser.get(f"/api/sessions/{KEY}/branches"))["branches"]
        }
        assert {row["id"] for row in answers} == set(branches.values())
        assert {"try", "try-2"} <= set(branches)


async def test_an_entry_is_edited_and_branched(home: Path) -> None:
    """The new words stand beside the old ones; what was said stays."""
    async with viewing(home) as (_, browser, viewer):
        started = await go(browser, viewer, replaces="q", text="Goodbye")
        edited = viewer.rows[started["prompt"]]
        assert "parent" not in edited and "Goodbye" == edited["text"]
        assert "Hello" == viewer.rows["q"]["text"]


async def test_an_answer_is_asked_for_again(home: Path) -> None:
    """From the question, without new words; and a finished answer needs some."""
    async with viewing(home) as (_, browser, viewer):
        started = await go(browser, viewer, **{"from": "q"})
        assert "prompt" not in started
        assert 2 == sum(row.get("parent") == "q" for row in viewer.rows.values())
        status, body = await browser.ask(
            "POST", f"/api/sessions/{KEY}/runs", {"models": ["debug/parrot-1"], "from": "a"}
        )
        assert (422, "$.from") == (status, body["detail"]["path"])


async def test_a_named_branch_moves_along(home: Path) -> None:
    """Continuing where a branch ends moves the branch, not only the head."""
    with Session.open("s", home=home) as session:
        session.set_branch("main", "a")
    async with viewing(home) as (_, browser, viewer):
        await go(browser, viewer, text="on")
        (branch,) = (await browser.get(f"/api/sessions/{KEY}/branches"))["branches"]
        assert viewer.rows[branch["head"]]["role"] == "assistant" and branch["head"] != "a"


async def test_a_new_root_can_be_begun(home: Path) -> None:
    """`from: null` is before the first entry."""
    async with viewing(home) as (_, browser, viewer):
        started = await go(browser, viewer, text="Afresh", **{"from": None})
        assert "parent" not in viewer.rows[started["prompt"]]


async def test_asking_twice_with_one_key_is_asking_once(home: Path) -> None:
    """A lost answer to the request does not make a second run."""
    async with viewing(home) as (_, browser, viewer):
        first = await go(browser, viewer, text="once", key="k1")
        again = await browser.post(
            f"/api/sessions/{KEY}/runs", {"models": ["debug/parrot-1"], "text": "once", "key": "k1"}, status=202
        )
        assert [run["id"] for run in first["runs"]] == [run["id"] for run in again["runs"]]
        assert 1 == [row["text"] for row in viewer.rows.values() if row["role"] == "user"].count("once")


async def test_a_viewer_that_comes_late_gets_what_there_is_so_far(home: Path) -> None:
    """In its snapshot; then deltas like the others; all end with the same tree."""
    with Server(chunk=4) as server:
        server.say("Once upon a time there was a fox.", fault=Stall(after_events=5, seconds=0.6))
        async with viewing(home, client=served(server)) as (_, browser, viewer):
            started = await browser.post(
                f"/api/sessions/{KEY}/runs", {"models": ["local/test-model"], "text": "Tell"}, status=202
            )
            await viewer.until(
                lambda: any(node["content"] and node["content"][0]["text"] for node in viewer.live.values())
            )
            late = Viewer(browser)
            async with late.watching():
                (node,) = late.live.values()
                assert node["content"][0]["text"] and started["runs"][0]["id"] in late.runs
                await late.until(lambda: over(late, started["runs"][0]["id"]))
                await viewer.until(lambda: over(viewer, started["runs"][0]["id"]))
                assert {id: row["text"] for id, row in late.rows.items()} == {
                    id: r["text"] for id, r in viewer.rows.items()
                }
                assert "Once upon a time there was a fox." in [row["text"] for row in late.rows.values()]


async def test_a_stopped_run_keeps_what_came(home: Path) -> None:
    """The answer so far is stored as aborted; nothing goes on by itself."""
    with Server(chunk=4) as server:
        server.say("Once upon a time.", fault=Stall(after_events=4))
        async with viewing(home, client=served(server)) as (_, browser, viewer):
            started = await browser.post(
                f"/api/sessions/{KEY}/runs", {"models": ["local/test-model"], "text": "Tell"}, status=202
            )
            await viewer.until(
                lambda: any(node["content"] and node["content"][0]["text"] for node in viewer.live.values())
            )
            id = started["runs"][0]["id"]
            await browser.post(f"/api/runs/{id}/stop")
            await viewer.until(lambda: over(viewer, id))
            (answer,) = [row for row in viewer.rows.values() if row.get("parent") == started["prompt"]]
            assert ("stopped", "aborted") == (viewer.runs[id]["state"], answer["stop"])
            assert answer["text"] and not viewer.live
            status, body = await browser.ask("POST", f"/api/runs/{id}/stop", {})
            assert (409, "run_over") == (status, body["detail"]["error"])


@pytest.mark.parametrize("fault", [Cut(after_events=4), ErrorEvent(after_events=4)], ids=["cut", "error event"])
async def test_a_failed_answer_says_what_happened(home: Path, fault: Any) -> None:
    """What had come is kept, the run says why, the page can go on."""
    with Server(chunk=4) as server:
        server.say("Once upon a time there was a fox.", fault=fault)
        async with viewing(home, client=served(server)) as (_, browser, viewer):
            started = await browser.post(
                f"/api/sessions/{KEY}/runs", {"models": ["local/test-model"], "text": "Tell"}, status=202
            )
            id = started["runs"][0]["id"]
            await viewer.until(lambda: over(viewer, id), timeout=60)
            run = viewer.runs[id]
            assert ("error", True) == (run["state"], bool(run["error"]["message"]))
            failed = [row for row in viewer.rows.values() if row.get("stop") == "error"]
            assert failed and failed[0]["error"] and not viewer.live


async def test_tools_are_lent_and_calls_wait_for_a_person(tmp_path: Path, home: Path) -> None:
    """Allowed, refused, or always allowed; the page sees each state."""
    work = tmp_path / "work"
    work.mkdir()
    with Server() as server:
        server.call("exec", {"command": "echo one > a.txt"}, id="c1")
        server.call("exec", {"command": "echo two > b.txt"}, id="c2")
        server.say("Done.")
        toolbox = Toolbox("coding", work)
        async with viewing(home, client=served(server), toolbox=toolbox) as (_, browser, viewer):
            assert "exec" in [tool["name"] for tool in (await browser.get("/api/tools"))["tools"]]
            started = await browser.post(
                f"/api/sessions/{KEY}/runs",
                {"models": ["local/test-model"], "text": "Write", "tools": ["exec"]},
                status=202,
            )
            id = started["runs"][0]["id"]
            await viewer.until(lambda: "waiting" in viewer.types())
            (waiting,) = viewer.runs[id].get("waiting", ()) or (await browser.get(f"/api/runs/{id}"))["waiting"]
            assert ("c1", "exec", {"command": "echo one > a.txt"}) == (
                waiting["callId"],
                waiting["tool"],
                waiting["arguments"],
            )
            live = (await browser.get("/api/sessions?filter=live"))["sessions"]
            assert ["waiting"] == [session["live"]["state"] for session in live]
            await browser.post(f"/api/runs/{id}/approve", {"callId": "c1", "allow": True})
            await viewer.until(lambda: viewer.types().count("waiting") == 2)
            await browser.post(f"/api/runs/{id}/approve", {"callId": "c2", "allow": False})
            await viewer.until(lambda: over(viewer, id))
            results = {
                row["call"]["id"]: row["call"].get("error", False) for row in viewer.rows.values() if "call" in row
            }
            assert {"c1": False, "c2": True} == results
            assert (work / "a.txt").exists() and not (work / "b.txt").exists()
            assert "Done." in [row["text"] for row in viewer.rows.values()]


async def test_a_tool_that_is_not_lent_is_refused(home: Path) -> None:
    """Before anything is said."""
    async with viewing(home) as (_, browser, viewer):
        asked = {"models": ["debug/parrot-1"], "text": "x", "tools": ["exec"]}
        status, body = await browser.ask("POST", f"/api/sessions/{KEY}/runs", asked)
        assert (422, "$.tools[0]") == (status, body["detail"]["path"])
        assert ["Hello", "Hi"] == [row["text"] for row in viewer.rows.values()]


async def test_a_running_agent_is_steered(tmp_path: Path, home: Path) -> None:
    """What is said while a call waits is read behind its result."""
    with Server() as server:
        server.call("exec", {"command": "touch a"}, id="c1")
        server.say("Then blue.")
        toolbox = Toolbox("coding", tmp_path)
        async with viewing(home, client=served(server), toolbox=toolbox) as (_, browser, viewer):
            asked = {"models": ["local/test-model"], "text": "Paint", "tools": ["exec"]}
            started = await browser.post(f"/api/sessions/{KEY}/runs", asked, status=202)
            id = started["runs"][0]["id"]
            await viewer.until(lambda: "waiting" in viewer.types())
            run = await browser.post(f"/api/runs/{id}/steer", {"text": "In blue, please"})
            assert 1 == run["queued"]
            await browser.post(f"/api/runs/{id}/approve", {"callId": "c1", "allow": True})
            await viewer.until(lambda: over(viewer, id))
            roles = [(row["role"], row["text"]) for row in viewer.rows.values()][-3:]
            assert [("toolResult", roles[0][1]), ("user", "In blue, please"), ("assistant", "Then blue.")] == roles


async def test_a_busy_session_goes_on_in_a_linked_fork_in_the_same_tree(home: Path) -> None:
    """The other writer is not disturbed; viewers see one tree; the next run goes on in the fork."""
    with Session.open("s", home=home) as other:
        async with viewing(home) as (_, browser, viewer):
            started = await go(browser, viewer, text="Beside you")
            assert started["linked"] and started["session"]["key"] != KEY
            other.append(il.UserMessage(content="I go on, too"), id="mine")
            await viewer.until(lambda: "mine" in viewer.rows)
            row = viewer.rows[started["prompt"]]
            assert ("a", started["session"]["key"]) == (row["parent"], row["session"])
            answer = next(row for row in viewer.rows.values() if row.get("parent") == started["prompt"])
            second = await go(browser, viewer, text="And on", **{"from": answer["id"]})
            assert started["session"]["key"] == second["session"]["key"]
            page = await browser.get(f"/api/sessions/{KEY}/entries?to={second['runs'][0]['head']}&last=10")
            assert ["q", "a"] == [entry["id"] for entry in page["entries"]][:2]
        async with viewing(home) as (_, browser, viewer):
            assert {"Beside you", "And on", "I go on, too"} <= {row["text"] for row in viewer.rows.values()}
    assert ["Hello", "Hi", "I go on, too"] == [m.text for m in Session.open("s", home=home, read_only=True).messages]  # type: ignore[union-attr]


async def test_a_session_that_another_process_holds_until_it_is_killed(home: Path) -> None:
    """The page continues in a linked fork of the same tree; once the other is gone, the session itself is written."""
    code = "import sys\nfrom interlingua.sessions import Session\nsession = Session.open('s', home=sys.argv[1])\n"
    code += "print('held', flush=True)\nsys.stdin.read()\n"
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    holder = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(home), **pipes)
    try:
        assert holder.stdout is not None and b"held\n" == await holder.stdout.readline()
        async with viewing(home) as (_, browser, viewer):
            both = await asyncio.gather(go(browser, viewer, text="One"), go(browser, viewer, text="Two"))
            assert [True, True] == [started["linked"] for started in both]
            assert {"a"} == {viewer.rows[started["prompt"]]["parent"] for started in both}
            holder.kill()
            await holder.wait()
            free = await go(browser, viewer, text="Three", **{"from": "a"})
            assert "linked" not in free and KEY == free["session"]["key"]
            shown = {row["text"] for row in viewer.rows.values()}
            assert {"One", "Two", "Three"} <= shown
        async with viewing(home) as (_, browser, again):
            assert shown == {row["text"] for row in again.rows.values()}, "after a restart, too"
    finally:
        with contextlib.suppress(ProcessLookupError):
            holder.kill()
        await holder.wait()


async def test_a_file_of_another_program_is_continued_in_a_linked_fork(home: Path) -> None:
    """The file is never written."""
    body = b'{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Hello there"}]}'
    async with browsing(home) as (_, browser):
        (opened,) = (await browser.post("/api/files?name=a.json", body, status=201))["sessions"]
        key = opened["key"]
        viewer = Viewer(browser, key)
        async with viewer.watching():
            asked = {"models": ["debug/parrot-1"]}
            started = await browser.post(f"/api/sessions/{key}/runs", asked, status=202)
            await viewer.until(lambda: over(viewer, started["runs"][0]["id"]))
            assert started["linked"] and ["Hello there"] * 2 == [row["text"] for row in viewer.rows.values()]


async def test_what_a_hand_over_would_lose_is_said_before(home: Path) -> None:
    """By model, and by cause; nothing is sent."""
    thought = il.ThinkingBlock(thinking="thoughts of mine", thinking_signature="c2ln")
    with Session.open("s", home=home) as session:
        session.append(
            il.AssistantMessage(
                content=(thought, il.TextBlock(text="Yes")),
                api="anthropic-messages",
                provider="anthropic",
                model="claude-sonnet-4-5",
                stop_reason="stop",
            ),
            id="t",
        )
        session.append(il.UserMessage(content="So?"), id="t2")
    async with browsing(home) as (_, browser):
        names = ["openai/gpt-5", "anthropic/claude-sonnet-4-5"]
        view = await browser.post(f"/api/sessions/{KEY}/handover", {"models": names, "text": "And?"})
        assert 5 == view["reads"]["messages"]
        other, same = view["models"]
        assert 1 == other["counts"]["dropped"] and other["fits"] and not other.get("refuses")
        assert same["sameFamily"] and same["counts"].get("dropped", 0) == 0
        (cause,) = [cause for cause in view["causes"] if cause["what"] == "thinking"]
        assert {"openai/gpt-5": {"severity": "dropped", "count": 1}} == cause["by"]
        assert [{"entry": "t", "block": 0}] == cause["entries"]
        for thinking, is_sent in (("drop", False), ("text", True)):
            wire = await browser.get(f"/api/sessions/{KEY}/wire?model=openai/gpt-5&to=t2&thinking={thinking}")
            assert is_sent == any('"thoughts of mine"' in line["text"] for line in wire["sent"])


async def test_uploaded_media_are_said(home: Path) -> None:
    """By their hash; one that was never uploaded is refused."""
    async with viewing(home) as (_, browser, viewer):
        made = await browser.post("/api/uploads?type=image/png", b"\x89PNG\r\n\x1a\n" + b"0" * 20, status=201)
        picture = {"type": "image", "upload": made["sha256"], "mimeType": "image/png"}
        started = await go(browser, viewer, text="Look", content=[picture])
        assert 1 == viewer.rows[started["prompt"]]["images"]
        wrong = {"models": ["debug/parrot-1"], "content": [{**picture, "upload": "0" * 64}]}
        status, body = await browser.ask("POST", f"/api/sessions/{KEY}/runs", wrong)
        assert (422, "$.content[0].upload") == (status, body["detail"]["path"])


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ({"models": []}, "$.models"),
        ({"models": ["debug/parrot-1"] * 9}, "$.models"),
        ({"models": ["nobody/nothing"], "text": "x"}, "query.model"),
        ({"models": ["debug/parrot-1"], "replaces": "q"}, "$.text"),
        ({"models": ["debug/parrot-1"], "colour": "red"}, "$"),
        ({"models": "debug/parrot-1"}, "$.models"),
    ],
)
async def test_what_cannot_be_run_is_refused_with_its_place(home: Path, asked: Any, path: str) -> None:
    """And nothing is written."""
    async with viewing(home) as (_, browser, viewer):
        status, body = await browser.ask("POST", f"/api/sessions/{KEY}/runs", asked)
        assert (422, path) == (status, body["detail"]["path"])
        assert 2 == len(viewer.rows)


async def test_a_streamed_answer_costs_a_viewer_about_its_own_size(home: Path) -> None:
    """Linear, and at most three times its text."""
    text = "All work and no play makes Jack a dull boy. " * 800
    with Server(chunk=16) as server:
        server.say(text)
        async with browsing(home, client=served(server)) as (canvas, browser):
            received = bytearray()
            response = await browser.http.get(f"{canvas.address}/api/sessions/{KEY}/events")
            asked = {"models": ["local/test-model"], "text": "Go"}
            started = await browser.post(f"/api/sessions/{KEY}/runs", asked, status=202)
            async with asyncio.timeout(60):
                while b'"state":"done"' not in received:
                    received += await response.content.readany()
            response.close()
            assert started["runs"] and len(text) < len(received) < 2 * len(text)


async def test_stopping_the_server_stops_its_runs_and_loses_nothing(home: Path) -> None:
    """What had come of the answer is in the log."""
    with Server(chunk=4) as server:
        server.say("Once upon a time.", fault=Stall(after_events=4))
        async with viewing(home, client=served(server)) as (canvas, browser, viewer):
            asked = {"models": ["local/test-model"], "text": "Tell"}
            await browser.post(f"/api/sessions/{KEY}/runs", asked, status=202)
            await viewer.until(
                lambda: any(node["content"] and node["content"][0]["text"] for node in viewer.live.values())
            )
            await canvas.stop()
    with Session.open("s", home=home) as session:
        *_, prompt, answer = session.messages
        assert ("Tell", "aborted") == (prompt.text, answer.stop_reason) and answer.text  # type: ignore[union-attr]


async def test_entries_branches_and_notes_are_written_from_the_page(home: Path) -> None:
    """With compare and set; each refusal has its code."""
    async with viewing(home) as (_, browser, viewer):
        url = f"/api/sessions/{KEY}"
        row = await browser.post(
            f"{url}/entries", {"message": {"role": "user", "content": "new"}, "id": "n"}, status=201
        )
        assert ("n", "a") == (row["id"], row["parent"])
        status, body = await browser.ask(
            "POST", f"{url}/entries", {"message": {"role": "user", "content": "x"}, "id": "n"}
        )
        assert (409, "id_taken", "$.id") == (status, body["detail"]["error"], body["detail"]["path"])
        status, body = await browser.ask("POST", f"{url}/entries", {"message": {"role": "toolResult"}})
        assert 422 == status
        status, body = await browser.ask(
            "POST", f"{url}/entries", {"message": {"role": "user", "content": "x"}, "parent": "nowhere"}
        )
        assert (404, "entry_not_found") == (status, body["detail"]["error"])
        row = await browser.post(f"{url}/entries/n/revisions", {"version": 0, "text": "newer"})
        assert ("newer", 1) == (row["text"], row["version"])
        status, body = await browser.ask("POST", f"{url}/entries/n/revisions", {"version": 0, "text": "late"})
        assert (409, "stale_version", 1) == (status, body["detail"]["error"], body["detail"]["version"])
        versions = (await browser.get(f"{url}/entries/n/versions"))["versions"]
        assert ["new", "newer"] == [version["message"]["content"][0]["text"] for version in versions]
        await browser.post(f"{url}/branches/main", {"head": "n", "expect": None}, method="PUT")
        status, body = await browser.ask("PUT", f"{url}/branches/main", {"head": "a", "expect": "q"})
        assert (409, "stale_head", "n") == (status, body["detail"]["error"], body["detail"]["head"])
        await browser.post(f"{url}/branches/side", {"head": "a"}, method="PUT")
        merged = await browser.post(
            f"{url}/merge",
            {"into": "side", "from": ["main"], "message": {"role": "user", "content": "both"}},
            status=201,
        )
        assert ("a", ["n"]) == (merged["parent"], merged["parents"])
        assert {"head": "n"} == await browser.post(f"{url}/checkout", {"branch": "main"})
        note = await browser.post(f"{url}/entries/q/notes", {"text": "why?", "rating": -1}, status=201)
        await viewer.until(lambda: viewer.rows["q"].get("rating") == -1)
        await browser.post(f"{url}/entries/q/notes/{note['id']}", method="DELETE")
        await viewer.until(lambda: "rating" not in viewer.rows["q"])
        assert "mark" == (await browser.post(f"{url}/entries/q/label", {"label": "mark"}, method="PUT"))["label"]
        await browser.post(f"{url}/branches/side", method="DELETE")
        assert "Renamed" == (await browser.post(url, {"title": "Renamed"}, method="PATCH"))["title"]
        forked = await browser.post(f"{url}/fork", {"at": "a", "title": "Copy"}, status=201)
        assert ("Copy", 2, KEY) == (forked["title"], forked["messages"], forked["forkedFrom"]["key"])


@pytest.mark.parametrize("strategy", ["explicit", "linear", "squash"])
async def test_branches_are_merged_in_three_ways(home: Path, strategy: str) -> None:
    """As several parents, as a continuation, as one message; where it came from is kept with each."""
    with Session.open("s", home=home) as session:
        session.set_branch("main", "a")
        session.append(il.UserMessage(content="side one"), id="s1", parent_id="a")
        session.append(il.UserMessage(content="side two"), id="s2")
        session.set_branch("side", "s2")
    async with browsing(home) as (_, browser):
        message = {} if strategy == "squash" else {"message": {"role": "user", "content": "both"}}
        asked = {"into": "main", "from": ["side"], "strategy": strategy, **message}
        row = await browser.post(f"/api/sessions/{KEY}/merge", asked, status=201)
        assert ("a", ["s2"] if strategy == "explicit" else []) == (row["parent"], row.get("parents", []))
        assert "user: side one user: side two" == row["text"] if strategy == "squash" else "both" == row["text"]
    with Session.open("s", home=home) as session:
        about = session.entry(row["id"]).extra["interlingua"]["merge"]
        assert (strategy, [{"branch": "side", "head": "s2"}]) == (about["strategy"], about["sources"])
        assert row["id"] == session.branches()["main"].head and "s2" == session.branches()["side"].head


async def test_a_merge_that_makes_no_sense_changes_nothing(home: Path) -> None:
    """Unknown branches, none at all, one without commits: all or nothing."""
    with Session.open("s", home=home) as session:
        session.set_branch("main", "a")
        session.set_branch("empty", None)
    message = {"role": "user", "content": "x"}
    async with browsing(home) as (_, browser):
        for asked, status in (
            ({"into": "nowhere", "from": ["main"], "message": message}, 404),
            ({"into": "main", "from": [], "message": message}, 422),
            ({"into": "main", "from": ["empty"], "message": message}, 422),
            ({"into": "main", "from": ["q", "nowhere"], "message": message}, 404),
            ({"into": "main", "from": ["q"]}, 422),
        ):
            assert status == (await browser.ask("POST", f"/api/sessions/{KEY}/merge", asked))[0], asked
        assert 2 == len((await browser.get(f"/api/sessions/{KEY}/tree"))["rows"])


def test_a_library_can_be_made_twice(home: Path) -> None:
    """Two canvases on one home do not disturb each other."""
    assert [place.key for place in Library(home).places()] == [place.key for place in Library(home).places()]


async def test_a_session_is_deleted_and_brought_back(home: Path) -> None:
    """Viewers are told; it is neither listed nor found; restored, it is as it was."""
    async with viewing(home) as (canvas, browser, viewer):
        canvas.finder.follow()
        gone = await browser.post(f"/api/sessions/{KEY}", method="DELETE")
        assert gone["undoUntil"] > 0
        await viewer.until(lambda: "deleted" in viewer.types())
        assert [] == (await browser.get("/api/sessions"))["sessions"]
        assert 404 == (await browser.ask("GET", f"/api/sessions/{KEY}/tree"))[0]
        assert 0 == (await browser.get("/api/search?q=hello"))["total"]
        assert KEY == (await browser.post(f"/api/sessions/{KEY}/restore"))["key"]
        assert 2 == len((await browser.get(f"/api/sessions/{KEY}/tree"))["rows"])
        status, body = await browser.ask("POST", f"/api/sessions/{KEY}/restore", {})
        assert status in (404, 409)
        with Session.open("s", home=home):
            status, body = await browser.ask("DELETE", f"/api/sessions/{KEY}")
            assert (409, "session_busy") == (status, body["detail"]["error"])


async def test_deleted_sessions_are_listed_restored_and_removed(home: Path) -> None:
    """With title and time; each deletion of a name on its own; followers of the list are notified."""
    async with viewing(home) as (canvas, browser, _):
        assert [] == (await browser.get("/api/deleted"))["sessions"]
        (listed,) = (await browser.get("/api/sessions"))["sessions"]
        first = await browser.post(f"/api/sessions/{KEY}", method="DELETE")
        with Session.open("s", home=home, sync="never") as session:
            session.append(il.UserMessage(content="The second of this name"))
        second = await browser.post(f"/api/sessions/{KEY}", method="DELETE")
        new, old = (await browser.get("/api/deleted"))["sessions"]
        assert ("The second of this name", second["at"]) == (new["title"], new["at"])
        assert [listed[name] for name in ("key", "title", "messages", "size", "source", "group")] == [
            old[name] for name in ("key", "title", "messages", "size", "source", "group")
        ]
        assert (first["at"], first["undoUntil"]) == (old["at"], old["undoUntil"])
        assert listed["title"] == (await browser.post(f"/api/sessions/{KEY}/restore", {"at": old["at"]}))["title"]
        status, body = await browser.ask("POST", f"/api/sessions/{KEY}/restore", {"at": new["at"]})
        assert (409, "name_taken") == (status, body["detail"]["error"])
        published = canvas.events.last
        assert {} == await browser.post(f"/api/deleted/{KEY}?at={new['at']}", method="DELETE")
        assert any(b"event:sources" in frame for frame in canvas.events.after(published) or ())
        assert [] == (await browser.get("/api/deleted"))["sessions"]
        assert 2 == len((await browser.get(f"/api/sessions/{KEY}/tree"))["rows"]), "the restored one stays"
        await browser.post(f"/api/sessions/{KEY}/view", {"folded": ["a"]}, method="PUT")
        gone = await browser.post(f"/api/sessions/{KEY}", method="DELETE")
        await browser.post(f"/api/deleted/{KEY}?at={gone['at']}", method="DELETE")
        assert [] == [*(home / "canvas" / "views").iterdir()], "and its view state"


async def test_a_deleted_session_that_is_not_there_cannot_be_removed(home: Path, tmp_path: Path) -> None:
    """Unknown and read-only keys, another time, no time, a time that is no number; two at once remove it once."""
    async with viewing(home) as (canvas, browser, _):
        (file,) = (await browser.post("/api/files?name=a.json", b'[{"role":"user","content":"Hi"}]', 201))["sessions"]
        gone = await browser.post(f"/api/sessions/{KEY}", method="DELETE")
        for path, status in (
            (f"/api/deleted/{KEY}?at=1", 404),
            (f"/api/deleted/own~main~none?at={gone['at']}", 404),
            (f"/api/deleted/{file['key']}?at={gone['at']}", 404),
            (f"/api/deleted/nothing?at={gone['at']}", 404),
            (f"/api/deleted/own~..~..?at={gone['at']}", 409),
            (f"/api/deleted/{KEY}", 422),
            (f"/api/deleted/{KEY}?at=now", 422),
        ):
            assert status == (await browser.ask("DELETE", path))[0], path
        assert 422 == (await browser.ask("POST", f"/api/sessions/{KEY}/restore", {"at": "now"}))[0]
        once = f"/api/deleted/{KEY}?at={gone['at']}"
        both = await asyncio.gather(browser.ask("DELETE", once), browser.ask("DELETE", once))
        assert 200 in {status for status, _ in both} and {status for status, _ in both} <= {200, 404}
        assert [] == (await browser.get("/api/deleted"))["sessions"]
        async with Browser(canvas.link(scope="read")) as reader:
            assert 403 == (await reader.ask("GET", "/api/deleted"))[0]


async def test_an_opened_file_is_only_closed(home: Path, tmp_path: Path) -> None:
    """The file itself is not touched."""
    file = tmp_path / "a.json"
    file.write_bytes(b'{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Hello there"}]}')
    async with browsing(home) as (canvas, browser):
        (place,), _ = canvas.library.open_path(file)
        assert {"key": place.key} == await browser.post(f"/api/sessions/{place.key}", method="DELETE")
        assert 404 == (await browser.ask("GET", f"/api/sessions/{place.key}/tree"))[0]
        assert file.exists()


async def test_the_model_that_is_named_comes_first(home: Path) -> None:
    """Enter takes the first: `debug/echo` is not `clawfice-debug/…`, and one in use does not stand before it."""
    async with browsing(home) as (_, browser):
        for name in ("debug/parrot-1", "debug/echo", "anthropic/claude-sonnet-4-5"):
            assert name == (await browser.get(f"/api/models?q={name}"))["models"][0]["name"]


async def test_a_model_is_local_by_the_address_of_its_server(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever provider it is: one of ours, one of models.toml, or Ollama on another machine."""
    monkeypatch.setenv("OLLAMA_HOST", "gpu.example:11434")
    monkeypatch.setenv("INTERLINGUA_HOME", str(home))
    places = ("attic", "http://[::1]:9000/v1"), ("far", "https://far.example/v1"), ("llama-cpp", ""), ("ollama", "")
    rows = "".join(
        f"[providers.{name}]\n"
        + (f'api = "openai-completions"\nbase_url = "{base}"\n' if base else "")
        + f'[[providers.{name}.models]]\nid = "heron"\n'
        for name, base in places
    )
    (home / "models.toml").write_text(rows)
    async with browsing(home, client=Client(connectors=builtin_connectors())) as (_, browser):
        models = (await browser.get("/api/models?q=heron"))["models"]
    found = {model["provider"]: model.get("local", False) for model in models}
    assert {"attic": True, "far": False, "llama-cpp": True, "ollama": False} == found
