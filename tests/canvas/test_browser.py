"""Seeing: the page in Chromium, with sessions of every dialect, in every view, by mouse and by keyboard alone."""

import http.server
import json
import re
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import interlingua as il
from canvas.histories import SESSION, append, claude_sub_agent, claude_task, claude_turns
from canvas.sample import courier
from canvas.tabs import Tab, Threaded, expect, needs_chromium
from interlingua.dialects import DIALECTS, FORMATS, WIRES
from interlingua.sessions import Session
from interlingua.values.messages import AgentMessage

pytestmark = needs_chromium
WIRE = Path(__file__).parents[1] / "wire"
# Formats that are read and returned, never made from others: a small file of each.
HISTORIES = {
    "claude-code": "claude-code/session.jsonl",
    "codex-cli": "codex-cli/rollout.jsonl",
    "gemini-cli": "gemini-cli/session.json",
    "chatgpt-export": "chatgpt-export/conversation.json",
    "inspect-ai": "inspect-ai/log.json",
}
MESSAGES: tuple[AgentMessage, ...] = (
    il.UserMessage(content="Which way is north?"),
    il.AssistantMessage(
        content=(il.TextBlock(text="I shall look."), il.ToolCall(id="c1", name="compass", arguments={"at": "desk"})),
        model="some-model",
        provider="some",
        stop_reason="toolUse",
    ),
    il.ToolResultMessage(tool_call_id="c1", tool_name="compass", content=(il.TextBlock(text="up"),), is_error=False),
    il.AssistantMessage(content="Up is north.", model="some-model", provider="some", stop_reason="stop"),
)
CONVERSATION = il.Conversation(system="Be brief.", entries=tuple(il.Entry(message=message) for message in MESSAGES))
KEY = "own~main~courier"
PHONE = {"width": 390, "height": 844}
# Whether anything is painted behind the cards between these places of the window.
_PAINTED = """([left, right, top, bottom]) => {
    const canvas = document.querySelector("canvas.paint"), box = canvas.getBoundingClientRect();
    const scale = canvas.width / box.width, area = [left - box.left, top - box.top, right - left, bottom - top];
    return canvas.getContext("2d").getImageData(...area.map(one => Math.round(one * scale))).data.some(one => one > 0);
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Threaded]:
    home = tmp_path_factory.mktemp("home")
    courier(home)
    with Threaded(home) as server:
        yield server


@pytest.fixture
def tab(chromium: Any, server: Threaded) -> Iterator[Tab]:
    with Tab(chromium, server) as tab:
        yield tab


def _history(name: str) -> Path | None:
    """A file of a format that is not made from others."""
    if name in WIRES or FORMATS[name].writable:
        return None
    return WIRE / HISTORIES[name] if name in HISTORIES else sorted((WIRE / name).iterdir())[0]


def test_a_session_of_every_dialect_opens(chromium: Any, tmp_path: Path) -> None:
    """Every format shows its conversation, on the canvas and as a transcript, without an error."""
    with Threaded(tmp_path / "home") as server, Tab(chromium, server) as tab:
        for name in DIALECTS:
            history = _history(name)
            data = il.encode(CONVERSATION, name).bytes() if history is None else history.read_bytes()
            opened, _ = server.canvas.library.open_data(data, name, name)
            page = tab.go(f"/s/{opened[0].key}/canvas")
            expect(page.locator("[data-card]").first).to_be_visible()
            if history is None:
                expect(page.locator("[data-card]", has_text="Which way is north?").first).to_be_visible()
            tab.press("2")
            expect(page.locator("article.turn").first).to_be_visible()
            if history is None:
                expect(page.locator("article.turn", has_text="Up is north.").first).to_be_visible()
            assert tab.complaints == [], name


def test_the_first_cards_do_not_wait_for_the_flow_library(tab: Tab) -> None:
    """They are drawn, and can be chosen, before it is loaded; then it takes their place, each card once."""
    with tab.holding("**/assets/flow-*.js"):
        page = tab.go(f"/s/{KEY}/canvas?at=q")
        expect(page.locator("[data-card]").first).to_be_visible()
        ids = page.locator("[data-card]").evaluate_all("all => all.map(one => one.dataset.card)")
        page.locator("[data-card]").nth(1).click()
        tab.until("id => location.search.includes(`at=${id}`)", ids[1])
        assert 0 == page.locator(".react-flow").count()
    expect(page.locator(f'.react-flow [data-card="{ids[0]}"]')).to_be_visible()
    drawn = page.locator("[data-card]").evaluate_all("all => all.map(one => one.dataset.card)")
    assert len(drawn) == len(set(drawn)) and {*ids} <= {*drawn}
    before = page.locator("[data-card]").first.bounding_box()["y"]
    page.mouse.move(500, 450)
    page.mouse.wheel(0, 120)
    tab.until("y => document.querySelector('[data-card]').getBoundingClientRect().y < y", before)


def test_the_first_cards_are_drawn_before_the_page_is_loaded(tab: Tab) -> None:
    """Without a request for their rows; a card chosen then is the page's selection, at the same place."""
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url) if "/tree" in request.url else None)
    with tab.holding("**/assets/main-*.js"):
        tab.page.goto(f"{tab.base}/s/{KEY}/canvas?at=q", wait_until="commit")
        expect(tab.page.locator("[data-card]").first).to_be_visible()
        assert [] == asked
        second = tab.page.locator("[data-card]").nth(1)
        id, early = second.get_attribute("data-card"), second.bounding_box()
        markup = second.inner_html()
        second.click()
        tab.until("() => document.querySelectorAll('[data-card][aria-pressed=true]').length === 1")
    expect(tab.page.locator("header.top a")).to_be_visible()
    chosen = tab.page.locator(f'.react-flow [data-card="{id}"]')
    expect(chosen).to_be_visible()
    expect(chosen).to_have_attribute("aria-pressed", "true")
    assert early == chosen.bounding_box()
    assert markup == chosen.inner_html().replace(" sel", " ", 1)


def test_a_dropped_file_is_opened(chromium: Any, tmp_path: Path) -> None:
    """A file of any dialect that is dropped on the gallery becomes a session, and one that is none says so."""
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        drop = """([name, text]) => {
            const data = new DataTransfer();
            data.items.add(new File([text], name));
            const dropped = new DragEvent("drop", {bubbles: true, dataTransfer: data});
            document.querySelector(".gallery").dispatchEvent(dropped);
        }"""
        tab.page.evaluate(drop, ["broken.json", "{"])
        expect(tab.page.get_by_role("alert")).to_contain_text("broken.json")
        tab.page.evaluate(drop, ["any.json", il.encode(CONVERSATION, "openai-completions").bytes().decode()])
        expect(tab.page.locator("[data-card]", has_text="Up is north.")).to_be_visible()


def test_the_gallery_leads_to_a_session_and_search_to_a_message(tab: Tab) -> None:
    """A row opens its session; a search over all of them opens the message that has the words, inside results too."""
    expect(tab.page.get_by_role("link", name=re.compile("Duplicate webhook deliveries"))).to_be_visible()
    tab.press("/")
    tab.page.keyboard.type("advisory lock enough")
    tab.page.locator("a.hit", has_text="advisory").first.click()
    expect(tab.turn("lock1")).to_be_visible()
    assert "at=lock1" in tab.page.url


def test_canvas_outline_and_transcript_stay_in_step(tab: Tab) -> None:
    """What is chosen in one is chosen in the others, and is the address."""
    page = tab.go(f"/s/{KEY}/canvas")
    tab.card("lock2").click()
    expect(page.locator('[data-card][aria-pressed="true"]')).to_have_attribute("data-card", "lock2")
    expect(page.locator(".flow article.here")).to_have_attribute("data-entry", "lock2")
    tab.press("o")
    expect(page.locator('.outline [aria-selected="true"]')).to_contain_text("Not across hosts")
    assert "at=lock2" in page.url
    page.locator(".outline [role=treeitem]", has_text="Since Tuesday").click()
    expect(tab.card("q")).to_have_attribute("aria-pressed", "true")


def test_a_link_opens_the_same_message_again(tab: Tab) -> None:
    """Reload keeps the view and the selection."""
    page = tab.go(f"/s/{KEY}/transcript?at=outbox2")
    expect(page.locator("article.here")).to_have_attribute("data-entry", "outbox2")
    page.reload()
    expect(page.locator("article.here")).to_have_attribute("data-entry", "outbox2")


def test_a_subtree_folds_and_stays_folded(tab: Tab) -> None:
    """The cards below go, their number is said, and after a reload it is as it was; unfolding brings them back."""
    page = tab.go(f"/s/{KEY}/canvas?at=a2")
    expect(tab.card("lock2")).to_be_visible()
    with page.expect_response(lambda answer: answer.url.endswith("/view") and answer.request.method == "PUT"):
        tab.press("f")
    expect(tab.card("lock2")).to_have_count(0)
    expect(tab.card("a2")).to_contain_text("9 folded")
    expect(page.locator(".heads .chip[aria-current]")).to_have_text(["lease"])  # the others are folded into it, too
    page.reload()
    expect(tab.card("a2")).to_contain_text("9 folded")
    with page.expect_response(lambda answer: answer.url.endswith("/view") and answer.request.method == "PUT"):
        tab.press("f")
    expect(tab.card("lock2")).to_be_visible()


def test_a_key_pressed_before_the_page_is_loaded_is_kept(tab: Tab) -> None:
    """The first cards look like the page: what is pressed then is done, once, when the page listens."""
    with tab.holding("**/assets/main-*.js"):
        tab.page.goto(f"{tab.base}/s/{KEY}/canvas?at=q", wait_until="commit")
        expect(tab.page.locator("[data-card]").first).to_be_visible()
        tab.press("j", "E")
    expect(tab.page.get_by_role("dialog", name="Export")).to_be_visible()
    path = tab.get(f"/api/sessions/{KEY}/tree?path=1000")["rows"]
    ids = [row["id"] for row in path]
    tab.until("id => location.search.includes(`at=${id}`)", ids[ids.index("q") + 1])


def test_the_first_cards_are_folded_as_they_were(tab: Tab) -> None:
    """The stored folds come with the first rows: nothing is shown unfolded first."""
    page = tab.go(f"/s/{KEY}/canvas?at=a2")
    expect(tab.card("lock2")).to_be_visible()
    with page.expect_response(lambda answer: answer.url.endswith("/view") and answer.request.method == "PUT"):
        tab.press("f")
    page.route("**/assets/main-*.js", lambda route: None)  # never answered: the first cards stay
    page.reload(wait_until="commit")
    expect(page.locator('[data-card="a2"]')).to_contain_text("9 folded")
    expect(page.locator('[data-card="lock2"]')).to_have_count(0)
    page.unroute("**/assets/main-*.js")
    page.reload()
    expect(tab.card("a2")).to_contain_text("9 folded")
    with page.expect_response(lambda answer: answer.url.endswith("/view") and answer.request.method == "PUT"):
        tab.press("f")
    expect(tab.card("lock2")).to_be_visible()


def test_find_reaches_folded_and_unrendered_text(tab: Tab) -> None:
    """Line 41 of a result that shows twelve lines is found, and leads to the call that it answers."""
    page = tab.go(f"/s/{KEY}/canvas?at=q")
    expect(tab.card("q")).to_be_visible()
    tab.press("/")
    page.get_by_role("textbox", name="search in this session").fill('"41: line of the worker"')
    page.locator(".hit").first.click()
    assert "at=r2" in page.url


def test_a_result_stands_with_its_call(tab: Tab) -> None:
    """Opened, a call shows its arguments and twelve lines of its result, then the rest on demand; failures say so."""
    tab.go(f"/s/{KEY}/transcript?at=a1")
    turn = tab.turn("a1")
    turn.locator("button.call", has_text="courier/worker.py").click()
    expect(turn).to_contain_text("12: line of the worker")
    expect(turn).not_to_contain_text("13: line of the worker")
    turn.get_by_role("button", name="Show 31 more lines").click()
    expect(turn).to_contain_text("43: line of the worker")
    failed = turn.locator("button.call", has_text="exec")
    expect(failed).to_contain_text("failed")
    failed.click()
    expect(turn.locator(".a-brick")).to_have_text("FAILED")  # its ANSI red


def test_two_branches_are_compared(tab: Tab) -> None:
    """Aligned from the fork, word by word, with cost and time; swapping swaps the sides."""
    page = tab.go(f"/s/{KEY}/compare?a=lease4&b=outbox3")
    expect(page.locator(".cmp")).to_contain_text("6 in common")
    expect(page.locator(".cmp .wa").first).to_be_visible()
    expect(page.locator(".cmp .wb").first).to_be_visible()
    expect(page.locator(".cmp")).to_contain_text("$0.27")
    page.get_by_role("button", name="Swap").click()
    expect(page.get_by_label("branch A")).to_have_value("outbox3")


def test_a_result_is_compared_as_the_transcript_shows_it(tab: Tab) -> None:
    """A diff is a diff, not a list of bullets; a call has the icon of its tool."""
    page = tab.go(f"/s/{KEY}/compare?a=lease4&b=lock2")
    expect(page.locator(".cmp .fdiff .add").first).to_be_visible()
    expect(page.locator(".cmp .words li")).to_have_count(0)


# The width of an input's placeholder beside the room that it has.
PLACEHOLDER = """input => {
  const style = getComputedStyle(input), context = document.createElement('canvas').getContext('2d');
  context.font = style.font;
  const room = input.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  return context.measureText(input.placeholder).width - room;
}"""


def test_what_inputs_say_fits_into_them(tab: Tab) -> None:
    """The composer, the commands; and the commands stand below each other, with an icon or without."""
    page = tab.go(f"/s/{KEY}/canvas")
    tab.card("lease1").wait_for()
    tab.press("c")
    page.get_by_label("find a model").wait_for()
    assert page.get_by_label("find a model").evaluate(PLACEHOLDER) <= 0
    page.get_by_role("button", name="Cancel").click()
    tab.press("Control+k")
    command = page.get_by_label("command", exact=True)
    assert command.evaluate(PLACEHOLDER) <= 0
    assert command.evaluate("input => input.parentElement.clientWidth - input.clientWidth") < 48
    lefts = page.locator(".commands .row .cut").evaluate_all("all => all.map(one => one.getBoundingClientRect().left)")
    assert 1 == len(set(lefts)) and len(lefts) > 10


def test_the_wire_view_marks_every_loss_where_it_strikes(tab: Tab) -> None:
    """Stored and sent side by side; each loss has its number on the stored line and in the list with its reason."""
    page = tab.go(f"/s/{KEY}/wire?at=lease4")
    page.get_by_label("dialect").select_option("openai-completions")
    losses = tab.get(f"/api/sessions/{KEY}/wire?to=lease4&as=openai-completions")["losses"]
    shown = [loss for loss in losses if loss["severity"] != "record"]
    assert shown
    expect(page.locator(".whylist .w")).to_have_count(len(shown))
    for loss in shown[:3]:
        row = page.locator(".whylist .w").nth(shown.index(loss))
        expect(row).to_contain_text(loss["why"])
        row.click()
        expect(page.locator(".json .ln.sel").first).to_be_visible()
        # Both ends of the chosen loss are lit, and the thread between them.
        expect(page.locator(".srow.sel")).to_have_count(1)
        expect(page.locator(".threads g.sel")).to_have_class(re.compile(loss["severity"]))
    tab.press("n")
    expect(page.locator(".whylist .w.open .n")).to_have_text(str(shown[3 % len(shown)]["n"]))


def test_the_wire_view_shows_differences_only_and_asks_for_a_model(tab: Tab) -> None:
    """What is sent as it is stored goes, with its number; a model chosen by name is spoken to in its own dialect."""
    page = tab.go(f"/s/{KEY}/wire?at=lease4&as=openai-completions")
    expect(page.locator(".json .ln").first).to_be_visible()
    before = page.locator(".storedpane .srow").count()
    page.get_by_label("differences only").check()
    expect(page.locator(".json .ln.alike").first).to_contain_text("unchanged")
    assert 0 < page.locator(".storedpane .srow").count() < before
    assert all(row.locator(".loss").count() for row in page.locator(".storedpane .srow").all())
    page.get_by_label("differences only").uncheck()
    expect(page.locator(".json .ln.alike")).to_have_count(0)
    page.get_by_role("combobox", name="model").fill("google/gemini-2.5-flash")
    page.get_by_role("combobox", name="model").press("Enter")
    expect(page.get_by_label("dialect")).to_have_value("google-generative-ai")
    expect(page.locator(".heads")).to_contain_text("google-generative-ai")


def test_commands_are_found_by_name(tab: Tab) -> None:
    """Ctrl+K, a few letters, Enter; arrows choose; the branches are among them."""
    page = tab.go(f"/s/{KEY}/canvas?at=lease4")
    expect(tab.card("lease4")).to_be_visible()
    tab.press("Control+k")
    field = page.get_by_role("combobox", name="command")
    expect(field).to_be_focused()
    field.fill("transc")
    expect(page.get_by_role("option")).to_have_count(2)  # the view, and printing it
    tab.press("ArrowDown", "ArrowUp", "Enter")
    expect(page.locator('.app[data-view="transcript"]')).to_be_visible()
    tab.press("Control+k")
    page.get_by_role("combobox", name="command").fill("branch outbox")
    tab.press("Enter")
    expect(tab.turn("outbox2")).to_have_class(re.compile("here"))  # its last result stands with the call
    tab.press("Control+k")
    page.get_by_role("combobox", name="command").fill("keyboard")
    tab.press("Enter")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()


def test_the_panel_is_as_wide_as_one_wants(tab: Tab) -> None:
    """Dragged or moved with the arrows, within limits; a reload keeps it."""
    page = tab.go(f"/s/{KEY}/canvas?at=lease4")
    width = "() => Math.round(document.querySelector('.side').getBoundingClientRect().width)"
    line = page.get_by_role("separator", name="width of the panel")
    expect(line).to_be_visible()
    assert page.evaluate(width) == 432
    box = line.bounding_box()
    page.mouse.move(box["x"] + 4, 400)
    page.mouse.down()
    page.mouse.move(box["x"] - 96, 400)
    page.mouse.up()
    tab.until("() => document.querySelector('.side').getBoundingClientRect().width > 500")
    dragged = page.evaluate(width)
    line.focus()
    tab.press("ArrowLeft")
    expect(line).to_have_attribute("aria-valuenow", str(dragged + 24))
    page.reload()
    expect(line).to_have_attribute("aria-valuenow", str(dragged + 24))
    line.focus()
    tab.press("End")
    expect(line).to_have_attribute("aria-valuenow", "320")


@pytest.mark.parametrize("format", ["svg", "png"])
def test_the_tree_is_exported_as_a_picture(tab: Tab, format: str, tmp_path: Path) -> None:
    """Drawn with every card; what was found and ticked is in none of it, and the picture needs nothing beside it."""
    page = tab.go(f"/s/{KEY}/canvas?at=lease4")
    expect(tab.card("lease4")).to_be_visible()
    tab.press("E")
    page.get_by_label("format").select_option(format)
    expect(page.get_by_label("finds")).to_be_visible()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save").click()
    assert waiting.value.suggested_filename.endswith(f".{format}")
    waiting.value.save_as(tmp_path / "picture")
    data = (tmp_path / "picture").read_bytes()
    if format == "png":
        width, height = struct.unpack(">II", data[16:24])
        assert data.startswith(b"\x89PNG") and width > 800 and height > 1000
        return
    root = ElementTree.fromstring(data)
    assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {
        "svg",
        "title",
        "rect",
        "text",
        "g",
        "path",
        "circle",
    }
    text = " ".join(root.itertext())
    for word in ("Since Tuesday", "outbox", "claude", "read"):
        assert word in text, word


def test_the_doctor_says_what_a_model_would_refuse(tab: Tab) -> None:
    """Findings stand beside the canvas with their remedy, or it says that there is nothing."""
    page = tab.go(f"/s/{KEY}/canvas?at=lock2&model=openai-completions")
    expect(tab.card("lock2")).to_be_visible()
    tab.press("d")
    found = tab.get(f"/api/sessions/{KEY}/doctor?to=lock2&model=openai-completions")
    if found.get("findings"):
        expect(page.locator(".doctor .fd")).to_have_count(len(found["findings"]))
    else:
        expect(page.locator(".doctor")).to_contain_text("Nothing to repair")


def test_the_context_ruler_opens_a_bar_per_answer(tab: Tab) -> None:
    """What the model read at the selected message, and at each answer of the path."""
    page = tab.go(f"/s/{KEY}/canvas?at=lease4")
    expect(page.locator("button.ruler")).to_contain_text("read at message")
    tab.press("x")
    expect(page.locator(".drawer .abar")).to_have_count(4)
    drawer = page.get_by_label("context by answer")
    drawer.get_by_role("button", name="Cache").click()
    expect(drawer.locator(".cachelist > button")).to_have_count(4)
    first = tab.get(f"/api/sessions/{KEY}/cache?to=lease4")["answers"][1]
    expect(drawer.locator(".cachelist > button").nth(1)).to_contain_text(first["model"])
    drawer.get_by_role("button", name="Time and cost").click()
    expect(drawer.locator(".charts canvas")).to_have_count(2)  # cost and tokens; no time was recorded, which is said
    expect(drawer).to_contain_text("$0.46")
    expect(drawer).to_contain_text("unknown: nothing was recorded")


def test_the_stored_json_is_behind_each_message(tab: Tab) -> None:
    """`r` shows the entry as it is in the file."""
    page = tab.go(f"/s/{KEY}/transcript?at=lease2")
    expect(tab.turn("lease2")).to_be_visible()
    tab.press("r")
    expect(page.get_by_role("dialog")).to_contain_text('"db.claim(lease=30)"')
    tab.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_everything_is_reached_by_keyboard_alone(tab: Tab) -> None:
    """From the gallery to a message on another branch, through all views and layers, and back, without a mouse."""
    page = tab.page
    expect(page.get_by_role("link", name=re.compile("Duplicate"))).to_be_visible()
    for _ in range(40):
        tab.press("Tab")
        if "Duplicate" in page.evaluate("document.activeElement.textContent ?? ''"):
            break
    tab.press("Enter")
    expect(tab.card("lease4")).to_have_attribute("aria-pressed", "true")
    tab.press("g")
    expect(tab.card("q")).to_have_attribute("aria-pressed", "true")
    tab.press("j")
    expect(tab.card("a1")).to_have_attribute("aria-pressed", "true")
    tab.press("G")
    expect(tab.card("lease4")).to_have_attribute("aria-pressed", "true")
    tab.press("l")
    expect(tab.card("outbox1")).to_have_attribute("aria-pressed", "true")
    tab.press("h")
    expect(tab.card("lease1")).to_have_attribute("aria-pressed", "true")
    for key, view in ("2", "transcript"), ("3", "compare"), ("4", "wire"), ("1", "canvas"):
        tab.press(key)
        expect(page.locator(f'.app[data-view="{view}"]')).to_be_visible()
    tab.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    tab.press("Escape", "c")
    expect(page.get_by_label("your message")).to_be_focused()
    tab.press("Escape", "/")
    expect(page.get_by_role("textbox", name="search in this session")).to_be_focused()
    tab.press("Escape")
    before = page.evaluate("document.documentElement.dataset.theme ?? ''")
    tab.press("t")
    assert page.evaluate("document.documentElement.dataset.theme ?? ''") != before


def test_a_sub_agent_opens_in_its_frame(chromium: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the call that started it; opened in place it has its own cards, and the cards below it give way."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    project = tmp_path / "claude" / "projects" / "-home-someone-courier"
    append(project / f"{SESSION}.jsonl", claude_task("count the tests"))
    append(project / "agent-a1b2c3d4.jsonl", claude_sub_agent("count the tests"))
    with Threaded(tmp_path / "home", watch=["claude-code"]) as server, Tab(chromium, server) as tab:
        tab.page.locator("a.row", has_text="count the tests").first.wait_for()
        sessions = tab.get("/api/sessions?source=watch")["sessions"]
        parent = next(one["key"] for one in sessions if "spawnedBy" not in one)
        page = tab.go(f"/s/{parent}/canvas")
        frame = page.get_by_label("sub-agent")
        caller, box = page.locator(".react-flow [data-card]").nth(1).bounding_box(), frame.bounding_box()
        between = [caller["x"] + caller["width"] + 4, box["x"] - 4, box["y"], box["y"] + 40]
        tab.until(_PAINTED, between)
        frame.get_by_role("button", name="Open in place").click()
        expect(frame.locator(".card").first).to_be_visible()
        child = next(one for one in sessions if "spawnedBy" in one)
        assert frame.locator(".card").count() >= 1
        frame.get_by_role("button", name="Close").click()
        expect(frame.locator(".card")).to_have_count(0)
        frame.get_by_role("button", name="As a session").click()
        expect(page).to_have_url(re.compile(re.escape(child["key"])))


@pytest.mark.parametrize(("file", "caller"), [("atif/sub_agent.json", "m1"), ("copilot-cli/events.jsonl", "e3")])
def test_a_sub_agent_in_the_same_file_has_a_frame_beside_its_call(
    chromium: Any, tmp_path: Path, file: str, caller: str
) -> None:
    """It has no other cards, begins no path of its own, and call and sub-agent lead to each other."""
    wires = Path(__file__).parents[1] / "wire"
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        place = server.canvas.library.open_path(wires / file)[0][0]
        rows = tab.get(f"/api/sessions/{place.key}/tree")["rows"]
        (first,) = [row for row in rows if "caller" in row]
        assert caller == first["caller"] and "parent" not in first
        page = tab.go(f"/s/{place.key}/canvas?at={caller}")
        expect(tab.card(caller)).to_be_visible()
        frame = page.get_by_label("sub-agent")
        expect(frame).to_have_count(1)
        expect(page.locator(".react-flow [data-card]", has_text=first["text"])).to_have_count(0)
        beside, called = frame.bounding_box(), tab.card(caller).bounding_box()
        assert beside["x"] > called["x"] + called["width"] and abs(beside["y"] - called["y"]) < 2
        frame.get_by_role("button", name="Open in place").click()
        expect(frame.locator(".card", has_text=first["text"]).first).to_be_visible()
        frame.get_by_role("button", name="Read").click()
        expect(tab.turn(first["id"])).to_be_visible()
        expect(page.get_by_role("navigation", name="outline")).to_contain_text("1 path")
        page.get_by_role("button", name="The call that started this sub-agent").click()
        expect(tab.turn(caller)).to_be_visible()
        page.get_by_role("button", name=re.compile("^Sub-agent: ")).click()
        expect(tab.turn(first["id"])).to_be_visible()


def test_an_export_has_the_sub_agents_in_it(chromium: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From disk, the call leads to the conversation that it started; search finds it, and there is a way back."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    project = tmp_path / "claude" / "projects" / "-home-someone-courier"
    append(project / f"{SESSION}.jsonl", claude_task("count the tests"))
    append(project / "agent-a1b2c3d4.jsonl", claude_sub_agent("count the tests"))
    path = tmp_path / "export.html"
    with Threaded(tmp_path / "home", watch=["claude-code"]) as server, Tab(chromium, server) as tab:
        tab.page.locator("a.row", has_text="count the tests").first.wait_for()
        sessions = tab.get("/api/sessions?source=watch")["sessions"]
        parent = next(one["key"] for one in sessions if "spawnedBy" not in one)
        csrf = tab.get("/api/me")["csrf"]
        answer = tab.page.request.post(
            f"{tab.base}/api/sessions/{parent}/export", data={"format": "html", "all": True},
            headers={"X-Canvas-CSRF": csrf, "Origin": tab.base},
        )  # fmt: skip
        path.write_bytes(answer.body())
    with Tab(chromium, offline=True) as alone:
        page = alone.page
        page.goto(path.as_uri())
        page.get_by_role("button", name=re.compile("Sub-agent")).click()
        expect(page.locator("article.turn").first).to_contain_text("count the tests")
        expect(page).to_have_url(re.compile("agent=agent-1"))
        page.reload()
        expect(page.locator("article.turn").first).to_contain_text("count the tests")
        page.locator(".crumb button").click()
        expect(page.get_by_role("button", name=re.compile("Sub-agent"))).to_be_visible()
        page.get_by_label("search").fill("count the tests")
        page.locator(".hit", has_text="sub-agent").first.click()
        expect(page).to_have_url(re.compile("agent=agent-1"))


@pytest.fixture
def served_page() -> Iterator[Callable[[str], str]]:
    """Serves a page on a port of its own, as a notebook is; returns its address."""
    pages: list[bytes] = []

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/" else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(pages[-1] if self.path == "/" else b"")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def serve(text: str) -> str:
            pages.append(text.encode())
            return f"http://127.0.0.1:{server.server_port}/"

        yield serve
        server.shutdown()
        thread.join()


def test_a_frame_in_a_notebook_is_read_and_searched(
    chromium: Any, tmp_path: Path, served_page: Callable[[str], str]
) -> None:
    """Without storage and clipboard; its theme changes, and it offers no link, which would hold the frame's key."""
    courier(tmp_path)
    with Session.open("courier", home=tmp_path, read_only=True) as session:
        canvas = session.open_canvas(browser=False)
    with canvas, Tab(chromium) as tab:
        tab.base = "http://127.0.0.1:"
        tab.page.goto(served_page(f"<p>In [1]</p>{canvas._repr_html_()}"))
        frame = tab.page.frame_locator("iframe")
        expect(frame.locator("article.turn", has_text="Done: a delivery").first).to_be_visible()
        frame.locator(".chip.branch", has_text="outbox").first.click()
        expect(frame.locator("article.turn", has_text="Take the outbox").first).to_be_visible()
        frame.get_by_label("search").fill("advisory")
        frame.locator(".hit").first.click()
        expect(frame.locator("article.turn", has_text="advisory lock").first).to_be_visible()
        for theme in "light", "dark", None:
            frame.get_by_role("button", name="Theme").click()
            assert theme == frame.locator("html").get_attribute("data-theme")
        expect(frame.get_by_role("button", name=re.compile("link"))).to_have_count(0)
        saved = tmp_path / "notebook.html"
        saved.write_text(canvas._repr_html_())
        tab.foreign.clear()
        tab.page.goto(saved.as_uri())
        expect(frame.locator("article.turn", has_text="Done: a delivery").first).to_be_visible()
        tab.foreign.remove(saved.as_uri())


def test_a_link_of_an_export_leads_to_its_message(chromium: Any, tmp_path: Path) -> None:
    """From disk; the button says that the link is copied, where the browser has no newer clipboard, too."""
    courier(tmp_path)
    path = tmp_path / "export.html"
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        csrf = tab.get("/api/me")["csrf"]
        answer = tab.page.request.post(
            f"{tab.base}/api/sessions/{KEY}/export", data={"format": "html", "all": True},
            headers={"X-Canvas-CSRF": csrf, "Origin": tab.base},
        )  # fmt: skip
        path.write_bytes(answer.body())
    with Tab(chromium, offline=True) as alone:
        alone.context.add_init_script(
            "delete Navigator.prototype.clipboard;"
            "document.addEventListener('copy', () => { window.copied = document.activeElement.value; });"
        )
        page = alone.page
        page.goto(path.as_uri())
        alone.turn("a2").hover()
        alone.turn("a2").get_by_role("button", name="Copy a link to this message").click()
        expect(alone.turn("a2").get_by_role("button", name="Copied")).to_be_visible()
        link = page.evaluate("window.copied")
        page.goto("about:blank")
        page.goto(link)
        expect(alone.turn("a2")).to_have_class(re.compile("here"))


def test_paper_has_the_whole_path_unfolded(tab: Tab) -> None:
    """Ctrl+P reads all of the path and opens every fold before the browser prints, and takes it back behind."""
    tab.context.add_init_script("window.print = () => { window.printed = document.body.innerText; };")
    page = tab.go(f"/s/{KEY}/transcript?at=lease4")
    expect(tab.turn("lease4")).to_be_visible()
    tab.press("Control+p")
    tab.until("() => window.printed !== undefined")
    printed = page.evaluate("window.printed")
    for text in "Since Tuesday", "The second peak starts", "43: line of the worker", "Done: a delivery":
        assert text in printed, text
    page.emulate_media(media="print")
    expect(page.get_by_role("button", name="Show less")).to_have_count(0)
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(page.locator("article", has_text="43: line of the worker")).to_have_count(0)


def test_b6_every_tree_begins_at_the_origin_and_no_card_covers_another(chromium: Any, tmp_path: Path) -> None:
    """Whatever was open before; a tree of one message stays where it is, and a fork has a lane of its own."""
    home = tmp_path / "home"
    courier(home)
    with Session.open("one", home=home) as session:
        session.append(il.UserMessage(content="Alone"), id="alone")
    with Threaded(home) as server, Tab(chromium, server) as tab:
        page = tab.go(f"/s/{KEY}/canvas?at=q")
        expect(tab.card("q")).to_be_visible()
        page.evaluate(
            "history.pushState(null, '', '/s/own~main~one/canvas'); dispatchEvent(new PopStateEvent('popstate'))"
        )
        expect(tab.card("alone")).to_be_visible()
        before = tab.card("alone").bounding_box()
        with Session.open("one", home=home) as session:
            for number in range(3):
                session.append(il.AssistantMessage(content="word " * 80, model="m"), id=f"a{number}", parent_id="alone")
        for number in range(3):
            expect(tab.card(f"a{number}")).to_be_visible()
        assert tab.card("alone").bounding_box() == before
        boxes = [card.bounding_box() for card in page.locator("[data-card]").all()]
        for number, one in enumerate(boxes):
            for other in boxes[number + 1 :]:
                beside = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
                above = one["y"] + one["height"] <= other["y"] or other["y"] + other["height"] <= one["y"]
                assert beside or above, (one, other)


def test_b7_keys_that_delete_elsewhere_remove_nothing(tab: Tab) -> None:
    """The drawing is what the log has."""
    tab.go(f"/s/{KEY}/canvas?at=lease4")
    expect(tab.card("lease4")).to_be_visible()
    count = tab.page.locator("[data-card]").count()
    tab.card("lease4").click()
    tab.press("Delete", "Backspace", "Control+a", "Delete")
    expect(tab.card("lease4")).to_be_visible()
    assert tab.page.locator("[data-card]").count() == count


def test_case_36_numbers_in_arguments_are_shown_with_every_digit(chromium: Any, tmp_path: Path) -> None:
    """On the way through the page's own JSON too: beside their call, as raw JSON, and on the wire."""
    digits = "9007199254740993"
    with Session.open("digits", home=tmp_path) as session:
        session.append(il.UserMessage(content="Count"), id="q")
        call = il.ToolCall(id="c", name="count", arguments={"to": int(digits)})
        session.append(il.AssistantMessage(content=(call,), model="m", stop_reason="toolUse"), id="a")
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        page = tab.go("/s/own~main~digits/transcript?at=a")
        tab.turn("a").locator("button", has_text="count").first.click()
        expect(tab.turn("a")).to_contain_text(digits)
        tab.press("r")
        expect(page.get_by_role("dialog")).to_contain_text(digits)
        page = tab.go("/s/own~main~digits/wire?at=a&as=openai-completions&part=answer")
        expect(page.locator(".json")).to_contain_text(digits)


def test_of_a_long_path_the_end_is_shown_first_and_then_the_whole(chromium: Any, tmp_path: Path) -> None:
    """On the wire and in the ruler; requests are compared whole when that is asked for."""
    with Session.open("long", home=tmp_path, sync="never") as session:
        for number in range(1100):
            session.append(il.UserMessage(content=f"question {number}"), id=f"q{number}")
            session.append(il.AssistantMessage(content=f"answer {number}", model="m"), id=f"a{number}")
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        asked: list[str] = []
        tab.page.on("request", lambda request: asked.append(request.url))
        page = tab.go("/s/own~main~long/wire?at=a1099&as=anthropic-messages")
        expect(page.locator(".whylist")).to_contain_text("only the last")
        expect(page.locator(".whylist")).to_contain_text("earlier messages are sent as well, and not shown here.")
        first, *_, last = [url for url in asked if "/api/sessions/own~main~long/wire?" in url]
        assert "last=200" in first and "last=" not in last
        page = tab.go("/s/own~main~long/transcript?at=a1099")
        expect(page.locator("button.ruler")).to_contain_text("about")
        tab.press("x")
        page.get_by_role("button", name="Cache", exact=True).click()
        page.get_by_role("button", name="Compare whole requests").click()
        expect(page.locator(".cachelist button").first).to_be_visible()
        expect(page.get_by_role("button", name="Compare whole requests")).to_have_count(0)


def test_case_116_code_out_of_view_is_not_drawn(chromium: Any, tmp_path: Path) -> None:
    """Three hundred answers with code: only those near the view have elements, and only they are highlighted."""
    with Session.open("code", home=tmp_path) as session:
        for number in range(300):
            text = f"Answer {number}\n\n```python\n" + "def f(x):\n    return x + 1\n" * 12 + "```\n"
            session.append(il.AssistantMessage(content=text, model="m", stop_reason="stop"), id=f"a{number}")
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        page = tab.go("/s/own~main~code/transcript?at=a299")
        expect(tab.turn("a299").locator("pre span").first).to_be_visible()
        drawn = page.locator("article.turn").count()
        assert 0 < drawn < 40
        assert page.locator("article.turn pre").count() <= drawn
        tab.press("g")
        expect(tab.turn("a0").locator("pre span").first).to_be_visible()
        expect(tab.turn("a299")).to_have_count(0)


def test_a_phone_reads_first_and_has_the_tree_below_a_map(chromium: Any, server: Threaded) -> None:
    """At 390 pixels nothing is wider than the screen, and four tabs lead to the views."""
    with Tab(chromium, server, viewport=PHONE, has_touch=True) as tab:
        page = tab.page
        page.get_by_role("link", name="Duplicate webhook deliveries").click()
        expect(tab.turn("lease4")).to_be_visible()
        expect(page.locator(".box.closed")).to_be_hidden()  # the tab leads there
        page.locator(".tabs").get_by_role("button", name="Continue").click()
        expect(page.get_by_role("form", name="continue")).to_be_in_viewport()
        tab.press("Escape")
        expect(page.get_by_role("form", name="continue")).to_have_count(0)
        for name in "Tree", "Compare", "Wire", "Read":
            page.get_by_role("navigation", name="view").last.get_by_role("button", name=name).click()
            expect(page.get_by_role("button", name=name, exact=True)).to_have_attribute("aria-current", "page")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, name


@pytest.mark.parametrize(("width", "height", "level"), [(1440, 900, "near"), (1024, 700, "middle")])
def test_all_cards_are_shown_beside_the_panels(
    chromium: Any, server: Threaded, width: int, height: int, level: str
) -> None:
    """`z` puts no card beneath the branches or the map, nor beyond the edges; no line of a small card is cut."""
    with Tab(chromium, server, viewport={"width": width, "height": height}) as tab:
        page = tab.go(f"/s/{KEY}/canvas?at=lease4")
        expect(tab.card("lease4")).to_be_visible()
        tab.press("z")
        expect(tab.card("q")).to_be_in_viewport()
        expect(page.locator(f'.stage[data-level="{level}"]')).to_be_visible()
        stage = page.locator(".stage").bounding_box()
        panels = [one.bounding_box() for one in page.locator(".stage > .float").all()]
        cards = [one.bounding_box() for one in page.locator("[data-card]").all()]
        assert 2 == len(panels) and len(cards) > 8
        for card in cards:
            assert not any(_overlap(card, panel) for panel in panels), (card, panels)
            assert stage["x"] <= card["x"] and card["x"] + card["width"] <= stage["x"] + stage["width"]
            assert stage["y"] <= card["y"] and card["y"] + card["height"] <= stage["y"] + stage["height"]
        for line in page.locator(".node.mid .first").all():
            lines, left = line.evaluate(
                "(e) => [e.clientHeight / parseFloat(getComputedStyle(e).lineHeight),"
                " e.closest('.node').getBoundingClientRect().bottom - e.getBoundingClientRect().bottom]"
            )
            assert left >= 0 and abs(lines - round(lines)) < 0.1, (lines, left)


@pytest.fixture(scope="module")
def wide_and_tall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Threaded]:
    """A question with ten answers, two of them named, and a path of 600 messages."""
    home = tmp_path_factory.mktemp("wide")
    with Session.open("wide", home=home) as session:
        session.append(il.UserMessage(content="Which way?"), id="q")
        for number in range(10):
            answer = il.AssistantMessage(content=f"Way {number}", model="m", stop_reason="stop")
            session.append(answer, id=f"a{number}", parent_id="q")
            session.append(il.UserMessage(content="And then?"), id=f"b{number}", parent_id=f"a{number}")
        for name, number in (("left", 0), ("middle", 1), ("right", 9)):
            session.set_branch(name, f"b{number}")
    with Session.open("tall", home=home) as session:
        for number in range(600):
            session.append(il.UserMessage(content=f"{number} and so on"), id=f"t{number}")
    with Threaded(home) as server:
        yield server


@pytest.mark.parametrize("width", [900, 1000, 1130, 1280, 1440])
def test_no_panel_covers_the_selected_card(chromium: Any, wide_and_tall: Threaded, width: int) -> None:
    """Neither where the page opens nor when another card is chosen; a narrow one shows its branches when asked."""
    with Tab(chromium, wide_and_tall, viewport={"width": width, "height": 600}) as tab:

        def covered(id: str) -> list[Any]:
            panels = [one.bounding_box() for one in tab.page.locator(".stage > .float").all()]
            assert 2 == len(panels)
            return [panel for panel in panels if _overlap(tab.card(id).bounding_box(), panel)]

        for id in "q", "a1", "b2", "a9":
            page = tab.go(f"/s/own~main~wide/canvas?at={id}")
            expect(tab.card(id)).to_have_attribute("aria-pressed", "true")
            expect(page.get_by_role("region", name="branches")).to_be_visible()
            assert [] == covered(id), id
        page = tab.go("/s/own~main~wide/canvas?at=a0")
        expect(tab.card("a0")).to_have_attribute("aria-pressed", "true")
        for number in range(1, 10):
            tab.press("l")
            expect(tab.card(f"a{number}")).to_have_attribute("aria-pressed", "true")
            expect(tab.card(f"a{number}")).to_be_in_viewport(ratio=1)
            assert [] == covered(f"a{number}"), number
        branches = page.get_by_role("region", name="branches")
        if branches.get_by_text("right").count() == 0:
            branches.get_by_role("button", name="3 branches").click()
        branches.get_by_role("button", name="left").click()
        expect(tab.card("b0")).to_have_attribute("aria-pressed", "true")


def test_the_whole_of_a_tall_tree_is_shown(chromium: Any, wide_and_tall: Threaded) -> None:
    """`z` zooms out as far as the tree needs."""
    with Tab(chromium, wide_and_tall) as tab:
        page = tab.go("/s/own~main~tall/canvas?at=t599")
        expect(tab.card("t599")).to_be_visible()
        view = """() => {
            const style = getComputedStyle(document.querySelector(".react-flow__viewport"));
            const {f, d} = new DOMMatrix(style.transform);
            return [f, d];
        }"""
        stage, last = page.locator(".stage").bounding_box(), tab.card("t599").bounding_box()
        end = last["y"] + last["height"] - stage["y"] - page.evaluate(view)[0]
        tab.press("z")
        tab.until("() => document.querySelector('.stage').dataset.level === 'far'")
        y, zoom = page.evaluate(view)
        assert y >= 0 and end * zoom + y <= stage["height"]


def _overlap(one: Any, other: Any) -> bool:
    return bool(
        one["x"] < other["x"] + other["width"]
        and other["x"] < one["x"] + one["width"]
        and one["y"] < other["y"] + other["height"]
        and other["y"] < one["y"] + one["height"]
    )


def test_a_tablet_has_room_for_every_button(chromium: Any, server: Threaded) -> None:
    """Labels give way to icons, and keep their names."""
    with Tab(chromium, server, viewport={"width": 820, "height": 1180}) as tab:
        page = tab.go(f"/s/{KEY}/transcript")
        expect(tab.turn("lease4")).to_be_visible()
        for name in "Canvas", "Transcript", "Compare", "Wire", "Doctor", "Export", "Theme":
            expect(page.locator(".top").get_by_role("button", name=name)).to_be_visible()
        parts = page.locator(".top :is(button, .now)").all()
        boxes = [one.bounding_box() for one in parts if one.is_visible()]
        for number, one in enumerate(boxes):
            assert one["x"] + one["width"] <= 820
            assert not any(_overlap(one, other) for other in boxes[number + 1 :])
        search = page.locator(".field.search")
        assert search.evaluate("(e) => e.scrollWidth <= e.clientWidth + 1") and "Search" in (search.inner_text() or "")


def test_the_doctor_checks_for_a_chosen_model(tab: Tab) -> None:
    """What a model would refuse or drop is on the cards and beside them; n leads from one to the next, in any view."""
    page = tab.go(f"/s/{KEY}/canvas?at=q")
    expect(tab.card("q")).to_be_visible()
    tab.press("d")
    doctor = page.get_by_label("doctor", exact=True)
    expect(doctor).to_contain_text("No problems found")
    doctor.get_by_label("model to check for").fill("mistral/mistral-small-latest")
    tab.press("Enter")
    expect(doctor).to_contain_text("signed by another model")
    expect(tab.card("a1").locator(".flag")).to_be_visible()
    page.get_by_label("transcript", exact=True).or_(doctor).first.click()
    tab.press("n")
    assert "at=a1" in page.url
    tab.press("2")
    expect(doctor).to_contain_text("signed by another model")  # over the transcript, too
    tab.press("d")
    expect(doctor).to_have_count(0)
    tab.press("d")
    doctor.get_by_label("model to check for").fill("nobody/nothing-1")
    tab.press("Enter")
    expect(doctor).not_to_contain_text("signed by another model")


def test_a_prompt_of_one_session_alone_is_compared(chromium: Any, tmp_path: Path) -> None:
    """The other side has a gap, what is long is shortened, and a session of one path has no list of paths."""
    words = "word " * 1000
    with Session.open("one", home=tmp_path, about=il.Conversation(system=f"{words}end")) as session:
        session.append(il.UserMessage(content="Hello"), id="q")
    with Session.open("two", home=tmp_path) as session:
        session.append(il.UserMessage(content="Hello"), id="q")
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        page = tab.go("/s/own~main~one/compare?bkey=own~main~two")
        first = page.locator(".cmp .row").first
        expect(first.locator(".mid")).to_have_text("only in A")
        expect(first.locator(".r .none")).to_be_visible()
        expect(first.locator(".l")).not_to_contain_text("end")
        first.get_by_role("button", name="Show 3,803 more characters").click()
        expect(first.locator(".l")).to_contain_text("end")
        expect(page.locator(".cmp select")).to_have_count(0)


def test_what_is_compared_is_named_on_a_phone(chromium: Any, tmp_path: Path) -> None:
    """Paths without a name are called by their last words, and leave room for their models."""
    with Session.open("two", home=tmp_path) as session:
        session.append(il.UserMessage(content="Hello"), id="q")
        for id in "a", "b":
            answer = il.AssistantMessage(
                content=f"{id} long answer that has no name of its own", model=f"some-model-{id}"
            )
            session.append(answer, id=id, parent_id="q")
    with Threaded(tmp_path) as server, Tab(chromium, server, viewport=PHONE) as tab:
        page = tab.go("/s/own~main~two/compare?a=a&b=b")
        for id in "a", "b":
            model = page.locator(".pick .dim", has_text=f"some-model-{id}")
            expect(model).to_be_visible()
            assert model.evaluate("one => one.scrollWidth <= one.clientWidth")


def test_a_session_is_compared_with_another(tab: Tab, server: Threaded) -> None:
    """Chosen by its title; both sides are drawn, and lead to their own session."""
    with Session.open("other", home=server.home) as session:
        session.append(il.UserMessage(content="Take the outbox. Rows must survive."), id="o1")
        session.append(il.AssistantMessage(content="Only here.", model="m", provider="p", stop_reason="stop"), id="o2")
    page = tab.go(f"/s/{KEY}/compare?a=outbox1")
    page.get_by_role("button", name="Another session").click()
    page.get_by_label("find a session").fill("take the outbox")
    page.locator(".dialogbody .row", has_text="Take the outbox").click()
    expect(page.locator(".cmp")).to_contain_text("Only here.")
    page.locator(".cmp article", has_text="Only here.").get_by_role("button", name="Open").click()
    expect(tab.turn("o2")).to_be_visible()
    assert "/s/own~main~other/transcript" in page.url


def test_tool_loops_and_straight_runs_fold(chromium: Any, tmp_path: Path) -> None:
    """All loops by one key, a run by another; the selected card stays where it is, and a reload keeps them."""
    with Session.open("loop", home=tmp_path) as session:
        session.append(il.UserMessage(content="Begin"), id="q")
        for number in range(3):
            call = il.ToolCall(id=f"c{number}", name="read", arguments={"path": "x"})
            session.append(il.AssistantMessage(content=(call,), model="m", stop_reason="toolUse"), id=f"a{number}")
            done = il.ToolResultMessage(
                tool_call_id=f"c{number}", tool_name="read", content=(il.TextBlock(text="ok"),), is_error=False
            )
            session.append(done, id=f"r{number}")
        session.append(il.AssistantMessage(content="Done", model="m", stop_reason="stop"), id="end")
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        page = tab.go("/s/own~main~loop/canvas?at=end")
        expect(tab.card("a1")).to_be_visible()
        before = tab.card("end").bounding_box()
        with page.expect_response(lambda answer: answer.url.endswith("/view") and answer.request.method == "PUT"):
            tab.press("Shift+Space")
        expect(tab.card("a1")).to_have_count(0)
        expect(tab.card("a0")).to_contain_text("4 folded")
        after = tab.card("end").bounding_box()
        assert abs(before["y"] - after["y"]) < 2
        page.reload()
        expect(tab.card("a0")).to_contain_text("4 folded")
        with page.expect_response(lambda answer: answer.url.endswith("/view") and answer.request.method == "PUT"):
            tab.press("Shift+Space")
        expect(tab.card("a1")).to_be_visible()
        tab.go("/s/own~main~loop/canvas?at=q")
        expect(tab.card("q")).to_be_visible()
        tab.press("F")
        expect(tab.card("q")).to_contain_text("6 folded")
        expect(page.locator("[data-card]")).to_have_count(2)
        tab.press("F")
        expect(tab.card("a2")).to_be_visible()


def test_a_link_to_a_block_unfolds_it(tab: Tab) -> None:
    """Of a call's result all lines are shown, of an answer its thinking; folding it again is the reader's choice."""
    page = tab.go(f"/s/{KEY}/transcript?at=r2&block=0")
    expect(tab.turn("a1")).to_contain_text("43: line of the worker")
    tab.turn("a1").locator("button.call", has_text="courier/worker.py").click()
    expect(tab.turn("a1")).not_to_contain_text("43: line of the worker")
    page = tab.go(f"/s/{KEY}/transcript?at=a1&block=0")
    expect(tab.turn("a1").locator(".thinkbox")).to_contain_text("The second peak starts")
    tab.turn("a1").locator(".prose").first.click()
    assert "block=1" in page.url


def test_the_place_on_the_canvas_is_kept(tab: Tab) -> None:
    """A visit without a selection in its address begins where the last one ended."""
    page = tab.go(f"/s/{KEY}/canvas")
    expect(page.locator("[data-card]").first).to_be_visible()
    zoom = "key => JSON.parse(localStorage.getItem(key) ?? '{}').zoom ?? 1"
    while page.evaluate(zoom, f"view {KEY}") > 0.9:  # the first move of the view overrides keys pressed meanwhile
        tab.press("-")
        page.wait_for_timeout(1000)
    shown = f"{page.evaluate(zoom, f'view {KEY}') * 100:.0f} %"
    page.reload()
    expect(page.locator(".map .ctl")).to_contain_text(shown)


def test_a_broken_file_says_so_where_it_is_read(tab: Tab, server: Threaded) -> None:
    """The number of problems in the bar, the lines in the transcript and in the doctor."""
    data = b'{"role":"user","content":"Hi"}\n{"role":"assistant","content":[{"type":"text","text":"cut'
    (place,), _ = server.canvas.library.open_data(data, "broken.jsonl", None)
    page = tab.go(f"/s/{place.key}/transcript")
    expect(page.locator(".title .err")).to_contain_text("line 2")
    page.get_by_role("button", name="1 problem").click()
    expect(page.get_by_label("doctor", exact=True)).to_contain_text("line 2")


def test_a_record_of_an_unknown_role_stands_below_the_message_that_it_follows(chromium: Any, tmp_path: Path) -> None:
    """Named by what it says, with its JSON behind it, whole; it has no card and is no step."""
    long = "x" * 9000
    with Session.open("events", home=tmp_path) as session:
        session.append(il.UserMessage(content="Go"), id="q")
        fields = {"type": "event_msg", "payload": {"type": "task_complete", "detail": long}}
        session.append(il.CustomMessage(role="event_msg", fields=fields), id="e")
        session.append(il.AssistantMessage(content="Gone", model="m"), id="a")
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        page = tab.go("/s/own~main~events/canvas?at=q")
        expect(tab.card("a")).to_be_visible()
        expect(page.locator(".react-flow [data-card]")).to_have_count(2)
        tab.press("j", "2")
        expect(tab.turn("a")).to_have_class(re.compile("here"))
        tab.turn("q").get_by_role("button", name="event_msg: task_complete").click()
        page.get_by_role("button", name=re.compile("more characters")).click()
        expect(tab.turn("q")).to_contain_text(long)
        tab.go("/s/own~main~events/transcript?at=e")  # as a search finds it
        expect(tab.turn("q").locator(".callbody")).to_contain_text("task_complete")
        expect(tab.turn("a")).to_be_visible()


def test_records_of_a_program_begin_no_path(chromium: Any, tmp_path: Path) -> None:
    """Lines of Claude Code without a place in its tree: one lane, and each below a message of the transcript."""
    note = {"type": "last-prompt", "sessionId": SESSION}
    turns = claude_turns(3)
    lines = [json.dumps(one) for turn in turns for one in (turn, note, note)]
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        (place,), _ = server.canvas.library.open_data("\n".join(lines).encode(), "a.jsonl", None)
        page = tab.go(f"/s/{place.key}/canvas")
        expect(page.locator(".react-flow [data-card]").first).to_be_visible()
        expect(page.locator(".side > header")).to_contain_text(re.compile(r"message [1-9]\d* of "))
        drawn = page.locator(".react-flow [data-card]")
        assert 1 == len(
            {round(box["x"]) for box in drawn.evaluate_all("all => all.map(o => o.getBoundingClientRect())")}
        )
        tab.press("z", "2")
        expect(page.locator(".outline header")).to_contain_text("1 path")
        expect(page.locator(".title")).to_contain_text("12 messages")
        expect(page.locator(".forkbar")).to_have_count(0)
        expect(page.locator(".records").last).to_contain_text("2 records: last-prompt")


def test_messages_have_one_number_everywhere(chromium: Any, tmp_path: Path) -> None:
    """A program's records between them are not counted: not beside the canvas, nor in any list, chart or view."""
    with Session.open("kept", home=tmp_path) as session:
        for at, turn in enumerate(("one", "two", "three")):
            session.append(il.CustomMessage(role="mode", fields={"at": at}))
            session.append(il.UserMessage(content=f"question {turn}"), id=f"q{at}")
            session.append(il.CustomMessage(role="snapshot", fields={"at": at}))
            usage = il.Usage.of(100, 5, cost=il.Cost(total=0.1))
            session.append(il.AssistantMessage(content=f"answer {turn}", model="m", usage=usage), id=f"a{at}")
        session.set_branch("kept", "a2")
        session.set_branch("begun", "a0")
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        server.canvas.finder.follow()
        page = tab.go("/s/own~main~kept/canvas?at=a1")
        expect(page.locator(".side > header")).to_contain_text("message 4 of 6")
        expect(page.locator(".heads li", has_text="kept")).to_contain_text("6 messages")
        expect(page.locator("button.ruler")).to_contain_text("at message 4")
        expect(page.get_by_role("button", name="Continue from message 4")).to_be_visible()
        expect(page.locator("[role=treeitem][aria-selected=true]")).to_contain_text("message 4 of 6")
        tab.press("x")
        expect(page.locator(".drawer .abar .num")).to_have_text(["2", "4", "6"])
        drawer = page.get_by_label("context by answer")
        drawer.get_by_role("button", name="Cache").click()
        expect(drawer.locator(".cachelist > button > .num:first-child")).to_have_text(["2", "4", "6"])
        drawer.get_by_role("button", name="Time and cost").click()
        numbered = re.compile("message 2: .*message 4: .*message 6: ")
        expect(drawer.locator("[role=img]").first).to_have_attribute("aria-label", numbered)
        tab.press("x", "/")
        page.get_by_role("textbox", name="search in this session").fill("answer two")
        expect(page.locator(".hit")).to_contain_text("message 4")
        tab.press("Escape", "4")
        expect(page.locator(".wirework .bar")).to_contain_text("at message 4 of")
        assert 6 == tab.get("/api/sessions/own~main~kept")["messages"]


def _answers(home: Path, id: str, count: int, **usage: Any) -> str:
    """A session of many short turns, each with a call; returns its key."""
    with Session.open(id, home=home) as session:
        for at in range(count):
            call = il.ToolCall(id=f"c{at}", name="look", arguments={"at": at})
            session.append(il.UserMessage(content=f"question {at} " + "word " * 40), id=f"q{at}")
            answer = il.AssistantMessage(
                content=(call,), model="claude-sonnet-4-5", usage=il.Usage.of(10 + at, 5, **usage)
            )
            session.append(answer, id=f"a{at}")
            text = (il.TextBlock(text=f"seen {at}"),)
            result = il.ToolResultMessage(tool_call_id=f"c{at}", tool_name="look", content=text, is_error=False)
            session.append(result, id=f"r{at}")
    return f"own~main~{id}"


def test_the_end_of_a_long_path_is_selected_in_every_list(chromium: Any, tmp_path: Path) -> None:
    """A result stands for its call: in the outline and among the bars, each scrolled to it; the ruler is to scale."""
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        page = tab.go(f"/s/{_answers(tmp_path, 'long', 80)}/transcript?at=r79")
        expect(page.locator(".outline [aria-selected=true]")).to_contain_text("message 239 of 240")
        expect(page.locator(".outline [aria-selected=true]")).to_be_in_viewport()
        tab.press("x")
        expect(page.locator(".drawer .abar.here .num")).to_have_text("239")
        expect(page.locator(".drawer .abar.here")).to_be_in_viewport()
        drawer = page.get_by_label("context by answer")
        drawer.get_by_role("button", name="Cache").click()
        expect(drawer.locator(".cachelist .here")).to_be_in_viewport()
        drawer.get_by_role("button", name="Time and cost").click()
        expect(drawer.locator("figcaption").first).to_have_text("Cost so far")
        expect(drawer).to_contain_text("unknown: nothing was recorded")
        pin = page.locator(".ruler .now").bounding_box()
        bars = page.locator(".ruler .bar i").evaluate_all(
            "all => Math.max(...all.map(o => o.getBoundingClientRect().right))"
        )
        assert abs(pin["x"] - bars) < 3


def test_the_first_message_is_the_first_though_rows_are_still_read(chromium: Any, tmp_path: Path) -> None:
    """`g` waits for all rows: the page begins with the last ones."""
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        key = _answers(tmp_path, "long", 80)
        with tab.holding("**/tree?since=*"):
            page = tab.go(f"/s/{key}/canvas")
            expect(page.locator(".side > header")).to_contain_text("loading")
            expect(page.locator(".side > header")).not_to_contain_text("no answers")
            tab.press("g")
        expect(page.locator(".side > header")).to_contain_text("message 1 of 240")
        expect(tab.card("q0")).to_be_visible()


def test_an_export_says_what_it_hides_and_what_it_loses(chromium: Any, tmp_path: Path) -> None:
    """Each find with its surroundings in full, on a phone too; each kind of loss before anything is written."""
    secret = "sk-ant-" + "api03-" + "a1B2" * 22
    with Session.open("kept", home=tmp_path) as session:
        session.append(il.UserMessage(content=f"My key is {secret}, and my door is open."), id="q")
        call = il.ToolCall(id="c", name="look", arguments={})
        session.append(il.AssistantMessage(content=(call,), model="m", stop_reason="toolUse"), id="a")
        done = il.ToolResultMessage(
            tool_call_id="c", tool_name="look", content=(il.TextBlock(text="no"),), is_error=True
        )
        session.append(done, id="r")
    with Threaded(tmp_path) as server, Tab(chromium, server, viewport=PHONE) as tab:
        page = tab.go("/s/own~main~kept/transcript")
        page.get_by_role("button", name="Export").click()
        found = page.get_by_label("finds").locator("code").last  # the first is in the title
        expect(found).to_contain_text("and my door is")
        assert found.evaluate("one => one.scrollWidth <= one.clientWidth && one.clientHeight > 30")
        expect(page.get_by_label("losses")).to_have_count(0)
        page.get_by_label("format").select_option("sharegpt")
        expect(page.get_by_label("losses")).to_contain_text("dropped")
        expect(page.get_by_label("losses")).to_contain_text("is_error")
        page.get_by_label("format").select_option("transcript")
        expect(page.get_by_label("losses")).to_have_text("Nothing is lost in this format.")


def test_a_title_is_shortened_after_the_name_of_its_file(chromium: Any, tmp_path: Path) -> None:
    """Both are in the bar; the title is what a reader looks for."""
    lines = [*claude_turns(1), {"type": "ai-title", "aiTitle": "What was talked about here", "sessionId": SESSION}]
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        data = "\n".join(json.dumps(line) for line in lines).encode()
        (place,), _ = server.canvas.library.open_data(data, f"{'a-rather-long-name-of-a-file' * 3}.jsonl", None)
        page = tab.go(f"/s/{place.key}/canvas")
        title = page.locator(".crumb .now")
        expect(title).to_have_text("What was talked about here")
        assert title.evaluate("one => one.scrollWidth <= one.clientWidth")


def test_tags_in_a_text_are_shown(chromium: Any, tmp_path: Path) -> None:
    """Prompts are full of them: `<context>` and what stands in it is text, and no element of the page."""
    text = (
        "Read <b>this</b>:\n\n<context kind='x'>\nfirst line\nsecond line\n</context>\n\n> <note>quoted</note>\n\n$$x$$"
    )
    with Session.open("tags", home=tmp_path) as session:
        session.append(il.UserMessage(content=text.partition("$$")[0]), id="q")
        session.append(il.AssistantMessage(content=text, model="m"), id="a")
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        tab.go("/s/own~main~tags/transcript")
        for id in "q", "a":
            shown = tab.turn(id).locator(".prose")
            expect(shown).to_contain_text("Read <b>this</b>:")
            expect(shown.locator("p", has_text="first line")).to_have_text(
                "<context kind='x'>\nfirst line\nsecond line\n</context>", use_inner_text=True
            )
            expect(shown.locator("blockquote")).to_contain_text("<note>quoted</note>")
            expect(shown.locator("b, context, note")).to_have_count(0)


def test_what_is_not_there_is_said(chromium: Any, tmp_path: Path) -> None:
    """A session without messages has neither map nor cost; a message without content says so."""
    with Session.open("none", home=tmp_path) as session:
        session.label(None, "Nothing yet")
    with Session.open("blank", home=tmp_path) as session:
        session.append(il.UserMessage(content=""), id="q")
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        page = tab.go("/s/own~main~none/canvas")
        expect(page.locator(".stage")).to_contain_text("No messages yet.")
        expect(page.locator(".side > header")).to_contain_text("no answers")
        expect(page.locator(".side > header")).not_to_contain_text("unknown")
        expect(page.get_by_label("map")).to_be_hidden()
        tab.go("/s/own~main~blank/transcript")
        expect(tab.turn("q")).to_contain_text("No content.")


def test_deep_quotes_keep_to_their_place(chromium: Any, tmp_path: Path) -> None:
    """A thousand quotes in each other do not leave the column."""
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        turn = {"role": "user", "content": "> " * 1000 + "the innermost"}
        data = json.dumps({"model": "m", "max_tokens": 5, "messages": [turn]}).encode()
        (place,), _ = server.canvas.library.open_data(data, "a.json", None)
        page = tab.go(f"/s/{place.key}/transcript")
        quoted = page.get_by_text("the innermost", exact=True)
        expect(quoted).to_be_in_viewport()
        column = page.locator("article.turn .main").first.bounding_box()
        assert quoted.bounding_box()["x"] < column["x"] + column["width"]


def test_long_names_of_models_leave_room_for_figures(chromium: Any, tmp_path: Path) -> None:
    """On cards and in the transcript beside them: figures whole, names shortened, and nothing over anything else."""
    name = "gemini-3.1-pro-preview-2026-01-31-with-a-long-name"
    usage = il.Usage.of(2_400_000, 5)
    with Session.open("long", home=tmp_path) as session:
        session.append(il.UserMessage(content="Go", timestamp=1_000_000), id="q")
        answer = il.AssistantMessage(content="Gone", model=name, stop_reason="stop", usage=usage, timestamp=1_100_000)
        session.append(answer, id="a")
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        page = tab.go("/s/own~main~long/canvas?at=a")
        expect(tab.card("a").locator(".figs")).to_contain_text("cost unknown")
        expect(tab.turn("a").locator(".acts")).to_be_visible()
        expect(page.locator(".side > header")).to_contain_text("2.4M in")
        inside = """([outer, ...parts]) => {
            const box = one => one.getBoundingClientRect(), all = parts.map(box), out = box(outer);
            return all.every(one => one.left >= out.left && one.right <= out.right)
                && all.every((one, at) => at === 0 || one.left >= all[at - 1].right) }"""
        for place, parts in ((tab.card("a"), ("b", ".figs")), (tab.turn("a").locator(".who"), ("b", ".figs", ".acts"))):
            found = [place.element_handle(), *(place.locator(one).first.element_handle() for one in parts)]
            assert page.evaluate(inside, found), parts


def test_a_card_and_the_transcript_name_the_same_argument(tab: Tab) -> None:
    page = tab.go(f"/s/{KEY}/canvas?at=a1")
    expect(tab.card("a1").locator(".call .arg").first).to_have_text("claim_delivery")
    expect(tab.turn("a1").locator(".call .arg").first).to_have_text("claim_delivery")
    expect(page.locator(".tree li", has_text="courier/worker.py").first).to_have_text(
        re.compile("edit courier/worker.py")
    )


def test_space_presses_the_control_that_has_the_focus(tab: Tab) -> None:
    """And folds only when none has it."""
    page = tab.go(f"/s/{KEY}/canvas?at=a1")
    expect(tab.card("a2")).to_be_visible()
    page.get_by_role("button", name="Export").focus()
    tab.press(" ")
    expect(page.get_by_role("dialog", name="Export")).to_be_visible()
    tab.press("Escape")
    expect(tab.card("a2")).to_be_visible()


def test_keys_without_ctrl_can_be_turned_off(tab: Tab) -> None:
    """For those whose speech or slips press them; the choice is kept, and can be taken back without them."""
    page = tab.go(f"/s/{KEY}/transcript?at=q")
    expect(tab.turn("q")).to_have_class(re.compile("here"))
    tab.press("?")
    page.get_by_label("Keys without Ctrl").uncheck()
    tab.press("Escape", "j", "4")
    page.reload()
    expect(tab.turn("q")).to_have_class(re.compile("here"))
    tab.press("j", "Control+k")
    page.get_by_role("combobox", name="command").fill("keyboard")
    tab.press("Enter")
    expect(tab.turn("q")).to_have_class(re.compile("here"))
    page.get_by_label("Keys without Ctrl").check()
    tab.press("Escape", "j")
    expect(tab.turn("a1")).to_have_class(re.compile("here"))


def test_a_screen_reader_hears_who_where_and_what_it_cost(tab: Tab) -> None:
    page = tab.go(f"/s/{KEY}/canvas?at=a2")
    name = re.compile(r"^claude-sonnet-4-5, message 6 of 10, 3 branches: ?Found.*\$0\.07$")
    chosen = page.get_by_role("treeitem", name=name)
    expect(chosen).to_have_count(1)
    expect(page.get_by_role("tree")).to_have_attribute("aria-activedescendant", str(chosen.get_attribute("id")))
    expect(page.get_by_role("treeitem", name=re.compile("^exec, message 5 of 10, failed: ?FAILED"))).to_have_count(1)
    expect(page.get_by_role("treeitem", name=re.compile("^You, another branch: ?Take the outbox"))).to_have_count(1)


@pytest.mark.parametrize("view", ["canvas", "transcript", "compare", "wire"])
@pytest.mark.parametrize("width", [1440, 1100, 800, 390, 320])
def test_no_view_is_wider_than_its_window(chromium: Any, server: Threaded, view: str, width: int) -> None:
    """Code scrolls in its box; the page never does, and no control is beyond its edge."""
    with Tab(chromium, server, viewport={"width": width, "height": 800}) as tab:
        ready = {"canvas": "[data-card], canvas", "transcript": ".words", "compare": ".cmp .row", "wire": ".json .ln"}
        page = tab.go(f"/s/{KEY}/{view}?at=lease4&a=lease4&b=outbox3&as=openai-completions")
        expect(page.locator(ready[view]).first).to_be_visible()
        tab.until("() => document.documentElement.scrollWidth <= innerWidth")
        beyond = """() => [...document.querySelectorAll(':is(.top, .bar, .tabs) :is(a, button, select), .whylist')]
            .filter(one => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth + 1)
            .map(one => one.outerHTML.slice(0, 80))"""
        assert [] == page.evaluate(beyond)


def test_controls_of_a_phone_are_large_enough(chromium: Any, server: Threaded) -> None:
    with Tab(chromium, server, viewport=PHONE) as tab:
        tab.go(f"/s/{KEY}/transcript?at=a2")
        expect(tab.turn("a2").locator(".acts .btn").first).to_be_visible()
        sizes = (
            tab.turn("a2").locator(".acts .btn, .call").evaluate_all("all => all.map(o => o.getBoundingClientRect())")
        )
        assert sizes and all(size["height"] >= 44 and size["right"] <= 390 for size in sizes)
        assert 1 == tab.page.locator("article.turn .acts:visible").count()
        high = "all => Math.min(...all.map(o => o.getBoundingClientRect().height))"
        for name, controls in ("Commands", ".commands .row"), ("Export", "select, header .btn, footer .btn, .opt"):
            tab.page.get_by_role("button", name=name).click()
            found = tab.page.get_by_role("dialog").locator(controls)
            expect(found.first).to_be_visible()
            assert found.evaluate_all(high) >= 44
            tab.press("Escape")


def test_what_a_program_put_in_is_not_drawn_as_a_person(chromium: Any, tmp_path: Path) -> None:
    with Session.open("context", home=tmp_path) as session:
        session.append(il.UserMessage(content="<context>", origin="program"), id="p")
        session.append(il.UserMessage(content="Go"), id="q")
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        tab.go("/s/own~main~context/canvas?at=q")
        for id, kind, name in ("p", "system", "Program"), ("q", "user", "You"):
            expect(tab.card(id).locator(f".role.{kind}")).to_be_visible()
            expect(tab.card(id).locator("header b")).to_have_text(name)
            expect(tab.turn(id).locator(f".role.{kind}")).to_be_visible()


def test_a_wire_that_loses_nothing_warns_of_nothing(tab: Tab) -> None:
    page = tab.go(f"/s/{KEY}/wire?at=q&as=openai-completions")
    expect(page.locator(".whylist .empty")).to_be_visible()
    expect(page.locator(".wirework > .bar .loss")).to_have_count(0)


def test_a_plugin_says_how_its_tools_are_drawn(chromium: Any, tmp_path: Path) -> None:
    """Label, icon and kind of result come from its manifest; its code does not run."""
    folder = tmp_path / "plugins" / "weather"
    folder.mkdir(parents=True)
    view = {"icon": "globe", "label": "Weather service", "result": "markdown"}
    (folder / "interlingua.plugin.json").write_text(json.dumps({"id": "weather", "toolViews": {"weather": view}}))
    (folder / "plugin.py").write_text("raise SystemExit('must not run')")
    with Session.open("w", home=tmp_path) as session:
        call = il.ToolCall(id="c", name="weather", arguments={"city": "Oslo"})
        session.append(il.AssistantMessage(content=(call,), model="m", stop_reason="toolUse"), id="a")
        text = il.TextBlock(text="It is **cold** <script>window.hurt = 1</script>")
        session.append(il.ToolResultMessage(tool_call_id="c", tool_name="weather", content=(text,), is_error=False))
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        page = tab.go("/s/own~main~w/transcript?at=a")
        tab.turn("a").locator("button.call", has_text="Weather service").click()
        expect(tab.turn("a").locator(".output strong")).to_have_text("cold")
        assert page.evaluate("window.hurt") is None


def test_each_text_is_written_in_its_own_direction(chromium: Any, tmp_path: Path) -> None:
    """Arabic and Hebrew begin at the right, in cards, rows and paragraphs, and are cut at their end; code does not."""
    arabic = "هل يمكنك شرح كيفية عمل الشبكات العصبية؟ " * 6
    with Session.open("rtl", home=tmp_path) as session:
        session.label(None, "שלום עולם")
        session.append(il.UserMessage(content=arabic), id="q")
        content = f"{arabic}\n\n1. {arabic}\n\nIn English.\n\n```python\nprint(1)\n```"
        session.append(il.AssistantMessage(content=content, model="m"), id="a")
    direction = "(one) => getComputedStyle(one).direction"
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        assert "rtl" == tab.page.locator("a.row .t b").evaluate(direction)
        page = tab.go("/s/own~main~rtl/canvas")
        expect(tab.card("q")).to_be_visible()
        assert "rtl" == tab.card("q").locator(".say").evaluate(direction)
        page = tab.go("/s/own~main~rtl/transcript")
        expect(tab.turn("a").locator("pre")).to_be_visible()
        assert "rtl" == page.locator(".outline [role=treeitem] > .cut").first.evaluate(direction)
        prose = tab.turn("a").locator(".prose")
        assert ["rtl", "ltr"] == [prose.locator("> p").nth(at).evaluate(direction) for at in (0, 1)]
        assert "rtl" == prose.locator("ol").evaluate(direction)
        assert "ltr" == prose.locator("pre").evaluate(direction)


def test_a_wide_fork_shows_the_siblings_around_the_one_that_is_read(chromium: Any, tmp_path: Path) -> None:
    """A screen of chips before every answer is no way to read; the rest are counted, and one click away."""
    with Session.open("wide", home=tmp_path) as session:
        session.append(il.UserMessage(content="Name a colour."), id="q")
        for at in range(40):
            session.append(il.AssistantMessage(content=f"Colour {at}", model="m"), id=f"a{at}", parent_id="q")
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        page = tab.go("/s/own~main~wide/transcript?at=a20")
        bar = page.get_by_role("navigation", name="siblings")
        expect(bar.locator(".chip")).to_have_count(12)
        expect(bar.locator(".chip[aria-current]")).to_have_text("21 of 40")
        expect(bar.get_by_role("button", name="14 earlier")).to_be_visible()
        bar.get_by_role("button", name="14 more").click()
        expect(bar.locator(".chip")).to_have_count(40)


def test_a_tree_that_fits_opens_whole(chromium: Any, tmp_path: Path) -> None:
    """Three lanes have room beside each other; of a wider tree no half of the view is empty."""
    with Session.open("lanes", home=tmp_path) as session:
        session.append(il.UserMessage(content="Name a colour."), id="q")
        for at in range(3):
            session.append(il.AssistantMessage(content=f"Colour {at}", model="m"), id=f"a{at}", parent_id="q")
    with Session.open("wider", home=tmp_path) as session:
        session.append(il.UserMessage(content="Name a colour."), id="q")
        for at in range(9):
            session.append(il.AssistantMessage(content=f"Colour {at}", model="m"), id=f"a{at}", parent_id="q")
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        page = tab.go("/s/own~main~lanes/canvas?at=a2")
        stage = tab.box(page.locator(".stage"))
        for id in ("q", "a0", "a1", "a2"):
            box = tab.box(tab.card(id))
            assert box["x"] >= stage["x"] and box["x"] + box["width"] <= stage["x"] + stage["width"]
        tab.go("/s/own~main~wider/canvas?at=a8")
        for id in ("a6", "a7", "a8"):
            assert tab.box(tab.card(id))["x"] >= stage["x"]


def test_the_composer_stands_below_the_words(tab: Tab) -> None:
    """In the transcript it has the column of what was said."""
    tab.go(f"/s/{KEY}/transcript?at=lease4")
    words, box = tab.turn("lease4").locator(".main").bounding_box(), tab.page.locator(".foot .box").bounding_box()
    assert abs(words["x"] - box["x"]) <= 1 and abs(words["width"] - box["width"]) <= 1


def test_a_picture_has_sub_agents_of_the_same_file_beside_their_calls(chromium: Any, tmp_path: Path) -> None:
    """In a dashed frame, level with the card of the call, as on the page."""
    with Threaded(tmp_path / "home") as server, Tab(chromium, server) as tab:
        place = server.canvas.library.open_path(Path(__file__).parents[1] / "wire" / "atif/sub_agent.json")[0][0]
        (first,) = [row for row in tab.get(f"/api/sessions/{place.key}/tree")["rows"] if "caller" in row]
        page = tab.go(f"/s/{place.key}/canvas?at=m1")
        expect(tab.card("m1")).to_be_visible()
        tab.press("E")
        page.get_by_label("format").select_option("svg")
        expect(page.get_by_label("finds")).to_be_visible()
        with page.expect_download() as waiting:
            page.get_by_role("button", name="Save").click()
        waiting.value.save_as(tmp_path / "picture")
    root = ElementTree.fromstring((tmp_path / "picture").read_bytes())
    (frame,) = [one for one in root.iter() if one.get("data-agent") == first["id"]]
    assert first["text"] in " ".join(frame.itertext()) and first["text"] not in " ".join(
        text
        for one in root.iter()
        if one is not frame and "data-agent" not in one.attrib
        for text in [one.text or ""]
        if one not in list(frame.iter())
    )
    x, y = map(float, re.findall(r"[\d.]+", frame.get("transform") or ""))
    cards = [
        one.get("transform") or "" for one in root.iter() if (one.get("transform") or "").startswith("translate(0 ")
    ]
    assert x >= 268 and f"translate(0 {y:g})" in cards


def test_preferences_without_ratings_are_not_saved(chromium: Any, tmp_path: Path) -> None:
    """The dialog says that there are none; another format is saved as ever."""
    with Session.open("plain", home=tmp_path) as session:
        session.append(il.UserMessage(content="Hello"), id="q")
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        page = tab.go("/s/own~main~plain/canvas")
        expect(tab.card("q")).to_be_visible()
        tab.press("E")
        page.get_by_label("format").select_option("preferences")
        expect(page.get_by_role("alert")).to_contain_text("There are no pairs")
        expect(page.get_by_role("button", name="Save")).to_be_disabled()
        page.get_by_label("format").select_option("markdown")
        expect(page.get_by_role("button", name="Save")).to_be_enabled()
        expect(page.get_by_role("alert")).to_have_count(0)


def test_what_takes_long_says_that_it_is_being_done(chromium: Any, tmp_path: Path) -> None:
    """The wire, and whole requests of the cache view, which stand there in part until they are compared."""
    with Session.open("long", home=tmp_path) as session:
        for at in range(260):
            session.append(il.UserMessage(content=f"Question {at}"))
            session.append(il.AssistantMessage(content=f"Answer {at}", model="m", usage=il.Usage.of(9, 9)))
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        page = tab.page
        with tab.holding("**/wire?*"):
            tab.go("/s/own~main~long/wire")
            expect(page.get_by_role("status").filter(has_text="Encoding the request")).to_be_visible()
        expect(page.locator(".ln").first).to_be_visible()
        expect(page.locator(".busy")).to_have_count(0)
        tab.go("/s/own~main~long/transcript")
        expect(page.locator(".turn").first).to_be_visible()
        tab.press("x")
        page.get_by_role("button", name="Cache", exact=True).click()
        expect(page.locator(".cachelist > button").first).to_be_visible()
        with tab.holding("**/cache?*"):
            page.get_by_role("button", name="Compare whole requests").click()
            expect(page.locator(".busy")).to_contain_text("Comparing whole requests of 520 messages")
            expect(page.locator(".cachelist > button").first).to_be_visible()
        expect(page.locator(".busy")).to_have_count(0)
        expect(page.locator(".cachelist")).to_contain_text("of 260 answers")
