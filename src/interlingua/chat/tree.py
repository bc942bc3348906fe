"""The tree of a session as selectable rows, and the valid positions of its head. Pure.

Results are not rows: a response and its results are one position, since a conversation that ends between them would
lack a result.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from ..values.messages import AgentMessage, AssistantMessage, CustomMessage, ToolResultMessage, UserMessage, text_of
from ..values.request import Entry
from ..values.text import natural
from .rendering import summary_line

_ROLES = {UserMessage: "you", AssistantMessage: "model", ToolResultMessage: "result"}


class TreeLine(Struct, frozen=True, kw_only=True):
    """A line of the tree; `depth` increases at branches."""

    id: str
    depth: int
    role: str
    text: str
    label: str | None
    on_path: bool
    is_head: bool


class MoveTarget(NamedTuple):
    """A position to move to: the new head (None: before the first), and text to edit and send again."""

    at: str | None
    text: str | None = None


def rows(entries: Sequence[Entry], head: str | None, path: Iterable[str], labels: dict[str, str]) -> list[TreeLine]:
    on_path = set(path)
    known = {entry.id: entry for entry in entries}
    standing = _shown_for(known, head)
    named = {_shown_for(known, id): label for id, label in labels.items()}
    return [
        TreeLine(
            id=entry.id or "",
            depth=depth,
            role=_role(entry.message),
            text=summary_line(entry.message),
            label=named.get(entry.id),
            on_path=entry.id in on_path,
            is_head=entry.id == standing,
        )
        for depth, entry in _tree_rows(entries)
    ]


def _role(message: AgentMessage) -> str:
    return message.role if isinstance(message, CustomMessage) else _ROLES.get(type(message), "system")


def _tree_rows(entries: Sequence[Entry]) -> Iterator[tuple[int, Entry]]:
    """Yields each entry once; an entry whose parent is missing, or itself, is a root."""
    children = _children(entries)
    known = {entry.id for entry in entries}
    drawn: set[int] = set()
    roots = [entry for entry in entries if entry.parent_id not in known]
    for root in (*roots, *entries):
        waiting = [(0, root)]
        while waiting:
            depth, entry = waiting.pop()
            if id(entry) in drawn:
                continue
            drawn.add(id(entry))
            if not isinstance(entry.message, ToolResultMessage):
                yield depth, entry
            below = children.get(entry.id, [])
            waiting += [(depth + (len(below) > 1), child) for child in reversed(below)]


def _children(entries: Sequence[Entry]) -> dict[str | None, list[Entry]]:
    children: dict[str | None, list[Entry]] = {}
    for entry in entries:
        children.setdefault(entry.parent_id, []).append(entry)
    return children


def _shown_for(known: Mapping[str | None, Entry], id: str | None) -> str | None:
    """Returns the row of an entry: its own, or that of the response whose result it is."""
    entry, seen = known.get(id), set()
    while entry is not None and isinstance(entry.message, ToolResultMessage) and entry.id not in seen:
        seen.add(entry.id)
        entry = known.get(entry.parent_id)
    return None if entry is None else entry.id


def target(entries: Sequence[Entry], id: str) -> MoveTarget:
    """The target of choosing an entry: after a response and its results, or before a user message, to edit it."""
    known = {entry.id: entry for entry in entries}
    chosen = known[id]
    message: AgentMessage = chosen.message
    if isinstance(message, UserMessage):
        return MoveTarget(chosen.parent_id, text_of(message.content))
    if not isinstance(message, AssistantMessage) or not message.tool_calls:
        return MoveTarget(id)
    results = _results_of(entries, chosen)
    return MoveTarget(results[-1].id) if len(results) >= len(message.tool_calls) else MoveTarget(chosen.parent_id)


def end_of(entries: Sequence[Entry], id: str) -> str:
    """Returns the last entry of a row: its own, or the last result of its calls."""
    chosen = next(entry for entry in entries if entry.id == id)
    return [chosen, *_results_of(entries, chosen)][-1].id or id


def _results_of(entries: Sequence[Entry], answer: Entry) -> list[Entry]:
    """Returns the results below a response, at most one for each of its calls."""
    children, at, found = _children(entries), answer, list[Entry]()
    calls = answer.message.tool_calls if isinstance(answer.message, AssistantMessage) else ()
    while len(found) < len(calls) and (below := _result_below(children, at)) is not None:
        at = below
        found.append(below)
    return found


def _result_below(children: dict[str | None, list[Entry]], entry: Entry) -> Entry | None:
    return next((one for one in children.get(entry.id, []) if isinstance(one.message, ToolResultMessage)), None)


def last_turn(path: Sequence[Entry]) -> MoveTarget | None:
    """Returns the target before the last user message, with its text; None if there is none."""
    for entry in reversed(path):
        message: AgentMessage = entry.message
        if isinstance(message, UserMessage):
            return MoveTarget(entry.parent_id, text_of(message.content))
    return None


def find(shown: Sequence[TreeLine], name: str) -> TreeLine | None:
    """Finds a row by its number in the list, its label, or a prefix of its id."""
    if 0 < (natural(name) or 0) <= len(shown):
        return shown[int(name) - 1]
    exact = [row for row in shown if row.label == name or row.id == name]
    found = exact or [row for row in shown if row.id.startswith(name)]
    return found[0] if len(found) == 1 or exact else None
