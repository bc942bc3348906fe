"""opencode's sessions: `info`, and `messages` of `info` and `parts`; exported as JSON, in SQLite, or in many files.

A `tool` part is a call and its result at once: `state.status` says how far it came, and one that is `running` or
`pending` has no result. An older answer may have several steps, each between a `step-start` and a `step-finish`; each
is an answer of the model. `tokens.output` excludes the reasoning. Text that is `synthetic` was put in by the program,
text that is `ignored` was never sent. After a compaction the conversation continues from the summary that follows, then
come the messages that it kept (`tail_start_id`) and the later ones; what `revert` names, and all after it, was taken
back. Both stay in the tree.

The SQLite database has the same objects in the tables `session`, `message` and `part`, as has that of newer versions of
Kilo Code, which come from it. The program of the same name that is now called Crush has `sessions` and `messages`, with
parts of `type` and `data`.
"""

import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from msgspec.structs import replace

from ...values.errors import BadWire
from ...values.messages import Block, Message, StopReason, TextBlock, ThinkingBlock, Usage
from ...values.request import Conversation
from ..codec import ANSWER
from ..residual import count, fields_of, optional, reading
from ..wire import ListedSession, Relations, Rows, SessionStream
from . import new_sessions
from .line_sessions import ReadAgain, Record, TemplateStream, TreeReader, read
from .program_content import (
    a_call,
    a_result,
    an_object_of,
    attachment_of,
    first,
    inner,
    items,
    moment,
    priced,
    user,
)
from .reading import columns_of, ordered_rows, read_json, rows_of
from .templates import FILE as TEMPLATE
from .templates import file_format, keep

API = "opencode"

_ENDS: dict[str, StopReason] = {
    "stop": "stop", "end_turn": "stop", "tool-calls": "toolUse", "tool_use": "toolUse", "length": "length",
    "max_tokens": "length", "error": "error", "content-filter": "error", "content_filter": "error",
}  # fmt: skip


def _tokens(wire: Any) -> Usage | None:
    if not isinstance(wire, dict) or not any(wire.get(key) for key in ("input", "output", "reasoning", "cache")):
        return None
    cache, thought = fields_of(wire.get("cache")), count(wire, "reasoning")
    return Usage.of(
        count(wire, "input"),
        count(wire, "output") + thought,
        cache_read=count(cache, "read"),
        cache_write=count(cache, "write"),
        reasoning=thought if "reasoning" in wire else None,
    )


# --- messages --------------------------------------------------------------------------------------------------------


# What the model reads for these parts: packages/opencode/src/session/message-v2.ts, `toModelMessages`.
_STANDINS = {
    "compaction": "What did we do so far?", "subtask": "The following tool was executed by the user",
}  # fmt: skip


def _asked(info: dict[str, Any], parts: list[dict[str, Any]]) -> list[Message]:
    """What the user wrote, then what the program put in beside it."""
    when = moment(inner(info, "time", "created"))
    written: list[Block] = []
    put_in: list[Block] = []
    for part in parts:
        text, url = optional(part.get("text")), optional(part.get("url"))
        if part.get("type") in _STANDINS:
            put_in.append(TextBlock(text=_STANDINS[part["type"]]))
        elif part.get("type") == "text" and text is not None and part.get("ignored") is not True:
            (put_in if part.get("synthetic") is True else written).append(TextBlock(text=text))
        elif part.get("type") == "file" and url is not None:
            written.append(attachment_of(url, optional(part.get("mime")), optional(part.get("filename"))))
    found: list[Message] = [user(tuple(written), when)] if written or not put_in else []
    return [*found, user(tuple(put_in), when, program=True)] if put_in else found


def _steps(parts: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The parts of each call to the model; one that was tried again has a second start and no finish before it."""
    step: list[dict[str, Any]] = []
    for part in parts:
        if part.get("type") == "step-start" and any(one.get("type") == "step-finish" for one in step):
            yield step
            step = []
        step.append(part)
    yield step


def _answered(info: dict[str, Any], parts: list[dict[str, Any]]) -> list[Message]:
    steps = list(_steps(parts))
    found: list[Message] = []
    for step in steps:
        ended = next((part for part in step if part.get("type") == "step-finish"), {})
        counted = info if len(steps) == 1 else ended
        usage = priced(_tokens(counted.get("tokens")), counted.get("cost"))
        found += _step(info, step, usage, ended.get("reason") if len(steps) > 1 else info.get("finish"))
    return found


def _step(info: dict[str, Any], parts: list[dict[str, Any]], usage: Usage | None, end: Any) -> list[Message]:
    when = moment(inner(info, "time", "created"))
    blocks: list[Block] = []
    results: list[Message] = []
    for part in parts:
        text = optional(part.get("text"))
        match part.get("type"):
            case "text" if text is not None:
                blocks.append(TextBlock(text=text))
            case "reasoning":
                signature = optional(inner(part, "metadata", "anthropic", "signature"))
                blocks.append(ThinkingBlock(thinking=text or "", thinking_signature=signature))
            case "tool":
                id, name = optional(part.get("callID")), optional(part.get("tool"))
                if id is not None and name is not None:
                    state = fields_of(part.get("state"))
                    blocks.append(a_call(id, name, state.get("input")))
                    results += _result(id, name, state)
    failed, message = inner(info, "error", "name"), optional(inner(info, "error", "data", "message"))
    stopped: StopReason | None = _ENDS.get(end) if isinstance(end, str) else None
    answer = replace(
        ANSWER,
        extra={},
        content=tuple(blocks),
        provider=optional(info.get("providerID")),
        model=optional(info.get("modelID")),
        usage=usage,
        stop_reason=("aborted" if failed == "MessageAbortedError" else "error") if failed else stopped,
        error_message=message if failed else None,
        timestamp=when,
    )
    return [answer, *results]


def _result(id: str, name: str, state: dict[str, Any]) -> list[Message]:
    when = moment(inner(state, "time", "end"))
    if state.get("status") == "error":
        cut = inner(state, "metadata", "output") if inner(state, "metadata", "interrupted") is True else None
        return [a_result(id, state.get("error") if cut is None else cut, name=name, failed=True, when=when)]
    if state.get("status") != "completed":
        return []
    result = a_result(id, state.get("output"), name=name, when=when, details=state.get("metadata"))
    pictures = [
        attachment_of(file["url"], optional(file.get("mime")), optional(file.get("filename")))
        for file in items(state.get("attachments"))
        if isinstance(file.get("url"), str)
    ]
    if pictures and isinstance(result.content, str):
        result = a_result(id, [{"type": "text", "text": state.get("output")}], name=name, when=when)
        blocks: Any = (*(result.content or ()), *pictures)
        return [replace(result, content=blocks, details=state.get("metadata"))]
    return [result]


class _Reader(TreeReader):
    """Reads the messages of a session, whose `info` is given.

    A message that asks for a summary begins the conversation anew if a summary was written behind it. After the last of
    them come the messages from its `tail_start_id` on, which the model reads still: message-v2.ts, `filterCompacted`.
    """

    def __init__(self, info: dict[str, Any], messages: ReadAgain) -> None:
        super().__init__()
        self._info = info
        self._reverted = optional(inner(info, "revert", "messageID"))
        self._count = 0
        summaries: dict[Any, int] = {}  # the message that asked -> the place of the last summary
        for at, message in enumerate(messages()):
            about = fields_of(message.get("info"))
            if self._reverted is not None and about.get("id") == self._reverted:
                break
            if about.get("summary") is True and about.get("error") is None:
                summaries[_name(about.get("parentID"))] = at
        begins: list[int] = []
        self._kept: tuple[int, int, int] | None = None  # where the kept messages begin, their summary begins and ends
        places: dict[Any, int] = {}
        for at, message in enumerate(messages() if summaries else ()):
            self._count += 1
            about = fields_of(message.get("info"))
            places[_name(about.get("id"))] = at
            part = next((one for one in items(message.get("parts")) if one.get("type") == "compaction"), None)
            end = summaries.get(_name(about.get("id")), -1)
            if part is not None and end > at:
                tail = optional(part.get("tail_start_id"))
                first = at if tail is None else places.get(tail, at)
                self._kept = None if first == at else (first, at, end + 1)
                while begins and begins[-1] >= first:
                    begins.pop()
                begins.append(first)
        self._begins = frozenset(begins)  # the places where the conversation begins anew

    def order(self, records: Iterable[Any]) -> "array[int] | None":
        if self._kept is None:
            return None
        first, at, end = self._kept
        return array("Q", (*range(first), *range(at, end), *range(first, at), *range(end, self._count)))

    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        tree, info = self.tree, self._info
        taken_back: int | None = None
        for at, message in enumerate(records):
            about, parts = fields_of(message.get("info")), items(message.get("parts"))
            if self._reverted is not None and about.get("id") == self._reverted and taken_back is None:
                taken_back = len(tree.path)
            is_summary = about.get("summary") is True and about.get("role") == "user"
            if taken_back is None and (is_summary or at in self._begins):
                tree.cut(0)
            if about.get("role") == "user":
                found = _asked(about, parts)
            else:
                found = _answered(about, parts) if about.get("role") == "assistant" else []
            for one in found:
                yield tree.add(one)
        if taken_back is not None:
            tree.cut(taken_back)
        self.fields = {"title": info.get("title"), "usage": _tokens(info.get("tokens"))}


def _name(id: Any) -> Any:
    return id if isinstance(id, str | None) else repr(id)


@reading(API)
def decode(data: Any) -> Conversation:
    """An exported session, or one from a database in the same form."""
    document = an_object_of(data, API)
    if not isinstance(document.get("messages"), list):
        raise BadWire(API, "a session has `messages`", "$.messages")
    messages = items(document["messages"])
    return keep(read(_Reader(fields_of(document.get("info")), lambda: messages), messages), document, API)


@reading(API)
def listed(header: Record, messages: ReadAgain) -> SessionStream:
    """An exported session, one entry at a time."""
    reader = _Reader(fields_of(header.get("info")), messages)
    return TemplateStream(reader, messages, API, "messages", header)


# --- where sessions stand --------------------------------------------------------------------------------------------


def database(connection: sqlite3.Connection) -> Iterable[Any] | None:
    """The sessions of a database, of either program."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if {"session", "message", "part"} <= tables:
        return _sessions(connection)
    if {"sessions", "messages"} <= tables and "parts" in columns_of(connection, "messages"):
        return _crush_sessions(connection)
    return None


def _sessions(connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    for row in ordered_rows(connection, "session", "time_created, id"):
        id = row["id"]
        times = {"created": row.get("time_created"), "updated": row.get("time_updated")}
        info: dict[str, Any] = {"id": id, "title": row.get("title"), "time": times}
        named = {"version": "version", "directory": "directory", "project_id": "projectID", "parent_id": "parentID"}
        info |= {new: row[old] for old, new in named.items() if row.get(old) is not None}
        revert = read_json(row.get("revert"))
        if isinstance(revert, dict):
            info["revert"] = revert
        if any(row.get(f"tokens_{kind}") for kind in ("input", "output")):
            cache = {kind: row.get(f"tokens_cache_{kind}") for kind in ("read", "write")}
            info["tokens"] = {kind: row.get(f"tokens_{kind}") for kind in ("input", "output", "reasoning")}
            info["tokens"]["cache"] = cache
        parts: dict[Any, list[Any]] = {}
        for part in rows_of(connection, "SELECT * FROM part WHERE session_id = ? ORDER BY id", id):
            data = fields_of(read_json(part.get("data")))
            own = {**data, "id": part["id"], "messageID": part["message_id"], "sessionID": id}
            parts.setdefault(part["message_id"], []).append(own)
        messages = []
        for message in rows_of(connection, "SELECT * FROM message WHERE session_id = ? ORDER BY time_created, id", id):
            data = {**fields_of(read_json(message.get("data"))), "id": message["id"], "sessionID": id}
            messages.append({"info": data, "parts": parts.get(message["id"], [])})
        yield {"info": info, "messages": messages or list(_newer_messages(connection, id))}


def _newer_messages(connection: sqlite3.Connection, session: str) -> Iterator[dict[str, Any]]:
    """The messages of a session of version 2, in the format of version 1: packages/schema/src/session-message.ts."""
    if not columns_of(connection, "session_message"):
        return
    for row in rows_of(connection, "SELECT * FROM session_message WHERE session_id = ? ORDER BY seq", session):
        data = fields_of(read_json(row.get("data")))
        info: dict[str, Any] = {"id": row["id"], "sessionID": session, "time": data.get("time")}
        kind, text = row.get("type"), data.get("text")
        if kind == "assistant":
            yield _newer_answer(info, data)
        elif kind == "user":
            files = [{"type": "file", **_newer_file(file)} for file in items(data.get("files"))]
            yield {"info": {**info, "role": "user"}, "parts": [{"type": "text", "text": text}, *files]}
        elif kind == "compaction":
            # Kilo Code repeats the recent messages in its `summary`, and has the plain one in a field of its own.
            given = (first(data, "kilo_summary", "summary"), data.get("recent"))
            summary = "\n\n".join(text for text in map(optional, given) if text)
            part = {"type": "text", "text": summary, "synthetic": True}
            yield {"info": {**info, "role": "user", "summary": True}, "parts": [part]}
        elif kind in ("synthetic", "system", "shell"):
            text = f"$ {data.get('command')}\n{data.get('output')}" if kind == "shell" else text
            yield {"info": {**info, "role": "user"}, "parts": [{"type": "text", "text": text, "synthetic": True}]}


def _newer_answer(info: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    info |= {"role": "assistant", "modelID": inner(data, "model", "id"), "tokens": data.get("tokens")}
    info |= {"providerID": inner(data, "model", "providerID"), "finish": data.get("finish")}
    if isinstance(data.get("error"), dict):
        info["error"] = {"name": "UnknownError", "data": data["error"]}
    return {"info": info, "parts": list(map(_newer_part, items(data.get("content"))))}


def _newer_part(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") != "tool":
        return {**part, "metadata": part.get("providerMetadata")}
    given = fields_of(part.get("state"))
    content = items(given.get("content"))
    texts = [item["text"] for item in content if optional(item.get("text")) is not None]
    files = [*(item for item in content if item.get("type") == "file"), *items(given.get("attachments"))]
    state = {"status": given.get("status"), "input": given.get("input"), "output": "\n".join(texts)}
    state |= {"error": inner(given, "error", "message"), "attachments": list(map(_newer_file, files))}
    state |= {"time": {"end": inner(part, "time", "completed")}}
    return {"type": "tool", "callID": part.get("id"), "tool": part.get("name"), "state": state}


def _newer_file(file: dict[str, Any]) -> dict[str, Any]:
    return {"url": file.get("uri"), "mime": file.get("mime"), "filename": file.get("name")}


_CRUSH_RESULT = ("tool_result", "tool-result")


def _crush_sessions(connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    for row in ordered_rows(connection, "sessions", "created_at, rowid"):
        # Times are whole seconds and ids are random: among equal times, the order is that of the rows.
        query = "SELECT * FROM messages WHERE session_id = ? ORDER BY created_at, rowid"
        rows = [(message, items(read_json(message.get("parts")))) for message in rows_of(connection, query, row["id"])]
        results = {
            inner(part, "data", "tool_call_id"): fields_of(part.get("data"))
            for _, parts in rows
            for part in parts
            if part.get("type") in _CRUSH_RESULT
        }
        info: dict[str, Any] = {"id": row["id"], "title": row.get("title")}
        if row.get("parent_session_id") is not None:
            info["parentID"] = row["parent_session_id"]
        messages = [_crush_message(message, parts, results) for message, parts in rows if message.get("role") != "tool"]
        for message in messages:  # the model reads a summary as the first message of the user
            if message["info"]["id"] == row.get("summary_message_id"):
                message["info"] |= {"role": "user", "summary": True}
                message["parts"] = [{**part, "synthetic": True} for part in message["parts"]]
        last = next((message["info"] for message in reversed(messages) if message["info"]["role"] == "assistant"), None)
        if last is not None:  # the counters are those of the last response
            last["tokens"] = {"input": row.get("prompt_tokens"), "output": row.get("completion_tokens")}
        yield {"info": info, "messages": messages}


def _crush_message(row: dict[str, Any], parts: list[dict[str, Any]], results: dict[Any, Any]) -> dict[str, Any]:
    info: dict[str, Any] = {"id": row["id"], "role": row.get("role"), "time": {"created": row.get("created_at")}}
    info |= {new: row[old] for old, new in (("model", "modelID"), ("provider", "providerID")) if row.get(old)}
    finish = next((fields_of(part.get("data")) for part in parts if part.get("type") == "finish"), {})
    if finish.get("reason"):
        info["finish"] = finish["reason"]
    if finish.get("reason") in ("error", "canceled"):
        reason = ": ".join(finish[key] for key in ("message", "details") if optional(finish.get(key)))
        name = "MessageAbortedError" if finish["reason"] == "canceled" else "UnknownError"
        info["error"] = {"name": name, "data": {"message": reason} if reason else {}}
    return {"info": info, "parts": [same for part in parts for same in _crush_part(part, results)]}


def _crush_part(part: dict[str, Any], results: dict[Any, Any]) -> Iterator[dict[str, Any]]:
    """A part in the format of the newer program."""
    data = fields_of(part.get("data"))
    match part.get("type"):
        case "text":
            yield {"type": "text", "text": data.get("text")}
        case "reasoning" | "thinking":
            signed = {"metadata": {"anthropic": {"signature": data["signature"]}}} if data.get("signature") else {}
            if data.get("thinking") or signed:
                yield {"type": "reasoning", "text": data.get("thinking"), **signed}
        case "shell_command":  # a command of the user's own, which the model reads with its output
            shown = f"$ {data.get('command')}\n{data.get('output')}\n(exit code {data.get('exit_code')})"
            yield {"type": "text", "text": shown, "synthetic": True}
        case "image_url":
            yield {"type": "file", "mime": "image/*", "url": data.get("url")}
        case "binary":
            yield _crush_file(data.get("MIMEType"), data.get("Data"))
        case "tool_call":
            state: dict[str, Any] = {"status": "pending", "input": read_json(data.get("input"))}
            result = results.get(data.get("id"))
            if result is not None and result.get("is_error") is True:
                state |= {"status": "error", "error": result.get("content")}
            elif result is not None:
                state |= {"status": "completed", "output": result.get("content")}
                if result.get("data"):
                    state["attachments"] = [_crush_file(result.get("mime_type"), result["data"])]
            yield {"type": "tool", "tool": data.get("name"), "callID": data.get("id"), "state": state}


def _crush_file(mime: Any, data: Any) -> dict[str, Any]:
    named = optional(mime) or "application/octet-stream"
    return {"type": "file", "mime": named, "url": f"data:{named};base64,{data}"}


def archive(members: Mapping[str, bytes]) -> Iterable[Any] | None:
    """The sessions of a packed `storage` folder: a file for each session, message and part."""
    paths = {tuple(name.replace("\\", "/").split("/")[-3:]): name for name in members if name.endswith(".json")}
    paths = {path: name for path, name in paths.items() if len(path) == 3}
    sessions = [(path, name) for path, name in paths.items() if path[0] == "session" and path[2].startswith("ses_")]
    return _stored(sessions, paths, members) if sessions else None


def _stored(
    sessions: list[tuple[tuple[str, ...], str]], paths: dict[tuple[str, ...], str], members: Mapping[str, bytes]
) -> Iterator[dict[str, Any]]:
    folders: dict[tuple[str, ...], list[str]] = {}
    for path, name in paths.items():
        folders.setdefault(path[:2], []).append(name)

    def inside(kind: str, owner: str) -> list[dict[str, Any]]:
        return items([read_json(members[name]) for name in sorted(folders.get((kind, owner), ()))])

    for _, name in sorted(sessions):
        info = read_json(members[name])
        if isinstance(info, dict):
            messages = [
                {"info": message, "parts": inside("part", str(message.get("id")))}
                for message in inside("message", str(info.get("id")))
            ]
            yield {"info": info, "messages": messages}


def detect(value: Any) -> str | None:
    """Messages of `info` and `parts`, beside the session's own `info`."""
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return None
    about = value.get("info")
    if not isinstance(about, dict) or "id" not in about:
        return None
    if all(isinstance(m, dict) and isinstance(m.get("info"), dict) and "parts" in m for m in value["messages"]):
        return "`messages` of `info` and `parts`, beside `info`"
    return None


def relations(conversation: Conversation, path: PurePath) -> Relations:
    """A sub-agent's session names its parent; it is exported separately, or is in the same database."""
    info = fields_of(fields_of(next(iter(conversation.extra.get(API, {}).get(TEMPLATE) or ()), None)).get("info"))
    return Relations(optional(info.get("id")), optional(info.get("parentID")))


def _pieces(about: Conversation, facts: new_sessions.Facts) -> new_sessions.OpencodeWriter:
    return new_sessions.OpencodeWriter(about, facts, decode)


FORMAT = file_format(
    API,
    decode,
    detect=detect,
    archive=archive,
    database=database,
    write=lambda conversation: _pieces(conversation, new_sessions.facts_of(conversation))(conversation),
    relations=relations,
    listed=ListedSession(("messages",), listed),
    rows=Rows(key="messages", encoder=_pieces),
)
