"""smolagents: the steps of an agent's memory (`agent.memory.get_full_steps()`), a list, or a run with its `steps`.

The system prompt, then each task, and the steps of the agent: an action is an answer with its calls, of which
`observations` is the result, and `error` what failed. A planning step is an answer with the plan. Older versions have
the times of a step without `timing`. github.com/huggingface/smolagents `src/smolagents/memory.py`
"""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from ...values.errors import BadWire
from ...values.messages import AssistantMessage, Block, Message, SystemMessage, TextBlock, Usage
from ...values.request import Conversation
from ..residual import body_of, fields_of, optional, reading
from . import templates
from .chat_programs import chat
from .program_content import content_of, first, inner, items, moment, usage_of, user
from .reading import Pairing, kept_record

API = "smolagents"

_KINDS = ("system_prompt", "task", "final_answer", "timing", "plan", "step_number")
_OUTPUTS = ("model_output", "model_output_message", "action_output")


def _is_step(value: Any) -> bool:
    return isinstance(value, dict) and not value.keys().isdisjoint(_KINDS)


def _is_action(step: dict[str, Any]) -> bool:
    # Other logs have steps with a `duration`, too: those of a simulation, for one.
    is_timed = "timing" in step or ("duration" in step and "error" in step and not step.keys().isdisjoint(_OUTPUTS))
    return {"step_number", "observations"} <= step.keys() and is_timed


def _steps(value: Any) -> list[dict[str, Any]] | None:
    found = inner(value, "steps") if isinstance(value, dict) else value
    is_memory = isinstance(found, list) and all(map(_is_step, found)) and any(map(_is_action, found))
    return found if is_memory else None


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
        # src/smolagents/agents.py, `CodeAgent`: a call of `python_interpreter`, whose `arguments` is the code.
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
    return moment(first({**step, **fields_of(step.get("timing"))}, "end_time"))


@reading(API)
def decode(data: Any) -> Conversation:
    """The memory of one agent."""
    body = body_of(data, API)
    steps = _steps(body)
    if steps is None:
        raise BadWire(API, "expected the steps of an agent's memory")
    pairs = Pairing()
    found = chat(message for step in steps for message in _step(step, pairs))
    total = _usage(body) if isinstance(body, dict) else None
    return templates.keep(replace(found, usage=total), body, API)


def detect(value: Any) -> str | None:
    """Whether a value is the memory of an agent."""
    return "steps with `timing` and `observations`" if _steps(value) is not None else None


FORMAT = templates.file_format(API, decode, detect=detect, rank=30)
