"""Diagnosis and repair of session files.

One pass finds and repairs, so the result has no findings left. A file without findings is returned byte for byte, as is
every line that needs no repair. No readable content is dropped.
"""

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

from msgspec import UNSET
from msgspec.structs import replace

from .. import conversion
from ..conversion.adapting.work import NO_OUTPUT, NO_RESULT, SYNTHETIC
from ..dialects import WIRES
from ..dialects.foreign_blocks import CALL_TYPES, IMAGE_TYPES, OTHER_ROLES, RESULT_ROLES, RESULT_TYPES, TEXT_TYPES
from ..dialects.residual import optional
from ..values import jsontext
from ..values.canonical import SELF, build
from ..values.errors import FormatError, InterlinguaError
from ..values.losses import Lines
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    Block,
    CustomMessage,
    Extra,
    OpaqueBlock,
    SystemMessage,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ..values.request import Conversation, Entry
from .executions import STATUS_UNKNOWN, UNKNOWN, Executions
from .summary import is_foreign
from .tree import (
    COMPACTION,
    ENTRY,
    HEAD,
    JOURNAL,
    LABEL,
    MARK,
    REVISION,
    ROOT,
    SESSION,
    LineKeys,
    LinePlace,
    decode_line,
    encode_line,
    head_after,
    kind_of,
    kind_of_message,
    parse_place,
    place,
    placed,
    position,
    positional,
    walk,
)

EMPTY = "(this message was empty)"
_FOREIGN_KEYS = frozenset({"tool_calls", "tool_call_id", "function_call", "toolUseId", "tool_use_id", "parts"})
_FOREIGN_FIELDS = frozenset(
    {"source", "signature", "input", "image_url", "functionCall", "functionResponse"}
)  # of blocks
_FOREIGN_TYPES = CALL_TYPES | RESULT_TYPES | TEXT_TYPES | IMAGE_TYPES
_FOREIGN_ROLES = RESULT_ROLES | OTHER_ROLES.keys() | {"developer"}
_OUR_TYPES = frozenset(block.__struct_config__.tag for block in get_args(Block))
_CHAT_KEYS = frozenset({"tool_calls", "tool_call_id", "function_call", "reasoning_content"})
_BEGINNING = re.compile(rb'\{\s*"role"')
_FAILED = ("error", "aborted")
_JSON = json.JSONDecoder(strict=False)


class RepairFinding(NamedTuple):
    """A defect: its line, its code `what`, a message, and the repair."""

    line: int | None
    what: str
    message: str
    repair: str

    def __str__(self) -> str:
        where = "" if self.line is None else f"line {self.line}: "
        return f"{where}{self.message} → {self.repair}"


class Examined(NamedTuple):
    findings: tuple[RepairFinding, ...]
    data: bytes  # the repaired file


def examine(data: bytes) -> Examined:
    """The findings of a session file's bytes, and the bytes without them."""
    findings: list[RepairFinding] = []
    work = _Repair(list(_items(data, findings)), findings)
    work.run()
    if not findings:
        return Examined((), data)
    return Examined(
        tuple(sorted(findings, key=lambda finding: finding.line or len(data))),
        b"".join(line + b"\n" for line in work.lines),
    )


# --- lines to items --------------------------------------------------------------------------------------------------


class _Item(NamedTuple):
    """A readable line, unchanged or converted to `message`."""

    number: int | None
    raw: bytes
    line: LineKeys
    message: AgentMessage | None  # None outside the tree
    changed: bool = False
    extra: Extra = {}
    parents: tuple[str, ...] = ()


def _items(data: bytes, findings: list[RepairFinding]) -> Iterator[_Item]:
    lines = list(_readable(data, findings))
    if lines and is_foreign(lines[0][1]):
        yield from _foreign(lines, findings)
        return
    for number, raw in lines:
        try:
            yield from _item(number, raw, findings)
        except FormatError as error:
            findings.append(RepairFinding(number, "bad-line", error.message, "left out"))


def _readable(data: bytes, findings: list[RepairFinding]) -> Iterator[tuple[int, bytes]]:
    """Lines that are JSON objects, and the objects salvaged from lines that are not."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for number, raw in enumerate(lines, 1):
        if not raw.strip():
            continue
        if _is_object(raw):
            yield number, raw
            continue
        saved = list(_salvaged(raw))
        if number == len(lines):
            findings.append(RepairFinding(number, "torn-tail", "the last line was truncated", _outcome(saved)))
        else:
            findings.append(RepairFinding(number, "bad-line", "not a JSON object", _outcome(saved)))
        yield from ((number, part) for part in saved)


def _outcome(saved: list[bytes]) -> str:
    return f"kept {len(saved)} whole message{'s' if len(saved) > 1 else ''} from it" if saved else "left out"


def _is_object(raw: bytes) -> bool:
    try:
        return isinstance(jsontext.read(raw), dict)
    except FormatError:
        return False


def _salvaged(raw: bytes) -> Iterator[bytes]:
    """The whole messages in a line where an append follows a truncated one."""
    text, end = raw.decode("latin-1"), 0  # one character per byte, so that offsets agree
    for found in _BEGINNING.finditer(raw):
        if found.start() < end:
            continue
        with contextlib.suppress(ValueError, RecursionError):
            _, stop = _JSON.raw_decode(text, found.start())
            if _is_object(raw[found.start() : stop]):
                yield raw[found.start() : stop]
                end = stop


def _foreign(lines: list[tuple[int, bytes]], findings: list[RepairFinding]) -> Iterator[_Item]:
    """The items of another program's session file, converted."""
    values = Lines(jsontext.read(raw) for _, raw in lines)
    try:
        found = conversion.detect(values)
        conversation = conversion.decode(values, found.dialect if found else None)
    except InterlinguaError as error:
        findings.append(RepairFinding(1, "foreign-file", f"not a session file: {error}", "left out"))
        return
    name = found.dialect if found else "unknown"
    findings.append(RepairFinding(1, "foreign-file", f"a session file in the format {name}", "converted"))
    about = conversion.encode(replace(conversation, entries=(), head=None), "transcript").body
    for line in about:
        yield _aside(1, line)
    names: dict[str, str | None] = {}
    count = iter(range(1, len(conversation.entries) + 1))
    for entry in placed(conversation, lambda: f"entry-{next(count)}", names):
        yield _entry_item(entry)
    head = None if conversation.head is None else names.get(conversation.head)
    if head is not None:
        yield _aside(None, {"role": "head", "target": head})


def _entry_item(entry: Entry) -> _Item:
    raw = encode_line(entry)
    message: AgentMessage = entry.message
    beside = kind_of_message(message) < ENTRY
    return _Item(None, raw, parse_place(raw), None if beside else message, extra=entry.extra, parents=entry.parents)


def _aside(number: int | None, line: dict[str, Any]) -> _Item:
    raw = jsontext.write(line)
    return _Item(number, raw, parse_place(raw), None)


def _item(number: int, raw: bytes, findings: list[RepairFinding]) -> Iterator[_Item]:
    line = parse_place(raw)
    if kind_of(line) < ENTRY:
        yield _Item(number, raw, line, None)
        return
    try:
        entry: Entry | None = decode_line(raw)
        why = "" if entry is None else _foreign_reason(entry.message)
    except InterlinguaError as error:
        entry, why = None, getattr(error, "message", str(error))
    if entry is not None and not why:
        yield _Item(number, raw, line, entry.message, extra=entry.extra, parents=entry.parents)
        return
    messages = _decoded_line(jsontext.read(raw.removeprefix(b"\xef\xbb\xbf")))
    findings.append(
        RepairFinding(number, "shape", why, f"written as {', '.join(message.role for message in messages)}")
    )
    names = _part_names(line.id, len(messages))
    for at, message in enumerate(messages):
        place = LineKeys(line.role, names[at], names[at - 1] if at else line.parent_id)
        yield _Item(number, raw, place, message, changed=True)


def _part_names(id: Any, count: int) -> list[str | None]:
    """Ids for the messages of one line; the last one keeps the line's id, so that children follow it."""
    if not isinstance(id, str):
        return [None] * count
    return [*(f"{id}.{part}" for part in range(1, count)), id]


# --- foreign messages ------------------------------------------------------------------------------------------------


def _foreign_reason(message: AgentMessage) -> str:
    """What in a message belongs to another wire; empty if nothing does."""
    if isinstance(message, CustomMessage):
        return f"the role `{message.role}` of another wire" if message.role in _FOREIGN_ROLES else ""
    for key in message.extra.get(SELF, {}):
        if key in _FOREIGN_KEYS:
            return f"`{key}` is another wire's"
    for block in message.content if isinstance(message.content, tuple) else ():
        if isinstance(block, OpaqueBlock) and block.dialect == SELF and _is_foreign_block(block.value):
            return f"a block of type `{block.value.get('type')}` is another wire's"
        for key in _FOREIGN_FIELDS.intersection(block.extra.get(SELF, {})):
            return f"a block with `{key}` is another wire's"
    return ""


def _is_foreign_block(block: dict[str, Any]) -> bool:
    return optional(block.get("type")) in _FOREIGN_TYPES or not _FOREIGN_FIELDS.isdisjoint(block)


def _decoded_line(value: dict[str, Any]) -> list[AgentMessage]:
    """The messages of a line as the first wire that can decode it reads them; else a best effort."""
    bare = {key: item for key, item in value.items() if key not in ("id", "parentId", "entryExtra", "timestamp")}
    chat = optional(value.get("role")) in RESULT_ROLES or not _CHAT_KEYS.isdisjoint(value)
    for name in _readers(chat) if value.get("role") != "toolResult" else ():
        try:
            decoded = conversion.decode([_spelled(bare)], name)
        except InterlinguaError:
            continue
        messages: list[AgentMessage] = [entry.message for entry in decoded.entries]
        if decoded.system:
            messages.insert(0, SystemMessage(content=decoded.system))
        has_content = any(map(_has_content, messages)) or not value.get("content")
        if messages and has_content and not any(map(_is_unread, messages)):
            return [_with_metadata(message, value) for message in messages]
    return [_forced(value)]


def _readers(chat: bool) -> list[str]:
    """The formats in which a line may be written; where its calls or ids are beside the content, only such wires."""
    wires = [wire.api for wire in WIRES.values() if wire.base == wire.api and (wire.calls_beside or not chat)]
    return [*wires, "clawtools"]


def _spelled(value: dict[str, Any]) -> dict[str, Any]:
    """The line with the role names of its wire."""
    role = value.get("role")
    if optional(role) in RESULT_ROLES:
        call = next((value[key] for key in _CALL_KEYS if key in value), None)
        return {**value, "role": "tool", "tool_call_id": call}
    return value if role == "model" and "parts" in value else {**value, "role": OTHER_ROLES.get(str(role), role)}


def _is_unread(message: AgentMessage) -> bool:
    if isinstance(message, CustomMessage):
        return True
    return any(isinstance(block, OpaqueBlock) for block in message.content or () if not isinstance(block, str))


def _has_content(message: AgentMessage) -> bool:
    return not isinstance(message, CustomMessage) and bool(message.content)


_RECORDS = ("api", "provider", "model")
_CALL_KEYS = ("toolCallId", "toolUseId", "tool_call_id", "tool_use_id")


def _with_metadata(message: AgentMessage, value: dict[str, Any]) -> AgentMessage:
    """The message with the timestamp, model and stop reason of its line."""
    if isinstance(message, CustomMessage):
        return message
    known: dict[str, Any] = {}
    if isinstance(value.get("timestamp"), int):
        known["timestamp"] = value["timestamp"]
    if isinstance(message, AssistantMessage):
        known |= {key: value[key] for key in _RECORDS if isinstance(value.get(key), str)}
        if value.get("stopReason") in ("stop", "length", "toolUse", *_FAILED):
            known["stop_reason"] = value["stopReason"]
        if isinstance(message.content, tuple):
            known["content"] = _without_blank_text(message.content)
    return replace(message, **known)


def _without_blank_text(content: tuple[Block, ...]) -> tuple[Block, ...]:
    return tuple(block for block in content if not isinstance(block, TextBlock) or block.text.strip())


def _forced(value: dict[str, Any]) -> AgentMessage:
    """As much of a broken message as possible; if none of it is valid, all of it under the role `unreadable`."""
    fixed = dict(value)
    if fixed.get("role") == "toolResult":
        fixed["isError"] = fixed.get("isError") is True
        calls = [fixed.pop(key) for key in _CALL_KEYS if key in fixed]
        fixed["toolCallId"] = next((call for call in calls if isinstance(call, str)), "")
        if not isinstance(fixed.get("toolName"), str):
            fixed.pop("toolName", None)
    content = fixed.get("content")
    if content is not None and not isinstance(content, str | list):
        content = jsontext.compact(content)
    if isinstance(content, list):
        content = [block if _is_ours(block) else {"type": "text", "text": _text(block)} for block in content]
    fixed["content"] = content
    unread = {key: fixed.pop(key) for key in _FOREIGN_KEYS if key in fixed}
    fixed |= {"unread": unread} if unread else {}
    for candidate in (fixed, {key: fixed[key] for key in ("role", "toolCallId", "isError", "content") if key in fixed}):
        try:
            message: AgentMessage = decode_line(jsontext.write(candidate)).message
        except InterlinguaError:
            continue
        if not _foreign_reason(message):
            return message
    return CustomMessage("unreadable", {"value": value})


def _is_ours(block: Any) -> bool:
    if not isinstance(block, dict) or not _FOREIGN_FIELDS.isdisjoint(block):
        return False
    return optional(block.get("type")) in _OUR_TYPES or not _is_foreign_block(block)


def _text(block: Any) -> str:
    return block if isinstance(block, str) else jsontext.compact(block)


# --- the tree --------------------------------------------------------------------------------------------------------


class _Call(NamedTuple):
    given: str  # the id in the line
    id: str
    name: str
    item: int  # the item of its response
    occurrence: int  # among the calls with the same given id in that response


class _State(NamedTuple):
    """The open calls at an entry: those without a result, and those of failed responses, which need none."""

    pending: tuple[_Call, ...] = ()
    excused: tuple[str, ...] = ()


class _Repair:
    """Writes the lines of the new file from the items in order. `old` numbers are items; others are new lines."""

    def __init__(self, items: list[_Item], findings: list[RepairFinding]) -> None:
        self.findings = findings
        self.lines: list[bytes] = []
        self._kinds: list[int] = []
        self._parents: list[int] = []
        self._names: dict[str, int] = {}
        self._states: dict[int, _State] = {}
        self._settled: dict[int, int] = {}  # an entry with open calls, and the last result added for it
        self._head = ROOT
        self._items = items
        self._old = _OldTree(items)
        self._places: dict[int, int] = {}  # an item, and its new entry
        self._follows: dict[int, int] = {ROOT: ROOT}  # an item, and the new parent of its children

    def run(self) -> None:
        for old, item in enumerate(self._items):
            kind, parent, orphan = self._old.places[old]
            if kind < ENTRY:
                self._take_aside(old, item, kind, parent, orphan)
                continue
            if orphan:
                above = "(itself)" if item.line.parent_id == item.line.id else f"{item.line.parent_id!r}"
                self._find(item, "parent", f"parent {above} is not before it", "made a child of the entry before it")
            behind = self._follows[parent]
            self._follows[old] = behind if old in self._places else self._take_entry(old, item, behind)
            self._places.setdefault(old, self._follows[old])
        self._finish()

    def _find(self, item: _Item, what: str, message: str, repair: str) -> None:
        self.findings.append(RepairFinding(item.number, what, message, repair))

    # --- outside the tree

    def _take_aside(self, old: int, item: _Item, kind: int, parent: int, orphan: bool) -> None:
        if kind == HEAD:
            if orphan:
                self._find(item, "head", f"target {item.line.target!r} does not exist", "left out")
            elif item.line.target is None or isinstance(item.line.target, str):
                self._move(self._places.get(parent, ROOT), item.raw)
            return
        target = item.line.target
        if kind in (LABEL, MARK, REVISION) and isinstance(target, str):
            named = self._places.get(self._old.find(target, before=old), ROOT)
            if named == ROOT:
                self._find(item, item.line.role, f"target {target!r} does not exist", "left out")
                return
            target = self._name(named)
        head, here = ROOT if kind == SESSION else self._head, item.line.parent_id
        if kind == JOURNAL and isinstance(here, str):
            head = self._follows.get(parent, head)
            here = self._name(head) if head != ROOT else here
        line = LineKeys(item.line.role, item.line.id, here, target)
        self._write(item.raw if line == item.line else _replaced(item.raw, line), kind, head)

    def _move(self, to: int, raw: bytes | None = None) -> None:
        target = None if to == ROOT else self._name(to)
        line = {"role": "head", "target": target}
        same = raw is not None and jsontext.read(raw).get("target") == target
        self._write(raw if raw is not None and same else jsontext.write(line), HEAD, to)

    # --- entries

    def _take_entry(self, old: int, item: _Item, parent: int) -> int:
        """Writes an entry below `parent`; returns the parent of its children."""
        message = item.message
        assert message is not None
        state = self._states.get(parent, _State())
        if isinstance(message, ToolResultMessage):
            return self._take_result(item, message, parent, state)
        if state.pending and isinstance(message, UserMessage | SystemMessage | AssistantMessage):
            parent = self._add_missing_results(old, parent)
            state = _State()
        if isinstance(message, AssistantMessage):
            message, state = self._with_ids(old, item, message)
        message = self._without_blanks(item, message)
        if kind_of_message(message) == COMPACTION:
            message = self._with_first_kept(old, item, message, parent)
        return self._put(item, message, parent, state)

    def _take_result(self, item: _Item, result: ToolResultMessage, parent: int, state: _State) -> int:
        call = next((call for call in state.pending if call.given == result.tool_call_id), None)
        if call is None and result.tool_call_id in state.excused:
            return self._put(item, self._without_blanks(item, result), parent, state)
        if call is None:
            self._find(item, "result", f"result for {result.tool_call_id!r}, which is not an open call", "left out")
            return parent
        if call.id != result.tool_call_id:
            result = replace(result, tool_call_id=call.id)
        if not result.tool_name or not result.tool_name.strip():
            result = replace(result, tool_name=call.name)
        rest = tuple(other for other in state.pending if other is not call)
        return self._put(item, self._without_blanks(item, result), parent, _State(rest, state.excused))

    def _with_ids(self, old: int, item: _Item, message: AssistantMessage) -> tuple[AssistantMessage, _State]:
        """The message with a unique id per call, and its open calls."""
        if message.stop_reason in _FAILED:
            return message, _State(excused=tuple(call.id for call in message.tool_calls))
        calls: list[_Call] = []
        blocks: list[Any] = []
        used: set[str] = set()
        for block in message.content if isinstance(message.content, tuple) else ():
            if isinstance(block, ToolCall):
                id = block.id
                if not id.strip() or id in used:
                    id = self._fresh_call(used)
                    what = f"the id {block.id!r} of another call" if block.id.strip() else "no id"
                    self._find(item, "call-id", f"call of {block.name} has {what}", f"given the id {id!r}")
                used.add(id)
                occurrence = sum(call.given == block.id for call in calls)
                calls.append(_Call(block.id, id, block.name, old, occurrence))
                block = block if id == block.id else replace(block, id=id)
            blocks.append(block)
        changed = any(call.given != call.id for call in calls)
        return replace(message, content=tuple(blocks)) if changed else message, _State(tuple(calls))

    def _fresh_call(self, used: set[str]) -> str:
        number = len(self.lines) + 1
        names = (f"call_{number}_{at}" for at in range(1, len(used) + 3))
        return next(name for name in names if name not in used)

    def _add_missing_results(self, old: int, parent: int) -> int:
        """Adds results for open calls: moved from further down, or synthetic. Siblings share them."""
        if parent not in self._settled:
            at = parent
            for call in self._states[parent].pending:
                found = self._result_below(old, call)
                if found is None:
                    self._miss(call, self._items[old], "one was added before it")
                    at = self._put_missing(call, at)
                    continue
                item = self._items[found]
                self._find(item, "order", f"result of {call.id!r} is after the next message", "moved to its call")
                assert isinstance(item.message, ToolResultMessage)
                at = self._places[found] = self._take_result(item, item.message, at, self._states[at])
            self._settled[parent] = at
        return self._settled[parent]

    def _result_below(self, old: int, call: _Call) -> int | None:
        """A result below this item and before the next response, if there is no branch between."""
        while not isinstance(self._items[old].message, AssistantMessage):
            children = self._old.children.get(old, [])
            if len(children) != 1:
                return None
            old = children[0]
            message = self._items[old].message
            if isinstance(message, ToolResultMessage) and message.tool_call_id == call.given:
                return old if old not in self._places else None
        return None

    def _miss(self, call: _Call, item: _Item | None, repair: str) -> None:
        line = None if item is None else item.number
        self.findings.append(RepairFinding(line, "call", f"call {call.id!r} of {call.name} has no result", repair))

    def _put_missing(self, call: _Call, parent: int) -> int:
        result = self._recorded(call) or ToolResultMessage(
            tool_call_id=call.id,
            tool_name=call.name,
            content=(TextBlock(text=NO_RESULT),),
            is_error=True,
            extra=SYNTHETIC,
        )
        state = self._states[parent]
        rest = _State(tuple(other for other in state.pending if other is not call), state.excused)
        return self._put(None, result, parent, rest)

    def _recorded(self, call: _Call) -> ToolResultMessage | None:
        """The recorded result of a call, from the journal or another branch; or that its outcome is unknown."""
        known = Executions(self._old, call.item).of(call.given, call.occurrence)
        if known.result is not None:
            with contextlib.suppress(FormatError):
                result: ToolResultMessage = build(known.result, ToolResultMessage)
                return replace(result, tool_call_id=call.id)
        if not known.started:
            return None
        return ToolResultMessage(
            tool_call_id=call.id,
            tool_name=call.name,
            content=(TextBlock(text=UNKNOWN),),
            details={"status": STATUS_UNKNOWN},
            is_error=True,
        )

    def _without_blanks(self, item: _Item, message: AgentMessage) -> AgentMessage:
        if isinstance(message, CustomMessage | SystemMessage):
            return message
        content = message.content
        if isinstance(content, tuple):
            content = _without_blank_text(content)
        blank = not content or (isinstance(content, str) and not content.strip())
        if isinstance(message, AssistantMessage):
            if message.content is None or content != message.content:
                self._find(item, "blank", "null or blank content", "blank parts left out")
                return replace(message, content=content or ())
            return message
        if not blank and content == message.content:
            return message
        filler = NO_OUTPUT if isinstance(message, ToolResultMessage) else EMPTY
        self._find(item, "blank", "null or blank content", f"says {filler!r}" if blank else "blank parts left out")
        return replace(message, content=filler if blank else content)

    def _with_first_kept(self, old: int, item: _Item, message: AgentMessage, parent: int) -> AgentMessage:
        assert isinstance(message, CustomMessage)
        key = "firstKept" if "firstKept" in message.fields else "firstKeptEntryId"
        first = message.fields.get(key)
        if not isinstance(first, str):
            return message
        entry = self._places.get(self._old.find(first, before=old), ROOT)
        if entry != ROOT and entry in walk(self._parents.__getitem__, parent):
            name = self._name(entry)
            return message if name == first else CustomMessage(message.role, {**message.fields, key: name})
        self._find(item, "first-kept", f"first kept entry {first!r} is not before it", "keeps no earlier entry")
        return CustomMessage(message.role, {k: v for k, v in message.fields.items() if k != key})

    # --- writing

    def _put(self, item: _Item | None, message: AgentMessage, parent: int, state: _State) -> int:
        line = item.line if item is not None else LineKeys("")
        id = line.id if isinstance(line.id, str) else None
        if item is not None and id is not None and id in self._names:
            id = self._fresh_id(id)
            self._find(item, "id", f"duplicate id {line.id!r}", f"given the id {id!r}")
        if item is None or (id is None and parent == ROOT and self._head != ROOT):
            id = self._fresh_id(f"added-{len(self.lines) + 1}")
        same = item is not None and not item.changed and message == item.message and id == optional(line.id)
        if same and item is not None and self._leads_to(line, parent):
            raw = item.raw
        else:
            name = None if parent == ROOT or (id is None and parent == self._head) else self._name(parent)
            extra, parents = ({}, ()) if item is None else (item.extra, item.parents)
            entry = Entry(message=message, id=id, parent_id=name, parents=parents, extra=extra)  # type: ignore[arg-type]
            raw = self._written(item if same else None, entry, root=parent == ROOT and self._head != ROOT)
        number = self._write(raw, kind_of_message(message), parent)
        if id is not None:
            self._names[id] = number
        self._states[number] = state
        return number

    def _leads_to(self, line: LineKeys, parent: int) -> bool:
        found = place(line, self._head, self._new_find)
        return found.parent == parent and not found.orphan

    def _new_find(self, id: str) -> int | None:
        found = self._names.get(id)
        at = position(id)
        if found is not None or at is None or at >= len(self._kinds) or self._kinds[at] < ENTRY:
            return found
        return at if not isinstance(parse_place(self.lines[at]).id, str) else None

    def _written(self, item: _Item | None, entry: Entry, *, root: bool) -> bytes:
        """The raw line of an entry; a line whose message is unchanged keeps its other keys in order."""
        if item is None:
            return encode_line(entry, root=root)
        value = {k: v for k, v in jsontext.read(item.raw.removeprefix(b"\xef\xbb\xbf")).items() if k != "parentId"}
        value |= {} if entry.id is None else {"id": entry.id}
        return jsontext.write(value | ({} if entry.parent_id is None and not root else {"parentId": entry.parent_id}))

    def _write(self, raw: bytes, kind: int, parent: int) -> int:
        number = len(self.lines)
        self.lines.append(raw)
        self._kinds.append(kind)
        self._parents.append(parent)
        self._head = number if kind >= ENTRY else parent
        return number

    def _fresh_id(self, base: str) -> str:
        names = (base if at == 1 else f"{base}-{at}" for at in range(1, len(self.lines) + 3))
        return next(name for name in names if name not in self._names and name not in self._old.names)

    def _name(self, number: int) -> str:
        id = parse_place(self.lines[number]).id
        return id if isinstance(id, str) else positional(number)

    def _finish(self) -> None:
        """Adds results for open calls at the ends of branches, then restores the head."""
        head = self._head
        followed = {self._parents[at] for at, kind in enumerate(self._kinds) if kind >= ENTRY}
        ends = [at for at, state in self._states.items() if state.pending and at not in followed]
        for end in sorted(ends, key=lambda end: end == head):
            last = end
            for call in self._states[end].pending:
                self._miss(call, None, "one was added behind it")
                last = self._put_missing(call, last)
            head = last if end == head else head
        if self._head != head:
            self._move(head)


class _OldTree:
    """The tree of the file before the repair."""

    def __init__(self, items: list[_Item]) -> None:
        self._items = items
        self.names: dict[str, list[int]] = {}
        self.places: list[LinePlace] = []
        self.children: dict[int, list[int]] = {}
        self._lines: dict[int, int] = {}
        head = ROOT
        for old, item in enumerate(items):
            found = place(item.line, head, self._at)
            self.places.append(found)
            head = head_after(old, found.kind, found.parent)
            if found.kind < ENTRY:
                continue
            self.children.setdefault(found.parent, []).append(old)
            if isinstance(item.line.id, str):
                self.names.setdefault(item.line.id, []).append(old)
            elif item.number is not None:
                self._lines[item.number] = old

    def __len__(self) -> int:
        return len(self.places)

    def place(self, old: int) -> LinePlace:
        return self.places[old]

    def line(self, old: int) -> bytes:
        return self._items[old].raw

    def _at(self, id: str) -> int | None:
        found = self.find(id, before=len(self.places))
        return None if found == ROOT else found

    def find(self, id: str, before: int) -> int:
        """The latest item with this id before another; ROOT for none."""
        at = position(id)
        bare = self._lines.get(at + 1, before) if at is not None and id not in self.names else before
        return next((old for old in reversed(self.names.get(id, ())) if old < before), bare if bare < before else ROOT)


def _replaced(raw: bytes, place: LineKeys) -> bytes:
    """A line outside the tree with another target or parent."""
    named = {"target": place.target, "parentId": place.parent_id}
    return jsontext.write({**jsontext.read(raw), **{k: v for k, v in named.items() if v is not UNSET}})


def conversation_of(data: bytes) -> Conversation:
    """The conversation in a session file, after repair."""
    return conversion.decode(examine(data).data, "transcript")
