"""Session access: which sessions a caller may see, and their lists, histories and states."""

import asyncio
import contextlib
import itertools
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from ..agent.agent import Agent
from ..connect.results import Result
from ..sessions.session import Session
from ..sessions.store import SessionError, SessionInfo, SessionNotFound, Store
from ..tools.tool import Tool, ToolContext
from ..values import jsontext
from ..values.canonical import plain
from ..values.errors import ToolAuthorizationError, ToolInputError
from ..values.messages import AgentMessage, AssistantMessage, CustomMessage, ToolResultMessage
from ..values.request import ModelDescriptor
from .runs import AgentRun, Status

# What one agent may read of another's session: bounded and filtered. Pure.
#
# Text is truncated, signatures and media data are removed (their size stays), details, usage and prices are dropped.
# The total size is limited: the oldest messages are dropped first.


LONGEST_TEXT = 4_000
LARGEST = 80 * 1024  # bytes of JSON
_LEFT_OUT = ("details", "usage", "cost", "extra", "cache", "api", "responseId", "stopDetail")
_SEALED = ("textSignature", "thinkingSignature", "thoughtSignature", "argumentsText")
_PLACEHOLDER = {"role": "system", "content": "[this message is too large to be shown]"}


class Excerpt(NamedTuple):
    """Messages as plain JSON, and how they were truncated."""

    messages: list[dict[str, Any]]
    dropped: int
    cut: bool
    redacted: bool
    size: int


def is_tool_message(message: AgentMessage) -> bool:
    """Whether nothing of a message is left without its tool blocks."""
    if isinstance(message, ToolResultMessage):
        return True
    return isinstance(message, AssistantMessage) and bool(message.tool_calls) and not message.text.strip()


def excerpt(messages: Sequence[AgentMessage], *, tools: bool = False) -> Excerpt:
    """Returns the messages as another agent may read them; tool messages only on request."""
    reading = _Reading()
    reported = [
        reading.message(message, tools)
        for message in messages
        if not isinstance(message, CustomMessage) and (tools or not is_tool_message(message))
    ]
    kept, size = _bounded(reported)
    return Excerpt(kept, len(reported) - len(kept), reading.cut, reading.redacted, size)


def _bounded(reported: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    kept: list[dict[str, Any]] = []
    size = 2
    for message in reversed(reported):
        more = len(jsontext.write(message)) + 1
        if size + more > LARGEST:
            break
        kept.insert(0, message)
        size += more
    if reported and not kept:
        return [_PLACEHOLDER], len(jsontext.write([_PLACEHOLDER]))
    return kept, size


class _Reading:
    """Tracks what was truncated and removed."""

    def __init__(self) -> None:
        self.cut = False
        self.redacted = False

    def message(self, message: AgentMessage, tools: bool) -> dict[str, Any]:
        fields: dict[str, Any] = self._given(plain(message))
        content = fields.get("content")
        if not tools and isinstance(content, list):
            fields["content"] = [block for block in content if block.get("type") != "toolCall"]
        return fields

    def _given(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._short(value)
        if isinstance(value, list):
            return [self._given(item) for item in value]
        if not isinstance(value, dict):
            return value
        fields = {}
        for key, item in value.items():
            if key in _SEALED:
                self.redacted = True
            elif key == "data" and isinstance(item, str):
                self.redacted = True
                fields["bytes"] = len(item) * 3 // 4 - item[-2:].count("=")
            elif key not in _LEFT_OUT:
                fields[key] = self._given(item)
        return fields

    def _short(self, text: str) -> str:
        if len(text) <= LONGEST_TEXT:
            return text
        self.cut = True
        return f"{text[:LONGEST_TEXT]}… ({len(text) - LONGEST_TEXT} more characters)"


# Sessions as list rows, and the state of an idle session. Pure.


_KEY = re.compile(r"agent:(?P<agent>\w[\w.@+=-]{0,100}):(?P<id>\w[\w.:@+=-]{0,200})", re.ASCII)
_KINDS = ("group", "cron", "hook", "node")


def parts(key: str) -> tuple[str, str]:
    """Returns the agent and the id in a key. Raises `SessionNotFound` for anything else, such as a path."""
    found = _KEY.fullmatch(key)
    if found is None or key.endswith(".jsonl"):
        raise SessionNotFound(f"{key[:200]!r} is not a session name; give its id, or agent:NAME:ID")
    return found["agent"], found["id"]


def spawned(about: Mapping[str, Any]) -> dict[str, Any]:
    given = about.get("spawn")
    return given if isinstance(given, dict) else {}


def row_of(info: SessionInfo) -> dict[str, Any]:
    row = {
        "key": f"agent:{info.agent}:{info.id}",
        "agentId": info.agent,
        "sessionId": info.id,
        "kind": _kind(info.id),
        "displayName": info.title or info.id,
        "updatedAt": info.modified,
        "model": info.model,
        "transcriptPath": info.where,
    }
    return {name: value for name, value in row.items() if value is not None}


def _kind(id: str) -> str:
    if id == "main":
        return "main"
    return next((kind for kind in _KINDS if id.startswith(kind) and id[len(kind) : len(kind) + 1] in ":-_."), "other")


def usage_in(tail: Sequence[AgentMessage]) -> dict[str, Any]:
    """Returns how much of the model's window the last response filled."""
    for message in reversed(tail):
        if isinstance(message, AssistantMessage) and message.usage is not None:
            return {"contextTokens": message.usage.total_tokens}
    return {}


def idle_state(tail: Sequence[AgentMessage]) -> Status:
    """Returns the state in which an idle session was left: after a response, or in the middle of one."""
    last = next((message for message in reversed(tail) if not isinstance(message, CustomMessage)), None)
    if last is None:
        return "done"
    if not isinstance(last, AssistantMessage) or (last.tool_calls and last.stop_reason not in ("error", "aborted")):
        return "paused"
    return {"error": "failed", "aborted": "killed"}.get(last.stop_reason or "", "done")  # type: ignore[return-value]


def name_of(model: str | ModelDescriptor) -> str:
    if isinstance(model, str):
        return model
    return f"{model.provider}/{model.id}" if model.provider else model.id


def milliseconds() -> int:
    return int(time.time() * 1000)


Visibility: TypeAlias = Literal["self", "tree", "all"]
MakeTools: TypeAlias = Callable[[ToolContext], "Iterable[Tool] | Awaitable[Iterable[Tool]]"]
Row: TypeAlias = dict[str, Any]
_Rows: TypeAlias = list[Row]  # inside the class, `list` is a method
_Messages: TypeAlias = list[AgentMessage]
_RunsOf: TypeAlias = list[AgentRun]

CHILD = "sub-"  # id prefix of spawned sessions; their first line is the proof
_COUNTED = 8 << 20  # maximum bytes of a session whose tokens are summed
_TAIL = 40  # messages at the end of a session that show its state


class Forbidden(ToolAuthorizationError):
    """The caller may not do this here."""


class Caller(Struct, frozen=True, kw_only=True):
    """The session on whose behalf a request is made. A request without one is the program's own, which sees all."""

    key: str
    sandboxed: bool = False


class AgentSetup(Struct, frozen=True, kw_only=True):
    """The configuration of an agent. `tools` are tools, or a factory of them; `options` go to `Agent`."""

    model: str | ModelDescriptor
    tools: "Iterable[Tool] | MakeTools" = ()
    system: Any = None
    context: ToolContext = ToolContext()
    options: dict[str, Any] = {}


class SessionLane:
    """One session of this host: its active run and its queue."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.turn = asyncio.Lock()
        self.waiting = 0
        self.agent: Agent | None = None
        self.session: Session | None = None
        self.attached = False
        self.on_message: Callable[[], object] | None = None
        self.last: Result | None = None

    @property
    def busy(self) -> bool:
        return self.turn.locked() or self.waiting > 0 or (self.agent is not None and self.agent.running)


class Directory:
    """The sessions of a host's agents, as callers see them.

    A caller sees its own session; with `tree` also its descendants; with `all` every session of its agent and of the
    agents in `reachable`. A sandboxed caller never sees more than the tree.
    """

    def __init__(
        self,
        store: Store,
        agent: str,
        agents: Mapping[str, AgentSetup],
        reachable: Iterable[str],
        visibility: Visibility,
    ) -> None:
        self.agent = agent
        self.agents = dict(agents)
        self.reachable = frozenset(reachable)
        self.visibility = visibility
        self.runs: dict[str, AgentRun] = {}
        self._store = store
        self._lanes: dict[str, SessionLane] = {}
        self._origins: dict[str, tuple[str | None, int]] = {}

    def _setup(self, agent: str) -> AgentSetup:
        setup = self.agents.get(agent)
        if setup is None:
            raise ToolInputError(f"unknown agent {agent!r}; valid agents: {', '.join(self.agents)}")
        return setup

    def caller(self, context: ToolContext) -> Caller:
        """Returns the caller for the tools of a context."""
        return Caller(key=self.key_of(context.session_key or ""), sandboxed=bool(context.sandboxed))

    def caller_of(self, session: str) -> Caller:
        """Returns a session as a caller: requests on its behalf are limited to its rights."""
        return Caller(key=self.key_of(session))

    def key_of(self, session: str, by: Caller | None = None) -> str:
        """Returns the key of a session given by key, id or `current`."""
        if session == "current" and by is not None:
            return by.key
        agent = parts(by.key)[0] if by is not None else self.agent
        key = session if session.startswith("agent:") and session.count(":") >= 2 else f"agent:{agent}:{session}"
        parts(key)  # refuse an invalid key early
        return key

    def seen(self, session: str, by: Caller | None) -> str:
        """Returns the key of an existing session that the caller may see; raises otherwise.

        A session that a caller may not see is reported as missing.
        """
        key = self.key_of(session, by)
        if not self.is_visible(key, by):
            raise Forbidden(f"session {session[:200]!r} is not visible to this one")
        if not self._exists(key):
            raise SessionNotFound(f"no session {session[:200]!r}")
        return key

    def labelled(self, label: str, by: Caller | None, *, agent: str | None = None) -> str:
        """Returns the key of the one visible session with this label."""
        found = [row["key"] for row in self._rows(by, agent) if self._is_called(row, label)]
        if not found:
            raise SessionNotFound(f"no session labelled {label[:200]!r}")
        if len(found) > 1:
            raise SessionError(f"ambiguous label {label[:200]!r}; name the session by its key")
        return str(found[0])

    def _is_called(self, row: Row, label: str) -> bool:
        """Whether a session has this label; its row may show the beginning of the text instead."""
        return bool(row["displayName"][:70] == " ".join(label.split())[:70] and self._label(row["key"]) == label)

    def _label(self, key: str) -> str | None:
        with contextlib.suppress(SessionError), self._reading(key) as session:
            return session.title
        return None

    def is_visible(self, key: str, by: Caller | None) -> bool:
        """Whether a caller may see a session."""
        if by is None or key == by.key:
            return True
        if self.visibility == "self":
            return False
        if by.sandboxed or self.visibility == "tree":
            return self._is_below(key, by.key)
        agent = parts(key)[0]
        return agent == parts(by.key)[0] or agent in self.reachable

    def _is_below(self, key: str, above: str) -> bool:
        at: str | None = key
        for _ in range(64):
            at = self._origin(at)[0] if at is not None else None
            if at is None or at == above:
                return at == above
        return False

    def _origin(self, key: str) -> tuple[str | None, int]:
        """Returns the parent of a session, and its depth; from its first line, which never changes."""
        if key not in self._origins and parts(key)[1].startswith(CHILD):
            with contextlib.suppress(SessionError), self._reading(key) as session:
                parent = session.about.get("spawnedBy")
                depth = spawned(session.about).get("depth")
                self._origins[key] = (
                    parent if isinstance(parent, str) else None,
                    depth if isinstance(depth, int) else 1,
                )
        return self._origins.get(key, (None, 0))

    def _exists(self, key: str) -> bool:
        lane = self._lanes.get(key)
        if lane is not None and (lane.busy or lane.attached):
            return True
        try:
            with self._reading(key):
                return True
        except SessionError:
            return False

    def _reading(self, key: str) -> Session:
        agent, id = parts(key)
        return Session.open(id, agent=agent, store=self._store, read_only=True, create=False)

    def _lane(self, key: str) -> SessionLane:
        lane = self._lanes.get(key)
        if lane is None:
            for old in [old for old, one in self._lanes.items() if not one.busy and not one.attached][:-256]:
                del self._lanes[old]
            lane = self._lanes[key] = SessionLane(key)
        return lane

    def list(
        self,
        by: Caller | None = None,
        *,
        kinds: Collection[str] = (),
        limit: int = 50,
        active_minutes: float | None = None,
        message_limit: int = 0,
        label: str | None = None,
        agent: str | None = None,
        search: str | None = None,
    ) -> _Rows:
        """Returns the sessions that a caller sees, the latest first."""
        since = 0.0 if active_minutes is None else (time.time() - active_minutes * 60) * 1000
        wanted = search.lower() if search else ""
        rows = [
            row
            for row in self._rows(by, agent)
            if (not kinds or row["kind"] in kinds)
            and row["updatedAt"] >= since
            and (label is None or self._is_called(row, label))
            and wanted in f"{row['key']} {row['displayName']}".lower()
        ]
        rows.sort(key=lambda row: -row["updatedAt"])
        return [self._detailed(row, message_limit) for row in rows[:limit]]

    def _rows(self, by: Caller | None, agent: str | None) -> _Rows:
        if agent is not None:
            self._setup(agent)  # raises for an unknown one
        names = [agent] if agent is not None else [*self.agents]
        infos = itertools.chain.from_iterable(self._store.sessions(name) for name in names)
        rows = [row_of(info) for info in infos if self.is_visible(f"agent:{info.agent}:{info.id}", by)]
        known = {row["key"] for row in rows}
        for key, lane in self._lanes.items():
            if key not in known and lane.attached and self.is_visible(key, by) and parts(key)[0] in names:
                rows.append(row_of(SessionInfo(id=parts(key)[1], agent=parts(key)[0], modified=milliseconds())))
        return rows

    def _detailed(self, row: dict[str, Any], message_limit: int) -> dict[str, Any]:
        key = row["key"]
        parent, _ = self._origin(key)
        last = self._latest(key)
        children = [run.key for run in self.runs.values() if run.parent == key]
        row |= {"spawnedBy": parent} if parent else {}
        row |= {"childKeys": [*dict.fromkeys(children)]} if children else {}
        label = self._label(key)
        row |= {"label": label} if label else {}
        tail = self._tail(key, _TAIL)
        row["status"] = self._status(key, last, tail)
        row |= usage_in(tail)
        if message_limit > 0:
            messages = [message for message in tail if not is_tool_message(message)]
            row["messages"] = excerpt(messages[-message_limit:]).messages
        return row

    def _latest(self, key: str) -> AgentRun | None:
        return next((run for run in reversed(self.runs.values()) if run.key == key), None)

    def _tail(self, key: str, last: int) -> _Messages:
        lane = self._lanes.get(key)
        if lane is not None and lane.attached and lane.agent is not None:
            return [*lane.agent.messages][-last:]
        try:
            with self._reading(key) as session:
                return [entry.message for entry in session.path(last=last)]
        except SessionError:
            return []

    def _status(self, key: str, run: AgentRun | None, tail: Sequence[AgentMessage]) -> Status:
        lane = self._lanes.get(key)
        if lane is not None and lane.agent is not None and lane.agent.running:
            return "running"
        if run is not None:
            return run.status
        if lane is not None and lane.busy:
            return "queued"
        if lane is not None and lane.last is not None and not lane.attached:
            return {"done": "done", "aborted": "killed"}.get(lane.last.reason, "failed")  # type: ignore[return-value]
        return idle_state(tail)

    def history(
        self, session: str, *, by: Caller | None = None, limit: int = 50, offset: int = 0, include_tools: bool = False
    ) -> dict[str, Any]:
        """Returns the latest messages of a session as another may read them; `offset` skips that many of the latest."""
        key = self.seen(session, by)
        wanted = limit + offset + 1
        messages = self._visible_messages(key, wanted, include_tools)
        more = len(messages) >= wanted
        chosen = messages[max(len(messages) - offset - limit, 0) : len(messages) - offset]
        given = excerpt(chosen, tools=include_tools)
        return {
            "sessionKey": key,
            "messages": given.messages,
            "offset": offset,
            "limit": limit,
            "hasMore": more or given.dropped > 0,
            **({"nextOffset": offset + len(given.messages)} if more or given.dropped else {}),
            "truncated": given.dropped > 0 or given.cut,
            "droppedMessages": given.dropped,
            "contentTruncated": given.cut,
            "contentRedacted": given.redacted,
            "bytes": given.size,
        }

    def _visible_messages(self, key: str, wanted: int, tools: bool) -> Sequence[AgentMessage]:
        """Returns the last visible messages, without reading more of the session than necessary."""
        size = wanted * 2
        while True:
            tail = self._tail(key, size)
            shown = [m for m in tail if not isinstance(m, CustomMessage) and (tools or not is_tool_message(m))]
            if len(shown) >= wanted or len(tail) < size:
                return shown[-wanted:]
            size *= 4

    def status(self, session: str, *, by: Caller | None = None) -> dict[str, Any]:
        """Returns the state of a session: its model, usage, active run and queue."""
        key = self.seen(session, by)
        lane = self._lanes.get(key)
        tail = self._tail(key, _TAIL)
        last = self._latest(key)
        model, overridden = self._model(key)
        return {
            "sessionKey": key,
            "status": self._status(key, last, tail),
            "model": model,
            "modelOverride": overridden,
            "queued": lane.waiting if lane is not None else 0,
            "subagents": len([*self._active(parent=key)]),
            **usage_in(tail),
            **self._totals(key),
            "time": milliseconds(),
        }

    def _model(self, key: str) -> tuple[str, bool]:
        lane = self._lanes.get(key)
        if lane is not None and lane.attached and lane.agent is not None:
            return name_of(lane.agent.model), False
        chosen, about = None, {}
        with contextlib.suppress(SessionError), self._reading(key) as session:
            chosen, about = override(session), spawned(session.about)
        return name_of(chosen or about.get("model") or self._setup(parts(key)[0]).model), chosen is not None

    def _totals(self, key: str) -> dict[str, Any]:
        """Returns tokens and dollars of all responses of a session, if it is small enough to read."""
        tokens, cost, known = 0, 0.0, True
        try:
            with self._reading(key) as session:
                if Path(session.where).exists() and Path(session.where).stat().st_size > _COUNTED:
                    return {}
                for entry in session.entries():
                    usage = getattr(entry.message, "usage", None)
                    if usage is not None:
                        tokens += usage.total_tokens
                        known = known and usage.cost is not None
                        cost += usage.cost.total if usage.cost is not None else 0.0
        except SessionError:
            return {}
        return {"totalTokens": tokens} | ({"cost": round(cost, 6)} if known else {})

    def _active(self, *, parent: str | None = None, key: str | None = None) -> Iterator[AgentRun]:
        for run in [*self.runs.values()]:
            if run.active and (parent is None or run.parent == parent) and (key is None or run.key == key):
                yield run

    def descendants(self, by: Caller | None, *, recent_seconds: float = 3600.0) -> _RunsOf:
        """Returns the runs that a caller controls: active descendants, and those that ended recently."""
        since = time.time() - recent_seconds
        return [
            run
            for run in self.runs.values()
            if (run.active or (run.ended or 0) >= since) and (by is None or self._is_below(run.key, by.key))
        ]


def override(session: Session) -> str | None:
    """Returns the model chosen for a session, unless the latest choice was to reset it."""
    for entry in reversed(session.context_entries()):
        message: AgentMessage = entry.message
        if isinstance(message, CustomMessage) and message.role == "model" and "override" in message.fields:
            model, provider = message.fields.get("model"), message.fields.get("provider")
            named = f"{provider}/{model}" if provider else str(model)
            return named if message.fields["override"] else None
    return None
