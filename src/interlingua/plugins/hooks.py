"""The hooks that plugins register (`register_hook`, `on`): any number of listeners per name, independent of each other.

`before_tool_call` may block a call or change its parameters, `after_tool_call` and `tool_result_persist` may return
another result; the rest only observe. A listener that fails or times out is logged; before a call that blocks the call.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from ..agent import AfterCall, Agent, BeforeCall, Verdict
from ..agent.agent import hooks_of
from ..values.canonical import plain
from ..values.errors import InterlinguaError
from ..values.events import AgentEvent, AgentStart, MessageEnd
from ..values.interop import snake_case, with_arguments
from ..values.messages import AssistantMessage, UserMessage
from .loading import LoadedPlugin, awaited_in_time
from .running import Failed, PluginWork

TIMEOUT = 30.0  # timeout of one listener in seconds

# Names of OpenClaw's hooks that run here, beside the types of agent events (`turn_end`, `tool_execution_start`, …).
OFFERED = (
    "before_agent_start",
    "agent_end",
    "llm_input",
    "llm_output",
    "message_received",
    "before_tool_call",
    "after_tool_call",
    "tool_result_persist",
    "session_start",
    "session_end",
    "gateway_start",
    "gateway_stop",
)
AGENT_EVENTS = (
    "agent_start",
    "agent_end",
    "turn_start",
    "turn_end",
    "message_start",
    "message_update",
    "message_end",
    "tool_execution_start",
    "tool_execution_update",
    "tool_execution_end",
)

_log = logging.getLogger(__name__)


class HookFailed(InterlinguaError):
    """A listener raised, or timed out."""


class _Listener(NamedTuple):
    plugin: str
    name: str
    call: Callable[..., Any]
    priority: float

    async def __call__(self, event: Mapping[str, Any]) -> Any:
        """Calls the listener. A plain function runs in a thread, so that it may block."""
        try:
            given = await awaited_in_time(PluginWork("hook", lambda: self.call(event, {"hook": self.name})), TIMEOUT)
            return await awaited_in_time(given, TIMEOUT, "hook") if hasattr(given, "__await__") else given
        except Failed as failed:
            raise HookFailed(f"the hook {self.name} of the plugin {self.plugin} failed: {failed}") from failed


class Hooks:
    """The listeners of the loaded plugins, by hook; higher `priority` first, then in order of registration."""

    def __init__(self, plugins: Iterable[LoadedPlugin] = ()) -> None:
        found = [listener for plugin in plugins for listener in _listeners(plugin)]
        self._listeners: dict[str, list[_Listener]] = {}
        for listener in sorted(found, key=lambda one: -one.priority):
            self._listeners.setdefault(listener.name, []).append(listener)

    def __bool__(self) -> bool:
        return bool(self._listeners)

    async def emit(self, name: str, event: Mapping[str, Any]) -> None:
        """Calls every listener of an observing hook; failures are logged."""
        for listener in self._listeners.get(name, ()):
            try:
                await listener(event)
            except HookFailed as failure:
                _log.warning("%s", failure)

    def attach(self, agent: Agent[Any]) -> None:
        """Calls the listeners with an agent's events, and lets them decide on its calls."""
        before = [partial(_before, one) for one in self._listeners.get("before_tool_call", ())]
        after = [
            partial(_after, one)
            for name in ("after_tool_call", "tool_result_persist")
            for one in self._listeners.get(name, ())
        ]
        if before:
            agent.before_tool_call = (*hooks_of(agent.before_tool_call), *before)
        if after:
            agent.after_tool_call = (*hooks_of(agent.after_tool_call), *after)
        if "llm_input" in self._listeners:
            agent.transform_context = (*hooks_of(agent.transform_context), self._see_input)
        if self._listeners.keys() & {*AGENT_EVENTS, "before_agent_start", "llm_output", "message_received"}:
            agent.subscribe(self._observe)

    async def _observe(self, event: AgentEvent) -> None:
        for name in _names(event):
            if name in self._listeners:
                await self.emit(name, plain(event))

    async def _see_input(self, messages: Any, signal: Any) -> Any:
        await self.emit("llm_input", {"messages": [plain(message) for message in messages]})
        return messages


def _names(event: AgentEvent) -> Iterable[str]:
    """Returns the hooks that an agent event triggers."""
    yield str(event.__struct_config__.tag)
    if isinstance(event, AgentStart):
        yield "before_agent_start"
    elif isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
        yield "llm_output"
    elif isinstance(event, MessageEnd) and isinstance(event.message, UserMessage):
        yield "message_received"


async def _before(listener: _Listener, call: BeforeCall) -> Verdict | None:
    """A listener's decision, in the format of OpenClaw's hook (`params`, `block`, `blockReason`) or of a `Verdict`."""
    given = await listener({"tool_name": call.call.name, "tool_call_id": call.call.id, "params": call.arguments})
    if given is None or isinstance(given, Verdict):
        return given
    if not isinstance(given, Mapping):
        raise HookFailed(f"the hook {listener.name} of the plugin {listener.plugin} returned {type(given).__name__}")
    fields = {snake_case(str(name)): value for name, value in given.items()}
    return Verdict(
        block=bool(fields.get("block")),
        reason=fields.get("block_reason") or fields.get("reason"),
        arguments=fields.get("params") or fields.get("arguments"),
    )


async def _after(listener: _Listener, call: AfterCall) -> Any:
    """Returns the replacement result, if the listener returns one: a `ToolResult`, or a mapping with `content`."""
    return await listener(
        {
            "tool_name": call.call.name,
            "tool_call_id": call.call.id,
            "params": call.arguments,
            "result": call.result,
            "is_error": call.result.is_error,
        }
    )


def _listeners(plugin: LoadedPlugin) -> Iterable[_Listener]:
    for one in plugin.registrations:
        if one.kind not in ("register_hook", "on"):
            continue
        given = dict(zip(("events", "handler", "options"), one.args, strict=False)) | dict(one.options)
        names, handler = given.get("events", given.get("name")), given.get("handler")
        if not callable(handler) or not isinstance(names, str | list | tuple):
            _log.warning("%s: %s needs the name of a hook and a function; it is ignored", plugin.id, one.kind)
            continue
        options = given.get("options")
        priority = given.get("priority") or (options.get("priority") if isinstance(options, Mapping) else None) or 0
        call = with_arguments(handler, ("event", "context"), what=f"a hook of {plugin.id}")
        for name in [names] if isinstance(names, str) else names:
            if name not in (*OFFERED, *AGENT_EVENTS):
                _log.info("%s: unknown hook %s never runs; valid hooks: %s", plugin.id, name, ", ".join(OFFERED))
            yield _Listener(plugin.id, str(name), call, float(priority))
