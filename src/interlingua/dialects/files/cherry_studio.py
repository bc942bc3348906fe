"""Cherry Studio: a backup (`data.json`, also in its zip), whose `indexedDB` has `topics` and `message_blocks`.

A topic has messages, each a list of the ids of its blocks: `main_text`, `thinking`, `code`, `image`, `tool` (a call
with what it gave), `file`, `video`, `error`, `citation` (which a text names), and others. Names of topics stand in the
settings (`localStorage`), as JSON in JSON. Several answers to one question (`askId`) are of several models: the one
marked `useful`, else the first, is on the path. A topic of a backup is read as `{"topic": …, "blocks": […], "name":
…}`. github.com/CherryHQ/cherry-studio `src/renderer/types/newMessage.ts`
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from ...values.errors import BadWire
from ...values.messages import AssistantMessage, Citation, SystemMessage, TextBlock, ThinkingBlock
from ...values.request import Conversation, ModelDescriptor
from ..residual import body_of, fields_of, optional, reading
from ..wire import Parts, RecordLists
from . import templates
from .program_content import a_result, attachment_of, first, image_of, inner, items, moment, user
from .reading import (
    Documents,
    Node,
    Pairing,
    Tables,
    ending,
    entries_of,
    kept_record,
    openai_usage,
    read_json,
    rounds,
    tables_in,
)

API = "cherry-studio"


def _is_topic(value: Any) -> bool:
    topic = inner(value, "topic")
    return isinstance(inner(topic, "messages"), list) and "id" in topic and isinstance(value.get("blocks"), list)


def _is_backup(value: Any) -> bool:
    stored = inner(value, "indexedDB")
    return isinstance(inner(stored, "topics"), list) and isinstance(value.get("localStorage"), dict)


DOCUMENTS = Documents(API, _is_topic, "a `topic` with its `blocks`", "topics")


def _topics(backup: dict[str, Any], lists: RecordLists) -> Iterator[dict[str, Any]]:
    """The topics of a backup that have messages, each with its name and its blocks."""
    names = _names(backup["localStorage"])
    blocks = lists.grouped(_message_of, _BLOCKS)
    for topic in lists.records(_TOPICS):
        if isinstance(topic, dict) and "id" in topic and isinstance(topic.get("messages"), list) and topic["messages"]:
            own = [block for m in items(topic["messages"]) for block in blocks.get(optional(m.get("id")), ())]
            name = names.get(optional(topic["id"]))
            yield {"topic": topic, "blocks": own, **({"name": name} if name else {})}


def _message_of(block: Any) -> str | None:
    return optional(fields_of(block).get("messageId"))


_TOPICS, _BLOCKS = "indexedDB.topics", "indexedDB.message_blocks"
PARTS = Parts(_topics, (_TOPICS, _BLOCKS))


def _names(settings: dict[str, Any]) -> dict[Any, str]:
    # The key of redux-persist, which writes each part of the state as JSON in JSON.
    stored = fields_of(read_json(settings.get("persist:cherry-studio")))
    assistants = fields_of(read_json(stored.get("assistants")))
    every = [*items(assistants.get("assistants")), fields_of(assistants.get("defaultAssistant"))]
    topics = [topic for assistant in every for topic in items(assistant.get("topics"))]
    return {optional(topic.get("id")): topic["name"] for topic in topics if isinstance(topic.get("name"), str)}


def _citations(block: dict[str, Any], named: Mapping[Any, dict[str, Any]]) -> tuple[Citation, ...]:
    """The pages and documents of the blocks that a text refers to."""
    found = []
    for reference in items(block.get("citationReferences")):
        source = named.get(optional(reference.get("citationBlockId")), {})
        given = inner(source, "response", "results")
        for page in [*items(inner(given, "results") or given), *items(source.get("knowledge"))]:
            url, text = optional(first(page, "url", "link", "sourceUrl")), optional(first(page, "content", "snippet"))
            found.append(Citation(title=optional(page.get("title")), url=url, cited_text=text))
    return tuple(found)


def _parts(named: Mapping[Any, dict[str, Any]], blocks: Iterable[dict[str, Any]], pairs: Pairing) -> Iterator[Any]:
    for block in blocks:
        text = optional(block.get("content"))
        match block.get("type"):
            case "main_text" | "code" | "compact" if text is not None:
                yield TextBlock(text=text, citations=_citations(block, named))
            case "file" | "video":
                file = fields_of(block.get("file"))
                url = first(block, "url", "filePath") or first(file, "path", "name")
                if isinstance(url, str):
                    kind = f"{file.get('type')}/*" if file.get("type") in ("image", "audio", "video") else None
                    yield attachment_of(url, kind, optional(first(file, "origin_name", "name")))
            case "thinking":
                yield ThinkingBlock(thinking=text or "")
            case "image":
                url = first(block, "url") or first(fields_of(block.get("file")), "path", "name")
                picture = image_of({"url": url})
                if picture is not None:
                    yield picture
            case "tool":
                raw = fields_of(inner(block, "metadata", "rawMcpToolResponse"))
                name = optional(block.get("toolName")) or optional(inner(raw, "tool", "name"))
                given = first(block, "arguments") or raw.get("arguments")
                call = pairs.call(first(raw, "toolCallId", "id") or block.get("toolId"), name, given)
                yield call
                gave = first(block, "content") or raw.get("response")
                if gave is not None:
                    content = inner(gave, "content") if isinstance(inner(gave, "content"), list) else gave
                    failed = block.get("status") == "error" or inner(gave, "isError") is True
                    yield pairs.result(call.id, call.name, a_result("", content).content, failed)


def _messages(record: dict[str, Any], blocks: Mapping[Any, dict[str, Any]], pairs: Pairing) -> list[Any]:
    named = [blocks[id] for id in record.get("blocks") or () if isinstance(id, str) and id in blocks]
    older = [{"type": "main_text", "content": record["content"]}] if optional(record.get("content")) else []
    parts, when = list(_parts(blocks, named or older, pairs)), moment(record.get("createdAt"))
    if record.get("type") == "clear":
        return [kept_record(API, "clear", record)]
    if record.get("role") == "assistant":
        model = optional(inner(record, "model", "id")) or optional(record.get("modelId"))
        usage = openai_usage(record.get("usage"))
        found = rounds(parts, {"usage": usage} if usage else {}, model=model, timestamp=when)
        failed = next((block for block in named if block.get("type") == "error"), None)
        if isinstance(found[-1], AssistantMessage) and (failed is not None or record.get("status") == "paused"):
            stopped = "aborted" if record.get("status") == "paused" else "error"
            found[-1] = replace(
                found[-1], stop_reason=stopped, error_message=optional(inner(failed, "error", "message"))
            )
        return found
    if record.get("role") == "system":
        return [SystemMessage(content=tuple(parts))]
    return [user(tuple(parts), when)]


@reading(API)
def decode(data: Any) -> Conversation:
    """One topic."""
    body = body_of(data, API)
    found = list(_topics(body, Tables(body))) if _is_backup(body) else None
    if found is not None and len(found) != 1:
        raise BadWire(API, f"a backup of {len(found)} topics: take one of them")
    one = DOCUMENTS.only(body if found is None else found[0])
    blocks = {block.get("id"): block for block in items(one["blocks"])}
    pairs, nodes, before, asked = Pairing(), list[Node](), None, dict[Any, list[str]]()
    chosen: dict[str, str] = {}
    records = items(one["topic"]["messages"])
    for at, record in enumerate(records):
        id, question = optional(record.get("id")) or f"message-{at}", optional(record.get("askId"))
        rivals = asked.get(question, []) if record.get("role") == "assistant" and question else []
        parent = chosen[rivals[0]] if rivals else before
        nodes.append((id, parent or None, _messages(record, blocks, pairs)))
        if record.get("role") == "assistant" and question:
            asked.setdefault(question, []).append(id)
            chosen[id] = parent or ""
        if not rivals or record.get("useful") is True:
            before = id
    entries = entries_of(nodes)
    title = optional(one.get("name")) or optional(one["topic"].get("name"))
    whole = Conversation(entries=entries, head=ending(entries, before), title=title)
    model = next((m.model for m in reversed(whole.messages) if isinstance(m, AssistantMessage) and m.model), None)
    whole = replace(whole, model=ModelDescriptor(id=model) if model else None)
    return templates.keep(whole, body, API)


def detect(value: Any) -> str | None:
    """Whether a value is a backup, or a topic of one."""
    if _is_backup(value):
        return "a backup with `topics` in its `indexedDB`"
    return DOCUMENTS.detect(value) if isinstance(value, dict) else None


def split(value: Any) -> list[Any] | None:
    """The topics of a backup, unless it has one."""
    found = list(_topics(value, Tables(value))) if _is_backup(value) else None
    return None if found is None or len(found) == 1 else found


def archive(members: Mapping[str, bytes]) -> Iterable[Any] | None:
    """The topics of a zipped backup."""
    if "data.json" not in members:
        return None
    value, lists = tables_in(members, "data.json", PARTS)
    return _topics(value, lists) if _is_backup(value) else None


FORMAT = templates.file_format(API, decode, detect=detect, split=split, parts=PARTS, archive=archive, rank=20)
