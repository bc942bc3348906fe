"""Answers from recorded sessions: the same requests get the same answers, in any client's format, offline."""

from collections.abc import Callable, Iterable
from typing import Any

from ..connect.client import Client
from ..connect.debug import DebugConnector
from ..connect.registry import ConnectorRegistry
from ..sessions import Session
from ..values.canonical import message_of, plain
from ..values.errors import BadRequest, ProviderError
from ..values.messages import AssistantMessage, text_of
from ..values.request import Request
from .recording import chain, echo_digest
from .server import Gateway
from .settings import Alias, Listen, RoutingRule, Settings, Target


class Replay:
    """Answers requests from recorded sessions: the script of an offline connector.

    A request that came more than once gets its answers in the order in which they were recorded, then the last again.
    Those of another system text are given only where there is none of its own: clients put the date into it.
    """

    def __init__(self, sessions: Iterable[Session], redact: Callable[[Any], Any] = lambda value: value) -> None:
        self._redact = redact
        self._answers: dict[str, list[AssistantMessage]] = {}
        self._ids: set[str] = set()
        self._given: dict[str, int] = {}
        self._count = 0
        for session in sessions:
            self._add(session)

    def __len__(self) -> int:
        return self._count

    def _add(self, session: Session) -> None:
        # With the system text, which may be all of a request, and without.
        ids: dict[str | None, tuple[str, ...]] = {None: (_system(session.base.system), "")}
        for entry in session.entries():
            before = ids.get(entry.parent_id)
            if before is None or entry.id is None:
                continue
            digest = echo_digest(entry.message)
            ids[entry.id] = tuple(chain([digest], one)[0] for one in before)
            self._ids.update(ids[entry.id])
            if isinstance(entry.message, AssistantMessage):
                self._count += 1
                for one in filter(None, before):
                    self._answers.setdefault(one, []).append(entry.message)

    def __call__(self, request: Request) -> AssistantMessage | ProviderError:
        digests = [echo_digest(message_of(self._redact(plain(message)))) for message in request.context.messages]
        for before in (_system(self._redact(text_of(request.context.system))), ""):
            ids = chain(digests, before)
            last = ids[-1] if ids else before
            answers = self._answers.get(last)
            if answers:
                break
        else:
            known = next((at for at in reversed(range(len(ids))) if ids[at] in self._ids), -1) + 1
            return BadRequest(
                f"no answer to this request is recorded: {known} of its {len(ids)} messages are; record it first",
                status=404,
                code="not_recorded",
            )
        at = self._given.get(last, 0)
        self._given[last] = at + 1
        return answers[min(at, len(answers) - 1)]


def _system(text: Any) -> str:
    return f"system {text_of(text)}"


def replay_gateway(answers: Replay, *, port: int = 0) -> Gateway:
    """A gateway that answers every model from recordings, and reaches no provider."""
    connectors = ConnectorRegistry([DebugConnector(answers, provider="replay", label="Recordings")])
    settings = Settings(
        aliases=(Alias(name="recording", targets=(Target(model="replay/script"),), retries=0),),
        rules=(RoutingRule(model="*", to="recording"),),
        open_models=False,
        listen=Listen(port=port),
    )
    return Gateway(settings, client=Client(connectors=connectors))
