"""AnythingLLM: exported chats as JSON, a list of `prompt` and `response`, or the threads of its database.

An export lists the chats of all workspaces; those of one are a conversation. In the database (`anythingllm.db`) a
thread is one, and a response is JSON with its text, its metrics and the attachments of the prompt.
github.com/Mintplex-Labs/anything-llm `server/utils/helpers/chat/convertTo.js`, `server/prisma/schema.prisma`
"""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from ...values.errors import BadWire
from ...values.messages import AssistantMessage, Block, Citation, Content, Message, TextBlock
from ...values.request import Conversation
from ..residual import body_of, fields_of, optional, reading
from ..wire import Parts
from . import templates
from .program_content import attachment_of, conversation_of, first, image_of, inner, items, moment, user
from .reading import columns_of, openai_usage, read_json, rows_by_key, rows_of, several, values_at

API = "anything-llm"


def _is_row(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("prompt"), str)
        and "response" in value
        and isinstance(value.get("workspace"), str)
        and ("sent_at" in value or "createdAt" in value)
    )


def _rows(value: Any) -> list[dict[str, Any]] | None:
    return value if isinstance(value, list) and value and all(map(_is_row, value)) else None


def _messages(row: dict[str, Any]) -> Iterator[Message]:
    when = moment(first(row, "sent_at", "createdAt"))
    given = row["response"]
    about = fields_of(read_json(given)) or {"text": given}
    files: list[Block | None] = [image_of(item) for item in items(row.get("attachments"))]
    files += [
        attachment_of(item["contentString"], optional(item.get("mime")) or "image/*", optional(item.get("name")))
        for item in items(about.get("attachments"))
        if isinstance(item.get("contentString"), str)
    ]
    blocks: list[Block] = [TextBlock(text=row["prompt"]), *(file for file in files if file is not None)]
    yield user(tuple(blocks), when)
    answer, metrics = optional(about.get("text")), about.get("metrics")
    if answer is not None:
        model = optional(inner(metrics, "model"))
        cited = tuple(_citation(source) for source in items(about.get("sources")))
        content: Content = (TextBlock(text=answer, citations=cited),) if cited else answer
        yield AssistantMessage(content=content, model=model, usage=openai_usage(metrics), timestamp=when)


def _citation(source: dict[str, Any]) -> Citation:
    """A piece of a document; one from the web is named by its link (`link://…`)."""
    link = optional(first(source, "url", "chunkSource")) or ""
    # collector/processLink/convert/generic.js, `chunkSource`.
    url = link.removeprefix("link://") if link.startswith(("link://", "http")) else None
    return Citation(title=optional(source.get("title")), url=url, cited_text=optional(source.get("text")))


@reading(API)
def decode(data: Any) -> Conversation:
    """The chats of one workspace or thread."""
    body = body_of(data, API)
    rows = _rows(body)
    if rows is None:
        raise BadWire(API, "expected a list of `prompt` and `response`, each with its `workspace`")
    title = first(rows[0], "thread", "workspace")
    return templates.keep(conversation_of((m for row in rows for m in _messages(row)), title=title), body, API)


def detect(value: Any) -> str | None:
    """Whether a value is a list of chats."""
    return "a list of `prompt` and `response`, each with its `workspace`" if _rows(value) is not None else None


def split(value: Any) -> list[Any] | None:
    """The chats of each workspace, if there are several."""
    return several(PARTS, value) if _rows(value) is not None else None


def _thread(row: dict[str, Any]) -> tuple[Any, str]:
    if not _is_row(row):
        raise BadWire(API, "expected `prompt`, `response` and `workspace`")
    return row["workspace"], str(row.get("thread"))


PARTS = Parts(lambda header, lists: iter(lists.grouped(_thread, "").values()), ("",))


def database(connection: sqlite3.Connection) -> Iterable[Any] | None:
    """The threads of a database."""
    known = {"workspaceId", "prompt", "response", "createdAt"} <= columns_of(connection, "workspace_chats")
    return _stored(connection) if known else None


def _stored(connection: sqlite3.Connection) -> Iterator[list[dict[str, Any]]]:
    names = {}
    for table in ("workspaces", "workspace_threads"):
        known = columns_of(connection, table)
        named = rows_of(connection, f"SELECT id, name FROM {table}") if known else ()
        names[table] = {row["id"]: row["name"] for row in named}
    known = columns_of(connection, "workspace_chats")
    key = ", ".join(("workspaceId", *(name for name in ("thread_id", "api_session_id") if name in known)))
    # server/models/workspaceChats.js: `include` is false for what a reset of the chat hid from the model.
    query = f"SELECT {key}, rowid FROM workspace_chats WHERE include IS NOT 0 ORDER BY id"
    for rows in rows_by_key(connection, query).values():
        thread = []
        for row in values_at(connection, "SELECT * FROM workspace_chats WHERE rowid = ?", rows):
            own = {**row, "workspace": names["workspaces"].get(row["workspaceId"]) or str(row["workspaceId"])}
            name = names["workspace_threads"].get(row.get("thread_id"))
            thread.append({**own, **({"thread": name} if name else {})})
        yield thread


FORMAT = templates.file_format(API, decode, detect=detect, split=split, parts=PARTS, database=database, rank=20)
