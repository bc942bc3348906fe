"""`llm`, pydantic-ai and LangChain as clients of the gateway; runs in their environment, started by gateway_clients.py.

One line of JSON for each client: {"client", "text", "second"} or {"client", "error"}.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

URL, MODEL, KEY = sys.argv[1], sys.argv[2], "client-key"
ASKED, AGAIN = "How is the weather in Paris?", "And what did the tool say?"


def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def of_llm() -> Iterator[tuple[str, Callable[[], tuple[str, str]]]]:
    from llm.default_plugins.openai_models import Chat

    def work() -> tuple[str, str]:
        model = Chat("gateway", model_name=MODEL, api_base=f"{URL}/v1", supports_tools=True)
        model.key = KEY
        conversation = model.conversation(tools=[weather])
        return conversation.chain(ASKED).text(), conversation.chain(AGAIN).text()

    yield "llm, OpenAI Chat", work


def of_pydantic_ai() -> Iterator[tuple[str, Callable[[], tuple[str, str]]]]:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI
    from pydantic_ai import Agent
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.google import GoogleProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    def openai() -> Any:
        return OpenAIProvider(openai_client=AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0))

    def anthropic() -> Any:
        return AnthropicProvider(anthropic_client=AsyncAnthropic(base_url=URL, api_key=KEY, max_retries=0))

    def google() -> Any:  # it sends two User-Agent headers, which the gateway takes on calls of models
        return GoogleProvider(base_url=URL, api_key=KEY)

    makers: dict[str, Callable[[], Any]] = {
        "OpenAI Chat": lambda: OpenAIChatModel(MODEL, provider=openai()),
        "OpenAI Responses": lambda: OpenAIResponsesModel(MODEL, provider=openai()),
        "Anthropic": lambda: AnthropicModel(MODEL, provider=anthropic()),
        "Google": lambda: GoogleModel(MODEL, provider=google()),
    }
    for name, make in makers.items():

        def work(make: Callable[[], Any] = make) -> tuple[str, str]:
            async def both() -> tuple[str, str]:
                agent = Agent(make(), tools=[weather])
                first = await agent.run(ASKED)
                async with agent.run_stream(AGAIN, message_history=first.all_messages()) as second:
                    return first.output, await second.get_output()

            return asyncio.run(both())

        yield f"pydantic-ai, {name}", work


def of_langchain() -> Iterator[tuple[str, Callable[[], tuple[str, str]]]]:
    from langchain_anthropic import ChatAnthropic
    from langchain_core.messages import HumanMessage
    from langchain_core.tools import tool
    from langchain_google_genai import ChatGoogleGenerativeAI
    from langchain_ollama import ChatOllama
    from langchain_openai import ChatOpenAI

    makers: dict[str, Callable[[], Any]] = {
        "OpenAI Chat": lambda: ChatOpenAI(model=MODEL, base_url=f"{URL}/v1", api_key=KEY, max_retries=0),
        "OpenAI Responses": lambda: ChatOpenAI(
            model=MODEL, base_url=f"{URL}/v1", api_key=KEY, max_retries=0, use_responses_api=True
        ),
        "Anthropic": lambda: ChatAnthropic(model=MODEL, base_url=URL, api_key=KEY, max_retries=0),
        "Google": lambda: ChatGoogleGenerativeAI(model=MODEL, base_url=URL, google_api_key=KEY, max_retries=1),
        "Ollama": lambda: ChatOllama(model=MODEL, base_url=URL, client_kwargs={"headers": {"x-api-key": KEY}}),
    }
    for name, make in makers.items():

        def work(make: Callable[[], Any] = make) -> tuple[str, str]:
            looking = tool(weather)
            model = make().bind_tools([looking])
            messages: list[Any] = [HumanMessage(ASKED)]
            texts: list[str] = []
            for turn in range(3):
                whole: Any = None
                for piece in model.stream(messages):
                    whole = piece if whole is None else whole + piece
                messages.append(whole)
                texts.append(whole.text() if callable(whole.text) else str(whole.text))
                messages += [looking.invoke(call) for call in whole.tool_calls]
                if turn == 1:
                    messages.append(HumanMessage(AGAIN))
            return texts[0] + texts[1], texts[2]

        yield f"LangChain, {name}", work


def main() -> None:
    for group in (of_llm, of_pydantic_ai, of_langchain):
        for client, work in group():
            try:
                text, second = work()
                print(json.dumps({"client": client, "text": text, "second": second}))
            except Exception as error:
                print(json.dumps({"client": client, "error": f"{type(error).__name__}: {error}"[:800]}))


if __name__ == "__main__":
    main()
