"""The tasks with any-llm."""

# ruff: noqa: RET503

import asyncio
import base64
import json
from pathlib import Path

from answering import CLAUDE, EMBEDDING, GPT, Person, answer_tasks, area, broken
from any_llm import acompletion, completion, embedding
from openai import APITimeoutError, RateLimitError
from pydantic import BaseModel

GPT, CLAUDE, EMBEDDING = f"openai:{GPT}", f"anthropic:{CLAUDE}", f"openai:{EMBEDDING}"


def user(content):
    return [{"role": "user", "content": content}]


def ask():
    return completion(GPT, user("Capital of Norway?")).choices[0].message.content


def system():
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    return completion(GPT, messages).choices[0].message.content


def stream():
    chunks = completion(GPT, user("Hi"), stream=True)
    return [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]


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
    return completion(GPT, user("Who wrote the first program?"), response_format=Person).choices[0].message.parsed


def typed_list():
    class People(BaseModel):
        people: list[Person]

    return completion(GPT, user("Two pioneers?"), response_format=People).choices[0].message.parsed.people


def ask_again():
    messages = user("Who wrote the first program?")
    for _ in range(3):
        try:
            return completion(GPT, messages, response_format=Person).choices[0].message.parsed
        except ValueError as error:
            messages += user(f"The last answer was not valid: {error}")


def picture():
    data = base64.b64encode(Path("dot.png").read_bytes()).decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    return completion(GPT, user([{"type": "text", "text": "What is it?"}, image])).choices[0].message.content


def document():
    data = base64.b64encode(Path("a.pdf").read_bytes()).decode()
    file = {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{data}"}}
    return completion(GPT, user([{"type": "text", "text": "Sum it up."}, file])).choices[0].message.content


def run(call, functions):
    """The result of a call as a message."""
    try:
        content = str(functions[call.function.name](**json.loads(call.function.arguments)))
    except Exception as error:
        content = f"error: {error}"
    return {"role": "tool", "tool_call_id": call.id, "content": content}


def tool():
    messages = user("Area of 2 by 3?")
    while (answer := completion(GPT, messages, tools=[area]).choices[0].message).tool_calls:
        messages += [answer, *(run(call, {"area": area}) for call in answer.tool_calls)]
    return answer.content


def tool_error():
    messages = user("Area?")
    while (answer := completion(GPT, messages, tools=[broken]).choices[0].message).tool_calls:
        messages += [answer, *(run(call, {"broken": broken}) for call in answer.tool_calls)]
    return answer.content


def approve():
    messages, asked = user("Area of 2 by 3?"), []
    while (answer := completion(GPT, messages, tools=[area]).choices[0].message).tool_calls:
        messages.append(answer)
        for call in answer.tool_calls:
            asked.append(call.function.name)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "denied by the user"})
    return answer.content, asked


def limit():
    messages = user("Again and again")
    for _ in range(2):
        answer = completion(GPT, messages, tools=[area]).choices[0].message
        if not answer.tool_calls:
            return False
        messages += [answer, *(run(call, {"area": area}) for call in answer.tool_calls)]
    return True


def watch():
    messages, seen = user("Area of 2 by 3?"), []
    while (answer := completion(GPT, messages, tools=[area]).choices[0].message).tool_calls:
        seen += [call.function.name for call in answer.tool_calls]
        messages += [answer, *(run(call, {"area": area}) for call in answer.tool_calls)]
    return answer.content, seen


def other_provider():
    return completion(CLAUDE, user("Capital of Norway?")).choices[0].message.content


def hand_over():
    messages = user("Area of 2 by 3?")
    while (answer := completion(GPT, messages, tools=[area]).choices[0].message).tool_calls:
        messages += [answer, *(run(call, {"area": area}) for call in answer.tool_calls)]
    messages += [answer, *user("And doubled?")]
    return completion(CLAUDE, messages, tools=[area]).choices[0].message.content


def fallback():
    for model in (GPT, CLAUDE):
        try:
            return completion(model, user("Hi"), client_args={"max_retries": 0}).choices[0].message.content
        except Exception as error:
            last = error
    raise last


def retry():
    return completion(GPT, user("Hi")).choices[0].message.content


def timeout():
    try:
        completion(GPT, user("Hi"), timeout=0.3, client_args={"max_retries": 0})
    except APITimeoutError:
        return "timeout"


def rate_limit():
    try:
        completion(GPT, user("Hi"), client_args={"max_retries": 0})
    except RateLimitError as error:
        return float(error.response.headers["retry-after"])


def usage():
    usage = completion(GPT, user("Hi")).usage
    return usage.prompt_tokens, usage.completion_tokens


def thinking():
    answer = completion(CLAUDE, user("Why?"), reasoning_effort="high", max_tokens=20000).choices[0].message
    return [answer.reasoning.content], answer.content


def embed():
    return len(embedding(EMBEDDING, ["a cat", "a dog"]).data)


def save():
    messages = user("My name is Ada.")
    messages.append(completion(GPT, messages).choices[0].message.model_dump(exclude_none=True))
    Path("talk.json").write_text(json.dumps(messages))
    messages = json.loads(Path("talk.json").read_text()) + user("What is my name?")
    return completion(GPT, messages).choices[0].message.content


answer_tasks(globals())
