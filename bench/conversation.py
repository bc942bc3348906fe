"""What is measured: one long agent conversation, and streamed answers of several shapes in several wires.

Pure data, the same in every process: a fixed seed, no clock. Needs msgspec alone, so that it loads in any environment.
"""

import base64
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

# --- the conversation ------------------------------------------------------------------------------------------------


class Text(Struct):
    text: str


class Thinking(Struct):
    thinking: str
    signature: str


class Image(Struct):
    data: str
    mime_type: str


class Call(Struct):
    id: str
    name: str
    arguments: dict[str, Any]


class User(Struct):
    content: list[Text | Image]


class Assistant(Struct):
    content: list[Text | Thinking | Call]


class Result(Struct):
    call_id: str
    name: str
    text: str


class Tool(Struct):
    name: str
    description: str
    schema: dict[str, Any]


class Chat(Struct):
    system: str
    messages: list[User | Assistant | Result]
    tools: list[Tool]
    max_tokens: int


_SENTENCE = (
    "the agent reads a file and then edits it because tests fail when parser meets an empty line so we check what "
    'happens there and return None instead of raising "ValueError" which callers did not expect — see notes\n'
)
_WORDS = _SENTENCE.split(" ")


def _prose(random: random.Random, size: int) -> str:
    text = ""
    while len(text) < size:
        text += " ".join(random.choices(_WORDS, k=40)) + " "
    return text[:size]


def _listing(random: random.Random, size: int) -> str:
    """Text as tools return it: numbered lines of code, indented, with quotes."""
    lines: list[str] = []
    while sum(map(len, lines)) < size:
        name, word = random.choices(_WORDS, k=2)
        lines.append(f'{len(lines) + 1:>5}\t    if {name.strip()} == "{word.strip()}":  # {random.random():.6f}\n')
    return "".join(lines)[:size]


def _base64(random: random.Random, size: int) -> str:
    return base64.b64encode(random.randbytes(size * 3 // 4)).decode()


def _tool(random: random.Random, at: int) -> Tool:
    properties = {
        f"{name}_{at}": {"type": kind, "description": _prose(random, 60).strip()}
        for name, kind in (("path", "string"), ("limit", "integer"), ("recursive", "boolean"), ("pattern", "string"))
    }
    schema = {"type": "object", "properties": properties, "required": list(properties)[:2]}
    return Tool(f"tool_{at}", _prose(random, 200).strip(), schema)


def conversation(turns: int = 20) -> Chat:
    """20 turns of user, assistant (thinking, text, two calls), two results, assistant; then one more question."""
    dice = random.Random(2024)
    messages: list[User | Assistant | Result] = []
    for turn in range(turns):
        asked: list[Text | Image] = [Text(_prose(dice, 300))]
        if turn in (0, 10):
            asked.append(Image(_base64(dice, 50_000), "image/png"))
        calls = [
            Call(f"toolu_{turn:02}{n}", f"tool_{n}", {f"path_{n}": f"src/module_{turn}.py", f"limit_{n}": 200})
            for n in range(2)
        ]
        thought = Thinking(_prose(dice, 800), _base64(dice, 400))
        messages.append(User(asked))
        messages.append(Assistant([thought, Text(_prose(dice, 150)), *calls]))
        messages.extend(Result(call.id, call.name, _listing(dice, 2_000)) for call in calls)
        messages.append(Assistant([Text(_prose(dice, 400))]))
    messages.append(User([Text(_prose(dice, 100))]))
    return Chat(_prose(dice, 6_000), messages, [_tool(dice, at) for at in range(20)], 4096)


# --- streamed answers ------------------------------------------------------------------------------------------------

WIRES = ("anthropic", "openai", "responses", "gemini")
CASES = ("text5k", "text50k", "think1k", "tool20k", "tool200k", "rows20k", "rows200k")
SIZES = ("20k", "200k", "2m")  # of arguments: does the work per event grow?

_DELTA = 100  # bytes of arguments in one event
_COUNTS = {"3": 3, "200": 200, "1k": 1_000, "2k": 2_000, "5k": 5_000, "50k": 50_000}
_BYTES = {"20k": 20_000, "200k": 200_000, "2m": 2_000_000}


class Answer(Struct):
    """An answer in pieces, before any wire has said it."""

    thinking: list[str]
    text: list[str]
    arguments: list[str]


def answer(case: str) -> Answer:
    kind, size = case[:4], case[4:]
    dice = random.Random(7)
    if kind == "text":
        return Answer([], _tokens(dice, _COUNTS[size]), [])
    if kind == "thin":
        size = case.removeprefix("think")
        return Answer(_tokens(dice, _COUNTS[size]), _tokens(dice, _COUNTS[size]), [])
    text = (_file_body if kind == "tool" else _rows)(dice, _BYTES[size])
    return Answer([], [], [text[at : at + _DELTA] for at in range(0, len(text), _DELTA)])


def _tokens(random: random.Random, count: int) -> list[str]:
    return [f" {word}" for word in random.choices(_WORDS, k=count)]


def _file_body(random: random.Random, size: int) -> str:
    return json.dumps({"path": "src/app.py", "content": _listing(random, int(size * 0.9))}, separators=(",", ":"))


def _rows(random: random.Random, size: int) -> str:
    rows = [
        {"id": at, "name": random.choice(_WORDS).strip(), "score": round(random.random(), 4), "done": at % 2 == 0}
        for at in range(size // 55)
    ]
    return json.dumps({"rows": rows}, separators=(",", ":"))


def chunks(wire: str, case: str) -> list[bytes]:
    """The answer as one server-sent event per network chunk."""
    return list(_STREAMS[wire](answer(case)))


def _event(value: dict[str, Any], name: str = "") -> bytes:
    data = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + data + b"\n\n"


def _anthropic(answer: Answer) -> Iterator[bytes]:
    def say(kind: str, **fields: Any) -> bytes:
        return _event({"type": kind, **fields}, kind)

    def block(index: int, opening: dict[str, Any], kind: str, field: str, pieces: list[str]) -> Iterator[bytes]:
        yield say("content_block_start", index=index, content_block=opening)
        for piece in pieces:
            yield say("content_block_delta", index=index, delta={"type": kind, field: piece})
        if opening["type"] == "thinking":
            yield say("content_block_delta", index=index, delta={"type": "signature_delta", "signature": "c2ln" * 80})
        yield say("content_block_stop", index=index)

    usage = {"input_tokens": 25, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}
    message = {"id": "msg_01", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": []}
    yield say("message_start", message={**message, "stop_reason": None, "stop_sequence": None, "usage": usage})
    at = 0
    if answer.thinking:
        opening = {"type": "thinking", "thinking": "", "signature": ""}
        yield from block(at, opening, "thinking_delta", "thinking", answer.thinking)
        at += 1
    if answer.text:
        yield from block(at, {"type": "text", "text": ""}, "text_delta", "text", answer.text)
        at += 1
    if answer.arguments:
        opening = {"type": "tool_use", "id": "toolu_01", "name": "write_file", "input": {}}
        yield from block(at, opening, "input_json_delta", "partial_json", answer.arguments)
    stop = "tool_use" if answer.arguments else "end_turn"
    yield say("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": 42})
    yield say("message_stop")


def _openai(answer: Answer) -> Iterator[bytes]:
    envelope = {
        "id": "chatcmpl-01",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "gpt-5",
        "service_tier": "default",
        "system_fingerprint": "fp_01",
    }

    def say(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _event({**envelope, "choices": [choice], "usage": None})

    yield say({"role": "assistant", "content": "", "refusal": None})
    for piece in answer.thinking:
        yield say({"reasoning_content": piece})
    for piece in answer.text:
        yield say({"content": piece})
    if answer.arguments:
        call = {"index": 0, "id": "call_01", "type": "function", "function": {"name": "write_file", "arguments": ""}}
        yield say({"tool_calls": [call]})
    for piece in answer.arguments:
        yield say({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    yield say({}, "tool_calls" if answer.arguments else "stop")
    usage = {"prompt_tokens": 25, "completion_tokens": 42, "total_tokens": 67}
    yield _event({**envelope, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def _responses(answer: Answer) -> Iterator[bytes]:
    count = 0

    def say(kind: str, **fields: Any) -> bytes:
        nonlocal count
        count += 1
        return _event({"type": kind, "sequence_number": count - 1, **fields}, kind)

    response: dict[str, Any] = {
        "id": "resp_01",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": "gpt-5",
        "output": [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None,
        "metadata": {},
    }
    yield say("response.created", response=response)
    yield say("response.in_progress", response=response)
    output: list[dict[str, Any]] = []

    def pieces(prefix: str, texts: list[str], **place: Any) -> Iterator[bytes]:
        for piece in texts:
            yield say(f"{prefix}.delta", **place, delta=piece)

    if answer.thinking:
        at, place = len(output), {"item_id": "rs_01", "output_index": len(output), "summary_index": 0}
        item = {"id": "rs_01", "type": "reasoning", "summary": []}
        part = {"type": "summary_text", "text": "".join(answer.thinking)}
        output.append({**item, "summary": [part]})
        yield say("response.output_item.added", output_index=at, item=item)
        yield say("response.reasoning_summary_part.added", **place, part={"type": "summary_text", "text": ""})
        yield from pieces("response.reasoning_summary_text", answer.thinking, **place)
        yield say("response.reasoning_summary_text.done", **place, text=part["text"])
        yield say("response.reasoning_summary_part.done", **place, part=part)
        yield say("response.output_item.done", output_index=at, item=output[at])
    if answer.text:
        at, place = len(output), {"item_id": "msg_01", "output_index": len(output), "content_index": 0}
        item = {"id": "msg_01", "type": "message", "status": "in_progress", "content": [], "role": "assistant"}
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": "".join(answer.text)}
        output.append({**item, "status": "completed", "content": [part]})
        yield say("response.output_item.added", output_index=at, item=item)
        yield say("response.content_part.added", **place, part={**part, "text": ""})
        yield from pieces("response.output_text", answer.text, **place, logprobs=[])
        yield say("response.output_text.done", **place, text=part["text"], logprobs=[])
        yield say("response.content_part.done", **place, part=part)
        yield say("response.output_item.done", output_index=at, item=output[at])
    if answer.arguments:
        at, place = len(output), {"item_id": "fc_01", "output_index": len(output)}
        item = {"id": "fc_01", "type": "function_call", "status": "in_progress", "arguments": ""}
        item |= {"call_id": "call_01", "name": "write_file"}
        whole = "".join(answer.arguments)
        output.append({**item, "status": "completed", "arguments": whole})
        yield say("response.output_item.added", output_index=at, item=item)
        yield from pieces("response.function_call_arguments", answer.arguments, **place)
        yield say("response.function_call_arguments.done", **place, arguments=whole)
        yield say("response.output_item.done", output_index=at, item=output[at])
    usage = {"input_tokens": 25, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 42}
    usage |= {"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 67}
    yield say("response.completed", response={**response, "status": "completed", "output": output, "usage": usage})


def _gemini(answer: Answer) -> Iterator[bytes]:
    def say(part: dict[str, Any], finish: str | None = None) -> bytes:
        candidate: dict[str, Any] = {"content": {"parts": [part], "role": "model"}, "index": 0}
        if finish:
            candidate["finishReason"] = finish
        usage = {"promptTokenCount": 25, "candidatesTokenCount": 42, "totalTokenCount": 67}
        tail = {"usageMetadata": usage, "modelVersion": "gemini-2.5-pro", "responseId": "resp01"}
        return _event({"candidates": [candidate], **tail})

    for piece in answer.thinking:
        yield say({"text": piece, "thought": True})
    for piece in answer.text:
        yield say({"text": piece})
    if answer.arguments:  # this wire sends a call whole
        arguments = json.loads("".join(answer.arguments))
        yield say({"functionCall": {"name": "write_file", "args": arguments}})
    yield say({"text": ""}, "STOP")


def _ollama(answer: Answer) -> Iterator[bytes]:
    def say(message: dict[str, Any], **more: Any) -> bytes:
        line = {"model": "qwen3", "created_at": "2026-01-01T00:00:00.000000Z", "message": message, "done": False}
        return json.dumps(line | more, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"

    for piece in answer.thinking:
        yield say({"role": "assistant", "content": "", "thinking": piece})
    for piece in answer.text:
        yield say({"role": "assistant", "content": piece})
    if answer.arguments:  # this wire, too, sends a call whole
        call = {"function": {"name": "write_file", "arguments": json.loads("".join(answer.arguments))}}
        yield say({"role": "assistant", "content": "", "tool_calls": [call]})
    counts = {"total_duration": 1, "prompt_eval_count": 25, "eval_count": 42}
    yield say({"role": "assistant", "content": ""}, done=True, done_reason="stop", **counts)


_STREAMS: dict[str, Callable[[Answer], Iterator[bytes]]] = {
    "anthropic": _anthropic,
    "openai": _openai,
    "responses": _responses,
    "gemini": _gemini,
    "ollama": _ollama,
}
