"""Gemini CLI's session files (messages of `type` user, gemini, info, …), and its checkpoints (contents of the wire).

A session is one document with `messages` or, from newer versions, JSON lines: a header, then a log of records. A record
is written again as it grows: the last of an id counts, in the place of the first. `{"$set": …}` changes the header, and
its `messages` replace all; `{"$rewindTo": id}` takes back that record and all after it.

An answer in a session holds its text, its thoughts, and its tool calls with what they gave; here that is an assistant's
message followed by the results, put together again on the way back. Parts are in the format of Google's wire, and are
read by that dialect. Notices are kept in their places as messages of their own role. Checkpoints are the contents of a
request: a bare list, or an object with the list in `history` or `clientHistory`.
"""

import itertools
import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath
from typing import Any

from msgspec.structs import replace

from ...values.compact import IdNumbers, IdSet, StringTable
from ...values.errors import BadWire, Unsupported
from ...values.losses import QUIET, Encoded, Lines, Reporter, SupportTable
from ...values.messages import (
    AssistantMessage,
    Block,
    Content,
    CustomMessage,
    Message,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    blocks_of,
)
from ...values.request import Conversation, Entry, ModelDescriptor
from .. import dialect
from ..comparison import content_losses
from ..residual import (
    body_of,
    count,
    encode_blocks,
    keeping,
    list_of,
    optional,
    put_back,
    reading,
    residual,
    restored,
    same,
    string,
    with_residual,
)
from ..wire import FileFormat, ListedSession, Relations, SessionStream
from . import records as _records
from .line_sessions import EntryStream, Reader, read
from .records import (
    FILE,
    NO_FIELDS,
    RECORD,
    Records,
    Shapes,
    lines_of,
    milliseconds,
    time_in,
    usual_milliseconds,
    with_time,
)

API = "gemini-cli"
WIRE = "google-generative-ai"

ORDER = "~order"  # of a conversation: the lines of its records, where these are not in order
MADE = "~made"  # of an entry: it was read from a line that stands as another entry
LINE = "~line"  # of a conversation: its messages are lines
_CHECKPOINTS = ("clientHistory", "history")  # where a checkpoint has its contents
CONTENTS = "~contents"  # of a conversation: a checkpoint, and where its contents stand ("" for a bare list)
CALL = "~call"  # of what a tool gave: which of the answer's calls it belongs to
PARTS = "~parts"  # of an answer: its content is a list of parts
PLAIN = "~plain"  # of a text: it stands among the parts without being one
CALLS = "~calls"  # of an answer: its calls stand among its parts, and these items of `toolCalls` have their results
RESULT = "~result"  # of a result: how the `result` of its call differs from the wire's parts
EXTRA = "~extra"  # of a block: an item of `thoughts` or `toolCalls` that is none

FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT


def _wire() -> Any:
    """The dialect of the parts."""
    return dialect(WIRE)


# --- content ---------------------------------------------------------------------------------------------------------


def _decode_content(content: Any) -> Content:
    """Text, a part, or a list of parts and texts (`PartListUnion`)."""
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        raise TypeError("content is text, a part or a list of parts")
    return tuple(map(_decode_part, content))


def _decode_part(part: Any) -> Block:
    if isinstance(part, str):
        return TextBlock(text=part, extra={API: {PLAIN: True}})
    (message,) = _wire().decode_messages([{"role": "model", "parts": [part]}])
    (block,) = message.content
    encoded = _encode_part(block, QUIET)
    return block if same(encoded, part) else OpaqueBlock(dialect=API, value=part)


def _encode_part(block: Block, report: Reporter) -> Any:
    if isinstance(block, OpaqueBlock) and block.dialect == API:
        return block.value
    if isinstance(block, TextBlock) and block.extra.get(API, {}).get(PLAIN):
        return block.text
    inner = Reporter()
    encoded: list[dict[str, Any]] = _wire().encode_messages((AssistantMessage(content=(block,)),), inner)
    for loss in inner.losses:
        report.lost(loss.what, loss.why, loss.severity)
    parts = encoded[0].get("parts") or [None]
    return parts[0]


def _encode_content(content: Content, report: Reporter) -> Any:
    if content is None or isinstance(content, str):
        return content
    return encode_blocks(content, _encode_part, report, API)


# --- answers ---------------------------------------------------------------------------------------------------------


def _decode_thought(wire: Any) -> ThinkingBlock | OpaqueBlock:
    """A thought has a subject, in bold where it is one text, and a description."""
    try:
        subject, description = string(wire["subject"]), string(wire["description"])
    except (KeyError, TypeError):
        return OpaqueBlock(dialect=API, value=wire, extra={API: {EXTRA: "thoughts"}})
    # core/src/utils/thoughtUtils.ts, `parseThought`: the subject is the first text in bold, else "".
    block = ThinkingBlock(thinking=f"**{subject}** {description}" if subject else description)
    return keeping(block, API, wire, _encode_thought(block))


_THOUGHT = re.compile(r"\*\*(.*?)\*\* (.*)", re.DOTALL)


def _encode_thought(block: ThinkingBlock) -> dict[str, Any]:
    given = _THOUGHT.fullmatch(block.thinking)
    subject, description = (given[1], given[2]) if given else ("", block.thinking)
    return {"subject": subject, "description": description}


def _decode_call(wire: Any, id: str) -> ToolCall | OpaqueBlock:
    """A call; `id` is for one that has none."""
    if not isinstance(wire, dict) or not isinstance(wire.get("args"), dict):
        return OpaqueBlock(dialect=API, value=wire, extra={API: {EXTRA: "toolCalls"}})
    if not isinstance(wire.get("id", ""), str) or not isinstance(wire.get("name"), str):
        return OpaqueBlock(dialect=API, value=wire, extra={API: {EXTRA: "toolCalls"}})
    call = ToolCall(id=wire.get("id") or id, name=wire["name"], arguments=wire["args"])
    return keeping(call, API, wire, _encode_call(call))


def _encode_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "args": call.arguments}


# The states of a call that has no response: core/src/scheduler/types.ts, `CoreToolCallStatus`.
_FAILED = frozenset(("error", "cancelled"))


def _decode_results(item: dict[str, Any], call: ToolCall, at: int) -> list[Message]:
    """What a call gave: a response to it, perhaps with pictures beside it; or parts, a part or text alone.

    A call that failed may have no more than what was shown of it.
    """
    wire, shown = item.get("result"), item.get("resultDisplay")
    if not wire and shown and isinstance(shown, str) and item.get("status") in _FAILED:
        result = ToolResultMessage(tool_call_id=call.id, tool_name=call.name, content=shown, is_error=True)
        given = {key: item[key] for key in ("result",) if key in item}
        return [
            with_residual(result, API, **{CALL: at, RESULT: residual(given, {"result": _encode_results((result,))})})
        ]
    parts = [{"text": wire}] if isinstance(wire, str) and wire else [wire] if isinstance(wire, dict) else wire
    if not isinstance(parts, list) or not parts:
        return []
    results: list[Message] = []
    for message in _wire().decode_messages([{"role": "user", "parts": parts}]):
        if isinstance(message, ToolResultMessage):
            results.append(replace(message, tool_call_id=call.id))
        else:  # put in by the program, for the model to see
            results.append(replace(message, origin="program") if isinstance(message, UserMessage) else message)
    if not any(isinstance(message, ToolResultMessage) for message in results):
        content = tuple(block for message in results for block in blocks_of(message.content))
        results = [ToolResultMessage(tool_call_id=call.id, tool_name=call.name, content=content, is_error=False)]
    results = [with_residual(message, API, **{CALL: at}) for message in results]
    kept = residual({"result": wire}, {"result": _encode_results(tuple(results))})
    return [with_residual(results[0], API, **{RESULT: kept}), *results[1:]] if kept else results


def _encode_results(results: tuple[Message, ...]) -> list[Any]:
    encoded = _wire().encode_messages(results, QUIET)
    return [part for content in encoded for part in content.get("parts") or ()]


def _decode_tokens(wire: Any) -> Usage | None:
    """Prompt tokens include those from the cache; thinking is counted beside the output."""
    if not isinstance(wire, dict):
        return None
    cached, thoughts = count(wire, "cached"), count(wire, "thoughts")
    usage = Usage.of(
        # core/src/services/chatRecordingTypes.ts, `TokensSummary`: `promptTokenCount`, which includes the cached part.
        max(count(wire, "input") - cached, 0),
        count(wire, "output") + thoughts,
        cache_read=cached,
        reasoning=thoughts if "thoughts" in wire else None,
        total_tokens=count(wire, "total") or None,
    )
    return keeping(usage, API, wire, _encode_tokens(usage))


def _encode_tokens(usage: Usage) -> dict[str, Any]:
    wire = {
        "input": usage.input + usage.cache_read,
        "output": usage.output - (usage.reasoning or 0),
        "cached": usage.cache_read,
        "total": usage.total_tokens,
    }
    return wire if usage.reasoning is None else {**wire, "thoughts": usage.reasoning}


_ANSWERS = ("gemini", "model")  # the second in files of other programs


# --- records ---------------------------------------------------------------------------------------------------------


def _decode_record(record: dict[str, Any]) -> list[Any]:
    when = milliseconds(record.get("timestamp"))
    if record.get("type") == "user":
        return _decode_asked(record.get("content"), when)
    if record.get("type") not in _ANSWERS:
        return []
    if _holds_calls(record.get("content")):
        return _decode_whole(record, when)
    text = _decode_content(record.get("content"))
    thoughts, calls = record.get("thoughts"), list_of(record.get("toolCalls"))
    blocks: list[Block] = [_decode_thought(item) for item in list_of(thoughts)]
    made = [_decode_call(item, f"{record.get('id', 'call')}-{at}") for at, item in enumerate(calls)]
    content: Content = text
    if blocks or made:
        blocks += [] if text == "" else blocks_of(text)
    results: list[Message] = []
    for at, call in enumerate(made):
        if isinstance(call, ToolCall):
            given = _decode_results(calls[at], call, at)
            results += given
            if given:  # encoded from the results
                made[at] = keeping(replace(call, extra={}), API, _without_result(calls[at]), _encode_call(call))
    if blocks or made:
        content = (*blocks, *made)
    answer = AssistantMessage(
        content=content,
        api=WIRE,
        provider="google",
        model=optional(record.get("model")),
        usage=_decode_tokens(record.get("tokens")),
        timestamp=when,
        extra={API: {PARTS: True}} if isinstance(text, tuple) else {},
    )
    return [answer, *(with_time(result, when) for result in results)]


# What the program puts before the first prompt, and what a hook adds (packages/core/src/utils/sessionUtils.ts,
# `isIgnoredUserContent`); the summary of a compression, which may begin with the notes that lead to it
# (core/src/context/chatCompressionService.ts); what the client adds for the model in a turn (core/src/core/client.ts).
_PROGRAM = (
    "<session_context>",
    "<hook_context>",
    "<state_snapshot>",
    "<scratchpad>",
    "Here is the user's editor context as a JSON object.",
    "Here is a summary of changes in the user's editor context",
    "System: Potential loop detected.",
)


def _decode_asked(content: Any, when: int | None) -> list[Any]:
    if any(isinstance(part, dict) and "functionResponse" in part for part in list_of(content)):
        found = _wire().decode_messages([{"role": "user", "parts": content}])
        return [with_time(message, when) for message in found]
    message = UserMessage(content=_decode_content(content), timestamp=when)
    return [replace(message, origin="program") if message.text.lstrip().startswith(_PROGRAM) else message]


def _holds_calls(content: Any) -> bool:
    """Whether the content has the calls and thoughts of an answer, which `toolCalls` and `thoughts` then repeat.

    Versions from 2026 write it so when they replace the history (`convertSessionToClientHistory`).
    """
    return any(isinstance(part, dict) and ("functionCall" in part or part.get("thought")) for part in list_of(content))


def _decode_whole(record: dict[str, Any], when: int | None) -> list[Any]:
    """An answer whose content has its calls, with the results that stand in `toolCalls`."""
    blocks = list(map(_decode_part, record["content"]))
    open_calls = [block for block in blocks if isinstance(block, ToolCall)]
    kept: list[Any] = []
    results: list[Message] = []
    for at, item in enumerate(list_of(record.get("toolCalls"))):
        listed = _decode_call(item, f"{record.get('id', 'call')}-{at}")
        given: list[Message] = []
        if isinstance(listed, ToolCall):
            own = next((call for call in open_calls if call.id == listed.id), None)
            if own is None:
                blocks.append(replace(listed, extra={API: {CALL: at}}))
            else:
                open_calls.remove(own)
            given = _decode_results(item, listed, at)
            results += given
        kept.append(_without_result(item) if given else item)
    answer = AssistantMessage(
        content=tuple(blocks),
        api=WIRE,
        provider="google",
        model=optional(record.get("model")),
        usage=_decode_tokens(record.get("tokens")),
        timestamp=when,
        extra={API: {CALLS: kept}},
    )
    return [answer, *(with_time(result, when) for result in results)]


def _without_result(wire: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in wire.items() if key != "result"}


def _encode_record(messages: tuple[Message, ...], report: Reporter) -> dict[str, Any]:
    first = messages[0]
    encoded: dict[str, Any] = time_in(messages)
    if any(isinstance(message, ToolResultMessage) for message in messages) and not isinstance(first, AssistantMessage):
        return {**encoded, "type": "user", "content": _encode_results(messages)}
    if not isinstance(first, AssistantMessage):
        return {**encoded, "type": "user", "content": _encode_content(first.content, report)}
    encoded |= {"type": "gemini", **_encode_answer(first, report)}
    results: dict[int, list[Message]] = {}
    for message in messages[1:]:
        results.setdefault(message.extra.get(API, {}).get(CALL, -1), []).append(message)
    for at, given in results.items():
        if 0 <= at < len(encoded.get("toolCalls", ())) and isinstance(encoded["toolCalls"][at], dict):
            kept = given[0].extra[API].get(RESULT, {})
            encoded["toolCalls"][at] |= put_back({"result": _encode_results(tuple(given))}, kept)
        else:
            report.lost("result", "a result stands in its call")
    if first.model is not None:
        encoded["model"] = first.model
    if first.usage is not None:
        encoded["tokens"] = restored(_encode_tokens(first.usage), first.usage.extra, API)
    return encoded


def _encode_answer(answer: AssistantMessage, report: Reporter) -> dict[str, Any]:
    if not isinstance(answer.content, tuple):
        return {"content": answer.content}
    calls = answer.extra.get(API, {}).get(CALLS)
    if calls is not None:
        parts = tuple(block for block in answer.content if CALL not in block.extra.get(API, {}))
        listed = {"toolCalls": [dict(call) if isinstance(call, dict) else call for call in calls]} if calls else {}
        return {"content": _encode_content(parts, report), **listed}
    blocks: list[Block] = []
    lists: dict[str, list[Any]] = {}
    for block in answer.content:
        extra_fields = block.extra.get(API, {}).get(EXTRA)
        if isinstance(block, OpaqueBlock) and extra_fields:
            lists.setdefault(extra_fields, []).append(block.value)
        elif isinstance(block, ThinkingBlock) and WIRE not in block.extra:
            lists.setdefault("thoughts", []).append(restored(_encode_thought(block), block.extra, API))
        elif isinstance(block, ToolCall) and WIRE not in block.extra:
            lists.setdefault("toolCalls", []).append(restored(_encode_call(block), block.extra, API))
        else:
            blocks.append(block)
    if answer.extra.get(API, {}).get(PARTS):
        return {"content": _encode_content(tuple(blocks), report), **lists}
    if all(isinstance(block, TextBlock) for block in blocks):
        return {"content": "".join(block.text for block in blocks if isinstance(block, TextBlock)), **lists}
    return {"content": _encode_content(tuple(blocks), report), **lists}


class _Decoder:
    """Decodes records. Results that an answer has already are no messages in the turn of the user after it."""

    def __init__(self) -> None:
        self._answered: set[str] = set()

    def __call__(self, record: dict[str, Any]) -> list[Any]:
        found = _decode_record(record)
        ids = [message.tool_call_id for message in found if isinstance(message, ToolResultMessage)]
        if record.get("type") in _ANSWERS:
            self._answered.update(ids)
        elif ids and self._answered.issuperset(ids):
            return []
        return found


def _records_of() -> Records:
    return Records(API, _Decoder(), _encode_record, usual=_usual)


# Most records are a prompt, or an answer without calls. They are read here without the wire's dialect, and without
# encoding them again to see what that gets wrong.
_RECORDS = Shapes(("timestamp", "type", "content"), ("thoughts", "tokens", "model"), ("toolCalls",))
_TOKENS = Shapes(("input", "output", "cached", "total"), ("thoughts",))


def _usual(record: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
    """The message of a usual record, and the other fields of the record; None for any other record."""
    others = _RECORDS[tuple(record)]
    when = None if others is None else usual_milliseconds(record["timestamp"])
    if others is None or when is None:
        return None
    content, kind = record["content"], record["type"]
    if kind == "user":
        if type(content) is list:
            content = _usual_texts(content)
        if not isinstance(content, str | tuple) or not record.keys().isdisjoint(("thoughts", "tokens", "model")):
            return None
        message: Any = replace(_USER, content=content, timestamp=when)
        if message.text.lstrip().startswith(_PROGRAM):
            message = replace(message, origin="program")
    elif kind == "gemini" and type(content) is str:
        message = _usual_answer(record, content, when)
    else:
        return None
    return None if message is None else (message, {key: record[key] for key in others})


def _usual_texts(content: list[Any]) -> tuple[TextBlock, ...] | None:
    texts: list[Any] = [part.get("text") for part in content if type(part) is dict and len(part) == 1]
    if not texts or len(texts) != len(content) or not all(type(text) is str and text for text in texts):
        return None
    return tuple(TextBlock(text=text) for text in texts)


_USER = UserMessage(content=None)
_ANSWER = AssistantMessage(content=None, api=WIRE, provider="google")


def _usual_answer(record: dict[str, Any], content: Any, when: int) -> AssistantMessage | None:
    model, usage = record.get("model"), None
    if "tokens" in record:
        usage = _usual_tokens(record["tokens"])
        if usage is None:
            return None
    if "model" in record and type(model) is not str:
        return None
    if "thoughts" in record:
        thoughts = [_decode_thought(thought) for thought in list_of(record["thoughts"])]
        if not thoughts or not all(type(thought) is ThinkingBlock for thought in thoughts):
            return None
        content = (*thoughts, TextBlock(text=content)) if content else tuple(thoughts)
    return replace(_ANSWER, content=content, model=model, usage=usage, timestamp=when)


def _usual_tokens(wire: Any) -> Usage | None:
    others = _TOKENS[tuple(wire)] if type(wire) is dict else None
    if others is None:
        return None
    prompt, output, cached, total = (wire[key] for key in ("input", "output", "cached", "total"))
    thoughts = wire.get("thoughts", 0)
    if not (type(prompt) is type(output) is type(cached) is type(total) is type(thoughts) is int):
        return None
    if not total or prompt < cached:
        return None
    return Usage(
        input=prompt - cached,
        output=output + thoughts,
        cache_read=cached,
        cache_write=0,
        total_tokens=total,
        reasoning=thoughts if "thoughts" in wire else None,
        extra={API: {key: wire[key] for key in others}} if others else {},
    )


# --- files -----------------------------------------------------------------------------------------------------------


@reading(API)
def decode(data: Any) -> Conversation:
    """A session, or a checkpoint."""
    body = _body_of(data)
    if isinstance(body, list):
        return _decode_lines(body) if _is_header(body[0] if body else None) else _decode_contents({"": body}, "")
    if not isinstance(body, dict):
        raise BadWire(API, f"expected a session or a list of contents, got {type(body).__name__}")
    if not isinstance(body.get("messages"), list):
        for key in _CHECKPOINTS:
            if isinstance(body.get(key), list):
                return _decode_contents(body, key)
        if _is_header(body):  # the only line of a log that was left before the first prompt
            return _decode_lines([body])
        raise BadWire(API, "expected a session with `messages`, or a checkpoint with `history`")
    return replace(_conversation(body["messages"], _around(body), "messages"), title=optional(body.get("summary")))


def _around(body: dict[str, Any]) -> dict[str, Any]:
    """The fields of a session beside its messages."""
    return {FILE: True, **residual(body, {"messages": body["messages"]})}


def _body_of(data: Any) -> Any:
    """One JSON value, or those of the lines."""
    try:
        return body_of(data, API)
    except BadWire:
        lines = lines_of(data, API)
        if not lines:
            raise
        return lines


def _is_header(value: Any) -> bool:
    return isinstance(value, dict) and "sessionId" in value and "messages" not in value and "parts" not in value


def _decode_lines(lines: list[Any]) -> Conversation:
    """A log: the last record of an id counts, in the place of the first; `$rewindTo` and `$set` change the list."""
    title, is_changed = None, False
    seen: dict[str, int] = {}  # id -> its first line
    for at, line in enumerate(lines):
        if not isinstance(line, dict):
            raise BadWire(API, f"expected an object, got {type(line).__name__}", f"$[{at}]")
        title = _title_in(line) or title
        repeated = seen.setdefault(line["id"], at) != at if isinstance(line.get("id"), str) else False
        is_changed = is_changed or repeated or _changes_list(line)
    about: dict[str, Any] = {FILE: True, LINE: True}
    if not is_changed:
        return replace(_conversation(lines, about, ""), title=title)
    log = _Log()
    for at, line in enumerate(lines):
        log.add(at, line)
    entries = tuple(log.entries(lambda order: ((at, lines[at]) for at in order)))
    about |= {ORDER: log.order()}
    return Conversation(entries=entries, head=log.head, model=_last_model(entries), title=title, extra={API: about})


def _title_in(line: dict[str, Any]) -> str | None:
    return optional(_header_in(line).get("summary"))


def _header_in(line: dict[str, Any]) -> dict[str, Any]:
    return line["$set"] if isinstance(line.get("$set"), dict) else line


def _changes_list(line: dict[str, Any]) -> bool:
    """Whether a line takes back or replaces records before it."""
    return "$rewindTo" in line or "messages" in _header_in(line)


def _last_model(entries: Iterable[Entry]) -> ModelDescriptor | None:
    named = None
    for entry in entries:
        if isinstance(entry.message, AssistantMessage):
            named = entry.message.model or named
    return ModelDescriptor(id=named, provider="google") if named else None


class _Log:
    """The entries of a log whose records were replaced, rewound or set anew; what no longer counts is off the path.

    It has the numbers of the lines, and reads the records again when they are in order.
    """

    def __init__(self) -> None:
        self.head: str | None = None  # when the entries are read
        self._ids = StringTable()
        self._live = array("q")  # lines in their places; those of `$set` are negative: see `_made`
        self._live_ids = array("q")
        self._places = IdNumbers(self._ids)  # id -> its place among what is live, or was
        self._dead: list[tuple[int, array[int]]] = []  # where it stood, what was rewound
        self._beside = array("q")  # headers, changes and what was replaced
        self._made: list[dict[str, Any]] = []  # records in `$set`

    def add(self, at: int, line: dict[str, Any]) -> None:
        """Adds a line."""
        change = line.get("$set")
        if isinstance(change, dict) and isinstance(change.get("messages"), list):
            # …: `messages` in `$set` is a checkpoint, from which the list is built anew.
            self._drop(0)
            for n, one in enumerate(change["messages"]):
                if isinstance(one, dict):
                    self._made.append(one)
                    self._put(str(one.get("id", f"{at}.{n}")), -len(self._made))
        elif "$rewindTo" in line:
            # An id that is not there takes back everything: core/src/services/chatRecordingService.ts,
            # `loadConversationRecord`.
            self._drop(self._place(str(line["$rewindTo"])) or 0)
        elif isinstance(line.get("id"), str) and isinstance(line.get("type"), str):
            self._put(line["id"], at)
            return
        self._beside.append(at)

    def _place(self, id: str) -> int | None:
        """The place of a live record."""
        place = self._places.get(id)
        is_live = place is not None and place < len(self._live) and self._live_ids[place] == self._ids.find(id)
        return place if is_live else None

    def _drop(self, place: int) -> None:
        if self._live[place:]:
            self._dead.append((place, self._live[place:]))
            del self._live[place:], self._live_ids[place:]

    def _put(self, id: str, at: int) -> None:
        place = self._place(id)
        if place is None:
            self._places[id] = len(self._live)
            self._live.append(at)
            self._live_ids.append(self._ids.number(id))
            return
        if self._live[place] >= 0:
            self._beside.append(self._live[place])
        self._live[place] = at

    def order(self) -> list[int]:
        """The lines of the records, in the order of the entries."""
        every = itertools.chain(self._beside, self._live, *(lines for _, lines in self._dead))
        return [at for at in every if at >= 0]

    def entries(self, fetch: "_Fetch") -> Iterator[Entry]:
        """The entries; `fetch` reads lines in a given order."""
        records = _records_of()
        for at, record in fetch(self._beside):
            yield self._aside(record, at)
        ends: dict[int, str | None] = {}  # the last entry at a place, where something was rewound
        wanted = {place - 1 for place, _ in self._dead}
        last: str | None = None
        for place, (at, record) in enumerate(self._fetched(fetch, self._live)):
            for entry in _placed(records, record, at, last):
                yield entry
                last = entry.id
            if place in wanted:
                ends[place] = last
        self.head = last
        for place, lines in self._dead:
            parent = ends.get(place - 1)
            for at, record in fetch(at for at in lines if at >= 0):
                for entry in _placed(records, record, at, parent):
                    yield entry
                    parent = entry.id
        if not self._live:  # all of it was taken back
            yield Entry(message=CustomMessage("head", {"target": None}), extra={API: {MADE: True}})  # type: ignore[arg-type]

    def _fetched(self, fetch: "_Fetch", lines: "array[int]") -> Iterator[tuple[int, dict[str, Any]]]:
        """Lines and records of `$set`, in order."""
        read = iter(fetch(at for at in lines if at >= 0))
        for at in lines:
            yield next(read) if at >= 0 else (at, self._made[-1 - at])

    def _aside(self, record: dict[str, Any], at: int) -> Entry:
        """A line that is no message, or none any more, on its own beside the tree."""
        id = f"aside-{at + 1}"
        custom: Any = CustomMessage("record", {key: value for key, value in record.items() if key not in NO_FIELDS})
        kept = {key: value for key, value in record.items() if key in NO_FIELDS}
        return Entry(message=custom, id=id, extra={API: {RECORD: True, **kept}})


_Fetch = Callable[[Iterable[int]], Iterable[tuple[int, dict[str, Any]]]]


def _placed(records: Records, record: dict[str, Any], at: int, parent: str | None) -> Iterator[Entry]:
    """The entries of a record, which follow one another below its parent."""
    kind = record.get("type")
    for n, entry in enumerate(records.read(record, kind if isinstance(kind, str) else "record")):
        id = f"line-{at + 1}.{n}" if at >= 0 else f"set-{record.get('id', '')}.{n}"
        entry = replace(entry, id=id, parent_id=parent)
        yield entry if at >= 0 else with_residual(entry, API, **{MADE: True})
        parent = id


class _Stream:
    """The entries of a log one at a time. Records that were written again are read in the order of the entries."""

    def __init__(self, lines: Callable[[], Iterable[dict[str, Any]]]) -> None:
        self._lines = lines
        self.head: str | None = None
        title, is_changed = None, False
        log, seen = _Log(), IdSet()
        for at, line in enumerate(lines()):
            log.add(at, line)
            title = _title_in(line) or title
            id = line.get("id") if isinstance(line.get("id"), str) else None
            is_changed = is_changed or id in seen or _changes_list(line)
            seen.add(id)
        self._log = log if is_changed else None
        about = {FILE: True, LINE: True, **({ORDER: log.order()} if is_changed else {})}
        self.about = Conversation(title=title, model=_last_model(self.entries()), extra={API: about})

    def entries(self) -> Iterator[Entry]:
        if self._log is None:
            yield from _entries_of(self._lines(), "")
            return
        yield from self._log.entries(self._fetch)
        self.head = self._log.head

    def _fetch(self, order: Iterable[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Reads lines in a given order; those before their turn wait."""
        numbers = array("q", order)
        wanted = bytearray(max(numbers, default=-1) + 1)
        for number in numbers:
            wanted[number] = True
        waiting: dict[int, dict[str, Any]] = {}
        due = 0
        for at, line in enumerate(self._lines()):
            if at >= len(wanted):
                return
            if wanted[at]:
                waiting[at] = line
                while due < len(numbers) and numbers[due] in waiting:
                    yield numbers[due], waiting.pop(numbers[due])
                    due += 1


@reading(API)
def stream(lines: Callable[[], Iterable[dict[str, Any]]]) -> SessionStream | None:
    """A session of JSON lines, one entry at a time."""
    return _Stream(lines) if _is_header(next(iter(lines()), None)) else None


class _Document:
    """The entries of a session that is one document, one at a time."""

    head: str | None = None

    def __init__(self, header: dict[str, Any], messages: Callable[[], Iterable[dict[str, Any]]]) -> None:
        self._messages = messages
        model, title = _last_model(self.entries()), optional(header.get("summary"))
        self.about = Conversation(model=model, title=title, extra={API: _around(header)})

    def entries(self) -> Iterator[Entry]:
        return _entries_of(self._messages(), "messages")


@reading(API)
def listed(header: dict[str, Any], messages: Callable[[], Iterable[dict[str, Any]]]) -> SessionStream | None:
    """A session that is one document, or a checkpoint, one entry at a time."""
    if isinstance(header.get("messages"), list):
        return _Document(header, messages)
    if not header:  # a bare list
        is_log = _is_header(next(iter(messages()), None))
        return None if is_log else EntryStream(_ContentsReader({"": []}, ""), messages)
    key = next(key for key in _CHECKPOINTS if isinstance(header.get(key), list))
    return EntryStream(_ContentsReader(header, key), messages)


def _conversation(wire: list[Any], extra_fields: dict[str, Any], place: str) -> Conversation:
    entries = tuple(_entries_of(wire, place))
    return Conversation(entries=entries, model=_last_model(entries), extra={API: extra_fields})


def _entries_of(wire: Iterable[Any], place: str) -> Iterator[Entry]:
    records = _records_of()
    for at, record in enumerate(wire):
        if not isinstance(record, dict):
            where = f"$.{place}[{at}]" if place else f"$[{at}]"
            raise BadWire(API, f"expected an object, got {type(record).__name__}", where)
        kind = record.get("type")
        yield from records.read(record, kind if isinstance(kind, str) else "session" if not at else "record")


class _ContentsReader(Reader):
    """Reads the contents of a checkpoint, which is given with or without them."""

    def __init__(self, body: dict[str, Any], key: str) -> None:
        self._place = f"$.{key}" if key else "$"
        self.about = Conversation(extra={API: {CONTENTS: key, **residual(body, {key: body[key]})}})

    def entries(self, records: Iterable[Any]) -> Iterator[Entry]:
        for contents, messages in _wire().pieces_of(records):
            if not same(_wire().encode_messages(messages, QUIET), contents):
                raise BadWire(API, "these are not the contents of a checkpoint", self._place)
            yield from (Entry(message=message) for message in messages)


def _decode_contents(body: dict[str, Any], key: str) -> Conversation:
    return read(_ContentsReader(body, key), body[key])


def encode(conversation: Conversation) -> Encoded:
    """The session or checkpoint that was read."""
    extra_fields = conversation.extra.get(API, {})
    if CONTENTS in extra_fields:
        report, wire = Reporter(), _wire()
        contents = wire.encode_messages(conversation.messages, report)
        again = wire.decode_messages(contents) if not report.losses else ()
        for at, (message, other) in enumerate(zip(conversation.messages, again, strict=False)):
            report.add(content_losses(getattr(message, "content", None), other.content, f"$.messages[{at}]", WIRE))
        body = contents if extra_fields[CONTENTS] == "" else put_back({extra_fields[CONTENTS]: contents}, extra_fields)
        return Encoded(body, tuple(report.losses))
    if FILE not in extra_fields:
        raise Unsupported(API, f"a conversation of this format {_records.WHY}")
    written = tuple(entry for entry in conversation.entries if MADE not in entry.extra.get(API, {}))
    records, losses = _records_of().write(replace(conversation, entries=written))
    order = extra_fields.get(ORDER, ())
    if len(order) == len(records):
        records = [record for _, record in sorted(zip(order, records, strict=True), key=lambda pair: pair[0])]
    body = Lines(records) if extra_fields.get(LINE) else put_back({"messages": records}, extra_fields)
    return Encoded(body, tuple(losses))


def detect(value: Any) -> str | None:
    """Whether a document is a session of this program, or a checkpoint in an object."""
    if isinstance(value, list) and value and _is_header(value[0]) and "projectHash" in value[0]:
        return "lines behind a header with `sessionId` and `projectHash`"
    if not isinstance(value, dict):
        return None
    if _is_header(value) and "projectHash" in value:
        return "a header with `sessionId` and `projectHash`"
    if isinstance(value.get("messages"), list) and "sessionId" in value:
        if "projectHash" in value:
            return "`messages` beside `sessionId` and `projectHash`"
        if any(_is_typed(message, _ANSWERS) for message in value["messages"]) and all(
            _is_typed(message, _TYPES) for message in value["messages"]
        ):
            return "`messages` of the types `user` and `gemini` beside a `sessionId`"
    for key in _CHECKPOINTS:
        contents = value.get(key)
        if isinstance(contents, list) and contents and all(map(_is_content, contents)):
            return f"contents with `parts` in `{key}`"
    return None


# core/src/services/chatRecordingTypes.ts, `ConversationRecordExtra`.
_TYPES = (*_ANSWERS, "user", "info", "error", "warning")


def _is_typed(message: Any, types: tuple[str, ...]) -> bool:
    return isinstance(message, dict) and message.get("type") in types and "content" in message and "role" not in message


def _is_content(value: Any) -> bool:
    return isinstance(value, dict) and value.get("role") in ("user", "model") and isinstance(value.get("parts"), list)


def relations(conversation: Conversation, path: PurePath) -> Relations:
    """A sub-agent's file has a `kind`, and its folder is named after the session that started it."""
    first: Any = conversation.entries[0].message if conversation.entries else None
    header = first.fields if isinstance(first, CustomMessage) else conversation.extra.get(API, {})
    # …, `ConversationRecord`: `kind` is `main` or `subagent`.
    id, child = optional(header.get("sessionId")), header.get("kind") == "subagent"
    if id is None or child:
        return Relations(id, path.parent.name if child else None)
    return Relations(id, None, ((path.parent / PurePath(id).name, "*.json*"),))


FORMAT = FileFormat(
    name="gemini-cli",
    codec=sys.modules[__name__],
    detect=detect,
    lines=True,
    writable=False,
    stream=stream,
    listed=ListedSession(("messages", *_CHECKPOINTS, ""), listed),
    relations=relations,
    stamps_ends=True,
)
