"""The Responses wire: items to messages and back, answers, streams. Numbers in names are those of known hard cases."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest
from openai.types.responses import Response
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter

import interlingua as il
from interlingua.dialects import dialect
from interlingua.dialects import openai_responses as wire
from interlingua.dialects.framing import write_sse
from interlingua.values.canonical import dump, load
from interlingua.values.errors import AuthFailed, BadRequest, BadWire, ContextTooLong, ProviderError, RateLimited
from interlingua.values.events import (
    Done,
    Error,
    Start,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
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
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    ServerToolCall,
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
    Conversation,
    ModelDescriptor,
    Options,
    OutputSchema,
    Reasoning,
    Request,
    ToolChoice,
    ToolSpec,
)
from laws.grammar import faults

API = wire.API
PNG = "iVBORw0KGgo="
HUGE = 2**70 + 1


def returned(body: Any) -> Any:
    """A request after decoding, our JSON, and encoding."""
    return wire.encode_request(load(dump(wire.decode_request(body)), Request)).body


def read(*items: Any, **more: Any) -> Request:
    return wire.decode_request({"model": "m", "input": list(items), **more})


def asking(*messages: Any, system: Any = None, **options: Any) -> Request:
    return Request(
        model=ModelDescriptor(id="gpt-5"),
        context=Context(system=system, messages=tuple(messages)),
        options=Options(**options),
    )


def body_of(*messages: Any, system: Any = None, **options: Any) -> dict[str, Any]:
    body: dict[str, Any] = wire.encode_request(asking(*messages, system=system, **options)).body
    return body


def lost(request: Request) -> dict[str, str]:
    return {loss.path: loss.severity for loss in wire.encode_request(request).losses}


# --- items -----------------------------------------------------------------------------------------------------------

REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."}],
    "encrypted_content": "gAAAAAB+/=",
}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "add", "arguments": '{"a":1}'}
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "2"}
CITED = {
    "type": "output_text",
    "text": "See there.",
    "annotations": [
        {"type": "url_citation", "url": "https://e.org", "title": "E", "start_index": 0, "end_index": 3},
        {"type": "url_citation", "url": "https://e.org"},
        {"type": "file_citation", "file_id": "file-1", "filename": "a.txt", "index": 4},
        {"type": "container_file_citation", "container_id": "c", "file_id": "f", "filename": "b", "start_index": 1,
         "end_index": 2},
        {"type": "file_path", "file_id": "file-2", "index": 9},
        {"type": "x_citation", "url": "https://e.org/2", "x": {"y": 1}},
    ],
    "logprobs": [{"token": "See", "logprob": -0.5, "bytes": [83], "top_logprobs": []}],
}  # fmt: skip

ITEMS: dict[str, list[Any]] = {
    "an easy message": [{"role": "user", "content": "hi"}],
    "a message with its type": [{"type": "message", "role": "user", "content": "hi", "status": "completed"}],
    "parts of every kind": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "see", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "low"},
                {"type": "input_image", "image_url": "data:image/svg+xml;utf8,<svg/>"},
                {"type": "input_image", "image_url": f"data:;base64,{PNG}"},
                {"type": "input_image", "image_url": "https://e.org/a.png", "file_id": None},
                {"type": "input_image", "file_id": "file-1", "detail": "auto"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
                {"type": "input_file", "filename": "a.pdf", "file_data": "JVBERi0="},
                {"type": "input_file", "file_data": "data:text/plain;charset=utf-8;base64,aGk="},
                {"type": "input_file", "file_url": "https://e.org/a.pdf"},
                {"type": "input_file", "file_id": "file-2"},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3", "x": 1}},
                {"type": "input_hologram", "depth": 3},
                {"type": "input_text", "text": None},
            ],
        }
    ],
    "system and developer messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "system", "content": [{"type": "input_text", "text": "Be kind."}]},
        {"role": "user", "content": None},
    ],
    "an easy answer": [{"role": "assistant", "content": "hello", "phase": "final_answer"}],
    "an easy answer with its type": [{"type": "message", "role": "assistant", "content": "hello"}],
    "an easy answer in parts": [{"role": "assistant", "content": [{"type": "output_text", "text": "a"}]}],
    "an answer in one part": [
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "a", "annotations": []}],
        }
    ],
    "an answer of nothing": [{"role": "assistant", "content": []}, {"role": "user", "content": "?"}],
    "easy answers in a row": [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b", "x": 1}],
    "a message item in parts": [
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_1",
            "phase": "commentary",
            "status": "completed",
            "content": [
                {"type": "output_text", "text": "a", "annotations": []},
                {"type": "output_hologram", "depth": 3},
                {"type": "refusal", "refusal": "no", "id": "the part's own"},
                {"type": "output_text", "text": "b"},
            ],
        },
        {"type": "message", "role": "assistant", "id": "msg_2", "content": [CITED]},
        {"type": "message", "role": "assistant", "id": "msg_3", "content": []},
        {"type": "message", "role": "assistant", "content": [{"type": "input_text", "text": "odd"}]},
    ],
    "a whole turn": [{"role": "user", "content": "1+1?"}, REASONING, CALL, RESULT, {"role": "user", "content": "ok"}],
    "reasoning of every shape": [
        {"type": "reasoning", "summary": []},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": None, "content": None},
        {"type": "reasoning", "id": "rs_3", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "reasoning", "id": "rs_4", "summary": [{"type": "summary_text", "text": "", "x": 1}], "content": []},
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "a\n\nb"}, {"type": "summary_text", "text": ""}],
            "content": [{"type": "reasoning_text", "text": "\n\n"}, {"type": "x_text", "text": "c", "y": [1]}],
            "status": "completed",
        },
        {"type": "reasoning", "summary": "not a list"},
    ],
    "calls of every shape": [
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{ "a" : 1 }', "status": "completed"},
        {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "", "namespace": "n", "id": "fc_2"},
        {"type": "function_call", "call_id": "c3", "name": "f", "arguments": '{"a":'},
        {"type": "function_call", "call_id": "c4", "name": "f", "arguments": {"a": 1}},
        {"type": "function_call", "call_id": None, "id": "fc_5", "name": "f", "arguments": "{}"},
        {"type": "function_call", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "c6", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "c7", "name": "sh", "input": "ls -l\n", "id": "ctc_1"},
        {"type": "custom_tool_call_output", "call_id": "c7", "output": "a\nb"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "1"}], "id": "o"},
        {"type": "function_call_output", "call_id": None, "name": "f", "output": "?"},
        {"type": "function_call_output", "call_id": "c2"},
        {"type": "custom_tool_call_output", "call_id": "c3", "output": "answers no custom call"},
    ],
    "items that others run": [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
        {"type": "web_search_call", "id": "ws_2", "status": "completed", "arguments": "x", "name": "n"},
        {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["a"], "results": [{"text": "t"}]},
        {"type": "code_interpreter_call", "id": "ci_1", "code": "1", "container_id": "c", "outputs": None},
        {"type": "image_generation_call", "id": "ig_1", "result": PNG, "status": "completed"},
        {"type": "mcp_list_tools", "id": "l", "server_label": "s", "tools": []},
        {"type": "mcp_call", "id": "m", "server_label": "s", "name": "t", "arguments": '{ "a":1}', "output": None},
        {"type": "mcp_approval_request", "id": "r", "server_label": "s", "name": "t", "arguments": "{}"},
        {"type": "mcp_approval_response", "approval_request_id": "r", "approve": True},
        {"type": "tool_search_call", "call_id": None, "id": "ts", "execution": "server", "arguments": {"paths": ["a"]}},
        {"type": "tool_search_output", "call_id": None, "execution": "server", "tools": []},
        {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {}},
        {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": []},
        {"type": "computer_call", "id": "cu", "call_id": "c", "action": {"type": "wait"}, "pending_safety_checks": []},
        {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "file_id": "f"}},
        {"type": "apply_patch_call", "call_id": "p", "operation": {"type": "delete_file", "path": "a"}, "status": "x"},
        {"type": "apply_patch_call_output", "call_id": "p", "status": "completed", "output": "done"},
        {"type": "compaction", "id": "cmp", "encrypted_content": "x"},
        {"type": "additional_tools", "role": "developer", "tools": [{"type": "web_search"}]},
        {"type": "item_reference", "id": "msg_9"},
        {"id": "msg_10"},
        {"type": "x_future", "role": "assistant", "content": "?"},
    ],
    "roles that are not known": [{"role": "critic", "content": "hm"}, {"type": "message", "role": "tool", "x": 1}],
}


@pytest.mark.parametrize("name", ITEMS)
def test_items_come_back_as_they_were(name: str) -> None:
    """
    Whatever stands in the input returns equal, through our own JSON, unknown fields included.
    """
    assert {"model": "m", "input": ITEMS[name]} == returned({"model": "m", "input": ITEMS[name]})


@pytest.mark.parametrize("name", ITEMS)
def test_a_bare_list_of_items_is_a_conversation(name: str) -> None:
    """
    The items alone are read and written as well.
    """
    conversation = load(dump(wire.decode(ITEMS[name])), Conversation)
    assert ITEMS[name] == wire.encode(conversation).body


def test_all_that_a_model_says_between_two_items_of_the_client_is_one_answer() -> None:
    """
    Reasoning, words, calls and what the provider ran are blocks of one message, in their order (8, 18).
    """
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
    message = {"type": "message", "role": "assistant", "id": "msg_1", "content": [{"type": "output_text", "text": "a"}]}
    more = {**REASONING, "id": "rs_2"}
    answer, result = read(REASONING, search, message, more, CALL, RESULT).context.messages
    assert isinstance(answer, AssistantMessage)
    kinds = [type(block) for block in answer.content or ()]
    assert [ThinkingBlock, ServerToolCall, TextBlock, ThinkingBlock, ToolCall] == kinds
    assert answer.api == API
    assert ToolResultMessage(tool_call_id="call_1", tool_name="add", content="2", is_error=False) == result


def test_thinking_is_a_list_of_blocks_each_with_its_own_seal() -> None:
    """
    Two reasoning items are two blocks; parts are joined by a blank line, the token stands alone (13, 19).
    """
    bare = {"type": "reasoning", "id": "rs_2", "summary": []}
    (answer,) = read(REASONING, bare).context.messages
    first, second = answer.content or ()
    assert isinstance(first, ThinkingBlock)
    assert (first.thinking, first.thinking_signature) == ("First.\n\nThen.", "gAAAAAB+/=")
    assert first.extra[API]["id"] == "rs_1"
    assert ThinkingBlock(thinking="", extra={API: {"id": "rs_2"}}) == second


def test_no_part_of_the_text_is_held_twice() -> None:
    """
    What is held of an item are lengths and ids, never a copy of its words.
    """
    request = read(*ITEMS["a whole turn"], *ITEMS["a message item in parts"], *ITEMS["reasoning of every shape"][:5])
    stored = json.dumps(
        [dict(getattr(block, "extra", {})) for m in request.context.messages for block in m.content or ()]
    )
    assert [word for word in ("First.", "See there.", "gAAAA", "1+1?") if word in stored] == []


def test_changed_words_are_not_overruled_by_how_they_came() -> None:
    """
    Lengths and spellings are only followed while they fit.
    """
    request = read(REASONING, {**CALL, "arguments": '{ "a": 1 }'})
    (answer,) = request.context.messages
    content = (
        ThinkingBlock(thinking="Other words.", thinking_signature="s", extra=answer.content[0].extra),
        ToolCall(id="call_1", name="add", arguments={"a": 2}, arguments_text='{ "a": 1 }'),
    )
    thought, call = body_of(AssistantMessage(content=content))["input"]
    assert thought["summary"] == [{"type": "summary_text", "text": "Other words."}]
    assert call["arguments"] == '{"a":2}'


def test_both_ids_of_a_call_name_its_tool_24() -> None:
    """
    A result may name the call by the item's id; the call keeps both apart.
    """
    answer, result = read(CALL, {**RESULT, "call_id": "fc_1"}).context.messages
    assert ToolCall(id="call_1", name="add", arguments={"a": 1}, extra={API: {"id": "fc_1"}}) == answer.content[0]
    assert result.tool_name == "add"


def test_a_call_without_any_id_gets_one_that_is_never_sent() -> None:
    """
    Ids are made up for our side alone.
    """
    bare = {"type": "function_call", "name": "f", "arguments": "{}"}
    (answer,) = read(bare).context.messages
    assert answer.content[0].id == "call_0"
    assert [bare] == body_of(answer)["input"]


def test_arguments_keep_their_exact_numbers_36() -> None:
    """
    Integers beyond 2**53 survive in both directions, and so does odd spelling.
    """
    text = f'{{"n": {HUGE}, "f": 1.0}}'
    request = read({**CALL, "arguments": text})
    call = request.context.messages[0].content[0]
    assert call.arguments["n"] == HUGE
    assert text == call.arguments_text
    assert text == wire.encode_request(load(dump(request), Request)).body["input"][0]["arguments"]


@pytest.mark.parametrize(
    ("part", "block"),
    [
        ({"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
         DocumentBlock(data="JVBERi0=", mime_type="application/pdf", title="a.pdf")),
        ({"type": "input_file", "file_data": "JVBERi0="}, DocumentBlock(data="JVBERi0=")),
        ({"type": "input_file", "file_url": "https://e.org/a"}, DocumentBlock(url="https://e.org/a")),
        ({"type": "input_file", "file_id": "f"}, DocumentBlock(file_id="f")),
        ({"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
         ImageBlock(data=PNG, mime_type="image/png")),
        ({"type": "input_image", "image_url": "https://e.org/a", "detail": "high"},
         ImageBlock(url="https://e.org/a", detail="high")),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
         AudioBlock(data="AAAA", mime_type="audio/mpeg")),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
         AudioBlock(data="AAAA", mime_type="audio/wav")),
        ({"type": "input_text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}},
         TextBlock(text="a", cache=CacheMarker())),
    ],
)  # fmt: skip
def test_every_spelling_of_a_file_is_a_block_64(part: dict[str, Any], block: Any) -> None:
    """
    Files, pictures and sounds are read from messages and results alike, and said the same way.
    """
    result = {"type": "function_call_output", "call_id": "c", "output": [part]}
    for message in read({"role": "user", "content": [part]}, result).context.messages:
        assert (block,) == message.content
    assert [{"role": "user", "content": [part]}] == body_of(UserMessage(content=(block,)))["input"]


def test_results_keep_their_pictures_69() -> None:
    """
    A result of several parts is never flattened to text.
    """
    content = (TextBlock(text="here"), ImageBlock(data=PNG, mime_type="image/png"))
    (item,) = body_of(ToolResultMessage(tool_call_id="c", content=content, is_error=False))["input"]
    assert [part["type"] for part in item["output"]] == ["input_text", "input_image"]


def test_citations_return_with_the_words_70() -> None:
    """
    Sources are read as citations, and those of other wires are said if they have a URL.
    """
    (answer,) = read({"type": "message", "role": "assistant", "content": [CITED]}).context.messages
    cited = answer.content[0].citations
    assert Citation(title="E", url="https://e.org", start=0, end=3) == cited[0]
    assert [citation.title for citation in cited] == ["E", None, "a.txt", "b", None, None]
    foreign = TextBlock(text="a", citations=(Citation(url="u", title="t", cited_text="c"), Citation(title="no url")))
    (item,) = body_of(AssistantMessage(content=(foreign,)))["input"]
    assert item["content"][0]["annotations"] == [{"type": "url_citation", "url": "u", "title": "t"}]


def test_a_custom_tool_takes_one_text() -> None:
    """
    The call of a custom tool is a call with the argument `input`, and its result goes back as one of a custom tool.
    """
    custom = {"type": "custom_tool_call", "call_id": "c", "name": "sh", "input": "ls"}
    (answer,) = read(custom).context.messages
    call = answer.content[0]
    assert call.arguments == {"input": "ls"}
    result = ToolResultMessage(tool_call_id="c", content="a", is_error=False)
    assert [custom, {"type": "custom_tool_call_output", "call_id": "c", "output": "a"}] == body_of(answer, result)[
        "input"
    ]


# --- requests --------------------------------------------------------------------------------------------------------

BODIES: dict[str, dict[str, Any]] = {
    "input as a string": {"model": "m", "input": "hi"},
    "no input": {"model": "m", "prompt": {"id": "pmpt_1"}, "previous_response_id": "resp_1"},
    "instructions and a system message": {
        "instructions": "Be kind.",
        "input": [{"role": "system", "content": "Be brief."}],
    },
    "a system message first": {"input": [{"type": "message", "role": "system", "content": "Be brief.", "x": 1}]},
    "instructions that are null": {"instructions": None, "input": [{"role": "developer", "content": "Be brief."}]},
    "every option": {
        "model": "m",
        "input": [],
        "max_output_tokens": 10,
        "temperature": 0.5,
        "top_p": 1.0,
        "reasoning": {"effort": "low", "summary": "auto", "context": "all_turns"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "x": 1}, "verbosity": "low", "y": 2},
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "service_tier": "flex",
        "metadata": {"a": "b"},
        "prompt_cache_key": "k",
        "prompt_cache_retention": "24h",
        "user": "u",
        "safety_identifier": "s",
        "truncation": "auto",
        "background": True,
        "conversation": {"id": "conv_1"},
        "stream": True,
        "stream_options": {"include_obfuscation": False},
        "top_logprobs": 3,
    },
    "options of the wrong type": {
        "model": 1,
        "input": [],
        "temperature": "hot",
        "reasoning": "high",
        "text": "json",
        "tool_choice": 3,
        "metadata": [],
        "tools": "none",
        "stream": "yes",
        "prompt_cache_retention": ["24h"],
    },
    "text without a format": {"input": [], "text": {}},
    "text that is plain": {"input": [], "text": {"format": {"type": "text"}, "verbosity": "high"}},
    "any object": {"input": [], "text": {"format": {"type": "json_object"}}, "reasoning": {"effort": "none"}},
    "one function": {"input": [], "tool_choice": {"type": "function", "name": "f"}},
    "allowed tools": {
        "input": [],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
    },
    "one allowed tool": {
        "input": [],
        "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
    },
    "allowed tools of the provider": {
        "input": [],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]},
    },
    "a choice of the provider's tools": {"input": [], "tool_choice": {"type": "mcp", "server_label": "s"}},
    "tools": {
        "input": [],
        "tools": [
            {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True, "defer_loading": True},
            {"type": "function", "name": "g"},
            {"type": "web_search", "search_context_size": "low"},
            {"type": "custom", "name": "sh", "format": {"type": "text"}},
            {"type": "namespace", "name": "n", "tools": []},
        ],
    },
}


@pytest.mark.parametrize("name", BODIES)
def test_requests_come_back_as_they_were(name: str) -> None:
    """
    Every setting returns, known or not, whatever its type.
    """
    assert BODIES[name] == returned(BODIES[name])


def test_a_string_is_input_only_while_it_is_alone() -> None:
    """
    A conversation that went on is a list of items.
    """
    request = wire.decode_request({"input": "hi"})
    context = Context(messages=(*request.context.messages, AssistantMessage(content="hello")))
    body = wire.encode_request(Request(model=request.model, context=context, extra=request.extra)).body
    assert body["input"] == [
        {"role": "user", "content": "hi"},
        {"type": "message", "role": "assistant", "content": "hello"},
    ]


@pytest.mark.parametrize(
    ("body", "system", "role", "rest"),
    [
        ({"instructions": "a", "input": []}, "a", None, ()),
        ({"instructions": "a", "input": [{"role": "system", "content": "b"}]}, "a", None,
         (SystemMessage(content="b"),)),
        ({"input": [{"role": "system", "content": "b"}]}, "b", "system", ()),
        ({"input": [{"role": "developer", "content": "b"}]}, "b", "developer", ()),
        ({"input": [{"role": "system", "content": [{"type": "input_text", "text": "b"}]}]},
         (TextBlock(text="b"),), None, ()),
        ({"input": [{"role": "user", "content": "u"}, {"role": "developer", "content": "b"}]}, None, None,
         (UserMessage(content="u"), SystemMessage(content="b", developer=True))),
        ({"input": [{"role": "system", "content": [{"type": "input_image", "file_id": "f", "detail": "auto"}]}]},
         None, None,
         (SystemMessage(content=(ImageBlock(file_id="f"),)),)),
    ],
)  # fmt: skip
def test_the_system_prompt_is_the_instructions_or_else_the_first_message(
    body: dict[str, Any], system: Any, role: str | None, rest: tuple[Any, ...]
) -> None:
    """
    Later system messages stay where they are.
    """
    context = wire.decode_request(body).context
    assert (system, role, rest) == (context.system, context.system_role, context.messages)
    assert body == returned(body)


def test_a_foreign_conversation_is_encoded_in_full_and_nothing_is_stored_10() -> None:
    """
    The system text is the instructions; no store, no references, no made-up ids, no filler, no status.
    """
    body = body_of(
        UserMessage(content="1+1?"),
        AssistantMessage(
            content=(
                ThinkingBlock(thinking="Add.", thinking_signature="sealed"),
                TextBlock(text="Let me see."),
                TextBlock(text="Adding."),
                ToolCall(id="toolu_1", name="add", arguments={"a": 1}),
            )
        ),
        ToolResultMessage(tool_call_id="toolu_1", tool_name="add", content="2", is_error=False),
        system="Be brief.",
        max_tokens=10,
        reasoning="low",
        session_id="s",
        cache_retention="long",
    )
    assert body == {
        "model": "gpt-5",
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": "1+1?"},
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "Add."}],
                "encrypted_content": "sealed",
            },
            {"role": "assistant", "content": "Let me see."},
            {"role": "assistant", "content": "Adding."},
            {"type": "function_call", "call_id": "toolu_1", "name": "add", "arguments": '{"a":1}'},
            {"type": "function_call_output", "call_id": "toolu_1", "output": "2"},
        ],
        "max_output_tokens": 10,
        "reasoning": {"effort": "low"},
        "prompt_cache_key": "s",
        "prompt_cache_retention": "24h",
    }


def test_ids_of_another_api_are_not_taken_for_ids_of_items_9() -> None:
    """
    What another wire held of a block stays with that wire.
    """
    block = ThinkingBlock(thinking="a", extra={"openai-completions": {"id": "reasoning_content"}})
    assert body_of(AssistantMessage(content=(block,)))["input"] == [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}]}
    ]


@pytest.mark.parametrize(
    ("option", "value", "key", "word"),
    [
        ("reasoning", Reasoning(enabled=False), "reasoning", {"effort": "none"}),
        ("reasoning", Reasoning(summary="auto"), "reasoning", {"summary": "auto"}),
        ("tool_choice", ToolChoice(mode="none"), "tool_choice", "none"),
        ("tool_choice", "f", "tool_choice", {"type": "function", "name": "f"}),
        ("output_schema", OutputSchema(), "text", {"format": {"type": "json_object"}}),
        ("output_schema", OutputSchema(schema={"a": 1}, strict=True), "text",
         {"format": {"type": "json_schema", "strict": True, "schema": {"a": 1}}}),
        ("cache_retention", "long", "prompt_cache_retention", "24h"),
        ("service_tier", "flex", "service_tier", "flex"),
        ("stream", False, "stream", False),
    ],
)  # fmt: skip
def test_options_have_words_on_this_wire(option: str, value: Any, key: str, word: Any) -> None:
    """
    Each is said, read back equal, and reports no loss.
    """
    request = asking(**{option: value})
    body = wire.encode_request(request).body
    assert word == body[key]
    assert request.options == wire.decode_request(body).options
    assert lost(request) == {}


def test_tools_are_flat_and_strictness_is_never_left_to_the_server() -> None:
    """
    Where `strict` is left out, the server takes it for true: an unsaid one is null.
    """
    tools = (ToolSpec(name="f", input_schema={"type": "object"}), ToolSpec(name="g", strict=False))
    request = Request(model=ModelDescriptor(id="m"), context=Context(messages=(), tools=tools))
    body = wire.encode_request(request).body
    assert body["tools"] == [
        {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": None},
        {"type": "function", "name": "g", "parameters": None, "strict": False},
    ]
    assert tools == wire.decode_request(body).context.tools


@pytest.mark.parametrize(
    ("request_", "paths"),
    [
        (asking(AssistantMessage(content="a"), AssistantMessage(content="b")), {"$.messages": "weakened"}),
        (asking(SystemMessage(content="a")),
         {"$.system": "weakened", "$.messages[0]": "weakened", "$.systemRole": "weakened"}),
        (asking(ToolResultMessage(tool_call_id="c", content="a", is_error=True)),
         {"$.messages[0].isError": "weakened"}),
        (asking(UserMessage(content=(DocumentBlock(text="a"),))), {"$.messages[0].content[0]": "weakened"}),
        (asking(UserMessage(content=(ToolCall(id="c", name="n", arguments={}),))),
         {"$.messages[0].content[0]": "dropped"}),
        (asking(AssistantMessage(content=(ImageBlock(url="u"),))), {"$.messages[0].content[0]": "dropped"}),
        (asking(AssistantMessage(content=(ServerToolCall(id="c", name="web_search"),))),
         {"$.messages[0].content[0]": "dropped"}),
        (asking(AssistantMessage(content=(OpaqueBlock(dialect="x", value=1),))),
         {"$.messages[0].content[0]": "dropped"}),
        (asking(UserMessage(content=(AudioBlock(url="u"),))), {"$.messages[0].content[0]": "dropped"}),
        (asking(stop=("END",), top_k=1, seed=1),
         {"$.options.stop": "dropped", "$.options.topK": "dropped", "$.options.seed": "dropped"}),
        (asking(cache_retention="none"), {"$.options.cacheRetention": "weakened"}),
        (asking(reasoning=1024), {"$.options.reasoning.budget": "dropped"}),
        (asking(system=(TextBlock(text="a", citations=(Citation(url="u"),)),)),
         {"$.system[0].citations": "dropped"}),
    ],
)  # fmt: skip
def test_what_cannot_be_encoded_is_reported(request_: Request, paths: dict[str, str]) -> None:
    """
    Each loss names its place in the source.
    """
    assert paths == lost(request_)


def test_the_vendor_s_types_accept_our_requests() -> None:
    """
    The official parameter types take the body, but that cited words are an answer's own, with an id and a status.
    """
    thinking = ThinkingBlock(thinking="hm", thinking_signature="s", extra={API: {"id": "rs_1"}})
    text = TextBlock(text="Well.", citations=(Citation(url="https://e.org", title="E", start=0, end=1),))
    body = wire.encode_request(
        Request(
            model=ModelDescriptor(id="gpt-5"),
            context=Context(
                system="Be brief.",
                messages=(
                    UserMessage(content="hi"),
                    UserMessage(
                        content=(
                            TextBlock(text="see", cache=CacheMarker(ttl="30m")),
                            ImageBlock(data=PNG, mime_type="image/png", detail="low"),
                            DocumentBlock(data="JVBERi0=", mime_type="application/pdf", title="a.pdf"),
                            DocumentBlock(url="https://e.org/a.pdf"),
                        )
                    ),
                    AssistantMessage(content=(thinking, text, ToolCall(id="c", name="f", arguments={"a": 1}))),
                    ToolResultMessage(
                        tool_call_id="c", content=(ImageBlock(data=PNG, mime_type="image/png"),), is_error=False
                    ),
                    AssistantMessage(content=(TextBlock(text="So."), TextBlock(text="bye"))),
                    UserMessage(content=(ImageBlock(url="https://e.org/a.png"),)),
                    AssistantMessage(content="bye"),
                    SystemMessage(content="Later.", developer=True),
                    UserMessage(content="?"),
                ),
                tools=(ToolSpec(name="f", input_schema={"type": "object"}), ToolSpec(name="g", strict=True)),
            ),
            options=Options(
                max_tokens=10,
                temperature=0.5,
                top_p=1,
                reasoning=Reasoning(effort="low", summary="auto"),
                tool_choice=ToolChoice(mode="auto", names=("f", "g")),
                output_schema=OutputSchema(schema={"type": "object"}, name="n", strict=True),
                metadata={"a": "b"},
                session_id="s",
                cache_retention="long",
                service_tier="auto",
                parallel_tools=False,
                stream=False,
            ),
        )
    ).body
    for item in body["input"]:
        if item.get("role") == "assistant" and isinstance(item["content"], list):
            item |= {"id": "msg_1", "status": "completed"}
    assert body == materialised(TypeAdapter(ResponseCreateParamsNonStreaming).validate_python(body))


def materialised(value: Any) -> Any:
    """Validated parameters as plain values: iterables are validated only when they are read."""
    if isinstance(value, dict):
        return {key: materialised(item) for key, item in value.items()}
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return value
    return [materialised(item) for item in value]


@pytest.mark.parametrize("body", [None, 1, "[]", "{", {"input": 1}, {"input": ["x"]}, {"input": [], "tools": [1]}])
def test_what_is_no_request_is_refused(body: Any) -> None:
    """
    One typed error, whatever came.
    """
    with pytest.raises(BadWire):
        wire.decode_request(body)


# --- answers ---------------------------------------------------------------------------------------------------------

TEXTS = {
    "type": "message",
    "id": "msg_a",
    "status": "completed",
    "role": "assistant",
    "phase": "final_answer",
    "content": [{"type": "output_text", "annotations": [], "logprobs": [], "text": "Two."}],
}
USAGE = {
    "input_tokens": 30,
    "input_tokens_details": {"cached_tokens": 10, "cache_write_tokens": 5},
    "output_tokens": 8,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 38,
}


def answered(*output: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "gpt-5-2025",
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": USAGE,
        **more,
    }


ANSWERS: dict[str, dict[str, Any]] = {
    "a turn": answered({**REASONING, "status": None}, TEXTS, {**CALL, "status": "completed"}),
    "reasoning without a summary 53": answered(
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "e", "content": None},
        {"type": "reasoning", "id": "rs_3", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]},
    ),
    "several messages with a phase 54": answered({**TEXTS, "phase": "commentary"}, {**TEXTS, "id": "msg_b"}),
    "empty words beside a tool 59": answered(
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PNG, "quality": "high"},
        {**TEXTS, "content": [{"type": "output_text", "annotations": [], "text": ""}]},
    ),
    "items without ids": answered({"type": "message", "role": "assistant", "content": [CITED]}, {"type": "reasoning"}),
    "ids like those that we make": answered({**TEXTS, "id": "msg_0"}, {**CALL, "id": "fc_1", "status": "incomplete"}),
    "a message of nothing": answered({**TEXTS, "content": [], "status": "incomplete"}),
    "a time with a fraction": answered(created_at=1_700_000_000.5),
    "a time as a float": answered(created_at=1_700_000_000.0),
    "no usage": answered(usage=None),
    "old usage": answered(usage={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
    "odd usage": answered(usage={"input_tokens": 1, "input_tokens_details": {"cached_tokens": 9}, "cost": 0.5, "x": 1}),
    "settings": answered(TEXTS, temperature=1.0, tools=[{"type": "web_search"}], x_new={"y": [1]}, metadata={}),
    "a refusal": answered({**TEXTS, "content": [{"type": "refusal", "refusal": "No."}]}),
    "a failure": answered(status="failed", error={"code": "rate_limit_exceeded", "message": "Slow down."}, usage=None),
    "an unknown reason": answered(status="incomplete", incomplete_details={"reason": "steered", "x": 1}),
    "an unknown status": answered(TEXTS, status="dreaming"),
    "almost nothing": {"id": "resp_1", "object": "response"},
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_come_back_as_they_were(name: str) -> None:
    """
    The whole response object returns equal, through our own JSON.
    """
    message = load(dump(wire.decode_response(ANSWERS[name])), AssistantMessage)
    assert spelled(ANSWERS[name]) == spelled(wire.encode_response(message).body)


def spelled(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def test_an_answer_says_who_when_and_for_how_much() -> None:
    """
    Usage is in disjoint buckets; the total is the wire's own.
    """
    message = wire.decode_response(answered(TEXTS), model="gpt-5")
    assert (message.model, message.response_model, message.response_id) == ("gpt-5", "gpt-5-2025", "resp_1")
    assert message.timestamp == 1_700_000_000_000
    assert wire.decode_response(answered(TEXTS), timestamp=7).timestamp == 7
    assert Usage.of(15, 8, cache_read=10, cache_write=5, reasoning=3) == message.usage


@pytest.mark.parametrize(
    ("status", "reason", "output", "stop", "detail"),
    [
        ("completed", None, [TEXTS], "stop", "completed"),
        ("completed", None, [TEXTS, CALL], "toolUse", "completed"),
        ("incomplete", "max_output_tokens", [TEXTS], "length", "max_output_tokens"),
        ("incomplete", "max_output_tokens", [CALL], "length", "max_output_tokens"),
        ("incomplete", "content_filter", [TEXTS], "error", "content_filter"),
        ("incomplete", "steered", [TEXTS], "length", "steered"),
        ("incomplete", None, [], "length", "incomplete"),
        ("failed", None, [TEXTS], "error", "failed"),
        ("cancelled", None, [TEXTS], "aborted", "cancelled"),
        ("in_progress", None, [], "stop", "in_progress"),
        ("queued", None, [], "stop", "queued"),
        ("dreaming", None, [TEXTS], "stop", "dreaming"),
        ("dreaming", None, [], "error", "dreaming"),
        (None, None, [TEXTS], "stop", None),
    ],
)
def test_how_an_answer_ended(status: Any, reason: Any, output: list[Any], stop: str, detail: str | None) -> None:
    """
    The detail is the status, or the reason why it is incomplete; a cut answer with calls is still a cut one.
    """
    details = None if reason is None else {"reason": reason}
    message = wire.decode_response(answered(*output, status=status, incomplete_details=details))
    assert (stop, detail) == (message.stop_reason, message.stop_detail)
    assert (stop in ("error", "aborted")) == (message.error_message is not None)


def test_refusals_end_in_an_error_with_the_model_s_words() -> None:
    """
    The words are a block marked as a refusal, and the reason.
    """
    message = wire.decode_response(ANSWERS["a refusal"])
    assert (TextBlock(text="No.", refusal=True, extra=message.content[0].extra),) == message.content
    assert (message.stop_reason, message.error_message) == ("error", "the model refused: No.")


def test_an_error_body_is_raised() -> None:
    """
    An error in the place of an answer is a typed error.
    """
    with pytest.raises(RateLimited, match="Slow down"):
        wire.decode_response({"error": {"message": "Slow down.", "code": "rate_limit_exceeded"}})


def test_what_only_answers_say_is_not_sent_back_71() -> None:
    """
    An answer goes into the next request without its status, nulls and envelope; ids, seals and phase return (7).
    """
    message = load(dump(wire.decode_response(ANSWERS["a turn"])), AssistantMessage)
    assert body_of(message)["input"] == [
        REASONING,
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_a",
            "phase": "final_answer",
            "content": [{"type": "output_text", "text": "Two.", "annotations": []}],
        },
        CALL,
    ]


def test_reasoning_stays_beside_what_followed_it_6() -> None:
    """
    Pairs return in the order in which they were made, also when they alternate.
    """
    items = [REASONING, {**CALL, "id": "fc_a"}, {**REASONING, "id": "rs_b"}, {**CALL, "id": "fc_b", "call_id": "b"}]
    message = wire.decode_response(answered(*items))
    assert items == body_of(message)["input"]


@pytest.mark.parametrize("ids", [("resp_1", "resp_2"), ("x" * 500, "x" * 501), (None, "resp_1")])
def test_items_without_ids_get_ids_that_no_other_response_has(ids: tuple[str | None, str | None]) -> None:
    """
    Clients refer to an item by its id alone. It is the same in a stream, and is not read back as the item's own.
    """
    blocks = (ThinkingBlock(thinking="Hm."), TextBlock(text="a"), TextBlock(text="b"), CALLED)
    seen: list[str] = []
    for id in ids:
        message = AssistantMessage(content=blocks, stop_reason="toolUse", response_id=id)
        body = wire.encode_response(message).body
        made = [item["id"] for item in body["output"]]
        assert made == [item["id"] for item in wire.encode_response(message).body["output"]]
        assert [item.partition("_")[0] for item in made] == ["rs", "msg", "msg", "fc"]
        assert all(len(item) <= 64 for item in made)  # the longest that OpenAI takes
        assert message.content == wire.decode_response(body).content
        seen += made
        encoder = wire.StreamEncoder()
        frames = wire.framing().feed(b"".join(map(encoder.feed, unfold(message))) + encoder.close())
        events = [json.loads(frame.data) for frame in frames]
        assert body["output"] == events[-1]["response"]["output"]
        added = [event["item"]["id"] for event in events if event["type"] == "response.output_item.added"]
        assert made == added
    assert len(seen) == len(set(seen))


CALLED = ToolCall(id="call_1", name="look", arguments={"city": "Oslo"})


FOREIGN = AssistantMessage(
    content=(
        ThinkingBlock(thinking="Add.", thinking_signature="sealed"),
        TextBlock(text="Let me see 🙂.", citations=(Citation(url="https://e.org", title="E", start=0, end=3),)),
        ToolCall(id="toolu_1", name="add", arguments={"a": 1, "b": [HUGE]}),
        ToolCall(id="toolu_2", name="now", arguments={}),
    ),
    model="claude",
    response_id="resp_9",
    timestamp=1_700_000_000_123,
    usage=Usage.of(15, 8, cache_read=10, reasoning=3),
    stop_reason="toolUse",
    stop_detail="completed",
)


def test_the_vendor_s_type_accepts_our_answers() -> None:
    """
    A message from anywhere is a valid response object, and is read back as it was. Its time is in whole seconds, which
    packages that are stricter than the one for Python expect.
    """
    body = wire.encode_response(FOREIGN).body
    Response.model_validate(body)
    assert type(body["created_at"]) is int
    again = wire.decode_response(json.loads(json.dumps(body)))
    assert (FOREIGN.content, FOREIGN.usage, 1_700_000_000_000) == (again.content, again.usage, again.timestamp)


# --- streams ---------------------------------------------------------------------------------------------------------


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(write_sse(json.dumps(event).encode(), event["type"]) for event in events)


def decode_stream(body: bytes, **given: Any) -> list[StreamEvent]:
    framing, decoder = wire.framing(), wire.StreamDecoder(**given)
    events = [event for frame in framing.feed(body) for event in decoder.feed(frame)]
    return events + [event for frame in framing.close() for event in decoder.feed(frame)] + decoder.close()


def created(**more: Any) -> dict[str, Any]:
    return {"type": "response.created", "response": answered(status="in_progress", usage=None, **more)}


def added(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def finished(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def text_delta(index: int, delta: str, place: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": index, "content_index": place, "delta": delta, **more}


def arguments_delta(index: int, delta: str, **more: Any) -> dict[str, Any]:
    return {"type": "response.function_call_arguments.delta", "output_index": index, "delta": delta, **more}


def completed(*output: Any, **more: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": answered(*output, **more)}


EMPTY = {**TEXTS, "content": [], "status": "in_progress"}
OPENED = {**CALL, "arguments": "", "status": "in_progress"}
FINISHED = {**CALL, "status": "completed"}
PART = {"type": "response.content_part.added", "output_index": 0, "content_index": 0, "item_id": "msg_a",
        "part": {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}}  # fmt: skip
USUAL = (
    created(),
    {"type": "response.in_progress", "response": answered(status="in_progress", usage=None)},
    added(0, EMPTY),
    PART,
    text_delta(0, "Tw", item_id="msg_a", logprobs=[], obfuscation="x7Gq"),
    text_delta(0, "o.", item_id="msg_a", logprobs=[], obfuscation="p"),
    {"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": "Two.", "logprobs": []},
    {"type": "response.content_part.done", "output_index": 0, "content_index": 0, "part": TEXTS["content"][0]},
    finished(0, TEXTS),
    completed(TEXTS),
)


def test_a_stream_is_the_whole_answer() -> None:
    """
    Padding is ignored (52), nothing is numbered (57), and the message is that of the unstreamed answer.
    """
    events = decode_stream(sse(*USUAL))
    assert wire.decode_response(answered(TEXTS)) == fold(events)
    assert [event.delta for event in events if isinstance(event, TextDelta)] == ["Tw", "o."]


def test_framing_may_be_odd_4_5() -> None:
    """
    The name of an event may follow its data, be missing or wrong; `[DONE]` means nothing.
    """
    plain = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in USUAL)
    turned = b"".join(
        b"data: " + json.dumps(event).encode() + b"\nevent: " + event["type"].encode() + b"\n\n" for event in USUAL
    )
    expected = decode_stream(sse(*USUAL))
    for body in (plain, turned, plain + b"data: [DONE]\n\n", b"data: [DONE] \n\n" + plain, b": ping\n\n" + plain):
        assert expected == decode_stream(body)


WHOLE = wire.decode_response(answered(FINISHED)).content
SAME_CALL: dict[str, list[dict[str, Any]]] = {
    "only the end of the arguments 42": [
        added(0, OPENED),
        {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": CALL["arguments"]},
        finished(0, FINISHED),
        completed(FINISHED),
    ],
    "no output in the terminal event 43": [
        added(0, OPENED),
        arguments_delta(0, '{"a":'),
        arguments_delta(0, "1}"),
        finished(0, FINISHED),
        {"type": "response.completed", "response": {k: v for k, v in answered().items() if k != "output"}},
    ],
    "an empty output in the terminal event 43": [added(0, OPENED), finished(0, FINISHED), completed()],
    "only the finished item 44": [finished(0, FINISHED), completed(FINISHED)],
    "no item announced 45": [arguments_delta(0, '{"a":1}', item_id="fc_1"), finished(0, FINISHED), completed(FINISHED)],
    "only the terminal event 51": [completed(FINISHED)],
    "no finished item": [added(0, OPENED), arguments_delta(0, '{"a"'), completed(FINISHED)],
    "no index": [
        {"type": "response.output_item.added", "item": OPENED},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": '{"a":1}'},
        {"type": "response.output_item.done", "item": FINISHED},
        completed(FINISHED),
    ],
    "ids that change on the way": [
        added(0, {**OPENED, "id": "x"}),
        arguments_delta(0, '{"a":1}', item_id="y"),
        finished(0, FINISHED),
        completed({**FINISHED, "id": "z"}),
    ],
    "everything twice": [
        event
        for event in (added(0, OPENED), finished(0, FINISHED), arguments_delta(0, "late", item_id="fc_1"))
        for _ in range(2)
    ]
    + [completed(FINISHED)],
    "the word of the Codex backend": [
        finished(0, FINISHED),
        {"type": "response.done", "response": {"status": "completed"}},
    ],
}


@pytest.mark.parametrize("name", SAME_CALL)
def test_a_call_is_the_same_however_it_is_streamed(name: str) -> None:
    """
    Finished items are authoritative, the terminal event fills gaps, and deltas amount to the whole.
    """
    events = decode_stream(sse(created(), *SAME_CALL[name]))
    assert fold(events).content == WHOLE
    assert (fold(events).stop_reason, fold(events).stop_detail) == ("toolUse", "completed")
    assert CALL["arguments"] == "".join(event.delta for event in events if isinstance(event, ToolCallDelta))
    assert [sum(isinstance(e, kind) for e in events) for kind in (Start, ToolCallStart, ToolCallEnd)] == [1, 1, 1]


def test_items_may_overlap_and_each_delta_finds_its_own() -> None:
    """
    Two calls stream at once; nothing assumes that the last block is meant.
    """
    other = {**FINISHED, "id": "fc_2", "call_id": "call_2", "arguments": '{"b":2}'}
    events = decode_stream(
        sse(
            created(),
            added(0, OPENED),
            added(1, {**other, "arguments": ""}),
            arguments_delta(1, '{"b":'),
            arguments_delta(0, '{"a":'),
            arguments_delta(1, "2}"),
            arguments_delta(0, "1}"),
            finished(1, other),
            finished(0, FINISHED),
            completed(FINISHED, other),
        )
    )
    assert wire.decode_response(answered(FINISHED, other)) == fold(events)


def test_items_at_one_index_are_distinguished_by_their_ids() -> None:
    """
    A proxy that numbers every item 0 does not glue them together.
    """
    other = {**FINISHED, "id": "fc_2", "call_id": "call_2", "arguments": '{"b":2}'}
    events = decode_stream(
        sse(
            created(),
            added(0, OPENED),
            arguments_delta(0, '{"a":1}', item_id="fc_1"),
            added(0, {**other, "arguments": ""}),
            arguments_delta(0, '{"b":2}', item_id="fc_2"),
            finished(0, FINISHED),
            finished(0, other),
            completed(),
        )
    )
    assert [call.id for call in fold(events).tool_calls] == ["call_1", "call_2"]
    assert [call.arguments for call in fold(events).tool_calls] == [{"a": 1}, {"b": 2}]


def test_server_items_are_each_kept_57() -> None:
    """
    What the provider ran is a block per item, merged by its place and never overwritten by the next.
    """
    searches = [
        {"type": "web_search_call", "id": f"ws_{n}", "status": "completed", "action": {"query": str(n)}}
        for n in range(3)
    ]
    frames = [event for at, item in enumerate(searches) for event in (added(at, {**item, "action": None}),
            {"type": "response.web_search_call.searching", "output_index": at}, finished(at, item))]  # fmt: skip
    events = decode_stream(sse(created(), *frames, completed(*searches[:1])))
    assert wire.decode_response(answered(*searches)).content == fold(events).content
    assert [block.arguments for block in fold(events).content] == [{"query": "0"}, {"query": "1"}, {"query": "2"}]


def summary(kind: str, index: int, **more: Any) -> dict[str, Any]:
    return {"type": f"response.reasoning_summary_{kind}", "output_index": 0, "summary_index": index, **more}


def reasoned(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"response.reasoning_text.{kind}", "output_index": 0, "content_index": 0, **more}


SHOWN = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
THOUGHTS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "a summary in parts": (
        REASONING,
        [
            added(0, {**REASONING, "summary": []}),
            summary("part.added", 0, part={"type": "summary_text", "text": ""}),
            summary("text.delta", 0, delta="Fir"),
            summary("text.delta", 0, delta="st."),
            summary("part.done", 0, part={"type": "summary_text", "text": "First."}),
            summary("part.added", 1, part={"type": "summary_text", "text": ""}),
            summary("text.delta", 1, delta="Then."),
        ],
    ),
    "a summary told only when it is done": (
        REASONING,
        [summary("text.done", 0, text="First."), summary("text.done", 1, text="Then.")],
    ),
    "the reasoning itself 58": (
        SHOWN,
        [added(0, {**SHOWN, "content": []}), reasoned("delta", delta="H"), reasoned("delta", delta="m.")],
    ),
    "an item of nothing": ({"type": "reasoning", "id": "rs_1", "summary": []}, []),
}


@pytest.mark.parametrize("name", THOUGHTS)
def test_reasoning_streams_part_by_part(name: str) -> None:
    """
    Parts are apart by a blank line; the deltas amount to the block.
    """
    item, frames = THOUGHTS[name]
    events = decode_stream(sse(created(), *frames, finished(0, item), completed(item)))
    message = fold(events)
    assert wire.decode_response(answered(item)) == message
    assert message.thinking == "".join(event.delta for event in events if isinstance(event, ThinkingDelta))


@pytest.mark.parametrize("name", ["a summary in parts", "the reasoning itself 58"])
def test_streamed_reasoning_survives_an_item_that_leaves_it_out(name: str) -> None:
    """
    What came in deltas is not lost to a finished item without it.
    """
    item, frames = THOUGHTS[name]
    bare = {**item, "summary": [], "content": []}
    assert (
        wire.decode_response(answered(item)).thinking
        == fold(decode_stream(sse(created(), *frames, finished(0, bare), completed(bare)))).thinking
    )


THOUGHT = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "I think"}],
}
ANSWER = {**TEXTS, "content": [{"type": "output_text", "text": "Hello there", "annotations": []}]}


@pytest.mark.parametrize("ids", [("rs_1", "msg_a"), ("msg_a", "msg_a"), ("rs_1", "msg_b")])
@pytest.mark.parametrize("places", [(0, 0), (0, 1), (1, 0)])
@pytest.mark.parametrize("item_id", ["msg_a", "msg_b"])
@pytest.mark.parametrize("parts", ["response.reasoning_part", "response.content_part", None])
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("listed", [False, True])
def test_reasoning_inside_an_item_announced_as_a_message_is_read_once(
    ids: tuple[str, str], places: tuple[int, int], item_id: str, parts: str | None, done: bool, listed: bool
) -> None:
    """
    Bedrock's service (gpt-oss) announces a message and streams reasoning under its id; nothing comes out twice.
    """
    reasoning, message = {**THOUGHT, "id": ids[0]}, {**ANSWER, "id": ids[1]}
    about = {"item_id": "msg_a", "output_index": places[0], "content_index": 0}
    part = {"type": "reasoning_text", "text": ""}
    thoughts = [{"type": "response.reasoning_text.delta", **about, "delta": delta} for delta in ("I ", "think")]
    events = [
        created(),
        added(0, {**EMPTY, "id": "msg_a"}),
        *([{"type": f"{parts}.added", **about, "part": part}] if parts else []),
        *thoughts,
        {"type": "response.reasoning_text.done", **about, "text": "I think"},
        *([{"type": f"{parts}.done", **about, "part": {**part, "text": "I think"}}] if parts else []),
        *([finished(places[0], reasoning)] if done else []),
        *(text_delta(places[1], delta, item_id=item_id) for delta in ("Hello ", "there")),
        *([finished(places[1], message)] if done else []),
        completed(*([reasoning, message] if listed else [])),
    ]
    streamed = decode_stream(sse(*events))
    assert faults(streamed) == []
    read = fold(streamed)
    assert [ThinkingBlock, TextBlock] == [type(block) for block in read.content or ()]
    assert ("I think", "Hello there") == (read.thinking, read.text)
    assert ["I ", "think"] == [event.delta for event in streamed if isinstance(event, ThinkingDelta)]
    assert ["Hello ", "there"] == [event.delta for event in streamed if isinstance(event, TextDelta)]


def test_refusals_stream() -> None:
    """
    The words of a refusal are text that is marked, and the end is an error.
    """
    item = {**TEXTS, "content": [{"type": "refusal", "refusal": "No."}]}
    delta = {"type": "response.refusal.delta", "output_index": 0, "content_index": 0, "delta": "No."}
    events = decode_stream(sse(created(), added(0, EMPTY), delta, finished(0, item), completed(item)))
    assert isinstance(events[-1], Error)
    assert wire.decode_response(answered(item)) == fold(events)


def test_a_custom_tool_s_text_streams_as_its_argument() -> None:
    """
    Deltas are the JSON of the argument, so that partial arguments can be read.
    """
    item = {"type": "custom_tool_call", "id": "ctc_1", "status": "completed", "call_id": "c", "name": "sh",
            "input": 'echo "ü"\n'}  # fmt: skip
    frames = [
        {"type": "response.custom_tool_call_input.delta", "output_index": 0, "delta": piece}
        for piece in ("echo ", '"ü"', "\n")
    ]
    events = decode_stream(sse(created(), added(0, {**item, "input": ""}), *frames, finished(0, item), completed(item)))
    assert wire.decode_response(answered(item)) == fold(events)
    assert {"input": item["input"]} == json.loads("".join(e.delta for e in events if isinstance(e, ToolCallDelta)))


def test_annotations_that_came_one_by_one_are_kept_when_the_stream_breaks() -> None:
    """
    A stream that is cut keeps words, citations and ids, and leaves no scratch behind.
    """
    note = {"type": "response.output_text.annotation.added", "output_index": 0, "content_index": 0,
            "annotation_index": 0, "annotation": CITED["annotations"][0]}  # fmt: skip
    message = fold(decode_stream(sse(created(), added(0, EMPTY), PART, text_delta(0, "See"), note)))
    (block,) = message.content
    assert isinstance(block, TextBlock)
    assert (block.text, block.citations[0].title, block.extra[API]["id"]) == ("See", "E", "msg_a")
    assert (message.stop_reason, message.stop_detail) == ("error", None)


@pytest.mark.parametrize(
    ("frames", "detail"),
    [
        ([{"type": "response.incomplete",
           "response": answered(FINISHED, status="incomplete", incomplete_details={"reason": "max_output_tokens"})}],
         "max_output_tokens"),
        ([{"type": "response.incomplete", "response": {"usage": USAGE}}], "incomplete"),
    ],
)  # fmt: skip
def test_incomplete_answers_are_cut_ones_with_usage_56(frames: list[dict[str, Any]], detail: str) -> None:
    """
    They are neither finished nor free, even when they hold calls.
    """
    events = decode_stream(sse(created(), added(0, OPENED), finished(0, FINISHED), *frames))
    message = fold(events)
    assert ("length", detail) == (message.stop_reason, message.stop_detail)
    assert Usage.of(15, 8, cache_read=10, cache_write=5, reasoning=3) == message.usage
    assert isinstance(events[-1], Done)


FAILURE = {"code": "server_error", "message": "It broke."}
ENDINGS: dict[str, list[dict[str, Any]]] = {
    "an error and a failed answer 55": [
        {"type": "error", **FAILURE, "param": None},
        {"type": "response.failed", "response": answered(status="failed", error=FAILURE, usage=None)},
    ],
    "an error alone": [{"type": "error", "error": FAILURE}],
    "a failed answer alone": [
        {"type": "response.failed", "response": answered(status="failed", error=FAILURE, usage=None)}
    ],
    "the Codex backend's failed answer": [
        {"type": "response.done", "response": {"status": "failed", "error": FAILURE}}
    ],
}


@pytest.mark.parametrize("name", ENDINGS)
def test_failures_end_in_one_error_event(name: str) -> None:
    """
    Never in `done`, however often the failure is told; what came is kept.
    """
    events = decode_stream(sse(created(), text_delta(0, "Tw"), *ENDINGS[name]))
    assert [Error] == [type(event) for event in events if isinstance(event, Done | Error)]
    message = fold(events)
    assert (message.stop_reason, message.stop_detail, message.error_message) == ("error", "failed", "It broke.")
    assert (message.text, message.response_id) == ("Tw", "resp_1")


def test_an_error_without_a_type_ends_the_stream() -> None:
    """
    A proxy's plain error body inside a stream is read as what it is.
    """
    (*_, last) = decode_stream(b'data: {"error": {"message": "Bad gateway"}}\n\n')
    assert isinstance(last, Error)
    assert last.error.error_message == "Bad gateway"


def test_the_terminal_event_ends_the_stream_though_the_body_stays_open() -> None:
    """
    No end of the body is waited for, and nothing after it is heard.
    """
    framing, decoder = wire.framing(), wire.StreamDecoder()
    events = [event for frame in framing.feed(sse(*USUAL)) for event in decoder.feed(frame)]
    assert isinstance(events[-1], Done)
    more = [event for frame in framing.feed(sse(*USUAL)) for event in decoder.feed(frame)]
    assert more + decoder.close() == []


def test_an_answer_without_its_end_is_an_error() -> None:
    """
    A stream that ends before the terminal event was cut off, even if all items were finished.
    """
    (*_, last) = decode_stream(sse(*USUAL[:-1]) + b"data: [DONE]\n\n")
    assert isinstance(last, Error)
    assert last.error.text == "Two."


def test_many_small_deltas_make_one_call_52() -> None:
    """
    Arguments that come a character at a time are put together once.
    """
    text = json.dumps({"text": "x" * 20_000})
    item = {**FINISHED, "arguments": text}
    events = decode_stream(sse(created(), added(0, OPENED), *(arguments_delta(0, c) for c in text), finished(0, item),
                       completed(item)))  # fmt: skip
    assert fold(events).tool_calls[0].arguments == {"text": "x" * 20_000}
    assert len(text) == sum(isinstance(event, ToolCallDelta) for event in events)


@pytest.mark.parametrize(
    "event",
    [
        [],
        {"type": "response.output_item.added", "output_index": [], "item": EMPTY},
        {"type": "response.output_text.delta", "output_index": 0, "delta": {"a": 1}},
        {"type": "response.completed", "response": {"output": [None, 1], "usage": 3, "error": [], "status": {}}},
        {"type": ["x"]},
    ],
)
def test_nonsense_in_a_stream_never_raises(event: Any) -> None:
    """
    Whatever a frame holds, the events end well.
    """
    events = decode_stream(sse(created(), added(0, EMPTY), PART) + b"data: " + json.dumps(event).encode() + b"\n\n")
    assert isinstance(events[0], Start)
    assert [isinstance(event, Done | Error) for event in events[-1:]] == [True]


# --- our own streams -------------------------------------------------------------------------------------------------


def streamed(message: AssistantMessage, size: int | None = None, request: Request | None = None) -> bytes:
    encoder = wire.StreamEncoder(request=request)
    return b"".join([*map(encoder.feed, unfold(message, size=size)), encoder.close()])


def events_in(body: bytes) -> Iterator[dict[str, Any]]:
    for frame in wire.framing().feed(body):
        event = json.loads(frame.data)
        assert event["type"] == frame.event
        yield event


STREAMED = {
    "from elsewhere": FOREIGN,
    "read from this wire": wire.decode_response(ANSWERS["a turn"]),
    "in parts": wire.decode_response(
        answered(
            {**TEXTS, "content": [*TEXTS["content"], {**CITED, "annotations": CITED["annotations"][:3]}]},
            {**REASONING, "content": []},
        )
    ),
    "with a part that is not known": wire.decode_response(answered(ITEMS["a message item in parts"][0], TEXTS)),
    "of reasoning that is shown": wire.decode_response(answered(SHOWN, TEXTS)),
    "of what the provider ran": wire.decode_response(answered(*ITEMS["items that others run"][:7], TEXTS)),
    "of a custom tool": wire.decode_response(answered(ITEMS["calls of every shape"][7])),
    "of nothing": AssistantMessage(content=(), stop_reason="stop", stop_detail="completed"),
    "cut short": wire.decode_response(
        answered(TEXTS, status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    ),
    "failed": wire.decode_response(answered(TEXTS, status="failed", error=FAILURE, usage=None)),
    "refused": wire.decode_response(ANSWERS["a refusal"]),
    "aborted": AssistantMessage(content=(TextBlock(text="a"),), stop_reason="aborted", error_message="stopped"),
}


UNREADABLE = ("failed", "aborted", "with a part that is not known")  # where the vendor's client raises or warns


@pytest.mark.parametrize("size", [None, 1, 3])
@pytest.mark.parametrize("name", STREAMED)
def test_a_message_streams_as_it_is_encoded_whole(name: str, size: int | None) -> None:
    """
    The stream that we write is read as the whole answer that we write.
    """
    whole = wire.decode_response(json.loads(wire.encode_response(STREAMED[name]).bytes()))
    assert whole == fold(decode_stream(streamed(STREAMED[name], size)))


@pytest.mark.parametrize("name", STREAMED)
def test_the_sequence_of_events_is_the_official_one(name: str) -> None:
    """
    Numbered from 0, created first; every done has its added with the same id, at its place (44).
    """
    events = list(events_in(streamed(STREAMED[name], 3)))
    assert list(range(len(events))) == [event["sequence_number"] for event in events]
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    open_items: dict[int, Any] = {}
    for event in events:
        if event["type"] == "response.output_item.added":
            assert event["output_index"] == len(open_items)
            open_items[event["output_index"]] = event["item"].get("id")
        elif "item_id" in event:
            assert event["item_id"] == open_items[event["output_index"]]
        elif event["type"] == "response.output_item.done":
            assert event["item"].get("id") == open_items[event["output_index"]]
    last = events[-1]["response"]
    assert [item.get("id") for item in last["output"]] == list(open_items.values())
    assert events[0]["response"]["id"] == last["id"]
    assert f"response.{last['status']}".replace("cancelled", "failed") == events[-1]["type"]


@pytest.mark.parametrize("name", [name for name in STREAMED if name not in UNREADABLE])
def test_the_vendor_s_client_reads_our_streams(name: str) -> None:
    """
    The official client accepts every event and finds the same words, refusals, calls and status.
    """
    message = STREAMED[name]
    final = None
    with client(streamed(message, 3)).responses.stream(model="m", input="?") as stream:
        for event in stream:
            if event.type in ("response.completed", "response.incomplete"):
                final = event.response
    assert final is not None
    assert message.text == "".join(
        getattr(part, "text", None) or getattr(part, "refusal", "")
        for item in final.output if item.type == "message" for part in item.content
        if part.type in ("output_text", "refusal")
    )  # fmt: skip
    calls = [(item.call_id, item.name, json.loads(item.arguments)) for item in final.output
             if item.type == "function_call"]  # fmt: skip
    custom = wire.API in (message.tool_calls[0].extra if message.tool_calls else {}) and not calls
    assert custom or [(call.id, call.name, call.arguments) for call in message.tool_calls] == calls
    assert message.stop_detail in (final.status, final.incomplete_details and final.incomplete_details.reason)


def client(body: bytes) -> openai.OpenAI:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    return openai.OpenAI(api_key="none", base_url="http://sdk.test", max_retries=0, http_client=http)


def test_an_answer_repeats_the_settings_of_its_request() -> None:
    """
    A gateway's client sees in the response what it asked for.
    """
    request = wire.decode_request({"input": "hi", "instructions": "Be brief.", "temperature": 0.5, "store": False})
    (*_, last) = events_in(streamed(FOREIGN, request=request))
    settings = {key: last["response"][key] for key in ("instructions", "temperature", "store")}
    assert settings == {"instructions": "Be brief.", "temperature": 0.5, "store": False}


def test_a_stream_that_breaks_off_says_so() -> None:
    """
    An encoder that is closed early ends in a failed response; closing again says nothing.
    """
    encoder = wire.StreamEncoder()
    events = list(unfold(FOREIGN))
    body = b"".join([*map(encoder.feed, events[:6]), encoder.close()])
    assert isinstance(decode_stream(body)[-1], Error)
    assert (fold(decode_stream(body)).thinking, fold(decode_stream(body)).text) == ("Add.", "Let me see 🙂.")
    assert b"" == encoder.close() == encoder.feed(events[-1])


def test_a_message_that_was_never_taken_apart_is_streamed_whole() -> None:
    """
    A provider that does not stream still gives a client that asked for a stream one.
    """
    encoder = wire.StreamEncoder()
    body = encoder.feed(Done("toolUse", FOREIGN)) + encoder.close()
    assert wire.decode_response(wire.encode_response(FOREIGN).body) == fold(decode_stream(body))


# --- errors, paths, variants -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (401, {"error": {"message": "Bad key.", "type": "invalid_request_error", "code": "invalid_api_key"}},
         AuthFailed, "Bad key."),
        (429, {"error": {"message": "Slow.", "code": "rate_limit_exceeded"}}, RateLimited, "Slow."),
        (400, {"error": {"message": "No such model.", "type": "invalid_request_error", "code": None}}, BadRequest,
         "No such model."),
        (400, {"error": {"message": "Too long.", "code": "context_length_exceeded"}}, ContextTooLong, "Too long."),
        (400, {"detail": "Instructions are required"}, BadRequest, "Instructions are required"),
        (500, "oops", ProviderError, "oops"),
        (0, {"type": "error", "code": "insufficient_quota", "message": "Pay."}, RateLimited, "Pay."),
    ],
)  # fmt: skip
def test_errors_are_typed(status: int, body: Any, kind: type[ProviderError], message: str) -> None:
    """
    The provider's words and code are kept.
    """
    error = wire.decode_error(status, body)
    assert (kind, message, status) == (type(error), error.message, error.status)


def test_an_error_is_encoded_as_this_wire_says_it() -> None:
    """
    And is read back as the same kind.
    """
    status, body = wire.encode_error(RateLimited("Slow.", code="rate_limit_exceeded"))
    assert (status, body["error"]["message"], body["error"]["code"]) == (429, "Slow.", "rate_limit_exceeded")
    assert isinstance(wire.decode_error(status, body), RateLimited)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("openai-responses", "/responses"),
        ("azure-openai-responses", "/responses?api-version=v1"),
        ("openai-codex-responses", "/codex/responses"),
    ],
)
def test_variants_say_the_same_elsewhere(name: str, path: str) -> None:
    """
    Bodies are the same; the path and the api of answers are those of the variant.
    """
    variant = dialect(name)
    body = {"model": "m", "input": [{"role": "user", "content": "hi"}, CALL]}
    request = variant.decode_request(body)
    assert path == variant.path("m", True)
    assert name == request.model.api == request.context.messages[1].api == variant.decode_response(answered()).api
    assert body == variant.encode_request(request).body
    assert list(variant.encode_request(request).losses) == []


def test_a_failed_response_keeps_the_time_of_its_start() -> None:
    """It is the same response as in the first event."""
    encoder = wire.StreamEncoder()
    begun = Start(AssistantMessage(content=(), response_id="resp_1", timestamp=1_700_000_000_123))
    encoded = encoder.feed(begun) + encoder.fail(RateLimited("slow down"))
    responses = [json.loads(frame.data)["response"] for frame in wire.framing().feed(encoded)]
    assert [("resp_1", 1_700_000_000)] * 3 == [(one["id"], one["created_at"]) for one in responses]


# --- messages of a WebSocket -----------------------------------------------------------------------------------------


def test_a_request_on_a_websocket_is_a_message_among_others() -> None:
    """It names itself; without that name, as over HTTP, it comes back without it."""
    wire = dialect("openai-responses-websocket")
    body = {"type": "response.create", "model": "gpt-5", "input": "Hi", "previous_response_id": "resp_1"}
    assert body == wire.encode_request(wire.decode_request(body)).body
    plain = {"model": "gpt-5", "input": "Hi"}
    assert plain == wire.encode_request(wire.decode_request(plain)).body
    made = il.convert(
        {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}, "openai-responses-websocket"
    ).body
    assert "response.create" == made["type"]
    found = il.detect(body)
    assert found is not None and "openai-responses-websocket" == found.dialect


def test_the_messages_of_an_answer_on_a_websocket_are_lines() -> None:
    """Written one a line, read as the same answer, and recognised as a recording."""
    wire = dialect("openai-responses-websocket")
    message = AssistantMessage(content=(TextBlock(text="Hello"),), model="m", stop_reason="stop")
    encoder = wire.StreamEncoder()
    lines = b"".join([*map(encoder.feed, unfold(message)), encoder.close()])
    first, *_, last = [json.loads(line) for line in lines.splitlines()]
    assert ("response.created", "response.completed") == (first["type"], last["type"])
    decoder, framing = wire.StreamDecoder(), wire.framing()
    events = [event for frame in framing.feed(lines) for event in decoder.feed(frame)]
    assert "Hello" == fold([*events, *decoder.close()]).text
    assert ["Hello"] == [getattr(one, "text", "") for one in il.decode(lines).messages]
