"""Chat programs and agents: NextChat, TypingMind, Chatbox, HuggingChat, Le Chat, gptme, Hermes, Zed, Gemini, llm, …"""

import functools
import json
import sqlite3
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
import zstandard

import interlingua as il
from dialects.files.samples import WIRE, outline, read, sample
from interlingua.dialects import FORMATS, dialect
from interlingua.dialects.files import reading, zed
from interlingua.dialects.residual import fields_of
from interlingua.values.errors import BadWire, InterlinguaError
from interlingua.values.messages import Citation

ASKED, CALLED, COUNTED, TWELVE = "user: How many eggs?", "assistant:  count()", "count -> 12", "assistant: Twelve."

PATHS = {
    "next-chat/backup.json": [ASKED, TWELVE],
    "typing-mind/export.json": [ASKED, CALLED, COUNTED, TWELVE],
    "chatbox/export.json": [ASKED, CALLED, 'count -> {"eggs":12}', TWELVE],
    "lobe-chat/older.json": [ASKED, CALLED, COUNTED, TWELVE],
    "lobe-chat/export.json": [ASKED, CALLED, COUNTED, TWELVE],
    "lobe-chat/shared.json": [ASKED, CALLED, COUNTED, TWELVE],
    "lobe-chat/topic.json": [ASKED, CALLED, COUNTED, TWELVE],
    "hugging-chat/conversations.json": [ASKED, TWELVE],
    "le-chat/chat.json": [ASKED, TWELVE],
    "gptme/conversation.jsonl": [
        ASKED,
        "assistant: ```shell\ncount eggs\n```",
        "program: Ran command: 12",
        TWELVE,
    ],
    "qodo/thread.json": [ASKED, CALLED, COUNTED, TWELVE],
    "hermes/session.json": [ASKED, CALLED, COUNTED, TWELVE],
    "hermes/session.jsonl": [ASKED, CALLED, COUNTED, TWELVE],
    "zed/thread.json": ["user: How many eggs?a dozen", CALLED, COUNTED, TWELVE],
    "zed/older.json": [
        "program: <context>a dozen</context>",
        ASKED,
        "assistant: I look. count()",
        COUNTED,
        TWELVE,
    ],
    "gemini-apps/MyActivity.json": [ASKED, "assistant: In the basket:\n- six white & six brown\nTwelve."],
    "llm-logs/logs.json": [ASKED, CALLED, COUNTED, TWELVE],
    "amazon-q/saved.json": [ASKED, "assistant: I look. count()", COUNTED, TWELVE],
    "agents-sdk/session.json": [ASKED, CALLED, COUNTED, TWELVE],
    "vibe/messages.jsonl": [
        ASKED,
        "program: <vibe_warning>Half of the budget is used.</vibe_warning>",
        CALLED,
        COUNTED,
        TWELVE,
    ],
    "vibe/session.json": [ASKED, CALLED, COUNTED, TWELVE],
    "adk/session.json": [ASKED, CALLED, COUNTED, TWELVE],
    "adk/served.json": [ASKED, CALLED, COUNTED, TWELVE],
    "semantic-kernel/history.json": [ASKED, CALLED, COUNTED, TWELVE],
    "semantic-kernel/dotnet.json": [ASKED, CALLED, COUNTED, TWELVE],
    "llama-index/chat_store.json": [ASKED, CALLED, COUNTED, TWELVE],
    "llama-index/older.json": [ASKED, TWELVE],
    "autogen/agent.json": [ASKED, CALLED, COUNTED, TWELVE],
    "autogen/run.json": [ASKED, CALLED, COUNTED, TWELVE],
    "autogen/team.json": [ASKED, CALLED, COUNTED, TWELVE],
    "autogen/result.json": [ASKED, CALLED, COUNTED, TWELVE],
    "smolagents/steps.json": [ASKED, CALLED, COUNTED, TWELVE],
    "dspy/history.json": [ASKED, CALLED, COUNTED, TWELVE],
    "dspy/call.json": [ASKED, TWELVE],
    "haystack/messages.json": [ASKED, CALLED, COUNTED, TWELVE],
    "haystack/older.json": [ASKED, CALLED, COUNTED, TWELVE],
    "ollama-app/chat.json": [ASKED, CALLED, COUNTED, TWELVE],
    "anything-llm/export.json": [ASKED, TWELVE],
    "big-agi/export.json": [ASKED, CALLED, COUNTED, TWELVE],
    "cherry-studio/data.json": [ASKED, CALLED, COUNTED, TWELVE],
    "letta/agents.json": [ASKED, CALLED, COUNTED, TWELVE],
    "letta/older.json": [
        'program: {"type": "heartbeat", "reason": "The time is up.", "time": "x"}',
        ASKED,
        CALLED,
        COUNTED,
        TWELVE,
    ],
    "promptfoo/output.json": [ASKED, CALLED, COUNTED, TWELVE],
    "tau-bench/results.json": [ASKED, CALLED, COUNTED, TWELVE],
    "langsmith/run.json": [ASKED, CALLED, COUNTED, TWELVE],
    "langsmith/graph.json": [ASKED, CALLED, COUNTED, TWELVE],
    "text-generation-webui/chat.json": [ASKED, CALLED, COUNTED, TWELVE],
    "text-generation-webui/older.json": ["assistant: Welcome.", ASKED, TWELVE],
    "agno/session.json": [ASKED, CALLED, COUNTED, TWELVE, "user: Thanks.", "assistant: Bye."],
    "jan/messages.jsonl": [ASKED, CALLED, COUNTED, TWELVE],
    "iflow/session.jsonl": [
        ASKED,
        "assistant: I look. count() count()",
        "count -> 6",
        "count -> 6",
        CALLED,
        COUNTED,
        TWELVE,
    ],
}
NAMES = sorted({name.partition("/")[0] for name in PATHS})


@pytest.mark.parametrize("name", PATHS)
def test_a_file_is_detected_read_and_returned(name: str) -> None:
    """By its content alone, with the messages that the program shows."""
    data = (WIRE / name).read_bytes()
    found = il.detect(data)
    assert found is not None and found.dialect == name.partition("/")[0]
    conversation = read(name)
    assert outline(conversation) == PATHS[name]
    body = il.encode(conversation, found.dialect).body
    assert (list(body) if name.endswith(".jsonl") else body) == sample(name)


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("wire", ["anthropic-messages", "openai-completions"])
def test_every_answered_call_keeps_its_result(name: str, wire: str) -> None:
    """On the wires of two providers."""
    conversation = read(name)
    body = json.dumps(il.encode(conversation, wire).body)
    results = [message for message in conversation.messages if isinstance(message, il.ToolResultMessage)]
    assert body.count("No result was recorded") == 0
    assert body.count('"tool_result"' if wire.startswith("anthropic") else '"role": "tool"') == len(results)


@pytest.mark.parametrize(
    ("name", "title", "model", "system"),
    [
        ("next-chat/backup.json", "Eggs in the basket", "gpt-4o", "You count things."),
        ("typing-mind/export.json", "Eggs in the basket", "gpt-4.1", "You count things."),
        ("chatbox/export.json", "Eggs in the basket", "GPT-4o", "You count things."),
        ("lobe-chat/older.json", "Eggs in the basket", "gpt-4o", "You count things."),
        ("lobe-chat/export.json", "Eggs in the basket", "claude-3-7-sonnet", "You count things."),
        ("lobe-chat/shared.json", None, None, "You count things."),
        ("lobe-chat/topic.json", "Eggs in the basket", "claude-3-7-sonnet", "You count things."),
        ("hugging-chat/conversations.json", "Eggs in the basket", "meta-llama/Llama-3.3-70B-Instruct", None),
        ("gptme/conversation.jsonl", None, None, "You count things."),
        ("qodo/thread.json", None, "Claude 3.7 Sonnet", None),
        ("hermes/session.json", None, "claude-sonnet-4-6", "You count things."),
        ("zed/thread.json", "Eggs in the basket", "claude-sonnet-4-6", None),
        ("zed/older.json", "Eggs in the basket", "claude-3-7-sonnet", None),
        ("llm-logs/logs.json", "Eggs in the basket", "gpt-4o", "You count things."),
        ("iflow/session.jsonl", None, "glm-4.7", None),
        ("amazon-q/saved.json", None, "claude-sonnet-4.5", None),
        ("vibe/session.json", "Eggs in the basket", None, "You count things."),
        ("semantic-kernel/history.json", None, "gpt-4o", "You count things."),
        ("semantic-kernel/dotnet.json", None, "gpt-4o", "You count things."),
        ("llama-index/chat_store.json", None, None, "You count things."),
        ("smolagents/steps.json", None, "gpt-4o", "You count things."),
        ("dspy/history.json", None, "openai/gpt-4o", "You count things."),
        ("haystack/messages.json", None, "gpt-4o", "You count things."),
        ("ollama-app/chat.json", "Eggs in the basket", "gpt-oss:20b", None),
        ("anything-llm/export.json", "Eggs in the basket", None, None),
        ("big-agi/export.json", "Eggs in the basket", "gpt-4o", "You count things."),
        ("cherry-studio/data.json", "Eggs in the basket", "gpt-4o", None),
        ("agno/session.json", "Eggs in the basket", "gpt-4o", "You count things."),
        ("jan/messages.jsonl", None, "jan-v1-4b", None),
        ("langsmith/run.json", None, "gpt-4o", "You count things."),
        ("promptfoo/output.json", None, "openai:gpt-4o", "You count things."),
        ("tau-bench/results.json", None, None, "You count things."),
        ("letta/agents.json", "Egg counter", "gpt-4o", "You count things."),
        ("letta/older.json", "Egg counter", "gpt-4o", "You count things."),
        ("text-generation-webui/chat.json", None, "qwen3-8b.gguf", None),
    ],
)
def test_title_model_and_system_prompt_are_read(name: str, title: Any, model: Any, system: Any) -> None:
    """Where the program stores them."""
    conversation = read(name)
    assert (conversation.title, conversation.messages[-1].model) == (title, model)
    assert conversation.system == (system or ("You count things." if name.startswith("hugging") else None))


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("typing-mind/export.json", il.Usage.of(30, 3)),
        ("chatbox/export.json", il.Usage.of(20, 8, cache_read=10)),
        ("lobe-chat/older.json", il.Usage.of(25, 8, cache_read=10, cache_write=5)),
        ("lobe-chat/export.json", il.Usage.of(20, 8, cache_read=10)),
        ("lobe-chat/topic.json", il.Usage.of(20, 8, cache_read=10)),
        ("gptme/conversation.jsonl", il.Usage.of(30, 5, cache_read=10)),
        ("llm-logs/logs.json", il.Usage.of(20, 5)),
        ("adk/session.json", il.Usage.of(20, 7, cache_read=10, reasoning=3)),
        ("semantic-kernel/history.json", il.Usage.of(30, 5)),
        ("autogen/run.json", il.Usage.of(30, 5)),
        ("smolagents/steps.json", il.Usage.of(30, 5)),
        ("big-agi/export.json", il.Usage.of(20, 8, cache_read=10)),
        ("cherry-studio/data.json", il.Usage.of(30, 5)),
        ("agno/session.json", il.Usage.of(20, 5, cache_read=10)),
        (
            "promptfoo/output.json",
            il.Usage.of(30, 5, reasoning=2, cost=il.Cost(total=0.000125)),
        ),
        ("langsmith/run.json", il.Usage.of(20, 5, cache_read=10, cost=il.Cost(total=0.000125))),
        ("jan/messages.jsonl", il.Usage.of(30, 5)),
    ],
)
def test_usage_is_counted_in_disjoint_buckets(name: str, usage: il.Usage) -> None:
    """The cached part is not in the input."""
    found = [one.usage for one in read(name).messages if isinstance(one, il.AssistantMessage) and one.usage]
    assert found[0] == usage


def test_a_thread_of_zed_states_its_usage() -> None:
    """For all of its requests."""
    assert read("zed/thread.json").usage == il.Usage.of(30, 8, cache_read=10)


@pytest.mark.parametrize(
    "name", ["hugging-chat/conversations.json", "le-chat/chat.json", "text-generation-webui/chat.json"]
)
def test_an_answer_that_was_written_anew_is_a_branch(name: str) -> None:
    """The path has the last one."""
    conversation = read(name)
    beside = [entry.message.text for entry in conversation.entries if entry not in conversation.path()]
    assert beside == ["Ten."]


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("next-chat/backup.json", ("chat-next-web-store", "sessions")),
        ("typing-mind/export.json", ("data", "chats")),
        ("hugging-chat/conversations.json", ()),
        ("gemini-apps/MyActivity.json", ()),
    ],
)
def test_an_export_has_many_chats(name: str, places: tuple[str, ...]) -> None:
    """Each is read by itself; a chat alone is read too."""
    export = sample(name)
    chats = export
    for place in places:
        chats = chats[place]
    chats.append(chats[0])
    assert [outline(one) for one in il.read(json.dumps(export).encode())] == [PATHS[name]] * 2
    assert [outline(one) for one in il.read(json.dumps(chats[0]).encode())] == [PATHS[name]]
    with pytest.raises(BadWire, match="take one"):
        dialect(name.partition("/")[0]).decode(export)


@pytest.mark.parametrize(("name", "key"), [("lobe-chat/older.json", "state"), ("lobe-chat/export.json", "data")])
def test_every_topic_of_a_lobechat_export_is_a_chat(name: str, key: str) -> None:
    """With its own messages; what failed has no text, and messages without a topic are a chat of their session."""
    export = sample(name)
    failure = {"type": "OllamaBizError", "body": {"error": {"message": "Failed to fetch"}}}
    asked, failed = {"id": "x", "role": "user", "content": "Hi"}, {"id": "y", "role": "assistant", "content": "..."}
    export[key]["messages"] += [
        {**asked, "topicId": "t2", "createdAt": 1},
        {**failed, "topicId": "t2", "createdAt": 2, "error": failure},
        {**asked, "sessionId": "inbox", "createdAt": 3},
        {**asked, "sessionId": "inbox", "createdAt": 4, "role": "supervisor", "content": "Next"},
    ]
    export[key]["topics"].append({"id": "t2", "title": "Greeting"})
    eggs, greeting, inbox = il.read(json.dumps(export).encode())
    assert outline(eggs) == PATHS[name]
    assert [one.role for one in inbox.messages] == ["user", "lobe-chat:supervisor"]
    assert (greeting.title, outline(greeting)) == ("Greeting", ["user: Hi", "assistant: "])
    answer = greeting.messages[-1]
    assert (answer.stop_reason, answer.error_message) == ("error", "Failed to fetch")
    assert len(il.encode(greeting, "lobe-chat").body[key]["messages"]) == 2
    with pytest.raises(BadWire, match="take one"):
        dialect("lobe-chat").decode(export)


def test_the_database_of_qodo_holds_its_threads(tmp_path: Path) -> None:
    """Those with messages, each in the order of its rows; a text, a file and a command are shown."""
    with sqlite3.connect(tmp_path / "history.sqlite") as connection:
        connection.execute("CREATE TABLE chat_threads (id TEXT PRIMARY KEY, createdAt)")
        connection.execute(
            "CREATE TABLE chat_messages"
            " (messageID TEXT PRIMARY KEY, threadID, createdAt, role, data, modelLabel, command, userInput)"
        )
        connection.executemany("INSERT INTO chat_threads VALUES (?, ?)", [("b", 2), ("a", 1), ("empty", 3)])
        file = {"type": "code_implementation", "content": "1", "artifactAttributes": {"language": "js"}}
        for row in (
            ("9", "a", 5, "user", None, None, '{"command": "improve"}', "this"),
            ("1", "a", 5, "assistant", json.dumps([file]), "o3-mini", None, None),
            ("8", "b", 6, "user", None, None, '{"command": "chat"}', "Hi"),
            ("2", "b", 6, "assistant", json.dumps("Hello."), "o3-mini", None, None),
        ):
            connection.execute("INSERT INTO chat_messages VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    connection.close()
    first, second = il.read(tmp_path / "history.sqlite")
    assert outline(first) == ["user: /improve this", "assistant: ```js\n1\n```"]
    assert outline(second) == ["user: Hi", "assistant: Hello."]


def test_every_session_of_a_chatbox_export_is_read() -> None:
    """Sessions are keys of the export."""
    export = sample("chatbox/export.json")
    export["session:s2"] = {**export["session:s1"], "name": "Milk"}
    assert [one.title for one in il.read(json.dumps(export).encode())] == ["Eggs in the basket", "Milk"]


def test_a_zip_of_hugging_chat_is_read(tmp_path: Path) -> None:
    """As it is downloaded."""
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps(sample("hugging-chat/conversations.json")))
        archive.writestr("assistants.json", "[]")
    assert [outline(one) for one in il.read(path)] == [PATHS["hugging-chat/conversations.json"]]


def test_rows_of_llm_are_grouped_by_conversation() -> None:
    """The command prints the rows of all conversations."""
    rows = sample("llm-logs/logs.json")
    other = {**rows[0], "conversation_id": "x", "conversation_name": "Milk", "tool_calls": [], "response": "None."}
    found = list(il.read(json.dumps([other, *rows]).encode()))
    assert [(one.title, len(one.messages)) for one in found] == [("Milk", 2), ("Eggs in the basket", 4)]


# --- databases -------------------------------------------------------------------------------------------------------


def test_the_database_of_llm_is_read(tmp_path: Path) -> None:
    """Calls and results of tools stand in tables of their own."""
    path = tmp_path / "logs.db"
    rows = sample("llm-logs/logs.json")
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE conversations (id TEXT, name TEXT, model TEXT)")
        connection.execute("INSERT INTO conversations VALUES ('01c', 'Eggs in the basket', 'gpt-4o')")
        columns = ["id", "model", "prompt", "system", "response", "conversation_id", "datetime_utc", "input_tokens"]
        connection.execute(f"CREATE TABLE responses ({', '.join(columns)})")
        for row in rows:
            connection.execute(
                f"INSERT INTO responses VALUES ({','.join('?' * len(columns))})", [row[c] for c in columns]
            )
        connection.execute("CREATE TABLE tool_calls (id INTEGER, response_id, name, arguments, tool_call_id)")
        connection.execute("INSERT INTO tool_calls VALUES (1, '01a', 'count', '{\"of\":\"eggs\"}', 'c1')")
        connection.execute("CREATE TABLE tool_results (id INTEGER, response_id, name, output, tool_call_id)")
        connection.execute("INSERT INTO tool_results VALUES (1, '01b', 'count', '12', 'c1')")
    (conversation,) = il.read(path)
    assert (outline(conversation), conversation.title) == (PATHS["llm-logs/logs.json"], "Eggs in the basket")
    assert conversation.messages[1].tool_calls[0].arguments == {"of": "eggs"}


def _llm_database(connection: sqlite3.Connection, count: int) -> None:
    connection.execute("CREATE TABLE responses (id, model, prompt, response, conversation_id, datetime_utc)")
    connection.executemany(
        "INSERT INTO responses VALUES (?, 'm', 'Hi', ?, ?, ?)",
        ((f"{at}", "x" * 50_000, f"c{at % count}", f"2026-01-01T00:00:{at:05}") for at in range(2 * count)),
    )


def _agents_database(connection: sqlite3.Connection, count: int) -> None:
    connection.execute("CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id, message_data)")
    connection.executemany(
        "INSERT INTO agent_messages VALUES (?, ?, ?)",
        ((at + 1, f"c{at % count}", json.dumps({"role": "user", "content": "x" * 50_000})) for at in range(2 * count)),
    )


LONG = "x" * 30_000
_ASKED = {"role": "user", "content": LONG}
_PARTS = [{"type": "text", "text": LONG}]
# The tables of programs: their columns, and the rows of a conversation.
_TABLES: dict[str, dict[str, tuple[str, Any]]] = {
    "adk": {
        "sessions": ("app_name, user_id, id, state", lambda id: [("a", "u", id, json.dumps({"a": LONG}))]),
        "events": (
            "id, app_name, user_id, session_id, invocation_id, author, timestamp, content",
            lambda id: [
                (f"{id}{at}", "a", "u", id, "i", "user", at, json.dumps({"role": "user", "parts": [{"text": LONG}]}))
                for at in range(2)
            ],
        ),
    },
    "agno": {
        "eggs": (
            "session_id, session_type, runs, created_at",
            lambda id: [(id, "agent", json.dumps([{"run_id": "r", "messages": 2 * [_ASKED]}]), 1)],
        )
    },
    "anything-llm": {
        "workspace_chats": (
            "id, workspaceId, prompt, response, include, thread_id, createdAt",
            lambda id: [(at, 1, LONG, json.dumps({"text": LONG}), 1, id, at) for at in range(2)],
        )
    },
    "goose": {
        "sessions": ("id, working_dir, created_at, extension_data", lambda id: [(id, "/", id, LONG)]),
        "messages": (
            "id, session_id, role, content_json, created_timestamp",
            lambda id: [(at, id, "user", json.dumps(_PARTS), at) for at in range(2)],
        ),
    },
    "hermes": {
        "sessions": ("id, source, started_at, system_prompt", lambda id: [(id, "cli", 1, LONG)]),
        "messages": (
            "id, session_id, role, content, tool_call_id, tool_calls",
            lambda id: [(at, id, "user", "Hi", None, None) for at in range(2)],
        ),
    },
    "ollama-app": {
        "chats": ("id, title, created_at, browser_state", lambda id: [(id, "T", 1, LONG)]),
        "messages": (
            "id, chat_id, role, content, thinking, model_name",
            lambda id: [(at, id, "user", LONG, "", "m") for at in range(2)],
        ),
    },
    "opencode": {
        "session": ("id, title, time_created, summary_diffs", lambda id: [(id, "T", 1, LONG)]),
        "message": (
            "id, session_id, time_created, data",
            lambda id: [(f"{id}{at}", id, at, json.dumps({"role": "user"})) for at in range(2)],
        ),
        "part": (
            "id, message_id, session_id, data",
            lambda id: [(f"{id}{at}", f"{id}{at}", id, json.dumps(_PARTS[0])) for at in range(2)],
        ),
    },
    "promptfoo": {
        "eval_results": (
            "id, created_at, test_case, prompt, provider, response, error",
            lambda id: [(id, 1, "{}", json.dumps({"raw": LONG}), '"m"', json.dumps({"output": LONG}), None)],
        )
    },
    "crush": {
        "sessions": ("id, title, created_at, todos", lambda id: [(id, "T", 1, LONG)]),
        "messages": (
            "id, session_id, role, parts, created_at",
            lambda id: [(at, id, "user", json.dumps([{"type": "text", "data": _PARTS[0]}]), at) for at in range(2)],
        ),
    },
}  # fmt: skip


def _database(name: str) -> Any:
    def make(connection: sqlite3.Connection, count: int) -> None:
        for table, (columns, rows) in _TABLES[name].items():
            connection.execute(f"CREATE TABLE {table} ({columns})")
            marks = ", ".join("?" for _ in columns.split(","))
            for at in range(count):
                connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows(f"c{at}"))

    return make


@pytest.mark.parametrize(
    "make",
    [_llm_database, _agents_database, *map(_database, _TABLES)],
    ids=["llm-logs", "agents-sdk", *_TABLES],
)
def test_the_conversations_of_a_database_are_read_one_by_one(tmp_path: Path, make: Any) -> None:
    """Their rows alternate; the memory is that of a conversation."""
    peaks = []
    for count in (5, 20, 100):
        path = tmp_path / f"{count}.db"
        with sqlite3.connect(path) as connection:
            make(connection, count)
        tracemalloc.start()
        assert count == sum(len(one.messages) >= 2 for one in il.read(path))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < peaks[1] + 1_000_000


def test_the_database_of_hermes_is_read(tmp_path: Path) -> None:
    """With the title and the usage of each session."""
    path = tmp_path / "state.db"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE sessions (id, source, model, title, system_prompt, started_at REAL,"
            " input_tokens, output_tokens, cache_read_tokens, cache_write_tokens)"
        )
        connection.execute("INSERT INTO sessions VALUES ('s', 'cli', 'm1', 'Eggs', 'Count.', 1.5, 30, 8, 10, 0)")
        connection.execute("INSERT INTO sessions VALUES ('empty', 'cli', 'm1', '', '', 2.5, 0, 0, 0, 0)")
        connection.execute(
            "CREATE TABLE messages (id INTEGER, session_id, role, content, tool_call_id, tool_calls, tool_name,"
            " timestamp REAL, reasoning)"
        )
        calls = json.dumps(sample("hermes/session.json")["messages"][1]["tool_calls"])
        for row in (
            (1, "s", "user", "How many eggs?", None, None, None, 1767323045.5, None),
            (2, "s", "assistant", "", None, calls, None, 1767323046.5, "I count."),
            (3, "s", "tool", "12", "c1", None, "count", 1767323047.5, None),
            (4, "s", "assistant", "Twelve.", None, None, None, 1767323048.5, None),
        ):
            connection.execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    (conversation,) = il.read(path)
    assert outline(conversation) == PATHS["hermes/session.json"]
    assert (conversation.title, conversation.system, conversation.model.id) == ("Eggs", "Count.", "m1")
    assert conversation.usage == il.Usage.of(30, 8, cache_read=10)
    assert (conversation.messages[0].timestamp, conversation.messages[1].thinking) == (1767323045500, "I count.")


def threads(path: Path, *rows: tuple[str, bytes]) -> Path:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE threads (id TEXT, summary TEXT, updated_at TEXT, data_type TEXT, data BLOB)")
        for at, (kind, data) in enumerate(rows):
            connection.execute("INSERT INTO threads VALUES (?, 'Eggs', ?, ?, ?)", (str(at), str(at), kind, data))
    return path


def test_the_database_of_zed_is_read(tmp_path: Path) -> None:
    """Threads are compressed, in old databases plain; empty ones are left out."""
    new, old = ((WIRE / name).read_bytes() for name in ("zed/thread.json", "zed/older.json"))
    empty = b'{"title": "New Thread", "messages": [], "updated_at": ""}'
    path = threads(tmp_path / "t.db", ("zstd", zstandard.compress(new)), ("json", old), ("json", empty))
    assert [outline(one) for one in il.read(path)] == [PATHS["zed/thread.json"], PATHS["zed/older.json"]]


@pytest.mark.parametrize("data", [b"no zstd", zstandard.compress(b"{}" * 1000)[:20]])
def test_a_damaged_thread_of_zed_is_an_error(tmp_path: Path, data: bytes) -> None:
    """One of the package, that names the thread or the file."""
    with pytest.raises(InterlinguaError):
        list(il.read(threads(tmp_path / "t.db", ("zstd", data))))


def test_a_thread_of_zed_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes can become gigabytes."""
    monkeypatch.setattr(zed, "MAX_THREAD", 1000)
    with pytest.raises(InterlinguaError, match="more than 1,000 bytes"):
        list(il.read(threads(tmp_path / "t.db", ("zstd", zstandard.compress(b"{}" * 1000)))))


def test_a_compacted_thread_of_zed_goes_on_from_the_summary() -> None:
    """What came before stays in the tree."""
    body = sample("zed/thread.json")
    body["messages"][2:2] = [{"Compaction": {"Summary": "They asked for eggs."}}]
    conversation = dialect("zed").decode(body)
    assert outline(conversation) == ["program: They asked for eggs.", TWELVE]
    assert len(conversation.entries) == 5
    assert il.encode(conversation, "zed").body == body


def test_the_database_of_the_agents_sdk_is_read(tmp_path: Path) -> None:
    """Sessions in one table, in the order of their items."""
    path = tmp_path / "sessions.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE agent_sessions (session_id TEXT)")
        connection.execute("CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT)")
        for item in sample("agents-sdk/session.json")["items"]:
            connection.execute(
                "INSERT INTO agent_messages (session_id, message_data) VALUES ('basket', ?)", (json.dumps(item),)
            )
        connection.execute("INSERT INTO agent_messages (session_id, message_data) VALUES ('basket', '{torn')")
    assert [outline(one) for one in il.read(path)] == [PATHS["agents-sdk/session.json"]]


def test_the_database_of_amazon_q_is_read(tmp_path: Path) -> None:
    """One conversation for each folder; those without a turn are left out."""
    path, body = tmp_path / "data.sqlite3", sample("amazon-q/saved.json")
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE conversations (key TEXT PRIMARY KEY, value TEXT)")
        connection.execute("INSERT INTO conversations VALUES ('/a', ?)", (json.dumps(body),))
        connection.execute("INSERT INTO conversations VALUES ('/b', ?)", (json.dumps({**body, "history": []}),))
        connection.execute("CREATE TABLE conversations_v2 (key, conversation_id, value, created_at, updated_at)")
        connection.execute("INSERT INTO conversations_v2 VALUES ('/a', 'c1', ?, 0, 0)", (json.dumps(body),))
    assert [outline(one) for one in il.read(path)] == [PATHS["amazon-q/saved.json"]] * 2


def test_older_turns_of_amazon_q_are_pairs() -> None:
    """Without what is known of the request; a summary stands before them."""
    body = sample("amazon-q/saved.json")
    body["history"] = [[turn["user"], turn["assistant"]] for turn in body["history"]]
    body["latest_summary"] = ["They asked for eggs.", None]
    assert outline(dialect("amazon-q").decode(body)) == ["program: They asked for eggs.", *PATHS["amazon-q/saved.json"]]


def test_a_cancelled_call_of_amazon_q_is_answered_before_the_next_prompt() -> None:
    """Both stand in one turn of the user."""
    body = sample("amazon-q/saved.json")
    held = body["history"][1]["user"]["content"].pop("ToolUseResults")
    held["tool_use_results"][0] |= {"status": "Error", "content": [{"Json": {"reason": "cancelled"}}]}
    body["history"][1]["user"]["content"] = {"CancelledToolUses": {**held, "prompt": "Stop."}}
    conversation = dialect("amazon-q").decode(body)
    assert outline(conversation)[2:] == ['count -> {"reason":"cancelled"}', "user: Stop.", TWELVE]
    assert conversation.messages[2].is_error


# --- look-alikes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        [{"role": "user", "content": "Hi"}],
        {"messages": [{"role": "user", "content": "Hi"}]},
        {"title": "T", "messages": [{"role": "user", "content": "Hi"}]},
        {"data": []},
        {"input": "Hi"},
    ],
)
def test_messages_of_providers_are_theirs(name: str, body: Any) -> None:
    """A look-alike is refused."""
    assert not FORMATS[name].detect(body)
    with pytest.raises(BadWire):
        dialect(name).decode(body)


def test_a_session_of_claude_code_is_not_one_of_iflow() -> None:
    """Ids of sessions and answers tell them apart."""
    lines = sample("iflow/session.jsonl")
    for line in lines:
        line["sessionId"] = "0a1b2c3d"
    assert not FORMATS["iflow"].detect(lines)


def test_a_result_of_iflow_without_its_call_is_kept() -> None:
    """It stands last."""
    lines = [line for line in sample("iflow/session.jsonl") if line["uuid"] != "a3"]
    conversation = dialect("iflow").decode(lines)
    assert conversation.messages[-1].text == "12"


def test_a_prompt_of_gemini_without_an_answer_stands_alone() -> None:
    """So does one in another language, with its word for "Prompted"."""
    (body,) = sample("gemini-apps/MyActivity.json")
    del body["safeHtmlItem"]
    conversation = dialect("gemini-apps").decode({**body, "title": "Eingegebener Prompt: Wie viele?"})
    assert outline(conversation) == ["user: Eingegebener Prompt: Wie viele?"]


def stored(path: Path, *statements: tuple[str, tuple[Any, ...]] | str) -> Path:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(*(statement if isinstance(statement, tuple) else (statement,)))
    connection.commit()
    connection.close()
    return path


@pytest.mark.parametrize("older", [False, True])
def test_the_database_of_adk_is_read(tmp_path: Path, older: bool) -> None:
    """An event is JSON in one column, in older versions in several."""
    session = sample("adk/session.json")
    columns = "author, content, usage_metadata, partial" if older else "event_data"
    rows = []
    for event in session["events"]:
        held = [
            event["author"],
            json.dumps(event["content"]),
            json.dumps(event.get("usage_metadata")),
            event.get("partial"),
        ]
        own = held if older else [json.dumps(event)]
        marks = ", ".join("?" * (6 + len(own)))
        given = (event["id"], "eggs", "u", "s1", "i1", event["timestamp"], *own)
        rows.append((f"INSERT INTO events VALUES ({marks})", given))
    path = stored(
        tmp_path / "sessions.db",
        "CREATE TABLE sessions (app_name TEXT, user_id TEXT, id TEXT, state TEXT)",
        f"CREATE TABLE events (id, app_name, user_id, session_id, invocation_id, timestamp, {columns})",
        "INSERT INTO sessions VALUES ('eggs', 'u', 's1', '{}')",
        *rows,
    )
    (conversation,) = il.read(path)
    assert outline(conversation) == PATHS["adk/session.json"]


def test_the_database_of_ollama_is_read(tmp_path: Path) -> None:
    """Calls and attachments have tables of their own; a tool's answer is the next message."""
    path = stored(
        tmp_path / "db.sqlite",
        "CREATE TABLE chats (id TEXT, title TEXT, created_at TEXT)",
        "CREATE TABLE messages (id INTEGER, chat_id TEXT, role TEXT, content TEXT, thinking TEXT, model_name TEXT,"
        " created_at TEXT)",
        "CREATE TABLE tool_calls (id INTEGER, message_id INTEGER, function_name TEXT, function_arguments TEXT)",
        "CREATE TABLE attachments (id INTEGER, message_id INTEGER, filename TEXT, data BLOB)",
        "INSERT INTO chats VALUES ('a', 'Eggs in the basket', '2026-01-02 03:04:05')",
        "INSERT INTO messages VALUES (1, 'a', 'user', 'How many eggs?', '', NULL, '2026-01-02 03:04:05'),"
        " (2, 'a', 'assistant', '', 'Count them.', 'gpt-oss:20b', '2026-01-02 03:04:06'),"
        " (3, 'a', 'tool', '12', '', NULL, '2026-01-02 03:04:07'),"
        " (4, 'a', 'assistant', 'Twelve.', '', 'gpt-oss:20b', '2026-01-02 03:04:08')",
        ("INSERT INTO tool_calls VALUES (1, 2, 'count', ?)", ('{"of":"eggs"}',)),
        ("INSERT INTO attachments VALUES (1, 1, 'eggs.png', ?)", (b"\x89PNG",)),
    )
    (conversation,) = il.read(path)
    assert outline(conversation) == PATHS["ollama-app/chat.json"]
    asked, called = conversation.messages[:2]
    assert (asked.content[1].mime_type, called.thinking) == ("image/png", "Count them.")
    assert (conversation.title, called.tool_calls[0].arguments) == ("Eggs in the basket", {"of": "eggs"})


def test_the_threads_of_anything_llm_are_read_from_its_database(tmp_path: Path) -> None:
    """A thread is a conversation, and so is what stands in no thread; deleted chats are not shown."""
    answer = json.dumps(
        {"text": "Twelve.", "metrics": {"prompt_tokens": 30, "completion_tokens": 5, "model": "gpt-4o"}}
    )
    insert = "INSERT INTO workspace_chats VALUES (?, 7, ?, ?, ?, ?, 1771340000000)"
    path = stored(
        tmp_path / "anythingllm.db",
        "CREATE TABLE workspaces (id INTEGER, name TEXT)",
        "CREATE TABLE workspace_threads (id INTEGER, name TEXT)",
        "CREATE TABLE workspace_chats (id INTEGER, workspaceId INTEGER, prompt TEXT, response TEXT, include BOOLEAN,"
        " thread_id INTEGER, createdAt)",
        "INSERT INTO workspaces VALUES (7, 'Kitchen')",
        "INSERT INTO workspace_threads VALUES (3, 'Eggs in the basket')",
        (insert, (1, "Milk?", answer, True, None)),
        (insert, (2, "Forget it", answer, False, 3)),
        (insert, (3, "How many eggs?", answer, True, 3)),
    )
    first, second = il.read(path)
    assert (first.title, second.title) == ("Kitchen", "Eggs in the basket")
    assert outline(second) == PATHS["anything-llm/export.json"]
    assert (second.messages[1].model, second.messages[1].usage) == ("gpt-4o", il.Usage.of(30, 5))


def test_the_sessions_of_agno_are_read_from_its_database(tmp_path: Path) -> None:
    """Whatever its table is called."""
    session = sample("agno/session.json")
    values = (json.dumps(session["session_data"]), json.dumps(session["runs"]))
    path = stored(
        tmp_path / "agno.db",
        "CREATE TABLE my_sessions (session_id, session_type, session_data, runs, created_at)",
        ("INSERT INTO my_sessions VALUES ('s1', 'agent', ?, ?, 1)", values),
    )
    (conversation,) = il.read(path)
    assert (conversation.title, outline(conversation)) == ("Eggs in the basket", PATHS["agno/session.json"])


def test_the_topics_of_a_zipped_backup_of_cherry_studio_are_read(tmp_path: Path) -> None:
    """Answers of other models to the same question are branches; the one that was marked is shown."""
    backup = sample("cherry-studio/data.json")
    topics = backup["indexedDB"]["topics"]
    topics.append(
        {"id": "t2", "messages": [{**topics[0]["messages"][0], "id": "n1", "blocks": [], "content": "Milk?"}]}
    )
    topics.append({"id": "t3", "messages": []})
    topics[0]["messages"][2]["useful"] = True
    path = tmp_path / "cherry-studio.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("data.json", json.dumps(backup))
    first, second = il.read(path)
    assert outline(first) == [ASKED, "assistant: A dozen."]
    assert (len(first.entries), outline(second)) == (5, ["user: Milk?"])


def test_the_workspaces_of_an_export_are_conversations() -> None:
    """AnythingLLM lists the chats of all of them."""
    (row,) = sample("anything-llm/export.json")
    rows = [row, {**row, "workspace": "Milk"}, {**row, "prompt": "And now?"}]
    found = list(il.read(json.dumps(rows).encode()))
    assert [(one.title, len(one.messages)) for one in found] == [("Eggs in the basket", 4), ("Milk", 2)]


def test_the_chats_of_a_store_are_conversations() -> None:
    """LlamaIndex stores them by their keys."""
    store = sample("llama-index/older.json")
    store["store"]["user2"] = store["store"]["user1"][:1]
    assert [len(one.messages) for one in il.read(json.dumps(store).encode())] == [2, 1]


def test_every_answer_to_a_call_of_dspy_is_read() -> None:
    """The first on the path, the others as branches; and each call of a history by itself."""
    call = sample("dspy/call.json")
    (conversation,) = il.read(json.dumps([call]).encode())
    texts = [entry.message.text for entry in conversation.entries if isinstance(entry.message, il.AssistantMessage)]
    assert texts == ["Twelve.", "A dozen."]
    assert len(list(il.read(json.dumps([call, *sample("dspy/history.json")]).encode()))) == 2
    del call["outputs"]
    (conversation,) = il.read(json.dumps(call).encode())
    assert outline(conversation) == [ASKED, TWELVE]


def test_calls_and_reasoning_among_the_outputs_of_dspy_are_read() -> None:
    """A call that was written as the text of a Python object is refused."""
    (call,) = sample("dspy/history.json")
    asked = call["messages"][2]["tool_calls"]
    call |= {"messages": call["messages"][:2], "outputs": [{"text": None, "tool_calls": asked}]}
    call["outputs"][0]["reasoning_content"] = "Count them."
    (conversation,) = il.read(json.dumps(call).encode())
    assert outline(conversation) == [ASKED, CALLED]
    assert conversation.messages[-1].thinking == "Count them."
    call["outputs"][0]["tool_calls"] = ["ToolCall(name='count')"]
    with pytest.raises(BadWire, match="model_dump"):
        dialect("dspy").decode(call)


def test_every_part_of_a_message_of_haystack_is_read() -> None:
    """Pictures, files, results of several parts, a refusal; also as pydantic writes them."""
    picture = {"base64_image": "iVBORw0KGgo=", "mime_type": "image/png"}
    file = {"base64_data": "JVBERi0=", "mime_type": "application/pdf", "filename": "eggs.pdf"}
    called = {"tool_name": "count", "arguments": {}, "id": "c1"}
    result = {"result": [{"text": "12"}, {"image": picture}], "origin": called, "error": True}
    wrapped = [
        ("user", [{"text": "How many eggs?"}, {"image": picture}, {"file": file}], {}),
        ("assistant", [{"reasoning": {"reasoning_text": "Count them.", "extra": {}}}, {"tool_call": called}], {}),
        ("tool", [{"tool_call_result": result}], {}),
        ("assistant", [], {"refusal": "No."}),
    ]
    flat = [(role, [next(iter(p.values())) if "text" not in p else p for p in c], meta) for role, c, meta in wrapped]
    for rows in (wrapped, flat):
        body = [{"role": role, "content": content, "name": None, "meta": meta} for role, content, meta in rows]
        (conversation,) = il.read(json.dumps(body).encode())
        assert outline(conversation) == [ASKED, CALLED, COUNTED, "assistant: No."]
        asked, answer, given, _ = conversation.messages
        assert [type(block).__name__ for block in asked.content] == ["TextBlock", "ImageBlock", "DocumentBlock"]
        assert answer.thinking == "Count them." and given.is_error and len(given.content) == 2
        assert il.encode(conversation, "haystack").body == body


def test_replies_of_haystack_are_conversations() -> None:
    """They answer the same question."""
    replies = [
        {"role": "assistant", "content": [{"text": text}], "name": None, "meta": {}} for text in ("12", "Twelve")
    ]
    found = list(il.read(json.dumps({"replies": replies}).encode()))
    assert [outline(one) for one in found] == [["assistant: 12"], ["assistant: Twelve"]]


def test_a_topic_of_cherry_studio_has_files_errors_and_citations() -> None:
    """A file has its original name, an error ends the answer, and a text names the pages that it cites."""
    backup = sample("cherry-studio/data.json")
    stored = backup["indexedDB"]
    stored["topics"][0]["messages"][0]["blocks"].append("b6")
    stored["topics"][0]["messages"][1]["blocks"] += ["b7", "b8"]
    stored["message_blocks"][3]["citationReferences"] = [{"citationBlockId": "b7"}]
    file = {"id": "f", "name": "f.pdf", "origin_name": "eggs.pdf", "path": "/f.pdf", "type": "document"}
    page = {"title": "Eggs", "url": "http://e", "content": "A dozen."}
    stored["message_blocks"] += [
        {"id": "b6", "messageId": "m1", "type": "file", "file": file},
        {"id": "b7", "messageId": "m2", "type": "citation", "response": {"results": {"results": [page]}}},
        {"id": "b8", "messageId": "m2", "type": "error", "error": {"name": "E", "message": "cut off"}},
    ]
    (conversation,) = il.read(json.dumps(backup).encode())
    assert conversation.messages[0].content[1] == il.DocumentBlock(url="/f.pdf", title="eggs.pdf")
    answer = conversation.messages[-1]
    assert answer.content[0].citations == (Citation(title="Eggs", url="http://e", cited_text="A dozen."),)
    assert (answer.stop_reason, answer.error_message) == ("error", "cut off")


def test_a_message_of_chatbox_has_its_files_and_its_error() -> None:
    """Pictures and files are in the program's storage, by their keys."""
    session = sample("chatbox/export.json")["session:s1"]
    session["messages"][1]["contentParts"].append({"type": "image", "storageKey": "picture:a"})
    session["messages"][1]["files"] = [{"id": "f", "name": "a.pdf", "fileType": "application/pdf", "storageKey": "k"}]
    session["messages"][2]["error"] = "quota"
    (conversation,) = il.read(json.dumps(session).encode())
    files = (il.ImageBlock(url="picture:a"), il.DocumentBlock(url="k", mime_type="application/pdf", title="a.pdf"))
    assert conversation.messages[0].content[1:] == files
    assert conversation.messages[-1].error_message == "quota"


def test_an_error_beside_an_answer_is_a_note_unless_the_program_leaves_the_answer_out() -> None:
    """A real answer is sent on; one without content failed."""
    session = sample("hermes/session.json")
    session["messages"][-1]["error"] = "the title could not be made"
    session["messages"].append({"role": "assistant", "content": "", "error": "quota"})
    (conversation,) = il.read(json.dumps(session).encode())
    *_, answer, failed = conversation.messages
    assert (answer.stop_reason, answer.error_message) == (None, "the title could not be made")
    assert (failed.stop_reason, failed.error_message) == ("error", "quota")
    assert "Twelve." in il.encode(conversation, "openai-completions").bytes().decode()


def test_calls_failures_and_answers_of_servers_in_next_chat() -> None:
    """Plugins ran before the text of their answer; failed turns are not sent again."""
    backup = sample("next-chat/backup.json")
    (session,) = backup["chat-next-web-store"]["sessions"]
    answer = session["messages"][-1]
    function = {"name": "count", "arguments": '{"what":"eggs"}'}
    answer["tools"] = [{"id": "c1", "type": "function", "function": function, "content": "12", "isError": False}]
    session["messages"] += [
        {"role": "user", "content": "```json:mcp-response:a\n{}\n```", "isMcpResponse": True},
        {**answer, "content": "\n\n```json\n{}\n```", "isError": True, "tools": [{**answer["tools"][0], "id": "c2"}]},
    ]
    session["messages"][-1]["tools"][0] |= {"isError": True, "content": None, "errorMsg": "no such file"}
    (conversation,) = il.read(json.dumps(backup).encode())
    _, called, result, said, given, again, refused, failed = conversation.messages
    assert (called.tool_calls[0].arguments, result.text, said.text) == ({"what": "eggs"}, "12", "Twelve.")
    assert (given.origin, again.tool_calls[0].id, failed.stop_reason) == ("program", "c2", "error")
    assert (refused.is_error, refused.text, said.stop_reason) == (True, "no such file", None)
    assert backup == il.encode(conversation, "next-chat").body


def test_rows_of_llm_have_attachments_fragments_reasoning_and_details() -> None:
    """What was sent beside the prompt, and counts in the names of the provider."""
    row = {
        **sample("llm-logs/logs.json")[1],
        "prompt": "Count",
        "prompt_fragments": [{"hash": "h", "content": "Eggs: 12"}],
        "system_fragments": [{"hash": "h", "content": "Be brief."}],
        "attachments": [{"id": "a", "type": "image/png", "path": None, "url": "http://e/a.png"}],
        "reasoning": "Hm",
        "token_details": '{"prompt_tokens_details": {"cached_tokens": 10}}',
    }
    row["tool_results"] = [{**row["tool_results"][0], "exception": "ValueError: x"}]
    (conversation,) = il.read(json.dumps([row]).encode())
    result, asked, answer = conversation.messages
    assert (result.is_error, conversation.system) == (True, "Be brief.")
    assert asked.content == (il.ImageBlock(url="http://e/a.png"), il.TextBlock(text="Eggs: 12\nCount"))
    assert (answer.thinking, answer.usage) == ("Hm", il.Usage.of(20, 3, cache_read=10))


def test_the_threads_of_newer_databases_of_llm_are_read(tmp_path: Path) -> None:
    """Turns over a tree of messages, whose parts refer to fragments and attachments; they may continue older rows."""
    path = tmp_path / "logs.db"
    older = ["01", "gpt-4o", "Hi", "Hello.", "01c", "2026-01-01T00:00:00+00:00"]
    messages = [("s", None, "system"), ("u", "s", "user"), ("a", "u", "assistant"), ("t", "a", "tool")]
    parts = [
        ("s", 0, "text", "You count things.", None),
        ("u", 0, "text", None, '{"text_ref": [{"fragment": 1}, {"literal": " How many?"}]}'),
        ("u", 1, "attachment", None, '{"attachment": {"id": "f"}}'),
        ("a", 0, "reasoning", "Hm", None),
        ("a", 1, "tool_call", None, '{"name": "count", "arguments": {"of": "eggs"}, "tool_call_id": "c1"}'),
        ("t", 0, "tool_result", None, '{"name": "count", "output": "12", "tool_call_id": "c1"}'),
        ("b", 0, "text", "Twelve.", None),
    ]
    turns = [("02", "01c", "u", "a", "2026-01-02"), ("03", "01c", "t", "b", "2026-01-03")]
    with sqlite3.connect(path) as connection:
        tables = {
            "responses (id, model, prompt, response, conversation_id, datetime_utc)": [older],
            "threads (id, name)": [("01c", "Eggs in the basket")],
            "turns (id, thread_id, parent_message_hash, tip_message_hash, datetime_utc, model)": [
                (*turn, "gpt-4o") for turn in turns
            ],
            "messages (hash, parent_hash, role)": [*messages, ("b", "t", "assistant")],
            "parts (message_hash, position, type, text, payload)": parts,
            "fragments (id, content)": [(1, "Eggs.")],
            "attachments (id, type, path, url, content)": [("f", "image/png", None, None, b"hi")],
        }
        for table, rows in tables.items():
            connection.execute(f"CREATE TABLE {table}")
            name, width = table.split(" ")[0], table.count(",") + 1
            connection.executemany(f"INSERT INTO {name} VALUES ({','.join('?' * width)})", rows)
    (conversation,) = il.read(path)
    assert outline(conversation) == [
        "user: Hi",
        "assistant: Hello.",
        "user: Eggs. How many?",
        "assistant:  count()",
        "count -> 12",
        "assistant: Twelve.",
    ]
    assert (conversation.title, conversation.system) == ("Eggs in the basket", "You count things.")
    assert conversation.messages[2].content[0] == il.ImageBlock(data="aGk=", mime_type="image/png")
    assert conversation.messages[3].thinking == "Hm"


def librechat(*messages: dict[str, Any]) -> il.Conversation:
    placed = [
        {"messageId": str(at), "parentMessageId": str(at - 1) if at else None, "conversationId": "c", **message}
        for at, message in enumerate(messages)
    ]
    (conversation,) = il.read(json.dumps({"conversationId": "c", "title": "T", "messages": placed}).encode())
    return conversation


def test_an_answer_of_librechat_has_usage_errors_files_and_what_the_user_put_in() -> None:
    """A steer splits the answer; labels are for the screen."""
    pdf = {"file_id": "f", "filename": "a.pdf", "type": "application/pdf"}
    parts = [
        {"type": "activity_label", "activity_label": "Thinking"},
        {"type": "text", "text": "One."},
        {"type": "steer", "steer": "Wait"},
        {"type": "text", "text": "Two."},
        {"type": "error", "error": "cut off"},
    ]
    usage = {"input": 10, "output": 2, "cacheRead": 30, "cacheWrite": 4}
    conversation = librechat(
        {"isCreatedByUser": True, "text": "Go", "files": [pdf]},
        {
            "isCreatedByUser": False,
            "text": "",
            "content": parts,
            "metadata": {"usage": usage},
            "attachments": [{"file_id": "i", "type": "image/png"}],
        },
    )
    assert outline(conversation) == ["user: Go", "assistant: One.", "user: Wait", "assistant: Two."]
    asked, first, _, last = conversation.messages
    assert asked.content[0] == il.DocumentBlock(file_id="f", mime_type="application/pdf", title="a.pdf")
    assert (first.usage, last.usage) == (il.Usage.of(10, 2, cache_read=30, cache_write=4), None)
    assert (last.stop_reason, last.error_message) == ("error", "cut off")
    assert last.content[1] == il.ImageBlock(file_id="i", mime_type="image/png")


def test_a_chat_of_open_webui_has_files_sources_and_code() -> None:
    """Beside the items of an answer, too."""
    code = {"type": "open_webui:code_interpreter", "id": "c", "code": "1+1", "output": {"stdout": "2"}}
    said = {"type": "message", "content": [{"type": "output_text", "text": "Two [1]."}]}
    source = {"source": {"name": "Sums", "url": "http://s"}, "document": ["1+1=2"], "metadata": [{}]}
    messages = {
        "u": {
            "id": "u", "parentId": None, "role": "user", "content": "Add",
            "files": [{"type": "file", "id": "f", "name": "a.pdf", "content_type": "application/pdf"}],
        },
        "a": {
            "id": "a", "parentId": "u", "role": "assistant", "content": "Two [1].", "output": [code, said],
            "files": [{"type": "image", "url": "http://i"}], "sources": [source], "error": {"content": "late"},
        },
    }  # fmt: skip
    chat = {"title": "T", "history": {"currentId": "a", "messages": messages}, "messages": []}
    (conversation,) = il.read(json.dumps(chat).encode())
    assert outline(conversation) == [
        "user: Add",
        "assistant:  code_interpreter()",
        "code_interpreter -> 2",
        "assistant: Two [1].",
    ]
    document = il.DocumentBlock(file_id="f", mime_type="application/pdf", title="a.pdf")
    assert conversation.messages[0].content == (document, il.TextBlock(text="Add"))
    assert conversation.messages[1].content[0] == il.ImageBlock(url="http://i")
    last = conversation.messages[-1]
    assert last.content[0].citations == (Citation(title="Sums", url="http://s", cited_text="1+1=2"),)
    assert (last.stop_reason, last.error_message) == ("error", "late")


def test_an_answer_of_anything_llm_has_its_sources() -> None:
    """And a prompt its files, which need not be pictures."""
    (row,) = sample("anything-llm/export.json")
    file = {"name": "a.pdf", "mime": "application/pdf", "contentString": "data:application/pdf;base64,aGk="}
    source = {"title": "Eggs", "text": "A dozen.", "chunkSource": "link://http://e"}
    row["response"] = json.dumps({"text": "Twelve.", "sources": [source], "attachments": [file]})
    (conversation,) = il.read(json.dumps([row]).encode())
    document = il.DocumentBlock(data="aGk=", mime_type="application/pdf", title="a.pdf")
    assert conversation.messages[0].content[-1] == document
    cited = (Citation(title="Eggs", url="http://e", cited_text="A dozen."),)
    assert conversation.messages[1].content == (il.TextBlock(text="Twelve.", citations=cited),)


def test_media_of_silly_tavern_are_in_answers_too() -> None:
    """Pictures that were made, recordings and videos."""
    media = [{"type": "image", "url": "a.png"}, {"type": "video", "url": "b.mp4", "title": "B"}]
    lines = [{"name": "C", "is_user": False, "mes": "Look", "extra": {"media": media}}]
    conversation = dialect("silly-tavern").decode(lines)
    pictures = (il.ImageBlock(url="a.png"), il.DocumentBlock(url="b.mp4", mime_type="video/*", title="B"))
    assert conversation.messages[0].content == (il.TextBlock(text="Look"), *pictures)


def test_a_thread_of_zed_that_was_resumed_says_so() -> None:
    """The model reads a request to go on."""
    messages = [{"User": {"id": "u", "content": [{"Text": "Go"}]}}, "Resume"]
    thread = {"title": "T", "updated_at": "2026-01-01T00:00:00Z", "messages": messages}
    assert outline(dialect("zed").decode(thread)) == ["user: Go", "program: Continue where you left off"]


def test_a_prompt_of_amazon_q_has_its_pictures_and_what_hooks_put_before_it() -> None:
    """The bytes of a picture are a list of numbers."""
    body = sample("amazon-q/saved.json")
    asked = fields_of(body["history"][0].get("user"))
    asked["additional_context"] = "Be brief."
    asked["images"] = [{"format": "Png", "source": {"Bytes": [104, 105]}}]
    context, prompt = dialect("amazon-q").decode(body).messages[:2]
    assert (context.origin, context.text) == ("program", "Be brief.")
    assert prompt.content[0] == il.ImageBlock(data="aGk=", mime_type="image/png")


def test_a_session_of_continue_goes_on_from_its_summary() -> None:
    """What it replaces stays in the tree."""

    def item(role: str, text: str, **fields: Any) -> dict[str, Any]:
        return {"message": {"role": role, "content": text}, "contextItems": [], **fields}

    history = [item("user", "One"), item("assistant", "1", conversationSummary="So far"), item("user", "Two")]
    session = {"sessionId": "s", "title": "T", "workspaceDirectory": "/", "history": history}
    conversation = dialect("continue").decode(session)
    assert outline(conversation) == ["program: So far", "user: Two"]
    assert len(conversation.entries) == 4
    assert session == dialect("continue").encode(conversation).body


def test_an_answer_of_big_agi_has_citations_errors_and_sealed_thoughts() -> None:
    """They stand in fragments of their own."""
    parts = [
        {"pt": "ma", "aType": "reasoning", "aText": "", "redactedData": ["x"]},
        {"pt": "text", "text": "Twelve."},
        {"pt": "annotations", "annotations": [{"type": "citation", "url": "http://e", "title": "Eggs", "ranges": []}]},
        {"pt": "error", "error": "cut off"},
    ]
    answer = {"role": "assistant", "fragments": [{"ft": "content", "fId": "f", "part": part} for part in parts]}
    (message,) = dialect("big-agi").decode({"systemPurposeId": "D", "messages": [answer]}).messages
    assert message.content == (
        il.ThinkingBlock(thinking="", thinking_signature="x", redacted=True),
        il.TextBlock(text="Twelve.", citations=(Citation(title="Eggs", url="http://e"),)),
    )
    assert (message.stop_reason, message.error_message) == ("error", "cut off")


def test_messages_of_lobe_chat_have_files_and_citations() -> None:
    """The pages of a search stand beside the text."""
    times = {"createdAt": 1771340000000, "updatedAt": 1771340000000}
    file = {"id": "f", "name": "a.pdf", "fileType": "application/pdf", "url": "http://f"}
    messages = [
        {"id": "1", "role": "user", "content": "Look", "fileList": [file], **times},
        {"id": "2", "role": "assistant", "content": "Eggs.", "search": {"citations": [{"url": "http://e"}]}, **times},
    ]
    topic = {"version": "1", "exportedAt": "2026-01-01", "messages": messages}
    asked, answer = dialect("lobe-chat").decode(topic).messages
    assert asked.content[1] == il.DocumentBlock(url="http://f", mime_type="application/pdf", title="a.pdf")
    assert answer.content[0].citations == (Citation(url="http://e"),)


def test_unusually_long_keys_do_not_stay_in_memory() -> None:
    """What is looked up by the keys of a record is remembered for the usual ones alone."""
    cached = functools.lru_cache(500)(lambda keys: len(keys))
    for at in range(3):
        assert reading.by_keys(cached, {f"{at}" * 5000: 1, "role": 2}) == 2
    assert cached.cache_info().currsize == 0
    assert reading.by_keys(cached, {"role": 1}) == reading.by_keys(cached, {"role": 2}) == 1
    assert cached.cache_info().hits == 1


def test_invocations_of_adk_that_were_rewound_are_beside_the_path() -> None:
    """An event takes them back; one without content is nothing that was written."""

    def event(invocation: str, author: str, text: str | None, **actions: Any) -> dict[str, Any]:
        content = None if text is None else {"role": "user", "parts": [{"text": text}]}
        return {"invocationId": invocation, "author": author, "timestamp": 1.5, "content": content, "actions": actions}

    events = [
        event("1", "user", "How many?"),
        event("1", "counter", "Twelve."),
        event("2", "user", "And milk?"),
        event("2", "counter", "None."),
        event("3", "user", None, rewindBeforeInvocationId="2"),
        event("4", "user", "And bread?"),
        event("5", "user", None, compaction={"startTimestamp": 1, "endTimestamp": 2}),
    ]
    (found,) = il.read(json.dumps({**sample("adk/session.json"), "events": events}).encode())
    assert outline(found) == ["user: How many?", "assistant: Twelve.", "user: And bread?"]
    assert [entry.message.text for entry in found.entries] == [
        "How many?",
        "Twelve.",
        "And milk?",
        "None.",
        "And bread?",
    ]


def test_messages_of_another_program_with_a_chat_id_are_not_those_of_le_chat() -> None:
    """Flowise has roles of its own, which would be read as notes."""
    rows = [{"id": str(at), "role": "userMessage", "content": "Hi", "chatId": "c"} for at in range(2)]
    assert il.detect(rows) is None


def test_thoughts_files_and_times_of_text_generation_webui_are_read() -> None:
    """A thought is marked in the answer's text as the model wrote it, and may be cut."""
    chat = sample("text-generation-webui/chat.json")
    asked, called, _, answer = il.decode(chat).messages
    assert asked.content[0] == il.DocumentBlock(text="a dozen", mime_type="text/plain", title="basket.txt")
    assert (asked.timestamp, called.timestamp) == (1_771_338_360_000, 1_771_338_420_000)
    assert (answer.thinking, answer.text) == ("They were counted.", "Twelve.")
    written = {
        "<think>I count": ("I count", ""),
        "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>12": ("Hm", "12"),
        "<seed:think>Hm</seed:think>12": ("Hm", "12"),
        "No thought, and <|end|>": ("", "No thought, and <|end|>"),
        "A `<think>` begins a thought, `</think>` ends it.\n": (
            "",
            "A `<think>` begins a thought, `</think>` ends it.\n",
        ),
        "The tag <think> begins a thought.\nReally.": ("", "The tag <think> begins a thought.\nReally."),
        "Well.\n<think>I count": ("I count", "Well."),
    }
    rows = [["Eggs?", text] for text in written]
    messages = il.decode({"internal": rows, "visible": rows, "metadata": {}}).messages
    assert [(one.thinking, one.text) for one in messages[1::2]] == list(written.values())


def test_rows_of_text_generation_webui_have_roles_and_results_from_an_api() -> None:
    """In a third and a fourth field."""
    calls = [{"id": "c", "type": "function", "function": {"name": "count", "arguments": "{}"}}]
    rows = [
        ["Be brief.", "", "", {"role": "system"}],
        ["Eggs?", "", "", {"tool_calls": calls}],
        ["", "", "12", {"tool_call_id": "c"}],
        ["", "Twelve.", "", {}],
    ]
    found = il.decode({"internal": rows, "visible": rows}, "text-generation-webui")
    assert outline(found) == ["system: Be brief.", "user: Eggs?", CALLED, COUNTED, TWELVE]


def test_calls_of_models_in_langsmith_are_read_wherever_they_stand() -> None:
    """In a list, a page of the API or a trace with its runs inside; runs of tools and chains are left out."""
    run, graph = sample("langsmith/run.json"), sample("langsmith/graph.json")
    tool = {**run, "run_type": "tool", "inputs": {"input": "eggs"}, "outputs": {"output": "12"}}
    for whole in (
        [graph, tool, run, run],
        {"runs": [run, tool, run], "cursors": {}},
        {**graph, "child_runs": [run, {**tool, "child_runs": [run]}]},
    ):
        assert [outline(one) for one in il.read(json.dumps(whole).encode())] == [PATHS["langsmith/run.json"]] * 2
    lines = "".join(json.dumps(one) + "\n" for one in (tool, run, tool))
    assert [outline(one) for one in il.read(lines.encode())] == [PATHS["langsmith/run.json"]]
    assert il.detect(tool) is None


def test_inputs_and_outputs_of_langsmith_are_those_of_any_provider() -> None:
    """A body of OpenAI's with the counts of LangSmith, a prompt and its text, a message alone, and a failure."""
    run = {**sample("langsmith/run.json"), "extra": {}, "total_tokens": None, "total_cost": None}
    asked, answer = {"role": "user", "content": "How many eggs?"}, {"role": "assistant", "content": "Twelve."}
    counted = {"input_tokens": 30, "output_tokens": 5, "input_token_details": {"cache_read": 10}}
    body = {"choices": [{"index": 0, "message": answer, "finish_reason": "stop"}], "usage_metadata": counted}
    for inputs, outputs in (
        ({"model": "gpt-4o", "messages": [asked]}, body),
        ({"prompts": ["How many eggs?"]}, {"generations": [[{"text": "Twelve."}]]}),
        ({"messages": [asked]}, answer),
        ({"messages": [asked]}, {"message": answer}),
        ({"messages": [asked]}, {"output": "Twelve."}),
    ):
        found = il.decode({**run, "inputs": inputs, "outputs": outputs}, "langsmith")
        assert outline(found) == [ASKED, TWELVE]
        if outputs is body:
            assert (found.messages[1].usage, found.model.id) == (il.Usage.of(20, 5, cache_read=10), "gpt-4o")
    failed = il.decode({**run, "inputs": {"messages": [asked]}, "outputs": None, "error": "Timeout"}, "langsmith")
    assert (failed.messages[1].stop_reason, failed.messages[1].error_message) == ("error", "Timeout")


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        ({"question": "How many?"}, {"reply": "Twelve."}, ["user: How many?", "assistant: Twelve."]),
        ({"of": "eggs", "n": 2}, {"count": 12}, ['user: {"of":"eggs","n":2}', 'assistant: {"count":12}']),
        ({"question": "How many?"}, {"generations": [[]]}, ["user: How many?"]),
        ({"prompts": []}, {"text": "Twelve."}, ["assistant: Twelve."]),
    ],
)
def test_a_function_that_langsmith_traced_has_names_of_its_own(inputs: Any, outputs: Any, expected: list[str]) -> None:
    """They would be read as a call without a question or an answer."""
    run = {"run_type": "llm", "trace_id": "1", "inputs": inputs, "outputs": outputs}
    found = il.decode(run)
    assert outline(found) == expected
    assert json.loads(il.encode(found, "langsmith").bytes()) == run


def test_every_agent_of_a_file_of_letta_is_a_conversation() -> None:
    """A message may hold results that a person's program gave, an error, or what was compacted."""
    document = sample("letta/agents.json")
    (agent,) = document["agents"]
    returned = [
        {"type": "approval", "approve": True, "tool_call_id": "c0"},
        {"type": "tool", "tool_call_id": "c1", "tool_return": "No such basket", "status": "error"},
    ]
    approval = {"role": "approval", "content": [], "approvals": returned}
    summary = {"role": "summary", "content": [{"type": "text", "text": "Eggs were counted."}]}
    sealed = {"type": "redacted_reasoning", "data": "c2VhbGVk"}
    told = {"type": "summarized_reasoning", "summary": [{"index": 0, "text": "I count."}], "encrypted_content": "ZW5j"}
    other = {**agent, "messages": [summary, agent["messages"][2], approval]}
    other["messages"].append({"role": "assistant", "content": [sealed, told, {"type": "omitted_reasoning"}]})
    first, second = il.read(json.dumps({**document, "agents": [agent, other]}).encode())
    assert outline(first) == PATHS["letta/agents.json"]
    assert outline(second)[:3] == ["program: Eggs were counted.", CALLED, "count -> No such basket"]
    assert second.messages[2].is_error
    assert second.messages[3].content == (
        il.ThinkingBlock(thinking="", thinking_signature="c2VhbGVk", redacted=True),
        il.ThinkingBlock(thinking="I count.", thinking_signature="ZW5j"),
    )


def test_results_of_promptfoo_are_read_one_by_one(tmp_path: Path) -> None:
    """In a file, in lines and in its database. An output is a text, a message, calls or other JSON; or it failed."""
    document = sample("promptfoo/output.json")
    (result,) = document["results"]["results"]
    function = {"name": "count", "arguments": '{"of":"eggs"}'}
    calls = [{"id": "c", "type": "function", "function": function}]
    outputs = [calls, function, {"role": "assistant", "content": None, "tool_calls": calls}, {"eggs": 12}]
    results = [{**result, "prompt": {"raw": "How many eggs?"}, "response": {"output": output}} for output in outputs]
    results.append({**results[0], "response": None, "error": "Timeout"})
    answers = [CALLED, CALLED, CALLED, 'assistant: {"eggs":12}', "assistant: "]
    document["results"]["results"] = results
    path = stored(
        tmp_path / "promptfoo.db",
        "CREATE TABLE eval_results (id TEXT, created_at INTEGER, test_case TEXT, prompt TEXT, provider TEXT,"
        " response TEXT, error TEXT)",
        *(
            (
                f"INSERT INTO eval_results VALUES ('{at}', 1, '{{}}', ?, ?, ?, ?)",
                (*(json.dumps(one[name]) for name in ("prompt", "provider", "response")), one.get("error")),
            )
            for at, one in enumerate(results)
        ),
    )
    lines = "".join(json.dumps(one) + "\n" for one in results).encode()
    for source in (json.dumps(document).encode(), lines, path):
        found = list(il.read(source))
        assert [outline(one) for one in found] == [[ASKED, answer] for answer in answers]
        assert (found[-1].messages[1].stop_reason, found[-1].messages[1].error_message) == ("error", "Timeout")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ('[{"role":"user","parts":[{"text":"Hi"}]}]', "Hi"),
        ('{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}', "Hi"),
        ('{"model":"m","messages":[{"role":"user","content":"Hi"}]}', "Hi"),
        ('[{"role":"user","content":{"a":1}}]', '[{"role":"user","content":{"a":1}}]'),
        ('[{"role":"user","text":"Hi"}]', '[{"role":"user","text":"Hi"}]'),
    ],
)
def test_prompts_of_promptfoo_are_messages_or_the_text_that_was_sent(raw: str, expected: str) -> None:
    """JSON that is in no provider's shape is a text."""
    document = sample("promptfoo/output.json")
    document["results"]["results"][0] |= {"prompt": {"raw": raw}, "response": {"output": "Hello."}}
    found = il.decode(document)
    assert [one.text for one in found.messages] == [expected, "Hello."]


@pytest.mark.parametrize("output", [{"role": "system", "content": "x"}, {"role": "tool", "content": "x"}])
def test_json_of_promptfoo_that_is_no_message_of_the_assistant_is_a_text(output: dict[str, str]) -> None:
    """A model may be asked for such an object."""
    document = sample("promptfoo/output.json")
    document["results"]["results"][0]["response"] = {"output": output}
    assert il.decode(document).messages[-1].text == json.dumps(output, separators=(",", ":"))


def test_chats_of_older_versions_of_autogen_are_read_by_the_names_of_their_speakers() -> None:
    """One message answers several calls; the roles are those in the view of one agent. A result has the total."""
    result = sample("autogen/result.json")
    found = il.decode(result)
    assert (found.usage, found.model.id) == (il.Usage.of(30, 5, cost=il.Cost(total=0.25)), "gpt-4o")
    asked, called, given, last = result["chat_history"]
    (call,), (response,) = called["tool_calls"], given["tool_responses"]
    called["tool_calls"] = [call, {**call, "id": "c2"}]
    given |= {"content": "12\n\n13", "tool_responses": [response, {**response, "tool_call_id": "c2", "content": "13"}]}
    assert il.detect(result["chat_history"]).dialect == "autogen"
    messages = il.decode(result["chat_history"]).messages
    results = [message for message in messages if isinstance(message, il.ToolResultMessage)]
    assert [(one.tool_call_id, one.text) for one in results] == [("c1", "12"), ("c2", "13")]
    plain = [{**asked, "role": "user"}, {**last, "role": "assistant"}]
    assert il.detect(plain).dialect == "openai-completions"


@pytest.mark.parametrize("names", [("user_proxy", "coder"), ("student", "Teacher_Agent"), ("Ann", "assistant")])
def test_texts_of_autogen_are_known_by_names_that_contradict_the_roles(names: tuple[str, str]) -> None:
    """In the view of the agent that asks, its own messages are those of the assistant."""
    roles = ("assistant", "user", "assistant")
    texts = [{"role": role, "name": names[at % 2], "content": str(at)} for at, role in enumerate(roles)]
    assert outline(il.decode(texts)) == ["user: 0", "assistant: 1", "user: 2"]


def test_a_named_bot_that_speaks_first_is_no_person() -> None:
    """Its greeting, and what it says after a call, stay with the model."""
    greeting = {"role": "assistant", "name": "Bot", "content": "Welcome!"}
    asked = {"role": "user", "name": "Ann", "content": "Hi"}
    assert outline(il.decode([greeting, asked, greeting])) == [
        "assistant: Welcome!",
        "user: Hi",
        "assistant: Welcome!",
    ]
    call = {"id": "c1", "type": "function", "function": {"name": "count", "arguments": "{}"}}
    called = {**greeting, "content": "", "tool_calls": [call]}
    given = {"role": "tool", "tool_call_id": "c1", "name": "count", "content": "12"}
    assert outline(il.decode([called, given, greeting])) == [
        "assistant:  count()",
        "count -> 12",
        "assistant: Welcome!",
    ]
    several = {"role": "tool", "name": "Ann", "content": "12", "tool_responses": [given]}
    assert outline(il.decode([called, several, greeting]))[-1] == "assistant: Welcome!"


def test_runs_and_older_steps_of_smolagents_are_read() -> None:
    """A run states its total; older steps have their times beside the other fields."""
    steps = sample("smolagents/steps.json")
    total = {"input_tokens": 60, "output_tokens": 9, "total_tokens": 69}
    run = il.decode({"output": "12", "state": "success", "steps": steps, "token_usage": total, "timing": {}})
    assert (outline(run), run.usage) == (PATHS["smolagents/steps.json"], il.Usage.of(60, 9))
    older = [{**step, **step["timing"], "duration": 1.0} if "timing" in step else step for step in steps]
    for step in older:
        step.pop("timing", None)
    found = il.decode(older)
    assert outline(found) == PATHS["smolagents/steps.json"]
    assert [one.timestamp for one in found.messages] == [one.timestamp for one in run.messages]


def test_timed_steps_of_another_log_are_no_memory_of_an_agent() -> None:
    """They would be read as answers without text."""
    step = {"step_number": 1, "duration": 0.5, "observations": [0.1, 0.2], "reward": 1.0}
    assert il.detect([step, {**step, "step_number": 2}]) is None
    assert il.detect({"steps": [step]}) is None


def test_a_memory_of_llama_index_has_its_chat_in_a_store() -> None:
    """As an object or as text; other chats of the store are not its own."""
    store = sample("llama-index/chat_store.json")
    (key,) = store["store"]
    store["store"]["other"] = store["store"][key]
    for given in (store, json.dumps(store)):
        memory = {"token_limit": 3000, "chat_store": given, "chat_store_key": key, "class_name": "ChatMemoryBuffer"}
        (found,) = il.read(json.dumps(memory).encode())
        assert outline(found) == PATHS["llama-index/chat_store.json"]
        assert il.encode(found, "llama-index").body == memory


def test_reasoning_and_the_counts_of_net_are_read_from_semantic_kernel() -> None:
    """The input includes the cached part; an older client has other names."""
    newer = {"InputTokenCount": 30, "OutputTokenCount": 5, "InputTokenDetails": {"CachedTokenCount": 10}}
    older = {"PromptTokens": 20, "CompletionTokens": 5, "TotalTokens": 25}
    items = [{"$type": "ReasoningContent", "Text": "I count."}, {"$type": "TextContent", "Text": "Twelve."}]
    for counts, cached in ((newer, 10), (older, 0)):
        answer = {"Role": {"Label": "assistant"}, "Items": items, "Metadata": {"Usage": counts}}
        (message,) = il.decode([answer], "semantic-kernel").messages
        assert (message.thinking, message.text) == ("I count.", "Twelve.")
        assert message.usage == il.Usage.of(20, 5, cache_read=cached)


def test_branches_of_a_session_of_the_agents_sdk_are_conversations(tmp_path: Path) -> None:
    """A branch has the items before it from another. Sessions without branches may be in the same file."""
    texts = ["How many eggs?", "Ten.", "Really?", "Twelve."]
    rows = [("main", 1), ("main", 2), ("main", 3), ("branch_2", 1), ("branch_2", 2), ("branch_2", 4)]
    path = stored(
        tmp_path / "sessions.db",
        "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT)",
        "CREATE TABLE message_structure (id INTEGER PRIMARY KEY, session_id TEXT, message_id INTEGER, branch_id TEXT,"
        " sequence_number INTEGER)",
        *(
            ("INSERT INTO agent_messages VALUES (?, 's', ?)", (at, json.dumps({"role": "user", "content": text})))
            for at, text in enumerate(texts, 1)
        ),
        *(
            ("INSERT INTO message_structure VALUES (?, 's', ?, ?, ?)", (at, item, branch, at))
            for at, (branch, item) in enumerate(rows)
        ),
        ("INSERT INTO agent_messages VALUES (9, 'plain', ?)", (json.dumps({"role": "user", "content": "Hi"}),)),
    )
    found = [[message.text for message in one.messages] for one in il.read(path)]
    assert found == [texts[:3], [*texts[:2], texts[3]], ["Hi"]]


@pytest.mark.parametrize("name", ["jan", "hugging-chat"])
def test_thoughts_that_a_program_leaves_in_the_text_are_thoughts(name: str) -> None:
    """As it shows them, in their order; an empty one is none."""
    text = "<think>\nOne\n</think>\n\nTwelve. <think>Two</think> Or so.<think> </think>"
    if name == "jan":
        (first, *_) = sample("jan/messages.jsonl")
        content = [{"type": "text", "text": {"value": text, "annotations": []}}]
        found = il.decode(json.dumps({**first, "role": "assistant", "content": content}) + "\n", "jan")
    else:
        chat = sample("hugging-chat/conversations.json")
        chat[0]["messages"][-1] |= {"content": text, "reasoning": "", "routerMetadata": {"route": "r", "model": "m"}}
        (found,) = il.read(json.dumps(chat).encode())
        assert found.messages[-1].model == "m"
    thoughts = [il.ThinkingBlock(thinking=one) for one in ("One", "Two")]
    texts = [il.TextBlock(text=one) for one in ("Twelve.", "Or so.")]
    assert found.messages[-1].content == (thoughts[0], texts[0], thoughts[1], texts[1])


def test_sound_and_films_of_jan_are_read() -> None:
    """They are among the content of a question."""
    (first, *_) = sample("jan/messages.jsonl")
    content = [
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "mp3"}},
        {"type": "input_video", "input_video": {"data": "AAAAIGZ0", "format": "video/webm"}},
    ]
    (asked,) = il.decode(json.dumps({**first, "role": "user", "content": content}) + "\n", "jan").messages
    assert asked.content == (
        il.AudioBlock(data="UklGRg==", mime_type="audio/mp3"),
        il.DocumentBlock(data="AAAAIGZ0", mime_type="video/webm"),
    )


def test_results_of_tau_bench_are_read_one_by_one() -> None:
    """Results that the program wrote into messages of the user are no person's; a run that failed says why."""
    (result,) = sample("tau-bench/results.json")
    system, asked, *_ = result["traj"]
    acts = ('Action:\n{"name": "count", "arguments": {}}', 'Action:\n{"name": "respond", "arguments": {}}')
    texts = [system, asked, {"role": "assistant", "content": acts[0]}, {"role": "user", "content": "API output: 12"}]
    texts += [{"role": "assistant", "content": acts[1]}, {"role": "user", "content": "###STOP###"}]
    failed = {"task_id": 4, "reward": 0.0, "info": {"error": "timed out", "traceback": "…"}, "traj": [], "trial": 0}
    whole, react, error = il.read(json.dumps([result, {**result, "traj": texts, "trial": 1}, failed]).encode())
    assert [ASKED, CALLED, COUNTED, TWELVE] == outline(whole)
    origins = [message.origin for message in react.messages if isinstance(message, il.UserMessage)]
    assert [None, "program", None] == origins
    assert ("error", "timed out") == (error.messages[0].stop_reason, error.messages[0].error_message)
    with pytest.raises(il.BadWire):
        il.decode({**failed, "info": {}})


def test_a_trajectory_without_messages_is_none_of_tau_bench() -> None:
    """Its steps would be read as messages of unknown roles."""
    run = {"task_id": 1, "trial": 0, "reward": 1.0, "info": {}}
    assert il.detect([{**run, "traj": [{"role": "leader", "position": [1, 2]}]}]) is None
    assert il.detect([{**run, "traj": [{"role": "user", "position": [1, 2]}]}]) is None


@pytest.mark.parametrize(
    ("table", "columns", "good", "damaged"),
    [
        (
            "eval_results",
            "prompt, provider, response, test_case, error, created_at",
            ('{"raw": "How many eggs?"}', '"gpt-4o"', '{"output": "Twelve."}', "{}", None, 1),
            ("{", '"gpt-4o"', '{"output": "Twelve."}', "{}", None, 2),
        ),
        (
            "conversations",
            "key, value",
            ("/a", '{"conversation_id": "1", "history": [{"user": {"content": {"Prompt": {"prompt": "Hi"}}}}]}'),
            ("/b", "{"),
        ),
        (
            "agno_sessions",
            "session_id, session_type, runs, created_at",
            ("1", "agent", '[{"messages": [{"role": "user", "content": "Hi"}]}]', 1),
            ("2", "agent", "{", 2),
        ),
    ],
    ids=["promptfoo", "amazon-q", "agno"],
)
def test_a_row_of_a_database_that_cannot_be_read_is_reported(
    table: str, columns: str, good: tuple[Any, ...], damaged: tuple[Any, ...], tmp_path: Path
) -> None:
    """It was left out in silence, and a database with nothing else was empty."""
    made, added = f"CREATE TABLE {table} ({columns})", f"INSERT INTO {table} VALUES ({', '.join('?' * len(good))})"
    (found,) = il.read(stored(tmp_path / "some.db", made, (added, good), (added, damaged)))
    assert found.messages
    assert [problem.line for problem in found.problems] == [2]
    with pytest.raises(il.InterlinguaError, match="expected"):
        list(il.read(stored(tmp_path / "damaged.db", made, (added, damaged))))
