"""Where an agent keeps what was said: in memory, or in a session."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from ..sessions.compaction import ROLE, summary_message, unsigned
from ..values.messages import AgentMessage, CustomMessage, ToolCall, ToolResultMessage
from ..values.request import Entry
from .batch import Journal


class History(Protocol):
    """The agent's side of a store."""

    @property
    def messages(self) -> Sequence[AgentMessage]: ...
    @property
    def entries(self) -> Sequence[Entry]:
        """The messages in their places, as far as the model reads them."""
        ...

    @property
    def journal(self) -> Journal: ...
    def append(self, message: AgentMessage) -> None: ...
    def begun(self, call_id: str) -> bool:
        """Whether a call is known to have begun, in this process or one before."""
        ...

    def finished(self, call_id: str) -> ToolResultMessage | None:
        """The result of a call that finished and was not yet answered."""
        ...

    def sync(self) -> None:
        """Makes sure that what was appended survives."""
        ...

    def compact(self, summary: str, first_kept: str | None, **about: Any) -> None:
        """Puts a summary in the place of what came before the entry that is kept first."""
        ...

    def reload(self) -> None:
        """Reads the history anew, after somebody else changed where it stands."""
        ...


class Memory(Journal):
    """A history that ends with the process."""

    def __init__(self, messages: Iterable[AgentMessage] = ()) -> None:
        self.messages: list[AgentMessage] = list(messages)
        self.journal: Journal = self
        self._begun: set[str] = set()
        self._finished: dict[str, ToolResultMessage] = {}
        self._compaction: tuple[AgentMessage, CustomMessage] | None = None  # the latest, as it is told and as it is

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
        """The first message is the compaction itself where it tells its summary: a later one brings that up to date."""
        messages = list(self.messages)
        if self._compaction is not None and messages and messages[0] is self._compaction[0]:
            messages[0] = self._compaction[1]
        return [Entry(message=message, id=str(at)) for at, message in enumerate(messages)]  # type: ignore[arg-type]

    def sync(self) -> None:
        pass

    def compact(self, summary: str, first_kept: str | None, **about: Any) -> None:
        kept = (
            [] if first_kept is None else [m for m in map(unsigned, self.messages[int(first_kept) :]) if m is not None]
        )
        given = summary_message(summary)
        self._compaction = given, CustomMessage(ROLE, {"summary": summary, "details": about.get("details")})
        self.messages[:] = [given, *kept]

    def reload(self) -> None:
        pass


def opened(session: Any, messages: Iterable[AgentMessage]) -> History:
    """The history for an agent: the session's, else one in memory."""
    if session is None:
        return Memory(messages)
    from .stored import Stored

    history = Stored(session)
    for message in messages:
        history.append(message)
    return history
