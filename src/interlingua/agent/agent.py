"""`Agent`: a model, its tools and its history. It runs one prompt at a time; callers may steer, queue or abort it."""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Generic, Literal, ParamSpec, TypeAlias, Unpack, get_args

from ..connect.call import ACCESS, AnswerOptions, Fallback, chain, named, options_of, parted, place_of
from ..connect.results import OutputType, Result, T, total_usage
from ..connect.retry import Retry
from ..connect.telemetry import RunSpan, agent_span
from ..conversion.attachments import Source, images_of
from ..dialects.foreign_blocks import meant
from ..tools.calling import Approve
from ..tools.catalog import core_tools
from ..tools.decorator import tool
from ..tools.tool import Tool, ToolContext, ToolResult, as_tool, with_settings
from ..values.abort import Abort
from ..values.canonical import check_context, check_messages, message_of
from ..values.errors import CannotCompact, FormatError, InterlinguaError
from ..values.events import AgentEvent
from ..values.interop import describe, must_propagate, several
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    CustomMessage,
    ImageBlock,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ..values.request import CallOptions, Context, ModelDescriptor, OutputSchema
from ..values.showing import messages_html
from .batch import UNKNOWN, AfterCall, BeforeCall, Rules
from .compaction import Compacted, Compaction
from .history import History, Memory, for_models, opened
from .loop import AgentState, EventEmitter, Limits, Listener, Loop, Pending, Setup

_log = logging.getLogger(__name__)

Prompt: TypeAlias = str | AgentMessage | Mapping[str, Any] | Sequence[AgentMessage | Mapping[str, Any]]
Images: TypeAlias = ImageBlock | Source | Iterable[ImageBlock | Source]
QueueMode: TypeAlias = Literal["one-at-a-time", "all"]
P = ParamSpec("P")
Hooks: TypeAlias = Callable[P, Any] | Sequence[Callable[P, Any]] | None
"""One hook, a sequence of hooks, or None; hooks are called in order, each with the output of the one before it."""


_ASKING = ("fallbacks", "retry", "on_retry")  # options of the client, beside the call options
# Options of every call that an agent makes, including calls outside its conversation. `extra` may restrict where a
# router sends them.
_EVERY_CALL = (*_ASKING, *CallOptions.__struct_fields__, "session_id", "service_tier", "metadata", "extra")


def hooks_of(given: Hooks[P], name: str = "hooks") -> tuple[Callable[P, Any], ...]:
    """The hooks as a tuple; raises `FormatError` for what cannot be called."""
    if given is None:
        return ()
    if callable(given):
        return (given,)
    hooks = several(given, "functions", name)
    for at, one in enumerate(hooks):
        if not callable(one):
            raise FormatError(f"a hook must be a function, not {type(one).__name__}", f"{name}[{at}]")
    return hooks


class Agent(Generic[T]):
    """Runs a conversation with tools.

    `tool_settings` are the settings of core tools that are given by name: `{"exec": {"network": True}}`. `session`
    stores the history on disk; without one it is kept in memory. Listeners receive every event in order and are
    awaited; their exceptions go to `on_listener_error`, never to the run.
    """

    def __init__(
        self,
        model: str | ModelDescriptor,
        tools: Iterable[str | Tool | Callable[..., Any] | Mapping[str, Any]] = (),
        *,
        system: Any = None,
        session: Any = None,
        messages: Iterable[AgentMessage | Mapping[str, Any]] = (),
        client: Any = None,
        context: ToolContext | Mapping[str, Any] | None = None,
        tool_settings: Mapping[str, Mapping[str, Any]] | None = None,
        policy: Any = None,
        approve: Approve | None = None,
        before_tool_call: "Hooks[[BeforeCall]]" = None,
        after_tool_call: "Hooks[[AfterCall]]" = None,
        transform_context: "Hooks[[Sequence[AgentMessage], Abort]]" = None,
        convert: Callable[[Sequence[AgentMessage]], Any] = for_models,
        get_api_key: Callable[[str], Any] | None = None,
        tool_execution: Literal["parallel", "sequential"] = "parallel",
        on_steering: Literal["finish", "skip"] = "finish",
        steering_mode: QueueMode = "one-at-a-time",
        follow_up_mode: QueueMode = "one-at-a-time",
        limits: Limits | None = None,
        retries: int | Retry = 2,
        compaction: Compaction | None = None,
        output: type[T] | UnionType | Mapping[str, Any] | OutputSchema | None = None,
        on_listener_error: Callable[[BaseException], object] | None = None,
        **options: Unpack[AnswerOptions],
    ) -> None:
        named(model)  # validates it
        if limits is not None and not isinstance(limits, Limits):
            raise FormatError(f"limits must be Limits(…), not {type(limits).__name__}", "limits")
        for name, mode, modes in (
            ("tool_execution", tool_execution, ("parallel", "sequential")),
            ("on_steering", on_steering, ("finish", "skip")),
            ("steering_mode", steering_mode, get_args(QueueMode)),
            ("follow_up_mode", follow_up_mode, get_args(QueueMode)),
        ):
            if mode not in modes:
                raise FormatError(f"{name} must be {' or '.join(map(repr, modes))}, not {mode!r}", name)
        for name, hook in (
            ("before_tool_call", before_tool_call),
            ("after_tool_call", after_tool_call),
            ("transform_context", transform_context),
            ("approve", approve),
            ("get_api_key", get_api_key),
        ):
            hooks_of(hook, name)
        if system is not None:
            check_context(Context((), system=system))
        self._model = model
        self._access: dict[Any, dict[str, Any]] = {}  # models that were replaced by fallbacks, by position
        self.context = None if context is None else ToolContext.of(context)
        self.tools: list[Tool] = _tools(tools, self.context, tool_settings)
        self.system = system
        self.policy = policy
        self.approve = approve
        self.before_tool_call = before_tool_call
        self.after_tool_call = after_tool_call
        self.transform_context = transform_context
        self.convert = convert
        self.get_api_key = get_api_key
        self.tool_execution: Literal["parallel", "sequential"] = tool_execution
        self.on_steering: Literal["finish", "skip"] = on_steering
        self.limits = limits or Limits()
        self.retries = retries
        self.compaction = compaction
        # Each turn reads the cache of the last one; "none" disables it. See `cache_markers.place_markers`.
        self.options = {"cache_retention": "short", **_cache_key(session), **options}
        if "output_schema" in options:
            raise InterlinguaError("output_schema is not an option of an agent; pass output=…")
        # Fail on a misspelt name now, not in the first run.
        options_of({name: value for name, value in self.options.items() if name not in _ASKING})
        chain(model, self.options.get("fallbacks", ()))
        self.state = AgentState()
        self.history: History = opened(session, _read(messages, "messages"))
        self.output: OutputType[T] | None = None if output is None else OutputType(output)
        self._client = client
        self._listeners: list[Listener] = []
        self._on_listener_error = on_listener_error
        self._steering: _Queue = _Queue(steering_mode)
        self._follow_ups: _Queue = _Queue(follow_up_mode)
        self._signal: Abort | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    # --- callable at any time
    # --------------------------------------------------------------------------------------------

    @property
    def messages(self) -> Sequence[AgentMessage]:
        """The current history."""
        return self.history.messages

    @property
    def running(self) -> bool:
        return self._signal is not None

    def __repr__(self) -> str:
        model = self._model if isinstance(self._model, str) else f"{self._model.provider}/{self._model.id}"
        doing = ", running" if self.running else ""
        return f"Agent({model!r}, {len(self.tools)} tools, {len(self.messages)} messages{doing})"

    def _repr_html_(self) -> str:
        streaming = self.state.stream_message
        return messages_html([*self.messages, *([streaming] if streaming is not None else ())], repr(self))

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener`, a function or coroutine function, with every event. Returns one that unsubscribes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def watch(self, canvas: Any) -> Callable[[], None]:
        """Shows the agent on a canvas (`open_canvas()`), or commits its messages to a client's canvas or branch.

        Returns a function that stops this.
        """
        return self.subscribe(canvas.listener(self))

    def steer(self, message: Prompt) -> None:
        """Queues input for the next turn of this run; it is sent as soon as all running calls have results."""
        self._steering.add(_messages(message))

    def follow_up(self, message: Prompt) -> None:
        """Queues input to send when the agent would otherwise stop."""
        self._follow_ups.add(_messages(message))

    def take_queued(self) -> list[AgentMessage]:
        """Empties both queues and returns their content; after an abort nothing is sent by itself."""
        return [*self._steering.clear(), *self._follow_ups.clear()]

    @property
    def has_queued(self) -> bool:
        return bool(self._steering) or bool(self._follow_ups)

    def abort(self, reason: Any = None) -> None:
        """Stops the run: the response, the tools, the loop. The partial response is kept."""
        if self._signal is not None:
            self._signal.abort(reason)

    async def wait_for_idle(self) -> None:
        """Waits until no run is active and every listener has received its end."""
        await self._idle.wait()

    def reset(self) -> None:
        """Clears history, queues and error."""
        self._refuse_while_running("reset")
        if not isinstance(self.history, Memory):
            raise InterlinguaError("cannot reset an agent with a session; open another session, or rewind it")
        self.history = opened(None, ())
        self.take_queued()
        self.state = AgentState()

    # --- running ----------------------------------------------------------------------------------------------------

    async def prompt(
        self, prompt: Prompt, *, images: Images = (), signal: Abort | None = None, raise_on_error: bool = False
    ) -> Result[T]:
        """Runs to the end with new input. Failures of a model or tool are not raised: see `Result.reason`.

        With `raise_on_error`, a run that ends in an error raises it; otherwise a failure that no listener sees is
        logged.
        """
        self._refuse_while_running("prompt")
        result = await self._run(_messages(prompt, images), poll=True, signal=signal)
        if result.reason == "error" and raise_on_error:
            raise result.failure or InterlinguaError(self.state.error or "the run failed")
        if result.reason == "error" and not self._listeners:
            _log.warning("the run failed: %s", result.failure or self.state.error)
        return result

    def run_sync(
        self, prompt: Prompt, *, images: Images = (), signal: Abort | None = None, raise_on_error: bool = False
    ) -> Result[T]:
        """`prompt` for programs without an event loop."""
        from ..connect import blocking

        return blocking.run(self.prompt(prompt, images=images, signal=signal, raise_on_error=raise_on_error))

    async def continue_(self, *, signal: Abort | None = None) -> Result[T]:
        """Continues from the current history: calls without results are executed, interrupted ones reported as unknown.

        After a finished response, queued input is sent; without any there is nothing to continue.
        """
        self._refuse_while_running("continue")
        if not self.messages:
            raise InterlinguaError("nothing to continue: the history is empty; prompt the agent instead")
        last = self.messages[-1]
        if isinstance(last, AssistantMessage) and self._pending() is None:
            queued = self._steering.take() or self._follow_ups.take()
            if not queued and last.stop_reason not in ("error", "aborted"):
                raise InterlinguaError("nothing to continue: the last response is finished; prompt the agent")
            return await self._run(queued, poll=False, signal=signal)
        return await self._run((), poll=True, signal=signal)

    async def run(
        self, prompt: Prompt | None = None, *, images: Images = (), signal: Abort | None = None
    ) -> AsyncGenerator[AgentEvent, None]:
        """Yields the events of a run; without a prompt it continues. Leaving the loop aborts the run."""
        self._refuse_while_running("run")
        received: asyncio.Queue[AgentEvent] = asyncio.Queue()

        async def on_event(event: AgentEvent) -> None:
            await received.put(event)
            await received.join()  # the run continues when its reader comes back

        forget = self.subscribe(on_event)
        work = self.continue_(signal=signal) if prompt is None else self.prompt(prompt, images=images, signal=signal)
        task = asyncio.ensure_future(work)
        try:
            async with contextlib.aclosing(_until(task, received)) as events:
                async for event in events:
                    yield event
            await task
        finally:
            forget()
            if not task.done():
                self.abort("the reader stopped iterating")
                async for _ in _until(task, received):
                    pass
                _retrieve(task)

    async def _run(self, prompts: Sequence[AgentMessage], *, poll: bool, signal: Abort | None) -> Result[T]:
        pending = self._pending()
        own = signal.child() if signal is not None else Abort()
        state = AgentState(is_streaming=True)
        loop = Loop(
            self._setup,
            self.history,
            emit=EventEmitter(state, self._listeners, self._report),
            signal=own,
            steering=self._steering,
            follow_ups=self._follow_ups,
        )
        self._signal = own
        self._idle.clear()
        self.state = state
        try:
            with agent_span(named(self._model), getattr(getattr(self.history, "session", None), "id", None)) as span:
                reason = await _to_the_end(asyncio.ensure_future(loop.run(prompts, pending=pending, poll=poll)), own)
                if span is not None:
                    _record_span(span, prompts, loop, reason)
        finally:
            self._signal = None
            self.state.is_streaming = False
            self.state.latest = None
            self.state.pending_tool_calls = set()
            self._idle.set()
        if reason == "error":
            self.state.error = str(loop.failure) if loop.failure is not None else self.state.error
        return Result(
            messages=tuple(loop.new), reason=reason, spent=loop.spent, failure=loop.failure, output=self._output(loop)
        )

    def _setup(self) -> Setup:
        options = self._calling if self.output is None else {**self._calling, "output_schema": self.output.schema}
        return Setup(
            ask=self.client.stream,
            model=self.model,
            system=self.system,
            tools=tuple(self.tools),
            options=options,
            rules=Rules(
                tools={one.name: one for one in self.tools},
                mode=self.tool_execution,
                context=self.context,
                policy=self.policy,
                approve=self.approve,
                before=hooks_of(self.before_tool_call),
                after=hooks_of(self.after_tool_call),
            ),
            limits=self.limits,
            retry=self.retries if isinstance(self.retries, Retry) else Retry(attempts=self.retries + 1),
            on_steering=self.on_steering,
            transforms=hooks_of(self.transform_context),
            convert=self.convert,
            prepare=self._make_room_if_due if self.compaction is not None else None,
            make_room=self._make_room if self.compaction is not None else None,
            verify=self.verify if self.output is not None else None,
        )

    @property
    def model(self) -> str | ModelDescriptor:
        """The model that the agent calls. Key, base URL and headers stay with the provider they were given for."""
        return self._model

    @model.setter
    def model(self, model: str | ModelDescriptor) -> None:
        # A key must not follow the agent to another provider.
        if place_of(model) != place_of(self._model):
            self._access[place_of(self._model)] = {
                name: self.options.pop(name) for name in ACCESS if name in self.options
            }
            self.options |= self._access.pop(place_of(model), {})
        self._model = model

    @property
    def _calling(self) -> dict[str, Any]:
        """Returns the agent's options, and its key resolver."""
        return {**self.options, **({"get_api_key": self.get_api_key} if self.get_api_key is not None else {})}

    async def complete(self, model: Fallback | None, context: Any, **options: Any) -> AssistantMessage:
        """Makes a call outside the conversation, with the agent's model or another, and the agent's settings.

        The agent's key, base URL and headers are used for models of the same provider only; another model uses its own,
        or takes them with it: `{"model": …, "api_key": …}`.
        """
        named, access = parted(self.model if model is None else model, "model")
        calling = {name: value for name, value in self._calling.items() if name in (*_EVERY_CALL, "get_api_key")}
        if access or place_of(named) != place_of(self.model):
            calling = {name: value for name, value in calling.items() if name not in ACCESS} | access
        answer: AssistantMessage = await self.client.complete(named, context, **{**calling, **options})
        return answer

    @property
    def client(self) -> Any:
        """The client that calls the models."""
        if self._client is None:
            from ..connect.client import default_client

            self._client = default_client()
        return self._client

    @property
    def signal(self) -> Abort | None:
        """The abort signal of the current run."""
        return self._signal

    def _report(self, error: BaseException) -> None:
        try:
            if self._on_listener_error is not None:
                self._on_listener_error(error)
                return
        except BaseException as worse:
            if must_propagate(worse):
                raise
            error = worse
        _log.error("a listener of the agent failed", exc_info=error)

    def _pending(self) -> Pending | None:
        """Returns the last response if calls of it have no result, with the known results."""
        answered: Counter[str] = Counter()
        for message in reversed(self.messages):
            if isinstance(message, ToolResultMessage):
                # Counted, not collected: ids may repeat within a response.
                answered[message.tool_call_id] += 1
            elif isinstance(message, AssistantMessage):
                return self._unanswered(message, answered)
            elif not isinstance(message, CustomMessage):
                return None
        return None

    def _unanswered(self, message: AssistantMessage, answered: "Counter[str]") -> Pending | None:
        if message.stop_reason in ("error", "aborted"):
            return None
        calls = tuple(call for call in message.tool_calls if not _taken(answered, call.id))
        if not calls:
            return None
        self.history.reload()  # calls that this process has started count too
        known = {call.id: result for call in calls if (result := self._recovered(call)) is not None}
        return Pending(message, calls, known)

    def _recovered(self, call: ToolCall) -> ToolResult | None:
        """Returns what the journal has about a call: its result, or that it started; None if it never ran."""
        finished = self.history.finished(call.id)
        if finished is not None:
            content: Any = finished.content
            return ToolResult(content=content, details=finished.details, is_error=finished.is_error)
        # A call that was started may have had its effect: it is not run again, and the model is told.
        if self.history.begun(call.id):
            return ToolResult(content=(TextBlock(text=UNKNOWN),), details={"status": "unknown"}, is_error=True)
        return None

    def verify(self, answer: AssistantMessage) -> str | None:
        """Returns what is wrong with a final answer for the agent's output type; None if it is valid."""
        return None if self.output is None else self.output.read(answer).problem

    def _output(self, loop: Loop) -> Any:
        last = next((m for m in reversed(loop.new) if isinstance(m, AssistantMessage)), None)
        if self.output is None or last is None or last.stop_reason in ("error", "aborted"):
            return None
        return self.output.read(last).value

    async def compact(self, *, focus: str | None = None) -> Compacted | None:
        """Compacts the history now and returns the saving; None if there is nothing to compact.

        Raises `CannotCompact` for a history that is too large for the model and cannot be made smaller.
        """
        return await (self.compaction or Compaction()).compact(self, focus=focus)

    async def _make_room_if_due(self) -> None:
        """Compacts the history before the window is full. A failure is ignored: the history may still fit."""
        how = self.compaction
        try:
            if how is not None and await how.due(self):
                await how.compact(self)
        except BaseException as error:  # any error of the summarizer
            if must_propagate(error):
                raise
            _log.error("compaction failed; the history is unchanged", exc_info=error)

    async def _make_room(self) -> bool:
        """Compacts a refused history; returns whether that was possible. Raises `CannotCompact` if it failed."""
        how = self.compaction
        try:
            return how is not None and await how.compact(self, overflowed=True) is not None
        except BaseException as error:
            if must_propagate(error):
                raise
            _log.error("compaction failed; the history is unchanged", exc_info=error)
            if isinstance(error, CannotCompact):
                raise
            raise CannotCompact(f"cannot compact: the summary failed: {describe(error)}") from error

    def _refuse_while_running(self, what: str) -> None:
        if self._signal is not None:
            raise InterlinguaError(
                f"cannot {what} while the agent is running; steer it, queue a follow-up, or abort it"
            )


async def _until(
    task: "asyncio.Future[Any]", received: "asyncio.Queue[AgentEvent]"
) -> AsyncGenerator[AgentEvent, None]:
    """Yields the events received until the task is done and the queue is empty."""
    while not (task.done() and received.empty()):
        receiving = asyncio.ensure_future(received.get())
        try:
            await asyncio.wait({receiving, task}, return_when=asyncio.FIRST_COMPLETED)
            if receiving.done():
                yield receiving.result()
        finally:
            # The run waits for an event that was taken, also if its reader was cancelled before it got it.
            if not receiving.cancel() and not receiving.cancelled():
                received.task_done()


async def _to_the_end(work: "asyncio.Task[str]", signal: Abort) -> str:
    """Waits for a run. A cancellation aborts it, so that it ends cleanly; a second one does not wait for that."""
    try:
        # The run ends by its signal, not in the middle of a write.
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        signal.abort("cancelled")
        while not work.done():
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError:
                work.cancel()
        _retrieve(work)
        raise


def _retrieve(task: "asyncio.Future[Any]") -> None:
    """Retrieves the exception of a task that is no longer awaited, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()


def _taken(counts: "Counter[str]", id: str) -> bool:
    counts[id] -= 1
    return counts[id] >= 0


def _cache_key(session: Any) -> dict[str, Any]:
    """Returns the session id, for providers that cache by session."""
    id = getattr(session, "id", None)
    return {} if id is None else {"session_id": id}


class _Queue:
    """A queue of messages to be sent."""

    def __init__(self, mode: QueueMode) -> None:
        self._mode = mode
        self._waiting: list[list[AgentMessage]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, messages: Sequence[AgentMessage]) -> None:
        self._waiting.append(list(messages))

    def take(self) -> list[AgentMessage]:
        """Returns the messages to send now: one input, or all, depending on the mode."""
        if self._mode == "all":
            return self.clear()
        return self._waiting.pop(0) if self._waiting else []

    def clear(self) -> list[AgentMessage]:
        waiting, self._waiting = self._waiting, []
        return [message for group in waiting for message in group]


def _tools(given: Iterable[Any], context: ToolContext | None, settings: Mapping[str, Any] | None) -> list[Tool]:
    """Normalizes tools of any form; strings name core tools, with their settings; default: the current folder."""
    context = with_settings(context if context is not None else ToolContext(root=str(Path.cwd())), settings)
    given = (given,) if isinstance(given, str) else several(given, "functions, tools or names of core tools", "tools")
    made: list[Tool] = []
    names: set[str] = set()
    for at, one in enumerate(given):
        if isinstance(one, str):
            found = [each for each in core_tools([one], context) if each.name not in names]
            names |= {each.name for each in found}
            made += found
        elif (found_tool := as_tool(one)) is not None:
            made.append(found_tool)
        elif callable(one):
            made.append(tool(one))
        else:
            what = type(one).__name__
            raise FormatError(f"a tool must be a function, a Tool or a core tool's name, not {what}", f"tools[{at}]")
    return made


def _messages(prompt: Prompt, images: Images = ()) -> list[AgentMessage]:
    images = images_of(images)
    if isinstance(prompt, str):
        text = (TextBlock(text=prompt),) if prompt or not images else ()
        return [UserMessage(content=(*text, *images), timestamp=int(time.time() * 1000))]
    return _read(prompt if isinstance(prompt, list | tuple) else [prompt], "prompt")


def _read(messages: Iterable[Any], path: str) -> list[AgentMessage]:
    given = [message_of(one, f"{path}[{at}]") for at, one in enumerate(several(messages, "messages", path))]
    check_messages(given, path)
    return meant(given)


def _record_span(span: RunSpan, prompts: Sequence[AgentMessage], loop: Loop, reason: str) -> None:
    """Records usage and outcome on the span of a run."""
    answers = [message for message in loop.new if isinstance(message, AssistantMessage)]
    span.set_content(input__messages=prompts, output__messages=answers[-1:])
    usage = total_usage(answer.usage for answer in answers)
    if usage is not None:
        span.set_usage(usage)
    if reason == "error":
        span.fail(type(loop.failure).__name__ if loop.failure is not None else "error")
