"""Masks and preferences of training rows, from each format that has them to each that is written."""

from typing import Any

import pytest

import interlingua as il

ASKED, GOOD, BAD = (
    {"role": role, "content": text} for role, text in (("user", "q"), ("assistant", "a"), ("assistant", "b"))
)
PAIRS: dict[str, Any] = {
    "openai-finetune": {"input": {"messages": [ASKED]}, "preferred_output": [GOOD], "non_preferred_output": [BAD]},
    "sharegpt": {
        "conversations": [{"from": "human", "value": "q"}],
        "chosen": {"from": "gpt", "value": "a"},
        "rejected": {"from": "gpt", "value": "b"},
    },
    "trl": {"prompt": [ASKED], "chosen": [GOOD], "rejected": [BAD]},
    "alpaca": {"instruction": "q", "input": "", "chosen": "a", "rejected": "b"},
    "llama-factory": {
        "chosen_messages": [
            {"role": m["role"], "content": [{"type": "text", "value": m["content"]}]} for m in (ASKED, GOOD)
        ],
        "rejected_messages": [
            {"role": m["role"], "content": [{"type": "text", "value": m["content"]}]} for m in (ASKED, BAD)
        ],
    },
}
WRITTEN = ("openai-finetune", "sharegpt")


@pytest.mark.parametrize("target", WRITTEN)
@pytest.mark.parametrize("source", PAIRS)
def test_a_row_of_two_answers_is_one_in_every_format_that_has_them(source: str, target: str) -> None:
    body, losses = il.convert(PAIRS[source], target, source)
    blocks = str(body).replace("[{'type': 'text', 'text': 'q'}]", "'q'")  # blocks of one text, as they were read
    assert blocks == str(PAIRS[target])
    assert [loss for loss in losses if loss.severity != "record"] == []


def test_a_row_of_longer_answers_is_one_of_openais() -> None:
    """ShareGPT has room for one turn each: there the other answer is lost, with a word."""
    row = {"prompt": [ASKED], "chosen": [GOOD, ASKED, GOOD], "rejected": [BAD, ASKED, BAD]}
    body = il.convert(row, "openai-finetune", "trl").body
    assert body == {
        "input": {"messages": [ASKED]},
        "preferred_output": [GOOD, ASKED, GOOD],
        "non_preferred_output": [BAD, ASKED, BAD],
    }
    paths = [loss.path for loss in il.convert(row, "sharegpt", "trl").losses if loss.severity == "dropped"]
    assert paths == ["$.entries[4]", "$.entries[5]", "$.entries[6]"]


def test_what_a_rejected_answer_loses_is_reported() -> None:
    thinking = [{"type": "text", "value": "b"}, {"type": "reasoning", "value": "So be it."}]
    row = {**PAIRS["llama-factory"]}
    row["rejected_messages"] = [row["rejected_messages"][0], {"role": "assistant", "content": thinking}]
    losses = il.convert(row, "openai-finetune", "llama-factory").losses
    assert "$.entries[2].message.content" in [loss.path for loss in losses]


def test_branches_of_a_session_are_no_preference() -> None:
    entries = [
        il.Entry(message=il.UserMessage(content="q"), id="1"),
        il.Entry(message=il.AssistantMessage(content="a"), id="2", parent_id="1"),
        il.Entry(message=il.AssistantMessage(content="b"), id="3", parent_id="1"),
    ]
    conversation = il.Conversation(entries=tuple(entries), head="2")
    for target in WRITTEN:
        body, losses = il.encode(conversation, target)
        assert body.keys() <= {"messages", "conversations"}
        assert "$.entries[2]" in [loss.path for loss in losses]


MASKED: dict[str, Any] = {
    "openai-finetune": {"messages": [ASKED, {**GOOD, "weight": 0}, ASKED, {**BAD, "weight": 1}]},
    "sharegpt": {
        "conversations": [
            {"from": "human", "value": "q"},
            {"from": "gpt", "value": "a", "weight": 0},
            {"from": "human", "value": "q"},
            {"from": "gpt", "value": "b", "weight": 1},
        ]
    },
    "openai-completions": {"messages": [ASKED, {**GOOD, "train": False}, ASKED, {**BAD, "train": True}]},
    "llama-factory": {
        "messages": [
            {"role": m["role"], "content": [{"type": "text", "value": m["content"]}], "loss_weight": weight}
            for m, weight in ((ASKED, 0.0), (GOOD, 0.0), (ASKED, 0.0), (BAD, 1.0))
        ]
    },
}


@pytest.mark.parametrize("target", WRITTEN)
@pytest.mark.parametrize("source", MASKED)
def test_masks_go_along(source: str, target: str) -> None:
    """Which answers are trained on is said in the field that the target has for it."""
    body, losses = il.convert(MASKED[source], target, source)
    assert str(body).replace("[{'type': 'text', 'text': 'q'}]", "'q'") == str(MASKED[target])
    assert [loss for loss in losses if loss.severity != "record"] == []


@pytest.mark.parametrize("weight", [0.5, None, "x"])
def test_a_mask_that_is_no_flag_is_reported(weight: Any) -> None:
    row = {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a", "weight": weight}]}
    body, losses = il.convert(row, "openai-finetune", "sharegpt")
    assert "weight" not in body["messages"][1]
    assert "$.messages[1].extra.sharegpt.weight" in [loss.path for loss in losses]
