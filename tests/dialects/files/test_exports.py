"""Data exports of chat programs: claude.ai, DeepSeek, Grok, AI Studio, Open WebUI, LibreChat."""

import io
import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import interlingua as il
from dialects.files.samples import outline, read, sample
from interlingua.dialects import FORMATS, dialect
from interlingua.values.errors import BadWire
from interlingua.values.messages import text_of


def zipped(**members: Any) -> bytes:
    """A zip of JSON files by name, without their ending."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, value in members.items():
            archive.writestr(f"data/{name}.json", json.dumps(value))
    return out.getvalue()


def test_an_answer_of_claude_ai_that_used_tools_is_the_responses_that_it_was() -> None:
    """Calls and results without ids are paired in order; what follows a result is the next response."""
    conversation = read("claude-web-export/conversation.json")
    assert outline(conversation) == [
        "user: How many eggs are in a dozen?",
        "assistant: Let me look. web_search()",
        "web_search -> dozen: 12",
        "assistant: Twelve.",
        "user: Thanks",
        "assistant: You are welcome.",
    ]
    assert conversation.title == "Eggs"
    assert conversation.messages[1].thinking == "The file may say it."


def test_a_branch_of_claude_ai_stays_beside_the_path() -> None:
    """The path leads to the current leaf; the question that was asked instead is in the tree."""
    conversation = read("claude-web-export/conversation.json")
    assert conversation.head == "m4"
    beside = {entry.id for entry in conversation.entries} - {entry.id for entry in conversation.path()}
    assert beside == {"m5"}


def test_messages_of_claude_ai_that_name_no_parent_follow_one_another() -> None:
    """A null for all of them makes no roots."""
    asked, answered = ({"uuid": w, "sender": w, "text": w, "parent_message_uuid": None} for w in ("human", "assistant"))
    body = {"uuid": "c", "name": "Eggs", "chat_messages": [asked, answered]}
    conversation = il.decode(body)
    assert ["human", "assistant"] == [message.text for message in conversation.messages]
    assert body == il.encode(conversation, "claude-web-export").body


def test_files_attached_in_claude_ai_are_documents_and_pictures() -> None:
    """Their text is what the model read."""
    document, image, _ = read("claude-web-export/conversation.json").messages[0].content
    assert (document.text, document.title, image.file_id) == ("A dozen is a count.", "eggs.txt", "f1")


def test_an_export_of_claude_ai_is_read_out_of_its_zip() -> None:
    """Several conversations, beside the files of users and projects."""
    conversations = [sample("claude-web-export/conversation.json"), *sample("claude-web-export/export.json")]
    titles = [found.title for found in il.read(zipped(conversations=conversations, users=[]))]
    assert titles == ["Eggs", ""]


def test_deepseek_is_no_chatgpt() -> None:
    """The same tree, but messages of fragments; the last leaf is where it stands."""
    conversation = read("deepseek-export/conversation.json")
    assert outline(conversation) == ["user: How many eggs are in a dozen?", "assistant: Twelve."]
    answer = conversation.messages[1]
    assert (answer.thinking, answer.model) == ("A dozen is a count.", "deepseek-reasoner")
    assert len(conversation.entries) == 3
    (found,) = il.read(zipped(conversations=[sample("deepseek-export/conversation.json")], user={}))
    assert found.title == "Eggs"


def test_grok_has_responses_and_the_model_that_was_asked() -> None:
    """Senders in any spelling, times as text or as MongoDB writes them."""
    conversation = read("grok-export/export.json")
    assert outline(conversation) == ["user: How many eggs are in a dozen?", "assistant: Twelve."]
    asked, answer = conversation.messages
    assert (asked.timestamp, answer.model, answer.thinking) == (1750534101177, "grok-3", "A dozen is a count.")


def test_an_export_of_grok_is_no_sharegpt() -> None:
    """Conversations of titled messages are taken apart, and each is still known as Grok's."""
    one = {"id": "1", "title": "A", "messages": [{"role": "user", "content": "Hi"}]}
    export = {"conversations": [one, {**one, "title": "B"}]}
    assert il.detect(export).dialect == "grok-export"
    assert [found.title for found in il.read(json.dumps(export).encode())] == ["A", "B"]


def test_chunks_of_the_model_in_a_row_are_one_answer_of_ai_studio() -> None:
    """Its thoughts are thinking; files in Drive are named by their ids."""
    conversation = read("aistudio/prompt.json")
    assert outline(conversation) == ["user: How many eggs are in a dozen?", "assistant: Twelve."]
    asked, answer = conversation.messages
    assert asked.content[0].file_id == "1abc"
    assert (answer.thinking, answer.model) == ("A dozen is a count.", "models/gemini-2.5-pro")
    assert (conversation.system, conversation.options.top_k) == ("Be brief.", 64)


def test_a_message_of_claude_ai_may_name_its_role() -> None:
    """As some copies of an export do: the question is not an answer."""
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    (conversation,) = il.read(json.dumps([{"uuid": "c", "name": "Eggs", "chat_messages": messages}]).encode())
    assert outline(conversation) == ["user: Hi", "assistant: Hello."]


def test_open_webui_stands_at_its_current_message() -> None:
    """Other answers are branches; the usage is in the words of whoever served the model."""
    conversation = read("open-webui/export.json")
    assert outline(conversation) == ["user: How many eggs are in a dozen?", "assistant: Twelve."]
    assert (conversation.head, len(conversation.entries), conversation.title) == ("a2", 3, "Eggs")
    assert conversation.messages[1].usage == il.Usage.of(26, 3)
    assert conversation.messages[0].content[0].mime_type == "image/png"


def test_a_call_of_librechat_has_its_output_beside_it() -> None:
    """Parts of an answer become its rounds."""
    conversation = dialect("librechat").decode(sample("librechat/flat.json"))
    first = il.Conversation(entries=conversation.entries, head="m2")
    assert outline(first) == [
        "user: How many eggs are in a dozen?",
        "assistant:  count()",
        "count -> 12",
        "assistant: Twelve.",
    ]
    assert (conversation.system, conversation.model.id, conversation.title) == ("Be brief.", "gpt-4o", "Eggs")
    assert outline(conversation)[-1] == "assistant: A dozen."


def test_a_nested_tree_of_librechat_is_a_tree() -> None:
    """Children stand inside their parents."""
    assert outline(read("librechat/nested.json")) == ["user: How many?", "assistant: Twelve."]


FILES = {
    "claude-web-export": "conversation",
    "deepseek-export": "conversation",
    "grok-export": "export",
    "open-webui": "export",
    "librechat": "flat",
    "aistudio": "prompt",
}
EXPORTS = [name for name in FILES if name != "aistudio"]


@pytest.mark.parametrize("name", EXPORTS)
def test_one_of_several_must_be_taken(name: str) -> None:
    """`decode` is for one conversation; `split` and `il.read` give all."""
    body = sample(f"{name}/{FILES[name]}.json")
    inner = body["conversations"][0] if name == "grok-export" else body[0] if isinstance(body, list) else body
    several = {"conversations": [inner, inner]} if name == "grok-export" else [inner, inner]
    with pytest.raises(BadWire, match="take one of them"):
        dialect(name).decode(several)
    assert len(FORMATS[name].split(several)) == 2
    assert len(list(il.read(json.dumps(several).encode()))) == 2


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("body", [{}, [], [1], {"messages": []}, {"mapping": 3}, {"conversations": [{}]}])
def test_what_is_no_export_is_refused(name: str, body: Any) -> None:
    """With the place, and never read as an empty conversation."""
    assert not FORMATS[name].detect(body)
    with pytest.raises(BadWire):
        dialect(name).decode(body)


@pytest.mark.parametrize("name", FILES)
def test_a_new_message_is_refused(name: str) -> None:
    """Nothing says how the program would write a message that it never had."""
    conversation = dialect(name).decode(sample(f"{name}/{FILES[name]}.json"))
    more = il.Entry(message=il.UserMessage(content="More?"))
    with pytest.raises(il.Unsupported, match="read and returned"):
        dialect(name).encode(replace(conversation, entries=(*conversation.entries, more)))


@pytest.mark.parametrize("name", FILES)
def test_a_change_that_the_file_has_no_place_for_is_reported(name: str) -> None:
    """A text is written as it is now; the time of an answer stays as it was."""
    conversation = dialect(name).decode(sample(f"{name}/{FILES[name]}.json"))
    changed = [
        replace(entry, message=replace(entry.message, timestamp=1))
        if isinstance(entry.message, il.AssistantMessage)
        else entry
        for entry in conversation.entries
    ]
    body, losses = dialect(name).encode(replace(conversation, entries=tuple(changed)))
    assert body == sample(f"{name}/{FILES[name]}.json")
    assert any(loss.path.endswith(".timestamp") for loss in losses)


def test_the_database_of_open_webui_holds_the_chats_of_its_export(tmp_path: Path) -> None:
    """In the order of their creation; the copy that was shared is no second chat, and an old one is a list."""
    row = sample("open-webui/export.json")[0]
    old = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello.", "model": "m"}]}
    with sqlite3.connect(tmp_path / "webui.db") as connection:
        connection.execute(
            "CREATE TABLE chat (id TEXT, user_id TEXT, title TEXT, created_at INTEGER, chat JSON, meta JSON)"
        )
        for id, user, title, when, chat in (
            ("a", "u", "Counting", 2, row["chat"]),
            ("b", "shared-a", "Counting", 3, row["chat"]),
            ("c", "u", "Greeting", 1, old),
        ):
            given = (id, user, title, when, json.dumps(chat), "{}")
            connection.execute("INSERT INTO chat VALUES (?, ?, ?, ?, ?, ?)", given)
    connection.close()
    greeting, counting = il.read(tmp_path / "webui.db")
    assert (greeting.title, [text_of(message.content) for message in greeting.messages]) == (
        "Greeting",
        ["Hi", "Hello."],
    )
    assert counting.messages == read("open-webui/export.json").messages
    body = il.encode(counting, "open-webui").body
    assert (body["id"], body["chat"], body["meta"]) == ("a", row["chat"], {})


@pytest.mark.parametrize("name", ["librechat/flat.json", "open-webui/export.json", "deepseek-export/conversation.json"])
def test_another_parent_of_a_message_is_a_loss(name: str) -> None:
    """The file says which message follows which, and stays as it was."""
    conversation = read(name)
    assert () == il.encode(conversation, name.partition("/")[0]).losses
    *others, last = conversation.entries
    assert last.parent_id is not None
    moved = replace(conversation, entries=(*others, replace(last, parent_id=None)))
    losses = il.encode(moved, name.partition("/")[0]).losses
    assert (f"$.entries[{len(others)}].parentId", "weakened") in [(loss.path, loss.severity) for loss in losses]
