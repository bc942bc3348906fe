"""One participant in a process of its own: runs an agent whose model calls a tool on every turn, and times the turns.

`python agent_turns.py` reads tasks, a line of JSON each (`row`, `turns`), and answers with the CPU seconds of each
turn: from one question to the model to the next, so that all of it is the agent's own work. The models are fakes that
answer at once, call one tool with one argument, and count no tokens.
"""

import asyncio
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from itertools import pairwise
from pathlib import Path
from typing import Any

Asked = list[float]  # when the model was asked, in CPU seconds
Run = Callable[[int, Asked], Coroutine[Any, Any, None]]
PROMPT = "Note the numbers."
TEXTS = "Noted; on to the next number."


async def interlingua(turns: int, asked: Asked, session: Any = None) -> None:
    import interlingua as il
    from interlingua.agent import Agent, Limits
    from interlingua.connect.client import Client
    from interlingua.connect.debug import DebugConnector, ScriptedCall, Step
    from interlingua.connect.registry import ConnectorRegistry

    def reply(request: Any) -> Any:
        asked.append(time.process_time())
        at = len(asked)
        calls = (ScriptedCall(name="note", id=f"call_{at}", arguments={"n": at}),) if at <= turns else ()
        return Step(text=TEXTS, calls=calls, usage={"input": 1, "output": 1})

    @il.tool
    async def note(n: int) -> str:
        """Notes a number."""
        return f"noted {n}"

    client = Client(connectors=ConnectorRegistry([DebugConnector(reply)]))
    agent = Agent("debug/script", [note], client=client, session=session, limits=Limits(turns=None))
    agent.subscribe(lambda event: None)
    assert (await agent.prompt(PROMPT)).reason == "done"


async def interlingua_session(turns: int, asked: Asked) -> None:
    """The same, with every message on disk before it is told."""
    from interlingua.sessions import Session

    with tempfile.TemporaryDirectory() as folder, Session.open(Path(folder) / "s.jsonl") as session:
        await interlingua(turns, asked, session)


def _pydantic_agent(turns: int, asked: Asked) -> Any:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import DeltaToolCall, FunctionModel
    from pydantic_ai.usage import RequestUsage

    def noted() -> int:
        asked.append(time.process_time())
        return len(asked)

    class Fake(FunctionModel):
        """Answers without counting the tokens of the whole conversation each time."""

        async def request(self, *_: Any, **__: Any) -> Any:
            at = noted()
            call = [ToolCallPart("note", {"n": at}, tool_call_id=f"call_{at}")] if at <= turns else []
            return ModelResponse(parts=[TextPart(TEXTS), *call], usage=RequestUsage(input_tokens=1, output_tokens=1))

    async def stream(*_: Any) -> Any:
        at = noted()
        yield TEXTS
        if at <= turns:
            yield {0: DeltaToolCall(name="note", json_args=json.dumps({"n": at}), tool_call_id=f"call_{at}")}

    agent = Agent(Fake(lambda *_: None, stream_function=stream))  # type: ignore[arg-type,return-value]

    @agent.tool_plain
    async def note(n: int) -> str:
        """Notes a number."""
        return f"noted {n}"

    return agent


async def pydantic_ai(turns: int, asked: Asked) -> None:
    from pydantic_ai.usage import UsageLimits

    await _pydantic_agent(turns, asked).run(PROMPT, usage_limits=UsageLimits(request_limit=None))


async def pydantic_ai_events(turns: int, asked: Asked) -> None:
    """The same, streamed, with every event heard."""
    from pydantic_ai.usage import UsageLimits

    async def hear(_: Any, events: Any) -> None:
        async for _event in events:
            pass

    await _pydantic_agent(turns, asked).run(
        PROMPT, usage_limits=UsageLimits(request_limit=None), event_stream_handler=hear
    )


def _langchain_agent(turns: int, asked: Asked) -> Any:
    from langchain.agents import create_agent
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import tool

    class Fake(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "fake"

        def bind_tools(self, *_: Any, **__: Any) -> Any:
            return self

        def _generate(self, *_: Any, **__: Any) -> Any:
            asked.append(time.process_time())
            at = len(asked)
            calls = [{"name": "note", "args": {"n": at}, "id": f"call_{at}"}] if at <= turns else []
            return ChatResult(generations=[ChatGeneration(message=AIMessage(content=TEXTS, tool_calls=calls))])

        async def _agenerate(self, *_: Any, **__: Any) -> Any:
            return self._generate()

    @tool
    async def note(n: int) -> str:
        """Notes a number."""
        return f"noted {n}"

    return create_agent(Fake(), [note])


def _langchain_input(turns: int) -> tuple[Any, Any]:
    return {"messages": [{"role": "user", "content": PROMPT}]}, {"recursion_limit": 4 * turns + 10}


async def langchain(turns: int, asked: Asked) -> None:
    given, config = _langchain_input(turns)
    await _langchain_agent(turns, asked).ainvoke(given, config)


async def langchain_events(turns: int, asked: Asked) -> None:
    """The same, with every message and update heard."""
    given, config = _langchain_input(turns)
    async for _ in _langchain_agent(turns, asked).astream(given, config, stream_mode=["messages", "updates"]):
        pass


def measured(run: Run, turns: int) -> list[float]:
    asked: Asked = []
    gc.collect()
    asyncio.run(run(turns, asked))
    assert len(asked) == turns + 1, f"{len(asked)} questions instead of {turns + 1}"
    return [after - before for before, after in pairwise(asked)]


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    for line in sys.stdin:
        task = json.loads(line)
        print(json.dumps(measured(globals()[task["row"]], task["turns"])), file=answers, flush=True)


if __name__ == "__main__":
    main()
