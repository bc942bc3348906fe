"""The Chat Completions wire and its many hosts. Numbers in names are those of known hard cases and of wire oddities."""

import json
from typing import Any

import httpx2
import openai
import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import TypeAdapter

import interlingua as il
import laws.wires
from interlingua.dialects import dialect
from interlingua.dialects import openai_chat as wire
from interlingua.dialects.framing import Frame
from interlingua.values.canonical import dump, load
from interlingua.values.errors import (
    AuthFailed,
    BadRequest,
    BadWire,
    ContentFiltered,
    ContextTooLong,
    FormatError,
    ProviderError,
    RateLimited,
)
from interlingua.values.events import (
    BlockEnd,
    Done,
    Error,
    Start,
    StreamEvent,
    TextDelta,
    TextEnd,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from interlingua.values.folding import fold, unfold
from interlingua.values.messages import (
    AssistantMessage,
    AudioBlock,
    CacheMarker,
    Citation,
    Cost,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from interlingua.values.request import (
    Context,
    ModelDescriptor,
    Options,
    OutputSchema,
    Reasoning,
    Request,
    ToolChoice,
    ToolSpec,
)
from laws.wires import stream_of

API = wire.API
PNG = "iVBORw0KGgo="
PDF = "JVBERi0="


def returned(body: Any, **more: Any) -> Any:
    """A request after decoding, our JSON, and encoding."""
    return wire.encode_request(load(dump(wire.decode_request(body, **more)), Request), **more).body


def read(*messages: Any, **more: Any) -> Request:
    return wire.decode_request({"model": "m", "messages": list(messages), **more})


def message(wire_message: Any) -> Any:
    """One wire message as ours, after some words of the user."""
    return read({"role": "user", "content": "hi"}, wire_message).context.messages[1]


def asking(*messages: Any, system: Any = None, compat: Any = None, **options: Any) -> Request:
    return Request(
        model=ModelDescriptor(id="m", compat=compat),
        context=Context(system=system, messages=tuple(messages)),
        options=Options(**options),
    )


def body_of(*messages: Any, **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = wire.encode_request(asking(*messages, **more)).body
    return body


def lost(request: Request) -> dict[str, str]:
    """Places and severities of what is lost, without the bookkeeping."""
    return {x.path: x.severity for x in wire.encode_request(request).losses if x.severity != "record"}


# --- parts -----------------------------------------------------------------------------------------------------------

PARTS: dict[str, tuple[Any, Any]] = {
    "text": ({"type": "text", "text": "hi"}, TextBlock(text="hi")),
    "cached text": (
        {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        TextBlock(text="hi", cache=CacheMarker(ttl="1h")),
    ),
    "picture": (
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"}},
        ImageBlock(data=PNG, mime_type="image/png", detail="low"),
    ),
    "picture by URL": (
        {"type": "image_url", "image_url": {"url": "https://e.org/a.png"}},
        ImageBlock(url="https://e.org/a.png"),
    ),
    "sound": (
        {"type": "input_audio", "input_audio": {"data": "UklG", "format": "mp3"}},
        AudioBlock(data="UklG", mime_type="audio/mpeg"),
    ),
    "sound by URL": (
        {"type": "audio_url", "audio_url": {"url": "https://e.org/a.ogg"}},
        AudioBlock(url="https://e.org/a.ogg"),
    ),
    "file": (
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}", "filename": "a.pdf"}},
        DocumentBlock(data=PDF, mime_type="application/pdf", title="a.pdf"),
    ),
    "file by id": ({"type": "file", "file": {"file_id": "file-1"}}, DocumentBlock(file_id="file-1")),
    "file by URL": (
        {"type": "file", "file": {"file_data": "https://e.org/a.pdf"}},
        DocumentBlock(url="https://e.org/a.pdf"),
    ),
    "bare base64": ({"type": "file", "file": {"file_data": PDF}}, DocumentBlock(data=PDF)),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_and_blocks_say_the_same(name: str) -> None:
    """
    Each part is read as its block, the block is said as that part, and nothing is noted about its spelling.
    """
    part, block = PARTS[name]
    (user,) = read({"role": "user", "content": [part]}).context.messages
    assert user == UserMessage(content=(block,))
    assert body_of(UserMessage(content=(block,)))["messages"] == [{"role": "user", "content": [part]}]


ODD_PARTS: dict[str, tuple[Any, Any]] = {
    "a bare URL": ({"type": "image_url", "image_url": "https://e.org/a.png"}, ImageBlock),
    "a MIME type with parameters (65)": (
        {"type": "image_url", "image_url": {"url": f"data:image/png;charset=utf-8;base64,{PNG}"}},
        ImageBlock,
    ),
    "a file as a picture": (
        {"type": "image_url", "image_url": {"url": f"data:application/pdf;base64,{PDF}"}},
        DocumentBlock,
    ),
    "a picture as a file": (
        {"type": "file", "file": {"file_data": f"data:image/png;base64,{PNG}", "filename": "a.png"}},
        ImageBlock,
    ),
    "a document's URL": (
        {"type": "document_url", "document_url": "https://e.org/a.pdf", "document_name": "A"},
        DocumentBlock,
    ),
    "a bare sound": ({"type": "input_audio", "input_audio": "UklG"}, AudioBlock),
    "a breakpoint of OpenAI": (
        {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}},
        TextBlock,
    ),
    "unknown keys at each depth": (
        {"type": "image_url", "image_url": {"url": "https://e.org/a", "x": 1}, "y": 2},
        ImageBlock,
    ),
    "a video": ({"type": "video_url", "video_url": {"url": "https://e.org/a.mp4"}}, OpaqueBlock),
    "no type": ({"text": "a"}, OpaqueBlock),
    "no object": ("a", OpaqueBlock),
    "null": (None, OpaqueBlock),
    "text that is none": ({"type": "text", "text": 1}, OpaqueBlock),
    "a file that is none": ({"type": "file", "file": {"filename": "a"}}, OpaqueBlock),
}


@pytest.mark.parametrize("name", ODD_PARTS)
def test_odd_parts_come_back_as_they_were(name: str) -> None:
    """
    However a part is spelled, it is read as the block it means, or kept opaque, and returns unchanged.
    """
    part, kind = ODD_PARTS[name]
    body = {"model": "m", "messages": [{"role": "user", "content": [part, part]}]}
    (user,) = wire.decode_request(body).context.messages
    assert [kind, kind] == [type(block) for block in user.content]
    assert body == returned(body)


def test_odd_data_urls_hold_the_data_once() -> None:
    """
    Of a data URL with an unusual prefix only the prefix is noted.
    """
    url = f"data:image/png;a=b;base64,{PNG * 100}"
    (user,) = read({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}).context.messages
    assert dump(user).count(PNG.encode() * 100) == 1
    assert user.content[0].mime_type == "image/png"


# --- messages --------------------------------------------------------------------------------------------------------

CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
SUMMARY = {"type": "reasoning.summary", "summary": "Well. ", "id": "rs_1", "format": "openai-responses-v1", "index": 0}
SIGNED = {"type": "reasoning.text", "text": "Hm.", "signature": "EpQB+/=", "format": "anthropic-claude-v1", "index": 0}
SEALED = {"type": "reasoning.encrypted", "data": "gAAA+/=", "id": "rs_1", "format": "openai-responses-v1", "index": 1}

SPOKEN: dict[str, Any] = {
    "a string": {"content": "hi"},
    "an empty string": {"content": ""},
    "null": {"content": None},
    "nothing": {},
    "one part": {"content": [{"type": "text", "text": "hi"}]},
    "parts": {"content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "no"}, {"type": "x"}]},
    "no parts": {"content": []},
    "a call": {"content": None, "tool_calls": [CALL]},
    "a call and no content": {"tool_calls": [CALL]},
    "a call and an empty string": {"content": "", "tool_calls": [CALL]},
    "no calls (25)": {"content": "hi", "tool_calls": []},
    "calls that are null (25)": {"content": "hi", "tool_calls": None},
    "calls of all kinds": {
        "content": None,
        "tool_calls": [
            CALL,
            {"id": "c2", "type": "custom", "custom": {"name": "sh", "input": "ls"}},
            {"id": "c3", "type": "function", "function": {"name": "f", "arguments": "", "x": 1}, "index": 2},
            {"id": "c4", "type": "function", "function": {"name": "f"}},
            {"id": "c5", "function": {"name": "f", "arguments": {"a": 1}}},
            {"id": "c6", "type": "function", "function": {"name": "f", "arguments": "{broken"}},
            {"id": "c7", "type": "unheard", "of": 1},
            {"id": "c8", "type": "function", "function": {"name": "f", "arguments": '{ "a": 1 }'}, "cache_control": {}},
        ],
    },
    "a refusal": {"content": None, "refusal": "I will not."},
    "a refusal that is null": {"content": "hi", "refusal": None, "annotations": [], "audio": None},
    "thinking": {"content": "hi", "reasoning_content": "hm"},
    "thinking elsewhere": {"content": "hi", "reasoning": "hm"},
    "thinking twice": {"content": "hi", "reasoning": "hm", "reasoning_content": "hm", "tool_calls": [CALL]},
    "two thoughts": {"content": "hi", "reasoning": "hm", "reasoning_content": "well"},
    "no thinking": {"content": "hi", "reasoning": None, "reasoning_content": ""},
    "details": {"content": "hi", "reasoning_details": [SIGNED]},
    "details and their words": {"content": "hi", "reasoning": "Hm.", "reasoning_details": [SIGNED, SEALED]},
    "details and other words": {"content": "hi", "reasoning": "Well?", "reasoning_details": [SUMMARY]},
    "details of all kinds": {
        "reasoning_details": [SUMMARY, SEALED, {"type": "reasoning.text", "signature": "s"}, {"type": "x"}, 1],
    },
    "thinking in the content": {
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "closed": True},
            {"type": "thinking", "thinking": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"type": "thinking", "thinking": "plain"},
            {"type": "thinking", "thinking": []},
            {"type": "thinking", "thinking": [{"type": "reference", "reference_ids": [1]}]},
            {"type": "text", "text": "hi"},
        ],
        "prefix": False,
    },
    "sources": {
        "content": "See.",
        "annotations": [
            {
                "type": "url_citation",
                "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 3, "x": 1},
            },
            {"type": "file", "file": {"hash": "h", "content": [{"type": "text", "text": "a"}]}},
        ],
    },
    "sound": {"content": None, "audio": {"id": "audio_1"}},
    "an old call": {"content": None, "function_call": {"name": "f", "arguments": "{}"}},
    "a name": {"content": "hi", "name": "Ann", "cache_control": {"type": "ephemeral"}},
    "signatures of Google": {
        "content": "hi",
        "extra_content": {"google": {"thought": True, "thought_signature": "AVSo="}},
        "tool_calls": [{**CALL, "extra_content": {"google": {"thought_signature": "c2ln"}}}],
    },
    "an object": {"content": {"answer": 1}},
}


@pytest.mark.parametrize("name", SPOKEN)
def test_assistant_messages_come_back_as_they_were(name: str) -> None:
    """
    Whatever an assistant message has, and however it is spelled, it returns unchanged.
    """
    body = {"model": "m", "messages": [{"role": "user", "content": "?"}, {"role": "assistant", **SPOKEN[name]}]}
    assert body == returned(body)


def test_case_17_every_name_for_thinking_is_read_and_words_that_stand_twice_only_once() -> None:
    """
    Aliases decode to thinking; the wire's name for it is noted, and never in the signature.
    """
    for name in ("reasoning_content", "reasoning", "reasoning_text", "thinking"):
        blocks = message({"role": "assistant", "content": "hi", name: "hm"}).content
        assert blocks[0].thinking == "hm"
        assert blocks[0].thinking_signature is None
    twice = message({"role": "assistant", "content": "hi", "reasoning": "hm", "reasoning_content": "hm"})
    assert [ThinkingBlock, TextBlock] == [type(block) for block in twice.content]


def test_case_13_thinking_is_a_list_of_blocks_each_with_its_own_signature() -> None:
    """
    Details are blocks in their order, sealed ones included; nothing is flattened.
    """
    blocks = message({"role": "assistant", "content": "hi", "reasoning_details": [SUMMARY, SEALED, SIGNED]}).content
    assert [("Well. ", None, False), ("", "gAAA+/=", True), ("Hm.", "EpQB+/=", False)] == [
        (block.thinking, block.thinking_signature, block.redacted) for block in blocks[:3]
    ]


def test_case_16_thinking_inside_content_is_read_at_both_levels() -> None:
    """
    Mistral's content is a list whose thinking is a list again.
    """
    content = [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    (thought,) = message({"role": "assistant", "content": content}).content
    assert thought.thinking == "ab"


def test_the_order_of_a_message_is_thinking_text_calls() -> None:
    """
    The wire has a place for each kind; what comes in another order is said with a loss.
    """
    wire_message = {"role": "assistant", "content": "hi", "tool_calls": [CALL], "reasoning_content": "hm"}
    assert [ThinkingBlock, TextBlock, ToolCall] == [type(block) for block in message(wire_message).content]
    call = ToolCall(id="c", name="f", arguments={})
    late = AssistantMessage(content=(call, TextBlock(text="later")), api=API, stop_reason="toolUse")
    assert lost(asking(late)) == {"$.messages[0].content": "weakened"}
    assert body_of(late)["messages"][0]["content"] == "later"
    answer = wire.encode_response(late)
    assert [("$.content", "order")] == [(loss.path, loss.what) for loss in answer.losses if loss.severity == "weakened"]
    assert [TextBlock, ToolCall] == [type(block) for block in wire.decode_response(answer.body).content or ()]


def test_one_turn_stays_one_message() -> None:
    """
    Case 37: text and all calls of a turn are one message; one plain text is a string, which every host takes.
    """
    calls = tuple(ToolCall(id=f"c{n}", name="f", arguments={}) for n in (1, 2))
    (wire_message,) = body_of(AssistantMessage(content=(TextBlock(text="a"), *calls)))["messages"]
    assert wire_message["content"] == "a"
    assert [call["id"] for call in wire_message["tool_calls"]] == ["c1", "c2"]


def test_changed_words_are_not_overruled_by_how_they_came() -> None:
    """
    Hints are followed only while the content is what they were noted for.
    """
    wire_message = {"role": "assistant", "content": {"a": 1}, "tool_calls": [{**CALL, "id": ""}]}
    answer = message(wire_message)
    text, call = answer.content
    changed = AssistantMessage(
        content=(TextBlock(text="other"), ToolCall(id="new", name="add", arguments={"a": 2}, extra=call.extra)),
        extra=answer.extra,
    )
    (again,) = body_of(changed)["messages"]
    assert again["content"] == "other"
    assert again["tool_calls"][0] == {**CALL, "id": "new", "function": {"name": "add", "arguments": '{"a":2}'}}
    assert text.text == '{"a":1}'


def test_a_custom_tool_takes_one_text() -> None:
    """
    The call of a custom tool is a call with the argument `input`, and goes back as one of a custom tool.
    """
    custom = {"id": "c", "type": "custom", "custom": {"name": "sh", "input": 'ls "a"'}}
    answer = message({"role": "assistant", "content": None, "tool_calls": [custom]})
    assert answer.tool_calls[0].arguments == {"input": 'ls "a"'}
    assert body_of(answer)["messages"][0]["tool_calls"] == [custom]


RESULTS: dict[str, Any] = {
    "a string": "4",
    "an empty string": "",
    "parts": [{"type": "text", "text": "4"}, {"type": "text", "text": "5", "cache_control": {"type": "ephemeral"}}],
    "one part": [{"type": "text", "text": "4"}],
    "no parts": [],
    "null": None,
    "a picture": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}],
}


@pytest.mark.parametrize("name", RESULTS)
def test_case_72_results_are_strings_or_parts(name: str) -> None:
    """
    Both spellings are read alike, cache markers included, and come back as they were.
    """
    calls = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "call_1", "content": RESULTS[name]}
    body = {"messages": [calls, result, {**result, "name": "add", "cache_control": {"type": "ephemeral"}}]}
    first, second = wire.decode_request(body).context.messages[1:]
    assert first.tool_name == second.tool_name == "add"
    assert second.cache == CacheMarker()
    assert body == returned(body)


def test_one_plain_text_of_a_result_is_encoded_as_a_string() -> None:
    """
    Results are blocks with us; hosts that take only strings get one.
    """
    result = ToolResultMessage(tool_call_id="c", content=(TextBlock(text="4"),), is_error=False)
    assert body_of(result)["messages"] == [{"role": "tool", "tool_call_id": "c", "content": "4"}]


def test_that_a_result_is_an_error_has_no_place() -> None:
    """
    It is reported; nothing is put into the text.
    """
    failed = ToolResultMessage(tool_call_id="c", content="no", is_error=True)
    assert lost(asking(failed)) == {"$.messages[0].isError": "dropped"}


def test_case_22_calls_without_an_id_get_one_and_results_find_them_in_order() -> None:
    """
    Empty and missing ids are made up on reading, paired by occurrence, and never sent back.
    """
    bare = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    other = {**bare, "id": "", "function": {"name": "g", "arguments": "{}"}}
    turn = [
        {"role": "assistant", "content": None, "tool_calls": [bare, other, {**CALL, "id": "null"}]},
        {"role": "tool", "content": "1"},
        {"role": "tool", "tool_call_id": "", "content": "2"},
        {"role": "tool", "tool_call_id": "null", "content": "3"},
        {"role": "tool", "tool_call_id": "", "content": "nobody's"},
    ]
    body = {"messages": turn * 2}
    messages = wire.decode_request(body).context.messages
    assert [call.id for call in messages[0].tool_calls] == ["call_0", "call_1", "call_2"]
    assert [(result.tool_call_id, result.tool_name) for result in messages[1:4]] == [
        ("call_0", "f"),
        ("call_1", "g"),
        ("call_2", "add"),
    ]
    assert [call.id for call in messages[5].tool_calls] == ["call_4", "call_5", "call_6"]
    assert body == returned(body)


def test_results_of_calls_without_an_id_are_encoded_without_one() -> None:
    """
    A result that a program made for a call with a made-up id goes to the same host without that id.
    """
    answer = wire.decode_response(whole({"tool_calls": [{**CALL, "id": ""}]}), mint=lambda n: f"unique-{n}")
    assert answer.tool_calls[0].id == "unique-0"
    result = ToolResultMessage(tool_call_id="unique-0", tool_name="add", content="4", is_error=False)
    calls, wire_result = body_of(answer, result)["messages"]
    assert calls["tool_calls"][0]["id"] == wire_result["tool_call_id"] == ""


@pytest.mark.parametrize("function", [{"name": "f", "arguments": None}, {"name": "f", "input": "ls"}])
def test_a_function_without_its_arguments_comes_back_as_it_was(function: dict[str, Any]) -> None:
    """
    A null, or another key in their place: the call has no arguments, and its wire is kept, in requests and answers.
    """
    odd = {"id": "call_1", "type": "function", "function": function}
    body = {"messages": [{"role": "assistant", "content": None, "tool_calls": [odd]}]}
    assert body == returned(body)
    answer = load(dump(wire.decode_response(whole({"tool_calls": [odd]}))), AssistantMessage)
    assert answer.tool_calls[0].arguments == {}
    assert [odd] == wire.encode_response(answer).body["choices"][0]["message"]["tool_calls"]


def test_repeated_ids_answer_call_by_call() -> None:
    """
    Two calls of one id are answered one after the other; another turn begins anew.
    """
    again = {**CALL, "function": {"name": "sub", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "call_1", "content": ""}
    turn = {"role": "assistant", "content": None, "tool_calls": [CALL, again]}
    messages = read(turn, result, result, result, {**turn, "tool_calls": [again]}, result).context.messages
    assert [m.tool_name for m in messages if isinstance(m, ToolResultMessage)] == ["add", "sub", "sub", "sub"]


def test_roles_that_are_not_ours_are_kept() -> None:
    """
    The old role of function results, and any other, return as they were.
    """
    body = {"messages": [{"role": "function", "name": "f", "content": "1"}, {"role": "x", "y": [1]}]}
    assert [CustomMessage, CustomMessage] == [type(m) for m in wire.decode_request(body).context.messages]
    assert body == returned(body)


# --- requests --------------------------------------------------------------------------------------------------------

USER = {"role": "user", "content": "hi"}

SYSTEMS: list[tuple[list[Any], Any, str | None, int]] = [
    ([{"role": "system", "content": "a"}, USER], "a", None, 1),
    ([{"role": "developer", "content": "a", "name": "n"}, USER], "a", "developer", 1),
    ([{"role": "system", "content": [{"type": "text", "text": "a"}]}], (TextBlock(text="a"),), None, 0),
    ([{"role": "system", "content": ""}, {"role": "system", "content": "b"}], "", None, 1),
    ([{"role": "system", "content": None}, USER], None, None, 2),
    ([{"role": "system", "content": [{"type": "image_url"}]}, USER], None, None, 2),
    ([USER, {"role": "developer", "content": "later"}], None, None, 2),
]


@pytest.mark.parametrize(("messages", "system", "role", "rest"), SYSTEMS)
def test_the_first_message_is_the_system_prompt_and_later_ones_stay(
    messages: list[Any], system: Any, role: str | None, rest: int
) -> None:
    """
    Only a leading system message of text is the system prompt; its role is noted where it is not the usual one.
    """
    request = wire.decode_request({"messages": messages})
    assert (system, role, rest) == (request.context.system, request.context.system_role, len(request.context.messages))
    assert {"messages": messages} == returned({"messages": messages})


def test_a_system_message_that_comes_first_without_a_system_prompt_becomes_it() -> None:
    """
    The wire cannot tell the two apart, and that is said.
    """
    assert lost(asking(SystemMessage(content="a"))) == {"$.messages[0]": "weakened", "$.system": "weakened"}
    assert lost(asking(SystemMessage(content="a"), system="b")) == {}


BODIES: dict[str, Any] = {
    "everything": {
        "model": "m",
        "messages": [USER],
        "max_completion_tokens": 10,
        "temperature": 0.5,
        "top_p": 1,
        "top_k": 40,
        "stop": ["a", "b"],
        "seed": 7,
        "reasoning_effort": "low",
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "prompt_cache_key": "k",
        "prompt_cache_retention": "24h",
        "service_tier": "flex",
        "metadata": {"a": "b"},
        "user": "u",
        "stream": True,
        "stream_options": {"include_usage": True, "include_obfuscation": False},
        "n": 2,
        "logprobs": True,
        "logit_bias": {"1": 2},
        "verbosity": "low",
        "store": False,
        "modalities": ["text", "audio"],
        "x_unknown": {"y": [1]},
    },
    "the other names": {"messages": [], "max_tokens": 10, "stop": "a", "random_seed": 7, "safe_prompt": True},
    "both limits": {"messages": [], "max_tokens": 10, "max_completion_tokens": 20},
    "nulls": {"messages": [], "max_tokens": None, "stop": None, "tools": None, "tool_choice": None, "stream": None},
    "nonsense": {"messages": [], "max_tokens": "10", "stop": [1], "temperature": True, "reasoning": 1, "thinking": "x"},
    "no messages": {"model": "m"},
    "a stream without usage": {"messages": [], "stream": True},
    "no stream but options": {"messages": [], "stream": False, "stream_options": {"include_usage": True}},
    "schema": {
        "messages": [],
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": True, "x": 1}},
    },
    "a schema without a name": {
        "messages": [],
        "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}},
    },
    "any object": {"messages": [], "response_format": {"type": "json_object", "schema": {}}},
    "text": {"messages": [], "response_format": {"type": "text"}},
    "one tool": {"messages": [], "tool_choice": {"type": "function", "function": {"name": "f"}, "x": 1}},
    "any tool": {"messages": [], "tool_choice": "any"},
    "some tools": {
        "messages": [],
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
        },
    },
    "one of the tools": {
        "messages": [],
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]},
        },
    },
    "odd allowed tools": {
        "messages": [],
        "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "mcp"}]}},
    },
    "a custom tool to call": {"messages": [], "tool_choice": {"type": "custom", "custom": {"name": "sh"}}},
    "tools": {
        "messages": [],
        "tools": [
            {
                "type": "function",
                "function": {"name": "f", "description": "d", "parameters": {}, "strict": True, "x": 1},
            },
            {"type": "function", "function": {"name": "f", "strict": None}, "cache_control": {"type": "ephemeral"}},
            {"function": {"name": "f", "parameters": {"type": "object"}}},
            {"type": "custom", "custom": {"name": "sh", "format": {"type": "text"}}},
            {"type": "openrouter:web_search", "parameters": {}},
        ],
    },
    "old functions": {"messages": [], "functions": [{"name": "f"}], "function_call": {"name": "f"}},
    "reasoning at OpenRouter": {"messages": [], "reasoning": {"effort": "low", "max_tokens": 5, "exclude": True}},
    "reasoning at Z.AI": {"messages": [], "thinking": {"type": "enabled", "clear_thinking": False}},
    "reasoning at DeepSeek": {"messages": [], "thinking": {"type": "enabled"}, "reasoning_effort": "max"},
    "reasoning at Qwen": {"messages": [], "enable_thinking": True, "thinking_budget": 50},
    "reasoning in a template": {"messages": [], "chat_template_kwargs": {"enable_thinking": False, "x": 1}},
    "no reasoning": {"messages": [], "reasoning_effort": "none"},
    "a user among the labels": {"messages": [], "metadata": {"user_id": "a"}, "user": "b"},
    "a cache in memory": {"messages": [], "prompt_cache_retention": "in_memory"},
}


@pytest.mark.parametrize("name", BODIES)
def test_requests_come_back_as_they_were(name: str) -> None:
    """
    Options in every spelling, and fields that we have never heard of, return unchanged.
    """
    assert BODIES[name] == returned(BODIES[name])


OPTIONS: list[tuple[str, Any, dict[str, Any]]] = [
    ("max_tokens", 10, {"max_completion_tokens": 10}),
    ("stop", ("a",), {"stop": ["a"]}),
    ("seed", 7, {"seed": 7}),
    ("parallel_tools", False, {"parallel_tool_calls": False}),
    ("session_id", "s", {"prompt_cache_key": "s"}),
    ("cache_retention", "long", {"prompt_cache_retention": "24h"}),
    ("metadata", {"user_id": "u", "a": "b"}, {"user": "u", "metadata": {"a": "b"}}),
    ("reasoning", Reasoning(effort="low"), {"reasoning_effort": "low"}),
    ("tool_choice", ToolChoice(mode="required"), {"tool_choice": "required"}),
    ("tool_choice", "f", {"tool_choice": {"type": "function", "function": {"name": "f"}}}),
    ("output_schema", OutputSchema(), {"response_format": {"type": "json_object"}}),
    ("stream", True, {"stream": True, "stream_options": {"include_usage": True}}),
]


@pytest.mark.parametrize(("option", "value", "expected"), OPTIONS)
def test_options_have_words_on_this_wire(option: str, value: Any, expected: dict[str, Any]) -> None:
    """
    Each option is said under the wire's name and read back from it.
    """
    assert body_of(**{option: value}) == {"model": "m", "messages": [], **expected}
    assert lost(asking(**{option: value})) == {}
    assert getattr(read(**expected).options, option) == getattr(Options(**{option: value}), option)


LOSSES: dict[str, tuple[Request, dict[str, str]]] = {
    "a budget": (asking(reasoning=Reasoning(budget=5)), {"$.options.reasoning": "dropped"}),
    "a budget and a word": (
        asking(reasoning=Reasoning(effort="low", budget=5)),
        {"$.options.reasoning.budget": "dropped"},
    ),
    "thinking off": (asking(reasoning=False), {"$.options.reasoning": "dropped"}),
    "no cache": (asking(cache_retention="none"), {"$.options.cacheRetention": "weakened"}),
    "a nameless object": (
        asking(output_schema=OutputSchema(name="n", strict=True)),
        {"$.options.outputSchema.name": "dropped", "$.options.outputSchema.strict": "dropped"},
    ),
    "two thoughts": (
        asking(AssistantMessage(content=(ThinkingBlock(thinking="a"), ThinkingBlock(thinking="b")))),
        {"$.messages[0].content": "weakened"},
    ),
    "thinking of the user": (
        asking(UserMessage(content=(ThinkingBlock(thinking="a"),))),
        {"$.messages[0].content[0]": "dropped"},
    ),
    "a file of the assistant": (
        asking(AssistantMessage(content=(TextBlock(text="a"), DocumentBlock(url="https://e.org/a.pdf")))),
        {"$.messages[0].content[1]": "dropped"},
    ),
    "an uploaded picture": (
        asking(UserMessage(content=(ImageBlock(file_id="f"),))),
        {"$.messages[0].content[0]": "dropped"},
    ),
    "a text file": (
        asking(UserMessage(content=(DocumentBlock(text="a", title="t"),))),
        {
            "$.messages[0].content[0].text": "dropped",
            "$.messages[0].content[0].data": "weakened",
            "$.messages[0].content[0].mimeType": "weakened",
        },
    ),
    "sources of a second text": (
        asking(AssistantMessage(content=(TextBlock(text="a"), TextBlock(text="b", citations=(Citation(url="u"),))))),
        {"$.messages[0].content[1].citations": "dropped"},
    ),
    "another's opaque block": (
        asking(UserMessage(content=(OpaqueBlock(dialect="some-other", value={"type": "x"}),))),
        {"$.messages[0].content[0]": "dropped"},
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_what_cannot_be_encoded_is_reported(name: str) -> None:
    """
    Each loss names its place in the source.
    """
    request, paths = LOSSES[name]
    assert paths == lost(request)


@pytest.mark.parametrize(
    "body",
    [None, [], "x", b"{", {"messages": {}}, {"messages": ["a"]}, {"messages": [{"content": "a"}]},
     {"messages": [{"role": "user", "content": 1}]}, {"messages": [{"role": 1}]}, {"messages": [], "tools": [1]}],
)  # fmt: skip
def test_what_is_no_request_is_refused(body: Any) -> None:
    """
    Anything else than a request gives one typed error that names the place.
    """
    with pytest.raises(BadWire):
        wire.decode_request(body)


def test_the_vendor_s_types_accept_our_requests() -> None:
    """
    The official parameter types take the body of a conversation with everything in it.
    """
    call = ToolCall(id="c", name="f", arguments={"a": 1})
    request = Request(
        model=ModelDescriptor(id="gpt-5"),
        context=Context(
            system=(TextBlock(text="Be brief."),),
            system_role="developer",
            messages=(
                UserMessage(content="hi"),
                UserMessage(
                    content=tuple(PARTS[name][1] for name in ("text", "picture", "sound", "file", "file by id"))
                ),
                AssistantMessage(content=(TextBlock(text="a"), call)),
                ToolResultMessage(tool_call_id="c", content=(TextBlock(text="4"),), is_error=False),
                AssistantMessage(content=(TextBlock(text="b"), TextBlock(text="c"))),
                SystemMessage(content="Later."),
                AssistantMessage(content=(TextBlock(text="no", refusal=True),)),
                AssistantMessage(content=(AudioBlock(file_id="audio_1"),)),
                UserMessage(content="?"),
            ),
            tools=(ToolSpec(name="f", input_schema={"type": "object"}, strict=True), ToolSpec(name="g")),
        ),
        options=Options(
            max_tokens=10,
            temperature=0.5,
            top_p=1,
            stop=("a",),
            seed=1,
            reasoning=Reasoning(effort="low"),
            tool_choice=ToolChoice(mode="auto", names=("f", "g")),
            parallel_tools=False,
            output_schema=OutputSchema(schema={"type": "object"}, name="n"),
            metadata={"user_id": "u", "a": "b"},
            session_id="s",
            cache_retention="long",
            service_tier="auto",
            stream=False,
        ),
    )
    body = wire.encode_request(request).body
    accepted: Any = TypeAdapter(CompletionCreateParamsNonStreaming).validate_python(body)
    assert len(list(accepted["messages"])) == len(body["messages"]) == 10
    assert len(list(accepted["tools"])) == 2
    for sent in body["messages"]:
        TypeAdapter(openai.types.chat.ChatCompletionMessageParam).validate_python(sent)


# --- hosts -----------------------------------------------------------------------------------------------------------

THOUGHTFUL = Reasoning(effort="high")

HOSTS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"maxTokensField": "max_tokens"}, {"max_tokens": 5}, {"max_tokens": 5}),
    ({"seedField": "random_seed"}, {"seed": 5}, {"random_seed": 5}),
    ({"supportsStore": True}, {}, {"store": False}),
    ({"supportsUsageInStreaming": False}, {"stream": True}, {"stream": True}),
    ({"supportsReasoningEffort": False}, {"reasoning": THOUGHTFUL}, {}),
    ({"reasoningEffortMap": {"high": "default"}}, {"reasoning": THOUGHTFUL}, {"reasoning_effort": "default"}),
    ({"reasoningEffortMap": {"high": None}}, {"reasoning": THOUGHTFUL}, {}),
    ({"reasoningEffortMap": {"off": "none"}}, {"reasoning": False}, {"reasoning_effort": "none"}),
    ({"thinkingFormat": "openrouter"}, {"reasoning": THOUGHTFUL}, {"reasoning": {"effort": "high"}}),
    ({"thinkingFormat": "openrouter"}, {"reasoning": 50}, {"reasoning": {"max_tokens": 50}}),
    ({"thinkingFormat": "zai"}, {"reasoning": THOUGHTFUL}, {"thinking": {"type": "enabled"}}),
    ({"thinkingFormat": "zai"}, {"reasoning": False}, {"thinking": {"type": "disabled"}}),
    ({"thinkingFormat": "deepseek"}, {"reasoning": THOUGHTFUL},
     {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
    ({"thinkingFormat": "qwen"}, {"reasoning": False}, {"enable_thinking": False}),
    ({"thinkingFormat": "qwen"}, {"reasoning": 50}, {"enable_thinking": True, "thinking_budget": 50}),
    ({"thinkingFormat": "qwen-chat-template"}, {"reasoning": True},
     {"chat_template_kwargs": {"enable_thinking": True}}),
    ({"openRouterRouting": {"order": ["a"]}}, {}, {"provider": {"order": ["a"]}}),
    ({"vercelGatewayRouting": {"only": ["a"]}}, {}, {"providerOptions": {"gateway": {"only": ["a"]}}}),
    ({"supportsLongCacheRetention": False}, {"cache_retention": "long"}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("compat", "options", "expected"), HOSTS)
def test_what_hosts_do_differently_is_data(
    compat: dict[str, Any], options: dict[str, Any], expected: dict[str, Any]
) -> None:
    """
    The model's description says it, or the quirks of a variant do; both give the same body, and it comes back.
    """
    body = body_of(compat=compat, **options)
    assert body == {"model": "m", "messages": [], **expected}
    assert body == wire.encode_request(asking(**options), quirks={"api": API, **compat}).body
    assert body == returned(body, quirks={"api": API, **compat})


def test_hosts_have_their_own_words_for_roles_names_and_thinking() -> None:
    """
    Roles, the names of tools in results, strictness and the field for thinking follow the host.
    """
    thought = AssistantMessage(content=(ThinkingBlock(thinking="hm"), ToolCall(id="c", name="f", arguments={})))
    result = ToolResultMessage(tool_call_id="c", tool_name="f", content="1", is_error=False)
    request = Request(
        model=ModelDescriptor(
            id="m",
            reasoning=True,
            compat={"supportsDeveloperRole": True, "requiresToolResultName": True, "supportsStrictMode": False,
                    "reasoningField": "reasoning", "requiresContent": True},
        ),
        context=Context(system="s", messages=(thought, result), tools=(ToolSpec(name="f", strict=True),)),
    )  # fmt: skip
    body = wire.encode_request(request).body
    assert body["messages"][0]["role"] == "developer"
    assert body["messages"][1]["reasoning"] == "hm" and body["messages"][1]["content"] == ""
    assert body["messages"][2]["name"] == "f"
    assert body["tools"][0]["function"] == {"name": "f"}
    assert {"$.systemRole", "$.tools[0].strict"} <= lost(request).keys()
    given = Context(system="s", system_role="developer", messages=(SystemMessage(content="a", developer=True),))
    model = ModelDescriptor(id="m", compat={"supportsDeveloperRole": False})
    roles = wire.encode_request(Request(model=model, context=given)).body["messages"]
    assert [given["role"] for given in roles] == ["system", "system"]


def test_a_description_of_a_host_that_makes_no_sense_is_refused() -> None:
    """
    A quirk of the wrong type is a fault of ours to fix, and is named.
    """
    with pytest.raises(FormatError, match=r"maxTokensField.*model\.compat"):
        body_of(compat={"maxTokensField": 1})


def test_the_path_may_name_the_model() -> None:
    """
    Some hosts want the deployment in the URL.
    """
    assert wire.path("m", stream=True) == "/chat/completions"
    quirks = {"path": "/openai/deployments/{model}/chat/completions"}
    assert wire.path("a/b", stream=False, quirks=quirks) == "/openai/deployments/a%2Fb/chat/completions"


# --- answers ---------------------------------------------------------------------------------------------------------


def whole(wire_message: dict[str, Any], finish: Any = "stop", **more: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "m-2024",
        "choices": [{"index": 0, "message": {"role": "assistant", **wire_message}, "finish_reason": finish}],
        **more,
    }


OPENAI_USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 60, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 15, "rejected_prediction_tokens": 0},
}

ANSWERS: dict[str, Any] = {
    **{f"{name}, in an answer": whole(wire_message) for name, wire_message in SPOKEN.items()},
    "an answer of OpenAI": whole(
        {"content": "hi", "refusal": None, "annotations": []},
        usage=OPENAI_USAGE,
        service_tier="default",
        system_fingerprint=None,
    ),
    "filters of Azure (51)": {
        **whole({"content": "hi"}, prompt_filter_results=[{"prompt_index": 0}]),
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop",
             "content_filter_results": {"hate": {"filtered": False}}, "logprobs": {"content": [{"token": "a"}]}}
        ],
    },
    "several choices (oddity 18)": {
        **whole({}),
        "choices": [
            {"index": at, "message": {"role": "assistant", "content": text}, "finish_reason": "stop", "logprobs": None}
            for at, text in enumerate("abc")
        ],
    },
    "no choices": {**whole({}), "choices": []},
    "choices that are not there": {"id": "x", "usage": None},
    "sound": whole({"content": None, "audio": {"id": "a", "data": "UklG", "expires_at": 5, "transcript": "hi"}}),
    "pictures": whole(
        {"content": "see", "images": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]}
    ),
    "a word that nobody knows (oddity 15)": whole({"content": "a"}, "eos_token"),
    "an empty word (oddity 15)": whole({"content": "a"}, ""),
    "numbered calls": whole({"content": "", "tool_calls": [{**CALL, "index": 0}, {**CALL, "index": 1}]}, "tool_calls"),
    "oddly numbered calls": whole({"tool_calls": [{**CALL, "index": 3}, CALL]}, "tool_calls"),
    "blank arguments (35)": whole({"tool_calls": [{**CALL, "function": {"name": "f", "arguments": " "}}]}),
    "an error of a provider behind": {
        **whole({"content": ""}, "error"),
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": "error",
             "error": {"code": 502, "message": "upstream broke"}}
        ],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_come_back_as_they_were(name: str) -> None:
    """
    A whole answer of any host returns unchanged, through our own JSON.
    """
    answer = load(dump(wire.decode_response(ANSWERS[name])), AssistantMessage)
    assert ANSWERS[name] == wire.encode_response(answer).body


def test_an_answer_says_who_and_for_how_much() -> None:
    """
    Ids, models and usage are read; cached input is not counted twice, nor is thinking.
    """
    answer = wire.decode_response(whole({"content": "hi"}, usage=OPENAI_USAGE), model="m", provider="p", timestamp=5)
    assert (answer.model, answer.response_model, answer.response_id) == ("m", "m-2024", "chatcmpl-1")
    usage = answer.usage
    assert usage is not None
    assert (usage.input, usage.cache_read, usage.output, usage.total_tokens, usage.reasoning) == (40, 60, 20, 120, 15)


USAGES: dict[str, tuple[Any, Usage]] = {
    "DeepSeek": (
        {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12, "prompt_cache_hit_tokens": 4,
         "prompt_cache_miss_tokens": 6},
        Usage.of(6, 2, cache_read=4),
    ),
    "Mistral": (
        {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 20, "num_cached_tokens": 4},
        Usage.of(6, 2, cache_read=4, total_tokens=20),
    ),
    "xAI, thinking beside the output (oddity 33)": (
        {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 62,
         "completion_tokens_details": {"reasoning_tokens": 50}},
        Usage.of(10, 52, reasoning=50),
    ),
    "OpenRouter": (
        {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12, "cost": 0.25,
         "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 4}},
        Usage.of(3, 2, cache_read=3, cache_write=4, cost=Cost(total=0.25)),
    ),
    "written and read at once": (
        {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12,
         "prompt_tokens_details": {"cached_tokens": 9, "cache_write_tokens": 9}},
        Usage.of(1, 2, cache_read=9),
    ),
    "a cache beside the prompt": (
        {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 112, "cache_read_input_tokens": 100},
        Usage.of(10, 2, cache_read=100),
    ),
    "Perplexity": (
        {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3,
         "cost": {"input_tokens_cost": 0.1, "output_tokens_cost": 0.2, "request_cost": 0.5, "total_cost": 0.8}},
        Usage.of(1, 2, cost=Cost(input=0.1, output=0.2, total=0.8)),
    ),
    "nulls (oddity 36)": ({"prompt_tokens": 10, "completion_tokens": None, "total_tokens": None}, Usage.of(10, 0)),
    "a total of its own (oddity 34)": (
        {"prompt_tokens": 66, "completion_tokens": 6, "total_tokens": 100},
        Usage.of(66, 6, total_tokens=100),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", USAGES)
def test_usage_is_disjoint_whatever_the_host_counts(name: str) -> None:
    """
    Fresh input, cache and output add up; the host's own numbers come back.
    """
    wire_usage, meant = USAGES[name]
    answer = wire.decode_response(whole({"content": "a"}, usage=wire_usage))
    usage = answer.usage
    assert usage is not None
    bare = Usage(**{f: getattr(usage, f) for f in Usage.__struct_fields__ if f != "extra"})
    assert meant == bare
    assert wire.encode_response(answer).body["usage"] == wire_usage


def test_whether_thinking_is_counted_in_the_output_can_be_set() -> None:
    """
    A description of the host overrules what the numbers suggest.
    """
    wire_usage = {"prompt_tokens": 10, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 50}}
    body = whole({"content": "a"}, usage=wire_usage)
    for quirks, output in ((None, 2), ({"api": API, "usageIncludesReasoning": False}, 52)):
        usage = wire.decode_response(body, quirks=quirks).usage
        assert usage is not None
        assert usage.output == output


ENDS: list[tuple[Any, dict[str, Any], str]] = [
    ("stop", {"content": "a"}, "stop"),
    ("end", {"content": "a"}, "stop"),
    ("length", {"content": "a"}, "length"),
    ("model_length", {"content": "a"}, "length"),
    ("tool_calls", {"tool_calls": [CALL]}, "toolUse"),
    ("stop", {"tool_calls": [CALL]}, "toolUse"),
    ("length", {"tool_calls": [CALL]}, "length"),
    ("content_filter", {"content": "a"}, "error"),
    ("model_context_window_exceeded", {"content": "a"}, "error"),
    ("eos_token", {"content": "a"}, "stop"),
    ("eos_token", {"content": None}, "error"),
    ("eos_token", {"tool_calls": [CALL]}, "length"),
    ("MAX_TOKENS", {"tool_calls": [CALL]}, "length"),
    ("", {"content": "a"}, "stop"),
    (None, {"content": "a"}, "stop"),
    ("stop", {"content": None, "refusal": "no"}, "error"),
    ("stop", {"content": None}, "stop"),
]


@pytest.mark.parametrize(("word", "wire_message", "reason"), ENDS)
def test_how_an_answer_ended(word: Any, wire_message: dict[str, Any], reason: str) -> None:
    """
    The content bears out the reason (oddity 16, case 41), the host's word is kept, unknown words are a stop; but
    calls in an answer that ended with an unknown word do not run, since it may have been cut.
    """
    answer = wire.decode_response(whole(wire_message, word))
    assert (reason, word) == (answer.stop_reason, answer.stop_detail)
    assert (answer.error_message is not None) is (reason == "error")


def test_oddity_38_a_refusal_is_an_error_in_the_model_s_words() -> None:
    """
    Declining is no answer, and the words for it are marked.
    """
    answer = wire.decode_response(whole({"content": None, "refusal": "I will not."}))
    assert answer.content == (TextBlock(text="I will not.", refusal=True),)
    assert answer.error_message == "the model refused: I will not."


def test_what_only_answers_say_is_not_sent_back() -> None:
    """
    Case 71: an answer goes into the next request without the fields that only answers have.
    """
    wire_message = {
        "content": "hi",
        "refusal": None,
        "annotations": [],
        "provider_metadata": {"gateway": {}},
        "reasoning": "Hm.",
        "reasoning_details": [SIGNED],
        "tool_calls": [{**CALL, "index": 0, "function": {"name": "f", "arguments": ""}}],
    }
    (sent,) = body_of(wire.decode_response(whole(wire_message)))["messages"]
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert sent == {"role": "assistant", "content": "hi", "reasoning_details": [SIGNED], "tool_calls": [call]}


def test_oddity_10_an_error_with_status_200_is_raised() -> None:
    """
    Some hosts answer 200 and say in the body that it failed.
    """
    with pytest.raises(ContentFiltered, match="filtered"):
        wire.decode_response({"error": {"code": "content_filter", "message": "filtered", "status": 400}, "choices": []})


def test_signed_thinking_is_encoded_twice_in_answers_and_once_in_requests() -> None:
    """
    Clients that know no details see the words in the usual field; those that do can return the signature.
    """
    thought = ThinkingBlock(thinking="Hm.", thinking_signature="s")
    encoded = wire.encode_response(AssistantMessage(content=(thought, TextBlock(text="a")), stop_reason="stop")).body
    detail = {"type": "reasoning.text", "text": "Hm.", "signature": "s", "index": 0}
    assert encoded["choices"][0]["message"] == {
        "role": "assistant", "content": "a", "reasoning_content": "Hm.", "reasoning_details": [detail],
    }  # fmt: skip
    assert wire.decode_response(encoded).content == (thought, TextBlock(text="a"))
    (sent,) = body_of(AssistantMessage(content=(thought,)))["messages"]
    assert sent == {"role": "assistant", "content": None, "reasoning_details": [detail]}


# --- streams ---------------------------------------------------------------------------------------------------------


def chunk(delta: dict[str, Any] | None = None, finish: Any = None, **more: Any) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": choices,
        **more,
    }


def sse(*chunks: Any) -> bytes:
    return b"".join(b"data: " + (c if isinstance(c, bytes) else json.dumps(c).encode()) + b"\n\n" for c in chunks)


DONE = b"[DONE]"


def decode_stream(*chunks: Any, **given: Any) -> list[StreamEvent]:
    framing, decoder = wire.framing(), wire.StreamDecoder(**given)
    frames = [*framing.feed(sse(*chunks)), *framing.close()]
    return [event for frame in frames for event in decoder.feed(frame)] + decoder.close()


def streamed(*chunks: Any, **given: Any) -> AssistantMessage:
    return fold(decode_stream(*chunks, **given))


def call(index: Any = 0, **more: Any) -> dict[str, Any]:
    function = {key: more.pop(key) for key in ("name", "arguments") if key in more}
    return {"tool_calls": [{"index": index, **more, "function": function}]}


def made(message: AssistantMessage) -> list[tuple[str, str, Any]]:
    return [(made.id, made.name, made.arguments) for made in message.tool_calls]


STOP = chunk({}, "stop")
CALLED = chunk({}, "tool_calls")


def test_a_stream_is_the_whole_answer() -> None:
    """
    Thinking, text, calls and usage are put together as the whole answer would have shown them.
    """
    message = streamed(
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "Hm"}),
        chunk({"reasoning_content": "."}),
        chunk({"content": "Let me "}),
        chunk({"content": "see."}),
        chunk(call(id="call_1", type="function", name="add", arguments="")),
        chunk(call(arguments='{"a"')),
        chunk(call(arguments=":1}")),
        CALLED,
        chunk(usage={"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}),
        DONE,
    )
    wire_message = {"content": "Let me see.", "reasoning_content": "Hm.", "tool_calls": [CALL]}
    body = {**whole(wire_message, "tool_calls"), "id": "c", "created": 1, "model": "m",
            "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}  # fmt: skip
    assert message == wire.decode_response(body)


# The whole stream, and what its message must be.
STREAMS: dict[str, tuple[list[Any], Any]] = {
    "oddity 6: [DONE] with a trailing space": ([chunk({"content": "a"}), STOP, b"[DONE] "], "a"),
    "oddity 9: no [DONE]": ([chunk({"content": "a"}), STOP], "a"),
    "oddity 11: a first chunk without choices": (
        [chunk(id="", model="", object="", prompt_filter_results=[{}]), chunk({"content": "a"}), STOP, DONE],
        "a",
    ),
    "oddity 12: ids that change": (
        [chunk({"content": "a"}, id="1"), chunk({"content": "b"}, id="2"), STOP, DONE],
        "ab",
    ),
    "oddity 13: another object": (
        [chunk({"content": "a"}, object=""), chunk({}, "stop", object="chat.completion.done"), DONE],
        "a",
    ),
    "oddity 14: two ends": ([chunk({"content": "a"}), STOP, STOP, DONE], "a"),
    "oddity 15: an end that is empty": ([chunk({"content": "a"}, ""), chunk({"content": "b"}), STOP, DONE], "ab"),
    "oddity 17: no end but [DONE]": ([chunk({"content": "a"}), DONE], "a"),
    "oddity 19: the end with the last piece": ([chunk({"content": "a"}), chunk({"content": "b"}, "stop"), DONE], "ab"),
    "oddity 32: the role on every chunk": (
        [chunk({"role": "assistant", "content": "a"}), chunk({"role": "assistant", "content": "b"}), STOP, DONE],
        "ab",
    ),
    "case 47: content before the role": ([chunk({"content": "a"}), chunk({"role": "assistant"}), STOP, DONE], "a"),
    "case 51: filters without a delta": (
        [chunk({"content": "a"}), {**chunk(), "choices": [{"index": 0, "content_filter_results": {}}]}, STOP, DONE],
        "a",
    ),
    "padding": ([chunk({"content": "a"}, obfuscation="xyz"), chunk({"content": "b"}, p="abc"), STOP, DONE], "ab"),
    "blank data": ([b"", chunk({"content": "a"}), b" ", STOP, DONE], "a"),
    "after the end": ([chunk({"content": "a"}), STOP, DONE, chunk({"content": "b"}), DONE], "a"),
    "a delta that is null": (
        [{**chunk(), "choices": [{"index": 0, "delta": None}]}, chunk({"content": "a"}), STOP],
        "a",
    ),
    "parts, then strings (oddity 26)": (
        [chunk({"content": [{"type": "text", "text": "a"}]}), chunk({"content": "b"}), STOP, DONE],
        "ab",
    ),
    "tags are only text (oddity 31)": ([chunk({"content": "<think>a</think>b"}), STOP, DONE], "<think>a</think>b"),
}


@pytest.mark.parametrize("name", STREAMS)
def test_streams_of_many_hosts_end_well(name: str) -> None:
    """
    However a host opens, fills and ends its stream, one text comes out, with the end that the host said.
    """
    chunks, text = STREAMS[name]
    events = decode_stream(*chunks)
    assert isinstance(events[0], Start)
    assert isinstance(events[-1], Done)
    message = events[-1].message
    assert (text, "stop", 1) == (message.text, message.stop_reason, len(message.content or ()))
    first = chunks[0]["id"] if isinstance(chunks[0], dict) else ""
    assert first in ("", message.response_id)


def test_a_stream_without_its_end_is_an_error() -> None:
    """
    A stream that closes with neither a reason nor [DONE] was cut off; what came is kept.
    """
    message = streamed(chunk({"content": "a"}))
    assert (message.text, message.stop_reason) == ("a", "error")
    assert message.error_message == "the stream ended before the response was complete"
    nothing = streamed(DONE)
    assert nothing.stop_reason == "error"


def test_oddity_1_and_8_a_whole_document_instead_of_a_stream_is_understood() -> None:
    """
    A host that was asked for a stream and gives one JSON document, padded or not, is read all the same.
    """
    body = b"\n   \n" + json.dumps(whole({"content": "hi", "tool_calls": [CALL]}, "tool_calls")).encode()
    framing, decoder = wire.framing("application/json; charset=utf-8"), wire.StreamDecoder()
    events = [event for frame in framing.feed(body) + framing.close() for event in decoder.feed(frame)]
    message = fold(events + decoder.close())
    assert message == wire.decode_response(body)


FILTERS = {"hate": {"filtered": True, "severity": "high"}, "violence": {"filtered": False, "severity": "safe"}}
FILTERED: dict[str, dict[str, Any]] = {
    "no message": {"choices": [{"index": 0, "finish_reason": "content_filter", "content_filter_results": FILTERS}]},
    "a null": {"choices": [{"index": 0, "finish_reason": "content_filter", "message": None}]},
    "the prompt": {
        "choices": [],
        "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": FILTERS}],
    },
    "a prompt of the old kind": {
        "choices": [],
        "prompt_filter_results": [{"prompt_index": 0, "content_filter_result": FILTERS}],
    },
}


@pytest.mark.parametrize("name", FILTERED)
def test_what_azure_s_filter_took_is_a_filtered_answer(name: str) -> None:
    """
    A choice without a message, and a prompt without a choice: an answer that ended so, and goes back as it came.
    """
    body = {"id": "a", "object": "chat.completion", "created": 1, "model": "m", **FILTERED[name]}
    read = load(dump(wire.decode_response(body)), AssistantMessage)
    assert ("error", "content_filter", ()) == (read.stop_reason, read.stop_detail, read.content)
    assert ("hate" in json.dumps(body)) == ("(hate)" in (read.error_message or ""))
    assert body == wire.encode_response(read).body
    again = fold(
        laws.wires.decode_stream(dialect("openai-completions"), [stream_of(dialect("openai-completions"), read)])
    )
    assert ("error", "content_filter", ()) == (again.stop_reason, again.stop_detail, again.content)


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("name", FILTERED)
def test_what_azure_s_filter_took_streams_as_a_filtered_answer(name: str, ended: bool) -> None:
    """
    The same inside a stream, with or without its last line, after text or before any.
    """
    filtered = {**chunk(), **FILTERED[name]}
    for before in ([], [chunk({"role": "assistant", "content": "So"})] if filtered["choices"] else []):
        read = streamed(*before, filtered, *([DONE] if ended else []))
        assert ("error", "content_filter", "So" if before else "") == (read.stop_reason, read.stop_detail, read.text)


def test_a_choice_without_a_message_is_bad_where_nothing_failed() -> None:
    """
    Only what was filtered or failed may lack its message.
    """
    with pytest.raises(BadWire, match=r"\$\.choices\[0\]\.message"):
        wire.decode_response({"choices": [{"index": 0, "finish_reason": "stop"}]})


def test_a_filtered_prompt_is_recognized_by_azure_s_inner_error() -> None:
    """
    Azure may leave the code null and say in `innererror` alone that its policy refused the prompt.
    """
    error = {"message": "No.", "code": None, "innererror": {"code": "ResponsibleAIPolicyViolation"}}
    assert isinstance(wire.decode_error(400, {"error": error}), ContentFiltered)
    assert isinstance(dialect("openai-responses").decode_error(400, {"error": error}), ContentFiltered)


def test_oddity_10_an_error_inside_a_stream_ends_it() -> None:
    """
    Whatever came before is kept, and the host's words are the message's.
    """
    error = {"error": {"message": "Tool choice is required", "code": "tool_use_failed", "status_code": 400}}
    events = decode_stream(chunk({"reasoning": "hm"}), error, chunk({"content": "never"}))
    assert isinstance(events[-1], Error)
    failed = events[-1].error
    assert (failed.thinking, failed.text) == ("hm", "")
    assert (failed.error_message, failed.stop_detail) == ("Tool choice is required", "tool_use_failed")
    with_code = streamed(chunk({"content": "a"}, error={"message": "Busy", "code": 429, "metadata": {"raw": "later"}}))
    assert with_code.error_message == "Busy: later"


def test_oddity_18_other_choices_are_kept_beside_the_first() -> None:
    """
    Choices come interleaved; the first is the message, the others are there when the answer is said again.
    """

    def at(index: int, delta: dict[str, Any], finish: Any = None) -> dict[str, Any]:
        return {**chunk(), "choices": [{"index": index, "delta": delta, "finish_reason": finish}]}

    message = streamed(
        at(1, {"role": "assistant", "content": "x"}), at(0, {"role": "assistant", "content": "a"}),
        at(1, {"content": "y"}), at(1, call(id="c", name="f", arguments="{")), at(0, {"content": "b"}, "stop"),
        at(1, call(arguments="}")), at(1, {}, "length"), DONE,
    )  # fmt: skip
    assert (message.text, message.stop_reason) == ("ab", "stop")
    first, second = wire.encode_response(message).body["choices"]
    assert first["message"]["content"] == "ab"
    assert (second["message"]["content"], second["finish_reason"]) == ("xy", "length")
    assert second["message"]["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}
    only_second = streamed(at(1, {"content": "x"}), at(1, {"content": "y"}, "stop"), DONE)
    assert only_second.text == "xy"


CALLS: dict[str, tuple[list[Any], list[tuple[str, str, Any]]]] = {
    "oddity 20: no index, but ids": (
        [chunk({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}},
                               {"id": "b", "function": {"name": "g", "arguments": "{}"}}]})],
        [("a", "f", {}), ("b", "g", {})],
    ),
    "oddity 20: neither index nor id": (
        [chunk({"tool_calls": [{"function": {"name": "f", "arguments": "{}"}},
                               {"function": {"name": "f", "arguments": '{"a":'}}]}),
         chunk({"tool_calls": [{"function": {"arguments": "1}"}}]})],
        [("call_0", "f", {}), ("call_1", "f", {"a": 1})],
    ),
    "oddity 21 and case 42: all at once": (
        [chunk(call(id="a", name="f", arguments='{"a":1}'))],
        [("a", "f", {"a": 1})],
    ),
    "oddity 22: blanks later": (
        [chunk(call(id="a", name="f", arguments="{")), chunk(call(id="", name="", arguments="}"))],
        [("a", "f", {})],
    ),
    "oddity 23: numbers from 1": (
        [chunk(call(1, id="a", name="f", arguments="{")), chunk(call(1, arguments="}"))],
        [("a", "f", {})],
    ),
    "oddity 24 and case 35: no arguments at all": ([chunk(call(id="a", name="f"))], [("a", "f", {})]),
    "case 35: blank arguments": ([chunk(call(id="a", name="f", arguments=""))], [("a", "f", {})]),
    "case 30: the id comes late": (
        [chunk(call(name="f", arguments="{")), chunk(call(arguments="}")), chunk(call(id="late"))],
        [("late", "f", {})],
    ),
    "case 30: the id never comes": (
        [chunk(call(0, name="f", arguments="{}")), chunk(call(1, id="b", name="g", arguments="{}"))],
        [("call_0", "f", {}), ("b", "g", {})],
    ),
    "case 31: the name on every delta": (
        [chunk(call(id="a", name="f", arguments="{")), chunk(call(name="f", arguments="}"))],
        [("a", "f", {})],
    ),
    "case 39: one number for several calls": (
        [chunk(call(0, id="a", name="f", arguments="{}")), chunk(call(0, id="b", name="g", arguments='{"b"')),
         chunk(call(0, arguments=":1}"))],
        [("a", "f", {}), ("b", "g", {"b": 1})],
    ),
    "case 39: one number and no ids": (
        [chunk(call(0, name="f", arguments="{}")), chunk(call(0, name="g", arguments="{}"))],
        [("call_0", "f", {}), ("call_1", "g", {})],
    ),
    "a host that changes ids": (
        [chunk(call(0, id="a", name="f", arguments="{")), chunk(call(0, id="other", arguments="}"))],
        [("a", "f", {})],
    ),
    "case 40: numbers as strings": (
        [chunk(call("0", id="a", name="f", arguments="{")), chunk(call(0, arguments='"a":')),
         chunk(call("0", arguments="1}"))],
        [("a", "f", {"a": 1})],
    ),
    "case 40: the number is missing later": (
        [chunk(call(0, id="a", name="f", arguments="{")),
         chunk({"tool_calls": [{"function": {"arguments": "}"}}]})],
        [("a", "f", {})],
    ),
    "interleaved": (
        [chunk(call(0, id="a", name="f", arguments="{")), chunk(call(1, id="b", name="g", arguments="{")),
         chunk(call(0, arguments='"a":1}')), chunk(call(1, arguments='"b":2}'))],
        [("a", "f", {"a": 1}), ("b", "g", {"b": 2})],
    ),
    "arguments as an object": (
        [chunk(call(id="a", name="f", arguments={"a": 1}))],
        [("a", "f", {"a": 1})],
    ),
    "a custom tool": (
        [chunk({"tool_calls": [{"index": 0, "id": "a", "type": "custom", "custom": {"name": "sh", "input": "l"}}]}),
         chunk({"tool_calls": [{"index": 0, "custom": {"input": 's "'}}]})],
        [("a", "sh", {"input": 'ls "'})],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_put_together_whatever_names_their_pieces(name: str) -> None:
    """
    By number, else by id, else the last one; names are set, ids late or never; the events say the same.
    """
    chunks, calls = CALLS[name]
    events = decode_stream(*chunks, CALLED, DONE)
    message = fold(events)
    assert calls == made(message)
    assert message.stop_reason == "toolUse"
    starts = [event.block for event in events if isinstance(event, ToolCallStart)]
    assert [(start.id, start.name) for start in starts if start] == [(id_, name) for id_, name, _ in calls]
    for at, tool_call in enumerate(event.tool_call for event in events if isinstance(event, ToolCallEnd)):
        text = "".join(e.delta for e in events if isinstance(e, ToolCallDelta) and e.content_index == at)
        if text:
            assert json.loads(text) == tool_call.arguments


def test_case_35_blank_arguments_are_sent_back_as_an_empty_object() -> None:
    """
    What the host streamed as nothing is no JSON; what is replayed is.
    """
    message = streamed(chunk(call(id="a", type="function", name="f", arguments="")), CALLED, DONE)
    (sent,) = body_of(message)["messages"]
    assert sent["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}


def test_case_41_a_call_decides_the_reason_whatever_came_after() -> None:
    """
    The reason comes from the whole stream: a call makes it tool use, but a cut stays a cut.
    """
    first = chunk(call(id="a", name="f", arguments="{}"))
    assert streamed(first, chunk({"content": ""}), STOP, DONE).stop_reason == "toolUse"
    assert streamed(first, chunk({}, "length"), DONE).stop_reason == "length"


def test_case_52_arguments_in_tiny_pieces_make_one_call() -> None:
    """
    Each piece is passed on at once, and the whole is parsed once.
    """
    text = json.dumps({"text": "x" * 5000})
    pieces = [chunk(call(arguments=letter)) for letter in text]
    events = decode_stream(chunk(call(id="a", name="f", arguments="")), *pieces, CALLED, DONE)
    assert sum(isinstance(event, ToolCallDelta) for event in events) == len(text)
    assert made(fold(events)) == [("a", "f", {"text": "x" * 5000})]


def test_case_18_the_order_of_the_stream_is_the_order_of_the_message() -> None:
    """
    Thinking after text is a block of its own, behind the text; and so is text after a call.
    """
    message = streamed(
        chunk({"reasoning": "a"}), chunk({"content": "b"}), chunk({"reasoning": "c"}), chunk({"content": "d"}),
        chunk(call(id="x", name="f", arguments="{}")), chunk({"content": "e"}), CALLED, DONE,
    )  # fmt: skip
    kinds = [ThinkingBlock, TextBlock, ThinkingBlock, TextBlock, ToolCall, TextBlock]
    assert kinds == [type(block) for block in message.content or ()]


def test_case_56_and_58_kinds_may_come_together() -> None:
    """
    One chunk with thinking, text and a call gives each once, thinking first; calls after text are not forgotten.
    """
    delta = {**call(id="x", name="f", arguments="{}"), "content": "b", "reasoning_content": "a"}
    message = streamed(chunk(delta), chunk({"content": "c"}), CALLED, DONE)
    assert [ThinkingBlock, TextBlock, ToolCall, TextBlock] == [type(block) for block in message.content or ()]
    assert (message.thinking, message.text) == ("a", "bc")


def test_case_12_pieces_of_one_detail_are_one_block() -> None:
    """
    Details of one type and number grow together, the last signature counts, unknown keys stay; words stand once.
    """

    def detail(**more: Any) -> dict[str, Any]:
        return {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0, **more}

    chunks = [
        chunk({"content": "", "reasoning": None, "reasoning_details": [detail(text="", signature="")]}),
        chunk({"content": "", "reasoning": "Hm", "reasoning_details": [detail(text="Hm")]}),
        chunk({"content": "", "reasoning": ".", "reasoning_details": [detail(text=".")]}),
        chunk({"content": "", "reasoning": None, "reasoning_details": [detail(signature="EpQB+/=")]}),
        chunk({"reasoning_details": [{"type": "reasoning.encrypted", "data": "gA", "index": 1}]}),
        chunk({"reasoning_details": [{"type": "reasoning.encrypted", "data": "AA", "index": 1}]}),
        chunk({"content": "hi", "reasoning": None, "reasoning_details": []}),
    ]
    message = streamed(*chunks, STOP, DONE)
    thought, sealed, _ = message.content or ()
    assert thought == ThinkingBlock(
        thinking="Hm.", thinking_signature="EpQB+/=", extra={API: {"format": "anthropic-claude-v1"}}
    )
    assert sealed == ThinkingBlock(thinking="", thinking_signature="gAAA", redacted=True)
    (sent,) = body_of(message)["messages"]
    assert sent["reasoning_details"] == [
        {**detail(), "text": "Hm.", "signature": "EpQB+/="},
        {"type": "reasoning.encrypted", "data": "gAAA", "index": 1},
    ]
    assert "reasoning" not in sent


def test_oddity_29_thinking_that_is_repeated_as_a_detail_is_decoded_once() -> None:
    """
    A host that streams plain thinking and then the signed whole of it has said one thing.
    """
    whole_detail = {"type": "reasoning.text", "text": "Hm.", "signature": "s", "index": 0}
    events = decode_stream(
        chunk({"reasoning": "Hm"}), chunk({"reasoning": "."}), chunk({"reasoning_details": [whole_detail]}),
        chunk({"content": "hi"}), STOP, DONE,
    )  # fmt: skip
    message = fold(events)
    assert message.content == (ThinkingBlock(thinking="Hm.", thinking_signature="s"), TextBlock(text="hi"))
    (end,) = [event for event in events if isinstance(event, ThinkingEnd)]
    assert end.block == message.content[0]


def test_oddity_30_details_without_a_number_are_one_as_long_as_they_follow_each_other() -> None:
    """
    What OpenAI's own package refuses is read, and returns without a number.
    """
    entry = {"type": "reasoning.text", "provider": "p"}
    message = streamed(
        chunk({"reasoning_details": [{**entry, "text": "a"}]}), chunk({"reasoning_details": [{**entry, "text": "b"}]}),
        chunk({"content": "hi"}), chunk({"reasoning_details": [{**entry, "text": "c"}]}), STOP, DONE,
    )  # fmt: skip
    assert [block.thinking for block in (message.content or ()) if isinstance(block, ThinkingBlock)] == ["ab", "c"]
    assert body_of(message)["messages"][0]["reasoning_details"][0] == {**entry, "text": "ab"}


def test_details_may_come_before_everything_and_signatures_after_the_end() -> None:
    """
    A sealed detail may precede the call that it belongs to; a signature that comes too late is still kept.
    """
    sealed = {"type": "reasoning.encrypted", "data": "x", "id": "call_1", "index": 0}
    late = {"type": "reasoning.text", "signature": "s", "index": 1}
    message = streamed(
        chunk({"reasoning_details": [sealed]}), chunk({"reasoning_details": [{**late, "text": "hm"}]}),
        chunk(call(id="call_1", name="f", arguments="{}")), chunk({"reasoning_details": [late]}), CALLED, DONE,
    )  # fmt: skip
    signatures = [block.thinking_signature for block in (message.content or ()) if isinstance(block, ThinkingBlock)]
    assert signatures == ["x", "s", "s"]
    assert message.tool_calls[0].id == "call_1"


def test_oddity_26_thinking_in_lists_streams() -> None:
    """
    Case 16 as a stream: pieces of thinking inside content lists are one block, and so are the words after it.
    """

    def piece(text: str, **more: Any) -> dict[str, Any]:
        return {"type": "thinking", "thinking": [{"type": "text", "text": text}], **more}

    message = streamed(
        chunk({"role": "assistant", "content": ""}), chunk({"content": [piece("H")]}),
        chunk({"content": [piece("m", closed=True)]}), chunk({"content": [{"type": "thinking", "thinking": []}]}),
        chunk({"content": "hi"}), chunk({"content": "!"}), STOP, DONE,
    )  # fmt: skip
    assert (message.thinking, message.text, len(message.content or ())) == ("Hm", "hi!", 2)
    (sent,) = body_of(message)["messages"]
    assert sent["content"] == [piece("Hm", closed=True), {"type": "text", "text": "hi!"}]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "reasoning_text", "thinking"])
def test_oddity_27_and_28_thinking_streams_under_each_name(name: str) -> None:
    """
    Thinking is heard under any of its names, beside content that is null, and twice only if it differs.
    """
    message = streamed(
        chunk({"content": None, name: "H"}), chunk({"content": None, name: "m"}), chunk({"content": "hi", name: None}),
        STOP, DONE,
    )  # fmt: skip
    assert (message.thinking, message.text) == ("Hm", "hi")
    assert body_of(message)["messages"][0][name] == "Hm"
    both = streamed(chunk({"reasoning": "H", "reasoning_content": "H"}), chunk({"content": "hi"}), STOP, DONE)
    assert both.thinking == "H"


USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}

USAGE_STREAMS: dict[str, list[Any]] = {
    "after the end": [chunk({"content": "a"}), STOP, chunk(usage=USAGE), DONE],
    "with the second end (oddity 14)": [chunk({"content": "a"}), STOP, chunk({}, "stop", usage=USAGE), DONE],
    "growing (oddity 35)": [
        chunk({"content": "a"}, usage={"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}),
        chunk({}, "stop", usage=USAGE),
        DONE,
    ],
    "null until the last (oddity 36)": [
        chunk({"content": "a"}, usage={"prompt_tokens": 3, "completion_tokens": None, "total_tokens": None}),
        chunk({}, "stop", usage=USAGE),
        DONE,
    ],
    "null after it": [chunk({"content": "a"}, usage=USAGE), chunk({}, "stop", usage=None), DONE],
    "in a field of Groq's (oddity 37)": [
        chunk({"content": "a"}, x_groq={"id": "r"}),
        chunk({}, "stop", x_groq={"id": "r", "usage": USAGE}),
        DONE,
    ],
    "in the choice, at Moonshot": [
        chunk({"content": "a"}),
        {**chunk(), "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": USAGE}]},
        DONE,
    ],
}


@pytest.mark.parametrize("name", USAGE_STREAMS)
def test_usage_is_found_wherever_it_comes(name: str) -> None:
    """
    The last numbers count; they are never added up.
    """
    usage = streamed(*USAGE_STREAMS[name]).usage
    assert usage is not None
    assert (usage.input, usage.output, usage.total_tokens) == (3, 2, 5)


def test_case_57_lists_of_a_provider_are_joined_by_number() -> None:
    """
    What the provider's own tools did comes in pieces; no list replaces another.
    """
    first = {"index": 0, "type": "search", "arguments": "{}"}
    message = streamed(
        chunk({"executed_tools": [first]}), chunk({"executed_tools": [{**first, "output": "found"}]}),
        chunk({"executed_tools": [{"index": 1, "type": "visit"}]}), chunk({"content": "hi"}), STOP, DONE,
    )  # fmt: skip
    encoded = wire.encode_response(message).body["choices"][0]["message"]["executed_tools"]
    assert encoded == [{**first, "output": "found"}, {"index": 1, "type": "visit"}]


def test_case_51_what_hosts_say_beside_the_answer_is_kept() -> None:
    """
    Filters, fingerprints, probabilities: they are there when the answer is said again.
    """
    body = wire.encode_response(
        streamed(
            chunk(id="", model="", prompt_filter_results=[{"prompt_index": 0}]),
            chunk({"content": "a"}, system_fingerprint="fp"),
            {
                **chunk(),
                "choices": [{"index": 0, "delta": {"content": "b"}, "logprobs": {"content": [{"token": "b"}]}}],
            },
            {
                **chunk(),
                "choices": [{"index": 0, "delta": {"content": "c"}, "logprobs": {"content": [{"token": "c"}]}}],
            },
            {**chunk(), "choices": [{"index": 0, "content_filter_results": {"hate": {"filtered": False}}}]},
            STOP,
            DONE,
        )
    ).body
    assert body["prompt_filter_results"] == [{"prompt_index": 0}]
    assert (body["system_fingerprint"], body["id"], body["model"]) == ("fp", "c", "m")
    choice = body["choices"][0]
    assert choice["logprobs"] == {"content": [{"token": "b"}, {"token": "c"}]}
    assert choice["content_filter_results"] == {"hate": {"filtered": False}}


def test_sound_pictures_refusals_sources_and_old_calls_stream() -> None:
    """
    The rarer places of a message are put together too.
    """
    source = {"type": "url_citation", "url_citation": {"url": "u", "start_index": 0, "end_index": 2}}
    events = decode_stream(
        chunk({"audio": {"id": "a", "transcript": "h"}}), chunk({"audio": {"data": "Uk", "transcript": "i"}}),
        chunk({"audio": {"data": "lG", "expires_at": 5}}), chunk({"function_call": {"name": "f", "arguments": "{"}}),
        chunk({"function_call": {"arguments": "}"}}), chunk({"images": [PARTS["picture"][0]]}),
        chunk({"content": "See."}), chunk({"annotations": [source]}), STOP, DONE,
    )  # fmt: skip
    sound, old, picture, text = fold(events).content or ()
    assert isinstance(sound, AudioBlock)
    assert (sound.file_id, sound.data, sound.transcript) == ("a", "UklG", "hi")
    assert old == OpaqueBlock(dialect=API, value={"function_call": {"name": "f", "arguments": "{}"}})
    assert picture == PARTS["picture"][1]
    assert text == TextBlock(text="See.", citations=(Citation(url="u", start=0, end=2),))
    assert sum(isinstance(event, BlockEnd) for event in events) == 3
    (ended,) = [event for event in events if isinstance(event, TextEnd)]
    assert ended.block == text
    refused = streamed(chunk({"content": None, "refusal": "I will"}), chunk({"refusal": " not."}), STOP, DONE)
    assert refused.content == (TextBlock(text="I will not.", refusal=True),)
    assert refused.stop_reason == "error"


NONSENSE: list[Any] = [
    1, None, "x", [], {"choices": 1}, {"choices": [1]}, {"choices": [{"delta": 1}]}, chunk({"tool_calls": 1}),
    chunk({"tool_calls": [1]}), chunk({"tool_calls": [{"index": [], "function": {"arguments": "a"}}]}),
    chunk({"content": 1}), chunk({"reasoning_details": [1, {"type": []}]}), chunk({"reasoning": {"a": 1}}),
    chunk({"content": [1, None]}), chunk({"audio": 1}), chunk({"function_call": "x"}), chunk(usage=1), b"{", b"x",
]  # fmt: skip


@pytest.mark.parametrize("event", NONSENSE, ids=repr)
def test_nonsense_in_a_stream_never_raises(event: Any) -> None:
    """
    Whatever a frame holds, there is one terminal event, and what came before is kept.
    """
    events = decode_stream(chunk({"content": "a"}), event, chunk({"content": "b"}), STOP, DONE)
    assert sum(isinstance(e, Done | Error) for e in events) == 1
    assert fold(events).text.startswith("a")


def test_a_stream_can_be_broken_off() -> None:
    """
    Closing with a reason, or as aborted, keeps what came.
    """
    decoder = wire.StreamDecoder()
    decoder.feed(Frame(json.dumps(chunk({"content": "a"})).encode()))
    (*_, last) = decoder.close(aborted=True)
    assert isinstance(last, Error)
    assert (last.reason, last.error.text) == ("aborted", "a")


def test_ids_can_be_generated_by_the_caller() -> None:
    """
    A connector gives its own way of making ids; default ids are the same each time.
    """
    first = chunk(call(name="f", arguments="{}"))
    assert streamed(first, CALLED, DONE, mint=lambda n: f"x{n}").tool_calls[0].id == "x0"


# --- our own streams -------------------------------------------------------------------------------------------------

CITED = TextBlock(text="See.", citations=(Citation(url="https://e.org", title="E", start=0, end=3),))
STREAMED: dict[str, AssistantMessage] = {
    "text": AssistantMessage(content=(TextBlock(text="Hello there."),), stop_reason="stop", response_id="r", model="m"),
    "nothing": AssistantMessage(content=(), stop_reason="stop"),
    "thinking and calls": AssistantMessage(
        content=(
            ThinkingBlock(thinking="Hm, well."),
            TextBlock(text="Let me see."),
            ToolCall(id="a", name="f", arguments={"text": "x" * 9}),
            ToolCall(id="b", name="g", arguments={}),
        ),
        stop_reason="toolUse",
        usage=Usage.of(10, 5, cache_read=3, reasoning=2),
    ),
    "signed and sealed": AssistantMessage(
        content=(
            ThinkingBlock(thinking="Hm.", thinking_signature="s"),
            ThinkingBlock(thinking="", thinking_signature="x", redacted=True),
            ThinkingBlock(thinking="Well.", thinking_signature="t"),
            TextBlock(text="a"),
        ),
        stop_reason="stop",
    ),
    "several of a kind": AssistantMessage(
        content=(
            ThinkingBlock(thinking="b"),
            ThinkingBlock(thinking="c"),
            TextBlock(text="a"),
            CITED,
            ToolCall(id="a", name="f", arguments={}),
        ),
        stop_reason="toolUse",
    ),
    "cut": AssistantMessage(content=(CITED,), stop_reason="length"),
    "a refusal": AssistantMessage(content=(TextBlock(text="No.", refusal=True),), stop_reason="error"),
    "a signed call": AssistantMessage(
        content=(ToolCall(id="a", name="f", arguments={"a": 1}, thought_signature="c2ln"),), stop_reason="toolUse"
    ),
    "a picture": AssistantMessage(content=(TextBlock(text="See:"), PARTS["picture"][1]), stop_reason="stop"),
}


def written(message: AssistantMessage, size: int | None = None, **given: Any) -> bytes:
    encoder = wire.StreamEncoder(**given)
    return b"".join([*map(encoder.feed, unfold(message, size=size)), encoder.close()])


@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize("name", STREAMED)
def test_a_message_streams_as_it_is_encoded_whole(name: str, size: int | None) -> None:
    """
    The same message, streamed in pieces and said whole, is read as the same message.
    """
    framing, decoder = wire.framing(), wire.StreamDecoder()
    frames = framing.feed(written(STREAMED[name], size)) + framing.close()
    folded = fold([event for frame in frames for event in decoder.feed(frame)] + decoder.close())
    assert folded == wire.decode_response(wire.encode_response(STREAMED[name]).body)


@pytest.mark.parametrize("name", STREAMED)
def test_case_59_the_first_chunk_has_the_role_and_the_last_says_that_it_is_done(name: str) -> None:
    """
    Clients reject a stream without a role, and wait for [DONE].
    """
    first, *_, last = written(STREAMED[name]).strip().split(b"\n\n")
    assert json.loads(first[6:])["choices"][0]["delta"] == {"role": "assistant"}
    assert last == b"data: [DONE]"


@pytest.mark.parametrize("name", STREAMED)
def test_the_vendor_s_client_reads_our_streams(name: str) -> None:
    """
    The official client accepts every chunk and finds the same words, refusals, calls, usage and end.
    """
    message = STREAMED[name]
    try:
        with client(written(message, 3)).chat.completions.stream(model="m", messages=[]) as stream:
            final: Any = stream.get_final_completion()
    except openai.LengthFinishReasonError as cut:  # its way to say so
        final = cut.completion
    choice = final.choices[0]
    assert message.text == (choice.message.content or "") + (choice.message.refusal or "")
    calls = [(c.id, c.function.name, json.loads(c.function.arguments)) for c in choice.message.tool_calls or ()]
    assert made(message) == calls
    assert choice.finish_reason == wire.encode_response(message).body["choices"][0]["finish_reason"]
    thinking = (choice.message.model_extra or {}).get("reasoning_content") or ""
    thoughts = [block.thinking for block in message.content or () if isinstance(block, ThinkingBlock)]
    assert thinking.replace("\n\n", "") == "".join(thoughts)
    if message.usage:
        assert (final.usage.prompt_tokens, final.usage.total_tokens) == (13, 18)


def client(body: bytes, status: int = 200) -> openai.OpenAI:
    def answer(request: httpx2.Request) -> httpx2.Response:
        kind = "text/event-stream" if status == 200 else "application/json"
        return httpx2.Response(status, headers={"content-type": kind}, content=body)

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    return openai.OpenAI(api_key="none", base_url="http://sdk.test", max_retries=0, http_client=http)


def test_the_vendor_s_client_reads_several_choices_and_other_hosts_thinking() -> None:
    """
    Other choices and details of other hosts do not disturb it.
    """
    several = wire.decode_response(ANSWERS["several choices (oddity 18)"])
    with client(written(several)).chat.completions.stream(model="m", messages=[]) as stream:
        final = stream.get_final_completion()
    assert [choice.message.content for choice in final.choices] == ["a", "b", "c"]
    routed = wire.decode_response(whole({"content": "a", "reasoning": "Hm.", "reasoning_details": [SIGNED, SEALED]}))
    with client(written(routed, 1)).chat.completions.stream(model="m", messages=[]) as stream:
        final = stream.get_final_completion()
    assert (final.choices[0].message.model_extra or {})["reasoning_details"] == [SIGNED, SEALED]


@pytest.mark.parametrize(
    ("options", "expected"), [({"include_usage": True}, True), ({"include_usage": False}, False), (None, False)]
)
def test_usage_is_streamed_to_clients_that_asked_for_it(options: Any, expected: bool) -> None:
    """
    Without a request everybody gets it; else the request's own options decide.
    """
    message = STREAMED["thinking and calls"]
    body = {"messages": [], "stream": True, **({"stream_options": options} if options else {})}
    assert (b'"usage"' in written(message, request=wire.decode_request(body))) is expected
    assert b'"usage"' in written(message)


def test_live_events_of_another_wire_stream_as_they_come() -> None:
    """
    A signature that is known only when the thought ends still reaches the client, and is read as one thought.
    """
    signed = ThinkingBlock(thinking="Hm.", thinking_signature="s")
    source = AssistantMessage(content=(signed, TextBlock(text="a")), stop_reason="stop")
    events = [type(e)(e.content_index) if type(e).__name__ == "ThinkingStart" else e for e in unfold(source)]
    encoder = wire.StreamEncoder()
    chunks = [encoder.feed(event) for event in events]
    assert all(chunks[at] for at, event in enumerate(events) if isinstance(event, TextDelta))
    framing, decoder = wire.framing(), wire.StreamDecoder()
    received = [event for frame in framing.feed(b"".join(chunks)) for event in decoder.feed(frame)]
    assert fold(received + decoder.close()).content == source.content


def test_failures_are_encoded_as_this_wire_says_them() -> None:
    """
    An error ends the stream with an error object, which the official client raises; so does a stream cut off.
    """
    failed = AssistantMessage(content=(TextBlock(text="a"),), stop_reason="error", error_message="broken")
    for body in (written(failed), wire.StreamEncoder().close()):
        assert b"[DONE]" not in body
        with pytest.raises(openai.APIError), client(body).chat.completions.stream(model="m", messages=[]) as stream:
            stream.get_final_completion()
    filtered = AssistantMessage(content=(), stop_reason="error", stop_detail="content_filter")
    assert b'"finish_reason":"content_filter"' in written(filtered)
    encoder = wire.StreamEncoder()
    encoder.feed(Done("stop", STREAMED["text"]))
    assert (encoder.feed(TextDelta(0, "late")), encoder.close()) == (b"", b"")


# --- errors ----------------------------------------------------------------------------------------------------------

ERRORS: list[tuple[int, Any, type[ProviderError], str, str | None]] = [
    (401, {"error": {"message": "No.", "type": "invalid_request_error", "code": "invalid_api_key"}}, AuthFailed, "No.",
     "invalid_api_key"),
    (429, {"error": {"message": "Slow.", "type": "rate_limit_error", "code": None}}, RateLimited, "Slow.",
     "rate_limit_error"),
    (400, {"error": "model not found"}, BadRequest, "model not found", None),
    (401, {"detail": "Invalid API Key"}, AuthFailed, "Invalid API Key", None),
    (422, {"detail": [{"loc": ["body"], "msg": "bad"}]}, BadRequest, '[{"loc":["body"],"msg":"bad"}]', None),
    (400, {"object": "error", "message": "Bad.", "type": "invalid", "code": 1}, BadRequest, "Bad.", "invalid"),
    (429, {"error": {"message": "Provider returned error", "code": 429, "metadata": {"raw": "try later"}}}, RateLimited,
     "Provider returned error: try later", "429"),
    (0, {"error": {"message": "Slow.", "code": 429}}, RateLimited, "Slow.", "429"),
    (400, {"error": {"message": "This model's maximum context length is 5 tokens", "code": 400}}, ContextTooLong,
     "This model's maximum context length is 5 tokens", "400"),
    (400, [{"error": {"message": "Bad.", "code": 400, "status": "INVALID_ARGUMENT"}}], BadRequest, "Bad.", "400"),
    (502, b"<html>bad gateway</html>", ProviderError, "<html>bad gateway</html>", None),
    (500, b"", ProviderError, "HTTP 500", None),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "kind", "text", "code"), ERRORS)
def test_oddities_80_and_81_errors_are_typed_however_they_are_encoded(
    status: int, body: Any, kind: type[ProviderError], text: str, code: str | None
) -> None:
    """
    Every shape of an error body gives its words, its code and the right kind.
    """
    error = wire.decode_error(status, body)
    assert isinstance(error, kind)
    assert (text, code) == (error.message, error.code)


def test_an_error_is_encoded_as_the_vendor_s_client_expects() -> None:
    """
    The official client raises its own class for it, with our words.
    """
    status, body = wire.encode_error(RateLimited("Slow down.", code="slow"))
    assert (status, body["error"]["type"]) == (429, "rate_limit_error")
    with pytest.raises(openai.RateLimitError, match=r"Slow down\."):
        client(json.dumps(body).encode(), status).chat.completions.create(model="m", messages=[])


def test_a_bare_list_of_messages_is_a_conversation() -> None:
    """
    Messages without a request around them are read, and written as a list again.
    """
    messages = [{"role": "system", "content": "s"}, USER, {"role": "assistant", "content": "hi", "x": 1}]
    assert wire.encode(wire.decode(messages)).body == messages
    assert wire.encode(wire.decode(json.dumps({"messages": messages}))).body == {"messages": messages}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"stream": False},
        {"stream": True},
        {"stream": True, "stream_options": {"include_usage": True}},
        {"stream": True, "stream_options": {"include_usage": False}},
        {"stream": True, "stream_options": {"include_usage": 1}},
        {"stream": True, "stream_options": {"include_usage": True, "other": 1}},
        {"stream": False, "stream_options": {"include_usage": True}},
        {"stream_options": {"include_usage": True}},
        {"stream_options": None},
        {"stream": None},
        {"stream": 1},
        {"max_tokens": 5},
        {"max_tokens": 5, "max_completion_tokens": 6},
        {"max_tokens": True},
        {"max_tokens": None, "max_completion_tokens": 6},
        {"max_tokens": 5, "stream": False, "temperature": 0.5},
        {"model": ""},
    ],
)
def test_usual_requests_and_those_beside_them_return_as_they_came(fields: dict[str, Any]) -> None:
    """
    The fast way for requests without a residual takes no request that has one.
    """
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **fields}
    request = wire.decode_request(body)
    assert json.dumps(wire.encode_request(request).body, sort_keys=True) == json.dumps(body, sort_keys=True)
    stream, limit = fields.get("stream"), fields.get("max_completion_tokens", fields.get("max_tokens"))
    assert request.options.stream is (stream if isinstance(stream, bool) else None)
    assert request.options.max_tokens == (limit if type(limit) is int else None)


FLAT_CALLS = {
    "an object": {"id": "c1", "name": "f", "arguments": {"a": 1}},
    "text": {"id": "c1", "name": "f", "arguments": '{"a": 1}'},
    "no id": {"name": "f", "arguments": {"a": 1}},
    "LangChain's": {"name": "f", "args": {"a": 1}, "id": "c1", "type": "tool_call"},
    "a type": {"type": "function", "name": "f", "arguments": {"a": 1}},
}


@pytest.mark.parametrize("call", FLAT_CALLS.values(), ids=FLAT_CALLS.keys())
def test_a_call_may_have_no_function(call: dict[str, Any]) -> None:
    """Training sets write the name and the arguments in the call itself; its result stays beside it."""
    result = {"role": "tool", "content": "done", **({"tool_call_id": "c1"} if "id" in call else {"name": "f"})}
    body = {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [call]}, result]}
    conversation = il.decode(body, "openai-completions")
    assert conversation.messages[1].tool_calls[0].arguments == {"a": 1}
    assert il.encode(conversation, "openai-completions").body == body
    said = json.dumps(il.encode(conversation, "anthropic-messages").body)
    assert '"input": {"a": 1}' in said and '"done"' in said and "No result" not in said


def test_a_stream_repeats_calls_that_are_no_objects() -> None:
    """What a host sends instead of a call is written again as it came, between calls."""
    given = [1.5, {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}, ["x"]]
    message = {"role": "assistant", "content": None, "tool_calls": given}
    body = {"id": "r", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    answer = wire.decode_response(body)
    encoder = wire.StreamEncoder()
    written = b"".join(map(encoder.feed, unfold(answer)))
    deltas = [json.loads(line[6:])["choices"] for line in written.split(b"\n\n") if line.startswith(b"data: {")]
    calls = [call for choices in deltas for choice in choices for call in choice["delta"].get("tool_calls", ())]
    assert [1.5, ["x"]] == [call for call in calls if not isinstance(call, dict)]
