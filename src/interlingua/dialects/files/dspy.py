"""DSPy: a call in the history of a language model (`lm.history`), written as JSON.

`messages` (or `prompt`, one text) is what was asked, `outputs` has the answers: each a text, or an object with `text`,
`reasoning_content` and `tool_calls`. The first is on the path, the others are branches. `kwargs` has the tools.
`response` is the provider's answer, or its `repr`; it is read where there are no `outputs`.
github.com/stanfordnlp/dspy `dspy/clients/base_lm.py`
"""

from typing import Any

from msgspec.structs import replace

from ...values.errors import BadWire
from ...values.messages import AssistantMessage, UserMessage
from ...values.request import Conversation, Entry, ModelDescriptor
from ..residual import optional
from .chat_programs import turn
from .program_content import inner, items, moment, priced
from .reading import Documents, Pairing, openai_usage
from .wire_bodies import CHAT, answer_in, request_in, wire_of_answer

API = "dspy"

_DETAILS = frozenset(("text", "reasoning_content", "tool_calls"))  # of an answer that is not only text


def _is_output(value: Any) -> bool:
    if not isinstance(value, dict):
        return value is None or isinstance(value, str)
    return not _DETAILS.isdisjoint(value) and isinstance(value.get("text"), str | None)


def _is_call(value: Any) -> bool:
    if not isinstance(value, dict) or "messages" not in value or not isinstance(value["messages"], list | None):
        return False
    if value["messages"] is None and not isinstance(value.get("prompt"), str):
        return False
    if not all(isinstance(message, dict) and "role" in message for message in value["messages"] or ()):
        return False
    outputs = value.get("outputs")
    if outputs is None:  # logs of others have a response beside messages, too
        return "kwargs" in value and wire_of_answer(value.get("response")) is not None
    return isinstance(outputs, list) and all(map(_is_output, outputs))


def _conversation(call: dict[str, Any]) -> Conversation:
    """One call: what was asked, and the answers."""
    when = moment(call.get("timestamp"))
    asked = _asked(call)
    messages = [replace(m, timestamp=when) if isinstance(m, UserMessage) else m for m in asked.messages]
    answers = _answers(call, when)
    model = optional(call.get("model"))
    return Conversation(
        entries=_entries(messages, answers),
        head="answer-0" if len(answers) > 1 else None,
        system=asked.system,
        tools=asked.tools,
        model=ModelDescriptor(id=model) if model else None,
    )


def _asked(call: dict[str, Any]) -> Conversation:
    if call["messages"] is None:
        return Conversation(entries=(Entry(message=UserMessage(content=call["prompt"])),))
    tools = inner(call, "kwargs", "tools")
    return request_in({"messages": call["messages"], **({"tools": tools} if isinstance(tools, list) else {})}, CHAT)


def _answers(call: dict[str, Any], when: int | None) -> list[Any]:
    named = {"model": optional(call.get("model")), "timestamp": when}
    outputs, response = call.get("outputs"), call.get("response")
    if outputs is None:
        return [answer_in(response, wire_of_answer(response) or CHAT, **named)]
    answers = [_answer(output, f"$.outputs[{at}]") for at, output in enumerate(outputs)]
    served = optional(call.get("response_model")) or optional(inner(response, "model"))
    found = [replace(answer, response_model=served, **named) for answer in answers]
    usage = priced(openai_usage(call.get("usage")), call.get("cost"))
    return [*(replace(answer, usage=usage) for answer in found[:1]), *found[1:]]


def _answer(output: Any, path: str) -> Any:
    if not isinstance(output, dict):
        return AssistantMessage(content=output)
    calls = output.get("tool_calls")
    if calls and len(items(calls)) != len(calls):
        why = "a call was written as the text of a Python object; write objects with their `model_dump()`"
        raise BadWire(API, why, f"{path}.tool_calls")
    (answer,) = turn({**{key: output.get(key) for key in _DETAILS}, "role": "assistant"}, Pairing())
    return answer


def _entries(messages: list[Any], answers: list[Any]) -> tuple[Entry, ...]:
    """In a row; several answers each follow the last message."""
    if len(answers) < 2:
        return tuple(Entry(message=message) for message in [*messages, *answers])
    ids = [f"asked-{at}" for at in range(len(messages))]
    asked = zip(messages, ids, [None, *ids], strict=False)
    last = ids[-1] if ids else None
    return (
        *(Entry(message=message, id=id, parent_id=parent) for message, id, parent in asked),
        *(Entry(message=answer, id=f"answer-{at}", parent_id=last) for at, answer in enumerate(answers)),
    )


FORMAT = Documents(API, _is_call, "`outputs` or a `response` beside `messages`", "calls").format(_conversation, rank=40)
