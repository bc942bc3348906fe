"""ATIF, the Agent Trajectory Interchange Format of Harbor: `steps` of a user, a system and an agent.

A step of the agent is one answer: its thinking in `reasoning_content`, its calls in `tool_calls`, and what came back in
`observation.results`. A result with a `source_call_id` answers that call; one without is what the environment showed
the model next (the screen of a terminal), read as a message of the program. `metrics.prompt_tokens` includes the
cached part. `final_metrics` are the totals of the run and need not be the sum of the steps, as a continued run counts
on. Sub-agents stand in `subagent_trajectories`, or in files of their own; `subagent_trajectory_ref` of a result names
them, and is kept as the `details` of the result. Those in the file are threads of the tree beside the path, and the
first entry of each says which call started it. Pictures count wherever they stand, in prompts and in observations.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from ...values.messages import (
    AssistantMessage,
    Block,
    Message,
    SystemMessage,
    ToolResultMessage,
    Usage,
    blocks_of,
)
from ...values.request import Entry
from ..residual import optional, with_residual
from .line_sessions import Record, RowReader, document_format
from .program_content import (
    a_result,
    call_of,
    content_of,
    inclusive_usage,
    inner,
    items,
    moment,
    openai_tools,
    thinking_of,
    user,
)

API = "atif"


def _answer(step: dict[str, Any]) -> AssistantMessage:
    calls = [call for wire in items(step.get("tool_calls")) if (call := call_of(_as_call(wire))) is not None]
    thoughts = [thinking_of({"thinking": step["reasoning_content"]})] if optional(step.get("reasoning_content")) else []
    content = content_of(step.get("message"))
    blocks: tuple[Block, ...] = (*thoughts, *(blocks_of(content) if content else ()), *calls)
    return AssistantMessage(
        content=blocks if thoughts or calls else content,
        model=optional(step.get("model_name")),
        usage=_usage(step.get("metrics"), ""),
        timestamp=moment(step.get("timestamp")),
    )


def _as_call(wire: dict[str, Any]) -> dict[str, Any]:
    return {"id": wire.get("tool_call_id"), "name": wire.get("function_name"), "input": wire.get("arguments")}


def _usage(metrics: Any, prefix: str) -> Usage | None:
    names = {"input": f"{prefix}prompt_tokens", "output": f"{prefix}completion_tokens"}
    return inclusive_usage(metrics, **names, cached=inner(metrics, f"{prefix}cached_tokens"))


def _observed(step: dict[str, Any]) -> list[Message]:
    """What came back: results of calls, and what else the model was shown."""
    when = moment(step.get("timestamp"))
    names = {wire.get("tool_call_id"): optional(wire.get("function_name")) for wire in items(step.get("tool_calls"))}
    found: list[Message] = []
    for result in items(inner(step, "observation", "results")):
        id = optional(result.get("source_call_id"))
        if id is not None:
            details = result.get("subagent_trajectory_ref")
            found.append(a_result(id, result.get("content"), name=names.get(id), when=when, details=details))
        elif result.get("content") is not None:
            found.append(user(content_of(result["content"]), when, program=True))
    return found


def _step(step: dict[str, Any]) -> list[Message]:
    match step.get("source"):
        case "user":
            message: Message = user(content_of(step.get("message")), moment(step.get("timestamp")))
        case "agent":
            message = _answer(step)
        case "system":
            message = SystemMessage(content=content_of(step.get("message")), timestamp=moment(step.get("timestamp")))
        case _:
            return []
    return [message, *_observed(step)]


SPAWNED_BY = "~spawnedBy"  # of the first entry of a sub-agent: the `entry` and the `callId` that started it


class _Reader(RowReader):
    """Reads the steps of a trajectory, then those of its sub-agents: threads beside the path."""

    def __init__(self, document: Record) -> None:
        self._threads = items(document.get("subagent_trajectories"))
        self.fields = {
            "usage": _usage(document.get("final_metrics"), "total_"),
            "model": optional(inner(document, "agent", "model_name")),
            "tools": openai_tools(inner(document, "agent", "tool_definitions")),
        }

    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        return (message for step in records if isinstance(step, dict) for message in _step(step))

    def entries(self, records: Iterable[Record]) -> Iterator[Entry]:
        main = super().entries(records)
        if not self._threads:
            yield from main
            return
        started: dict[Any, dict[str, str | None]] = {}  # trajectory -> the entry with the call, and the call
        for entry in _placed((entry.message for entry in main), "m", started):
            yield entry
            self.head = entry.id
        for number, thread in enumerate(self._threads):
            spawned = started.get(thread.get("trajectory_id")) or {}
            found = _placed(self.messages(items(thread.get("steps"))), f"s{number}_", started)
            for at, entry in enumerate(found):
                yield entry if at else with_residual(entry, API, **{SPAWNED_BY: spawned})


def _placed(messages: Iterable[Message], prefix: str, started: dict[Any, Any]) -> Iterator[Entry]:
    """A thread, each entry the parent of the next; notes the sub-agents that its results name."""
    parent: str | None = None
    callers: dict[str, str] = {}  # call -> the entry that has it
    for at, message in enumerate(messages):
        id = f"{prefix}{at}"
        yield Entry(message=message, id=id, parent_id=parent)
        parent = id
        if isinstance(message, AssistantMessage):
            callers |= dict.fromkeys((call.id for call in message.tool_calls), id)
        elif isinstance(message, ToolResultMessage):
            for named in items(message.details):
                call = message.tool_call_id
                started[named.get("trajectory_id")] = {"entry": callers.get(call, id), "callId": call}


def detect(value: Any) -> str | None:
    """The format names itself; without a name, steps of a user or an agent beside the agent that made them."""
    if not isinstance(value, dict) or not isinstance(value.get("steps"), list):
        return None
    if str(value.get("schema_version", "")).upper().startswith("ATIF"):
        return "`steps` with an ATIF `schema_version`"
    sources = {step.get("source") for step in items(value["steps"])}
    if isinstance(value.get("agent"), dict) and sources and sources <= {"user", "agent", "system"}:
        return "`steps` with a `source` beside the `agent`"
    return None


FORMAT = document_format(
    API,
    "steps",
    lambda trajectory, steps: _Reader(trajectory),
    "a trajectory with `steps`",
    detect=detect,
    calls_beside=True,
)
