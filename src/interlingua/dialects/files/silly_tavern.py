"""SillyTavern: a chat, one message a line behind a header with the names of the user and the character.

`mes` is the text that is shown; `swipes` are all answers that were made, of which `swipe_id` is shown: the others are
branches. A line with `is_system` is a note of the program that no model reads, unless it has `tool_invocations`: the
calls of a response with their results. A narrator's line is a system message. The model and what it thought are in
`extra`. The header's `chat_metadata` may hold a note of the author's, which is no message.
"""

import functools
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from ...values.errors import BadWire
from ...values.messages import AssistantMessage, Block, SystemMessage, TextBlock, ThinkingBlock, blocks_of
from ...values.request import Conversation, Entry, ModelDescriptor
from ..codec import ANSWER, USER
from ..residual import fields_of, optional, whole
from .line_sessions import ReadAgain, Reader, Record, line_format
from .program_content import attachment_of
from .reading import Node, Pairing, image_of, json_value, kept_record, result_content, seconds
from .records import milliseconds

API = "silly-tavern"

# Times as the program has written them: `2024-01-31@15h04m05s678ms`, `January 31, 2024 3:04pm`.
OWN = re.compile(r"(\d{4})-(\d\d?)-(\d\d?) ?@ ?(\d\d?)h ?(\d\d?)m ?(\d\d?)s ?(\d{1,3})?(?:ms)?")
UNUSED = "unused"  # newer versions write no names into the header
SHOWN = "%B %d, %Y %I:%M%p"


def _moment(value: Any) -> int | None:
    if not isinstance(value, str):
        return seconds(value)
    return _moment_of_text(value) if len(value) < _LONGEST else milliseconds(value)


_LONGEST = 100  # characters of a time: no longer text is remembered


@functools.lru_cache(1024)  # a chat shows minutes: messages in a row have the same text, and parsing it is slow
def _moment_of_text(value: str) -> int | None:
    own = OWN.fullmatch(value)
    try:
        if own:
            *parts, fraction = (int(part or 0) for part in own.groups())
            when = datetime(*parts, microsecond=fraction * 1000, tzinfo=UTC)  # type: ignore[arg-type, misc]
        elif (iso := milliseconds(value)) is not None:
            return iso
        else:
            when = datetime.strptime(value, SHOWN).replace(tzinfo=UTC)
        return round(when.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _nodes(lines: Iterable[Record], headers: list[Record]) -> Iterator[Node]:
    """The messages of the lines; the first header is added to `headers`."""
    before: str | None = None
    pairs = Pairing()
    for at, line in enumerate(lines):
        if _is_header(line):
            headers += [] if headers else [line]
            continue
        chosen = f"{at}"
        about = fields_of(line.get("extra"))
        if isinstance(about.get("tool_invocations"), list):
            yield chosen, before, _called(about["tool_invocations"], pairs, _moment(line.get("send_date")))
        elif not isinstance(line.get("mes"), str) or line.get("is_system") is True:
            yield chosen, before, [kept_record(API, "note", line)]
        elif about.get("type") == "narrator":
            yield chosen, before, [SystemMessage(content=line["mes"], timestamp=_moment(line.get("send_date")))]
        elif line.get("is_user") is True:
            content = (*_pictures(line), *_files(about), TextBlock(text=line["mes"]))
            yield chosen, before, [replace(USER, extra={}, content=content, timestamp=_moment(line.get("send_date")))]
        else:
            shown = _answer(line["mes"], about, line.get("send_date"))
            yield chosen, before, [replace(shown, content=(*blocks_of(shown.content), *_pictures(line)))]
            yield from _swipes(line, at, before)
        before = chosen


def _swipes(line: dict[str, Any], at: int, before: str | None) -> Iterator[Node]:
    swipes, infos = line.get("swipes"), line.get("swipe_info")
    for number, text in enumerate(swipes if isinstance(swipes, list) else ()):
        if number != (whole(line.get("swipe_id")) or 0) and isinstance(text, str):
            info = fields_of(infos[number] if isinstance(infos, list) and number < len(infos) else None)
            message = _answer(text, fields_of(info.get("extra")), info.get("send_date"))
            yield f"{at}.{number}", before, [message]


def _answer(text: str, extra: dict[str, Any], when: Any) -> AssistantMessage:
    blocks: list[Block] = [TextBlock(text=text)]
    if isinstance(extra.get("reasoning"), str) and extra["reasoning"]:
        blocks.insert(0, ThinkingBlock(thinking=extra["reasoning"]))
    return replace(
        ANSWER, extra={}, content=tuple(blocks), model=optional(extra.get("model")) or None, timestamp=_moment(when)
    )


def _called(invocations: list[Any], pairs: Pairing, when: int | None) -> list[Any]:
    """The response that asked for tools, and what they gave; arguments are JSON text."""
    calls, results = [], []
    for item in map(fields_of, invocations):
        id, given = item.get("id"), json_value(item.get("parameters"))
        calls.append(pairs.call(id, item.get("name"), given))
        results.append(pairs.result(id, item.get("name"), result_content(item.get("result"), API), timestamp=when))
    return [replace(ANSWER, extra={}, content=tuple(calls), timestamp=when), *results]


def _files(about: dict[str, Any]) -> Iterator[Block]:
    """Texts of files, which the model reads before the message; those on the server are not in the chat."""
    given = about.get("files")
    for file in [about.get("file"), *(given if isinstance(given, list) else ())]:
        text = fields_of(file).get("text")
        if isinstance(text, str) and text:
            yield TextBlock(text=text)


def _pictures(line: dict[str, Any]) -> Iterator[Block]:
    about = fields_of(line.get("extra"))
    given = about.get("media")
    media = [fields_of(item) for item in given] if isinstance(given, list) else []
    for image in (about.get("image"), *(item.get("url") for item in media if item.get("type") == "image")):
        found = image_of(image) if isinstance(image, str) and image else None
        if found is not None:
            yield found
    for item in media:
        if item.get("type") in ("audio", "video") and isinstance(item.get("url"), str):
            yield attachment_of(item["url"], f"{item['type']}/*", optional(item.get("title")))


def _is_header(value: Any) -> bool:
    return isinstance(value, dict) and "mes" not in value and "user_name" in value


def _is_line(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("mes"), str) and "is_user" in value


def _noting(lines: Iterable[Record], characters: list[str]) -> Iterator[Record]:
    """The lines; the name of the first that a character wrote is added to `characters`."""
    for line in lines:
        if not characters and line.get("is_user") is False and line.get("is_system") is not True:
            characters += [line["name"]] if isinstance(line.get("name"), str) else []
        yield line


class _Reader(Reader):
    def entries(self, records: Iterable[Record]) -> Iterator[Entry]:
        model: str | None = None
        headers: list[Record] = []
        characters: list[str] = []
        for id, parent, messages in _nodes(_noting(records, characters), headers):
            for at, message in enumerate(messages):
                own = id if at == len(messages) - 1 else f"{id}#{at}"
                yield Entry(message=message, id=own, parent_id=parent)
                parent = own
            if "." not in (id or ""):  # shown
                self.head = id
                model = next((one.model for one in messages if isinstance(one, AssistantMessage)), None) or model
        title = optional(headers[0].get("character_name")) if headers else None
        title = next(iter(characters), None) if title == UNUSED else title
        self.about = Conversation(title=title, model=ModelDescriptor(id=model) if model else None)


def _reader(lines: ReadAgain) -> Reader:
    if not any(_is_header(line) or _is_line(line) for line in lines()):
        raise BadWire(API, "expected lines with `mes` and `is_user`")
    return _Reader()


def detect(value: Any) -> str | None:
    """Whether a document is a chat: lines with `mes` and `is_user`, perhaps behind a header."""
    lines = [value] if isinstance(value, dict) else value
    if isinstance(lines, list) and lines and all(_is_line(line) or _is_header(line) for line in lines):
        return "lines with `mes` and `is_user`"
    return None


FORMAT = line_format(API, _reader, detect=detect, rank=20)
