"""What a conversation cannot do to the page, and what keeps anyone from using it."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import interlingua as il
from canvas.sample import HOSTILE, SVG, courier
from canvas.tabs import Tab, Threaded, expect, needs_chromium
from canvas.test_runs import served
from interlingua.sessions import Session
from interlingua.sessions.files import FileStore
from interlingua.sessions.gc import delete
from interlingua.testing import Server, Stall
from interlingua.values.messages import Citation, ServerToolCall, ServerToolResult

pytestmark = needs_chromium
AXE = Path(__file__).parents[2] / "web/node_modules/axe-core/axe.min.js"
NESTED: Any = "deepest <img src=x onerror='window.hurt=20'>"
for _level in range(400):  # what a session takes; deeper lines are opened from a file below
    NESTED = {"<b>": NESTED} if _level % 2 else [NESTED]
PAGE = b"<html><script>window.hurt=30;fetch('https://spy.invalid')</script></html>"


def media(kind: Any, mime: str, data: bytes, **more: Any) -> Any:
    return kind(data=base64.b64encode(data).decode(), mime_type=mime, **more)


def hostile_blocks() -> dict[str, tuple[Any, ...]]:
    """Every kind of block with every attack in every place that holds text."""
    return {
        "text": (il.TextBlock(text=HOSTILE),),
        "thinking": (il.ThinkingBlock(thinking=HOSTILE, thinking_signature=HOSTILE),),
        "image": (media(il.ImageBlock, "image/svg+xml", SVG), il.ImageBlock(url="https://spy.invalid/p.png")),
        "wrong type": (media(il.ImageBlock, "text/html", PAGE), il.ImageBlock(url="javascript:window.hurt=10")),
        "document": (
            media(il.DocumentBlock, "text/html", PAGE, title=HOSTILE),
            media(il.DocumentBlock, "image/svg+xml", SVG, title="picture"),
            il.DocumentBlock(url="https://spy.invalid/d.pdf", title="<b>far</b>"),
        ),
        "audio": (media(il.AudioBlock, "audio/wav", b"RIFF" + PAGE),),
        "call": (il.ToolCall(id="<c>", name="<script>hurt=11</script>", arguments={"<b>": HOSTILE, "n": NESTED}),),
        "malformed": (
            il.ToolCall(
                id="m", name="m", arguments={}, arguments_text=HOSTILE, parse_error="<img src=x onerror=hurt=1>"
            ),
        ),
        "server tool": (
            ServerToolCall(id="s", name="<script>hurt=14</script>", arguments={"query": HOSTILE}),
            ServerToolResult(
                dialect="anthropic-messages",
                tool_call_id="s",
                tool_name="<b>",
                content=[{"url": "javascript:hurt=15", "t": HOSTILE}],
            ),
        ),
        "cited": (il.TextBlock(text="see", citations=(Citation(url="javascript:hurt=16", title=HOSTILE),)),),
        "opaque": (il.OpaqueBlock(dialect="anthropic-messages", value={"type": "<svg/onload=hurt=12>", "x": HOSTILE}),),
    }


def hostile_session(home: Path) -> str:
    with Session.open("hostile", home=home) as session:
        session.label(None, HOSTILE.partition("\n")[0])
        messages: list[Any] = []
        for number, (name, blocks) in enumerate(hostile_blocks().items()):
            if name in ("text", "image", "wrong type", "document", "audio"):
                messages.append(il.UserMessage(content=blocks))
            if name not in ("image", "wrong type", "document", "audio"):
                messages.append(
                    il.AssistantMessage(content=blocks, model="<i>model", provider="<p>", error_message=HOSTILE)
                )
            if name == "call":
                result = (il.TextBlock(text=HOSTILE), media(il.ImageBlock, "image/svg+xml", SVG))
                messages.append(
                    il.ToolResultMessage(
                        tool_call_id="<c>", tool_name="<script>", content=result, is_error=True, details=NESTED
                    )
                )
            messages.append(il.UserMessage(content=f"{number}: {HOSTILE}"))
        messages.append(il.SystemMessage(content=HOSTILE))
        for number, message in enumerate(messages):
            session.append(message, id=f"e{number}")
        session.append(il.UserMessage(content=HOSTILE), id="<img src=x onerror=hurt=1>")
        session.set_branch("<script>hurt=13</script>", "e1")
        session.note("e0", HOSTILE)
        session.label("e1", HOSTILE)
    return "own~main~hostile"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Threaded]:
    home = tmp_path_factory.mktemp("home")
    hostile_session(home)
    courier(home)
    with Session.open("gone", home=home) as session:
        session.append(il.UserMessage(content=HOSTILE))
    delete(FileStore(home), "main", "gone")
    with Session.open("huge", home=home) as session:
        session.append(il.UserMessage(content="word " * 4_000_000 + "the very end"), id="huge")
        session.append(il.AssistantMessage(content="short", model="m", stop_reason="stop"), id="after")
    with Threaded(home) as server:
        yield server


@pytest.fixture
def tab(chromium: Any, server: Threaded) -> Iterator[Tab]:
    with Tab(chromium, server) as tab:
        tab.context.add_init_script("window.hurt = 0; window.alert = () => { window.hurt = 99; };")
        yield tab


def unharmed(tab: Tab) -> None:
    """Nothing of the conversation ran, became an element of its own, or asked for anything."""
    assert tab.page.evaluate("window.hurt ?? 0") == 0
    assert tab.foreign == []
    active = "#root :is(script, iframe, object, embed, form:not(:has([aria-label])), style, link, base, meta)"
    assert tab.page.locator(active).count() == 0
    assert tab.page.locator("#root :is([onerror], [onload], [href^='javascript:'], [href^='data:'])").count() == 0


def test_hostile_content_of_every_kind_does_nothing(tab: Tab) -> None:
    """Scripts, SVG, URLs, forms, CSS, spying pictures, ANSI, bidi, deep nesting: drawn as text in every view."""
    page = tab.page
    expect(page.get_by_role("link", name="window.hurt")).to_be_visible()  # its title in the gallery
    unharmed(tab)
    page = tab.go("/s/own~main~hostile/canvas?at=e0")
    expect(tab.card("e0")).to_be_visible()
    unharmed(tab)
    page = tab.go("/s/own~main~hostile/transcript?at=e0")
    ids = [row["id"] for row in tab.get("/api/sessions/own~main~hostile/tree")["rows"]]
    seen = set()
    for id in ids:
        page.evaluate("(id) => history.replaceState(null, '', `?at=${encodeURIComponent(id)}`)", id)
        page.evaluate("dispatchEvent(new PopStateEvent('popstate'))")
        tab.until("() => document.querySelector('article.here') !== null")
        page.evaluate("document.querySelectorAll('article button[aria-expanded=false]').forEach((one) => one.click())")
        seen.add(page.locator("article.here").first.get_attribute("data-entry"))
        unharmed(tab)
    assert len(seen) > 10
    assert "\u202e" not in page.inner_text("body")
    for view in "wire", "compare":
        tab.go(f"/s/own~main~hostile/{view}?at={ids[-2]}")
        expect(page.locator(f'.app[data-view="{view}"]')).to_be_visible()
        unharmed(tab)


def test_hostile_content_does_nothing_while_it_streams(tab: Tab, server: Threaded) -> None:
    """The same words from a model, as they come."""
    page = tab.go("/s/own~main~courier/canvas?at=lock2")
    expect(tab.card("lock2")).to_be_visible()
    tab.press("c")
    expect(page.locator(".picked .chip")).to_have_count(1)
    page.locator(".picked .chip button").click()  # the proposed one: the path would stay with the first of two answers
    page.get_by_label("find a model").fill("debug/parrot-1")
    page.locator(".models .menu .row").first.click()
    page.get_by_label("your message").fill(HOSTILE)
    page.get_by_label("your message").press("Control+Enter")
    expect(page.locator(".flow article", has_text="parrot-1").first).to_be_visible()
    expect(page.locator(".flow article.live")).to_have_count(0)
    unharmed(tab)


def test_hostile_calls_and_thoughts_do_nothing_while_they_stream(chromium: Any, tmp_path: Path) -> None:
    """A model that thinks, calls a tool of a hostile name with hostile arguments, and is left waiting in the middle."""
    with Session.open("live", home=tmp_path) as session:
        session.append(il.UserMessage(content="Hello"), id="q")
    answer = il.AssistantMessage(
        content=(
            il.ThinkingBlock(thinking=HOSTILE, thinking_signature="c2ln"),
            il.ToolCall(id="c", name="look", arguments={"<script>hurt=17</script>": HOSTILE}),
            il.TextBlock(text=HOSTILE),
        ),
        stop_reason="stop",
    )
    with Server(chunk=64) as provider:
        provider.answer(answer, fault=Stall(after_events=60))
        with Threaded(tmp_path, client=served(provider)) as server, Tab(chromium, server) as tab:
            tab.context.add_init_script("window.hurt = 0; window.alert = () => { window.hurt = 99; };")
            page = tab.go("/s/own~main~live/canvas?at=q")
            expect(tab.card("q")).to_be_visible()
            run = {"models": ["local/stalls"], "from": "q"}
            headers = {"X-Canvas-CSRF": tab.get("/api/me")["csrf"], "Origin": tab.base}
            page.request.post(f"{tab.base}/api/sessions/own~main~live/runs", data=run, headers=headers)
            expect(page.locator("article.live")).to_be_visible()
            tab.until("() => (document.querySelector('article.live')?.textContent ?? '').length > 20")
            opened = "document.querySelectorAll('article button[aria-expanded=false]').forEach((one) => one.click())"
            page.evaluate(opened)
            unharmed(tab)


@pytest.mark.parametrize("format", ["svg", "png", "markdown"])
def test_hostile_content_does_nothing_in_pictures_and_markdown(tab: Tab, format: str, tmp_path: Path) -> None:
    """A picture has text, lines and shapes alone; opened by itself, it runs and asks for nothing."""
    page = tab.go("/s/own~main~hostile/canvas?at=e0")
    expect(tab.card("e0")).to_be_visible()
    tab.press("E")
    page.get_by_label("format").select_option(format)
    expect(page.get_by_label("finds")).to_be_visible()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save").click()
    path = tmp_path / f"saved.{format}"
    waiting.value.save_as(path)
    if format == "svg":
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(path.read_bytes()).iter()}
        assert tags <= {"svg", "title", "rect", "text", "g", "path", "circle"}
        with Tab(tab.context.browser, offline=True) as alone:
            alone.page.goto(path.as_uri())
            assert alone.page.evaluate("window.hurt ?? 0") == 0
    assert path.stat().st_size > 500
    unharmed(tab)


def test_a_page_that_opens_the_canvas_has_no_hold_on_it(chromium: Any, server: Threaded) -> None:
    """Neither from another site nor from another port of this machine."""
    elsewhere = chromium.new_context()
    page = elsewhere.new_page()
    elsewhere.route("http://*:1/", lambda route: route.fulfill(body="<p>another page", content_type="text/html"))
    for origin in ("http://localhost:1/", "http://127.0.0.1:1/"):
        page.goto(origin)
        with elsewhere.expect_page() as opened:
            page.evaluate(f"() => {{ window.held = window.open('http://127.0.0.1:{server.port}/'); }}")
        expect(opened.value.locator("h1")).to_be_visible()
        assert opened.value.evaluate("window.opener === null")
        assert page.evaluate("window.held.closed")
    elsewhere.close()


def test_media_are_served_so_that_they_cannot_run(tab: Tab) -> None:
    """A stored page or picture with a script in it, opened by its own address, runs nothing."""
    entries = tab.get("/api/sessions/own~main~hostile/entries?to=e16&last=50")["entries"]
    sources = [block["src"] for entry in entries for block in entry["message"]["content"] if "src" in block]
    assert len(sources) >= 4
    for source in sources:
        answer = tab.page.request.get(tab.base + source)
        assert answer.headers["x-content-type-options"] == "nosniff"
        if not answer.headers["content-type"].startswith(("image/png", "audio/")):
            assert "sandbox" in answer.headers["content-security-policy"], source


@pytest.mark.parametrize("key", ["own~main~hostile", "own~main~courier"])
def test_an_export_opens_from_disk_without_the_network(
    chromium: Any, server: Threaded, tab: Tab, key: str, tmp_path: Path
) -> None:
    """One file with branches, search and media; it asks for nothing, and hostile content does nothing in it either."""
    page = tab.go(f"/s/{key}/canvas")
    expect(page.locator("[data-card]").first).to_be_visible()
    tab.press("E")
    expect(page.get_by_label("finds")).to_be_visible()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save").click()
    path = tmp_path / "export.html"
    waiting.value.save_as(path)
    with Tab(chromium, offline=True) as alone:
        alone.context.add_init_script("window.hurt = 0; window.alert = () => { window.hurt = 99; };")
        page = alone.page
        page.goto(path.as_uri())
        expect(page.locator("article.turn").first).to_be_visible()
        page.evaluate("document.querySelectorAll('article button[aria-expanded=false]').forEach((one) => one.click())")
        assert page.evaluate("window.hurt") == 0
        if key.endswith("courier"):
            alone.press("g")
            expect(page.locator("article img")).to_have_js_property("naturalWidth", 640)
            page.get_by_label("search").fill("pooler")
            page.locator(".hit").first.click()
            expect(alone.turn("lock2")).to_be_visible()
            page.locator(".forkbar button", has_text="outbox").click()
            expect(alone.turn("outbox2")).to_be_visible()
            page.reload()
            expect(page.locator("article.here")).to_be_visible()
            alone.press("g")
            expect(page.locator(".title")).to_contain_text("$0.55 and 1 answer unknown")
            page.set_viewport_size({"width": 390, "height": 844})
            bar = page.locator("header.top").bounding_box()
            for part in page.locator("header.top :is(.now, input, button)").all():
                box = part.bounding_box()
                assert bar["y"] <= box["y"] and box["y"] + box["height"] <= bar["y"] + bar["height"]


def test_a_message_of_20_megabytes_leaves_the_page_usable(tab: Tab) -> None:
    """Its beginning is drawn, the number of the rest is said, and the next message is a key away."""
    page = tab.go("/s/own~main~huge/transcript?at=huge")
    expect(tab.turn("huge")).to_contain_text("more characters")
    assert len(page.inner_text("body")) < 100_000
    tab.press("j")
    expect(page.locator("article.here")).to_have_attribute("data-entry", "after")
    page = tab.go("/s/own~main~huge/canvas")
    expect(tab.card("huge")).to_be_visible()


def test_a_line_of_1000_levels_leaves_the_page_usable(tab: Tab, server: Threaded) -> None:
    """What is deeper than a session takes is named as a line that cannot be read; the messages around it are there."""
    deep = '{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"n","arguments":{"a":%s}}]}'
    lines = ('{"role":"session"}', '{"role":"user","content":"before"}', deep % ("[" * 1000 + "]" * 1000),
             '{"role":"user","content":"behind"}')  # fmt: skip
    (place,), problems = server.canvas.library.open_data("\n".join(lines).encode(), "deep.jsonl", None)
    page = tab.go(f"/s/{place.key}/transcript")
    expect(page.locator("article.turn", has_text="behind")).to_be_visible()
    expect(page.locator("article.turn", has_text="before")).to_be_visible()
    assert problems or page.locator(".err").count() == 1


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/#deleted",
        "/s/own~main~courier/canvas?at=lease4",
        "/s/own~main~courier/transcript?at=a1",
        "/s/own~main~courier/compare?a=lease4&b=outbox3",
        "/s/own~main~courier/wire?at=lease4&as=openai-completions",
    ],
)
@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("size", [(1440, 900), (390, 844)], ids=["desktop", "phone"])
def test_axe_finds_nothing_serious(
    chromium: Any, server: Threaded, path: str, colours: str, size: tuple[int, int]
) -> None:
    """Names, roles, contrast: nothing of the impact serious or critical, in both themes and sizes."""
    if not AXE.is_file():
        pytest.skip("!!!! axe-core is NOT INSTALLED: accessibility is not checked (make web)")
    # The page's policy forbids scripts from elsewhere; the tester's own is let in here alone.
    viewport = {"width": size[0], "height": size[1]}
    with Tab(chromium, server, viewport=viewport, color_scheme=colours, bypass_csp=True) as tab:
        page = tab.go(path)
        ready = {"/canvas": "[role=treeitem]", "/transcript": "article.turn .words", "/compare": ".cmp .row"}
        ready |= {"/wire": ".json .ln", "#deleted": ".gonelist > li"}
        what = next((selector for name, selector in ready.items() if name in path), "a.row")
        expect(page.locator(what).first).to_be_visible()
        serious = findings(page)
        if "canvas" in path:
            for key in "c", "d", "x", "?", "Control+k", "E", "M", "r", "/":
                tab.press(key)
                serious += findings(page)
                tab.press("Escape")
        assert serious == []


def findings(page: Any) -> list[str]:
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        json.dumps([one["id"], one["help"], [node["html"][:160] for node in one["nodes"][:4]]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
