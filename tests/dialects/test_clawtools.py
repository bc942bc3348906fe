"""clawtools contexts, the projection of events, and the shapes of other wires that people write by mistake."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlingua as il
from dialects.trips import accounted, edited, foreign_conversations, returned, without_fate
from interlingua.dialects.files import clawtools
from interlingua.values.errors import BadWire
from interlingua.values.events import Done, Error
from interlingua.values.folding import unfold
from strategies import json_values, mutated, with_unknown_fields

SAMPLE = json.loads((Path(__file__).parents[1] / "wire/clawtools/tool_loop.json").read_text())

READ = {"type": "toolCall", "id": "call_abc123", "name": "read", "arguments": {"path": "src/index.ts"}}
RESULT = {
    "role": "toolResult",
    "toolCallId": "call_abc123",
    "toolName": "read",
    "content": [{"type": "text", "text": "File contents here…"}],
    "isError": False,
}
SHOWN = {
    "a plain user turn": {"role": "user", "content": "Hello!"},
    "a user turn with a picture": {
        "role": "user",
        "content": [
            {"type": "text", "text": "Describe this image:"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,..."}},
        ],
    },
    "a plain answer": {"role": "assistant", "content": "The answer is 42."},
    "an answer that calls": {
        "role": "assistant",
        "content": [{"type": "text", "text": "I'll read that file now."}, READ],
    },
    "nothing but a call": {"role": "assistant", "content": [READ]},
    "no words at all": {"role": "assistant", "content": None},
    "a result": RESULT,
    "a result with details": {**RESULT, "details": {"lines": 2}},
    "a result with a picture": {**RESULT, "content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]},
}


# --- contexts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("message", SHOWN.values(), ids=list(SHOWN))
def test_a_message_as_the_pages_show_it_comes_back(message: dict[str, Any]) -> None:
    """What the documents show is read and written exactly, alone and in a context, and is no mistake."""
    assert returned("clawtools", [message]) == [message]
    assert returned("clawtools", {"messages": [message]}) == {"messages": [message]}
    assert clawtools.mistakes([message]) == []


@pytest.mark.parametrize("form", [lambda v: v, json.dumps, lambda v: json.dumps(v).encode()])
def test_a_context_comes_back_from_values_text_and_bytes(form: Any) -> None:
    """A whole context, with every block the format has, returns equal and is free of mistakes."""
    assert returned("clawtools", form(SAMPLE)) == SAMPLE
    assert clawtools.mistakes(form(SAMPLE)) == []


def test_the_parts_of_a_context_are_where_they_belong() -> None:
    """System text, tools, calls, results and pictures are the format's own values."""
    conversation = clawtools.decode(SAMPLE)
    assert conversation.system == "Answer in one sentence."
    assert conversation.tools and conversation.tools[0].input_schema == SAMPLE["tools"][0]["input_schema"]
    user, answer, read, shot, *_ = conversation.messages
    assert [(b.mime_type, b.data, b.url, b.detail) for b in user.content[1:]] == [  # type: ignore[union-attr,index]
        ("image/png", "iVBORw0KGgo=", None, None),
        (None, None, "https://example.org/a.png", "low"),
        ("image/png", "iVBORw0KGgo=", None, None),
    ]
    assert isinstance(answer, il.AssistantMessage)
    assert answer.thinking == "Two things at once."
    assert [call.arguments for call in answer.tool_calls] == [{"path": "notes.txt"}, {}]
    assert isinstance(read, il.ToolResultMessage) and isinstance(shot, il.ToolResultMessage)
    assert (read.tool_name, read.details, read.is_error, shot.is_error) == ("read", {"bytes": 9}, False, True)


def test_a_conversation_of_another_wire_is_encoded_in_the_right_shapes() -> None:
    """Calls become blocks, results become messages with blocks; nothing written here is a mistake."""
    body = {
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": "Read it"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {"p": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "words"}]},
        ],
    }
    encoded, losses = clawtools.encode(il.dialect("anthropic-messages").decode(body))
    assert encoded == {
        "systemPrompt": "Be brief.",
        "messages": [
            {"role": "user", "content": "Read it"},
            {
                "role": "assistant",
                "content": [{"type": "toolCall", "id": "c1", "name": "read", "arguments": {"p": 1}}],
            },
            {
                "role": "toolResult",
                "toolCallId": "c1",
                "toolName": "read",
                "content": [{"type": "text", "text": "words"}],
                "isError": False,
            },
        ],
    }
    assert clawtools.mistakes(encoded) == []
    lost = {loss.path for loss in losses if loss.severity != "record" and ".extra." not in loss.path}
    assert lost == {"$.system", "$.system[0].cache"}


def test_a_branch_that_is_not_on_the_path_is_reported() -> None:
    """A list holds one path: what lies beside it is named by its entry."""
    entries = tuple(
        il.Entry(message=il.UserMessage(content=text), id=text, parent_id=parent)
        for text, parent in (("a", None), ("b", "a"), ("c", "a"))
    )
    encoded, losses = clawtools.encode(il.Conversation(entries=entries, head="b"))
    assert [message["content"] for message in encoded["messages"]] == ["a", "b"]
    assert [loss.path for loss in losses if loss.severity == "dropped"] == ["$.entries[2]"]


def test_a_list_that_got_a_system_prompt_becomes_a_context() -> None:
    """A bare list is written as such only while messages are all there is to say."""
    conversation = clawtools.decode([SHOWN["a plain user turn"]])
    changed = il.Conversation(entries=conversation.entries, system="Hi", extra=conversation.extra)
    assert clawtools.encode(changed).body == {"systemPrompt": "Hi", "messages": [SHOWN["a plain user turn"]]}


def test_field_support_names_every_field() -> None:
    """A field that is added to the format is named here."""
    assert without_fate("clawtools") == []


@given(foreign_conversations("clawtools"))
def test_every_difference_is_reported_and_every_report_is_a_difference(conversation: il.Conversation) -> None:
    """What a conversation says and what is read back differ exactly where losses are reported."""
    assert accounted("clawtools", conversation) == ([], [])


@given(st.data())
def test_whatever_is_encoded_comes_back_with_unknown_fields(data: st.DataObject) -> None:
    """Fields that we have never heard of return to their places, at any depth."""
    body = json.loads(json.dumps(clawtools.encode(data.draw(foreign_conversations("clawtools"))).body))
    more = data.draw(with_unknown_fields(body))
    assert returned("clawtools", more) == more


@given(st.data())
def test_what_was_changed_since_is_not_overruled_by_how_it_was_spelled(data: st.DataObject) -> None:
    """A conversation that was read, changed and written again says the change, whatever it looked like before."""
    read = il.load(il.dump(clawtools.decode(data.draw(with_unknown_fields(SAMPLE)))))
    assert accounted("clawtools", edited(read, data)) == ([], [])


@given(st.one_of(json_values(), mutated(SAMPLE), mutated(SAMPLE["messages"])))
def test_anything_is_read_or_refused_and_explained(value: Any) -> None:
    """Whatever comes in, decoding gives a conversation that says it again, or BadWire; mistakes never fail."""
    try:
        assert returned("clawtools", value) == value
    except BadWire as error:
        assert error.path.startswith("$")
    if isinstance(value, list | dict):
        assert all(mistake.remedy for mistake in clawtools.mistakes(value))


# --- events ----------------------------------------------------------------------------------------------------------

ANSWER = il.AssistantMessage(
    content=(
        il.ThinkingBlock(thinking="Hm", thinking_signature="c2ln"),
        il.TextBlock(text="Hello"),
        il.ToolCall(id="c1", name="read", arguments={"path": "a"}, thought_signature="c2ln"),
        il.ImageBlock(url="https://example.org/a.png"),
    ),
    usage=il.Usage.of(10, 5, cache_read=3),
    stop_reason="toolUse",
)
PROJECTED = [
    {"type": "start"},
    None,  # thinking_start
    {"type": "thinking_delta", "delta": "Hm"},
    {"type": "thinking_end", "content": "Hm"},
    None,  # text_start
    {"type": "text_delta", "delta": "Hello"},
    {"type": "text_end", "content": "Hello"},
    {"type": "toolcall_start"},
    {"type": "toolcall_delta", "delta": '{"path":"a"}'},
    {"type": "toolcall_end", "toolCall": {"id": "c1", "name": "read", "arguments": {"path": "a"}}},
    None,  # block_start
    None,  # block_end
    {"type": "done", "stopReason": "toolUse", "usage": {"inputTokens": 10, "outputTokens": 5}},
]


def test_every_event_is_projected_as_the_page_shows_it() -> None:
    """Each kind of event, in the order of a stream; what the protocol lacks is left out."""
    assert [clawtools.project(event) for event in unfold(ANSWER)] == PROJECTED


@pytest.mark.parametrize("reason", ["stop", "toolUse", "length"])
def test_the_end_names_its_reason_and_no_usage_that_is_not_known(reason: Any) -> None:
    """Usage is absent when unknown, not zero."""
    assert clawtools.project(Done(reason, il.AssistantMessage(content=()))) == {"type": "done", "stopReason": reason}


@pytest.mark.parametrize(
    ("message", "text"),
    [("overloaded", "overloaded"), (None, "the provider failed: aborted")],
    ids=["with a message", "without"],
)
def test_an_error_is_a_string(message: str | None, text: str) -> None:
    """The error event carries words: the message's own, else the reason."""
    failed = il.AssistantMessage(content=(), stop_reason="aborted", error_message=message)
    assert clawtools.project(Error("aborted", failed)) == {"type": "error", "error": text}


def test_calls_can_be_distinguished_by_id() -> None:
    """With a dict for the stream, starts and deltas carry the call's id; a call without one has no such key."""
    calls = (il.ToolCall(id="a", name="x", arguments={"n": 1}), il.ToolCall(id="", name="y", arguments={"n": 2}))
    ids: dict[int, str] = {}
    projected = [clawtools.project(event, ids=ids) for event in unfold(il.AssistantMessage(content=calls))]
    assert [
        event.get("id") for event in projected if event and event["type"] in ("toolcall_start", "toolcall_delta")
    ] == [
        "a",
        "a",
        None,
        None,
    ]


# --- mistakes --------------------------------------------------------------------------------------------------------

CALL = {"role": "assistant", "content": [{"type": "toolCall", "id": "c1", "name": "read", "arguments": {}}]}
RIGHT_RESULT = (
    '{"role":"toolResult","toolCallId":"c1","toolName":"read","content":[{"type":"text","text":"ok"}],"isError":false}'
)
FAILED_RESULT = RIGHT_RESULT.replace("false", "true")
RIGHT_CALL = '{"type":"toolCall","id":"c1","name":"read","arguments":{"path":"a"}}'
NAMELESS_CALL = RIGHT_CALL.replace('"c1"', '"…"')
RIGHT_TEXT = '{"type":"text","text":"ok"}'
RIGHT_IMAGE = '{"type":"image","data":"<base64>","mimeType":"image/png"}'
RIGHT_URL = '{"type":"image_url","image_url":{"url":"https://example.org/a.png"}}'
DATA_URL = "data:image/png;base64,aGk="

# (what is wrong, the message, where the mistake is, what to write instead)
WRONG: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "OpenAI's tool message",
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        "$[1]",
        RIGHT_RESULT,
    ),
    ("a tool message half translated", {"role": "tool", "toolCallId": "c1", "content": "ok"}, "$[1]", RIGHT_RESULT),
    (
        "OpenAI's tool message with parts",
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "ok"}]},
        "$[1]",
        RIGHT_RESULT,
    ),
    ("Ollama's tool message", {"role": "tool", "tool_name": "read", "content": "ok"}, "$[1]", '"toolName":"read"'),
    ("the legacy function message", {"role": "function", "name": "read", "content": "ok"}, "$[1]", '"toolName":"read"'),
    (
        "a result message in snake case",
        {"role": "tool_result", "tool_use_id": "c1", "content": "ok"},
        "$[1]",
        RIGHT_RESULT,
    ),
    (
        "Anthropic's tool_result",
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok", "is_error": True}]},
        "$[1].content[0]",
        FAILED_RESULT,
    ),
    (
        "a result block in our spelling",
        {"role": "user", "content": [{"type": "toolResult", "toolCallId": "c1", "content": "ok"}]},
        "$[1].content[0]",
        RIGHT_RESULT,
    ),
    (
        "Bedrock's toolResult",
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "ok"}], "status": "error"}}],
        },
        "$[1].content[0]",
        FAILED_RESULT,
    ),
    (
        "Anthropic's tool_use",
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}}]},
        "$[1].content[0]",
        RIGHT_CALL,
    ),
    (
        "Bedrock's toolUse",
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "read", "input": {"path": "a"}}}]},
        "$[1].content[0]",
        RIGHT_CALL,
    ),
    (
        "a call with arguments as text",
        {"role": "assistant", "content": [{**CALL["content"][0], "arguments": '{"path":"a"}'}]},
        "$[1].content[0].arguments",
        RIGHT_CALL,
    ),
    (
        "OpenAI's tool_calls",
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
            ],
        },
        "$[1].tool_calls[0]",
        RIGHT_CALL,
    ),
    (
        "Attocode's toolCalls",
        {"role": "assistant", "content": "", "toolCalls": [{"id": "c1", "name": "read", "arguments": {"path": "a"}}]},
        "$[1].toolCalls[0]",
        RIGHT_CALL,
    ),
    (
        "the legacy function_call",
        {"role": "assistant", "content": None, "function_call": {"name": "read", "arguments": '{"path":"a"}'}},
        "$[1].function_call",
        NAMELESS_CALL,
    ),
    (
        "Responses' input_text",
        {"role": "user", "content": [{"type": "input_text", "text": "ok"}]},
        "$[1].content[0]",
        RIGHT_TEXT,
    ),
    (
        "Responses' output_text",
        {"role": "assistant", "content": [{"type": "output_text", "text": "ok"}]},
        "$[1].content[0]",
        RIGHT_TEXT,
    ),
    (
        "Responses' input_image",
        {"role": "user", "content": [{"type": "input_image", "image_url": "https://example.org/a.png"}]},
        "$[1].content[0]",
        RIGHT_URL,
    ),
    (
        "an image_url that is a string",
        {"role": "user", "content": [{"type": "image_url", "image_url": DATA_URL}]},
        "$[1].content[0]",
        RIGHT_IMAGE,
    ),
    (
        "an image_url in a result",
        {**RESULT, "content": [{"type": "image_url", "image_url": {"url": DATA_URL}}]},
        "$[1].content[0]",
        RIGHT_IMAGE,
    ),
    (
        "Anthropic's image",
        {
            "role": "user",
            "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}],
        },
        "$[1].content[0]",
        RIGHT_IMAGE,
    ),
    (
        "Gemini's text part",
        {"role": "user", "parts": [{"text": "ok"}]},
        "$[1].parts[0]",
        RIGHT_TEXT,
    ),
    (
        "Gemini's functionCall",
        {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {"path": "a"}}}]},
        "$[1].parts[0]",
        NAMELESS_CALL,
    ),
    (
        "Gemini's functionResponse",
        {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "read", "response": {"a": 1}}}]},
        "$[1].parts[0]",
        '"toolCallId":"c1","toolName":"read","content":[{"type":"text","text":"{\\"a\\":1}"}]',
    ),
    (
        "Gemini's inlineData",
        {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}]},
        "$[1].parts[0]",
        RIGHT_IMAGE,
    ),
    ("Gemini's parts", {"role": "user", "parts": []}, "$[1].parts", "`content`"),
    ("Gemini's model role", {"role": "model", "content": "ok"}, "$[1].role", '"role": "assistant"'),
    ("a system message", {"role": "system", "content": "Be brief."}, "$[1].role", '`systemPrompt`: "Be brief."'),
    ("a developer message", {"role": "developer", "content": "Be brief."}, "$[1].role", "`systemPrompt`"),
    (
        "a result in snake case",
        {"role": "toolResult", "tool_call_id": "c1", "toolName": "read", "content": [], "isError": False},
        "$[1].tool_call_id",
        '"toolCallId":"c1"',
    ),
    ("a result with a string", {**RESULT, "content": "ok"}, "$[1].content", '[{"type":"text","text":"ok"}]'),
    (
        "a result without isError",
        {k: v for k, v in RESULT.items() if k != "isError"},
        "$[1].isError",
        '"isError":false',
    ),
    ("a block without a type", {"role": "user", "content": [{"x": 1}]}, "$[1].content[0]", "`type`"),
    ("a role that nobody knows", {"role": "narrator", "content": "…"}, "$[1].role", "`toolResult`"),
]


@pytest.mark.parametrize(("message", "path", "remedy"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_mistake_is_read_without_loss_and_explained(message: dict[str, Any], path: str, remedy: str) -> None:
    """Each foreign shape is kept as it is, named by its index, and answered with what to write instead."""
    wrong = [CALL, message]
    assert returned("clawtools", wrong) == wrong
    found = [mistake for mistake in clawtools.mistakes(wrong) if mistake.path == path]
    assert len(found) == 1
    assert " 1" in found[0].message
    assert remedy in found[0].remedy


ITEMS = [
    (
        "Responses' call item",
        {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path":"a"}'},
        f'{{"role": "assistant", "content": [{RIGHT_CALL}]}}',
    ),
    ("Responses' output item", {"type": "function_call_output", "call_id": "c1", "output": "ok"}, RIGHT_RESULT),
    ("no role at all", {"content": "Hi"}, "`user`, `assistant` and `toolResult`"),
    ("not even an object", "Hi", '"role": "user"'),
]


@pytest.mark.parametrize(("item", "remedy"), [row[1:] for row in ITEMS], ids=[row[0] for row in ITEMS])
def test_what_has_no_role_is_refused_and_explained(item: Any, remedy: str) -> None:
    """A message without a role is not read, but what it should have been is told all the same."""
    with pytest.raises(BadWire, match=r"messages\[1\]"):
        clawtools.decode([CALL, item])
    (found,) = clawtools.mistakes([CALL, item])
    assert found.path.startswith("$[1]")
    assert remedy in found.remedy


CONTEXTS = [
    ({"system": "Be brief.", "messages": []}, "$.system", '`systemPrompt`: "Be brief."'),
    ({"contents": [{"role": "user", "content": "Hi"}]}, "$.contents", "`messages`"),
    (
        {"messages": [], "tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": 1}}}]},
        "$.tools[0]",
        '{"name":"f","description":"…","input_schema":{"a":1}}',
    ),
    ({"messages": [], "tools": [{"name": "f", "parameters": {"a": 1}}]}, "$.tools[0].parameters", '"input_schema"'),
    ({"messages": [], "tools": [{"functionDeclarations": [{"name": "f"}]}]}, "$.tools[0]", '{"name":"f"'),
    (
        {"messages": [], "tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": {"a": 1}}}}]},
        "$.tools[0]",
        '"input_schema":{"a":1}',
    ),
]


@pytest.mark.parametrize(("context", "path", "remedy"), CONTEXTS)
def test_a_context_of_another_wire_is_explained(context: dict[str, Any], path: str, remedy: str) -> None:
    """System text, message lists and tools in other places are named, with the right place."""
    (found,) = clawtools.mistakes(context)
    assert found.path == path
    assert remedy in found.remedy
    if "messages" in context:
        assert returned("clawtools", context) == context


@pytest.mark.parametrize(
    ("value", "is_it"),
    [
        (SAMPLE, True),
        ([RESULT], True),
        ([CALL], True),
        ({"systemPrompt": "Hi", "messages": []}, True),
        ([{"role": "user", "content": "Hi"}], False),
        ({"messages": [{"role": "tool", "tool_call_id": "c1", "content": ""}]}, False),
        ({"entries": []}, False),
        ("text", False),
    ],
)
def test_contexts_are_distinguished_from_other_things(value: Any, is_it: bool) -> None:
    """Only what clawtools alone would write is claimed."""
    assert (clawtools.detect(value) is not None) is is_it
