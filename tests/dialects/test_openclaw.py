"""OpenClaw session files: the specification's lines, pi's trees, and what pi packs into its fields."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import interlingua as il
from dialects.trips import accounted, edited, foreign_conversations, returned, without_fate
from interlingua.dialects import WIRES
from interlingua.dialects.files import openclaw
from interlingua.values.errors import BadWire
from interlingua.values.losses import Lines
from strategies import json_values, mutated, with_unknown_fields

FILES = {path.stem: path.read_text() for path in sorted((Path(__file__).parents[1] / "wire/openclaw").glob("*.jsonl"))}
LINES = {name: [json.loads(line) for line in text.splitlines()] for name, text in FILES.items()}


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["values", "text", "bytes", "blank lines", "no last newline"])
@pytest.mark.parametrize("name", FILES)
def test_a_file_comes_back_as_it_was(name: str, form: str) -> None:
    """Simple files and trees of every version, however they are handed over."""
    text = FILES[name]
    data: dict[str, Any] = {
        "values": LINES[name],
        "text": text,
        "bytes": text.encode(),
        "blank lines": text.replace("\n", "\n\n"),
        "no last newline": text.rstrip("\n"),
    }
    assert returned("openclaw", data[form]) == LINES[name]


def test_the_lines_of_the_specification_come_back_to_the_byte() -> None:
    """A message a line, in the specification's order of keys."""
    assert openclaw.encode(openclaw.decode(FILES["simple"])).bytes().decode() == FILES["simple"]


def test_a_simple_file_is_one_message_after_another() -> None:
    """No ids: each line follows the line before."""
    messages = openclaw.decode(FILES["simple"]).messages
    assert [type(message).__name__ for message in messages] == [
        "UserMessage",
        "AssistantMessage",
        "ToolResultMessage",
        "AssistantMessage",
    ]
    answer = messages[1]
    assert isinstance(answer, il.AssistantMessage)
    assert (answer.api, answer.provider, answer.stop_reason) == ("anthropic-messages", "anthropic", "toolUse")
    assert answer.usage and answer.usage.cost and (answer.usage.total_tokens, answer.usage.cost.total) == (150, 0.00525)


def test_a_tree_has_its_entries_in_their_places() -> None:
    """All branches are read; entries that are no messages are kept where they stand; the file stands at its end."""
    tree = openclaw.decode(FILES["tree_v3"])
    assert tree.extra["openclaw"]["header"] == LINES["tree_v3"][0]
    assert [(entry.id, entry.parent_id) for entry in tree.entries] == [
        (line["id"], line["parentId"]) for line in LINES["tree_v3"][1:]
    ]
    roles = [
        message.role if isinstance(message, il.CustomMessage) else type(message).__name__ for message in tree.messages
    ]
    assert roles == [
        "model_change",
        "thinking_level_change",
        "UserMessage",
        "UserMessage",  # the summary of a branch
        "model_change",
        "UserMessage",  # of an extension
        "UserMessage",  # a command of the user
        "AssistantMessage",
        "compaction",
        "custom",
        "session_info",
    ]
    other = replace(tree, head="a0000006").messages
    assert [type(message).__name__ for message in other[2:]] == [
        "UserMessage",
        "AssistantMessage",
        "ToolResultMessage",
        "AssistantMessage",
    ]
    label = next(entry.message for entry in tree.entries if entry.id == "a0000007")
    assert (label.role, label.fields["label"]) == ("label", "start")  # type: ignore[union-attr]


def test_an_old_tree_without_ids_is_a_line() -> None:
    """Version 1 has neither ids nor parents: each entry follows the one before."""
    old = openclaw.decode(FILES["tree_v1"])
    assert [entry.id for entry in old.entries] == [None] * 3
    assert len(old.messages) == 3


def test_an_entry_that_is_added_to_a_tree_is_wrapped() -> None:
    """It gets the time of its message, in the words of entries."""
    tree = openclaw.decode(FILES["tree_v2"])
    added = il.Entry(message=il.UserMessage(content="And?", timestamp=1764576003000), id="new", parent_id="c0000002")
    assert openclaw.encode(replace(tree, entries=(*tree.entries, added))).body[-1] == {
        "type": "message",
        "id": "new",
        "parentId": "c0000002",
        "timestamp": "2025-12-01T08:00:03.000Z",
        "message": {"role": "user", "content": "And?", "timestamp": 1764576003000},
    }


MIXED = [
    LINES["tree_v2"][1:],
    [LINES["tree_v2"][0], LINES["simple"][0], *LINES["tree_v2"][1:]],
    [*LINES["simple"][:1], *LINES["tree_v2"]],
    [{"type": "message", "id": "x", "parentId": None, "message": None}],
    [{"type": "user", "id": "x", "parentId": None, "content": "not a message"}],
    [{"type": "session"}, {"type": "session", "id": "again"}, {"type": "later_kind", "role": "odd", "id": 5}],
    [{"role": "toolResult", "toolUseId": "call_1", "content": None, "provenance": {"kind": "inter_session"}}],
    [{"role": "user", "content": "Hi", "id": "msg-1", "idempotencyKey": "k"}],
    [{"role": "user", "content": "Hi", "id": "e1", "parentId": None}, {"role": "note", "id": "e2", "parentId": "e1"}],
    [{"role": "assistant", "content": [{"type": "tool_use", "id": "x"}], "stopReason": "huh", "timestamp": "today"}],
    [{"role": "assistant", "content": [], "usage": {"input": 1.5, "cost": {"input": 1}}, "api": None}],
    [{"role": "system", "content": "Be brief.", "timestamp": 1}],
    [],
]


@pytest.mark.parametrize("lines", MIXED, ids=range(len(MIXED)))
def test_damaged_and_odd_files_come_back_as_they_were(lines: list[Any]) -> None:
    """Trees without a header, mixed lines, unknown kinds, half-written messages: nothing is lost."""
    assert returned("openclaw", lines) == lines


def test_a_message_with_a_place_is_in_the_tree_and_one_with_a_mere_id_is_not() -> None:
    """Only `parentId` makes an id a place: others number their lines."""
    placed = openclaw.decode([{"role": "user", "content": "a", "id": "1", "parentId": None}])
    assert placed.entries[0].id == "1"
    numbered = openclaw.decode([{"role": "user", "content": c, "id": c} for c in "ab"])
    assert len(numbered.messages) == 2


@pytest.mark.parametrize(
    ("data", "number"),
    [
        ('{"role":"user","content":"a"}\n{"role":', 2),
        ('{"role":"user","content":"a"}\n\n[]', 3),
        ('{"role":"user","content":"a"}\n{"content":"b"}', 2),
        ('{"role":"user","content":7}', 1),
        ('{"type":"session","id":"x"}\n{"type":"message","message":{"role":"user","content":{}}}', 2),
    ],
)
def test_a_malformed_line_is_named_by_its_number(data: str, number: int) -> None:
    """The first line that is none is refused, and the error says which."""
    with pytest.raises(BadWire, match=f"line {number}:"):
        openclaw.decode(data)


# --- what pi packs ---------------------------------------------------------------------------------------------------


def assistant(api: str, *content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content), "api": api, "provider": "p", "model": "m"}


def only(line: dict[str, Any]) -> Any:
    """The one block of a line, after a check that it goes back as it came."""
    assert returned("openclaw", [line]) == [line]
    (block,) = openclaw.decode([line]).messages[0].content  # type: ignore[union-attr]
    return block


@pytest.mark.parametrize("api", ["openai-responses", "azure-openai-responses", "openai-codex-responses"])
@pytest.mark.parametrize(
    ("signature", "fields"),
    [
        ('{"v":1,"id":"msg_1"}', {"id": "msg_1"}),
        ('{"v":1,"id":"msg_1","phase":"final_answer"}', {"id": "msg_1", "phase": "final_answer"}),
        ('{"phase": "commentary", "id": "msg_1", "v": 1}', {"id": "msg_1", "phase": "commentary"}),
        ("msg_1", {"id": "msg_1"}),
        ('{"v":2}', {"id": '{"v":2}'}),
        ("{broken", {"id": "{broken"}),
    ],
)
def test_a_text_signature_of_the_responses_wire_is_an_item_id(api: str, signature: str, fields: dict[str, str]) -> None:
    """Version 1, the bare id of old files, and other spellings: id and phase are where that wire's dialect has them."""
    block = only(assistant(api, {"type": "text", "text": "Hi", "textSignature": signature}))
    assert (block.text_signature, block.extra["openai-responses"]) == (None, fields)


ITEM = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}],
    "encrypted_content": "c2VhbGVk",
}


@pytest.mark.parametrize(
    "item",
    [
        ITEM,
        {**ITEM, "status": None},
        {**ITEM, "status": "completed", "content": None},
        dict(reversed(ITEM.items())),
        {key: value for key, value in ITEM.items() if key != "encrypted_content"},
        {**ITEM, "summary": []},
        {**ITEM, "x_new": [1]},
    ],
)
def test_a_packed_reasoning_item_is_a_thought_with_its_token(item: dict[str, Any]) -> None:
    """The signature is the sealed content alone; the item's id is in the wire's extra; all of it is packed again."""
    packed = json.dumps(item, separators=(",", ":"))
    text = "\n\n".join(part["text"] for part in item["summary"])
    block = only(assistant("openai-responses", {"type": "thinking", "thinking": text, "thinkingSignature": packed}))
    assert (block.thinking, block.thinking_signature) == (text, item.get("encrypted_content"))
    assert block.extra["openai-responses"]["id"] == "rs_1"


def test_a_thought_is_packed_without_a_copy_of_its_item() -> None:
    """What is held for the return is small: the sealed content is there once."""
    sealed = "x" * 10_000
    packed = json.dumps({**ITEM, "encrypted_content": sealed, "status": "completed"}, separators=(",", ":"))
    line = assistant("openai-responses", {"type": "thinking", "thinking": "One.\n\nTwo.", "thinkingSignature": packed})
    assert il.dump(openclaw.decode([line])).count(b"x" * 10_000) == 1


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("reasoning_content", {}),
        ("reasoning", {"openai-completions": {"~fields": ["reasoning"]}}),
        ("reasoning_text", {"openai-completions": {"~fields": ["reasoning_text"]}}),
    ],
)
def test_a_field_name_is_no_signature(name: str, extra: dict[str, Any]) -> None:
    """On the chat wire the signature is the name of the field, and goes where that wire's dialect has it."""
    line = assistant("openai-completions", {"type": "thinking", "thinking": "Hm", "thinkingSignature": name})
    block = only(line)
    assert (block.thinking_signature, block.extra) == (None, extra)
    request = openclaw.decode([line]).request()
    assert il.dialect("openai-completions").encode_request(request).body["messages"][0][name] == "Hm"


def test_the_sealed_reasoning_of_a_call_is_a_thought_before_it() -> None:
    """Through OpenRouter a call's signature is an entry of `reasoning_details`, and goes back to it as such."""
    detail = {
        "type": "reasoning.encrypted",
        "data": "c2VhbGVk",
        "id": "call_1",
        "format": "google-gemini-v1",
        "index": 0,
    }
    call = {"type": "toolCall", "id": "call_1", "name": "read", "arguments": {}}
    line = assistant("openai-completions", {**call, "thoughtSignature": json.dumps(detail, separators=(",", ":"))})
    assert returned("openclaw", [line]) == [line]
    sealed, made = openclaw.decode([line]).messages[0].content  # type: ignore[union-attr,misc]
    assert (sealed.thinking_signature, sealed.redacted, made.thought_signature) == ("c2VhbGVk", True, None)
    encoded = il.dialect("openai-completions").encode_request(openclaw.decode([line]).request()).body["messages"][0]
    assert (encoded["reasoning_details"], encoded["tool_calls"][0]["id"]) == ([detail], "call_1")


def test_a_composite_id_is_the_id_of_the_call_and_its_result_follows() -> None:
    """The call's own id is what results name; the item's is in the wire's extra."""
    lines = [
        assistant("openai-responses", {"type": "toolCall", "id": "call_1|fc_1", "name": "read", "arguments": {}}),
        {"role": "toolResult", "toolCallId": "call_1|fc_1", "toolName": "read", "content": [], "isError": False},
        {"role": "toolResult", "toolCallId": "call_1", "toolName": "read", "content": [], "isError": False},
        {"role": "toolResult", "toolCallId": "call_9|fc_9", "toolName": "read", "content": [], "isError": False},
    ]
    assert returned("openclaw", lines) == lines
    answer, *results = openclaw.decode(lines).messages
    (call,) = answer.tool_calls  # type: ignore[union-attr]
    assert (call.id, call.extra["openai-responses"]) == ("call_1", {"id": "fc_1"})
    assert [result.tool_call_id for result in results] == ["call_1", "call_1", "call_9|fc_9"]  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["[Reasoning redacted]", "", "something else"])
def test_a_redacted_thought_has_no_words(text: str) -> None:
    """The notice is for people; the payload is the signature."""
    line = assistant(
        "anthropic-messages",
        {"type": "thinking", "thinking": text, "thinkingSignature": "cGF5", "redacted": True},
    )
    block = only(line)
    assert (block.thinking, block.thinking_signature, block.redacted) == (
        "" if text.startswith("[") else text,
        "cGF5",
        True,
    )


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": "Hi", "textSignature": "c2ln"},
        {"type": "thinking", "thinking": "Hm", "thinkingSignature": "c2ln"},
        {"type": "toolCall", "id": "a|fc_1", "name": "n", "arguments": {}, "thoughtSignature": "c2ln"},
    ],
)
@pytest.mark.parametrize("api", ["google-generative-ai", "anthropic-messages", "my-own-wire"])
def test_other_wires_pack_nothing(api: str, block: dict[str, Any]) -> None:
    """Where a signature is a token already, it stays one."""
    read = only(assistant(api, block))
    reported = (
        read.text_signature
        if block["type"] == "text"
        else read.thinking_signature
        if block["type"] == "thinking"
        else (read.thought_signature)
    )
    assert (reported, read.extra) == ("c2ln", {})


RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "model": "gpt-5.4",
    "status": "completed",
    "output": [
        {**ITEM, "encrypted_content": "c2VhbGVk"},
        {
            "id": "msg_abc",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "phase": "commentary",
            "content": [{"type": "output_text", "text": "I'll look.", "annotations": [], "logprobs": []}],
        },
        {
            "id": "fc_1",
            "type": "function_call",
            "status": "completed",
            "call_id": "call_1",
            "name": "read",
            "arguments": '{"path":"a"}',
        },
    ],
}


def test_an_answer_of_the_responses_wire_is_packed_as_pi_packs_it() -> None:
    """What our own dialect read goes into pi's forms, and comes out of them for the next request, unchanged."""
    answer = il.dialect("openai-responses").decode_response(RESPONSE)
    conversation = il.Conversation(entries=(il.Entry(message=answer),))
    (line,), losses = openclaw.encode(conversation)
    thought, text, call = line["content"]
    assert json.loads(thought["thinkingSignature"]) == ITEM
    assert text["textSignature"] == '{"v":1,"id":"msg_abc","phase":"commentary"}'
    assert call["id"] == "call_1|fc_1"
    again = openclaw.decode([line])
    assert again.messages[0].content == answer.content  # type: ignore[union-attr]
    assert not any(".content" in loss.path for loss in losses)
    encode = il.dialect("openai-responses").encode_request
    assert encode(again.request()).body["input"] == encode(conversation.request()).body["input"]


# --- laws ------------------------------------------------------------------------------------------------------------


def test_field_support_names_every_field() -> None:
    """A field that is added to the format is named here."""
    assert without_fate("openclaw") == []


@given(foreign_conversations("openclaw"))
def test_every_difference_is_reported_and_every_report_is_a_difference(conversation: il.Conversation) -> None:
    """What a conversation says and what is read back differ exactly where losses are reported."""
    assert accounted("openclaw", conversation) == ([], [])


PACKED_APIS = ["openai-responses", "azure-openai-responses", "openai-completions"]


@given(st.data())
def test_what_cannot_be_packed_is_reported(data: st.DataObject) -> None:
    """The same for conversations with wires that pi packs, with all kinds of things in their extras."""
    conversation = data.draw(foreign_conversations("openclaw"))
    api = data.draw(st.sampled_from(PACKED_APIS))
    owner = WIRES[api].base
    signatures = st.sampled_from(
        [{"id": "fc_1"}, {"id": "x|1", "phase": "commentary"}, {"~fields": ["reasoning"]}, {"id": 5}]
    )

    def with_signatures(entry: il.Entry) -> il.Entry:
        message: Any = entry.message
        if not isinstance(message, il.AssistantMessage):
            return entry
        content = message.content
        if isinstance(content, tuple):
            content = tuple(
                replace(block, extra={**block.extra, owner: data.draw(signatures)})
                if data.draw(st.booleans())
                else block
                for block in content
            )
        return replace(entry, message=replace(message, api=api, content=content))

    conversation = replace(conversation, entries=tuple(map(with_signatures, conversation.entries)))
    assert accounted("openclaw", conversation) == ([], [])


@given(st.data())
def test_whatever_is_encoded_comes_back_with_unknown_fields(data: st.DataObject) -> None:
    """Fields that we have never heard of return to their places, at any depth."""
    encoded = json.loads(json.dumps(openclaw.encode(data.draw(foreign_conversations("openclaw"))).body))
    lines = data.draw(st.sampled_from([encoded, *LINES.values()]))
    more = data.draw(with_unknown_fields(lines))
    assert returned("openclaw", more) == more


@given(st.data())
def test_what_was_changed_since_is_not_overruled_by_how_it_was_spelled(data: st.DataObject) -> None:
    """A conversation that was read, changed and written again says the change, whatever it looked like before."""
    read = il.load(
        il.dump(openclaw.decode(data.draw(with_unknown_fields(data.draw(st.sampled_from(list(LINES.values())))))))
    )
    assert accounted("openclaw", edited(read, data)) == ([], [])


@given(st.one_of(json_values(), *map(mutated, LINES.values())))
def test_anything_is_read_or_refused(value: Any) -> None:
    """Whatever comes in, decoding gives a conversation that says it again, or BadWire that names the place."""
    try:
        assert returned("openclaw", value) == ([value] if isinstance(value, dict) else value or [])
    except BadWire as error:
        assert error.path.startswith("$")


@pytest.mark.parametrize(
    ("value", "is_it"),
    [
        *((Lines(lines), True) for lines in LINES.values()),
        (LINES["tree_v3"][0], True),
        (Lines(LINES["tree_v2"][1:]), True),
        (Lines([{"role": "session", "version": 1}]), False),
        (Lines([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]), False),
        (LINES["simple"], False),
        ({"messages": []}, False),
        ("text", False),
    ],
    ids=range(11),
)
def test_session_files_are_distinguished_from_other_lines(value: Any, is_it: bool) -> None:
    """Only what a session file alone would have is claimed."""
    assert (openclaw.detect(value) is not None) is is_it


def test_lines_with_parts_of_another_format_are_not_claimed() -> None:
    """CodeBuddy writes the parts of the Responses API, which were unknown blocks here: all text was lost."""
    asked = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}], "timestamp": 1}
    answered = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]}
    (conversation,) = il.read(b"".join(json.dumps(line).encode() + b"\n" for line in (asked, answered)))
    assert [message.content[0].text for message in conversation.messages] == ["Hi", "Hello"]


def test_the_title_and_the_time_of_an_entry_are_read() -> None:
    """An entry and its message have a time each, and either may be missing."""
    lines = [
        {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00.000Z"},
        {
            "type": "message",
            "id": "a",
            "parentId": None,
            "timestamp": "2026-01-01T00:00:01.000Z",
            "message": {"role": "user", "content": "Hi"},
        },
        {
            "type": "session_info",
            "id": "b",
            "parentId": "a",
            "timestamp": "2026-01-01T00:00:02.000Z",
            "name": "A title",
        },
    ]
    session = openclaw.decode(lines)
    assert ("A title", 1767225601000) == (session.title, session.messages[0].timestamp)  # type: ignore[union-attr]
    encoded = openclaw.encode(session)
    assert lines == list(encoded.body)
    assert not [loss for loss in encoded.losses if loss.path == "$.title"]
