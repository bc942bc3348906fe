"""`il.read`: every conversation of a file, whatever it is packed in."""

import contextlib
import gc
import gzip
import importlib
import io
import json
import random
import sqlite3
import tracemalloc
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner

import interlingua as il
from interlingua.cli import bulk
from interlingua.cli.convert import command as convert
from interlingua.cli.formats import check_command, detect_command
from interlingua.cli.show import command as show
from interlingua.conversion import arrays, detection, large_sessions, sources
from interlingua.conversion.containers import Members, SourceError
from interlingua.conversion.sources import Source, SourceProblem, documents, look
from interlingua.dialects import FORMATS, FileFormat
from interlingua.dialects.registry import register, unregister
from interlingua.sessions.tree import encode_line
from interlingua.values import jsontext
from interlingua.values.errors import FormatError
from interlingua.values.losses import Text
from interlingua.values.request import is_aside

ROW = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}]}
LINES = b"".join(json.dumps(ROW).encode() + b"\n" for _ in range(3))
TRANSCRIPT = b'{"role":"session","version":1,"title":"T"}\n{"role":"user","content":"Hi"}\n'


@pytest.fixture
def notes() -> Iterator[None]:
    """A format of text, zip and database: paragraphs are what a person wrote."""

    def decode(data: Any) -> il.Conversation:
        entries = tuple(il.Entry(message=il.UserMessage(content=part)) for part in data.split("\n\n")[1:])
        return il.Conversation(entries=entries)

    def encode(conversation: il.Conversation) -> il.Encoded:
        return il.Encoded(Text("# notes\n\n" + "\n\n".join(m.text for m in conversation.messages)), ())  # type: ignore[union-attr]

    codec = types.SimpleNamespace(decode=decode, encode=encode, FIELD_SUPPORT={}, API="notes")
    register(
        FileFormat(
            name="notes",
            codec=codec,
            text=True,
            detect=lambda text: text.startswith("# notes") and "its title",
            archive=lambda files: [files[n].decode() for n in files] if "notes.md" in files else None,
            database=lambda db: [row[0] for row in db.execute("SELECT body FROM notes")],
        )
    )
    yield
    unregister("notes")


def zipped(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


@pytest.mark.parametrize(
    "pack",
    [bytes, gzip.compress, lambda data: zstandard.ZstdCompressor().compress(data)],
    ids=["plain", "gzip", "zstd"],
)
def test_a_path_a_file_and_bytes_are_read_alike(tmp_path: Path, pack: Any) -> None:
    """Packed or not."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(pack(LINES))
    with path.open("rb") as file:
        found = [list(il.read(path)), list(il.read(str(path))), list(il.read(pack(LINES))), list(il.read(file))]
        assert not file.closed
    assert [3, 3, 3, 3] == [len(one) for one in found]
    assert found[0] == found[1] == found[2] == found[3]
    assert ["Hi", "Yes"] == [message.text for message in found[0][0].messages]  # type: ignore[union-attr]


def test_a_torn_line_is_left_out_and_reported() -> None:
    """By `read` and by `decode`: what the other lines say is kept."""
    torn = TRANSCRIPT + b'{"role":"assistant","content":"Yes"}\n{"role":"user","con'
    (conversation,) = il.read(torn)
    assert conversation == il.decode(torn)
    assert [4] == [problem.line for problem in conversation.problems]
    assert str(conversation.problems[0]).startswith("line 4: ")
    assert 2 == len(conversation.entries)
    assert "T" == conversation.title


@pytest.mark.parametrize("name", ["answer", "choices", "completion", "output", "outputs", "response"])
def test_what_may_be_the_answer_to_messages_is_named(name: str, tmp_path: Path) -> None:
    """By `read` for an object, rows and lines, and by `show`; not where the messages end with an answer."""
    value = (
        [{"index": 0, "message": {"role": "assistant", "content": "Twelve."}}] if name == "choices" else {"en": "12"}
    )
    row = {"messages": [{"role": "user", "content": "How many eggs?"}], name: value}
    text = json.dumps(row)
    for data in (text, f"[{text}, {text}]", f"{text}\n{text}\n"):
        for conversation in il.read(data.encode()):
            assert ["How many eggs?"] == [message.text for message in conversation.messages]  # type: ignore[union-attr]
            assert [f"`{name}` beside the messages is not read; it may be the answer"] == [
                problem.message for problem in conversation.problems
            ]
    file = tmp_path / "row.json"
    file.write_text(text)
    shown = CliRunner().invoke(show, [str(file)])
    assert 0 == shown.exit_code and f"`{name}` beside the messages" in shown.stderr
    row["messages"].append({"role": "assistant", "content": "Twelve."})
    assert () == il.decode(row).problems


def test_a_torn_row_is_reported_beside_its_neighbour() -> None:
    """In the middle and at the end of a file with one conversation a line."""
    rows = LINES.splitlines()
    first, second = il.read(b"\n".join([rows[0], b'{"mess', rows[1], b'{"messages": [{"role"']))
    assert ([], [2, 4]) == ([p.line for p in first.problems], [p.line for p in second.problems])


def test_a_file_of_which_nothing_can_be_read_is_refused() -> None:
    """With its place, and never as no conversations."""
    for data in (b"", b"just some text", b'{"mess', b"\x00\xff" * 40, b'{"a": 1}\n{"b": 2}\n'):
        with pytest.raises(il.InterlinguaError):
            list(il.read(data))


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    """With the remedy."""
    with pytest.raises(il.InterlinguaError, match="a folder; read each of its files"):
        list(il.read(tmp_path))
    with pytest.raises(il.InterlinguaError, match="No such file"):
        list(il.read(tmp_path / "none.json"))


def test_a_zip_of_session_files_is_a_folder() -> None:
    """Each file has its own format; others beside them are left alone."""
    found = list(il.read(zipped(**{"a.jsonl": LINES, "b/c.jsonl": TRANSCRIPT, "picture.png": b"\x89PNG"})))
    assert [None, None, None, "T"] == [conversation.title for conversation in found]


def test_texts_zips_and_databases_have_readers(notes: None, tmp_path: Path) -> None:
    """A format says how its containers are read; each document is one conversation."""
    text = "# notes\n\none\n\ntwo"
    (conversation,) = il.read(text.encode())
    assert "notes" == il.detect(text).dialect  # type: ignore[union-attr]
    assert text.encode() == il.encode(conversation, "notes").bytes()
    assert [conversation, conversation] == list(il.read(zipped(**{"notes.md": text.encode(), "b.md": text.encode()})))
    path = tmp_path / "notes.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE notes (body TEXT)")
        database.execute("INSERT INTO notes VALUES (?)", (text,))
    database.close()
    before = path.read_bytes()
    assert [conversation] == list(il.read(path)) == list(il.read(before)) == list(il.read(gzip.compress(before)))
    assert path.read_bytes() == before


def test_what_is_in_the_log_of_a_database_is_read(notes: None, tmp_path: Path) -> None:
    """A running program has not written it to the file yet."""
    path = tmp_path / "notes.db"
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE notes (body TEXT)")
    database.execute("INSERT INTO notes VALUES ('# notes\n\none')")
    database.commit()
    assert 1 == len(list(il.read(path)))
    database.close()


def test_a_database_can_only_be_read(notes: None, tmp_path: Path) -> None:
    """A view in the place of a table could run any query."""
    path = tmp_path / "bad.db"
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE VIEW notes AS WITH RECURSIVE n(body) AS (SELECT 1 UNION ALL SELECT body FROM n) SELECT * FROM n"
        )
    database.close()
    with pytest.raises(il.InterlinguaError):
        list(il.read(path))


HOSTILE = {
    "a bomb": (zipped(**{"a.jsonl": b"0" * (1 << 26)}), "more than 16 MB"),
    "a path": (zipped(**{"../a.jsonl": LINES}), "leads out of the archive"),
    "cut": (zipped(**{"a.jsonl": LINES})[:-30], "damaged zip"),
    "nothing in it": (zipped(), "no file in this zip"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_zip_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what it unpacks to, not by what it claims; nothing is written anywhere."""
    data, message = HOSTILE[name]
    documents = importlib.import_module("interlingua.conversion.sources").documents
    monkeypatch.setattr(documents, "__kwdefaults__", {**documents.__kwdefaults__, "limit": 1 << 24})
    with pytest.raises(il.InterlinguaError, match=message):
        list(il.read(data))


def test_members_of_a_zip_may_be_larger_together_than_one_may_be() -> None:
    """Evaluation logs have a member for each sample, which are read one after the other."""
    noise = random.Random(0).randbytes(900_000)
    members = Members(io.BytesIO(zipped(**{f"{at}.json": noise for at in range(5)})), "x", 1 << 20)
    assert [noise] * 5 == [members[name] for name in members]
    bomb = Members(io.BytesIO(zipped(**{f"{at}.json": bytes(900_000) for at in range(9)})), "x", 1 << 20)
    with pytest.raises(il.InterlinguaError, match="unpacks to more than"):
        [bomb[name] for name in bomb]
    with pytest.raises(il.InterlinguaError, match="unpacks to more than"):
        Members(io.BytesIO(zipped(**{"a.json": noise + noise})), "x", 1 << 20)["a.json"]


def test_members_packed_with_zstd_are_read() -> None:
    """Evaluation logs are, and Python reads them from 3.14 on."""
    out = io.BytesIO()
    packed = zstandard.ZstdCompressor().compress(LINES)
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.jsonl", packed)
    data = out.getvalue()
    for at, header in ((8, b"PK\x03\x04"), (10, b"PK\x01\x02")):  # the method stands in both headers
        place = data.index(header) + at
        data = data[:place] + (93).to_bytes(2, "little") + data[place + 2 :]
    assert 3 == len(list(il.read(data)))


def test_what_a_program_put_in_goes_through_a_transcript() -> None:
    """And to a wire as any message of the user, with a note of its own kind."""
    message = il.UserMessage(content="<context/>", origin="program")
    conversation = il.Conversation(entries=(il.Entry(message=message),), title="T", usage=il.Usage.of(1, 2))
    assert conversation == il.decode(il.encode(conversation, "transcript").bytes(), "transcript")
    for wire in ("anthropic-messages", "openai-completions"):
        encoded = il.encode(conversation, wire)
        assert "<context/>" == encoded.body["messages"][0]["content"]
        assert {"$.title", "$.usage", "$.messages[0].origin"} <= {
            loss.path for loss in encoded.losses if loss.severity == "record"
        }


WIRE = Path(__file__).parent / "wire"
SIDECHAIN = [
    {"uuid": "u", "parentUuid": None, "type": "user", "message": {"role": "user", "content": "How many?"}},
    {
        "uuid": "a",
        "parentUuid": "u",
        "type": "assistant",
        "message": {
            "id": "m1",
            "type": "message",
            "role": "assistant",
            "model": "claude-a",
            "content": [{"type": "tool_use", "id": "t1", "name": "Task", "input": {"prompt": "Count them."}}],
            "usage": {"input_tokens": 5, "output_tokens": 2},
        },
    },
    {
        "uuid": "x",
        "parentUuid": None,
        "isSidechain": True,
        "type": "user",
        "message": {"role": "user", "content": "Count them."},
    },
    {
        "uuid": "y",
        "parentUuid": "x",
        "isSidechain": True,
        "type": "assistant",
        "message": {
            "id": "m2",
            "type": "message",
            "role": "assistant",
            "model": "claude-b",
            "content": [{"type": "text", "text": "12 eggs"}],
            "usage": {"input_tokens": 7, "output_tokens": 3},
        },
    },
    {
        "uuid": "r",
        "parentUuid": "a",
        "type": "user",
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "12"}]},
    },
]


@pytest.mark.parametrize("name", ["claude-code", "copilot-cli/events.jsonl", "atif/sub_agent.json"])
def test_sub_agents_are_conversations_of_their_own_when_asked_for(name: str) -> None:
    """Each names the call that started it; without being asked a file is one conversation, and comes back as it was."""
    lines = b"".join(json.dumps({**line, "sessionId": "s"}).encode() + b"\n" for line in SIDECHAIN)
    data = lines if name == "claude-code" else (WIRE / name).read_bytes()
    (alone,) = il.read(data)
    parent, agent = il.read(data, subagents=True)
    assert alone == parent
    origin = agent.extra["interlingua"]["spawnedBy"]
    calls = {call.id: entry.id for entry in parent.path() for call in getattr(entry.message, "tool_calls", ())}
    assert origin["callId"] in calls
    own = {entry.id for entry in agent.entries}
    assert own and own.isdisjoint(entry.id for entry in parent.path())
    assert agent.messages and agent.messages[-1].text not in [message.text for message in parent.messages]
    session = json.loads(il.encode(agent, "transcript").bytes().splitlines()[0])
    assert origin == session["spawnedBy"]


def test_a_sub_agent_s_own_file_is_one_conversation() -> None:
    """Newer versions of Claude Code write each into a file of its own: nothing in it is beside the path."""
    lines = b"".join(json.dumps({**line, "sessionId": "s"}).encode() + b"\n" for line in SIDECHAIN[2:4])
    (agent,) = il.read(lines, subagents=True)
    assert ["Count them.", "12 eggs"] == [message.text for message in agent.messages]


SAMPLES = [p for p in sorted(WIRE.glob("*/*.json*")) if p.parent.name in FORMATS and p.suffix in (".json", ".jsonl")]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_file_comes_back_through_a_transcript(path: Path) -> None:
    """Lines that are no messages keep their ids there, too; and every entry can be a line of a session."""
    conversations = list(il.read(path, path.parent.name))
    assert conversations
    for conversation in conversations:
        kept = il.decode(il.encode(conversation, "transcript").bytes(), "transcript")
        name = path.parent.name
        assert il.encode(conversation, name).body == il.encode(kept, name).body
        assert all(encode_line(entry) for entry in conversation.entries if not is_aside(entry))


def _claude(folder: Path, child: str, agent: str | None) -> Path:
    """A session of Claude Code, with its sub-agent in a file of its own; `agent` is named by the result, if it is."""
    lines: list[dict[str, Any]] = [{**line, "sessionId": "s-1", "isSidechain": False} for line in SIDECHAIN]
    other = {**lines[0], "uuid": "x", "sessionId": "s-2", "isSidechain": True, "agentId": "b7"}
    if agent is not None:
        lines[-1]["toolUseResult"] = {"agentId": agent, "content": []}
        lines[2]["message"] = {"role": "user", "content": "Other words."}
    write_lines(folder / "s-1.jsonl", [*lines[:2], lines[-1]])
    write_lines(folder / child, [{**line, "isSidechain": True, "agentId": "a9"} for line in lines[2:-1]])
    write_lines(folder / "agent-other.jsonl", [other])  # of another session
    return folder / "s-1.jsonl"


def _codex(folder: Path, child: str) -> Path:
    def rollout(id: str, source: Any, *items: dict[str, Any]) -> list[dict[str, Any]]:
        meta = {"id": id, "cwd": "/p", "cli_version": "0.140.0", "originator": "codex", "source": source}
        return [
            {"timestamp": "2026-01-01T00:00:00.000Z", "type": kind, "payload": payload}
            for kind, payload in [("session_meta", meta), *(("response_item", item) for item in items)]
        ]

    asked = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "How many eggs?"}]}
    call = {"type": "function_call", "name": "spawn_agent", "arguments": '{"message":"Count them."}', "call_id": "c1"}
    named = {"type": "function_call_output", "call_id": "c1", "output": '{"agent_id":"t-2"}'}
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "12 eggs"}]}
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": "t-1", "depth": 1}}}
    write_lines(folder / "rollout-1-t-1.jsonl", rollout("t-1", "cli", asked, call, named))
    write_lines(folder / child, rollout("t-2", spawn, answer))
    write_lines(folder / "rollout-3-t-3.jsonl", rollout("t-3", "cli", asked))
    return folder / "rollout-1-t-1.jsonl"


def _gemini(folder: Path) -> Path:
    def log(id: str, kind: str, text: str) -> list[dict[str, Any]]:
        header = {"sessionId": id, "projectHash": "p", "startTime": "2026-01-01T00:00:00.000Z", "kind": kind}
        return [header, {"id": "m", "timestamp": "2026-01-01T00:00:00.000Z", "type": "gemini", "content": text}]

    write_lines(folder / "session-1.jsonl", log("g-1", "main", "I ask."))
    write_lines(folder / "g-1" / "session-2.jsonl", log("g-2", "subagent", "12 eggs"))
    return folder / "session-1.jsonl"


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    ("write", "origin"),
    [
        (
            lambda at: _claude(at, "s-1/subagents/agent-a9.jsonl", "a9"),
            {"session": "s-1", "entry": "a", "callId": "t1"},
        ),
        (lambda at: _claude(at, "agent-a9.jsonl", None), {"session": "s-1", "entry": "a", "callId": "t1"}),
        (lambda at: _codex(at / "01" / "31", "../../01/30/rollout-2-t-2.jsonl"), {"session": "t-1", "callId": "c1"}),
        (lambda at: _codex(at / "all", "rollout-2-t-2.jsonl"), {"session": "t-1", "callId": "c1"}),
        (_gemini, {"session": "g-1"}),
    ],
    ids=["Claude Code", "Claude Code before 2.1", "Codex by day", "Codex in one folder", "Gemini CLI"],
)
def test_sub_agents_in_files_of_their_own_follow_the_session_that_started_them(
    tmp_path: Path, write: Any, origin: dict[str, str]
) -> None:
    """Only its own, each once, with the call where the session tells it; and none without being asked."""
    path = write(tmp_path)
    (alone,) = il.read(path)
    parent, agent = il.read(path, subagents=True)
    assert alone == parent
    assert (origin, "12 eggs") == (agent.extra["interlingua"]["spawnedBy"], agent.messages[-1].text)


def test_a_session_of_opencode_names_the_one_that_started_it() -> None:
    """An export is one session; its parent is another export, or in the same database."""
    message = {"info": {"id": "m", "role": "user"}, "parts": [{"id": "p", "type": "text", "text": "Count them."}]}
    data = json.dumps({"info": {"id": "ses_2", "parentID": "ses_1", "title": "T"}, "messages": [message]}).encode()
    (agent,) = il.read(data, subagents=True)
    assert {"session": "ses_1"} == agent.extra["interlingua"]["spawnedBy"]
    assert json.loads(data) == il.encode(agent, "opencode").body


def test_a_sub_agent_that_cannot_be_read_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With a line in the log; the session that started it is read all the same."""
    path = _claude(tmp_path, "s-1/subagents/agent-a9.jsonl", "a9")
    (tmp_path / "s-1" / "subagents" / "agent-a9.jsonl").write_text("{torn")
    assert 1 == len(list(il.read(path, subagents=True)))
    assert "agent-a9.jsonl: a sub-agent that cannot be read" in caplog.text


@pytest.mark.parametrize("frozen", [True, False])
def test_large_files_leave_alone_what_a_program_has_frozen(frozen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else is frozen by reading; the garbage that lies about is found after some of them."""
    monkeypatch.setattr(detection, "_MANY_VALUES", 300)
    lines = TRANSCRIPT + b'{"role":"user","content":[{"type":"text","text":"Hi"}]}\n' * 400
    if frozen:
        gc.freeze()
    before, full = gc.get_freeze_count(), gc.get_stats()[2]["collections"]
    try:
        for _ in range(17):
            assert 401 == len(next(il.read(lines)).entries)
        assert (before > 0) == frozen == (gc.get_freeze_count() > 0)
        assert full < gc.get_stats()[2]["collections"]
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_as_it_was_after_a_large_file(on: bool) -> None:
    """Whether the file can be read or not, and whoever turned the collector off."""
    lines = TRANSCRIPT + b'{"role":"user","content":"Hi"}\n' * 500
    (gc.enable if on else gc.disable)()
    try:
        assert 501 == len(next(il.read(lines)).entries)
        assert on == gc.isenabled()
        with pytest.raises(il.InterlinguaError):
            il.decode(lines + b'{"role":"user","content":3}\n' * 2, "transcript")
        assert on == gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ["chatgpt-export", "claude-web-export"])
def test_a_zipped_export_is_read_one_conversation_at_a_time(name: str) -> None:
    """However large its file is: what follows the conversation at hand is not unpacked yet."""
    text = "x" * 300_000
    node = {"id": "a", "message": {"author": {"role": "user"}, "content": {"content_type": "text", "parts": [text]}}}
    one = {
        "chatgpt-export": {"title": "T", "mapping": {"a": {**node, "parent": None, "children": []}}},
        "claude-web-export": {"uuid": "1", "name": "T", "chat_messages": [{"sender": "human", "text": text}]},
    }[name]
    data = zipped(**{"conversations.json": json.dumps([one] * 20).encode() + b"torn"})
    conversations = il.read(data)
    assert ("T", text) == (next(conversations).title, next(conversations).messages[0].text)
    rest = list(conversations)
    assert (18, 1) == (len(rest), len(rest[-1].problems))


@pytest.mark.parametrize("decoded", [False, True])
def test_a_session_file_beyond_the_limit_is_refused_as_a_whole(tmp_path: Path, decoded: bool) -> None:
    """Its first lines are not taken for all of it."""
    line = {"type": "user", "sessionId": "s", "parentUuid": None, "message": {"role": "user", "content": "x"}}
    file = tmp_path / "session.jsonl"
    file.write_text("".join(json.dumps({**line, "uuid": str(at)}) + "\n" for at in range(9)))
    for limit, count in ((file.stat().st_size, 1), (file.stat().st_size - 1, 0)):
        problems: list[SourceProblem] = []
        found = list(documents(Source(file), None, problems, limit=limit, decoded=decoded))
        assert (count, 1 - count) == (len(found), len(problems))
        assert all("larger than" in problem.message for problem in problems)


def test_an_array_whose_first_conversations_are_large_is_split() -> None:
    """Memory is bounded by the largest conversation, wherever it is in the file."""
    chat = {
        "chat": {"title": "T", "history": {"messages": {"u": {"id": "u", "role": "user", "content": "x" * (3 << 20)}}}}
    }
    row = {"messages": [{"role": "user", "content": "x" * (3 << 20)}]}
    for value in (chat, row):
        data = json.dumps([value] * 4).encode()
        assert look(io.BufferedReader(io.BytesIO(data)), None).kind == "array"
        assert len(list(il.read(data))) == 4


def test_chats_in_a_database_of_cursor_are_read_one_at_a_time() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE cursorDiskKV (key TEXT, value TEXT)")
    connection.execute("CREATE TABLE ItemTable (key TEXT, value TEXT)")
    chat = json.dumps({"conversation": [{"type": 1, "text": "How many?"}]})
    connection.executemany("INSERT INTO cursorDiskKV VALUES (?, ?)", [(f"composerData:{n}", chat) for n in range(9)])
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    read = FORMATS["cursor"].database
    assert read is not None
    chats = iter(read(connection) or ())
    assert next(chats)["composer"]["composerId"] == "0"
    assert 1 == sum("bubbleId:" in statement for statement in statements)
    assert len(list(chats)) == 8


OBJECTS = {name: form.array for name, form in sorted(FORMATS.items()) if form.array is not None}


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("name", OBJECTS)
def test_a_large_object_around_an_array_is_read_one_conversation_at_a_time(
    name: str, indent: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if it were read as a whole; also with keys after the array, and with the names of arrays in texts."""
    outer, _, key = OBJECTS[name].rpartition(".")
    samples = (json.loads(path.read_text("utf-8")) for path in sorted((WIRE / name).glob("*.json")))
    holder = value = next(sample for sample in samples if key in (sample[outer] if outer else sample))
    if outer:
        holder = value[outer]
    one = holder[key][0]
    holder[key] = [one, {**one, "note": "[{"}, one]
    value = {"note": {key: [f'"{key}": [']}, **value, "after": {key: [1]}}
    path = tmp_path / "export.json"
    path.write_text("\ufeff" + json.dumps(value, indent=indent), "utf-8")
    whole = list(il.read(path))
    monkeypatch.setattr(sources, "LARGE_OBJECT", 1)
    with path.open("rb") as file:
        assert look(file, None).kind == "object"
    assert whole == list(il.read(path)) == list(il.read(path, name)) and len(whole) == 3
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(il.InterlinguaError):
        list(il.read(path))


def _merged(values: list[Any]) -> Any:
    """One document of several: their lists follow each other, and their objects have the fields of all."""
    if isinstance(values[0], list):
        return [item for value in values for item in value]
    if not isinstance(values[0], dict):
        return values[-1]
    keys = dict.fromkeys(key for value in values for key in value)
    return {key: _merged([value[key] for value in values if key in value]) for key in keys}


# Samples with the names of one conversation in them.
RECORDS = {
    "anything-llm/export.json": ["Eggs in the basket"],
    "chatbox/export.json": ["s1"],
    "cherry-studio/data.json": ["t1", *(f"m{at}" for at in range(9)), *(f"b{at}" for at in range(9))],
    "langfuse/generation.json": [],
    "llama-index/chat_store.json": ["user1"],
    "llm-logs/logs.json": ["01a", "01b", "01c"],
    "lobe-chat/export.json": ["msg_1", "msg_2", "msg_3", "msg_4", "tpc_1", "ssn_1", "agt_1"],
    "lobe-chat/older.json": ["m1", "m2", "m3", "m4", "t1", "s1"],
    "oasst/messages.json": ["m1", "m2", "m3"],
    "otel/openinference.json": ["t"],
    "otel/otlp.json": ["5b8efff798038103d269b633813fc60c"],
}


def many(sample: str, count: int, question: str) -> Any:
    """A document with a sample's conversation several times, each with names of its own."""
    values = []
    for at in range(count):
        text = (WIRE / sample).read_text("utf-8").replace("How many", question)
        for name in RECORDS[sample]:
            text = text.replace(f'"{name}"', f'"{name}-{at}"').replace(f'"session:{name}"', f'"session:{name}-{at}"')
        value = json.loads(text)
        values.append({"data": [value, {"type": "SPAN", "traceId": "t"}]} if "langfuse" in sample else value)
    return _merged(values)


def _lines(values: list[Any]) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def _one_scope(value: Any) -> Any:
    """A trace whose resource and scope name themselves once."""
    first = value["resourceSpans"][0]
    spans = [one["scopeSpans"][0]["spans"] for one in value["resourceSpans"]]
    return {"resourceSpans": [{**first, "scopeSpans": [{"scope": {}, "spans": _merged(spans)}]}]}


def _older_sessions(value: Any) -> Any:
    return {"chat-sessions": [one for key, one in value.items() if key.startswith("session:")]}


APART: dict[str, tuple[str, Any]] = {
    **{sample: (sample, json.dumps) for sample in RECORDS},
    "langfuse, a list": ("langfuse/generation.json", lambda value: json.dumps(value["data"])),
    "chatbox, older": ("chatbox/export.json", lambda value: json.dumps(_older_sessions(value))),
    "oasst, lines": ("oasst/messages.json", _lines),
    "otel, lines of spans": ("otel/openinference.json", _lines),
    "otel, lines": (
        "otel/otlp.json",
        lambda value: _lines([{"resourceSpans": [one]} for one in value["resourceSpans"]]),
    ),
    "otel, one scope": ("otel/otlp.json", lambda value: json.dumps(_one_scope(value))),
    "otel, indented": ("otel/otlp.json", lambda value: json.dumps(value, indent=1)),
}


def apart(shape: str, count: int, question: str = "How many") -> bytes:
    sample, write = APART[shape]
    text = write(many(sample, count, question))
    return text if isinstance(text, bytes) else text.encode()


@pytest.mark.parametrize("shape", APART)
def test_conversations_whose_records_stand_apart_are_read_one_at_a_time(
    shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the file were read as a whole; packed, too."""
    name = APART[shape][0].partition("/")[0]
    path = tmp_path / "export.json"
    path.write_bytes(apart(shape, 3))
    whole = list(il.read(path))
    assert len(whole) == 3
    monkeypatch.setattr(sources, "LARGE_OBJECT", 1)
    with path.open("rb") as file:
        found = look(file, None)
        assert found.kind == "parts" and found.form is not None and found.form.name == name
    assert whole == list(il.read(path)) == list(il.read(path, name))
    assert (
        whole == list(il.read(b"\xef\xbb\xbf" + path.read_bytes())) == list(il.read(gzip.compress(path.read_bytes())))
    )
    assert [il.encode(one, name).body for one in whole] == [il.encode(one, name).body for one in il.read(path)]
    path.write_bytes(apart(shape, 1))
    with path.open("rb") as file:
        assert look(file, None).kind != "parts"
    path.write_bytes(apart(shape, 3)[:-60])
    try:
        found_problems = [problem for one in il.read(path) for problem in one.problems]
    except il.InterlinguaError:
        return
    assert found_problems


CONVERT = (convert, ["-t", "openai-completions", "-j", "1"])
COMMANDS: list[tuple[Any, list[str]]] = [
    (convert, ["-t", "lobe-chat", "-j", "1"]),
    (show, ["--json"]),
    (check_command, []),
    (detect_command, []),
]


@pytest.mark.parametrize(
    ("shape", "command", "given"),
    [*((shape, *CONVERT) for shape in APART), *(("lobe-chat/export.json", *way) for way in COMMANDS)],
)
def test_memory_does_not_grow_with_their_number(
    shape: str, command: Any, given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the places of the records at most."""
    for module, name, value in ((sources, "LARGE_OBJECT", 1), (large_sessions, "LARGE", 1), (bulk, "PIECE", 1)):
        monkeypatch.setattr(module, name, value)
    for module, name, value in (
        (arrays, "CHUNK", 1 << 14),
        (sources, "CHUNK", 1 << 14),
        (arrays, "_MAX_OUTLINE", 1 << 17),
    ):
        monkeypatch.setattr(module, name, value)
    peaks, sizes = [], []
    for count in (2, 10, 40):  # the first for what is loaded once
        path = tmp_path / f"{count}.json"
        path.write_bytes(apart(shape, count, 500 * "How many words are in a text "))
        sizes.append(path.stat().st_size)
        gc.collect()
        tracemalloc.start()
        out = path.with_suffix(".out").open("w")
        with out, contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            command.main([str(path), *given], standalone_mode=False)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < peaks[1] + 0.5 * (sizes[2] - sizes[1])


@pytest.mark.parametrize("sample", ["langchain/messages.json", "langchain/state.json"])
def test_a_list_of_what_is_also_read_entry_by_entry_is_converted_in_pieces(
    sample: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as one session, whose results would all be in memory."""
    monkeypatch.setattr(large_sessions, "LARGE", 1)
    path = tmp_path / "lists.json"
    one = (WIRE / sample).read_bytes()
    path.write_bytes(b"[" + b",".join([one] * (3 * (1 << 20) // len(one))) + b"]")
    task = bulk.PieceTask(None, "openai-completions", None, False, 1 << 30)
    assert {"array"} == {piece.kind for piece in bulk.pieces(Source(path), task)}


def test_a_file_that_is_too_large_for_one_body_names_only_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that read whole files (an import, the canvas) have no option for the limit."""
    monkeypatch.setattr(sources, "DEFAULT_LIMIT", 1 << 20)
    path = tmp_path / "x.json"
    path.write_bytes(b" " * (1 << 20))
    assert path.read_bytes() == sources.read_all(Source(path))
    path.write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(SourceError, match=r"larger than 1 MB; split it$"):
        sources.read_all(Source(path))


def test_a_chat_beyond_the_limit_is_refused_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the chat and the remedy."""
    monkeypatch.setattr(sources, "LARGE_OBJECT", 1)
    monkeypatch.setattr(large_sessions, "LARGE", 1)
    value = many("lobe-chat/export.json", 3, "How many")
    value["data"]["messages"][0]["content"] = "x" * (1 << 20)
    path = tmp_path / "export.json"
    path.write_bytes(json.dumps(value).encode())
    with pytest.raises(SystemExit):
        convert.main([str(path), "-t", "openai-completions", "--max-size", "1"])
    done = capsys.readouterr()
    assert len(done.out.splitlines()) == 2
    assert "export.json: 1 MB of records in one conversation, tpc_1-0: more than 1 MB; split it" in done.err
    assert "--max-size" in done.err
    path.write_bytes(
        json.dumps([{"messages": [{"role": "user", "content": "x" * (size << 19)}]} for size in (1, 3, 1, 1)]).encode()
    )
    with pytest.raises(SystemExit):
        convert.main([str(path), "-t", "openai-completions", "--max-size", "1"])
    assert "export.json:2: a conversation of more than 1 MB; raise --max-size" in capsys.readouterr().err


def test_topics_of_a_zipped_backup_are_read_one_at_a_time() -> None:
    """Cherry Studio zips its backups; a `data.json` of another program is none."""
    data = apart("cherry-studio/data.json", 3)
    assert list(il.read(data)) == list(il.read(zipped(**{"data.json": data})))
    other = json.dumps([ROW, ROW]).encode()
    assert len(list(il.read(zipped(**{"data.json": other, "rows.jsonl": LINES})))) == 5


def test_rows_with_such_an_array_are_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "LARGE_OBJECT", 1)
    row = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yes"}]}
    path = tmp_path / "rows.jsonl"
    path.write_bytes(json.dumps(row).encode() + b"\n" + json.dumps(row).encode() + b"\n")
    with path.open("rb") as file:
        assert look(file, None).kind == "lines"
    assert len(list(il.read(path))) == 2


@pytest.mark.parametrize("size", [1, 1 << 40])
@pytest.mark.parametrize("name", ["qwen-code", "claude-code", "codex-cli", "gemini-cli", "openclaw"])
def test_objects_that_share_a_line_are_read(
    name: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program lost the line ends between them: some, or all. Also where the file is read entry by entry."""
    monkeypatch.setattr(large_sessions, "LARGE", size)
    sample = min((WIRE / name).glob("*.jsonl"))
    lines = sample.read_bytes().splitlines()
    (expected,) = il.read(sample)
    for data in (b"".join(lines), b" ".join(lines), b"\n".join([lines[0], b"".join(lines[1:3]), *lines[3:]])):
        path = tmp_path / "s.jsonl"
        path.write_bytes(data)
        assert list(il.read(path)) == [expected]
        shown = CliRunner().invoke(show, [str(path), "--json"])
        assert shown.exit_code == 0 and json.loads(shown.stdout) == il.encode(expected, "interlingua").body


def test_a_torn_object_before_another_is_a_problem() -> None:
    """Only lines that are valid as a whole are divided."""
    lines = (WIRE / "qwen-code" / "session.jsonl").read_bytes().splitlines()
    (found,) = il.read(b"\n".join([*lines[:2], lines[2][:20] + lines[3]]))
    assert [3] == [problem.line for problem in found.problems]


@pytest.mark.parametrize("line", [b"{}[]", b"{} x", b"{}{", b"{}{]}", b"}{", b'{"a":NaN}{}'])
def test_other_lines_are_not_divided(line: bytes) -> None:
    with pytest.raises(FormatError):
        jsontext.read_line(line)
