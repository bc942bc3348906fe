"""Tool execution: validates and repairs arguments, applies the policy, runs the tool, and always returns a result.

Every failure becomes a result with `is_error` and a message from which the model can correct it; only the
cancellation of the caller's task is raised.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from msgspec.structs import replace

from ..values import jsontext
from ..values.abort import Abort
from ..values.errors import FormatError, ToolAuthorizationError, ToolInputError
from ..values.interop import describe, must_propagate
from ..values.messages import TextBlock
from .access import PathAccess, enter_access
from .policy import LONG, Action, Permissions, Policy, text_size
from .policy import ApprovalRequest as ApprovalRequest
from .tool import Tool, ToolContext, ToolResult, ToolUpdateCallback, as_partial, as_result, tool_of
from .validation import allowed, shown
from .validation import validated as validated

GRACE = 2.0  # seconds for a tool to stop by itself after the signal fires

_log = logging.getLogger(__name__)


class Ruling(Protocol):
    """A policy's decision on a call."""

    @property
    def action(self) -> Action: ...
    @property
    def reason(self) -> str: ...


class Judge(Protocol):
    """Decides whether a call may run: a `Policy`, or any object with its `decide`. The params are validated."""

    def decide(self, tool: str, params: dict[str, Any], /) -> Ruling: ...


Approve: TypeAlias = Callable[[ApprovalRequest], Awaitable[bool] | bool]
_Admitted: TypeAlias = tuple[dict[str, Any], PathAccess | None]


async def call_tool(
    tool: Tool | Mapping[str, Any] | Any,
    tool_call_id: str,
    arguments: Any,
    *,
    signal: Abort | None = None,
    on_update: ToolUpdateCallback | None = None,
    context: ToolContext | Mapping[str, Any] | None = None,
    policy: Judge | None = None,
    approve: Approve | None = None,
    parse_error: str | None = None,
) -> ToolResult:
    """Runs one call. `arguments` is an object or its JSON text; blank is `{}`. Raises only on cancellation.

    `tool` and `context` may be mappings, as for a registry. `parse_error` is that of a `ToolCall` whose arguments were
    not a JSON object: such a call gets an error result. If the policy asks and `approve` is None, the call is denied.
    """
    tool, given = tool_of(tool), ToolContext.of(context)
    if signal is not None and signal.aborted:
        return failure(tool.name, f"{tool.name} was not run: {_aborted(signal)}", "aborted")

    async def admit() -> _Admitted:
        if tool.owner_only and not given.sender_is_owner:
            raise ToolAuthorizationError(f"{tool.name} may only be used by the owner, and the sender is not the owner")
        if parse_error is not None:
            raise ToolInputError(_unreadable(tool, arguments, parse_error))
        params = _checked(tool, arguments)
        if policy is not None:
            decision = await _permit(tool, tool_call_id, params, policy, approve)
            return params, enter_access(policy, tool.name, decision)
        return params, None

    return await _run(tool, tool_call_id, admit, signal, on_update)


def failure(tool_name: str, text: str, status: int | str) -> ToolResult:
    """An error result, as text for the model and as details for programs."""
    details = {"status": status, "tool": tool_name, "error": text}
    return ToolResult(content=(TextBlock(text=text),), details=details, is_error=True)


# --- before the call ------------------------------------------------------------------------------------------------


def _checked(tool: Tool, arguments: Any) -> dict[str, Any]:
    try:
        given = _object(arguments)
    except (FormatError, ValueError, RecursionError) as error:
        raise ToolInputError(_unreadable(tool, arguments, describe(error))) from error
    try:
        params, problems = validated(tool.parameters, given)
    except FormatError as error:
        raise ToolInputError(f"{tool.name} cannot be called, its own schema is wrong: {error.message}") from error
    except (ValueError, RecursionError) as error:  # numbers and depths beyond Python's limits
        raise ToolInputError(_unreadable(tool, arguments, describe(error))) from error
    if problems:
        raise ToolInputError(_explained(tool, given, problems))
    return params


def _object(arguments: Any) -> dict[str, Any]:
    """A copy of the arguments as an object: a tool that changes it does not change the transcript."""
    if arguments is None or (isinstance(arguments, str | bytes) and not arguments.strip()):
        return {}
    text = arguments if isinstance(arguments, str | bytes) else jsontext.write(arguments)
    value = jsontext.read(text)
    if not isinstance(value, dict):
        raise FormatError(f"the arguments are {_kind(value)}, not a JSON object")
    return value


async def _permit(
    tool: Tool, tool_call_id: str, params: dict[str, Any], policy: Judge, approve: Approve | None
) -> Ruling:
    """The policy's decision on a call that may run, approved if it asks. An error of either denies the call."""
    try:
        decision = await _decided(policy, tool.name, params)
    except BaseException as error:
        if must_propagate(error):
            raise
        _log.error("the policy failed for %s", tool.name, exc_info=error)
        raise ToolAuthorizationError(f"{tool.name} was not run: the policy failed: {describe(error)}") from error
    if decision.action == "allow":
        return decision
    if decision.action != "ask":
        raise ToolAuthorizationError(f"{tool.name} is not allowed: {decision.reason}. Do it another way, or ask first.")
    if approve is None:
        raise ToolAuthorizationError(f"{tool.name} needs approval ({decision.reason}), and no approver is available")
    request = ApprovalRequest(tool_call_id=tool_call_id, tool_name=tool.name, params=params, reason=decision.reason)
    try:
        answer = approve(request)
        approved = await answer if inspect.isawaitable(answer) else answer
    except BaseException as error:
        if must_propagate(error):
            raise
        _log.error("approval failed for %s", tool.name, exc_info=error)
        raise ToolAuthorizationError(f"{tool.name} was not run: approval failed: {describe(error)}") from error
    if approved is not True:
        raise ToolAuthorizationError(f"{tool.name} was not approved ({decision.reason}): do not try the same again")
    return decision


async def _decided(policy: Judge, tool: str, params: dict[str, Any]) -> Ruling:
    """The decision on a call. Our own policy checks long arguments in a thread, so that the loop is not blocked."""
    if isinstance(policy, Policy | Permissions) and text_size(params) > LONG:
        return await asyncio.to_thread(policy.decide, tool, params)
    return policy.decide(tool, params)


def _explained(tool: Tool, given: Any, problems: list[str]) -> str:
    lines = "\n".join(f"- {problem}" for problem in problems)
    return (
        f"The arguments for {tool.name} are wrong:\n{lines}\nReceived: {shown(given, 500)}\n"
        f"Allowed: {allowed(tool.parameters)}\nCorrect the arguments and call {tool.name} again."
    )


def _unreadable(tool: Tool, arguments: Any, error: str) -> str:
    return (
        f"The arguments for {tool.name} are not a JSON object: {error}\nReceived: {shown(arguments, 500)}\n"
        f"Allowed: {allowed(tool.parameters)}\nCall {tool.name} again with one complete JSON object."
    )


def _kind(value: Any) -> str:
    names = {
        type(None): "null",
        bool: "a truth value",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "an array",
    }
    return names.get(type(value), f"a {type(value).__name__}")


# --- the call -------------------------------------------------------------------------------------------------------


async def _run(
    tool: Tool,
    tool_call_id: str,
    admit: Callable[[], Awaitable[_Admitted]],
    signal: Abort | None,
    on_update: ToolUpdateCallback | None,
) -> ToolResult:
    """Runs the tool in its own task, so that abort and cancellation do not depend on its cooperation."""
    inner = Abort()
    forget = signal.on_abort(lambda: inner.abort(signal.reason)) if signal is not None else None
    updates = _Updates(on_update) if on_update is not None else None
    running = asyncio.ensure_future(_outcome(tool, tool_call_id, admit, inner, updates))
    fired = asyncio.ensure_future(inner.wait())
    try:
        await asyncio.wait({running, fired}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            await _stop(running)
        return _answer(tool, running, inner)
    except asyncio.CancelledError:
        inner.abort("the call was cancelled")
        await _stop(running, grace=0)
        raise
    finally:
        if updates is not None:
            updates.over = True
        if forget is not None:
            forget()
        fired.cancel()


async def _outcome(
    tool: Tool,
    tool_call_id: str,
    admit: Callable[[], Awaitable[_Admitted]],
    signal: Abort,
    on_update: ToolUpdateCallback | None,
) -> ToolResult:
    try:
        params, access = await admit()
        if signal.aborted:
            return failure(tool.name, f"{tool.name} was not run: {_aborted(signal)}", "aborted")
        returned: Any = tool.execute(tool_call_id, params, signal, on_update)
        return _noted(as_result(await returned if inspect.isawaitable(returned) else returned), access)
    except ToolInputError as error:
        return failure(tool.name, str(error), error.status)
    except BaseException as error:
        if must_propagate(error) or isinstance(error, asyncio.CancelledError):  # see `_answer`
            raise
        _log.debug("%s failed", tool.name, exc_info=True)
        return failure(tool.name, f"{tool.name} failed: {describe(error)}", 500)


def _noted(result: ToolResult, access: PathAccess | None) -> ToolResult:
    """The result, with a note if paths were omitted from it: what the policy denies is neither shown nor hidden."""
    if access is None or result.is_error or not access.refused:
        return result
    number = len(access.refused)
    text = f"[{number} path{'s' * (number > 1)} left out: the policy does not allow {'them' if number > 1 else 'it'}.]"
    return replace(result, content=(*result.content, TextBlock(text=text)))


async def _stop(running: asyncio.Future[ToolResult], grace: float | None = None) -> None:
    """Waits for an aborted tool; cancels it after the grace period, and abandons it if that does not help."""
    await asyncio.wait({running}, timeout=GRACE if grace is None else grace)
    if not running.done():
        running.cancel()
        await asyncio.wait({running}, timeout=GRACE)


def _answer(tool: Tool, running: asyncio.Future[ToolResult], signal: Abort) -> ToolResult:
    if running.done() and not running.cancelled():
        return running.result()
    if signal.aborted:
        return failure(tool.name, f"{tool.name} was stopped: {_aborted(signal)}", "aborted")
    return failure(tool.name, f"{tool.name} failed: it cancelled itself", 500)


class _Updates:
    """Passes partial results to the callback, in the caller's loop and only while the call runs."""

    def __init__(self, callback: ToolUpdateCallback) -> None:
        self.over = False
        self._callback = callback
        self._loop = asyncio.get_running_loop()

    def __call__(self, partial: ToolResult) -> None:
        if self.over:
            return
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            here = False
        if here:
            self._emit(partial)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._emit, partial)

    def _emit(self, partial: ToolResult) -> None:
        if self.over:
            return
        try:
            self._callback(as_partial(partial))
        except BaseException as error:
            if must_propagate(error):
                raise
            _log.error("an update callback failed", exc_info=error)


def _aborted(signal: Abort) -> str:
    return "aborted" if signal.reason is None else f"aborted ({signal.reason})"
