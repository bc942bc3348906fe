"""Bedrock Converse: wire and meaning side by side, and botocore as the judge of what we write."""

import base64
import contextlib
import io
import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import botocore.session
import msgspec
import pytest
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.eventstream import EventStreamBuffer
from botocore.model import OperationModel, Shape
from botocore.validate import ParamValidator
from hypothesis import given
from hypothesis import strategies as st

from interlingua.dialects import bedrock as bedrock
from interlingua.dialects.bedrock import facts
from interlingua.dialects.bedrock.facts import GUARDED
from interlingua.dialects.framing import AWSEventStream, JSONArray, write_aws
from interlingua.dialects.provider_errors import is_overflow
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
    BlockEnd,
    Done,
    Error,
    StreamEvent,
    TextDelta,
    TextStart,
    ThinkingDelta,
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
    CacheMarker,
    Citation,
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

API = bedrock.API
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PDF = base64.b64encode(b"%PDF-1.7").decode()
CLAUDE = "anthropic.claude-sonnet-4-20250514-v1:0"

# botocore still calls datetime.utcnow, which newer Pythons warn about.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:botocore")


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def assistant(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


def call(id: str = "t1", **arguments: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": id, "name": "look", "input": arguments}}


def result(*content: Any, id: str = "t1", **more: Any) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": id, "content": list(content), **more}}


def returned(body: Any) -> Any:
    """A request after a trip through our own JSON."""
    return bedrock.encode_request(load(dump(bedrock.decode_request(body)), Request)).body


def asked(*messages: Any, options: Options | None = None, model: str = "m", **context: Any) -> Request:
    return Request(
        model=ModelDescriptor(id=model, api=API),
        context=Context(messages=messages, **context),
        options=options or Options(),
    )


def lost(encoded: Encoded) -> list[tuple[str, str]]:
    """The losses that matter: path and severity."""
    return [(loss.path, loss.severity) for loss in encoded.losses if loss.severity != "record"]


# --- requests --------------------------------------------------------------------------------------------------------

POINT = {"cachePoint": {"type": "default"}}
REQUESTS: dict[str, dict[str, Any]] = {
    "plain": {"messages": [user({"text": "Hi"})]},
    "empty objects": {"messages": [], "system": [], "inferenceConfig": {}, "toolConfig": {}, "requestMetadata": {}},
    "inference": {
        "messages": [],
        "inferenceConfig": {"maxTokens": 5, "temperature": 0.5, "topP": 1, "stopSequences": [], "x": 1},
    },
    "wrongly typed options": {"messages": [], "inferenceConfig": {"maxTokens": "5", "temperature": True}},
    "system with cache": {"messages": [], "system": [{"text": "a"}, POINT, {"text": "b"}]},
    "guarded system": {"messages": [], "system": [{"guardContent": {"text": {"text": "a", "qualifiers": ["query"]}}}]},
    "system that starts with a cache point": {"messages": [], "system": [POINT, {"text": "a"}]},
    "system of something else": {"messages": [], "system": [{"text": "a"}, {"image": {"format": "png"}}]},
    "cache points": {
        "messages": [
            user(POINT, {"text": "a"}, {"cachePoint": {"type": "default", "ttl": "1h"}}, POINT, {"text": "b"}, POINT),
            assistant({"reasoningContent": {"reasoningText": {"text": "t"}}}, POINT, call(), POINT),
            user(result({"text": "r"}), POINT, {"text": "and"}, POINT),
        ]
    },
    "results, words and a cache point in one message": {
        "messages": [
            assistant(call(), call("t2")),
            {**user(result({"text": "a"}), POINT, result(id="t2"), {"text": "b"}, result(id="t3")), "x": 1},
        ]
    },
    "results in separate messages": {"messages": [user(result()), user(result()), user({"text": "a"}, result())]},
    "result contents": {
        "messages": [
            user(
                result({"json": {"big": 2**63 + 1, "é": [None, 1.5]}}, {"json": []}, {"text": '{"a":1}'}),
                result(
                    {"image": {"format": "jpeg", "source": {"s3Location": {"uri": "s3://b/k"}}}},
                    {"document": {"name": "n", "source": {"text": "x"}}},
                    {"video": {"format": "three_gp", "source": {"bytes": "AAAA"}}},
                    {"searchResult": {"source": "s", "title": "t", "content": [{"text": "c"}]}},
                    {"audio": {"format": "mp3", "source": {"bytes": "AAAA"}}},
                    POINT,
                    status="success",
                ),
                result(status="error", type="tool_result"),
                {"toolResult": {"toolUseId": "t9"}},
            )
        ]
    },
    "media": {
        "messages": [
            user(
                {"image": {"format": "png", "source": {"bytes": PNG, "x": 1}, "error": {"message": "m"}}},
                {"image": {"format": "bmp", "source": {"bytes": PNG}}},
                {"audio": {"format": "mka", "source": {"bytes": "AAAA"}}},
                {"video": {"format": "mpg", "source": {"s3Location": {"uri": "s3://b/k", "bucketOwner": "1"}}}},
                {"document": {"format": "pdf", "name": "n", "source": {"bytes": PDF}, "context": "c"}},
                {"document": {"name": "n", "source": {"content": [{"text": "a"}]}, "citations": {"enabled": True}}},
                {"document": {"name": "n", "source": {"content": [{"text": "a"}, {"text": ""}, {"text": "b"}]}}},
                {"document": {"name": "n", "source": {"content": [{"text": "a", "x": 1}]}}},
            )
        ]
    },
    "text in blocks of its own": {
        "messages": [
            user({"guardContent": {"text": {"text": "q", "qualifiers": ["query"]}}}, {"text": "a", "x": [1]}),
            user({"guardContent": {"image": {"format": "png", "source": {"bytes": PNG}}}}),
            assistant(
                {
                    "citationsContent": {
                        "content": [{"text": "a"}, {"text": "b"}],
                        "citations": [
                            {"title": "t", "sourceContent": [{"text": "x"}, {"text": "y"}], "source": "s"},
                            {"location": {"web": {"url": "https://a.example", "domain": "a.example"}}},
                            {"location": {"documentChar": {"documentIndex": 0, "start": 1, "end": 2}}},
                        ],
                    }
                },
                {"citationsContent": {"content": [{"text": "uncited"}], "citations": []}},
                {"citationsContent": {"content": [], "citations": [{}]}},
            ),
        ]
    },
    "reasoning": {
        "messages": [
            assistant(
                {"reasoningContent": {"reasoningText": {"text": "a", "signature": "c2ln"}}},
                {"text": "b"},
                {"reasoningContent": {"redactedContent": "c2VhbGVk"}},
                {"reasoningContent": {"reasoningText": {"text": "", "signature": "", "x": None}}},
                {"reasoningContent": {"somethingNew": 1}},
            )
        ]
    },
    "tools that the provider runs": {
        "messages": [
            assistant(
                {"toolUse": {"toolUseId": "s1", "name": "code", "input": {"a": 1}, "type": "server_tool_use"}},
                {
                    "toolResult": {
                        "toolUseId": "s1",
                        "content": [{"json": {}}],
                        "type": "code_result",
                        "status": "error",
                    }
                },
                {"toolResult": {"toolUseId": "s1", "content": []}},
                {"toolUse": {"toolUseId": "t1", "name": "look", "input": {}, "type": "tool_use"}},
            )
        ],
        "toolConfig": {"tools": [{"systemTool": {"name": "code"}}, POINT]},
    },
    "tools": {
        "messages": [],
        "toolConfig": {
            "tools": [
                {"toolSpec": {"name": "a", "description": "d", "inputSchema": {"json": {"type": "object"}}}},
                POINT,
                POINT,
                {"toolSpec": {"name": "b", "inputSchema": {"json": {}, "x": 1}, "strict": True, "y": 2}},
                {"toolSpec": {"name": "c"}, "z": 3},
                {"somethingNew": {}},
            ],
            "toolChoice": {"tool": {"name": "a", "x": 1}},
            "y": 1,
        },
    },
    "any tool": {"messages": [], "toolConfig": {"tools": [], "toolChoice": {"any": {}}}},
    "a choice not known": {"messages": [], "toolConfig": {"tools": [], "toolChoice": {"some": {}}}},
    "Claude's thinking": {
        "messages": [],
        "additionalModelRequestFields": {
            "thinking": {"type": "enabled", "budget_tokens": 1024, "display": "summarized"},
            "top_k": 5,
            "anthropic_beta": ["interleaved-thinking-2025-05-14"],
        },
    },
    "adaptive thinking with effort": {
        "messages": [],
        "additionalModelRequestFields": {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
    },
    "effort in the wire's own place": {"messages": [], "outputConfig": {"effort": "low"}},
    "reasoning as it was spelled once": {
        "messages": [],
        "additionalModelRequestFields": {"reasoning_config": {"type": "enabled", "budget_tokens": 1024}},
    },
    "reasoning of gpt-oss": {"messages": [], "additionalModelRequestFields": {"reasoning_effort": "medium"}},
    "fields of other models": {"messages": [], "additionalModelRequestFields": {"inferenceConfig": {"topK": 10}}},
    "thinking not known": {"messages": [], "additionalModelRequestFields": {"thinking": {"type": "deep"}}},
    "structured output": {
        "messages": [],
        "outputConfig": {
            "textFormat": {
                "type": "json_schema",
                "structure": {"jsonSchema": {"schema": '{ "type": "object" }', "name": "n", "x": 1}},
            }
        },
    },
    "everything else": {
        "messages": [],
        "modelId": CLAUDE,
        "guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1", "trace": "enabled"},
        "performanceConfig": {"latency": "optimized"},
        "promptVariables": {"a": {"text": "b"}},
        "additionalModelResponseFieldPaths": ["/stop_sequence"],
        "requestMetadata": {"a": "b"},
        "serviceTier": {"type": "flex", "x": 1},
        "somethingNew": [1],
    },
    "other roles": {"messages": [{"role": "system", "content": [{"text": "a"}]}, {"role": "new", "content": 1}]},
    "content that is no list": {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant"}]},
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_comes_back_as_it_was(name: str) -> None:
    """
    Whatever a request says, known or not, is said again after a trip through our own JSON.
    """
    assert REQUESTS[name] == returned(REQUESTS[name])


READ: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "text and a picture": (
        user({"text": "Hi"}, {"image": {"format": "png", "source": {"bytes": PNG}}}),
        (UserMessage(content=(TextBlock(text="Hi"), ImageBlock(data=PNG, mime_type="image/png"))),),
    ),
    "a cache point marks what comes before it": (
        user({"text": "Hi"}, {"cachePoint": {"type": "default", "ttl": "1h"}}),
        (UserMessage(content=(TextBlock(text="Hi", cache=CacheMarker(ttl="1h")),)),),
    ),
    "files": (
        user(
            {"document": {"format": "md", "name": "n", "source": {"text": "x"}, "citations": {"enabled": True}}},
            {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://b/k"}}}},
            {"audio": {"format": "wav", "source": {"bytes": "AAAA"}}},
        ),
        (
            UserMessage(
                content=(
                    DocumentBlock(text="x", mime_type="text/markdown", title="n", citations=True),
                    DocumentBlock(url="s3://b/k", mime_type="video/mp4"),
                    AudioBlock(data="AAAA", mime_type="audio/wav"),
                )
            ),
        ),
    ),
    "an answer": (
        assistant(
            {"reasoningContent": {"reasoningText": {"text": "t", "signature": "s"}}},
            {"reasoningContent": {"redactedContent": "c2VhbGVk"}},
            call(q=1),
        ),
        (
            AssistantMessage(
                content=(
                    ThinkingBlock(thinking="t", thinking_signature="s"),
                    ThinkingBlock(thinking="", thinking_signature="c2VhbGVk", redacted=True),
                    ToolCall(id="t1", name="look", arguments={"q": 1}),
                ),
                api=API,
            ),
        ),
    ),
    "results are messages of their own": (
        user(result({"text": "a"}, status="error"), result({"text": "b"}, id="t2")),
        (
            ToolResultMessage(tool_call_id="t1", content=(TextBlock(text="a"),), is_error=True),
            ToolResultMessage(tool_call_id="t2", content=(TextBlock(text="b"),), is_error=False),
        ),
    ),
    "a result may state its type, and have no content": (
        user(result({"text": "a"}, type="tool_result"), {"toolResult": {"toolUseId": "t2", "content": None}}),
        (
            ToolResultMessage(
                tool_call_id="t1",
                content=(TextBlock(text="a"),),
                is_error=False,
                extra={API: {"~": {"toolResult": {"in": {"type": "tool_result"}}}}},
            ),
            ToolResultMessage(
                tool_call_id="t2",
                content=None,
                is_error=False,
                extra={API: {"~": {"toolResult": {"in": {"~": {"content": {"said": [], "wire": None}}}}}}},
            ),
        ),
    ),
    "a result of a tool of the provider": (
        assistant(
            {"toolUse": {"toolUseId": "t1", "name": "nova_grounding", "input": {}, "type": "server_tool_use"}},
            result({"text": "a"}, type="nova_grounding_result", status="error"),
            result({"text": "b"}),
        ),
        (
            AssistantMessage(
                content=(
                    ServerToolCall(id="t1", name="nova_grounding", arguments={}),
                    ServerToolResult(
                        tool_call_id="t1",
                        tool_name="nova_grounding",
                        dialect=API,
                        content=[{"text": "a"}],
                        is_error=True,
                    ),
                    ServerToolResult(
                        tool_call_id="t1",
                        tool_name="",
                        dialect=API,
                        content=[{"text": "b"}],
                        extra={API: {"~": {"toolResult": {"in": {"~": {"type": {"said": "_result"}}}}}}},
                    ),
                ),
                api=API,
            ),
        ),
    ),
    "what is no result and no text is kept as it is": (
        user(*(ODD := ({"toolResult": {"toolUseId": 5, "content": []}}, {"toolResult": 5}, {"text": 5}))),
        (UserMessage(content=tuple(OpaqueBlock(dialect=API, value=odd) for odd in ODD)),),
    ),
    "results that are none of calls, and a text with a field of its own": (
        user(
            {"toolResult": {"toolUseId": "t1", "content": "a"}},
            result({"text": "a"}, type="x_result"),
            {"text": "b", "new": 1},
        ),
        (
            UserMessage(
                content=(
                    ServerToolResult(
                        tool_call_id="t1",
                        tool_name="",
                        dialect=API,
                        content="a",
                        extra={API: {"~": {"toolResult": {"in": {"~": {"type": {"said": "_result"}}}}}}},
                    ),
                    ServerToolResult(tool_call_id="t1", tool_name="x", dialect=API, content=[{"text": "a"}]),
                    TextBlock(text="b", extra={API: {"new": 1}}),
                )
            ),
        ),
    ),
}


@pytest.mark.parametrize("name", READ)
def test_a_message_means(name: str) -> None:
    """
    Wire and meaning side by side.
    """
    wire, expected = READ[name]
    assert expected == bedrock.decode_request({"messages": [wire]}).context.messages


def test_words_of_cited_guarded_and_json_blocks_are_text_for_everyone() -> None:
    """
    What other wires can say is a field; only the shape stays ours.
    """
    cited = {
        "citationsContent": {
            "content": [{"text": "So "}, {"text": "it is."}],
            "citations": [{"title": "t", "sourceContent": [{"text": "it is"}], "location": {"web": {"url": "u"}}}],
        }
    }
    guarded = {"guardContent": {"text": {"text": "q"}}}
    read = bedrock.decode_request({"messages": [assistant(cited, guarded), user(result({"json": {"a": [1, "é"]}}))]})
    answer, tool_result = read.context.messages
    assert answer.text == "So it is.q"  # type: ignore[union-attr]
    assert (Citation(title="t", url="u", cited_text="it is"),) == answer.content[0].citations  # type: ignore[index,union-attr]
    assert tool_result.content[0].text == '{"a":[1,"é"]}'  # type: ignore[index,union-attr]


def test_the_texts_of_a_citation_come_apart_as_they_were() -> None:
    """
    By their lengths alone; the words are not kept twice.
    """
    cited = {"content": [{"text": "a"}, {"text": "bc"}], "citations": []}
    body = {"messages": [assistant({"citationsContent": cited})]}
    read = bedrock.decode_request(body, model=CLAUDE)
    (block,) = read.context.messages[0].content
    assert TextBlock(text="abc", extra={bedrock.API: {"~cited": [1, 2]}}) == block
    assert body == bedrock.encode_request(read).body


def test_thinking_between_tools_alone_is_off() -> None:
    """
    Nothing is thought before the answer, and the value returns.
    """
    body = {"messages": [], "additionalModelRequestFields": {"thinking": {"type": "between_tools"}}}
    read = bedrock.decode_request(body, model=CLAUDE)
    assert read.options.reasoning is not None and read.options.reasoning.enabled is False
    assert body == bedrock.encode_request(read).body


def test_changed_content_is_not_overruled_by_how_it_looked() -> None:
    """
    Hints about shape are followed only as long as their premise holds.
    """
    wire = {
        "messages": [
            assistant({"citationsContent": {"content": [{"text": "a"}, {"text": "b"}], "citations": [{"title": "t"}]}}),
            user(result({"json": {"a": 1}}, {"json": {"b": 1}}, status="success")),
        ]
    }
    answer, tool_result = bedrock.decode_request(wire).context.messages
    cited = replaced(answer.content[0], text="changed")  # type: ignore[index]
    first, second = tool_result.content  # type: ignore[misc]
    request = asked(
        replaced(answer, content=(cited,)),
        replaced(
            tool_result, content=(replaced(first, text="no JSON"), replaced(second, text='{"b":2}')), is_error=True
        ),
    )
    encoded = bedrock.encode_request(request).body["messages"]
    assert encoded[0]["content"][0]["citationsContent"]["content"] == [{"text": "changed"}]
    assert encoded[1]["content"][0]["toolResult"] == {
        "toolUseId": "t1",
        "content": [{"text": "no JSON"}, {"json": {"b": 2}}],
        "status": "error",
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"reasoning_effort": "low"}, {"reasoning_effort": "high"}),
        (
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
        ),
    ],
)
def test_an_effort_that_is_changed_stays_in_its_field(before: dict[str, Any], after: dict[str, Any]) -> None:
    request = bedrock.decode_request({"messages": [], "additionalModelRequestFields": before})
    reasoning = replaced(request.options.reasoning, effort="high")
    encoded = bedrock.encode_request(replaced(request, options=replaced(request.options, reasoning=reasoning)))
    assert encoded.body == {"messages": [], "additionalModelRequestFields": after}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 9}}, Reasoning(budget=9)),
        ({"thinking": {"type": "enabled"}}, None),
        ({"thinking": {"type": "adaptive"}}, Reasoning(enabled=True)),
        ({"thinking": {"type": "adaptive", "display": "summarized"}}, Reasoning(enabled=True, summary="auto")),
        ({"output_config": {"effort": "low"}}, Reasoning(effort="low")),
        ({"reasoning_effort": "low", "thinking": {"type": "enabled", "budget_tokens": 9}}, Reasoning(budget=9)),
        ({"reasoning_effort": "low"}, Reasoning(effort="low")),
        ({"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}}, Reasoning(effort="low")),
        ({"reasoningConfig": {"type": "enabled"}}, Reasoning(enabled=True)),
        ({"reasoningConfig": {"type": "disabled"}}, Reasoning(enabled=False)),
        (
            {"reasoningConfig": {"type": "disabled"}, "thinking": {"type": "enabled", "budget_tokens": 9}},
            Reasoning(budget=9),
        ),
    ],
)
def test_reasoning_is_read_from_the_fields_of_every_family(fields: dict[str, Any], expected: Reasoning | None) -> None:
    found = bedrock.decode_request({"messages": [], "additionalModelRequestFields": fields}).options.reasoning
    assert found == expected or (found is not None and replaced(found, extra={}) == expected)


def test_markers_of_tools_and_of_system_text_are_cache_points() -> None:
    spec = {"name": "look", "inputSchema": {"json": {"type": "object"}}}
    body = {
        "messages": [],
        "system": [{"text": "Be brief."}, POINT, {"text": "Be kind."}],
        "toolConfig": {"tools": [{"toolSpec": spec}, POINT]},
    }
    request = bedrock.decode_request(body)
    assert request.context.system == (TextBlock(text="Be brief.", cache=CacheMarker()), TextBlock(text="Be kind."))
    assert [tool.cache for tool in request.context.tools or ()] == [CacheMarker()]
    assert bedrock.encode_request(replaced(request, extra={})).body == body


def test_tools_and_schemas_are_read_and_written_field_by_field() -> None:
    spec = {
        "name": "look",
        "description": "Looks.",
        "inputSchema": {"json": {"type": "object"}},
        "strict": True,
    }
    form = {"schema": '{"type":"object"}', "name": "n", "description": "d"}
    body = {
        "messages": [],
        "toolConfig": {"tools": [{"toolSpec": spec}]},
        "outputConfig": {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": form}}},
    }
    tool = ToolSpec(name="look", description="Looks.", input_schema={"type": "object"}, strict=True)
    schema = OutputSchema(schema={"type": "object"}, name="n", description="d")
    request = bedrock.decode_request(body)
    assert (request.context.tools, request.options.output_schema) == ((tool,), schema)
    assert bedrock.encode_request(asked(tools=(tool,), options=Options(output_schema=schema))).body == body


@pytest.mark.parametrize("summary", [None, "auto"])
@pytest.mark.parametrize("effort", [None, "low"])
def test_summaries_and_efforts_are_written_beside_a_budget(summary: Any, effort: str | None) -> None:
    reasoning = Reasoning(budget=2048, summary=summary, effort=effort)
    body = bedrock.encode_request(asked(options=Options(reasoning=reasoning))).body
    shown = {"display": "summarized"} if summary else {}
    assert body["additionalModelRequestFields"] == {"thinking": {"type": "enabled", "budget_tokens": 2048, **shown}}
    assert bedrock.decode_request(body).options.reasoning == reasoning


def test_a_string_of_a_message_is_a_block_and_on_record() -> None:
    encoded = bedrock.encode_request(asked(UserMessage(content="Hi")))
    assert encoded.body == {"messages": [user({"text": "Hi"})]}
    assert [(loss.path, loss.severity) for loss in encoded.losses] == [("$.messages[0].content", "record")]
    (message,) = bedrock.encode_request(asked(UserMessage(content="Hi", extra={API: {"new": 1}}))).body["messages"]
    assert message == {**user({"text": "Hi"}), "new": 1}


def test_a_tool_of_the_provider_has_its_name_or_that_of_its_kind() -> None:
    tools = [{"systemTool": {"name": "nova_grounding"}}, {"newTool": {}}]
    request = bedrock.decode_request({"messages": [], "toolConfig": {"tools": tools}})
    assert [tool.name for tool in request.context.tools or ()] == ["nova_grounding", "newTool"]
    assert bedrock.encode_request(request).body == {"messages": [], "toolConfig": {"tools": tools}}


def test_thinking_that_is_off_has_no_display() -> None:
    body = bedrock.encode_request(asked(options=Options(reasoning=Reasoning(enabled=False, summary="auto")))).body
    assert body["additionalModelRequestFields"] == {"thinking": {"type": "disabled"}}


def test_a_string_of_system_text_is_a_block() -> None:
    encoded = bedrock.encode_request(asked(system="Be brief."))
    assert encoded.body == {"messages": [], "system": [{"text": "Be brief."}]}
    assert [(loss.path, loss.severity) for loss in encoded.losses] == [("$.system", "record")]
    cited = TextBlock(text="Be brief.", citations=(Citation(title="t"),))
    (loss,) = bedrock.encode_request(asked(system=(cited,))).losses
    assert loss.path == "$.system[0].citations"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"bytes": PDF}, {"data": PDF}),
        ({"content": [{"text": "a"}, {"text": "b"}]}, {"text": "ab"}),
        ({"text": "a"}, {"text": "a"}),
        ({"s3Location": {"uri": "s3://b/k"}}, {"url": "s3://b/k"}),
    ],
)
def test_a_document_is_read_whatever_its_source(source: dict[str, Any], expected: dict[str, Any]) -> None:
    given = {"format": "pdf", "name": "n", "context": "c", "citations": {"enabled": True}, "source": source}
    (message,) = bedrock.decode_request({"messages": [user({"document": given})]}).context.messages
    (block,) = message.content  # type: ignore[union-attr, misc]
    meant = DocumentBlock(**expected, mime_type="application/pdf", title="n", context="c", citations=True)
    assert msgspec.structs.replace(block, extra={}) == meant  # type: ignore[type-var]
    changed = msgspec.structs.replace(block, title="m")  # type: ignore[type-var]
    (message,) = bedrock.encode_request(asked(UserMessage(content=(changed,)))).body["messages"]  # type: ignore[arg-type]
    assert message["content"] == [{"document": {**given, "name": "m"}}]


def test_a_citation_has_a_place_only_if_it_names_one() -> None:
    for citation, expected in (
        (Citation(title="t"), {"title": "t"}),
        (
            Citation(title="t", url="https://a.example"),
            {"title": "t", "location": {"web": {"url": "https://a.example"}}},
        ),
    ):
        answer = AssistantMessage(content=(TextBlock(text="a", citations=(citation,)),))
        (message,) = bedrock.encode_request(asked(answer)).body["messages"]
        assert message["content"][0]["citationsContent"]["citations"] == [expected]


def test_results_are_named_by_the_tools_that_were_called() -> None:
    request = bedrock.decode_request({"messages": [assistant(call()), user(result({"text": "12"}))]})
    assert [message.tool_name for message in request.context.messages[1:]] == ["look"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "block",
    [
        {"cachePoint": "x"},
        {"cachePoint": {"type": "default"}, "new": 1},
        {"citationsContent": {"content": [{"text": "a", "new": 1}], "citations": [{"title": "t"}]}},
        {"toolUse": {"name": "look"}},
    ],
)
def test_blocks_of_another_shape_are_kept_as_they_are(block: dict[str, Any]) -> None:
    body = {"messages": [user({"text": "Hi"}, block)]}
    (message,) = bedrock.decode_request(body).context.messages
    assert message.content == (TextBlock(text="Hi"), OpaqueBlock(dialect=API, value=block))  # type: ignore[union-attr]
    assert returned(body) == body


def test_a_document_of_a_bucket_is_named_by_its_address() -> None:
    block = DocumentBlock(url="s3://b/k.pdf", mime_type="application/pdf", title="n")
    (message,) = bedrock.encode_request(asked(UserMessage(content=(block,)))).body["messages"]
    document = {"format": "pdf", "name": "n", "source": {"s3Location": {"uri": "s3://b/k.pdf"}}}
    assert message["content"] == [{"document": document}]


def test_a_role_that_is_not_known_is_no_field_of_its_message() -> None:
    body = {"messages": [{"role": "critic", "content": [{"text": "Hm."}]}]}
    (message,) = bedrock.decode_request(body).context.messages
    assert (message.role, message.fields) == ("critic", {"content": [{"text": "Hm."}]})  # type: ignore[union-attr]
    assert returned(body) == body


def test_a_document_in_pieces_is_sent_in_pieces_of_its_text() -> None:
    """Not in those that it was read from, if the text has changed since."""
    document = {"format": "md", "name": "n", "source": {"content": [{"text": "one"}, {"text": "two"}]}}
    (message,) = bedrock.decode_request({"messages": [user({"document": document})]}).context.messages
    (block,) = message.content  # type: ignore[union-attr, misc]
    changed = asked(UserMessage(content=(replaced(block, text="onesix"),)))
    (sent,) = bedrock.encode_request(changed).body["messages"][0]["content"]
    assert sent["document"]["source"] == {"content": [{"text": "one"}, {"text": "six"}]}


def test_a_document_of_text_is_its_text() -> None:
    document = {"format": "md", "name": "n", "source": {"text": "x"}}
    (message,) = bedrock.decode_request({"messages": [user({"document": document})]}).context.messages
    (block,) = message.content  # type: ignore[union-attr, misc]
    assert (block.text, block.mime_type) == ("x", "text/markdown")  # type: ignore[union-attr]
    guarded = user({"guardContent": {"text": {"text": "a"}}})
    request = bedrock.decode_request({"messages": [guarded]})
    (text,) = request.context.messages[0].content  # type: ignore[union-attr, misc]
    changed = asked(UserMessage(content=(replaced(text, text="b"),)))
    assert bedrock.encode_request(changed).body["messages"] == [user({"guardContent": {"text": {"text": "b"}}})]


def test_a_schema_that_is_changed_is_the_one_that_is_sent() -> None:
    """
    Its text as the client spelled it is kept only as long as it is that schema.
    """

    def body(text: str) -> dict[str, Any]:
        form = {"type": "json_schema", "structure": {"jsonSchema": {"schema": text}}}
        return {"messages": [], "outputConfig": {"textFormat": form}}

    request = bedrock.decode_request(body('{ "type": "object" }'))
    schema = request.options.output_schema
    for text, value in (('{ "type": "object" }', {"type": "object"}), ('{"type":"array"}', {"type": "array"})):
        options = replaced(request.options, output_schema=replaced(schema, schema=value))
        assert bedrock.encode_request(replaced(request, options=options, extra={})).body == body(text)


def replaced(value: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(value, **fields)


OPTIONS: list[tuple[Options, dict[str, Any]]] = [
    (
        Options(max_tokens=5, temperature=0, top_p=0.5, stop=("x",)),
        {"inferenceConfig": {"maxTokens": 5, "temperature": 0, "topP": 0.5, "stopSequences": ["x"]}},
    ),
    (
        Options(top_k=3, reasoning=Reasoning(budget=2048)),
        {"additionalModelRequestFields": {"top_k": 3, "thinking": {"type": "enabled", "budget_tokens": 2048}}},
    ),
    (
        Options(reasoning=Reasoning(effort="high")),
        {"additionalModelRequestFields": {"thinking": {"type": "adaptive"}}, "outputConfig": {"effort": "high"}},
    ),
    (
        Options(reasoning=Reasoning(enabled=False)),
        {"additionalModelRequestFields": {"thinking": {"type": "disabled"}}},
    ),
    (Options(tool_choice=ToolChoice(mode="auto")), {"toolConfig": {"toolChoice": {"auto": {}}}}),
    (Options(tool_choice=ToolChoice(mode="required")), {"toolConfig": {"toolChoice": {"any": {}}}}),
    (
        Options(tool_choice=ToolChoice(mode="required", names=("a",))),
        {"toolConfig": {"toolChoice": {"tool": {"name": "a"}}}},
    ),
    (
        Options(output_schema=OutputSchema(schema={"type": "object"}, name="n")),
        {
            "outputConfig": {
                "textFormat": {
                    "type": "json_schema",
                    "structure": {"jsonSchema": {"schema": '{"type":"object"}', "name": "n"}},
                }
            }
        },
    ),
    (
        Options(service_tier="flex", metadata={"a": "b"}),
        {"serviceTier": {"type": "flex"}, "requestMetadata": {"a": "b"}},
    ),
]


@pytest.mark.parametrize(("options", "wire"), OPTIONS)
def test_options_are_encoded_and_read(options: Options, wire: dict[str, Any]) -> None:
    """
    Each option has one place in the wire, in both directions.
    """
    encoded = bedrock.encode_request(asked(options=options))
    assert {"messages": [], **wire} == encoded.body
    assert lost(encoded) == []
    assert options == bedrock.decode_request(encoded.body).options


@pytest.mark.parametrize(
    ("reasoning", "model", "path"),
    [
        (Reasoning(), "m", "$.options.reasoning"),
        (Reasoning(enabled=True, budget=2048), "m", "$.options.reasoning.enabled"),
        (Reasoning(enabled=True, effort="low"), "m", "$.options.reasoning.enabled"),
        (Reasoning(enabled=True), "m", None),
        (Reasoning(enabled=True, effort="low"), "amazon.nova-2-lite-v1:0", "$.options.reasoning.enabled"),
        (Reasoning(enabled=True), "amazon.nova-2-lite-v1:0", None),
    ],
)
def test_what_a_request_means_without_saying_it_is_on_record(
    reasoning: Reasoning, model: str, path: str | None
) -> None:
    encoded = bedrock.encode_request(asked(options=Options(reasoning=reasoning), model=model))
    assert [loss.path for loss in encoded.losses] == ([] if path is None else [path])
    assert {loss.severity for loss in encoded.losses} <= {"record"}
    assert ("additionalModelRequestFields" in encoded.body) == (reasoning != Reasoning())


def test_models_of_openai_take_a_word_for_the_effort() -> None:
    """
    The same option is spelled as the model family understands it.
    """
    request = asked(options=Options(reasoning=Reasoning(effort="low", budget=9)), model="openai.gpt-oss-120b-1:0")
    encoded = bedrock.encode_request(request)
    assert encoded.body["additionalModelRequestFields"] == {"reasoning_effort": "low"}
    assert lost(encoded) == [("$.options.reasoning.budget", "dropped")]


def test_the_model_and_the_streaming_are_encoded_by_the_path() -> None:
    """
    A body says neither, so they are arguments; ids with slashes and colons are quoted.
    """
    read = bedrock.decode_request(REQUESTS["plain"], model=CLAUDE, stream=True)
    assert (read.model.id, read.options.stream) == (CLAUDE, True)
    assert REQUESTS["plain"] == bedrock.encode_request(read).body
    assert bedrock.path("anthropic.claude-v2:1", False) == "/model/anthropic.claude-v2%3A1/converse"
    assert (
        bedrock.path("arn:aws:bedrock:eu:1:p/x", True) == "/model/arn%3Aaws%3Abedrock%3Aeu%3A1%3Ap%2Fx/converse-stream"
    )


LOSSES: list[tuple[Request, list[tuple[str, str]]]] = [
    (asked(UserMessage(content="a string becomes a block")), []),
    (
        asked(UserMessage(content=(ImageBlock(url="https://a.example/b.png"),))),
        [("$.messages[0].content[0]", "dropped")],
    ),
    (
        asked(UserMessage(content=(ImageBlock(data=PNG, mime_type="image/bmp"),))),
        [("$.messages[0].content[0]", "dropped")],
    ),
    (
        asked(UserMessage(content=(ImageBlock(data=PNG, mime_type="image/jpg", detail="low"),))),
        [("$.messages[0].content[0].mimeType", "weakened"), ("$.messages[0].content[0].detail", "dropped")],
    ),
    (
        asked(UserMessage(content=(DocumentBlock(text="{}", mime_type="application/json", title="n"),))),
        [("$.messages[0].content[0].mimeType", "weakened")],
    ),
    (
        asked(ToolResultMessage(tool_call_id="1", content=(AudioBlock(data="AAAA"),), is_error=False)),
        [("$.messages[0].content[0]", "dropped")],
    ),
    (
        asked(ToolResultMessage(tool_call_id="1", content=(TextBlock(text="", cache=CacheMarker()),), is_error=False)),
        [("$.messages[0].content[0].cache", "dropped")],
    ),
    (
        asked(AssistantMessage(content=(OpaqueBlock(dialect="other", value={}),))),
        [("$.messages[0].content[0]", "dropped")],
    ),
    (asked(options=Options(tool_choice=ToolChoice(mode="none"))), [("$.options.toolChoice", "dropped")]),
    (asked(options=Options(output_schema=OutputSchema())), [("$.options.outputSchema", "dropped")]),
    (asked(options=Options(metadata={"a": 1})), [("$.options.metadata", "weakened")]),
    (
        asked(options=Options(seed=1, cache_retention="long")),
        [("$.options.seed", "dropped"), ("$.options.cacheRetention", "dropped")],
    ),
    (asked(tools=(ToolSpec(name="x", dialect="other", value={}),)), [("$.tools[0]", "dropped")]),
    (
        asked(
            UserMessage(content=(TextBlock(text="a", citations=(Citation(title="t"),), extra={API: {GUARDED: True}}),))
        ),
        [("$.messages[0].content[0].citations", "dropped")],
    ),
    (
        asked(AssistantMessage(content=(ThinkingBlock(thinking="t", thinking_signature="c2Vh", redacted=True),))),
        [("$.messages[0].content[0].thinking", "dropped")],
    ),
    (
        asked(options=Options(reasoning=Reasoning(enabled=False, summary="auto"))),
        [("$.options.reasoning.summary", "dropped")],
    ),
    (
        asked(UserMessage(content=(ImageBlock(data=PNG, url="s3://b/k.png", mime_type="image/png"),))),
        [("$.messages[0].content[0].url", "dropped")],
    ),
    (
        asked(UserMessage(content=(DocumentBlock(text="x", mime_type="video/mp4"),))),
        [("$.messages[0].content[0]", "dropped")],
    ),
    (
        asked(ToolResultMessage(tool_call_id="1", content=(TextBlock(text="a", citations=(Citation(title="t"),)),))),
        [("$.messages[0].content[0].citations", "dropped")],
    ),
    (
        asked(options=Options(reasoning=Reasoning(budget=9)), model="amazon.nova-2-lite-v1:0"),
        [("$.options.reasoning.budget", "dropped")],
    ),
    (
        asked(options=Options(reasoning=Reasoning(effort="low", extra={API: {"new": 1}})), model="openai.m"),
        [(f"$.options.reasoning.extra.{API}.new", "dropped")],
    ),
]


@pytest.mark.parametrize(("request_", "expected"), LOSSES)
def test_what_cannot_be_encoded_is_reported(request_: Request, expected: list[tuple[str, str]]) -> None:
    """
    Hard case 64: a block that this wire has no word for never goes missing in silence; strict mode refuses.
    """
    assert expected == lost(bedrock.encode_request(request_))
    assert "null" not in json.dumps(bedrock.encode_request(request_).body)
    if expected:
        with pytest.raises(Unsupported):
            bedrock.encode_request(request_, strict=True)


@pytest.mark.parametrize(
    ("kind", "expected"), [("text/csv", "csv"), ("Text/X-Python; charset=utf-8", "txt"), ("application/zip", None)]
)
def test_a_document_is_named_by_its_type(kind: str, expected: str | None) -> None:
    """
    Text without a name of its own is plain text; a type that the wire does not know is not named.
    """
    document = DocumentBlock(text="{}", mime_type=kind, title="n")
    (block,) = bedrock.encode_request(asked(UserMessage(content=(document,)))).body["messages"][0]["content"]
    assert expected == block["document"].get("format")


def test_pictures_in_results_and_lists_stay_pictures_69() -> None:
    """
    Hard case 69: content with a picture in it is never flattened to text.
    """
    picture = ImageBlock(data=PNG, mime_type="image/png")
    request = asked(
        AssistantMessage(content=(ToolCall(id="1", name="look", arguments={}),)),
        ToolResultMessage(tool_call_id="1", content=(TextBlock(text="a"), picture), is_error=False),
        SystemMessage(content=(picture,)),
    )
    again = bedrock.decode_request(bedrock.encode_request(request).body)
    assert [message.content for message in request.context.messages] == [m.content for m in again.context.messages]


def test_integers_of_any_size_survive_36() -> None:
    """
    Hard case 36: arguments and JSON results keep every digit, streamed or not.
    """
    big = 2**64 + 1
    body = json.dumps({"messages": [assistant(call(n=big)), user(result({"json": big}))]}).encode()
    read = bedrock.decode_request(body)
    assert big == read.context.messages[0].tool_calls[0].arguments["n"]  # type: ignore[union-attr]
    assert json.loads(body) == json.loads(bedrock.encode_request(read).bytes())
    message = AssistantMessage(content=(ToolCall(id="1", name="n", arguments={"n": big}),), stop_reason="toolUse")
    assert message.content == fold(decode_stream(streamed(message))).content


def test_a_history_of_calls_without_tools_is_encoded_as_it_is_34() -> None:
    """
    Hard case 34: the service refuses this; offering the tools again is for `adapt`, the codec invents none.
    """
    request = asked(AssistantMessage(content=(ToolCall(id="1", name="n", arguments={}),)))
    assert {"messages"} == bedrock.encode_request(request).body.keys()


def test_bad_requests_name_their_place() -> None:
    """
    What is no request is a BadWire with the path of what is wrong.
    """
    for body, path in (
        (b"[]", "$"),
        (b"{", "$"),
        ({"messages": 1}, "$.messages"),
        ({"messages": [{"content": []}]}, "$.messages[0].role"),
        ({"messages": [user("text")]}, "$.messages[0].content[0]"),
        ({"toolConfig": {"tools": [1]}}, "$.toolConfig.tools"),
    ):
        with pytest.raises(BadWire) as refused:
            bedrock.decode_request(body)
        assert path == refused.value.path


def test_a_bare_list_of_messages_is_a_conversation() -> None:
    """
    Programs pass histories around without the request; they come back as the list they were.
    """
    history = [user({"text": "Hi"}), assistant({"text": "Hello"})]
    read = bedrock.decode(history)
    assert len(read.messages) == 2
    assert history == bedrock.encode(load(dump(read), Conversation)).body


# --- what botocore says of our requests ------------------------------------------------------------------------------


@cache
def service() -> Any:
    return botocore.session.get_session().get_service_model("bedrock-runtime")


def operation(name: str) -> OperationModel:
    model: OperationModel = service().operation_model(name)
    return model


@pytest.mark.parametrize(
    ("shape", "known"),
    [
        ("StopReason", facts.STOP_REASONS),
        ("ImageFormat", facts.IMAGES),
        ("DocumentFormat", facts.DOCUMENTS),
        ("VideoFormat", facts.VIDEOS),
        ("AudioFormat", facts.SOUNDS),
    ],
)
def test_the_names_of_the_wire_are_those_of_botocore(shape: str, known: dict[str, str]) -> None:
    assert set(service().shape_for(shape).enum) == known.keys()


def as_given(value: Any, shape: Shape) -> Any:
    """A body as a user of boto3 writes it: blobs as bytes."""
    if shape.type_name == "blob":
        return base64.b64decode(value)
    if shape.type_name == "list":
        return [as_given(item, shape.member) for item in value]  # type: ignore[attr-defined]
    if shape.type_name == "structure" and not getattr(shape, "is_document_type", False):
        members = shape.members  # type: ignore[attr-defined]
        return {key: as_given(item, members[key]) for key, item in value.items()}
    return value


def client(answer: Callable[[Any], tuple[int, dict[str, str], bytes]]) -> Any:
    """A boto3 client whose requests are answered here instead of by the network."""
    session = botocore.session.Session()
    session.set_credentials("key", "secret")
    once = Config(retries={"total_max_attempts": 1})
    made = session.create_client("bedrock-runtime", region_name="us-east-1", config=once)

    def send(request: Any, **_: Any) -> AWSResponse:
        status, headers, body = answer(request)
        return AWSResponse(request.url, status, headers, Raw(body))

    made.meta.events.register("before-send", send)
    return made


class Raw(io.BytesIO):
    def stream(self, amount: int = 1024, **_: Any) -> Iterator[bytes]:
        while chunk := self.read(7):
            yield chunk


RICH = asked(
    UserMessage(
        content=(
            TextBlock(text="What is this?", cache=CacheMarker()),
            ImageBlock(data=PNG, mime_type="image/png"),
            DocumentBlock(data=PDF, mime_type="application/pdf", title="a paper", context="c", citations=True),
            DocumentBlock(text="words", mime_type="text/plain", title="notes"),
            DocumentBlock(url="s3://bucket/key.mp4", mime_type="video/mp4"),
            AudioBlock(data="AAAA", mime_type="audio/mpeg"),
        )
    ),
    AssistantMessage(
        content=(
            ThinkingBlock(thinking="hm", thinking_signature="c2ln"),
            ThinkingBlock(thinking="", thinking_signature="c2VhbGVk", redacted=True),
            TextBlock(text="It is", citations=(Citation(title="t", url="https://a.example", cited_text="c"),)),
            ToolCall(id="t1", name="look", arguments={"deep": [1, {"a": None}]}),
            ServerToolCall(id="s1", name="code", arguments={"a": 1}),
            ServerToolResult(tool_call_id="s1", tool_name="code", dialect=API, content=[{"text": "1"}]),
        )
    ),
    ToolResultMessage(tool_call_id="t1", tool_name="look", content=(TextBlock(text="x"),), is_error=True),
    ToolResultMessage(
        tool_call_id="t2",
        content=(ImageBlock(data=PNG, mime_type="image/png"),),
        is_error=False,
        cache=CacheMarker(ttl="1h"),
    ),
    SystemMessage(content=(TextBlock(text="be brief"),)),
    system=(TextBlock(text="You are", cache=CacheMarker(ttl="5m")), TextBlock(text="kind.")),
    tools=(
        ToolSpec(name="look", description="d", input_schema={"type": "object"}, strict=True, cache=CacheMarker()),
        ToolSpec(name="code", dialect=API, value={"systemTool": {"name": "code"}}),
    ),
    options=Options(
        max_tokens=100,
        temperature=0.5,
        top_p=0.9,
        top_k=4,
        stop=("a",),
        reasoning=Reasoning(budget=1024, effort="low"),
        tool_choice=ToolChoice(mode="required", names=("look",)),
        output_schema=OutputSchema(schema={"type": "object"}, name="n", description="d"),
        service_tier="default",
        metadata={"a": "b"},
    ),
    model=CLAUDE,
)


def accepted(request: Request) -> None:
    """Whether botocore takes the request and writes the very body that we write."""
    body = json.loads(bedrock.encode_request(request).bytes())
    shape = operation("Converse").input_shape
    given = {"modelId": CLAUDE, **as_given(body, shape)}
    report = ParamValidator().validate(given, shape)
    assert not report.has_errors(), report.generate_report()
    sent = []

    def answer(http: Any) -> tuple[int, dict[str, str], bytes]:
        sent.append((http.url, json.loads(http.body)))
        return 200, {"content-type": "application/json"}, bedrock.encode_response(AssistantMessage(content=())).bytes()

    client(answer).converse(**given)
    ((url, written),) = sent
    assert body == written
    assert url.endswith(bedrock.path(CLAUDE, False))


def test_botocore_writes_a_request_of_everything_as_we_do() -> None:
    """
    The vendor's validator takes a request with every kind of block, and its serialiser gives the same body.
    """
    accepted(RICH)
    assert lost(bedrock.encode_request(RICH)) == []


@given(request=wellformed_requests(own=API))
def test_botocore_accepts_ordinary_conversations(request: Request) -> None:
    """
    Conversations as providers accept them are valid parameters to the vendor's validator.
    """
    body = json.loads(bedrock.encode_request(request).bytes())
    shape = operation("Converse").input_shape
    report = ParamValidator().validate({"modelId": CLAUDE, **as_given(body, shape)}, shape)
    assert not report.has_errors(), report.generate_report()


# --- answers ---------------------------------------------------------------------------------------------------------


def answered(*content: Any, stop: Any = "end_turn", **more: Any) -> dict[str, Any]:
    return {
        "output": {"message": {"role": "assistant", "content": list(content)}},
        "stopReason": stop,
        "usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3},
        "metrics": {"latencyMs": 7},
        **more,
    }


ANSWERS: dict[str, dict[str, Any]] = {
    "text": answered({"text": "Hi"}),
    "nothing": answered(),
    "everything": answered(
        *REQUESTS["reasoning"]["messages"][0]["content"],
        *REQUESTS["tools that the provider runs"]["messages"][0]["content"],
        *REQUESTS["text in blocks of its own"]["messages"][2]["content"],
        *REQUESTS["media"]["messages"][0]["content"],
        POINT,
        {"somethingNew": {"a": 1}},
        call(q=2**64),
        stop="tool_use",
        additionalModelResponseFields={"stop_sequence": None},
        trace={"guardrail": {}},
        performanceConfig={"latency": "standard"},
        serviceTier={"type": "default"},
        usage={
            "inputTokens": 3,
            "outputTokens": 121,
            "totalTokens": 2072,
            "cacheReadInputTokens": 1712,
            "cacheReadInputTokenCount": 1712,
            "cacheWriteInputTokens": 236,
            "cacheDetails": [{"inputTokens": 236, "ttl": "5m"}],
            "serverToolUsage": {},
        },
        somethingNew=1,
    ),
    "unknown keys all over": {
        "output": {"message": {"role": "assistant", "content": [], "x": 1}, "y": 2},
        "stopReason": "some_new_word",
        "usage": None,
    },
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_comes_back_as_it_was(name: str) -> None:
    """
    Whole answers are said again exactly; and streamed, they amount to the same message.
    """
    message = bedrock.decode_response(json.dumps(ANSWERS[name]))
    assert ANSWERS[name] == bedrock.encode_response(load(dump(message), AssistantMessage)).body
    assert message == fold(decode_stream(streamed(message)))


@pytest.mark.parametrize(
    ("word", "content", "expected"),
    [
        ("end_turn", [{"text": "a"}], "stop"),
        ("stop_sequence", [], "stop"),
        ("tool_use", [call()], "toolUse"),
        ("end_turn", [call()], "toolUse"),
        ("max_tokens", [call()], "length"),
        ("model_context_window_exceeded", [], "length"),
        ("content_filtered", [{"text": "a"}], "error"),
        ("guardrail_intervened", [{"text": "a"}], "error"),
        ("malformed_model_output", [], "error"),
        ("malformed_tool_use", [call()], "error"),
        ("some_new_word", [{"text": "a"}], "stop"),
        ("some_new_word", [], "error"),
        (None, [], "error"),
    ],
)
def test_why_an_answer_ended(word: str | None, content: list[Any], expected: str) -> None:
    """
    The wire's word is kept beside ours, and is said again.
    """
    message = bedrock.decode_response(answered(*content, stop=word))
    assert (expected, word) == (message.stop_reason, message.stop_detail)
    assert (expected == "error") == (message.error_message is not None)
    assert word == bedrock.encode_response(message).body["stopReason"]


def test_a_guardrail_says_why() -> None:
    """
    Where the trace gives a reason, the error has it.
    """
    wire = answered(stop="guardrail_intervened", trace={"guardrail": {"actionReason": "Guardrail blocked."}})
    assert (
        bedrock.decode_response(wire).error_message == "the provider stopped: guardrail_intervened: Guardrail blocked."
    )


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (
            {
                "inputTokens": 3,
                "outputTokens": 121,
                "cacheReadInputTokens": 1712,
                "cacheWriteInputTokens": 236,
                "totalTokens": 2072,
            },
            Usage(input=3, output=121, cache_read=1712, cache_write=236, total_tokens=2072),
        ),
        # pi-ai forgot the cache when the total is missing.
        (
            {"inputTokens": 3, "outputTokens": 4, "cacheReadInputTokens": 5},
            Usage(input=3, output=4, cache_read=5, cache_write=0, total_tokens=12),
        ),
    ],
)
def test_input_excludes_what_was_cached_82(wire: dict[str, int], expected: Usage) -> None:
    """
    Hard case 82: the buckets are disjoint, the total counts them all, whole and streamed alike.
    """
    whole = bedrock.decode_response({**answered(), "usage": wire}).usage
    assert whole is not None
    assert expected == replaced(whole, extra={})
    events = [("messageStop", {"stopReason": "end_turn"}), ("metadata", {"usage": wire})]
    assert whole == fold(decode_stream(frames(*events))).usage


def test_usage_is_encoded_in_the_counts_of_the_wire() -> None:
    """
    What was cached is left out where there is none; an answer must have the other counts.
    """
    counts = [
        bedrock.encode_response(AssistantMessage(content=(TextBlock(text="a"),), usage=usage)).body["usage"]
        for usage in (
            None,
            Usage(input=3, output=2, cache_read=0, cache_write=0, total_tokens=5),
            Usage(input=3, output=2, cache_read=4, cache_write=5, total_tokens=14),
        )
    ]
    assert counts == [
        {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0},
        {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5},
        {
            "inputTokens": 3,
            "outputTokens": 2,
            "totalTokens": 14,
            "cacheReadInputTokens": 4,
            "cacheWriteInputTokens": 5,
        },
    ]


def test_an_answer_that_is_an_error_is_raised() -> None:
    """
    A body without an answer is the provider's error.
    """
    with pytest.raises(ProviderError, match="Too bad"):
        bedrock.decode_response({"message": "Too bad"})


def test_what_an_answer_says_of_itself_is_not_sent_back() -> None:
    """
    The envelope of an answer stays out of the next request.
    """
    message = bedrock.decode_response(ANSWERS["everything"])
    encoded = bedrock.encode_request(asked(message)).body["messages"]
    assert [assistant(*ANSWERS["everything"]["output"]["message"]["content"])] == encoded


# --- streams ---------------------------------------------------------------------------------------------------------


def frames(*events: tuple[str, dict[str, Any]]) -> bytes:
    """AWS frames, padded as the service pads them."""
    return b"".join(write_aws(name, json.dumps({**value, "p": "abcdef"}).encode()) for name, value in events)


def delta(value: dict[str, Any], index: int = 0) -> tuple[str, dict[str, Any]]:
    return "contentBlockDelta", {"contentBlockIndex": index, "delta": value}


def start(value: dict[str, Any], index: int = 0) -> tuple[str, dict[str, Any]]:
    return "contentBlockStart", {"contentBlockIndex": index, "start": value}


def stop(index: int = 0) -> tuple[str, dict[str, Any]]:
    return "contentBlockStop", {"contentBlockIndex": index}


FIRST = ("messageStart", {"role": "assistant"})
LAST = (
    ("messageStop", {"stopReason": "end_turn"}),
    ("metadata", {"usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}, "metrics": {"latencyMs": 7}}),
)


def decode_stream(body: bytes, size: int | None = None) -> list[StreamEvent]:
    framing, decoder = bedrock.framing(), bedrock.StreamDecoder()
    chunks = [body[at : at + size] for at in range(0, len(body), size)] if size else [body]
    read = [frame for chunk in chunks for frame in framing.feed(chunk)] + framing.close()
    return [event for frame in read for event in decoder.feed(frame)] + decoder.close()


def streamed(message: AssistantMessage, size: int | None = None) -> bytes:
    encoder = bedrock.StreamEncoder()
    return b"".join(map(encoder.feed, unfold(message, size=size))) + encoder.close()


STREAMS: dict[str, tuple[list[tuple[str, dict[str, Any]]], list[Any]]] = {
    "text and reasoning open with their first delta (oddities 71, 76)": (
        [
            delta({"reasoningContent": {"text": "h"}}),
            delta({"reasoningContent": {"text": "m"}}),
            delta({"reasoningContent": {"signature": "c2"}}),
            delta({"reasoningContent": {"signature": "ln"}}),
            stop(),
            delta({"text": ""}, 1),
            delta({"text": "Hi"}, 1),
            stop(1),
        ],
        [{"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}, {"text": "Hi"}],
    ),
    "an empty piece of arguments comes first (oddity 73)": (
        [
            start({"toolUse": {"toolUseId": "t1", "name": "look"}}),
            delta({"toolUse": {"input": ""}}),
            delta({"toolUse": {"input": '{"a": '}}),
            delta({"toolUse": {"input": "1}"}}),
            stop(),
            start({"toolUse": {"toolUseId": "t2", "name": "look"}}, 1),
            stop(1),
        ],
        [call(a=1), call("t2")],
    ),
    "citations before their text (oddity 75)": (
        [delta({"citation": {"title": "t"}}), delta({"text": "a"}), delta({"citation": {"title": "u"}}), stop()],
        [{"citationsContent": {"content": [{"text": "a"}], "citations": [{"title": "t"}, {"title": "u"}]}}],
    ),
    "sealed reasoning (oddity 76)": (
        [delta({"reasoningContent": {"redactedContent": "c2VhbGVk"}}), stop()],
        [{"reasoningContent": {"redactedContent": "c2VhbGVk"}}],
    ),
    "sealed reasoning in two blobs": (
        [
            delta({"reasoningContent": {"redactedContent": "c2VhbA=="}}),
            delta({"reasoningContent": {"redactedContent": "ZWQ="}}),
            stop(),
        ],
        [{"reasoningContent": {"redactedContent": "c2VhbGVk"}}],
    ),
    "tools that the provider runs (oddity 75)": (
        [
            start({"toolUse": {"toolUseId": "s1", "name": "code", "type": "server_tool_use"}}),
            delta({"toolUse": {"input": '{"a":'}}),
            delta({"toolUse": {"input": "1}"}}),
            stop(),
            start({"toolResult": {"toolUseId": "s1", "type": "code_result", "status": "success"}}, 1),
            delta({"toolResult": [{"text": "a"}]}, 1),
            delta({"toolResult": [{"json": {"b": 1}}]}, 1),
            stop(1),
        ],
        [
            {"toolUse": {"toolUseId": "s1", "name": "code", "type": "server_tool_use", "input": {"a": 1}}},
            {
                "toolResult": {
                    "toolUseId": "s1",
                    "type": "code_result",
                    "status": "success",
                    "content": [{"text": "a"}, {"json": {"b": 1}}],
                }
            },
        ],
    ),
    "a picture in two parts": (
        [
            start({"image": {"format": "png"}}),
            delta({"image": {"source": {"bytes": "AAA="}}}),
            delta({"image": {"source": {"bytes": "BBBB"}}}),
            stop(),
        ],
        [{"image": {"format": "png", "source": {"bytes": "AAAEEEE="}}}],
    ),
    "thinking between texts stays in place (hard cases 13, 18)": (
        [
            delta({"reasoningContent": {"text": "one"}}),
            stop(),
            delta({"text": "a"}, 1),
            stop(1),
            delta({"reasoningContent": {"text": "two"}}, 2),
            delta({"reasoningContent": {"signature": "s2"}}, 2),
            stop(2),
            delta({"text": "b"}, 3),
            stop(3),
        ],
        [
            {"reasoningContent": {"reasoningText": {"text": "one"}}},
            {"text": "a"},
            {"reasoningContent": {"reasoningText": {"text": "two", "signature": "s2"}}},
            {"text": "b"},
        ],
    ),
    "another kind under the same index is another block": (
        [delta({"reasoningContent": {"text": "t"}}), delta({"text": "a"}), stop()],
        [{"reasoningContent": {"reasoningText": {"text": "t"}}}, {"text": "a"}],
    ),
    "blocks that take turns and are never closed": (
        [delta({"text": "a"}), delta({"text": "b"}, 1), delta({"text": "c"})],
        [{"text": "ac"}, {"text": "b"}],
    ),
    "text that is announced, as calls are": (
        [start({"text": ""}), delta({"text": "a"}), delta({"text": "b"}), stop()],
        [{"text": "ab"}],
    ),
    "text that is announced and does not come": ([start({"text": ""}), stop()], [{"text": ""}]),
    "a call that is never closed, and another one": (
        [
            start({"toolUse": {"toolUseId": "t1", "name": "look"}}),
            delta({"toolUse": {"input": "{}"}}),
            start({"toolUse": {"toolUseId": "t2", "name": "look"}}),
            *(delta({"toolUse": {"input": "{}"}}), stop()),
        ],
        [call("t1"), call("t2")],
    ),
    "thinking that is never closed, and a call": (
        [
            delta({"reasoningContent": {"text": "t"}}),
            delta({"reasoningContent": {"signature": "s1"}}),
            start({"toolUse": {"toolUseId": "t1", "name": "look"}}),
            *(delta({"toolUse": {"input": "{}"}}), stop()),
        ],
        [{"reasoningContent": {"reasoningText": {"text": "t", "signature": "s1"}}}, call("t1")],
    ),
    "a call of which it is learned late that the provider runs it": (
        [
            start({"toolUse": {"toolUseId": "s1", "name": "code"}}),
            *(delta({"toolUse": {"input": "{", "type": "server_tool_use"}}), stop()),
        ],
        [{"toolUse": {"toolUseId": "s1", "name": "code", "type": "server_tool_use", "input": {}}}],
    ),
    "text under the index of a tool that the provider runs": (
        [
            start({"toolUse": {"toolUseId": "s1", "name": "code", "type": "server_tool_use"}}),
            *(delta({"toolUse": {"input": '{"a":1}'}}), delta({"text": "a"}), stop()),
        ],
        [
            {"toolUse": {"toolUseId": "s1", "name": "code", "type": "server_tool_use", "input": {"a": 1}}},
            {"text": "a"},
        ],
    ),
    "starts of another shape": (
        [start({"toolUse": {"name": "look"}}), stop(), start({"image": "x"}, 1), stop(1)],
        [{"toolUse": {"name": "look"}}, {"image": "x"}],
    ),
    "fields of blocks not known yet": (
        [
            *(delta({"text": "a"}), delta({"new": 1}), delta({"text": "b"}), stop()),
            start({"toolUse": {"toolUseId": "t1", "name": "look"}}, 1),
            *(delta({"toolUse": {"input": "{}", "newer": 2}}, 1), stop(1)),
        ],
        [{"text": "ab", "new": 1}, {"toolUse": {"toolUseId": "t1", "name": "look", "input": {}, "newer": 2}}],
    ),
    "arguments of a tool that the provider runs that are no JSON": (
        [
            start({"toolUse": {"toolUseId": "s1", "name": "code", "type": "server_tool_use"}}),
            *(delta({"toolUse": {"input": "1 +"}}), stop()),
        ],
        [{"toolUse": {"toolUseId": "s1", "name": "code", "type": "server_tool_use", "input": "1 +"}}],
    ),
    "events not known yet": (
        [delta({"text": "a"}), ("newEvent", {"contentBlockDelta": delta({"text": "b"})[1]}), stop()],
        [{"text": "a"}],
    ),
    "blocks not known yet": (
        [start({"new": {"a": 1}}), stop(), delta({"newer": 1}, 1), stop(1)],
        [{"new": {"a": 1}}, {"newer": 1}],
    ),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_amounts_to_the_whole_answer(name: str) -> None:
    """
    Deltas put together are read as the whole answer is; padding (oddity 72) means nothing, cuts mean nothing.
    """
    events, content = STREAMS[name]
    body = frames(FIRST, *events, *LAST)
    message = fold(decode_stream(body))
    assert bedrock.decode_response(answered(*content)) == message
    for size in (1, 7, 100):
        assert decode_stream(body) == decode_stream(body, size)
    assert message == fold(decode_stream(streamed(message)))


def test_events_are_live() -> None:
    """
    Each delta is an event of its own when it arrives, and calls are known from their start.
    """
    body = frames(
        FIRST,
        delta({"reasoningContent": {"text": "h"}}),
        delta({"text": "a"}, 1),
        start({"toolUse": {"toolUseId": "t1", "name": "look"}}, 2),
        delta({"toolUse": {"input": "{}"}}, 2),
        stop(2),
    )
    expected = [
        ThinkingStart(0),
        ThinkingDelta(0, "h"),
        TextStart(1),
        TextDelta(1, "a"),
        ToolCallStart(2, ToolCall(id="t1", name="look", arguments={})),
        ToolCallDelta(2, "{}"),
        ToolCallEnd(2, ToolCall(id="t1", name="look", arguments={})),
    ]
    assert expected == decode_stream(body)[1:8]


def test_usage_comes_after_the_stop_74() -> None:
    """
    Oddity 74: the answer is not over at messageStop; it is at metadata, or at the end of the stream after the stop.
    """
    decoder = bedrock.StreamDecoder()
    read = AWSEventStream().feed(frames(FIRST, delta({"text": "a"}), *LAST))
    assert [event for frame in read[:-1] for event in decoder.feed(frame) if isinstance(event, Done)] == []
    (done,) = [event for event in decoder.feed(read[-1]) if isinstance(event, Done)]
    assert done.message.usage.total_tokens == 3  # type: ignore[union-attr]
    assert decoder.close() == []
    without = decode_stream(frames(FIRST, delta({"text": "a"}), LAST[0]))
    assert isinstance(without[-1], Done)


def test_the_metadata_may_say_more_of_the_answer() -> None:
    """
    A field of the message that was not known at its start follows with the usage.
    """
    late = {"output": {"message": {"id": "m1"}, "more": 1}}
    message = fold(decode_stream(frames(FIRST, delta({"text": "a"}), LAST[0], ("metadata", {**LAST[1][1], **late}))))
    whole = answered({"text": "a"})
    whole["output"] = {"message": {**whole["output"]["message"], "id": "m1"}, "more": 1}
    assert message == bedrock.decode_response(whole)


def test_a_stream_that_is_cut_off_is_an_error() -> None:
    """
    Without a stop there is no answer, but what came is kept.
    """
    *_, last = decode_stream(
        frames(FIRST, delta({"text": "a"}), start({"toolUse": {"toolUseId": "t", "name": "n"}}, 1))
    )
    assert isinstance(last, Error)
    assert last.error.text == "a"
    assert last.error.stop_reason == "error"


def test_usage_before_the_stop_is_kept_and_ends_nothing() -> None:
    """
    An answer that is cut off after its counts has been paid for.
    """
    *_, last = decode_stream(frames(FIRST, delta({"text": "a"}), LAST[1]))
    assert isinstance(last, Error)
    assert (last.error.text, last.error.usage) == ("a", fold(decode_stream(frames(FIRST, *LAST))).usage)


def test_arguments_cut_by_the_limit_are_never_taken_for_whole() -> None:
    """
    A call whose arguments are broken keeps their text, and is sent on without it.
    """
    body = frames(
        FIRST,
        start({"toolUse": {"toolUseId": "t", "name": "n"}}),
        delta({"toolUse": {"input": '{"a": [1'}}),
        ("messageStop", {"stopReason": "max_tokens"}),
    )
    message = fold(decode_stream(body))
    (made,) = message.tool_calls
    assert (made.arguments, made.arguments_text, message.stop_reason) == ({}, '{"a": [1', "length")
    assert made.parse_error is not None
    encoded = bedrock.encode_request(asked(message)).body["messages"][0]["content"][0]["toolUse"]
    assert encoded == {"toolUseId": "t", "name": "n", "input": {}}


def test_an_exception_ends_the_stream_with_its_words() -> None:
    """
    Throttling speaks of too many tokens; that is no overflow of the context (pi-ai section 6).
    """
    message = "Too many tokens, try again."
    body = frames(FIRST, delta({"text": "a"})) + write_aws(
        "throttlingException", json.dumps({"message": message}).encode(), message_type="exception"
    )
    *_, last = decode_stream(body)
    assert isinstance(last, Error)
    assert (last.error.text, last.error.stop_detail) == ("a", "throttlingException")
    assert f"throttlingException: {message}" == last.error.error_message
    assert not is_overflow(last.error.error_message)
    assert last.error == fold(decode_stream(replayed(body)))


def replayed(body: bytes) -> bytes:
    encoder = bedrock.StreamEncoder()
    return b"".join(map(encoder.feed, decode_stream(body))) + encoder.close()


def test_an_error_may_be_all_in_the_headers() -> None:
    """
    Frames of type `error` have a code and words in their headers, and no payload.
    """
    body = write_aws("InternalFailure", b"", message_type="error", extra_headers={":error-message": "It broke."})
    *_, last = decode_stream(body)
    assert isinstance(last, Error)
    assert last.error.error_message == "InternalFailure: It broke."


@pytest.mark.parametrize(
    "body",
    [
        frames(FIRST, ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": 5}})),
        frames(FIRST, ("contentBlockDelta", {"contentBlockIndex": [], "delta": {}})),
        frames(FIRST, ("contentBlockStart", {"contentBlockIndex": 0, "start": "text"})),
        frames(FIRST, ("contentBlockStart", {})),
        write_aws("contentBlockDelta", b"nonsense"),
        write_aws("metadata", b"[]"),
        write_aws("", b'{"message": "odd"}'),
        b"",
    ],
)
def test_nonsense_ends_in_an_error_event(body: bytes) -> None:
    """
    Nothing that a frame holds makes the decoder raise.
    """
    *_, last = decode_stream(body)
    assert isinstance(last, Error)


def test_events_may_name_themselves_and_answers_may_come_whole() -> None:
    """
    Hosts that do not frame send JSON: events inside an object that names them, or the whole answer.
    """
    events = [{name: value} for name, value in (FIRST, delta({"text": "Hi"}), stop(), *LAST)]
    for body in (json.dumps(events), json.dumps(answered({"text": "Hi"}))):
        framing, decoder = bedrock.framing("application/json; charset=utf-8"), bedrock.StreamDecoder()
        assert isinstance(framing, JSONArray)
        read = framing.feed(body.encode()) + framing.close()
        decoded = [event for frame in read for event in decoder.feed(frame)] + decoder.close()
        assert bedrock.decode_response(answered({"text": "Hi"})) == fold(decoded)


def test_arguments_in_many_pieces_cost_the_same_each_52() -> None:
    """
    Hard case 52: arguments that come a letter at a time are parsed once, at the end.
    """
    text = json.dumps({"a": "x" * 5_000})
    pieces = [delta({"toolUse": {"input": letter}}) for letter in text]
    body = frames(FIRST, start({"toolUse": {"toolUseId": "t", "name": "n"}}), *pieces, stop(), *LAST)
    events = decode_stream(body)
    assert len(text) == sum(isinstance(event, ToolCallDelta) for event in events)
    assert json.loads(text) == fold(events).tool_calls[0].arguments


@pytest.mark.parametrize("size", [None, 1, 3])
@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_read_can_be_streamed_again_19(name: str, size: int | None) -> None:
    """
    Hard case 19: whatever an answer holds is encoded as a stream that amounts to it.
    """
    message = bedrock.decode_response(ANSWERS[name])
    events = decode_stream(streamed(message, size))
    assert message == fold(events)
    blocks = [event.block for event in events if isinstance(event, BlockEnd)]
    assert all(block in message.content for block in blocks)  # type: ignore[operator]


SERVER_USE = {"toolUseId": "s1", "name": "code", "type": "server_tool_use"}


@pytest.mark.parametrize(
    ("value", "pieces"),
    [
        (
            {"toolUse": {**SERVER_USE, "input": {"a": 1}}},
            [start({"toolUse": SERVER_USE}), delta({"toolUse": {"input": '{"a":1}'}})],
        ),
        (
            {"toolResult": {"toolUseId": "s1", "content": [{"text": "a"}]}},
            [start({"toolResult": {"toolUseId": "s1"}}), delta({"toolResult": [{"text": "a"}]})],
        ),
        (
            {"image": {"format": "png", "source": {"bytes": "AAAA"}}},
            [start({"image": {"format": "png"}}), delta({"image": {"source": {"bytes": "AAAA"}}})],
        ),
        *(
            (value, [start(value)])
            for value in (
                {"toolUse": SERVER_USE},
                {"toolUse": {**SERVER_USE, "name": 5, "input": {}}},
                {"toolUse": {**SERVER_USE, "type": "new", "input": {}}},
                {"new": {**SERVER_USE, "input": {}}},
                {"toolResult": {"toolUseId": "s1", "content": "a"}},
                {"new": {"content": []}},
                {"image": {"format": "png", "source": "new"}},
                {"image": {"format": "png", "source": {"bytes": "AAAA"}}, "more": 1},
                {"new": {"source": {}}},
                {"toolResult": "new"},
                "new",
                "n",
            )
        ),
    ],
)
def test_blocks_without_deltas_are_sent_in_their_start(value: Any, pieces: list[tuple[str, dict[str, Any]]]) -> None:
    """
    A built-in tool's input, its result and a picture have deltas; what is not shaped like them has none.
    """
    message = AssistantMessage(content=(OpaqueBlock(dialect="bedrock-converse-stream", value=value),))
    sent = [(frame.event, json.loads(frame.data)) for frame in AWSEventStream().feed(streamed(message))]
    assert sent[1:-2] == [*pieces, stop()]


# --- what botocore says of our streams -------------------------------------------------------------------------------


def frames_of(message: AssistantMessage) -> list[dict[str, Any]]:
    """The events that a boto3 user sees when a server streams the message as we write it."""
    made = client(lambda _: (200, {"content-type": "application/vnd.amazon.eventstream"}, streamed(message, 3)))
    answer = made.converse_stream(modelId=CLAUDE, messages=[user({"text": "Hi"})])
    return list(answer["stream"])


def test_a_new_answer_has_every_field_of_the_wire() -> None:
    usage = Usage.of(3, 5)
    message = AssistantMessage(content=(TextBlock(text="a", cache=CacheMarker()),), usage=usage, stop_reason="length")
    body = bedrock.encode_response(message).body
    assert body["output"] == {"message": {"role": "assistant", "content": [{"text": "a"}]}}
    assert (body["stopReason"], body["metrics"]) == ("max_tokens", {"latencyMs": 0})
    assert {key: body["usage"][key] for key in ("inputTokens", "outputTokens", "totalTokens")} == {
        "inputTokens": 3,
        "outputTokens": 5,
        "totalTokens": 8,
    }
    filtered = msgspec.structs.replace(message, stop_reason="error", stop_detail="guardrail_intervened")
    assert bedrock.encode_response(filtered).body["stopReason"] == "guardrail_intervened"


def test_an_answer_of_another_wire_has_a_stop_reason_of_this_one() -> None:
    reasons = {"stop": "end_turn", "toolUse": "tool_use", "length": "max_tokens", "error": "content_filtered"}
    for reason, expected in {**reasons, "aborted": "end_turn"}.items():
        message = AssistantMessage(content="a", stop_reason=reason)  # type: ignore[arg-type]
        assert bedrock.encode_response(message).body["stopReason"] == expected


def test_a_total_is_kept_as_it_was_counted() -> None:
    usage = {"inputTokens": 3, "outputTokens": 5, "totalTokens": 99}
    found = bedrock.decode_response({**answered({"text": "a"}), "usage": usage}).usage
    assert found is not None
    assert found.total_tokens == 99


def test_fields_of_the_first_event_are_not_sent_again() -> None:
    answer = answered({"text": "a"})
    answer["output"]["message"]["new"] = 1
    body = streamed(bedrock.decode_response(answer))
    events = [json.loads(frame.data) for frame in bedrock.framing().feed(body)]
    assert [sum("new" in json.dumps(event) for event in events), "output" in events[-1]] == [1, False]


def test_the_first_event_has_the_role_alone() -> None:
    sent = [json.loads(frame.data) for frame in AWSEventStream().feed(streamed(AssistantMessage(content="a")))]
    assert sent[0] == {"role": "assistant"}


def test_sealed_thinking_is_sent_without_its_text() -> None:
    """A block is text or sealed: clients that put deltas together take one of them."""
    sealed = ThinkingBlock(thinking="[hidden]", thinking_signature="AAAA", redacted=True)
    message = AssistantMessage(content=(sealed,), stop_reason="stop")
    sent = [(frame.event, json.loads(frame.data)) for frame in AWSEventStream().feed(streamed(message))]
    assert sent[1:-2] == [delta({"reasoningContent": {"redactedContent": "AAAA"}}), stop()]


def test_an_aborted_answer_has_no_stop_reason_of_its_own() -> None:
    """Its stream ends in an exception, also if the answer came without a stop reason."""
    answer = {key: value for key, value in answered({"text": "a"}).items() if key != "stopReason"}
    aborted = msgspec.structs.replace(bedrock.decode_response(answer), stop_reason="aborted")
    last = AWSEventStream().feed(streamed(aborted))[-1]
    assert (last.headers or {})[":message-type"] == "exception"


def test_botocore_reads_our_streams() -> None:
    """
    The vendor's client, fed our bytes, sees the wire's own events and the same text, calls, signatures and usage.
    """
    message = AssistantMessage(
        content=(
            ThinkingBlock(thinking="I think", thinking_signature="c2ln"),
            ThinkingBlock(thinking="", thinking_signature="c2VhbGVk", redacted=True),
            TextBlock(text="Hello you", citations=(Citation(title="t", url="https://a.example"),)),
            ToolCall(id="t1", name="look", arguments={"a": "long enough to be cut"}),
            ServerToolCall(id="s1", name="code", arguments={"b": 1}),
            ServerToolResult(tool_call_id="s1", tool_name="code", dialect=API, content=[{"text": "1"}]),
            ImageBlock(data=PNG, mime_type="image/png"),
        ),
        stop_reason="toolUse",
        usage=Usage.of(1, 2, cache_read=3),
    )
    events = frames_of(message)
    names = [next(iter(event)) for event in events]
    assert [names[0], *names[-2:]] == ["messageStart", "messageStop", "metadata"]
    deltas = [event["contentBlockDelta"] for event in events if "contentBlockDelta" in event]
    assert "".join(d["delta"].get("reasoningContent", {}).get("text", "") for d in deltas) == "I think"
    assert "".join(d["delta"].get("text", "") for d in deltas) == "Hello you"
    assert {"title": "t", "location": {"web": {"url": "https://a.example"}}} in [
        d["delta"].get("citation") for d in deltas
    ]
    assert b"sealed" in [d["delta"].get("reasoningContent", {}).get("redactedContent") for d in deltas]
    inputs = [d["delta"]["toolUse"]["input"] for d in deltas if d["contentBlockIndex"] == 3]
    assert json.loads("".join(inputs)) == {"a": "long enough to be cut"}
    assert base64.b64decode(PNG) in [d["delta"].get("image", {}).get("source", {}).get("bytes") for d in deltas]
    assert events[-2]["messageStop"]["stopReason"] == "tool_use"
    usage = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 6, "cacheReadInputTokens": 3}
    assert usage == events[-1]["metadata"]["usage"]
    assert not any("SDK_UNKNOWN_MEMBER" in str(event) for event in events)


def test_botocore_raises_our_exceptions() -> None:
    """
    A stream that broke is an exception to the vendor's client, under the name the wire gave it.
    """
    broken = AssistantMessage(
        content=(),
        stop_reason="error",
        stop_detail="throttlingException",
        error_message="throttlingException: Slow down.",
    )
    with pytest.raises(Exception, match=r"throttlingException.*Slow down\.$"):
        frames_of(broken)
    with pytest.raises(Exception, match=r"internalServerException.*It broke"):
        frames_of(AssistantMessage(content=(), stop_reason="error", error_message="It broke"))


def test_an_answer_that_was_filtered_streams_its_own_word() -> None:
    """
    What the wire calls a way to end is no exception to its clients.
    """
    message = bedrock.decode_response(answered({"text": "No."}, stop="guardrail_intervened"))
    assert frames_of(message)[-2]["messageStop"]["stopReason"] == "guardrail_intervened"
    assert message == fold(decode_stream(streamed(message)))


def test_botocore_accepts_every_frame() -> None:
    """
    The vendor's frame parser verifies lengths and checksums of what we write.
    """
    buffer = EventStreamBuffer()
    buffer.add_data(streamed(bedrock.decode_response(ANSWERS["everything"])))
    kinds = {event.headers[":event-type"] for event in buffer}
    assert {
        "messageStart",
        "contentBlockStart",
        "contentBlockDelta",
        "contentBlockStop",
        "messageStop",
        "metadata",
    } == kinds


def test_a_stream_without_its_end_says_so() -> None:
    """
    When the events stop before the terminal one, clients see an exception instead of silence.
    """
    encoder = bedrock.StreamEncoder()
    body = b"".join(encoder.feed(event) for event in list(unfold(AssistantMessage(content="Hi")))[:-1])
    assert isinstance(decode_stream(body + encoder.close())[-1], Error)
    assert encoder.close() == b""


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "headers", "body", "kind", "code", "message"),
    [
        (
            400,
            {"x-amzn-ErrorType": "ValidationException:http://x/"},
            {"message": "No."},
            BadRequest,
            "ValidationException",
            "No.",
        ),
        (400, {}, {"message": "No."}, BadRequest, None, "No."),
        (400, {}, {"message": "Input is too long for requested model."}, ContextTooLong, None, None),
        (
            400,
            {},
            {"message": "Input Tokens Exceeded: Number of input tokens exceeds maximum length."},
            ContextTooLong,
            None,
            None,
        ),
        (
            429,
            {"X-Amzn-Errortype": "ThrottlingException"},
            {"message": "Too many tokens, please wait."},
            RateLimited,
            "ThrottlingException",
            None,
        ),
        (
            403,
            {},
            {"Message": "Denied", "__type": "com.amazon.coral#AccessDeniedException"},
            AuthFailed,
            "AccessDeniedException",
            "Denied",
        ),
        (400, {}, {"message": "No", "code": "com.amazon#ValidationException"}, BadRequest, "ValidationException", "No"),
        (400, {}, {"message": "", "Message": "No."}, BadRequest, None, "No."),
        (400, {}, {"message": 5, "Message": "No.", "code": "com.amazon#"}, BadRequest, None, "No."),
        (503, {}, b"<html>", Overloaded, None, "<html>"),
        (500, {}, b"", ProviderError, None, "HTTP 500"),
    ],
)
def test_errors_are_typed_77(
    status: int, headers: dict[str, str], body: Any, kind: type, code: str | None, message: str | None
) -> None:
    """
    Oddity 77: the header names the error, the body only speaks; overflow and throttling are told apart.
    """
    error = bedrock.decode_error(status, body, headers)
    assert (kind, code, status) == (type(error), error.code, error.status)
    assert message is None or message == error.message
    assert error.body == (body if isinstance(body, dict) else body.decode())


@pytest.mark.parametrize(
    ("status", "kind"),
    [(500, "InternalServerException"), (501, "InternalServerException"), (422, "ValidationException")],
)
def test_an_error_without_a_name_of_its_own_has_that_of_its_status(status: int, kind: str) -> None:
    assert bedrock.encode_error(ProviderError("No.", status=status)) == (status, {"__type": kind, "message": "No."})


def test_botocore_reads_our_errors() -> None:
    """
    The vendor's client finds the code and the words of an error that we answer with.
    """
    status, body = bedrock.encode_error(RateLimited("Slow down."))
    made = client(lambda _: (status, {"content-type": "application/json"}, json.dumps(body).encode()))
    with pytest.raises(made.exceptions.ThrottlingException, match="Slow down"):
        made.converse(modelId=CLAUDE, messages=[user({"text": "Hi"})])


@given(st.binary(max_size=60))
def test_no_bytes_make_the_reader_raise_anything_else(body: bytes) -> None:
    """
    Anything but an answer is a BadWire or the provider's error.
    """
    for read in (bedrock.decode_request, bedrock.decode_response):
        with contextlib.suppress(BadWire, ProviderError):
            read(body)
