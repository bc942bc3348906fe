"""Agents elsewhere that report here: their answers grow on the canvas while they are written.

What they say is stored by themselves, in their sessions, which the canvas follows; a report brings only what is under
way. One that falls silent is taken to have ended.
"""

import time
from typing import Any

import msgspec
from msgspec.structs import replace

from ..serving.problems import HttpProblem
from ..values.canonical import build
from ..values.errors import FormatError
from ..values.events import AgentEnd, AgentEvent, MessageEnd
from ..values.messages import AssistantMessage
from .hubs import Hub
from .live import Feed
from .open_sessions import OpenSessions
from .shapes import LiveState, LossCounts, RunState, RunView, Shape

SILENCE = 60.0  # seconds without a report after which an agent is taken to have ended
MAX_FEEDS = 200


class FeedEvent(Shape, frozen=True, kw_only=True):
    """An event of an agent, and the entry at which its session stood then."""

    event: dict[str, Any]
    at: str | None = None


class FeedRequest(Shape, frozen=True, kw_only=True):
    """What an agent did since the last report; none says that it still works."""

    run: str
    model: str = ""
    events: tuple[FeedEvent, ...] = ()


class Fed(Shape, frozen=True, kw_only=True):
    events: int


class ReportedRun:
    """A run of an agent elsewhere."""

    def __init__(self, hub: Hub, id: str, model: str) -> None:
        self.hub = hub
        self.key = hub.place.key
        self.at: str | None = None
        self.heard = time.monotonic()
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

    async def take(self, hub: Hub, asked: FeedRequest) -> int:
        """Shows what an agent did; raises FormatError for an event that is none."""
        events = [(_event(item.event, number), item.at) for number, item in enumerate(asked.events)]
        run = self._runs.get(asked.run)
        if run is None or not run.is_active or run.hub is not hub:
            run = self._runs[asked.run] = hub.runs[asked.run] = ReportedRun(hub, asked.run, asked.model)
            run.begin()
            self._canvas.session_changed(hub.place)
            while len(self._runs) > MAX_FEEDS:
                self._forget(next(iter(self._runs)))
        run.heard = time.monotonic()
        for event, at in events:
            await run.take(event, at)
        if not run.is_active:
            self._canvas.session_changed(hub.place)
        return len(events)

    def sweep(self) -> None:
        """Ends what has been silent for too long."""
        for id, run in list(self._runs.items()):
            if run.is_active and time.monotonic() - run.heard > SILENCE:
                run.end("stopped")
                self._canvas.session_changed(run.hub.place)
            elif not run.is_active and time.monotonic() - run.heard > SILENCE:
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
