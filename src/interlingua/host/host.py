"""`AgentHost`: runs agents over sessions, and lets them communicate.

Every session is a lane: one run at a time, the others queue. An agent may spawn others, which run concurrently and
report when they are done, and may write to the sessions that it can see. Visibility is decided here, not by tools.
"""

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

from msgspec.structs import replace

from ..agent.agent import Agent, Prompt
from ..connect.debug import DebugConnector
from ..connect.results import Result, Spent
from ..sessions.session import Session, store_at
from ..sessions.store import SessionError, Store
from ..tools.tool import Tool, ToolContext
from ..values.abort import Abort
from ..values.canonical import SELF
from ..values.errors import InterlinguaError, ToolInputError
from ..values.events import AgentEnd, AgentEvent, AgentStart
from ..values.interop import must_propagate
from ..values.messages import AgentMessage, AssistantMessage, CustomMessage
from ..values.request import Conversation, ModelDescriptor
from .directory import (
    CHILD,
    AgentSetup,
    Caller,
    Directory,
    Forbidden,
    MakeTools,
    SessionLane,
    Visibility,
    milliseconds,
    name_of,
    override,
    parts,
    spawned,
)
from .replies import replies
from .runs import (
    SPAWN,
    TIMEOUT,
    AgentRun,
    Spawning,
    Task,
    between,
    conclude,
    ended_by,
    inside,
    moved,
    report,
    stored,
    why_ended,
)

_log = logging.getLogger(__name__)

OnEvent: TypeAlias = Callable[[str, AgentEvent], object]

_REMEMBERED = 200  # finished runs to keep


_running: ContextVar[str] = ContextVar("interlingua_running", default="")  # the lane of the current run


class AgentHost(Directory):
    """Runs agents over sessions. Use it as an async context manager, or `await close()`.

    `agents` are further agents by name; an agent may access the sessions of another only if `reachable` names it.
    `models` are those that a session may be switched to; any by default. `sandbox` creates a sandboxed context, for
    children that require one. `on_event` is called with every event and the key of its session.
    """

    def __init__(
        self,
        model: str | ModelDescriptor,
        tools: "Iterable[Tool] | MakeTools" = (),
        *,
        agent: str = "main",
        system: Any = None,
        context: ToolContext | None = None,
        agents: Mapping[str, AgentSetup] | None = None,
        reachable: Collection[str] = (),
        home: str | Path | None = None,
        store: Store | str | None = None,
        client: Any = None,
        spawning: Spawning | None = None,
        visibility: Visibility = "tree",
        models: Collection[str] | None = None,
        sandbox: Callable[[ToolContext], ToolContext] | None = None,
        queue: int = 20,
        on_event: OnEvent | None = None,
        **options: Any,
    ) -> None:
        own = AgentSetup(model=model, tools=tools, system=system, context=context or ToolContext(), options=options)
        super().__init__(store_at(store, home), agent, {**(agents or {}), agent: own}, reachable, visibility)
        self.spawning = spawning or Spawning()
        self.models = models
        self._owns_store = isinstance(store, str)
        self._client = client
        self._sandbox = sandbox
        self._queue = queue
        self._on_event = on_event
        self._slots = asyncio.Semaphore(self.spawning.concurrent)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def __aenter__(self) -> "AgentHost":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stops all runs and waits for their end. Attached agents are left to their owners."""
        self._closed = True
        for run in [*self.runs.values()]:
            run.kill("the host was closed")
        for lane in [*self._lanes.values()]:
            if lane.agent is not None and not lane.attached:
                lane.agent.abort("the host was closed")
        while self._tasks:
            await asyncio.wait(self._tasks)
        for lane in [*self._lanes.values()]:
            if lane.key != _running.get():  # a run that closes the host cannot wait for itself
                async with lane.turn:  # another caller waits for this run
                    pass
        if self._owns_store:
            self._store.close()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise InterlinguaError("the host is closed")

    # --- running ----------------------------------------------------------------------------------------------------

    async def run(
        self,
        prompt: Prompt | None,
        session: str,
        *,
        signal: Abort | None = None,
        listener: Callable[[AgentEvent], object] | None = None,
    ) -> Result:
        """Runs a prompt in a session after those queued before it; without a prompt, continues where it stopped.

        A session is given by its key (`agent:NAME:ID`) or by its id, and created if missing.
        """
        key = self.key_of(session)
        lane = self._lane(key)
        if lane.attached:
            raise InterlinguaError(f"{key} is an attached agent, run by its own program; prompt that agent")
        self._refuse_if_closed()
        if lane.waiting >= self._queue:
            raise InterlinguaError(f"{key}: {lane.waiting} messages are queued; try again later")
        lane.waiting += 1
        try:
            await lane.turn.acquire()
        finally:
            lane.waiting -= 1
        try:
            self._refuse_if_closed()
            return await self._turn(lane, prompt, signal, listener)
        finally:
            lane.turn.release()

    async def _turn(
        self,
        lane: SessionLane,
        prompt: Prompt | None,
        signal: Abort | None,
        listener: Callable[[AgentEvent], object] | None,
    ) -> Result:
        agent_id, id = parts(lane.key)
        _running.set(lane.key)
        with Session.open(id, agent=agent_id, store=self._store) as session:
            agent = await self._made(lane.key, session)
            self._refuse_if_closed()
            if listener is not None:
                agent.subscribe(listener)
            lane.agent, lane.session = agent, session
            forget = self._subscribe(lane, agent)
            try:
                lane.last = await _all_of(agent, prompt, signal)
            finally:
                lane.agent = lane.session = None
                forget()
                for message in agent.take_queued():  # a report that came too late for this run is read in the next
                    session.append(message)
            return lane.last

    async def _made(self, key: str, session: Session) -> Agent:
        """Creates the agent of a session from its setup and the session's first line."""
        setup = self._setup(parts(key)[0])
        about = spawned(session.about)
        context = self._context(key, setup, about)
        tools = await _tools(setup.tools, context)
        if about.get("depth", 0) >= self.spawning.depth:
            tools = [tool for tool in tools if tool.name != SPAWN]
        options = {**setup.options, **({"reasoning": about["thinking"]} if about.get("thinking") else {})}
        agent = Agent(
            setup.model, tools, system=setup.system, session=session, client=self._client, context=context, **options
        )
        agent.model = override(session) or about.get("model") or setup.model
        return agent

    def _context(self, key: str, setup: AgentSetup, about: dict[str, Any]) -> ToolContext:
        context = setup.context
        if about.get("sandboxed") and not context.sandboxed:
            if self._sandbox is None:
                raise Forbidden(f"{key} must run in a sandbox, but the host has none; pass `sandbox` to the host")
            context = self._sandbox(context)
        if about.get("cwd"):
            context = moved(context, about["cwd"])
        return replace(context, agent_id=parts(key)[0], session_key=key, sessions=self)

    @property
    def client(self) -> Any:
        """The client that calls the models."""
        if self._client is None:
            from ..connect.client import default_client

            self._client = default_client()
        return self._client

    # --- attached agents
    # -------------------------------------------------------------------------------------------------

    def attach(
        self, agent: Agent, session: str, *, on_message: Callable[[], object] | None = None
    ) -> Callable[[], None]:
        """Attaches an agent that another program runs: it receives reports of its sub-agents, and its abort stops them.

        Messages that arrive while it is idle are queued, and `on_message` is called: `continue_()` reads them. Returns
        a function that detaches it.
        """
        lane = self._lane(self.key_of(session))
        if lane.busy or lane.agent is not None:
            raise InterlinguaError(f"{lane.key} is in use already")
        lane.agent, lane.attached, lane.on_message = agent, True, on_message
        forget = self._subscribe(lane, agent)

        def detach() -> None:
            forget()
            lane.agent, lane.attached, lane.on_message = None, False, None

        return detach

    def _subscribe(self, lane: SessionLane, agent: Agent) -> Callable[[], None]:
        """Follows an agent: its abort stops its sub-agents, and its events go to the host's listeners."""
        unsubscribe: list[Callable[[], None]] = []

        def on_event(event: AgentEvent) -> object:
            if isinstance(event, AgentStart) and agent.signal is not None:
                signal = agent.signal
                unsubscribe.append(signal.on_abort(lambda: self._kill_children(lane.key, signal.reason)))
            elif isinstance(event, AgentEnd):
                while unsubscribe:
                    unsubscribe.pop()()
                if lane.attached and agent.has_queued and lane.on_message is not None:
                    asyncio.get_running_loop().call_soon(lane.on_message)
            return self._on_event(lane.key, event) if self._on_event is not None else None

        return agent.subscribe(on_event)

    def abort(self, session: str, reason: Any = None) -> None:
        """Stops the run of a session and its sub-agents."""
        key = self.key_of(session)
        lane = self._lanes.get(key)
        if lane is not None and lane.agent is not None:
            lane.agent.abort(reason)
        for run in self._active(key=key):
            run.kill(reason)
        self._kill_children(key, reason)

    def _kill_children(self, key: str, reason: Any) -> None:
        for run in self._active(parent=key):
            run.kill(reason)

    # --- sub-agents -------------------------------------------------------------------------------------------------

    async def spawn(
        self, task: Task | str, *, by: Caller | None = None, signal: Abort | None = None, **how: Any
    ) -> AgentRun:
        """Starts a sub-agent and returns while it runs. The caller's session is notified when it is done.

        `how` are fields of `Task`, for a task that is given as text. Raises `Forbidden` if a limit is reached,
        `ToolInputError` for an invalid task.
        """
        task = task if isinstance(task, Task) else Task(text=task, **how)
        run = self._admitted(task, by)
        if signal is not None:
            forget = signal.on_abort(lambda: run.kill(signal.reason))
        self.runs[run.id] = run  # counted from here on, even before it starts
        try:
            prompt = await self._prepared(run, by)
        except BaseException:
            del self.runs[run.id]
            raise
        run.signal.on_abort(lambda: self._kill_children(run.key, run.signal.reason))
        run.work = self._begin(self._work(run, prompt))
        if signal is not None:
            run.work.add_done_callback(lambda _: forget())
        return run

    def _admitted(self, task: Task, by: Caller | None) -> AgentRun:
        self._refuse_if_closed()
        if not task.text.strip():
            raise ToolInputError("task must not be blank")
        if task.mode == "session" and task.cleanup == "delete":
            raise ToolInputError("a persistent session cannot be deleted; leave out cleanup, or use mode run")
        parent = None if by is None else by.key
        depth = 1 if parent is None else self._origin(parent)[1] + 1
        if depth > self.spawning.depth:
            raise Forbidden(f"sub-agents are limited to depth {self.spawning.depth}; this one would have depth {depth}")
        if parent is not None and len([*self._active(parent=parent)]) >= self.spawning.children:
            raise Forbidden(
                f"this session has {self.spawning.children} running sub-agents; wait for one, or cancel one"
            )
        agent = task.agent_id or (parts(parent)[0] if parent is not None else self.agent)
        if parent is not None and agent != parts(parent)[0] and agent not in self.reachable:
            raise Forbidden(f"the agent {agent!r} is not allowed from this session")
        setup = self._setup(agent)
        if task.model is not None:
            self._allowed_model(task.model)
        sandboxed = by is not None and by.sandboxed
        if task.sandbox == "require" and not (sandboxed or setup.context.sandboxed) and self._sandbox is None:
            raise Forbidden("no sandbox available; leave out sandbox")
        return AgentRun(task, f"agent:{agent}:{CHILD}{uuid.uuid4()}", parent, depth)

    async def _prepared(self, run: AgentRun, by: Caller | None) -> list[AgentMessage]:
        """Writes the first lines of a child's session; returns its first messages."""
        task, (agent, id) = run.task, parts(run.key)
        fields: dict[str, Any] = {"depth": run.depth, "runId": run.id, **self._inherited(run)}
        fields |= {name: value for name in ("model", "thinking") if (value := getattr(task, name))}
        if task.sandbox == "require" or (by is not None and by.sandboxed):
            fields["sandboxed"] = True
        context = self._context(run.key, self._setup(agent), fields)
        if task.cwd:
            fields["cwd"] = await inside(context, task.cwd)
            context = moved(context, fields["cwd"])
        paths = await stored(context, task, run.id)
        kept = await self._forked(run.parent) if task.context == "fork" and run.parent is not None else []
        first = {"spawnedBy": run.parent, "spawn": fields} if run.parent is not None else {"spawn": fields}
        with Session.open(id, agent=agent, store=self._store, about=Conversation(extra={SELF: first})) as session:
            session.journal("spawned", name=task.label)
            if task.label:
                session.label(None, task.label)
            for message in kept:
                session.append(message)
        self._origins[run.key] = (run.parent, run.depth)
        text = task.text if not paths else f"{task.text}\n\nAttached files: {', '.join(paths)}"
        return [between(text, run.parent, SPAWN, run.id)]

    def _inherited(self, run: AgentRun) -> dict[str, Any]:
        """Returns the default directory of a child: that of its parent, if the parent is a child too."""
        if run.parent is None or parts(run.parent)[0] != parts(run.key)[0]:
            return {}
        with contextlib.suppress(SessionError), self._reading(run.parent) as session:
            return {name: value for name, value in spawned(session.about).items() if name == "cwd"}
        return {}

    async def _forked(self, key: str) -> list[AgentMessage]:
        """The history of a session as a model reads it, up to the last point where every call has its result."""
        lane = self._lanes.get(key)
        if lane is not None and lane.agent is not None:
            messages = [*lane.agent.messages]
        else:
            with self._reading(key) as session:
                messages = [*session.context_messages()]
        for at in range(len(messages) - 1, -1, -1):
            message = messages[at]
            if isinstance(message, AssistantMessage):
                return messages[:at] if message.tool_calls else messages
        return messages

    async def _work(self, run: AgentRun, prompt: list[AgentMessage]) -> None:
        """Executes a run from its place in the queue to its report."""
        timer: asyncio.TimerHandle | None = None
        try:
            async with self._slot(run.signal):
                run.status, run.started = "running", time.time()
                seconds = self.spawning.seconds if run.task.seconds is None else run.task.seconds
                if seconds:
                    timer = asyncio.get_running_loop().call_later(seconds, run.kill, TIMEOUT)
                result = await self.run(prompt, run.key, signal=run.signal)
            await self._settled(run)
            conclude(run, self._lane(run.key).last or result)
        except InterlinguaError as error:
            run.error = str(error)
            run.status = ended_by(run.signal) or "failed"
        except BaseException as error:  # of a tool factory, or of a listener of the host
            if must_propagate(error):
                run.status = "killed"
                raise
            _log.error("the sub-agent %s failed", run.key, exc_info=error)
            run.error, run.status = repr(error), "failed"
        finally:
            if timer is not None:
                timer.cancel()
            run.ended = time.time()
            self._forget_old()
        self._report(run)
        if run.task.cleanup == "delete":
            self._store.delete(*parts(run.key))

    @contextlib.asynccontextmanager
    async def _slot(self, signal: Abort) -> AsyncIterator[None]:
        """Acquires one of the concurrent slots. Raises if the signal fires first."""
        waiting = asyncio.ensure_future(self._slots.acquire())
        stopped = asyncio.ensure_future(signal.wait())
        try:
            await asyncio.wait({waiting, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if signal.aborted:
                raise InterlinguaError("stopped before it began")
            yield
        finally:
            stopped.cancel()
            if waiting.done():
                self._slots.release()
            else:
                waiting.cancel()

    async def _settled(self, run: AgentRun) -> None:
        """Waits until the sub-agent's own sub-agents are done and it has read their reports. They end with it."""
        lane = self._lane(run.key)
        while True:
            below = [child.work for child in self._active(parent=run.key) if child.work is not None]
            if below:
                await asyncio.wait(below)
            elif lane.busy:
                async with lane.turn:
                    pass
                await asyncio.sleep(0)
            else:
                return

    def _report(self, run: AgentRun) -> None:
        """Reports the outcome of a run to the session that started it, unless that session killed it."""
        if run.parent is None or run.status == "killed" or self._closed:
            return
        try:
            self.deliver(between(report(run), run.key, "subagent", run.id), run.parent)
        except InterlinguaError:
            _log.exception("the report of the sub-agent %s could not be delivered", run.key)

    def deliver(self, message: AgentMessage, session: str) -> None:
        """Delivers a message to a session: to the active run, else by a new run."""
        lane = self._lane(self.key_of(session))
        if lane.agent is not None and (lane.agent.running or lane.attached):
            lane.agent.steer(message)
            if not lane.agent.running and lane.on_message is not None:
                lane.on_message()
            return
        signal = next((run.signal for run in self._active(key=lane.key)), None)
        self._begin(self._in_background(self.run([message], lane.key, signal=signal), lane.key))

    async def _in_background(self, work: Awaitable[Any], key: str) -> None:
        """Runs background work; failures are logged."""
        try:
            await work
        except InterlinguaError as error:
            _log.error("%s: %s", key, error)

    def _begin(self, work: Any) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _forget_old(self) -> None:
        ended = [run for run in self.runs.values() if not run.active]
        for run in ended[: max(len(ended) - _REMEMBERED, 0)]:
            del self.runs[run.id]

    def steer(self, run: AgentRun, text: str, *, by: Caller | None = None) -> None:
        """Queues input for a running sub-agent's next turn."""
        lane = self._lanes.get(run.key)
        if lane is None or lane.agent is None or not lane.agent.running:
            raise ToolInputError(f"run {run.id} is not running: it is {run.status}")
        lane.agent.steer(between(text, by.key if by is not None else None, "subagents", run.id))

    # --- writing to other sessions ----------------------------------------------------------------------------------

    async def send(
        self, session: str, message: str, *, by: Caller | None = None, seconds: float = 30.0
    ) -> dict[str, Any]:
        """Sends a message to another session and waits for the response; with 0 seconds it does not wait.

        After the timeout the other session continues by itself.
        """
        if not message.strip():
            raise ToolInputError("message must not be blank")
        key = self.seen(session, by)
        if by is not None and key == by.key:
            raise ToolInputError("a session cannot send to itself; write it in your answer")
        fields: dict[str, Any] = {"runId": str(uuid.uuid4()), "sessionKey": key}
        given = between(message, by.key if by is not None else None, "sessions_send", fields["runId"])
        lane = self._lane(key)
        if lane.attached or (lane.agent is not None and lane.agent.running and not seconds):
            self.deliver(given, key)
            return {**fields, "status": "accepted"}
        work = self._begin(self.run([given], key))
        if not seconds:
            work.add_done_callback(lambda task: _log_failure(task, key))
            return {**fields, "status": "accepted"}
        await asyncio.wait({work}, timeout=seconds)
        if not work.done():
            work.add_done_callback(lambda task: _log_failure(task, key))
            return {**fields, "status": "timeout", "error": f"no response within {seconds:g} s; it continues to work"}
        result: Result = await work
        shown = replies([result.message] if result.message is not None else [])
        text = "\n\n".join(reply.text for reply in shown if reply.text)
        if result.reason == "done":
            return {**fields, "status": "ok", "reply": text}
        return {**fields, "status": "error", "error": why_ended(result)} | ({"reply": text} if text else {})

    def set_model(self, session: str, model: str, *, by: Caller | None = None) -> str:
        """Switches a session to another model from its next response on; `default` resets it. Returns the current
        one.
        """
        key = self.seen(session, by)
        lane = self._lanes.get(key)
        setup = self._setup(parts(key)[0])
        if model != "default":
            self._allowed_model(model)
        chosen = name_of(setup.model) if model == "default" else model
        provider, slash, id = chosen.partition("/")
        named = {"provider": provider, "model": id} if slash else {"model": chosen}
        entry = CustomMessage("model", {**named, "override": model != "default", "timestamp": milliseconds()})
        if lane is not None and lane.attached and lane.agent is not None:
            lane.agent.model = setup.model if model == "default" else model
            return chosen
        if lane is not None and lane.agent is not None and lane.session is not None:
            lane.session.append(entry)
            lane.agent.model = setup.model if model == "default" else model
            return chosen
        agent, id = parts(key)
        with Session.open(id, agent=agent, store=self._store, create=False) as opened:
            opened.append(entry)
        return chosen

    def _allowed_model(self, model: str) -> None:
        if self.models is not None and model not in self.models:
            raise Forbidden(f"the model {model!r} is not allowed; allowed models: {', '.join(self.models) or 'none'}")
        try:
            connector, found = self.client.find(model)
        except InterlinguaError as error:
            raise ToolInputError(str(error)) from None
        if self.models is None and isinstance(connector, DebugConnector) and ":" in found.id:
            raise Forbidden(f"{model!r} reads a file; it must be named in `models`")


async def _all_of(agent: Agent, prompt: Prompt | None, signal: Abort | None) -> Result:
    """Runs again as long as input was queued between its last check and its end."""
    result = await (agent.continue_(signal=signal) if prompt is None else agent.prompt(prompt, signal=signal))
    while agent.has_queued and result.reason == "done" and not (signal is not None and signal.aborted):
        more = await agent.continue_(signal=signal)
        result = replace(more, messages=(*result.messages, *more.messages), spent=_sum(result.spent, more.spent))
    return result


def _sum(one: Spent, other: Spent) -> Spent:
    cost = None if one.cost is None or other.cost is None else one.cost + other.cost
    return Spent(turns=one.turns + other.turns, tokens=one.tokens + other.tokens, cost=cost)


async def _tools(tools: "Iterable[Tool] | MakeTools", context: ToolContext) -> list[Tool]:
    made: Any = tools(context) if callable(tools) else tools
    return list(await made if isinstance(made, Awaitable) else made)


def _log_failure(task: "asyncio.Task[Any]", key: str) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("%s: %s", key, error)
