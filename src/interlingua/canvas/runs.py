"""Runs: responses from one or several models at once, streamed into the tree; stop, approval and steering.

A run is an agent on a branch of a session. Several runs of one session share its single writer; if another process is
that writer, or the session is another program's, they write a linked fork of it.
"""

import asyncio
import base64
import hashlib
import logging
import re
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from ..agent import Agent
from ..agent.compaction import Compaction
from ..connect.client import Client, default_client
from ..conversion.adapting.adapter import adapt
from ..plugins.installed import tool_config
from ..serving.access import write_private
from ..serving.problems import HttpProblem
from ..sessions import Session, SessionBusy
from ..tools.catalog import discover_core_tools
from ..tools.fs import local_bridge
from ..tools.policy import ASK, ApprovalRequest, Permissions, Rule, standing_rule
from ..tools.registry import PROFILES, ToolRegistry
from ..tools.tool import Tool, ToolContext
from ..values.errors import InterlinguaError, ProviderError
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    AudioBlock,
    Block,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    UserMessage,
)
from ..values.regular import read_regular
from ..values.request import Context, ModelDescriptor, Request
from .library import SessionPlace
from .live import Feed
from .open_sessions import Hub, OpenSessions
from .shapes import (
    Approval,
    ErrorView,
    InputBlock,
    LiveState,
    LossCounts,
    RowUsage,
    RunRequest,
    RunState,
    RunView,
    StartedRuns,
    ToolList,
    ToolView,
)
from .targets import counted, described
from .writers import AGENT, BranchHistory, Writers

# --- tools -----------------------------------------------------------------------------------------------------------
#
# The tools that the canvas offers to its runs: none, unless it was started with some.


class Toolbox:
    """Tools of a profile, confined to one folder; changes require approval."""

    def __init__(self, profile: str = "none", root: Path | None = None) -> None:
        self.permissions = Permissions(ASK)
        self.context: ToolContext | None = None
        self._tools: dict[str, Tool] = {}
        self._sections: dict[str, str] = {}
        if profile == "none":
            return
        where = str((root or Path.cwd()).resolve())
        self.permissions = Permissions(replace(ASK, root=where))
        bridge = local_bridge(where)
        self.context = ToolContext(root=where, workspace_dir=where, bridge=bridge, config=tool_config())
        registry = ToolRegistry(on_warning=lambda text: None)
        discover_core_tools(registry, on_load_warning=lambda text: None)
        self._tools = {tool.name: tool for tool in registry.resolve_by_profile(profile, self.context)}
        self._sections = {meta.id: meta.section_id for meta in registry.list()}

    def chosen(self, names: tuple[str, ...]) -> list[Tool]:
        """Returns the tools with these names; 422 for one that is not offered."""
        for at, name in enumerate(names):
            if name not in self._tools:
                raise HttpProblem(
                    422,
                    f"tool {name!r} is not available here",
                    path=f"$.tools[{at}]",
                    remedy="start the canvas with --tools, or choose one of /api/tools",
                )
        return [self._tools[name] for name in names]

    def listed(self) -> ToolList:
        return ToolList(
            tools=tuple(
                ToolView(
                    name=tool.name,
                    label=tool.label or tool.name,
                    section=self._sections.get(tool.name, ""),
                    asks=self.permissions.decide(tool.name, {}).action == "ask",
                )
                for tool in self._tools.values()
            ),
            profiles=tuple(PROFILES) if self._tools else (),
        )


# --- uploads ---------------------------------------------------------------------------------------------------------
#
# Media that the page uploads before sending a message: stored by hash until they are used, or for a day.


UPLOAD_RETENTION = 24 * 3600.0  # seconds
_NAME = re.compile(r"[0-9a-f]{64}")


class Uploads:
    """A folder of uploads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        self._forget_old()
        write_private(self._folder / name, data)
        return name

    def get(self, name: str) -> bytes | None:
        if not _NAME.fullmatch(name):
            return None
        try:
            return read_regular(self._folder / name)
        except OSError:
            return None

    def _forget_old(self) -> None:
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                if path.stat().st_mtime < time.time() - UPLOAD_RETENTION:
                    path.unlink(missing_ok=True)


# --- runs ------------------------------------------------------------------------------------------------------------


MAX_RUNS = 8
MAX_ENDED_RUNS = 200  # ended runs, for viewers that reconnect
_MEDIA = {"image": ImageBlock, "audio": AudioBlock, "document": DocumentBlock}
_log = logging.getLogger(__name__)


class CanvasRun:
    """One model's response, with its tools."""

    def __init__(self, view: RunView, hub: Hub, agent: Agent, history: BranchHistory) -> None:
        self._view = view
        self.hub = hub
        self.agent = agent
        self.history = history
        self.key = view.session
        self.task: asyncio.Task[None] | None = None
        self.waiting: dict[str, tuple[Approval, asyncio.Future[bool], Rule | None]] = {}
        self.doing: str | None = None

    @property
    def id(self) -> str:
        return self._view.id

    @property
    def is_active(self) -> bool:
        return self._view.state in ("starting", "running", "waiting")

    def view(self) -> RunView:
        return replace(
            self._view,
            head=self.history.at,
            branch=self.history.branch,
            queued=int(self.agent.has_queued),
            waiting=tuple(approval for approval, _, _ in self.waiting.values()),
        )

    def turn(self, state: RunState, **more: Any) -> None:
        """Changes the state and notifies the viewers."""
        self._view = replace(self._view, state=state, **more)
        self.hub.publish("run", self.view())

    def add_usage(self, message: AssistantMessage) -> None:
        """Sums up the usage of the run's responses; an unknown price makes the sum unknown."""
        usage, before = message.usage, self._view.usage
        if usage is None:
            return
        total = RowUsage(
            input=usage.input + (before.input if before else 0),
            output=usage.output + (before.output if before else 0),
            cache_read=usage.cache_read + (before.cache_read if before else 0),
            cache_write=usage.cache_write + (before.cache_write if before else 0),
            total=usage.total_tokens + (before.total if before else 0),
        )
        known = usage.cost.total if usage.cost is not None else None
        sofar = 0.0 if before is None else self._view.cost
        cost = None if known is None or sofar is None else sofar + known
        self._view = replace(self._view, usage=total, cost=cost)

    def live_state(self) -> LiveState:
        return LiveState(
            runs=1,
            state="waiting" if self._view.state == "waiting" else "running",
            model=self._view.model,
            doing=self.doing,
            since=self._view.began,
        )


class CanvasRuns:
    """All runs of one canvas."""

    def __init__(self, canvas: OpenSessions, toolbox: Toolbox, client: Client | None = None) -> None:
        self._canvas = canvas
        self._client = client
        self.toolbox = toolbox
        self.writers = Writers(canvas.library)
        self.uploads = Uploads(canvas.library.folder / "uploads")
        self._runs: dict[str, CanvasRun] = {}
        self._started: dict[str, StartedRuns] = {}

    @property
    def client(self) -> Client:
        return self._client or default_client()

    def all(self, key: str | None = None) -> list[CanvasRun]:
        return [run for run in self._runs.values() if key in (None, run.key, run.hub.place.key)]

    def find(self, id: str) -> CanvasRun:
        run = self._runs.get(id)
        if run is None:
            raise HttpProblem(404, f"no run {id!r}", code="run_not_found", remedy="reload the session")
        return run

    # --- start -------------------------------------------------------------------------------------------------------

    async def start(self, hub: Hub, request: RunRequest) -> StartedRuns:
        """Appends the prompt, and starts a response of each model below it."""
        if request.key is not None and request.key in self._started:
            return self._started[request.key]
        self._check(request)
        models = [await asyncio.to_thread(described, name, self.client) for name in request.models]
        tools = self.toolbox.chosen(request.tools)
        at = await asyncio.to_thread(self._beginning, hub, request)
        message = await asyncio.to_thread(self._message, request)
        place, session, linked = await self._writer(hub, at)
        try:
            at = await self._append_message(session, at, message, hub, request)
            await asyncio.to_thread(self._refuse_finished, session, at)
            runs = []
            for number, (name, model) in enumerate(zip(request.models, models, strict=True)):
                branch = await asyncio.to_thread(self._branch, session, request, at, number, len(models))
                run = await self._make(
                    hub, place, session, at, name, model, branch, request, tools, message is not None
                )
                runs.append(run)
        except BaseException:
            await self.writers.release(place.key)
            raise
        for run in runs:
            await self.writers.take(place)
            self._runs[run.id] = run
            hub.runs[run.id] = run
            run.task = asyncio.ensure_future(self._execute(run, place, hub))
        await self.writers.release(place.key)
        self._forget_old()
        started = StartedRuns(
            session=await asyncio.to_thread(self._canvas.describe, place),
            linked=linked,
            prompt=at if message is not None else None,
            runs=tuple(run.view() for run in runs),
        )
        if request.key is not None:
            self._started[request.key] = started
        return started

    def _check(self, request: RunRequest) -> None:
        if not 1 <= len(request.models) <= MAX_RUNS:
            raise HttpProblem(422, f"{len(request.models)} models", path="$.models", remedy=f"choose 1 to {MAX_RUNS}")
        if sum(run.is_active for run in self._runs.values()) + len(request.models) > MAX_RUNS:
            raise HttpProblem(429, f"more than {MAX_RUNS} runs at once", remedy="wait for one to end, or stop one")
        if request.replaces is not None and not (request.text or request.content):
            raise HttpProblem(422, "no replacement given", path="$.text", remedy="give a replacement")

    def _beginning(self, hub: Hub, request: RunRequest) -> str | None:
        """Returns the entry below which the run begins."""
        if request.replaces is not None:
            return hub.tree.entry(request.replaces).parent_id
        if request.start is UNSET:
            return hub.tree.head()
        start: Any = request.start
        if start is not None:
            hub.tree.entry(start)
        return None if start is None else str(start)

    def _message(self, request: RunRequest) -> UserMessage | None:
        blocks: list[Block] = []
        for at, given in enumerate(request.content):
            blocks.append(self._block(given, at))
        if not blocks and not (request.text or "").strip():
            return None
        content: Any = (
            request.text if not blocks else (*blocks, *([TextBlock(text=request.text)] if request.text else []))
        )
        return UserMessage(content=content, timestamp=_now())

    def _block(self, given: InputBlock, at: int) -> Block:
        if given.type == "text":
            return TextBlock(text=given.text or "")
        data = self.uploads.get(given.upload or "")
        if data is None:
            raise HttpProblem(422, "unknown upload", path=f"$.content[{at}].upload", remedy="upload it to /api/uploads")
        encoded = base64.b64encode(data).decode()
        title = {"title": given.title} if given.type == "document" and given.title else {}
        block: Block = _MEDIA[given.type](data=encoded, mime_type=given.mime_type, **title)
        return block

    async def _writer(self, hub: Hub, at: str | None) -> tuple[SessionPlace, Session, bool]:
        """Returns the session to write: the one that holds the entry, or a linked fork if that cannot be written."""
        key = await asyncio.to_thread(hub.tree.key_at, at)
        place = self._canvas.library.place(key)
        if not place.read_only:
            try:
                return place, await self.writers.take(place), key != hub.place.key
            except SessionBusy:
                pass
        fork = await asyncio.to_thread(self._fork, hub, at)
        linked = self._canvas.library.place(self._canvas.library.own_key(fork.agent, fork.id))
        await self.writers.keep(linked.key, fork)
        self._canvas.describer.forget(linked.key)
        await hub.link(linked)
        return linked, fork, True

    def _fork(self, hub: Hub, at: str | None) -> Session:
        source = hub.tree.session_at(at)
        agent = hub.place.agent if not hub.place.read_only else AGENT
        return source.fork(at, agent=agent, store=self._canvas.library.store, linked=True, empty=at is None)

    async def _append_message(
        self, session: Session, at: str | None, message: UserMessage | None, hub: Hub, request: RunRequest
    ) -> str | None:
        """Appends the prompt; returns the entry that the models respond to."""
        if message is None:
            return at
        branch = await asyncio.to_thread(self._moving, session, request, at)
        history = BranchHistory(session, at, branch)
        await asyncio.to_thread(history.append, message)
        await hub.update()
        return history.at

    def _moving(self, session: Session, request: RunRequest, at: str | None) -> str | None:
        """Returns the named branch that the prompt moves: the requested one, or the one that ends here."""
        if request.branch is not None:
            if request.branch not in session.branches():
                session.set_branch(request.branch, at)
            return request.branch
        if request.replaces is not None or at is None:
            return None
        return next((branch.name for branch in session.branches().values() if branch.head == at), None)

    def _branch(self, session: Session, request: RunRequest, at: str | None, number: int, count: int) -> str | None:
        """The branch of one model's response: the prompt's own for the first; numbered names for further ones."""
        ends_here = next((branch.name for branch in session.branches().values() if branch.head == at), None)
        if number == 0:
            return ends_here if request.branch is not None or count == 1 else None
        if request.branch is None:
            return None
        name = f"{request.branch}-{number + 1}"
        session.set_branch(name, at)
        return name

    def _refuse_finished(self, session: Session, at: str | None) -> None:
        last: AgentMessage | None = session.entry(at, media=False).message if at is not None else None
        if last is None:
            raise HttpProblem(422, "no message to answer", path="$.text", remedy="send a message")
        is_done = isinstance(last, AssistantMessage) and last.stop_reason not in ("error", "aborted")
        if is_done and not session.unfinished_calls(to=at):
            raise HttpProblem(
                422,
                "the last answer is finished",
                path="$.from",
                remedy="send a message, or answer the entry before it",
            )

    async def _make(
        self,
        hub: Hub,
        place: SessionPlace,
        session: Session,
        at: str | None,
        name: str,
        model: ModelDescriptor,
        branch: str | None,
        request: RunRequest,
        tools: Sequence[Any],
        prompted: bool,
    ) -> CanvasRun:
        history = await asyncio.to_thread(BranchHistory, session, at, branch)
        base = session.base
        options = _options(request)
        agent = Agent(
            model,
            tools,
            system=base.system,
            client=self.client,
            context=self.toolbox.context,
            policy=self.toolbox.permissions,
            transform_context=_as_text(model) if request.thinking == "text" else None,
            compaction=Compaction(),
            **options,
        )
        agent.history = history
        losses = await asyncio.to_thread(_losses, history, base.system, model, request.thinking)
        view = RunView(
            id=secrets.token_hex(4),
            session=place.key,
            start=at,
            prompt=at if prompted else None,
            model=name,
            branch=branch,
            state="starting",
            began=_now(),
            losses=losses,
            tools=request.tools,
        )
        run = CanvasRun(view, hub, agent, history)
        agent.approve = lambda request: self._approve(run, request)
        return run

    # --- execution ---------------------------------------------------------------------------------------------------

    async def _execute(self, run: CanvasRun, place: SessionPlace, hub: Hub) -> None:
        """Runs to the end; viewers see the outcome."""

        def doing(name: str | None) -> None:
            run.doing = name
            self._canvas.session_changed(hub.place)

        feed = Feed(hub, run.id, lambda: run.history.at, losses=run.view().losses, on_tool=doing)

        async def follow(event: Any) -> None:
            await feed(event)
            message = getattr(event, "message", None)
            if event.type == "message_end" and isinstance(message, AssistantMessage):
                run.add_usage(message)
                run.turn(run.view().state)

        run.agent.subscribe(follow)
        run.turn("running")
        self._canvas.session_changed(hub.place)
        try:
            result = await run.agent.continue_()
            state, error = _outcome(result)
        except asyncio.CancelledError:
            state, error = "stopped", None
        except Exception as failure:
            if not isinstance(failure, InterlinguaError):
                _log.error("a run of the canvas failed", exc_info=failure)
            state, error = "error", _error_view(failure)
        finally:
            feed.close()
            for _, future, _ in run.waiting.values():
                future.cancel()
            run.waiting.clear()
            await self.writers.release(place.key)
        await hub.update()
        run.turn(state, error=error, ended=_now())
        self._canvas.session_changed(hub.place)

    async def _approve(self, run: CanvasRun, request: ApprovalRequest) -> bool:
        """Waits for the user's approval."""
        rule = standing_rule(request.tool_name, request.params)
        approval = Approval(
            run=run.id,
            call_id=request.tool_call_id,
            tool=request.tool_name,
            arguments=request.params,
            reason=request.reason,
            pattern=_pattern(rule),
        )
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        run.waiting[request.tool_call_id] = (approval, future, rule)
        run.hub.publish("waiting", approval)
        run.turn("waiting")
        self._canvas.session_changed(run.hub.place)
        stopped = asyncio.ensure_future(_aborted(run.agent))
        try:
            either: set[asyncio.Future[Any]] = {future, stopped}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return future.done() and not future.cancelled() and future.result()
        finally:
            stopped.cancel()
            run.waiting.pop(request.tool_call_id, None)
            if run.is_active:
                run.turn("waiting" if run.waiting else "running")
                self._canvas.session_changed(run.hub.place)

    def answer(self, run: CanvasRun, call_id: str, allow: bool, always: bool) -> None:
        """Resolves a call that waits for approval."""
        self._refuse_over(run)
        waiting = run.waiting.get(call_id)
        if waiting is None:
            raise HttpProblem(
                409, f"no call {call_id!r} waits", code="run_over", path="$.callId", remedy="reload the run"
            )
        _, future, rule = waiting
        if allow and always:
            if rule is None:
                raise HttpProblem(422, "no rule would cover this call", path="$.always", remedy="allow it once")
            self.toolbox.permissions.allow(rule)
        if not future.done():
            future.set_result(allow)
        run.hub.publish("answered", {"run": run.id, "callId": call_id, "allow": allow})

    def stop(self, run: CanvasRun) -> None:
        self._refuse_over(run)
        run.agent.abort("stopped")

    def steer(self, run: CanvasRun, text: str) -> None:
        """Queues input for a running agent; it is sent as soon as all running calls have results."""
        self._refuse_over(run)
        if not text.strip():
            raise HttpProblem(422, "empty message", path="$.text", remedy="send some text")
        run.agent.steer(UserMessage(content=text, timestamp=_now()))
        run.turn(run.view().state)

    def _refuse_over(self, run: CanvasRun) -> None:
        if not run.is_active:
            raise HttpProblem(409, f"the run {run.id} is over", code="run_over", remedy="continue from its end")

    async def close(self) -> None:
        """Stops every run. Partial responses are kept; the writers stay open for requests in progress."""
        tasks = [run.task for run in self._runs.values() if run.task is not None and not run.task.done()]
        for run in self._runs.values():
            if run.is_active:
                run.agent.abort("the canvas stops")
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=10)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _forget_old(self) -> None:
        over = [id for id, run in self._runs.items() if not run.is_active]
        for id in over[: max(0, len(over) - MAX_ENDED_RUNS)]:
            run = self._runs.pop(id)
            run.hub.runs.pop(id, None)
        while len(self._started) > MAX_ENDED_RUNS:
            del self._started[next(iter(self._started))]


async def _aborted(agent: Agent) -> None:
    if agent.signal is not None:
        await agent.signal.wait()


def _options(request: RunRequest) -> dict[str, Any]:
    given = request.options
    if given is None:
        return {}
    named = {"max_tokens": given.max_tokens, "temperature": given.temperature, "reasoning": given.reasoning}
    return {name: value for name, value in named.items() if value is not None}


def _as_text(model: ModelDescriptor) -> Any:
    """A transform that gives the model other models' thinking as plain text."""

    def transform(messages: Sequence[AgentMessage], signal: Any) -> Any:
        context = Context(messages=tuple(messages))  # type: ignore[arg-type]
        return adapt(Request(model=model, context=context), model, thinking="text").request.context.messages

    return transform


def _losses(history: BranchHistory, system: Any, model: ModelDescriptor, thinking: Any) -> LossCounts:
    """Counts the losses of the hand-over to this model."""
    from ..agent.history import for_models

    if not model.api:
        return LossCounts()
    context = Context(system=system, messages=tuple(for_models(history.messages)))
    try:
        return counted(adapt(Request(model=model, context=context), model, thinking=thinking).losses)
    except InterlinguaError:
        return LossCounts()


def _outcome(result: Any) -> tuple[RunState, ErrorView | None]:
    if result.reason == "aborted":
        return "stopped", None
    if result.reason == "error":
        return "error", _error_view(result.failure, result.message)
    return "done", None


def _error_view(failure: BaseException | None, message: AssistantMessage | None = None) -> ErrorView:
    text = str(failure) if failure is not None else (message.error_message if message is not None else None)
    return ErrorView(
        kind=type(failure).__name__ if failure is not None else "Error",
        message=text or "the answer failed",
        retry_after=failure.retry_after if isinstance(failure, ProviderError) else None,
        provider=failure.provider if isinstance(failure, ProviderError) else None,
    )


def _pattern(rule: Rule | None) -> str | None:
    if rule is None:
        return None
    commands = rule.command if isinstance(rule.command, tuple) else (rule.command,) if rule.command else ()
    return " and ".join(f"{command} …" for command in commands) or f"{rule.tool}"


def _now() -> int:
    return int(time.time() * 1000)
