"""Answers of records that hold one block each: both ways, when their blocks were edited since they were read.

`join_runs` makes one answer of such records, and `apart` gives them back as long as the answer has the blocks that it
was read with. `records_of` calls it, and fits the hints of an edited answer to its blocks before: a block that is still
there has its own record, one that was removed has none, and one that was added has a new one behind the block before.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, TypeAlias

from msgspec.structs import replace

from ...values.losses import Encoded, Lines, Reporter
from ...values.messages import AssistantMessage, Block, Content, TextBlock, ToolCall, blocks_of
from ...values.request import Conversation, Entry
from .joining import PARTS, apart, key_of, located
from .records import RECORD, Records

REMOVED = "~removed"  # of an entry: its record held a block that was removed

_Hint: TypeAlias = Mapping[str, Any]


def records_of(entries: Iterable[Entry], api: str) -> Iterator[Entry]:
    """The entries of the records, as `apart` gives them; none holds an answer of several blocks."""
    for part in apart(_fitted(entries, api), api):
        if REMOVED not in part.extra.get(api, {}):
            yield part


def _fitted(entries: Iterable[Entry], api: str) -> Iterator[Entry]:
    more = 0  # so many records more than the file had
    for entry in entries:
        message = entry.message
        if type(message) is not AssistantMessage:
            yield entry
            continue
        blocks = blocks_of(message.content)
        hints = entry.extra.get(api, {}).get(PARTS) if entry.extra else None
        if hints is None:
            made = [entry] if len(blocks) == 1 else [*_several(entry, blocks, api)]
            more += len(made) - 1
            yield from made
            continue
        groups = _groups(hints)
        is_same = len(groups) == len(blocks) and all(map(_is_unchanged, groups, blocks))
        if is_same and not more:
            yield entry
            continue
        # The last record's residual is that of the entry.
        own = {key: value for key, value in entry.extra[api].items() if key != PARTS}
        groups[-1] = [*groups[-1][:-1], {**groups[-1][-1], "record": own}]
        made_hints = _placed(groups, blocks, more)
        more += len(made_hints) - len(hints)
        kept = {**made_hints[-1]["record"], PARTS: made_hints}
        yield replace(entry, extra={**entry.extra, api: kept})


def _several(entry: Entry, blocks: Sequence[Block], api: str) -> Iterator[Entry]:
    """An answer of one record that has several blocks now, or none. It is the record of its call, or of the first."""
    calls = [at for at, block in enumerate(blocks) if isinstance(block, ToolCall)]
    message: Any = entry.message
    for at, block in enumerate(blocks):
        extra = entry.extra if at == (*calls, 0)[0] else {**entry.extra, api: {RECORD: True}}
        yield replace(entry, message=replace(message, content=(block,)), extra=extra)


def _groups(hints: Sequence[_Hint]) -> list[list[_Hint]]:
    """The hints of the records of each block: of a text there may be several."""
    groups: list[list[_Hint]] = []
    for hint in hints:
        shape = hint["blocks"]
        if groups and isinstance(shape, dict) and not shape.get("opens"):
            groups[-1].append(hint)
        else:
            groups.append([hint])
    return groups


def _key(group: Sequence[_Hint]) -> str | None:
    """The `key_of` the block; None in sessions that were stored without it."""
    return TextBlock.__name__ if isinstance(group[0]["blocks"], dict) else group[0].get("of")


def _is_unchanged(group: Sequence[_Hint], block: Block) -> bool:
    if isinstance(group[0]["blocks"], dict):
        return type(block) is TextBlock and len(block.text) == sum(hint["blocks"]["characters"] for hint in group)
    key = group[0].get("of")
    return key is None or key == key_of(block)


def _placed(groups: Sequence[list[_Hint]], blocks: Sequence[Block], more: int) -> list[dict[str, Any]]:
    """The hints for these blocks; `more` as in `_fitted`."""
    made: list[dict[str, Any]] = []
    matcher = SequenceMatcher(None, _keys(groups, blocks), [key_of(block) for block in blocks], autojunk=False)
    for kind, start, end, first, last in matcher.get_opcodes():
        if kind == "equal":
            for group, block in zip(groups[start:end], blocks[first:last], strict=True):
                made += ({**hint, "at": hint["at"] + more} for hint in _cut(group, block))
            continue
        for hint in (hint for group in groups[start:end] for hint in group):
            made.append({**hint, "at": hint["at"] + more, "blocks": None, "record": {REMOVED: True}})
        for _ in blocks[first:last]:
            at = made[-1]["at"] + 1 if made else groups[0][0]["at"] + more
            made.append({"at": at, "blocks": 1, "record": {RECORD: True}})
            more += 1
    return made


def _keys(groups: Sequence[list[_Hint]], blocks: Sequence[Block]) -> list[str]:
    """The keys of the blocks that were read; where they are not known, those of the blocks that are there now."""
    now = [key_of(block) for block in blocks]
    return [_key(group) or (now[at] if at < len(now) else "") for at, group in enumerate(groups)]


def _cut(group: list[_Hint], block: Block) -> Iterator[_Hint]:
    """The hints of a block; pieces of a text begin where they began, and the last has the rest."""
    if not isinstance(block, TextBlock) or not isinstance(group[0]["blocks"], dict):
        yield from group
        return
    left = len(block.text)
    for hint in group:
        size = left if hint is group[-1] else min(hint["blocks"]["characters"], left)
        left -= size
        yield {**hint, "blocks": {**hint["blocks"], "characters": size}}


def report_other(content: Content, report: Reporter) -> None:
    """Reports what is no text in the content of a line that holds a text."""
    for block in content if isinstance(content, tuple) else ():
        if not isinstance(block, TextBlock):
            report.lost(type(block).__name__, "a line of this format has no place for it", field="content")


def write(conversation: Conversation, records: Records, api: str) -> Encoded:
    """The lines that were read, with what was changed since."""

    def divided(entries: Iterable[Entry]) -> Iterator[Entry]:
        return records_of(entries, api)

    lines, losses = records.write(replace(conversation, entries=tuple(divided(conversation.entries))))
    return Encoded(Lines(lines), located(losses, conversation, divided))
