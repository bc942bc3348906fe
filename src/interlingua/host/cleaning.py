"""What a model writes, made fit for a channel: directives taken out, silence kept, reasoning left behind.

Text comes in pieces of any size, and the same words come out however it is cut. What may turn out to be a directive is
held back until that is decided, so nothing is shown that would have to be taken back:

    NO_REPLY, HEARTBEAT_OK      nothing is to be said; the token itself never shows
    [[reply_to_current]]        this answers the message at hand; [[reply_to: ID]] another one
    [[audio_as_voice]]          sound goes out as a voice note
    MEDIA:<path or URL>         on a line of its own: an attachment
    <think>…</think>            reasoning

In fenced code only the silent tokens count.
"""

import functools
import re
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from ..tools.untrusted import visible

SILENT = "NO_REPLY"
HEARTBEAT = "HEARTBEAT_OK"
TOKENS = (SILENT, HEARTBEAT)

AllowMedia: TypeAlias = Callable[[str], bool]

_QUOTES = "*`\"'"
_LONGEST_TAG = 220
_LONGEST_PLACE = 4096
_LONGEST_WORD = 40  # of what may stand in a tag of reasoning beside its name
_TAIL = _LONGEST_PLACE + 64  # no directive is longer
_THINKING = "think|thinking|thought|reasoning|antthinking"


class Marks(NamedTuple):
    """What is a directive, and what may become one when more comes; in code, less is."""

    directive: re.Pattern[str]
    in_code: re.Pattern[str]
    held: re.Pattern[str]
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
def marks(tokens: tuple[str, ...], directives: bool) -> Marks:
    """The patterns. Their lookbehinds see the last character that was already dealt with."""
    quotes = rf"[{_QUOTES}]{{0,3}}"
    token = rf"{quotes}(?<!\w)(?P<token>{'|'.join(map(re.escape, tokens))})(?!\w){quotes}"
    begun = rf"{quotes}(?<!\w)(?:{'|'.join(map(_prefixes, tokens))}){quotes}|[{_QUOTES}]{{1,3}}"
    fence_begun, tag_begun = rf"{_LINE_START}`{{0,2}}", rf"\[(?:\[[^\[\]\n]{{0,{_LONGEST_TAG}}}\]?)?"
    media_begun = rf"{_LINE_START}(?:{_prefixes('MEDIA:')}|MEDIA:[^\n]{{0,{_LONGEST_PLACE}}})"
    reasoning_begun = rf"(?<!`)<[^<>\n]{{0,{_LONGEST_WORD + 20}}}"
    in_code = [*([token] if tokens else []), _FENCE]
    pending_in_code = [*([begun] if tokens else []), fence_begun]
    return Marks(
        re.compile("|".join([*in_code, *([_TAG, _MEDIA] if directives else []), _REASONING])),
        re.compile("|".join(in_code)),
        _at_end(*pending_in_code, *([tag_begun, media_begun] if directives else []), reasoning_begun),
        _at_end(*pending_in_code),
    )


def _at_end(*patterns: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{'|'.join(patterns)})\Z")


def _prefixes(word: str) -> str:
    """A pattern for every beginning of a word, and the word: `N(?:O(?:_)?)?`."""
    pattern = ""
    for letter in reversed(word):
        pattern = re.escape(letter) + (f"(?:{pattern})?" if pattern else "")
    return pattern


def plain_place(place: str) -> bool:
    """Whether a place of media is an http(s) URL, or a path that does not climb."""
    if re.match(r"https?://[^\s]+\Z", place, re.IGNORECASE):
        return True
    return not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", place) and ".." not in re.split(r"[/\\]", place)


class Cleaner:
    """One text on its way to a channel. `feed` gives what may be shown, `end` the rest; then the fields are final.

    Without `directives`, only reasoning and the tokens are taken out.
    """

    def __init__(
        self, *, tokens: tuple[str, ...] = TOKENS, directives: bool = True, allow_media: AllowMedia = plain_place
    ) -> None:
        self.media: list[str] = []
        self.reply_to: str | None = None
        self.reply_to_current = False
        self.voice = False
        self.silent = False  # a token asked for silence
        self._tokens = tokens
        self._marks = marks(tokens, directives)
        self._allow_media = allow_media
        self._rest = ""  # what is held back because a directive may begin there
        self._before = ""  # the last character before the rest
        self._returned = ""  # a carriage return that may be half of an end of line
        self._in_code = False
        self._in_thought = False
        self._spaces = ""  # seen, and not yet known to stand between words
        self._last = ""  # the last character of the words before them
        self._cut = False  # something was taken out among these spaces
        self._opening: list[str] | None = []  # what would be shown, while it may still be a token in other letters
        self._core = ""  # the letters of that
        self._out: list[str] = []

    def feed(self, text: str) -> str:
        """The next piece of the text; what of it, and of what was held back, may be shown now."""
        text = self._returned + text
        self._returned = "\r" * text.endswith("\r")
        self._rest += visible(text.removesuffix("\r"))
        self._go_on(final=False)
        return self._taken()

    def end(self, *, complete: bool = True) -> str:
        """What was held back and may be shown after all. A text that was cut off may end in half a token: not shown."""
        self._go_on(final=True, complete=complete)
        opening, self._opening = self._opening, None
        if opening is not None:
            self._say_opening("".join(opening), complete)
        return self._taken()

    def _taken(self) -> str:
        out, self._out = "".join(self._out), []
        return out

    def _go_on(self, *, final: bool, complete: bool = True) -> None:
        text, at = self._before + self._rest, len(self._before)
        limits: dict[bool, int] = {}  # up to where the text may be read, in code and outside
        while at < len(text):
            if self._in_thought:
                at = self._after_thought(text, at, final)
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
            at = self._obeyed(found)
        self._rest, self._before = text[at:], text[max(at - 1, 0) : at]

    def _safe(self, text: str, at: int) -> int:
        """Up to where no directive can have begun."""
        pending = self._marks.pending_in_code if self._in_code else self._marks.held
        found = pending.search(text, max(at, len(text) - _TAIL))
        return found.start() if found is not None else len(text)

    def _after_thought(self, text: str, at: int, final: bool) -> int:
        """Where reasoning ends, or as far as it is known to go."""
        found = _CLOSING.search(text, at)
        if found is not None:
            self._in_thought = False
            return found.end()
        pending = None if final else _PARTIAL_CLOSING.search(text, max(at, len(text) - 48))
        return len(text) if pending is None else pending.start()

    def _obeyed(self, found: re.Match[str]) -> int:
        """Does what a directive says; where the text goes on behind it."""
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
        """Says words, and keeps the spaces behind them until more words come."""
        message = text.rstrip()
        if last:
            message = self._without_half(message, complete)
        bare = message.lstrip()
        if bare:
            self._say(self._gap(self._spaces + message[: len(message) - len(bare)], bare[0]) + bare)
            self._spaces, self._cut, self._last = text[len(text.rstrip()) :], False, bare[-1]
        else:
            self._spaces += text

    def _gap(self, spaces: str, word: str) -> str:
        """What stands between the words said last and a word: the spaces as they came, or few where something was."""
        if not self._cut:
            return spaces
        joined = bool(spaces) or bool(re.match(r"\w", self._last + word) and re.match(r"\w", word))
        return "\n" * min(spaces.count("\n"), 2) or " " * joined

    def _without_half(self, text: str, complete: bool) -> str:
        """The words without the beginning of a token at their end. `NO` is a word too, unless the text was cut off."""
        for token in self._tokens:
            least = 1 if not complete else token.find("_")
            for size in range(len(token) - 1, max(least, 1), -1):
                if text.endswith(token[:size]) and not re.search(r"\w\Z", text[:-size]):
                    self.silent = True
                    return text[:-size].rstrip()
        return text

    def _say(self, text: str) -> None:
        if self._opening is None:
            self._out.append(text)
            return
        self._opening.append(text)
        self._core += "".join(re.findall(r"\w", text)).upper()
        if not any(token.startswith(self._core) for token in self._tokens):
            self._out.append("".join(self._opening).lstrip())
            self._opening = None

    def _say_opening(self, text: str, complete: bool) -> None:
        """Says a text that is nothing but a token, the beginning of one, or no words at all, unless that is silence."""
        core = self._core
        half = core and ("_" in core or not complete)
        if core in self._tokens or half or (self.silent and not core):
            self.silent = True
        else:
            self._out.append(text.strip())


def without_reasoning(text: str) -> str:
    """The text without tags of reasoning and what stands in them."""
    cleaner = Cleaner(tokens=(), directives=False)
    return cleaner.feed(from_answer(text)) + cleaner.end()


def from_answer(text: str) -> str:
    """The text behind a closing tag of reasoning that was never opened: all before it was reasoning.

    All of the text where there is no such tag, or nothing behind it.
    """
    found = _CLOSING.search(text)
    if found is None or re.search(rf"<\s*(?:{_THINKING})\b", text[: found.start()], re.IGNORECASE):
        return text
    before, after = text[: found.start()], text[found.end() :]
    if before.endswith("`") or before.count("```") % 2:
        return text
    return after if after.strip() else before
