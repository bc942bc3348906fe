"""Public data sets and batches: LMSYS, WildChat, OASST, HH-RLHF, UltraChat, Dolly, Bedrock, Vertex AI, Pydantic AI."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import interlingua as il
from dialects.files.samples import WIRE, outline, read, sample
from interlingua.cli.convert import command as convert
from interlingua.values.messages import AssistantMessage

ASKED = "user: How many eggs are in a dozen?"
PATHS = {
    "chat-arena/chat.json": [ASKED, "assistant: Twelve."],
    "chat-arena/battle.json": [ASKED, "assistant: Twelve."],
    "chatbot-ui/export.json": [ASKED, "assistant: Twelve."],
    "oasst/tree.json": [ASKED, "assistant: Twelve.", "user: Thanks"],
    "oasst/messages.json": [ASKED, "assistant: Twelve."],
    "pydantic-ai/messages.json": [
        ASKED,
        "assistant: Let me look. read()",
        'read -> {"dozen":12}',
        "assistant: Twelve.",
    ],
    "cloud-batch/bedrock.json": [ASKED, "assistant: Twelve."],
    "cloud-batch/vertex.json": [ASKED, "assistant: Twelve."],
    "cloud-batch/failed.json": [ASKED, "assistant: "],
    "trl/dialogue.json": [ASKED, "assistant: Twelve.", "user: Sure?", "assistant: Yes."],
    "trl/logged.json": [ASKED, "assistant: Twelve."],
    "trl/messages_beside.json": [ASKED, "assistant: Twelve."],
    "alpaca/context.json": ["user: How many eggs?\nA dozen eggs.", "assistant: Twelve."],
    "alpaca/question.json": [ASKED, "assistant: Twelve."],
}


@pytest.mark.parametrize("name", PATHS)
def test_a_row_is_detected_read_and_returned(name: str) -> None:
    """By its content alone; the path is what was chosen, won, or ranked first."""
    detection = il.detect((WIRE / name).read_bytes())
    assert detection is not None and detection.dialect == name.partition("/")[0]
    conversation = read(name)
    assert outline(conversation) == PATHS[name]
    assert json.loads(json.dumps(il.encode(conversation, detection.dialect).body)) == sample(name)


BRANCHES = {
    "chat-arena/battle.json": "Ten.",
    "oasst/tree.json": "Ten.",
    "trl/dialogue.json": "No.",
    "trl/messages_beside.json": "Ten.",
}


@pytest.mark.parametrize("name", BRANCHES)
def test_the_other_answer_is_a_branch(name: str) -> None:
    """Where the two part."""
    conversation = read(name)
    (beside,) = [entry.message for entry in conversation.entries if entry not in conversation.path()]
    assert beside.text == BRANCHES[name]


def test_pairs_are_rows_of_sharegpt() -> None:
    """Of questions and answers under two names, or of texts in turn; a row that has grown is written as turns."""
    rows = list(il.read(WIRE / "sharegpt/pairs.jsonl"))
    assert [outline(row)[:2] for row in rows] == [[ASKED, "assistant: Twelve."]] * 3
    assert [row.system for row in rows] == ["Be short.", "Be short.", None]
    assert [il.encode(row, "sharegpt").body for row in rows] == sample("sharegpt/pairs.jsonl")
    grown = replace(rows[2], entries=(*rows[2].entries, il.Entry(message=il.UserMessage(content="Thanks"))))
    assert il.encode(grown, "sharegpt").body["conversations"][-1] == {"from": "human", "value": "Thanks"}


def test_a_chat_names_its_model_and_its_time() -> None:
    """The row's own time is that of the last answer."""
    conversation = read("chat-arena/chat.json")
    assert conversation.model is not None and conversation.model.id == "gpt-4"
    assert conversation.messages[1].model == "gpt-4"
    assert conversation.messages[1].timestamp == 1680998573000
    assert read("chat-arena/battle.json").messages[1].model == "large"


def test_messages_of_several_trees_are_a_conversation_each() -> None:
    """A set of messages one by one holds many trees."""
    rows = sample("oasst/messages.json")
    others = [{**row, "message_id": row["message_id"] + "x", "message_tree_id": "other"} for row in rows[:1]]
    found = list(il.read(json.dumps([*rows, *others]).encode()))
    assert [len(conversation.entries) for conversation in found] == [3, 1]


@pytest.mark.parametrize("into", ["out.jsonl", "folder/"])
def test_lines_of_several_trees_come_back_as_lines(into: str, tmp_path: Path) -> None:
    rows = sample("oasst/messages.json")
    rows = [*rows, *({**row, "message_tree_id": "other"} for row in rows)]
    source, out = tmp_path / "in.jsonl", f"{tmp_path}/{into}"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    done = CliRunner().invoke(convert, [str(source), "-t", "oasst", "-o", out])
    assert done.exit_code == 0, done.output
    written = Path(out) / "in.jsonl" if into.endswith("/") else Path(out)
    assert rows == [json.loads(line) for line in written.read_bytes().splitlines()]


def test_pydantic_ai_counts_in_disjoint_buckets() -> None:
    """Of newer and older names; the system text is the conversation's, a picture stands where it was."""
    conversation = read("pydantic-ai/messages.json")
    answers = [message for message in conversation.messages if isinstance(message, AssistantMessage)]
    assert [(a.usage.input, a.usage.cache_read, a.usage.output) for a in answers if a.usage] == [
        (20, 30, 9),
        (60, 0, 2),
    ]
    assert conversation.system == "Be short."
    assert conversation.messages[0].content[1].url == "https://example.com/eggs.png"
    assert answers[0].thinking == "It may be in the file."


def test_a_batch_of_a_cloud_has_usage_model_and_errors() -> None:
    """The answer is read by the dialect of the model that was asked."""
    bedrock, vertex, failed = (read(f"cloud-batch/{name}.json") for name in ("bedrock", "vertex", "failed"))
    assert [c.messages[1].usage.output for c in (bedrock, vertex)] == [3, 2]
    assert bedrock.model is not None and bedrock.model.id == "claude-3-haiku"
    assert failed.messages[1].error_message == "too long"


ROWS: dict[str, Any] = {
    "an input with an answer of another shape": {"input": [{"role": "user", "content": "Hi"}], "output": [{"x": 1}]},
    "a prompt that is an object": {"prompt": {"text": "Hi"}},
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_a_row_whose_answer_would_be_lost_is_refused(row: Any) -> None:
    """It is no request without its answer."""
    assert il.detect(json.dumps(row)) is None


def test_an_export_of_chatbot_ui_holds_many_conversations() -> None:
    """Each with its name, its model and its system text; lists of them are older exports."""
    export = sample("chatbot-ui/export.json")
    one = export["history"][0]
    for body in ({**export, "history": [one, {**one, "name": "Milk"}]}, [one, {**one, "name": "Milk"}]):
        found = list(il.read(json.dumps(body).encode()))
        assert [conversation.title for conversation in found] == ["Eggs", "Milk"]
        assert found[0].system == "Be short." and found[0].messages[1].model == "gpt-3.5-turbo"


def test_files_of_a_person_in_deepseek_are_no_answer() -> None:
    """A fragment that is neither a request nor a response belongs to the message that it stands in."""
    fragments = [{"type": "FILE", "content": "a.txt"}, {"type": "REQUEST", "content": "Hi"}]
    nodes = {
        "1": {"id": "1", "parent": None, "children": ["2"], "message": {"fragments": fragments}},
        "2": {
            "id": "2",
            "parent": "1",
            "children": [],
            "message": {"fragments": [{"type": "TEMPLATE_RESPONSE", "content": "No."}]},
        },
    }
    body = {"id": "c", "title": "T", "inserted_at": "2025-01-01T00:00:00Z", "mapping": nodes}
    conversation = il.decode(body)
    assert outline(conversation) == ["user: Hi", "assistant: No."]
    assert il.encode(conversation, "deepseek-export").body == body


LISTS = ["oasst/messages.json", "langchain/messages.json", "pydantic-ai/messages.json", "cline/ui_messages.json"]


@pytest.mark.parametrize("name", LISTS)
def test_json_lines_of_one_conversation_come_back_as_lines(name: str) -> None:
    """Also in formats whose documents are usually one array."""
    data = b"".join(json.dumps(row).encode() + b"\n" for row in sample(name))
    (conversation,) = il.read(data)
    encoded = il.encode(conversation, name.partition("/")[0])
    assert [json.loads(line) for line in encoded.bytes().splitlines()] == sample(name)
    assert encoded.losses == ()
