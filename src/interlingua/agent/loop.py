"""The agent loop: calls the model, executes its tool calls, and repeats until done.

Every run is one well-formed sequence of events:

    agent_start · turn_start · message_start message_end (each prompt) ·
    message_start message_update* message_end (the response) ·
    tool_execution_start tool_execution_update* tool_execution_end · message_start message_end (each result) ·
    turn_end · turn_start · … · agent_end

New input is accepted only when every call has its result: at the beginning of a turn.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ..connect.results import CORRECTIONS, Spent, correction
from ..connect.retry import Retry
from ..tools.tool import Tool, ToolResult
from ..values.abort import Abort
from ..values.errors import CannotCompact, ContextTooLong, FormatError, InterlinguaError, OutputInvalid
from ..values.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    Done,
    Error,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Start,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    TurnStart,
)
from ..values.interop import must_propagate
from ..values.messages import AgentMessage, AssistantMessage, TextBlock, ToolCall, ToolResultMessage
from ..values.request import Context, ModelDescriptor, ToolSpec
from .batch import CallBatch, Rules, awaited
from .history import History

Listener: TypeAlias = Callable[[AgentEvent], object]

_LIMIT = "limit: "


class Queue(Protocol):
    """A queue of input to be sent."""

    def __bool__(self) -> bool: ...
    def take(self) -> list[AgentMessage]:
        """Returns the messages to send now."""
        ...


class Pending(Struct, frozen=True):
    """A response of an earlier run: its calls without results, and the known results."""

    answer: AssistantMessage
    calls: tuple[ToolCall, ...]
    known: dict[str, ToolResult]


class Limits(Struct, frozen=True, kw_only=True):
    """When a run must end: responses, tokens (in and out), dollars, seconds. None: no limit.

    The seconds limit interrupts a running call; the others prevent the next one.
    """

    turns: int | None = 200
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name, kinds in (("turns", int), ("tokens", int), ("cost", (int, float)), ("seconds", (int, float))):
            limit = getattr(self, name)
            if limit is not None and (isinstance(limit, bool) or not isinstance(limit, kinds)):
                kind = "an integer" if kinds is int else "a number"
                raise FormatError(f"{name} must be {kind} or None, not {limit!r}", f"limits.{name}")

    def reached(self, spent: Spent) -> str | None:
        """Returns the message of a reached limit. A cost limit without a known price counts as reached."""
        if self.turns is not None and spent.turns >= self.turns:
            return f"{_LIMIT}{self.turns} turns"
        if self.tokens is not None and spent.tokens >= self.tokens:
            return f"{_LIMIT}{self.tokens} tokens"
        if self.cost is not None and spent.cost is None:
            return f"{_LIMIT}${self.cost:g} (the price of a response is unknown)"
        if self.cost is not None and spent.cost is not None and spent.cost >= self.cost:
            return f"{_LIMIT}${self.cost:g}"
        return None


class Setup(Struct, frozen=True, kw_only=True):
    """The configuration of a turn. `ask` streams a response as `interlingua.stream` does."""

    ask: Callable[..., Any]
    model: str | ModelDescriptor
    system: Any = None
    tools: Sequence[Tool] = ()
    options: dict[str, Any] = {}
    rules: Rules = Rules()
    limits: Limits = Limits()
    retry: Retry = Retry()
    on_steering: Literal["finish", "skip"] = "finish"
    transforms: tuple[Callable[[Sequence[AgentMessage], Abort], Any], ...] = ()
    convert: Callable[[Sequence[AgentMessage]], Any]
    prepare: Callable[[], Awaitable[object]] | None = None  # called before each response
    make_room: Callable[[], Awaitable[bool]] | None = None  # compacts the history if possible
    verify: Callable[[AssistantMessage], str | None] | None = None  # returns what is wrong with a final answer


class AgentState(Struct):
    """The current state of an agent. Read it at any time; only the agent writes it."""

    is_streaming: bool = False
    pending_tool_calls: set[str] = set()
    error: str | None = None
    latest: MessageStart | MessageUpdate | None = None

    @property
    def stream_message(self) -> AgentMessage | None:
        """The message in progress, as far as it has been received."""
        return self.latest.message if self.latest is not None else None


class EventEmitter:
    """Delivers the events of a run in order, one at a time: to the agent's state, then to every listener.

    It also knows what is open, so that a run that fails can be closed. `report` is called with what a listener raises.
    """

    def __init__(
        self, state: AgentState, listeners: Sequence[Listener], report: Callable[[BaseException], object]
    ) -> None:
        self._state = state
        self._listeners = listeners
        self._report = report
        self._order = asyncio.Lock()
        self._in_turn = False
        self._given = 0  # messages
        self._running: list[ToolExecutionStart] = []
        self._answer: AssistantMessage | None = None
        self._results: list[ToolResultMessage] = []

    async def __call__(self, event: AgentEvent) -> None:
        # Tools run side by side: without the lock, their events would reach a slow listener in another order.
        async with self._order:
            self._follow(event)
            for listener in [*self._listeners]:
                if listener not in self._listeners:
                    continue  # it was unsubscribed during another call
                try:
                    received = listener(event)
                    if isinstance(received, Awaitable):
                        await received
                except BaseException as error:
                    if must_propagate(error):
                        raise
                    self._report(error)

    def resume(self, answer: AssistantMessage) -> None:
        """Marks the current turn as belonging to a response of an earlier run."""
        self._answer = answer

    def _follow(self, event: AgentEvent) -> None:
        state = self._state
        match event:
            case AgentStart():
                state.error = None
            case TurnStart():
                self._in_turn, self._answer, self._results = True, None, []
            case TurnEnd():
                self._in_turn = False
                state.error = getattr(event.message, "error_message", None)
            case MessageStart() | MessageUpdate():
                state.latest = event
            case MessageEnd():
                state.latest = None
                self._given += 1
                self._record(event.message)
            case ToolExecutionStart():
                self._running.append(event)
                state.pending_tool_calls.add(event.tool_call_id)
            case ToolExecutionEnd():
                self._running = [one for one in self._running if one.tool_call_id != event.tool_call_id]
                state.pending_tool_calls.discard(event.tool_call_id)
            case _:
                pass

    def _record(self, message: AgentMessage) -> None:
        if isinstance(message, AssistantMessage):
            self._answer = message
        elif isinstance(message, ToolResultMessage):
            self._results.append(message)

    def tail(
        self, kept: Sequence[AgentMessage], broken: Callable[[AssistantMessage | None], AssistantMessage]
    ) -> Iterator[AgentEvent]:
        """Returns the events that close everything that is open.

        `kept` are the messages stored in this run, emitted or not; `broken` builds the response of a turn that has
        none, from its partial content.
        """
        for call in self._running:
            result = {"content": [{"type": "text", "text": "The run failed before this call ended."}]}
            yield ToolExecutionEnd(call.tool_call_id, call.tool_name, result, True)
        opened = self._state.stream_message
        for message in kept[self._given :]:
            yield from self._whole(message, opened)
            opened = None
        if not self._in_turn:
            return
        if self._answer is None:
            yield from self._whole(broken(opened if isinstance(opened, AssistantMessage) else None), opened)
        yield TurnEnd(self._answer, tuple(self._results))  # type: ignore[arg-type]

    def _whole(self, message: AgentMessage, opened: AgentMessage | None) -> Iterator[AgentEvent]:
        if opened is None:
            yield MessageStart(message)  # type: ignore[arg-type]
        self._record(message)
        yield MessageEnd(message)  # type: ignore[arg-type]


class Loop:
    """One run. `setup` is called before each turn, so changes during a run take effect with the next turn."""

    def __init__(
        self,
        setup: Callable[[], Setup],
        history: History,
        *,
        emit: EventEmitter,
        signal: Abort,
        steering: Queue,
        follow_ups: Queue,
    ) -> None:
        self._now = setup
        self._setup = setup()
        self._history = history
        self._emit = emit
        self._signal = signal
        self._steering = steering
        self._follow_ups = follow_ups
        self._offered: tuple[Sequence[Tool], tuple[ToolSpec, ...] | None] = ((), None)
        self._corrections = 0
        self._room_made = False
        self.new: list[AgentMessage] = []
        self.spent = Spent()
        self.failure: InterlinguaError | None = None

    async def run(
        self, prompts: Sequence[AgentMessage] = (), *, pending: Pending | None = None, poll: bool = True
    ) -> str:
        """Runs to the end and returns the reason. Without `poll`, queued input waits until the first response."""
        await self._emit(AgentStart())
        timer = self._alarm()
        try:
            reason = await self._flow(prompts, pending, poll)
        except BaseException as error:  # from a hook, or from the disk
            if must_propagate(error):
                if isinstance(error, asyncio.CancelledError):
                    self._signal.abort("cancelled")
                    await self._break_off("aborted", "cancelled")
                    await self._emit(AgentEnd(tuple(self.new), "aborted"))  # type: ignore[arg-type]
                raise
            self.failure = error if isinstance(error, InterlinguaError) else InterlinguaError(repr(error))
            reason = self._cut() or "error"
            await self._break_off("error" if reason == "error" else "aborted", str(self.failure))
        finally:
            if timer is not None:
                timer.cancel()
        await self._emit(AgentEnd(tuple(self.new), reason))  # type: ignore[arg-type]
        return reason

    # --- the flow ---------------------------------------------------------------------------------------------------

    async def _flow(self, prompts: Sequence[AgentMessage], pending: Pending | None, poll: bool) -> str:
        await self._emit(TurnStart())
        waiting = [*prompts, *(self._steering.take() if poll and pending is None else ())]
        if pending is not None:  # their results come before any other message
            self._emit.resume(pending.answer)
            more = await self._calls(pending.answer, pending.calls, pending.known)
            following, over = self._after(pending.answer, more or bool(prompts))
            if over is not None and not prompts:
                return over
            waiting += following
            await self._emit(TurnStart())
        for message in waiting:
            await self._add(message)
        over = self._setup.limits.reached(self.spent)
        if over is not None:  # a limit is used up
            await self._break_off("aborted", over)
            return over
        return await self._turns()

    async def _turns(self) -> str:
        failures = 0
        while True:
            if self._setup.prepare is not None:
                await self._setup.prepare()
            answer = await self._answer()
            waiting: list[AgentMessage] = []
            if answer.stop_reason in ("error", "aborted"):
                failures += 1
                await self._end_turn(answer, ())
                if not await self._should_retry(answer, failures):
                    return self._cut() or ("aborted" if answer.stop_reason == "aborted" else "error")
                over = self._over()
            else:
                failures, self._room_made = 0, False
                waiting, over = self._after(answer, await self._calls(answer, answer.tool_calls, {}))
            if over is not None:
                return over
            self._setup = self._now()
            await self._emit(TurnStart())
            for message in waiting:
                await self._add(message)

    def _after(self, answer: AssistantMessage, more: bool) -> tuple[list[AgentMessage], str | None]:
        """Returns the next messages, or why the run ends. Nothing is removed from a queue without being sent."""
        problem = None if more or self._steering else self._problem(answer)
        wrong = None
        if problem is not None and self._corrections < CORRECTIONS:
            self._corrections += 1
            wrong = correction(problem, _milliseconds())
        if wrong is None and not (more or self._steering or self._follow_ups):
            if problem is None:
                return [], "done"
            self.failure = OutputInvalid(f"the answer does not fit the output type: {problem}")
            self.failure.partial = answer
            return [], "error"
        over = self._over()
        if over is not None:
            return [], over
        if wrong is not None:
            return [wrong], None
        return self._steering.take() or ([] if more else self._follow_ups.take()), None

    async def _calls(self, answer: AssistantMessage, calls: Sequence[ToolCall], known: dict[str, ToolResult]) -> bool:
        """Executes the calls of a response and ends its turn; returns whether to call the model again."""
        batch = CallBatch(
            answer,
            self._setup.rules,
            emit=self._emit,
            store=self._store,
            journal=self._history.journal,
            signal=self._signal,
            skip=lambda: self._setup.on_steering == "skip" and bool(self._steering),
        )
        await batch.run(calls, known)
        await self._end_turn(answer, tuple(batch.results))
        return bool(calls) and not batch.terminate

    def _problem(self, answer: AssistantMessage) -> str | None:
        """Returns what is wrong with a final answer."""
        verify = self._setup.verify
        return verify(answer) if verify is not None and not answer.tool_calls else None

    async def _should_retry(self, answer: AssistantMessage, failures: int) -> bool:
        """Whether to retry a failed response, after a delay. Finished calls are in the history."""
        failure, retry = self.failure, self._setup.retry
        if self._signal.aborted or failure is None:
            return False
        if isinstance(failure, ContextTooLong):
            return await self._make_room()
        # Failures before the first event were retried by the client.
        if not answer.content or failures >= retry.attempts or not retry.again(failure):
            return False
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._signal.wait(), retry.wait(failure, failures))
        return not self._signal.aborted

    async def _make_room(self) -> bool:
        """Compacts the history to make room for a response, once until one succeeds."""
        if self._setup.make_room is None or self._room_made:
            return False
        self._room_made = True
        try:
            return await self._setup.make_room()
        except CannotCompact as error:
            error.__cause__ = error.__cause__ or self.failure
            error.partial = self.failure.partial if self.failure is not None else None
            self.failure = error
            return False

    def _over(self) -> str | None:
        return self._cut() or self._setup.limits.reached(self.spent)

    def _cut(self) -> str | None:
        """Returns why the run was interrupted, if it was."""
        if not self._signal.aborted:
            return None
        reason = self._signal.reason
        return reason if isinstance(reason, str) and reason.startswith(_LIMIT) else "aborted"

    def _alarm(self) -> asyncio.TimerHandle | None:
        seconds = self._setup.limits.seconds
        if seconds is None:
            return None
        return asyncio.get_running_loop().call_later(seconds, self._signal.abort, f"{_LIMIT}{seconds:g} s")

    # --- one response
    # ----------------------------------------------------------------------------------------------------

    async def _answer(self) -> AssistantMessage:
        """Streams one response of the model and emits it."""
        setup = self._setup
        context = Context(system=setup.system, messages=await self._readable(), tools=self._specs())
        stream = setup.ask(setup.model, context, signal=self._signal, **setup.options)
        begun = False
        async for event in stream:
            if not begun and not isinstance(event, Done | Error):
                begun = True
                await self._emit(MessageStart(event.partial or AssistantMessage(content=())))
            if not isinstance(event, Start | Done | Error):
                await self._emit(MessageUpdate(event))
        message: AssistantMessage = stream.message
        self.failure = stream.failure
        if not begun:
            await self._emit(MessageStart(message))
        self.spent.add(message)
        self._store(message)
        await self._emit(MessageEnd(message))
        return message

    async def _readable(self) -> Any:
        """Returns the history as the model reads it: transformed, then without messages that are not for models."""
        messages: Any = self._history.messages
        for transform in self._setup.transforms:
            messages = await awaited(transform(tuple(messages), self._signal))
        return tuple(await awaited(self._setup.convert(messages)))

    def _specs(self) -> tuple[ToolSpec, ...] | None:
        if self._offered[0] != self._setup.tools:
            self._offered = self._setup.tools, _specs(self._setup.tools)
        return self._offered[1]

    # --- events -----------------------------------------------------------------------------------------------------

    async def _end_turn(self, message: AssistantMessage, results: tuple[ToolResultMessage, ...]) -> None:
        # On disk before listeners get the turn's end: what they act on must survive a crash.
        self._history.sync()
        await self._emit(TurnEnd(message, results))

    async def _add(self, message: AgentMessage) -> None:
        self._store(message)
        await self._emit(MessageStart(message))  # type: ignore[arg-type]
        await self._emit(MessageEnd(message))  # type: ignore[arg-type]

    def _store(self, message: AgentMessage) -> None:
        self._history.append(message)
        self.new.append(message)

    async def _break_off(self, reason: Literal["error", "aborted"], why: str) -> None:
        """Closes what is open in a failed run; a turn without a response gets one with the reason."""

        def broken(partial: AssistantMessage | None) -> AssistantMessage:
            message = replace(
                partial or AssistantMessage(content=(TextBlock(text=""),), model=_name(self._setup.model)),
                stop_reason=reason,
                error_message=why,
                timestamp=_milliseconds(),
            )
            with contextlib.suppress(Exception):  # storing may be what failed
                self._history.append(message)
            self.new.append(message)
            return message

        for event in [*self._emit.tail(tuple(self.new), broken)]:
            await self._emit(event)


def _specs(tools: Sequence[Tool]) -> tuple[ToolSpec, ...] | None:
    from ..tools.schemas import extract_tool_schema

    return tuple(map(extract_tool_schema, tools)) or None


def _name(model: str | ModelDescriptor) -> str:
    return model.id if isinstance(model, ModelDescriptor) else model.partition("/")[2] or model


def _milliseconds() -> int:
    return int(time.time() * 1000)
