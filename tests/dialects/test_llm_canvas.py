"""LLM Canvas: whole canvases with their branches and merges, and the messages in them."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import interlingua as il
from dialects.trips import accounted, edited, foreign_conversations, returned, without_fate
from interlingua.dialects.files import llm_canvas
from interlingua.values.errors import BadWire
from strategies import json_values, mutated, with_unknown_fields

CANVAS = json.loads((Path(__file__).parents[1] / "wire/llm_canvas/canvas.json").read_text())

USE = {
    "type": "tool_use",
    "id": "toolu_01A09q90qw90lkasdjfl",
    "name": "get_weather",
    "input": {"location": "San Francisco, CA", "unit": "celsius"},
}


def result(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": USE["id"], "content": content, **more}


SHOWN = {
    "plain text": {"role": "user", "content": "Hello"},
    "a text block": {"role": "assistant", "content": [{"type": "text", "text": "Hello, how can I help you today?"}]},
    "a call": {"role": "assistant", "content": [USE]},
    "a simple result": {"role": "user", "content": [result("The weather in San Francisco is 22°C and sunny.")]},
    "a failed result": {"role": "user", "content": [result("Error: Unable to fetch weather data", is_error=True)]},
    "a result in blocks": {
        "role": "user",
        "content": [
            result(
                [
                    {"type": "text", "text": "Here's the weather forecast:"},
                    {"type": "text", "text": "Temperature: 22°C\nCondition: Sunny\nHumidity: 65%"},
                ]
            )
        ],
    },
    "several results and words": {
        "role": "user",
        "content": [{"type": "text", "text": "Here:"}, result("one"), result(None), {"type": "text", "text": "So?"}],
    },
    "a result without content": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]},
    "system": {"role": "system", "content": "Be brief."},
    "system in blocks": {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
    "what the server refuses": {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "Hm", "signature": "c2ln"}, {"type": "text", "text": "Hi"}],
    },
    "a role it refuses": {"role": "tool", "content": "x"},
    "citations": {"role": "assistant", "content": [{"type": "text", "text": "A", "citations": [{"type": "x"}]}]},
    "an explicit success": {"role": "user", "content": [result("ok", is_error=False)]},
}


# --- messages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("message", SHOWN.values(), ids=list(SHOWN))
def test_a_message_comes_back_as_it_was(message: dict[str, Any]) -> None:
    """Alone, in a list, in a longer list, and as a node."""
    assert returned("llm-canvas", message) == message
    assert returned("llm-canvas", [message]) == [message]
    assert returned("llm-canvas", [message, message, SHOWN["a call"]]) == [message, message, SHOWN["a call"]]
    node = {"id": "n", "message": message, "parent_id": None, "child_ids": [], "meta": None}
    canvas = {"canvas_id": "c", "created_at": 0.0, "last_updated": 0.0, "nodes": {"n": node}}
    assert returned("llm-canvas", canvas) == canvas


def test_results_are_messages_of_their_own() -> None:
    """They name the tool of their call, and the words around them stay in order."""
    shown = [SHOWN["a call"], SHOWN["several results and words"]]
    _, before, first, second, after = llm_canvas.decode(shown).messages
    assert isinstance(first, il.ToolResultMessage) and isinstance(second, il.ToolResultMessage)
    assert (first.tool_name, first.content, second.content) == ("get_weather", "one", None)
    assert (il.dump(before), il.dump(after)) == (
        b'{"role":"user","content":[{"type":"text","text":"Here:"}]}',
        b'{"role":"user","content":[{"type":"text","text":"So?"}]}',
    )


def test_the_first_system_message_is_the_system_text() -> None:
    """Later ones stay where they are."""
    conversation = llm_canvas.decode([SHOWN["system"], SHOWN["plain text"], SHOWN["system"]])
    assert conversation.system == "Be brief."
    assert [type(message).__name__ for message in conversation.messages] == ["UserMessage", "SystemMessage"]


# --- canvases --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [lambda v: v, json.dumps, lambda v: json.dumps(v).encode()])
def test_a_canvas_comes_back_as_it_was(form: Any) -> None:
    """Nodes, branches, a merge, times to the microsecond, and what stands in `meta`."""
    assert returned("llm-canvas", form(CANVAS)) == CANVAS
    assert returned("llm-canvas", form({"data": CANVAS, "x": 1})) == {"data": CANVAS, "x": 1}


def test_a_canvas_is_a_tree() -> None:
    """Every branch is read; the last node is where it stands; the root system node is the system text."""
    canvas = llm_canvas.decode(CANVAS)
    assert canvas.system == "Be brief."
    assert [(entry.id, entry.parent_id) for entry in canvas.entries] == [
        ("u1", None),
        ("a1", "u1"),
        ("r1/1", "a1"),
        ("r1/2", "r1/1"),
        ("r1", "r1/2"),
        ("u2", None),
        ("m1", "r1"),
    ]
    user, answer, paris, rome, text, last = canvas.messages
    assert isinstance(answer, il.AssistantMessage) and isinstance(last, il.AssistantMessage)
    assert (user.timestamp, answer.model, last.timestamp) == (1740000001123, "some-model", 1740000004500)  # type: ignore[union-attr]
    assert (paris.tool_name, paris.is_error, rome.is_error) == ("get_weather", False, True)  # type: ignore[union-attr]
    assert il.dump(text) == b'{"role":"user","content":[{"type":"text","text":"And tomorrow?"}]}'


def test_a_canvas_can_be_asked_on() -> None:
    """Its path is a request for a provider: results share a message again."""
    body = il.dialect("anthropic-messages").encode_request(llm_canvas.decode(CANVAS).request()).body
    assert body["system"] == "Be brief."
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user", "user", "assistant"]
    assert [block["type"] for block in body["messages"][2]["content"]] == ["tool_result", "tool_result"]


def test_a_node_that_is_added_is_a_child_of_its_parent() -> None:
    """Children follow from parents; merges that were there stay."""
    canvas = llm_canvas.decode(CANVAS)
    added = il.Entry(message=il.UserMessage(content="Thanks", timestamp=1740000005000), id="t1", parent_id="u2")
    encoded = llm_canvas.encode(replace(canvas, entries=(*canvas.entries, added))).body["nodes"]
    assert encoded["t1"] == {
        "id": "t1",
        "message": {"role": "user", "content": "Thanks"},
        "parent_id": "u2",
        "child_ids": [],
        "meta": {"timestamp": 1740000005.0},
    }
    assert encoded["u2"]["child_ids"] == ["m1", "t1"]


def test_a_tree_of_another_format_becomes_a_canvas() -> None:
    """Ids, parents, times and models go over; every node has its children; the system text is the root."""
    entries = (
        il.Entry(message=il.UserMessage(content="a", timestamp=1000), id="1"),
        il.Entry(message=il.AssistantMessage(content="b", model="m", timestamp=2500), id="2", parent_id="1"),
        il.Entry(message=il.AssistantMessage(content="c"), id="3", parent_id="1"),
    )
    encoded, losses = llm_canvas.encode(il.Conversation(entries=entries, system="Be brief."))
    assert encoded == {
        "canvas_id": "system",
        "created_at": 1.0,
        "last_updated": 2.5,
        "nodes": {
            "system": {
                "id": "system",
                "message": {"role": "system", "content": "Be brief."},
                "parent_id": None,
                "child_ids": ["1"],
                "meta": None,
            },
            "1": {
                "id": "1",
                "message": {"role": "user", "content": "a"},
                "parent_id": "system",
                "child_ids": ["2", "3"],
                "meta": {"timestamp": 1.0},
            },
            "2": {
                "id": "2",
                "message": {"role": "assistant", "content": "b"},
                "parent_id": "1",
                "child_ids": [],
                "meta": {"timestamp": 2.5, "model": "m"},
            },
            "3": {
                "id": "3",
                "message": {"role": "assistant", "content": "c"},
                "parent_id": "1",
                "child_ids": [],
                "meta": None,
            },
        },
    }
    assert list(losses) == []


def test_what_hangs_from_a_message_that_cannot_be_encoded_hangs_from_its_parent() -> None:
    """The rest of the branch is not lost with it."""
    entries = (
        il.Entry(message=il.UserMessage(content="a"), id="1"),
        il.Entry(message=il.CustomMessage("label", {"label": "x"}), id="2", parent_id="1"),
        il.Entry(message=il.UserMessage(content="b"), id="3", parent_id="2"),
    )
    encoded, losses = llm_canvas.encode(il.Conversation(entries=entries))
    assert encoded["nodes"]["3"]["parent_id"] == "1"
    assert [(loss.path, loss.severity) for loss in losses] == [
        ("$.entries[1].message", "record"),
        ("$.entries[2].parentId", "record"),
    ]


BRANCHES = [
    {"name": "main", "description": "Main conversation thread", "head_node_id": "m1", "created_at": 1.0},
    {"name": "other", "head_node_id": "u2", "created_at": 2.0},
]


@pytest.mark.parametrize("branches", [BRANCHES, {branch["name"]: branch for branch in BRANCHES}], ids=["list", "map"])
@pytest.mark.parametrize(("current", "head"), [("other", "u2"), ("main", "m1"), (None, "m1"), ("gone", None)])
def test_the_branch_that_is_checked_out_is_where_the_conversation_stands(
    branches: Any, current: str | None, head: str | None
) -> None:
    """Branches beside the nodes come back, and the current one says the head."""
    canvas = {**CANVAS, "branches": branches, **({"current_branch": current} if current else {})}
    assert returned("llm-canvas", canvas) == canvas
    conversation = llm_canvas.decode(canvas)
    assert conversation.head == head
    assert not any(loss.path == "$.head" for loss in llm_canvas.encode(conversation).losses)
    moved = replace(conversation, head="a1")
    assert any(loss.path == "$.head" for loss in llm_canvas.encode(moved).losses)


ODD = {
    "children that nobody told the parent of": {"u1": {"child_ids": []}},
    "children in another order": {"sys": {"child_ids": ["u2", "u1"]}},
    "a node under another key": {"m1": {"id": "other"}},
    "a parent that is not there": {"u1": {"parent_id": "nowhere"}},
    "two roots": {"u2": {"parent_id": None}},
    "an empty meta": {"m1": {"meta": {}}},
    "odd times": {"m1": {"meta": {"timestamp": "now", "model": 5}}},
    "no meta": {"m1": {"meta": None}},
    "odd children": {"m1": {"child_ids": [1, None, "gone"]}},
    "unknown keys": {"a1": {"x": 1}, "r1": {"x": 2}, "sys": {"x": 3}},
}


@pytest.mark.parametrize("changes", ODD.values(), ids=list(ODD))
def test_odd_canvases_come_back_as_they_were(changes: dict[str, dict[str, Any]]) -> None:
    """What the server does not check may be wrong, and is not made right here."""
    nodes = {key: {**node, **changes.get(key, {})} for key, node in CANVAS["nodes"].items()}
    assert returned("llm-canvas", {**CANVAS, "nodes": nodes}) == {**CANVAS, "nodes": nodes}


def test_an_empty_canvas_comes_back() -> None:
    """A canvas without nodes is a conversation without messages."""
    empty = {"canvas_id": "c", "created_at": 1.5, "last_updated": 1.5, "nodes": {}}
    assert returned("llm-canvas", empty) == empty
    assert llm_canvas.decode(empty).messages == ()


# --- laws ------------------------------------------------------------------------------------------------------------


def test_field_support_names_every_field() -> None:
    """A field that is added to the format is named here."""
    assert without_fate("llm-canvas") == []


@given(foreign_conversations("llm-canvas"))
def test_every_difference_is_reported_and_every_report_is_a_difference(conversation: il.Conversation) -> None:
    """What a conversation says and what is read back differ exactly where losses are reported."""
    assert accounted("llm-canvas", conversation) == ([], [])


@given(st.data())
def test_whatever_is_encoded_comes_back_with_unknown_fields(data: st.DataObject) -> None:
    """Fields that we have never heard of return to their places; among the nodes, a key is a node."""
    encoded = json.loads(json.dumps(llm_canvas.encode(data.draw(foreign_conversations("llm-canvas"))).body))
    more = data.draw(with_unknown_fields(data.draw(st.sampled_from([encoded, CANVAS]))))
    if "nodes" in more and any(key.startswith("x_") for key in more["nodes"]):
        with pytest.raises(BadWire, match=r"\$\.nodes\.x_"):
            llm_canvas.decode({**more, "nodes": {**more["nodes"], "x_": None}})
    else:
        assert returned("llm-canvas", more) == more


@given(st.data())
def test_what_was_changed_since_is_not_overruled_by_how_it_was_spelled(data: st.DataObject) -> None:
    """A conversation that was read, changed and written again says the change, whatever it looked like before."""
    read = il.load(il.dump(llm_canvas.decode(data.draw(with_unknown_fields(list(SHOWN.values()))))))
    assert accounted("llm-canvas", edited(read, data)) == ([], [])


@given(st.one_of(json_values(), mutated(CANVAS), mutated(list(SHOWN.values()))))
def test_anything_is_read_or_refused(value: Any) -> None:
    """Whatever comes in, decoding gives a conversation that says it again, or BadWire that names the place."""
    try:
        assert returned("llm-canvas", value) == value
    except BadWire as error:
        assert error.path.startswith("$")


@pytest.mark.parametrize(
    ("value", "is_it"),
    [
        (CANVAS, True),
        ({"data": CANVAS}, True),
        (list(SHOWN.values()), False),
        ({"nodes": {}}, False),
        ({"nodes": [], "canvas_id": "x"}, False),
        ({"mapping": {}}, False),
        ("text", False),
    ],
)
def test_canvases_are_distinguished_from_other_trees(value: Any, is_it: bool) -> None:
    """A list of messages could be anybody's: only a canvas is claimed."""
    assert (llm_canvas.detect(value) is not None) is is_it
