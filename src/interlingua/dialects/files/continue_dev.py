"""Continue's sessions (`~/.continue/sessions/ID.json`): a `history` of messages, each with what the editor knew of it.

`contextItems` beside a message of the user are files and snippets that the program put before it. A tool's result is
in `toolCallStates` (or `toolCallState`, one of them) of the answer, or in a message of role `tool` behind it; the
message counts where both are there. Thinking is a message of its own role before the answer that it belongs to.

Its logs (`~/.continue/dev_data/VERSION/chatInteraction.jsonl`, `editInteraction.jsonl` and others) have a call a line:
the `prompt` as one text, its `completion`, and the model; the `eventName` says what for.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from ...values.errors import BadWire
from ...values.messages import (
    AssistantMessage,
    Block,
    Message,
    SystemMessage,
    ThinkingBlock,
    ToolResultMessage,
    Usage,
    blocks_of,
    text_of,
)
from ...values.request import Conversation
from ..residual import body_of, optional, reading
from ..wire import ListedSession, SessionStream
from .line_sessions import ReadAgain, Record, TemplateStream, TreeReader, read
from .program_content import (
    a_result,
    an_object_of,
    call_of,
    content_of,
    conversation_of,
    first,
    inclusive_usage,
    inner,
    items,
    moment,
    thinking_of,
    user,
)
from .reading import kept_record
from .templates import file_format, keep

API = "continue"

# States of a call whose output the model has read; the others wait for the user or for the tool.
# core/index.d.ts, `ToolStatus`: also `generating`, `generated` and `calling`.
_ENDED = frozenset(("done", "errored", "canceled"))


def _usage(wire: Any) -> Usage | None:
    details = inner(wire, "promptTokensDetails")
    return inclusive_usage(
        wire,
        input="promptTokens",
        output="completionTokens",
        cached=inner(details, "cachedTokens"),
        written=inner(details, "cacheWriteTokens"),
    )


def _model(item: dict[str, Any]) -> str | None:
    """The model that answered: as the request named it, else as the user's settings call it."""
    for log in items(item.get("promptLogs")):
        named = optional(inner(log, "completionOptions", "model")) or optional(log.get("modelTitle"))
        if named:
            return named
    return None


def _answer(item: dict[str, Any], thoughts: list[ThinkingBlock]) -> AssistantMessage:
    wire = item["message"]
    calls = [call for given in items(wire.get("toolCalls")) if (call := call_of(given)) is not None]
    if not thoughts and optional(inner(item, "reasoning", "text")):
        thoughts = [thinking_of({"thinking": item["reasoning"]["text"]})]
    content = content_of(wire.get("content"))
    blocks: tuple[Block, ...] = (*thoughts, *(blocks_of(content) if content else ()), *calls)
    return AssistantMessage(
        content=blocks if thoughts or calls else content, model=_model(item), usage=_usage(wire.get("usage"))
    )


def _results(item: dict[str, Any]) -> list[ToolResultMessage]:
    """The output in the states of an answer's calls: items of context, which the model reads joined."""
    found = []
    for state in items(item.get("toolCallStates")) or items([item.get("toolCallState")]):
        id = optional(first(state, "toolCallId")) or optional(inner(state, "toolCall", "id"))
        output = items(state.get("output"))
        if id is not None and (output or state.get("status") in _ENDED):
            texts = [text for given in output if (text := optional(given.get("content"))) is not None]
            name = optional(inner(state, "toolCall", "function", "name"))
            given = texts[0] if len(texts) == 1 else "\n\n".join(texts)
            found.append(a_result(id, given, name=name, failed=state.get("status") == "errored"))
    return found


class HistoryReader(TreeReader):
    """Reads a history, which Kiro's editor has in the same form. `fields` are those of the conversation.

    Behind an item with a `conversationSummary`, the model reads that in the place of the history up to it:
    gui/src/redux/util/constructMessages.ts.
    """

    def __init__(self, fields: dict[str, Any], history: ReadAgain) -> None:
        super().__init__()
        self.fields = fields
        self._summary: str | None = None  # of the item before
        tools = (item["message"] for item in history() if inner(item, "message", "role") == "tool")
        self._answered = {id for wire in tools if (id := optional(wire.get("toolCallId"))) is not None}

    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        model: str | None = None
        for message in self._messages(self._noting(records)):
            yield from self._begun_anew()
            yield self.tree.add(message)
            model = message.model or model if isinstance(message, AssistantMessage) else model
        yield from self._begun_anew()
        self.fields = {**self.fields, "model": self.fields.get("model") or model}

    def _noting(self, records: Iterable[Record]) -> Iterator[Record]:
        for item in records:
            yield item
            self._summary = optional(item.get("conversationSummary")) or self._summary

    def _begun_anew(self) -> Iterator[Message]:
        if self._summary:
            self.tree.cut(0)
            yield self.tree.add(user(self._summary, program=True))
        self._summary = None

    def _messages(self, records: Iterable[Record]) -> Iterator[Message]:
        thoughts: list[ThinkingBlock] = []
        for item in records:
            wire = item.get("message")
            if not isinstance(wire, dict):
                continue
            match wire.get("role"):
                case "user":
                    put_in = [given.get("content") for given in items(item.get("contextItems"))]
                    yield from (user(text, program=True) for text in put_in if isinstance(text, str) and text)
                    yield user(content_of(wire.get("content")))
                case "assistant":
                    yield _answer(item, thoughts)
                    yield from (result for result in _results(item) if result.tool_call_id not in self._answered)
                case "tool":
                    if optional(wire.get("toolCallId")) is not None:
                        yield a_result(wire["toolCallId"], wire.get("content"))
                case "system":
                    yield SystemMessage(content=content_of(wire.get("content")))
                case "thinking":
                    pass  # part of the next answer
                case role:
                    yield kept_record(API, str(role), wire)
            thoughts = _thoughts(wire) if wire.get("role") == "thinking" else []
        if thoughts:  # a turn that was broken off while the model thought
            yield AssistantMessage(content=tuple(thoughts))


def _thoughts(wire: dict[str, Any]) -> list[ThinkingBlock]:
    content = content_of(wire.get("content"))
    # core/index.d.ts, `ThinkingChatMessage`: a signature, or the redacted thinking in the place of a text.
    sealed = optional(wire.get("redactedThinking"))
    if sealed is not None:
        return [ThinkingBlock(thinking="", thinking_signature=sealed, redacted=True)]
    signature = optional(wire.get("signature"))
    return [ThinkingBlock(thinking=text_of(content), thinking_signature=signature)]


def _is_logged(value: Any) -> bool:
    """Whether a value is a line of a log, with its texts."""
    keys = ("eventName", "schema", "prompt", "completion")
    return isinstance(value, dict) and all(isinstance(value.get(key), str) for key in keys)


def split(value: Any) -> list[Any] | None:
    """The lines of a log, each a conversation."""
    return [*value] if isinstance(value, list) and value and all(map(_is_logged, value)) else None


def _logged(line: dict[str, Any], body: Any) -> Conversation:
    when, model = moment(line.get("timestamp")), optional(first(line, "modelName", "modelTitle"))
    answer = AssistantMessage(
        content=line["completion"], model=model, provider=optional(line.get("modelProvider")), timestamp=when
    )
    return keep(conversation_of([user(line["prompt"]), answer], model=model), body, API)


@reading(API)
def decode(data: Any) -> Conversation:
    """A session, or a line of a log."""
    body = body_of(data, API)
    calls = [body] if _is_logged(body) else split(body) or ()
    if len(calls) == 1:
        return _logged(calls[0], body)
    if calls:
        raise BadWire(API, f"a log of {len(calls)} calls: take one of them")
    document = an_object_of(body, API)
    if not isinstance(document.get("history"), list):
        raise BadWire(API, "a session has a `history`", "$.history")
    history = items(document["history"])
    return keep(read(_reader(document, lambda: history), history), document, API)


@reading(API)
def listed(header: Record, history: ReadAgain) -> SessionStream | None:
    """A session, one entry at a time."""
    if _is_logged(header):
        return None
    return TemplateStream(_reader(header, history), history, API, "history", header)


def _reader(session: Record, history: ReadAgain) -> HistoryReader:
    fields = {"title": session.get("title"), "usage": _usage(session.get("usage"))}
    return HistoryReader({**fields, "model": optional(session.get("chatModelTitle"))}, history)


def detect(value: Any) -> str | None:
    """A `history` of items with a `message` that has a role; Kiro's sessions have a history of another kind."""
    if _is_logged(value) or split(value):
        return "a `prompt` and its `completion` beside an `eventName`"
    if not isinstance(value, dict) or not isinstance(value.get("history"), list) or "sessionId" not in value:
        return None
    if "selectedModel" in value or any("executionId" in item for item in items(value["history"])):
        return None  # of Kiro's editor
    if value["history"]:
        messages = [item.get("message") for item in value["history"] if isinstance(item, dict)]
        fits = bool(messages) and all(isinstance(wire, dict) and "role" in wire for wire in messages)
        return "a `history` of `message` beside a `sessionId`" if fits else None
    return "an empty `history` of a workspace" if "workspaceDirectory" in value and "title" in value else None


FORMAT = file_format(
    API, decode, detect=detect, split=split, calls_beside=True, rank=40, listed=ListedSession(("history",), listed)
)
