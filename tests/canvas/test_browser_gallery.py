"""The list of sessions in the browser: search with filters and a preview, new, open, delete and undo, paging, phone."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from canvas.sample import courier
from canvas.tabs import Served, Tab, Threaded, expect, needs_chromium
from interlingua.sessions import Session
from interlingua.sessions.files import FileStore
from interlingua.sessions.gc import delete

pytestmark = needs_chromium
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Threaded]:
    home = tmp_path_factory.mktemp("home")
    courier(home)
    with Threaded(home) as server:
        server.canvas.finder.follow()
        yield server


@pytest.fixture
def tab(chromium: Any, server: Threaded) -> Iterator[Tab]:
    with Tab(chromium, server) as tab:
        yield tab


def hello(home: Path, name: str, text: str = "Hello") -> None:
    with Session.open(name, home=home, sync="never") as session:
        session.append(il.UserMessage(content=text))


def test_a_search_is_narrowed_by_role_tool_model_failure_and_cost(tab: Tab) -> None:
    """Each filter offers the values that are indexed; without words it lists what fits; it can be cleared."""
    page = tab.page
    hits = page.locator("a.hit")
    page.get_by_label("search").fill("worker")
    expect(hits).to_have_count(9)
    page.get_by_label("tool", exact=True).select_option("exec")
    expect(hits).to_have_count(2)
    page.get_by_role("button", name="Failed only").click()
    expect(hits).to_have_count(1)
    expect(hits).to_contain_text("test_restart")
    page.get_by_role("button", name="Clear filters").click()
    expect(hits).to_have_count(9)
    page.get_by_label("search").fill("")
    expect(page.locator("a.row")).to_have_count(1)
    page.get_by_label("model", exact=True).select_option("gpt-5")
    expect(hits.first).to_contain_text("outbox")
    page.get_by_label("cost").select_option("1")
    expect(page.locator(".found")).to_contain_text("Nothing found")


def test_a_hit_is_shown_whole_beside_the_list(tab: Tab) -> None:
    """The arrows choose a hit, its message stands beside it, Enter opens it at the block that was found."""
    page = tab.page
    page.get_by_label("search").fill("advisory")
    expect(page.locator(".preview")).to_contain_text("Would an advisory lock be enough?")
    page.get_by_label("search").fill('"First, who claims"')
    expect(page.locator(".preview")).to_contain_text("what happens when a worker is stopped half-way")
    expect(page.locator("a.hit")).to_have_count(1)
    tab.press("ArrowDown")
    expect(page.locator("a.hit")).to_be_focused()
    tab.press("Enter")
    expect(tab.turn("a1").locator(".block.linked")).to_have_attribute("data-block", "1")
    assert "at=a1" in page.url and "block=1" in page.url


def test_a_deleted_session_can_be_brought_back(chromium: Any, tmp_path: Path) -> None:
    """From its row, with a message that undoes it; whoever looks at it is told."""
    hello(tmp_path, "gone", "Delete me")
    with Threaded(tmp_path) as server, Tab(chromium, server) as viewer, Tab(chromium, server) as tab:
        viewer.go("/s/own~main~gone/canvas")
        expect(viewer.page.locator("[data-card]")).to_be_visible()
        row = tab.page.locator(".line", has_text="Delete me")
        row.hover()
        row.get_by_role("button", name="Delete Delete me").click()
        expect(row).to_have_count(0)
        expect(viewer.page.locator(".lost")).to_contain_text("This session was deleted")
        tab.page.get_by_role("button", name="Undo").click()
        expect(row).to_have_count(1)
        expect(viewer.page.locator(".lost")).to_have_count(0)


@pytest.mark.parametrize("device", ["desktop", "phone"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_deleted_sessions_are_listed_after_the_message_is_gone(
    chromium: Any, tmp_path: Path, device: str, theme: str
) -> None:
    """With the time left; restored or removed for good, by keyboard too; the list survives a reload of the page."""
    for name in "one", "two", "three":
        hello(tmp_path, name, f"Delete {name}")
        delete(FileStore(tmp_path), "main", name)
    how = {"color_scheme": theme} | ({"viewport": PHONE} if device == "phone" else {})
    with Threaded(tmp_path) as server, Tab(chromium, server, **how) as tab, Tab(chromium, server) as other:
        page = tab.page
        if device == "phone":
            page.get_by_label("sessions shown").select_option("deleted")
        else:
            page.get_by_role("link", name="Recently deleted").click()
        rows = page.locator(".gonelist > li")
        expect(rows).to_have_count(3)
        page.reload()
        expect(rows).to_have_count(3)
        expect(rows.first).to_contain_text("7 days left")
        other.go("/#deleted")
        others = other.page.locator(".gonelist > li")
        expect(others).to_have_count(3)
        if shots := os.environ.get("CANVAS_SHOTS"):
            page.screenshot(path=f"{shots}/deleted-{device}-{theme}.png")

        tab.press("ArrowDown")
        expect(rows.nth(0).get_by_role("button", name="Restore")).to_be_focused()
        tab.press("ArrowDown")
        expect(rows.nth(1).get_by_role("button", name="Restore")).to_be_focused()
        tab.press("Enter")
        expect(page.locator(".toast")).to_contain_text("Restored “Delete two”")
        expect(rows).to_have_count(2)
        expect(others).to_have_count(2)
        expect(rows.nth(1).get_by_role("button", name="Restore")).to_be_focused()

        tab.press("Tab")
        tab.press("Enter")
        dialog = page.get_by_role("dialog", name="Delete for good")
        expect(dialog).to_contain_text("This cannot be undone")
        if shots:
            page.screenshot(path=f"{shots}/deleted-ask-{device}-{theme}.png")
        dialog.get_by_role("button", name="Cancel").click()
        expect(rows).to_have_count(2)
        gone = rows.nth(1).locator("b").text_content()
        rows.nth(1).get_by_role("button", name="for good").click()
        dialog.get_by_role("button", name="Delete for good").click()
        expect(rows).to_have_count(1)
        expect(others).to_have_count(1)
        expect(others).not_to_contain_text(gone or "")
        rows.get_by_role("button", name="Restore").click()
        expect(page.locator(".empty")).to_contain_text("No deleted sessions")
        page.goto(f"{page.url.partition('#')[0]}")
        expect(page.locator("a.row")).to_have_count(2)


def test_a_session_is_renamed_and_deleted_by_command(chromium: Any, tmp_path: Path) -> None:
    """The commands of the session itself; deleting leads back to the list, which can undo it."""
    hello(tmp_path, "one", "First words")
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        page = tab.go("/s/own~main~one/canvas")
        expect(page.locator("[data-card]")).to_be_visible()
        page.get_by_role("button", name="Commands").click()
        page.get_by_role("combobox").fill("rename")
        tab.press("Enter")
        page.get_by_label("title", exact=True).fill("A better name")
        tab.press("Enter")
        expect(page.locator(".top .now")).to_have_text("A better name")
        tab.press("Control+k")
        page.get_by_role("combobox").fill("delete")
        tab.press("Enter")
        expect(page.locator(".toast")).to_contain_text("Deleted “A better name”")
        expect(page.locator("a.row")).to_have_count(0)
        page.get_by_role("button", name="Undo").click()
        expect(page.locator("a.row")).to_contain_text("A better name")


def test_a_new_conversation_begins_with_its_first_message(chromium: Any, tmp_path: Path) -> None:
    """The button makes an empty session with its composer open; the first message becomes its title."""
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        page = tab.page
        expect(page.locator(".empty")).to_contain_text("No conversations yet")
        page.get_by_role("button", name="New conversation").click()
        expect(page.get_by_label("your message")).to_be_focused()
        expect(page.locator(".picked .chip")).to_have_count(1)
        page.get_by_label("your message").fill("What is a fence?")
        tab.press("Control+Enter")
        expect(page.locator("article.turn")).to_have_count(2)
        expect(page.locator(".top .now")).to_have_text("What is a fence?")


def test_files_are_opened_by_a_button(tab: Tab, tmp_path: Path) -> None:
    """Several at once; each is a row with the name of its file, and is closed without being changed."""
    for name in "first", "second":
        message = il.UserMessage(content=f"From {name}")
        conversation = il.Conversation(entries=(il.Entry(message=message),))
        (tmp_path / f"{name}.json").write_bytes(il.encode(conversation, "openai-completions").bytes())
    tab.page.get_by_label("open files").set_input_files([tmp_path / "first.json", tmp_path / "second.json"])
    row = tab.page.locator(".line", has_text="From first")
    expect(row).to_contain_text("first.json")
    row.hover()
    row.get_by_role("button", name="Close From first").click()
    expect(row).to_have_count(0)
    expect(tab.page.locator(".toast")).to_contain_text("The file is unchanged")
    assert (tmp_path / "first.json").exists()
    other = tab.page.locator(".line", has_text="From second")
    other.hover()
    other.get_by_role("button", name="Close From second").click()
    expect(other).to_have_count(0)


def test_a_long_list_says_how_much_is_left(chromium: Any, tmp_path: Path) -> None:
    """200 rows, then more on demand with the true number; arrows and Enter open one."""
    for number in range(203):
        hello(tmp_path, f"s{number}")
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        rows = tab.page.locator("a.row")
        expect(rows).to_have_count(200)
        tab.page.get_by_role("button", name="Show 3 more of 203").click()
        expect(rows).to_have_count(203)
        tab.press("j", "j", "k", "Enter")
        expect(tab.page.locator("[data-card]")).to_be_visible()


def test_a_lost_connection_is_shown_in_the_list(chromium: Any, tmp_path: Path) -> None:
    """Until the server answers again; then the list is read anew."""
    hello(tmp_path, "before", "Before")
    server = Served(tmp_path)
    try:
        with Tab(chromium, server) as tab:
            expect(tab.page.locator("a.row")).to_have_count(1)
            server.kill()
            expect(tab.page.locator(".lost")).to_contain_text("Connection lost")
            hello(tmp_path, "after", "After")
            server.start()
            expect(tab.page.locator(".lost")).to_have_count(0)
            expect(tab.page.locator("a.row")).to_have_count(2)
    finally:
        server.stop()


def test_the_list_fits_a_phone(chromium: Any, server: Threaded) -> None:
    """Nothing is wider than the page, titles of hits are not squeezed, sources are a list to choose from."""
    with Tab(chromium, server, viewport=PHONE) as tab:
        page = tab.page
        page.get_by_label("sessions shown").select_option("rated")
        expect(page.locator(".empty")).to_contain_text("No conversations here")
        page.get_by_label("search").fill("worker")
        title = page.locator("a.hit .path b").first
        expect(title).to_have_text("Duplicate webhook deliveries")
        assert title.evaluate("element => element.scrollWidth <= element.clientWidth")
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        expect(page.locator(".preview")).to_have_count(0)
        expect(page.get_by_text(re.compile("matches in"))).to_be_visible()
