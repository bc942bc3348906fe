"""The tasks with the vendors' packages: `openai`, and `anthropic` where a task is about Claude."""

# ruff: noqa: RET503

import asyncio
import base64
import json
from pathlib import Path

import anthropic
import openai
from answering import CLAUDE, EMBEDDING, GPT, Person, answer_tasks, area, broken
from pydantic import BaseModel, TypeAdapter

client, claude = openai.OpenAI(), anthropic.Anthropic()


def user(content):
    return [{"role": "user", "content": content}]


def ask():
    return client.responses.create(model=GPT, input="Capital of Norway?").output_text


def system():
    return client.responses.create(model=GPT, instructions="Be brief.", input="Hi").output_text


def stream():
    events = client.responses.create(model=GPT, input="Hi", stream=True)
    return [event.delta for event in events if event.type == "response.output_text.delta"]


def options():
    return client.responses.create(model=GPT, input="Hi", temperature=0.2, max_output_tokens=50).output_text


def many():
    async def main():
        async with openai.AsyncOpenAI() as client:
            asked = (client.responses.create(model=GPT, input=question) for question in ("a", "b", "c"))
            return await asyncio.gather(*asked)

    return [answer.output_text for answer in asyncio.run(main())]


def conversation():
    messages = user("My name is Ada.")
    messages += client.responses.create(model=GPT, input=messages).output
    messages += user("What is my name?")
    return client.responses.create(model=GPT, input=messages).output_text


def typed():
    return client.responses.parse(model=GPT, input="Who wrote the first program?", text_format=Person).output_parsed


def typed_list():
    class People(BaseModel):
        people: list[Person]

    return client.responses.parse(model=GPT, input="Two pioneers?", text_format=People).output_parsed.people


def ask_again():
    messages = user("Who wrote the first program?")
    for _ in range(3):
        try:
            return client.responses.parse(model=GPT, input=messages, text_format=Person).output_parsed
        except ValueError as error:
            messages += user(f"The last answer was not valid: {error}")


def picture():
    data = base64.b64encode(Path("dot.png").read_bytes()).decode()
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{data}"}
    question = {"type": "input_text", "text": "What is it?"}
    return client.responses.create(model=GPT, input=user([question, image])).output_text


def document():
    data = base64.b64encode(Path("a.pdf").read_bytes()).decode()
    file = {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{data}"}
    question = {"type": "input_text", "text": "Sum it up."}
    return client.responses.create(model=GPT, input=user([question, file])).output_text


def described(function):
    """The definition of a tool, and its schema."""
    schema = TypeAdapter(function).json_schema()
    return {"type": "function", "name": function.__name__, "description": function.__doc__, "parameters": schema}


def run(call, functions):
    """The result of a call as an item."""
    try:
        output = str(functions[call.name](**json.loads(call.arguments)))
    except Exception as error:
        output = f"error: {error}"
    return {"type": "function_call_output", "call_id": call.call_id, "output": output}


def tool():
    messages, tools = user("Area of 2 by 3?"), [described(area)]
    while True:
        answer = client.responses.create(model=GPT, input=messages, tools=tools)
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return answer.output_text
        messages += [*answer.output, *(run(call, {"area": area}) for call in calls)]


def tool_error():
    messages, tools = user("Area?"), [described(broken)]
    while True:
        answer = client.responses.create(model=GPT, input=messages, tools=tools)
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return answer.output_text
        messages += [*answer.output, *(run(call, {"broken": broken}) for call in calls)]


def approve():
    messages, tools, asked = user("Area of 2 by 3?"), [described(area)], []
    while True:
        answer = client.responses.create(model=GPT, input=messages, tools=tools)
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return answer.output_text, asked
        messages += answer.output
        for call in calls:
            asked.append(call.name)
            messages.append({"type": "function_call_output", "call_id": call.call_id, "output": "denied by the user"})


def limit():
    messages, tools = user("Again and again"), [described(area)]
    for _ in range(2):
        answer = client.responses.create(model=GPT, input=messages, tools=tools)
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return False
        messages += [*answer.output, *(run(call, {"area": area}) for call in calls)]
    return True


def watch():
    messages, tools, seen = user("Area of 2 by 3?"), [described(area)], []
    while True:
        answer = client.responses.create(model=GPT, input=messages, tools=tools)
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return answer.output_text, seen
        seen += [call.name for call in calls]
        messages += [*answer.output, *(run(call, {"area": area}) for call in calls)]


def other_provider():
    return claude.messages.create(model=CLAUDE, max_tokens=1000, messages=user("Capital of Norway?")).content[0].text


def fallback():
    try:
        return client.with_options(max_retries=0).responses.create(model=GPT, input="Hi").output_text
    except openai.APIError:
        return claude.messages.create(model=CLAUDE, max_tokens=1000, messages=user("Hi")).content[0].text


def retry():
    return client.responses.create(model=GPT, input="Hi").output_text


def timeout():
    try:
        client.with_options(max_retries=0).responses.create(model=GPT, input="Hi", timeout=0.3)
    except openai.APITimeoutError:
        return "timeout"


def rate_limit():
    try:
        client.with_options(max_retries=0).responses.create(model=GPT, input="Hi")
    except openai.RateLimitError as error:
        return float(error.response.headers["retry-after"])


def usage():
    usage = client.responses.create(model=GPT, input="Hi").usage
    return usage.input_tokens, usage.output_tokens


def thinking():
    think = {"type": "enabled", "budget_tokens": 10000}
    answer = claude.messages.create(model=CLAUDE, max_tokens=20000, thinking=think, messages=user("Why?"))
    thoughts = [block.thinking for block in answer.content if block.type == "thinking"]
    return thoughts, "".join(block.text for block in answer.content if block.type == "text")


def embed():
    return len(client.embeddings.create(model=EMBEDDING, input=["a cat", "a dog"]).data)


def save():
    messages = user("My name is Ada.")
    messages += [item.model_dump() for item in client.responses.create(model=GPT, input=messages).output]
    Path("talk.json").write_text(json.dumps(messages))
    messages = json.loads(Path("talk.json").read_text()) + user("What is my name?")
    return client.responses.create(model=GPT, input=messages).output_text


answer_tasks(globals())
