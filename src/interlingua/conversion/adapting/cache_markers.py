"""Cache markers in the form that a target accepts, and their placement, so that each request reuses the last one's
cache.

Support for markers depends on the wire, and on the chat wire also on the host and the model. Where markers exist,
Anthropic's rules hold (platform.claude.com/docs/en/build-with-claude/prompt-caching): at most four; in the order tools,
system, messages a lifetime is never followed by a longer one; none on thinking or on blank text. Amazon Bedrock's cache
points follow the same rules (docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html).
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from ...dialects.generations import UNKNOWN
from ...dialects.registry import CLAUDE
from ...values.messages import (
    AssistantMessage,
    AudioBlock,
    Block,
    CacheMarker,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from ...values.request import ToolSpec
from .work import Turn, Work, is_plain, system_blocks

BREAKPOINT = "prompt_cache_breakpoint"  # OpenAI's own markers, on input content parts
MAX_MARKERS = 4
_PARTS = (TextBlock, ImageBlock, AudioBlock, DocumentBlock)


class MarkerPlace(NamedTuple):
    """The position of a marker, or a possible one: its path in the source, the value with it, and how to change it."""

    path: str
    holder: Any
    put: Callable[[Any], None]

    @property
    def cache(self) -> CacheMarker | None:
        return getattr(self.holder, "cache", None)

    def mark(self, cache: CacheMarker | None) -> None:
        self.put(replace(self.holder, cache=cache))


# --- positions of markers, in the order in which a provider reads ----------------------------------------------------


def places(work: Work) -> Iterator[MarkerPlace]:
    """Returns every position that can hold a marker."""
    yield from before_messages(work)
    yield from in_messages(work)


def before_messages(work: Work) -> Iterator[MarkerPlace]:
    for at, tool in enumerate(work.tools or ()):
        yield MarkerPlace(f"{work.tool(at)}.cache", tool, _tool_putter(work, at))
    own = work.system == work.source.context.system
    for at, block in enumerate(work.system if isinstance(work.system, tuple) else ()):
        yield MarkerPlace(f"$.system[{at}].cache" if own else "$.system", block, _system_putter(work, at))


def in_messages(work: Work) -> Iterator[MarkerPlace]:
    for turn in work.turns:
        yield from in_turn(turn)


def in_turn(turn: Turn) -> Iterator[MarkerPlace]:
    for at, block in enumerate(turn.blocks):
        # platform.claude.com/docs/en/build-with-claude/prompt-caching, What can be cached: thinking cannot be marked
        # itself.
        if not isinstance(block, ThinkingBlock | OpaqueBlock):
            yield MarkerPlace(f"{turn.places[at]}.cache", block, lambda value, at=at: turn.put(at, value))  # type: ignore[misc]
    if isinstance(turn.message, ToolResultMessage):
        path = f"{turn.path}.cache" if turn.at is not None else ""
        yield MarkerPlace(path, turn.message, lambda value: turn.set(cache=value.cache))


def _tool_putter(work: Work, at: int) -> Callable[[Any], None]:
    def put(value: ToolSpec) -> None:
        tools = work.tools or ()
        work.tools = (*tools[:at], value, *tools[at + 1 :])

    return put


def _system_putter(work: Work, at: int) -> Callable[[Any], None]:
    def put(value: TextBlock) -> None:
        blocks = system_blocks(work.system)
        work.system = (*blocks[:at], value, *blocks[at + 1 :])

    return put


# --- repairs --------------------------------------------------------------------------------------------------------


def max_markers_of(work: Work) -> int | None:
    if _breakpoints(work):
        return MAX_MARKERS
    if work.rules.cache_markers is None and work.rules.cache_breakpoints is not None:
        # platform.openai.com/docs/guides/prompt-caching: models before GPT-5.6 refuse the field.
        return None if work.generation is UNKNOWN else 0
    return work.rules.cache_markers


def _breakpoints(work: Work) -> bool:
    """Whether the model supports OpenAI's own markers, and the host is not known to use Anthropic's."""
    rules = work.rules
    return rules.cache_breakpoints is not None and bool(work.generation.cache_breakpoints) and not rules.cache_markers


def strip_markers(work: Work) -> None:
    """Removes all markers where the target takes none.

    Text that was split for markers is joined again, as hosts without markers expect it.
    """
    # Most are not, and each repair visits every block.
    work.is_marked = work.has_markers() or work.markers.longest is not None
    if not work.is_marked or max_markers_of(work) != 0:
        return
    work.is_marked, flat = False, work.rules.part_markers
    _report_stripped(before_messages(work), work)
    texts = system_blocks(work.system)
    if flat and any(block.cache is not None for block in texts) and all(map(is_plain, map(_unmarked, texts))):
        work.lost("$.system", "cache", "sent as one plain text")
        work.system = text_of(work.system)
    for turn in work.turns:
        _report_stripped(in_turn(turn), work)
        marked = any(getattr(block, "cache", None) is not None for block in turn.blocks)
        for place in list(in_turn(turn)):
            if place.cache is not None:
                place.mark(None)
        if flat and marked:
            _flatten(turn, work)
    for place in list(before_messages(work)):
        if place.cache is not None:
            place.mark(None)


def _report_stripped(found: Iterable[MarkerPlace], work: Work) -> None:
    for place in found:
        if place.cache is not None:
            work.lost(place.path, "cache", "the target takes no cache markers", "dropped")


def _unmarked(block: TextBlock) -> TextBlock:
    return replace(block, cache=None)


def _flatten(turn: Turn, work: Work) -> None:
    """Joins adjacent plain texts of a message; a message that has only text becomes a string."""
    blocks: list[Block] = []
    where: list[str] = []
    for block, place in zip(turn.blocks, turn.places, strict=True):
        if blocks and is_plain(block) and is_plain(blocks[-1]):
            blocks[-1], where[-1] = TextBlock(text=text_of((blocks[-1], block))), ""
        else:
            blocks.append(block)
            where.append(place)
    text = len(blocks) == 1 and is_plain(blocks[0]) and isinstance(turn.message, UserMessage)
    if len(blocks) == len(turn.blocks) and not text:
        return
    if turn.at is not None:
        work.lost(f"{turn.path}.content", "cache", "sent as one plain text")
    turn.blocks, turn.places, turn.changed = blocks, where, True
    if text:
        turn.set(content="")  # a message that had a string gets one


def strip_where_refused(work: Work) -> None:
    """Removes markers from blank text; from output parts on OpenAI; and from tools where the wire has none there."""
    if not work.is_marked:
        return
    breakpoints = _breakpoints(work)
    for place in list(places(work)):
        if place.cache is None:
            continue
        holder = place.holder
        # …, What cannot be cached: empty text blocks.
        if isinstance(holder, TextBlock) and not holder.text.strip():
            why = "a blank text cannot be marked"
        elif isinstance(holder, ToolSpec) and (breakpoints or not work.rules.cached_tools):
            why = "a tool cannot be marked here"
        elif breakpoints and not isinstance(holder, _PARTS):
            why = "only what the model reads can be marked"
        else:
            continue
        work.lost(place.path, "cache", why, "dropped")
        place.mark(None)


def shorten_lifetimes(work: Work) -> None:
    """Shortens lifetimes to one that the target has, and never longer than an earlier one."""
    if not work.is_marked:
        return
    # …, Mixing different TTLs: entries with a longer lifetime come before those with a shorter one; the prefix is read
    # as tools, system, messages.
    longest = _shorten_in(before_messages(work), None, work)
    longest = _shorten_in(in_messages(work), work.markers.longest or longest, work)
    work.markers = work.markers._replace(longest=longest)
    if longest is not None and _is_automatic(work) and work.options.cache_retention == "long" and _is_short(longest):
        work.lost("$.options.cacheRetention", "cache", "a lifetime cannot be longer than one before it")
        work.options = replace(work.options, cache_retention="short")


def _shorten_in(found: Iterable[MarkerPlace], longest: CacheMarker | None, work: Work) -> CacheMarker | None:
    """Shortens lifetimes in these places; returns the last marker, which is `longest` if there is none."""
    for place in list(found):
        cache = place.cache
        if cache is None:
            continue
        if not work.rules.long_cache and seconds(cache) > _SHORT:
            work.lost(place.path, "cache", "the target keeps caches for five minutes")
            cache = replace(cache, ttl=None)
        if longest is not None and seconds(cache) > seconds(longest):
            work.lost(place.path, "cache", "a lifetime cannot be longer than one before it")
            cache = replace(cache, ttl=longest.ttl)
        if cache is not place.cache:
            place.mark(cache)
        longest = cache
    return longest


def drop_surplus(work: Work) -> None:
    """Keeps the last markers, which cover the longest prefixes."""
    max_markers = max_markers_of(work) if work.is_marked else None
    if max_markers is None:
        return
    first = [place for place in before_messages(work) if place.cache is not None]
    own = [place for place in in_messages(work) if place.cache is not None]
    # …, up to four breakpoints; the automatic one takes one of these.
    markers, room = work.markers, max_markers - _is_automatic(work)
    before = len(first) if markers.before is None else markers.before
    work.markers = markers._replace(before=before, own=markers.own + len(own))
    if work.earlier is None:
        surplus = before + len(own) - room
    else:  # of a piece
        surplus = before + work.earlier.totals.markers - room if work.earlier.totals is not None else 0
    numbered = (*enumerate(first), *enumerate(own, before + markers.own))
    for place in [place for number, place in numbered if number < surplus]:
        work.lost(place.path, "cache", f"the target takes at most {max_markers} cache markers", "dropped")
        place.mark(None)


def _is_automatic(work: Work) -> bool:
    """Whether the request asks the provider to mark its end, which counts as a marker."""
    return work.rules.automatic_cache and work.options.cache_retention in ("short", "long")


def drop_lifetimes(work: Work) -> None:
    """Drops Anthropic's lifetimes, which OpenAI does not have."""
    if not work.is_marked or not _breakpoints(work):
        return
    api = work.rules.api
    for place in list(places(work)):
        cache = place.cache
        if cache is None or cache.extra.get(api, {}).get("~as") == BREAKPOINT:
            continue
        if cache.ttl in ("5m", "1h"):
            work.lost(place.path, "cache", "the target keeps caches for a time of its own")
            cache = replace(cache, ttl=None)
        if work.rules.cache_breakpoints:
            cache = replace(cache, extra={**cache.extra, api: work.rules.cache_breakpoints})
        if cache is not place.cache:
            place.mark(cache)


# …, 1-hour cache duration: five minutes without `ttl`.
_SHORT = 300
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds(cache: CacheMarker) -> int:
    """Returns a marker's lifetime; five minutes by default."""
    given = re.fullmatch(r"(\d+)([smhd])", cache.ttl or "")
    return int(given[1]) * _UNITS[given[2]] if given else _SHORT


def _is_short(cache: CacheMarker) -> bool:
    return seconds(cache) <= _SHORT


# Adjust markers to the positions, number and lifetimes that the target supports.
FIT_MARKERS = (strip_markers, strip_where_refused, shorten_lifetimes, drop_surplus, drop_lifetimes)


# --- automatic markers -----------------------------------------------------------------------------------------------


def place_markers(work: Work) -> None:
    """Turns `cache_retention` into markers, where the provider caches only what is marked.

    Markers go after the tools, the system text, the last message, and the message that ended the previous request: a
    provider looks back only a few blocks for an earlier prefix, and one turn may hold more. A text that had a
    marker keeps its shape after the marker has moved, so that the same prefix gives the same bytes.
    """
    retention = work.options.cache_retention
    if not work.caching or retention not in ("short", "long"):
        return
    if not (work.rules.cache_markers and work.home == CLAUDE):
        if retention == "short":  # the provider does this anyway
            work.options = replace(work.options, cache_retention=None)
        return
    work.options = replace(work.options, cache_retention=None)
    _shape_for_markers(work)
    marked = [place for place in places(work) if place.cache is not None]
    in_turns = sum(place.cache is not None for turn in work.turns for place in in_turn(turn))
    cache = CacheMarker(ttl="1h" if retention == "long" else None)
    free = MAX_MARKERS - len(marked)
    if not in_turns:
        # …, automatic prefix checking looks back about 20 blocks from a breakpoint: the end of the previous request is
        # marked, too, so that it is found after a long turn.
        ends = _ends(work.turns)[: max(0, free)]
        free -= len(ends)
        for turn in ends:
            _mark_end(turn, cache, work)
    if len(marked) == in_turns:
        longest = max((cache, *(place.cache for place in marked if place.cache)), key=seconds)
        _mark_beginning(work, CacheMarker(ttl=longest.ttl), free)


def _shape_for_markers(work: Work) -> None:
    """Turns text that may carry a marker into a block, whether or not it carries one now."""
    if isinstance(work.system, str) and work.system.strip():
        work.system = (TextBlock(text=work.system),)
    for turn in work.turns:
        is_result = isinstance(turn.message, ToolResultMessage) and work.rules.part_markers
        if (is_result or isinstance(turn.message, UserMessage)) and isinstance(turn.message.content, str):
            turn.set(content=tuple(turn.blocks))
        if is_result:
            own = turn.message.extra.get(work.rules.api, {})
            turn.set(extra={**turn.message.extra, work.rules.api: {**own, "~parts": True}})


def _mark_beginning(work: Work, cache: CacheMarker, free: int) -> None:
    blocks = system_blocks(work.system)
    if free > 0 and blocks and blocks[-1].text.strip():
        work.system = (*blocks[:-1], replace(blocks[-1], cache=cache))
        free -= 1
    if free > 0 and work.tools and work.rules.cached_tools:
        work.tools = (*work.tools[:-1], replace(work.tools[-1], cache=cache))


def _ends(turns: list[Turn]) -> list[Turn]:
    """Returns the last message of the request, and the last message of the previous request."""
    ends: list[Turn] = []
    answered = True  # whether the model responded to the previous message
    for turn in reversed(turns):
        if isinstance(turn.message, AssistantMessage):
            answered = True
        elif answered:
            ends.append(turn)
            answered = False
        if len(ends) == 2:
            break
    return ends


def _mark_end(turn: Turn, cache: CacheMarker, work: Work) -> None:
    # The chat wire has markers on content parts only; other wires mark a result as a whole.
    if isinstance(turn.message, ToolResultMessage) and not work.rules.part_markers:
        turn.set(cache=cache)
        return
    at = next((at for at in range(len(turn.blocks) - 1, -1, -1) if takes_marker(turn.blocks[at])), None)
    if at is not None:
        turn.put(at, replace(turn.blocks[at], cache=cache))


# --- markers on thinking ---------------------------------------------------------------------------------------------


_UNMARKABLE = frozenset({ThinkingBlock, OpaqueBlock})


def move_from_thinking(work: Work) -> None:
    """Moves a marker on thinking, or a bare one after it, to the next block that can carry it, else an earlier one."""
    max_markers = max_markers_of(work)
    for turn in work.turns:
        if _UNMARKABLE.isdisjoint(map(type, turn.blocks)):
            continue
        kept: list[int] = []
        moving: list[tuple[int, CacheMarker, str]] = []  # after which kept block, what, from where
        for at, block in enumerate(turn.blocks):
            cache, path = _take_misplaced(turn, at, work)
            if cache is not None:
                moving.append((len(kept), cache, path))
            if not (isinstance(block, OpaqueBlock) and cache is not None):
                kept.append(at)
        if moving:
            turn.keep(kept)
        for behind, cache, path in moving:
            target = None if max_markers == 0 else _carrier(turn, behind)
            if target is None:
                work.lost(path, "cache", "thinking cannot be marked", "dropped")
                continue
            work.lost(path, "cache", "thinking cannot be marked: moved to a block that can")
            work.lost(f"{turn.places[target]}.cache", "cache", "moved here from thinking")
            turn.put(target, replace(turn.blocks[target], cache=cache))


def _take_misplaced(turn: Turn, at: int, work: Work) -> tuple[CacheMarker | None, str]:
    """Removes and returns a marker from a block that may not have one."""
    block, place, api = turn.blocks[at], turn.places[at], work.rules.api
    if isinstance(block, ThinkingBlock):
        own = block.extra.get(api, {})
        marker = own.get("cache_control")
        if not isinstance(marker, dict):
            return None, ""
        turn.put(at, replace(block, extra=_without(block.extra, api, "cache_control")))
        return CacheMarker(ttl=_ttl(marker)), f"{place}.extra.{api}.cache_control"
    point = block.value.get("cachePoint") if isinstance(block, OpaqueBlock) and isinstance(block.value, dict) else None
    return (CacheMarker(ttl=_ttl(point)), place) if isinstance(point, dict) else (None, "")


def _ttl(marker: dict[str, Any]) -> str | None:
    ttl = marker.get("ttl")
    return ttl if isinstance(ttl, str) else None


def _without(extra: dict[str, Any], api: str, key: str) -> dict[str, Any]:
    own = {name: value for name, value in extra[api].items() if name != key}
    rest = {name: value for name, value in extra.items() if name != api}
    return {**rest, api: own} if own else rest


def _carrier(turn: Turn, behind: int) -> int | None:
    """Returns the next block that can carry a marker, else the last one before; None if that has one already."""
    order = [*range(behind, len(turn.blocks)), *range(behind - 1, -1, -1)]
    found = next((at for at in order if takes_marker(turn.blocks[at])), None)
    return found if found is not None and turn.blocks[found].cache is None else None


def takes_marker(block: Block) -> bool:
    if isinstance(block, ThinkingBlock | OpaqueBlock):
        return False
    return not (isinstance(block, TextBlock) and not block.text.strip())
