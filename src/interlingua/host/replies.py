"""What goes back to a channel after a run: the run's messages in, `ReplyPayload`s out. Pure.

In order: why the run failed · summaries of tools (`verbose`) · reasoning (`reasoning`) · the answers, without what only
repeats the error, what was said before, and what a tool already sent · and where there is nothing of all this to show,
the tool that failed, unless the model was merely told how to call it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ..values.canonical import SELF
from ..values.events import (
    AgentEvent,
    Done,
    Error,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Start,
    StreamEvent,
    TextDelta,
    TextEnd,
)
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    AudioBlock,
    Content,
    DocumentBlock,
    ImageBlock,
    ReplyPayload,
    TextBlock,
    ToolResultMessage,
    blocks_of,
    text_of,
)
from .cleaning import TOKENS, AllowMedia, Cleaner, from_answer, plain_place

Skip: TypeAlias = Literal["empty", "silent", "repeated"]
OnSkip: TypeAlias = Callable[[ReplyPayload, Skip], object]

LONGEST_ERROR = 600  # characters of an error that a channel is shown
LONGEST_SUMMARY = 160
# Statuses of results that tell the model how to call a tool, or that it did not run: none of them a failure to report.
_RECOVERABLE = frozenset({400, 404, "cut", "skipped", "unknown", "aborted"})


class ReplyOptions(Struct, frozen=True, kw_only=True):
    """What is shown, and how.

    `prefix` is put before the first words, once; `{model}` and `{provider}` in it are those of the answer. `current` is
    the id of the message that `[[reply_to_current]]` means. Media of tools' results go out for `media_tools` alone:
    what other tools read may name files on purpose. `allow_media` judges the places that the model names.
    """

    verbose: bool = False
    reasoning: bool = False
    prefix: str | None = None
    current: str | None = None
    tokens: tuple[str, ...] = TOKENS
    media_tools: frozenset[str] = frozenset()
    allow_media: AllowMedia = plain_place


def replies(
    run: Iterable[AgentMessage | AgentEvent], *, options: ReplyOptions | None = None, on_skip: OnSkip | None = None
) -> list[ReplyPayload]:
    """The replies of a run, from its messages or its events. `on_skip` hears of each that is left out, and why."""
    options = options or ReplyOptions()
    messages = [*_messages(run)]
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    error = _error_of(answers[-1]) if answers else None
    drafts = _Drafts(on_skip)
    if error is not None:
        drafts.add(ReplyPayload(text=_short(error, LONGEST_ERROR), is_error=True))
        drafts.refuse(error)
    for text in _sent(messages):
        drafts.refuse(text)
    if options.verbose:
        drafts.add_all(_summary(message) for message in messages if isinstance(message, ToolResultMessage))
    for message in messages:
        if isinstance(message, ToolResultMessage):
            drafts.add_all(_media_of_tool(message, options))
        elif isinstance(message, AssistantMessage) and not _was_retried(message, answers):
            if options.reasoning and message.thinking.strip():
                drafts.add(_marked(ReplyPayload(text=message.thinking.strip()), isReasoning=True))
            drafts.take(_answer(message, options))
    if not drafts.kept and not drafts.silent:
        drafts.add_all(_notice(messages))
    return _finished(drafts.kept, answers[-1] if answers else None, options)


class Answer(Struct, frozen=True):
    """An answer as a reply, and whether it asks for silence."""

    payload: ReplyPayload
    silent: bool


class _Drafts:
    """Replies as they are gathered: none empty, none said twice."""

    def __init__(self, on_skip: OnSkip | None) -> None:
        self.kept: list[ReplyPayload] = []
        self.silent = False
        self._on_skip = on_skip
        self._encoded: set[str] = set()

    def refuse(self, text: str) -> None:
        """Has later replies of these words left out."""
        self._encoded.add(_compared(text))

    def take(self, answer: Answer) -> None:
        self.silent = self.silent or answer.silent
        self.add(answer.payload, "silent" if answer.silent else "empty")

    def add(self, payload: ReplyPayload, why_empty: Skip = "empty") -> None:
        compared = _compared(payload.text or "")
        if compared and compared in self._encoded:
            self._skip(payload, "repeated")
            payload = replace(payload, text=None)
            if not payload.media_urls:
                return
        if payload.text is None and not payload.media_urls:
            self._skip(payload, why_empty)
            return
        if compared:
            self._encoded.add(compared)
        self.kept.append(payload)

    def add_all(self, payloads: Iterable[ReplyPayload]) -> None:
        for payload in payloads:
            self.add(payload)

    def _skip(self, payload: ReplyPayload, why: Skip) -> None:
        if self._on_skip is not None:
            self._on_skip(payload, why)


def _messages(run: Iterable[AgentMessage | AgentEvent]) -> Iterator[AgentMessage]:
    for item in run:
        if isinstance(item, MessageEnd):
            yield item.message
        elif isinstance(item, AssistantMessage | ToolResultMessage):
            yield item


def _error_of(answer: AssistantMessage) -> str | None:
    if answer.stop_reason != "error":
        return None
    return (answer.error_message or "").strip() or "The model failed and did not say why."


def _was_retried(message: AssistantMessage, answers: list[AssistantMessage]) -> bool:
    """Whether an answer failed and another one came in its place."""
    return message.stop_reason == "error" and message is not answers[-1]


def _answer(message: AssistantMessage, options: ReplyOptions) -> Answer:
    cleaner = _cleaner(options)
    text = cleaner.feed(from_answer(text_of(message.content)))
    text += cleaner.end(complete=_is_complete(message))
    return answer_of(text, cleaner, options.current, _media_in(message.content))


def answer_of(text: str, cleaner: Cleaner, current: str | None, media: Iterable[str] = ()) -> Answer:
    """The reply that a cleaned text is, with what its directives said."""
    places = tuple(dict.fromkeys((*cleaner.media, *media)))
    payload = _marked(
        ReplyPayload(
            text=text or None,
            media_url=places[0] if places else None,
            media_urls=places or None,
            reply_to_id=cleaner.reply_to or (current if cleaner.reply_to_current else None),
        ),
        replyToTag=cleaner.reply_to is not None or cleaner.reply_to_current,
        replyToCurrent=cleaner.reply_to_current,
        audioAsVoice=cleaner.voice,
    )
    return Answer(payload, cleaner.silent and not text)


def _is_complete(message: AssistantMessage) -> bool:
    return message.stop_reason not in ("length", "error", "aborted")


def _media_in(content: Content) -> Iterator[str]:
    for block in blocks_of(content):
        if isinstance(block, ImageBlock | AudioBlock | DocumentBlock):
            if block.url:
                yield block.url
            elif block.data and block.mime_type:
                yield f"data:{block.mime_type};base64,{block.data}"


def _media_of_tool(message: ToolResultMessage, options: ReplyOptions) -> Iterator[ReplyPayload]:
    """What a trusted tool made: the places on its MEDIA lines, or, where it names none, its pictures."""
    if message.tool_name not in options.media_tools or message.is_error:
        return
    cleaner = Cleaner(tokens=(), allow_media=options.allow_media)
    for block in blocks_of(message.content):
        if isinstance(block, TextBlock):
            cleaner.feed(f"{block.text}\n")
    cleaner.end()
    places = tuple(dict.fromkeys(cleaner.media or _media_in(message.content)))
    if places:
        yield ReplyPayload(media_url=places[0], media_urls=places)


def _sent(messages: Iterable[AgentMessage]) -> Iterator[str]:
    """The words that the message tool has already brought to the channel at hand."""
    for message in messages:
        if isinstance(message, ToolResultMessage) and message.tool_name == "message" and not message.is_error:
            details = message.details if isinstance(message.details, dict) else {}
            if details.get("status") == "sent" and details.get("here") and isinstance(details.get("text"), str):
                yield details["text"]


def _summary(message: ToolResultMessage) -> ReplyPayload:
    lines = text_of(message.content).strip().splitlines()
    text = f"[{message.tool_name or 'tool'}] {'failed: ' if message.is_error else ''}{lines[0] if lines else ''}"
    return ReplyPayload(text=_short(text.strip(), LONGEST_SUMMARY))


def _notice(messages: Iterable[AgentMessage]) -> Iterator[ReplyPayload]:
    """The last failure of a tool that did not succeed afterwards."""
    failed: dict[str | None, ToolResultMessage] = {}
    for message in messages:
        if isinstance(message, ToolResultMessage):
            failed.pop(message.tool_name, None)
            if message.is_error and _status(message) not in _RECOVERABLE:
                failed[message.tool_name] = message
    if failed:
        name, last = [*failed.items()][-1]
        text = _short(text_of(last.content).strip() or "no reason given", LONGEST_ERROR)
        label = text if name and text.startswith(name) else f"{name or 'A tool'} failed: {text}"
        yield ReplyPayload(text=label, is_error=True)


def _status(message: ToolResultMessage) -> Any:
    status = message.details.get("status") if isinstance(message.details, dict) else None
    return status if isinstance(status, int | str) else None


def _finished(payloads: list[ReplyPayload], last: AssistantMessage | None, options: ReplyOptions) -> list[ReplyPayload]:
    """The voice tag holds for all media; the prefix stands before the first words."""
    if any(_mark(payload, "audioAsVoice") for payload in payloads):
        payloads = [_marked(p, audioAsVoice=True) if p.media_urls else p for p in payloads]
    prefix = _prefix(options.prefix, last)
    first = next((at for at, p in enumerate(payloads) if p.text and not _mark(p, "isReasoning")), None)
    if prefix and first is not None and not (payloads[first].text or "").startswith(prefix):
        payloads[first] = replace(payloads[first], text=f"{prefix} {payloads[first].text}")
    return payloads


def _prefix(template: str | None, last: AssistantMessage | None) -> str:
    text = template or ""
    for name in ("model", "provider"):
        text = text.replace(f"{{{name}}}", getattr(last, name, None) or "")
    return text.strip()


def _marked(payload: ReplyPayload, **fields: bool) -> ReplyPayload:
    """The payload with further fields, which stand beside its own in its JSON; false ones are left out."""
    given = {name: value for name, value in fields.items() if value}
    if not given:
        return payload
    return replace(payload, extra={**payload.extra, SELF: {**payload.extra.get(SELF, {}), **given}})


def _mark(payload: ReplyPayload, name: str) -> bool:
    return bool(payload.extra.get(SELF, {}).get(name))


def _compared(text: str) -> str:
    """Words as they are compared: case, spaces and a leading `Error:` do not count."""
    return " ".join(text.split()).lower().removeprefix("error:").strip()


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _cleaner(options: ReplyOptions) -> Cleaner:
    return Cleaner(tokens=options.tokens, allow_media=options.allow_media)


class ReplyStream:
    """The words of answers while they come, as a channel may show them: no token, no directive, no reasoning.

    Feed it the events of an agent or of one stream; `reply` is the answer that ended last, if there is anything to
    say.
    """

    def __init__(self, options: ReplyOptions | None = None) -> None:
        self.reply: ReplyPayload | None = None
        self._options = options or ReplyOptions()
        self._cleaner: Cleaner | None = None
        self._text: list[str] = []
        self._received: dict[int, int] = {}  # characters that came of each block

    def feed(self, event: AgentEvent | StreamEvent) -> str:
        """What may be shown now."""
        match event:
            case MessageStart() if isinstance(event.message, AssistantMessage):
                self._begin()
            case Start():
                self._begin()
            case MessageUpdate():
                return self.feed(event.assistant_message_event)
            case TextDelta():
                self._received[event.content_index] = self._received.get(event.content_index, 0) + len(event.delta)
                return self._encoded(event.delta)
            case TextEnd():
                return self._encoded(event.content[self._received.get(event.content_index, 0) :])
            case MessageEnd() if isinstance(event.message, AssistantMessage):
                return self._end(event.message)
            case Done():
                return self._end(event.message)
            case Error():
                return self._end(event.error)
            case _:
                pass
        return ""

    def _begin(self) -> None:
        self._cleaner, self._text, self._received, self.reply = _cleaner(self._options), [], {}, None

    def _encoded(self, text: str) -> str:
        if self._cleaner is None:
            self._begin()
        assert self._cleaner is not None
        shown = self._cleaner.feed(text)
        self._text.append(shown)
        return shown

    def _end(self, message: AssistantMessage) -> str:
        shown = "" if self._received else self._encoded(text_of(message.content))  # nothing was streamed: it came whole
        cleaner, self._cleaner = self._cleaner, None
        if cleaner is None:
            return ""
        last = cleaner.end(complete=_is_complete(message))
        payload = answer_of(
            "".join((*self._text, last)), cleaner, self._options.current, _media_in(message.content)
        ).payload
        self.reply = payload if payload.text or payload.media_urls else None
        self._received = {}
        return shown + last
