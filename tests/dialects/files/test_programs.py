"""Files of chat programs in editors and terminals: Cursor, GitHub Copilot Chat and CLI, SpecStory."""

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from dialects.files.samples import outline, read, sample
from interlingua.dialects import FORMATS, dialect
from interlingua.dialects.files import cursor
from interlingua.values.errors import BadWire, InterlinguaError
from interlingua.values.messages import text_of


def test_lines_of_cursor_have_results_in_lines_of_the_user() -> None:
    """They are results of the calls before, not something that a person wrote."""
    assert outline(read("cursor/transcript.jsonl")) == [
        "user: <user_query>\nHow many eggs?\n</user_query>",
        "assistant: I look. Read()",
        "Read -> 12",
        "assistant: Twelve.",
    ]


def test_a_torn_line_of_cursor_is_left_out_and_reported(tmp_path: Path) -> None:
    """The rest is read."""
    path = tmp_path / "t.jsonl"
    first, *rest = [json.dumps(line) for line in sample("cursor/transcript.jsonl")]
    path.write_text("\n".join([first, "{torn", *rest]))
    (found,) = il.read(path)
    assert len(found.entries) == 4
    assert [problem.line for problem in found.problems] == [2]


def database(path: Path, **rows: Any) -> Path:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        for key, value in rows.items():
            connection.execute("INSERT INTO cursorDiskKV VALUES (?, ?)", (key.replace("__", ":"), json.dumps(value)))
    connection.close()
    return path


def test_chats_of_cursors_database_are_read_in_the_order_of_their_headers(tmp_path: Path) -> None:
    """A bubble holds its call with the result; a composer without messages is no conversation."""
    chat = sample("cursor/chat.json")
    headers = [{"bubbleId": bubble["bubbleId"]} for bubble in chat["bubbles"]]
    rows = {f"bubbleId__x__{bubble['bubbleId']}": bubble for bubble in reversed(chat["bubbles"])}
    composer = {**chat["composer"], "fullConversationHeadersOnly": headers}
    path = database(tmp_path / "state.vscdb", composerData__x=composer, composerData__y={"name": "empty"}, **rows)
    (found,) = il.read(path)
    assert outline(found) == [
        "user: How many eggs?",
        "assistant:  read_file()",
        'read_file -> {"contents":"12"}',
        "assistant: Twelve.",
    ]
    assert (found.title, found.model.id) == ("Eggs", "gpt-4")
    assert found.messages[1].usage == il.Usage.of(10, 4)
    assert found.messages[1].thinking == "I count."


def test_tabs_of_an_old_cursor_are_chats(tmp_path: Path) -> None:
    """The panel of old versions, in the table that VS Code has for everything."""
    path = tmp_path / "state.vscdb"
    tabs = [{"tabId": "t", "chatTitle": "Eggs", "bubbles": [{"type": "user", "text": "How many?"}]}]
    tabs[0]["bubbles"].append({"type": "ai", "text": "Twelve.", "modelType": "gpt-4"})
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE ItemTable (key TEXT, value BLOB)")
        key = "workbench.panel.aichat.view.aichat.chatdata"
        connection.execute("INSERT INTO ItemTable VALUES (?, ?)", (key, json.dumps({"tabs": tabs})))
    connection.close()
    (found,) = il.read(path)
    assert outline(found) == ["user: How many?", "assistant: Twelve."]
    assert found.title == "Eggs"


STORED = [
    {"role": "system", "content": "You are an agent."},
    {"role": "user", "content": [{"type": "text", "text": "<user_info>\nOS: linux\n</user_info>"}]},
    {"role": "user", "content": [{"type": "text", "text": "<user_query>\nCount the eggs\n</user_query>"}]},
    {
        "role": "assistant",
        "id": "1",
        "content": [
            {
                "type": "reasoning",
                "text": "Look",
                "signature": "sig",
                "providerOptions": {"cursor": {"modelName": "claude-x"}},
            },
            {"type": "tool-call", "toolCallId": "t1", "toolName": "Shell", "args": {"command": "ls"}},
        ],
    },
    {
        "role": "tool",
        "id": "t1",
        "content": [{"type": "tool-result", "toolCallId": "t1", "toolName": "Shell", "result": "12"}],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "Twelve."}]},
]


def cursor_store(path: Path, messages: list[Any], *, root: bytes | None = None) -> Path:
    """A `store.db`: messages by their hash, a root with the hashes, and `meta` in hexadecimal."""
    made = b""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB)")
        connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
        for message in messages:
            data = json.dumps(message).encode()
            hashed = hashlib.sha256(data).digest()
            connection.execute("INSERT INTO blobs VALUES (?, ?)", (hashed.hex(), data))
            made += b"\x0a\x20" + hashed
        # Fields after the hashes: a text of 200 bytes, a number, eight and four bytes.
        made += b"\x4a\xc8\x01" + b"/" * 200 + b"\x50\x96\x01" + b"\x59" + b"\0" * 8 + b"\x65" + b"\0" * 4
        made = made if root is None else root
        connection.execute("INSERT INTO blobs VALUES ('root', ?)", (made,))
        agent = {"agentId": "a", "latestRootBlobId": "root", "name": "Eggs", "lastUsedModel": "claude-x"}
        connection.execute("INSERT INTO meta VALUES ('0', ?)", (json.dumps(agent).encode().hex(),))
    return path


def test_the_database_of_cursors_command_line_is_read(tmp_path: Path) -> None:
    """In the order of the root; the program's context is no message of a person."""
    path = cursor_store(tmp_path / "store.db", STORED)
    (conversation,) = il.read(path)
    assert (conversation.title, conversation.system) == ("Eggs", "You are an agent.")
    assert conversation.model is not None and conversation.model.id == "claude-x"
    context, question, call, result, answer = conversation.messages
    assert isinstance(context, il.UserMessage) and context.origin == "program"
    assert isinstance(question, il.UserMessage) and question.origin is None
    assert isinstance(call, il.AssistantMessage) and call.model == "claude-x"
    assert call.content == (
        il.ThinkingBlock(thinking="Look", thinking_signature="sig"),
        il.ToolCall(id="t1", name="Shell", arguments={"command": "ls"}),
    )
    assert isinstance(result, il.ToolResultMessage) and (result.tool_call_id, result.content) == ("t1", "12")
    assert isinstance(answer, il.AssistantMessage) and answer.text == "Twelve."
    body = il.encode(conversation, "cursor").body
    assert body["messages"] == STORED and body["agent"]["name"] == "Eggs"
    assert il.decode(body) == conversation


@pytest.mark.parametrize("root", [b"\x0a\xff", b"\x0b", b"\x0a\x20short", b"\x80" * 12])
def test_a_damaged_root_of_cursors_command_line_is_refused(tmp_path: Path, root: bytes) -> None:
    """Never read as an empty chat."""
    with pytest.raises(InterlinguaError, match="root of the chat"):
        list(il.read(cursor_store(tmp_path / "store.db", STORED, root=root)))


def test_a_chat_of_cursors_command_line_may_repeat_a_message_within_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same words twice are one blob; a root that names one blob a million times is refused."""
    asked = {"role": "user", "content": "Go on. " * 100}
    root = (b"\x0a\x20" + hashlib.sha256(json.dumps(asked).encode()).digest()) * 50
    path = cursor_store(tmp_path / "store.db", [asked], root=root)
    (conversation,) = il.read(path)
    assert len(conversation.messages) == 50
    monkeypatch.setattr(cursor, "MAX_CHAT", 10_000)
    with pytest.raises(InterlinguaError, match="more than 10,000 bytes"):
        list(il.read(path))


def test_a_database_with_the_same_tables_is_not_cursors(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE blobs (id, data)")
        connection.execute("CREATE TABLE meta (key, value)")
        connection.execute("INSERT INTO meta VALUES ('version', '7b7d')")
    with pytest.raises(InterlinguaError):
        list(il.read(path))


def test_another_programs_database_is_not_cursors(tmp_path: Path) -> None:
    """It is refused, not read as empty."""
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE people (name TEXT)")
    connection.close()
    with pytest.raises(InterlinguaError, match="no known format"):
        list(il.read(path))


def test_rounds_of_copilot_chat_are_responses_with_their_results() -> None:
    """Text, trees of prompt pieces and pictures; the context is the program's."""
    conversation = read("copilot-chat/session.json")
    assert outline(conversation) == [
        "program: <environment_info>\nmacOS\n</environment_info>",
        "user: How many eggs?",
        "assistant:  read_file() list_dir()",
        "read_file -> 12",
        "list_dir -> eggs.txt",
        "assistant: Twelve.",
        "user: Sure?",
        "assistant: Yes.",
    ]
    assert (conversation.title, conversation.model.id) == ("Eggs", "copilot/gpt-4.1")
    assert conversation.messages[2].thinking == "I look."


def test_a_log_of_copilot_chat_is_what_its_lines_amount_to() -> None:
    """Values that are set, appended, and cut before they are appended."""
    conversation = read("copilot-chat/log.jsonl")
    assert outline(conversation) == ["user: How many eggs?", "assistant: Twelve."]
    assert conversation.title == "Eggs"


def test_results_of_copilot_cli_stand_beside_their_calls() -> None:
    """In the order of the calls, failures as such; what no message asked for is the program's own."""
    conversation = read("copilot-cli/events.jsonl")
    assert outline(conversation) == [
        "user: How many eggs?",
        "assistant:  task() view()",
        "task -> 12",
        "view -> no such file",
        "assistant: Twelve.",
    ]
    assert [message.is_error for message in conversation.messages[2:4]] == [False, True]
    assert conversation.system == "You are the CLI."


def test_tokens_of_copilot_cli_are_counted_once_for_the_session() -> None:
    """By model; their input includes the cached part."""
    usage = read("copilot-cli/events.jsonl").usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write) == (37, 21, 60, 10)


def test_a_sub_agent_of_copilot_cli_is_a_branch() -> None:
    """It starts at the message that called it."""
    conversation = read("copilot-cli/events.jsonl")
    (entry,) = [entry for entry in conversation.entries if getattr(entry.message, "text", "") == "12 eggs"]
    assert entry.parent_id == "e3"
    assert entry not in conversation.path()


def test_history_that_was_rewound_stays_beside_the_path_of_copilot_cli() -> None:
    """What came after the event is in the tree, what follows hangs on what came before it."""
    lines = sample("copilot-cli/events.jsonl")
    again = {**lines[2], "id": "again", "data": {"content": "How many hens?"}}
    rewound = [*lines, {**lines[0], "id": "r", "type": "session.snapshot_rewind", "data": {"upToEventId": "e2"}}, again]
    conversation = dialect("copilot-cli").decode(rewound)
    assert outline(conversation) == ["user: How many hens?"]
    assert len(conversation.entries) == 7


def test_turns_of_specstory_have_times_and_models() -> None:
    """What tools did stays in the text; a rule inside a turn is the turn's."""
    conversation = read("specstory/session.md")
    assert [type(message).__name__ for message in conversation.messages] == [
        "UserMessage",
        "AssistantMessage",
        "UserMessage",
    ]
    asked, answer, thanks = conversation.messages
    assert (asked.text, asked.timestamp) == ("How many eggs are in a dozen?", 1778148000000)
    assert answer.text.endswith("</details></tool-use>\n\nTwelve.")
    assert (answer.model, thanks.text, conversation.title) == ("claude-opus-4-6", "---\nThanks", "Eggs")


@pytest.mark.parametrize("name", ["cursor", "copilot-chat", "copilot-cli"])
@pytest.mark.parametrize("body", [[], [{}], {"requests": []}, [{"role": "user", "content": "Hi"}], {"type": "user"}])
def test_a_look_alike_is_not_taken(name: str, body: Any) -> None:
    """Messages, events and requests of others."""
    assert not FORMATS[name].detect(body)


@pytest.mark.parametrize(
    ("about", "model"),
    [("model gpt-5.1, mode Agent", "gpt-5.1"), ("gpt-5.1 2026-01-03 12:46Z", "gpt-5.1"), ("2026-01-03 12:46Z", None)],
)
def test_a_turn_of_specstory_names_its_model_and_not_the_mode(about: str, model: str | None) -> None:
    """In Cursor's words or in those of others."""
    text = f"<!-- Generated by SpecStory -->\n\n# Eggs\n\n_**User**_\n\nHi\n\n---\n\n_**Agent ({about})**_\n\nHello.\n"
    conversation = dialect("specstory").decode(text)
    assert conversation.messages[-1].model == model
    assert il.encode(conversation, "specstory").body == text


def test_plain_markdown_is_no_session_of_specstory() -> None:
    """It needs a turn."""
    with pytest.raises(BadWire, match="turns"):
        dialect("specstory").decode("# Eggs\n\nHow many?")


def test_requests_of_copilot_chat_that_were_taken_back_are_off_the_path() -> None:
    """The program shows the session up to them; an answer that the user stopped says so."""
    session = sample("copilot-chat/session.json")
    asked = {"message": {"text": "Wrong"}, "response": [{"value": "Oh."}], "shouldBeRemovedOnSend": {"requestId": "x"}}
    before = outline(dialect("copilot-chat").decode(session))
    session["requests"][-1]["modelState"] = {"value": 2}
    session["requests"].append(asked)
    conversation = dialect("copilot-chat").decode(session)
    assert outline(conversation) == before
    assert conversation.messages[-1].stop_reason == "aborted"
    assert "Wrong" in [text_of(entry.message.content) for entry in conversation.entries]


def test_calls_that_copilot_chat_only_shows_are_calls() -> None:
    """Of other agents than its own, there are no rounds."""
    details = {"input": '{"path": "a"}', "output": [{"type": "embed", "isText": True, "value": "eggs"}]}
    shown = {"kind": "toolInvocationSerialized", "toolId": "read", "toolCallId": "c", "resultDetails": details}
    request = {"message": {"text": "Go"}, "response": [shown, {"value": "Done."}]}
    session = {"responderUsername": "x", "requests": [request]}
    assert outline(dialect("copilot-chat").decode(session)) == [
        "user: Go",
        "assistant:  read()",
        "read -> eggs",
        "assistant: Done.",
    ]


def event(kind: str, id: str, data: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": kind, "data": data, "id": id, "timestamp": "2026-01-01T00:00:00.000Z", "parentId": None, **fields}


def test_chunks_of_copilot_cli_are_one_response_and_pictures_are_in_results() -> None:
    """A response is split at its reasoning; a picture stands in an event of its own."""
    shot = {"toolCallId": "c", "name": "view", "arguments": {}}
    picture = {"assetId": "sha256:x", "mimeType": "image/png", "type": "image"}
    given = {"content": "ok", "binaryResultsForLlm": [picture]}
    lines = [
        event("user.message", "1", {"content": "Look"}),
        event("assistant.message", "2", {"content": "One.", "chunkIndex": 0, "chunkCount": 2, "toolRequests": [shot]}),
        event("assistant.message", "3", {"content": "Two.", "chunkIndex": 1, "chunkCount": 2}),
        event("session.binary_asset", "4", {"assetId": "sha256:x", "data": "aGk=", "mimeType": "image/png"}),
        event("tool.execution_complete", "5", {"toolCallId": "c", "success": True, "result": given}),
        event("assistant.message", "6", {"content": "Three.", "chunkIndex": 0, "chunkCount": 2}),
    ]
    conversation = dialect("copilot-cli").decode(lines)
    assert outline(conversation) == ["user: Look", "assistant: One.Two. view()", "view -> ok", "assistant: Three."]
    assert conversation.messages[2].content[1] == il.ImageBlock(data="aGk=", mime_type="image/png")


def test_copilot_cli_says_what_no_person_wrote_and_whose_events_are_a_sub_agent_s() -> None:
    """By the source of a message, and by the agent of an event, whose call stands where it was started."""
    task = {"toolCallId": "c", "name": "task", "arguments": {}}
    lines = [
        event("user.message", "1", {"content": "Old"}),
        event("session.context_cleared", "2", {"messagesCleared": 1}),
        event("user.message", "3", {"content": "Go"}),
        event("user.message", "4", {"content": "PDF", "source": "skill-pdf"}),
        event("assistant.message", "5", {"content": "", "toolRequests": [task]}),
        event("subagent.started", "6", {"toolCallId": "c"}, agentId="a1"),
        event("assistant.message", "7", {"content": "Inside."}, agentId="a1"),
        event("assistant.message", "8", {"content": "Done."}),
    ]
    conversation = dialect("copilot-cli").decode(lines)
    assert outline(conversation) == ["user: Go", "program: PDF", "assistant:  task()", "assistant: Done."]
    inside = next(entry for entry in conversation.entries if entry.id == "7")
    assert inside.parent_id == "5"
