"""Builds the replies to a channel after a run: the run's messages in, `ReplyPayload`s out. Pure.

In order: the error of a failed run · summaries of tools (`verbose`) · reasoning (`reasoning`) · the responses, without
what repeats the error, what was shown before, and what a tool already sent · and if there is none of this, the tool
that failed, unless the error was only about its arguments.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ..tools.tool import visible
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

# What a model writes, made fit for a channel: directives taken out, silence kept, reasoning left behind.
#
# Text comes in pieces of any size, and the same text comes out however it is cut. What may turn out to be a directive
# is buffered until that is decided, so nothing is shown that would have to be taken back:
#
#     NO_REPLY, HEARTBEAT_OK      no reply is sent; the token itself never shows
#     [[reply_to_current]]        this answers the message at hand; [[reply_to: ID]] another one
#     [[audio_as_voice]]          sound goes out as a voice note
#     MEDIA:<path or URL>         on a line of its own: an attachment
#     <think>…</think>            reasoning
#
# In fenced code only the silent tokens count.


SILENT = "NO_REPLY"
HEARTBEAT = "HEARTBEAT_OK"
TOKENS = (SILENT, HEARTBEAT)

AllowMedia: TypeAlias = Callable[[str], bool]

_QUOTES = "*`\"'"
_LONGEST_TAG = 220
_LONGEST_PLACE = 4096
_LONGEST_WORD = 40  # maximum length of attributes in a reasoning tag
_TAIL = _LONGEST_PLACE + 64  # no directive is longer
_THINKING = "think|thinking|thought|reasoning|antthinking"


class DirectivePatterns(NamedTuple):
    """Patterns of directives, and of what may become one with more text; fewer apply in code."""

    directive: re.Pattern[str]
    in_code: re.Pattern[str]
    pending: re.Pattern[str]
    pending_in_code: re.Pattern[str]


_LINE_START = r"(?<![^\n])[ \t]{0,3}"
_FENCE = rf"{_LINE_START}(?P<fence>```)"
_TAG = (
    r"(?i:(?P<tag>\[\[[ \t]*(?:(?P<current>reply_to_current)|reply_to[ \t]*:[ \t]*(?P<id>[^\[\]\n]{1,200}?)"
    r"|(?P<voice>audio_as_voice))[ \t]*\]\]))"
)
_MEDIA = rf"{_LINE_START}(?P<word>MEDIA:)[ \t]*(?P<media>[^\n]{{1,{_LONGEST_PLACE}}}?)[ \t]*(?:\n|\Z)"
_REASONING = (
    rf"(?i:(?<!`)(?P<reasoning><\s*(?P<close>/?)\s*(?P<name>{_THINKING}|final)\b[^<>\n]{{0,{_LONGEST_WORD}}}>))"
)
_CLOSING = re.compile(rf"<\s*/\s*(?:{_THINKING})\s*>", re.IGNORECASE)
_PARTIAL_CLOSING = re.compile(r"<[^<>\n]{0,40}\Z")


@functools.cache
def marks(tokens: tuple[str, ...], directives: bool) -> DirectivePatterns:
    """Compiles the patterns. Their lookbehinds see the last character that was already processed."""
    quotes = rf"[{_QUOTES}]{{0,3}}"
    token = rf"{quotes}(?<!\w)(?P<token>{'|'.join(map(re.escape, tokens))})(?!\w){quotes}"
    begun = rf"{quotes}(?<!\w)(?:{'|'.join(map(_prefixes, tokens))}){quotes}|[{_QUOTES}]{{1,3}}"
    fence_begun, tag_begun = rf"{_LINE_START}`{{0,2}}", rf"\[(?:\[[^\[\]\n]{{0,{_LONGEST_TAG}}}\]?)?"
    media_begun = rf"{_LINE_START}(?:{_prefixes('MEDIA:')}|MEDIA:[^\n]{{0,{_LONGEST_PLACE}}})"
    reasoning_begun = rf"(?<!`)<[^<>\n]{{0,{_LONGEST_WORD + 20}}}"
    in_code = [*([token] if tokens else []), _FENCE]
    pending_in_code = [*([begun] if tokens else []), fence_begun]
    return DirectivePatterns(
        re.compile("|".join([*in_code, *([_TAG, _MEDIA] if directives else []), _REASONING])),
        re.compile("|".join(in_code)),
        _at_end(*pending_in_code, *([tag_begun, media_begun] if directives else []), reasoning_begun),
        _at_end(*pending_in_code),
    )


def _at_end(*patterns: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{'|'.join(patterns)})\Z")


def _prefixes(word: str) -> str:
    """Returns a pattern for every prefix of a word, and the word: `N(?:O(?:_)?)?`."""
    pattern = ""
    for letter in reversed(word):
        pattern = re.escape(letter) + (f"(?:{pattern})?" if pattern else "")
    return pattern


def plain_place(place: str) -> bool:
    """Whether a media location is an http(s) URL, or a path without `..`."""
    if re.match(r"https?://[^\s]+\Z", place, re.IGNORECASE):
        return True
    return not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", place) and ".." not in re.split(r"[/\\]", place)


class Cleaner:
    """Cleans one text for a channel. `feed` returns what may be shown, `end` the rest; then the fields are final.

    Without `directives`, only reasoning and the silent tokens are removed.
    """

    def __init__(
        self, *, tokens: tuple[str, ...] = TOKENS, directives: bool = True, allow_media: AllowMedia = plain_place
    ) -> None:
        self.media: list[str] = []
        self.reply_to: str | None = None
        self.reply_to_current = False
        self.voice = False
        self.silent = False  # a silent token was found
        self._tokens = tokens
        self._marks = marks(tokens, directives)
        self._allow_media = allow_media
        self._rest = ""  # buffered because a directive may begin there
        self._before = ""  # the last character before the rest
        self._returned = ""  # a carriage return that may be half of a line end
        self._in_code = False
        self._in_thought = False
        self._spaces = ""  # seen, and not yet known to be between two texts
        self._last = ""  # the last character of the text before them
        self._cut = False  # something was removed among these spaces
        self._opening: list[str] | None = []  # text to show, while it may still be a token in another case
        self._core = ""  # the letters of that
        self._out: list[str] = []

    def feed(self, text: str) -> str:
        """Processes the next piece of the text; returns what of it, and of the buffered text, may be shown now."""
        text = self._returned + text
        self._returned = "\r" * text.endswith("\r")
        self._rest += visible(text.removesuffix("\r"))
        self._advance(final=False)
        return self._taken()

    def end(self, *, complete: bool = True) -> str:
        """Returns the rest of the buffered text. Half a token at the end of a truncated text is not shown."""
        self._advance(final=True, complete=complete)
        opening, self._opening = self._opening, None
        if opening is not None:
            self._emit_opening("".join(opening), complete)
        return self._taken()

    def _taken(self) -> str:
        out, self._out = "".join(self._out), []
        return out

    def _advance(self, *, final: bool, complete: bool = True) -> None:
        text, at = self._before + self._rest, len(self._before)
        limits: dict[bool, int] = {}  # up to where the text may be read, in code and outside
        while at < len(text):
            if self._in_thought:
                at = self._reasoning_end(text, at, final)
                if self._in_thought:
                    break
                continue
            if limits.get(self._in_code, -1) < at:
                limits[self._in_code] = len(text) if final else self._safe(text, at)
            limit = limits[self._in_code]
            found = (self._marks.in_code if self._in_code else self._marks.directive).search(text, at)
            if found is None or found.start() >= limit:
                self._pass(text[at:limit], last=final, complete=complete)
                at = limit
                break
            self._pass(text[at : found.start()])
            at = self._apply_directive(found)
        self._rest, self._before = text[at:], text[max(at - 1, 0) : at]

    def _safe(self, text: str, at: int) -> int:
        """Returns the offset up to which no directive can have begun."""
        pending = self._marks.pending_in_code if self._in_code else self._marks.pending
        found = pending.search(text, max(at, len(text) - _TAIL))
        return found.start() if found is not None else len(text)

    def _reasoning_end(self, text: str, at: int, final: bool) -> int:
        """Returns where reasoning ends, or as far as it is known to go."""
        found = _CLOSING.search(text, at)
        if found is not None:
            self._in_thought = False
            return found.end()
        pending = None if final else _PARTIAL_CLOSING.search(text, max(at, len(text) - 48))
        return len(text) if pending is None else pending.start()

    def _apply_directive(self, found: re.Match[str]) -> int:
        """Applies a directive; returns where the text continues after it."""
        given = found.groupdict()
        if given.get("token"):
            self.silent = self._cut = True
        elif given.get("fence"):
            self._in_code = not self._in_code
            self._pass(found[0])
        elif given.get("tag"):
            self._cut = True
            self.voice = self.voice or given["voice"] is not None
            self.reply_to_current = self.reply_to_current or given["current"] is not None
            self.reply_to = given["id"] or self.reply_to
        elif given.get("media"):
            return self._attached(found)
        else:
            self._cut = True
            self._in_thought = not given["close"] and given["name"].lower() != "final"
        return found.end()

    def _attached(self, found: re.Match[str]) -> int:
        place = found["media"].strip().strip("`\"'<>").strip()
        if not place or not self._allow_media(place):
            self._pass(found[0][: found.end("word") - found.start()])
            return found.end("word")
        self._cut = True
        self.media.append(place)
        self._spaces += "\n" * found[0].endswith("\n")
        return found.end()

    def _pass(self, text: str, *, last: bool = False, complete: bool = True) -> None:
        """Emits text, and buffers trailing spaces until more text arrives."""
        message = text.rstrip()
        if last:
            message = self._without_half(message, complete)
        bare = message.lstrip()
        if bare:
            self._add_text(self._spacing(self._spaces + message[: len(message) - len(bare)], bare[0]) + bare)
            self._spaces, self._cut, self._last = text[len(text.rstrip()) :], False, bare[-1]
        else:
            self._spaces += text

    def _spacing(self, spaces: str, word: str) -> str:
        """Returns the spaces between the last emitted text and the next: unchanged, or few if something was removed."""
        if not self._cut:
            return spaces
        joined = bool(spaces) or bool(re.match(r"\w", self._last + word) and re.match(r"\w", word))
        return "\n" * min(spaces.count("\n"), 2) or " " * joined

    def _without_half(self, text: str, complete: bool) -> str:
        """Returns the text without a partial token at its end. `NO` is a word too, unless the text was truncated."""
        for token in self._tokens:
            least = 1 if not complete else token.find("_")
            for size in range(len(token) - 1, max(least, 1), -1):
                if text.endswith(token[:size]) and not re.search(r"\w\Z", text[:-size]):
                    self.silent = True
                    return text[:-size].rstrip()
        return text

    def _add_text(self, text: str) -> None:
        if self._opening is None:
            self._out.append(text)
            return
        self._opening.append(text)
        self._core += "".join(re.findall(r"\w", text)).upper()
        if not any(token.startswith(self._core) for token in self._tokens):
            self._out.append("".join(self._opening).lstrip())
            self._opening = None

    def _emit_opening(self, text: str, complete: bool) -> None:
        """Emits text that is only a token, a prefix of one, or punctuation, unless it means silence."""
        core = self._core
        half = core and ("_" in core or not complete)
        if core in self._tokens or half or (self.silent and not core):
            self.silent = True
        else:
            self._out.append(text.strip())


def without_reasoning(text: str) -> str:
    """Removes reasoning tags and their content."""
    cleaner = Cleaner(tokens=(), directives=False)
    return cleaner.feed(from_answer(text)) + cleaner.end()


def from_answer(text: str) -> str:
    """Returns the text after a closing reasoning tag that was never opened: everything before it was reasoning.

    Returns all of the text if there is no such tag, or nothing after it.
    """
    found = _CLOSING.search(text)
    if found is None or re.search(rf"<\s*(?:{_THINKING})\b", text[: found.start()], re.IGNORECASE):
        return text
    before, after = text[: found.start()], text[found.end() :]
    if before.endswith("`") or before.count("```") % 2:
        return text
    return after if after.strip() else before


Skip: TypeAlias = Literal["empty", "silent", "repeated"]
OnSkip: TypeAlias = Callable[[ReplyPayload, Skip], object]

LONGEST_ERROR = 600  # characters of an error that a channel shows
LONGEST_SUMMARY = 160
# Statuses of results that explain how to call a tool, or that it did not run: not failures to report.
_RECOVERABLE = frozenset({400, 404, "cut", "skipped", "unknown", "aborted"})


class ReplyOptions(Struct, frozen=True, kw_only=True):
    """What is shown, and how.

    `prefix` is put before the first text, once; `{model}` and `{provider}` in it are those of the response. `current`
    is the id of the message that `[[reply_to_current]]` refers to. Media in tool results are sent for `media_tools`
    only: results of other tools may name files maliciously. `allow_media` decides on media that the model names.
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
    """The replies of a run, from its messages or its events. `on_skip` receives each omitted one and the reason."""
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
        elif isinstance(message, AssistantMessage) and (message.stop_reason != "error" or message is answers[-1]):
            if options.reasoning and message.thinking.strip():
                drafts.add(_marked(ReplyPayload(text=message.thinking.strip()), isReasoning=True))
            drafts.take(_answer(message, options))
    if not drafts.kept and not drafts.silent:
        drafts.add_all(_notice(messages))
    return _finished(drafts.kept, answers[-1] if answers else None, options)


class ReplyContent(Struct, frozen=True):
    """A response as a reply, and whether it requests silence."""

    payload: ReplyPayload
    silent: bool


class _Drafts:
    """Collects replies: none empty, none repeated."""

    def __init__(self, on_skip: OnSkip | None) -> None:
        self.kept: list[ReplyPayload] = []
        self.silent = False
        self._on_skip = on_skip
        self._seen: set[str] = set()

    def refuse(self, text: str) -> None:
        """Suppresses later replies with this text."""
        self._seen.add(_compared(text))

    def take(self, answer: ReplyContent) -> None:
        self.silent = self.silent or answer.silent
        self.add(answer.payload, "silent" if answer.silent else "empty")

    def add(self, payload: ReplyPayload, why_empty: Skip = "empty") -> None:
        compared = _compared(payload.text or "")
        if compared and compared in self._seen:
            self._skip(payload, "repeated")
            payload = replace(payload, text=None)
            if not payload.media_urls:
                return
        if payload.text is None and not payload.media_urls:
            self._skip(payload, why_empty)
            return
        if compared:
            self._seen.add(compared)
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
    return (answer.error_message or "").strip() or "The model failed without an error message."


def _answer(message: AssistantMessage, options: ReplyOptions) -> ReplyContent:
    cleaner = _cleaner(options)
    text = cleaner.feed(from_answer(text_of(message.content)))
    text += cleaner.end(complete=_is_complete(message))
    return answer_of(text, cleaner, options.current, _media_in(message.content))


def answer_of(text: str, cleaner: Cleaner, current: str | None, media: Iterable[str] = ()) -> ReplyContent:
    """Returns the reply for a cleaned text, with the effects of its directives."""
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
    return ReplyContent(payload, cleaner.silent and not text)


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
    """Returns the media of a trusted tool: the paths of its MEDIA lines, or its images if there are none."""
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
    """Returns the texts that the message tool has already sent to the current channel."""
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
    """Returns the last failure of a tool that did not succeed afterwards."""
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
    """Applies the voice tag to all media, and the prefix to the first text."""
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
    """Returns the payload with further fields in its JSON; false ones are omitted."""
    given = {name: value for name, value in fields.items() if value}
    if not given:
        return payload
    return replace(payload, extra={**payload.extra, SELF: {**payload.extra.get(SELF, {}), **given}})


def _mark(payload: ReplyPayload, name: str) -> bool:
    return bool(payload.extra.get(SELF, {}).get(name))


def _compared(text: str) -> str:
    """Normalizes text for comparison: ignores case, spaces and a leading `Error:`."""
    return " ".join(text.split()).lower().removeprefix("error:").strip()


def _short(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def _cleaner(options: ReplyOptions) -> Cleaner:
    return Cleaner(tokens=options.tokens, allow_media=options.allow_media)


class ReplyStream:
    """The text of responses while they stream, as a channel may show it: no tokens, directives or reasoning.

    Feed it the events of an agent or of one stream; `reply` is the last finished response, if it is not empty.
    """

    def __init__(self, options: ReplyOptions | None = None) -> None:
        self.reply: ReplyPayload | None = None
        self._options = options or ReplyOptions()
        self._cleaner: Cleaner | None = None
        self._text: list[str] = []
        self._received: dict[int, int] = {}  # characters received of each block

    def feed(self, event: AgentEvent | StreamEvent) -> str:
        """Returns the text that may be shown now."""
        match event:
            case MessageStart() if isinstance(event.message, AssistantMessage):
                self._begin()
            case Start():
                self._begin()
            case MessageUpdate():
                return self.feed(event.assistant_message_event)
            case TextDelta():
                self._received[event.content_index] = self._received.get(event.content_index, 0) + len(event.delta)
                return self._cleaned(event.delta)
            case TextEnd():
                return self._cleaned(event.content[self._received.get(event.content_index, 0) :])
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

    def _cleaned(self, text: str) -> str:
        if self._cleaner is None:
            self._begin()
        assert self._cleaner is not None
        shown = self._cleaner.feed(text)
        self._text.append(shown)
        return shown

    def _end(self, message: AssistantMessage) -> str:
        shown = "" if self._received else self._cleaned(text_of(message.content))  # not streamed: delivered whole
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
