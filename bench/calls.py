"""One participant in a process of its own: makes streamed calls to a server and says what they took.

It reads tasks, a line of JSON each, and answers with a line. Every call is made in public, against
the server's address, with the package's own HTTP client: all events are gone through and, where the package builds a
final message, it is asked for.
"""

import asyncio
import functools
import gc
import json
import logging
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from operator import truediv
from pathlib import Path
from typing import Any

MODELS = {
    "anthropic": "claude-sonnet-4-5",
    "openai": "gpt-5",
    "responses": "gpt-5",
    "gemini": "gemini-2.5-pro",
    "ollama": "qwen3",
}
PROVIDERS = {
    "anthropic": "anthropic",
    "openai": "openai-chat",
    "responses": "openai",
    "gemini": "google",
    "ollama": "ollama",
}
APIS = {
    "anthropic": "anthropic-messages",
    "openai": "openai-completions",
    "responses": "openai-responses",
    "gemini": "google-generative-ai",
    "ollama": "ollama-chat",
}
ASKED = [{"role": "user", "content": "hi"}]
_WAITING = 4  # wall time of a measurement for each second of its CPU time: slow streams mostly wait

LOOP = asyncio.new_event_loop()


class Clock:
    """Goes through all events: notes when the first came, and counts them."""

    first = 0.0
    seen = 0

    def over(self, events: Any) -> None:
        for _ in events:
            self.seen += 1
            if not self.first:
                self.first = time.perf_counter()

    async def aover(self, events: Any) -> None:
        async for _ in events:
            self.seen += 1
            if not self.first:
                self.first = time.perf_counter()


Call = Callable[[], Clock]


def _driven(work: Callable[[Clock], Awaitable[Any]]) -> Call:
    def call() -> Clock:
        clock = Clock()
        LOOP.run_until_complete(work(clock))
        return clock

    return call


def _plain(work: Callable[[Clock], Any]) -> Call:
    def call() -> Clock:
        clock = Clock()
        work(clock)
        return clock

    return call


# --- the participants: a call from a wire and the server's address ---------------------------------------------------


def _ours(wire: str, url: str) -> tuple[str, dict[str, Any]]:
    base = {"anthropic": url, "ollama": url, "gemini": f"{url}/v1beta"}.get(wire, f"{url}/v1")
    return f"{PROVIDERS[wire]}/{MODELS[wire]}", {"api_key": "none", "base_url": base}


def interlingua(wire: str, url: str) -> Call:
    import interlingua as il

    model, options = _ours(wire, url)

    async def work(clock: Clock) -> Any:
        answer = il.stream(model, "hi", **options)
        await clock.aover(answer)
        return answer.message

    return _driven(work)


def interlingua_sync(wire: str, url: str) -> Call:
    import interlingua as il

    model, options = _ours(wire, url)

    def work(clock: Clock) -> Any:
        answer = il.sync.stream(model, "hi", **options)
        clock.over(answer)
        return answer.message

    return _plain(work)


def aiohttp(wire: str, url: str) -> Call:
    """Not a peer: the same HTTP client as ours, and nobody looks at what comes."""
    from aiohttp import ClientSession

    sessions: list[Any] = []

    async def work(clock: Clock) -> None:
        if not sessions:
            sessions.append(ClientSession())
        async with sessions[0].post(f"{url}/v1", json={"messages": ASKED}) as response:
            await clock.aover(response.content.iter_any())

    return _driven(work)


def aiohttp_codecs(wire: str, url: str) -> Call:
    """Not a peer: the same HTTP client and the bare codecs, the least that events and a message can cost."""
    from aiohttp import ClientSession

    import interlingua as il
    from interlingua.values.jsontext import write as json_bytes

    _, options = _ours(wire, url)
    model = il.ModelDescriptor(id=MODELS[wire], api=APIS[wire], provider=PROVIDERS[wire])
    context = il.Context(messages=(il.UserMessage(content="hi"),))
    codec = il.dialect(APIS[wire])
    sessions: list[Any] = []

    async def events() -> Any:
        request = il.Request(model=model, context=context, options=il.Options(max_tokens=100, stream=True))
        data = json_bytes(codec.encode_request(request).body)
        headers = {"Content-Type": "application/json"}
        decoder = codec.StreamDecoder(model=model.id, provider=model.provider)
        async with sessions[0].post(
            options["base_url"] + codec.path(model.id, True), data=data, headers=headers
        ) as response:
            frames = codec.framing(response.headers["Content-Type"].partition(";")[0])
            async for chunk in response.content.iter_any():
                for frame in frames.feed(chunk):
                    for event in decoder.feed(frame):
                        yield event
            for frame in frames.close():
                for event in decoder.feed(frame):
                    yield event
            for event in decoder.close():
                yield event

    async def work(clock: Clock) -> None:
        if not sessions:
            sessions.append(ClientSession())
        await clock.aover(events())

    return _driven(work)


def anthropic(wire: str, url: str) -> Call:
    from anthropic import Anthropic

    client = Anthropic(api_key="none", base_url=url, max_retries=0)

    def work(clock: Clock) -> Any:
        with client.messages.stream(model=MODELS[wire], max_tokens=100, messages=ASKED) as answer:
            clock.over(answer)
            return answer.get_final_message()

    return _plain(work)


def anthropic_async(wire: str, url: str) -> Call:
    from anthropic import AsyncAnthropic

    client = AsyncAnthropic(api_key="none", base_url=url, max_retries=0)

    async def work(clock: Clock) -> Any:
        async with client.messages.stream(model=MODELS[wire], max_tokens=100, messages=ASKED) as answer:
            await clock.aover(answer)
            return await answer.get_final_message()

    return _driven(work)


def anthropic_raw(wire: str, url: str) -> Call:
    from anthropic import Anthropic

    client = Anthropic(api_key="none", base_url=url, max_retries=0)
    return _plain(
        lambda clock: clock.over(
            client.messages.create(model=MODELS[wire], max_tokens=100, messages=ASKED, stream=True)
        )
    )


def openai(wire: str, url: str) -> Call:
    from openai import OpenAI

    client = OpenAI(api_key="none", base_url=f"{url}/v1", max_retries=0)

    def chat(clock: Clock) -> Any:
        with client.chat.completions.stream(model=MODELS[wire], messages=ASKED) as answer:
            clock.over(answer)
            return answer.get_final_completion()

    def responses(clock: Clock) -> Any:
        with client.responses.stream(model=MODELS[wire], input="hi") as answer:
            clock.over(answer)
            return answer.get_final_response()

    return _plain(chat if wire == "openai" else responses)


def openai_async(wire: str, url: str) -> Call:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(api_key="none", base_url=f"{url}/v1", max_retries=0)

    async def chat(clock: Clock) -> Any:
        async with client.chat.completions.stream(model=MODELS[wire], messages=ASKED) as answer:
            await clock.aover(answer)
            return await answer.get_final_completion()

    async def responses(clock: Clock) -> Any:
        async with client.responses.stream(model=MODELS[wire], input="hi") as answer:
            await clock.aover(answer)
            return await answer.get_final_response()

    return _driven(chat if wire == "openai" else responses)


def openai_raw(wire: str, url: str) -> Call:
    from openai import OpenAI

    client = OpenAI(api_key="none", base_url=f"{url}/v1", max_retries=0)
    if wire == "openai":
        create = client.chat.completions.create
        return _plain(lambda clock: clock.over(create(model=MODELS[wire], messages=ASKED, stream=True)))
    return _plain(lambda clock: clock.over(client.responses.create(model=MODELS[wire], input="hi", stream=True)))


def _genai(url: str) -> Any:
    from google import genai

    return genai.Client(api_key="none", http_options={"base_url": url})


def google_genai(wire: str, url: str) -> Call:
    client = _genai(url)
    return _plain(lambda clock: clock.over(client.models.generate_content_stream(model=MODELS[wire], contents="hi")))


def google_genai_async(wire: str, url: str) -> Call:
    client = _genai(url)

    async def work(clock: Clock) -> None:
        await clock.aover(await client.aio.models.generate_content_stream(model=MODELS[wire], contents="hi"))

    return _driven(work)


def ollama(wire: str, url: str) -> Call:
    from ollama import Client

    client = Client(host=url)
    return _plain(lambda clock: clock.over(client.chat(MODELS[wire], messages=ASKED, stream=True)))


def ollama_async(wire: str, url: str) -> Call:
    from ollama import AsyncClient

    client = AsyncClient(host=url)

    async def work(clock: Clock) -> None:
        await clock.aover(await client.chat(MODELS[wire], messages=ASKED, stream=True))

    return _driven(work)


def pydantic_ai(wire: str, url: str) -> Call:
    from pydantic_ai.direct import model_request_stream
    from pydantic_ai.messages import ModelRequest

    model, messages = _pydantic_model(wire, url), [ModelRequest.user_text_prompt("hi")]

    async def work(clock: Clock) -> Any:
        async with model_request_stream(model, messages) as answer:
            await clock.aover(answer)
            return answer.get()

    return _driven(work)


def _pydantic_model(wire: str, url: str) -> Any:
    match wire:
        case "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            return AnthropicModel(MODELS[wire], provider=AnthropicProvider(api_key="none", base_url=url))
        case "gemini":
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider

            return GoogleModel(MODELS[wire], provider=GoogleProvider(api_key="none", base_url=url))
        case _:
            from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
            from pydantic_ai.providers.openai import OpenAIProvider

            kind = OpenAIChatModel if wire == "openai" else OpenAIResponsesModel
            return kind(MODELS[wire], provider=OpenAIProvider(api_key="none", base_url=f"{url}/v1"))


def litellm(wire: str, url: str) -> Call:
    import litellm

    logging.disable(logging.CRITICAL)
    litellm.suppress_debug_info = True
    model = {"openai": "openai/gpt-5", "responses": "openai/responses/gpt-5"}.get(wire, f"{wire}/{MODELS[wire]}")
    base = {"anthropic": url, "gemini": f"{url}/v1beta"}.get(wire, f"{url}/v1")

    async def work(clock: Clock) -> Any:
        answer = await litellm.acompletion(model=model, messages=ASKED, api_key="none", api_base=base, stream=True)
        chunks = []

        async def kept() -> Any:
            async for chunk in answer:
                chunks.append(chunk)
                yield chunk

        await clock.aover(kept())
        return litellm.stream_chunk_builder(chunks)

    return _driven(work)


# --- measuring -------------------------------------------------------------------------------------------------------


def measured(call: Call, seconds: float, known: dict[Call, tuple[float, float]]) -> dict[str, float]:
    """CPU seconds of one call (all threads), the seconds until its first event, and how many events it had."""
    return _spent(call, _times(call, seconds, known))


def compared(calls: list[Call], rounds: int, seconds: float, known: dict[Call, tuple[float, float]]) -> list[float]:
    """What the first call takes in the CPU of each other one: the median over rounds in which they take turns.

    One call differs from the next by a tenth and more; those of one round meet the machine in the same state.
    """
    times = min(_times(call, seconds, known) for call in calls)
    spent: list[list[float]] = [[] for _ in calls]
    gc.collect()
    for turn in range(rounds):
        for at in [*range(len(calls))[turn % len(calls) :], *range(turn % len(calls))]:
            began = time.process_time()
            for _ in range(times):
                calls[at]()
            spent[at].append(time.process_time() - began)
    first, *others = spent
    return [statistics.median(map(truediv, first, other)) for other in others]


def _times(call: Call, seconds: float, known: dict[Call, tuple[float, float]]) -> int:
    """How often to call: as fits in `seconds` of CPU time and `_WAITING` times that of wall time, but at least once."""
    if call not in known:
        call()
        cpus, walls = zip(*(_timed(call) for _ in range(5)), strict=True)
        known[call] = min(cpus), min(walls)  # what an idle machine takes
    cpu, wall = known[call]
    return max(1, min(200, round(seconds / cpu), round(_WAITING * seconds / wall)))


def _timed(call: Call) -> tuple[float, float]:
    """CPU and wall seconds of one call."""
    began = time.perf_counter()
    return _spent(call, 1)["cpu"], time.perf_counter() - began


def _spent(call: Call, times: int) -> dict[str, float]:
    gc.collect()
    waits = []
    began = time.process_time()
    for _ in range(times):
        asked = time.perf_counter()
        clock = call()
        waits.append(clock.first - asked)
    cpu = (time.process_time() - began) / times
    return {"cpu": cpu, "first": statistics.median(waits), "seen": clock.seen}


def resident() -> float:
    """Megabytes of memory that the process holds now."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6


def remembered(call: Call, times: int) -> dict[str, float]:
    """Megabytes held after one call and after many."""
    call()
    once = resident()
    for _ in range(times - 1):
        call()
    return {"once": once, "many": resident()}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    known: dict[Call, tuple[float, float]] = {}

    @functools.cache
    def prepared(row: str, wire: str, url: str) -> Call:
        call: Call = globals()[row](wire, url)
        return call

    for line in sys.stdin:
        task = json.loads(line)
        rows = [prepared(row, task["wire"], task["url"]) for row in (task["row"], *task.get("beside", ()))]
        answer: Any
        if task["memory"]:
            answer = remembered(rows[0], task["memory"])
        elif len(rows) > 1:
            answer = compared(rows, task["rounds"], task["seconds"], known)
        else:
            answer = measured(rows[0], task["seconds"], known)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
