"""Every example of the founding documents decodes, and encodes back to equal JSON."""

import json

import pytest

import interlingua as il
from interlingua.values import canonical
from interlingua.values.events import AgentEvent, StreamEvent
from interlingua.values.folding import unfold
from interlingua.values.messages import Block, Message, ReplyPayload
from interlingua.values.request import ProviderConfig, ResolvedAuth, StreamContext, StreamOptions

COST = {"input": 0.0225, "output": 0.015, "cacheRead": 0, "cacheWrite": 0.028, "total": 0.0655}
USAGE = {"input": 1500, "output": 200, "cacheRead": 0, "cacheWrite": 1500, "totalTokens": 1700, "cost": COST}
GENERATED = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-opus-4-6", "usage": USAGE}
READ = {"type": "toolCall", "id": "call_abc123", "name": "read", "arguments": {"path": "src/index.ts"}}
CALL_ID = "toolu_01A09q90qw90lq917835lq9"

MESSAGES = {
    "plain clawtools user": {"role": "user", "content": "Hello!"},
    "multimodal clawtools user": {
        "role": "user",
        "content": [
            {"type": "text", "text": "Describe this image:"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        ],
    },
    "plain clawtools assistant": {"role": "assistant", "content": "The answer is 42."},
    "clawtools assistant without content": {"role": "assistant", "content": None},
    "clawtools text and call": {
        "role": "assistant",
        "content": [{"type": "text", "text": "I'll read that file now."}, READ],
    },
    "clawtools call only": {"role": "assistant", "content": [READ]},
    "clawtools tool result": {
        "role": "toolResult",
        "toolCallId": "call_abc123",
        "toolName": "read",
        "content": [{"type": "text", "text": "File contents here…"}],
        "isError": False,
    },
    "simple text": {"role": "user", "content": "Read the file src/index.ts", "timestamp": 1740000000000},
    "with images": {
        "role": "user",
        "content": [
            {"type": "text", "text": "What's in this screenshot?"},
            {"type": "image", "data": "iVBORw0KGgo...", "mimeType": "image/png"},
        ],
        "timestamp": 1740000000000,
    },
    "text response": {
        "role": "assistant",
        "content": [{"type": "text", "text": "Here's the content of the file..."}],
        **GENERATED,
        "stopReason": "stop",
        "timestamp": 1740000001000,
    },
    "with tool calls": {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "I need to read the file first..."},
            {"type": "text", "text": "Let me read that file."},
            {
                "type": "toolCall",
                "id": CALL_ID,
                "name": "read",
                "arguments": {"file_path": "/home/user/src/index.ts", "offset": 0, "limit": 200},
            },
        ],
        **GENERATED,
        "stopReason": "toolUse",
        "timestamp": 1740000001000,
    },
    "success": {
        "role": "toolResult",
        "toolCallId": CALL_ID,
        "toolName": "read",
        "content": [{"type": "text", "text": "import { createServer } from 'http';\n..."}],
        "details": {"file_path": "/home/user/src/index.ts", "lines": 200},
        "isError": False,
        "timestamp": 1740000002000,
    },
    "error": {
        "role": "toolResult",
        "toolCallId": CALL_ID,
        "toolName": "exec",
        "content": [{"type": "text", "text": '{"status":"error","tool":"exec","error":"command required"}'}],
        "isError": True,
        "timestamp": 1740000002000,
    },
    "failed answer": {
        "role": "assistant",
        "content": [],
        **GENERATED,
        "stopReason": "error",
        "errorMessage": "overloaded",
        "timestamp": 1740000001000,
    },
    "custom agent message": {"role": "note", "text": "seen by the agent only", "timestamp": 1740000001000},
}

TRANSCRIPT = [
    '{"role":"user","content":"Read the file main.ts","timestamp":1740000000000}',
    '{"role":"assistant","content":[{"type":"text","text":"Let me read that file."},{"type":"toolCall","id":"call_1",'
    '"name":"read","arguments":{"file_path":"main.ts"}}],"api":"anthropic-messages","provider":"anthropic",'
    '"model":"claude-opus-4-6","usage":{"input":100,"output":50,"cacheRead":0,"cacheWrite":0,"totalTokens":150,'
    '"cost":{"input":0.0015,"output":0.00375,"cacheRead":0,"cacheWrite":0,"total":0.00525}},"stopReason":"toolUse",'
    '"timestamp":1740000001000}',
    '{"role":"toolResult","toolCallId":"call_1","toolName":"read","content":[{"type":"text",'
    '"text":"...file contents..."}],"isError":false,"timestamp":1740000002000}',
]

BLOCKS = {
    "signed text": {"type": "text", "text": "So", "textSignature": "c2ln"},
    "signed thinking": {"type": "thinking", "thinking": "Hm", "thinkingSignature": "c2ln"},
    "redacted thinking": {"type": "thinking", "thinking": "", "thinkingSignature": "c2ln", "redacted": True},
    "signed call": {"type": "toolCall", "id": "c", "name": "n", "arguments": {}, "thoughtSignature": "c2ln"},
}

PARTIAL = {"role": "assistant", "content": [], "api": "anthropic-messages"}
STREAM_EVENTS = [
    {"type": "start", "partial": PARTIAL},
    {"type": "text_start", "contentIndex": 0},
    {"type": "text_delta", "contentIndex": 0, "delta": "Hel"},
    {"type": "text_end", "contentIndex": 0, "content": "Hello"},
    {"type": "thinking_start", "contentIndex": 1},
    {"type": "thinking_delta", "contentIndex": 1, "delta": "h"},
    {"type": "thinking_end", "contentIndex": 1, "content": "hm"},
    {"type": "toolcall_start", "contentIndex": 2},
    {"type": "toolcall_delta", "contentIndex": 2, "delta": '{"path"'},
    {"type": "toolcall_end", "contentIndex": 2, "toolCall": READ},
    {"type": "done", "reason": "toolUse", "message": MESSAGES["with tool calls"]},
    {"type": "error", "reason": "aborted", "error": PARTIAL},
]

AGENT_EVENTS = [
    {"type": "agent_start"},
    {"type": "agent_end", "messages": [MESSAGES["simple text"], MESSAGES["text response"]]},
    {"type": "turn_start"},
    {"type": "turn_end", "message": MESSAGES["with tool calls"], "toolResults": [MESSAGES["success"]]},
    {"type": "message_start", "message": MESSAGES["simple text"]},
    {"type": "message_update", "message": PARTIAL, "assistantMessageEvent": STREAM_EVENTS[2]},
    {"type": "message_end", "message": MESSAGES["text response"]},
    {"type": "tool_execution_start", "toolCallId": "c", "toolName": "read", "args": {"path": "a"}},
    {"type": "tool_execution_update", "toolCallId": "c", "toolName": "read", "args": {}, "partialResult": ["…"]},
    {"type": "tool_execution_end", "toolCallId": "c", "toolName": "read", "result": {"content": []}, "isError": False},
]

READ_FILE = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
VALUES = {
    "reply": (
        ReplyPayload,
        {"text": "Done", "mediaUrl": "u", "mediaUrls": ["u"], "replyToId": "7", "isError": False},
    ),
    "empty reply": (ReplyPayload, {}),
    "stream context": (
        StreamContext,
        {
            "systemPrompt": "Be brief.",
            "messages": [MESSAGES["plain clawtools user"], MESSAGES["plain clawtools assistant"]],
            "tools": [{"name": "read_file", "description": "Read a file", "input_schema": READ_FILE}],
        },
    ),
    "stream options": (
        StreamOptions,
        {"temperature": 0.5, "maxTokens": 100, "apiKey": "k", "headers": {"x-a": "b"}},
    ),
    "model": (
        il.ModelDescriptor,
        {
            "id": "claude-opus-4-6",
            "name": "Opus",
            "api": "anthropic-messages",
            "provider": "anthropic",
            "baseUrl": "https://example.invalid",
            "reasoning": True,
            "input": ["text", "image"],
            "cost": {"input": 5, "output": 25, "cacheRead": 0.5, "cacheWrite": 6.25},
            "contextWindow": 200000,
            "maxTokens": 64000,
            "headers": {"x-a": "b"},
            "compat": {"supportsStore": False},
        },
    ),
    "a model of an unlisted api": (il.ModelDescriptor, {"id": "m", "api": "my-own-wire", "provider": "me"}),
    "provider config": (
        ProviderConfig,
        {"baseUrl": "https://example.invalid", "api": "openai-completions", "models": [{"id": "m", "api": "a"}]},
    ),
    "resolved auth": (ResolvedAuth, {"apiKey": "k", "profileId": "p", "source": "env:X_API_KEY", "mode": "api-key"}),
}


def returns(value: object, type: object) -> bool:
    return json.loads(il.dump(il.load(json.dumps(value), type))) == value


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_comes_back_as_it_was(name: str) -> None:
    """Messages of the formal specification and of clawtools are the format's own."""
    assert returns(MESSAGES[name], Message)


@pytest.mark.parametrize("line", TRANSCRIPT, ids=lambda line: line[9:20])
def test_a_transcript_line_comes_back_as_it_was(line: str) -> None:
    """A session line is a message; known ones come back to the byte."""
    assert il.dump(il.load(line, Message)).decode() == line


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_comes_back_as_it_was(name: str) -> None:
    """Signatures and redaction are fields of the block."""
    assert returns(BLOCKS[name], Block)


@pytest.mark.parametrize("event", STREAM_EVENTS, ids=lambda event: event["type"])
def test_a_stream_event_comes_back_as_it_was(event: dict) -> None:
    """The union of the formal specification, event by event."""
    assert returns(event, StreamEvent)


@pytest.mark.parametrize("event", AGENT_EVENTS, ids=lambda event: event["type"])
def test_an_agent_event_comes_back_as_it_was(event: dict) -> None:
    """The runtime's events, each with what it carries."""
    assert returns(event, AgentEvent)


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back_as_it_was(name: str) -> None:
    """Contexts, options, models and replies keep every field they are shown with."""
    type, value = VALUES[name]
    assert returns(value, type)


def test_a_stream_event_with_its_partial_can_be_asked_for() -> None:
    """`partial` is on every event of the seed's union, and in its JSON when asked."""
    message = il.AssistantMessage(content=(il.TextBlock(text="Hi"),), stop_reason="stop")
    delta = next(event for event in unfold(message) if type(event).__name__ == "TextDelta")
    shown = json.loads(il.dump(delta, partial=True))
    assert shown["partial"]["content"] == [{"type": "text", "text": "Hi"}]
    assert "partial" not in json.loads(il.dump(delta))


# --- the documents whose shapes are wires: they travel through the dialect -------------------------------------------

CANVAS_BLOCKS = [
    {"type": "text", "text": "Hello, how can I help you today?"},
    {
        "type": "tool_use",
        "id": "toolu_01A09q90qw90lkasdjfl",
        "name": "get_weather",
        "input": {"location": "San Francisco, CA", "unit": "celsius"},
    },
]
CANVAS_RESULTS = [
    {
        "type": "tool_result",
        "tool_use_id": "toolu_01A09q90qw90lkasdjfl",
        "content": "The weather in San Francisco is 22°C and sunny.",
    },
    {
        "type": "tool_result",
        "tool_use_id": "toolu_01A09q90qw90lkasdjfl",
        "content": "Error: Unable to fetch weather data",
        "is_error": True,
    },
    {
        "type": "tool_result",
        "tool_use_id": "toolu_01A09q90qw90lkasdjfl",
        "content": [
            {"type": "text", "text": "Here's the weather forecast:"},
            {"type": "text", "text": "Temperature: 22°C\nCondition: Sunny\nHumidity: 65%"},
        ],
    },
]
WIRE_MESSAGES = [
    *({"role": "assistant", "content": [block]} for block in CANVAS_BLOCKS),
    *({"role": "user", "content": [block]} for block in CANVAS_RESULTS),
    {"role": "system", "content": "Prompts, instructions"},
    {"role": "user", "content": "simple text"},
]
ANTHROPIC_BODY = {
    "model": "claude-sonnet-4-20250514",
    "system": "You are a coding assistant...",
    "messages": [
        {"role": "user", "content": "Read the file"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "call_1", "name": "read_file", "input": {"path": "src/main.ts"}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "file contents here..."}],
        },
    ],
}
ANTHROPIC_TOOL = {"name": "read_file", "description": "Read a file", "input_schema": READ_FILE}
OPENAI_TOOL = {
    "type": "function",
    "function": {"name": "read_file", "description": "Read a file", "parameters": READ_FILE},
}


@pytest.mark.parametrize("message", WIRE_MESSAGES, ids=lambda message: str(message["content"])[:40])
def test_a_canvas_message_comes_back_as_it_was(message: dict) -> None:
    """LLM Canvas blocks are Anthropic's: a bare list of messages is read and written as such."""
    wire = il.dialect("anthropic-messages")
    conversation = il.load(il.dump(wire.decode([message])))
    assert wire.encode(conversation).body == [message]


def test_the_anthropic_body_comes_back_as_it_was() -> None:
    """Attocode's example of a translated request."""
    wire = il.dialect("anthropic-messages")
    assert wire.encode(il.load(il.dump(wire.decode(ANTHROPIC_BODY)))).body == ANTHROPIC_BODY


def test_both_tool_shapes_are_one_tool() -> None:
    """The schema is identical; only the wrapper differs."""
    ours = il.dialect("anthropic-messages").decode_request({"messages": [], "tools": [ANTHROPIC_TOOL]})
    theirs = il.dialect("openai-completions").decode_request({"messages": [], "tools": [OPENAI_TOOL]})
    assert ours.context.tools == theirs.context.tools
    assert il.dialect("openai-completions").encode_request(ours).body["tools"] == [OPENAI_TOOL]
    assert il.dialect("anthropic-messages").encode_request(theirs).body["tools"] == [ANTHROPIC_TOOL]


def test_the_error_classes_carry_their_status() -> None:
    """400 for bad input, 403 for a caller who may not."""
    assert (il.ToolInputError.status, il.ToolAuthorizationError.status) == (400, 403)
    assert issubclass(il.ToolAuthorizationError, il.ToolInputError)


def test_unknown_keys_stay_where_they_were() -> None:
    """What a newer writer added at any level is read, kept and written back in place."""
    line = (
        '{"role":"assistant","content":[{"type":"text","text":"a","mood":1},{"type":"hologram","z":[1]}],'
        '"usage":{"input":1,"output":2,"cacheRead":0,"cacheWrite":0,"totalTokens":3,"watts":9},"shiny":true}'
    )
    assert canonical.plain(il.load(line, Message)) == json.loads(line)
    assert json.loads(il.dump(il.load(line, Message))) == json.loads(line)
