"""Compaction: the model's view of a long session, and where to cut it. Pure; the caller calls the model.

A compaction is an entry with a summary and the id of the first kept entry. The model then reads the summary, the
entries from that one on, and everything after the compaction. The session itself loses nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from ..values import jsontext
from ..values import tokens as budget
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    AudioBlock,
    Block,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
    text_of,
)
from ..values.request import Entry
from ..values.summaries import ROLE as ROLE
from ..values.summaries import first_kept_of as first_kept_of
from ..values.summaries import summary_message as summary_message
from .tree import COMPACTION, ENTRY, MODEL, kind_of_message

RESERVE_TOKENS = 16_384
KEEP_RECENT_TOKENS = 20_000
RESULT_SHOWN = 2_000  # characters of a tool result in a summary request
READERS, WRITERS = frozenset({"read"}), frozenset({"write", "edit"})
_PATHS = ("path", "file_path", "filePath")
_FAILED = ("error", "aborted")


# --- the model's view ------------------------------------------------------------------------------------------------


def context(path: Sequence[Entry]) -> tuple[AgentMessage, ...]:
    """The messages that a model reads of a path: the latest summary, the entries it kept, and those after it.

    Signatures of kept messages were made for another prefix and are invalid, so they are removed; see `unsigned`.
    """
    return tuple(message for _, message in context_pairs(path))


def context_pairs(path: Sequence[Entry]) -> list[tuple[str | None, AgentMessage]]:
    """`context`, each message with the id of its entry; the summary with that of the compaction."""
    at = _latest(path)
    if at is None:
        return list(_messages(path))
    first = _first_kept(path, at)
    fields = _fields(path[at])
    summary = summary_message(str(fields.get("summary") or ""), fields.get("timestamp"))
    kept = ((id, unsigned(message)) for id, message in _messages(path[first:at]))
    return [
        (path[at].id, summary),
        *((id, message) for id, message in kept if message is not None),
        *_messages(path[at + 1 :]),
    ]


def unsigned(message: AgentMessage) -> AgentMessage | None:
    """The message without signatures and usage, which are valid for the old context only; None if nothing is left.

    Removes signed thinking, and the ids of items after it: OpenAI rejects an item whose preceding reasoning item is not
    sent. `adapt` treats an open tool turn without its thinking as one of another model. Unsigned thinking stays, since
    DeepSeek rejects a tool turn without it (api-docs.deepseek.com/guides/thinking_mode).
    """
    if isinstance(message, AssistantMessage) and message.usage is not None:
        message = replace(message, usage=None)
    if not isinstance(message, AssistantMessage) or not isinstance(message.content, tuple):
        return message
    kept = tuple(block for block in message.content if not _is_signed(block))
    if not kept and message.content:
        return None
    content = tuple(_unsigned(block, len(kept) < len(message.content)) for block in kept)
    return message if content == message.content else replace(message, content=content)


def _is_signed(block: Block) -> bool:
    return isinstance(block, ThinkingBlock) and (block.thinking_signature is not None or block.redacted)


def _unsigned(block: Block, drop_id: bool) -> Block:
    if isinstance(block, TextBlock) and block.text_signature is not None:
        block = replace(block, text_signature=None)
    elif isinstance(block, ToolCall) and block.thought_signature is not None:
        block = replace(block, thought_signature=None)
    if drop_id and any("id" in residual for residual in block.extra.values() if isinstance(residual, dict)):
        block = replace(block, extra={api: _without_id(residual) for api, residual in block.extra.items()})
    return block


def _without_id(pending: Any) -> Any:
    return {key: value for key, value in pending.items() if key != "id"} if isinstance(pending, dict) else pending


def _messages(entries: Iterable[Entry]) -> Iterator[tuple[str | None, AgentMessage]]:
    for entry in entries:
        message: AgentMessage = entry.message
        if not is_bookkeeping(message):
            yield entry.id, message


def is_bookkeeping(message: AgentMessage) -> bool:
    """Whether a message is session metadata that no model reads."""
    kind = kind_of_message(message)
    return kind < ENTRY or kind in (COMPACTION, MODEL)


def is_compaction(message: AgentMessage) -> bool:
    return isinstance(message, CustomMessage) and message.role == ROLE


def _fields(entry: Entry) -> dict[str, Any]:
    message: AgentMessage = entry.message
    return message.fields if isinstance(message, CustomMessage) else {}


def _latest(path: Sequence[Entry]) -> int | None:
    return next((at for at in range(len(path) - 1, -1, -1) if is_compaction(path[at].message)), None)


def _first_kept(path: Sequence[Entry], compaction: int) -> int:
    """The index of the first kept entry; of the compaction itself, if that entry is not on the path."""
    id = first_kept_of(path[compaction].message)
    return next((at for at in range(compaction) if id is not None and path[at].id == id), compaction)


# --- token counts ----------------------------------------------------------------------------------------------------


def estimate(message: AgentMessage) -> int:
    """The approximate tokens of a message; 0 for bookkeeping, which no model reads."""
    return 0 if is_bookkeeping(message) else budget.estimate(message)


def context_tokens(path: Sequence[Entry]) -> int:
    """The tokens of the next request: the last reported usage, plus an estimate of later messages.

    Ignores usage from before the latest compaction, and of failed responses.
    """
    compaction = _latest(path)
    since = 0 if compaction is None else compaction + 1
    for at in range(len(path) - 1, since - 1, -1):
        used = budget.reported(path[at].message)
        if used:
            return used + sum(estimate(message) for _, message in _messages(path[at + 1 :]))
    return sum(map(estimate, context(path)))


def is_due(tokens: int, window: int, reserve: int = RESERVE_TOKENS) -> bool:
    """Whether less than the reserve of the window is free."""
    return tokens > window - reserve


# --- where to cut ----------------------------------------------------------------------------------------------------


class CompactionCut(NamedTuple):
    """Which entries to keep and to summarize. If the cut divides a turn, its first part is in `prefix`."""

    first_kept: str | None  # None: nothing is kept
    summarize: tuple[Entry, ...]
    prefix: tuple[Entry, ...]
    previous: str | None  # the previous summary, to be updated
    details: dict[str, Any]  # of that summary: its read and modified files
    tokens_before: int


def cut(path: Sequence[Entry], keep_recent_tokens: int = KEEP_RECENT_TOKENS) -> CompactionCut | None:
    """Cuts a path so that about `keep_recent_tokens` remain; None if there is nothing to summarize.

    Never cuts between a call and its result. Entries kept by an earlier compaction are summarized or kept again.
    """
    compaction = _latest(path)
    if not path or compaction == len(path) - 1:
        return None
    start = 0 if compaction is None else _first_kept(path, compaction)
    at = _cut_at(path, start, keep_recent_tokens)
    if at is None or not any(map(_is_message, path[start:at])):
        return None
    turn = _turn_start(path, start, at)
    first = at
    while first - 1 > start and is_bookkeeping(path[first - 1].message) and not is_compaction(path[first - 1].message):
        first -= 1
    return CompactionCut(
        first_kept=path[first].id or "",
        summarize=tuple(path[start : at if turn is None else turn]),
        prefix=() if turn is None else tuple(path[turn:at]),
        **_earlier_compaction(path, compaction),
    )


def cut_everything(path: Sequence[Entry]) -> CompactionCut | None:
    """A cut that keeps nothing, for a turn that is too large and cannot be divided.

    None if that would lose something: a pending call, or an image or file that no response has seen yet.
    """
    compaction = _latest(path)
    start = 0 if compaction is None else _first_kept(path, compaction)
    if not any(map(_is_message, path[start:])) or _has_pending_call(path) or any(map(_has_media, unanswered(path))):
        return None
    turn = _turn_start(path, start, len(path))
    return CompactionCut(
        first_kept=None,
        summarize=tuple(path[start:turn]),
        prefix=() if turn is None else tuple(path[turn:]),
        **_earlier_compaction(path, compaction),
    )


def _earlier_compaction(path: Sequence[Entry], compaction: int | None) -> Any:
    """The fields of a cut that come from the compaction before it."""
    fields = {} if compaction is None else _fields(path[compaction])
    details = fields.get("details")
    return {
        "previous": None if compaction is None else str(fields.get("summary") or ""),
        "details": details if isinstance(details, dict) else {},
        "tokens_before": context_tokens(path),
    }


def unanswered(path: Sequence[Entry]) -> tuple[Entry, ...]:
    """The entries after the last response that did not fail."""
    return tuple(path[next((at for at in range(len(path) - 1, -1, -1) if _answer(path[at])), -1) + 1 :])


def _answer(entry: Entry) -> AssistantMessage | None:
    message: AgentMessage = entry.message
    return message if isinstance(message, AssistantMessage) and message.stop_reason not in _FAILED else None


def _has_pending_call(path: Sequence[Entry]) -> bool:
    """Whether a call of the last response has no result."""
    last = next((answer for entry in reversed(path) if (answer := _answer(entry)) is not None), None)
    if last is None:
        return False
    results: list[AgentMessage] = [entry.message for entry in unanswered(path)]
    answered = [message.tool_call_id for message in results if isinstance(message, ToolResultMessage)]
    return any(call.id not in answered for call in last.tool_calls)


def _has_media(entry: Entry) -> bool:
    message: AgentMessage = entry.message
    return not isinstance(message, CustomMessage) and any(
        isinstance(block, ImageBlock | AudioBlock) or (isinstance(block, DocumentBlock) and block.text is None)
        for block in blocks_of(message.content)
    )


def _is_message(entry: Entry) -> bool:
    return not is_bookkeeping(entry.message)


def _cut_at(path: Sequence[Entry], start: int, keep: int) -> int | None:
    valid = _valid_cuts(path, start)
    if not valid:
        return None
    total, at = 0, len(path)
    while at > start and total < keep:
        at -= 1
        total += estimate(path[at].message)
    if total < keep:
        return valid[0]
    return next((place for place in valid if place >= at), valid[-1])


def _valid_cuts(path: Sequence[Entry], start: int) -> list[int]:
    """Indexes at which a kept part may start: not at a result, nor between a call and its result."""
    valid: list[int] = []
    pending: list[str] = []
    for at in range(start, len(path)):
        message: AgentMessage = path[at].message
        if is_bookkeeping(message):
            continue
        if isinstance(message, ToolResultMessage):
            if message.tool_call_id in pending:
                pending.remove(message.tool_call_id)
            continue
        if isinstance(message, AssistantMessage):
            pending.clear()
        if not pending:
            valid.append(at)
        if isinstance(message, AssistantMessage) and message.stop_reason not in _FAILED:
            pending = [call.id for call in message.tool_calls]
    return _without_displaced(path, valid)


def _without_displaced(path: Sequence[Entry], valid: list[int]) -> list[int]:
    """The indexes whose kept part contains no result of an earlier call."""
    answered: list[int] = []
    for place in valid:
        calls: set[str] = set()
        for entry in path[place:]:
            message: AgentMessage = entry.message
            if isinstance(message, AssistantMessage):
                break
            if isinstance(message, ToolResultMessage):
                calls.add(message.tool_call_id)
        if not calls:
            answered.append(place)
    return answered


def _turn_start(path: Sequence[Entry], start: int, at: int) -> int | None:
    """The user message of the turn that a cut divides; None if it divides none."""
    if at < len(path) and isinstance(path[at].message, UserMessage):
        return None
    found = (place for place in range(at - 1, start - 1, -1) if isinstance(path[place].message, UserMessage))
    return next(found, None)


# --- requests --------------------------------------------------------------------------------------------------------

SUMMARY_SECTIONS = """\
## Goal
What the user wants to reach.
## Constraints & Preferences
What was asked for or ruled out along the way; "(none)" if nothing was.
## Progress
### Done
### In Progress
### Blocked
## Key Decisions
Each with its reason.
## Next Steps
In order.
## Critical Context
Names, paths, values, errors: whatever the work cannot go on without."""

PREFIX_SECTIONS = """\
## Original Request
## Early Progress
## Context for Suffix
What the later part of this turn, which is kept in full, needs to be understood."""


def summary_request(cut: CompactionCut, *, focus: str | None = None) -> str:
    """The prompt that requests the summary."""
    return summary_request_of(flat(cut.summarize), cut.previous, focus=focus)


def summary_request_of(conversation: str, previous: str | None = None, *, focus: str | None = None) -> str:
    """The prompt for a conversation as text, or a part of it; `previous` is the summary of the part before."""
    parts = [f"<conversation>\n{conversation}\n</conversation>"]
    if previous is not None:
        parts.append(f"<previous-summary>\n{previous}\n</previous-summary>")
        parts.append(
            "The conversation above goes on from the previous summary. Bring that summary up to date: keep everything"
            " in it that still holds, add what is new, move what is finished. Use these sections:"
        )
    else:
        parts.append(
            "Sum up the conversation above, so that another model can take it over without having read it. Do not go on"
            " with it and do not answer anything in it. Use these sections:"
        )
    parts.append(SUMMARY_SECTIONS)
    if focus:
        parts.append(f"Attend to this above all: {focus}")
    return "\n\n".join(parts)


def prefix_request_of(conversation: str, previous: str | None = None, *, kept: bool = True) -> str:
    """The prompt for a part of a divided turn, as text; unless `kept`, the part includes the end of the turn."""
    before = f"<summary-of-what-came-before>\n{previous}\n</summary-of-what-came-before>\n\n" if previous else ""
    rest = "what followed is kept in full" if kept else "nothing of it is kept but your summary"
    return (
        f"{before}<conversation>\n{conversation}\n</conversation>\n\n"
        f"This is {'the first' if kept else 'a'} part of a turn; {rest}. Sum up this part"
        f"{', with the summary of what came before it in the turn' if previous else ''} briefly. Do not go on with"
        f" it. Use these sections:\n\n{PREFIX_SECTIONS}"
    )


def flat(entries: Iterable[Entry]) -> str:
    """A conversation as labelled text."""
    return "\n\n".join(_labelled(entries))


def pieces(entries: Sequence[Entry], max_tokens: int, *, unread: Iterable[Entry] = ()) -> list[str]:
    """The labelled text in pieces of at most `max_tokens`, split between messages where possible.

    Results that are `unread` are not shortened: no response has used them yet.
    """
    limit = max_tokens * _BYTES
    found: list[str] = []
    for part in _labelled(entries, unread):
        if found and len(found[-1].encode()) + len(part.encode()) <= limit:
            found[-1] = f"{found[-1]}\n\n{part}"
        else:
            first, *rest = split(part, limit)
            found += [first, *(f"[… goes on]: {piece}" for piece in rest)]
    return found


def split(text: str, limit: int) -> list[str]:
    """A text in pieces of at most `limit` bytes."""
    if len(text.encode()) <= limit or len(text) < 2:
        return [text]
    middle = len(text) // 2
    return [*split(text[:middle], limit), *split(text[middle:], limit)]


_BYTES = 3  # per token, a low estimate: a piece is rather too small than too large


def _labelled(entries: Iterable[Entry], unread: Iterable[Entry] = ()) -> Iterator[str]:
    whole = {id(entry) for entry in unread}
    for entry in entries:
        if not is_bookkeeping(entry.message):
            yield from (part for part in _flat(entry.message, shorten=id(entry) not in whole) if part)


def _flat(message: AgentMessage, *, shorten: bool = True) -> Iterator[str]:
    match message:
        case UserMessage() | SystemMessage():
            label = "User" if isinstance(message, UserMessage) else "System"
            yield f"[{label}]: {_given(message)}"
        case AssistantMessage():
            if message.thinking:
                yield f"[Assistant thinking]: {message.thinking}"
            if message.text:
                yield f"[Assistant]: {message.text}"
            if message.tool_calls:
                yield f"[Assistant tool calls]: {'; '.join(map(_called, message.tool_calls))}"
        case ToolResultMessage():
            given = _given(message)
            yield f"[Tool result]: {_shortened(given) if shorten else given}"
        case CustomMessage():
            yield f"[{message.role}]: {jsontext.compact(message.fields)}"


def _given(message: UserMessage | SystemMessage | ToolResultMessage) -> str:
    blocks = blocks_of(message.content)
    texts = [block.text for block in blocks if isinstance(block, DocumentBlock) and block.text]
    media = [_named(block) for block in blocks if not isinstance(block, TextBlock)]
    note = f" [{len(media)} attached] ({', '.join(media)})" if media else ""
    return "\n\n".join([f"{text_of(message.content)}{note}", *texts])


def _named(block: Block) -> str:
    """The description of an attachment, since a summary is text only."""
    kind = type(block).__name__.removesuffix("Block").lower()
    about = (getattr(block, name, None) for name in ("title", "mime_type", "url"))
    return " ".join([kind, *(str(one)[:200] for one in about if one)])


def _called(call: ToolCall) -> str:
    return f"{call.name}({', '.join(f'{key}={jsontext.compact(value)}' for key, value in call.arguments.items())})"


def _shortened(text: str) -> str:
    if len(text) <= RESULT_SHOWN:
        return text
    return f"{text[:RESULT_SHOWN]}\n[… {len(text) - RESULT_SHOWN} more characters]"


# --- the result ------------------------------------------------------------------------------------------------------


class Summary(NamedTuple):
    """The text and details of a compaction entry."""

    text: str
    details: dict[str, Any]


def finished(cut: CompactionCut, summary: str, prefix: str | None = None) -> Summary:
    """The summary to store: of the history and the divided turn, with the files that were read and modified."""
    read, modified = files((*cut.summarize, *cut.prefix), cut.details)
    parts = [summary.strip()] if summary.strip() else []
    if prefix:
        parts.append(f"---\n\n**The turn at the cut:**\n\n{prefix.strip()}")
    for tag, names in (("read-files", read), ("modified-files", modified)):
        if names:
            lines = "\n".join(names)
            parts.append(f"<{tag}>\n{lines}\n</{tag}>")
    return Summary("\n\n".join(parts), {"readFiles": read, "modifiedFiles": modified})


def files(entries: Iterable[Entry], before: dict[str, Any] | None = None) -> tuple[list[str], list[str]]:
    """The files only read, and the files modified, including those of an earlier summary."""
    read = {name for name in (before or {}).get("readFiles", ()) if isinstance(name, str)}
    modified = {name for name in (before or {}).get("modifiedFiles", ()) if isinstance(name, str)}
    for entry in entries:
        message: AgentMessage = entry.message
        for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
            name = next((call.arguments[key] for key in _PATHS if isinstance(call.arguments.get(key), str)), None)
            if name is not None and call.name in READERS:
                read.add(name)
            elif name is not None and call.name in WRITERS:
                modified.add(name)
    return sorted(read - modified), sorted(modified)
