"""One message of several records, and records in another order than their messages: both ways.

Programs write one answer over several lines, and name parents that are lines, not messages. `join` makes one entry of
the entries that such lines were read as, `place` gives an entry another place in the tree than its record states, and
`ahead` one before its place in the file; they leave hints in the entry's `extra` by which `apart` gives back the
entries of the records, in their order.
"""

import heapq
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from operator import attrgetter, itemgetter
from typing import Any

from msgspec.structs import replace

from ...values.canonical import build, plain
from ...values.losses import Loss, places
from ...values.messages import AssistantMessage, Block, CustomMessage, TextBlock, ToolCall, Usage, blocks_of
from ...values.request import Conversation, Entry
from ..residual import with_residual
from .records import RECORD

PARTS = "~parts"  # of an entry: the records of which it is made, in order
NAMED = "~named"  # of an entry: the id that it was given, and the one that its record has
STATED = "~stated"  # of an entry: the parent that it was given, and the one that its record states
AHEAD = "~ahead"  # of an entry that stands before its record's place: that place, and the entry that follows the record


def join(entries: Sequence[Entry], groups: Iterable[Sequence[int]], api: str) -> list[Entry]:
    """The entries with each group of answers as one, in the place of its first; the others are left out."""
    out: list[Entry | None] = list(entries)
    for group in groups:
        if len(group) > 1:
            out[group[0]] = joined([entries[at] for at in group], group, api)
            for at in group[1:]:
                out[at] = None
    return [entry for entry in out if entry is not None]


def join_runs(entries: Iterable[tuple[Entry, bool]], api: str, *, pieces: bool = False) -> Iterator[Entry]:
    """Joins answers in a row, as `join` does; each entry, if it is no answer, is given with whether it ends the run.

    Each answer in a row holds one block; with `pieces`, texts that follow one another are pieces of one text.
    `single_blocks.records_of` gives back their entries.
    """
    waiting: list[Entry] = []  # from the first answer of the run on
    run: list[int] = []  # the places of its answers
    for at, (entry, ends) in enumerate(entries):
        if type(entry.message) is AssistantMessage:
            run.append(at)
            waiting.append(entry)
        elif not run:
            yield entry
        else:
            waiting.append(entry)
            if ends:
                yield from _joined_run(waiting, run, api, pieces)
                waiting, run = [], []
    yield from _joined_run(waiting, run, api, pieces)


def _joined_run(entries: list[Entry], run: list[int], api: str, pieces: bool) -> list[Entry]:
    """The entries from the first answer of a run on, with its answers as one."""
    if len(run) < 2:
        return entries
    first, others = run[0], set(run[1:])
    whole = joined([entries[at - first] for at in run], run, api, pieces=pieces, keys=True)
    return [whole, *(entry for at, entry in enumerate(entries[1:], first + 1) if at not in others)]


def joined(
    parts: Sequence[Entry], places: Sequence[int], api: str, *, pieces: bool = False, keys: bool = False
) -> Entry:
    """One entry of the parts of an answer; `places` are their positions among the entries of the file.

    With `keys`, the hints of parts that have one block have its `key_of`.
    """
    messages: list[Any] = [part.message for part in parts]
    content, shapes = _content(messages, pieces)
    last, ended = parts[-1], messages[-1]
    usage, calls = None, False
    for message in messages:
        if message.usage is not None:  # repeated on each line; one that was written while the answer grew may have less
            usage = message.usage
        if message.stop_detail is not None:
            ended = message
        calls = calls or message.stop_reason == "toolUse"
    whole = replace(
        last.message,
        content=content,
        usage=usage,
        stop_reason="toolUse" if calls and ended.stop_reason == "stop" else ended.stop_reason,
        stop_detail=ended.stop_detail,
        extra=ended.extra,
    )
    hints = []
    stated = _FIELDS(whole)
    for at, part, shape in zip(places, parts, shapes, strict=True):
        hint: dict[str, Any] = {"at": at, "blocks": shape}
        if keys and shape == 1:
            hint["of"] = key_of(blocks_of(part.message.content)[0])
        own = _FIELDS(part.message)
        if own != stated:
            hint["fields"] = _differences(own, stated)
        if part is last:
            hint["parent"] = part.parent_id
        else:
            if part.id is not None:
                hint["id"] = part.id
            if part.parent_id is not None:
                hint["parent"] = part.parent_id
            hint["record"] = part.extra.get(api, {})
        hints.append(hint)
    # The last line's id: what follows the answer follows it.
    extra = {**last.extra, api: {**last.extra.get(api, {}), PARTS: hints}}
    return replace(last, message=whole, parent_id=parts[0].parent_id, extra=extra)


def _content(messages: Sequence[Any], pieces: bool) -> tuple[tuple[Any, ...], list[Any]]:
    """The content of all, and what each has of it: so many blocks, or so many characters of the block before."""
    blocks: list[Any] = []
    shapes: list[Any] = []
    if not pieces:
        for message in messages:
            blocks += blocks_of(message.content)
            shapes.append(_shape(message.content))
        return tuple(blocks), shapes
    texts: list[str] = []  # pieces of the last block
    for message in messages:
        own: tuple[Any, ...] = message.content
        if _is_bare(own[0]):
            text = own[0].text
            shapes.append({"characters": len(text)} if texts else {"characters": len(text), "opens": True})
            texts.append(text)
            continue
        if texts:
            blocks.append(TextBlock(text="".join(texts)))
            texts = []
        shapes.append(_shape(message.content))
        blocks += own
    return (*blocks, TextBlock(text="".join(texts))) if texts else tuple(blocks), shapes


def key_of(block: Block) -> str:
    """What tells a block from the others of an answer that was edited: the id of a call, or its kind."""
    return block.id if isinstance(block, ToolCall) else type(block).__name__


def _is_bare(block: Any) -> bool:
    return type(block) is TextBlock and _BESIDE_TEXT(block) == _BARE


_BESIDE_TEXT = attrgetter(*(name for name in TextBlock.__struct_fields__ if name != "text"))
_BARE = _BESIDE_TEXT(TextBlock(text=""))


def _shape(content: Any) -> int | str | None:
    """How many blocks a part has; text that is no block, or nothing at all."""
    return "text" if isinstance(content, str) else None if content is None else len(content)


_NAMES = tuple(name for name in AssistantMessage.__struct_fields__ if name != "content")
_FIELDS = attrgetter(*_NAMES)


def _differences(part: Sequence[Any], whole: Sequence[Any]) -> dict[str, Any]:
    """The fields of a part that are not those of the whole."""
    return {
        name: plain(own)
        for name, own, other in zip(_NAMES, part, whole, strict=True)
        if own is not other and own != other
    }


def apart(entries: Iterable[Entry], api: str, moved: dict[str, str] | None = None) -> Iterator[Entry]:
    """The entries of the records, as they were before `join`, `place` and `ahead`.

    Only parts of answers and entries ahead wait for their places, so that a long file need not be in memory. `moved`
    receives the ids of the records of answers that were divided anew, each with the one that has its place now.
    """
    waiting: list[tuple[int, int, Sequence[Entry]]] = []  # a heap: a place, the order, what is written there
    followed: dict[str, int] = {}  # entries before which others are at the latest -> the place of the first
    moved = {} if moved is None else moved
    at = count = 0

    def due() -> Iterator[Entry]:
        nonlocal at
        while waiting and waiting[0][0] <= at:
            yield from heapq.heappop(waiting)[2]
            at += 1

    for entry in entries:
        stated = entry.extra.get(api, {}).get(STATED) if entry.extra else None
        parts = entry.extra.get(api, {}).get(PARTS) if entry.extra else None
        named = entry.extra.get(api, {}).get(NAMED) if entry.extra else None
        early = entry.extra.get(api, {}).get(AHEAD) if entry.extra else None
        if parts is not None or (followed and entry.id in followed):
            yield from due()
            # Further on if entries before it were taken out.
            at = max(at, followed.pop(entry.id or "", 0), 0 if parts is None else parts[0]["at"])
        if named is not None and named[0] == entry.id:
            entry = replace(entry, id=named[1])
        if stated is not None and stated[0] == entry.parent_id and stated[1] not in moved:
            entry = replace(entry, parent_id=stated[1])
        entry = _without(entry, api) if not (stated is parts is named is early is None) else entry
        placed: Iterable[tuple[int, Sequence[Entry]]] = () if early is None else [(early[0], (entry,))]
        if early is None and parts is not None:
            placed = _parts(entry, parts, api, moved)
        for place, lines in placed:
            heapq.heappush(waiting, (place, count, lines))
            count += 1
        if early is not None and early[1] is not None:
            followed.setdefault(early[1], early[0])
        if waiting:
            yield from due()
        if parts is early is None:
            yield entry
            at += 1
    for _, _, lines in sorted(waiting, key=itemgetter(0, 1)):
        yield from lines


def located(
    losses: Sequence[Loss], conversation: Conversation, divided: Callable[[Iterable[Entry]], Iterable[Entry]]
) -> tuple[Loss, ...]:
    """The losses of records, with the paths of the messages and blocks in them; `divided` makes records of entries."""
    if not losses:
        return ()
    marked = (replace(entry, extra={**entry.extra, _SOURCE: at}) for at, entry in enumerate(conversation.entries))
    records = tuple(divided(marked))
    messages = places(conversation)
    moved: dict[str, tuple[str, int]] = {}
    for record, where in zip(records, places(replace(conversation, entries=records)), strict=True):
        at = record.extra[_SOURCE]
        first = next(iter(blocks_of(getattr(record.message, "content", None))), None)
        blocks = blocks_of(getattr(conversation.entries[at].message, "content", None))
        moved[where] = (messages[at], next((n for n, block in enumerate(blocks) if block is first), 0))
    return tuple(_located(loss, moved) for loss in losses)


_SOURCE = "~source"  # of an entry: its place among those of the conversation
_PLACE = re.compile(r"(\$\.(?:messages\[\d+\]|entries\[\d+\]\.message))(?:(\.content\[)(\d+))?")


def _located(loss: Loss, moved: Mapping[str, tuple[str, int]]) -> Loss:
    named = _PLACE.match(loss.path)
    if named is None or named[1] not in moved:
        return loss
    where, first = moved[named[1]]
    block = "" if named[2] is None else f"{named[2]}{int(named[3]) + first}"
    return replace(loss, path=f"{where}{block}{loss.path[named.end() :]}")


def _without(entry: Entry, api: str) -> Entry:
    rest = {key: value for key, value in entry.extra[api].items() if key not in (PARTS, STATED, NAMED, AHEAD)}
    return replace(entry, extra={**entry.extra, api: rest})


def _parts(
    entry: Entry, hints: Sequence[Mapping[str, Any]], api: str, moved: dict[str, str]
) -> Iterator[tuple[int, Sequence[Entry]]]:
    """The parts of an answer, each with its place."""
    if isinstance(entry.message, CustomMessage):  # an event that took the place of an answer since
        yield hints[0]["at"], (entry,)
        return
    if all("of" in hint or isinstance(hint["blocks"], dict) for hint in hints):
        yield from _aligned(entry, hints, api)
        return
    blocks = blocks_of(entry.message.content)
    sizes = [1 if hint["blocks"] == "text" else hint["blocks"] or 0 for hint in hints]
    if sum(sizes) != len(blocks):
        yield from _divided_anew(entry, hints, api, moved)
        return
    start = 0
    for hint, size in zip(hints, sizes, strict=True):
        content: Any = blocks[start : start + size]
        start += size
        if hint["blocks"] == "text":
            (block,) = content
            content = block.text if isinstance(block, TextBlock) else content
        elif hint["blocks"] is None:
            content = None
        parent = entry.parent_id if hint is hints[0] else hint.get("parent")
        parent = parent if parent is None else moved.get(parent, parent)
        yield hint["at"], (_part(entry, hint, content, parent, api, is_last=hint is hints[-1]),)


def _aligned(entry: Entry, hints: Sequence[Mapping[str, Any]], api: str) -> Iterator[tuple[int, Sequence[Entry]]]:
    """The parts of an answer of records that hold one block each.

    A block that is still there has its own record, one that was removed has none, and one that was added has a new one
    behind that of the block before.
    """
    blocks = blocks_of(entry.message.content)
    groups: list[list[Mapping[str, Any]]] = []  # the records of each block: of a text there may be several
    for hint in hints:
        if "of" in hint or hint["blocks"].get("opens"):
            groups.append([])
        groups[-1].append(hint)
    read = [group[0].get("of", TextBlock.__name__) for group in groups]
    matcher = SequenceMatcher(None, read, [*map(key_of, blocks)], autojunk=False)
    written: dict[int, list[Entry]] = {hint["at"]: [] for hint in hints}
    for kind, start, end, first, last in matcher.get_opcodes():
        if kind != "equal":
            place = groups[end - 1][-1]["at"] if end else hints[0]["at"]
            added = {"record": {RECORD: True}}
            written[place] += (_part(entry, added, (block,), entry.parent_id, api) for block in blocks[first:last])
            continue
        for group, block in zip(groups[start:end], blocks[first:last], strict=True):
            for hint, piece in _pieces(block, group):
                line = _part(entry, hint, (piece,), entry.parent_id, api, is_last=hint is hints[-1])
                written[hint["at"]].append(line)
    yield from written.items()


def _pieces(block: Any, group: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Block]]:
    """The records of a block, each with its piece; they begin where they began, and the last has the rest."""
    if len(group) == 1:
        yield group[0], block
        return
    start = 0
    for hint in group:
        if hint is group[-1]:
            yield hint, replace(block, text=block.text[start:])
            return
        end = start + hint["blocks"]["characters"]
        yield hint, TextBlock(text=block.text[start:end])
        start = end


def _divided_anew(
    entry: Entry, hints: Sequence[Mapping[str, Any]], api: str, moved: dict[str, str]
) -> Iterator[tuple[int, Sequence[Entry]]]:
    """An answer that has more or fewer blocks than its records: a record for each block, the last with the last's id.

    What follows may stand between the records: all are in the place of the first. As no ids are made, the last may have
    several blocks.
    """
    blocks = blocks_of(entry.message.content)
    others = max(min(len(blocks), len(hints)), 1) - 1  # records before the last
    written: list[Entry] = []
    above = entry.parent_id
    for at, hint in enumerate(hints[:others]):
        line = _part(entry, hint, blocks[at : at + 1], above, api)
        written.append(line)
        if line.id is not None:
            above = moved[line.id] = line.id
    written.append(_part(entry, hints[-1], blocks[others:], above, api, is_last=True))
    if entry.id is not None:
        moved.update((hint["id"], entry.id) for hint in hints if "id" in hint and hint["id"] not in moved)
    yield hints[0]["at"], written
    yield from ((hint["at"], ()) for hint in hints[1:])


def _part(
    entry: Entry, hint: Mapping[str, Any], content: Any, parent: str | None, api: str, *, is_last: bool = False
) -> Entry:
    """The entry of the record of one part."""
    fields = {name: _field(name, value) for name, value in hint.get("fields", {}).items()}
    message: Any = entry.message
    part = replace(message, content=content, **fields)
    if is_last:
        return replace(entry, message=part, parent_id=parent)
    extra = {**entry.extra, api: hint["record"]}
    return Entry(message=part, id=hint.get("id"), parent_id=parent, extra=extra)


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
    return with_residual(replace(entry, parent_id=parent), api, **{STATED: [parent, entry.parent_id]})


def ahead(entry: Entry, at: int, follower: str | None, api: str) -> Entry:
    """The entry before its place, which is `at` among the entries of the file and before that of `follower`."""
    return with_residual(entry, api, **{AHEAD: [at, follower]})
