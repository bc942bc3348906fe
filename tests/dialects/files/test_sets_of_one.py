"""Training sets that are JSON arrays: one row or many, read and returned as they came."""

import json
from typing import Any

import pytest

import interlingua as il
from dialects.files.samples import WIRE

EXAMPLE = {"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]}
ROWS: dict[str, Any] = {
    "sharegpt": {"conversations": [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}]},
    "openai-finetune": EXAMPLE,
    "alpaca": {"instruction": "Q", "input": "", "output": "A"},
    "bedrock-finetune": {
        "schemaVersion": "bedrock-conversation-2024",
        "messages": [{"role": "user", "content": [{"text": "Q"}]}, {"role": "assistant", "content": [{"text": "A"}]}],
    },
}


@pytest.mark.parametrize("name", sorted(ROWS))
def test_an_array_of_one_row_comes_back_as_an_array(name: str) -> None:
    """By `decode` as by `read`; the row alone comes back alone."""
    row = ROWS[name]
    (read,) = il.read(json.dumps([row]).encode(), name)
    assert [row] == il.encode(read, name).body == il.encode(il.decode([row], name), name).body
    assert row == il.encode(il.decode(row, name), name).body


@pytest.mark.parametrize("name", sorted(ROWS))
@pytest.mark.parametrize("rest", ["", "\n", "\n\n", '\n{"torn'])
def test_one_line_comes_back_as_one_row(name: str, rest: str) -> None:
    """Also if a line after it cannot be read, which is reported."""
    data = json.dumps(ROWS[name]).encode() + rest.encode()
    decoded = il.decode(data, name)
    assert ROWS[name] == il.encode(decoded, name).body
    assert ("torn" in rest) is bool(decoded.problems)
    assert all(ROWS[name] == il.encode(one, name).body for one in il.read(data, name))


@pytest.mark.parametrize("name", sorted(ROWS))
def test_an_array_of_rows_is_as_many_conversations(name: str) -> None:
    """Also where the format is named."""
    read = list(il.read(json.dumps([ROWS[name]] * 3).encode(), name))
    assert [ROWS[name]] * 3 == [il.encode(one, name).body for one in read]


def test_a_set_of_one_is_one_row_elsewhere() -> None:
    """How a file was laid out belongs to its own format."""
    assert EXAMPLE == il.convert([ROWS["sharegpt"]], "openai-finetune").body


def test_rows_with_images_are_not_ollama_s_messages() -> None:
    """LLaMA-Factory names the pictures of a row beside its messages; a message of Ollama's has a role."""
    rows = [{**EXAMPLE, "images": ["cat.png"]}] * 2
    found = il.detect(rows)
    assert found is None or "ollama-chat" != found.dialect
    assert [2, 2] == [len(one.messages) for one in il.read(json.dumps(rows).encode())]


SESSIONS = [
    "amp/T-1.json",
    "attocode/chat.json",
    "cline/sdk.messages.json",
    "hermes/session.json",
    "lobe-chat/topic.json",
    "qodo/thread.json",
    "semantic-kernel/history.json",
    "vercel-ui/chat.json",
    "vibe/session.json",
    "zed/older.json",
]


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("name", SESSIONS)
def test_sessions_in_an_array_are_not_training_rows(name: str, number: int) -> None:
    """They have `messages`, as rows do, and are read as each of them alone."""
    session = json.loads((WIRE / name).read_bytes())
    alone = il.decode(session)
    found = il.detect([session] * number)
    assert found is None or found.dialect == name.partition("/")[0]
    read = list(il.read(json.dumps([session] * number).encode()))
    assert [one.messages for one in read] == [alone.messages] * number
