"""Executes the tool calls of one response; results are returned in call order.

Calls run concurrently unless the mode or the tool forbids it. A result that is ready before its turn is written to the
journal, so that a crash does not lose it.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..connect.telemetry import tool_span
from ..sessions.executions import UNKNOWN as UNKNOWN
from ..tools.calling import Approve, call_tool, failure
from ..tools.tool import Tool, ToolContext, ToolResult, as_result
from ..values import jsontext
from ..values.abort import Abort
from ..values.canonical import plain
from ..values.errors import FormatError, nearest
from ..values.events import (
    AgentEvent,
    MessageEnd,
    MessageStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from ..values.interop import describe, must_propagate, struct_of
from ..values.messages import AssistantMessage, TextBlock, ToolCall, ToolResultMessage

Emit: TypeAlias = Callable[[AgentEvent], Awaitable[None]]

_log = logging.getLogger(__name__)

SKIPPED = "This call was skipped: new input arrived before it started. It did not run."
CUT_SHORT = (
    "This call was not run: the answer was cut off by the output limit, so its arguments may be incomplete. "
    "Make the call again, with shorter arguments if it does not fit."
)
NOT_RUN = "This call was not run: the run was aborted before it started."


class BeforeCall(Struct, frozen=True, kw_only=True):
    """The argument of a `before_tool_call` hook. Arguments are validated; it may return a `Verdict` to block or
    change them.
    """

    message: AssistantMessage
    call: ToolCall
    arguments: dict[str, Any]


class AfterCall(Struct, frozen=True, kw_only=True):
    """The argument of an `after_tool_call` hook. It may return a `ToolResult` that replaces the result."""

    message: AssistantMessage
    call: ToolCall
    arguments: Any
    result: ToolResult


class Verdict(Struct, frozen=True, kw_only=True):
    """A hook's decision: `block` with a reason, or other `arguments`. A mapping with these fields is accepted too."""

    block: bool = False
    reason: str | None = None
    arguments: dict[str, Any] | None = None


class Rules(Struct, frozen=True, kw_only=True):
    """How calls are executed."""

    tools: dict[str, Tool] = {}
    mode: Literal["parallel", "sequential"] = "parallel"
    context: ToolContext | None = None
    policy: Any = None
    approve: Approve | None = None
    before: tuple[Callable[[BeforeCall], Any], ...] = ()
    after: tuple[Callable[[AfterCall], Any], ...] = ()


class CallJournal:
    """Records that a call has started, and the result of one that finished before its turn."""

    def note_begun(self, call: ToolCall) -> None:
        """Called before a tool runs."""

    def note_finished(self, call: ToolCall, result: ToolResultMessage) -> None:
        """Called when a tool has finished and its result cannot be written yet."""


class CallBatch:
    """The calls of one response until their results. `store` saves a result to disk before any listener receives it."""

    def __init__(
        self,
        message: AssistantMessage,
        rules: Rules,
        *,
        emit: Emit,
        store: Callable[[ToolResultMessage], None],
        journal: CallJournal,
        signal: Abort,
        skip: Callable[[], bool] = lambda: False,
    ) -> None:
        self._message = message
        self._rules = rules
        self._emit = emit
        self._store = store
        self._journal = journal
        self._signal = signal
        self._skip = skip
        self._asking = asyncio.Lock()  # one question to the user at a time
        self._emitting = asyncio.Lock()  # result messages are emitted in order
        self._done: dict[int, ToolResultMessage] = {}
        self._given = 0
        self.results: list[ToolResultMessage] = []
        self.terminate = False

    async def run(self, calls: Sequence[ToolCall], known: dict[str, ToolResult] | None = None) -> None:
        """Executes the calls that have no known result. Afterwards every call has one, in `results`."""
        wishes: list[bool] = []
        for group in self._groups(calls):
            wishes += await _side_by_side([self._one(at, call, (known or {}).get(call.id)) for at, call in group])
        self.terminate = bool(wishes) and all(wishes)

    def _groups(self, calls: Sequence[ToolCall]) -> list[list[tuple[int, ToolCall]]]:
        """Groups calls that may run concurrently; a sequential call is a group of its own."""
        groups: list[list[tuple[int, ToolCall]]] = []
        alone = True
        for at, call in enumerate(calls):
            tool = self._rules.tools.get(call.name)
            sequential = self._rules.mode == "sequential" or (tool is not None and tool.sequential)
            if sequential or alone:
                groups.append([])
            groups[-1].append((at, call))
            alone = sequential
        return groups

    async def _one(self, at: int, call: ToolCall, known: ToolResult | None) -> bool:
        """Executes one call to its end; returns whether its result asks the agent to stop."""
        if known is not None:
            self._settle(at, result_message(call, known))
        else:
            await self._emit(ToolExecutionStart(call.id, call.name, call.arguments))
            known = await self._outcome(call)
            message = result_message(call, known)
            # Results are stored in call order; one that waits for an earlier call would be lost in a crash.
            if at != len(self.results):
                self._journal.note_finished(call, message)
            # Stored before it is announced, so that no listener acts on a result that a crash takes back.
            self._settle(at, message)
            await self._emit(ToolExecutionEnd(call.id, call.name, plain_result(known), known.is_error))
        await self._emit_results()
        return known.terminate

    def _settle(self, at: int, result: ToolResultMessage) -> None:
        """Saves the results whose turn has come."""
        self._done[at] = result
        while (ready := self._done.pop(len(self.results), None)) is not None:
            self._store(ready)
            self.results.append(ready)

    async def _emit_results(self) -> None:
        # Two calls that end together take turns: listeners get each result's start and end side by side.
        async with self._emitting:
            while self._given < len(self.results):
                result = self.results[self._given]
                self._given += 1
                await self._emit(MessageStart(result))
                await self._emit(MessageEnd(result))

    async def _outcome(self, call: ToolCall) -> ToolResult:
        """Returns the result of a call, whatever happened."""
        tool = self._rules.tools.get(call.name)
        if self._signal.aborted:
            return failure(call.name, NOT_RUN, "aborted")
        if self._skip():
            return failure(call.name, SKIPPED, "skipped")
        # The output limit may have cut the arguments, also where the rest can be parsed.
        if self._message.stop_reason == "length":
            return failure(call.name, CUT_SHORT, "cut")
        if tool is None:
            return failure(call.name, _no_such_tool(call.name, self._rules.tools), 404)
        return await self._after(call, await self._called(tool, call))

    async def _called(self, tool: Tool, call: ToolCall) -> ToolResult:
        updates = _Updates(self._emit, call)
        with tool_span(call.name, call.id, tool.description) as span:
            try:
                result = await call_tool(
                    replace(tool, execute=self._with_hooks(tool, call)),
                    call.id,
                    call.arguments if call.parse_error is None else call.arguments_text,
                    signal=self._signal,
                    on_update=updates,
                    context=self._rules.context,
                    policy=self._rules.policy,
                    approve=self._one_question if self._rules.approve is not None else None,
                    parse_error=call.parse_error,
                )
            finally:
                # Also when the tool fails: no update may come after the end of its call.
                await updates.finish()
            if span is not None:
                span.set_content(tool__call__arguments=call.arguments, tool__call__result=result.text)
                if result.is_error:
                    span.fail("tool_error")
            return result

    def _with_hooks(self, tool: Tool, call: ToolCall) -> Any:
        """Wraps the tool: runs the hook first, then records the start in the journal."""

        async def execute(id: str, params: dict[str, Any], signal: Any = None, on_update: Any = None) -> Any:
            try:
                verdict = await self._before(call, params)
            except BaseException as error:  # a failed hook has not allowed the call
                if must_propagate(error):
                    raise
                _log.error("the hook before %s failed", call.name, exc_info=error)
                return failure(call.name, f"{call.name} was not run: the hook failed: {describe(error)}", "hook")
            if verdict is not None and verdict.block:
                return failure(call.name, verdict.reason or f"{call.name} was blocked", "blocked")
            if verdict is not None and verdict.arguments is not None:
                params = verdict.arguments
            # Last before the tool runs: after a crash, a call without this line may be run, one with it is reported as
            # unknown.
            self._journal.note_begun(call)
            return await awaited(tool.execute(id, params, signal, on_update))

        return execute

    async def _before(self, call: ToolCall, arguments: dict[str, Any]) -> Verdict | None:
        """The hooks' decision: each receives the arguments of the one before it; the first that blocks decides."""
        decided: Verdict | None = None
        for hook in self._rules.before:
            async with self._asking:
                given = await awaited(hook(BeforeCall(message=self._message, call=call, arguments=arguments)))
            if given is None:
                continue
            verdict = struct_of(given, Verdict, "what the hook returned")
            if verdict.block:
                return verdict
            if verdict.arguments is not None:
                decided, arguments = verdict, verdict.arguments
        return decided

    async def _after(self, call: ToolCall, result: ToolResult) -> ToolResult:
        for hook in self._rules.after:
            seen = AfterCall(message=self._message, call=call, arguments=call.arguments, result=result)
            try:
                changed = await awaited(hook(seen))
                result = result if changed is None else as_result(changed)
            except BaseException as error:  # the tool has run: keep its result if the hook fails
                if must_propagate(error):
                    raise
                _log.error("the hook after %s failed; its result is unchanged", call.name, exc_info=error)
        return result

    async def _one_question(self, request: Any) -> bool:
        assert self._rules.approve is not None
        async with self._asking:
            if self._signal.aborted:
                return False
            return bool(await awaited(self._rules.approve(request)))


class _Updates:
    """Emits partial results of one call in order; all of them before the end event."""

    def __init__(self, emit: Emit, call: ToolCall) -> None:
        self._emit = emit
        self._call = call
        self._waiting: deque[ToolResult] = deque()
        self._task: asyncio.Task[None] | None = None

    def __call__(self, partial: ToolResult) -> None:
        self._waiting.append(partial)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._pump())

    async def finish(self) -> None:
        if self._task is not None:
            await self._task

    async def _pump(self) -> None:
        call = self._call
        while self._waiting:
            partial = plain_result(self._waiting.popleft())
            await self._emit(ToolExecutionUpdate(call.id, call.name, call.arguments, partial))
        self._task = None


async def _side_by_side(work: list[Coroutine[Any, Any, bool]]) -> list[bool]:
    """Runs coroutines concurrently. If one fails, the others are cancelled before its exception is raised."""
    if len(work) == 1:
        return [await work[0]]
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def awaited(value: Any) -> Any:
    return await value if isinstance(value, Awaitable) else value


def result_message(call: ToolCall, result: ToolResult) -> ToolResultMessage:
    """Returns the message for the model, with the details for programs."""
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=tuple(map(_clean, result.content)) or (TextBlock(text="(no output)"),),
        details=_storable(result.details),
        is_error=result.is_error,
        timestamp=int(time.time() * 1000),
    )


def _clean(block: Any) -> Any:
    """Replaces unpaired surrogates in a tool's text, which would make every later request invalid."""
    if isinstance(block, TextBlock) and not jsontext.is_clean(block.text):
        return replace(block, text=jsontext.clean(block.text))
    return block


def plain_result(result: ToolResult) -> dict[str, Any]:
    """Returns a result as events carry it."""
    return {"content": [plain(block) for block in result.content], "details": _storable(result.details)}


def _storable(details: Any) -> Any:
    """Returns details as JSON values; the `repr` of what has no JSON form."""
    if details is None:
        return None
    try:
        value = msgspec.to_builtins(details, str_keys=True)
        jsontext.compact([[[[value]]]])  # a session line nests them a few levels deeper
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError, FormatError):
        return repr(details)
    return value


def _no_such_tool(name: str, tools: dict[str, Tool]) -> str:
    near = nearest(name, tools)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"Unknown tool {name!r}.{hint} Available tools: {', '.join(tools) or 'none'}."
