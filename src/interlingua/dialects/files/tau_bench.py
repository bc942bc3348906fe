"""tau-bench's results: tasks of a simulated customer, each with the messages of the agent that was tested.

A file is a list of `EnvRunResult`: `task_id`, `trial`, `reward`, `info` and, in `traj`, the messages of chat
completions. Agents of the strategies `act` and `react` write calls as text: there the program puts the results in
messages of the user that begin with "API output: ". A run that failed has no messages, but an `error` in its `info`.
github.com/sierra-research/tau-bench: tau_bench/types.py, run.py, agents/chat_react_agent.py
"""

from typing import Any

from msgspec.structs import replace

from ...values.messages import UserMessage
from ...values.request import Conversation, Entry
from ..residual import fields_of
from .reading import Documents
from .wire_bodies import CHAT, failure, request_in

API = "tau-bench"

_OUTPUT = "API output: "
_ROLES = ("system", "user", "assistant", "tool")


def _is_message(value: Any) -> bool:
    # Other trajectories have a `role` in their steps as well: that of a robot, for one.
    return isinstance(value, dict) and value.get("role") in _ROLES and ("content" in value or "tool_calls" in value)


def _is_result(value: Any) -> bool:
    if not isinstance(value, dict) or not value.keys() >= {"task_id", "trial", "reward", "info"}:
        return False
    messages = value.get("traj")
    if not isinstance(messages, list) or not all(map(_is_message, messages)):
        return False
    return bool(messages) or bool(fields_of(value["info"]).get("error"))


def _conversation(result: dict[str, Any]) -> Conversation:
    """The run of one task."""
    if not result["traj"]:
        return Conversation(entries=(Entry(message=failure(result["info"]["error"])),))
    found = request_in({"messages": result["traj"]}, CHAT)
    return replace(found, entries=tuple(map(_with_origin, found.entries)))


def _with_origin(entry: Entry) -> Entry:
    message = entry.message
    if isinstance(message, UserMessage) and isinstance(message.content, str) and message.content.startswith(_OUTPUT):
        return replace(entry, message=replace(message, origin="program"))
    return entry


FORMAT = Documents(API, _is_result, "a `traj` beside its `task_id` and `reward`", "runs", "$.traj").format(
    _conversation, rank=20
)
