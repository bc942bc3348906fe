"""The reading of line formats beside the bare cost of their lines: msgspec decoding and encoding them, in the same run.

`python bench/files.py [--read] [MEGABYTES] [FORMAT…]`; each format's file is made of our own samples, its lines
repeated under new ids. A row reads the file with `il.read` (for a session file: one conversation), and converts it with
the command unless only reading is asked for. Each time in a new process, what is compared in turns; medians. Two
commands side by side, each with one process, show what the machine allows two processes of one command at most.

`python bench/files.py --scale [MEGABYTES…]` goes through files of 10, 100 and 1000 MB in the ways that need no more
memory for a larger file: what a line costs, and how much memory the process took. Each way is gone once before, with
the first lines of the file, so that what starting costs is not counted.
"""

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

WORDS = "The file declares x, and nothing else uses it; so it can go. " * 8
RESULT = "let x = 1; // words\n" * 60
TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}


def sharegpt(at: int) -> Iterator[Any]:
    turns = [("human", f"Question {at}: what is in main.ts?"), ("gpt", WORDS), ("human", "And then?"), ("gpt", WORDS)]
    yield {"id": f"row-{at}", "conversations": [{"from": who, "value": text} for who, text in turns]}


def finetune(at: int) -> Iterator[Any]:
    call = {"id": f"call_{at}", "type": "function", "function": {"name": "read", "arguments": '{"path":"main.ts"}'}}
    messages = [
        {"role": "system", "content": "You are helpful."},
        {"role": "user", "content": f"Question {at}: what is in main.ts?"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": RESULT},
        {"role": "assistant", "content": WORDS, "weight": 1},
    ]
    yield {"messages": messages, "tools": [TOOL]}


def batch(at: int) -> Iterator[Any]:
    call = {"type": "tool_use", "id": f"toolu_{at}", "name": "read", "input": {"path": "main.ts"}}
    messages = [
        {"role": "user", "content": f"Question {at}: what is in main.ts?"},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": RESULT}]},
    ]
    tool = {"name": "read", "description": "Reads a file.", "input_schema": {"type": "object", "properties": {}}}
    body = {"model": "claude-x", "max_tokens": 1024, "system": WORDS, "tools": [tool], "messages": messages}
    yield {"custom_id": f"row-{at}", "params": body}


def openai_batch(at: int) -> Iterator[Any]:
    for row in finetune(at):
        body = {"model": "gpt-x", **row}
        yield {"custom_id": f"row-{at}", "method": "POST", "url": "/v1/chat/completions", "body": body}


def alpaca(at: int) -> Iterator[Any]:
    yield {"instruction": f"Question {at}", "input": RESULT, "output": WORDS}


def anthropic(at: int) -> Iterator[Any]:
    content = [{"type": "text", "text": RESULT}]
    messages = [{"role": "user", "content": content}, {"role": "assistant", "content": WORDS}]
    yield {"model": "claude-x", "max_tokens": at + 1, "messages": messages}


def claude_code(at: int) -> Iterator[Any]:
    stamp = f"2026-01-{at // 86400 % 28 + 1:02}T{at // 3600 % 24:02}:{at // 60 % 60:02}:{at % 60:02}.000Z"
    common = {"isSidechain": False, "userType": "external", "cwd": "/home/u/p", "sessionId": "s-1", "version": "2.1.0"}
    common["gitBranch"] = "main"
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 100, "output_tokens": 50}
    usage |= {"cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}}  # type: ignore[dict-item]
    answer = {"id": f"msg_{at}", "type": "message", "role": "assistant", "model": "claude-opus-4-6", "usage": usage}
    answer["stop_sequence"] = None
    call = {"type": "tool_use", "id": f"toolu_{at}", "name": "Read", "input": {"file_path": "main.ts"}}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": RESULT}
    messages = [
        ("user", {"role": "user", "content": f"Question {at}: what is in main.ts?"}),
        ("assistant", {**answer, "content": [{"type": "text", "text": WORDS}], "stop_reason": None}),
        ("assistant", {**answer, "content": [call], "stop_reason": "tool_use"}),
        ("user", {"role": "user", "content": [result]}),
    ]
    for number, (kind, message) in enumerate(messages):
        before = f"u-{at}-{number - 1}" if number else (f"u-{at - 1}-{len(messages) - 1}" if at else None)
        place = {"parentUuid": before, "uuid": f"u-{at}-{number}", "timestamp": stamp, "type": kind}
        more: dict[str, Any] = {"requestId": f"req_{at}"} if kind == "assistant" else {}
        if number == 3:
            more["toolUseResult"] = {"type": "text", "file": {"filePath": "main.ts", "content": RESULT, "numLines": 60}}
        yield {**place, **common, **more, "message": message}


def codex(at: int) -> Iterator[Any]:
    def line(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        return {"timestamp": "2026-01-01T00:00:00.000Z", "type": kind, "payload": payload}

    if at == 0:
        yield line("session_meta", {"id": "s-1", "cwd": "/home/u/p", "cli_version": "0.80.0", "originator": "codex"})
    yield line("turn_context", {"cwd": "/home/u/p", "model": "gpt-5.2-codex", "approval_policy": "never"})
    asked = [{"type": "input_text", "text": f"Question {at}"}]
    yield line("response_item", {"type": "message", "role": "user", "content": asked})
    call = {"type": "function_call", "name": "shell", "arguments": '{"command":["cat"]}', "call_id": f"call_{at}"}
    yield line("response_item", call)
    yield line("response_item", {"type": "function_call_output", "call_id": f"call_{at}", "output": RESULT})
    content = [{"type": "output_text", "text": WORDS}]
    yield line("response_item", {"type": "message", "role": "assistant", "content": content})


def openclaw(at: int) -> Iterator[Any]:
    if at == 0:
        yield {"type": "session", "version": 3, "id": "s-1", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/home/u"}
    usage = {"input": 10, "output": 50, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 60}
    made = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-opus-4-6", "usage": usage}
    call = {"type": "toolCall", "id": f"toolu_{at}", "name": "read", "arguments": {"path": "main.ts"}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": f"Question {at}"}], "timestamp": 1},
        {"role": "assistant", "content": [call], **made, "stopReason": "toolUse", "timestamp": 2},
        {
            "role": "toolResult",
            "toolCallId": f"toolu_{at}",
            "toolName": "read",
            "content": [{"type": "text", "text": RESULT}],
            "isError": False,
            "timestamp": 3,
        },
        {
            "role": "assistant",
            "content": [{"type": "text", "text": WORDS}],
            **made,
            "stopReason": "stop",
            "timestamp": 4,
        },
    ]
    for number, message in enumerate(messages):
        before = f"{at}-{number - 1}" if number else (f"{at - 1}-{len(messages) - 1}" if at else None)
        place = {"type": "message", "id": f"{at}-{number}", "parentId": before, "timestamp": "2026-01-01T00:00:00.000Z"}
        yield {**place, "message": message}


def gemini(at: int) -> Iterator[Any]:
    if at == 0:
        yield {"sessionId": "s-1", "projectHash": "p", "startTime": "2026-01-01T00:00:00.000Z", "kind": "main"}
    tokens = {"input": 10, "output": 5, "cached": 0, "thoughts": 0, "tool": 0, "total": 15}
    common = {"timestamp": "2026-01-01T00:00:00.000Z"}
    yield {"id": f"u-{at}", **common, "type": "user", "content": [{"text": RESULT}]}
    yield {"id": f"g-{at}", **common, "type": "gemini", "content": WORDS, "tokens": tokens, "model": "gemini-2.5-pro"}


def transcript(at: int) -> Iterator[Any]:
    for line in openclaw(at):
        if line["type"] == "message":
            yield {**line["message"], "id": line["id"], "parentId": line["parentId"]}


def codex_exec(at: int) -> Iterator[Any]:
    if at == 0:
        yield {"type": "thread.started", "thread_id": "t-1"}
        yield {"type": "turn.started"}
    item = {"id": f"item_{2 * at}", "type": "command_execution", "command": "cat main.ts", "aggregated_output": ""}
    yield {"type": "item.started", "item": {**item, "exit_code": None, "status": "in_progress"}}
    done = {"aggregated_output": RESULT, "exit_code": 0, "status": "completed"}
    yield {"type": "item.completed", "item": {**item, **done}}
    yield {"type": "item.completed", "item": {"id": f"item_{2 * at + 1}", "type": "agent_message", "text": WORDS}}


def qwen(at: int) -> Iterator[Any]:
    tokens = {"promptTokenCount": 10, "candidatesTokenCount": 5, "cachedContentTokenCount": 0, "totalTokenCount": 15}
    answered = {"model": "qwen3-coder-plus", "usageMetadata": tokens}
    call = {"functionCall": {"id": f"c-{at}", "name": "read_file", "args": {"path": "main.ts"}}}
    result = {"functionResponse": {"id": f"c-{at}", "name": "read_file", "response": {"output": RESULT}}}
    lines: list[tuple[str, str, Any, dict[str, Any]]] = [
        ("user", "user", [{"text": f"Question {at}"}], {}),
        ("assistant", "model", [call], answered),
        ("tool_result", "user", [result], {}),
        ("assistant", "model", [{"text": WORDS}], answered),
    ]
    for number, (kind, role, parts, more) in enumerate(lines):
        before = f"{at}-{number - 1}" if number else (f"{at - 1}-{len(lines) - 1}" if at else None)
        place = {"uuid": f"{at}-{number}", "parentUuid": before, "sessionId": "s-1", "type": kind}
        place |= {"timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/home/u/p", "version": "0.8.0"}
        yield {**place, **more, "message": {"role": role, "parts": parts}}


def copilot(at: int) -> Iterator[Any]:
    def event(number: int, kind: str, **data: Any) -> dict[str, Any]:
        before = f"{at}-{number - 1}" if number else (f"{at - 1}-3" if at else None)
        stamp = "2026-01-01T00:00:00.000Z"
        return {"type": kind, "data": data, "id": f"{at}-{number}", "timestamp": stamp, "parentId": before}

    if at == 0:
        yield event(-1, "session.start", sessionId="s-1", selectedModel="gpt-5")
    yield event(0, "user.message", content=f"Question {at}", attachments=[])
    request = {"toolCallId": f"c-{at}", "name": "view", "arguments": {"path": "main.ts"}, "type": "function"}
    yield event(1, "assistant.message", messageId=f"m-{at}", content="", toolRequests=[request])
    yield event(2, "tool.execution_complete", toolCallId=f"c-{at}", success=True, result={"content": RESULT})
    yield event(3, "assistant.message", messageId=f"n-{at}", content=WORDS, toolRequests=[])


def kimi(at: int) -> Iterator[Any]:
    def event(kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": "context.append_loop_event", "event": {"type": kind, **fields}, "time": 1785397665000 + at}

    if at == 0:
        yield {"type": "metadata", "protocol_version": "1.4"}
    asked = {"role": "user", "content": f"Question {at}", "origin": {"kind": "user"}}
    yield {"type": "context.append_message", "message": asked}
    for number, step in enumerate((f"s-{at}", f"t-{at}")):
        yield event("step.begin", uuid=step)
        if number == 0:
            yield event("tool.call", stepUuid=step, toolCallId=f"c-{at}", name="Read", args={"path": "main.ts"})
            yield event("tool.result", toolCallId=f"c-{at}", result={"output": RESULT})
        else:
            yield event("content.part", stepUuid=step, part={"type": "text", "text": WORDS})
        yield event("step.end", uuid=step, usage={"inputOther": 10, "output": 5})


def opencode(at: int) -> Iterator[Any]:
    yield {
        "info": {"id": f"u-{at}", "sessionID": "s-1", "role": "user", "time": {"created": 1}},
        "parts": [{"id": f"p-{at}", "messageID": f"u-{at}", "type": "text", "text": f"Question {at}"}],
    }
    state = {"status": "completed", "input": {"filePath": "main.ts"}, "output": RESULT, "title": "main.ts"}
    tokens = {"input": 10, "output": 5, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    answer = {
        "id": f"a-{at}",
        "sessionID": "s-1",
        "role": "assistant",
        "modelID": "claude-x",
        "providerID": "anthropic",
    }
    parts = [
        {"id": f"q-{at}", "type": "tool", "callID": f"c-{at}", "tool": "read", "state": state},
        {"id": f"r-{at}", "type": "text", "text": WORDS},
    ]
    yield {"info": {**answer, "tokens": tokens, "cost": 0, "time": {"created": 2, "completed": 3}}, "parts": parts}


def cline(at: int) -> Iterator[Any]:
    call = {"type": "tool_use", "id": f"toolu_{at}", "name": "read_file", "input": {"path": "main.ts"}}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": [{"type": "text", "text": RESULT}]}
    asked = [{"type": "text", "text": f"<task>\nQuestion {at}\n</task>"}]
    yield {"role": "user", "content": asked, "ts": 3 * at}
    yield {"role": "assistant", "content": [{"type": "text", "text": WORDS}, call], "ts": 3 * at + 1}
    yield {"role": "user", "content": [result], "ts": 3 * at + 2}


def antigravity(at: int) -> Iterator[Any]:
    stamp = {"status": "DONE", "created_at": "2026-01-01T00:00:00Z"}
    asked = f"<USER_REQUEST>\nQuestion {at}\n</USER_REQUEST>\n<ADDITIONAL_METADATA>none</ADDITIONAL_METADATA>"
    call = {"name": "view_file", "args": {"AbsolutePath": "main.ts"}}
    steps: list[dict[str, Any]] = [
        {"source": "USER_EXPLICIT", "type": "USER_INPUT", **stamp, "content": asked},
        {"source": "MODEL", "type": "PLANNER_RESPONSE", **stamp, "thinking": WORDS, "tool_calls": [call]},
        {"source": "MODEL", "type": "VIEW_FILE", **stamp, "content": RESULT},
        {"source": "MODEL", "type": "PLANNER_RESPONSE", **stamp, "content": WORDS},
    ]
    for number, step in enumerate(steps):
        yield {"step_index": 4 * at + number, **step}


def claude_stream(at: int) -> Iterator[Any]:
    if at == 0:
        yield {"type": "system", "subtype": "init", "session_id": "s-1", "model": "claude-opus-4-6", "cwd": "/home/u/p"}
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 100, "output_tokens": 50}
    answer = {"type": "message", "role": "assistant", "model": "claude-opus-4-6", "stop_reason": None, "usage": usage}
    call = {"type": "tool_use", "id": f"toolu_{at}", "name": "Read", "input": {"file_path": "main.ts"}}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": RESULT}
    common = {"parent_tool_use_id": None, "session_id": "s-1"}
    messages: list[tuple[str, dict[str, Any]]] = [
        ("assistant", {"id": f"msg_{at}", **answer, "content": [{"type": "text", "text": WORDS}]}),
        ("assistant", {"id": f"msg_{at}", **answer, "content": [call]}),
        ("user", {"role": "user", "content": [result]}),
    ]
    for number, (kind, message) in enumerate(messages):
        yield {"type": kind, "message": message, **common, "uuid": f"u-{at}-{number}"}


def copilot_chat(at: int) -> Iterator[Any]:
    if at == 0:
        state = {"version": 3, "sessionId": "s-1", "responderUsername": "GitHub Copilot", "requests": []}
        yield {"kind": 0, "v": state}
    asked = {"requestId": f"r-{at}", "timestamp": 1785397665000 + at, "modelId": "copilot/gpt-5", "response": []}
    yield {"kind": 2, "k": ["requests"], "v": [{**asked, "message": {"text": f"Question {at}", "parts": []}}]}
    yield {"kind": 2, "k": ["requests", at, "response"], "v": [{"value": WORDS}]}
    call = {"id": f"c-{at}", "name": "read_file", "arguments": '{"path":"main.ts"}'}
    rounds = [{"response": "", "toolCalls": [call], "id": f"x-{at}"}, {"response": WORDS, "toolCalls": []}]
    results = {f"c-{at}": {"content": [{"value": RESULT}]}}
    metadata = {"toolCallRounds": rounds, "toolCallResults": results}
    yield {"kind": 1, "k": ["requests", at, "result"], "v": {"timings": {"totalElapsed": 5}, "metadata": metadata}}


def cursor(at: int) -> Iterator[Any]:
    call = {"type": "tool_use", "id": f"c-{at}", "name": "Read", "input": {"path": "main.ts"}}
    result = {"type": "tool_result", "tool_use_id": f"c-{at}", "content": RESULT}
    yield {"role": "user", "message": {"content": [{"type": "text", "text": f"Question {at}"}]}}
    yield {"role": "assistant", "message": {"content": [{"type": "text", "text": WORDS}, call]}}
    yield {"role": "user", "message": {"content": [result]}}


def droid(at: int) -> Iterator[Any]:
    if at == 0:
        yield {"type": "session_start", "id": "s-1", "title": "Eggs", "owner": "u", "cwd": "/home/u/p"}
    call = {"type": "tool_use", "id": f"toolu_{at}", "name": "Read", "input": {"file_path": "main.ts"}}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": RESULT}
    messages: list[tuple[str, Any]] = [
        ("user", [{"type": "text", "text": f"Question {at}"}]),
        ("assistant", [{"type": "text", "text": WORDS}, call]),
        ("user", [result]),
    ]
    for number, (role, content) in enumerate(messages):
        before = f"{at}-{number - 1}" if number else f"{at - 1}-{len(messages) - 1}"
        place = {"id": f"{at}-{number}", "timestamp": "2026-01-01T00:00:00.000Z", "parentId": before}
        yield {"type": "message", **place, "message": {"role": role, "content": content}}


def gemini_stream(at: int) -> Iterator[Any]:
    stamp = {"timestamp": "2026-01-01T00:00:00.000Z"}
    if at == 0:
        yield {"type": "init", **stamp, "session_id": "s-1", "model": "gemini-2.5-pro"}
    yield {"type": "message", **stamp, "role": "user", "content": f"Question {at}"}
    call = {"tool_name": "read_file", "tool_id": f"c-{at}", "parameters": {"path": "main.ts"}}
    yield {"type": "tool_use", **stamp, **call}
    yield {"type": "tool_result", **stamp, "tool_id": f"c-{at}", "status": "success", "output": RESULT}
    for half in (WORDS[:240], WORDS[240:]):
        yield {"type": "message", **stamp, "role": "assistant", "content": half, "delta": True}


def goose(at: int) -> Iterator[Any]:
    if at == 0:
        yield {"id": "s-1", "working_dir": "/home/u/p", "description": "Eggs", "message_count": 3}
    called = {"status": "success", "value": {"name": "shell", "arguments": {"command": "cat main.ts"}}}
    given = {"status": "success", "value": [{"type": "text", "text": RESULT}]}
    call = {"type": "toolRequest", "id": f"c-{at}", "toolCall": called}
    result = {"type": "toolResponse", "id": f"c-{at}", "toolResult": given}
    contents = [("user", [{"type": "text", "text": f"Question {at}"}])]
    contents += [("assistant", [{"type": "text", "text": WORDS}, call]), ("user", [result])]  # type: ignore[list-item]
    for role, content in contents:
        yield {"id": f"m-{at}", "role": role, "created": 1785397665 + at, "content": content}


def gptme(at: int) -> Iterator[Any]:
    stamp = {"timestamp": "2026-01-01T00:00:00.000000"}
    if at == 0:
        yield {"role": "system", "content": "You are helpful.", **stamp, "pinned": True}
    usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_tokens": 0, "cache_creation_tokens": 0}
    yield {"role": "user", "content": f"Question {at}", **stamp}
    yield {"role": "assistant", "content": WORDS, **stamp, "metadata": {"model": "claude-x", "usage": usage}}
    yield {"role": "system", "content": RESULT, **stamp, "call_id": f"c-{at}"}


def grok(at: int) -> Iterator[Any]:
    def update(kind: str, **fields: Any) -> dict[str, Any]:
        params = {"sessionId": "s-1", "update": {"sessionUpdate": kind, **fields}}
        params["_meta"] = {"agentTimestampMs": 1785397665000 + at}
        return {"timestamp": 1785397665, "method": "session/update", "params": params}

    asked = {"type": "text", "text": f"Question {at}"}
    yield update("user_message_chunk", content=asked, _meta={"promptIndex": at, "modelId": "grok-code"})
    yield update("tool_call", toolCallId=f"c-{at}", title="Read", rawInput={"path": "main.ts"})
    given = [{"type": "content", "content": {"type": "text", "text": RESULT}}]
    yield update("tool_call_update", toolCallId=f"c-{at}", status="completed", content=given)
    for half in (WORDS[:240], WORDS[240:]):
        yield update("agent_message_chunk", content={"type": "text", "text": half})


def hermes(at: int) -> Iterator[Any]:
    if at == 0:
        yield {"role": "session_meta", "model": "hermes-4", "platform": "cli", "tools": [TOOL]}
    call = {"id": f"call_{at}", "type": "function", "function": {"name": "read", "arguments": '{"path":"main.ts"}'}}
    stamp = {"timestamp": "2026-01-01T00:00:00.000000"}
    yield {"role": "user", "content": f"Question {at}", **stamp}
    yield {"role": "assistant", "content": "", "tool_calls": [call], "finish_reason": "tool_calls", **stamp}
    yield {"role": "tool", "content": RESULT, "tool_call_id": f"call_{at}", **stamp}
    yield {"role": "assistant", "content": WORDS, "reasoning": None, "finish_reason": "stop", **stamp}


def iflow(at: int) -> Iterator[Any]:
    common = {"isSidechain": False, "userType": "external", "cwd": "/home/u/p", "version": "0.3.26"}
    common |= {"sessionId": "session-01234567-89ab-cdef-0123-456789abcdef", "timestamp": "2026-01-01T00:00:00.000Z"}
    call = {"type": "tool_use", "id": f"toolu_{at}", "name": "Read", "input": {"file_path": "main.ts"}}
    given = {"functionResponse": {"id": f"toolu_{at}", "name": "Read", "response": {"output": RESULT}}}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": {"responseParts": given}}
    answer = {"id": f"msg_{at}", "type": "message", "role": "assistant", "model": "glm-4.6"}
    messages: list[tuple[str, dict[str, Any]]] = [
        ("user", {"role": "user", "content": f"Question {at}"}),
        ("assistant", {**answer, "content": [{"type": "text", "text": WORDS}, call]}),
        ("user", {"role": "user", "content": [result]}),
    ]
    for number, (kind, message) in enumerate(messages):
        before = f"{at}-{number - 1}" if number else (f"{at - 1}-{len(messages) - 1}" if at else None)
        yield {"uuid": f"{at}-{number}", "parentUuid": before, "type": kind, **common, "message": message}


def kiro(at: int) -> Iterator[Any]:
    def line(kind: str, content: list[Any], **more: Any) -> dict[str, Any]:
        return {"version": "v1", "kind": kind, "data": {"message_id": f"m-{at}", "content": content, **more}}

    meta = {"timestamp": 1785397665 + at}
    call = {"toolUseId": f"c-{at}", "name": "read", "input": {"path": "main.ts"}}
    result = {"toolUseId": f"c-{at}", "content": [{"kind": "text", "data": RESULT}], "status": "success"}
    yield line("Prompt", [{"kind": "text", "data": f"Question {at}"}], meta=meta)
    yield line("AssistantMessage", [{"kind": "text", "data": WORDS}, {"kind": "toolUse", "data": call}])
    yield line("ToolResults", [{"kind": "toolResult", "data": result}], results={})


def otel(at: int) -> Iterator[Any]:
    said = [{"role": "assistant", "parts": [{"type": "text", "content": WORDS}], "finish_reason": "stop"}]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": RESULT}]}],
        "gen_ai.output.messages": said,
    }
    span = {"name": "chat gpt-x", "trace_id": f"{at:032x}", "span_id": f"{at:016x}", "parent_id": None}
    yield {**span, "start_time": "2026-01-01T00:00:00.000Z", "attributes": attributes}


def silly_tavern(at: int) -> Iterator[Any]:
    if at == 0:
        yield {"user_name": "User", "character_name": "Ada", "create_date": "2026-01-01@00h00m00s", "chat_metadata": {}}
    common = {"is_system": False, "send_date": "January 1, 2026 3:04pm"}
    yield {"name": "User", "is_user": True, **common, "mes": f"Question {at}: {RESULT}", "extra": {}}
    about = {"api": "openai", "model": "gpt-x", "reasoning": ""}
    swipes = {"swipes": [WORDS], "swipe_id": 0, "swipe_info": [{"send_date": common["send_date"], "extra": about}]}
    yield {"name": "Ada", "is_user": False, **common, "mes": WORDS, "extra": about, **swipes}


FORMATS: dict[str, Callable[[int], Iterator[Any]]] = {
    "sharegpt": sharegpt,
    "openai-finetune": finetune,
    "alpaca": alpaca,
    "anthropic-messages": anthropic,
    "anthropic-batch": batch,
    "openai-batch": openai_batch,
    "transcript": transcript,
    "openclaw": openclaw,
    "claude-code": claude_code,
    "codex-cli": codex,
    "gemini-cli": gemini,
    "codex-exec-stream": codex_exec,
    "qwen-code": qwen,
    "copilot-cli": copilot,
    "kimi": kimi,
    "claude-code stream-json": claude_stream,
    "antigravity": antigravity,
    "copilot-chat": copilot_chat,
    "cursor": cursor,
    "droid": droid,
    "gemini-stream": gemini_stream,
    "goose": goose,
    "gptme": gptme,
    "grok": grok,
    "hermes": hermes,
    "iflow": iflow,
    "kiro": kiro,
    "otel": otel,
    "silly-tavern": silly_tavern,
    "opencode": opencode,
    "cline": cline,
}
# What is around the messages of a document, which is one line.
DOCUMENTS = {"opencode": (b'{"info":{"id":"s-1","title":"Eggs"},"messages":[', b"]}"), "cline": (b"[", b"]")}
ROUNDS = 5
SESSIONS = {*list(FORMATS)[list(FORMATS).index("transcript") :]}


def write(path: Path, name: str, size: int) -> int:
    """A file of a format, of about `size` bytes; returns its lines, or the messages of a document."""
    written = lines = 0
    begin, end = DOCUMENTS.get(name, (b"", b"\n"))
    with path.open("wb") as stream:
        stream.write(begin)
        for at in itertools.count():
            for line in FORMATS[name](at):
                separator = b"" if not lines else b"," if begin else b"\n"
                data = separator + json.dumps(line, separators=(",", ":")).encode()
                stream.write(data)
                written += len(data)
                lines += 1
            if written >= size:
                stream.write(end)
                return lines
    raise AssertionError


# Each prints its CPU seconds and its peak in MB, without those of the imports.
MEASURE = """
import resource, sys, time
path, name = sys.argv[1:3]
{setup}
began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
{work}
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(time.process_time() - began, used / 1024, count)
"""
BARE = MEASURE.format(
    setup="import msgspec; decode, encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode",
    work="count = sum(len(encode(decode(line))) > 0 for line in open(path, 'rb'))",
)
READ = MEASURE.format(
    setup="import interlingua as il; il.detect({'messages': []}); il.read",
    work="count = sum(len(c.entries) for c in il.read(path, name if name != '-' else None))",
)


# Ways through files of any size. The archive reads session files line by line: texts, usage, titles.
FIRST = """
import itertools
def go(path):
    {go}
with open(path, "rb") as file, open(path + ".first", "wb") as first:
    first.writelines(itertools.islice(file, 100))
go(path + ".first")
"""
CONVERT = """
    command.main([path, "-t", name, "-o", path + ".out", "-j", "1"], standalone_mode=False)
    return 1"""
ARCHIVE = "return sum(part.messages for one in read_file(Path(path), name, Stamp.of(Path(path))) for part in one.parts)"
SCALE = {
    "transcript": ("`convert -t transcript`", "from interlingua.cli.convert import command", CONVERT),
    "sharegpt": (
        "`il.read`",
        "import interlingua as il",
        "return sum(len(one.entries) for one in il.read(path, name))",
    ),
    "claude-code": (
        "the archive",
        "from pathlib import Path\nfrom interlingua.sessions.archive_index import Stamp\n"
        "from interlingua.sessions.archive_reading import read_file",
        ARCHIVE,
    ),
}


def measured(script: str, path: Path, name: str) -> tuple[float, float, int]:
    done = subprocess.run([sys.executable, "-c", script, str(path), name], check=True, capture_output=True, text=True)
    seconds, peak, count = done.stdout.split()
    return float(seconds), float(peak), int(count)


def converted(path: Path, target: str, jobs: int, at_once: int = 1) -> tuple[float, float]:
    """Wall seconds, and CPU seconds of all processes, of one command or of several side by side."""
    command = [sys.executable, "-c", "from interlingua.cli import main; main()", "convert", str(path), "-t", target]
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    commands = [
        subprocess.Popen(
            [*command, "-o", str(path.with_name(f"out-{number}.jsonl")), "-j", str(jobs)], stderr=subprocess.DEVNULL
        )
        for number in range(at_once)
    ]
    for one in commands:
        if one.wait():
            raise subprocess.CalledProcessError(one.returncode, one.args)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - began, used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime


def conversions(path: Path, target: str, size: float) -> list[str]:
    """One process, two, and what two would be if they shared nothing but the machine: medians of rounds in turns."""
    rounds = [[converted(path, target, jobs, at_once) for jobs, at_once in ((1, 1), (2, 1), (1, 2))] for _ in range(3)]
    (one, once), (two, twice), _ = (
        [median(cell) for cell in zip(*way, strict=True)] for way in zip(*rounds, strict=True)
    )
    return [
        f"{size / one:.1f}, {size / two:.1f}",
        f"{median(way[0][0] / way[1][0] for way in rounds):.2f}",
        f"{median(2 * way[0][0] / way[2][0] for way in rounds):.2f}",
        f"{twice / once:.2f}",
    ]


def scale(sizes: list[float]) -> None:
    """What a line costs in files of several sizes."""
    print(f"CPU µs a line, and peak MB of the process; load {os.getloadavg()[0]:.1f} at the start\n")
    print(f"| | by | {' | '.join(f'{size:g} MB' for size in sizes)} | last : first |")
    print(f"|---|---|{'--:|' * len(sizes)}--:|")
    for name, (by, setup, go) in SCALE.items():
        script = MEASURE.format(setup=setup + FIRST.format(go=go), work="count = go(path)")
        found = []
        for size in sizes:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / f"{name}.jsonl"
                lines = write(path, name, int(size * 1e6))
                seconds, peak, _ = measured(script, path, name)
                found.append((seconds / lines * 1e6, peak))
        cells = [f"{cost:.1f} µs, {peak:.0f} MB" for cost, peak in found]
        print(f"| {name} | {by} | {' | '.join(cells)} | {found[-1][0] / found[0][0]:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("megabytes", type=float, nargs="?", default=20)
    parser.add_argument("formats", nargs="*", metavar="FORMAT")
    parser.add_argument("--read", action="store_true", help="do not convert")
    parser.add_argument("--scale", type=float, nargs="*", metavar="MEGABYTES")
    asked = parser.parse_args()
    if asked.scale is not None:
        scale(asked.scale or [10, 100, 1000])
        return
    megabytes, reading, names = asked.megabytes, asked.read, asked.formats or list(FORMATS)
    if unknown := set(names) - FORMATS.keys():
        parser.error(f"unknown formats: {', '.join(sorted(unknown))}; known: {', '.join(FORMATS)}")
    print(f"{megabytes:g} MB of each; load {os.getloadavg()[0]:.1f} at the start.")
    print("CPU seconds for reading, wall seconds for converting (start included).\n")
    heads = ["bare MB/s", "read MB/s", "× bare", "µs a line", "peak MB"]
    heads += [] if reading else ["convert, 1 and 2 processes MB/s", "×", "× of two commands", "CPU of 2 : 1"]
    print(f"| | {' | '.join(heads)} |")
    print(f"|---|{'--:|' * len(heads)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = Path(folder) / f"{name}.jsonl"
            lines = write(path, name, int(megabytes * 1e6))
            size = path.stat().st_size / 1e6
            form = name.partition(" ")[0]  # a format may have two kinds of files
            rounds = [(measured(BARE, path, form), measured(READ, path, form)) for _ in range(ROUNDS)]
            bare, read = (median(one[at][0] for one in rounds) for at in (0, 1))
            share = median(one[0][0] / one[1][0] for one in rounds)
            cells = [f"{size / bare:.0f}", f"{size / read:.1f}", f"{share:.3f}", f"{read / lines * 1e6:.0f}"]
            cells.append(f"{max(one[1][1] for one in rounds):.0f}")
            if not reading and name not in SESSIONS - {"transcript", "openclaw"}:
                target = "transcript" if name in SESSIONS else "openai-completions"
                cells += conversions(path, target, size)
            cells += [""] * (len(heads) - len(cells))
            print(f"| {name} | {' | '.join(cells)} |", flush=True)
            path.unlink()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"\nThe largest process took {peak:.0f} MB.")


if __name__ == "__main__":
    main()
