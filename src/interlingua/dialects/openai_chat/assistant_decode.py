"""The assistant's message, which has a place for each kind of content, read as blocks."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.losses import QUIET
from ...values.messages import AudioBlock, Block, DocumentBlock, ImageBlock, OpaqueBlock, TextBlock
from ..residual import RESPONSE, optional, residual, with_residual
from .assistant_encode import encode_spoken_sound, say
from .calls import decode_call
from .facts import API, DETAILS, INDEXED, PART, PARTS, REPEATS, THOUGHTS, TRACKS
from .hosts import Compat
from .parts import decode_part
from .sources import sourced
from .thinking import decode_detail, joined_text, plain_thought, usual_repeats


def decode_spoken(
    wire: dict[str, Any], compat: Compat, mint: Callable[[], str], *, answer: bool
) -> tuple[tuple[Block, ...], dict[str, Any]]:
    """The blocks of an assistant message, and what saying them again would get wrong about it."""
    tracks, marks = _decode_tracks(wire, compat, mint, answer=answer)
    blocks = sourced([block for track in TRACKS for block in tracks.get(track, ())], wire)
    return tuple(blocks), _spoken_residual(wire, blocks, marks, compat, answer=answer)


def _spoken_residual(
    wire: dict[str, Any], blocks: Iterable[Block], marks: dict[str, Any], compat: Compat, *, answer: bool
) -> dict[str, Any]:
    encoded = say(blocks, marks, compat, QUIET, answer=answer)
    content = wire.get("content")
    if isinstance(content, list) and not (
        isinstance(encoded["content"], list) and len(encoded["content"]) == len(content)
    ):
        marks[PARTS] = True
        encoded = say(blocks, marks, compat, QUIET, answer=answer)
    # The items of a list have their own residuals.
    lists = {
        key: encoded[key] for key in _LISTS if isinstance(wire.get(key), list) and isinstance(encoded.get(key), list)
    }
    return {**residual({**wire, **lists}, encoded), **marks}


_LISTS = ("content", DETAILS, "annotations", "images", "tool_calls")


def _decode_tracks(
    wire: dict[str, Any], compat: Compat, mint: Callable[[], str], *, answer: bool
) -> tuple[dict[str, list[Block]], dict[str, Any]]:
    """The blocks at each place of the message."""
    tracks: dict[str, list[Block]] = {}
    marks: dict[str, Any] = {}
    details = wire.get(DETAILS)
    if isinstance(details, list) and details:
        tracks[DETAILS] = [decode_detail(detail, at) for at, detail in enumerate(details)]
    _decode_thoughts(wire, tracks, marks, compat, answer=answer)
    content = wire.get("content")
    if isinstance(content, str):
        if content or not answer:
            tracks["content"] = [TextBlock(text=content)]
    elif isinstance(content, list):
        tracks["content"] = [decode_spoken_part(part) for part in content]
    elif content is not None:  # some hosts give structured output as an object
        tracks["content"] = [TextBlock(text=jsontext.compact(content))]
    refusal = wire.get("refusal")
    if isinstance(refusal, str) and refusal:
        tracks["refusal"] = [TextBlock(text=refusal, refusal=True)]
    if is_sound(wire.get("audio")):
        tracks["audio"] = [decode_spoken_sound(wire["audio"], answer=answer)]
    if is_legacy_call(wire.get("function_call")):
        tracks["function_call"] = [OpaqueBlock(dialect=API, value={"function_call": wire["function_call"]})]
    images = wire.get("images")
    if isinstance(images, list) and images:
        pictures = [decode_part(image) for image in images]
        if all(isinstance(picture, ImageBlock) for picture in pictures):
            tracks["images"] = pictures
    calls = wire.get("tool_calls")
    if isinstance(calls, list) and calls:
        if answer:
            calls = _without_indexes(calls, marks)
        tracks["tool_calls"] = [decode_call(call, mint, answer=answer) for call in calls]
    return tracks, marks


def _decode_thoughts(
    wire: dict[str, Any], tracks: dict[str, list[Block]], marks: dict[str, Any], compat: Compat, *, answer: bool
) -> None:
    """Thinking in plain fields, each wording once: what only repeats the details is noted, not read again."""
    message = joined_text(tracks.get(DETAILS, ()))
    repeats: list[str] = []
    names_of: dict[str, list[str]] = {}
    for name in THOUGHTS:
        text = wire.get(name)
        if isinstance(text, str) and text:
            if text == message:
                repeats.append(name)
            else:
                names_of.setdefault(text, []).append(name)
    for text, names in names_of.items():
        tracks[names[0]] = [plain_thought(text, names, compat)]
    if message and repeats != usual_repeats(bool(names_of), compat, answer=answer):
        marks[REPEATS] = repeats


def decode_spoken_part(wire: Any) -> Block:
    """A part of an assistant's content list; of media it is noted, since their usual place is another."""
    block = decode_part(wire)
    if isinstance(block, (ImageBlock, AudioBlock, DocumentBlock)):
        return with_residual(block, API, **{PART: True})
    return block


def is_sound(wire: Any) -> bool:
    return isinstance(wire, dict) and bool(optional(wire.get("id")) or optional(wire.get("data")))


def decode_spoken_sound(wire: dict[str, Any], *, answer: bool) -> AudioBlock:
    """Sound that the model made. An answer brings it whole; a request refers to it by its id."""
    sound = AudioBlock(file_id=optional(wire.get("id")))
    if answer:
        sound = replace(sound, data=optional(wire.get("data")), transcript=optional(wire.get("transcript")))
    extra_fields = residual(wire, encode_spoken_sound(sound, answer=answer))
    if not extra_fields:
        return sound
    return replace(sound, extra={API: {RESPONSE: extra_fields} if answer else extra_fields})


def is_legacy_call(wire: Any) -> bool:
    return isinstance(wire, dict) and bool(optional(wire.get("name")))


def _without_indexes(calls: list[Any], marks: dict[str, Any]) -> list[Any]:
    """The calls of a whole answer without the numbers that some hosts give them."""
    indexes = [call.get("index") if isinstance(call, dict) else None for call in calls]
    if not any(isinstance(call, dict) and "index" in call for call in calls):
        return calls
    marks[INDEXED] = True if indexes == list(range(len(calls))) else indexes
    return [{k: v for k, v in call.items() if k != "index"} if isinstance(call, dict) else call for call in calls]
