"""Which session to open, and what a session that is taken up again has to say."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from rich.console import RenderableType
from rich.text import Text

from ..sessions import Session, SessionError, SessionInfo, SessionNotFound, UnfinishedCall
from ..sessions.files import FileStore
from ..values.messages import AgentMessage, AssistantMessage, ToolResultMessage, UserMessage, text_of
from ..values.request import Conversation
from .rendering import headline, markdown, one_line, sent_by_user

AGENT = "main"
RECENT = 20
_RECALLED = 1_200  # characters of the last answer


def recent(most: int = RECENT) -> list[SessionInfo]:
    """The sessions in which something was said, the latest first."""
    return [info for info in FileStore().sessions(AGENT) if info.messages][:most]


def named(name: str) -> str:
    """The id of a session by its id or the beginning of it."""
    ids = [info.id for info in FileStore().sessions(AGENT)]
    found = [name] if name in ids else [id for id in ids if id.startswith(name)]
    if len(found) > 1:
        raise SessionError(f"{name!r} could be {', '.join(sorted(found)[:5])}: write more of it")
    if not found:
        raise SessionNotFound(f"there is no session {name!r}; /sessions or `interlingua sessions list` shows them")
    return found[0]


def open_session(name: str | None, *, resume: bool, system: str | None) -> Session:
    """The session that was asked for, open for writing: a named one, the latest, or a new one."""
    if resume and name is None:
        latest = recent(1)
        if not latest:
            raise SessionNotFound("there is no session to resume; begin one without --resume")
        name = latest[0].id
    about = Conversation(system=system) if system is not None else None
    if name is None:
        return Session.open(agent=AGENT, about=about)
    if "/" in name or name.endswith(".jsonl"):
        return Session.open(name, agent=AGENT, create=False)
    return Session.open(named(name), agent=AGENT, create=False)


def recalled(messages: Sequence[AgentMessage]) -> list[RenderableType]:
    """The last exchange, so that one knows where one was."""
    asked = next((m for m in reversed(messages) if isinstance(m, UserMessage)), None)
    answered = next((m for m in reversed(messages) if isinstance(m, AssistantMessage) and text_of(m.content)), None)
    if asked is None:
        return []
    parts: list[RenderableType] = [
        Text("the last exchange was:", "dim"),
        sent_by_user(asked.content),
    ]
    if answered is not None:
        text = text_of(answered.content)
        parts.append(markdown(text if len(text) <= _RECALLED else f"…{text[-_RECALLED:]}"))
    return parts


def unfinished(messages: Sequence[AgentMessage], calls: Sequence[UnfinishedCall]) -> list[RenderableType]:
    """What was under way when the session was left; nothing where it had come to an end."""
    if calls:
        return [Text("the program ended in the middle of its work:", "yellow"), *map(_call, calls)]
    last = messages[-1] if messages else None
    if isinstance(last, UserMessage | ToolResultMessage):
        return [Text("the program ended before the answer came", "yellow")]
    if isinstance(last, AssistantMessage) and last.stop_reason in ("error", "aborted"):
        why = one_line(last.error_message or str(last.stop_reason))
        return [Text(f"the last answer did not come to its end ({why})", "yellow")]
    return []


def _call(call: UnfinishedCall) -> Text:
    begun = "begun; what it did is unknown" if call.started else "not begun"
    state = "ended; its result was not told" if call.ended else begun
    line = headline(call.call.name, call.call.arguments, style="yellow")
    line.append(f"  {state}", "yellow")
    return line


# What a conversation has used: tokens and dollars, counted from its answers.


class Spending(Struct):
    """A count. `unpriced` are the answers whose price is not known: they are never taken for free."""

    answers: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    cost: float = 0.0
    unpriced: int = 0
    context: int = 0  # tokens that the last answer read and wrote

    def add(self, answer: AssistantMessage) -> None:
        self.answers += 1
        usage = answer.usage
        if usage is None:
            self.unpriced += answer.stop_reason not in ("error", "aborted")
            return
        self.input += usage.input + usage.cache_read + usage.cache_write
        self.output += usage.output
        self.cached += usage.cache_read
        self.context = usage.total_tokens or self.context
        if usage.cost is None:
            self.unpriced += 1
        else:
            self.cost += usage.cost.total

    @property
    def dollars(self) -> str:
        """The cost in words; a part that is not known is said, not hidden."""
        if not self.unpriced:
            return f"${self.cost:.4f}"
        return f"${self.cost:.4f} + ?" if self.unpriced < self.answers else "cost unknown"


def by_model(messages: Iterable[AgentMessage]) -> dict[str, Spending]:
    """The count of each model that answered."""
    found: dict[str, Spending] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            name = f"{message.provider}/{message.model}" if message.provider else str(message.model)
            found.setdefault(name, Spending()).add(message)
    return found
