"""Transcripts: our own session files. JSON lines, each an AgentMessage with its `id` and `parentId` beside it.

A first line of role `session` holds what the conversation is about (system text, tools, model, options); a line of role
`head` says where it stands. A line without `id` follows the line before. Other roles are messages of their own kind.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from .. import jsontext
from ..canonical import build, plain
from ..errors import BadWire, FormatError
from ..losses import Encoded, Fates, Lines
from ..messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from ..request import Conversation, Entry
from ._files import lines_of
from ._wire import with_held

API = "transcript"
VERSION = 1
SPELLED = "~version"  # what the session line said, where it is not what we would say
LINES = True  # a file is one conversation, a line is a part of it

FATES: Fates = {}  # everything is kept: the lines are our own JSON


def decode(data: Any) -> Conversation:
    """A conversation from the lines of a transcript."""
    lines = lines_of(data, API)
    base, first = _decode_session(lines[0]) if lines and lines[0].get("role") == "session" else (Conversation(), 0)
    stands = len(lines) > first and _is_head(lines[-1])
    last = len(lines) - 1 if stands else len(lines)
    entries = tuple(_decode_entry(line, number + 1) for number, line in enumerate(lines[:last]) if number >= first)
    return replace(base, entries=entries, head=lines[-1]["target"] if stands else None)


def _decode_session(line: dict[str, Any]) -> tuple[Conversation, int]:
    about = {key: value for key, value in line.items() if key not in ("role", "version")}
    try:
        base: Conversation = build(about, Conversation)
    except FormatError as error:
        raise BadWire(API, f"line 1: {error.message}", error.path) from None
    version = line.get("version")
    if about and version == VERSION:
        return base, 1
    return with_held(base, API, **{SPELLED: version}), 1


def _is_head(line: dict[str, Any]) -> bool:
    """Where the conversation stands; a `head` line that others follow is history, and stays a line of its own."""
    return line.keys() == {"role", "target"} and line["role"] == "head" and isinstance(line["target"], str)


def _decode_entry(line: dict[str, Any], number: int) -> Entry:
    place = {key: line[key] for key, kind in _PLACE.items() if isinstance(line.get(key), kind)}
    if not place.get("parents") or not all(isinstance(id, str) for id in place["parents"]):
        place.pop("parents", None)  # an empty list would not come back
    try:
        message = build({k: v for k, v in line.items() if k not in place}, Message)
    except FormatError as error:
        raise BadWire(API, f"line {number}: {error.message}", error.path) from None
    return Entry(
        message=message,
        id=place.get("id"),
        parent_id=place.get("parentId"),
        parents=tuple(place.get("parents", ())),
        extra=place.get("entryExtra", {}),
    )


_PLACE: dict[str, type] = {"id": str, "parentId": str, "parents": list, "entryExtra": dict}


def encode(conversation: Conversation) -> Encoded:
    """The lines of a transcript; nothing is lost."""
    held = conversation.extra.get(API, {})
    told = {key: value for key, value in held.items() if key != SPELLED}
    extra = {owner: told if owner == API else kept for owner, kept in conversation.extra.items()}
    about = plain(replace(conversation, entries=(), head=None, extra={k: v for k, v in extra.items() if v or k != API}))
    lines = Lines()
    if about or SPELLED in held:
        version = held.get(SPELLED, VERSION)
        lines.append({"role": "session", **({} if version is None else {"version": version}), **about})
    lines.extend(map(_encode_entry, conversation.entries))
    if conversation.head is not None:
        lines.append({"role": "head", "target": conversation.head})
    return Encoded(lines, ())


def _encode_entry(entry: Entry) -> dict[str, Any]:
    line: dict[str, Any] = plain(entry.message)
    if entry.id is not None:
        line["id"] = entry.id
    if entry.parent_id is not None:
        line["parentId"] = entry.parent_id
    if entry.parents:
        line["parents"] = list(entry.parents)
    if entry.extra:
        line["entryExtra"] = entry.extra
    return line


def sniff(value: Any) -> str | None:
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return None
    if value[0].get("role") == "session":
        return "lines that begin with a `session` line"
    if any(isinstance(line, dict) and (_is_head(line) or "entryExtra" in line) for line in value):
        return "messages with ids and a `head` line"
    return None


# --- one line at a time, at C speed ----------------------------------------------------------------------------------


class _UserLine(UserMessage, frozen=True, kw_only=True, tag_field="role", tag="user"):
    id: str | None = None
    parent_id: str | None = None
    parents: tuple[str, ...] = ()


class _AssistantLine(AssistantMessage, frozen=True, kw_only=True, tag_field="role", tag="assistant"):
    id: str | None = None
    parent_id: str | None = None
    parents: tuple[str, ...] = ()


class _ResultLine(ToolResultMessage, frozen=True, kw_only=True, tag_field="role", tag="toolResult"):
    id: str | None = None
    parent_id: str | None = None
    parents: tuple[str, ...] = ()


class _SystemLine(SystemMessage, frozen=True, kw_only=True, tag_field="role", tag="system"):
    id: str | None = None
    parent_id: str | None = None
    parents: tuple[str, ...] = ()


_line_decoder = msgspec.json.Decoder(_UserLine | _AssistantLine | _ResultLine | _SystemLine)
_line_encoder = msgspec.json.Encoder()


def copy_line(raw: bytes) -> bytes:
    """A line read and written again: known ones at C speed, others by the slow way, none changed in meaning."""
    try:
        if raw.count(b"[") + raw.count(b"{") <= jsontext.DEPTH_LIMIT:
            return _line_encoder.encode(_line_decoder.decode(raw))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    return jsontext.write(_encode_entry(_decode_entry(jsontext.read(raw), 1)))
