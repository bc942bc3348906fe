"""Tasks of Cline, and of Roo Code and older versions of Kilo Code, which come from it: two files a task.

`api_conversation_history.json` is what was sent: a list of Anthropic messages, in which older versions write calls as
XML into the answer's text and results as text of the user. Roo Code puts the reasoning of OpenAI's models before an
answer, as an item of its own, and keeps messages that a summary replaced; those are beside the path.
`ui_messages.json` is what was shown, a list of `say` and `ask`: an `api_req_started` begins an answer and has its usage
(and the request that was sent) as JSON text; `text`, `reasoning` and what follows belong to it; the first `text` is the
task, and `user_feedback` is the user's, too. A `tool` is a call whose outcome stands in the next request. Both are
read; each returns to what it was.

Sessions of its SDK, from 2026 on, are one file, `ID.messages.json`: `messages` of the first kind beside a `sessionId`
and the `agent`. The last answer of a turn has its `metrics`, with an input that includes the cached part.
github.com/cline/cline `sdk/packages/core/docs/messages-contract-v1.md`
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import BadWire, FormatError
from ...values.messages import (
    AssistantMessage,
    Block,
    Message,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
    blocks_of,
)
from ...values.request import Conversation
from ..codec import ANSWER
from ..residual import body_of, fields_of, optional, reading
from ..wire import ListedSession, SessionStream
from .line_sessions import ReadAgain, Reader, Record, RowReader, TemplateStream, TreeReader, read
from .program_content import (
    a_call,
    a_list_of,
    a_result,
    content_of,
    first,
    image_of,
    inclusive_usage,
    inner,
    is_result,
    items,
    moment,
    priced,
    usage_of,
    user,
    user_messages,
)
from .templates import file_format, keep

API = "cline"
Items: TypeAlias = Callable[[], Iterable[Any]]  # reads the items of a file again

# --- what was sent ---------------------------------------------------------------------------------------------------


class _SentReader(TreeReader):
    """Reads what was sent; messages that a summary or a cut hides from the model stay in the tree."""

    def __init__(self, records: Items, about: Record | None = None) -> None:
        """`about`: the fields of a session of the SDK beside its messages."""
        super().__init__()
        self._system = optional((about or {}).get("system_prompt"))
        self._hiding = {optional(item.get(key)) for item in records() for key in _HIDDEN_BY} - {None}

    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        tree, shown, model = self.tree, 0, None
        for message, is_hidden in self._all(records):
            if not is_hidden:
                tree.cut(shown)
            yield tree.add(message)
            if not is_hidden:
                shown = len(tree.path)
                model = message.model or model if isinstance(message, AssistantMessage) else model
        tree.cut(shown)
        self.fields = {"system": self._system, "model": model}

    def _all(self, records: Iterable[Record]) -> Iterator[tuple[Message, bool]]:
        """The messages, and whether they are hidden."""
        for message, item in self._sent(records):
            yield message, any(optional(item.get(key)) in self._hiding for key in _HIDDEN_BY.values() if key in item)

    def _sent(self, records: Iterable[Record]) -> Iterator[tuple[Message, Record]]:
        thoughts: list[Block] = []  # of the next answer
        calls: list[ToolCall] = []  # of the last one
        for item in records:
            when = moment(item.get("ts"))
            if _is_thought(item):
                text = "\n".join(optional(part.get("text")) or "" for part in items(item.get("summary")))
                sealed = optional(item.get("encrypted_content"))
                thoughts.append(ThinkingBlock(thinking=text, thinking_signature=sealed, redacted=not text))
            elif item.get("role") == "assistant":
                model = optional(inner(item, "modelInfo", "modelId")) or optional(inner(item, "modelInfo", "id"))
                usage, content = _usage(item), content_of(item.get("content"))
                reasoned = optional(item.get("reasoning_content"))  # of DeepSeek's and Z.ai's models
                thoughts += [ThinkingBlock(thinking=reasoned)] if reasoned else []
                if not thoughts and not any(isinstance(block, ThinkingBlock) for block in blocks_of(content)):
                    thoughts += _details(item.get("reasoning_details"))
                if thoughts:
                    content, thoughts = (*thoughts, *blocks_of(content)), []
                yield replace(ANSWER, extra={}, content=content, model=model, usage=usage, timestamp=when), item
                calls = [block for block in blocks_of(content) if isinstance(block, ToolCall)]
            elif item.get("role") == "user":
                content, calls = _with_results(item.get("content"), calls), []
                is_program = any(item.get(key) is True for key in _PUT_IN) or _is_context(content)
                for message in user_messages(content, when, program=is_program):
                    yield message, item
        if thoughts:
            yield replace(ANSWER, extra={}, content=tuple(thoughts)), {}


def _details(wire: Any) -> list[Block]:
    """The reasoning of an answer in the format of OpenRouter."""
    return [
        ThinkingBlock(
            thinking=optional(first(one, "text", "summary")) or "", thinking_signature=sealed, redacted=hidden
        )
        for one in items(wire)
        for sealed in (optional(first(one, "signature", "data")),)
        for hidden in (one.get("type") == "reasoning.encrypted",)
    ]


# Roo Code, `src/core/task-persistence/apiMessages.ts`: the id of what hides messages, and their reference to it.
_HIDDEN_BY = {"condenseId": "condenseParent", "truncationId": "truncationParent"}
_PUT_IN = ("isSummary", "isTruncationMarker")


def _usage(item: Record) -> Usage | None:
    metrics = fields_of(item.get("metrics"))
    read, written = metrics.get("cacheReadTokens"), metrics.get("cacheWriteTokens")
    found = (
        inclusive_usage(metrics, input="inputTokens", output="outputTokens", cached=read, written=written)
        or usage_of(metrics.get("tokens"), input="prompt", output="completion", read="cached")
        or usage_of(item.get("usage"), input="input_tokens", output="output_tokens")
    )
    return priced(found, metrics.get("cost"))


_HEADING = re.compile(r"\[(\w+)[^\n]*\] Result:\s*")


def _with_results(content: Any, calls: list[ToolCall]) -> Any:
    """Content in which the text of a result is one: a heading with the name of the tool, and what follows it."""
    answered = {block.get("tool_use_id") for block in items(content)}
    waiting = [call for call in calls if call.id not in answered]
    if not waiting or not isinstance(content, list):
        return content
    found: list[Any] = []
    result: list[Any] | None = None  # the content of the last result, which may follow its heading
    for block in content:
        text = optional(block.get("text")) or "" if isinstance(block, dict) else ""
        heading = _HEADING.match(text)
        call = next((call for call in waiting if heading is not None and call.name == heading[1]), None)
        if call is not None and heading is not None:
            waiting.remove(call)
            rest = text[heading.end() :]
            result = [{"type": "text", "text": rest}] if rest else []
            found.append({"type": "tool_result", "tool_use_id": call.id, "name": call.name, "content": result})
        elif result is not None and (not text or not (result or text.startswith("<environment_details>"))):
            result.append(block)  # its text, or its pictures
        else:
            found.append(block)
            result = None
    return found


def _is_context(content: Any) -> bool:
    """Whether a message has, beside results, only the program's description of the editor."""
    texts = [optional(block.get("text")) for block in items(content) if not is_result(block)]
    return len(texts) < len(items(content)) and all((text or "").startswith("<environment_details>") for text in texts)


def _is_thought(item: dict[str, Any]) -> bool:
    return item.get("type") == "reasoning" and "role" not in item and "content" not in item


def _is_sent(value: Items) -> bool:
    return any(isinstance(item, dict) and "role" in item for item in value()) and all(
        isinstance(item, dict) and (item.get("role") in ("user", "assistant") or _is_thought(item)) for item in value()
    )


# --- what was shown --------------------------------------------------------------------------------------------------

_ANSWERS = frozenset(("text", "completion_result", "plan_completion_result"))  # what the model says to the user
_OUTCOMES = frozenset(("command_output", "mcp_server_response", "browser_action_result"))  # shown of a call
# shared/ExtensionMessage.ts, `COMPLETION_RESULT_CHANGES_FLAG`.
_CHANGES = "HAS_CHANGES"  # ends a result behind which the program shows a button
_ASKS = {"followup": "question", "plan_mode_respond": "response", "act_mode_respond": "response"}
_USERS = frozenset(("user_feedback", "task"))


def _json(text: Any) -> dict[str, Any]:
    try:
        value = jsontext.read(text) if isinstance(text, str) else None
    except FormatError:
        return {}
    return value if isinstance(value, dict) else {}


class _ScreenReader(RowReader):
    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        screen = _Screen()
        for item in records:
            yield from screen.feed(item)
        yield from screen.finish()


class _Screen:
    """What was shown. Each method returns the messages that are complete."""

    def __init__(self) -> None:
        self._is_empty = True  # nothing was shown yet
        self._answer: AssistantMessage | None = None  # the one that is being shown
        self._blocks: list[Block] = []  # of that answer
        self._call: Any = None  # the last call, as long as no request brought its outcome
        self._outcome: list[str] = []  # what was shown of it
        self._calls = 0
        self._when: int | None = None  # of its last block

    def feed(self, item: Record) -> list[Message]:
        when, text = moment(item.get("ts")), optional(item.get("text"))
        kind = optional(item.get("say")) or optional(item.get("ask"))
        if (self._is_empty and kind in ("text", "task")) or kind in _USERS:
            self._is_empty = False
            pictures = [image for url in item.get("images") or () if (image := image_of({"url": url})) is not None]
            return [*self.finish(), user((TextBlock(text=text or ""), *pictures) if pictures else text, when)]
        if kind == "api_req_started":
            return self._request(_json(text), optional(inner(item, "modelInfo", "modelId")), when)
        if kind in _ANSWERS and text and not (kind == "completion_result" and "ask" in item):
            self._append(TextBlock(text=text.removesuffix(_CHANGES)), when)
        elif kind in _OUTCOMES and text:
            self._outcome.append(text)
        elif kind in _ASKS:
            given = _json(text).get(_ASKS[kind])
            answer = optional(given) if given is not None else text
            if answer:
                self._append(TextBlock(text=answer), when)
        elif kind == "reasoning" and text:
            self._append(ThinkingBlock(thinking=text), when)
        elif kind in ("tool", "command", "use_mcp_server", "browser_action_launch", "browser_action"):
            self._tool(str(kind), text, item.get("partial") is True, when)
        return []

    def _request(self, about: dict[str, Any], model: str | None, when: int | None) -> list[Message]:
        """A request that was sent: it brings the outcome of the call before it, and begins an answer."""
        complete = self.finish()
        request = optional(about.get("request")) or "\n".join(self._outcome)  # newer versions do not write requests
        if self._call is not None and request:
            complete.append(a_result(self._call.id, request, name=self._call.name, when=when))
            self._call = None
        self._outcome = []
        usage = usage_of(about, input="tokensIn", output="tokensOut", read="cacheReads", write="cacheWrites")
        usage = priced(usage, about.get("cost"))
        cancelled = optional(about.get("cancelReason"))
        answer: AssistantMessage = replace(ANSWER, extra={}, content=(), model=model, usage=usage, timestamp=when)
        if cancelled is not None:
            failure = optional(about.get("streamingFailedMessage"))
            # shared/ExtensionMessage.ts, `ClineApiReqCancelReason`: `streaming_failed`, `user_cancelled` or
            # `retries_exhausted`.
            stopped: StopReason = "aborted" if cancelled == "user_cancelled" else "error"
            answer = replace(answer, stop_reason=stopped, error_message=failure)
        self._answer, self._is_empty = answer, False
        return complete

    def _append(self, block: Block, when: int | None) -> None:
        if self._answer is None:
            self._answer, self._is_empty = replace(ANSWER, extra={}, content=(), timestamp=when), False
        self._blocks.append(block)
        self._when = when

    def finish(self) -> list[Message]:
        """Ends the answer that was shown."""
        answer, blocks = self._answer, self._blocks
        self._answer, self._blocks = None, []
        if answer is None:
            return []
        return [replace(answer, content=tuple(blocks), timestamp=self._when) if blocks else answer]

    def _tool(self, kind: str, text: str | None, partial: bool, when: int | None) -> None:
        about = _json(text)
        name = optional(about.get("tool")) or (kind if kind != "tool" else None)
        if name is None or partial:
            return
        given = {key: value for key, value in about.items() if key != "tool"} if about else {"text": text}
        self._calls += 1
        self._call = a_call(f"ui_{self._calls}", name, given)
        self._append(self._call, when)


def _is_shown(value: Items) -> bool:
    return any(True for _ in value()) and all(
        isinstance(i, dict) and "ts" in i and i.get("type") in ("say", "ask") and ("say" in i or "ask" in i)
        for i in value()
    )


@reading(API)
def decode(data: Any) -> Conversation:
    """Either file of a task, or a session of the SDK."""
    document = body_of(data, API)
    if isinstance(document, dict) and isinstance(document.get("messages"), list):
        return keep(read(_reader(lambda: document["messages"], document), document["messages"]), document, API)
    items = a_list_of(document, API)
    return keep(read(_reader(lambda: items), items), items, API)


def _reader(records: Items, about: Record | None = None) -> Reader:
    if about is None and _is_shown(records):
        return _ScreenReader()
    if any(True for _ in records()) and not _is_sent(records):
        raise BadWire(API, "expected messages with a role, or what was shown as `say` and `ask`")
    return _SentReader(records, about)


@reading(API)
def listed(header: Record, records: ReadAgain) -> SessionStream:
    """Either file of a task, or a session of the SDK, one entry at a time."""
    if header:
        return TemplateStream(_reader(records, header), records, API, "messages", header)
    return TemplateStream(_reader(records), records, API, "")


def detect(value: Any) -> str | None:
    """Detects the displayed transcript by its shape, and the sent one by the program's markers."""
    if isinstance(value, dict):
        messages = value.get("messages")
        if value.keys() >= {"version", "updated_at", "agent", "sessionId"} and isinstance(messages, list):
            return "`messages` beside a `sessionId` and an `agent`" if _is_sent(lambda: messages) else None
        return None
    if not isinstance(value, list) or not value:
        return None
    if _is_shown(lambda: value):
        return "a list of `say` and `ask`"
    if not _is_sent(lambda: value):
        return None
    if any("modelInfo" in item or ("ts" in item and "content" in item) for item in value):
        return "messages with `modelInfo` or `ts`"
    opening = value[0].get("content")
    for text in (opening,) if isinstance(opening, str) else [inner(block, "text") for block in items(opening)]:
        if isinstance(text, str) and (text.startswith("<task>") or "<environment_details>" in text):
            return "messages that begin with a `<task>`"
    return None


FORMAT = file_format(API, decode, detect=detect, listed=ListedSession(("", "messages"), listed))
