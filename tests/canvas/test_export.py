"""Files to take along: what they hold, what they never hold, and that nothing in them runs or is fetched."""

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlingua as il
from canvas.driving import browsing
from canvas.sample import courier
from canvas.test_reading import weather
from interlingua.canvas.export import finds_of, inert, markdown_of, material_of, redacted, write
from interlingua.canvas.library import Library
from interlingua.canvas.session_list import Describer, Finder
from interlingua.canvas.shapes import ScanRequest
from interlingua.canvas.trees import Tree, row_of
from interlingua.dialects import DIALECTS, FORMATS
from interlingua.serving import redaction
from interlingua.sessions import Session
from interlingua.sessions.texts import message_texts

SECRETS = {
    "key": "sk-ant-" + "api03-9f8e7d6c5b4a39281706f5e4d3c2b1a0",
    "token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "email": "ada.lovelace@analytical.example",
    "path": "/home/adalovelace",
    "phone": "+44 20 7946 0958",
    "card": "4111 1111 1111 1111",
    "iban": "GB82 WEST 1234 5698 7654 32",
}


def page_data(html: bytes) -> Any:
    """What the page of an export is given."""
    [script] = re.findall(rb'<script type="application/json" id="canvas-data">(.*?)</script>', html, re.DOTALL)
    return json.loads(script)


def export(home: Path, key: str, format: str, *, hide: Any = (), **choice: Any) -> bytes:
    """A session as a file, with what `hide` picks of the finds replaced."""
    library = Library(home)
    tree = Tree(library, library.place(key))
    view = Describer(library, Finder(library)).view(library.place(key))
    chosen = ScanRequest(format=format, **choice)
    material = material_of(tree, view, chosen)
    if hide:
        material = redacted(material, [find.id for find in finds_of(material) if hide(find)])
    data = write(material, view, chosen).data
    tree.close()
    return data


async def test_the_page_holds_the_whole_tree_and_its_media(tmp_path: Path) -> None:
    """Rows, contents, branches, notes, pictures and totals are as the canvas shows them."""
    key = weather(tmp_path)
    async with browsing(tmp_path) as (_, browser):
        base = f"/api/sessions/{key}"
        status, html = await browser.ask("POST", f"{base}/export", {"format": "html", "all": True})
        assert status == 200
        data = page_data(html)
        tree = await browser.get(f"{base}/tree")
        assert [row["id"] for row in data["tree"]["rows"]] == [row["id"] for row in tree["rows"]]
        assert data["tree"]["rows"] == tree["rows"]
        assert (data["tree"]["head"], data["tree"]["branches"]) == (tree["head"], tree["branches"])
        for row in tree["rows"]:
            shown = await browser.get(f"{base}/entries/{row['id']}")
            kept = data["entries"][row["id"]]
            for block, other in zip(shown["message"]["content"], kept["message"]["content"], strict=True):
                if "src" in block:
                    name = other.pop("src").removeprefix("blob:")
                    status, bytes_ = await browser.ask("GET", block.pop("src"))
                    assert base64.b64decode(data["blobs"][name]["data"]) == bytes_
            assert kept == shown
        assert data["stats"]["tokens"] == (await browser.get(f"{base}/stats"))["tokens"]


def test_the_page_holds_the_sub_agents(tmp_path: Path) -> None:
    """Of every level, each once, redacted like the rest, and without the keys of their sessions."""

    def begun(id: str, text: str, by: str | None = None) -> None:
        origin = {"interlingua": {"spawnedBy": {"session": by, "entry": "a"}}} if by is not None else {}
        with Session.open(id, home=tmp_path, about=il.Conversation(extra=origin)) as session:
            session.append(il.UserMessage(content=text), id="q")
            session.append(il.AssistantMessage(content=f"{id} {SECRETS['key']}", model="m", stop_reason="stop"), id="a")

    begun("top", "ask them")
    begun("child", "first level", "top")
    begun("grandchild", "second level", "child")
    library = Library(tmp_path)
    describer = Describer(library, Finder(library))
    place = library.place("own~main~top")
    tree, view, choice = describer.open_tree(place), describer.view(place), ScanRequest(format="html", all=True)
    material = material_of(tree, view, choice, describer)
    finds = finds_of(material)
    assert 3 == sum(SECRETS["key"] == find.text for find in finds)
    data = write(redacted(material, [find.id for find in finds]), view, choice).data
    tree.close()
    page = page_data(data)
    assert ["agent-1"] == page["tree"]["rows"][1]["spawned"]
    assert ["agent-2"] == page["agents"]["agent-1"]["tree"]["rows"][1]["spawned"]
    assert ["first level", "second level"] == [part["tree"]["rows"][0]["text"] for part in page["agents"].values()]
    assert SECRETS["key"].encode() not in data and b"own~main" not in data


async def test_rows_for_a_picture_are_redacted_too(tmp_path: Path) -> None:
    """What is drawn holds nothing that was found and chosen, in part neither."""
    with Session.open("s", home=tmp_path) as session:
        session.append(il.UserMessage(content=f"{'long ' * 40}{SECRETS['key']}"), id="q")
    async with browsing(tmp_path) as (_, browser):
        base, asked = "/api/sessions/own~main~s/export", {"format": "rows", "all": True}
        finds = (await browser.post(f"{base}/scan", asked))["finds"]
        status, rows = await browser.ask("POST", base, {**asked, "redact": [find["id"] for find in finds]})
        assert (200, ["q"]) == (status, [row["id"] for row in rows["tree"]["rows"]])
        assert "sk-ant" not in json.dumps(rows)


async def test_a_path_leaves_the_other_branches_out(tmp_path: Path) -> None:
    """Only the way to the chosen entry is written."""
    key = weather(tmp_path)
    async with browsing(tmp_path) as (_, browser):
        _, html = await browser.ask("POST", f"/api/sessions/{key}/export", {"format": "html", "to": "b2"})
        assert list(page_data(html)["entries"]) == ["q", "a1", "r1", "b2"]
        assert b"Yes, it rains." not in html


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "<img src=https://tracker.example/x.png onerror=alert(1)>",
    "]]><svg onload=alert(1)>",
    "\u2028</ScRiPt >",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_gets_out_of_the_data_of_a_page(text: str, tmp_path: Path) -> None:
    """The page has the same elements whatever the conversation says, in its title too."""
    tags = []
    for number, content in enumerate(("plain", text)):
        with Session.open(f"s{number}", home=tmp_path) as session:
            session.append(il.UserMessage(content=content), id="q")
            session.label(None, content)
            session.append(
                il.AssistantMessage(content=(il.ToolCall(id="c", name=content, arguments={content: content}),)), id="a"
            )
        parser = _Tags()
        html = export(tmp_path, f"own~main~s{number}", "html")
        parser.feed(html.decode())
        tags.append(parser.found)
        assert page_data(html)["entries"]["q"]["message"]["content"][0]["text"] == content
    assert tags[0] == tags[1]


def test_the_page_forbids_the_network(tmp_path: Path) -> None:
    """Its policy allows nothing but what is in the file."""
    html = export(tmp_path, weather(tmp_path), "html").decode()
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html)
    assert "default-src 'none'" in policy and "http" not in policy and "connect-src" not in policy


@pytest.mark.parametrize("format", ["html", "markdown", "json", "preferences", *sorted(DIALECTS)])
def test_every_format_is_written_or_says_why_not(format: str, tmp_path: Path) -> None:
    """Any dialect, from the same session; only formats that are returned alone are refused."""
    key = weather(tmp_path)
    if format in FORMATS and not FORMATS[format].writable:
        with pytest.raises(il.Unsupported, match=f"{format}: .* read and returned, not made from other formats"):
            export(tmp_path, key, format, all=True)
        return
    data = export(tmp_path, key, format, all=True)
    assert bool(data) is (format != "preferences")
    if format in DIALECTS and format not in ("openai-finetune",):
        again = il.decode(data, format)
        assert "Is it raining in Oslo?" in il.encode(again, "interlingua").bytes().decode()


def secret_session(home: Path, secrets: dict[str, str]) -> str:
    """A session with each secret in every place that a conversation has."""
    everything = " and ".join(secrets.values())
    about = il.Conversation(system=f"Operator: {everything}", extra={"claude-code": {"cwd": everything}})
    with Session.open("secret", home=home, about=about) as session:
        session.label(None, f"About {everything}")
        document = il.DocumentBlock(
            data=base64.b64encode(everything.encode()).decode(), mime_type="text/plain", title=everything
        )
        session.append(il.UserMessage(content=(il.TextBlock(text=everything), document)), id="q")
        call = il.ToolCall(id="c", name="exec", arguments={"command": everything, everything: [everything]})
        thought = il.ThinkingBlock(thinking=everything, thinking_signature="c2ln")
        session.append(
            il.AssistantMessage(content=(thought, il.TextBlock(text=everything), call), error_message=everything),
            id="a",
        )
        session.append(
            il.ToolResultMessage(
                tool_call_id="c",
                tool_name="exec",
                content=(il.TextBlock(text=everything),),
                details={"raw": everything},
                is_error=False,
                extra={"claude-code": {"stdout": everything}},
            ),
            id="r",
        )
        session.append(il.AssistantMessage(content=everything), id="b")
        session.append(il.AssistantMessage(content="no"), id="b2", parent_id="r")
        session.note("b", everything, rating=1)
        session.note("b2", None, rating=-1)
        session.label("r", everything)
        session.set_branch("main", "b", description=everything)
        session.revise("b", il.AssistantMessage(content=f"again: {everything}"))
    return "own~main~secret"


@pytest.mark.parametrize("format", ["html", "markdown", "json", "preferences", *sorted(DIALECTS)])
def test_nothing_that_was_redacted_is_in_the_file(format: str, tmp_path: Path) -> None:
    """Texts, keys, arguments, documents, notes, labels, branches, extras: every place is looked at."""
    key = secret_session(tmp_path, SECRETS)
    try:
        open_, closed = (
            export(tmp_path, key, format, all=True),
            export(tmp_path, key, format, all=True, hide=lambda find: True),
        )
    except il.InterlinguaError as error:
        assert str(error)
        return
    text = closed.decode() + " ".join(
        base64.b64decode(found).decode("utf-8", "replace")
        for found in re.findall(r'"((?:[A-Za-z0-9+/]{4}){20,}={0,2})"', closed.decode())
    )
    for secret in SECRETS.values():
        assert secret in open_.decode() or format in ("preferences",)
        assert secret not in text, secret
        assert json.dumps(secret)[1:-1] not in text


def test_each_find_has_its_kind_and_its_surroundings(tmp_path: Path) -> None:
    """Every occurrence is listed before a byte is written, with the message that it is in."""
    with Session.open("s", home=tmp_path) as session:
        for kind, secret in SECRETS.items():
            session.append(
                il.UserMessage(content=f"before the {kind} {secret} and after it"), id=kind.replace(" ", "-")
            )
    library = Library(tmp_path)
    tree = Tree(library, library.place("own~main~s"))
    view = Describer(library, Finder(library)).view(library.place("own~main~s"))
    finds = finds_of(material_of(tree, view, ScanRequest(format="markdown")))
    tree.close()
    found = {find.entry: find for find in finds if find.entry is not None and find.kind != "name"}
    assert {id: find.text for id, find in found.items()} == SECRETS
    for kind, find in found.items():
        assert find.kind == kind and find.suggested
        assert find.before.endswith(f"the {kind} ") and find.after == " and after it"
        assert find.where.startswith("$.entries[")


NOT_PRIVATE = [
    "task-list-of-things-to-do-next-week", "icon@2x.png", "lodash@4.17.21", "2026-03-01 10:10:10", "1794781191839",
    "commit 3f1f0e2b6a10d4c5", "127.0.0.1", "192.168.1.4", "password=$PASSWORD", "token: str", "sk-learn",
    "api_key=os.environ['K']", "00000000-0000-0000-0000-000000000000", "max_tokens: 4096", "version 1.2.3.4.5",
    "toolu_01A09q90qw90lkasdjfl",
]  # fmt: skip


@pytest.mark.parametrize("text", NOT_PRIVATE)
def test_what_only_looks_private_is_not_suggested(text: str) -> None:
    """A list full of false finds is not read."""
    assert [find for find in redaction.scan({"text": text}) if find.suggested] == []


PRIVATE = [
    "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a", "AKIA" + "IOSFODNN7EXAMPLE",
    "AIza" + "SyD4iE2xVSpkLLOXoyqT-RuPwURN3ddScAI",
    "xoxb-2444333222111-abcdefGHIJ", "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ012345", "Bearer 9a8b7c6d5e4f3a2b1c0d",
    "postgres://admin:hunter22@db.example/x", "PASSWORD=correcthorse1", '"api_key": "q1w2e3r4t5y6"',
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "C:\\Users\\adalovelace\\x", "/Users/ada/x",
    "(415) 555-0132", "415-555-0132", "078-05-1120", "5500005555555559", "ada@example.co.uk",
]  # fmt: skip


@pytest.mark.parametrize("text", PRIVATE)
def test_what_is_private_is_suggested(text: str) -> None:
    """The usual shapes of keys, passwords, homes and numbers."""
    assert [find for find in redaction.scan({"text": f"x {text} y"}) if find.suggested]
    # In a long text it is looked first for what a pattern needs.
    assert [find for find in redaction.scan({"text": f"{'x ' * 100}{text} y"}) if find.suggested]


@pytest.mark.parametrize("text", ["ghp_" + "16C7e42F292c6912E7710c", "DE89370400440532013000", "4111111111111111"])
@pytest.mark.parametrize("before", ["caf\N{LATIN SMALL LETTER E}\N{COMBINING ACUTE ACCENT}", "a\N{MIDDLE DOT}"])
def test_what_is_private_is_found_behind_a_sign_of_a_word(before: str, text: str) -> None:
    """Unicode counts accents and dots to an identifier, expressions do not count them to a word."""
    assert (before + text).isidentifier()
    assert [text] == [find.text for find in redaction.scan({"text": before + text})]
    assert [text] == [find.text for find in redaction.scan({before + text: 1})]


PIECES = ["@", "a.b", "://", "u:p@", "/home/", "C:\\Users\\", "Users", "token", "=", ":", "12", "\u0663", "+", "-", "."]
PIECES += [
    "sk-",
    "AKIA",
    "SG.",
    "eyJ",
    "Bearer ",
    "-----BEGIN PRIVATE KEY-----",
    "ab12cd34ef56gh78",
    "DE89",
    " ",
    "4111 ",
    *("ghp_", "xoxb-", "passWORD", "BASIC ", "555-", "-45-", "6789", "1.2.3.4", "5", "x", "il-", "_live_"),
]


@given(st.lists(st.sampled_from(PIECES), min_size=10, max_size=60))
def test_a_pattern_finds_the_same_without_what_it_needs(pieces: list[str]) -> None:
    """What a pattern needs is only looked for to save time."""
    without = [pattern._replace(needs=None) for pattern in redaction.PATTERNS]
    few = "".join(pieces[:3])
    for text in ("".join(pieces) + " " * 70, few, "x " * 35 + few, "".join(pieces)[:24]):
        assert redaction._in_text((), text, without) == redaction._in_text((), text, redaction.PATTERNS)


def test_a_field_that_is_called_a_secret_is_one() -> None:
    """`{"password": "…"}` in arguments: the name says it."""
    found = redaction.scan({"arguments": {"db_password": "hunter2hunter2", "token": "hello", "max_tokens": "4096"}})
    assert [find.text for find in found] == ["hunter2hunter2"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(list(SECRETS.values())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.just("data"), inner, max_size=4),
    max_leaves=20,
)


@given(JSON, st.randoms())
def test_replacing_finds_changes_nothing_else(value: Any, random: Any) -> None:
    """With no find chosen the value is the same; with all, none is left; equal texts stay equal, others differ."""
    finds = redaction.scan(value)
    assert len({find.id for find in finds}) == len(finds)
    assert redaction.redact(value, set()) == value
    chosen = {find.id for find in finds if random.random() < 0.5}
    made = redaction.redact(value, chosen)
    before, after = list(redaction._texts(value, ())), list(redaction._texts(made, ()))
    assert len(before) == len(after)
    for (path, text), (_, other) in zip(before, after, strict=True):
        if not any(find.path == path and find.id in chosen for find in finds):
            assert text == other
    left = redaction.scan(redaction.redact(value, {find.id for find in finds}))
    assert {find.text for find in left}.isdisjoint({find.text for find in finds})


async def test_a_find_of_an_older_scan_is_refused(tmp_path: Path) -> None:
    """What was to be hidden is never written because the session changed in between."""
    key = weather(tmp_path)
    async with browsing(tmp_path) as (_, browser):
        status, body = await browser.ask(
            "POST", f"/api/sessions/{key}/export", {"format": "html", "redact": ["0123456789abcdef01"]}
        )
        assert (status, body["detail"]["path"], body["detail"]["remedy"]) == (422, "$.redact[0]", "scan again")


async def test_the_scan_lists_and_the_export_replaces(tmp_path: Path) -> None:
    """Over HTTP, with a text of one's own to look for, and a file name that says what it is."""
    key = secret_session(tmp_path, {"email": SECRETS["email"]})
    async with browsing(tmp_path) as (_, browser):
        asked = {"format": "markdown", "all": True, "patterns": ["OPERATOR"]}
        scan = await browser.post(f"/api/sessions/{key}/export/scan", asked)
        assert {find["kind"] for find in scan["finds"]} == {"email", "pattern"} and scan["bytes"] > 100
        ids = [find["id"] for find in scan["finds"]]
        status, data = await browser.ask(
            "POST", f"/api/sessions/{key}/export", {**asked, "redact": ids, "replace": "█"}
        )
        assert status == 200 and SECRETS["email"].encode() not in data and "█: █".encode() in data
        losses = await browser.post(f"/api/sessions/{key}/export/losses", {"format": "sharegpt", "all": True})
        assert losses["losses"]


def test_rated_siblings_become_preference_pairs(tmp_path: Path) -> None:
    """The better answer is chosen over the worse one to the same prompt; what is not rated is left out."""
    with Session.open("s", home=tmp_path) as session:
        session.append(il.UserMessage(content="Is it raining?"), id="q")
        for id, text, rating in (("a", "Yes.", 1), ("b", "No.", -1), ("c", "Perhaps.", 0), ("d", "?", None)):
            session.append(il.AssistantMessage(content=text), id=id, parent_id="q")
            if rating is not None:
                session.note(id, None, rating=rating)
    lines = [json.loads(line) for line in export(tmp_path, "own~main~s", "preferences").splitlines()]
    pairs = {(line["chosen"][0]["content"], line["rejected"][0]["content"]) for line in lines}
    assert pairs == {("Yes.", "No."), ("Yes.", "Perhaps."), ("Perhaps.", "No.")}
    assert all(line["prompt"] == [{"role": "user", "content": "Is it raining?"}] for line in lines)


@pytest.mark.parametrize("content", ["API Error: 529", (il.TextBlock(text="API Error: 529"),)])
def test_an_error_that_stands_as_the_answer_is_there_once(content: Any) -> None:
    """Claude Code writes errors so: in Markdown, in the search and on a card; the card of such an answer has failed."""
    same = il.AssistantMessage(content=content, stop_reason="error", error_message="API Error: 529")
    half = il.AssistantMessage(content="Half a", stop_reason="error", error_message="reset by peer")
    text = markdown_of("", il.Conversation(entries=(il.Entry(message=same), il.Entry(message=half))))
    assert (text.count("API Error: 529"), text.count("**Error:**"), text.count("reset by peer")) == (1, 1, 1)
    assert [["API Error: 529"], ["Half a", "reset by peer"]] == [
        [found.text for found in message_texts("e", message)] for message in (same, half)
    ]
    rows = [row_of(il.Entry(message=message, id="e"), 0) for message in (same, half, il.AssistantMessage(content="A"))]
    assert ["", "reset by peer", None] == [row.error for row in rows]


def test_markdown_has_the_path_and_each_branch_once(tmp_path: Path) -> None:
    """Nothing is told twice, nothing is left out."""
    text = export(tmp_path, courier(tmp_path), "markdown", all=True).decode()
    library = Library(tmp_path)
    with library.open(library.place("own~main~courier")) as session:
        for entry in session.entries():
            content = getattr(entry.message, "text", "")
            assert content in text and (len(content) < 60 or text.count(content) == 1)


@pytest.mark.parametrize(
    ("given_", "safe"),
    [
        ("<script>x</script>", "&lt;script>x&lt;/script>"),
        ("![x](https://t.example/p.png)", "\\![x](https://t.example/p.png)"),
        ("[x](javascript:alert(1))", "[x](#javascript:alert(1))"),
        ("[x]: javascript:alert(1)", "[x]: #javascript:alert(1)"),
        ("`<b>` and a < b", "`<b>` and a < b"),
        ("```html\n<b>![x](y)\n```\n<b>", "```html\n<b>![x](y)\n```\n&lt;b>"),
    ],
)
def test_markdown_runs_and_fetches_nothing(given_: str, safe: str) -> None:
    """Raw HTML, remote pictures and addresses that run are made inert; code stays as it is."""
    assert inert(given_) == safe


async def test_a_frame_shows_one_session_to_whoever_has_its_key(tmp_path: Path) -> None:
    """For notebooks: sandboxed, without cookies; another session's key, none, or a made-up one is refused."""
    key = weather(tmp_path)
    courier(tmp_path)
    async with browsing(tmp_path) as (canvas, browser):
        address = f"{canvas.address}/embed/{key}?k={canvas.access.cookie('read', only=key)}"
        async with browser.http.get(address, headers={"Sec-Fetch-Site": "cross-site"}) as response:
            assert response.status == 200
            assert response.headers["Content-Security-Policy"].startswith("sandbox allow-scripts;")
            assert "X-Frame-Options" not in response.headers
            assert page_data(await response.read())["entries"].keys() == {"q", "a1", "r1", "a2", "b2"}
        for wrong in (
            address.replace(key, "own~main~courier"),
            address.partition("?")[0],
            f"{address.partition('?')[0]}?k=x.y",
            f"{address.partition('?')[0]}?k={canvas.access.cookie('write')}",
        ):
            async with browser.http.get(wrong) as response:
                assert response.status == 401
        cookie = address.partition("?k=")[2]
        headers = {"Cookie": f"{canvas.cookie_name}={cookie}"}
        async with (
            aiohttp.ClientSession() as http,  # the key of a frame is no login
            http.get(f"{browser.base}/api/sessions", headers=headers) as response,
        ):
            assert response.status == 403


_PIECES = st.sampled_from([*SECRETS.values(), "Zk39xQ7vLm2pR8", "plain", "", "two words", "C:\\Users\\grace", "x" * 70])
_NAMES = st.sampled_from(["password", "api_key", "text", "data", "type", "mimeType", "4111 1111 1111 1111", "image"])
_WORDS = ["ghp_", "sk_live_", "npm_", "AKIA", "AIza", "IOSFODNN7EXAMPLE", "DE89", "GB82WEST12345698765432", "a", "_"]
_ids = st.lists(st.sampled_from([*_WORDS, "ab12cd34ef56gh78", *PIECES]), max_size=6).map("".join)
_VALUES = st.recursive(
    st.one_of(_PIECES, _ids, st.tuples(_PIECES, _PIECES).map(" ".join), st.integers(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_NAMES, inner, max_size=3)),
    max_leaves=8,
)


@given(_VALUES)
def test_the_fast_check_for_nothing_to_redact_misses_nothing(value: Any) -> None:
    """A further text that never occurs makes the scan take the long way."""
    assert redaction.scan(value, also=("\0 never",)) == redaction.scan(value)


@pytest.mark.parametrize(("file", "caller"), [("atif/sub_agent.json", "m1"), ("copilot-cli/events.jsonl", "e3")])
def test_a_sub_agent_in_the_same_file_stays_with_its_call(tmp_path: Path, file: str, caller: str) -> None:
    """In the page, in what pictures are drawn from, and in Markdown: it is no branch from the beginning."""
    library = Library(tmp_path)
    place = library.open_path(Path(__file__).parents[1] / "wire" / file)[0][0]
    view = Describer(library, Finder(library)).view(place)
    tree = Tree(library, place)
    (first,) = [row for row in tree.rows(0, tree.total) if row.caller is not None]

    def exported(format: str, **chosen: Any) -> bytes:
        choice = ScanRequest(format=format, **chosen)
        return write(material_of(tree, view, choice), view, choice).data

    for rows in (
        page_data(exported("html", all=True))["tree"]["rows"],
        json.loads(exported("rows", all=True))["tree"]["rows"],
    ):
        found = {row["id"]: row for row in rows}[first.id]
        assert caller == found["caller"] and "parent" not in found
    text = exported("markdown", all=True).decode()
    assert 1 == text.count("# A sub-agent of ") and "# A branch from the beginning" not in text
    alone = json.loads(exported("rows", to=first.id))["tree"]["rows"]  # its call need not be in the file
    assert first.id == alone[-1]["id"] and {row["caller"] for row in alone if "caller" in row} <= {
        row["id"] for row in alone
    }
    tree.close()
