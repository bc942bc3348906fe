"""ChatGPT's exports: trees of nodes."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import interlingua as il
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
    source = {"author": {"role": "tool", "name": "browser"}, "recipient": "all"}
    mapping = {
        "a": {"id": "a", "parent": None, "children": ["b"]},
        "b": {"id": "b", "parent": "a", "children": [], "message": None},
    }
    mapping["a"]["message"] = {**call, "content": {"content_type": "code", "text": '{"q": "milk"}'}}
    mapping["b"]["message"] = {**source, "content": {"content_type": "tether_quote", "text": "white"}}
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


def node(id: str, parent: str | None, role: str, content: object, **message: object) -> dict[str, object]:
    author = {"role": role, "name": message.pop("name", None)}
    return {"id": id, "parent": parent, "children": [], "message": {"author": author, "content": content, **message}}


def text_content(*parts: object) -> dict[str, object]:
    return {"content_type": "text", "parts": list(parts)}


SPOKEN = {"content_type": "audio_transcription", "text": "Hello", "direction": "in"}
CONVERSATION = {
    "title": "A title",
    "mapping": {
        "c": node(
            "c",
            None,
            "user",
            {"content_type": "user_editable_context", "user_profile": "", "user_instructions": "Be brief"},
        ),
        "u": node("u", "c", "user", {"content_type": "multimodal_text", "parts": [SPOKEN, {"content_type": "other"}]}),
        "t": node("t", "u", "assistant", {"content_type": "thoughts", "thoughts": [{"content": "Hm", "summary": "S"}]}),
        "r": node("r", "t", "assistant", {"content_type": "reasoning_recap", "content": "Thought for 2 s"}),
        "b": node("b", "r", "assistant", {"content_type": "code", "text": "search(1)"}, recipient="browser.search"),
        "x": node("x", "b", "tool", {"content_type": "tether_browsing_display", "result": "Found"}, name="browser"),
        "y": node("y", "x", "tool", {"content_type": "text", "parts": ["More"]}, name="other"),
        "a": node("a", "y", "assistant", {"parts": ["Hi"]}),
    },
    "current_node": "a",
}


def test_what_a_person_sees_is_distinguished_from_what_the_model_read() -> None:
    """Voice is text, settings are the program's, a recap is shown and never read."""
    session = chatgpt_export.decode(CONVERSATION)
    assert "A title" == session.title
    users = [m for m in session.messages if isinstance(m, il.UserMessage)]
    assert [("Be brief", "program"), ("Hello", None)] == [(m.text, m.origin) for m in users]
    answers = [m for m in session.messages if isinstance(m, il.AssistantMessage)]
    assert ["ThinkingBlock", "ToolCall", "TextBlock"] == [type(m.content[0]).__name__ for m in answers]
    assert ["b", "b"] == [m.tool_call_id for m in session.messages if isinstance(m, il.ToolResultMessage)]
    assert CONVERSATION == chatgpt_export.encode(session).body


def test_a_tree_that_states_only_children_is_a_tree() -> None:
    """And one that states only parents, and one without a current node."""
    up = {"u": node("u", None, "user", text_content("Hi")), "a": node("a", "u", "assistant", text_content("Yes"))}
    down = {key: {**{k: v for k, v in one.items() if k != "parent"}} for key, one in up.items()}
    down["u"]["children"] = ["a"]
    for mapping in (up, down):
        session = chatgpt_export.decode({"mapping": mapping})
        assert ["Hi", "Yes"] == [m.text for m in session.messages]
        assert {"mapping": mapping} == chatgpt_export.encode(session).body


def test_a_zipped_export_may_be_divided() -> None:
    """Other files stand beside the conversations."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("user.json", "{}")
        archive.writestr("conversations-000.json", json.dumps([CONVERSATION, CONVERSATION]))
        archive.writestr("conversations-001.json", json.dumps([CONVERSATION]))
    found = list(il.read(out.getvalue()))
    assert ["A title"] * 3 == [session.title for session in found]
    assert [()] * 3 == [session.problems for session in found]


def edited(name: str, **fields: Any) -> il.Encoded:
    """The sample with fields of the message of a node changed."""
    conversation = chatgpt_export.decode(SAMPLE)
    entries = [
        replace(entry, message=replace(entry.message, **fields)) if entry.id == name else entry  # type: ignore[type-var]
        for entry in conversation.entries
    ]
    return il.encode(replace(conversation, entries=tuple(entries)), "chatgpt-export", adapt=False)


@pytest.mark.parametrize(
    ("name", "beside"),
    [
        ("n3", il.TextBlock(text="Aside.")),  # thoughts
        ("n4", il.TextBlock(text="Aside.")),  # the code of a call
        ("n5", il.ImageBlock(url="https://host.example/a.png")),  # the output of a tool
        ("n6", il.ThinkingBlock(thinking="Hm.")),  # a text
        ("n6", il.ToolCall(id="c", name="look", arguments={})),
    ],
)
def test_what_the_kind_of_a_message_has_no_place_for_is_reported(name: str, beside: Any) -> None:
    """Nothing else in the file changes: a text beside a call is no part of its code."""
    content = chatgpt_export.decode(SAMPLE).entries[int(name[1])].message.content  # type: ignore[union-attr]
    body, (loss,) = edited(name, content=(*content, beside))
    assert (loss.path, loss.what) == (f"$.messages[{name[1]}].content[1]", type(beside).__name__)
    assert body == SAMPLE


def test_whether_a_tool_failed_is_the_kind_of_its_text() -> None:
    """A picture that a tool gave is no error: that is reported."""
    body, losses = edited("n5", is_error=True)
    content = body["mapping"]["n5"]["message"]["content"]
    assert (content, losses) == ({"content_type": "system_error", "text": "10"}, ())
    failed = chatgpt_export.decode(body)
    assert failed.entries[5].message.is_error  # type: ignore[union-attr]
    again = replace(failed.entries[5], message=replace(failed.entries[5].message, is_error=False))  # type: ignore[type-var]
    entries = (*failed.entries[:5], again, *failed.entries[6:])
    body = il.encode(replace(failed, entries=entries), "chatgpt-export", adapt=False).body
    assert body["mapping"]["n5"]["message"]["content"] == {"content_type": "text", "parts": ["10"]}
    picture = il.ImageBlock(file_id="file-service://file-1")
    assert "is_error" in [loss.what for loss in edited("n5", is_error=True, content=(picture,)).losses]


def test_the_input_of_a_tool_may_look_like_arguments() -> None:
    call = il.ToolCall(
        id="n4", name="python", arguments={"input": '{"a": 1}'}, extra={"chatgpt-export": {"~kind": "input"}}
    )
    made: Any = chatgpt_export.decode(edited("n4", content=(call,)).body).entries[4].message
    assert made.tool_calls[0].arguments == {"input": '{"a": 1}'}
