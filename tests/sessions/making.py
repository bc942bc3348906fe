"""Messages and files for the session tests."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import interlingua as il
from interlingua.sessions import Session
from interlingua.values.messages import AgentMessage


def user(text: str, **more: Any) -> il.UserMessage:
    return il.UserMessage(content=text, **more)


def answer(text: str = "", *calls: str, thinking: str | None = None, **more: Any) -> il.AssistantMessage:
    """An answer with words, signed thinking, and calls of `read` by their ids."""
    thought = [il.ThinkingBlock(thinking=thinking, thinking_signature="c2ln")] if thinking else []
    blocks = [il.TextBlock(text=text)] if text else []
    wanted = [il.ToolCall(id=call, name="read", arguments={"path": f"{call}.py"}) for call in calls]
    stop = more.pop("stop_reason", "toolUse" if calls else "stop")
    return il.AssistantMessage(content=(*thought, *blocks, *wanted), stop_reason=stop, **more)


def result(call: str, text: str = "done", **more: Any) -> il.ToolResultMessage:
    return il.ToolResultMessage(
        tool_call_id=call, tool_name="read", content=(il.TextBlock(text=text),), is_error=False, **more
    )


def used(total: int) -> il.Usage:
    return il.Usage.of(total - 10, 10)


def texts(messages: Iterable[AgentMessage]) -> list[str]:
    """The words of messages, for comparing."""
    return [
        message.role if isinstance(message, il.CustomMessage) else il.values.messages.text_of(message.content)
        for message in messages
    ]


def fill(session: Session, *messages: AgentMessage) -> list[str]:
    """Appends messages and gives their ids."""
    return [str(session.append(message).id) for message in messages]


def write_lines(path: Path, *lines: dict[str, Any] | bytes) -> Path:
    """A session file of these lines, spelled loosely as another program might."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lines_of(*lines))
    return path


def lines_of(*lines: dict[str, Any] | bytes) -> bytes:
    return b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)


def read_lines(path: Path | str) -> list[Any]:
    return [json.loads(line) for line in Path(path).read_bytes().splitlines()]
