"""Sub-agents as separate conversations, linked to their parent: from its file, or from files of their own.

A file that holds sub-agents is one conversation and round-trips as one: their entries are beside its path. Formats mark
the first entry of each with the `entry` and the `callId` that started it, if the file has them; its descendants belong
to the sub-agent. The link is `extra["interlingua"]["spawnedBy"]`, which a transcript has in its first line.

Where a program writes each sub-agent to a file of its own, the format knows their location and each one's parent.
"""

from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from msgspec.structs import replace

from ..dialects import FORMATS
from ..dialects.residual import with_residual
from ..dialects.wire import Relations
from ..values.canonical import SELF
from ..values.messages import AssistantMessage, ToolResultMessage, UserMessage, model_of
from ..values.regular import stream_regular
from ..values.request import Conversation, Entry, ModelDescriptor

SPAWNED_BY = "~spawnedBy"  # in an entry's extra, under the name of its format


def subagents_of(conversation: Conversation) -> tuple[Conversation, ...]:
    """Returns the conversations of the sub-agents in a file in start order, nested ones included."""
    origins = [origin_of(entry) for entry in conversation.entries]
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


def origin_of(entry: Entry) -> dict[str, Any] | None:
    """Returns the `entry` and the `callId` that started a sub-agent, as far as known, for its first entry in a file."""
    given = (fields.get(SPAWNED_BY) for fields in entry.extra.values() if isinstance(fields, dict))
    return next((origin for origin in given if isinstance(origin, dict)), None)


def _alone(entries: list[Entry], origin: dict[str, Any]) -> Conversation:
    named = [model for entry in entries if (model := model_of(entry.message))]
    known = {key: value for key, value in origin.items() if value is not None}
    return Conversation(
        entries=tuple(entries),
        model=ModelDescriptor(id=named[-1]) if named else None,
        extra={SELF: {"spawnedBy": known}},
    )


# --- separate files --------------------------------------------------------------------------------------------------

_HEAD = 1 << 18  # bytes at the beginning of a file that may name its parent session


def relatives_of(conversation: Conversation, path: PurePath) -> Relations:
    """Returns where a conversation's relatives are, according to its format; empty if it does not know."""
    for name in conversation.extra:
        form = FORMATS.get(name)
        if form is not None and form.relations is not None:
            return form.relations(conversation, path)
    return Relations(None)


def files_of_subagents(relations: Relations, path: Path) -> Iterator[Path]:
    """Returns the files that name this session near their beginning, in the folder of its program's sub-agents."""
    mark = (relations.id or "").encode()
    for folder, pattern in relations.places if mark else ():
        for found in sorted(Path(folder).glob(pattern)):
            if found != path and (relations.id in found.parts or mark in _head(found)):
                yield found


def _head(path: Path) -> bytes:
    try:
        with stream_regular(path) as stream:
            return stream.read(_HEAD)
    except OSError:
        return b""


def spawned(child: Conversation, relations: Relations, parent: Conversation | None = None) -> Conversation:
    """Returns a sub-agent's conversation with its link: the session, and in `parent` the entry and the call."""
    known = {"session": relations.parent} if relations.parent is not None else {}
    if parent is not None:
        known |= _call_in(parent, relations.id, child)
    return with_residual(child, SELF, spawnedBy=known) if known else child


def _call_in(parent: Conversation, id: str | None, child: Conversation) -> dict[str, str]:
    """Returns the call whose result names the sub-agent, else the one with the sub-agent's first prompt."""
    callers: dict[str, str | None] = {}  # call -> entry
    calls_by_prompt: dict[Any, str] = {}  # prompt -> call
    for entry in parent.entries:
        message = entry.message
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                callers[call.id] = entry.id
                calls_by_prompt.setdefault(call.arguments.get("prompt") or call.arguments.get("message"), call.id)
        elif isinstance(message, ToolResultMessage) and id and message.tool_call_id in callers:
            details = message.details if isinstance(message.details, dict) else {}
            if details.get("agentId") == id or id in message.text:
                return _place(message.tool_call_id, callers)
    prompt = next((entry.message.text for entry in child.entries if isinstance(entry.message, UserMessage)), None)
    return _place(calls_by_prompt[prompt], callers) if prompt in calls_by_prompt and prompt else {}


def _place(call: str, callers: dict[str, str | None]) -> dict[str, str]:
    entry = callers[call]
    return {"callId": call} if entry is None else {"entry": entry, "callId": call}
