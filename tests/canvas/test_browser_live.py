"""Going on in the browser: streams, branches, several models, merges, faults, two viewers, a killed server."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from canvas.sample import courier
from canvas.tabs import Served, Tab, Threaded, expect, needs_chromium
from canvas.test_runs import served
from interlingua.canvas.runs import Toolbox
from interlingua.sessions import Session
from interlingua.testing import Cut, ErrorEvent, Server, Stall

pytestmark = needs_chromium


def begun(home: Path, name: str) -> str:
    """A session with a question and its answer; returns its key."""
    with Session.open(name, home=home) as session:
        session.append(il.UserMessage(content="Hello"), id="q")
        session.append(il.AssistantMessage(content="Good day", model="m", provider="p", stop_reason="stop"), id="a")
        session.set_branch("main", "a")
    return f"own~main~{name}"


@pytest.fixture(scope="module")
def provider() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, provider: Server) -> Iterator[Threaded]:
    with Threaded(tmp_path_factory.mktemp("home"), client=served(provider)) as server:
        yield server


@pytest.fixture
def key(server: Threaded, provider: Server, request: pytest.FixtureRequest) -> str:
    """A session of the test's own on the server that all share."""
    provider.clear()
    return begun(server.home, request.node.name.removeprefix("test_")[:60])


@pytest.fixture
def tab(chromium: Any, server: Threaded) -> Iterator[Tab]:
    with Tab(chromium, server) as tab:
        yield tab


def say(tab: Tab, text: str, *models: str) -> None:
    """Continues from the selected message by keyboard: `c`, the words, the models, Ctrl+Enter."""
    page = tab.page
    tab.press("c")
    prompt_box = page.get_by_label("your message")
    expect(prompt_box).to_be_focused()
    expect(page.locator(".picked .chip")).to_have_count(1)  # one is proposed as soon as the models are known
    page.locator(".picked .chip button").click()
    for model in models:
        page.get_by_label("find a model").fill(model)
        page.locator(".models .menu .row", has_text=model).first.click()
    prompt_box.fill(text)
    prompt_box.press("Control+Enter")


def rows(tab: Tab, key: str) -> list[Any]:
    found: list[Any] = tab.get(f"/api/sessions/{key}/tree")["rows"]
    return found


def answers(tab: Tab, key: str, text: str) -> list[Any]:
    """The rows that answer the user's message of this text."""
    all_rows = rows(tab, key)
    asked = [row["id"] for row in all_rows if row["role"] == "user" and row["text"] == text]
    return [row for row in all_rows if row.get("parent") in asked]


def test_continuing_streams_the_answer_into_the_tree(tab: Tab, key: str) -> None:
    """The prompt and the answer of a debug model become cards below the selected one; the log has both."""
    tab.go(f"/s/{key}/canvas")
    expect(tab.card("a")).to_be_visible()
    say(tab, "Repeat after me", "debug/parrot-1")
    expect(tab.page.locator("[data-card]", has_text="Repeat after me")).to_have_count(2)
    (answer,) = answers(tab, key, "Repeat after me")
    assert (answer["model"], answer["stop"]) == ("parrot-1", "stop")
    expect(tab.card(answer["id"])).to_be_visible()


def test_an_answer_is_seen_while_it_is_written_and_can_be_stopped(tab: Tab, key: str, provider: Server) -> None:
    """With a provider that stalls, the first words stand in a live card; Stop keeps them and says so."""
    provider.say("These words come first. " * 3, fault=Stall(after_events=6))
    page = tab.go(f"/s/{key}/canvas")
    expect(tab.card("a")).to_be_visible()
    say(tab, "Go on", "local/stalls")
    expect(page.locator("[data-card]", has_text="writing")).to_contain_text("These")
    expect(page.locator("article.live")).to_contain_text("These")
    expect(page.locator("article.live .caret")).to_be_hidden()  # it follows the last word instead
    after = "one => getComputedStyle(one, '::after').width"
    assert "2px" == page.locator("article.live .prose > p").last.evaluate(after)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("article.live")).to_have_count(0)
    expect(page.locator(".flow")).to_contain_text("Stopped before it was complete.")
    (answer,) = answers(tab, key, "Go on")
    assert answer["stop"] == "aborted" and answer["text"].startswith("These")


def test_esc_asks_once_and_then_stops_the_answer(tab: Tab, key: str, provider: Server) -> None:
    """The first Esc closes what is on top, the next says what another would do, and that one stops."""
    provider.say("These words come first. " * 3, fault=Stall(after_events=6))
    page = tab.go(f"/s/{key}/canvas")
    expect(tab.card("a")).to_be_visible()
    say(tab, "Go on", "local/stalls")
    expect(page.locator("article.live")).to_contain_text("These")
    expect(page.get_by_role("button", name="Continue from message")).to_be_visible()  # nothing is typed any more
    tab.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    tab.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("article.live")).to_have_count(1)
    tab.press("Escape")
    expect(page.get_by_text("Press Esc again to stop the answer.")).to_be_visible()
    tab.press("Escape")
    expect(page.locator(".flow")).to_contain_text("Stopped before it was complete.")
    (answer,) = answers(tab, key, "Go on")
    assert answer["stop"] == "aborted"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        pytest.param(Cut(after_events=4), "", id="cut"),
        pytest.param(ErrorEvent(il.Overloaded("come back later"), after_events=4), "come back later", id="error"),
    ],
)
def test_an_answer_that_fails_says_why_and_keeps_what_came(
    tab: Tab, server: Threaded, provider: Server, fault: Any, kind: str
) -> None:
    """A connection that is cut and an error inside the stream: the words so far stay, the error stands below them."""
    key = begun(server.home, f"fails-{kind[:4] or 'cut'}")
    provider.clear()
    provider.say("A long story begins and does not end.", fault=fault)
    page = tab.go(f"/s/{key}/transcript")
    expect(tab.turn("a")).to_be_visible()
    say(tab, "Tell me", f"local/{key[-3:]}")
    error = page.locator("article.turn .err").first  # a run tries again by itself, and every attempt is kept
    expect(error).to_contain_text("The answer failed")
    expect(error).to_contain_text(kind)
    answer = answers(tab, key, "Tell me")[0]
    assert answer["stop"] == "error" and answer["text"].startswith("A long")


def test_a_failed_answer_can_be_asked_for_again(tab: Tab, key: str, provider: Server) -> None:
    """A button stands where it failed: the question is selected, and the composer is open."""
    provider.say("These words come first.", fault=ErrorEvent(il.BadRequest("not like this"), after_events=4))
    page = tab.go(f"/s/{key}/canvas?at=a")
    expect(tab.card("a")).to_be_visible()
    say(tab, "Try", "local/test-model")
    expect(page.locator("article .err")).to_contain_text("not like this")
    expect(page.locator(".react-flow .figs .failed")).to_have_text("failed")
    page.get_by_role("button", name="Answer again").click()
    expect(page.get_by_label("your message")).to_have_attribute("placeholder", re.compile("answer this message again"))
    assert "Try" in page.locator("article.here").inner_text()


def test_several_models_answer_at_once_as_siblings(tab: Tab, key: str) -> None:
    """Two models, one prompt: two cards side by side below it."""
    page = tab.go(f"/s/{key}/canvas")
    expect(tab.card("a")).to_be_visible()
    say(tab, "Abc def", "debug/parrot-1", "debug/upper-parrot-1")
    expect(page.locator("[data-card]", has_text=re.compile("ABC DEF"))).to_have_count(1)
    expect(page.locator("[data-card]", has_text=re.compile("Abc def"))).to_have_count(2)
    made = answers(tab, key, "Abc def")
    boxes = [tab.card(row["id"]).bounding_box() for row in made]
    assert boxes[0]["y"] == boxes[1]["y"] and boxes[0]["x"] != boxes[1]["x"]


def test_models_are_chosen_by_keyboard(tab: Tab, key: str) -> None:
    """Enter takes the first that is offered, arrows lead to the others, and the words are sent from any field."""
    page = tab.go(f"/s/{key}/canvas")
    expect(tab.card("a")).to_be_visible()
    tab.press("c")
    expect(page.locator(".picked .chip")).to_have_count(1)
    page.get_by_label("your message").fill("Abc def")
    field = page.get_by_label("find a model")
    for _ in range(9):
        tab.press("Tab")
        if field.evaluate("one => one === document.activeElement"):
            break
    tab.press("Shift+Tab", "Enter")  # the one that was proposed is removed
    expect(page.locator(".picked .chip")).to_have_count(0)
    expect(field).to_be_focused()
    page.keyboard.type("debug/parrot-1")  # another provider's name ends in these words, too
    tab.press("Enter")
    expect(page.locator(".picked .chip")).to_have_text(["debug/parrot-1"])
    page.keyboard.type("upper-parrot-1")
    expect(page.locator(".models .menu .row").first).to_contain_text("upper-parrot-1")
    tab.press("ArrowDown", "Enter")
    expect(page.locator(".picked .chip")).to_have_count(2)
    expect(field).to_be_focused()
    tab.press("Control+Enter")
    expect(page.locator("[data-card]", has_text=re.compile("ABC DEF"))).to_have_count(1)
    assert 2 == len(answers(tab, key, "Abc def"))


def test_the_whole_way_is_gone_by_keyboard(chromium: Any, tmp_path: Path) -> None:
    """Open, fork at a message, ask two models, compare their answers, export, and read that from disk, offline."""
    courier(tmp_path)
    with Threaded(tmp_path) as server, Tab(chromium, server) as tab:
        page = tab.page

        def reach(what: str) -> None:
            """Goes from control to control until one has these words."""
            words = "() => `${document.activeElement.ariaLabel ?? ''} ${document.activeElement.textContent}`"
            for _ in range(80):
                tab.press("Tab")
                if what in page.evaluate(words):
                    return
            raise AssertionError(f"{what} is not reached")

        expect(page.get_by_role("link", name=re.compile("Duplicate"))).to_be_visible()
        reach("Duplicate")
        tab.press("Enter")
        expect(tab.card("lease4")).to_have_attribute("aria-pressed", "true")
        tab.press("[")
        expect(tab.card("a2")).to_have_attribute("aria-pressed", "true")
        tab.press("c")
        expect(page.get_by_label("your message")).to_be_focused()
        page.keyboard.type("Abc def")
        expect(page.locator(".picked .chip")).to_have_count(1)
        reach("remove ")
        tab.press("Enter")
        for model in "debug/parrot-1", "debug/upper-parrot-1":
            page.keyboard.type(model)
            tab.press("Enter")
        expect(page.locator(".picked .chip")).to_have_text(["debug/parrot-1", "debug/upper-parrot-1"])
        tab.press("Control+Enter")
        expect(page.locator("[data-card]", has_text=re.compile("ABC DEF"))).to_have_count(1)
        expect(page.locator("[data-card]", has_text=re.compile("Abc def"))).to_have_count(2)
        tab.press("G", "3")
        expect(page.locator(".cmp .row[data-differs]")).to_contain_text(["ABC DEF"])
        expect(page.locator(".cmp .row[data-differs]")).to_contain_text(["Abc def"])
        tab.press("E")
        expect(page.get_by_role("dialog", name="Export")).to_contain_text("found")
        reach("Save")
        with page.expect_download() as saved:
            tab.press("Enter")
        saved.value.save_as(tmp_path / "export.html")
    with Tab(chromium, offline=True) as alone:
        alone.page.goto((tmp_path / "export.html").as_uri())
        last = alone.page.locator("article.turn").last
        expect(last).to_contain_text(re.compile("abc def", re.I))
        is_upper = "ABC DEF" in last.inner_text()
        alone.press("h" if is_upper else "l")
        expect(last).to_contain_text("Abc def" if is_upper else "ABC DEF")


def test_a_file_is_attached_by_keyboard(tab: Tab, key: str, tmp_path: Path) -> None:
    """From the message to the button, which opens the browser's own choice of files."""
    path = tmp_path / "notes.txt"
    path.write_text("Up is north.")
    tab.page.on("filechooser", lambda chooser: chooser.set_files(path))
    page = tab.go(f"/s/{key}/canvas")
    expect(tab.card("a")).to_be_visible()
    tab.press("c")
    expect(page.get_by_label("your message")).to_be_focused()
    tab.press("Tab", "Enter")
    expect(page.locator(".say-next .chip", has_text="notes.txt")).to_be_visible()


def test_tools_are_lent_and_each_call_is_allowed_or_refused(chromium: Any, tmp_path: Path) -> None:
    """A canvas with tools lends them unless told not to; what changes something asks, and keys answer."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    with Server() as provider, Threaded(home, client=served(provider), toolbox=Toolbox("coding", work)) as server:
        provider.call("exec", {"command": "echo 1 > allowed.txt"}, id="c1")
        provider.call("exec", {"command": "echo 2 > refused.txt"}, id="c2")
        provider.say("One of two.")
        provider.say("Without tools.")
        key = begun(home, "tools")
        with Tab(chromium, server) as tab:
            page = tab.go(f"/s/{key}/canvas?m=a")
            expect(tab.card("a")).to_be_visible()
            say(tab, "Write two files", "local/test-model")
            asked = page.get_by_role("alertdialog", name="approval")
            expect(asked).to_contain_text("allowed.txt")
            expect(page.locator("article .call", has_text="allowed.txt")).to_contain_text("waiting for approval")
            for name in "Allow", "Deny", "Stop":  # none of them is pushed out of the page by a long command
                box = page.get_by_role("button", name=name, exact=True).bounding_box()
                assert box["x"] + box["width"] <= 1440, name
            tab.press("3")  # where it cannot be answered, it is said, and leads to where it can
            page.get_by_role("button", name="exec: waiting for your approval").click()
            expect(asked).to_contain_text("allowed.txt")
            tab.press("1", "y")
            expect(asked).to_contain_text("refused.txt")
            tab.press("n")
            expect(page.locator("[data-card]", has_text="One of two.")).to_be_visible()
            assert ["allowed.txt"] == [path.name for path in work.iterdir()]
            tab.press("G", "c")
            page.get_by_label(", ask first").uncheck()
            tab.press("Escape")
            say(tab, "And now", "local/test-model")
            expect(page.locator("[data-card]", has_text="Without tools.")).to_be_visible()
        sent = [bool(one.request.context.tools) for one in provider.requests if one.request is not None]
        assert [True, True, True, False] == sent


def test_a_call_is_not_allowed_by_accident(chromium: Any, tmp_path: Path) -> None:
    """Not by a key that is held, or pressed in a dialog, or while such keys are off; and nothing in it is hidden."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    with Server() as provider, Threaded(home, client=served(provider), toolbox=Toolbox("coding", work)) as server:
        provider.call("exec", {"command": "touch \u202egpj.elif"}, id="c1")
        provider.say("Refused.")
        key = begun(home, "accident")
        with Tab(chromium, server) as tab:
            page = tab.go(f"/s/{key}/canvas?at=a")
            expect(tab.card("a")).to_be_visible()
            say(tab, "Write a file", "local/test-model")
            asked = page.get_by_role("alertdialog", name="approval")
            expect(asked).to_be_visible()
            expect(page.locator(".react-flow .call .asks")).to_have_text("waiting")
            assert "\u202e" not in asked.inner_text() and "U+202E" in asked.inner_text()
            tab.press("?", "y", "Escape")
            page.evaluate("window.dispatchEvent(new KeyboardEvent('keydown', { key: 'y', repeat: true }))")
            page.evaluate("localStorage.setItem('single-keys-off', '1')")
            tab.press("y", "a")
            page.evaluate("localStorage.clear()")
            tab.press("n")
            expect(page.locator("[data-card]", has_text="Refused.")).to_be_visible()
            assert [] == list(work.iterdir())
        with Tab(chromium, server, viewport={"width": 390, "height": 844}) as phone:
            provider.call("exec", {"command": "touch x"}, id="c2")
            provider.say("No.")
            phone.go(f"/s/{key}/transcript")
            phone.page.get_by_role("button", name="Continue").last.click()
            phone.page.get_by_label("your message").fill("Once more")
            expect(phone.page.locator(".picked .chip")).to_have_count(1)
            phone.page.locator(".picked .chip button").click()
            phone.page.get_by_label("find a model").fill("local/test-model")
            phone.page.locator(".models .menu .row", has_text="local/test-model").first.click()
            phone.page.get_by_role("button", name="Send", exact=True).click()
            for name in "Allow", "Deny":
                button = phone.page.get_by_role("button", name=name, exact=True)
                expect(button).to_be_visible()
                assert button.bounding_box()["height"] >= 44
            phone.page.get_by_role("button", name="Deny", exact=True).click()
            expect(phone.page.locator("article.turn", has_text="No.")).to_be_visible()


def test_a_message_is_edited_and_branches(tab: Tab, key: str) -> None:
    """`e` on a user's message begins with its words; sending makes a sibling, and h and l go between the two."""
    page = tab.go(f"/s/{key}/canvas?at=q")
    expect(tab.card("q")).to_be_visible()
    tab.press("e")
    prompt_box = page.get_by_label("your message")
    expect(prompt_box).to_have_value("Hello")
    expect(page.locator(".picked .chip")).to_have_count(1)  # without a model nothing is sent
    prompt_box.fill("Goodbye")
    prompt_box.press("Control+Enter")
    expect(page.locator("[data-card]", has_text="Goodbye").first).to_be_visible()
    edited = next(row for row in rows(tab, key) if row["text"] == "Goodbye" and row["role"] == "user")
    expect(tab.card(edited["id"])).to_have_attribute("aria-pressed", "true")
    assert "parent" not in edited
    tab.press("h")
    expect(tab.card("q")).to_have_attribute("aria-pressed", "true")


def test_a_branch_is_named(tab: Tab, key: str) -> None:
    """`b` names the path that is shown."""
    page = tab.go(f"/s/{key}/canvas?at=a")
    expect(tab.card("a")).to_be_visible()
    tab.press("b")
    page.get_by_role("textbox", name="name of the branch").fill("polite")
    tab.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert {"polite"} <= {branch["name"] for branch in tab.get(f"/api/sessions/{key}/branches")["branches"]}


def test_branches_are_merged(tab: Tab, key: str, server: Threaded) -> None:
    """`M`, the branches, what comes of them: one message with both heads as parents, which is selected."""
    with Session.open(key.rpartition("~")[2], home=server.home) as session:
        session.append(il.UserMessage(content="Another way"), id="other", parent_id="q")
        session.set_branch("other", "other")
    page = tab.go(f"/s/{key}/canvas?at=a")
    expect(tab.card("other")).to_be_visible()
    tab.press("M")
    dialog = page.get_by_role("dialog", name="Merge branches")
    expect(dialog.get_by_label("Into")).to_have_value("main")
    dialog.get_by_role("checkbox", name="other").check()
    dialog.get_by_label("merge message").fill("Both have a point")
    dialog.get_by_role("button", name="Merge").click()
    merged = page.locator("[data-card]", has_text="Both have a point")
    expect(merged).to_have_attribute("aria-pressed", "true")
    row = next(row for row in rows(tab, key) if row["text"] == "Both have a point")
    assert (row["parent"], row["parents"]) == ("a", ["other"])


def test_notes_and_ratings_stand_beside_a_message(chromium: Any, server: Threaded, key: str) -> None:
    """What one viewer writes or rates, the other sees; removed and taken back, it is gone."""
    with Tab(chromium, server) as one, Tab(chromium, server) as two:
        for tab in one, two:
            tab.go(f"/s/{key}/transcript?at=a")
            expect(tab.turn("a")).to_be_visible()
        one.press("N")
        one.page.get_by_role("textbox", name="note").fill("too polite")
        one.press("Enter")
        expect(two.turn("a").locator(".notes")).to_contain_text("too polite")
        one.press("Shift+ArrowDown")
        expect(two.turn("a").locator(".who .chip")).to_have_text("poor")
        one.press("Shift+ArrowDown")
        expect(two.turn("a").locator(".who .chip")).to_have_count(0)
        two.turn("a").get_by_role("button", name="Remove note").click()
        expect(one.turn("a").locator(".notes")).to_have_count(0)


def test_keys_after_a_note_are_the_pages(tab: Tab, key: str) -> None:
    """While a note is being saved its field is gone; one that could not be saved comes back with its text."""
    page = tab.go(f"/s/{key}/transcript?at=a")
    expect(tab.turn("a")).to_be_visible()
    pending: list[Any] = []
    page.route("**/notes", lambda route: pending.append(route), times=1)
    tab.press("N")
    field = page.get_by_role("textbox", name="note")
    field.fill("too polite")
    tab.press("Enter")
    expect(field).to_have_count(0)
    tab.press("Shift+ArrowDown")
    expect(tab.turn("a").locator(".who .chip")).to_have_text("poor")
    pending[0].abort()
    expect(field).to_have_value("too polite")
    tab.press("Enter")
    expect(tab.turn("a").locator(".notes p")).to_have_count(1)


def test_new_messages_do_not_move_the_view_of_others(chromium: Any, server: Threaded, key: str) -> None:
    """Two viewers: what one writes appears to the other, whose viewport and selection stay."""
    with Tab(chromium, server) as one, Tab(chromium, server) as two:
        one.go(f"/s/{key}/canvas")
        two.go(f"/s/{key}/canvas?at=q")
        expect(one.card("a")).to_be_visible()
        expect(two.card("a")).to_be_visible()
        before = two.card("q").bounding_box()
        say(one, "Seen by both", "debug/parrot-1")
        expect(two.page.locator("[data-card]", has_text="Seen by both")).to_have_count(2)
        assert two.card("q").bounding_box() == before
        expect(two.card("q")).to_have_attribute("aria-pressed", "true")
        assert rows(one, key) == rows(two, key)


def test_the_path_that_is_read_stays_when_a_sibling_comes(tab: Tab, server: Threaded, key: str) -> None:
    """The head moves to what was written last; the reader stays on the answer that is shown."""
    expect(tab.go(f"/s/{key}/transcript?at=q").locator("article.turn")).to_have_count(2)
    with Session.open(key.rpartition("~")[2], home=server.home) as session:
        session.append(il.AssistantMessage(content="Another day", model="n"), id="b", parent_id="q")
    expect(tab.page.locator(".forkbar .chip")).to_have_count(2)
    expect(tab.turn("a")).to_be_visible()
    expect(tab.turn("b")).to_have_count(0)
    tab.press("j", "l")
    expect(tab.turn("b")).to_be_visible()
    tab.press("k")  # and on the branch that was chosen
    expect(tab.turn("q")).to_have_class(re.compile("here"))
    expect(tab.turn("b")).to_be_visible()


def test_a_reload_in_the_middle_of_an_answer_shows_it_again(tab: Tab, key: str, provider: Server) -> None:
    """A page that is loaded anew has the words that had come, and goes on with the rest."""
    provider.say("Half of it, and the other half.", fault=Stall(after_events=6))
    page = tab.go(f"/s/{key}/canvas")
    expect(tab.card("a")).to_be_visible()
    say(tab, "Slowly", "local/slow")
    expect(page.locator("article.live")).to_contain_text("Half")
    page.reload()
    expect(page.locator("article.live")).to_contain_text("Half")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("article.live")).to_have_count(0)


def test_nothing_is_lost_when_the_server_is_killed(chromium: Any, tmp_path: Path) -> None:
    """Kill -9 and a new start: the page says that the connection is lost, comes back by itself, and has every row."""
    key = begun(tmp_path, "killed")
    server = Served(tmp_path)
    try:
        with Tab(chromium, server) as tab:
            page = tab.go(f"/s/{key}/canvas")
            expect(tab.card("a")).to_be_visible()
            say(tab, "Before the end", "debug/parrot-1")
            expect(page.locator("[data-card]", has_text="Before the end")).to_have_count(2)
            before = rows(tab, key)
            server.kill()
            expect(page.locator(".lost")).to_contain_text("Connection lost")
            server.start()
            expect(page.locator(".lost")).to_have_count(0)
            assert [row["id"] for row in rows(tab, key)] == [row["id"] for row in before]
            say(tab, "And after it", "debug/parrot-1")
            expect(page.locator("[data-card]", has_text="And after it")).to_have_count(2)
    finally:
        server.stop()


def test_a_file_that_is_only_read_goes_on_in_a_linked_fork(tab: Tab, server: Threaded) -> None:
    """The opened file is not touched; the continuation stands in the same tree."""
    data = il.encode(
        il.Conversation(entries=(il.Entry(message=il.UserMessage(content="From a file")),)), "transcript"
    ).bytes()
    (place,), _ = server.canvas.library.open_data(data, "file.jsonl", "transcript")
    page = tab.go(f"/s/{place.key}/canvas")
    expect(page.locator("[data-card]", has_text="From a file")).to_be_visible()
    expect(page.locator(".top")).to_contain_text("read-only")
    say(tab, "Continued here", "debug/parrot-1")
    expect(page.locator("[data-card]", has_text="Continued here")).to_have_count(2)


@pytest.mark.parametrize("view", ["canvas", "transcript"])
def test_writing_goes_on_after_the_answer_to_what_was_asked(tab: Tab, server: Threaded, view: str) -> None:
    """The selection stays at the question, but the next message follows its answer, unless the question is chosen."""
    key = begun(server.home, f"goes_on_in_{view}")
    page = tab.go(f"/s/{key}/{view}")
    expect(page.get_by_role("button", name="Continue from message 2")).to_be_visible()
    say(tab, "First question", "debug/parrot-1")
    expect(page.get_by_role("button", name="Continue from message 4")).to_be_visible()
    (answer,) = answers(tab, key, "First question")
    say(tab, "Second question", "debug/parrot-1")
    expect(page.get_by_role("button", name="Continue from message 6")).to_be_visible()
    (asked,) = [row for row in rows(tab, key) if row["role"] == "user" and row["text"] == "Second question"]
    assert answer["id"] == asked["parent"]
    page.locator(f'[data-card="{asked["id"]}"], article[data-entry="{asked["id"]}"]').first.click()
    expect(page.get_by_role("button", name="Continue from message 5")).to_be_visible()
