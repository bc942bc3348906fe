"""Saves whole conversations as new sessions."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ..dialects.foreign_blocks import understood
from ..values import jsontext
from ..values.messages import AgentMessage, CustomMessage
from ..values.request import Conversation, Entry
from . import blobs as media
from .session import Session, first_line
from .store import SessionError, Store
from .tree import encode_line, placed, readable_line


def save(conversation: Conversation, *, new_id: Callable[[], str] | None = None, **where: Any) -> Session:
    """Saves a conversation as a new session; takes the arguments of `Session.open`.

    `new_id` generates ids for entries without one; default: random ids.
    """
    session = Session.open(where.pop("id", None), about=conversation, **where)
    try:
        _write(session, conversation, new_id or (lambda: secrets.token_hex(8)))
    except BaseException:
        session.close()
        raise
    return session


def _write(session: Session, conversation: Conversation, new_id: Callable[[], str]) -> None:
    if len(session._log):
        raise SessionError(f"{session.where}: the session already exists")
    names: dict[str, str | None] = {}
    for entry in placed(conversation, new_id, names):
        message: AgentMessage = entry.message
        if entry.id is not None:
            session._insert(entry)
        elif isinstance(message, CustomMessage) and message.role == "head":
            session._add(jsontext.write({"role": "head", **message.fields}))
        elif isinstance(message, CustomMessage):
            session._append_outside_tree(
                message.role, entry.parent_id, **message.fields, entryExtra=entry.extra or None
            )
    head = session.head if conversation.head is None else names.get(conversation.head, session.head)
    if head != session.head:
        session.rewind(head)


def create_session(store: Store, agent: str, id: str, about: Mapping[str, Any], entries: Sequence[Entry]) -> bool:
    """Creates a session with these entries, each after the one before it, in one write. Returns False if the session
    exists, or if this store or these entries need `Session.open`. `about` is what `described` returns.
    """
    for entry in entries:
        if isinstance(entry.message, CustomMessage) or understood(entry.message) is not None:
            return False

    def lines() -> list[bytes]:
        blobs = store.blobs(agent)
        written = [jsontext.write(first_line(id, agent, about))]
        for entry in entries:
            line, stored = readable_line(entry), media.externalize(entry.message, blobs)
            written.append(line if stored is entry.message else encode_line(replace(entry, message=stored)))
        return written

    return store.create(agent, id, lines)
