"""Sub-agents whose turns are in the file of the conversation that started them, as conversations of their own.

A file that holds them is one conversation, and comes back as one: their entries stand beside its path. Formats mark the
first entry of each with the `entry` and the `callId` that started it, where the file tells; what hangs from that entry
is the sub-agent's. The link is `extra["interlingua"]["spawnedBy"]`, which a transcript has in its first line.
"""

from typing import Any

from msgspec.structs import replace

from ..values.canonical import SELF
from ..values.messages import AssistantMessage
from ..values.request import Conversation, Entry, ModelDescriptor

SPAWNED_BY = "~spawnedBy"  # of an entry, under the name of its format


def subagents_of(conversation: Conversation) -> tuple[Conversation, ...]:
    """The conversations of the sub-agents in a file, in the order in which they began, those of sub-agents too."""
    origins = [_origin(entry) for entry in conversation.entries]
    if not any(origin is not None for origin in origins):
        return ()
    tree = conversation.tree()
    on_path = {id(entry) for entry in conversation.path()}
    owners: dict[int, int] = {}  # entry -> the first entry of its sub-agent
    threads: dict[int, list[Entry]] = {}
    for at, entry in enumerate(conversation.entries):  # parents come first
        parent = tree.parents[at]
        if origins[at] is not None and id(entry) not in on_path:
            owners[at], threads[at] = at, [replace(entry, parent_id=None)]
        elif parent in owners:
            owners[at] = owners[parent]
            threads[owners[at]].append(entry)
    return tuple(_alone(entries, origins[at] or {}) for at, entries in threads.items())


def _origin(entry: Entry) -> dict[str, Any] | None:
    given = (fields.get(SPAWNED_BY) for fields in entry.extra.values() if isinstance(fields, dict))
    return next((origin for origin in given if isinstance(origin, dict)), None)


def _alone(entries: list[Entry], origin: dict[str, Any]) -> Conversation:
    models = [entry.message.model for entry in entries if isinstance(entry.message, AssistantMessage)]
    named = [model for model in models if model]
    known = {key: value for key, value in origin.items() if value is not None}
    return Conversation(
        entries=tuple(entries),
        model=ModelDescriptor(id=named[-1]) if named else None,
        extra={SELF: {"spawnedBy": known}},
    )
