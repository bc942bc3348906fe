"""One message of several records, and records in another order than their messages: both ways.

Programs write one answer over several lines, and name parents that are lines, not messages. `join` makes one entry of
the entries that such lines were read as, `place` gives an entry another place in the tree than its record states; both
leave hints in the entry's `extra` by which `apart` gives back the entries of the records, in their order.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ...values.canonical import build, plain
from ...values.messages import AssistantMessage, TextBlock, Usage, blocks_of
from ...values.request import Entry
from ..residual import with_residual

PARTS = "~parts"  # of an entry: the records of which it is made, in order
STATED = "~stated"  # of an entry: the parent that it was given, and the one that its record states


def join(entries: Sequence[Entry], groups: Iterable[Sequence[int]], api: str) -> list[Entry]:
    """The entries with each group of answers as one, in the place of its first; the others are left out."""
    out: list[Entry | None] = list(entries)
    for group in groups:
        if len(group) > 1:
            out[group[0]] = _joined([entries[at] for at in group], group, api)
            for at in group[1:]:
                out[at] = None
    return [entry for entry in out if entry is not None]


def _joined(parts: Sequence[Entry], places: Sequence[int], api: str) -> Entry:
    messages: list[Any] = [part.message for part in parts]
    content = tuple(block for message in messages for block in blocks_of(message.content))
    last = messages[-1]
    # Usage is repeated on each line; a line that was written while the answer grew may have less of it.
    usage = next((message.usage for message in reversed(messages) if message.usage is not None), None)
    ended = next((message for message in reversed(messages) if message.stop_detail is not None), last)
    calls = any(message.stop_reason == "toolUse" for message in messages)
    reason = "toolUse" if calls and ended.stop_reason == "stop" else ended.stop_reason
    whole = replace(
        last,
        content=content,
        usage=usage,
        stop_reason=reason,
        stop_detail=ended.stop_detail,
        extra=ended.extra,
    )
    hints = []
    for at, part, message in zip(places, parts, messages, strict=True):
        hint: dict[str, Any] = {"at": at, "blocks": _shape(message.content)}
        fields = _differences(message, whole)
        if fields:
            hint["fields"] = fields
        if at != places[-1]:
            hint |= {key: value for key, value in (("id", part.id), ("parent", part.parent_id)) if value is not None}
            hint["record"] = part.extra.get(api, {})
        hints.append(hint)
    # The last line's id: what follows the answer follows it.
    joined = replace(parts[-1], message=whole, parent_id=parts[0].parent_id)
    return with_residual(joined, api, **{PARTS: [*hints[:-1], {**hints[-1], "parent": parts[-1].parent_id}]})


def _shape(content: Any) -> int | str | None:
    """How many blocks a part has; text that is no block, or nothing at all."""
    return "text" if isinstance(content, str) else None if content is None else len(content)


def _differences(part: AssistantMessage, whole: AssistantMessage) -> dict[str, Any]:
    """The fields of a part that are not those of the whole."""
    return {
        name: None if getattr(part, name) is None else plain(getattr(part, name))
        for name in part.__struct_fields__
        if name != "content" and getattr(part, name) != getattr(whole, name)
    }


def apart(entries: Sequence[Entry], api: str) -> list[Entry]:
    """The entries of the records, as they were before `join` and `place`."""
    here: list[Entry] = []
    there: dict[int, Entry] = {}
    for entry in entries:
        stated = entry.extra.get(api, {}).get(STATED) if entry.extra else None
        parts = entry.extra.get(api, {}).get(PARTS) if entry.extra else None
        if stated is not None and stated[0] == entry.parent_id:
            entry = replace(entry, parent_id=stated[1])
        entry = _without(entry, api) if stated is not None or parts is not None else entry
        if parts is None:
            here.append(entry)
        else:
            there.update(_parts(entry, parts, api))
    out: list[Entry] = []
    waiting = iter(here)
    for at in range(len(here) + len(there)):
        found = there.pop(at, None)
        found = next(waiting, None) if found is None else found
        if found is not None:
            out.append(found)
    return [*out, *(there[at] for at in sorted(there)), *waiting]


def _without(entry: Entry, api: str) -> Entry:
    rest = {key: value for key, value in entry.extra[api].items() if key not in (PARTS, STATED)}
    return replace(entry, extra={**entry.extra, api: rest})


def _parts(entry: Entry, hints: Sequence[Mapping[str, Any]], api: str) -> dict[int, Entry]:
    message: Any = entry.message
    blocks = blocks_of(message.content)
    counts = [1 if hint["blocks"] == "text" else hint["blocks"] or 0 for hint in hints]
    if sum(counts) != len(blocks):  # it was changed since: the last line says all of it
        return {hints[-1]["at"]: replace(entry, parent_id=entry.parent_id)}
    out: dict[int, Entry] = {}
    start, parent = 0, entry.parent_id
    for hint, count in zip(hints, counts, strict=True):
        content: Any = blocks[start : start + count]
        start += count
        if hint["blocks"] == "text":
            (block,) = content
            content = block.text if isinstance(block, TextBlock) else content
        elif hint["blocks"] is None:
            content = None
        fields = {name: _field(name, value) for name, value in hint.get("fields", {}).items()}
        part = replace(message, content=content, **fields)
        if hint is hints[-1]:
            first = len(hints) == 1
            out[hint["at"]] = replace(entry, message=part, parent_id=parent if first else hint.get("parent"))
        else:
            extra = {**{owner: kept for owner, kept in entry.extra.items() if owner != api}, api: hint["record"]}
            above = parent if hint is hints[0] else hint.get("parent")
            out[hint["at"]] = Entry(message=part, id=hint.get("id"), parent_id=above, extra=extra)
    return out


def _field(name: str, value: Any) -> Any:
    return build(value, Usage) if name == "usage" and value is not None else value


def place(entry: Entry, parent: str | None, api: str) -> Entry:
    """The entry under another parent than its record states."""
    if parent == entry.parent_id:
        return entry
    stated = (entry.extra.get(api, {}).get(STATED) or [None, entry.parent_id])[1]
    return with_residual(replace(entry, parent_id=parent), api, **{STATED: [parent, stated]})
