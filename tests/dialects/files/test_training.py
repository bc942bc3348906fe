"""Rows of training sets: LLaMA-Factory v1, TRL, Bedrock, pairs of ShareGPT, and plain arrays."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from dialects.files.samples import outline, read, sample
from interlingua.conversion.containers import write_rows
from interlingua.dialects import FORMATS, dialect
from interlingua.values.errors import BadWire


def test_a_row_of_llama_factory_has_calls_as_text() -> None:
    """Calls and results are paired in order; the tools on offer are JSON text, too."""
    conversation = read("llama-factory/row.json")
    assert outline(conversation) == ["user: How many eggs?", "assistant:  count()", "count -> 12", "assistant: Twelve."]
    assert conversation.messages[1].tool_calls[0].arguments == {"what": "eggs"}
    assert conversation.messages[1].thinking == "I count."
    assert (conversation.system, conversation.tools[0].name) == ("Be brief.", "count")


PAIRS = ["llama-factory/pair.json", "llamafactory-messages/pair.json", "trl/pair.json", "trl/implicit.json"]


@pytest.mark.parametrize("name", PAIRS)
def test_the_rejected_answer_is_a_branch_where_they_part(name: str) -> None:
    """The chosen one is on the path; both answer the same question."""
    conversation = read(name)
    assert outline(conversation)[-2:] == ["user: How many eggs?", "assistant: Twelve."]
    (other,) = [entry for entry in conversation.entries if entry not in conversation.path()]
    assert other.message.text == "Ten."
    assert other.parent_id == conversation.path()[-2].id


QUESTION, TWELVE, TEN = (
    {"role": role, "content": text}
    for role, text in (("user", "How many eggs?"), ("assistant", "Twelve."), ("assistant", "Ten."))
)
TURNS = [{"from": "human", "value": "How many eggs?"}, {"from": "gpt", "value": "Twelve."}]
CALLED = [
    {"role": "tool_call", "content": '{"name": "count", "arguments": {}}'},
    {"role": "tool_response", "content": "12"},
]
SWIFT: dict[str, tuple[str, dict[str, Any]]] = {
    "text": ("llamafactory-messages", {"messages": [QUESTION, TWELVE], "rejected_response": "Ten."}),
    "messages": ("llamafactory-messages", {"messages": [QUESTION, TWELVE], "rejected_messages": [QUESTION, TEN]}),
    "query": ("alpaca", {"query": "How many eggs?", "response": "Twelve.", "rejected_response": "Ten."}),
    "turns": ("sharegpt", {"conversations": TURNS, "rejected_response": "Ten."}),
    "calls": ("sharegpt", {"messages": [QUESTION, *CALLED, TWELVE], "rejected_response": "Ten.", "tools": "[]"}),
    "calls in messages": (
        "sharegpt",
        {"messages": [QUESTION, *CALLED, TWELVE], "rejected_messages": [QUESTION, *CALLED, TEN], "margin": 0.5},
    ),
}


@pytest.mark.parametrize(("name", "row"), SWIFT.values(), ids=SWIFT.keys())
def test_the_rejected_answer_of_ms_swift_is_a_branch_beside_the_chosen_one(name: str, row: dict[str, Any]) -> None:
    """The chosen one ends the messages; the row returns as it is, and is a preference in other formats."""
    (conversation,) = il.read(json.dumps(row).encode())
    assert outline(conversation)[0] == "user: How many eggs?"
    assert outline(conversation)[-1] == "assistant: Twelve."
    (other,) = [entry for entry in conversation.entries if entry not in conversation.path()]
    assert (other.message.text, other.parent_id) == ("Ten.", conversation.path()[-2].id)
    assert il.detect(row).dialect == name
    assert il.encode(conversation, name).body == row
    preference = il.encode(conversation, "openai-finetune").body
    assert preference["non_preferred_output"] == [TEN]


NINE = {"role": "assistant", "content": "Nine."}
SEVERAL: dict[str, tuple[str, dict[str, Any]]] = {
    "texts": ("llamafactory-messages", {"messages": [QUESTION, TWELVE], "rejected_response": ["Ten.", "Nine."]}),
    "messages": (
        "llamafactory-messages",
        {"messages": [QUESTION, TWELVE], "rejected_messages": [[QUESTION, TEN], [QUESTION, NINE]]},
    ),
    "query": ("alpaca", {"query": "How many eggs?", "response": "Twelve.", "rejected_response": ["Ten.", "Nine."]}),
    "turns": ("sharegpt", {"conversations": TURNS, "rejected_response": ["Ten.", "Nine."]}),
    "calls in messages": (
        "sharegpt",
        {
            "messages": [QUESTION, *CALLED, TWELVE],
            "rejected_messages": [[QUESTION, *CALLED, TEN], [QUESTION, *CALLED, NINE]],
        },
    ),
}


@pytest.mark.parametrize(("name", "row"), SEVERAL.values(), ids=SEVERAL.keys())
def test_several_rejected_answers_of_ms_swift_are_a_branch_each(name: str, row: dict[str, Any]) -> None:
    """A pair of two answers has no room for them, and is not made of the first alone: all of them are reported."""
    (conversation,) = il.read(json.dumps(row).encode())
    assert outline(conversation)[-1] == "assistant: Twelve."
    others = [entry for entry in conversation.entries if entry not in conversation.path()]
    assert [entry.message.text for entry in others] == ["Ten.", "Nine."]
    assert {entry.parent_id for entry in others} == {conversation.path()[-2].id}
    assert il.detect(row).dialect == name
    assert il.encode(conversation, name).body == row
    body, losses = il.encode(conversation, "openai-finetune")
    assert "non_preferred_output" not in body
    lost = [f"$.entries[{at}]" for at, entry in enumerate(conversation.entries) if entry in others]
    assert set(lost) <= {loss.path for loss in losses}


def test_the_tools_and_pictures_of_a_pair_of_ms_swift_are_read() -> None:
    """`rejected_images` are those of the rejected messages."""
    tool = {"type": "function", "function": {"name": "count", "parameters": {"type": "object"}}}
    asked = {"role": "user", "content": "<image>How many eggs?"}
    files = {"images": ["a.png"], "rejected_images": ["b.png"]}
    row = {"messages": [asked, TWELVE], "rejected_messages": [asked, TEN], **files, "tools": json.dumps([tool])}
    conversation = il.decode(row)
    assert conversation.tools is not None and conversation.tools[0].name == "count"
    asks = [entry.message for entry in conversation.entries if isinstance(entry.message, il.UserMessage)]
    assert [message.content[0].url for message in asks] == ["a.png", "b.png"]
    assert il.encode(conversation, "llamafactory-messages").body == row


def test_a_prompt_and_its_completion_are_a_turn() -> None:
    """As text; the label stays with the row."""
    assert outline(read("trl/label.json")) == ["user: How many eggs?", "assistant: Twelve."]
    assert il.encode(read("trl/label.json"), "trl").body["label"] is True


@pytest.mark.parametrize("column", ["conversations", "conversation", "dialogue", "dialog"])
def test_a_column_of_messages_may_have_another_name(column: str) -> None:
    """Roles and contents under the name that another format has for its turns; calls, tools and other columns stay."""
    row = json.loads(json.dumps(sample("trl/column.json")).replace('"conversations"', f'"{column}"'))
    assert il.detect(row).dialect == "trl"
    conversation = il.decode(row)
    assert outline(conversation) == ["user: How many eggs?", "assistant:  count()", "count -> 12", "assistant: Twelve."]
    assert (conversation.system, conversation.tools[0].name) == ("Be brief.", "count")
    assert il.encode(conversation, "trl").body == row


def test_a_row_of_bedrock_is_a_request_of_converse() -> None:
    """With its system text."""
    conversation = read("bedrock-finetune/row.json")
    assert outline(conversation) == ["user: How many eggs?", "assistant: Twelve."]
    assert conversation.system[0].text == "Be brief."


PAIR = {
    "conversations": [{"from": "system", "value": "Be brief."}, {"from": "human", "value": "How many eggs?"}],
    "chosen": {"from": "gpt", "value": "Twelve.", "score": 2},
    "rejected": {"from": "gpt", "value": "Ten."},
    "id": 7,
}


def test_a_pair_of_sharegpt_comes_back_with_both_answers() -> None:
    """The chosen answer is on the path, and nothing is reported as lost."""
    conversation = il.decode(PAIR)
    assert outline(conversation) == ["user: How many eggs?", "assistant: Twelve."]
    body, losses = il.encode(conversation, "sharegpt")
    assert (body, list(losses)) == (PAIR, [])
    assert [len(list(il.read(json.dumps([PAIR] * rows).encode()))) for rows in (1, 3)] == [1, 3]


def test_a_pair_of_sharegpt_in_other_words_is_kept() -> None:
    """An answer that is no turn of the model stays beside the turns as it is."""
    odd = {**PAIR, "rejected": {"from": "human", "value": "Ten."}}
    conversation = il.decode(odd)
    assert outline(conversation) == ["user: How many eggs?"]
    assert il.encode(conversation, "sharegpt").body == odd


MESSAGES = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}]
ROWS: list[Any] = [
    {"messages": MESSAGES},
    {"messages": MESSAGES, "label": True},
    {"messages": MESSAGES, "images": ["a.jpg"]},
    {"system": "Be brief.", "messages": MESSAGES},
    MESSAGES,
]


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("count", [1, 3])
def test_an_array_of_conversations_is_read_one_by_one(row: Any, count: int) -> None:
    """As the same rows are when they are lines."""
    array, lines = json.dumps([row] * count), "\n".join([json.dumps(row)] * count)
    for text in (array, lines):
        found = list(il.read(text.encode()))
        assert [outline(one) for one in found] == [["user: Hi", "assistant: Yes"]] * count


def test_a_title_beside_messages_is_the_conversations() -> None:
    """Programs that keep conversations as requests write one; it goes back where it stood."""
    body = {"id": "1", "title": "Greeting", "messages": MESSAGES}
    conversation = il.decode(body)
    assert conversation.title == "Greeting"
    assert il.encode(conversation, "openai-completions").body == body


@pytest.mark.parametrize("name", ["llama-factory", "llamafactory-messages", "trl", "bedrock-finetune"])
@pytest.mark.parametrize("body", [{}, [], {"messages": MESSAGES}, {"prompt": "Hi"}, {"chosen": "a", "rejected": "b"}])
def test_what_is_no_row_is_refused(name: str, body: Any) -> None:
    """With the place, and never read as an empty conversation."""
    assert not FORMATS[name].detect(body)
    with pytest.raises(BadWire):
        dialect(name).decode(body)


def test_rows_of_a_set_must_be_taken_one_by_one() -> None:
    """`decode` is for one row."""
    for name, file in (("llama-factory", "row"), ("trl", "pair")):
        rows = [sample(f"{name}/{file}.json")] * 2
        with pytest.raises(BadWire, match="take one of them"):
            dialect(name).decode(rows)
        assert len(list(il.read(json.dumps(rows).encode()))) == 2


def test_pictures_of_llama_factory_stand_where_their_marks_are() -> None:
    """In rows of messages and in ShareGPT's turns; a row whose marks and files do not match is kept as it is."""
    row = {
        "conversations": [
            {"from": "human", "value": "Look: <image> How many?"},
            {"from": "gpt", "value": "12 <image>"},
        ],
        "images": ["demo/eggs.jpg"],
        "id": 1,
    }
    conversation = il.decode(row, "sharegpt")
    before, picture, after = conversation.messages[0].content or ()
    assert isinstance(picture, il.ImageBlock) and "demo/eggs.jpg" == picture.url
    assert ("Look: ", " How many?") == (before.text, after.text)
    assert row == il.encode(conversation, "sharegpt").body
    odd = {**row, "images": ["a", "b"]}
    assert "Look: <image> How many?" == il.decode(odd, "sharegpt").messages[0].content
    assert odd == il.encode(il.decode(odd, "sharegpt"), "sharegpt").body


def test_pictures_of_other_conversations_are_written_into_sharegpt() -> None:
    """By URL or as data, in the turns of a person; those of others are reported lost."""
    picture = il.ImageBlock(data="iVBORw0KGgo=", mime_type="image/png")
    entries = (
        il.Entry(message=il.UserMessage(content=(il.TextBlock(text="What is it?"), picture))),
        il.Entry(message=il.AssistantMessage(content=(il.TextBlock(text="This:"), picture))),
    )
    encoded = il.encode(il.Conversation(entries=entries), "sharegpt")
    assert "What is it?<image>" == encoded.body["conversations"][0]["value"]
    assert ["data:image/png;base64,iVBORw0KGgo="] == encoded.body["images"]
    assert any(loss.path.startswith("$.messages[1].content") for loss in encoded.losses)
    assert not any(loss.path.startswith("$.messages[0]") for loss in encoded.losses)


QUESTION, REPLY, OTHER = (
    {"role": "user", "content": "What is 2+2?"},
    {"role": "assistant", "content": "Four."},
    {"role": "assistant", "content": "Five."},
)
TURNS = [{"from": "human", "value": "What is 2+2?"}, {"from": "gpt", "value": "Four."}]
TOOL = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}},
}
SHAPES: dict[str, Any] = {
    "messages": {"messages": [QUESTION, REPLY]},
    "messages with tools": {"messages": [QUESTION, REPLY], "tools": [TOOL]},
    "a list of messages": [QUESTION, REPLY],
    "weights": {"messages": [QUESTION, {**REPLY, "weight": 0}, QUESTION, {**REPLY, "weight": 1}]},
    "a train mask": {"messages": [QUESTION, {**REPLY, "train": False}]},
    "a preference of OpenAI's": {
        "input": {"messages": [QUESTION]},
        "preferred_output": [REPLY],
        "non_preferred_output": [OTHER],
    },
    "Alpaca": {"instruction": "Add", "input": "2+2", "output": "4"},
    "Alpaca with a history": {"instruction": "Add", "input": "", "output": "4", "history": [["Hi", "Hello"]]},
    "Alpaca's preference": {"instruction": "Add", "input": "", "chosen": "4", "rejected": "5"},
    "ShareGPT": {"conversations": TURNS, "system": "Be brief.", "tools": "[]"},
    "ShareGPT's preference": {
        "conversations": TURNS[:1],
        "chosen": TURNS[1],
        "rejected": {"from": "gpt", "value": "5"},
    },
    "ShareGPT's label": {"conversations": TURNS, "label": True},
    "a prompt and a completion with a label": {"prompt": "2+2?", "completion": "4", "label": False},
    "a preference of TRL's": {"prompt": [QUESTION], "chosen": [REPLY], "rejected": [OTHER]},
    "a preference that holds its prompt": {"chosen": [QUESTION, REPLY], "rejected": [QUESTION, OTHER]},
    "LLaMA-Factory v1": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "value": "2+2?"}], "loss_weight": 0.0},
            {"role": "assistant", "content": [{"type": "text", "value": "4"}], "loss_weight": 1.0},
        ]
    },
}


@pytest.mark.parametrize("kind", ["array", "large array", "lines", "parquet", "arrow"])
@pytest.mark.parametrize("name", sorted(SHAPES))
def test_every_shape_of_a_data_set_is_read_wherever_it_stands(name: str, kind: str, tmp_path: Path) -> None:
    """As many conversations as there are rows; what is no column goes back as it was."""
    row, count = SHAPES[name], 9
    path = tmp_path / "set.json"
    if kind in ("parquet", "arrow"):
        pytest.importorskip("pyarrow", reason="NOT TESTED: pyarrow is not installed")
        if not isinstance(row, dict):
            pytest.skip("a list has no columns")
        rows = io.BytesIO(b"".join(json.dumps(row).encode() + b"\n" for _ in range(count)))
        with path.open("wb") as out:
            write_rows(rows, out, kind, "set")
    elif kind == "lines":
        path.write_text("".join(json.dumps(row) + "\n" for _ in range(count)))
    else:
        count = count if kind == "array" else (1 << 21) // len(json.dumps(row))
        path.write_text(json.dumps([row] * count))
    found, seen = il.detect(row), 0
    assert found is not None
    for conversation in il.read(path):
        seen += 1
        if seen == 1:
            assert [m.text for m in il.decode(row).messages] == [m.text for m in conversation.messages]
            if kind not in ("parquet", "arrow"):  # whose rows have no nulls, and no empty objects
                assert row == il.encode(conversation, found.dialect).body
    assert count == seen
