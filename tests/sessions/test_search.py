"""Search over all sessions: an index that follows the logs, may be deleted, and holds no text of its own."""

import contextlib
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from interlingua.sessions import Session, Store, store_at
from interlingua.sessions.gc import collect_branches
from interlingua.sessions.text_index import Results, TextIndex
from interlingua.sessions.texts import Query, snippet, terms_of
from sessions.making import answer, result, user


@pytest.fixture
def index(store: Store, tmp_path: Path) -> Any:
    made = TextIndex(tmp_path / "search.db", {"own": store})
    yield made
    made.close()


def say(store: Store, id: str, *messages: Any) -> None:
    with Session.open(id, store=store) as session:
        for message in messages:
            session.append(message)


def found(index: TextIndex, text: str = "", **how: Any) -> Results:
    index.follow()
    return index.search(Query(text=text, **how))


def places(results: Results) -> set[tuple[str, str]]:
    return {(hit.id, hit.text.kind) for hit in results.hits}


def test_every_kind_of_text_is_found(store: Store, index: TextIndex) -> None:
    """Words, thinking, arguments, results, documents, summaries, notes, titles, system text, errors, unknown blocks."""
    about = il.Conversation(system="quokka rules")
    with Session.open("s", store=store, about=about) as session:
        first = session.append(user("a walrus here"))
        call = il.ToolCall(id="c", name="grep", arguments={"pattern": "narwhal", "deep": [{"x": "ocelot"}]})
        thought = il.ThinkingBlock(thinking="a platypus perhaps")
        session.append(il.AssistantMessage(content=(thought, call), stop_reason="toolUse"))
        session.append(result("c", "an axolotl was found"))
        document = il.DocumentBlock(text="the pangolin report", title="Fauna")
        session.append(il.UserMessage(content=(document, il.OpaqueBlock(dialect="x", value={"y": "a dugong"}))))
        session.append(il.AssistantMessage(content=(), stop_reason="error", error_message="the manatee is overloaded"))
        session.compact("all about the capybara", first.id)
        session.note(first.id or "", "see the okapi")
        session.label(None, "The wombat file")
        session.revise(first.id or "", user("a seal here"))
    for word, kind in {
        "quokka": "system",
        "narwhal": "arguments",
        "ocelot": "arguments",
        "grep": "arguments",
        "platypus": "thinking",
        "axolotl": "result",
        "pangolin": "document",
        "fauna": "document",
        "dugong": "other",
        "manatee": "other",
        "capybara": "summary",
        "okapi": "note",
        "wombat": "title",
        "seal": "text",
    }.items():
        assert {("s", kind)} == places(found(index, word)), word
    assert set() == places(found(index, "walrus")), "what was revised is no longer said"


def test_words_phrases_and_exclusions(store: Store, index: TextIndex) -> None:
    """All words must be there; quoted ones in a row; those with a minus not at all. Nothing else is syntax."""
    say(store, "a", user("Every lease has a fencing token, and grows."))
    say(store, "b", user("The token of the fencing club."))
    say(store, "c", user("A lease, no more."))
    ids = lambda text: {hit.id for hit in found(index, text).hits}  # noqa: E731
    assert {"a", "b"} == ids("fencing token") == ids("TOKEN fencing")
    assert {"a"} == ids('"fencing token"')
    assert {"b"} == ids("token -lease")
    assert {"a", "c"} == ids("lea"), "the beginning of a word, when no word is written so"
    for odd in (
        '"',
        "AND OR NOT",
        "body:x",
        "a*b(c",
        "NEAR(x y)",
        "'; DROP TABLE texts",
        "^",
        "-",
        '"unclosed fencing',
    ):
        found(index, odd)
    assert {"a", "b"} == ids('"fencing')


def test_scripts_without_spaces_accents_and_case(store: Store, index: TextIndex) -> None:
    """Two characters are enough; accents and case make no difference."""
    say(store, "zh", user("请帮我实现一个待办事项应用"))
    say(store, "ja", user("東京の天気はどうですか"))
    say(store, "th", user("วันนี้อากาศเป็นอย่างไร"))
    say(store, "fr", user("Où est l'École Normale?"))
    for text, id in (("待办", "zh"), ("天気", "ja"), ("อากาศ", "th"), ("ecole", "fr"), ("OÙ", "fr"), ("実現", None)):
        assert ({id} if id else set()) == {hit.id for hit in found(index, text).hits}, text


def test_filters(store: Store, index: TextIndex) -> None:
    """By role, tool, model, failure, cost, session, time; alone or with words."""
    cheap = il.Usage.of(1, 1, cost=il.Cost(total=0.01))
    dear = il.Usage.of(1, 1, cost=il.Cost(total=2.0))
    say(store, "a", user("red fox", timestamp=1000), answer("a red answer", model="m/1", usage=cheap, timestamp=2000))
    say(store, "b", answer("another red", model="m-2", usage=dear, timestamp=9000), result("c", "red result"))
    failed = il.ToolResultMessage(tool_call_id="x", tool_name="exec", content="red failure", is_error=True)
    say(store, "c", failed)
    texts = lambda text, **how: {hit.text.text for hit in found(index, text, **how).hits}  # noqa: E731
    assert {"red fox"} == texts("red", role="user")
    assert {"a red answer"} == texts("red", model="m/1")
    assert {"red failure"} == texts("red", tool="exec") == texts("", is_error=True)
    assert {"another red"} == texts("red", min_cost=1.0)
    assert {"red fox", "a red answer"} == texts("red", sessions=(("main", "a"),))
    assert {"another red"} == texts("red", since=5000)
    assert set() == texts("red", role="nobody") == texts("red", sessions=(("main", "nowhere"),))
    assert 5 == len(texts(""))


def test_the_index_follows_what_is_appended(store: Store, index: TextIndex) -> None:
    """Only what is new is read; hits are paged, the latest first, and counted."""
    say(store, "s", *[user(f"needle number {at}") for at in range(120)])
    first = found(index, "needle")
    assert (120, 1, 50) == (first.total, first.sessions, first.next)
    assert "needle number 119" == first.hits[0].text.text
    rest = index.search(Query(text="needle", offset=100))
    assert (20, None) == (len(rest.hits), rest.next)
    say(store, "s", user("needle at last"))
    assert 121 == found(index, "needle").total
    say(store, "other", user("another needle"))
    assert (122, 2) == found(index, "needle")[1:3]


def test_a_log_that_was_replaced_is_indexed_anew(tmp_path: Path) -> None:
    """Clearing up; what went is not found any more."""
    store = store_at(None, tmp_path)
    index = TextIndex(tmp_path / "search.db", {"own": store})
    with Session.open("s", store=store) as session:
        root = session.append(user("root"))
        session.append(user("dead needle"))
        session.append(user("living needle"), parent_id=root.id)
    assert 2 == found(index, "needle").total
    collect_branches(store, "main", "s", delete=True)
    assert ["living needle"] == [hit.text.text for hit in found(index, "needle").hits]
    index.close()


def test_deleting_a_session_removes_its_words_from_the_file(store: Store, tmp_path: Path) -> None:
    """Not only its rows: no word of it is left in the bytes of the index."""
    index = TextIndex(tmp_path / "search.db", {"own": store})
    say(store, "gone", user("the password is xyzzyplugh"))
    say(store, "stays", user("nothing of note"))
    assert 1 == found(index, "xyzzyplugh").total
    with Session.open("gone", store=store, read_only=True) as session:
        index.forget("own", "main", "gone", session)
    store.delete("main", "gone")
    assert 0 == found(index, "xyzzyplugh").total and 1 == found(index, "note").total
    index.close()
    raw = b"".join(path.read_bytes() for path in tmp_path.glob("search.db*"))
    assert b"xyzzyplugh" not in raw


def test_the_index_may_be_deleted_broken_or_of_another_version(store: Store, tmp_path: Path) -> None:
    """It is built again; nothing is lost with it."""
    path = tmp_path / "search.db"
    say(store, "s", user("needle"))
    index = TextIndex(path, {"own": store})
    assert 1 == found(index, "needle").total
    index.delete()
    assert 1 == found(index, "needle").total
    index.close()
    path.write_bytes(b"no database at all" * 100)
    index = TextIndex(path, {"own": store})
    assert 1 == found(index, "needle").total
    with index._writing() as database:
        database.execute("PRAGMA user_version = 99")
    index.close()
    index = TextIndex(path, {"own": store})
    assert 1 == found(index, "needle").total
    assert 0o600 == path.stat().st_mode & 0o777
    index.close()


def test_a_search_does_not_wait_for_the_indexing(store: Store, index: TextIndex) -> None:
    """It finds what was indexed so far."""
    say(store, "s", user("needle"))
    index.follow()
    with index._writing():
        done: list[int] = []
        thread = threading.Thread(target=lambda: done.append(index.search(Query(text="needle")).total))
        thread.start()
        thread.join(20)
        assert [1] == done


def test_following_can_be_stopped_and_taken_up(store: Store, index: TextIndex) -> None:
    """In the middle of a long session too."""
    say(store, "s", *[user(f"needle {at}") for at in range(1000)])
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 2

    index.follow(stop=stop)
    partly = index.search(Query(text="needle")).total
    assert 0 < partly < 1000
    assert 1000 == found(index, "needle").total


def test_the_index_is_smaller_than_its_texts(store: Store, index: TextIndex, tmp_path: Path) -> None:
    """Merged segments leave no free pages behind: the file has at most 0.8 of the size of what it finds."""
    terms = [f"w{(at * 7919) % 5000:04}" for at in range(200 * 1500)]
    texts = [" ".join(terms[at : at + 200]) for at in range(0, len(terms), 200)]
    say(store, "s", *map(user, texts))
    index.follow()
    index.close()
    database = sqlite3.connect(tmp_path / "search.db")
    free, pages = (database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_count"))
    database.close()
    assert free <= pages * 0.05
    assert (tmp_path / "search.db").stat().st_size <= 0.8 * sum(map(len, texts))


def test_totals_are_exact_after_sessions_have_gone(store: Store, index: TextIndex) -> None:
    """Words that lead to no session are not counted."""
    say(store, "a", user("needle one"))
    say(store, "b", user("needle two"))
    assert (2, 2) == (found(index, "needle").total, found(index, "needle").sessions)
    index.forget("own", "main", "a")
    assert (1, 1) == (index.search(Query(text="needle")).total, index.search(Query(text="needle")).sessions)


def test_cards_are_kept_with_the_index(store: Store, index: TextIndex) -> None:
    """So that a list of many sessions need not read them."""
    usage = il.Usage.of(1, 1, cost=il.Cost(total=0.5))
    say(store, "s", user("q"), answer("a", model="m", usage=usage))
    index.follow()
    known = index.card("own", "main", "s")
    assert known is not None and (0.5, ("m",), ((0, 1),)) == (known[2].cost, known[2].models, known[2].shape)
    say(store, "s", answer("b", model="n"))
    index.follow()
    again = index.card("own", "main", "s")
    assert again is not None and ("m", "n") == again[2].models


def test_snippets_show_the_words_in_their_surroundings() -> None:
    """Around the first hit, with every hit marked, and marks where text is left out."""
    text = "lorem ipsum " * 50 + "the fencing token, fencing again " + "dolor sit " * 50
    pieces = snippet(text, terms_of('"fencing token" again'))
    assert ["fencing token", "again"] == [piece.text for piece in pieces if piece.is_hit]
    assert ("…", "…") == (pieces[0].text, pieces[-1].text)
    assert ["待办"] == [piece.text for piece in snippet("请帮我实现一个待办事项", terms_of("待办")) if piece.is_hit]


def test_the_values_of_filters_are_those_of_ones_own_stores(store: Store, index: TextIndex, tmp_path: Path) -> None:
    """Roles, tools and models that occur; nothing of other stores in the same file."""
    assert ((), (), ()) == index.filters()
    call = il.ToolCall(id="c", name="grep", arguments={"pattern": "x"})
    say(store, "s", user("hello"), il.AssistantMessage(content=(call,), model="m-1", stop_reason="toolUse"))
    index.follow()
    assert (("assistant", "user"), ("grep",), ("m-1",)) == index.filters()
    other = store_at(f"sqlite:{tmp_path / 'other.db'}")
    with contextlib.closing(other), contextlib.closing(TextIndex(tmp_path / "search.db", {"theirs": other})) as theirs:
        say(other, "t", il.AssistantMessage(content="hi", model="m-2", stop_reason="stop"))
        theirs.follow()
        assert (("assistant",), (), ("m-2",)) == theirs.filters()
        assert (("assistant", "user"), ("grep",), ("m-1",)) == index.filters()


def test_a_removed_session_has_no_values_to_filter_by(store: Store, index: TextIndex) -> None:
    """Also if another program removed it; what remains is offered as before."""
    for name in ("stays", "goes"):
        say(store, name, il.AssistantMessage(content="hi", model=f"m-{name}", stop_reason="stop"))
    index.follow()
    assert ("m-goes", "m-stays") == index.filters().models
    store.trash("main", "goes")
    index.follow()
    assert (("assistant",), (), ("m-stays",)) == index.filters()
