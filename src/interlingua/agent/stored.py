"""An agent's history in a session: what was said as entries, what was begun as journal lines beside them."""

from typing import Any

from ..dialects.foreign_blocks import meant
from ..sessions.session import Session, UnfinishedCall
from ..values.canonical import build, plain
from ..values.messages import AgentMessage, ToolCall, ToolResultMessage
from ..values.request import Entry
from .batch import Journal


class Stored(Journal):
    """A history that another process can take up. In memory is only what the model reads."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.journal: Journal = self
        self.messages: list[AgentMessage] = []
        self._open: dict[str, UnfinishedCall] = {}
        self.reload()

    @property
    def entries(self) -> tuple[Entry, ...]:
        return self.session.context_entries()

    def append(self, message: AgentMessage) -> None:
        self.session.append(message)
        self.messages.append(message)
        if isinstance(message, ToolResultMessage):
            self._open.pop(message.tool_call_id, None)

    def note_begun(self, call: ToolCall) -> None:
        self.session.journal("tool_start", call_id=call.id, name=call.name)

    def note_finished(self, call: ToolCall, result: ToolResultMessage) -> None:
        self.session.journal("tool_end", call_id=call.id, name=call.name, result=plain(result))

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
        self.messages[:] = meant(self.session.context_messages())  # or a call with a result would run again
        self._open = {}
        for found in self.session.unfinished_calls():
            same = self._open.get(found.call.id)
            if same is not None:  # calls of one id cannot be told apart here: none is run again if one of them began
                found = found._replace(started=found.started or same.started, ended=False, result=None)
            self._open[found.call.id] = found
