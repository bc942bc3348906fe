"""Claude Code's session files: JSON lines, each an event of the session; those of people and models hold a message.

Lines form a tree through `uuid` and `parentUuid`; sub-agents (`isSidechain`) are trees of their own. A message is in
the words of Anthropic's wire, and is read by that dialect. An answer is written as it streams, one line a block, all
with the same `message.id` and usage: here it is one message. Results of tools are lines of the user, with what the tool
told the program in `toolUseResult`; a result's parent is the line of its call, so results of parallel calls are
siblings in the file and follow one another here. At a compaction the tree begins anew. All other lines (titles,
snapshots of files, notices, …) are kept in their places as messages of their own role.

What `claude --output-format stream-json` prints is read as well: the same messages with `session_id`, without parents,
and a `result` with the usage of the whole; `parent_tool_use_id` marks the lines of sub-agents.
"""

import re
import sys
from collections.abc import Container, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

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
)
from ...values.request import Conversation, Entry, ModelDescriptor
from .. import dialect
from ..residual import JOINED, reading, with_residual
from ..wire import FileFormat
from . import new_sessions
from . import records as _records
from .joining import NAMED, apart, join, place, unlike
from .records import FILE, Records, lines_of, milliseconds, time_in, with_time
from .skimming import LineSkim

API = "claude-code"
RETURNED = True  # read and returned, not made from other formats
WIRE = "anthropic-messages"

SPAWNED_BY = "~spawnedBy"  # of the first entry of a sub-agent: the `entry` and the `callId` that started it
WEB = "~web"  # of a conversation: what stands around the lines in an export from the web
ARRAY = "~array"  # of a conversation: the lines were the items of one list
SYNTHETIC = "<synthetic>"  # the program's own words in place of an answer

FIELD_SUPPORT: SupportTable = _records.FIELD_SUPPORT


def _wire() -> Any:
    """The dialect in whose words the messages are."""
    return dialect(WIRE)


# What the program writes into the turn of the user: notes about commands, their output, notices of background tasks.
_PROGRAM = re.compile(
    r"\s*<(local-command-caveat|local-command-std(out|err)|bash-std(out|err)|task-notification|system-reminder"
    r"|user-prompt-submit-hook|teammate-message|ide_opened_file|ide_selection)[ >]|\[Request interrupted by user"
)


def _decode_line(line: dict[str, Any]) -> list[Any]:
    """The messages in a line; none if it is of another kind."""
    inner, kind = line.get("message"), line.get("type")
    if kind not in ("user", "assistant") or not isinstance(inner, dict) or inner.get("role", kind) != kind:
        return []
    if kind == "user" and "content" not in inner:
        return []
    when = milliseconds(line.get("timestamp"))
    if kind == "assistant" and (inner.get("type") == "message" or not inner.keys() <= {"role", "content"}):
        return [_wire().decode_response(inner, provider="anthropic", timestamp=when)]
    messages = [with_time(message, when) for message in _wire().decode_messages([{"role": kind, **inner}])]
    messages[0] = _open(messages[0])
    # What a tool told the program belongs to its result; beside several results, to none of them in particular.
    if len(messages) == 1 and isinstance(messages[0], ToolResultMessage):
        messages = [replace(messages[0], details=line.get("toolUseResult"))]
    return [_attributed(message, line) for message in messages]


def _attributed(message: Any, line: dict[str, Any]) -> Any:
    """A message of the user that a program put in, as such."""
    if not isinstance(message, UserMessage):
        return message
    put_in = line.get("isMeta") is True or line.get("isCompactSummary") is True
    return replace(message, origin="program") if put_in or _PROGRAM.match(message.text) else message


def _open(message: Any) -> Any:
    """A result that may share its wire message with others: lines divide what the model reads as one turn."""
    residual = message.extra.get(WIRE, {}) if isinstance(message, ToolResultMessage) else {}
    if JOINED not in residual:
        return message
    rest = {key: value for key, value in residual.items() if key != JOINED}
    extra = {owner: given for owner, given in message.extra.items() if owner != WIRE}
    return replace(message, extra={**extra, WIRE: rest} if rest else extra)


def _say_line(messages: tuple[Message, ...], report: Reporter) -> dict[str, Any]:
    first = messages[0]
    encoded: dict[str, Any]
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
    return Records(API, _decode_line, _say_line, keys=("uuid", "parentUuid"), lines=True)


@reading(API)
def decode(data: Any) -> Conversation:
    """A session file, what `--output-format stream-json` printed, or an export from the web."""
    envelope, lines = _opened(data)
    records = _records_of()
    entries: list[Entry] = []
    owners: list[dict[str, Any]] = []  # the line of each entry
    known: set[str | None] = set()
    for line in lines:
        kind = line.get("type")
        read = records.read(line, kind if isinstance(kind, str) else "line")
        for entry in read:
            entries.append(unlike(entry, known, API))
            known.add(entries[-1].id)
        owners += [line] * len(read)
    groups = _answers(entries, owners)
    aliases = {entries[at].id: entries[group[-1]].id for group in groups for at in group}
    main = [at for at, line in enumerate(owners) if entries[at].id is not None and not _is_sub_agent(line)]
    main = main or [at for at in range(len(entries)) if entries[at].id is not None]  # a sub-agent's own file
    head = entries[main[-1]].id if main else None
    ids = {entry.id for entry in entries if entry.id is not None}
    sub_agents = {
        entry.id: line.get("parent_tool_use_id") or ""
        for entry, line in zip(entries, owners, strict=True)
        if entry.id is not None and _is_sub_agent(line)
    }
    model = None
    for at in main or range(len(entries)):
        given = getattr(entries[at].message, "model", None)
        model = given if isinstance(given, str) and given not in ("", SYNTHETIC) else model
    linked, tails = _linked(join(entries, groups, API), aliases, sub_agents, _streamed(lines))
    head = aliases.get(head, head)
    head = tails.get(head or "", head)
    return Conversation(
        entries=tuple(linked),
        head=head if not linked or head != linked[-1].id else None,
        model=ModelDescriptor(id=model, provider="anthropic") if model else None,
        title=_title(lines, ids),
        usage=_total(lines),
        extra={API: {FILE: True, **envelope}},
    )


def _opened(data: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The lines, and what stands around them."""
    if isinstance(data, dict) and isinstance(data.get("loglines"), list):  # an export from the web
        return {WEB: {key: value for key, value in data.items() if key != "loglines"}}, lines_of(data["loglines"], API)
    return ({ARRAY: True} if type(data) is list and _streamed(data) else {}), lines_of(data, API)


def _streamed(lines: list[Any]) -> bool:
    """Whether lines are the program's output: it has no parents, every line follows the one before."""
    return any("session_id" in line and "sessionId" not in line for line in lines)


def _is_sub_agent(line: dict[str, Any]) -> bool:
    return line.get("isSidechain") is True or isinstance(line.get("parent_tool_use_id"), str)


def _answers(entries: list[Entry], owners: list[dict[str, Any]]) -> list[list[int]]:
    """The lines of each answer that was written as several: one a block, with the same `message.id`."""
    groups: dict[tuple[str, Any], list[int]] = {}
    for at, (entry, line) in enumerate(zip(entries, owners, strict=True)):
        repeated = NAMED in entry.extra.get(API, {})  # a line that the file has twice
        if isinstance(entry.message, AssistantMessage) and entry.message.response_id and not repeated:
            thread = line.get("agentId") or line.get("parent_tool_use_id") or line.get("isSidechain")
            groups.setdefault((entry.message.response_id, thread), []).append(at)
    return [group for group in groups.values() if len(group) > 1]


def _linked(
    entries: list[Entry], aliases: Mapping[str | None, str | None], sub_agents: Mapping[str, str], streamed: bool
) -> tuple[list[Entry], dict[str, str]]:
    """The entries with messages for parents, not lines; and where each chain of results ends, by its members.

    The result of a call has the line of its call for a parent, so the results of parallel calls are siblings in the
    file. Here they follow one another, and what follows one of them follows the last. `sub_agents` are the entries of
    sub-agents, with the call that each belongs to where the file tells it.
    """
    prompts: dict[Any, tuple[str, str]] = {}  # what a sub-agent is asked -> the answer and the call that ask it
    tails: dict[str, str] = {}  # answer -> the last entry of its chain
    member: dict[str, str] = {}  # entry -> the answer in whose chain it stands
    callers: dict[str, str] = {}  # call -> answer
    known: set[str] = set()
    last: dict[str | None, str] = {}  # of each thread
    out = []
    for entry in entries:
        id = entry.id
        if id is None:
            out.append(entry)
            continue
        parent = aliases.get(entry.parent_id, entry.parent_id)
        if streamed:  # a line follows the one before, sub-agents in threads of their own
            parent = last.get(sub_agents.get(id))
            last[sub_agents.get(id)] = id
        if parent not in known:
            parent = None  # in another file
        message: Any = entry.message
        if id in sub_agents and parent is None:
            entry = _spawned(entry, sub_agents[id], callers, prompts)
        answer = member.get(parent or "", parent if parent in tails else None)
        asked = callers.get(message.tool_call_id) if isinstance(message, ToolResultMessage) else None
        turn = isinstance(message, AssistantMessage) or (isinstance(message, UserMessage) and message.origin is None)
        if answer is not None and parent is not None and (id in sub_agents) == (answer in sub_agents):
            if asked == answer or (asked is None and not turn and not isinstance(message, ToolResultMessage)):
                parent = tails[answer]
                tails[answer] = id
                member[id] = answer
            elif parent in member:
                parent = tails[answer]
        if isinstance(message, AssistantMessage) and message.tool_calls:
            tails[id] = id
            callers.update((call.id, id) for call in message.tool_calls)
            asked_of = ((call.arguments.get("prompt"), call.id) for call in message.tool_calls)
            prompts.update((prompt, (id, call)) for prompt, call in asked_of if isinstance(prompt, str))
        known.add(id)
        out.append(place(entry, parent, API))
    return out, {id: tails[answer] for id, answer in member.items()}


def _spawned(entry: Entry, call: str, callers: Mapping[str, str], prompts: Mapping[Any, tuple[str, str]]) -> Entry:
    """The first entry of a sub-agent, with the call that started it: named in the file, or asking the same."""
    answer = callers.get(call)
    found = (answer, call) if answer is not None else prompts.get(getattr(entry.message, "text", None))
    return (
        entry if found is None else with_residual(entry, API, **{SPAWNED_BY: {"entry": found[0], "callId": found[1]}})
    )


_TITLES = (("custom-title", "customTitle"), ("ai-title", "aiTitle"), ("summary", "summary"))  # the first counts


def _title(lines: list[dict[str, Any]], ids: Container[str | None]) -> str | None:
    """The title that a person gave, or a model; a `summary` is one if it is of this session."""
    found: dict[str, str] = {}
    for line in lines:
        for kind, key in _TITLES:
            ours = kind != "summary" or line.get("leafUuid") in ids
            if line.get("type") == kind and isinstance(line.get(key), str) and ours:
                found[kind] = line[key]
    return found.get("custom-title") or found.get("ai-title") or found.get("summary")


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
    lines, losses = _records_of().write(replace(conversation, entries=tuple(apart(conversation.entries, API))))
    if WEB in envelope:
        return Encoded({**envelope[WEB], "loglines": lines}, tuple(losses))
    return Encoded(lines if ARRAY in envelope else Lines(lines), tuple(losses))


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
            # Qwen Code has the same lines with Gemini's `parts` in them.
            if "parts" in message or message.get("role", kind) != kind:
                return None
            if "session_id" in line and "sessionId" not in line:
                return "lines with a `message` and `session_id`"
            return "lines with a `message`" + (", `uuid` and `sessionId`" if "sessionId" in line else "")
        if kind in _KINDS and _KINDS[kind] in line:
            return f"a `{kind}` line with its `{_KINDS[kind]}`"
        if kind == "system" and line.get("subtype") == "init" and "session_id" in line:
            return "an `init` line with its `session_id`"
    return None


class _Skim(LineSkim):
    """A session file line by line."""

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        super().__init__(state)
        self._ids: set[str] = set()

    def messages(self, line: dict[str, Any]) -> list[tuple[str, Any]]:
        id = line.get("uuid")
        if isinstance(id, str):
            self._ids.add(id)
        else:
            self._find_title(line)
        summary = self.state.get("summaries", {}).get(id)
        if summary is not None:
            self._entitle("summary", summary)
        plain = _plain_message(line)
        found = _decode_line(line) if plain is None else [plain]
        return [(id if isinstance(id, str) else "", message) for message in found]

    def _find_title(self, line: dict[str, Any]) -> None:
        """As `_title`: a `summary` counts if it is of this session, whose lines may come later."""
        kind, leaf = line.get("type"), line.get("leafUuid")
        for name, key in _TITLES:
            if kind == name and isinstance(line.get(key), str):
                if kind != "summary" or leaf in self._ids:
                    self._entitle(kind, line[key])
                elif isinstance(leaf, str):
                    self.state.setdefault("summaries", {})[leaf] = line[key]

    def _entitle(self, kind: str, title: str) -> None:
        ranks = [name for name, _ in _TITLES]
        if ranks.index(kind) <= ranks.index(self.state.get("title", "summary")):
            self.title, self.state["title"] = title, kind


# The usual lines are read here without the wire's dialect, which also keeps what a return trip needs: that takes five
# times as long. A line of any other shape is left to it.
_ENDS = ("end_turn", "stop_sequence", "tool_use", None)  # of an answer that did not fail


def _plain_message(line: dict[str, Any]) -> Any:
    """The message of a line with nothing unusual in it; None for any other."""
    inner, kind = line.get("message"), line.get("type")
    if type(inner) is not dict or inner.get("role") != kind:
        return None
    content, when = inner.get("content"), milliseconds(line.get("timestamp"))
    if kind == "assistant":
        return _plain_answer(inner, content, when)
    if kind != "user":
        return None
    if type(content) is str:
        return _attributed(UserMessage(content=content, timestamp=when), line)
    result = content[0] if type(content) is list and len(content) == 1 else None
    if type(result) is not dict or result.get("type") != "tool_result":
        return None
    id, text = result.get("tool_use_id"), result.get("content")
    if type(id) is not str or type(text) is not str:
        return None
    failed = result.get("is_error") is True
    return ToolResultMessage(tool_call_id=id, tool_name=None, content=text, is_error=failed, timestamp=when)


def _plain_answer(inner: dict[str, Any], content: Any, when: int | None) -> AssistantMessage | None:
    usage, id, model, end = (inner.get(key) for key in ("usage", "id", "model", "stop_reason"))
    if type(content) is not list or type(usage) is not dict or type(id) is not str or type(model) is not str:
        return None
    buckets = [usage.get(key, 0) for key in _BUCKETS]
    blocks = [_plain_block(block) for block in content]
    if end not in _ENDS or None in blocks or any(type(number) is not int for number in buckets):
        return None
    return AssistantMessage(
        content=tuple(blocks),
        provider="anthropic",
        model=model,
        response_id=id,
        usage=Usage.of(buckets[0], buckets[1], cache_read=buckets[2], cache_write=buckets[3]),
        timestamp=when,
    )


_BUCKETS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def _plain_block(block: Any) -> Any:
    kind = block.get("type") if type(block) is dict else None
    if kind == "text" and type(block.get("text")) is str:
        return TextBlock(text=block["text"])
    if kind == "thinking" and type(block.get("thinking")) is str:
        return ThinkingBlock(thinking=block["thinking"])
    if kind == "tool_use" and type(block.get("input")) is dict:
        id, name = block.get("id"), block.get("name")
        return ToolCall(id=id, name=name, arguments=block["input"]) if type(id) is str and type(name) is str else None
    return None


def skim(first: Sequence[Any], state: dict[str, Any] | None = None) -> LineSkim | None:
    """A reader of single lines; not of the program's output, whose usage is stated at its end."""
    return None if _streamed(list(first)) else _Skim(state)


FORMAT = FileFormat(
    name="claude-code",
    codec=sys.modules[__name__],
    detect=detect,
    lines=True,
    write=new_sessions.claude_code,
    adapted_for=WIRE,
    skim=skim,
)
