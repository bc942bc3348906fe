"""ChatGPT's exports: trees of nodes."""

import json
from pathlib import Path

import pytest

from dialects.trips import returned
from interlingua.dialects.files import chatgpt_export
from interlingua.values.errors import BadWire
from interlingua.values.messages import text_of

SAMPLE = json.loads((Path(__file__).parents[1] / "wire/chatgpt-export/conversation.json").read_text())


def test_nodes_are_entries_and_the_head_is_the_current_one() -> None:
    """Every branch is there; the path leads to `current_node`."""
    conversation = chatgpt_export.decode(SAMPLE)
    assert [entry.id for entry in conversation.entries] == list(SAMPLE["mapping"])
    assert [entry.id for entry in conversation.path()] == ["root", "n1", "n2", "n3", "n4", "n5", "n6"]


def test_a_message_to_a_tool_is_a_call_and_the_tools_message_its_result() -> None:
    """Neither has an id: the call's node lends its own."""
    thought, call, result, answer = chatgpt_export.decode(SAMPLE).messages[3:]
    assert thought.thinking == "The picture shows 30."
    (made,) = call.tool_calls
    assert (made.id, made.name, list(made.arguments)) == ("n4", "python", ["input"])
    assert (result.tool_call_id, result.tool_name, text_of(result.content)) == ("n4", "python", "10")
    assert (answer.text, answer.model, answer.timestamp) == ("Ten.", "o3", 1733000005500)


def test_a_tool_answers_for_its_functions() -> None:
    """A call of `browser.search` is answered by `browser`, and JSON in a call is its arguments."""
    call = {"author": {"role": "assistant"}, "recipient": "browser.search"}
    told = {"author": {"role": "tool", "name": "browser"}, "recipient": "all"}
    mapping = {
        "a": {"id": "a", "parent": None, "children": ["b"]},
        "b": {"id": "b", "parent": "a", "children": [], "message": None},
    }
    mapping["a"]["message"] = {**call, "content": {"content_type": "code", "text": '{"q": "milk"}'}}
    mapping["b"]["message"] = {**told, "content": {"content_type": "tether_quote", "text": "white"}}
    asked, result = chatgpt_export.decode({"mapping": mapping, "current_node": "b"}).messages
    assert asked.tool_calls[0].arguments == {"q": "milk"}
    assert result.tool_call_id == "a"


def test_children_may_stand_before_their_parents() -> None:
    """The tree is read all the same, and goes back in the order in which it stood."""
    turned = {**SAMPLE, "mapping": dict(reversed(SAMPLE["mapping"].items()))}
    assert [entry.id for entry in chatgpt_export.decode(turned).path()] == ["root", "n1", "n2", "n3", "n4", "n5", "n6"]
    assert list(returned("chatgpt-export", turned)["mapping"]) == list(turned["mapping"])


def test_an_export_is_taken_apart() -> None:
    """A list of one is read as it is; for more, one must be taken."""
    assert returned("chatgpt-export", [SAMPLE]) == [SAMPLE]
    assert chatgpt_export.split([SAMPLE, SAMPLE]) == [SAMPLE, SAMPLE]
    assert chatgpt_export.split(SAMPLE) is None
    with pytest.raises(BadWire, match="take one"):
        chatgpt_export.decode([SAMPLE, SAMPLE])
