"""One message of several records, and records in another order than their messages: both ways.

Programs write one answer over several lines, and name parents that are lines, not messages. `join` makes one entry of
the entries that such lines were read as, `place` gives an entry another place in the tree than its record states; both
leave hints in the entry's `extra` by which `apart` gives back the entries of the records, in their order.
"""

import heapq
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, compress, pairwise
from operator import attrgetter, is_not, itemgetter
from typing import Any

from msgspec.structs import replace

from ...values.canonical import build, plain
from ...values.messages import AssistantMessage, TextBlock, Usage, blocks_of
from ...values.request import Entry
from ..residual import with_residual

PARTS = "~parts"  # of an entry: the records of which it is made, in order
NAMED = "~named"  # of an entry: the id that it was given, and the one that its record has
STATED = "~stated"  # of an entry: the parent that it was given, and the one that its record states


def join(entries: Sequence[Entry], groups: Iterable[Sequence[int]], api: str, *, pieces: bool = False) -> list[Entry]:
    """The entries with each group of answers as one, in the place of its first; the others are left out.

    With `pieces`, texts that follow one another are pieces of one text.
    """
    out: list[Entry | None] = list(entries)
    for group in groups:
        if len(group) > 1:
            out[group[0]] = joined([entries[at] for at in group], group, api, pieces=pieces)
            for at in group[1:]:
                out[at] = None
    return [entry for entry in out if entry is not None]


class Runs:
    """Joins answers in a row, one entry at a time, as `join` does: each run is an entry in the place of its first.

    With `pieces`, texts that follow one another are pieces of one text.
    """

    def __init__(self, api: str, *, pieces: bool = False) -> None:
        self._api, self._pieces = api, pieces
        self._first = 0  # the place of the first entry that waits
        self._waiting: list[Entry] = []  # from the first answer of the run on
        self._run: list[int] = []  # the places of its answers

    def add(self, entry: Entry, *, ends: bool) -> Sequence[Entry]:
        """Adds the next entry, which is an answer of the run, `ends` it, or neither; returns the complete ones."""
        if isinstance(entry.message, AssistantMessage):
            self._run.append(self._first + len(self._waiting))
        elif not self._run:
            self._first += 1
            return (entry,)
        self._waiting.append(entry)
        return self.finish() if ends else ()

    def finish(self) -> list[Entry]:
        """Returns the entries that wait."""
        first, run, out = self._first, self._run, self._waiting
        self._first += len(out)
        self._waiting, self._run = [], []
        if len(run) == 1:
            return out
        own = set(run[1:])
        whole = joined([out[place - first] for place in run], run, self._api, pieces=self._pieces) if run else None
        return [whole if at == run[0] else entry for at, entry in enumerate(out, first) if at not in own]  # type: ignore[misc]


def joined(parts: Sequence[Entry], places: Sequence[int], api: str, *, pieces: bool = False) -> Entry:
    """One entry of the parts of an answer; `places` are their positions among the entries of the file."""
    messages: list[Any] = [part.message for part in parts]
    content, shapes = _content(messages, pieces)
    usage, ended, calls = None, messages[-1], False
    for message in messages:
        if message.usage is not None:  # repeated on each line; one that was written while the answer grew may have less
            usage = message.usage
        if message.stop_detail is not None:
            ended = message
        calls = calls or message.stop_reason == "toolUse"
    whole = replace(
        messages[-1],
        content=content,
        usage=usage,
        stop_reason="toolUse" if calls and ended.stop_reason == "stop" else ended.stop_reason,
        stop_detail=ended.stop_detail,
        extra=ended.extra,
    )
    hints = []
    stated = _FIELDS(whole)
    for at, part, message, shape in zip(places, parts, messages, shapes, strict=True):
        hint: dict[str, Any] = {"at": at, "blocks": shape}
        own = _FIELDS(message)
        if own != stated:
            hint["fields"] = _differences(own, stated)
        if at == places[-1]:
            hint["parent"] = part.parent_id
        else:
            if part.id is not None:
                hint["id"] = part.id
            if part.parent_id is not None:
                hint["parent"] = part.parent_id
            hint["record"] = part.extra.get(api, {})
        hints.append(hint)
    # The last line's id: what follows the answer follows it.
    extra = {**parts[-1].extra, api: {**parts[-1].extra.get(api, {}), PARTS: hints}}
    return replace(parts[-1], message=whole, parent_id=parts[0].parent_id, extra=extra)


def _content(messages: Sequence[Any], pieces: bool) -> tuple[tuple[Any, ...], list[Any]]:
    """The content of all, and what each has of it: so many blocks, or so many characters of the block before."""
    if not pieces:
        every = tuple(block for message in messages for block in blocks_of(message.content))
        return every, [_shape(message.content) for message in messages]
    blocks: list[Any] = []
    texts: list[str] = []  # pieces of the last block
    shapes: list[Any] = []
    for message in messages:
        own: tuple[Any, ...] = blocks_of(message.content)
        if len(own) == 1 and isinstance(message.content, tuple) and _is_bare(own[0]):
            size = {"characters": len(own[0].text)}
            shapes.append(size if texts else {**size, "opens": True})
            texts.append(own[0].text)
            continue
        if own and texts:
            blocks.append(TextBlock(text="".join(texts)))
            texts = []
        shapes.append(_shape(message.content))
        blocks += own
    return (*blocks, TextBlock(text="".join(texts))) if texts else tuple(blocks), shapes


def _is_bare(block: Any) -> bool:
    return isinstance(block, TextBlock) and block == TextBlock(text=block.text)


def _shape(content: Any) -> int | str | None:
    """How many blocks a part has; text that is no block, or nothing at all."""
    return "text" if isinstance(content, str) else None if content is None else len(content)


_NAMES = tuple(name for name in AssistantMessage.__struct_fields__ if name != "content")
_FIELDS = attrgetter(*_NAMES)
_PLACES = range(len(_NAMES))


def _differences(part: Sequence[Any], whole: Sequence[Any]) -> dict[str, Any]:
    """The fields of a part that are not those of the whole."""
    return {
        _NAMES[at]: None if part[at] is None else plain(part[at])
        for at in compress(_PLACES, map(is_not, part, whole))
        if part[at] != whole[at]
    }


def apart(entries: Iterable[Entry], api: str) -> Iterator[Entry]:
    """The entries of the records, as they were before `join` and `place`.

    Only parts of answers wait for their places, so that a long file need not be in memory.
    """
    waiting: list[tuple[int, int, Entry]] = []  # a heap of places, order and parts
    at = count = 0
    for entry in entries:
        stated = entry.extra.get(api, {}).get(STATED) if entry.extra else None
        parts = entry.extra.get(api, {}).get(PARTS) if entry.extra else None
        named = entry.extra.get(api, {}).get(NAMED) if entry.extra else None
        if named is not None and named[0] == entry.id:
            entry = replace(entry, id=named[1])
        if stated is not None and stated[0] == entry.parent_id:
            entry = replace(entry, parent_id=stated[1])
        entry = _without(entry, api) if not (stated is parts is named is None) else entry
        for place, part in () if parts is None else _parts(entry, parts, api):
            heapq.heappush(waiting, (place, count, part))
            count += 1
        while waiting and waiting[0][0] <= at:
            yield heapq.heappop(waiting)[2]
            at += 1
        if parts is None:
            yield entry
            at += 1
    yield from (part for _, _, part in sorted(waiting, key=itemgetter(0, 1)))


def _without(entry: Entry, api: str) -> Entry:
    rest = {key: value for key, value in entry.extra[api].items() if key not in (PARTS, STATED, NAMED)}
    return replace(entry, extra={**entry.extra, api: rest})


def _parts(entry: Entry, hints: Sequence[Mapping[str, Any]], api: str) -> Iterator[tuple[int, Entry]]:
    """The parts of an answer, each with its place."""
    message: Any = entry.message
    blocks = _divided(blocks_of(message.content), hints)
    counts = [1 if isinstance(hint["blocks"], str | dict) else hint["blocks"] or 0 for hint in hints]
    if blocks is None or sum(counts) != len(blocks):  # it was changed since: the last line says all of it
        yield hints[-1]["at"], entry
        return
    start, parent = 0, entry.parent_id
    for hint, size in zip(hints, counts, strict=True):
        content: Any = blocks[start : start + size]
        start += size
        if hint["blocks"] == "text":
            (block,) = content
            content = block.text if isinstance(block, TextBlock) else content
        elif hint["blocks"] is None:
            content = None
        fields = {name: _field(name, value) for name, value in hint.get("fields", {}).items()}
        part = replace(message, content=content, **fields)
        if hint is hints[-1]:
            first = len(hints) == 1
            yield hint["at"], replace(entry, message=part, parent_id=parent if first else hint.get("parent"))
        else:
            extra = {**{owner: kept for owner, kept in entry.extra.items() if owner != api}, api: hint["record"]}
            above = parent if hint is hints[0] else hint.get("parent")
            yield hint["at"], Entry(message=part, id=hint.get("id"), parent_id=above, extra=extra)


def _divided(blocks: Sequence[Any], hints: Sequence[Mapping[str, Any]]) -> tuple[Any, ...] | None:
    """The blocks with texts divided into their pieces; None where they are not of that length any more."""
    sizes: list[list[int] | None] = []
    for hint in hints:
        shape = hint["blocks"]
        if isinstance(shape, dict) and not shape.get("opens") and sizes and sizes[-1] is not None:
            sizes[-1].append(shape["characters"])
        elif isinstance(shape, dict):
            sizes.append([shape["characters"]])
        else:
            sizes += [None] * (1 if shape == "text" else shape or 0)
    if len(sizes) != len(blocks):
        return None
    out: list[Any] = []
    for block, lengths in zip(blocks, sizes, strict=True):
        if lengths is None:
            out.append(block)
            continue
        if not isinstance(block, TextBlock) or len(block.text) != sum(lengths):
            return None
        ends = accumulate(lengths, initial=0)
        out += [TextBlock(text=block.text[start:end]) for start, end in pairwise(ends)]
    return tuple(out)


def _field(name: str, value: Any) -> Any:
    return build(value, Usage) if name == "usage" and value is not None else value


def unlike(entry: Entry, known: Container[str | None], api: str) -> Entry:
    """The entry under an id that is not among `known`: a file may have a line twice."""
    if entry.id is None or entry.id not in known:
        return entry
    free = 2
    while f"{entry.id}~{free}" in known:
        free *= 2
    taken = free // 2  # a line that is there many times: the number between is found by halving
    while free - taken > 1:
        middle = (taken + free) // 2
        taken, free = (middle, free) if f"{entry.id}~{middle}" in known else (taken, middle)
    new = f"{entry.id}~{free}"
    return with_residual(replace(entry, id=new), api, **{NAMED: [new, entry.id]})


def place(entry: Entry, parent: str | None, api: str) -> Entry:
    """The entry under another parent than its record states."""
    if parent == entry.parent_id:
        return entry
    kept = entry.extra.get(api, {})
    stated = (kept.get(STATED) or [None, entry.parent_id])[1]
    return replace(entry, parent_id=parent, extra={**entry.extra, api: {**kept, STATED: [parent, stated]}})
