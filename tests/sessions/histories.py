"""Histories of other programs, made for tests."""

import json
from pathlib import Path
from typing import Any


def write_lines(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path


def asked(id: str, parent: str | None, text: str, at: str = "2026-03-01T10:00:00.000Z", **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": text}
    about = {"uuid": id, "parentUuid": parent, "sessionId": "s", "timestamp": at, "cwd": "/home/me/garden"}
    return {"type": "user", "message": message, **about, **more}


def answered(
    id: str,
    parent: str,
    content: list[dict[str, Any]] | str,
    *,
    message_id: str | None = None,
    at: str = "2026-03-01T10:00:05.000Z",
    model: str = "claude-sonnet-4-5",
    input: int = 100,
    output: int = 20,
) -> dict[str, Any]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    message = {
        "id": message_id or f"msg_{id}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn",
        "usage": {"input_tokens": input, "output_tokens": output},
    }
    about = {"uuid": id, "parentUuid": parent, "sessionId": "s", "timestamp": at, "cwd": "/home/me/garden"}
    return {"type": "assistant", "message": message, **about}


def result(id: str, parent: str, call: str, text: str, at: str = "2026-03-01T10:00:07.000Z") -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call, "content": text}
    about = {"uuid": id, "parentUuid": parent, "sessionId": "s", "timestamp": at, "cwd": "/home/me/garden"}
    return {"type": "user", "message": {"role": "user", "content": [block]}, **about}


def claude_session(folder: Path, name: str = "one", *, topic: str = "walrus") -> Path:
    """A session of Claude Code with a call and its result, in the place where the program keeps it."""
    call = {"type": "tool_use", "id": "call_1", "name": "Bash", "input": {"command": f"ls {topic}s"}}
    lines = [
        asked("u1", None, f"how does the {topic} swim?"),
        answered("a1", "u1", [{"type": "text", "text": "let me look"}, call], message_id=f"msg_{name}_1"),
        result("r1", "a1", "call_1", f"three {topic}s in the harbour"),
        answered("a2", "r1", f"the {topic} swims with its flippers", message_id=f"msg_{name}_2"),
    ]
    return write_lines(folder / "projects" / "-home-me-garden" / f"{name}.jsonl", lines)


def codex_session(folder: Path, name: str = "2026-03-02T09-00-00-0000", *, topic: str = "heron") -> Path:
    """A rollout of Codex."""
    at = "2026-03-02T09:00:01.000Z"

    def item(kind: str, **payload: Any) -> dict[str, Any]:
        return {"timestamp": at, "type": kind, "payload": payload}

    spent = {"input_tokens": 50, "cached_input_tokens": 10, "output_tokens": 7, "reasoning_output_tokens": 0}
    usage = {"total_token_usage": spent, "last_token_usage": spent}
    lines = [
        item("session_meta", id=name, cwd="/home/me/pond", timestamp=at),
        item("turn_context", model="gpt-5", cwd="/home/me/pond"),
        item("response_item", type="message", role="user", content=[{"type": "input_text", "text": f"the {topic}?"}]),
        item(
            "response_item",
            type="message",
            role="assistant",
            content=[{"type": "output_text", "text": f"a {topic} stands still"}],
        ),
        item("event_msg", type="token_count", info=usage),
    ]
    return write_lines(folder / "sessions" / "2026" / "03" / "02" / f"rollout-{name}.jsonl", lines)
