"""Agents for the tests, as a worker loads them. Their tools leave traces in a file: what began, and what ended."""

import asyncio
import os
from typing import Any

import interlingua as il
from interlingua import durable
from interlingua.agent import Agent, Limits
from interlingua.connect.client import Client
from interlingua.connect.debug import DebugConnector, ScriptedCall, Step
from interlingua.connect.registry import ConnectorRegistry
from interlingua.connect.retry import NEVER
from interlingua.sessions import Session
from interlingua.tools.tool import Tool, ToolResult


def scripted(script: Any) -> Client:
    return Client(connectors=ConnectorRegistry([DebugConnector(script)]), retry=NEVER)


def trace(file: str, word: str, call: str) -> None:
    """A line that is in the file whole, whatever happens next."""
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, f"{word} {call} {os.getpid()}\n".encode())
    finally:
        os.close(handle)


def marking(file: str, pause: float) -> Tool:
    """A tool whose effect is a line in the file; it takes a while before and after."""

    async def run(id: str, params: dict[str, Any], signal: Any = None, on_update: Any = None) -> ToolResult:
        trace(file, "begun", id)
        await asyncio.sleep(pause)
        trace(file, "effect", id)
        await asyncio.sleep(pause)
        return ToolResult(content=(il.TextBlock(text=f"did {id}"),))

    return Tool(name="mark", description="mark", parameters={"type": "object"}, execute=run)


@durable.agent("marker")
def marker(session: Session, *, file: str, turns: int = 3, width: int = 2, pause: float = 0.02) -> Agent:
    """Makes `width` calls side by side in each of `turns` turns, then says that it is done."""
    name = session.id
    steps: list[Any] = [
        Step(calls=tuple(ScriptedCall(name="mark", id=f"{name}/{turn}/{n}") for n in range(width)))
        for turn in range(turns)
    ]
    return Agent("debug/script", [marking(file, pause)], client=scripted([*steps, "all done"]), session=session)


@durable.agent("echo")
def echo(session: Session, **how: Any) -> Agent:
    """Says what it was told."""
    return Agent("debug/dummy-echo-1", session=session, **how)


@durable.agent("poison")
def poison(session: Session) -> Agent:
    raise ValueError("this factory always raises")


@durable.agent("forgetful")
def forgetful(session: Session) -> Agent:
    """Does not hand its session on."""
    return Agent("debug/dummy-echo-1")


@durable.agent("failing")
def failing(session: Session) -> Agent:
    """Its model always fails."""
    refusal = Step(error="no such model", status=404)
    return Agent("debug/script", client=scripted(lambda request: refusal), session=session)


@durable.agent("killer")
def killer(session: Session) -> Agent:
    """Takes its worker with it."""
    os.kill(os.getpid(), 9)
    raise AssertionError


@durable.agent("waiter")
def waiter(session: Session, *, file: str, calls: list[str], mode: Any = "parallel") -> Agent:
    """Makes these calls at once: `mark` has an effect, `wait` runs until it is stopped."""

    async def wait(id: str, params: dict[str, Any], signal: Any = None, on_update: Any = None) -> ToolResult:
        trace(file, "begun", id)
        await signal.wait()
        trace(file, "stopped", id)
        return ToolResult(content=(il.TextBlock(text="stopped in order"),))

    waiting = Tool(name="wait", description="wait", parameters={"type": "object"}, execute=wait)
    scripted_calls = tuple(ScriptedCall(name=name, id=f"{session.id}/{name}") for name in calls)
    client = scripted([Step(calls=scripted_calls), "went on"])
    tools = [waiting, marking(file, 0.0)]
    return Agent("debug/script", tools, client=client, session=session, tool_execution=mode)


@durable.agent("judge")
def judge(session: Session) -> Agent:
    """Answers with JSON, at the second try."""
    schema = {"type": "object", "properties": {"verdict": {"type": "string"}}, "required": ["verdict"]}
    return Agent("debug/script", client=scripted(["well", '{"verdict": "guilty"}']), session=session, output=schema)


@durable.agent("limited")
async def limited(session: Session, *, file: str, turns: int) -> Agent:
    """Would go on for long; its limit is `turns`. Made by a coroutine."""
    await asyncio.sleep(0)
    agent = marker(session, file=file, turns=50, width=1)
    agent.limits = Limits(turns=turns)
    return agent


@durable.agent("quitter")
async def quitter(session: Session, *, how: str) -> Agent:
    """Ends in each way that is no ordinary exception."""
    ways: dict[str, BaseException] = {
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
        "close": GeneratorExit(),
        "cancel": asyncio.CancelledError(),
        "group": BaseExceptionGroup("several", [SystemExit(1), ValueError("x")]),
        "own": type("Own", (BaseException,), {})("an exception of its own"),
    }

    async def fail(way: str) -> None:
        raise ways[way]

    where, _, way = how.rpartition(" ")
    if where == "task":
        await asyncio.gather(asyncio.create_task(fail(way)))
    if where == "callback":

        def later() -> None:
            raise ways[way]

        asyncio.get_running_loop().call_soon(later)
        await asyncio.sleep(0.2)
        return echo(session)
    await fail(way)
    raise AssertionError
