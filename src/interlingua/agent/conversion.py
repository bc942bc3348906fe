"""From what an agent's history holds to what a model reads.

Messages of an application's own are kept in the history and dropped here, unless their role is registered with a way to
say them.
"""

from collections.abc import Callable, Iterable
from typing import Any

from ..values.messages import AgentMessage, CustomMessage, Message, TextBlock, UserMessage

Answered = Callable[[CustomMessage], "Message | str | None"]

_ROLES: dict[str, Answered] = {}


def register_message(role: str, say: Answered) -> None:
    """Has models read messages of this role as `say` gives them: a message, a text as the user's, or nothing."""
    _ROLES[role] = say


def for_models(messages: Iterable[AgentMessage]) -> list[Message]:
    """The messages that models read, in order."""
    messages = tuple(messages)
    if not any(issubclass(kind, CustomMessage) for kind in set(map(type, messages))):
        return [*messages]  # type: ignore[list-item]
    entries = (_encoded(message) if isinstance(message, CustomMessage) else message for message in messages)
    return [message for message in entries if message is not None]


def _encoded(message: CustomMessage) -> Message | None:
    say = _ROLES.get(message.role)
    text = say(message) if say is not None else None
    if isinstance(text, str):
        return UserMessage(content=(TextBlock(text=text),), timestamp=_time(message.fields.get("timestamp")))
    return text


def _time(value: Any) -> int | None:
    return value if isinstance(value, int) else None


# --- the roles of pi's coding agent -----------------------------------------------------------------------------------


def _bash(message: CustomMessage) -> str | None:
    fields = message.fields
    if fields.get("excludeFromContext"):
        return None
    output = fields.get("output") or ""
    lines = [f"Ran `{fields.get('command', '')}`", f"```\n{output}\n```" if output else "(no output)"]
    if fields.get("cancelled"):
        lines.append("(the command was cancelled)")
    elif fields.get("exitCode"):
        lines.append(f"The command ended with exit code {fields['exitCode']}.")
    if fields.get("truncated") and fields.get("fullOutputPath"):
        lines.append(f"(output cut short; all of it is in {fields['fullOutputPath']})")
    return "\n".join(lines)


def _custom(message: CustomMessage) -> Message | str | None:
    content = message.fields.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        from ..values.canonical import build

        user: UserMessage = build({"role": "user", "content": content}, UserMessage)
        return user
    return None


def _branch(message: CustomMessage) -> str:
    return (
        "This is a summary of another branch of this conversation, which was left:\n"
        f"<summary>\n{message.fields.get('summary', '')}\n</summary>"
    )


def _compaction(message: CustomMessage) -> str:
    return (
        "What came before in this conversation was summed up to make room:\n"
        f"<summary>\n{message.fields.get('summary', '')}\n</summary>"
    )


register_message("bashExecution", _bash)
register_message("custom", _custom)
register_message("branchSummary", _branch)
register_message("compactionSummary", _compaction)
