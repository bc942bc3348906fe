"""Google's generateContent: wire and meaning side by side, and google-genai as the judge of what we write.

Numbers in names: `case` of the hard cases, `oddity` of recorded traffic.
"""

import base64
import json
from collections.abc import Iterable
from typing import Any

import httpx
import pytest
from google import genai
from google.genai import errors as genai_errors
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from interlingua.dialects import dialect
from interlingua.dialects import google as google
from interlingua.dialects.framing import SSE, Frame, JSONArray
from interlingua.values.canonical import dump, load
from interlingua.values.errors import (
    AuthFailed,
    BadRequest,
    BadWire,
    ContextTooLong,
    Overloaded,
    ProviderError,
    RateLimited,
    Unsupported,
)
from interlingua.values.events import (
    Done,
    Error,
    Start,
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
from interlingua.values.losses import Loss
from interlingua.values.messages import (
    AssistantMessage,
    AudioBlock,
    CacheMarker,
    Citation,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    blocks_of,
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
from strategies import messages_for_answers, mutated, wellformed_requests

API = google.API
VERTEX = dialect("google-vertex")
CLI = dialect("google-gemini-cli")
SIGNATURE = "c2lnbmF0dXJlIQ=="
SIGNED = "c2ln"


def hinted(**keys: Any) -> dict[str, Any]:
    return {API: {key.replace("_", "~", 1) if key.startswith("_") else key: value for key, value in keys.items()}}


def returned(body: Any, wire: Any = google) -> Any:
    """A request body after decoding, our JSON, and encoding."""
    return wire.encode_request(load(dump(wire.decode_request(body)), Request)).body


def answered(body: Any, wire: Any = google) -> Any:
    """An answer's body after decoding, our JSON, and encoding."""
    return wire.encode_response(load(dump(wire.decode_response(body)), AssistantMessage)).body


def asked(*messages: Any, **fields: Any) -> Request:
    options = fields.pop("options", Options())
    return Request(model=ModelDescriptor(id="gemini"), context=Context(messages=messages, **fields), options=options)


def contents_of(*messages: Any) -> Any:
    """The contents that our messages become."""
    return google.encode_request(asked(*messages)).body["contents"]


def losses(*messages: Any, **fields: Any) -> set[tuple[str, str]]:
    return {(loss.path, loss.severity) for loss in google.encode_request(asked(*messages, **fields)).losses}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def body(*parts: Any, reason: Any = "STOP", **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts), "role": "model"}, "finishReason": reason}], **more}


def chunk(*parts: Any, **candidate: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts), "role": "model"}, **candidate}]}


def sse(chunks: Iterable[Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(value).encode() + b"\r\n\r\n" for value in chunks)


def decode_stream(data: bytes, wire: Any = google, **given: Any) -> list[StreamEvent]:
    framing, decoder = wire.framing(), wire.StreamDecoder(**given)
    events = [event for frame in framing.feed(data) + framing.close() for event in decoder.feed(frame)]
    return events + decoder.close()


def folded(*chunks: Any, wire: Any = google, **given: Any) -> AssistantMessage:
    return fold(decode_stream(sse(chunks), wire, **given))


def streamed(message: AssistantMessage, wire: Any = google, size: int | None = None) -> bytes:
    encoder = wire.StreamEncoder()
    return b"".join(map(encoder.feed, unfold(message, size=size))) + encoder.close()


# --- parts -----------------------------------------------------------------------------------------------------------

PARTS = {
    "text": ({"text": "hi"}, TextBlock(text="hi")),
    "signed text": ({"text": "hi", "thoughtSignature": SIGNED}, TextBlock(text="hi", text_signature=SIGNED)),
    "empty text that carries a signature (oddity 65)": (
        {"text": "", "thoughtSignature": SIGNED},
        TextBlock(text="", text_signature=SIGNED),
    ),
    "signature alone": (
        {"thoughtSignature": SIGNED},
        TextBlock(text="", text_signature=SIGNED, extra=hinted(_={"text": {"said": ""}})),
    ),
    "thought": ({"text": "hm", "thought": True}, ThinkingBlock(thinking="hm")),
    "signed thought": (
        {"text": "hm", "thought": True, "thoughtSignature": SIGNED},
        ThinkingBlock(thinking="hm", thinking_signature=SIGNED),
    ),
    "no thought": ({"text": "hi", "thought": False}, TextBlock(text="hi", extra=hinted(thought=False))),
    "call": (
        {"functionCall": {"id": "c", "name": "f", "args": {"n": 2**64}}},
        ToolCall(id="c", name="f", arguments={"n": 2**64}),
    ),
    "signed call": (
        {"functionCall": {"id": "c", "name": "f", "args": {}}, "thoughtSignature": SIGNED},
        ToolCall(id="c", name="f", arguments={}, thought_signature=SIGNED),
    ),
    "call without id": (
        {"functionCall": {"name": "f", "args": {}}},
        ToolCall(id="call_0", name="f", arguments={}, extra=hinted(_minted=True)),
    ),
    "call without arguments": (
        {"functionCall": {"id": "c", "name": "f"}},
        ToolCall(
            id="c",
            name="f",
            arguments={},
            extra=hinted(_={"functionCall": {"in": {"~": {"args": {"said": {}}}}}}),
        ),
    ),
    "picture": (
        {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
        ImageBlock(data="AA==", mime_type="image/png"),
    ),
    "sound": (
        {"inlineData": {"mimeType": "audio/L16;rate=24000", "data": "AA=="}},
        AudioBlock(data="AA==", mime_type="audio/L16;rate=24000"),
    ),
    "file": (
        {"inlineData": {"mimeType": "application/pdf", "data": "AA=="}},
        DocumentBlock(data="AA==", mime_type="application/pdf"),
    ),
    "picture by address": (
        {"fileData": {"mimeType": "image/png", "fileUri": "gs://b/a.png"}},
        ImageBlock(url="gs://b/a.png", mime_type="image/png"),
    ),
    "video by address": (
        {"fileData": {"fileUri": "https://youtu.be/x"}, "videoMetadata": {"fps": 1}},
        DocumentBlock(url="https://youtu.be/x", extra=hinted(videoMetadata={"fps": 1})),
    ),
    "signed picture with resolution": (
        {
            "inlineData": {"mimeType": "image/png", "data": "AA==", "displayName": "p"},
            "thoughtSignature": SIGNED,
            "mediaResolution": {"level": "MEDIA_RESOLUTION_HIGH"},
        },
        ImageBlock(
            data="AA==",
            mime_type="image/png",
            extra=hinted(
                thoughtSignature=SIGNED,
                mediaResolution={"level": "MEDIA_RESOLUTION_HIGH"},
                _={"inlineData": {"in": {"displayName": "p"}}},
            ),
        ),
    ),
    "code": (
        {"executableCode": {"id": "e", "language": "PYTHON", "code": "1+1"}},
        ServerToolCall(
            id="e",
            name="code_execution",
            arguments={"language": "PYTHON", "code": "1+1"},
            extra=hinted(_part="executableCode"),
        ),
    ),
    "outcome": (
        {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "no"}},
        ServerToolResult(
            tool_call_id="",
            tool_name="code_execution",
            dialect=API,
            content={"outcome": "OUTCOME_FAILED", "output": "no"},
            is_error=True,
            extra=hinted(_part="codeExecutionResult"),
        ),
    ),
    "server's call (oddity 68)": (
        {
            "toolCall": {"id": "t", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["a"]}},
            "thoughtSignature": SIGNED,
        },
        ServerToolCall(
            id="t",
            name="GOOGLE_SEARCH_WEB",
            arguments={"queries": ["a"]},
            extra=hinted(thoughtSignature=SIGNED, _part="toolCall"),
        ),
    ),
    "server's result": (
        {"toolResponse": {"id": "t", "toolType": "GOOGLE_SEARCH_WEB", "response": {"a": 1}}},
        ServerToolResult(tool_call_id="t", tool_name="GOOGLE_SEARCH_WEB", dialect=API, content={"a": 1}),
    ),
    "unknown kind": ({"newKind": {"a": 1}}, OpaqueBlock(dialect=API, value={"newKind": {"a": 1}})),
    "signed unknown kind": (
        {"newKind": 1, "thoughtSignature": SIGNED},
        OpaqueBlock(dialect=API, value={"newKind": 1, "thoughtSignature": SIGNED}),
    ),
    "two kinds at once": (
        {"text": "a", "inlineData": {"data": "AA=="}},
        OpaqueBlock(dialect=API, value={"text": "a", "inlineData": {"data": "AA=="}}),
    ),
    "call without a name": (
        {"functionCall": {"args": {}}},
        OpaqueBlock(dialect=API, value={"functionCall": {"args": {}}}),
    ),
    "snake_case": (
        {"inline_data": {"mime_type": "image/png", "data": "AA=="}, "thought_signature": SIGNED},
        ImageBlock(
            data="AA==",
            mime_type="image/png",
            extra=hinted(thoughtSignature=SIGNED, _snake=["inlineData", "inlineData.mimeType", "thoughtSignature"]),
        ),
    ),
    "half in snake_case": (
        {"fileData": {"file_uri": "gs://a", "mime_type": "text/plain"}},
        DocumentBlock(
            url="gs://a", mime_type="text/plain", extra=hinted(_snake=["fileData.fileUri", "fileData.mimeType"])
        ),
    ),
    "call in snake_case": (
        {"function_call": {"id": "c", "name": "f", "args": {"file_uri": 1}}},
        ToolCall(id="c", name="f", arguments={"file_uri": 1}, extra=hinted(_snake=["functionCall"])),
    ),
}


@pytest.mark.parametrize(("part", "block"), PARTS.values(), ids=PARTS)
def test_parts_mean_what_they_say_and_come_back(part: Any, block: Any) -> None:
    """
    Each kind of part, with what is unknown in it, has its block; and the block says the same part again.
    """
    request = google.decode_request({"contents": [model(part)]})
    assert (block,) == request.context.messages[0].content
    assert {"contents": [model(part)]} == google.encode_request(load(dump(request), Request)).body
    assert body(part) == answered(body(part))


@pytest.mark.parametrize(
    "part", [part for part, block in PARTS.values() if not isinstance(block, OpaqueBlock)], ids=repr
)
def test_google_itself_accepts_what_is_encoded_of_each_part(part: Any) -> None:
    """
    The official types read our parts.
    """
    (content,) = returned({"contents": [model(part)]})["contents"]
    types.Content.model_validate(content)


def test_signature_stays_on_the_part_it_came_with_case_4_13_18_19() -> None:
    """
    Thoughts, words and calls keep their order and each its own signature, there and back.
    """
    parts = [
        {"text": "first", "thought": True, "thoughtSignature": "YQ=="},
        {"text": "words"},
        {"text": "second", "thought": True},
        {"text": "", "thoughtSignature": "Yg=="},
        {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "Yw=="},
        {"functionCall": {"name": "g", "args": {}}},
    ]
    message = google.decode_response(body(*parts))
    assert [
        ThinkingBlock(thinking="first", thinking_signature="YQ=="),
        TextBlock(text="words"),
        ThinkingBlock(thinking="second"),
        TextBlock(text="", text_signature="Yg=="),
        ToolCall(id="call_0", name="f", arguments={}, thought_signature="Yw==", extra=hinted(_minted=True)),
        ToolCall(id="call_1", name="g", arguments={}, extra=hinted(_minted=True)),
    ] == list(message.content or ())
    assert [model(*parts)] == contents_of(message)


def test_no_signature_is_ever_made_up_case_5() -> None:
    """
    A call without a signature is said without one: repairs are not the codec's business.
    """
    (content,) = contents_of(AssistantMessage(content=(ToolCall(id="c", name="f", arguments={}),)))
    assert model({"functionCall": {"id": "c", "name": "f", "args": {}}}) == content


def test_arguments_that_are_no_object_are_kept_and_never_executed() -> None:
    """
    The wire's value is told in the call's text, and returns.
    """
    part = {"functionCall": {"id": "c", "name": "f", "args": ["a", 1]}}
    (block,) = google.decode_request({"contents": [model(part)]}).context.messages[0].content  # type: ignore[misc]
    assert (block.arguments, block.arguments_text) == ({}, '["a",1]')
    assert block.parse_error
    assert {"contents": [model(part)]} == returned({"contents": [model(part)]})


def test_empty_id_is_no_id_case_22_35_36() -> None:
    """
    An empty id is kept on the wire but ours is a proper one; so are huge integers in arguments.
    """
    part = {"functionCall": {"id": "", "name": "f", "args": {"big": 2**70}}}
    (call,) = google.decode_response(body(part)).tool_calls
    assert (call.id, call.arguments) == ("call_0", {"big": 2**70})
    assert body(part) == answered(body(part))


# --- messages --------------------------------------------------------------------------------------------------------

CALLS = model(
    {"functionCall": {"name": "f", "args": {"n": 1}}},
    {"functionCall": {"name": "g", "args": {}}},
    {"functionCall": {"name": "f", "args": {"n": 2}}},
)


def response(name: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": value, **more}}


def test_results_without_ids_belong_to_calls_by_name_and_order_oddity_67() -> None:
    """
    Within the turn, the first open call of that name is answered; ids are generated, and not encoded.
    """
    wire = {
        "contents": [
            CALLS,
            user(response("g", {"output": "G"}), response("f", {"output": "1"}), response("f", {"output": "2"})),
            model({"functionCall": {"name": "f", "args": {}}}),
            user(response("f", {"output": "3"}), response("h", {"output": "nobody asked"})),
        ]
    }
    messages = google.decode_request(wire).context.messages
    calls = [call.id for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls]
    results = [(m.tool_call_id, m.tool_name) for m in messages if isinstance(m, ToolResultMessage)]
    assert calls == ["call_0", "call_1", "call_2", "call_3"]
    assert results == [("call_1", "g"), ("call_0", "f"), ("call_2", "f"), ("call_3", "f"), ("call_4", "h")]
    assert wire == returned(wire)


def test_generated_ids_are_the_callers_to_choose_and_never_collide() -> None:
    """
    `mint` gives the n-th id; one that the wire itself uses is passed over.
    """
    wire = {"contents": [model({"functionCall": {"id": "call_0", "name": "f"}}, {"functionCall": {"name": "g"}})]}
    assert [c.id for c in google.decode_request(wire).context.messages[0].tool_calls] == ["call_0", "call_1"]  # type: ignore[union-attr]
    chosen = google.decode_request(wire, mint=lambda n: f"mine-{n}").context.messages[0]
    assert [c.id for c in chosen.tool_calls] == ["call_0", "mine-0"]  # type: ignore[union-attr]
    part = {"functionCall": {"name": "f", "args": {}}}
    assert google.decode_response(body(part), mint=lambda n: f"x{n}").tool_calls[0].id == "x0"
    assert folded(chunk(part, finishReason="STOP"), mint=lambda n: f"x{n}").tool_calls[0].id == "x0"


def test_result_of_a_call_that_had_no_id_is_encoded_without_one() -> None:
    """
    A program that runs a call and answers with its generated id does not confuse the provider with it.
    """
    asking = google.decode_response(body({"functionCall": {"name": "f", "args": {}}}))
    result = ToolResultMessage(tool_call_id="call_0", content=(TextBlock(text="42"),), is_error=False)
    assert user(response("f", {"output": "42"})) == contents_of(asking, result)[1]


def test_results_with_ids_keep_them() -> None:
    """
    A given id pairs call and result, whatever the order and the names.
    """
    wire = {
        "contents": [
            model({"functionCall": {"id": "a", "name": "f"}}, {"functionCall": {"id": "b", "name": "f"}}),
            user(response("f", {"output": "B"}, id="b"), response("f", {"output": "A"})),
        ]
    }
    results = google.decode_request(wire).context.messages[1:]
    assert [m.tool_call_id for m in results] == ["b", "a"]  # type: ignore[union-attr]
    assert wire == returned(wire)


def test_results_of_one_turn_are_one_content_case_25_26() -> None:
    """
    However many results follow a turn, they share one content, in the order given.
    """
    results = [ToolResultMessage(tool_call_id=c, tool_name=c, content="x", is_error=False) for c in "ab"]
    calls = AssistantMessage(content=tuple(ToolCall(id=c, name=c, arguments={}) for c in "ab"))
    contents = contents_of(calls, *results, UserMessage(content=(TextBlock(text="and?"),)))
    assert [content["role"] for content in contents] == ["model", "user", "user"]
    assert [part["functionResponse"]["id"] for part in contents[1]["parts"]] == ["a", "b"]


ONE, TWO = response("f", {"output": "1"}), response("f", {"output": "2"})


@pytest.mark.parametrize(
    "contents",
    [
        [user(ONE, TWO)],
        [user(ONE), user(TWO)],
        [user(ONE, {"text": "and"}, TWO)],
        [user({"text": "so"}, ONE, TWO), user({"text": "next"})],
        [user(ONE), user({"text": "next"}, TWO)],
        [user(ONE, {"text": "now"}, {"inlineData": {"mimeType": "image/png", "data": "AA=="}})],
        [{"role": "function", "parts": [ONE], "x_new": 1}, {"parts": [{"text": "no role"}]}],
        [{"role": "tool", "parts": [{**ONE, "thoughtSignature": SIGNED}]}],
        [{"role": "user", "parts": ONE}, {"role": "user", "parts": {"text": "alone"}}],
        [{"role": "user"}, {"role": "user", "parts": []}, {"role": "model", "parts": None}],
        [{"role": "invalid_role", "parts": [{"text": "hi"}]}, user({"text": "a"})],
    ],
    ids=repr,
)
def test_contents_come_back_as_they_were_grouped(contents: Any) -> None:
    """
    Results and words, together or apart, with any role, in a list or alone.
    """
    assert {"contents": contents} == returned({"contents": contents})


RESPONSES: list[tuple[Any, Any, bool]] = [
    ({"output": "text"}, (TextBlock(text="text"),), False),
    ({"error": "boom"}, (TextBlock(text="boom"),), True),
    ({"result": "text"}, (TextBlock(text="text"),), False),
    ({"return_value": "text"}, (TextBlock(text="text"),), False),
    ({"output": {"a": [1]}}, (TextBlock(text='{"a":[1]}'),), False),
    ({"result": 42}, (TextBlock(text="42"),), False),
    ({"error": {"code": 5}}, (TextBlock(text='{"code":5}'),), True),
    ({"temperature": 20, "unit": "C"}, (TextBlock(text='{"temperature":20,"unit":"C"}'),), False),
    ({"output": "x", "error": None}, (TextBlock(text='{"output":"x","error":null}'),), False),
    ({"error": "x", "code": 1}, (TextBlock(text='{"error":"x","code":1}'),), True),
    ({"error": ""}, (TextBlock(text=""),), True),
    ({}, (), False),
    ("bare", (TextBlock(text="bare"),), False),
    (["list"], (TextBlock(text='["list"]'),), False),
]


@pytest.mark.parametrize(("value", "content", "failed"), RESPONSES, ids=repr)
def test_what_a_function_gave_is_readable_text_and_returns_as_it_was(value: Any, content: Any, failed: bool) -> None:
    """
    Other dialects see words; this one gets its object back, without a copy of it being kept.
    """
    wire = {"contents": [user(response("f", value))]}
    request = google.decode_request(wire)
    (result,) = request.context.messages
    assert (content, failed) == (result.content, result.is_error)  # type: ignore[union-attr]
    assert wire == google.encode_request(load(dump(request), Request)).body


def test_changed_results_are_encoded_anew() -> None:
    """
    How a response looked does not overrule what it says now.
    """

    def again(value: Any, **changes: Any) -> Any:
        request = google.decode_request({"contents": [user(response("f", value))]})
        (result,) = request.context.messages
        (content,) = contents_of(replace(result, **changes))
        return content["parts"][0]["functionResponse"]["response"]

    new = (TextBlock(text="new"),)
    assert again({"result": "old"}, content=new) == {"result": "new"}
    assert again({"result": "old"}, is_error=True) == {"error": "old"}
    assert again({"a": 1}, content=new) == {"output": "new"}
    assert again({"a": 1}, content=(TextBlock(text='{"a":2}'),)) == {"a": 2}
    assert again({"a": 1}, content=(TextBlock(text='{"a": 2}'),)) == {"output": '{"a": 2}'}
    assert again({"a": 1}, is_error=True) == {"error": '{"a":1}'}
    assert again({"error": "boom"}, is_error=False) == {"output": "boom"}


def test_pictures_of_a_result_stand_beside_its_words_case_69() -> None:
    """
    Media are parts of the response, in both spellings; nothing is flattened away.
    """
    picture = {"inline_data": {"mime_type": "image/png", "data": "AA=="}}
    wire = {"contents": [user(response("f", {"output": "see"}, parts=[picture, {"x": 1}]))]}
    (result,) = google.decode_request(wire).context.messages
    assert [type(b).__name__ for b in result.content] == ["TextBlock", "ImageBlock", "OpaqueBlock"]  # type: ignore[union-attr]
    assert wire == returned(wire)
    foreign = ToolResultMessage(
        tool_call_id="c",
        content=(ImageBlock(data="AA==", mime_type="image/png"), TextBlock(text="a"), TextBlock(text="b")),
        is_error=False,
    )
    assert [
        user(
            {
                "functionResponse": {
                    "id": "c",
                    "response": {"output": "a\nb"},
                    "parts": [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}],
                }
            }
        )
    ] == contents_of(foreign)
    assert {("$.messages[0].content", "weakened")} == losses(foreign)


FOREIGN: dict[str, tuple[Any, Any, set[tuple[str, str]]]] = {
    "later system message": (SystemMessage(content="hey"), None, {("$.messages[0]", "dropped")}),
    "sealed thinking": (
        AssistantMessage(content=(ThinkingBlock(thinking="", thinking_signature="x", redacted=True),)),
        model(),
        {("$.messages[0].content[0]", "dropped")},
    ),
    "upload elsewhere": (
        UserMessage(content=(ImageBlock(file_id="file_1"),)),
        user(),
        {("$.messages[0].content[0]", "dropped")},
    ),
    "picture of unknown type": (
        UserMessage(content=(ImageBlock(url="https://example.org/a"),)),
        user({"fileData": {"fileUri": "https://example.org/a"}}),
        {("$.messages[0].content[0]", "weakened")},
    ),
    "text as a file": (
        UserMessage(content=(DocumentBlock(text="hé", title="t"),)),
        user({"inlineData": {"mimeType": "text/plain", "data": base64.b64encode("hé".encode()).decode()}}),
        {("$.messages[0].content[0]", "weakened"), ("$.messages[0].content[0].title", "dropped")},
    ),
    "both data and address": (
        UserMessage(content=(AudioBlock(data="AA==", mime_type="audio/wav", url="u", transcript="la"),)),
        user({"inlineData": {"mimeType": "audio/wav", "data": "AA=="}}),
        {("$.messages[0].content[0].url", "dropped"), ("$.messages[0].content[0].transcript", "dropped")},
    ),
    "citations and cache markers": (
        AssistantMessage(content=(TextBlock(text="a", citations=(Citation(url="u"),), cache=CacheMarker()),), api=API),
        model({"text": "a"}),
        {("$.messages[0].content[0].citations", "dropped"), ("$.messages[0].content[0].cache", "dropped")},
    ),
    "someone else's tool": (
        AssistantMessage(content=(ServerToolCall(id="s", name="web_search", arguments={}),), api=API),
        model(),
        {("$.messages[0].content[0]", "dropped")},
    ),
    "someone else's block": (
        UserMessage(content=(OpaqueBlock(dialect="some-other", value={"type": "x"}),)),
        user(),
        {("$.messages[0].content[0]", "dropped")},
    ),
    "empty ids": (
        AssistantMessage(content=(ToolCall(id="", name="f", arguments={}),), api=API),
        model({"functionCall": {"name": "f", "args": {}}}),
        {("$.messages[0].content[0].id", "weakened")},
    ),
    "string": (UserMessage(content="hi"), user({"text": "hi"}), {("$.messages[0].content", "record")}),
}


@pytest.mark.parametrize(("message", "wire", "lost"), FOREIGN.values(), ids=FOREIGN)
def test_what_cannot_be_encoded_is_reported(message: Any, wire: Any, lost: set[tuple[str, str]]) -> None:
    """
    Each thing that this wire lacks is left out or said more weakly, and named with its place.
    """
    assert ([] if wire is None else [wire]) == contents_of(message)
    assert lost == losses(message)


def test_strict_mode_raises_instead() -> None:
    """
    The first real loss is an Unsupported that names the place.
    """
    with pytest.raises(Unsupported) as refused:
        google.encode_request(asked(SystemMessage(content="hey")), strict=True)
    assert refused.value.path == "$.messages[0]"


def test_unknown_roles_are_custom_messages() -> None:
    """
    A role that Google does not know is kept, fields and all.
    """
    (message,) = google.decode_request({"contents": [{"role": "narrator", "parts": []}]}).context.messages
    assert CustomMessage("narrator", {"parts": []}) == message


# --- requests --------------------------------------------------------------------------------------------------------

FULL = {
    "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
    "contents": [user({"text": "hi"})],
    "tools": [
        {
            "functionDeclarations": [
                {
                    "name": "f",
                    "description": "F",
                    "parameters": {"type": "OBJECT", "properties": {"type": {"type": "STRING"}}, "required": ["type"]},
                    "behavior": "BLOCKING",
                },
                {"name": "g", "parametersJsonSchema": {"type": "object"}},
            ],
            "codeExecution": {},
        },
        {"googleSearch": {"excludeDomains": ["a"]}},
        {"functionDeclarations": [{"name": "h", "description": None}]},
        {"functionDeclarations": [{"name": "i"}]},
    ],
    "toolConfig": {
        "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"], "x_new": 1},
        "includeServerSideToolInvocations": True,
    },
    "generationConfig": {
        "temperature": 0.5,
        "topP": 0.9,
        "topK": 40,
        "maxOutputTokens": 100,
        "stopSequences": ["END"],
        "seed": 7,
        "candidateCount": 1,
        "responseMimeType": "application/json",
        "responseSchema": {"type": "ARRAY", "items": {"type": "INTEGER"}},
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 1024, "x_new": 1},
    },
    "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
    "cachedContent": "cachedContents/x",
    "labels": {"team": "a"},
    "serviceTier": "flex",
}


def test_request_means_what_it_says() -> None:
    """
    Every field that others can say too is a field of ours; the rest is held for this wire.
    """
    request = google.decode_request(FULL, model="gemini-x", stream=True)
    options = request.options
    assert (request.model.id, request.model.api, options.stream) == ("gemini-x", API, True)
    assert request.context.system_prompt == "Be brief."
    assert (
        options.temperature,
        options.top_p,
        options.top_k,
        options.max_tokens,
        options.stop,
        options.seed,
        options.service_tier,
    ) == (0.5, 0.9, 40, 100, ("END",), 7, "flex")
    assert (options.tool_choice.mode, options.tool_choice.names) == ("required", ("f",))  # type: ignore[union-attr]
    assert options.reasoning.budget == 1024  # type: ignore[union-attr]
    assert options.output_schema.schema == {"type": "array", "items": {"type": "integer"}}  # type: ignore[union-attr]
    names = [(tool.name, tool.dialect) for tool in request.context.tools or ()]
    assert names == [("f", None), ("g", None), ("codeExecution", API), ("googleSearch", API), ("h", None), ("i", None)]


def test_request_comes_back_as_it_was() -> None:
    """
    Groups of tools, unknown fields, spellings: all as they were.
    """
    assert returned(FULL) == FULL


def test_schema_types_are_lower_case_here_and_names_are_left_alone_case_75() -> None:
    """
    Capitals are Google's spelling of types; a parameter that is named `type` keeps its name, and its own type.
    """
    tool = google.decode_request(FULL).context.tools[0]  # type: ignore[index]
    assert tool.input_schema == {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]}
    mixed = {
        "tools": [{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT", "items": {"type": "x"}}}]}]
    }
    assert {"contents": [], **mixed} == returned({"contents": [], **mixed})


SPELLINGS: dict[str, Any] = {
    "snake_case": {
        "system_instruction": {"parts": [{"text": "a"}]},
        "contents": [],
        "generation_config": {
            "max_output_tokens": 5,
            "response_mime_type": "application/json",
            "response_schema": {"type": "OBJECT"},
            "thinking_config": {"include_thoughts": True, "thinking_level": "low"},
        },
        "tool_config": {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["f"]}},
        "tools": [{"function_declarations": [{"name": "f", "parameters_json_schema": {}}]}, {"google_search": {}}],
        "safety_settings": [],
    },
    "system text": {"systemInstruction": "Be brief.", "contents": []},
    "one instead of a list": {
        "systemInstruction": {"parts": {"text": "a"}},
        "contents": {"role": "user", "parts": {"text": "a"}},
        "tools": {"functionDeclarations": [{"name": "f"}]},
    },
    "system with a picture": {
        "systemInstruction": {"parts": [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}]},
        "contents": [],
    },
    "model in the body": {"model": "models/gemini-x", "contents": []},
    "float top_k": {"contents": [], "generationConfig": {"topK": 40.0}},
    "empty objects": {"contents": [], "generationConfig": {}, "toolConfig": {}, "tools": [{}], "systemInstruction": {}},
    "wrong types": {
        "contents": [],
        "generationConfig": {"maxOutputTokens": "5", "thinkingConfig": 1, "stopSequences": [1], "responseSchema": 5},
        "tools": [{"functionDeclarations": []}],
        "toolConfig": {"functionCallingConfig": {"mode": "SOMETIMES"}, "x": 1},
        "serviceTier": 5,
    },
    "said twice": {"contents": [], "generationConfig": {"topK": 1, "top_k": 2}, "tools": None},
    "enums": {
        "contents": [],
        "generationConfig": {"responseMimeType": "text/x.enum", "responseSchema": {"enum": ["a"]}},
    },
    "no contents": {"cachedContent": "x"},
    "keys of ours": {"contents": [], "value": 1, "api": 2, "~joined": 3},
    "spread tools": {
        "contents": [],
        "tools": [
            {"googleSearch": {}, "functionDeclarations": [{"name": "a"}, {"name": "b"}]},
            {"functionDeclarations": [{"name": "c"}], "urlContext": {}},
            {"functionDeclarations": [{"name": "d"}, {"noname": 1}]},
        ],
    },
}


@pytest.mark.parametrize("wire", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings_come_back_as_they_were(wire: Any) -> None:
    """
    Whatever shape a client chose, it gets the same shape back.
    """
    assert json.dumps(wire, sort_keys=True) == json.dumps(returned(wire), sort_keys=True)


def test_snake_case_is_understood_not_only_kept() -> None:
    """
    A request in snake_case means the same as one in camelCase.
    """
    request = google.decode_request(SPELLINGS["snake_case"])
    assert (
        request.context.system_prompt,
        request.options.max_tokens,
        request.options.reasoning.effort,  # type: ignore[union-attr]
        request.options.tool_choice.names,  # type: ignore[union-attr]
    ) == ("a", 5, "low", ("f",))
    assert request.options.output_schema.schema == {"type": "object"}  # type: ignore[union-attr]


def test_changed_options_are_encoded_beside_what_is_unknown() -> None:
    """
    Options that were added or changed since do not cost the fields that we do not know, and hints do not undo them.
    """
    wire = {
        "model": "models/old",
        "contents": [],
        "toolConfig": {"includeServerSideToolInvocations": True},
        "generationConfig": {"candidateCount": 2, "thinkingConfig": {"thinkingLevel": "low"}},
    }
    request = google.decode_request(wire)
    options = replace(
        request.options, temperature=1, tool_choice=ToolChoice(mode="none"), reasoning=Reasoning(effort="high")
    )
    body = google.encode_request(replace(request, model=ModelDescriptor(id="new"), options=options)).body
    assert body == {
        "model": "models/new",
        "contents": [],
        "toolConfig": {"functionCallingConfig": {"mode": "NONE"}, "includeServerSideToolInvocations": True},
        "generationConfig": {
            "temperature": 1,
            "candidateCount": 2,
            "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "HIGH"},
        },
    }


CHOICES: list[tuple[ToolChoice, dict[str, Any]]] = [
    (ToolChoice(mode="auto"), {"mode": "AUTO"}),
    (ToolChoice(mode="required"), {"mode": "ANY"}),
    (ToolChoice(mode="none"), {"mode": "NONE"}),
    (ToolChoice(mode="required", names=("f", "g")), {"mode": "ANY", "allowedFunctionNames": ["f", "g"]}),
    (ToolChoice(mode="auto", names=("f",)), {"mode": "VALIDATED", "allowedFunctionNames": ["f"]}),
]


@pytest.mark.parametrize(("choice", "config"), CHOICES, ids=repr)
def test_tool_choices(choice: ToolChoice, config: Any) -> None:
    """
    May, must, must not; narrowed to some functions.
    """
    body = google.encode_request(asked(options=Options(tool_choice=choice))).body
    assert {"functionCallingConfig": config} == body["toolConfig"]
    assert choice == google.decode_request(body).options.tool_choice
    types.ToolConfig.model_validate(body["toolConfig"])


REASONINGS: list[tuple[Reasoning, dict[str, Any]]] = [
    (Reasoning(budget=512), {"includeThoughts": True, "thinkingBudget": 512}),
    (Reasoning(effort="high"), {"includeThoughts": True, "thinkingLevel": "HIGH"}),
    (Reasoning(enabled=True), {"includeThoughts": True, "thinkingBudget": -1}),
    (Reasoning(enabled=False), {"thinkingBudget": 0}),
    (Reasoning(summary="auto"), {"includeThoughts": True}),
    (Reasoning(), {}),
]


@pytest.mark.parametrize(("reasoning", "config"), REASONINGS, ids=repr)
def test_reasoning_off_is_encoded_and_not_left_out(reasoning: Reasoning, config: Any) -> None:
    """
    A budget, a level, the model's choice, or off: models that think by default are told not to.
    """
    body = google.encode_request(asked(options=Options(reasoning=reasoning))).body
    assert config == body["generationConfig"]["thinkingConfig"]
    assert reasoning == google.decode_request(body).options.reasoning
    types.ThinkingConfig.model_validate(config)


@pytest.mark.parametrize(
    "config",
    [
        {"thinkingBudget": 0, "includeThoughts": False},
        {"thinkingBudget": -1},
        {"thinkingLevel": "low", "includeThoughts": True},
        {"thinkingLevel": "MINIMAL", "thinkingBudget": -1},
        {"includeThoughts": False},
        {"thinkingBudget": None},
    ],
    ids=repr,
)
def test_thinking_configurations_come_back(config: Any) -> None:
    """
    What is shown and how the level is spelled are kept.
    """
    wire = {"contents": [], "generationConfig": {"thinkingConfig": config}}
    assert wire == returned(wire)


def test_foreign_tools_and_schemas_are_encoded_as_json_schema_case_73_74() -> None:
    """
    Schemas go out as they are, in the field for JSON Schema; one declaration list holds them all.
    """
    schema = {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "additionalProperties": False}}}
    tools = (ToolSpec(name="f", input_schema=schema), ToolSpec(name="g", description="G"))
    theirs = ToolSpec(name="web", dialect="some-other", value={"type": "web"})
    request = asked(tools=(*tools, theirs), options=Options(output_schema=OutputSchema(schema=schema)))
    body, lost = google.encode_request(request)
    assert [
        {"functionDeclarations": [{"name": "f", "parametersJsonSchema": schema}, {"name": "g", "description": "G"}]}
    ] == body["tools"]
    assert {"responseMimeType": "application/json", "responseJsonSchema": schema} == body["generationConfig"]
    assert [Loss("$.tools[2]", "web", "a tool that only some-other can run", "dropped")] == list(lost)


def test_options_without_a_place_are_reported() -> None:
    """
    Nothing that the caller asked for disappears in silence.
    """
    options = Options(
        parallel_tools=False,
        session_id="s",
        metadata={"user_id": "u"},
        cache_retention="long",
        reasoning=Reasoning(effort="Low", budget=5, enabled=True, summary="detailed"),
    )
    paths = {path for path, _ in losses(system="s", system_role="developer", options=options)}
    assert {
        "$.system",
        "$.systemRole",
        "$.options.parallelTools",
        "$.options.sessionId",
        "$.options.metadata",
        "$.options.cacheRetention",
        "$.options.reasoning.effort",
        "$.options.reasoning.enabled",
        "$.options.reasoning.summary",
    } == paths


@given(wellformed_requests(own=API, thinking=True))
def test_google_itself_accepts_our_requests(request: Request) -> None:
    """
    The official types read every body that we make of an ordinary conversation.
    """
    body = google.encode_request(request).body
    for content in [*body["contents"], body.get("systemInstruction")]:
        if content is not None:
            types.Content.model_validate(content)
    for tool in body.get("tools", ()):
        types.Tool.model_validate(tool)
    types.GenerationConfig.model_validate(body.get("generationConfig", {}))
    types.ToolConfig.model_validate(body.get("toolConfig", {}))


BAD: list[Any] = [
    None,
    [],
    "text",
    b"\xff",
    {"contents": 5},
    {"contents": ["text"]},
    {"contents": [{"role": 5}]},
    {"contents": [{"role": "user", "parts": "text"}]},
    {"contents": [{"role": "user", "parts": [None]}]},
    {"contents": [], "tools": [5]},
]


@pytest.mark.parametrize("wire", BAD, ids=repr)
def test_nonsense_is_a_bad_wire(wire: Any) -> None:
    """
    What the format forbids is refused with the place, never with another exception.
    """
    with pytest.raises(BadWire):
        google.decode_request(wire)


@given(st.data())
def test_whatever_comes_is_read_or_refused(data: st.DataObject) -> None:
    """
    Requests and answers with anything changed in them give a value that returns as it was, or a BadWire.
    """
    wire = data.draw(mutated(FULL))
    try:
        again = returned(wire)
    except BadWire:
        again = wire
    assert json.dumps(wire, sort_keys=True) == json.dumps(again, sort_keys=True)
    answer = data.draw(mutated(ANSWER))
    try:
        again = answered(answer) if isinstance(answer, dict) else answer
    except (BadWire, ProviderError):
        again = answer
    assert json.dumps(answer, sort_keys=True) == json.dumps(again, sort_keys=True)


# --- answers ---------------------------------------------------------------------------------------------------------

ANSWER = {
    "candidates": [
        {
            "content": {
                "parts": [{"text": "Hm.", "thought": True}, {"text": "Hi!", "thoughtSignature": SIGNATURE}],
                "role": "model",
            },
            "finishReason": "STOP",
            "index": 0,
            "safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "NEGLIGIBLE"}],
            "avgLogprobs": -0.5,
        },
        {"content": {"parts": [{"text": "Hello!"}], "role": "model"}, "finishReason": "STOP", "index": 1},
    ],
    "usageMetadata": {
        "promptTokenCount": 10,
        "cachedContentTokenCount": 4,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 3,
        "toolUsePromptTokenCount": 2,
        "totalTokenCount": 20,
        "trafficType": "ON_DEMAND",
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 10}],
    },
    "modelVersion": "gemini-x-001",
    "responseId": "r1",
    "createTime": "2026-01-01T00:00:00Z",
}


def test_answer_means_what_it_says() -> None:
    """
    Content, usage in disjoint buckets (oddity 69), who answered; the other candidates are kept beside.
    """
    message = google.decode_response(ANSWER, model="gemini-x", provider="google", timestamp=5)
    assert (message.text, message.thinking, message.stop_reason, message.stop_detail) == ("Hi!", "Hm.", "stop", "STOP")
    assert (
        message.api,
        message.provider,
        message.model,
        message.response_model,
        message.response_id,
        message.timestamp,
    ) == (API, "google", "gemini-x", "gemini-x-001", "r1", 5)
    usage = message.usage
    assert usage is not None
    assert (
        usage.input,
        usage.output,
        usage.cache_read,
        usage.cache_write,
        usage.total_tokens,
        usage.reasoning,
    ) == (8, 8, 4, 0, 20, 3)
    assert answered(ANSWER) == ANSWER


def test_answer_of_ours_is_what_google_would_say() -> None:
    """
    A message from elsewhere becomes an answer that the official types accept; what has no place is reported.
    """
    message = AssistantMessage(
        content=(
            ThinkingBlock(thinking="hm", thinking_signature=SIGNATURE),
            TextBlock(text="hi", citations=(Citation(url="u"),)),
            ToolCall(id="c", name="f", arguments={"a": 1}),
        ),
        model="m",
        response_id="r",
        stop_reason="toolUse",
        stop_detail="tool_use",
        usage=Usage.of(3, 4, cache_read=2, cache_write=1, reasoning=1),
    )
    wire, lost = google.encode_response(message)
    assert wire == {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [
                        {"text": "hm", "thought": True, "thoughtSignature": SIGNATURE},
                        {"text": "hi"},
                        {"functionCall": {"id": "c", "name": "f", "args": {"a": 1}}},
                    ],
                },
                "finishReason": "STOP",
            }
        ],
        "usageMetadata": {
            "promptTokenCount": 6,
            "cachedContentTokenCount": 2,
            "candidatesTokenCount": 3,
            "thoughtsTokenCount": 1,
            "totalTokenCount": 10,
        },
        "modelVersion": "m",
        "responseId": "r",
    }
    types.GenerateContentResponse.model_validate(wire)
    assert {"$.content[1].citations", "$.usage"} == {loss.path for loss in lost}


CALL_PART = {"functionCall": {"id": "c", "name": "f", "args": {}}}
STOPS: list[tuple[Any, tuple[Any, ...], str, str | None]] = [
    ("STOP", ({"text": "a"},), "stop", "STOP"),
    ("STOP", (CALL_PART,), "toolUse", "STOP"),  # oddity 63
    ("MAX_TOKENS", ({"text": "a"},), "length", "MAX_TOKENS"),
    ("MAX_TOKENS", (CALL_PART,), "length", "MAX_TOKENS"),  # pi forces toolUse here
    ("MAX_TOKENS", (), "length", "MAX_TOKENS"),  # oddity 61
    ("SAFETY", (), "error", "SAFETY"),
    ("SAFETY", (CALL_PART,), "error", "SAFETY"),
    ("MALFORMED_FUNCTION_CALL", (), "error", "MALFORMED_FUNCTION_CALL"),  # case 79
    ("UNEXPECTED_TOOL_CALL", ({"text": "a"},), "error", "UNEXPECTED_TOOL_CALL"),  # oddity 64
    ("SOMETHING_NEW", ({"text": "a"},), "stop", "SOMETHING_NEW"),
    ("SOMETHING_NEW", (), "error", "SOMETHING_NEW"),
    (1, ({"text": "a"},), "stop", "STOP"),  # oddity 60
    (2, ({"text": "a"},), "length", "MAX_TOKENS"),
    (3, (), "error", "SAFETY"),
    (77, (), "error", "77"),
    (None, ({"text": "a"},), "stop", None),
]


@pytest.mark.parametrize(("word", "parts", "reason", "detail"), STOPS, ids=repr)
def test_why_it_stopped(word: Any, parts: Any, reason: str, detail: str | None) -> None:
    """
    The provider's word is kept as it was, in words or numbers; what it means is settled with the content.
    """
    wire = body(*parts, reason=word)
    message = google.decode_response(wire)
    assert (reason, detail) == (message.stop_reason, message.stop_detail)
    assert (reason == "error") == (message.error_message is not None)
    assert wire == answered(wire)
    if word is not None:
        assert message == folded(wire)


def test_details_of_a_failure_are_reported_case_79() -> None:
    """
    The provider's own sentence is in the error.
    """
    wire = body(reason="MALFORMED_FUNCTION_CALL")
    wire["candidates"][0]["finishMessage"] = "Malformed function call: print(f())"
    assert "print(f())" in (google.decode_response(wire).error_message or "")


BLOCKED = {
    "promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "no"},
    "usageMetadata": {"promptTokenCount": 3, "totalTokenCount": 3},
}


@pytest.mark.parametrize("more", [{}, {"candidates": []}])
def test_blocked_prompt_is_an_error_oddity_62(more: Any) -> None:
    """
    Without candidates there is only the reason; streamed or not, it is told.
    """
    wire = {**BLOCKED, **more}
    message = google.decode_response(wire)
    assert (
        message.stop_reason,
        message.stop_detail,
        message.error_message,
    ) == ("error", "SAFETY", "the provider stopped: no")
    assert wire == answered(wire)
    assert message == folded(wire)
    assert message == fold(decode_stream(streamed(message)))


@pytest.mark.parametrize(
    "candidate",
    [
        {"finishReason": "SAFETY"},
        {"content": {}, "finishReason": "STOP"},
        {"content": {"role": "model"}, "finishReason": "MAX_TOKENS", "index": 0},
        {"content": {"parts": []}, "finishReason": "STOP"},
        {"content": {"parts": None, "role": "model"}, "finishReason": "STOP"},
        {"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"},
    ],
    ids=repr,
)
def test_candidates_without_content_oddity_61(candidate: Any) -> None:
    """
    Content may be missing, empty, or without a role; it comes back so.
    """
    wire = {"candidates": [candidate]}
    assert wire == answered(wire)
    message = google.decode_response(wire)
    assert message == fold(decode_stream(streamed(message)))


def test_error_in_place_of_an_answer_is_raised() -> None:
    """
    An error body is a typed error, alone or in a list.
    """
    error = {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}
    for wire in (error, [error]):
        with pytest.raises(RateLimited):
            google.decode_response(wire)


def test_responses_are_not_echoed_in_requests_case_71() -> None:
    """
    What only an answer says stays out of the next request.
    """
    message = load(dump(google.decode_response(ANSWER)), AssistantMessage)
    assert [ANSWER["candidates"][0]["content"]] == contents_of(message)  # type: ignore[index]


# --- citations -------------------------------------------------------------------------------------------------------

GROUNDED = {
    "groundingChunks": [
        {"web": {"uri": "https://a.example", "title": "A"}},
        {"retrievedContext": {"title": "B", "text": "quoted"}},
    ],
    "groundingSupports": [
        {"segment": {"startIndex": 4, "endIndex": 9, "text": "wörd"}, "groundingChunkIndices": [0, 1]},
        {"segment": {"endIndex": 3, "text": "elsewhere"}, "groundingChunkIndices": [0]},
    ],
    "webSearchQueries": ["q"],
}
SOURCES = (
    Citation(title="A", url="https://a.example", start=3, end=7),
    Citation(title="B", cited_text="quoted", start=3, end=7),
)


def test_sources_are_citations_of_the_text_they_stand_under() -> None:
    """
    Byte offsets become places in the text where they can be checked; the metadata itself returns untouched.
    """
    wire = body({"text": "é: wörd."})
    wire["candidates"][0]["groundingMetadata"] = GROUNDED
    message = google.decode_response(wire)
    assert message.content[0].citations == SOURCES  # type: ignore[index,union-attr]
    assert wire == answered(wire)
    assert list(google.encode_response(message).losses) == []
    changed = replace(message, content=(replace(message.content[0], text="other"),))  # type: ignore[index,type-var]
    assert [loss.path for loss in google.encode_response(changed).losses] == ["$.content[0].citations"]


def test_sources_at_the_end_of_a_stream_reach_the_text() -> None:
    """
    They come with the last chunk, and the last text is closed with them.
    """
    last = chunk({"text": "wörd."}, groundingMetadata=GROUNDED, finishReason="STOP")
    events = decode_stream(sse([chunk({"text": "é: "}), last]))
    assert fold(events).content[0].citations == SOURCES  # type: ignore[index,union-attr]
    (end,) = [event for event in events if isinstance(event, TextEnd)]
    assert end.block.citations == SOURCES  # type: ignore[union-attr]


def test_recitations_are_citations() -> None:
    """
    `citationMetadata` of either spelling names sources of the only text.
    """
    for key in ("citations", "citationSources"):
        wire = body({"text": "é b"})
        wire["candidates"][0]["citationMetadata"] = {key: [{}, {"uri": "u", "startIndex": 2, "endIndex": 4}]}
        (block,) = google.decode_response(wire).content  # type: ignore[misc]
        assert (Citation(url="u", start=1, end=3),) == block.citations
        assert wire == answered(wire)


# --- streams ---------------------------------------------------------------------------------------------------------


def kinds(events: list[StreamEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_stream_in_crlf_oddity_3_70_case_58() -> None:
    """
    Several parts in one chunk, each said once and in order; the reason and the usage of the last chunk count.
    """
    events = decode_stream(
        sse(
            [
                {**chunk({"text": "hm", "thought": True}), "usageMetadata": {"promptTokenCount": 9}, "responseId": "r"},
                chunk({"text": "m", "thought": True}, {"text": "Hel"}),
                chunk({"text": "lo"}),
                {
                    **chunk(CALL_PART, finishReason="STOP"),
                    "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 2, "totalTokenCount": 9},
                    "modelVersion": "m",
                },
            ]
        )
    )
    assert [
        Start,
        ThinkingStart,
        ThinkingDelta,
        ThinkingDelta,
        ThinkingEnd,
        TextStart,
        TextDelta,
        TextDelta,
        TextEnd,
        ToolCallStart,
        ToolCallEnd,
        Done,
    ] == list(map(type, events))
    message = fold(events)
    assert (
        ThinkingBlock(thinking="hmm"),
        TextBlock(text="Hello"),
        ToolCall(id="c", name="f", arguments={}),
    ) == message.content
    assert (
        message.stop_reason,
        message.stop_detail,
        message.model,
        message.response_id,
    ) == ("toolUse", "STOP", "m", "r")
    assert Usage.of(7, 2) == message.usage  # case 83: the last count, not the sum


MERGES: dict[str, tuple[list[Any], list[Any]]] = {
    "text goes on": ([chunk({"text": "a"}), chunk({"text": "b"})], [TextBlock(text="ab")]),
    "signature at the end (oddity 65)": (
        [chunk({"text": "a"}), chunk({"text": "b"}), chunk({"text": "", "thoughtSignature": SIGNED})],
        [TextBlock(text="ab", text_signature=SIGNED)],
    ),
    "signed words stand alone": (
        [chunk({"text": "a"}), chunk({"text": "b", "thoughtSignature": SIGNED}), chunk({"text": "c"})],
        [TextBlock(text="a"), TextBlock(text="b", text_signature=SIGNED), TextBlock(text="c")],
    ),
    "nothing follows a signature": (
        [chunk({"text": "a"}), chunk({"text": "", "thoughtSignature": SIGNED}), chunk({"text": "b"})],
        [TextBlock(text="a", text_signature=SIGNED), TextBlock(text="b")],
    ),
    "signature of the thought": (
        [chunk({"text": "a", "thought": True}), chunk({"text": "", "thought": True, "thoughtSignature": SIGNED})],
        [ThinkingBlock(thinking="a", thinking_signature=SIGNED)],
    ),
    "signature of no thought": (
        [chunk({"text": "a", "thought": True}), chunk({"text": "", "thoughtSignature": SIGNED})],
        [ThinkingBlock(thinking="a"), TextBlock(text="", text_signature=SIGNED)],
    ),
    "parts of one chunk": (
        [chunk({"text": "a"}, {"text": "b"}), chunk({"text": "c"})],
        [TextBlock(text="a"), TextBlock(text="bc")],
    ),
    "empty part after a call": (
        [chunk(CALL_PART), chunk({"text": ""})],
        [ToolCall(id="c", name="f", arguments={}), TextBlock(text="")],
    ),
    "unknown part in place (case 57)": (
        [
            chunk({"toolCall": {"id": "t", "toolType": "URL_CONTEXT"}}),
            chunk({"text": "a"}),
            chunk({"newKind": 1}),
            chunk({"text": "b"}),
        ],
        [
            ServerToolCall(id="t", name="URL_CONTEXT", extra=hinted(_part="toolCall")),
            TextBlock(text="a"),
            OpaqueBlock(dialect=API, value={"newKind": 1}),
            TextBlock(text="b"),
        ],
    ),
    "parallel calls (case 39)": (
        [chunk({"functionCall": {"name": "f", "args": {"n": 1}}}), chunk({"functionCall": {"name": "f"}})],
        [
            ToolCall(id="call_0", name="f", arguments={"n": 1}, extra=hinted(_minted=True)),
            ToolCall(
                id="call_1",
                name="f",
                arguments={},
                extra=hinted(_minted=True, _={"functionCall": {"in": {"~": {"args": {"said": {}}}}}}),
            ),
        ],
    ),
}


@pytest.mark.parametrize(("chunks", "content"), MERGES.values(), ids=MERGES)
def test_how_parts_of_a_stream_become_blocks(chunks: Any, content: Any) -> None:
    """
    Words go on from chunk to chunk; a signature belongs to the part it came with.
    """
    message = folded(*chunks, chunk(finishReason="STOP"))
    assert content == list(message.content or ())
    assert message == fold(decode_stream(streamed(message)))


def test_streamed_arguments_oddity_66() -> None:
    """
    Values of paths amount to the arguments, and to their JSON text piece by piece.
    """

    def piece(path: str, value: Any, goes_on: bool = False) -> Any:
        kind = {str: "stringValue", float: "numberValue", bool: "boolValue"}.get(type(value), "nullValue")
        fragment = {"jsonPath": path, kind: value, **({"willContinue": True} if goes_on else {})}
        return chunk({"functionCall": {"partialArgs": [fragment], "willContinue": True}})

    events = decode_stream(
        sse(
            [
                chunk({"functionCall": {"name": "f", "willContinue": True}, "thoughtSignature": SIGNED}),
                piece("$.place.name", 'B"o', True),
                piece("$.place.name", "s\n", True),
                piece("$.place.name", ""),
                chunk({"functionCall": {"willContinue": True}}),
                piece("$.place.tags[0]", "a"),
                piece("$.place.tags[1].x", 1.5),
                piece("$['odd key']", True),
                piece("$.none", None),
                chunk({"functionCall": {}}),
                chunk({"functionCall": {"name": "g", "willContinue": True}}),
                chunk({"functionCall": {}}, finishReason="STOP"),
            ]
        )
    )
    arguments = {"place": {"name": 'B"os\n', "tags": ["a", {"x": 1.5}]}, "odd key": True, "none": None}
    message = fold(events)
    first, second = message.tool_calls
    assert (arguments, SIGNED, "call_0") == (first.arguments, first.thought_signature, first.id)
    assert (second.arguments, second.name, second.id) == ({}, "g", "call_1")
    text = "".join(event.delta for event in events if isinstance(event, ToolCallDelta) and event.content_index == 0)
    assert arguments == json.loads(text)
    assert kinds(events).count("ToolCallDelta") > 1
    whole = body(
        {"functionCall": {"name": "f", "args": arguments}, "thoughtSignature": SIGNED},
        {"functionCall": {"name": "g", "args": {}}},
    )
    assert google.decode_response(whole) == message


@pytest.mark.parametrize("path", ["", "$", "$[0]", "a.b", "$.a[", "$..a", "$.a[3]"])
def test_paths_that_lead_nowhere_end_the_stream(path: str) -> None:
    """
    Arguments that cannot be put together are an error of the peer's, not of ours.
    """
    call = {"name": "f", "partialArgs": [{"jsonPath": path, "stringValue": "x"}], "willContinue": True}
    assert folded(chunk({"functionCall": call}, finishReason="STOP")).stop_reason == "error"


def test_arguments_out_of_order_still_amount_to_the_call() -> None:
    """
    A value that is given again goes on or is replaced, wherever it stands.
    """
    pieces = [("$.a", "x"), ("$.b", "y"), ("$.a", "z"), ("$.b", "")]
    parts = [{"jsonPath": path, "stringValue": value} for path, value in pieces]
    message = folded(chunk({"functionCall": {"name": "f", "partialArgs": parts}}, finishReason="STOP"))
    assert message.tool_calls[0].arguments == {"a": "xz", "b": "y"}


def test_stream_as_one_json_array_oddity_7() -> None:
    """
    Without `alt=sse` the chunks are the items of an array, however the bytes are cut.
    """
    chunks = [chunk({"text": "a"}), chunk({"text": "b"}, finishReason="STOP")]
    assert isinstance(google.framing("application/json; charset=UTF-8"), JSONArray)
    assert isinstance(google.framing("text/event-stream"), SSE)
    assert isinstance(google.framing(), SSE)
    data = json.dumps(chunks).encode()
    framing, decoder = google.framing("application/json"), google.StreamDecoder()
    events: list[StreamEvent] = []
    for at in range(0, len(data), 7):
        for frame in framing.feed(data[at : at + 7]):
            events += decoder.feed(frame)
    assert fold(events + decoder.close()).text == "ab"


def test_stream_without_a_reason_is_cut_off_and_keeps_what_came() -> None:
    """
    The end of the body is the end of the answer only after a reason; usage so far is kept.
    """
    message = folded({**chunk({"text": "a"}), "usageMetadata": {"promptTokenCount": 3, "totalTokenCount": 3}})
    assert (message.stop_reason, message.text, message.usage and message.usage.input) == ("error", "a", 3)
    aborted = google.StreamDecoder()
    aborted.feed(Frame(json.dumps(chunk({"text": "a"})).encode()))
    assert fold(aborted.close(aborted=True)).stop_reason == "aborted"


def test_proxies_may_end_a_stream_in_their_way() -> None:
    """
    `[DONE]` is no chunk and no fault; anything else that is not JSON is one.
    """
    data = sse([chunk({"text": "a"}, finishReason="STOP")])
    assert fold(decode_stream(data + b"data: [DONE]\n\n")).stop_reason == "stop"
    assert fold(decode_stream(data + b"data: nonsense\n\n")).stop_reason == "error"


def test_error_inside_a_stream() -> None:
    """
    It ends the stream with the provider's words, after whatever came before.
    """
    message = folded(
        chunk({"text": "a"}),
        {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}},
        chunk({"text": "b"}),
    )
    assert (
        message.stop_reason,
        message.stop_detail,
        message.error_message,
        message.text,
    ) == ("error", "UNAVAILABLE", "overloaded", "a")


@pytest.mark.parametrize("value", [5, "x", [], [{"text": "a"}], {"candidates": 5}, {"candidates": ["a"]}], ids=repr)
def test_nonsense_in_a_stream_is_an_error_event(value: Any) -> None:
    """
    Whatever a frame holds, the stream ends well-formed.
    """
    events = decode_stream(sse([value]))
    assert (Start, Error) == (type(events[0]), type(events[-1]))


def test_other_candidates_of_a_stream_are_kept_beside() -> None:
    """
    State is kept for each candidate; the first one is the message.
    """
    one = {"content": {"parts": [{"text": "x"}], "role": "model"}, "index": 1}
    two = {"content": {"parts": [{"text": "y"}], "role": "model"}, "index": 1, "finishReason": "STOP"}
    first = {"content": {"parts": [{"text": "b"}], "role": "model"}, "index": 0, "finishReason": "STOP"}
    message = folded(chunk({"text": "a"}, index=0), {"candidates": [one]}, {"candidates": [first, two]})
    assert message.text == "ab"
    other = {"content": {"parts": [{"text": "x"}, {"text": "y"}], "role": "model"}, "index": 1, "finishReason": "STOP"}
    assert [other] == message.extra[API]["~response"]["~others"]


def test_metadata_that_comes_in_pieces_is_put_together_case_57() -> None:
    """
    Lists go on, repeated ones are not doubled, an empty object takes nothing away.
    """
    message = folded(
        chunk({"text": "a"}, groundingMetadata={"webSearchQueries": ["a"]}, logprobsResult={"chosenCandidates": [1]}),
        chunk(
            {"text": "b"}, groundingMetadata={"webSearchQueries": ["a", "b"]}, logprobsResult={"chosenCandidates": [1]}
        ),
        chunk({"text": "c"}, groundingMetadata={"imageSearchQueries": ["c"]}),
        chunk(groundingMetadata={}, finishReason="STOP"),
    )
    candidate = message.extra[API]["~response"]["~candidate"]
    assert candidate["groundingMetadata"] == {"webSearchQueries": ["a", "b"], "imageSearchQueries": ["c"]}
    assert candidate["logprobsResult"] == {"chosenCandidates": [1, 1]}


@given(messages_for_answers(API), st.sampled_from([None, 1, 3]))
def test_our_stream_amounts_to_our_answer(message: AssistantMessage, size: int | None) -> None:
    """
    The same message said whole and in pieces is heard as the same, at all three hosts.
    """
    for wire in (google, VERTEX, CLI):
        whole = wire.decode_response(json.loads(json.dumps(wire.encode_response(message).body)))
        assert whole == fold(decode_stream(streamed(message, wire, size), wire))


def test_blocks_that_overlap_are_encoded_one_after_the_other() -> None:
    """
    Parts have no index: what a later block says waits until the earlier one has ended.
    """
    encoder = google.StreamEncoder()
    call = ToolCall(id="c", name="f", arguments={})
    events: list[StreamEvent] = [
        Start(),
        TextStart(0),
        TextDelta(0, "a"),
        ToolCallStart(1, call),
        ToolCallEnd(1, call),
        TextStart(2),
        TextDelta(2, "c"),
        TextDelta(0, "b"),
        TextEnd(0, "ab"),
        TextEnd(2, "c"),
        Done("toolUse", AssistantMessage(content=(), stop_reason="toolUse")),
    ]
    data = b"".join(map(encoder.feed, events))
    assert (TextBlock(text="ab"), call, TextBlock(text="c")) == fold(decode_stream(data)).content
    assert encoder.feed(events[1]) + encoder.close() == b""


def test_stream_that_was_not_ended_says_so() -> None:
    """
    Closing without a terminal event is an error for the reader.
    """
    encoder = google.StreamEncoder()
    encoder.feed(Start())
    assert fold(decode_stream(encoder.close())).stop_reason == "error"


# --- google-genai as the reader --------------------------------------------------------------------------------------


def client(data: bytes) -> Any:
    http = httpx.Client(
        transport=httpx.MockTransport(
            lambda request: httpx.Response(200, content=data, headers={"content-type": "text/event-stream"})
        )
    )
    return genai.Client(api_key="none", http_options=types.HttpOptions(httpx_client=http))


def test_google_itself_reads_our_stream() -> None:
    """
    Its own client finds the thoughts, words, signatures and calls, the reason and the usage.
    """
    message = AssistantMessage(
        content=(
            ThinkingBlock(thinking="hm", thinking_signature=SIGNATURE),
            TextBlock(text="one"),
            TextBlock(text="two", text_signature=SIGNATURE),
            ToolCall(id="c", name="f", arguments={"a": [1]}),
        ),
        stop_reason="toolUse",
        model="m",
        response_id="r",
        usage=Usage.of(3, 4),
    )
    chunks = list(client(streamed(message, size=2)).models.generate_content_stream(model="m", contents="?"))
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts or ()]
    assert "".join(part.text or "" for part in parts if part.thought) == "hm"
    assert "".join(part.text or "" for part in parts if not part.thought) == "onetwo"
    assert [base64.b64decode(SIGNATURE)] * 2 == [part.thought_signature for part in parts if part.thought_signature]
    assert [
        (part.function_call.id, part.function_call.name, part.function_call.args)
        for part in parts
        if part.function_call
    ] == [("c", "f", {"a": [1]})]
    last = chunks[-1]
    assert (
        last.candidates[0].finish_reason.value,
        last.usage_metadata.total_token_count,
        last.model_version,
        last.response_id,
    ) == ("STOP", 7, "m", "r")


def test_google_itself_raises_on_our_errors() -> None:
    """
    A stream that failed raises in its client, with the words; one that was filtered ends with the reason.
    """
    failed = AssistantMessage(content=(), stop_reason="error", error_message="it broke")
    with pytest.raises(genai_errors.APIError, match="it broke"):
        list(client(streamed(failed)).models.generate_content_stream(model="m", contents="?"))
    filtered = AssistantMessage(content=(), stop_reason="error", stop_detail="SAFETY", error_message="no")
    (last,) = client(streamed(filtered)).models.generate_content_stream(model="m", contents="?")
    assert last.candidates[0].finish_reason == types.FinishReason.SAFETY


# --- errors, paths, conversations ------------------------------------------------------------------------------------


def error(code: int, message: str, status: str, *details: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37.5s"}
KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
ERRORS: list[tuple[int, Any, type[ProviderError], float | None]] = [
    (429, error(429, "quota", "RESOURCE_EXHAUSTED", {"violations": []}, RETRY), RateLimited, 37.5),
    (429, [error(429, "Please retry in 1m2.5s.", "RESOURCE_EXHAUSTED")], RateLimited, 62.5),
    (429, error(429, "Your quota will reset after 18h31m10s.", "RESOURCE_EXHAUSTED"), RateLimited, 66670.0),
    (429, error(429, "retry in 500ms", "RESOURCE_EXHAUSTED"), RateLimited, 0.5),
    (400, error(400, "API key not valid.", "INVALID_ARGUMENT", KEY), AuthFailed, None),
    (400, error(400, "Unknown name", "INVALID_ARGUMENT"), BadRequest, None),
    (
        400,
        error(400, "The input token count (5) exceeds the maximum number of tokens allowed (4).", "INVALID_ARGUMENT"),
        ContextTooLong,
        None,
    ),
    (403, error(403, "no", "PERMISSION_DENIED"), AuthFailed, None),
    (404, error(404, "no such model", "NOT_FOUND"), BadRequest, None),
    (503, error(503, "overloaded", "UNAVAILABLE"), Overloaded, None),
    (500, error(500, "internal", "INTERNAL"), ProviderError, None),
    (502, b"<html>bad gateway</html>", Overloaded, None),
    (0, error(503, "overloaded", "UNAVAILABLE"), Overloaded, None),
]


@pytest.mark.parametrize(("status", "wire", "kind", "delay"), ERRORS, ids=repr)
def test_errors_are_typed(status: int, wire: Any, kind: type[ProviderError], delay: float | None) -> None:
    """
    By status, code and wording; how long to wait is read from the details or the words.
    """
    found = google.decode_error(status, wire if isinstance(wire, bytes) else json.dumps(wire).encode())
    assert (kind, delay) == (type(found), found.retry_after)
    assert found.message
    assert google.decode_error(429, wire, {"Retry-After": "9"}).retry_after == 9


def test_errors_are_encoded_as_google_says_them() -> None:
    """
    Code, word and delay come back from the body that we make.
    """
    status, wire = google.encode_error(RateLimited("slow", retry_after=1.5))
    assert (status, wire["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
    again = google.decode_error(status, wire)
    assert (RateLimited, "slow", 1.5) == (type(again), again.message, again.retry_after)
    assert google.encode_error(Overloaded("busy"))[1]["error"]["status"] == "UNAVAILABLE"


PATHS = [
    (google, "gemini-x", False, "/models/gemini-x:generateContent"),
    (google, "gemini-x", True, "/models/gemini-x:streamGenerateContent?alt=sse"),
    (google, "tunedModels/a b", False, "/tunedModels/a%20b:generateContent"),
    (VERTEX, "gemini-x", True, "/publishers/google/models/gemini-x:streamGenerateContent?alt=sse"),
    (VERTEX, "meta/llama", False, "/publishers/meta/models/llama:generateContent"),
    (VERTEX, "publishers/google/models/x", False, "/publishers/google/models/x:generateContent"),
    (CLI, "gemini-x", True, "/v1internal:streamGenerateContent?alt=sse"),
    (CLI, "gemini-x", False, "/v1internal:generateContent"),
]


@pytest.mark.parametrize(("wire", "name", "stream", "expected"), PATHS)
def test_paths(wire: Any, name: str, stream: bool, expected: str) -> None:
    """
    Model and streaming are said in the path.
    """
    assert expected == wire.path(name, stream)


@pytest.mark.parametrize(
    "data", [FULL, FULL["contents"], json.dumps(FULL), {"contents": []}], ids=["body", "list", "text", "empty"]
)
def test_conversations_come_back(data: Any) -> None:
    """
    A request body or a bare list of its contents, read as a conversation.
    """
    conversation = load(dump(google.decode(data)), Conversation)
    assert (json.loads(data) if isinstance(data, str) else data) == google.encode(conversation).body


# --- variants --------------------------------------------------------------------------------------------------------

ENVELOPE = {
    "project": "p",
    "model": "gemini-x",
    "userAgent": "a",
    "requestId": "1",
    "request": {**FULL, "sessionId": "s"},
}


def test_variants_speak_under_their_own_names() -> None:
    """
    Messages read at Vertex AI are of its api, and that is no loss there.
    """
    request = VERTEX.decode_request({"contents": [model({"text": "a"})]})
    assert [request.context.messages[0].api, request.model.api] == ["google-vertex"] * 2  # type: ignore[union-attr]
    assert list(VERTEX.encode_request(request).losses) == []
    assert VERTEX.decode_response(ANSWER).api == "google-vertex"
    assert folded(body({"text": "a"}), wire=VERTEX).api == "google-vertex"


def test_envelope_of_gemini_cli() -> None:
    """
    Model and session are understood, everything around the request returns.
    """
    request = CLI.decode_request(ENVELOPE)
    assert (request.model.id, request.options.session_id) == ("gemini-x", "s")
    assert returned(ENVELOPE, CLI) == ENVELOPE
    moved = replace(request, model=ModelDescriptor(id="gemini-y"))
    assert CLI.encode_request(moved).body["model"] == "gemini-y"
    foreign = CLI.encode_request(asked(UserMessage(content=(TextBlock(text="a"),)), options=Options(session_id="s")))
    assert {"model": "gemini", "request": {"contents": [user({"text": "a"})], "sessionId": "s"}} == foreign.body
    assert list(foreign.losses) == []


@pytest.mark.parametrize(
    "wire", [FULL, {**ENVELOPE, "model": 5}, {"request": {"contents": []}}], ids=["plain", "odd", "bare"]
)
def test_odd_envelopes_come_back(wire: Any) -> None:
    """
    A body without its envelope, an envelope without a model.
    """
    assert wire == returned(wire, CLI)


@pytest.mark.parametrize("signature", ["", "c2ln", "c2k", "-_-_", "/+c=", "skip_thought_signature_validator"])
def test_signatures_in_base64_stay_as_they_are(signature: str) -> None:
    """
    Google's own, in either alphabet, padded or not.
    """
    part = {"text": "Hm.", "thought": True, "thoughtSignature": signature}
    message = google.decode_response(body(part))
    assert (ThinkingBlock(thinking="Hm.", thinking_signature=signature),) == message.content
    assert signature == google.encode_response(message).body["candidates"][0]["content"]["parts"][0]["thoughtSignature"]


@given(st.one_of(st.text(), st.text("ab+-/_=\ud800"), st.sampled_from(["sig-1", "c2l", "aW50ZXJsaW5ndWE6c2ln"])))
def test_signatures_of_others_are_bytes_and_come_back_as_they_were(signature: str) -> None:
    """
    Clients of Google read bytes, and refuse an answer in which a signature is anything else; they may return it in the
    other alphabet. What is no base64 but came on this wire is sent as it came.
    """
    for block in (
        ThinkingBlock(thinking="Hm.", thinking_signature=signature),
        TextBlock(text="Yes.", text_signature=signature),
        ToolCall(id="1", name="f", arguments={}, thought_signature=signature),
    ):
        wire = json.loads(google.encode_response(AssistantMessage(content=(block,))).bytes())
        (part,) = wire["candidates"][0]["content"]["parts"]
        sent = part["thoughtSignature"]
        assert (block,) == google.decode_response(wire).content
        read = types.Part.model_validate(part).model_dump(mode="json", exclude_none=True, by_alias=True)
        if sent != signature:
            for given in (read, {**part, "thoughtSignature": sent.translate(str.maketrans("-_", "+/"))}):
                (again,) = blocks_of(google.decode_response(body(given)).content)
                assert signature in (getattr(again, name, None) for name in _SIGNATURES)
        own = {**part, "thoughtSignature": signature}
        answer = google.encode_response(google.decode_response(body(own))).body
        assert [own] == answer["candidates"][0]["content"]["parts"]


_SIGNATURES = ("thinking_signature", "text_signature", "thought_signature")


def test_answers_of_gemini_cli_are_wrapped() -> None:
    """
    Whole or in chunks, the answer stands under `response`, with what stands beside it.
    """
    wrapped = {"response": ANSWER, "traceId": "t"}
    message = CLI.decode_response(wrapped)
    assert message.text == "Hi!"
    assert wrapped == answered(wrapped, CLI)
    assert answered(ANSWER, CLI) == ANSWER
    assert message == fold(decode_stream(streamed(message, CLI), CLI))
    chunks = [
        {"response": chunk({"text": "a"})},
        {"response": chunk({"text": "b"}, finishReason="STOP"), "traceId": "t"},
    ]
    assert folded(*chunks, wire=CLI).text == "ab"
    assert all("response" in json.loads(line[6:]) for line in streamed(message, CLI).split(b"\n\n") if line)


def test_errors_of_gemini_cli_come_without_the_envelope() -> None:
    """
    An error is an error, before the first chunk or after it.
    """
    wire = error(429, "quota", "RESOURCE_EXHAUSTED")
    with pytest.raises(RateLimited):
        CLI.decode_response(wire)
    assert folded({"response": chunk({"text": "a"})}, wire, wire=CLI).stop_detail == "RESOURCE_EXHAUSTED"
