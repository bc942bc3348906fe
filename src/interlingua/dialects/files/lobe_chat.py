"""LobeChat: an export of its tables, among them `messages`, `topics` and `sessions`; or a topic that was shared.

An older export has them in `state` beside `exportType`, a newer one in `data` beside `schemaHash`. The messages of one
topic, or of a thread of it, are a conversation, in the order of their times; those without a topic are that of their
session. A call is in `tools` of an answer, its result a message of role `tool`; the call that it answers is named in
the message, or in `messagePlugins`. An answer that failed has three dots as its text. The assistant's `systemRole` and
model are in the session's `config`, or in `agents`.

A shared topic is a list of messages with `role`, `content`, `tools` and `tool_call_id`, or an object with a `version`,
its `messages` and the time `exportedAt`; both begin with the assistant's `systemRole`, if the user wants it.
github.com/lobehub/lobe-chat
"""

from array import array
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values.errors import BadWire
from ...values.messages import Block, Citation, Message, SystemMessage, TextBlock, ThinkingBlock, Usage
from ...values.request import Conversation
from ..residual import body_of, fields_of, optional, reading, whole
from ..wire import ListedSession, Parts, RecordLists, SessionStream
from . import templates
from .line_sessions import ReadAgain, Record, RowReader, TemplateStream, by_time, read
from .program_content import attachment_of, first, inner, items, moment, user
from .reading import Pairing, image_of, kept_record, rounds, several

API = "lobe-chat"

_FORMS = (
    ("exportType", "state"),
    ("schemaHash", "data"),
)  # a key that only this program writes, and where the tables are
# packages/const/src/message.ts, `LOADING_FLAT`: stands in an answer until its first text comes.
_PLACEHOLDER = "..."


def _tables(value: Any) -> tuple[str, dict[str, Any]] | None:
    """Where the tables of an export are, and the tables."""
    for mark, key in _FORMS:
        if isinstance(value, dict) and mark in value:
            found = inner(value, key, "messages")
            if isinstance(found, list) and found and all(isinstance(one, dict) and "role" in one for one in found):
                return key, value[key]
    return None


_EXPORTED_FIELDS = ("id", "role", "createdAt", "updatedAt")  # that each message of an object has


def _shared(value: Any) -> list[dict[str, Any]] | None:
    """The messages of a shared topic. A list without calls is one of OpenAI's messages."""
    if isinstance(value, list):
        is_own = all(isinstance(one, dict) and "role" in one for one in value)
        return value if is_own and any("apiName" in call for one in value for call in items(one.get("tools"))) else None
    if not isinstance(value, dict) or not {"version", "exportedAt", "messages"} <= value.keys():
        return None
    messages = items(value["messages"])
    is_own = len(messages) == len(value["messages"]) > 0
    return messages if is_own and all(key in one for one in messages for key in _EXPORTED_FIELDS) else None


def _chat_of(message: dict[str, Any]) -> tuple[Any, Any, Any]:
    """A message's topic and thread, or its session."""
    topic = message.get("topicId")
    return message.get("sessionId") if topic is None else None, topic, message.get("threadId")


def split(value: Any) -> list[Any] | None:
    """An export of each chat, if there are several: its messages and its session, with all else as it was."""
    return several(PARTS, value) if _tables(value) is not None else None


def _exports(value: dict[str, Any], lists: RecordLists) -> Iterator[Any]:
    key = next(key for mark, key in _FORMS if mark in value and key in value)
    tables = value[key]
    topics, sessions, agents = (_by_id(tables.get(name)) for name in ("topics", "sessions", "agents"))
    links: dict[Any, list[Any]] = {}
    for link in items(tables.get("agentsToSessions")):
        links.setdefault(optional(link.get("sessionId")), []).append(link)
    plugins = lists.grouped(_id_of, f"{key}.messagePlugins")
    for (owner, topic, _), messages in lists.grouped(_chat_of, f"{key}.messages").items():
        session = _session_of(messages[0], owner, topics.get(topic, {}))
        linked = links.get(session, [])
        own = {
            "messages": messages,
            "topics": [topics[topic]] if topic in topics else [],
            "sessions": [sessions[session]] if session in sessions else [],
            "agentsToSessions": linked,
            "agents": [agents[link["agentId"]] for link in linked if link.get("agentId") in agents],
            "messagePlugins": [row for one in messages if "id" in one for row in plugins.get(_id_of(one), ())[-1:]],
        }
        yield {**value, key: tables | {name: rows for name, rows in own.items() if name in tables}}


def _id_of(row: Any) -> str | None:
    return optional(fields_of(row).get("id"))


def _session_of(message: dict[str, Any], owner: Any, topic: dict[str, Any]) -> Any:
    return owner or optional(message.get("sessionId")) or topic.get("sessionId")


PARTS = Parts(_exports, tuple(f"{key}.{name}" for _, key in _FORMS for name in ("messages", "messagePlugins")))


def _by_id(rows: Any) -> dict[Any, dict[str, Any]]:
    return {id: row for row in items(rows) if isinstance(id := row.get("id"), str)}


@reading(API)
def decode(data: Any) -> Conversation:
    """The one chat of an export, or a shared topic."""
    body = body_of(data, API)
    shared = _shared(body)
    if shared is not None:
        return templates.keep(read(_TopicReader(body), shared), body, API)
    given = _tables(body)
    if given is None:
        raise BadWire(API, "expected an export with `messages` in `state` or `data`, or a shared topic")
    key, tables = given
    chats = set(map(_chat_of, tables["messages"]))
    if len(chats) > 1:
        raise BadWire(API, f"an export of {len(chats)} chats: take one of them")
    conversation = read(_reader(tables, tables["messages"][0]), tables["messages"])
    return templates.keep(conversation, body, API, places=[f"{key}.messages"])


@reading(API)
def listed(header: Any, messages: ReadAgain) -> SessionStream | None:
    """The one chat of an export, or a shared topic, one entry at a time."""
    key = next((key for mark, key in _FORMS if mark in header and inner(header, key, "messages") == []), None)
    if key is None:
        fields = _EXPORTED_FIELDS if header else ("role",)
        is_topic = all(field in one for one in messages() for field in fields)
        return (
            TemplateStream(_TopicReader(header), messages, API, "messages" if header else "", header)
            if is_topic
            else None
        )
    chats = {_chat_of(one) if "role" in one else None for one in messages()}
    if len(chats) != 1 or None in chats:
        return None
    reader, place = _reader(header[key], next(iter(messages()))), f"{key}.messages"
    return TemplateStream(reader, messages, API, place, header, places=[place])


def _reader(tables: dict[str, Any], message: dict[str, Any]) -> "_Reader":
    """Reads the messages of the one chat of an export, of which this is the first."""
    owner, id, _ = _chat_of(message)
    topic = _by_id(tables.get("topics")).get(id, {})
    session_id = _session_of(message, owner, topic)
    session = _by_id(tables.get("sessions")).get(session_id, {})
    title = optional(topic.get("title")) or optional(session.get("title")) or optional(inner(session, "meta", "title"))
    config = fields_of(session.get("config")) or _agent(tables, session_id)
    fields = {"title": title, "model": config.get("model"), "system": optional(config.get("systemRole")) or None}
    return _Reader(fields, _by_id(tables.get("messagePlugins")))


class _Reader(RowReader):
    """Reads messages in the order of their times."""

    def __init__(self, fields: dict[str, Any], plugins: dict[Any, dict[str, Any]]) -> None:
        self.fields, self._plugins = fields, plugins

    def order(self, records: Iterable[Record]) -> "array[int] | None":
        return by_time([moment(message.get("createdAt")) or 0 for message in records])

    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        pairs = Pairing()
        for message in records:
            yield from _messages(message, self._plugins.get(message.get("id"), {}), pairs)


class _TopicReader(RowReader):
    """Reads a shared topic. Its messages are in order; the time of the system message is that of the export."""

    def __init__(self, body: Any) -> None:
        self.fields = {"title": optional(body.get("title")) if isinstance(body, dict) else None}

    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        pairs = Pairing()
        for at, message in enumerate(records):
            if not at and message["role"] == "system" and (system := optional(message.get("content"))) is not None:
                self.fields["system"] = system or None
            else:
                yield from _messages(message, {}, pairs)


def _agent(tables: dict[str, Any], session: Any) -> dict[str, Any]:
    """The assistant of a session."""
    named = [row.get("agentId") for row in items(tables.get("agentsToSessions")) if row.get("sessionId") == session]
    return _by_id(tables.get("agents")).get(named[0], {}) if named else {}


def _messages(record: dict[str, Any], plugin: dict[str, Any], pairs: Pairing) -> list[Message]:
    role, when = record.get("role"), moment(record.get("createdAt"))
    text = optional(record.get("content")) or ""
    plugin = plugin or fields_of(record.get("plugin"))
    if role in ("tool", "function"):
        id = optional(record.get("tool_call_id")) or optional(plugin.get("toolCallId"))
        failed = bool(record.get("pluginError") or plugin.get("error"))
        return [pairs.result(id, plugin.get("apiName"), text, failed, timestamp=when)]
    if role == "system":
        return [SystemMessage(content=text, timestamp=when)]
    blocks: list[Block] = [TextBlock(text=text)] if text else []
    for image in items(record.get("imageList")):
        blocks += [found] if (found := image_of(image.get("url"))) else []
    for file in [*items(record.get("fileList")), *items(record.get("videoList"))]:
        url = optional(file.get("url")) or optional(file.get("id"))
        name = optional(first(file, "name", "alt"))
        blocks += [attachment_of(url, optional(file.get("fileType")), name)] if url else []
    if role == "user":
        return [user(tuple(blocks), when)]
    if role == "assistant":
        return _answer(record, blocks, pairs, when)
    return [kept_record(API, str(role), record)]


def _answer(record: dict[str, Any], blocks: list[Block], pairs: Pairing, when: int | None) -> list[Message]:
    failure, extra = fields_of(record.get("error")), fields_of(record.get("extra"))
    if failure and record.get("content") == _PLACEHOLDER:
        blocks = blocks[1:]
    cited = tuple(
        Citation(title=optional(page.get("title")), url=optional(page.get("url")))
        for page in items(inner(record, "search", "citations"))
    )
    if cited and blocks and isinstance(blocks[0], TextBlock):
        blocks = [replace(blocks[0], citations=cited), *blocks[1:]]
    thought = fields_of(record.get("reasoning"))
    if thought.get("content") or thought.get("signature"):
        signature = optional(thought.get("signature"))
        blocks = [ThinkingBlock(thinking=optional(thought.get("content")) or "", thinking_signature=signature), *blocks]
    calls = [
        pairs.call(call.get("id"), call.get("apiName"), call.get("arguments")) for call in items(record.get("tools"))
    ]
    reason = optional(inner(failure, "body", "error", "message")) or optional(failure.get("message"))
    return rounds(
        [*blocks, *calls],
        model=optional(record.get("model")) or optional(extra.get("fromModel")),
        provider=optional(record.get("provider")) or optional(extra.get("fromProvider")),
        usage=_usage(fields_of(record.get("metadata"))),
        stop_reason="error" if failure else None,
        error_message=reason if failure else None,
        timestamp=when,
    )


# packages/types/src/message/common/metadata.ts.
_USAGE = (  # each under its newer name, then its older one
    ("totalInputTokens", "inputTokens"),
    ("totalOutputTokens", "outputTokens"),
    ("inputCachedTokens", "cachedTokens"),
    ("inputWriteCacheTokens",),
)


def _usage(metadata: dict[str, Any]) -> Usage | None:
    """The input includes what was read from the cache or written to it."""
    given = fields_of(metadata.get("usage")) or metadata
    total, output, read, written = (max(whole(first(given, *keys)) or 0, 0) for keys in _USAGE)
    if not total and not output:
        return None
    return Usage.of(max(total - read - written, 0), output, cache_read=read, cache_write=written)


def detect(value: Any) -> str | None:
    """Whether a value is an export that has messages, or a shared topic."""
    if _shared(value) is not None:
        return "messages of a shared topic"
    return "tables of an export, with `messages`" if _tables(value) is not None else None


FORMAT = templates.file_format(
    API,
    decode,
    detect=detect,
    split=split,
    parts=PARTS,
    rank=20,
    listed=ListedSession((*(f"{key}.messages" for _, key in _FORMS), "messages", ""), listed),
)
