"""Qwen Code's sessions: Claude Code's tree of lines (`uuid`, `parentUuid`), with messages in Google's `parts`.

Results of tools are lines of type `tool_result`, beside them what the screen shows in `toolCallResult`. `usageMetadata`
counts as Gemini does: the prompt includes the cached part, the candidates exclude the thoughts. `system` lines are the
program's own notes; a `chat_compression` among them has the history that replaced the one before, an `agent_bootstrap`
the one with which a sub-agent begins. `user` lines with a `subtype` such as `notification` or `cron`, what was sent to
a sub-agent, and what a hook added to a prompt, are the program's. Lines with one `uuid` are fragments of one message.
The session stands at its last line.
"""

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values.compact import IdMap
from ...values.messages import (
    AssistantMessage,
    Block,
    Message,
    TextBlock,
    ThinkingBlock,
    Usage,
    UserMessage,
    blocks_of,
    text_of,
)
from ...values.request import Conversation, Entry, ModelDescriptor
from ..codec import ANSWER
from ..residual import count, optional, reading
from ..wire import SessionStream
from .line_readers import LineReader
from .line_sessions import ReadAgain, Reader, Record, TemplateStream, read
from .program_content import a_call, a_result, attachment_of, inner, items, moment, user
from .records import lines_of
from .templates import file_format, keep

API = "qwen-code"


def _block(part: dict[str, Any]) -> Block | None:
    if len(part) == 1 and type(part.get("text")) is str:  # most are
        return TextBlock(text=part["text"])
    text = optional(part.get("text"))
    if text is not None and part.get("thought") is True:
        return ThinkingBlock(thinking=text, thinking_signature=optional(part.get("thoughtSignature")))
    if text is not None:
        return TextBlock(text=text)
    called = part.get("functionCall")
    if isinstance(called, dict) and optional(called.get("name")) is not None:
        return a_call(optional(called.get("id")) or "", called["name"], called.get("args"))
    for key, source in (("inlineData", "data"), ("fileData", "fileUri")):
        given = optional(inner(part, key, source))
        if given is not None:
            mime = optional(inner(part, key, "mimeType"))
            return attachment_of(f"data:{mime};base64,{given}" if key == "inlineData" else given, mime, None)
    return None


def _blocks(parts: Any) -> tuple[Block, ...]:
    return tuple([block for part in items(parts) if (block := _block(part)) is not None])


def _results(line: dict[str, Any], parts: Any, when: int | None) -> list[Message]:
    """The responses in a line; the first word of the pair `output` and `error` is what the model read."""
    found: list[Message] = []
    for part in items(parts):
        given = part.get("functionResponse")
        if not isinstance(given, dict):
            continue
        response: Any = given.get("response")
        failed = inner(line, "toolCallResult", "status") == "error" or inner(response, "error") is not None
        content = next((response[k] for k in ("output", "error") if inner(response, k) is not None), response)
        id = optional(given.get("id")) or optional(inner(line, "toolCallResult", "callId")) or ""
        details = line.get("toolCallResult")
        result = a_result(id, content, name=optional(given.get("name")), failed=failed, when=when, details=details)
        found.append(_with_blocks(result, _blocks(given.get("parts"))))
    if found:  # pictures stand in a response or, for models that refuse them there, behind the last one
        found[-1] = _with_blocks(found[-1], _blocks(parts))
    return found


def _with_blocks(result: Any, blocks: tuple[Block, ...]) -> Message:
    if not blocks:
        return result  # type: ignore[no-any-return]
    message: Message = replace(result, content=(*blocks_of(result.content), *blocks))
    return message


def _usage(wire: Any) -> Usage | None:
    if not isinstance(wire, dict):
        return None
    cached, thought = count(wire, "cachedContentTokenCount"), count(wire, "thoughtsTokenCount")
    return Usage.of(
        max(count(wire, "promptTokenCount") - cached, 0),
        count(wire, "candidatesTokenCount") + thought,
        cache_read=cached,
        reasoning=thought if "thoughtsTokenCount" in wire else None,
    )


_PROGRAM = ("notification", "cron", "goal_runtime")  # subtypes of a user's line that no person wrote
HOOK = "<qwen:user-prompt-submit-context>"


def _asked(line: dict[str, Any], parts: Any, when: int | None) -> list[Message]:
    """A user's line: the prompt, and behind it what a hook added for the model."""
    if line.get("isMeta") is True or line.get("subtype") in _PROGRAM or "externalInputKind" in line:
        return [user(_blocks(parts), when, program=True)]
    hooked = [part for part in items(parts) if (optional(part.get("text")) or "").startswith(HOOK)]
    if not hooked:
        return [user(_blocks(parts), when)]
    asked = user(_blocks([part for part in items(parts) if part not in hooked]), when)
    return [asked, user(_blocks(hooked), when, program=True)]


def _messages(line: dict[str, Any]) -> list[Message]:
    wire, when = line.get("message"), moment(line.get("timestamp"))
    parts = inner(wire, "parts")
    match line.get("type"):
        case "user" if isinstance(wire, dict):
            return _asked(line, parts, when)
        case "assistant" if isinstance(wire, dict):
            model, usage = optional(line.get("model")), _usage(line.get("usageMetadata"))
            return [replace(ANSWER, extra={}, content=_blocks(parts), model=model, usage=usage, timestamp=when)]
        case "tool_result" if isinstance(wire, dict):
            return _results(line, parts, when)
    return []


_HISTORIES = {"chat_compression": "compressedHistory", "agent_bootstrap": "history"}


def _replaced(line: dict[str, Any], asked: Container[Any] = ()) -> list[Message]:
    """The history that a compression put in the place of the one before, or that a sub-agent began with.

    What of it is none of the prompts that were `asked` before is the program's.
    """
    key = _HISTORIES.get(line["subtype"]) if line.get("type") == "system" and optional(line.get("subtype")) else None
    found: list[Message] = []
    for content in items(inner(line, "systemPayload", key)) if key is not None else ():
        parts = content.get("parts")
        results = _results(line, parts, None)
        blocks = _blocks(parts)
        if content.get("role") == "model":
            found.append(replace(ANSWER, extra={}, content=blocks))
        else:
            found += results or [user(blocks, program=text_of(blocks) not in asked)]
    return found


def _title(line: dict[str, Any]) -> str | None:
    return optional(inner(line, "systemPayload", "customTitle")) if line.get("subtype") == "custom_title" else None


def _is_answer(messages: list[Message], before: Any) -> bool:
    return len(messages) == 1 and isinstance(messages[0], AssistantMessage) and isinstance(before, AssistantMessage)


def _joined(before: Any, after: Any) -> Message:
    """The fragments of an answer as one; what the later one states of the whole counts."""
    message: AssistantMessage = replace(
        before,
        content=(*before.content, *after.content),
        model=after.model or before.model,
        usage=after.usage or before.usage,
        timestamp=after.timestamp or before.timestamp,
    )
    return message


class _Reader(Reader):
    def __init__(self, new_map: Callable[[], Any] = IdMap) -> None:
        """`new_map`: makes a map of ids; one for millions takes longer."""
        self._new_map = new_map

    def entries(self, records: Iterable[Record]) -> Iterator[Entry]:
        ends = self._new_map()  # a line -> the entry at which the conversation stands after it, or ""
        last: str | None = None
        title: str | None = None
        model: str | None = None
        asked: set[str] = set()  # the prompts
        count = 0
        open_entry: Entry | None = None  # the last one, of which fragments may follow
        for line in records:
            id = optional(line.get("uuid"))
            parent = (ends.get(line["parentUuid"], last or "") or None) if type(line.get("parentUuid")) is str else None
            parent = last if "parentUuid" not in line else parent
            replaced = _replaced(line, asked) if "systemPayload" in line else []
            parent = None if replaced else parent
            messages = replaced or _messages(line)
            for message in messages:
                model = message.model or model if isinstance(message, AssistantMessage) else model
                if isinstance(message, UserMessage) and message.origin is None:
                    asked.add(message.text)
            is_fragment = id is not None and open_entry is not None and open_entry.id == id
            if is_fragment and open_entry is not None and _is_answer(messages, open_entry.message):
                open_entry = replace(open_entry, message=_joined(open_entry.message, messages[0]))
                continue
            for at, message in enumerate(messages):
                own = f"{id or count}#{at}" if at < len(messages) - 1 else id or f"line{count}"
                if open_entry is not None:
                    yield open_entry
                open_entry = Entry(message=message, id=own, parent_id=parent)
                count += 1
                parent = own
            last = parent
            if id is not None:
                ends[id] = parent or ""
            if "systemPayload" in line:
                title = _title(line) or title
        if open_entry is not None:
            yield open_entry
        self.head = last if open_entry is not None and last != open_entry.id else None
        self.about = Conversation(title=title, model=ModelDescriptor(id=model) if model else None)


@reading(API)
def decode(data: Any) -> Conversation:
    """A session file: text, bytes, or the values of its lines."""
    lines = lines_of(data, API)
    return keep(read(_Reader(dict), lines), lines, API, lines=True)


@reading(API)
def stream(lines: ReadAgain) -> SessionStream:
    """The same, one entry at a time."""
    return TemplateStream(_Reader(), lines, API)


def detect(value: Any) -> str | None:
    """Lines of Claude Code's tree whose messages have `parts`."""
    for line in value if isinstance(value, list) else [value]:
        if not isinstance(line, dict):
            return None
        if "sessionId" in line and "uuid" in line and isinstance(inner(line, "message", "parts"), list):
            return "lines with `uuid` and a `message` of `parts`"
    return None


class _LineReader(LineReader):
    """A session file line by line."""

    def messages(self, line: dict[str, Any]) -> list[tuple[str, Any]]:
        self.title = _title(line) or self.title
        id = optional(line.get("uuid")) or ""
        replaced = _replaced(line)
        # Fragments of one answer have its id.
        return [(id, m) for m in replaced] if replaced else [(id, _identified(m, id)) for m in _messages(line)]


def _identified(message: Message, id: str) -> Message:
    return replace(message, response_id=id or None) if isinstance(message, AssistantMessage) else message


FORMAT = file_format(
    API,
    decode,
    detect=detect,
    lines=True,
    rank=40,
    line_reader=lambda first, state: _LineReader(state),
    stream=stream,
)
