"""Opening and resuming sessions, and their summary."""

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


def recent(limit: int | None = RECENT) -> list[SessionInfo]:
    """The sessions with messages, the latest first."""
    return [info for info in FileStore().sessions(AGENT) if info.messages][:limit]


def matching(infos: Sequence[SessionInfo], text: str) -> list[SessionInfo]:
    """Returns the sessions that have every word of the text in their title, model or id, in the same order."""
    terms = text.casefold().split()
    about = [(info, f"{info.title or ''} {info.model or ''} {info.id}".casefold()) for info in infos]
    return [info for info, where in about if all(term in where for term in terms)]


def named(name: str) -> str:
    """The id of a session by its id or a prefix of it."""
    ids = [info.id for info in FileStore().sessions(AGENT)]
    found = [name] if name in ids else [id for id in ids if id.startswith(name)]
    if len(found) > 1:
        raise SessionError(f"ambiguous session {name!r}: {', '.join(sorted(found)[:5])}; give more of the id")
    if not found:
        raise SessionNotFound(f"no session {name!r}; /sessions or `interlingua sessions list` shows them")
    return found[0]


def open_session(name: str | None, *, resume: bool, system: str | None) -> Session:
    """The session to use, open for writing: a named one, the latest, or a new one."""
    if resume and name is None:
        latest = recent(1)
        if not latest:
            raise SessionNotFound("no session to resume; start one without --resume")
        name = latest[0].id
    about = Conversation(system=system) if system is not None else None
    if name is None:
        return Session.open(agent=AGENT, about=about)
    if "/" in name or name.endswith(".jsonl"):
        return Session.open(name, agent=AGENT, create=False)
    return Session.open(named(name), agent=AGENT, create=False)


def last_exchange(messages: Sequence[AgentMessage]) -> list[RenderableType]:
    """Returns the last exchange, for orientation: the user's last message, and the answer."""
    users = [at for at, m in enumerate(messages) if isinstance(m, UserMessage) and m.origin != "program"]
    if not users:
        return []
    question, later = messages[users[-1]], messages[users[-1] + 1 :]
    assert isinstance(question, UserMessage)
    answered = next((m for m in reversed(later) if isinstance(m, AssistantMessage) and text_of(m.content)), None)
    parts: list[RenderableType] = [
        Text("the last exchange was:", "dim"),
        sent_by_user(question.content),
    ]
    if answered is not None:
        text = text_of(answered.content)
        parts.append(markdown(text if len(text) <= _RECALLED else f"…{text[-_RECALLED:]}"))
    return parts


def unfinished(messages: Sequence[AgentMessage], calls: Sequence[UnfinishedCall]) -> list[RenderableType]:
    """The unfinished work of a session; empty if there is none."""
    if calls:
        return [Text("the program ended during these calls:", "yellow"), *map(_call, calls)]
    last = messages[-1] if messages else None
    if isinstance(last, UserMessage | ToolResultMessage):
        return [Text("the program ended before the answer", "yellow")]
    if isinstance(last, AssistantMessage) and last.stop_reason in ("error", "aborted"):
        why = one_line(last.error_message or str(last.stop_reason))
        return [Text(f"the last answer is incomplete ({why})", "yellow")]
    return []


def _call(call: UnfinishedCall) -> Text:
    outcome = "started; outcome unknown" if call.started else "not started"
    state = "ended; result not sent" if call.ended else outcome
    line = headline(call.call.name, call.call.arguments, style="yellow")
    line.append(f"  {state}", "yellow")
    return line


# Usage of a conversation: tokens and dollars.


class Spending(Struct):
    """Usage totals. `unpriced` counts the answers with unknown price."""

    answers: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    cost: float = 0.0
    unpriced: int = 0
    context: int = 0  # tokens of the last request and answer

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
        """The cost as text, marked if part of it is unknown."""
        if not self.unpriced:
            return f"${self.cost:.4f}"
        return f"${self.cost:.4f} + ?" if self.unpriced < self.answers else "cost unknown"


def spent_in(session: Session) -> Spending:
    """Returns the usage of a session so far, all branches; the context is that of the current branch. Blocking."""
    spent = Spending()
    for entry in session.entries():
        if isinstance(entry.message, AssistantMessage):
            spent.add(entry.message)
    answers = (entry.message for entry in reversed(session.path()) if isinstance(entry.message, AssistantMessage))
    spent.context = next((one.usage.total_tokens for one in answers if one.usage and one.usage.total_tokens), 0)
    return spent


def by_model(messages: Iterable[AgentMessage]) -> dict[str, Spending]:
    """The usage per model."""
    found: dict[str, Spending] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            name = f"{message.provider}/{message.model}" if message.provider else str(message.model)
            found.setdefault(name, Spending()).add(message)
    return found
