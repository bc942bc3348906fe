"""Files as other programs write them: lines of Claude Code, Codex CLI and Gemini CLI, with sub-agents."""

import json
from pathlib import Path
from typing import Any

SESSION = "0b7a5f6e-1c9d-4a55-9d7d-3f1f0e2b6a10"
PARENT = "019a0000-0000-7000-8000-000000000001"
CHILD = "019a0000-0000-7000-8000-000000000002"


def _stamp(number: int) -> str:
    return f"2026-03-01T10:{number // 60:02}:{number % 60:02}.000Z"


def claude(number: int, role: str, content: Any, **more: Any) -> dict[str, Any]:
    """Line `number` of a session of Claude Code."""
    message: dict[str, Any] = {"role": role, "content": content}
    if role == "assistant":
        usage = {"input_tokens": 10, "output_tokens": 5}
        message |= {"id": f"msg_{number}", "type": "message", "model": "claude-opus-4-6", "usage": usage}
    return {
        "parentUuid": f"u{number - 1}" if number else None,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/home/someone/courier",
        "sessionId": SESSION,
        "version": "2.1.0",
        "type": role,
        "message": message,
        "uuid": f"u{number}",
        "timestamp": _stamp(number),
        **more,
    }


def claude_turns(count: int) -> list[dict[str, Any]]:
    """Questions, calls, results and answers."""
    lines = []
    for at in range(0, count * 4, 4):
        call = {"type": "tool_use", "id": f"toolu_{at}", "name": "Read", "input": {"file_path": f"f{at}.py"}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": f"contents {at}"}
        lines += [
            claude(at, "user", f"question {at}"),
            claude(at + 1, "assistant", [call]),
            claude(at + 2, "user", [result]),
            claude(at + 3, "assistant", [{"type": "text", "text": f"answer {at}"}]),
        ]
    return lines


def claude_task(prompt: str) -> list[dict[str, Any]]:
    """A session that has just started a sub-agent."""
    task = {"type": "tool_use", "id": "toolu_task", "name": "Task", "input": {"description": "look", "prompt": prompt}}
    return [claude(0, "user", "look around"), claude(1, "assistant", [task])]


def claude_sub_agent(prompt: str, agent: str = "a1b2c3d4") -> list[dict[str, Any]]:
    marks = {"isSidechain": True, "agentId": agent}
    return [
        claude(0, "user", prompt, **marks, uuid="s0"),
        claude(1, "assistant", [{"type": "text", "text": "seen"}], **marks, uuid="s1", parentUuid="s0"),
    ]


def codex(kind: str, payload: dict[str, Any], number: int = 0) -> dict[str, Any]:
    return {"timestamp": _stamp(number), "type": kind, "payload": payload}


def codex_session(id: str, source: Any = "cli") -> list[dict[str, Any]]:
    meta = {"id": id, "timestamp": _stamp(0), "cwd": "/home/someone/courier", "cli_version": "0.99.0", "source": source}
    line = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "look around"}]}
    return [codex("session_meta", meta), codex("response_item", line, 1)]


def codex_spawn(child: str) -> list[dict[str, Any]]:
    call = {"type": "function_call", "name": "spawn_agent", "call_id": "call_spawn", "arguments": '{"message":"look"}'}
    output = {"type": "function_call_output", "call_id": "call_spawn", "output": json.dumps({"agent_id": child})}
    return [codex("response_item", call, 2), codex("response_item", output, 3)]


def written(lines: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def append(path: Path, lines: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as stream:
        stream.write(written(lines))
