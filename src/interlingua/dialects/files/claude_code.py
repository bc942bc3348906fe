"""Claude Code's session files: JSON lines, each an event of the session; those of people and models hold a message.

Lines form a tree through `uuid` and `parentUuid`; sub-agents (`isSidechain`) are trees of their own. A message is in
the format of Anthropic's wire, and is read by that dialect. An answer is written as it streams, one line a block, all
with the same `message.id` and usage: here it is one message. Results of tools are lines of the user, with what the tool
returned to the program in `toolUseResult`; a result's parent is the line of its call, so results of parallel calls are
siblings in the file and follow one another here. At a compaction the tree begins anew; messages that it keeps
(`preservedMessages`, `preservedSegment`) follow its summary, and later ones follow these, as the program sends them:
the boundary and the summary then stand before the kept messages, earlier than in the file. What the program sends to
the model beside them (attachments, the output of commands) are messages with `origin="program"`; `prompt_snapshot` is
the system text. All other lines (titles, snapshots of files, notices, …) are kept in their places as messages of their
own role.

What `claude --output-format stream-json` prints is read as well: the same messages with `session_id`, without parents,
and a `result` with the usage of the whole; `parent_tool_use_id` marks the lines of sub-agents.
"""

import functools
import operator
import re
import sys
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from msgspec.structs import replace

from ...values.compact import IdMap, IdNumbers, IdSet, StringTable
from ...values.errors import InterlinguaError
from ...values.losses import QUIET, Encoded, Lines, Reporter, SupportTable
from ...values.messages import (
    AssistantMessage,
    Cost,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    blocks_of,
    model_of,
)
from ...values.request import Conversation, Entry, ModelDescriptor, System
from .. import dialect
from ..residual import ENCODED, HINTS, JOINED, RESPONSE, optional, reading, residual_of, with_residual
from ..wire import FileFormat, Relations, SessionStream
from . import claude_attachments, new_sessions
from . import records as _records
from .claude_compactions import Compactions, Kept, renamed
from .joining import NAMED, apart, join, joined, located, place, unlike
from .line_readers import LineReader
from .records import (
    FILE,
    IFLOW,
    UNPLACED,
    Records,
    Shapes,
    lines_of,
    milliseconds,
    objects_in,
    time_in,
    unreported,
    usual_milliseconds,
    with_time,
)

API = "claude-code"
FAILED = "isApiErrorMessage"
WIRE = "anthropic-messages"

SPAWNED_BY = "~spawnedBy"  # of the first entry of a sub-agent: the `entry` and the `callId` that started it, if known
ATTACHED = "~attached"  # of a message: it stood in a line of the type `attachment`, as this kind
QUEUED = "queued_command"
COMMAND = "local_command"  # a command of the user and its output; sent with the next prompt
RENDERED = "rendered"  # of such a line: the text that was sent
WEB = "~web"  # of a conversation: what stands around the lines in an export from the web
ARRAY = "~array"  # of a conversation: the lines were the items of one list

FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT


def _wire() -> Any:
    """The dialect of the messages."""
    return dialect(WIRE)


# What the program writes into the turn of the user: notes about commands, their output, notices of background tasks.
_PROGRAM = re.compile(
    r"\s*<(local-command-caveat|local-command-std(out|err)|bash-std(out|err)|task-notification|system-reminder"
    r"|user-prompt-submit-hook|teammate-message|ide_opened_file|ide_selection)[ >]|\[Request interrupted by user"
)

# Context that precedes a prompt, in a block of its own or in the text of the prompt.
_CONTEXT = re.compile(
    r"\A(\s*<(system-reminder|user-prompt-submit-hook|ide_opened_file|ide_selection)>.*?</\2>)+", re.DOTALL
)


# What a block of a call or a result lacks in the files of other programs, and the key of the line whose id it lends.
_IDS = {"tool_use": ("id", "uuid"), "tool_result": ("tool_use_id", "parentUuid")}


def _identified(line: dict[str, Any], inner: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """The message with ids for its calls and results that have none, and these ids; a result follows its call."""
    content = inner.get("content")
    if not isinstance(content, list):
        return inner, set()
    blocks: list[Any] = []
    made: set[str] = set()
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        key, lender = _IDS[kind] if isinstance(kind, str) and kind in _IDS else ("", "")
        if key and key not in block and isinstance(line.get(lender), str):
            block = {**block, key: f"{line[lender]}-{len(made)}"}
            made.add(block[key])
        blocks.append(block)
    return ({**inner, "content": blocks}, made) if made else (inner, made)


def _without_ids(message: Any, made: set[str]) -> Any:
    """The message whose made ids are not written."""

    def unwritten(value: Any, key: str, id: str) -> Any:
        hints = residual_of(value.extra, WIRE).get(HINTS, {})
        return with_residual(value, WIRE, **{HINTS: {**hints, key: {ENCODED: id}}}) if id in made else value

    if isinstance(message, ToolResultMessage):
        return unwritten(message, "tool_use_id", message.tool_call_id)
    blocks = blocks_of(message.content)
    return replace(message, content=tuple(unwritten(b, "id", b.id) if isinstance(b, ToolCall) else b for b in blocks))


def _decode_line(line: dict[str, Any]) -> list[Any]:
    """The messages in a line; none if it is of another kind."""
    inner = line.get("message")
    if not isinstance(inner, dict):
        return _decode_message(line, inner)
    inner, made = _identified(line, inner)
    found = _decode_message(line, inner)
    return [_without_ids(message, made) for message in found] if made else found


def _decode_message(line: dict[str, Any], inner: Any) -> list[Any]:
    kind = line.get("type")
    if kind == "attachment":
        return _decode_queued(line) or _decode_attached(line)
    if kind == "system" and line.get("subtype") == COMMAND and line.get("content"):
        return _program(_wire().decode_messages([{"role": "user", "content": line["content"]}]), COMMAND)
    if kind not in ("user", "assistant") or not isinstance(inner, dict) or inner.get("role", kind) != kind:
        return []
    if kind == "user" and "content" not in inner:
        return []
    when = milliseconds(line.get("timestamp"))
    if kind == "assistant" and (inner.get("type") == "message" or not inner.keys() <= {"role", "content"}):
        answer = _wire().decode_response(inner, provider="anthropic", timestamp=when)
        # The program writes an error of the provider as an answer, which no model gave and none reads.
        failed = line.get(FAILED) is True
        return [replace(answer, stop_reason="error", error_message=answer.text or None) if failed else answer]
    messages = [with_time(message, when) for message in _wire().decode_messages([{"role": kind, **inner}])]
    messages[0] = _open(messages[0])
    # What a tool returned to the program belongs to its result; beside several results, to none of them in particular.
    if len(messages) == 1 and isinstance(messages[0], ToolResultMessage):
        messages = [replace(messages[0], details=line.get("toolUseResult"))]
    return [_attributed(message, line) for message in messages]


def _decode_queued(line: dict[str, Any]) -> list[Any]:
    """A prompt that was typed, or a notice that came, while the model was at work: it is sent with the next results."""
    attached = line.get("attachment")
    if not isinstance(attached, dict) or attached.get("type") != QUEUED or not attached.get("prompt"):
        return []
    when = milliseconds(line.get("timestamp"))
    found = _wire().decode_messages([{"role": "user", "content": attached["prompt"]}])
    if len(found) != 1 or not isinstance(found[0], UserMessage):
        return []
    message = _attributed(with_time(found[0], when), line)
    if attached.get("commandMode", "prompt") != "prompt":
        message = replace(message, origin="program")
    return [with_residual(message, API, **{ATTACHED: QUEUED})]


def _decode_attached(line: dict[str, Any]) -> list[Any]:
    """What the model read of an attachment: as the line states it, else of the values in it; none if that is nothing.

    It is sent with the next prompt or results; the time of the line is that of its file or hook.
    """
    attached: Any = line.get("attachment")
    if not isinstance(attached, dict):
        return []
    if RENDERED in line:
        items = line[RENDERED] if isinstance(line[RENDERED], list) else []
        found = [_wire().decode_messages([{"role": "user", **item}]) for item in items]
        return _program([message for (message,) in found], RENDERED)
    blocks = claude_attachments.decode(attached)
    return _program([UserMessage(content=blocks)], attached["type"]) if blocks else []


def _program(messages: Iterable[UserMessage], kind: str) -> list[Any]:
    """Messages of the program that stood in a line of that kind."""
    return [with_residual(replace(message, origin="program"), API, **{ATTACHED: kind}) for message in messages]


def _encode_attached(kind: str, messages: tuple[Message, ...], report: Reporter) -> dict[str, Any]:
    """The line of the type `attachment`, or of a command, as its messages give it."""
    if kind == COMMAND:
        (inner,) = _wire().encode_messages(messages, report)
        return {"type": "system", "subtype": COMMAND, "content": inner["content"]}
    if kind == RENDERED:
        encoded = [_wire().encode_messages((message,), report)[0] for message in messages]
        return {RENDERED: [{key: value for key, value in inner.items() if key != "role"} for inner in encoded]}
    if kind == QUEUED:
        (inner,) = _wire().encode_messages(messages, report)
        return {"attachment": {"type": QUEUED, "prompt": inner["content"]}, **time_in(messages)}
    attached = claude_attachments.encode(kind, blocks_of(messages[0].content))
    if attached is None:  # the line states what was sent
        return {"attachment": {"type": kind}, **_encode_attached(RENDERED, messages, report)}
    return {"attachment": attached}


def _attributed(message: Any, line: dict[str, Any]) -> Any:
    """A message of the user that a program put in, as such."""
    if not isinstance(message, UserMessage):
        return message
    put_in = line.get("isMeta") is True or line.get("isCompactSummary") is True
    return replace(message, origin="program") if put_in or _is_program(message) else message


def _is_program(message: UserMessage) -> bool:
    """Whether all text of a message is the program's: editors put reminders and selections before a prompt."""
    if not _PROGRAM.match(message.text):
        return False
    content = message.content
    texts = [content] if isinstance(content, str) else [b.text for b in content or () if isinstance(b, TextBlock)]
    return all(_PROGRAM.match(rest) for text in texts if (rest := _CONTEXT.sub("", text)).strip())


def _open(message: Any) -> Any:
    """A result that may share its wire message with others: lines divide what the model reads as one turn."""
    residual = message.extra.get(WIRE, {}) if isinstance(message, ToolResultMessage) else {}
    if JOINED not in residual:
        return message
    rest = {key: value for key, value in residual.items() if key != JOINED}
    extra = {owner: given for owner, given in message.extra.items() if owner != WIRE}
    return replace(message, extra={**extra, WIRE: rest} if rest else extra)


def _encode_line(messages: tuple[Message, ...], report: Reporter) -> dict[str, Any]:
    first = messages[0]
    encoded: dict[str, Any]
    attached_as = first.extra.get(API, {}).get(ATTACHED)
    if attached_as:
        return {"type": "attachment", **_encode_attached(attached_as, messages, report)}
    if isinstance(first, AssistantMessage) and first.stop_reason is not None:
        encoded = {"type": "assistant", "message": _wire().encode_response(first).body}
        if report is not QUIET:
            _wire().encode_messages(messages, report)  # for what it reports of the content
    else:
        (inner,) = _wire().encode_messages(messages, report)
        encoded = {"type": "assistant" if isinstance(first, AssistantMessage) else "user", "message": inner}
    encoded |= time_in(messages)
    if isinstance(first, ToolResultMessage) and len(messages) == 1 and first.details is not None:
        encoded["toolUseResult"] = first.details
    return encoded


def _records_of() -> Records:
    return Records(API, _decode_line, _encode_line, keys=("uuid", "parentUuid"), lines=True, usual=_usual)


# --- the usual lines -------------------------------------------------------------------------------------------------
#
# Nearly all lines are a prompt, a result, or a block of an answer with nothing unusual in it. They are read without
# the wire's dialect, and without encoding them again to see what that gets wrong, which takes most of the time.

_LINES = Shapes(("type", "message", "timestamp", "uuid", "parentUuid"), ("toolUseResult",), (FAILED,))
_PRINTED = Shapes(("type", "message", "uuid"), ("toolUseResult",), ("timestamp", "parentUuid", FAILED))  # stream-json
_ANSWERS = Shapes(("id", "type", "role", "model", "content", "stop_reason", "usage"), ("stop_sequence",), ("error",))
_BUCKETS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_USAGES = Shapes(_BUCKETS, refused=("output_tokens_details",))
_counts = operator.itemgetter(*_BUCKETS)
_TEXTS = Shapes(("type", "text"), refused=("citations", "cache_control"))
_THOUGHTS = Shapes(("type", "thinking"), ("signature",))
_CALLS = Shapes(("type", "id", "name", "input"), refused=("cache_control",))
_RESULTS = Shapes(("type", "tool_use_id", "content"), ("is_error",), ("cache_control",))
_USER = UserMessage(content=None)
_RESULT = ToolResultMessage(content=None, tool_call_id="", is_error=False)
_ANSWER = AssistantMessage(content=(), api=WIRE, provider="anthropic")


def _usual(line: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
    """The message of a usual line, and the other fields of the line; None for any other line."""
    keys = tuple(line)
    others, when = _LINES[keys], None
    if others is None:
        others = _PRINTED[keys]
    else:
        when = usual_milliseconds(line["timestamp"])
        if when is None:
            return None
    inner, parent = line.get("message"), line.get("parentUuid")
    if others is None or type(inner) is not dict:
        return None
    if type(line["uuid"]) is not str or not (parent is None or type(parent) is str):
        return None
    kind, details = line["type"], line.get("toolUseResult")
    if inner.get("role") != kind or (details is None and "toolUseResult" in line):
        return None
    message: Any = None
    if kind == "assistant":
        message = _usual_answer(inner, when) if details is None else None
    elif kind == "user" and len(inner) == 2 and "content" in inner:
        message = _usual_turn(inner["content"], when, line, details)
    return None if message is None else (message, {key: line[key] for key in others})


def _usual_turn(content: Any, when: int | None, line: dict[str, Any], details: Any) -> Any:
    if type(content) is list:
        first = content[0] if len(content) == 1 else None
        if type(first) is dict and first.get("type") == "tool_result":
            return _usual_result(first, when, details)
        content = _usual_texts(content)
    elif type(content) is not str:
        return None
    # What stands beside several results belongs to none of them; beside other messages it is kept with the line.
    return (
        None
        if content is None or details is not None
        else _attributed(replace(_USER, content=content, timestamp=when), line)
    )


def _usual_result(block: dict[str, Any], when: int | None, details: Any) -> Any:
    others, id, content = _RESULTS[tuple(block)], block.get("tool_use_id"), block.get("content")
    if type(content) is list:
        content = _usual_texts(content)
    elif type(content) is not str:
        return None
    failed = block.get("is_error")
    if others is None or content is None or type(id) is not str or not (failed is None or type(failed) is bool):
        return None
    if failed is None and "is_error" in block:
        return None
    kept = {key: block[key] for key in others}
    if failed is False:
        kept["is_error"] = False  # written only where a tool failed
    return replace(
        _RESULT,
        tool_call_id=id,
        content=content,
        is_error=failed is True,
        timestamp=when,
        details=details,
        extra={WIRE: kept} if kept else {},
    )


def _usual_texts(content: list[Any]) -> tuple[Any, ...] | None:
    texts = tuple(
        TextBlock(text=block["text"])
        for block in content
        if type(block) is dict and len(block) == 2 and block.get("type") == "text" and type(block.get("text")) is str
    )
    return texts if texts and len(texts) == len(content) else None


def _usual_answer(inner: dict[str, Any], when: int | None) -> Any:
    others, content = _ANSWERS[tuple(inner)], inner.get("content")
    if others is None or type(content) is not list or inner["type"] != "message":
        return None
    id, model, word, usage = inner["id"], inner["model"], inner["stop_reason"], _usual_usage(inner["usage"])
    if type(id) is not str or type(model) is not str or not id or not model or usage is None:
        return None
    blocks = []
    calls = False
    for block in content:
        read = _usual_block(block)
        if read is None:
            return None
        calls = calls or type(read) is ToolCall
        blocks.append(read)
    if not blocks or not (word is None or type(word) is str):
        return None
    reason, hints = _end(word, calls, "stop_sequence" in inner)
    if reason == "error":
        return None
    kept: dict[str, Any] = {key: inner[key] for key in others}
    if inner.get("stop_sequence") is not None:
        hints = {**hints, "stop_sequence": {ENCODED: None, "wire": inner["stop_sequence"]}}
    if hints:
        kept[HINTS] = hints
    return replace(
        _ANSWER,
        content=tuple(blocks),
        model=model,
        usage=usage,
        stop_reason=reason,
        stop_detail=word,
        timestamp=when,
        response_id=id,
        extra={WIRE: {RESPONSE: kept}} if kept else {},
    )


@functools.lru_cache(64)
def _end(word: str | None, calls: bool, sequence: bool) -> tuple[Any, dict[str, Any]]:
    """Why an answer ended that the wire ends with this word, and the hints by which that is written as it was.

    `sequence`: whether the answer has a `stop_sequence`, which is null.
    """
    block = {"type": "tool_use", "id": "", "name": "", "input": {}} if calls else {"type": "text", "text": ""}
    message = _wire().decode_response({"content": [block], "stop_reason": word})
    encoded = _wire().encode_response(replace(message, extra={})).body["stop_reason"]
    hints: dict[str, Any] = {} if encoded == word else {"stop_reason": {ENCODED: encoded, "wire": word}}
    return message.stop_reason, hints if sequence else {**hints, "stop_sequence": {ENCODED: None}}


def _usual_usage(wire: Any) -> Usage | None:
    others = _USAGES[tuple(wire)] if type(wire) is dict else None
    if others is None:
        return None
    given, output, read, written = _counts(wire)
    if not (type(given) is type(output) is type(read) is type(written) is int):
        return None
    return Usage(
        input=given,
        output=output,
        cache_read=read,
        cache_write=written,
        total_tokens=given + read + written + output,
        extra={WIRE: {key: wire[key] for key in others}} if others else {},
    )


def _usual_block(block: Any) -> Any:
    kind = block.get("type") if type(block) is dict else None
    made: Any
    if kind == "text":
        text = block.get("text")
        if type(text) is not str:
            return None
        if len(block) == 2:
            return TextBlock(text=text)
        others = _TEXTS[tuple(block)]
        if others is None:
            return None
        made = TextBlock(text=text)
    elif kind == "thinking":
        others, text, signature = _THOUGHTS[tuple(block)], block.get("thinking"), block.get("signature")
        if others is None or type(text) is not str or not (type(signature) is str or "signature" not in block):
            return None
        made = ThinkingBlock(thinking=text, thinking_signature=signature)
    elif kind == "tool_use":
        others, id, name, given = _CALLS[tuple(block)], block.get("id"), block.get("name"), block.get("input")
        if others is None or type(id) is not str or type(name) is not str or type(given) is not dict:
            return None
        made = ToolCall(id=id, name=name, arguments=given)
    else:
        return None
    return replace(made, extra={WIRE: {key: block[key] for key in others}}) if others else made


@reading(API)
def decode(data: Any) -> Conversation:
    """A session file, what `--output-format stream-json` printed, or an export from the web."""
    envelope, lines = _opened(data)
    return _decoded(lines, envelope)


def read(raws: Iterable[bytes]) -> Conversation | None:
    """What `decode` gives of the lines of a file, none of which is in memory for longer than it takes to read it."""
    try:
        return _decoded(objects_in(raws, API), {})
    except InterlinguaError:
        return None


class _Reading:
    """Reads lines as entries, each with the thread that it belongs to, and notes what concerns the whole file.

    `unique`: it is known that no line has the id of another. `ids`: those of a file that is too large for a `dict`.
    """

    def __init__(self, *, unique: bool = False, ids: StringTable | None = None) -> None:
        self.unique = unique
        self.repeats = False  # whether a line had the id of another
        # The entries of sub-agents, with the call that they belong to if the line names it.
        self.sub_agents: IdMap | dict[str, str] = {} if ids is None else IdMap(ids)
        self.known: IdSet | set[str | None] = set() if ids is None else IdSet(ids)
        self.noted: list[dict[str, Any]] = []  # lines with a title or with the usage of the whole
        self.streamed = False
        self.compactions = Compactions()
        self.systems: dict[bool, tuple[TextBlock, ...]] = {}  # the last system text, by whether it is a sub-agent's

    def entries(self, lines: Iterable[dict[str, Any]]) -> Iterator[tuple[Entry, Any]]:
        records, known = _records_of(), self.known
        compactions = self.compactions
        at = 0
        for line in lines:
            kind = line.get("type")
            if kind not in ("user", "assistant") and isinstance(kind, str) and kind in _NOTED:
                self.noted.append(line)
            self.streamed = self.streamed or _is_streamed(line)
            call, aside = line.get("parent_tool_use_id"), line.get("isSidechain")
            thread = line.get("agentId") or call or aside
            system = _system(line) if kind == "attachment" else None
            if system is not None:
                self.systems[aside is True] = system
            for entry in records.read(line, kind if isinstance(kind, str) else "line"):
                if not self.unique:
                    if entry.id in known:
                        self.repeats = self.repeats or entry.id is not None
                        entry = unlike(entry, known, API)
                    known.add(entry.id)
                if (aside is True or isinstance(call, str)) and entry.id is not None:
                    self.sub_agents[entry.id] = call or ""
                if kind == "system" or compactions.boundaries:
                    compactions.note(entry, line, at)
                at += 1
                yield entry, thread

    @property
    def keeps(self) -> bool:
        """Whether a compaction may have kept entries; in the program's output, lines follow one another."""
        return not self.streamed and self.compactions.keep

    def about(self, model: str | None, envelope: dict[str, Any]) -> Conversation:
        """The conversation without its entries, when all lines are read."""
        self.known.discard(None)
        return Conversation(
            model=ModelDescriptor(id=model, provider="anthropic") if model else None,
            title=_title(self.noted, self.known),
            usage=_total(self.noted),
            system=self.systems.get(False, self.systems.get(True)),
            extra={API: {FILE: True, **envelope}},
        )


@reading(API)
def _decoded(lines: Iterable[dict[str, Any]], envelope: dict[str, Any]) -> Conversation:
    session = _Reading()
    entries: list[Entry] = []
    threads: list[Any] = []  # of each entry, which sub-agent's it is
    for entry, thread in session.entries(lines):
        entries.append(entry)
        threads.append(thread)
    groups = _answers(entries, threads)
    aliases = {entries[at].id: entries[group[-1]].id for group in groups for at in group}
    sub_agents = session.sub_agents
    main = [entry for entry in entries if entry.id is not None and entry.id not in sub_agents]
    main = main or [entry for entry in entries if entry.id is not None]  # a sub-agent's own file
    head = main[-1].id if main else None
    model = next(filter(None, (model_of(entry.message) for entry in reversed(main or entries))), None)
    chains = _Links()
    messages = join(entries, groups, API)
    kept = Kept(session.compactions, messages, aliases, sub_agents) if session.keeps else None
    ordered = messages if kept is None else kept.ordered(messages)
    linked = tuple(_linked(ordered, aliases, sub_agents, session.streamed, chains, kept))
    return replace(
        session.about(model, envelope),
        entries=linked,
        head=_head(aliases.get(head, head), chains, linked[-1].id if linked else None, kept),
    )


def _system(line: Mapping[str, Any]) -> tuple[TextBlock, ...] | None:
    """The system text of the next calls, in a line that states it; it may be stated anew."""
    attached = line.get("attachment")
    if not isinstance(attached, dict) or attached.get("type") != "prompt_snapshot":
        return None
    texts = attached.get("systemPrompt")
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        return None
    return tuple(TextBlock(text=text) for text in texts)


class _Links:
    """Chains of results, by ids: where each ends, by its answer; and the answer of each entry in a chain.

    Beside them the answer of each call, and the entries so far. `ids`: those of a file that is too large for a `dict`.
    """

    def __init__(self, ids: StringTable | None = None) -> None:
        self.tails: IdMap | dict[str, str] = {} if ids is None else IdMap(ids)
        self.member: IdMap | dict[str, str] = {} if ids is None else IdMap(ids)
        self.callers: IdMap | dict[str, str] = {} if ids is None else IdMap(ids)
        self.known: IdSet | set[str] = set() if ids is None else IdSet(ids)


def _head(head: str | None, chains: _Links, last: str | None, kept: Kept | None) -> str | None:
    """Where a session stands: at the end of a chain if it is in one. None if that is the `last` entry."""
    if kept is not None and head is not None:
        head = kept.ends.get(head, head)
    if head is not None and head in chains.member:
        head = chains.tails[chains.member[head]]
    return None if head == last else head


class _Stream:
    """The entries of a session file one at a time.

    A first pass counts the lines of each answer. A second one reads the same lines again; entries wait while an answer
    before them is incomplete.
    """

    def __init__(self, lines: Callable[[], Iterable[dict[str, Any]]]) -> None:
        self._lines = lines
        self.head: str | None = None
        session = _Reading(ids=StringTable())
        sizes = IdNumbers()
        unnamed = IdSet()  # answers with a line that has no id
        last: dict[int, str] = {}  # by rank (of the main thread, with an id, any): the last id, the last model
        models: dict[int, str] = {}
        is_regular = True
        for entry, thread in session.entries(lines()):
            answer = _key(_answer(entry, thread))
            if answer is not None:
                sizes[answer] = size = (sizes.get(answer) or 0) + 1
                if entry.id is None:
                    unnamed.add(answer)
                is_regular = is_regular and not (size > 1 and answer in unnamed)
            rank = 2 if entry.id is None else 1 if entry.id in session.sub_agents else 0
            if entry.id is not None:
                last[rank] = last[1] = entry.id
            model = model_of(entry.message)
            if model:
                models.update(dict.fromkeys(range(rank, 3), model))
        self._sizes = sizes
        # An answer with a line that has no id: then the parents of lines without a parent depend on the whole file.
        self.is_regular = is_regular
        self._last = last.get(0, last.get(1))
        self._streamed, self._unique, self._keeps = session.streamed, not session.repeats, session.keeps
        self.about = session.about(models.get(0 if 0 in last else 1 if 1 in last else 2), {})

    def entries(self) -> Iterator[Entry]:
        ids = StringTable()
        session = _Reading(unique=self._unique, ids=ids)
        aliases, chains = IdMap(ids), _Links(ids)
        last: str | None = None
        entries, kept = self._joined(session, aliases), None
        if self._keeps:
            noted = _Reading(unique=self._unique, ids=ids)
            kept = Kept(noted.compactions, self._joined(noted, aliases), aliases, noted.sub_agents, ids)
            entries = kept.ordered(entries)
        for entry in _linked(entries, aliases, session.sub_agents, self._streamed, chains, kept):
            yield entry
            last = entry.id
        head = aliases.get(self._last)
        self.head = _head(self._last if head is None else head, chains, last, kept)

    def _joined(self, session: _Reading, aliases: IdMap) -> Iterator[Entry]:
        """What `join` gives; `aliases` are those of the answers that are complete."""
        waiting: deque[list[Entry]] = deque()  # each an entry, or an answer without one until it is complete
        parts: dict[Any, tuple[list[Entry], list[int], list[Entry]]] = {}  # of open answers: lines, places, the answer
        for at, (entry, thread) in enumerate(session.entries(self._lines())):
            answer = _key(_answer(entry, thread))
            size = 1 if answer is None else self._sizes.get(answer) or 1
            if size == 1:
                waiting.append([entry])
            else:
                if answer not in parts:
                    waiting.append([])
                    parts[answer] = [], [], waiting[-1]
                lines, places, whole = parts[answer]
                lines.append(entry)
                places.append(at)
                if len(lines) == size:
                    whole.append(joined(lines, places, API))
                    aliases.update(
                        (line.id, entry.id) for line in lines if line.id is not None and entry.id is not None
                    )
                    del parts[answer]
            while waiting and waiting[0]:
                yield from waiting.popleft()


@reading(API)
def stream(lines: Callable[[], Iterable[dict[str, Any]]]) -> SessionStream | None:
    """A session file or the program's output, one entry at a time."""
    found = _Stream(lines)
    return found if found.is_regular else None


def _opened(data: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The lines, and what stands around them."""
    if isinstance(data, dict) and isinstance(data.get("loglines"), list):  # an export from the web
        return {WEB: {key: value for key, value in data.items() if key != "loglines"}}, lines_of(data["loglines"], API)
    return ({ARRAY: True} if type(data) is list and _streamed(data) else {}), lines_of(data, API)


def _streamed(lines: Iterable[Any]) -> bool:
    """Whether lines are the program's output: it has no parents, every line follows the one before."""
    return any(map(_is_streamed, lines))


def _is_streamed(line: Any) -> bool:
    return "session_id" in line and "sessionId" not in line


def _answers(entries: list[Entry], threads: list[Any]) -> list[list[int]]:
    """The lines of each answer that was written as several: one a block, with the same `message.id`."""
    groups: dict[Any, list[int]] = {}
    for at, entry in enumerate(entries):
        answer = _answer(entry, threads[at]) if type(entry.message) is AssistantMessage else None
        if answer is not None:
            groups.setdefault(answer, []).append(at)
    return [group for group in groups.values() if len(group) > 1]


def _answer(entry: Entry, thread: Any) -> Any:
    """What the lines of an answer have in common; None for a line that is a message of its own."""
    message = entry.message
    if type(message) is not AssistantMessage or not message.response_id:
        return None
    # A line that the file has twice is none of the answer's.
    return None if NAMED in entry.extra[API] else (message.response_id, thread)


def _key(answer: Any) -> str | None:
    """The same as a string."""
    return None if answer is None else f"{answer[0]}\0{answer[1]!r}"


def _linked(
    entries: Iterable[Entry],
    aliases: IdMap | Mapping[str | None, str | None],
    sub_agents: IdMap | Mapping[str, str],
    streamed: bool,
    chains: _Links,
    kept: Kept | None,
) -> Iterator[Entry]:
    """The entries with messages for parents, not lines; `chains` receives the chains of results.

    The result of a call has the line of its call for a parent, so the results of parallel calls are siblings in the
    file. Here they follow one another, and what follows one of them follows the last. `sub_agents` are the entries of
    sub-agents, with the call that each belongs to, where the file names it.
    """
    prompts: dict[Any, tuple[str, str]] = {}  # what a sub-agent is asked -> the answer and the call that ask it
    tails, member, callers, known = chains.tails, chains.member, chains.callers, chains.known
    last: dict[str | None, str] = {}  # of each thread
    closed: Container[str] = () if kept is None else kept.last  # only results follow in their chains
    for entry in entries:
        id, parent = entry.id, entry.parent_id
        if id is None:
            yield entry
            continue
        parent = aliases.get(parent, parent)
        if streamed:  # a line follows the one before, sub-agents in threads of their own
            parent = last.get(sub_agents.get(id))
            last[sub_agents.get(id)] = id
        elif kept is not None:
            parent = kept.parent(id, parent, id not in sub_agents)
        if parent not in known:
            parent = None  # in another file
        message: Any = entry.message
        kind = type(message)
        if parent is None:
            entry = _spawned(entry, sub_agents[id], callers, prompts) if id in sub_agents else entry
        else:
            answer = member.get(parent, parent if parent in tails else None)
            if answer is not None and (id in sub_agents) == (answer in sub_agents):
                asked = callers.get(message.tool_call_id) if kind is ToolResultMessage else None
                turn = kind is AssistantMessage or (kind is UserMessage and message.origin is None)
                goes_on = asked is None and not turn and kind is not ToolResultMessage and tails[answer] not in closed
                if asked == answer or goes_on:
                    parent = tails[answer]
                    tails[answer] = id
                    member[id] = answer
                elif parent in member:
                    parent = tails[answer]
        if kind is AssistantMessage:
            for call in message.tool_calls:
                tails[id] = id
                callers[call.id] = id
                prompt = call.arguments.get("prompt")
                if isinstance(prompt, str):
                    prompts[prompt] = (id, call.id)
        known.add(id)
        yield place(entry, parent, API)


def _spawned(
    entry: Entry, call: str, callers: IdMap | Mapping[str, str], prompts: Mapping[Any, tuple[str, str]]
) -> Entry:
    """The first entry of a sub-agent, with the call that started it: named in the file, or asking the same."""
    answer = callers.get(call)
    found = (answer, call) if answer is not None else prompts.get(getattr(entry.message, "text", None))
    origin = {} if found is None else {"entry": found[0], "callId": found[1]}
    return with_residual(entry, API, **{SPAWNED_BY: origin})


_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}  # the first counts
_NOTED = frozenset({*_TITLES, "result"})


def _title(lines: list[dict[str, Any]], ids: Container[str | None]) -> str | None:
    """The title that a person gave, or a model; a `summary` is one if it is of this session."""
    found: dict[str, str] = {}
    for line in lines:
        kind: Any = line.get("type")
        key = _TITLES.get(kind) if isinstance(kind, str) else None
        if key is not None and isinstance(line.get(key), str) and (kind != "summary" or line.get("leafUuid") in ids):
            found[kind] = line[key]
    return next((found[kind] for kind in _TITLES if found.get(kind)), None)


def _total(lines: list[dict[str, Any]]) -> Usage | None:
    """What the last `result` of the program's output states; messages have the usage of the moment they began."""
    stated = [line for line in lines if line.get("type") == "result" and isinstance(line.get("usage"), dict)]
    if not stated:
        return None
    cost = stated[-1].get("total_cost_usd")
    usage: Usage | None = _wire().decode_response({"content": [], "usage": stated[-1]["usage"]}).usage
    if usage is None or not isinstance(cost, int | float):
        return usage
    return replace(usage, cost=Cost(total=cost))


def encode(conversation: Conversation) -> Encoded:
    """The lines of a session file that was read."""
    envelope = conversation.extra.get(API, {})
    stated = any(_states(entry, conversation.system) for entry in conversation.entries)
    parts = replace(conversation, entries=tuple(_lines_of(conversation.entries)))
    lines, losses = _records_of().write(parts, system=stated)
    reported = located(losses, conversation, _lines_of)
    if WEB in envelope:
        return Encoded({**envelope[WEB], "loglines": lines}, reported)
    return Encoded(lines if ARRAY in envelope else Lines(lines), reported)


def copy(about: Conversation, entries: Iterable[Entry], report: Reporter) -> Iterator[dict[str, Any]] | None:
    """The same, given the entries one at a time; None if the file was not of lines."""
    return None if {WEB, ARRAY} & about.extra[API].keys() else _copied(about, entries, report)


def _copied(about: Conversation, entries: Iterable[Entry], report: Reporter) -> Iterator[dict[str, Any]]:
    stated = False

    def noted() -> Iterator[Entry]:
        nonlocal stated
        for entry in entries:
            stated = stated or _states(entry, about.system)
            yield entry

    yield from _records_of().lines(((entry, UNPLACED) for entry in _lines_of(noted())), report)
    report.add(unreported(about, stated))


def _lines_of(entries: Iterable[Entry]) -> Iterator[Entry]:
    """The entries of the lines; compactions name no line that an edited answer has no more."""
    moved: dict[str, str] = {}
    for entry in apart(entries, API, moved):
        yield renamed(entry, moved) if moved else entry


def _states(entry: Entry, system: System) -> bool:
    """Whether an entry is the line that states the system text."""
    return system is not None and _system(getattr(entry.message, "fields", {})) == system


# Lines that no other program writes.
_KINDS = {
    "summary": "leafUuid",
    "file-history-snapshot": "snapshot",
    "ai-title": "aiTitle",
    "custom-title": "customTitle",
}


def detect(value: Any) -> str | None:
    """Whether lines are a session: messages with a `type` beside them, or the kinds of lines that only it has."""
    if isinstance(value, dict) and isinstance(value.get("loglines"), list):
        return "`loglines`" if detect(value["loglines"]) else None
    lines = value if isinstance(value, list) else [value]
    if not all(isinstance(line, dict) for line in lines):
        return None
    for line in lines:
        kind, message = line.get("type"), line.get("message")
        if kind in ("user", "assistant") and isinstance(message, dict):
            # Qwen Code has the same lines with Gemini's `parts` in them, iFlow with ids of its own.
            if "parts" in message or message.get("role", kind) != kind or IFLOW.fullmatch(str(line.get("sessionId"))):
                return None
            if "session_id" in line and "sessionId" not in line:
                return "lines with a `message` and `session_id`"
            return "lines with a `message`" + (", `uuid` and `sessionId`" if "sessionId" in line else "")
        if kind in _KINDS and _KINDS[kind] in line:
            return f"a `{kind}` line with its `{_KINDS[kind]}`"
        if kind == "system" and line.get("subtype") == "init" and "session_id" in line:
            return "an `init` line with its `session_id`"
    return None


def relations(conversation: Conversation, path: PurePath) -> Relations:
    """A sub-agent's file has only lines of it, with the `sessionId` of the session that started it.

    It is `SESSION/subagents/agent-ID.jsonl`; before version 2.1 it was beside the session's own file.
    """
    lines = [entry.extra.get(API, {}) for entry in conversation.entries if entry.id is not None]
    named = [line for line in lines if isinstance(line.get("sessionId"), str)]
    if not named:
        return Relations(None)
    session: str = named[-1]["sessionId"]
    if all(line.get("isSidechain") is True for line in named):
        return Relations(optional(named[0].get("agentId")), session)
    return Relations(
        session, None, ((path.parent / path.stem / "subagents", "agent-*.jsonl"), (path.parent, "agent-*.jsonl"))
    )


class _LineReader(LineReader):
    """A session file line by line."""

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        super().__init__(state)
        self._ids = IdSet()

    def messages(self, line: dict[str, Any]) -> list[tuple[str, Any]]:
        id = line.get("uuid")
        if isinstance(id, str):
            self._ids.add(id)
        else:
            self._find_title(line)
        summary = self.state.get("summaries", {}).get(id)
        if summary is not None:
            self._entitle("summary", summary)
        usual = _usual(line)
        found = _decode_line(line) if usual is None else [usual[0]]
        return [(id if isinstance(id, str) else "", message) for message in found]

    def _find_title(self, line: dict[str, Any]) -> None:
        """As `_title`: a `summary` counts if it is of this session, whose lines may come later."""
        kind, leaf = line.get("type"), line.get("leafUuid")
        for name, key in _TITLES.items():
            if kind == name and isinstance(line.get(key), str):
                if kind != "summary" or leaf in self._ids:
                    self._entitle(kind, line[key])
                elif isinstance(leaf, str):
                    self.state.setdefault("summaries", {})[leaf] = line[key]

    def _entitle(self, kind: str, title: str) -> None:
        ranks = list(_TITLES)
        if ranks.index(kind) <= ranks.index(self.state.get("title", "summary")):
            self.title, self.state["title"] = title, kind


def line_reader(first: Sequence[Any], state: dict[str, Any] | None = None) -> LineReader | None:
    """A reader of single lines; not of the program's output, whose usage is stated at its end."""
    return None if _streamed(list(first)) else _LineReader(state)


FORMAT = FileFormat(
    name="claude-code",
    codec=sys.modules[__name__],
    detect=detect,
    lines=True,
    write=new_sessions.claude_code,
    writer=new_sessions.ClaudeWriter,
    adapted_for=WIRE,
    line_reader=line_reader,
    read=read,
    stream=stream,
    relations=relations,
    copy=copy,
    stamps_ends=True,
)
