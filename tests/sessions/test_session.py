"""Sessions do the same whatever keeps them: files or SQLite (PostgreSQL is tested against a real server elsewhere)."""

import asyncio
import base64
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import interlingua as il
from interlingua.sessions import Session, SessionBusy, SessionError, SessionNotFound, Store, save
from sessions.making import answer, fill, result, texts, used, user

PICTURE = base64.b64encode(bytes(range(256)) * 400).decode()


def opened(store: Store, id: str = "s", **more: Any) -> Session:
    return Session.open(id, store=store, **more)


def test_what_is_appended_is_there_after_reopening(store: Store) -> None:
    """In order, each behind the one before."""
    with opened(store) as session:
        ids = fill(session, user("Hi"), answer("Hello"))
    with opened(store) as session:
        assert [(ids[0], None), (ids[1], ids[0])] == [(entry.id, entry.parent_id) for entry in session.path()]
        assert (user("Hi"), answer("Hello")) == session.messages
        assert ids[1] == session.head


def test_a_session_without_messages_is_not_stored(store: Store) -> None:
    """Opening is not saying; the first append writes the session's own line too."""
    with opened(store) as session:
        assert (None, (), ()) == (session.head, session.path(), session.context_messages())
    assert [] == [info.title for info in store.sessions("main") if info.messages]


def test_the_prompt_is_saved_before_any_answer(store: Store) -> None:
    """A crash before the first reply does not lose what the user said."""
    with opened(store) as session:
        session.append(user("Hi"))
        with opened(store, read_only=True) as reader:
            assert (user("Hi"),) == reader.messages


def test_moving_the_head_back_and_appending_makes_a_branch(store: Store) -> None:
    """Both ends stay; the path leads to the new one."""
    with opened(store) as session:
        ids = fill(session, user("Hi"), answer("one"))
        session.rewind(ids[0])
        assert ids[0] == session.head
    with opened(store) as session:
        assert ids[0] == session.head
        session.append(answer("two"))
        assert ["Hi", "two"] == texts(session.messages)
        assert ["Hi", "one", "two"] == texts(entry.message for entry in session.entries())


def test_a_branch_is_kept_when_something_is_appended_to_it(store: Store) -> None:
    """`branch` writes nothing by itself."""
    with opened(store) as session:
        ids = fill(session, user("Hi"), answer("one"))
        session.branch(ids[0])
        assert ["Hi"] == texts(session.messages)
    with opened(store) as session:
        assert ids[1] == session.head
        session.branch(ids[0])
        session.append(answer("two"))
    with opened(store, read_only=True) as session:
        assert ["Hi", "two"] == texts(session.messages)


def test_before_the_first_entry_begins_another_root(store: Store) -> None:
    """The head may stand before everything."""
    with opened(store) as session:
        fill(session, user("one"), answer("1"))
        session.rewind(None)
        assert (None, ()) == (session.head, session.path())
        session.append(user("two"))
        assert ["two"] == texts(session.messages)


def test_deep_branches_lead_to_their_own_root(store: Store) -> None:
    """Branches on branches."""
    with opened(store) as session:
        first = fill(session, user("a"), answer("b"), user("c"), answer("d"))
        session.branch(first[1])
        second = fill(session, user("e"), answer("f"))
        session.branch(second[0])
        fill(session, answer("g"))
        assert ["a", "b", "e", "g"] == texts(session.messages)
        session.rewind(first[3])
        assert ["a", "b", "c", "d"] == texts(session.messages)


@pytest.mark.parametrize("act", ["rewind", "branch", "label", "fork", "compact", "append", "entry"])
def test_an_unknown_entry_is_refused(store: Store, act: str) -> None:
    """By name, and nothing is written."""
    with opened(store) as session:
        session.append(user("Hi"))
        before = session.path()
        acts: dict[str, Any] = {
            "rewind": lambda: session.rewind("no"),
            "branch": lambda: session.branch("no"),
            "label": lambda: session.label("no", "x"),
            "fork": lambda: session.fork("no"),
            "compact": lambda: session.compact("s", "no"),
            "append": lambda: session.append(user("x"), parent_id="no"),
            "entry": lambda: session.entry("no"),
        }
        with pytest.raises(SessionNotFound, match="'no'"):
            acts[act]()
        assert before == session.path()


def test_an_id_is_given_once(store: Store) -> None:
    """Ids of one's own are taken, twice is refused."""
    with opened(store) as session:
        assert "mine" == session.append(user("Hi"), id="mine").id
        with pytest.raises(SessionError, match="already"):
            session.append(user("Hi"), id="mine")


def test_labels_are_set_cleared_and_the_last_wins(store: Store) -> None:
    """They are beside the path, and no model is told of them."""
    with opened(store) as session:
        first, second = fill(session, user("Hi"), answer("Hello"))
        session.label(first, "start")
        session.label(second, "end")
        session.label(first, "beginning")
        session.label(second, None)
        session.label(None, "My chat")
    with opened(store) as session:
        assert {first: "beginning"} == session.labels()
        assert "My chat" == session.title
        assert second == session.head
        assert (user("Hi"), answer("Hello")) == session.context_messages()


def test_the_model_in_use_is_that_of_the_path(store: Store) -> None:
    """Set last, or answered last, whichever is later."""
    with opened(store, about=il.Conversation(model=il.ModelDescriptor(id="first"))) as session:
        assert "first" == session.model.id if session.model else None
        fill(session, user("Hi"), answer("Hello", model="second", provider="p"))
        at = session.head
        session.set_model("third", provider="q", options=il.Options(reasoning="high"))
    with opened(store) as session:
        assert il.ModelDescriptor(id="third", provider="q") == session.model
        assert il.Options(reasoning="high") == session.options
        session.branch(at)
        assert il.ModelDescriptor(id="second", provider="p") == session.model
        assert il.Options() == session.options
        assert (user("Hi"), answer("Hello", model="second", provider="p")) == session.messages


def test_a_fork_is_a_session_of_its_own(store: Store) -> None:
    """It says where it comes from, keeps ids and labels of its path, and the old one is not changed."""
    with opened(store) as session:
        ids = fill(session, user("Hi"), answer("one"), user("more"))
        session.label(ids[0], "start")
        session.label(ids[2], "gone")
        before = list(session.entries())
        with session.fork(ids[1], id="f") as other:
            other.append(user("other"))
            assert ["Hi", "one", "other"] == texts(other.messages)
            assert {"id": "s", "entry": ids[1]} == other.about["forkedFrom"]
            assert {ids[0]: "start"} == other.labels()
        assert before == list(session.entries())
    with opened(store, "f", create=False) as other:
        assert ["Hi", "one", "other"] == texts(other.messages)


def test_a_fork_of_the_first_message_holds_it_once(store: Store) -> None:
    """And has one first line."""
    with opened(store) as session:
        first, _ = fill(session, user("Hi"), answer("one"))
        with session.fork(first) as other:
            assert ["Hi"] == texts(other.messages) == texts(entry.message for entry in other.entries())


def test_a_reader_may_fork_what_another_writes(store: Store) -> None:
    """What a busy session's error advises."""
    with opened(store) as session:
        session.append(user("Hi"))
        with opened(store, read_only=True) as reader, reader.fork() as other:
            other.append(answer("mine"))
            assert ["Hi", "mine"] == texts(other.messages)
        assert ["Hi"] == texts(session.messages)


def test_a_second_writer_gets_the_name_of_the_first(store: Store) -> None:
    """And what to do instead; a third comes in when the first has gone."""
    with opened(store) as session:
        session.append(user("Hi"))
        with pytest.raises(SessionBusy, match=r"this process .*read-only, or fork"):
            opened(store)
    opened(store).close()


def test_a_reader_does_not_write(store: Store) -> None:
    """It is told how one would."""
    with opened(store) as session:
        session.append(user("Hi"))
    with opened(store, read_only=True) as reader, pytest.raises(SessionError, match="read-only"):
        reader.append(user("more"))


def test_a_session_that_is_not_there_is_not_made_by_reading(store: Store) -> None:
    """Nor by opening without `create`."""
    with pytest.raises(SessionNotFound):
        opened(store, "nobody", read_only=True)
    with pytest.raises(SessionNotFound):
        opened(store, "nobody", create=False)
    assert [] == store.sessions("main")


def test_a_reader_sees_what_is_appended_after_it_opened(store: Store) -> None:
    """When it asks."""
    with opened(store) as session, opened(store, read_only=True) as reader:
        session.append(user("Hi"))
        reader.refresh()
        assert (user("Hi"),) == reader.messages


def test_large_data_is_kept_once_and_comes_back_the_same(store: Store) -> None:
    """The line holds an address, the message its data."""
    picture = il.ImageBlock(data=PICTURE, mime_type="image/png", url="https://x.example/p.png")
    message = il.UserMessage(content=(il.TextBlock(text="Look"), picture, il.ImageBlock(data="aGk=", mime_type="a/b")))
    with opened(store) as session:
        first = session.append(message)
        session.append(il.ToolResultMessage(tool_call_id="x", content=(picture,), is_error=False))
        assert message == first.message == session.messages[0]
    assert 1 == len(store.blobs("main").names())
    raw = list(store.texts("main"))
    assert all(PICTURE.encode() not in line for line in raw) and max(map(len, raw)) < 1000
    with opened(store, read_only=True) as session:
        assert message == session.messages[0]


@pytest.mark.parametrize(
    "block",
    [
        il.AudioBlock(data=PICTURE, mime_type="audio/wav", transcript="hum"),
        il.DocumentBlock(data=PICTURE, mime_type="application/pdf", title="a.pdf", context="about"),
    ],
    ids=["audio", "document"],
)
def test_large_sound_and_documents_are_kept_like_pictures(store: Store, block: Any) -> None:
    """In a tool's result as in a user's message: an address in the line, all of the block in memory."""
    result = il.ToolResultMessage(tool_call_id="x", content=(il.TextBlock(text="Here"), block), is_error=False)
    with opened(store) as session:
        session.append(il.UserMessage(content=(block,)))
        session.append(result)
    assert 1 == len(store.blobs("main").names())
    assert max(map(len, store.texts("main"))) < 1000
    with opened(store, read_only=True) as session:
        assert (il.UserMessage(content=(block,)), result) == session.messages


def test_a_missing_blob_is_reported_and_the_rest_is_read(store: Store) -> None:
    """The block keeps the address."""
    with opened(store) as session:
        session.append(il.UserMessage(content=(il.ImageBlock(data=PICTURE, mime_type="image/png"),)))
    store.blobs("main").delete(store.blobs("main").names())
    with opened(store, read_only=True) as session:
        (message,) = session.messages
        assert message.content[0].url.startswith("blob:sha256:")  # type: ignore[union-attr, index]
        assert ["is missing" in problem.message for problem in session.problems] == [True]


def test_data_that_is_not_plain_base64_stays_in_the_line(store: Store) -> None:
    """It could not come back the same."""
    odd = il.UserMessage(content=(il.ImageBlock(data=PICTURE + "\n", mime_type="image/png"),))
    with opened(store) as session:
        session.append(odd)
        assert (odd,) == session.messages
    assert [] == store.blobs("main").names()


def test_a_fork_for_another_agent_takes_its_blobs_along(store: Store) -> None:
    """Agents do not share them."""
    message = il.UserMessage(content=(il.ImageBlock(data=PICTURE, mime_type="image/png"),))
    with opened(store) as session:
        session.append(message)
        with session.fork(agent="other") as other:
            assert (message,) == other.messages
    assert ["main", "other"] == store.agents()
    assert 1 == len(store.blobs("other").names())


def test_compaction_shows_the_model_a_summary_and_what_was_kept(store: Store) -> None:
    """The entries stay; signatures from before are not replayed."""
    with opened(store) as session:
        ids = fill(session, user("a"), answer("b"), user("c"), answer("d", thinking="hm"))
        session.compact("So far.", ids[2], tokens_before=100, details={"readFiles": ["x"]})
        fill(session, user("e"), answer("f", thinking="oh"))
    with opened(store, read_only=True) as session:
        seen = session.context_messages()
        assert "So far." in texts(seen)[0]
        assert (user("c"), answer("d"), user("e"), answer("f", thinking="oh")) == seen[1:]
        assert ["a", "b", "c", "d", "e", "f"] == texts(session.messages)
        assert answer("d", thinking="hm") == session.messages[3]


def test_compaction_of_another_branch_is_not_seen(store: Store) -> None:
    """It belongs to the path on which it was made."""
    with opened(store) as session:
        ids = fill(session, user("a"), answer("b"))
        session.compact("Sum.", ids[1])
        session.rewind(ids[1])
        session.append(user("c"))
        assert ["a", "b", "c"] == texts(session.context_messages())


def test_compaction_refuses_what_would_lose_something(store: Store) -> None:
    """An empty summary, or an entry of another branch."""
    with opened(store) as session:
        ids = fill(session, user("a"), answer("b"))
        session.rewind(ids[0])
        session.append(answer("c"))
        with pytest.raises(SessionError, match="empty summary"):
            session.compact(" ", ids[0])
        with pytest.raises(SessionError, match="not on the path"):
            session.compact("s", ids[1])
        assert ["a", "c"] == texts(session.context_messages())


def test_a_tool_that_was_under_way_is_reported_as_unknown(store: Store) -> None:
    """After a crash: started or not, ended or not; what has a result is not named."""
    with opened(store) as session:
        fill(session, user("go"), answer("", "one", "two", "three", "four"))
        for call in ("one", "two", "four"):
            session.journal("tool_start", call_id=call, name="read")
        session.append(result("one"))
        session.journal("tool_end", call_id="one", name="read")
        session.journal("tool_end", call_id="four", name="read")
    with opened(store) as session:
        found = {(call.call.id, call.started, call.ended) for call in session.unfinished_calls()}
        assert {("two", True, False), ("three", False, False), ("four", True, True)} == found
        assert ["go", "", "done"] == texts(session.context_messages())


def test_calls_of_earlier_turns_with_the_same_id_are_not_mixed_up(store: Store) -> None:
    """Some providers count from one in every turn."""
    with opened(store) as session:
        fill(session, user("a"), answer("", "call_1"))
        session.journal("tool_start", call_id="call_1", name="read")
        fill(session, result("call_1"), answer("", "call_1"))
        assert [False] == [call.started for call in session.unfinished_calls()]
        session.journal("tool_start", call_id="call_1", name="read")
        assert [True] == [call.started for call in session.unfinished_calls()]


def test_calls_of_a_failed_answer_are_not_unfinished(store: Store) -> None:
    """They were never to be run."""
    with opened(store) as session:
        fill(session, user("a"), answer("", "x", stop_reason="aborted"))
        assert () == session.unfinished_calls()


def test_a_conversation_is_saved_and_comes_back(store: Store) -> None:
    """With its tree, head, system text, tools and options."""
    entries = (
        il.Entry(message=user("a"), id="1"),
        il.Entry(message=answer("b"), id="2", parent_id="1"),
        il.Entry(message=il.CustomMessage("note", {"x": 1}), id="3", parent_id="1"),  # type: ignore[arg-type]
    )
    whole = il.Conversation(
        entries=entries,
        head="2",
        system="Be terse.",
        tools=(il.ToolSpec(name="read"),),
        model=il.ModelDescriptor(id="m", provider="p"),
        options=il.Options(max_tokens=9),
    )
    with save(whole, store=store, id="w") as session:
        assert whole == session.conversation()
    with opened(store, "w", read_only=True) as session:
        assert whole == session.conversation()


def test_sessions_are_listed_with_what_they_are_about(store: Store) -> None:
    """The first words or the name, the count, the model; the latest first."""
    with opened(store, "one") as session:
        fill(session, user("  Read   main.ts\nplease "), answer("Yes", model="m"))
    with opened(store, "two") as session:
        session.append(user("x"))
        session.label(None, "Named")
    rows = {info.id: info for info in store.sessions("main")}
    assert ("Read main.ts please", 2, "m") == (rows["one"].title, rows["one"].messages, rows["one"].model)
    assert ("Named", 1, None) == (rows["two"].title, rows["two"].messages, rows["two"].model)
    assert rows["one"].created and rows["one"].size > 0


def test_many_threads_may_append(store: Store) -> None:
    """Every line is whole and none is lost."""
    with opened(store) as session:
        threads = [
            threading.Thread(target=lambda n=n: [session.append(user(f"{n}.{at}")) for at in range(20)])
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert 80 == len(session.messages) == len(set(texts(session.messages)))


async def test_case_111_sync_and_async_record_the_same(store: Store) -> None:
    """The session is one thing, driven from either side."""
    messages = (user("go"), answer("", "x"), result("x"), answer("end"))
    with opened(store, "sync") as session:
        fill(session, *messages)
    async with opened(store, "async") as session:
        for message in messages:
            session.append(message)
            await asyncio.sleep(0)
    with opened(store, "sync", read_only=True) as one, opened(store, "async", read_only=True) as other:
        assert messages == one.messages == other.messages


def test_case_110_what_changes_behaviour_is_restored(store: Store) -> None:
    """Options, model and the last compaction are as they were."""
    with opened(store) as session:
        ids = fill(session, user("a"), answer("b", usage=used(50)))
        session.set_model("m", provider="p", options=il.Options(max_tokens=7, reasoning="low"))
        session.compact("S", ids[1], details={"modifiedFiles": ["f"]})
        before = (session.model, session.options, session.context_messages(), session.head)
    with opened(store) as session:
        assert before == (session.model, session.options, session.context_messages(), session.head)


def test_case_109_opaque_fields_and_the_next_request_survive_saving(store: Store) -> None:
    """What goes to the provider after reloading is byte-equal."""
    body = {
        "model": "claude-x",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "Read it", "odd": {"x": [1]}},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                    {"type": "redacted_thinking", "data": "eA=="},
                    {"type": "tool_use", "id": "t1", "name": "read", "input": {"n": 12345678901234567890}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}]},
        ],
    }
    conversation = il.decode(body, "anthropic-messages")
    with save(conversation, store=store, id="w"):
        pass
    with opened(store, "w", read_only=True) as session:
        assert conversation.messages == session.messages
        again = il.encode(session.conversation(), "anthropic-messages")
    assert il.encode(conversation, "anthropic-messages").bytes() == again.bytes()


def test_a_session_without_messages_leaves_no_file(tmp_path: Path) -> None:
    """Opening and closing is not worth a file."""
    with Session.open("unused", home=tmp_path) as session:
        session.sync()
    assert [] == list(tmp_path.rglob("*.jsonl"))


def test_an_exported_session_is_known_for_what_it_is(tmp_path: Path) -> None:
    """A transcript without a first `session` line is told by its `head` line."""
    with Session.open("s", home=tmp_path) as session:
        first = session.append(il.UserMessage(content="one"))
        session.append(il.UserMessage(content="two"))
        session.rewind(first.id)
        parse_place = session.conversation()
    bare = replace(parse_place, extra={}, system=None, tools=None, model=None)
    again = il.decode(il.encode(bare, "transcript").bytes())
    assert ["one"] == [message.content for message in again.messages]


@pytest.mark.parametrize("role", ["session", "head", "label", "journal"])
def test_a_message_cannot_take_a_role_of_the_session(tmp_path: Path, role: str) -> None:
    """It would move the head or rename the session instead of being said."""
    with Session.open("s", home=tmp_path) as session:
        session.append(il.UserMessage(content="one"))
        with pytest.raises(SessionError, match="reserved role"):
            session.append(il.CustomMessage(role, {"target": None}))
        assert 1 == len(session.path())


def test_a_call_of_one_branch_is_known_by_where_its_run_stood(tmp_path: Path) -> None:
    """Runs side by side on branches note their calls where they stand; a note without such a place may be of any."""
    with Session.open(tmp_path / "s.jsonl") as session:
        asked = session.append(user("a")).id
        first = session.append(answer("", "c"), parent_id=asked).id
        second = session.append(answer("", "c"), parent_id=asked).id
        session.journal("tool_start", call_id="c", at=first)
        started = [[call.started for call in session.unfinished_calls(to=at)] for at in (first, second)]
        assert [[True], [False]] == started
        session.journal("tool_start", call_id="c", at=asked)
        assert [True] == [call.started for call in session.unfinished_calls(to=second)]


def test_a_call_that_was_revised_is_looked_for_by_its_new_id(tmp_path: Path) -> None:
    """What the model reads is what counts."""
    with Session.open(tmp_path / "s.jsonl") as session:
        at = session.append(answer("", "c")).id
        session.revise(at, answer("", "d"))
        assert ["d"] == [unfinished.call.id for unfinished in session.unfinished_calls()]
