"""Encodes any conversation as a session that Claude Code, Codex or opencode can resume.

Each program finds a session by the id in it: Claude Code as `~/.claude/projects/FOLDER/SESSION.jsonl` (`claude -r`),
Codex as `~/.codex/sessions/YYYY/MM/DD/rollout-TIME-SESSION.jsonl` (`codex resume`), opencode by `opencode import FILE`.
Ids and missing times are made of the conversation itself, so the same conversation gives the same file. The messages of
the first two are in the format of a wire, for which the conversation is adapted before it comes here.
"""

import hashlib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from msgspec.structs import fields as struct_fields
from msgspec.structs import replace

from ...values.canonical import dump
from ...values.losses import Encoded, Lines, Loss, Reporter, SupportTable, bookkeeping, dropped, record, some
from ...values.messages import (
    AgentMessage,
    AssistantMessage,
    AudioBlock,
    Block,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    blocks_of,
    text_of,
)
from ...values.request import Conversation, Entry, Options
from .. import dialect
from ..comparison import losses_of
from .records import LINEAR, iso
from .templates import beginning

EPOCH = 1_735_689_600_000  # the first of January 2025, for messages without a timestamp
FOLDERS = ("cwd", "directory", "workspaceDirectory", "working_dir", "workDir")  # programs' names for where they ran


# --- what they share -------------------------------------------------------------------------------------------------


class Facts:
    """What a session derives from all of its messages: the seed of its ids, its first message, its folder."""

    def __init__(self, about: Conversation) -> None:
        """`about` is the conversation; its entries are added one by one."""
        extra = beginning(about.extra)  # of a large file there is no more in memory
        self._hash = hashlib.blake2b(dump(replace(about, entries=(), extra=extra)), digest_size=16)
        self._count = 0
        self.first: Message | None = None
        self.folder = next(_folders(extra), None)

    def add(self, entry: Entry) -> None:
        self._hash.update(dump(entry))
        message: Any = entry.message
        if self.first is None and not isinstance(message, CustomMessage):
            self.first = message
        if self.folder is None and self._count < 20:
            kept = message.fields if isinstance(message, CustomMessage) else entry.extra
            self.folder = next(_folders(kept), None)
        self._count += 1

    @property
    def seed(self) -> bytes:
        return self._hash.digest()


def facts_of(conversation: Conversation) -> Facts:
    facts = Facts(conversation)
    for entry in conversation.entries:
        facts.add(entry)
    return facts


class _Session:
    """The ids, times and folder of a session."""

    def __init__(self, about: Conversation, facts: Facts, time: int | None = None) -> None:
        """`time` is that of the message before."""
        self._seed = facts.seed
        self.id = self.uuid("session")
        self.cwd = facts.folder or "/"
        self.model = about.model.id if about.model is not None else ""
        self.time = time

    def uuid(self, of: Any) -> str:
        """An id that nothing else in the session has, in the form of a random UUID."""
        made = hashlib.blake2b(f"{of}".encode(), key=self._seed, digest_size=16).digest()
        return str(uuid.UUID(bytes=made, version=4))

    def word(self, of: Any, length: int) -> str:
        """Letters and digits for an id."""
        return self.uuid(of).replace("-", "")[:length]

    def moment(self, message: Any) -> int:
        """Returns a message's timestamp; without one, a moment after the previous message."""
        stated = getattr(message, "timestamp", None)
        if stated is None or (self.time is not None and stated < self.time):
            stated = EPOCH if self.time is None else self.time + 1
        self.time = stated
        return int(stated)


def _folders(value: Any, depth: int = 6) -> Iterator[str]:
    """Folders that a program noted, near the top of what was kept of its file."""
    if isinstance(value, dict) and depth:
        yield from (item for key, item in value.items() if key in FOLDERS and isinstance(item, str) and item)
    inside = value.values() if isinstance(value, dict) else value[:5] if isinstance(value, list | tuple) else ()
    for item in inside if depth else ():
        yield from _folders(item, depth - 1)


class NewSessionWriter(Protocol):
    """Writes a session message by message: the lines before them, of each, and after them.

    `UNSUPPORTED` are the fields of a conversation that the program has of its own.
    """

    UNSUPPORTED: ClassVar[tuple[str, ...]]

    def __init__(self, about: Conversation, facts: Facts) -> None: ...
    def begin(self) -> Iterator[dict[str, Any]]: ...
    def message(self, at: int, message: Message, report: Reporter) -> Iterator[dict[str, Any]]: ...
    def end(self) -> Iterator[dict[str, Any]]: ...


def unsupported(conversation: Conversation, *names: str) -> Iterator[Loss]:
    """The fields of a call that the program writes itself."""
    for name in names:
        if getattr(conversation, name) not in (None, (), type(conversation.options)()):
            yield Loss(f"$.{name}", name, "the program that resumes the session has its own", "dropped")


def _messages(conversation: Conversation) -> list[Message]:
    return [message for message in conversation.messages if not isinstance(message, CustomMessage)]


def _written(conversation: Conversation, writer_of: type[NewSessionWriter]) -> Encoded:
    writer = writer_of(conversation, facts_of(conversation))
    lines, losses = Lines(writer.begin()), list(unsupported(conversation, *writer_of.UNSUPPORTED))
    for at, message in enumerate(_messages(conversation)):
        report = Reporter(f"$.messages[{at}]")
        lines += writer.message(at, message, report)
        losses += report.losses
    lines += writer.end()
    return Encoded(lines, tuple(losses))


# --- Claude Code -----------------------------------------------------------------------------------------------------

CLAUDE_VERSION = "2.0.0"


def claude_code(conversation: Conversation) -> Encoded:
    """A line for each message of the user, result, and block of an answer; each is the parent of the next."""
    return _written(conversation, ClaudeWriter)


class ClaudeWriter:
    """The lines of a session, message by message."""

    UNSUPPORTED: ClassVar[tuple[str, ...]] = ("system", "tools", "options")

    def __init__(self, about: Conversation, facts: Facts) -> None:
        self._session, self._wire = _Session(about, facts), dialect("anthropic-messages")
        self._title = about.title
        self._parent: str | None = None

    def begin(self) -> Iterator[dict[str, Any]]:
        yield from ()

    def message(self, at: int, message: Message, report: Reporter) -> Iterator[dict[str, Any]]:
        session = self._session
        when = iso(session.moment(message))
        for number, body in enumerate(_claude_messages(message, at, session, self._wire, report)):
            own = session.uuid(f"{at}.{number}")
            about = {"parentUuid": self._parent, "isSidechain": False, "userType": "external", "cwd": session.cwd}
            about |= {"sessionId": session.id, "version": CLAUDE_VERSION, "gitBranch": ""}
            meta = {"isMeta": True} if isinstance(message, UserMessage) and message.origin is not None else {}
            asked = {"requestId": f"req_{session.word(at, 24)}"} if body["role"] == "assistant" else {}
            kind = "assistant" if body["role"] == "assistant" else "user"
            yield {**about, **meta, **asked, "type": kind, "message": body, "uuid": own, "timestamp": when}
            self._parent = own

    def end(self) -> Iterator[dict[str, Any]]:
        if self._title is not None:
            yield {"type": "custom-title", "customTitle": self._title, "sessionId": self._session.id}


def _claude_messages(
    message: Message, at: int, session: _Session, wire: Any, report: Reporter
) -> Iterator[dict[str, Any]]:
    """The wire's message, an answer in as many as it has blocks: they share its id and its usage."""
    for body in wire.encode_messages((message,), report):
        if not isinstance(message, AssistantMessage):
            yield {**body, "role": "user"}
            continue
        content = body.get("content")
        content = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        about: dict[str, Any] = {"id": f"msg_{session.word(at, 24)}", "type": "message", "role": "assistant"}
        about["model"] = message.response_model or message.model or session.model or "unknown"
        stopped = {"stop_reason": "tool_use" if message.tool_calls else "end_turn", "stop_sequence": None}
        for block in content:
            yield {**about, "content": [block], **stopped, "usage": _claude_usage(message.usage)}


def _claude_usage(usage: Usage | None) -> dict[str, Any]:
    given = usage or Usage.of()
    return {
        "input_tokens": given.input,
        "cache_creation_input_tokens": given.cache_write,
        "cache_read_input_tokens": given.cache_read,
        "output_tokens": given.output,
        "service_tier": "standard",
    }


# --- Codex -----------------------------------------------------------------------------------------------------------

CODEX_VERSION = "0.50.0"


def codex_cli(conversation: Conversation) -> Encoded:
    """The header, the settings of the turn, and an item a line; what the screen shows again stands beside it."""
    return _written(conversation, CodexWriter)


class CodexWriter:
    """The lines of a session, message by message."""

    UNSUPPORTED: ClassVar[tuple[str, ...]] = ("tools", "options", "title")

    def __init__(self, about: Conversation, facts: Facts) -> None:
        self._session, self._wire = _Session(about, facts), dialect("openai-responses")
        self._about, self._first = about, facts.first
        self._spent = Usage.of()

    def begin(self) -> Iterator[dict[str, Any]]:
        session = self._session
        started = iso(session.moment(self._first))
        header = {"id": session.id, "timestamp": started, "cwd": session.cwd, "originator": "codex_cli_rs"}
        instructions = text_of(self._about.system) or None
        header |= {"cli_version": CODEX_VERSION, "instructions": instructions, "source": "cli"}
        # No `model_provider`: Codex refuses a session of another than its current one ("This chat uses openai, but your
        # current provider is …").
        yield {"timestamp": started, "type": "session_meta", "payload": header}
        # Older versions name the policy's kind `mode`, newer ones `type`; both ignore the other.
        policy = {"type": "read-only", "mode": "read-only"}
        settings = {"cwd": session.cwd, "approval_policy": "on-request", "sandbox_policy": policy}
        settings |= {"model": session.model or "unknown", "summary": "auto"}
        yield {"timestamp": started, "type": "turn_context", "payload": settings}

    def message(self, at: int, message: Message, report: Reporter) -> Iterator[dict[str, Any]]:
        when = iso(self._session.moment(message))
        for item in self._wire.encode_messages((message,), report):  # type: ignore[attr-defined]
            yield {"timestamp": when, "type": "response_item", "payload": codex_item(item)}
        shown = _codex_event(message)
        if shown is not None:
            yield {"timestamp": when, "type": "event_msg", "payload": shown}
        if isinstance(message, AssistantMessage) and message.usage is not None:
            self._spent = spent = _added(self._spent, message.usage)
            counted = {"total_token_usage": _codex_usage(spent), "last_token_usage": _codex_usage(message.usage)}
            event = {"type": "token_count", "info": {**counted, "model_context_window": None}, "rate_limits": None}
            yield {"timestamp": when, "type": "event_msg", "payload": event}

    def end(self) -> Iterator[dict[str, Any]]:
        yield from ()


def codex_item(item: dict[str, Any]) -> dict[str, Any]:
    """An item as the program writes it: the content of a message is always a list."""
    if "role" not in item:
        return item
    kind = "output_text" if item["role"] == "assistant" else "input_text"
    content = item.get("content")
    if isinstance(content, str):
        content = [{"type": kind, "text": content}]
    return {"type": "message", **item, "content": content or []}


def _codex_event(message: Message) -> dict[str, Any] | None:
    if isinstance(message, UserMessage) and message.origin is None:
        return {"type": "user_message", "message": message.text, "kind": "plain"}
    if isinstance(message, AssistantMessage) and message.text:
        return {"type": "agent_message", "message": message.text}
    return None


def _added(one: Usage, other: Usage) -> Usage:
    return Usage.of(
        one.input + other.input,
        one.output + other.output,
        cache_read=one.cache_read + other.cache_read,
        cache_write=one.cache_write + other.cache_write,
        reasoning=(one.reasoning or 0) + (other.reasoning or 0),
    )


def _codex_usage(usage: Usage) -> dict[str, int]:
    """The input includes what was cached."""
    whole = usage.input + usage.cache_read + usage.cache_write
    return {
        "input_tokens": whole,
        "cached_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "reasoning_output_tokens": usage.reasoning or 0,
        "total_tokens": whole + usage.output,
    }


# --- opencode --------------------------------------------------------------------------------------------------------

OPENCODE_VERSION = "1.0.0"


OPENCODE = "opencode"
_OWN = "the program that resumes the session has its own"
_OPENCODE_SUPPORT: SupportTable = {
    **bookkeeping(OPENCODE),
    **LINEAR,
    **dropped(" ".join(f"Options.{field.name}" for field in struct_fields(Options)), _OWN),
    **dropped("Context.system Context.system_role Context.tools", _OWN),
    **record("ModelDescriptor.id", "only an answer names its model"),
    **record(" ".join(f"Usage.{field.name}" for field in struct_fields(Usage)), "opencode writes no sums"),
    **some("UserMessage.content AssistantMessage.content", "what opencode has no part for is dropped"),
}


class OpencodeWriter:
    """Encodes the pieces of a conversation one after the other as exported sessions of opencode.

    A session has a message for each turn, and a tool part for each call with its result. The `info` of the last piece
    is that of the whole. `decode` reads a session again.
    """

    def __init__(self, about: Conversation, facts: Facts, decode: Callable[[Any], Conversation]) -> None:
        self._about, self._facts, self._decode = about, facts, decode
        self._session, self._count = _Session(about, facts), 1
        self._asked = ""  # the message that the next answers belong to
        self._times: tuple[int, int] | None = None  # of the first message and of the last

    def __call__(self, piece: Conversation) -> Encoded:
        self._session = _Session(self._about, self._facts, self._session.time)  # there may be more facts
        own = self._id("ses", EPOCH, 1)
        results, answers = _paired(piece.messages)
        encoded, messages = [], []
        for at, message in enumerate(piece.messages):
            if not isinstance(message, CustomMessage | ToolResultMessage):
                messages.append(self._message(own, message, results.get(at, {})))
            if not isinstance(message, CustomMessage | ToolResultMessage) or at in answers:
                encoded.append(at)
        created, updated = self._times or (EPOCH, EPOCH)
        info = {
            "id": own,
            "slug": self._session.word("slug", 8),
            "projectID": "global",
            "directory": self._session.cwd,
            "title": self._about.title or "Imported session",
            "version": OPENCODE_VERSION,
            "time": {"created": created, "updated": updated},
        }
        body = {"info": info, "messages": messages}
        return Encoded(body, losses_of(piece, encoded, lambda: self._decode(body), _OPENCODE_SUPPORT, OPENCODE))

    def _id(self, prefix: str, when: int, number: int | None = None) -> str:
        """Ids sort by time: six bytes of milliseconds and a counter, then what makes them unique."""
        if number is None:
            self._count += 1
            number = self._count
        return f"{prefix}_{((when << 12) + number) & (1 << 48) - 1:012x}{self._session.word(number, 14)}"

    def _message(self, session: str, message: Message, results: Mapping[int, ToolResultMessage]) -> dict[str, Any]:
        """`results` are those of the calls, by the number of the block."""
        when = self._session.moment(message)
        self._times = (when if self._times is None else self._times[0], when)
        own = self._id("msg", when)
        model = {
            "providerID": getattr(message, "provider", None) or "unknown",
            "modelID": self._session.model or "unknown",
        }
        about: dict[str, Any] = {"id": own, "sessionID": session, "role": "user", "time": {"created": when}}
        if isinstance(message, AssistantMessage):
            usage = message.usage or Usage.of()
            about |= {"role": "assistant", "parentID": self._asked, "mode": "build", "agent": "build"}
            about["cost"] = usage.cost.total if usage.cost is not None else 0
            about["time"]["completed"] = when
            about |= {"providerID": model["providerID"], "modelID": message.model or model["modelID"]}
            about |= {"path": {"cwd": self._session.cwd, "root": self._session.cwd}, "tokens": _opencode_tokens(usage)}
            about["finish"] = "tool-calls" if message.tool_calls else "stop"
        else:
            about |= {"agent": "build", "model": model}
            self._asked = own
        put_in = {"synthetic": True} if not isinstance(message, AssistantMessage) and not _is_person(message) else {}
        parts = []
        for number, block in enumerate(blocks_of(message.content)):
            part = _opencode_part(block, when, results.get(number))
            if part is not None:
                place = {"id": self._id("prt", when), "sessionID": session, "messageID": own}
                parts.append({**place, **part, **(put_in if part["type"] == "text" else {})})
        return {"info": about, "parts": parts}


def _paired(messages: Sequence[AgentMessage]) -> tuple[dict[int, dict[int, ToolResultMessage]], set[int]]:
    """The results of calls, by the place of the answer and the number of the block; and the places of these results.

    A result answers the last call before it with its id that has none, of an answer the first one.
    """
    results: dict[int, dict[int, ToolResultMessage]] = {}
    places = set[int]()
    waiting: dict[str, list[tuple[int, int]]] = {}
    for at, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            for number, block in enumerate(blocks_of(message.content)):
                if isinstance(block, ToolCall):
                    waiting.setdefault(block.id, []).append((at, number))
        elif isinstance(message, ToolResultMessage) and waiting.get(message.tool_call_id):
            calls = waiting[message.tool_call_id]
            call = max(calls, key=lambda call: call[0])
            calls.remove(call)
            results.setdefault(call[0], {})[call[1]] = message
            places.add(at)
    return results, places


def _opencode_part(block: Block, when: int, result: ToolResultMessage | None) -> dict[str, Any] | None:
    times = {"start": when, "end": when}
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text}
        case ThinkingBlock():
            signed = {"metadata": {"anthropic": {"signature": block.thinking_signature}}}
            return {
                "type": "reasoning",
                "text": block.thinking,
                "time": times,
                **(signed if block.thinking_signature else {}),
            }
        case ImageBlock() | AudioBlock() | DocumentBlock():
            return _opencode_file(block)
        case ToolCall():
            return {"type": "tool", "callID": block.id, "tool": block.name, "state": _state(block, times, result)}
    return None


def _state(call: ToolCall, times: dict[str, int], result: ToolResultMessage | None) -> dict[str, Any]:
    if result is None:  # the program takes it for one that was interrupted
        return {"status": "running", "input": call.arguments, "time": {"start": times["start"]}}
    if result.is_error:
        return {"status": "error", "input": call.arguments, "error": result.text, "time": times}
    state = {"status": "completed", "input": call.arguments, "output": result.text, "title": call.name, "metadata": {}}
    files = [file for block in blocks_of(result.content) if (file := _opencode_file(block)) is not None]
    return {**state, "time": times, **({"attachments": files} if files else {})}


def _is_person(message: Any) -> bool:
    return isinstance(message, UserMessage) and message.origin is None


def _opencode_file(block: Any) -> dict[str, Any] | None:
    if not isinstance(block, ImageBlock | AudioBlock | DocumentBlock):
        return None
    mime = block.mime_type or ("image/png" if isinstance(block, ImageBlock) else "application/octet-stream")
    url = f"data:{mime};base64,{block.data}" if block.data is not None else block.url
    name = block.title if isinstance(block, DocumentBlock) else None
    return None if url is None else {"type": "file", "mime": mime, "url": url, **({"filename": name} if name else {})}


def _opencode_tokens(usage: Usage) -> dict[str, Any]:
    thought = usage.reasoning or 0
    cache = {"read": usage.cache_read, "write": usage.cache_write}
    return {"input": usage.input, "output": usage.output - thought, "reasoning": thought, "cache": cache}
