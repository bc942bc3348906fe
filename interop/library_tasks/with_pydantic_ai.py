"""The tasks with pydantic-ai."""

import asyncio
from pathlib import Path

from answering import CLAUDE, EMBEDDING, GPT, Person, answer_tasks, area, broken
from pydantic_ai import (
    Agent,
    BinaryContent,
    Embedder,
    ModelMessagesTypeAdapter,
    ModelRateLimitError,
    ModelRetry,
    ModelTimeoutError,
    Tool,
    UsageLimitExceeded,
    UsageLimits,
)
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.messages import FunctionToolCallEvent, ThinkingPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.test import TestModel
from typing_extensions import TypedDict

GPT, CLAUDE = f"openai-chat:{GPT}", f"anthropic:{CLAUDE}"


def ask():
    return Agent(GPT).run_sync("Capital of Norway?").output


def system():
    return Agent(GPT, instructions="Be brief.").run_sync("Hi").output


def stream():
    return list(Agent(GPT).run_stream_sync("Hi").stream_text(delta=True, debounce_by=None))


def options():
    return Agent(GPT, model_settings={"temperature": 0.2, "max_tokens": 50}).run_sync("Hi").output


def many():
    async def main():
        return await asyncio.gather(*(Agent(GPT).run(question) for question in ("a", "b", "c")))

    return [result.output for result in asyncio.run(main())]


def conversation():
    agent = Agent(GPT)
    first = agent.run_sync("My name is Ada.")
    return agent.run_sync("What is my name?", conversation=first.conversation).output


def typed():
    return Agent(GPT, output_type=Person).run_sync("Who wrote the first program?").output


def typed_list():
    return Agent(GPT, output_type=list[Person]).run_sync("Two pioneers?").output


def ask_again():
    return Agent(GPT, output_type=Person).run_sync("Who wrote the first program?").output


def partial():
    class Growing(TypedDict, total=False):  # a model is given once all that it requires has come
        name: str
        born: int

    stream = Agent(GPT, output_type=Growing).run_stream_sync("Who wrote the first program?")
    return list(stream.stream_output(debounce_by=None)), stream.get_output()


def picture():
    return Agent(GPT).run_sync(["What is it?", BinaryContent.from_path("dot.png")]).output


def document():
    return Agent(GPT).run_sync(["Sum it up.", BinaryContent.from_path("a.pdf")]).output


def tool():
    return Agent(GPT, tools=[area]).run_sync("Area of 2 by 3?").output


def tool_error():
    def guarded(width: int) -> int:
        try:
            return broken(width)
        except ValueError as error:
            raise ModelRetry(str(error)) from error

    return Agent(GPT, tools=[Tool(guarded, name="broken")]).run_sync("Area?").output


def approve():
    asked = []

    def decide(context, requests):
        asked.extend(call.tool_name for call in requests.approvals)
        return requests.build_results(approvals={call.tool_call_id: False for call in requests.approvals})

    tools = [Tool(area, requires_approval=True)]
    agent = Agent(GPT, tools=tools, capabilities=[HandleDeferredToolCalls(handler=decide)])
    return agent.run_sync("Area of 2 by 3?").output, asked


def limit():
    try:
        Agent(GPT, tools=[area]).run_sync("Again and again", usage_limits=UsageLimits(request_limit=2))
    except UsageLimitExceeded:
        return True


def watch():
    seen = []

    async def hear(context, events):
        seen.extend([event.part.tool_name async for event in events if isinstance(event, FunctionToolCallEvent)])

    return Agent(GPT, tools=[area]).run_sync("Area of 2 by 3?", event_stream_handler=hear).output, seen


def other_provider():
    return Agent(CLAUDE).run_sync("Capital of Norway?").output


def hand_over():
    agent = Agent(GPT, tools=[area])
    first = agent.run_sync("Area of 2 by 3?")
    return agent.run_sync("And doubled?", model=CLAUDE, conversation=first.conversation).output


def fallback():
    return Agent(FallbackModel(GPT, CLAUDE)).run_sync("Hi").output


def retry():
    return Agent(GPT).run_sync("Hi").output


def timeout():
    try:
        Agent(GPT).run_sync("Hi", model_settings={"timeout": 0.3})
    except ModelTimeoutError:
        return "timeout"


def rate_limit():
    try:
        Agent(GPT).run_sync("Hi")
    except ModelRateLimitError as error:
        return error.retry_after


def usage():
    usage = Agent(GPT).run_sync("Hi").usage
    return usage.input_tokens, usage.output_tokens


def cost():
    return Agent(GPT).run_sync("Hi").response.cost().total_price > 0


def thinking():
    result = Agent(CLAUDE, model_settings={"thinking": "high", "max_tokens": 20000}).run_sync("Why?")
    return [part.content for part in result.response.parts if isinstance(part, ThinkingPart)], result.output


def embed():
    return len(Embedder(f"openai:{EMBEDDING}").embed_documents_sync(["a cat", "a dog"]).embeddings)


def save():
    agent = Agent(GPT)
    Path("talk.json").write_bytes(agent.run_sync("My name is Ada.").all_messages_json())
    history = ModelMessagesTypeAdapter.validate_json(Path("talk.json").read_bytes())
    return agent.run_sync("What is my name?", message_history=history).output


def offline():
    return Agent(TestModel(custom_output_text="Hello")).run_sync("Hi").output


answer_tasks(globals())
