"""Live updates: an agent's events as nodes that update on every viewer's screen, token by token.

Only deltas are sent, joined per frame; a viewer that connects later gets the content so far in its snapshot.
"""

import time
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from ..serving.problems import HttpProblem
from ..values.canonical import build
from ..values.errors import FormatError
from ..values.events import (
    AgentEnd,
    AgentEvent,
    BlockEnd,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    StreamEvent,
    TextDelta,
    TextStart,
    ThinkingDelta,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from ..values.messages import AssistantMessage, text_of
from ..values.partials import partial_arguments
from .open_sessions import Hub, OpenSessions
from .shapes import (
    BlockView,
    LiveNode,
    LiveState,
    LossCounts,
    Media,
    OpaqueView,
    RunState,
    RunView,
    Shape,
    TextView,
    ThinkingView,
    ToolCallView,
)
from .views import message_view

PROGRESS_SHOWN = 2_000  # characters of a tool's progress


class _Block:
    """A growing block. Its pieces are joined on access."""

    def __init__(self, kind: str, id: str = "", name: str = "", whole: BlockView | None = None) -> None:
        self.kind = kind
        self.id = id
        self.name = name
        self.whole = whole
        self.pieces: list[str] = []

    def view(self) -> BlockView:
        if self.whole is not None:
            return self.whole
        text = "".join(self.pieces)
        if self.kind == "thinking":
            return ThinkingView(text=text)
        if self.kind == "toolCall":
            return ToolCallView(id=self.id, name=self.name, arguments=partial_arguments(text), arguments_text=text)
        return TextView(text=text)


class RunningNode:
    """A response in progress."""

    def __init__(self, name: str, run: str, message: AssistantMessage, parent: str | None, losses: LossCounts | None):
        self.name = name
        self.blocks: dict[int, _Block] = {}
        self._about = {
            "node": name,
            "run": run,
            "parent": parent,
            "model": message.model,
            "provider": message.provider,
            "losses": losses,
        }
        self._began = int(time.time() * 1000)

    def view(self) -> LiveNode:
        content = tuple(self.blocks[at].view() for at in sorted(self.blocks))
        return LiveNode(**self._about, began=self._began, content=content)  # type: ignore[arg-type]


class Feed:
    """Shows one agent's events on a hub. `at` is the current entry of the agent in its session."""

    def __init__(
        self,
        hub: Hub,
        run: str,
        at: Callable[[], str | None],
        *,
        losses: LossCounts | None = None,
        on_tool: Callable[[str | None], None] = lambda name: None,
    ) -> None:
        self._hub = hub
        self._run = run
        self._at = at
        self._losses = losses
        self._on_tool = on_tool
        self._node: RunningNode | None = None
        self._count = 0
        self._begun: dict[str, float] = {}

    async def __call__(self, event: AgentEvent) -> None:
        match event:
            case MessageStart() if isinstance(event.message, AssistantMessage):
                self._begin(event.message)
            case MessageUpdate():
                self._append_delta(event.assistant_message_event)
            case MessageEnd():
                await self._end(event.message)
            case ToolExecutionStart():
                self._begun[event.tool_call_id] = time.monotonic()
                self._on_tool(event.tool_name)
                self._tool(event.tool_call_id, event.tool_name, "running")
            case ToolExecutionUpdate():
                text = _progress(event.partial_result)
                self._tool(event.tool_call_id, event.tool_name, "running", text=text)
            case ToolExecutionEnd():
                self._on_tool(None)
                self._tool(event.tool_call_id, event.tool_name, "failed" if event.is_error else "done")
            case _:
                pass

    def _begin(self, message: AssistantMessage) -> None:
        self._count += 1
        self._node = RunningNode(f"{self._run}.{self._count}", self._run, message, self._at(), self._losses)
        self._hub.live[self._node.name] = self._node
        self._hub.publish("live", self._node.view())

    def _append_delta(self, event: StreamEvent) -> None:
        node = self._node
        if node is None:
            return
        match event:
            case TextStart():
                self._open(event.content_index, _Block("text"), event.block.text if event.block is not None else "")
            case ThinkingStart():
                text = event.block.thinking if event.block is not None else ""
                self._open(event.content_index, _Block("thinking"), text)
            case ToolCallStart():
                call = event.block
                id, name = (call.id, call.name) if call is not None else ("", "")
                self._open(event.content_index, _Block("toolCall", id, name), "")
            case TextDelta() | ThinkingDelta() | ToolCallDelta():
                block = node.blocks.get(event.content_index)
                if block is not None and event.delta:
                    block.pieces.append(event.delta)
                    self._hub.deltas.add((node.name, event.content_index, event.delta))
            case ToolCallEnd():
                self._replace(event.content_index, AssistantMessage(content=(event.tool_call,)))
            case BlockEnd():
                self._replace(event.content_index, AssistantMessage(content=(event.block,)))
            case _:
                pass

    def _open(self, index: int, block: _Block, text: str) -> None:
        assert self._node is not None
        if text:
            block.pieces.append(text)
        self._node.blocks[index] = block
        self._publish_block(index)

    def _replace(self, index: int, message: AssistantMessage) -> None:
        """Sends a complete block. Media have no address before they are stored."""
        assert self._node is not None
        (view,) = message_view(message, "", lambda name: None).content or (OpaqueView(dialect=""),)
        if isinstance(view, Media):
            view = replace(view, src=None)
        self._node.blocks[index] = _Block("whole", whole=view)
        self._publish_block(index)

    def _publish_block(self, index: int) -> None:
        assert self._node is not None
        self._hub.publish("block", {"node": self._node.name, "block": index, "value": self._node.blocks[index].view()})

    async def _end(self, message: Any) -> None:
        node, entry = self._node, self._at()
        if not isinstance(message, AssistantMessage) or node is None:
            await self._hub.update()
            return
        self._node = None
        if entry is not None:
            self._hub.commit(entry, node.name)
        await self._hub.update()
        self._hub.live.pop(node.name, None)
        fields = {"entry": entry, "stop": message.stop_reason, "error": message.error_message}
        self._hub.publish("settled", {"node": node.name, **{key: value for key, value in fields.items() if value}})

    def close(self) -> None:
        """Removes unfinished nodes when the agent ended without ending them."""
        node, self._node = self._node, None
        if node is not None and self._hub.live.pop(node.name, None) is not None:
            self._hub.publish("settled", {"node": node.name})

    def _tool(self, call: str, name: str, state: str, text: str | None = None) -> None:
        fields: dict[str, Any] = {"run": self._run, "callId": call, "name": name, "state": state}
        if state != "running" and call in self._begun:
            fields["ms"] = int((time.monotonic() - self._begun.pop(call)) * 1000)
        self._hub.publish("tool", fields | ({"text": text} if text else {}))


def _progress(result: Any) -> str:
    """Returns the end of a tool's output so far."""
    content = result.get("content") if isinstance(result, dict) else getattr(result, "content", None)
    if isinstance(content, list):
        text = "".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
    else:
        text = text_of(content) if isinstance(content, str | tuple) else ""
    return text[-PROGRESS_SHOWN:]


# --- reports of remote agents ----------------------------------------------------------------------------------------
#
# Remote agents report here: their responses grow on the canvas while they stream.
#
# They store their messages in their own sessions, which the canvas follows; a report has only what is in progress. An
# agent that stops reporting is considered ended.


SILENCE = 60.0  # seconds without a report after which an agent is considered ended
MAX_FEEDS = 200


class FeedEvent(Shape, frozen=True, kw_only=True):
    """An agent event, and the current entry of its session then."""

    event: dict[str, Any]
    at: str | None = None


class FeedRequest(Shape, frozen=True, kw_only=True):
    """The events of an agent since the last report; none means that it is still working."""

    run: str
    model: str = ""
    events: tuple[FeedEvent, ...] = ()


class Fed(Shape, frozen=True, kw_only=True):
    events: int


class ReportedRun:
    """A run of a remote agent."""

    def __init__(self, hub: Hub, id: str, model: str) -> None:
        self.hub = hub
        self.key = hub.place.key
        self.at: str | None = None
        self.last_received = time.monotonic()
        self.doing: str | None = None
        began = int(time.time() * 1000)
        self._view = RunView(
            id=id, session=self.key, model=model, state="running", began=began, losses=LossCounts(), mine=False
        )
        self.feed = Feed(hub, id, lambda: self.at, on_tool=self._note)

    def _note(self, tool: str | None) -> None:
        self.doing = tool

    @property
    def is_active(self) -> bool:
        return self._view.state == "running"

    def view(self) -> RunView:
        return replace(self._view, head=self.at)

    def live_state(self) -> LiveState:
        return LiveState(
            runs=1, state="running", model=self._view.model or None, doing=self.doing, since=self._view.began
        )

    async def take(self, event: AgentEvent, at: str | None) -> None:
        self.at = at
        await self.feed(event)
        if isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage) and event.message.model:
            self._view = replace(self._view, model=event.message.model)
        if isinstance(event, AgentEnd):
            self.end("done")

    def begin(self) -> None:
        self.hub.publish("run", self.view())

    def end(self, state: RunState) -> None:
        if self.is_active:
            self.feed.close()
            self._view = replace(self._view, state=state, ended=int(time.time() * 1000))
            self.hub.publish("run", self.view())


class Feeds:
    """The agents that report to one canvas."""

    def __init__(self, canvas: OpenSessions) -> None:
        self._canvas = canvas
        self._runs: dict[str, ReportedRun] = {}

    def all(self, key: str | None = None) -> list[ReportedRun]:
        return [run for run in self._runs.values() if key in (None, run.key)]

    async def take(self, hub: Hub, request: FeedRequest) -> int:
        """Shows an agent's events; raises FormatError for an invalid one."""
        events = [(_event(item.event, number), item.at) for number, item in enumerate(request.events)]
        run = self._runs.get(request.run)
        if run is None or not run.is_active or run.hub is not hub:
            run = self._runs[request.run] = hub.runs[request.run] = ReportedRun(hub, request.run, request.model)
            run.begin()
            self._canvas.session_changed(hub.place)
            while len(self._runs) > MAX_FEEDS:
                self._forget(next(iter(self._runs)))
        run.last_received = time.monotonic()
        for event, at in events:
            await run.take(event, at)
        if not run.is_active:
            self._canvas.session_changed(hub.place)
        return len(events)

    def sweep(self) -> None:
        """Ends runs that have been silent for too long."""
        for id, run in list(self._runs.items()):
            if run.is_active and time.monotonic() - run.last_received > SILENCE:
                run.end("stopped")
                self._canvas.session_changed(run.hub.place)
            elif not run.is_active and time.monotonic() - run.last_received > SILENCE:
                self._forget(id)

    def _forget(self, id: str) -> None:
        run = self._runs.pop(id)
        run.end("stopped")
        run.hub.runs.pop(id, None)


def _event(value: dict[str, Any], number: int) -> AgentEvent:
    try:
        event: AgentEvent = build(value, AgentEvent)
    except (FormatError, msgspec.ValidationError) as error:
        raise HttpProblem(
            422,
            f"not an event of an agent: {error}",
            path=f"$.events[{number}].event",
            remedy="send events as they are",
        ) from None
    return event
