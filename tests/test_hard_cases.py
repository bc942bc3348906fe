"""Situations that broke other systems, as far as a codec can answer them; the number in a test's name is the case's.

A conversation is spoken here in each wire's own words by small writers of their own, so that what is tested is how the
package reads a provider, not how it reads itself.
"""

import base64
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType
from typing import Any

import pytest
from msgspec.structs import replace

import interlingua as il
from interlingua.dialects import WIRES
from interlingua.dialects.framing import write_aws
from interlingua.values.events import (
    Error,
    Start,
    StreamEvent,
    TextDelta,
    TextStart,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from interlingua.values.messages import CacheMarker, blocks_of
from interlingua.values.request import StreamOptions
from laws.grammar import faults
from laws.wires import decode_stream, frames_of, owner, stream_of, streamed

ANTHROPIC, COMPLETIONS, RESPONSES = "anthropic-messages", "openai-completions", "openai-responses"
GOOGLE, BEDROCK, OLLAMA = "google-generative-ai", "bedrock-converse-stream", "ollama-chat"
COHERE, WEBSOCKET = "cohere-chat", "openai-responses-websocket"
INTERACTIONS = "google-interactions"
INVOKE, GEMINI_CLI = "bedrock-invoke-anthropic", "google-gemini-cli"
BASES = (ANTHROPIC, COMPLETIONS, RESPONSES, GOOGLE, BEDROCK, OLLAMA, COHERE, INTERACTIONS)

every_wire = pytest.mark.parametrize("name", sorted(WIRES))


def wires(*bases: str) -> pytest.MarkDecorator:
    """The test runs for these dialects and their variants."""
    return pytest.mark.parametrize("name", sorted(name for name in WIRES if owner(name) in bases))


# --- what providers say ----------------------------------------------------------------------------------------------

Step = tuple[Any, ...]  # ("think", words, seal) | ("text", words) | ("call", id, name, the arguments' text)
Given = tuple[str, Any]  # the event's name and its payload

FRESH, READ, WRITTEN, SPOKEN = 70, 20, 10, 5
PICTURE = "iVBORw0KGgo="
PDF = "JVBERi0xLjQK"


def pieces(text: Any, size: int) -> list[Any]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def whole_anthropic(steps: Sequence[Step], stop: str) -> dict[str, Any]:
    content: list[Any] = []
    for step in steps:
        match step:
            case ("text", text):
                content.append({"type": "text", "text": text})
            case ("think", text, seal):
                content.append({"type": "thinking", "thinking": text, "signature": seal or ""})
            case ("call", call_id, name, arguments):
                content.append({"type": "tool_use", "id": call_id, "name": name, "input": json.loads(arguments)})
    usage = {
        "input_tokens": FRESH,
        "cache_read_input_tokens": READ,
        "cache_creation_input_tokens": WRITTEN,
        "output_tokens": SPOKEN,
    }
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def speak_anthropic(steps: Sequence[Step], stop: str, size: int) -> Iterator[Given]:
    whole = whole_anthropic(steps, stop)
    usage = {**whole["usage"], "output_tokens": 1}
    start = {**whole, "content": [], "stop_reason": None, "usage": usage}
    yield "message_start", {"type": "message_start", "message": start}
    for at, (step, block) in enumerate(zip(steps, whole["content"], strict=True)):
        match step:
            case ("text", text):
                opened = {"type": "text", "text": ""}
                deltas = [{"type": "text_delta", "text": piece} for piece in pieces(text, size)]
            case ("think", text, seal):
                opened = {"type": "thinking", "thinking": "", "signature": ""}
                deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(text, size)]
                deltas += [{"type": "signature_delta", "signature": seal}] if seal else []
            case (_, _, _, arguments):
                opened = {**block, "input": {}}
                deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(arguments, size)]
        yield "content_block_start", {"type": "content_block_start", "index": at, "content_block": opened}
        for delta in deltas:
            yield "content_block_delta", {"type": "content_block_delta", "index": at, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": at}
    ended = {"stop_reason": stop, "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": ended, "usage": {"output_tokens": SPOKEN}}
    yield "message_stop", {"type": "message_stop"}


COMPLETIONS_USAGE = {
    "prompt_tokens": FRESH + READ + WRITTEN,
    "completion_tokens": SPOKEN,
    "total_tokens": FRESH + READ + WRITTEN + SPOKEN,
    "prompt_tokens_details": {"cached_tokens": READ, "cache_write_tokens": WRITTEN},
}


def detail(at: int, text: str, seal: str | None) -> dict[str, Any]:
    signed = {} if seal is None else {"signature": seal}
    return {"type": "reasoning.text", "text": text, **signed, "format": "unknown", "index": at}


def whole_completions(steps: Sequence[Step], stop: str) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": "assistant", "content": None}
    for at, step in enumerate(steps):
        match step:
            case ("text", text):
                wire["content"] = (wire["content"] or "") + text
            case ("think", text, seal):
                wire.setdefault("reasoning_details", []).append(detail(at, text, seal))
            case ("call", call_id, name, arguments):
                call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
                wire.setdefault("tool_calls", []).append(call)
    choice = {"index": 0, "message": wire, "finish_reason": stop}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
    return {**head, "choices": [choice], "usage": COMPLETIONS_USAGE}


def chunk(delta: dict[str, Any], stop: str | None = None, **more: Any) -> Given:
    """One chunk of a Chat Completions stream."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return "", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": stop}], **more}


def call_delta(arguments: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk's delta for one call; `name` goes where the wire has it."""
    function = {} if arguments is None else {"arguments": arguments}
    if "name" in more:
        function = {"name": more.pop("name"), **function}
    return {"tool_calls": [{**more, "function": function}]}


def speak_completions(steps: Sequence[Step], stop: str, size: int) -> Iterator[Given]:
    yield chunk({"role": "assistant", "content": None})
    calls = 0
    for at, step in enumerate(steps):
        match step:
            case ("text", text):
                yield from (chunk({"content": piece}) for piece in pieces(text, size))
            case ("think", text, seal):
                for piece in pieces(text, size):
                    yield chunk({"reasoning_details": [detail(at, piece, None)]})
                if seal is not None:
                    yield chunk({"reasoning_details": [detail(at, "", seal)]})
            case ("call", call_id, name, arguments):
                yield chunk(call_delta("", index=calls, id=call_id, type="function", name=name))
                yield from (chunk(call_delta(piece, index=calls)) for piece in pieces(arguments, size))
                calls += 1
    yield chunk({}, stop)
    yield "", {**chunk({})[1], "choices": [], "usage": COMPLETIONS_USAGE}
    yield "", None


RESPONSES_USAGE = {
    "input_tokens": FRESH + READ + WRITTEN,
    "input_tokens_details": {"cached_tokens": READ, "cache_write_tokens": WRITTEN},
    "output_tokens": SPOKEN,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": FRESH + READ + WRITTEN + SPOKEN,
}


def item_of(at: int, step: Step) -> dict[str, Any]:
    """One output item of a Responses answer."""
    match step:
        case ("text", text):
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            return {
                "type": "message",
                "id": f"msg_a{at}",
                "status": "completed",
                "role": "assistant",
                "content": [part],
            }
        case ("think", text, seal):
            summary = [{"type": "summary_text", "text": text}]
            return {"type": "reasoning", "id": f"rs_a{at}", "summary": summary, "encrypted_content": seal}
        case (_, call_id, name, arguments):
            return {
                "type": "function_call",
                "id": f"fc_a{at}",
                "status": "completed",
                "call_id": call_id,
                "name": name,
                "arguments": arguments,
            }
    raise ValueError(step)


def response(output: list[Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    head = {"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "m", "error": None}
    return {**head, "output": output, "usage": RESPONSES_USAGE, **more}


def whole_responses(steps: Sequence[Step], stop: str) -> dict[str, Any]:
    more = {} if stop == "completed" else {"incomplete_details": {"reason": "max_output_tokens"}}
    return response([item_of(at, step) for at, step in enumerate(steps)], stop, **more)


def event(kind: str, **more: Any) -> Given:
    """One event of a Responses stream."""
    return kind, {"type": kind, **more}


def speak_item(at: int, step: Step, size: int) -> Iterator[Given]:
    """The events of one output item."""
    item = item_of(at, step)
    here = {"item_id": item["id"], "output_index": at}
    match step:
        case ("text", fragment):
            part = {"type": "output_text", "text": "", "annotations": []}
            there = {**here, "content_index": 0}
            yield event("response.output_item.added", output_index=at, item={**item, "content": []})
            yield event("response.content_part.added", **there, part=part)
            for piece in pieces(fragment, size):
                yield event("response.output_text.delta", **there, delta=piece)
            yield event("response.output_text.done", **there, text=fragment)
            yield event("response.content_part.done", **there, part=item["content"][0])
        case ("think", fragment, _):
            there = {**here, "summary_index": 0}
            yield event("response.output_item.added", output_index=at, item={**item, "summary": []})
            yield event("response.reasoning_summary_part.added", **there, part={"type": "summary_text", "text": ""})
            for piece in pieces(fragment, size):
                yield event("response.reasoning_summary_text.delta", **there, delta=piece)
            yield event("response.reasoning_summary_text.done", **there, text=fragment)
            yield event("response.reasoning_summary_part.done", **there, part=item["summary"][0])
        case (_, _, _, arguments):
            yield event("response.output_item.added", output_index=at, item={**item, "arguments": ""})
            for piece in pieces(arguments, size):
                yield event("response.function_call_arguments.delta", **here, delta=piece)
            yield event("response.function_call_arguments.done", **here, arguments=arguments)
    yield event("response.output_item.done", output_index=at, item=item)


def speak_responses(steps: Sequence[Step], stop: str, size: int) -> Iterator[Given]:
    yield event("response.created", response=response([], "in_progress", usage=None))
    for at, step in enumerate(steps):
        yield from speak_item(at, step, size)
    yield event(f"response.{stop}", response=whole_responses(steps, stop))


def parts_of(step: Step, size: int = 1_000_000) -> Iterator[dict[str, Any]]:
    """The parts of a Gemini candidate; words come in several, but what is sealed is a part of its own."""
    match step:
        case ("text", text):
            yield from ({"text": piece} for piece in pieces(text, size))
        case ("think", text, None):
            yield from ({"text": piece, "thought": True} for piece in pieces(text, size))
        case ("think", text, seal):
            yield {"text": text, "thought": True, "thoughtSignature": seal}
        case ("call", call_id, name, arguments):
            yield {"functionCall": {"id": call_id, "name": name, "args": json.loads(arguments)}}


GOOGLE_USAGE = {
    "promptTokenCount": FRESH + READ,
    "cachedContentTokenCount": READ,
    "candidatesTokenCount": SPOKEN,
    "totalTokenCount": FRESH + READ + SPOKEN,
}


def candidate(parts: list[Any], stop: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    return found if stop is None else {**found, "finishReason": stop}


def whole_google(steps: Sequence[Step], stop: str) -> dict[str, Any]:
    parts = [part for step in steps for part in parts_of(step)]
    return {
        "candidates": [candidate(parts, stop)],
        "usageMetadata": GOOGLE_USAGE,
        "modelVersion": "m",
        "responseId": "r1",
    }


def speak_google(steps: Sequence[Step], stop: str, size: int) -> Iterator[Given]:
    head = {"modelVersion": "m", "responseId": "r1"}
    for step in steps:
        for part in parts_of(step, size):
            yield "", {"candidates": [candidate([part])], "usageMetadata": {"promptTokenCount": FRESH + READ}, **head}
    yield "", {"candidates": [{"finishReason": stop, "index": 0}], "usageMetadata": GOOGLE_USAGE, **head}


BEDROCK_USAGE = {
    "inputTokens": FRESH,
    "cacheReadInputTokens": READ,
    "cacheWriteInputTokens": WRITTEN,
    "outputTokens": SPOKEN,
    "totalTokens": FRESH + READ + WRITTEN + SPOKEN,
}


def whole_bedrock(steps: Sequence[Step], stop: str) -> dict[str, Any]:
    content: list[Any] = []
    for step in steps:
        match step:
            case ("text", text):
                content.append({"text": text})
            case ("think", text, seal):
                signed = {"signature": seal} if seal else {}
                content.append({"reasoningContent": {"reasoningText": {"text": text, **signed}}})
            case ("call", call_id, name, arguments):
                content.append({"toolUse": {"toolUseId": call_id, "name": name, "input": json.loads(arguments)}})
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": stop,
        "usage": BEDROCK_USAGE,
        "metrics": {"latencyMs": 1},
    }


def speak_bedrock(steps: Sequence[Step], stop: str, size: int) -> Iterator[Given]:
    yield "messageStart", {"role": "assistant"}
    for at, step in enumerate(steps):
        match step:
            case ("text", text):
                deltas: list[Any] = [{"text": piece} for piece in pieces(text, size)]
            case ("think", text, seal):
                deltas = [{"reasoningContent": {"text": piece}} for piece in pieces(text, size)]
                deltas += [{"reasoningContent": {"signature": seal}}] if seal else []
            case (_, call_id, name, arguments):
                opened = {"toolUse": {"toolUseId": call_id, "name": name}}
                yield "contentBlockStart", {"contentBlockIndex": at, "start": opened}
                deltas = [{"toolUse": {"input": piece}} for piece in pieces(arguments, size)]
        for delta in deltas:
            yield "contentBlockDelta", {"contentBlockIndex": at, "delta": delta}
        yield "contentBlockStop", {"contentBlockIndex": at}
    yield "messageStop", {"stopReason": stop}
    yield "metadata", {"usage": BEDROCK_USAGE, "metrics": {"latencyMs": 1}}


OLLAMA_HEAD = {"model": "m", "created_at": "2026-01-01T00:00:00Z"}
OLLAMA_USAGE = {"prompt_eval_count": FRESH, "eval_count": SPOKEN}


def ollama_call(name: str, arguments: str) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": json.loads(arguments)}}


def whole_ollama(steps: Sequence[Step], stop: str) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": "assistant", "content": ""}
    for step in steps:
        match step:
            case ("text", text):
                wire["content"] += text
            case ("think", text, _):
                wire["thinking"] = wire.get("thinking", "") + text
            case ("call", _, name, arguments):
                wire.setdefault("tool_calls", []).append(ollama_call(name, arguments))
    return {**OLLAMA_HEAD, "message": wire, "done": True, "done_reason": stop, **OLLAMA_USAGE}


def line(**fields: Any) -> Given:
    """One line of an Ollama stream."""
    return "", {**OLLAMA_HEAD, "message": {"role": "assistant", "content": "", **fields}, "done": False}


def speak_ollama(steps: Sequence[Step], stop: str, size: int) -> Iterator[Given]:
    for step in steps:
        match step:
            case ("text", text):
                yield from (line(content=piece) for piece in pieces(text, size))
            case ("think", text, _):
                yield from (line(thinking=piece) for piece in pieces(text, size))
            case ("call", _, name, arguments):
                yield line(tool_calls=[ollama_call(name, arguments)])
    yield "", {**whole_ollama((), stop)}


def cohere_call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def whole_cohere(steps: Sequence[Step], stop: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant"}
    for step in steps:
        match step:
            case ("text", text):
                message.setdefault("content", []).append({"type": "text", "text": text})
            case ("think", text, _):
                message.setdefault("content", []).append({"type": "thinking", "thinking": text})
            case ("call", call_id, name, arguments):
                message.setdefault("tool_calls", []).append(cohere_call(call_id, name, arguments))
    tokens = {"input_tokens": FRESH + READ, "output_tokens": SPOKEN}
    usage = {"tokens": tokens, "cached_tokens": READ}
    return {"id": "r1", "finish_reason": stop, "message": message, "usage": usage}


def cohere_event(kind: str, at: int | None = None, **message: Any) -> Given:
    """One event of a Cohere stream."""
    index = {} if at is None else {"index": at}
    return kind, {"type": kind, **index, **({"delta": {"message": message}} if message else {})}


def speak_cohere(steps: Sequence[Step], stop: str, size: int) -> Iterator[Given]:
    yield "message-start", {**cohere_event("message-start", role="assistant")[1], "id": "r1"}
    contents = calls = 0
    for step in steps:
        match step:
            case ("call", call_id, name, arguments):
                yield cohere_event("tool-call-start", calls, tool_calls=cohere_call(call_id, name, ""))
                for piece in pieces(arguments, size):
                    yield cohere_event("tool-call-delta", calls, tool_calls={"function": {"arguments": piece}})
                yield cohere_event("tool-call-end", calls)
                calls += 1
            case _:
                key = "text" if step[0] == "text" else "thinking"
                yield cohere_event("content-start", contents, content={"type": key, key: ""})
                for piece in pieces(step[1], size):
                    yield cohere_event("content-delta", contents, content={key: piece})
                yield cohere_event("content-end", contents)
                contents += 1
    usage = whole_cohere((), stop)["usage"]
    yield "message-end", {"type": "message-end", "delta": {"finish_reason": stop, "usage": usage}}


def whole_interaction(steps: Sequence[Step], stop: str) -> dict[str, Any]:
    made: list[Any] = []
    for step in steps:
        match step:
            case ("text", text):
                made.append({"type": "model_output", "content": [{"type": "text", "text": text}]})
            case ("think", text, seal):
                sealed = {"signature": seal} if seal else {}
                made.append({"type": "thought", **sealed, "summary": [{"type": "text", "text": text}]})
            case ("call", call_id, name, arguments):
                made.append({"type": "function_call", "id": call_id, "name": name, "arguments": json.loads(arguments)})
    usage = {
        "total_tokens": FRESH + READ + SPOKEN,
        "total_input_tokens": FRESH + READ,
        "total_cached_tokens": READ,
        "total_output_tokens": SPOKEN,
    }
    return {"id": "v1_1", "object": "interaction", "model": "m", "status": stop, "steps": made, "usage": usage}


def interaction_event(kind: str, **fields: Any) -> Given:
    return kind, {**fields, "event_type": kind}


def speak_interaction(steps: Sequence[Step], stop: str, size: int) -> Iterator[Given]:
    whole = whole_interaction(steps, stop)
    shell = {key: value for key, value in whole.items() if key != "steps"}
    begun = {key: value for key, value in shell.items() if key != "usage"}
    yield interaction_event("interaction.created", interaction={**begun, "status": "in_progress"})
    for at, step in enumerate(steps):
        deltas: list[Any] = []
        match step:
            case ("text", fragment):
                opened: Any = {"type": "model_output"}
                deltas = [{"type": "text", "text": piece} for piece in pieces(fragment, size)]
            case ("think", fragment, seal):
                opened = {"type": "thought"}
                texts = [{"type": "text", "text": piece} for piece in pieces(fragment, size)]
                deltas = [{"type": "thought_summary", "content": text} for text in texts]
                deltas += [{"type": "thought_signature", "signature": seal}] if seal else []
            case (_, call_id, name, arguments):
                opened = {"type": "function_call", "id": call_id, "name": name, "arguments": {}}
                deltas = [{"type": "arguments_delta", "arguments": piece} for piece in pieces(arguments, size)]
        yield interaction_event("step.start", index=at, step=opened)
        for delta in deltas:
            yield interaction_event("step.delta", index=at, delta=delta)
        yield interaction_event("step.stop", index=at)
    yield interaction_event("interaction.completed", interaction=shell)


SPEAK = {
    ANTHROPIC: speak_anthropic,
    COMPLETIONS: speak_completions,
    RESPONSES: speak_responses,
    GOOGLE: speak_google,
    BEDROCK: speak_bedrock,
    OLLAMA: speak_ollama,
    COHERE: speak_cohere,
    INTERACTIONS: speak_interaction,
}
WHOLE = {
    ANTHROPIC: whole_anthropic,
    COMPLETIONS: whole_completions,
    RESPONSES: whole_responses,
    GOOGLE: whole_google,
    BEDROCK: whole_bedrock,
    OLLAMA: whole_ollama,
    COHERE: whole_cohere,
    INTERACTIONS: whole_interaction,
}
# How each wire says that the model was done, wanted its tools run, was cut.
STOPS = {
    ANTHROPIC: ("end_turn", "tool_use", "max_tokens"),
    COMPLETIONS: ("stop", "tool_calls", "length"),
    RESPONSES: ("completed", "completed", "incomplete"),
    GOOGLE: ("STOP", "STOP", "MAX_TOKENS"),
    BEDROCK: ("end_turn", "tool_use", "max_tokens"),
    OLLAMA: ("stop", "stop", "length"),
    COHERE: ("COMPLETE", "TOOL_CALL", "MAX_TOKENS"),
    INTERACTIONS: ("completed", "requires_action", "incomplete"),
}


def stop_word(name: str, steps: Sequence[Step]) -> str:
    return STOPS[owner(name)]["call" in [step[0] for step in steps]]


def spoken(name: str, *steps: Step, stop: str | None = None, size: int = 4) -> list[Given]:
    """A streamed answer in the words of a wire."""
    return list(SPEAK[owner(name)](steps, stop or stop_word(name, steps), size))


def answer(name: str, *steps: Step, stop: str | None = None) -> dict[str, Any]:
    """The same answer, whole."""
    body = WHOLE[owner(name)](steps, stop or stop_word(name, steps))
    return {"response": body} if name == GEMINI_CLI else body


def wired(name: str, frames: Iterable[Given]) -> bytes:
    """Events as bytes of the wire."""
    return b"".join(_wired(name, kind, value) for kind, value in frames)


def _wired(name: str, kind: str, value: Any) -> bytes:
    if name == GEMINI_CLI:
        value = {"response": value}
    data = b"[DONE]" if value is None else json.dumps(value, ensure_ascii=False).encode()
    if owner(name) == BEDROCK:
        return write_aws(kind, data)
    if name == INVOKE:
        return write_aws("chunk", json.dumps({"bytes": base64.b64encode(data).decode()}).encode())
    if owner(name) == OLLAMA or name == WEBSOCKET:
        return data + b"\n"
    return (f"event: {kind}\n".encode() if kind else b"") + b"data: " + data + b"\n\n"


def events_of(name: str, frames: Iterable[Given], **given: Any) -> list[StreamEvent]:
    """The events of a stream, whose order is checked."""
    events = decode_stream(il.dialect(name), [wired(name, frames)], **given)
    assert [] == faults(events)
    return events


def message_of(name: str, frames: Iterable[Given], **given: Any) -> il.AssistantMessage:
    return il.fold(events_of(name, frames, **given))


def both(name: str, *steps: Step, stop: str | None = None) -> list[il.AssistantMessage]:
    """The answer as it is understood from a stream, and whole."""
    return [message_of(name, spoken(name, *steps, stop=stop)), read(name, answer(name, *steps, stop=stop))]


def read(name: str, body: Any) -> il.AssistantMessage:
    return il.dialect(name).decode_response(body)


def only(kind: type, items: Iterable[Any]) -> list[Any]:
    return [item for item in items if isinstance(item, kind)]


def texts(kind: type, events: Iterable[Any]) -> str:
    """The pieces of one kind of delta, joined."""
    return "".join(event.delta for event in only(kind, events))


# --- what clients ask ------------------------------------------------------------------------------------------------

LISTS = {RESPONSES: "input", INTERACTIONS: "input", GOOGLE: "contents"}


def asking(name: str, items: list[Any], **more: Any) -> dict[str, Any]:
    """A request body of a wire around its messages, items or contents."""
    body: dict[str, Any] = {LISTS.get(owner(name), "messages"): items, **more}
    if name == GEMINI_CLI:
        return {"model": "m", "project": "p", "request": body}
    if name == INVOKE:
        return {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 64, **body}
    if owner(name) == ANTHROPIC:
        return {"model": "m", "max_tokens": 64, **body}
    return body if owner(name) in (GOOGLE, BEDROCK) else {"model": "m", **body}


def items_of(name: str, body: dict[str, Any]) -> list[Any]:
    """The messages, items or contents of a request body."""
    if name == GEMINI_CLI:
        body = body["request"]
    found: list[Any] = body[LISTS.get(owner(name), "messages")]
    return found


def understood(name: str, *items: Any, **more: Any) -> tuple[Any, ...]:
    """The messages that a request of these items holds."""
    return il.dialect(name).decode_request(asking(name, list(items), **more)).context.messages


def request_of(*messages: Any, **more: Any) -> il.Request:
    options = more.pop("options", il.Options())
    context = il.Context(messages=messages, **more)
    return il.Request(model=il.ModelDescriptor(id="m"), context=context, options=options)


def wire_items(name: str, *messages: Any, **more: Any) -> list[Any]:
    """The items by which a wire's request says these messages."""
    return items_of(name, il.dialect(name).encode_request(request_of(*messages, **more)).body)


def encoded(name: str, *messages: Any, **more: Any) -> il.Encoded:
    return il.dialect(name).encode_request(request_of(*messages, **more))


def returned(name: str, body: dict[str, Any]) -> Any:
    """A request body after decoding, our JSON, and encoding."""
    wire = il.dialect(name)
    return wire.encode_request(il.load(il.dump(wire.decode_request(body)), il.Request)).body


def paths(result: il.Encoded) -> list[str]:
    """Where something was lost that is more than bookkeeping."""
    return [loss.path for loss in result.losses if loss.severity != "record"]


def call(call_id: str = "call_a", name: str = "add", **arguments: Any) -> il.ToolCall:
    return il.ToolCall(id=call_id, name=name, arguments=arguments)


def result(call_id: str = "call_a", text: str = "3", name: str = "add") -> il.ToolResultMessage:
    content = (il.TextBlock(text=text),)
    return il.ToolResultMessage(tool_call_id=call_id, tool_name=name, content=content, is_error=False)


def turn(*blocks: Any, **more: Any) -> il.AssistantMessage:
    stop = "toolUse" if any(isinstance(block, il.ToolCall) for block in blocks) else "stop"
    return il.AssistantMessage(content=blocks, **{"stop_reason": stop, **more})


def values_of(name: str, body: bytes) -> list[Any]:
    """The JSON values in a stream's bytes."""
    return [json.loads(frame.data) for frame in frames_of(il.dialect(name), body) if frame.data != b"[DONE]"]


HELLO = il.UserMessage(content="hello")


# --- thinking, reasoning and signatures ------------------------------------------------------------------------------


def test_case_4_a_signature_of_gemini_travels_through_a_chat_completions_client() -> None:
    """
    A client of Chat Completions sees the signature beside the call, and what it echoes brings it back to Gemini.
    """
    part = {"functionCall": {"id": "call_a", "name": "add", "args": {"a": 1}}, "thoughtSignature": "c2lnbmVk"}
    from_gemini = read(GOOGLE, {"candidates": [candidate([part], "STOP")]})
    shown = il.dialect(COMPLETIONS).encode_response(from_gemini).body["choices"][0]["message"]
    assert "c2lnbmVk" in json.dumps(shown["tool_calls"][0])
    echoed = understood(COMPLETIONS, {"role": "user", "content": "1+2?"}, shown)
    assert part == wire_items(GOOGLE, *echoed)[1]["parts"][0]


@wires(COMPLETIONS)
def test_case_4_the_signature_is_also_there_when_the_answer_streams(name: str) -> None:
    """
    A streaming client can echo the signature, too.
    """
    signed = replace(call(a=1), thought_signature="c2lnbmVk")
    wire = il.dialect(name)
    (again,) = il.fold(decode_stream(wire, [stream_of(wire, turn(signed))])).tool_calls
    assert "c2lnbmVk" == again.thought_signature


@every_wire
def test_case_4_a_wire_without_a_place_for_the_signature_says_so(name: str) -> None:
    """
    The signature is on the wire or among the losses, never silently gone.
    """
    body = encoded(name, HELLO, turn(replace(call(a=1), thought_signature="c2lnbmVk")))
    is_lost = "$.messages[1].content[0].thoughtSignature" in paths(body)
    assert is_lost != (b"c2lnbmVk" in body.bytes())


REASONED: tuple[Step, ...] = (
    ("think", "first", "c2VhbDE="),
    ("text", "Let me see."),
    ("think", "second", "c2VhbDI="),
    ("call", "call_a", "add", '{"a":1}'),
)


@wires(RESPONSES)
@pytest.mark.parametrize("form", [0, 1], ids=["streamed", "whole"])
def test_case_6_reasoning_stays_before_what_followed_it(name: str, form: int) -> None:
    """
    Each reasoning item is replayed directly before the message or call that it led to.
    """
    items = wire_items(name, HELLO, both(name, *REASONED)[form], result())
    assert ["reasoning", "message", "reasoning", "function_call"] == [item["type"] for item in items[1:5]]
    assert ["rs_a0", "msg_a1", "rs_a2", "fc_a3"] == [item["id"] for item in items[1:5]]
    assert ["c2VhbDE=", "c2VhbDI="] == [items[1]["encrypted_content"], items[3]["encrypted_content"]]


@wires(RESPONSES)
@pytest.mark.parametrize("form", [0, 1], ids=["streamed", "whole"])
def test_case_7_a_call_with_an_item_id_goes_with_its_reasoning(name: str, form: int) -> None:
    """
    A turn that really reasoned is sent back as the pair of reasoning and call, under their own ids.
    """
    steps = (("think", "add them", "c2VhbA=="), ("call", "call_a", "add", '{"a":1}'))
    reasoning, made = wire_items(name, HELLO, both(name, *steps)[form], result())[1:3]
    assert ("reasoning", "rs_a0", "c2VhbA==") == (reasoning["type"], reasoning["id"], reasoning["encrypted_content"])
    assert ("function_call", "fc_a1", "call_a") == (made["type"], made["id"], made["call_id"])


@wires(RESPONSES)
def test_case_7_a_call_from_elsewhere_stands_alone(name: str) -> None:
    """
    A call that no Responses model made has no item id that would ask for a reasoning item.
    """
    elsewhere = read(ANTHROPIC, answer(ANTHROPIC, ("call", "toolu_1", "add", '{"a":1}')))
    made = wire_items(name, HELLO, elsewhere)[1]
    assert "toolu_1" == made["call_id"]
    assert "id" not in made


@wires(RESPONSES)
@pytest.mark.parametrize(
    "steps",
    [
        (("think", "so", "c2VhbA=="), ("text", "Hi"), ("call", "call_a", "add", "{}")),
        (("call", "call_a", "add", "{}"), ("text", "Hi")),
        (("think", "so", "c2VhbA=="), ("call", "call_a", "add", "{}"), ("call", "call_b", "add", "{}")),
        (("text", "one"), ("text", "two"), ("call", "call_a", "add", "{}"), ("text", "three")),
    ],
    ids=lambda steps: "-".join(step[0] for step in steps),
)
@pytest.mark.parametrize("form", [0, 1], ids=["streamed", "whole"])
def test_case_8_items_keep_the_order_of_the_model_and_get_no_fillers(
    name: str, steps: tuple[Step, ...], form: int
) -> None:
    """
    What is replayed are the items that the model gave, in its order, and nothing between them.
    """
    kinds = {"think": "reasoning", "text": "message", "call": "function_call"}
    items = wire_items(name, HELLO, both(name, *steps)[form])
    assert [kinds[step[0]] for step in steps] == [item["type"] for item in items[1:]]


@wires(RESPONSES)
def test_case_8_foreign_turns_are_encoded_in_their_order_too(name: str) -> None:
    """
    A call before the words stays before the words.
    """
    items = wire_items(name, HELLO, turn(call("call_a"), il.TextBlock(text="and"), call("call_b")), result())
    assert ["function_call", "message", "function_call", "function_call_output"] == [
        item.get("type", "message") for item in items[1:]
    ]


@wires(RESPONSES)
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
def test_case_9_a_field_of_chat_completions_is_no_item_id(name: str, field: str) -> None:
    """
    Where thinking stood in one wire is never said as an id in another.
    """
    body = answer(COMPLETIONS, ("text", "3"))
    body["choices"][0]["message"][field] = "let me add"
    output = encoded(name, HELLO, read(COMPLETIONS, body), il.UserMessage(content="and 2+2?"))
    assert field not in [item.get("id") for item in items_of(name, output.body)]
    assert not any(str(item.get("id", "")).startswith("chatcmpl") for item in items_of(name, output.body))


@every_wire
def test_case_9_ids_of_responses_items_stay_with_the_responses_api(name: str) -> None:
    """
    Item ids that the Responses API generated are sent to no other api.
    """
    body = encoded(name, HELLO, read(RESPONSES, answer(RESPONSES, *REASONED)), result())
    generated = ["rs_a0", "msg_a1", "rs_a2", "fc_a3"]
    assert (generated if owner(name) == RESPONSES else []) == [
        word for word in generated if word.encode() in body.bytes()
    ]


@wires(RESPONSES)
def test_case_10_a_conversation_is_replayed_in_full_and_nothing_refers_to_the_server(name: str) -> None:
    """
    By default all items are sent, with their words and their sealed reasoning, and none by reference.
    """
    body = encoded(name, HELLO, read(name, answer(name, *REASONED)), result()).body
    assert {"previous_response_id", "conversation"}.isdisjoint(body)
    assert ["message", "reasoning", "message", "reasoning", "function_call", "function_call_output"] == [
        item.get("type", "message") for item in body["input"]
    ]
    for text in ("Let me see.", "c2VhbDE=", "c2VhbDI=", '{\\"a\\":1}'):
        assert text in json.dumps(body["input"])


@wires(COMPLETIONS)
def test_case_12_fragments_of_reasoning_details_are_one_block(name: str) -> None:
    """
    Fragments of one index are one block: text joined, the signature that came last, unknown fields kept.
    """
    first = {"type": "reasoning.text", "text": "I thi", "index": 0, "format": "f1", "signature": None}
    second = {"type": "reasoning.text", "text": "nk", "index": 0}
    last = {"type": "reasoning.text", "signature": "c2ln", "index": 0, "novel": {"x": 1}}
    frames = [chunk({"role": "assistant", "reasoning_details": [part]}) for part in (first, second, last)]
    message = message_of(name, [*frames, chunk({"content": "Yes."}), chunk({}, "stop")])
    thinking, text = message.content
    assert ("I think", "c2ln", "Yes.") == (thinking.thinking, thinking.thinking_signature, text.text)
    (block,) = wire_items(name, HELLO, message)[1]["reasoning_details"]
    assert {"type": "reasoning.text", "text": "I think", "signature": "c2ln", "format": "f1", "novel": {"x": 1}} == {
        key: value for key, value in block.items() if key != "index"
    }


@wires(COMPLETIONS)
def test_case_12_fragments_of_other_types_and_indexes_stay_apart(name: str) -> None:
    """
    A sealed detail grows by its data, and details of other indexes are blocks of their own.
    """
    sealed = [{"type": "reasoning.encrypted", "data": piece, "index": 1, "id": "rs_1"} for piece in ("QUJD", "REVG")]
    frames = [chunk({"reasoning_details": [part]}) for part in (detail(0, "so", "c2ln"), *sealed)]
    first, second = message_of(name, [*frames, chunk({"content": "Yes."}), chunk({}, "stop")]).content[:2]
    assert ("so", "c2ln", False) == (first.thinking, first.thinking_signature, first.redacted)
    assert ("", "QUJDREVG", True) == (second.thinking, second.thinking_signature, second.redacted)


THOUGHTS: tuple[Step, ...] = (("think", "one", "c2VhbDE="), ("think", "two", "c2VhbDI="), ("text", "done"))
sealing = wires(ANTHROPIC, COMPLETIONS, RESPONSES, GOOGLE, BEDROCK)


@sealing
@pytest.mark.parametrize("form", [0, 1], ids=["streamed", "whole"])
def test_case_13_each_thinking_block_keeps_its_own_signature(name: str, form: int) -> None:
    """
    Several thinking blocks are a list in which words and seals stay paired.
    """
    first, second, text = both(name, *THOUGHTS)[form].content
    assert ("one", "c2VhbDE=") == (first.thinking, first.thinking_signature)
    assert ("two", "c2VhbDI=") == (second.thinking, second.thinking_signature)
    assert "done" == text.text


REDACTED: dict[str, list[Any]] = {
    ANTHROPIC: [
        {"type": "thinking", "thinking": "one", "signature": "c2VhbDE="},
        {"type": "redacted_thinking", "data": "ZGFyaw=="},
        {"type": "thinking", "thinking": "two", "signature": "c2VhbDI="},
    ],
    BEDROCK: [
        {"reasoningContent": {"reasoningText": {"text": "one", "signature": "c2VhbDE="}}},
        {"reasoningContent": {"redactedContent": "ZGFyaw=="}},
        {"reasoningContent": {"reasoningText": {"text": "two", "signature": "c2VhbDI="}}},
    ],
}


@wires(ANTHROPIC, BEDROCK)
def test_case_13_redacted_thinking_keeps_its_place_among_the_others(name: str) -> None:
    """
    Sealed thinking is a block in the list, where it came, and goes back there.
    """
    content = REDACTED[owner(name)]
    body = answer(name)
    holder = body["output"]["message"] if owner(name) == BEDROCK else body
    holder["content"] = content
    message = read(name, body)
    assert [False, True, False] == [block.redacted for block in message.content]
    assert ["c2VhbDE=", "ZGFyaw==", "c2VhbDI="] == [block.thinking_signature for block in message.content]
    assert content == wire_items(name, HELLO, message)[1]["content"]


ODD_SEAL = 'EqoB+/=\u00e9\u2028 \\u0041"\\\\ \U0001f512=='
OPAQUE: dict[str, list[Any]] = {
    ANTHROPIC: [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": " two  spaces\n", "signature": ODD_SEAL, "novel": {"b": 1, "a": None}},
                {"type": "redacted_thinking", "data": ODD_SEAL},
                {"type": "never_seen", "payload": ODD_SEAL},
                {"type": "text", "text": "ok"},
            ],
        }
    ],
    BEDROCK: [
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": " two  spaces\n", "signature": ODD_SEAL}}},
                {"neverSeen": {"payload": ODD_SEAL}},
                {"text": "ok"},
            ],
        }
    ],
    COMPLETIONS: [
        {
            "role": "assistant",
            "content": "ok",
            "reasoning_details": [
                {"type": "reasoning.text", "text": " two  spaces\n", "signature": ODD_SEAL, "index": 0, "novel": [1]},
                {"type": "reasoning.encrypted", "data": ODD_SEAL, "id": "rs_1", "format": "f1", "index": 1},
            ],
        }
    ],
    RESPONSES: [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": ODD_SEAL, "novel": {"b": 1, "a": None}},
        {"type": "never_seen", "id": "ns_1", "payload": ODD_SEAL},
    ],
    GOOGLE: [
        {
            "role": "model",
            "parts": [
                {"text": " two  spaces\n", "thought": True, "thoughtSignature": ODD_SEAL},
                {"functionCall": {"name": "add", "args": {}}, "thoughtSignature": ODD_SEAL, "novel": 1},
                {"neverSeen": {"payload": ODD_SEAL}},
            ],
        }
    ],
}


@sealing
def test_case_14_opaque_blocks_go_back_to_their_wire_unchanged(name: str) -> None:
    """
    Thinking, its seal, and blocks that nobody knows return as they came, in the same place.
    """
    body = asking(name, OPAQUE[owner(name)])
    assert OPAQUE[owner(name)] == items_of(name, returned(name, body))


MISTRAL = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "two "}, {"type": "text", "text": "chunks"}]},
    {"type": "text", "text": "Yes."},
]


@wires(COMPLETIONS)
def test_case_16_thinking_inside_list_content_is_read_at_both_levels(name: str) -> None:
    """
    A list of parts, one of which is again a list of chunks, is thinking and text, streamed and not.
    """
    body = answer(name, ("text", ""))
    body["choices"][0]["message"]["content"] = MISTRAL
    streams = [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "two "}]}]}),
        chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "chunks"}]}]}),
        chunk({"content": "Yes."}),
        chunk({}, "stop"),
    ]
    for message in (read(name, body), message_of(name, streams)):
        assert ("two chunks", "Yes.") == (message.thinking, message.text)
        assert [il.ThinkingBlock, il.TextBlock] == [type(block) for block in message.content]
    assert MISTRAL == wire_items(name, HELLO, read(name, body))[1]["content"]


@wires(COMPLETIONS)
@pytest.mark.parametrize(
    "fields",
    [["reasoning_content"], ["reasoning"], ["thinking"], ["reasoning_text"], ["reasoning", "reasoning_content"]],
    ids="+".join,
)
def test_case_17_every_name_for_reasoning_is_thinking_once(name: str, fields: list[str]) -> None:
    """
    The known names all mean thinking, streamed and not; under two names at once the words are read once.
    """
    body = answer(name, ("text", "3"))
    body["choices"][0]["message"] |= dict.fromkeys(fields, "let me add")
    events = events_of(
        name,
        [
            chunk({"role": "assistant", **dict.fromkeys(fields, "let me ")}),
            chunk(dict.fromkeys(fields, "add")),
            chunk({"content": "3"}),
            chunk({}, "stop"),
        ],
    )
    assert "let me add" == texts(ThinkingDelta, events)
    for message in (read(name, body), il.fold(events)):
        assert ["let me add", "3"] == [getattr(block, "thinking", None) or block.text for block in message.content]


@wires(OLLAMA)
def test_case_17_a_local_server_s_thinking_reaches_the_reader(name: str) -> None:
    """
    Thinking in a field of its own is thinking, streamed and not.
    """
    for message in both(name, ("think", "let me add", None), ("text", "3")):
        assert ("let me add", "3") == (message.thinking, message.text)


@every_wire
def test_case_18_thinking_and_words_stay_in_the_order_in_which_they_streamed(name: str) -> None:
    """
    Think, speak, think again: the message has these blocks in this order.
    """
    events = events_of(name, spoken(name, ("think", "first", None), ("text", "Hm."), ("think", "second", None)))
    order = ["first", "Hm.", "second"]
    assert order == [getattr(block, "thinking", None) or block.text for block in il.fold(events).content]
    assert "firstHm.second" == "".join(event.delta for event in only((TextDelta, ThinkingDelta), events))


@sealing
@pytest.mark.parametrize("form", [0, 1], ids=["streamed", "whole"])
def test_case_19_signed_thoughts_that_can_be_read_can_be_sent_back(name: str, form: int) -> None:
    """
    A signed thought of an answer is understood as the same block when it stands in the next request.
    """
    message = both(name, ("think", "so", "c2VhbA=="), ("text", "Hi"))[form]
    wire = il.dialect(name)
    body = encoded(name, HELLO, message).body
    again = wire.decode_request(body).context.messages[1]
    assert [("so", "c2VhbA==")] == [(b.thinking, b.thinking_signature) for b in only(il.ThinkingBlock, again.content)]


# --- tool calls: ids, names, pairing, order --------------------------------------------------------------------------


def without_id(name: str, spelled: list[Any]) -> Any:
    """An answer with two calls whose ids are gone, or spelled as given."""

    def strip(value: Any) -> Any:
        if isinstance(value, list):
            return [strip(item) for item in value]
        if not isinstance(value, dict):
            return value
        kept = {key: strip(item) for key, item in value.items()}
        for key in ("call_id", "toolUseId", "id"):
            if kept.get(key) in ("call_a", "call_b"):
                del kept[key]
                kept |= dict.fromkeys([key], spelled[0]) if spelled else {}
        return kept

    return strip(answer(name, ("call", "call_a", "add", '{"a":1}'), ("call", "call_b", "add", '{"a":2}')))


@pytest.mark.parametrize("spelled", [[""], [None], []], ids=["empty", "null", "absent"])
@wires(COMPLETIONS, GOOGLE, OLLAMA)
def test_case_22_every_call_has_an_id_of_its_own(name: str, spelled: list[Any]) -> None:
    """
    An empty, null or absent id is no id: each call gets one when it is read.
    """
    first, second = read(name, without_id(name, spelled)).tool_calls
    assert first.id
    assert second.id
    assert first.id != second.id


@wires(ANTHROPIC, BEDROCK, RESPONSES)
def test_case_22_an_empty_id_does_not_stop_a_session_where_ids_are_the_rule(name: str) -> None:
    """
    A wire that always has ids gives an empty one back as it came; the next request has real ones, one each.
    """
    message = read(name, without_id(name, [""]))
    adapted, _ = il.adapt(request_of(HELLO, message), name)
    first, second = next(m for m in adapted.context.messages if isinstance(m, il.AssistantMessage)).tool_calls
    results = [m.tool_call_id for m in adapted.context.messages if isinstance(m, il.ToolResultMessage)]
    assert first.id
    assert second.id
    assert [first.id, second.id] == results
    assert first.id != second.id


@pytest.mark.parametrize("target", [ANTHROPIC, BEDROCK, RESPONSES])
@pytest.mark.parametrize("name", [COMPLETIONS, GOOGLE, OLLAMA])
def test_case_22_a_call_without_id_and_its_result_can_be_resumed_elsewhere(name: str, target: str) -> None:
    """
    Call and result have one and the same id wherever the conversation goes on.
    """
    items: dict[str, list[Any]] = {
        COMPLETIONS: [
            {"role": "assistant", "tool_calls": [{"id": "", "type": "function", "function": {"name": "add"}}]},
            {"role": "tool", "tool_call_id": "", "content": "3"},
        ],
        GOOGLE: [
            {"role": "model", "parts": [{"functionCall": {"name": "add", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "add", "response": {"output": "3"}}}]},
        ],
        OLLAMA: [
            {"role": "assistant", "content": "", "tool_calls": [ollama_call("add", "{}")]},
            {"role": "tool", "content": "3", "tool_name": "add"},
        ],
    }
    made, given = understood(name, *items[name])
    assert made.tool_calls[0].id == given.tool_call_id != ""
    assert 2 == json.dumps(wire_items(target, made, given)).count(json.dumps(given.tool_call_id))


@wires(RESPONSES)
@pytest.mark.parametrize("answered", ["call_a", "fc_a0"])
def test_case_24_a_result_may_name_either_id_of_its_call(name: str, answered: str) -> None:
    """
    A call has two ids, and a result that names either belongs to it.
    """
    items = [
        item_of(0, ("call", "call_a", "add", "{}")),
        {"type": "function_call_output", "call_id": answered, "output": "3"},
    ]
    made, given = understood(name, *items)
    assert ("add", "3") == (given.tool_name, given.content)
    assert made.tool_calls[0].id == "call_a"
    elsewhere = il.encode(il.Conversation.of(request_of(HELLO, made, given)), ANTHROPIC).body["messages"]
    assert ["call_a", "call_a"] == [elsewhere[1]["content"][0]["id"], elsewhere[2]["content"][0]["tool_use_id"]]
    assert items == items_of(name, returned(name, asking(name, items)))


THREE = (call("call_a", a=1), call("call_b", a=2), call("call_c", a=3))
RESULTS = tuple(result(f"call_{letter}", letter) for letter in "abc")


@wires(GOOGLE)
def test_case_25_results_of_parallel_calls_are_one_turn(name: str) -> None:
    """
    Three calls are answered by one content with exactly three responses, in order.
    """
    items = wire_items(name, HELLO, turn(*THREE), *RESULTS, il.UserMessage(content="go on"))
    assert ["user", "model", "user", "user"] == [item["role"] for item in items]
    assert ["call_a", "call_b", "call_c"] == [part["functionResponse"]["id"] for part in items[2]["parts"]]


@wires(ANTHROPIC, BEDROCK)
def test_case_25_results_of_parallel_calls_are_one_user_message(name: str) -> None:
    """
    Where results stand in user messages, all results of a turn stand in one.
    """
    items = wire_items(name, HELLO, turn(*THREE), *RESULTS)
    assert ["user", "assistant", "user"] == [item["role"] for item in items]
    assert 3 == len(items[2]["content"])


@wires(COMPLETIONS)
@pytest.mark.parametrize(
    ("deltas", "call_id"),
    [
        (
            [call_delta("", index=0, name="add"), call_delta('{"a":', index=0), call_delta("1}", index=0, id="c9")],
            "c9",
        ),
        ([call_delta("", index=0, id="c9"), call_delta('{"a":1}', index=0, name="add")], "c9"),
        ([call_delta('{"a":', index=0, name="add", id=""), call_delta("1}", index=0, id=None)], None),
    ],
    ids=["late id", "late name", "no id"],
)
def test_case_30_a_call_has_one_id_in_all_its_events(
    name: str, deltas: list[dict[str, Any]], call_id: str | None
) -> None:
    """
    A call is shown when its id and name are known, and one that never gets an id has the same minted one everywhere.
    """
    events = events_of(name, [*map(chunk, deltas), chunk({}, "tool_calls")], mint=lambda n: f"minted_{n}")
    (start,), (end,) = only(ToolCallStart, events), only(ToolCallEnd, events)
    (made,) = il.fold(events).tool_calls
    assert call_id is None or call_id == made.id
    assert made.id == start.block.id == end.tool_call.id != ""
    assert ("add", {"a": 1}) == (start.block.name, made.arguments)
    assert made.id == next(event for event in events if isinstance(event, ToolCallDelta)).partial.tool_calls[0].id


@wires(GOOGLE, OLLAMA)
def test_case_30_a_wire_without_ids_gives_one_generated_id_to_all_events_of_a_call(name: str) -> None:
    """
    The id that the caller's mint gives is the call's, from its first event on.
    """
    frames = spoken(name, ("call", "", "add", '{"a":1}'), ("call", "", "add", '{"a":2}'))
    events = events_of(name, frames, mint=lambda n: f"minted_{n}")
    starts = [event.block.id for event in only(ToolCallStart, events)]
    assert starts == [event.tool_call.id for event in only(ToolCallEnd, events)]
    assert starts == [made.id for made in il.fold(events).tool_calls]
    assert 2 == len({made for made in starts if made.startswith("minted_")})


@wires(COMPLETIONS)
def test_case_31_a_name_that_is_repeated_is_still_the_name(name: str) -> None:
    """
    A server that says the whole name in every delta means one call of that name.
    """
    deltas = [
        call_delta(piece, index=0, id="call_a", type="function", name="get_weather") for piece in ("", '{"a":', "1}")
    ]
    (made,) = message_of(name, [*map(chunk, deltas), chunk({}, "tool_calls")]).tool_calls
    assert ("get_weather", {"a": 1}) == (made.name, made.arguments)


def events_without_arguments(name: str) -> list[StreamEvent]:
    """A call of a tool that takes nothing, streamed without a single delta."""
    frames = spoken(name, ("call", "call_a", "now", "{}" if owner(name) in (ANTHROPIC, BEDROCK) else ""))
    return events_of(name, [pair for pair in frames if pair[0] not in ("content_block_delta", "contentBlockDelta")])


@wires(ANTHROPIC, COMPLETIONS, RESPONSES, BEDROCK)
def test_case_35_a_call_without_any_fragment_of_arguments_has_none(name: str) -> None:
    """
    Nothing streamed means an empty object: ready to run, and valid wherever it is replayed or passed on.
    """
    message = il.fold(events_without_arguments(name))
    (made,) = message.tool_calls
    assert ("toolUse", {}, None) == (message.stop_reason, made.arguments, made.parse_error)
    conversation = il.Conversation.of(request_of(HELLO, message, result(name="now")))
    for target in {*BASES, name}:
        assert b'"arguments":""' not in il.encode(conversation, target).bytes(), target


@pytest.mark.parametrize("blank", ["", " ", "\n"])
@wires(COMPLETIONS, RESPONSES)
def test_case_35_blank_arguments_are_no_arguments(name: str, blank: str) -> None:
    """
    Blank text in a whole answer is an empty object and no error.
    """
    (made,) = read(name, answer(name, ("call", "call_a", "now", blank))).tool_calls
    assert ({}, None) == (made.arguments, made.parse_error)
    (block,) = wire_items(ANTHROPIC, turn(made))[0]["content"]
    assert {} == block["input"]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (source, name)
        for source in (ANTHROPIC, BEDROCK, COMPLETIONS, RESPONSES)
        for name in (COMPLETIONS, RESPONSES)
        if source != name  # whose own answers are passed on as they came
    ],
)
def test_case_35_what_is_passed_on_is_an_object_and_not_an_empty_text(source: str, name: str) -> None:
    """
    A client that parses the arguments of a call without any gets an empty object, streamed and not.
    """
    wire = il.dialect(name)
    events = events_without_arguments(source)
    shown = json.dumps(wire.encode_response(il.fold(events)).body)
    assert '"arguments": "{}"' in shown
    found = values_of(name, streamed(wire, events))
    if owner(name) == COMPLETIONS:
        calls = [delta for value in found for c in value["choices"] for delta in c["delta"].get("tool_calls", ())]
        spelled = "".join(delta["function"].get("arguments", "") for delta in calls)
    else:
        (spelled,) = [value["arguments"] for value in found if value["type"].endswith("arguments.done")]
    assert "{}" == spelled


HUGE = 2**53 + 1
HUGER = 123456789012345678901234567890


@every_wire
@pytest.mark.parametrize("form", [0, 1], ids=["streamed", "whole"])
def test_case_36_numbers_in_arguments_keep_every_digit(name: str, form: int) -> None:
    """
    Integers beyond what a double can hold survive reading, storing and saying again.
    """
    text = json.dumps({"id": HUGE, "big": HUGER, "x": 0.1})
    message = both(name, ("call", "call_a", "add", text))[form]
    stored = il.load(il.dump(message), il.AssistantMessage)
    (made,) = stored.tool_calls
    assert {"id": HUGE, "big": HUGER, "x": 0.1} == made.arguments
    assert [int, int] == [type(made.arguments["id"]), type(made.arguments["big"])]
    for target in BASES:
        sent = encoded(target, HELLO, stored).bytes()
        assert str(HUGE).encode() in sent
        assert str(HUGER).encode() in sent


@wires(COMPLETIONS, RESPONSES)
def test_case_36_the_arguments_keep_their_exact_text(name: str) -> None:
    """
    Text that was spelled in the model's own way goes back in that spelling.
    """
    text = '{ "n" : 1.10, "e":1E3,"n":2 }'
    message = read(name, answer(name, ("call", "call_a", "add", text)))
    assert json.dumps(text) in json.dumps(wire_items(name, HELLO, il.load(il.dump(message), il.AssistantMessage)))


@pytest.mark.parametrize("name", [ANTHROPIC, COMPLETIONS, GOOGLE, BEDROCK, OLLAMA])
def test_case_37_one_turn_is_one_message(name: str) -> None:
    """
    Words and all calls of a turn are said in a single message.
    """
    items = wire_items(name, HELLO, turn(il.TextBlock(text="Let me see."), *THREE), *RESULTS)
    spoken_by_model = [item for item in items if item["role"] in ("assistant", "model")]
    assert 1 == len(spoken_by_model)
    whole = json.dumps(spoken_by_model[0])
    assert "Let me see." in whole
    assert 3 == whole.count('"add"')


# --- streaming and event protocol ------------------------------------------------------------------------------------

PARALLEL: tuple[Step, ...] = (
    ("call", "call_a", "add", '{"a":1,"b":"one"}'),
    ("call", "call_b", "sub", '{"a":2,"b":"two"}'),
    ("call", "call_c", "add", '{"a":3,"b":"three"}'),
)
ARGUMENTS = [{"a": 1, "b": "one"}, {"a": 2, "b": "two"}, {"a": 3, "b": "three"}]


@every_wire
def test_case_39_parallel_calls_each_have_their_own_slot(name: str) -> None:
    """
    Three calls open three blocks, and every delta names its own.
    """
    events = events_of(name, spoken(name, *PARALLEL, size=3))
    assert [0, 1, 2] == [event.content_index for event in only(ToolCallStart, events)]
    message = il.fold(events)
    assert ["add", "sub", "add"] == [made.name for made in message.tool_calls]
    assert ARGUMENTS == [made.arguments for made in message.tool_calls]
    for at, arguments in enumerate(ARGUMENTS):
        own = [event for event in only(ToolCallDelta, events) if event.content_index == at]
        assert arguments == json.loads(texts(ToolCallDelta, own))


@wires(COMPLETIONS)
def test_case_39_a_new_id_on_a_known_index_is_another_call(name: str) -> None:
    """
    A server that numbers all calls 0 still makes several, told apart by their ids.
    """
    deltas = [
        call_delta("", index=0, id="call_a", name="add"),
        call_delta('{"a":1}', index=0),
        call_delta("", index=0, id="call_b", name="sub"),
        call_delta('{"a":2}', index=0),
        call_delta('{"a":3}', index=0, id="call_c", name="add"),
    ]
    calls = message_of(name, [*map(chunk, deltas), chunk({}, "tool_calls")]).tool_calls
    assert [("call_a", 1), ("call_b", 2), ("call_c", 3)] == [(made.id, made.arguments["a"]) for made in calls]


@pytest.mark.parametrize("source", BASES)
def test_case_39_what_is_passed_on_numbers_each_call(source: str) -> None:
    """
    A client of Chat Completions, Anthropic or Bedrock gets each call under an index of its own.
    """
    events = events_of(source, spoken(source, *PARALLEL))
    chunks = values_of(COMPLETIONS, streamed(il.dialect(COMPLETIONS), events))
    deltas = [delta for value in chunks for c in value["choices"] for delta in c["delta"].get("tool_calls", ())]
    gathered: dict[int, str] = {}
    for delta in deltas:
        gathered[delta["index"]] = gathered.get(delta["index"], "") + delta["function"].get("arguments", "")
    assert dict(enumerate(ARGUMENTS)) == {at: json.loads(text) for at, text in gathered.items()}
    starts = [
        value for value in values_of(ANTHROPIC, streamed(il.dialect(ANTHROPIC), events)) if "content_block" in value
    ]
    assert [0, 1, 2] == [value["index"] for value in starts]


@wires(COMPLETIONS)
@pytest.mark.parametrize(
    "deltas",
    [
        [
            call_delta('{"a":', index="0", id="call_a", name="add"),
            call_delta("1}", index=0),
            call_delta('{"a":', index=1, id="call_b", name="add"),
            call_delta("2}", index="1"),
        ],
        [
            call_delta('{"a":', id="call_a", name="add"),
            call_delta('{"a":', id="call_b", name="add"),
            call_delta("1}", id="call_a"),
            call_delta("2}", id="call_b"),
        ],
        [
            call_delta('{"a":', id="call_a", name="add"),
            call_delta("1}"),
            call_delta('{"a":', id="call_b", name="add"),
            call_delta("2}"),
        ],
        [
            call_delta('{"a":', index=0, id="call_a", name="add"),
            call_delta("1}", index=None),
            call_delta('{"a":', index=1, id="call_b", name="add"),
            call_delta("2}"),
        ],
    ],
    ids=["digits", "by id", "by the last open call", "sometimes"],
)
def test_case_40_an_index_may_be_a_digit_or_missing(name: str, deltas: list[dict[str, Any]]) -> None:
    """
    "1" and 1 are one index; without any the id decides, and then the last open call.
    """
    calls = message_of(name, [*map(chunk, deltas), chunk({}, "tool_calls")]).tool_calls
    assert [("call_a", {"a": 1}), ("call_b", {"a": 2})] == [(made.id, made.arguments) for made in calls]


@every_wire
@pytest.mark.parametrize("form", [0, 1], ids=["streamed", "whole"])
def test_case_41_a_call_anywhere_in_the_answer_means_tool_use(name: str, form: int) -> None:
    """
    The provider's last word may be a plain stop: the calls that came before it decide.
    """
    done, _, cut = STOPS[owner(name)]
    steps = (("text", "Hm."), ("call", "call_a", "add", '{"a":1}'))
    assert ("toolUse", done) == (lambda m: (m.stop_reason, m.stop_detail))(both(name, *steps, stop=done)[form])
    assert "length" == both(name, *steps, stop=cut)[form].stop_reason


@wires(RESPONSES)
def test_case_42_arguments_that_come_only_at_the_end_are_the_arguments(name: str) -> None:
    """
    Without a delta, the final value is the call's, and is shown as one delta.
    """
    frames = [
        pair
        for pair in spoken(name, ("call", "call_a", "add", '{"a":1}'))
        if pair[0] != "response.function_call_arguments.delta"
    ]
    for kept in (frames, [pair for pair in frames if pair[0] != "response.function_call_arguments.done"]):
        events = events_of(name, kept)
        assert ['{"a":1}'] == [event.delta for event in only(ToolCallDelta, events)]
        assert {"a": 1} == il.fold(events).tool_calls[0].arguments


@wires(RESPONSES)
def test_case_42_the_final_value_overrules_the_deltas(name: str) -> None:
    """
    Where deltas and the final value disagree, the final value is right.
    """
    frames = [
        (kind, {**value, "delta": "{"} if kind.endswith("arguments.delta") else value)
        for kind, value in spoken(name, ("call", "call_a", "add", '{"a":1}'))
    ]
    assert {"a": 1} == message_of(name, frames).tool_calls[0].arguments


@wires(RESPONSES)
@pytest.mark.parametrize("output", [[], None, "absent"])
def test_case_43_items_are_known_from_their_own_events(name: str, output: Any) -> None:
    """
    A last event without its list of items takes nothing away from what the items said.
    """
    *frames, (kind, last) = spoken(name, *REASONED)
    ended = {key: value for key, value in last["response"].items() if key != "output"}
    if output != "absent":
        ended["output"] = output
    message = message_of(name, [*frames, (kind, {**last, "response": ended})])
    assert message_of(name, spoken(name, *REASONED)).content == message.content
    assert ("toolUse", SPOKEN) == (message.stop_reason, message.usage.output)


@wires(RESPONSES)
def test_case_43_the_last_event_fills_gaps(name: str) -> None:
    """
    Items that had no event of their own are taken from the last one.
    """
    whole = spoken(name, *REASONED)
    message = message_of(name, [whole[0], whole[-1]])
    assert message_of(name, whole).content == message.content


@pytest.mark.parametrize("source", BASES)
@pytest.mark.parametrize(
    "steps",
    [PARALLEL[:1], PARALLEL, (("text", "Hi"), PARALLEL[0]), (PARALLEL[0], ("text", "Hi"))],
    ids=["call", "calls", "text-call", "call-text"],
)
def test_case_44_every_item_that_is_closed_was_opened(steps: tuple[Step, ...], source: str) -> None:
    """
    Items are added and done in pairs of the same id and index; no message is opened for a turn without words.
    """
    events = events_of(source, spoken(source, *steps))
    values = values_of(RESPONSES, streamed(il.dialect(RESPONSES), events))
    added, done = (
        [(v["output_index"], v["item"]["id"], v["item"]["type"]) for v in values if v["type"].endswith(kind)]
        for kind in ("item.added", "item.done")
    )
    assert added == sorted(done)
    assert len(added) == len({item_id for _, item_id, _ in added})
    kinds = {"text": "message", "call": "function_call"}
    assert [kinds[step[0]] for step in steps] == [kind for _, _, kind in added]
    opened = {item_id for _, item_id, _ in added}
    assert all(value["item_id"] in opened for value in values if "item_id" in value)


ORPHANS: dict[str, tuple[str, ...]] = {
    RESPONSES: ("response.output_item.added", "response.content_part.added"),
    ANTHROPIC: ("content_block_start",),
}


@wires(RESPONSES, ANTHROPIC)
def test_case_45_a_block_is_opened_by_its_first_delta(name: str) -> None:
    """
    An upstream that forgets to open its blocks still gives blocks that open before their deltas.
    """
    frames = [pair for pair in spoken(name, ("text", "hello there")) if pair[0] not in ORPHANS[owner(name)]]
    events = events_of(name, frames)
    assert "hello there" == texts(TextDelta, events) == il.fold(events).text
    passed_on = values_of(ANTHROPIC, streamed(il.dialect(ANTHROPIC), events))
    kinds = [value["type"] for value in passed_on]
    assert kinds.index("content_block_start") < kinds.index("content_block_delta")
    assert 1 == kinds.count("content_block_start")


@wires(RESPONSES)
def test_case_45_a_call_without_its_opening_event_is_still_a_call(name: str) -> None:
    """
    The call is whole when its item is done.
    """
    frames = [pair for pair in spoken(name, PARALLEL[0]) if pair[0] not in ORPHANS[RESPONSES]]
    (made,) = message_of(name, frames).tool_calls
    assert ("call_a", "add", ARGUMENTS[0]) == (made.id, made.name, made.arguments)


def repeating(name: str, frames: list[Given]) -> list[Given]:
    """A stream whose last event comes twice, and whose first one too, unless it already holds words."""
    return [*frames[: owner(name) not in (GOOGLE, OLLAMA)], *frames, frames[-1]]


@pytest.mark.parametrize("repeated", [False, True], ids=["plain", "repeated"])
@every_wire
def test_case_46_one_start_and_one_stop(name: str, repeated: bool) -> None:
    """
    However the upstream begins and ends, a client of Anthropic gets one message_start and one message_stop.
    """
    frames = spoken(name, ("text", "hello"), PARALLEL[0])
    events = events_of(name, repeating(name, frames) if repeated else frames)
    kinds = [value["type"] for value in values_of(ANTHROPIC, streamed(il.dialect(ANTHROPIC), events))]
    assert ("message_start", "message_stop") == (kinds[0], kinds[-1])
    assert (1, 1, 1) == tuple(map(kinds.count, ("message_start", "message_delta", "message_stop")))
    assert ("hello", 1) == (il.fold(events).text, len(il.fold(events).tool_calls))


BARE_FIRST: dict[str, list[Given]] = {
    COMPLETIONS: [chunk({"content": "Hi"}), chunk({}, "stop")],
    ANTHROPIC: spoken(ANTHROPIC, ("text", "Hi"))[1:],
    RESPONSES: spoken(RESPONSES, ("text", "Hi"))[1:],
    BEDROCK: spoken(BEDROCK, ("text", "Hi"))[1:],
    GOOGLE: [("", {"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]})],
    OLLAMA: [("", {"message": {"content": "Hi"}}), ("", {"done": True, "message": {"content": ""}})],
    COHERE: [
        cohere_event("content-delta", 0, content={"text": "Hi"}),
        ("message-end", {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}}),
    ],
    INTERACTIONS: [
        interaction_event("step.delta", index=0, delta={"type": "text", "text": "Hi"}),
        interaction_event("interaction.completed", interaction={"status": "completed"}),
    ],
}


@every_wire
def test_case_47_the_message_starts_before_anything_in_it(name: str) -> None:
    """
    Content without a role, or without the event that starts a message, comes after a start all the same.
    """
    events = events_of(name, BARE_FIRST[owner(name)])
    assert [Start, TextStart, TextDelta] == [type(event) for event in events[:3]]
    assert "Hi" == il.fold(events).text
    values = values_of(ANTHROPIC, streamed(il.dialect(ANTHROPIC), events))
    assert ["message_start", "content_block_start"] == [value["type"] for value in values[:2]]


@wires(ANTHROPIC)
def test_case_48_usage_that_is_known_at_the_start_is_reported_at_the_start(name: str) -> None:
    """
    The input of an Anthropic upstream is in the message_start that a client gets.
    """
    first = values_of(ANTHROPIC, streamed(il.dialect(ANTHROPIC), events_of(name, spoken(name, ("text", "Hi")))))[0]
    usage = first["message"]["usage"]
    counts = [usage[key] for key in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")]
    assert [FRESH, READ, WRITTEN] == counts


@wires(COMPLETIONS, RESPONSES, BEDROCK, GOOGLE, OLLAMA)
def test_case_48_usage_that_is_known_at_the_end_is_reported_in_full_at_the_end(name: str) -> None:
    """
    Where usage comes last, the final delta has input, output and the cache's share.
    """
    events = events_of(name, spoken(name, ("text", "Hi")))
    values = values_of(ANTHROPIC, streamed(il.dialect(ANTHROPIC), events))
    (usage,) = [value["usage"] for value in values if value["type"] == "message_delta"]
    known = il.fold(events).usage
    assert (known.input, known.output) == (usage["input_tokens"], usage["output_tokens"])
    assert known.cache_read == (usage.get("cache_read_input_tokens") or 0)
    assert known.cache_write == (usage.get("cache_creation_input_tokens") or 0)


WORLDLY = "Grüße, 日本語 und 👩‍💻"


@every_wire
def test_case_49_a_character_may_be_cut_anywhere(name: str) -> None:
    """
    Wherever the bytes are cut, once or after every byte, the same events come out, with no replacement characters.
    """
    body = wired(name, spoken(name, ("text", WORLDLY), ("call", "call_a", "add", json.dumps({"a": WORLDLY}))))
    wire = il.dialect(name)
    expected = decode_stream(wire, [body])
    message = il.fold(expected)
    assert (WORLDLY, {"a": WORLDLY}) == (message.text, message.tool_calls[0].arguments)
    assert expected == decode_stream(wire, pieces(body, 1))
    odd = [at for at, byte in enumerate(body) if byte >= 0x80] or range(0, len(body), 7)
    for at in odd:
        assert expected == decode_stream(wire, [body[:at], body[at:]])


SSE_SPELLINGS = {
    "CRLF": lambda body: body.replace(b"\n", b"\r\n"),
    "CR": lambda body: body.replace(b"\n", b"\r"),
    "no space": lambda body: body.replace(b"data: ", b"data:").replace(b"event: ", b"event:"),
    "comments": lambda body: b": open\n\n" + body.replace(b"data: ", b": ping\ndata: "),
    "byte order mark": lambda body: b"\xef\xbb\xbf" + body,
    "other fields": lambda body: body.replace(b"data: ", b"id: 7\nretry: 100\nnovel: x\ndata: "),
    "several lines": lambda body: body.replace(b'data: {"', b'data: {\ndata: "'),
    "no blank line at the end": lambda body: body.rstrip(b"\n"),
    "one line end at the end": lambda body: body.rstrip(b"\n") + b"\n",
}


@pytest.mark.parametrize("spelling", sorted(SSE_SPELLINGS))
@pytest.mark.parametrize("name", [ANTHROPIC, COMPLETIONS, RESPONSES, GOOGLE])
def test_case_50_server_sent_events_may_be_spelled_in_every_legal_way(name: str, spelling: str) -> None:
    """
    Line ends, spaces, comments, several data lines and a missing last blank line change nothing.
    """
    body = wired(name, spoken(name, ("text", WORLDLY), PARALLEL[0]))
    wire = il.dialect(name)
    other = SSE_SPELLINGS[spelling](body)
    assert other != body
    assert decode_stream(wire, [body]) == decode_stream(wire, [other]) == decode_stream(wire, pieces(other, 1))


@wires(COMPLETIONS)
def test_case_51_chunks_without_choices_or_delta_are_tolerated_and_kept(name: str) -> None:
    """
    What a content filter says before, beside and after the words is kept, and is no part of them.
    """
    safe = {"hate": {"filtered": False, "severity": "safe"}}
    head = {"id": "", "object": "", "created": 0, "model": ""}
    frames: list[Given] = [
        ("", {**head, "choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": safe}]}),
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hi"}),
        ("", {**head, "choices": [{"index": 0, "finish_reason": None, "content_filter_offsets": {"check_offset": 9}}]}),
        ("", {**head, "choices": [{"index": 0, "finish_reason": None, "content_filter_results": safe}]}),
        chunk({}, "stop"),
        ("", None),
    ]
    message = message_of(name, frames)
    assert ("Hi", "stop", "chatcmpl-1", "m") == (message.text, message.stop_reason, message.response_id, message.model)
    kept = il.dump(message).decode()
    for word in ("prompt_filter_results", "content_filter_results", "content_filter_offsets"):
        assert word in kept


def calls_of(work: Callable[[], Any]) -> Counter[str]:
    """How often each function, Python's and C's, is called by `work`."""
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, arg: Any) -> None:
        if event in ("call", "c_call"):
            calls[frame.f_code.co_name if event == "call" else arg.__name__] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


@wires(ANTHROPIC, COMPLETIONS, RESPONSES, BEDROCK)
def test_case_52_arguments_that_come_by_the_character_cost_the_same_for_each(name: str) -> None:
    """
    Ten times as many deltas make ten times the calls, and the text is joined and parsed once, when it is whole.
    """
    wire = il.dialect(name)

    def calls(length: int) -> Counter[str]:
        pairs = spoken(name, ("call", "call_a", "add", json.dumps({"a": "x" * length})), size=1)
        frames, decoder, events = frames_of(wire, wired(name, pairs)), wire.StreamDecoder(), []
        counted = calls_of(lambda: events.extend(event for frame in frames for event in decoder.feed(frame)))
        assert {"a": "x" * length} == il.fold(events + decoder.close()).tool_calls[0].arguments
        assert length < len(only(ToolCallDelta, events))
        return counted

    some, many = calls(50), calls(500)
    assert many.total() <= 10 * some.total()
    for once in ("join", "loads", "from_json", "parse_arguments", "compact"):
        assert some[once] == many[once], once


@every_wire
@pytest.mark.parametrize("kind", ["text", "think"])
def test_case_53_events_carry_deltas_and_not_the_message(name: str, kind: str) -> None:
    """
    Ten times the words are ten times the bytes, and the message so far is there when it is asked for.
    """
    step = (kind, "abcd" * 100, None)[: 2 if kind == "text" else 3]
    longer = (kind, "abcd" * 1000, None)[: 2 if kind == "text" else 3]
    events = events_of(name, spoken(name, step))
    deltas = only((TextDelta, ThinkingDelta), events)
    assert {"abcd"} == {event.delta for event in deltas}
    partial = deltas[9].partial
    assert "abcd" * 10 == (partial.text or partial.thinking)
    assert max(len(il.dump(event)) for event in deltas) < 100
    shorter_wire, longer_wire = (
        len(streamed(il.dialect(name), events_of(name, spoken(name, parts)))) for parts in (step, longer)
    )
    assert longer_wire < 11 * shorter_wire


@every_wire
@pytest.mark.parametrize(
    "steps",
    [
        (("text", "Let me see."), PARALLEL[0], PARALLEL[1]),
        (("think", "hm", None), ("text", "Let me see."), PARALLEL[0]),
        (PARALLEL[0], ("text", "Let me see.")),
    ],
    ids=["text-calls", "think-text-call", "call-text"],
)
def test_case_56_calls_are_kept_whatever_came_before_or_after(name: str, steps: tuple[Step, ...]) -> None:
    """
    Words and calls of one answer are all there, in the order in which they streamed.
    """
    message = message_of(name, spoken(name, *steps))
    kinds = {"text": il.TextBlock, "think": il.ThinkingBlock, "call": il.ToolCall}
    assert [kinds[step[0]] for step in steps] == [type(block) for block in message.content]
    assert "Let me see." == message.text
    assert "toolUse" == message.stop_reason


def searching(at: int) -> dict[str, Any]:
    action = {"type": "search", "query": f"q{at}"}
    return {"type": "web_search_call", "id": f"ws_{at}", "status": "completed", "action": action}


SEARCHED: dict[str, list[Given]] = {
    ANTHROPIC: [
        spoken(ANTHROPIC)[0],
        *(
            frames
            for at in (0, 1)
            for frames in (
                (
                    "content_block_start",
                    {
                        "type": "content_block_start",
                        "index": 2 * at,
                        "content_block": {
                            "type": "server_tool_use",
                            "id": f"srvtoolu_{at}",
                            "name": "web_search",
                            "input": {},
                        },
                    },
                ),
                (
                    "content_block_delta",
                    {
                        "type": "content_block_delta",
                        "index": 2 * at,
                        "delta": {"type": "input_json_delta", "partial_json": f'{{"query":"q{at}"}}'},
                    },
                ),
                ("content_block_stop", {"type": "content_block_stop", "index": 2 * at}),
                (
                    "content_block_start",
                    {
                        "type": "content_block_start",
                        "index": 2 * at + 1,
                        "content_block": {
                            "type": "web_search_tool_result",
                            "tool_use_id": f"srvtoolu_{at}",
                            "content": [
                                {
                                    "type": "web_search_result",
                                    "title": f"t{at}",
                                    "url": "https://example.org",
                                    "encrypted_content": f"sealed{at}",
                                    "page_age": None,
                                }
                            ],
                        },
                    },
                ),
                ("content_block_stop", {"type": "content_block_stop", "index": 2 * at + 1}),
            )
        ),
        *spoken(ANTHROPIC)[1:],
    ],
    RESPONSES: [
        spoken(RESPONSES)[0],
        *(
            frames
            for at in (0, 1)
            for frames in (
                event("response.output_item.added", output_index=at, item={**searching(at), "status": "in_progress"}),
                event("response.web_search_call.completed", output_index=at, item_id=f"ws_{at}"),
                event("response.output_item.done", output_index=at, item=searching(at)),
            )
        ),
        event("response.completed", response=response([])),
    ],
    GOOGLE: [
        *(
            ("", {"candidates": [candidate([part])]})
            for at in (0, 1)
            for part in (
                {"executableCode": {"language": "PYTHON", "code": f"q{at}"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": f"sealed{at}"}},
            )
        ),
        ("", {"candidates": [candidate([{"text": "ok"}], "STOP")]}),
    ],
}


@wires(ANTHROPIC, RESPONSES, GOOGLE)
def test_case_57_every_use_of_the_provider_s_own_tools_is_kept(name: str) -> None:
    """
    Uses that are spread over a stream are all in the message, in order, and go back with the next request.
    """
    message = message_of(name, SEARCHED[owner(name)])
    replayed = json.dumps(wire_items(name, HELLO, message))
    seals = ["q0", "q1"] if owner(name) == RESPONSES else ["q0", "sealed0", "q1", "sealed1"]
    places = [replayed.find(word) for word in seals]
    assert -1 not in places
    assert sorted(places) == places
    assert [1] * len(seals) == [replayed.count(word) for word in seals]


TOGETHER: dict[str, list[Given]] = {
    COMPLETIONS: [
        chunk(
            {
                "role": "assistant",
                "reasoning_content": "hm",
                "content": "Hi",
                **call_delta("{}", index=0, id="c", name="f"),
            }
        ),
        chunk({}, "tool_calls"),
    ],
    GOOGLE: [
        (
            "",
            {
                "candidates": [
                    candidate(
                        [
                            {"text": "hm", "thought": True},
                            {"text": "Hi"},
                            {"functionCall": {"id": "c", "name": "f", "args": {}}},
                        ],
                        "STOP",
                    )
                ]
            },
        )
    ],
    OLLAMA: [
        line(thinking="hm", content="Hi", tool_calls=[ollama_call("f", "{}")]),
        ("", whole_ollama((), "stop")),
    ],
}


@wires(COMPLETIONS, GOOGLE, OLLAMA)
def test_case_58_a_chunk_that_holds_everything_becomes_ordered_events(name: str) -> None:
    """
    Thinking, words and a call of one chunk are three blocks, each payload once.
    """
    events = events_of(name, TOGETHER[owner(name)])
    assert ("hm", "Hi") == (texts(ThinkingDelta, events), texts(TextDelta, events))
    assert 1 == len(only(ToolCallStart, events)) == len(only(ToolCallEnd, events))
    kinds = [il.ThinkingBlock, il.TextBlock, il.ToolCall]
    assert kinds == [type(block) for block in il.fold(events).content]


@pytest.mark.parametrize("steps", [(("text", "Hi"),), PARALLEL[:1], (("think", "hm", None), ("text", "Hi"))], ids=str)
@pytest.mark.parametrize("source", BASES)
def test_case_59_the_first_chunk_has_the_role(source: str, steps: tuple[Step, ...]) -> None:
    """
    Whatever comes first, a client of Chat Completions is told that the assistant speaks; and is told once.
    """
    chunks = values_of(COMPLETIONS, streamed(il.dialect(COMPLETIONS), events_of(source, spoken(source, *steps))))
    roles = [choice["delta"].get("role") for value in chunks for choice in value["choices"]]
    assert "assistant" == roles[0]
    assert {"assistant"} == {role for role in roles if role is not None}


# --- content: images, files, text, system ----------------------------------------------------------------------------

A_PDF = f"data:application/pdf;base64,{PDF}"
FILES: dict[str, Any] = {
    ANTHROPIC: {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
        "title": "a.pdf",
    },
    COMPLETIONS: {"type": "file", "file": {"filename": "a.pdf", "file_data": A_PDF}},
    RESPONSES: {"type": "input_file", "filename": "a.pdf", "file_data": A_PDF},
    GOOGLE: {"inlineData": {"mimeType": "application/pdf", "data": PDF}},
    BEDROCK: {"document": {"format": "pdf", "name": "a", "source": {"bytes": PDF}}},
}


def from_user(name: str, part: Any) -> dict[str, Any]:
    """A user's message with one part."""
    return {"role": "user", "parts" if owner(name) == GOOGLE else "content": [part]}


@wires(*FILES)
def test_case_64_every_spelling_of_a_file_is_one_document(name: str) -> None:
    """
    A PDF is the same document block, whichever wire it came from.
    """
    (block,) = understood(name, from_user(name, FILES[owner(name)]))[0].content
    assert isinstance(block, il.DocumentBlock)
    assert (PDF, "application/pdf") == (block.data, block.mime_type)


@every_wire
def test_case_64_a_file_is_encoded_or_its_loss_is_reported(name: str) -> None:
    """
    No encoder drops a document in silence, and strict mode refuses to drop it at all.
    """
    wire = il.dialect(name)
    for source, part in FILES.items():
        request = request_of(*understood(source, from_user(source, part)))
        body = wire.encode_request(request)
        is_carried = PDF.encode() in body.bytes()
        assert is_carried == (owner(name) not in (OLLAMA, COHERE))
        assert is_carried != ("$.messages[0].content[0]" in paths(body))
        if not is_carried:
            with pytest.raises(il.Unsupported):
                wire.encode_request(request, strict=True)


@wires(COMPLETIONS, RESPONSES)
def test_case_64_a_file_that_was_uploaded_is_a_document_too(name: str) -> None:
    """
    A file by its id is a document block with that id.
    """
    part: Any = {"type": "file", "file": {"file_id": "file-1"}}
    if owner(name) == RESPONSES:
        part = {"type": "input_file", "file_id": "file-1"}
    (block,) = understood(name, from_user(name, part))[0].content
    assert (il.DocumentBlock, "file-1") == (type(block), block.file_id)


TYPED: dict[str, Callable[[str, str], Any]] = {
    ANTHROPIC: lambda mime, data: {
        "type": "image" if mime.startswith("image/") else "document",
        "source": {"type": "base64", "media_type": mime, "data": data},
    },
    COMPLETIONS: lambda mime, data: (
        {"type": "image_url", "image_url": {"url": f"data:{mime};base64,{data}"}}
        if mime.startswith("image/")
        else {"type": "file", "file": {"filename": "a", "file_data": f"data:{mime};base64,{data}"}}
    ),
    RESPONSES: lambda mime, data: (
        {"type": "input_image", "image_url": f"data:{mime};base64,{data}"}
        if mime.startswith("image/")
        else {"type": "input_file", "filename": "a", "file_data": f"data:{mime};base64,{data}"}
    ),
    GOOGLE: lambda mime, data: {"inlineData": {"mimeType": mime, "data": data}},
}


@pytest.mark.parametrize(
    ("mime", "data", "kind"),
    [
        ("image/png;charset=binary", PICTURE, il.ImageBlock),
        ("application/pdf;charset=utf-8;v=1", PDF, il.DocumentBlock),
    ],
    ids=["image", "document"],
)
@wires(*TYPED)
def test_case_65_parameters_of_a_media_type_do_not_matter(name: str, mime: str, data: str, kind: type) -> None:
    """
    The block has the bare type, so that every target understands it, and its own wire gets the parameters back.
    """
    item = from_user(name, TYPED[owner(name)](mime, data))
    (message,) = understood(name, item)
    (block,) = message.content
    assert (kind, mime.partition(";")[0], data) == (type(block), block.mime_type, block.data)
    assert item == items_of(name, returned(name, asking(name, [item])))[0]
    for target in BASES:
        if target != owner(name):
            assert mime.partition(";")[2].encode() not in encoded(target, message).bytes()


@every_wire
@pytest.mark.parametrize("spelling", ["raw", "escaped"])
def test_case_67_half_a_surrogate_pair_never_reaches_the_wire(name: str, spelling: str) -> None:
    """
    A tool's output with half an emoji is sent as valid JSON, with U+FFFD in its place.
    """
    text = "cut \ud83d off"
    if spelling == "escaped":
        given = il.load(il.dump(result(text="@@")).replace(b"@@", b"cut \\ud83d off"), il.ToolResultMessage)
    else:
        given = result(text=text)
    output = encoded(name, HELLO, turn(call(a=1)), given)
    body = output.bytes().decode("utf-8")
    assert "cut \ufffd off" in json.dumps(json.loads(body), ensure_ascii=False)
    if spelling == "raw":
        assert any(path.startswith("$.messages[2].content") for path in paths(output))


@every_wire
def test_case_67_a_request_with_half_a_pair_can_be_read(name: str) -> None:
    """
    A client's body with an escaped half is understood, with U+FFFD in its place.
    """
    body = encoded(name, il.UserMessage(content="cut @@ off")).bytes().replace(b"@@", b"\\udc00")
    (message,) = il.dialect(name).decode_request(body).context.messages
    assert "cut \ufffd off" == il.AssistantMessage(content=blocks_of(message.content)).text


@every_wire
@pytest.mark.parametrize("text", ["👩‍💻 \U0001f600", "\U0010ffff𝄞", "\ufffd \u2028 \u0000é"], ids=ascii)
def test_case_68_valid_text_is_left_alone(name: str, text: str) -> None:
    """
    Proper pairs, raw or escaped, and every other valid character come back as they were.
    """
    output = encoded(name, il.UserMessage(content=text), turn(call(a=text)), result(text=text))
    assert [] == [path for path in paths(output) if path.endswith(("content", "text"))]
    wire = il.dialect(name)
    for body in (output.bytes(), json.dumps(json.loads(output.bytes())).encode()):
        user, made, given = wire.decode_request(body).context.messages
        assert {"a": text} == made.tool_calls[0].arguments
        for message in (user, given):
            assert text == il.AssistantMessage(content=blocks_of(message.content)).text


PICTURED: dict[str, list[Any]] = {
    COMPLETIONS: [
        {
            "role": "assistant",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "see", "arguments": "{}"}}],
        },
        {
            "role": "tool",
            "tool_call_id": "c",
            "content": [
                {"type": "text", "text": "look:"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}},
            ],
        },
    ],
    ANTHROPIC: [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "see", "input": {}}]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c",
                    "content": [
                        {"type": "text", "text": "look:"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}},
                    ],
                }
            ],
        },
    ],
    RESPONSES: [
        {"type": "function_call", "call_id": "c", "name": "see", "arguments": "{}"},
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": [
                {"type": "input_text", "text": "look:"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"},
            ],
        },
    ],
    BEDROCK: [
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c", "name": "see", "input": {}}}]},
        {
            "role": "user",
            "content": [
                {
                    "toolResult": {
                        "toolUseId": "c",
                        "content": [{"text": "look:"}, {"image": {"format": "png", "source": {"bytes": PICTURE}}}],
                    }
                }
            ],
        },
    ],
}


@wires(*PICTURED)
def test_case_69_a_list_with_a_picture_is_not_flattened_to_text(name: str) -> None:
    """
    A result of words and a picture is both, and reaches every target as both or with its loss told.
    """
    made, given = understood(name, *PICTURED[owner(name)])
    assert ("look:", "image/png", PICTURE) == (given.content[0].text, given.content[1].mime_type, given.content[1].data)
    for target in WIRES:
        body = encoded(target, made, given)
        is_lost = any(path.startswith("$.messages[1].content") for path in paths(body))
        assert b"look:" in body.bytes()
        assert is_lost or PICTURE.encode() in body.bytes(), target


CITED: dict[str, Any] = {
    ANTHROPIC: {
        "type": "text",
        "text": "It rained.",
        "citations": [
            {
                "type": "web_search_result_location",
                "cited_text": "rain",
                "url": "https://example.org",
                "title": "Weather",
                "encrypted_index": "c2VhbA==",
            }
        ],
    },
    RESPONSES: {
        "type": "output_text",
        "text": "It rained.",
        "annotations": [
            {"type": "url_citation", "url": "https://example.org", "title": "Weather", "start_index": 3, "end_index": 9}
        ],
    },
    BEDROCK: {
        "citationsContent": {
            "content": [{"text": "It rained."}],
            "citations": [
                {
                    "title": "Weather",
                    "sourceContent": [{"text": "rain"}],
                    "location": {"web": {"url": "https://example.org", "domain": "example.org"}},
                }
            ],
        }
    },
}


@wires(*CITED)
def test_case_70_citations_are_part_of_the_text_and_return_with_it(name: str) -> None:
    """
    Sources are on the text block, survive storage, and go back with every field, encrypted ones included.
    """
    part = CITED[owner(name)]
    body = answer(name, ("text", "It rained."))
    holder = body["output"][0] if owner(name) == RESPONSES else body
    holder = holder["output"]["message"] if owner(name) == BEDROCK else holder
    holder["content"] = [part]
    message = il.load(il.dump(read(name, body)), il.AssistantMessage)
    ((citation,),) = [block.citations for block in message.content]
    assert ("Weather", "https://example.org") == (citation.title, citation.url)
    assert [part] == wire_items(name, HELLO, message)[1]["content"]


NOVEL: dict[str, Any] = {"novel_field": {"server": "only"}}


@every_wire
def test_case_71_what_only_answers_say_is_kept_and_not_sent(name: str) -> None:
    """
    Fields of an answer's envelope return to a client of the same wire, and are never part of the next request.
    """
    body = {**answer(name, ("text", "Hi"), PARALLEL[0]), **NOVEL}
    message = read(name, body)
    again = il.dialect(name).encode_response(il.load(il.dump(message), il.AssistantMessage)).body
    assert body == json.loads(json.dumps(again))
    sent = json.dumps(wire_items(name, HELLO, message, result()))
    for word in ("novel_field", "stop_reason", "finish_reason", "finishReason", "stopReason", "usage", "eval_count"):
        assert word not in sent


@wires(ANTHROPIC)
def test_case_71_a_paused_turn_can_be_sent_back(name: str) -> None:
    """
    A turn that paused inside a server's tool is a plain stop whose blocks go back as they came.
    """
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
    message = read(name, {**answer(name), "content": [use], "stop_reason": "pause_turn"})
    assert ("stop", "pause_turn") == (message.stop_reason, message.stop_detail)
    assert {"role": "assistant", "content": [use]} == wire_items(name, HELLO, message)[1]


RESULT_SPELLINGS: dict[str, Callable[[Any], list[Any]]] = {
    COMPLETIONS: lambda content: [PICTURED[COMPLETIONS][0], {"role": "tool", "tool_call_id": "c", "content": content}],
    ANTHROPIC: lambda content: [
        PICTURED[ANTHROPIC][0],
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": content}]},
    ],
}


@wires(*RESULT_SPELLINGS)
def test_case_72_a_result_may_be_a_string_or_a_list(name: str) -> None:
    """
    Both spellings mean the same words, each returns in its own, and a cache marker in the list is kept.
    """
    spell = RESULT_SPELLINGS[owner(name)]
    marked = [{"type": "text", "text": "3", "cache_control": {"type": "ephemeral"}}]
    spellings = ["3", [{"type": "text", "text": "3"}], marked]
    found = [blocks_of(understood(name, *spell(content))[1].content) for content in spellings]
    assert ["3", "3", "3"] == [block.text for (block,) in found]
    assert [None, None, CacheMarker()] == [block.cache for (block,) in found]
    for content in spellings:
        assert spell(content) == items_of(name, returned(name, asking(name, spell(content))))


# --- schemas and structured output -----------------------------------------------------------------------------------

ADD = il.ToolSpec(
    name="add", description="Adds.", input_schema={"type": "object", "properties": {"a": {"type": "integer"}}}
)


@every_wire
def test_case_78_strictness_is_encoded_where_the_wire_has_it_and_reported_elsewhere(name: str) -> None:
    """
    The flag is in the body exactly when it is not among the losses.
    """
    body = encoded(name, HELLO, tools=(replace(ADD, strict=True),))
    assert (b'"strict"' in body.bytes()) != ("$.tools[0].strict" in paths(body))
    assert (owner(name) in (GOOGLE, OLLAMA, COHERE, INTERACTIONS)) == ("$.tools[0].strict" in paths(body))


@wires(GOOGLE)
@pytest.mark.parametrize("word", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "SAFETY", "NEVER_SEEN"])
def test_case_79_a_failed_answer_without_content_is_no_success(name: str, word: str) -> None:
    """
    A reason that means failure, or that nobody knows, ends an empty answer in an error that keeps the word.
    """
    empty = {"candidates": [{"content": {}, "finishReason": word, "index": 0}], "usageMetadata": GOOGLE_USAGE}
    whole = read(name, {"response": empty} if name == GEMINI_CLI else empty)
    for message in (whole, message_of(name, [("", empty)])):
        assert ("error", word) == (message.stop_reason, message.stop_detail)
        assert message.error_message


@wires(ANTHROPIC, COMPLETIONS, BEDROCK, OLLAMA)
@pytest.mark.parametrize("form", [0, 1], ids=["streamed", "whole"])
def test_case_79_an_unknown_word_is_a_stop_only_when_something_came(name: str, form: int) -> None:
    """
    With words it is a stop, with nothing an error; the word is kept either way.
    """
    nothing = both(name, stop="never_seen")[form]
    assert ("error", "never_seen") == (nothing.stop_reason, nothing.stop_detail)
    something = both(name, ("text", "Hi"), stop="never_seen")[form]
    assert ("stop", "never_seen") == (something.stop_reason, something.stop_detail)


# --- usage and cost --------------------------------------------------------------------------------------------------

# What each wire's convention makes of the same counts: (input, output, cache read, cache write, total).
BUCKETS = {
    ANTHROPIC: (FRESH, SPOKEN, READ, WRITTEN, 105),
    COMPLETIONS: (FRESH, SPOKEN, READ, WRITTEN, 105),
    RESPONSES: (FRESH, SPOKEN, READ, WRITTEN, 105),
    BEDROCK: (FRESH, SPOKEN, READ, WRITTEN, 105),
    GOOGLE: (FRESH, SPOKEN, READ, 0, 95),
    OLLAMA: (FRESH, SPOKEN, 0, 0, 75),
    COHERE: (FRESH, SPOKEN, READ, 0, 95),
    INTERACTIONS: (FRESH, SPOKEN, READ, 0, 95),
}


def buckets(usage: il.Usage) -> tuple[int, ...]:
    return usage.input, usage.output, usage.cache_read, usage.cache_write, usage.total_tokens


@every_wire
@pytest.mark.parametrize("form", [0, 1], ids=["streamed", "whole"])
def test_case_80_tokens_are_counted_in_disjoint_buckets(name: str, form: int) -> None:
    """
    What was read from or written to the cache is in no other bucket, and the buckets add up to the total.
    """
    usage = both(name, ("text", "Hi"))[form].usage
    assert usage.total_tokens == usage.input + usage.cache_read + usage.cache_write + usage.output
    assert FRESH == usage.input


@every_wire
def test_case_81_streamed_and_whole_answers_count_alike(name: str) -> None:
    """
    The same answer has the same usage, whichever way it came.
    """
    streamed_one, whole = both(name, ("think", "hm", None), ("text", "Hi"), PARALLEL[0])
    assert streamed_one.usage == whole.usage


@every_wire
@pytest.mark.parametrize("form", [0, 1], ids=["streamed", "whole"])
def test_case_82_whether_input_includes_the_cache_is_fixed_per_wire(name: str, form: int) -> None:
    """
    Each wire's own counts come to these buckets, no cached token counted twice; and go back as the same counts.
    """
    message = both(name, ("text", "Hi"))[form]
    assert BUCKETS[owner(name)] == buckets(message.usage)
    wire = il.dialect(name)
    assert message.usage == wire.decode_response(wire.encode_response(message).body).usage


@pytest.mark.parametrize("target", BASES)
@pytest.mark.parametrize("source", [ANTHROPIC, COMPLETIONS, RESPONSES, BEDROCK])
def test_case_82_a_gateway_adds_nothing_to_the_count(source: str, target: str) -> None:
    """
    However one wire's usage is said in another, input, output and total stay the same in sum.
    """
    usage = read(source, answer(source, ("text", "Hi"))).usage
    wire = il.dialect(target)
    again = wire.decode_response(wire.encode_response(turn(il.TextBlock(text="Hi"), usage=usage)).body).usage
    assert usage.input + usage.cache_read + usage.cache_write == again.input + again.cache_read + again.cache_write
    assert (usage.output, usage.total_tokens) == (again.output, again.total_tokens)


def grown(name: str) -> list[Given]:
    """A stream in which every event repeats the usage so far."""
    if owner(name) == COMPLETIONS:
        usages = [{**COMPLETIONS_USAGE, "completion_tokens": n, "total_tokens": 100 + n} for n in (1, 3, 5)]
        return [chunk({"content": "x"}, usage=usage) for usage in usages] + [chunk({}, "stop", usage=usages[-1])]
    if owner(name) == GOOGLE:
        usages = [{**GOOGLE_USAGE, "candidatesTokenCount": n, "totalTokenCount": 90 + n} for n in (1, 3, 5)]
        frames = [("", {"candidates": [candidate([{"text": "x"}])], "usageMetadata": usage}) for usage in usages]
        return [*frames, ("", {"candidates": [{"finishReason": "STOP"}], "usageMetadata": usages[-1]})]
    *frames, last = spoken(name, ("text", "xxx"))
    deltas = [("message_delta", {"type": "message_delta", "delta": {}, "usage": {"output_tokens": n}}) for n in (1, 3)]
    return [*frames[:-1], *deltas, frames[-1], last]


@wires(COMPLETIONS, GOOGLE, ANTHROPIC)
def test_case_83_usage_that_grows_is_not_added_up(name: str) -> None:
    """
    Cumulative counts overwrite each other: the last one is the usage.
    """
    message = message_of(name, grown(name))
    assert "xxx" == message.text
    assert BUCKETS[owner(name)] == buckets(message.usage)


@wires(ANTHROPIC)
def test_case_84_input_of_the_start_and_output_of_the_end_are_one_usage(name: str) -> None:
    """
    Both halves are there, and input that grew by a server's tools has its last value.
    """
    frames = spoken(name, ("text", "Hi"))
    assert BUCKETS[ANTHROPIC] == buckets(message_of(name, frames).usage)
    kind, last = frames[-2]
    searched = {"input_tokens": 900, "output_tokens": 8, "server_tool_use": {"web_search_requests": 2}}
    usage = message_of(name, [*frames[:-2], (kind, {**last, "usage": searched}), frames[-1]]).usage
    assert (900, 8, READ, WRITTEN) == (usage.input, usage.output, usage.cache_read, usage.cache_write)
    assert "web_search_requests" in json.dumps(usage.extra)


@wires(ANTHROPIC, GOOGLE, COMPLETIONS)
def test_case_85_an_aborted_stream_tells_the_usage_that_is_known(name: str) -> None:
    """
    What the provider counted before the abort is in the message, which says that it was aborted.
    """
    frames = grown(name)[:2] if owner(name) != ANTHROPIC else spoken(name, ("text", "hello"))[:3]
    wire = il.dialect(name)
    decoder = wire.StreamDecoder()
    events = [event for frame in frames_of(wire, wired(name, frames)) for event in decoder.feed(frame)]
    events += decoder.close(aborted=True)
    assert [] == faults(events)
    message = il.fold(events)
    assert isinstance(events[-1], Error)
    assert "aborted" == message.stop_reason == events[-1].reason
    assert message.text
    assert (FRESH, READ) == (message.usage.input, message.usage.cache_read)


@every_wire
def test_case_85_nothing_known_is_not_zero(name: str) -> None:
    """
    A stream that was aborted before any count has no usage, rather than one of zeros.
    """
    events = il.dialect(name).StreamDecoder().close(aborted=True)
    assert (None, "aborted") == (il.fold(events).usage, il.fold(events).stop_reason)


@every_wire
def test_case_86_a_price_that_is_not_reported_is_unknown(name: str) -> None:
    """
    No wire's counts are turned into a cost of zero.
    """
    for message in both(name, ("text", "Hi")):
        assert message.usage.cost is None
        assert b'"cost"' not in il.dump(message)


@wires(COMPLETIONS)
def test_case_86_a_price_that_is_reported_is_the_price(name: str) -> None:
    """
    What the host says that the answer cost is kept, in a stream as in a whole answer.
    """
    usage = {**COMPLETIONS_USAGE, "cost": 0.00125}
    frames = [pair for pair in spoken(name, ("text", "Hi")) if "usage" not in (pair[1] or {})]
    messages = [
        read(name, {**answer(name, ("text", "Hi")), "usage": usage}),
        message_of(name, [*frames[:-1], ("", {**chunk({})[1], "choices": [], "usage": usage}), frames[-1]]),
    ]
    for message in messages:
        assert 0.00125 == message.usage.cost.total
        assert BUCKETS[COMPLETIONS] == buckets(message.usage)


@wires(COMPLETIONS)
@pytest.mark.parametrize("spelled", ["", None, "absent"])
def test_case_87_a_usage_chunk_without_an_id_takes_none_away(name: str, spelled: Any) -> None:
    """
    The answer keeps its id, whatever the chunk with the usage has in its place.
    """
    *frames, (_, last), done = spoken(name, ("text", "Hi"))
    last = {key: value for key, value in last.items() if key != "id"}
    if spelled != "absent":
        last["id"] = spelled
    message = message_of(name, [*frames, ("", last), done])
    assert ("chatcmpl-1", SPOKEN) == (message.response_id, message.usage.output)


@pytest.mark.parametrize("source", BASES)
def test_case_87_all_that_a_client_gets_of_one_answer_has_one_id(source: str) -> None:
    """
    The id of an answer is in every chunk, the last one with the usage included; one is made up where it has none.
    """
    events = events_of(source, spoken(source, ("text", "Hi"), PARALLEL[0]))
    (one,) = {value["id"] for value in values_of(COMPLETIONS, streamed(il.dialect(COMPLETIONS), events))}
    assert one
    assert il.fold(events).response_id in (one, None)


# --- prompt caching --------------------------------------------------------------------------------------------------

MARKERS = {ANTHROPIC: b'"cache_control"', COMPLETIONS: b'"cache_control"', BEDROCK: b'"cachePoint"'}


@wires(*MARKERS)
def test_case_89_one_marker_marks_one_block(name: str) -> None:
    """
    A marker on one of several parallel results is on that result alone, wherever the conversation is said.
    """
    marked = replace(RESULTS[1], cache=CacheMarker())
    body = encoded(name, HELLO, turn(*THREE), RESULTS[0], marked, RESULTS[2])
    assert 1 == body.bytes().count(MARKERS[owner(name)])
    again = il.dialect(name).decode_request(body.bytes()).context.messages
    assert [None, CacheMarker(), None] == [message.cache for message in again[2:5]]


@pytest.mark.parametrize("target", sorted(MARKERS))
def test_case_89_a_marker_of_a_tool_message_stays_one_marker(target: str) -> None:
    """
    What a client of Chat Completions marks as a message is one block in the wires that mark blocks.
    """
    calls = [
        {"id": f"call_{letter}", "type": "function", "function": {"name": "add", "arguments": "{}"}} for letter in "ab"
    ]
    items = [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_a", "content": "1"},
        {"role": "tool", "tool_call_id": "call_b", "content": "2", "cache_control": {"type": "ephemeral"}},
    ]
    body = encoded(target, *understood(COMPLETIONS, *items))
    assert 1 == body.bytes().count(MARKERS[target])


def schema_of(number: int) -> dict[str, Any]:
    names = [f"field{(number * 7 + at) % 10}" for at in range(10)]
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": sorted(names)}


TOOLS = tuple(il.ToolSpec(name=f"tool_{at}", description="d", input_schema=schema_of(at)) for at in range(10))


@every_wire
def test_case_90_the_same_tools_are_the_same_bytes(name: str) -> None:
    """
    Encoding again, and encoding what was stored and loaded, gives the same bytes, in the order of the tools.
    """
    wire = il.dialect(name)
    request = request_of(HELLO, tools=TOOLS, system="Be brief.")
    first = wire.encode_request(request).bytes()
    assert first == wire.encode_request(request_of(HELLO, tools=TOOLS, system="Be brief.")).bytes()
    assert first == wire.encode_request(il.load(il.dump(request), il.Request)).bytes()
    assert first == wire.encode_request(il.load(il.dump(wire.decode_request(first)), il.Request)).bytes()
    places = [first.find(f'"tool_{at}"'.encode()) for at in range(10)]
    assert sorted(places) == places
    assert -1 not in places


HASHED = """
import interlingua as il
properties = {name: {"type": "string"} for name in ("b", "a", "c")}
tools = tuple(il.ToolSpec(name=name, input_schema={"type": "object", "properties": properties}) for name in "xyz")
context = il.Context(messages=(il.UserMessage(content="hello"),), tools=tools)
options = il.Options(metadata={"b": "1", "a": "2"})
request = il.Request(model=il.ModelDescriptor(id="m"), context=context, options=options)
for name in %r:
    print(il.dialect(name).encode_request(request).bytes())
"""


def run(code: str, **environment: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env={**os.environ, **environment}
    )
    return done.stdout


def test_case_90_bytes_do_not_depend_on_the_process() -> None:
    """
    Two interpreters with different hash seeds say the same request in the same bytes.
    """
    code = HASHED % (sorted(WIRES),)
    first, second = (run(code, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert len(WIRES) == len(first.splitlines())
    assert first == second


# --- errors ----------------------------------------------------------------------------------------------------------


BAD, THROTTLING = ("invalid_request_error", "INVALID_ARGUMENT"), ("rate_limit_error", "RESOURCE_EXHAUSTED")


def failure(name: str, message: str, codes: tuple[str, str] = BAD) -> Any:
    """An error body in a wire's own shape."""
    if owner(name) == ANTHROPIC and name != INVOKE:
        return {"type": "error", "error": {"type": codes[0], "message": message}}
    if owner(name) in (COMPLETIONS, RESPONSES):
        return {"error": {"message": message, "type": codes[0], "param": None, "code": None}}
    if owner(name) == GOOGLE:
        return {"error": {"code": 400, "message": message, "status": codes[1]}}
    return {"error": message} if owner(name) == OLLAMA else {"message": message}


OVERFLOWS = [
    "prompt is too long: 213462 tokens > 200000 maximum",
    "Input is too long for requested model.",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
    "The input token count (1048580) exceeds the maximum number of tokens allowed (1048576).",
    "Please reduce the length of the messages or completion.",
    "the request exceeds the available context size, try increasing it",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
]
THROTTLED = [
    "Rate limit reached for m: too many tokens per minute. Please try again in 20s.",
    "ThrottlingException: Too many tokens, please wait before trying again.",
    "You exceeded your current quota of tokens per day.",
]


@pytest.mark.parametrize("message", OVERFLOWS, ids=lambda message: message[:24])
def test_case_96_a_conversation_that_does_not_fit_is_one_kind_of_error(message: str) -> None:
    """
    Whatever words a server has for it, in whatever shape, it is a ContextTooLong.
    """
    for name in WIRES:
        error = il.dialect(name).decode_error(400, failure(name, message))
        assert (il.ContextTooLong, message) == (type(error), error.message), name


@pytest.mark.parametrize("message", OVERFLOWS, ids=lambda message: message[:24])
def test_case_96_clients_of_another_wire_recognize_it(message: str) -> None:
    """
    They look for their own provider's sentence, or for a code. What has it already is not changed.
    """
    recognized = {ANTHROPIC: "prompt is too long", GOOGLE: r"input token count.*exceeds the maximum"}
    for name, pattern in recognized.items():
        text = il.dialect(name).encode_error(il.ContextTooLong(message, status=400))[1]["error"]["message"]
        assert re.search(pattern, text) and text.endswith(message), name
        assert text == message or not re.search(pattern, message), name
    for name in (COMPLETIONS, RESPONSES):
        body = il.dialect(name).encode_error(il.ContextTooLong(message, status=400))[1]
        assert body["error"]["code"] == "context_length_exceeded", name


@pytest.mark.parametrize("message", THROTTLED, ids=lambda message: message[:24])
def test_case_96_throttling_speaks_of_tokens_too_and_is_no_overflow(message: str) -> None:
    """
    Too many tokens per minute will pass, and is never taken for a conversation that is too long.
    """
    for name in WIRES:
        wire = il.dialect(name)
        assert isinstance(wire.decode_error(429, failure(name, message, THROTTLING)), il.RateLimited), name
        assert not isinstance(wire.decode_error(400, failure(name, message)), il.ContextTooLong), name


KEY = "sk-secret-0123456789"


@every_wire
def test_case_99_no_key_is_in_an_error(name: str) -> None:
    """
    Headers that came along leave nothing in the error, in what it prints, or in what a gateway says of it.
    """
    headers = {"authorization": f"Bearer {KEY}", "x-api-key": KEY, "x-goog-api-key": KEY, "retry-after": "7"}
    wire = il.dialect(name)
    for status in (400, 401, 429, 500):
        error = wire.decode_error(status, failure(name, "no"), headers)
        assert 7.0 == error.retry_after
        for shown in (str(error), repr(error), repr(vars(error)), json.dumps(wire.encode_error(error))):
            assert KEY not in shown


@every_wire
def test_case_99_no_key_is_in_a_request_or_its_path(name: str) -> None:
    """
    A key is an option of the call, which no codec sees and nothing prints.
    """
    options, calling = StreamOptions(api_key=KEY, headers={"x-api-key": KEY}, temperature=0.5).split()
    wire = il.dialect(name)
    assert KEY.encode() not in wire.encode_request(request_of(HELLO, options=options)).bytes()
    assert "key=" not in wire.path("m", True) + wire.path("m", False)
    assert KEY not in repr(calling)


@every_wire
@pytest.mark.parametrize("aborted", [False, True])
def test_case_101_a_failure_before_the_first_event_is_a_failure(name: str, aborted: bool) -> None:
    """
    A body without any event is a start and an error, never an empty success.
    """
    events = il.dialect(name).StreamDecoder().close(None if aborted else "connection reset", aborted=aborted)
    assert [Start, Error] == [type(event) for event in events]
    assert ("aborted" if aborted else "error") == il.fold(events).stop_reason
    assert il.fold(events).error_message


@every_wire
def test_case_101_the_failure_reaches_the_client_of_every_wire(name: str) -> None:
    """
    What a gateway passes on of a stream that failed at once is understood as an error again, with its words.
    """
    events = il.dialect(ANTHROPIC).StreamDecoder().close("connection reset")
    wire = il.dialect(name)
    again = decode_stream(wire, [streamed(wire, events)])
    assert [] == faults(again)
    assert isinstance(again[-1], Error)
    assert "connection reset" in il.fold(again).error_message


@every_wire
def test_case_101_an_empty_body_is_no_success(name: str) -> None:
    """
    A 200 with nothing in it is an error.
    """
    events = decode_stream(il.dialect(name), [])
    assert [Start, Error] == [type(event) for event in events]


# --- what is stored, and what it costs to begin ----------------------------------------------------------------------


@every_wire
@pytest.mark.parametrize("form", [0, 1], ids=["streamed", "whole"])
def test_case_109_what_is_stored_comes_back_and_asks_the_same(name: str, form: int) -> None:
    """
    An answer with all that the provider attached is equal after storing, and the next request is equal to the byte.
    """
    wire = il.dialect(name)
    message = both(name, ("think", "hm", "c2VhbA=="), ("text", WORLDLY), *PARALLEL)[form]
    request = request_of(HELLO, message, *RESULTS, tools=TOOLS)
    stored = il.load(il.dump(request), il.Request)
    assert message == il.load(il.dump(message), il.AssistantMessage)
    assert request == stored
    assert wire.encode_request(request).bytes() == wire.encode_request(stored).bytes()


@sealing
def test_case_109_opaque_parts_of_a_history_are_stored_too(name: str) -> None:
    """
    Blocks that nobody knows, and fields that nobody knows of known blocks, survive storage to the byte.
    """
    wire = il.dialect(name)
    body = asking(name, OPAQUE[owner(name)])
    request = wire.decode_request(body)
    stored = il.load(il.dump(request), il.Request)
    assert request == stored
    assert wire.encode_request(request).bytes() == wire.encode_request(stored).bytes()


HEAVY = ("anthropic", "openai", "google.genai", "boto3", "botocore", "ollama", "aiohttp", "httpx", "pydantic", "rich")


def test_case_117_importing_the_package_is_light() -> None:
    """
    No vendor's package, no HTTP client and no dialect is loaded before it is used.
    """
    code = "import sys; before = set(sys.modules); import interlingua; print(*sorted(set(sys.modules) - before))"
    loaded = run(code).split()
    assert [] == [name for name in loaded if name in HEAVY or name.startswith(tuple(f"{heavy}." for heavy in HEAVY))]
    own = [name for name in loaded if name.startswith("interlingua")]
    assert len(own) < 30
    assert len(loaded) < 250
    for name in ("anthropic_messages", "openai_responses", "google_generative_ai", "bedrock_converse_stream"):
        assert f"interlingua.dialects.{name}" not in loaded


def test_case_117_every_wire_works_without_a_vendor_s_package() -> None:
    """
    Loading all dialects loads nothing heavy either.
    """
    code = (
        "import sys; from interlingua.dialects import DIALECTS, dialect;"
        "[dialect(name).API for name in DIALECTS]; print(*sys.modules)"
    )
    assert set() == set(HEAVY) & set(run(code).split())
