"""Answers of records that hold one block each, which `join_runs` joins: as records again, also if they were edited."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from ...values.losses import Encoded, Lines, Reporter
from ...values.messages import AssistantMessage, Block, Content, TextBlock, ToolCall, blocks_of
from ...values.request import Conversation, Entry
from .joining import apart, located
from .records import RECORD, Records


def records_of(entries: Iterable[Entry], api: str) -> Iterator[Entry]:
    """The entries of the records, as `apart` gives them; none holds an answer of several blocks."""
    for part in apart(entries, api):
        blocks = blocks_of(part.message.content) if type(part.message) is AssistantMessage else None
        if blocks is None or len(blocks) == 1:
            yield part
        else:
            yield from _several(part, blocks, api)


def _several(entry: Entry, blocks: Sequence[Block], api: str) -> Iterator[Entry]:
    """An answer of one record that has several blocks now, or none. It is the record of its call, or of the first."""
    calls = [at for at, block in enumerate(blocks) if isinstance(block, ToolCall)]
    message: Any = entry.message
    for at, block in enumerate(blocks):
        extra = entry.extra if at == (*calls, 0)[0] else {**entry.extra, api: {RECORD: True}}
        yield replace(entry, message=replace(message, content=(block,)), extra=extra)


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
