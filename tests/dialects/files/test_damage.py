"""Damaged files: whatever is wrong with them, they give conversations or one typed error."""

import importlib
import io
import json
import sqlite3
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlingua as il
from dialects.files.samples import WIRE
from interlingua.dialects import FORMATS
from interlingua.values.errors import InterlinguaError

DOCUMENTS = [path for name in sorted(FORMATS) for path in sorted(WIRE.glob(f"{name}/*.json*"))]
FILES = [path for name in sorted(FORMATS) for path in sorted(WIRE.glob(f"{name}/*"))]


@settings(max_examples=60)
@given(data=st.data())
def test_a_damaged_file_of_any_format_is_read_or_refused(data: st.DataObject) -> None:
    """Cut off, with bytes exchanged, or with a part missing: by detection, and in the words of its own format."""
    path = data.draw(st.sampled_from(FILES))
    body = bytearray(path.read_bytes())
    start = data.draw(st.integers(0, len(body)))
    stop = data.draw(st.one_of(st.just(len(body)), st.integers(start, min(start + 40, len(body)))))
    body[start:stop] = data.draw(st.binary(max_size=4) | st.sampled_from([b"", b"null", b"[]", b"{}", b'"']))
    for read in (lambda: list(il.read(bytes(body))), lambda: il.decode(bytes(body), path.parent.name)):
        try:
            read()
        except InterlinguaError as error:
            assert str(error)


ODD: list[Any] = [None, [], {}, "", "x", 0, -1, 1.5, True, 10**30, [None], [[]], [{}], {"a": None}, "9" * 50]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every object or list of a document, with each of its keys."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


@settings(max_examples=200)
@given(data=st.data())
def test_a_file_with_a_value_of_another_type_is_read_or_refused(data: st.DataObject) -> None:
    """Anywhere in it: a list for an id, a number for a text, nothing for an object."""
    path = data.draw(st.sampled_from(DOCUMENTS))
    lines = [json.loads(text) for text in path.read_text().splitlines()] if path.suffix == ".jsonl" else None
    document = json.loads(path.read_text()) if lines is None else lines
    holder, key = data.draw(st.sampled_from(list(places(document))))
    holder[key] = data.draw(st.sampled_from(ODD))
    body = json.dumps(document) if lines is None else "\n".join(map(json.dumps, document))
    for read in (lambda: list(il.read(body.encode())), lambda: [il.decode(body, path.parent.name)]):
        try:
            for conversation in read():
                il.encode(conversation, "anthropic-messages")
        except InterlinguaError as error:
            assert str(error)


def test_a_value_at_which_a_format_fails_is_not_divided_by_it() -> None:
    """Whatever a list holds, no format may fail on it while it is asked whose it is."""
    row = {"model": "m", "prompt": "Hi", "response": "Hello", "conversation_id": [], "id": {}, "datetime_utc": "x"}
    with pytest.raises(InterlinguaError):
        list(il.read(json.dumps([row, row]).encode()))


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


EXPORT = json.dumps([{"uuid": "1", "name": "Eggs", "chat_messages": [{"sender": "human", "text": "Hi"}]}]).encode()


@pytest.mark.parametrize(
    "members",
    [
        {"conversations.json": EXPORT[:-5]},
        {"../conversations.json": EXPORT},
        {"/conversations.json": EXPORT},
        {"conversations.json": b"3"},
        {"users.json": b"[]"},
    ],
)
def test_an_export_that_is_broken_or_leads_out_of_its_zip_is_refused(members: dict[str, bytes]) -> None:
    """With one typed error."""
    with pytest.raises(InterlinguaError):
        list(il.read(zipped(members)))


def test_an_export_counts_once_towards_the_limit_of_its_zip(tmp_path: Path) -> None:
    """Several formats look at the same member; a bomb is found out by what it unpacks to."""
    from interlingua.conversion.containers import Members, SourceError

    packed = zipped({"conversations.json": EXPORT, "bomb": b"0" * 10_000})
    members = Members(io.BytesIO(packed), "export.zip", len(EXPORT) + 100)
    assert [len(members["conversations.json"]) for _ in range(5)] == [len(EXPORT)] * 5
    with pytest.raises(SourceError, match="unpacks to more than"):
        members["bomb"]


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE VIEW cursorDiskKV AS SELECT 'composerData:x' AS key, load_extension('x') AS value"],
        ["CREATE TABLE cursorDiskKV (key TEXT)"],
        ["CREATE TABLE cursorDiskKV (key, value)", "INSERT INTO cursorDiskKV VALUES ('composerData:x', x'ff00')"],
        ["CREATE TABLE cursorDiskKV (key, value)", "INSERT INTO cursorDiskKV VALUES (3, '{}')"],
        ["CREATE VIRTUAL TABLE cursorDiskKV USING fts5(key, value)"],
    ],
)
def test_a_hostile_database_is_refused_or_empty(tmp_path: Path, statements: list[str]) -> None:
    """A view instead of a table, missing columns, values of other types: nothing runs, nothing is made up."""
    path = tmp_path / "state.vscdb"
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    before = path.read_bytes()
    try:
        assert list(il.read(path)) == []
    except InterlinguaError as error:
        assert str(error)
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["VIRTUAL", "STORED"])
def test_a_database_with_computed_columns_is_refused(tmp_path: Path, kind: str) -> None:
    """A few bytes could become any number of gigabytes; rows are not read at all."""
    path = tmp_path / "threads.db"
    connection = sqlite3.connect(path)
    computed = f"data TEXT AS (hex(zeroblob(1000))) {kind}"
    connection.execute(f"CREATE TABLE threads (id TEXT, updated_at TEXT, data_type TEXT, {computed})")
    connection.execute("INSERT INTO threads (id, updated_at, data_type) VALUES ('1', '2', 'json')")
    connection.commit()
    connection.close()
    for source in (path, path.read_bytes()):
        with pytest.raises(InterlinguaError, match="table 'threads' has a computed column"):
            list(il.read(source))


def test_a_database_that_is_cut_off_is_read_or_refused(tmp_path: Path) -> None:
    """Wherever it ends: what is still there, or a typed error."""
    path = tmp_path / "state.vscdb"
    chat = json.dumps({"conversation": [{"type": 1, "text": "How many eggs? " * 60}]})
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE cursorDiskKV (key TEXT, value TEXT)")
    rows = [(f"composerData:{n}", chat) for n in range(40)]
    connection.executemany("INSERT INTO cursorDiskKV VALUES (?, ?)", rows)
    connection.commit()
    connection.close()
    whole, refused = path.read_bytes(), 0
    assert len(list(il.read(whole))) == 40
    for size in range(100, len(whole), 3999):
        try:
            assert len(list(il.read(whole[:size]))) <= 40
        except InterlinguaError:
            refused += 1
    assert refused


CONTAINERS = {
    "chatgpt-export": ["conversations.json"],
    "claude-web-export": ["conversations.json", "users.json"],
    "cherry-studio": ["data.json"],
    "deepseek-export": ["conversations.json", "user.json"],
    "hugging-chat": ["conversations.json"],
    "inspect-ai": ["header.json", "samples/1_epoch_1.json"],
    "opencode": ["storage/session/p/ses_1.json", "storage/message/ses_1/msg_1.json", "storage/part/msg_1/prt_1.json"],
}
TABLES = {
    "adk": [
        "sessions (id, app_name, user_id, state)",
        "events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data, author, content)",
    ],
    "agents-sdk": ["agent_messages (id, session_id, message_data)"],
    "agno": ["agno_sessions (session_id, session_type, session_data, runs, created_at)"],
    "anything-llm": [
        "workspace_chats (id, workspaceId, prompt, response, include, thread_id, createdAt)",
        "workspaces (id, name)",
        "workspace_threads (id, name)",
    ],
    "amazon-q": ["conversations (key, value)", "conversations_v2 (key, value)"],
    "cursor": ["cursorDiskKV (key, value)", "ItemTable (key, value)", "blobs (id, data)", "meta (key, value)"],
    "goose": ["sessions (id, created_at)", "messages (id, session_id, content_json)"],
    "hermes": [
        "sessions (id, source, started_at)",
        "messages (id, session_id, role, content, tool_calls, tool_call_id)",
    ],
    "ollama-app": [
        "chats (id, title, created_at)",
        "messages (id, chat_id, role, content, thinking, model_name)",
        "tool_calls (id, message_id, function_name, function_arguments)",
        "attachments (id, message_id, filename, data)",
    ],
    "llm-logs": [
        "conversations (id, name)",
        "responses (id, model, prompt, response, conversation_id, datetime_utc)",
        "tool_calls (id, response_id)",
        "tool_results (id, response_id)",
        "threads (id, name)",
        "turns (id, thread_id, parent_message_hash, tip_message_hash, model, datetime_utc)",
        "messages (hash, parent_hash, role)",
        "parts (message_hash, position, type, text, payload)",
        "attachments (id, type, path, url, content)",
        "prompt_attachments (response_id, attachment_id)",
        "fragments (id, hash, content)",
        "prompt_fragments (response_id, fragment_id)",
    ],
    "open-webui": ["chat (id, user_id, title, chat, created_at, meta)"],
    "opencode": ["session (id, time_created)", "message (id, session_id)", "part (id, session_id)"],
    "promptfoo": ["eval_results (id, created_at, test_case, prompt, provider, response, error)"],
    "qodo": ["chat_threads (id, createdAt)", "chat_messages (messageID, threadID, createdAt, role, data, userInput)"],
    "zed": ["threads (id, data_type, data, updated_at)"],
}


def test_every_reader_of_zips_and_databases_is_attacked_here() -> None:
    """A new one joins these tables."""
    assert sorted(CONTAINERS) == sorted(name for name in FORMATS if FORMATS[name].archive is not None)
    assert sorted(TABLES) == sorted(name for name in FORMATS if FORMATS[name].database is not None)


@pytest.mark.parametrize("name", sorted(CONTAINERS))
@pytest.mark.parametrize("attack", ["bomb", "path", "absolute", "backslash", "cut", "values"])
def test_a_hostile_zip_is_refused_by_every_reader(
    name: str, attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bombs, paths that lead out, cut archives and values of other types: one typed error, and nothing is written."""
    members = dict.fromkeys(CONTAINERS[name], b"[[3, null]]")
    if attack == "bomb":
        members = dict.fromkeys(members, b" " * (1 << 22))
    prefix = {"path": "a/../../", "absolute": "/", "backslash": "..\\"}.get(attack, "")
    packed = zipped({prefix + member: data for member, data in members.items()})
    packed = packed[:-40] if attack == "cut" else packed
    documents = importlib.import_module("interlingua.conversion.sources").documents
    monkeypatch.setattr(documents, "__kwdefaults__", {**documents.__kwdefaults__, "limit": 1 << 20})
    monkeypatch.chdir(tmp_path)
    for dialect in (None, name):
        if attack == "values" and name == "opencode":  # whose files are looked at one by one
            assert [] == list(il.read(packed, dialect))
            continue
        with pytest.raises(InterlinguaError):
            list(il.read(packed, dialect))
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("name", sorted(TABLES))
@pytest.mark.parametrize("attack", ["view", "columns", "types", "endless"])
def test_a_hostile_database_is_refused_or_empty_for_every_reader(name: str, attack: str, tmp_path: Path) -> None:
    """Views, missing columns, values of other types and queries without an end: the file is not changed either."""
    path = tmp_path / "hostile.db"
    connection = sqlite3.connect(path)
    for table in TABLES[name]:
        title, columns = table.rstrip(")").split(" (")
        names = columns.split(", ")
        if attack == "view":
            made = ", ".join(f"load_extension('x') AS {column}" for column in names)
            connection.execute(f"CREATE VIEW {title} AS SELECT {made}")
        elif attack == "endless":
            made = ", ".join(f"n AS {column}" for column in names)
            counting = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)"
            connection.execute(f"CREATE VIEW {title} AS {counting} SELECT {made} FROM c")
        else:
            columns = names[0] if attack == "columns" else columns
            connection.execute(f"CREATE TABLE {title} ({columns})")
            marks = ", ".join("?" * len(columns.split(", ")))
            for value in (b"\xff\x00", 3, "composerData:x", None):
                given = [value] * len(columns.split(", "))
                connection.execute(f"INSERT INTO {title} VALUES ({marks})", given)
    connection.commit()
    connection.close()
    before = path.read_bytes()
    for dialect in (None, name):
        try:
            read = list(il.read(path, dialect))
        except InterlinguaError as error:
            assert str(error)
        else:
            texts = {text for one in read for message in one.messages if (text := getattr(message, "text", ""))}
            # A string is a prompt and an answer there.
            is_prompt = attack == "types" and name in ("llm-logs", "anything-llm")
            assert texts <= ({"composerData:x"} if is_prompt else set())
    assert before == path.read_bytes()
    assert [path] == list(tmp_path.iterdir())
