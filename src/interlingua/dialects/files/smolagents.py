"""smolagents: the steps of an agent's memory (`agent.memory.get_full_steps()`), a list.

The system prompt, then each task, and the steps of the agent: an action is an answer with its calls, of which
`observations` is the result, and `error` what failed. A planning step is an answer with the plan.
github.com/huggingface/smolagents `src/smolagents/memory.py`
"""

from collections.abc import Iterator
from typing import Any

from ...values.errors import BadWire
from ...values.messages import AssistantMessage, Block, Message, SystemMessage, TextBlock, Usage
from ...values.request import Conversation
from ..residual import body_of, fields_of, optional, reading
from . import templates
from .chat_programs import chat
from .program_content import content_of, first, inner, items, moment, usage_of, user
from .reading import Pairing, kept_record

API = "smolagents"


def _is_step(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return (
        "system_prompt" in value or "task" in value or "final_answer" in value or "timing" in value or "plan" in value
    )


def _is_memory(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(map(_is_step, value))
        and any("step_number" in step and "timing" in step and "observations" in step for step in value)
    )


def _step(step: dict[str, Any], pairs: Pairing) -> Iterator[Message]:
    if "system_prompt" in step:
        yield SystemMessage(content=optional(step["system_prompt"]) or "")
    elif "task" in step:
        yield user(optional(step["task"]) or "")
    elif "step_number" in step:
        yield from _action(step, pairs)
    elif "plan" in step:
        yield AssistantMessage(content=optional(step["plan"]) or "", usage=_usage(step), timestamp=_when(step))
    else:
        yield kept_record(API, "step", step)


def _action(step: dict[str, Any], pairs: Pairing) -> Iterator[Message]:
    output = first(step, "model_output", "model_output_message")
    content = content_of(output.get("content") if isinstance(output, dict) else output)
    blocks: list[Block] = [TextBlock(text=content)] if isinstance(content, str) and content else []
    blocks += content if isinstance(content, tuple) else ()
    calls = []
    for item in items(step.get("tool_calls")):
        function = fields_of(item.get("function"))
        given = function.get("arguments")
        code = {"code": given} if isinstance(given, str) else given  # an agent that writes code has one argument
        calls.append(pairs.call(item.get("id"), function.get("name"), code))
    model = optional(inner(step, "model_output_message", "raw", "model"))
    answer = AssistantMessage(content=(*blocks, *calls), model=model, usage=_usage(step), timestamp=_when(step))
    yield answer
    failed = optional(inner(step, "error", "message"))
    shown = [text for text in (optional(step.get("observations")), failed) if text]
    for call in calls[:1] if shown else ():
        yield pairs.result(call.id, call.name, "\n".join(shown), failed is not None, timestamp=_when(step))
    if shown and not calls:
        yield user("\n".join(shown), _when(step), program=True)


def _usage(step: dict[str, Any]) -> Usage | None:
    return usage_of(step.get("token_usage"), input="input_tokens", output="output_tokens")


def _when(step: dict[str, Any]) -> int | None:
    return moment(inner(step, "timing", "end_time"))


@reading(API)
def decode(data: Any) -> Conversation:
    """The memory of one agent."""
    body = body_of(data, API)
    if not _is_memory(body):
        raise BadWire(API, "expected the steps of an agent's memory")
    pairs = Pairing()
    return templates.keep(chat(message for step in body for message in _step(step, pairs)), body, API)


def detect(value: Any) -> str | None:
    """Whether a value is the memory of an agent."""
    return "steps with `timing` and `observations`" if _is_memory(value) else None


FORMAT = templates.file_format(API, decode, detect=detect, rank=30)
