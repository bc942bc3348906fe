"""Attocode's unified messages and responses, and the translations that its page promises."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import interlingua as il
from dialects.trips import accounted, edited, foreign_conversations, returned, without_fate
from interlingua.dialects.files import attocode
from interlingua.values.errors import BadWire
from interlingua.values.messages import CacheMarker, blocks_of
from laws.differences import answer_view, differing, is_under
from strategies import json_values, messages_for_answers, mutated, with_unknown_fields

SAMPLE = json.loads((Path(__file__).parents[1] / "wire/attocode/chat.json").read_text())

READ_FILE = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
INSIDE = {"name": "read_file", "description": "Read a file", "input_schema": READ_FILE}
WRAPPED = {
    "type": "function",
    "function": {"name": "read_file", "description": "Read a file", "parameters": READ_FILE},
}
CALL = {"id": "call_1", "name": "read_file", "arguments": {"path": "src/main.ts"}}
MESSAGES = [
    {"role": "system", "content": "You are a coding assistant..."},
    {"role": "user", "content": "Read the file"},
    {"role": "assistant", "content": "", "toolCalls": [CALL]},
    {"role": "tool", "toolCallId": "call_1", "content": "file contents here..."},
]


# --- the format itself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [lambda v: v, json.dumps, lambda v: json.dumps(v).encode()])
@pytest.mark.parametrize("data", [SAMPLE, MESSAGES], ids=["chat", "list"])
def test_messages_come_back_as_they_were(data: Any, form: Any) -> None:
    """Every field that the page shows, from values, text and bytes."""
    assert returned("attocode", form(data)) == data


def test_the_parts_of_a_chat_are_where_they_belong() -> None:
    """System text with its cache marker, calls with their errors, results with theirs, tools in any wrapper."""
    chat = attocode.decode(SAMPLE)
    assert [(block.text, block.cache) for block in chat.system or ()] == [  # type: ignore[union-attr]
        ("You are careful.", CacheMarker()),
        ("Today is Monday.", None),
    ]
    assert (chat.model and chat.model.id, chat.options.max_tokens, chat.options.temperature) == (
        "some-model",
        1024,
        0.2,
    )
    roles = [type(message).__name__ for message in chat.messages]
    assert roles == [
        "UserMessage",
        "AssistantMessage",
        *["ToolResultMessage"] * 2,
        "AssistantMessage",
        *["ToolResultMessage"] * 3,
        "UserMessage",
        "SystemMessage",
    ]
    calls = chat.messages[1].tool_calls  # type: ignore[union-attr]
    assert [(call.arguments, call.parse_error) for call in calls] == [
        ({"path": "a.txt"}, None),
        ({}, "Unexpected end of JSON input"),
    ]
    results = [message for message in chat.messages if isinstance(message, il.ToolResultMessage)]
    assert [(r.tool_name, r.content, r.details, r.is_error) for r in results] == [
        ("read_file", "Buy milk.", None, False),
        ("read_file", "Could not parse the arguments", None, True),
        ("list", '["a.txt"]', ["a.txt"], False),
        ("stat", "9 bytes", None, False),
        ("stat", "no such file", None, True),
    ]
    assert [(tool.name, tool.strict) for tool in chat.tools or ()] == [
        ("read_file", None),
        ("list", True),
        ("stat", None),
    ]


def test_results_that_were_changed_are_encoded_anew() -> None:
    """Hints about how results shared a message do not overrule what they say now."""
    chat = attocode.decode(SAMPLE["messages"])
    entries = list(chat.entries)
    at = next(n for n, entry in enumerate(entries) if getattr(entry.message, "tool_call_id", "") == "c3")
    entries[at] = il.Entry(message=replace(entries[at].message, content="nothing", details=None))
    del entries[at + 1]
    encoded = attocode.encode(replace(chat, entries=tuple(entries))).body
    assert encoded[6]["toolResults"] == [
        {"callId": "c3", "result": "nothing"},
        {"callId": "c5", "result": None, "error": "no such file"},
    ]


def test_a_failed_result_of_another_wire_keeps_its_flag() -> None:
    """A tool message has no flag, but it may carry its result once more, with the error."""
    result = il.ToolResultMessage(tool_call_id="c", content="boom", is_error=True)
    (encoded,) = attocode.encode(il.Conversation(entries=(il.Entry(message=result),))).body["messages"]
    assert encoded == {
        "role": "tool",
        "toolCallId": "c",
        "content": "boom",
        "toolResults": [{"callId": "c", "result": None, "error": "boom"}],
    }
    assert attocode.decode([encoded]).messages[0].is_error  # type: ignore[union-attr]


def test_field_support_names_every_field() -> None:
    """A field that is added to the format is named here."""
    assert without_fate("attocode") == []


@given(foreign_conversations("attocode"))
def test_every_difference_is_reported_and_every_report_is_a_difference(conversation: il.Conversation) -> None:
    """What a conversation says and what is read back differ exactly where losses are reported."""
    assert accounted("attocode", conversation) == ([], [])


@given(st.data())
def test_whatever_is_encoded_comes_back_with_unknown_fields(data: st.DataObject) -> None:
    """Fields that we have never heard of return to their places, at any depth."""
    body = json.loads(json.dumps(attocode.encode(data.draw(foreign_conversations("attocode"))).body))
    more = data.draw(with_unknown_fields(data.draw(st.sampled_from([body, SAMPLE]))))
    assert returned("attocode", more) == more


@given(st.data())
def test_what_was_changed_since_is_not_overruled_by_how_it_was_spelled(data: st.DataObject) -> None:
    """A conversation that was read, changed and written again says the change, whatever it looked like before."""
    read = il.load(il.dump(attocode.decode(data.draw(with_unknown_fields(SAMPLE)))))
    assert accounted("attocode", edited(read, data)) == ([], [])


@given(st.one_of(json_values(), mutated(SAMPLE), mutated(SAMPLE["messages"])))
def test_anything_is_read_or_refused(value: Any) -> None:
    """Whatever comes in, decoding gives a conversation that says it again, or BadWire that names the place."""
    try:
        assert returned("attocode", value) == value
    except BadWire as error:
        assert error.path.startswith("$")


# --- translations: Anthropic -----------------------------------------------------------------------------------------


def anthropic(messages: list[dict[str, Any]], **chat: Any) -> dict[str, Any]:
    request = attocode.decode({"messages": messages, **chat}).request()
    return il.dialect("anthropic-messages").encode_request(request).body


def test_the_example_body_is_encoded_exactly() -> None:
    """The page's own request, from the messages that it is the translation of."""
    assert anthropic(MESSAGES, model="claude-sonnet-4-20250514") == {
        "model": "claude-sonnet-4-20250514",
        "system": "You are a coding assistant...",
        "messages": [
            {"role": "user", "content": "Read the file"},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "call_1", "name": "read_file", "input": {"path": "src/main.ts"}}
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "file contents here..."}],
            },
        ],
    }


CACHED = {"type": "text", "text": "Stable.", "cache_control": {"type": "ephemeral"}}
TO_ANTHROPIC = {
    "a system role becomes the system parameter": (
        [{"role": "system", "content": "Be brief."}],
        {"system": "Be brief.", "messages": []},
    ),
    "calls become tool_use blocks after the text": (
        [{"role": "assistant", "content": "Reading.", "toolCalls": [CALL]}],
        {
            "messages": [
                {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "Reading."},
                        {"type": "tool_use", "id": "call_1", "name": "read_file", "input": {"path": "src/main.ts"}},
                    ],
                }
            ]
        },
    ),
    "a tool role becomes a user message with a tool_result": (
        [{"role": "tool", "toolCallId": "call_1", "content": "words"}],
        {
            "messages": [
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "words"}]}
            ]
        },
    ),
    "cache_control is passed through on system text": (
        [{"role": "system", "content": [CACHED]}],
        {"system": [CACHED], "messages": []},
    ),
    "cache_control is passed through on content": (
        [{"role": "user", "content": [CACHED]}],
        {"messages": [{"role": "user", "content": [CACHED]}]},
    ),
}


@pytest.mark.parametrize(("messages", "body"), TO_ANTHROPIC.values(), ids=list(TO_ANTHROPIC))
def test_a_row_of_the_anthropic_table(messages: list[dict[str, Any]], body: dict[str, Any]) -> None:
    """Each row of the table is a translation that holds."""
    assert anthropic(messages) == body


# --- translations: OpenAI and OpenRouter -----------------------------------------------------------------------------


def openai(messages: list[dict[str, Any]], **chat: Any) -> il.Encoded:
    return il.dialect("openai-completions").encode_request(attocode.decode({"messages": messages, **chat}).request())


OPENAI_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "read_file", "arguments": '{"path":"src/main.ts"}'},
}


def test_a_system_role_stays_a_message_for_openai() -> None:
    """Row one of the OpenAI table."""
    assert openai([{"role": "system", "content": "Be brief."}]).body["messages"] == [
        {"role": "system", "content": "Be brief."}
    ]


def test_calls_become_tool_calls_for_openai() -> None:
    """Row two: the wrapper with id, type and function, and arguments as a JSON string (OpenRouter's fourth point)."""
    (wire,) = openai([{"role": "assistant", "content": "", "toolCalls": [CALL]}]).body["messages"]
    assert (wire["role"], wire["tool_calls"], wire.get("content")) == ("assistant", [OPENAI_CALL], None)


def test_a_tool_role_becomes_a_tool_message_for_openai() -> None:
    """Row three: `tool_call_id` and the content."""
    messages = [MESSAGES[2], MESSAGES[3]]
    encoded = openai(messages).body["messages"][1]
    assert encoded == {"role": "tool", "tool_call_id": "call_1", "content": "file contents here..."}


def test_structured_content_is_flattened_for_openai() -> None:
    """Row four: plain strings without cache markers, and each marker that went is named."""
    messages = [
        {"role": "system", "content": [CACHED, {"type": "text", "text": " Now."}]},
        {"role": "user", "content": [CACHED]},
        {"role": "assistant", "content": [CACHED, {"type": "text", "text": " Go."}], "toolCalls": [CALL]},
        {"role": "tool", "toolCallId": "call_1", "content": [CACHED]},
    ]
    flat, losses = attocode.flattened(attocode.decode(messages))
    encoded = il.dialect("openai-completions").encode_request(flat.request()).body["messages"]
    assert [message["content"] for message in encoded] == ["Stable. Now.", "Stable.", "Stable. Go.", "Stable."]
    assert encoded[2]["tool_calls"] == [OPENAI_CALL]
    assert {loss.path for loss in losses if loss.severity == "dropped"} == {
        "$.system[0].cache",
        *(f"$.messages[{at}].content[0].cache" for at in range(3)),
    }


def test_content_that_is_no_mere_text_is_not_flattened() -> None:
    """Pictures, strings and other roles stay as they are."""
    chat = attocode.decode(SAMPLE["messages"][1:])
    flat, _ = attocode.flattened(chat)
    assert (
        [message.content for message in flat.messages[-2:]]
        == [  # type: ignore[union-attr]
            message.content
            for message in chat.messages[-2:]  # type: ignore[union-attr]
        ]
    )


@pytest.mark.parametrize(
    "given", [INSIDE, WRAPPED, {**INSIDE, "parameters": READ_FILE}], ids=["inside", "wrapped", "both"]
)
def test_both_tool_shapes_are_read_and_come_back(given: dict[str, Any]) -> None:
    """Whichever wrapper a definition has, it has it again afterwards."""
    assert returned("attocode", {"messages": [], "tools": [given]}) == {"messages": [], "tools": [given]}


@pytest.mark.parametrize("given", [INSIDE, WRAPPED], ids=["inside", "wrapped"])
def test_only_the_wrapper_of_a_tool_differs_between_providers(given: dict[str, Any]) -> None:
    """The schema is identical: `toOpenRouterSchema`, and its inverse."""
    assert openai([], tools=[given]).body["tools"] == [WRAPPED]
    assert anthropic([], tools=[given])["tools"] == [INSIDE]


OPENROUTER_ANSWER = {
    "id": "gen-1",
    "object": "chat.completion",
    "created": 1,
    "model": "deepseek/deepseek-r1",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": "Reading.",
                "reasoning": "I need the file.",
                "tool_calls": [OPENAI_CALL],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 60},
        "cost": 0.0125,
    },
}


def test_an_openrouter_answer_is_a_chat_response() -> None:
    """Thinking, cached tokens and cost arrive; the cached ones are counted apart from the fresh ones."""
    answer = il.dialect("openai-completions").decode_response(OPENROUTER_ANSWER)
    assert attocode.encode_response(answer).body == {
        "content": "Reading.",
        "toolCalls": [CALL],
        "usage": {"inputTokens": 40, "outputTokens": 20, "cacheReadTokens": 60, "cost": 0.0125},
        "model": "deepseek/deepseek-r1",
        "stopReason": "tool_use",
        "thinking": "I need the file.",
    }


# --- responses -------------------------------------------------------------------------------------------------------

RESPONSES = {
    "as little as possible": {"content": "Hi"},
    "everything": {
        "content": "Reading.",
        "toolCalls": [CALL],
        "usage": {
            "inputTokens": 10,
            "outputTokens": 5,
            "cacheReadTokens": 3,
            "cacheWriteTokens": 2,
            "cost": 0.5,
        },
        "model": "some-model",
        "stopReason": "tool_use",
        "thinking": "Hm.",
    },
    "cut": {"content": "Once upon a", "stopReason": "max_tokens"},
    "stopped by a word": {"content": "One", "stopReason": "stop_sequence"},
    "a plain end": {"content": "Bye", "stopReason": "end_turn", "usage": {"inputTokens": 1, "outputTokens": 0}},
    "the lower layer's words": {
        "content": "Hi",
        "usage": {"inputTokens": 9, "outputTokens": 1, "totalTokens": 10, "cachedTokens": 4},
        "rateLimitInfo": {"remainingRequests": 3},
    },
    "a call that could not be read": {
        "content": "",
        "toolCalls": [{**CALL, "arguments": {}, "parseError": "no JSON"}],
        "stopReason": "tool_use",
    },
    "nothing": {"content": "", "toolCalls": [], "thinking": ""},
}


@pytest.mark.parametrize("response", RESPONSES.values(), ids=list(RESPONSES))
def test_a_response_comes_back_as_it_was(response: dict[str, Any]) -> None:
    """Every field of `ChatResponse`, as an answer and as a conversation of one."""
    answer = il.load(il.dump(attocode.decode_response(response)), il.AssistantMessage)
    assert attocode.encode_response(answer).body == response
    assert returned("attocode", response) == response


@pytest.mark.parametrize(
    ("word", "reason"),
    [("end_turn", "stop"), ("tool_use", "toolUse"), ("max_tokens", "length"), ("stop_sequence", "stop")],
)
def test_a_stop_reason_is_understood(word: str, reason: str) -> None:
    """The four words, and the provider's word kept beside ours."""
    calls = {"toolCalls": [CALL]} if word == "tool_use" else {}
    answer = attocode.decode_response({"content": "Hi", "stopReason": word, **calls})
    assert (answer.stop_reason, answer.stop_detail) == (reason, word)


def test_usage_is_in_disjoint_buckets_and_cost_is_the_total() -> None:
    """Fresh input, cache reads and writes apart; cost unknown when it is not said."""
    answer = attocode.decode_response(RESPONSES["everything"])
    assert answer.usage == il.Usage.of(10, 5, cache_read=3, cache_write=2, cost=il.Cost(total=0.5))
    assert attocode.decode_response(RESPONSES["a plain end"]).usage == il.Usage.of(1, 0)


@given(st.data())
def test_an_answer_of_another_wire_loses_only_what_is_reported(data: st.DataObject) -> None:
    """Thinking, text and calls are said; each difference to the answer is accounted for."""
    answer = data.draw(messages_for_answers("attocode"))
    body, losses = attocode.encode_response(answer)
    reported = {loss.path for loss in losses}
    again = attocode.decode_response(json.loads(json.dumps(body)))
    found = differing(answer_view(answer, "attocode"), answer_view(again, "attocode"), reported, "attocode")
    found -= {"$.stopDetail"}  # the word that was said for our reason
    assert [path for path in found if not any(is_under(path, loss) for loss in reported)] == []
    more = data.draw(with_unknown_fields(json.loads(json.dumps(body))))
    assert attocode.encode_response(attocode.decode_response(more)).body == more


@pytest.mark.parametrize(
    ("value", "is_it"),
    [
        (SAMPLE, True),
        (MESSAGES, True),
        ([MESSAGES[3]], True),
        (RESPONSES["everything"], True),
        ([{"role": "user", "content": "Hi"}], False),
        ([{"role": "tool", "tool_call_id": "c", "content": ""}], False),
        ([{"role": "toolResult", "toolCallId": "c", "content": [], "isError": False}], False),
        ({"content": "Hi"}, False),
        ("text", False),
    ],
)
def test_messages_are_distinguished_from_those_of_others(value: Any, is_it: bool) -> None:
    """Only what Attocode alone would write is claimed."""
    assert (attocode.detect(value) is not None) is is_it


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"callId": "c", "result": "half of it", "error": "the disk is full"}, ["half of it", "the disk is full"]),
        ({"callId": "c", "result": {"read": 3}, "error": "the disk is full"}, ['{"read":3}', "the disk is full"]),
        ({"callId": "c", "result": "", "error": "the disk is full"}, ["the disk is full"]),
        ({"callId": "c", "result": None, "error": "the disk is full"}, ["the disk is full"]),
        ({"callId": "c", "error": "the disk is full"}, ["the disk is full"]),
        ({"callId": "c", "result": "same", "error": "same"}, ["same"]),
    ],
)
@pytest.mark.parametrize("form", ["item", "tool message", "tool message without content"])
def test_the_text_of_an_error_reaches_the_model(item: dict[str, Any], expected: list[str], form: str) -> None:
    """Beside the result, if there is one; and all of it comes back as it was."""
    call = {"role": "assistant", "content": "", "toolCalls": [{"id": "c", "name": "copy", "arguments": {}}]}
    answer: dict[str, Any] = {"role": "tool", "content": "", "toolResults": [item]}
    if form != "item":
        answer["toolCallId"] = "c"
        expected = ["the disk is full" if "disk" in item["error"] else "same"]
    if form == "tool message without content":
        del answer["content"]
    messages = [{"role": "user", "content": "go"}, call, answer]
    conversation = il.decode(messages, "attocode")
    result = conversation.messages[2]
    assert isinstance(result, il.ToolResultMessage)
    assert (expected, True) == ([block.text for block in blocks_of(result.content)], result.is_error)  # type: ignore[union-attr]
    assert messages == il.encode(conversation, "attocode").body
    sent = il.encode(conversation, "openai-completions").body
    assert all(word in str(sent) for word in expected)
