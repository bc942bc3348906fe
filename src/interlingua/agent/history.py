"""An agent's message history: in memory, or in a session."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from ..dialects.foreign_blocks import meant
from ..sessions.compaction import ROLE, summary_message, unsigned
from ..sessions.reader import UnfinishedCall
from ..sessions.session import Session
from ..values.canonical import build, plain
from ..values.errors import FormatError
from ..values.messages import AgentMessage, CustomMessage, Message, TextBlock, ToolCall, ToolResultMessage, UserMessage
from ..values.request import Entry
from .batch import CallJournal

# Converts an agent's history to the messages that a model reads.
#
# An application's own messages are kept in the history and dropped here, unless a converter is registered for their
# role.


Answered = Callable[[CustomMessage], "Message | str | None"]

_ROLES: dict[str, Answered] = {}


def register_message(role: str, to_text: Answered) -> None:
    """Registers a converter for messages of this role: it returns a message, a text for the user's role, or None."""
    _ROLES[role] = to_text


def for_models(messages: Iterable[AgentMessage]) -> list[Message]:
    """Returns the messages that models read, in order."""
    messages = tuple(messages)
    if not any(issubclass(kind, CustomMessage) for kind in set(map(type, messages))):
        return [*messages]  # type: ignore[list-item]
    read = (_converted(message) if isinstance(message, CustomMessage) else message for message in messages)
    return [message for message in read if message is not None]


def _converted(message: CustomMessage) -> Message | None:
    to_text = _ROLES.get(message.role)
    text = to_text(message) if to_text is not None else None
    if isinstance(text, str):
        at = message.fields.get("timestamp")
        return UserMessage(content=(TextBlock(text=text),), timestamp=at if isinstance(at, int) else None)
    return text


# --- the roles of pi's coding agent -----------------------------------------------------------------------------------


def _bash(message: CustomMessage) -> str | None:
    fields = message.fields
    if fields.get("excludeFromContext"):
        return None
    output = fields.get("output") or ""
    lines = [f"Ran `{fields.get('command', '')}`", f"```\n{output}\n```" if output else "(no output)"]
    if fields.get("cancelled"):
        lines.append("(the command was cancelled)")
    elif fields.get("exitCode"):
        lines.append(f"The command ended with exit code {fields['exitCode']}.")
    if fields.get("truncated") and fields.get("fullOutputPath"):
        lines.append(f"(output cut short; all of it is in {fields['fullOutputPath']})")
    return "\n".join(lines)


def _custom(message: CustomMessage) -> Message | str | None:
    content = message.fields.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        from ..values.canonical import build

        user: UserMessage = build({"role": "user", "content": content}, UserMessage)
        return user
    return None


def _branch(message: CustomMessage) -> str:
    return (
        "This is a summary of another branch of this conversation, which was left:\n"
        f"<summary>\n{message.fields.get('summary', '')}\n</summary>"
    )


def _compaction(message: CustomMessage) -> str:
    return (
        "What came before in this conversation was summed up to make room:\n"
        f"<summary>\n{message.fields.get('summary', '')}\n</summary>"
    )


register_message("bashExecution", _bash)
register_message("custom", _custom)
register_message("branchSummary", _branch)
register_message("compactionSummary", _compaction)


# An agent's history in a session: messages as entries, started calls as journal lines beside them.


class StoredHistory(CallJournal):
    """A history that another process can resume. Only what the model reads is in memory."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.journal: CallJournal = self
        self.messages: list[AgentMessage] = []
        self._open: dict[str, UnfinishedCall] = {}
        self.reload()

    @property
    def entries(self) -> tuple[Entry, ...]:
        return self.session.context_entries()

    def append(self, message: AgentMessage) -> None:
        self._append(message)
        self.messages.append(message)
        if isinstance(message, ToolResultMessage):
            self._open.pop(message.tool_call_id, None)

    def _append(self, message: AgentMessage) -> None:
        self.session.append(message)

    def note_begun(self, call: ToolCall) -> None:
        self._note("tool_start", call)

    def note_finished(self, call: ToolCall, result: ToolResultMessage) -> None:
        self._note("tool_end", call, result=plain(result))

    def _note(self, kind: str, call: ToolCall, **fields: Any) -> None:
        self.session.journal(kind, call_id=call.id, name=call.name, **fields)

    def begun(self, call_id: str) -> bool:
        found = self._open.get(call_id)
        return found is not None and found.started

    def finished(self, call_id: str) -> ToolResultMessage | None:
        found = self._open.get(call_id)
        given: Any = found.result if found is not None else None
        if not isinstance(given, dict):
            return None
        result: ToolResultMessage = build(given, ToolResultMessage)
        return result

    def sync(self) -> None:
        self.session.sync()

    def compact(self, summary: str, first_kept: str | None, **about: Any) -> None:
        self.session.compact(summary, first_kept, **about)
        self.sync()
        self.reload()

    def reload(self) -> None:
        messages, unfinished = self._read()
        self.messages[:] = meant(messages)  # or a call with a result would run again
        self._open = {}
        for found in unfinished:
            same = self._open.get(found.call.id)
            if same is not None:  # calls with one id look the same: none runs again if one started
                found = found._replace(started=found.started or same.started, ended=False, result=None)
            self._open[found.call.id] = found

    def _read(self) -> tuple[Sequence[AgentMessage], Sequence[UnfinishedCall]]:
        return self.session.context_messages(), self.session.unfinished_calls()


class History(Protocol):
    """The agent's interface to a history."""

    @property
    def messages(self) -> Sequence[AgentMessage]: ...
    @property
    def entries(self) -> Sequence[Entry]:
        """The entries that the model reads."""
        ...

    @property
    def journal(self) -> CallJournal: ...
    def append(self, message: AgentMessage) -> None: ...
    def begun(self, call_id: str) -> bool:
        """Whether a call is known to have started, in this process or an earlier one."""
        ...

    def finished(self, call_id: str) -> ToolResultMessage | None:
        """Returns the result of a call that finished and has no result message yet."""
        ...

    def sync(self) -> None:
        """Syncs appended entries to disk."""
        ...

    def compact(self, summary: str, first_kept: str | None, **about: Any) -> None:
        """Replaces everything before the first kept entry by a summary."""
        ...

    def reload(self) -> None:
        """Reads the history again, after another writer moved its head."""
        ...


class Memory(CallJournal):
    """A history in memory."""

    def __init__(self, messages: Iterable[AgentMessage] = ()) -> None:
        self.messages: list[AgentMessage] = list(messages)
        self.journal: CallJournal = self
        self._begun: set[str] = set()
        self._finished: dict[str, ToolResultMessage] = {}
        self._compaction: tuple[AgentMessage, CustomMessage] | None = None  # as sent, and as stored

    def append(self, message: AgentMessage) -> None:
        self.messages.append(message)
        if isinstance(message, ToolResultMessage):
            self._begun.discard(message.tool_call_id)
            self._finished.pop(message.tool_call_id, None)

    def note_begun(self, call: ToolCall) -> None:
        self._begun.add(call.id)

    def note_finished(self, call: ToolCall, result: ToolResultMessage) -> None:
        self._finished[call.id] = result

    def begun(self, call_id: str) -> bool:
        return call_id in self._begun

    def finished(self, call_id: str) -> ToolResultMessage | None:
        return self._finished.get(call_id)

    @property
    def entries(self) -> list[Entry]:
        """The first message is the compaction itself if it has a summary: a later one updates it."""
        messages = list(self.messages)
        if self._compaction is not None and messages and messages[0] is self._compaction[0]:
            messages[0] = self._compaction[1]
        return [Entry(message=message, id=str(at)) for at, message in enumerate(messages)]  # type: ignore[arg-type]

    def sync(self) -> None:
        pass

    def compact(self, summary: str, first_kept: str | None, **about: Any) -> None:
        # Thinking before a summary lost what its signature covers.
        kept = (
            [] if first_kept is None else [m for m in map(unsigned, self.messages[int(first_kept) :]) if m is not None]
        )
        given = summary_message(summary)
        self._compaction = given, CustomMessage(ROLE, {"summary": summary, "details": about.get("details")})
        self.messages[:] = [given, *kept]

    def reload(self) -> None:
        pass


def opened(session: Any, messages: Iterable[AgentMessage]) -> History:
    """Returns the history for an agent: the session's, else one in memory."""
    if session is None:
        return Memory(messages)
    if not hasattr(session, "context_messages"):
        raise FormatError(f"a session must be a Session (Session.open(…)), not {type(session).__name__}", "session")
    history = StoredHistory(session)
    for message in messages:
        history.append(message)
    return history
