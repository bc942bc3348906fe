"""A process that runs an agent to the end of its script, or goes on where an earlier one was killed.

`python child.py SESSION EFFECTS TURNS`: tools append a line to EFFECTS; each message that was told is acknowledged.
"""

import asyncio
import os
import sys
from typing import Any

import interlingua as il
from interlingua.agent import Agent
from interlingua.connect.client import Client
from interlingua.connect.debug import DebugConnector, ScriptedCall, Step
from interlingua.connect.registry import ConnectorRegistry
from interlingua.sessions import Session
from interlingua.tools.tool import Tool, ToolResult
from interlingua.values.events import AgentEvent, MessageEnd

SCHEMA = {"type": "object", "properties": {"pause": {"type": "integer"}}}


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def tools(effects: str) -> list[Tool]:
    out = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def work(id: str, params: dict[str, Any], signal: Any = None, on_update: Any = None) -> ToolResult:
        os.write(out, f"{id}\n".encode())
        await asyncio.sleep(0.001 * params["pause"])
        return ToolResult(content=(il.TextBlock(text=f"did {id}"),))

    return [
        Tool(name=name, description=name, parameters=SCHEMA, execute=work, sequential=name == "alone")
        for name in ("work", "alone")
    ]


def script(turns: int) -> Any:
    def reply(request: il.Request) -> Any:
        turn = sum(isinstance(message, il.AssistantMessage) for message in request.context.messages)
        if turn >= turns:
            return "All done."
        names = ("work", "work", "alone")[: turn % 4]
        calls = [
            ScriptedCall(name=name, id=f"{turn}.{at}", arguments={"pause": 3 - at}) for at, name in enumerate(names)
        ]
        nobody = ScriptedCall(name="nobody", id=f"{turn}.x")
        return Step(text=f"Working on it{' ' * 40}", chunk=8, calls=tuple(calls) or (nobody,))

    return reply


async def main(path: str, effects: str, turns: int) -> None:
    client = Client(connectors=ConnectorRegistry([DebugConnector(script(turns))]))
    with Session.open(path) as session:
        agent = Agent("debug/script", tools(effects), client=client, session=session)

        def hear(event: AgentEvent) -> None:
            if isinstance(event, MessageEnd):
                say(f"ack {session.head}")

        agent.subscribe(hear)
        say("ready")
        if agent.messages and getattr(agent.messages[-1], "stop_reason", None) == "stop":
            say("end")
            return
        result = await (agent.continue_() if agent.messages else agent.prompt("go"))
        if result.reason == "done":
            say("end")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
