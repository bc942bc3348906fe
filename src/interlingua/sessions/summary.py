"""The list entry of a session, read from a few of its lines."""

import os
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..values import jsontext
from ..values.errors import InterlinguaError
from ..values.messages import UserMessage, model_of, text_of
from ..values.regular import open_regular
from ..values.request import Conversation
from .store import Log, SessionInfo, SpawnedBy
from .tree import ASSISTANT, BAD, LABEL, MESSAGES, MODEL, SESSION, USER, read_line

_TITLE = 80
_FOREIGN_LIMIT = 8 << 20  # bytes read of another program's file


def summary(log: Log, base: SessionInfo) -> SessionInfo:
    """The list entry of a session; omits what is unreadable."""
    header = _value(log, log.numbers(SESSION, first=1))
    created, forked = header.get("createdAt"), header.get("forkedFrom")
    origin = forked if isinstance(forked, dict) else {}
    return replace(
        base,
        title=_name(log) or _short(_str(header.get("title")) or "") or _first_text(log),
        messages=log.count(*MESSAGES),
        model=_model(log),
        created=created if isinstance(created, int) else None,
        bad_lines=log.count(BAD),
        forked_from=_str(origin.get("id")),
        forked_at=_str(origin.get("entry")),
        linked=origin.get("linked") is True,
        spawned_by=_spawned_by(header.get("spawnedBy")),
    )


def _spawned_by(value: Any) -> SpawnedBy | None:
    """The session, entry and call that started a session; hosts write `agent:NAME:SESSION`."""
    if isinstance(value, str):
        return SpawnedBy(session=value.rpartition(":")[2])
    if not isinstance(value, dict) or not isinstance(value.get("session"), str):
        return None
    return SpawnedBy(session=value["session"], entry=_str(value.get("entry")), call_id=_str(value.get("callId")))


def _str(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _value(log: Log, numbers: list[int]) -> dict[str, Any]:
    try:
        return read_line(log.line(numbers[0])) if numbers else {}
    except InterlinguaError:
        return {}


def _name(log: Log) -> str | None:
    """The latest label of the session itself."""
    for number in reversed(log.numbers(LABEL)):
        line = _value(log, [number])
        if line.get("target") is None:
            return _short(str(line.get("label") or "")) or None
    return None


def _first_text(log: Log) -> str | None:
    """The first text of a person; of a program, where nobody else wrote."""
    injected = None
    for number in log.numbers(USER, first=5):
        line = _value(log, [number])
        content = line.get("content")
        text = content if isinstance(content, str) else _text(content)
        if text.strip():
            if line.get("origin") != "program":
                return _short(text)
            injected = injected or _short(text)
    return injected


def _text(content: Any) -> str:
    blocks = content if isinstance(content, list) else ()
    return " ".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))


def _model(log: Log) -> str | None:
    for number in reversed(log.numbers(ASSISTANT, MODEL, last=5)):
        model = _value(log, [number]).get("model")
        if isinstance(model, str):
            return model
    return None


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…"


def foreign_summary(path: Path, base: SessionInfo) -> SessionInfo | None:
    """The list entry of another program's session file; None for one of ours."""
    with os.fdopen(open_regular(path), "rb") as stream:
        first = stream.readline(1 << 16)
        if not is_foreign(first):
            return None
        data = first + stream.read(_FOREIGN_LIMIT)
    if base.size > len(data):
        return base
    from .. import conversion

    try:
        return _of(conversion.decode(data), base)
    except InterlinguaError:
        return replace(base, bad_lines=1)


def is_foreign(first: bytes) -> bool:
    """Whether a file's first line belongs to another program: it has a `type`, and no `role`."""
    try:
        value = jsontext.read(first)
    except InterlinguaError:
        return False
    return isinstance(value, dict) and "role" not in value and isinstance(value.get("type"), str)


def _of(conversation: Conversation, base: SessionInfo) -> SessionInfo:
    messages = [entry.message for entry in conversation.entries]
    asked = (m for m in messages if isinstance(m, UserMessage) and m.origin != "program")
    first = conversation.title or next((text for m in asked if (text := text_of(m.content)).strip()), "")
    models = [model for message in messages if (model := model_of(message))]
    return replace(base, title=_short(first) or None, messages=len(messages), model=models[-1] if models else None)
