"""Other programs' histories: followed as they grow, read and never written, with their sub-agents; and broken files."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlingua as il
from canvas.driving import Browser, browsing
from canvas.histories import (
    CHILD,
    PARENT,
    SESSION,
    append,
    claude,
    claude_sub_agent,
    claude_task,
    claude_turns,
    codex_session,
    codex_spawn,
    written,
)
from canvas.test_live import Viewer
from interlingua.canvas.library import ImportCache, Library
from interlingua.canvas.server import Canvas
from interlingua.sessions import Session, store_at
from interlingua.sessions.watching import FolderWatch


async def listed(browser: Browser, count: int) -> list[Any]:
    """The watched sessions, once there are so many."""
    async with asyncio.timeout(20):
        async for _ in browser.events("/api/events"):
            found = (await browser.get("/api/sessions?source=watch"))["sessions"]
            if len(found) >= count:
                return list(found)
    raise AssertionError


async def event_after(browser: Browser, type: str, cause: Callable[[], None]) -> Any:
    """What the list's viewers are told of a type, after something was done."""
    async with asyncio.timeout(20):
        async for event in browser.events("/api/events"):
            if event.type == "snapshot":
                cause()
            elif event.type == type:
                return event.data
    raise AssertionError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    monkeypatch.setenv("GEMINI_CLI_HOME", str(tmp_path))
    return tmp_path / "claude" / "projects" / "-home-someone-courier"


async def test_a_watched_session_grows_in_an_open_tree(project: Path, tmp_path: Path) -> None:
    """Each new line of the program comes as rows, without a reload; the file is only read."""
    path = project / f"{SESSION}.jsonl"
    lines = claude_turns(3)
    append(path, lines[:4])
    async with browsing(tmp_path / "home", watch=["claude-code"]) as (_, browser):
        [found] = await listed(browser, 1)
        assert (found["group"], found["project"], found["readOnly"]) == ("claude-code", "courier", True)
        tree = await browser.get(f"/api/sessions/{found['key']}/tree")
        viewer = Viewer(browser, found["key"])
        async with viewer.watching():
            for line in lines[4:]:
                append(path, [line])
            await viewer.until(lambda: viewer.head == "u11")
        assert [event.type for event in viewer.seen if event.type == "reload"] == []
        rows = {row["id"] for row in tree["rows"]} | viewer.rows.keys()
        whole = await browser.get(f"/api/sessions/{found['key']}/tree")
        assert {row["id"] for row in whole["rows"]} == rows
        assert path.read_bytes() == written(lines)
        sources = (await browser.get("/api/sources"))["sources"]
        [watched] = [source for source in sources if source["kind"] == "watch"]
        assert watched["watching"] and watched["sessions"] == 1 and "error" not in watched


async def test_a_line_that_is_being_written_waits_for_its_end(project: Path, tmp_path: Path) -> None:
    """Half a line is not an error of the file: the rest is coming."""
    path = project / f"{SESSION}.jsonl"
    data = written(claude_turns(1))
    path.parent.mkdir(parents=True)
    path.write_bytes(data[:-40])
    async with browsing(tmp_path / "home", watch=["claude-code"]) as (_, browser):
        [found] = await listed(browser, 1)
        viewer = Viewer(browser, found["key"])
        async with viewer.watching():
            with path.open("ab") as stream:
                stream.write(data[-40:])
            await viewer.until(lambda: viewer.head == "u3")
        # The rows are there a moment before the file's problems are known anew.
        async with asyncio.timeout(60):
            while "problems" in await browser.get(f"/api/sessions/{found['key']}/tree"):
                await asyncio.sleep(0.02)


@pytest.mark.parametrize("folder", ["", f"{SESSION}/subagents"], ids=["beside", "below"])
async def test_a_sub_agent_hangs_from_the_call_that_started_it(project: Path, tmp_path: Path, folder: str) -> None:
    """Claude Code: while it runs by the text it was given, later by the result that names it."""
    append(project / f"{SESSION}.jsonl", claude_task("count the tests"))
    async with browsing(tmp_path / "home", watch=["claude-code"]) as (_, browser):
        [parent] = await listed(browser, 1)
        viewer = Viewer(browser, parent["key"])
        async with viewer.watching():
            append(project / folder / "agent-a1b2c3d4.jsonl", claude_sub_agent("count the tests"))
            await viewer.until(lambda: viewer.rows.get("u1", {}).get("spawned"))
        found = {one["key"]: one for one in await listed(browser, 2)}
        [child] = viewer.rows["u1"]["spawned"]
        assert found[child]["spawnedBy"]["key"] == parent["key"]
        assert found[child]["spawnedBy"]["callId"] == "toolu_task"


async def test_a_sub_agent_of_another_process_hangs_from_the_call_that_started_it(tmp_path: Path) -> None:
    """As the gateway records them: each in a session of its own, which names the call; whoever watches sees it."""
    with Session.open("main", agent="gateway", home=tmp_path) as session:
        call = il.ToolCall(id="t1", name="Task", arguments={"prompt": "count the files"})
        entry = session.append(il.AssistantMessage(content=(call,)))
    async with browsing(tmp_path) as (_, browser):
        [parent] = (await browser.get("/api/sessions"))["sessions"]
        viewer = Viewer(browser, parent["key"])
        async with viewer.watching():
            origin = {"session": "main", "entry": entry.id, "callId": "t1"}
            about = il.Conversation(extra={"interlingua": {"spawnedBy": origin}})
            with Session.open("child", agent="gateway", home=tmp_path, about=about) as session:
                session.append(il.UserMessage(content="count the files"))
            await viewer.until(lambda: viewer.rows.get(entry.id, {}).get("spawned"))
        assert [key.endswith("child") for key in viewer.rows[entry.id]["spawned"]] == [True]


async def test_a_sub_agent_of_codex_hangs_from_its_call(project: Path, tmp_path: Path) -> None:
    """Codex CLI: the child's header names the parent's thread, the call's output names the child."""
    day = tmp_path / "codex" / "sessions" / "2026" / "03" / "01"
    append(day / f"rollout-2026-03-01T10-00-00-{PARENT}.jsonl", codex_session(PARENT) + codex_spawn(CHILD))
    source = {"subagent": {"thread_spawn": {"parent_thread_id": PARENT, "depth": 1}}}
    append(day / f"rollout-2026-03-01T10-00-05-{CHILD}.jsonl", codex_session(CHILD, source))
    async with browsing(tmp_path / "home", watch=["codex-cli"]) as (_, browser):
        found = await listed(browser, 2)
        [child] = [one for one in found if "spawnedBy" in one]
        [parent] = [one for one in found if "spawnedBy" not in one]
        assert child["spawnedBy"]["key"] == parent["key"]
        rows = (await browser.get(f"/api/sessions/{parent['key']}/tree"))["rows"]
        assert [row["spawned"] for row in rows if row.get("spawned")] == [[child["key"]]]


async def test_a_sub_agent_of_gemini_is_found_below_its_parent(project: Path, tmp_path: Path) -> None:
    """Gemini CLI: the folder of a sub-agent's file is named by the parent's session."""
    chats = tmp_path / ".gemini" / "tmp" / "courier" / "chats"
    (chats / SESSION).mkdir(parents=True)
    (chats.parent / ".project_root").write_text("/home/someone/courier\n")
    user = {"id": "m1", "timestamp": "2026-03-01T10:00:00.000Z", "type": "user", "content": "look around"}
    header = {"sessionId": SESSION, "projectHash": "ab" * 32, "startTime": "2026-03-01T10:00:00.000Z", "kind": "main"}
    (chats / f"session-2026-03-01T10-00-{SESSION[:8]}.jsonl").write_bytes(written([header, user]))
    child = {**header, "sessionId": CHILD, "kind": "subagent"}
    (chats / SESSION / f"{CHILD}.jsonl").write_bytes(written([child, user]))
    async with browsing(tmp_path / "home", watch=["gemini-cli"]) as (_, browser):
        found = await listed(browser, 2)
        [spawned] = [one for one in found if "spawnedBy" in one]
        [parent] = [one for one in found if "spawnedBy" not in one]
        assert spawned["spawnedBy"]["key"] == parent["key"]
        assert parent["project"] == "courier"


async def test_a_project_that_comes_later_is_followed(project: Path, tmp_path: Path) -> None:
    """Neither the program's folder nor the project's need be there at the start."""
    async with browsing(tmp_path / "home", watch=["claude-code"]) as (_, browser):
        (tmp_path / "claude").mkdir()
        append(project / f"{SESSION}.jsonl", claude_turns(1))
        [found] = await listed(browser, 1)
        assert found["messages"] == 4


async def test_a_history_that_was_written_anew_is_loaded_anew(project: Path, tmp_path: Path) -> None:
    """What no longer begins as it did cannot be appended: viewers are told to reload, and then see what is there."""
    path = project / f"{SESSION}.jsonl"
    append(path, claude_turns(2))
    async with browsing(tmp_path / "home", watch=["claude-code"]) as (_, browser):
        [found] = await listed(browser, 1)
        viewer = Viewer(browser, found["key"])
        async with viewer.watching():
            path.write_bytes(written([claude(0, "user", "something else")]))
            await viewer.until(lambda: any(event.type == "reload" for event in viewer.seen))
        tree = await browser.get(f"/api/sessions/{found['key']}/tree")
        assert [row["text"] for row in tree["rows"]] == ["something else"]


async def test_a_file_that_is_gone_leaves_the_list(project: Path, tmp_path: Path) -> None:
    """The page is told, and the session is no longer found."""
    path = project / f"{SESSION}.jsonl"
    append(path, claude_turns(1))
    async with browsing(tmp_path / "home", watch=["claude-code"]) as (_, browser):
        [found] = await listed(browser, 1)
        assert (await event_after(browser, "gone", path.unlink))["key"] == found["key"]
        assert (await browser.get("/api/sessions?source=watch"))["sessions"] == []


async def test_a_watched_session_is_never_written(project: Path, tmp_path: Path) -> None:
    """It cannot be deleted or revised; going on writes a linked fork of our own."""
    path = project / f"{SESSION}.jsonl"
    append(path, claude_turns(1))
    before = path.read_bytes()
    async with browsing(tmp_path / "home", watch=["claude-code"]) as (_, browser):
        [found] = await listed(browser, 1)
        base = f"/api/sessions/{found['key']}"
        assert (await browser.ask("DELETE", base))[0] == 409
        assert (await browser.ask("POST", f"{base}/entries/u3/revisions", {"text": "x", "version": 0}))[0] == 409
        started = await browser.post(f"{base}/runs", {"text": "go on", "models": ["debug/echo"]}, status=202)
        assert started["linked"] is True and started["session"]["source"] == "own"
    assert path.read_bytes() == before


async def test_a_folder_of_any_dialect_can_be_watched(tmp_path: Path) -> None:
    """Files of several formats, in folders of folders; what is no conversation is passed over."""
    folder = tmp_path / "logs"
    append(folder / "deep" / "a.jsonl", claude_turns(1))
    (folder / "b.json").write_text(json.dumps({"messages": [{"role": "user", "content": "hi"}], "model": "m"}))
    (folder / "c.json").write_text('{"name": "package"}')
    async with browsing(tmp_path / "home", watch=[str(folder)]) as (_, browser):
        found = await listed(browser, 2)
        assert {one["group"] for one in found} == {"logs"}
        again = (await browser.get("/api/sources"))["sources"][-1]
        assert (again["label"], again["sessions"]) == ("logs", 2)


async def test_the_same_keys_come_back_after_a_restart(project: Path, tmp_path: Path) -> None:
    """A deep link to a watched entry is good for ever."""
    append(project / f"{SESSION}.jsonl", claude_turns(1))
    async with browsing(tmp_path / "home", watch=["claude-code"]) as (_, browser):
        [found] = await listed(browser, 1)
    async with browsing(tmp_path / "home", watch=["claude-code"]) as (_, browser):
        await listed(browser, 1)
        assert (await browser.get(f"/api/sessions/{found['key']}/entries/u3"))["id"] == "u3"


async def test_sessions_of_other_processes_appear_in_the_list_of_a_database(tmp_path: Path) -> None:
    """As a gateway records them there: they come, grow, and are deleted."""
    address = f"sqlite:{tmp_path / 'sessions.db'}"
    store = store_at(address)
    with Session.open("old", agent="gateway", store=store) as session:
        session.append(il.UserMessage(content="Hello"))

    def write() -> None:
        with Session.open("new", agent="gateway", store=store) as session:
            session.append(il.UserMessage(content="Hello"))

    async with Canvas(Library(tmp_path, address), port=0) as canvas, Browser(canvas.link()) as browser:
        await asyncio.sleep(0.5)  # the first list
        shown = await event_after(browser, "session", write)
        assert ("own~gateway~new", 1) == (shown["key"], shown["messages"])
        assert 2 == (await event_after(browser, "session", write))["messages"]
        gone = await event_after(browser, "gone", lambda: store.delete("gateway", "old"))
        assert "own~gateway~old" == gone["key"]
    store.close()


async def test_sessions_of_other_processes_appear_in_the_list(tmp_path: Path) -> None:
    """What an agent, a host or the gateway writes into this home is announced as it comes."""

    def write() -> None:
        with Session.open("new", home=tmp_path) as session:
            session.append(il.UserMessage(content="Hello"))

    async with browsing(tmp_path) as (_, browser):
        assert (await event_after(browser, "session", write))["key"] == "own~main~new"


async def test_a_session_that_is_written_while_the_canvas_starts_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Viewers have a list before the canvas knows all files."""
    is_written, scan = asyncio.Event(), FolderWatch.scan

    async def late(self: FolderWatch) -> list[Path]:
        await is_written.wait()
        return await scan(self)

    def write() -> None:
        with Session.open("new", home=tmp_path) as session:
            session.append(il.UserMessage(content="Hello"))
        is_written.set()

    monkeypatch.setattr(FolderWatch, "scan", late)
    async with browsing(tmp_path) as (_, browser):
        assert (await event_after(browser, "session", write))["key"] == "own~main~new"


@given(st.integers(1, 3), st.lists(st.integers(0, 4000), max_size=5), st.booleans())
def test_a_session_that_grew_in_pieces_is_the_one_read_at_once(
    tmp_path_factory: pytest.TempPathFactory, turns: int, cuts: list[int], forks: bool
) -> None:
    """However the bytes of a file arrive, its session ends as the same tree at the same head."""
    lines = claude_turns(turns)
    if forks:  # the person went back to the first answer
        lines.append(claude(len(lines), "user", "another way", parentUuid="u3"))
    data = written(lines)
    folder = tmp_path_factory.mktemp("growing")
    path = folder / "s.jsonl"
    cache = ImportCache(folder / "pieces")
    for end in sorted({min(cut, len(data)) for cut in cuts if cut} | {len(data)}):
        path.write_bytes(data[:end])
        found = cache.open_path(path, "x", "claude-code", allow_partial=True)
    whole = ImportCache(folder / "whole").open_path(path, "x", "claude-code", allow_partial=True)
    assert found.conversations == whole.conversations and not found.problems
    [one] = whole.conversations
    pieces, at_once = (
        Session.open(one.id, agent="x", store=kept.store, read_only=True, create=False)
        for kept in (cache, ImportCache(folder / "whole"))
    )
    with pieces, at_once:
        assert pieces.conversation() == at_once.conversation()
        assert pieces.about == at_once.about and pieces.head == at_once.head


DOCUMENTS = {
    "openai-completions": {"model": "m", "messages": [{"role": "user", "content": f"q{n}"} for n in range(9)]},
    "sharegpt": {"conversations": [{"from": "human", "value": f"q{n}"} for n in range(9)]},
    "llm-canvas": {
        "canvas_id": "c",
        "created_at": 1.0,
        "nodes": {
            str(n): {
                "id": str(n),
                "message": {"role": "user", "content": f"q{n}"},
                "parent_id": str(n - 1) if n else None,
                "child_ids": [str(n + 1)],
            }
            for n in range(9)
        },
    },
}


@pytest.mark.parametrize("dialect", DOCUMENTS)
def test_a_broken_document_opens_up_to_the_line_that_is_wrong(dialect: str, tmp_path: Path) -> None:
    """What can be read is shown, and the finding is on its line."""
    lines = json.dumps(DOCUMENTS[dialect], indent=1).splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if "q5" in line)
    path = tmp_path / "broken.json"
    path.write_text("".join([*lines[:at], lines[at][: lines[at].index("q5")], "\n", *lines[at + 1 :]]))
    places, problems = Library(tmp_path / "home").open_path(path)
    [place] = places
    with Library(tmp_path / "home").open(place) as session:
        texts = [entry.message.content for entry in session.entries()]
    assert texts[:5] == [f"q{n}" for n in range(5)] and "q6" not in texts
    [problem] = problems
    assert problem.line in (at + 1, at + 2), problem
    assert "not JSON from here on" in problem.message


@pytest.mark.parametrize("at", [0, 3, 7])
def test_a_broken_line_is_named_and_the_others_open(at: int, tmp_path: Path) -> None:
    """One bad line costs itself alone."""
    lines = written(claude_turns(2)).splitlines(keepends=True)
    path = tmp_path / "broken.jsonl"
    path.write_bytes(b"".join([*lines[:at], lines[at][:50] + b"\n", *lines[at + 1 :]]))
    library = Library(tmp_path / "home")
    [place], problems = library.open_path(path)
    assert [problem.line for problem in problems] == [at + 1]
    with library.open(place) as session:
        assert len(list(session.entries())) == 7


async def test_a_change_during_a_listing_is_in_the_next_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Viewers are told of a change once; the list that they then ask for must not be the one that was being read."""
    async with browsing(tmp_path / "home") as (canvas, browser):
        library, path, places = canvas.library, tmp_path / "a.jsonl", Library.places
        append(path, claude_turns(1))

        def slow(self: Library) -> Any:
            yield from list(places(self))
            if path.exists() and not library.known():
                library.open_path(path)
                canvas.describer.forget("")

        monkeypatch.setattr(Library, "places", slow)
        assert (await browser.get("/api/sessions"))["sessions"] == []
        assert [one["source"] for one in (await browser.get("/api/sessions"))["sessions"]] == ["file"]


async def test_an_unreadable_history_is_reported_at_the_start(project: Path, tmp_path: Path) -> None:
    """A file that the program's format refuses is named in the list of sources, also if it was there before."""
    project.mkdir(parents=True)
    (project / f"{SESSION}.jsonl").write_bytes(b"\x1f\x8b\x08 damaged gzip")
    async with browsing(tmp_path / "home", watch=["claude-code"]) as (_, browser):
        async with asyncio.timeout(20):
            async for _event in browser.events("/api/events"):
                source = (await browser.get("/api/sources"))["sources"][-1]
                if "error" in source:
                    break
        assert source["error"].startswith(f"{SESSION}.jsonl: ")
