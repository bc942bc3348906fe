"""Automatic cache markers: turns `cache_retention` into markers where the provider needs them."""

from msgspec.structs import replace

from ...dialects.targets import CLAUDE
from ...values.messages import AssistantMessage, CacheMarker, TextBlock, ToolResultMessage, UserMessage
from .cache_markers import MAX_MARKERS, in_turn, places, seconds, takes_marker
from .work import Turn, Work, system_blocks


def place_markers(work: Work) -> None:
    """Turns `cache_retention` into markers, where the provider caches only what is marked.

    Markers go after the tools, the system text, the last message, and the message that ended the previous request: a
    provider looks back only a few blocks for an earlier prefix, and one turn may hold more. A text that carried a
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
