"""Ollama's chat API: wire and meaning side by side, and Ollama's own client as the judge of what we write."""

import base64
import contextlib
import json
from typing import Any

import httpx
import msgspec
import ollama
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlingua.dialects.ollama import codec as chat
from interlingua.values.canonical import dump, load
from interlingua.values.errors import BadRequest, BadWire, ContextTooLong, Overloaded, ProviderError, Unsupported
from interlingua.values.events import (
    Done,
    Error,
    StreamEvent,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from interlingua.values.folding import fold, unfold
from interlingua.values.losses import Encoded
from interlingua.values.messages import (
    AssistantMessage,
    AudioBlock,
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
    Conversation,
    ModelDescriptor,
    Options,
    OutputSchema,
    Reasoning,
    Request,
    ToolChoice,
    ToolSpec,
)
from strategies import wellformed_requests

API = chat.API
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
BIG = 2**64 + 1


def say(role: str, content: Any = "", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def called(name: str = "look", arguments: Any = None, **more: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": {} if arguments is None else arguments}, **more}


def asking(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "llama3", "messages": list(messages), **more}


def returned(body: Any) -> Any:
    """A request after a trip through our own JSON."""
    return chat.encode_request(load(dump(chat.decode_request(body)), Request)).body


def asked(*messages: Any, options: Options | None = None, **context: Any) -> Request:
    return Request(
        model=ModelDescriptor(id="llama3", api=API),
        context=Context(messages=messages, **context),
        options=options or Options(),
    )


def lost(encoded: Encoded) -> list[tuple[str, str]]:
    """The losses that matter: path and severity."""
    return [(loss.path, loss.severity) for loss in encoded.losses if loss.severity != "record"]


def replaced(value: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(value, **fields)


# --- requests --------------------------------------------------------------------------------------------------------

REQUESTS: dict[str, dict[str, Any]] = {
    "plain": asking(say("system", "Be kind."), say("user", "Hi"), say("assistant", "Hello")),
    "a system prompt that says more": asking({**say("system", "a"), "images": [], "x": 1}, say("system", "b")),
    "system messages with pictures or nothing": asking(say("system", "a", images=[PNG]), {"role": "system"}),
    "pictures": asking(say("user", "What is this?", images=[PNG, "/9j/4AAQ", "AAAA"]), say("user", images=[PNG, None])),
    "empty and missing": asking(
        say("user"), {"role": "user"}, say("user", None), say("user", "a", images=[], tool_calls=None, thinking="")
    ),
    "thinking": asking(
        say("assistant", "a", thinking="b"), say("assistant", thinking="b"), say("assistant", "a", thinking=1)
    ),
    "thinking under other names": asking(
        say("assistant", "a", reasoning="b", x=1), say("assistant", reasoning_content="b", thinking="", reasoning="c")
    ),
    "calls without ids": asking(
        say("assistant", tool_calls=[called("a", {"n": BIG}), called("b", x=1)]),
        say("tool", "1", tool_name="b"),
        say("tool", "2"),
        say("assistant", tool_calls=[called("a")]),
        say("tool", "3", name="a"),
        say("tool", "nobody asked"),
    ),
    "calls with ids and indexes": asking(
        say("assistant", "a", tool_calls=[{"id": "c1", "function": {"index": 0, "name": "a", "arguments": {"b": []}}}]),
        say("tool", "1", tool_name="a", tool_call_id="c1"),
        say("tool", "2", tool_call_id="c1", images=[PNG]),
    ),
    "calls in OpenAI's shape": asking(
        say(
            "assistant",
            None,
            tool_calls=[
                {"id": "c1", "type": "function", "function": {"name": "a", "arguments": '{ "b": 1 }'}},
                {"id": "c2", "type": "function", "function": {"name": "a", "arguments": '{"b":1}'}},
                {"id": "", "type": "function", "function": {"name": "a", "arguments": ""}},
                {"id": "c4", "type": "function", "function": {"name": "a", "arguments": '{"b":'}},
            ],
        ),
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
    ),
    "calls that are none": asking(
        say(
            "assistant",
            tool_calls=[1, {}, {"function": {"name": 5}}, called(arguments=[1]), {"function": {"name": "a"}}],
        ),
        say("assistant", tool_calls=[]),
    ),
    "options": asking(
        stream=False,
        think=False,
        format="json",
        keep_alive=None,
        logprobs=True,
        top_logprobs=2,
        options={
            "temperature": 0,
            "top_p": 0.5,
            "top_k": 4,
            "seed": 1,
            "stop": ["a"],
            "num_predict": 5,
            "num_ctx": 8192,
            "think": True,
        },
    ),
    "odd options": asking(
        options={"num_predict": -1, "stop": "a", "seed": 1.5}, think="high", format={"type": "object"}
    ),
    "options not known": asking(options={}, think="", format="", stream="yes", tools=None, keep_alive="5m", x={"y": 1}),
    "tools": asking(
        tools=[
            {
                "type": "function",
                "function": {"name": "a", "description": "d", "parameters": {"type": "object"}, "x": 1},
            },
            {"function": {"name": "b", "strict": True}, "y": 2},
            {"type": "web_search"},
            {"type": "function"},
        ]
    ),
    "other roles": asking({"role": "control", "content": "thinking"}),
    "nothing": {},
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_comes_back_as_it_was(name: str) -> None:
    """
    Whatever a request says, known or not, is said again after a trip through our own JSON.
    """
    assert REQUESTS[name] == returned(REQUESTS[name])


READ: dict[str, tuple[list[dict[str, Any]], tuple[Any, ...]]] = {
    "words are a string": ([say("user", "Hi")], (UserMessage(content="Hi"),)),
    "words with a picture are blocks": (
        [say("user", "Hi", images=[PNG])],
        (UserMessage(content=(TextBlock(text="Hi"), ImageBlock(data=PNG, mime_type="image/png"))),),
    ),
    "an answer with everything": (
        [say("assistant", "a", thinking="t", tool_calls=[called("look", {"n": BIG}, id="c1")])],
        (
            AssistantMessage(
                content=(
                    ThinkingBlock(thinking="t"),
                    TextBlock(text="a"),
                    ToolCall(id="c1", name="look", arguments={"n": BIG}),
                ),
                api=API,
            ),
        ),
    ),
    "a result": (
        [say("tool", "r", tool_name="look", tool_call_id="c1")],
        (ToolResultMessage(tool_call_id="c1", tool_name="look", content="r", is_error=False),),
    ),
    "a later system message": (
        [say("user", "a"), say("system", "b")],
        (UserMessage(content="a"), SystemMessage(content="b")),
    ),
}


@pytest.mark.parametrize("name", READ)
def test_messages_mean(name: str) -> None:
    """
    Wire and meaning side by side, in both directions.
    """
    wire, expected = READ[name]
    assert expected == chat.decode_request(asking(*wire)).context.messages
    assert wire == chat.encode_request(asked(*expected)).body["messages"]


def test_the_first_system_message_is_the_system_prompt() -> None:
    """
    It leaves the messages, and comes back at their head.
    """
    read = chat.decode_request(REQUESTS["plain"])
    assert read.context.system == "Be kind."
    assert len(read.context.messages) == 2
    later = chat.encode_request(asked(SystemMessage(content="a"), system=(TextBlock(text="b"),))).body["messages"]
    assert [say("system", "b"), say("system", "a")] == later


def test_pictures_show_their_type() -> None:
    """
    Bare base64 has no type; the usual ones are seen in the first bytes, and never said.
    """
    webp = base64.b64encode(b"RIFF\x00\x00\x00\x00WEBPVP8 ").decode()
    kinds = {
        PNG: "image/png",
        "/9j/4AAQ": "image/jpeg",
        "R0lGODlh": "image/gif",
        "Qk0=": "image/bmp",
        webp: "image/webp",
        "AAAA": None,
        "not base64!": None,
        "": None,
    }
    (message,) = chat.decode_request(asking(say("user", "", images=list(kinds)))).context.messages
    assert list(kinds.values()) == [block.mime_type for block in message.content]  # type: ignore[union-attr]


def test_calls_without_ids_are_given_one_and_paired_by_occurrence_22() -> None:
    """
    Hard case 22: every call has an id from the start; results find theirs by name, else in order, within the turn.
    """
    read = chat.decode_request(REQUESTS["calls without ids"]).context.messages
    assert [call.id for message in (read[0], read[3]) for call in message.tool_calls] == ["call_0", "call_1", "call_2"]  # type: ignore[union-attr]
    results = [(m.tool_call_id, m.tool_name) for m in read if isinstance(m, ToolResultMessage)]
    assert results == [("call_1", "b"), ("call_0", "a"), ("call_2", "a"), ("call_3", None)]
    empty = chat.decode_request(asking(say("assistant", tool_calls=[called(id="")]))).context.messages[0]
    assert empty.tool_calls[0].id == "call_0"  # type: ignore[union-attr]


def test_generated_ids_are_the_callers_choice_and_stay_here() -> None:
    """
    A caller may mint ids of its own; they never reach the wire that had none, not even with a result made here.
    """
    wire = asking(say("assistant", tool_calls=[called("look")]))
    read = chat.decode_request(wire, mint=lambda n: f"mine_{n}")
    (answer,) = read.context.messages
    assert answer.tool_calls[0].id == "mine_0"  # type: ignore[union-attr]
    result = ToolResultMessage(tool_call_id="mine_0", tool_name="look", content="r", is_error=False)
    assert [*wire["messages"], say("tool", "r", tool_name="look")] == chat.encode_request(asked(answer, result)).body[
        "messages"
    ]


def test_an_id_is_not_generated_twice() -> None:
    """
    What the wire calls `call_0` itself is not given to another.
    """
    wire = asking(say("assistant", tool_calls=[called(id="call_0"), called()]))
    (answer,) = chat.decode_request(wire).context.messages
    assert [call.id for call in answer.tool_calls] == ["call_0", "call_1"]  # type: ignore[union-attr]


def test_calls_in_openais_shape_keep_their_text() -> None:
    """
    Arguments as text are read like OpenAI's: blank is none (hard case 35), and what is broken is never run.
    """
    (answer, _) = chat.decode_request(REQUESTS["calls in OpenAI's shape"]).context.messages
    calls = answer.tool_calls  # type: ignore[union-attr]
    assert [call.arguments for call in calls] == [{"b": 1}, {"b": 1}, {}, {}]
    assert [call.parse_error is not None for call in calls] == [False, False, False, True]
    changed = replaced(calls[0], arguments={"c": 2})
    encoded = chat.encode_request(asked(replaced(answer, content=(changed,)))).body["messages"][0]["tool_calls"][0]
    assert encoded == {"id": "c1", "type": "function", "function": {"name": "a", "arguments": '{"c":2}'}}


def test_integers_of_any_size_survive_36() -> None:
    """
    Hard case 36: numbers beyond 2^53 stay numbers with every digit, in requests and streams.
    """
    body = json.dumps(REQUESTS["calls without ids"]).encode()
    assert json.loads(body) == json.loads(chat.encode_request(chat.decode_request(body)).bytes())
    call = called("look", {"n": BIG})
    message = fold(decode_stream(lines(chunk(tool_calls=[call]), LAST)))
    assert message.tool_calls[0].arguments == {"n": BIG}


OPTIONS: list[tuple[Options, dict[str, Any]]] = [
    (
        Options(max_tokens=5, temperature=0.5, top_p=1, top_k=2, seed=3, stop=("a",)),
        {"options": {"temperature": 0.5, "top_p": 1, "top_k": 2, "seed": 3, "num_predict": 5, "stop": ["a"]}},
    ),
    (Options(stream=True), {"stream": True}),
    (Options(reasoning=Reasoning(enabled=False)), {"think": False}),
    (Options(reasoning=Reasoning(effort="low")), {"think": "low"}),
    (Options(output_schema=OutputSchema()), {"format": "json"}),
    (Options(output_schema=OutputSchema(schema={"type": "object"})), {"format": {"type": "object"}}),
]


@pytest.mark.parametrize(("options", "wire"), OPTIONS)
def test_options_are_encoded_and_read(options: Options, wire: dict[str, Any]) -> None:
    """
    Each option has one place in the wire, in both directions.
    """
    encoded = chat.encode_request(asked(options=options))
    assert asking(**wire) == encoded.body
    assert list(encoded.losses) == []
    assert options == chat.decode_request(encoded.body).options


LOSSES: list[tuple[Request, list[tuple[str, str]]]] = [
    (asked(UserMessage(content=(TextBlock(text="one block is a string"),))), []),
    (asked(UserMessage(content=(TextBlock(text="a"), TextBlock(text="b")))), [("$.messages[0].content", "weakened")]),
    (
        asked(UserMessage(content=(ImageBlock(data=PNG, mime_type="image/png"), TextBlock(text="a")))),
        [("$.messages[0].content", "weakened")],
    ),
    (asked(UserMessage(content=(ImageBlock(url="https://a.example"),))), [("$.messages[0].content[0]", "dropped")]),
    (
        asked(
            UserMessage(content=(DocumentBlock(text="a"), AudioBlock(data="AAAA"), OpaqueBlock(dialect="o", value=1)))
        ),
        [(f"$.messages[0].content[{at}]", "dropped") for at in range(3)],
    ),
    (
        asked(AssistantMessage(content=(ThinkingBlock(thinking="", thinking_signature="s", redacted=True),))),
        [("$.messages[0].content[0]", "dropped"), ("$.messages[0].content[0].thinkingSignature", "dropped")],
    ),
    (
        asked(ToolResultMessage(tool_call_id="1", content="No.", is_error=True)),
        [("$.messages[0].isError", "weakened")],
    ),
    (asked(options=Options(reasoning=Reasoning(budget=5))), [("$.options.reasoning", "weakened")]),
    (asked(options=Options(tool_choice=ToolChoice(mode="required"))), [("$.options.toolChoice", "dropped")]),
    (asked(tools=(ToolSpec(name="x", strict=True),)), [("$.tools[0].strict", "dropped")]),
    (asked(system=(TextBlock(text="a"), TextBlock(text="b"))), [("$.system", "weakened")]),
]


@pytest.mark.parametrize(("request_", "expected"), LOSSES)
def test_what_cannot_be_encoded_is_reported(request_: Request, expected: list[tuple[str, str]]) -> None:
    """
    Whatever this wire has no word for is reported with its place; strict mode refuses.
    """
    assert expected == lost(chat.encode_request(request_))
    if expected:
        with pytest.raises(Unsupported):
            chat.encode_request(request_, strict=True)


def test_bad_requests_name_their_place() -> None:
    """
    What is no request is a BadWire with the path of what is wrong.
    """
    for body, path in (
        (b"[]", "$"),
        (b"{", "$"),
        ({"messages": {}}, "$.messages"),
        (asking({"content": ""}), "$.messages[0].role"),
        (asking(say("user", [{"type": "text", "text": "a"}])), "$.messages[0].content"),
        ({"tools": ["a"]}, "$.tools[0]"),
    ):
        with pytest.raises(BadWire) as refused:
            chat.decode_request(body)
        assert path == refused.value.path


def test_a_bare_list_of_messages_is_a_conversation() -> None:
    """
    Programs pass histories around without the request; they come back as the list they were.
    """
    history = REQUESTS["a system prompt that says more"]["messages"]
    read = chat.decode(history)
    assert read.system == "a"
    assert history == chat.encode(load(dump(read), Conversation)).body


# --- answers ---------------------------------------------------------------------------------------------------------


def answered(content: Any = "", *, why: Any = "stop", **message: Any) -> dict[str, Any]:
    return {
        "model": "llama3",
        "created_at": "2025-01-29T23:37:41.068257Z",
        "message": say("assistant", content, **message),
        "done": True,
        "done_reason": why,
        "total_duration": 8210142000,
        "prompt_eval_count": 4,
        "eval_count": 3,
    }


ANSWERS: dict[str, dict[str, Any]] = {
    "text": answered("Hi"),
    "nothing": answered(),
    "everything": answered(
        "Hi",
        thinking="hm",
        images=[PNG, 1],
        tool_calls=[called("a", {"n": BIG}), called("b", id="c1"), called("c", '{"d": 1}', id="c2"), {"new": 1}],
        x=1,
    ),
    "thinking under another name": answered("Hi", reasoning_content="hm"),
    "an old server": {"model": "llama3", "message": {"role": "assistant", "content": "Hi"}, "done": True},
    "one count": {**answered("Hi"), "prompt_eval_count": None},
    "unknown keys all over": {**answered("Hi", thinking="", y=[1]), "x": 1, "logprobs": [{"token": "Hi"}]},
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_comes_back_as_it_was(name: str) -> None:
    """
    Whole answers are said again exactly; and streamed, they amount to the same message.
    """
    message = chat.decode_response(json.dumps(ANSWERS[name]))
    assert ANSWERS[name] == chat.encode_response(load(dump(message), AssistantMessage)).body
    for size in (None, 1, 3):
        assert message == fold(decode_stream(streamed(message, size)))


@pytest.mark.parametrize(
    ("word", "message", "expected"),
    [
        ("stop", {"content": "a"}, "stop"),
        ("stop", {"content": "", "tool_calls": [called()]}, "toolUse"),
        ("length", {"content": "a", "tool_calls": [called()]}, "length"),
        ("load", {"content": ""}, "stop"),
        ("unload", {"content": ""}, "stop"),
        ("some new word", {"content": "a"}, "stop"),
        ("some new word", {"content": ""}, "error"),
        (None, {"content": "a"}, "stop"),
    ],
)
def test_why_an_answer_ended(word: str | None, message: dict[str, Any], expected: str) -> None:
    """
    Oddity 78: a call means toolUse although the wire says stop; the wire's word is kept beside ours.
    """
    read = chat.decode_response({**answered(why=word), "message": {"role": "assistant", **message}})
    assert (expected, word) == (read.stop_reason, read.stop_detail)
    assert word == chat.encode_response(read).body["done_reason"]


def test_counts_are_usage() -> None:
    """
    The wire counts all input and all output; what was cached elsewhere is input here, and absent counts are unknown.
    """
    assert chat.decode_response(answered()).usage == Usage.of(4, 3)
    assert chat.decode_response(ANSWERS["an old server"]).usage is None
    encoded = chat.encode_response(AssistantMessage(content=(), usage=Usage.of(1, 2, cache_read=3)))
    assert (encoded.body["prompt_eval_count"], encoded.body["eval_count"]) == (4, 2)
    assert ("$.usage", "record") in [(loss.path, loss.severity) for loss in encoded.losses]


def test_an_answer_that_is_not_done_was_cut_off() -> None:
    """
    A single chunk taken for a whole answer is not passed off as one.
    """
    assert chat.decode_response({**answered("Hi"), "done": False}).stop_reason == "error"


def test_an_answer_that_is_an_error_is_raised() -> None:
    """
    A body without a message is the server's error.
    """
    with pytest.raises(ProviderError, match="no such model"):
        chat.decode_response({"error": "no such model"})


# --- streams ---------------------------------------------------------------------------------------------------------


def chunk(content: Any = "", **message: Any) -> dict[str, Any]:
    return {
        "model": "llama3",
        "created_at": "2025-01-01T00:00:00Z",
        "message": say("assistant", content, **message),
        "done": False,
    }


LAST = answered()


def lines(*chunks: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in chunks)


def decode_stream(body: bytes, size: int | None = None, **given: Any) -> list[StreamEvent]:
    framing, decoder = chat.framing(), chat.StreamDecoder(**given)
    pieces = [body[at : at + size] for at in range(0, len(body), size)] if size else [body]
    read = [frame for piece in pieces for frame in framing.feed(piece)] + framing.close()
    return [event for frame in read for event in decoder.feed(frame)] + decoder.close()


def streamed(message: AssistantMessage, size: int | None = None) -> bytes:
    encoder = chat.StreamEncoder()
    return b"".join(map(encoder.feed, unfold(message, size=size))) + encoder.close()


STREAMS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "words": ([chunk("Hel"), chunk("lo"), LAST], answered("Hello")),
    "words in the last chunk": ([chunk("Hel"), answered("lo")], answered("Hello")),
    "thinking, then words (hard case 17)": (
        [chunk(thinking="h"), chunk(thinking="m"), chunk("Hi"), LAST],
        answered("Hi", thinking="hm"),
    ),
    "thinking under another name (hard case 17)": (
        [chunk(reasoning="h"), chunk(reasoning="m"), chunk("Hi"), LAST],
        answered("Hi", reasoning="hm"),
    ),
    "all in one chunk": (
        [chunk("Hi", thinking="hm", tool_calls=[called()]), LAST],
        answered("Hi", thinking="hm", tool_calls=[called()]),
    ),
    "calls before the end (hard case 41, oddities 78 and 79)": (
        [chunk(tool_calls=[called("a", {"n": 1})]), chunk(tool_calls=[called("b", id="c1"), {"odd": 1}]), LAST],
        answered(tool_calls=[called("a", {"n": 1}), called("b", id="c1"), {"odd": 1}]),
    ),
    "pictures": ([chunk(images=[PNG]), LAST], answered(images=[PNG])),
    "probabilities go on": (
        [{**chunk("a"), "logprobs": [1]}, {**chunk("b"), "logprobs": [2]}, LAST],
        {**answered("ab"), "logprobs": [1, 2]},
    ),
    "nothing": ([LAST], answered()),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_amounts_to_the_whole_answer(name: str) -> None:
    """
    Chunks put together are read as the whole answer is, however the bytes are cut.
    """
    chunks, whole = STREAMS[name]
    body = lines(*chunks)
    message = fold(decode_stream(body))
    assert chat.decode_response(whole) == message
    for size in (1, 7, 100):
        assert decode_stream(body) == decode_stream(body, size)
    assert message == fold(decode_stream(streamed(message)))


def test_events_are_live() -> None:
    """
    Each chunk is an event when it arrives; thinking ends where the words begin, and calls come whole.
    """
    call = ToolCall(id="mine_0", name="look", arguments={"a": 1}, extra={API: {"~minted": True}})
    events = decode_stream(
        lines(chunk(thinking="h"), chunk("Hel"), chunk("lo"), chunk(tool_calls=[called("look", {"a": 1})]), LAST),
        mint=lambda n: f"mine_{n}",
    )
    assert events[1:-1] == [
        ThinkingStart(0),
        ThinkingDelta(0, "h"),
        ThinkingEnd(0, "h"),
        TextStart(1),
        TextDelta(1, "Hel"),
        TextDelta(1, "lo"),
        TextEnd(1, "Hello"),
        ToolCallStart(2, replaced(call, arguments={})),
        ToolCallDelta(2, '{"a":1}'),
        ToolCallEnd(2, call),
    ]
    assert isinstance(events[-1], Done)
    assert events[-1].reason == "toolUse"


def test_words_after_a_call_keep_their_place() -> None:
    """
    The message has its blocks in the order of the stream.
    """
    message = fold(decode_stream(lines(chunk(tool_calls=[called()]), chunk("Done."), LAST)))
    assert [type(block) for block in message.content] == [ToolCall, TextBlock]  # type: ignore[union-attr]


def test_thinking_that_goes_on_after_the_words_is_a_block_of_its_own() -> None:
    """
    The blocks of a streamed answer stand in the order in which they came.
    """
    message = fold(decode_stream(lines(chunk(thinking="a"), chunk("b"), chunk(thinking="c"), LAST)))
    assert message.content == (ThinkingBlock(thinking="a"), TextBlock(text="b"), ThinkingBlock(thinking="c"))


@pytest.mark.parametrize(
    "body",
    [
        lines(chunk("Hi")),
        lines(chunk("Hi"), {"error": "it broke"}),
        lines(chunk("Hi"), chunk(5)),
        lines(chunk("Hi"), {**chunk(), "message": "text"}),
        lines(chunk("Hi"), [1]),
        lines(chunk("Hi")) + b"nonsense\n",
    ],
)
def test_a_stream_that_breaks_keeps_what_came(body: bytes) -> None:
    """
    Cut off, an error line, or nonsense: the stream ends in an error with the words so far.
    """
    *_, last = decode_stream(body)
    assert isinstance(last, Error)
    assert last.error.text == "Hi"
    assert last.error.error_message


def test_an_error_line_is_passed_on() -> None:
    """
    The server's words are the error, read and written.
    """
    *_, last = decode_stream(lines({"error": "it broke"}))
    assert isinstance(last, Error)
    assert last.error.error_message == "it broke"
    assert lines({"error": "it broke"}) == streamed(last.error).replace(b'":"', b'": "')


def test_a_stream_without_its_end_says_so() -> None:
    """
    When the events stop before the terminal one, clients see an error instead of silence.
    """
    encoder = chat.StreamEncoder()
    body = b"".join(encoder.feed(event) for event in list(unfold(AssistantMessage(content="Hi")))[:-1])
    assert isinstance(decode_stream(body + encoder.close())[-1], Error)
    assert encoder.close() == b""


# --- what Ollama's own client says -----------------------------------------------------------------------------------


def client(body: bytes, sent: list[Any] | None = None, status: int = 200) -> ollama.Client:
    """The vendor's client, answered here instead of by the network."""

    def answer(request: httpx.Request) -> httpx.Response:
        if sent is not None:
            sent.append((request.url.path, json.loads(request.content)))
        return httpx.Response(status, content=body, headers={"content-type": "application/x-ndjson"})

    return ollama.Client(host="http://ollama.example", transport=httpx.MockTransport(answer))


ANSWER = chat.encode_response(AssistantMessage(content=())).bytes()
RICH = asked(
    UserMessage(content=(TextBlock(text="What is this?"), ImageBlock(data=PNG, mime_type="image/png"))),
    AssistantMessage(
        content=(
            ThinkingBlock(thinking="hm"),
            TextBlock(text="Let me look."),
            ToolCall(id="c1", name="look", arguments={"deep": [1, {"a": None}]}, extra={API: {"~minted": True}}),
        )
    ),
    ToolResultMessage(tool_call_id="c1", tool_name="look", content="A dot.", is_error=False),
    AssistantMessage(content="A dot."),
    system="Be brief.",
    tools=(
        ToolSpec(
            name="look",
            description="Looks.",
            input_schema={"type": "object", "properties": {"deep": {"type": "array"}}, "required": ["deep"]},
        ),
    ),
    options=Options(
        max_tokens=5,
        temperature=0.5,
        stop=("a",),
        stream=False,
        reasoning=Reasoning(effort="low"),
        output_schema=OutputSchema(schema={"type": "object"}),
    ),
)


def test_the_client_sends_a_request_as_we_write_it() -> None:
    """
    Given our body as its arguments, the vendor's client puts the same body on the wire, at the same path.
    """
    body = json.loads(chat.encode_request(RICH).bytes())
    sent: list[Any] = []
    client(ANSWER, sent).chat(**body)
    assert sent == [(chat.path("llama3", False), body)]


@given(request=wellformed_requests(own=API))
def test_the_client_accepts_ordinary_conversations(request: Request) -> None:
    """
    Conversations as providers accept them fit the vendor's own types, and reach the wire with the same words.
    """
    body = json.loads(chat.encode_request(request).bytes())
    sent: list[Any] = []
    client(ANSWER, sent).chat(**{**body, "stream": False})
    ((_, encoded),) = sent
    texts = [(message["role"], message["content"]) for message in body["messages"]]
    assert texts == [(message["role"], message.get("content", "")) for message in encoded["messages"]]


def test_the_client_reads_our_streams() -> None:
    """
    The vendor's client, fed our bytes, finds the same words, thinking, calls, pictures, counts and end.
    """
    message = AssistantMessage(
        content=(
            ThinkingBlock(thinking="I think"),
            TextBlock(text="Hello you"),
            ToolCall(id="c1", name="look", arguments={"n": BIG}),
        ),
        model="llama3",
        stop_reason="toolUse",
        usage=Usage.of(4, 3),
        timestamp=1_740_000_000_000,
    )
    chunks = list(client(streamed(message, 3)).chat(model="llama3", messages=[], stream=True))
    assert "".join(part.message.thinking or "" for part in chunks) == "I think"
    assert "".join(part.message.content or "" for part in chunks) == "Hello you"
    (call,) = [call for part in chunks for call in part.message.tool_calls or ()]
    assert (call.function.name, call.function.arguments) == ("look", {"n": BIG})
    last = chunks[-1]
    assert (last.done, last.done_reason, last.prompt_eval_count, last.eval_count) == (True, "stop", 4, 3)
    assert {(part.model, part.created_at) for part in chunks} == {("llama3", "2025-02-19T21:20:00.000Z")}
    assert not any(part.done for part in chunks[:-1])


def test_the_client_reads_our_answers() -> None:
    """
    A whole answer of ours is one of the vendor's.
    """
    message = chat.decode_response(answered("Hi", thinking="hm", tool_calls=[called("look", {"a": 1})]))
    read = client(chat.encode_response(message).bytes()).chat(model="llama3", messages=[])
    assert (read.message.content, read.message.thinking, read.eval_count) == ("Hi", "hm", 3)


def test_the_client_raises_our_errors() -> None:
    """
    An error of ours, as a status or inside a stream, is an error to the vendor's client.
    """
    status, body = chat.encode_error(Overloaded("busy"))
    with pytest.raises(ollama.ResponseError, match="busy"):
        client(json.dumps(body).encode(), status=status).chat(model="llama3", messages=[])
    broken = AssistantMessage(content="Hi", stop_reason="error", error_message="it broke")
    with pytest.raises(ollama.ResponseError, match="it broke"):
        list(client(streamed(broken)).chat(model="llama3", messages=[], stream=True))


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (404, {"error": "model 'x' not found"}, BadRequest, "model 'x' not found"),
        (400, {"error": {"message": "input is too long"}}, ContextTooLong, "input is too long"),
        (422, {"detail": "no"}, BadRequest, "no"),
        (400, {"id": "1", "message": "no"}, BadRequest, "no"),
        (503, b"<html>", Overloaded, "<html>"),
        (500, b"", ProviderError, "HTTP 500"),
        (500, {"odd": 1}, ProviderError, '{"odd":1}'),
    ],
)
def test_errors_are_typed_80(status: int, body: Any, kind: type, message: str) -> None:
    """
    Oddity 80: the words of an error, wherever they stand.
    """
    error = chat.decode_error(status, body)
    assert (kind, status, message) == (type(error), error.status, error.message)


@given(st.binary(max_size=60))
def test_no_bytes_make_the_reader_raise_anything_else(body: bytes) -> None:
    """
    Anything but an answer is a BadWire or the server's error.
    """
    for read in (chat.decode_request, chat.decode_response):
        with contextlib.suppress(BadWire, ProviderError):
            read(body)
