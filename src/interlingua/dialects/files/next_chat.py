"""NextChat (ChatGPT-Next-Web): a backup, its store `chat-next-web-store` with `sessions`, or one of them.

A session has a `topic`, `messages` of a role and content, and a `mask` with the model and messages that precede the
chat. Dates are written in the browser's language, and are not read. The calls of plugins stand with their results in
the `tools` of the answer that followed them; what MCP servers gave is in messages of the user that are marked so.
Messages with `isError` are not sent again. github.com/ChatGPTNextWeb/NextChat `app/store/chat.ts`
"""

from typing import Any

from msgspec.structs import replace

from ...values.messages import UserMessage
from ...values.request import Conversation
from ..residual import optional
from .chat_programs import chat, is_turn, turn
from .program_content import PROGRAM, called, first, inner, items, name_of
from .reading import Documents, Pairing

API = "next-chat"


def _is_session(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("topic"), str)
        and isinstance(value.get("mask"), dict)
        and isinstance(value.get("messages"), list)
        and all(map(is_turn, value["messages"]))
    )


def _conversation(session: dict[str, Any]) -> Conversation:
    """One session."""
    model = optional(inner(session, "mask", "modelConfig", "model"))
    # app/store/chat.ts, `getMessagesWithMemory`: these are sent before the messages of the session.
    before = items(inner(session, "mask", "context"))
    pairs = Pairing()
    messages = [message for record in (*before, *session["messages"]) for message in _turn(record, pairs, model)]
    return chat(messages, title=session["topic"], model=model)


def _turn(record: dict[str, Any], pairs: Pairing, model: str | None) -> list[Any]:
    found = turn(_with_tools(record), pairs, model=model, failures=("isError",))
    # app/store/chat.ts: what a tool gave, sent as a message of the user.
    if record.get("isMcpResponse") is True:
        return [replace(message, origin=PROGRAM) if isinstance(message, UserMessage) else message for message in found]
    return found


def _with_tools(record: dict[str, Any]) -> dict[str, Any]:
    """An answer with its calls and what they gave among its parts."""
    calls = []
    for tool in items(record.get("tools")):
        failed = tool.get("isError") is True
        given = first(tool, "errorMsg", "content") if failed else tool.get("content")
        about = {"id": tool.get("id"), "name": name_of(tool), "args": called(tool).get("arguments")}
        calls.append({"type": "tool-call", **about, "result": given, "state": "error" if failed else "result"})
    content = record.get("content")
    texts = content if isinstance(content, list) else [content]
    return {**record, "contentParts": [*calls, *texts]} if calls else record


FORMAT = Documents(
    API,
    _is_session,
    "sessions with a `topic` and a `mask`",
    "chats",
    inside=lambda value: inner(value, "chat-next-web-store", "sessions"),
).format(_conversation, array="chat-next-web-store.sessions", rank=20)
