"""The tasks with LiteLLM."""

# ruff: noqa: RET503

import asyncio
import base64
import json
from functools import partial
from pathlib import Path

import litellm
from answering import CALLING, CLAUDE, EMBEDDING, GPT, Person, answer_tasks, area, broken
from litellm import acompletion, completion, completion_cost, embedding, run_tool_loop
from pydantic import BaseModel, TypeAdapter

CLAUDE = f"anthropic/{CLAUDE}"


def user(content):
    return [{"role": "user", "content": content}]


def ask():
    return completion(GPT, user("Capital of Norway?")).choices[0].message.content


def system():
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    return completion(GPT, messages).choices[0].message.content


def stream():
    return [chunk.choices[0].delta.content or "" for chunk in completion(GPT, user("Hi"), stream=True)]


def options():
    return completion(GPT, user("Hi"), temperature=0.2, max_tokens=50).choices[0].message.content


def many():
    async def main():
        return await asyncio.gather(*(acompletion(GPT, user(question)) for question in ("a", "b", "c")))

    return [answer.choices[0].message.content for answer in asyncio.run(main())]


def conversation():
    messages = user("My name is Ada.")
    messages.append(completion(GPT, messages).choices[0].message)
    messages += user("What is my name?")
    return completion(GPT, messages).choices[0].message.content


def typed():
    answer = completion(GPT, user("Who wrote the first program?"), response_format=Person)
    return Person.model_validate_json(answer.choices[0].message.content)


def typed_list():
    class People(BaseModel):
        people: list[Person]

    answer = completion(GPT, user("Two pioneers?"), response_format=People)
    return People.model_validate_json(answer.choices[0].message.content).people


def ask_again():
    messages = user("Who wrote the first program?")
    for _ in range(3):
        answer = completion(GPT, messages, response_format=Person).choices[0].message
        try:
            return Person.model_validate_json(answer.content)
        except ValueError as error:
            messages += [answer, *user(f"That is not valid: {error}")]


def picture():
    data = base64.b64encode(Path("dot.png").read_bytes()).decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    return completion(GPT, user([{"type": "text", "text": "What is it?"}, image])).choices[0].message.content


def document():
    data = base64.b64encode(Path("a.pdf").read_bytes()).decode()
    file = {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{data}"}}
    return completion(GPT, user([{"type": "text", "text": "Sum it up."}, file])).choices[0].message.content


def described(function):
    """The definition of a tool: its own `function_to_dict` needs numpydoc, which it does not bring."""
    schema = TypeAdapter(function).json_schema()
    about = {"name": function.__name__, "description": function.__doc__, "parameters": schema}
    return {"type": "function", "function": about}


def run(call, functions):
    """The result of a call as a message."""
    try:
        content = str(functions[call.function.name](**json.loads(call.function.arguments)))
    except Exception as error:
        content = f"error: {error}"
    return {"role": "tool", "tool_call_id": call.id, "content": content}


def tool():
    tools = [described(area)]
    execute = partial(run, functions={"area": area})
    return run_tool_loop(model=GPT, messages=user("Area of 2 by 3?"), tools=tools, execute_tool=execute)


def tool_error():
    tools = [described(broken)]
    execute = partial(run, functions={"broken": broken})
    return run_tool_loop(model=GPT, messages=user("Area?"), tools=tools, execute_tool=execute)


def approve():
    asked = []

    def execute(call):
        asked.append(call.function.name)
        return {"role": "tool", "tool_call_id": call.id, "content": "denied by the user"}

    tools = [described(area)]
    return run_tool_loop(model=GPT, messages=user("Area of 2 by 3?"), tools=tools, execute_tool=execute), asked


def limit():
    tools = [described(area)]
    execute = partial(run, functions={"area": area})
    try:
        run_tool_loop(model=GPT, messages=user("Again"), tools=tools, execute_tool=execute, max_rounds=2)
    except litellm.ToolLoopMaxRoundsExceeded:
        return True


def watch():
    seen = []

    def execute(call):
        seen.append(call.function.name)
        return run(call, {"area": area})

    tools = [described(area)]
    return run_tool_loop(model=GPT, messages=user("Area of 2 by 3?"), tools=tools, execute_tool=execute), seen


def other_provider():
    return completion(CLAUDE, user("Capital of Norway?")).choices[0].message.content


def hand_over():
    tools = [described(area)]
    messages = user("Area of 2 by 3?")
    while (answer := completion(GPT, messages, tools=tools).choices[0].message).tool_calls:
        messages += [answer, *(run(call, {"area": area}) for call in answer.tool_calls)]
    messages += [answer, *user("And doubled?")]
    return completion(CLAUDE, messages, tools=tools).choices[0].message.content


def fallback():
    return completion(GPT, user("Hi"), fallbacks=[CLAUDE], max_retries=0).choices[0].message.content


def retry():
    return completion(GPT, user("Hi"), num_retries=2).choices[0].message.content


def timeout():
    try:
        completion(GPT, user("Hi"), timeout=0.3, max_retries=0)
    except litellm.Timeout:
        return "timeout"


def rate_limit():
    try:
        completion(GPT, user("Hi"), max_retries=0)
    except litellm.RateLimitError as error:
        return float(error.litellm_response_headers["retry-after"])


def usage():
    usage = completion(GPT, user("Hi")).usage
    return usage.prompt_tokens, usage.completion_tokens


def cost():
    return completion_cost(completion(GPT, user("Hi"))) > 0


def thinking():
    answer = completion(CLAUDE, user("Why?"), reasoning_effort="high", max_tokens=20000).choices[0].message
    return [answer.reasoning_content], answer.content


def embed():
    return len(embedding(EMBEDDING, ["a cat", "a dog"]).data)


def save():
    messages = user("My name is Ada.")
    messages.append(completion(GPT, messages).choices[0].message.model_dump())
    Path("talk.json").write_text(json.dumps(messages))
    messages = json.loads(Path("talk.json").read_text()) + user("What is my name?")
    return completion(GPT, messages).choices[0].message.content


def offline():
    return completion(GPT, user("Hi"), mock_response="Hello").choices[0].message.content


def convert():
    from litellm import AnthropicConfig

    messages = json.loads(json.dumps(CALLING["messages"]))
    options = {"max_tokens": CALLING["max_tokens"]}
    return AnthropicConfig().transform_request(GPT, messages, options, {}, {})


answer_tasks(globals())
