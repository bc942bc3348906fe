"""Tool results inside user messages: one wire message may hold several results, and user content beside them.

In our format each result is a message. Consecutive results share a wire message by default; the hint `~joined` records
where the wire did otherwise.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from ..values.losses import Reporter
from ..values.messages import (
    AssistantMessage,
    AudioBlock,
    Block,
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
)
from ..values.messages import (
    ToolResultMessage as Result,
)
from .residual import JOINED, MESSAGE, Ids, Mint, put_back, residual_of, with_residual


class OpenCalls:
    """The calls of the latest answer without a result so far, the names of all calls, and ids for those without one."""

    def __init__(self, mint: Mint | None) -> None:
        self.ids = Ids(mint)
        self.names: dict[str, str] = {}  # a repeated id refers to the latest call
        self.waiting: list[ToolCall] = []

    def called(self, message: AssistantMessage) -> None:
        """Adds the calls of an answer."""
        calls = message.tool_calls
        if calls:
            self.waiting = list(calls)
        for call in calls:
            self.names[call.id] = call.name

    def answered(self, id: Any, name: str | None = None) -> tuple[str, bool]:
        """The call id of a result, and whether it is generated: one without an id is of the next call by that name."""
        if isinstance(id, str) and id:
            self.waiting = [call for call in self.waiting if call.id != id]
            return id, False
        for at, call in enumerate(self.waiting):
            if name is None or call.name == name:
                del self.waiting[at]
                return call.id, True
        return self.ids.take(None)


def is_tool_result(block: Any) -> bool:
    """Whether a block is a `tool_result` of the Messages API."""
    return (
        isinstance(block, dict)
        and block.get("type") == "tool_result"
        and isinstance(block.get("tool_use_id"), str)
        and isinstance(block.get("content", ""), str | list | None)
        and isinstance(block.get("is_error", False), bool)
    )


def split_results(
    items: list[Any],
    is_result: Callable[[Any], bool],
    decode_result: Callable[[Any], ToolResultMessage],
    decode_block: Callable[[Any], Block],
) -> list[Message]:
    """The results of one wire message and the user content between them, as messages of ours."""
    pieces: list[Message] = []
    content: list[Block] = []
    for item in items:
        if not is_result(item):
            content.append(decode_block(item))
            continue
        if content:
            pieces.append(UserMessage(content=tuple(content)))
            content = []
        pieces.append(decode_result(item))
    if content:
        pieces.append(UserMessage(content=tuple(content)))
    return pieces


def mark_joined(pieces: list[Message], residual: Mapping[str, Any], before: Message | None, api: str) -> list[Message]:
    """The messages of one wire message, with `~joined` wherever they do not share it by default.

    `residual` is the residual of the wire message, `before` the message that precedes the pieces.
    """
    out: list[Message] = []
    for at, piece in enumerate(pieces):
        usual = isinstance(piece, ToolResultMessage) and isinstance(before, ToolResultMessage)
        if usual != (at > 0):
            piece = with_residual(piece, api, **{JOINED: at > 0})
        out.append(piece)
        before = piece
    if residual:
        out[0] = with_residual(out[0], api, **{MESSAGE: residual})
    return out


def add_user(
    encoded: list[dict[str, Any]], wire: dict[str, Any], residual: Mapping[str, Any], before: Message | None
) -> None:
    """Appends user content to the wire message of the results before it if it was there, else as a message."""
    if residual.get(JOINED) and isinstance(before, ToolResultMessage) and isinstance(wire["content"], list):
        encoded[-1]["content"].extend(wire["content"])
    else:
        encoded.append(put_back(wire, residual[MESSAGE]) if MESSAGE in residual else wire)


def add_result(
    encoded: list[dict[str, Any]], blocks: list[dict[str, Any]], residual: Mapping[str, Any], before: Message | None
) -> None:
    """Appends the blocks of a result to the wire message before it where they share one, else as a message."""
    # Anthropic and Bedrock refuse a user message between the results of one turn: they share one.
    joins = residual.get(JOINED, isinstance(before, ToolResultMessage))
    if joins and isinstance(before, (ToolResultMessage, UserMessage)) and isinstance(encoded[-1]["content"], list):
        encoded[-1]["content"].extend(blocks)
    else:
        wire = {"role": "user", "content": blocks}
        encoded.append(put_back(wire, residual[MESSAGE]) if MESSAGE in residual else wire)


# Media of tool results on wires whose results hold text only.
#
# On such wires `adapt` moves media into a user message after the results, with a label for each result. Decoding such a
# body moves them back into their results; `~moved` on a result is the number of its last blocks that were moved, so
# that encoding gives the same body. A result whose content was changed in between is encoded as it is.


MEDIA = (ImageBlock, AudioBlock, DocumentBlock)
PLACEHOLDER = "(see what follows the results)"  # the text of a result with nothing but media
MOVED = "~moved"
LABEL = "Attached to tool result "  # the prefix of a label

E = TypeVar("E")


def label(number: int, tool_name: str | None) -> str:
    """The text before the media of a result: its number among consecutive results, from 1, and the tool's name."""
    return f"{LABEL}{number} ({tool_name}):" if tool_name else f"{LABEL}{number}:"


class Layout(NamedTuple):
    """How a wire writes media: its name; whether a message may have several texts; whether text alone is a string."""

    api: str
    mixed: bool = True
    strings: bool = False


# --- wire to ours ----------------------------------------------------------------------------------------------------


def gathered(messages: tuple[Message, ...], layout: Layout) -> tuple[Message, ...]:
    """The messages with labelled media moved into their results, where encoding restores the same messages."""
    return _gathered(messages, layout)[0]


def _gathered(messages: tuple[Message, ...], layout: Layout) -> tuple[tuple[Message, ...], list[str]]:
    """The same, and the paths of what changes: the messages that are removed, the results that get media."""
    api = layout.api
    if not any(isinstance(message, UserMessage) and _is_labelled(message, api) for message in messages):
        return messages, []
    out: list[Message] = []
    changed: list[str] = []
    run: dict[int, int] = {}  # the places in `out` of the latest results -> those in `messages`
    labels: dict[str, int] = {}  # of these results -> their places in `out`
    for at, message in enumerate(messages):
        if isinstance(message, Result):
            if not (out and isinstance(out[-1], Result)):
                run, labels = {}, {}
            run[len(out)] = at
            labels[label(len(run), message.tool_name)] = len(out)
            out.append(message)
            continue
        filled = _gather(message, out, labels, api) if run and _is_labelled(message, api) else []
        if filled:
            changed += [f"$.messages[{at}]", *(f"$.messages[{run[place]}].content" for place in filled)]
        else:
            run, labels = {}, {}
            out.append(message)
    made = tuple(out)
    undone = spread(made, layout)
    return (made, changed) if undone is not None and _are_same(undone.messages, messages) else (messages, [])


def _are_same(some: tuple[Message, ...], others: tuple[Message, ...]) -> bool:
    """Whether both have equal content, as strings or as blocks; `extra` is not compared."""
    return len(some) == len(others) and all(
        one is other or (type(one) is type(other) and blocks_of(one.content) == blocks_of(other.content))
        for one, other in zip(some, others, strict=True)
    )


def _is_labelled(message: Message, api: str) -> bool:
    if not isinstance(message, UserMessage) or residual_of(message.extra, api):
        return False
    first = next(iter(blocks_of(message.content)), None)
    return isinstance(first, TextBlock) and first.text.startswith(LABEL)


def _gather(message: Message, out: list[Message], labels: Mapping[str, int], api: str) -> list[int]:
    """Moves labelled media into their results and returns the indexes of these; none if there is other content."""
    media: dict[int, list[Block]] = {}
    latest: list[Block] | None = None
    for block in blocks_of(message.content):
        if isinstance(block, MEDIA) and latest is not None:
            latest.append(block)
            continue
        place = labels.get(block.text) if isinstance(block, TextBlock) and block == TextBlock(text=block.text) else None
        if place is None or place in media:
            return []
        latest = media[place] = []
    for place, blocks in media.items():
        result: Any = out[place]
        own = tuple(block for block in blocks_of(result.content) if block != TextBlock(text=PLACEHOLDER))
        out[place] = with_residual(replace(result, content=(*own, *blocks)), api, **{MOVED: len(blocks)})
    return list(media)


# --- ours to wire ----------------------------------------------------------------------------------------------------


class Spread(NamedTuple):
    """Messages with media moved after their results, and the source path of each message and block."""

    messages: tuple[Message, ...]
    places: tuple[
        tuple[int, tuple[str, ...]], ...
    ]  # index of each message in the source, and the paths of moved blocks

    def rewrite_paths(self, report: Reporter, since: int) -> None:
        """Rewrites the paths of losses reported for these messages to paths in the source."""
        for at in range(since, len(report.losses)):
            found = _PLACE.fullmatch(report.losses[at].path)
            if found is not None:
                report.losses[at] = replace(report.losses[at], path=self.source(int(found[1]), found[2], found[3]))

    def source(self, message: int, block: str | None, rest: str) -> str:
        where, blocks = self.places[message]
        if block is None:
            return f"$.messages[{where}]{rest}"
        return f"{blocks[int(block)] if blocks else f'$.messages[{where}].content[{block}]'}{rest}"


_PLACE = re.compile(r"\$\.messages\[(\d+)\](?:\.content\[(\d+)\])?(.*)", re.DOTALL)


def encoded(messages: tuple[Message, ...], layout: Layout, encode: Callable[..., E], report: Reporter) -> E:
    """Encodes messages with media moved after the results; reported paths are those in `messages`."""
    if not _has_moved(messages):
        return encode(messages)
    found = spread(messages, layout)
    if found is None:
        for path in _gathered(messages, layout)[1]:
            report.at(path, "media", "labelled media are read as part of the result", "record")
        return encode(messages)
    since = len(report.losses)
    body = encode(found.messages)
    found.rewrite_paths(report, since)
    return body


def _has_moved(messages: tuple[Message, ...]) -> bool:
    """Whether media may be labelled or moved. A fast check, since most requests have none."""
    for message in messages:
        kind = type(message)
        if kind is Result:
            if message.extra:
                return True
        elif kind is UserMessage:
            content: Any = message.content
            first = content[0] if content and type(content) is not str else None
            text = first.text if type(first) is TextBlock else content
            if type(text) is str and text.startswith(LABEL):
                return True
    return False


def spread(messages: tuple[Message, ...], layout: Layout) -> Spread | None:
    """The messages with media moved after the results, as in the decoded body; None if none were moved."""
    if not any(isinstance(message, Result) and message.extra and _moved(message, layout.api) for message in messages):
        return None
    made: list[tuple[Message, int, tuple[str, ...]]] = []
    behind: list[tuple[Message, int, tuple[str, ...]]] = []  # messages after the consecutive results
    number = 0
    for at, message in enumerate(messages):
        if not isinstance(message, Result):
            made += [*behind, (message, at, ())]
            behind, number = [], 0
            continue
        number += 1
        count = _moved(message, layout.api)
        made.append((_without(message, count, layout) if count else message, at, ()))
        if count:
            content: Any = message.content
            path = f"$.messages[{at}].content"
            paths = (path, *(f"{path}[{place}]" for place in range(len(content) - count, len(content))))
            shown = (TextBlock(text=label(number, message.tool_name)), *content[-count:])
            if behind and layout.mixed:
                first, where, known = behind[0]
                behind = [(replace(first, content=(*blocks_of(first.content), *shown)), where, (*known, *paths))]
            else:
                behind.append((UserMessage(content=shown), at, paths))
    made += behind
    return Spread(tuple(message for message, _, _ in made), tuple((at, places) for _, at, places in made))


def _moved(result: Result, api: str) -> int:
    """The number of last blocks that were moved; 0 if they are gone."""
    count, content = residual_of(result.extra, api).get(MOVED), result.content
    if not isinstance(count, int) or not isinstance(content, tuple) or not 0 < count <= len(content):
        return 0
    return count if all(isinstance(block, MEDIA) for block in content[-count:]) else 0


def _without(result: Result, count: int, layout: Layout) -> Result:
    own: Any = result.content[:-count] or (TextBlock(text=PLACEHOLDER),)  # type: ignore[index]
    if layout.strings and len(own) == 1 and own[0] == TextBlock(text=getattr(own[0], "text", "")):
        own = own[0].text
    residual = {key: value for key, value in residual_of(result.extra, layout.api).items() if key != MOVED}
    others = {key: value for key, value in result.extra.items() if key != layout.api}
    return replace(result, content=own, extra={**others, layout.api: residual} if residual else others)
