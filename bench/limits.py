"""The floor: what a program written by hand for one wire and one conversation would do, and nothing else.

Requests: straight Python from simple Structs to the wire's dicts, then one encoder call. Streams: split at blank lines,
decode only the fields that matter into Structs, append to lists, join and parse once. No events, no losses, no unknown
fields, no checks. Not a library; a number to divide by.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from conversation import Assistant, Call, Chat, Image, Result, Text, Thinking, User

dumps = msgspec.json.Encoder().encode
_loads = msgspec.json.Decoder().decode

# --- requests --------------------------------------------------------------------------------------------------------


def anthropic(chat: Chat) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    before: Any = None
    for message in chat.messages:
        kind = type(message)
        if kind is Result:
            block = {"type": "tool_result", "tool_use_id": message.call_id, "content": message.text}
            if before is Result:
                messages[-1]["content"].append(block)
            else:
                messages.append({"role": "user", "content": [block]})
        else:
            blocks = [_anthropic_block(block) for block in message.content]
            messages.append({"role": "user" if kind is User else "assistant", "content": blocks})
        before = kind
    return {
        "model": "claude-sonnet-4-5",
        "max_tokens": chat.max_tokens,
        "system": chat.system,
        "messages": messages,
        "tools": [{"name": t.name, "description": t.description, "input_schema": t.schema} for t in chat.tools],
    }


def _anthropic_block(block: Any) -> dict[str, Any]:
    kind = type(block)
    if kind is Text:
        return {"type": "text", "text": block.text}
    if kind is Call:
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.arguments}
    if kind is Thinking:
        return {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
    return {"type": "image", "source": {"type": "base64", "media_type": block.mime_type, "data": block.data}}


def openai(chat: Chat) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": chat.system}]
    for message in chat.messages:
        kind = type(message)
        if kind is Result:
            messages.append({"role": "tool", "tool_call_id": message.call_id, "content": message.text})
        elif kind is User:
            messages.append({"role": "user", "content": [_openai_part(block) for block in message.content]})
        else:
            messages.append(_openai_assistant(message))
    return {
        "model": "gpt-5",
        "messages": messages,
        "max_completion_tokens": chat.max_tokens,
        "tools": [
            {
                "type": "function",
                "function": {"name": t.name, "description": t.description, "parameters": t.schema},
            }
            for t in chat.tools
        ],
    }


def _openai_part(block: Any) -> dict[str, Any]:
    if type(block) is Text:
        return {"type": "text", "text": block.text}
    return {"type": "image_url", "image_url": {"url": f"data:{block.mime_type};base64,{block.data}"}}


def _openai_assistant(message: Assistant) -> dict[str, Any]:
    texts: list[str] = []
    thoughts: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for block in message.content:
        kind = type(block)
        if kind is Text:
            texts.append(block.text)
        elif kind is Call:
            function = {"name": block.name, "arguments": dumps(block.arguments).decode()}
            calls.append({"id": block.id, "type": "function", "function": function})
        else:
            thought = {"type": "reasoning.text", "text": block.thinking, "signature": block.signature}
            thoughts.append(thought | {"index": len(thoughts)})
    wire: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if thoughts:
        wire["reasoning_details"] = thoughts
    if calls:
        wire["tool_calls"] = calls
    return wire


def responses(chat: Chat) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    for message in chat.messages:
        kind = type(message)
        if kind is Result:
            items.append({"type": "function_call_output", "call_id": message.call_id, "output": message.text})
        elif kind is User:
            items.append({"role": "user", "content": [_responses_part(block) for block in message.content]})
        else:
            items.extend([_responses_item(block) for block in message.content])
    return {
        "model": "gpt-5",
        "input": items,
        "instructions": chat.system,
        "max_output_tokens": chat.max_tokens,
        "tools": [
            {"type": "function", "name": t.name, "description": t.description, "parameters": t.schema, "strict": None}
            for t in chat.tools
        ],
    }


def _responses_part(block: Any) -> dict[str, Any]:
    if type(block) is Text:
        return {"type": "input_text", "text": block.text}
    url = f"data:{block.mime_type};base64,{block.data}"
    return {"type": "input_image", "image_url": url, "detail": "auto"}


def _responses_item(block: Any) -> dict[str, Any]:
    kind = type(block)
    if kind is Text:
        return {"role": "assistant", "content": block.text}
    if kind is Call:
        arguments = dumps(block.arguments).decode()
        return {"type": "function_call", "call_id": block.id, "name": block.name, "arguments": arguments}
    summary = [{"type": "summary_text", "text": block.thinking}]
    return {"type": "reasoning", "summary": summary, "encrypted_content": block.signature}


def gemini(chat: Chat) -> dict[str, Any]:
    contents: list[dict[str, Any]] = []
    before: Any = None
    for message in chat.messages:
        kind = type(message)
        if kind is Result:
            response = {"name": message.name, "response": {"output": message.text}, "id": message.call_id}
            part = {"functionResponse": response}
            if before is Result:
                contents[-1]["parts"].append(part)
            else:
                contents.append({"role": "user", "parts": [part]})
        else:
            parts = [_gemini_part(block) for block in message.content]
            contents.append({"role": "user" if kind is User else "model", "parts": parts})
        before = kind
    declarations = [
        {"name": t.name, "description": t.description, "parametersJsonSchema": t.schema} for t in chat.tools
    ]
    return {
        "contents": contents,
        "systemInstruction": {"parts": [{"text": chat.system}]},
        "generationConfig": {"maxOutputTokens": chat.max_tokens},
        "tools": [{"functionDeclarations": declarations}],
    }


def _gemini_part(block: Any) -> dict[str, Any]:
    kind = type(block)
    if kind is Text:
        return {"text": block.text}
    if kind is Call:
        return {"functionCall": {"name": block.name, "args": block.arguments, "id": block.id}}
    if kind is Thinking:
        return {"text": block.thinking, "thought": True, "thoughtSignature": block.signature}
    return {"inlineData": {"mimeType": block.mime_type, "data": block.data}}


def bedrock(chat: Chat) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    before: Any = None
    for message in chat.messages:
        kind = type(message)
        if kind is Result:
            block = {"toolResult": {"toolUseId": message.call_id, "content": [{"text": message.text}]}}
            if before is Result:
                messages[-1]["content"].append(block)
            else:
                messages.append({"role": "user", "content": [block]})
        else:
            blocks = [_bedrock_block(block) for block in message.content]
            messages.append({"role": "user" if kind is User else "assistant", "content": blocks})
        before = kind
    tools = [
        {"toolSpec": {"name": t.name, "description": t.description, "inputSchema": {"json": t.schema}}}
        for t in chat.tools
    ]
    return {
        "messages": messages,
        "system": [{"text": chat.system}],
        "inferenceConfig": {"maxTokens": chat.max_tokens},
        "toolConfig": {"tools": tools},
    }


def _bedrock_block(block: Any) -> dict[str, Any]:
    kind = type(block)
    if kind is Text:
        return {"text": block.text}
    if kind is Call:
        return {"toolUse": {"toolUseId": block.id, "name": block.name, "input": block.arguments}}
    if kind is Thinking:
        return {"reasoningContent": {"reasoningText": {"text": block.thinking, "signature": block.signature}}}
    return {"image": {"format": block.mime_type.removeprefix("image/"), "source": {"bytes": block.data}}}


def ollama(chat: Chat) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": chat.system}]
    for message in chat.messages:
        kind = type(message)
        if kind is Result:
            named = {"tool_name": message.name, "tool_call_id": message.call_id}
            messages.append({"role": "tool", "content": message.text, **named})
        else:
            messages.append(_ollama_message("user" if kind is User else "assistant", message.content))
    return {
        "model": "qwen3",
        "messages": messages,
        "tools": [
            {
                "type": "function",
                "function": {"name": t.name, "description": t.description, "parameters": t.schema},
            }
            for t in chat.tools
        ],
        "options": {"num_predict": chat.max_tokens},
    }


def _ollama_message(role: str, content: list[Any]) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": role, "content": "".join([b.text for b in content if type(b) is Text])}
    for block in content:
        kind = type(block)
        if kind is Thinking:
            wire["thinking"] = block.thinking
        elif kind is Image:
            wire.setdefault("images", []).append(block.data)
        elif kind is Call:
            function = {"name": block.name, "arguments": block.arguments}
            wire.setdefault("tool_calls", []).append({"function": function, "id": block.id})
    return wire


BODIES: dict[str, Callable[[Chat], dict[str, Any]]] = {
    "anthropic": anthropic,
    "openai": openai,
    "responses": responses,
    "gemini": gemini,
    "bedrock": bedrock,
    "ollama": ollama,
}


def request(wire: str, chat: Chat) -> Callable[[], bytes]:
    """The hand-written encoder: dicts, then msgspec."""
    body = BODIES[wire]
    return lambda: dumps(body(chat))


# --- streams ---------------------------------------------------------------------------------------------------------


class Decoded(Struct):
    """What an answer amounts to, for comparing: the texts, and the parsed arguments of its call."""

    text: str = ""
    thinking: str = ""
    arguments: Any = None


def _payloads(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each event, however chunks are cut, as long as every event has one data line at its end."""
    buffer = b""
    for chunk in chunks:
        *events, buffer = (buffer + chunk).split(b"\n\n")
        for event in events:
            yield event[event.find(b"data: ") + 6 :]


class _AnthropicDelta(Struct):
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None


class _AnthropicEvent(Struct):
    delta: _AnthropicDelta | None = None


def _anthropic_stream(chunks: Iterable[bytes]) -> Decoded:
    decode = msgspec.json.Decoder(_AnthropicEvent).decode
    text: list[str] = []
    thinking: list[str] = []
    arguments: list[str] = []
    for payload in _payloads(chunks):
        delta = decode(payload).delta
        if delta is not None:
            if delta.text is not None:
                text.append(delta.text)
            elif delta.partial_json is not None:
                arguments.append(delta.partial_json)
            elif delta.thinking is not None:
                thinking.append(delta.thinking)
    return _decoded(text, thinking, arguments)


class _OpenAIFunction(Struct):
    arguments: str = ""


class _OpenAICall(Struct):
    function: _OpenAIFunction


class _OpenAIDelta(Struct):
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_OpenAICall] | None = None


class _OpenAIChoice(Struct):
    delta: _OpenAIDelta


class _OpenAIChunk(Struct):
    choices: list[_OpenAIChoice]


def _openai_stream(chunks: Iterable[bytes]) -> Decoded:
    decode = msgspec.json.Decoder(_OpenAIChunk).decode
    text: list[str] = []
    thinking: list[str] = []
    arguments: list[str] = []
    for payload in _payloads(chunks):
        if payload == b"[DONE]":
            break
        for choice in decode(payload).choices:
            delta = choice.delta
            if delta.content is not None:
                text.append(delta.content)
            elif delta.tool_calls is not None:
                arguments.append(delta.tool_calls[0].function.arguments)
            elif delta.reasoning_content is not None:
                thinking.append(delta.reasoning_content)
    return _decoded(text, thinking, arguments)


class _ResponsesEvent(Struct):
    type: str
    delta: str | None = None


def _responses_stream(chunks: Iterable[bytes]) -> Decoded:
    decode = msgspec.json.Decoder(_ResponsesEvent).decode
    text: list[str] = []
    thinking: list[str] = []
    arguments: list[str] = []
    lists = {
        "response.output_text.delta": text,
        "response.reasoning_summary_text.delta": thinking,
        "response.function_call_arguments.delta": arguments,
    }
    for payload in _payloads(chunks):
        event = decode(payload)
        if event.delta is not None:
            lists[event.type].append(event.delta)
    return _decoded(text, thinking, arguments)


class _GeminiCall(Struct):
    args: dict[str, Any]


class _GeminiPart(Struct):
    text: str | None = None
    thought: bool = False
    functionCall: _GeminiCall | None = None


class _GeminiContent(Struct):
    parts: list[_GeminiPart]


class _GeminiCandidate(Struct):
    content: _GeminiContent


class _GeminiChunk(Struct):
    candidates: list[_GeminiCandidate]


def _gemini_stream(chunks: Iterable[bytes]) -> Decoded:
    decode = msgspec.json.Decoder(_GeminiChunk).decode
    text: list[str] = []
    thinking: list[str] = []
    arguments: dict[str, Any] | None = None
    for payload in _payloads(chunks):
        for part in decode(payload).candidates[0].content.parts:
            if part.text is not None:
                (thinking if part.thought else text).append(part.text)
            elif part.functionCall is not None:
                arguments = part.functionCall.args
    return Decoded("".join(text), "".join(thinking), arguments)


def _decoded(text: list[str], thinking: list[str], arguments: list[str]) -> Decoded:
    whole = "".join(arguments)
    return Decoded("".join(text), "".join(thinking), _loads(whole) if whole else None)


_READERS: dict[str, Callable[[Iterable[bytes]], Decoded]] = {
    "anthropic": _anthropic_stream,
    "openai": _openai_stream,
    "responses": _responses_stream,
    "gemini": _gemini_stream,
}


def stream(wire: str, chunks: list[bytes]) -> Callable[[], Decoded]:
    """The hand-written decoder: the final answer, without events on the way."""
    read = _READERS[wire]
    return lambda: read(chunks)
