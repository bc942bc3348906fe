"""Rules for training rows: every rule finds what it is for, and a sound row has no findings for any trainer."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlingua as il
from cli.running import run
from interlingua.conversion.training import EXAMPLES, RULES, rules_of, trainers

TRAINERS = sorted(trainers())
DOCS = Path(__file__).parents[1] / "docs"
USER = {"role": "user", "content": "What is in main.ts?"}
ANSWER = {"role": "assistant", "content": "A line."}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOL = {"type": "function", "function": {"name": "read", "parameters": SCHEMA}}


def call(arguments: str = '{"path":"main.ts"}', name: str = "read") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }


RESULT = {"role": "tool", "tool_call_id": "c1", "content": "let x = 1"}
SOUND: dict[str, Any] = {
    "a question and its answer": {"messages": [{"role": "system", "content": "Be brief."}, USER, ANSWER]},
    "a call": {"messages": [USER, call(), RESULT, ANSWER], "tools": [TOOL]},
    "a row that ends in a call": {"messages": [USER, call()], "tools": [TOOL]},
    "a masked answer beside another": {
        "messages": [USER, {**ANSWER, "weight": 0}, USER, {**ANSWER, "weight": 1}],
    },
    "turns of ShareGPT": {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yes"}]},
    "a preference": {"prompt": "Hi", "chosen": "Yes", "rejected": "No"},
    "an Alpaca row": {"instruction": "Say yes", "input": "", "output": "Yes"},
}


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("name", sorted(SOUND))
def test_a_sound_row_has_no_findings(name: str, trainer: str) -> None:
    """In any of the shapes that data sets have."""
    assert () == il.check(SOUND[name], target=trainer)


TURN = {"from": "gpt", "value": "Yes"}
PICTURE = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
# The rule, a trainer that has it, a row that breaks it, and where.
BROKEN: list[tuple[str, str, Any, str]] = [
    ("has-answer", "training", {"messages": [USER]}, "$.messages"),
    ("ends-in-answer", "training", {"messages": [USER, ANSWER, USER]}, "$.messages[2]"),
    ("ends-in-answer", "openai-finetune", {"messages": [USER, call(), RESULT], "tools": [TOOL]}, "$.messages[2]"),
    ("begins-with-user", "llama-factory", {"messages": [ANSWER, USER, ANSWER]}, "$.messages[0]"),
    ("turns-alternate", "trl", {"messages": [USER, USER, ANSWER]}, "$.messages[1]"),
    ("turns-alternate", "llama-factory", {"messages": [USER, ANSWER, ANSWER]}, "$.messages[2]"),
    (
        "system-first",
        "training",
        {"messages": [USER, {"role": "system", "content": "Be brief."}, ANSWER]},
        "$.messages[1]",
    ),
    ("known-roles", "training", {"messages": [USER, {"role": "critic", "content": "No"}, ANSWER]}, "$.messages[1]"),
    ("not-empty", "openai-finetune", {"messages": [USER, {"role": "assistant", "content": " "}]}, "$.messages[1]"),
    (
        "tool-schemas",
        "training",
        {"messages": [USER, ANSWER], "tools": [{"type": "function", "function": {"name": "a b", "parameters": {}}}]},
        "$.tools[0].name",
    ),
    (
        "tool-schemas",
        "axolotl",
        {
            "messages": [USER, ANSWER],
            "tools": [{"type": "function", "function": {"name": "a", "parameters": {"required": "x"}}}],
        },
        "$.tools[0].inputSchema",
    ),
    ("defined-tools", "training", {"messages": [USER, call(name="ls")], "tools": [TOOL]}, "$.messages[1].content[0]"),
    ("tools-given", "openai-finetune", {"messages": [USER, call()]}, "$.messages[1].content[0]"),
    ("arguments", "training", {"messages": [USER, call("{")], "tools": [TOOL]}, "$.messages[1].content[0]"),
    ("arguments", "trl", {"messages": [USER, call("{}")], "tools": [TOOL]}, "$.messages[1].content[0]"),
    ("something-learned", "training", {"messages": [USER, {**ANSWER, "weight": 0}]}, "$.messages"),
    ("something-learned", "axolotl", {"messages": [USER, {**ANSWER, "train": False}]}, "$.messages"),
    ("weights", "openai-finetune", {"messages": [USER, {**ANSWER, "weight": 0.5}]}, "$.messages[1]"),
    ("weights", "openai-finetune", {"messages": [{**USER, "weight": 1}, ANSWER]}, "$.messages[0]"),
    ("train-flags", "axolotl", {"messages": [USER, {**ANSWER, "train": "yes"}]}, "$.messages[1]"),
    (
        "train-spans",
        "axolotl",
        {"messages": [USER, {**ANSWER, "train_detail": [{"begin_offset": 3, "end_offset": 99, "train": True}]}]},
        "$.messages[1]",
    ),
    ("images", "openai-finetune", {"messages": [USER, {"role": "assistant", "content": [PICTURE]}]}, "$.messages[1]"),
    (
        "images",
        "openai-finetune",
        {"messages": [{"role": "user", "content": [PICTURE] * 11}, ANSWER]},
        "$.messages",
    ),
    ("answers-differ", "trl", {"prompt": "Hi", "chosen": "Yes", "rejected": "Yes"}, "$.messages"),
    (
        "answers-differ",
        "training",
        {"conversations": [{"from": "human", "value": "Hi"}], **dict.fromkeys(("chosen", "rejected"), TURN)},
        "$.entries[2].message",
    ),
    (
        "single-answers",
        "openai-finetune",
        {
            "input": {"messages": [USER]},
            "preferred_output": [ANSWER],
            "non_preferred_output": [ANSWER, USER, {"role": "assistant", "content": "Two."}],
        },
        "$.entries[2].message",
    ),
]


@pytest.mark.parametrize(("rule", "trainer", "row", "place"), BROKEN, ids=[f"{n}-{b[0]}" for n, b in enumerate(BROKEN)])
def test_each_rule_finds_what_it_is_for(rule: str, trainer: str, row: Any, place: str) -> None:
    """By its name, at its place, with what to write instead and as grave as the trainer takes it."""
    found = [finding for finding in il.check(row, target=trainer) if finding.message.startswith(f"{rule}: ")]
    assert [finding.path.startswith(place) for finding in found] == [True]
    assert (found[0].severity, found[0].remedy) == ((rules_of(trainer) or {})[rule], RULES[rule].remedy)


def test_every_rule_is_tried_and_documented() -> None:
    """And belongs to a trainer."""
    every = {rule for trainer in TRAINERS for rule in rules_of(trainer) or ()}
    assert set(RULES) == {rule for rule, *_ in BROKEN} == every - {EXAMPLES}
    page = (DOCS / "cli.md").read_text()
    assert [] == [name for name in (*RULES, *TRAINERS) if f"`{name}`" not in page]


MESSAGES = st.lists(st.sampled_from([USER, ANSWER, call(), call("["), RESULT, {"role": "system", "content": ""}]))


@settings(max_examples=50)
@given(MESSAGES, st.sampled_from(TRAINERS))
def test_a_row_is_checked_as_data_and_as_values_alike(messages: list[Any], trainer: str) -> None:
    """Whatever the messages are, the rules say the same of a decoded conversation."""
    row = {"messages": messages, "tools": [TOOL]}
    rules = tuple(f"{name}:" for name in RULES)
    found = [one for one in il.check(row, "openai-finetune", trainer) if one.message.startswith(rules)]
    read = il.decode(row, "openai-finetune")
    assert found == [one for one in il.check(read, target=trainer) if one.message.startswith(rules)]


def test_the_command_checks_a_file_for_a_trainer(tmp_path: Path) -> None:
    """Rows by their lines; too few of them are a mistake of the file."""
    path = tmp_path / "rows.jsonl"
    rows = [{"messages": [USER, {**ANSWER, "weight": 1}]}, {"messages": [USER, {**USER, "weight": 1}]}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run("check", str(path), "--for", "openai-finetune", "--json")
    results = done.json["results"]
    assert 1 == done.code
    assert [[one["message"].partition(":")[0] for one in row["findings"]] for row in results] == [
        [],
        ["has-answer", "ends-in-answer", "weights"],
        ["examples"],
    ]
