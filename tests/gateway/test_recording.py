"""Recording: traffic as session trees, with branches and sub-agents, redacted, and answered again offline."""

import asyncio
import base64
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import interlingua as il
from gateway.stores import exchange
from interlingua.gateway import recording
from interlingua.gateway.exchange import ClientKey, Exchange
from interlingua.gateway.recorder import Recorder, recorder_of
from interlingua.gateway.recording import (
    AGENT,
    SessionWriter,
    decode_record,
    echo_digest,
    encode_record,
    redactor_of,
)
from interlingua.gateway.replay import Replay
from interlingua.gateway.settings_file import RecordingSettings
from interlingua.sessions import Session, store_at
from interlingua.sessions.files import FileStore
from interlingua.sessions.sql import sqlite_store
from interlingua.values.errors import BadRequest
from interlingua.values.losses import Loss
from interlingua.values.messages import (
    AssistantMessage,
    Cost,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
    UserMessage,
    text_of,
)
from interlingua.values.request import Context, Request

KEY = ClientKey(name="ci")
SECRET = "sk-ant-" + "api03-AbCdEf0123456789AbCdEf0123456789"


def answer(text: str, *calls: ToolCall) -> AssistantMessage:
    thinking = ThinkingBlock(thinking="hm", thinking_signature="c2ln")
    return AssistantMessage(
        content=(thinking, TextBlock(text=text), *calls), api="anthropic-messages", provider="debug", model="m"
    )


def turn(
    messages: list[Any], reply: AssistantMessage, *, session: str | None = None, system: str = "Be kind."
) -> Exchange:
    request = Request(
        model=il.ModelDescriptor(id="m"),
        context=Context(
            system=system, messages=tuple(UserMessage(content=m) if isinstance(m, str) else m for m in messages)
        ),
    )
    return exchange(KEY, request=request, response=reply, session=session, attempts=1, status=200)


def echo(message: AssistantMessage) -> AssistantMessage:
    """What a client sends back: no thinking, other ids, other spaces."""
    return AssistantMessage(
        content=tuple(
            replace(block, id="other") if isinstance(block, ToolCall) else TextBlock(text=f" {block.text}\n")
            for block in message.content
            if isinstance(block, ToolCall | TextBlock)
        )
    )


_opened: list[Session] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def sessions(home: Path) -> list[Session]:
    """The recorded sessions, open until the test ends."""
    store = store_at(None, home)
    found = [Session.open(info.id, agent=AGENT, home=home, read_only=True) for info in store.sessions(AGENT)]
    _opened.extend(found)
    return found


def recorder(home: Path, **given: Any) -> Recorder:
    made = recorder_of(RecordingSettings(enabled=True, home=str(home), **given))
    assert made is not None
    return made


async def record(home: Path, *exchanges: Exchange, **given: Any) -> None:
    made = recorder(home, **given)
    for one in exchanges:
        await made.observe(one)
    await made.close()


async def test_a_conversation_is_one_session_that_grows(tmp_path: Path) -> None:
    """Each request brings all of the conversation; each message is written once, the answer with its thinking."""
    first, second = answer("Hi."), answer("Fine.")
    await record(tmp_path, turn(["Hello"], first), turn(["Hello", echo(first), "How are you?"], second))
    (session,) = sessions(tmp_path)
    assert 4 == len(session.messages) == len(list(session.entries()))
    assert isinstance(session.messages[1], AssistantMessage)
    assert "c2ln" == session.messages[1].content[0].thinking_signature  # type: ignore[union-attr]
    assert "Be kind." == session.base.system
    assert "x1" == list(session.entries())[1].extra["interlingua"]["gateway"]["exchange"]


async def test_an_answer_has_the_cost_of_its_exchange(tmp_path: Path) -> None:
    """Whoever sums up sessions finds it there; what the provider reports stays, and what is not known is absent."""
    reported = replace(Usage.of(9, 9), cost=Cost(input=1.0, output=2.0, total=3.0))
    first, second, third = (
        replace(answer(text), usage=usage)
        for text, usage in (("a", Usage.of(10, 5)), ("b", reported), ("c", Usage.of(1, 1)))
    )
    made = [
        turn(["Hello"], first),
        turn(["Hello", echo(first), "More"], second),
        turn(["Hello", echo(first), "More", echo(second), "Again"], third),
    ]
    made[0].cost, made[1].cost = 0.25, 3.0
    await record(tmp_path, *made)
    (session,) = sessions(tmp_path)
    used = [one.usage for one in session.messages if isinstance(one, AssistantMessage)]
    assert [replace(Usage.of(10, 5), cost=Cost(total=0.25)), reported, Usage.of(1, 1)] == used


async def test_it_grows_on_after_a_restart(tmp_path: Path) -> None:
    """Where a message belongs follows from its content, not from what the process remembers."""
    first = answer("Hi.")
    await record(tmp_path, turn(["Hello"], first))
    await record(tmp_path, turn(["Hello", echo(first), "More"], answer("Sure.")))
    (session,) = sessions(tmp_path)
    assert 4 == len(session.messages)


async def test_edited_and_repeated_turns_are_branches(tmp_path: Path) -> None:
    """The same question again, with another answer, and another question in its place."""
    first = answer("Hi.")
    await record(
        tmp_path,
        turn(["Hello"], first),
        turn(["Hello", echo(first), "A"], answer("a1")),
        turn(["Hello", echo(first), "A"], answer("a2")),
        turn(["Hello", echo(first), "B"], answer("b")),
        turn(["Hello", echo(first), "B"], answer("b")),
    )
    (session,) = sessions(tmp_path)
    assert 3 == len(session.leaves())
    assert 7 == len(list(session.entries()))


async def test_named_conversations_are_apart_and_sub_agents_name_their_call(tmp_path: Path) -> None:
    """A sub-agent sends the same session id with another system text: a session of its own."""
    call = ToolCall(id="t1", name="Task", arguments={"prompt": "count the files"})
    await record(
        tmp_path,
        turn(["Hello"], answer("Working.", call), session="s1"),
        turn(["count the files"], answer("Three."), session="s1", system="You count."),
        turn(["Hello"], answer("Hi."), session="s2"),
    )
    found = {session.base.system: session for session in sessions(tmp_path)}
    assert 3 == len(list(sessions(tmp_path)))
    child = found["You count."].about["spawnedBy"]
    (parent,) = [s for s in sessions(tmp_path) if s.id == child["session"]]
    assert ("t1", "s1") == (child["callId"], parent.about["gateway"]["session"])
    assert parent.entry(child["entry"]).message.tool_calls[0].name == "Task"  # type: ignore[union-attr]


async def test_sub_agents_of_clients_without_session_ids_name_the_call_with_their_task(tmp_path: Path) -> None:
    """Its argument is how their conversation begins; whatever else begins so and is short, or another key's, is not."""
    task = f"count the files with {SECRET}"
    calls = [ToolCall(id=f"t{at}", name="Task", arguments={"prompt": p}) for at, p in enumerate(("weather", task))]
    parent = answer("Working.", *calls)
    other = turn([task], answer("Four."), system="You count.")
    other.key = ClientKey(name="other")
    await record(
        tmp_path,
        turn(["Hello"], parent),
        turn([task], answer("Three."), system="You count."),
        turn(["weather"], answer("Fine."), system="You look."),
        other,
        turn(["Hello", echo(parent), task], answer("Hm.")),
    )
    found = {(one.base.system, one.about["gateway"]["key"]): one for one in sessions(tmp_path)}
    (main,) = [one for one in found.values() if one.base.system == "Be kind."]
    started = {whose: one.about.get("spawnedBy") for whose, one in found.items()}
    asked = next(entry.id for entry in main.entries() if isinstance(entry.message, AssistantMessage))
    call = {"session": main.id, "entry": asked, "callId": "t1"}
    assert started == {
        ("Be kind.", "ci"): None,
        ("You count.", "ci"): call,
        ("You look.", "ci"): None,
        ("You count.", "other"): None,
    }


@pytest.mark.parametrize("name", [None, "s1"])
async def test_the_same_beginning_under_other_system_texts_is_other_sessions(tmp_path: Path, name: str | None) -> None:
    """Each has its own system text and goes on by itself, also where the answers are the same."""
    first = answer("Hi.")
    made = [
        turn(messages, reply, session=name, system=system)
        for messages, reply in ((["Hello"], first), (["Hello", echo(first), "More"], answer("Sure.")))
        for system in ("Sing.", "Rhyme.", "Count.")
    ]
    await record(tmp_path, *made)
    found = sessions(tmp_path)
    assert {"Sing.", "Rhyme.", "Count."} == {session.base.system for session in found}
    assert [4, 4, 4] == [len(session.messages) for session in found]


async def test_a_conversation_whose_system_text_changes_is_one_session(tmp_path: Path) -> None:
    """As with the date in it; an edited turn continues what was before it."""
    first, second = answer("Hi."), answer("Fine.")
    await record(
        tmp_path,
        turn(["Hello"], first, system="It is Monday."),
        turn(["Hello", echo(first), "A"], second, system="It is Tuesday."),
        turn(["Hello", echo(first), "A", echo(second), "B"], answer("b"), system="It is Wednesday."),
        turn(["Hello", echo(first), "A", echo(second), "C"], answer("c"), system="It is Thursday."),
        turn(["Hello", echo(first), "D"], answer("d"), system="It is Friday."),
    )
    (session,) = sessions(tmp_path)
    assert 3 == len(session.leaves())


async def test_secrets_do_not_reach_the_disk(tmp_path: Path) -> None:
    """Neither in texts, system prompts, calls, results nor names; a text that was redacted is still the same text."""
    call = ToolCall(id="t1", name="run", arguments={"command": f"curl -H 'x-api-key: {SECRET}'"})
    first = answer(f"I use {SECRET}.", call)
    begun = turn([f"My key is {SECRET}"], first, system=f"key {SECRET}")
    begun.asked_model = f"openai/{SECRET}"
    begun.losses = (Loss(f"$.extra.{SECRET}", "dropped", "no place", "dropped"),)
    await record(
        tmp_path,
        begun,
        turn([f"My key is {SECRET}", echo(first), "card 42-TOP"], answer("Done.")),
        patterns=("[0-9]+-TOP",),
    )
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"My key is" in written
    assert SECRET.encode() not in written and b"42-TOP" not in written
    (session,) = sessions(tmp_path)
    assert 4 == len(session.messages)


async def test_media_are_kept_once_by_their_hash(tmp_path: Path) -> None:
    """A picture that comes with every request is one file."""
    data = base64.b64encode(bytes(range(256)) * 400).decode()
    picture = UserMessage(content=(ImageBlock(data=data, mime_type="image/png"),))
    first = answer("A picture.")
    await record(tmp_path, turn([picture], first), turn([picture, echo(first), picture], answer("Again.")))
    blobs = [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size >= 102_400]
    assert 1 == len(blobs)
    (session,) = sessions(tmp_path)
    assert data == session.messages[2].content[0].data  # type: ignore[union-attr]


async def test_a_sample_has_whole_conversations(tmp_path: Path) -> None:
    """A conversation is recorded from its first turn to its last, or not at all."""
    turns = []
    for number in range(40):
        first = answer("Hi.")
        turns += [turn([f"q{number}"], first), turn([f"q{number}", echo(first), "more"], answer("ok"))]
    await record(tmp_path, *turns, sample=0.5)
    lengths = [len(session.messages) for session in sessions(tmp_path)]
    assert 5 < len(lengths) < 35
    assert {4} == set(lengths)


async def test_a_failed_write_costs_one_record_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The gateway goes on; the log names the exchange."""
    made = recorder(tmp_path)
    (tmp_path / "agents").write_text("in the way")
    await made.observe(turn(["Hello"], answer("Hi.")))
    await asyncio.wait_for(made.close(), 20)
    assert "x1 is not recorded" in caplog.text


async def test_a_recording_answers_again_offline(tmp_path: Path) -> None:
    """The same requests get the same answers, a repeated one in order; one that is not recorded says how far it is."""
    first, second = answer("Hi."), answer("Fine.")
    turns = [
        turn(["Hello"], first),
        turn(["Hello"], answer("Hey.")),
        turn(["Hello", echo(first), "How are you?"], second),
    ]
    await record(tmp_path, *turns)
    replay = Replay(sessions(tmp_path))
    assert 3 == len(replay)

    def given(at: int) -> str:
        assert turns[at].request is not None
        reply = replay(turns[at].request)
        assert isinstance(reply, AssistantMessage)
        return "".join(b.text for b in reply.content or () if isinstance(b, TextBlock))

    assert ["Hi.", "Hey.", "Hey.", "Fine."] == [given(at) for at in (0, 1, 1, 2)]
    unknown = turn(["Hello", echo(first), "Other"], second).request
    assert unknown is not None
    missing = replay(unknown)
    assert isinstance(missing, BadRequest) and "2 of its 3 messages" in str(missing)


async def test_a_replayed_request_gets_the_answer_to_its_own_system_text(tmp_path: Path) -> None:
    """In any order; a system text that was not recorded, as with another date, gets what there is."""
    made = [turn(["Hello"], answer(system), system=system) for system in ("Sing.", "Rhyme.")]
    await record(tmp_path, *made)
    replay = Replay(sessions(tmp_path), redactor_of(RecordingSettings()))
    other = turn(["Hello"], answer("?"), system="Count.")
    requests = [one.request for one in (*made[::-1], *made, other) if one.request is not None]
    replies = map(replay, requests)
    given = [reply.text for reply in replies if isinstance(reply, AssistantMessage)]
    assert ["Rhyme.", "Sing.", "Sing.", "Rhyme."] == given[:4]
    assert given[4] in ("Sing.", "Rhyme.")


async def test_a_system_text_alone_is_answered_from_its_recording(tmp_path: Path) -> None:
    """OpenAI's wires allow a request without other messages; nobody has to say anything first."""
    made = [turn([], answer(f"{system}!"), system=system) for system in ("Sing.", "Be kind.", f"Say {SECRET}.")]
    await record(tmp_path, *made)
    replay = Replay(sessions(tmp_path), redactor_of(RecordingSettings()))
    for at, expected in ((2, None), (1, "Be kind.!"), (0, "Sing.!")):
        request = made[at].request
        assert request is not None
        reply = replay(request)
        assert isinstance(reply, AssistantMessage)
        assert expected in (reply.text, None)
    unknown = turn([], answer("Hi."), system="Else.").request
    assert unknown is not None
    assert isinstance(replay(unknown), BadRequest)


@given(
    st.text(max_size=20), st.dictionaries(st.text(max_size=3), st.integers() | st.booleans() | st.text(), max_size=3)
)
def test_an_answer_and_its_echo_have_one_digest(text: str, arguments: dict[str, Any]) -> None:
    """Whatever a client drops or rewrites, and in whatever order the arguments come."""
    call = ToolCall(id="a", name="f", arguments=arguments)
    turned = ToolCall(id="b", name="f", arguments=dict(reversed(arguments.items())))
    assert echo_digest(answer(text, call)) == echo_digest(echo(answer(text, turned)))
    assert echo_digest(answer(text, call)) != echo_digest(answer(text + "x", call))


@pytest.mark.parametrize("redact", ["none", "secrets", "private"])
def test_each_rule_takes_out_what_it_names(redact: Any) -> None:
    """Secrets always but with `none`; addresses only with `private`."""
    clean = redactor_of(RecordingSettings(redact=redact))({"a": f"{SECRET} ada@example.org"})["a"]
    assert (SECRET in clean) == (redact == "none")
    assert ("ada@example.org" in clean) == (redact != "private")


class _Opening(FileStore):
    """A store that creates no session in one write."""

    def create(self, agent: str, id: str, lines: Callable[[], Sequence[bytes]]) -> bool:
        return False


@pytest.mark.parametrize("session", [None, "s1"])
def test_a_new_session_is_the_same_however_it_is_written(tmp_path: Path, session: str | None) -> None:
    """In one write, or through an open session: the same file, which the next turn continues."""
    image = ImageBlock(data=base64.b64encode(b"x" * 300_000).decode(), mime_type="image/png")
    first = UserMessage(content=(TextBlock(text=f"My key is {SECRET}"), image))
    reply = answer("Hi", ToolCall(id="c1", name="f", arguments={"a": 1}))
    turns = [turn([first], reply, session=session), turn([first, echo(reply), "And?"], answer("Yes"), session=session)]
    written = []
    for kind in (FileStore, _Opening):
        home = tmp_path / kind.__name__
        store = kind(home)
        writer = SessionWriter(store, redactor_of(RecordingSettings(enabled=True)))
        for number, one in enumerate(turns):
            assert [(number, None)] == writer.write([decode_record(encode_record(number, one))])
            assert (kind is FileStore and not number) == bool(writer.due() and not list(home.rglob("*.lock")))
        writer.close()
        (path,) = home.rglob("*.jsonl")
        lines = path.read_bytes().splitlines()
        written.append([re.sub(rb'"createdAt":\d+', b"", lines[0]), *lines[1:]])
        assert SECRET.encode() not in b"".join(lines)
        assert 1 == len([one for one in home.rglob("*") if "blobs" in one.parts and one.is_file()])
    assert written[0] == written[1]
    assert 5 == len(written[0])


def _later(writer: SessionWriter, number: int, session: str, text: str) -> list[tuple[int, str | None]]:
    """Writes a turn that continues a conversation, for which its session is opened."""
    one = turn(["Hello", echo(answer("Hi")), text], answer(f"To {text}"), session=session)
    return writer.write([decode_record(encode_record(number, one))])


@pytest.mark.parametrize("kind", ["files", "sqlite"])
def test_two_writers_that_close_at_once_wait_for_each_other(tmp_path: Path, kind: str) -> None:
    """Each has what the other waits for: both are written."""
    place = None if kind == "files" else f"sqlite:{tmp_path / 's.db'}"
    first, second = (SessionWriter(store_at(place, tmp_path)) for _ in range(2))
    assert [(1, None)] == _later(first, 1, "a", "one")
    assert [(2, None)] == _later(second, 2, "b", "two")
    assert [] == _later(first, 3, "b", "three") == _later(second, 4, "a", "four")
    with ThreadPoolExecutor(2) as pool:
        outcomes = [one for some in pool.map(SessionWriter.close, (first, second)) for one in some]
    assert [(3, None), (4, None)] == sorted(outcomes)


def test_a_session_with_much_traffic_is_left_to_others_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker's turn of it is written in the meantime, and the own turns after that."""
    now = 0.0
    monkeypatch.setattr(recording, "time", SimpleNamespace(monotonic=lambda: now))
    first, second = (SessionWriter(FileStore(tmp_path)) for _ in range(2))
    assert [(1, None)] == _later(first, 1, "a", "one")
    now += recording.HOLD
    assert [(2, None)] == _later(first, 2, "a", "one more")
    now += 0.01
    first.release()
    assert [] == _later(first, 4, "a", "two")
    assert recording.RETRY == first.due()
    assert [(3, None)] == _later(second, 3, "a", "three")
    second.close()
    assert [] == first.write(())
    now += recording.GIVE_WAY
    assert [(4, None)] == first.write(())
    first.close()


def test_records_that_arrive_together_are_one_commit_of_a_database(tmp_path: Path) -> None:
    """What does not fit into it takes nothing else with it, and is reported; all others are there, once."""
    store = sqlite_store(tmp_path / "s.db")
    writer = SessionWriter(store)
    first = [turn([f"Hello {at}"], answer(f"Hi {at}")) for at in range(5)]
    assert [(at, None) for at in range(5)] == writer.write(
        [decode_record(encode_record(at, one)) for at, one in enumerate(first)]
    )
    ((pages,),) = store.database.rows("PRAGMA page_count")
    store.database.rows(f"PRAGMA max_page_count = {pages + 40}")
    later = [turn([f"Hello {at}", echo(answer(f"Hi {at}")), "And?"], answer(f"More {at}")) for at in range(5)]
    later[2:2] = [turn(["x" * 1_000_000], answer("Too large")), turn(["Hello"], answer("New"))]
    outcomes = dict(writer.write([decode_record(encode_record(at, one)) for at, one in enumerate(later)]))
    assert {at: at == 2 for at in range(7)} == {at: reason is not None for at, reason in outcomes.items()}
    assert "not saved" in str(outcomes[2])
    writer.close()
    store = sqlite_store(tmp_path / "s.db")
    found = []
    for info in store.sessions(AGENT):
        with Session.open(info.id, agent=AGENT, store=store, read_only=True) as session:
            assert not session.problems
            found.append([text_of(message.content) for message in session.messages])
    store.close()
    assert sorted(found) == sorted(
        [["Hello", "New"], *([f"Hello {at}", f"Hi {at}", "And?", f"More {at}"] for at in range(5))]
    )


@pytest.mark.skipif(sys.platform == "win32", reason="Windows deletes no open file")
@pytest.mark.parametrize("is_replaced", [False, True])
def test_what_follows_the_end_of_a_database_is_recorded_in_the_next(tmp_path: Path, is_replaced: bool) -> None:
    """With all before it, which the client sends again: SQLite itself would write to the deleted file."""
    place = tmp_path / "s.db"
    writer = SessionWriter(sqlite_store(place))
    assert [(1, None)] == _later(writer, 1, "a", "one")
    for path in tmp_path.glob("s.db*"):
        if path.is_file():
            path.unlink()
    if is_replaced:
        with Session.open("other", agent=AGENT, store=f"sqlite:{place}") as other:
            other.append(UserMessage(content="Other"))
    for number, text in enumerate(("two", "three"), 2):
        assert [(number, None)] == _later(writer, number, "a", text)
    writer.close()
    store = sqlite_store(place)
    found = {info.id: info.title for info in store.sessions(AGENT)}
    assert is_replaced == (found.pop("other", None) == "Other")
    (id,) = found
    with Session.open(id, agent=AGENT, store=store, read_only=True) as session:
        assert ["two", "three"] == [text_of(session.entry(leaf.parent_id).message.content) for leaf in session.leaves()]
        assert not session.problems
    store.close()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit to set")
def test_conversations_are_recorded_however_few_files_may_be_open(tmp_path: Path) -> None:
    """More conversations at once than the system allows open files: each is closed in time for the others."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = 2 * len([*Path("/dev/fd").iterdir()]) + 100  # the recorder itself has few open
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        writer = SessionWriter(store_at(None, str(tmp_path)))
        first = [turn([f"{at}"], answer(f"a{at}")) for at in range(limit)]
        again = [turn([f"{at}", answer(f"a{at}"), "and?"], answer("so")) for at in range(limit)]
        records = [decode_record(encode_record(number, one)) for number, one in enumerate(first + again)]
        outcomes = [outcome for record in records for outcome in writer.write([record])]
        assert outcomes == [(number, None) for number in range(2 * limit)]
        outcomes = writer.close()
        assert not outcomes
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert {len(session.path()) for session in sessions(tmp_path)} == {4}
