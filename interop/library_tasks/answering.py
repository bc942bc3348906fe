"""What the tasks share, and how they are run: a line with the name of a task in, a line with its result out.

A task is a function without arguments. The addresses and keys of the providers are in the environment, where each
package looks for them by itself.
"""

import dataclasses
import json
import sys
import traceback
from typing import Any

import pydantic

GPT, CLAUDE, EMBEDDING = "gpt-4.1-mini", "claude-sonnet-4-5", "text-embedding-3-small"
MARK = "@@ "  # before a result: packages print, too


class Person(pydantic.BaseModel):
    name: str
    born: int


def area(width: int, height: int) -> int:
    """The area of a rectangle."""
    return width * height


def broken(width: int) -> int:
    """Always fails."""
    raise ValueError("no such width")


FUNCTION = {"name": "area", "arguments": '{"width":2,"height":3}'}
# What a client of OpenAI sends; the task is to have it as Anthropic wants it.
CALLING = {
    "model": GPT,
    "max_tokens": 100,
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Area of 2 by 3?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "area", "arguments": '{"width":2,"height":3}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "6"},
    ],
}


def answer_tasks(tasks: dict[str, Any]) -> None:
    for line in sys.stdin:
        try:
            outcome = {"result": tasks[line.strip()]()}
        except BaseException as error:
            traceback.print_exc()
            outcome = {"error": f"{type(error).__name__}: {error}"}
        print(f"{MARK}{json.dumps(outcome, default=_plain)}", flush=True)


def _plain(value: Any) -> Any:
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump()
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) else str(value)  # type: ignore[arg-type]
