"""The tasks with Interlingua."""

import asyncio

from answering import CALLING, CLAUDE, EMBEDDING, GPT, Person, answer_tasks, area, broken

import interlingua as il
from interlingua import conversion
from interlingua.tools.policy import ASK


def ask():
    return il.sync.complete(GPT, "Capital of Norway?").text


def system():
    return il.sync.complete(GPT, "Hi", system="Be brief.").text


def stream():
    return [event.delta for event in il.sync.stream(GPT, "Hi") if event.type == "text_delta"]


def options():
    return il.sync.complete(GPT, "Hi", temperature=0.2, max_tokens=50).text


def many():
    async def main():
        return await asyncio.gather(*(il.complete(GPT, question) for question in ("a", "b", "c")))

    return [answer.text for answer in asyncio.run(main())]


def conversation():
    agent = il.Agent(GPT)
    agent.run_sync("My name is Ada.")
    return agent.run_sync("What is my name?").text


def typed():
    return il.sync.complete(GPT, "Who wrote the first program?", output=Person).output


def typed_list():
    return il.sync.complete(GPT, "Two pioneers?", output=list[Person]).output


def ask_again():
    return il.sync.complete(GPT, "Who wrote the first program?", output=Person).output


def partial():
    stream = il.sync.stream(GPT, "Who wrote the first program?", output=Person)
    return [stream.partial_output for _ in stream], stream.output


def picture():
    return il.sync.complete(GPT, "What is it?", images=["dot.png"]).text


def document():
    return il.sync.complete(GPT, [il.UserMessage([il.TextBlock(text="Sum it up."), conversion.document("a.pdf")])]).text


def tool():
    return il.Agent(GPT, [area]).run_sync("Area of 2 by 3?").text


def tool_error():
    return il.Agent(GPT, [broken]).run_sync("Area?").text


def approve():
    asked = []
    agent = il.Agent(GPT, [area], policy=ASK, approve=lambda call: bool(asked.append(call.tool_name)))
    return agent.run_sync("Area of 2 by 3?").text, asked


def limit():
    return il.Agent(GPT, [area], limits=il.Limits(turns=2)).run_sync("Again and again").reason.startswith("limit")


def watch():
    seen = []
    agent = il.Agent(GPT, [area])
    agent.subscribe(lambda event: seen.append(event.tool_name) if event.type == "tool_execution_start" else None)
    return agent.run_sync("Area of 2 by 3?").text, seen


def other_provider():
    return il.sync.complete(CLAUDE, "Capital of Norway?").text


def hand_over():
    agent = il.Agent(GPT, [area])
    agent.run_sync("Area of 2 by 3?")
    return il.Agent(CLAUDE, [area], messages=agent.messages).run_sync("And doubled?").text


def fallback():
    return il.sync.complete(GPT, "Hi", fallbacks=[CLAUDE], retry=0).text


def retry():
    return il.sync.complete(GPT, "Hi").text


def timeout():
    try:
        il.sync.complete(GPT, "Hi", timeout=0.3, retry=0)
    except il.TimedOut:
        return "timeout"


def rate_limit():
    try:
        il.sync.complete(GPT, "Hi", retry=0)
    except il.RateLimited as error:
        return error.retry_after


def usage():
    usage = il.sync.complete(GPT, "Hi").usage
    return usage.input, usage.output


def cost():
    return il.sync.complete(GPT, "Hi").usage.cost.total > 0


def thinking():
    answer = il.sync.complete(CLAUDE, "Why?", reasoning="high", max_tokens=20000)
    return [block.thinking for block in answer.content if block.type == "thinking"], answer.text


def embed():
    return len(il.sync.embed(f"openai/{EMBEDDING}", ["a cat", "a dog"]).vectors)


def save():
    with il.Session.open("talk.jsonl") as session:
        il.Agent(GPT, session=session).run_sync("My name is Ada.")
    with il.Session.open("talk.jsonl") as session:
        return il.Agent(GPT, session=session).run_sync("What is my name?").text


def offline():
    return il.sync.complete("debug/parrot-1", "Hello").text


def convert():
    return il.convert(CALLING, "anthropic-messages").body


answer_tasks(globals())
