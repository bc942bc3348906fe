"""Agents that talk to a script, and what they tell."""

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

import interlingua as il
from interlingua.agent import Agent
from interlingua.connect.client import Client
from interlingua.connect.debug import DebugConnector, Reply, ScriptedCall, Step
from interlingua.connect.registry import ConnectorRegistry
from interlingua.connect.retry import NEVER, Retry
from interlingua.tools.tool import Tool, ToolResult
from interlingua.values.events import (
    AgentEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from interlingua.values.messages import AgentMessage, text_of

AT_ONCE = Retry(attempts=3, base=0.001, cap=0.002)


def client_of(script: Any) -> Client:
    """A client whose model `debug/script` says this."""
    return Client(connectors=ConnectorRegistry([DebugConnector(script)]), retry=NEVER)


def agent_of(*steps: Any, tools: Iterable[Tool] = (), **how: Any) -> Agent:
    """An agent whose model gives these replies, one per answer in its history."""
    script = steps[0] if len(steps) == 1 and callable(steps[0]) else steps
    return Agent("debug/script", tools, client=client_of(script), **{"retries": AT_ONCE, **how})


def calling(*calls: ScriptedCall, **more: Any) -> Step:
    return Step(calls=calls, **more)


def call(name: str, id: str | None = None, text: str | None = None, **arguments: Any) -> ScriptedCall:
    return ScriptedCall(name=name, id=id or name, text=text, arguments=arguments)


def tool_of(name: str, run: Any, *, sequential: bool = False, **properties: Any) -> Tool:
    """A tool that runs `run(id, params, signal, on_update)`; without properties it takes anything."""
    schema = {"type": "object", "properties": properties, "required": sorted(properties)} if properties else {}
    return Tool(
        name=name,
        description=name,
        parameters=schema or {"type": "object"},
        execute=run,
        sequential=sequential,
    )


def text_result(text: str, **more: Any) -> ToolResult:
    return ToolResult(content=(il.TextBlock(text=text),), **more)


def noted(name: str = "note", **how: Any) -> tuple[Tool, list[Any]]:
    """A tool that notes what it was called with and says `noted`."""
    seen: list[Any] = []

    async def run(id: str, params: dict[str, Any], signal: Any = None, on_update: Any = None) -> ToolResult:
        seen.append(params)
        return text_result("noted")

    return tool_of(name, run, **how), seen


def waiting(name: str = "wait") -> tuple[Tool, asyncio.Event]:
    """A tool that runs until the signal fires, and the event that says it has begun."""
    begun = asyncio.Event()

    async def run(id: str, params: dict[str, Any], signal: Any = None, on_update: Any = None) -> ToolResult:
        begun.set()
        await signal.wait()
        return text_result("stopped in order")

    return tool_of(name, run), begun


async def events_of(agent: Agent, prompt: Any = "go", **how: Any) -> list[AgentEvent]:
    """All that is told of a run; without a prompt (None) it continues."""
    received: list[AgentEvent] = []
    forget = agent.subscribe(received.append)
    try:
        await (agent.continue_(**how) if prompt is None else agent.prompt(prompt, **how))
    finally:
        forget()
    return received


def labels_of(events: Iterable[AgentEvent]) -> list[str]:
    """Events as words: their types, with the role or the call; updates of messages are left out."""
    return [_word(event) for event in events if not isinstance(event, MessageUpdate)]


def _word(event: AgentEvent) -> str:
    kind = str(msgspec.to_builtins(type(event).__struct_config__.tag))
    if isinstance(event, MessageStart | MessageEnd):
        return f"{kind} {role(event.message)}"
    if isinstance(event, ToolExecutionStart | ToolExecutionUpdate | ToolExecutionEnd):
        return f"{kind} {event.tool_call_id}"
    return kind


def role(message: AgentMessage) -> str:
    return message.role if isinstance(message, il.CustomMessage) else type(message).__struct_config__.tag  # type: ignore[return-value]


def roles(messages: Iterable[AgentMessage]) -> list[str]:
    return [role(message) for message in messages]


def texts(messages: Iterable[AgentMessage]) -> list[str]:
    return [m.role if isinstance(m, il.CustomMessage) else text_of(m.content) for m in messages]


def results(messages: Iterable[AgentMessage]) -> list[il.ToolResultMessage]:
    return [message for message in messages if isinstance(message, il.ToolResultMessage)]


def messages_of(*names: str) -> list[str]:
    """`message_start`, `message_end` for each role."""
    return [f"{kind} {name}" for name in names for kind in ("message_start", "message_end")]


class Asked:
    """A script that remembers what it was asked: `requests` are the requests, in order."""

    def __init__(self, *steps: Reply) -> None:
        self.steps = steps
        self.requests: list[il.Request] = []

    def __call__(self, request: il.Request) -> Reply:
        self.requests.append(request)
        at = len(self.requests) - 1
        return self.steps[at] if at < len(self.steps) else "(no more)"

    @property
    def last(self) -> il.Request:
        return self.requests[-1]
