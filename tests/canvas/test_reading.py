"""What the page reads: sessions of every dialect, rows, contents, media, figures, and the lossless views."""

import asyncio
import base64
import gc
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import interlingua as il
from canvas.driving import browsing
from canvas.histories import claude
from interlingua.canvas import reading_routes, server
from interlingua.canvas.reading_routes import CollectorPause
from interlingua.sessions import Session
from interlingua.sessions.compaction import cut, finished
from interlingua.sessions.store import view_path

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


def usage(input: int, output: int, cost: float | None = None, **more: int) -> il.Usage:
    return il.Usage.of(input, output, cost=None if cost is None else il.Cost(total=cost), **more)


def weather(home: Path) -> str:
    """A session with two branches, tools, thinking, a picture, and its key."""
    about = il.Conversation(system="You know the weather.", model=il.ModelDescriptor(id="claude-sonnet-4-5"))
    with Session.open("weather", home=home, about=about) as session:
        session.append(il.UserMessage(content="Is it raining in Oslo?", timestamp=1000), id="q")
        call = il.ToolCall(id="c1", name="look", arguments={"city": "Oslo", "days": 2})
        thought = il.ThinkingBlock(thinking="I should look it up.", thinking_signature="c2ln")
        session.append(
            il.AssistantMessage(
                content=(thought, il.TextBlock(text="Let me look."), call),
                api="anthropic-messages",
                provider="anthropic",
                model="claude-sonnet-4-5",
                stop_reason="toolUse",
                usage=usage(100, 20, 0.01),
                timestamp=2000,
            ),
            id="a1",
        )
        session.journal("tool_start", call_id="c1", name="look")
        picture = il.ImageBlock(data=base64.b64encode(PNG).decode(), mime_type="image/png")
        session.append(
            il.ToolResultMessage(
                tool_call_id="c1",
                tool_name="look",
                content=(il.TextBlock(text="rain"), picture),
                is_error=False,
                timestamp=3000,
            ),
            id="r1",
        )
        answer = il.AssistantMessage(
            content="Yes, it rains.",
            api="anthropic-messages",
            provider="anthropic",
            model="claude-sonnet-4-5",
            stop_reason="stop",
            usage=usage(50, 10, 0.02, cache_read=120),
            timestamp=4000,
        )
        session.append(answer, id="a2")
        session.append(
            il.AssistantMessage(content="No.", provider="openai", model="gpt-5", stop_reason="stop"),
            id="b2",
            parent_id="r1",
        )
        session.set_branch("lease", "a2")
        session.note("a2", "right", rating=1)
        session.label("b2", "wrong")
    return "own~main~weather"


async def test_the_list_says_what_there_is(tmp_path: Path) -> None:
    """Title, models, cost, branches, and how much is not known."""
    key = weather(tmp_path)
    async with browsing(tmp_path) as (_, browser):
        listed = await browser.get("/api/sessions")
        (session,) = listed["sessions"]
        assert (key, "Is it raining in Oslo?") == (session["key"], session["title"])
        assert (5, 2, 0.03) == (session["messages"], session["branches"], pytest.approx(session["cost"]))
        assert ["claude-sonnet-4-5", "gpt-5"] == session["models"]
        assert [[0, 1, 2, 1], [1]] == session["shape"]
        assert (1, 1) == (session["rated"], session["notes"])
        assert [{"source": "own", "group": "main", "count": 1}] == listed["groups"]
        assert [] == (await browser.get("/api/sessions?q=tromsø"))["sessions"]
        assert 1 == len((await browser.get("/api/sessions?filter=rated"))["sessions"])
        assert 422 == (await browser.ask("GET", "/api/sessions?sort=colour"))[0]


async def test_the_first_rows_bring_the_stored_view(tmp_path: Path) -> None:
    """A file that cannot be read is no error: the session opens unfolded."""
    key, stored = weather(tmp_path), {"folded": ["a1"], "loops": True}
    async with browsing(tmp_path) as (_, browser):
        await browser.ask("PUT", f"/api/sessions/{key}/view", stored)
        for query in ("", "?limit=2", "?path=2", "?last=1"):
            assert stored == (await browser.get(f"/api/sessions/{key}/tree{query}"))["view"]
        assert "view" not in await browser.get(f"/api/sessions/{key}/tree?since=2")
        for damaged in ("{", "[]", '"x"', ""):
            view_path(tmp_path, key).write_text(damaged)
            assert {} == (await browser.get(f"/api/sessions/{key}/tree"))["view"]
            assert {} == await browser.get(f"/api/sessions/{key}/view")


async def test_a_canvas_brings_its_first_rows(tmp_path: Path) -> None:
    """As data in the page, which nothing inside can end; to a visitor who is logged in, and on the canvas alone."""
    key, block = weather(tmp_path), re.compile('<script type="application/json" id="first-rows">(.*?)</script>', re.S)
    with Session.open("weather", home=tmp_path) as session:
        session.append(il.UserMessage(content="</script><script>alert(1)</script><!--"), id="attack")
    async with browsing(tmp_path) as (canvas, browser), aiohttp.ClientSession() as stranger:
        for path in (f"/s/{key}", f"/s/{key}/canvas?at=q"):
            async with browser.http.get(f"{canvas.address}{path}") as response:
                found = block.search(page := await response.text())
                assert "no-store" == response.headers["Cache-Control"]
            sent = json.loads(found[1] if found else "{}")
            whole = await browser.get(f"/api/sessions/{key}/tree?limit={server.FIRST_ROWS}")
            assert {**whole, "session": None} == {**sent, "session": None}
            assert [whole["session"][name] for name in ("key", "title", "messages")] == [
                sent["session"][name] for name in ("key", "title", "messages")
            ]
            assert 2 == page.count("<script") == page.count("</script>")
        for path in ("/", f"/s/{key}/transcript", "/s/own~main~missing", "/s/..%2f..%2fetc", '/s/"<x>'):
            async with browser.http.get(f"{canvas.address}{path}") as response:
                assert not block.search(await response.text()), path
        async with stranger.get(f"{canvas.address}/s/{key}") as response:
            assert 200 == response.status and not block.search(await response.text())


async def test_a_canvas_does_not_wait_until_its_session_was_read(tmp_path: Path) -> None:
    """What takes the whole session to know, as its cost, follows with the events."""
    key = weather(tmp_path)
    async with browsing(tmp_path) as (canvas, browser):
        await canvas.finder.stop()
        canvas.finder._indexes.clear()  # nothing is known of the session yet
        place = canvas.library.place(key)
        assert canvas.describe(place, wait=False).cost is None
        async with browser.http.get(f"{canvas.address}/s/{key}") as response:
            assert '"cost"' not in (await response.text()).partition('"session":')[2]
        async with asyncio.timeout(10):
            snapshot = await anext(aiter(browser.events(f"/api/sessions/{key}/events")))
        assert "snapshot" == snapshot.type and pytest.approx(0.03) == snapshot.data["session"]["cost"]


async def test_a_canvas_is_sent_while_its_session_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser loads the page's files meanwhile; the rows follow in the same answer."""
    key, read, opened = weather(tmp_path), reading_routes.tree_page, asyncio.Event()

    async def slow(*given: Any, **more: Any) -> Any:
        await opened.wait()
        return await read(*given, **more)

    monkeypatch.setattr(reading_routes, "tree_page", slow)
    monkeypatch.setattr(server, "FIRST_ROWS_WAIT", 60)
    async with browsing(tmp_path) as (canvas, browser), browser.http.get(f"{canvas.address}/s/{key}") as response:
        begun = await response.content.readany()
        assert b'src="/assets/' in begun and b"first-rows" not in begun
        opened.set()
        assert (await response.content.read()).count(b"first-rows") == 1


async def test_the_tree_is_sent_as_small_rows(tmp_path: Path) -> None:
    """In the order of the log, page by page, without contents."""
    key = weather(tmp_path)
    async with browsing(tmp_path) as (_, browser):
        page = await browser.get(f"/api/sessions/{key}/tree")
        rows = {row["id"]: row for row in page["rows"]}
        assert ["q", "a1", "r1", "a2", "b2"] == list(rows)
        assert [None, "q", "a1", "r1", "r1"] == [row.get("parent") for row in rows.values()]
        assert ("look", "Oslo") == (rows["a1"]["calls"][0]["name"], rows["a1"]["calls"][0]["arg"])
        assert (1, 0.01, "toolUse") == (rows["a1"]["thinking"], rows["a1"]["cost"], rows["a1"]["stop"])
        assert {"id": "c1", "name": "look"} == rows["r1"]["call"]
        assert (1, "rain") == (rows["r1"]["images"], rows["r1"]["text"])
        assert (1, 2, "wrong") == (rows["a2"]["rating"], rows["a2"]["notes"] + 1, rows["b2"]["label"])
        assert "cost" not in rows["b2"], "a cost that is not known is not there"
        assert ("b2", "lease", "a2") == (page["head"], page["branches"][0]["name"], page["branches"][0]["head"])
        seen, since = [], 0
        while since is not None:
            part = await browser.get(f"/api/sessions/{key}/tree?since={since}&limit=2")
            seen += [row["id"] for row in part["rows"]]
            since = part.get("next")
        assert list(rows) == seen
        assert ["a2", "b2"] == [r["id"] for r in (await browser.get(f"/api/sessions/{key}/tree?last=5"))["rows"]][:2]


async def test_contents_come_by_page_and_media_by_hash(tmp_path: Path) -> None:
    """No data of a picture is in any JSON."""
    key = weather(tmp_path)
    async with browsing(tmp_path) as (_, browser):
        page = await browser.get(f"/api/sessions/{key}/entries?to=a2&last=3")
        assert ["a1", "r1", "a2"] == [entry["id"] for entry in page["entries"]] and page["more"]
        thinking, text, call = page["entries"][0]["message"]["content"]
        assert ("thinking", True, "Let me look.") == (thinking["type"], thinking["signed"], text["text"])
        assert {"city": "Oslo", "days": 2} == call["arguments"]
        picture = page["entries"][1]["message"]["content"][1]
        assert ("image/png", 1, 1, len(PNG)) == tuple(picture[k] for k in ("mimeType", "width", "height", "size"))
        assert base64.b64encode(PNG).decode() not in json.dumps(page)
        assert picture["src"].startswith(f"/blobs/{hashlib.sha256(PNG).hexdigest()}")
        status, data = await browser.ask("GET", picture["src"])
        assert (200, PNG) == (status, data)
        status, data = await browser.ask("GET", picture["src"], Range="bytes=0-3")
        assert (206, PNG[:4]) == (status, data)
        chosen = await browser.get(f"/api/sessions/{key}/entries?ids=b2,q")
        assert ["b2", "q"] == [entry["id"] for entry in chosen["entries"]]
        before = await browser.get(f"/api/sessions/{key}/entries?before=a1&last=9")
        assert ["q"] == [entry["id"] for entry in before["entries"]]
        notes = (await browser.get(f"/api/sessions/{key}/entries/a2"))["notes"]
        assert [("right", 1)] == [(note["text"], note["rating"]) for note in notes]
        raw = await browser.get(f"/api/sessions/{key}/entries/a1/raw")
        assert "c2ln" in raw["text"] and raw["total"] == len(raw["text"])


async def test_large_media_are_read_from_the_blobs(tmp_path: Path) -> None:
    """A session keeps them beside its lines; the page sees no difference."""
    data = PNG + b"\0" * 100_000
    with Session.open("s", home=tmp_path) as session:
        block = il.ImageBlock(data=base64.b64encode(data).decode(), mime_type="image/png")
        session.append(il.UserMessage(content=(block,)), id="q")
    async with browsing(tmp_path) as (_, browser):
        entry = await browser.get("/api/sessions/own~main~s/entries/q")
        (picture,) = entry["message"]["content"]
        assert (1, 1, len(data)) == (picture["width"], picture["height"], picture["size"])
        assert (200, data) == await browser.ask("GET", picture["src"])


async def test_a_long_text_is_cut_with_its_number_and_can_be_read_on(tmp_path: Path) -> None:
    """20 MB in one message: the page gets the beginning, and the rest in pieces."""
    text = "".join(f"line {at}\n" for at in range(2_000_000))
    with Session.open("s", home=tmp_path) as session:
        session.append(il.UserMessage(content=text), id="q")
    async with browsing(tmp_path) as (_, browser):
        tree = await browser.get("/api/sessions/own~main~s/tree")
        assert len(json.dumps(tree)) < 2_000 and tree["rows"][0]["chars"] == len(text)
        (block,) = (await browser.get("/api/sessions/own~main~s/entries/q"))["message"]["content"]
        assert len(text) == len(block["text"]) + block["more"]
        part = await browser.get(
            f"/api/sessions/own~main~s/entries/q/text?block=0&offset={len(block['text'])}&limit=50"
        )
        assert text[len(block["text"]) :][:50] == part["text"]
        assert 404 == (await browser.ask("GET", "/api/sessions/own~main~s/entries/q/text?block=7"))[0]


async def test_malformed_arguments_are_shown_as_they_came(tmp_path: Path) -> None:
    """With what could be made of them; such a call never runs."""
    call = il.ToolCall(id="c", name="f", arguments={}, arguments_text='{"a": 1, "b": [2', parse_error="EOF")
    with Session.open("s", home=tmp_path) as session:
        session.append(il.AssistantMessage(content=(call,), stop_reason="toolUse"), id="a")
    async with browsing(tmp_path) as (_, browser):
        (block,) = (await browser.get("/api/sessions/own~main~s/entries/a"))["message"]["content"]
        assert ('{"a": 1, "b": [2', "EOF") == (block["argumentsText"], block["parseError"])
        assert {"a": 1, "b": [2]} == block["made"]
        assert (await browser.get("/api/sessions/own~main~s/tree"))["rows"][0]["calls"][0]["bad"]


async def test_figures_are_summed_and_unknown_stays_unknown(tmp_path: Path) -> None:
    """Totals per branch; an answer without a price is counted, not taken as free."""
    key = weather(tmp_path)
    async with browsing(tmp_path) as (_, browser):
        path = await browser.get(f"/api/sessions/{key}/stats?to=a2")
        assert pytest.approx(0.03) == path["cost"] and path.get("unpriced", 0) == 0
        assert {"look": 1} == path["tools"]
        whole = await browser.get(f"/api/sessions/{key}/stats")
        assert {"user": 1, "assistant": 3, "toolResult": 1} == whole["messages"]
        other = await browser.get(f"/api/sessions/{key}/stats?to=b2")
        assert pytest.approx(0.01) == other["cost"]
        points = (await browser.get(f"/api/sessions/{key}/timeline?to=a2"))["points"]
        assert ["q", "a1", "r1", "a2"] == [point["id"] for point in points]


async def test_the_wire_view_marks_each_loss_where_it_applies(tmp_path: Path) -> None:
    """What is stored, what is sent, and the losses between, by entry and block."""
    key = weather(tmp_path)
    async with browsing(tmp_path) as (_, browser):
        view = await browser.get(f"/api/sessions/{key}/wire?as=openai-completions&to=a2&kept=1")
        by_place = {(loss.get("entry"), loss["what"]): loss for loss in view["losses"]}
        thought = by_place["a1", "thinking"]
        assert ("dropped", 0) == (thought["severity"], thought["block"])
        assert "anthropic-messages" in thought["keptBy"]
        sent = "\n".join(line["text"] for line in view["sent"])
        assert "I should look it up." not in sent and "Is it raining in Oslo?" in sent
        stored = [line for line in view["stored"] if thought["n"] in line.get("loss", ())]
        assert stored and stored[0]["entry"] == "a1"
        came = [line for line in view["sent"] if "Is it raining" in line["text"]]
        assert came[0]["entry"] == "q" and came[0]["from"].startswith("$.messages[0]")
        assert [loss["n"] for loss in view["losses"]] == list(range(1, len(view["losses"]) + 1))
        assert 422 == (await browser.ask("GET", f"/api/sessions/{key}/wire?as=esperanto"))[0]


@pytest.mark.parametrize("part", ["answer", "stream"])
async def test_an_answer_can_be_seen_on_the_wire_too(tmp_path: Path, part: str) -> None:
    """As a whole, or as the stream it would come in."""
    key = weather(tmp_path)
    async with browsing(tmp_path) as (_, browser):
        view = await browser.get(f"/api/sessions/{key}/wire?as=anthropic-messages&to=a2&part={part}")
        assert "Yes, it rains." in "\n".join(line["text"] for line in view["sent"]) or part == "stream"
        status, body = await browser.ask("GET", f"/api/sessions/{key}/wire?as=anthropic-messages&to=q&part={part}")
        assert (422, "query.to") == (status, body["detail"]["path"])


async def test_the_doctor_finds_what_a_model_would_refuse(tmp_path: Path) -> None:
    """On the entry that it is about, with what to do."""
    with Session.open("s", home=tmp_path) as session:
        session.append(il.UserMessage(content="q"), id="q")
        call = il.ToolCall(id="c", name="f", arguments={})
        session.append(il.AssistantMessage(content=(call,), stop_reason="toolUse"), id="a")
        session.append(il.UserMessage(content="and?"), id="q2")
    async with browsing(tmp_path) as (_, browser):
        for chosen in ("", "?model=anthropic-messages", "?model=debug/parrot-1"):
            view = await browser.get(f"/api/sessions/own~main~s/doctor{chosen}")
            assert any(found.get("entry") in ("a", "q2") and found["remedy"] for found in view["findings"]), chosen
        assert 422 == (await browser.ask("GET", "/api/sessions/own~main~s/doctor?model=nobody/nothing"))[0]


async def test_the_context_ruler_says_what_the_model_read(tmp_path: Path) -> None:
    """After a compaction the summary and what was kept, nothing else; the provider's count where there is one."""
    with Session.open("s", home=tmp_path) as session:
        for at in range(6):
            session.append(il.UserMessage(content=f"Question {at} " + "word " * 400), id=f"q{at}")
            session.append(
                il.AssistantMessage(content="word " * 400, model="m", usage=usage(700 * (at + 1), 400)), id=f"a{at}"
            )
        found = cut(session.context_entries(), keep_recent_tokens=1000)
        summary, details = finished(found, "They asked.")
        session.compact(summary, found.first_kept, tokens_before=4200, details=details)
        session.append(il.UserMessage(content="And now?"), id="last")
        session.append(il.AssistantMessage(content="Now.", model="m", usage=usage(900, 5, cache_read=300)), id="end")
    async with browsing(tmp_path) as (_, browser):
        before = await browser.get("/api/sessions/own~main~s/context?to=a5")
        assert (4200, True, 0) == (before["total"], before["exact"], before.get("left", 0))
        after = await browser.get("/api/sessions/own~main~s/context?to=end")
        assert (1200, True, 300) == (after["total"], after["exact"], after["cached"])
        assert "summary" == after["segments"][0]["kind"] and after["left"] > 0
        assert 4200 == after["compactions"][0]["before"]
        assert [f"a{at}" for at in range(6)] + ["end"] == [reading["entry"] for reading in after["answers"]]


async def test_the_cache_view_says_what_broke_the_prefix(tmp_path: Path) -> None:
    """Two requests share what was appended to; an edit before is found and named."""
    with Session.open("s", home=tmp_path) as session:
        model: dict[str, Any] = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-sonnet-4-5"}
        session.append(il.UserMessage(content="One " * 50), id="q1")
        session.append(il.AssistantMessage(content="1", stop_reason="stop", **model), id="a1")
        session.append(il.UserMessage(content="Two " * 50), id="q2")
        session.append(il.AssistantMessage(content="2", stop_reason="stop", **model), id="a2")
        session.compact("a summary", "q2")
        session.append(il.UserMessage(content="Three"), id="q3")
        session.append(il.AssistantMessage(content="3", stop_reason="stop", **model), id="a3")
    async with browsing(tmp_path) as (_, browser):
        first, second, third = (await browser.get("/api/sessions/own~main~s/cache"))["answers"]
        assert (0, None) == (first["shared"], first.get("broke"))
        assert second["shared"] == first["bytes"] and "broke" not in second
        assert third["shared"] < second["bytes"] and third["broke"]["path"] == "$.messages[0]"


async def test_records_of_a_program_are_no_messages(tmp_path: Path) -> None:
    """Two sessions that differ in their records alone are equal; records have no number and break no view."""
    for name in "one", "two":
        with Session.open(name, home=tmp_path) as session:
            session.append(il.CustomMessage(role="mode", fields={"of": name}))
            session.append(il.UserMessage(content="Is it raining?"), id="q")
            session.append(il.CustomMessage(role="snapshot", fields={"raining": name}), id="record")
            session.append(il.AssistantMessage(content="It is raining.", model="m", usage=usage(9, 5)), id="a")
    async with browsing(tmp_path) as (canvas, browser):
        found = await browser.get("/api/compare?a=own~main~one&b=own~main~two")
        assert (2, [], 0) == (found["common"], found["rows"], found["a"]["after"])
        assert [2] == [one["number"] for one in (await browser.get("/api/sessions/own~main~one/context"))["answers"]]
        assert ["a"] == [one["entry"] for one in (await browser.get("/api/sessions/own~main~one/cache"))["answers"]]
        wire = await browser.get("/api/sessions/own~main~one/wire?as=openai-completions")
        assert [] == [one for one in wire["losses"] if one["severity"] == "dropped"] and wire["hidden"] >= 2
        assert [] == (await browser.get("/api/sessions/own~main~one/doctor?model=openai/gpt-5")).get("findings", [])
        read = await browser.post("/api/sessions/own~main~one/handover", {"models": ["debug/parrot-1"]})
        assert (2, 0) == (read["reads"]["messages"], read["models"][0]["counts"].get("dropped", 0))
        canvas.finder.follow()
        hits = (await browser.get("/api/search?q=raining&in=own~main~one"))["hits"]
        assert {"q": 1, "a": 2} == {hit["entry"]: hit["number"] for hit in hits if "number" in hit}


ANSWER: dict[str, Any] = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-sonnet-4-5"}


def long(home: Path, turns: int, compacted: int | None = None) -> str:
    """A session of so many turns with a call each, and its key."""
    with Session.open("long", home=home, sync="never") as session:
        for at in range(turns):
            session.append(il.UserMessage(content=f"question {at}"), id=f"q{at}")
            call = il.ToolCall(id=f"c{at}", name="look", arguments={"at": at})
            thought = il.ThinkingBlock(thinking=f"thought {at}")
            session.append(il.AssistantMessage(content=(thought, call), stop_reason="toolUse", **ANSWER), id=f"u{at}")
            result = il.ToolResultMessage(tool_call_id=f"c{at}", tool_name="look", content=f"seen {at}", is_error=False)
            session.append(result, id=f"r{at}")
            counted = usage(100 + at, 20, cache_read=at)
            session.append(
                il.AssistantMessage(content=f"answer {at}", stop_reason="stop", usage=counted, **ANSWER), id=f"a{at}"
            )
            if at == compacted:
                session.compact("a summary", f"q{at}")
    return "own~main~long"


@pytest.mark.parametrize("compacted", [None, 1, 10])
async def test_the_end_of_a_long_path_is_read_as_in_the_whole(tmp_path: Path, compacted: int | None) -> None:
    """With `last`, context, wire and cache have the end of what they have without it, and say that it is a part."""
    key = long(tmp_path, 12, compacted)
    async with browsing(tmp_path) as (_, browser):
        for last in (1, 2, 5, 6, 7, 15, 40, 60):
            for to in ("", "&to=a11", "&to=r11", "&to=a6"):
                views = [f"/api/sessions/{key}/{view}?{to}" for view in ("context", "wire", "cache")]
                wholes = [await browser.get(view) for view in views]
                parts = [await browser.get(f"{view}&last={last}") for view in views]
                for whole, part in zip(wholes, parts, strict=True):
                    assert part == whole or part["partial"], (last, to)
                    assert "partial" not in whole
                context, wire, cache = parts
                assert last >= 15 or all(part.get("partial") for part in parts), (last, to)
                if context.get("partial"):
                    segments = [one for one in context["segments"] if one["kind"] == "message"]
                    assert segments == wholes[0]["segments"][len(wholes[0]["segments"]) - len(segments) :], (last, to)
                    answers = context.get("answers", [])
                    assert answers == wholes[0]["answers"][len(wholes[0]["answers"]) - len(answers) :], (last, to)
                    assert len(segments) <= last
                if wire.get("partial"):
                    shown = {line["entry"] for line in wire["sent"] if "entry" in line}
                    assert texts(wire["sent"], shown) == texts(wholes[1]["sent"], shown), (last, to)
                    assert texts(wire["stored"], shown) == texts(wholes[1]["stored"], shown)
                if cache.get("partial"):
                    rows = {row["entry"]: row for row in wholes[2]["answers"]}
                    for row in cache["answers"]:
                        fresh = [one["bytes"] - one["shared"] for one in (row, rows[row["entry"]])]
                        assert "broke" in rows[row["entry"]] or fresh[0] == fresh[1], (last, to)


def texts(lines: list[dict[str, Any]], entries: set[str]) -> list[tuple[str, str]]:
    return [(line["entry"], line["text"]) for line in lines if line.get("entry") in entries]


async def test_losses_of_messages_that_are_not_shown_are_counted(tmp_path: Path) -> None:
    """One stands for all of its kind, so that a long conversation has no list of many thousands."""
    key = long(tmp_path, 120)
    async with browsing(tmp_path) as (_, browser):
        view = await browser.get(f"/api/sessions/{key}/wire?as=openai-completions")
        thoughts = [loss for loss in view["losses"] if loss["what"] == "thinking"]
        assert 120 == sum(loss.get("times", 1) for loss in thoughts)
        assert "u0" == next(loss["entry"] for loss in thoughts if loss.get("times", 1) > 1)
        assert len(thoughts) < 60 and [loss["n"] for loss in view["losses"]] == [*range(1, len(view["losses"]) + 1)]
        assert view["hidden"] == sum(loss.get("times", 1) for loss in view["losses"] if loss["severity"] == "record")


async def test_segments_of_a_long_context_are_joined_far_from_its_end(tmp_path: Path) -> None:
    """Their sum stays; the latest ones are apart."""
    key = long(tmp_path, 600)
    async with browsing(tmp_path) as (_, browser):
        view = await browser.get(f"/api/sessions/{key}/context?to=r599")
        segments = view["segments"]
        assert 600 * 4 - 1 == sum(one.get("messages", 1) for one in segments)
        assert 1000 < len(segments) < 2300 and "r599" == segments[-1]["entry"]
        assert any(one.get("messages", 1) > 1 and "entry" not in one for one in segments[:1000])
        apart = await browser.get(f"/api/sessions/{key}/context?to=r599&last=1000")
        assert apart["segments"] == segments[-len(apart["segments"]) :]


async def test_who_reads_few_messages_does_not_wait_for_who_reads_many(tmp_path: Path) -> None:
    key = weather(tmp_path)
    async with browsing(tmp_path) as (canvas, browser), asyncio.timeout(30):
        while not canvas.inspections.locked():
            await canvas.inspections.acquire()
        for view in ("context", "wire", "cache", "doctor", "stats", "context?last=2"):
            assert await browser.get(f"/api/sessions/{key}/{view}")


async def test_two_branches_are_compared_message_by_message(tmp_path: Path) -> None:
    """From where they part, word by word, with cost."""
    key = weather(tmp_path)
    async with browsing(tmp_path) as (_, browser):
        found = await browser.get(f"/api/compare?a={key}&aTo=a2&b={key}&bTo=b2")
        assert (3, {"a": "r1", "b": "r1"}) == (found["common"], found["fork"])
        (row,) = found["rows"]
        assert ("changed", "a2", "b2") == (row["kind"], row["a"], row["b"])
        assert [("Yes, it rains", "a"), ("No", "b"), (".", "both")] == [(s["text"], s["in"]) for s in row["spans"]]
        assert {"a": 0.02} == row["cost"]
        assert ("lease", 1) == (found["a"]["branch"], found["a"]["after"])
        assert 0.02 == found["a"]["totals"]["cost"] and "cost" not in found["b"]["totals"]


async def test_arguments_are_compared_key_by_key(tmp_path: Path) -> None:
    """And what only one side has stands alone."""
    with Session.open("s", home=tmp_path) as session:
        session.append(il.UserMessage(content="go"), id="q")
        for id, arguments in (("a", {"path": "x", "n": 1}), ("b", {"path": "y", "n": 1})):
            call = il.ToolCall(id="c", name="read", arguments=arguments)
            session.append(il.AssistantMessage(content=(call,)), id=id, parent_id="q")
        session.append(il.UserMessage(content="only in b"), id="more")
    async with browsing(tmp_path) as (_, browser):
        found = await browser.get("/api/compare?a=own~main~s&aTo=a&b=own~main~s&bTo=more")
        changed, only = found["rows"]
        arguments = {arg["key"]: arg["same"] for arg in changed["calls"][0]["args"]}
        assert {"path": False, "n": True} == arguments
        assert ("onlyB", "more") == (only["kind"], only["b"])


DIALECT_SAMPLES: dict[str, Any] = {
    "anthropic-messages": {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Hello"}]},
    "openai-completions": {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "stream_options": {}},
    "openai-responses": {"model": "m", "input": [{"role": "user", "content": "Hello"}]},
    "google-generative-ai": {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
    "llm-canvas": {
        "canvas_id": "c",
        "nodes": {
            "n": {
                "id": "n",
                "message": {"role": "user", "content": "Hello"},
                "parent_id": None,
                "child_ids": [],
                "meta": None,
            }
        },
    },
}


@pytest.mark.parametrize("dialect", DIALECT_SAMPLES)
async def test_a_dropped_file_of_any_dialect_opens(tmp_path: Path, dialect: str) -> None:
    """Read-only, with what it was written as; its address stays the same over a restart."""
    data = json.dumps(DIALECT_SAMPLES[dialect]).encode()
    async with browsing(tmp_path) as (_, browser):
        opened = await browser.post(f"/api/files?name=a.json&dialect={dialect}", data, status=201)
        (session,) = opened["sessions"]
        assert (dialect, True) == (session["writtenAs"], session["readOnly"])
        page = await browser.get(f"/api/sessions/{session['key']}/tree")
        assert "Hello" in [row["text"] for row in page["rows"]]
    async with browsing(tmp_path) as (_, browser):
        again = await browser.get(f"/api/sessions/{session['key']}/tree")
        assert [row["id"] for row in page["rows"]] == [row["id"] for row in again["rows"]]


async def test_a_broken_file_opens_with_findings_on_its_lines(tmp_path: Path) -> None:
    """What can be read is shown, what cannot is a row that says why."""
    lines = [
        b'{"role":"session","version":1,"id":"s"}',
        b'{"role":"user","content":"q","id":"q"}',
        b'{"role":"assistant","content":',
        b'{"role":"assistant","content":"a","id":"a","parentId":"q"}',
    ]
    async with browsing(tmp_path) as (_, browser):
        opened = await browser.post("/api/files?name=broken.jsonl", b"\n".join(lines) + b"\n", status=201)
        (session,) = opened["sessions"]
        assert [3] == [problem["line"] for problem in opened["problems"]]
        page = await browser.get(f"/api/sessions/{session['key']}/tree")
        assert ["q", "line-3", "a"] == [row["id"] for row in page["rows"]]
        assert page["rows"][1]["bad"] and page["rows"][1]["text"].startswith('{"role":"assistant"')
        assert ("q", 3) == (page["problems"][0]["after"], page["problems"][0]["line"])
        status, body = await browser.ask("POST", "/api/files?name=x.bin", b"\x00\x01\x02")
        assert (422, "invalid") == (status, body["detail"]["error"])


async def test_unknown_blocks_and_roles_are_shown_raw(tmp_path: Path) -> None:
    """With the name that their own wire gives them."""
    block = il.OpaqueBlock(dialect="anthropic-messages", value={"type": "hologram", "data": [1]})
    with Session.open("s", home=tmp_path) as session:
        session.append(il.AssistantMessage(content=(block,)), id="a")
        session.append(il.CustomMessage("weather-report", {"sky": "blue"}), id="c")
    async with browsing(tmp_path) as (_, browser):
        shown = (await browser.get("/api/sessions/own~main~s/entries?ids=a,c"))["entries"]
        assert {"type": "opaque", "dialect": "anthropic-messages", "name": "hologram", "value": block.value} == (
            shown[0]["message"]["content"][0]
        )
        assert ("weather-report", {"sky": "blue"}) == (shown[1]["message"]["role"], shown[1]["message"]["fields"])


async def test_what_the_page_keeps_is_kept_over_a_restart(tmp_path: Path) -> None:
    """Positions and folds; too much of it is refused."""
    key = weather(tmp_path)
    async with browsing(tmp_path) as (_, browser):
        assert {} == await browser.get(f"/api/sessions/{key}/view")
        await browser.post(f"/api/sessions/{key}/view", {"folds": ["a1"]}, method="PUT")
        status, body = await browser.ask("PUT", f"/api/sessions/{key}/view", {"x": "y" * 300_000})
        assert (413, "too_large") == (status, body["detail"]["error"])
    async with browsing(tmp_path) as (_, browser):
        assert {"folds": ["a1"]} == await browser.get(f"/api/sessions/{key}/view")


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/sessions/own~main~nothing/tree", 404, "not_found"),
        ("/api/sessions/file~nothing/tree", 404, "session_not_found"),
        ("/api/sessions/own~main~weather/entries/nothing", 404, "entry_not_found"),
        ("/api/sessions/own~main~weather/tree?limit=0", 422, "invalid"),
        ("/api/sessions/own~main~weather/tree?since=abc", 422, "invalid"),
        ("/api/nothing", 404, "not_found"),
        ("/blobs/zz?in=own~main~weather/q", 404, "blob_not_found"),
        ("/blobs/" + "0" * 64 + "?in=own~main~weather/q", 404, "blob_not_found"),
        ("/blobs/" + "0" * 64, 422, "invalid"),
    ],
)
async def test_what_is_not_there_is_said_in_one_shape(tmp_path: Path, path: str, status: int, code: str) -> None:
    """Code, message, and where it applies a path and a remedy."""
    weather(tmp_path)
    async with browsing(tmp_path) as (_, browser):
        found, body = await browser.ask("GET", path)
        assert (status, code) == (found, body["detail"]["error"])
        assert body["detail"]["message"] and "Traceback" not in json.dumps(body)


async def test_words_are_found_in_all_sessions_and_in_one(tmp_path: Path) -> None:
    """Folded and unrendered text too; with filters; in opened files as well."""
    key = weather(tmp_path)
    with Session.open("other", home=tmp_path) as session:
        session.append(il.UserMessage(content="Will it rain tomorrow? I should look."), id="z")
    async with browsing(tmp_path) as (canvas, browser):
        body = b'{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"look at the file"}]}'
        (opened,) = (await browser.post("/api/files?name=a.json", body, status=201))["sessions"]
        canvas.finder.follow()
        found = await browser.get("/api/search?q=look")
        assert {key, "own~main~other", opened["key"]} == {hit["key"] for hit in found["hits"]}
        assert {"thinking", "text", "arguments"} <= {hit["kind"] for hit in found["hits"]}
        within = await browser.get(f"/api/search?q=look&in={key}")
        assert ["a1"] * 3 == [hit["entry"] for hit in within["hits"]] and within["hits"][0]["number"] == 2
        assert "look" in [part["text"] for part in within["hits"][0]["snippet"] if part.get("hit")]
        assert ["look"] == [hit.get("tool") for hit in (await browser.get("/api/search?q=oslo&tool=look"))["hits"]]
        assert [opened["key"]] == [hit["key"] for hit in (await browser.get("/api/search?q=look&source=file"))["hits"]]
        assert 422 == (await browser.ask("GET", "/api/search?q=x&limit=0"))[0]
        offered = await browser.get("/api/filters")
        assert {"assistant", "user"} <= set(offered["roles"]) and "look" in offered["tools"]
        assert "ready" == found["index"]["state"] or found["index"]["total"] >= 2


async def test_an_installed_package_says_how_its_tools_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the manifest in its folder, without running its code; the home folder wins, what is broken is skipped."""
    site, home = tmp_path / "site", tmp_path / "home"
    manifest = "interlingua.plugin.json"

    def package(name: str, views: Any) -> None:
        folder = site / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("raise SystemExit('must not run')")
        (folder / manifest).write_text(json.dumps({"id": name, "toolViews": views}))

    package("tides_pkg", {"tide": {"icon": "globe", "label": "Tides"}, "both": {"label": "of the package"}})
    package("deep_pkg", {"deep": {"label": "Deep", "result": "json"}, "tide": {"label": "a later package"}})
    package("broken_pkg", {"broken": {"result": "no such kind"}})
    (site / "plain_module.py").write_text("raise SystemExit('must not run')")
    info = site / "tides_pkg-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tides-pkg\nVersion: 1.0\n")
    points = {
        "a": "tides_pkg:register",
        "b": "deep_pkg.inner.plugin:register",
        "c": "broken_pkg:register",
        "d": "plain_module:register",
        "e": "no_such_module_at_all:register",
        "f": "../../etc:register",
        "g": ":",
    }
    listed = "".join(f"{name} = {value}\n" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[interlingua.plugins]\n{listed}")
    own = home / "plugins" / "own"
    own.mkdir(parents=True)
    (own / manifest).write_text(json.dumps({"id": "own", "toolViews": {"both": {"label": "of the home"}}}))
    monkeypatch.syspath_prepend(str(site))
    async with browsing(home) as (_, browser):
        views = (await browser.get("/api/me"))["toolViews"]
    assert {
        "tide": {"icon": "globe", "label": "Tides"},
        "deep": {"label": "Deep", "result": "json"},
        "both": {"label": "of the home"},
    } == views


async def test_numbers_beyond_every_limit_are_no_failure(tmp_path: Path) -> None:
    """Times far away find everything or nothing; a cursor that is not one of ours is the first page."""
    far, long = 10**30, "9" * 5000
    with Session.open("s", home=tmp_path) as session:
        session.append(il.UserMessage(content="Hello", timestamp=1_000))
    async with browsing(tmp_path) as (canvas, browser):
        canvas.finder.follow()
        everything = (await browser.get("/api/search?role=user"))["total"]
        for query, total in (
            (f"from={far}", 0),
            (f"from=-{far}", everything),
            (f"until={far}", everything),
            (f"until=-{far}", 0),
            (f"cursor={far}", everything),
            (f"cursor={long}", everything),
            ("cursor=%D9%A3x", everything),
        ):
            assert total == (await browser.get(f"/api/search?role=user&{query}"))["total"], query[:40]
        for cursor in (str(far), long, "-1", "x"):
            assert (await browser.get(f"/api/sessions?cursor={cursor}"))["sessions"]


async def test_records_of_a_program_are_no_paths_and_no_titles(tmp_path: Path) -> None:
    """They hang from messages as side lines; the list counts and draws the conversation alone."""
    lines = [
        {"type": "mode", "mode": "normal", "sessionId": "s"},
        claude(0, "user", "<context>of the program</context>", isMeta=True),
        claude(1, "user", "Where is the leak?"),
        {"type": "last-prompt", "lastPrompt": "Where", "sessionId": "s"},
        {"type": "permission-mode", "permissionMode": "default", "sessionId": "s"},
        claude(2, "assistant", [{"type": "text", "text": "In the cache."}], parentUuid="u1"),
        {"type": "last-prompt", "lastPrompt": "Where", "sessionId": "s"},
    ]
    titled = [*lines, {"type": "ai-title", "aiTitle": "The leak in the cache", "sessionId": "s"}]
    async with browsing(tmp_path) as (_, browser):
        for name, given, title in (("a", lines, "Where is the leak?"), ("b", titled, "The leak in the cache")):
            data = "\n".join(map(json.dumps, given)).encode()
            _, found = await browser.ask("POST", f"/api/files?name={name}.jsonl", data)
            (session,) = found["sessions"]
            assert (title, 1, [[3, 0, 1]]) == (session["title"], session["branches"], session["shape"])


async def test_two_entries_of_one_moment_have_no_duration(tmp_path: Path) -> None:
    """Gemini CLI writes a call and its result with one timestamp: how long it took is unknown, not 0 ms."""
    call = {"type": "tool_use", "id": "t", "name": "Grep", "input": {"path": "src", "pattern": "leak"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "src/cache.py"}
    now = claude(1, "assistant", [call])
    lines = [claude(0, "user", "Find it"), now, claude(2, "user", [result], timestamp=now["timestamp"])]
    async with browsing(tmp_path) as (_, browser):
        _, found = await browser.ask("POST", "/api/files?name=a.jsonl", "\n".join(map(json.dumps, lines)).encode())
        rows = (await browser.get(f"/api/sessions/{found['sessions'][0]['key']}/tree"))["rows"]
        assert (1000, None) == (rows[1]["ms"], rows[2].get("ms"))
        assert "leak" == rows[1]["calls"][0]["arg"]  # what is looked for tells more than where


def test_the_collector_rests_while_long_paths_are_read() -> None:
    """Until the last of several readers is done, whatever became of them; a program's own choice stays."""
    pause = CollectorPause()
    assert gc.isenabled()
    with pause:
        with pytest.raises(ValueError, match="unreadable"), pause:
            raise ValueError("unreadable")
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with pause:
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
